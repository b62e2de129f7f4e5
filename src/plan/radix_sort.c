/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/radix_sort.h"

enum { DIGIT_BITS = 8, N_DIGITS = 64 / DIGIT_BITS, N_VALUES = 1 << DIGIT_BITS };

static size_t digit_of(uint64_t key, int digit) { return (size_t)(key >> digit * DIGIT_BITS) & (N_VALUES - 1); }

void keyed_sort(keyed *a, keyed *spare, size_t n) {
  uint32_t count[N_DIGITS][N_VALUES] = {{0}};
  keyed *from = a, *to = spare;
  for (size_t i = 0; i < n; ++i)
    for (int d = 0; d < N_DIGITS; ++d) ++count[d][digit_of(a[i].key, d)];
  for (int d = 0; d < N_DIGITS; ++d) {
    if (n && count[d][digit_of(a[0].key, d)] == n) continue; /* all keys have the same digit */
    uint32_t start = 0;
    for (int v = 0; v < N_VALUES; ++v) {
      const uint32_t here = count[d][v];
      count[d][v] = start;
      start += here;
    }
    for (size_t i = 0; i < n; ++i) to[count[d][digit_of(from[i].key, d)]++] = from[i];
    keyed *const swap = from;
    from = to;
    to = swap;
  }
  if (from != a) memcpy(a, from, n * sizeof *a);
}
