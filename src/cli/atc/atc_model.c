/* SPDX-License-Identifier: Apache-2.0 */
/* Modes 0 and 3 of atc: makes an .om file of an ONNX model, or sees only whether that can be done. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "acl/acl.h"
#include "cli/atc/atc.h"
#include "cli/model/shape_list.h"
#include "cli/output.h"
#include "graph/file/option_texts.h"

/* All that the arguments say of a model; texts belong to it. */
typedef struct {
  cannon_model_options options;
  cannon_model_shape shapes[MOST_SHAPES];
  int64_t numbers[OPTION_MOST_NUMBERS];
  const char *outputs[OPTION_MOST_OUTPUTS];
  cannon_model_type types[OPTION_MOST_OUTPUTS];
  cannon_model_switch switches[ATC_SWITCHES + 1];
  cannon_model_input inputs[MOST_SHAPES];
  const char *blocked[OPTION_MOST_OUTPUTS], *kept[ATC_KEPT];
  char *input_text, *kept_text;
  char *shape_text, *output_text, *type_text, *switch_text, *weight_folder, *aipp_text;
} atc_request;

/* Reads what shapes, outputs and types the options say. Returns 0 or the exit code. */
static int atc_lists(const atc_options *o, atc_request *r) {
  char error[OPTION_ERROR];
  const char *gears = o->batch ? o->batch : o->image ? o->image : o->dims;
  const cannon_model_gears kind = o->batch ? CANNON_MODEL_BATCH : o->image ? CANNON_MODEL_IMAGE : CANNON_MODEL_DIMS;
  if (!shape_list_read(r->shape_text, r->shapes, &r->options.n_shapes, error))
    return atc_refuse(EXIT_ARGUMENTS, "E10002: --input_shape%s has %s", o->shape_range ? "_range" : "", error);
  if (gears && !option_gears(gears, kind, r->numbers, &r->options, error))
    return atc_refuse(EXIT_ARGUMENTS, "E10001: gears are %s", error);
  if (!option_outputs(r->output_text, r->outputs, &r->options.n_outputs, error))
    return atc_refuse(EXIT_ARGUMENTS, "E10013: --out_nodes has %s", error);
  if (!option_types(r->type_text, r->types, &r->options.n_types, error))
    return atc_refuse(EXIT_ARGUMENTS, "E10014: --output_type has %s", error);
  r->options.outputs = r->outputs;
  r->options.types = r->types;
  return 0;
}

/* Reads "true,false", a word for each of n names, into flags. Returns 0 or the exit code. */
static int layout_flags(const char *option, const char *text, size_t n, bool *flags) {
  size_t given = 0;
  for (const char *p = text; *p;) {
    const size_t bytes = strcspn(p, ",");
    const bool yes = bytes == 4 && !strncmp(p, "true", 4);
    if ((!yes && !(bytes == 5 && !strncmp(p, "false", 5))) || given == n)
      return atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s, expected true or false for each of the %zu nodes", option,
                        text, n);
    flags[given++] = yes;
    p += bytes + (p[bytes] == ',');
  }
  if (given == n) return 0;
  return atc_refuse(EXIT_ARGUMENTS, "E10001: --%s is %s, expected true or false for each of the %zu nodes", option,
                    text, n);
}

/* The forms in which callers give inputs and get outputs. A layout without nodes has no effect, as in CANN. */
static int atc_forms(const atc_options *o, atc_request *r) {
  bool flags[(int)MOST_SHAPES + (int)OPTION_MOST_OUTPUTS] = {false};
  char *state = NULL;
  int code = 0;
  cannon_model_options *to = &r->options;
  for (char *one = strtok_r(r->input_text, ";", &state); one; one = strtok_r(NULL, ";", &state)) {
    if (to->n_inputs == MOST_SHAPES)
      return atc_refuse(EXIT_ARGUMENTS, "E10001: --input_fp16_nodes has more than %d names", MOST_SHAPES);
    r->inputs[to->n_inputs++] = (cannon_model_input){.name = one, .half = 1};
  }
  if (o->input_layout && to->n_inputs)
    code = layout_flags("is_input_adjust_hw_layout", o->input_layout, to->n_inputs, flags);
  for (size_t i = 0; i < to->n_inputs; ++i) r->inputs[i].blocked = flags[i];
  memset(flags, 0, sizeof flags);
  if (!code && o->output_layout && to->n_outputs)
    code = layout_flags("is_output_adjust_hw_layout", o->output_layout, to->n_outputs, flags);
  for (size_t i = 0; i < to->n_outputs; ++i)
    if (flags[i]) r->blocked[to->n_blocked++] = r->outputs[i];
  to->inputs = r->inputs;
  to->blocked = r->blocked;
  return code;
}

