/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: elements are dropped with a probability, the others are multiplied by 1 / (1 - probability), so that the
 * expected value is unchanged. A mask has a bit for each element in logical order, starting with the lowest bit of a
 * byte, 1 for elements that are kept; it is padded to a multiple of 128 bits. RReLU, which draws random slopes, is here
 * as well. */
#include <math.h>
#include <string.h>

#include "kernel/engine/rows.h"
#include "kernel/random/random.h"

enum { MASK_ALIGN_BITS = 128, TILE_MASK = RANDOM_TILE / 8 };

/* The source of a mask. */
typedef enum {
  MASK_DRAWN, /* from random numbers */
  MASK_READ,
  MASK_FULL,  /* all are kept */
  MASK_EMPTY, /* all are dropped */
} mask_source;

typedef struct {
  walk values;       /* operand 0: output, 1: input; used if has_values */
  int64_t n;         /* bits of the mask */
  int64_t mask_step; /* bytes between the mask's bytes */
  random_key key;
  uint32_t below; /* elements with a random word below this are dropped */
  uint8_t source;
  bool has_values, keeps_mask; /* keeps_mask: the mask is stored */
  bool reads_keep;             /* the probability of being kept is a tensor, which is read when the task runs */
  int8_t out, in, mask, keep;  /* operand indices of the executor */
  int keep_dtype;
  /* If it is stateless: the operands seed, seed1 and offset (-1: none) that the numbers depend on, and nothing else. */
  bool is_stateless;
  int8_t word[3], word_dtype[3];
  int64_t last; /* of offset: the last element counts */
  load_loop *load;
  store_loop *store;
  float scale;
} dropout_plan;

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* Makes the mask of elements i to i + n; returns its address. */
static const uint8_t *make_mask(const dropout_plan *p, const random_key *key, const uint8_t *mask, int64_t i, int64_t n,
                                uint8_t *tile) {
  const int64_t bytes = (n + 7) / 8;
  switch (p->source) {
  case MASK_DRAWN: {
    uint32_t words[RANDOM_TILE];
    random_level->words(words, key->seed, key->offset, (uint64_t)i / RANDOM_BLOCK_WORDS,
                        bytes * 8 / RANDOM_BLOCK_WORDS);
    random_level->keep_bits(tile, words, p->below, bytes * 8);
    return tile;
  }
  case MASK_READ:
    if (p->mask_step == 1) return mask + i / 8;
    for (int64_t k = 0; k < bytes; ++k) tile[k] = mask[(i / 8 + k) * p->mask_step];
    return tile;
  default: memset(tile, p->source == MASK_FULL ? 0xff : 0, (size_t)bytes); return tile;
  }
}

/* Loads n elements into a tile, as float, and advances the cursor. dropout_store_tile converts them back. */
static void dropout_load_tile(const dropout_plan *p, cursor *c, float *tile, int64_t n) {
  for (int64_t k = 0, row; k < n; k += row, cursor_next(c, row)) {
    row = cursor_row(c, n - k);
    p->load(tile + k, c->at[1], p->values.strides[1][p->values.rank - 1], row);
  }
}

static void dropout_store_tile(const dropout_plan *p, cursor *c, const float *tile, int64_t n) {
  for (int64_t k = 0, row; k < n; k += row, cursor_next(c, row)) {
    row = cursor_row(c, n - k);
    p->store(c->at[0], p->values.strides[0][p->values.rank - 1], tile + k, row);
  }
}

/* A thread's buffers. */
typedef struct {
  const dropout_plan *plan;
  const random_key *key;
  void *const *view;
} dropout_job;

static void dropout_run_share(const void *job, int64_t begin, int64_t end) {
  const dropout_job *j = job;
  const dropout_plan *p = j->plan;
  float x[RANDOM_TILE];
  uint8_t bits[TILE_MASK];
  uint8_t *mask = p->mask >= 0 ? j->view[p->mask] : NULL;
  const int64_t n_values = p->has_values ? p->values.n : 0;
  cursor from;
  if (begin < n_values) cursor_start(&from, &p->values, (void *const[]){j->view[p->out], j->view[p->in]}, begin);
  for (int64_t i = begin, n; i < end; i += n) {
    n = i64_min(RANDOM_TILE, end - i);
    const uint8_t *m = make_mask(p, j->key, mask, i, n, bits);
    if (p->keeps_mask)
      for (int64_t k = 0; k < (n + 7) / 8; ++k) mask[(i / 8 + k) * p->mask_step] = m[k];
    if (i >= n_values) continue;
    cursor to = from;
    const int64_t n_here = i64_min(n_values - i, n);
    dropout_load_tile(p, &from, x, n_here);
    random_level->drop(x, x, m, p->scale, n_here);
    dropout_store_tile(p, &to, x, n_here);
  }
}

