/* Attention: out = dropout(softmax(scale Q K^T + bias, masked)) V, for heads that may share keys (GQA), and its
 * gradient, in blocks: nothing here is of the size queries x keys.
 *
 *   attention_plan    what phase one has found out: heads as strided matrices, which keys a query sees, what is added
 *   attention_batch   one sequence of the batch: its rows in the tensors, the band of keys that a query sees
 *   attention_job     a plan with addresses, while it runs
 *   key_run           where keys are: in one tensor, a list of them, pages, or a shared prefix and then a tensor
 *   score_row         one query: its products with keys become logits
 *
 * forward.c multiplies blocks (product/tile_gemm.h), decode.c streams keys once for a few queries, backward.c is the
 * gradient; attention_level.c has the loops over rows. flash.c and infer.c are CANN's two families of operators. */
#ifndef CANNON_KERNEL_ATTENTION_ATTENTION_H
#define CANNON_KERNEL_ATTENTION_ATTENTION_H

#include "kernel/attention/attention_level.h"
#include "kernel/engine/loops.h"
#include "kernel/product/tile_gemm.h"
#include "op/executor.h"

/* A tensor as [sequence, head, position, component]; strides in bytes. */
typedef struct {
  int16_t operand; /* its index among the views; ABSENT */
  int16_t dtype;
  int64_t batch, head, row, col;
} head_view;

enum { ABSENT = -1 };

/* One sequence. Query i sees the keys max(0, i + band_low) to i + band_high, and all below `prefix`. */
typedef struct {
  int64_t row_begin, n_rows;      /* rows of the query's tensor that get results */
  int64_t first_query, n_queries; /* those of the rows that are queries; the others' results are 0 */
  int64_t key_begin, n_keys;      /* in the key's tensor */
  int64_t band_low, band_high, prefix;
  int64_t drop_bit; /* number of its first bit in the dropout mask */
} attention_batch;

/* What is added to a product of query and key. */
typedef enum {
  BIAS_NONE,
  BIAS_SCALED,     /* scale (qk + bias) */
  BIAS_ADDED,      /* scale qk + bias */
  BIAS_ALIBI,      /* scale qk - slope of the head * distance */
  BIAS_ALIBI_SQRT, /* scale qk - slope of the head * sqrt(distance) */
} bias_kind;

/* How the work is cut. */
typedef struct {
  tile_type tile;     /* what blocks are multiplied as */
  int32_t rows, keys; /* of a block */
  int32_t chunk;      /* blocks of rows that one packing of keys serves */
  int32_t max_threads;
  int32_t splits;         /* decode.c: parts that a sequence's keys are cut into */
  uint64_t scratch_bytes; /* of one thread */
} attention_blocks;

/* Keys in pages: page number table[b][k / keys], key k % keys in it. */
typedef struct {
  int64_t keys, n_pages, table_row, table_col;
} key_pages;

typedef struct {
  int64_t n_batches, n_heads, n_kv_heads;
  int64_t d, dv;              /* components of queries and keys, of values */
  int64_t max_rows, max_keys; /* of any sequence */
  head_view query, key, value, out;
  head_view row_max, row_sum; /* results of the softmax, n_copies of each; lse: row_max gets max + log(sum) */
  head_view bias, mask;       /* mask: bytes; not 0 hides a key */
  int8_t n_copies;
  bool lse;
  bool key_list;        /* key and value are lists of tensors, one for each sequence */
  bool batch_is_listed; /* e->heap has a batch for each sequence, else all are like `uniform` */
  bias_kind bias_kind;
  bool bias_is_packed;                /* of listed sequences one behind the other, [heads, queries or 1, keys] */
  bool bias_has_rows;                 /* then: it has queries */
  int32_t bias_rows_missing;          /* ALiBi is given by its last rows: so many before them are not there */
  float scale, keep;                  /* keep: 1 / probability that the dropout mask keeps */
  int16_t drop;                       /* operand of the dropout mask */
  int16_t table;                      /* operand of the page table */
  int16_t query_padding, key_padding; /* operands of one int64: rows behind the sequence */
  int64_t query_start, key_start;     /* added to positions for ALiBi's distance */
  int64_t n_prefix_keys;              /* keys that all sequences share, before their own */
  attention_batch uniform;
  attention_blocks blocks;
  union {
    struct { /* inference */
      key_pages pages;
      head_view prefix_key, prefix_value;
    };
    struct { /* gradient: `out` is what the forward pass gave, row_max and row_sum its softmax */
      head_view dout, dquery, dkey, dvalue;
    };
  };
} attention_plan;

typedef struct {
  const executor *e;
  const attention_plan *plan;
  void *const *view;
  char *scratch;
  int64_t query_padding, key_padding; /* ABSENT, or what the operands say */
} attention_job;

