#include "cli/stats_folder.h"

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

static const char *base_folder(void) {
  const char *base = getenv("TMPDIR");
  return base && *base ? base : "/tmp";
}

/* It holds files only. */
static int remove_folder(int parent, const char *name) {
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  for (struct dirent *entry; dir && (entry = readdir(dir));) unlinkat(fd, entry->d_name, 0);
  if (dir) closedir(dir);
  return unlinkat(parent, name, AT_REMOVEDIR);
}

/* Our user's folders that nobody has locked. */
static void remove_left_behind(void) {
  struct stat s;
  DIR *dir = opendir(base_folder());
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) continue;
    const int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (!fstat(fd, &s) && s.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB))
      remove_folder(dirfd(dir), entry->d_name);
    close(fd);
  }
  if (dir) closedir(dir);
}

bool stats_folder_make(stats_folder *folder) {
  enum { TRIES = 3 };
  struct stat s;
  remove_left_behind();
  for (int i = 0; i < TRIES; i++) {
    snprintf(folder->path, sizeof folder->path, "%s/%sXXXXXX", base_folder(), prefix);
    if (!mkdtemp(folder->path)) break;
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0) continue;
    if (!flock(folder->lock, LOCK_EX) && !fstat(folder->lock, &s) && s.st_nlink) return true;
    close(folder->lock); /* another run's start removed it before it was locked */
  }
  fprintf(stderr, "cannon run: cannot make a folder %s: %s (TMPDIR can name a place elsewhere)\n", folder->path,
          strerror(errno));
  return false;
}

void stats_folder_remove(stats_folder *folder) {
  if (remove_folder(AT_FDCWD, folder->path))
    fprintf(stderr, "cannon run: cannot remove %s: %s\n", folder->path, strerror(errno));
  close(folder->lock);
}
