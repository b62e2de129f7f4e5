/* SPDX-License-Identifier: Apache-2.0 */
/* Finds overlaps in a plan from bytes and times alone. To be independent of the planner, it uses nothing of an
 * instance but its single rectangles, alias pairs, and which buffers share an item. */
#ifndef CANNON_PLAN_OVERLAP_H
#define CANNON_PLAN_OVERLAP_H

#include "plan/instance.h"

/* Returns whether two buffers overlap that must not, and stores their indices in *a and *b. Buffers whose offset is
 * CANNON_PLAN_ANYWHERE are left out. Overwrites the scratch arrays of the instance. */
bool overlap_find(instance *in, const uint64_t *offsets, uint32_t *a, uint32_t *b);

#endif
