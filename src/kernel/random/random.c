/* Random fills. The generator is Philox4x32-10, which has no state: block number i of a call is a function of
 * (seed, offset, i) only, so results depend neither on threads nor on strides.
 *
 *   key      the seed
 *   counter  words 0 and 1: i; words 2 and 3: the call's offset
 *
 * Calls with different offsets therefore share no block, whatever their lengths. A block makes four values of
 * the 32-bit kinds (float, float16, bfloat16), two of double, in the elements' logical order. */
#include <float.h>
#include <math.h>

#include "kernel/families.h"
#include "kernel/engine/walk.h"
#include "op/parallel.h"

enum { TILE = 512 }; /* values made at a time; a multiple of four */

typedef struct {
  walk out;
  uint64_t seed, offset;
  compute_type compute; /* COMPUTE_F64 for double, else COMPUTE_F32 */
  store_loop *store;
  double first, second;   /* normal: mean and deviation; uniform: from and to */
  double least, greatest; /* uniform: of out's dtype, within [from, to) */
} random_plan;

typedef struct {
  uint32_t word[4];
} block;

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011. */
static block philox(uint64_t seed, uint64_t offset, uint64_t number) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint32_t c0 = (uint32_t)number, c1 = (uint32_t)(number >> 32), c2 = (uint32_t)offset, c3 = (uint32_t)(offset >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
    const uint64_t x = UINT64_C(0xd2511f53) * c0, y = UINT64_C(0xcd9e8d57) * c2;
    c0 = (uint32_t)(y >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(x >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)y;
    c3 = (uint32_t)x;
  }
  return (block){{c0, c1, c2, c3}};
}

/* In [0, 1), and in (0, 1]. */
static double unit_of_words(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}
static float open_unit_of_word(uint32_t w) { return (float)w * 0x1p-32f + 0x1p-33f; }

/* Two independent normal values from two uniform ones (Box and Muller). */
static void normal_pair_f32(const random_plan *p, uint32_t w0, uint32_t w1, float *out) {
  const float radius = sqrtf(-2 * logf(open_unit_of_word(w0))), angle = (float)w1 * (float)(2 * M_PI * 0x1p-32);
  out[0] = (float)p->first + (float)p->second * (radius * cosf(angle));
  out[1] = (float)p->first + (float)p->second * (radius * sinf(angle));
}

static void normal_pair_f64(const random_plan *p, const block *b, double *out) {
  const double radius = sqrt(-2 * log(1 - unit_of_words(b->word[0], b->word[1])));
  const double angle = 2 * M_PI * unit_of_words(b->word[2], b->word[3]);
  out[0] = p->first + p->second * (radius * cos(angle));
  out[1] = p->first + p->second * (radius * sin(angle));
}

/* Rounding, here and to out's dtype, must not leave [from, to). */
static double uniform(const random_plan *p, double unit) {
  const double x = p->first * (1 - unit) + p->second * unit;
  return x < p->least ? p->least : x > p->greatest ? p->greatest : x;
}

/* Values number begin to begin + n, begin a multiple of four; room for n rounded up to four. */
static void make_f32(const random_plan *p, bool normal, int64_t begin, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += 4) {
    const block b = philox(p->seed, p->offset, (uint64_t)(begin + i) / 4);
    if (normal) {
      normal_pair_f32(p, b.word[0], b.word[1], out + i);
      normal_pair_f32(p, b.word[2], b.word[3], out + i + 2);
    } else {
      for (int k = 0; k < 4; ++k) out[i + k] = (float)uniform(p, b.word[k] * 0x1p-32);
    }
  }
}

static void make_f64(const random_plan *p, bool normal, int64_t begin, int64_t n, double *out) {
  for (int64_t i = 0; i < n; i += 2) {
    const block b = philox(p->seed, p->offset, (uint64_t)(begin + i) / 2);
    if (normal) {
      normal_pair_f64(p, &b, out + i);
    } else {
      out[i] = uniform(p, unit_of_words(b.word[0], b.word[1]));
      out[i + 1] = uniform(p, unit_of_words(b.word[2], b.word[3]));
    }
  }
}

