/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points that make .om files and describe models (include/cannon/model.h). */
#include "cannon/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "api/model/mdl.h"
#include "graph/describe.h"
#include "graph/file/model_def.h"
#include "graph/file/om.h"
#include "graph/file/weight_files.h"
#include "graph/outputs.h"
#include "graph/tune_file.h"

static status check_lists(const cannon_model_options *o) {
  const struct {
    const char *name;
    const void *list;
    size_t n;
  } lists[] = {{"shapes", o->shapes, o->n_shapes},    {"outputs", o->outputs, o->n_outputs},
               {"types", o->types, o->n_types},       {"switches", o->switches, o->n_switches},
               {"blocked", o->blocked, o->n_blocked}, {"inputs", o->inputs, o->n_inputs},
               {"whole", o->whole, o->n_whole}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; ++i)
    if (lists[i].n && !lists[i].list)
      return fail(ST_INVALID_PARAM, "%s is NULL, expected %zu", lists[i].name, lists[i].n);
  return ST_OK;
}

static status own_shapes(const cannon_model_shape *from, size_t n, onnx_shape **out) {
  onnx_shape *to = calloc(n + 1, sizeof *to);
  if (!to) return fail(ST_NO_HOST_MEMORY, "no host memory for %zu shapes", n);
  for (size_t i = 0; i < n; ++i) {
    if (!from[i].name || from[i].n_dims > MAX_RANK) {
      free(to);
      return fail(ST_INVALID_PARAM, "shapes[%zu] has no name, or %zu dimensions, expected at most %d", i,
                  from[i].n_dims, MAX_RANK);
    }
    to[i].name = from[i].name;
    to[i].n_dims = (int)from[i].n_dims;
    memcpy(to[i].dims, from[i].dims, from[i].n_dims * sizeof *to[i].dims);
    memcpy(to[i].least, from[i].least, from[i].n_dims * sizeof *to[i].least);
    memcpy(to[i].most, from[i].most, from[i].n_dims * sizeof *to[i].most);
  }
  *out = to;
  return ST_OK;
}

static status check_input(const model *m, const char *name) {
  int n;
  const model_port *in = model_inputs(m, &n);
  for (int i = 0; i < n; ++i)
    if (!strcmp(in[i].name, name)) return ST_OK;
  return fail(ST_INVALID_PARAM, "%s is no input of the model", name);
}

static status check_blocked_output(const model *m, const char *name) {
  int n;
  const model_port *out = model_outputs(m, &n);
  for (int i = 0; i < n; ++i)
    if (out[i].blocked && output_is_meant(&out[i], name)) return ST_OK;
  return fail(ST_INVALID_PARAM, "%s is no output of the model", name);
}

/* Whether the options name inputs and outputs of the model. Whether they fit was seen when it was loaded. */
static status check_option_names(const model *m, const cannon_model_options *o) {
  for (size_t k = 0; k < o->n_shapes; ++k) TRY(check_input(m, o->shapes[k].name));
  for (size_t k = 0; k < o->n_inputs; ++k) TRY(check_input(m, o->inputs[k].name));
  for (size_t k = 0; k < o->n_blocked; ++k) TRY(check_blocked_output(m, o->blocked[k]));
  return ST_OK;
}

/* The nodes that stay float32, in one text. */
static status own_whole(const cannon_model_options *o, om_contents *c) {
  char *text = NULL;
  size_t n;
  if (!o->n_whole) return ST_OK;
  FILE *f = open_memstream(&text, &n);
  if (!f) return fail(ST_NO_HOST_MEMORY, "no host memory for the names of nodes");
  bool good = true;
  for (size_t i = 0; i < o->n_whole; ++i) {
    good &= o->whole[i] && *o->whole[i] && !strpbrk(o->whole[i], "\t\n");
    if (good) fprintf(f, "%s%s", i ? "\t" : "", o->whole[i]);
  }
  if (fclose(f)) text = NULL;
  c->kept_whole = text;
  if (!good) return fail(ST_INVALID_PARAM, "whole has an entry that is no name of a node or operator");
  return text ? ST_OK : fail(ST_NO_HOST_MEMORY, "no host memory for the names of nodes");
}

