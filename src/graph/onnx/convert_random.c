/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers. A node with a seed gives the same numbers at each execution; one without has the number of the node
 * as its seed, so a model is repeatable, too. */
#include "graph/nodes.h"
#include "graph/onnx/convert.h"

static int64_t seed_of(const converter *c) {
  return converter_attribute(c, "seed") ? (int64_t)attribute_float(c, "seed", 0) : c->g->n_nodes + 1;
}

enum { NORMAL, UNIFORM };

static status convert_random(converter *c) {
  const ir_value *like = converter_input(c, 0);
  int n, dtype;
  const int64_t *shape = attribute_ints(c, "shape", &n), *dims = like ? like->tensor.dims : shape;
  ir_value *y;
  if (!like && n < 0) return OP_FAIL("attribute shape is missing");
  if (like && !converter_attribute(c, "dtype"))
    dtype = like->tensor.dtype;
  else
    TRY(converter_dtype((int)attribute_int(c, "dtype", ONNX_FLOAT), &dtype));
  TRY(ir_temporary(c->g, dtype, dims, like ? like->tensor.rank : n, &y));
  if (c->entry->number == NORMAL)
    TRY(node_InplaceNormal(c->g, y, attribute_float(c, "mean", 0), attribute_float(c, "scale", 1), seed_of(c), 0));
  else
    TRY(node_InplaceUniform(c->g, y, attribute_float(c, "low", 0), attribute_float(c, "high", 1), seed_of(c), 0));
  return converter_output(c, 0, y);
}

static status convert_bernoulli(converter *c) {
  ir_value *x = converter_input(c, 0), *y;
  int dtype = x->tensor.dtype;
  if (converter_attribute(c, "dtype")) TRY(converter_dtype((int)attribute_int(c, "dtype", 0), &dtype));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, x->tensor.rank, &y));
  TRY(node_BernoulliTensor(c->g, x, x, seed_of(c), 0, y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

/* The input has logarithms of probabilities. */
static status convert_multinomial(converter *c) {
  ir_value *x = converter_input(c, 0), *p, *y;
  int dtype;
  const int64_t n = attribute_int(c, "sample_size", 1);
  if (x->tensor.rank != 2) return OP_FAIL("the input has %d dimensions, expected 2", x->tensor.rank);
  const int64_t dims[] = {x->tensor.dims[0], n};
  TRY(converter_dtype((int)attribute_int(c, "dtype", ONNX_INT32), &dtype));
  TRY(ir_temporary(c->g, x->tensor.dtype, x->tensor.dims, 2, &p));
  TRY(node_Softmax(c->g, x, 1, p));
  TRY(ir_temporary(c->g, ACL_INT64, dims, 2, &y));
  TRY(node_Multinomial(c->g, p, n, true, seed_of(c), 0, y));
  TRY(ir_cast(c->g, y, dtype, &y));
  return converter_output(c, 0, y);
}

const onnx_operator onnx_random[] = {
    {"RandomNormal", convert_random, 0, NULL, NORMAL},
    {"RandomNormalLike", convert_random, 1, NULL, NORMAL},
    {"RandomUniform", convert_random, 0, NULL, UNIFORM},
    {"RandomUniformLike", convert_random, 1, NULL, UNIFORM},
    {"Bernoulli", convert_bernoulli, 1, NULL, 0},
    {"Multinomial", convert_multinomial, 1, NULL, 0},
    {0},
};
