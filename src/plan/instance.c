/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/instance.h"

#include <inttypes.h>

#include "plan/validate.h"

void instance_layout(instance *in, arena *a, const cannon_plan_problem *p) {
  /* A buffer with g gaps has at most g + 1 full-size rectangles and g windows. Where buffers share an item, cutting
   * its n rectangles at each other's ends makes at most 2n pieces. */
  const size_t n_raw = p->n_buffers + 2 * p->n_gaps, n_pieces = 2 * n_raw;
  in->problem = p;
  TAKE(a, in->items, p->n_buffers);
  TAKE(a, in->first, p->n_buffers + 1);
  TAKE(a, in->item_of, p->n_buffers);
  TAKE(a, in->members, p->n_buffers);
  TAKE(a, in->parts, p->n_buffers);
  TAKE(a, in->alias_first, p->n_buffers + 1);
  TAKE(a, in->alias, 2 * p->n_aliases);
  TAKE(a, in->pieces, n_pieces);
  TAKE(a, in->lower, n_pieces);
  TAKE(a, in->upper, n_pieces);
  TAKE(a, in->load, n_pieces + 1);
  TAKE(a, in->raw, n_raw);
  TAKE(a, in->raw_lower, n_raw);
  TAKE(a, in->raw_upper, n_raw);
  TAKE(a, in->keys, 2 * n_pieces);
  TAKE(a, in->spare, 2 * n_pieces);
  max_tree_layout(&in->tree, a, n_pieces);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* ---- items ----------------------------------------------------------------------------------------------------- */

/* Sets item_of of each buffer to the end of its chain of in_place_of. */
static cannon_plan_error find_roots(instance *in, char message[200]) {
  const cannon_plan_buffer *buffers = in->problem->buffers;
  const uint32_t n = (uint32_t)in->problem->n_buffers;
  uint32_t *root = in->item_of;
  for (uint32_t i = 0; i < n; ++i) root[i] = CANNON_PLAN_NO_BUFFER;
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t end = i;
    for (; root[end] == CANNON_PLAN_NO_BUFFER && buffers[end].in_place_of != CANNON_PLAN_NO_BUFFER;
         end = buffers[end].in_place_of)
      root[end] = n; /* marks the buffers of the chain */
    if (root[end] == n)
      return FAIL(CANNON_PLAN_BAD_PAIR, "buffer %u is in place of itself, through other buffers", end);
    const uint32_t found = root[end] == CANNON_PLAN_NO_BUFFER ? end : root[end];
    root[end] = found;
    for (uint32_t b = i; b != end && root[b] == n; b = buffers[b].in_place_of) root[b] = found;
  }
  return CANNON_PLAN_OK;
}

/* Adds a buffer to its item. At this stage sizes, alignments and offsets are still in bytes. */
static cannon_plan_error add_to_item(instance *in, uint32_t b, char message[200]) {
  const cannon_plan_buffer *buffer = &in->problem->buffers[b];
  item *it = &in->items[in->item_of[b]];
  const int64_t align = buffer->alignment ? (int64_t)buffer->alignment : 1;
  const int64_t factor = align / (int64_t)gcd((uint64_t)align, (uint64_t)it->align);
  if (__builtin_mul_overflow(it->align, factor, &it->align) || (uint64_t)it->align > MAX_BYTES)
    return FAIL(CANNON_PLAN_TOO_LARGE, "buffer %u and those in whose place it is have no common alignment below 2^61",
                b);
  if (buffer->offset != CANNON_PLAN_ANYWHERE) {
    if (it->fixed >= 0 && it->fixed != (int64_t)buffer->offset)
      return FAIL(CANNON_PLAN_CONFLICT,
                  "buffer %u has the offset %" PRIu64 ", but a buffer with which it shares its offset has %" PRId64, b,
                  buffer->offset, it->fixed);
    it->fixed = (int64_t)buffer->offset;
  }
  if (buffer->size > it->bytes) it->bytes = buffer->size;
  return CANNON_PLAN_OK;
}

