/* SPDX-License-Identifier: Apache-2.0 */
#include "api/memory/allocate.h"

status allocate_check_config(const aclrtMallocConfig *cfg, bool host, int device) {
  if (cfg->numAttrs && !cfg->attrs)
    return fail(ST_INVALID_PARAM, "cfg->attrs is NULL, expected %zu attributes", cfg->numAttrs);
  for (size_t i = 0; i < cfg->numAttrs; ++i) {
    const aclrtMallocAttribute *a = &cfg->attrs[i];
    switch ((int)a->attr) {
    case ACL_RT_MEM_ATTR_RSV:
    case ACL_RT_MEM_ATTR_MODULE_ID: break;
    case ACL_RT_MEM_ATTR_DEVICE_ID:
      if (!host && a->value.deviceId != (uint32_t)device)
        return fail(ST_INVALID_VALUE, "cfg->attrs[%zu].value.deviceId is %u, expected the current device, %d", i,
                    a->value.deviceId, device);
      break;
    case ACL_RT_MEM_ATTR_VA_FLAG:
      if (host) break;
      /* fall through */
    default:
      return fail(ST_INVALID_VALUE, "cfg->attrs[%zu].attr is %d, expected an attribute of this allocation", i,
                  (int)a->attr);
    }
  }
  return ST_OK;
}
