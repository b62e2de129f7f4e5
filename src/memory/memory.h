/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of all devices and of the host, as src/api, src/op and the runtime use it: allocates and frees blocks by
 * the rules of rules.h, classifies addresses, and translates them for kernels. Calls heap/, pool/, vmm/ and share/.
 * Thread-safe. */
#ifndef CANNON_MEMORY_MEMORY_H
#define CANNON_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/invariant.h"
#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/heap/thread_cache.h"
#include "memory/registered.h"
#include "memory/rules.h"
#include "memory/space.h"
#include "memory/vmm/vmm.h"

/* Creates a device's heap; repeated calls do nothing. check_host: whether allocations are refused that the host has no
 * memory for. Installs the fault handler. */
status memory_open_device(int device, uint64_t size_bytes, bool check_host);

/* Sets how heaps learn which tasks are pending; called before the first device is opened. *given must stay. */
void memory_set_fences(const heap_fences *fences);
const heap_fences *memory_fences(void);

/* Slack bytes that are added to blocks with slack (rules.h); changed only before the first device is opened. */
extern INTERNAL uint32_t memory_slack_bytes;

/* For each device: its heap_index if allocations, or frees, may be served by the thread's cache without any other
 * check; else 0. That is so if the device is not opened, if somebody listens to the hooks, if failures are to be
 * injected, or, for frees, while there are reasons to check what kind of block is freed (memory_check_frees). */
extern INTERNAL _Atomic uint8_t memory_alloc_index[SPACE_MAX_DEVICES], memory_free_index[SPACE_MAX_DEVICES];

/* Adds a reason (1) or removes one (-1) to check what kind of block is freed. */
void memory_check_frees(int change);

/* Allocates a block of `size` bytes by a rule, which says on a device, in pinned or in managed memory; device is
 * ignored unless the rule says on a device. policy: CANN's, for the kind of pages. site: the caller's return address,
 * for messages. A caller with aclrtMalloc's rule asks memory_malloc_kept_long before, so that memory_alloc does not ask
 * the thread's cache again. */
status memory_alloc(int device, const alloc_rule *rule, int policy, uint64_t size, void *site, void **out);

/* The short cut of aclrtMalloc: the calling thread's cache for allocations on the device; NULL: none may be used.
 * Policies that ask for whole pages are left to memory_alloc. */
static inline thread_cache *memory_cache_for(int device, int policy) {
  if (unlikely(policy != POLICY_HUGE_FIRST && policy != POLICY_NORMAL_ONLY)) return NULL;
  INVARIANT(device >= 0 && device < SPACE_MAX_DEVICES);
  return thread_caches[atomic_load_explicit(&memory_alloc_index[device], memory_order_relaxed)];
}

/* rule_bytes of aclrtMalloc's rule, without a check for overflow. */
static inline uint64_t memory_malloc_bytes(uint64_t size) {
  return ((size + RULE_ROUND_BYTES - 1) & -(uint64_t)RULE_ROUND_BYTES) + memory_slack_bytes;
}

/* As memory_alloc with aclrtMalloc's rule if the thread's cache has a small block for it; else NULL.
 * memory_malloc_kept_long does so for any block of up to 1 << 47 bytes. */
static inline void *memory_malloc_kept(int device, int policy, uint64_t size, void *site) {
  thread_cache *t = memory_cache_for(device, policy);
  if (unlikely(!t || size - 1 >= THREAD_CACHE_SMALL)) return NULL;
  const uint64_t bytes = memory_malloc_bytes(size), bucket = ((bytes - 1) >> RULE_DEVICE_UNIT_SHIFT) + 1;
  return thread_cache_alloc(t, bucket, bytes, size, origin_of(RULE_MALLOC, PAGES_SMALL), site);
}

static inline void *memory_malloc_kept_long(int device, int policy, uint64_t size, void *site) {
  thread_cache *t = memory_cache_for(device, policy);
  if (!t || size - 1 >= UINT64_C(1) << 47) return NULL;
  return heap_alloc_kept(t, memory_malloc_bytes(size), size, origin_of(RULE_MALLOC, policy_pages(policy, size)), site);
}

/* The length of the block that a rule makes of a request; ST_INVALID_PARAM for size 0, ST_NO_MEMORY where the length
 * overflows. */
status memory_round(const alloc_rule *rule, int policy, uint64_t size, uint64_t *bytes);

/* Tries to free memory on the device, or on the host, as heap_config.find_room demands. The caller holds no lock of
 * src/memory. */
bool memory_find_room(int device, unsigned failures);

/* Called before the first pool is made: from now on, memory_free passes blocks of pools to pool_free. */
void memory_expect_pools(void);

/* Called in a forked child: drops the thread's caches, so that frees reach memory_free. */
void memory_forget(void);

/* Gives memory of devices that is only kept for reuse back to the host, and so to other processes. */
void memory_give_back(void);

/* Frees a block by its start address. kind: which family of functions the caller belongs to (managed memory is freed as
 * device memory); site: the caller's return address. ST_INVALID_VALUE with a message that says what the address is. */
