/* Where the recorder, the debugger and the checker hang: the few places at which memory changes hands, or at which it is
 * settled what happens before what. Those who listen are added when the library is loaded or first used; with none, each
 * place costs one load and a branch.
 *
 * A free is told before the memory can be handed out again, an allocation before the caller gets it; an event's record is
 * told before a wait can see it, a wait and the rest afterwards. So listeners see an order that could have happened. They
 * are called under a lock of the memory and must not call into it. */
#ifndef CANNON_BASE_HOOKS_H
#define CANNON_BASE_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HOOK_NO_STREAM = -1 };

typedef struct {
  int device;         /* or what base/device_number.h has for host memory */
  uintptr_t address;  /* as the program holds it */
  uint64_t bytes;     /* as the rules round it */
  uint64_t requested; /* as asked for */
  uint64_t number;    /* 1 for the first of the device, or kind of host memory */
  const char *call;   /* the function that allocated it, a string constant */
  void *site;         /* and its return address */
  int64_t stream;     /* its number on the device, where this is in a stream's order, else HOOK_NO_STREAM */
  bool is_handle;     /* memory without an address (memory/vmm/vmm.h): `address` is its handle */
  bool is_internal;   /* memory that the library took for itself, which no call of the program asked for */
} hook_block;

typedef enum {
  HOOK_STREAM_CREATED,
  HOOK_STREAM_DESTROYED,
  HOOK_EVENT_RECORDED,
  HOOK_EVENT_AWAITED, /* by a stream */
  HOOK_STREAM_DONE,   /* the host has learnt that all that was submitted to the stream is done */
  HOOK_EVENT_DONE,    /* or that the event's latest record was reached */
} hook_step_kind;

/* A step in the life of a stream or event. */
typedef struct {
  hook_step_kind kind;
  int device;
  uint32_t stream; /* its number on the device; not for HOOK_EVENT_DONE */
  uint32_t event;  /* its number, for those with EVENT in their name */
} hook_step;

typedef struct {
  void (*alloc)(const hook_block *block);            /* NULL: does not care */
  void (*free)(const hook_block *block, void *site); /* site: return address of the freeing function */
  /* A free of what is no live block, told without locks. May put into `words` what it knows of the address, for the
   * message: those of the first who does are taken. */
  void (*bad_free)(uintptr_t address, void *site, char *words, size_t bytes);
  void (*step)(const hook_step *step);
} hooks;

extern INTERNAL _Atomic bool hooks_on;

/* `added` must stay. Its order among others is that of adding. Before the first device is opened: where nobody listens then,
 * memory.h has short cuts that never look again. */
void hooks_add(const hooks *added);

static inline bool hooks_any(void) { return atomic_load_explicit(&hooks_on, memory_order_relaxed); }
void hooks_alloc(hook_block block);
void hooks_free(hook_block block, void *site);
void hooks_step(hook_step step);

static inline void hooks_tell_step(hook_step_kind kind, int device, uint32_t stream, uint32_t event) {
  if (__builtin_expect(hooks_any(), 0)) hooks_step((hook_step){kind, device, stream, event});
}

/* Tells of a free that failed with st; what is known goes into its words. Returns st. */
status hooks_bad_free(status st, uintptr_t address, void *site);

#endif
