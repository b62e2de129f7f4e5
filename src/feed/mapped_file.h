/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mapped for reading, whole, and stay usable when they shrink.
 *
 * An access behind the end of a file that was cut short, or to a page that the disk cannot deliver, raises SIGBUS. The
 * handler of this module then puts zero pages in the place of that page and all behind it, and notes where the file is
 * broken; the access goes on and reads zeros, in whichever thread it was: a decoder of the user's, or a copy. Whoever
 * has used bytes of the file asks mapped_check() afterwards whether they were those of the file. Faults elsewhere go to
 * the handler that was installed before.
 *
 * The working set is bounded: after WINDOW_BYTES were used, mapped_used() gives the pages of the mapping back to the
 * page cache, from where they come again without reading the disk, if there is memory for them.
 *
 * Called by reader.c and record_index.c. Thread-safe. */
#ifndef CANNON_FEED_MAPPED_FILE_H
#define CANNON_FEED_MAPPED_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* What the signal handler needs of a mapping. Nodes are never freed, but used again for later mappings. */
typedef struct mapped_region mapped_region;

typedef struct {
  const unsigned char *data; /* NULL: the file is empty */
  uint64_t bytes;            /* the size of the file when it was opened */
  char *path;                /* as it was given, for messages */
  dev_t device;
  ino_t inode;
  mapped_region *region;
  _Atomic uint64_t used_bytes; /* since the last time at which pages were given back */
} mapped_file;

/* Maps a regular file. ST_INVALID_VALUE, with the file's name, if it can't be opened or is none. The path is copied. */
status mapped_open(const char *path, mapped_file *out);
void mapped_close(mapped_file *f);

/* Whether the bytes up to `end`, which were used before, are those of the file: ST_FAILURE if it was cut short, or
 * could not be read. One system call. */
status mapped_check(const mapped_file *f, uint64_t end);

/* Asks the kernel to read a range ahead. */
void mapped_want(const mapped_file *f, uint64_t offset, uint64_t bytes);

/* So many bytes at one place were used. Gives pages back when enough of them were. */
void mapped_used(mapped_file *f, uint64_t bytes);

#endif
