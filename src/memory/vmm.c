#include "memory/vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/space.h"

enum { TAG_BYTES = 32, HANDLE_SHIFT = 4 };

typedef struct {
  uintptr_t start;
  uint64_t bytes;
  uint32_t n_mappings;
  int device; /* of what is mapped in it */
} reservation;

/* A handle is the slot's number and the number of times that the slot was used, so that a stale one is recognised. */
typedef struct {
  uint32_t uses; /* odd: there is one */
  uint32_t refs; /* handles given, and mappings */
  uint32_t handles;
  uint32_t next; /* unused slots */
  heap *heap;    /* NULL: file is its own */
  int device, file;
  uint64_t offset, bytes; /* in the file */
  char tag[TAG_BYTES];
} physical;

/* Read without the lock by vmm_view: what is dropped stays readable. */
typedef struct {
  _Atomic uintptr_t start;
  _Atomic uint64_t bytes;
  _Atomic unsigned access;
  _Atomic int device;
  uint32_t physical, next;
} mapping;

/* What was unmapped while tasks were pending. */
typedef struct lingering {
  struct lingering *next;
  uintptr_t start;
  uint64_t bytes;
  uint32_t physical;
  void *fence;
} lingering;

enum { MOST_PHYSICALS = 1 << 20, MOST_MAPPINGS = 1 << 20 };

static struct {
  pthread_mutex_t lock;
  reservation *reserved; /* by address */
  size_t n_reserved, capacity;
  physical *physicals; /* tables of MOST_..., made at first use; 0 is none */
  mapping *mappings;
  _Atomic uint32_t *_Atomic granules; /* of the window: the mapping that holds each */
  uint32_t n_physicals, n_mappings, unused_physical, unused_mapping;
  lingering *lingering;
  const heap_fences *fences;
} vmm = {.lock = PTHREAD_MUTEX_INITIALIZER, .n_physicals = 1, .n_mappings = 1};

void vmm_set_fences(const heap_fences *fences) { vmm.fences = fences; }

static uint64_t granule_of(uintptr_t address) { return (address - space.vmm_base) >> HEAP_GRANULE_SHIFT; }
static bool is_granule(uint64_t x) { return x % HEAP_GRANULE_BYTES == 0; }
static void *view_at(uintptr_t address) { return (void *)(address + space.vmm_distance); }

