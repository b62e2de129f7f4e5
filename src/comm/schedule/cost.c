/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/schedule/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"

enum { PIPELINE_CHUNKS = 4, MAX_CANDIDATES = 64 };

/* What the busiest rank, link and group have to carry in a round at one level, in slices. */
typedef struct {
  uint32_t rank, link, group;
} level_load;

typedef struct {
  level_load level[SCHEDULE_MAX_LEVELS];
  uint32_t reduced;
  uint32_t times; /* so many equal rounds follow each other */
} round_load;

/* The rounds of a schedule on the topology, whatever the size of the slices. */
typedef struct {
  schedule_spec spec;
  uint32_t stride, n_rounds;
  round_load *round;
} cost_profile;

struct cost_model {
  topology t;
  cost_names names;
  cost_profile *profile; /* those that were needed so far */
  uint32_t n_profiles, capacity;
};

cost_model *cost_model_new(const topology *t, const cost_names *names) {
  cost_model *m = calloc(1, sizeof *m);
  if (m) *m = (cost_model){.t = *t, .names = *names};
  return m;
}

void cost_model_free(cost_model *m) {
  if (!m) return;
  for (uint32_t i = 0; i < m->n_profiles; ++i) free(m->profile[i].round);
  free(m->profile);
  free(m);
}

/* ---- profiles ---------------------------------------------------------------------------------------------------- */

/* Slices by direction: 0 sent, 1 received. */
typedef struct {
  uint32_t rank[SCHEDULE_MAX_LEVELS][2], group[SCHEDULE_MAX_LEVELS][2];
} round_sums;

/* What one walk over the ranks of a group needs. */
typedef struct {
  const topology *t;
  uint32_t stride, n_rounds;
  round_load *load;    /* the largest so far, by round */
  round_sums *sums;    /* of the group, by round; `rank` of the rank at hand */
  uint32_t (*pair)[2]; /* of the rank at hand: to and from each peer in the round at hand */
} walk_state;

static void load_keep(uint32_t *most, uint32_t n) {
  if (n > *most) *most = n;
}

static void walk_message(walk_state *w, uint32_t rank, const schedule_step *s) {
  const uint32_t l = topology_level_between(w->t, rank * w->stride, s->peer * w->stride);
  const int direction = s->action == SCHEDULE_RECEIVE;
  round_sums *sums = &w->sums[s->round];
  level_load *load = &w->load[s->round].level[l];
  load_keep(&load->rank, sums->rank[l][direction] += s->count);
  load_keep(&load->group, sums->group[l][direction] += s->count);
  load_keep(&load->link, w->pair[s->peer][direction] += s->count);
}

static void walk_rank(walk_state *w, uint32_t rank, const schedule *s) {
  for (uint32_t i = 0, end; i < s->n_steps; i = end) {
    const uint32_t round = s->step[i].round;
    uint32_t reduced = 0;
    memset(w->sums[round].rank, 0, sizeof w->sums[round].rank);
    for (end = i; end < s->n_steps && s->step[end].round == round; ++end) {
      const schedule_step *step = &s->step[end];
      if (step->action > SCHEDULE_REDUCE) walk_message(w, rank, step);
      if (step->action == SCHEDULE_REDUCE) reduced += step->count * step->n_in;
    }
    load_keep(&w->load[round].reduced, reduced);
    for (uint32_t k = i; k < end; ++k)
      if (s->step[k].action > SCHEDULE_REDUCE) memset(w->pair[s->step[k].peer], 0, sizeof *w->pair);
  }
}

/* Grows the arrays by round. */
static bool walk_has_rounds(walk_state *w, uint32_t n) {
  if (n <= w->n_rounds) return true;
  round_load *load = realloc(w->load, n * sizeof *load);
  if (load) w->load = load;
  round_sums *sums = realloc(w->sums, n * sizeof *sums);
  if (sums) w->sums = sums;
  if (!load || !sums) return false;
  memset(load + w->n_rounds, 0, (n - w->n_rounds) * sizeof *load);
  memset(sums + w->n_rounds, 0, (n - w->n_rounds) * sizeof *sums);
  w->n_rounds = n;
  return true;
}

