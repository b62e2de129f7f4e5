/* SPDX-License-Identifier: Apache-2.0 */
/* Health of a process's memory: four figures, each graded by limits in health.c. Called by the summary. */
#ifndef CANNON_CLI_REPORT_HEALTH_H
#define CANNON_CLI_REPORT_HEALTH_H

#include "trace/stats.h"

#include <stdbool.h>

typedef enum { HEALTH_LATENCY, HEALTH_FRAGMENTATION, HEALTH_HIT_RATE, HEALTH_ZERO_COPY, HEALTH_KINDS } health_kind;

typedef enum { HEALTH_UNKNOWN, HEALTH_GOOD, HEALTH_FAIR, HEALTH_BAD } health_grade;

typedef struct {
  double value; /* in microseconds for latency, otherwise a fraction of 1 */
  health_grade grade;
} health_verdict;

/* Returns GOOD if the value is better than the kind's good limit, BAD if it is worse than the bad limit, otherwise
 * FAIR. A value equal to a limit is FAIR. */
health_grade health_judge(health_kind kind, double value);

/* Judges a value of one device or kind of memory. basis: the number of events or bytes that the value is about. Returns
 * HEALTH_UNKNOWN where these are too few. */
health_grade health_judge_of(health_kind kind, double value, uint64_t basis);

/* Returns HEALTH_UNKNOWN if there are too few events to judge. running: judge the current fragmentation instead of
 * that at the peak. */
health_verdict health_of(const stats_file *p, health_kind kind, bool running);

/* Names for people, such as "hit rate" and "good". */
const char *health_name(health_kind kind);
const char *health_grade_name(health_grade grade);

/* Fraction of committed memory that is not live, now or at the peaks; 0 if nothing is committed. */
double health_fragmentation(const stats_heap *h, bool running);

/* Fraction of memory that the rounding of allocation sizes adds: of the blocks that are live now, or of all blocks
 * so far. */
double health_internal(const stats_heap *h, bool running);

/* Fraction of allocations that were served from committed memory; 0 if there were none. */
double health_hit_rate(const stats_heap *h);

#endif
