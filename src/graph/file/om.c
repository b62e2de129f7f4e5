/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/file/om.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The start of our TASK_INFO. Behind it: lines of text, and the ONNX model. A line has three words with tabs between:
 *
 *   shape       input   dims, as in "shape\tx\t1 3 224 224"
 *   range       input   the least and the most size of each dimension of the shape; 0 and -1: any
 *   input       name    "half", "blocked" or both: what callers give (om_form)
 *   blocked     name    -, of an output, likewise
 *   gears       kind    numbers in a gear, and numbers, as in "gears\tbatch\t1 1 2"
 *   output      name    -1: it is an output in place of the model's; or the aclDataType that it is to have
 *   passes_off  -       names of passes
 *   aipp        all     a configuration of AIPP in one line
 *   half        -       "allowed", "wanted": float16 in place of float32; "bfloat16", "any": one of these is allowed
 *   whole       -       nodes that stay float32, with tabs between
 *   optimize    -       "time", "memory" or "power"
 *   tuned       machine  choices that were measured there (tune_file.h), with blanks between
 *   weights     -       "outside": tensors of the ONNX model are in files of the folder `weight` */
typedef struct {
  char magic[16];
  uint64_t text_bytes, onnx_bytes;
} payload;

static const char payload_magic[16] = "cannon model 1\n";

#define OM_FAIL(...) fail(ST_CONFIG_PARSE, __VA_ARGS__)

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static status find_partition(const char *bytes, size_t n, uint32_t kind, const char **at, uint64_t *size) {
  const void *found;
  const char *fault = om_find(bytes, n, kind, &found, size);
  *at = found;
  return fault ? OM_FAIL("%s", fault) : ST_OK;
}

static status not_ours(const char *bytes, size_t n) {
  const char *at;
  uint64_t size;
  TRY(find_partition(bytes, n, OM_KERNELS, &at, &size));
  return OM_FAIL("the file was made for an NPU (it has %ju bytes of its kernels); convert the ONNX model with this atc",
                 (uintmax_t)size);
}

/* Reads numbers up to the end of the text; returns how many, or -1 if there are more than `most` or other words. */
static int om_numbers(const char *text, int64_t *numbers, int most) {
  char *end;
  int n = 0;
  for (const char *p = text; *p; p = end) {
    if (n == most) return -1;
    numbers[n++] = strtoll(p, &end, 10);
    if (end == p) return -1;
  }
  return n;
}

/* "shape NAME DIMS", with tabs between. */
static status om_read_shape(char *name, const char *dims, onnx_shape *s) {
  *s = (onnx_shape){.name = name};
  s->n_dims = om_numbers(dims, s->dims, MAX_RANK);
  return s->n_dims >= 0 ? ST_OK : OM_FAIL("the shape of input %s is malformed", name);
}

/* "range NAME LEAST MOST LEAST MOST...", likewise, behind the shape. */
static status om_read_range(const char *name, const char *numbers, om_contents *c) {
  int64_t all[2 * MAX_RANK];
  const int n = om_numbers(numbers, all, 2 * MAX_RANK);
  onnx_shape *s = c->n_shapes ? &c->shapes[c->n_shapes - 1] : NULL;
  if (!s || strcmp(s->name, name) != 0 || n != 2 * s->n_dims)
    return OM_FAIL("the range of input %s is malformed", name);
  for (int d = 0; d < s->n_dims; ++d) {
    s->least[d] = all[2 * d];
    s->most[d] = all[2 * d + 1];
  }
  return ST_OK;
}

static status om_read_form(const char *name, const char *words, bool is_output, om_contents *c) {
  c->forms[c->n_forms++] = (om_form){.name = name,
                                     .half = is_output || strstr(words, "half"),
                                     .blocked = is_output || strstr(words, "blocked"),
                                     .is_output = is_output};
  return ST_OK;
}

