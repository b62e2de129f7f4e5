/* SPDX-License-Identifier: Apache-2.0 */
/* Runs ONNX models in host memory, without a device, for node_tests.py. For each line of the standard input, the name
 * of a folder, it reads
 *
 *   FOLDER/model.onnx
 *   FOLDER/inputs     a line for each input: name, number of dims, dims
 *   FOLDER/in_N       the bytes of input N, in the model's order
 *
 * writes FOLDER/out_N, and answers with one line: "ok", the number of steps, and for each output its dtype, number of
 * dims and dims, or "error" and the message.
 *
 * usage: run_model [--passes NAME,... | --without NAME,...] [--times N]
 *
 * --passes: only these, in this order. --times: runs each model N times, and writes to the standard error how many
 * steps, bytes of arena and processor time of the thread in microseconds (the median) it took, and how often passes
 * matched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "graph/onnx/convert.h"
#include "graph/pass/pass.h"
#include "graph/program.h"

enum { PATH = 1200, MOST = 64, MOST_TIMES = 1000 };

/* What the command line says. */
static int only[MOST], n_only = -1, times = 0; /* -1: all passes but those that are off */
static pass_set off;

static char *read_file(const char *folder, const char *name, size_t *bytes) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *bytes = (size_t)ftell(f);
  rewind(f);
  char *data = aligned_alloc(64, (*bytes + 64) & ~(size_t)63);
  if (fread(data, 1, *bytes, f) != *bytes) exit(2);
  data[*bytes] = 0;
  fclose(f);
  return data;
}

static int read_shapes(const char *folder, onnx_shape *shapes) {
  size_t bytes;
  char *text = read_file(folder, "inputs", &bytes), *state = NULL;
  int n = 0;
  for (char *line = text ? strtok_r(text, "\n", &state) : NULL; line; line = strtok_r(NULL, "\n", &state)) {
    char *rest = NULL, *word = strtok_r(line, " ", &rest);
    onnx_shape *s = &shapes[n++];
    *s = (onnx_shape){.name = word, .n_dims = atoi(strtok_r(NULL, " ", &rest))};
    for (int d = 0; d < s->n_dims && d < MAX_RANK; ++d) s->dims[d] = atoll(strtok_r(NULL, " ", &rest));
  }
  return n;
}

static uint64_t value_bytes(const ir_value *v) { return (uint64_t)v->tensor.n * dtype_bytes(v->tensor.dtype); }

