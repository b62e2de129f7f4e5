/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/scale.h"

#include <stdlib.h>
#include <string.h>

#include "replay/replay_allocator.h"

/* ---- communicators that grow ------------------------------------------------------------------------------------- */

/* Whether a communicator is the named one, or as large and spread as it: those that other ranks have in its place. */
static bool like_named(const scale_trace *t, const scale_options *o, const scale_group *g) {
  for (const scale_group *named = t->group; named < t->group + t->n_groups; ++named)
    if (named->id == o->grows_id && named->n_ranks == g->n_ranks && named->stride == g->stride) return true;
  return false;
}

bool scale_grows(const scale_trace *t, const scale_options *o, const scale_group *g) {
  return g->n_ranks == t->world || (o->grows_size && g->n_ranks == o->grows_size) || (o->has_id && like_named(t, o, g));
}

/* Whether n devices are whole communicators: groups of k that do not grow, and k * n / world ranks of those that do. */
static bool scale_fits(const scale_trace *t, const scale_options *o, uint32_t n) {
  for (size_t i = 0; i < t->n_groups; ++i) {
    const uint64_t k = t->group[i].n_ranks;
    if (scale_grows(t, o, &t->group[i]) ? k * n % t->world : n % k) return false;
  }
  return true;
}

uint32_t scale_round_up(const scale_trace *t, const scale_options *o, uint32_t n) {
  while (n < SCALE_MAX_DEVICES && !scale_fits(t, o, n)) ++n;
  return n;
}

/* The smallest distance of the members of communicators that grow, other than those of all ranks. */
static uint32_t growing_stride(const scale_trace *t, const scale_options *o) {
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < t->n_groups; ++i) {
    const scale_group *g = &t->group[i];
    if (!scale_grows(t, o, g) || g->n_ranks == t->world) continue;
    const uint32_t stride = g->stride ? g->stride : t->world / g->n_ranks;
    if (stride < least) least = stride;
  }
  return least;
}

/* How far the members of a communicator are apart among n devices. What grows pushes those apart that were farther. */
static uint32_t stride_at(const scale_trace *t, const scale_options *o, const scale_group *g, uint32_t n) {
  if (g->n_ranks == t->world) return 1;
  if (scale_grows(t, o, g)) return g->stride ? g->stride : t->world / g->n_ranks ? t->world / g->n_ranks : 1;
  const uint32_t stride = g->stride ? g->stride : 1;
  const uint32_t apart = (uint32_t)((uint64_t)stride * n / t->world);
  return stride > growing_stride(t, o) && apart ? apart : stride;
}

/* ---- costs of classes -------------------------------------------------------------------------------------------- */

/* The call of a class on n devices. An AllReduce's array stays as long as it is. Where each rank has a part, the whole
 * stays: the parameters of the model, or the tokens of a rank. */
static cost_call call_at(const scale_trace *t, const scale_options *o, const scale_class *c, uint32_t n) {
  const scale_group *g = &t->group[c->group];
  const uint32_t stride = stride_at(t, o, g, n);
  cost_call call = {.kind = (comm_kind)c->call_kind, .n_ranks = g->n_ranks, .stride = stride, .bytes = c->bytes};
  if (c->distance) { /* Send, Recv, BatchSendRecv */
    call.kind = COMM_SEND;
    call.n_ranks = g->n_ranks < 2 ? 1 : 2;
    call.stride = stride * c->distance;
    call.root = call.n_ranks - 1;
    return call;
  }
  if (scale_grows(t, o, g)) call.n_ranks = (uint32_t)((uint64_t)g->n_ranks * n / t->world);
  if (schedule_has_parts(call.kind)) call.bytes = c->bytes * g->n_ranks / call.n_ranks;
  call.root = c->root < call.n_ranks ? c->root : 0;
  return call;
}

static status cost_classes(const scale_trace *t, const scale_options *o, cost_model *m, uint32_t n, cost_result *cost) {
  for (size_t i = 0; i < t->n_classes; ++i) {
    const cost_call call = call_at(t, o, &t->class[i], n);
    cost[i] = (cost_result){.time_ns = 0};
    if (call.n_ranks > 1) TRY(cost_choose(m, &call, &cost[i]));
  }
  return ST_OK;
}

/* ---- running the streams again ----------------------------------------------------------------------------------- */

/* A stretch of time in which a stream works or communicates. */
typedef struct {
  double begin, end;
  uint32_t class; /* of a collective */
} span;

typedef struct {
  span *at;
  size_t n;
} span_list;

typedef struct {
  size_t next; /* item */
  double now;
  bool arrived; /* at the meeting that is the next item */
} lane_state;

typedef struct {
  uint32_t n_arrived, n_left;
  double begin; /* the latest arrival */
} meeting_state;

