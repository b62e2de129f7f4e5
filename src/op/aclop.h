/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are called by name, with tensor descriptions and attributes (aclopCompileAndExecute). Each has a line
 * in ops/graph.aclop or ops/mindspore.aclop, from which scripts/gen_ops.py generates a table. Their prepare functions
 * are like those of other operators, and a call becomes ordinary tasks of executors:
 *
 *   an operand in a blocked format     is converted by a TransData task into plain memory, before the operator
 *   the operator                       runs on plain operands; operands marked any_format or stored are used as they
 *                                      are
 *   a result in a blocked format       is converted by a TransData task behind the operator
 *
 * The memory in between and the operator's workspace come from the device's heap, and are freed as soon as all tasks
 * are queued: the heap keeps them until the tasks are done. Where an output's shape depends on the data, the call waits
 * for its tasks if the caller wants the shape. Called by src/api. Thread-safe. */
#ifndef CANNON_OP_ACLOP_H
#define CANNON_OP_ACLOP_H

#include "op/attr.h"
#include "tensor/desc.h"

typedef struct {
  op op;
  const op_arg *defaults; /* of attributes, by the argument's index */
  bool any_format;        /* the operator handles every format itself */
} aclop;

extern aclop aclop_table[]; /* sorted by name */
extern const size_t aclop_count;

typedef struct {
  const tensor_desc *desc;
  void *data;
  size_t bytes;
  tensor_desc *result; /* of an output whose shape depends on the data: the description that gets it; NULL: none */
} aclop_operand;

typedef struct {
  const char *name;
  const aclop_operand *inputs, *outputs;
  int n_inputs, n_outputs;
  const attributes *attributes;
  status refusal; /* the status for an unknown operator or wrong arguments; there is a message in each case */
  void *site;     /* the caller's return address */
} aclop_call;

/* Whether the operator exists and takes tensors of these descriptions, as far as their shapes are known and nothing has
 * to be read on the host; the operands have no data. */
status aclop_check(const aclop_call *c);

/* Queues the call's tasks in a stream, given by its handle. On failure no task was queued that writes an output. */
status aclop_execute(const aclop_call *c, void *stream);

#endif
