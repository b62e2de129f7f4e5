/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/share/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/settings/variables.h"
#include "memory/share/file_lock.h"

enum {
  WHOLE_BYTE = 0, /* byte of the file with the lock over all of it */
  PLACE_BYTE = MACHINE_PLACE_BYTE,
  OPEN_TRIES = 100,
};

/* Records begin on a page, so that their memory can be given back. */
#define RECORDS_START ((sizeof(machine_file) + 4095) / 4096 * 4096)

static struct {
  mutex lock;         /* held from enter to leave: the file's locks are between processes only */
  int fd;             /* not closed while the process lives: that would drop its locks */
  struct stat opened; /* identifies the file, to notice that the program has closed fd and opened something else */
  machine_file *file; /* NULL: the process shares nothing */
  uint32_t own;       /* its place */
  bool locked;        /* whether this process holds the lock over the file, from enter to leave */
  bool busy;          /* whether the latest machine_enter has failed to get that lock */
  bool quits;         /* machine_quit was called */
  char path[PATH_MAX], why[256]; /* why: the reason that there is no file, or that it is busy */
} machine = {.lock = MUTEX_INITIALIZER(MACHINE), .fd = -1, .why = "no device was used before"};

/* ---- the file's locks -------------------------------------------------------------------------------------------- */

static bool lock_bytes(int fd, int command, short type, off_t first, off_t n) {
  struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
  int result;
  do result = fcntl(fd, command, &l);
  while (result && errno == EINTR);
  return result == 0;
}

/* Whether another process holds a lock on any of these bytes. */
static bool is_locked(int fd, off_t first, off_t n) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = n};
  return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* The prefix of the names of this user's files. */
static void machine_set_prefix(char prefix[32]) { snprintf(prefix, 32, MACHINE_PREFIX "%ju-", (uintmax_t)geteuid()); }

/* Sets machine.path; returns whether it is the default. */
static bool machine_set_path(const char *name) {
  const char *given = variable_text(VARIABLE_LEDGER);
  char prefix[32];
  machine_set_prefix(prefix);
  if (given)
    snprintf(machine.path, sizeof machine.path, "%s", given);
  else
    snprintf(machine.path, sizeof machine.path, MACHINE_FOLDER "/%s%s", prefix, name);
  return !given;
}

