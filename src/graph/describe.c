/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/describe.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "graph/program.h"
#include "op/choice.h"

static status describe_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory to describe a model"); }

static void add_number(cJSON *o, const char *name, uint64_t n) { cJSON_AddNumberToObject(o, name, (double)n); }

static cJSON *dims_json(const int64_t *dims, int rank) {
  cJSON *list = cJSON_CreateArray();
  for (int d = 0; d < rank; ++d) cJSON_AddItemToArray(list, cJSON_CreateNumber((double)dims[d]));
  return list;
}

/* ---- storages, which get numbers in the order in which nodes use them -------------------------------------------- */

typedef struct {
  region *memory;
  ir_storage **found;
  const char **names; /* of the first value in each that has one */
  int n;
  cJSON *reads, *writes; /* of the node that is being visited */
  bool full;             /* the host has no memory */
} storage_list;

/* The index of a storage is only valid if the list has the storage there. */
static int storage_number(storage_list *l, const ir_value *v) {
  ir_storage *s = v->storage;
  for (int i = 0; i < l->n; ++i) {
    if (l->found[i] != s) continue;
    if (!l->names[i]) l->names[i] = v->name;
    return i;
  }
  ir_storage **found = region_grow(l->memory, l->found, (size_t)l->n, sizeof(ir_storage *));
  const char **names = region_grow(l->memory, l->names, (size_t)l->n, sizeof(char *));
  if (!found || !names) {
    l->full = true;
    return 0;
  }
  l->found = found;
  l->names = names;
  found[l->n] = s;
  names[l->n] = v->name;
  return l->n++;
}

static cJSON *value_json(storage_list *l, const ir_value *v) {
  const tensor *t = &v->tensor;
  cJSON *o = cJSON_CreateObject();
  add_number(o, "storage", (uint64_t)storage_number(l, v));
  if (v->name) cJSON_AddStringToObject(o, "name", v->name);
  cJSON_AddStringToObject(o, "dtype", dtype_name(t->dtype));
  cJSON_AddItemToObject(o, "shape", dims_json(t->dims, t->rank));
  if (!t->contiguous || t->offset) {
    cJSON_AddItemToObject(o, "strides", dims_json(t->strides, t->rank));
    add_number(o, "offset", (uint64_t)t->offset);
  }
  return o;
}

static void list_value(void *argument, ir_value *v, unsigned flags) {
  storage_list *l = argument;
  if (flags & ARG_READ) cJSON_AddItemToArray(l->reads, value_json(l, v));
  if (flags & ARG_WRITTEN) cJSON_AddItemToArray(l->writes, value_json(l, v));
}

static cJSON *storages_json(const storage_list *l) {
  static const char *const kinds[] = {[STORAGE_TEMPORARY] = "temporary",
                                      [STORAGE_INPUT] = "input",
                                      [STORAGE_OUTPUT] = "output",
                                      [STORAGE_CONSTANT] = "constant"};
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i < l->n; ++i) {
    const ir_storage *s = l->found[i];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kind", kinds[s->kind]);
    if (l->names[i]) cJSON_AddStringToObject(o, "name", l->names[i]);
    add_number(o, "bytes", s->bytes);
    add_number(o, "first", (uint64_t)s->first);
    add_number(o, "last", (uint64_t)s->last);
    if (s->kind == STORAGE_TEMPORARY) add_number(o, "offset", s->offset);
    cJSON_AddItemToArray(list, o);
  }
  return list;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static cJSON *step_json(const program_step *s, storage_list *l) {
  const executor *e = s->executor;
  choice_text choice;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "name", s->node->name ? s->node->name : "");
  cJSON_AddStringToObject(o, "origin", s->node->origin ? s->node->origin : "");
  cJSON_AddStringToObject(o, "operator", s->node->op->name);
  if (e->n_choices) {
    choice_describe(e, &choice);
    cJSON_AddStringToObject(o, "implementation", choice.names);
    cJSON_AddStringToObject(o, "reason", choice.reason);
  }
  if (e->workspace_bytes) {
    add_number(o, "workspace", e->workspace_bytes);
    add_number(o, "workspace_offset", s->scratch_offset);
  }
  add_number(o, "estimated_ns", e->cost_ns);
  add_number(o, "bytes", e->touched_bytes);
  if (e->multiply_adds) add_number(o, "multiply_adds", e->multiply_adds);
  l->reads = cJSON_AddArrayToObject(o, "reads");
  l->writes = cJSON_AddArrayToObject(o, "writes");
  node_visit(s->node, list_value, l);
  return o;
}

