/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit/history_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/check/lines.h"

typedef struct {
  history_tell *tell;
  void *argument;
} line_listener;

static void on_frame(const source_frame *frame, void *argument) {
  const line_listener *to = argument;
  if (!frame->file && !frame->function) return;
  to->tell(&(history_line){frame->file, frame->function, frame->line > 0 ? (uint32_t)frame->line : 0}, to->argument);
}

static void find_c_lines(const char *object, uint64_t offset, history_tell *tell, void *argument) {
  lines_walk(object, offset, on_frame, &(line_listener){tell, argument});
}

history *history_open_data(const void *data, size_t n, char error[256]) {
  return history_read_with(data, n, find_c_lines, error);
}

history *history_open(const char *path, char error[256]) {
  struct stat s;
  history *h = NULL;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &s) || (!S_ISREG(s.st_mode) && (errno = EINVAL)))
    snprintf(error, 256, "%s", strerror(errno));
  else if (!s.st_size)
    snprintf(error, 256, "the file is empty");
  else {
    void *data = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
      snprintf(error, 256, "%s", strerror(errno));
    else {
      h = history_open_data(data, (size_t)s.st_size, error);
      munmap(data, (size_t)s.st_size);
    }
  }
  if (fd >= 0) close(fd);
  return h;
}
