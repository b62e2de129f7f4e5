/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/summary_refused.h"

#include <inttypes.h>
#include <stdbool.h>

#include "cli/check/lines.h"
#include "cli/figures.h"

/* "train.py:88", or the place of the call. */
static void holder_words(const stats_file *p, const stats_holder *h, char *text, size_t bytes) {
  if (*h->line)
    snprintf(text, bytes, "%s", h->line);
  else
    lines_describe(p, h->place, text, bytes);
}

static double refused_percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * (double)part / (double)whole : 0;
}

static uint32_t holders_listed(const stats_refusal *r) {
  return r->n_lines < STATS_MAX_HOLDERS ? r->n_lines : STATS_MAX_HOLDERS;
}

static void print_refusal(FILE *out, const stats_file *p, const stats_refusal *r, const char *which) {
  char text[256];
  holder_words(p, &r->asks, text, sizeof text);
  fprintf(out, "  refused     %s: %s on device %d, asked for by %s, %s\n", which, format_bytes(r->requested), r->device,
          text, r->asks.call);
  fprintf(out, "              %" PRIu64 " blocks held %s then\n", r->held_blocks, format_bytes(r->held_bytes));
  for (uint32_t i = 0; i < holders_listed(r); i++) {
    const stats_holder *h = &r->holders[i];
    holder_words(p, h, text, sizeof text);
    fprintf(out, "              %10s %5.1f %% %8" PRIu64 "  %s, %s\n", format_bytes(h->bytes),
            refused_percent(h->bytes, r->held_bytes), h->blocks, text, h->call);
  }
  if (r->n_lines > STATS_MAX_HOLDERS) fprintf(out, "              %u more\n", r->n_lines - STATS_MAX_HOLDERS);
}

/* Whether the largest request is not the first one. */
static bool largest_is_another(const stats_file *p) {
  return p->n_refusals > 1 && p->refused[1].requested > p->refused[0].requested;
}

void summary_refused(FILE *out, const stats_file *p) {
  if (!p->n_refusals) return;
  print_refusal(out, p, &p->refused[0], "first");
  if (largest_is_another(p)) print_refusal(out, p, &p->refused[1], "largest");
}

static cJSON *holder_json(const stats_file *p, const stats_holder *h) {
  char text[256];
  cJSON *object = cJSON_CreateObject();
  holder_words(p, h, text, sizeof text);
  cJSON_AddStringToObject(object, "where", text);
  cJSON_AddStringToObject(object, "call", h->call);
  return object;
}

cJSON *summary_refused_json(const stats_file *p) {
  cJSON *list = cJSON_CreateArray();
  const int n = !p->n_refusals ? 0 : largest_is_another(p) ? 2 : 1;
  for (int i = 0; i < n; i++) {
    const stats_refusal *r = &p->refused[i];
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "device", r->device);
    cJSON_AddNumberToObject(object, "requested_bytes", (double)r->requested);
    cJSON_AddNumberToObject(object, "held_bytes", (double)r->held_bytes);
    cJSON_AddNumberToObject(object, "held_blocks", (double)r->held_blocks);
    cJSON_AddItemToObject(object, "asked_by", holder_json(p, &r->asks));
    cJSON *holders = cJSON_AddArrayToObject(object, "held_by");
    for (uint32_t k = 0; k < holders_listed(r); k++) {
      cJSON *holder = holder_json(p, &r->holders[k]);
      cJSON_AddNumberToObject(holder, "bytes", (double)r->holders[k].bytes);
      cJSON_AddNumberToObject(holder, "blocks", (double)r->holders[k].blocks);
      cJSON_AddNumberToObject(holder, "share", refused_percent(r->holders[k].bytes, r->held_bytes) / 100);
      cJSON_AddItemToArray(holders, holder);
    }
    cJSON_AddItemToArray(list, object);
  }
  return list;
}
