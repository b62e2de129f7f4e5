/* SPDX-License-Identifier: Apache-2.0 */
/* What api/op/op_compiler.c uses of channels: the operators by name InitData and GetNext. */
#ifndef CANNON_API_TDT_H
#define CANNON_API_TDT_H

#include "op/aclop.h"
#include "runtime/stream.h"

/* Submits a task that receives a data set from the channel of the attribute channel_name and puts its items into the
 * outputs, in their order. */
status tdt_get_next(const aclop_call *c, stream *s);

#endif
