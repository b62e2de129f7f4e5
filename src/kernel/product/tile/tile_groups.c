/* SPDX-License-Identifier: Apache-2.0 */
/* GEMM on VNNI groups, that is, on the elements along k that fill 32 bits: pairs of bfloat16, quads of int8; float16 is
 * split into two bfloat16 parts, float32 into three. This file packs the operands and walks over blocks, which AMX
 * (tile_amx.c) or AVX-512's dot-product instructions (tile_dots.c) multiply. It is compiled for AVX-512 with
 * AVX512_BF16; bfloat16 instructions are only reached where a kernel's results are rounded. */
#include "kernel/product/tile/tile_kernel.h"

#ifdef __AVX512BF16__

#  include <string.h>

#  include "acl/acl_base.h"
#  include "kernel/engine/halves.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile/tile_transpose.h"

enum {
  FAR_BYTES = 512 << 10,  /* size of B: beyond it prefetching saves 10 %, below it costs 2 % */
  PANEL_BYTES = 32 << 10, /* chunk of k of a span of B that stays in L1 while A streams past */
  PANEL_ROWS = 256,       /* rows of A that are processed before the next columns of B */
};

static const group_kernel *groups_kernel_of(group_type type) {
  return amx_start() ? &amx_kernel : dots_have(type) ? &dots_kernel : NULL;
}

bool groups_have(group_type type) { return groups_kernel_of(type) != NULL; }
bool groups_on_amx(void) { return amx_start(); }

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Bytes of a source element, elements along k in a tile, and tiles per 16 rows (columns): bfloat16 parts are stored in
 * separate tiles. */
static const struct {
  int size, depth, parts;
} of_type[] = {
    [GROUPS_BF16] = {2, 32, 1}, [GROUPS_F16] = {2, 32, 2}, [GROUPS_I8] = {1, 64, 1}, [GROUPS_F32] = {4, 32, 3}};

static int64_t groups_steps_of(group_type type, int64_t k) {
  return (k + of_type[type].depth - 1) / of_type[type].depth;
}

size_t groups_packed_bytes(group_type type, int64_t width, int64_t k) {
  return (size_t)((width + TILE_ROWS - 1) / TILE_ROWS * groups_steps_of(type, k) * of_type[type].parts) * TILE_BYTES;
}

INLINE __mmask64 groups_first_bytes(int64_t n) { return n >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1; }

/* Loads 16 rows of 64 bytes that are contiguous along k. */
INLINE void load_along(__m512i r[16], const char *from, int64_t across, int width, int bytes) {
  const __mmask64 mask = groups_first_bytes(bytes);
  UNROLL for (int i = 0; i < 16; ++i) r[i] =
      i < width ? _mm512_maskz_loadu_epi8(mask, from + i * across) : _mm512_setzero_si512();
}

/* Loads 16 VNNI pairs along k of 16 adjacent elements across, by interleaving the two rows of each pair. */
INLINE void load_across_16(__m512i r[16], const char *from, int64_t along, int width, int k) {
  const __mmask32 mask = (__mmask32)groups_first_bytes(2 * width);
  UNROLL for (int g = 0; g < 16; ++g) {
    __m256i row[2];
    for (int i = 0; i < 2; ++i)
      row[i] = 2 * g + i < k ? _mm256_maskz_loadu_epi8(mask, from + (2 * g + i) * along) : _mm256_setzero_si256();
    r[g] = _mm512_or_si512(_mm512_cvtepu16_epi32(row[0]), _mm512_slli_epi32(_mm512_cvtepu16_epi32(row[1]), 16));
  }
}

/* Loads 16 VNNI quads along k of 16 adjacent bytes across. First the 32-bit words (four columns of one row) are
 * permuted such that the four rows of a column group are in one 128-bit lane, then bytes within each lane. */
INLINE void load_across_8(__m512i r[16], const char *from, int64_t along, int width, int k) {
  const __mmask16 mask = (__mmask16)groups_first_bytes(width);
  const __m512i words = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_set_epi8(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0));
  UNROLL for (int g = 0; g < 16; ++g) {
    __m128i row[4];
    UNROLL for (int i = 0; i < 4; ++i) row[i] =
        4 * g + i < k ? _mm_maskz_loadu_epi8(mask, from + (4 * g + i) * along) : _mm_setzero_si128();
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(row[0]), row[1], 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(row[2]), row[3], 1);
    const __m512i all = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    r[g] = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, all), bytes);
  }
}

