/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/rules.h"

/* ---- pages ------------------------------------------------------------------------------------------------------- */

const uint64_t page_bytes[N_PAGE_KINDS] = {[PAGES_SMALL] = 4 << 10, [PAGES_HUGE] = 2 << 20, [PAGES_GIANT] = 1 << 30};

#define POLICY_SOURCE "CANN runtime API documentation, aclrtMemMallocPolicy"

const page_policy page_policies[N_POLICIES] = {
    [POLICY_HUGE_FIRST] = {"HUGE_FIRST", PAGES_HUGE, false, POLICY_SOURCE},
    [POLICY_HUGE_ONLY] = {"HUGE_ONLY", PAGES_HUGE, true, POLICY_SOURCE},
    [POLICY_NORMAL_ONLY] = {"NORMAL_ONLY", PAGES_SMALL, false, POLICY_SOURCE},
    [POLICY_HUGE_FIRST_P2P] = {"HUGE_FIRST_P2P", PAGES_HUGE, false, POLICY_SOURCE},
    [POLICY_HUGE_ONLY_P2P] = {"HUGE_ONLY_P2P", PAGES_HUGE, true, POLICY_SOURCE},
    [POLICY_NORMAL_ONLY_P2P] = {"NORMAL_ONLY_P2P", PAGES_SMALL, false, POLICY_SOURCE},
    [POLICY_GIANT_ONLY] = {"HUGE1G_ONLY", PAGES_GIANT, true, POLICY_SOURCE},
    [POLICY_GIANT_ONLY_P2P] = {"HUGE1G_ONLY_P2P", PAGES_GIANT, true, POLICY_SOURCE},
};

/* ---- allocations ------------------------------------------------------------------------------------------------- */

const char *const free_calls[N_FREE_KINDS] = {
    [FREE_DEVICE] = "aclrtFree", [FREE_HOST] = "aclrtFreeHost", [FREE_DVPP] = "acldvppFree, hi_mpi_dvpp_free"};

#define DOCUMENTED(page)  "CANN runtime API documentation, " page
#define DVPP_SOURCE(page) "CANN application development API, " page

const alloc_rule alloc_rules[N_RULES] = {
    [RULE_MALLOC] = {"aclrtMalloc", RULE_ROUND_BYTES, true, 64, ALLOC_DEVICE, FREE_DEVICE, DOCUMENTED("aclrtMalloc")},
    [RULE_MALLOC_ALIGN32] = {"aclrtMallocAlign32", 32, false, 32, ALLOC_DEVICE, FREE_DEVICE,
                             DOCUMENTED("aclrtMallocAlign32")},
    [RULE_MALLOC_CACHED] = {"aclrtMallocCached", 32, true, 64, ALLOC_DEVICE, FREE_DEVICE,
                            DOCUMENTED("aclrtMallocCached")},
    [RULE_MALLOC_WITH_CFG] = {"aclrtMallocWithCfg", 32, true, 64, ALLOC_DEVICE, FREE_DEVICE,
                              DOCUMENTED("aclrtMallocWithCfg")},
    [RULE_MALLOC_TASK_SCHEDULER] = {"aclrtMallocForTaskScheduler", 32, true, 64, ALLOC_DEVICE, FREE_DEVICE,
                                    "no source: as aclrtMalloc, whose arguments it has"},
    [RULE_MALLOC_HOST] = {"aclrtMallocHost", 64, false, 64, ALLOC_PINNED, FREE_HOST, DOCUMENTED("aclrtMallocHost")},
    [RULE_MALLOC_HOST_WITH_CFG] = {"aclrtMallocHostWithCfg", 64, false, 64, ALLOC_PINNED, FREE_HOST,
                                   DOCUMENTED("aclrtMallocHostWithCfg")},
    [RULE_MALLOC_MANAGED] = {"aclrtMemAllocManaged", 2 << 20, false, 64, ALLOC_MANAGED, FREE_DEVICE,
                             DOCUMENTED("aclrtMemAllocManaged")},
    [RULE_DVPP] = {"acldvppMalloc", 32, true, 128, ALLOC_DEVICE, FREE_DVPP, DVPP_SOURCE("acldvppMalloc")},
    [RULE_DVPP_WITH_CFG] = {"acldvppMallocWithCfg", 32, true, 128, ALLOC_DEVICE, FREE_DVPP,
                            DVPP_SOURCE("acldvppMalloc")},
    [RULE_DVPP_MPI] = {"hi_mpi_dvpp_malloc", 32, true, 128, ALLOC_DEVICE, FREE_DVPP, DVPP_SOURCE("hi_mpi_dvpp_malloc")},
    [RULE_MODEL] = {"aclmdlLoadFromFile", 32, true, 64, ALLOC_DEVICE, FREE_DEVICE, "no source: as aclrtMalloc"},
    [RULE_OPERATOR] = {"aclopCompileAndExecute", 32, true, 64, ALLOC_DEVICE, FREE_DEVICE, "no source: as aclrtMalloc"},
};

const char *origin_call(block_origin o) {
  const alloc_rule *rule = origin_rule(o);
  if (rule) return rule->call;
  switch (origin_kind(o)) {
  case RULE_MEM_POOL: return "aclrtMemPoolMallocAsync";
  case RULE_CANNON_POOL: return "cannon_pool_alloc";
  case RULE_PHYSICAL: return "aclrtMallocPhysical";
  default: return "an internal caller";
  }
}

/* ALIGN_UP(size, round) + slack; 0 where that overflows. */
static uint64_t grown(uint64_t size, uint64_t round, uint64_t slack) {
  if (size > UINT64_MAX - (round - 1)) return 0;
  const uint64_t rounded = (size + round - 1) / round * round;
  return rounded > UINT64_MAX - slack ? 0 : rounded + slack;
}

uint64_t rule_bytes_of_pages(const alloc_rule *rule, uint64_t size, uint32_t slack_bytes, page_kind pages) {
  const uint64_t bytes = grown(size, rule->round_bytes, rule->slack && pages != PAGES_GIANT ? slack_bytes : 0);
  return bytes ? grown(bytes, page_bytes[pages], 0) : 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

const carve_rule carve_rules[N_CARVE_USES] = {
    [CARVE_DEVICE] = {"device", 64, 32, true, DOCUMENTED("aclrtMalloc: blocks that the program divides itself")},
    [CARVE_DVPP] = {"DVPP", 128, 32, true, DVPP_SOURCE("acldvppMalloc: blocks that the program divides itself")},
    [CARVE_ASYNC_COPY] = {"asynchronous copy", 64, 1, false,
                          "CANN 6 to 8 API documentation, aclrtMemcpyAsync: 64-byte addresses; advice in 9"},
};

uint64_t carve_bytes(const carve_rule *rule, uint64_t length, uint32_t slack_bytes) {
  return grown(length, rule->round_bytes, rule->slack ? slack_bytes : 0);
}
