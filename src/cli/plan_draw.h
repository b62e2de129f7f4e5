/* Pictures of plans: time to the right, addresses upwards. */
#ifndef CANNON_CLI_PLAN_DRAW_H
#define CANNON_CLI_PLAN_DRAW_H

#include "cli/plan_csv.h"

typedef struct {
  const char *path; /* of the problem */
  const plan_file *file;
  const uint64_t *offsets;
  const cannon_plan_result *result;
  uint64_t capacity; /* 0: none */
} plan_picture;

bool plan_draw_svg(FILE *f, const plan_picture *p);
bool plan_draw_html(FILE *f, const plan_picture *p); /* a page with the picture, which tells what the mouse is on */

#endif
