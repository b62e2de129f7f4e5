/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/model.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/invariant.h"
#include "base/lock.h"
#include "graph/om.h"
#include "graph/outputs.h"
#include "graph/program.h"
#include "memory/memory.h"

enum { MOST_PROGRAMS = 16, ALIGNMENT = 64 };

/* A piece of device memory that a model has. */
typedef struct block {
  _Atomic uint32_t refs;
  void *device; /* NULL: memory of the caller's */
  char *view;   /* as kernels see it */
  uint64_t bytes, used;
  struct block *next; /* of the weights' blocks */
} block;

/* Where a constant of the model's file is. layout: of a packed one (program.h); 0: as it is. */
typedef struct {
  const void *contents;
  uint64_t layout;
  void *address;
} placed;

/* A program and what it needs. Its model and each queued execution have a reference. */
typedef struct {
  _Atomic uint32_t refs;
  uint64_t key; /* a hash of the dims of all inputs, and of contents that decide shapes */
  uint64_t last_use;
  program *program;
  /* Constants that were computed for it, and their packed forms; NULL: there are none, or they are in memory of the
   * caller's. */
  block *own, *own_packed;
} version;

struct model {
  _Atomic uint32_t refs;
  int device;
  void *site;
  void *file; /* the bytes of the model, for as long as constants lie in them */
  onnx_model *onnx;
  model_port *inputs, *outputs;
  int n_inputs, n_outputs;
  int *output_dtypes; /* that were chosen; -1: as the graph has them */
  onnx_shape *fixed;  /* an entry for each input: its shape, as the model or the file has it */
  model_gears gears;
  _Atomic int gear;     /* that was chosen last */
  _Atomic bool running; /* an execution uses the arena */
  pass_set passes_off;
  mutex lock;         /* guards all below, and is held while a program is made */
  bool *wanted;       /* inputs whose contents decide shapes */
  model_size sizes;   /* does not change after loading if no shape is open */
  pass_report passes; /* of the program that was made last */
  uint64_t uses;
  int n_versions;
  version *versions[MOST_PROGRAMS];
  block *weights, *arena;
  block given_weights, given_arena; /* memory of the caller's; bytes 0: there is none */
  placed *placed;                   /* in the region of `onnx` */
  int n_placed;
};

static status model_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory for a model"); }

static uint64_t model_aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) & -(uint64_t)ALIGNMENT; }

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static status model_block_new(const model *m, uint64_t bytes, block **out) {
  block *b = calloc(1, sizeof *b);
  if (!b) return model_no_memory();
  atomic_init(&b->refs, 1);
  b->bytes = bytes ? bytes : 1;
  status st = memory_alloc(m->device, &alloc_rules[RULE_MODEL], POLICY_HUGE_FIRST, b->bytes, m->site, &b->device);
  void *view = NULL;
  if (st == ST_OK) st = memory_view(b->device, b->bytes, VMM_READ | VMM_WRITE, "a model's memory", &view);
  b->view = view;
  if (st != ST_OK)
    free(b);
  else
    *out = b;
  return st;
}

static void model_block_unref(block *b, void *site) {
  if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
  if (b->device) (void)memory_free(b->device, FREE_DEVICE, site);
  free(b);
}

/* Takes room from a block, which has it. */
static void *model_block_take(block *b, uint64_t bytes) {
  INVARIANT(b->used + model_aligned(bytes) <= model_aligned(b->bytes));
  void *at = b->view + b->used;
  b->used += model_aligned(bytes);
  return at;
}

static placed *find_placed(const model *m, const void *contents, uint64_t layout) {
  for (int i = 0; i < m->n_placed; ++i)
    if (m->placed[i].contents == contents && m->placed[i].layout == layout) return &m->placed[i];
  return NULL;
}

static status remember(model *m, const void *contents, uint64_t layout, void *address) {
  region *memory = &m->onnx->memory;
  m->placed = region_grow(memory, m->placed, (size_t)m->n_placed, sizeof *m->placed);
  if (!m->placed) return model_no_memory();
  m->placed[m->n_placed++] = (placed){contents, layout, address};
  return ST_OK;
}

/* A program's constants: those of the file lie in the model's weights, where other programs find them again; computed
 * ones in a block of the program's own. */
typedef struct {
  model *m;
  block *own, *own_packed;
} placing;

static status weights_block(model *m, uint64_t bytes, block **out) {
  block *given = &m->given_weights;
  if (given->bytes) {
    if (given->used + bytes > given->bytes)
      return fail(ST_MODEL_PARAM, "weightSize is %ju, expected %ju or more", (uintmax_t)given->bytes,
                  (uintmax_t)(given->used + bytes));
    *out = given;
    return ST_OK;
  }
  TRY(model_block_new(m, bytes, out));
  (*out)->next = m->weights;
  m->weights = *out;
  return ST_OK;
}

