/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/advice.h"

#include "base/log.h"
#include "memory/fault.h"
#include "trace/stats_write.h"

static const char *const words[STATS_N_ADVICE] = {
    [STATS_ADVICE_UNALIGNED_COPY] = "an asynchronous copy's device address is no multiple of 64: slower on a device",
};

/* The call sites that were logged; if there are more, the others are only counted. */
enum { MOST_SITES = 256 };
static void *_Atomic told[STATS_N_ADVICE][MOST_SITES];

/* Whether this is the first call of the site, which is then entered. */
static bool is_new(stats_advice_kind kind, void *site) {
  const size_t start = ((uintptr_t)site >> 2) % MOST_SITES;
  for (size_t i = 0; i < MOST_SITES; ++i) {
    void *_Atomic *slot = &told[kind][(start + i) % MOST_SITES];
    void *seen = NULL;
    if (atomic_compare_exchange_strong(slot, &seen, site)) return true;
    if (seen == site) return false;
  }
  return false;
}

void advice_give(stats_advice_kind kind, void *site) {
  const bool log = log_wanted(LOG_WARNING), count = trace_is_on();
  if (!log && !count) return;
  char where[sizeof((stats_advice *)0)->first_site];
  if (log && is_new(kind, site)) {
    fault_describe_site(site, where, sizeof where);
    log_line(LOG_WARNING, "advice: %s; called from %s", words[kind], where);
  }
  if (!count) return;
  stats_advice *a = &trace_stats()->advice[kind];
  if (atomic_fetch_add_explicit(&a->count, 1, memory_order_relaxed)) return;
  a->place = trace_place(site);
  fault_describe_site(site, a->first_site, sizeof a->first_site);
}