/* ---- plan.c ------------------------------------------------------------------------------------------------------ */

/* Sets the cost and asks for the threads' workspace, per_thread bytes each; all else of the plan is set. */
status attention_plan_blocks(executor *e, attention_plan *p, int64_t n_units,
                             uint64_t (*per_thread)(const attention_plan *p), uint64_t operations);

/* How operands of a dtype are multiplied. */
tile_type attention_tile(int dtype);
static inline bool attention_of_floats(tile_type tile) { return tile == TILE_F32 || tile == TILE_F32_PARTS; }
attention_plan attention_unsplit(const attention_plan *p);

status attention_job_init(attention_job *j, const executor *e, void *const *view, void *scratch);

/* Sequence b, with what is known at run time only. */
attention_batch attention_batch_of(const attention_job *j, int64_t b);

/* Keys that query i sees: [*low, *high), which may be empty. */
static inline void visible_keys(const attention_batch *s, int64_t i, int64_t *low, int64_t *high) {
  const int64_t last = i + s->band_high + 1 > s->prefix ? i + s->band_high + 1 : s->prefix;
  *low = s->prefix > 0 || i + s->band_low < 0 ? 0 : i + s->band_low;
  *high = last < s->n_keys ? last : s->n_keys;
  if (*high < *low) *high = *low;
}

typedef enum { KEYS, VALUES } key_or_value;

/* Where key k of a sequence is, and how many follow it at the same distance, k included. */
typedef struct {
  const char *at;
  int64_t row, col; /* bytes to the next key, to the next component */
  int64_t run;
} key_place;
key_place key_run(const attention_job *j, const attention_batch *s, key_or_value which, int64_t b, int64_t kv_head,
                  int64_t k);

static inline char *head_at(const attention_job *j, const head_view *v, int64_t b, int64_t head, int64_t row) {
  return (char *)j->view[v->operand] + b * v->batch + head * v->head + row * v->row;
}

/* body(job, unit, scratch of the thread) for all units, in any order. False: some of TILE_F32_PARTS does not split; the unit
 * is run again by the plan as attention_unsplit has it. */
typedef bool unit_body(const attention_job *j, int64_t unit, char *scratch);
void attention_units(const attention_job *j, unit_body *body, int64_t n_units);

/* ---- score.c ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const attention_job *job;
  const attention_batch *batch;
  int64_t b, head, query; /* query: number in its sequence */
} score_row;

/* Whether products are anything but scaled before the softmax. */
static inline bool has_score_terms(const attention_plan *p) {
  return p->bias_kind != BIAS_NONE || p->mask.operand >= 0 || !(p->scale > 0);
}

/* x: products of the query with keys k to k + n. Makes them logits but for a factor, which is the result; hidden ones
 * become -inf. */
float score_logits(const score_row *r, float *x, int64_t k, int64_t n);

/* y[i] = the factor of probability k + i: 0, or plan->keep. */
void score_dropout(const score_row *r, float *y, int64_t k, int64_t n);

/* What a row has so far of its softmax, and the keys that it sees. */
typedef struct {
  float top, sum;
  int64_t low, high;
} row_state;

/* Of a row of the query's tensor, counted from the sequence's first. */
row_state row_state_of(const attention_batch *s, int64_t row);

/* One step of an online softmax. x: products with keys k to k + n, all of which the row sees, overwritten; y: their
 * probabilities, as the type, relative to the largest so far. out: dv sums so far, scaled down where that has grown.
 * factors: room for n floats. */
void score_softmax(const score_row *r, row_state *s, float *x, void *y, operand_type type, float *out, float *factors,
                   int64_t k, int64_t n);

/* Sums become the result, which is written, as are the softmax's. */
void score_finish(const score_row *r, int64_t row, const row_state *s, float *out);

/* out[i] = x[i], converted; a row of a tensor. */
void row_write(const head_view *v, char *to, const float *x, int64_t n);

/* ---- forward.c, decode.c, backward.c ------------------------------------------------------------------------------ */

/* Plans and sets e->run; all of *p but `blocks` is set. */
status plan_attention(executor *e, attention_plan *p);
status plan_attention_gradient(executor *e, attention_plan *p);

/* Few queries, whose keys are read once and not packed. */
bool decode_fits(const attention_plan *p);
status plan_decode(executor *e, attention_plan *p);

/* The next piece of a thread's memory; pieces start at multiples of 64 bytes. */
static inline char *take(char **at, uint64_t bytes) {
  char *piece = *at;
  *at += (bytes + 63) / 64 * 64;
  return piece;
}

static inline float *take_floats(char **at, int64_t n) {
  return (float *)(void *)take(at, (uint64_t)n * sizeof(float));
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