/* Makes the items, in the order of their first buffers. */
static cannon_plan_error make_items(instance *in, char message[200]) {
  const uint32_t n = (uint32_t)in->problem->n_buffers;
  cannon_plan_error error = find_roots(in, message);
  if (error) return error;
  uint32_t *number = in->members; /* item number of each chain's end; the array is unused until parts are made */
  for (uint32_t b = 0; b < n; ++b) number[b] = CANNON_PLAN_NO_BUFFER;
  in->n_items = 0;
  for (uint32_t b = 0; b < n; ++b) {
    const uint32_t root = in->item_of[b];
    if (number[root] == CANNON_PLAN_NO_BUFFER) {
      number[root] = in->n_items;
      in->items[in->n_items++] = (item){.align = 1, .fixed = -1, .first_buffer = b};
    }
    in->item_of[b] = number[root];
    if ((error = add_to_item(in, b, message))) return error;
  }
  uint64_t sum = 0;
  for (uint32_t i = 0; i < in->n_items; ++i) {
    const item *it = &in->items[i];
    sum += it->bytes + (uint64_t)it->align;
    if (sum > MAX_BYTES)
      return FAIL(CANNON_PLAN_TOO_LARGE, "sizes and common alignments add up to more than 2^61 up to buffer %u",
                  it->first_buffer);
    if (it->fixed >= 0 && it->fixed % it->align)
      return FAIL(CANNON_PLAN_BAD_OFFSET,
                  "buffer %u has the offset %" PRId64 ", expected a multiple of %" PRId64
                  ", the common alignment of the buffers that share this offset",
                  it->first_buffer, it->fixed, it->align);
  }
  return CANNON_PLAN_OK;
}

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

static void add_raw(instance *in, uint32_t b, uint64_t lower, uint64_t upper, uint64_t low, uint64_t high) {
  if (lower == upper || low == high) return;
  in->raw_lower[in->n_raw] = lower;
  in->raw_upper[in->n_raw] = upper;
  in->raw[in->n_raw++] = (piece){
      .buffer = b, .item = in->item_of[b], .low = (int64_t)low, .high = (int64_t)high, .need = (int64_t)(high - low)};
}

static void make_raw(instance *in) {
  in->n_raw = 0;
  for (uint32_t i = 0; i < in->problem->n_buffers; ++i) {
    const cannon_plan_buffer *b = &in->problem->buffers[i];
    uint64_t from = b->lower;
    for (uint32_t g = 0; g < b->n_gaps; ++g) {
      const cannon_plan_gap *gap = &in->problem->gaps[b->first_gap + g];
      add_raw(in, i, from, gap->lower, 0, b->size);
      add_raw(in, i, gap->lower, gap->upper, gap->window_lower, gap->window_upper);
      from = gap->upper;
    }
    add_raw(in, i, from, b->upper, 0, b->size);
  }
}

static void instance_add_piece(instance *in, piece p, uint64_t lower, uint64_t upper) {
  in->lower[in->n_pieces] = lower;
  in->upper[in->n_pieces] = upper;
  in->pieces[in->n_pieces++] = p;
}

/* Returns the smallest piece that contains all rectangles living in an interval of time. */
static piece hull(const instance *in, const keyed *live, uint32_t n) {
  piece p = in->raw[live[0].index];
  for (uint32_t i = 1; i < n; ++i) {
    const piece *q = &in->raw[live[i].index];
    if (q->low < p.low) p.low = q->low;
    if (q->high > p.high) p.high = q->high;
    if (q->need > p.need) p.need = q->need;
    p.buffer = CANNON_PLAN_NO_BUFFER;
  }
  return p;
}

/* Cuts an item's rectangles, which are sorted by their start, at each time at which one begins or ends. */
static void cut_pieces(instance *in, const keyed *sorted, uint32_t n) {
  keyed *live = in->spare; /* keys are end times */
  uint32_t n_live = 0, next = 0;
  uint64_t now = 0;
  while (next < n || n_live) {
    if (!n_live) now = in->raw_lower[sorted[next].index];
    for (; next < n && in->raw_lower[sorted[next].index] == now; ++next)
      live[n_live++] = (keyed){in->raw_upper[sorted[next].index], sorted[next].index};
    uint64_t until = next < n ? in->raw_lower[sorted[next].index] : UINT64_MAX;
    for (uint32_t i = 0; i < n_live; ++i)
      if (live[i].key < until) until = live[i].key;
    instance_add_piece(in, hull(in, live, n_live), now, until);
    now = until;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n_live; ++i)
      if (live[i].key > now) live[kept++] = live[i];
    n_live = kept;
  }
}

