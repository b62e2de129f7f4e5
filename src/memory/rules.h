/* The rules of each kind of allocation, as CANN documents them. Tables, each row with its source, used by memory.c and
 * by whoever explains (cannon info --rules, memory/carve.h):
 *
 *   alloc_rules     what an allocating function makes of a size, and who frees its blocks
 *   page_policies   which pages of the device a block is made of
 *   carve_rules     what a piece that a program carves out of a block must keep to
 *
 * Constant data; any thread. */
#ifndef CANNON_MEMORY_RULES_H
#define CANNON_MEMORY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* ---- pages ------------------------------------------------------------------------------------------------------- */

typedef enum { PAGES_SMALL, PAGES_HUGE, PAGES_GIANT, N_PAGE_KINDS } page_kind;
extern const uint64_t page_bytes[N_PAGE_KINDS];

/* Values are CANN's. `only`: blocks are whole pages of that kind, or there is no block. The others ask for huge pages
 * above HUGE_FIRST_BYTES, and take small ones below or instead: here huge pages do not run out before memory does, so
 * that falling back changes no answer. What a block got is what aclrtPointerGetAttributes says, and no more: how its
 * memory really lies is the heap's. */
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
  POLICY_HINTS = 0x101100, /* low and high bandwidth, read-only in user space: may be OR-ed to the others */
  HUGE_FIRST_BYTES = 1 << 20,
  HUGE_UNKNOWN_BYTES = 2 << 20, /* what is outside of the enum takes huge pages from here on */
};
extern const page_policy page_policies[N_POLICIES];

/* The row of a policy; NULL for what is outside of CANN's enum. */
static inline const page_policy *policy_of(int policy) {
  const unsigned value = (unsigned)policy & ~(unsigned)POLICY_HINTS;
  return value < N_POLICIES ? &page_policies[value] : NULL;
}

/* The pages that a request of `size` bytes is made of. */
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
  uint32_t round_bytes;    /* a power of two that the size is rounded up to */
  bool slack;              /* and grows by what the device's profile says, but for giant pages */
  uint32_t promised_align; /* of the start, as documented */
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
  N_RULES,
  /* Calls whose sizes their own code rounds: they have a name, but no row in alloc_rules. */
  RULE_MEM_POOL = N_RULES, /* aclrtMemPoolMallocAsync */
  RULE_CANNON_POOL,        /* cannon_pool_alloc */
  RULE_PHYSICAL,           /* aclrtMallocPhysical */
  RULE_OTHER,              /* a caller inside this project: replayed traces, tests */
  N_RULE_KINDS
} rule_kind;

extern INTERNAL const alloc_rule alloc_rules[N_RULES];

/* Where a block comes from, in one number: the kind of rule, and the kind of pages that it is made of. */
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

/* Device blocks start at multiples of 512, of which frameworks that carve blocks up make use; pinned blocks on pages,
 * since programs register what they get. Both are above everything promised. */
enum { RULE_DEVICE_UNIT_SHIFT = 9, RULE_PINNED_UNIT_SHIFT = 12, RULE_DEFAULT_SLACK_BYTES = 32 };

enum { RULE_ROUND_BYTES = 32 /* of aclrtMalloc */ };

/* The same in whole pages. */
uint64_t rule_bytes_of_pages(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, page_kind pages);

/* What a request of `size` bytes makes of it: ALIGN_UP(size, round) + slack, in whole pages where the policy says so; 0
 * where that overflows. */
static inline uint64_t rule_bytes(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, int policy) {
  const page_policy *p = policy_of(policy);
  if (p && p->only) return rule_bytes_of_pages(rule, size, slack_bytes, p->pages);
  const uint64_t slack = rule->slack ? slack_bytes : 0;
  const uint64_t rounded = (size + rule->round_bytes - 1) & -(uint64_t)rule->round_bytes;
  if (size > UINT64_MAX - (rule->round_bytes - 1) || rounded > UINT64_MAX - slack) return 0;
  return rounded + slack;
}

/* The largest request that becomes `room` bytes or fewer where one of `requested` became `bytes`, in which it was rounded up
 * to `round`, a power of two, and got more behind. */
static inline uint64_t rule_most(uint64_t round, uint64_t room, uint64_t bytes, uint64_t requested) {
  const uint64_t more = bytes - ((requested + round - 1) & -round);
  return room > more ? (room - more) & -round : 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

typedef enum { CARVE_DEVICE, CARVE_DVPP, CARVE_ASYNC_COPY, N_CARVE_USES } carve_use;

typedef struct {
  const char *use;
  uint32_t start_align, round_bytes;
  bool slack; /* the device's, as in alloc_rule */
  const char *source;
} carve_rule;

extern const carve_rule carve_rules[N_CARVE_USES];

/* Bytes that a piece of `length` occupies; 0 where that overflows. */
uint64_t carve_bytes(const carve_rule *rule, uint64_t length, uint32_t slack_bytes);

#endif
