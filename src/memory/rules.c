#include "memory/rules.h"

/* Source: semantics page, section 10 ("Device and host memory"). */
const alloc_rule alloc_rules[N_RULES] = {
    [RULE_MALLOC] = {"aclrtMalloc", .round_bytes = 32, .slack_bytes = 32, .promised_align = 64},
    [RULE_MALLOC_ALIGN32] = {"aclrtMallocAlign32", .round_bytes = 32, .slack_bytes = 0, .promised_align = 64},
    [RULE_MALLOC_CACHED] = {"aclrtMallocCached", .round_bytes = 32, .slack_bytes = 32, .promised_align = 64},
    [RULE_MALLOC_HOST] = {"aclrtMallocHost", .round_bytes = 64, .slack_bytes = 0, .promised_align = 64, .pinned = true},
};

uint64_t rule_bytes(const alloc_rule *rule, uint64_t size) {
  const uint64_t rounded = (size + rule->round_bytes - 1) & -(uint64_t)rule->round_bytes;
  if (size > UINT64_MAX - rule->round_bytes || rounded > UINT64_MAX - rule->slack_bytes) return 0;
  return rounded + rule->slack_bytes;
}