static void make_pieces(instance *in) {
  make_raw(in);
  const uint32_t n = in->n_raw;
  for (uint32_t i = 0; i < n; ++i) in->keys[i] = (keyed){in->raw_lower[i], i};
  if (in->n_items < in->problem->n_buffers) { /* otherwise they are already sorted */
    keyed_sort(in->keys, in->spare, n);
    for (uint32_t i = 0; i < n; ++i) in->keys[i].key = in->raw[in->keys[i].index].item;
    keyed_sort(in->keys, in->spare, n);
  }
  in->n_pieces = 0;
  uint32_t begin = 0;
  for (uint32_t i = 0; i < in->n_items; ++i) {
    uint32_t end = begin;
    in->first[i] = in->n_pieces;
    while (end < n && in->raw[in->keys[end].index].item == i) ++end;
    if (end - begin == 1)
      instance_add_piece(in, in->raw[in->keys[begin].index], in->raw_lower[in->keys[begin].index],
                         in->raw_upper[in->keys[begin].index]);
    else
      cut_pieces(in, in->keys + begin, end - begin);
    begin = end;
  }
  in->first[in->n_items] = in->n_pieces;
}

/* ---- units ----------------------------------------------------------------------------------------------------- */

/* Chooses the unit. All offsets are multiples of the common divisor of all alignments, so sizes may be rounded up to
 * multiples of it, too. Where alignments impose nothing more, offsets are sums of sizes, and the common divisor of
 * these, which is larger, is the unit. */
static void choose_unit(instance *in) {
  uint64_t common = 0, unit = 0, before;
  for (uint32_t i = 0; i < in->n_items; ++i) common = gcd(common, (uint64_t)in->items[i].align);
  if (!common) common = 1;
  for (uint32_t i = 0; i < in->n_items; ++i) in->items[i].bytes = 0;
  for (uint32_t i = 0; i < in->n_pieces; ++i) {
    piece *p = &in->pieces[i];
    item *it = &in->items[p->item];
    if ((uint64_t)p->high > it->bytes) it->bytes = (uint64_t)p->high;
    p->low -= p->low % (int64_t)common;
    p->high = instance_align_up(p->high, (int64_t)common);
    p->need = instance_align_up(p->need, (int64_t)common);
    unit = gcd(gcd(unit, (uint64_t)p->low), gcd((uint64_t)p->need, (uint64_t)p->high));
  }
  for (uint32_t i = 0; i < in->n_items; ++i)
    if (in->items[i].fixed > 0) unit = gcd(unit, (uint64_t)in->items[i].fixed);
  if (!unit) unit = common;
  do {
    before = unit;
    for (uint32_t i = 0; i < in->n_items; ++i)
      if (unit % (uint64_t)in->items[i].align) unit = gcd(unit, (uint64_t)in->items[i].align);
  } while (unit != before);
  in->unit = unit;
}

static void count_in_units(instance *in) {
  const int64_t unit = (int64_t)in->unit;
  in->pad = 0;
  for (uint32_t i = 0; i < in->n_items; ++i) {
    item *it = &in->items[i];
    it->align = it->align <= unit ? 1 : it->align / unit;
    if (it->fixed >= 0) it->fixed /= unit;
    for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) {
      piece *p = &in->pieces[k];
      p->low /= unit;
      p->high /= unit;
      p->need /= unit;
      if (p->high > it->height) it->height = p->high;
    }
    const uint64_t rounded = (uint64_t)it->height * in->unit;
    if (rounded > it->bytes && rounded - it->bytes > in->pad) in->pad = rounded - it->bytes;
  }
}

/* ---- sections, loads, parts ------------------------------------------------------------------------------------- */

