/* Products on AMX: bfloat16 and int8 as they are, float16 as a sum of two bfloat16. Compiled for AVX-512 and AMX; only
 * called after amx_start() has found both. */
#include "kernel/product/tile_kernel.h"

#ifdef __AMX_BF16__

#  include <stdatomic.h>
#  include <string.h>
#  include <sys/syscall.h>
#  include <unistd.h>

#  include "acl/acl_base.h"
#  include "kernel/engine/halves.h"
#  include "kernel/engine/level.h"
#  include "kernel/product/tile_transpose.h"

#  include <cpuid.h>

#  if defined(__clang__)
#    define UNROLL _Pragma("clang loop unroll(full)")
#  else
#    define UNROLL _Pragma("GCC unroll 16")
#  endif
#  define INLINE static inline __attribute__((always_inline))

enum {
  TILE_BYTES = 1024,
  TILE_ROWS = 16,
  SPAN = 32, /* rows of A, columns of B, taken together */
  AHEAD = 8,
  FAR_BYTES = 512 << 10, /* of B: beyond, it costs 10 % less to ask for it in time, below 2 % more */
};

/* ---- leave of the system ----------------------------------------------------------------------------------------- */

static bool ask_for_amx(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  enum { EDX_AMX = 1 << 22 | 1 << 24 | 1 << 25 }; /* of leaf 7: bf16, tile, int8 */
  enum { EAX_1_BF16 = 1 << 5 };                   /* of its second part: AVX-512's conversion to bfloat16 */
  unsigned eax, ebx, ecx, edx, eax_1, edx_1;
  if (isa_level_chosen() < LEVEL_V4 || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
      !__get_cpuid_count(7, 1, &eax_1, &ebx, &ecx, &edx_1))
    return false;
  return (edx & EDX_AMX) == EDX_AMX && (eax_1 & EAX_1_BF16) &&
         syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool amx_start(void) {
  static _Atomic signed char known; /* 1: yes, -1: no; several threads may find out at once */
  signed char is = atomic_load_explicit(&known, memory_order_relaxed);
  if (__builtin_expect(is == 0, 0)) {
    is = ask_for_amx() ? 1 : -1;
    atomic_store_explicit(&known, is, memory_order_relaxed);
  }
  return is > 0;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Bytes of an element of the source, and tiles per 16 rows (columns): the halves of a float16 are kept apart. */
static const struct { int size, parts; } of_type[] = {[AMX_BF16] = {2, 1}, [AMX_F16] = {2, 2}, [AMX_I8] = {1, 1}};

static int64_t steps_of(amx_type type, int64_t k) {
  const int64_t per_tile = 64 / of_type[type].size;
  return (k + per_tile - 1) / per_tile;
}

size_t amx_packed_bytes(amx_type type, int64_t width, int64_t k) {
  return (size_t)((width + TILE_ROWS - 1) / TILE_ROWS * steps_of(type, k) * of_type[type].parts) * TILE_BYTES;
}

INLINE __mmask64 first_bytes(int64_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* 16 rows of 64 bytes along k. */
INLINE void load_along(__m512i r[16], const char *from, int64_t across, int width, int bytes) {
  const __mmask64 mask = first_bytes(bytes);
  UNROLL for (int i = 0; i < 16; ++i) r[i] =
      i < width ? _mm512_maskz_loadu_epi8(mask, from + i * across) : _mm512_setzero_si512();
}

/* 16 groups along k of 16 adjacent elements: the rows of a group interleaved. */
INLINE void load_across_16(__m512i r[16], const char *from, int64_t along, int width, int k) {
  const __mmask32 mask = (__mmask32)first_bytes(2 * width);
  UNROLL for (int g = 0; g < 16; ++g) {
    __m256i row[2];
    for (int i = 0; i < 2; ++i)
      row[i] = 2 * g + i < k ? _mm256_maskz_loadu_epi8(mask, from + (2 * g + i) * along) : _mm256_setzero_si256();
    r[g] = _mm512_or_si512(_mm512_cvtepu16_epi32(row[0]), _mm512_slli_epi32(_mm512_cvtepu16_epi32(row[1]), 16));
  }
}

INLINE void load_across_8(__m512i r[16], const char *from, int64_t along, int width, int k) {
  const __mmask16 mask = (__mmask16)first_bytes(width);
  UNROLL for (int g = 0; g < 16; ++g) {
    r[g] = _mm512_setzero_si512();
    for (int i = 0; i < 4; ++i)
      if (4 * g + i < k) {
        const __m512i row = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from + (4 * g + i) * along));
        r[g] = _mm512_or_si512(r[g], _mm512_sll_epi32(row, _mm_cvtsi32_si128(8 * i)));
      }
  }
}

/* Neither direction is dense. */
static void gather(char stage[TILE_BYTES], const char *from, int64_t across, int64_t along, int size, int width,
                   int k) {
  for (int i = 0; i < width; ++i)
    for (int l = 0; l < k; ++l) memcpy(stage + i * 64 + l * size, from + i * across + l * along, (size_t)size);
}

/* float16 = high + low, both bfloat16, exactly: 8 bits of the significand in the one, the other 3 in the other. An
 * infinity is split into 1 and infinity: times what an infinity is multiplied by, that sums to the right one. */
INLINE __m512i split(__m256i half, __m512i *low) {
  const __m512 x = _mm512_cvtph_ps(half);
  const __m512i bits = _mm512_castps_si512(x), top = _mm512_set1_epi32((int)0xffff0000);
  const __m512i rounded = _mm512_and_si512(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), top);
  const __m512i rest = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(rounded)));
  const __mmask16 odd = _mm512_fpclass_ps_mask(x, 0x99); /* infinities, NaN */
  const __m512i one =
      _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32((int)0x80000000)), _mm512_set1_epi32(0x3f800000));
  *low = _mm512_srli_epi32(_mm512_mask_blend_epi32(odd, rest, bits), 16);
  return _mm512_srli_epi32(_mm512_mask_blend_epi32(odd, rounded, one), 16);
}

