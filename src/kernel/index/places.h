/* SPDX-License-Identifier: Apache-2.0 */
/* Gather and scatter as one loop over index positions. The operators of kernel/index plan with this module and run it;
 * it calls the move engine (kernel/move) and the thread team (kernel/engine/rows.h). The names in the code:
 *
 *   target   the tensor that is indexed: self of Gather, out of Scatter
 *   side     the other tensor: out of Gather, the updates of Scatter
 *   place    one position: one combination of elements of the index tensors. Its offset in the target is the sum over
 *            the index tensors of index * stride, plus its own coordinates * target_step where Gather keeps the other
 *            dimensions. It also has an offset in the side
 *   slice    the elements that are moved (or accumulated) for one position: the dimensions that no index covers
 *
 * Offsets are computed in blocks of PLACES_BLOCK positions on the stack, so every index is read and checked once.
 * Positions are processed in row-major order: of two equal indices the later one wins, and sums are added in that
 * order. The result therefore depends neither on the number of threads nor on strides.
 *
 * A plan belongs to its executor. places_run may run concurrently for one plan; it changes nothing in it. */
#ifndef CANNON_KERNEL_INDEX_PLACES_H
#define CANNON_KERNEL_INDEX_PLACES_H

#include "kernel/index/index_loops.h"
#include "kernel/move/move.h"
#include "op/executor.h"

enum { PLACES_BLOCK = 256, IN_SCRATCH = -1 };
enum { OF_TARGET, OF_SIDE }; /* rows of slice_strides */

/* One index tensor, as read at each position. */
typedef struct {
  const char *name;       /* argument name, for messages */
  int operand;            /* index of the operand, or IN_SCRATCH */
  int dtype;              /* ACL_INT32, ACL_INT64 */
  bool wraps;             /* negative indices count from the end */
  uint64_t scratch;       /* byte offset in the scratch memory, for IN_SCRATCH */
  int64_t offset;         /* bytes from the beginning of the operand */
  int64_t extent, stride; /* size and stride (bytes) of the indexed dimension of the target */
  int64_t step[MAX_RANK]; /* bytes, per dimension of the positions */
} index_source;

typedef struct {
  int rank, slice_rank, n_sources;
  int64_t target_bytes, side_bytes; /* element sizes; they differ where 16-bit floats are summed in float */
  int64_t run;                      /* elements that are contiguous in both: the innermost part of a slice */
  int64_t n;                        /* number of positions */
  int64_t dims[MAX_RANK], target_step[MAX_RANK], side_step[MAX_RANK];
  int64_t slice_dims[MAX_RANK], slice_strides[2][MAX_RANK]; /* strides in the target and in the side */
  index_source *source;
} places;

/* Starts a plan with a single position and a slice of one element. Then add dimensions, outermost first, with steps and
 * strides in bytes. The caller fills the sources (and their `step`s); it keeps the array alive as long as the plan. */
void places_init(places *p, int64_t target_bytes, int64_t side_bytes, index_source *source, int n_sources);
void places_add(places *p, int64_t dim, int64_t target_step, int64_t side_step);
void places_add_slice(places *p, int64_t dim, int64_t target_stride, int64_t side_stride);

/* Merges dimensions and completes the plan, so that it can be run. `to_side`: the run writes to the side (gather). */
void places_finish(places *p, bool to_side);

/* Kinds from PLACES_ADD on compute. */
typedef enum {
  PLACES_GATHER,
  PLACES_SCATTER,
  PLACES_ADD,
  PLACES_MULTIPLY,
  PLACES_MAX,
  PLACES_MIN,
  PLACES_DIVIDE
} places_kind;

/* The loop of a kind that computes; NULL: there is none for the dtype. */
accumulate_loop *places_loop(places_kind kind, int dtype);

typedef struct {
  const places *p;
  places_kind kind;
  int dtype;           /* of the side; used by kinds that compute */
  compute_value alpha; /* factor of each summand of PLACES_ADD, see places_alpha */
  char *target, *side;
  void *const *view; /* addresses of all operands, from which index tensors are read */
  const char *scratch;
  /* estimated duration of the run; determines the number of threads */
  uint64_t cost_ns;
} places_job;

/* Runs the plan. Fails with ST_DEVICE_EXCEPTION for the first index (in row-major order) that is out of range; elements
 * that were written before stay written. */
status places_run(const places_job *job);

/* Fills all sources of the plan (n_sources of them) from `indices`, whose last dimension has one
 * coordinate per source, as in GatherNd. */
void places_of_coordinates(places *p, const tensor *indices, const char *name, int operand, const view *target,
                           bool wraps);

/* An index tensor whose values number the elements of the target in row-major order, as in Take. Where the
 * target has no single stride (is_needed), the run starts with linear_index_run, which converts the
 * indices to byte offsets in scratch. */
typedef struct {
  bool is_needed;
  uint64_t offsets; /* in scratch: int64, one per index */
  const char *name;
  int operand;
  view index, target;
} linear_index;

/* Plans *l and sets *s, the source that the positions use. Phase one; takes workspace where is_needed. */
void linear_index_plan(executor *e, linear_index *l, index_source *s, const view *target, const tensor *index,
                       const char *name, int operand);
/* Checks the indices and computes the offsets; run if is_needed, before places_run. Returns
 * an error for an invalid index. */
status linear_index_run(const linear_index *l, void *const *view, void *scratch);

/* Returns t, or, where t has no dimension, *v filled as a vector of one element that shares t's data. */
static inline const tensor *index_vector(const tensor *t, tensor *v) {
  if (likely(t->rank)) return t;
  *v = *t;
  v->rank = 1;
  v->dims[0] = v->strides[0] = 1;
  return v;
}

/* Returns the error "name[place] is value, expected low to high". */
status places_fail(const char *name, int64_t place, int64_t value, int64_t low, int64_t high);

/* The scalar (1 for NULL) in the compute type of dtype, as the alpha of a places_job. */
compute_value places_alpha(int dtype, const scalar *s);

#endif
