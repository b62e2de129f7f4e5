/* SPDX-License-Identifier: Apache-2.0 */
/* Preparation of a GEMM: its equation is simplified and oriented, then an implementation is chosen from the list. */
#include "kernel/product/product.h"

/* ---- the equation ------------------------------------------------------------------------------------------------ */

/* If the matrices of a batch of A are adjacent and all are multiplied by the same B, they are treated as one taller
 * A. */
static void fold_batch(product_plan *p) {
  while (p->n_batch_dims > 0) {
    const int d = p->n_batch_dims - 1;
    const int64_t n = p->batch_dims[d], m = p->a.rows;
    if (n != 1) {
      if (p->b.batch_strides[d] != 0) return;
      matrices *tall[4] = {&p->a, &p->out};
      int n_tall = 2;
      if (p->has_self) tall[n_tall++] = &p->self;
      if (p->has_residual) tall[n_tall++] = &p->residual;
      for (int i = 0; m != 1 && i < n_tall; ++i)
        if (tall[i]->batch_strides[d] != m * tall[i]->row_stride) return;
      for (int i = 0; i < n_tall; ++i) {
        if (m == 1) tall[i]->row_stride = tall[i]->batch_strides[d];
        tall[i]->rows = m * n;
      }
    }
    --p->n_batch_dims;
  }
}

static void product_transpose(matrices *x) {
  const int64_t rows = x->rows, row_stride = x->row_stride;
  x->rows = x->cols, x->row_stride = x->col_stride;
  x->cols = rows, x->col_stride = row_stride;
}

/* Whether splitting float32 into bfloat16 parts is faster. Measured: 64 x 64 x 64 takes as long either way, 128 x 32 x
 * 128 takes three quarters of the time. */
static bool pays_to_split(const product_plan *p) {
  enum { LEAST = 16, LEAST_DEPTH = 32 };
  const int64_t m = p->out.rows, n = p->out.cols, k = p->a.cols;
  return m >= LEAST && n >= LEAST && k >= LEAST_DEPTH && (double)m * (double)n * (double)k > 0x1p18;
}

static bool is_double(const product_plan *p) {
  return p->a.dtype == ACL_DOUBLE || p->b.dtype == ACL_DOUBLE || p->out.dtype == ACL_DOUBLE ||
         (p->has_self && p->self.dtype == ACL_DOUBLE) || (p->has_residual && p->residual.dtype == ACL_DOUBLE);
}

static tile_type product_type_of(const product_plan *p) {
  const int a = p->a.dtype, b = p->b.dtype;
  if (p->made_b) return TILE_F32;
  if (p->finish) return TILE_I8;
  if (is_double(p)) return TILE_F64;
  if (a == ACL_BF16 && b == ACL_BF16 && tile_has(TILE_BF16)) return TILE_BF16;
  if (a == ACL_FLOAT16 && b == ACL_FLOAT16 && p->a.cols >= TILE_F16_MIN_K && tile_has(TILE_F16)) return TILE_F16;
  if (a == ACL_FLOAT && b == ACL_FLOAT && pays_to_split(p) && tile_has(TILE_F32_PARTS)) return TILE_F32_PARTS;
  return TILE_F32;
}

/* Small-m GEMM whose wide factor is contiguous along k: on AMX the wide factor is read fastest as the left one, as rows
 * of tiles. */
static bool tiles_take_wide(const product_plan *p) {
  const bool wide_b = p->out.rows < p->out.cols;
  const int64_t few = wide_b ? p->out.rows : p->out.cols, wide = wide_b ? p->out.cols : p->out.rows;
  const int64_t along = wide_b ? p->b.row_stride : p->a.col_stride;
  return few > 1 && wide > FEW_ROWS && along == 2 && product_type_of(p) == TILE_BF16 && tile_has_amx();
}

/* Replaces the equation by out^T = B^T A^T if that puts the factor with few rows on the left, or makes out contiguous
 * along its rows. */
static void orient(product_plan *p) {
  if (p->made_b || p->finish) return;
  const int64_t m = p->out.rows, n = p->out.cols, size = (int64_t)dtype_bytes(p->out.dtype);
  const bool few = m <= FEW_ROWS || n <= FEW_ROWS;
  const bool swap = few ? tiles_take_wide(p) ? m < n : n < m : p->out.row_stride == size && p->out.col_stride != size;
  if (!swap) return;
  product_transpose(&p->a);
  product_transpose(&p->b);
  product_transpose(&p->out);
  product_transpose(&p->self);
  product_transpose(&p->residual);
  const matrices a = p->a;
  p->a = p->b;
  p->b = a;
  p->swapped = true;
  const int64_t a_term_stride = p->a_term_stride;
  p->a_term_stride = p->b_term_stride;
  p->b_term_stride = a_term_stride;
}

uint64_t product_cost_ns(tile_type type, int64_t m, int64_t n, int64_t k) {
  /* Operations per ns, measured on one core of a Granite Rapids for 256 to 4096 cubed; on other machines they give the
   * order of magnitude. The result is capped at 2^50 ns for any shape. */
  static const double rate[] = {[TILE_F32] = 160,   [TILE_F64] = 80,  [TILE_I32] = 60,       [TILE_I8] = 3000,
                                [TILE_BF16] = 1500, [TILE_F16] = 500, [TILE_F32_PARTS] = 350};
  /* AVX-512's dot-product instructions; few rows of int8 take even longer on a Zen 4 (16 x 512 x 384: 28 us). */
  const double slower = tile_has_amx() ? 1 : type == TILE_BF16 ? 7 : type == TILE_I8 ? 10 : 1;
  const double ns = 2.0 * (double)m * (double)n * (double)k / rate[type] * slower;
  return ns < 0x1p50 ? (uint64_t)ns : UINT64_C(1) << 50;
}

