/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked attention with an online softmax (as in FlashAttention).
 *
 * A unit of work is a chunk of up to CHUNK_ROWS query rows of the heads that share keys. Keys and values are packed one
 * block at a time, and each row block of the chunk does the following step with them, where top is the largest logit so
 * far:
 *
 *   S = Q K^T;  P = exp(S - top);  O = O exp(old top - top) + P V
 *
 * Each unit has its own rows, and the order of keys is fixed, so results do not depend on the number of threads. */
#include <string.h>

#include "kernel/attention/attention.h"
#include "kernel/attention/attention_level.h"

/* Rows of one or more heads: `rows` rows from `row` on, of each of `heads` heads from `head` on. */
typedef struct {
  int32_t head, heads, row, rows;
  int64_t low, high; /* the range of keys that any of them sees */
} row_block;

/* A thread's scratch memory. Rows of `product` have product_ld floats, those of `out` dv floats. */
typedef struct {
  row_block *block;
  row_state *state;          /* states of all rows of the chunk */
  char *query, *key, *value; /* packed; query: for each block */
  char *probability;         /* probabilities of one block in the operand type; floats overwrite `product` */
  char *packed_probability;
  char *gathered; /* the queries of a block */
  char *joined;   /* keys with their rotary parts, if these are separate */
  float *product, *out, *factors;
} forward_buffers;

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t product_ld(const attention_plan *p) { return p->blocks.keys + 16; }

/* How the rows of the heads that share keys are divided into blocks. */
typedef struct {
  int64_t heads;       /* number of heads that share keys */
  int64_t per_head;    /* blocks of one head; 0 if a block contains several heads */
  int64_t block_heads; /* number of heads in a block in that case */
  int64_t n;
} block_cut;

static block_cut cut_of(const attention_plan *p, int64_t n_rows) {
  block_cut c = {.heads = p->n_heads / p->n_kv_heads};
  if (n_rows * 2 > p->blocks.rows) {
    c.per_head = (n_rows + p->blocks.rows - 1) / p->blocks.rows;
    c.n = c.heads * c.per_head;
  } else {
    c.block_heads = n_rows ? attention_min(p->blocks.rows / n_rows, c.heads) : c.heads;
    c.n = (c.heads + c.block_heads - 1) / c.block_heads;
  }
  return c;
}

static int64_t chunks_of(const attention_plan *p) {
  return (cut_of(p, p->max_rows).n + p->blocks.chunk - 1) / p->blocks.chunk;
}

/* Places the buffers from address `at` on, and returns the number of bytes that they take. */
static uint64_t forward_lay_out(const attention_plan *p, char *at, forward_buffers *f) {
  const attention_blocks *k = &p->blocks;
  char *const start = at;
  const uint64_t rows = (uint64_t)k->rows, all_rows = rows * (uint64_t)k->chunk;
  f->block = (row_block *)(void *)attention_take(&at, (uint64_t)k->chunk * sizeof *f->block);
  f->state = (row_state *)(void *)attention_take(&at, all_rows * sizeof *f->state);
  f->query = attention_take(&at, (tile_a_bytes(k->tile, k->rows, p->d) + 63) / 64 * 64 * (uint64_t)k->chunk);
  f->key = attention_take(&at, tile_b_bytes(k->tile, p->d, k->keys));
  f->value = attention_take(&at, tile_b_bytes(k->tile, k->keys, p->dv));
  f->product = attention_take_floats(&at, k->rows * product_ld(p));
  f->probability =
      attention_of_floats(k->tile) ? (char *)f->product : attention_take(&at, rows * (uint64_t)k->keys * 2 + 64);
  f->packed_probability = attention_take(&at, tile_a_bytes(k->tile, k->rows, k->keys));
  f->gathered = attention_take(&at, rows * (uint64_t)p->d * 4);
  f->joined = attention_take(&at, p->d_rope ? (uint64_t)k->keys * (uint64_t)p->d * 4 : 0);
  f->out = attention_take_floats(&at, (int64_t)all_rows * p->dv);
  f->factors = attention_take_floats(&at, k->keys);
  return (uint64_t)(at - start);
}

static uint64_t forward_scratch(const attention_plan *p) {
  forward_buffers f;
  const attention_plan plain = attention_unsplit(p);
  return attention_max(forward_lay_out(p, NULL, &f), forward_lay_out(&plain, NULL, &f));
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const attention_job *job;
  attention_batch batch;
  int64_t b, kv_head;
  int32_t n_blocks;
  float_exponents query; /* exponent range of all blocks */
  forward_buffers buffers;
} chunk;

