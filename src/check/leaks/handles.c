/* SPDX-License-Identifier: Apache-2.0 */
/* The part for leaks: at the end of the process, handles and blocks that nothing in the program's memory leads to any
 * more are findings, one for each place that made such. What the program still holds is told in a line, and is no
 * finding: the end of a process gives everything back (semantics page, 3.2). This holds for all kinds alike: a stream
 * that the device's reset has ended is lost or held as a block is that outlives the reset. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "check/check.h"
#include "check/finding.h"
#include "check/leaks/handle_table.h"
#include "check/leaks/reach.h"

/* Models and physical memory have handles that are numbers. Any number looks like a small one of these, so nothing can
 * be said of who holds them, and each is a leak. */
static bool is_number(const live_handle *h) { return h->kind == HOOK_MODEL; }

/* Members go with their list, and executors that may be launched again with the program that keeps them. */
static bool is_root(const live_handle *h) { return !h->owner; }

static int by_place(const void *a, const void *b) {
  const live_handle *x = a, *y = b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  if (x->ended != y->ended) return x->ended ? 1 : -1;
  return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static int by_inverted(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Removes the handles that the program still holds from the list, and counts them by kind. */
static size_t keep_lost(live_handle *all, size_t n, uint64_t held[N_HANDLE_TYPES]) {
  reach_value *values = malloc(n * sizeof *values);
  size_t n_lost = 0;
  for (size_t i = 0; values && i < n; ++i) values[i] = (reach_value){all[i].inverted, false};
  if (!values) return 0;
  reach_find(values, n);
  for (size_t i = 0; i < n; ++i) {
    const reach_value *v = bsearch(&all[i].inverted, values, n, sizeof *values, by_inverted);
    if (!is_root(&all[i])) continue;
    if (v->is_reachable && !is_number(&all[i]))
      ++held[all[i].kind];
    else
      all[n_lost++] = all[i];
  }
  free(values);
  return n_lost;
}

/* "aclnnAddGetWorkspaceSize" makes executors; other calls say themselves what they make. */
static void say_lost(finding *f, const live_handle *h, uint64_t n, uint64_t bytes) {
  const char *what = n == 1 ? handle_word(h->kind) : handle_words(h->kind), *were = n == 1 ? "was" : "were";
  if (h->kind == HOOK_EXECUTOR && !h->launched)
    finding_say(f,
                "%ju %s of %s %s never launched or destroyed, and nothing leads to %s any more. Call phase two, or "
                "aclDestroyAclOpExecutor if the operator is not to run.",
                (uintmax_t)n, what, h->call, were, n == 1 ? "it" : "them");
  else if (h->ended)
    finding_say(f,
                "%ju %s that %s made %s not destroyed before the device's reset or aclrtDestroyContext ended %s, "
                "and nothing leads to %s any more. Call %s before.",
                (uintmax_t)n, what, h->call ? h->call : "a call", were, n == 1 ? "it" : "them", n == 1 ? "it" : "them",
                handle_destroyer(h->kind));
  else if (h->kind >= N_HOOK_HANDLES)
    finding_say(f, "%ju %s (%s) that %s made %s never freed, and nothing leads to %s any more. Call %s.", (uintmax_t)n,
                what, size_in_words(bytes).text, h->call, were, n == 1 ? "it" : "them", handle_destroyer(h->kind));
  else
    finding_say(f, "%ju %s that %s made %s never destroyed%s. Call %s%s.", (uintmax_t)n, what,
                h->call ? h->call : "a call", were,
                is_number(h) ? ""
                : n == 1     ? ", and nothing leads to it any more"
                             : ", and nothing leads to them any more",
                handle_destroyer(h->kind), n == 1 ? "" : " for each");
}

/* Reports the handles of one kind and place. */
static void report_place(const live_handle *h, size_t n) {
  finding f = {.kind = FINDING_LEAK, .here = {.stack = h->stack, .stream = -1, .device = -1}, .count = n};
  uint64_t bytes = 0;
  for (size_t i = 0; i < n; ++i) bytes += h[i].bytes;
  say_lost(&f, h, n, bytes);
  snprintf(f.here.what, sizeof f.here.what, "%s", h->call ? h->call : handle_word(h->kind));
  if (h->kind >= N_HOOK_HANDLES) {
    f.allocation.address = (uintptr_t)~h->inverted;
    f.allocation.bytes = bytes;
    f.allocation.stack = h->stack;
    snprintf(f.allocation.call, sizeof f.allocation.call, "%s", h->call ? h->call : "");
  }
  finding_report(&f);
}

/* Tells in one line what the program held to its end. */
static void say_held(const uint64_t held[N_HANDLE_TYPES]) {
  char line[1024];
  size_t at = 0;
  for (uint32_t kind = 0; kind < N_HANDLE_TYPES && at < sizeof line; ++kind)
    if (held[kind])
      at += (size_t)snprintf(line + at, sizeof line - at, "%s%" PRIu64 " %s", at ? ", " : "", held[kind],
                             held[kind] == 1 ? handle_word(kind) : handle_words(kind));
  if (at) fprintf(stderr, "cannon: still held at the end, which is no finding: %s\n", line);
}

static void handles_finish(void) {
  uint64_t held[N_HANDLE_TYPES] = {0};
  size_t n;
  live_handle *all = handle_table_copy(&n);
  if (!all) return;
  n = keep_lost(all, n, held);
  qsort(all, n, sizeof *all, by_place);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && by_place(&all[i], &all[end]) == 0; ++end) {
    }
    report_place(&all[i], end - i);
  }
  free(all);
  say_held(held);
}

const check_module handles_check = {.part = CHECK_LEAK, .start = handle_table_start, .finish = handles_finish};
