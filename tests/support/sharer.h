/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process that shares memory with the test: it exports, imports, reads and fills one piece of memory at a time,
 * as the test orders. It returns codes without judging them; the test compares them with what it expects. */
#ifndef CANNON_TESTS_SUPPORT_SHARER_H
#define CANNON_TESTS_SUPPORT_SHARER_H

#include "acl_test.h"
#include "peer_process.h"

enum { MIB2 = 2 << 20, KEY_LENGTH = 65 };

typedef enum {
  NOTHING,
  OFFER_PHYSICAL, /* allocates physical memory, fills it with `byte` and exports it to all processes */
  OFFER_BLOCK,
  IMPORT_PHYSICAL, /* imports physical memory and maps it */
  IMPORT_BLOCK,
  DROP,       /* frees or closes the memory it holds, and its reservation */
  FREE_BLOCK, /* frees the block it offers without closing its key */
  FILL,
  READ,         /* returns the byte at `offset` */
  OFFER_OFTEN,  /* `bytes` times: offers a block and withdraws it */
  IMPORT_OFTEN, /* `bytes` times: imports the block, compares its contents with `byte`, closes it */
} deed;

typedef struct {
  deed deed;
  int byte;
  size_t bytes, offset;
  uint64_t handle;
  char key[KEY_LENGTH];
} order;

typedef struct {
  aclError code;
  int byte;
  int32_t pid;
  size_t free_bytes;
  uint64_t handle;
  char key[KEY_LENGTH], message[400];
} report;

/* ---- common to both sides ---- */

static inline aclrtDrvMemHandle physical_new(size_t bytes) {
  const aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtDrvMemHandle handle = NULL;
  return aclrtMallocPhysical(&handle, bytes, &prop, 0) ? NULL : handle;
}

static inline aclError map_new(aclrtDrvMemHandle handle, size_t bytes, void **at) {
  aclError code = aclrtReserveMemAddress(at, bytes, 0, NULL, 0);
  if (code) return code;
  code = aclrtMapMem(*at, bytes, 0, handle, 0);
  if (code) aclrtReleaseMemAddress(*at);
  return code;
}

static inline aclError unmap_all(void *at, aclrtDrvMemHandle handle) {
  aclError code = aclrtUnmapMem(at);
  if (!code) code = aclrtReleaseMemAddress(at);
  if (!code) code = aclrtFreePhysical(handle);
  return code;
}

static inline size_t free_memory(void) {
  size_t free_bytes = 0, total = 0;
  return aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total) ? 0 : free_bytes;
}

/* ---- the peer ---- */

static struct {
  void *at;
  size_t bytes;
  aclrtDrvMemHandle handle; /* NULL when a block is held */
  char key[KEY_LENGTH];
  bool offered;
} held;

