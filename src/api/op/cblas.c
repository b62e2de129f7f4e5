/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points with the interface of BLAS: calls of the operator GEMM by its name. */
#include "acl/ops/acl_cblas.h"

#include "api/api.h"
#include "op/aclop.h"
#include "tensor/dtype.h"

enum { A, B, C, ALPHA, BETA, N_INPUTS };

/* A product of row-major matrices, m x k and k x n. stored: dims of the factors as they lie in memory. */
typedef struct {
  int64_t stored[N_INPUTS][2];
  int dtype[N_INPUTS];
  const void *data[N_INPUTS];
  bool transposed[2];
  void *site;
} cblas_product;

static status check_leading(const char *name, int value) {
  return value == -1 ? ST_OK : fail(ST_INVALID_PARAM, "%s is %d, expected -1, which CANN reserves it for", name, value);
}

static status cblas_transposed(const char *name, aclTransType trans, bool *transposed) {
  *transposed = trans == ACL_TRANS_T;
  if (trans == ACL_TRANS_N || trans == ACL_TRANS_T) return ST_OK;
  return fail(ST_INVALID_PARAM, "%s is %d, expected %d (ACL_TRANS_N) or %d (ACL_TRANS_T)", name, (int)trans,
              ACL_TRANS_N, ACL_TRANS_T);
}

static status cblas_run(const cblas_product *p, aclrtStream stream) {
  static const char *const names[] = {"A", "B", "C", "alpha", "beta"};
  aclop_operand in[N_INPUTS] = {{0}};
  tensor_desc *descs[N_INPUTS] = {NULL};
  attributes *attr = attributes_new();
  status st = attr ? ST_OK : ST_NO_HOST_MEMORY;
  for (int i = 0; i < N_INPUTS && st == ST_OK; ++i) {
    const int rank = i < ALPHA ? 2 : 1;
    if (!p->data[i]) st = fail(ST_INVALID_PARAM, "%s is NULL, expected device memory", names[i]);
    if (st == ST_OK && !(descs[i] = desc_new(p->dtype[i], rank, p->stored[i], ACL_FORMAT_ND))) st = ST_NO_HOST_MEMORY;
    const size_t n = (size_t)p->stored[i][0] * (size_t)(rank == 2 ? p->stored[i][1] : 1);
    in[i] = (aclop_operand){descs[i], (void *)(uintptr_t)p->data[i], n * dtype_bytes(p->dtype[i]), NULL};
  }
  if (st == ST_OK) st = attributes_set(attr, "transpose_a", ATTR_BOOL, (op_arg){.boolean = p->transposed[A]});
  if (st == ST_OK) st = attributes_set(attr, "transpose_b", ATTR_BOOL, (op_arg){.boolean = p->transposed[B]});
  if (st == ST_OK)
    st = aclop_execute(&(aclop_call){.name = "GEMM",
                                     .inputs = in,
                                     .n_inputs = N_INPUTS,
                                     .outputs = &in[C],
                                     .n_outputs = 1,
                                     .attributes = attr,
                                     .refusal = ST_OP_NOT_FOUND,
                                     .site = p->site},
                       stream);
  for (int i = 0; i < N_INPUTS; ++i) desc_free(descs[i]);
  attributes_free(attr);
  return st;
}

/* The product of matrices of these sizes, whose pointers and types are filled in already. */
static status cblas_gemm(cblas_product *p, aclTransType trans_a, aclTransType trans_b, int m, int n, int k,
                         aclComputeType type, aclrtStream stream) {
  TRY(cblas_transposed("transA", trans_a, &p->transposed[A]));
  TRY(cblas_transposed("transB", trans_b, &p->transposed[B]));
  if (m < 1 || n < 1 || k < 1)
    return fail(ST_INVALID_PARAM, "the sizes are %d, %d and %d, expected 1 or more", m, n, k);
  if (type != ACL_COMPUTE_HIGH_PRECISION && type != ACL_COMPUTE_LOW_PRECISION)
    return fail(ST_INVALID_PARAM, "type is %d, expected %d or %d", (int)type, ACL_COMPUTE_HIGH_PRECISION,
                ACL_COMPUTE_LOW_PRECISION);
  for (int i = 0; i < N_INPUTS; ++i) {
    if (!dtype_is_known(p->dtype[i])) return fail(ST_INVALID_PARAM, "a data type is %d, which is none", p->dtype[i]);
    p->stored[i][0] = p->stored[i][1] = 1;
  }
  p->stored[A][p->transposed[A]] = m, p->stored[A][!p->transposed[A]] = k;
  p->stored[B][p->transposed[B]] = k, p->stored[B][!p->transposed[B]] = n;
  p->stored[C][0] = m, p->stored[C][1] = n;
  return cblas_run(p, stream);
}

