/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/model.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/settings/variables.h"
#include "base/store/hash.h"
#include "graph/file/om.h"
#include "graph/file/weight_files.h"
#include "graph/layout.h"
#include "graph/outputs.h"
#include "graph/ports.h"
#include "graph/program.h"
#include "graph/tune_file.h"
#include "graph/weights.h"
#include "memory/memory.h"

enum { MOST_PROGRAMS = 16 };

/* A program and what it needs. Its model and each queued execution have a reference. */
typedef struct {
  _Atomic uint32_t refs;
  uint64_t key; /* a hash of the dims of all inputs, and of contents that decide shapes */
  uint64_t last_use;
  program *program;
  model_block **held; /* with the constants that were computed */
  int n_held;
} version;

struct model {
  _Atomic uint32_t refs;
  int device;
  void *site;
  onnx_model *onnx;
  model_port *inputs, *outputs;
  int n_inputs, n_outputs;
  int *output_dtypes; /* that were chosen; -1: as the graph has them */
  onnx_shape *fixed;  /* an entry for each input: its shape, as the model or the file has it */
  model_gears gears;
  aipp_config aipp[AIPP_MOST];
  int n_aipp;
  model_block *pictures; /* prepared ones, of all inputs with AIPP; NULL: there is no such input */
  _Atomic int gear;      /* that was chosen last */
  _Atomic bool running;  /* an execution uses the arena */
  pass_set passes_off;
  half_use half;
  const char *kept_whole; /* of ir_graph */
  program_goal goal;
  tuning tuned;       /* guarded by the lock, too */
  mutex lock;         /* guards all below, and is held while a program is made */
  bool *wanted;       /* inputs whose contents decide shapes */
  model_size sizes;   /* does not change after loading if no shape is open */
  pass_report passes; /* of the program that was made last */
  uint64_t uses;
  int n_versions;
  version *versions[MOST_PROGRAMS];
  model_weights weights;
  model_block *arena, given_arena; /* the latter: memory of the caller's; bytes 0: there is none */
};

static status model_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for a model"); }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What a caller is told to bring. Never 0, because aclrtMalloc refuses that. */
static uint64_t asked_bytes(uint64_t bytes) { return bytes ? bytes : MODEL_ALIGNMENT; }

/* Makes the arena large enough. An execution that is queued keeps the one it was queued with. */
static status need_arena(model *m, uint64_t bytes) {
  if (m->device == MODEL_ON_HOST) return ST_OK;
  if (m->given_arena.bytes) {
    if (bytes <= m->given_arena.bytes) return ST_OK;
    return fail(ST_MODEL_PARAM, "workSize is %ju, expected %ju or more", (uintmax_t)m->given_arena.bytes,
                (uintmax_t)bytes);
  }
  if (m->arena && m->arena->bytes >= bytes) return ST_OK;
  model_block *b;
  TRY(model_block_new(m->device, m->site, bytes, &b));
  model_block_unref(m->arena, m->site);
  m->arena = b;
  return ST_OK;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* Makes the graph of the model, whose outputs have the types that were chosen. */
static status model_graph(const model *m, onnx_shape *shapes, ir_graph **out) {
  ir_graph *g;
  TRY(onnx_convert(m->onnx, shapes, m->n_inputs, &g));
  g->half = m->half;
  g->kept_whole = m->kept_whole;
  for (int i = 0; i < g->n_outputs; ++i) {
    ir_value *v = g->outputs[i];
    const int dtype = m->outputs[i].half ? ACL_FLOAT16 : m->output_dtypes[i];
    status st = dtype >= 0 ? ir_cast(g, v, dtype, &g->outputs[i]) : ST_OK;
    if (st == ST_OK && m->outputs[i].blocked) st = layout_blocked(g, g->outputs[i], &g->outputs[i]);
    if (st != ST_OK) {
      ir_free(g);
      return fail(ST_INVALID_PARAM, "output %s cannot be converted: %s", m->outputs[i].name, strdupa(fail_take()));
    }
    if (!g->outputs[i]->name) g->outputs[i]->name = v->name;
  }
  *out = g;
  return ST_OK;
}

static status model_make_program(model *m, onnx_shape *shapes, model_placing *where, program **out) {
  ir_graph *g;
  TRY(model_graph(m, shapes, &g));
  const status st = pass_all(g, m->passes_off, &m->passes);
  if (st != ST_OK) {
    ir_free(g);
    return st;
  }
  where->graph = g;
  program_owner owner = model_placing_owner(where);
  uint64_t red_zones = 0;
  owner.red_zones = variable_read(VARIABLE_RED_ZONES, &red_zones) && red_zones;
  owner.tuned = &m->tuned;
  owner.goal = m->goal;
  TRY(program_make(g, &owner, out));
  if (m->tuned.changed) tune_file_write(&m->tuned);
  m->tuned.changed = false;
  return ST_OK;
}

static void version_unref(version *v, void *site) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  program_free(v->program);
  for (int i = 0; i < v->n_held; ++i) model_block_unref(v->held[i], site);
  free(v->held);
  free(v);
}

