/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/share/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sync.h"
#include "base/text.h"

enum { SHORTEST_NAP_NS = 20 * 1000, LONGEST_NAP_NS = 1000 * 1000, NAME_BYTES = 80 };

file_lock_times file_lock_patience = {.until_words_ms = 2000, .until_failure_ms = 30000};

static pid_t named,
    given_up; /* the holder that was named, and that for which a wait has failed; 0 again once the lock is taken */

static bool file_lock_try(int fd, off_t byte) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(fd, F_SETLK, &l) == 0;
}

/* The process that holds the byte's lock; 0: it has just released it, or its id is not visible in this container. */
static pid_t file_lock_holder(int fd, off_t byte) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK && l.l_pid > 0 ? l.l_pid : 0;
}

/* Stores a process's name, without characters that could confuse a terminal; returns whether it is stopped. */
static bool file_lock_describe_process(pid_t pid, char name[NAME_BYTES]) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  snprintf(name, NAME_BYTES, "?");
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
  if (fd >= 0) close(fd);
  line[n > 0 ? n : 0] = '\0';
  char *first = strchr(line, '('), *last = strrchr(line, ')'); /* pid (name) state ... */
  if (!first || !last || last < first || strlen(last) < 3) return false;
  text_safe(name, NAME_BYTES, first + 1, (size_t)(last - first - 1));
  return last[2] == 'T' || last[2] == 't';
}

/* Says who holds the lock, as the beginning of a sentence. */
static void file_lock_write_holder(pid_t pid, const char *path, char *words, size_t bytes) {
  char name[NAME_BYTES];
  if (!pid) {
    snprintf(words, bytes, "a process of another container keeps %.128s locked", path);
    return;
  }
  const bool stopped = file_lock_describe_process(pid, name);
  snprintf(words, bytes, "process %d (%s)%s keeps %.128s locked", (int)pid, name, stopped ? ", which is stopped," : "",
           path);
}

static void file_lock_name_holder(pid_t pid, const char *path, unsigned waited_ms, unsigned left_ms) {
  char words[256];
  if (named == pid) return;
  named = pid;
  file_lock_write_holder(pid, path, words, sizeof words);
  fprintf(stderr,
          "cannon: %s: no device memory can be accounted for %u s now, %u s more are waited; continue that process "
          "(kill -CONT), or end it\n",
          words, waited_ms / 1000, left_ms / 1000);
  log_line(LOG_WARNING, "%s: no device memory can be accounted for %u s now, %u s more are waited", words,
           waited_ms / 1000, left_ms / 1000);
}

bool file_lock_wait(int fd, off_t byte, const char *path, bool brief, char *why, size_t why_bytes) {
  const file_lock_times patience = file_lock_patience;
  const uint64_t ms = 1000000, started_ns = now_ns();
  long nap_ns = SHORTEST_NAP_NS;
  while (!file_lock_try(fd, byte)) {
    if (errno != EACCES && errno != EAGAIN && errno != EINTR) {
      snprintf(why, why_bytes, "%.128s: %s", path, strerror(errno));
      return false;
    }
    const uint64_t waited_ms = (now_ns() - started_ns) / ms;
    if (waited_ms >= patience.until_words_ms) {
      const pid_t holder = file_lock_holder(fd, byte);
      const bool again = brief || (given_up && given_up == holder);
      const unsigned limit_ms = again ? patience.until_words_ms : patience.until_failure_ms;
      if (waited_ms >= limit_ms) {
        given_up = holder;
        file_lock_write_holder(holder, path, why, why_bytes);
        return false;
      }
      file_lock_name_holder(holder, path, (unsigned)waited_ms, limit_ms - (unsigned)waited_ms);
    }
    nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
    if (nap_ns < LONGEST_NAP_NS) nap_ns *= 2;
  }
  named = given_up = 0;
  return true;
}
