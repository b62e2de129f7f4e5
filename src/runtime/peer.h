/* Which device may reach which other's memory. One-directional, process-wide; any thread. */
#ifndef CANNON_RUNTIME_PEER_H
#define CANNON_RUNTIME_PEER_H

#include <stdbool.h>

#include "base/status.h"

/* Lets `device` reach `peer`. Both must be devices and differ. */
status peer_enable(int device, int peer);
status peer_disable(int device, int peer);
bool peer_is_enabled(int device, int peer);

/* A copy between the two: on one device, or enabled in either direction. */
status peer_check_copy(int dst_device, int src_device);

#endif
