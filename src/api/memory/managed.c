/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for managed memory, which the host and the devices reach at one address. */
#include "memory/managed.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/memory/copy.h"

_Static_assert((int)MANAGED_ON_CURRENT_NODE == ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT &&
                   (int)MANAGED_UNSET_ACCESSED_BY == ACL_MEM_ADVISE_UNSET_ACCESSED_BY &&
                   (int)MANAGED_PREFETCHED_ID == ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
               "the core's values are CANN's");

static status allocate_managed(uint64_t size, uint32_t flag, void *site, void **out) {
  context *c;
  if (flag != ACL_RT_MEM_ATTACH_GLOBAL)
    return fail(ST_INVALID_PARAM, "flag is %u, expected ACL_RT_MEM_ATTACH_GLOBAL, 1", flag);
  TRY(context_current(&c));
  if (!device_profile_of_all()->supports_managed)
    return fail(ST_NOT_SUPPORTED, "%s has no managed memory", device_profile_of_all()->soc_name);
  return managed_alloc(size, site, out);
}

aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag) {
  API_ENTER();
  NEED(ptr);
  API_RETURN(allocate_managed(size, flag, __builtin_return_address(0), ptr));
}

static status check_managed_pages(const void *ptr, uint64_t size, const char *name) {
  TRY(managed_check(ptr, size, name));
  if (size % MANAGED_PAGE_BYTES == 0) return ST_OK;
  return fail(ST_INVALID_VALUE, "%s: size is %ju, expected a multiple of %d MiB", name, (uintmax_t)size,
              MANAGED_PAGE_BYTES >> 20);
}

static status check_managed_location(managed_location *location, const char *name) {
  TRY(managed_check_location(location, name));
  return location->kind == MANAGED_ON_DEVICE ? device_check(location->id, name) : ST_OK;
}

static managed_location location_of(aclrtMemManagedLocation l) {
  return (managed_location){(managed_kind)l.type, l.id};
}

/* Advice without a location: "read mostly", or no preferred place any more. */
static status advise_managed(const void *ptr, uint64_t size, managed_advice advice, managed_location location) {
  TRY(device_check_child());
  if ((unsigned)advice >= N_MANAGED_ADVICE)
    return fail(ST_INVALID_PARAM, "advise is %d, expected 0 to %d", (int)advice, N_MANAGED_ADVICE - 1);
  TRY(check_managed_pages(ptr, size, "ptr"));
  if (advice == MANAGED_SET_PREFERRED || advice == MANAGED_SET_ACCESSED_BY || advice == MANAGED_UNSET_ACCESSED_BY)
    TRY(check_managed_location(&location, "location"));
  managed_advise(ptr, size, advice, location);
  return ST_OK;
}

aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size, aclrtMemManagedAdviseType advice,
                               aclrtMemManagedLocation location) {
  API_ENTER();
  NEED(ptr);
  API_RETURN(advise_managed(ptr, size, (managed_advice)advice, location_of(location)));
}

/* ---- prefetching ------------------------------------------------------------------------------------------------- */

static status check_prefetch(const void *ptr, size_t size, managed_location *location) {
  TRY(device_check_child());
  TRY(check_managed_pages(ptr, size, "ptr"));
  return check_managed_location(location, "location");
}

static status prefetch_managed(const void *ptr, size_t size, managed_location location, stream *s) {
  TRY(copy_prefetch_in_stream(ptr, size, s));
  managed_note_prefetch(ptr, size, location);
  return ST_OK;
}

static status check_managed_flags(uint64_t flags) {
  return flags ? fail(ST_INVALID_VALUE, "flags is %ju, expected 0", (uintmax_t)flags) : ST_OK;
}

aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags,
                                      aclrtStream handle) {
  API_ENTER();
  stream *s;
  managed_location to = location_of(location);
  NEED(ptr);
  NEED_OK(check_managed_flags(flags));
  NEED_OK(check_prefetch(ptr, size, &to));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(prefetch_managed(ptr, size, to, s));
}

/* A batch of ranges. Each location holds for the ranges from its index up to the index of the next location. */
typedef struct {
  const void **ptrs;
  const size_t *sizes;
  size_t count;
  const aclrtMemManagedLocation *locations;
  const size_t *firsts;
  size_t n_locations;
} batch;

static status check_batch(const batch *b) {
  if (!b->count || !b->n_locations || b->n_locations > b->count)
    return fail(ST_INVALID_VALUE, "count is %zu and numPrefetchLocs %zu, expected 1 or more, and not more locations",
                b->count, b->n_locations);
  for (size_t i = 0; i < b->n_locations; ++i)
    if ((i == 0) != (b->firsts[i] == 0) || b->firsts[i] >= b->count || (i && b->firsts[i] <= b->firsts[i - 1]))
      return fail(ST_INVALID_VALUE, "prefetchLocIdxs[%zu] is %zu, expected 0 first, then ascending to below %zu", i,
                  b->firsts[i], b->count);
  return ST_OK;
}

/* Checks each range of the batch (s is NULL), or starts its prefetch in stream s. */
static status each_of_batch(const batch *b, stream *s) {
  for (size_t i = 0, l = 0; i < b->count; ++i) {
    if (l + 1 < b->n_locations && b->firsts[l + 1] == i) ++l;
    managed_location to = location_of(b->locations[l]);
    TRY(check_prefetch(b->ptrs[i], b->sizes[i], &to));
    if (s) TRY(prefetch_managed(b->ptrs[i], b->sizes[i], to, s));
  }
  return ST_OK;
}

aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
                                           aclrtMemManagedLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                           size_t numPrefetchLocs, uint64_t flags, aclrtStream handle) {
  API_ENTER();
  stream *s;
  const batch b = {ptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs};
  NEED(ptrs);
  NEED(sizes);
  NEED(prefetchLocs);
  NEED(prefetchLocIdxs);
  NEED_OK(check_managed_flags(flags));
  NEED_OK(check_batch(&b));
  NEED_OK(each_of_batch(&b, NULL));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(each_of_batch(&b, s));
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr, size_t size, void *data,
                                size_t dataSize) {
  API_ENTER();
  NEED(ptr);
  NEED(data);
  NEED_OK(device_check_child());
  NEED_OK(managed_check_answer((managed_attribute)attribute, dataSize));
  NEED_OK(managed_check(ptr, size, "ptr"));
  managed_answer(ptr, size, (managed_attribute)attribute, data, dataSize);
  return ACL_SUCCESS;
}

aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes, const void *ptr,
                                 size_t size, void **data, size_t *dataSizes) {
  API_ENTER();
  NEED(attributes);
  NEED(ptr);
  NEED(data);
  NEED(dataSizes);
  NEED_OK(device_check_child());
  if (!numAttributes) API_RETURN(fail(ST_INVALID_VALUE, "numAttributes is 0, expected 1 or more"));
  NEED_OK(managed_check(ptr, size, "ptr"));
  for (size_t i = 0; i < numAttributes; ++i) {
    NEED(data[i]);
    NEED_OK(managed_check_answer((managed_attribute)attributes[i], dataSizes[i]));
  }
  for (size_t i = 0; i < numAttributes; ++i)
    managed_answer(ptr, size, (managed_attribute)attributes[i], data[i], dataSizes[i]);
  return ACL_SUCCESS;
}
