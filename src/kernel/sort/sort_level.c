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
static inline uint32_t bits_of_f32(uint32_t key) { return key & 0x80000000 ? key ^ 0x80000000 : ~key; }
static inline bool is_odd_f32(uint32_t bits) { return (bits == 0x80000000) | ((bits & 0x7fffffff) > 0x7f800000); }

static inline uint64_t key_of_f64(uint64_t bits) {
  bits = bits == UINT64_C(1) << 63 ? 0 : bits;
  bits = (bits & INT64_MAX) > UINT64_C(0x7ff) << 52 ? INT64_MAX : bits;
  return bits ^ ((uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63);
}
static inline uint64_t bits_of_f64(uint64_t key) { return key >> 63 ? key ^ UINT64_C(1) << 63 : ~key; }
static inline bool is_odd_f64(uint64_t bits) {
  return (bits == UINT64_C(1) << 63) | ((bits & INT64_MAX) > UINT64_C(0x7ff) << 52);
}

static inline uint32_t key_of_i32(uint32_t bits) { return bits ^ 0x80000000; }
static inline uint32_t bits_of_i32(uint32_t key) { return key ^ 0x80000000; }
static inline uint64_t key_of_i64(uint64_t bits) { return bits ^ UINT64_C(1) << 63; }
static inline uint64_t bits_of_i64(uint64_t key) { return key ^ UINT64_C(1) << 63; }
static inline bool never_odd(uint64_t bits) {
  (void)bits;
  return false;
}
#define is_odd_i32 never_odd
#define is_odd_i64 never_odd

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

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

#define ENTRY       entry32
#define KEY         uint32_t
#define OF_ENTRY(f) entry32_##f
#include "kernel/sort/sort_entries.inc"

#define ENTRY       entry64
#define KEY         uint64_t
#define OF_ENTRY(f) entry64_##f
#include "kernel/sort/sort_entries.inc"

/* ---- elements and entries ---------------------------------------------------------------------------------------- */

#define NAME(f)     f##_f32
#define ENTRY       entry32
#define KEY         uint32_t
#define OF_ENTRY(f) entry32_##f
#include "kernel/sort/sort_elements.inc"

#define NAME(f)     f##_i32
#define ENTRY       entry32
#define KEY         uint32_t
#define OF_ENTRY(f) entry32_##f
#include "kernel/sort/sort_elements.inc"

#define NAME(f)     f##_f64
#define ENTRY       entry64
#define KEY         uint64_t
#define OF_ENTRY(f) entry64_##f
#include "kernel/sort/sort_elements.inc"

#define NAME(f)     f##_i64
#define ENTRY       entry64
#define KEY         uint64_t
#define OF_ENTRY(f) entry64_##f
#include "kernel/sort/sort_elements.inc"

#define LOOPS(suffix, E)                                                                                               \
  {                                                                                                                    \
    .entry_bytes = sizeof(E), .pack = pack_##suffix, .unpack = unpack_##suffix, .sort = E##_sort,                      \
    .smallest = E##_smallest, .kth = E##_kth, .filter = filter_##suffix, .same_key = E##_same_key                      \
  }

const sort_table LEVELED(sorts) = {.of = {
                                       [COMPUTE_F32] = LOOPS(f32, entry32),
                                       [COMPUTE_I32] = LOOPS(i32, entry32),
                                       [COMPUTE_F64] = LOOPS(f64, entry64),
                                       [COMPUTE_I64] = LOOPS(i64, entry64),
                                   }};