/* The model gives up its reference. Its lock is held. */
static void version_end(model *m, version *v) {
  version_unref(v, m->site);
  model_weights_sweep(&m->weights);
}

static uint64_t key_of(const model *m, const onnx_shape *shapes) {
  uint64_t key = HASH_START;
  for (int i = 0; i < m->n_inputs; ++i) {
    const onnx_shape *s = &shapes[i];
    uint64_t bytes = dtype_bytes(m->inputs[i].dtype);
    key = hash_bytes(key, s->dims, (size_t)s->n_dims * sizeof *s->dims);
    for (int d = 0; d < s->n_dims; ++d) bytes *= (uint64_t)s->dims[d];
    if (s->contents) key = hash_bytes(key, s->contents, bytes);
  }
  return key;
}

static status version_new(model *m, uint64_t key, onnx_shape *shapes, version **out) {
  version *v = calloc(1, sizeof *v);
  if (!v) return model_no_memory();
  atomic_init(&v->refs, 1);
  v->key = key;
  model_placing where = {.weights = &m->weights};
  const int n_known = m->weights.n_constants;
  status st = model_make_program(m, shapes, &where, &v->program);
  v->held = where.held;
  v->n_held = where.n_held;
  if (st == ST_OK && m->device != MODEL_ON_HOST) program_drop_contents(v->program);
  if (st == ST_OK) st = need_arena(m, program_sizes(v->program).arena);
  if (st == ST_OK) {
    *out = v;
  } else {
    model_weights_forget_from(&m->weights, n_known);
    version_end(m, v);
  }
  return st;
}

/* The program for these shapes and contents, still the model's; made if there is none, in place of the one that was not
 * used for longest. ONNX_WANTS_CONTENTS: shapes[i].wanted says of which inputs. The model's lock is held. */