/* What all steps read and write, with their workspaces. */
static uint64_t moved_bytes(const program *p) {
  uint64_t sum = 0;
  for (int i = 0; i < program_sizes(p).n_steps; ++i) {
    const executor *e = program_step_at(p, i).executor;
    sum += e->touched_bytes + 2 * e->workspace_bytes;
  }
  return sum;
}

static status graph_json(const program *p, region *memory, cJSON **out) {
  const program_size sizes = program_sizes(p);
  storage_list l = {.memory = memory};
  cJSON *o = cJSON_CreateObject(), *nodes = cJSON_AddArrayToObject(o, "nodes");
  for (int i = 0; i < sizes.n_steps; ++i) {
    const program_step s = program_step_at(p, i);
    cJSON_AddItemToArray(nodes, step_json(&s, &l));
  }
  cJSON_AddItemToObject(o, "storages", storages_json(&l));
  add_number(o, "arena", sizes.arena);
  add_number(o, "unshared", sizes.unshared);
  add_number(o, "live_peak", sizes.live_peak);
  add_number(o, "weights", sizes.constants);
  cJSON_AddStringToObject(o, "order", sizes.order.name);
  add_number(o, "replaced", (uint64_t)sizes.n_replaced);
  add_number(o, "unpacked", (uint64_t)sizes.n_unpacked);
  add_number(o, "moved", moved_bytes(p));
  add_number(o, "half_dtype", (uint64_t)program_graph(p)->half_dtype);
  *out = o;
  if (!l.full) return ST_OK;
  return describe_no_memory();
}

static status place_on_host(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
  return ST_OK;
}

/* Constants are offered packed, as when the model runs, which decides what implementations are chosen. */
static status pack_nothing(void *owner, program_packed *packed, int n) {
  (void)owner, (void)packed, (void)n;
  return ST_OK;
}

/* Makes the graph and its program, without a set of passes. */
static status describe_graph(const model *m, tuning *tuned, program_goal goal, onnx_shape *shapes, pass_set off,
                             pass_report *report, cJSON **out) {
  ir_graph *g;
  program *p;
  region memory = {0};
  TRY(model_convert(m, shapes, &g));
  status st = pass_all(g, off, report);
  if (st != ST_OK) {
    ir_free(g);
    return st;
  }
  const program_owner owner = {.place = place_on_host,
                               .place_packed = pack_nothing,
                               .tuned = tuned,
                               .goal = goal,
                               .knows_some = true,
                               .share = true};
  TRY(program_make(g, &owner, &p));
  st = graph_json(p, &memory, out);
  region_free(&memory);
  program_free(p);
  return st;
}