static status own_forms(const cannon_model_options *o, om_contents *c) {
  c->forms = calloc(o->n_inputs + o->n_blocked + 1, sizeof *c->forms);
  if (!c->forms) return fail(ST_NO_HOST_MEMORY, "no host memory for the inputs of a model");
  for (size_t i = 0; i < o->n_inputs; ++i) {
    if (!o->inputs[i].name) return fail(ST_INVALID_PARAM, "inputs[%zu] has no name", i);
    if (o->gears && o->inputs[i].blocked)
      return fail(ST_INVALID_PARAM, "input %s is to be NC1HWC0, expected no gears then", o->inputs[i].name);
    c->forms[c->n_forms++] =
        (om_form){.name = o->inputs[i].name, .half = o->inputs[i].half, .blocked = o->inputs[i].blocked};
  }
  for (size_t i = 0; i < o->n_blocked; ++i) {
    if (!o->blocked[i]) return fail(ST_INVALID_PARAM, "blocked[%zu] has no name", i);
    c->forms[c->n_forms++] = (om_form){.name = o->blocked[i], .half = true, .blocked = true, .is_output = true};
  }
  return ST_OK;
}

static void tell_figures(model *m, cannon_model_figures *f) {
  const model_size sizes = model_sizes(m);
  const pass_report report = model_passes(m);
  *f = (cannon_model_figures){.work_bytes = sizes.work,
                              .unshared_bytes = sizes.unshared,
                              .weight_bytes = sizes.weight,
                              .n_tasks = sizes.n_tasks,
                              .n_passes = (size_t)n_passes};
  for (int i = 0; i < n_passes; ++i) f->passes[i] = (cannon_model_pass){passes[i].name, report.n_matches[i]};
}

/* Loads what was made, to see whether it can be run; measures it, and describes it for the file. */
static status try_model(const void *om, size_t n, const char *folder, const cannon_model_options *o, om_contents *c,
                        cannon_model_figures *figures) {
  model *m;
  void *def = NULL;
  const model_def_facts facts = {o->name, o->command_line, o->soc_version};
  TRY(model_load(om, n, folder, &(model_options){.tunes = o->tune, .goal = (program_goal)o->goal}, MODEL_ON_HOST, NULL,
                 &m));
  status st = check_option_names(m, o);
  if (st == ST_OK && o->n_outputs && !model_program(m))
    st = fail(ST_INVALID_PARAM, "outputs are chosen, expected the shapes of all inputs, too");
  if (st == ST_OK) st = model_def_write(m, &facts, &def, &c->model_def_bytes);
  c->model_def = def;
  if (st == ST_OK && model_tuning(m)->n) {
    c->tuned_machine = tune_machine();
    if (!(c->tuned = tune_text(model_tuning(m), ' '))) st = fail(ST_NO_HOST_MEMORY, "no host memory for choices");
  }
  if (st == ST_OK && figures) tell_figures(m, figures);
  model_unref(m);
  return st;
}

/* The chosen outputs, and the types. */
static status own_outputs(const cannon_model_options *o, om_contents *c) {
  c->outputs = calloc(o->n_outputs + o->n_types + 1, sizeof *c->outputs);
  if (!c->outputs) return fail(ST_NO_HOST_MEMORY, "no host memory for the outputs of a model");
  for (size_t i = 0; i < o->n_outputs; ++i) {
    if (!o->outputs[i] || !*o->outputs[i]) return fail(ST_INVALID_PARAM, "outputs[%zu] has no name", i);
    c->outputs[c->n_outputs++] = (om_output){.name = o->outputs[i], .dtype = -1};
  }
  for (size_t i = 0; i < o->n_types; ++i) {
    if (!o->types[i].name || !dtype_is_known(o->types[i].type))
      return fail(ST_INVALID_PARAM, "types[%zu] has no name, or type %d", i, (int)o->types[i].type);
    c->outputs[c->n_outputs++] = (om_output){.name = o->types[i].name, .dtype = o->types[i].type};
  }
  return ST_OK;
}

