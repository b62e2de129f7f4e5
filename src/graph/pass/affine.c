/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass/affine.h"

#include <math.h>
#include <string.h>

#include "graph/nodes.h"
#include "graph/pass/match.h"
#include "tensor/objects.h"

static bool same_dims(const tensor *a, const tensor *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

/* The value of a constant that has one element. */
static bool affine_number_of(const tensor *t, double *number) {
  return dtype_is_float(t->dtype) && value_is_number(value_of(t), number);
}

/* self, scalar, ... */
static bool scalar_node(const ir_node *n, affine *a) {
  a->x = n->args[0].tensor;
  if (n->op == &op_Adds || n->op == &op_Subs) {
    a->shift = scalar_real(n->args[1].scalar) * scalar_real(n->args[2].scalar) * (n->op == &op_Subs ? -1 : 1);
    a->out = n->args[3].tensor;
    return true;
  }
  if (n->op != &op_Muls && n->op != &op_Divs) return false;
  const double by = scalar_real(n->args[1].scalar);
  a->scale = n->op == &op_Muls ? by : 1 / by;
  a->out = n->args[2].tensor;
  return true;
}

/* Two tensors, one of them a constant with one element. */
static bool tensor_node(const ir_node *n, affine *a) {
  const bool sum = n->op == &op_Add || n->op == &op_Sub, ratio = n->op == &op_Div;
  double number;
  if (!sum && !ratio && n->op != &op_Mul) return false;
  const tensor *first = n->args[0].tensor, *second = n->args[1].tensor;
  const bool second_is = affine_number_of(second, &number);
  if (!second_is && (ratio || n->op == &op_Sub || !affine_number_of(first, &number))) return false;
  a->x = second_is ? first : second;
  a->out = n->args[sum ? 3 : 2].tensor;
  if (sum && scalar_real(n->args[2].scalar) != 1) return false;
  if (sum)
    a->shift = n->op == &op_Sub ? -number : number;
  else
    a->scale = ratio ? 1 / number : number;
  return true;
}

bool affine_of(const ir_node *n, affine *a) {
  *a = (affine){.scale = 1};
  return (scalar_node(n, a) || tensor_node(n, a)) && same_dims(a->x, a->out) && a->x->dtype == a->out->dtype &&
         dtype_is_float(a->x->dtype);
}

bool clamp_of(const ir_node *n, affine *a) {
  *a = (affine){.x = n->args[0].tensor, .low = -INFINITY, .high = INFINITY};
  if (n->op == &op_Clamp) {
    if (n->args[1].scalar) a->low = scalar_real(n->args[1].scalar);
    if (n->args[2].scalar) a->high = scalar_real(n->args[2].scalar);
    a->out = n->args[3].tensor;
  } else if (n->op == &op_ClampMin || n->op == &op_ClampMax) {
    *(n->op == &op_ClampMin ? &a->low : &a->high) = scalar_real(n->args[1].scalar);
    a->out = n->args[2].tensor;
  } else {
    return false;
  }
  return a->x->dtype == a->out->dtype && dtype_is_float(a->x->dtype) && a->low <= a->high;
}
