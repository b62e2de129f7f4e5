/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <acl/acl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *aclrt_alloc(size_t bytes) {
  void *p;
  return aclrtMalloc(&p, bytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS ? p : NULL;
}
static void aclrt_free(void *block) { aclrtFree(block); }
static void aclrt_enter(void) { aclrtSetDevice(0); }

static bool aclrt_start(heap_calls *calls) {
  *calls = (heap_calls){"aclrt", aclrt_alloc, aclrt_free, aclrt_enter};
  return aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS;
}

static bool mimalloc_start(heap_calls *calls) {
  static const char *const names[] = {"libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so.3", "libmimalloc.so"};
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; ++i)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  calls->name = "mimalloc";
  *(void **)&calls->alloc = dlsym(library, "mi_malloc");
  *(void **)&calls->free = dlsym(library, "mi_free");
  return calls->alloc && calls->free;
}

static bool glibc_start(heap_calls *calls) {
  *calls = (heap_calls){"glibc", malloc, free, NULL};
  return true;
}

static struct {
  const char *name;
  bool (*start)(heap_calls *calls);
  bool started, good;
  heap_calls calls;
} known[] = {{.name = "aclrt", .start = aclrt_start},
             {.name = "mimalloc", .start = mimalloc_start},
             {.name = "glibc", .start = glibc_start}};

const heap_calls *heap_calls_find(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    if (strcmp(name, known[i].name) != 0) continue;
    if (!known[i].started) known[i].good = known[i].start(&known[i].calls);
    known[i].started = true;
    return known[i].good ? &known[i].calls : NULL;
  }
  return NULL;
}

/* ---- adaptors for replaying; only one is in use at a time -------------------------------------------------------- */

static const heap_calls *replayed;
static uint64_t bytes_before;

static uint64_t resident_bytes(void) {
  unsigned long pages = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (!f || fscanf(f, "%*u %lu", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void *create(uint64_t cap_bytes) {
  (void)cap_bytes;
  bytes_before = resident_bytes();
  return &bytes_before; /* there is only one instance */
}
static void destroy(void *self) { (void)self; }

static uintptr_t take(void *self, uint64_t bytes) {
  (void)self;
  return (uintptr_t)replayed->alloc(bytes);
}

static uintptr_t take_touched(void *self, uint64_t bytes) {
  volatile char *block = (volatile char *)take(self, bytes);
  for (uint64_t i = 0; block && i < bytes; i += 4096) block[i] = 1;
  return (uintptr_t)block;
}

static void give(void *self, uintptr_t handle) {
  (void)self;
  replayed->free((void *)handle);
}

static uint64_t address(void *self, uintptr_t handle) {
  (void)self;
  return handle;
}

static allocator_footprint footprint(void *self) {
  (void)self;
  const uint64_t now = resident_bytes();
  return (allocator_footprint){.committed_bytes = now > bytes_before ? now - bytes_before : 0,
                               .n_calls = UNKNOWN_CALLS};
}

const allocator *peer_allocator(const heap_calls *calls, bool touched) {
  static allocator a;
  replayed = calls;
  a = (allocator){calls->name, "", create, touched ? take_touched : take, give, address, footprint, destroy};
  return &a;
}
