/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/vmm/vmm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "base/settings/faults.h"
#include "base/size.h"
#include "base/store/sparse.h"
#include "memory/memory.h"
#include "memory/space.h"
#include "memory/vmm/physical.h"
#include "memory/vmm/reservation.h"
#include "memory/vmm/reserved_window.h"

/* Read without the lock by vmm_view and others. Their table is never freed, so a dropped mapping stays readable. */
typedef struct {
  _Atomic uintptr_t start;
  _Atomic uint64_t bytes;
  _Atomic unsigned access;
  _Atomic int device;
  uint32_t physical, next;
} mapping;

/* A mapping that was ended while tasks were pending: its memory stays in the kernels' view until its fence has
 * passed. */
typedef struct lingering {
  struct lingering *next;
  uintptr_t start;
  uint64_t bytes;
  uint32_t physical;
  void *fence;
} lingering;

enum { MOST_MAPPINGS = 1 << 20 };

static struct {
  mutex lock;                         /* guards all below and the state of the other files of vmm/ */
  mapping *mappings;                  /* MOST_MAPPINGS, made at first use; mapping 0 is not used */
  _Atomic uint32_t *_Atomic granules; /* per granule of the window: the mapping there; 0: none */
  uint32_t n_mappings;                /* mappings that were ever used, mapping 0 included */
  uint32_t unused_mapping;            /* list of unused ones, linked by .next */
  lingering *lingering;
  const heap_fences *fences;
} vmm = {.lock = MUTEX_INITIALIZER(VMM), .n_mappings = 1};

void vmm_set_fences(const heap_fences *fences) { vmm.fences = fences; }

static uint64_t vmm_granule_of(uintptr_t address) { return (address - space.vmm_base) >> HEAP_GRANULE_SHIFT; }
static uint64_t granules_bytes(uint64_t bytes) {
  return (bytes + HEAP_GRANULE_BYTES - 1) & -(uint64_t)HEAP_GRANULE_BYTES;
}
static bool is_granule(uint64_t x) { return x % HEAP_GRANULE_BYTES == 0; }

/* Makes the tables at first use; under the lock. */
static status open_tables(void) {
  if (vmm.granules) return ST_OK;
  TRY(window_open());
  TRY(physical_open());
  if (!vmm.mappings) vmm.mappings = sparse_new(MOST_MAPPINGS * sizeof *vmm.mappings);
  _Atomic uint32_t *granules =
      vmm.mappings ? sparse_new((space.vmm_bytes >> HEAP_GRANULE_SHIFT) * sizeof *granules) : NULL;
  if (!granules) return fail(ST_NO_HOST_MEMORY, "no host memory for the tables of reservations");
  atomic_store_explicit(&vmm.granules, granules, memory_order_release);
  return ST_OK;
}

/* ---- reservations ------------------------------------------------------------------------------------------------ */

status vmm_reserve(uint64_t bytes, uint64_t alignment, uintptr_t expected, uintptr_t *out) {
  if (bytes == 0) return fail(ST_INVALID_VALUE, "size is 0, expected 1 or more");
  if (alignment & (alignment - 1))
    return fail(ST_INVALID_VALUE, "alignment is %ju, expected 0 or a power of two", (uintmax_t)alignment);
  if (!is_granule(expected))
    return fail(ST_INVALID_VALUE, "expectPtr is %p, expected a multiple of %d MiB", (void *)expected,
                HEAP_GRANULE_BYTES >> 20);
  TRY(space_check_reservations());
  if (bytes > space.vmm_bytes)
    return fail(ST_NO_MEMORY, "size is %ju bytes, expected at most %ju (%s)", (uintmax_t)bytes,
                (uintmax_t)space.vmm_bytes, size_in_words(space.vmm_bytes).text);
  if (alignment < HEAP_GRANULE_BYTES) alignment = HEAP_GRANULE_BYTES;
  *out = expected;
  mutex_lock(&vmm.lock);
  status st = open_tables();
  if (st == ST_OK) st = reservation_make(granules_bytes(bytes), alignment, false, out);
  mutex_unlock(&vmm.lock);
  return st;
}