/* Copies a tile that is contiguous in neither direction. */
static void groups_gather(char *stage, int64_t pitch, const char *from, int64_t across, int64_t along, int size,
                          int width, int k) {
  for (int i = 0; i < width; ++i)
    for (int l = 0; l < k; ++l) memcpy(stage + i * pitch + l * size, from + i * across + l * along, (size_t)size);
}

/* Splits float16 exactly into high + low, both bfloat16: 8 bits of the significand in the one, the other 3 in the
 * other. An infinity is split into 1 and infinity, whose products with the other factor sum to the right infinity. */
INLINE __m512i groups_split_half(__m256i half, __m512i *low) {
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

INLINE __m512i groups_split_halves(__m512i halves, __m512i *low) {
  __m512i low_parts[2], high_parts[2];
  high_parts[0] = groups_split_half(_mm512_castsi512_si256(halves), &low_parts[0]);
  high_parts[1] = groups_split_half(_mm512_extracti64x4_epi64(halves, 1), &low_parts[1]);
  *low = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low_parts[0])),
                            _mm512_cvtepi32_epi16(low_parts[1]), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(high_parts[0])),
                            _mm512_cvtepi32_epi16(high_parts[1]), 1);
}

INLINE void groups_store_tile(char *to, __m512i r[16], bool transposed) {
  if (transposed) tile_transpose_16x16(r);
  UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * 64, r[i]);
}

/* How the source is stored: contiguous along k, contiguous across k, or neither. */
typedef enum { ALONG, ACROSS, SCATTERED, N_LAYOUTS } layout;

typedef struct {
  const char *from;
  int64_t across, along, width, k;
} group_source;

/* Magnitudes of floats, as integers: the maximum, and the minimum of those that are not 0, less 1. */
typedef struct {
  __m512i most, least;
} magnitudes;

INLINE void look_at(magnitudes *m, __m512i x) {
  const __m512i bits = _mm512_and_si512(x, _mm512_set1_epi32(INT32_MAX));
  m->most = _mm512_max_epu32(m->most, bits);
  m->least = _mm512_min_epu32(m->least, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
}

static float_exponents exponents_of(const magnitudes *m) {
  const uint32_t most = _mm512_reduce_max_epu32(m->most) >> 23, least = _mm512_reduce_min_epu32(m->least) >> 23;
  return (float_exponents){.least = least < UINT8_MAX ? (uint8_t)least : UINT8_MAX, .most = (uint8_t)most};
}

/* Splits float32 exactly into high + middle + low, bfloat16 values in the upper halves of words: 8 bits of the
 * significand in each. */
INLINE void split_in_three(__m512i x, __m512i part[3]) {
  const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32((int)0xffff0000);
  UNROLL for (int p = 0; p < 2; ++p) {
    part[p] = _mm512_and_si512(_mm512_add_epi32(x, half), top);
    x = _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(part[p])));
  }
  part[2] = x;
}

INLINE __m512i upper_halves(__m512i x, __m512i y) {
  const __m512i odd =
      _mm512_set_epi32(0x003f003d, 0x003b0039, 0x00370035, 0x00330031, 0x002f002d, 0x002b0029, 0x00270025, 0x00230021,
                       0x001f001d, 0x001b0019, 0x00170015, 0x00130011, 0x000f000d, 0x000b0009, 0x00070005, 0x00030001);
  return _mm512_permutex2var_epi16(x, odd, y);
}

/* Packs one row of a tile for each of the three parts: 32 floats along k, or 16 columns of two rows across. */
INLINE void pack_floats_row(layout lies, char *to, const char *from, int64_t along, int width, int k,
                            magnitudes *seen) {
  __m512i x[2], part[2][3];
  for (int i = 0; i < 2; ++i) {
    const int n = lies == ACROSS ? i < k ? width : 0 : k - 16 * i;
    const char *const at = from + (lies == ACROSS ? along : 64) * i;
    x[i] =
        n > 0 ? _mm512_maskz_loadu_epi32((__mmask16)groups_first_bytes(n < 16 ? n : 16), at) : _mm512_setzero_si512();
    look_at(seen, x[i]);
    split_in_three(x[i], part[i]);
  }
  for (int p = 0; p < 3; ++p, to += TILE_BYTES)
    _mm512_storeu_si512(to, lies == ACROSS
                                ? _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(part[0][p], 16), part[1][p])
                                : upper_halves(part[0][p], part[1][p]));
}

