/* Dumps of operators' tensors (trace/dump_config.h), a file for each launch:
 *
 *   <dump_path>/<time of aclmdlSetDump>/<device>/<operator>.aclnn<operator>.<task>.<stream>.<microseconds since 1970>
 *
 * In it, as CANN's tools read it: the length (8 bytes) of a message, the message, which is a toolkit.dump.DumpData in
 * protobuf's encoding, then the tensors' bytes, inputs first, each contiguous. */
#ifndef CANNON_OP_TENSOR_DUMP_H
#define CANNON_OP_TENSOR_DUMP_H

#include "op/executor.h"
#include "runtime/task.h"

/* In phase one, where dump_wants(): copies of the tensors of the call into e->tensors. */
__attribute__((cold)) status tensor_dump_prepare(executor *e, const op_arg *a);

/* After the run. A file that can't be written is told in the log only. */
__attribute__((cold)) void tensor_dump_launch(const executor *e, void *const *view, const task *t, const stream *s);

#endif
