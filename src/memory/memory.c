/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/device_number.h"
#include "base/hooks.h"
#include "base/lock.h"
#include "base/settings/faults.h"
#include "memory/fault.h"
#include "memory/host.h"
#include "memory/pool/stream_pool.h"
#include "memory/share/ipc.h"
#include "memory/share/ledger.h"
#include "trace/stats_write.h"

static mutex open_lock = MUTEX_INITIALIZER(MEMORY_OPEN);
static heap *_Atomic device_heaps[SPACE_MAX_DEVICES];
static heap *_Atomic pinned_heap, *_Atomic managed_heap;
static const heap_fences *fences;
uint32_t memory_slack_bytes = RULE_DEFAULT_SLACK_BYTES;
_Atomic uint8_t memory_alloc_index[SPACE_MAX_DEVICES], memory_free_index[SPACE_MAX_DEVICES];
static int frees_checked;         /* number of reasons to check frees; under open_lock */
static _Atomic bool kinds_differ; /* media processing or pools have, or had, blocks: frees check what kind a block is */
static char device_names[SPACE_MAX_DEVICES][16];

void memory_set_fences(const heap_fences *given) {
  fences = given;
  vmm_set_fences(given);
}

const heap_fences *memory_fences(void) { return fences; }

heap *memory_heap(int device) {
  INVARIANT(device >= 0 && device < SPACE_MAX_DEVICES);
  return atomic_load_explicit(&device_heaps[device], memory_order_acquire);
}

static status open_heap(heap *_Atomic *slot, const heap_config *config) {
  heap *h;
  TRY(heap_create(config, &h));
  atomic_store_explicit(slot, h, memory_order_release);
  return ST_OK;
}

/* Sets memory_alloc_index and memory_free_index, under the lock. The short cut for small blocks in memory.h indexes a
 * cache's lists without a check, so it is allowed only if small blocks with their slack fit. */
static void set_short_cuts(void) {
  const bool any = !hooks_any() && !faults_on &&
                   THREAD_CACHE_SMALL + memory_slack_bytes <= THREAD_CACHE_UNITS << RULE_DEVICE_UNIT_SHIFT;
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d) {
    const uint8_t index = any && memory_heap(d) ? (uint8_t)heap_index(memory_heap(d)) : 0;
    atomic_store_explicit(&memory_alloc_index[d], index, memory_order_release);
    atomic_store_explicit(&memory_free_index[d], frees_checked ? 0 : index, memory_order_release);
  }
}

void memory_check_frees(int change) {
  mutex_lock(&open_lock);
  frees_checked += change;
  INVARIANT(frees_checked >= 0);
  set_short_cuts();
  mutex_unlock(&open_lock);
}

void memory_forget(void) {
  for (int i = 0; i < THREAD_CACHE_HEAPS; ++i) thread_caches[i] = NULL;
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d) {
    atomic_store(&memory_alloc_index[d], 0);
    atomic_store(&memory_free_index[d], 0);
  }
}

static uint64_t window_bytes(uint64_t size_bytes) {
  const uint64_t roomy = heap_window_bytes(size_bytes);
  return roomy < space_stride() ? roomy : space_stride();
}

status memory_open_device(int device, uint64_t size_bytes, bool check_host) {
  INVARIANT(device >= 0 && device < SPACE_MAX_DEVICES && size_bytes <= space_stride());
  if (atomic_load_explicit(&device_heaps[device], memory_order_acquire)) return ST_OK;
  TRY(space_check());
  mutex_lock(&open_lock);
  status st = ST_OK;
  if (!atomic_load(&device_heaps[device])) {
    snprintf(device_names[device], sizeof device_names[device], "device %d", device);
    st = open_heap(&device_heaps[device],
                   &(heap_config){.name = device_names[device],
                                  .device = device,
                                  .window = space_device_window(device),
                                  .window_bytes = window_bytes(size_bytes),
                                  .view_distance = space.view_distance,
                                  .unit_shift = RULE_DEVICE_UNIT_SHIFT,
                                  .size_bytes = size_bytes,
                                  .check_host = check_host,
                                  .fences = fences,
                                  .find_room = memory_find_room,
                                  .stats = trace_is_on() ? &trace_stats()->device[device] : NULL});
    if (st == ST_OK) {
      set_short_cuts();
      fault_handler_install();
    }
  }
  mutex_unlock(&open_lock);
  return st;
}

