/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/model_def.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/file/wire_put.h"
#include "graph/program.h"

/* Fields of the messages (proto/ge_ir.proto of Ascend/metadef, Apache-2.0). */
enum { MODEL_NAME = 1, MODEL_VERSION = 2, MODEL_GRAPH = 7, MODEL_ATTR = 11 };
enum { GRAPH_NAME = 1, GRAPH_INPUT = 4, GRAPH_OUTPUT = 5, GRAPH_OP = 6 };
enum { OP_NAME = 1, OP_TYPE = 2, OP_INPUT = 5, OP_ATTR = 10, OP_ID = 21, OP_SRC_NAME = 24, OP_SRC_INDEX = 25 };
enum { OP_INPUT_DESC = 33, OP_OUTPUT_DESC = 34 };
enum { DESC_NAME = 1, DESC_DTYPE = 2, DESC_SHAPE = 3, DESC_LAYOUT = 4, SHAPE_DIM = 1 };
enum { MAP_KEY = 1, MAP_VALUE = 2, ATTR_TEXT = 2, ATTR_INT = 3 };

/* Cannon's operators whose name differs from that of Ascend's for the same. */
static const struct {
  const char *ours, *theirs;
} ir_names[] = {
    {"Convolution", "Conv2D"},
    {"Matmul", "BatchMatMulV2"},
    {"Mm", "MatMulV2"},
    {"Addmm", "GEMM"},
    {"Baddbmm", "BatchMatMulV2"},
    {"BatchMatMul", "BatchMatMulV2"},
    {"Adds", "Add"},
    {"Subs", "Sub"},
    {"Muls", "Mul"},
    {"Div", "RealDiv"},
    {"Divs", "RealDiv"},
    {"PowTensorScalar", "Pow"},
    {"PowTensorTensor", "Pow"},
    {"Clamp", "ClipByValueV2"},
    {"ClampTensor", "ClipByValueV2"},
    {"ClampMax", "Minimum"},
    {"ClampMin", "Maximum"},
    {"GeluV2", "Gelu"},
    {"Silu", "Swish"},
    {"Hardswish", "HardSwish"},
    {"Hardsigmoid", "HardSigmoid"},
    {"Softplus", "SoftplusV2"},
    {"Softmax", "SoftmaxV2"},
    {"LogSoftmax", "LogSoftmaxV2"},
    {"MaxPool", "MaxPoolV3"},
    {"MaxPool2dWithIndices", "MaxPoolWithArgmaxV2"},
    {"AvgPool2d", "AvgPoolV2"},
    {"Mean", "ReduceMean"},
    {"Amax", "ReduceMax"},
    {"Amin", "ReduceMin"},
    {"ProdDim", "ReduceProd"},
    {"All", "ReduceAll"},
    {"Any", "ReduceAny"},
    {"ArgMax", "ArgMaxV2"},
    {"Cat", "ConcatD"},
    {"Stack", "Pack"},
    {"InplaceCopy", "TensorMove"},
    {"Repeat", "Tile"},
    {"Gather", "GatherElements"},
    {"IndexSelect", "GatherV2"},
    {"Scatter", "ScatterElements"},
    {"ConstantPadNd", "PadV3"},
    {"SWhere", "SelectV2"},
    {"EqTensor", "Equal"},
    {"NeTensor", "NotEqual"},
    {"GtTensor", "Greater"},
    {"GeTensor", "GreaterEqual"},
    {"LtTensor", "Less"},
    {"LeTensor", "LessEqual"},
    {"BitwiseAndTensor", "BitwiseAnd"},
    {"BitwiseOrTensor", "BitwiseOr"},
    {"BitwiseXorTensor", "BitwiseXor"},
    {"FloorDivide", "FloorDiv"},
    {"RemainderTensorTensor", "FloorMod"},
    {"FmodTensor", "Mod"},
    {"Flip", "ReverseV2"},
    {"CumsumV2", "Cumsum"},
    {"NonzeroV2", "NonZero"},
    {"Topk", "TopKV2"},
    {"UpsampleNearest2d", "ResizeNearestNeighborV2"},
    {"UpsampleBilinear2d", "ResizeBilinearV2"},
    {"GridSampler2D", "GridSampler2D"},
    {"Lstm", "DynamicRNN"},
    {"Gru", "DynamicGRUV2"},
};

const char *model_def_type(const ir_node *n) {
  for (size_t i = 0; i < sizeof ir_names / sizeof *ir_names; ++i)
    if (!strcmp(ir_names[i].ours, n->op->name)) return ir_names[i].theirs;
  return n->op->name;
}

