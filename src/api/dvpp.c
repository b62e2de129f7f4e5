/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for the memory of media processing (DVPP); no other part of DVPP is implemented. */
#include "acl/dvpp/hi_media_common.h"
#include "acl/ops/acl_dvpp.h"
#include "api/api.h"
#include "api/memory/allocate.h"
#include "memory/memory.h"
#include "runtime/device.h"

aclError acldvppMalloc(void **devPtr, size_t size) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(allocate_by_rule(RULE_DVPP, POLICY_HUGE_FIRST, NULL, size, CALLER, devPtr));
}

aclError acldvppMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
  API_ENTER();
  NEED(devPtr);
  API_RETURN(allocate_by_rule(RULE_DVPP_WITH_CFG, (int)policy, cfg, size, CALLER, devPtr));
}

static status free_media(void *p, void *site) {
  TRY(device_check_child());
  return memory_free(p, FREE_DVPP, site);
}

aclError acldvppFree(void *devPtr) { API(free_media(devPtr, CALLER)); }

/* The second version of DVPP has error numbers of its own: 0xA0028000 (module "system", severity error) plus a kind. */
static int media_result(aclError code) {
  switch (code) {
  case ACL_SUCCESS: return 0;
  case ST_NO_CONTEXT: return (int)0xA0028009; /* not permitted */
  case ST_NO_MEMORY: return (int)0xA002800C;
  default: return (int)0xA0028003;
  }
}

static int null_pointer(const char *name, const api_call *call) {
  (void)api_result(fail(ST_INVALID_PARAM, "%s is NULL, expected a pointer", name), call);
  return (int)0xA0028006;
}

int hi_mpi_dvpp_malloc(unsigned int dev_id, void **dev_ptr, unsigned long long size) {
  API_ENTER();
  (void)dev_id; /* reserved */
  if (!dev_ptr) return null_pointer("dev_ptr", &api_call_);
  return media_result(API_RESULT(allocate_by_rule(RULE_DVPP_MPI, POLICY_HUGE_FIRST, NULL, size, CALLER, dev_ptr)));
}

int hi_mpi_dvpp_free(void *dev_ptr) {
  API_ENTER();
  if (!dev_ptr) return null_pointer("dev_ptr", &api_call_);
  return media_result(API_RESULT(free_media(dev_ptr, CALLER)));
}
