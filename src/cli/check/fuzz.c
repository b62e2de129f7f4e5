/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/fuzz.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* A plain run that takes longer than any given; the others get ten times the plain run's time, but so much at least,
 * since the machine may be busy. */
#define FUZZ_PLAIN_NS   UINT64_C(600000000000)
#define FUZZ_TIMEOUT_NS UINT64_C(10000000000)

enum { SHRINK_RUNS = 40, POLL_NS = 1000000, MOST_JOBS = 64, LAST_SIGNAL = 64 };

const char *const fuzz_verdict_names[FUZZ_N_VERDICTS] = {"fine", "crash", "hang", "output", "leak"};

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL); }

/* Also for a shell that ran the program and tells of a signal by its status. */
static bool was_killed(int status) {
  return WIFSIGNALED(status) || (WEXITSTATUS(status) > 128 && WEXITSTATUS(status) <= 128 + LAST_SIGNAL);
}

fuzz_verdict fuzz_judge(const fuzz_search *s, const fuzz_case *c, const fuzz_result *r) {
  fuzz_verdict v = FUZZ_FINE;
  const bool failed = r->n_injected > 0, same_status = r->status == s->plain.status;
  const bool same = same_status && r->output == s->plain.output;
  (void)c;
  if (r->hung)
    v = FUZZ_HANG;
  else if (was_killed(r->status) && !same_status)
    v = FUZZ_CRASH;
  else if (!s->varies && !same && (!failed || (same_status && r->status == 0)))
    v = FUZZ_OUTPUT; /* another order may change nothing; after a failure, a wrong result with status 0 is wrong */
  else if (r->leaks_known && r->n_leaks > s->plain.n_leaks)
    v = FUZZ_LEAK;
  return s->ignored >> v & 1 ? FUZZ_FINE : v;
}

static bool run_one(fuzz_search *s, const fuzz_case *c, fuzz_result *r) {
  fuzz_slot slot;
  if (!fuzz_start(&slot, s->argv, c)) return false;
  s->n_runs++;
  while (!fuzz_ended(&slot, s->timeout_ns, r)) nap();
  return true;
}

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static void add_case(fuzz_search *s, fuzz_case c) {
  s->cases = realloc(s->cases, (s->n_cases + 1) * sizeof *s->cases);
  if (!s->cases) abort();
  s->cases[s->n_cases++] = c;
}

/* Each event once, if there are few; otherwise the first, and one at random of each of the other parts of equal
 * length. */
static void plan_place(fuzz_search *s, fault_place p) {
  const uint64_t n = s->plain.events[p], parts = n < s->each ? n : s->each;
  uint64_t random = p + 1;
  for (uint64_t i = 0; i < parts; i++) {
    const uint64_t from = n / parts * i, length = n / parts;
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth's generator */
    const uint64_t number = from + (i && n > parts ? (random >> 33) % length : 0) + 1;
    add_case(s, (fuzz_case){.n_faults = 1, .fault = {{p, number}}});
  }
}

