/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of moves (move_loops.h), compiled once per instruction set level. */
#include "kernel/move/move_loops.h"

#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/stream_copy.h"

typedef struct {
  uint64_t half[2];
} word16;

/* ---- rows of bytes ----------------------------------------------------------------------------------------------- */

/* Two overlapping copies of a fixed size handle each length from this size to its double without a branch. Both are
 * loaded before anything is stored, so a row may be copied onto itself. */
#define MOVE_TWICE(to, from, bytes, size)                                                                              \
  do {                                                                                                                 \
    char first[size], last[size];                                                                                      \
    memcpy(first, from, size);                                                                                         \
    memcpy(last, (from) + (bytes) - (size), size);                                                                     \
    memcpy(to, first, size);                                                                                           \
    memcpy((to) + (bytes) - (size), last, size);                                                                       \
  } while (0)

enum {
  LINE = 64,
  LONG_ROW = 2048, /* longer rows use memmove, which is as fast from here on (bench/ops, Slice; Zen 4) */
  /* minimum row for streaming stores: shorter rows have too many partial cache lines at their ends */
  STREAM_ROW = 4096,
};

/* Copies a row of more than LINE bytes. */
static inline void move_long(char *to, const char *from, int64_t bytes) {
  if (bytes > LONG_ROW) {
    memmove(to, from, (size_t)bytes);
    return;
  }
  char last[LINE];
  memcpy(last, from + bytes - LINE, LINE);
  for (int64_t i = 0; i < bytes - LINE; i += LINE) {
    char line[LINE];
    memcpy(line, from + i, LINE);
    memcpy(to + i, line, LINE);
  }
  memcpy(to + bytes - LINE, last, LINE);
}

/* Copies `n` rows of `bytes` bytes; TO and FROM are their addresses as expressions of i. */
#define FOR_ROWS(body)                                                                                                 \
  for (int64_t i = 0; i < n; ++i) body
#define MOVE_ONE(T, TO, FROM)                                                                                          \
  {                                                                                                                    \
    T one;                                                                                                             \
    memcpy(&one, FROM, sizeof one);                                                                                    \
    memcpy(TO, &one, sizeof one);                                                                                      \
  }
#define MOVE_PAIR(TO, FROM, size)                                                                                      \
  {                                                                                                                    \
    char *const t = TO;                                                                                                \
    const char *const f = FROM;                                                                                        \
    MOVE_TWICE(t, f, bytes, size);                                                                                     \
  }
#define MOVE_ROWS(TO, FROM)                                                                                            \
  switch (bytes) {                                                                                                     \
  case 0: return;                                                                                                      \
  case 1: FOR_ROWS(MOVE_ONE(uint8_t, TO, FROM)) return;                                                                \
  case 2: FOR_ROWS(MOVE_ONE(uint16_t, TO, FROM)) return;                                                               \
  case 4: FOR_ROWS(MOVE_ONE(uint32_t, TO, FROM)) return;                                                               \
  case 8: FOR_ROWS(MOVE_ONE(uint64_t, TO, FROM)) return;                                                               \
  case 16: FOR_ROWS(MOVE_ONE(word16, TO, FROM)) return;                                                                \
  default: break;                                                                                                      \
  }                                                                                                                    \
  if (bytes < 4)                                                                                                       \
    FOR_ROWS(MOVE_PAIR(TO, FROM, 2))                                                                                   \
  else if (bytes < 8)                                                                                                  \
    FOR_ROWS(MOVE_PAIR(TO, FROM, 4))                                                                                   \
  else if (bytes < 16)                                                                                                 \
    FOR_ROWS(MOVE_PAIR(TO, FROM, 8))                                                                                   \
  else if (bytes <= 32)                                                                                                \
    FOR_ROWS(MOVE_PAIR(TO, FROM, 16))                                                                                  \
  else if (bytes <= LINE)                                                                                              \
    FOR_ROWS(MOVE_PAIR(TO, FROM, 32))                                                                                  \
  else                                                                                                                 \
    FOR_ROWS(move_long(TO, FROM, bytes);)