static status version_for(model *m, onnx_shape *shapes, version **out) {
  const uint64_t key = key_of(m, shapes);
  int slot = 0;
  for (int i = 0; i < m->n_versions; ++i) {
    version *v = m->versions[i];
    if (v->last_use < m->versions[slot]->last_use) slot = i;
    if (v->key != key) continue;
    v->last_use = ++m->uses;
    *out = v;
    return need_arena(m, program_sizes(v->program).arena);
  }
  TRY(version_new(m, key, shapes, out));
  (*out)->last_use = ++m->uses;
  if (m->n_versions < MOST_PROGRAMS)
    slot = m->n_versions++;
  else
    version_end(m, m->versions[slot]);
  m->versions[slot] = *out;
  const program_size sizes = program_sizes((*out)->program);
  m->sizes = (model_size){asked_bytes(sizes.arena), asked_bytes(sizes.constants), sizes.unshared, sizes.n_steps};
  return ST_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Takes the file's gears, and adds the input by which callers choose one. */
static status describe_gears(model *m, const model_gears *from) {
  region *memory = &m->onnx->memory;
  const size_t bytes = (size_t)from->n * (size_t)from->n_numbers * sizeof *from->numbers;
  m->gears = *from;
  m->gears.numbers = region_take(memory, bytes);
  if (!m->gears.numbers) return model_no_memory();
  memcpy(m->gears.numbers, from->numbers, bytes);
  TRY(gears_check(&m->gears, m->fixed, m->n_inputs));
  const int largest = gears_largest(&m->gears);
  atomic_init(&m->gear, largest);
  onnx_shape *shapes = REGION_NEW(memory, onnx_shape, m->n_inputs);
  if (!shapes) return model_no_memory();
  model_gear_shapes(m, largest, shapes);
  for (int i = 0; i < m->n_inputs; ++i) {
    m->inputs[i].bytes = dtype_bytes(m->inputs[i].dtype);
    for (int d = 0; d < shapes[i].n_dims; ++d) m->inputs[i].bytes *= (uint64_t)shapes[i].dims[d];
  }
  m->inputs[m->n_inputs] = (model_port){.name = MODEL_GEAR_INPUT,
                                        .dtype = ACL_INT32,
                                        .rank = 1,
                                        .dims = {from->n_numbers},
                                        .bytes = (uint64_t)from->n_numbers * sizeof(int32_t)};
  return ST_OK;
}

/* The input of AIPP as the model has it, in the largest gear: n, channels, height and width. */
static status aipp_target(const model *m, const aipp_config *c, onnx_shape *shapes, onnx_shape *to) {
  if (c->input < 0 || c->input >= m->n_inputs)
    return fail(ST_INVALID_PARAM, "related_input_rank is %d, expected that of an input, 0 to %d", c->input,
                m->n_inputs - 1);
  model_gear_shapes(m, m->gears.kind ? gears_largest(&m->gears) : 0, shapes);
  *to = shapes[c->input];
  bool known = to->n_dims == 4 && !m->inputs[c->input].blocked;
  for (int d = 0; d < to->n_dims; ++d) known &= to->dims[d] > 0;
  if (!known)
    return fail(ST_INVALID_PARAM,
                "input %s, for which there is an aipp_op, has another shape than 4 known dimensions, or "
                "another layout than NCHW",
                m->inputs[c->input].name);
  if (m->inputs[c->input].dtype != ACL_FLOAT && m->inputs[c->input].dtype != ACL_FLOAT16)
    return fail(ST_INVALID_PARAM, "input %s has dtype %s, expected FLOAT or FLOAT16 for AIPP, or a single aipp_op",
                m->inputs[c->input].name, dtype_name(m->inputs[c->input].dtype));
  return ST_OK;
}

/* The input takes pictures: its port becomes that of a picture. */
static status describe_picture(model *m, aipp_config *c, const onnx_shape *target) {
  static const int64_t channels[] = {[AIPP_YUV420SP] = 3, [AIPP_XRGB8888] = 4, [AIPP_RGB888] = 3, [AIPP_YUV400] = 1};
  const int64_t *dims = target->dims;
  model_port *p = &m->inputs[c->input];
  c->half = p->dtype == ACL_FLOAT16;
  p->dtype = ACL_UINT8;
  p->pictures = true;
  memcpy(p->dims, (int64_t[]){m->fixed[c->input].dims[0], dims[2], dims[3], dims[1]}, 4 * sizeof *p->dims);
  p->bytes = (uint64_t)dims[0] * c->most_bytes;
  if (c->dynamic) return ST_OK;
  if (!c->common.width) c->common.width = (int32_t)dims[3], c->common.height = (int32_t)dims[2];
  TRY(aipp_check(&c->common, &c->picture, dims[1], dims[2], dims[3]));
  p->dims[1] = c->common.height, p->dims[2] = c->common.width, p->dims[3] = channels[c->common.format];
  p->bytes = (uint64_t)dims[0] * aipp_picture_bytes(&c->common, c->common.width, c->common.height);
  return ST_OK;
}

static status describe_aipp(model *m, const char *text) {
  onnx_shape *shapes = REGION_NEW(&m->onnx->memory, onnx_shape, m->n_inputs), target;
  uint64_t prepared = 0;
  int added = m->n_inputs + (m->gears.kind != GEARS_NONE);
  if (!shapes) return model_no_memory();
  TRY(aipp_read(text, m->aipp, &m->n_aipp));
  for (int k = 0; k < m->n_aipp; ++k) {
    aipp_config *c = &m->aipp[k];
    TRY(aipp_target(m, c, shapes, &target));
    uint64_t bytes = dtype_bytes(m->inputs[c->input].dtype);
    for (int d = 0; d < 4; ++d) bytes *= (uint64_t)target.dims[d];
    prepared += model_aligned(bytes);
    TRY(describe_picture(m, c, &target));
    const uint64_t parameters = aipp_bytes((uint64_t)target.dims[0]);
    if (c->dynamic)
      m->inputs[added++] = (model_port){
          .name = MODEL_AIPP_INPUT, .dtype = ACL_UINT8, .rank = 1, .dims = {(int64_t)parameters}, .bytes = parameters};
  }
  return m->device == MODEL_ON_HOST ? ST_OK : model_block_new(m->device, m->site, prepared, &m->pictures);
}

static status describe_model(model *m, const om_contents *om) {
  TRY(outputs_choose(m->onnx, om->outputs, om->n_outputs));
  const onnx_graph *g = m->onnx->graph;
  region *memory = &m->onnx->memory;
  m->inputs = REGION_NEW(memory, model_port, g->n_inputs + 1 + AIPP_MOST);
  m->outputs = REGION_NEW(memory, model_port, g->n_outputs);
  m->fixed = REGION_NEW(memory, onnx_shape, g->n_inputs);
  m->wanted = REGION_NEW(memory, bool, g->n_inputs);
  if (!m->inputs || !m->outputs || !m->fixed || !m->wanted) return model_no_memory();
  for (int i = 0; i < g->n_inputs; ++i) {
    if (port_is_initialiser(g, g->inputs[i].name)) continue;
    const onnx_shape *given = om_shape(om, g->inputs[i].name);
    model_port *p = &m->inputs[m->n_inputs];
    TRY(port_describe(&g->inputs[i], given, p));
    onnx_shape *f = &m->fixed[m->n_inputs++];
    *f = (onnx_shape){.name = p->name, .n_dims = p->rank};
    memcpy(f->dims, p->dims, sizeof f->dims);
    TRY(port_take_form(p, om_form_of(om, false, p->name), f));
    if (p->blocked && om->gears.kind) return fail(ST_INVALID_PARAM, "input %s is NC1HWC0 and has gears", p->name);
    f->half = p->half;
    f->blocked = p->blocked;
  }
  for (int i = 0; i < g->n_outputs; ++i) {
    model_port *p = &m->outputs[m->n_outputs++];
    TRY(port_describe(&g->outputs[i], NULL, p));
    TRY(port_name_output(m->onnx, p));
  }
  m->output_dtypes = REGION_NEW(memory, int, m->n_outputs);
  if (!m->output_dtypes) return model_no_memory();
  TRY(outputs_type(m->onnx, m->outputs, m->n_outputs, om->outputs, om->n_outputs, m->output_dtypes));
  for (int i = 0; i < m->n_outputs; ++i) {
    port_count_bytes(&m->outputs[i]);
    TRY(port_take_form(&m->outputs[i], outputs_form(om, &m->outputs[i]), NULL));
  }
  TRY(om->gears.kind ? describe_gears(m, &om->gears) : ST_OK);
  return om->aipp ? describe_aipp(m, om->aipp) : ST_OK;
}

/* Makes the only program of a model whose shapes are all known, or that of the largest gear, and takes the outputs'
 * shapes from it. */
static status prepare_static(model *m) {
  for (int i = 0; i < m->n_inputs && !m->gears.kind; ++i)
    if (port_is_open(&m->inputs[i])) return ST_OK;
  onnx_shape *shapes = REGION_NEW(&m->onnx->memory, onnx_shape, m->n_inputs);
  version *v;
  if (!shapes) return model_no_memory();
  model_gear_shapes(m, atomic_load(&m->gear), shapes);
  mutex_lock(&m->lock);
  const status st = version_for(m, shapes, &v);
  mutex_unlock(&m->lock);
  for (int i = 0; i < m->n_inputs; ++i) m->wanted[i] = shapes[i].wanted;
  if (st == ONNX_WANTS_CONTENTS) return ST_OK; /* made when it runs */
  if (st != ST_OK) return st;
  for (int i = 0; i < m->n_outputs; ++i) {
    port_set_shape(&m->outputs[i], &program_graph(v->program)->outputs[i]->tensor);
  }
  return ST_OK;
}

static status view_given(const model_memory *given, model *m) {
  void *view = NULL;
  if (given && given->work) {
    TRY(memory_view(given->work, given->work_bytes, VMM_READ | VMM_WRITE, "workPtr", &view));
    m->given_arena = (model_block){.view = view, .bytes = given->work_bytes};
  }
  if (given && given->weight) {
    TRY(memory_view(given->weight, given->weight_bytes, VMM_READ | VMM_WRITE, "weightPtr", &view));
    m->weights.given = (model_block){.view = view, .bytes = given->weight_bytes};
  }
  return ST_OK;
}

/* Whether the program that was made at load is the only one that there will be: constants in the file were copied. */
static bool model_is_complete(const model *m) {
  bool complete = m->device != MODEL_ON_HOST && m->n_versions == 1 && !m->gears.kind;
  complete = complete && !program_reads_lent(m->versions[0]->program);
  for (int i = 0; i < m->n_inputs; ++i) complete &= !port_is_open(&m->inputs[i]) && !m->wanted[i];
  return complete;
}

/* Takes the goal, and the choices that a file has, which were measured by another process, and measures others if that
 * was asked for. */
static status model_begin_tuning(model *m, const om_contents *om, const model_options *o) {
  uint64_t asked = 0;
  m->goal = o->goal ? o->goal : om->goal;
  if (!m->goal && variable_read(VARIABLE_OPTIMIZE, &asked)) m->goal = (program_goal)(asked + 1);
  asked = 0;
  if (om->tuned_machine && !strcmp(om->tuned_machine, tune_machine())) {
    char *text = strdup(om->tuned);
    if (!text) return model_no_memory();
    (void)tune_read_text(&m->tuned, text);
    free(text);
  }
  m->tuned.measures = o->tunes || (variable_read(VARIABLE_TUNE, &asked) && asked);
  if (m->tuned.measures) tune_file_read(&m->tuned);
  return ST_OK;
}

static status model_open(model *m, const void *bytes, size_t n, const char *folder, const model_options *o) {
  om_contents om = {0};
  const model_memory *given = o->memory;
  TRY(model_weights_open(&m->weights, bytes, n, o->mapping_taken));
  const void *file = m->weights.file;
  TRY(view_given(given, m));
  TRY(om_is(file, n) ? om_read(file, n, &om) : ST_OK);
  char *beside = NULL;
  if (om.weights_outside && folder && asprintf(&beside, "%s/" WEIGHT_FOLDER, folder) < 0) beside = NULL;
  const onnx_data data = {.folder = o->weight_folder     ? o->weight_folder
                                    : om.weights_outside ? beside
                                                         : folder,
                          .given = o->weight_files,
                          .n_given = o->n_weight_files};
  const status st = om.onnx ? onnx_read(om.onnx, om.onnx_bytes, &data, &m->onnx) : onnx_read(file, n, &data, &m->onnx);
  free(beside);
  if (st == ST_OK) {
    m->weights.model = m->onnx;
    if (m->weights.mapped) m->onnx->file = (onnx_mapping){.memory = m->weights.file, .bytes = m->weights.file_bytes};
    onnx_forget_all(m->onnx); /* reading touches pages near each tensor */
    m->passes_off |= om.passes_off;
    m->half = om.half;
    if (om.kept_whole) m->kept_whole = region_text(&m->onnx->memory, om.kept_whole, strlen(om.kept_whole));
    status described = model_begin_tuning(m, &om, o);
    if (described == ST_OK) described = describe_model(m, &om);
    om_free(&om);
    TRY(described);
    return prepare_static(m);
  }
  om_free(&om);
  return st;
}

status model_load(const void *bytes, size_t n, const char *folder, const model_options *options, int device, void *site,
                  model **out) {
  static const model_options none;
  model *m = calloc(1, sizeof *m);
  if (!m) return model_no_memory();
  atomic_init(&m->refs, 1);
  mutex_init(&m->lock, LOCK_MODEL);
  m->device = m->weights.device = device;
  m->site = m->weights.site = site;
  if (!options) options = &none;
  m->passes_off = options->passes_off;
  const status st = model_open(m, bytes, n, folder, options);
  if (st != ST_OK) {
    model_unref(m);
    return st;
  }
  if (model_is_complete(m)) model_weights_drop_file(&m->weights);
  *out = m;
  return ST_OK;
}

void model_hold(model *m) { atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed); }

