/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the program registers with communicators, so that HCCL need not copy through buffers of its own. The core
 * never does: each rank reads and writes its peers' memory where it is. So this file only keeps account of what is
 * registered, and checks it. */
#include <stdlib.h>
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "base/forks.h"
#include "base/lock.h"
#include "memory/memory.h"

typedef enum {
  RANGE,      /* reserved addresses (HcclCommSetMemoryRange) */
  ACTIVE,     /* memory that is mapped in a range */
  WINDOW,     /* HcclCommSymWinRegister */
  REGISTERED, /* HcclCommRegister */
} area_kind;

static const char *const area_names[] = {"a range", "activated memory", "a window", "registered memory"};

/* Memory that is registered. Its address is the handle of a window and of registered memory. */
typedef struct area {
  struct area *next;
  area_kind kind;
  HcclComm handle; /* the communicator */
  uintptr_t start;
  uint64_t bytes;
} area;

static mutex areas_lock = MUTEX_INITIALIZER(HCCL_MEMORY); /* guards the list */
FORK_RENEWS(areas_lock)
static area *areas;

/* ---- the list, under the lock ---- */

/* The area of the kind that has the address (bytes 0), or shares a byte with [start, start + bytes). */
static area *area_at(area_kind kind, uintptr_t start, uint64_t bytes) {
  for (area *a = areas; a; a = a->next)
    if (a->kind == kind && start < a->start + a->bytes && a->start < start + (bytes ? bytes : 1)) return a;
  return NULL;
}

/* The area that starts there. */
static area *area_from(area_kind kind, uintptr_t start) {
  area *a = areas;
  while (a && !(a->kind == kind && a->start == start)) a = a->next;
  return a;
}

static area *area_of_handle(area_kind kind, const void *handle) {
  area *a = areas;
  while (a && !(a->kind == kind && a == handle)) a = a->next;
  return a;
}

static void area_remove(area *removed) {
  area **link = &areas;
  while (*link != removed) link = &(*link)->next;
  *link = removed->next;
  free(removed);
}

static hccl_outcome area_add(area_kind kind, HcclComm handle, uintptr_t start, uint64_t bytes, area **out) {
  area *a = malloc(sizeof *a);
  if (!a) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory to keep account of %s", area_names[kind]));
  *a = (area){areas, kind, handle, start, bytes};
  areas = a;
  if (out) *out = a;
  return 0;
}

void hccl_memory_forget(HcclComm handle) {
  mutex_lock(&areas_lock);
  for (area **link = &areas; *link;) {
    area *a = *link;
    if (a->handle != handle) {
      link = &a->next;
      continue;
    }
    *link = a->next;
    free(a);
  }
  mutex_unlock(&areas_lock);
}

/* ---- checks ---- */

static hccl_outcome check_zero(uint64_t value, const char *name) {
  if (!value) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "%s is %ju, expected 0", name, (uintmax_t)value);
}

static hccl_outcome check_comm(HcclComm handle) {
  HELD_COMM c = NULL;
  return hccl_comm_of(handle, &c);
}

static hccl_outcome check_extent(const void *start, uint64_t bytes, const char *name) {
  if (!start) return HCCL_REFUSE(HCCL_E_PTR, "%s is NULL, expected an address", name);
  if (!bytes || bytes > UINTPTR_MAX - (uintptr_t)start)
    return HCCL_REFUSE(HCCL_E_PARA, "size is %ju, expected the bytes from %s on", (uintmax_t)bytes, name);
  return 0;
}

/* That no area of the kind has a byte of it yet. */
static hccl_outcome area_check_free(area_kind kind, uintptr_t start, uint64_t bytes, const char *name) {
  const area *a = area_at(kind, start, bytes);
  if (!a) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "%s is %p, where %s of %ju bytes is already, from %p on", name, (void *)start,
                     area_names[kind], (uintmax_t)a->bytes, (void *)a->start);
}

/* ---- ranges ---- */

static hccl_outcome set_range(HcclComm handle, void *start, uint64_t bytes, size_t alignment, uint64_t flags) {
  const uintptr_t at = (uintptr_t)start;
  HCCL_TRY(hccl_expect_product("HcclCommSetMemoryRange", HCCL_A3));
  HCCL_TRY(check_comm(handle));
  HCCL_TRY(check_extent(start, bytes, "baseVirPtr"));
  HCCL_TRY(check_zero(alignment, "alignment"));
  HCCL_TRY(check_zero(flags, "flags"));
  if (!vmm_is_reserved(at) || !vmm_is_reserved(at + bytes - 1))
    return HCCL_REFUSE(HCCL_E_PARA, "baseVirPtr is %p, expected %ju bytes that aclrtReserveMemAddress has reserved",
                       start, (uintmax_t)bytes);
  mutex_lock(&areas_lock);
  hccl_outcome outcome = area_check_free(RANGE, at, bytes, "baseVirPtr");
  if (!outcome) outcome = area_add(RANGE, handle, at, bytes, NULL);
  mutex_unlock(&areas_lock);
  return outcome;
}

