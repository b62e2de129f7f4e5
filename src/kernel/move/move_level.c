/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of moves (move_loops.h), compiled once per instruction set level. */
#include "kernel/move/move_loops.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/stream_copy.h"
#include "kernel/engine/unroll.h"

/* ---- rows of bytes ----------------------------------------------------------------------------------------------- */

enum {
  LINE = 64,
  LONG_ROW = 2048, /* longer rows use memmove, which is as fast from here on (bench/ops, Slice; Zen 4) */
  /* minimum row for streaming stores: shorter rows have too many partial cache lines at their ends */
  STREAM_ROW = 4096,
};

/* Units of copies at any address. Vectors rather than arrays of char, which GCC 12 copies in pieces of 16 bytes, and
 * into memory that nothing reads (bench/ops, Permute and Pad). */
#define UNIT(bytes) __attribute__((vector_size(bytes), aligned(1), may_alias))
typedef uint8_t unit1;
typedef uint16_t __attribute__((aligned(1), may_alias)) unit2;
typedef uint32_t __attribute__((aligned(1), may_alias)) unit4;
typedef uint64_t __attribute__((aligned(1), may_alias)) unit8;
typedef uint8_t UNIT(16) unit16;
typedef uint8_t UNIT(32) unit32;

#if defined(__AVX512F__)
typedef uint8_t UNIT(64) widest;
#elif defined(__AVX2__)
typedef unit32 widest;
#else
typedef unit16 widest;
#endif
enum { LINE_PARTS = LINE / sizeof(widest) };

typedef struct {
  widest part[LINE_PARTS];
} line;

INLINE void line_load(line *l, const char *from) {
  UNROLL for (int k = 0; k < LINE_PARTS; ++k) l->part[k] = ((const widest *)(const void *)from)[k];
}
INLINE void line_store(char *to, const line *l) {
  UNROLL for (int k = 0; k < LINE_PARTS; ++k)((widest *)(void *)to)[k] = l->part[k];
}

/* Copies a row of more than LINE bytes. */
INLINE void move_long(char *to, const char *from, int64_t bytes) {
  if (bytes > LONG_ROW) {
    memmove(to, from, (size_t)bytes);
    return;
  }
  line last, each;
  line_load(&last, from + bytes - LINE);
  for (int64_t i = 0; i < bytes - LINE; i += LINE) {
    line_load(&each, from + i);
    line_store(to + i, &each);
  }
  line_store(to + bytes - LINE, &last);
}

/* n rows of `bytes` bytes. Row i goes from `from + of[i]` to `to + at[i]`, or by steps unless is_scattered. */
typedef struct {
  char *to;
  const char *from;
  const int64_t *at, *of;
  int64_t to_step, from_step, n, bytes;
  bool is_scattered;
} moved_rows;

INLINE char *row_to(const moved_rows *r, int64_t i) { return r->to + (r->is_scattered ? r->at[i] : i * r->to_step); }
INLINE const char *row_from(const moved_rows *r, int64_t i) {
  return r->from + (r->is_scattered ? r->of[i] : i * r->from_step);
}

/* Rows of one unit. */
#define MOVE_UNIT(unit)                                                                                                \
  INLINE void move_##unit(const moved_rows *r) {                                                                       \
    for (int64_t i = 0; i < r->n; ++i) *(unit *)(void *)row_to(r, i) = *(const unit *)(const void *)row_from(r, i);    \
  }
MOVE_UNIT(unit1)
MOVE_UNIT(unit2)
MOVE_UNIT(unit4)
MOVE_UNIT(unit8)
MOVE_UNIT(unit16)

/* Rows of one to two units, without a branch, by two copies that overlap. Both are loaded before anything is stored, so
 * a row may be copied onto itself. */
#define MOVE_TWICE(unit)                                                                                               \
  INLINE void move_twice_##unit(const moved_rows *r) {                                                                 \
    const int64_t last = r->bytes - (int64_t)sizeof(unit);                                                             \
    for (int64_t i = 0; i < r->n; ++i) {                                                                               \
      char *const to = row_to(r, i);                                                                                   \
      const char *const from = row_from(r, i);                                                                         \
      const unit a = *(const unit *)(const void *)from, b = *(const unit *)(const void *)(from + last);                \
      *(unit *)(void *)to = a;                                                                                         \
      *(unit *)(void *)(to + last) = b;                                                                                \
    }                                                                                                                  \
  }
MOVE_TWICE(unit2)
MOVE_TWICE(unit4)
MOVE_TWICE(unit8)
MOVE_TWICE(unit16)
MOVE_TWICE(unit32)

INLINE void move_rows(const moved_rows *r) {
  switch (r->bytes) {
  case 0: return;
  case 1: move_unit1(r); return;
  case 2: move_unit2(r); return;
  case 4: move_unit4(r); return;
  case 8: move_unit8(r); return;
  case 16: move_unit16(r); return;
  default: break;
  }
  if (r->bytes < 4)
    move_twice_unit2(r);
  else if (r->bytes < 8)
    move_twice_unit4(r);
  else if (r->bytes < 16)
    move_twice_unit8(r);
  else if (r->bytes <= 32)
    move_twice_unit16(r);
  else if (r->bytes <= LINE)
    move_twice_unit32(r);
  else
    for (int64_t i = 0; i < r->n; ++i) move_long(row_to(r, i), row_from(r, i), r->bytes);
}