static void rows_at_strides(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t bytes) {
  MOVE_ROWS(to + i * to_step, from + i * from_step)
}

static void scattered_rows(char *to, const int64_t *at, const char *from, const int64_t *of, int64_t n, int64_t bytes) {
  MOVE_ROWS(to + at[i], from + of[i])
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

/* A row with any strides. Small constant strides, for which compilers vectorise it, are passed as constants. */
#define STEP_LOOP(T, to_step, from_step)                                                                               \
  for (int64_t j = 0; j < n1; ++j) *(T *)(void *)(t + j * (to_step)) = *(const T *)(const void *)(f + j * (from_step));
/* Rows that are filled with one value each. */
#define FILLED(name, T)                                                                                                \
  static void filled_##name(const plane *p, char *to, const char *from) {                                              \
    const int64_t bytes = p->n[1] * (int64_t)sizeof(T);                                                                \
    const bool streams = p->streams && !(((uintptr_t)to | (uintptr_t)p->to[0] | (uintptr_t)bytes) & (LINE - 1));       \
    for (int64_t i = 0; i < p->n[0]; ++i, to += p->to[0], from += p->from[0]) {                                        \
      _Alignas(LINE) T line[LINE / sizeof(T)];                                                                         \
      for (size_t k = 0; k < LINE / sizeof(T); ++k) line[k] = *(const T *)(const void *)from;                          \
      if (streams) {                                                                                                   \
        for (int64_t j = 0; j < bytes; j += LINE) stream_line(to + j, (const char *)line);                             \
        continue;                                                                                                      \
      }                                                                                                                \
      for (int64_t j = 0; j < bytes - LINE; j += LINE) memcpy(to + j, line, LINE);                                     \
      if (bytes >= LINE)                                                                                               \
        memcpy(to + bytes - LINE, line, LINE);                                                                         \
      else                                                                                                             \
        for (int64_t j = 0; j < bytes; j += (int64_t)sizeof(T)) memcpy(to + j, line, sizeof(T));                       \
    }                                                                                                                  \
    if (streams) stream_end();                                                                                         \
  }
#define STRIDED(name, T)                                                                                               \
  FILLED(name, T)                                                                                                      \
  static inline void row_##name(char *restrict t, int64_t to1, const char *restrict f, int64_t from1, int64_t n1) {    \
    const int64_t size = sizeof(T);                                                                                    \
    if (to1 == size && from1 == 2 * size) {                                                                            \
      STEP_LOOP(T, size, 2 * size)                                                                                     \
    } else if (to1 == size && from1 == -size) {                                                                        \
      STEP_LOOP(T, size, -size)                                                                                        \
    } else if (to1 == size) {                                                                                          \
      STEP_LOOP(T, size, from1)                                                                                        \
    } else {                                                                                                           \
      STEP_LOOP(T, to1, from1)                                                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  static void strided_##name(const plane *p, char *to, const char *from) {                                             \
    if (p->to[1] == (int64_t)sizeof(T) && p->from[1] == 0) {                                                           \
      filled_##name(p, to, from);                                                                                      \
      return;                                                                                                          \
    }                                                                                                                  \
    for (int64_t i = 0; i < p->n[0]; ++i)                                                                              \
      row_##name(to + i * p->to[0], p->to[1], from + i * p->from[0], p->from[1], p->n[1]);                             \
  }
STRIDED(w1, uint8_t)
STRIDED(w2, uint16_t)
STRIDED(w4, uint32_t)
STRIDED(w8, uint64_t)
STRIDED(w16, word16)

/* ---- transposition ----------------------------------------------------------------------------------------------- */

/* Transposes blocks of SIDE = 16 / size rows of the result, each one vector wide. 16-byte lanes are loaded from the
 * rows of the source so that lane l of vector k comes from source row l * SIDE + k. Unpacking within lanes, log2(SIDE)
 * times, with vectors that are half the block apart, then leaves a whole row of the result in each vector. */
