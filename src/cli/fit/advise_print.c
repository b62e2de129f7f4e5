/* SPDX-License-Identifier: Apache-2.0 */
/* The text and the page of `cannon advise` (advise_report.h). */
#include <cjson/cJSON.h>
#include <inttypes.h>

#include "cli/figures.h"
#include "cli/fit/advise_report.h"
#include "cli/output.h"
#include "cli/page.h"

__asm__(".pushsection .rodata\n"
        ".global advise_page\n"
        "advise_page: .incbin \"" ADVISE_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char advise_page[];

enum { PLAN_WORDS = 1024 };

static const char *time_words(double ns) { return format_ns(ns > 0 ? (uint64_t)ns : 0); }

static void advise_print_plan(FILE *f, const advise_report *r, const advise_plan *p) {
  char words[PLAN_WORDS];
  const double base = r->advice->model->step_ns;
  advise_plan_words(r, p, words, sizeof words);
  fprintf(f, "  %11s %10s %+7.1f %%  %-4s %s%s\n", format_bytes(p->peak), time_words(p->step_ns),
          base > 0 ? 100 * (p->step_ns / base - 1) : 0, p->fits ? "fits" : "", words,
          p->is_estimate ? " (estimate)" : "");
}

static void advise_print_step(void *to, const char *line) { fprintf(to, "    %s\n", line); }

static void advise_print_heading(FILE *f, const advise_report *r) {
  const advice *a = r->advice;
  const advise_model *m = a->model;
  fprintf(f, "%s: step %d of %zu on device %u, %zu blocks, %u modules in a chain\n", format_text(r->path),
          m->step == HISTORY_NONE ? 0 : (int)m->step + 1, m->history->n_steps, m->device, m->n_items, m->n_links);
  if (m->step == HISTORY_NONE || !m->n_links)
    fprintf(f, "  the recording has no %s, so there are no plans that need them\n",
            m->step == HISTORY_NONE ? "steps" : "modules");
  fprintf(f, "  peak %s, device time %s %s; reserved %s at most\n", format_bytes(m->peak), time_words(m->step_ns),
          m->is_measured ? "as the tasks ran here" : "by the device's model", format_bytes(m->reserved));
  fprintf(f, "  to fit %s, of which %.0f %% stay free: %s\n\n", format_bytes(a->fit_bytes), 100 * a->policy.keep_free,
          a->as_is.fits ? "it fits" : "it does not fit");
}

static void advise_print_rules(FILE *f, const advice *a) {
  for (unsigned i = 0; i < a->policy.n_rules; ++i) {
    const policy_rule *rule = &a->policy.rules[i];
    const double value = rule->of_compute ? a->compute : (double)a->as_is.peak / (double)a->fit_bytes;
    if (value < 0 || (rule->is_less ? value >= rule->limit : value <= rule->limit)) continue;
    fprintf(f, "  %s is at %.2f, %s %.2f:", rule->of_compute ? "compute" : "memory", value,
            rule->is_less ? "under" : "over", rule->limit);
    for (int action = 0; action < POLICY_N_ACTIONS; ++action)
      if (rule->actions >> action & 1) fprintf(f, " %s", advise_policy_action_word(action));
    fprintf(f, "\n");
  }
}

static void advise_print_batch(FILE *f, const advise_report *r) {
  const uint64_t largest = advise_largest_batch(r);
  if (r->batch[0])
    fprintf(f, "  largest batch: %" PRIu64 "%s\n", largest,
            r->second ? ", by the line through both recordings" : " (estimate)");
  else if (r->advice->largest_batch > 0)
    fprintf(f, "  largest batch: %.2f times the recorded one (estimate)\n", r->advice->largest_batch);
}

static void advise_print_pipeline(FILE *f, const advise_report *r) {
  const advice *a = r->advice;
  const advise_pipeline *p = &a->pipeline;
  if (!p->n) return;
  fprintf(f, "\npipeline of %u devices, %u micro-batches: %s a step, bubble %.0f %%, transfers %s (estimate)\n", p->n,
          p->micro_batches, time_words(p->step_ns), 100 * p->bubble, time_words(p->transfer_ns));
  for (uint32_t k = 0; k < p->n; ++k) {
    const history_module *modules = a->model->history->modules;
    fprintf(f, "  device %-3u %11s %10s  %s to %s\n", k, format_bytes(p->peak[k]), time_words(p->busy_ns[k]),
            format_text(modules[a->model->links[p->first[k]].module].name),
            format_text(modules[a->model->links[p->first[k + 1] - 1].module].name));
  }
}

void advise_print(FILE *f, const advise_report *r) {
  const advice *a = r->advice;
  advise_print_heading(f, r);
  fprintf(f, "one change at a time:\n  %11s %10s %9s\n", "peak", "step", "time");
  advise_print_plan(f, r, &a->as_is);
  for (size_t i = 0; i < a->single.n; ++i) advise_print_plan(f, r, &a->single.plans[i]);
  fprintf(f, "\nleast memory for the time (of combinations):\n  %11s %10s %9s\n", "peak", "step", "time");
  const size_t step = r->top && a->frontier.n > r->top ? (a->frontier.n + r->top - 1) / r->top : 1;
  for (size_t i = 0; i < a->frontier.n; i += step) advise_print_plan(f, r, &a->frontier.plans[i]);
  advise_print_pipeline(f, r);
  fprintf(f, "\n");
  advise_print_batch(f, r);
  advise_print_rules(f, a);
  if (!a->cheapest.fits) {
    fprintf(f, "\nno plan fits%s\n", a->devices < 2 ? "; more devices (--devices N) may help" : "");
    return;
  }
  fprintf(f, "\ncheapest plan that fits:\n");
  advise_print_plan(f, r, &a->cheapest);
  advise_plan_steps(r, &a->cheapest, advise_print_step, f);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void advise_json_step(void *to, const char *line) { cJSON_AddItemToArray(to, cJSON_CreateString(line)); }

static cJSON *advise_json_plan(const advise_report *r, const advise_plan *p) {
  const advice *a = r->advice;
  char words[PLAN_WORDS];
  cJSON *o = cJSON_CreateObject(), *links = cJSON_CreateArray(), *steps = cJSON_CreateArray();
  cJSON *groups = cJSON_CreateArray(), *group = NULL;
  advise_plan_words(r, p, words, sizeof words);
  cJSON_AddStringToObject(o, "plan", words);
  cJSON_AddNumberToObject(o, "peak_bytes", (double)p->peak);
  cJSON_AddNumberToObject(o, "step_ns", p->step_ns);
  cJSON_AddBoolToObject(o, "fits", p->fits);
  cJSON_AddBoolToObject(o, "exact", p->is_exact);
  cJSON_AddBoolToObject(o, "estimate", p->is_estimate);
  cJSON_AddBoolToObject(o, "amp", p->storage == STORAGE_AMP);
  cJSON_AddBoolToObject(o, "half", p->storage == STORAGE_HALF);
  cJSON_AddStringToObject(o, "attention", (const char *[]){"standard", "chunked", "flash"}[p->attention]);
  cJSON_AddNumberToObject(o, "accumulate", p->micro_batches);
  cJSON_AddNumberToObject(o, "zero", p->zero);
  cJSON_AddNumberToObject(o, "offload_bytes", (double)p->moved_bytes);
  for (uint32_t k = 0; p->group && k < a->model->n_links; ++k) {
    const char *name = format_text(a->model->history->modules[a->model->links[k].module].name);
    if (!p->group[k]) continue;
    if (!k || p->group[k] != p->group[k - 1]) cJSON_AddItemToArray(groups, group = cJSON_CreateArray());
    cJSON_AddItemToArray(group, cJSON_CreateString(name));
    cJSON_AddItemToArray(links, cJSON_CreateString(name));
  }
  cJSON_AddItemToObject(o, "recompute", links);
  cJSON_AddItemToObject(o, "recompute_groups", groups);
  advise_plan_steps(r, p, advise_json_step, steps);
  cJSON_AddItemToObject(o, "changes", steps);
  return o;
}

static cJSON *advise_json_plans(const advise_report *r, const advise_plans *plans) {
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < plans->n; ++i) cJSON_AddItemToArray(list, advise_json_plan(r, &plans->plans[i]));
  return list;
}

static cJSON *advise_json_pipeline(const advice *a) {
  const advise_pipeline *p = &a->pipeline;
  cJSON *o = cJSON_CreateObject(), *stages = cJSON_CreateArray();
  cJSON_AddNumberToObject(o, "micro_batches", p->micro_batches);
  cJSON_AddNumberToObject(o, "step_ns", p->step_ns);
  cJSON_AddNumberToObject(o, "transfer_ns", p->transfer_ns);
  cJSON_AddNumberToObject(o, "bubble", p->bubble);
  for (uint32_t k = 0; k < p->n; ++k) {
    cJSON *stage = cJSON_CreateObject(), *links = cJSON_CreateArray();
    cJSON_AddNumberToObject(stage, "peak_bytes", (double)p->peak[k]);
    cJSON_AddNumberToObject(stage, "busy_ns", p->busy_ns[k]);
    cJSON_AddNumberToObject(stage, "sent_bytes", (double)p->sent_bytes[k]);
    for (uint32_t l = p->first[k]; l < p->first[k + 1]; ++l)
      cJSON_AddItemToArray(links,
                           cJSON_CreateString(format_text(a->model->history->modules[a->model->links[l].module].name)));
    cJSON_AddItemToObject(stage, "modules", links);
    cJSON_AddItemToArray(stages, stage);
  }
  cJSON_AddItemToObject(o, "stages", stages);
  return o;
}

char *advise_json(const advise_report *r) {
  const advice *a = r->advice;
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, OUTPUT_JSON_AUTHOR, "cannon advise");
  cJSON_AddStringToObject(o, "recording", format_text(r->path));
  cJSON_AddStringToObject(o, "program", format_text(a->model->history->program));
  cJSON_AddNumberToObject(o, "fit_bytes", (double)a->fit_bytes);
  cJSON_AddNumberToObject(o, "budget_bytes", (double)a->budget);
  cJSON_AddNumberToObject(o, "reserved_bytes", (double)a->model->reserved);
  cJSON_AddNumberToObject(o, "devices", a->devices);
  cJSON_AddStringToObject(o, "time", a->model->is_measured ? "recorded" : "model");
  if (a->compute >= 0) cJSON_AddNumberToObject(o, "compute", a->compute);
  cJSON_AddNumberToObject(o, "largest_batch_factor", a->largest_batch);
  if (r->batch[0]) cJSON_AddNumberToObject(o, "largest_batch", (double)advise_largest_batch(r));
  cJSON_AddItemToObject(o, "as_is", advise_json_plan(r, &a->as_is));
  cJSON_AddItemToObject(o, "single", advise_json_plans(r, &a->single));
  cJSON_AddItemToObject(o, "frontier", advise_json_plans(r, &a->frontier));
  if (a->cheapest.fits) cJSON_AddItemToObject(o, "cheapest", advise_json_plan(r, &a->cheapest));
  if (a->pipeline.n) cJSON_AddItemToObject(o, "pipeline", advise_json_pipeline(a));
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  return text;
}

bool advise_write_json(FILE *f, const advise_report *r) {
  char *text = advise_json(r);
  if (!text) return false;
  fprintf(f, "%s\n", text);
  cJSON_free(text);
  return !ferror(f);
}

bool advise_write_html(FILE *f, const advise_report *r) {
  char *text = advise_json(r);
  if (!text) return false;
  page_begin(f, advise_page);
  page_write_json(f, text);
  cJSON_free(text);
  fputs(");\n</script>\n", f);
  return !ferror(f);
}
