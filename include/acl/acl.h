/* SPDX-License-Identifier: Apache-2.0
 *
 * The header that programs include: initialisation, versions, error messages, and, through the headers it includes,
 * the runtime, models and operators by name. */
#ifndef ACL_ACL_H
#define ACL_ACL_H

#include "acl_mdl.h"
#include "acl_op.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface, which is that of CANN 8.1. aclrtGetVersion returns the library's. */
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 13
#define ACL_PATCH_VERSION 0

#define ACL_PKG_VERSION_MAX_SIZE       128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

/* The packages that an installation of CANN consists of. */
typedef enum aclCANNPackageName {
  ACL_PKG_NAME_CANN = 0,
  ACL_PKG_NAME_RUNTIME = 1,
  ACL_PKG_NAME_COMPILER = 2,
  ACL_PKG_NAME_HCCL = 3,
  ACL_PKG_NAME_TOOLKIT = 4,
  ACL_PKG_NAME_OPP = 5,
  ACL_PKG_NAME_OPP_KERNEL = 6,
  ACL_PKG_NAME_DRIVER = 7,
} aclCANNPackageName;

/* A version as text, in whole and in its components: "8.1.RC1" has major "8", minor "1", release "RC1" and patch "". */
typedef struct aclCANNPackageVersion {
  char version[ACL_PKG_VERSION_MAX_SIZE];
  char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
  char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

/* Starts the library. configPath: a JSON file, which may hold an empty object, or NULL for the defaults. Each call
 * counts for aclFinalizeReference, including one that returns ACL_ERROR_REPEAT_INITIALIZE because the library is
 * running already, with the first configuration; callers may ignore that code. Errors: ACL_ERROR_INVALID_FILE (not
 * readable), ACL_ERROR_PARSE_FILE (not JSON, or nested deeper than 10), ACL_ERROR_INVALID_DUMP_CONFIG,
 * ACL_ERROR_INVALID_PROFILING_CONFIG. */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);

/* Stops the library, however often aclInit was called; aclInit may be called again afterwards. Errors:
 * ACL_ERROR_REPEAT_FINALIZE if the library is not running. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

/* Returns the error messages of the calling thread since its last call of this function, newest first, and removes
 * them; NULL if there are none. The text belongs to the library and is valid until the thread calls this function
 * again. With "err_msg_mode": "1" in the configuration, all threads share one store of messages. */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);

/* Returns the version of the runtime interface that the library implements. */
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/* Returns the version of an installed package. Errors: ACL_ERROR_INVALID_PARAM for a name that is not in the enum. */
ACL_FUNC_VISIBILITY aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);

#ifdef __cplusplus
}
#endif

#endif
