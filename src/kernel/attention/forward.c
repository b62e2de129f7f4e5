/* Attention by blocks with an online softmax.
 *
 * A unit of work is a chunk: some hundred queries of the heads that share keys. Keys and values are packed a block at a
 * time, and each block of the chunk's queries takes its step with them:
 *
 *   S = Q K^T;  P = exp(S - top), top being the largest so far;  O = O exp(old top - top) + P V
 *
 * Units own their rows, and their order of keys is fixed, so results don't depend on threads. */
#include <string.h>

#include "kernel/attention/attention.h"
#include "kernel/attention/attention_level.h"

/* Rows of one or more heads: `rows` from `row` on of each of `heads` from `head` on. */
typedef struct {
  int32_t head, heads, row, rows;
  int64_t low, high; /* the keys that any of them sees */
} row_block;

/* A thread's memory. Products and outputs have rows of `product_ld` and dv floats. */
typedef struct {
  row_block *block;
  row_state *state;          /* of all rows of the chunk */
  char *query, *key, *value; /* packed; query: for each block */
  char *probability;         /* of one block, as the operand type; floats replace the products */
  char *packed_probability;
  char *gathered; /* queries of a block */
  float *product, *out, *factors;
} forward_buffers;

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t product_ld(const attention_plan *p) { return p->blocks.keys + 16; }

/* How the rows of the heads that share keys are cut into blocks. */
typedef struct {
  int64_t heads;       /* that share keys */
  int64_t per_head;    /* blocks of one head; 0: a block has several heads */
  int64_t block_heads; /* then so many */
  int64_t n;
} block_cut;

static block_cut cut_of(const attention_plan *p, int64_t n_rows) {
  block_cut c = {.heads = p->n_heads / p->n_kv_heads};
  if (n_rows * 2 > p->blocks.rows) {
    c.per_head = (n_rows + p->blocks.rows - 1) / p->blocks.rows;
    c.n = c.heads * c.per_head;
  } else {
    c.block_heads = n_rows ? least(p->blocks.rows / n_rows, c.heads) : c.heads;
    c.n = (c.heads + c.block_heads - 1) / c.block_heads;
  }
  return c;
}

static int64_t chunks_of(const attention_plan *p) {
  return (cut_of(p, p->max_rows).n + p->blocks.chunk - 1) / p->blocks.chunk;
}

/* Lays the buffers out from `at` on; returns how many bytes that takes. */
static uint64_t lay_out(const attention_plan *p, char *at, forward_buffers *f) {
  const attention_blocks *k = &p->blocks;
  char *const start = at;
  const uint64_t rows = (uint64_t)k->rows, all_rows = rows * (uint64_t)k->chunk;
  f->block = (row_block *)(void *)take(&at, (uint64_t)k->chunk * sizeof *f->block);
  f->state = (row_state *)(void *)take(&at, all_rows * sizeof *f->state);
  f->query = take(&at, (tile_a_bytes(k->tile, k->rows, p->d) + 63) / 64 * 64 * (uint64_t)k->chunk);
  f->key = take(&at, tile_b_bytes(k->tile, p->d, k->keys));
  f->value = take(&at, tile_b_bytes(k->tile, k->keys, p->dv));
  f->product = take_floats(&at, k->rows * product_ld(p));
  f->probability = attention_of_floats(k->tile) ? (char *)f->product : take(&at, rows * (uint64_t)k->keys * 2 + 64);
  f->packed_probability = take(&at, tile_a_bytes(k->tile, k->rows, k->keys));
  f->gathered = take(&at, rows * (uint64_t)p->d * 4);
  f->out = take_floats(&at, (int64_t)all_rows * p->dv);
  f->factors = take_floats(&at, k->keys);
  return (uint64_t)(at - start);
}

