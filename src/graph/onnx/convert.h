/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a graph of an ONNX model for given shapes of its inputs. Each operator of ONNX has a converter, a function that
 * looks at the inputs of a node (whose shapes are known, and often their contents, since constants are computed on the
 * way) and adds nodes of Cannon's operators; so inference of shapes, folding and translation are one thing. The
 * converters are in tables, a file for each family: convert_*.c. */
#ifndef CANNON_GRAPH_ONNX_CONVERT_H
#define CANNON_GRAPH_ONNX_CONVERT_H

#include "graph/ir.h"
#include "graph/onnx/onnx.h"

/* What is known of an input. */
typedef struct {
  const char *name;
  int n_dims;
  int64_t dims[MAX_RANK];
  const void *contents;                    /* in host memory; NULL: not known. The graph keeps a copy */
  int64_t least[MAX_RANK], most[MAX_RANK]; /* of open dimensions: sizes that an execution may have; most 0, -1: any */
  bool half, blocked; /* the graph's input is float16, and NC1HWC0, and is converted to what the model has */
  bool wanted;        /* set by onnx_convert */
} onnx_shape;

/* Instead of a status: the shapes of some values depend on what an input contains (such as the sizes of a Reshape that
 * are no constants). The inputs whose contents have to be known are marked as wanted. */
enum { ONNX_WANTS_CONTENTS = -3 };

/* Makes the graph. shapes: of inputs, for those with open dimensions at least; others must fit what the model declares.
 * The model must stay as long as the graph, which lends its constants. On success the caller owns *out.
 * ONNX_WANTS_CONTENTS; ST_INVALID_PARAM: an input is unknown, or its shape is open or does not fit; ST_GRAPH_ENGINE: a
 * node cannot be converted, with its name; ST_NO_HOST_MEMORY. */
status onnx_convert(const onnx_model *m, onnx_shape *shapes, int n_shapes, ir_graph **out);

/* ---- for converters ---------------------------------------------------------------------------------------------- */

typedef struct onnx_scope onnx_scope;
typedef struct onnx_operator onnx_operator;

typedef struct {
  ir_graph *g;
  const onnx_model *model;
  const onnx_opset *opsets; /* those of the model, or of the function that is being converted */
  int n_opsets;
  int64_t version; /* of ONNX's own operators */
  onnx_scope *scope;
  const onnx_node *node;       /* that is being converted */
  const onnx_operator *entry;  /* of its operator */
  const onnx_node *call;       /* of the function that is being converted; NULL: none is */
  const onnx_function *callee; /* that function */
  int depth;                   /* of functions and nested graphs */
  onnx_shape *shapes;          /* of onnx_convert */
  int n_shapes;
} converter;

/* An operator; one of another domain than ONNX's own has that before its name. `op` and `number` are for converters
 * that several operators share. */
struct onnx_operator {
  const char *name;
  status (*convert)(converter *c);
  int min_inputs;
  op *op;
  int number;
};

/* The tables, each of which ends with an entry without a name. */
extern const onnx_operator onnx_elementwise[], onnx_shape_operators[], onnx_constants[], onnx_reductions[],
    onnx_products[], onnx_quantised[], onnx_windows[], onnx_pools[], onnx_norms[], onnx_indexing[], onnx_boxes[],
    onnx_scattering[], onnx_resampling[], onnx_recurrent[], onnx_losses[], onnx_random[], onnx_spectra[],
    onnx_control[], onnx_attention[], onnx_casts[], onnx_deform[], onnx_ngrams[];

/* The node's input i; NULL if it is absent. */
ir_value *converter_input(const converter *c, int i);

/* Whether the node's output i is wanted. */
bool converter_wants(const converter *c, int i);

/* Makes v the node's output i. */
status converter_output(converter *c, int i, ir_value *v);

/* Attributes of the node; the second value where there is none. *n: the number of elements, -1 if there is none. */
const onnx_attribute *converter_attribute(const converter *c, const char *name);
int64_t attribute_int(const converter *c, const char *name, int64_t otherwise);
double attribute_float(const converter *c, const char *name, double otherwise);
const char *attribute_string(const converter *c, const char *name, const char *otherwise);
const int64_t *attribute_ints(const converter *c, const char *name, int *n);
const float *attribute_floats(const converter *c, const char *name, int *n);

