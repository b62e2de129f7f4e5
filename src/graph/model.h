/* SPDX-License-Identifier: Apache-2.0 */
/* A loaded model: what an ONNX file becomes on a device. It has a program (program.h) for each set of input shapes with
 * which it was run, the last few of which are kept; weights, which all programs share; and an arena.
 *
 * Where shapes depend on what an input contains, a program is for these contents, too; a submission then waits for the
 * stream in order to read them.
 *
 * A model is reference-counted: its owner and each queued execution have a reference. Executions of one model run one
 * after the other, whatever streams they are in, since they share the arena. Any thread. Called by src/api. */
#ifndef CANNON_GRAPH_MODEL_H
#define CANNON_GRAPH_MODEL_H

#include "graph/aipp.h"
#include "graph/gears.h"
#include "graph/optimize.h"
#include "graph/pass/pass.h"
#include "graph/tune.h"
#include "runtime/stream.h"

typedef struct model model;

/* An input or an output. */
typedef struct {
  const char *name;
  const char *full_name; /* of an output: "node:index:name"; NULL for inputs */
  int dtype;             /* ACL_... */
  int rank;
  int64_t dims[MAX_RANK]; /* -1: open */
  int64_t least[MAX_RANK],
      most[MAX_RANK]; /* of an input's open dimensions: the sizes that it may have; most 0, -1: any */
  uint64_t bytes;     /* 0: open */
  bool pictures;      /* it has AIPP, and takes n, height, width, channels */
  bool half, blocked; /* float16 where the model has float32, NC1HWC0 where it has NCHW (layout.h) */
} model_port;

/* Bytes of the arena and of the weights, never 0 once there is a program; for a model with open shapes, those of its
 * last one. */
typedef struct {
  uint64_t work, weight;
  uint64_t unshared; /* the arena if no two buffers shared memory */
  int n_tasks;
} model_size;

/* Memory of the caller's, in place of the library's own; NULL: none. */
typedef struct {
  void *work, *weight;
  uint64_t work_bytes, weight_bytes;
} model_memory;

/* How a model is loaded; all may be 0. */
typedef struct {
  const model_memory *memory;
  pass_set passes_off;       /* passes that its programs do without */
  program_goal goal;         /* in place of the file's and of CANNON_OPTIMIZE (optimize.h) */
  bool tunes;                /* implementations are measured where the rules may be wrong (tune.h) */
  const char *weight_folder; /* of external data, in place of the model's; or NULL */
  /* Files of external data whose contents are in device memory of the caller's, as kernels see it. They are read there,
   * and must stay until the model is unloaded. */
  const onnx_mapping *weight_files;
  int n_weight_files;
  /* Not NULL: the bytes are a private mapping of a file, which the model keeps in place of a copy, and unmaps. Set to
   * true as soon as it has taken the mapping, also if loading fails afterwards. The file must not be changed in place
   * while the model is loaded. */
  bool *mapping_taken;
} model_options;

/* In place of a device: the model is only described and measured, and cannot be run. */
enum { MODEL_ON_HOST = -1 };

/* Loads an ONNX model, or what om_write() made of one, onto a device. bytes: may be freed afterwards. folder: of
 * external data, or NULL. options: or NULL. site: the caller's return address. On success the caller owns *out.
 * ST_CONFIG_PARSE, ST_GRAPH_ENGINE, ST_INVALID_PARAM, ST_NO_MEMORY, ST_NO_HOST_MEMORY. */
status model_load(const void *bytes, size_t n, const char *folder, const model_options *options, int device, void *site,
                  model **out);

void model_hold(model *m);
void model_unref(model *m);

/* The number of inputs or outputs, which are inputs[0] and so on. They live as long as the model. A model with gears
 * has one more input, MODEL_GEAR_INPUT, whose contents the entry points read; the bytes of its inputs and the outputs
 * are those of the largest gear. Behind it are an input MODEL_AIPP_INPUT for each input with dynamic AIPP. */
#define MODEL_GEAR_INPUT "ascend_mbatch_shape_data"
#define MODEL_AIPP_INPUT "ascend_dynamic_aipp_data"
const model_port *model_inputs(const model *m, int *n);
const model_port *model_outputs(const model *m, int *n);

/* The model's gears, whose kind may be GEARS_NONE; the shapes of its inputs in a gear, into an array for all but the
 * added input; and the shapes of its outputs in the gear that was chosen last, or the largest. */
const model_gears *model_gears_of(const model *m);
/* The index of MODEL_GEAR_INPUT, where the model has gears: the number of its own inputs. */
int model_gear_input(const model *m);
void model_gear_shapes(const model *m, int gear, onnx_shape *inputs);
void model_choose_gear(model *m, int gear);
status model_current_output(model *m, int i, model_port *out);
model_size model_sizes(const model *m);

/* The model's inputs with AIPP, and the index of the added input for the parameters of a dynamic one. */
const aipp_config *model_aipp(const model *m, int *n);
int model_aipp_parameters(const model *m, const aipp_config *c);
/* How often each pass matched, in the program that was made last; and the passes that are off. */
pass_report model_passes(model *m);
pass_set model_passes_off(const model *m);
int model_device(const model *m);

/* Whether the model's float32 may be float16. */
half_use model_half(const model *m);

program_goal model_goal(const model *m);

/* The choices that were measured for the model, and are used for it. */
tuning *model_tuning(model *m);

/* The graph of the model for these shapes of its inputs, before passes, and the nodes of the model's file. The graph is
 * the caller's, and must not outlive the model. ST_INVALID_PARAM: shapes depend on what an input contains. */
status model_convert(const model *m, onnx_shape *shapes, ir_graph **out);
int model_exported_nodes(const model *m);

/* For model_def.c, on a model that nobody runs: the program that was made last; NULL: none was. */
const struct program *model_program(const model *m);

/* A buffer of the caller's in device memory. rank: of the dims, -1 if the caller gives none. */
typedef struct {
  void *address;
  uint64_t bytes;
  int rank;
  int64_t dims[MAX_RANK];
} model_buffer;

/* Queues an execution. Sets rank and dims of the outputs to their true shape. gear: or -1, the largest. awaited: the
 * caller waits for it at once; outputs without address and size then get device memory of the library's, which the
 * caller frees as that of aclrtMalloc. work: device memory for this execution in place of the model's, or NULL.
 * ST_MODEL_PARAM: it is too small; ST_INVALID_PARAM: a number of buffers does not fit; ST_MODEL_SHAPE: a shape;
 * ST_MODEL_INPUT, ST_MODEL_OUTPUT: a buffer is too small, or no device memory. */
status model_submit(model *m, stream *s, model_buffer *inputs, int n_inputs, model_buffer *outputs, int n_outputs,
                    int gear, bool awaited, const model_memory *work, void *site);

#endif
