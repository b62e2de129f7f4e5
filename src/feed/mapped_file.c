/* SPDX-License-Identifier: Apache-2.0 */
#include "feed/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/invariant.h"
#include "base/lock.h"
#include "base/settings/faults.h"
#include "base/store/host_page.h"
#include "memory/fault.h"

enum {
  WINDOW_BYTES = 64 << 20,
  AROUND_BYTES = 64 << 10, /* the kernel maps so much around a page that it has */
  AHEAD_BYTES = 128 << 10, /* it reads no more ahead at a call, unless the device is set to */
};

struct mapped_region {
  mapped_region *next;          /* never changes */
  _Atomic uintptr_t start, end; /* start 0: the region is unused */
  _Atomic uint64_t broken_from; /* bytes from here on were replaced; UINT64_MAX: none */
};

static mutex lock = MUTEX_INITIALIZER(MAPPED_FILES); /* guards which regions are used, and the handler */
static mapped_region *_Atomic regions;
static struct sigaction mapped_previous;                         /* the handler of SIGBUS that was installed before */
static _Thread_local const siginfo_t *volatile mapped_passed_on; /* the signal that the other handler has got */

/* ---- the handler ------------------------------------------------------------------------------------------------- */

/* Puts zero pages behind the address, if it is one of a mapped file. Takes no lock, since it may interrupt any code;
 * mmap is a plain system call. A file that is closed while another thread uses it is an error of this library. */
static bool mapped_repair(uintptr_t address) {
  const uintptr_t page = address & -(uintptr_t)PAGE_BYTES;
  for (mapped_region *r = atomic_load(&regions); r; r = r->next) {
    const uintptr_t start = atomic_load(&r->start), end = atomic_load(&r->end);
    if (!start || address < start || address >= end) continue;
    uint64_t seen = atomic_load(&r->broken_from);
    while (page - start < seen && !atomic_compare_exchange_weak(&r->broken_from, &seen, page - start)) {
    }
    return mmap((void *)page, end - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
           MAP_FAILED;
  }
  return false;
}

static void mapped_on_fault(int signal_number, siginfo_t *info, void *context) {
  const int error = errno;
  const bool repaired = info->si_code > 0 && mapped_repair((uintptr_t)info->si_addr);
  errno = error;
  if (repaired) return;
  /* A handler that was installed between two calls of mapped_install() may call this one. */
  const bool again = mapped_passed_on == info;
  mapped_passed_on = info;
  if (!again && mapped_previous.sa_flags & SA_SIGINFO) {
    mapped_previous.sa_sigaction(signal_number, info, context);
  } else if (!again && mapped_previous.sa_handler != SIG_DFL && mapped_previous.sa_handler != SIG_IGN) {
    mapped_previous.sa_handler(signal_number);
  } else {
    /* Returning repeats the access, and the default action ends the program with the right signal. */
    signal(signal_number, SIG_DFL);
    if (info->si_code <= 0) raise(signal_number);
  }
  mapped_passed_on = NULL;
}

/* Puts the handler above all others, whenever a file is mapped: test frameworks and interpreters install theirs at any
 * time. The one that explains faults goes below, since it would explain what is repaired here. The lock is held. */
static void mapped_install(void) {
  struct sigaction action = {.sa_sigaction = mapped_on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER}, now;
  if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == mapped_on_fault) return;
  fault_handler_install();
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, NULL, &mapped_previous);
  sigaction(SIGBUS, &action, NULL);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static mapped_region *mapped_region_new(const unsigned char *data, uint64_t bytes) {
  mutex_lock(&lock);
  mapped_install();
  mapped_region *r = atomic_load(&regions);
  while (r && atomic_load(&r->start)) r = r->next;
  if (!r && (r = calloc(1, sizeof *r))) {
    r->next = atomic_load(&regions);
    atomic_store(&regions, r);
  }
  if (r) {
    atomic_store(&r->broken_from, UINT64_MAX);
    atomic_store(&r->end, (uintptr_t)data + bytes);
    atomic_store(&r->start, (uintptr_t)data);
  }
  mutex_unlock(&lock);
  return r;
}