/* Removes the area that starts there. */
static hccl_outcome remove_from(area_kind kind, void *start, const char *name) {
  hccl_outcome outcome = 0;
  mutex_lock(&areas_lock);
  area *a = area_from(kind, (uintptr_t)start);
  if (!a)
    outcome = HCCL_REFUSE(HCCL_E_PARA, "%s is %p, expected the start of %s", name, start, area_names[kind]);
  else if (kind == RANGE && area_at(ACTIVE, a->start, a->bytes))
    outcome = HCCL_REFUSE(HCCL_E_PARA, "%s is %p, a range in which memory is still activated", name, start);
  else
    area_remove(a);
  mutex_unlock(&areas_lock);
  return outcome;
}

static hccl_outcome unset_range(HcclComm handle, void *start) {
  HCCL_TRY(hccl_expect_product("HcclCommUnsetMemoryRange", HCCL_A3));
  HCCL_TRY(check_comm(handle));
  if (!start) return HCCL_REFUSE(HCCL_E_PTR, "baseVirPtr is NULL, expected an address");
  return remove_from(RANGE, start, "baseVirPtr");
}

HcclResult HcclCommSetMemoryRange(HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags) {
  API_ENTER();
  HCCL_RETURN(set_range(comm, baseVirPtr, size, alignment, flags));
}

HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr) {
  API_ENTER();
  HCCL_RETURN(unset_range(comm, baseVirPtr));
}

/* ---- memory in ranges ---- */

static hccl_outcome add_active(HcclComm handle, uintptr_t at, uint64_t bytes) {
  const area *range = area_at(RANGE, at, 0);
  if (!range || at + bytes > range->start + range->bytes)
    return HCCL_REFUSE(HCCL_E_PARA, "virPtr is %p, expected %ju bytes in a range of HcclCommSetMemoryRange", (void *)at,
                       (uintmax_t)bytes);
  HCCL_TRY(area_check_free(ACTIVE, at, bytes, "virPtr"));
  return area_add(ACTIVE, handle, at, bytes, NULL);
}

static hccl_outcome activate(HcclComm handle, void *start, uint64_t bytes, size_t offset, const void *physical,
                             uint64_t flags) {
  uintptr_t mapped;
  uint64_t n_mapped;
  const uintptr_t at = (uintptr_t)start;
  HCCL_TRY(hccl_expect_product("HcclCommActivateCommMemory", HCCL_A3));
  HCCL_TRY(check_comm(handle));
  HCCL_TRY(check_extent(start, bytes, "virPtr"));
  if (!physical) return HCCL_REFUSE(HCCL_E_PTR, "handle is NULL, expected physical memory");
  HCCL_TRY(check_zero(offset, "offset"));
  HCCL_TRY(check_zero(flags, "flags"));
  if (!vmm_find(at, &mapped, &n_mapped) || at + bytes > mapped + n_mapped)
    return HCCL_REFUSE(HCCL_E_PARA, "virPtr is %p, expected %ju bytes at which memory is mapped", start,
                       (uintmax_t)bytes);
  mutex_lock(&areas_lock);
  const hccl_outcome outcome = add_active(handle, at, bytes);
  mutex_unlock(&areas_lock);
  return outcome;
}

static hccl_outcome deactivate(HcclComm handle, void *start) {
  HCCL_TRY(hccl_expect_product("HcclCommDeactivateCommMemory", HCCL_A3));
  HCCL_TRY(check_comm(handle));
  if (!start) return HCCL_REFUSE(HCCL_E_PTR, "virPtr is NULL, expected an address");
  return remove_from(ACTIVE, start, "virPtr");
}

HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                      uint64_t flags) {
  API_ENTER();
  HCCL_RETURN(activate(comm, virPtr, size, offset, handle, flags));
}

HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr) {
  API_ENTER();
  HCCL_RETURN(deactivate(comm, virPtr));
}

/* ---- windows and registered memory ---- */

/* Registers device memory; *out is its handle. */
static hccl_outcome register_area(area_kind kind, HcclComm handle, void *start, uint64_t bytes, void **out) {
  void *view;
  area *a = NULL;
  HCCL_TRY(check_comm(handle));
  HCCL_TRY(check_extent(start, bytes, "addr"));
  HCCL_TRY_CORE(memory_view(start, bytes, VMM_READ, "addr", &view));
  if (memory_place_of(start) != PLACE_DEVICE)
    return HCCL_REFUSE(HCCL_E_PARA, "addr is %p, expected memory of a device", start);
  mutex_lock(&areas_lock);
  hccl_outcome outcome = area_check_free(kind, (uintptr_t)start, bytes, "addr");
  if (!outcome) outcome = area_add(kind, handle, (uintptr_t)start, bytes, &a);
  mutex_unlock(&areas_lock);
  if (!outcome) *out = a;
  return outcome;
}