/* ge.proto's number of a type, which is not aclDataType's. */
static unsigned def_dtype(int dtype) {
  static const unsigned char numbers[] = {
      [ACL_FLOAT] = 1,  [ACL_FLOAT16] = 2, [ACL_INT8] = 3,       [ACL_UINT8] = 4,       [ACL_INT16] = 5,
      [ACL_UINT16] = 6, [ACL_INT32] = 7,   [ACL_INT64] = 8,      [ACL_UINT32] = 9,      [ACL_UINT64] = 10,
      [ACL_BOOL] = 11,  [ACL_DOUBLE] = 12, [ACL_COMPLEX64] = 16, [ACL_COMPLEX128] = 17, [ACL_BF16] = 27};
  return dtype >= 0 && (size_t)dtype < sizeof numbers ? numbers[dtype] : 0;
}

static void put_desc(wire_out *w, uint32_t field, const char *name, int dtype, const int64_t *dims, int rank) {
  const size_t desc = wire_begin(w, field);
  if (name) wire_put_text(w, DESC_NAME, name);
  wire_put_number(w, DESC_DTYPE, def_dtype(dtype));
  const size_t shape = wire_begin(w, DESC_SHAPE);
  for (int d = 0; d < rank; ++d) wire_put_number(w, SHAPE_DIM, (uint64_t)dims[d]);
  wire_end(w, shape);
  wire_put_text(w, DESC_LAYOUT, rank == 4 ? "NCHW" : "ND");
  wire_end(w, desc);
}

