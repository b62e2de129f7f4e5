#include "kernel/conv/direct_pairs.h"

const pair_kernel *direct_pairs(void) {
  const pair_kernel *const amx = direct_amx();
  return amx ? amx : direct_dots();
}

void pair_range_join(float_range *range, const float_range *by) {
  uint32_t least = __atomic_load_n(&range->least, __ATOMIC_RELAXED);
  uint32_t most = __atomic_load_n(&range->most, __ATOMIC_RELAXED);
  while (by->least < least &&
         !__atomic_compare_exchange_n(&range->least, &least, by->least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  while (by->most > most &&
         !__atomic_compare_exchange_n(&range->most, &most, by->most, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

static int exponent(uint32_t magnitude) { return (int)(magnitude >> 23) - 127; }

bool pair_parts_suffice(const float_range *x, const float_range *w, int64_t terms) {
  enum { LEAST = -100, MOST = 120, GREATEST = 126 };
  if (x->most == 0 || w->most == 0) return exponent(x->most) < GREATEST && exponent(w->most) < GREATEST;
  const int least[2] = {exponent(x->least), exponent(w->least)}, most[2] = {exponent(x->most), exponent(w->most)};
  const int doublings = 64 - __builtin_clzll((unsigned long long)terms);
  return least[0] >= LEAST && least[1] >= LEAST && least[0] + least[1] >= LEAST && most[0] < GREATEST &&
         most[1] < GREATEST && most[0] + most[1] + doublings <= MOST;
}
