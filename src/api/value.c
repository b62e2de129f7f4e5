/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for values in device memory that streams write and wait for. */
#include "runtime/wait/value.h"

#include "api/api.h"
#include "runtime/context.h"

_Static_assert(ACL_STREAM_WAIT_VALUE_GEQ == VALUE_GEQ && ACL_STREAM_WAIT_VALUE_EQ == VALUE_EQ &&
                   ACL_STREAM_WAIT_VALUE_AND == VALUE_AND && ACL_STREAM_WAIT_VALUE_NOR == VALUE_NOR,
               "a cast will do");

aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(devAddr);
  if (flag) API_RETURN(fail(ST_INVALID_VALUE, "flag is %u, expected 0", flag));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(value_write(devAddr, value, s));
}

aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream handle) {
  API_ENTER();
  stream *s;
  NEED(devAddr);
  if (flag >= N_VALUE_CONDITIONS) API_RETURN(fail(ST_INVALID_VALUE, "flag is %u, expected 0 to 3", flag));
  NEED_OK(context_stream(handle, &s));
  API_RETURN(value_wait(devAddr, value, (value_condition)flag, s));
}
