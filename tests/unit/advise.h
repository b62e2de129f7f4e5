/* SPDX-License-Identifier: Apache-2.0 */
/* Histories made up for tests of src/fit: a training step of a chain of layers, whose blocks and tasks stand in the
 * order that PyTorch makes them in. */
#ifndef CANNON_TESTS_UNIT_ADVISE_H
#define CANNON_TESTS_UNIT_ADVISE_H

#include "fit/history.h"
#include "unit.h"

enum { MADE_MAX = 20000 };

/* The seed of random tests: CANNON_SEED, or 1. */
static inline uint64_t unit_seed(void) {
  const char *seed = getenv("CANNON_SEED");
  return seed ? strtoull(seed, NULL, 10) : 1;
}

typedef struct {
  history h;
  uint64_t moment;
  history_block blocks[MADE_MAX];
  history_task tasks[MADE_MAX];
  history_access accesses[2 * MADE_MAX];
  history_module modules[512];
  history_step steps[4];
  char names[512][24];
  history_line lines[8];
  history_site sites[8];
} made_history;

static inline uint32_t made_block(made_history *m, uint64_t bytes, history_class class, history_phase phase,
                                  uint32_t module) {
  const uint32_t b = (uint32_t)m->h.n_blocks++;
  assert_true(b < MADE_MAX);
  m->blocks[b] = (history_block){.segment = HISTORY_NONE,
                                 .stream = -1,
                                 .address = 512 * (uint64_t)b,
                                 .bytes = bytes,
                                 .requested = bytes,
                                 .born = m->moment++,
                                 .died = HISTORY_NEVER,
                                 .died_ns = HISTORY_NEVER,
                                 .site = 0,
                                 .free_site = HISTORY_NONE,
                                 .module = module,
                                 .phase = phase,
                                 .class = class};
  return b;
}

static inline void made_free(made_history *m, uint32_t b) { m->blocks[b].died = m->moment++; }

/* A task that reads and writes up to three blocks each; HISTORY_NONE stands for none. */
static inline void made_task(made_history *m, const char *name, history_phase phase, uint32_t module, uint64_t ns,
                             const uint32_t reads[3], const uint32_t writes[3]) {
  const uint32_t t = (uint32_t)m->h.n_tasks++;
  assert_true(t < MADE_MAX);
  m->tasks[t] = (history_task){.name = name,
                               .moment = m->moment++,
                               .device_ns = ns,
                               .site = 0,
                               .module = module,
                               .phase = phase,
                               .first_access = (uint32_t)m->h.n_accesses};
  for (int i = 0; i < 6; ++i) {
    const uint32_t block = i < 3 ? reads[i] : writes[i - 3];
    if (block == HISTORY_NONE) continue;
    assert_true(m->h.n_accesses < 2 * MADE_MAX);
    m->accesses[m->h.n_accesses++] =
        (history_access){t, block, 0, m->blocks[block].bytes, i < 3 ? HISTORY_READS : HISTORY_WRITES};
    ++m->tasks[t].n_accesses;
  }
}

static inline void made_begin(made_history *m) {
  memset(m, 0, sizeof *m);
  m->h = (history){.program = "made",
                   .soc_name = "Ascend910B3",
                   .n_devices = 1,
                   .device_bytes = 64ull << 30,
                   .n_lines = 1,
                   .n_sites = 1,
                   .lines = m->lines,
                   .sites = m->sites,
                   .modules = m->modules,
                   .blocks = m->blocks,
                   .tasks = m->tasks,
                   .accesses = m->accesses,
                   .steps = m->steps};
  m->lines[0] = (history_line){"train.py", "forward", 41};
  m->sites[0] = (history_site){0, 1, 0};
}

static inline uint32_t made_module(made_history *m, const char *name, const char *type, uint32_t parent) {
  const uint32_t i = (uint32_t)m->h.n_modules++;
  snprintf(m->names[i], sizeof m->names[i], "%s", name);
  m->modules[i] = (history_module){m->names[i], type, parent};
  return i;
}

static inline void made_end_step(made_history *m, uint64_t begin) {
  m->steps[m->h.n_steps++] = (history_step){begin, m->moment, 0, 0};
  m->h.n_moments = m->moment;
}

/* What a layer keeps and takes. Its forward part makes n_inner activations, one after the other, with a temporary
 * beside each, and an output. */
typedef struct {
  uint32_t n_inner;
  uint64_t inner[4], temporary, output, parameter, gradient_temporary;
  uint64_t ns;
  bool keeps_output; /* its own backward part begins with its output, as that of ReLU does */
} made_layer;

#define NO3       ((const uint32_t[3]){HISTORY_NONE, HISTORY_NONE, HISTORY_NONE})
#define ONE(a)    ((const uint32_t[3]){a, HISTORY_NONE, HISTORY_NONE})
#define TWO(a, b) ((const uint32_t[3]){a, b, HISTORY_NONE})

/* A training step of the layers; `recomputed[k]`: layer k is run without keeping its inner activations, and they are
 * made again before its backward part, as torch.utils.checkpoint does. Returns the peak, counted while it is made. */