/* "gears KIND NUMBERS-IN-A-GEAR ALL-NUMBERS", likewise. */
static status om_read_gears(const char *kind, const char *numbers, model_gears *g) {
  enum { MOST = 1 + GEARS_MOST * 4 * MAX_RANK };
  int64_t *all = calloc(MOST, sizeof *all);
  if (!all) return fail(ST_NO_HOST_MEMORY, "no host memory for the gears of a model");
  const int n = om_numbers(numbers, all, MOST);
  g->kind = !strcmp(kind, "batch") ? GEARS_BATCH : !strcmp(kind, "image") ? GEARS_IMAGE : GEARS_DIMS;
  free(g->numbers);
  g->numbers = all;
  if (n < 2 || all[0] < 1 || all[0] > 4 * MAX_RANK || (n - 1) % all[0]) return OM_FAIL("the gears are malformed");
  g->n_numbers = (int)all[0];
  g->n = (n - 1) / g->n_numbers;
  memmove(all, all + 1, (size_t)(n - 1) * sizeof *all);
  for (int i = 0; i < n - 1; ++i)
    if (all[i] < 0) return OM_FAIL("a gear has the negative number %jd", (intmax_t)all[i]);
  return ST_OK;
}

/* "output NAME TYPE", where TYPE is a number of aclDataType or -1. */
static status om_read_output(char *name, const char *type, om_contents *out) {
  char *end;
  const long dtype = strtol(type, &end, 10);
  if (end == type || *end || dtype < -1 || (dtype >= 0 && !dtype_is_known((int)dtype)))
    return OM_FAIL("the type of output %s is malformed", name);
  out->outputs[out->n_outputs++] = (om_output){.name = name, .dtype = (int)dtype};
  return ST_OK;
}

/* "passes_off - NAMES", with blanks between. Names that this version does not know have no passes to switch off. */
static status om_read_passes(char *names, pass_set *off) {
  char *state = NULL;
  for (char *one = strtok_r(names, " ", &state); one; one = strtok_r(NULL, " ", &state)) {
    const int i = pass_find(one);
    if (i >= 0) *off |= (pass_set)1 << i;
  }
  return ST_OK;
}

static status om_read_goal(const char *word, program_goal *goal) {
  *goal = goal_find(word);
  return *goal < N_GOALS ? ST_OK : OM_FAIL("the model is made for %.32s, which this version does not know", word);
}

static const char *const half_words[N_HALF_USES] = {"", "allowed", "wanted", "bfloat16", "any"};

static status om_read_half(const char *word, half_use *half) {
  for (int i = 1; i < N_HALF_USES; ++i)
    if (!strcmp(word, half_words[i])) return *half = (half_use)i, ST_OK;
  return OM_FAIL("the permission %.32s of 16-bit numbers is unknown to this version", word);
}

static status om_read_line(char *line, om_contents *out) {
  char *const name = strchr(line, '\t'), *const rest = name ? strchr(name + 1, '\t') : NULL;
  if (!rest) return OM_FAIL("a line of the file is malformed");
  *name = *rest = 0;
  if (!strcmp(line, "shape")) return om_read_shape(name + 1, rest + 1, &out->shapes[out->n_shapes++]);
  if (!strcmp(line, "range")) return om_read_range(name + 1, rest + 1, out);
  if (!strcmp(line, "input")) return om_read_form(name + 1, rest + 1, false, out);
  if (!strcmp(line, "blocked")) return om_read_form(name + 1, rest + 1, true, out);
  if (!strcmp(line, "gears")) return om_read_gears(name + 1, rest + 1, &out->gears);
  if (!strcmp(line, "output")) return om_read_output(name + 1, rest + 1, out);
  if (!strcmp(line, "passes_off")) return om_read_passes(rest + 1, &out->passes_off);
  if (!strcmp(line, "half")) return om_read_half(rest + 1, &out->half);
  if (!strcmp(line, "whole")) return out->kept_whole = rest + 1, ST_OK;
  if (!strcmp(line, "weights")) return out->weights_outside = true, ST_OK;
  if (!strcmp(line, "optimize")) return om_read_goal(rest + 1, &out->goal);
  if (!strcmp(line, "tuned")) return out->tuned_machine = name + 1, out->tuned = rest + 1, ST_OK;
  if (!strcmp(line, "aipp")) return out->aipp = rest + 1, ST_OK;
  return OM_FAIL("the file has a line %.32s, which this version does not know", line);
}

