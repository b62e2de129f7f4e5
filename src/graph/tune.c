/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/store/hash.h"
#include "op/executor.h"
#include "runtime/parallel.h"

/* Nodes with a lower estimate are not worth a measurement, whose noise is some microseconds. */
enum { LEAST_COST_NS = 5000 };

enum { LEAST_ROUNDS = 3, MOST_ROUNDS = 15, MEASURED_NS = 20 * 1000 * 1000 /* per implementation, about */ };

/* More memory than this is not taken to measure a node. */
#define MOST_BYTES (UINT64_C(1) << 30)

#define UNSURE 1.5 /* from this ratio of the first runs on, an implementation is out */
#define GAIN   0.97

static const char measured[] = "measured to be the fastest";

static status tune_no_memory(void) { return fail(ST_NO_HOST_MEMORY, "no host memory to measure a node"); }

/* ---- the list ---------------------------------------------------------------------------------------------------- */

void tuning_free(tuning *t) {
  free(t->choices);
  *t = (tuning){0};
}

static const tuned_choice *tuning_find(const tuning *t, uint64_t key) {
  for (int i = 0; i < t->n; ++i)
    if (t->choices[i].key == key) return &t->choices[i];
  return NULL;
}

bool tuning_add(tuning *t, uint64_t key, const char *family, const char *name) {
  if (tuning_find(t, key) || strlen(family) >= TUNE_NAME || strlen(name) >= TUNE_NAME) return true;
  tuned_choice *grown = realloc(t->choices, ((size_t)t->n + 1) * sizeof *grown);
  if (!grown) return false;
  t->choices = grown;
  tuned_choice *c = &grown[t->n++];
  *c = (tuned_choice){.key = key};
  memcpy(c->family, family, strlen(family));
  memcpy(c->name, name, strlen(name));
  return true;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_tensor(uint64_t hash, const tensor *t) {
  const bool present = t;
  hash = hash_bytes(hash, &present, sizeof present);
  if (!t) return hash;
  hash = hash_bytes(hash, &t->dtype, sizeof t->dtype);
  hash = hash_bytes(hash, t->dims, t->rank * sizeof *t->dims);
  return hash_bytes(hash, t->strides, t->rank * sizeof *t->strides);
}

static uint64_t tune_hash_argument(uint64_t hash, const arg_schema *s, const op_arg *a) {
  double real;
  switch (s->kind) {
  case ARG_TENSOR: return hash_tensor(hash, a->tensor);
  case ARG_TENSOR_LIST:
    for (uint64_t i = 0; a->tensors && i < a->tensors->size; ++i) hash = hash_tensor(hash, a->tensors->value[i]);
    return hash;
  case ARG_SCALAR: return real = a->scalar ? scalar_real(a->scalar) : 0, hash_bytes(hash, &real, sizeof real);
  case ARG_INT_ARRAY: return a->ints ? hash_bytes(hash, a->ints->value, a->ints->size * sizeof *a->ints->value) : hash;
  case ARG_INT: return hash_bytes(hash, &a->integer, sizeof a->integer);
  case ARG_FLOAT: return hash_bytes(hash, &a->real, sizeof a->real);
  case ARG_BOOL: return hash_bytes(hash, &a->boolean, sizeof a->boolean);
  case ARG_STRING: return a->string ? hash_bytes(hash, a->string, strlen(a->string)) : hash;
  default: return hash;
  }
}

static uint64_t key_of_node(const ir_node *n, uint64_t constants) {
  const int threads = parallel_max_threads(UINT64_MAX);
  uint64_t hash = hash_bytes(HASH_START, n->op->name, strlen(n->op->name));
  for (int i = 0; i < n->op->n_args; ++i) hash = tune_hash_argument(hash, &n->op->schema[i], &n->args[i]);
  hash = hash_bytes(hash, &constants, sizeof constants);
  return hash_bytes(hash, &threads, sizeof threads);
}

/* ---- memory for a measurement ------------------------------------------------------------------------------------ */

typedef struct {
  const ir_storage *of;
  char *at;   /* of its first byte */
  bool owned; /* `at` is ours */
} tune_buffer;

typedef struct {
  executor *e;
  void **view, *scratch, *packed;
  uint64_t first_ns, ns[MOST_ROUNDS];
} trial;

typedef struct {
  const ir_node *node;
  uint64_t constants;
  tune_buffer *buffers; /* one for each storage that the node uses */
  int n_buffers;
  trial trials[8];
  int n_trials;
} measurement;

/* Small numbers, so that no sum overflows or is denormal; zero where a number may be an index. */
static void fill_numbers(void *at, uint64_t bytes, int dtype) {
  float *f = at;
  uint16_t *h = at;
  int8_t *c = at;
  if (dtype == ACL_FLOAT)
    for (uint64_t i = 0; i < bytes / sizeof *f; ++i) f[i] = (float)((int)(i * 7 % 13) - 6) / 8;
  if (dtype == ACL_FLOAT16 || dtype == ACL_BF16)
    for (uint64_t i = 0; i < bytes / sizeof *h; ++i) h[i] = dtype == ACL_BF16 ? 0x3f00 : 0x3800; /* 0.5 */
  if (dtype == ACL_INT8 || dtype == ACL_UINT8)
    for (uint64_t i = 0; i < bytes; ++i) c[i] = (int8_t)(i % 5);
}

static status buffer_of(measurement *m, const ir_value *v, char **at) {
  ir_storage *s = v->storage;
  for (int i = 0; i < m->n_buffers; ++i)
    if (m->buffers[i].of == s) return *at = m->buffers[i].at, ST_OK;
  const bool reads = value_is_constant(v);
  if (reads) TRY(ir_need_contents(s));
  const bool aligned = (uintptr_t)s->contents % 16 == 0;
  tune_buffer *b = &m->buffers[m->n_buffers];
  *b = (tune_buffer){.of = s, .at = (char *)(uintptr_t)s->contents, .owned = !reads || !aligned};
  if (b->owned) {
    const uint64_t bytes = (s->bytes + 63) / 64 * 64;
    if (bytes > MOST_BYTES || !(b->at = aligned_alloc(64, bytes))) return tune_no_memory();
    memset(b->at, 0, bytes);
    if (reads)
      memcpy(b->at, s->contents, s->bytes);
    else
      fill_numbers(b->at, s->bytes, v->tensor.dtype);
  }
  ++m->n_buffers;
  return *at = b->at, ST_OK;
}

static status trial_memory(measurement *m, trial *t) {
  executor *e = t->e;
  t->view = calloc(e->n_operands + 1u, sizeof *t->view);
  if (!t->view || e->workspace_bytes > MOST_BYTES) return tune_no_memory();
  if (e->workspace_bytes && !(t->scratch = aligned_alloc(64, e->workspace_bytes))) return tune_no_memory();
  for (int i = 0; i < e->n_operands; ++i) {
    const tensor *x = executor_tensor(e, &e->operands[i], m->node->args);
    char *at = NULL;
    if (!x || !e->operands[i].extent_bytes) continue;
    TRY(buffer_of(m, value_of(x), &at));
    t->view[i] = at + e->operands[i].offset_bytes;
  }
  if (!e->packing.bytes) return ST_OK;
  if (!(t->packed = aligned_alloc(64, (e->packing.bytes + 63) / 64 * 64))) return tune_no_memory();
  e->packing.pack(e, t->view[e->packing.operand], t->packed);
  e->packed = t->packed;
  return ST_OK;
}

static void measurement_end(measurement *m) {
  for (int i = 0; i < m->n_trials; ++i) {
    trial *t = &m->trials[i];
    executor_unref(t->e);
    free(t->view);
    free(t->scratch);
    free(t->packed);
  }
  for (int i = 0; i < m->n_buffers; ++i)
    if (m->buffers[i].owned) free(m->buffers[i].at);
  free(m->buffers);
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static uint64_t tune_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Returns UINT64_MAX if the implementation fails. */
static uint64_t trial_run_once(const trial *t) {
  const uint64_t start = tune_clock();
  if (t->e->run(t->e, t->view, t->scratch) == ST_OK) return tune_clock() - start;
  (void)fail_take();
  return UINT64_MAX;
}

static int compare_ns(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* Drops the last trial if its implementation does not fit, or is plainly slower than the usual one. */
static status add_trial(measurement *m, executor *e) {
  trial *t = &m->trials[m->n_trials++];
  *t = (trial){.e = e};
  e->repeatable = true;
  TRY(trial_memory(m, t));
  (void)trial_run_once(t); /* touches all memory */
  t->first_ns = trial_run_once(t);
  return ST_OK;
}

static bool trial_is_out(const measurement *m, const trial *t) {
  const double usual = (double)m->trials[0].first_ns;
  return t->first_ns == UINT64_MAX || (double)t->first_ns > UNSURE * usual;
}

/* The trial with the lowest median, in turns; the usual one, trials[0], unless another is faster by more than noise. */
static const trial *fastest_trial(measurement *m) {
  const uint64_t once = m->trials[0].first_ns + 1;
  int rounds = once > MEASURED_NS ? LEAST_ROUNDS : (int)(MEASURED_NS / once);
  rounds = rounds < LEAST_ROUNDS ? LEAST_ROUNDS : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < m->n_trials; ++i)
      if (!trial_is_out(m, &m->trials[i])) m->trials[i].ns[r] = trial_run_once(&m->trials[i]);
  const trial *best = &m->trials[0];
  for (int i = 0; i < m->n_trials; ++i) {
    trial *t = &m->trials[i];
    if (trial_is_out(m, t)) continue;
    qsort(t->ns, (size_t)rounds, sizeof *t->ns, compare_ns);
    if ((double)t->ns[rounds / 2] < (best == m->trials ? GAIN : 1) * (double)best->ns[rounds / 2]) best = t;
  }
  return best;
}

/* Measures all implementations that fit but the reference. *name: of the fastest; NULL: there is nothing to choose. */
static status measure_node(measurement *m, executor *usual, const char **name) {
  const executor_choice *const c = usual->choices[0];
  *name = NULL;
  m->buffers = calloc(usual->n_operands + 1u, sizeof *m->buffers);
  if (!m->buffers) return executor_unref(usual), tune_no_memory();
  TRY(add_trial(m, usual));
  if (m->trials[0].first_ns == UINT64_MAX) return ST_OK;
  for (int i = 0; i + 1 < c->n_names && m->n_trials < 8; ++i) {
    executor *e;
    if (!strcmp(c->names[i], c->name)) continue;
    TRY(prepare_preferring(m->node, m->constants, c->family, c->names[i], measured, &e));
    if (e) TRY(add_trial(m, e));
  }
  if (m->n_trials > 1) *name = fastest_trial(m)->e->choices[0]->name;
  return ST_OK;
}

status prepare_preferring(const ir_node *n, uint64_t constants, const char *family, const char *name,
                          const char *reason, executor **out) {
  const executor_preference preference = {family, name, reason};
  uint64_t workspace_bytes;
  executor_preferred = &preference;
  const status st = op_prepare_constant(n->op, n->args, constants, &workspace_bytes, out);
  executor_preferred = NULL;
  if (st != ST_OK || ((*out)->n_choices && !strcmp((*out)->choices[0]->name, name))) return st;
  executor_unref(*out);
  *out = NULL;
  return ST_OK;
}

/* Measures the node, and adds the result to the list. What cannot be measured is left to the rules. */
static status tune_node(tuning *t, const ir_node *n, uint64_t constants, uint64_t key) {
  measurement m = {.node = n, .constants = constants};
  uint64_t workspace_bytes;
  executor *e;
  const char *name;
  TRY(op_prepare_constant(n->op, n->args, constants, &workspace_bytes, &e));
  const char *const family = e->choices[0]->family;
  const status st = measure_node(&m, e, &name);
  if (st != ST_OK) (void)fail_take();
  const bool found = st == ST_OK && name, added = !found || tuning_add(t, key, family, name);
  measurement_end(&m);
  if (!added) return tune_no_memory();
  t->changed |= found;
  return ST_OK;
}

status tuning_prepare(tuning *t, const ir_node *n, uint64_t constants, executor **out) {
  uint64_t workspace_bytes;
  TRY(op_prepare_constant(n->op, n->args, constants, &workspace_bytes, out));
  executor *const usual = *out;
  if (!t || !usual->n_choices || usual->cost_ns < LEAST_COST_NS) return ST_OK;
  const uint64_t key = key_of_node(n, constants);
  const tuned_choice *found = tuning_find(t, key);
  status st = found || !t->measures ? ST_OK : tune_node(t, n, constants, key);
  if (st == ST_OK && !found) found = tuning_find(t, key);
  if (st == ST_OK && found) st = prepare_preferring(n, constants, found->family, found->name, measured, out);
  if (st == ST_OK && (!found || !*out)) return *out = usual, ST_OK;
  executor_unref(usual);
  return st;
}
