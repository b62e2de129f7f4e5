/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that fill tensors with random numbers: normal, uniform, integer, Bernoulli. Arguments are recognised by
 * their names: mean and std, from and to, prob. They are numbers, scalars or tensors that broadcast to the output (the
 * k-th element of prob belongs to the output's k-th). */
#include "kernel/random/random.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/rows.h"

LEVEL_CHOICE(random_loops, random_level, random_loops)

enum { PARAMETERS = 2 };

typedef struct {
  walk walk; /* operand 0: the output; then the parameters that are tensors */
  random_key key;
  uint8_t compute;
  int8_t operand[1 + PARAMETERS]; /* operand indices of the executor, by position in the walk */
  int8_t place[PARAMETERS];       /* position in the walk; 0: a number */
  load_loop *load[PARAMETERS];
  store_loop *store;
  uint8_t imaginary; /* bytes from a complex number's real to its imaginary part, which becomes 0; 0: real numbers */
  double number[PARAMETERS];
  double least, greatest; /* uniform: the bounds that values of out's dtype have within [from, to) */
  int64_t from;           /* integers: the lower bound */
  uint64_t range;         /* integers: the number of values; 0: 2^64 */
} random_plan;

typedef union {
  float f32[RANDOM_TILE];
  double f64[RANDOM_TILE];
  int64_t i64[RANDOM_TILE];
} value_tile;

/* ---- the key ----------------------------------------------------------------------------------------------------- */

random_key random_key_at_run(const random_key *planned, void *const *view) {
  random_key k = *planned;
  if (k.seed_operand >= 0) k.seed = *(const uint64_t *)view[k.seed_operand];
  if (k.offset_operand >= 0) k.offset += *(const uint64_t *)view[k.offset_operand];
  return k;
}

random_key random_key_next(int64_t seed, int64_t seed2, uint64_t blocks) {
  static _Atomic uint64_t drawn;
  return random_key_of(seed ^ (int64_t)((uint64_t)seed2 << 32), (int64_t)atomic_fetch_add(&drawn, blocks));
}

status random_key_plan(random_key *key, int64_t seed, int64_t offset, const tensor *seed_tensor,
                       const tensor *offset_tensor, int operand) {
  const uint64_t words = DTYPE_BIT(ACL_INT64) | DTYPE_BIT(ACL_UINT64);
  *key = random_key_of(seed, offset);
  if (!seed_tensor) return ST_OK;
  TRY(op_expect_one(seed_tensor, "seedTensor", words));
  TRY(op_expect_one(offset_tensor, "offsetTensor", words));
  key->seed_operand = (int8_t)operand;
  key->offset_operand = (int8_t)(operand + 1);
  return ST_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* The parameters for a piece of a tile: arrays, or NULL where they are numbers. */
typedef struct {
  const value_tile *first, *second;
} parameters;

static double parameter_f32(const random_plan *p, const value_tile *t, int which, int64_t i) {
  return t ? (double)t->f32[i] : p->number[which];
}
static double parameter_f64(const random_plan *p, const value_tile *t, int which, int64_t i) {
  return t ? t->f64[i] : p->number[which];
}

/* Clamps, since rounding, here and to out's dtype, must not leave [from, to). */
static double uniform(const random_plan *p, double unit) {
  const double x = p->number[0] * (1 - unit) + p->number[1] * unit;
  return x < p->least ? p->least : x > p->greatest ? p->greatest : x;
}

static int64_t integer(const random_plan *p, uint32_t low, uint32_t high) {
  const uint64_t word = (uint64_t)high << 32 | low;
  const uint64_t distance = p->range ? (uint64_t)(((unsigned __int128)word * p->range) >> 64) : word;
  return (int64_t)((uint64_t)p->from + distance);
}

/* Whether a value uses two words. */
static bool is_wide(const random_plan *p, int kind) { return kind == RANDOM_INTEGER || p->compute == COMPUTE_F64; }

/* Generates values number `begin` to `begin` + n, except that parameters that are tensors are not applied: the values
 * are standard normals, or uniform in [0, 1) for Bernoulli. begin is a multiple of four; there is room for n rounded up
 * to four. */
static void random_make(const random_plan *p, const random_key *key, int kind, int64_t begin, int64_t n,
                        value_tile *out) {
  uint32_t w[2 * RANDOM_TILE];
  const int64_t per_value = is_wide(p, kind) ? 2 : 1, n_words = (n * per_value + 3) / 4 * 4;
  random_level->words(w, key->seed, key->offset, (uint64_t)(begin * per_value) / 4, n_words / 4);
  if (kind == RANDOM_INTEGER) {
    for (int64_t i = 0; i < n; ++i) out->i64[i] = integer(p, w[2 * i], w[2 * i + 1]);
  } else if (p->compute == COMPUTE_F32) {
    if (kind == RANDOM_NORMAL)
      random_level->normal_f32(out->f32, w, n_words);
    else if (kind == RANDOM_UNIFORM)
      for (int64_t i = 0; i < n; ++i) out->f32[i] = (float)uniform(p, w[i] * 0x1p-32);
    else
      for (int64_t i = 0; i < n; ++i) out->f32[i] = (float)(w[i] >> 8) * 0x1p-24f;
  } else if (kind == RANDOM_NORMAL) {
    for (int64_t i = 0; i < n; i += 2) {
      const uint32_t *x = w + 2 * i;
      const double radius = sqrt(-2 * log(1 - random_unit(x[0], x[1]))), angle = 2 * M_PI * random_unit(x[2], x[3]);
      out->f64[i] = radius * cos(angle);
      out->f64[i + 1] = radius * sin(angle);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const double unit = random_unit(w[2 * i], w[2 * i + 1]);
      out->f64[i] = kind == RANDOM_UNIFORM ? uniform(p, unit) : unit;
    }
  }
}

/* Applies the parameters that random_make() has left out, to n values from x on. */
static void apply_f32(const random_plan *p, int kind, float *x, const parameters *with, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float first = (float)parameter_f32(p, with->first, 0, i);
    x[i] = kind == RANDOM_NORMAL ? first + (float)parameter_f32(p, with->second, 1, i) * x[i] : (float)(x[i] < first);
  }
}

static void apply_f64(const random_plan *p, int kind, double *x, const parameters *with, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const double first = parameter_f64(p, with->first, 0, i);
    x[i] = kind == RANDOM_NORMAL ? first + parameter_f64(p, with->second, 1, i) * x[i] : (double)(x[i] < first);
  }
}

