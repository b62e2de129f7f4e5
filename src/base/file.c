#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

bool file_may_have(uint64_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return true;
  errno = EFBIG;
  return false;
}

int file_in_memory(const char *name, uint64_t bytes) {
  if (!file_may_have(bytes)) return -1;
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes) == 0) return file;
  const int error = errno;
  close(file);
  errno = error;
  return -1;
}

const char *file_error(int error) {
  switch (error) {
  case EFBIG: return "the process may not have files of that size (ulimit -f), expected no such limit";
  case EMFILE: return "the process has as many open files as it may (ulimit -n), expected a higher limit";
  default: return strerror(error);
  }
}
