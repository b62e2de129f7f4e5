#include "memory/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "memory/fault.h"
#include "memory/host.h"
#include "memory/pool.h"
#include "trace/trace.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static heap *_Atomic device_heaps[SPACE_MAX_DEVICES];
static heap *_Atomic pinned_heap;
static const heap_fences *fences;
static char device_names[SPACE_MAX_DEVICES][16];

void memory_set_fences(const heap_fences *given) {
  fences = given;
  vmm_set_fences(given);
}

const heap_fences *memory_fences(void) { return fences; }

heap *memory_heap(int device) { return atomic_load_explicit(&device_heaps[device], memory_order_acquire); }

static status open_heap(heap *_Atomic *slot, const heap_config *config) {
  heap *h;
  TRY(heap_create(config, &h));
  atomic_store_explicit(slot, h, memory_order_release);
  return ST_OK;
}

/* The window is larger than the device, so that free addresses never run out before memory does. */
static uint64_t window_bytes(uint64_t size_bytes) {
  const uint64_t roomy = (size_bytes * 8 + HEAP_GRANULE_BYTES - 1) & -(uint64_t)HEAP_GRANULE_BYTES;
  return roomy < space_stride() ? roomy : space_stride();
}

status memory_open_device(int device, uint64_t size_bytes, bool check_host) {
  if (atomic_load_explicit(&device_heaps[device], memory_order_acquire)) return ST_OK;
  TRY(space_check());
  pthread_mutex_lock(&open_lock);
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
                                  .stats = trace_is_on() ? &trace_stats()->device[device] : NULL});
    if (st == ST_OK) fault_handler_install();
  }
  pthread_mutex_unlock(&open_lock);
  return st;
}

__attribute__((noinline)) static status open_pinned(void) {
  TRY(space_check());
  pthread_mutex_lock(&open_lock);
  status st = ST_OK;
  if (!atomic_load(&pinned_heap))
    st = open_heap(&pinned_heap, &(heap_config){.name = "pinned host memory",
                                                .device = -1,
                                                .window = space.pinned_base,
                                                .window_bytes = window_bytes(host_total_bytes()),
                                                .unit_shift = RULE_PINNED_UNIT_SHIFT,
                                                .size_bytes = host_total_bytes(),
                                                .check_host = true,
                                                .fences = fences,
                                                .stats = trace_is_on() ? &trace_stats()->pinned : NULL});
  pthread_mutex_unlock(&open_lock);
  return st;
}

status memory_alloc(int device, const alloc_rule *rule, uint64_t size, const char *call, void *site, void **out) {
  uint64_t bytes;
  TRY(rule_round(rule, size, &bytes));
  if (unlikely(rule->pinned && !atomic_load_explicit(&pinned_heap, memory_order_acquire))) TRY(open_pinned());
  heap *h = atomic_load_explicit(rule->pinned ? &pinned_heap : &device_heaps[device], memory_order_acquire);
  const status st = heap_alloc(h, bytes, size, call, site, out);
  if (likely(st != ST_NO_MEMORY) || rule->pinned || !pools_relieve(device)) return st;
  return heap_alloc(h, bytes, size, call, site, out);
}

static inline heap *heap_of(const void *p) {
  const int device = space_device_of((uintptr_t)p);
  if (device >= 0) return atomic_load_explicit(&device_heaps[device], memory_order_acquire);
  return space_is_pinned((uintptr_t)p) ? atomic_load_explicit(&pinned_heap, memory_order_acquire) : NULL;
}

status memory_free(void *block, bool pinned, void *site) {
  const char *name = pinned ? "hostPtr" : "devPtr";
  heap *h = heap_of(block);
  if (likely(h && pinned == space_is_pinned((uintptr_t)block))) {
    const status st = heap_free(h, (uintptr_t)block, name, site);
    return likely(st == ST_OK) || !pool_holds(block) ? st : pool_free(NULL, block, NULL, name, site);
  }
  if (!block) return fail(ST_INVALID_PARAM, "%s is NULL, expected a block", name);
  return fail(ST_INVALID_VALUE, "%s is %p, no %s, expected what %s gave", name, block,
              pinned ? "pinned host memory" : "device memory", pinned ? "aclrtMallocHost" : "aclrtMalloc");
}

status memory_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
  heap_info(atomic_load_explicit(&device_heaps[device], memory_order_acquire), free_bytes, total_bytes);
  return ST_OK;
}

const heap_block *memory_find(const void *p) {
  const heap *h = heap_of(p);
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

enum { SMALL_PAGE_BYTES = 4096 };

status memory_holder_of(const void *p, const char *name, memory_holder *out) {
  const uintptr_t address = (uintptr_t)p;
  *out = (memory_holder){.place = memory_place_of(p), .device = memory_device_of(p), .page_bytes = SMALL_PAGE_BYTES};
  const heap_block *b = memory_find(p);
  if (b) {
    out->start = b->address;
    out->bytes = b->requested;
    if (b->bytes > HEAP_SMALL_BYTES && out->device >= 0) out->page_bytes = HEAP_GRANULE_BYTES;
  } else if (vmm_find(address, &out->start, &out->bytes)) {
    if (out->device >= 0) out->page_bytes = HEAP_GRANULE_BYTES;
  } else if (!registered_find(address, &out->start, &out->bytes)) {
    return fail(ST_INVALID_VALUE, "%s is %p, expected an address in a live block, a mapping or registered memory", name,
                p);
  }
  return ST_OK;
}

static void list_leak(const heap_block *b, void *argument) {
  stats_file *report = argument;
  const uint64_t n = atomic_fetch_add(&report->n_leaks, 1);
  if (n >= STATS_MAX_LEAKS) return;
  stats_leak *leak = &report->leaks[n];
  leak->address = b->address;
  leak->size_bytes = b->requested;
  leak->number = b->number;
  leak->device = space_device_of(b->address);
  snprintf(leak->call, sizeof leak->call, "%s", b->call);
  fault_describe_site(b->site, leak->site, sizeof leak->site);
}

void memory_list_leaks(stats_file *report) {
  for (int d = 0; d < SPACE_MAX_DEVICES; ++d)
    if (device_heaps[d]) heap_each_block(device_heaps[d], list_leak, report);
  if (pinned_heap) heap_each_block(pinned_heap, list_leak, report);
}