/* Makes room for constants: of the file, and of the program's own. */
static status weights_blocks(model *m, uint64_t lent, uint64_t own, block **weights, block **own_weights) {
  if (lent) TRY(weights_block(m, lent, weights));
  if (own && m->given_weights.bytes)
    TRY(weights_block(m, own, own_weights));
  else if (own)
    TRY(model_block_new(m, own, own_weights));
  return ST_OK;
}

static status place_constants(void *argument, ir_storage **constants, int n) {
  placing *p = argument;
  uint64_t lent = 0, own = 0;
  block *weights = NULL;
  if (p->m->device == MODEL_ON_HOST) {
    for (int i = 0; i < n; ++i) constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
    return ST_OK;
  }
  for (int i = 0; i < n; ++i) {
    ir_storage *s = constants[i];
    const placed *known = s->lent ? find_placed(p->m, s->contents, 0) : NULL;
    s->address = known ? known->address : NULL;
    if (!known) *(s->lent ? &lent : &own) += model_aligned(s->bytes);
  }
  TRY(weights_blocks(p->m, lent, own, &weights, &p->own));
  for (int i = 0; i < n; ++i) {
    ir_storage *s = constants[i];
    if (s->address) continue;
    s->address = model_block_take(s->lent ? weights : p->own, s->bytes);
    memcpy(s->address, s->contents, s->bytes);
    if (s->lent) TRY(remember(p->m, s->contents, 0, s->address));
  }
  return ST_OK;
}

static status place_packed(void *argument, program_packed *packed, int n) {
  placing *p = argument;
  uint64_t lent = 0, own = 0;
  block *weights = NULL;
  if (p->m->device == MODEL_ON_HOST) return ST_OK;
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    const placed *known = k->lent ? find_placed(p->m, k->from, k->layout) : NULL;
    k->address = known ? known->address : NULL;
    if (!known) *(k->lent ? &lent : &own) += model_aligned(k->bytes);
  }
  TRY(weights_blocks(p->m, lent, own, &weights, &p->own_packed));
  for (int i = 0; i < n; ++i) {
    program_packed *k = &packed[i];
    if (k->address) continue;
    k->address = model_block_take(k->lent ? weights : p->own_packed, k->bytes);
    k->fresh = true;
    if (k->lent) TRY(remember(p->m, k->from, k->layout, k->address));
  }
  return ST_OK;
}

/* What a caller is told to bring. Never 0, because aclrtMalloc refuses that. */
static uint64_t asked_bytes(uint64_t bytes) { return bytes ? bytes : ALIGNMENT; }