static pass_set passes_off(const cannon_model_options *o) {
  pass_set off = 0;
  for (size_t i = 0; i < o->n_switches; ++i) {
    const char *name = o->switches[i].name ? o->switches[i].name : "";
    const int pass = pass_find(name);
    const pass_set meant = !strcasecmp(name, "ALL") ? ~(pass_set)0 : pass >= 0 ? (pass_set)1 << pass : 0;
    off = o->switches[i].on ? off & ~meant : off | meant;
  }
  return off;
}

static status read_gears(const cannon_model_options *o, model_gears *g) {
  if (o->gears == CANNON_MODEL_NO_GEARS) return ST_OK;
  const size_t wanted = o->gears == CANNON_MODEL_BATCH ? 1 : o->gears == CANNON_MODEL_IMAGE ? 2 : o->n_numbers;
  if (o->gears < 0 || o->gears > CANNON_MODEL_DIMS || !o->numbers || o->n_numbers != wanted || !wanted ||
      wanted > 4 * MAX_RANK)
    return fail(ST_INVALID_PARAM, "gears of kind %d have %zu numbers, expected %zu", (int)o->gears, o->n_numbers,
                wanted);
  if (o->n_gears < 2 || o->n_gears > GEARS_MOST)
    return fail(ST_INVALID_PARAM, "there are %zu gears, expected 2 to %d", o->n_gears, GEARS_MOST);
  *g = (model_gears){.kind = (gears_kind)o->gears,
                     .n = (int)o->n_gears,
                     .n_numbers = (int)o->n_numbers,
                     .numbers = (int64_t *)(uintptr_t)o->numbers};
  for (size_t i = 0; i < o->n_gears * o->n_numbers; ++i)
    if (o->numbers[i] < 1) return fail(ST_INVALID_PARAM, "a gear has %jd, expected 1 or more", (intmax_t)o->numbers[i]);
  return ST_OK;
}

/* Whether the model has tensors in other files. */
static status has_external_data(const om_contents *c, const char *folder, bool *has) {
  onnx_model *m;
  TRY(onnx_read(c->onnx, c->onnx_bytes, &(onnx_data){.folder = folder}, &m));
  *has = m->n_mappings;
  onnx_free(m);
  return ST_OK;
}

/* Puts the constants where they are to be kept, and writes the file. */
static status write_contents(const cannon_model_options *o, om_contents *c, const char *folder, void **om,
                             size_t *bytes) {
  const char *name = o->name ? o->name : "";
  weight_files files = {.kind = (weight_kind)o->weights, .folder = o->weight_folder, .name = name};
  const onnx_store store = {weight_files_put, &files};
  bool external;
  void *rewritten = NULL;
  TRY(has_external_data(c, folder, &external));
  c->weights_outside = files.kind != WEIGHTS_INSIDE;
  if (external || c->weights_outside) {
    status st = c->weights_outside ? weight_files_begin(&files) : ST_OK;
    if (st == ST_OK)
      st = onnx_rewrite(c->onnx, c->onnx_bytes, folder, c->weights_outside ? &store : NULL, &rewritten, &c->onnx_bytes);
    if (c->weights_outside) st = weight_files_end(&files, st);
    if (st != ST_OK) {
      free(rewritten);
      return st;
    }
    c->onnx = rewritten;
  }
  const status st = om_write(name, c, om, bytes);
  free(rewritten);
  return st;
}

static status check_kinds(const cannon_model_options *o) {
  if ((int)o->precision < CANNON_MODEL_FLOAT32 || o->precision > CANNON_MODEL_MAY_BE_16_BITS)
    return fail(ST_INVALID_PARAM, "precision is %d, expected 0 to 4", (int)o->precision);
  if ((int)o->goal < CANNON_MODEL_ANY || o->goal > CANNON_MODEL_POWER)
    return fail(ST_INVALID_PARAM, "goal is %d, expected 0 to 3", (int)o->goal);
  if ((int)o->weights < CANNON_MODEL_WEIGHTS_INSIDE || o->weights > CANNON_MODEL_WEIGHTS_COMBINED)
    return fail(ST_INVALID_PARAM, "weights is %d, expected 0 to 2", (int)o->weights);
  if (o->weights != CANNON_MODEL_WEIGHTS_INSIDE && !o->weight_folder)
    return fail(ST_INVALID_PARAM, "weight_folder is NULL, expected a folder for the files of constants");
  return ST_OK;
}

