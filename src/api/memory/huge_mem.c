/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points by which frameworks tell the operators' library that a thread begins and ends to make operators, so that
 * it may keep its objects in a thread's own huge pages. Objects come from caches of threads here (base/store/cache.h),
 * so there is nothing to do. They are in no public header; frameworks look them up. */
#include <stdbool.h>

#include "api/api.h"

ACL_FUNC_VISIBILITY int InitHugeMemThreadLocal(void *argument, bool flag);
ACL_FUNC_VISIBILITY void UnInitHugeMemThreadLocal(void *argument, bool flag);
ACL_FUNC_VISIBILITY void ReleaseHugeMem(void *argument, bool flag);

int InitHugeMemThreadLocal(void *argument, bool flag) {
  API_ENTER();
  (void)argument, (void)flag;
  return 0;
}

void UnInitHugeMemThreadLocal(void *argument, bool flag) {
  API_ENTER();
  (void)argument, (void)flag;
}

void ReleaseHugeMem(void *argument, bool flag) {
  API_ENTER();
  (void)argument, (void)flag;
}