static status cblas_matrices(cblas_product *p, aclTransType trans_a, aclTransType trans_b, aclTransType trans_c, int m,
                             int n, int k, int lda, int ldb, int ldc, aclComputeType type, aclrtStream stream) {
  if (trans_c != ACL_TRANS_N) return fail(ST_INVALID_PARAM, "transC is %d, expected ACL_TRANS_N", (int)trans_c);
  TRY(check_leading("lda", lda));
  TRY(check_leading("ldb", ldb));
  TRY(check_leading("ldc", ldc));
  return cblas_gemm(p, trans_a, trans_b, m, n, k, type, stream);
}

static status cblas_vectors(cblas_product *p, aclTransType trans_a, int m, int n, int lda, int incx, int incy,
                            aclComputeType type, aclrtStream stream) {
  TRY(check_leading("lda", lda));
  TRY(check_leading("incx", incx));
  TRY(check_leading("incy", incy));
  return cblas_gemm(p, trans_a, ACL_TRANS_N, m, 1, n, type, stream);
}

#define CBLAS_PRODUCT(type_a, type_b, type_c, a, b, c, alpha, beta)                                                    \
  {                                                                                                                    \
    .dtype = {(int)(type_a), (int)(type_b), (int)(type_c), (int)(type_c), (int)(type_c)},                              \
    .data = {a, b, c, alpha, beta}, .site = CALLER                                                                     \
  }

aclError aclblasGemmEx(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k,
                       const void *alpha, const void *matrixA, int lda, aclDataType dataTypeA, const void *matrixB,
                       int ldb, aclDataType dataTypeB, const void *beta, void *matrixC, int ldc, aclDataType dataTypeC,
                       aclComputeType type, aclrtStream stream) {
  API_ENTER();
  cblas_product p = CBLAS_PRODUCT(dataTypeA, dataTypeB, dataTypeC, matrixA, matrixB, matrixC, alpha, beta);
  API_RETURN(cblas_matrices(&p, transA, transB, transC, m, n, k, lda, ldb, ldc, type, stream));
}

aclError aclblasHgemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k,
                      const aclFloat16 *alpha, const aclFloat16 *matrixA, int lda, const aclFloat16 *matrixB, int ldb,
                      const aclFloat16 *beta, aclFloat16 *matrixC, int ldc, aclComputeType type, aclrtStream stream) {
  API_ENTER();
  cblas_product p = CBLAS_PRODUCT(ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, matrixA, matrixB, matrixC, alpha, beta);
  API_RETURN(cblas_matrices(&p, transA, transB, transC, m, n, k, lda, ldb, ldc, type, stream));
}

aclError aclblasGemvEx(aclTransType transA, int m, int n, const void *alpha, const void *a, int lda,
                       aclDataType dataTypeA, const void *x, int incx, aclDataType dataTypeX, const void *beta, void *y,
                       int incy, aclDataType dataTypeY, aclComputeType type, aclrtStream stream) {
  API_ENTER();
  cblas_product p = CBLAS_PRODUCT(dataTypeA, dataTypeX, dataTypeY, a, x, y, alpha, beta);
  API_RETURN(cblas_vectors(&p, transA, m, n, lda, incx, incy, type, stream));
}

aclError aclblasHgemv(aclTransType transA, int m, int n, const aclFloat16 *alpha, const aclFloat16 *a, int lda,
                      const aclFloat16 *x, int incx, const aclFloat16 *beta, aclFloat16 *y, int incy,
                      aclComputeType type, aclrtStream stream) {
  API_ENTER();
  cblas_product p = CBLAS_PRODUCT(ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16, a, x, y, alpha, beta);
  API_RETURN(cblas_vectors(&p, transA, m, n, lda, incx, incy, type, stream));
}
