/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/peer.h"

#include <stdatomic.h>
#include <stdint.h>

#include "memory/space.h"
#include "runtime/device.h"

static _Atomic uint32_t reach[SPACE_MAX_DEVICES]; /* bit p of reach[d]: device d may access p */

static status check_pair(int device, int peer) {
  TRY(device_check(device, "deviceId"));
  TRY(device_check(peer, "peerDeviceId"));
  if (device == peer)
    return fail(ST_INVALID_VALUE, "peerDeviceId is %d, expected another than the device itself", peer);
  return ST_OK;
}

status peer_enable(int device, int peer) {
  TRY(check_pair(device, peer));
  atomic_fetch_or(&reach[device], 1u << peer);
  return ST_OK;
}

status peer_disable(int device, int peer) {
  TRY(check_pair(device, peer));
  if (!(atomic_fetch_and(&reach[device], ~(1u << peer)) >> peer & 1))
    return fail(ST_INVALID_VALUE, "peer access of device %d to %d is not enabled", device, peer);
  return ST_OK;
}

bool peer_is_enabled(int device, int peer) { return atomic_load(&reach[device]) >> peer & 1; }

status peer_check_copy(int dst_device, int src_device) {
  if (dst_device == src_device || peer_is_enabled(dst_device, src_device) || peer_is_enabled(src_device, dst_device))
    return ST_OK;
  return fail(ST_INVALID_VALUE, "copy between devices %d and %d, expected aclrtDeviceEnablePeerAccess before",
              src_device, dst_device);
}