INLINE void groups_pack_floats(layout lies, bool is_b, char *to, const char *from, const group_source *s, int width,
                               int k, magnitudes *seen) {
  _Alignas(64) char stage[2 * TILE_BYTES], rows[3 * TILE_BYTES];
  int64_t across = s->across;
  const bool transposed = is_b != (lies == ACROSS);
  char *const parts = transposed ? rows : to;
  if (lies == SCATTERED) {
    across = 128;
    groups_gather(stage, across, from, s->across, s->along, 4, width, k);
    from = stage;
  }
  for (int i = 0; i < TILE_ROWS; ++i)
    if (lies == ACROSS)
      pack_floats_row(lies, parts + i * 64, from + 2 * i * s->along, s->along, width, k - 2 * i, seen);
    else
      pack_floats_row(lies, parts + i * 64, from + i * across, 0, width, i < width ? k : 0, seen);
  for (int p = 0; transposed && p < 3; ++p) {
    __m512i r[16];
    UNROLL for (int i = 0; i < 16; ++i) r[i] = _mm512_load_si512(rows + p * TILE_BYTES + i * 64);
    groups_store_tile(to + p * TILE_BYTES, r, true);
  }
}

INLINE void pack_tile(group_type type, layout lies, bool is_b, char *to, const char *from, const group_source *s,
                      int width, int k, magnitudes *seen) {
  if (type == GROUPS_F32) {
    groups_pack_floats(lies, is_b, to, from, s, width, k, seen);
    return;
  }
  const int size = type == GROUPS_I8 ? 1 : 2;
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
    groups_gather(stage, 64, from, s->across, s->along, size, width, k);
    load_along(r, stage, 64, width, k * size);
  }
  const bool transposed = is_b != (lies == ACROSS);
  if (type == GROUPS_F16) {
    UNROLL for (int i = 0; i < 16; ++i) r[i] = groups_split_halves(r[i], &low[i]);
    groups_store_tile(to + TILE_BYTES, low, transposed);
  }
  groups_store_tile(to, r, transposed);
}

/* Address of the tile that starts at row (column) i, at a step along k. A span has two tiles, and those of one step are
 * adjacent. */
INLINE char *tile_at(char *packed, const group_source *s, int64_t strip, int64_t tile_bytes, int64_t i, int64_t step) {
  const int64_t span = i / SPAN * SPAN, tiles = s->width - span > TILE_ROWS ? 2 : 1, second = i != span;
  return packed + span / TILE_ROWS * strip + (step * tiles + second) * tile_bytes;
}

/* Packs four tiles of bytes at once from 64 rows of 64 bytes across k. Whole cache lines are read at once, since rows
 * that are pages apart share few sets of L1. */
