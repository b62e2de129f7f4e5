/* The innermost loops of moves, by instruction set level. Bits are moved, never values: types are known by their size. */
#ifndef CANNON_KERNEL_MOVE_MOVE_LOOPS_H
#define CANNON_KERNEL_MOVE_MOVE_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of elements: n[0] rows of n[1] elements, with strides in bytes. */
typedef struct {
  int64_t n[2], to[2], from[2];
  int64_t element_bytes;
  bool streams; /* the result will not be in a cache: stores go past them where that is possible */
} plane;

/* Rows of bytes, and where they go. */
typedef struct {
  char *to;
  const char *from;
  int64_t to_step, from_step, bytes; /* of a row; IN_TURN_LEAST or more */
  bool streams;                      /* as a plane's */
} row_run;

enum { IN_TURN_LEAST = 256 }; /* shorter rows cost more one at a time than they gain */

typedef void plane_loop(const plane *p, char *to, const char *from);

enum { ELEMENT_SIZES = 5 }; /* 1, 2, 4, 8, 16 bytes, by their logarithms */

typedef struct {
  plane_loop *rows;                     /* to[1] and from[1] are the element's size */
  plane_loop *transpose[ELEMENT_SIZES]; /* to[1] and from[0] are it */
  plane_loop *strided[ELEMENT_SIZES];   /* any strides */
  /* Rows of bytes at to + at[i], from from + of[i], in the order of i. */
  void (*scattered_rows)(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t bytes);
  /* Rows [begin, end) of n runs: a row of each, then the next, so that what the runs have side by side stays in order. */
  void (*in_turn)(const row_run *run, int64_t n, int64_t begin, int64_t end);
} move_loops;

extern const move_loops *moves; /* set before main */

static inline int element_size_log2(int64_t bytes) { return __builtin_ctzll((unsigned long long)bytes); }

#endif