/* Makes the arena large enough. An execution that is queued keeps the one it was queued with. */
static status need_arena(model *m, uint64_t bytes) {
  if (m->device == MODEL_ON_HOST) return ST_OK;
  if (m->given_arena.bytes) {
    if (bytes <= m->given_arena.bytes) return ST_OK;
    return fail(ST_MODEL_PARAM, "workSize is %ju, expected %ju or more", (uintmax_t)m->given_arena.bytes,
                (uintmax_t)bytes);
  }
  if (m->arena && m->arena->bytes >= bytes) return ST_OK;
  block *b;
  TRY(model_block_new(m, bytes, &b));
  model_block_unref(m->arena, m->site);
  m->arena = b;
  return ST_OK;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* Makes the graph of the model, whose outputs have the types that were chosen. */
static status model_graph(const model *m, onnx_shape *shapes, ir_graph **out) {
  ir_graph *g;
  TRY(onnx_convert(m->onnx, shapes, m->n_inputs, &g));
  for (int i = 0; i < g->n_outputs; ++i) {
    ir_value *v = g->outputs[i];
    if (m->output_dtypes[i] < 0 || m->output_dtypes[i] == v->tensor.dtype) continue;
    const status st = ir_cast(g, v, m->output_dtypes[i], &g->outputs[i]);
    if (st != ST_OK) {
      ir_free(g);
      return fail(ST_INVALID_PARAM, "output %s cannot be converted: %s", m->outputs[i].name, strdupa(fail_take()));
    }
    if (!g->outputs[i]->name) g->outputs[i]->name = v->name;
  }
  *out = g;
  return ST_OK;
}

static status make_program(model *m, onnx_shape *shapes, placing *where, program **out) {
  ir_graph *g;
  TRY(model_graph(m, shapes, &g));
  const status st = pass_all(g, m->passes_off, &m->passes);
  if (st != ST_OK) {
    ir_free(g);
    return st;
  }
  const program_owner owner = {.place = place_constants, .place_packed = place_packed, .owner = where, .share = true};
  return program_make(g, &owner, out);
}

static void version_unref(version *v, void *site) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  program_free(v->program);
  model_block_unref(v->own, site);
  model_block_unref(v->own_packed, site);
  free(v);
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
  placing where = {.m = m};
  status st = make_program(m, shapes, &where, &v->program);
  if (where.own != &m->given_weights) v->own = where.own;
  if (where.own_packed != &m->given_weights) v->own_packed = where.own_packed;
  if (st == ST_OK) st = need_arena(m, program_sizes(v->program).arena);
  if (st == ST_OK)
    *out = v;
  else
    version_unref(v, m->site);
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
    version_unref(m->versions[slot], m->site);
  m->versions[slot] = *out;
  const program_size sizes = program_sizes((*out)->program);
  m->sizes = (model_size){asked_bytes(sizes.arena), asked_bytes(sizes.constants), sizes.unshared, sizes.n_steps};
  return ST_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bool port_is_open(const model_port *p) {
  for (int d = 0; d < p->rank; ++d)
    if (p->dims[d] < 0) return true;
  return false;
}

static void count_bytes(model_port *p) {
  p->bytes = port_is_open(p) ? 0 : dtype_bytes(p->dtype);
  for (int d = 0; d < p->rank; ++d) p->bytes *= (uint64_t)p->dims[d];
}

static void set_port_shape(model_port *p, const tensor *t) {
  p->rank = t->rank;
  p->dtype = t->dtype;
  memcpy(p->dims, t->dims, sizeof p->dims);
  count_bytes(p);
}

/* The model's declaration of an input or output, with a shape that was given for it. */
static status describe_port(const onnx_value_info *v, const onnx_shape *given, model_port *p) {
  *p = (model_port){.name = v->name, .rank = given ? given->n_dims : v->n_dims};
  if (!v->is_tensor)
    return fail(ST_GRAPH_ENGINE, "%s is no tensor; sequences, maps and optionals are not supported", v->name);
  if (converter_dtype(v->dtype, &p->dtype) != ST_OK)
    return fail(ST_GRAPH_ENGINE, "%s: %s", v->name, strdupa(fail_take()));
  if (p->rank > MAX_RANK)
    return fail(ST_GRAPH_ENGINE, "%s has %d dimensions, at most %d are supported", v->name, p->rank, MAX_RANK);
  if (given && v->has_shape && given->n_dims != v->n_dims)
    return fail(ST_INVALID_PARAM, "input %s has %d dimensions, expected %d", v->name, given->n_dims, v->n_dims);
  for (int d = 0; d < p->rank; ++d) {
    p->dims[d] = given ? given->dims[d] : v->dims[d].size;
    const int64_t declared = v->has_shape ? v->dims[d].size : -1;
    if (declared >= 0 && p->dims[d] != declared)
      return fail(ST_INVALID_PARAM, "dimension %d of input %s is %jd, expected the %jd that the model declares", d,
                  v->name, (intmax_t)p->dims[d], (intmax_t)declared);
  }
  count_bytes(p);
  return ST_OK;
}

static bool is_initialiser(const onnx_graph *g, const char *name) {
  for (int i = 0; i < g->n_initialisers; ++i)
    if (!strcmp(g->initialisers[i].name, name)) return true;
  return false;
}

/* CANN's name of an output: the node that computes it, which of the node's outputs it is, and its own name. */
static status name_output(onnx_model *o, model_port *p) {
  const onnx_graph *g = o->graph;
  const char *node = "";
  int at = 0;
  for (int i = 0; i < g->n_nodes; ++i)
    for (int k = 0; k < g->nodes[i].n_outputs; ++k)
      if (!strcmp(g->nodes[i].outputs[k], p->name)) node = g->nodes[i].name, at = k;
  char *text;
  if (asprintf(&text, "%s:%d:%s", node, at, p->name) < 0) return model_no_memory();
  p->full_name = region_text(&o->memory, text, strlen(text));
  free(text);
  return p->full_name ? ST_OK : model_no_memory();
}

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

static status describe_model(model *m, const om_contents *om) {
  TRY(outputs_choose(m->onnx, om->outputs, om->n_outputs));
  const onnx_graph *g = m->onnx->graph;
  region *memory = &m->onnx->memory;
  m->inputs = REGION_NEW(memory, model_port, g->n_inputs + 1);
  m->outputs = REGION_NEW(memory, model_port, g->n_outputs);
  m->fixed = REGION_NEW(memory, onnx_shape, g->n_inputs);
  m->wanted = REGION_NEW(memory, bool, g->n_inputs);
  if (!m->inputs || !m->outputs || !m->fixed || !m->wanted) return model_no_memory();
  for (int i = 0; i < g->n_inputs; ++i) {
    if (is_initialiser(g, g->inputs[i].name)) continue;
    const onnx_shape *given = om_shape(om, g->inputs[i].name);
    model_port *p = &m->inputs[m->n_inputs];
    TRY(describe_port(&g->inputs[i], given, p));
    onnx_shape *f = &m->fixed[m->n_inputs++];
    *f = (onnx_shape){.name = p->name, .n_dims = p->rank};
    memcpy(f->dims, p->dims, sizeof f->dims);
  }
  for (int i = 0; i < g->n_outputs; ++i) {
    model_port *p = &m->outputs[m->n_outputs++];
    TRY(describe_port(&g->outputs[i], NULL, p));
    TRY(name_output(m->onnx, p));
  }
  m->output_dtypes = REGION_NEW(memory, int, m->n_outputs);
  if (!m->output_dtypes) return model_no_memory();
  TRY(outputs_type(m->onnx, m->outputs, m->n_outputs, om->outputs, om->n_outputs, m->output_dtypes));
  for (int i = 0; i < m->n_outputs; ++i) count_bytes(&m->outputs[i]);
  return om->gears.kind ? describe_gears(m, &om->gears) : ST_OK;
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
    set_port_shape(&m->outputs[i], &program_graph(v->program)->outputs[i]->tensor);
  }
  return ST_OK;
}