INLINE __m512i split_pairs(__m512i halves, __m512i *low) {
  __m512i low_parts[2], high_parts[2];
  high_parts[0] = split(_mm512_castsi512_si256(halves), &low_parts[0]);
  high_parts[1] = split(_mm512_extracti64x4_epi64(halves, 1), &low_parts[1]);
  *low = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low_parts[0])),
                            _mm512_cvtepi32_epi16(low_parts[1]), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(high_parts[0])),
                            _mm512_cvtepi32_epi16(high_parts[1]), 1);
}

INLINE void store_tile(char *to, __m512i r[16], bool transposed) {
  if (transposed) transpose_16x16(r);
  UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * 64, r[i]);
}

/* How the source lies: dense along k, dense across it, or neither. */
typedef enum { ALONG, ACROSS, SCATTERED, N_LAYOUTS } layout;

typedef struct {
  const char *from;
  int64_t across, along, width, k;
} amx_source;

INLINE void pack_tile(amx_type type, layout lies, bool is_b, char *to, const char *from, const amx_source *s, int width,
                      int k) {
  const int size = type == AMX_I8 ? 1 : 2;
  __m512i r[16], low[16];
  if (lies == ALONG) {
    load_along(r, from, s->across, width, k * size);
  } else if (lies == ACROSS) {
    if (size == 2)
      load_across_16(r, from, s->along, width, k);
    else
      load_across_8(r, from, s->along, width, k);
  } else {
    _Alignas(64) char stage[TILE_BYTES];
    gather(stage, from, s->across, s->along, size, width, k);
    load_along(r, stage, 64, width, k * size);
  }
  const bool transposed = is_b != (lies == ACROSS);
  if (type == AMX_F16) {
    UNROLL for (int i = 0; i < 16; ++i) r[i] = split_pairs(r[i], &low[i]);
    store_tile(to + TILE_BYTES, low, transposed);
  }
  store_tile(to, r, transposed);
}

