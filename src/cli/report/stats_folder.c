/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/stats_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char prefix[] = "cannon-run-";
enum { LETTERS = 6, NAME_BYTES = sizeof prefix + LETTERS, MARK_BYTES = NAME_BYTES + 8 };

static const char *base_folder(void) {
  const char *base = getenv("TMPDIR");
  return base && *base ? base : "/tmp";
}

/* Makes the name of the lock file, which contains the folder's name: a folder that somebody copied or renamed
 * contains another folder's. */
static void mark_of(const char *name, char mark[MARK_BYTES]) { snprintf(mark, MARK_BYTES, ".%.17s.lock", name); }

/* Returns whether the name is "<pid>.stats", or that of the checker's findings. */
static bool is_statistics(const char *name) {
  const size_t digits = strspn(name, "0123456789");
  return digits && (strcmp(name + digits, ".stats") == 0 || strcmp(name + digits, ".findings") == 0);
}

/* The caller holds the lock of the lock file. */
static void remove_files(int folder, const char *mark) {
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (is_statistics(entry->d_name)) unlinkat(folder, entry->d_name, 0);
  if (dir) closedir(dir);
  unlinkat(folder, mark, 0);
}

/* Returns whether the descriptor is of a lock file of ours that still has a name. */
static bool is_mark(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && s.st_nlink == 1;
}

/* Removes a folder whose `cannon run` was killed. */
static void remove_if_left(int parent, const char *name) {
  char mark[MARK_BYTES];
  const int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  mark_of(name, mark);
  const int lock = openat(folder, mark, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (lock >= 0 && !flock(lock, LOCK_EX | LOCK_NB) && is_mark(lock)) {
    remove_files(folder, mark);
    unlinkat(parent, name, AT_REMOVEDIR); /* fails if the folder contains anything else */
  }
  if (lock >= 0) close(lock);
  close(folder);
}

static void remove_left_behind(void) {
  DIR *dir = opendir(base_folder());
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0 && strlen(entry->d_name) == NAME_BYTES - 1)
      remove_if_left(dirfd(dir), entry->d_name);
  if (dir) closedir(dir);
}

/* Creates the folder's lock file. Returns its descriptor, or -1 with errno. */
static int make_mark(const char *path) {
  char mark[MARK_BYTES];
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  mark_of(strrchr(path, '/') + 1, mark);
  const int lock = folder < 0 ? -1 : openat(folder, mark, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const int error = errno;
  if (folder >= 0) close(folder);
  errno = error;
  return lock;
}

bool stats_folder_make(stats_folder *folder) {
  enum { TRIES = 3 };
  remove_left_behind();
  for (int i = 0; i < TRIES; i++) {
    if (snprintf(folder->path, sizeof folder->path, "%s/%sXXXXXX", base_folder(), prefix) >= (int)sizeof folder->path) {
      errno = ENAMETOOLONG;
      break;
    }
    if (!mkdtemp(folder->path)) break;
    folder->lock = make_mark(folder->path);
    if (folder->lock < 0) {
      const int error = errno;
      rmdir(folder->path);
      errno = error;
      break;
    }
    if (!flock(folder->lock, LOCK_EX) && is_mark(folder->lock)) return true;
    close(folder->lock); /* another cannon run removed it before it was locked */
  }
  const bool is_full = errno == ENOSPC || errno == EDQUOT;
  fprintf(stderr, "cannon run: %s %s: %s (set TMPDIR to use another place)\n",
          is_full ? "no statistics are collected: cannot make a folder" : "cannot make a folder", folder->path,
          strerror(errno));
  folder->path[0] = '\0';
  return is_full;
}

void stats_folder_remove(stats_folder *folder) {
  char mark[MARK_BYTES];
  if (!folder->path[0]) return;
  const int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  mark_of(strrchr(folder->path, '/') + 1, mark);
  if (fd >= 0) remove_files(fd, mark);
  if (rmdir(folder->path)) fprintf(stderr, "cannon run: cannot remove %s: %s\n", folder->path, strerror(errno));
  if (fd >= 0) close(fd);
  close(folder->lock);
}