static void fuzz_plan(fuzz_search *s) {
  uint64_t events = 0;
  for (uint64_t i = 1; i <= s->schedules; i++) add_case(s, (fuzz_case){.schedule = i});
  for (fault_place p = 0; p < N_FAULT_PLACES; p++) {
    if (!(s->places >> p & 1)) continue;
    plan_place(s, p);
    events += s->plain.events[p];
  }
  /* About two failures in each mixture. */
  for (uint64_t i = 1; events && i <= s->seeds; i++)
    add_case(s,
             (fuzz_case){
                 .schedule = i, .probability = events > 2 ? 2.0 / (double)events : 1, .seed = i, .places = s->places});
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

static unsigned places_of(const fuzz_case *c) {
  unsigned places = c->probability > 0 ? c->places : 0;
  for (int i = 0; i < c->n_faults; i++) places |= 1u << c->fault[i].place;
  return places;
}

/* The same failures by their numbers, as far as these are known. */
static fuzz_case with_numbers(const fuzz_case *c, const fuzz_result *r) {
  fuzz_case plain = *c;
  if (c->probability <= 0 || (r->n_injected && !r->one_process)) return plain;
  plain.probability = 0;
  plain.places = 0;
  plain.n_faults = (int)r->n_injected;
  memcpy(plain.fault, r->injected, sizeof plain.fault);
  return plain;
}

static void fuzz_add_finding(fuzz_search *s, size_t index, fuzz_verdict v, const fuzz_result *r) {
  const fuzz_case how = with_numbers(&s->cases[index], r);
  const unsigned places = places_of(&how);
  int i = 0;
  while (i < s->n_findings && (s->finding[i].verdict != v || s->finding[i].places != places)) i++;
  if (i == FUZZ_MAX_FINDINGS) return;
  fuzz_finding *f = &s->finding[i];
  if (i == s->n_findings) {
    s->n_findings++;
    *f = (fuzz_finding){.verdict = v, .index = SIZE_MAX, .places = places};
  }
  f->n_runs++;
  if (index > f->index) return;
  f->index = index;
  f->how = how;
  f->result = *r;
}

/* Takes the smaller case if it shows the same. */
static bool try_smaller(fuzz_search *s, fuzz_finding *f, const fuzz_case *c, int *left) {
  fuzz_result r;
  if (*left <= 0 || !run_one(s, c, &r)) return false;
  --*left;
  if (fuzz_judge(s, c, &r) != f->verdict) return false;
  f->how = *c;
  f->result = r;
  return true;
}

static bool shrink_numbers(fuzz_search *s, fuzz_finding *f, int *left) {
  for (int i = 0; i < f->how.n_faults; i++) {
    const uint64_t number = f->how.fault[i].number, smaller[] = {1, number / 2, number - 1};
    for (int k = 0; k < 3; k++) {
      fuzz_case c = f->how;
      if (!smaller[k] || smaller[k] >= number) continue;
      c.fault[i].number = smaller[k];
      if (try_smaller(s, f, &c, left)) return true;
    }
  }
  return false;
}

/* One step; false if there is none. */
static bool shrink_step(fuzz_search *s, fuzz_finding *f, int *left) {
  fuzz_case c = f->how;
  if (c.schedule && places_of(&c)) {
    c.schedule = 0;
    if (try_smaller(s, f, &c, left)) return true;
  }
  for (int i = 0; i < f->how.n_faults; i++) {
    c = f->how;
    if (c.n_faults == 1 && !c.schedule) break; /* nothing would be left */
    memmove(&c.fault[i], &c.fault[i + 1], (size_t)(c.n_faults - i - 1) * sizeof *c.fault);
    c.n_faults--;
    if (try_smaller(s, f, &c, left)) return true;
  }
  return shrink_numbers(s, f, left);
}

static void fuzz_shrink(fuzz_search *s, fuzz_finding *f) {
  int left = f->verdict == FUZZ_HANG ? SHRINK_RUNS / 8 : SHRINK_RUNS; /* each costs the whole timeout */
  fuzz_case original = s->cases[f->index];
  fuzz_result r;
  /* Numbers may not repeat what draws did, where threads allocate side by side. */
  if (original.probability > 0 && f->how.probability <= 0 && run_one(s, &f->how, &r) &&
      fuzz_judge(s, &f->how, &r) != f->verdict)
    f->how = original;
  while (left > 0 && shrink_step(s, f, &left)) {
  }
  f->places = places_of(&f->how);
}

/* Removes findings that have become the same as one before them. */
static void merge_findings(fuzz_search *s) {
  int n = 0;
  for (int i = 0; i < s->n_findings; i++) {
    const fuzz_finding f = s->finding[i];
    int k = 0;
    while (k < n && (s->finding[k].verdict != f.verdict || s->finding[k].places != f.places)) k++;
    if (k < n)
      s->finding[k].n_runs += f.n_runs;
    else
      s->finding[n++] = f;
  }
  s->n_findings = n;
}

/* ---- search ------------------------------------------------------------------------------------------------------ */

static bool run_cases(fuzz_search *s) {
  fuzz_slot slot[MOST_JOBS] = {{0}};
  size_t index[MOST_JOBS], next = 0, done = 0;
  const size_t jobs = s->n_jobs < MOST_JOBS ? s->n_jobs : MOST_JOBS;
  while (done < s->n_cases) {
    for (size_t i = 0; i < jobs; i++) {
      fuzz_result r;
      if (!slot[i].pid && next < s->n_cases) {
        index[i] = next++;
        if (!fuzz_start(&slot[i], s->argv, &s->cases[index[i]])) return false;
        s->n_runs++;
      }
      if (!slot[i].pid || !fuzz_ended(&slot[i], s->timeout_ns, &r)) continue;
      done++;
      const fuzz_verdict v = fuzz_judge(s, &s->cases[index[i]], &r);
      if (v != FUZZ_FINE) fuzz_add_finding(s, index[i], v, &r);
    }
    nap();
  }
  return true;
}

bool fuzz_run_search(fuzz_search *s) {
  const fuzz_case plain = {0};
  const uint64_t given_ns = s->timeout_ns;
  fuzz_result again;
  if (!given_ns) s->timeout_ns = FUZZ_PLAIN_NS;
  if (!run_one(s, &plain, &s->plain)) return false;
  if (!given_ns) s->timeout_ns = 10 * s->plain.wall_ns > FUZZ_TIMEOUT_NS ? 10 * s->plain.wall_ns : FUZZ_TIMEOUT_NS;
  if (s->plain.hung || was_killed(s->plain.status)) {
    s->finding[s->n_findings++] =
        (fuzz_finding){.verdict = s->plain.hung ? FUZZ_HANG : FUZZ_CRASH, .result = s->plain, .n_runs = 1};
    return true;
  }
  if (!run_one(s, &plain, &again)) return false;
  s->varies = again.output != s->plain.output || again.status != s->plain.status;
  if (again.n_leaks > s->plain.n_leaks) s->plain.n_leaks = again.n_leaks;
  fuzz_plan(s);
  if (!run_cases(s)) return false;
  for (int i = 0; i < s->n_findings; i++) fuzz_shrink(s, &s->finding[i]);
  merge_findings(s);
  return true;
}
