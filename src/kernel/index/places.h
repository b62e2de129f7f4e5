/* Places: where index tensors point to in a tensor, and what lies beside them. All of gathering and scattering is one
 * loop over places:
 *
 *   target   the tensor that is indexed: self of Gather, out of Scatter
 *   side     the other one: out of Gather, the updates of Scatter
 *   place    a combination of indices. It has an offset in the target, the sum over the index tensors of index * stride
 *            (and of its own coordinates * steps, where Gather keeps the other dimensions), and one in the side
 *   slice    what is moved (or added) at a place: the dimensions that no index goes over
 *
 * Offsets are made in blocks of PLACES_BLOCK, so that index tensors are read and checked once, and without memory.
 * Places go in row-major order: of two that are the same the later wins, and sums are added in that order, whatever the
 * number of threads and the strides. */
#ifndef CANNON_KERNEL_INDEX_PLACES_H
#define CANNON_KERNEL_INDEX_PLACES_H

#include "kernel/index/index_loops.h"
#include "kernel/move/move.h"
#include "op/executor.h"

enum { PLACES_BLOCK = 256, IN_SCRATCH = -1 };

/* One index tensor over the places. */
typedef struct {
  const char *name;       /* the argument's */
  int operand;            /* or IN_SCRATCH */
  int dtype;              /* ACL_INT32, ACL_INT64 */
  bool wraps;             /* negative ones count from the end */
  uint64_t scratch;       /* offset there */
  int64_t offset;         /* bytes, from where the operand begins */
  int64_t extent, stride; /* of the dimension of the target that it indexes */
  int64_t step[MAX_RANK]; /* bytes, for each dimension of the places */
} index_source;

typedef struct {
  int rank, slice_rank, n_sources;
  int64_t target_bytes, side_bytes; /* of an element: halves are summed up in float */
  int64_t run;                      /* elements side by side in both, the innermost part of a slice */
  int64_t n;                        /* places */
  int64_t dims[MAX_RANK], target_step[MAX_RANK], side_step[MAX_RANK];
  int64_t slice_dims[MAX_RANK], slice_target[MAX_RANK], slice_side[MAX_RANK];
  index_source *source;
} places;

/* One place whose slice is one element; dimensions are added outermost first, and the sources' steps are the caller's. */
void places_init(places *p, int64_t target_bytes, int64_t side_bytes, index_source *source, int n_sources);
void places_add(places *p, int64_t dim, int64_t target_step, int64_t side_step);
void places_add_slice(places *p, int64_t dim, int64_t target_stride, int64_t side_stride);

/* Simplifies; afterwards they can be run. `to_side`: the side is written. */
void places_finish(places *p, bool to_side);

typedef enum { PLACES_GATHER, PLACES_SCATTER, PLACES_ADD, PLACES_MULTIPLY } places_kind;

typedef struct {
  const places *p;
  places_kind kind;
  int dtype;           /* of the side: for arithmetic */
  compute_value alpha; /* for PLACES_ADD */
  char *target, *side;
  void *const *view; /* of index operands */
  const char *scratch;
  uint64_t cost_ns;
} places_job;

/* Fails for the first index that is out of range; what was done until then stays done. */
status places_run(const places_job *job);

/* Sources for the coordinates in the last dimension of `indices`: as many as there are. */
void places_of_coordinates(places *p, const tensor *indices, const char *name, int operand, const view *target,
                           bool wraps);

/* An index into all elements of the target in row-major order. Where one stride does not do, the run begins with
 * linear_run, which makes offsets of them. */
typedef struct {
  bool is_needed;
  uint64_t offsets; /* in scratch */
  const char *name;
  int operand;
  view index, target;
} linear_index;

void linear_plan(executor *e, linear_index *l, index_source *s, const view *target, const tensor *index,
                 const char *name, int operand);
status linear_run(const linear_index *l, void *const *view, void *scratch);

/* A scalar as a vector of one, for which there is room in v. */
static inline const tensor *index_vector(const tensor *t, tensor *v) {
  if (likely(t->rank)) return t;
  *v = *t;
  v->rank = 1;
  v->dims[0] = v->strides[0] = 1;
  return v;
}

/* "name[place] is value, expected ..." */
status places_fail(const char *name, int64_t place, int64_t value, int64_t low, int64_t high);

/* The compute type's 1, and the scalar as one. */
compute_value places_alpha(int dtype, const scalar *s);

#endif
