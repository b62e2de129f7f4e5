/* What `cannon replay` shows: a table for people, JSON for programs, a page with a picture. */
#ifndef CANNON_CLI_REPLAY_REPORT_H
#define CANNON_CLI_REPLAY_REPORT_H

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

/* As replay_page.html begins, by which the page is told from others' files. */
#define REPLAY_PAGE_BEGINS                                                                                             \
  "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>cannon replay</title>\n"

/* One file with everything in it: for each allocator, which addresses each block had from when to when, drawn on a
 * canvas. Replays the trace once more for each. */
bool replay_write_html(FILE *f, const replay_report *r);

/* The report as one JSON object, to be freed by cJSON_free(); NULL without memory. */
char *replay_json(const replay_report *r);

/* The cap that the allocators got. */
uint64_t replay_cap(const replay_report *r);

#endif
