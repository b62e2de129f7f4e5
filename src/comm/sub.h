/* SPDX-License-Identifier: Apache-2.0 */
/* How the members of a sub-communicator find their node's memory: they exchange nothing, so the first one that comes
 * leaves word of it in the memory of the communicator that they come from. Called by communicator.c. Thread-safe. */
#ifndef CANNON_COMM_SUB_H
#define CANNON_COMM_SUB_H

#include "comm/node.h"

/* The node of n_members of the node `of`, with a reference. key: identifies the sub-communicator among those of `of`;
 * all members give the same. ST_INVALID_VALUE where too many sub-communicators are under way. */
status sub_node(node *of, uint64_t key, uint32_t n_members, uint64_t device_bytes, node **out);

#endif