status vmm_release(uintptr_t start) {
  mutex_lock(&vmm.lock);
  status st = ST_OK;
  reservation *r = reservation_of_program(start);
  if (!r || r->at.start != start)
    st = fail(ST_INVALID_VALUE, "virPtr is %p, expected the start of a reservation", (void *)start);
  else if (r->n_mappings)
    st = fail(ST_INVALID_VALUE, "virPtr is %p, where %u mappings are left, expected all unmapped", (void *)start,
              r->n_mappings);
  else
    reservation_drop(r);
  mutex_unlock(&vmm.lock);
  return st;
}

/* ---- physical memory --------------------------------------------------------------------------------------------- */

static bool vmm_settle_lingering(uintptr_t start, uint64_t bytes);

static status make_host_file(uint64_t bytes, int *file) {
  *file = file_in_memory("cannon-host", bytes);
  if (*file >= 0) return ST_OK;
  return fail(ST_NO_MEMORY, "size is %ju bytes of host memory: %s", (uintmax_t)bytes, file_error(errno));
}

/* Adds physical memory with these contents; where that fails, they are given back. */
static status add_physical(const physical *contents, void **handle) {
  mutex_lock(&vmm.lock);
  status st = open_tables();
  if (st == ST_OK) st = physical_add(contents, handle);
  if (st != ST_OK) physical_release(contents);
  mutex_unlock(&vmm.lock);
  return st;
}

status vmm_create(int device, uint64_t bytes, uint64_t granularity, const void *tag, void *site, void **handle) {
  heap *h = device == VMM_HOST ? NULL : memory_heap(device);
  if (bytes == 0 || bytes % granularity)
    return fail(ST_INVALID_VALUE, "size is %ju, expected a multiple of the granularity, %ju", (uintmax_t)bytes,
                (uintmax_t)granularity);
  FAULT_TRY(h ? FAULT_ALLOC : FAULT_HOST, NULL, ST_NO_MEMORY, "no memory for %ju bytes", (uintmax_t)bytes);
  physical made = {.heap = h, .device = device, .bytes = bytes, .n_pieces = 1, .one = {0, bytes}, .site = site};
  memcpy(made.tag, tag, sizeof made.tag);
  TRY(memory_new_number(device, &made.number));
  vmm_settle();
  if (h) {
    TRY(heap_take_pages(h, bytes, &made.one.offset));
    made.file = heap_file(h);
  } else {
    TRY(make_host_file(bytes, &made.file));
  }
  return add_physical(&made, handle);
}

bool vmm_settle(void) {
  mutex_lock(&vmm.lock);
  bool any = vmm_settle_lingering(0, 0);
  any |= physical_settle();
  INVARIANT_WALK(vmm_is_valid());
  mutex_unlock(&vmm.lock);
  return any;
}

status vmm_drop(void *handle, void *site) {
  uint32_t id;
  mutex_lock(&vmm.lock);
  const status st = physical_of(handle, &id);
  if (st == ST_OK) physical_drop(id, site);
  INVARIANT_WALK(vmm_is_valid());
  mutex_unlock(&vmm.lock);
  return st == ST_OK ? st : hooks_bad_free(st, (uintptr_t)handle, site);
}

void vmm_each_physical(void (*visit)(const hook_block *, void *), void *argument) {
  mutex_lock(&vmm.lock);
  physical_each(visit, argument);
  mutex_unlock(&vmm.lock);
}

status vmm_tag(void *handle, void *tag, int *device) {
  uint32_t id;
  mutex_lock(&vmm.lock);
  const status st = physical_of(handle, &id);
  if (st == ST_OK) {
    memcpy(tag, physical_at(id)->tag, EXCHANGE_TAG_BYTES);
    *device = physical_at(id)->device;
  }
  mutex_unlock(&vmm.lock);
  return st;
}

/* ---- between processes ------------------------------------------------------------------------------------------- */

