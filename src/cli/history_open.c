/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/history_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/lines.h"

static bool find_c_line(const char *object, uint64_t offset, history_line *line) {
  const source_line found = lines_find(object, offset);
  *line = (history_line){found.file, found.function, found.line > 0 ? (uint32_t)found.line : 0};
  return found.file || found.function;
}

history *history_open_data(const void *data, size_t n, char error[256]) {
  return history_read_with(data, n, find_c_line, error);
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
