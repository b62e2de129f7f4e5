/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of sort.h, compiled once per instruction set level. */
#include <math.h>
#include <string.h>

#include "kernel/engine/level.h"
#include "kernel/sort/sort.h"

enum {
  RANK_MOST = 48,      /* up to so many entries are sorted by counting the smaller ones of each */
  LOOKED_AT = 1024,    /* up to so many entry accesses, over all passes, the smallest are found one by one */
  SHORT_DIGITS = 4096, /* from so many entries on, 11-bit digits pay off: fewer passes, larger histograms */
  LARGEST_DIGIT = 11,
  LOOK = 32, /* elements that are compared with a limit at a time */
};

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static inline uint32_t key_of_f32(uint32_t bits) {
  bits = bits == 0x80000000 ? 0 : bits;
  bits = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : bits;
  return bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000);
}
static inline uint32_t f32_of_key(uint32_t key) { return key & 0x80000000 ? key ^ 0x80000000 : ~key; }
static inline bool is_odd_f32(uint32_t bits) { return (bits == 0x80000000) | ((bits & 0x7fffffff) > 0x7f800000); }

static inline uint64_t key_of_f64(uint64_t bits) {
  bits = bits == UINT64_C(1) << 63 ? 0 : bits;
  bits = (bits & INT64_MAX) > UINT64_C(0x7ff) << 52 ? INT64_MAX : bits;
  return bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}
static inline uint64_t f64_of_key(uint64_t key) { return key >> 63 ? key ^ UINT64_C(1) << 63 : ~key; }
static inline bool is_odd_f64(uint64_t bits) {
  return (bits == UINT64_C(1) << 63) | ((bits & INT64_MAX) > UINT64_C(0x7ff) << 52);
}

static inline uint32_t key_of_i32(uint32_t bits) { return bits ^ 0x80000000; }
static inline uint32_t i32_of_key(uint32_t key) { return key ^ 0x80000000; }
static inline uint64_t key_of_i64(uint64_t bits) { return bits ^ UINT64_C(1) << 63; }
static inline uint64_t i64_of_key(uint64_t key) { return key ^ UINT64_C(1) << 63; }
static inline bool never_odd(uint64_t bits) {
  (void)bits;
  return false;
}

static inline entry32 entry32_of(uint32_t key, uint32_t number) { return (uint64_t)key << 32 | number; }
static inline uint32_t entry32_key(entry32 e) { return (uint32_t)(e >> 32); }
static inline uint32_t entry32_number(entry32 e) { return (uint32_t)e; }
static inline entry64 entry64_of(uint64_t key, uint64_t number) { return (entry64){key, number}; }
static inline uint64_t entry64_key(entry64 e) { return e.key; }
static inline uint64_t entry64_number(entry64 e) { return e.number; }

/* The order of sorting: by key, then by index, which is unique. */
static inline bool entry32_is_before(entry32 a, entry32 b) { return a < b; }
static inline bool entry64_is_before(entry64 a, entry64 b) {
  return (a.key < b.key) | ((a.key == b.key) & (a.number < b.number));
}

static const entry64 entry64_last = {UINT64_MAX, UINT64_MAX};
/* e if it comes after `other`, else the last of all entries */
static inline entry32 entry32_behind(entry32 e, entry32 other) { return e | -(uint64_t)(e <= other); }
static inline entry64 entry64_behind(entry64 e, entry64 other) {
  return entry64_is_before(other, e) ? e : entry64_last;
}

/* ---- sorting: E entries with keys of K --------------------------------------------------------------------------- */