typedef struct {
  const scale_trace *t;
  const cost_result *cost;
  double compute; /* factor of work */
  lane_state *lane;
  meeting_state *meeting;
  double *reached;             /* by record of an event; negative: not yet */
  span_list *works, *meetings; /* by rank */
  uint64_t n_forced;
  double end;
} replay;

static void add_span(span_list *l, double begin, double end, uint32_t class) {
  if (end > begin) l->at[l->n++] = (span){begin, end, class};
}

/* Takes part in a meeting. False if others are missing. */
static bool step_meeting(replay *r, lane_state *l, const scale_item *item, uint32_t rank) {
  meeting_state *m = &r->meeting[item->index];
  if (!l->arrived) {
    l->arrived = true;
    ++m->n_arrived;
    if (l->now > m->begin) m->begin = l->now;
  }
  if (m->n_arrived < r->t->meeting[item->index].n_expected) return false;
  l->arrived = false;
  l->now = m->begin + r->cost[item->class].time_ns;
  add_span(&r->meetings[rank], m->begin, l->now, item->class);
  return true;
}

/* Does one item of a stream; false if it must wait. */
static bool step_item(replay *r, lane_state *l, const scale_item *item, uint32_t rank) {
  switch (item->kind) {
  case SCALE_WORK:
    add_span(&r->works[rank], l->now, l->now + item->ns * r->compute, 0);
    l->now += item->ns * r->compute;
    return true;
  case SCALE_REACHED: r->reached[item->index] = l->now; return true;
  case SCALE_PASSED:
    if (r->reached[item->index] < 0) return false;
    if (r->reached[item->index] > l->now) l->now = r->reached[item->index];
    return true;
  default: return step_meeting(r, l, item, rank);
  }
}

/* Runs each stream as far as it gets. Returns whether any got on. */
static bool step_lanes(replay *r) {
  bool any = false;
  for (size_t i = 0; i < r->t->n_lanes; ++i) {
    const scale_lane *lane = &r->t->lane[i];
    lane_state *l = &r->lane[i];
    while (l->next < lane->n_items && step_item(r, l, &lane->item[l->next], lane->rank)) {
      ++l->next;
      any = true;
    }
  }
  return any;
}

/* All streams wait: gives up the wait of the stream that is least advanced. False if none waits. */
static bool force_one(replay *r) {
  size_t least = SIZE_MAX;
  for (size_t i = 0; i < r->t->n_lanes; ++i)
    if (r->lane[i].next < r->t->lane[i].n_items && (least == SIZE_MAX || r->lane[i].now < r->lane[least].now))
      least = i;
  if (least == SIZE_MAX) return false;
  lane_state *l = &r->lane[least];
  const scale_item *item = &r->t->lane[least].item[l->next];
  if (item->kind == SCALE_PASSED)
    r->reached[item->index] = l->now;
  else
    r->meeting[item->index].n_arrived = r->t->meeting[item->index].n_expected;
  ++r->n_forced;
  return true;
}

/* A wait for a record that the recording does not have, since it came before, is none. */
static void replay_begin(replay *r) {
  const scale_trace *t = r->t;
  for (size_t i = 0; i < t->n_lanes; ++i)
    for (const scale_item *k = t->lane[i].item; k < t->lane[i].item + t->lane[i].n_items; ++k) {
      const uint32_t rank = t->lane[i].rank;
      if (k->kind == SCALE_REACHED) r->reached[k->index] = -1;
      if (k->kind == SCALE_WORK) ++r->works[rank].n;
      if (k->kind == SCALE_COLLECTIVE) ++r->meetings[rank].n;
    }
  for (size_t i = 0; i < t->n_ranks; ++i) {
    r->works[i] = (span_list){replay_must_alloc((r->works[i].n + 1) * sizeof(span)), 0};
    r->meetings[i] = (span_list){replay_must_alloc((r->meetings[i].n + 1) * sizeof(span)), 0};
  }
}

static void replay_all(replay *r) {
  replay_begin(r);
  do {
    while (step_lanes(r)) {
    }
  } while (force_one(r));
  for (size_t i = 0; i < r->t->n_lanes; ++i)
    if (r->lane[i].now > r->end) r->end = r->lane[i].now;
}

/* ---- what is exposed --------------------------------------------------------------------------------------------- */

static int span_order(const void *a, const void *b) {
  const double x = ((const span *)a)->begin, y = ((const span *)b)->begin;
  return (x > y) - (x < y);
}