static int64_t block_size(const row_block *k) { return (int64_t)k->heads * k->rows; }
static row_state *states_of(const chunk *c, int32_t block) {
  return c->buffers.state + (int64_t)block * c->job->plan->blocks.rows;
}
static float *outs_of(const chunk *c, int32_t block) {
  return c->buffers.out + (int64_t)block * c->job->plan->blocks.rows * c->job->plan->dv;
}

/* Row i of a block: its head, and its row in the query tensor relative to the sequence's first. */
static void locate(const row_block *k, int64_t i, int64_t *head, int64_t *row) {
  *head = k->head + i / k->rows;
  *row = k->row + i % k->rows;
}

static void start_row(const chunk *c, const row_block *k, int64_t i, row_state *s) {
  int64_t head, row;
  locate(k, i, &head, &row);
  *s = score_row_state(&c->batch, row);
}

/* Returns the queries of a block as equally spaced rows. They are copied if the block has several heads whose distance
 * does not continue that of the rows, or if their rotary parts are separate. */
static const char *forward_gather(const chunk *c, const row_block *k, int64_t *row_bytes) {
  const attention_plan *p = c->job->plan;
  const head_view *v = &p->query;
  const char *from = attention_head_at(c->job, v, c->b, k->head, c->batch.row_begin + k->row);
  *row_bytes = v->row;
  if (!p->d_rope && (k->heads == 1 || v->head == k->rows * v->row)) return from;
  *row_bytes = p->d * (int64_t)dtype_bytes(v->dtype);
  for (int64_t i = 0; i < block_size(k); ++i) {
    int64_t head, row;
    locate(k, i, &head, &row);
    attention_join_query(c->job, c->b, head, c->batch.row_begin + row, c->buffers.gathered + i * *row_bytes);
  }
  return c->buffers.gathered;
}

static char *packed_query(const chunk *c, int32_t block) {
  const attention_plan *p = c->job->plan;
  return c->buffers.query + (uint64_t)block * ((tile_a_bytes(p->blocks.tile, p->blocks.rows, p->d) + 63) / 64 * 64);
}

static void start_block(chunk *c, int32_t block) {
  const attention_plan *p = c->job->plan;
  row_block *k = &c->buffers.block[block];
  row_state *s = states_of(c, block);
  const int64_t n = block_size(k);
  k->low = INT64_MAX;
  k->high = 0;
  for (int64_t i = 0; i < n; ++i) {
    start_row(c, k, i, &s[i]);
    if (s[i].low >= s[i].high) continue;
    k->low = attention_min(k->low, s[i].low);
    k->high = attention_max(k->high, s[i].high);
  }
  memset(outs_of(c, block), 0, (size_t)(n * p->dv) * sizeof(float));
  if (k->low >= k->high) return;
  int64_t row_bytes;
  const char *from = forward_gather(c, k, &row_bytes);
  const int64_t col = from == c->buffers.gathered ? (int64_t)dtype_bytes(p->query.dtype) : p->query.col;
  float_add_exponents(
      &c->query, tile_pack_a(p->blocks.tile, packed_query(c, block), p->query.dtype, from, row_bytes, col, n, p->d));
}

/* ---- the softmax step -------------------------------------------------------------------------------------------- */

static const struct {
  operand_type operand;
  int dtype, bytes;
} operands[] = {[TILE_F32] = {OPERAND_F32, ACL_FLOAT, 4},
                [TILE_F32_PARTS] = {OPERAND_F32, ACL_FLOAT, 4},
                [TILE_BF16] = {OPERAND_BF16, ACL_BF16, 2},
                [TILE_F16] = {OPERAND_F16, ACL_FLOAT16, 2}};

/* Copies row i's probabilities, in y, to their position in the packed block. */
static void put_row(char *to, int64_t step, char *y, int64_t bytes) {
  enum { PIECE = 64 };
  memset(y + bytes, 0, (size_t)(-bytes & (PIECE - 1)));
  for (int64_t at = 0; at < bytes; at += PIECE, to += step) memcpy(to, y + at, PIECE);
}

/* Converts the block's products with keys k to k + n to probabilities, 0 where a row does not see a key, and returns
 * them as a factor for the next GEMM. */