static int compare_ns(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static status measure(program *p, const program_memory *m, const pass_report *report) {
  static int64_t ns[MOST_TIMES];
  for (int i = 0; i < times; ++i) {
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    TRY(program_run(p, m));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    ns[i] = (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + end.tv_nsec - begin.tv_nsec;
  }
  qsort(ns, (size_t)times, sizeof *ns, compare_ns);
  const program_size sizes = program_sizes(p);
  fprintf(stderr, "steps %d arena %ju us %.1f", sizes.n_steps, (uintmax_t)sizes.arena, (double)ns[times / 2] / 1e3);
  for (int i = 0; i < n_passes; ++i)
    if (report->n_matches[i]) fprintf(stderr, " %s=%d", passes[i].name, report->n_matches[i]);
  fprintf(stderr, "\n");
  return ST_OK;
}

static status run_program(const char *folder, program *p, const pass_report *report) {
  const ir_graph *g = program_graph(p);
  const program_size sizes = program_sizes(p);
  void *inputs[MOST], *outputs[MOST];
  char name[32], *arena = aligned_alloc(64, sizes.arena + 64);
  for (int i = 0; i < g->n_inputs; ++i) {
    size_t bytes = 0;
    snprintf(name, sizeof name, "in_%d", i);
    inputs[i] = read_file(folder, name, &bytes);
    if (!inputs[i] || bytes != value_bytes(g->inputs[i]))
      return fail(ST_INVALID_PARAM, "input %d has %zu bytes", i, bytes);
  }
  for (int i = 0; i < g->n_outputs; ++i)
    outputs[i] = aligned_alloc(64, (value_bytes(g->outputs[i]) + 64) & -UINT64_C(64));
  memset(arena, 0xff, sizes.arena); /* NaN, where something is read that nobody wrote */
  const program_memory m = {arena, inputs, outputs};
  TRY(program_run(p, &m));
  if (times) TRY(measure(p, &m, report));
  printf("ok %d", sizes.n_steps);
  for (int i = 0; i < g->n_outputs; ++i) {
    const tensor *t = &g->outputs[i]->tensor;
    char path[PATH];
    snprintf(path, sizeof path, "%.600s/out_%d", folder, i);
    FILE *f = fopen(path, "wb");
    fwrite(outputs[i], 1, value_bytes(g->outputs[i]), f);
    fclose(f);
    printf(" %d %d", t->dtype, t->rank);
    for (int d = 0; d < t->rank; ++d) printf(" %jd", (intmax_t)t->dims[d]);
  }
  for (int i = 0; i < g->n_inputs; ++i) free(inputs[i]);
  for (int i = 0; i < g->n_outputs; ++i) free(outputs[i]);
  free(arena);
  return ST_OK;
}

/* Converts the model; where shapes depend on what an input contains, with that. */
static status convert(const char *folder, const onnx_model *m, onnx_shape *shapes, int n, ir_graph **g) {
  status st;
  while ((st = onnx_convert(m, shapes, n, g)) == ONNX_WANTS_CONTENTS) {
    bool any = false;
    for (int i = 0; i < n; ++i) {
      char name[32];
      size_t bytes;
      snprintf(name, sizeof name, "in_%d", i);
      if (!shapes[i].wanted || shapes[i].contents) continue;
      shapes[i].contents = read_file(folder, name, &bytes);
      any = true;
    }
    if (!any) return fail(ST_GRAPH_ENGINE, "contents are wanted again");
  }
  return st;
}

/* Constants stay where they are in host memory, but are copied if they are not aligned. */
static status place(void *owner, ir_storage **constants, int n) {
  (void)owner;
  for (int i = 0; i < n; ++i) {
    constants[i]->address = (void *)(uintptr_t)constants[i]->contents;
    if ((uintptr_t)constants[i]->contents % 8 == 0) continue;
    constants[i]->address = malloc(constants[i]->bytes);
    memcpy(constants[i]->address, constants[i]->contents, constants[i]->bytes);
  }
  return ST_OK;
}

/* The memory of packed constants, by case. */
typedef struct {
  void *taken[4096];
  int n;
} packed_memory;

static status place_packed(void *owner, program_packed *packed, int n) {
  packed_memory *memory = owner;
  for (int i = 0; i < n; ++i) {
    if (memory->n == (int)(sizeof memory->taken / sizeof *memory->taken)) exit(2);
    memory->taken[memory->n++] = packed[i].address = aligned_alloc(64, (packed[i].bytes + 63) & -UINT64_C(64));
    packed[i].fresh = true;
  }
  return ST_OK;
}

static status run_passes(ir_graph *g, pass_report *report) {
  int n;
  if (n_only < 0) return pass_all(g, off, report);
  for (int i = 0; i < n_only; ++i) TRY(passes[only[i]].run(g, &report->n_matches[only[i]]));
  TRY(pass_outputs(g));
  return pass_dead_nodes(g, &n);
}

static status run_case(const char *folder) {
  static packed_memory packed;
  pass_report report = {0};
  onnx_shape shapes[MOST];
  onnx_model *m;
  ir_graph *g;
  program *p;
  size_t bytes;
  char *file = read_file(folder, "model.onnx", &bytes);
  const int n = read_shapes(folder, shapes);
  TRY(onnx_read(file, bytes, &(onnx_data){.folder = folder}, &m));
  TRY(convert(folder, m, shapes, n, &g));
  TRY(run_passes(g, &report));
  const program_owner owner = {.place = place,
                               .place_packed = place_packed,
                               .owner = &packed,
                               .share = true,
                               .red_zones = getenv("CANNON_RED_ZONES")};
  TRY(program_make(g, &owner, &p));
  const status st = run_program(folder, p, &report);
  program_free(p);
  while (packed.n) free(packed.taken[--packed.n]);
  onnx_free(m);
  free(file);
  return st;
}

/* Reads names of passes; returns how many. */
static int read_names(char *text, int *numbers) {
  int n = 0;
  for (char *name = strtok(text, ","); name; name = strtok(NULL, ","))
    if ((numbers[n++] = pass_find(name)) < 0) {
      fprintf(stderr, "there is no pass %s\n", name);
      exit(2);
    }
  return n;
}

int main(int n_args, char **args) {
  char folder[600];
  for (int i = 1; i + 1 < n_args; i += 2) {
    int numbers[MOST];
    if (strcmp(args[i], "--times") == 0) times = atoi(args[i + 1]) % (MOST_TIMES + 1);
    if (strcmp(args[i], "--passes") == 0) n_only = read_names(args[i + 1], only);
    if (strcmp(args[i], "--without") == 0)
      for (int n = read_names(args[i + 1], numbers); n > 0; --n) off |= UINT64_C(1) << numbers[n - 1];
  }
  while (fgets(folder, sizeof folder, stdin)) {
    folder[strcspn(folder, "\n")] = 0;
    if (run_case(folder) == ST_OK)
      printf("\n");
    else
      printf("error %s\n", fail_take());
    fflush(stdout);
  }
  return 0;
}