static inline void made_train(made_history *m, const made_layer *layers, uint32_t n, const bool *recomputed) {
  static uint32_t inner[64][4], output[65], parameter[64];
  made_begin(m);
  const uint32_t root = made_module(m, "", "Net", HISTORY_NONE);
  const uint32_t list = made_module(m, "layers", "ModuleList", root);
  for (uint32_t k = 0; k < n; ++k) {
    char name[24];
    snprintf(name, sizeof name, "layers.%u", k);
    made_module(m, name, "Block", list);
    parameter[k] = made_block(m, layers[k].parameter, HISTORY_PARAMETER, HISTORY_OUTSIDE, 2 + k);
  }
  const uint64_t begin = m->moment;
  output[0] = made_block(m, 64, HISTORY_OTHER, HISTORY_OUTSIDE, HISTORY_NONE);
  for (uint32_t k = 0; k < n; ++k) {
    const made_layer *l = &layers[k];
    const bool drops = recomputed && recomputed[k];
    uint32_t last = output[k];
    for (uint32_t i = 0; i < l->n_inner; ++i) {
      const uint32_t scratch = made_block(m, l->temporary, HISTORY_TEMPORARY, HISTORY_FORWARD, 2 + k);
      inner[k][i] = made_block(m, l->inner[i], HISTORY_ACTIVATION, HISTORY_FORWARD, 2 + k);
      made_task(m, "Add", HISTORY_FORWARD, 2 + k, l->ns, TWO(last, parameter[k]), TWO(inner[k][i], scratch));
      made_free(m, scratch);
      if (drops && i) made_free(m, last);
      last = inner[k][i];
    }
    output[k + 1] = made_block(m, l->output, HISTORY_ACTIVATION, HISTORY_FORWARD, 2 + k);
    made_task(m, "Add", HISTORY_FORWARD, 2 + k, l->ns, ONE(last), ONE(output[k + 1]));
    if (drops && l->n_inner) made_free(m, last);
  }
  const uint32_t loss = made_block(m, 8, HISTORY_OTHER, HISTORY_FORWARD, HISTORY_NONE);
  made_task(m, "Loss", HISTORY_FORWARD, HISTORY_NONE, 1, ONE(output[n]), ONE(loss));
  uint32_t gradient = made_block(m, layers[n - 1].output, HISTORY_TEMPORARY, HISTORY_BACKWARD, HISTORY_NONE);
  made_task(m, "LossGrad", HISTORY_BACKWARD, HISTORY_NONE, 1, ONE(output[n]), ONE(gradient));
  if (!layers[n - 1].keeps_output || (recomputed && recomputed[n - 1] && layers[n - 1].n_inner))
    made_free(m, output[n]);
  for (uint32_t k = n; k-- > 0;) {
    const made_layer *l = &layers[k];
    const bool drops = recomputed && recomputed[k] && l->n_inner;
    for (uint32_t i = 0; recomputed && recomputed[k] && i < l->n_inner; ++i) {
      const uint32_t scratch = made_block(m, l->temporary, HISTORY_TEMPORARY, HISTORY_BACKWARD, 2 + k);
      inner[k][i] = made_block(m, l->inner[i], HISTORY_ACTIVATION, HISTORY_BACKWARD, 2 + k);
      made_task(m, "Add", HISTORY_BACKWARD, 2 + k, l->ns, ONE(i ? inner[k][i - 1] : output[k]), ONE(inner[k][i]));
      made_free(m, scratch);
    }
    if (drops && l->keeps_output) {
      output[k + 1] = made_block(m, l->output, HISTORY_ACTIVATION, HISTORY_BACKWARD, 2 + k);
      made_task(m, "Add", HISTORY_BACKWARD, 2 + k, l->ns, ONE(inner[k][l->n_inner - 1]), ONE(output[k + 1]));
    }
    if (l->keeps_output) {
      const uint32_t next = made_block(m, l->gradient_temporary, HISTORY_TEMPORARY, HISTORY_BACKWARD, HISTORY_NONE);
      made_task(m, "ReluGrad", HISTORY_BACKWARD, 2 + k, l->ns, TWO(gradient, output[k + 1]), ONE(next));
      made_free(m, gradient);
      made_free(m, output[k + 1]);
      gradient = next;
    }
    for (uint32_t i = l->n_inner; i-- > 0;) {
      const uint32_t next = made_block(m, l->gradient_temporary, HISTORY_TEMPORARY, HISTORY_BACKWARD, HISTORY_NONE);
      made_task(m, "AddGrad", HISTORY_BACKWARD, 2 + k, 2 * l->ns, TWO(gradient, inner[k][i]), ONE(next));
      made_free(m, gradient);
      made_free(m, inner[k][i]);
      gradient = next;
    }
    const uint32_t weight = made_block(m, l->parameter, HISTORY_GRADIENT, HISTORY_BACKWARD, 2 + k);
    made_task(m, "AddGrad", HISTORY_BACKWARD, 2 + k, l->ns, TWO(gradient, output[k]), ONE(weight));
    const bool is_kept = k && layers[k - 1].keeps_output && !(recomputed && recomputed[k - 1] && layers[k - 1].n_inner);
    if (k && !is_kept) made_free(m, output[k]);
  }
  made_free(m, gradient);
  made_free(m, output[0]);
  made_end_step(m, begin);
}

/* The peak of a made history, counted over its moments. */
static inline uint64_t made_peak(const made_history *m) {
  uint64_t peak = 0;
  for (uint64_t t = 0; t < m->moment; ++t) {
    uint64_t live = 0;
    for (size_t b = 0; b < m->h.n_blocks; ++b)
      if (m->blocks[b].born <= t && t < m->blocks[b].died) live += m->blocks[b].bytes;
    if (live > peak) peak = live;
  }
  return peak;
}

#endif
