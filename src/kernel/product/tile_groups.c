/* Products of elements of 8 and 16 bits, in groups along k that fill 32: bfloat16 and int8 as they are, float16 as a sum of
 * two bfloat16. Packs, and walks the blocks that AMX (tile_amx.c) or AVX-512's dot products (tile_dots.c) multiply.
 * Compiled for AVX-512; bfloat16's instructions are only come by where results of its products are rounded. */
#include "kernel/product/tile_kernel.h"

#ifdef __AVX512BF16__

#  include <string.h>

#  include "acl/acl_base.h"
#  include "kernel/engine/halves.h"
#  include "kernel/engine/unroll.h"
#  include "kernel/product/tile_transpose.h"

enum {
  FAR_BYTES = 512 << 10, /* of B: beyond, it costs 10 % less to ask for it in time, below 2 % more */
};

static const group_kernel *kernel_of(group_type type) {
  return amx_start() ? &amx_kernel : dots_have(type) ? &dots_kernel : NULL;
}

bool groups_have(group_type type) { return kernel_of(type) != NULL; }
bool groups_on_amx(void) { return amx_start(); }

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Bytes of an element of the source, and tiles per 16 rows (columns): the halves of a float16 are kept apart. */
static const struct {
  int size, parts;
} of_type[] = {[GROUPS_BF16] = {2, 1}, [GROUPS_F16] = {2, 2}, [GROUPS_I8] = {1, 1}};

static int64_t steps_of(group_type type, int64_t k) {
  const int64_t per_tile = 64 / of_type[type].size;
  return (k + per_tile - 1) / per_tile;
}

size_t groups_packed_bytes(group_type type, int64_t width, int64_t k) {
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

/* Of bytes: words of four columns, a row in each quarter, change places with one another, then the bytes within them. */
INLINE void load_across_8(__m512i r[16], const char *from, int64_t along, int width, int k) {
  const __mmask16 mask = (__mmask16)first_bytes(width);
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
} group_source;

INLINE void pack_tile(group_type type, layout lies, bool is_b, char *to, const char *from, const group_source *s,
                      int width, int k) {
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
    gather(stage, from, s->across, s->along, size, width, k);
    load_along(r, stage, 64, width, k * size);
  }
  const bool transposed = is_b != (lies == ACROSS);
  if (type == GROUPS_F16) {
    UNROLL for (int i = 0; i < 16; ++i) r[i] = split_pairs(r[i], &low[i]);
    store_tile(to + TILE_BYTES, low, transposed);
  }
  store_tile(to, r, transposed);
}

/* Where the tile of the rows (columns) from i on is, at a step along k. By spans of two tiles: those of one step lie side by
 * side. */
INLINE char *tile_at(char *packed, const group_source *s, int64_t strip, int64_t tile_bytes, int64_t i, int64_t step) {
  const int64_t span = i / SPAN * SPAN, tiles = s->width - span > TILE_ROWS ? 2 : 1, second = i != span;
  return packed + span / TILE_ROWS * strip + (step * tiles + second) * tile_bytes;
}

/* Four tiles of bytes at once, 64 rows of 64 that lie across: whole cache lines, since rows that are pages apart share few
 * sets of L1. */
INLINE void pack_lines(char *const to[4], const char *from, int64_t along) {
  for (int g = 0; g < 16; ++g, from += 4 * along) {
    __m512i row[4], pair[4], four[4];
    UNROLL for (int i = 0; i < 4; ++i) row[i] = _mm512_loadu_si512(from + i * along);
    UNROLL for (int i = 0; i < 2; ++i) {
      pair[2 * i] = _mm512_unpacklo_epi8(row[2 * i], row[2 * i + 1]);
      pair[2 * i + 1] = _mm512_unpackhi_epi8(row[2 * i], row[2 * i + 1]);
    }
    UNROLL for (int i = 0; i < 2; ++i) { /* lane j has columns 16 j + 4 (2 i) to + 3, or 4 (2 i + 1) */
      four[2 * i] = _mm512_unpacklo_epi16(pair[i], pair[2 + i]);
      four[2 * i + 1] = _mm512_unpackhi_epi16(pair[i], pair[2 + i]);
    }
    const __m512i halves[2][2] = {
        /* lanes 0 and 1, 2 and 3 of the first two, of the others */
        {_mm512_shuffle_i32x4(four[0], four[1], 0x44), _mm512_shuffle_i32x4(four[2], four[3], 0x44)},
        {_mm512_shuffle_i32x4(four[0], four[1], 0xee), _mm512_shuffle_i32x4(four[2], four[3], 0xee)}};
    UNROLL for (int i = 0; i < 2; ++i) {
      _mm512_storeu_si512(to[2 * i] + g * 64, _mm512_shuffle_i32x4(halves[i][0], halves[i][1], 0x88));
      _mm512_storeu_si512(to[2 * i + 1] + g * 64, _mm512_shuffle_i32x4(halves[i][0], halves[i][1], 0xdd));
    }
  }
}

/* Where rows of the source run across, several spans are packed together, so that the rows, which may be pages apart, are
 * read in longer pieces. */
INLINE void pack_tiles(group_type type, layout lies, bool is_b, char *packed, const group_source *s) {
  const int size = type == GROUPS_I8 ? 1 : 2, per_tile = 64 / size,
            tile_bytes = (type == GROUPS_F16 ? 2 : 1) * TILE_BYTES;
  const bool lines = type == GROUPS_I8 && lies == ACROSS && is_b;
  const int64_t strip = steps_of(type, s->k) * tile_bytes, group = lies == ALONG ? SPAN : 8 * SPAN;
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
        pack_tile(type, lies, is_b, to, from, s, width, k);
      }
}

