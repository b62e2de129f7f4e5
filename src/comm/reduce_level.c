/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of several vectors to one, compiled once per instruction set level. A vector is worked on in tiles, so
 * that what lies between the inputs and the outputs stays in the first cache:
 *
 *   pass    combines up to MOST_OPERANDS inputs of a tile, in registers. Up to so many inputs take one pass; more take
 *           several, with accumulators in a tile of the accumulator's type (float for 16-bit floats)
 *   tile    passes until the result is in one output (or, for streaming stores, in a scratch tile), then copies of it
 *
 * All inputs of a tile are read before an output of it is written, so that outputs may be inputs. */
#include "comm/reduce_level.h"

#include <stdint.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/engine/stream_copy.h"
#include "tensor/dtype.h"

#if defined(__F16C__)
#  include <immintrin.h>
#endif

#define COMM_INLINE static inline __attribute__((always_inline))

/* Measured on an EPYC of the Zen 4 class, one thread, float32. In the caches, 4 KiB beat shorter tiles (64 KiB, 4 to 4
 * vectors: 103 GB/s read and written, 80 with 256 bytes). Streaming stores want short ones, between which the reads go
 * on (64 MiB, 2 inputs to 1 output: 39 GB/s, 22 with 4 KiB; 8 to 4: 41 and 30). Prefetching ahead made it slower. */
enum {
  TILE_BYTES = 4096,
  STREAM_TILE_BYTES = 256,
  COPY_TILE_BYTES = 8192, /* of copies to several outputs */
  MOST_OPERANDS = 4,
};

/* Whether the level has streaming stores (kernel/engine/stream_copy.h). */
#ifdef __AVX2__
#  define COMM_STREAMS true
#else
#  define COMM_STREAMS false
#endif

/* Combines the accumulators (unless NULL) and n inputs, in this order, and writes the result as accumulators (`on`) or
 * as elements of the vectors' type. `to` may be any of the operands. n is 1 to MOST_OPERANDS. */
typedef void comm_pass(void *to, bool on, const void *accumulators, const void *const *in, int n, size_t count);

/* ---- operations on elements -------------------------------------------------------------------------------------- */

/* The operations of integers that do not depend on the sign are those of unsigned types, whose overflow is defined. */
#define SUM_OF(a, b)  ((a) + (b))
#define PROD_OF(a, b) ((a) * (b))
#define MAX_OF(a, b)  ((a) > (b) ? (a) : (b))
#define MIN_OF(a, b)  ((a) < (b) ? (a) : (b))

/* Equal numbers differ at most in the sign of zero; the bitwise operations choose among zeros. */
COMM_INLINE float comm_max_f32(float a, float b) {
  const float equal = float_of_bits(bits_of_float(a) & bits_of_float(b)), greater = a > b ? a : b;
  return a == b ? equal : a != a ? a : greater;
}
COMM_INLINE float comm_min_f32(float a, float b) {
  const float equal = float_of_bits(bits_of_float(a) | bits_of_float(b)), less = a < b ? a : b;
  return a == b ? equal : a != a ? a : less;
}
COMM_INLINE uint64_t comm_bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
COMM_INLINE double comm_double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
COMM_INLINE double comm_max_f64(double a, double b) {
  const double equal = comm_double_of_bits(comm_bits_of_double(a) & comm_bits_of_double(b)), greater = a > b ? a : b;
  return a == b ? equal : a != a ? a : greater;
}
COMM_INLINE double comm_min_f64(double a, double b) {
  const double equal = comm_double_of_bits(comm_bits_of_double(a) | comm_bits_of_double(b)), less = a < b ? a : b;
  return a == b ? equal : a != a ? a : less;
}

/* Which of two NaNs the processor passes on depends on the order that the compiler gives to an addition's operands,
 * which may differ between the vectors of a loop and its rest. */
COMM_INLINE float comm_plain_f32(float x) { return x == x ? x : float_of_bits(0x7fc00000); }
COMM_INLINE double comm_plain_f64(double x) { return x == x ? x : comm_double_of_bits(UINT64_C(0x7ff8000000000000)); }
COMM_INLINE uint16_t comm_store_fp16(float x) { return half_from_float(comm_plain_f32(x)); }
COMM_INLINE uint16_t comm_store_bf16(float x) { return bf16_from_float(comm_plain_f32(x)); }
#define SAME(x) (x)

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* T: type of the vectors' elements; A: of accumulators. OP takes two A and gives an A, LOAD makes an A of a T, STORE
 * a T of an A. NAME_at is the result for an element. */