static status export_locked(void *handle, bool to_all, uint64_t *key) {
  uint32_t id;
  TRY(physical_of(handle, &id));
  physical *p = physical_at(id);
  if (p->taken) return fail(ST_INVALID_VALUE, "handle is %p, which was imported, expected memory made here", handle);
  if (p->offered)
    return fail(ST_INVALID_VALUE, "handle is %p, which is exported already, expected to be exported once", handle);
  exchange_item item = {EXCHANGE_PHYSICAL, p->device, p->file, p->bytes, {0}, physical_pieces(p), p->n_pieces};
  memcpy(item.tag, p->tag, sizeof item.tag);
  TRY(exchange_offer(&item, to_all, key));
  p->offered = *key;
  return ST_OK;
}

status vmm_export(void *handle, bool to_all, uint64_t *key) {
  mutex_lock(&vmm.lock);
  const status st = export_locked(handle, to_all, key);
  mutex_unlock(&vmm.lock);
  return st;
}

static status vmm_import_as(uint64_t key, exchange_kind kind, int device, const char *name, void **handle) {
  exchange_item item;
  heap_piece *pieces;
  TRY(exchange_take(key, kind, name, &item, &pieces));
  physical made = {.device = item.device == VMM_HOST ? VMM_HOST : device,
                   .file = item.file,
                   .bytes = item.bytes,
                   .n_pieces = item.n_pieces,
                   .many = pieces,
                   .taken = key};
  memcpy(made.tag, item.tag, sizeof made.tag);
  if (item.n_pieces == 1) {
    made.one = *pieces;
    free(pieces);
  }
  return add_physical(&made, handle);
}

status vmm_import(uint64_t key, int device, void **handle) {
  return vmm_import_as(key, EXCHANGE_PHYSICAL, device, "shareableHandle", handle);
}

static status map_locked(uintptr_t at, uint32_t id, reservation *in, unsigned access);
static status unmap_locked(uintptr_t at);

/* Maps an imported block in a reservation of the library's own. */
static status place_block(uint32_t id, uintptr_t *out) {
  const uint64_t bytes = granules_bytes(physical_at(id)->bytes);
  *out = 0;
  TRY(reservation_make(bytes, HEAP_GRANULE_BYTES, true, out));
  const status st = map_locked(*out, id, reservation_of(*out), VMM_READ | VMM_WRITE);
  if (st != ST_OK) reservation_drop(reservation_of(*out));
  return st;
}

status vmm_import_block(uint64_t key, int device, uintptr_t *out) {
  void *handle;
  uint32_t id;
  TRY(vmm_import_as(key, EXCHANGE_BLOCK, device, "key", &handle));
  mutex_lock(&vmm.lock);
  status st = physical_of(handle, &id);
  if (st == ST_OK) {
    st = place_block(id, out);
    physical_drop(id, NULL);
    INVARIANT_WALK(vmm_is_valid());
  }
  mutex_unlock(&vmm.lock);
  return st;
}