INLINE void pack_lines(char *const to[4], const char *from, int64_t along) {
  for (int g = 0; g < 16; ++g, from += 4 * along) {
    __m512i row[4], pair[4], four[4];
    UNROLL for (int i = 0; i < 4; ++i) row[i] = _mm512_loadu_si512(from + i * along);
    UNROLL for (int i = 0; i < 2; ++i) {
      pair[2 * i] = _mm512_unpacklo_epi8(row[2 * i], row[2 * i + 1]);
      pair[2 * i + 1] = _mm512_unpackhi_epi8(row[2 * i], row[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; ++i) { /* lane j has columns 16 j + 8 i to 16 j + 8 i + 3, or the next four */
      four[2 * i] = _mm512_unpacklo_epi16(pair[i], pair[2 + i]);
      four[2 * i + 1] = _mm512_unpackhi_epi16(pair[i], pair[2 + i]);
    }
    const __m512i halves[2][2] = {
        /* lanes 0 and 1 (then 2 and 3) of the first two vectors, and of the other two */
        {_mm512_shuffle_i32x4(four[0], four[1], 0x44), _mm512_shuffle_i32x4(four[2], four[3], 0x44)},
        {_mm512_shuffle_i32x4(four[0], four[1], 0xee), _mm512_shuffle_i32x4(four[2], four[3], 0xee)}};
    UNROLL for (int i = 0; i < 2; ++i) {
      _mm512_storeu_si512(to[2 * i] + g * 64, _mm512_shuffle_i32x4(halves[i][0], halves[i][1], 0x88));
      _mm512_storeu_si512(to[2 * i + 1] + g * 64, _mm512_shuffle_i32x4(halves[i][0], halves[i][1], 0xdd));
    }
  }
}

/* Packs two tiles of bfloat16 pairs at once from 32 rows of 32 elements across k. */
INLINE void pack_pair_lines(char *to, const char *from, int64_t along) {
  const __m512i first =
      _mm512_set_epi32(0x002f000f, 0x002e000e, 0x002d000d, 0x002c000c, 0x002b000b, 0x002a000a, 0x00290009, 0x00280008,
                       0x00270007, 0x00260006, 0x00250005, 0x00240004, 0x00230003, 0x00220002, 0x00210001, 0x00200000);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  for (int g = 0; g < 16; ++g, from += 2 * along, to += 64) {
    const __m512i even = _mm512_loadu_si512(from), odd = _mm512_loadu_si512(from + along);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(even, first, odd));
    _mm512_storeu_si512(to + TILE_BYTES, _mm512_permutex2var_epi16(even, second, odd));
  }
}

/* If the source is contiguous across k, several spans are packed together, so that its rows, which may be pages apart,
 * are read in longer runs. */
INLINE float_exponents pack_tiles(group_type type, layout lies, bool is_b, char *packed, const group_source *s) {
  const int per_tile = type == GROUPS_I8 ? 64 : 32;
  const int tile_bytes = (type == GROUPS_F32 ? 3 : type == GROUPS_F16 ? 2 : 1) * TILE_BYTES;
  const bool lines = type == GROUPS_I8 && lies == ACROSS && is_b;
  const bool pairs = type == GROUPS_BF16 && lies == ACROSS && is_b;
  const int64_t strip = groups_steps_of(type, s->k) * tile_bytes, group = lies == ALONG ? SPAN : 8 * SPAN;
  magnitudes seen = {.most = _mm512_setzero_si512(), .least = _mm512_set1_epi32(-1)};
  for (int64_t begin = 0; begin < s->width; begin += group)
    for (int64_t l = 0; l < s->k; l += per_tile)
      for (int64_t i = begin; i < s->width && i < begin + group; i += TILE_ROWS) {
        char *const to = tile_at(packed, s, strip, tile_bytes, i, l / per_tile);
        const char *const from = s->from + i * s->across + l * s->along;
        const int width = s->width - i < TILE_ROWS ? (int)(s->width - i) : TILE_ROWS;
        const int k = s->k - l < per_tile ? (int)(s->k - l) : per_tile;
        if (lines && i % 64 == 0 && s->width - i >= 64 && k == per_tile) {
          char *const next = tile_at(packed, s, strip, tile_bytes, i + SPAN, l / per_tile);
          pack_lines((char *const[]){to, to + TILE_BYTES, next, next + TILE_BYTES}, from, s->along);
          i += 64 - TILE_ROWS;
          continue;
        }
        if (pairs && i % SPAN == 0 && s->width - i >= SPAN && k == per_tile) {
          pack_pair_lines(to, from, s->along);
          i += SPAN - TILE_ROWS;
          continue;
        }
        pack_tile(type, lies, is_b, to, from, s, width, k, &seen);
      }
  return exponents_of(&seen);
}

typedef float_exponents pack_function(char *packed, const group_source *s);
#  define PACK(type, lies, is_b)                                                                                       \
    static float_exponents pack_##type##_##lies##_##is_b(char *packed, const group_source *s) {                        \
      return pack_tiles(type, lies, is_b, packed, s);                                                                  \
    }
