/* SPDX-License-Identifier: Apache-2.0 */
/* The elementwise engine on random views, compared with a loop over indices. The loops that convert and compute single
 * elements are the engine's own (tests/unit/loops.c checks them); this test checks the addressing of elements. */
#include "kernel/engine/elementwise.h"

#include "kernel/engine/loops.h"
#include "unit.h"

static const int dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,   ACL_INT16,
                             ACL_INT32, ACL_INT64,   ACL_UINT8, ACL_UINT16, ACL_UINT32, ACL_BOOL};

enum { MAX_ELEMENTS = 200000, BUFFER_BYTES = 32 << 20 };

/* A view and its memory. The element with index 0 is at buffer + origin. */
typedef struct {
  view v;
  char *buffer;
  int64_t origin, bytes; /* bytes of the buffer in use */
} operand;

static char *buffers[1 + ELEMENTWISE_INPUTS], *expected;

static int make_buffers(void **state) {
  (void)state;
  for (int k = 0; k < 1 + ELEMENTWISE_INPUTS; k++)
    if (!(buffers[k] = aligned_alloc(64, BUFFER_BYTES))) return -1;
  return (expected = aligned_alloc(64, BUFFER_BYTES)) ? 0 : -1;
}

static int free_buffers(void **state) {
  (void)state;
  for (int k = 0; k < 1 + ELEMENTWISE_INPUTS; k++) free(buffers[k]);
  free(expected);
  return 0;
}

/* ---- random views ---- */

/* Shapes with many small dimensions or few large ones, and occasionally a dimension of 0. */
static int random_shape(random_source *r, int64_t *dims) {
  static const int64_t large[] = {63, 64, 255, 256, 257, 1023, 1024, 1025, 3000, 40000};
  const int rank = (int)random_below(r, 9);
  int64_t n = 1;
  for (int d = 0; d < rank; d++) {
    dims[d] = random_below(r, 6) ? 1 + random_below(r, 4) : large[random_below(r, COUNT(large))];
    if (n * dims[d] > MAX_ELEMENTS) dims[d] = 1;
    n *= dims[d];
  }
  if (rank && random_below(r, 40) == 0) dims[random_below(r, (uint32_t)rank)] = 0;
  return rank;
}

static void shuffle(random_source *r, int *order, int n) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    const int k = (int)random_below(r, (uint32_t)i + 1), was = order[i];
    order[i] = order[k];
    order[k] = was;
  }
}

/* Chooses strides: dimensions in random order, with gaps, occasionally negative. The elements do not overlap. */
static void lay_out(random_source *r, operand *o, bool plain) {
  const int64_t size = (int64_t)dtype_bytes(o->v.dtype);
  int order[VIEW_RANK];
  shuffle(r, order, o->v.rank);
  int64_t step = size;
  o->origin = size * random_below(r, 9);
  for (int i = 0; i < o->v.rank; i++) {
    const int d = plain ? o->v.rank - 1 - i : order[i];
    if (!plain && random_below(r, 4) == 0 && step < 64) step *= 2;
    o->v.strides[d] = step;
    step *= o->v.dims[d] ? o->v.dims[d] : 1;
    if (!plain && random_below(r, 6) == 0 && o->v.dims[d]) {
      o->origin += o->v.strides[d] * (o->v.dims[d] - 1);
      o->v.strides[d] = -o->v.strides[d];
    }
  }
  o->bytes = step + size * 9;
  assert_true(o->bytes <= BUFFER_BYTES);
}

/* An input that broadcasts to out: leading dimensions are missing, others are 1 or have stride 0. */
static void make_input(random_source *r, operand *o, const view *out, bool plain) {
  const int missing = !plain && random_below(r, 3) == 0 ? (int)random_below(r, (uint32_t)out->rank + 1) : 0;
  o->v.rank = out->rank - missing;
  for (int d = 0; d < o->v.rank; d++) {
    const bool one = !plain && random_below(r, 5) == 0;
    o->v.dims[d] = one ? 1 : out->dims[d + missing];
  }
  lay_out(r, o, plain);
  for (int d = 0; d < o->v.rank; d++)
    if (!plain && o->v.strides[d] > 0 && random_below(r, 8) == 0) o->v.strides[d] = 0;
}

