/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks that the recorder (trace/record/record.c), the memory debugger, the call-site counters and the checker
 * (check/) listen to. They are the few places at which memory changes hands, at which an order between streams is
 * settled, or at which a task is submitted. Listeners are added when the library is loaded or first used; without any,
 * each place costs one load and a branch.
 *
 * A free is reported before the memory can be handed out again, an allocation before the caller gets it; an event's
 * record is reported before a wait can see it, waits and the other steps afterwards. So listeners see an order that
 * could have happened. They are called under a lock of the memory and must not call into it. Any thread. */
#ifndef CANNON_BASE_HOOKS_H
#define CANNON_BASE_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hook_handles.h"
#include "base/status.h"

enum { HOOK_NO_STREAM = -1 };

typedef struct {
  int device;         /* the device's number, or a kind of host memory (base/device_number.h) */
  uintptr_t address;  /* as the program holds it */
  uint64_t bytes;     /* what the allocation rules made of the requested size */
  uint64_t requested; /* as asked for */
  uint64_t number;    /* the device's (or kind of host memory's) count of allocations; the first has 1 */
  const char *call;   /* the function that allocated it, a string constant */
  void *site;         /* the return address of that function */
  int64_t stream;     /* the stream's number on the device if the step is in a stream's order, else HOOK_NO_STREAM */
  bool is_handle;     /* physical memory (memory/vmm/vmm.h), which has no address: `address` is its handle */
  bool is_internal;   /* memory that the library took for itself, which no call of the program asked for */
} hook_block;

typedef enum {
  HOOK_STREAM_CREATED,
  HOOK_STREAM_DESTROYED,
  HOOK_EVENT_RECORDED,
  HOOK_EVENT_AWAITED, /* by a stream */
  HOOK_STREAM_DONE,   /* the host has learnt that all tasks submitted to the stream are done */
  HOOK_EVENT_DONE,    /* the host has learnt that the event's latest record was reached */
  /* Told while tasks run, in the order in which that happens, if a listener wants `work`: */
  HOOK_EVENT_REACHED, /* a stream has come to the record of the event */
  HOOK_EVENT_PASSED,  /* a stream has passed its wait for the event */
} hook_step_kind;

/* A step in the life of a stream or event. */
typedef struct {
  hook_step_kind kind;
  int device;
  uint32_t stream;     /* the stream's number on the device; not set for HOOK_EVENT_DONE */
  uint32_t event;      /* the event's number; only for kinds with EVENT in their name */
  uint64_t generation; /* of EVENT_REACHED and EVENT_PASSED: which of the event's records, counted from 1 */
} hook_step;

/* A task that has run: so much time of a stream, on now_ns()'s clock. Not told of tasks that order other tasks or
 * communicate. */
typedef struct {
  int device;
  uint32_t stream;
  uint64_t begin_ns, end_ns;
  uint64_t position;             /* in the stream; tasks of a graph share one */
  uint64_t model_ns, operations; /* by the roofline of the device's profile; 0: it has none of this task */
} hook_work;

/* A range of device memory that a framework has cut from a block, or from several (mstx). */
typedef struct {
  int device;
  uintptr_t address;
  uint64_t bytes;
} hook_region;

enum { HOOK_MAX_RANK = 8 };

/* Which bytes of a range belong to a view: its elements, of a tensor of that rank. Strides are in bytes, 0 or more; the
 * range's address is that of the element whose indices are all 0. */
typedef struct {
  int rank;
  uint32_t element_bytes;
  const int64_t *dims, *strides;
} hook_shape;

enum {
  HOOK_READS = 1,
  HOOK_WRITES = 2,
  HOOK_SCRATCH = 4, /* a workspace: its contents mean nothing before and after */
  /* What is read, if not all bytes. */
  HOOK_READS_PART = 8,     /* other operands' contents choose which */
  HOOK_READS_PERHAPS = 16, /* perhaps none: the task writes some places and leaves the others, or a factor is 0 */
  HOOK_MOVES_BYTES = 32,   /* what is written elsewhere are these bytes, as they are */
  HOOK_IN_ORDER = 64,      /* the elements in their order, repeated where there are fewer than are written */
};