#  define PACKS_OF(type, lies) PACK(type, lies, 0) PACK(type, lies, 1)
#  define PACKS(type)          PACKS_OF(type, ALONG) PACKS_OF(type, ACROSS) PACKS_OF(type, SCATTERED)
PACKS(GROUPS_BF16)
PACKS(GROUPS_F16)
PACKS(GROUPS_I8)
PACKS(GROUPS_F32)
#  define LAYOUT_OF(type, lies) [lies] = {pack_##type##_##lies##_0, pack_##type##_##lies##_1}
#  define LAYOUTS(type)         [type] = {LAYOUT_OF(type, ALONG), LAYOUT_OF(type, ACROSS), LAYOUT_OF(type, SCATTERED)}
static pack_function *const packs[][N_LAYOUTS][2] = {LAYOUTS(GROUPS_BF16), LAYOUTS(GROUPS_F16), LAYOUTS(GROUPS_I8),
                                                     LAYOUTS(GROUPS_F32)};

float_exponents groups_pack(group_type type, void *packed, bool is_b, const char *from, int64_t across, int64_t along,
                            int64_t width, int64_t k) {
  const int size = of_type[type].size;
  const layout lies = along == size ? ALONG : across == size ? ACROSS : SCATTERED;
  const group_source s = {.from = from, .across = across, .along = along, .width = width, .k = k};
  return packs[type][lies][is_b](packed, &s);
}

char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  const int64_t span = i / SPAN * SPAN, in_span = i - span;
  *step = m - span > TILE_ROWS ? 2 * TILE_BYTES : TILE_BYTES;
  return packed + span / TILE_ROWS * groups_steps_of(type, k) * TILE_BYTES + in_span / TILE_ROWS * TILE_BYTES +
         in_span % TILE_ROWS * 64;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* What a block is added to, and where the result is stored. */
typedef struct {
  char *c;
  int64_t pitch;
  bool accumulate;
  int dtype; /* dtype of out, which receives the rounded sums; c is then only read */
  char *out; /* NULL: c receives the sums */
  int64_t out_pitch;
  bool large; /* out is written with non-temporal stores */
} destination;

/* Stores 32 sums of a row under the masks. bfloat16 is rounded by the processor's instruction: NaN stays NaN; denormals
 * would become 0, but no kernel produces them. */
