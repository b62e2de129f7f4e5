/* What the allocating entry points share. */
#ifndef CANNON_API_ALLOCATE_H
#define CANNON_API_ALLOCATE_H

#include "acl/acl.h"
#include "memory/memory.h"
#include "runtime/context.h"

/* Attributes of a block: a device must be the current one, the module is for CANN's own accounts. */
status allocate_check_config(const aclrtMallocConfig *cfg, bool host, int device);

/* A block by the rule, on the current device if on one; cfg may be NULL. CANN takes policies outside of its enum. */
static inline status allocate_by_rule(rule_kind kind, int policy, const aclrtMallocConfig *cfg, size_t size, void *site,
                                      void **out) {
  const alloc_rule *rule = &alloc_rules[kind];
  context *c;
  TRY(context_current(&c));
  if (cfg) TRY(allocate_check_config(cfg, rule->place != ALLOC_DEVICE, c->device));
  return memory_alloc(c->device, rule, policy, size, site, out);
}

#endif
