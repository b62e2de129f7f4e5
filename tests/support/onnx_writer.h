/* SPDX-License-Identifier: Apache-2.0 */
/* Writes small ONNX models, as bytes, for tests in C. */
#ifndef CANNON_TESTS_SUPPORT_ONNX_WRITER_H
#define CANNON_TESTS_SUPPORT_ONNX_WRITER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ONNX_WRITER_BYTES = 4096, WRITTEN_FLOAT = 1, WRITTEN_INT64 = 7, WRITTEN_FLOAT16 = 10 };

/* A message of protocol buffers. */
typedef struct {
  size_t n;
  char bytes[ONNX_WRITER_BYTES];
} written;

static inline void write_varint(written *w, uint64_t value) {
  for (; value > 0x7f; value >>= 7) w->bytes[w->n++] = (char)(value | 0x80);
  w->bytes[w->n++] = (char)value;
}

static inline void write_int(written *w, unsigned field, int64_t value) {
  write_varint(w, field << 3);
  write_varint(w, (uint64_t)value);
}

static inline void write_bytes(written *w, unsigned field, const void *bytes, size_t n) {
  write_varint(w, field << 3 | 2);
  write_varint(w, n);
  memcpy(w->bytes + w->n, bytes, n);
  w->n += n;
}

static inline void write_text(written *w, unsigned field, const char *text) {
  write_bytes(w, field, text, strlen(text));
}
static inline void write_message(written *w, unsigned field, const written *m) {
  write_bytes(w, field, m->bytes, m->n);
}

/* A constant of the graph. */
static inline void write_initialiser(written *graph, const char *name, int dtype, const int64_t *dims, int rank,
                                     const void *contents, size_t bytes) {
  written t = {0};
  for (int d = 0; d < rank; ++d) write_int(&t, 1, dims[d]);
  write_int(&t, 2, dtype);
  write_text(&t, 8, name);
  write_bytes(&t, 9, contents, bytes);
  write_message(graph, 5, &t);
}

/* An input (field 11) or output (12). dims: -1 for an open one. */
static inline void write_value(written *graph, unsigned field, const char *name, int dtype, const int64_t *dims,
                               int rank) {
  written shape = {0}, tensor = {0}, type = {0}, value = {0};
  for (int d = 0; d < rank; ++d) {
    written dim = {0};
    if (dims[d] < 0)
      write_text(&dim, 2, "n");
    else
      write_int(&dim, 1, dims[d]);
    write_message(&shape, 1, &dim);
  }
  write_int(&tensor, 1, dtype);
  write_message(&tensor, 2, &shape);
  write_message(&type, 1, &tensor);
  write_text(&value, 1, name);
  write_message(&value, 2, &type);
  write_message(graph, field, &value);
}

/* A node without attributes; inputs end with NULL. */
static inline void write_node(written *graph, const char *name, const char *op, const char *const *inputs,
                              const char *output) {
  written n = {0};
  for (; *inputs; ++inputs) write_text(&n, 1, *inputs);
  write_text(&n, 2, output);
  write_text(&n, 3, name);
  write_text(&n, 4, op);
  write_message(graph, 1, &n);
}

/* The model of a graph, of operator set 17. */
static inline void write_model(written *model, const written *graph) {
  written opset = {0};
  write_int(&opset, 2, 17);
  write_int(model, 1, 8);
  write_message(model, 7, graph);
  write_message(model, 8, &opset);
}

/* y = relu(x @ w + b), where x is [rows, 2] (-1: open), w is [2, 3]; and z, the transposed y. */
static inline void write_small_model(written *model, int64_t rows) {
  static const float w[] = {1, -1, 2, 0, 1, -2}, b[] = {0.5f, 0, -1};
  static const int64_t w_dims[] = {2, 3}, b_dims[] = {3};
  written graph = {0};
  write_text(&graph, 2, "small");
  write_initialiser(&graph, "w", WRITTEN_FLOAT, w_dims, 2, w, sizeof w);
  write_initialiser(&graph, "b", WRITTEN_FLOAT, b_dims, 1, b, sizeof b);
  write_value(&graph, 11, "x", WRITTEN_FLOAT, (const int64_t[]){rows, 2}, 2);
  write_node(&graph, "product", "MatMul", (const char *const[]){"x", "w", NULL}, "xw");
  write_node(&graph, "sum", "Add", (const char *const[]){"xw", "b", NULL}, "xwb");
  write_node(&graph, "limit", "Relu", (const char *const[]){"xwb", NULL}, "y");
  write_node(&graph, "turn", "Transpose", (const char *const[]){"y", NULL}, "z");
  write_value(&graph, 12, "y", WRITTEN_FLOAT, (const int64_t[]){rows, 3}, 2);
  write_value(&graph, 12, "z", WRITTEN_FLOAT, (const int64_t[]){3, rows}, 2);
  write_model(model, &graph);
}

#endif
