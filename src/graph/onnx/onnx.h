/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX model as the file has it (onnx.ai, onnx.proto of version 1.17): nodes, attributes and initialisers, with all
 * names as texts. It knows nothing of what operators mean; convert.h makes a graph of it.
 *
 * The model owns one region with all structures; contents of tensors stay in the caller's bytes, or in mapped files of
 * external data, which the model owns. Immutable once read, so any threads may use it. */
#ifndef CANNON_GRAPH_ONNX_ONNX_H
#define CANNON_GRAPH_ONNX_ONNX_H

#include "base/status.h"
#include "base/store/region.h"

/* TensorProto.DataType. */
typedef enum {
  ONNX_UNDEFINED,
  ONNX_FLOAT,
  ONNX_UINT8,
  ONNX_INT8,
  ONNX_UINT16,
  ONNX_INT16,
  ONNX_INT32,
  ONNX_INT64,
  ONNX_STRING,
  ONNX_BOOL,
  ONNX_FLOAT16,
  ONNX_DOUBLE,
  ONNX_UINT32,
  ONNX_UINT64,
  ONNX_COMPLEX64,
  ONNX_COMPLEX128,
  ONNX_BFLOAT16,
  ONNX_FLOAT8E4M3FN,
  ONNX_FLOAT8E4M3FNUZ,
  ONNX_FLOAT8E5M2,
  ONNX_FLOAT8E5M2FNUZ,
  ONNX_UINT4, /* those of 4 bits are two to a byte, the first in the lower half */
  ONNX_INT4,
  ONNX_FLOAT4E2M1,
  ONNX_FLOAT8E8M0,
  ONNX_DTYPES
} onnx_dtype;

/* AttributeProto.AttributeType. */
typedef enum {
  ONNX_ATTR_NONE,
  ONNX_ATTR_FLOAT,
  ONNX_ATTR_INT,
  ONNX_ATTR_STRING,
  ONNX_ATTR_TENSOR,
  ONNX_ATTR_GRAPH,
  ONNX_ATTR_FLOATS,
  ONNX_ATTR_INTS,
  ONNX_ATTR_STRINGS,
} onnx_attr_type;

typedef struct {
  const char *name;
  int dtype;         /* onnx_dtype, or a number that this header does not name */
  const char *where; /* the file of external data, relative to the model's folder; NULL: none */
  int n_dims;
  int64_t *dims;
  const void *contents; /* row-major, little-endian, maybe unaligned */
  uint64_t bytes;       /* of contents: what dims and dtype ask for */
} onnx_tensor;

typedef struct onnx_graph onnx_graph;

typedef struct {
  const char *name;
  int type; /* onnx_attr_type, or a number that this header does not name */
  float f;
  int64_t i;
  const char *s;
  onnx_tensor *t;
  onnx_graph *g;
  const char *reference; /* in a function: the attribute of the calling node that this one stands for; else NULL */
  int n_floats, n_ints, n_strings;
  float *floats;
  int64_t *ints;
  const char **strings;
} onnx_attribute;

typedef struct {
  const char *name, *op_type, *domain; /* "" where the file has none */
  const char *label;                   /* for messages: the name, or the node's number in its graph and its output */
  int n_inputs, n_outputs, n_attributes;
  const char **inputs, **outputs; /* names of values; "": absent */
  onnx_attribute *attributes;
} onnx_node;

typedef struct {
  int64_t size;     /* -1: open */
  const char *name; /* of an open dimension; NULL: it has none */
} onnx_dim;

/* The declaration of an input, an output or another value. */
typedef struct {
  const char *name;
  int dtype;
  bool is_tensor; /* not a sequence, a map or an optional */
  bool has_shape;
  int n_dims;
  onnx_dim *dims;
} onnx_value_info;

struct onnx_graph {
  const char *name;
  int n_nodes, n_initialisers, n_inputs, n_outputs;
  onnx_node *nodes;
  onnx_tensor *initialisers;
  onnx_value_info *inputs, *outputs;
};

typedef struct {
  const char *domain; /* "" for ONNX's own operators, which "ai.onnx" is another name of */
  int64_t version;
} onnx_opset;

/* A function of the model: an operator that is made of nodes. */
typedef struct {
  const char *name, *domain;
  int n_inputs, n_outputs, n_nodes, n_opsets, n_defaults;
  const char **inputs, **outputs;
  onnx_attribute *defaults; /* of its attributes */
  onnx_node *nodes;
  onnx_opset *opsets;
} onnx_function;

typedef struct {
  const char *path;
  void *memory;
  size_t bytes;
  bool given; /* memory of the caller's in place of a mapping */
} onnx_mapping;

typedef struct {
  region memory;
  int64_t ir_version;
  const char *producer;
  int n_opsets, n_functions, n_mappings;
  onnx_opset *opsets;
  onnx_function *functions;
  onnx_mapping *mappings;
  onnx_mapping file; /* of the model itself, which the caller may set; memory NULL: its bytes are no mapping */
  onnx_graph *graph;
} onnx_model;

/* Where a model's external data is. folder: of the files; NULL: it has none. given: files, by their path in the model,
 * whose contents are in memory that stays until onnx_free(). */
typedef struct {
  const char *folder;
  const onnx_mapping *given;
  int n_given;
} onnx_data;

/* Reads a model from bytes, which must stay until onnx_free(). data: NULL: none. External data that is not found is
 * refused. On success the caller owns *out. ST_CONFIG_PARSE with a message that
 * names the node or the tensor; ST_NO_HOST_MEMORY. */
status onnx_read(const void *bytes, size_t n, const onnx_data *data, onnx_model **out);

void onnx_free(onnx_model *m);

/* Gives back the pages of contents that were read, or of all mapped files; read again, they come from the file. */
void onnx_forget(const onnx_model *m, const void *contents, uint64_t bytes);
void onnx_forget_all(const onnx_model *m);

/* The version of the operators of a domain, 0 if the model does not import it. */
int64_t onnx_version(const onnx_opset *opsets, int n, const char *domain);

/* The bytes of an element of an onnx_dtype, 1 for those of 4 bits; 0: it has no fixed size, or is not known. */
unsigned onnx_dtype_bytes(int dtype);

/* Whether two elements are in a byte. */
static inline bool onnx_dtype_is_packed(int dtype) {
  return dtype == ONNX_UINT4 || dtype == ONNX_INT4 || dtype == ONNX_FLOAT4E2M1;
}

/* "float", "int64" and so on, as ONNX's documentation writes them; "type 23" for others. */
const char *onnx_dtype_name(int dtype);

#endif