#if defined(__AVX512BW__)
typedef __m512i vector;
#  define UNPACK(half, bits, a, b) _mm512_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)      _mm512_storeu_si512((void *)(to), v)
#  define VECTOR_STREAM(to, v)     _mm512_stream_si512((void *)(to), v)
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
#  define UNPACK(half, bits, a, b) _mm256_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)      _mm256_storeu_si256((void *)(to), v)
#  define VECTOR_STREAM(to, v)     _mm256_stream_si256((void *)(to), v)
static inline vector lanes_load(const char *from, int64_t step) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)from)),
                                 _mm_loadu_si128((const void *)(from + step)), 1);
}
#elif defined(__SSE2__)
typedef __m128i vector;
#  define UNPACK(half, bits, a, b) _mm_unpack##half##_epi##bits(a, b)
#  define VECTOR_STORE(to, v)      _mm_storeu_si128((void *)(to), v)
#  define VECTOR_STREAM(to, v)     _mm_stream_si128((void *)(to), v)
static inline vector lanes_load(const char *from, int64_t step) {
  (void)step;
  return _mm_loadu_si128((const void *)from);
}
#endif

/* Planes that are too small for blocks. Where there are just a few contiguous rows or columns (such as the channels of
 * a picture), strides are constants, for which compilers vectorise. */
#define FEW_COLUMNS(T, count)                                                                                          \
  case count:                                                                                                          \
    for (int64_t i = 0; i < rows; ++i)                                                                                 \
      for (int j = 0; j < count; ++j)                                                                                  \
        ((T *)(void *)to)[i * count + j] = *(const T *)(const void *)(from + i * size + j * from_step);                \
    return;
#define FEW_ROWS(T, count)                                                                                             \
  case count:                                                                                                          \
    for (int i = 0; i < count; ++i)                                                                                    \
      for (int64_t j = 0; j < columns; ++j)                                                                            \
        *(T *)(void *)(to + i * to_step + j * size) = ((const T *)(const void *)from)[j * count + i];                  \
    return;