static void put_attribute(wire_out *w, uint32_t field, const char *key, const char *text, uint64_t number) {
  const size_t entry = wire_begin(w, field);
  wire_put_text(w, MAP_KEY, key);
  const size_t value = wire_begin(w, MAP_VALUE);
  if (text)
    wire_put_text(w, ATTR_TEXT, text);
  else
    wire_put_number(w, ATTR_INT, number);
  wire_end(w, value);
  wire_end(w, entry);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* Which operator's output a storage holds, so far. */
typedef struct {
  const ir_storage *storage;
  const char *name;
  int index;
} def_source;

typedef struct {
  wire_out *w;
  region memory;
  def_source *sources;
  int n_sources, n_ops, n_outputs; /* n_outputs: of the operator that is being put */
  const char *name;                /* of that operator */
  bool full;
} def_writer;

static void def_note(def_writer *d, const ir_storage *s, const char *name, int index) {
  def_source *grown = region_grow(&d->memory, d->sources, (size_t)d->n_sources, sizeof *grown);
  if (!grown) {
    d->full = true;
    return;
  }
  d->sources = grown;
  grown[d->n_sources++] = (def_source){s, name, index};
}

static const char *def_format(def_writer *d, const char *format, const char *name, int number) {
  char text[512];
  const int n = snprintf(text, sizeof text, format, name, number);
  const char *copy = region_text(&d->memory, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
  if (!copy) d->full = true;
  return copy ? copy : "";
}

/* Begins an operator, which has a name of its own. */
static size_t def_begin(def_writer *d, const char *name, const char *type) {
  const size_t op = wire_begin(d->w, GRAPH_OP);
  d->name = name;
  d->n_outputs = 0;
  wire_put_text(d->w, OP_NAME, name);
  wire_put_text(d->w, OP_TYPE, type);
  wire_put_number(d->w, OP_ID, (uint64_t)d->n_ops++);
  return op;
}

static const def_source *def_find(const def_writer *d, const ir_storage *s) {
  for (int i = d->n_sources - 1; i >= 0; --i)
    if (d->sources[i].storage == s) return &d->sources[i];
  return NULL;
}

/* An operator of its own for a constant that was not read before, in front of the one that reads it. */
static void def_constant(void *argument, ir_value *v, unsigned flags) {
  def_writer *d = argument;
  const tensor *t = &v->tensor;
  if (!(flags & ARG_READ) || !value_is_constant(v) || def_find(d, v->storage)) return;
  const char *name = v->name ? v->name : def_format(d, "%s_%d", "Const", d->n_ops);
  const size_t op = def_begin(d, name, "Const");
  put_desc(d->w, OP_OUTPUT_DESC, NULL, t->dtype, t->dims, t->rank);
  wire_end(d->w, op);
  def_note(d, v->storage, name, 0);
}

static void def_read(void *argument, ir_value *v, unsigned flags) {
  def_writer *d = argument;
  const tensor *t = &v->tensor;
  if (!(flags & ARG_READ)) return;
  const def_source *s = def_find(d, v->storage);
  if (s) wire_put_text(d->w, OP_INPUT, def_format(d, "%s:%d", s->name, s->index));
  put_desc(d->w, OP_INPUT_DESC, v->name, t->dtype, t->dims, t->rank);
}

static void def_written(void *argument, ir_value *v, unsigned flags) {
  def_writer *d = argument;
  const tensor *t = &v->tensor;
  if (!(flags & ARG_WRITTEN)) return;
  put_desc(d->w, OP_OUTPUT_DESC, v->name, t->dtype, t->dims, t->rank);
  def_note(d, v->storage, d->name, d->n_outputs++);
}

/* Whether an operator has the name: several may come from one node of the model. */
static bool def_has(const def_writer *d, const char *name) {
  for (int i = 0; i < d->n_sources; ++i)
    if (!strcmp(d->sources[i].name, name)) return true;
  return false;
}

static void def_node(def_writer *d, const ir_node *n) {
  node_visit(n, def_constant, d);
  const char *name = n->name && *n->name ? n->name : model_def_type(n);
  if (name == model_def_type(n) || def_has(d, name)) name = def_format(d, "%s_%d", name, d->n_ops);
  const size_t op = def_begin(d, name, model_def_type(n));
  node_visit(n, def_read, d);
  node_visit(n, def_written, d);
  if (n->origin && *n->origin) put_attribute(d->w, OP_ATTR, "_onnx_type", n->origin, 0);
  wire_end(d->w, op);
}

static void def_inputs(def_writer *d, const model *m, const ir_graph *g) {
  int n;
  const model_port *ports = model_inputs(m, &n);
  for (int i = 0; i < n; ++i) {
    const model_port *p = &ports[i];
    const size_t op = def_begin(d, p->name, "Data");
    put_attribute(d->w, OP_ATTR, "index", NULL, (uint64_t)i);
    put_desc(d->w, OP_INPUT_DESC, NULL, p->dtype, p->dims, p->rank);
    put_desc(d->w, OP_OUTPUT_DESC, NULL, p->dtype, p->dims, p->rank);
    wire_end(d->w, op);
    if (g && i < g->n_inputs) def_note(d, g->inputs[i]->storage, p->name, 0);
  }
}

static void def_outputs(def_writer *d, const model *m, const ir_graph *g) {
  int n;
  const model_port *ports = model_outputs(m, &n);
  const size_t op = def_begin(d, "Node_Output", "NetOutput");
  for (int i = 0; i < n; ++i) {
    const def_source *s = g ? def_find(d, g->outputs[i]->storage) : NULL;
    if (s) wire_put_text(d->w, OP_INPUT, def_format(d, "%s:%d", s->name, s->index));
    if (s) wire_put_text(d->w, OP_SRC_NAME, s->name);
    if (s) wire_put_number(d->w, OP_SRC_INDEX, (uint64_t)s->index);
    put_desc(d->w, OP_INPUT_DESC, ports[i].name, ports[i].dtype, ports[i].dims, ports[i].rank);
  }
  wire_end(d->w, op);
}

static void def_graph(def_writer *d, const model *m, const char *name) {
  int n;
  const program *p = model_program(m);
  const ir_graph *g = p ? program_graph(p) : NULL;
  const size_t graph = wire_begin(d->w, MODEL_GRAPH);
  wire_put_text(d->w, GRAPH_NAME, name);
  const model_port *ports = model_inputs(m, &n);
  for (int i = 0; i < n; ++i) wire_put_text(d->w, GRAPH_INPUT, def_format(d, "%s:%d", ports[i].name, 0));
  ports = model_outputs(m, &n);
  for (int i = 0; i < n; ++i) wire_put_text(d->w, GRAPH_OUTPUT, ports[i].full_name);
  def_inputs(d, m, g);
  for (int i = 0; g && i < g->n_nodes; ++i) def_node(d, &g->nodes[i]);
  def_outputs(d, m, g);
  wire_end(d->w, graph);
}

status model_def_write(const model *m, const model_def_facts *facts, void **out, size_t *n) {
  wire_out w = {0};
  def_writer d = {.w = &w};
  const char *name = facts->name ? facts->name : "";
  const model_size sizes = model_sizes(m);
  const struct {
    const char *key, *text;
    uint64_t number;
  } attributes[] = {
      {"atc_version", CANN_VERSION, 0},  {"soc_version", facts->soc_version ? facts->soc_version : "", 0},
      {"framework_type", "5", 0},        {"atc_cmdline", facts->command_line ? facts->command_line : "", 0},
      {"memory_size", NULL, sizes.work}, {"weight_size", NULL, sizes.weight},
      {"stream_num", NULL, 1},           {"event_num", NULL, 0}};
  wire_put_text(&w, MODEL_NAME, name);
  wire_put_number(&w, MODEL_VERSION, 1);
  def_graph(&d, m, name);
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; ++i)
    put_attribute(&w, MODEL_ATTR, attributes[i].key, attributes[i].text, attributes[i].number);
  region_free(&d.memory);
  if (w.full || d.full) {
    free(w.bytes);
    return fail(ST_NO_HOST_MEMORY, "no host memory to describe a model");
  }
  *out = w.bytes;
  *n = w.n;
  return ST_OK;
}
