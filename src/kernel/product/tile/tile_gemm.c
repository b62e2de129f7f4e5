/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of any dtype and strides for the kernels of tile_kernel.h, and the choice of the kernel. */
#include "kernel/product/tile/tile_gemm.h"

#include <stdlib.h>

#include "kernel/engine/level_choice.h"
#include "kernel/engine/loops.h"
#include "kernel/engine/rows.h"
#include "kernel/product/tile/tile_kernel.h"

LEVEL_CHOICE(tile_kernels, tile_vector, tile_kernels)

static bool tile_in_groups(tile_type type) { return type >= TILE_I8 && (type != TILE_I8 || tile_has(TILE_I8)); }
static group_type groups_of(tile_type type) {
  static const group_type of[] = {
      [TILE_I8] = GROUPS_I8, [TILE_BF16] = GROUPS_BF16, [TILE_F16] = GROUPS_F16, [TILE_F32_PARTS] = GROUPS_F32};
  return of[type];
}

bool tile_has(tile_type type) { return type >= TILE_I8 && groups_have(groups_of(type)); }
bool tile_has_amx(void) { return groups_on_amx(); }

/* Types that vector kernels compute, and in which element type. */
static const struct {
  compute_type compute;
  int dtype;
} vector_type[N_TILE_TYPES] = {[TILE_F32] = {COMPUTE_F32, ACL_FLOAT},
                               [TILE_F64] = {COMPUTE_F64, ACL_DOUBLE},
                               [TILE_I32] = {COMPUTE_I32, ACL_INT32},
                               [TILE_I8] = {COMPUTE_I32, ACL_INT32}};

static const tile_kernel *tile_kernel_of(tile_type type) {
  return type == TILE_F32 ? &tile_vector->f32 : type == TILE_F64 ? &tile_vector->f64 : &tile_vector->i32;
}

/* Bytes from row to row of a packed A: an odd number of cache lines, so that rows spread over the sets of L1. */
static int64_t a_pitch(tile_type type, int64_t k) { return ((k * (int64_t)tile_c_bytes(type) + 63) / 64 | 1) * 64; }

size_t tile_a_bytes(tile_type type, int64_t m, int64_t k) {
  return tile_in_groups(type) ? groups_packed_bytes(groups_of(type), m, k) : (size_t)(m * a_pitch(type, k));
}

size_t tile_b_bytes(tile_type type, int64_t k, int64_t n) {
  if (tile_in_groups(type)) return groups_packed_bytes(groups_of(type), n, k);
  const int cols = tile_kernel_of(type)->cols;
  return ((size_t)((n + cols - 1) / cols * cols * k) * tile_c_bytes(type) + 63) / 64 * 64;
}

/* ---- packing for the vector kernels ------------------------------------------------------------------------------ */

enum { STAGE = 64, STAGE_BYTES = STAGE * STAGE * sizeof(double) };

typedef struct {
  const tile_kernel *kernel;
  load_loop *load; /* converts to the kernel's element type */
  int64_t size;    /* bytes of the kernel's element type */
  bool same_type;
  const char *from;
  int64_t across, along; /* bytes: from row to row of A (column to column of B), and along k */
} source;

static bool dense(const source *s, int64_t stride) { return s->same_type && stride == s->size; }

/* Row i goes to to + i * pitch bytes. */
static void pack_a(const source *s, char *to, int64_t pitch, int64_t m, int64_t k) {
  if (llabs(s->along) <= llabs(s->across)) {
    for (int64_t i = 0; i < m; ++i) s->load(to + i * pitch, s->from + i * s->across, s->along, k);
  } else if (dense(s, s->across) && s->along % s->size == 0) {
    s->kernel->pack_across(to, pitch / s->size, k, s->from, s->along / s->size, k, m);
  } else {
    _Alignas(64) char stage[STAGE_BYTES];
    for (int64_t i = 0; i < m; i += STAGE)
      for (int64_t l = 0; l < k; l += STAGE) {
        const int64_t rows = i64_min(STAGE, m - i), depth = i64_min(STAGE, k - l);
        for (int64_t d = 0; d < depth; ++d)
          s->load(stage + d * STAGE * s->size, s->from + i * s->across + (l + d) * s->along, s->across, rows);
        s->kernel->pack_across(to + i * pitch + l * s->size, pitch / s->size, depth, stage, STAGE, depth, rows);
      }
  }
}

