/* mstx: what a program does, in words, for a profiler: moments and ranges, on the host and in streams.
 *
 * Nothing happens, and starts return 0, but while marks are recorded (ACL_PROF_MSPROFTX of acl_prof.h, or msprof). The
 * functions are found in libms_tools_ext.so when they are first called, so that a program needs to link the dynamic
 * loader only; with MSTX_LINKED defined they are that library's, as any. */
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

/* A group of marks, by a name. */
typedef struct mstxDomainRegistration_st mstxDomainRegistration_t;
typedef mstxDomainRegistration_t *mstxDomainHandle_t;
#define globalDomain ((mstxDomainHandle_t)NULL) /* that of functions without one */

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

/* A moment, with a message of at most 255 bytes; where stream is not NULL, of the stream too, as a task. */
MSTX_PROCEDURE_(mstxMarkA, (const char *message, aclrtStream stream), (message, stream))

/* A range, which any thread may end: its id; 0 where it failed. With a stream, start and end are moments of it. */
MSTX_FUNCTION_(mstxRangeId, mstxRangeStartA, (const char *message, aclrtStream stream), (message, stream))
MSTX_PROCEDURE_(mstxRangeEnd, (mstxRangeId id), (id))

/* A domain, with a name of at most 1,023 letters, digits and underscores; NULL where it failed. Once destroyed, it must
 * not be used again. */
MSTX_FUNCTION_(mstxDomainHandle_t, mstxDomainCreateA, (const char *name), (name))
MSTX_PROCEDURE_(mstxDomainDestroy, (mstxDomainHandle_t domain), (domain))

/* As those above, in a domain. A range is ended in the domain that it was started in. */
MSTX_PROCEDURE_(mstxDomainMarkA, (mstxDomainHandle_t domain, const char *message, aclrtStream stream),
                (domain, message, stream))
MSTX_FUNCTION_(mstxRangeId, mstxDomainRangeStartA, (mstxDomainHandle_t domain, const char *message, aclrtStream stream),
               (domain, message, stream))
MSTX_PROCEDURE_(mstxDomainRangeEnd, (mstxDomainHandle_t domain, mstxRangeId id), (domain, id))

#undef MSTX_FUNCTION_
#undef MSTX_PROCEDURE_

#ifdef __cplusplus
}
#endif

#endif