/* By spans of two tiles: those of one step along k lie side by side. Where rows of the source run across, several spans are
 * packed together, so that the rows, which may be pages apart, are read in longer pieces. */
INLINE void pack_tiles(amx_type type, layout lies, bool is_b, char *packed, const amx_source *s) {
  const int size = type == AMX_I8 ? 1 : 2, per_tile = 64 / size, tile_bytes = (type == AMX_F16 ? 2 : 1) * TILE_BYTES;
  const int64_t strip = steps_of(type, s->k) * tile_bytes, group = lies == ALONG ? SPAN : 8 * SPAN;
  for (int64_t begin = 0; begin < s->width; begin += group)
    for (int64_t l = 0; l < s->k; l += per_tile)
      for (int64_t i = begin; i < s->width && i < begin + group; i += TILE_ROWS) {
        const int64_t span = i / SPAN * SPAN, tiles = s->width - span > TILE_ROWS ? 2 : 1, second = i != span;
        char *const to = packed + span / TILE_ROWS * strip + (l / per_tile * tiles + second) * tile_bytes;
        const int width = s->width - i < TILE_ROWS ? (int)(s->width - i) : TILE_ROWS;
        const int k = s->k - l < per_tile ? (int)(s->k - l) : per_tile;
        pack_tile(type, lies, is_b, to, s->from + i * s->across + l * s->along, s, width, k);
      }
}

typedef void pack_function(char *packed, const amx_source *s);
#  define PACK(type, lies, is_b)                                                                                       \
    static void pack_##type##_##lies##_##is_b(char *packed, const amx_source *s) {                                     \
      pack_tiles(type, lies, is_b, packed, s);                                                                         \
    }
#  define PACKS_OF(type, lies) PACK(type, lies, 0) PACK(type, lies, 1)
#  define PACKS(type)          PACKS_OF(type, ALONG) PACKS_OF(type, ACROSS) PACKS_OF(type, SCATTERED)
PACKS(AMX_BF16)
PACKS(AMX_F16)
PACKS(AMX_I8)
#  define LAYOUT_OF(type, lies) [lies] = {pack_##type##_##lies##_0, pack_##type##_##lies##_1}
#  define LAYOUTS(type)         [type] = {LAYOUT_OF(type, ALONG), LAYOUT_OF(type, ACROSS), LAYOUT_OF(type, SCATTERED)}
static pack_function *const packs[][N_LAYOUTS][2] = {LAYOUTS(AMX_BF16), LAYOUTS(AMX_F16), LAYOUTS(AMX_I8)};

void amx_pack(amx_type type, void *packed, bool is_b, const char *from, int64_t across, int64_t along, int64_t width,
              int64_t k) {
  const int size = of_type[type].size;
  const layout lies = along == size ? ALONG : across == size ? ACROSS : SCATTERED;
  const amx_source s = {.from = from, .across = across, .along = along, .width = width, .k = k};
  packs[type][lies][is_b](packed, &s);
}

char *amx_row(amx_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  const int64_t span = i / SPAN * SPAN, in_span = i - span;
  *step = m - span > TILE_ROWS ? 2 * TILE_BYTES : TILE_BYTES;
  return packed + span / TILE_ROWS * steps_of(type, k) * TILE_BYTES + in_span / TILE_ROWS * TILE_BYTES +
         in_span % TILE_ROWS * 64;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Tiles 0 to 3 are sums: rows 0, 1 by columns 0, 1 in the order 00 01 10 11. 4 and 5 are A's, 6 and 7 B's. */
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes_per_row[16];
  uint8_t rows[16];
} tile_config;