static tile_operand softmax_block(const chunk *c, int32_t block, int64_t k, int64_t n) {
  const attention_plan *p = c->job->plan;
  const row_block *b = &c->buffers.block[block];
  const tile_type tile = p->blocks.tile;
  const int64_t m = block_size(b), ld = product_ld(p), bytes = operands[tile].bytes;
  const int64_t pitch = attention_of_floats(tile) ? ld * 4 : p->blocks.keys * bytes;
  int64_t step;
  const bool in_pieces = tile_a_row(tile, c->buffers.packed_probability, m, n, 0, &step);
  for (int64_t i = 0; i < m; ++i) {
    row_state *s = states_of(c, block) + i;
    char *y = c->buffers.probability + (in_pieces ? 0 : i * pitch);
    const int64_t low = attention_min(attention_max(s->low - k, 0), n),
                  high = attention_max(attention_min(s->high - k, n), low);
    score_row r = {.job = c->job, .batch = &c->batch, .b = c->b};
    locate(b, i, &r.head, &r.query);
    r.query -= c->batch.first_query;
    if (high > low)
      score_softmax(&r, s, c->buffers.product + i * ld + low, y + low * bytes, operands[tile].operand,
                    outs_of(c, block) + i * p->dv, c->buffers.factors, k + low, high - low);
    if (low) memset(y, 0, (size_t)(low * bytes));
    if (high < n) memset(y + high * bytes, 0, (size_t)((n - high) * bytes));
    if (in_pieces) {
      char *const to = tile_a_row(tile, c->buffers.packed_probability, m, n, i, &step);
      put_row(to, step, y, n * bytes);
    }
  }
  if (tile_takes_a(tile, operands[tile].dtype, pitch, bytes)) return (tile_operand){c->buffers.probability, pitch};
  if (!in_pieces)
    tile_pack_a(tile, c->buffers.packed_probability, operands[tile].dtype, c->buffers.probability, pitch, bytes, m, n);
  return (tile_operand){c->buffers.packed_probability, 0};
}

static void block_step(const chunk *c, int32_t block, int64_t k, int64_t n) {
  const attention_plan *p = c->job->plan;
  const tile_type tile = p->blocks.tile;
  const int64_t m = block_size(&c->buffers.block[block]), ld = product_ld(p);
  tile_gemm(tile, m, n, p->d, packed_query(c, block), c->buffers.key, c->buffers.product, ld, false);
  const tile_operand probability = softmax_block(c, block, k, n);
  tile_multiply(tile, m, p->dv, n, probability, (tile_operand){c->buffers.value, 0}, outs_of(c, block), p->dv, true);
}

/* ---- all keys ---------------------------------------------------------------------------------------------------- */

static bool sees(const row_block *b, int64_t k, int64_t n) { return b->low < k + n && b->high > k; }

/* Packs up to n keys from k on, as many as are contiguous, and returns their number; 0 if they cannot be split for
 * TILE_F32_PARTS. Probabilities are assumed to be up to 2^20, since dropout scales them; small ones are irrelevant for
 * the accuracy. */
static int64_t forward_pack_keys(const chunk *c, int64_t k, int64_t n) {
  static const float_exponents probabilities = {.least = 127, .most = 127 + 20};
  const attention_plan *p = c->job->plan;
  const key_place key = attention_join_keys(c->job, &c->batch, c->b, c->kv_head, k, n, c->buffers.joined);
  const key_place value = attention_key_run(c->job, &c->batch, VALUES, c->b, c->kv_head, k);
  n = attention_min(n, attention_min(key.run, value.run));
  const float_exponents keys =
      tile_pack_b(p->blocks.tile, c->buffers.key, p->key.dtype, key.at, key.col, key.row, p->d, n);
  const float_exponents values =
      tile_pack_b(p->blocks.tile, c->buffers.value, p->value.dtype, value.at, value.row, value.col, n, p->dv);
  const bool splits = float_parts_suffice(c->query, keys) && float_parts_suffice(probabilities, values);
  return p->blocks.tile != TILE_F32_PARTS || splits ? n : 0;
}

/* Returns false if some factor cannot be split. */
static bool all_keys(const chunk *c) {
  int64_t low = INT64_MAX, high = 0;
  for (int32_t i = 0; i < c->n_blocks; ++i) {
    low = attention_min(low, c->buffers.block[i].low);
    high = attention_max(high, c->buffers.block[i].high);
  }
  for (int64_t k = low, n; k < high; k += n) {
    n = attention_min(c->job->plan->blocks.keys, high - k);
    bool any = false;
    for (int32_t i = 0; i < c->n_blocks; ++i) any |= sees(&c->buffers.block[i], k, n);
    if (!any) continue;
    n = forward_pack_keys(c, k, n);
    if (!n) return false;
    for (int32_t i = 0; i < c->n_blocks; ++i)
      if (sees(&c->buffers.block[i], k, n)) block_step(c, i, k, n);
  }
  return true;
}

