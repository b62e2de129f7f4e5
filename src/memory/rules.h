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
#include <stdint.h>

/* ---- pages ------------------------------------------------------------------------------------------------------- */

typedef enum { PAGES_SMALL, PAGES_HUGE, PAGES_GIANT, N_PAGE_KINDS } page_kind;
extern const uint64_t page_bytes[N_PAGE_KINDS];

/* Values are CANN's. `only`: blocks are whole pages of that kind, or there is no block. The others ask for huge pages
 * from more than HUGE_FIRST_BYTES on, and take small ones below or instead: a model, since blocks here lie where there is
 * room, whatever the host's pages are. */
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

/* What nearly all programs ask for, where nothing needs to be looked up. */
static inline bool policy_is_usual(int policy) { return policy == POLICY_HUGE_FIRST || policy == POLICY_NORMAL_ONLY; }

/* The pages that a request of `size` bytes is made of. */
page_kind policy_pages(int policy, uint64_t size);

/* ---- allocations ------------------------------------------------------------------------------------------------- */

typedef enum { ALLOC_ON_DEVICE, ALLOC_ON_HOST, ALLOC_MANAGED /* of host and devices */ } alloc_place;

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
  RULE_MALLOC_MANAGED,
  RULE_MALLOC_HOST,
  RULE_MALLOC_HOST_WITH_CFG,
  RULE_DVPP,
  RULE_DVPP_WITH_CFG,
  RULE_DVPP_MPI,
  N_RULES
} rule_kind;

extern const alloc_rule alloc_rules[N_RULES];

/* Device blocks start at multiples of 512, of which frameworks that carve blocks up make use; pinned blocks on pages,
 * since programs register what they get. Both are above everything promised. */
enum { RULE_DEVICE_UNIT_SHIFT = 9, RULE_PINNED_UNIT_SHIFT = 12, RULE_DEFAULT_SLACK_BYTES = 32 };

/* ALIGN_UP(size, round) + slack; 0 where that overflows. */
static inline uint64_t rule_grown(uint64_t size, uint64_t round, uint64_t slack) {
  const uint64_t rounded = (size + round - 1) & -round;
  return size > UINT64_MAX - round || rounded > UINT64_MAX - slack ? 0 : rounded + slack;
}

/* What a request of `size` bytes makes of it; 0 where that overflows. */
uint64_t rule_bytes_of_policy(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, int policy);
static inline uint64_t rule_bytes(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, int policy) {
  if (policy_is_usual(policy)) return rule_grown(size, rule->round_bytes, rule->slack ? slack_bytes : 0);
  return rule_bytes_of_policy(rule, size, slack_bytes, policy);
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