#define SORTING(E, K)                                                                                                  \
  /* Writes each entry to the position given by the number of smaller ones: n^2 comparisons, but no branch. */         \
  static E *rank_##E(const E *a, E *b, int64_t n) {                                                                    \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      const E e = a[i];                                                                                                \
      uint64_t rank = 0;                                                                                               \
      for (int64_t j = 0; j < n; ++j) rank += E##_is_before(a[j], e);                                                  \
      b[rank] = e;                                                                                                     \
    }                                                                                                                  \
    return b;                                                                                                          \
  }                                                                                                                    \
                                                                                                                       \
  /* LSD radix sort; a digit that is the same in all entries needs no pass. */                                         \
  static inline E *radix_##E(E *a, E *b, int64_t n, const int bits) {                                                  \
    enum { MOST_DIGITS = (8 * sizeof(K) + 7) / 8 };                                                                    \
    uint32_t count[MOST_DIGITS << 8 > 6 << LARGEST_DIGIT ? MOST_DIGITS << 8 : 6 << LARGEST_DIGIT];                     \
    const int n_digits = (int)(8 * sizeof(K) + (size_t)bits - 1) / bits;                                               \
    const K mask = ((K)1 << bits) - 1;                                                                                 \
    memset(count, 0, sizeof *count *((size_t)n_digits << bits));                                                       \
    for (int64_t i = 0; i < n; ++i)                                                                                    \
      for (int d = 0; d < n_digits; ++d) ++count[(d << bits) + (int)(E##_key(a[i]) >> (d * bits) & mask)];             \
    for (int d = 0; d < n_digits; ++d) {                                                                               \
      uint32_t *const start = count + (d << bits);                                                                     \
      if (start[E##_key(a[0]) >> (d * bits) & mask] == n) continue;                                                    \
      uint32_t sum = 0;                                                                                                \
      for (int64_t v = 0; v <= (int64_t)mask; ++v) {                                                                   \
        const uint32_t c = start[v];                                                                                   \
        start[v] = sum;                                                                                                \
        sum += c;                                                                                                      \
      }                                                                                                                \
      for (int64_t i = 0; i < n; ++i) b[start[E##_key(a[i]) >> (d * bits) & mask]++] = a[i];                           \
      E *const t = a;                                                                                                  \
      a = b;                                                                                                           \
      b = t;                                                                                                           \
    }                                                                                                                  \
    return a;                                                                                                          \
  }                                                                                                                    \
                                                                                                                       \
  static void *sort_##E(void *entries, void *spare, int64_t n) {                                                       \
    if (n <= RANK_MOST) return rank_##E(entries, spare, n);                                                            \
    return n < SHORT_DIGITS ? radix_##E(entries, spare, n, 8) : radix_##E(entries, spare, n, LARGEST_DIGIT);           \
  }                                                                                                                    \
                                                                                                                       \
  /* Narrows down the k-th key digit by digit, most significant first. Entries above it are dropped, those below */    \
  /* are kept in a[0..*kept). The *left entries after them contain the k-th one. Within both parts entries with */     \
  /* equal keys stay in order. */                                                                                      \
  static void narrow_##E(E *a, E *b, int64_t n, int64_t k, int64_t *kept, int64_t *left) {                             \
    *kept = 0;                                                                                                         \
    *left = n;                                                                                                         \
    for (int shift = (int)(8 * sizeof(K)) - 8; shift >= 0 && *left > k - *kept && *left > RANK_MOST; shift -= 8) {     \
      uint32_t count[256] = {0};                                                                                       \
      E *const undecided = a + *kept;                                                                                  \
      for (int64_t i = 0; i < *left; ++i) ++count[E##_key(undecided[i]) >> shift & 255];                               \
      int64_t below = 0, digit = 0;                                                                                    \
      while (below + count[digit] < k - *kept) below += count[digit++];                                                \
      if (count[digit] == *left) continue;                                                                             \
      int64_t low = 0, equal = 0;                                                                                      \
      for (int64_t i = 0; i < *left; ++i) {                                                                            \
        const E e = undecided[i];                                                                                      \
        const int64_t d = (int64_t)(E##_key(e) >> shift & 255);                                                        \
        undecided[low] = e;                                                                                            \
        b[equal] = e;                                                                                                  \
        low += d < digit;                                                                                              \
        equal += d == digit;                                                                                           \
      }                                                                                                                \
      memcpy(undecided + low, b, (size_t)equal * sizeof(E));                                                           \
      *kept += low;                                                                                                    \
      *left = equal;                                                                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
                                                                                                                       \
  /* Starts from an entry and not from the largest value: QEMU 10.0.2 for aarch64 loses the first vector of a loop */  \
  /* of minimums that starts from all ones (compare its -one-insn-per-tb). */                                          \
  static E first_behind_##E(const E *a, int64_t n, E other) {                                                          \
    E best = E##_behind(a[0], other);                                                                                  \
    for (int64_t i = 1; i < n; ++i) {                                                                                  \
      const E e = E##_behind(a[i], other);                                                                             \
      best = E##_is_before(e, best) ? e : best;                                                                        \
    }                                                                                                                  \
    return best;                                                                                                       \
  }                                                                                                                    \
                                                                                                                       \
  static E first_##E(const E *a, int64_t n) {                                                                          \
    E best = a[0];                                                                                                     \
    for (int64_t i = 1; i < n; ++i) best = E##_is_before(a[i], best) ? a[i] : best;                                    \
    return best;                                                                                                       \
  }                                                                                                                    \
                                                                                                                       \
  static void smallest_in_turn_##E(const E *a, E *b, int64_t n, int64_t k) {                                           \
    b[0] = first_##E(a, n);                                                                                            \
    for (int64_t r = 1; r < k; ++r) b[r] = first_behind_##E(a, n, b[r - 1]);                                           \
  }                                                                                                                    \
                                                                                                                       \
  static void smallest_##E(void *entries, void *spare, int64_t n, int64_t k) {                                         \
    int64_t kept, left;                                                                                                \
    if (k == 1 || k * n <= LOOKED_AT) {                                                                                \
      smallest_in_turn_##E(entries, spare, n, k);                                                                      \
      memcpy(entries, spare, (size_t)k * sizeof(E));                                                                   \
      return;                                                                                                          \
    }                                                                                                                  \
    narrow_##E(entries, spare, n, k, &kept, &left);                                                                    \
    const E *const sorted = sort_##E(entries, spare, kept + left);                                                     \
    if (sorted != (E *)entries) memcpy(entries, sorted, (size_t)k * sizeof(E));                                        \
  }                                                                                                                    \
                                                                                                                       \
  static void kth_##E(void *entries, void *spare, int64_t n, int64_t k, void *found) {                                 \
    int64_t kept, left;                                                                                                \
    narrow_##E(entries, spare, n, k, &kept, &left);                                                                    \
    const E *const sorted = sort_##E((E *)entries + kept, spare, left);                                                \
    memcpy(found, &sorted[k - kept - 1], sizeof(E));                                                                   \
  }                                                                                                                    \
                                                                                                                       \
  static bool same_key_##E(const void *a, const void *b) { return E##_key(*(const E *)a) == E##_key(*(const E *)b); }

SORTING(entry32, uint32_t)
SORTING(entry64, uint64_t)

/* ---- elements with bits of type B to entries --------------------------------------------------------------------- */

#define ENTRIES(suffix, E, B, is_odd)                                                                                  \
  static bool pack_##suffix(void *entries, const void *x, int64_t first, int64_t n, bool descending) {                 \
    const B *const xs = x;                                                                                             \
    E *const es = entries;                                                                                             \
    const B flip = descending ? (B)-1 : 0;                                                                             \
    B odd = 0;                                                                                                         \
    for (int64_t i = 0; i < n; ++i) {                                                                                  \
      es[i] = E##_of(key_of_##suffix(xs[i]) ^ flip, (B)(first + i));                                                   \
      odd |= is_odd(xs[i]);                                                                                            \
    }                                                                                                                  \
    return odd;                                                                                                        \
  }                                                                                                                    \
                                                                                                                       \
  static void unpack_##suffix(void *x, int32_t *numbers, const void *entries, int64_t n, bool descending) {            \
    B *const xs = x;                                                                                                   \
    const E *const es = entries;                                                                                       \
    const B flip = descending ? (B)-1 : 0;                                                                             \
    if (x)                                                                                                             \
      for (int64_t i = 0; i < n; ++i) xs[i] = suffix##_of_key((B)(E##_key(es[i]) ^ flip));                             \
    if (numbers)                                                                                                       \
      for (int64_t i = 0; i < n; ++i) numbers[i] = (int32_t)E##_number(es[i]);                                         \
  }                                                                                                                    \
                                                                                                                       \
  static int64_t filter_##suffix(void *to, int64_t room, int64_t *n_found, const void *limit, const void *x,           \
                                 int64_t first, int64_t n, bool descending) {                                          \
    const B *const xs = x;                                                                                             \
    E *const es = to;                                                                                                  \
    const B flip = descending ? (B)-1 : 0, below = (B)E##_key(*(const E *)limit);                                      \
    int64_t i = 0, found = *n_found;                                                                                   \
    for (; i + LOOK <= n && found + LOOK <= room; i += LOOK) {                                                         \
      B key[LOOK], any = 0;                                                                                            \
      for (int l = 0; l < LOOK; ++l) {                                                                                 \
        key[l] = key_of_##suffix(xs[i + l]) ^ flip;                                                                    \
        any |= (B)(key[l] < below);                                                                                    \
      }                                                                                                                \
      if (!any) continue;                                                                                              \
      for (int l = 0; l < LOOK; ++l)                                                                                   \
        if (key[l] < below) es[found++] = E##_of(key[l], (B)(first + i + l));                                          \
    }                                                                                                                  \
    for (; i < n && i + LOOK > n && found < room; ++i) {                                                               \
      const B key = key_of_##suffix(xs[i]) ^ flip;                                                                     \
      es[found] = E##_of(key, (B)(first + i));                                                                         \
      found += key < below;                                                                                            \
    }                                                                                                                  \
    *n_found = found;                                                                                                  \
    return i;                                                                                                          \
  }

ENTRIES(f32, entry32, uint32_t, is_odd_f32)
ENTRIES(i32, entry32, uint32_t, never_odd)
ENTRIES(f64, entry64, uint64_t, is_odd_f64)
ENTRIES(i64, entry64, uint64_t, never_odd)

#define LOOPS(suffix, E)                                                                                               \
  {                                                                                                                    \
    .entry_bytes = sizeof(E), .pack = pack_##suffix, .unpack = unpack_##suffix, .sort = sort_##E,                      \
    .smallest = smallest_##E, .kth = kth_##E, .filter = filter_##suffix, .same_key = same_key_##E                      \
  }

const sort_table LEVELED(sorts) = {.of = {
                                       [COMPUTE_F32] = LOOPS(f32, entry32),
                                       [COMPUTE_I32] = LOOPS(i32, entry32),
                                       [COMPUTE_F64] = LOOPS(f64, entry64),
                                       [COMPUTE_I64] = LOOPS(i64, entry64),
                                   }};
