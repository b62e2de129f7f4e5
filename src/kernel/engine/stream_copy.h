/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by non-temporal stores, which bypass the caches. Only for files named *_level.c. */
#ifndef CANNON_KERNEL_ENGINE_STREAM_COPY_H
#define CANNON_KERNEL_ENGINE_STREAM_COPY_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#  include <immintrin.h>
#endif

enum { STREAM_LINE = 64 };

static inline void stream_line(char *to, const char *from) {
#if defined(__AVX512F__)
  _mm512_stream_si512((void *)to, _mm512_loadu_si512((const void *)from));
#elif defined(__AVX2__)
  const __m256i a = _mm256_loadu_si256((const void *)from), b = _mm256_loadu_si256((const void *)(from + 32));
  _mm256_stream_si256((void *)to, a);
  _mm256_stream_si256((void *)(to + 32), b);
#else
  memcpy(to, from, STREAM_LINE);
#endif
}

/* memcpy by stores that do not read the cache lines they replace: for results that are too large for the caches. Other
 * threads see the data after stream_end(). */
static inline void stream_bytes(char *to, const char *from, int64_t bytes) {
#if defined(__AVX512F__) || defined(__AVX2__)
  if (bytes < 4 * STREAM_LINE) {
    memmove(to, from, (size_t)bytes);
    return;
  }
  const int64_t head = (STREAM_LINE - (int64_t)((uintptr_t)to & (STREAM_LINE - 1))) & (STREAM_LINE - 1);
  memcpy(to, from, (size_t)head);
  int64_t i = head;
  for (; i + STREAM_LINE <= bytes; i += STREAM_LINE) stream_line(to + i, from + i);
  memcpy(to + i, from + i, (size_t)(bytes - i));
#else
  memmove(to, from, (size_t)bytes);
#endif
}

static inline void stream_end(void) {
#if defined(__AVX512F__) || defined(__AVX2__)
  _mm_sfence();
#endif
}

#endif