static void describe_passes(cJSON *o, pass_set off, const pass_report *report) {
  cJSON *list = cJSON_AddArrayToObject(o, "passes");
  for (int i = 0; i < n_passes; ++i) {
    cJSON *p = cJSON_CreateObject();
    cJSON_AddStringToObject(p, "name", passes[i].name);
    add_number(p, "matches", (uint64_t)report->n_matches[i]);
    if (off >> i & 1) cJSON_AddBoolToObject(p, "off", true);
    cJSON_AddItemToArray(list, p);
  }
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static void ports_json(cJSON *o, const char *member, const model_port *ports, int n) {
  cJSON *list = cJSON_AddArrayToObject(o, member);
  for (int i = 0; i < n; ++i) {
    cJSON *p = cJSON_CreateObject();
    cJSON_AddStringToObject(p, "name", ports[i].name);
    cJSON_AddStringToObject(p, "dtype", dtype_name(ports[i].dtype));
    cJSON_AddItemToObject(p, "shape", dims_json(ports[i].dims, ports[i].rank));
    cJSON_AddItemToArray(list, p);
  }
}

/* Whether there are 16-bit numbers in place of float32, and why. */
static void describe_precision(cJSON *o, half_use use, const pass_report *report, int dtype) {
  static const char *const types[N_HALF_USES] = {"", "float16", "", "bfloat16", "a type of 16 bits"};
  char words[128];
  const char *type = dtype == ACL_BF16 ? "bfloat16" : "float16";
  int halves = 0;
  for (int i = 0; i < n_passes; ++i)
    if (passes[i].run == pass_half) halves = report->n_matches[i];
  if (use == HALF_NEVER)
    snprintf(words, sizeof words, "as the model has it: nothing else was asked for");
  else if (halves)
    snprintf(words, sizeof words, "%s: %s", type,
             use == HALF_WANTED ? "it was forced" : "it is allowed, and estimated to be faster");
  else if (use == HALF_WANTED)
    snprintf(words, sizeof words, "as the model has it: no operator knows float16");
  else
    snprintf(words, sizeof words, "as the model has it: %s is allowed, but not estimated to be faster", types[use]);
  cJSON_AddStringToObject(o, "precision", words);
}

/* The figures that are told before a run: without reuse of memory, with reuse, and with reuse and all passes. */
static void describe_memory(cJSON *o) {
  const cJSON *before = cJSON_GetObjectItem(o, "before"), *after = cJSON_GetObjectItem(o, "after");
  const cJSON *const figures[] = {cJSON_GetObjectItem(before, "unshared"), cJSON_GetObjectItem(before, "arena"),
                                  cJSON_GetObjectItem(after, "arena"), cJSON_GetObjectItem(after, "live_peak"),
                                  cJSON_GetObjectItem(after, "weights")};
  static const char *const names[] = {"no_reuse", "reuse", "reuse_and_passes", "live_peak", "weights"};
  cJSON *memory = cJSON_AddObjectToObject(o, "memory");
  for (int i = 0; i < 5; ++i) cJSON_AddNumberToObject(memory, names[i], figures[i] ? figures[i]->valuedouble : 0);
}

/* The shapes of the inputs: those of the largest gear or of the model, with what is given for open ones. */
static status describe_shapes(const model *m, const onnx_shape *given, int n_given, onnx_shape *shapes, int n) {
  char is[SHAPE_TEXT], of[SHAPE_TEXT];
  const model_gears *gears = model_gears_of(m);
  model_gear_shapes(m, gears->kind ? gears_largest(gears) : -1, shapes);
  for (int k = 0; k < n_given; ++k) {
    int i = 0;
    while (i < n && strcmp(shapes[i].name, given[k].name) != 0) ++i;
    if (i == n) return fail(ST_INVALID_PARAM, "%s is no input of the model", given[k].name);
    bool fits = shapes[i].n_dims == given[k].n_dims;
    for (int d = 0; fits && d < shapes[i].n_dims; ++d)
      fits = shapes[i].dims[d] < 0 ? given[k].dims[d] >= 0 : shapes[i].dims[d] == given[k].dims[d];
    if (!fits)
      return fail(ST_INVALID_PARAM, "the shape of input %s is given as %s, expected one that fits %s", shapes[i].name,
                  shape_text(given[k].dims, given[k].n_dims, is), shape_text(shapes[i].dims, shapes[i].n_dims, of));
    memcpy(shapes[i].dims, given[k].dims, sizeof shapes[i].dims);
  }
  for (int i = 0; i < n; ++i)
    for (int d = 0; d < shapes[i].n_dims; ++d)
      if (shapes[i].dims[d] < 0)
        return fail(ST_INVALID_PARAM, "dimension %d of input %s is open (%s), expected a shape for it", d,
                    shapes[i].name, shape_text(shapes[i].dims, shapes[i].n_dims, is));
  return ST_OK;
}

/* What the goal changes, beside the same graph without one. */
static status describe_goal(model *m, onnx_shape *shapes, const cJSON *with, cJSON *o) {
  static const char *const figures[] = {"arena", "weights", "moved"};
  pass_report report;
  cJSON *without = NULL;
  if (!model_goal(m)) return ST_OK;
  TRY(describe_graph(m, model_tuning(m), GOAL_NONE, shapes, model_passes_off(m), &report, &without));
  cJSON *g = cJSON_AddObjectToObject(o, "optimize");
  const double replaced = cJSON_GetObjectItem(with, "replaced")->valuedouble;
  const double unpacked = cJSON_GetObjectItem(with, "unpacked")->valuedouble;
  bool changes = replaced > 0 || unpacked > 0;
  cJSON_AddStringToObject(g, "goal", goal_name(model_goal(m)));
  cJSON_AddNumberToObject(g, "replaced", replaced);
  cJSON_AddNumberToObject(g, "unpacked", unpacked);
  cJSON_AddStringToObject(g, "order", cJSON_GetStringValue(cJSON_GetObjectItem(with, "order")));
  for (int i = 0; i < 3; ++i) {
    const double a = cJSON_GetObjectItem(without, figures[i])->valuedouble;
    const double b = cJSON_GetObjectItem(with, figures[i])->valuedouble;
    cJSON *f = cJSON_AddObjectToObject(g, figures[i]);
    cJSON_AddNumberToObject(f, "without", a);
    cJSON_AddNumberToObject(f, "with", b);
    changes |= a < b || b < a;
  }
  cJSON_AddBoolToObject(g, "changes", changes);
  cJSON_Delete(without);
  return ST_OK;
}

static status describe_all(model *m, onnx_shape *shapes, cJSON *o) {
  int n_inputs, n_outputs;
  pass_report report;
  cJSON *before = NULL, *after = NULL;
  const model_port *inputs = model_inputs(m, &n_inputs), *outputs = model_outputs(m, &n_outputs);
  cJSON_AddStringToObject(o, "written_by", "cannon model");
  ports_json(o, "inputs", inputs, n_inputs);
  ports_json(o, "outputs", outputs, n_outputs);
  add_number(o, "exported_nodes", (uint64_t)model_exported_nodes(m));
  TRY(describe_graph(m, NULL, GOAL_NONE, shapes, ~(pass_set)0, &report, &before));
  cJSON_AddItemToObject(o, "before", before);
  TRY(describe_graph(m, model_tuning(m), model_goal(m), shapes, model_passes_off(m), &report, &after));
  cJSON_AddItemToObject(o, "after", after);
  describe_passes(o, model_passes_off(m), &report);
  describe_precision(o, model_half(m), &report, (int)cJSON_GetObjectItem(after, "half_dtype")->valuedouble);
  TRY(describe_goal(m, shapes, after, o));
  describe_memory(o);
  return ST_OK;
}

status model_describe(model *m, const onnx_shape *given, int n_given, char **json) {
  int n;
  (void)model_inputs(m, &n);
  onnx_shape *shapes = calloc((size_t)n + 1, sizeof *shapes);
  cJSON *o = cJSON_CreateObject();
  status st = shapes && o ? ST_OK : describe_no_memory();
  if (st == ST_OK) st = describe_shapes(m, given, n_given, shapes, n - (model_gears_of(m)->kind != GEARS_NONE));
  if (st == ST_OK) st = describe_all(m, shapes, o);
  if (st == ST_OK && !(*json = cJSON_Print(o))) st = describe_no_memory();
  cJSON_Delete(o);
  free(shapes);
  return st;
}
