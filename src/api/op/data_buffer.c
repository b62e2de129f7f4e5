/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for data buffers, objects that hold an address and a size. */
#include <stdlib.h>

#include "api/api.h"
#include "api/op/data_buffer.h"

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
  API_ENTER();
  aclDataBuffer *dataBuffer = malloc(sizeof *dataBuffer);
  if (dataBuffer) {
    *dataBuffer = (aclDataBuffer){data, size};
    API_TELL_HANDLE(HOOK_DATA_BUFFER, HOOK_HANDLE_CREATED, dataBuffer);
  } else {
    API_RESULT(fail(ST_NO_HOST_MEMORY, "no host memory for a data buffer"));
  }
  return dataBuffer;
}

aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer) {
  API_ENTER();
  NEED(dataBuffer);
  API_TELL_HANDLE(HOOK_DATA_BUFFER, HOOK_HANDLE_DESTROYED, dataBuffer);
  free((void *)dataBuffer);
  return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size) {
  API_ENTER();
  NEED(dataBuffer);
  *dataBuffer = (aclDataBuffer){data, size};
  return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer) {
  API_ENTER();
  return dataBuffer ? dataBuffer->data : NULL;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer) {
  API_ENTER();
  return (uint32_t)aclGetDataBufferSizeV2(dataBuffer);
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer) {
  API_ENTER();
  return dataBuffer ? dataBuffer->size : 0;
}
