/* SPDX-License-Identifier: Apache-2.0 */
/* Executors: the result of phase one, with everything that a launch needs except addresses.
 *
 * operands[] are the tensors of the call in the order of the schema, with lists expanded; an absent tensor keeps its
 * index and has no bytes. An operand knows the range of bytes that it touches, so a launch can check and translate its
 * address without knowing its shape. What a kernel needs to iterate over it is in the plan, which belongs to the
 * operator's family. Kernels get the operands' addresses as view[], in the same order; each points to the first element
 * of the operand's view, or is NULL if the operand is absent or has no element.
 *
 * An executor is launched once and then freed, unless it was made repeatable. It is reference-counted: its owner and
 * each queued launch have a reference. One thread at a time uses an executor that is not launched. If the program never
 * launches it, it is freed after its tensors were destroyed (unlaunched.h).
 *
 * Called by op/, by src/api, and by the prepare functions of kernels. */
#ifndef CANNON_OP_EXECUTOR_H
#define CANNON_OP_EXECUTOR_H

#include <stdatomic.h>

#include "base/status.h"
#include "op/op.h"

enum { EXECUTOR_OPERANDS = 8, EXECUTOR_RESULTS = 3, EXECUTOR_CHOICES = 2, EXECUTOR_PLAN_BYTES = 928 };

typedef struct {
  void *data;            /* the user's address of the storage */
  uint64_t offset_bytes; /* of the first element */
  uint64_t extent_bytes; /* from the first element to the end of the last; 0: no element */
  uint64_t moved_bytes;  /* for account.h: the size of all elements, or the extent if that is smaller (elements share
                            bytes) */
  const char *name;      /* of the argument */
  uint16_t flags;        /* those of the schema, and OPERAND_WHOLE */
  uint16_t list_index;   /* in a tensor list */
  uint8_t argument;      /* index in the schema */
} operand;

enum { OPERAND_WHOLE = 32 }; /* the extent has no gaps between elements */

/* The workspace by use, in bytes; each piece is rounded up to 64. README.md explains the uses. */
typedef struct {
  uint64_t copies;        /* contiguous copies of operands that the kernel needs */
  uint64_t intermediates; /* between the steps of an operator */
  uint64_t partials;      /* partial results of reductions */
} workspace_parts;

/* The implementation that phase one has chosen for a computation (kernel/engine/implementation.h), and why. A record is
 * never freed, and each choice is one record, so they can be compared by address. */
typedef struct {
  const char *family, *name, *reason;
  const char *const *names; /* of all implementations of the family, in the order in which they are tried; the last one
                               is the reference */
  int n_names;
} executor_choice;

/* An implementation that phase one is to take in place of the usual one, if it fits the call. reason: words that stay
 * valid, for those who ask why it was chosen. */
typedef struct {
  const char *family, *name, *reason;
} executor_preference;

/* What the calling thread prefers; NULL: nothing. Set around a call of op_prepare() by those who know better than the
 * kernels' rules (graph/tune.h). CANNON_IMPL wins over it. */
extern INTERNAL _Thread_local const executor_preference *executor_preferred;

/* The description of a tensor for a dump. dtype -1: the tensor is absent. */
typedef struct {
  int16_t dtype, format;
  uint8_t rank;
  int64_t n, n_stored; /* elements of the view and of the storage */
  int64_t dims[MAX_RANK], strides[MAX_RANK];
} dumped_tensor;

/* A form of a constant operand that run() prefers, which the caller makes once, and keeps for all launches, if the
 * operand's contents never change. Offered by prepare functions to those who say which arguments are constant. */
typedef struct {
  uint64_t bytes;  /* 0: nothing is offered */
  uint64_t layout; /* a hash: of the same contents, executors with equal ones have the same packed form */
  /* Packs the operand, whose first element is at `from`, to memory at a multiple of 64 bytes; on a team of threads. */
  void (*pack)(const executor *e, const void *from, void *packed);
  /* Set by the caller: told by pack(), if it reads a large operand piece by piece, that it will not read this piece
   * again; or NULL. */
  void (*was_read)(void *listener, const void *piece, uint64_t bytes);
  void *listener;
  uint16_t operand;
  bool replaces; /* run() does not read the operand itself, whose address may then be NULL */
} executor_packing;

/* An operator that is several tasks (fused.h): what its executor has in place of run(). */
typedef struct sequence {
  /* Queues the tasks on the stream of the handle. The operands and the workspace have been checked. site: the return
   * address of the caller of phase two. */
  status (*submit)(struct sequence *s, const executor *e, void *workspace, void *stream, void *site);
  void (*end)(struct sequence *s); /* frees it; queued tasks keep what they need */
} sequence;