static const value_tile *load_parameter(const random_plan *p, int which, const cursor *c, value_tile *to, int64_t n) {
  const int at = p->place[which];
  if (!at) return NULL;
  p->load[which](to, c->at[at], p->walk.strides[at][p->walk.rank - 1], n);
  return to;
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

/* A thread's buffers. */
typedef struct {
  const random_plan *plan;
  const random_key *key;
  void *const *at;
  int kind;
} random_job;

/* Generates values `begin` to `end`. */
static void random_run_share(const void *job, int64_t begin, int64_t end) {
  static const value_tile zeros;
  const random_job *j = job;
  const random_plan *p = j->plan;
  value_tile tile, first, second;
  const bool wide = p->compute != COMPUTE_F32;
  cursor c;
  cursor_start(&c, &p->walk, j->at, begin);
  for (int64_t i = begin; i < end; i += RANDOM_TILE) {
    const int64_t n = i64_min(RANDOM_TILE, end - i);
    random_make(p, j->key, j->kind, i, n, &tile);
    for (int64_t k = 0, row; k < n; k += row, cursor_next(&c, row)) {
      row = cursor_row(&c, n - k);
      void *x = wide ? (void *)(tile.f64 + k) : (void *)(tile.f32 + k);
      if (j->kind == RANDOM_NORMAL || j->kind == RANDOM_BERNOULLI) {
        const parameters with = {load_parameter(p, 0, &c, &first, row), load_parameter(p, 1, &c, &second, row)};
        if (wide)
          apply_f64(p, j->kind, x, &with, row);
        else
          apply_f32(p, j->kind, x, &with, row);
      }
      p->store(c.at[0], p->walk.strides[0][p->walk.rank - 1], x, row);
      if (p->imaginary) p->store(c.at[0] + p->imaginary, p->walk.strides[0][p->walk.rank - 1], &zeros, row);
    }
  }
}

static int random_kind_of(const op *o) { return o->variant == RANDOM_ANY_INTEGER ? RANDOM_INTEGER : o->variant; }

static status random_fill(const executor *e, const random_plan *p, int kind, void *const *view) {
  const random_key key = random_key_at_run(&p->key, view);
  void *at[1 + PARAMETERS];
  for (int k = 0; k < p->walk.n_operands; ++k) at[k] = view[p->operand[k]];
  const random_job job = {.plan = p, .key = &key, .at = at, .kind = kind};
  rows_parallel(random_run_share, &job, p->walk.n, RANDOM_TILE, e->cost_ns);
  return ST_OK;
}

static status run_random(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  return random_fill(e, PLAN(e, random_plan), random_kind_of(e->op), view);
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* x rounded to the dtype; if the result is below x (up) or not below x (down), its next neighbour in that direction. */
static double half_beyond(double x, bool up, uint16_t (*from_float)(float), float (*to_float)(uint16_t)) {
  uint16_t half = from_float(float_to_odd(x));
  const double value = (double)to_float(half);
  if (up ? value >= x : value < x) return value;
  const bool away = up == !(half >> 15); /* away from zero */
  if (!(half & 0x7fff))
    half = up ? 0x0001 : 0x8001;
  else
    half = (uint16_t)(half + (away ? 1 : -1));
  return (double)to_float(half);
}

static double beyond(double x, bool up, int dtype) {
  if (dtype == ACL_FLOAT16) return half_beyond(x, up, half_from_float, half_to_float);
  if (dtype == ACL_BF16) return half_beyond(x, up, bf16_from_float, bf16_to_float);
  if (dtype == ACL_DOUBLE || !dtype_is_float(dtype)) return up ? x : nextafter(x, -INFINITY);
  const float f = (float)x;
  const bool there = up ? (double)f >= x : (double)f < x;
  return there ? (double)f : (double)nextafterf(f, up ? INFINITY : -INFINITY);
}

/* CANN checks std only if the operator works in place. */
static status plan_normal(random_plan *p, const tensor *out, const char *name, bool is_in_place) {
  TRY(op_expect_dtype(out, name, DTYPES_FLOAT));
  EXPECT(!is_in_place || p->number[1] >= 0, "std is %g, expected 0 or more", p->number[1]);
  return ST_OK;
}

/* The largest integer n of a dtype such that it represents all integers from 0 to n. */
static int64_t last_integer(int dtype) {
  switch (dtype) {
  case ACL_BOOL: return 1;
  case ACL_INT8: return INT8_MAX;
  case ACL_UINT8: return UINT8_MAX;
  case ACL_INT16: return INT16_MAX;
  case ACL_INT32: return INT32_MAX;
  case ACL_BF16: return 1 << 8;
  case ACL_FLOAT16: return 1 << 11;
  case ACL_FLOAT: return 1 << 24;
  case ACL_DOUBLE: return INT64_C(1) << 53;
  default: return INT64_MAX;
  }
}

/* Integers are truncated real numbers; the bounds must be within the dtype's range. */
static status expect_integer_bounds(const random_plan *p, const tensor *out) {
  static const char *const names[] = {"from", "to"};
  const double last = (double)last_integer(out->dtype), least = out->dtype == ACL_UINT8 ? 0 : -last - 1;
  for (int i = 0; i < 2; ++i)
    EXPECT(p->number[i] >= least && p->number[i] <= last, "%s is %g, expected %g to %g, the range of %s", names[i],
           p->number[i], least, last, dtype_name(out->dtype));
  return ST_OK;
}

static status plan_uniform(random_plan *p, const tensor *out, const char *name) {
  TRY(op_expect_dtype(out, name, DTYPES_FLOAT | DTYPES_INTEGER));
  EXPECT(isfinite(p->number[0]), "from is %g, expected a finite number", p->number[0]);
  EXPECT(isfinite(p->number[1]), "to is %g, expected a finite number", p->number[1]);
  EXPECT(p->number[0] <= p->number[1], "from is %g and to is %g, expected to not less than from", p->number[0],
         p->number[1]);
  if (!dtype_is_float(out->dtype)) TRY(expect_integer_bounds(p, out));
  p->least = beyond(p->number[0], true, out->dtype);
  p->greatest = beyond(p->number[1], false, out->dtype);
  /* The dtype has no value within [from, to): all values are `from`. */
  if (p->least > p->greatest) p->least = p->greatest = p->number[1] = p->number[0];
  return ST_OK;
}

static status plan_bernoulli(random_plan *p, const tensor *out, const char *name) {
  TRY(op_expect_dtype(out, name, DTYPES_REAL));
  EXPECT(p->place[0] || (p->number[0] >= 0 && p->number[0] <= 1), "prob is %g, expected 0 to 1", p->number[0]);
  return ST_OK;
}

/* Plans integers from bounds[0] to bounds[1] - 1; without bounds, from 0 to the dtype's last integer. */
static status plan_integer(random_plan *p, const tensor *out, const char *name, const int64_t *bounds) {
  if (!bounds) {
    TRY(op_expect_dtype(out, name, DTYPES_REAL));
    p->range = (uint64_t)last_integer(out->dtype) + 1;
    return ST_OK;
  }
  TRY(op_expect_dtype(out, name, DTYPES_REAL | DTYPES_COMPLEX));
  EXPECT(bounds[0] < bounds[1], "from is %jd and to is %jd, expected to above from", (intmax_t)bounds[0],
         (intmax_t)bounds[1]);
  p->from = bounds[0];
  p->range = (uint64_t)bounds[1] - (uint64_t)bounds[0];
  if (dtype_class_of(out->dtype) >= CLASS_FLOAT) { /* no value is rounded up to `to` */
    const double greatest = beyond((double)bounds[1], false, dtype_part(out->dtype));
    if (greatest < (double)bounds[1] - 1 && greatest >= (double)bounds[0])
      p->range = (uint64_t)(int64_t)greatest - (uint64_t)bounds[0] + 1;
  }
  return ST_OK;
}

/* The call's arguments by their role. */
typedef struct {
  const tensor *out, *like, *parameter[PARAMETERS];
  const char *out_name, *parameter_name[PARAMETERS];
  int8_t out_operand, parameter_operand[PARAMETERS];
} arguments;

static void random_set_parameter(arguments *g, int which, const tensor *t, const char *name, int operand) {
  if (!t) return;
  g->parameter[which] = t;
  g->parameter_name[which] = name;
  g->parameter_operand[which] = (int8_t)operand;
}

static void random_sort_arguments(int kind, const random_args *a, random_plan *p, arguments *g) {
  g->out = a->out ? a->out : a->self;
  g->out_name = a->out ? "out" : a->name.self;
  g->out_operand = (int8_t)(a->out ? a->view.out : RANDOM_SELF);
  g->like = a->out ? a->self : NULL;
  random_set_parameter(g, 0, a->mean_tensor, "mean", RANDOM_MEAN_TENSOR);
  random_set_parameter(g, 0, a->prob_tensor, "prob", RANDOM_PROB_TENSOR);
  random_set_parameter(g, 1, a->std_tensor, "std", a->view.std_tensor);
  p->number[0] = kind == RANDOM_NORMAL ? a->mean_float : a->prob_scalar ? scalar_real(a->prob_scalar) : a->from_float;
  p->number[1] = kind == RANDOM_NORMAL ? a->std_float : a->to_float;
}

status random_view_broadcast(const tensor *t, const char *name, const tensor *out, view *v) {
  const view from = view_of(t);
  *v = view_of(out);
  v->dtype = from.dtype;
  bool fits = from.rank <= v->rank;
  for (int d = 0; fits && d < v->rank; ++d) {
    const int at = from.rank - v->rank + d;
    v->strides[d] = at < 0 || from.dims[at] == 1 ? 0 : from.strides[at];
    fits = at < 0 || from.dims[at] == 1 || from.dims[at] == v->dims[d];
  }
  EXPECT(fits, "%s has shape %s, expected one that broadcasts to out's %s", name, SHAPE_OF(t), SHAPE_OF(out));
  return ST_OK;
}

status random_view_by_place(const tensor *t, const char *name, const tensor *out, view *v) {
  if (t->n == out->n && t->rank == out->rank && !memcmp(t->dims, out->dims, (size_t)t->rank * sizeof *t->dims)) {
    view_init(v, t);
    return ST_OK;
  }
  EXPECT(t->contiguous, "%s has shape %s and gaps, expected none, or the shape %s", name, SHAPE_OF(t), SHAPE_OF(out));
  *v = view_contiguous(t->dtype, out->rank, out->dims);
  for (int d = 0; t->n == 1 && d < v->rank; ++d) v->strides[d] = 0;
  return ST_OK;
}

/* Tensors of means and deviations broadcast together to exactly the output's shape; a tensor of means alone may
 * broadcast. */
static status expect_shape_of_parameters(const arguments *g) {
  const tensor *mean = g->parameter[0], *std = g->parameter[1];
  if (!std) return ST_OK;
  if (!mean) return op_expect_same_shape(std, "std", g->out);
  const int rank = mean->rank > std->rank ? mean->rank : std->rank;
  int64_t dims[MAX_RANK];
  for (int d = 0; d < rank; ++d) {
    const int at_mean = d - (rank - mean->rank), at_std = d - (rank - std->rank);
    dims[d] = at_mean < 0 || (mean->dims[at_mean] == 1 && at_std >= 0) ? std->dims[at_std] : mean->dims[at_mean];
  }
  return op_expect_shape(g->out, g->out_name, dims, rank);
}

static status plan_walk(random_plan *p, const arguments *g, int kind) {
  view v[1 + PARAMETERS];
  const view *views[1 + PARAMETERS];
  int n = 0;
  v[n] = view_of(g->out);
  p->operand[n] = g->out_operand;
  views[n] = &v[n];
  ++n;
  for (int k = 0; k < PARAMETERS; ++k) {
    p->place[k] = 0;
    if (!g->parameter[k]) continue;
    TRY(op_expect_dtype(g->parameter[k], g->parameter_name[k], DTYPES_FLOAT));
    TRY((kind == RANDOM_BERNOULLI ? random_view_by_place : random_view_broadcast)(g->parameter[k], g->parameter_name[k],
                                                                                  g->out, &v[n]));
    p->load[k] = loops->load[g->parameter[k]->dtype][p->compute];
    p->place[k] = (int8_t)n;
    p->operand[n] = g->parameter_operand[k];
    views[n] = &v[n];
    ++n;
  }
  walk_init(&p->walk, views, n, v[0].rank);
  /* elements without a probability are unchanged */
  if (kind == RANDOM_BERNOULLI && g->parameter[0] && g->parameter[0]->n != 1)
    p->walk.n = i64_min(p->walk.n, g->parameter[0]->n);
  return ST_OK;
}

static bool has_double(const arguments *g) {
  bool found = g->out->dtype == ACL_DOUBLE;
  for (int k = 0; k < PARAMETERS; ++k) found |= g->parameter[k] && g->parameter[k]->dtype == ACL_DOUBLE;
  return found;
}

static void random_finish(executor *e, random_plan *p, const tensor *out) {
  const int part = dtype_part(out->dtype);
  p->store = loops->store[part][p->compute];
  p->imaginary = part == out->dtype ? 0 : (uint8_t)dtype_bytes(part);
  executor_cost(e, (uint64_t)out->n * dtype_bytes(out->dtype), (uint64_t)out->n * 32 * 4);
}

status prepare_random(executor *e, const random_args *a) {
  const bool has_bounds = e->op->variant != RANDOM_ANY_INTEGER;
  const int kind = random_kind_of(e->op);
  random_plan *p = PLAN(e, random_plan);
  arguments g = {0};
  p->from = 0;
  TRY(random_key_plan(&p->key, a->seed, a->offset, a->seed_tensor, a->offset_tensor, RANDOM_SEED_TENSOR));
  random_sort_arguments(kind, a, p, &g);
  if (g.like) {
    TRY(op_expect_like(g.out, g.out_name, g.like));
  }
  const bool cuts = kind == RANDOM_UNIFORM && !dtype_is_float(g.out->dtype);
  p->compute = kind == RANDOM_INTEGER ? COMPUTE_I64 : has_double(&g) || cuts ? COMPUTE_F64 : COMPUTE_F32;
  TRY(plan_walk(p, &g, kind));
  switch (kind) {
  case RANDOM_NORMAL:
    TRY(plan_normal(p, g.out, g.out_name, !a->out));
    TRY(expect_shape_of_parameters(&g));
    break;
  case RANDOM_UNIFORM: TRY(plan_uniform(p, g.out, g.out_name)); break;
  case RANDOM_BERNOULLI: TRY(plan_bernoulli(p, g.out, g.out_name)); break;
  default: TRY(plan_integer(p, g.out, g.out_name, has_bounds ? (const int64_t[]){a->from_int, a->to_int} : NULL));
  }
  random_finish(e, p, g.out);
  e->run = run_random;
  return ST_OK;
}

/* ---- by name ----------------------------------------------------------------------------------------------------- */

static status run_named(const executor *e, void *const *view, void *scratch) {
  const int kind = e->op->variant == GRAPH_RANDOM_NORMAL ? RANDOM_NORMAL : RANDOM_UNIFORM;
  (void)scratch;
  return random_fill(e, PLAN(e, random_plan), kind, view);
}

/* Integers: the bounds are operands. */
static status run_integers_between(const executor *e, void *const *view, void *scratch) {
  random_plan p = *PLAN(e, random_plan);
  int64_t bounds[2];
  (void)scratch;
  p.load[0](&bounds[0], view[GRAPH_RANDOM_MIN], 0, 1);
  p.load[0](&bounds[1], view[GRAPH_RANDOM_MAX], 0, 1);
  if (bounds[0] >= bounds[1])
    return fail(ST_DEVICE_EXCEPTION, "min is %jd and max is %jd, expected max above min", (intmax_t)bounds[0],
                (intmax_t)bounds[1]);
  p.from = bounds[0];
  p.range = (uint64_t)bounds[1] - (uint64_t)bounds[0];
  return random_fill(e, &p, RANDOM_INTEGER, view);
}

/* Standard normal numbers, numbers in [0, 1), or integers from min to max - 1. The shape is that of y, too. */
status prepare_graph_random(executor *e, const graph_random_args *a) {
  const tensor *y = a->y;
  const int of = e->op->variant;
  const arguments g = {.out = y, .out_name = "y", .out_operand = (int8_t)a->view.y};
  random_plan *p = PLAN(e, random_plan);
  *p = (random_plan){.key = random_key_next(a->seed, a->seed2, (uint64_t)y->n), .number = {0, 1}};
  EXPECT(a->shape->size <= MAX_RANK, "shape has %ju elements, expected up to %d", (uintmax_t)a->shape->size, MAX_RANK);
  TRY(op_expect_shape(y, "y", a->shape->value, (int)a->shape->size));
  const bool whole = of == GRAPH_RANDOM_INTEGER;
  TRY(op_expect_dtype(y, "y", whole ? DTYPES_INDEX : DTYPES_FLOAT));
  p->compute = whole ? COMPUTE_I64 : y->dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  TRY(plan_walk(p, &g, RANDOM_UNIFORM));
  random_finish(e, p, y);
  e->run = run_named;
  if (of == GRAPH_RANDOM_NORMAL) return plan_normal(p, y, "y", true);
  if (of == GRAPH_RANDOM_UNIFORM) return plan_uniform(p, y, "y");
  TRY(op_expect_one(a->min, "min", DTYPE_BIT(y->dtype)));
  TRY(op_expect_one(a->max, "max", DTYPE_BIT(y->dtype)));
  p->load[0] = loops->load[y->dtype][COMPUTE_I64];
  e->run = run_integers_between;
  return ST_OK;
}