/* What the program said of a tensor. */
typedef struct {
  hook_shape shape;       /* its elements in their order, whether there are gaps or not */
  uint64_t offset;        /* of the first element from the start of the storage, in bytes */
  uint64_t storage_bytes; /* of the storage, as its dimensions tell; 0: it has none of its own */
} hook_tensor;

/* A range of memory that a task reads or writes. */
typedef struct {
  uintptr_t address;         /* of the first byte, as the program holds it */
  uint64_t bytes;            /* to the end of the last byte */
  uint32_t access;           /* HOOK_READS, ... */
  const char *name;          /* of the operator's argument, of which a list may have several; NULL: none */
  const hook_shape *shape;   /* NULL: all bytes of the range */
  const hook_tensor *tensor; /* of an operator's argument; NULL: it is not known */
} hook_access;

typedef enum {
  HOOK_COMPUTES,
  HOOK_MOVES, /* copies accesses[0] to accesses[1], byte by byte */
  HOOK_FILLS, /* sets accesses[0] to a constant */
  HOOK_ORDERS /* accesses a word by which it orders tasks (hook_order): others may access it at the same time */
} hook_effect;

/* A task that is being submitted to a stream, or that the calling thread carries out itself, such as a synchronous
 * copy. A task that only waits for others, or tells others, has no accesses. Of a graph's execution each task is told,
 * as it will run. Valid during the call. */
typedef struct {
  int device;        /* of the stream; -1 without one */
  int64_t stream;    /* the stream's number on the device; HOOK_NO_STREAM: the thread does it now */
  uint64_t position; /* in the stream: what is submitted later has a higher one. Tasks of an execution share one */
  const char *name;  /* "Add" for aclnnAdd, "memcpy" */
  hook_effect effect;
  uint32_t n_accesses;
  const hook_access *accesses;
  uint64_t model_ns; /* without a stream: as hook_work has it; with one, that tells when it has run */
} hook_task;

typedef enum {
  /* By a task, as it is submitted: under the submit lock of its stream, in one order with the stream's hook_tasks. */
  HOOK_SIGNALS, /* what comes after a wait for the object's mark `generation` comes after this task */
  HOOK_AWAITS,  /* the stream goes on when the mark was reached, or whenever HOOK_RESUMES is told of this position */
  /* As tasks run. */
  HOOK_ENTERS,  /* the host begins a function that the stream has come to at this position */
  HOOK_RESUMES, /* the stream has passed the wait at this position */
  /* By the host. */
  HOOK_STREAM_AWAITED, /* it has waited for all of the stream's tasks, or has been told that they are done */
  HOOK_MARK_AWAITED,   /* the same of a mark */
  HOOK_STREAM_GONE,    /* the stream was destroyed, and its tasks are done or dropped */
  HOOK_OBJECT_GONE,    /* nobody can wait for the object any more */
} hook_order_kind;

/* What passes order from one task to another. */
typedef enum {
  HOOK_BY_EVENT,   /* numbered by hook_order.number, as the following two */
  HOOK_BY_NOTIFY,  /* generation: the n-th wait is for the n-th record. 0: that is not settled */
  HOOK_BY_WORD,    /* the address of a word that streams write and wait for */
  HOOK_BY_OUTSIDE, /* the other ranks of communicators; with a number, a notify of several processes */
  HOOK_BY_HOST,    /* a host function */
} hook_object;

#define HOOK_ANY_MARK UINT64_MAX /* the stream tells when it has passed; which mark that was is not settled */

/* A step that orders accesses, for listeners that want tasks. */
typedef struct {
  hook_order_kind kind;
  hook_object object;
  int device;
  uint32_t stream;     /* not set for MARK_AWAITED and OBJECT_GONE */
  uint64_t position;   /* in the stream, of the task */
  uint64_t number;     /* of the object */
  uint64_t generation; /* of the mark: counted from 1. Of an event, 0 is a mark that was always there; of others, 0
                          stands for all marks of the object */
  bool is_query;       /* the host has not waited, but asked and been told that all is done */
} hook_order;

