/* Operators that are called by name, with tensor descriptions and attributes: the graph engine's. Their lines are in
 * ops/graph.aclop, from which scripts/gen_aclops.py makes the table; their prepare functions are as any operator's, and a call
 * becomes ordinary tasks of executors:
 *
 *   operands in formats with blocks    a TransData each into memory without blocks, before the operator
 *   the operator                       on plain operands; those marked any_format or stored are seen as they lie
 *   results in such formats            a TransData each, behind it
 *
 * The memory in between, and the operator's workspace, come from the device's heap and are freed when all is queued: it
 * keeps them until the tasks have passed. */
#ifndef CANNON_OP_ACLOP_H
#define CANNON_OP_ACLOP_H

#include "op/attr.h"
#include "tensor/desc.h"

typedef struct {
  op op;
  const op_arg *defaults; /* of attributes, by argument */
  bool any_format;
} aclop;

extern aclop aclop_table[]; /* by name */
extern const size_t aclop_count;

typedef struct {
  const tensor_desc *desc;
  void *data;
  size_t bytes;
} aclop_operand;

typedef struct {
  const char *name;
  const aclop_operand *inputs, *outputs;
  int n_inputs, n_outputs;
  const attributes *attributes;
  status refusal; /* what there is no operator for, or no legal call, gives; in words in any case */
  void *site;     /* the caller's return address */
} aclop_call;

/* Queues it on the stream that the handle means. On failure no task was queued that writes an output. */
status aclop_execute(const aclop_call *c, void *stream);

#endif
