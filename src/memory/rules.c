#include "memory/rules.h"

/* Source: semantics page, section 10 ("Device and host memory"). */
const alloc_rule alloc_rules[N_RULES] = {
    [RULE_MALLOC] = {"aclrtMalloc", .round_bytes = 32, .slack_bytes = 32, .promised_align = 64},
    [RULE_MALLOC_ALIGN32] = {"aclrtMallocAlign32", .round_bytes = 32, .slack_bytes = 0, .promised_align = 64},
    [RULE_MALLOC_CACHED] = {"aclrtMallocCached", .round_bytes = 32, .slack_bytes = 32, .promised_align = 64},
    [RULE_MALLOC_HOST] = {"aclrtMallocHost", .round_bytes = 64, .slack_bytes = 0, .promised_align = 64, .pinned = true},
    [RULE_MALLOC_MANAGED] = {"aclrtMemAllocManaged", .round_bytes = 2 << 20, .promised_align = 64, .managed = true},
};