static void run_share(const random_plan *p, bool normal, void *const *view, int64_t begin, int64_t end) {
  union {
    float f32[TILE];
    double f64[TILE];
  } tile;
  const size_t bytes = p->compute == COMPUTE_F64 ? sizeof(double) : sizeof(float);
  const int64_t stride = p->out.strides[0][p->out.rank - 1];
  cursor c;
  if (begin < end) cursor_start(&c, &p->out, view, begin);
  for (int64_t at = begin; at < end; at += TILE) {
    const int64_t n = end - at < TILE ? end - at : TILE;
    if (p->compute == COMPUTE_F64)
      make_f64(p, normal, at, n, tile.f64);
    else
      make_f32(p, normal, at, n, tile.f32);
    for (int64_t i = 0, row; i < n; i += row, cursor_next(&c, row)) {
      row = cursor_row(&c, n - i);
      p->store(c.at[0], stride, (char *)&tile + (size_t)i * bytes, row);
    }
  }
}

static status run_random(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const random_plan *p = PLAN(e, random_plan);
  const bool normal = e->op->variant == RANDOM_NORMAL;
  const int n_threads = parallel_begin(e->cost_ns);
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
  for (int t = 0; t < n_threads; ++t) {
    int64_t begin, end;
    parallel_share(p->out.n, TILE, t, n_threads, &begin, &end);
    run_share(p, normal, view, begin, end);
  }
  parallel_end(n_threads);
  return ST_OK;
}

/* ---- phase one --------------------------------------------------------------------------------------------------- */

/* x rounded to the dtype, and then, where that is not beyond (up: at or above; else below) x, moved there. */
static double half_beyond(double x, bool up, uint16_t (*from_float)(float), float (*to_float)(uint16_t)) {
  uint16_t half = from_float(float_to_odd(x));
  const double value = (double)to_float(half);
  if (up ? value >= x : value < x) return value;
  const bool away = up == !(half >> 15); /* from zero */
  if (!(half & 0x7fff))
    half = up ? 0x0001 : 0x8001;
  else
    half = (uint16_t)(half + (away ? 1 : -1));
  return (double)to_float(half);
}

static double beyond(double x, bool up, int dtype) {
  if (dtype == ACL_FLOAT16) return half_beyond(x, up, half_from_float, half_to_float);
  if (dtype == ACL_BF16) return half_beyond(x, up, bf16_from_float, bf16_to_float);
  if (dtype == ACL_DOUBLE) return up ? x : nextafter(x, -INFINITY);
  const float f = (float)x;
  const bool there = up ? (double)f >= x : (double)f < x;
  return there ? (double)f : (double)nextafterf(f, up ? INFINITY : -INFINITY);
}

static status check_normal(random_plan *p) {
  EXPECT(p->second >= 0, "std is %g, expected 0 or more", p->second);
  return ST_OK;
}

static status check_uniform(random_plan *p, int dtype) {
  EXPECT(isfinite(p->first), "from is %g, expected a finite number", p->first);
  EXPECT(isfinite(p->second), "to is %g, expected a finite number", p->second);
  EXPECT(p->first <= p->second, "from is %g and to is %g, expected to not less than from", p->first, p->second);
  p->least = beyond(p->first, true, dtype);
  p->greatest = beyond(p->second, false, dtype);
  /* The dtype has no value in between: all are `from`. */
  if (p->least > p->greatest) p->least = p->greatest = p->second = p->first;
  return ST_OK;
}

status prepare_random(executor *e, const op_arg *a) {
  const tensor *self = a[0].tensor;
  random_plan *p = PLAN(e, random_plan);
  TRY(op_expect_dtype(self, "selfRef", DTYPES_FLOAT));
  p->first = a[1].real;
  p->second = a[2].real;
  p->seed = (uint64_t)a[3].integer;
  p->offset = (uint64_t)a[4].integer;
  TRY(e->op->variant == RANDOM_NORMAL ? check_normal(p) : check_uniform(p, self->dtype));
  p->compute = self->dtype == ACL_DOUBLE ? COMPUTE_F64 : COMPUTE_F32;
  p->store = loops->store[self->dtype][p->compute];
  const view v = view_of(self);
  const view *const views[] = {&v};
  walk_init(&p->out, views, 1, v.rank);
  e->run = run_random;
  executor_cost(e, (uint64_t)self->n * dtype_bytes(self->dtype), (uint64_t)self->n * 32 * 10);
  return ST_OK;
}