static status build_contents(const cannon_model_options *o, om_contents *c, const char *folder, void **om,
                             size_t *bytes, cannon_model_figures *figures) {
  void *made;
  size_t n_made;
  TRY(check_kinds(o));
  const char *name = o->name ? o->name : "";
  TRY(read_gears(o, &c->gears));
  TRY(own_outputs(o, c));
  TRY(own_shapes(o->shapes, o->n_shapes, &c->shapes));
  TRY(own_forms(o, c));
  TRY(own_whole(o, c));
  if (o->aipp && !(c->aipp = aipp_line(o->aipp)))
    return fail(ST_NO_HOST_MEMORY, "no host memory for the configuration of AIPP");
  TRY(om_write(name, c, &made, &n_made));
  const status st = try_model(made, n_made, folder, o, c, figures);
  free(made);
  return st == ST_OK ? write_contents(o, c, folder, om, bytes) : st;
}

static const cannon_model_options no_options;

static status build(const void *file, size_t n, const char *folder, const cannon_model_options *options, void **om,
                    size_t *bytes, cannon_model_figures *figures) {
  const cannon_model_options *o = options ? options : &no_options;
  TRY(check_lists(o));
  om_contents c = {.onnx = file,
                   .onnx_bytes = n,
                   .n_shapes = (int)o->n_shapes,
                   .passes_off = passes_off(o),
                   .half = (half_use)o->precision,
                   .goal = (program_goal)o->goal};
  const status st = build_contents(o, &c, folder, om, bytes, figures);
  free(c.shapes);
  free(c.outputs);
  free(c.forms);
  free((void *)(uintptr_t)c.kept_whole);
  free((void *)(uintptr_t)c.model_def);
  free((void *)(uintptr_t)c.aipp);
  free((void *)(uintptr_t)c.tuned);
  return st;
}

aclError cannon_model_build(const char *path, const cannon_model_options *options, void **om, size_t *bytes,
                            cannon_model_figures *figures) {
  API_ENTER();
  void *file;
  size_t n;
  NEED(path);
  NEED(om);
  NEED(bytes);
  NEED_OK(mdl_map_file(path, &file, &n));
  char *folder = mdl_folder(path);
  const status st = folder ? build(file, n, folder, options, om, bytes, figures)
                           : fail(ST_NO_HOST_MEMORY, "no host memory for the folder of %s", path);
  free(folder);
  munmap(file, n);
  API_RETURN(st);
}

aclError cannon_model_build_from_memory(const void *onnx, size_t n, const cannon_model_options *options, void **om,
                                        size_t *bytes, cannon_model_figures *figures) {
  API_ENTER();
  NEED(onnx);
  NEED(om);
  NEED(bytes);
  API_RETURN(build(onnx, n, NULL, options, om, bytes, figures));
}

static status describe(const char *path, const void *file, size_t n, const cannon_model_options *o, char **json) {
  model *m;
  onnx_shape *shapes;
  char *folder = mdl_folder(path);
  if (!folder) return fail(ST_NO_HOST_MEMORY, "no host memory for the folder of %s", path);
  status st = model_load(file, n, folder, &(model_options){.tunes = o->tune, .goal = (program_goal)o->goal},
                         MODEL_ON_HOST, NULL, &m);
  free(folder);
  if (st != ST_OK) return st;
  st = own_shapes(o->shapes, o->n_shapes, &shapes);
  if (st == ST_OK) {
    st = model_describe(m, shapes, (int)o->n_shapes, json);
    free(shapes);
  }
  model_unref(m);
  return st;
}

aclError cannon_model_describe(const char *path, const cannon_model_options *options, char **json) {
  API_ENTER();
  const cannon_model_options *o = options ? options : &no_options;
  void *file;
  size_t n;
  NEED(path);
  NEED(json);
  NEED_OK(check_lists(o));
  NEED_OK(mdl_map_file(path, &file, &n));
  const status st = describe(path, file, n, o, json);
  munmap(file, n);
  API_RETURN(st);
}
