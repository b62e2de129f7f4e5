/* SPDX-License-Identifier: Apache-2.0 */
/* How long each task of the step takes: by the device's model, or as it ran. */
#include <stdlib.h>
#include <string.h>

#include "fit/advise/model.h"

enum { CLOCK_MAX_STEPS = 32 };

/* Whether the tasks from `first` on are those of the model's step, one by one. */
static bool clock_is_alike(const advise_model *m, size_t first, size_t n) {
  const history_task *a = m->history->tasks + m->first_task, *b = m->history->tasks + first;
  if (n != m->n_tasks) return false;
  for (size_t i = 0; i < n; ++i) {
    const bool same_name = a[i].name == b[i].name || strcmp(a[i].name, b[i].name) == 0;
    if (!same_name || a[i].device != b[i].device || a[i].phase != b[i].phase) return false;
  }
  return true;
}

static int clock_by_number(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double clock_median(double *sample, size_t n) {
  qsort(sample, n, sizeof *sample, clock_by_number);
  return n % 2 ? sample[n / 2] : (sample[n / 2 - 1] + sample[n / 2]) / 2;
}

/* The last CLOCK_MAX_STEPS steps whose tasks are the model's; its own is always among them. */
static size_t clock_steps(const advise_model *m, size_t first[CLOCK_MAX_STEPS], double spans[CLOCK_MAX_STEPS]) {
  const history *h = m->history;
  size_t n = 1;
  first[0] = m->first_task;
  spans[0] = m->step == HISTORY_NONE ? 0 : (double)(h->steps[m->step].end_ns - h->steps[m->step].begin_ns);
  for (size_t s = h->n_steps; s-- > 0 && m->step != HISTORY_NONE && n < CLOCK_MAX_STEPS;) {
    const size_t at = history_first_task(h, h->steps[s].begin), end = history_first_task(h, h->steps[s].end);
    if (s == m->step || end < at || !clock_is_alike(m, at, end - at)) continue;
    first[n] = at;
    spans[n++] = (double)(h->steps[s].end_ns - h->steps[s].begin_ns);
  }
  return n;
}

static void clock_measure(advise_model *m) {
  const history_task *tasks = m->history->tasks;
  size_t first[CLOCK_MAX_STEPS];
  double sample[CLOCK_MAX_STEPS];
  const size_t n = clock_steps(m, first, sample);
  m->span_ns = clock_median(sample, n);
  for (size_t i = 0; i < m->n_tasks; ++i) {
    for (size_t s = 0; s < n; ++s) sample[s] = (double)tasks[first[s] + i].measured_ns;
    m->task_ns[i] = clock_median(sample, n);
  }
}

/* Fewer than 100 operations for a byte are bound by memory on every device of devices/. */
static bool clock_moves(const history *h, const history_task *t, uint64_t *bytes) {
  *bytes = 0;
  for (uint32_t a = t->first_access; a < t->first_access + t->n_accesses; ++a) *bytes += h->accesses[a].bytes;
  return t->operations < 100 * *bytes;
}

/* The time of the quickest tenth of the tasks, and of a byte. */
static bool clock_rates(advise_model *m) {
  const history *h = m->history;
  double *times = malloc((m->n_tasks + 1) * sizeof *times), ns = 0, moved = 0;
  size_t n = 0;
  if (!times) return false;
  for (size_t i = 0; i < m->n_tasks; ++i)
    if (m->task_ns[i] > 0) times[n++] = m->task_ns[i];
  qsort(times, n, sizeof *times, clock_by_number);
  m->fixed_ns = n ? times[n / 10] : 0;
  free(times);
  for (size_t i = 0; i < m->n_tasks; ++i) {
    uint64_t bytes;
    if (m->task_ns[i] <= m->fixed_ns || !clock_moves(h, &h->tasks[m->first_task + i], &bytes)) continue;
    ns += m->task_ns[i] - m->fixed_ns;
    moved += (double)bytes;
  }
  m->byte_ns = moved > 0 ? ns / moved : 0;
  return true;
}

bool advise_clock_make(advise_model *m, advise_time time) {
  const history *h = m->history;
  bool has_measured = false;
  m->task_ns = calloc(m->n_tasks + 1, sizeof *m->task_ns);
  if (!m->task_ns) return false;
  for (size_t i = 0; i < m->n_tasks; ++i) {
    m->task_ns[i] = (double)h->tasks[m->first_task + i].device_ns;
    has_measured |= h->tasks[m->first_task + i].measured_ns > 0;
  }
  m->is_measured = has_measured && !h->is_dry && time == ADVISE_TIME_OF_RECORDING;
  if (m->is_measured) clock_measure(m);
  return clock_rates(m);
}
