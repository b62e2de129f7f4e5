/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for versions: that of the interface, and that of the CANN release that this library stands for,
 * CANN_VERSION ("8.1.RC1"). */
#include <stdio.h>
#include <string.h>

#include "api/api.h"

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
  API_ENTER();
  NEED(majorVersion);
  NEED(minorVersion);
  NEED(patchVersion);
  *majorVersion = ACL_MAJOR_VERSION;
  *minorVersion = ACL_MINOR_VERSION;
  *patchVersion = ACL_PATCH_VERSION;
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version) {
  API_ENTER();
  NEED(version);
  if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER)
    API_RETURN(fail(ST_INVALID_PARAM, "name is %d, expected %d to %d", name, ACL_PKG_NAME_CANN, ACL_PKG_NAME_DRIVER));
  memset(version, 0, sizeof *version);
  snprintf(version->version, sizeof version->version, "%s", CANN_VERSION);
  sscanf(CANN_VERSION, "%63[^.].%63[^.].%63s", version->majorVersion, version->minorVersion, version->releaseVersion);
  snprintf(version->patchVersion, sizeof version->patchVersion, "0");
  return ACL_SUCCESS;
}

/* Checks the name of a package. All packages have the same version. */
static status check_package(const char *name) {
  static const char *const packages[] = {"cann", "runtime",    "compiler", "hccl",    "toolkit",
                                         "opp",  "opp_kernel", "driver",   "firmware"};
  for (size_t i = 0; i < sizeof packages / sizeof packages[0]; ++i)
    if (!strcmp(name, packages[i])) return ST_OK;
  return fail(ST_INVALID_PARAM, "pkgName is \"%s\", expected a package such as \"runtime\"", name);
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr) {
  API_ENTER();
  NEED(pkgName);
  NEED(versionStr);
  NEED_OK(check_package(pkgName));
  memcpy(versionStr, CANN_VERSION, sizeof CANN_VERSION);
  return ACL_SUCCESS;
}

/* A release candidate n counts as n - 300: less than its release, more than the release before. */
aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum) {
  API_ENTER();
  int major = 0, minor = 0, patch = 0, candidate = 0;
  NEED(pkgName);
  NEED(versionNum);
  NEED_OK(check_package(pkgName));
  if (sscanf(CANN_VERSION, "%d.%d.RC%d", &major, &minor, &candidate) < 3)
    sscanf(CANN_VERSION, "%d.%d.%d", &major, &minor, &patch);
  *versionNum = major * 10000000 + minor * 100000 + patch * 1000 + (candidate ? candidate - 300 : 0);
  return ACL_SUCCESS;
}