/* Walks over the ranks from `first` to `end`, which share a group of level 0. */
static status walk_group(walk_state *w, const schedule_spec *spec, uint32_t first, uint32_t end) {
  if (w->n_rounds) memset(w->sums, 0, w->n_rounds * sizeof *w->sums);
  for (uint32_t rank = first; rank < end; ++rank) {
    schedule s;
    TRY(schedule_build(spec, rank, &s));
    const bool good = walk_has_rounds(w, s.n_rounds);
    if (good) walk_rank(w, rank, &s);
    schedule_free(&s);
    if (!good) return fail(ST_NO_HOST_MEMORY, "no memory for the rounds of %u ranks", end);
  }
  return ST_OK;
}

/* How many ranks of a communicator a group of level 0 has; some of them where there is only one group. */
static uint32_t ranks_inside(const topology *t, uint32_t stride, uint32_t n) {
  enum { ENOUGH = 8 };
  const uint32_t of_group = t->level[0].n_ranks ? t->level[0].n_ranks / stride : ENOUGH;
  return of_group < 1 ? 1 : of_group < n ? of_group : n;
}

/* Walks over the groups of level 0 that can differ from others. */
static status walk_all(walk_state *w, const schedule_spec *spec, uint32_t n) {
  const uint32_t inside = ranks_inside(w->t, w->stride, n);
  const uint32_t groups[] = {0, (n - 1) / inside, spec->root / inside};
  for (int i = 0; i < 3; ++i) {
    const uint32_t first = groups[i] * inside, end = first + inside < n ? first + inside : n;
    bool done = false;
    for (int k = 0; k < i; ++k) done |= groups[k] == groups[i];
    if (!done) TRY(walk_group(w, spec, first, end));
  }
  return ST_OK;
}

/* Merges equal rounds that follow each other. Returns how many are left. */
static uint32_t merge_rounds(round_load *load, uint32_t n) {
  uint32_t used = 0;
  for (uint32_t i = 0; i < n; ++i) {
    load[i].times = used ? load[used - 1].times : 1;
    if (used && memcmp(&load[used - 1], &load[i], sizeof *load) == 0) {
      ++load[used - 1].times;
      continue;
    }
    load[i].times = 1;
    load[used++] = load[i];
  }
  return used;
}

static bool same_spec(const schedule_spec *a, const schedule_spec *b) {
  bool same = a->kind == b->kind && a->root == b->root && a->n_levels == b->n_levels && a->n_chunks == b->n_chunks;
  for (uint32_t l = 0; same && l < a->n_levels; ++l)
    same = a->size[l] == b->size[l] && a->algorithm[l] == b->algorithm[l];
  return same;
}

static status cost_profile_make(const cost_model *m, const schedule_spec *spec, uint32_t stride, cost_profile *out) {
  const bool is_pair = spec->kind == COMM_SEND || spec->kind == COMM_RECV;
  const uint32_t n = schedule_n_ranks(spec);
  walk_state w = {.t = &m->t, .stride = stride, .pair = calloc(n, sizeof *w.pair)};
  status st = w.pair ? ST_OK : fail(ST_NO_HOST_MEMORY, "no memory for the links of %u ranks", n);
  if (!st) st = is_pair ? walk_group(&w, spec, spec->root ? 0 : 1, spec->root ? 1 : 2) : walk_all(&w, spec, n);
  free(w.pair);
  free(w.sums);
  *out = (cost_profile){*spec, stride, merge_rounds(w.load, w.n_rounds), w.load};
  if (st) free(w.load);
  return st;
}