static void rows_at_strides(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t bytes) {
  const moved_rows r = {.to = to, .from = from, .to_step = to_step, .from_step = from_step, .n = n, .bytes = bytes};
  move_rows(&r);
}

static void scattered_rows(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t bytes) {
  const moved_rows r = {.to = to, .from = from, .at = at, .of = of, .n = n, .bytes = bytes, .is_scattered = true};
  move_rows(&r);
}

static void byte_rows(const plane *p, char *to, const char *from) {
  const int64_t bytes = p->n[1] * p->element_bytes;
  if (!p->streams || bytes < STREAM_ROW) {
    rows_at_strides(to, p->to[0], from, p->from[0], p->n[0], bytes);
    return;
  }
  for (int64_t i = 0; i < p->n[0]; ++i) stream_bytes(to + i * p->to[0], from + i * p->from[0], bytes);
  stream_end();
}

static void in_turn(const row_run *run, int64_t n, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    for (const row_run *r = run; r < run + n; ++r) {
      char *const to = r->to + i * r->to_step;
      const char *const from = r->from + i * r->from_step;
      if (r->streams && r->bytes >= STREAM_ROW)
        stream_bytes(to, from, r->bytes);
      else
        move_long(to, from, r->bytes);
    }
  stream_end();
}

/* ---- strided rows ------------------------------------------------------------------------------------------------ */

#define T       uint8_t
#define NAME(f) f##_w1
#include "kernel/move/move_strided.inc"

#define T       uint16_t
#define NAME(f) f##_w2
#include "kernel/move/move_strided.inc"

#define T       uint32_t
#define NAME(f) f##_w4
#include "kernel/move/move_strided.inc"

#define T       uint64_t
#define NAME(f) f##_w8
#include "kernel/move/move_strided.inc"

#define T       word16
#define NAME(f) f##_w16
#include "kernel/move/move_strided.inc"

/* ---- transposition ----------------------------------------------------------------------------------------------- */

/* Transposes blocks of SIDE = 16 / size rows of the result, each one vector wide. 16-byte lanes are loaded from the
 * rows of the source so that lane l of vector k comes from source row l * SIDE + k. Unpacking within lanes, log2(SIDE)
 * times, with vectors that are half the block apart, then leaves a whole row of the result in each vector. */
#if defined(__AVX512BW__)
typedef __m512i vector;
#  define UNPACK_OF(half, bits, a, b) _mm512_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)         _mm512_storeu_si512((void *)(to), v)
#  define VECTOR_STREAM(to, v)        _mm512_stream_si512((void *)(to), v)
static inline vector lanes_load(const char *from, int64_t step) {
#  define LANE(l) _mm_loadu_si128((const void *)(from + (l)*step))
  vector v = _mm512_castsi128_si512(LANE(0));
  v = _mm512_inserti32x4(v, LANE(1), 1);
  v = _mm512_inserti32x4(v, LANE(2), 2);
  return _mm512_inserti32x4(v, LANE(3), 3);
#  undef LANE
}
#elif defined(__AVX2__)
typedef __m256i vector;
#  define UNPACK_OF(half, bits, a, b) _mm256_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)         _mm256_storeu_si256((void *)(to), v)
#  define VECTOR_STREAM(to, v)        _mm256_stream_si256((void *)(to), v)
static inline vector lanes_load(const char *from, int64_t step) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)from)),
                                 _mm_loadu_si128((const void *)(from + step)), 1);
}
#elif defined(__SSE2__)
typedef __m128i vector;
#  define UNPACK_OF(half, bits, a, b) _mm_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)         _mm_storeu_si128((void *)(to), v)
#  define VECTOR_STREAM(to, v)        _mm_stream_si128((void *)(to), v)
static inline vector lanes_load(const char *from, int64_t step) {
  (void)step;
  return _mm_loadu_si128((const void *)from);
}
#endif
#ifdef UNPACK_OF
#  define UNPACK(half, bits, a, b) UNPACK_OF(half, bits, a, b) /* expands `bits` first */
#endif

/* Within a tile, the blocks are processed along the rows of the source, so that the 64 bytes of its cache lines are
 * used up before the next lines. A last block that would not fit overlaps the one before it. Tiles have TILE_BYTES in
 * both directions: source and destination of a tile stay in L1, and the rows of a tile are whole cache lines. */
enum { TILE_BYTES = 256 };

#define T       uint8_t
#define BITS    8
#define NAME(f) f##_w1
#include "kernel/move/move_transpose.inc"

#define T       uint16_t
#define BITS    16
#define NAME(f) f##_w2
#include "kernel/move/move_transpose.inc"

#define T       uint32_t
#define BITS    32
#define NAME(f) f##_w4
#include "kernel/move/move_transpose.inc"

#define T       uint64_t
#define BITS    64
#define NAME(f) f##_w8
#include "kernel/move/move_transpose.inc"

const move_loops LEVELED(move_loops) = {
    .rows = byte_rows,
    .transpose = {transpose_w1, transpose_w2, transpose_w4, transpose_w8, strided_w16},
    .strided = {strided_w1, strided_w2, strided_w4, strided_w8, strided_w16},
    .scattered_rows = scattered_rows,
    .in_turn = in_turn,
};