#define PASS_ELEMENT(name, T, A, OP, LOAD)                                                                             \
  COMM_INLINE A name##_at(const A *acc, const T *const x[MOST_OPERANDS], int n, size_t i) {                            \
    A result = acc ? (A)OP(acc[i], LOAD(x[0][i])) : (A)LOAD(x[0][i]);                                                  \
    if (n > 1) result = (A)OP(result, LOAD(x[1][i]));                                                                  \
    if (n > 2) result = (A)OP(result, LOAD(x[2][i]));                                                                  \
    if (n > 3) result = (A)OP(result, LOAD(x[3][i]));                                                                  \
    return result;                                                                                                     \
  }
#define PASS_LOOP(name, T, A, OP, LOAD, STORE)                                                                         \
  PASS_ELEMENT(name, T, A, OP, LOAD)                                                                                   \
  COMM_INLINE void name##_loop(void *to, bool on, const A *acc, const void *const *in, int n, size_t count) {          \
    const T *const x[MOST_OPERANDS] = {in[0], in[n > 1 ? 1 : 0], in[n > 2 ? 2 : 0], in[n > 3 ? 3 : 0]};                \
    A *const wide = to;                                                                                                \
    T *const narrow = to;                                                                                              \
    if (on) {                                                                                                          \
      INDEPENDENT for (size_t i = 0; i < count; ++i) wide[i] = name##_at(acc, x, n, i);                                \
    } else {                                                                                                           \
      INDEPENDENT for (size_t i = 0; i < count; ++i) narrow[i] = (T)STORE(name##_at(acc, x, n, i));                    \
    }                                                                                                                  \
  }

/* A pass of at most two operands, the accumulators included: for types that are rarely reduced. */
#define PASS_OF_2(name, loop)                                                                                          \
  static void name(void *to, bool on, const void *acc, const void *const *in, int n, size_t count) {                   \
    (void)n, (void)on;                                                                                                 \
    if (acc)                                                                                                           \
      loop(to, false, acc, in, 1, count);                                                                              \
    else                                                                                                               \
      loop(to, false, NULL, in, 2, count);                                                                             \
  }

/* The loop for each constant n that occurs, with and without accumulators. Accumulators are written only from
 * MOST_OPERANDS inputs; where A is T, they are written as elements are. */
#define PASS_OF_4(name, loop, on_differs)                                                                              \
  static void name(void *to, bool on, const void *acc, const void *const *in, int n, size_t count) {                   \
    if (on_differs && on) {                                                                                            \
      if (acc)                                                                                                         \
        loop(to, on_differs, acc, in, 4, count);                                                                       \
      else                                                                                                             \
        loop(to, on_differs, NULL, in, 4, count);                                                                      \
    } else if (acc) {                                                                                                  \
      PASS_CASES(loop, acc)                                                                                            \
    } else {                                                                                                           \
      PASS_CASES(loop, NULL)                                                                                           \
    }                                                                                                                  \
  }
#define PASS_CASES(loop, acc)                                                                                          \
  switch (n) {                                                                                                         \
  case 1: loop(to, false, acc, in, 1, count); break;                                                                   \
  case 2: loop(to, false, acc, in, 2, count); break;                                                                   \
  case 3: loop(to, false, acc, in, 3, count); break;                                                                   \
  default: loop(to, false, acc, in, 4, count); break;                                                                  \
  }

#if defined(__F16C__)
/* ---- 16-bit floats by vectors: compilers do not use the instructions that convert float16 in loops, and convert
 * bfloat16 at half the speed ------------------------------------------------------------------------------------ */

