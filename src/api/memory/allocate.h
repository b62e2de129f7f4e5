/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the entry points that allocate (memory.c, dvpp.c, managed.c). Any thread. */
#ifndef CANNON_API_MEMORY_ALLOCATE_H
#define CANNON_API_MEMORY_ALLOCATE_H

#include "acl/acl.h"
#include "memory/memory.h"
#include "runtime/context.h"

/* Checks the attributes of a block: ST_INVALID_VALUE for another device than the current one. The module attribute is
 * only for CANN's own accounting and is accepted as it is. */
status allocate_check_config(const aclrtMallocConfig *cfg, bool host, int device);

/* Allocates a block by the rule `kind`, on the current device if the rule places blocks on devices. cfg may be NULL.
 * Policies outside of CANN's enum are accepted, as in CANN. site: the entry point's return address. */
static inline status allocate_by_rule(rule_kind kind, int policy, const aclrtMallocConfig *cfg, size_t size, void *site,
                                      void **out) {
  const alloc_rule *rule = &alloc_rules[kind];
  context *c;
  TRY(context_current(&c));
  if (cfg) TRY(allocate_check_config(cfg, rule->place != ALLOC_DEVICE, c->device));
  return memory_alloc(c->device, rule, policy, size, site, out);
}

#endif
