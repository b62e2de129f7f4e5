/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with an epilogue, and with packed weights, by the implementation that CANNON_IMPL forces or the usual
 * one: the results are what sums in double and the epilogue in double give, and packed weights give the bits of others.
 * Geometries, types, layouts and epilogues are random. */
#include <math.h>

#include "graph/nodes.h"
#include "kernel/engine/activation.h"
#include "kernel/engine/loops.h"
#include "op/executor.h"
#include "unit.h"

#define CHECK(expression) assert_int_equal(expression, ST_OK)

enum { AXES = 2, X, W, BIAS, RESIDUAL, Y, N_TENSORS };

typedef struct {
  int dtype;
  bool transposed, residual_first, channels_last;
  int64_t batch, groups, channels,
      rows; /* channels and rows of a group, as the weight [groups * rows, channels, ...] */
  int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], pad[AXES], dilation[AXES];
  activation act;
  ir_graph *g;
  ir_value *t[N_TENSORS];
  char *at[N_TENSORS]; /* contents */
} fixture;

/* Mostly sizes near the thresholds of the implementations. */
static int64_t size_below(random_source *r, uint32_t n, uint32_t most) {
  return 1 + random_below(r, random_below(r, 4) ? n : most);
}

/* One whose dilation Winograd takes apart. */
static void choose_dilated(random_source *r, fixture *f) {
  f->groups = 1;
  f->channels = 32 + random_below(r, 20);
  f->rows = 32 + random_below(r, 20);
  for (int a = 0; a < AXES; ++a)
    f->dilation[a] = 1 + random_below(r, 3), f->out[a] = 10 * f->dilation[a] + random_below(r, 4);
}

static void choose_geometry(random_source *r, fixture *f) {
  f->batch = 1 + random_below(r, 2);
  f->groups = random_below(r, 3) ? 1 : 1 + random_below(r, 20);
  f->channels = f->groups > 1 ? 1 + random_below(r, 3) : size_below(r, 10, 70);
  f->rows = f->groups > 1 ? 1 + random_below(r, 3) : size_below(r, 20, 70);
  if (random_below(r, 4) == 0) f->groups = 18, f->channels = f->rows = 1;
  const bool window = random_below(r, 2); /* 3 x 3 without strides */
  for (int a = 0; a < AXES; ++a) {
    f->kernel[a] = window ? 3 : 1 + random_below(r, 3);
    f->stride[a] = window ? 1 : 1 + random_below(r, 3);
    f->dilation[a] = window ? 1 : 1 + random_below(r, 2);
    f->pad[a] = random_below(r, 3);
    f->out[a] = size_below(r, 9, 24);
  }
  if (window && random_below(r, 8) == 0) choose_dilated(r, f);
  for (int a = 0; a < AXES; ++a) {
    f->in[a] = (f->out[a] - 1) * f->stride[a] + (f->kernel[a] - 1) * f->dilation[a] + 1 - 2 * f->pad[a];
    if (f->in[a] < 1)
      f->pad[a] = 0, f->in[a] = (f->out[a] - 1) * f->stride[a] + (f->kernel[a] - 1) * f->dilation[a] + 1;
  }
}

/* A value [n, c, h, w] with its own memory, perhaps with the channels last. */
static void make_value(fixture *f, int i, const int64_t *dims, int rank, bool channels_last) {
  ir_value *v;
  CHECK(ir_temporary(f->g, f->dtype, dims, rank, &v));
  if (channels_last) {
    const int64_t permuted[] = {dims[0], dims[2], dims[3], dims[1]};
    CHECK(ir_temporary(f->g, f->dtype, permuted, rank, &v));
    CHECK(ir_permuted(f->g, v, (const int[]){0, 3, 1, 2}, &v));
  }
  f->t[i] = v;
  f->at[i] = aligned_alloc(64, (v->storage->bytes + 63) / 64 * 64);
}

static void fill(random_source *r, fixture *f, int i) {
  const int64_t size = (int64_t)dtype_bytes(f->dtype);
  for (int64_t k = 0; k < f->t[i]->tensor.n; ++k) {
    const float value = (float)random_below(r, 2001) / 1000 - 1;
    loops->store[f->dtype][COMPUTE_F32](f->at[i] + k * size, 0, &value, 1);
  }
}

