/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: out = dropout(softmax(scale Q K^T + bias, masked)) V, and its gradient. Several query heads may share the
 * keys of one head (grouped-query attention). The computation is blocked: no intermediate result has queries x keys
 * elements.
 *
 *   attention_plan      result of preparation: heads as strided matrices, which keys a query sees, the bias
 *   attention_batch     one sequence of the batch: its rows in the tensors, and the band of keys that a query sees
 *   attention_job       a plan while it runs, with operand addresses
 *   attention_key_run   finds keys: in one tensor, a list of tensors, pages, or a shared prefix followed by a tensor
 *   score_row           one query, whose products with keys become logits
 *
 * The forward pass has a list of implementations (kernel/engine/implementation.h, in plan.c), in the order in which
 * they are tried:
 *
 *   decode      for few queries: streams the keys once (decode.c)
 *   blocks      multiplies blocks of queries and keys (forward.c, product/tile/tile_gemm.h)
 *   reference   query by query, key by key, with sums in double (reference.c)
 *
 * parts.c joins queries and keys with rotary parts that are separate tensors. backward.c computes the gradient;
 * attention_level.c has the inner loops over rows. flash.c and infer.c prepare CANN's two families of operators. Used
 * within this folder only. A plan is immutable while it runs; a job is shared by the threads and only read. */
#ifndef CANNON_KERNEL_ATTENTION_ATTENTION_H
#define CANNON_KERNEL_ATTENTION_ATTENTION_H

#include "kernel/attention/attention_level.h"
#include "kernel/engine/implementation.h"
#include "kernel/engine/loops.h"
#include "kernel/product/tile/tile_gemm.h"
#include "op/executor.h"

/* A tensor viewed as [sequence, head, position, component]; strides in bytes. */
typedef struct {
  int16_t operand; /* index among the executor's operands, or ABSENT */
  int16_t dtype;
  int64_t batch, head, row, col;
} head_view;

enum { ABSENT = -1 };

/* One sequence. Query i sees the keys from max(0, i + band_low) to i + band_high, and all keys below `prefix`. */
typedef struct {
  int64_t row_begin, n_rows; /* rows of the query tensor that receive results */
  /* the rows that are queries, relative to row_begin; results of other rows (padding) are 0 */
  int64_t first_query, n_queries;
  int64_t key_begin, n_keys; /* the sequence's keys in the key tensor */
  int64_t band_low, band_high, prefix;
  int64_t drop_bit; /* index of the sequence's first bit in the dropout mask */
} attention_batch;

/* How a bias is combined with qk, the dot product of query and key. */
typedef enum {
  BIAS_NONE,
  BIAS_SCALED,     /* scale (qk + bias) */
  BIAS_ADDED,      /* scale qk + bias */
  BIAS_ALIBI,      /* scale qk - slope of the head * distance */
  BIAS_ALIBI_SQRT, /* scale qk - slope of the head * sqrt(distance) */
} bias_kind;

/* Block sizes and the division of work. */
typedef struct {
  tile_type tile;     /* operand type of the micro-kernels */
  int32_t rows, keys; /* size of a block */
  int32_t chunk;      /* number of row blocks that use the same packed keys */
  int32_t max_threads;
  int32_t splits;         /* decode.c: number of chunks that a sequence's keys are divided into */
  uint64_t scratch_bytes; /* scratch memory of one thread */
} attention_blocks;

/* Paged keys: key k of sequence b is key k % keys of page table[b][k / keys]. Table strides are in bytes. */
typedef struct {
  int64_t keys, n_pages, table_row, table_col;
} key_pages;

