/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

int file_create(const char *path, mode_t mode) { return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode); }

/* Returns N if the path is FOLDER followed by the number N, else -1. */
static int number_in(const char *folder, const char *path) {
  const size_t n = strlen(folder);
  if (strncmp(path, folder, n) != 0) return -1;
  const size_t digits = strspn(path + n, "0123456789");
  return digits && digits < 10 && !path[n + digits] ? atoi(path + n) : -1;
}

int file_descriptor_of(const char *path) {
  if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
  if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
  const int number = number_in("/dev/fd/", path);
  return number >= 0 ? number : number_in("/proc/self/fd/", path);
}

/* Returns 0, or the errno that says why this file must not be written to. */
static int refuse_file(const struct stat *s) {
  if (S_ISLNK(s->st_mode)) return ELOOP;
  if (S_ISDIR(s->st_mode)) return EISDIR;
  if (S_ISCHR(s->st_mode)) return 0;
  if (!S_ISREG(s->st_mode) && !S_ISFIFO(s->st_mode)) return EINVAL;
  /* A second hard link may be a name that another user gave to one of our files. */
  return s->st_uid != geteuid() || (S_ISREG(s->st_mode) && s->st_nlink != 1) ? EPERM : 0;
}

/* Looks at the file behind the name first, then opens exactly that file, so nobody can swap it in between. */
static int open_existing(const char *path) {
  char name[32];
  struct stat s;
  const int at = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (at < 0) return -1;
  int error = fstat(at, &s) ? errno : refuse_file(&s);
  snprintf(name, sizeof name, "/proc/self/fd/%d", at);
  const int fd = error ? -1 : open(name, (S_ISREG(s.st_mode) ? O_RDWR : O_WRONLY) | O_NOCTTY | O_CLOEXEC);
  if (!error) error = errno;
  close(at);
  errno = error;
  return fd;
}

int file_open_own(const char *path, mode_t mode) {
  const int descriptor = file_descriptor_of(path);
  if (descriptor >= 0) return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  const int fd = file_create(path, mode);
  return fd < 0 && errno == EEXIST ? open_existing(path) : fd;
}

bool file_begins(int fd, const char *text) {
  char first[256];
  const size_t n = strlen(text);
  return n <= sizeof first && pread(fd, first, n, 0) == (ssize_t)n && memcmp(first, text, n) == 0;
}

bool file_write(int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = write(fd, (const char *)data + done, bytes - done);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) done += (size_t)n;
  }
  return true;
}

bool file_make_folder(const char *path, mode_t mode) {
  struct stat s;
  if (mkdir(path, mode) == 0) return true;
  if (errno != EEXIST || lstat(path, &s)) return false;
  if (S_ISDIR(s.st_mode) && s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH))) return true;
  errno = S_ISLNK(s.st_mode) ? ELOOP : S_ISDIR(s.st_mode) ? EPERM : ENOTDIR;
  return false;
}

const char *file_error(int error) {
  switch (error) {
  case ELOOP: return "it is a symbolic link, which is not followed";
  case EISDIR: return "it is a folder, expected a file";
  case EPERM: return "it is another user's, or has several names";
  case EINVAL: return "it is no file, pipe or terminal";
  case EFBIG: return "the process may not have files of that size (ulimit -f), expected no such limit";
  case EMFILE: return "the process has as many open files as it may (ulimit -n), expected a higher limit";
  default: return strerror(error);
  }
}
