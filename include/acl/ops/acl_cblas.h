/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products with the interface of BLAS. */
#ifndef ACL_OPS_ACL_CBLAS_H
#define ACL_OPS_ACL_CBLAS_H

#include "acl/acl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum aclTransType { ACL_TRANS_N, ACL_TRANS_T, ACL_TRANS_NZ, ACL_TRANS_NZ_T } aclTransType;

typedef enum aclComputeType { ACL_COMPUTE_HIGH_PRECISION, ACL_COMPUTE_LOW_PRECISION } aclComputeType;

/* Submit C = alpha A B + beta C, and y = alpha A x + beta y, to a stream (NULL: the default stream of the current
 * context). A is m x k (m x n for vectors), B k x n, C m x n, each row-major without gaps; with ACL_TRANS_T the factor
 * lies transposed. All pointers are to device memory; alpha and beta have C's type, and are read when the product is
 * computed. Types are float16 and float, in any combination. transC is ACL_TRANS_N, and lda, ldb, ldc, incx and incy
 * are -1. type: without effect, sums are in float. Any thread may call them. Errors: ACL_ERROR_INVALID_PARAM;
 * ACL_ERROR_OP_NOT_FOUND (such operands); ACL_ERROR_RT_MEMORY_ALLOCATION. */
ACL_FUNC_VISIBILITY aclError aclblasGemmEx(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n,
                                           int k, const void *alpha, const void *matrixA, int lda,
                                           aclDataType dataTypeA, const void *matrixB, int ldb, aclDataType dataTypeB,
                                           const void *beta, void *matrixC, int ldc, aclDataType dataTypeC,
                                           aclComputeType type, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclblasGemvEx(aclTransType transA, int m, int n, const void *alpha, const void *a, int lda,
                                           aclDataType dataTypeA, const void *x, int incx, aclDataType dataTypeX,
                                           const void *beta, void *y, int incy, aclDataType dataTypeY,
                                           aclComputeType type, aclrtStream stream);

/* The same in float16. */
ACL_FUNC_VISIBILITY aclError aclblasHgemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n,
                                          int k, const aclFloat16 *alpha, const aclFloat16 *matrixA, int lda,
                                          const aclFloat16 *matrixB, int ldb, const aclFloat16 *beta,
                                          aclFloat16 *matrixC, int ldc, aclComputeType type, aclrtStream stream);
ACL_FUNC_VISIBILITY aclError aclblasHgemv(aclTransType transA, int m, int n, const aclFloat16 *alpha,
                                          const aclFloat16 *a, int lda, const aclFloat16 *x, int incx,
                                          const aclFloat16 *beta, aclFloat16 *y, int incy, aclComputeType type,
                                          aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