static const tile_config config = {
    .palette = 1, .bytes_per_row = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

/* One kind of multiplication for all tiles of A and B that there are: two or one of each. */
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

/* All of k: adds to the sums. Of what is ahead, an eighth of what is read of B is asked for. */
INLINE void accumulate_steps(amx_type type, bool two_rows, bool two_cols, int64_t steps, const char *a, const char *b,
                             const char *ahead) {
  const int parts = type == AMX_F16 ? 2 : 1;
  const int a_bytes = (two_rows ? 2 : 1) * parts * TILE_BYTES, b_bytes = (two_cols ? 2 : 1) * parts * TILE_BYTES;
  for (int64_t s = 0; s < steps; ++s, a += a_bytes, b += b_bytes) {
    UNROLL for (int i = 0; i < b_bytes / AHEAD; i += 64, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T2);
    LOAD_A(0);
    LOAD_B(0);
    if (type == AMX_I8)
      MULTIPLY(_tile_dpbssd, two_rows, two_cols);
    else
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
    if (type == AMX_F16) {
      LOAD_A(1); /* low by high, then high by low */
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
      LOAD_A(0);
      LOAD_B(1);
      MULTIPLY(_tile_dpbf16ps, two_rows, two_cols);
    }
  }
}

/* c: two_rows and two_cols of whole tiles. */
INLINE void block_body(amx_type type, bool two_rows, bool two_cols, int64_t steps, const char *a, const char *b,
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

typedef void block_function(int64_t steps, const char *a, const char *b, const char *ahead, char *c, int64_t pitch,
                            bool accumulate);
#  define BLOCK(type, rows, cols)                                                                                      \
    static void block_##type##_##rows##cols(int64_t steps, const char *a, const char *b, const char *ahead, char *c,   \
                                            int64_t pitch, bool accumulate) {                                          \
      block_body(type, rows, cols, steps, a, b, ahead, c, pitch, accumulate);                                          \
    }
#  define BLOCKS(type) BLOCK(type, 0, 0) BLOCK(type, 0, 1) BLOCK(type, 1, 0) BLOCK(type, 1, 1)
#  define LISTED(type) [type] = {{block_##type##_00, block_##type##_01}, {block_##type##_10, block_##type##_11}}
BLOCKS(AMX_BF16)
BLOCKS(AMX_F16)
BLOCKS(AMX_I8)
static block_function *const blocks[][2][2] = {LISTED(AMX_BF16), LISTED(AMX_F16),
                                               LISTED(AMX_I8)}; /* [2 rows][2 cols] */

/* What a block is added to and where it goes. */
typedef struct {
  char *c;
  int64_t pitch;
  bool accumulate;
  int dtype; /* of out, which gets the sums rounded; c is then only read */
  char *out; /* NULL: c gets them */
  int64_t out_pitch;
  bool large; /* out, which goes past the caches */
} destination;

/* 32 sums, of which those in the masks count. bfloat16 by the processor's own rounding: NaN stays one, and denormals, which
 * AMX doesn't make, would become 0. */
INLINE void store_sums(const destination *d, int64_t row, int64_t col, const __mmask16 mask[2], __m512i x, __m512i y) {
  uint16_t *const out = (uint16_t *)(void *)(d->out + row * d->out_pitch) + col;
  if (!d->out) {
    _mm512_mask_storeu_epi32(d->c + row * d->pitch + 4 * col, mask[0], x);
    _mm512_mask_storeu_epi32(d->c + row * d->pitch + 4 * col + 64, mask[1], y);
  } else if (d->dtype == ACL_BF16) {
    const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_castsi512_ps(y), _mm512_castsi512_ps(x));
    if (d->large && (uintptr_t)out % 64 == 0 && (mask[0] & mask[1]) == 0xffff)
      _mm512_stream_si512((void *)out, (__m512i)both);
    else
      _mm512_mask_storeu_epi16(out, (__mmask32)mask[1] << 16 | mask[0], (__m512i)both);
  } else {
    f16_store_16(out, mask[0], _mm512_castsi512_ps(x));
    f16_store_16(out + 16, mask[1], _mm512_castsi512_ps(y));
  }
}

