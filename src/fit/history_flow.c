/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of blocks by the flow of data, for programs that tell of no phases: those in C and C++, mostly. Such programs
 * work in rounds (batches, tokens, steps), which nothing in a recording marks. But a block's own accesses tell enough:
 * whether its first contents come again, and whether what writes it later builds on what it has. */
#include <stdlib.h>
#include <string.h>

#include "fit/history_build.h"

/* Who writes or reads: tasks of one name from one line. */
typedef struct {
  const char *name;
  uint32_t site;
} writer;

enum { MOST_FIRST = 8, MOST_LATER = 8, MOST_DEVICES = 64, MANY_READINGS = 4 };

/* What a block's accesses say. "First" is what was written before anything was read; "later" is the rest. n_readings:
 * how often the reader that was the first has read. */
typedef struct {
  writer first[MOST_FIRST], later[MOST_LATER];
  uint32_t n_first, n_later, times[MOST_LATER];
  writer reader; /* the first */
  uint32_t n_readings;
  bool written_by_host, written_by_tasks, read_by_tasks;
  bool first_is_filled; /* all first contents are copies from the host or fills, or there are none of them */
  bool first_comes_again;
} block_flow;

static bool is_copy(const history_task *t) { return strncmp(t->name, "memcpy", 6) == 0; }
static bool is_fill(const history_task *t) { return strncmp(t->name, "memset", 6) == 0; }

/* A copy whose other side is memory of the host has one operand of the device. */
static bool is_host_copy(const history *h, const history_task *t) {
  bool reads = false, writes = false;
  for (uint32_t i = t->first_access; i < t->first_access + t->n_accesses; ++i) {
    reads |= (h->accesses[i].access & HISTORY_READS) != 0;
    writes |= (h->accesses[i].access & HISTORY_WRITES) != 0;
  }
  return is_copy(t) && reads != writes;
}

static bool is_writer(writer a, writer b) { return a.site == b.site && strcmp(a.name, b.name) == 0; }

static uint32_t find_writer(const writer *w, uint32_t n, writer wanted) {
  uint32_t i = 0;
  while (i < n && !is_writer(w[i], wanted)) ++i;
  return i;
}

static void flow_note_read(block_flow *f, const history_task *t) {
  const writer who = {t->name, t->site};
  if (!f->n_readings) f->reader = who;
  f->n_readings += is_writer(f->reader, who);
}

static void flow_note_write(block_flow *f, const history_task *t, bool by_host, bool builds_on) {
  const writer who = {t->name, t->site};
  f->written_by_host |= by_host;
  f->written_by_tasks |= !by_host;
  if (!f->read_by_tasks && !builds_on) {
    f->first_is_filled &= by_host || is_fill(t);
    if (f->n_first < MOST_FIRST && find_writer(f->first, f->n_first, who) == f->n_first) f->first[f->n_first++] = who;
    return;
  }
  f->first_comes_again |= find_writer(f->first, f->n_first, who) < f->n_first;
  const uint32_t i = find_writer(f->later, f->n_later, who);
  if (i == MOST_LATER) return;
  if (i == f->n_later) f->later[f->n_later++] = who;
  f->times[i]++;
}

static block_flow flow_of(const history *h, const history_block *block) {
  block_flow f = {.first_is_filled = true};
  for (uint32_t i = 0; i < block->n_uses;) {
    const history_task *t = &h->tasks[h->accesses[h->uses[block->first_use + i]].task];
    const bool by_host = is_host_copy(h, t);
    uint64_t written = 0;
    uint32_t access = 0;
    for (; i < block->n_uses && &h->tasks[h->accesses[h->uses[block->first_use + i]].task] == t; ++i) {
      const history_access *a = &h->accesses[h->uses[block->first_use + i]];
      access |= a->access;
      if (a->access & HISTORY_WRITES) written += a->bytes;
    }
    /* A task that writes a part only leaves the rest as it was, as one that reads does. */
    const bool builds_on = !by_host && (access & HISTORY_READS || 2 * written < block->requested);
    if (access & HISTORY_WRITES) flow_note_write(&f, t, by_host, builds_on);
    if (!by_host && access & HISTORY_READS) flow_note_read(&f, t);
    f.read_by_tasks |= !by_host && (access & HISTORY_READS || (access & HISTORY_WRITES && builds_on));
  }
  return f;
}

static bool flow_repeats(const block_flow *f) {
  for (uint32_t i = 0; i < f->n_later; ++i)
    if (f->times[i] > 1) return true;
  return false;
}

static history_class flow_class(const block_flow *f, bool lives_on) {
  if (!f->written_by_host && !f->written_by_tasks && !f->read_by_tasks) return HISTORY_OTHER;
  if (!f->written_by_tasks) {
    if (!f->read_by_tasks) return HISTORY_OTHER; /* nothing is done with it */
    return f->first_comes_again || f->n_later || !lives_on ? HISTORY_INPUT : HISTORY_WEIGHT;
  }
  if (!f->n_later && f->n_readings >= MANY_READINGS && lives_on) return HISTORY_WEIGHT; /* written once: a constant */
  if (f->n_later && !f->first_comes_again && (flow_repeats(f) || (f->first_is_filled && f->n_first && lives_on)))
    return HISTORY_STATE;
  return lives_on ? HISTORY_ACTIVATION : HISTORY_TEMPORARY;
}

/* The moment of a device's last task that is no copy. Blocks that die before it were made and freed within a round. */
static uint64_t last_computation(const history *h, uint32_t device) {
  for (size_t i = h->n_tasks; i-- > 0;)
    if (h->tasks[i].device == device && !is_copy(&h->tasks[i])) return h->tasks[i].moment;
  return 0;
}

void history_flow_classes(history_build *b) {
  history *h = b->h;
  uint64_t last[MOST_DEVICES];
  bool *is_short = calloc(h->n_sites + 1, sizeof *is_short); /* sites whose blocks end before the program does */
  b->no_memory |= !is_short;
  for (uint32_t d = 0; d < MOST_DEVICES; ++d) last[d] = last_computation(h, d);
  for (size_t i = 0; !b->no_memory && i < h->n_blocks; ++i) {
    const history_block *block = &h->blocks[i];
    if (block->site != HISTORY_NONE && block->device < MOST_DEVICES)
      is_short[block->site] |= block->died < last[block->device];
  }
  for (size_t i = 0; !b->no_memory && i < h->n_blocks; ++i) {
    history_block *block = &h->blocks[i];
    if (block->class != HISTORY_OTHER || block->device >= MOST_DEVICES) continue;
    const bool lives_on = block->died >= last[block->device] && (block->site == HISTORY_NONE || !is_short[block->site]);
    const block_flow f = flow_of(h, block);
    block->class = flow_class(&f, lives_on);
  }
  free(is_short);
}
