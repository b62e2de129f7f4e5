/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of CANN's operator library that frameworks look up by name around each operator, with which it keeps large
 * workspaces per thread. Operators here have no such memory, so there is nothing to do. No header of CANN's declares
 * them; MindSpore's sources have these types. */
#include <stdbool.h>

#include "api/api.h"

#define BY_NAME __attribute__((visibility("default")))

BY_NAME int InitHugeMemThreadLocal(void *argument, bool sync);
BY_NAME void UnInitHugeMemThreadLocal(void *argument, bool sync);
BY_NAME void ReleaseHugeMem(void *argument, bool sync);

int InitHugeMemThreadLocal(void *argument, bool sync) {
  API_ENTER();
  (void)argument, (void)sync;
  return 0;
}

void UnInitHugeMemThreadLocal(void *argument, bool sync) {
  API_ENTER();
  (void)argument, (void)sync;
}

void ReleaseHugeMem(void *argument, bool sync) {
  API_ENTER();
  (void)argument, (void)sync;
}