/* Sets the source of the mask and the scale for a probability of being dropped. */
static void plan_probability(dropout_plan *p, double probability) {
  p->source = probability == 0 ? MASK_FULL : probability == 1 ? MASK_EMPTY : MASK_DRAWN;
  p->scale = probability == 1 ? 0 : (float)(1 / (1 - probability));
  const double words = ceil(probability * 0x1p32);
  p->below = words > UINT32_MAX ? UINT32_MAX : (uint32_t)words;
}

/* The plan with the probability that a tensor has. A mask that is read stays one, with the scale. */
static status read_keep(dropout_plan *p, void *const *view) {
  double keep;
  const uint8_t source = p->source;
  loops->load[p->keep_dtype][COMPUTE_F64](&keep, view[p->keep], 0, 1);
  if (!(keep >= 0 && keep <= 1)) return fail(ST_DEVICE_EXCEPTION, "the probability is %g, expected 0 to 1", keep);
  plan_probability(p, 1 - keep);
  if (source == MASK_READ) p->source = MASK_READ;
  return ST_OK;
}

/* The key of a stateless operator. */
static random_key dropout_words(const dropout_plan *p, void *const *view) {
  int64_t word[3] = {0};
  for (int k = 0; k < 3; ++k) {
    if (p->word[k] < 0) continue;
    const int64_t bytes = (int64_t)dtype_bytes(p->word_dtype[k]);
    loops->load[p->word_dtype[k]][COMPUTE_I64](&word[k], (char *)view[p->word[k]] + (k == 2 ? p->last * bytes : 0), 0,
                                               1);
  }
  return random_key_of(word[0] ^ (int64_t)((uint64_t)word[1] << 32), word[2]);
}