typedef void pack_function(char *packed, const group_source *s);
#  define PACK(type, lies, is_b)                                                                                       \
    static void pack_##type##_##lies##_##is_b(char *packed, const group_source *s) {                                   \
      pack_tiles(type, lies, is_b, packed, s);                                                                         \
    }
#  define PACKS_OF(type, lies) PACK(type, lies, 0) PACK(type, lies, 1)
#  define PACKS(type)          PACKS_OF(type, ALONG) PACKS_OF(type, ACROSS) PACKS_OF(type, SCATTERED)
PACKS(GROUPS_BF16)
PACKS(GROUPS_F16)
PACKS(GROUPS_I8)
#  define LAYOUT_OF(type, lies) [lies] = {pack_##type##_##lies##_0, pack_##type##_##lies##_1}
#  define LAYOUTS(type)         [type] = {LAYOUT_OF(type, ALONG), LAYOUT_OF(type, ACROSS), LAYOUT_OF(type, SCATTERED)}
static pack_function *const packs[][N_LAYOUTS][2] = {LAYOUTS(GROUPS_BF16), LAYOUTS(GROUPS_F16), LAYOUTS(GROUPS_I8)};

void groups_pack(group_type type, void *packed, bool is_b, const char *from, int64_t across, int64_t along,
                 int64_t width, int64_t k) {
  const int size = of_type[type].size;
  const layout lies = along == size ? ALONG : across == size ? ACROSS : SCATTERED;
  const group_source s = {.from = from, .across = across, .along = along, .width = width, .k = k};
  packs[type][lies][is_b](packed, &s);
}

char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  const int64_t span = i / SPAN * SPAN, in_span = i - span;
  *step = m - span > TILE_ROWS ? 2 * TILE_BYTES : TILE_BYTES;
  return packed + span / TILE_ROWS * steps_of(type, k) * TILE_BYTES + in_span / TILE_ROWS * TILE_BYTES +
         in_span % TILE_ROWS * 64;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

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
 * no kernel makes, would become 0. */
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

INLINE __m512i add_sums(group_type type, __m512i x, __m512i y) {
  return type == GROUPS_I8 ? _mm512_add_epi32(x, y)
                           : _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(y)));
}

/* A block that ends within a tile, or is to be rounded: by way of a buffer. */
static void buffered_block(const group_kernel *kernel, group_type type, int rows, int cols, int64_t steps,
                           const char *a, const char *b, const char *ahead, const destination *d, int64_t row,
                           int64_t col) {
  _Alignas(64) float sum[SPAN * SPAN];
  const __mmask16 mask[2] = {(__mmask16)first_bytes(cols), (__mmask16)(first_bytes(cols) >> 16)};
  kernel->block[type][rows > TILE_ROWS][cols > TILE_ROWS](steps, a, b, ahead, (char *)sum, SPAN * sizeof *sum, false);
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

void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to) {
  const group_kernel *const kernel = kernel_of(type);
  const int64_t steps = steps_of(type, k), tile_strip = steps * of_type[type].parts * TILE_BYTES; /* 16 rows of A */
  const bool far = n / TILE_ROWS * tile_strip > FAR_BYTES;
  destination d = {.c = c, .pitch = 4 * ldc, .accumulate = accumulate};
  if (to) d.dtype = to->dtype, d.out = to->at, d.out_pitch = to->pitch, d.large = to->large;
  if (kernel->begin) kernel->begin();
  for (int64_t j = 0; j < n; j += SPAN)
    for (int64_t i = 0; i < m; i += SPAN) {
      const int rows = m - i < SPAN ? (int)(m - i) : SPAN, cols = n - j < SPAN ? (int)(n - j) : SPAN;
      const char *const x = a + i / TILE_ROWS * tile_strip, *const y = b + j / TILE_ROWS * tile_strip;
      /* The next columns of a B that may not be in L2 come while eight blocks of rows are multiplied by these. */
      const char *const ahead = far ? y + 2 * tile_strip + i / SPAN % AHEAD * (2 * tile_strip / AHEAD) : y;
      if (to || rows % TILE_ROWS || cols % TILE_ROWS)
        buffered_block(kernel, type, rows, cols, steps, x, y, ahead, &d, i, j);
      else
        kernel->block[type][rows > TILE_ROWS][cols > TILE_ROWS](steps, x, y, ahead, d.c + i * d.pitch + 4 * j, d.pitch,
                                                                accumulate);
    }
  if (d.large) _mm_sfence();
  if (kernel->end) kernel->end();
}

#else /* no such kernels in this compiler or processor family: tile_has() is false, and nobody comes here */

bool groups_have(group_type type) { return (void)type, false; }
bool groups_on_amx(void) { return false; }
size_t groups_packed_bytes(group_type type, int64_t width, int64_t k) { return (void)type, (size_t)(width * k); }
char *groups_row(group_type type, char *packed, int64_t m, int64_t k, int64_t i, int64_t *step) {
  return (void)type, (void)packed, (void)m, (void)k, (void)i, (void)step, NULL;
}
void groups_pack(group_type type, void *to, bool is_b, const char *from, int64_t across, int64_t along, int64_t width,
                 int64_t k) {
  (void)type, (void)to, (void)is_b, (void)from, (void)across, (void)along, (void)width, (void)k;
}
void groups_gemm(group_type type, int64_t m, int64_t n, int64_t k, const char *a, const char *b, void *c, int64_t ldc,
                 bool accumulate, const tile_rounded *to) {
  (void)type, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c, (void)ldc, (void)accumulate, (void)to;
}

#endif
