/* SPDX-License-Identifier: Apache-2.0 */
/* Where the contents of a tensor of an ONNX file are: as raw bytes in the file, as numbers in fields of their type,
 * which are converted to raw bytes, or in another file, which is mapped. For reader.c. */
#ifndef CANNON_GRAPH_ONNX_TENSOR_CONTENTS_H
#define CANNON_GRAPH_ONNX_TENSOR_CONTENTS_H

#include "graph/onnx/onnx.h"
#include "graph/onnx/wire.h"

typedef struct {
  onnx_model *model;
  const onnx_data *data;
  int depth; /* of nested graphs */
} onnx_reader;

typedef struct {
  wire message;    /* the whole tensor, whose fields with numbers are read again once dims and dtype are known */
  const void *raw; /* NULL: there are no raw bytes */
  uint64_t raw_bytes;
  bool is_external, has_length;
  const char *location;
  uint64_t offset, length;
} tensor_contents;

/* Sets the contents of the tensor, whose dims and dtype are known. */
status tensor_contents_find(onnx_reader *r, const tensor_contents *c, onnx_tensor *t);

/* Reads a tensor, which belongs to the reader's model. In reader.c. */
status onnx_read_tensor(onnx_reader *r, wire w, onnx_tensor *t);

/* Unmaps the model's files. */
void tensor_contents_unmap(onnx_model *m);

#endif
