/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of the tensors of operators (trace/dump_config.h): a file for each launch,
 *
 *   <dump_path>/<time of aclmdlSetDump>/<device>/<operator>.aclnn<operator>.<task>.<stream>.<microseconds since 1970>
 *
 * in the form that CANN's tools read: the length of a message (8 bytes), the message, which is a
 * toolkit.dump.DumpData in protobuf's encoding, then the bytes of the tensors, inputs first, each contiguous. Called
 * by op.c and launch.c. Thread-safe. */
#ifndef CANNON_OP_TENSOR_DUMP_H
#define CANNON_OP_TENSOR_DUMP_H

#include "op/executor.h"
#include "runtime/task.h"

/* In phase one, if dump_wants() or somebody listens to tasks (base/hooks.h): copies the descriptions of the call's
 * tensors to e->tensors. */
__attribute__((cold)) status tensor_dump_prepare(executor *e, const op_arg *a);

/* After run(): writes the file. A failure is only logged. */
__attribute__((cold)) void tensor_dump_launch(const executor *e, void *const *view, const task *t, const stream *s);

#endif