void model_unref(model *m) {
  if (atomic_fetch_sub(&m->refs, 1) != 1) return;
  for (int i = 0; i < m->n_versions; ++i) version_unref(m->versions[i], m->site);
  model_weights_free(&m->weights);
  model_block_unref(m->arena, m->site);
  model_block_unref(m->pictures, m->site);
  if (m->onnx) onnx_free(m->onnx);
  tuning_free(&m->tuned);
  mutex_destroy(&m->lock);
  free(m);
}

const model_port *model_inputs(const model *m, int *n) {
  *n = m->n_inputs + (m->gears.kind != GEARS_NONE);
  for (int k = 0; k < m->n_aipp; ++k) *n += m->aipp[k].dynamic;
  return m->inputs;
}

const aipp_config *model_aipp(const model *m, int *n) { return *n = m->n_aipp, m->aipp; }

int model_aipp_parameters(const model *m, const aipp_config *c) {
  int at = m->n_inputs + (m->gears.kind != GEARS_NONE);
  for (const aipp_config *before = m->aipp; before < c; ++before) at += before->dynamic;
  return at;
}

static const aipp_config *aipp_of(const model *m, int input) {
  for (int k = 0; k < m->n_aipp; ++k)
    if (m->aipp[k].input == input) return &m->aipp[k];
  return NULL;
}
const model_port *model_outputs(const model *m, int *n) { return *n = m->n_outputs, m->outputs; }
model_size model_sizes(const model *m) { return m->sizes; }

