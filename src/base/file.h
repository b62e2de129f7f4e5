/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the library and its tools make under names that users give or that others can guess. A folder such as /tmp
 * belongs to everybody: a name in it may be another user's file, or a symbolic link by which another user points at one
 * of our files. These functions neither follow a link at the end of a path nor write into a file of another user. Any
 * thread. */
#ifndef CANNON_BASE_FILE_H
#define CANNON_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Whether the process may have files of so many bytes; false with errno EFBIG. To be asked before a file grows: beyond
 * the limit (RLIMIT_FSIZE) the kernel sends SIGXFSZ, which ends a program that does not expect it. */
bool file_may_have(uint64_t bytes);

/* Makes a sparse file in memory, without a name in any folder. Returns its descriptor, or -1 with errno. */
int file_in_memory(const char *name, uint64_t bytes);

/* Makes a new file for reading and writing, closed on exec. -1 with errno: EEXIST where anything has that name. */
int file_create(const char *path, mode_t mode);

/* Opens a file of this user for reading and writing at its start, closed on exec; makes it if it does not exist and
 * keeps its contents if it does. Terminals, other character devices and pipes are opened for writing. For the name of a
 * descriptor (file_descriptor_of) it returns a duplicate of the descriptor, so that what is written follows what was
 * written there before. -1 with errno, which file_error explains: ELOOP, EISDIR, EPERM (another user's file, or one
 * with several names), EINVAL (anything else). */
int file_open_own(const char *path, mode_t mode);

/* Returns N for "/dev/fd/N" and "/proc/self/fd/N", 1 for "/dev/stdout", 2 for "/dev/stderr", otherwise -1. */
int file_descriptor_of(const char *path);

/* Whether the file begins with this text. The descriptor's position does not change. */
bool file_begins(int fd, const char *text);

/* Writes all bytes. False with errno. */
bool file_write(int fd, const void *data, size_t bytes);

/* Makes a folder, or accepts an existing one of this user that nobody else may write to. False with errno, as above. */
bool file_make_folder(const char *path, mode_t mode);

/* The words for an errno of these functions: what is wrong with a name, or which limit of the process is reached;
 * strerror's words for other numbers. */
const char *file_error(int error);

#endif
