/* SPDX-License-Identifier: Apache-2.0 */
/* The allocators that the benchmarks compare: Cannon's heap through the public API, and its peers. Used by pairs.c and
 * replay_trace.c. */
#ifndef CANNON_BENCH_ALLOC_PEERS_H
#define CANNON_BENCH_ALLOC_PEERS_H

#include <stddef.h>

#include "replay/replay_allocator.h"

typedef struct {
  const char *name;
  void *(*alloc)(size_t bytes); /* returns NULL when refused */
  void (*free)(void *block);
  void (*enter)(void); /* called once in each thread except the main one; may be NULL */
} heap_calls;

/* Finds an allocator by name. "aclrt": aclrtMalloc and aclrtFree on device 0, which this sets up. "mimalloc": loaded by
 * dlopen, so that it does not replace malloc. "glibc". Returns NULL if the allocator is not available. */
const heap_calls *heap_calls_find(const char *name);

/* An adaptor for replaying a trace through an allocator. touched: writes each page of a block, so that the process's
 * resident memory equals the committed memory; not for aclrt, whose addresses cannot be written by the host. */
const allocator *peer_allocator(const heap_calls *calls, bool touched);

#endif
