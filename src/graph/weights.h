/* SPDX-License-Identifier: Apache-2.0 */
/* The constants of a loaded model: the bytes of its file, and where in device memory the contents of its constants are.
 * Constants of the file are there once for all programs of the model, for as long as the model. Computed ones are in
 * blocks of the program that was made first with them; other programs find them there by their identities (ir.h), and
 * hold the block, too.
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
  struct model_block *next; /* of the weights' blocks, or of the shared ones */
} model_block;

status model_block_new(int device, void *site, uint64_t bytes, model_block **out);
void model_block_unref(model_block *b, void *site); /* NULL, too */

/* Where a constant is. layout: of a packed one (program.h); 0: as it is. */
typedef struct {
  uint64_t identity, offset, layout;
  uint64_t bytes; /* at the address; compared, so that hashes that are equal by chance never lead beyond it */
  void *address;
  model_block *block; /* NULL: it stays as long as the model */
  int next;           /* with the same hash; -1: none */
} model_constant;

enum { WEIGHT_LISTS = 256 };

typedef struct {
  int device; /* negative: nothing will run, and constants stay where they are */
  void *site;
  void *file; /* the bytes of the model, for as long as programs may be made of them; NULL: for no longer */
  size_t file_bytes;
  bool mapped;               /* they are a mapping of a file; else malloc'ed */
  const onnx_model *model;   /* made of them, with mappings of external data */
  model_block *blocks;       /* with constants of the file */
  model_block *shared;       /* with constants that were computed, and a reference from here */
  model_block given;         /* memory of the caller's in place of blocks; bytes 0: there is none */
  model_constant *constants; /* malloc'ed, with room for more */
  int n_constants, room;
  int lists[WEIGHT_LISTS]; /* the first constant of each hash, plus 1 */
} model_weights;

/* Copies the bytes, or takes them if they are a mapping, and then sets *mapping_taken, which is NULL otherwise. */
status model_weights_open(model_weights *w, const void *bytes, size_t n, bool *mapping_taken);
void model_weights_drop_file(model_weights *w);
void model_weights_free(model_weights *w);

/* Forgets the constants from number n on: of a program that failed before all of them were filled. */
void model_weights_forget_from(model_weights *w, int n);

/* Frees blocks that no program holds any more. */
void model_weights_sweep(model_weights *w);

/* Places the constants of one program, as its owner. held: the blocks with its computed constants, whose references and
 * list (malloc'ed) the caller releases, also if the program fails. */
typedef struct {
  model_weights *weights;
  ir_graph *graph;
  model_block **held;
  int n_held;
} model_placing;

program_owner model_placing_owner(model_placing *p);

#endif