static hccl_outcome deregister_area(area_kind kind, const void *handle, const char *name) {
  if (!handle) return HCCL_REFUSE(HCCL_E_PTR, "%s is NULL, expected a handle", name);
  mutex_lock(&areas_lock);
  area *a = area_of_handle(kind, handle);
  if (a) area_remove(a);
  mutex_unlock(&areas_lock);
  return a ? 0 : HCCL_REFUSE(HCCL_E_PARA, "%s is %p, expected the handle of %s", name, handle, area_names[kind]);
}

static hccl_outcome register_window(HcclComm handle, void *start, uint64_t bytes, HcclCommSymWindow *winHandle,
                                    uint32_t flag) {
  HCCL_TRY(hccl_expect_product("HcclCommSymWinRegister", HCCL_A3 | HCCL_950));
  HCCL_NEED(winHandle);
  if (flag != 1) return HCCL_REFUSE(HCCL_E_PARA, "flag is %u, expected 1", flag);
  return register_area(WINDOW, handle, start, bytes, winHandle);
}

HcclResult HcclCommSymWinRegister(HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle,
                                  uint32_t flag) {
  API_ENTER();
  HCCL_RETURN(register_window(comm, addr, size, winHandle, flag));
}

HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle) {
  API_ENTER();
  HCCL_RETURN(deregister_area(WINDOW, winHandle, "winHandle"));
}

static hccl_outcome find_window(HcclComm handle, void *start, uint64_t bytes, HcclCommSymWindow *winHandle,
                                size_t *offset) {
  const uintptr_t at = (uintptr_t)start;
  HCCL_TRY(hccl_expect_product("HcclCommSymWinGet", HCCL_A3 | HCCL_950));
  HCCL_TRY(check_comm(handle));
  HCCL_TRY(check_extent(start, bytes, "ptr"));
  HCCL_NEED(winHandle);
  HCCL_NEED(offset);
  mutex_lock(&areas_lock);
  area *a = areas;
  while (a && !(a->kind == WINDOW && a->handle == handle && a->start <= at && at + bytes <= a->start + a->bytes))
    a = a->next;
  if (a) {
    *winHandle = a;
    *offset = at - a->start;
  }
  mutex_unlock(&areas_lock);
  if (a) return 0;
  return HCCL_REFUSE(HCCL_E_NOT_FOUND, "ptr is %p, expected %ju bytes in a window of the communicator", start,
                     (uintmax_t)bytes);
}

HcclResult HcclCommSymWinGet(HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset) {
  API_ENTER();
  HCCL_RETURN(find_window(comm, ptr, size, winHandle, offset));
}

static hccl_outcome register_memory(HcclComm comm_, void *start, uint64_t bytes, void **handle, uint32_t flag) {
  HCCL_TRY(hccl_expect_product("HcclCommRegister", HCCL_FROM_A2));
  HCCL_NEED(handle);
  HCCL_TRY(check_zero(flag, "flag"));
  return register_area(REGISTERED, comm_, start, bytes, handle);
}

HcclResult HcclCommRegister(HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag) {
  API_ENTER();
  HCCL_RETURN(register_memory(comm, addr, size, handle, flag));
}

static hccl_outcome deregister_memory(HcclComm comm_, const void *handle) {
  HCCL_TRY(check_comm(comm_));
  return deregister_area(REGISTERED, handle, "handle");
}

HcclResult HcclCommDeregister(HcclComm comm, void *handle) {
  API_ENTER();
  HCCL_RETURN(deregister_memory(comm, handle));
}

/* Peers reach the memory of a rank without having been told of it; what is left are the checks. */
static hccl_outcome exchange_memory(HcclComm handle, const void *windowHandle, const uint32_t *peerRanks, uint32_t n) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_comm_of(handle, &c));
  HCCL_NEED(windowHandle);
  HCCL_NEED(peerRanks);
  for (uint32_t i = 0; i < n; ++i)
    if (peerRanks[i] >= comm_n_ranks(c))
      return HCCL_REFUSE(HCCL_E_PARA, "peerRanks[%u] is %u, expected 0 to %u", i, peerRanks[i], comm_n_ranks(c) - 1);
  mutex_lock(&areas_lock);
  const area *a = area_of_handle(REGISTERED, windowHandle);
  const bool known = a && a->handle == handle;
  mutex_unlock(&areas_lock);
  if (known) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "windowHandle is %p, expected a handle of HcclCommRegister", windowHandle);
}

HcclResult HcclCommExchangeMem(HcclComm comm, void *windowHandle, uint32_t *peerRanks, uint32_t peerRankNum) {
  API_ENTER();
  HCCL_RETURN(exchange_memory(comm, windowHandle, peerRanks, peerRankNum));
}
