/* SPDX-License-Identifier: Apache-2.0 */
/* .om files, which atc writes and aclmdlLoadFromFile reads. The shell is CANN's (om_shell.h). The content is our own,
 * in the partition TASK_INFO: the ONNX model and what was chosen for it. It has no addresses and nothing that depends
 * on the processor, so files move between machines. MODEL_DEF (model_def.h) is for tools only. Files for NPUs are
 * recognised and refused. */
#ifndef CANNON_GRAPH_FILE_OM_H
#define CANNON_GRAPH_FILE_OM_H

#include "graph/file/om_shell.h"
#include "graph/gears.h"
#include "graph/optimize.h"
#include "graph/pass/pass.h"

/* An output that was chosen in place of the model's, or the type that outputs are to have. name: of a value, or
 * "node:index"; "" stands for all outputs. */
typedef struct {
  const char *name;
  int dtype; /* ACL_...; -1: the output was chosen */
} om_output;

/* What callers give for an input, or get for an output, in place of what the model has. */
typedef struct {
  const char *name;
  bool half, blocked; /* float16 in place of float32; NC1HWC0 in place of NCHW (layout.h) */
  bool is_output;
} om_form;

/* What a file has; shapes, outputs, forms and gears are owned, the rest lies in the file's bytes. */
typedef struct {
  const void *onnx;
  size_t onnx_bytes;
  onnx_shape *shapes;
  int n_shapes;
  model_gears gears;
  om_output *outputs;
  int n_outputs;
  om_form *forms;
  int n_forms;
  pass_set passes_off;
  half_use half;
  const char *kept_whole; /* nodes that stay float32 whatever half says, as ir_graph has them; NULL: none */
  bool weights_outside;   /* external data lies in the folder WEIGHT_FOLDER beside the file */
  const void *model_def;  /* for om_write; NULL: the partition is empty */
  size_t model_def_bytes;
  const char *aipp; /* a configuration in one line (aipp.h); NULL: none */
  program_goal goal;
  const char *tuned_machine, *tuned; /* of tune_file.h: choices that were measured, and where; NULL: none */
  char *names;                       /* of the shapes and outputs, and aipp when it was read */
} om_contents;

/* Reads a file, whose bytes must stay. om_free frees what it has allocated. ST_CONFIG_PARSE, with the reason. */
status om_read(const void *bytes, size_t n, om_contents *out);
void om_free(om_contents *c);

/* The form of an input or output; NULL: the model's. name: also "node:index" of an output. */
const om_form *om_form_of(const om_contents *c, bool is_output, const char *name);

/* The shape of an input; NULL: none was chosen. */
const onnx_shape *om_shape(const om_contents *c, const char *name);

/* Makes a file of what it is to have. name: of the model, for those who look into the header. *out: malloc'ed. */
status om_write(const char *name, const om_contents *c, void **out, size_t *n);

#endif
