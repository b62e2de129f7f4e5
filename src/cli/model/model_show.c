/* SPDX-License-Identifier: Apache-2.0 */
/* cannon model show: what becomes of a model, from the library's description. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "cli/figures.h"
#include "cli/model/model_command.h"

enum { TEXTS = 8, TEXT = 128 };

static const char *json_text_of(const cJSON *o, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(o, name));
  return text ? text : "";
}

static double show_number(const cJSON *o, const char *name) {
  const cJSON *n = cJSON_GetObjectItem(o, name);
  return n ? n->valuedouble : 0;
}

const char *model_value_text(const cJSON *value) {
  static char texts[TEXTS][TEXT];
  static int next;
  char *to = texts[next++ % TEXTS];
  size_t n = (size_t)snprintf(to, TEXT, "%.24s [", json_text_of(value, "dtype"));
  const cJSON *d;
  bool first = true;
  cJSON_ArrayForEach(d, cJSON_GetObjectItem(value, "shape")) {
    if (n < TEXT - 24) n += (size_t)snprintf(to + n, TEXT - n, "%s%.0f", first ? "" : ", ", d->valuedouble);
    first = false;
  }
  snprintf(to + n, TEXT - n, "]");
  return to;
}

static void print_ports(const char *title, const cJSON *ports) {
  const cJSON *p;
  printf("%s\n", title);
  cJSON_ArrayForEach(p, ports) printf("  %-32s %s\n", format_text(json_text_of(p, "name")), model_value_text(p));
}

static void print_passes(const cJSON *passes) {
  const cJSON *p;
  printf("passes %49s\n", "matches");
  cJSON_ArrayForEach(p, passes)
      printf("  %-48s %5.0f\n", format_text(json_text_of(p, "name")), show_number(p, "matches"));
}

/* The type that a node computes in, as its first operand and its result have it: "int8 to float32". */
static void node_type(const cJSON *n, char text[TEXT]) {
  const char *from = json_text_of(cJSON_GetArrayItem(cJSON_GetObjectItem(n, "reads"), 0), "dtype");
  const char *to = json_text_of(cJSON_GetArrayItem(cJSON_GetObjectItem(n, "writes"), 0), "dtype");
  const bool same = !strcmp(from, to) || !*from;
  snprintf(text, TEXT, "%.24s%s%.24s", same ? "" : from, same ? "" : " to ", to);
}

static void print_nodes(const cJSON *nodes) {
  const cJSON *n;
  int i = 0;
  printf("nodes  %-22s %-40s %-28s %-20s %9s  %s\n", "operator", "of the model", "result", "computes", "estimate",
         "implementation");
  cJSON_ArrayForEach(n, nodes) {
    char origin[128], type[TEXT];
    const cJSON *result = cJSON_GetArrayItem(cJSON_GetObjectItem(n, "writes"), 0);
    const char *chosen = json_text_of(n, "implementation");
    snprintf(origin, sizeof origin, "%s %s", json_text_of(n, "origin"), json_text_of(n, "name"));
    node_type(n, type);
    printf("%5d  %-22s %-40s %-28s %-20s %9s  %s%s%s\n", i++, json_text_of(n, "operator"), format_text(origin),
           result ? model_value_text(result) : "", type, format_ns((uint64_t)show_number(n, "estimated_ns")), chosen,
           *chosen ? ": " : "", json_text_of(n, "reason"));
  }
}

static void print_memory(const cJSON *o) {
  const cJSON *m = cJSON_GetObjectItem(o, "memory");
  const double none = show_number(m, "no_reuse");
  static const struct {
    const char *name, *words;
  } lines[] = {{"no_reuse", "without reuse of memory"},
               {"reuse", "with reuse, without passes"},
               {"reuse_and_passes", "with reuse and passes"}};
  printf("memory\n");
  for (int i = 0; i < 3; ++i) {
    const double bytes = show_number(m, lines[i].name);
    printf("  %-28s %12s", lines[i].words, format_bytes((uint64_t)bytes));
    if (i && none > 0) printf("  %+.1f %%", 100 * (bytes / none - 1));
    printf("\n");
  }
  printf("  %-28s %12s\n", "most that is live at once", format_bytes((uint64_t)show_number(m, "live_peak")));
  printf("  %-28s %12s\n", "weights", format_bytes((uint64_t)show_number(m, "weights")));
}