pass_report model_passes(model *m) {
  mutex_lock(&m->lock);
  const pass_report report = m->passes;
  mutex_unlock(&m->lock);
  return report;
}

pass_set model_passes_off(const model *m) { return m->passes_off; }
half_use model_half(const model *m) { return m->half; }
program_goal model_goal(const model *m) { return m->goal; }
tuning *model_tuning(model *m) { return &m->tuned; }
int model_device(const model *m) { return m->device; }
const program *model_program(const model *m) { return m->n_versions ? m->versions[m->n_versions - 1]->program : NULL; }
int model_exported_nodes(const model *m) { return m->onnx->graph->n_nodes; }

status model_convert(const model *m, onnx_shape *shapes, ir_graph **out) {
  const status st = model_graph(m, shapes, out);
  if (st != ONNX_WANTS_CONTENTS) return st;
  int i = 0;
  while (i < m->n_inputs - 1 && !shapes[i].wanted) ++i;
  return fail(ST_INVALID_PARAM, "the shapes of values depend on what input %s contains", shapes[i].name);
}

const model_gears *model_gears_of(const model *m) { return &m->gears; }
int model_gear_input(const model *m) { return m->n_inputs; }

void model_gear_shapes(const model *m, int gear, onnx_shape *inputs) {
  memcpy(inputs, m->fixed, (size_t)m->n_inputs * sizeof *inputs);
  if (m->gears.kind) gears_apply(&m->gears, gear, inputs, m->n_inputs);
}