/* Creates a heap of host memory, HOST_PINNED or HOST_MANAGED. */
__attribute__((noinline)) static status open_on_host(int kind) {
  const bool managed = kind == HOST_MANAGED;
  heap *_Atomic *const slot = managed ? &managed_heap : &pinned_heap;
  const char *const name = managed ? "managed memory" : "pinned host memory";
  const uintptr_t window = managed ? space.managed_base : space.pinned_base;
  TRY(space_check());
  if (managed) TRY(space_check_managed());
  stats_file *const stats = trace_is_on() ? trace_stats() : NULL;
  mutex_lock(&open_lock);
  status st = ST_OK;
  if (!atomic_load(slot))
    st = open_heap(slot, &(heap_config){.name = name,
                                        .device = kind,
                                        .window = window,
                                        .window_bytes = window_bytes(host_total_bytes()),
                                        .unit_shift = RULE_PINNED_UNIT_SHIFT,
                                        .size_bytes = host_total_bytes(),
                                        .check_host = true,
                                        .fences = fences,
                                        .find_room = memory_find_room,
                                        .stats = !stats    ? NULL
                                                 : managed ? &stats->managed
                                                           : &stats->pinned});
  mutex_unlock(&open_lock);
  return st;
}

status memory_new_number(int device, uint64_t *number) {
  if (device < 0) TRY(open_on_host(HOST_PINNED));
  *number = heap_new_number(device < 0 ? pinned_heap : memory_heap(device));
  return ST_OK;
}

static heap *_Atomic *memory_heap_slot(const alloc_rule *rule, int device) {
  if (likely(rule->place == ALLOC_DEVICE)) return &device_heaps[device];
  return rule->place == ALLOC_PINNED ? &pinned_heap : &managed_heap;
}

void memory_give_back(void) {
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d) {
    if (!memory_heap(d)) continue;
    pools_relieve(d);
    heap_trim(memory_heap(d), 0);
  }
}

/* Makes all other heaps of the process give their cached memory back to the host. */
static void trim_others(int device) {
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d)
    if (d != device && memory_heap(d)) heap_trim(memory_heap(d), 0);
  if (pinned_heap && device != HOST_PINNED) heap_trim(pinned_heap, 0);
  if (managed_heap && device != HOST_MANAGED) heap_trim(managed_heap, 0);
}

/* First takes idle memory from the device's pools and memory that was unmapped or is no longer shared; then the cached
 * memory of other heaps and of other processes. */
__attribute__((noinline)) bool memory_find_room(int device, unsigned failures) {
  if (failures > 1) return false;
  if (failures) {
    trim_others(device);
    if (device >= 0) ledger_ask_others(device);
  } else if (device >= 0) {
    pools_relieve(device);
    vmm_settle();
  }
  return true;
}

status memory_round(const alloc_rule *rule, int policy, uint64_t size, uint64_t *bytes) {
  *bytes = rule_bytes(rule, size, memory_slack_bytes, policy);
  if (size == 0) return fail(ST_INVALID_PARAM, "size is 0, expected 1 or more");
  if (*bytes) return ST_OK;
  return fail(ST_NO_MEMORY, "size is %ju, which overflows when it is rounded", (uintmax_t)size);
}

static void expect_kinds(void) {
  if (!atomic_load(&kinds_differ) && !atomic_exchange(&kinds_differ, true)) memory_check_frees(1);
}

void memory_expect_pools(void) { expect_kinds(); }

status memory_alloc(int device, const alloc_rule *rule, int policy, uint64_t size, void *site, void **out) {
  uint64_t bytes;
  TRY(memory_round(rule, policy, size, &bytes));
  FAULT_TRY(rule->place == ALLOC_DEVICE ? FAULT_ALLOC : FAULT_HOST, NULL, ST_NO_MEMORY, "no memory for %ju bytes",
            (uintmax_t)size);
  heap *_Atomic *const slot = memory_heap_slot(rule, device);
  heap *h = atomic_load_explicit(slot, memory_order_acquire);
  if (unlikely(!h)) {
    TRY(open_on_host(rule->place == ALLOC_MANAGED ? HOST_MANAGED : HOST_PINNED));
    h = atomic_load_explicit(slot, memory_order_acquire);
  }
  if (unlikely(rule->freed_by == FREE_DVPP)) expect_kinds();
  const rule_kind kind = (rule_kind)(rule - alloc_rules);
  const block_origin origin = origin_of(kind, policy_pages(policy, size));
  if (kind == RULE_MALLOC && memory_cache_for(device, policy))
    return heap_alloc_uncached(h, bytes, size, origin, site, out); /* the caller has asked memory_malloc_kept_long */
  return heap_alloc(h, bytes, size, origin, site, out);
}