/* Notes why the process shares nothing; returns false. */
static bool machine_note_reason(const char *reason) {
  snprintf(machine.why, sizeof machine.why, "%.128s: %s", machine.path, reason);
  return false;
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool is_ours(const struct stat *s) {
  return S_ISREG(s->st_mode) && s->st_uid == geteuid() && !(s->st_mode & 077);
}

/* Removes a machine's file if no process uses it: its last process was killed and could not remove it. */
static void remove_abandoned(int folder, const char *name) {
  struct stat named, opened;
  const int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  if (fstat(fd, &opened) == 0 && is_ours(&opened) && lock_bytes(fd, F_SETLK, F_WRLCK, WHOLE_BYTE, 1) &&
      fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && is_same(&named, &opened) &&
      !is_locked(fd, PLACE_BYTE, MACHINE_PLACES))
    unlinkat(folder, name, 0);
  close(fd);
}

/* Removes the unused files of other machines, for other devices or memory sizes, which may never be used again. Leaves
 * out this machine's file: closing a descriptor of it would drop this process's locks. */
static void remove_others_abandoned(void) {
  char prefix[32];
  const char *own = strrchr(machine.path, '/') + 1;
  DIR *dir = opendir(MACHINE_FOLDER);
  machine_set_prefix(prefix);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (!strncmp(entry->d_name, prefix, strlen(prefix)) && strcmp(entry->d_name, own) != 0)
      remove_abandoned(dirfd(dir), entry->d_name);
  if (dir) closedir(dir);
}

/* Opens the file and takes the lock over it. Repeats that if the file was removed meanwhile, which is done under the
 * same lock. */
static bool open_locked(void) {
  struct stat named, *const opened = &machine.opened;
  for (int i = 0; i < OPEN_TRIES; ++i) {
    machine.fd = open(machine.path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (machine.fd < 0) return machine_note_reason(file_error(errno));
    if (fstat(machine.fd, opened)) return machine_note_reason(file_error(errno));
    if (!is_ours(opened)) return machine_note_reason("expected a file that nobody else owns, reads or writes");
    if (!file_lock_wait(machine.fd, WHOLE_BYTE, machine.path, false, machine.why, sizeof machine.why)) return false;
    if (stat(machine.path, &named) == 0 && is_same(&named, opened)) return true;
    close(machine.fd);
    machine.fd = -1;
  }
  return machine_note_reason("removed again and again by others");
}

static bool is_sound(void) {
  machine_head head;
  struct stat s;
  return fstat(machine.fd, &s) == 0 && (uint64_t)s.st_size >= RECORDS_START &&
         pread(machine.fd, &head, sizeof head, 0) == sizeof head && head.magic == MACHINE_MAGIC &&
         head.version == MACHINE_VERSION;
}

/* Initialises a file with unknown contents, unless other processes use it. All pages of the mapped part are allocated
 * now: on a full file system, a store to a missing one would kill the process. Serials begin at the time, in
 * microseconds, so that they are higher than those of earlier files. */
static bool make_sound(void) {
  struct timespec now;
  if (is_locked(machine.fd, PLACE_BYTE, MACHINE_PLACES))
    return machine_note_reason("no file of this version, but other processes use it");
  clock_gettime(CLOCK_REALTIME, &now);
  const machine_head head = {.magic = MACHINE_MAGIC,
                             .version = MACHINE_VERSION,
                             .next_serial = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000};
  if (!file_may_have(RECORDS_START)) return machine_note_reason(file_error(errno));
  int error = ftruncate(machine.fd, 0) ? errno : posix_fallocate(machine.fd, 0, (off_t)RECORDS_START);
  if (!error && pwrite(machine.fd, &head, sizeof head, 0) != sizeof head) error = errno;
  return error ? machine_note_reason(file_error(error)) : true;
}

/* Takes the first place whose process has ended, and removes what that process has left. */
static bool take_place(machine_file *file) {
  uint32_t i = 0;
  while (i < MACHINE_PLACES && !lock_bytes(machine.fd, F_SETLK, F_WRLCK, PLACE_BYTE + (off_t)i, 1)) ++i;
  if (i == MACHINE_PLACES) return machine_note_reason("as many processes use it as it has places for, 256");
  for (uint32_t e = 0; e < MACHINE_EXPORTS; ++e) {
    machine_export *x = &file->exports[e];
    if (x->serial && x->owner == i) {
      x->serial = 0;
      machine_drop_record(e);
    }
    x->importers[i / 64] &= ~(UINT64_C(1) << i % 64);
  }
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d) atomic_store(&file->places[i].charged_bytes[d], 0);
  for (int w = 0; w < MACHINE_WAITS; ++w) atomic_store(&file->waits[i][w].is_used, 0);
  atomic_store(&file->places[i].pid, getpid());
  machine.own = i;
  return true;
}

static bool machine_join_file(void) {
  if (!open_locked() || (!is_sound() && !make_sound())) return false;
  void *p = mmap(NULL, sizeof(machine_file), PROT_READ | PROT_WRITE, MAP_SHARED, machine.fd, 0);
  if (p == MAP_FAILED) return machine_note_reason(file_error(errno));
  madvise(p, sizeof(machine_file), MADV_DONTFORK);
  if (!take_place(p)) {
    munmap(p, sizeof(machine_file));
    return false;
  }
  machine.file = p;
  return lock_bytes(machine.fd, F_SETLK, F_UNLCK, WHOLE_BYTE, 1);
}

static void machine_warn(const char *hint) {
  fprintf(stderr, "cannon: warning: this process shares no device memory with others: %s%s\n", machine.why, hint);
  log_line(LOG_WARNING, "this process shares no device memory with others: %s", machine.why);
}

void machine_join(const char *name) {
  mutex_lock(&machine.lock);
  if (!machine.file) {
    if (machine_set_path(name)) remove_others_abandoned();
    if (!machine_join_file()) {
      machine_warn(" (CANNON_LEDGER can name a file elsewhere)");
      if (machine.fd >= 0) close(machine.fd);
      machine.fd = -1;
    }
  }
  mutex_unlock(&machine.lock);
}

bool machine_identity(uint64_t identity[2]) {
  machine_file *file = machine_look();
  identity[0] = machine.opened.st_dev;
  identity[1] = machine.opened.st_ino;
  machine_leave();
  return file;
}

/* A process that waits in open_locked for the file that is removed here notices that. */
void machine_quit(void) {
  machine_look();
  machine.quits = true;
  machine_leave();
  const bool locked = machine_enter();
  if (machine.file) {
    if (locked && !is_locked(machine.fd, PLACE_BYTE, MACHINE_PLACES)) unlink(machine.path);
    machine.file = NULL; /* stays mapped: a thread of ledger.c sleeps on it */
    machine_note_reason("the process ends");
    close(machine.fd);
    machine.fd = -1;
  }
  machine_leave();
}

/* ---- inside ------------------------------------------------------------------------------------------------------ */

/* Whether the descriptor is still the file's. Daemons close descriptors that they do not know; another file may have
 * the number now. */
static bool is_open(void) {
  struct stat s;
  return fstat(machine.fd, &s) == 0 && is_same(&s, &machine.opened);
}

machine_file *machine_look(void) {
  mutex_lock(&machine.lock);
  if (!machine.file || is_open()) return machine.file;
  machine.file = NULL;
  machine.fd = -1;
  machine_note_reason("its descriptor was closed by the program");
  machine_warn("");
  return NULL;
}

machine_file *machine_enter(void) {
  const bool shared = machine_look();
  machine.locked =
      shared && file_lock_wait(machine.fd, WHOLE_BYTE, machine.path, machine.quits, machine.why, sizeof machine.why);
  machine.busy = shared && !machine.locked;
  return machine.locked ? machine.file : NULL;
}

const char *machine_busy(void) { return machine.busy ? machine.why : NULL; }

void machine_leave(void) {
  if (machine.locked && machine.file) lock_bytes(machine.fd, F_SETLK, F_UNLCK, WHOLE_BYTE, 1);
  machine.locked = false;
  mutex_unlock(&machine.lock);
}

status machine_refuse(void) {
  return fail(ST_NOT_SUPPORTED, "nothing is shared with other processes: %s", machine.why);
}

uint32_t machine_own_place(void) {
  INVARIANT(machine.own < MACHINE_PLACES);
  return machine.own;
}

bool machine_is_alive(uint32_t place) {
  return place == machine.own || is_locked(machine.fd, PLACE_BYTE + (off_t)place, 1);
}

static off_t record_at(uint32_t export) { return (off_t)(RECORDS_START + (uint64_t) export * MACHINE_RECORD_BYTES); }

static bool machine_record_fits(uint64_t from, size_t bytes) {
  return from <= MACHINE_RECORD_BYTES && bytes <= MACHINE_RECORD_BYTES - from;
}

bool machine_read_record(uint32_t export, uint64_t from, void *to, size_t bytes) {
  return machine_record_fits(from, bytes) &&
         pread(machine.fd, to, bytes, record_at(export) + (off_t)from) == (ssize_t)bytes;
}

bool machine_write_record(uint32_t export, uint64_t from, const void *what, size_t bytes) {
  return machine_record_fits(from, bytes) && file_may_have((uint64_t)record_at(export) + from + bytes) &&
         pwrite(machine.fd, what, bytes, record_at(export) + (off_t)from) == (ssize_t)bytes;
}

void machine_drop_record(uint32_t export) {
  fallocate(machine.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, record_at(export), MACHINE_RECORD_BYTES);
}