static status cost_profile_find(cost_model *m, const schedule_spec *spec, uint32_t stride, const cost_profile **out) {
  for (uint32_t i = 0; i < m->n_profiles; ++i) {
    *out = &m->profile[i];
    if (m->profile[i].stride == stride && same_spec(&m->profile[i].spec, spec)) return ST_OK;
  }
  if (m->n_profiles == m->capacity) {
    const uint32_t capacity = m->capacity ? 2 * m->capacity : 16;
    cost_profile *grown = realloc(m->profile, capacity * sizeof *grown);
    if (!grown) return fail(ST_NO_HOST_MEMORY, "no memory for %u schedules", capacity);
    m->profile = grown;
    m->capacity = capacity;
  }
  TRY(cost_profile_make(m, spec, stride, &m->profile[m->n_profiles]));
  *out = &m->profile[m->n_profiles++];
  return ST_OK;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static double larger(double a, double b) { return a > b ? a : b; }

/* The group's ranks, and those of the communicators beside it, leave the group by what the group shares. That is
 * 1/oversubscription of what its devices have; at higher levels the groups of the level below are like this one. */
static double transfer_ns(const topology *t, uint32_t l, const level_load *load, uint32_t stride, double slice_bytes) {
  const topology_level *level = &t->level[l];
  double seconds = load->rank * slice_bytes / level->rank_bytes_per_s;
  if (level->link_bytes_per_s > 0) seconds = larger(seconds, load->link * slice_bytes / level->link_bytes_per_s);
  if (l > 0) {
    const double devices = t->level[0].n_ranks, beside = stride < devices ? stride : devices;
    const double way_out = devices * level->rank_bytes_per_s / level->oversubscription;
    seconds = larger(seconds, load->group * beside * slice_bytes / way_out);
  }
  return seconds * 1e9;
}

static void add_round(const topology *t, const round_load *round, uint32_t stride, double slice_bytes,
                      cost_result *out) {
  double slowest_ns = -1, slowest_transfer_ns = 0;
  uint32_t slowest = 0;
  for (uint32_t l = 0; l < t->n_levels; ++l) {
    if (!round->level[l].rank) continue;
    const double moved_ns = transfer_ns(t, l, &round->level[l], stride, slice_bytes);
    if (t->level[l].latency_ns + moved_ns <= slowest_ns) continue;
    slowest_ns = t->level[l].latency_ns + moved_ns;
    slowest_transfer_ns = moved_ns;
    slowest = l;
  }
  if (slowest_ns >= 0) {
    out->latency_ns += round->times * (slowest_ns - slowest_transfer_ns);
    out->transfer_ns += round->times * slowest_transfer_ns;
    out->level_ns[slowest] += round->times * slowest_ns;
  }
  out->reduce_ns += round->times * (round->reduced * slice_bytes / t->reduce_bytes_per_s * 1e9);
}

status cost_of_schedule(cost_model *m, const schedule_spec *spec, const cost_call *call, cost_result *out) {
  const cost_profile *p;
  *out = (cost_result){.spec = *spec};
  TRY(cost_profile_find(m, spec, call->stride, &p));
  const double bytes = (double)call->bytes;
  const double slice_bytes = schedule_has_parts(spec->kind) ? bytes : bytes / schedule_whole_slices(spec);
  for (uint32_t i = 0; i < p->n_rounds; ++i) add_round(&m->t, &p->round[i], call->stride, slice_bytes, out);
  out->time_ns = out->latency_ns + out->transfer_ns + out->reduce_ns;
  return ST_OK;
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

/* The levels of the topology that the ranks are spread over, as those of a schedule; levels with one member are left
 * out. hccl_level[i] is that of the schedule's level i. False if groups are not equally large. */
static bool spread_levels(const topology *t, const cost_call *call, schedule_spec *spec, uint32_t *hccl_level) {
  uint32_t done = 1;
  spec->n_levels = 0;
  for (uint32_t l = 0; l < t->n_levels && done < call->n_ranks; ++l) {
    uint32_t within = call->n_ranks; /* ranks of the communicator in a group of this level */
    if (t->level[l].n_ranks && t->level[l].n_ranks < (uint64_t)call->n_ranks * call->stride) {
      if (t->level[l].n_ranks > call->stride && t->level[l].n_ranks % call->stride) return false;
      within = t->level[l].n_ranks > call->stride ? t->level[l].n_ranks / call->stride : 1;
    }
    if (within > call->n_ranks) within = call->n_ranks;
    if (within == done) continue;
    if (within % done || call->n_ranks % within) return false;
    hccl_level[spec->n_levels] = t->level[l].hccl_level;
    spec->size[spec->n_levels++] = within / done;
    done = within;
  }
  return spec->n_levels > 1;
}

/* The outermost level of HCCL's that the call uses. */
static uint32_t outer_level(const topology *t, const cost_call *call) {
  return t->level[topology_level_between(t, 0, (call->n_ranks - 1) * call->stride)].hccl_level;
}

/* Whether the user's name for this level is an algorithm that can do this kind. */
static bool forced_algorithm(const cost_model *m, comm_kind kind, uint32_t hccl_level, schedule_algorithm *out) {
  const char *name = hccl_level ? m->names.level[hccl_level] : NULL;
  if (!name || !schedule_algorithm_of(name, out)) return false;
  return schedule_supports(
      &(schedule_spec){.kind = kind, .n_levels = 1, .size = {2}, .algorithm = {*out}, .n_chunks = 1});
}

static bool wants_pipeline(const cost_model *m) {
  bool wants = false;
  for (int l = 1; l < 3; ++l) wants |= m->names.level[l] && strcmp(m->names.level[l], "pipeline") == 0;
  return wants;
}

/* Hierarchical schedules: a full mesh where HCCL's level is 0, and one algorithm for all levels above, but for those
 * that the user has chosen. A full mesh above is only taken if the user wants it: that a round costs alpha once,
 * whatever the number of messages, is not true for thousands of them through one port. */
static uint32_t add_hierarchical(const cost_model *m, const cost_call *call, schedule_spec *list) {
  schedule_spec spec = {.kind = call->kind, .root = call->root, .n_chunks = 1};
  uint32_t hccl_level[SCHEDULE_MAX_LEVELS], n = 0;
  if (!spread_levels(&m->t, call, &spec, hccl_level)) return 0;
  for (int a = SCHEDULE_RING; a < SCHEDULE_PAIRWISE; ++a) {
    for (uint32_t chunks = 1; chunks <= PIPELINE_CHUNKS; chunks *= PIPELINE_CHUNKS) {
      bool is_new = a == SCHEDULE_RING;
      for (uint32_t l = 0; l < spec.n_levels; ++l) {
        if (hccl_level[l] == 0) {
          spec.algorithm[l] = SCHEDULE_DIRECT;
        } else if (!forced_algorithm(m, spec.kind, hccl_level[l], &spec.algorithm[l])) {
          spec.algorithm[l] = (schedule_algorithm)a;
          is_new = true;
        }
      }
      spec.n_chunks = chunks;
      if (!is_new || !schedule_supports(&spec) || (chunks == 1 && wants_pipeline(m) && call->kind == COMM_ALL_REDUCE))
        continue;
      list[n++] = spec;
    }
  }
  return n;
}

static uint32_t add_flat(const cost_model *m, const cost_call *call, schedule_spec *list) {
  schedule_algorithm forced;
  uint32_t n = 0;
  const uint32_t level = outer_level(&m->t, call);
  const bool is_forced = forced_algorithm(m, call->kind, level, &forced);
  for (int a = is_forced || level == 0 ? SCHEDULE_DIRECT : SCHEDULE_RING; a < SCHEDULE_N_ALGORITHMS; ++a) {
    const schedule_spec spec = {.kind = call->kind,
                                .root = call->root,
                                .n_levels = 1,
                                .size = {call->n_ranks},
                                .algorithm = {(schedule_algorithm)a},
                                .n_chunks = 1};
    if (schedule_supports(&spec) && (!is_forced || (int)forced == a)) list[n++] = spec;
  }
  return n;
}

/* Whether the user has said how the levels above the server are to work, so that flat schedules are out. */
static bool is_by_levels(const cost_model *m, const cost_call *call) {
  schedule_algorithm forced;
  return forced_algorithm(m, call->kind, 1, &forced) || forced_algorithm(m, call->kind, 2, &forced) ||
         wants_pipeline(m);
}

status cost_choose(cost_model *m, const cost_call *call, cost_result *out) {
  schedule_spec list[MAX_CANDIDATES];
  uint32_t n = add_hierarchical(m, call, list);
  if (!n || !is_by_levels(m, call)) n += add_flat(m, call, list + n);
  INVARIANT(n <= MAX_CANDIDATES);
  if (!n) return fail(ST_INVALID_VALUE, "kind %d has no schedule", call->kind);
  for (uint32_t i = 0; i < n; ++i) {
    cost_result candidate;
    TRY(cost_of_schedule(m, &list[i], call, &candidate));
    if (i == 0 || candidate.time_ns < out->time_ns) *out = candidate;
  }
  return ST_OK;
}

void cost_words(const schedule_spec *spec, char *text, size_t room) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t l = 0; l < spec->n_levels && used < room; ++l)
    used +=
        (size_t)snprintf(text + used, room - used, "%s%s", l ? " + " : "", schedule_algorithm_name(spec->algorithm[l]));
  if (spec->n_chunks > 1 && used < room) snprintf(text + used, room - used, ", %u chunks", spec->n_chunks);
}