int32_t instance_sections(instance *in, piece *pieces, const uint64_t *lower, const uint64_t *upper, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    in->keys[2 * i] = (keyed){upper[i] << 1, i}; /* at equal times, ends sort before starts */
    in->keys[2 * i + 1] = (keyed){lower[i] << 1 | 1, i};
  }
  keyed_sort(in->keys, in->spare, 2 * (size_t)n);
  int32_t section = 0;
  bool ended = false; /* a piece has ended in this section, so that a piece that starts now belongs to the next one */
  for (size_t e = 0; e < 2 * (size_t)n; ++e) {
    piece *p = &pieces[in->keys[e].index];
    if (in->keys[e].key & 1) {
      section += ended;
      ended = false;
      p->lo = section;
    } else {
      ended = true;
      p->up = section + 1;
    }
  }
  return n ? section + 1 : 0;
}

static void sum_loads(instance *in) {
  memset(in->load, 0, ((size_t)in->n_sections + 1) * sizeof *in->load);
  for (uint32_t k = 0; k < in->n_pieces; ++k) {
    in->load[in->pieces[k].lo] += in->pieces[k].need;
    in->load[in->pieces[k].up] -= in->pieces[k].need;
  }
  for (int32_t s = 0; s < in->n_sections; ++s) in->load[s + 1] += in->load[s];
}

static void span_items(instance *in) {
  max_tree_reset(&in->tree, in->n_sections);
  for (int32_t s = 0; s < in->n_sections; ++s) max_tree_raise(&in->tree, s, s + 1, in->load[s]);
  for (uint32_t i = 0; i < in->n_items; ++i) {
    item *it = &in->items[i];
    if (in->first[i] == in->first[i + 1]) continue;
    it->lo = in->pieces[in->first[i]].lo;
    it->up = in->pieces[in->first[i + 1] - 1].up;
    it->life = in->upper[in->first[i + 1] - 1] - in->lower[in->first[i]];
    for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) {
      const int64_t load = max_tree_max(&in->tree, in->pieces[k].lo, in->pieces[k].up);
      if (load > it->load) it->load = load;
    }
  }
}

static void make_parts(instance *in) {
  keyed *reach = in->keys; /* key: end (exclusive) of the items that start in the section; index: its part */
  for (int32_t s = 0; s < in->n_sections; ++s) reach[s].key = 0;
  for (uint32_t i = 0; i < in->n_items; ++i)
    if (in->items[i].height && (uint64_t)in->items[i].up > reach[in->items[i].lo].key)
      reach[in->items[i].lo].key = (uint64_t)in->items[i].up;
  in->n_parts = 0;
  uint64_t far = 0;
  for (int32_t s = 0, begin = 0; s < in->n_sections; ++s) {
    if (reach[s].key > far) far = reach[s].key;
    reach[s].index = in->n_parts;
    if (far != (uint64_t)s + 1) continue;
    in->parts[in->n_parts++] = (part){.lo = begin, .up = s + 1, .plain = true};
    begin = s + 1;
  }
  for (uint32_t i = 0; i < in->n_items; ++i)
    if (in->items[i].height) ++in->parts[reach[in->items[i].lo].index].end;
  uint32_t at = 0;
  for (uint32_t q = 0; q < in->n_parts; ++q) {
    const uint32_t n = in->parts[q].end;
    in->parts[q].begin = in->parts[q].end = at;
    at += n;
  }
  for (uint32_t i = 0; i < in->n_items; ++i)
    if (in->items[i].height) in->members[in->parts[reach[in->items[i].lo].index].end++] = i;
}

static void describe_part(instance *in, part *q) {
  for (uint32_t m = q->begin; m < q->end; ++m) {
    const uint32_t i = in->members[m];
    const item *it = &in->items[i];
    if (it->load > q->load) q->load = it->load;
    if (it->aliased) q->plain = false;
    for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k) {
      const piece *p = &in->pieces[k];
      if (p->low || p->high != it->height) q->plain = false;
      q->width += (uint64_t)(p->up - p->lo);
    }
  }
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

/* Computes lower bounds: the sizes of what lives together add up, with only the largest counted among buffers in
 * alias pairs. The uppermost item of a section need not be rounded up to units, so the bound is lowered by the
 * largest rounding of the section. */
