/* What phase one makes: everything a launch needs but addresses.
 *
 * operands[] are the tensors of the call, in the order of the schema, lists spread out; an absent one keeps its place,
 * without bytes. An operand knows the bytes it touches, so that a launch can check and translate its address without
 * its shape; what a kernel needs to walk it is in the plan, which belongs to the operator's family. Kernels get the
 * operands' addresses as view[], in the same order, each pointing at the view's first element (NULL: absent, or no element).
 *
 * An executor is used for one launch and then freed, unless it was made repeatable; it is referenced by its owner and
 * by each queued launch. */
#ifndef CANNON_OP_EXECUTOR_H
#define CANNON_OP_EXECUTOR_H

#include <stdatomic.h>

#include "op/op.h"

enum { EXECUTOR_OPERANDS = 8, EXECUTOR_RESULTS = 3, EXECUTOR_PLAN_BYTES = 896 };

typedef struct {
  void *data;            /* the user's address of the storage */
  uint64_t offset_bytes; /* of the first element */
  uint64_t extent_bytes; /* from the first element to behind the last; 0: no element */
  uint64_t moved_bytes;  /* account.h's: the elements' own, or the extent where elements share bytes */
  const char *name;      /* the argument's */
  uint8_t flags;         /* ARG_READ, ARG_WRITTEN, OPERAND_WHOLE */
  uint8_t argument;      /* index in the schema */
  uint16_t list_index;   /* in a tensor list */
} operand;

enum { OPERAND_WHOLE = 32 }; /* all bytes of the extent are elements' */

/* The parts of a workspace, in bytes; each piece is rounded up to 64. docs/architecture.md explains them. */
typedef struct {
  uint64_t copies;        /* contiguous copies that the kernel can't avoid */
  uint64_t intermediates; /* between the steps of an operator */
  uint64_t partials;      /* of reductions */
} workspace_parts;

/* A tensor as a dump describes it; of one that is absent, dtype -1. */
typedef struct {
  int16_t dtype, format;
  uint8_t rank;
  int64_t n;
  int64_t dims[MAX_RANK], strides[MAX_RANK];
} dumped_tensor;

struct aclOpExecutor {
  uint32_t magic;
  _Atomic uint32_t refs;
  op *op;
  bool repeatable, launched;
  bool has_granules; /* an operand, or the workspace, may hold whole granules (memory/huge.h) */
  uint8_t n_results;
  uint16_t n_operands;
  operand *operands; /* own_operands, or malloc'ed where there are more */
  void *heap;        /* further memory of the plan, malloc'ed, freed with the executor; or NULL */
  status (*run)(const executor *e, void *const *view, void *scratch);
  tensor *results[EXECUTOR_RESULTS]; /* whose shape run will set; held, so that the caller may destroy them before */
  workspace_parts workspace;
  uint64_t workspace_bytes; /* their sum */
  uint64_t touched_bytes;   /* read and written, by the shapes: for the statistics */
  uint64_t multiply_adds;   /* of products; 0: other operators */
  uint64_t n_elements;      /* account.h's: of the largest operand */
  uint32_t element_bytes;   /* and of one element of the first */
  uint32_t cost_ns;         /* estimate of run */
  uint32_t shapes;          /* shapes.h's; 0: not recorded */
  uint8_t dumped;           /* dump.h's: DUMP_INPUTS, DUMP_OUTPUTS; 0: neither */
  dumped_tensor *tensors;   /* of the operands, malloc'ed, while dumped */
  operand own_operands[EXECUTOR_OPERANDS];
  void *own_views[EXECUTOR_OPERANDS]; /* of its only launch, where it is not repeatable; see launch.c */
  _Alignas(16) char plan[EXECUTOR_PLAN_BYTES];
};

/* An operand's tensor among the arguments of the call; NULL where it is absent. */
static inline const tensor *executor_tensor(const executor *e, const operand *p, const op_arg *a) {
  const op_arg *arg = &a[p->argument];
  return e->op->schema[p->argument].kind == ARG_TENSOR ? arg->tensor : arg->tensors->value[p->list_index];
}

/* The executor's plan as the family's struct; cleared by op_prepare only where the family says so. */
#define PLAN(e, type)                                                                                                  \
  ({                                                                                                                   \
    _Static_assert(sizeof(type) <= EXECUTOR_PLAN_BYTES, "plan is too large");                                          \
    (type *)(void *)(e)->plan;                                                                                         \
  })

/* Adds the three kinds of workspace: each returns the piece's offset in the scratch that run() gets. Only from prepare
 * functions. */
uint64_t workspace_copy(executor *e, uint64_t bytes);
uint64_t workspace_intermediate(executor *e, uint64_t bytes);
uint64_t workspace_partial(executor *e, uint64_t bytes);

/* run will call tensor_set_shape on this output, whose shape depends on the data: the caller reads it after it has
 * waited (aclGetViewShape). Returns its place in results[]. Only from prepare functions, at most EXECUTOR_RESULTS. */
int executor_result(executor *e, const tensor *t);

/* A task's estimated time from what it moves and computes, on one core: 14 bytes a nanosecond, 28 or 96 where all of it
 * fits an L3 or an L2 cache, and 32 operations. Sets touched_bytes too. */
void executor_cost(executor *e, uint64_t bytes, uint64_t operations);

/* The operator computes products, this many multiply-adds (more, if called again), on the device's cube units. Only
 * from prepare functions. */
void executor_products(executor *e, double multiply_adds);

void executor_unref(executor *e);

/* Whether the parts of a prepared executor agree (base/invariant.h). */
bool executor_is_valid(const executor *e);

#endif
