/* SPDX-License-Identifier: Apache-2.0 */
/* DecodeNarrow and EncodeNarrow, which graphs have for casts from and to types that have no arithmetic. */
#include "op/narrow.h"

#include <math.h>

#include "kernel/engine/rows.h"
#include "kernel/families.h"

enum { N_CODES = 256 };

/* A sign, then exponent and mantissa. Numbers with the exponent field 0 are denormal. */
typedef struct {
  int mantissa, least;   /* bits; the exponent of the least normal number */
  uint8_t sign, most;    /* the sign's bit; the code of the largest number */
  uint8_t nan, infinity; /* codes; nan 0: there is neither. infinity: that of nan where there is none */
  bool no_zero;          /* there is no negative zero, whose code is that of NaN */
} narrow_format;

static const narrow_format formats[NARROW_END] = {
    [NARROW_E4M3FN] = {3, -6, 0x80, 0x7e, 0x7f, 0x7f, false},
    [NARROW_E4M3FNUZ] = {3, -7, 0x80, 0x7f, 0x80, 0x80, true},
    [NARROW_E5M2] = {2, -14, 0x80, 0x7b, 0x7e, 0x7c, false},
    [NARROW_E5M2FNUZ] = {2, -15, 0x80, 0x7f, 0x80, 0x80, true},
    [NARROW_E2M1] = {1, 0, 0x08, 0x07, 0, 0, false},
};

enum { POWER_BIAS = 127, POWER_NAN = 0xff, POWER_MOST = 0xfe };

float narrow_decode(int format, uint8_t code) {
  if (format == NARROW_E8M0) return code == POWER_NAN ? NAN : ldexpf(1, code - POWER_BIAS);
  const narrow_format *f = &formats[format];
  const int size = code & (f->sign - 1), exponent = size >> f->mantissa, rest = size & ((1 << f->mantissa) - 1);
  const float sign = code & f->sign ? -1 : 1;
  if (f->no_zero && code == f->nan) return NAN;
  if (size > f->most) return f->infinity != f->nan && size == f->infinity ? sign * INFINITY : NAN;
  const int digits = exponent ? rest + (1 << f->mantissa) : rest;
  return sign * ldexpf((float)digits, f->least - f->mantissa + (exponent ? exponent - 1 : 0));
}

static uint8_t encode_power(float x, bool saturate, narrow_rounding rounding) {
  int exponent;
  if (isnan(x) || x < 0) return POWER_NAN;
  if (isinf(x)) return saturate ? POWER_MOST : POWER_NAN;
  if (x == 0) return 0;
  const float part = frexpf(x, &exponent); /* from 0.5 to 1 */
  const bool up = rounding == NARROW_UP ? part > 0.5F : rounding == NARROW_NEAREST && part >= 0.75F;
  const int code = exponent - 1 + up + POWER_BIAS;
  if (code > POWER_MOST) return saturate ? POWER_MOST : POWER_NAN;
  return (uint8_t)(code < 0 ? 0 : code);
}

/* What a number beyond the largest one becomes. */
static uint8_t encode_beyond(const narrow_format *f, uint8_t sign, bool saturate) {
  const uint8_t code = saturate || !f->nan ? f->most : f->infinity;
  return f->no_zero && code == f->nan ? code : (uint8_t)(code | sign);
}

uint8_t narrow_encode(int format, float x, bool saturate, narrow_rounding rounding) {
  if (format == NARROW_E8M0) return encode_power(x, saturate, rounding);
  const narrow_format *f = &formats[format];
  const uint8_t sign = signbit(x) ? f->sign : 0;
  int exponent;
  if (isnan(x)) return f->nan ? (uint8_t)(f->nan | (f->no_zero ? 0 : sign)) : f->sign;
  if (isinf(x)) return encode_beyond(f, sign, saturate);
  (void)frexpf(x, &exponent);
  exponent = exponent - 1 < f->least || x == 0 ? f->least : exponent - 1;
  /* Multiples of the last digit's weight, from 2^mantissa to its double, or fewer if denormal. A rounded double is the
   * first number of the next exponent, and has its code. */
  const int digits = (int)rint(ldexp(fabs((double)x), f->mantissa - exponent));
  const int code = (exponent - f->least) * (1 << f->mantissa) + digits;
  if (code > f->most) return encode_beyond(f, sign, saturate);
  return f->no_zero && !code ? 0 : (uint8_t)(code | sign);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct {
  int64_t n;
  uint64_t cost_ns;
  int format;
  bool saturate;
  narrow_rounding rounding;
} narrow_plan;

typedef struct {
  const narrow_plan *p;
  const uint8_t *codes;
  const float *numbers;
  uint8_t *to_codes;
  float *to_numbers;
  float table[N_CODES]; /* for decoding */
} narrow_job;

static void decode_some(const void *job, int64_t begin, int64_t end) {
  const narrow_job *j = job;
  for (int64_t i = begin; i < end; ++i) j->to_numbers[i] = j->table[j->codes[i]];
}

static void encode_some(const void *job, int64_t begin, int64_t end) {
  const narrow_job *j = job;
  for (int64_t i = begin; i < end; ++i)
    j->to_codes[i] = narrow_encode(j->p->format, j->numbers[i], j->p->saturate, j->p->rounding);
}

enum { NARROW_GRAIN = 4096 };

static status run_decode(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const narrow_plan *p = PLAN(e, narrow_plan);
  narrow_job j = {.p = p, .codes = view[NARROW_SELF], .to_numbers = view[NARROW_OUT]};
  for (int i = 0; i < N_CODES; ++i) j.table[i] = narrow_decode(p->format, (uint8_t)i);
  rows_parallel(decode_some, &j, p->n, NARROW_GRAIN, p->cost_ns);
  return ST_OK;
}

static status run_encode(const executor *e, void *const *view, void *scratch) {
  (void)scratch;
  const narrow_plan *p = PLAN(e, narrow_plan);
  const narrow_job j = {.p = p, .numbers = view[NARROW_SELF], .to_codes = view[NARROW_OUT]};
  rows_parallel(encode_some, &j, p->n, NARROW_GRAIN, p->cost_ns);
  return ST_OK;
}

status prepare_narrow(executor *e, const narrow_args *a) {
  const tensor *self = a->self, *out = a->out;
  const bool encodes = e->op->variant == NARROW_ENCODE;
  TRY(op_expect_dtype(self, "self", DTYPE_BIT(encodes ? ACL_FLOAT : ACL_UINT8)));
  TRY(op_expect_dtype(out, "out", DTYPE_BIT(encodes ? ACL_UINT8 : ACL_FLOAT)));
  TRY(op_expect_shape(out, "out", self->dims, self->rank));
  EXPECT(self->contiguous && out->contiguous, "self or out has gaps, expected %s", "none");
  EXPECT(narrow_is_known(a->format), "format is %jd, expected that of a type of 8 or 4 bits", (intmax_t)a->format);
  EXPECT(a->rounding >= NARROW_UP && a->rounding <= NARROW_NEAREST, "rounding is %jd, expected 0 to 2",
         (intmax_t)a->rounding);
  narrow_plan *p = PLAN(e, narrow_plan);
  *p = (narrow_plan){
      .n = self->n, .format = (int)a->format, .saturate = a->saturate, .rounding = (narrow_rounding)a->rounding};
  executor_cost(e, (uint64_t)self->n * 5, (uint64_t)self->n * (encodes ? 40 : 1));
  p->cost_ns = e->cost_ns;
  e->run = encodes ? run_encode : run_decode;
  return ST_OK;
}
