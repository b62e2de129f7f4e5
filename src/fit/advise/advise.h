/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that make a recorded step fit, and what each costs. Called by `cannon advise`. A plan is a set of switches; its
 * peak is the replay of the step with all of them (model.h), and its time is the recorded time of the device's
 * tasks with what the switches add and save. Not thread-safe. */
#ifndef CANNON_FIT_ADVISE_ADVISE_H
#define CANNON_FIT_ADVISE_ADVISE_H

#include "fit/advise/change.h"
#include "fit/advise/pipeline.h"
#include "fit/advise/policy.h"
#include "fit/advise/recompute.h"

typedef enum { RECOMPUTE_NONE, RECOMPUTE_ALL, RECOMPUTE_SQRT, RECOMPUTE_CHOSEN } recompute_kind;

typedef struct {
  recompute_kind recompute;
  storage_kind storage;
  attention_kind attention;
  uint32_t micro_batches; /* accumulation: the recorded batch in so many parts; 1: as it is */
  double batch;           /* factor of the batch; 1: as it is */
  unsigned zero;
  bool prune, offload;
  /* found: */
  uint32_t *group; /* by link, as advise_recompute_apply takes it; NULL: nothing is recomputed */
  uint64_t peak;
  double step_ns;
  bool fits;
  bool is_exact;    /* the choice of links is the best one */
  bool is_estimate; /* sizes were scaled by class, not taken from a recording */
  uint32_t n_moved; /* by offload */
  uint64_t moved_bytes;
} advise_plan;

typedef struct {
  size_t n;
  advise_plan *plans;
} advise_plans;

typedef struct {
  advise_model *model;
  advise_chain *chain;
  advise_attention attention;
  const device_profile *profile; /* never NULL */
  const topology *topology;
  cost_model *cost;
  advise_policy policy;
  uint64_t fit_bytes, budget; /* budget: without what the policy keeps free */
  uint32_t devices;
  unsigned element_bytes;
  double compute;              /* for the policy's rules; < 0: unknown */
  advise_plan as_is, cheapest; /* cheapest.fits tells whether there is one */
  advise_plans single;         /* one kind of change each */
  advise_plans frontier;       /* ascending peaks, descending times */
  advise_pipeline pipeline;
  double largest_batch; /* factor of the recorded batch that just fits as it is; 0: none */
} advice;

/* Fills in all from `out->model` on. fit_bytes: 0 takes the recording's, or the profile's. The history, the topology
 * (NULL: collectives have no time) and the policy outlive the advice, which advice_free frees. False: no memory. */
bool advice_make(const history *h, const advise_policy *policy, const topology *t, advise_time time, uint64_t fit_bytes,
                 uint32_t devices, advice *out);
void advice_free(advice *a);

/* Judges a plan's switches; frees its group before. False: no memory. */
bool advice_judge(const advice *a, advise_plan *plan);

/* Blocks that pruning frees earlier, as items of the model, the largest first; the caller frees them. */
uint32_t *advice_idle(const advice *a, size_t *n);

#endif
