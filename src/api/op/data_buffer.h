/* SPDX-License-Identifier: Apache-2.0 */
/* What a data buffer holds, for the entry points that take some. */
#ifndef CANNON_API_OP_DATA_BUFFER_H
#define CANNON_API_OP_DATA_BUFFER_H

#include <stddef.h>

struct aclDataBuffer {
  void *data;
  size_t size;
};

#endif