static void fill(random_source *r, const operand *o) {
  for (int64_t i = 0; i < o->bytes; i++)
    o->buffer[i] = (char)(o->v.dtype == ACL_BOOL ? i & 1 : (int64_t)random_next(r));
}

/* ---- reference by definition ---- */

static int64_t offset_of(const operand *o, const int64_t *index, int rank) {
  int64_t offset = o->origin;
  for (int d = 0; d < o->v.rank; d++) {
    const int64_t i = index[d + rank - o->v.rank];
    if (o->v.dims[d] != 1) offset += i * o->v.strides[d];
  }
  return offset;
}

static void run_by_definition(int function, int compute, const compute_value *parameter, int narrow, char *out,
                              const operand *o, int n_inputs) {
  int64_t index[VIEW_RANK] = {0};
  const int rank = o[0].v.rank;
  for (int64_t left = view_elements(&o[0].v); left > 0; left--) {
    _Alignas(8) char x[ELEMENTWISE_INPUTS][8], y[8], wrapped[8];
    const void *in[ELEMENTWISE_INPUTS] = {x[0], x[1], x[2], x[3]};
    for (int k = 1; k <= n_inputs; k++)
      loops->load[o[k].v.dtype][compute](x[k - 1], o[k].buffer + offset_of(&o[k], index, rank), 0, 1);
    loops->elementwise[function][compute](y, in, parameter, 1);
    if (narrow >= 0) {
      loops->store[narrow][compute](wrapped, 0, y, 1);
      loops->load[narrow][compute](y, wrapped, 0, 1);
    }
    loops->store[o[0].v.dtype][compute](out + offset_of(&o[0], index, rank), 0, y, 1);
    for (int d = rank - 1; d >= 0 && ++index[d] == o[0].v.dims[d]; d--) index[d] = 0;
  }
}

/* Compares two results of one engine bitwise, except for NaNs, whose sign and payload may depend on the instruction
 * used. */
static bool same_result(const operand *out, const char *got, const char *want) {
  if (!memcmp(got, want, (size_t)out->bytes)) return true;
  if (!dtype_is_float(out->v.dtype)) return false;
  const int64_t size = (int64_t)dtype_bytes(out->v.dtype);
  for (int64_t i = 0; i + size <= out->bytes; i += size) {
    double a, b;
    loops->load[out->v.dtype][COMPUTE_F64](&a, got + i, 0, 1);
    loops->load[out->v.dtype][COMPUTE_F64](&b, want + i, 0, 1);
    if (memcmp(got + i, want + i, (size_t)size) && (a == a || b == b)) return false;
  }
  return true;
}

/* ---- tests ---- */

