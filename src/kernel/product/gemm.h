/* One matrix product, C[m, n] = alpha * A[m, k] B[k, n] (+ C), row-major; oneDNN behind it. Any thread,
 * several at once; runs on a team where the product is worth one and none is open. Products of bfloat16 are
 * accumulated in float; on processors with AMX their denormals count as 0. */
#ifndef CANNON_KERNEL_GEMM_H
#define CANNON_KERNEL_GEMM_H

#include "base/status.h"

/* Types of A and B; C is double for GEMM_F64, else float. */
typedef enum { GEMM_F32, GEMM_BF16, GEMM_F64 } gemm_type;

typedef struct {
  int64_t m, n, k;
  bool trans_a, trans_b; /* stored as [k, m], [n, k] */
  int64_t lda, ldb, ldc; /* elements from row to row as stored: at least the row's length */
  float alpha;           /* GEMM_F32 only; 1 elsewhere */
  bool accumulate;       /* add to C; GEMM_F32 only */
} gemm_call;

/* k == 0 gives zeros. Fails with ST_INTERNAL where oneDNN does. */
status gemm(gemm_type type, const gemm_call *g, const void *a, const void *b, void *c);

/* Whether this processor has a fast product of bfloat16; otherwise GEMM_BF16 must not be used. */
bool gemm_has_bf16(void);

/* Estimate on one core. */
uint64_t gemm_cost_ns(gemm_type type, int64_t m, int64_t n, int64_t k);

#endif
