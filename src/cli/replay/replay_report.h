/* SPDX-License-Identifier: Apache-2.0 */
/* Output of `cannon replay`: a table for people, JSON for programs, and an HTML page with a picture. */
#ifndef CANNON_CLI_REPLAY_REPLAY_REPORT_H
#define CANNON_CLI_REPLAY_REPLAY_REPORT_H

#include <stdio.h>

#include "replay/replay.h"

typedef struct {
  const char *path;
  const trace *trace;
  uint64_t cap_bytes; /* 0: none was given */
  int n;
  const replay_result *result;
} replay_report;

void replay_print(FILE *f, const replay_report *r);
bool replay_write_json(FILE *f, const replay_report *r);

/* First bytes of replay_page.html, by which such pages are distinguished from other files. */
#define REPLAY_PAGE_BEGINS                                                                                             \
  "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon replay</title>\n"

/* Writes one self-contained page that draws, for each allocator, the addresses of each block over time. Replays the
 * trace once more for each allocator. */
bool replay_write_html(FILE *f, const replay_report *r);

/* Returns the report as one JSON object, to be freed with cJSON_free(), or NULL if there is no memory. */
char *replay_json(const replay_report *r);

/* Returns the cap that the allocators got. */
uint64_t replay_cap(const replay_report *r);

#endif
