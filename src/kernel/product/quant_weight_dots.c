/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM of 16-bit floats by weights that are quantised in short groups along K, on the instruction of AVX512_VNNI that
 * multiplies pairs of int16. Each group of a row of x becomes int16 numbers of a common power of two, so that a group's
 * sum is an exact integer, which is scaled once. A pair counts as one operation where float takes two: 512 x 1536 x
 * 4096 takes 0.6 of the time on a Zen 4. Rows with infinities or NaN are computed in float. */
#include "kernel/product/quant_weight.h"

#ifdef __AVX512VNNI__

#  include <immintrin.h>
#  include <string.h>

#  include "acl/acl_base.h"
#  include "kernel/engine/scratch.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_kernel.h"
#  include "kernel/product/tile/tile_transpose.h"

enum {
  DEPTH = 256,           /* a slice of K: its weights, 16 KB, stay in L1 */
  COLS = 32,             /* of a panel of weights: two vectors */
  ROWS = 6,              /* of a micro-tile: 12 vectors of sums in int32, and 12 in float */
  BITS = 14,             /* of the largest element of a group of x, before the sign */
  PAIRS = 16,            /* pairs along K that are transposed at once */
  MOST_ROWS = 85 * ROWS, /* a slice of x, 260 KB, stays in L2 */
};

typedef struct {
  const product_part *part;
  const quant_weight *w;
  int64_t k, row, rows, group, n_groups;
  int16_t *x;     /* slices of K, each [rows][DEPTH] */
  float *x_scale; /* [n_groups][rows] */
  int16_t *panel; /* [DEPTH / 2][COLS] pairs */
  float *scale;   /* [DEPTH / group][COLS] */
  float *sums;    /* [rows][COLS] */
  bool *odd;      /* rows with infinities or NaN */
} job;

/* ---- x ----------------------------------------------------------------------------------------------------------- */

INLINE __m512 load_x(int dtype, const char *from, int64_t stride) {
  int16_t gathered[16];
  if (stride != 2) {
    for (int i = 0; i < 16; ++i) memcpy(&gathered[i], from + i * stride, 2);
    from = (const char *)gathered;
  }
  const __m256i bits = _mm256_loadu_si256((const void *)from);
  if (dtype == ACL_FLOAT16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* Packs a group of a row. Returns its unit: the number that 1 stands for. */
static float pack_group(const job *s, const char *from, int64_t stride, int dtype, int16_t *to, bool *odd) {
  __m512 most = _mm512_setzero_ps();
  for (int64_t l = 0; l < s->group; l += 16) {
    const __m512 x = load_x(dtype, from + l * stride, stride);
    if (_mm512_fpclass_ps_mask(x, 0x99)) *odd = true;
    most = _mm512_max_ps(most, _mm512_abs_ps(x));
  }
  /* Units below the normal floats are not used: what is below 2^-126 counts as 0. */
  const float largest = _mm512_reduce_max_ps(most);
  const float exponent = largest > 0x1p-112f ? _mm512_cvtss_f32(_mm512_getexp_ps(_mm512_set1_ps(largest))) : -112;
  if (*odd) return 0;
  const __m512 shift = _mm512_set1_ps(BITS - exponent);
  for (int64_t l = 0; l < s->group; l += 16) {
    const __m512 x = _mm512_scalef_ps(load_x(dtype, from + l * stride, stride), shift);
    _mm256_storeu_si256((void *)(to + l), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
  }
  return _mm512_cvtss_f32(_mm512_scalef_ps(_mm512_set1_ps(1), _mm512_set1_ps(exponent - BITS)));
}

static void pack_x(const job *s) {
  const matrices *a = &s->part->plan->a;
  for (int64_t i = 0; i < s->rows; ++i) {
    const char *const from = s->part->a + (s->row + i) * a->row_stride;
    for (int64_t g = 0; g < s->n_groups; ++g) {
      const int64_t l = g * s->group, slice = l / DEPTH;
      s->x_scale[g * s->rows + i] = pack_group(s, from + l * a->col_stride, a->col_stride, a->dtype,
                                               s->x + (slice * s->rows + i) * DEPTH + l % DEPTH, &s->odd[i]);
    }
  }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Loads 32 weights along K as int16. */
INLINE __m512i load_weights(bool is_int4, const char *b) {
  if (!is_int4) return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)b));
  /* a byte to 16 bits: the low half's sign is at bit 3, the high half's at bit 7 */
  const __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)b));
  const __m256i low = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 12), 12);
  const __m256i high = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 12);
  return _mm512_or_si512(_mm512_and_si512(_mm512_cvtepi16_epi32(low), _mm512_set1_epi32(0xffff)),
                         _mm512_slli_epi32(_mm512_cvtepi16_epi32(high), 16));
}

