/* SPDX-License-Identifier: Apache-2.0 */
/* Output of `cannon scale`: tables for people, JSON for programs. */
#ifndef CANNON_CLI_REPLAY_SCALE_REPORT_H
#define CANNON_CLI_REPLAY_SCALE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "replay/scale.h"

typedef struct {
  const char *path; /* of the first recording */
  const scale_trace *trace;
  const topology *topology;
  const scale_options *options;
  uint32_t n;
  const scale_result *result;
} scale_report;

void scale_print(FILE *f, const scale_report *r);
bool scale_write_json(FILE *f, const scale_report *r);

#endif