static inline heap *memory_heap_of(const void *p) {
  const int device = space_device_of((uintptr_t)p);
  if (device >= 0) return atomic_load_explicit(&device_heaps[device], memory_order_acquire);
  if (space_is_pinned((uintptr_t)p)) return atomic_load_explicit(&pinned_heap, memory_order_acquire);
  return space_is_managed((uintptr_t)p) ? atomic_load_explicit(&managed_heap, memory_order_acquire) : NULL;
}

static const struct {
  const char *name, *memory, *from;
} free_words[N_FREE_KINDS] = {[FREE_DEVICE] = {"devPtr", "device memory", "aclrtMalloc"},
                              [FREE_HOST] = {"hostPtr", "pinned host memory", "aclrtMallocHost"},
                              [FREE_DVPP] = {"devPtr", "device memory", "acldvppMalloc or hi_mpi_dvpp_malloc"}};

/* Checks that this kind of free is for the block, if there is one at the address. */
__attribute__((cold)) static status check_freed_by(const heap *h, const void *block, free_kind kind) {
  const heap_block *b = heap_find(h, (uintptr_t)block);
  const alloc_rule *rule = b ? origin_rule(b->origin) : NULL;
  if (!b || (rule ? rule->freed_by : FREE_DEVICE) == kind) return ST_OK;
  return fail(ST_INVALID_VALUE, "%s is %p, a block of %s, expected one of %s (%s frees it)", free_words[kind].name,
              block, origin_call(b->origin), free_words[kind].from, free_calls[rule ? rule->freed_by : FREE_DEVICE]);
}

/* Words why an address outside of the heaps for this kind of free can't be freed. */
__attribute__((cold)) static status memory_refuse_free(const void *block, free_kind kind) {
  const char *name = free_words[kind].name;
  if (!block) return fail(ST_INVALID_PARAM, "%s is NULL, expected a block", name);
  if (vmm_device_of((uintptr_t)block) >= VMM_HOST)
    return fail(ST_INVALID_VALUE, "%s is %p, mapped memory, expected what %s gave (%s ends this)", name, block,
                free_words[kind].from, vmm_is_imported((uintptr_t)block) ? "aclrtIpcMemClose" : "aclrtUnmapMem");
  return fail(ST_INVALID_VALUE, "%s is %p, no %s, expected what %s gave", name, block, free_words[kind].memory,
              free_words[kind].from);
}

status memory_free(void *block, free_kind kind, void *site) {
  const char *name = free_words[kind].name;
  heap *h = memory_heap_of(block);
  if (likely(h && (kind == FREE_HOST) == space_is_pinned((uintptr_t)block))) {
    if (unlikely(kind == FREE_DVPP ||
                 (kind == FREE_DEVICE && atomic_load_explicit(&kinds_differ, memory_order_relaxed)))) {
      if (pool_holds(block)) return pool_free(NULL, block, NULL, name, site);
      const status st = check_freed_by(h, block, kind);
      if (st != ST_OK) return hooks_bad_free(st, (uintptr_t)block, site);
    }
    if (unlikely(ipc_has_exports())) TRY(ipc_forget((uintptr_t)block, name));
    return heap_free(h, (uintptr_t)block, name, site);
  }
  const status st = memory_refuse_free(block, kind);
  return block ? hooks_bad_free(st, (uintptr_t)block, site) : st;
}

static _Atomic uint64_t device_own_bytes[SPACE_MAX_DEVICES]; /* what memory_charge has charged */

status memory_charge(int device, uint64_t bytes, const char *what) {
  uint64_t free_bytes, total_bytes;
  for (unsigned failures = 0;; ++failures) {
    memory_info(device, &free_bytes, &total_bytes);
    if (ledger_charge(device, bytes, total_bytes)) break;
    if (!memory_find_room(device, failures))
      return fail(ST_NO_MEMORY, "%ju bytes for %s do not fit on device %d, of whose %ju bytes %ju are free",
                  (uintmax_t)bytes, what, device, (uintmax_t)total_bytes, (uintmax_t)free_bytes);
  }
  atomic_fetch_add(&device_own_bytes[device], bytes);
  return ST_OK;
}