static status om_read_lines(const char *text, uint64_t bytes, om_contents *out) {
  int n = 0;
  char *state = NULL;
  for (uint64_t i = 0; i < bytes; ++i) n += text[i] == '\n';
  out->names = strndup(text, bytes);
  out->shapes = calloc((size_t)n + 1, sizeof *out->shapes);
  out->outputs = calloc((size_t)n + 1, sizeof *out->outputs);
  out->forms = calloc((size_t)n + 1, sizeof *out->forms);
  if (!out->names || !out->shapes || !out->outputs || !out->forms)
    return fail(ST_NO_HOST_MEMORY, "no host memory for the shapes of a model");
  for (char *line = strtok_r(out->names, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
    TRY(om_read_line(line, out));
  return ST_OK;
}

status om_read(const void *bytes, size_t n, om_contents *out) {
  const char *at;
  uint64_t size;
  payload head;
  *out = (om_contents){0};
  TRY(find_partition(bytes, n, OM_TASK_INFO, &at, &size));
  if (!at || size < sizeof head || memcmp(at, payload_magic, sizeof payload_magic) != 0) return not_ours(bytes, n);
  memcpy(&head, at, sizeof head);
  const uint64_t rest = size - sizeof head;
  if (head.text_bytes > rest || head.onnx_bytes > rest - head.text_bytes) return OM_FAIL("the file is cut off");
  const status st = om_read_lines(at + sizeof head, head.text_bytes, out);
  if (st != ST_OK) om_free(out);
  out->onnx = at + sizeof head + head.text_bytes;
  out->onnx_bytes = head.onnx_bytes;
  return st;
}

void om_free(om_contents *c) {
  free(c->shapes);
  free(c->outputs);
  free(c->forms);
  free(c->names);
  free(c->gears.numbers);
  *c = (om_contents){0};
}

const onnx_shape *om_shape(const om_contents *c, const char *name) {
  for (int i = 0; i < c->n_shapes; ++i)
    if (!strcmp(c->shapes[i].name, name)) return &c->shapes[i];
  return NULL;
}

const om_form *om_form_of(const om_contents *c, bool is_output, const char *name) {
  for (int i = 0; i < c->n_forms; ++i)
    if (c->forms[i].is_output == is_output && !strcmp(c->forms[i].name, name)) return &c->forms[i];
  return NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put(FILE *f, const void *data, size_t bytes) { (void)fwrite(data, 1, bytes, f); }

static void put_numbers(FILE *f, const int64_t *numbers, int n) {
  for (int i = 0; i < n; ++i) fprintf(f, "%s%jd", i ? " " : "", (intmax_t)numbers[i]);
}

static bool has_range(const onnx_shape *s) {
  for (int d = 0; d < s->n_dims; ++d)
    if (s->least[d] > 0 || s->most[d] > 0) return true;
  return false;
}

static void om_put_range(FILE *f, const onnx_shape *s) {
  fprintf(f, "range\t%s\t", s->name);
  for (int d = 0; d < s->n_dims; ++d)
    fprintf(f, "%s%jd %jd", d ? " " : "", (intmax_t)s->least[d], (intmax_t)(s->most[d] > 0 ? s->most[d] : -1));
  fputc('\n', f);
}

static void put_forms(FILE *f, const om_contents *c) {
  for (int i = 0; i < c->n_forms; ++i) {
    const om_form *form = &c->forms[i];
    if (form->is_output)
      fprintf(f, "blocked\t%s\t-\n", form->name);
    else
      fprintf(f, "input\t%s\t%s%s\n", form->name, form->half ? "half " : "", form->blocked ? "blocked" : "");
  }
}

static char *om_lines(const om_contents *c, size_t *bytes) {
  static const char *const kinds[] = {[GEARS_BATCH] = "batch", [GEARS_IMAGE] = "image", [GEARS_DIMS] = "dims"};
  const model_gears *g = &c->gears;
  char *text = NULL;
  FILE *f = open_memstream(&text, bytes);
  if (!f) return NULL;
  for (int i = 0; i < c->n_shapes; ++i) {
    fprintf(f, "shape\t%s\t", c->shapes[i].name);
    put_numbers(f, c->shapes[i].dims, c->shapes[i].n_dims);
    fputc('\n', f);
    if (has_range(&c->shapes[i])) om_put_range(f, &c->shapes[i]);
  }
  put_forms(f, c);
  if (g->kind) {
    fprintf(f, "gears\t%s\t%d ", kinds[g->kind], g->n_numbers);
    put_numbers(f, g->numbers, g->n * g->n_numbers);
    fputc('\n', f);
  }
  for (int i = 0; i < c->n_outputs; ++i) fprintf(f, "output\t%s\t%d\n", c->outputs[i].name, c->outputs[i].dtype);
  if (c->passes_off) fputs("passes_off\t-\t", f);
  for (int i = 0; i < n_passes; ++i)
    if (c->passes_off >> i & 1) fprintf(f, "%s ", passes[i].name);
  if (c->passes_off) fputc('\n', f);
  if (c->half) fprintf(f, "half\t-\t%s\n", half_words[c->half]);
  if (c->kept_whole) fprintf(f, "whole\t-\t%s\n", c->kept_whole);
  if (c->weights_outside) fputs("weights\t-\toutside\n", f);
  if (c->goal) fprintf(f, "optimize\t-\t%s\n", goal_name(c->goal));
  if (c->tuned) fprintf(f, "tuned\t%s\t%s\n", c->tuned_machine, c->tuned);
  if (c->aipp) fprintf(f, "aipp\tall\t%s\n", c->aipp);
  return fclose(f) ? (free(text), NULL) : text;
}

status om_write(const char *name, const om_contents *c, void **out, size_t *n) {
  char header[OM_HEADER_BYTES], *data = NULL;
  size_t text_bytes = 0;
  char *text = om_lines(c, &text_bytes);
  FILE *f = text ? open_memstream(&data, n) : NULL;
  bool good = f;
  if (f) {
    payload head = {.text_bytes = text_bytes, .onnx_bytes = c->onnx_bytes};
    const om_partition_table table = {.n = 2};
    const om_partition parts[] = {
        {.kind = OM_MODEL_DEF, .bytes = c->model_def_bytes},
        {.kind = OM_TASK_INFO, .offset = c->model_def_bytes, .bytes = sizeof head + text_bytes + c->onnx_bytes}};
    memcpy(head.magic, payload_magic, sizeof head.magic);
    om_fill_header(header, name, sizeof table + sizeof parts + parts[0].bytes + parts[1].bytes);
    put(f, header, sizeof header);
    put(f, &table, sizeof table);
    put(f, parts, sizeof parts);
    if (c->model_def) put(f, c->model_def, c->model_def_bytes);
    put(f, &head, sizeof head);
    put(f, text, text_bytes);
    put(f, c->onnx, c->onnx_bytes);
    good = !ferror(f);
    good &= !fclose(f);
  }
  free(text);
  if (!good) {
    free(data);
    return fail(ST_NO_HOST_MEMORY, "no host memory for a model of %zu bytes", c->onnx_bytes);
  }
  *out = data;
  return ST_OK;
}