#define TRANSPOSE_ELEMENTS(name, T)                                                                                    \
  static void elements_##name(char *restrict to, int64_t to_step, const char *restrict from, int64_t from_step,        \
                              int64_t rows, int64_t columns) {                                                         \
    const int64_t size = sizeof(T);                                                                                    \
    if (to_step == columns * size) {                                                                                   \
      switch (columns) {                                                                                               \
        FEW_COLUMNS(T, 2)                                                                                              \
        FEW_COLUMNS(T, 3)                                                                                              \
        FEW_COLUMNS(T, 4)                                                                                              \
      default: break;                                                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    if (from_step == rows * size) {                                                                                    \
      switch (rows) {                                                                                                  \
        FEW_ROWS(T, 2)                                                                                                 \
        FEW_ROWS(T, 3)                                                                                                 \
        FEW_ROWS(T, 4)                                                                                                 \
      default: break;                                                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    for (int64_t i = 0; i < rows; ++i)                                                                                 \
      for (int64_t j = 0; j < columns; ++j)                                                                            \
        *(T *)(void *)(to + i * to_step + j * size) = *(const T *)(const void *)(from + i * size + j * from_step);     \
  }

TRANSPOSE_ELEMENTS(w1, uint8_t)
TRANSPOSE_ELEMENTS(w2, uint16_t)
TRANSPOSE_ELEMENTS(w4, uint32_t)
TRANSPOSE_ELEMENTS(w8, uint64_t)

/* Within a tile, the blocks are processed along the rows of the source, so that the 64 bytes of its cache lines are
 * used up before the next lines. A last block that would not fit overlaps the one before it. Tiles have TILE_BYTES in
 * both directions: source and destination of a tile stay in L1, and the rows of a tile are whole cache lines. */
enum { TILE_BYTES = 256 };

#ifdef UNPACK
#  define TRANSPOSE(name, T, bits)                                                                                     \
    static inline void block_##name(char *to, int64_t to_step, const char *from, int64_t from_step, bool streams) {    \
      enum { SIDE = 16 / sizeof(T) };                                                                                  \
      vector v[SIDE], w[SIDE];                                                                                         \
      for (int k = 0; k < SIDE; ++k) v[k] = lanes_load(from + k * from_step, SIDE * from_step);                        \
      for (int width = 1; width < SIDE; width *= 2) {                                                                  \
        for (int k = 0; k < SIDE / 2; ++k) {                                                                           \
          w[2 * k] = UNPACK(lo, bits, v[k], v[k + SIDE / 2]);                                                          \
          w[2 * k + 1] = UNPACK(hi, bits, v[k], v[k + SIDE / 2]);                                                      \
        }                                                                                                              \
        for (int k = 0; k < SIDE; ++k) v[k] = w[k];                                                                    \
      }                                                                                                                \
      if (streams)                                                                                                     \
        for (int k = 0; k < SIDE; ++k) VECTOR_STREAM(to + k * to_step, v[k]);                                          \
      else                                                                                                             \
        for (int k = 0; k < SIDE; ++k) VECTOR_STORE(to + k * to_step, v[k]);                                           \
    }                                                                                                                  \
    static void tile_##name(const plane *p, char *to, const char *from, int64_t rows, int64_t columns) {               \
      enum { SIDE = 16 / sizeof(T), WIDE = sizeof(vector) / sizeof(T) };                                               \
      const int64_t to_step = p->to[0], from_step = p->from[1], size = sizeof(T);                                      \
      const bool streams = p->streams && !(((uintptr_t)to | (uintptr_t)to_step) & (sizeof(vector) - 1));               \
      for (int64_t j = 0; j < columns; j += WIDE) {                                                                    \
        const int64_t c = j + WIDE <= columns ? j : columns - WIDE;                                                    \
        for (int64_t i = 0; i < rows; i += SIDE) {                                                                     \
          const int64_t r = i + SIDE <= rows ? i : rows - SIDE;                                                        \
          block_##name(to + r * to_step + c * size, to_step, from + c * from_step + r * size, from_step,               \
                       streams && c == j);                                                                             \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    static void transpose_##name(const plane *p, char *to, const char *from) {                                         \
      enum { SIDE = 16 / sizeof(T), WIDE = sizeof(vector) / sizeof(T), TILE = TILE_BYTES / sizeof(T) };                \
      const int64_t rows = p->n[0], columns = p->n[1], size = sizeof(T);                                               \
      if (rows < SIDE || columns < WIDE) {                                                                             \
        elements_##name(to, p->to[0], from, p->from[1], rows, columns);                                                \
        return;                                                                                                        \
      }                                                                                                                \
      for (int64_t j = 0, m; j < columns; j += m) {                                                                    \
        m = columns - j < TILE + WIDE ? columns - j : TILE;                                                            \
        for (int64_t i = 0, n; i < rows; i += n) {                                                                     \
          n = rows - i < TILE + SIDE ? rows - i : TILE;                                                                \
          tile_##name(p, to + i * p->to[0] + j * size, from + j * p->from[1] + i * size, n, m);                        \
        }                                                                                                              \
      }                                                                                                                \
      if (p->streams) _mm_sfence();                                                                                    \
    }
#else
#  define TRANSPOSE(name, T, bits)                                                                                     \
    static void transpose_##name(const plane *p, char *to, const char *from) {                                         \
      enum { TILE = TILE_BYTES / sizeof(T) };                                                                          \
      const int64_t size = sizeof(T);                                                                                  \
      for (int64_t j = 0; j < p->n[1]; j += TILE) {                                                                    \
        const int64_t m = p->n[1] - j < TILE ? p->n[1] - j : TILE;                                                     \
        elements_##name(to + j * size, p->to[0], from + j * p->from[1], p->from[1], p->n[0], m);                       \
      }                                                                                                                \
    }
#endif

TRANSPOSE(w1, uint8_t, 8)
TRANSPOSE(w2, uint16_t, 16)
TRANSPOSE(w4, uint32_t, 32)
TRANSPOSE(w8, uint64_t, 64)

const move_loops LEVELED(move_loops) = {
    .rows = byte_rows,
    .transpose = {transpose_w1, transpose_w2, transpose_w4, transpose_w8, strided_w16},
    .strided = {strided_w1, strided_w2, strided_w4, strided_w8, strided_w16},
    .scattered_rows = scattered_rows,
    .in_turn = in_turn,
};
