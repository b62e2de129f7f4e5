/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/scale_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_types.h"
#include "replay/allocation_trace.h"
#include "replay/replay_allocator.h"
#include "trace/record/record_read.h"

/* ---- a table of numbers by key ----------------------------------------------------------------------------------- */

/* Three numbers that identify something, and its index. Open addressing; nothing is removed. */
typedef struct {
  uint64_t part[3];
  uint32_t index; /* plus 1; 0: the slot is empty */
} key_slot;

typedef struct {
  key_slot *slot;
  size_t capacity, n;
} key_table;

static size_t key_place(const key_table *t, const uint64_t part[3]) {
  uint64_t hash = 0;
  for (int i = 0; i < 3; ++i) hash = (hash ^ part[i]) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
  size_t i = (size_t)hash & (t->capacity - 1);
  while (t->slot[i].index && memcmp(t->slot[i].part, part, sizeof t->slot[i].part) != 0)
    i = (i + 1) & (t->capacity - 1);
  return i;
}

static void key_grow(key_table *t) {
  const key_table old = *t;
  t->capacity = old.capacity ? 2 * old.capacity : 256;
  t->slot = replay_must_alloc(t->capacity * sizeof *t->slot);
  for (size_t i = 0; i < old.capacity; ++i)
    if (old.slot[i].index) t->slot[key_place(t, old.slot[i].part)] = old.slot[i];
  free(old.slot);
}

