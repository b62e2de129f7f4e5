/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of plans: time to the right, addresses upwards. Called by `cannon plan`. */
#ifndef CANNON_CLI_PLAN_PLAN_DRAW_H
#define CANNON_CLI_PLAN_PLAN_DRAW_H

#include "cli/plan/plan_csv.h"

/* First bytes of the files, by which they are distinguished from other files. */
#define PLAN_PICTURE_BEGINS "<svg class=\"cannon-plan\" "
#define PLAN_PAGE_BEGINS    "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<title>cannon plan</title>\n"

typedef struct {
  const char *path; /* of the problem */
  const plan_file *file;
  const uint64_t *offsets;
  const cannon_plan_result *result;
  uint64_t capacity;  /* 0: none */
  uint64_t alignment; /* of all buffers; 0: as in the file */
} plan_picture;

bool plan_draw_svg(FILE *f, const plan_picture *p);
/* A page with an interactive picture (plan_html.c). */
bool plan_draw_html(FILE *f, const plan_picture *p);

/* A rectangle of the picture: a buffer, or, if it has gaps, a part of it. */
typedef struct {
  size_t buffer;
  uint64_t lower, upper; /* times */
  uint64_t address, bytes;
} plan_box;
void plan_each_box(const plan_picture *p, void (*visit)(const plan_box *box, void *argument), void *argument);

/* From the first to the last time of all buffers; first is UINT64_MAX if there are none. */
typedef struct {
  uint64_t first, last;
} plan_span;
plan_span plan_times(const plan_picture *p);

#endif