static void pack_b(const source *s, char *to, int64_t n, int64_t k) {
  if (dense(s, s->across) && s->along % s->size == 0) {
    s->kernel->pack_along(to, s->from, s->along / s->size, n, k);
    return;
  }
  const int panel = s->kernel->cols;
  const bool columns = dense(s, s->along) && s->across % s->size == 0;
  for (int64_t j = 0; j < n; j += panel, to += panel * k * s->size) {
    const char *const from = s->from + j * s->across;
    const int64_t cols = i64_min(panel, n - j);
    if (columns) {
      s->kernel->pack_across(to, panel, panel, from, s->across / s->size, cols, k);
      continue;
    }
    _Alignas(64) char stage[STAGE_BYTES];
    for (int64_t l = 0; l < k; l += STAGE) {
      const int64_t depth = i64_min(STAGE, k - l);
      if (llabs(s->along) <= llabs(s->across)) {
        for (int64_t i = 0; i < cols; ++i)
          s->load(stage + i * STAGE * s->size, from + i * s->across + l * s->along, s->along, depth);
        s->kernel->pack_across(to + l * panel * s->size, panel, panel, stage, STAGE, cols, depth);
        continue;
      }
      if (s->along == cols * s->across) /* rows are adjacent */
        s->load(stage, from + l * s->along, s->across, depth * cols);
      else
        for (int64_t d = 0; d < depth; ++d)
          s->load(stage + d * cols * s->size, from + (l + d) * s->along, s->across, cols);
      s->kernel->pack_along(to + l * panel * s->size, stage, cols, cols, depth);
    }
  }
}

static source tile_source_of(tile_type type, int dtype, const void *from, int64_t across, int64_t along) {
  return (source){.kernel = tile_kernel_of(type),
                  .load = loops->load[dtype][vector_type[type].compute],
                  .size = (int64_t)tile_c_bytes(type),
                  .same_type = dtype == vector_type[type].dtype,
                  .from = from,
                  .across = across,
                  .along = along};
}

float_exponents tile_pack_a(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t m, int64_t k) {
  if (tile_in_groups(type)) return groups_pack(groups_of(type), to, false, from, row_stride, col_stride, m, k);
  const source s = tile_source_of(type, dtype, from, row_stride, col_stride);
  pack_a(&s, to, a_pitch(type, k), m, k);
  return float_no_exponents;
}

char *tile_a_row(tile_type type, void *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  return type == TILE_BF16 && tile_in_groups(type) ? groups_row(groups_of(type), packed, m, k, i, step) : NULL;
}

float_exponents tile_pack_b(tile_type type, void *to, int dtype, const void *from, int64_t row_stride,
                            int64_t col_stride, int64_t k, int64_t n) {
  if (tile_in_groups(type)) return groups_pack(groups_of(type), to, true, from, col_stride, row_stride, n, k);
  const source s = tile_source_of(type, dtype, from, col_stride, row_stride);
  pack_b(&s, to, n, k);
  return float_no_exponents;
}

bool tile_takes_a(tile_type type, int dtype, int64_t row_stride, int64_t col_stride) {
  const int64_t size = (int64_t)tile_c_bytes(type);
  return !tile_in_groups(type) && dtype == vector_type[type].dtype && col_stride == size && row_stride != 0 &&
         row_stride % size == 0;
}

bool tile_takes_b(tile_type type, int dtype, int64_t row_stride, int64_t col_stride, int64_t n) {
  return tile_takes_a(type, dtype, row_stride, col_stride) && n % (tile_kernel_of(type)->cols / 2) == 0;
}

void tile_multiply(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c,
                   int64_t ldc, bool accumulate) {
  if (tile_in_groups(type)) {
    groups_gemm(groups_of(type), m, n, k, a.at, b.at, c, ldc, accumulate, NULL);
  } else {
    if (a.pitch == 0) a.pitch = a_pitch(type, k);
    tile_kernel_of(type)->gemm(m, n, k, a, b, c, ldc, accumulate);
  }
}

bool tile_can_round(tile_type type, int dtype) {
  return (type == TILE_BF16 || type == TILE_F16) && (dtype == ACL_BF16 || dtype == ACL_FLOAT16);
}

void tile_multiply_rounded(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b,
                           const void *c, int64_t ldc, bool accumulate, tile_rounded to) {
  groups_gemm(groups_of(type), m, n, k, a.at, b.at, (void *)c, ldc, accumulate, &to);
}