INLINE __m512i add_sums(amx_type type, __m512i x, __m512i y) {
  return type == AMX_I8 ? _mm512_add_epi32(x, y)
                        : _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
}

/* A block that ends within a tile, or is to be rounded: by way of a buffer. */
static void buffered_block(amx_type type, int rows, int cols, int64_t steps, const char *a, const char *b,
                           const char *ahead, const destination *d, int64_t row, int64_t col) {
  _Alignas(64) float sum[SPAN * SPAN];
  const __mmask16 mask[2] = {(__mmask16)first_bytes(cols), (__mmask16)(first_bytes(cols) >> 16)};
  blocks[type][rows > TILE_ROWS][cols > TILE_ROWS](steps, a, b, ahead, (char *)sum, SPAN * sizeof *sum, false);
  for (int i = 0; i < rows; ++i) {
    __m512i x = _mm512_load_si512(sum + i * SPAN), y = _mm512_load_si512(sum + i * SPAN + 16);
    if (d->accumulate) {
      const char *const c = d->c + (row + i) * d->pitch + 4 * col;
      x = add_sums(type, x, _mm512_maskz_loadu_epi32(mask[0], c));
      y = add_sums(type, y, _mm512_maskz_loadu_epi32(mask[1], c + 64));
    }
    store_sums(d, row + i, col, mask, x, y);
  }
}

void amx_gemm(amx_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
              bool accumulate, const tile_rounded *to) {
  const int64_t steps = steps_of(type, k), tile_strip = steps * of_type[type].parts * TILE_BYTES; /* 16 rows of A */
  const bool far = n / TILE_ROWS * tile_strip > FAR_BYTES;
  destination d = {.c = c, .pitch = 4 * ldc, .accumulate = accumulate};
  if (to) d.dtype = to->dtype, d.out = to->at, d.out_pitch = to->pitch, d.large = to->large;
  _tile_loadconfig(&config); /* each time: others in the process have theirs */
  for (int64_t j = 0; j < n; j += SPAN)
    for (int64_t i = 0; i < m; i += SPAN) {
      const int rows = m - i < SPAN ? (int)(m - i) : SPAN, cols = n - j < SPAN ? (int)(n - j) : SPAN;
      const char *const x = a + i / TILE_ROWS * tile_strip, *const y = b + j / TILE_ROWS * tile_strip;
      /* The next columns of a B that may not be in L2 come while eight blocks of rows are multiplied by these. */
      const char *const ahead = far ? y + 2 * tile_strip + i / SPAN % AHEAD * (2 * tile_strip / AHEAD) : y;
      if (to || rows % TILE_ROWS || cols % TILE_ROWS)
        buffered_block(type, rows, cols, steps, x, y, ahead, &d, i, j);
      else
        blocks[type][rows > TILE_ROWS][cols > TILE_ROWS](steps, x, y, ahead, d.c + i * d.pitch + 4 * j, d.pitch,
                                                         accumulate);
    }
  if (d.large) _mm_sfence();
  _tile_release(); /* so that switching threads does not save them */
}

#else /* no AMX in this compiler or processor family: tile_has() is false, and nobody comes here */

bool amx_start(void) { return false; }
size_t amx_packed_bytes(amx_type type, int64_t width, int64_t k) { return (void)type, (size_t)(width * k); }
char *amx_row(amx_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  return (void)type, (void)packed, (void)m, (void)k, (void)i, (void)step, NULL;
}
void amx_pack(amx_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along, int64_t width,
              int64_t k) {
  (void)type, (void)to, (void)is_b, (void)from, (void)across, (void)along, (void)width, (void)k;
}
void amx_gemm(amx_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
              bool accumulate, const tile_rounded *to) {
  (void)type, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c, (void)ldc, (void)accumulate, (void)to;
}

#endif
