/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass/elementwise.h"

#include "graph/nodes.h"
#include "op/elementwise_program.h"
#include "tensor/objects.h"

typedef union {
  aclTensorList list;
  char room[sizeof(aclTensorList) + PROGRAM_OPERANDS * sizeof(aclTensor *)];
} operand_list;

typedef struct {
  aclTensorList *inputs, *outputs;
  bool fits;
} lone_call;

static void note_operand_of_call(void *argument, ir_value *v, unsigned flags) {
  lone_call *c = argument;
  aclTensorList *to = flags & ARG_WRITTEN ? c->outputs : c->inputs;
  if (to->size == PROGRAM_OPERANDS || flags == (ARG_READ | ARG_WRITTEN))
    c->fits = false;
  else
    to->value[to->size++] = &v->tensor;
}

bool node_is_elementwise(const ir_node *n) {
  operand_list inputs = {.list.magic = MAGIC_TENSOR_LIST}, outputs = {.list.magic = MAGIC_TENSOR_LIST};
  lone_call c = {&inputs.list, &outputs.list, true};
  const elementwise_program_call call = {n->op, n->args};
  const elementwise_program program = {1, &call};
  node_visit(n, note_operand_of_call, &c);
  if (!c.fits || outputs.list.size != 1) return false;
  const op_arg args[] = {{.tensors = &inputs.list}, {.tensors = &outputs.list}, {.pointer = &program}};
  return call_is_possible(&op_ElementwiseProgram, args);
}
