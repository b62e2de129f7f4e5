/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point that writes .om files (include/cannon/model.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/model/mdl.h"
#include "cannon/model.h"
#include "graph/file/om.h"

static status not_written(const char *path, const char *why) {
  return fail(ST_MODEL_PATH, "%s cannot be written: %s", path, why);
}

/* Whether a file of that name may be replaced: there is none, it is empty, or an .om file. */
static status check_replaceable(const char *path) {
  char head[4];
  struct stat info;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? ST_OK : not_written(path, strerror(errno));
  const bool regular = !fstat(fd, &info) && S_ISREG(info.st_mode);
  const ssize_t n = regular ? read(fd, head, sizeof head) : -1;
  close(fd);
  if (n == 0 || (n == sizeof head && om_is(head, sizeof head))) return ST_OK;
  return not_written(path, "there is another file of that name, which is no .om file");
}

static status write_beside(int fd, const char *beside, const char *path, const char *om, size_t bytes) {
  size_t done = 0;
  for (ssize_t n; done < bytes; done += (size_t)n)
    if ((n = write(fd, om + done, bytes - done)) <= 0) break;
  const int error = done < bytes ? errno : 0;
  if (close(fd) || error) return not_written(path, strerror(error ? error : errno));
  return rename(beside, path) ? not_written(path, strerror(errno)) : ST_OK;
}

static status save(const char *path, const void *om, size_t bytes) {
  char *beside;
  TRY(check_replaceable(path));
  if (asprintf(&beside, "%s.%d.XXXXXX", path, (int)getpid()) < 0)
    return fail(ST_NO_HOST_MEMORY, "no host memory for the name %s", path);
  const int fd = mkostemp(beside, O_CLOEXEC);
  const mode_t mask = umask(0);
  umask(mask);
  if (fd >= 0) (void)fchmod(fd, 0666 & ~mask);
  status st = fd < 0 ? not_written(path, strerror(errno)) : write_beside(fd, beside, path, om, bytes);
  if (fd >= 0 && st != ST_OK) unlink(beside);
  free(beside);
  return st;
}

aclError cannon_model_save(const char *path, const void *om, size_t bytes) {
  API_ENTER();
  NEED(path);
  NEED(om);
  API_RETURN(save(path, om, bytes));
}
