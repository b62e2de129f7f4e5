/* SPDX-License-Identifier: Apache-2.0 */
/* A lock on a byte of a file, for which a process waits for a limited time: its holder may have been stopped, by
 * SIGSTOP or a debugger, and must not stop all other processes without a message. Used by machine.c; calls only the
 * system and the log. */
#ifndef CANNON_MEMORY_SHARE_FILE_LOCK_H
#define CANNON_MEMORY_SHARE_FILE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* Times in milliseconds. A holder needs the lock for microseconds. After until_words_ms it is named on stderr and in
 * the log, after until_failure_ms the wait fails. Once a wait for a holder has failed, later waits for the same one
 * fail after until_words_ms. Tests set other times. */
typedef struct {
  unsigned until_words_ms, until_failure_ms;
} file_lock_times;
extern INTERNAL file_lock_times file_lock_patience;

/* Takes the write lock (fcntl) on the byte. False after the wait has failed, and `why` names the process that holds the
 * lock, or where the file can't be locked, and `why` says why. brief: fail after until_words_ms. path: for messages.
 * Not thread-safe. */
bool file_lock_wait(int fd, off_t byte, const char *path, bool brief, char *why, size_t why_bytes);

#endif
