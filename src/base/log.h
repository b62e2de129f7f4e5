/* SPDX-License-Identifier: Apache-2.0 */
/* The log. Its levels are those of ASCEND_GLOBAL_LOG_LEVEL: 0 debug, 1 info, 2 warning, 3 error (the default), 4
 * nothing. Lines go to stdout if ASCEND_SLOG_PRINT_TO_STDOUT is 1, and to <dir>/plog-<pid>.log if
 * ASCEND_PROCESS_LOG_PATH names a directory; otherwise nowhere. Any thread. */
#ifndef CANNON_BASE_LOG_H
#define CANNON_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>

typedef enum { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR, LOG_NONE } log_level;

/* For log_wanted: no line below this level is written anywhere. It is LOG_DEBUG until the log has been opened. */
extern int log_least;
bool log_would_write(log_level level);

/* Whether a line of this level would be written anywhere; cheap, so callers may ask before they format. */
static inline bool log_wanted(log_level level) {
  return (int)level >= __atomic_load_n(&log_least, __ATOMIC_RELAXED) && log_would_write(level);
}

__attribute__((format(printf, 2, 3))) void log_line(log_level level, const char *format, ...);

/* As log_line, for a line of the user (aclAppLog) with its place in the source. Cut at 1024 bytes. */
void log_user_line(log_level level, const char *function, const char *file, unsigned line, const char *format,
                   va_list args);

#endif