/* Levels O0 and O1 of --oo_level are without passes; what names a pass wins over them. */
static int atc_passes(const atc_options *o, atc_request *r) {
  size_t n = 0;
  if (o->level && o->level[1] < '2') r->switches[r->options.n_switches++] = (cannon_model_switch){.name = "ALL"};
  const int code = atc_read_switches(o, r->switches + r->options.n_switches, &n, &r->switch_text);
  r->options.n_switches += n;
  r->options.switches = r->switches;
  return code;
}

/* Files of constants lie in a folder beside the .om file. */
static int atc_weights(const atc_options *o, atc_request *r) {
  const char *path = o->output ? o->output : "", *slash = strrchr(path, '/');
  const int n = slash ? (int)(slash - path) : 1;
  if (!o->weights || !strcmp(o->weights, "0")) return 0;
  if (asprintf(&r->weight_folder, "%.*s/weight", n, slash ? path : ".") < 0) {
    r->weight_folder = NULL;
    return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  }
  r->options.weights = *o->weights == '1' ? CANNON_MODEL_WEIGHTS_EACH : CANNON_MODEL_WEIGHTS_COMBINED;
  r->options.weight_folder = r->weight_folder;
  return 0;
}

static int atc_aipp(const atc_options *o, atc_request *r) {
  size_t room = 0;
  if (!o->aipp) return 0;
  FILE *f = fopen(o->aipp, "re");
  const bool read = f && getdelim(&r->aipp_text, &room, 0, f) >= 0;
  if (f) fclose(f);
  r->options.aipp = r->aipp_text;
  return read ? 0 : atc_refuse(EXIT_ARGUMENTS, "E10001: --insert_op_conf: %s cannot be read, or is empty", o->aipp);
}

/* Modes that permit or want 16-bit numbers; the others, and none, keep float32. */
static void atc_precision(const atc_options *o, atc_request *r) {
  static const struct {
    const char *mode;
    cannon_model_precision precision;
  } modes[] = {{"allow_fp32_to_fp16", CANNON_MODEL_MAY_BE_HALF},
               {"allow_mix_precision_fp16", CANNON_MODEL_MAY_BE_HALF},
               {"mixed_float16", CANNON_MODEL_MAY_BE_HALF},
               {"allow_mix_precision_bf16", CANNON_MODEL_MAY_BE_BFLOAT16},
               {"mixed_bfloat16", CANNON_MODEL_MAY_BE_BFLOAT16},
               {"allow_mix_precision", CANNON_MODEL_MAY_BE_16_BITS},
               {"force_fp16", CANNON_MODEL_HALF},
               {"fp16", CANNON_MODEL_HALF}};
  const char *mode = o->precision ? o->precision : o->precision_v2 ? o->precision_v2 : "";
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i)
    if (!strcmp(mode, modes[i].mode)) r->options.precision = modes[i].precision;
}

static void end_request(atc_request *r) {
  free(r->shape_text);
  free(r->output_text);
  free(r->type_text);
  free(r->switch_text);
  free(r->weight_folder);
  free(r->aipp_text);
  free(r->input_text);
  free(r->kept_text);
  free(r);
}

/* Returns 0, or the exit code after a message. end_request() frees *out in either case, unless it is NULL. */
static int read_request(const atc_options *o, atc_request **out) {
  atc_request *r = *out = calloc(1, sizeof *r);
  if (!r) return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  const char *slash = o->output ? strrchr(o->output, '/') : NULL;
  r->options.name = slash ? slash + 1 : o->output ? o->output : "";
  r->options.shapes = r->shapes;
  r->options.soc_version = o->soc_version;
  if (o->goal)
    r->options.goal = *o->goal == 't' ? CANNON_MODEL_TIME : *o->goal == 'm' ? CANNON_MODEL_MEMORY : CANNON_MODEL_POWER;
  r->options.tune = o->tune && strcmp(o->tune, "false") != 0 && strcmp(o->tune, "0") != 0;
  r->shape_text = strdup(o->input_shape ? o->input_shape : o->shape_range ? o->shape_range : "");
  r->input_text = strdup(o->half_inputs ? o->half_inputs : "");
  r->output_text = strdup(o->out_nodes ? o->out_nodes : "");
  r->type_text = strdup(o->output_type ? o->output_type : "");
  if (!r->shape_text || !r->output_text || !r->type_text || !r->input_text)
    return atc_refuse(EXIT_ARGUMENTS, "E19999: no host memory");
  int code = atc_lists(o, r);
  if (!code) code = atc_forms(o, r);
  if (!code) code = atc_read_kept(o, r->kept, &r->options.n_whole, &r->kept_text);
  r->options.whole = r->kept;
  if (!code) code = atc_weights(o, r);
  if (!code) code = atc_aipp(o, r);
  atc_precision(o, r);
  return code ? code : atc_passes(o, r);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool write_om(const char *path, const void *om, size_t bytes) {
  output o = {.command = "atc", .path = path, .kind = OUTPUT_MODEL};
  FILE *f = output_check(&o) ? output_begin(&o) : NULL;
  if (!f) return false;
  const bool written = fwrite(om, 1, bytes, f) == bytes;
  return output_end(&o, f, written);
}

/* Writes JSON that begins with its author, unless a file of somebody else's is there. */
static bool atc_write_report(const char *path, cJSON *o) {
  output out = {.command = "atc", .path = path, .kind = OUTPUT_JSON};
  char *text = cJSON_Print(o);
  FILE *f = text && output_check(&out) ? output_begin(&out) : NULL;
  const bool written = f && output_end(&out, f, fprintf(f, "%s\n", text) > 0);
  cJSON_free(text);
  return written;
}

static cJSON *new_report(void) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon atc");
  return o;
}

