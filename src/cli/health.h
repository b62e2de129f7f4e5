/* Whether a process's memory is as it should be: four figures and what is good and bad of each. */
#ifndef CANNON_CLI_HEALTH_H
#define CANNON_CLI_HEALTH_H

#include "trace/stats.h"

#include <stdbool.h>

typedef enum { HEALTH_LATENCY, HEALTH_FRAGMENTATION, HEALTH_HIT_RATE, HEALTH_ZERO_COPY, HEALTH_KINDS } health_kind;

typedef enum { HEALTH_UNKNOWN, HEALTH_GOOD, HEALTH_FAIR, HEALTH_BAD } health_grade;

typedef struct {
  double value; /* us for latency, else a share of 1 */
  health_grade grade;
} health_verdict;

/* Where value is better than the kind's good limit, worse than its bad one, or between; at a limit it is fair. */
health_grade health_judge(health_kind kind, double value);

/* HEALTH_UNKNOWN where too little happened to tell. running: fragmentation is that of now, else that of the peak. */
health_verdict health_of(const stats_file *p, health_kind kind, bool running);

const char *health_name(health_kind kind);
const char *health_grade_name(health_grade grade);

/* 1 - live / committed, as of now or as of their peaks; 0 where nothing is committed. */
double health_fragmentation(const stats_heap *h, bool running);

/* 1 - asked for / given, that is, what the rules of allocation add: to what is live now, or to all there ever was. */
double health_internal(const stats_heap *h, bool running);

/* Share of allocations from committed memory, of bytes that needed no copy; 0 without any. */
double health_hit_rate(const stats_heap *h);

#endif
