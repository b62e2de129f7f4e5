/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of mstx: marks and ranges with messages, in the profiler's timeline. */
#define MSTX_LINKED
#include "mstx/ms_tools_ext.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/hooks.h"
#include "memory/memory.h"
#include "runtime/context.h"
#include "runtime/task_record.h"
#include "trace/marked_ranges.h"

/* For functions that return no status: the message of a failure can be read by aclGetRecentErrMsg. */
#define TELL(expression) ((void)API_RESULT(expression))

static bool is_recorded(void) {
  API_ENTER();
  return unlikely(timeline_wants(TIMELINE_WANTS_MARKS));
}

static uint32_t mstx_name_number(const char *text) { return timeline_name(text, strlen(text)); }

static status check_message(const char *message) {
  return message ? ST_OK : fail(ST_INVALID_PARAM, "message is NULL, expected a text");
}

/* Records a mark at the present end of the stream's queue. type: "start" or "end" of a range, or NULL for a plain
 * mark. */
static status mark_stream(void *domain, const char *message, const char *type, uint64_t range, aclrtStream handle) {
  stream *s;
  timeline_record r;
  TRY(context_stream(handle, &s));
  TRY(range_record(domain, message, &r));
  r.kind = TIMELINE_MARK_EX;
  r.detail = (uint32_t)range;
  if (type) r.type = mstx_name_number(type);
  return task_record_point(&r, s);
}

static status mstx_mark(void *domain, const char *message, aclrtStream handle) {
  timeline_record r;
  TRY(check_message(message));
  if (handle) return mark_stream(domain, message, NULL, 0, handle);
  TRY(range_record(domain, message, &r));
  r.type = mstx_name_number("mark");
  r.start_ns = r.end_ns = timeline_now();
  timeline_add(&r);
  return ST_OK;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static status mstx_start(void *domain, const char *message, aclrtStream handle, uint64_t *id) {
  TRY(check_message(message));
  TRY(range_start(domain, message, handle, id));
  if (!handle) return ST_OK;
  const status st = mark_stream(domain, message, "start", *id, handle);
  if (st == ST_OK) return ST_OK;
  range_cancel(*id);
  *id = 0;
  return st;
}

static status mstx_end(void *domain, uint64_t id) {
  char *message;
  void *handle;
  TRY(range_end(domain, id, &message, &handle));
  const status st = handle && is_recorded() ? mark_stream(domain, message, "end", id, handle) : ST_OK;
  free(message);
  return st;
}

/* ---- frameworks' pools ------------------------------------------------------------------------------------------- */

/* The domains in which torch_npu and MindSpore tell of their pools' memory. They ask for the domain before each call,
 * and get the same one; and they leave the fields of batches that they don't need as they happen to be. */
static struct {
  const char *const name;
  void *_Atomic domain;
} pools[] = {{"ptaCaching", NULL}, {"ptaWorkspace", NULL}, {"msleaks", NULL}};
enum { N_POOLS = sizeof pools / sizeof *pools };

static void *_Atomic *pool_by_name(const char *name) {
  for (size_t i = 0; i < N_POOLS; ++i)
    if (name && strcmp(pools[i].name, name) == 0) return &pools[i].domain;
  return NULL;
}

static void *_Atomic *pool_of_domain(const void *domain) {
  for (size_t i = 0; domain && i < N_POOLS; ++i)
    if (atomic_load(&pools[i].domain) == domain) return &pools[i].domain;
  return NULL;
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

mstxDomainHandle_t mstxDomainCreateA(const char *name) {
  API_ENTER();
  void *_Atomic *const pool = pool_by_name(name);
  void *domain = pool ? atomic_load(pool) : NULL;
  if (domain) return domain;
  TELL(name ? range_domain_create(name, &domain) : fail(ST_INVALID_PARAM, "name is NULL, expected a name"));
  if (pool) atomic_store(pool, domain);
  return domain;
}

void mstxDomainDestroy(mstxDomainHandle_t domain) {
  API_ENTER();
  void *_Atomic *const pool = pool_of_domain(domain);
  if (pool) atomic_store(pool, NULL);
  TELL(range_domain_destroy(domain));
}

void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream) {
  API_ENTER();
  if (is_recorded()) TELL(mstx_mark(domain, message, stream));
}

mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message, aclrtStream stream) {
  API_ENTER();
  uint64_t id = 0;
  if (is_recorded()) TELL(mstx_start(domain, message, stream, &id));
  return id;
}

/* A start returns 0 while nothing is recorded. */
void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id) {
  API_ENTER();
  if (id) TELL(mstx_end(domain, id));
}

void mstxMarkA(const char *message, aclrtStream stream) {
  API_ENTER();
  mstxDomainMarkA(globalDomain, message, stream);
}

mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream) {
  API_ENTER();
  return mstxDomainRangeStartA(globalDomain, message, stream);
}

void mstxRangeEnd(mstxRangeId id) {
  API_ENTER();
  mstxDomainRangeEnd(globalDomain, id);
}

/* ---- memory that the program divides itself ---------------------------------------------------------------------- */

/* A handle is the address of what it stands for, which nobody dereferences. */
mstxMemHeapHandle_t mstxMemHeapRegister(mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc) {
  API_ENTER();
  (void)domain;
  const mstxMemVirtualRangeDesc_t *range = desc ? desc->typeSpecificDesc : NULL;
  return range && hooks_any() ? (mstxMemHeapHandle_t)(uintptr_t)range->ptr : NULL;
}

void mstxMemHeapUnregister(mstxDomainHandle_t domain, mstxMemHeapHandle_t heap) {
  API_ENTER();
  (void)domain;
  (void)heap;
}

void mstxMemRegionsRegister(mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc) {
  API_ENTER();
  const mstxMemVirtualRangeDesc_t *range = desc ? desc->regionDescArray : NULL;
  if (!range || !hooks_any()) return;
  mstxMemRegionHandle_t *handles = pool_of_domain(domain) ? NULL : desc->regionHandleArrayOut;
  for (size_t i = 0; i < desc->regionCount; ++i) {
    if (handles) handles[i] = (mstxMemRegionHandle_t)(uintptr_t)range[i].ptr;
    hooks_region((hook_region){(int)range[i].deviceId, (uintptr_t)range[i].ptr, range[i].size});
  }
}

void mstxMemRegionsUnregister(mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc) {
  API_ENTER();
  (void)domain;
  if (!desc || !desc->refArray || !hooks_any()) return;
  for (size_t i = 0; i < desc->refCount; ++i) {
    const uintptr_t address = (uintptr_t)desc->refArray[i].pointer; /* handles are addresses, too */
    const int device = memory_device_of(desc->refArray[i].pointer);
    if (device >= 0) hooks_region_end(device, address);
  }
}