#  if defined(__AVX512F__)
enum { LANES = 16 };
typedef __m512 comm_lanes;
COMM_INLINE comm_lanes comm_lanes_load(const float *from) { return _mm512_loadu_ps(from); }
COMM_INLINE void comm_lanes_store(float *to, comm_lanes x) { _mm512_storeu_ps(to, x); }
COMM_INLINE comm_lanes comm_lanes_load_fp16(const uint16_t *from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
}
COMM_INLINE comm_lanes comm_lanes_load_bf16(const uint16_t *from) {
  const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
COMM_INLINE comm_lanes comm_lanes_plain(comm_lanes x) {
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_ps(__builtin_nanf("")));
}
COMM_INLINE void comm_lanes_store_fp16(uint16_t *to, comm_lanes x) {
  _mm256_storeu_si256((void *)to, _mm512_cvtps_ph(comm_lanes_plain(x), _MM_FROUND_TO_NEAREST_INT));
}
COMM_INLINE void comm_lanes_store_bf16(uint16_t *to, comm_lanes x) {
  const __m512i bits = _mm512_castps_si512(comm_lanes_plain(x)),
                odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1)),
                sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  _mm256_storeu_si256((void *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16)));
}
COMM_INLINE comm_lanes comm_sum_lanes(comm_lanes a, comm_lanes b) { return _mm512_add_ps(a, b); }
COMM_INLINE comm_lanes comm_prod_lanes(comm_lanes a, comm_lanes b) { return _mm512_mul_ps(a, b); }
/* The instructions return b if an operand is NaN or both are zeros. */
COMM_INLINE comm_lanes comm_max_lanes(comm_lanes a, comm_lanes b) {
  const __m512 greater = _mm512_and_ps(_mm512_max_ps(a, b), _mm512_max_ps(b, a));
  return _mm512_mask_add_ps(greater, _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q), a, b);
}
/* A NaN that is combined with other bits by "or" stays one. */
COMM_INLINE comm_lanes comm_min_lanes(comm_lanes a, comm_lanes b) {
  return _mm512_or_ps(_mm512_min_ps(a, b), _mm512_min_ps(b, a));
}
#  else
enum { LANES = 8 };
typedef __m256 comm_lanes;
COMM_INLINE comm_lanes comm_lanes_load(const float *from) { return _mm256_loadu_ps(from); }
COMM_INLINE void comm_lanes_store(float *to, comm_lanes x) { _mm256_storeu_ps(to, x); }
COMM_INLINE comm_lanes comm_lanes_load_fp16(const uint16_t *from) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
}
COMM_INLINE comm_lanes comm_lanes_load_bf16(const uint16_t *from) {
  const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
COMM_INLINE comm_lanes comm_lanes_plain(comm_lanes x) {
  return _mm256_blendv_ps(x, _mm256_set1_ps(__builtin_nanf("")), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
COMM_INLINE void comm_lanes_store_fp16(uint16_t *to, comm_lanes x) {
  _mm_storeu_si128((void *)to, _mm256_cvtps_ph(comm_lanes_plain(x), _MM_FROUND_TO_NEAREST_INT));
}
COMM_INLINE void comm_lanes_store_bf16(uint16_t *to, comm_lanes x) {
  const __m256i bits = _mm256_castps_si256(comm_lanes_plain(x)),
                odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1)),
                sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd),
                words = _mm256_srli_epi32(sum, 16);
  _mm_storeu_si128((void *)to, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}
COMM_INLINE comm_lanes comm_sum_lanes(comm_lanes a, comm_lanes b) { return _mm256_add_ps(a, b); }
COMM_INLINE comm_lanes comm_prod_lanes(comm_lanes a, comm_lanes b) { return _mm256_mul_ps(a, b); }
/* The instructions return b if an operand is NaN or both are zeros. A comparison's result, all ones, is a NaN. */
COMM_INLINE comm_lanes comm_max_lanes(comm_lanes a, comm_lanes b) {
  const __m256 greater = _mm256_and_ps(_mm256_max_ps(a, b), _mm256_max_ps(b, a));
  return _mm256_or_ps(greater, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}
/* A NaN that is combined with other bits by "or" stays one. */
COMM_INLINE comm_lanes comm_min_lanes(comm_lanes a, comm_lanes b) {
  return _mm256_or_ps(_mm256_min_ps(a, b), _mm256_min_ps(b, a));
}
#  endif

/* The functions of an operation on 16-bit floats; `rest` is as PASS_ELEMENT defines it. */
typedef struct {
  comm_lanes (*load)(const uint16_t *from), (*join)(comm_lanes a, comm_lanes b);
  void (*store)(uint16_t *to, comm_lanes x);
  float (*rest)(const float *acc, const uint16_t *const x[MOST_OPERANDS], int n, size_t i);
  uint16_t (*store_rest)(float x);
} comm_halves;

COMM_INLINE void comm_halves_loop(const comm_halves *f, void *to, bool on, const float *acc, const void *const *in,
                                  int n, size_t count) {
  const uint16_t *const x[MOST_OPERANDS] = {in[0], in[n > 1 ? 1 : 0], in[n > 2 ? 2 : 0], in[n > 3 ? 3 : 0]};
  size_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    comm_lanes result = f->load(x[0] + i);
    if (acc) result = f->join(comm_lanes_load(acc + i), result);
    if (n > 1) result = f->join(result, f->load(x[1] + i));
    if (n > 2) result = f->join(result, f->load(x[2] + i));
    if (n > 3) result = f->join(result, f->load(x[3] + i));
    if (on)
      comm_lanes_store((float *)to + i, result);
    else
      f->store((uint16_t *)to + i, result);
  }
  for (; i < count; ++i) {
    const float result = f->rest(acc, x, n, i);
    if (on)
      ((float *)to)[i] = result;
    else
      ((uint16_t *)to)[i] = f->store_rest(result);
  }
}

#  define PASS_LOOP_HALVES(op, type, OP, LOAD, STORE)                                                                  \
    PASS_ELEMENT(comm_##op##_##type##_rest, uint16_t, float, OP, LOAD)                                                 \
    COMM_INLINE void comm_##op##_##type##_loop(void *to, bool on, const float *acc, const void *const *in, int n,      \
                                               size_t count) {                                                         \
      static const comm_halves f = {comm_lanes_load_##type, comm_##op##_lanes, comm_lanes_store_##type,                \
                                    comm_##op##_##type##_rest_at, STORE};                                              \
      comm_halves_loop(&f, to, on, acc, in, n, count);                                                                 \
    }
#else
#  define PASS_LOOP_HALVES(op, type, OP, LOAD, STORE) PASS_LOOP(comm_##op##_##type, uint16_t, float, OP, LOAD, STORE)
#endif

/* ---- vectors ----------------------------------------------------------------------------------------------------- */

typedef struct {
  comm_pass *pass;
  size_t element;   /* bytes */
  int first, later; /* inputs of a vector's first pass, and of those that have accumulators */
} comm_passes;

static void comm_copy_vectors(void *const *out, int n_out, const void *in, size_t bytes, bool stream_out) {
  const size_t tile = n_out == 1 ? bytes : COPY_TILE_BYTES; /* read from memory once */
  for (size_t at = 0; at < bytes; at += tile)
    for (int k = 0; k < n_out; ++k) {
      if (out[k] == in) continue;
      char *const to = (char *)out[k] + at;
      const char *const from = (const char *)in + at;
      const size_t n = bytes - at < tile ? bytes - at : tile;
      if (stream_out)
        stream_bytes(to, from, (int64_t)n);
      else
        memcpy(to, from, n);
    }
  if (stream_out) stream_end();
}

/* Reduces `count` elements of a tile from the byte `at` on. accumulators: room for `count` of them. */
static void comm_reduce_tile(const comm_passes *p, void *to, void *accumulators, const void *const *in, int n_in,
                             size_t at, size_t count) {
  const void *x[MOST_OPERANDS];
  const void *so_far = NULL;
  for (int begin = 0; begin < n_in;) {
    const int most = so_far ? p->later : p->first, n = n_in - begin < most ? n_in - begin : most;
    for (int k = 0; k < n; ++k) x[k] = (const char *)in[begin + k] + at;
    begin += n;
    p->pass(begin < n_in ? accumulators : to, begin < n_in, so_far, x, n, count);
    so_far = accumulators;
  }
}

static void comm_reduce_vectors(const comm_passes *p, void *const *out, int n_out, const void *const *in, int n_in,
                                size_t count, bool stream_out) {
  if (n_in == 1) {
    comm_copy_vectors(out, n_out, in[0], count * p->element, stream_out);
    return;
  }
  stream_out = stream_out && COMM_STREAMS;
  _Alignas(64) char accumulators[2 * TILE_BYTES], result[STREAM_TILE_BYTES];
  const size_t end = count * p->element, tile = stream_out ? STREAM_TILE_BYTES : TILE_BYTES;
  /* The first tile ends where a line of the first output does; the other outputs usually have the same alignment. */
  size_t n = stream_out ? tile - (uintptr_t)out[0] % STREAM_LINE : tile;
  for (size_t at = 0; at < end; at += n, n = tile) {
    if (n > end - at) n = end - at;
    void *const first = stream_out ? result : (char *)out[0] + at;
    comm_reduce_tile(p, first, accumulators, in, n_in, at, n / p->element);
    for (int k = stream_out ? 0 : 1; k < n_out; ++k)
      if (stream_out)
        stream_bytes((char *)out[k] + at, first, (int64_t)n);
      else
        memcpy((char *)out[k] + at, first, n);
  }
  if (stream_out) stream_end();
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define VECTORS(name, T, A, first, later)                                                                              \
  static void name##_vectors(void *const *out, int n_out, const void *const *in, int n_in, size_t count,               \
                             bool stream_out) {                                                                        \
    static const comm_passes passes = {name, sizeof(T), first, later};                                                 \
    comm_reduce_vectors(&passes, out, n_out, in, n_in, count, stream_out);                                             \
  }

#define INTEGER(name, T, OP)                                                                                           \
  PASS_LOOP(name, T, T, OP, SAME, SAME)                                                                                \
  PASS_OF_2(name, name##_loop)                                                                                         \
  VECTORS(name, T, T, 2, 1)
#define INTEGERS(bits)                                                                                                 \
  INTEGER(comm_sum_##bits, uint##bits##_t, SUM_OF)                                                                     \
  INTEGER(comm_prod_##bits, uint##bits##_t, PROD_OF)                                                                   \
  INTEGER(comm_max_int##bits, int##bits##_t, MAX_OF)                                                                   \
  INTEGER(comm_min_int##bits, int##bits##_t, MIN_OF)                                                                   \
  INTEGER(comm_max_uint##bits, uint##bits##_t, MAX_OF)                                                                 \
  INTEGER(comm_min_uint##bits, uint##bits##_t, MIN_OF)
INTEGERS(8)
INTEGERS(16)
INTEGERS(32)
INTEGERS(64)

#define FP64(op, OP)                                                                                                   \
  PASS_LOOP(comm_##op##_fp64, double, double, OP, SAME, comm_plain_f64)                                                \
  PASS_OF_2(comm_##op##_fp64, comm_##op##_fp64_loop)                                                                   \
  VECTORS(comm_##op##_fp64, double, double, 2, 1)
FP64(sum, SUM_OF)
FP64(prod, PROD_OF)
FP64(max, comm_max_f64)
FP64(min, comm_min_f64)

#define FLOATS(op, OP)                                                                                                 \
  PASS_LOOP(comm_##op##_fp32, float, float, OP, SAME, comm_plain_f32)                                                  \
  PASS_OF_4(comm_##op##_fp32, comm_##op##_fp32_loop, false)                                                            \
  VECTORS(comm_##op##_fp32, float, float, 4, 4)                                                                        \
  PASS_LOOP_HALVES(op, bf16, OP, bf16_to_float, comm_store_bf16)                                                       \
  PASS_OF_4(comm_##op##_bf16, comm_##op##_bf16_loop, true)                                                             \
  VECTORS(comm_##op##_bf16, uint16_t, float, 4, 4)                                                                     \
  PASS_LOOP_HALVES(op, fp16, OP, half_to_float, comm_store_fp16)                                                       \
  PASS_OF_4(comm_##op##_fp16, comm_##op##_fp16_loop, true)                                                             \
  VECTORS(comm_##op##_fp16, uint16_t, float, 4, 4)
FLOATS(sum, SUM_OF)
FLOATS(prod, PROD_OF)
FLOATS(max, comm_max_f32)
FLOATS(min, comm_min_f32)

#define ROW(type)                                                                                                      \
  {                                                                                                                    \
    [COMM_SUM] = comm_sum_##type##_vectors, [COMM_PROD] = comm_prod_##type##_vectors,                                  \
    [COMM_MAX] = comm_max_##type##_vectors, [COMM_MIN] = comm_min_##type##_vectors                                     \
  }
#define INTEGER_ROW(sign, bits)                                                                                        \
  {                                                                                                                    \
    [COMM_SUM] = comm_sum_##bits##_vectors, [COMM_PROD] = comm_prod_##bits##_vectors,                                  \
    [COMM_MAX] = comm_max_##sign##bits##_vectors, [COMM_MIN] = comm_min_##sign##bits##_vectors                         \
  }

#define LEVEL_NAME_(level) #level
#define LEVEL_NAME(level)  LEVEL_NAME_(level)
const comm_reduce_table LEVELED(comm_reduce_table) = {
    .name = LEVEL_NAME(LEVEL),
    .of =
        {
            [COMM_INT8] = INTEGER_ROW(int, 8),
            [COMM_INT16] = INTEGER_ROW(int, 16),
            [COMM_INT32] = INTEGER_ROW(int, 32),
            [COMM_INT64] = INTEGER_ROW(int, 64),
            [COMM_UINT8] = INTEGER_ROW(uint, 8),
            [COMM_UINT16] = INTEGER_ROW(uint, 16),
            [COMM_UINT32] = INTEGER_ROW(uint, 32),
            [COMM_UINT64] = INTEGER_ROW(uint, 64),
            [COMM_FP16] = ROW(fp16),
            [COMM_BF16] = ROW(bf16),
            [COMM_FP32] = ROW(fp32),
            [COMM_FP64] = ROW(fp64),
        },
    .copy = comm_copy_vectors,
};
