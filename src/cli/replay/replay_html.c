/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `cannon replay --html`: replay_page.html, followed by a script with what pages share and with the data
 * that it draws. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cli/page.h"
#include "cli/replay/replay_report.h"
#include "cli/replay/replay_sites.h"

/* The text of replay_page.html, embedded from the source folder. */
__asm__(".pushsection .rodata\n"
        ".global replay_page\n"
        "replay_page: .incbin \"" REPLAY_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char replay_page[];

enum { N_SAMPLES = 1000 }; /* of the curves; a screen shows no more */
#define NO_EVENT UINT64_MAX

typedef struct {
  size_t n_events;
  uint64_t *address;                              /* of each block; UINT64_MAX: it was refused */
  uint64_t committed[N_SAMPLES], live[N_SAMPLES]; /* maximum over the events of each sample */
} picture;

static void raise_sample(uint64_t *sample, uint64_t value) {
  if (*sample == NO_EVENT || value > *sample) *sample = value;
}

static void note_step(const replay_step *s, void *argument) {
  picture *p = argument;
  const size_t i = s->event * N_SAMPLES / p->n_events;
  raise_sample(&p->committed[i], s->footprint.committed_bytes);
  raise_sample(&p->live[i], s->live_bytes);
  if (s->alloc) p->address[s->block] = s->bytes ? s->address : UINT64_MAX;
}

/* Gives a sample without events the value of the previous one; the first sample has an event. */
static void fill_gaps(uint64_t *sample) {
  for (int i = 1; i < N_SAMPLES; ++i)
    if (sample[i] == NO_EVENT) sample[i] = sample[i - 1];
}

static void write_numbers(FILE *f, const char *name, const uint64_t *value, size_t n) {
  fprintf(f, "%s:[", name);
  for (size_t i = 0; i < n; ++i) {
    if (value[i] == UINT64_MAX)
      fputs("-1,", f);
    else
      fprintf(f, "%" PRIu64 ",", value[i]);
  }
  fputs("],\n", f);
}

/* Writes each block's first and last event and its size. */
static void write_blocks(FILE *f, const trace *t) {
  uint64_t *value = replay_must_alloc((3 * (size_t)t->n_blocks + 1) * sizeof *value);
  uint64_t *start = value, *end = value + t->n_blocks, *bytes = end + t->n_blocks;
  for (uint32_t b = 0; b < t->n_blocks; ++b) end[b] = t->n_events;
  for (size_t i = 0; i < t->n_events; ++i) {
    const trace_event *e = &t->event[i];
    if (!e->bytes) {
      end[e->block] = i;
      continue;
    }
    start[e->block] = i;
    bytes[e->block] = e->bytes;
  }
  write_numbers(f, "start", start, t->n_blocks);
  write_numbers(f, "end", end, t->n_blocks);
  write_numbers(f, "bytes", bytes, t->n_blocks);
  free(value);
}

static bool write_allocator(FILE *f, const replay_report *r, const allocator *a) {
  picture *p = replay_must_alloc(sizeof *p);
  p->n_events = r->trace->n_events;
  for (int i = 0; i < N_SAMPLES; ++i) p->committed[i] = p->live[i] = NO_EVENT;
  p->address = replay_must_alloc((r->trace->n_blocks + (size_t)1) * sizeof *p->address);
  const bool good = replay_walk(a, r->trace, replay_cap(r), note_step, p);
  if (good) {
    fill_gaps(p->committed);
    fill_gaps(p->live);
    fputs("{", f);
    write_numbers(f, "committed", p->committed, N_SAMPLES);
    write_numbers(f, "live", p->live, N_SAMPLES);
    write_numbers(f, "address", p->address, r->trace->n_blocks);
    fputs("},\n", f);
  }
  free(p->address);
  free(p);
  return good;
}

bool replay_write_html(FILE *f, const replay_report *r) {
  char *json = replay_json(r);
  if (!json) return false;
  page_begin(f, replay_page);
  page_write_json(f, json);
  cJSON_free(json);
  fputs(", {\n", f);
  write_blocks(f, r->trace);
  bool good = replay_write_sites(f, r);
  fputs("allocators:[\n", f);
  for (int i = 0; i < r->n && good; ++i) good = write_allocator(f, r, r->result[i].allocator);
  fputs("]});\n</script>\n", f);
  return good && !ferror(f);
}
