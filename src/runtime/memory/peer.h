/* SPDX-License-Identifier: Apache-2.0 */
/* Peer access: which device may access which other device's memory. Access has a direction and holds for the whole
 * process. Called by src/api and copy.c. Thread-safe. */
#ifndef CANNON_RUNTIME_MEMORY_PEER_H
#define CANNON_RUNTIME_MEMORY_PEER_H

#include <stdbool.h>

#include "base/status.h"

/* Allow `device` to access the memory of `peer`, which must be another device; end that; and query it. */
status peer_enable(int device, int peer);
status peer_disable(int device, int peer);
bool peer_is_enabled(int device, int peer);

/* ST_INVALID_VALUE unless the devices are the same, or access between them is enabled in either direction. */
status peer_check_copy(int dst_device, int src_device);

#endif