/* Returns the index of a key, which becomes `next` if the key is new. */
static uint32_t key_index(key_table *t, uint64_t a, uint64_t b, uint64_t c, size_t next) {
  const uint64_t part[3] = {a, b, c};
  if (2 * (t->n + 1) > t->capacity) key_grow(t);
  key_slot *s = &t->slot[key_place(t, part)];
  if (s->index) return s->index - 1;
  memcpy(s->part, part, sizeof part);
  s->index = (uint32_t)next + 1;
  ++t->n;
  return (uint32_t)next;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

/* A rank's part in a communicator: its number there. */
typedef struct {
  uint32_t rank, group, member, n_ranks;
} membership;

typedef struct {
  scale_trace *t;
  key_table ranks, lanes, groups, classes, meetings, records, sequences;
  uint64_t *n_calls; /* by sequence: how many calls a rank has made on a communicator */
  membership *member;
  size_t n_members;
  key_table members;
} scale_builder;

/* Makes room for one more element of an array that grows by doubling; the new one is zero. */
static void *scale_grown(void *array, size_t n, size_t size) {
  if (n & (n - 1)) return array;
  char *bigger = realloc(array, (n ? 2 * n : 1) * size);
  if (!bigger) {
    fprintf(stderr, "no memory for a recording of %zu entries\n", n);
    exit(1);
  }
  memset(bigger + n * size, 0, (n ? n : 1) * size);
  return bigger;
}
#define APPEND(array, n) ((array) = scale_grown(array, n, sizeof *(array)), &(array)[(n)++])

/* Finds the element of a key, or appends one and sets `is_new`. */
#define FIND(table, a, b, c, array, n, is_new)                                                                         \
  ({                                                                                                                   \
    const uint32_t found_ = key_index(table, a, b, c, n);                                                              \
    is_new = found_ == (n);                                                                                            \
    if (is_new) (void)APPEND(array, n);                                                                                \
    found_;                                                                                                            \
  })

static scale_lane *find_lane(scale_builder *b, uint32_t file, const record *r) {
  scale_trace *t = b->t;
  bool is_new;
  const uint32_t rank = FIND(&b->ranks, file, (uint64_t)r->device, 0, t->rank, t->n_ranks, is_new);
  if (is_new) t->rank[rank] = (scale_rank){file, r->device, -1};
  const uint32_t lane = FIND(&b->lanes, rank, (uint64_t)r->stream, 0, t->lane, t->n_lanes, is_new);
  if (is_new) t->lane[lane] = (scale_lane){.rank = rank, .stream = (uint32_t)r->stream};
  return &t->lane[lane];
}

static void add_item(scale_lane *l, scale_item item) { *(scale_item *)APPEND(l->item, l->n_items) = item; }

static bool is_point_to_point(uint32_t kind) {
  return kind == COMM_SEND || kind == COMM_RECV || kind == COMM_BATCH_SEND_RECV;
}

/* The class of calls that a record belongs to. Sends and receives cost the same. */
static uint32_t find_class(scale_builder *b, const record *r, uint32_t group) {
  scale_trace *t = b->t;
  const bool pair = is_point_to_point(r->call_kind);
  const uint32_t distance = !pair ? 0 : r->peer > r->rank ? r->peer - r->rank : r->rank - r->peer;
  const scale_class c = {.group = group,
                         .call_kind = r->call_kind,
                         .n_ranks = r->n_ranks,
                         .distance = pair && !distance ? 1 : distance,
                         .root = pair ? 0 : r->peer,
                         .bytes = r->count * r->dtype_bytes};
  const uint64_t key = c.call_kind | (uint64_t)c.root << 8 | (uint64_t)c.distance << 40;
  bool is_new;
  const uint32_t index = FIND(&b->classes, group, c.bytes, key, t->class, t->n_classes, is_new);
  if (is_new) t->class[index] = c;
  return index;
}

/* The meeting of a rank's next call on a communicator. Sends and receives of larger communicators need not be in the
 * same order on both sides, so each is a meeting of its own. */
static uint32_t find_meeting(scale_builder *b, const record *r, uint32_t group, uint32_t rank) {
  scale_trace *t = b->t;
  bool is_new;
  size_t n = b->sequences.n;
  const uint64_t alone = is_point_to_point(r->call_kind) && r->n_ranks > 2 ? (uint64_t)rank + 1 : 0;
  const uint32_t at = FIND(&b->sequences, group, rank, alone, b->n_calls, n, is_new);
  const uint64_t sequence = b->n_calls[at]++;
  const uint32_t meeting = FIND(&b->meetings, group, sequence, alone, t->meeting, t->n_meetings, is_new);
  if (is_new) t->meeting[meeting] = (scale_meeting){.group = group, .sequence = sequence};
  ++t->meeting[meeting].n_expected;
  return meeting;
}

static const char *add_collective(scale_builder *b, scale_lane *l, const record *r) {
  scale_trace *t = b->t;
  bool is_new;
  if (!r->n_ranks || r->n_ranks > 1u << 20 || r->rank >= r->n_ranks)
    return "the collective's rank is out of range, expected one of at most 2^20 ranks";
  if (r->call_kind >= COMM_N_KINDS || r->peer >= r->n_ranks || r->count > INT64_MAX / (r->dtype_bytes + 1))
    return "the collective's kind, peer or count is out of range";
  const uint32_t group = FIND(&b->groups, r->communicator, r->n_ranks, 0, t->group, t->n_groups, is_new);
  scale_group *g = &t->group[group];
  if (is_new) *g = (scale_group){.id = r->communicator, .n_ranks = r->n_ranks, .member_rank = -1};
  const uint32_t member = FIND(&b->members, group, l->rank, 0, b->member, b->n_members, is_new);
  b->member[member] = (membership){l->rank, group, r->rank, r->n_ranks};
  ++g->n_calls;
  ++t->n_collectives;
  if (r->n_ranks > t->world) t->world = r->n_ranks;
  add_item(l, (scale_item){.kind = SCALE_COLLECTIVE,
                           .class = find_class(b, r, group),
                           .index = find_meeting(b, r, group, l->rank)});
  return NULL;
}

/* Adds what a record says of a stream. Returns NULL, or what is wrong. */
static const char *scale_add_record(scale_builder *b, uint32_t file, const record *r) {
  scale_trace *t = b->t;
  switch (r->kind) {
  case RECORD_WORK:
    add_item(find_lane(b, file, r), (scale_item){.kind = SCALE_WORK, .ns = (double)r->duration_ns});
    return NULL;
  case RECORD_EVENT_REACHED:
  case RECORD_EVENT_PASSED: {
    const uint32_t record = key_index(&b->records, file, r->event, r->generation, t->n_records);
    if (record == t->n_records) ++t->n_records;
    add_item(find_lane(b, file, r),
             (scale_item){.kind = r->kind == RECORD_EVENT_REACHED ? SCALE_REACHED : SCALE_PASSED, .index = record});
    return NULL;
  }
  case RECORD_COLLECTIVE: return add_collective(b, find_lane(b, file, r), r);
  default: return NULL;
  }
}

static bool scale_read_file(scale_builder *b, const char *path, uint32_t file, char error[512]) {
  record_reader reader;
  record r;
  char why[256] = "";
  size_t n;
  char *data = trace_unpack(path, &n, why);
  if (data && record_open(&reader, data, n)) {
    const char *wrong = NULL;
    size_t offset = reader.offset;
    while (!wrong && record_next(&reader, &r)) {
      wrong = scale_add_record(b, file, &r);
      if (!wrong) offset = reader.offset;
    }
    if (wrong) snprintf(why, sizeof why, "offset %zu: %s", offset, wrong);
  }
  if (data && !why[0]) snprintf(why, sizeof why, "%s", reader.error);
  free(data);
  if (why[0]) snprintf(error, 512, "%.200s: %s", path, why);
  return !why[0];
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Notes a rank's place in the largest communicator. */
static void note_world_rank(scale_trace *t, const membership *m) {
  if (m->n_ranks == t->world) t->rank[m->rank].world_rank = m->member;
}

/* Finds from two members how far the members of a communicator are apart. */
static void note_stride(scale_trace *t, const membership *m) {
  scale_group *g = &t->group[m->group];
  const int64_t world_rank = t->rank[m->rank].world_rank;
  if (world_rank < 0 || g->member_rank == m->member) return;
  if (g->member_rank >= 0) {
    const int64_t stride = (world_rank - g->member_world_rank) / ((int64_t)m->member - g->member_rank);
    if (stride > 0) g->stride = (uint32_t)stride;
    return;
  }
  g->member_rank = m->member;
  g->member_world_rank = world_rank;
}

bool scale_read(const char *const *path, int n, scale_trace *out, char error[512]) {
  scale_builder b = {.t = out};
  bool good = true;
  *out = (scale_trace){.world = 0};
  for (int i = 0; good && i < n; ++i) good = scale_read_file(&b, path[i], (uint32_t)i, error);
  if (good && !out->n_collectives) {
    snprintf(error, 512, "%.200s: there are no collectives in it", path[0]);
    good = false;
  }
  for (size_t i = 0; good && i < b.n_members; ++i) note_world_rank(out, &b.member[i]);
  for (size_t i = 0; good && i < b.n_members; ++i) note_stride(out, &b.member[i]);
  if (!good) scale_trace_free(out);
  key_table *const tables[] = {&b.ranks,    &b.lanes,   &b.groups,    &b.classes,
                               &b.meetings, &b.records, &b.sequences, &b.members};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) free(tables[i]->slot);
  free(b.n_calls);
  free(b.member);
  return good;
}

void scale_trace_free(scale_trace *t) {
  for (size_t i = 0; i < t->n_lanes; ++i) free(t->lane[i].item);
  free(t->lane);
  free(t->rank);
  free(t->group);
  free(t->class);
  free(t->meeting);
  *t = (scale_trace){.world = 0};
}