struct aclOpExecutor {
  uint32_t magic;
  _Atomic uint32_t refs;
  op *op;
  bool repeatable, launched;
  bool asks_most;    /* plans the workspace for all lengths of sequences; is not run */
  bool has_granules; /* an operand or the workspace may cover whole granules (memory/huge.h) */
  uint8_t n_results, n_choices;
  uint16_t n_operands;
  operand *operands;        /* own_operands, or malloc'ed if there are more */
  _Atomic uint64_t watched; /* of unlaunched.h: a tensor that it lives as long as; 0: it has another owner, or was
                                    launched */
  _Atomic uint64_t watched_second; /* likewise, another one, or the same */
  _Atomic bool outlived;           /* likewise: it was found to have outlived them */
  void *heap;                      /* malloc'ed memory that belongs to the plan, freed with the executor; or NULL */
  status (*run)(const executor *e, void *const *view, void *scratch);
  uint64_t constants;                /* bit i: the contents of argument i never change */
  executor_packing packing;          /* which prepare functions may fill in if there are constants */
  const void *packed;                /* set by the caller, who must do so if there is a packing, before the launch */
  sequence *sequence;                /* which the executor owns; NULL: run() does it all */
  tensor *results[EXECUTOR_RESULTS]; /* whose shape run() sets; with references, as the caller may destroy them
                                        before */
  const tensor *result_most[EXECUTOR_RESULTS]; /* each one's largest shape, and the dimension that may be smaller; */
  int8_t result_dims[EXECUTOR_RESULTS];        /* -1: none */
  const executor_choice *choices[EXECUTOR_CHOICES]; /* of what has several implementations; usually there are none */
  workspace_parts workspace;
  uint64_t workspace_bytes; /* the sum of its parts */
  uint64_t touched_bytes;   /* read and written, as the shapes tell: for the statistics */
  uint64_t multiply_adds;   /* of matrix products and convolutions; 0: other operators */
  uint64_t n_elements;      /* for account.h: of the largest operand */
  uint32_t element_bytes;   /* likewise: of the first operand that is present */
  uint32_t cost_ns;         /* the estimated time of run() */
  uint32_t shapes;          /* of shapes.h: the number of a text; 0: not recorded */
  uint8_t dumped;           /* of tensor_dump.h: DUMP_INPUTS, DUMP_OUTPUTS; 0: neither */
  dumped_tensor *tensors;   /* the operands' descriptions, malloc'ed, if dumped or told; or NULL */
  operand own_operands[EXECUTOR_OPERANDS];
  void *own_views[EXECUTOR_OPERANDS]; /* for the only launch of an executor that is not repeatable; see launch.c */
  _Alignas(16) char plan[EXECUTOR_PLAN_BYTES];
};

/* The tensor of an operand, among the arguments of the call; NULL if it is absent. */
static inline const tensor *executor_tensor(const executor *e, const operand *p, const op_arg *a) {
  const op_arg *arg = &a[p->argument];
  return e->op->schema[p->argument].kind == ARG_TENSOR ? arg->tensor : arg->tensors->value[p->list_index];
}

/* The executor's plan as a struct of the operator's family. It is not initialised. */
#define PLAN(e, type)                                                                                                  \
  ({                                                                                                                   \
    _Static_assert(sizeof(type) <= EXECUTOR_PLAN_BYTES, "plan is too large");                                          \
    (type *)(void *)(e)->plan;                                                                                         \
  })

/* Zeroed memory for a plan that is larger than that, or whose size depends on the call: the executor's heap, of which
 * there is one. NULL, after fail(), if the host has none. */
void *executor_heap(executor *e, size_t bytes);

/* Declares a pointer to it, or fails: for prepare functions. */
#define HEAP_PLAN(type, name, e, bytes)                                                                                \
  type *const name = executor_heap(e, bytes);                                                                          \
  if (unlikely(!(name))) return ST_NO_HOST_MEMORY

/* Add a piece to the workspace, for one of three uses; return its offset in the scratch memory that run() gets.
 * For prepare functions only. */
uint64_t workspace_copy(executor *e, uint64_t bytes);
uint64_t workspace_intermediate(executor *e, uint64_t bytes);
uint64_t workspace_partial(executor *e, uint64_t bytes);

/* Declares that run() will call tensor_set_shape() for this output, whose shape depends on the data; the
 * program reads it after waiting (aclGetViewShape). most: a tensor with the largest possible shape, which lives as
 * long as the executor (t itself, or one of the plan); dim: the dimension whose size depends on the data; -1: none
 * does. Returns its index in results[]. For prepare functions, up to EXECUTOR_RESULTS times. */
int executor_result(executor *e, const tensor *t, const tensor *most, int dim);

/* Tells which implementation was chosen. For prepare functions, through implementation_plan(); choices beyond
 * EXECUTOR_CHOICES are not told. */
static inline void executor_chose(executor *e, const executor_choice *choice) {
  if (e->n_choices < EXECUTOR_CHOICES) e->choices[e->n_choices++] = choice;
}

/* Sets cost_ns, the estimated time on one core, from the bytes moved and the operations: 14 bytes per nanosecond (28 or
 * 96 if all bytes fit an L3 or an L2 cache) and 32 operations per nanosecond. Sets touched_bytes too. */
void executor_cost(executor *e, uint64_t bytes, uint64_t operations);

/* Adds to the number of multiply-adds that the operator computes on the device's cube units. For prepare functions. */
void executor_products(executor *e, double multiply_adds);

/* Drops a reference; frees the executor with the last one. Thread-safe. */
void executor_unref(executor *e);

/* Notes that it was launched, before its task is submitted. */
static inline void executor_launched(executor *e) {
  e->launched = true;
  atomic_store_explicit(&e->watched, 0, memory_order_relaxed);
}

/* Whether a prepared executor is consistent (base/invariant.h). */
bool executor_is_valid(const executor *e);

#endif
