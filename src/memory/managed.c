/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/managed.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/store/sparse.h"
#include "memory/memory.h"

/* What is recorded of a page; all zero: nothing. */
typedef struct {
  managed_location preferred, prefetched;
  uint64_t nodes;   /* bit per NUMA node that accesses it */
  uint16_t devices; /* bit per device that accesses it */
  bool host;        /* whether the host accesses it */
  bool read_mostly;
} page;
_Static_assert(SPACE_MAX_DEVICES <= 16, "bits of page.devices");

static mutex lock = MUTEX_INITIALIZER(MANAGED); /* guards the table */
static page *table;                             /* entry per page of the window; made with the first block */

/* Blocks are whole pages long, but may start anywhere. A block's pages are counted from its start, so that no two
 * blocks share an entry. */
static page *managed_page_of(const heap_block *b, uintptr_t address) {
  return &table[(b->address - space.managed_base) / MANAGED_PAGE_BYTES + (address - b->address) / MANAGED_PAGE_BYTES];
}

typedef struct {
  page *first;
  size_t n;
} page_range;

/* The entries of [p, p + bytes); none where another thread has just freed the block. */
static page_range managed_pages_in(const void *p, uint64_t bytes) {
  const heap_block *b = memory_find(p);
  if (!b) return (page_range){table, 0};
  page *first = managed_page_of(b, (uintptr_t)p);
  return (page_range){first, (size_t)(managed_page_of(b, (uintptr_t)p + bytes - 1) - first) + 1};
}

static status open_table(void) {
  status st = ST_OK;
  mutex_lock(&lock);
  if (!table) {
    table = sparse_new(space.managed_bytes / MANAGED_PAGE_BYTES * sizeof *table);
    if (!table) st = fail(ST_NO_HOST_MEMORY, "no host memory for the table of managed pages");
  }
  mutex_unlock(&lock);
  return st;
}

