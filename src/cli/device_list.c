/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device_list.h"

#include "acl/acl.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const char *tool, const char *call, aclError error) {
  const char *message = aclGetRecentErrMsg();
  fprintf(stderr, "%s: %s failed with %d: %s\n", tool, call, (int)error, message ? message : "no message");
  return 1;
}

int device_list_query(const char *tool, device_list *list) {
  aclError error = aclInit(NULL);
  if (error) return fail(tool, "aclInit", error);
  list->soc_name = aclrtGetSocName();
  error = aclrtGetDeviceCount(&list->count);
  if (error) return fail(tool, "aclrtGetDeviceCount", error);
  list->memory = calloc(list->count + 1, sizeof *list->memory);
  if (!list->memory) abort();
  for (unsigned i = 0; i < list->count; i++) {
    error = aclrtSetDevice((int32_t)i);
    if (error) return fail(tool, "aclrtSetDevice", error);
    /* Reports DDR if the device has no HBM. */
    error = aclrtGetMemInfo(ACL_HBM_MEM, &list->memory[i].free_bytes, &list->memory[i].total_bytes);
    if (error) return fail(tool, "aclrtGetMemInfo", error);
    error = aclrtResetDevice((int32_t)i);
    if (error) return fail(tool, "aclrtResetDevice", error);
  }
  error = aclFinalize();
  return error ? fail(tool, "aclFinalize", error) : 0;
}
