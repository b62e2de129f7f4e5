/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of each kind of allocation, as CANN documents them: tables in which each row names its source. Used by
 * memory.c and carve.c, and printed by cannon info --rules:
 *
 *   alloc_rules     how an allocating function rounds a size, and which function frees its blocks
 *   page_policies   which pages of the device a block consists of
 *   carve_rules     the rules for pieces that a program carves out of a block
 *
 * Constant data; thread-safe. */
#ifndef CANNON_MEMORY_RULES_H
#define CANNON_MEMORY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ---- pages ------------------------------------------------------------------------------------------------------- */

typedef enum { PAGES_SMALL, PAGES_HUGE, PAGES_GIANT, N_PAGE_KINDS } page_kind;
extern const uint64_t page_bytes[N_PAGE_KINDS];

/* A row per value of CANN's enum. `only`: a block consists of whole pages of that kind, or is refused. The other
 * policies ask for huge pages for blocks of more than HUGE_FIRST_BYTES, and take small pages for others, or where there
 * are no huge ones. Here huge pages do not run out before memory does. The kind of a block's pages is only reported by
 * aclrtPointerGetAttributes; it has no influence on where the heap puts the block. */
typedef struct {
  const char *name;
  page_kind pages;
  bool only;
  const char *source;
} page_policy;

enum {
  POLICY_HUGE_FIRST,
  POLICY_HUGE_ONLY,
  POLICY_NORMAL_ONLY,
  POLICY_HUGE_FIRST_P2P,
  POLICY_HUGE_ONLY_P2P,
  POLICY_NORMAL_ONLY_P2P,
  POLICY_GIANT_ONLY,
  POLICY_GIANT_ONLY_P2P,
  N_POLICIES,
  POLICY_HINTS = 0x101100, /* bits for low and high bandwidth and read-only memory in user space, which may be OR-ed to
                              the others */
  HUGE_FIRST_BYTES = 1 << 20,
  HUGE_UNKNOWN_BYTES = 2 << 20, /* a policy outside of the enum takes huge pages for blocks of at least this size */
};
extern const page_policy page_policies[N_POLICIES];

/* The row of a policy; NULL for a value outside of CANN's enum. */
static inline const page_policy *policy_of(int policy) {
  const unsigned value = (unsigned)policy & ~(unsigned)POLICY_HINTS;
  return value < N_POLICIES ? &page_policies[value] : NULL;
}

