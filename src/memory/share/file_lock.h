/* A lock on a byte of a file, for which a process waits with patience: who holds it may have been stopped, by SIGSTOP
 * or a debugger, and must not stop all others without a word. */
#ifndef CANNON_MEMORY_SHARE_FILE_LOCK_H
#define CANNON_MEMORY_SHARE_FILE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* How long a holder, who needs the lock for microseconds, may keep it before it is named on stderr and in the log, and
 * before the wait is given up; milliseconds. Once it was given up, later waits for the same holder last until the
 * former. Tests set others. */
typedef struct {
  unsigned until_words_ms, until_failure_ms;
} file_lock_times;
extern INTERNAL file_lock_times file_lock_patience;

/* Takes the write lock (fcntl) on the byte. False where it was waited for in vain, and `why` names the process that has
 * it, or where the file takes no lock, and `why` says so. brief: as if a wait was given up before. One thread of a
 * process at a time; path is for words only. */
bool file_lock_wait(int fd, off_t byte, const char *path, bool brief, char *why, size_t why_bytes);

#endif