status vmm_close_block(uintptr_t start) {
  mutex_lock(&vmm.lock);
  const status st = unmap_locked(start);
  if (st == ST_OK) reservation_drop(reservation_of(start));
  mutex_unlock(&vmm.lock);
  return st;
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

/* The mapping that holds the address, or NULL. Lock-free. */
static const mapping *mapping_at(uintptr_t address) {
  _Atomic uint32_t *granules = atomic_load_explicit(&vmm.granules, memory_order_acquire);
  if (!granules || !space_is_reserved(address)) return NULL;
  const uint32_t id = atomic_load_explicit(&granules[vmm_granule_of(address)], memory_order_acquire);
  const mapping *m = &vmm.mappings[id];
  const uint64_t inside = address - atomic_load_explicit(&m->start, memory_order_relaxed);
  return id && inside < atomic_load_explicit(&m->bytes, memory_order_relaxed) ? m : NULL;
}

static bool is_host(const mapping *m) { return m->device == VMM_HOST; }

/* Sets the mapping of all granules of a range; 0: none. */
static void vmm_mark(uintptr_t at, uint64_t bytes, uint32_t id) {
  for (uint64_t g = vmm_granule_of(at); g < vmm_granule_of(at + bytes - 1) + 1; ++g)
    atomic_store_explicit(&vmm.granules[g], id, memory_order_release);
}

/* Ends lingering mappings whose tasks have retired. Those that overlap [start, start + bytes), where something else
 * will be mapped, are unmapped at once, but their memory is kept until their tasks have retired. Returns whether any
 * memory was given back. */
static bool vmm_settle_lingering(uintptr_t start, uint64_t bytes) {
  bool any = false;
  for (lingering **at = &vmm.lingering; *at;) {
    lingering *l = *at;
    const bool passed = vmm.fences->passed(l->fence);
    if (passed || (l->start < start + bytes && start < l->start + l->bytes)) {
      if (l->bytes) window_clear(l->start, l->bytes, false);
      l->bytes = 0;
    }
    if (!passed) {
      at = &l->next;
      continue;
    }
    physical_unmap_now(l->physical);
    *at = l->next;
    free(l);
    any = true;
  }
  return any;
}

static status check_free(uintptr_t at, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += HEAP_GRANULE_BYTES)
    if (mapping_at(at + done))
      return fail(ST_INVALID_VALUE, "virPtr is %p, but at %p something is mapped, expected nothing", (void *)at,
                  (void *)(at + done));
  return ST_OK;
}

static uint32_t mapping_new(void) {
  const uint32_t id = vmm.unused_mapping;
  if (id) {
    vmm.unused_mapping = vmm.mappings[id].next;
    return id;
  }
  return vmm.n_mappings < MOST_MAPPINGS ? vmm.n_mappings++ : 0;
}

static status map_locked(uintptr_t at, uint32_t of, reservation *in, unsigned access) {
  const physical *p = physical_at(of);
  vmm_settle_lingering(at, granules_bytes(p->bytes));
  const uint32_t id = mapping_new();
  if (!id) return fail(ST_NO_MEMORY, "%d mappings are live, expected fewer", MOST_MAPPINGS);
  mapping *m = &vmm.mappings[id];
  INVARIANT(is_granule(at) && at >= in->at.start && granules_bytes(p->bytes) <= in->at.start + in->at.bytes - at);
  INVARIANT(!mapping_at(at) && access <= (VMM_READ | VMM_WRITE));
  const status st = window_put(at, p->file, physical_pieces(p), p->n_pieces, p->device == VMM_HOST);
  if (st != ST_OK) {
    m->next = vmm.unused_mapping;
    vmm.unused_mapping = id;
    return st;
  }
  m->physical = of;
  atomic_store_explicit(&m->start, at, memory_order_relaxed);
  atomic_store_explicit(&m->bytes, p->bytes, memory_order_relaxed);
  atomic_store_explicit(&m->access, access, memory_order_relaxed);
  atomic_store_explicit(&m->device, p->device, memory_order_relaxed);
  vmm_mark(at, p->bytes, id);
  physical_map(of);
  in->device = p->device;
  in->imported = p->taken;
  ++in->n_mappings;
  INVARIANT(mapping_at(at) == m && mapping_at(at + p->bytes - 1) == m);
  return ST_OK;
}

status vmm_map(uintptr_t at, uint64_t bytes, void *handle, unsigned access) {
  uint32_t of;
  reservation *in;
  mutex_lock(&vmm.lock);
  status st = physical_of(handle, &of);
  if (st == ST_OK) st = reservation_check(at, bytes, physical_at(of), &in);
  if (st == ST_OK) st = check_free(at, bytes);
  if (st == ST_OK) st = map_locked(at, of, in, access);
  INVARIANT_WALK(vmm_is_valid());
  mutex_unlock(&vmm.lock);
  return st;
}

/* If tasks are pending, notes that the mapping's memory is to be unmapped after they have retired; *noted says whether.
 * Changes nothing where it fails. */
