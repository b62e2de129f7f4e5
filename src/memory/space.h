/* SPDX-License-Identifier: Apache-2.0 */
/* The map of the address space: where device memory, pinned and managed host memory and reservations are. It is fixed
 * for the life of the process. Used everywhere; calls only the system.
 *
 *   device d, the user's addresses     [device_base + d·stride, + stride)   PROT_NONE, no memory
 *   device d, the kernels' view        the same + view_distance             the memory itself
 *   pinned host memory                 [pinned_base, + stride)              ordinary memory, kernels use it directly
 *   reservations (memory/vmm/vmm.h)    [vmm_base, + vmm_bytes)              PROT_NONE, no memory
 *   the kernels' view of reservations  the same + vmm_distance              the mapped memory
 *   managed memory                     [managed_base, + managed_bytes)      ordinary memory, kernels use it directly
 *
 * So it takes a subtraction and a shift to find out what an address is, and an addition to translate it. The windows
 * are reserved when the library is loaded, which takes addresses but no memory. Reservations and managed memory are
 * where CANN has them, at 16 to 24 TiB and 9 to 12 TiB; in builds with ThreadSanitizer, which uses parts of the address
 * space itself, the windows are smaller and the kernel chooses their places. */
#ifndef CANNON_MEMORY_SPACE_H
#define CANNON_MEMORY_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sanitizer.h"
#include "base/status.h"

enum {
  SPACE_MAX_DEVICES = 16,
  SPACE_STRIDE_SHIFT = WITH_TSAN ? 34 : 40, /* a device's window: 1 TiB; no device is larger */
};

typedef struct {
  uintptr_t device_base, pinned_base; /* both 0 where the kernel refused the windows; so below */
  uintptr_t view_distance;
  uintptr_t vmm_base, vmm_bytes, vmm_distance;
  uintptr_t managed_base, managed_bytes;
} space_layout;

/* Set before main, constant afterwards. */
extern INTERNAL space_layout space;

/* ST_NO_MEMORY with the reason where the windows of devices, of reservations or of managed memory could not be
 * reserved. */
status space_check(void);
status space_check_reservations(void);
status space_check_managed(void);

static inline uintptr_t space_stride(void) { return (uintptr_t)1 << SPACE_STRIDE_SHIFT; }

/* The device whose window holds the address, or -1. */
static inline int space_device_of(uintptr_t address) {
  const uintptr_t distance = address - space.device_base;
  return distance >> SPACE_STRIDE_SHIFT < SPACE_MAX_DEVICES && space.device_base ? (int)(distance >> SPACE_STRIDE_SHIFT)
                                                                                 : -1;
}

static inline bool space_is_pinned(uintptr_t address) {
  return space.pinned_base && address - space.pinned_base < space_stride();
}

static inline bool space_is_reserved(uintptr_t address) { return address - space.vmm_base < space.vmm_bytes; }

static inline bool space_is_managed(uintptr_t address) { return address - space.managed_base < space.managed_bytes; }

static inline uintptr_t space_device_window(int device) {
  return space.device_base + ((uintptr_t)device << SPACE_STRIDE_SHIFT);
}

#endif
