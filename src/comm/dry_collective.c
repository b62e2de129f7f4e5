/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/dry_collective.h"

#include <stdio.h>

#include "base/lock.h"
#include "base/log.h"
#include "comm/net/hosts.h"
#include "comm/schedule/cost.h"
#include "runtime/device.h"
#include "runtime/dry/dry_clock.h"

/* Set by the first collective. */
static struct {
  mutex lock;
  bool is_made;
  topology t;
  cost_model *costs; /* guarded by the lock; NULL: there is no model, and collectives take no time */
} model = {.lock = MUTEX_INITIALIZER(DRY_COSTS)};

static void make_model(void) {
  const char *name = dry_chosen()->topology;
  if (!*name) name = topology_of_device(device_profile_of_all()->soc_name);
  model.is_made = true;
  if (topology_named(name, &model.t) != ST_OK) {
    fprintf(stderr, "cannon: collectives of this dry run take no time: %s\n", fail_take());
    return;
  }
  model.costs = cost_model_new(&model.t, &(cost_names){{NULL}});
  snprintf(trace_stats()->dry.topology, sizeof trace_stats()->dry.topology, "%s", model.t.name);
}

/* ---- where ranks are --------------------------------------------------------------------------------------------- */

static uint64_t comm_place_of(const comm *c, uint32_t rank) {
  const uint64_t host = c->hosts ? c->hosts->ranks[rank].host : 0;
  return host << 32 | (uint32_t)c->cards[rank].device;
}

/* Whether devices' numbers tell ranks apart, in their order. */
static bool places_tell(const comm *c) {
  for (uint32_t r = 1; r < c->n_ranks; ++r)
    if (comm_place_of(c, r) <= comm_place_of(c, r - 1)) return false;
  return true;
}

/* The number of a rank's device among all. A host is a group of the outermost level of a server. */
static uint32_t comm_device_of(const comm *c, uint32_t rank, bool tells) {
  if (!tells) return rank;
  uint32_t server = 1;
  for (uint32_t l = 0; l < model.t.n_levels; ++l)
    if (model.t.level[l].hccl_level == 0 && model.t.level[l].n_ranks) server = model.t.level[l].n_ranks;
  return (uint32_t)(comm_place_of(c, rank) >> 32) * server + (uint32_t)c->cards[rank].device;
}

/* How far the ranks are apart; those that are not equally far count as neighbours. */
static uint32_t stride_of(const comm *c) {
  const bool tells = places_tell(c);
  const uint32_t stride = comm_device_of(c, 1, tells) - comm_device_of(c, 0, tells);
  for (uint32_t r = 2; r < c->n_ranks; ++r)
    if (comm_device_of(c, r, tells) - comm_device_of(c, r - 1, tells) != stride) return 1;
  return stride;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static uint64_t mean_part_of(const uint64_t *counts, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; counts && i < n; ++i) sum += counts[i];
  return (sum + n - 1) / n;
}

/* Bytes as cost.h counts them: of the array, or of a rank's part, which is the mean where parts differ. */
static uint64_t call_bytes(const collective *op) {
  const collective_call *call = &op->call;
  const uint32_t n = op->c->n_ranks;
  uint64_t count = call->count;
  if (call->kind == COMM_BARRIER) return 0;
  if (job_has_arrays(call->kind)) {
    const uint64_t sent = mean_part_of(call->send_counts, n), received = mean_part_of(call->receive_counts, n);
    count = sent > received ? sent : received;
  }
  return count * comm_dtype_bytes(call->dtype);
}

static double collective_ns(const collective *op) {
  const comm *c = op->c;
  const cost_call call = {.kind = op->call.kind,
                          .n_ranks = c->n_ranks,
                          .stride = stride_of(c),
                          .root = op->call.root < c->n_ranks ? op->call.root : 0,
                          .bytes = op->dry_bytes};
  cost_result cost;
  if (cost_choose(model.costs, &call, &cost) == ST_OK) return cost.time_ns;
  log_line(LOG_WARNING, "a collective of a dry run takes no time: %s", fail_take());
  return 0;
}

