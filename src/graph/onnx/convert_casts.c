/* SPDX-License-Identifier: Apache-2.0 */
/* Casts, and the types that are stored only: of 8 bits, floating, and of 4 bits. A value of such a type has an element
 * to a byte: numbers for int4 and uint4, codes for floating types (op/narrow.h). `narrow` says which type it
 * is; only operators that move elements, and those that convert them, take it (convert.c). */
#include <string.h>

#include "graph/nodes.h"
#include "graph/onnx/convert.h"
#include "op/narrow.h"

static bool is_integer(int narrow) { return narrow == ONNX_INT4 || narrow == ONNX_UINT4; }

status converter_widened(converter *c, ir_value *x, ir_value **out) {
  const tensor *t = &x->tensor;
  *out = x;
  if (!x->narrow) return ST_OK;
  if (is_integer(x->narrow)) {
    TRY(ir_view(c->g, x, t->dims, t->strides, t->rank, 0, out));
    (*out)->narrow = 0;
    return ST_OK;
  }
  TRY(ir_contiguous(c->g, x, &x));
  TRY(ir_temporary(c->g, ACL_FLOAT, t->dims, t->rank, out));
  return node_DecodeNarrow(c->g, x, *out, x->narrow);
}

/* The lower four bits of integers. */
static status wrapped(converter *c, ir_value *x, int narrow, ir_value **out) {
  ir_value *mask, *half;
  TRY(ir_cast(c->g, x, ACL_INT32, &x));
  TRY(ir_number(c->g, ACL_INT32, 15, &mask));
  TRY(converter_binary(c, &op_BitwiseAndTensor, x, mask, ACL_INT32, &x));
  if (narrow == ONNX_INT4) {
    TRY(ir_number(c->g, ACL_INT32, 8, &half));
    TRY(converter_binary(c, &op_BitwiseXorTensor, x, half, ACL_INT32, &x));
    TRY(converter_binary(c, &op_Sub, x, half, ACL_INT32, &x));
  }
  return ir_cast(c->g, x, narrow == ONNX_INT4 ? ACL_INT8 : ACL_UINT8, out);
}

/* The value as one whose elements stand for the type. */
static status marked(converter *c, ir_value *x, int narrow, ir_value **out) {
  TRY(ir_view(c->g, x, x->tensor.dims, x->tensor.strides, x->tensor.rank, 0, out));
  (*out)->narrow = narrow;
  return ST_OK;
}

static status narrow_rounding_of(converter *c, narrow_rounding *rounding) {
  static const char *const names[] = {[NARROW_UP] = "up", [NARROW_DOWN] = "down", [NARROW_NEAREST] = "nearest"};
  const char *name = attribute_string(c, "round_mode", "up");
  for (int i = NARROW_UP; i <= NARROW_NEAREST; ++i)
    if (!strcmp(name, names[i])) return *rounding = (narrow_rounding)i, ST_OK;
  return OP_FAIL("round_mode is %s, expected up, down or nearest", name);
}

status converter_narrowed(converter *c, ir_value *x, int narrow, bool saturate, ir_value **out) {
  narrow_rounding rounding;
  ir_value *y;
  if (is_integer(narrow)) {
    TRY(wrapped(c, x, narrow, &y));
  } else {
    TRY(narrow_rounding_of(c, &rounding));
    TRY(ir_cast(c->g, x, ACL_FLOAT, &x));
    TRY(ir_contiguous(c->g, x, &x));
    TRY(ir_temporary(c->g, ACL_UINT8, x->tensor.dims, x->tensor.rank, &y));
    TRY(node_EncodeNarrow(c->g, x, y, narrow, saturate, rounding));
  }
  return marked(c, y, narrow, out);
}

static status cast_to(converter *c, int dtype, int narrow) {
  ir_value *y, *x = converter_input(c, 0);
  if (x->narrow && x->narrow == narrow) return converter_output(c, 0, x);
  TRY(converter_widened(c, x, &y));
  if (narrow)
    TRY(converter_narrowed(c, y, narrow, attribute_int(c, "saturate", 1), &y));
  else
    TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

static status convert_cast(converter *c) {
  int dtype, narrow;
  TRY(converter_stored_dtype((int)attribute_int(c, "to", 0), &dtype, &narrow));
  return cast_to(c, dtype, narrow);
}

static status convert_cast_like(converter *c) {
  const ir_value *like = converter_input(c, 1);
  return cast_to(c, like->tensor.dtype, like->narrow);
}

const onnx_operator onnx_casts[] = {
    {"Cast", convert_cast, 1, NULL, 0},
    {"CastLike", convert_cast_like, 2, NULL, 0},
    {0},
};
