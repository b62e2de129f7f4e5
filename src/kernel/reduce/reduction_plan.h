/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of the reduction engine, and what its files share: reduction.c (planning, and the ways to walk memory),
 * merge.c (results of parts of an output), reference.c. Used by these only. A plan does not change while it runs. */
#ifndef CANNON_KERNEL_REDUCE_REDUCTION_PLAN_H
#define CANNON_KERNEL_REDUCE_REDUCTION_PLAN_H

#include "kernel/engine/rows.h"
#include "kernel/reduce/fold.h"
#include "kernel/reduce/reduction.h"

enum {
  REDUCTION_TURNED_WIDTH = 64, /* outputs that are transposed together */
  REDUCTION_TILE_ELEMENTS = REDUCTION_TURNED_WIDTH * FOLD_TURNED,
};

/* How the results of several blocks are merged. */
typedef enum {
  MERGE_ADD,
  MERGE_MULTIPLY,
  MERGE_MAX,
  MERGE_MIN,
  MERGE_MIN_MAX,
  MERGE_ARG_MAX,
  MERGE_ARG_MIN,
  MERGE_MOMENTS,
  MERGE_EXPONENTIALS
} merge_kind;

/* How a kind is computed: by one or two block reductions (fold.h), merging and a final operation. A second block
 * reduction uses the first one's result as its shift. */
typedef struct {
  uint8_t first, second, merge, finish;
  double of_nothing; /* result for an empty input; NAN: NaN or no result */
} kind_info;

enum { NO_FOLD = N_FOLDS };

extern const kind_info reduction_kinds[N_REDUCTIONS];

typedef struct reduce_plan reduce_plan;
typedef struct reduce_buffer reduce_buffer;
typedef struct results results;

/* What the implementations differ in. `from` is the first element of the first of `width` adjacent outputs. */
typedef struct {
  void (*outputs)(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r); /* all elements */
  /* The elements of one chunk; NULL: chunks are not shared out. */
  void (*chunk)(const reduce_plan *p, void *from, int64_t width, int64_t chunk, reduce_buffer *b, results *r);
  int64_t width, chunk_width; /* most outputs at a time */
} reduce_way;

struct reduce_plan {
  const reduce_way *way;
  walk outputs;                         /* the kept dimensions; operand 0: the input, then the outputs */
  row_access in;                        /* along the innermost reduced dimension */
  store_loop *store[REDUCTION_OUTPUTS]; /* for value and second; NULL: not wanted */
  const fold_loops *first, *second;     /* second NULL: a single pass */
  double parameter;
  int64_t n, n_chunks; /* elements and chunks per output */
  int64_t partials;    /* offset of the partial results in the workspace, if `split` */
  reduced_dims reduced;
  uint8_t kind, compute, operand[1 + REDUCTION_OUTPUTS];
  uint8_t element_bytes; /* bytes of an element as it is stored; by rows, where block reductions read it */
  uint8_t imaginary[2];  /* bytes from the real to the imaginary parts, of the input and the output; 0: none */
  bool split, is_far;
  /* the elements of a row, or of adjacent outputs, are contiguous in the type that block reductions read */
  bool row_is_direct, across_is_direct;
  int16_t dtype; /* of the input */
};

typedef struct {
  fold_value value, second;
} partial;

/* Results of adjacent outputs. */
struct results {
  fold_value value[FOLD_WIDTH], second[FOLD_WIDTH];
};

/* A thread's buffers. */
struct reduce_buffer {
  _Alignas(64) char state[FOLD_STATE_BYTES];
  _Alignas(64) char tile[REDUCTION_TILE_ELEMENTS * sizeof(double)]; /* a block of a row, or rows of a strip */
  _Alignas(64) char turned[REDUCTION_TILE_ELEMENTS * sizeof(double)];
  double shift[FOLD_WIDTH];
};

typedef struct {
  const reduce_plan *plan;
  char *at[1 + REDUCTION_OUTPUTS];
  partial *partials; /* [outputs][n_chunks] */
} reduce_job;

static inline bool reduction_is_integer(const reduce_plan *p) { return p->compute == COMPUTE_I64; }

/* Merges into a, the result of n_a elements, the result b of the n_b elements that follow. b's indices count from its
 * own first element. */
void reduction_merge(const reduce_plan *p, partial *a, const partial *b, int64_t n_a, int64_t n_b);
/* Merges results of adjacent outputs. If a has no elements yet, b is the result. */
void reduction_merge_results(const reduce_plan *p, results *a, const results *b, int64_t width, int64_t n_a,
                             int64_t n_b);
/* Merges an output's next `count` blocks of n elements each, in order, into the result of `before` elements. */
void reduction_merge_blocks(const reduce_plan *p, partial *a, const results *blocks, int64_t count, int64_t before,
                            int64_t n);

/* Reduces outputs as the other implementations do, without their loops: see reference.c. */
void reduction_reference(const reduce_plan *p, char *from, int64_t width, reduce_buffer *b, results *r);

#endif