/* Which passes matched, and how often, as CANN's atc writes it. A failure to write it is told and is no failure. */
static void write_statistics(const cannon_model_figures *f) {
  char count[24];
  cJSON *o = new_report();
  cJSON *graph = cJSON_AddObjectToObject(o, "session_and_graph_id_0_0");
  cJSON *fusion = cJSON_AddObjectToObject(graph, "graph_fusion");
  cJSON_AddObjectToObject(graph, "ub_fusion");
  for (size_t i = 0; i < f->n_passes; ++i) {
    if (!f->passes[i].n_matches) continue;
    cJSON *pass = cJSON_AddObjectToObject(fusion, f->passes[i].name);
    snprintf(count, sizeof count, "%d", f->passes[i].n_matches);
    cJSON_AddStringToObject(pass, "effect_times", count);
    cJSON_AddStringToObject(pass, "match_times", count);
  }
  (void)atc_write_report("fusion_result.json", o);
  cJSON_Delete(o);
}

/* Tells of switches whose name is that of no pass. */
static void tell_unknown_passes(const cannon_model_options *o, const cannon_model_figures *f) {
  for (size_t i = 0; i < o->n_switches; ++i) {
    bool known = !strcasecmp(o->switches[i].name, "ALL");
    for (size_t k = 0; k < f->n_passes; ++k) known |= !strcasecmp(o->switches[i].name, f->passes[k].name);
    if (!known) atc_warn("Note: there is no pass with the name %s, which is passed over.", o->switches[i].name);
  }
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

int atc_make_model(const atc_options *o, const char *command_line) {
  cannon_model_figures figures;
  size_t bytes;
  void *om = NULL;
  char *path = NULL;
  atc_request *r;
  int code = read_request(o, &r);
  if (!code) {
    r->options.command_line = command_line;
    const aclError error = cannon_model_build(o->model, &r->options, &om, &bytes, &figures);
    if (error) code = atc_refuse_error(error);
  }
  if (!code && (asprintf(&path, "%s.om", o->output) < 0 || !write_om(path, om, bytes)))
    code = atc_refuse(1, "E10003: %s.om cannot be written", o->output);
  if (!code) {
    tell_unknown_passes(&r->options, &figures);
    if (!o->statistics || strcmp(o->statistics, "0") != 0) write_statistics(&figures);
    if (o->display && !strcmp(o->display, "1")) (void)atc_print_info(om, bytes);
  }
  if (r) end_request(r);
  free(path);
  free(om);
  return code;
}

int atc_check_model(const atc_options *o) {
  size_t bytes;
  void *om = NULL;
  atc_request *r;
  int code = read_request(o, &r);
  if (!code) {
    r->options.weights = CANNON_MODEL_WEIGHTS_INSIDE; /* nothing is kept */
    const aclError error = cannon_model_build(o->model, &r->options, &om, &bytes, NULL);
    const char *words = error ? aclGetRecentErrMsg() : NULL;
    cJSON *report = new_report();
    cJSON_AddStringToObject(report, "model", o->model);
    cJSON_AddStringToObject(report, "result", error ? "failed" : "success");
    if (error) cJSON_AddStringToObject(report, "message", words ? words : "");
    const char *path = o->check_report ? o->check_report : "check_result.json";
    const bool written = atc_write_report(path, report);
    cJSON_Delete(report);
    if (error)
      code = atc_refuse(error & 0xff ? error & 0xff : 1, "%s", words ? words : "E19999: no message");
    else if (!written)
      code = atc_refuse(1, "E10003: %s cannot be written", path);
  }
  if (r) end_request(r);
  free(om);
  return code;
}