void memory_discharge(int device, uint64_t bytes) {
  atomic_fetch_sub(&device_own_bytes[device], bytes);
  ledger_return(device, bytes);
}

status memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
  vmm_settle();
  heap_info(atomic_load_explicit(&device_heaps[device], memory_order_acquire), free_bytes, total_bytes);
  const uint64_t own_bytes = atomic_load(&device_own_bytes[device]);
  *free_bytes -= own_bytes < *free_bytes ? own_bytes : *free_bytes;
  return ST_OK;
}

const heap_block *memory_find(const void *p) {
  const heap *h = memory_heap_of(p);
  return h ? heap_find(h, (uintptr_t)p) : NULL;
}

__attribute__((cold)) static status refuse_range(const void *p, uint64_t bytes, const char *name) {
  if (memory_place_of(p) == PLACE_PAGEABLE)
    return fail(ST_INVALID_VALUE, "%s: address %p is no device or pinned memory, expected what aclrtMalloc gave", name,
                p);
  const heap_block *b = memory_find(p);
  if (!b) return fail(ST_INVALID_VALUE, "%s: address %p is in no live block (freed, or out of range)", name, p);
  return fail(ST_INVALID_VALUE, "%s: %ju bytes at %p end beyond the block of %ju bytes at %p", name, (uintmax_t)bytes,
              p, (uintmax_t)b->bytes, (void *)b->address);
}

status memory_view(const void *p, uint64_t bytes, unsigned access, const char *name, void **view) {
  const uintptr_t address = (uintptr_t)p;
  const int device = space_device_of(address);
  if (unlikely(space_is_reserved(address))) return vmm_view(address, bytes, access, name, view);
  const heap_block *b = memory_find(p);
  if (unlikely(!b)) {
    if (!registered_holds(address, bytes ? bytes : 1, REGISTERED_MAPPED | REGISTERED_PINNED))
      return refuse_range(p, bytes, name);
    *view = (void *)address;
    return ST_OK;
  }
  const uint64_t inside = address - atomic_load_explicit(&b->address, memory_order_relaxed);
  const uint64_t size = atomic_load_explicit(&b->bytes, memory_order_relaxed);
  if (unlikely(inside > size || bytes > size - inside)) return refuse_range(p, bytes, name);
  *view = (void *)(address + (device >= 0 ? space.view_distance : 0));
  return ST_OK;
}

static page_kind pages_of(const heap_block *b) {
  return origin_rule(b->origin) ? origin_pages(b->origin) : policy_pages(POLICY_HUGE_FIRST, b->requested);
}

status memory_holder_of(const void *p, const char *name, memory_holder *out) {
  const uintptr_t address = (uintptr_t)p;
  *out = (memory_holder){
      .place = memory_place_of(p), .device = memory_device_of(p), .page_bytes = page_bytes[PAGES_SMALL]};
  const heap_block *b = memory_find(p);
  if (b) {
    out->start = b->address;
    out->bytes = b->requested;
    out->bytes_usable = b->bytes;
    if (out->place != PLACE_PINNED) out->page_bytes = page_bytes[pages_of(b)];
    return ST_OK;
  }
  if (vmm_find(address, &out->start, &out->bytes)) {
    if (out->device >= 0) out->page_bytes = page_bytes[PAGES_HUGE];
  } else if (!registered_find(address, &out->start, &out->bytes)) {
    return fail(ST_INVALID_VALUE, "%s is %p, expected an address in a live block, a mapping or registered memory", name,
                p);
  }
  out->bytes_usable = out->bytes;
  return ST_OK;
}

static void list_leak(const hook_block *b, void *argument) {
  stats_file *report = argument;
  const uint64_t n = atomic_fetch_add(&report->n_leaks, 1);
  if (n >= STATS_MAX_LEAKS) return;
  stats_leak *leak = &report->leaks[n];
  leak->address = b->address;
  leak->size_bytes = b->requested;
  leak->number = b->number;
  leak->device = b->device;
  snprintf(leak->call, sizeof leak->call, "%s", b->call);
  leak->place = trace_place(b->site);
  fault_describe_site(b->site, leak->site, sizeof leak->site);
}

void memory_list_leaks(stats_file *report) {
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d)
    if (device_heaps[d]) heap_each_block(device_heaps[d], list_leak, report);
  if (pinned_heap) heap_each_block(pinned_heap, list_leak, report);
  if (managed_heap) heap_each_block(managed_heap, list_leak, report);
  vmm_each_physical(list_leak, report);
}