INLINE void groups_store_sums(const destination *d, int64_t row, int64_t col, const __mmask16 mask[2], __m512i x,
                              __m512i y) {
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

INLINE __m512i groups_add_sums(group_type type, __m512i x, __m512i y) {
  return type == GROUPS_I8 ? _mm512_add_epi32(x, y)
                           : _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
}

/* One step of the blocking: panels of A and B over a chunk of k, such that B's panel stays in L1. */
typedef struct {
  const group_kernel *kernel;
  group_type type;
  const char *a, *b, *ahead;
  const int32_t *start; /* start values of the rows; or NULL */
  int64_t steps;
  bool first, last; /* chunk of k */
} panels;

/* A block that ends within a tile, is rounded, or has several chunks of k goes through a buffer, which holds the sums
 * of the previous chunks. */
static void buffered_block(const panels *p, int rows, int cols, float *sum, const destination *d, int64_t row,
                           int64_t col) {
  const __mmask16 mask[2] = {(__mmask16)groups_first_bytes(cols), (__mmask16)(groups_first_bytes(cols) >> 16)};
  p->kernel->block[p->type][rows > TILE_ROWS][cols > TILE_ROWS](rows, p->steps, p->a, p->b, p->ahead, p->start,
                                                                (char *)sum, SPAN * sizeof *sum, !p->first);
  for (int i = 0; p->last && i < rows; ++i) {
    __m512i x = _mm512_load_si512(sum + i * SPAN), y = _mm512_load_si512(sum + i * SPAN + 16);
    if (d->accumulate) {
      const char *const c = d->c + (row + i) * d->pitch + 4 * col;
      x = groups_add_sums(p->type, x, _mm512_maskz_loadu_epi32(mask[0], c));
      y = groups_add_sums(p->type, y, _mm512_maskz_loadu_epi32(mask[1], c + 64));
    }
    groups_store_sums(d, row + i, col, mask, x, y);
  }
}

static void one_block(const panels *p, int rows, int cols, float *sum, const destination *d, int64_t row, int64_t col) {
  if (d->out || rows % TILE_ROWS || cols % TILE_ROWS || !(p->first && p->last))
    buffered_block(p, rows, cols, sum, d, row, col);
  else
    p->kernel->block[p->type][rows > TILE_ROWS][cols > TILE_ROWS](
        rows, p->steps, p->a, p->b, p->ahead, p->start, d->c + row * d->pitch + 4 * col, d->pitch, d->accumulate);
}

/* Start values for rows [begin, end) of A. */
static void panel_starts(const group_kernel *kernel, const char *a, int64_t steps, int64_t m, int64_t begin,
                         int64_t end, int32_t *start) {
  for (int64_t i = begin; i < end; i += SPAN) {
    const int tiles = m - i > TILE_ROWS ? 2 : 1;
    for (int t = 0; t < tiles; ++t)
      kernel->start(steps, a + (i / TILE_ROWS * steps + t) * TILE_BYTES, tiles * TILE_BYTES,
                    start + i - begin + t * TILE_ROWS);
  }
}

void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to) {
  _Alignas(64) float sums[PANEL_ROWS * SPAN];
  int32_t start[PANEL_ROWS];
  const int64_t steps = groups_steps_of(type, k), tile_bytes = of_type[type].parts * TILE_BYTES;
  const int64_t most_steps = PANEL_BYTES / (2 * tile_bytes);
  const int64_t n_pieces = steps ? (steps + most_steps - 1) / most_steps : 1; /* one even where k is 0 */
  const int64_t piece = (steps + n_pieces - 1) / n_pieces;                    /* chunks of even size */
  const bool far = n / TILE_ROWS * steps * tile_bytes > FAR_BYTES;
  destination d = {.c = c, .pitch = 4 * ldc, .accumulate = accumulate};
  panels p = {.kernel = groups_kernel_of(type), .type = type};
  if (to) d.dtype = to->dtype, d.out = to->at, d.out_pitch = to->pitch, d.large = to->large;
  if (p.kernel->begin) p.kernel->begin();
  const bool starts = type == GROUPS_I8 && p.kernel->start;
  for (int64_t begin = 0, end; begin < m; begin = end) {
    end = m - begin < PANEL_ROWS ? m : begin + PANEL_ROWS;
    if (starts) panel_starts(p.kernel, a, steps, m, begin, end, start);
    for (int64_t j = 0; j < n; j += SPAN)
      for (int64_t number = 0, step = 0; number < n_pieces; ++number, step += piece) {
        const int cols = n - j < SPAN ? (int)(n - j) : SPAN, col_tiles = cols > TILE_ROWS ? 2 : 1;
        p.steps = steps - step < piece ? steps - step : piece;
        p.first = number == 0, p.last = number == n_pieces - 1;
        p.b = b + (j / TILE_ROWS * steps + step * col_tiles) * tile_bytes;
        for (int64_t i = begin; i < end; i += SPAN) {
          const int rows = m - i < SPAN ? (int)(m - i) : SPAN, row_tiles = rows > TILE_ROWS ? 2 : 1;
          p.a = a + (i / TILE_ROWS * steps + step * row_tiles) * tile_bytes;
          /* The next panel of a B that may not be in L2 is prefetched in the course of AHEAD blocks of rows. */
          const int64_t panel_bytes = p.steps * col_tiles * tile_bytes;
          p.start = starts && p.first ? start + i - begin : NULL;
          p.ahead = far ? p.b + panel_bytes + i / SPAN % AHEAD * (panel_bytes / AHEAD) : p.b;
          one_block(&p, rows, cols, sums + (n_pieces > 1 ? i - begin : 0) * SPAN, &d, i, j);
        }
      }
  }
  if (d.large) _mm_sfence();
  if (p.kernel->end) p.kernel->end();
}

/* the compiler or the processor family has no such kernels: tile_has() is false, and these stubs are never called */
#else

bool groups_have(group_type type) { return (void)type, false; }
bool groups_on_amx(void) { return false; }
size_t groups_packed_bytes(group_type type, int64_t width, int64_t k) { return (void)type, (size_t)(width * k); }
char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  return (void)type, (void)packed, (void)m, (void)k, (void)i, (void)step, NULL;
}
float_exponents groups_pack(group_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along,
                            int64_t width, int64_t k) {
  (void)type, (void)to, (void)is_b, (void)from, (void)across, (void)along, (void)width, (void)k;
  return float_no_exponents;
}
void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to) {
  (void)type, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c, (void)ldc, (void)accumulate, (void)to;
}

#endif