static status run_dropout(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  dropout_plan read;
  const dropout_plan *p = PLAN(e, dropout_plan);
  if (p->reads_keep) {
    read = *p;
    TRY(read_keep(&read, view));
    p = &read;
  }
  const random_key key = p->is_stateless ? dropout_words(p, view) : random_key_at_run(&p->key, view);
  const dropout_job job = {.plan = p, .key = &key, .view = view};
  rows_parallel(dropout_run_share, &job, p->n, RANDOM_TILE, e->cost_ns);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

static int64_t mask_bits(int64_t n) { return (n + MASK_ALIGN_BITS - 1) / MASK_ALIGN_BITS * MASK_ALIGN_BITS; }

static status expect_probability(double p, const char *name) {
  EXPECT(p >= 0 && p <= 1, "%s is %g, expected 0 to 1", name, p);
  return ST_OK;
}

/* Plans a mask of n elements; its bytes must be evenly spaced. */
static status plan_mask(dropout_plan *p, const tensor *mask, const char *name, int operand, int64_t n,
                        bool may_be_longer) {
  TRY(op_expect_dtype(mask, name, DTYPE_BIT(ACL_UINT8)));
  const int64_t needed = mask_bits(n) / 8;
  EXPECT(mask->n == needed || (may_be_longer && mask->n > needed),
         "%s has %jd elements, expected %jd, a bit for each of %jd and padding to %d", name, (intmax_t)mask->n,
         (intmax_t)needed, (intmax_t)n, MASK_ALIGN_BITS);
  const view v = view_of(mask);
  walk w;
  walk_init(&w, (const view *const[]){&v}, 1, v.rank);
  EXPECT(w.rank == 1, "%s of shape %s has no single stride, expected one", name, SHAPE_OF(mask));
  p->mask_step = w.dims[0] > 1 ? w.strides[0][0] : 1;
  p->mask = (int8_t)operand;
  return ST_OK;
}

static status plan_values(dropout_plan *p, const tensor *in, const char *in_name, const tensor *out,
                          const char *out_name) {
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  TRY(op_expect_dtype(in, in_name, floats));
  TRY(op_expect_dtype(out, out_name, floats));
  TRY(op_expect_same_shape(out, out_name, in));
  const view to = view_of(out), from = view_of(in);
  walk_init(&p->values, (const view *const[]){&to, &from}, 2, to.rank);
  p->load = loops->load[in->dtype][COMPUTE_F32];
  p->store = loops->store[out->dtype][COMPUTE_F32];
  p->has_values = true;
  return ST_OK;
}

static void dropout_finish(executor *e, const dropout_plan *p, int64_t n, size_t element_bytes) {
  e->run = run_dropout;
  executor_cost(e, (uint64_t)n * element_bytes * (p->has_values ? 2 : 0) + (uint64_t)n / 8,
                (uint64_t)n * (p->source == MASK_DRAWN ? 64 : 16));
}

/* Plans the forward operator; the mask is stored if it was drawn. */
static status dropout_prepare_forward(executor *e, const tensor *in, const tensor *out, const tensor *mask,
                                      random_key key, double probability, bool train) {
  dropout_plan *p = PLAN(e, dropout_plan);
  *p = (dropout_plan){.key = key, .mask = -1, .in = 0, .out = (int8_t)(e->n_operands - 2)};
  TRY(expect_probability(probability, "p"));
  TRY(plan_values(p, in, "input", out, "out"));
  TRY(plan_mask(p, mask, "maskOut", e->n_operands - 1, in->n, false));
  plan_probability(p, train ? probability : 0);
  p->keeps_mask = p->source == MASK_DRAWN;
  p->n = mask_bits(in->n);
  dropout_finish(e, p, in->n, dtype_bytes(in->dtype));
  return ST_OK;
}

status prepare_dropout(executor *e, const dropout_args *a) {
  return dropout_prepare_forward(e, a->input, a->out, a->mask_out, random_key_of(a->seed, a->offset), a->p, a->train);
}

status prepare_dropout_v3(executor *e, const dropout_v3_args *a) {
  EXPECT(!a->optional_noise_shape, "optionalNoiseShape is a tensor, expected NULL: it is reserved");
  return dropout_prepare_forward(e, a->input, a->out, a->mask_out, random_key_of(a->seed, a->offset), a->p, true);
}

status prepare_dropout_mask(executor *e, const dropout_mask_args *a) {
  const aclIntArray *shape = a->shape;
  dropout_plan *p = PLAN(e, dropout_plan);
  *p = (dropout_plan){.out = -1, .in = -1, .keeps_mask = true};
  int64_t n = 1;
  for (uint64_t d = 0; d < shape->size; ++d) {
    EXPECT(shape->value[d] >= 0, "shape[%ju] is %jd, expected 0 or more", (uintmax_t)d, (intmax_t)shape->value[d]);
    EXPECT(!__builtin_mul_overflow(n, shape->value[d], &n) && n < INT64_MAX / 2,
           "shape has more elements than an int64 counts, expected fewer");
  }
  TRY(expect_probability(a->prob, "prob"));
  TRY(random_key_plan(&p->key, a->seed, a->offset, a->seed_tensor, a->offset_tensor, DROPOUT_MASK_SEED_TENSOR));
  TRY(plan_mask(p, a->out, "out", a->view.out, n, false));
  plan_probability(p, a->prob);
  const int64_t dtype = a->prob_data_type; /* ACL_FLOAT where the operator has no such argument */
  EXPECT(p->source != MASK_DRAWN || dtype == ACL_FLOAT || dtype == ACL_FLOAT16 || dtype == ACL_BF16,
         "probDataType is %s, expected FLOAT, FLOAT16 or BFLOAT16", dtype_name((int)dtype));
  p->n = mask_bits(n);
  dropout_finish(e, p, n, 0);
  return ST_OK;
}

status prepare_dropout_apply(executor *e, const dropout_apply_args *a) {
  dropout_plan *p = PLAN(e, dropout_plan);
  *p = (dropout_plan){.in = 0, .out = 2, .source = MASK_READ, .key = {.seed_operand = -1, .offset_operand = -1}};
  TRY(plan_values(p, a->self, a->name.self, a->out, a->name.out));
  const bool by_probability = e->op->variant == DROPOUT_PROBABILITY;
  p->scale = (float)a->scale;
  if (by_probability && !a->mask->n) { /* without a mask there is nothing to do */
    dropout_finish(e, p, 0, 0);
    return ST_OK;
  }
  TRY(plan_mask(p, a->mask, "mask", DROPOUT_APPLY_MASK, a->self->n, by_probability));
  EXPECT(e->op->variant != DROPOUT_SCALE_UP || p->scale == 0 || p->scale >= 1, "scale is %g, expected 0, or 1 or more",
         a->scale);
  if (by_probability) {
    TRY(expect_probability(a->prob, "prob"));
    plan_probability(p, a->prob);
    p->source = p->source == MASK_DRAWN ? MASK_READ : p->source;
  }
  p->n = a->self->n;
  dropout_finish(e, p, p->n, dtype_bytes(a->self->dtype));
  return ST_OK;
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

static status plan_keep(dropout_plan *p, const tensor *keep, const char *name, int operand) {
  TRY(op_expect_one(keep, name, DTYPES_FLOAT));
  p->reads_keep = true;
  p->keep = (int8_t)operand;
  p->keep_dtype = keep->dtype;
  return ST_OK;
}

/* The operands of which a stateless mask is a function. */
static status plan_words(dropout_plan *p, const graph_dropout_mask_args *a) {
  const tensor *const words[] = {a->seed_tensor, a->seed1, a->offset};
  static const char *const names[] = {"seed", "seed1", "offset"};
  p->is_stateless = true;
  for (int k = 0; k < 3; ++k) {
    p->word[k] = -1;
    if (!words[k]) continue;
    TRY(op_expect_dtype(words[k], names[k], DTYPES_INDEX));
    EXPECT(words[k]->contiguous && (k == 2 ? words[k]->n > 0 : words[k]->n == 1), "%s has shape %s, expected %s",
           names[k], SHAPE_OF(words[k]), k == 2 ? "some elements" : "one element");
    p->word[k] = (int8_t)(GRAPH_DROPOUT_MASK_PROB + 1 + k); /* they follow prob */
    p->word_dtype[k] = (int8_t)words[k]->dtype;
  }
  p->last = a->offset ? a->offset->n - 1 : 0;
  return ST_OK;
}

/* Masks that are not stateless differ from call to call: the seeds are those of the operator, which is called in every
 * step. */
status prepare_graph_dropout_mask(executor *e, const graph_dropout_mask_args *a) {
  const aclIntArray *shape = a->shape;
  dropout_plan *p = PLAN(e, dropout_plan);
  *p = (dropout_plan){.out = -1, .in = -1, .source = MASK_DRAWN, .keeps_mask = true};
  int64_t n = 1;
  for (uint64_t d = 0; d < shape->size; ++d)
    EXPECT(shape->value[d] >= 0 && !__builtin_mul_overflow(n, shape->value[d], &n) && n < INT64_MAX / 2,
           "shape[%ju] is %jd, expected 0 or more, and no more elements than an int64 counts", (uintmax_t)d,
           (intmax_t)shape->value[d]);
  TRY(plan_keep(p, a->prob, "prob", GRAPH_DROPOUT_MASK_PROB));
  TRY(plan_mask(p, a->y, "y", a->view.y, n, false));
  p->n = mask_bits(n);
  if (e->op->variant == GRAPH_DROPOUT_MASK_STATELESS)
    TRY(plan_words(p, a));
  else
    p->key = random_key_next(a->seed_int, a->seed2, (uint64_t)p->n / RANDOM_BLOCK_WORDS);
  dropout_finish(e, p, n, 0);
  return ST_OK;
}

status prepare_graph_dropout_apply(executor *e, const graph_dropout_apply_args *a) {
  dropout_plan *p = PLAN(e, dropout_plan);
  *p = (dropout_plan){.in = GRAPH_DROPOUT_APPLY_X,
                      .out = GRAPH_DROPOUT_APPLY_Y,
                      .source = MASK_READ,
                      .key = {.seed_operand = -1, .offset_operand = -1}};
  TRY(plan_values(p, a->x, "x", a->y, "y"));
  TRY(plan_mask(p, a->mask, "mask", GRAPH_DROPOUT_APPLY_MASK, a->x->n, true));
  TRY(plan_keep(p, a->keep_prob, "keep_prob", GRAPH_DROPOUT_APPLY_KEEP_PROB));
  p->n = a->x->n;
  dropout_finish(e, p, p->n, dtype_bytes(a->x->dtype));
  return ST_OK;
}

/* ---- RReLU: out = self * noise; noise is 1 where self > 0, else uniform in [lower, upper) ------------------------ */

typedef struct {
  walk walk; /* operand 0: out, 1: self, 2: noise (in training) */
  random_key key;
  bool training;
  int8_t operand[3];
  load_loop *load;
  store_loop *store, *store_noise;
  float lower, upper;
} rrelu_plan;

typedef struct {
  const rrelu_plan *plan;
  const random_key *key;
  void *const *at;
} rrelu_job;

static void rrelu_share(const void *job, int64_t begin, int64_t end) {
  const rrelu_job *j = job;
  const rrelu_plan *p = j->plan;
  float x[RANDOM_TILE], slope[RANDOM_TILE];
  uint32_t words[RANDOM_TILE];
  const int last = p->walk.rank - 1;
  cursor c;
  cursor_start(&c, &p->walk, j->at, begin);
  for (int64_t i = begin; i < end; i += RANDOM_TILE) {
    const int64_t n = i64_min(RANDOM_TILE, end - i);
    if (p->training) random_level->words(words, j->key->seed, j->key->offset, (uint64_t)i / 4, (n + 3) / 4);
    for (int64_t k = 0, row; k < n; k += row, cursor_next(&c, row)) {
      row = cursor_row(&c, n - k);
      p->load(x, c.at[1], p->walk.strides[1][last], row);
      for (int64_t m = 0; m < row; ++m) {
        const float unit = p->training ? (float)(words[k + m] >> 8) * 0x1p-24f : 0.5f;
        slope[m] = x[m] > 0 ? 1 : p->lower + (p->upper - p->lower) * unit;
        x[m] *= slope[m];
      }
      p->store(c.at[0], p->walk.strides[0][last], x, row);
      if (p->training) p->store_noise(c.at[2], p->walk.strides[2][last], slope, row);
    }
  }
}

static status run_rrelu(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const rrelu_plan *p = PLAN(e, rrelu_plan);
  const random_key key = random_key_at_run(&p->key, view);
  void *const at[] = {view[p->operand[0]], view[p->operand[1]], view[p->operand[2]]};
  const rrelu_job job = {.plan = p, .key = &key, .at = at};
  rows_parallel(rrelu_share, &job, p->walk.n, RANDOM_TILE, e->cost_ns);
  return ST_OK;
}

status prepare_rrelu(executor *e, const rrelu_args *a) {
  const tensor *self = a->self, *noise = a->noise, *out = a->out ? a->out : self;
  const uint64_t floats = DTYPES_FLOAT_TO_32;
  rrelu_plan *p = PLAN(e, rrelu_plan);
  p->lower = (float)scalar_real(a->lower);
  p->upper = (float)scalar_real(a->upper);
  p->training = a->training;
  p->key = random_key_of(a->seed, a->offset);
  TRY(op_expect_dtype(self, "self", floats));
  TRY(op_expect_dtype(noise, "noise", floats));
  TRY(op_expect_dtype(out, "out", floats));
  EXPECT(!p->training || noise->n >= self->n, "noise has %jd elements, expected self's %jd or more", (intmax_t)noise->n,
         (intmax_t)self->n);
  TRY(op_expect_same_shape(out, "out", self));
  EXPECT(p->lower <= p->upper, "lower is %g and upper is %g, expected upper not below lower", (double)p->lower,
         (double)p->upper);
  const view to = view_of(out), from = view_of(self);
  view slopes = {0};
  if (p->training) TRY(random_view_by_place(noise, "noise", self, &slopes));
  walk_init(&p->walk, (const view *const[]){&to, &from, &slopes}, p->training ? 3 : 2, to.rank);
  memcpy(p->operand, (int8_t[]){a->out ? RRELU_OUT : RRELU_SELF, RRELU_SELF, RRELU_NOISE}, sizeof p->operand);
  p->load = loops->load[self->dtype][COMPUTE_F32];
  p->store = loops->store[out->dtype][COMPUTE_F32];
  p->store_noise = loops->store[noise->dtype][COMPUTE_F32];
  e->run = run_rrelu;
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype) * 3, (uint64_t)self->n * 64);
  return ST_OK;
}
