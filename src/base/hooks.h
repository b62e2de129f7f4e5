/* Where the recorder, the debugger and the checker hang: the few places at which memory changes hands. Those who listen
 * are added when the library is loaded or first used; with none, each place costs one load and a branch.
 *
 * A free is told before the memory can be handed out again, an allocation before the caller gets it, so that listeners see
 * an order that could have happened. They are called under a lock of the memory and must not call into it. */
#ifndef CANNON_BASE_HOOKS_H
#define CANNON_BASE_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
  int device;         /* -1: pinned host memory */
  uintptr_t address;  /* as the program holds it */
  uint64_t bytes;     /* as the rules round it */
  uint64_t requested; /* as asked for */
  uint64_t number;    /* 1 for the heap's first */
  const char *call;   /* the function that allocated it, a string constant */
  void *site;         /* and its return address */
} hook_block;

typedef struct {
  void (*alloc)(const hook_block *block);            /* NULL: does not care */
  void (*free)(const hook_block *block, void *site); /* site: return address of the freeing function */
  /* A free of what is no live block, told without locks. May put into `words` what it knows of the address, for the
   * message: those of the first who does are taken. */
  void (*bad_free)(uintptr_t address, void *site, char *words, size_t bytes);
} hooks;

extern _Atomic bool hooks_on;

/* `added` must stay. Its order among others is that of adding. */
void hooks_add(const hooks *added);

static inline bool hooks_any(void) { return atomic_load_explicit(&hooks_on, memory_order_relaxed); }
void hooks_alloc(hook_block block);
void hooks_free(hook_block block, void *site);

/* Tells of a free that failed with st; what is known goes into its words. Returns st. */
status hooks_bad_free(status st, uintptr_t address, void *site);

#endif
