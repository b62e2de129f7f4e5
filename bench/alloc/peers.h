/* What the allocator is measured against, and itself as a program sees it. */
#ifndef CANNON_BENCH_ALLOC_PEERS_H
#define CANNON_BENCH_ALLOC_PEERS_H

#include <stddef.h>

#include "replay/replay_allocator.h"

typedef struct {
  const char *name;
  void *(*alloc)(size_t bytes); /* NULL: refused */
  void (*free)(void *block);
  void (*enter)(void); /* once in each thread but the main one; or NULL */
} heap_calls;

/* "aclrt": aclrtMalloc and aclrtFree on device 0, which is set up here; "mimalloc": found by dlopen, so that it does not
 * become everybody's malloc; "glibc". NULL where it isn't there. */
const heap_calls *heap_calls_find(const char *name);

/* The same to replay through. touched: each page of a block is written, so that the process's resident memory says what
 * is committed; not for aclrt, whose users' addresses can't be written. */
const allocator *peer_allocator(const heap_calls *calls, bool touched);

#endif
