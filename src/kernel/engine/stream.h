/* Copies past the caches. Only for files named *_level.c. */
#ifndef CANNON_KERNEL_ENGINE_STREAM_H
#define CANNON_KERNEL_ENGINE_STREAM_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#  include <immintrin.h>
#endif

/* memcpy by stores that do not read the lines they replace: worth it where a result is too large for the caches. Other
 * threads see it after stream_end(). */
static inline void stream_bytes(char *to, const char *from, int64_t bytes) {
#if defined(__AVX512F__) || defined(__AVX2__)
  enum { LINE_BYTES = 64 };
  if (bytes < 4 * LINE_BYTES) {
    memmove(to, from, (size_t)bytes);
    return;
  }
  const int64_t head = (LINE_BYTES - (int64_t)((uintptr_t)to & (LINE_BYTES - 1))) & (LINE_BYTES - 1);
  memcpy(to, from, (size_t)head);
  int64_t i = head;
  for (; i + LINE_BYTES <= bytes; i += LINE_BYTES) {
#  ifdef __AVX512F__
    _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
#  else
    const __m256i a = _mm256_loadu_si256((const void *)(from + i)),
                  b = _mm256_loadu_si256((const void *)(from + i + 32));
    _mm256_stream_si256((void *)(to + i), a);
    _mm256_stream_si256((void *)(to + i + 32), b);
#  endif
  }
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