/* A collective of one rank that is over. */
typedef struct {
  int device;
  uint32_t stream;
  uint64_t communicator; /* a number that all of its ranks have, and no other communicator */
  int kind;              /* comm_kind */
  uint32_t dtype_bytes;
  uint64_t count; /* elements, as the call has it */
  uint32_t n_ranks, rank;
  uint32_t peer;             /* the root; the peer of Send and Recv */
  uint64_t begin_ns, end_ns; /* from the moment at which the stream came to it */
} hook_collective;

typedef struct {
  void (*alloc)(const hook_block *block);            /* may be NULL, as the other functions */
  void (*free)(const hook_block *block, void *site); /* site: return address of the freeing function */
  /* An allocation was refused for lack of memory: device, requested, call and site are set; called without locks. */
  void (*refused)(const hook_block *asked);
  /* Reports a free of an address that no live block has; called without locks. The listener may put what it knows of
   * the address into `words`, for the message: the first listener that does so wins. */
  void (*bad_free)(uintptr_t address, void *site, char *words, size_t bytes);
  /* From now on, other processes may access the block that holds the address, of which nobody tells. */
  void (*shared)(uintptr_t address);
  void (*step)(const hook_step *step);
  void (*region)(const hook_region *region); /* called without locks, as the following */
  void (*region_end)(int device, uintptr_t address);
  /* Under the submit lock of the task's stream, so in the order of positions. */
  void (*task)(const hook_task *task);
  void (*order)(const hook_order *order); /* only with `task` */
  void (*work)(const hook_work *work);
  void (*collective)(const hook_collective *collective);
  void (*handle)(const hook_handle *handle); /* called without locks, but for those of the caller's family */
  void (*use)(const hook_use *use);          /* called without locks */
  /* A memory fault, which may end the program, in its signal handler; `words` explain it, in sentences. */
  void (*fault)(uintptr_t address, const char *words);
} hooks;

extern INTERNAL _Atomic bool hooks_on, hooks_want_tasks;

/* Adds a listener, which must live as long as the process. Listeners are called in the order in which they were added.
 * Only before the first device is opened: if nobody listens then, the short cuts in memory.h never look again. */
void hooks_add(const hooks *added);

/* Whether somebody listens to tasks. */
static inline bool hooks_tasks_wanted(void) {
  return __builtin_expect(atomic_load_explicit(&hooks_want_tasks, memory_order_relaxed), 0);
}

static inline bool hooks_any(void) { return atomic_load_explicit(&hooks_on, memory_order_relaxed); }
void hooks_alloc(hook_block block);
void hooks_free(hook_block block, void *site);
void hooks_refused(hook_block asked);
void hooks_shared(uintptr_t address);
void hooks_step(hook_step step);
void hooks_region(hook_region region);
void hooks_region_end(int device, uintptr_t address);
void hooks_task(const hook_task *task);
void hooks_order(hook_order order);
void hooks_work(hook_work work);
void hooks_collective(hook_collective collective);
__attribute__((cold)) void hooks_handle(hook_handle handle);
__attribute__((cold)) void hooks_use(hook_use use);
void hooks_fault(uintptr_t address, const char *words);

static inline void hooks_tell_step(hook_step_kind kind, int device, uint32_t stream, uint32_t event) {
  if (__builtin_expect(hooks_any(), 0)) hooks_step((hook_step){kind, device, stream, event, 0});
}

/* Tells of a handle without an owner, if anybody listens. */
__attribute__((cold)) void hooks_tell_handle_now(hook_handle_kind kind, hook_handle_act act, const void *handle,
                                                 const char *call);
static inline void hooks_tell_handle(hook_handle_kind kind, hook_handle_act act, const void *handle, const char *call) {
  if (__builtin_expect(hooks_any(), 0)) hooks_tell_handle_now(kind, act, handle, call);
}

static inline void hooks_tell_use(hook_use_kind kind, int device) {
  if (__builtin_expect(hooks_any(), 0)) hooks_use((hook_use){.kind = kind, .device = device, .stream = HOOK_NO_STREAM});
}

/* Reports a free that failed with st, and adds what the listeners know to the pending message. Returns st. */
status hooks_bad_free(status st, uintptr_t address, void *site);

#endif
