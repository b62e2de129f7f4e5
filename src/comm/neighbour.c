/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/neighbour.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "memory/budget.h"
#include "runtime/scheduler.h"
#include "runtime/wait/outside.h"

enum { PAGE_FILE_BYTES = 4096 };
static const uint64_t WATCH_NS = 100 * 1000 * 1000; /* how often the listener looks at processes and timeouts */

/* A device's file of a neighbour, mapped here. Never changed or unmapped while the neighbour has references. */
typedef struct neighbour_mapping {
  struct neighbour_mapping *next;
  neighbour_file file;
  char *base;
  uint64_t bytes;
} neighbour_mapping;

static struct {
  mutex lock; /* guards the list, references and mappings */
  neighbour *first;
  neighbour *self; /* never dropped */
  void (*_Atomic watch)(void);
  _Atomic bool listening; /* the listener looks again within WATCH_NS */
} all = {.lock = MUTEX_INITIALIZER(NEIGHBOUR)};

/* ---- files of processes ------------------------------------------------------------------------------------------ */

status neighbour_describe(int file, neighbour_file *out) {
  struct stat s;
  if (fstat(file, &s)) return fail(ST_INTERNAL, "fstat: %s", strerror(errno));
  *out = (neighbour_file){
      .pid = getpid(), .file = file, .filesystem = s.st_dev, .inode = s.st_ino, .bytes = (uint64_t)s.st_size};
  return ST_OK;
}

status neighbour_open(const neighbour_file *f, int *out) {
  char path[48];
  struct stat s = {0};
  snprintf(path, sizeof path, "/proc/%d/fd/%d", f->pid, f->file);
  *out = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (*out < 0)
    return errno == ENOENT
               ? fail(ST_COMM_REMOTE, "the memory of process %d is not there: the process has ended", f->pid)
               : fail(ST_NOT_SUPPORTED, "the memory of process %d can't be reached: %s: %s", f->pid, path,
                      strerror(errno));
  if (fstat(*out, &s) == 0 && s.st_dev == f->filesystem && s.st_ino == f->inode) return ST_OK;
  close(*out);
  return fail(ST_COMM_REMOTE, "the memory of process %d is not where it was: the process has ended", f->pid);
}

/* ---- the listener ------------------------------------------------------------------------------------------------ */

static void futex_shared(_Atomic uint32_t *word, int operation, uint32_t value, uint64_t timeout_ns) {
  const struct timespec t = {.tv_sec = (time_t)(timeout_ns / 1000000000u), .tv_nsec = (long)(timeout_ns % 1000000000u)};
  syscall(SYS_futex, word, operation, value, timeout_ns ? &t : NULL, NULL, 0);
}

void neighbour_wake(neighbour *n) {
  atomic_fetch_add(&n->page->bell, 1);
  futex_shared(&n->page->bell, FUTEX_WAKE, INT_MAX, 0);
}

void neighbour_expect(void) {
  atomic_store(&all.self->page->waiting, 1);
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
  if (!atomic_load(&all.listening)) neighbour_wake(all.self);
}

static void *neighbour_listen(void *unused) {
  (void)unused;
  neighbour_page *page = all.self->page;
  uint64_t watched_ns = now_ns();
  for (;;) {
    const uint32_t seen = atomic_load(&page->bell);
    if (outside_any()) outside_look();
    void (*watch)(void) = atomic_load(&all.watch);
    if (watch && outside_any() && now_ns() - watched_ns >= WATCH_NS) {
      watch();
      watched_ns = now_ns();
    }
    const bool any = outside_any();
    atomic_store(&all.listening, any);
    atomic_store(&page->waiting, any);
    /* A stream that began to wait since the look has found one of the two set, or is seen here. */
    if (!any && outside_any()) continue;
    futex_shared(&page->bell, FUTEX_WAIT, seen, any ? WATCH_NS : 0);
  }
  return NULL;
}

void neighbour_on_watch(void (*watch)(void)) { atomic_store(&all.watch, watch); }

/* ---- this process ------------------------------------------------------------------------------------------------ */