static uint64_t forward_scratch(const attention_plan *p) {
  forward_buffers f;
  const attention_plan plain = attention_unsplit(p);
  return most(lay_out(p, NULL, &f), lay_out(&plain, NULL, &f));
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

typedef struct {
  const attention_job *job;
  attention_batch batch;
  int64_t b, kv_head;
  int32_t n_blocks;
  float_exponents query; /* of all blocks */
  forward_buffers buffers;
} chunk;

static int64_t block_size(const row_block *k) { return (int64_t)k->heads * k->rows; }
static row_state *states_of(const chunk *c, int32_t block) {
  return c->buffers.state + (int64_t)block * c->job->plan->blocks.rows;
}
static float *outs_of(const chunk *c, int32_t block) {
  return c->buffers.out + (int64_t)block * c->job->plan->blocks.rows * c->job->plan->dv;
}

/* Row i of a block: its head, and the row in the query's tensor from the sequence's first. */
static void locate(const row_block *k, int64_t i, int64_t *head, int64_t *row) {
  *head = k->head + i / k->rows;
  *row = k->row + i % k->rows;
}

static void start_row(const chunk *c, const row_block *k, int64_t i, row_state *s) {
  int64_t head, row;
  locate(k, i, &head, &row);
  *s = row_state_of(&c->batch, row);
}

/* Queries of a block side by side, for heads that are not in step with rows. */
static const char *gather(const chunk *c, const row_block *k, int64_t *row_bytes) {
  const attention_plan *p = c->job->plan;
  const head_view *v = &p->query;
  const int64_t size = dtype_bytes(v->dtype);
  const char *from = head_at(c->job, v, c->b, k->head, c->batch.row_begin + k->row);
  *row_bytes = v->row;
  if (k->heads == 1 || v->head == k->rows * v->row) return from;
  *row_bytes = p->d * size;
  for (int64_t i = 0; i < block_size(k); ++i) {
    int64_t head, row;
    locate(k, i, &head, &row);
    const char *at = head_at(c->job, v, c->b, head, c->batch.row_begin + row);
    char *to = c->buffers.gathered + i * *row_bytes;
    if (v->col == size)
      memcpy(to, at, (size_t)*row_bytes);
    else
      for (int64_t x = 0; x < p->d; ++x) memcpy(to + x * size, at + x * v->col, (size_t)size);
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
    k->low = least(k->low, s[i].low);
    k->high = most(k->high, s[i].high);
  }
  memset(outs_of(c, block), 0, (size_t)(n * p->dv) * sizeof(float));
  if (k->low >= k->high) return;
  int64_t row_bytes;
  const char *from = gather(c, k, &row_bytes);
  const int64_t col = from == c->buffers.gathered ? (int64_t)dtype_bytes(p->query.dtype) : p->query.col;
  float_add_exponents(
      &c->query, tile_pack_a(p->blocks.tile, packed_query(c, block), p->query.dtype, from, row_bytes, col, n, p->d));
}

/* ---- the softmax's step ------------------------------------------------------------------------------------------ */

static const struct {
  operand_type operand;
  int dtype, bytes;
} operands[] = {[TILE_F32] = {OPERAND_F32, ACL_FLOAT, 4},
                [TILE_F32_PARTS] = {OPERAND_F32, ACL_FLOAT, 4},
                [TILE_BF16] = {OPERAND_BF16, ACL_BF16, 2},
                [TILE_F16] = {OPERAND_F16, ACL_FLOAT16, 2}};

/* Row i's probabilities, in y, go to their place in the packed block. */
static void put_row(char *to, int64_t step, char *y, int64_t bytes) {
  enum { PIECE = 64 };
  memset(y + bytes, 0, (size_t)(-bytes & (PIECE - 1)));
  for (int64_t at = 0; at < bytes; at += PIECE, to += step) memcpy(to, y + at, PIECE);
}

/* The block's products with keys k to k + n become probabilities, 0 where a row doesn't see a key, and a factor. */
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
    const int64_t low = least(most(s->low - k, 0), n), high = most(least(s->high - k, n), low);
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

/* Packs as many keys from k on as are in one place, `n` at most. 0: they don't split. Of probabilities, up to 1 and its like
 * where some are dropped, what is small does not count. */
static int64_t pack_keys(const chunk *c, int64_t k, int64_t n) {
  static const float_exponents probabilities = {.least = 127, .most = 127 + 20};
  const attention_plan *p = c->job->plan;
  const key_place key = key_run(c->job, &c->batch, KEYS, c->b, c->kv_head, k);
  const key_place value = key_run(c->job, &c->batch, VALUES, c->b, c->kv_head, k);
  n = least(n, least(key.run, value.run));
  const float_exponents keys =
      tile_pack_b(p->blocks.tile, c->buffers.key, p->key.dtype, key.at, key.col, key.row, p->d, n);
  const float_exponents values =
      tile_pack_b(p->blocks.tile, c->buffers.value, p->value.dtype, value.at, value.row, value.col, n, p->dv);
  const bool splits = float_parts_suffice(c->query, keys) && float_parts_suffice(probabilities, values);
  return p->blocks.tile != TILE_F32_PARTS || splits ? n : 0;
}

/* False: not all of them split. */
static bool all_keys(const chunk *c) {
  int64_t low = INT64_MAX, high = 0;
  for (int32_t i = 0; i < c->n_blocks; ++i) {
    low = least(low, c->buffers.block[i].low);
    high = most(high, c->buffers.block[i].high);
  }
  for (int64_t k = low, n; k < high; k += n) {
    n = least(c->job->plan->blocks.keys, high - k);
    bool any = false;
    for (int32_t i = 0; i < c->n_blocks; ++i) any |= sees(&c->buffers.block[i], k, n);
    if (!any) continue;
    n = pack_keys(c, k, n);
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

/* The blocks that the chunk consists of; none beyond the last of a short sequence. */
static void find_blocks(chunk *c, int64_t number) {
  const attention_plan *p = c->job->plan;
  const block_cut cut = cut_of(p, c->batch.n_rows);
  const int64_t first = number * p->blocks.chunk, head = c->kv_head * cut.heads;
  c->n_blocks = 0;
  if (!c->batch.n_rows) return;
  for (int64_t i = first; i < least(first + p->blocks.chunk, cut.n); ++i) {
    row_block *b = &c->buffers.block[c->n_blocks++];
    if (cut.per_head) {
      b->head = (int32_t)(head + i / cut.per_head);
      b->heads = 1;
      b->row = (int32_t)(i % cut.per_head * p->blocks.rows);
      b->rows = (int32_t)least(p->blocks.rows, c->batch.n_rows - b->row);
    } else {
      b->head = (int32_t)(head + i * cut.block_heads);
      b->heads = (int32_t)least(cut.block_heads, cut.heads - i * cut.block_heads);
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
  lay_out(p, scratch, &c.buffers);
  find_blocks(&c, unit % n_chunks);
  for (int32_t i = 0; i < c.n_blocks; ++i) start_block(&c, i);
  if (!all_keys(&c)) return false;
  for (int32_t i = 0; i < c.n_blocks; ++i) finish_block(&c, i);
  return true;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static status forward_run(const executor *e, void *const *view, void *scratch) {
  attention_job j;
  TRY(attention_job_init(&j, e, view, scratch));
  attention_units(&j, forward_unit, j.plan->n_batches * j.plan->n_kv_heads * chunks_of(j.plan));
  return ST_OK;
}

/* Measured with 64 and 128 components, 512 to 2048 keys: 56 to 128 rows and 256 to 512 keys are within a tenth of each
 * other. Where bands end, fewer keys waste less, and least where there are as many as rows: then a block's last keys are
 * all seen by some of its rows. A chunk's queries and results, and the packed keys, are about 1 MB at 128 components, half
 * of an L2 cache. */
enum { BLOCK_ROWS = 128, BLOCK_KEYS = 256, BAND_KEYS = BLOCK_ROWS, CHUNK_ROWS = 1024 };

/* Whether queries see parts of the keys by their place, and the blocks where the band ends are many of all. */
static bool is_short_band(const attention_plan *p) {
  const attention_batch *s = &p->uniform;
  return !p->batch_is_listed && s->n_keys <= 2048 && (s->band_high < s->n_keys - 1 || s->band_low > 1 - s->n_queries);
}

status plan_attention(executor *e, attention_plan *p) {
  if (decode_fits(p)) return plan_decode(e, p);
  const tile_type tile = attention_tile(p->query.dtype);
  const int64_t rows = p->max_rows * (p->n_heads / p->n_kv_heads);
  p->blocks = (attention_blocks){
      .tile = tile,
      .rows = (int32_t)most(least(BLOCK_ROWS, rows), 1),
      .keys = (int32_t)most(least(is_short_band(p) ? BAND_KEYS : BLOCK_KEYS, p->max_keys + p->n_prefix_keys), 1),
  };
  p->blocks.chunk = (int32_t)most(least(CHUNK_ROWS / p->blocks.rows, cut_of(p, p->max_rows).n), 1);
  e->run = forward_run;
  const uint64_t products = (uint64_t)(p->n_batches * p->n_heads * p->max_rows) * (uint64_t)p->max_keys;
  executor_products(e, (double)products * (double)(p->d + p->dv));
  return attention_plan_blocks(e, p, p->n_batches * p->n_kv_heads * chunks_of(p), forward_scratch,
                               products * (uint64_t)(2 * (p->d + p->dv) + 20));
}