/* The kind of pages for a request of `size` bytes. */
static inline page_kind policy_pages(int policy, uint64_t size) {
  const page_policy *p = policy_of(policy);
  if (!p) return size >= HUGE_UNKNOWN_BYTES ? PAGES_HUGE : PAGES_SMALL;
  return p->only || size > HUGE_FIRST_BYTES ? p->pages : PAGES_SMALL;
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

typedef enum { ALLOC_DEVICE, ALLOC_PINNED, ALLOC_MANAGED } alloc_place;
typedef enum { FREE_DEVICE, FREE_HOST, FREE_DVPP, N_FREE_KINDS } free_kind;
extern const char *const free_calls[N_FREE_KINDS];

typedef struct {
  const char *call;        /* CANN's function */
  uint32_t round_bytes;    /* the size is rounded up to a multiple of this power of two */
  bool slack;              /* whether the device profile's slack bytes are added, except for giant pages */
  uint32_t promised_align; /* documented alignment of the start */
  alloc_place place;
  free_kind freed_by;
  const char *source;
} alloc_rule;

typedef enum {
  RULE_MALLOC,
  RULE_MALLOC_ALIGN32,
  RULE_MALLOC_CACHED,
  RULE_MALLOC_WITH_CFG,
  RULE_MALLOC_TASK_SCHEDULER,
  RULE_MALLOC_HOST,
  RULE_MALLOC_HOST_WITH_CFG,
  RULE_MALLOC_MANAGED,
  RULE_DVPP,
  RULE_DVPP_WITH_CFG,
  RULE_DVPP_MPI,
  RULE_OPERATOR, /* memory that the library takes itself, between the tasks of an operator by name */
  RULE_MODEL,    /* a model's weights and arena */
  N_RULES,
  /* Calls whose sizes their own code rounds: they have a name, but no row in alloc_rules. */
  RULE_MEM_POOL = N_RULES, /* aclrtMemPoolMallocAsync */
  RULE_CANNON_POOL,        /* cannon_pool_alloc */
  RULE_PHYSICAL,           /* aclrtMallocPhysical */
  RULE_OTHER,              /* a caller inside this project: replayed traces, tests */
  N_RULE_KINDS
} rule_kind;

extern INTERNAL const alloc_rule alloc_rules[N_RULES];

/* Where a block comes from: the kind of rule and the kind of the block's pages, in one number. */
typedef uint32_t block_origin;

static inline block_origin origin_of(rule_kind rule, page_kind pages) {
  return (block_origin)rule * N_PAGE_KINDS + (block_origin)pages;
}
static inline rule_kind origin_kind(block_origin o) { return (rule_kind)(o / N_PAGE_KINDS); }
static inline page_kind origin_pages(block_origin o) { return (page_kind)(o % N_PAGE_KINDS); }

/* The rule's row; NULL for a kind that has none. */
static inline const alloc_rule *origin_rule(block_origin o) {
  return origin_kind(o) < N_RULES ? &alloc_rules[origin_kind(o)] : NULL;
}

/* The name of the function that allocated the block; a string constant. */
const char *origin_call(block_origin o);

/* Device blocks start at multiples of 512 bytes, which frameworks that carve up blocks rely on; pinned blocks start on
 * pages, since programs register parts of them. Both alignments are higher than documented. */
enum { RULE_DEVICE_UNIT_SHIFT = 9, RULE_PINNED_UNIT_SHIFT = 12, RULE_DEFAULT_SLACK_BYTES = 32 };

enum { RULE_ROUND_BYTES = 32 /* of aclrtMalloc */ };

/* As rule_bytes, rounded up to whole pages of that kind. */
uint64_t rule_bytes_of_pages(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, page_kind pages);

/* The length of the block for a request of `size` bytes: ALIGN_UP(size, round) + slack, in whole pages where the policy
 * says so; 0 where that overflows. */
static inline uint64_t rule_bytes(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, int policy) {
  const page_policy *p = policy_of(policy);
  if (p && p->only) return rule_bytes_of_pages(rule, size, slack_bytes, p->pages);
  const uint64_t slack = rule->slack ? slack_bytes : 0;
  const uint64_t rounded = (size + rule->round_bytes - 1) & -(uint64_t)rule->round_bytes;
  if (size > UINT64_MAX - (rule->round_bytes - 1) || rounded > UINT64_MAX - slack) return 0;
  return rounded + slack;
}

/* The largest request whose block has at most `room` bytes, given that a request of `requested` bytes was rounded up to
 * a multiple of `round`, a power of two, and then enlarged to `bytes` by adding a constant. */
static inline uint64_t rule_largest_request(uint64_t round, uint64_t room, uint64_t bytes, uint64_t requested) {
  const uint64_t more = bytes - ((requested + round - 1) & -round);
  return room > more ? (room - more) & -round : 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

typedef enum { CARVE_DEVICE, CARVE_DVPP, CARVE_ASYNC_COPY, N_CARVE_USES } carve_use;

typedef struct {
  const char *use;
  uint32_t start_align, round_bytes;
  bool slack; /* whether the device profile's slack bytes are added */
  const char *source;
} carve_rule;

extern const carve_rule carve_rules[N_CARVE_USES];

/* Bytes that a piece of `length` occupies; 0 where that overflows. */
uint64_t carve_bytes(const carve_rule *rule, uint64_t length, uint32_t slack_bytes);

#endif