void model_choose_gear(model *m, int gear) { atomic_store(&m->gear, gear); }

status model_current_output(model *m, int i, model_port *out) {
  *out = m->outputs[i];
  if (!m->gears.kind) return ST_OK;
  onnx_shape *shapes = calloc((size_t)m->n_inputs + 1, sizeof *shapes);
  version *v;
  if (!shapes) return model_no_memory();
  model_gear_shapes(m, atomic_load(&m->gear), shapes);
  mutex_lock(&m->lock);
  const status st = version_for(m, shapes, &v);
  if (st == ST_OK) port_set_shape(out, &program_graph(v->program)->outputs[i]->tensor);
  mutex_unlock(&m->lock);
  free(shapes);
  return st == ONNX_WANTS_CONTENTS ? fail(ST_INVALID_PARAM, "the shapes depend on what an input contains") : st;
}

/* ---- executions -------------------------------------------------------------------------------------------------- */

/* A queued execution, with references to what it needs. */
struct model_run {
  model *m;
  version *v;
  model_block *arena; /* NULL: memory of the caller's */
  void **inputs, **outputs;
  aipp_source pictures[AIPP_MOST];
  void *views[];
};

static void run_free(struct model_run *r) {
  version_unref(r->v, r->m->site);
  model_block_unref(r->arena, r->m->site);
  model_unref(r->m);
  free(r);
}

static status prepare_all_pictures(const struct model_run *r) {
  const ir_graph *g = program_graph(r->v->program);
  for (int k = 0; k < r->m->n_aipp; ++k) {
    const aipp_config *c = &r->m->aipp[k];
    const tensor *t = &g->inputs[c->input]->tensor;
    TRY(aipp_run(c, &r->pictures[k], t->dims, r->inputs[c->input]));
  }
  return ST_OK;
}

/* Executions share the arena. One that comes while another runs looks again at once; streams that execute one model at
 * the same time are rare. */
static status run_model(task *t, stream *s) {
  struct model_run *r = t->model;
  (void)s;
  if (atomic_exchange_explicit(&r->m->running, true, memory_order_acquire)) {
    sched_yield();
    return TASK_GOES_ON;
  }
  const program_memory memory = {
      .arena = r->arena ? r->arena->view : r->m->given_arena.view, .inputs = r->inputs, .outputs = r->outputs};
  status st = prepare_all_pictures(r);
  if (st == ST_OK) st = program_run(r->v->program, &memory);
  atomic_store_explicit(&r->m->running, false, memory_order_release);
  run_free(r);
  return st;
}

static void drop_model(task *t, stream *s) {
  (void)s;
  run_free(t->model);
}

static uint64_t output_bytes(const tensor *t) { return (uint64_t)t->n * dtype_bytes(t->dtype); }

static void model_uses(const task *t, task_use *tell, void *argument) {
  const struct model_run *r = t->model;
  const ir_graph *g = program_graph(r->v->program);
  for (int i = 0; i < g->n_inputs; ++i)
    if (!aipp_of(r->m, i))
      tell(argument, &(task_range){.view = r->inputs[i],
                                   .bytes = output_bytes(&g->inputs[i]->tensor),
                                   .access = VMM_READ,
                                   .name = r->m->inputs[i].name});
  for (int i = 0; i < g->n_outputs; ++i)
    tell(argument, &(task_range){.view = r->outputs[i],
                                 .bytes = output_bytes(&g->outputs[i]->tensor),
                                 .access = VMM_WRITE,
                                 .name = r->m->outputs[i].name});
}

static const task_kind model_kind = {
    .name = "model", .tells = TASK_TELLS_WORK, .run = run_model, .drop = drop_model, .uses = model_uses};

static status buffer_view(const model_buffer *b, uint64_t bytes, unsigned access, status code, const char *kind, int i,
                          const char *name, void **view) {
  char what[64];
  snprintf(what, sizeof what, "%s %d", kind, i);
  if (b->bytes < bytes)
    return fail(code, "%s %d (%s) has a buffer of %ju bytes, expected %ju", kind, i, name, (uintmax_t)b->bytes,
                (uintmax_t)bytes);
  if (!bytes) return *view = NULL, ST_OK;
  if (memory_view(b->address, bytes, access, what, view) == ST_OK) return ST_OK;
  return fail(code, "%s", strdupa(fail_take()));
}