static void random_case(uint64_t seed) {
  static const struct {
    int function, n_inputs;
  } functions[] = {{EW_copy, 1}, {EW_neg, 1}, {EW_relu, 1},    {EW_adds, 1},   {EW_add, 2},
                   {EW_mul, 2},  {EW_lt, 2},  {EW_maximum, 2}, {EW_addcmul, 3}};
  random_source r = {seed};
  operand o[1 + ELEMENTWISE_INPUTS] = {0};
  const int which = (int)random_below(&r, COUNT(functions));
  const int function = functions[which].function, n_inputs = functions[which].n_inputs;
  const bool plain = random_below(&r, 4) == 0;
  const int common = dtypes[random_below(&r, COUNT(dtypes))];
  int compute = COMPUTE_I32;
  for (int k = 0; k <= n_inputs; k++) {
    o[k].buffer = buffers[k];
    o[k].v.dtype = plain ? common : dtypes[random_below(&r, COUNT(dtypes))];
    const int c = (int)compute_type_of(o[k].v.dtype);
    if (c == COMPUTE_F64 || (c == COMPUTE_F32 && compute != COMPUTE_F64) ||
        (c == COMPUTE_I64 && compute == COMPUTE_I32))
      compute = c;
  }
  o[0].v.rank = random_shape(&r, o[0].v.dims);
  lay_out(&r, &o[0], plain);
  for (int k = 1; k <= n_inputs; k++) {
    make_input(&r, &o[k], &o[0].v, plain);
    fill(&r, &o[k]);
  }
  /* In some cases the output is in place. */
  if (random_below(&r, 6) == 0) {
    o[0].v.dtype = o[1].v.dtype;
    lay_out(&r, &o[0], plain);
    o[1] = o[0];
  }
  fill(&r, &o[0]);
  memcpy(expected, o[0].buffer, (size_t)o[0].bytes);

  elementwise_plan p = {0};
  const view *in[ELEMENTWISE_INPUTS];
  void *at[1 + ELEMENTWISE_INPUTS];
  for (int k = 0; k <= n_inputs; k++) {
    at[k] = o[k].buffer + o[k].origin;
    if (k) in[k - 1] = &o[k].v;
  }
  elementwise_plan_init(&p, function, (compute_type)compute, &o[0].v, in, n_inputs);
  for (int i = 0; i < 2; i++) switch (compute) {
    case COMPUTE_F32: p.parameter[i].f32 = 1.5f + (float)i; break;
    case COMPUTE_F64: p.parameter[i].f64 = 1.5 + i; break;
    case COMPUTE_I32: p.parameter[i].i32 = 2 + i; break;
    default: p.parameter[i].i64 = 2 + i;
    }
  if (compute >= COMPUTE_I32 && random_below(&r, 3) == 0) {
    static const int8_t narrow[] = {ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32};
    p.narrow = narrow[random_below(&r, compute == COMPUTE_I64 ? 4 : 3)];
    p.linear = false; /* as in the operators: broadcast operands go through tiles */
  }
  run_by_definition(function, compute, p.parameter, p.narrow, expected, o, n_inputs);
  elementwise_run(&p, at, random_below(&r, 2) ? 0 : 1000000);
  if (!same_result(&o[0], o[0].buffer, expected)) {
    print_error("seed %ju: function %d, compute type %d\n", (uintmax_t)seed, function, compute);
    for (int k = 0; k <= n_inputs; k++) {
      print_error("  operand %d, %s:", k, dtype_name(o[k].v.dtype));
      for (int d = 0; d < o[k].v.rank; d++)
        print_error(" %jd/%jd", (intmax_t)o[k].v.dims[d], (intmax_t)o[k].v.strides[d]);
      print_error("\n");
    }
    assert_true(false);
  }
}

static void random_views_agree_with_a_plain_loop(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= ROUNDS(2500u); seed++) random_case(seed);
}

/* Copies preserve every bit when the types agree, also of complex numbers, and convert otherwise. */
static void random_copies_preserve_or_convert_values(void **state) {
  (void)state;
  static const int copied[] = {ACL_COMPLEX128, ACL_COMPLEX64, ACL_COMPLEX32, ACL_FLOAT16,
                               ACL_FLOAT,      ACL_BOOL,      ACL_UINT64,    ACL_INT8};
  for (uint64_t seed = 1; seed <= ROUNDS(1500u); seed++) {
    random_source r = {seed * 77};
    operand o[2] = {{.buffer = buffers[0]}, {.buffer = buffers[1]}};
    o[0].v.dtype = o[1].v.dtype = copied[random_below(&r, COUNT(copied))];
    const bool plain = random_below(&r, 4) == 0;
    const size_t size = dtype_bytes(o[0].v.dtype);
    o[0].v.rank = random_shape(&r, o[0].v.dims);
    lay_out(&r, &o[0], plain);
    make_input(&r, &o[1], &o[0].v, plain);
    fill(&r, &o[1]);
    fill(&r, &o[0]);
    memcpy(expected, o[0].buffer, (size_t)o[0].bytes);
    int64_t index[VIEW_RANK] = {0};
    for (int64_t left = view_elements(&o[0].v); left > 0; left--) {
      memcpy(expected + offset_of(&o[0], index, o[0].v.rank), o[1].buffer + offset_of(&o[1], index, o[0].v.rank), size);
      for (int d = o[0].v.rank - 1; d >= 0 && ++index[d] == o[0].v.dims[d]; d--) index[d] = 0;
    }
    elementwise_copy(o[0].buffer + o[0].origin, &o[0].v, o[1].buffer + o[1].origin, &o[1].v,
                     random_below(&r, 2) * 1000000u);
    if (memcmp(o[0].buffer, expected, (size_t)o[0].bytes)) print_error("seed %ju\n", (uintmax_t)seed);
    assert_memory_equal(o[0].buffer, expected, (size_t)o[0].bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_views_agree_with_a_plain_loop),
      cmocka_unit_test(random_copies_preserve_or_convert_values),
  };
  return cmocka_run_group_tests(tests, make_buffers, free_buffers);
}