static status neighbour_map_page(int file, neighbour_page **out) {
  void *p = mmap(NULL, PAGE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (p == MAP_FAILED) return fail(ST_NO_HOST_MEMORY, "mmap of a process's page: %s", strerror(errno));
  madvise(p, PAGE_FILE_BYTES, MADV_DONTFORK);
  *out = p;
  return ST_OK;
}

/* Fills in *n; under the lock. Its file stays open while the process lives. */
static status neighbour_make_self(neighbour *n) {
  const int file = memfd_create("cannon-comm", MFD_CLOEXEC);
  if (file < 0) return fail(ST_NO_HOST_MEMORY, "memfd_create: %s", strerror(errno));
  status st = ftruncate(file, PAGE_FILE_BYTES) ? fail(ST_NO_HOST_MEMORY, "ftruncate: %s", strerror(errno)) : ST_OK;
  if (st == ST_OK) st = neighbour_describe(file, &n->card.page);
  if (st == ST_OK) st = neighbour_map_page(file, &n->page);
  if (st != ST_OK) {
    close(file);
    return st;
  }
  if (getrandom(&n->card.unique, sizeof n->card.unique, 0) != sizeof n->card.unique)
    n->card.unique = now_ns() ^ (uint64_t)getpid() << 32;
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
  n->page->unique = n->card.unique;
  n->alive_file = -1;
  n->refs = 1;
  return ST_OK;
}

status neighbour_own_card(neighbour_card *out) {
  status st = ST_OK;
  mutex_lock(&all.lock);
  if (!all.self) {
    neighbour *n = calloc(1, sizeof *n);
    st = n ? neighbour_make_self(n) : fail(ST_NO_HOST_MEMORY, "no host memory for a process's page");
    if (st == ST_OK) {
      all.self = n;
      const int error = scheduler_start_thread(neighbour_listen, NULL);
      if (error) {
        st = fail(ST_NO_HOST_MEMORY, "no thread can be started for collective communication: %s", strerror(error));
        all.self = NULL;
        close(n->card.page.file);
        munmap(n->page, PAGE_FILE_BYTES);
      }
    }
    if (st == ST_OK) {
      n->next = all.first;
      all.first = n;
    } else {
      free(n);
    }
  }
  if (st == ST_OK) *out = all.self->card;
  mutex_unlock(&all.lock);
  return st;
}

bool neighbour_is_self(const neighbour *n) { return n == all.self; }

/* ---- other processes --------------------------------------------------------------------------------------------- */

static int neighbour_open_process(int32_t pid) {
#ifdef SYS_pidfd_open
  return (int)syscall(SYS_pidfd_open, pid, 0);
#else
  (void)pid;
  return -1;
#endif
}

/* Under the lock. */
static status neighbour_make(const neighbour_card *card, neighbour **out) {
  int file;
  TRY(neighbour_open(&card->page, &file));
  neighbour *n = calloc(1, sizeof *n);
  status st = n ? neighbour_map_page(file, &n->page) : fail(ST_NO_HOST_MEMORY, "no host memory for a process");
  close(file);
  if (st == ST_OK && n->page->unique != card->unique) {
    munmap(n->page, PAGE_FILE_BYTES);
    st = fail(ST_COMM_REMOTE, "process %d has ended, and another one has its number", card->page.pid);
  }
  if (st != ST_OK) {
    free(n);
    return st;
  }
  n->card = *card;
  n->alive_file = neighbour_open_process(card->page.pid);
  n->next = all.first;
  all.first = n;
  *out = n;
  return ST_OK;
}

status neighbour_find(const neighbour_card *card, neighbour **out) {
  status st = ST_OK;
  mutex_lock(&all.lock);
  neighbour *n = all.first;
  while (n && n->card.unique != card->unique) n = n->next;
  if (!n) st = neighbour_make(card, &n);
  if (st == ST_OK) {
    ++n->refs;
    *out = n;
  }
  mutex_unlock(&all.lock);
  return st;
}

static void neighbour_free(neighbour *n) {
  for (neighbour_mapping *m = n->mappings, *next; m; m = next) {
    next = m->next;
    munmap(m->base, m->bytes);
    budget_adjust(-1);
    free(m);
  }
  munmap(n->page, PAGE_FILE_BYTES);
  if (n->alive_file >= 0) close(n->alive_file);
  free(n);
}

void neighbour_drop(neighbour *n) {
  mutex_lock(&all.lock);
  INVARIANT(n->refs >= 1);
  if (--n->refs == 0) {
    neighbour **at = &all.first;
    while (*at != n) at = &(*at)->next;
    *at = n->next;
    neighbour_free(n);
  }
  mutex_unlock(&all.lock);
}

bool neighbour_is_alive(const neighbour *n) {
  if (n->alive_file < 0) return neighbour_is_self(n) || kill(n->card.page.pid, 0) == 0 || errno == EPERM;
  struct pollfd p = {.fd = n->alive_file, .events = POLLIN};
  return poll(&p, 1, 0) <= 0;
}

/* Under the lock. */
static status neighbour_add_mapping(neighbour *n, const neighbour_file *f, neighbour_mapping **out) {
  int file;
  TRY(neighbour_open(f, &file));
  neighbour_mapping *m = malloc(sizeof *m);
  status st = m ? budget_take(1) : fail(ST_NO_HOST_MEMORY, "no host memory for a mapping");
  if (st == ST_OK) {
    void *p = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (p == MAP_FAILED) {
      st = fail(ST_NO_HOST_MEMORY, "mmap of %ju bytes of process %d: %s", (uintmax_t)f->bytes, f->pid, strerror(errno));
      budget_adjust(-1);
    } else {
      madvise(p, f->bytes, MADV_DONTFORK);
      *m = (neighbour_mapping){.next = n->mappings, .file = *f, .base = p, .bytes = f->bytes};
      n->mappings = *out = m;
    }
  }
  close(file);
  if (st != ST_OK) free(m);
  return st;
}

status neighbour_map(neighbour *n, const neighbour_file *file, char **out) {
  status st = ST_OK;
  mutex_lock(&all.lock);
  neighbour_mapping *m = n->mappings;
  while (m && (m->file.inode != file->inode || m->file.filesystem != file->filesystem || m->bytes < file->bytes))
    m = m->next;
  if (!m) st = neighbour_add_mapping(n, file, &m);
  if (st == ST_OK) *out = m->base;
  mutex_unlock(&all.lock);
  return st;
}