static fixture make_fixture(random_source *r, bool plain) {
  static const int dtypes[] = {ACL_FLOAT, ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
  fixture f = {.dtype = dtypes[random_below(r, COUNT(dtypes))],
               .transposed = random_below(r, 4) == 0,
               .residual_first = random_below(r, 2),
               .channels_last = random_below(r, 4) == 0,
               .act = {plain ? ACTIVATION_NONE : random_below(r, N_ACTIVATIONS), {-0.25f, 0.75f}}};
  choose_geometry(r, &f);
  f.g = ir_new();
  const int64_t x[] = {f.batch, f.groups * f.channels, f.in[0], f.in[1]},
                y[] = {f.batch, f.groups * f.rows, f.out[0], f.out[1]},
                w[] = {f.groups * f.rows, f.channels, f.kernel[0], f.kernel[1]};
  const int64_t bias = f.transposed ? x[1] : y[1];
  make_value(&f, X, f.transposed ? y : x, 4, random_below(r, 5) == 0);
  make_value(&f, W, w, 4, false);
  make_value(&f, Y, f.transposed ? x : y, 4, f.channels_last);
  if (random_below(r, 2)) make_value(&f, BIAS, &bias, 1, false);
  if (!plain && random_below(r, 2)) make_value(&f, RESIDUAL, f.transposed ? x : y, 4, f.channels_last);
  for (int i = X; i <= RESIDUAL; ++i)
    if (f.t[i]) fill(r, &f, i);
  return f;
}

static void free_fixture(fixture *f) {
  for (int i = X; i < N_TENSORS; ++i) free(f->at[i]);
  ir_free(f->g);
}

/* Runs it with or without constant weights. Returns the implementation that was chosen, and whether it packed. */
static const char *run(fixture *f, bool constant, bool *packs) {
  const aclIntArray *lists[4];
  const int64_t zeros[AXES] = {0}, *const values[] = {f->stride, f->pad, f->dilation, zeros};
  for (int i = 0; i < 4; ++i) lists[i] = ir_int_array(f->g, values[i], AXES);
  const op_arg args[] = {{.tensor = value_tensor(f->t[X])},
                         {.tensor = value_tensor(f->t[W])},
                         {.tensor = value_tensor(f->t[BIAS])},
                         {.tensor = value_tensor(f->t[RESIDUAL])},
                         {.tensor = value_tensor(f->t[Y])},
                         {.ints = lists[0]},
                         {.ints = lists[1]},
                         {.ints = lists[2]},
                         {.boolean = f->transposed},
                         {.ints = lists[3]},
                         {.integer = f->groups},
                         {.integer = f->act.function},
                         {.real = (double)f->act.parameter[0]},
                         {.real = (double)f->act.parameter[1]},
                         {.boolean = f->residual_first}};
  uint64_t workspace_bytes;
  executor *e;
  CHECK(op_prepare_constant(&op_ConvolutionEpilogue, args, constant ? 2 : 0, &workspace_bytes, &e));
  char *const scratch = aligned_alloc(64, workspace_bytes + 64), *packed = NULL;
  void *view[] = {f->at[X], f->at[W], f->at[BIAS], f->at[RESIDUAL], f->at[Y]};
  *packs = e->packing.bytes;
  if (*packs) {
    assert_int_equal(e->packing.operand, 1);
    packed = aligned_alloc(64, (e->packing.bytes + 63) / 64 * 64);
    e->packing.pack(e, view[1], packed);
    e->packed = packed;
    if (e->packing.replaces) view[1] = NULL;
  }
  memset(scratch, 0x5a, workspace_bytes);
  CHECK(e->run(e, view, scratch));
  const char *const name = e->choices[0]->name;
  executor_unref(e);
  free(scratch);
  free(packed);
  return name;
}

static double element(const fixture *f, int i, int64_t n, int64_t c, int64_t h, int64_t w) {
  const tensor *t = &f->t[i]->tensor;
  const int64_t at = t->rank == 1 ? c : n * t->strides[0] + c * t->strides[1] + h * t->strides[2] + w * t->strides[3];
  double value;
  loops->load[f->dtype][COMPUTE_F64](&value, f->at[i] + at * (int64_t)dtype_bytes(f->dtype), 0, 1);
  return value;
}

/* The sum for an output, and that of the terms' magnitudes. */
static double sum_of(const fixture *f, int64_t n, int64_t c, const int64_t *at, double *magnitude) {
  const int64_t outer = f->transposed ? f->channels : f->rows, inner = f->transposed ? f->rows : f->channels;
  const tensor *x = &f->t[X]->tensor;
  double sum = *magnitude = 0;
  for (int64_t k = 0; k < inner; ++k)
    for (int64_t t = 0; t < f->kernel[0] * f->kernel[1]; ++t) {
      const int64_t tap[] = {t / f->kernel[1], t % f->kernel[1]}, group = c / outer;
      int64_t from[AXES];
      bool inside = true;
      for (int a = 0; a < AXES; ++a) {
        const int64_t up = at[a] + f->pad[a] - tap[a] * f->dilation[a];
        from[a] = f->transposed ? up / f->stride[a] : at[a] * f->stride[a] - f->pad[a] + tap[a] * f->dilation[a];
        inside &= from[a] >= 0 && from[a] < x->dims[a + 2];
        if (f->transposed) inside &= up >= 0 && up % f->stride[a] == 0;
      }
      if (!inside) continue;
      const double w = f->transposed ? element(f, W, group * inner + k, c % outer, tap[0], tap[1])
                                     : element(f, W, c, k, tap[0], tap[1]);
      const double term = w * element(f, X, n, group * inner + k, from[0], from[1]);
      sum += term;
      *magnitude += fabs(term);
    }
  return sum;
}

static double activated(const activation *a, double x) {
  const double p = (double)a->parameter[0], q = (double)a->parameter[1], gate = fmin(fmax(p * x + q, 0), 1);
  switch (a->function) {
  case ACTIVATION_RELU: return x < 0 ? 0 : x;
  case ACTIVATION_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
  case ACTIVATION_GELU_TANH: return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  case ACTIVATION_SILU: return x / (1 + exp(-x));
  case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
  case ACTIVATION_TANH: return tanh(x);
  case ACTIVATION_CLAMP: return fmin(fmax(x, p), q);
  case ACTIVATION_LEAKY_RELU: return x < 0 ? p * x : x;
  case ACTIVATION_HARD_SIGMOID: return gate;
  case ACTIVATION_HARD_SWISH: return x * gate;
  default: return x;
  }
}

static void check_elements(random_source *r, const fixture *f, const char *name) {
  const double eps = f->dtype == ACL_BF16 ? 0x1p-8 : f->dtype == ACL_FLOAT16 ? 0x1p-11 : 0x1p-22;
  const tensor *y = &f->t[Y]->tensor;
  for (int i = 0; i < 40; ++i) {
    const int64_t n = random_below(r, (uint32_t)y->dims[0]), c = random_below(r, (uint32_t)y->dims[1]),
                  at[] = {random_below(r, (uint32_t)y->dims[2]), random_below(r, (uint32_t)y->dims[3])};
    double magnitude, sum = sum_of(f, n, c, at, &magnitude);
    if (f->t[BIAS]) sum += element(f, BIAS, n, c, 0, 0);
    const double residual = f->t[RESIDUAL] ? element(f, RESIDUAL, n, c, at[0], at[1]) : 0;
    const double expected = f->residual_first ? activated(&f->act, sum + residual) : activated(&f->act, sum) + residual;
    const double got = element(f, Y, n, c, at[0], at[1]);
    /* Outputs may be rounded before and after the epilogue, whose slope is at most 1.3. Winograd's error is that of
     * the largest terms of a window. */
    const double bound = 4 * eps * (fabs(expected) + fabs(sum) + 1) + 0x1p-24 * 60 * (magnitude + (double)f->channels);
    if (!(fabs(got - expected) <= bound))
      print_error("%s: dtype %d, activation %d: %g, expected %g, sum %g, residual %g\n", name, f->dtype,
                  (int)f->act.function, got, expected, sum, residual);
    assert_true(fabs(got - expected) <= bound);
  }
}

static void the_epilogue_is_what_its_parts_are(void **state) {
  (void)state;
  random_source random = {3};
  for (int i = 0; i < ROUNDS(1500); ++i) {
    fixture f = make_fixture(&random, false);
    bool packs;
    const char *const name = run(&f, random_below(&random, 2), &packs);
    check_elements(&random, &f, name);
    free_fixture(&f);
  }
}

static void packed_weights_give_the_same_bits(void **state) {
  (void)state;
  random_source random = {4};
  int n_packed = 0, n_same = 0;
  for (int i = 0; i < ROUNDS(1500); ++i) {
    fixture f = make_fixture(&random, random_below(&random, 2));
    bool packs, again;
    const char *const name = run(&f, true, &packs);
    if (packs) {
      const size_t bytes = f.t[Y]->storage->bytes;
      check_elements(&random, &f, name);
      char *const packed = memcpy(malloc(bytes), f.at[Y], bytes);
      memset(f.at[Y], 0x5a, bytes);
      n_packed++;
      if (!strcmp(name, run(&f, false, &again))) {
        assert_memory_equal(packed, f.at[Y], bytes);
        n_same++;
      }
      assert_false(again);
      free(packed);
    }
    free_fixture(&f);
  }
  const char *const forced = getenv("CANNON_IMPL");
  if (!forced || !strstr(forced, "reference")) assert_true(n_packed > ROUNDS(1500) / 20);
  if (!forced || !strstr(forced, "packed")) assert_true(n_same >= n_packed / 2); /* it needs constants */
}

/* Where a sum is not finite, Winograd leaves the call to another implementation, which finds the weights, too. */
static void infinities_stay_where_they_are(void **state) {
  (void)state;
  random_source random = {5};
  for (int i = 0; i < ROUNDS(200); ++i) {
    fixture f = make_fixture(&random, true);
    const float infinity = INFINITY;
    bool packs;
    loops->store[f.dtype][COMPUTE_F32](f.at[X], 0, &infinity, 1);
    (void)run(&f, true, &packs);
    const tensor *y = &f.t[Y]->tensor;
    double magnitude;
    const int64_t last[] = {y->dims[2] - 1, y->dims[3] - 1};
    const double sum = sum_of(&f, y->dims[0] - 1, y->dims[1] - 1, last, &magnitude);
    const double got = element(&f, Y, y->dims[0] - 1, y->dims[1] - 1, last[0], last[1]);
    assert_true(isfinite(sum) == isfinite(got));
    free_fixture(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_epilogue_is_what_its_parts_are),
      cmocka_unit_test(packed_weights_give_the_same_bits),
      cmocka_unit_test(infinities_stay_where_they_are),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