/* Sorts the spans and merges those that touch. Returns their total length. */
static double merge_spans(span_list *l) {
  double total = 0;
  size_t used = 0;
  qsort(l->at, l->n, sizeof *l->at, span_order);
  for (size_t i = 0; i < l->n; ++i) {
    if (used && l->at[i].begin <= l->at[used - 1].end) {
      if (l->at[i].end > l->at[used - 1].end) l->at[used - 1].end = l->at[i].end;
    } else {
      l->at[used++] = l->at[i];
    }
  }
  l->n = used;
  for (size_t i = 0; i < used; ++i) total += l->at[i].end - l->at[i].begin;
  return total;
}

/* How much of [begin, end) the merged spans cover. */
static double covered(const span_list *l, double begin, double end) {
  double total = 0;
  size_t low = 0, high = l->n; /* the first span that ends behind `begin` */
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (l->at[middle].end <= begin)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < l->n && l->at[low].begin < end; ++low) {
    const double from = l->at[low].begin > begin ? l->at[low].begin : begin;
    total += (l->at[low].end < end ? l->at[low].end : end) - from;
  }
  return total;
}

static void add_call(scale_kind *k, const cost_result *c, double exposed_ns) {
  ++k->n_calls;
  k->time_ns += c->time_ns;
  k->exposed_ns += exposed_ns;
  k->latency_ns += c->latency_ns;
  k->transfer_ns += c->transfer_ns;
  k->reduce_ns += c->reduce_ns;
  for (int l = 0; l < SCHEDULE_MAX_LEVELS; ++l) k->level_ns[l] += c->level_ns[l];
  if (c->time_ns < k->longest_ns) return;
  k->longest_ns = c->time_ns;
  k->longest = c->spec;
}

/* Adds a rank's communication to the result. */
static void account_rank(replay *r, size_t rank, scale_result *out) {
  span_list *works = &r->works[rank], *meetings = &r->meetings[rank];
  merge_spans(works);
  for (size_t i = 0; i < meetings->n; ++i) {
    const span *s = &meetings->at[i];
    add_call(&out->kind[r->t->class[s->class].call_kind], &r->cost[s->class],
             s->end - s->begin - covered(works, s->begin, s->end));
  }
  const double n = (double)r->t->n_ranks;
  const double total = merge_spans(meetings);
  out->communication_ns += total / n;
  out->exposed_ns += total / n;
  for (size_t i = 0; i < meetings->n; ++i)
    out->exposed_ns -= covered(works, meetings->at[i].begin, meetings->at[i].end) / n;
}

static double run_once(const scale_trace *t, const cost_result *cost, double compute, scale_result *out) {
  replay r = {.t = t, .cost = cost, .compute = compute};
  r.lane = replay_must_alloc((t->n_lanes + 1) * sizeof *r.lane);
  r.meeting = replay_must_alloc((t->n_meetings + 1) * sizeof *r.meeting);
  r.reached = replay_must_alloc((t->n_records + 1) * sizeof *r.reached);
  r.works = replay_must_alloc((t->n_ranks + 1) * sizeof *r.works);
  r.meetings = replay_must_alloc((t->n_ranks + 1) * sizeof *r.meetings);
  replay_all(&r);
  for (size_t i = 0; out && i < t->n_ranks; ++i) account_rank(&r, i, out);
  if (out) out->n_forced = r.n_forced;
  for (size_t i = 0; i < t->n_ranks; ++i) {
    free(r.works[i].at);
    free(r.meetings[i].at);
  }
  free(r.lane);
  free(r.meeting);
  free(r.reached);
  free(r.works);
  free(r.meetings);
  return r.end;
}

status scale_run(const scale_trace *t, const scale_options *o, cost_model *m, uint32_t n_devices, scale_result *out) {
  *out = (scale_result){.n_devices = n_devices};
  if (n_devices < 1 || n_devices > SCALE_MAX_DEVICES || !scale_fits(t, o, n_devices))
    return fail(ST_INVALID_VALUE, "%u devices are not whole communicators, expected for example %u", n_devices,
                scale_round_up(t, o, n_devices ? n_devices : 1));
  const double compute = o->strong ? o->compute * t->world / n_devices : o->compute;
  cost_result *cost = replay_must_alloc((t->n_classes + 1) * sizeof *cost);
  out->compute_ns = run_once(t, cost, compute, NULL); /* all zeros: collectives take no time */
  const status st = cost_classes(t, o, m, n_devices, cost);
  if (!st) out->step_ns = run_once(t, cost, compute, out);
  free(cost);
  return st;
}

int scale_worst_kind(const scale_result *r) {
  int worst = -1;
  for (int k = 0; k < COMM_N_KINDS; ++k)
    if (r->kind[k].exposed_ns > 0 && (worst < 0 || r->kind[k].exposed_ns > r->kind[worst].exposed_ns)) worst = k;
  return worst;
}