static status view_given(const model_memory *given, model *m) {
  void *view = NULL;
  if (given && given->work) {
    TRY(memory_view(given->work, given->work_bytes, VMM_READ | VMM_WRITE, "workPtr", &view));
    m->given_arena = (block){.view = view, .bytes = given->work_bytes};
  }
  if (given && given->weight) {
    TRY(memory_view(given->weight, given->weight_bytes, VMM_READ | VMM_WRITE, "weightPtr", &view));
    m->given_weights = (block){.view = view, .bytes = given->weight_bytes};
  }
  return ST_OK;
}

static status model_open(model *m, const void *bytes, size_t n, const char *folder, const model_memory *given) {
  om_contents om = {0};
  m->file = aligned_alloc(ALIGNMENT, model_aligned(n));
  if (!m->file) return model_no_memory();
  memcpy(m->file, bytes, n);
  TRY(view_given(given, m));
  TRY(om_is(m->file, n) ? om_read(m->file, n, &om) : ST_OK);
  const status st =
      om.onnx ? onnx_read(om.onnx, om.onnx_bytes, folder, &m->onnx) : onnx_read(m->file, n, folder, &m->onnx);
  if (st == ST_OK) {
    m->passes_off |= om.passes_off;
    const status described = describe_model(m, &om);
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
  m->device = device;
  m->site = site;
  if (!options) options = &none;
  m->passes_off = options->passes_off;
  const status st = model_open(m, bytes, n, folder, options->memory);
  if (st == ST_OK)
    *out = m;
  else
    model_unref(m);
  return st;
}

void model_hold(model *m) { atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed); }

void model_unref(model *m) {
  if (atomic_fetch_sub(&m->refs, 1) != 1) return;
  for (int i = 0; i < m->n_versions; ++i) version_unref(m->versions[i], m->site);
  for (block *b = m->weights, *next; b; b = next) {
    next = b->next;
    model_block_unref(b, m->site);
  }
  model_block_unref(m->arena, m->site);
  if (m->onnx) onnx_free(m->onnx);
  free(m->file);
  mutex_destroy(&m->lock);
  free(m);
}

const model_port *model_inputs(const model *m, int *n) {
  *n = m->n_inputs + (m->gears.kind != GEARS_NONE);
  return m->inputs;
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
  if (st == ST_OK) set_port_shape(out, &program_graph(v->program)->outputs[i]->tensor);
  mutex_unlock(&m->lock);
  free(shapes);
  return st == ONNX_WANTS_CONTENTS ? fail(ST_INVALID_PARAM, "the shapes depend on what an input contains") : st;
}

/* ---- executions -------------------------------------------------------------------------------------------------- */

/* A queued execution, with references to what it needs. */
struct model_run {
  model *m;
  version *v;
  block *arena; /* NULL: memory of the caller's */
  void **inputs, **outputs;
  void *views[];
};

