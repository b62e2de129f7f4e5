/* Moves: elements go from one strided space to another of the same shape and element size, bit by bit. Strides may be
 * 0 (the source is repeated) or negative (it is reversed).
 *
 * A plan orders and merges the dimensions and looks at the two innermost: rows of bytes, a transposition, or anything
 * else. It is plain data, needs no address, and takes some 30 ns to make, so kernels that move parts may plan each. */
#ifndef CANNON_KERNEL_MOVE_MOVE_H
#define CANNON_KERNEL_MOVE_MOVE_H

#include "kernel/engine/elementwise.h"
#include "kernel/move/move_loops.h"

enum { MOVE_RANK = 2 * MAX_RANK }; /* a tensor whose every dimension is split in two: Repeat */

/* What is to be moved: dims, and strides in bytes. */
typedef struct {
  int rank;
  int64_t element_bytes;
  int64_t dims[MOVE_RANK], to[MOVE_RANK], from[MOVE_RANK];
} move_space;

/* A simplified space: at least two dimensions, of which the last two are the planes that `loop` moves. */
typedef struct {
  plane_loop *loop;
  int64_t rows; /* of all planes */
  move_space space;
  bool streams;
} move_plan;

/* Adds a dimension inside of those that are there. */
static inline void space_add(move_space *s, int64_t dim, int64_t to, int64_t from) {
  s->dims[s->rank] = dim;
  s->to[s->rank] = to;
  s->from[s->rank++] = from;
}

/* The space of two views of one shape; `from` may lack leading dimensions, and have 1 where it is repeated. */
void space_of_views(move_space *s, const view *to, const view *from);

/* The space of two views with as many elements, whose elements correspond in row-major order. False: there is none
 * that says it; use move_in_order. */
bool space_of_reshape(move_space *s, const view *to, const view *from);

void move_plan_init(move_plan *p, const move_space *s);

/* On the calling thread, or on a team where cost_ns is worth one. */
void move_run(const move_plan *p, void *to, const void *from, uint64_t cost_ns);

/* For moves of one plane of rows of bytes that take turns (move_loops.h): whether this is one; its rows. */
bool move_is_run(const move_plan *p);
row_run move_run_of(const move_plan *p, void *to, const void *from);

/* Plans and runs at once. */
void move_now(const move_space *s, void *to, const void *from, uint64_t cost_ns);

/* n elements from row-major position from_begin of one view to position to_begin of the other. */
void move_in_order(const view *to, void *to_base, int64_t to_begin, const view *from, const void *from_base,
                   int64_t from_begin, int64_t n);

/* ---- copies that convert where dtypes differ ---------------------------------------------------------------------- */

typedef struct {
  bool converts;
  union {
    move_plan move;
    elementwise_plan convert;
  };
} copy_plan;

/* `from` broadcasts to `to`; the caller has checked that. */
void copy_plan_init(copy_plan *p, const view *to, const view *from);
void copy_run(const copy_plan *p, void *to, const void *from, uint64_t cost_ns);

#endif
