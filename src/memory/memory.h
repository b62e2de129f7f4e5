/* Memory as the runtime sees it: blocks on devices and pinned blocks on the host, by the rules of the table in
 * rules.h; and what an address is, and where a kernel finds it. All calls from any thread. */
#ifndef CANNON_MEMORY_MEMORY_H
#define CANNON_MEMORY_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "memory/heap/heap.h"
#include "memory/heap/thread_cache.h"
#include "memory/registered.h"
#include "memory/rules.h"
#include "memory/space.h"
#include "memory/vmm/vmm.h"

/* Sets up a device's memory; once per device, repeated calls do nothing. check_host: also refuse what the host could
 * not back. Installs the fault handler. */
status memory_open_device(int device, uint64_t size_bytes, bool check_host);

/* How to learn what tasks are pending; given before the first device is opened. */
void memory_set_fences(const heap_fences *fences);
const heap_fences *memory_fences(void);

/* What blocks with slack grow by (RULE_DEFAULT_SLACK_BYTES unless set); set before the first device is opened. */
extern INTERNAL uint32_t memory_slack_bytes;

/* A device's heap_index where allocations, or frees, may go past all but the thread's cache; else 0: it is not opened yet,
 * somebody listens to the hooks, or, of frees, there are reasons to look whose a block is. */
extern INTERNAL _Atomic uint8_t memory_alloc_index[SPACE_MAX_DEVICES], memory_free_index[SPACE_MAX_DEVICES];

/* There is one such reason more, or less (-1). */
void memory_check_frees(int change);

/* A block of `size` bytes where the rule says (device counts only if that is a device), of the pages that the policy
 * asks for. site: the caller's return address, for messages. */
status memory_alloc(int device, const alloc_rule *rule, int policy, uint64_t size, void *site, void **out);

/* The same for aclrtMalloc's rule, where the thread keeps such a block (heap/thread_cache.h), else NULL: a small one, or any
 * of less than 1 << 47 bytes. Policies that ask for whole pages are left to memory_alloc. */
static inline thread_cache *memory_cache_for(int device, int policy) {
  if (unlikely(policy != POLICY_HUGE_FIRST && policy != POLICY_NORMAL_ONLY)) return NULL;
  return thread_caches[atomic_load_explicit(&memory_alloc_index[device], memory_order_relaxed)];
}

static inline uint64_t memory_malloc_bytes(uint64_t size) {
  return ((size + RULE_ROUND_BYTES - 1) & -(uint64_t)RULE_ROUND_BYTES) + memory_slack_bytes;
}

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

/* What a rule makes of a request's size; refused in words where there is nothing to make. */
status memory_round(const alloc_rule *rule, int policy, uint64_t size, uint64_t *bytes);

/* Makes more room on the device, or the host, as heap_config.find_room has it. No lock of the memory is held. */
bool memory_find_room(int device, unsigned failures);

/* From now on there are blocks that pools hold, which memory_free passes on. */
void memory_expect_pools(void);

/* In a forked child: the thread keeps no blocks of the parent's, and frees reach memory_free. */
void memory_forget(void);

/* Gives back to the host, and to other processes, what is only kept for reuse. */
void memory_give_back(void);

/* Frees a block by its start; kind says what the caller frees (managed memory is freed as a device's), site is its
 * return address. */
status memory_free(void *block, free_kind kind, void *site);

/* The same for device memory where the thread can keep the block, else false: a small one, or any. */
static inline thread_cache *memory_cache_of(const void *block) {
  const uintptr_t distance = (uintptr_t)block - space.device_base;
  if (unlikely(distance >> SPACE_STRIDE_SHIFT >= SPACE_MAX_DEVICES)) return NULL;
  return thread_caches[atomic_load_explicit(&memory_free_index[distance >> SPACE_STRIDE_SHIFT], memory_order_relaxed)];
}

static inline bool memory_free_kept(void *block) {
  thread_cache *t = memory_cache_of(block);
  return likely(t) && thread_cache_free(t, (uintptr_t)block);
}

static inline bool memory_free_kept_long(void *block) {
  thread_cache *t = memory_cache_of(block);
  return t && heap_free_kept(t, (uintptr_t)block);
}

/* A number for memory of the device, or of the host (negative), that is counted among its blocks but is none. */
status memory_new_number(int device, uint64_t *number);

status memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes);

typedef enum {
  PLACE_PAGEABLE, /* ordinary host memory, or nothing at all: not ours */
  PLACE_PINNED,
  PLACE_DEVICE,
  PLACE_MANAGED, /* of host and devices at once */
} memory_place;

/* What an address is. Reserved addresses (memory/vmm/vmm.h) are a device's unless host memory is mapped there. */
static inline memory_place memory_place_of(const void *p) {
  const uintptr_t address = (uintptr_t)p;
  if (space_device_of(address) >= 0) return PLACE_DEVICE;
  if (unlikely(space_is_reserved(address))) return vmm_device_of(address) == VMM_HOST ? PLACE_PINNED : PLACE_DEVICE;
  if (unlikely(space_is_managed(address))) return PLACE_MANAGED;
  return space_is_pinned(address) || registered_holds(address, 1, REGISTERED_PINNED) ? PLACE_PINNED : PLACE_PAGEABLE;
}

/* The device whose memory the address is, or a negative number. */
static inline int memory_device_of(const void *p) {
  const uintptr_t address = (uintptr_t)p;
  return unlikely(space_is_reserved(address)) ? vmm_device_of(address) : space_device_of(address);
}

/* The same of an address as kernels see it (memory_view); negative for host memory. */
static inline int memory_device_of_view(const void *view) {
  const int device = space_device_of((uintptr_t)view - space.view_distance);
  const uintptr_t reserved = (uintptr_t)view - space.vmm_distance;
  return likely(device >= 0) || !space_is_reserved(reserved) ? device : vmm_device_of(reserved);
}

/* The user's address of what kernels see there. */
static inline uintptr_t memory_address_of_view(const void *view) {
  const uintptr_t device = (uintptr_t)view - space.view_distance, reserved = (uintptr_t)view - space.vmm_distance;
  if (likely(space_device_of(device) >= 0)) return device;
  return space_is_reserved(reserved) ? reserved : (uintptr_t)view;
}

/* The live block (on a device, pinned or managed) that holds the address, or NULL. Lock-free. */
const heap_block *memory_find(const void *p);

/* Where a kernel reaches [p, p + bytes): in *view. The range must lie in one live block of a device or of pinned
 * memory, or all of it must be mapped with that access (VMM_READ | VMM_WRITE), or be registered. ST_INVALID_VALUE
 * otherwise, with words that start with `name`. bytes may be 0. */
status memory_view(const void *p, uint64_t bytes, unsigned access, const char *name, void **view);

/* The heap of an opened device. */
heap *memory_heap(int device);

/* What holds an address: a block, a mapping or a registered range. ST_INVALID_VALUE, with words that start with the
 * argument's name, where nothing does. */
typedef struct {
  memory_place place;
  int device; /* PLACE_DEVICE */
  uintptr_t start;
  uint64_t bytes;        /* as asked for */
  uint64_t bytes_usable; /* as rounded */
  uint64_t page_bytes;
} memory_holder;
status memory_holder_of(const void *p, const char *name, memory_holder *out);

/* Fills report with the leaks at the end of the process; see stats.h. */
void memory_list_leaks(stats_file *report);

#endif