typedef struct {
  int64_t n_batches, n_heads, n_kv_heads;
  int64_t d, dv;              /* components of queries and keys, of values */
  int64_t d_rope;             /* of d, the last ones: those of the rotary parts, which are tensors of their own; or 0 */
  int64_t max_rows, max_keys; /* maximum over the sequences */
  head_view query, key, value, out;
  head_view query_rope, key_rope; /* if d_rope is not 0 */
  /* softmax statistics, written n_copies times each; if lse is set, row_max receives max + log(sum) instead */
  head_view row_max, row_sum;
  head_view bias, mask; /* mask: bytes; a key is hidden where the byte is not 0 */
  int8_t n_copies;
  bool lse;
  /* statistics of listed sequences are concatenated, [heads, rows, copies] each, instead of [rows, heads, copies] */
  bool softmax_is_packed;
  int16_t sink, sink_dtype; /* sink: operand with a logit for each head that has no value; or ABSENT */
  int64_t sink_step;        /* in bytes */
  bool key_list;            /* key and value are lists with one tensor per sequence */
  /* e->heap is an array of attention_batch, one per sequence; otherwise all sequences are like `uniform` */
  bool batch_is_listed;
  bias_kind bias_kind;
  /* the bias of listed sequences is concatenated, [heads, queries or 1, keys] each */
  bool bias_is_packed;
  bool bias_has_rows; /* whether a packed bias has a dimension of queries */
  /* an ALiBi bias may be given for its last rows only; this many rows before them are missing */
  int32_t bias_rows_missing;
  float scale, keep;                  /* keep: 1 / the probability that dropout keeps an element */
  int16_t drop;                       /* operand of the dropout mask */
  int16_t table;                      /* operand of the page table */
  int16_t query_padding, key_padding; /* operands with one int64, the number of padding rows behind the sequence */
  int64_t query_start, key_start;     /* added to positions for ALiBi's distance */
  int64_t n_prefix_keys;              /* keys that all sequences share, before their own */
  attention_batch uniform;
  attention_blocks blocks;
  const implementation *chosen;
  union {
    struct { /* inference */
      key_pages pages;
      head_view prefix_key, prefix_value;
    };
    struct { /* gradient: `out` is the result of the forward pass, row_max and row_sum its softmax statistics */
      head_view dout, dquery, dkey, dvalue, dquery_rope, dkey_rope;
      int16_t dsink; /* operand; or ABSENT */
      int64_t dsink_step;
      uint64_t sink_sums; /* in scratch: doubles, of each sequence and head */
    };
  };
} attention_plan;

typedef struct {
  const executor *e;
  const attention_plan *plan;
  void *const *view;
  char *scratch;
  /* number of padding rows, read from the operands; ABSENT if there is no such operand */
  int64_t query_padding, key_padding;
} attention_job;

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* Sets the executor's cost and requests the threads' workspace of per_thread(p) bytes each. Everything else in the plan
 * must be set. */
void attention_plan_blocks(executor *e, attention_plan *p, int64_t n_units,
                           uint64_t (*per_thread)(const attention_plan *p), uint64_t operations);

/* The micro-kernels' operand type for tensors of a dtype. */
tile_type attention_tile(int dtype);
static inline bool attention_of_floats(tile_type tile) { return tile == TILE_F32 || tile == TILE_F32_PARTS; }
/* A copy of the plan with TILE_F32 in place of TILE_F32_PARTS. */
attention_plan attention_unsplit(const attention_plan *p);

/* Chooses the implementation of the forward pass, which chooses block sizes and requests workspace. All of *p except
 * `blocks` must be set. */
status attention_plan_forward(executor *e, attention_plan *p);

/* Starts a run: reads the padding sizes and checks the page table. Fails with ST_DEVICE_EXCEPTION if one is invalid. */
status attention_job_init(attention_job *j, const executor *e, void *const *view, void *scratch);

/* Sequence b, including what is only known when the task runs (padding). */
attention_batch attention_batch_of(const attention_job *j, int64_t b);

/* Range of keys [*low, *high) that query i sees; it may be empty. */
static inline void attention_visible_keys(const attention_batch *s, int64_t i, int64_t *low, int64_t *high) {
  const int64_t last = i + s->band_high + 1 > s->prefix ? i + s->band_high + 1 : s->prefix;
  *low = s->prefix > 0 || i + s->band_low < 0 ? 0 : i + s->band_low;
  *high = last < s->n_keys ? last : s->n_keys;
  if (*high < *low) *high = *low;
}

typedef enum { KEYS, KEY_ROPES, VALUES } key_part;

/* Address of key k of a sequence, and how many keys from k on (k included) lie at the same distance from each other. */
typedef struct {
  const char *at;
  int64_t row, col; /* bytes to the next key and to the next component */
  int64_t run;
} key_place;
key_place attention_key_run(const attention_job *j, const attention_batch *s, key_part which, int64_t b,
                            int64_t kv_head, int64_t k);

static inline char *attention_head_at(const attention_job *j, const head_view *v, int64_t b, int64_t head,
                                      int64_t row) {
  return (char *)j->view[v->operand] + b * v->batch + head * v->head + row * v->row;
}

/* The address of a softmax statistic of a sequence's row. */
static inline char *attention_statistic_at(const attention_job *j, const head_view *v, const attention_batch *s,
                                           int64_t b, int64_t head, int64_t row) {
  const attention_plan *p = j->plan;
  if (!p->softmax_is_packed) return attention_head_at(j, v, b, head, s->row_begin + row);
  const int64_t at = s->row_begin * p->n_heads + head * s->n_rows + row;
  return attention_head_at(j, v, b, at % p->n_heads, at / p->n_heads);
}

