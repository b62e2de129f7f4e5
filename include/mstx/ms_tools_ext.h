/* SPDX-License-Identifier: Apache-2.0
 *
 * mstx: marks that a program makes for a profiler, in its own words: moments and ranges, on the host and in streams.
 * Any thread may call the functions.
 *
 * They have an effect only while marks are recorded (ACL_PROF_MSPROFTX of acl_prof.h, or msprof); otherwise those
 * that start a range return 0. The functions are looked up in libms_tools_ext.so when they are first called, so that
 * a program needs to link only with the dynamic loader. If MSTX_LINKED is defined, they are ordinary functions of
 * that library. */
#ifndef MSTX_MS_TOOLS_EXT_H
#define MSTX_MS_TOOLS_EXT_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MSTX_SUCCESS 0
#define MSTX_FAIL    1

typedef uint64_t mstxRangeId;

/* A domain: a named group of marks. */
typedef struct mstxDomainRegistration_st mstxDomainRegistration_t;
typedef mstxDomainRegistration_t *mstxDomainHandle_t;
#define globalDomain ((mstxDomainHandle_t)NULL) /* the domain of functions without a domain argument */

#ifdef MSTX_LINKED
#  define MSTX_FUNCTION_(type, name, parameters, arguments) ACL_FUNC_VISIBILITY type name parameters;
#  define MSTX_PROCEDURE_(name, parameters, arguments)      ACL_FUNC_VISIBILITY void name parameters;
#else
static inline void *mstxFind_(void **found, const char *name) {
  void *function = __atomic_load_n(found, __ATOMIC_ACQUIRE), *library;
  if (function) return function;
  library = dlopen("libms_tools_ext.so", RTLD_LAZY);
  function = library ? dlsym(library, name) : NULL;
  __atomic_store_n(found, function, __ATOMIC_RELEASE);
  return function;
}

#  define MSTX_FUNCTION_(type, name, parameters, arguments)                                                            \
    static inline type name parameters {                                                                               \
      static void *found;                                                                                              \
      type(*function) parameters;                                                                                      \
      *(void **)&function = mstxFind_(&found, #name);                                                                  \
      return function ? function arguments : (type)0;                                                                  \
    }
#  define MSTX_PROCEDURE_(name, parameters, arguments)                                                                 \
    static inline void name parameters {                                                                               \
      static void *found;                                                                                              \
      void(*function) parameters;                                                                                      \
      *(void **)&function = mstxFind_(&found, #name);                                                                  \
      if (function) function arguments;                                                                                \
    }
#endif

/* Marks a moment, with a message of at most 255 bytes. If stream is not NULL, also marks it in the stream, as a
 * task. */
MSTX_PROCEDURE_(mstxMarkA, (const char *message, aclrtStream stream), (message, stream))

/* Starts a range, which any thread may end. Returns its id, or 0 on failure. With a stream, start and end are
 * moments of the stream. */
MSTX_FUNCTION_(mstxRangeId, mstxRangeStartA, (const char *message, aclrtStream stream), (message, stream))
MSTX_PROCEDURE_(mstxRangeEnd, (mstxRangeId id), (id))

/* Creates a domain with a name of at most 1,023 letters, digits and underscores. Returns NULL on failure. A
 * destroyed domain must not be used. */
MSTX_FUNCTION_(mstxDomainHandle_t, mstxDomainCreateA, (const char *name), (name))
MSTX_PROCEDURE_(mstxDomainDestroy, (mstxDomainHandle_t domain), (domain))

/* The same as the functions above, in a domain. A range is ended in the domain in which it was started. */
MSTX_PROCEDURE_(mstxDomainMarkA, (mstxDomainHandle_t domain, const char *message, aclrtStream stream),
                (domain, message, stream))
MSTX_FUNCTION_(mstxRangeId, mstxDomainRangeStartA, (mstxDomainHandle_t domain, const char *message, aclrtStream stream),
               (domain, message, stream))
MSTX_PROCEDURE_(mstxDomainRangeEnd, (mstxDomainHandle_t domain, mstxRangeId id), (domain, id))

/* ---- memory that the program divides itself ---- */

/* A pool of memory, and a region of it, as tools know them. */
typedef struct mstxMemHeap_st mstxMemHeap_t;
typedef mstxMemHeap_t *mstxMemHeapHandle_t;
typedef struct mstxMemRegion_st mstxMemRegion_t;
typedef mstxMemRegion_t *mstxMemRegionHandle_t;

typedef enum {
  MSTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR = 0, /* memory of the pool is used once it is registered as a region */
} mstxMemHeapUsageType;

typedef enum {
  MSTX_MEM_TYPE_VIRTUAL_ADDRESS = 0, /* described by mstxMemVirtualRangeDesc_t */
} mstxMemType;

typedef struct {
  uint32_t deviceId;
  const void *ptr;
  uint64_t size;
} mstxMemVirtualRangeDesc_t;

typedef struct {
  mstxMemHeapUsageType usage;
  mstxMemType type;
  const void *typeSpecificDesc; /* a mstxMemVirtualRangeDesc_t */
} mstxMemHeapDesc_t;

typedef struct {
  mstxMemHeapHandle_t heap;
  mstxMemType regionType;
  size_t regionCount;
  const void *regionDescArray;                 /* regionCount of mstxMemVirtualRangeDesc_t */
  mstxMemRegionHandle_t *regionHandleArrayOut; /* may be NULL */
} mstxMemRegionsRegisterBatch_t;

typedef enum {
  MSTX_MEM_REGION_REF_TYPE_POINTER = 0,
  MSTX_MEM_REGION_REF_TYPE_HANDLE = 1,
} mstxMemRegionRefType;

typedef struct {
  mstxMemRegionRefType refType;
  union {
    const void *pointer; /* the region's first byte */
    mstxMemRegionHandle_t handle;
  };
} mstxMemRegionRef_t;

typedef struct {
  size_t refCount;
  const mstxMemRegionRef_t *refArray;
} mstxMemRegionsUnregisterBatch_t;

/* Tells of a pool; returns a handle of it. Recordings have the regions of CANNON_RECORD; otherwise all of these
 * functions do nothing, and handles are NULL. */
MSTX_FUNCTION_(mstxMemHeapHandle_t, mstxMemHeapRegister, (mstxDomainHandle_t domain, const mstxMemHeapDesc_t *desc),
               (domain, desc))
MSTX_PROCEDURE_(mstxMemHeapUnregister, (mstxDomainHandle_t domain, mstxMemHeapHandle_t heap), (domain, heap))

/* Tell that ranges of device memory are in use, each for one purpose (a tensor), and that they are no longer. */
MSTX_PROCEDURE_(mstxMemRegionsRegister, (mstxDomainHandle_t domain, const mstxMemRegionsRegisterBatch_t *desc),
                (domain, desc))
MSTX_PROCEDURE_(mstxMemRegionsUnregister, (mstxDomainHandle_t domain, const mstxMemRegionsUnregisterBatch_t *desc),
                (domain, desc))

#undef MSTX_FUNCTION_
#undef MSTX_PROCEDURE_

#ifdef __cplusplus
}
#endif

#endif