/* What a goal changes, by the figures without and with it. */
static void print_goal(const cJSON *o) {
  static const struct {
    const char *name, *words;
  } figures[] = {{"arena", "memory between operators"}, {"weights", "constants"}, {"moved", "moved by operators"}};
  printf("optimize: %s: ", json_text_of(o, "goal"));
  if (!cJSON_IsTrue(cJSON_GetObjectItem(o, "changes"))) {
    printf("nothing changes for this model\n");
    return;
  }
  printf("%.0f nodes with another implementation, %.0f constants not packed, order: %s\n", show_number(o, "replaced"),
         show_number(o, "unpacked"), json_text_of(o, "order"));
  for (int i = 0; i < 3; ++i) {
    const cJSON *f = cJSON_GetObjectItem(o, figures[i].name);
    const double without = show_number(f, "without"), with = show_number(f, "with");
    printf("  %-28s %12s", figures[i].words, format_bytes((uint64_t)without));
    printf(" -> %12s  %+.1f %%\n", format_bytes((uint64_t)with), without > 0 ? 100 * (with / without - 1) : 0);
  }
}

static void print_description(const char *path, const cJSON *o) {
  const cJSON *before = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "before"), "nodes");
  const cJSON *after = cJSON_GetObjectItem(cJSON_GetObjectItem(o, "after"), "nodes");
  printf("%s: %.0f nodes exported, %d before passes, %d to run\n\n", format_text(path),
         show_number(o, "exported_nodes"), cJSON_GetArraySize(before), cJSON_GetArraySize(after));
  print_ports("inputs", cJSON_GetObjectItem(o, "inputs"));
  print_ports("outputs", cJSON_GetObjectItem(o, "outputs"));
  printf("\n");
  print_nodes(after);
  printf("\n");
  print_passes(cJSON_GetObjectItem(o, "passes"));
  printf("\nprecision: %s\n", json_text_of(o, "precision"));
  if (cJSON_GetObjectItem(o, "optimize")) print_goal(cJSON_GetObjectItem(o, "optimize"));
  printf("\n");
  print_memory(o);
}

/* Writes the files that were asked for. Returns false, after a message, if that fails. */
static bool write_files(model_options *o, const char *description) {
  bool good = true;
  if (o->json.path) {
    FILE *f = output_begin(&o->json);
    good &= f && output_end(&o->json, f, fprintf(f, "%s\n", description) > 0);
  }
  if (o->html.path) {
    FILE *f = output_begin(&o->html);
    good &= f && output_end(&o->html, f, model_write_html(f, o->path, description));
  }
  return good;
}

int model_show(model_options *o) {
  const char goal = o->goal ? *o->goal : 0;
  const cannon_model_options options = {.goal = goal == 't'   ? CANNON_MODEL_TIME
                                                : goal == 'm' ? CANNON_MODEL_MEMORY
                                                : goal        ? CANNON_MODEL_POWER
                                                              : 0,
                                        .shapes = o->shapes,
                                        .n_shapes = o->n_shapes,
                                        .tune = o->tune};
  char *description;
  if (cannon_model_describe(o->path, &options, &description) != ACL_SUCCESS) {
    const char *words = aclGetRecentErrMsg();
    fprintf(stderr, "cannon model show: %s: %s\n", format_text(o->path), format_text(words ? words : "no message"));
    return 1;
  }
  cJSON *json = cJSON_Parse(description);
  if (json) print_description(o->path, json);
  const bool good = json && write_files(o, description);
  cJSON_Delete(json);
  free(description);
  return good ? 0 : 1;
}