/* Copies the contents of wanted inputs, after the stream's tasks so far. The copies are the caller's to free. */
static status read_wanted(const model *m, stream *s, const model_buffer *inputs, onnx_shape *shapes) {
  TRY(stream_synchronize(s, 0));
  for (int i = 0; i < m->n_inputs; ++i) {
    uint64_t bytes = dtype_bytes(m->inputs[i].dtype);
    void *view, *copy;
    if (!shapes[i].wanted || shapes[i].contents) continue;
    if (aipp_of(m, i))
      return fail(ST_GRAPH_ENGINE, "shapes depend on what input %s contains, which has AIPP", m->inputs[i].name);
    for (int d = 0; d < shapes[i].n_dims; ++d) bytes *= (uint64_t)shapes[i].dims[d];
    TRY(buffer_view(&inputs[i], bytes, VMM_READ, ST_MODEL_INPUT, "input", i, m->inputs[i].name, &view));
    if (!(copy = malloc(bytes + 1))) return model_no_memory();
    if (bytes) memcpy(copy, view, bytes);
    shapes[i].contents = copy;
  }
  return ST_OK;
}

/* The dims of the inputs: those of a gear, what the buffers say, or the model. */
static status input_shapes(const model *m, const model_buffer *inputs, int gear, onnx_shape *shapes) {
  model_gear_shapes(m, gear < 0 && m->gears.kind ? gears_largest(&m->gears) : gear, shapes);
  for (int i = 0; i < m->n_inputs && !m->gears.kind; ++i) {
    const model_port *p = &m->inputs[i];
    onnx_shape *to = &shapes[i];
    if (aipp_of(m, i) || p->blocked) continue; /* its shape is the model's */
    if (inputs[i].rank >= 0) {
      to->n_dims = inputs[i].rank;
      memcpy(to->dims, inputs[i].dims, sizeof to->dims);
    }
    bool fits = to->n_dims == p->rank;
    for (int d = 0; fits && d < p->rank; ++d) fits = to->dims[d] >= 0 && (p->dims[d] < 0 || p->dims[d] == to->dims[d]);
    for (int d = 0; fits && d < p->rank; ++d)
      if (to->dims[d] < p->least[d] || (p->most[d] > 0 && to->dims[d] > p->most[d]))
        return fail(ST_MODEL_SHAPE,
                    "dimension %d of input %d (%s) is %jd, expected %jd to %jd as the model was made for", d, i,
                    p->name, (intmax_t)to->dims[d], (intmax_t)p->least[d], (intmax_t)p->most[d]);
    if (!fits)
      return fail(ST_MODEL_SHAPE, "input %d (%s) has shape %s, expected one that fits %s", i, p->name,
                  DIMS_TEXT(to->dims, to->n_dims), SHAPE_OF(p));
  }
  return ST_OK;
}

/* The caller's memory as the arena of one execution. */
static status own_arena(const model_memory *work, uint64_t needed, model_block **arena) {
  const uint64_t bytes = asked_bytes(needed);
  void *view;
  if (work->work_bytes < bytes)
    return fail(ST_MODEL_PARAM, "the work memory has %ju bytes, expected %ju or more", (uintmax_t)work->work_bytes,
                (uintmax_t)bytes);
  TRY(memory_view(work->work, bytes, VMM_READ | VMM_WRITE, "the work memory", &view));
  model_block *b = calloc(1, sizeof *b);
  if (!b) return model_no_memory();
  atomic_init(&b->refs, 1);
  b->view = view;
  b->bytes = bytes;
  *arena = b;
  return ST_OK;
}

/* Finds or makes the program, with a reference, and the arena of this execution. */
static status choose_version(model *m, stream *s, const model_buffer *inputs, onnx_shape *shapes, version **v,
                             model_block **arena) {
  bool any = false;
  mutex_lock(&m->lock);
  for (int i = 0; i < m->n_inputs; ++i) any |= shapes[i].wanted = m->wanted[i];
  mutex_unlock(&m->lock);
  for (int turn = 0;; ++turn) {
    if (any) TRY(read_wanted(m, s, inputs, shapes));
    mutex_lock(&m->lock);
    const status st = version_for(m, shapes, v);
    if (st == ST_OK) {
      atomic_fetch_add_explicit(&(*v)->refs, 1, memory_order_relaxed);
      *arena = m->given_arena.bytes ? NULL : m->arena;
      if (*arena) atomic_fetch_add_explicit(&(*arena)->refs, 1, memory_order_relaxed);
    }
    for (int i = 0; i < m->n_inputs; ++i) m->wanted[i] |= shapes[i].wanted;
    mutex_unlock(&m->lock);
    if (st != ONNX_WANTS_CONTENTS) return st;
    if (turn == m->n_inputs) return fail(ST_GRAPH_ENGINE, "the shapes of values cannot be found");
    any = true;
  }
}

static status allocate_output(const model *m, model_buffer *b, uint64_t bytes, void *site) {
  TRY(memory_alloc(m->device, &alloc_rules[RULE_MALLOC], POLICY_HUGE_FIRST, bytes ? bytes : 1, site, &b->address));
  b->bytes = bytes ? bytes : 1;
  return ST_OK;
}

