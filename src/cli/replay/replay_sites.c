/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/replay_sites.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/figures.h"
#include "cli/fit/history_open.h"
#include "cli/fit/memory_report.h"
#include "cli/page.h"

enum { MOST_STREAMS = 4 }; /* of a block that are told; a block that more use is shown with these and "..." */

typedef struct {
  unsigned n; /* MOST_STREAMS + 1: there are more */
  int64_t number[MOST_STREAMS];
} block_streams;

/* What is known of the trace's blocks. */
typedef struct {
  const history *h;
  account_lines lines;
  uint32_t *of_block; /* a site of the history; HISTORY_NONE: not known */
  block_streams *streams;
  uint32_t *number_of; /* by site of the history: its index on the page plus 1; 0: it is not there */
} trace_sites;

static void add_stream(block_streams *s, int64_t stream) {
  unsigned i = 0;
  if (stream < 0 || s->n > MOST_STREAMS) return;
  while (i < s->n && s->number[i] != stream) ++i;
  if (i < s->n) return;
  if (s->n < MOST_STREAMS) s->number[s->n] = stream;
  ++s->n;
}

/* The streams whose tasks use a block of the history, if the recording has tasks. */
static void add_users(block_streams *to, const history *h, const history_block *block) {
  for (uint32_t i = block->first_use; i < block->first_use + block->n_uses; ++i)
    add_stream(to, h->tasks[h->accesses[h->uses[i]].task].stream);
}

/* The site of each block: the history's, which knows for which line threads of autograd work, and for host memory,
 * of which it has no blocks, the recording's own. */
static void find_sites(trace_sites *s, const trace *t, uint32_t *trace_block) {
  size_t at = 0; /* both are in the order of allocations */
  for (uint32_t b = 0; b < t->n_blocks; ++b) {
    const uint64_t moment = t->origin[b].moment;
    while (at < s->h->n_blocks && s->h->blocks[at].born < moment) ++at;
    const bool known = at < s->h->n_blocks && s->h->blocks[at].born == moment;
    add_stream(&s->streams[b], t->origin[b].stream);
    if (known) trace_block[at] = b;
    s->of_block[b] = known ? s->h->blocks[at].site : history_numbered_site(s->h, t->origin[b].site);
  }
}

/* What the trace has is a framework's segment where the history has tensors. */
static void find_streams(trace_sites *s, const uint32_t *trace_block) {
  for (size_t i = 0; i < s->h->n_blocks; ++i) {
    const history_block *block = &s->h->blocks[i];
    const uint32_t b = trace_block[block->segment == HISTORY_NONE ? i : block->segment];
    if (b != HISTORY_NONE) add_users(&s->streams[b], s->h, block);
  }
}

static void find_all(trace_sites *s, const trace *t) {
  uint32_t *trace_block = replay_must_alloc((s->h->n_blocks + 1) * sizeof *trace_block);
  for (size_t i = 0; i < s->h->n_blocks; ++i) trace_block[i] = HISTORY_NONE;
  s->of_block = replay_must_alloc((t->n_blocks + (size_t)1) * sizeof *s->of_block);
  s->streams = replay_must_alloc((t->n_blocks + (size_t)1) * sizeof *s->streams);
  find_sites(s, t, trace_block);
  find_streams(s, trace_block);
  free(trace_block);
}

static void sites_write_text(FILE *f, const char *text) {
  cJSON *item = cJSON_CreateString(text);
  char *json = cJSON_PrintUnformatted(item);
  cJSON_Delete(item);
  if (json) page_write_json(f, json);
  cJSON_free(json);
}

static void sites_write_frame(FILE *f, const history_line *line) {
  enum { BYTES = 512 };
  char raw[BYTES], shown[2 * BYTES];
  int n = snprintf(raw, sizeof raw, "%s", *line->file ? line->file : "?");
  if (line->line && n < BYTES) n += snprintf(raw + n, (size_t)(BYTES - n), ":%" PRIu32, line->line);
  if (*line->function && n < BYTES) snprintf(raw + n, (size_t)(BYTES - n), " (%s)", line->function);
  text_safe(shown, sizeof shown, raw, strlen(raw));
  sites_write_text(f, shown);
}

static void sites_write_one(FILE *f, const trace_sites *s, uint32_t site) {
  const history_site *frames = &s->h->sites[site];
  fputs("{line:", f);
  sites_write_text(f, memory_line_words(account_line_of(s->h, &s->lines, site)));
  fputs(",stack:[", f);
  for (uint32_t i = 0; i < frames->n; ++i) {
    if (i) fputc(',', f);
    sites_write_frame(f, &s->h->lines[frames->first + i]);
  }
  fputs("]},\n", f);
}

static void write_streams(FILE *f, const block_streams *s) {
  fputc('"', f);
  for (unsigned i = 0; i < s->n && i < MOST_STREAMS; ++i) fprintf(f, "%s%" PRId64, i ? ", " : "", s->number[i]);
  fputs(s->n > MOST_STREAMS ? ", ...\"," : "\",", f);
}

static void sites_write_all(FILE *f, trace_sites *s, const trace *t) {
  uint32_t n = 0;
  s->number_of = replay_must_alloc((s->h->n_sites + 1) * sizeof *s->number_of);
  fputs("sites:[", f);
  for (uint32_t b = 0; b < t->n_blocks; ++b) {
    const uint32_t site = s->of_block[b];
    if (site == HISTORY_NONE || s->number_of[site]) continue;
    s->number_of[site] = ++n;
    sites_write_one(f, s, site);
  }
  fputs("],\nsite:[", f);
  for (uint32_t b = 0; b < t->n_blocks; ++b) {
    const uint32_t site = s->of_block[b];
    fprintf(f, "%" PRId64 ",", site == HISTORY_NONE ? -1 : (int64_t)s->number_of[site] - 1);
  }
  fputs("],\nstreams:[", f);
  for (uint32_t b = 0; b < t->n_blocks; ++b) write_streams(f, &s->streams[b]);
  fputs("],\n", f);
  free(s->number_of);
}

bool replay_write_sites(FILE *f, const replay_report *r) {
  char error[256];
  size_t n;
  if (!r->trace->origin) return true;
  char *data = trace_unpack(r->path, &n, error);
  history *h = data ? history_open_data(data, n, error) : NULL;
  free(data);
  if (!h) {
    fprintf(stderr, "cannon replay: %s: %s\n", format_text(r->path), format_text(error));
    return false;
  }
  trace_sites s = {.h = h};
  account_lines_make(h, &s.lines);
  find_all(&s, r->trace);
  sites_write_all(f, &s, r->trace);
  free(s.of_block);
  free(s.streams);
  account_lines_free(&s.lines);
  history_free(h);
  return true;
}