/* Opens a regular file, and does not wait for the writer of a pipe. */
static status mapped_open_file(const char *path, int *fd, struct stat *s) {
  FAULT_TRY(FAULT_FILE, NULL, ST_INVALID_VALUE, "%s can't be opened", path);
  *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return fail(ST_INVALID_VALUE, "%s can't be opened: %s", path, strerror(errno));
  if (fstat(*fd, s) == 0 && S_ISREG(s->st_mode)) return ST_OK;
  close(*fd);
  return fail(ST_INVALID_VALUE, "%s is no regular file, which only a streamed reader takes", path);
}

status mapped_open(const char *path, mapped_file *out) {
  struct stat s;
  int fd;
  TRY(mapped_open_file(path, &fd, &s));
  *out = (mapped_file){.bytes = (uint64_t)s.st_size, .device = s.st_dev, .inode = s.st_ino, .path = strdup(path)};
  void *data = out->bytes ? mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, fd, 0) : NULL;
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) data = NULL;
  if (data) out->region = mapped_region_new(data, out->bytes);
  if (out->path && (!out->bytes || out->region)) {
    out->data = data;
    return ST_OK;
  }
  if (data) munmap(data, out->bytes);
  free(out->path);
  if (!data && out->bytes)
    return fail(ST_INVALID_VALUE, "%s, of %ju bytes, can't be mapped: %s", path, (uintmax_t)out->bytes,
                strerror(error));
  return fail(ST_NO_HOST_MEMORY, "no host memory to open %s", path);
}

void mapped_close(mapped_file *f) {
  if (f->data) {
    munmap((void *)(uintptr_t)f->data, f->bytes);
    mutex_lock(&lock);
    atomic_store(&f->region->start, 0);
    mutex_unlock(&lock);
  }
  free(f->path);
  *f = (mapped_file){0};
}

status mapped_check(const mapped_file *f, uint64_t end) {
  struct stat s;
  if (f->region && atomic_load(&f->region->broken_from) < end)
    return fail(ST_FAILURE, "%s can't be read from byte %ju on: it was cut short, or the disk has failed", f->path,
                (uintmax_t)atomic_load(&f->region->broken_from));
  /* A file with another inode has taken the name, or none has: the mapping still has the old one. */
  if (stat(f->path, &s) != 0 || s.st_ino != f->inode || s.st_dev != f->device || (uint64_t)s.st_size >= end)
    return ST_OK;
  return fail(ST_FAILURE, "%s was cut short: it has %ju bytes, and had %ju when it was opened", f->path,
              (uintmax_t)s.st_size, (uintmax_t)f->bytes);
}

void mapped_want(const mapped_file *f, uint64_t offset, uint64_t bytes) {
  if (offset >= f->bytes || !bytes) return;
  if (bytes > f->bytes - offset) bytes = f->bytes - offset;
  const uintptr_t end = (uintptr_t)f->data + offset + bytes;
  for (uintptr_t page = ((uintptr_t)f->data + offset) & -(uintptr_t)PAGE_BYTES; page < end; page += AHEAD_BYTES)
    madvise((void *)page, end - page < AHEAD_BYTES ? end - page : AHEAD_BYTES, MADV_WILLNEED);
}

void mapped_used(mapped_file *f, uint64_t bytes) {
  const uint64_t with_pages = bytes + AROUND_BYTES;
  const uint64_t before = atomic_fetch_add(&f->used_bytes, with_pages);
  if (before + with_pages < WINDOW_BYTES || before >= WINDOW_BYTES) return; /* one thread does it */
  atomic_store(&f->used_bytes, 0);
  /* Zero pages that the handler has put there are given back as well, and come again as zero pages. */
  madvise((void *)(uintptr_t)f->data, f->bytes, MADV_DONTNEED);
}