/* Integers that were an attribute in earlier versions and are an input in later ones. The input must be constant.
 * *n: -1 if there are none. */
status converter_ints(converter *c, const char *attribute, int input, const int64_t **integers, int *n);

/* ST_OK if the value is constant; otherwise marks the model's inputs that it depends on, and fails with
 * ONNX_WANTS_CONTENTS. For converters that must know a value to know the shape of their result. */
status converter_known(converter *c, const ir_value *v);

/* The contents of an input, which has to be known, as integers or numbers in the graph's memory. */
status converter_constant_ints(converter *c, int input, const int64_t **integers, int *n);
status converter_constant_reals(converter *c, int input, const double **reals, int *n);

/* The dtype of ONNX as ACL_...; ST_OP_INVALID if there is none. */
status converter_dtype(int onnx_dtype, int *dtype);

/* The same for types that are stored only, too (convert_casts.c): *narrow is the type of ONNX for them, else 0. */
status converter_stored_dtype(int onnx_dtype, int *dtype, int *narrow);

/* Such a value's numbers, as int8, uint8 or float; others as they are. And numbers as such a type. saturate: what is
 * beyond the largest number becomes that. */
status converter_widened(converter *c, ir_value *x, ir_value **out);
status converter_narrowed(converter *c, ir_value *x, int narrow, bool saturate, ir_value **out);

/* A constant that lends the contents of a tensor of the model. */
status converter_tensor(converter *c, const onnx_tensor *t, ir_value **out);

/* Converts a graph that is an attribute of the node, in a scope inside of the present one. bound: values of the inputs;
 * results: receives the outputs. */
status converter_body(converter *c, const onnx_graph *body, ir_value *const *bound, ir_value **results);

/* Checks an axis; a negative one counts from the end. */
status converter_axis(int64_t axis, int rank, int *out);

/* The dims that several shapes broadcast to. */
status converter_broadcast(ir_value *const *values, int n, int64_t *dims, int *rank);

/* A call of an elementwise operator with these inputs, broadcast; dtype: of the result. Operators of one input and of
 * two. ops with an argument alpha get 1. */
status converter_unary(converter *c, op *o, ir_value *x, int dtype, ir_value **out);
status converter_binary(converter *c, op *o, ir_value *a, ir_value *b, int dtype, ir_value **out);

/* a @ b by NumPy's rules, of one dtype. */
status converter_product(converter *c, ir_value *a, ir_value *b, ir_value **out);

/* A value of floats as uint8, with a scale and a zero point of rank 0, by its range: DynamicQuantizeLinear. */
status converter_quantised(converter *c, ir_value *x, ir_value **y, ir_value **scale, ir_value **zero);

/* The product of 8-bit integers less their zero points (one number, a vector by a's rows or b's columns, or NULL), as
 * int32. */
status converter_integer_product(converter *c, ir_value *a, ir_value *a_zero, ir_value *b, ir_value *b_zero,
                                 ir_value **out);

/* Indices as int64 whose negative ones count from the end of `size` elements. Constant ones are checked. softly:
 * without a check. */
status converter_wrapped(converter *c, ir_value *index, int64_t size, ir_value **out);
status converter_wrapped_softly(converter *c, ir_value *index, int64_t size, ir_value **out);

/* The value with margins around it that are filled with a number; arrays of a margin for each dimension, 0 or more. */
status converter_padded(converter *c, ir_value *x, const int64_t *before, const int64_t *after, double number,
                        ir_value **out);

/* A window that moves over the last n dimensions of a value of n + 2 dimensions. */
typedef struct {
  int n;
  int64_t size[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], before[MAX_RANK], after[MAX_RANK];
  bool even; /* before and after are equal everywhere */
} onnx_window;

/* Reads the attributes of a node with a window; sizes: the window's, or NULL for the attribute kernel_shape. */
status converter_window(converter *c, const ir_value *x, const int64_t *sizes, onnx_window *w);

/* The number of places of the window along its dimension d; up: the last one may reach beyond the margin. */
int64_t window_places(const onnx_window *w, int d, int64_t size, bool up);

/* The convolution that the node's attributes describe. */
status converter_convolution(converter *c, ir_value *x, ir_value *weight, ir_value *bias, ir_value **out);

/* For the table of products. */
status convert_einsum(converter *c);

#endif