status managed_alloc(uint64_t bytes, void *site, void **out) {
  TRY(open_table());
  TRY(memory_alloc(-1, &alloc_rules[RULE_MALLOC_MANAGED], POLICY_HUGE_ONLY, bytes, site, out));
  mutex_lock(&lock);
  const page_range r = managed_pages_in(*out, bytes);
  memset(r.first, 0, r.n * sizeof *r.first);
  mutex_unlock(&lock);
  return ST_OK;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

status managed_check(const void *p, uint64_t bytes, const char *name) {
  const heap_block *b = space_is_managed((uintptr_t)p) ? memory_find(p) : NULL;
  if (!bytes) return fail(ST_INVALID_PARAM, "%s: size is 0, expected 1 or more", name);
  if (!b) return fail(ST_INVALID_VALUE, "%s is %p, expected an address in a block of aclrtMemAllocManaged", name, p);
  const uint64_t inside = (uintptr_t)p - b->address;
  if (inside < b->bytes && bytes <= b->bytes - inside) return ST_OK;
  return fail(ST_INVALID_VALUE, "%s is %p and its size %ju, expected at most %ju, to the end of the block", name, p,
              (uintmax_t)bytes, (uintmax_t)(b->bytes - inside));
}

static bool node_exists(int32_t id) {
  char path[64];
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d", id);
  return id >= 0 && id < MANAGED_MOST_NODES && (id == 0 || access(path, F_OK) == 0);
}

status managed_check_location(managed_location *location, const char *name) {
  unsigned cpu, node = 0;
  switch (location->kind) {
  case MANAGED_ON_HOST: location->id = MANAGED_ID_HOST; return ST_OK;
  case MANAGED_ON_CURRENT_NODE:
    if (getcpu(&cpu, &node)) node = 0;
    *location = (managed_location){MANAGED_ON_NODE, (int32_t)node};
    return ST_OK;
  case MANAGED_ON_NODE:
    if (node_exists(location->id)) return ST_OK;
    return fail(ST_INVALID_VALUE, "%s.id is %d, expected a NUMA node of this host", name, location->id);
  case MANAGED_ON_DEVICE:
    if (location->id >= 0 && location->id < SPACE_MAX_DEVICES) return ST_OK;
    return fail(ST_INVALID_DEVICE, "%s.id is %d, expected a device", name, location->id);
  default:
    return fail(ST_INVALID_VALUE, "%s.type is %d, expected DEVICE, HOST, HOST_NUMA or HOST_NUMA_CURRENT (1 to 4)", name,
                (int)location->kind);
  }
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

static void set_accessed(page *g, managed_location by, bool set) {
  if (by.kind == MANAGED_ON_HOST) g->host = set;
  const uint64_t bit = UINT64_C(1) << (by.id & 63);
  if (by.kind == MANAGED_ON_DEVICE) g->devices = (uint16_t)(set ? g->devices | bit : g->devices & ~bit);
  if (by.kind == MANAGED_ON_NODE) g->nodes = set ? g->nodes | bit : g->nodes & ~bit;
}

static void advise_page(page *g, managed_advice advice, managed_location location) {
  switch (advice) {
  case MANAGED_SET_READ_MOSTLY:
  case MANAGED_UNSET_READ_MOSTLY: g->read_mostly = advice == MANAGED_SET_READ_MOSTLY; break;
  case MANAGED_SET_PREFERRED: g->preferred = location; break;
  case MANAGED_UNSET_PREFERRED: g->preferred = (managed_location){0}; break;
  default: set_accessed(g, location, advice == MANAGED_SET_ACCESSED_BY);
  }
}

void managed_advise(const void *p, uint64_t bytes, managed_advice advice, managed_location location) {
  mutex_lock(&lock);
  const page_range r = managed_pages_in(p, bytes);
  for (size_t i = 0; i < r.n; ++i) advise_page(&r.first[i], advice, location);
  mutex_unlock(&lock);
}

void managed_note_prefetch(const void *p, uint64_t bytes, managed_location location) {
  mutex_lock(&lock);
  const page_range r = managed_pages_in(p, bytes);
  for (size_t i = 0; i < r.n; ++i) r.first[i].prefetched = location;
  mutex_unlock(&lock);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

status managed_check_answer(managed_attribute attribute, size_t bytes) {
  if (attribute < MANAGED_READ_MOSTLY || attribute >= MANAGED_ATTRIBUTES_END)
    return fail(ST_INVALID_PARAM, "attribute is %d, expected %d to %d", (int)attribute, MANAGED_READ_MOSTLY,
                MANAGED_ATTRIBUTES_END - 1);
  if (attribute == MANAGED_ACCESSED_BY ? bytes && bytes % sizeof(int32_t) == 0 : bytes == sizeof(int32_t)) return ST_OK;
  return fail(ST_INVALID_VALUE, "dataSize is %zu, expected %s", bytes,
              attribute == MANAGED_ACCESSED_BY ? "a multiple of 4" : "4");
}

/* The location that all pages have in common, or MANAGED_NOWHERE. */
static managed_location managed_common(page_range r, bool prefetched) {
  const managed_location first = prefetched ? r.first->prefetched : r.first->preferred;
  for (size_t i = 1; i < r.n; ++i) {
    const managed_location other = prefetched ? r.first[i].prefetched : r.first[i].preferred;
    if (other.kind != first.kind || other.id != first.id) return (managed_location){0};
  }
  return first;
}

static int32_t managed_id_of(managed_location l) { return l.kind == MANAGED_NOWHERE ? MANAGED_ID_NONE : l.id; }

static bool all_read_mostly(page_range r) {
  size_t i = 0;
  while (i < r.n && r.first[i].read_mostly) ++i;
  return i == r.n;
}

/* Lists the host, devices and nodes that access all of the pages; the rest of the answer is MANAGED_ID_NONE. */
static void list_accessed(page_range r, int32_t *answer, size_t room) {
  page all = *r.first;
  for (size_t i = 1; i < r.n; ++i) {
    all.host &= r.first[i].host;
    all.devices &= r.first[i].devices;
    all.nodes &= r.first[i].nodes;
  }
  size_t n = 0;
  if (all.host && n < room) answer[n++] = MANAGED_ID_HOST;
  for (int d = 0; d < SPACE_MAX_DEVICES && n < room; ++d)
    if (all.devices >> d & 1) answer[n++] = d;
  for (int i = 0; i < MANAGED_MOST_NODES && n < room; ++i)
    if (all.nodes >> i & 1) answer[n++] = i;
  while (n < room) answer[n++] = MANAGED_ID_NONE;
}

void managed_answer(const void *p, uint64_t bytes, managed_attribute attribute, int32_t *answer, size_t answer_bytes) {
  mutex_lock(&lock);
  const page_range r = managed_pages_in(p, bytes);
  switch (attribute) {
  case MANAGED_READ_MOSTLY: *answer = all_read_mostly(r); break;
  case MANAGED_ACCESSED_BY: list_accessed(r, answer, answer_bytes / sizeof *answer); break;
  case MANAGED_PREFERRED:
  case MANAGED_PREFERRED_ID: *answer = managed_id_of(managed_common(r, false)); break;
  case MANAGED_PREFERRED_KIND: *answer = (int32_t)managed_common(r, false).kind; break;
  case MANAGED_PREFETCHED:
  case MANAGED_PREFETCHED_ID: *answer = managed_id_of(managed_common(r, true)); break;
  default: *answer = (int32_t)managed_common(r, true).kind;
  }
  mutex_unlock(&lock);
}
