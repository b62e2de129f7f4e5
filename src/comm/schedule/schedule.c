/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/invariant.h"
#include "comm/schedule/schedule_hops.h"

/* ---- names and what there is ------------------------------------------------------------------------------------- */

static const char *const algorithm_names[SCHEDULE_N_ALGORITHMS] = {
    [SCHEDULE_DIRECT] = "fullmesh", [SCHEDULE_RING] = "ring", [SCHEDULE_HALVING_DOUBLING] = "H-D_R",
    [SCHEDULE_NHR] = "NHR",         [SCHEDULE_NB] = "NB",     [SCHEDULE_PAIRWISE] = "pairwise",
};

const char *schedule_algorithm_name(schedule_algorithm a) { return algorithm_names[a]; }

bool schedule_algorithm_of(const char *name, schedule_algorithm *out) {
  if (strcmp(name, "NHR_V1") == 0) name = algorithm_names[SCHEDULE_NHR];
  for (int i = 0; i < SCHEDULE_N_ALGORITHMS; ++i) {
    if (strcmp(name, algorithm_names[i]) != 0) continue;
    *out = (schedule_algorithm)i;
    return true;
  }
  return false;
}

uint32_t schedule_n_ranks(const schedule_spec *spec) {
  uint32_t n = 1;
  for (uint32_t l = 0; l < spec->n_levels; ++l) n *= spec->size[l];
  return n;
}

uint32_t schedule_whole_slices(const schedule_spec *spec) {
  const bool is_pair = spec->kind == COMM_SEND || spec->kind == COMM_RECV;
  return is_pair ? 1 : schedule_n_ranks(spec) * spec->n_chunks;
}

bool schedule_has_parts(comm_kind kind) {
  return kind != COMM_ALL_REDUCE && kind != COMM_REDUCE && kind != COMM_BROADCAST && kind != COMM_BARRIER;
}

static bool schedule_is_v(comm_kind kind) {
  return kind == COMM_REDUCE_SCATTER_V || kind == COMM_ALL_GATHER_V || kind == COMM_ALL_TO_ALL_V ||
         kind == COMM_ALL_TO_ALL_VC;
}

static bool schedule_is_all_to_all(comm_kind kind) {
  return kind == COMM_ALL_TO_ALL || kind == COMM_ALL_TO_ALL_V || kind == COMM_ALL_TO_ALL_VC;
}

static bool schedule_has_levels(comm_kind kind) {
  return kind == COMM_ALL_REDUCE || kind == COMM_BARRIER || kind == COMM_REDUCE_SCATTER || kind == COMM_ALL_GATHER;
}