static inline aclError offer(const order *o, report *r) {
  held.bytes = o->bytes;
  held.offered = true;
  if (o->deed == OFFER_BLOCK) {
    aclError code = aclrtMalloc(&held.at, o->bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (!code) code = aclrtMemset(held.at, o->bytes, o->byte, o->bytes);
    if (!code) code = aclrtIpcMemGetExportKey(held.at, o->bytes, held.key, KEY_LENGTH, 1);
    memcpy(r->key, held.key, KEY_LENGTH);
    return code;
  }
  held.handle = physical_new(o->bytes);
  aclError code = map_new(held.handle, o->bytes, &held.at);
  if (!code) code = aclrtMemset(held.at, o->bytes, o->byte, o->bytes);
  return code ? code : aclrtMemExportToShareableHandle(held.handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &r->handle);
}

static inline aclError import(const order *o) {
  aclError code;
  held.bytes = o->bytes;
  held.offered = false;
  if (o->deed == IMPORT_BLOCK) {
    memcpy(held.key, o->key, KEY_LENGTH);
    return aclrtIpcMemImportByKey(&held.at, o->key, 1);
  }
  code = aclrtMemImportFromShareableHandle(o->handle, 0, &held.handle);
  if (code) return code;
  code = map_new(held.handle, o->bytes, &held.at);
  if (code) aclrtFreePhysical(held.handle);
  return code;
}

static inline aclError drop(void) {
  aclError code;
  if (held.handle) {
    code = unmap_all(held.at, held.handle);
    held.handle = NULL;
    return code;
  }
  code = aclrtIpcMemClose(held.key);
  return code || !held.offered ? code : aclrtFree(held.at);
}

static inline aclError offer_often(size_t n) {
  order o = {.bytes = MIB2};
  report r;
  aclError code = ACL_SUCCESS;
  for (size_t i = 0; i < n && !code; i++) {
    o.deed = i % 2 ? OFFER_BLOCK : OFFER_PHYSICAL;
    code = offer(&o, &r);
    if (!code) code = drop();
  }
  return code;
}

static inline aclError import_often(const order *o) {
  order once = *o;
  unsigned char byte = 0;
  once.deed = IMPORT_BLOCK;
  for (size_t i = 0; i < o->bytes; i++) {
    aclError code = import(&once);
    if (!code) code = aclrtMemcpy(&byte, 1, held.at, 1, ACL_MEMCPY_DEVICE_TO_HOST);
    if (!code) code = drop();
    if (code || byte != o->byte) return code ? code : 1;
  }
  return ACL_SUCCESS;
}

static inline aclError obey(const order *o, report *r) {
  unsigned char byte = 0;
  aclError code = ACL_SUCCESS;
  switch (o->deed) {
  case NOTHING: return ACL_SUCCESS;
  case OFFER_PHYSICAL:
  case OFFER_BLOCK: return offer(o, r);
  case IMPORT_PHYSICAL:
  case IMPORT_BLOCK: return import(o);
  case DROP: return drop();
  case FREE_BLOCK: return aclrtFree(held.at);
  case FILL: /* by a task in a stream */
    code = aclrtMemsetAsync(held.at, o->bytes, o->byte, o->bytes, NULL);
    return code ? code : aclrtSynchronizeStream(NULL);
  case READ:
    code = aclrtMemcpy(&byte, 1, (char *)held.at + o->offset, 1, ACL_MEMCPY_DEVICE_TO_HOST);
    r->byte = byte;
    return code;
  case OFFER_OFTEN: return offer_often(o->bytes);
  case IMPORT_OFTEN: return import_often(o);
  }
  return 1;
}

/* The peer's main function. */
static inline int sharer_main(void) {
  if (aclInit(NULL) || aclrtSetDevice(0)) return 2;
  for (order o; peer_next(&o, sizeof o);) {
    report r = {0};
    r.code = obey(&o, &r);
    const char *message = aclGetRecentErrMsg();
    if (message) snprintf(r.message, sizeof r.message, "%s", message);
    if (aclrtDeviceGetBareTgid(&r.pid)) return 4;
    r.free_bytes = free_memory();
    peer_answer(&r, sizeof r);
  }
  return 0;
}

/* ---- the test's side ---- */

static inline peer sharer_start(void) { return peer_start("sharer", NULL); }

static inline report tell(peer *p, order o) {
  report r;
  peer_tell(p, &o, sizeof o);
  peer_hear(p, &r, sizeof r);
  return r;
}

/* Sends an order. Fails the test with the peer's message when the order fails. */
static inline report tell_ok(peer *p, order o) {
  report r = tell(p, o);
  if (r.code) print_error("the peer returned %d, message: %s\n", r.code, r.message);
  assert_int_equal(r.code, 0);
  return r;
}

#define READS(p, at)              tell_ok(p, (order){.deed = READ, .offset = (at)}).byte
#define IMPORTS_PHYSICAL(h, size) ((order){.deed = IMPORT_PHYSICAL, .handle = (h), .bytes = (size)})

static inline order imports_block(const char *key) {
  order o = {.deed = IMPORT_BLOCK};
  memcpy(o.key, key, KEY_LENGTH);
  return o;
}

#endif
