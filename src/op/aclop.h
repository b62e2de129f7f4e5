/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that are called by name, with tensor descriptions and attributes (aclopCompileAndExecute). Each has a line
 * in a file ops/(name).aclop, from which scripts/gen_ops.py generates a table. Their prepare functions are like those
 * of other operators, or are those of others, and a call becomes ordinary tasks of executors:
 *
 *   an operand in a blocked format     is converted by a TransData task into plain memory, before the operator
 *   an operand that is updated         is copied to the output, where a line says so, unless it is there already
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

/* Where an operator's argument comes from, for a line that calls another operator. */
typedef struct {
  int8_t given;      /* the caller's argument; -1: `constant` */
  int8_t copied;     /* of a tensor that is written: the caller's tensor that is copied into it before; -1: none */
  const char *words; /* of a string: what it may be, as in "none|mean|sum". The operator gets the word's number. */
  op_arg constant;
} aclop_source;

typedef struct {
  op op;
  const arg_schema *given; /* the caller's arguments, of which there are n_given */
  uint8_t n_given;
  const aclop_source *sources; /* of each of op's arguments; NULL: they are the caller's */
  const op_arg *defaults;      /* of attributes, by the index of the caller's argument */
  bool any_format;             /* the operator handles every format itself */
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
