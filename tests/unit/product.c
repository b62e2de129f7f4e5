/* SPDX-License-Identifier: Apache-2.0 */
/* GEMMs inside other operators: a B that is packed once gives the bits of one that is not, and the epilogue is what its
 * parts are in double. */
#include "kernel/product/product.h"

#include <math.h>

#include "unit.h"

enum { MOST_BATCH = 3 };

typedef struct {
  int dtype;
  int64_t rows, cols, n;
  bool transposed;
  char *at;
} stack; /* n matrices, one after the other */

static double value_at(const stack *x, int64_t i) {
  double value;
  loops->load[x->dtype][COMPUTE_F64](&value, x->at + i * (int64_t)dtype_bytes(x->dtype), 0, 1);
  return value;
}

static double element_of(const stack *x, int64_t batch, int64_t i, int64_t j) {
  return value_at(x, batch * x->rows * x->cols + (x->transposed ? j * x->rows + i : i * x->cols + j));
}

/* Random numbers from -1 to 1. */
static stack make_stack(random_source *random, int dtype, int64_t n, int64_t rows, int64_t cols, bool transposed) {
  stack x = {.dtype = dtype, .rows = rows, .cols = cols, .n = n, .transposed = transposed};
  const int64_t size = (int64_t)dtype_bytes(dtype);
  x.at = malloc((size_t)(n * rows * cols * size));
  for (int64_t i = 0; i < n * rows * cols; i++) {
    const double value = (double)random_below(random, 2001) / 1000 - 1;
    loops->store[dtype][COMPUTE_F64](x.at + i * size, 0, &value, 1);
  }
  return x;
}

static matrices matrices_of(const stack *x) {
  const int64_t size = (int64_t)dtype_bytes(x->dtype);
  return (matrices){.dtype = x->dtype,
                    .rows = x->rows,
                    .cols = x->cols,
                    .row_stride = x->transposed ? size : x->cols * size,
                    .col_stride = x->transposed ? x->rows * size : size,
                    .batch_strides = {x->n > 1 ? x->rows * x->cols * size : 0}};
}

typedef struct {
  int64_t batch, m, k, n;
  stack a, b, out, self, residual;
  product_plan plan;
} fixture;

static const int dtypes[][3] = {{ACL_FLOAT, ACL_FLOAT, ACL_FLOAT},       {ACL_BF16, ACL_BF16, ACL_BF16},
                                {ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16}, {ACL_FLOAT, ACL_BF16, ACL_FLOAT},
                                {ACL_DOUBLE, ACL_DOUBLE, ACL_DOUBLE},    {ACL_BF16, ACL_BF16, ACL_FLOAT}};

static fixture make_fixture(random_source *random) {
  const int *const d = dtypes[random_below(random, COUNT(dtypes))];
  fixture f = {.batch = random_below(random, 3) ? 1 : 1 + random_below(random, MOST_BATCH),
               .m = 1 + random_below(random, random_below(random, 4) ? 30 : 300),
               .k = 1 + random_below(random, random_below(random, 4) ? 200 : 2500),
               .n = 1 + random_below(random, random_below(random, 4) ? 200 : 700)};
  f.a = make_stack(random, d[0], f.batch, f.m, f.k, random_below(random, 2));
  f.b = make_stack(random, d[1], 1, f.k, f.n, random_below(random, 2));
  f.out = make_stack(random, d[2], f.batch, f.m, f.n, random_below(random, 5) == 0);
  f.self = make_stack(random, d[2], 1, 1, f.n, false); /* a bias */
  f.residual = make_stack(random, d[2], f.batch, f.m, f.n, random_below(random, 5) == 0);
  f.plan = (product_plan){.a = matrices_of(&f.a),
                          .b = matrices_of(&f.b),
                          .out = matrices_of(&f.out),
                          .self = matrices_of(&f.self),
                          .residual = matrices_of(&f.residual),
                          .n_batch_dims = 1,
                          .batch_dims = {f.batch},
                          .constant_b = random_below(random, 2),
                          .alpha = random_below(random, 2) ? 1 : 0.5,
                          .beta = 1,
                          .has_self = random_below(random, 2),
                          .activation = {random_below(random, N_ACTIVATIONS), {-0.25f, 0.75f}},
                          .has_residual = random_below(random, 2),
                          .residual_first = random_below(random, 2)};
  f.plan.self.rows = f.m, f.plan.self.row_stride = 0;
  if (random_below(random, 3) == 0) { /* nothing but the product, which other code computes */
    f.plan.alpha = 1;
    f.plan.has_self = f.plan.has_residual = false;
    f.plan.activation.function = ACTIVATION_NONE;
  }
  return f;
}

