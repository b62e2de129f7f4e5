/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for allocators that the program registers for its streams. */
#include "acl/acl_rt_allocator.h"

#include "api/api.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/memory/stream_allocator.h"

aclrtAllocatorDesc aclrtAllocatorCreateDesc(void) {
  API_ENTER();
  return allocator_describe();
}

aclError aclrtAllocatorDestroyDesc(aclrtAllocatorDesc allocatorDesc) {
  API_ENTER();
  NEED(allocatorDesc);
  API_RETURN(allocator_undescribe(allocatorDesc));
}

static void set_object(user_allocator *a, const void *value) { a->object = *(void *const *)value; }
static void set_alloc(user_allocator *a, const void *value) { a->alloc = *(const aclrtAllocatorAllocFunc *)value; }
static void set_free(user_allocator *a, const void *value) { a->free = *(const aclrtAllocatorFreeFunc *)value; }
static void set_alloc_at(user_allocator *a, const void *value) {
  a->alloc_at = *(const aclrtAllocatorAllocAdviseFunc *)value;
}
static void set_address_of(user_allocator *a, const void *value) {
  a->address_of = *(const aclrtAllocatorGetAddrFromBlockFunc *)value;
}

aclError aclrtAllocatorSetObjToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator) {
  API_ENTER();
  NEED(allocatorDesc);
  NEED(allocator);
  API_RETURN(allocator_change(allocatorDesc, set_object, &allocator));
}

aclError aclrtAllocatorSetAllocFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func) {
  API_ENTER();
  NEED(allocatorDesc);
  NEED(func);
  API_RETURN(allocator_change(allocatorDesc, set_alloc, &func));
}

aclError aclrtAllocatorSetFreeFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func) {
  API_ENTER();
  NEED(allocatorDesc);
  NEED(func);
  API_RETURN(allocator_change(allocatorDesc, set_free, &func));
}

aclError aclrtAllocatorSetAllocAdviseFuncToDesc(aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func) {
  API_ENTER();
  NEED(allocatorDesc);
  NEED(func);
  API_RETURN(allocator_change(allocatorDesc, set_alloc_at, &func));
}

aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(aclrtAllocatorDesc allocatorDesc,
                                                     aclrtAllocatorGetAddrFromBlockFunc func) {
  API_ENTER();
  NEED(allocatorDesc);
  NEED(func);
  API_RETURN(allocator_change(allocatorDesc, set_address_of, &func));
}

aclError aclrtAllocatorRegister(aclrtStream stream_handle, aclrtAllocatorDesc allocatorDesc) {
  API_ENTER();
  stream *s;
  NEED(stream_handle);
  NEED(allocatorDesc);
  NEED_OK(context_stream(stream_handle, &s));
  API_RETURN(allocator_register(s, allocatorDesc));
}

aclError aclrtAllocatorUnregister(aclrtStream stream_handle) {
  API_ENTER();
  NEED(stream_handle);
  NEED_OK(device_check_child());
  allocator_forget(stream_handle); /* accepts any handle: unknown streams have no allocator */
  return ACL_SUCCESS;
}

aclError aclrtAllocatorGetByStream(aclrtStream stream_handle, aclrtAllocatorDesc *allocatorDesc,
                                   aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc,
                                   aclrtAllocatorFreeFunc *freeFunc, aclrtAllocatorAllocAdviseFunc *allocAdviseFunc,
                                   aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc) {
  API_ENTER();
  stream *s;
  user_allocator a;
  NEED(stream_handle);
  NEED(allocatorDesc);
  NEED(allocator);
  NEED(allocFunc);
  NEED(freeFunc);
  NEED(allocAdviseFunc);
  NEED(getAddrFromBlockFunc);
  NEED_OK(context_stream(stream_handle, &s));
  NEED_OK(allocator_of(s, allocatorDesc, &a));
  *allocator = a.object;
  *allocFunc = a.alloc;
  *freeFunc = a.free;
  *allocAdviseFunc = a.alloc_at;
  *getAddrFromBlockFunc = a.address_of;
  return ACL_SUCCESS;
}
