/* SPDX-License-Identifier: Apache-2.0 */
/* Moves: bitwise copies of elements from one strided space to another with the same shape and element size. Strides may
 * be 0 (the source is repeated) or negative (it is reversed). Kernels of all families use this module; it calls the
 * loops of move_loops.h and the thread team (kernel/engine/rows.h).
 *
 * A plan orders and merges the dimensions and classifies the two innermost ones: rows of bytes, a transposition, or
 * general strides. A plan is plain data without addresses and takes some 30 ns to make, so kernels may make one for
 * each piece of their work. Plans may be run by several threads at once. */
#ifndef CANNON_KERNEL_MOVE_MOVE_H
#define CANNON_KERNEL_MOVE_MOVE_H

#include "kernel/engine/elementwise.h"
#include "kernel/move/move_loops.h"

enum { MOVE_RANK = 2 * MAX_RANK }; /* each dimension of a tensor may be split in two, as in Repeat */

/* The description of a move: dimensions, and strides in bytes. */
typedef struct {
  int rank;
  int64_t element_bytes;
  int64_t dims[MOVE_RANK];
  union {
    struct {
      int64_t to[MOVE_RANK], from[MOVE_RANK];
    };
    int64_t strides[2][MOVE_RANK]; /* the same */
  };
} move_space;

/* A simplified space with at least two dimensions. The last two form the planes that `loop` moves. */
typedef struct {
  plane_loop *loop;
  int64_t rows; /* total over all planes */
  move_space space;
  /* the result is too large for the caches: use non-temporal stores */
  bool streams;
} move_plan;

/* Appends a dimension as the innermost one; strides in bytes. */
static inline void move_space_add(move_space *s, int64_t dim, int64_t to, int64_t from) {
  s->dims[s->rank] = dim;
  s->to[s->rank] = to;
  s->from[s->rank++] = from;
}

/* Describes the move between two views of one shape; `from` is broadcast: it may lack
 * leading dimensions or have size 1. */
void move_space_of_views(move_space *s, const view *to, const view *from);

/* Describes the move between two views with equally many elements, which correspond in row-major order. Returns false
 * if no strided space does; the caller then uses move_in_order. */
bool move_space_of_reshape(move_space *s, const view *to, const view *from);

/* Simplifies a space and chooses the loop. A space with a dimension of 0 gives a plan that does nothing. */
void move_plan_init(move_plan *p, const move_space *s);

/* Runs the plan on the calling thread, or on a team of threads if cost_ns (the estimated duration) is worth one. */
void move_run(const move_plan *p, void *to, const void *from, uint64_t cost_ns);

/* For moves of several planes row by row in turn (in_turn in move_loops.h): move_is_run returns whether the plan is a
 * single plane of rows of bytes, move_run_of returns its rows. All pointers are borrowed. */
bool move_is_run(const move_plan *p);
row_run move_run_of(const move_plan *p, void *to, const void *from);

/* Plans and runs a move at once. */
void move_now(const move_space *s, void *to, const void *from, uint64_t cost_ns);

/* Copies n elements, from row-major position from_begin of one view to row-major position to_begin of the other. */
void move_in_order(const view *to, void *to_base, int64_t to_begin, const view *from, const void *from_base,
                   int64_t from_begin, int64_t n);

/* ---- copies that convert where dtypes differ --------------------------------------------------------------------- */

typedef struct {
  bool converts;
  union {
    move_plan move;
    elementwise_plan convert;
  };
} copy_plan;

/* `from` is broadcast to `to`; the caller has checked the shapes. */
void move_copy_plan_init(copy_plan *p, const view *to, const view *from);
void move_copy_run(const copy_plan *p, void *to, const void *from, uint64_t cost_ns);

#endif