static void run_free(struct model_run *r) {
  version_unref(r->v, r->m->site);
  model_block_unref(r->arena, r->m->site);
  model_unref(r->m);
  free(r);
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
  const status st = program_run(r->v->program, &memory);
  atomic_store_explicit(&r->m->running, false, memory_order_release);
  run_free(r);
  return st;
}

static void drop_model(task *t, stream *s) {
  (void)s;
  run_free(t->model);
}

static const task_kind model_kind = {.name = "model", .tells = TASK_TELLS_WORK, .run = run_model, .drop = drop_model};

static uint64_t output_bytes(const tensor *t) { return (uint64_t)t->n * dtype_bytes(t->dtype); }

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
    if (inputs[i].rank >= 0) {
      to->n_dims = inputs[i].rank;
      memcpy(to->dims, inputs[i].dims, sizeof to->dims);
    }
    bool fits = to->n_dims == p->rank;
    for (int d = 0; fits && d < p->rank; ++d) fits = to->dims[d] >= 0 && (p->dims[d] < 0 || p->dims[d] == to->dims[d]);
    if (!fits)
      return fail(ST_MODEL_SHAPE, "input %d (%s) has shape %s, expected one that fits %s", i, p->name,
                  DIMS_TEXT(to->dims, to->n_dims), SHAPE_OF(p));
  }
  return ST_OK;
}

/* The caller's memory as the arena of one execution. */
static status own_arena(const model_memory *work, uint64_t needed, block **arena) {
  const uint64_t bytes = asked_bytes(needed);
  void *view;
  if (work->work_bytes < bytes)
    return fail(ST_MODEL_PARAM, "the work memory has %ju bytes, expected %ju or more", (uintmax_t)work->work_bytes,
                (uintmax_t)bytes);
  TRY(memory_view(work->work, bytes, VMM_READ | VMM_WRITE, "the work memory", &view));
  block *b = calloc(1, sizeof *b);
  if (!b) return model_no_memory();
  atomic_init(&b->refs, 1);
  b->view = view;
  b->bytes = bytes;
  *arena = b;
  return ST_OK;
}

/* Finds or makes the program, with a reference, and the arena of this execution. */
static status choose_version(model *m, stream *s, const model_buffer *inputs, onnx_shape *shapes, version **v,
                             block **arena) {
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

static status find_views(struct model_run *r, const model_buffer *inputs, model_buffer *outputs, bool allocate,
                         void *site) {
  const ir_graph *g = program_graph(r->v->program);
  for (int i = 0; i < g->n_inputs; ++i)
    TRY(buffer_view(&inputs[i], output_bytes(&g->inputs[i]->tensor), VMM_READ, ST_MODEL_INPUT, "input", i,
                    r->m->inputs[i].name, &r->inputs[i]));
  for (int i = 0; i < g->n_outputs; ++i) {
    const tensor *t = &g->outputs[i]->tensor;
    model_buffer *b = &outputs[i];
    if (allocate && !b->address && !b->bytes) TRY(allocate_output(r->m, b, output_bytes(t), site));
    TRY(buffer_view(b, output_bytes(t), VMM_WRITE, ST_MODEL_OUTPUT, "output", i, r->m->outputs[i].name,
                    &r->outputs[i]));
    b->rank = t->rank;
    memcpy(b->dims, t->dims, sizeof b->dims);
  }
  return ST_OK;
}

static status submit_run(struct model_run *r, stream *s, const model_buffer *inputs, onnx_shape *shapes,
                         model_buffer *outputs, int gear, bool allocate, const model_memory *work, void *site) {
  task *t;
  TRY(input_shapes(r->m, inputs, gear, shapes));
  TRY(choose_version(r->m, s, inputs, shapes, &r->v, &r->arena));
  if (work && work->work) {
    model_block_unref(r->arena, r->m->site);
    r->arena = NULL;
    TRY(own_arena(work, program_sizes(r->v->program).arena, &r->arena));
  }
  TRY(find_views(r, inputs, outputs, allocate, site));
  TRY(stream_new_task(s, &model_kind, &t));
  t->cost_ns = TASK_COST_UNKNOWN;
  t->model = r;
  stream_submit(s, t);
  return ST_OK;
}

status model_submit(model *m, stream *s, model_buffer *inputs, int n_inputs, model_buffer *outputs, int n_outputs,
                    int gear, bool allocate, const model_memory *work, void *site) {
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
  const status st = submit_run(r, s, inputs, shapes, outputs, gear, allocate, work, site);
  for (int i = 0; i < n_inputs; ++i) free((void *)(uintptr_t)shapes[i].contents);
  free(shapes);
  if (st != ST_OK) run_free(r);
  return st;
}
