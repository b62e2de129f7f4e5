/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

enum { LINE_BYTES = 1024 };

static log_level threshold = LOG_ERROR;
static bool to_stdout;
static int file = -1;
int log_least = LOG_DEBUG;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_log(void) {
  const char *level = getenv("ASCEND_GLOBAL_LOG_LEVEL");
  if (level && level[0] >= '0' && level[0] <= '4' && !level[1]) threshold = (log_level)(level[0] - '0');
  const char *print = getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  to_stdout = print && strcmp(print, "1") == 0;
  const char *folder = getenv("ASCEND_PROCESS_LOG_PATH");
  if (folder && folder[0]) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/plog-%d.log", folder, (int)getpid()) >= (int)sizeof path) return;
    file = file_open_own(path, 0640);
    if (file >= 0)
      fcntl(file, F_SETFL, O_APPEND); /* appends to what an earlier process of the same number wrote */
    else
      fprintf(stderr, "cannon: the log %s can't be written: %s\n", path, file_error(errno));
  }
}

bool log_would_write(log_level level) {
  pthread_once(&once, open_log);
  const bool writes = to_stdout || file >= 0;
  __atomic_store_n(&log_least, writes ? (int)threshold : (int)LOG_NONE, __ATOMIC_RELAXED);
  return level >= threshold && level < LOG_NONE && writes;
}

/* One write per line, so that lines of several threads do not mix. */
static void emit(log_level level, const char *place, const char *text) {
  static const char *const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  char line[LINE_BYTES + 256], when[32];
  struct timespec now;
  struct tm local;
  clock_gettime(CLOCK_REALTIME, &now);
  strftime(when, sizeof when, "%Y-%m-%d-%H:%M:%S", localtime_r(&now.tv_sec, &local));
  int n = snprintf(line, sizeof line, "[%s] CANNON(%d,%s):%s.%03ld %s%s\n", names[level], (int)getpid(),
                   program_invocation_short_name, when, now.tv_nsec / 1000000, place, text);
  if (n >= (int)sizeof line) line[n = sizeof line - 1] = '\n';
  if (to_stdout) {
    fflush(stdout);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0) to_stdout = false;
  }
  if (file >= 0 && write(file, line, (size_t)n) < 0) file = -1;
}

void log_line(log_level level, const char *format, ...) {
  if (!log_wanted(level)) return;
  char text[LINE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  emit(level, "", text);
}

void log_user_line(log_level level, const char *function, const char *source, unsigned line, const char *format,
                   va_list args) {
  if (!log_wanted(level)) return;
  char text[LINE_BYTES], place[160];
  vsnprintf(text, sizeof text, format, args);
  snprintf(place, sizeof place, "[%s:%u] %s: ", source ? source : "?", line, function ? function : "?");
  emit(level, place, text);
}
