/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of compact.h, compiled once per instruction set level. */
#include "kernel/engine/level.h"
#include "kernel/sort/compact.h"

#if defined(__AVX512F__)
#  include <immintrin.h>
#endif

static int64_t compact_places(int32_t *to, const uint8_t *mask, int64_t n) {
  int64_t i = 0, found = 0;
#if defined(__AVX512F__) && defined(__AVX512BW__)
  const __m512i step = _mm512_set1_epi32(16);
  __m512i number = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (; i + 64 <= n; i += 64) {
    uint64_t is_set = _mm512_test_epi8_mask(_mm512_loadu_si512(mask + i), _mm512_set1_epi8(-1));
    for (int k = 0; k < 4; ++k, is_set >>= 16) {
      const __mmask16 some = (__mmask16)is_set;
      _mm512_storeu_si512(to + found, _mm512_maskz_compress_epi32(some, number));
      found += __builtin_popcount(some);
      number = _mm512_add_epi32(number, step);
    }
  }
#endif
  for (; i < n; ++i) {
    to[found] = (int32_t)i;
    found += mask[i] != 0;
  }
  return found;
}

static int64_t compact_count(const uint8_t *mask, int64_t n) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) found += mask[i] != 0;
  return found;
}

#define TAKE(T)                                                                                                        \
  for (int64_t i = 0; i < n; ++i)                                                                                      \
    *(T *)(void *)((char *)to + i * to_stride) = *(const T *)(const void *)((const char *)from + place[i] * stride);

typedef struct {
  uint64_t half[2];
} bytes_16;

static void compact_take(void *to, int64_t to_stride, const void *from, int64_t stride, const int32_t *place, int64_t n,
                         int bytes) {
  switch (bytes) {
  case 1: TAKE(uint8_t) break;
  case 2: TAKE(uint16_t) break;
  case 4: TAKE(uint32_t) break;
  case 8: TAKE(uint64_t) break;
  default: TAKE(bytes_16) break;
  }
}

const compact_table LEVELED(compacts) = {.places = compact_places, .count = compact_count, .take = compact_take};