static inline float attention_sink(const attention_job *j, int64_t head) {
  const attention_plan *p = j->plan;
  float sink;
  loops->load[p->sink_dtype][COMPUTE_F32](&sink, (const char *)j->view[p->sink] + head * p->sink_step, 0, 1);
  return sink;
}

/* Calls body(job, unit, scratch of the thread) for all units, on several threads and in any order. body returns false
 * if some factor of TILE_F32_PARTS cannot be split; the unit is then run again with the plan that attention_unsplit
 * returns. */
typedef bool unit_body(const attention_job *j, int64_t unit, char *scratch);
void attention_units(const attention_job *j, unit_body *body, int64_t n_units);

/* ---- parts.c ----------------------------------------------------------------------------------------------------- */

/* Copies the d components of a query to adjacent ones, in the query's dtype. */
void attention_join_query(const attention_job *j, int64_t b, int64_t head, int64_t row, char *to);

/* As attention_key_run of KEYS, with rotary parts behind the other components. If these are separate, up to n keys are
 * copied to `scratch`, whose size is n keys. */
key_place attention_join_keys(const attention_job *j, const attention_batch *s, int64_t b, int64_t kv_head, int64_t k,
                              int64_t n, char *scratch);

/* Writes d components to a row of v, of which the last d_rope to a row of `rope`. */
void attention_write_parts(const attention_job *j, const head_view *v, const head_view *rope, int64_t b, int64_t head,
                           int64_t row, const float *x);

/* ---- score.c ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const attention_job *job;
  const attention_batch *batch;
  int64_t b, head, query; /* query: index in its sequence */
} score_row;

/* Whether the softmax is applied to anything but qk times a positive scale. */
static inline bool score_has_terms(const attention_plan *p) {
  return p->bias_kind != BIAS_NONE || p->mask.operand >= 0 || !(p->scale > 0);
}

/* x: dot products of the query with keys k to k + n. Converts them to logits up to a positive factor, which is
 * returned; hidden keys become -inf. */
float score_logits(const score_row *r, float *x, int64_t k, int64_t n);

/* y[i] = the dropout factor of key k + i: 0, or plan->keep. */
void score_dropout(const score_row *r, float *y, int64_t k, int64_t n);

/* Intermediate state of a row's softmax (maximum and sum so far), and the range of keys that the row sees. */
typedef struct {
  float top, sum;
  int64_t low, high;
} row_state;

/* Initial state of a row of the query tensor; row is relative to the sequence's first row. */
row_state score_row_state(const attention_batch *s, int64_t row);

/* One step of an online softmax. x: dot products with keys k to k + n, all of which the row sees; overwritten. y
 * receives the probabilities relative to the maximum so far, converted to `type`. out: the dv output sums so far, which
 * are scaled down if the maximum has grown. factors: scratch for n floats. */
void score_softmax(const score_row *r, row_state *s, float *x, void *y, operand_type type, float *out, float *factors,
                   int64_t k, int64_t n);

/* Normalises the sums of a row and writes them to out, and writes the softmax statistics. */
void score_finish(const score_row *r, int64_t row, const row_state *s, float *out);

/* Writes a row of a tensor: out[i] = x[i], converted to the dtype. */
void attention_write_row(const head_view *v, char *to, const float *x, int64_t n);

/* ---- forward.c, decode.c, reference.c: members of an implementation; operands: the attention_job ----------------- */

void attention_blocks_init(void *plan, executor *e);
status attention_blocks_run(const void *plan, const void *operands, char *scratch);

/* For few queries: keys are read once and not packed. */
enum { DECODE_ROWS = 16 }; /* the most queries of the heads that share keys */
bool attention_decode_fits(void *plan);
/* The most that the parts of divided keys take in the workspace. */
uint64_t attention_decode_most_parts(const attention_plan *p);
void attention_decode_init(void *plan, executor *e);
status attention_decode_run(const void *plan, const void *operands, char *scratch);

void attention_reference_init(void *plan, executor *e);
status attention_reference_run(const void *plan, const void *operands, char *scratch);

/* ---- backward.c -------------------------------------------------------------------------------------------------- */

/* Chooses block sizes and sets e->run. All of *p except `blocks` must be set. */
status attention_plan_backward(executor *e, attention_plan *p);

/* Takes the next piece of a thread's scratch memory; pieces start at multiples of 64 bytes. */
static inline char *attention_take(char **at, uint64_t bytes) {
  char *piece = *at;
  *at += (bytes + 63) / 64 * 64;
  return piece;
}

static inline float *attention_take_floats(char **at, int64_t n) {
  return (float *)(void *)attention_take(at, (uint64_t)n * sizeof(float));
}

static inline int64_t attention_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t attention_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
