/* SPDX-License-Identifier: Apache-2.0 */
/* Files with the constants of models, in the folder `weight` beside .om files: an onnx_store. A file gets its name when
 * it is whole, so that programs that have the former one mapped keep that. One thread at a time uses a weight_files. */
#ifndef CANNON_GRAPH_FILE_WEIGHT_FILES_H
#define CANNON_GRAPH_FILE_WEIGHT_FILES_H

#include <stdio.h>

#include "graph/onnx/rewrite.h"

#define WEIGHT_FOLDER "weight"

/* How constants are kept; numbers of atc's --external_weight. */
typedef enum {
  WEIGHTS_INSIDE,
  WEIGHTS_EACH,     /* a file for each constant: weight_HASH, which models may share */
  WEIGHTS_COMBINED, /* one file: NAME_weight_combined */
} weight_kind;

typedef struct {
  weight_kind kind;
  const char *folder; /* is made if it is not there */
  const char *name;   /* of the model */
  FILE *combined;
  char *beside; /* its name until it is whole */
  uint64_t bytes;
} weight_files;

/* Begins; the onnx_store's put is weight_files_put. ST_MODEL_PATH: the folder or the file cannot be written. */
status weight_files_begin(weight_files *w);
status weight_files_put(void *weight_files, const onnx_tensor *t, char file[ONNX_FILE_NAME], uint64_t *offset);

/* Ends; st: what became of it. Files of a failure are removed, except those of single constants. Returns st, or a
 * failure of its own. */
status weight_files_end(weight_files *w, status st);

#endif