static status vmm_linger(uintptr_t at, const mapping *m, bool *noted) {
  *noted = vmm.fences && vmm.fences->pending();
  if (!*noted) return ST_OK;
  lingering *l = malloc(sizeof *l);
  void *fence = l ? vmm.fences->take() : NULL;
  if (!fence) {
    free(l);
    *noted = false;
    if (!vmm.fences->pending()) return ST_OK;
    return fail(ST_NO_HOST_MEMORY, "no host memory to unmap %p while tasks are pending", (void *)at);
  }
  *l = (lingering){vmm.lingering, at, m->bytes, m->physical, fence};
  vmm.lingering = l;
  return ST_OK;
}

static status unmap_locked(uintptr_t at) {
  mapping *m = (mapping *)(uintptr_t)mapping_at(at);
  INVARIANT(m && m->start == at && reservation_of(at) && reservation_of(at)->n_mappings);
  vmm_settle_lingering(0, 0);
  bool noted;
  TRY(vmm_linger(at, m, &noted));
  vmm_mark(at, m->bytes, 0);
  if (noted) {
    if (is_host(m)) window_hide_from_host(at, m->bytes);
    physical_unmap_later(m->physical);
  } else {
    window_clear(at, m->bytes, is_host(m));
    physical_unmap(m->physical);
  }
  --reservation_of(at)->n_mappings;
  m->next = vmm.unused_mapping;
  vmm.unused_mapping = (uint32_t)(m - vmm.mappings);
  INVARIANT_WALK(vmm_is_valid());
  return ST_OK;
}

status vmm_unmap(uintptr_t at) {
  mutex_lock(&vmm.lock);
  const mapping *m = reservation_of_program(at) ? mapping_at(at) : NULL;
  const status st = m && m->start == at
                        ? unmap_locked(at)
                        : fail(ST_INVALID_VALUE, "virPtr is %p, expected the start of a mapping", (void *)at);
  mutex_unlock(&vmm.lock);
  return st;
}

status vmm_retain(uintptr_t address, void **handle) {
  mutex_lock(&vmm.lock);
  const mapping *m = reservation_of_program(address) ? mapping_at(address) : NULL;
  if (m) *handle = physical_retain(m->physical);
  mutex_unlock(&vmm.lock);
  return m ? ST_OK : fail(ST_INVALID_VALUE, "virPtr is %p, expected an address in a mapping", (void *)address);
}

status vmm_set_access(uintptr_t at, uint64_t bytes, unsigned access) {
  mutex_lock(&vmm.lock);
  mapping *m = reservation_of_program(at) ? (mapping *)(uintptr_t)mapping_at(at) : NULL;
  const bool exact = m && m->start == at && m->bytes == bytes;
  if (exact) atomic_store_explicit(&m->access, access, memory_order_relaxed);
  mutex_unlock(&vmm.lock);
  return exact ? ST_OK
               : fail(ST_INVALID_VALUE, "virPtr is %p and size %ju, expected exactly one mapping", (void *)at,
                      (uintmax_t)bytes);
}