static void free_fixture(fixture *f) {
  free(f->a.at);
  free(f->b.at);
  free(f->out.at);
  free(f->self.at);
  free(f->residual.at);
}

static void compute(fixture *f, const product_plan *plan, const void *packed) {
  product_call call = {.plan = plan,
                       .a = f->a.at,
                       .b = f->b.at,
                       .self = f->self.at,
                       .residual = f->residual.at,
                       .out = f->out.at,
                       .packed_b = packed};
  memset(f->out.at, 0x5a, (size_t)(f->batch * f->m * f->n) * dtype_bytes(f->out.dtype));
  assert_int_equal(product_run(&call, 1), ST_OK);
}

static void a_packed_b_gives_the_same_bits(void **state) {
  (void)state;
  random_source random = {5};
  int packed_cases = 0;
  for (int i = 0; i < ROUNDS(400); i++) {
    fixture f = make_fixture(&random);
    product_choose(&f.plan, NULL);
    if (random_below(&random, 4) == 0) f.plan.cost_ns = 1000 * 1000 * 1000; /* several threads */
    const uint64_t bytes = product_packed_bytes(&f.plan);
    if (bytes > 0) {
      const size_t out_bytes = (size_t)(f.batch * f.m * f.n) * dtype_bytes(f.out.dtype);
      char *const packed = aligned_alloc(64, bytes), *const plain = malloc(out_bytes);
      compute(&f, &f.plan, NULL);
      memcpy(plain, f.out.at, out_bytes);
      product_pack(&f.plan, f.b.at, packed, NULL);
      compute(&f, &f.plan, packed);
      assert_memory_equal(plain, f.out.at, out_bytes);
      free(packed);
      free(plain);
      packed_cases++;
    }
    free_fixture(&f);
  }
  assert_true(packed_cases > ROUNDS(400) / 3);
}

/* Spoils what it is told will not be read again, and counts it. */
static void spoil(void *told, const void *piece, uint64_t bytes) {
  *(uint64_t *)told += bytes;
  memset((void *)(uintptr_t)piece, 0x5a, bytes);
}

/* B has several pieces, and numbers of rows and columns that fit no block size. */
static void a_piece_is_read_once(void **state) {
  enum { K = 1501, N = 1803 };
  (void)state;
  random_source random = {7};
  for (int transposed = 0; transposed < 2; transposed++) {
    fixture f = {.batch = 1, .m = 4, .k = K, .n = N};
    f.a = make_stack(&random, ACL_FLOAT, 1, f.m, K, false);
    f.b = make_stack(&random, ACL_FLOAT, 1, K, N, transposed);
    f.out = make_stack(&random, ACL_FLOAT, 1, f.m, N, false);
    f.plan = (product_plan){.a = matrices_of(&f.a),
                            .b = matrices_of(&f.b),
                            .out = matrices_of(&f.out),
                            .n_batch_dims = 1,
                            .batch_dims = {1},
                            .constant_b = true,
                            .alpha = 1};
    product_choose(&f.plan, NULL);
    const uint64_t bytes = product_packed_bytes(&f.plan);
    uint64_t told = 0;
    if (bytes > 0) {
      char *const packed[] = {aligned_alloc(64, bytes), aligned_alloc(64, bytes)};
      for (int i = 0; i < 2; i++) memset(packed[i], 0, bytes);
      product_pack(&f.plan, f.b.at, packed[0], NULL);
      product_pack(&f.plan, f.b.at, packed[1], &(executor_packing){.was_read = spoil, .listener = &told});
      assert_memory_equal(packed[0], packed[1], bytes);
      assert_int_equal(told, K * N * sizeof(float));
      free(packed[0]);
      free(packed[1]);
    }
    free_fixture(&f);
  }
}

