/* What the allocating entry points share. */
#ifndef CANNON_API_ALLOCATE_H
#define CANNON_API_ALLOCATE_H

#include "acl/acl.h"
#include "base/status.h"
#include "memory/rules.h"

/* A block by the rule, on the current device where it is not pinned. CANN takes policies outside of its enum. cfg:
 * NULL, or attributes of the block: a device must be the current one, the module is for CANN's own accounts. */
status allocate(rule_kind rule, int policy, const aclrtMallocConfig *cfg, size_t size, void *site, void **out);

#endif