status vmm_get_access(uintptr_t address, unsigned *access) {
  const mapping *m = mapping_at(address);
  if (!m) return fail(ST_INVALID_VALUE, "virPtr is %p, expected an address in a mapping", (void *)address);
  *access = atomic_load_explicit(&m->access, memory_order_relaxed);
  return ST_OK;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

int vmm_device_of(uintptr_t address) {
  const mapping *m = mapping_at(address);
  return m ? atomic_load_explicit(&m->device, memory_order_relaxed) : -2;
}

bool vmm_is_reserved(uintptr_t address) {
  mutex_lock(&vmm.lock);
  const bool reserved = reservation_of(address);
  mutex_unlock(&vmm.lock);
  return reserved;
}

bool vmm_is_imported(uintptr_t address) {
  mutex_lock(&vmm.lock);
  const bool imported = reservation_of(address) && !reservation_of_program(address);
  mutex_unlock(&vmm.lock);
  return imported;
}

bool vmm_find(uintptr_t address, uintptr_t *start, uint64_t *bytes) {
  const mapping *m = mapping_at(address);
  if (!m) return false;
  *start = atomic_load_explicit(&m->start, memory_order_relaxed);
  *bytes = atomic_load_explicit(&m->bytes, memory_order_relaxed);
  return true;
}

bool vmm_is_same(uintptr_t a, uintptr_t b, uint64_t bytes) {
  if (a == b) return true;
  const mapping *m = mapping_at(a), *n = mapping_at(b);
  if (!m || !n || m->physical != n->physical) return false;
  const uint64_t inside = a - atomic_load_explicit(&m->start, memory_order_relaxed);
  return inside == b - atomic_load_explicit(&n->start, memory_order_relaxed) &&
         bytes <= atomic_load_explicit(&m->bytes, memory_order_relaxed) - inside;
}

__attribute__((cold)) static status vmm_refuse_view(uintptr_t address, uintptr_t at, const mapping *m, unsigned access,
                                                    const char *name) {
  if (!m)
    return fail(ST_INVALID_VALUE, "%s: at %p (range from %p) nothing is mapped, expected memory", name, (void *)at,
                (void *)address);
  return fail(ST_INVALID_VALUE, "%s: %p may not be %s, its access flags are %u, expected %s", name, (void *)at,
              access & VMM_WRITE ? "written" : "read", m->access, access & VMM_WRITE ? "READWRITE" : "READ");
}

status vmm_view(uintptr_t address, uint64_t bytes, unsigned access, const char *name, void **view) {
  uintptr_t at = address;
  do {
    const mapping *m = mapping_at(at);
    if (unlikely(!m || (atomic_load_explicit(&m->access, memory_order_relaxed) & access) != access))
      return vmm_refuse_view(address, at, m, access, name);
    at = atomic_load_explicit(&m->start, memory_order_relaxed) + atomic_load_explicit(&m->bytes, memory_order_relaxed);
  } while (at - address < bytes);
  *view = (void *)(address + space.vmm_distance);
  return ST_OK;
}

/* ---- invariants -------------------------------------------------------------------------------------------------- */

#ifdef CANNON_INVARIANTS

/* A mapping's granules lead to it, it lies in a reservation, and its memory is live. */
static bool vmm_mapping_is_valid(uint32_t id) {
  const mapping *m = &vmm.mappings[id];
  const reservation *r = reservation_of(m->start);
  for (uint64_t g = vmm_granule_of(m->start); g <= vmm_granule_of(m->start + m->bytes - 1); ++g)
    if (vmm.granules[g] != id) return false;
  if (!r || m->bytes > r->at.start + r->at.bytes - m->start || m->access > (VMM_READ | VMM_WRITE)) return false;
  const physical *p = physical_at(m->physical);
  return p->held > 0 && p->bytes == m->bytes && p->device == m->device && r->device == m->device &&
         r->imported == !!p->taken;
}

bool vmm_is_valid(void) {
  uint64_t n_live = 0, n_in_reservations, n_unused = 0, n_lingering = 0;
  physical_sums sums;
  if (!vmm.granules) return true;
  for (uint32_t id = vmm.unused_mapping; id; id = vmm.mappings[id].next)
    if (id >= vmm.n_mappings || ++n_unused >= vmm.n_mappings) return false;
  for (uint32_t id = 1; id < vmm.n_mappings; ++id) {
    const mapping *m = &vmm.mappings[id];
    if (!space_is_reserved(m->start) || vmm.granules[vmm_granule_of(m->start)] != id) continue; /* unused */
    if (!vmm_mapping_is_valid(id)) return false;
    ++n_live;
  }
  for (const lingering *l = vmm.lingering; l; l = l->next, ++n_lingering)
    if (!l->fence || !physical_at(l->physical)->refs) return false;
  return n_live + n_unused + 1 == vmm.n_mappings && reservation_all_are_valid(&n_in_reservations) &&
         n_in_reservations == n_live && physical_is_valid(&sums) && sums.held == sums.handles + n_live &&
         sums.refs == sums.held + n_lingering;
}

#endif
