/* SPDX-License-Identifier: Apache-2.0 */
/* What the checker knows of device memory: the live blocks, and which of their bytes nothing has written. Two parts
 * look at each task with it: init.c and bounds.c. Tasks are looked at when they are submitted, in that order; that it
 * is the order in which they run is for the part that looks for races to say.
 *
 * Host memory, pinned or managed, is not here, as the host writes it unseen; nor is physical memory behind reserved
 * addresses, nor memory that the library takes for itself. Everything is guarded by one lock, shadow.c's. */
#ifndef CANNON_CHECK_SHADOW_H
#define CANNON_CHECK_SHADOW_H

#include "base/hooks.h"
#include "base/store/tree.h"
#include "check/byte_set.h"
#include "check/finding.h"

typedef struct {
  tree_node node; /* key: the address */
  uintptr_t address;
  uint64_t bytes, requested; /* as rounded, and as asked for */
  int device;
  const char *call;
  uint32_t stack;
  byte_set unwritten;
  struct {
    const char *name; /* the last task that wrote bytes for the first time; NULL: none has */
    uint32_t stack;
    int64_t stream;
  } writer;
} shadow_block;

enum { SHADOW_ACCESSES = 512 }; /* of a task; later ones are not looked at */

/* A task, with the block of each access; NULL: it is in none that is known. */
typedef struct {
  const hook_task *told;
  uint32_t n;
  shadow_block **block;
} shadow_task;

/* Findings that are reported once the lock is released. */
enum { SHADOW_FINDINGS = 4 }; /* of one task */
typedef struct {
  unsigned n;
  finding found[SHADOW_FINDINGS];
} shadow_findings;

/* Begins a finding of access i, about n bytes from the byte `first` of its block on; NULL: the task has enough of them.
 * The caller adds the message. */
finding *shadow_find(shadow_findings *out, finding_kind kind, const shadow_task *t, uint32_t i, uint64_t first,
                     uint64_t n);

/* "bytes 4 to 7 of the block of 16 bytes that aclrtMalloc gave". */
enum { SHADOW_WORDS = 160 };
const char *shadow_words(const shadow_block *b, uint64_t first, uint64_t n, char words[SHADOW_WORDS]);

/* The name of an argument for a message: "`self`", or "memory" without one. */
const char *shadow_argument(const hook_access *a, char words[FINDING_NAME]);

/* init.c: looks for reads of bytes that were never written, and notes what the task writes. */
void init_task(const shadow_task *t, shadow_findings *out);

/* Whether tasks wait for others that may be submitted later, so that the order of submission says nothing. */
extern INTERNAL bool shadow_is_unordered;

/* bounds.c */
void bounds_task(const shadow_task *t, shadow_findings *out);

#endif