/* ---- transfers --------------------------------------------------------------------------------------------------- */

/* What goes over links of a level, by direction: all of it, and what goes to or from one peer. */
typedef struct {
  uint64_t sent[2], most_of_link;
} link_load;

/* Bytes that go the same way to the same peer as transfer i, up to that. */
static uint64_t bytes_of_link(const collective_transfer *x, uint32_t i) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k <= i; ++k)
    if (x[k].peer == x[i].peer && x[k].receives == x[i].receives) bytes += x[k].count * comm_dtype_bytes(x[k].dtype);
  return bytes;
}

static double transfers_ns(const comm *c, const collective_transfer *x, uint32_t n) {
  link_load load[SCHEDULE_MAX_LEVELS] = {0};
  bool is_used[SCHEDULE_MAX_LEVELS] = {false};
  const bool tells = places_tell(c);
  const uint32_t own = comm_device_of(c, c->rank, tells);
  for (uint32_t i = 0; i < n; ++i) {
    if (x[i].peer == c->rank) continue;
    const uint32_t l = topology_level_between(&model.t, own, comm_device_of(c, x[i].peer, tells));
    const uint64_t of_link = bytes_of_link(x, i);
    load[l].sent[x[i].receives] += x[i].count * comm_dtype_bytes(x[i].dtype);
    if (of_link > load[l].most_of_link) load[l].most_of_link = of_link;
    is_used[l] = true;
  }
  double longest = 0;
  for (uint32_t l = 0; l < model.t.n_levels; ++l) {
    const topology_level *level = &model.t.level[l];
    const uint64_t most = load[l].sent[load[l].sent[1] > load[l].sent[0]];
    double seconds = (double)most / level->rank_bytes_per_s;
    if (level->link_bytes_per_s > 0 && (double)load[l].most_of_link / level->link_bytes_per_s > seconds)
      seconds = (double)load[l].most_of_link / level->link_bytes_per_s;
    if (is_used[l] && level->latency_ns + seconds * 1e9 > longest) longest = level->latency_ns + seconds * 1e9;
  }
  return longest;
}

static double own_ns(const collective *op) {
  const collective_call *call = &op->call;
  if (op->c->n_ranks == 1) return 0;
  if (call->kind == COMM_BATCH_SEND_RECV) return transfers_ns(op->c, op->transfers, op->n_transfers);
  if (call->kind != COMM_SEND && call->kind != COMM_RECV) return collective_ns(op);
  return transfers_ns(
      op->c,
      &(collective_transfer){
          .receives = call->kind == COMM_RECV, .count = call->count, .dtype = call->dtype, .peer = call->root},
      1);
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

void dry_collective_come(collective *op, const stream *s) {
  if (op->dry_bytes_known) return;
  op->dry_bytes_known = true;
  op->dry_begin_ns = dry_clock(s);
  op->dry_bytes = op->call.kind == COMM_BATCH_SEND_RECV ? 0 : call_bytes(op);
}

void dry_collective_tell(const collective *op, node_record *r) {
  r->dry_ns = op->dry_begin_ns;
  r->dry_bytes = op->dry_bytes;
}

void dry_collective_hear(collective *op, const node_record *r) {
  if (r->dry_ns > op->dry_begin_ns) op->dry_begin_ns = r->dry_ns;
  if (r->dry_bytes > op->dry_bytes) op->dry_bytes = r->dry_bytes;
}

void dry_collective_done(const collective *op, stream *s) {
  mutex_lock(&model.lock);
  if (!model.is_made) make_model();
  const double ns = model.costs ? own_ns(op) : 0;
  mutex_unlock(&model.lock);
  dry_communicate(s, &trace_stats()->collectives[op->call.kind], op->dry_begin_ns, (uint64_t)(ns + 0.5));
}
