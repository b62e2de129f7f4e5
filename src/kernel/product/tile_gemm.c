/* Packing of any source for the kernels of tile_kernel.h, and the choice among them. */
#include "kernel/product/tile_gemm.h"

#include <stdlib.h>

#include "kernel/engine/level.h"
#include "kernel/engine/loops.h"
#include "kernel/product/tile_kernel.h"

LEVEL_CHOICE(tile_kernels, tile_vector, tile_kernels)

static bool is_amx(tile_type type) { return type >= TILE_I8 && (type != TILE_I8 || tile_has(TILE_I8)); }
static amx_type amx_of(tile_type type) { return type == TILE_BF16 ? AMX_BF16 : type == TILE_F16 ? AMX_F16 : AMX_I8; }

bool tile_has(tile_type type) { return type >= TILE_I8 && amx_start(); }

/* What a type is computed in without AMX. */
static const struct {
  compute_type compute;
  int dtype;
} vector_type[N_TILE_TYPES] = {[TILE_F32] = {COMPUTE_F32, ACL_FLOAT},
                               [TILE_F64] = {COMPUTE_F64, ACL_DOUBLE},
                               [TILE_I32] = {COMPUTE_I32, ACL_INT32},
                               [TILE_I8] = {COMPUTE_I32, ACL_INT32}};

static const tile_kernel *kernel_of(tile_type type) {
  return type == TILE_F32 ? &tile_vector->f32 : type == TILE_F64 ? &tile_vector->f64 : &tile_vector->i32;
}

static size_t packed_bytes(int64_t n, int width, int step, int64_t k, size_t element) {
  return ((size_t)((n + width - 1) / width * step * k) * element + 63) / 64 * 64;
}

size_t tile_a_bytes(tile_type type, int64_t m, int64_t k) {
  if (is_amx(type)) return amx_packed_bytes(amx_of(type), m, k);
  const tile_kernel *const t = kernel_of(type);
  return packed_bytes(m, t->a_width, t->a_step, k, tile_c_bytes(type));
}

size_t tile_b_bytes(tile_type type, int64_t k, int64_t n) {
  if (is_amx(type)) return amx_packed_bytes(amx_of(type), n, k);
  const tile_kernel *const t = kernel_of(type);
  return packed_bytes(n, t->b_width, t->b_width, k, tile_c_bytes(type));
}

/* ---- packing of panels ------------------------------------------------------------------------------------------- */

enum { MOST_WIDTH = 32, STAGE_K = 128 };

typedef struct {
  const tile_kernel *kernel;
  load_loop *load; /* to the kernel's element type */
  int64_t size;    /* of that, bytes */
  int width, step;
  const char *from;
  int64_t across, along; /* bytes: from row to row of A (column to column of B), and along k */
} source;

/* Where neither direction is dense in the kernel's type: by way of a buffer, in the direction that is denser. */
static void pack_staged(const source *s, char *to, const char *from, int width, int64_t k) {
  _Alignas(64) char stage[MOST_WIDTH * STAGE_K * sizeof(double)];
  const int64_t pitch = STAGE_K * s->size;
  if (llabs(s->along) <= llabs(s->across)) {
    for (int64_t l = 0; l < k; l += STAGE_K) {
      const int64_t n = k - l < STAGE_K ? k - l : STAGE_K;
      for (int i = 0; i < width; ++i) s->load(stage + i * pitch, from + i * s->across + l * s->along, s->along, n);
      s->kernel->pack_across(to + l * s->step * s->size, s->step, stage, STAGE_K, width, n);
    }
  } else {
    for (int64_t l = 0; l < k; l += STAGE_K) {
      const int64_t n = k - l < STAGE_K ? k - l : STAGE_K;
      if (s->along == width * s->across) /* rows end where the next begin */
        s->load(stage, from + l * s->along, s->across, n * width);
      else
        for (int64_t i = 0; i < n; ++i)
          s->load(stage + i * width * s->size, from + (l + i) * s->along, s->across, width);
      s->kernel->pack_along(to + l * s->step * s->size, s->width, s->step, stage, width, width, n);
    }
  }
}

static void pack(const source *s, bool same_type, char *to, int64_t n, int64_t k) {
  if (same_type && s->across == s->size && s->along != s->size && s->along % s->size == 0) {
    s->kernel->pack_along(to, s->width, s->step, s->from, s->along / s->size, n, k);
    return;
  }
  const bool dense = same_type && s->along == s->size && s->across % s->size == 0;
  for (int64_t i = 0; i < n; i += s->width, to += s->step * k * s->size) {
    const char *const from = s->from + i * s->across;
    const int width = n - i < s->width ? (int)(n - i) : s->width;
    if (dense)
      s->kernel->pack_across(to, s->step, from, s->across / s->size, width, k);
    else
      pack_staged(s, to, from, width, k);
  }
}

static source source_of(tile_type type, int dtype, const void *from, int64_t across, int64_t along) {
  return (source){.kernel = kernel_of(type),
                  .load = loops->load[dtype][vector_type[type].compute],
                  .size = (int64_t)tile_c_bytes(type),
                  .from = from,
                  .across = across,
                  .along = along};
}

void tile_pack_a(tile_type type, void *to, int dtype, const void *from, int64_t row_stride, int64_t col_stride,
                 int64_t m, int64_t k) {
  if (is_amx(type)) {
    amx_pack(amx_of(type), to, false, from, row_stride, col_stride, m, k);
    return;
  }
  source s = source_of(type, dtype, from, row_stride, col_stride);
  s.width = s.kernel->a_width;
  s.step = s.kernel->a_step;
  pack(&s, dtype == vector_type[type].dtype, to, m, k);
}

char *tile_a_row(tile_type type, void *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  return type == TILE_BF16 && is_amx(type) ? amx_row(amx_of(type), packed, m, k, i, step) : NULL;
}

void tile_pack_b(tile_type type, void *to, int dtype, const void *from, int64_t row_stride, int64_t col_stride,
                 int64_t k, int64_t n) {
  if (is_amx(type)) {
    amx_pack(amx_of(type), to, true, from, col_stride, row_stride, n, k);
    return;
  }
  source s = source_of(type, dtype, from, col_stride, row_stride);
  s.width = s.step = s.kernel->b_width;
  pack(&s, dtype == vector_type[type].dtype, to, n, k);
}

bool tile_takes_a(tile_type type, int dtype, int64_t row_stride, int64_t col_stride) {
  const int64_t size = (int64_t)tile_c_bytes(type);
  return !is_amx(type) && dtype == vector_type[type].dtype && col_stride == size && row_stride != 0 &&
         row_stride % size == 0;
}

bool tile_takes_b(tile_type type, int dtype, int64_t row_stride, int64_t col_stride, int64_t n) {
  return tile_takes_a(type, dtype, row_stride, col_stride) && n % kernel_of(type)->lanes == 0;
}

void tile_multiply(tile_type type, int64_t m, int64_t n, int64_t k, tile_operand a, tile_operand b, void *c,
                   int64_t ldc, bool accumulate) {
  if (is_amx(type))
    amx_gemm(amx_of(type), m, n, k, a.at, b.at, c, ldc, accumulate);
  else
    kernel_of(type)->gemm(m, n, k, a, b, c, ldc, accumulate);
}