static double activated(const activation *a, double x) {
  const double p = (double)a->parameter[0], q = (double)a->parameter[1];
  switch (a->function) {
  case ACTIVATION_RELU: return x < 0 ? 0 : x;
  case ACTIVATION_GELU: return x / 2 * (1 + erf(x / sqrt(2)));
  case ACTIVATION_GELU_TANH: return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  case ACTIVATION_SILU: return x / (1 + exp(-x));
  case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
  case ACTIVATION_TANH: return tanh(x);
  case ACTIVATION_CLAMP: return fmin(fmax(x, p), q);
  case ACTIVATION_LEAKY_RELU: return x < 0 ? p * x : x;
  case ACTIVATION_HARD_SIGMOID: return fmin(fmax(p * x + q, 0), 1);
  case ACTIVATION_HARD_SWISH: return x * fmin(fmax(p * x + q, 0), 1);
  default: return x;
  }
}

/* Compares some elements of out with double. */
static void check_elements(random_source *random, fixture *f, const product_plan *p) {
  for (int at = 0; at < 20; at++) {
    const int64_t batch = random_below(random, (uint32_t)f->batch), i = random_below(random, (uint32_t)f->m),
                  j = random_below(random, (uint32_t)f->n);
    double sum = 0, magnitude = 2;
    for (int64_t l = 0; l < f->k; l++) {
      const double term = element_of(&f->a, batch, i, l) * element_of(&f->b, 0, l, j);
      sum += term;
      magnitude += fabs(term);
    }
    const double residual = p->has_residual ? element_of(&f->residual, batch, i, j) : 0;
    const double before = p->alpha * sum + (p->has_self ? element_of(&f->self, 0, 0, j) : 0);
    const double expected =
        p->residual_first ? activated(&p->activation, before + residual) : activated(&p->activation, before) + residual;
    const double eps = f->out.dtype == ACL_BF16      ? 0x1p-8
                       : f->out.dtype == ACL_FLOAT16 ? 0x1p-11
                       : f->out.dtype == ACL_DOUBLE  ? 0x1p-52
                                                     : 0x1p-22;
    const double sums = f->out.dtype == ACL_DOUBLE ? 0x1p-52 : 0x1p-24;
    const double bound = eps * (fabs(expected) + 1) + 3 * sums * (double)(f->k + 8) * magnitude;
    assert_true(fabs(element_of(&f->out, batch, i, j) - expected) <= bound);
  }
}

static void the_epilogue_is_what_its_parts_are(void **state) {
  (void)state;
  random_source random = {6};
  for (int i = 0; i < ROUNDS(400); i++) {
    fixture f = make_fixture(&random);
    const product_plan asked = f.plan;
    product_choose(&f.plan, NULL);
    compute(&f, &f.plan, NULL);
    check_elements(&random, &f, &asked);
    free_fixture(&f);
  }
}

static void what_cannot_be_packed_has_no_size(void **state) {
  (void)state;
  random_source random = {7};
  fixture f = make_fixture(&random);
  f.plan.a.rows = f.plan.out.rows = 0; /* nothing to compute */
  product_choose(&f.plan, NULL);
  assert_int_equal(product_packed_bytes(&f.plan), 0);
  free_fixture(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_packed_b_gives_the_same_bits),
      cmocka_unit_test(a_piece_is_read_once),
      cmocka_unit_test(the_epilogue_is_what_its_parts_are),
      cmocka_unit_test(what_cannot_be_packed_has_no_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
