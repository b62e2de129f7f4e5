/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites the bytes of an ONNX model so that the contents of its tensors lie elsewhere: in files of external data, or
 * all within the model. Everything else is copied as it is. Called when .om files are made. */
#ifndef CANNON_GRAPH_ONNX_REWRITE_H
#define CANNON_GRAPH_ONNX_REWRITE_H

#include "graph/onnx/onnx.h"

enum { ONNX_FILE_NAME = 256, ONNX_STORED_LEAST = 1024 /* bytes; as the package onnx has it: smaller tensors stay */ };

/* Receives the contents of tensors. Sets the name of the file that has them, and where in it they begin. */
typedef struct {
  status (*put)(void *owner, const onnx_tensor *t, char file[ONNX_FILE_NAME], uint64_t *offset);
  void *owner;
} onnx_store;

/* folder: of external data that the model has, or NULL. store: for tensors of ONNX_STORED_LEAST bytes and more; NULL:
 * the model has them all. On success the caller frees *out. ST_CONFIG_PARSE, ST_NO_HOST_MEMORY, failures of put(). */
status onnx_rewrite(const void *bytes, size_t n, const char *folder, const onnx_store *store, void **out,
                    size_t *n_out);

#endif
