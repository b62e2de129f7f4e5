/* Overlaps in a plan, found by bytes and times alone: nothing of what planning makes of a problem is used but which
 * buffers are in place of each other. */
#ifndef CANNON_PLAN_OVERLAP_H
#define CANNON_PLAN_OVERLAP_H

#include "plan/instance.h"

/* Whether two buffers overlap that must not, and which; those at CANNON_PLAN_ANYWHERE are left out. */
bool overlap_find(instance *in, const uint64_t *offsets, uint32_t *a, uint32_t *b);

#endif