static void bound_parts(instance *in) {
  const size_t n = (size_t)in->n_sections;
  /* by section: largest aliased piece; bytes that rounding added to a piece */
  keyed *largest = in->keys, *pad = in->spare;
  max_tree_reset(&in->tree, in->n_sections);
  memset(in->load, 0, (n + 1) * sizeof *in->load);
  for (uint32_t k = 0; k < in->n_pieces; ++k) {
    const piece *p = &in->pieces[k];
    if (in->items[p->item].aliased) {
      max_tree_raise(&in->tree, p->lo, p->up, p->need);
    } else {
      in->load[p->lo] += p->need;
      in->load[p->up] -= p->need;
    }
  }
  for (int32_t s = 0; s < in->n_sections; ++s) {
    largest[s].key = in->problem->n_aliases ? (uint64_t)max_tree_max(&in->tree, s, s + 1) : 0;
    in->load[s + 1] += in->load[s];
  }
  max_tree_reset(&in->tree, in->n_sections);
  for (uint32_t i = 0; i < in->n_items && in->pad; ++i) {
    const uint64_t rounded = (uint64_t)in->items[i].height * in->unit;
    for (uint32_t k = in->first[i]; k < in->first[i + 1]; ++k)
      max_tree_raise(&in->tree, in->pieces[k].lo, in->pieces[k].up, (int64_t)(rounded - in->items[i].bytes));
  }
  for (int32_t s = 0; s < in->n_sections; ++s) pad[s].key = in->pad ? (uint64_t)max_tree_max(&in->tree, s, s + 1) : 0;
  for (uint32_t q = 0; q < in->n_parts; ++q) {
    part *here = &in->parts[q];
    for (int32_t s = here->lo; s < here->up; ++s) {
      const uint64_t need = ((uint64_t)in->load[s] + largest[s].key) * in->unit;
      if (need > pad[s].key && need - pad[s].key > here->bound) here->bound = need - pad[s].key;
    }
    for (uint32_t m = here->begin; m < here->end; ++m) {
      const item *it = &in->items[in->members[m]];
      const uint64_t top = (it->fixed > 0 ? (uint64_t)it->fixed * in->unit : 0) + it->bytes;
      if (top > here->bound) here->bound = top;
    }
  }
}

/* ---- alias pairs ------------------------------------------------------------------------------------------------ */

static void make_aliases(instance *in) {
  const cannon_plan_problem *p = in->problem;
  memset(in->alias_first, 0, (p->n_buffers + 1) * sizeof *in->alias_first);
  for (size_t i = 0; i < p->n_aliases; ++i) {
    ++in->alias_first[p->aliases[i].a];
    ++in->alias_first[p->aliases[i].b];
    in->items[in->item_of[p->aliases[i].a]].aliased = in->items[in->item_of[p->aliases[i].b]].aliased = true;
  }
  for (size_t b = 0, sum = 0; b <= p->n_buffers; ++b) {
    if (b < p->n_buffers) sum += in->alias_first[b];
    in->alias_first[b] = (uint32_t)sum; /* end of its range: filling proceeds downwards */
  }
  for (size_t i = 0; i < p->n_aliases; ++i) {
    in->alias[--in->alias_first[p->aliases[i].a]] = p->aliases[i].b;
    in->alias[--in->alias_first[p->aliases[i].b]] = p->aliases[i].a;
  }
}

bool instance_aliased(const instance *in, uint32_t a, uint32_t b) {
  if (a == CANNON_PLAN_NO_BUFFER || b == CANNON_PLAN_NO_BUFFER) return false;
  for (uint32_t i = in->alias_first[a]; i < in->alias_first[a + 1]; ++i)
    if (in->alias[i] == b) return true;
  return false;
}

cannon_plan_error instance_build(instance *in, const cannon_plan_problem *problem, char message[200]) {
  cannon_plan_error error = validate_values(problem, message);
  if (!error) error = make_items(in, message);
  if (error) return error;
  make_aliases(in);
  make_pieces(in);
  choose_unit(in);
  count_in_units(in);
  in->n_sections = instance_sections(in, in->pieces, in->lower, in->upper, in->n_pieces);
  sum_loads(in);
  span_items(in);
  make_parts(in);
  bound_parts(in);
  in->bound = 0;
  for (uint32_t q = 0; q < in->n_parts; ++q) {
    describe_part(in, &in->parts[q]);
    if (in->parts[q].bound > in->bound) in->bound = in->parts[q].bound;
  }
  return CANNON_PLAN_OK;
}
