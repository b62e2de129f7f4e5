/* SPDX-License-Identifier: Apache-2.0 */
/* The block kernels of tile_groups.c for AMX. The file is compiled with AMX enabled; they are only called after
 * amx_start() has returned true. */
#include "kernel/product/tile/tile_kernel.h"

#ifdef __AMX_BF16__

#  include <stdatomic.h>
#  include <sys/syscall.h>
#  include <unistd.h>

#  include <cpuid.h>
#  include <immintrin.h>

#  include "kernel/engine/level.h"
#  include "kernel/engine/unroll.h"

/* ---- permission from the operating system ------------------------------------------------------------------------ */

static bool ask_for_amx(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  enum { EDX_AMX = 1 << 22 | 1 << 24 | 1 << 25 }; /* CPUID leaf 7: bf16, tile, int8 */
  enum { EAX_1_BF16 = 1 << 5 };                   /* CPUID leaf 7, subleaf 1: AVX512_BF16 */
  unsigned eax, ebx, ecx, edx, eax_1, edx_1;
  if (!isa_may_use(LEVEL_AMX) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
      !__get_cpuid_count(7, 1, &eax_1, &ebx, &ecx, &edx_1))
    return false;
  return (edx & EDX_AMX) == EDX_AMX && (eax_1 & EAX_1_BF16) &&
         syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool amx_start(void) {
  static _Atomic signed char known; /* 1: yes, -1: no, 0: not asked yet; several threads may ask at once */
  signed char is = atomic_load_explicit(&known, memory_order_relaxed);
  if (__builtin_expect(is == 0, 0)) {
    is = ask_for_amx() ? 1 : -1;
    atomic_store_explicit(&known, is, memory_order_relaxed);
  }
  return is > 0;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Tile registers 0 to 3 are sums, for row tiles 0, 1 by column tiles 0, 1 in the order 00 01 10 11. Registers 4 and 5
 * hold A, 6 and 7 hold B. */
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes_per_row[16];
  uint8_t rows[16];
} tile_config;

static const tile_config config = {
    .palette = 1, .bytes_per_row = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* One multiply instruction for all tiles of A and B that are present: one or two of each. */
#  define MULTIPLY(op, two_rows, two_cols)                                                                             \
    do {                                                                                                               \
      op(0, 4, 6);                                                                                                     \
      if (two_cols) op(1, 4, 7);                                                                                       \
      if (two_rows) op(2, 5, 6);                                                                                       \
      if (two_rows && two_cols) op(3, 5, 7);                                                                           \
    } while (0)
#  define LOAD_A(part)                                                                                                 \
    do {                                                                                                               \
      _tile_stream_loadd(4, a + (part)*TILE_BYTES, 64);                                                                \
      if (two_rows) _tile_stream_loadd(5, a + (parts + (part)) * TILE_BYTES, 64);                                      \
    } while (0)
#  define LOAD_B(part)                                                                                                 \
    do {                                                                                                               \
      _tile_loadd(6, b + (part)*TILE_BYTES, 64);                                                                       \
      if (two_cols) _tile_loadd(7, b + (parts + (part)) * TILE_BYTES, 64);                                             \
    } while (0)

/* Adds the products over all steps along k to the sums. 1/AHEAD of the bytes that are read of B are prefetched from
 * `ahead`. */
INLINE void accumulate_steps(group_type type, bool two_rows, bool two_cols, int64_t steps, const char *a, const char *b,
                             const char *ahead) {
  const int parts = type == GROUPS_F32 ? 3 : type == GROUPS_F16 ? 2 : 1;
  const int a_bytes = (two_rows ? 2 : 1) * parts * TILE_BYTES, b_bytes = (two_cols ? 2 : 1) * parts * TILE_BYTES;
  for (int64_t s = 0; s < steps; ++s, a += a_bytes, b += b_bytes) {
    UNROLL for (int i = 0; i < b_bytes / AHEAD; i += 64, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T2);
    LOAD_A(0);
    LOAD_B(0);
    if (type == GROUPS_I8)
      MULTIPLY(_tile_dpbssd, two_rows, two_cols);
    else
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
    if (type == GROUPS_F16) {
      LOAD_A(1); /* low by high, then high by low */
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_A(0);
      LOAD_B(1);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
    }
    if (type == GROUPS_F32) { /* all products except low by middle and low by low */
      LOAD_B(1);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_B(2);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_A(1);
      LOAD_B(0);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_B(1);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_A(2);
      LOAD_B(0);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
    }
  }
}

/* c: whole tiles, as many as two_rows and two_cols say. */
INLINE void amx_block_body(group_type type, bool two_rows, bool two_cols, int64_t steps, const char *a, const char *b,
                           const char *ahead, char *c, int64_t pitch, bool accumulate) {
  char *const c2 = c + 16 * pitch;
  if (accumulate) {
    _tile_loadd(0, c, pitch);
    if (two_cols) _tile_loadd(1, c + 64, pitch);
    if (two_rows) _tile_loadd(2, c2, pitch);
    if (two_rows && two_cols) _tile_loadd(3, c2 + 64, pitch);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  accumulate_steps(type, two_rows, two_cols, steps, a, b, ahead);
  _tile_stored(0, c, pitch);
  if (two_cols) _tile_stored(1, c + 64, pitch);
  if (two_rows) _tile_stored(2, c2, pitch);
  if (two_rows && two_cols) _tile_stored(3, c2 + 64, pitch);
}

#  define BLOCK(type, rows, cols)                                                                                      \
    static void block_##type##_##rows##cols(int n_rows, int64_t steps, const char *a, const char *b,                   \
                                            const char *ahead, const int32_t *start, char *c, int64_t pitch,           \
                                            bool accumulate) {                                                         \
      (void)n_rows, (void)start;                                                                                       \
      amx_block_body(type, rows, cols, steps, a, b, ahead, c, pitch, accumulate);                                      \
    }
#  define BLOCKS(type) BLOCK(type, 0, 0) BLOCK(type, 0, 1) BLOCK(type, 1, 0) BLOCK(type, 1, 1)
#  define LISTED(type) [type] = {{block_##type##_00, block_##type##_01}, {block_##type##_10, block_##type##_11}}
BLOCKS(GROUPS_BF16)
BLOCKS(GROUPS_F16)
BLOCKS(GROUPS_I8)
BLOCKS(GROUPS_F32)
/* each time, since other code in the process may use another configuration */
static void amx_begin(void) { _tile_loadconfig(&config); }
static void amx_end(void) { _tile_release(); } /* so that a thread switch need not save the tiles */

const group_kernel amx_kernel = {
    .block = {LISTED(GROUPS_BF16), LISTED(GROUPS_F16), LISTED(GROUPS_I8), LISTED(GROUPS_F32)},
    .begin = amx_begin,
    .end = amx_end};

#else /* the compiler (clang 14 names it otherwise) or the processor family has no AMX */

bool amx_start(void) { return false; }
const group_kernel amx_kernel = {0};

#endif