bool schedule_supports(const schedule_spec *spec) {
  if (spec->kind >= COMM_BATCH_SEND_RECV || spec->n_levels < 1 || spec->n_levels > SCHEDULE_MAX_LEVELS) return false;
  if (spec->n_levels > 1 && !schedule_has_levels(spec->kind)) return false;
  const bool may_be_cut = spec->kind == COMM_ALL_REDUCE && spec->n_levels > 1;
  if (spec->n_chunks < 1 || spec->n_chunks > (may_be_cut ? SCHEDULE_MAX_CHUNKS : 1)) return false;
  for (uint32_t l = 0; l < spec->n_levels; ++l) {
    const schedule_algorithm a = spec->algorithm[l];
    if (spec->size[l] < 1 || a >= SCHEDULE_N_ALGORITHMS) return false;
    if (schedule_is_all_to_all(spec->kind) ? a != SCHEDULE_DIRECT && a != SCHEDULE_PAIRWISE : a == SCHEDULE_PAIRWISE)
      return false;
    if (schedule_is_v(spec->kind) && !schedule_is_all_to_all(spec->kind) && a != SCHEDULE_DIRECT && a != SCHEDULE_RING)
      return false;
  }
  return true;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

typedef struct {
  schedule *out;
  uint32_t capacity;
  bool failed; /* there was no memory */
  const schedule_spec *spec;
  uint32_t rank, n;
} builder;

/* Slices of the whole array in a buffer: slice i is the buffer's slice i - shift. */
typedef struct {
  schedule_buffer buffer;
  uint32_t shift;
} place;

/* One level's exchange: the members of the rank's group are base, base + stride, ...; member i has the block of `width`
 * slices that begins at first + i * width. */
typedef struct {
  uint32_t level, base, stride, size, index;
  uint32_t first, width;
  uint32_t scratch; /* where the exchange's part of scratch begins */
} exchange;

static void add_step(builder *b, schedule_step step) {
  schedule *s = b->out;
  if (s->n_steps == b->capacity) {
    const uint32_t capacity = b->capacity ? 2 * b->capacity : 64;
    schedule_step *grown = realloc(s->step, capacity * sizeof *grown);
    b->failed |= !grown;
    if (!grown) return;
    s->step = grown;
    b->capacity = capacity;
  }
  s->step[s->n_steps++] = step;
}

/* In V forms slice by slice, since neighbours in a buffer need not lie side by side. */
static void add_copy(builder *b, uint32_t round, schedule_buffer from_buffer, uint32_t from, place to, uint32_t at,
                     uint32_t count) {
  const uint32_t piece = schedule_is_v(b->spec->kind) ? 1 : count;
  for (uint32_t i = 0; i < count; i += piece)
    add_step(b, (schedule_step){.action = SCHEDULE_COPY,
                                .round = round,
                                .from_buffer = from_buffer,
                                .from = from + i,
                                .to_buffer = to.buffer,
                                .to = at - to.shift + i,
                                .count = piece});
}

static void add_send(builder *b, const exchange *x, uint32_t round, uint32_t member, place from, uint32_t at,
                     uint32_t count) {
  add_step(b, (schedule_step){.action = SCHEDULE_SEND,
                              .level = (uint8_t)x->level,
                              .round = round,
                              .peer = x->base + member * x->stride,
                              .from_buffer = from.buffer,
                              .from = at - from.shift,
                              .count = count});
}

static void add_receive(builder *b, const exchange *x, uint32_t round, uint32_t member, place to, uint32_t at,
                        uint32_t count) {
  add_step(b, (schedule_step){.action = SCHEDULE_RECEIVE,
                              .level = (uint8_t)x->level,
                              .round = round,
                              .peer = x->base + member * x->stride,
                              .to_buffer = to.buffer,
                              .to = at - to.shift,
                              .count = count});
}

static void add_reduce(builder *b, uint32_t round, uint32_t from, uint32_t n_in, uint32_t own_at, place to, uint32_t at,
                       uint32_t count) {
  add_step(b, (schedule_step){.action = SCHEDULE_REDUCE,
                              .round = round,
                              .from_buffer = SCHEDULE_SCRATCH,
                              .from = from,
                              .to_buffer = to.buffer,
                              .to = at - to.shift,
                              .count = count,
                              .n_in = n_in,
                              .own_at = own_at});
}

/* ---- exchanges between the members of a group -------------------------------------------------------------------- */

/* The i-th contiguous run of a hop's blocks; false if there is none. */
static bool hop_run(const schedule_hop *h, uint32_t size, uint32_t i, uint32_t *first, uint32_t *count) {
  if (h->stride != 1) {
    *first = (uint32_t)((h->first + (uint64_t)i * h->stride) % size);
    *count = 1;
    return i < h->count;
  }
  const uint32_t before_end = size - h->first < h->count ? size - h->first : h->count;
  *first = i ? 0 : h->first;
  *count = i ? h->count - before_end : before_end;
  return i < 2 && *count;
}

/* Every member has its own block; afterwards all have all blocks in `work`. `own` is where the own block is sent from.
 * Returns the number of rounds. */
static uint32_t exchange_gather(builder *b, const exchange *x, uint32_t round, place own, place work) {
  const schedule_algorithm a = b->spec->algorithm[x->level];
  const uint32_t n_rounds = schedule_hop_rounds(a, x->size);
  for (uint32_t k = 0; k < n_rounds; ++k) {
    schedule_hop h;
    uint32_t first, count;
    for (uint32_t i = 0; schedule_hop_send(a, x->size, x->index, k, i, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_send(b, x, round + k, h.peer, a == SCHEDULE_DIRECT ? own : work, x->first + first * x->width,
                 count * x->width);
    for (uint32_t i = 0; schedule_hop_receive(a, x->size, x->index, k, i, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_receive(b, x, round + k, h.peer, work, x->first + first * x->width, count * x->width);
  }
  return n_rounds;
}

/* Receives a hop's blocks into scratch, from place *at on, and reduces them into `work`. The order of the operands is
 * that of the members. */
static void receive_reduced(builder *b, const exchange *x, uint32_t round, const schedule_hop *h, uint32_t *at,
                            place work) {
  const place scratch = {SCHEDULE_SCRATCH, 0};
  uint32_t first, count;
  for (uint32_t run = 0; hop_run(h, x->size, run, &first, &count); ++run) {
    const uint32_t slices = count * x->width;
    add_receive(b, x, round, h->peer, scratch, *at, slices);
    if (b->spec->algorithm[x->level] != SCHEDULE_DIRECT)
      add_reduce(b, round, *at, 1, h->peer < x->index ? 1 : 0, work, x->first + first * x->width, slices);
    *at += slices;
  }
}

/* The reverse of exchange_gather: every member has all blocks; afterwards `work` has the reduction of the own one. What
 * a direct exchange sends is in `all`, what others send is in `work`. */
static uint32_t exchange_reduce(builder *b, const exchange *x, uint32_t round, place all, place work) {
  const schedule_algorithm a = b->spec->algorithm[x->level];
  const uint32_t n_rounds = schedule_hop_rounds(a, x->size);
  for (uint32_t k = 0; k < n_rounds; ++k) {
    const uint32_t mirrored = n_rounds - 1 - k;
    schedule_hop h;
    uint32_t first, count, at = x->scratch;
    for (uint32_t i = 0; schedule_hop_receive(a, x->size, x->index, mirrored, i, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_send(b, x, round + k, h.peer, a == SCHEDULE_DIRECT ? all : work, x->first + first * x->width,
                 count * x->width);
    for (uint32_t i = 0; schedule_hop_send(a, x->size, x->index, mirrored, i, &h); ++i)
      receive_reduced(b, x, round + k, &h, &at, work);
    if (a == SCHEDULE_DIRECT)
      add_reduce(b, round + k, x->scratch, x->size - 1, x->index, work, x->first + x->index * x->width, x->width);
  }
  return n_rounds;
}

/* The root has all blocks; afterwards each member has its own (and those that it has passed on). */
static uint32_t exchange_scatter(builder *b, const exchange *x, uint32_t round, place from, place work, uint32_t root) {
  const schedule_algorithm a = b->spec->algorithm[x->level];
  const uint32_t n_rounds = schedule_hop_rounds(a, x->size);
  for (uint32_t k = 0; k < n_rounds; ++k) {
    schedule_hop h;
    uint32_t first, count;
    for (uint32_t i = 0; schedule_hop_down(a, x->size, root, x->index, k, i, true, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_send(b, x, round + k, h.peer, from, x->first + first * x->width, count * x->width);
    for (uint32_t i = 0; schedule_hop_down(a, x->size, root, x->index, k, i, false, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_receive(b, x, round + k, h.peer, work, x->first + first * x->width, count * x->width);
  }
  return n_rounds;
}

/* The reverse: each member has its own block; afterwards the root has all. */
static uint32_t exchange_collect(builder *b, const exchange *x, uint32_t round, place work, uint32_t root) {
  const schedule_algorithm a = b->spec->algorithm[x->level];
  const uint32_t n_rounds = schedule_hop_rounds(a, x->size);
  for (uint32_t k = 0; k < n_rounds; ++k) {
    const uint32_t mirrored = n_rounds - 1 - k;
    schedule_hop h;
    uint32_t first, count;
    for (uint32_t i = 0; schedule_hop_down(a, x->size, root, x->index, mirrored, i, false, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_send(b, x, round + k, h.peer, work, x->first + first * x->width, count * x->width);
    for (uint32_t i = 0; schedule_hop_down(a, x->size, root, x->index, mirrored, i, true, &h); ++i)
      for (uint32_t run = 0; hop_run(&h, x->size, run, &first, &count); ++run)
        add_receive(b, x, round + k, h.peer, work, x->first + first * x->width, count * x->width);
  }
  return n_rounds;
}

/* ---- levels ------------------------------------------------------------------------------------------------------ */

/* How many places of scratch an exchange that reduces needs at most. */
static uint32_t scratch_of(const schedule_spec *spec, uint32_t level, uint32_t width) {
  const uint32_t size = spec->size[level];
  if (spec->algorithm[level] == SCHEDULE_RING) return width;
  return (spec->algorithm[level] == SCHEDULE_DIRECT ? size - 1 : size + 1) * width;
}

/* The rank's exchange of each level, for n slices from `first` on: a block of a level is the array of the next. */
static void exchanges_init(const builder *b, uint32_t first, exchange x[SCHEDULE_MAX_LEVELS]) {
  const schedule_spec *spec = b->spec;
  uint32_t stride = 1, width = b->n, scratch = 0;
  for (uint32_t l = 0; l < spec->n_levels; ++l) {
    const uint32_t size = spec->size[l], index = b->rank / stride % size;
    width /= size;
    x[l] = (exchange){l, b->rank - index * stride, stride, size, index, first, width, scratch};
    scratch += scratch_of(spec, l, width);
    first += index * width;
    stride *= size;
  }
}

/* Where the block that belongs to a rank is in an array whose levels are nested as exchanges_init has them. */
static uint32_t nested_place(const builder *b, uint32_t rank) {
  uint32_t at = 0, width = b->n;
  for (uint32_t l = 0; l < b->spec->n_levels; ++l) {
    width /= b->spec->size[l];
    at += rank % b->spec->size[l] * width;
    rank /= b->spec->size[l];
  }
  return at;
}

/* The phases of an AllReduce: the levels upwards (reducing), and downwards again. Phase p of chunk c is in stage p + c,
 * so that a stage has different levels at work. */
static void build_all_reduce(builder *b) {
  const schedule_spec *spec = b->spec;
  const uint32_t n_phases = 2 * spec->n_levels, n_chunks = spec->n_chunks;
  const place send = {SCHEDULE_SEND_BUFFER, 0}, work = {SCHEDULE_RECEIVE_BUFFER, 0};
  const bool is_direct = spec->algorithm[0] == SCHEDULE_DIRECT && spec->size[0] > 1;
  uint32_t round = is_direct ? 0 : 1;
  if (!is_direct) add_copy(b, 0, SCHEDULE_SEND_BUFFER, 0, work, 0, b->n * n_chunks);
  for (uint32_t stage = 0; stage < n_phases + n_chunks - 1; ++stage) {
    uint32_t longest = 0;
    for (uint32_t c = 0; c < n_chunks && c <= stage; ++c) {
      const uint32_t phase = stage - c;
      exchange x[SCHEDULE_MAX_LEVELS];
      if (phase >= n_phases) continue;
      exchanges_init(b, c * b->n, x);
      const exchange *at = &x[phase < spec->n_levels ? phase : n_phases - 1 - phase];
      if (phase == 0 && is_direct) {
        const uint32_t own = at->first + at->index * at->width;
        add_copy(b, round, SCHEDULE_SEND_BUFFER, own, work, own, at->width);
      }
      const uint32_t n_rounds = phase < spec->n_levels ? exchange_reduce(b, at, round, phase ? work : send, work)
                                                       : exchange_gather(b, at, round, work, work);
      if (n_rounds > longest) longest = n_rounds;
    }
    round += longest;
  }
}

static void build_reduce_scatter(builder *b) {
  const uint32_t n_levels = b->spec->n_levels;
  const bool is_direct = n_levels == 1 && b->spec->algorithm[0] == SCHEDULE_DIRECT;
  const place send = {SCHEDULE_SEND_BUFFER, 0}, receive = {SCHEDULE_RECEIVE_BUFFER, 0};
  const place own = {SCHEDULE_RECEIVE_BUFFER, b->rank}, work = {SCHEDULE_WORK, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  uint32_t round = 1;
  exchanges_init(b, 0, x);
  if (is_direct || b->n == 1) {
    add_copy(b, 0, SCHEDULE_SEND_BUFFER, b->rank, own, b->rank, 1);
    if (b->n > 1) exchange_reduce(b, &x[0], 0, send, own);
    return;
  }
  if (n_levels == 1)
    add_copy(b, 0, SCHEDULE_SEND_BUFFER, 0, work, 0, b->n);
  else
    for (uint32_t i = 0; i < b->n; ++i) add_copy(b, 0, SCHEDULE_SEND_BUFFER, i, work, nested_place(b, i), 1);
  for (uint32_t l = 0; l < n_levels; ++l) round += exchange_reduce(b, &x[l], round, work, work);
  add_copy(b, round - 1, SCHEDULE_WORK, nested_place(b, b->rank), receive, 0, 1);
}

static void build_all_gather(builder *b) {
  const uint32_t n_levels = b->spec->n_levels, own = nested_place(b, b->rank);
  const bool is_direct = n_levels == 1 && b->spec->algorithm[0] == SCHEDULE_DIRECT;
  const place receive = {SCHEDULE_RECEIVE_BUFFER, 0};
  const place send = {SCHEDULE_SEND_BUFFER, own}, work = {n_levels == 1 ? SCHEDULE_RECEIVE_BUFFER : SCHEDULE_WORK, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  uint32_t round = is_direct ? 0 : 1;
  exchanges_init(b, 0, x);
  add_copy(b, 0, SCHEDULE_SEND_BUFFER, 0, work, own, 1);
  for (uint32_t l = n_levels; l-- > 0;) round += exchange_gather(b, &x[l], round, is_direct ? send : work, work);
  if (n_levels > 1)
    for (uint32_t i = 0; i < b->n; ++i) add_copy(b, round - 1, SCHEDULE_WORK, nested_place(b, i), receive, i, 1);
}

static void build_broadcast(builder *b) {
  const place work = {SCHEDULE_RECEIVE_BUFFER, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  exchanges_init(b, 0, x);
  const uint32_t round = exchange_scatter(b, x, 0, work, work, b->spec->root);
  exchange_gather(b, x, round, work, work);
}

/* Only the root's receive buffer may be written to. */
static void build_reduce(builder *b) {
  const bool is_direct = b->spec->algorithm[0] == SCHEDULE_DIRECT && b->n > 1;
  const place send = {SCHEDULE_SEND_BUFFER, 0};
  const place work = {b->rank == b->spec->root ? SCHEDULE_RECEIVE_BUFFER : SCHEDULE_WORK, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  uint32_t round = is_direct ? 0 : 1;
  exchanges_init(b, 0, x);
  add_copy(b, 0, SCHEDULE_SEND_BUFFER, is_direct ? b->rank : 0, work, is_direct ? b->rank : 0, is_direct ? 1 : b->n);
  round += exchange_reduce(b, x, round, send, work);
  exchange_collect(b, x, round, work, b->spec->root);
}

static void build_scatter(builder *b) {
  const bool is_direct = b->spec->algorithm[0] == SCHEDULE_DIRECT, is_root = b->rank == b->spec->root;
  const place send = {SCHEDULE_SEND_BUFFER, 0}, receive = {SCHEDULE_RECEIVE_BUFFER, b->rank},
              passed = {SCHEDULE_WORK, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  exchanges_init(b, 0, x);
  const uint32_t n_rounds =
      exchange_scatter(b, x, 0, is_root ? send : passed, is_direct ? receive : passed, b->spec->root);
  if (is_root)
    add_copy(b, 0, SCHEDULE_SEND_BUFFER, b->rank, receive, b->rank, 1);
  else if (!is_direct)
    add_copy(b, n_rounds - 1, SCHEDULE_WORK, b->rank, receive, b->rank, 1);
}

static void build_all_to_all(builder *b) {
  const bool is_direct = b->spec->algorithm[0] == SCHEDULE_DIRECT;
  const place send = {SCHEDULE_SEND_BUFFER, 0}, receive = {SCHEDULE_RECEIVE_BUFFER, 0};
  exchange x[SCHEDULE_MAX_LEVELS];
  exchanges_init(b, 0, x);
  add_copy(b, 0, SCHEDULE_SEND_BUFFER, b->rank, receive, b->rank, 1);
  for (uint32_t k = 1; k < b->n; ++k) {
    const uint32_t to = (b->rank + k) % b->n, from = (b->rank + b->n - k) % b->n, round = is_direct ? 0 : k - 1;
    add_send(b, x, round, to, send, to, 1);
    add_receive(b, x, round, from, receive, from, 1);
  }
}

static void build_pair(builder *b) {
  const exchange x = {.stride = 1};
  if (b->spec->kind == COMM_SEND)
    add_send(b, &x, 0, b->spec->root, (place){SCHEDULE_SEND_BUFFER, 0}, 0, 1);
  else
    add_receive(b, &x, 0, b->spec->root, (place){SCHEDULE_RECEIVE_BUFFER, 0}, 0, 1);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

static uint32_t step_order(const schedule_step *s) { return 2 * s->round + (s->action <= SCHEDULE_REDUCE); }

static void note_range(schedule *s, unsigned buffer, uint32_t end) {
  if (s->n_slices[buffer] < end) s->n_slices[buffer] = end;
}

static void measure(schedule *s) {
  for (const schedule_step *t = s->step; t < s->step + s->n_steps; ++t) {
    if (t->round >= s->n_rounds) s->n_rounds = t->round + 1;
    if (t->action != SCHEDULE_RECEIVE) note_range(s, t->from_buffer, t->from + t->count * (t->n_in ? t->n_in : 1));
    if (t->action != SCHEDULE_SEND) note_range(s, t->to_buffer, t->to + t->count);
  }
}

/* Sorts the steps by round, messages before local steps; equal ones stay in their order. */
static bool sort_steps(schedule *s) {
  const uint32_t n_keys = 2 * s->n_rounds;
  uint32_t *start = calloc(n_keys + 1, sizeof *start);
  schedule_step *sorted = malloc((s->n_steps ? s->n_steps : 1) * sizeof *sorted);
  const bool good = start && sorted;
  if (good) {
    for (uint32_t i = 0; i < s->n_steps; ++i) ++start[step_order(&s->step[i]) + 1];
    for (uint32_t k = 0; k < n_keys; ++k) start[k + 1] += start[k];
    for (uint32_t i = 0; i < s->n_steps; ++i) sorted[start[step_order(&s->step[i])]++] = s->step[i];
    free(s->step);
    s->step = sorted;
  } else {
    free(sorted);
  }
  free(start);
  return good;
}

/* Numbers the messages between a pair in a round, in an order that both have. */
static bool number_parts(schedule *s, uint32_t n) {
  typedef struct {
    uint32_t round, count;
  } last_message;
  last_message *last = calloc(2 * (size_t)n, sizeof *last); /* to each rank, and from each */
  if (!last) return false;
  for (schedule_step *t = s->step; t < s->step + s->n_steps; ++t) {
    if (t->action <= SCHEDULE_REDUCE) continue;
    last_message *l = &last[2 * (size_t)t->peer + (t->action == SCHEDULE_SEND)];
    if (l->round != t->round) *l = (last_message){t->round, 0};
    t->part = l->count++;
  }
  free(last);
  return true;
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static void build_steps(builder *b) {
  switch (b->spec->kind) {
  case COMM_ALL_REDUCE:
  case COMM_BARRIER: build_all_reduce(b); break;
  case COMM_REDUCE: build_reduce(b); break;
  case COMM_REDUCE_SCATTER:
  case COMM_REDUCE_SCATTER_V: build_reduce_scatter(b); break;
  case COMM_ALL_GATHER:
  case COMM_ALL_GATHER_V: build_all_gather(b); break;
  case COMM_BROADCAST: build_broadcast(b); break;
  case COMM_SCATTER: build_scatter(b); break;
  case COMM_ALL_TO_ALL:
  case COMM_ALL_TO_ALL_V:
  case COMM_ALL_TO_ALL_VC: build_all_to_all(b); break;
  default: build_pair(b); break;
  }
}

status schedule_build(const schedule_spec *spec, uint32_t rank, schedule *out) {
  *out = (schedule){0};
  if (!schedule_supports(spec))
    return fail(ST_INVALID_VALUE,
                "kind %d has no schedule of %u levels and %u chunks with algorithm %d, expected one "
                "that schedule_supports() knows",
                spec->kind, spec->n_levels, spec->n_chunks, spec->algorithm[0]);
  builder b = {.out = out, .spec = spec, .rank = rank, .n = schedule_n_ranks(spec)};
  if (rank >= b.n) return fail(ST_INVALID_VALUE, "rank is %u, expected 0 to %u", rank, b.n - 1);
  if (spec->root >= b.n) return fail(ST_INVALID_VALUE, "root is %u, expected 0 to %u", spec->root, b.n - 1);
  build_steps(&b);
  measure(out);
  if (!b.failed && sort_steps(out) && number_parts(out, b.n)) return ST_OK;
  schedule_free(out);
  return fail(ST_NO_HOST_MEMORY, "no memory for a schedule of %u ranks", b.n);
}

void schedule_free(schedule *s) {
  free(s->step);
  *s = (schedule){0};
}
