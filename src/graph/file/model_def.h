/* SPDX-License-Identifier: Apache-2.0 */
/* The partition MODEL_DEF of our .om files: the graph that is left to run, as ge.proto.ModelDef, with the names that
 * Ascend's operators have (Conv2D, MatMulV2, Data, NetOutput, ...) where there is one. Nothing reads it back but tools:
 * `atc --mode=1`, and scripts that look for operators and names of outputs. Called by src/api. */
#ifndef CANNON_GRAPH_FILE_MODEL_DEF_H
#define CANNON_GRAPH_FILE_MODEL_DEF_H

#include "graph/model.h"

/* What the model's attributes say besides sizes; texts may be NULL. */
typedef struct {
  const char *name, *command_line, *soc_version;
} model_def_facts;

/* *out: malloc'ed. A model whose shapes are open has only its inputs and outputs there. ST_NO_HOST_MEMORY. */
status model_def_write(const model *m, const model_def_facts *facts, void **out, size_t *n);

/* The name that Ascend has for a node's operator, or ours where there is none. */
const char *model_def_type(const ir_node *n);

#endif
