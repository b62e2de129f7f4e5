/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loops of moves, compiled once per instruction set level by move_level.c. They copy bits,
 * so types are known by their size only. The functions are stateless; callers are move.h's engine and
 * kernels that copy rows themselves. */
#ifndef CANNON_KERNEL_MOVE_MOVE_LOOPS_H
#define CANNON_KERNEL_MOVE_MOVE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* An element of 16 bytes. */
typedef struct {
  uint64_t half[2];
} word16;

/* A plane: n[0] rows of n[1] elements, with strides in bytes. */
typedef struct {
  int64_t n[2], to[2], from[2];
  int64_t element_bytes;
  bool streams; /* the result is too large for the caches: use non-temporal stores where possible */
} plane;

/* Rows of bytes with constant strides, and their destination. */
typedef struct {
  char *to;
  const char *from;
  int64_t to_step, from_step, bytes; /* bytes: size of a row, at least IN_TURN_LEAST */
  bool streams;                      /* see plane */
} row_run;

/* minimum row size in bytes: switching between runs at each row costs more than it gains for shorter ones */
enum { IN_TURN_LEAST = 256 };

typedef void plane_loop(const plane *p, char *to, const char *from);

enum { ELEMENT_SIZES = 5 }; /* 1, 2, 4, 8 and 16 bytes, by their logarithms */

typedef struct {
  plane_loop *rows;                     /* for to[1] and from[1] equal to the element's size */
  plane_loop *transpose[ELEMENT_SIZES]; /* for to[1] and from[0] equal to it */
  plane_loop *strided[ELEMENT_SIZES];   /* for any strides */
  /* Copies n rows of bytes from `from + of[i]` to `to + at[i]`, in the order of i. */
  void (*scattered_rows)(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t bytes);
  /* Copies rows [begin, end) of n runs: one row of each run, then the next row, so that memory is accessed in order
   * where runs are next to each other. */
  void (*in_turn)(const row_run *run, int64_t n, int64_t begin, int64_t end);
} move_loops;

extern const move_loops *moves; /* set before main, for the processor */

static inline int move_element_size_log2(int64_t bytes) { return __builtin_ctzll((unsigned long long)bytes); }

#endif
