/* SPDX-License-Identifier: Apache-2.0 */
/* The words for who waits for whom, and the search for cycles. Linked into the library and the tools. */
#include <stdio.h>
#include <string.h>

#include "base/signal_names.h"
#include "base/text.h"
#include "comm/comm_types.h"
#include "comm/waits.h"

bool waits_read_slot(machine_wait_slot *slot, machine_wait *out) {
  enum { TRIES = 100 };
  uint64_t words[MACHINE_WAIT_WORDS];
  for (int i = 0; i < TRIES; ++i) {
    if (!atomic_load(&slot->is_used)) return false;
    const uint32_t version = atomic_load(&slot->version);
    for (int k = 0; k < MACHINE_WAIT_WORDS; ++k) words[k] = atomic_load(&slot->words[k]);
    if (version % 2 || !version || atomic_load(&slot->version) != version) continue;
    memcpy(out, words, sizeof *out);
    text_make_safe(out->name, sizeof out->name); /* another user's process may have written these */
    text_make_safe(out->place, sizeof out->place);
    return true;
  }
  return false;
}

bool waits_parse_report(const char *text, int *signal) {
  static const char key[] = "signal=";
  return !strncmp(text, key, sizeof key - 1) && signal_of_name(text + sizeof key - 1, signal);
}

enum { WAITS_CALL_WORDS = 120 };

/* "AllReduce #5 of 'A' (train.py:88)" */
static int waits_describe_call(const machine_wait *w, char *words, size_t bytes) {
  const bool placed = w->place[0];
  return snprintf(words, bytes, "%s #%ju of '%s'%s%s%s", comm_kind_name((int)w->kind), (uintmax_t)w->number, w->name,
                  placed ? " (" : "", w->place, placed ? ")" : "");
}

void waits_describe(const machine_wait *w, char *words, size_t bytes) {
  char call[WAITS_CALL_WORDS];
  waits_describe_call(w, call, sizeof call);
  if (w->other == UINT32_MAX)
    snprintf(words, bytes, "rank %u (process %d) waits in %s", w->rank, w->pid, call);
  else
    snprintf(words, bytes, "rank %u (process %d) waits in %s for rank %u", w->rank, w->pid, call, w->other);
}

void waits_describe_long(const machine_wait *w, uint64_t now_ns, char *words, size_t bytes) {
  char call[WAITS_CALL_WORDS];
  waits_describe_call(w, call, sizeof call);
  const double seconds = now_ns > w->since_ns ? (double)(now_ns - w->since_ns) * 1e-9 : 0;
  int n = snprintf(words, bytes, "rank %u of %u has waited %.1f s in %s", w->rank, w->n_ranks, seconds, call);
  if (w->other != UINT32_MAX && n > 0 && (size_t)n < bytes)
    snprintf(words + n, bytes - (size_t)n, " for rank %u (process %d)", w->other, w->other_pid);
}

/* Whether the rank that w waits for waits itself in v. The rank may wait on another communicator, so it is recognised
 * by its process and device. */
static bool waits_leads_to(const machine_wait *w, const machine_wait *v) {
  return w->other != UINT32_MAX && w->other_pid == v->pid && w->other_device == v->device;
}

/* A search in depth from one entry, which the cycle must come back to. */
typedef struct {
  const machine_wait *waits;
  size_t n, depth;
  uint64_t latest_ns; /* entries that are younger count as absent */
  bool seen[WAITS_MOST];
  uint16_t path[WAITS_MOST], next[WAITS_MOST]; /* the path's entries, and the next entry to try from each */
} waits_search;
_Static_assert(WAITS_MOST <= UINT16_MAX, "indices");

/* Whether there is a path from `first` back to it; it is in path[0] to path[depth - 1] then. */
static bool waits_find_cycle(waits_search *s, size_t first) {
  if (s->waits[first].since_ns > s->latest_ns) return false;
  memset(s->seen, 0, sizeof s->seen);
  s->depth = 1;
  s->path[0] = (uint16_t)first;
  s->next[0] = 0;
  s->seen[first] = true;
  while (s->depth) {
    const size_t at = s->path[s->depth - 1], to = s->next[s->depth - 1]++;
    if (to >= s->n) {
      --s->depth;
      continue;
    }
    if (s->waits[to].since_ns > s->latest_ns || !waits_leads_to(&s->waits[at], &s->waits[to])) continue;
    if (to == first) return true;
    if (s->seen[to]) continue;
    s->seen[to] = true;
    s->path[s->depth] = (uint16_t)to;
    s->next[s->depth++] = 0;
  }
  return false;
}

bool waits_describe_cycle(const machine_wait *waits, size_t n, size_t first, uint64_t now_ns, uint64_t least_ns,
                          char *words, size_t bytes) {
  waits_search s = {
      .waits = waits, .n = n < WAITS_MOST ? n : WAITS_MOST, .latest_ns = now_ns > least_ns ? now_ns - least_ns : 0};
  bool found = false;
  if (first != SIZE_MAX)
    found = first < s.n && waits_find_cycle(&s, first);
  else
    for (size_t i = 0; i < s.n && !found; ++i) found = waits_find_cycle(&s, i);
  if (!found) return false;
  size_t used = 0;
  for (size_t i = 0; i < s.depth && used < bytes; ++i) {
    char one[WAITS_WORDS];
    waits_describe(&waits[s.path[i]], one, sizeof one);
    used += (size_t)snprintf(words + used, bytes - used, "%s%s", i ? "; " : "", one);
  }
  return true;
}