/* ---- implementations --------------------------------------------------------------------------------------------- */

static bool fits_small_m(void *plan) {
  const product_plan *p = plan;
  return p->out.rows <= FEW_ROWS && p->n_terms <= 1 && p->type != TILE_F64 && p->type != TILE_I8 &&
         (!p->made_b || p->made_b->few_rows);
}

enum { IN_CACHE_BYTES = 4 << 20 };

/* Whether reading B in place is at least as fast as blocks. Measured on a Zen 4:
 * - With a B that is packed once, float32 takes 0.4 to 0.9 of the time from 3 rows on. 16-bit types do where B fits in
 *   cache; otherwise the bytes count, which may be twice as many packed.
 * - bfloat16 on dot-product instructions is faster although B is packed each time, if B fits in cache: 8 x 1024 x 1024
 *   takes a third to a half of the time, 5 x 768 x 768 as long, 8 x 4096 x 4096 (in memory) up to 1.6 times as long.
 *   Not measured on AMX. */
static bool small_m_pays(const void *plan) {
  enum { LEAST_ROWS = 6, LEAST_ROWS_CONSTANT = 3 };
  const product_plan *p = plan;
  const int64_t m = p->out.rows, bytes = p->b.rows * p->b.cols * (int64_t)dtype_bytes(p->b.dtype);
  if (p->constant_b && m >= LEAST_ROWS_CONSTANT && (p->b.dtype == ACL_FLOAT || bytes <= IN_CACHE_BYTES))
    return p->swapped || p->made_b;
  return m < LEAST_ROWS || p->type != TILE_BF16 || tile_has_amx() || bytes > IN_CACHE_BYTES;
}

static void init_small_m(void *plan, executor *e) {
  product_plan *p = plan;
  (void)e;
  p->type = TILE_F32;
  p->whole_rows = true;
}

static status run_small_m(const void *plan, const void *operands, char *scratch) {
  const product_plan *p = plan;
  (void)scratch;
  return p->made_b ? p->made_b->few_rows(operands) : product_few_rows(operands);
}

static bool fits_groups(void *plan) {
  const product_plan *p = plan;
  return p->made_b ? p->made_b->groups != NULL : p->type >= TILE_I8 && tile_has(p->type);
}

static status product_run_groups(const void *plan, const void *operands, char *scratch) {
  const product_plan *p = plan;
  (void)scratch;
  return p->made_b ? p->made_b->groups(operands) : product_blocks(operands);
}

/* TILE_I8 stays, which the vector kernels compute in int32. */
static void init_vector(void *plan, executor *e) {
  product_plan *p = plan;
  (void)e;
  if (p->type > TILE_I8) p->type = TILE_F32;
}

static status run_blocks(const void *plan, const void *operands, char *scratch) {
  (void)plan, (void)scratch;
  return product_blocks(operands);
}

enum { SMALL_M, GROUPS, VECTOR, REFERENCE };
static const implementation implementations[] = {
    [SMALL_M] =
        {.name = "small_m", .fits = fits_small_m, .pays = small_m_pays, .init = init_small_m, .run = run_small_m},
    [GROUPS] = {.name = "groups", .fits = fits_groups, .run = product_run_groups},
    [VECTOR] = {.name = "vector", .init = init_vector, .run = run_blocks},
    [REFERENCE] = {.name = "reference", .init = init_vector, .run = product_reference},
};

IMPLEMENTATION_FAMILY(family, "gemm", implementations)

bool product_keeps_b(const product_plan *p) {
  if (p->n_batches == 0 || p->swapped || p->made_b || p->a.cols == 0) return false;
  if (p->chosen->run != run_blocks && p->chosen->run != product_run_groups) return false;
  for (int d = 0; d < p->n_batch_dims; ++d)
    if (p->b.batch_strides[d] != 0 && p->batch_dims[d] > 1) return false;
  return true;
}

/* The rate at which one core reads the second factor of few rows: a Zen 4 takes 80 us for a step of an LSTM whose
 * state's weights are 4 MB, in the third cache. */
enum { READ_BYTES_PER_NS = 50 };

void product_choose(product_plan *p, executor *e) {
  p->swapped = false;
  if (p->beta == 0) p->has_self = false; /* values of self do not count then, not even NaN */
  fold_batch(p);
  p->n_batches = 1;
  for (int d = 0; d < p->n_batch_dims; ++d) p->n_batches *= p->batch_dims[d];
  if (p->n_batches == 0 || p->out.rows == 0 || p->out.cols == 0) {
    p->n_batches = 0;
    p->cost_ns = 0;
    return;
  }
  orient(p);
  p->type = product_type_of(p);
  p->whole_rows = false;
  /* What cannot fit is not asked: this is part of every launch. */
  const int first = p->out.rows <= FEW_ROWS ? SMALL_M : p->type >= TILE_I8 || p->made_b ? GROUPS : VECTOR;
  if (e) {
    p->chosen = implementation_plan(&family, p, e);
  } else {
    p->chosen = implementation_choose(&family, p, first);
    if (p->chosen->init) p->chosen->init(p, NULL);
  }
  double ns = (double)product_cost_ns(p->type, p->out.rows, p->out.cols, p->a.cols);
  const double reads_ns = (double)p->b.rows * (double)p->b.cols * (double)dtype_bytes(p->b.dtype) / READ_BYTES_PER_NS;
  if (p->out.rows <= FEW_ROWS && ns < reads_ns) ns = reads_ns;
  ns *= (double)p->n_batches * (double)(p->n_terms ? p->n_terms : 1);
  p->cost_ns = ns * 32 < 0x1p60 ? (uint64_t)ns : UINT64_C(1) << 55;
}
