/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a loaded model: the bytes of its file, and where in device memory the contents of its constants are.
 * Constants of the file are there once for all programs of the model; computed ones belong to a program.
 *
 * The host keeps no copies that nobody will read: pages of a mapped file are given back once they were copied, and the
 * file as a whole when no further program will be made. For model.c; the model's lock guards all of it. */
#ifndef CANNON_GRAPH_WEIGHTS_H
#define CANNON_GRAPH_WEIGHTS_H

#include "graph/onnx/onnx.h"
#include "graph/program.h"

enum { MODEL_ALIGNMENT = 64 };

static inline uint64_t model_aligned(uint64_t bytes) {
  return (bytes + MODEL_ALIGNMENT - 1) & -(uint64_t)MODEL_ALIGNMENT;
}

/* A piece of device memory that a model has, with a reference for each user. */
typedef struct model_block {
  _Atomic uint32_t refs;
  void *device; /* NULL: memory of the caller's */
  char *view;   /* as kernels see it */
  uint64_t bytes, used;
  struct model_block *next; /* of the weights' blocks */
} model_block;

status model_block_new(int device, void *site, uint64_t bytes, model_block **out);
void model_block_unref(model_block *b, void *site); /* NULL, too */

/* Where a constant of the model's file is. layout: of a packed one (program.h); 0: as it is. */
typedef struct {
  const void *contents;
  uint64_t layout;
  void *address;
} model_constant;

typedef struct {
  int device; /* negative: nothing will run, and constants stay where they are */
  void *site;
  void *file; /* the bytes of the model, for as long as programs may be made of them; NULL: for no longer */
  size_t file_bytes;
  bool mapped;             /* they are a mapping of a file; else malloc'ed */
  const onnx_model *model; /* made of them, with mappings of external data */
  model_block *blocks;     /* with constants of the file */
  model_block given;       /* memory of the caller's in place of blocks; bytes 0: there is none */
  region memory;
  model_constant *constants;
  int n_constants;
} model_weights;

/* Copies the bytes, or takes them if they are a mapping, and then sets *mapping_taken, which is NULL otherwise. */
status model_weights_open(model_weights *w, const void *bytes, size_t n, bool *mapping_taken);
void model_weights_drop_file(model_weights *w);
void model_weights_free(model_weights *w);

/* Places the constants of one program, as its owner. own, own_packed: blocks with its computed constants and their
 * packed forms, which the caller releases, also if the program fails; NULL: there are none, or they are in memory of
 * the model's caller. */
typedef struct {
  model_weights *weights;
  ir_graph *graph;
  model_block *own, *own_packed;
} model_placing;

program_owner model_placing_owner(model_placing *p);

#endif
