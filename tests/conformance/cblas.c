/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products with the interface of BLAS (acl/ops/acl_cblas.h). */
#include "acl_test.h"

#include "acl/ops/acl_cblas.h"

enum { M = 3, N = 2, K = 4 };
static const aclComputeType high = ACL_COMPUTE_HIGH_PRECISION;

/* Small integers, which float16 has. */
static int a_at(int row, int col) { return row - 2 * col + 1; }
static int b_at(int row, int col) { return 3 * row + col - 4; }
static int c_at(int row, int col) { return row * N + col; }

/* Device memory with a matrix as it lies there, in float16. */
static void *halves(int rows, int cols, bool transposed, int at(int row, int col)) {
  aclFloat16 x[M * K + N * K];
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < cols; ++k) x[transposed ? k * rows + i : i * cols + k] = aclFloatToFloat16((float)at(i, k));
  return dev_from(x, (size_t)(rows * cols) * sizeof *x);
}

static void *number(aclDataType type, float value) {
  const aclFloat16 half = aclFloatToFloat16(value);
  return type == ACL_FLOAT ? dev_from(&value, sizeof value) : dev_from(&half, sizeof half);
}

/* 2 A B + 3 C for C of a type, checked. */
static void product(bool trans_a, bool trans_b, aclDataType type, bool by_type) {
  const aclTransType ta = trans_a ? ACL_TRANS_T : ACL_TRANS_N, tb = trans_b ? ACL_TRANS_T : ACL_TRANS_N;
  void *a = halves(M, K, trans_a, a_at), *b = halves(K, N, trans_b, b_at), *c;
  void *alpha = number(type, 2), *beta = number(type, 3);
  float wide[M * N];
  aclFloat16 half[M * N];
  for (int i = 0; i < M * N; ++i) wide[i] = (float)c_at(i / N, i % N);
  c = type == ACL_FLOAT ? dev_from(wide, sizeof wide) : halves(M, N, false, c_at);
  if (by_type)
    CHECK_OK(aclblasGemmEx(ta, tb, ACL_TRANS_N, M, N, K, alpha, a, -1, ACL_FLOAT16, b, -1, ACL_FLOAT16, beta, c, -1,
                           type, high, NULL));
  else
    CHECK_OK(aclblasHgemm(ta, tb, ACL_TRANS_N, M, N, K, alpha, a, -1, b, -1, beta, c, -1, high, NULL));
  CHECK_OK(aclrtSynchronizeStream(NULL));
  if (type == ACL_FLOAT)
    from_dev(wide, c, sizeof wide);
  else
    from_dev(half, c, sizeof half);
  for (int i = 0; i < M * N; ++i) {
    int sum = 0;
    for (int k = 0; k < K; ++k) sum += a_at(i / N, k) * b_at(k, i % N);
    const float got = type == ACL_FLOAT ? wide[i] : aclFloat16ToFloat(half[i]);
    assert_true(got == (float)(2 * sum + 3 * c_at(i / N, i % N)));
  }
  void *const all[] = {a, b, c, alpha, beta};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) CHECK_OK(aclrtFree(all[i]));
}

static void products_are_right(void **state) {
  (void)state;
  for (int i = 0; i < 4; ++i) {
    product(i & 1, i & 2, ACL_FLOAT16, false);
    product(i & 1, i & 2, ACL_FLOAT16, true);
    product(i & 1, i & 2, ACL_FLOAT, true);
  }
}

static void vectors_are_right(void **state) {
  (void)state;
  for (int trans = 0; trans < 2; ++trans) {
    void *a = halves(M, K, trans, a_at), *x = halves(K, 1, false, b_at), *y = halves(M, 1, false, c_at);
    void *alpha = number(ACL_FLOAT16, 1), *beta = number(ACL_FLOAT16, 2);
    aclFloat16 got[M];
    CHECK_OK(aclblasHgemv(trans ? ACL_TRANS_T : ACL_TRANS_N, M, K, alpha, a, -1, x, -1, beta, y, -1, high, NULL));
    CHECK_OK(aclrtSynchronizeStream(NULL));
    from_dev(got, y, sizeof got);
    for (int i = 0; i < M; ++i) {
      int sum = 2 * c_at(i, 0);
      for (int k = 0; k < K; ++k) sum += a_at(i, k) * b_at(k, 0);
      assert_true(aclFloat16ToFloat(got[i]) == (float)sum);
    }
    void *const all[] = {a, x, y, alpha, beta};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) CHECK_OK(aclrtFree(all[i]));
  }
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  void *d = dev_filled(0, 1024);
  CHECK_CODE(ANY_ERROR,
             aclblasHgemm(ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_T, M, N, K, d, d, -1, d, -1, d, d, -1, high, NULL));
  CHECK_CODE(ANY_ERROR,
             aclblasHgemm(ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, 0, N, K, d, d, -1, d, -1, d, d, -1, high, NULL));
  CHECK_CODE(ANY_ERROR,
             aclblasHgemm(ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, M, N, K, NULL, d, -1, d, -1, d, d, -1, high, NULL));
  CHECK_CODE(ANY_ERROR,
             aclblasHgemm(ACL_TRANS_N, ACL_TRANS_N, ACL_TRANS_N, M, N, K, d, d, 7, d, -1, d, d, -1, high, NULL));
  CHECK_CODE(ANY_ERROR, aclblasHgemv((aclTransType)9, M, N, d, d, -1, d, -1, d, d, -1, high, NULL));
  CHECK_OK(aclrtFree(d));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(products_are_right),
      TEST(vectors_are_right),
      TEST(wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, device_up, device_down);
}