static void finish_block(const chunk *c, int32_t block) {
  const attention_plan *p = c->job->plan;
  const row_block *b = &c->buffers.block[block];
  for (int64_t i = 0; i < block_size(b); ++i) {
    const row_state *s = states_of(c, block) + i;
    float *out = outs_of(c, block) + i * p->dv;
    int64_t head, row;
    locate(b, i, &head, &row);
    const score_row r = {.job = c->job, .batch = &c->batch, .b = c->b, .head = head};
    score_finish(&r, c->batch.row_begin + row, s, out);
  }
}

/* Determines the blocks of the chunk; a short sequence may have none. */
static void find_blocks(chunk *c, int64_t number) {
  const attention_plan *p = c->job->plan;
  const block_cut cut = cut_of(p, c->batch.n_rows);
  const int64_t first = number * p->blocks.chunk, head = c->kv_head * cut.heads;
  c->n_blocks = 0;
  if (!c->batch.n_rows) return;
  for (int64_t i = first; i < attention_min(first + p->blocks.chunk, cut.n); ++i) {
    row_block *b = &c->buffers.block[c->n_blocks++];
    if (cut.per_head) {
      b->head = (int32_t)(head + i / cut.per_head);
      b->heads = 1;
      b->row = (int32_t)(i % cut.per_head * p->blocks.rows);
      b->rows = (int32_t)attention_min(p->blocks.rows, c->batch.n_rows - b->row);
    } else {
      b->head = (int32_t)(head + i * cut.block_heads);
      b->heads = (int32_t)attention_min(cut.block_heads, cut.heads - i * cut.block_heads);
      b->row = 0;
      b->rows = (int32_t)c->batch.n_rows;
    }
  }
}

static bool forward_unit(const attention_job *j, int64_t unit, char *scratch) {
  const attention_plan *p = j->plan;
  const int64_t n_chunks = chunks_of(p), group = unit / n_chunks;
  chunk c = {.job = j, .b = group / p->n_kv_heads, .kv_head = group % p->n_kv_heads, .query = float_no_exponents};
  c.batch = attention_batch_of(j, c.b);
  forward_lay_out(p, scratch, &c.buffers);
  find_blocks(&c, unit % n_chunks);
  for (int32_t i = 0; i < c.n_blocks; ++i) start_block(&c, i);
  if (!all_keys(&c)) return false;
  for (int32_t i = 0; i < c.n_blocks; ++i) finish_block(&c, i);
  return true;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

status attention_blocks_run(const void *plan, const void *operands, char *scratch) {
  (void)scratch;
  const attention_plan *p = plan;
  attention_units(operands, forward_unit, p->n_batches * p->n_kv_heads * chunks_of(p));
  return ST_OK;
}

/* Measured with 64 and 128 components and 512 to 2048 keys: all choices of 56 to 128 rows and 256 to 512 keys are
 * within 10 % of each other. With banded masks, fewer keys per block waste less, and least if a block has as many keys
 * as rows: then each of a block's last keys is seen by some row. A chunk's queries and results and the packed keys take
 * about 1 MB with 128 components, half of an L2 cache. */
enum { BLOCK_ROWS = 128, BLOCK_KEYS = 256, BAND_KEYS = BLOCK_ROWS, CHUNK_ROWS = 1024 };

/* Whether the keys that a query sees depend on its position, and the blocks at the ends of the band are a large share
 * of all. */
static bool is_short_band(const attention_plan *p) {
  const attention_batch *s = &p->uniform;
  return !p->batch_is_listed && s->n_keys <= 2048 && (s->band_high < s->n_keys - 1 || s->band_low > 1 - s->n_queries);
}

void attention_blocks_init(void *plan, executor *e) {
  attention_plan *p = plan;
  const tile_type tile = attention_tile(p->query.dtype);
  const int64_t rows = p->max_rows * (p->n_heads / p->n_kv_heads);
  p->blocks = (attention_blocks){
      .tile = tile,
      .rows = (int32_t)attention_max(attention_min(BLOCK_ROWS, rows), 1),
      .keys = (int32_t)attention_max(
          attention_min(is_short_band(p) ? BAND_KEYS : BLOCK_KEYS, p->max_keys + p->n_prefix_keys), 1),
  };
  p->blocks.chunk = (int32_t)attention_max(attention_min(CHUNK_ROWS / p->blocks.rows, cut_of(p, p->max_rows).n), 1);
  const uint64_t products = (uint64_t)(p->n_batches * p->n_heads * p->max_rows) * (uint64_t)p->max_keys;
  executor_products(e, (double)products * (double)(p->d + p->dv));
  attention_plan_blocks(e, p, p->n_batches * p->n_kv_heads * chunks_of(p), forward_scratch,
                        products * (uint64_t)(2 * (p->d + p->dv) + 20));
}