/* Finds the pictures and parameters of inputs with AIPP, whose prepared pictures are in the model's memory. */
static status find_pictures(struct model_run *r, const model_buffer *inputs) {
  const ir_graph *g = program_graph(r->v->program);
  uint64_t at = 0;
  for (int k = 0; k < r->m->n_aipp; ++k) {
    const aipp_config *c = &r->m->aipp[k];
    const tensor *t = &g->inputs[c->input]->tensor;
    const model_buffer *b = &inputs[c->input];
    aipp_source *s = &r->pictures[k];
    void *view;
    const uint64_t bytes =
        c->dynamic ? b->bytes
                   : (uint64_t)t->dims[0] * aipp_picture_bytes(&c->common, c->common.width, c->common.height);
    TRY(buffer_view(b, bytes, VMM_READ, ST_MODEL_INPUT, "input", c->input, r->m->inputs[c->input].name, &view));
    s->source = view;
    s->source_bytes = bytes;
    r->inputs[c->input] = r->m->pictures->view + at;
    at += model_aligned(output_bytes(t));
    if (!c->dynamic) continue;
    const int added = model_aipp_parameters(r->m, c);
    const uint64_t least = aipp_bytes(1);
    s->parameter_bytes = inputs[added].bytes > least ? inputs[added].bytes : least;
    TRY(buffer_view(&inputs[added], s->parameter_bytes, VMM_READ, ST_MODEL_INPUT, "input", added, MODEL_AIPP_INPUT,
                    &view));
    s->parameters = view;
  }
  return ST_OK;
}

static status find_views(struct model_run *r, const model_buffer *inputs, model_buffer *outputs, bool awaited,
                         void *site) {
  const ir_graph *g = program_graph(r->v->program);
  for (int i = 0; i < g->n_inputs; ++i)
    if (!aipp_of(r->m, i))
      TRY(buffer_view(&inputs[i], output_bytes(&g->inputs[i]->tensor), VMM_READ, ST_MODEL_INPUT, "input", i,
                      r->m->inputs[i].name, &r->inputs[i]));
  TRY(find_pictures(r, inputs));
  for (int i = 0; i < g->n_outputs; ++i) {
    const tensor *t = &g->outputs[i]->tensor;
    model_buffer *b = &outputs[i];
    if (awaited && !b->address && !b->bytes) TRY(allocate_output(r->m, b, output_bytes(t), site));
    TRY(buffer_view(b, output_bytes(t), VMM_WRITE, ST_MODEL_OUTPUT, "output", i, r->m->outputs[i].name,
                    &r->outputs[i]));
    b->rank = t->rank;
    memcpy(b->dims, t->dims, sizeof b->dims);
  }
  return ST_OK;
}

static status submit_run(struct model_run *r, stream *s, const model_buffer *inputs, onnx_shape *shapes,
                         model_buffer *outputs, int gear, bool awaited, const model_memory *work, void *site) {
  task *t;
  TRY(input_shapes(r->m, inputs, gear, shapes));
  TRY(choose_version(r->m, s, inputs, shapes, &r->v, &r->arena));
  if (work && work->work) {
    model_block_unref(r->arena, r->m->site);
    r->arena = NULL;
    TRY(own_arena(work, program_sizes(r->v->program).arena, &r->arena));
  }
  TRY(find_views(r, inputs, outputs, awaited, site));
  TRY(stream_new_task(s, &model_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->model = r;
  if (awaited)
    stream_submit_awaited(s, t);
  else
    stream_submit(s, t);
  return ST_OK;
}

status model_submit(model *m, stream *s, model_buffer *inputs, int n_inputs, model_buffer *outputs, int n_outputs,
                    int gear, bool awaited, const model_memory *work, void *site) {
  int expected;
  (void)model_inputs(m, &expected);
  if (n_inputs != expected || n_outputs != m->n_outputs)
    return fail(ST_INVALID_PARAM, "the datasets have %d inputs and %d outputs, expected %d and %d", n_inputs, n_outputs,
                expected, m->n_outputs);
  if (s->device != m->device)
    return fail(ST_INVALID_PARAM, "stream %u belongs to device %d, expected device %d, that of the model", s->id,
                s->device, m->device);
  const size_t n = (size_t)n_inputs + (size_t)n_outputs;
  struct model_run *r = calloc(1, sizeof *r + n * sizeof *r->views);
  onnx_shape *shapes = calloc((size_t)n_inputs + 1, sizeof *shapes);
  if (!r || !shapes) {
    free(r);
    free(shapes);
    return model_no_memory();
  }
  model_hold(m);
  r->m = m;
  r->inputs = r->views;
  r->outputs = r->views + n_inputs;
  const status st = submit_run(r, s, inputs, shapes, outputs, gear, awaited, work, site);
  for (int i = 0; i < n_inputs; ++i) free((void *)(uintptr_t)shapes[i].contents);
  free(shapes);
  if (st != ST_OK) run_free(r);
  return st;
}