status memory_free(void *block, free_kind kind, void *site);

/* The short cut of aclrtFree: the calling thread's cache for blocks of the device that has the address; NULL: none may
 * be used. */
static inline thread_cache *memory_cache_of(const void *block) {
  const uintptr_t distance = (uintptr_t)block - space.device_base;
  if (unlikely(distance >> SPACE_STRIDE_SHIFT >= SPACE_MAX_DEVICES)) return NULL;
  return thread_caches[atomic_load_explicit(&memory_free_index[distance >> SPACE_STRIDE_SHIFT], memory_order_relaxed)];
}

/* As memory_free for device memory if the thread's cache can take the block; else false. memory_free_kept takes only
 * small blocks, memory_free_kept_long any. */
static inline bool memory_free_kept(void *block) {
  thread_cache *t = memory_cache_of(block);
  return likely(t) && thread_cache_free(t, (uintptr_t)block);
}

static inline bool memory_free_kept_long(void *block) {
  thread_cache *t = memory_cache_of(block);
  return t && heap_free_kept(t, (uintptr_t)block);
}

/* Returns an allocation number for memory of the device, or (negative) of the host, that is no block but is counted as
 * one. */
status memory_new_number(int device, uint64_t *number);

/* Charges `bytes` of an opened device that it would use by itself (buffers of communicators), and that have no memory
 * of the host here; memory_discharge takes that back. ST_NO_MEMORY where the device has not so much left. what: for the
 * message. */
status memory_charge(int device, uint64_t bytes, const char *what);
void memory_discharge(int device, uint64_t bytes);

/* Free and total bytes of an opened device. */
status memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes);

typedef enum {
  PLACE_PAGEABLE, /* ordinary host memory, or no memory at all */
  PLACE_PINNED,
  PLACE_DEVICE,
  PLACE_MANAGED, /* accessible to host and devices at one address */
} memory_place;

/* What kind of memory an address belongs to. Reserved addresses (vmm/vmm.h) count as device memory unless host memory
 * is mapped there. */
static inline memory_place memory_place_of(const void *p) {
  const uintptr_t address = (uintptr_t)p;
  if (space_device_of(address) >= 0) return PLACE_DEVICE;
  if (unlikely(space_is_reserved(address))) return vmm_device_of(address) == VMM_HOST ? PLACE_PINNED : PLACE_DEVICE;
  if (unlikely(space_is_managed(address))) return PLACE_MANAGED;
  return space_is_pinned(address) || registered_holds(address, 1, REGISTERED_PINNED) ? PLACE_PINNED : PLACE_PAGEABLE;
}

/* The device to whose memory the address belongs, or a negative number. */
static inline int memory_device_of(const void *p) {
  const uintptr_t address = (uintptr_t)p;
  return unlikely(space_is_reserved(address)) ? vmm_device_of(address) : space_device_of(address);
}

/* As memory_device_of, for an address that kernels use (memory_view); negative for host memory. */
static inline int memory_device_of_view(const void *view) {
  const int device = space_device_of((uintptr_t)view - space.view_distance);
  const uintptr_t reserved = (uintptr_t)view - space.vmm_distance;
  return likely(device >= 0) || !space_is_reserved(reserved) ? device : vmm_device_of(reserved);
}

/* The user's address for an address that kernels use. */
static inline uintptr_t memory_address_of_view(const void *view) {
  const uintptr_t device = (uintptr_t)view - space.view_distance, reserved = (uintptr_t)view - space.vmm_distance;
  if (likely(space_device_of(device) >= 0)) return device;
  return space_is_reserved(reserved) ? reserved : (uintptr_t)view;
}

/* The live block, of a device or of the host, that holds the address, or NULL. Lock-free. */
const heap_block *memory_find(const void *p);

/* Translates [p, p + bytes) for kernels: *view is the address that they use. The range must lie in one live block of a
 * device or of the host, or all of it must be mapped with that access (VMM_READ | VMM_WRITE), or be registered; else
 * ST_INVALID_VALUE with a message that starts with `name`. bytes may be 0. Lock-free unless the range is registered. */
status memory_view(const void *p, uint64_t bytes, unsigned access, const char *name, void **view);

/* The heap of a device; NULL: it is not opened. */
heap *memory_heap(int device);

/* What holds an address: a block, a mapping or a registered range. memory_holder_of returns ST_INVALID_VALUE, with a
 * message that starts with the argument's name, where nothing does. */
typedef struct {
  memory_place place;
  int device; /* if PLACE_DEVICE */
  uintptr_t start;
  uint64_t bytes;        /* as requested */
  uint64_t bytes_usable; /* as rounded by the rules */
  uint64_t page_bytes;
} memory_holder;
status memory_holder_of(const void *p, const char *name, memory_holder *out);

/* Lists all live blocks and physical memory in the report, at the end of the process; see trace/stats.h. */
void memory_list_leaks(stats_file *report);

#endif