/* Packs COLS columns (those from `cols` on are 0) of `depth` weights from `row` on. */
static void pack_panel(const job *s, int64_t row, int64_t depth, int64_t col, int64_t cols) {
  const weight_quant *q = &s->w->form;
  for (int64_t l = 0; l < depth; l += 2 * PAIRS)
    for (int half = 0; half < COLS; half += 16) {
      __m512i r[16];
      UNROLL for (int j = 0; j < 16; ++j) {
        const int64_t at = (col + half + j) * q->col_stride + row + l;
        r[j] = half + j < cols ? load_weights(q->is_int4, s->part->b + (q->is_int4 ? at / 2 : at))
                               : _mm512_setzero_si512();
      }
      tile_transpose_16x16(r);
      UNROLL for (int i = 0; i < PAIRS; ++i) _mm512_storeu_si512(s->panel + 2 * ((l / 2 + i) * COLS + half), r[i]);
    }
  memset(s->scale, 0, (size_t)(depth / s->group) * COLS * sizeof *s->scale);
  for (int64_t g = 0; g < depth / s->group; ++g)
    loops->load[q->scale.dtype][COMPUTE_F32](
        s->scale + g * COLS, s->w->scale + (row / s->group + g) * q->scale.group_stride + col * q->scale.col_stride,
        q->scale.col_stride, cols);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Adds `rows` rows of a slice of x times the panel to the sums, or starts the sums. */
INLINE void quant_rows(const job *s, int rows, int64_t depth, const int16_t *x, const float *x_scale, float *to,
                       bool first) {
  __m512 sum[ROWS][2];
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int v = 0; v < 2; ++v) sum[i][v] =
      first ? _mm512_setzero_ps() : _mm512_loadu_ps(to + i * COLS + 16 * v);
  const int16_t *b = s->panel;
  const float *scale = s->scale;
  for (int64_t l = 0; l < depth; l += s->group, scale += COLS, x_scale += s->rows) {
    __m512i dots[ROWS][2];
    UNROLL for (int i = 0; i < rows; ++i) dots[i][0] = dots[i][1] = _mm512_setzero_si512();
    for (int64_t p = 0; p < s->group; p += 2, b += 2 * COLS) {
      const __m512i left = _mm512_loadu_si512(b), right = _mm512_loadu_si512(b + COLS);
      UNROLL for (int i = 0; i < rows; ++i) {
        int pair;
        memcpy(&pair, x + i * DEPTH + l + p, sizeof pair);
        dots[i][0] = _mm512_dpwssd_epi32(dots[i][0], _mm512_set1_epi32(pair), left);
        dots[i][1] = _mm512_dpwssd_epi32(dots[i][1], _mm512_set1_epi32(pair), right);
      }
    }
    const __m512 scales[2] = {_mm512_loadu_ps(scale), _mm512_loadu_ps(scale + 16)};
    UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int v = 0; v < 2; ++v) sum[i][v] = _mm512_fmadd_ps(
        _mm512_cvtepi32_ps(dots[i][v]), _mm512_mul_ps(scales[v], _mm512_set1_ps(x_scale[i])), sum[i][v]);
  }
  UNROLL for (int i = 0; i < rows; ++i) UNROLL for (int v = 0; v < 2; ++v)
      _mm512_storeu_ps(to + i * COLS + 16 * v, sum[i][v]);
}

static void multiply_slice(const job *s, int64_t row, int64_t depth) {
  const bool first = row == 0;
  for (int64_t i = 0; i < s->rows; i += ROWS) {
    const int16_t *const x = s->x + (row / DEPTH * s->rows + i) * DEPTH;
    const float *const x_scale = s->x_scale + row / s->group * s->rows + i;
    float *const to = s->sums + i * COLS;
    switch (s->rows - i) {
    case 1: quant_rows(s, 1, depth, x, x_scale, to, first); break;
    case 2: quant_rows(s, 2, depth, x, x_scale, to, first); break;
    case 3: quant_rows(s, 3, depth, x, x_scale, to, first); break;
    case 4: quant_rows(s, 4, depth, x, x_scale, to, first); break;
    case 5: quant_rows(s, 5, depth, x, x_scale, to, first); break;
    default: quant_rows(s, ROWS, depth, x, x_scale, to, first);
    }
  }
}