static void *table(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Under the lock. */
static status open_tables(void) {
  if (vmm.granules) return ST_OK;
  if (!space.vmm_base) return fail(ST_NO_MEMORY, "no room in the address space for reservations (ulimit -v?)");
  physical *physicals = table(MOST_PHYSICALS * sizeof *physicals);
  mapping *mappings = table(MOST_MAPPINGS * sizeof *mappings);
  _Atomic uint32_t *granules = table((space.vmm_bytes >> HEAP_GRANULE_SHIFT) * sizeof *granules);
  if (!physicals || !mappings || !granules) {
    if (physicals) munmap(physicals, MOST_PHYSICALS * sizeof *physicals);
    if (mappings) munmap(mappings, MOST_MAPPINGS * sizeof *mappings);
    return fail(ST_NO_HOST_MEMORY, "no host memory for the tables of reservations");
  }
  vmm.physicals = physicals;
  vmm.mappings = mappings;
  atomic_store_explicit(&vmm.granules, granules, memory_order_release);
  return ST_OK;
}

/* ---- reservations ------------------------------------------------------------------------------------------------ */

/* The first reservation that ends behind the address. */
static size_t place_of(uintptr_t address) {
  size_t low = 0, high = vmm.n_reserved;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (vmm.reserved[middle].start + vmm.reserved[middle].bytes > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static reservation *reservation_of(uintptr_t address) {
  const size_t i = place_of(address);
  return i < vmm.n_reserved && vmm.reserved[i].start <= address ? &vmm.reserved[i] : NULL;
}

static bool insert(size_t at, uintptr_t start, uint64_t bytes) {
  if (vmm.n_reserved == vmm.capacity) {
    const size_t capacity = vmm.capacity ? 2 * vmm.capacity : 16;
    reservation *grown = realloc(vmm.reserved, capacity * sizeof *grown);
    if (!grown) return false;
    vmm.reserved = grown;
    vmm.capacity = capacity;
  }
  memmove(&vmm.reserved[at + 1], &vmm.reserved[at], (vmm.n_reserved - at) * sizeof *vmm.reserved);
  vmm.reserved[at] = (reservation){.start = start, .bytes = bytes, .device = VMM_HOST};
  ++vmm.n_reserved;
  return true;
}

/* The first gap that holds it; 0 where there is none. */
static uintptr_t find_gap(uint64_t bytes, uint64_t alignment, size_t *at) {
  uintptr_t from = space.vmm_base;
  const uintptr_t end = space.vmm_base + space.vmm_bytes;
  for (size_t i = 0; i <= vmm.n_reserved; ++i) {
    const uintptr_t start = (from + alignment - 1) & -alignment,
                    stop = i < vmm.n_reserved ? vmm.reserved[i].start : end;
    if (start >= from && start <= stop && bytes <= stop - start) {
      *at = i;
      return start;
    }
    if (i < vmm.n_reserved) from = vmm.reserved[i].start + vmm.reserved[i].bytes;
  }
  return 0;
}

static status reserve_at(uint64_t bytes, uintptr_t expected) {
  if (!space_is_reserved(expected) || bytes > space.vmm_base + space.vmm_bytes - expected)
    return fail(ST_INVALID_VALUE, "expectPtr is %p, expected an address from %p to below %p", (void *)expected,
                (void *)space.vmm_base, (void *)(space.vmm_base + space.vmm_bytes));
  const size_t at = place_of(expected);
  if (at < vmm.n_reserved && vmm.reserved[at].start < expected + bytes)
    return fail(ST_INVALID_VALUE, "expectPtr is %p, but %p to below %p is reserved, expected free addresses",
                (void *)expected, (void *)vmm.reserved[at].start,
                (void *)(vmm.reserved[at].start + vmm.reserved[at].bytes));
  return insert(at, expected, bytes) ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for a reservation");
}

static status reserve_anywhere(uint64_t bytes, uint64_t alignment, uintptr_t *out) {
  size_t at;
  *out = find_gap(bytes, alignment, &at);
  if (!*out)
    return fail(ST_NO_MEMORY, "size is %ju bytes, expected one for which addresses are left of %ju GiB",
                (uintmax_t)bytes, (uintmax_t)(space.vmm_bytes >> 30));
  return insert(at, *out, bytes) ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for a reservation");
}

status vmm_reserve(uint64_t bytes, uint64_t alignment, uintptr_t expected, uintptr_t *out) {
  if (bytes == 0) return fail(ST_INVALID_VALUE, "size is 0, expected 1 or more");
  if (alignment & (alignment - 1))
    return fail(ST_INVALID_VALUE, "alignment is %ju, expected 0 or a power of two", (uintmax_t)alignment);
  if (!is_granule(expected))
    return fail(ST_INVALID_VALUE, "expectPtr is %p, expected a multiple of %d MiB", (void *)expected,
                HEAP_GRANULE_BYTES >> 20);
  if (bytes > space.vmm_bytes)
    return fail(ST_NO_MEMORY, "size is %ju bytes, expected at most %ju", (uintmax_t)bytes, (uintmax_t)space.vmm_bytes);
  bytes = (bytes + HEAP_GRANULE_BYTES - 1) & -(uint64_t)HEAP_GRANULE_BYTES;
  if (alignment < HEAP_GRANULE_BYTES) alignment = HEAP_GRANULE_BYTES;
  pthread_mutex_lock(&vmm.lock);
  status st = open_tables();
  *out = expected;
  if (st == ST_OK) st = expected ? reserve_at(bytes, expected) : reserve_anywhere(bytes, alignment, out);
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

status vmm_release(uintptr_t start) {
  pthread_mutex_lock(&vmm.lock);
  status st = ST_OK;
  reservation *r = reservation_of(start);
  if (!r || r->start != start)
    st = fail(ST_INVALID_VALUE, "virPtr is %p, expected the start of a reservation", (void *)start);
  else if (r->n_mappings)
    st = fail(ST_INVALID_VALUE, "virPtr is %p, where %u mappings are left, expected all unmapped", (void *)start,
              r->n_mappings);
  else
    memmove(r, r + 1, (size_t)(vmm.reserved + --vmm.n_reserved - r) * sizeof *r);
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

/* ---- physical memory --------------------------------------------------------------------------------------------- */

static bool settle(uintptr_t start, uint64_t bytes);

static void *handle_of(uint32_t id) {
  return (void *)((uintptr_t)vmm.physicals[id].uses << 32 | (uintptr_t)id << HANDLE_SHIFT);
}

static status physical_of(void *handle, uint32_t *id) {
  *id = (uint32_t)(uintptr_t)handle >> HANDLE_SHIFT;
  if (vmm.physicals && *id && *id < vmm.n_physicals && vmm.physicals[*id].handles && handle_of(*id) == handle)
    return ST_OK;
  return fail(ST_INVALID_VALUE, "handle is %p, no physical memory (freed before?)", handle);
}

static uint32_t physical_new(void) {
  const uint32_t id = vmm.unused_physical;
  if (id) {
    vmm.unused_physical = vmm.physicals[id].next;
    return id;
  }
  return vmm.n_physicals < MOST_PHYSICALS ? vmm.n_physicals++ : 0;
}

/* Drops a reference; the last gives the memory back. */
static void physical_unref(uint32_t id) {
  physical *p = &vmm.physicals[id];
  if (--p->refs) return;
  if (p->heap)
    heap_give_pages(p->heap, p->offset, p->bytes);
  else
    close(p->file);
  ++p->uses;
  p->next = vmm.unused_physical;
  vmm.unused_physical = id;
}

static status make_host_file(uint64_t bytes, int *file) {
  *file = memfd_create("cannon-host", MFD_CLOEXEC);
  if (*file >= 0 && ftruncate(*file, (off_t)bytes) == 0) return ST_OK;
  const int error = errno;
  if (*file >= 0) close(*file);
  return fail(ST_NO_MEMORY, "size is %ju bytes of host memory: %s", (uintmax_t)bytes, strerror(error));
}

status vmm_create(int device, heap *h, uint64_t bytes, uint64_t granularity, const void *tag, void **handle) {
  if (bytes == 0 || bytes % granularity)
    return fail(ST_INVALID_VALUE, "size is %ju, expected a multiple of the granularity, %ju", (uintmax_t)bytes,
                (uintmax_t)granularity);
  physical made = {.heap = h, .device = device, .bytes = bytes, .refs = 1, .handles = 1};
  memcpy(made.tag, tag, TAG_BYTES);
  pthread_mutex_lock(&vmm.lock);
  settle(0, 0);
  pthread_mutex_unlock(&vmm.lock);
  if (h) {
    TRY(heap_take_pages(h, bytes, &made.offset));
    made.file = heap_file(h);
  } else {
    TRY(make_host_file(bytes, &made.file));
  }
  pthread_mutex_lock(&vmm.lock);
  status st = open_tables();
  const uint32_t id = st == ST_OK ? physical_new() : 0;
  if (id) {
    made.uses = vmm.physicals[id].uses + 1;
    vmm.physicals[id] = made;
    *handle = handle_of(id);
  } else if (st == ST_OK) {
    st = fail(ST_NO_MEMORY, "%d physical memories are live, expected to hold fewer", MOST_PHYSICALS);
  }
  pthread_mutex_unlock(&vmm.lock);
  if (id) return ST_OK;
  if (h)
    heap_give_pages(h, made.offset, bytes);
  else
    close(made.file);
  return st;
}

status vmm_drop(void *handle) {
  uint32_t id;
  pthread_mutex_lock(&vmm.lock);
  const status st = physical_of(handle, &id);
  if (st == ST_OK) {
    --vmm.physicals[id].handles;
    physical_unref(id);
  }
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

status vmm_tag(void *handle, void *tag) {
  uint32_t id;
  pthread_mutex_lock(&vmm.lock);
  const status st = physical_of(handle, &id);
  if (st == ST_OK) memcpy(tag, vmm.physicals[id].tag, TAG_BYTES);
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

/* ---- mappings ---------------------------------------------------------------------------------------------------- */

static const mapping *mapping_at(uintptr_t address) {
  _Atomic uint32_t *granules = atomic_load_explicit(&vmm.granules, memory_order_acquire);
  if (!granules || !space_is_reserved(address)) return NULL;
  const uint32_t id = atomic_load_explicit(&granules[granule_of(address)], memory_order_acquire);
  return id ? &vmm.mappings[id] : NULL;
}

static void mark(uintptr_t at, uint64_t bytes, uint32_t id) {
  for (uint64_t g = granule_of(at); g < granule_of(at) + (bytes >> HEAP_GRANULE_SHIFT); ++g)
    atomic_store_explicit(&vmm.granules[g], id, memory_order_release);
}

/* Nothing behind the addresses again. Where the system refuses (too many mappings), the memory stays, unreachable by any
 * call. */
static void hide(void *at, uint64_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(at, bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED) madvise(at, bytes, MADV_DONTNEED);
}

/* Neither for kernels nor, of host memory, for the program. */
static void cover(uintptr_t at, uint64_t bytes, bool host) {
  hide(view_at(at), bytes);
  if (host) hide((void *)at, bytes);
}

/* Gives back what no task uses any more; of what is to be replaced, the addresses at once. Whether any memory was. */
static bool settle(uintptr_t start, uint64_t bytes) {
  bool any = false;
  for (lingering **at = &vmm.lingering; *at;) {
    lingering *l = *at;
    const bool passed = vmm.fences->passed(l->fence);
    if (passed || (l->start < start + bytes && start < l->start + l->bytes)) {
      if (l->bytes) cover(l->start, l->bytes, false);
      l->bytes = 0;
    }
    if (!passed) {
      at = &l->next;
      continue;
    }
    physical_unref(l->physical);
    *at = l->next;
    free(l);
    any = true;
  }
  return any;
}

bool vmm_settle(void) {
  pthread_mutex_lock(&vmm.lock);
  const bool any = settle(0, 0);
  pthread_mutex_unlock(&vmm.lock);
  return any;
}

static bool map_file(uintptr_t at, const physical *p) {
  const int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
  if (mmap(view_at(at), p->bytes, protection, flags, p->file, (off_t)p->offset) == MAP_FAILED) return false;
  madvise(view_at(at), p->bytes, MADV_DONTFORK);
  if (p->device != VMM_HOST) return true;
  if (mmap((void *)at, p->bytes, protection, flags, p->file, (off_t)p->offset) != MAP_FAILED) return true;
  cover(at, p->bytes, false);
  return false;
}

static status check_place(uintptr_t at, uint64_t bytes, const physical *p, reservation **in) {
  reservation *r = *in = reservation_of(at);
  if (bytes != p->bytes)
    return fail(ST_INVALID_VALUE, "size is %ju, expected that of the physical memory, %ju", (uintmax_t)bytes,
                (uintmax_t)p->bytes);
  if (!r) return fail(ST_INVALID_VALUE, "virPtr is %p, expected an address in a reservation", (void *)at);
  if (!is_granule(at) || bytes > r->start + r->bytes - at)
    return fail(ST_INVALID_VALUE, "virPtr is %p and size %ju, expected a multiple of %d MiB and to end by %p",
                (void *)at, (uintmax_t)bytes, HEAP_GRANULE_BYTES >> 20, (void *)(r->start + r->bytes));
  for (uint64_t done = 0; done < bytes; done += HEAP_GRANULE_BYTES)
    if (mapping_at(at + done))
      return fail(ST_INVALID_VALUE, "virPtr is %p, but at %p something is mapped, expected nothing", (void *)at,
                  (void *)(at + done));
  if (r->n_mappings && r->device != p->device)
    return fail(ST_INVALID_VALUE, "handle is memory of device %d, expected of %d, as the rest of the reservation",
                p->device, r->device);
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

static status map_locked(uintptr_t at, uint64_t bytes, void *handle, unsigned access) {
  uint32_t of;
  reservation *in;
  TRY(physical_of(handle, &of));
  physical *p = &vmm.physicals[of];
  TRY(check_place(at, bytes, p, &in));
  settle(at, bytes);
  const uint32_t id = mapping_new();
  if (!id || !map_file(at, p)) {
    const int error = errno;
    if (id) vmm.mappings[id].next = vmm.unused_mapping, vmm.unused_mapping = id;
    return fail(ST_NO_MEMORY,
                "the mapping of %ju bytes at %p was refused (%s): the system limits a process's mappings "
                "(vm.max_map_count), expected fewer or larger ones",
                (uintmax_t)bytes, (void *)at, strerror(error));
  }
  mapping *m = &vmm.mappings[id];
  m->physical = of;
  atomic_store_explicit(&m->start, at, memory_order_relaxed);
  atomic_store_explicit(&m->bytes, bytes, memory_order_relaxed);
  atomic_store_explicit(&m->access, access, memory_order_relaxed);
  atomic_store_explicit(&m->device, p->device, memory_order_relaxed);
  mark(at, bytes, id);
  ++p->refs;
  in->device = p->device;
  ++in->n_mappings;
  return ST_OK;
}

status vmm_map(uintptr_t at, uint64_t bytes, void *handle, unsigned access) {
  pthread_mutex_lock(&vmm.lock);
  const status st = map_locked(at, bytes, handle, access);
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

/* Notes that the mapping's memory is to be taken from under its addresses once the pending tasks are done; *noted is false
 * where none is pending. Changes nothing where it fails. */
static status linger(uintptr_t at, const mapping *m, bool *noted) {
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
  if (!m || m->start != at) return fail(ST_INVALID_VALUE, "virPtr is %p, expected the start of a mapping", (void *)at);
  settle(0, 0);
  bool noted;
  TRY(linger(at, m, &noted));
  mark(at, m->bytes, 0);
  if (noted) {
    if (m->device == VMM_HOST) hide((void *)at, m->bytes);
  } else {
    cover(at, m->bytes, m->device == VMM_HOST);
    physical_unref(m->physical);
  }
  --reservation_of(at)->n_mappings;
  m->next = vmm.unused_mapping;
  vmm.unused_mapping = (uint32_t)(m - vmm.mappings);
  return ST_OK;
}

status vmm_unmap(uintptr_t at) {
  pthread_mutex_lock(&vmm.lock);
  const status st = unmap_locked(at);
  pthread_mutex_unlock(&vmm.lock);
  return st;
}

status vmm_retain(uintptr_t address, void **handle) {
  pthread_mutex_lock(&vmm.lock);
  const mapping *m = mapping_at(address);
  if (m) {
    physical *p = &vmm.physicals[m->physical];
    ++p->refs;
    ++p->handles;
    *handle = handle_of(m->physical);
  }
  pthread_mutex_unlock(&vmm.lock);
  return m ? ST_OK : fail(ST_INVALID_VALUE, "virPtr is %p, expected an address in a mapping", (void *)address);
}

status vmm_set_access(uintptr_t at, uint64_t bytes, unsigned access) {
  pthread_mutex_lock(&vmm.lock);
  mapping *m = (mapping *)(uintptr_t)mapping_at(at);
  const bool exact = m && m->start == at && m->bytes == bytes;
  if (exact) atomic_store_explicit(&m->access, access, memory_order_relaxed);
  pthread_mutex_unlock(&vmm.lock);
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

bool vmm_find(uintptr_t address, uintptr_t *start, uint64_t *bytes) {
  const mapping *m = mapping_at(address);
  if (!m) return false;
  *start = atomic_load_explicit(&m->start, memory_order_relaxed);
  *bytes = atomic_load_explicit(&m->bytes, memory_order_relaxed);
  return true;
}

__attribute__((cold)) static status refuse(uintptr_t address, uintptr_t at, const mapping *m, unsigned access,
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
      return refuse(address, at, m, access, name);
    at = atomic_load_explicit(&m->start, memory_order_relaxed) + atomic_load_explicit(&m->bytes, memory_order_relaxed);
  } while (at - address < bytes);
  *view = view_at(address);
  return ST_OK;
}