static size_t to_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

static status job_begin(job *s, const product_part *part, int64_t row, int64_t rows) {
  const quant_weight *w = part->call->context;
  *s = (job){.part = part, .w = w, .k = part->plan->a.cols, .row = row, .rows = rows, .group = w->form.group};
  s->n_groups = s->k / s->group;
  const int64_t slices = (s->k + DEPTH - 1) / DEPTH;
  const size_t bytes[] = {to_lines((size_t)(slices * DEPTH * s->rows) * sizeof *s->x),
                          to_lines((size_t)(s->n_groups * s->rows) * sizeof *s->x_scale),
                          DEPTH * COLS * sizeof *s->panel,
                          to_lines((size_t)(DEPTH / s->group * COLS) * sizeof *s->scale),
                          (size_t)(s->rows * COLS) * sizeof *s->sums,
                          to_lines((size_t)s->rows * sizeof *s->odd)};
  size_t total = 0;
  for (int i = 0; i < 6; ++i) total += bytes[i];
  char *at = scratch_take(total);
  if (!at) return ST_NO_MEMORY;
  s->x = (int16_t *)(void *)at;
  s->x_scale = (float *)(void *)(at += bytes[0]);
  s->panel = (int16_t *)(void *)(at += bytes[1]);
  s->scale = (float *)(void *)(at += bytes[2]);
  s->sums = (float *)(void *)(at += bytes[3]);
  s->odd = (bool *)(at + bytes[4]);
  memset(s->odd, 0, (size_t)s->rows * sizeof *s->odd);
  return ST_OK;
}

/* Finishes the sums of COLS columns or fewer, but for odd rows, which are computed in float. */
static status finish_panel(const job *s, int64_t col, int64_t cols) {
  for (int64_t i = 0, n; i < s->rows; i += n) {
    product_part one = *s->part;
    for (n = 0; i + n < s->rows && !s->odd[i + n];) ++n;
    if (n > 0) {
      product_finish(s->part, s->row + i, n, col, cols, (char *)(s->sums + i * COLS), COLS);
      continue;
    }
    n = 1, one.row = s->row + i, one.rows = 1, one.col = col, one.cols = cols;
    TRY(product_reference(one.plan, &one, NULL));
  }
  return ST_OK;
}

static status quant_block(const product_part *part, int64_t row, int64_t rows) {
  job s;
  TRY(job_begin(&s, part, row, rows));
  pack_x(&s);
  const int64_t end = part->col + part->cols;
  for (int64_t col = part->col; col < end; col += COLS) {
    const int64_t cols = i64_min(COLS, end - col);
    for (int64_t l = 0; l < s.k; l += DEPTH) {
      const int64_t depth = i64_min(DEPTH, s.k - l);
      pack_panel(&s, l, depth, col, cols);
      multiply_slice(&s, l, depth);
    }
    TRY(finish_panel(&s, col, cols));
  }
  return ST_OK;
}

status quant_weight_dots(const product_part *part) {
  const int64_t end = part->row + part->rows;
  for (int64_t row = part->row; row < end; row += MOST_ROWS) TRY(quant_block(part, row, i64_min(MOST_ROWS, end - row)));
  return ST_OK;
}

bool quant_weight_dots_take(const product_plan *p, const weight_quant *q) {
  const bool halves = (p->a.dtype == ACL_FLOAT16 || p->a.dtype == ACL_BF16) && p->out.dtype != ACL_FLOAT;
  return halves && !p->finish && p->n_terms <= 1 && q->group % (2 * PAIRS) == 0 && DEPTH % q->group == 0 &&
         p->a.cols % q->group == 0 && !q->has_offset && q->row_stride == 1 &&
         (!q->is_int4 || (!q->first_half && q->col_stride % 2 == 0)) && dots_have(GROUPS_I8);
}

#else

bool quant_weight_dots_take(const product_plan *p, const weight_quant *q) {
  (void)p, (void)q;
  return false;
}
status quant_weight_dots(const product_part *part) {
  (void)part;
  return ST_OK;
}

#endif
