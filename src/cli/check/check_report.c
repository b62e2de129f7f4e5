/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check/check_report.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "check/findings_write.h"
#include "cli/check/lines.h"
#include "cli/figures.h"

static const char *check_item_text(const cJSON *object, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text ? text : "";
}

static double check_number(const cJSON *object, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void copy_item(cJSON *to, const char *name, const cJSON *from, const char *of) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, of);
  if (item) cJSON_AddItemToObject(to, name, cJSON_Duplicate(item, true));
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

typedef struct {
  cJSON *list;
  const cJSON *raw; /* of the process */
} frame_list;

static void report_add_text(cJSON *object, const char *name, const char *text) {
  char safe[1024];
  if (!text) return;
  text_safe(safe, sizeof safe, text, strlen(text));
  cJSON_AddStringToObject(object, name, safe);
}

static void add_native_frame(const source_frame *frame, void *argument) {
  const frame_list *to = argument;
  cJSON *object = cJSON_CreateObject();
  report_add_text(object, "function", frame->function);
  report_add_text(object, "file", frame->file);
  if (frame->file) cJSON_AddNumberToObject(object, "line", frame->line);
  copy_item(object, "object", to->raw, "object");
  copy_item(object, "offset", to->raw, "offset");
  cJSON_AddItemToArray(to->list, object);
}

/* What is behind main() is of no interest. */
static bool is_main(const cJSON *frame) { return strcmp(check_item_text(frame, "function"), "main") == 0; }

static cJSON *resolve_stack(const cJSON *raw_place) {
  cJSON *list = cJSON_CreateArray();
  const cJSON *raw;
  cJSON_ArrayForEach(raw, cJSON_GetObjectItemCaseSensitive(raw_place, "stack")) {
    if (cJSON_GetObjectItemCaseSensitive(raw, "object")) {
      frame_list to = {list, raw};
      lines_walk(check_item_text(raw, "object"), (uint64_t)check_number(raw, "offset"), add_native_frame, &to);
      const cJSON *last = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
      if (is_main(last) && cJSON_GetObjectItemCaseSensitive(last, "file")) break;
    } else {
      cJSON *line = cJSON_Duplicate(raw, true);
      cJSON_AddStringToObject(line, "language", "python");
      cJSON_AddItemToArray(list, line);
    }
  }
  return list;
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

static cJSON *resolve_finding(const cJSON *raw, double pid) {
  const cJSON *here = cJSON_GetObjectItemCaseSensitive(raw, "here");
  const cJSON *other = cJSON_GetObjectItemCaseSensitive(raw, "other");
  const cJSON *allocation = cJSON_GetObjectItemCaseSensitive(raw, "allocation");
  cJSON *f = cJSON_CreateObject();
  copy_item(f, "kind", raw, "kind");
  copy_item(f, "message", raw, "message");
  cJSON_AddNumberToObject(f, "count", 1);
  cJSON_AddNumberToObject(f, "process", pid);
  cJSON *tasks = cJSON_AddArrayToObject(f, "tasks");
  if (*check_item_text(here, "what")) cJSON_AddItemToArray(tasks, cJSON_CreateString(check_item_text(here, "what")));
  if (*check_item_text(other, "what")) cJSON_AddItemToArray(tasks, cJSON_CreateString(check_item_text(other, "what")));
  copy_item(f, "stream", here, "stream");
  copy_item(f, "device", here, "device");
  cJSON_AddItemToObject(f, "stack", resolve_stack(here));
  if (other) {
    cJSON *side = cJSON_AddObjectToObject(f, "other");
    copy_item(side, "what", other, "what");
    copy_item(side, "stream", other, "stream");
    copy_item(side, "device", other, "device");
    cJSON_AddItemToObject(side, "stack", resolve_stack(other));
  }
  if (allocation) {
    cJSON *block = cJSON_AddObjectToObject(f, "allocation");
    copy_item(block, "address", allocation, "address");
    copy_item(block, "size", allocation, "size");
    copy_item(block, "call", allocation, "call");
    copy_item(block, "first", raw, "first");
    copy_item(block, "bytes", raw, "bytes");
    cJSON_AddItemToObject(block, "stack", resolve_stack(allocation));
  }
  return f;
}

static const cJSON *stack_in(const cJSON *finding, int which) {
  static const char *const of[] = {NULL, "other", "allocation"};
  const cJSON *object = of[which] ? cJSON_GetObjectItemCaseSensitive(finding, of[which]) : finding;
  return cJSON_GetObjectItemCaseSensitive(object, "stack");
}

static suppression *find_suppression(suppressions *known, const cJSON *f) {
  size_t n = 0, i = 0;
  for (int which = 0; which < 3; ++which) n += (size_t)cJSON_GetArraySize(stack_in(f, which));
  suppress_frame *frames = calloc(n + 1, sizeof *frames);
  if (!frames) abort();
  for (int which = 0; which < 3; ++which) {
    const cJSON *frame;
    cJSON_ArrayForEach(frame, stack_in(f, which)) {
      frames[i].object = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(frame, "object"));
      frames[i].function = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(frame, "function"));
      frames[i++].file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(frame, "file"));
    }
  }
  suppression *fits =
      suppress_find(known, &(suppress_facts){check_item_text(f, "kind"), check_item_text(f, "message"), frames, i});
  free(frames);
  return fits;
}

static bool is_same_frame(const cJSON *a, const cJSON *b) {
  if (strcmp(check_item_text(a, "function"), check_item_text(b, "function")) != 0) return false;
  if (*check_item_text(a, "file"))
    return strcmp(check_item_text(a, "file"), check_item_text(b, "file")) == 0 &&
           check_number(a, "line") == check_number(b, "line");
  return strcmp(check_item_text(a, "object"), check_item_text(b, "object")) == 0 &&
         check_number(a, "offset") == check_number(b, "offset");
}

/* Whether two findings differ in addresses only, as those of a loop do that the compiler has unrolled, and those of
 * several processes. */
static bool is_same_finding(const cJSON *a, const cJSON *b) {
  if (strcmp(check_item_text(a, "kind"), check_item_text(b, "kind")) != 0) return false;
  const cJSON *tasks = cJSON_GetObjectItemCaseSensitive(a, "tasks");
  if (!cJSON_Compare(tasks, cJSON_GetObjectItemCaseSensitive(b, "tasks"), true)) return false;
  for (int which = 0; which < 3; ++which) {
    const cJSON *x = stack_in(a, which), *y = stack_in(b, which);
    if (!x != !y || cJSON_GetArraySize(x) != cJSON_GetArraySize(y)) return false;
    if (which == 0 && !cJSON_GetArraySize(x) &&
        strcmp(check_item_text(a, "message"), check_item_text(b, "message")) != 0)
      return false;
    for (x = x ? x->child : NULL, y = y ? y->child : NULL; x && y; x = x->next, y = y->next)
      if (!is_same_frame(x, y)) return false;
  }
  return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct {
  cJSON *findings;
  suppressions *known;
  double n_suppressed, n_untold;
  int n_killed;
} reader;

static void take_finding(reader *r, cJSON *f) {
  if (find_suppression(r->known, f)) {
    r->n_suppressed += 1;
    cJSON_Delete(f);
    return;
  }
  cJSON *before;
  cJSON_ArrayForEach(before, r->findings) {
    if (!is_same_finding(before, f)) continue;
    cJSON *count = cJSON_GetObjectItemCaseSensitive(before, "count");
    cJSON_SetNumberValue(count, count->valuedouble + check_number(f, "count"));
    cJSON_Delete(f);
    return;
  }
  cJSON_AddItemToArray(r->findings, f);
}

/* A line of a process's file; `found` has its findings by number. */
static void take_line(reader *r, const cJSON *line, double pid, cJSON *found, bool *ended) {
  if (cJSON_GetObjectItemCaseSensitive(line, "ended")) {
    *ended = true;
    r->n_untold += check_number(line, "untold");
  } else if (cJSON_GetObjectItemCaseSensitive(line, "kind")) {
    cJSON_AddItemToArray(found, resolve_finding(line, pid));
  } else if (cJSON_GetObjectItemCaseSensitive(line, "count")) {
    cJSON *f = cJSON_GetArrayItem(found, (int)check_number(line, "number"));
    cJSON *count = cJSON_GetObjectItemCaseSensitive(f, "count");
    if (count) cJSON_SetNumberValue(count, check_number(line, "count"));
  }
}

static void report_read_file(reader *r, FILE *from) {
  char *text = NULL;
  size_t room = 0;
  bool ended = false, begun = false;
  double pid = 0;
  cJSON *found = cJSON_CreateArray();
  while (getline(&text, &room, from) >= 0) {
    cJSON *line = cJSON_Parse(text);
    if (!begun && strcmp(check_item_text(line, "begins"), FINDINGS_BEGIN) == 0) {
      begun = true;
      pid = check_number(line, "pid");
    } else if (begun && line) { /* the last line of a process that was killed may be cut off */
      take_line(r, line, pid, found, &ended);
    }
    cJSON_Delete(line);
  }
  free(text);
  r->n_killed += begun && !ended;
  while (found->child) take_finding(r, cJSON_DetachItemFromArray(found, 0));
  cJSON_Delete(found);
}

static int is_findings(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && strcmp(dot, ".findings") == 0;
}

static cJSON *summarize(const reader *r) {
  cJSON *summary = cJSON_CreateObject(), *kinds = cJSON_CreateObject(), *f;
  double count = 0;
  cJSON_ArrayForEach(f, r->findings) {
    cJSON *kind = cJSON_GetObjectItemCaseSensitive(kinds, check_item_text(f, "kind"));
    if (kind)
      cJSON_SetNumberValue(kind, kind->valuedouble + 1);
    else
      cJSON_AddNumberToObject(kinds, check_item_text(f, "kind"), 1);
    count += check_number(f, "count");
  }
  cJSON_AddNumberToObject(summary, "findings", cJSON_GetArraySize(r->findings));
  cJSON_AddNumberToObject(summary, "count", count);
  cJSON_AddNumberToObject(summary, "suppressed", r->n_suppressed);
  cJSON_AddNumberToObject(summary, "untold", r->n_untold);
  cJSON_AddNumberToObject(summary, "killed_processes", r->n_killed);
  cJSON_AddItemToObject(summary, "kinds", kinds);
  cJSON *used = cJSON_AddArrayToObject(summary, "suppressions");
  for (size_t i = 0; i < r->known->n; ++i) {
    if (!r->known->at[i].n_used) continue;
    cJSON *one = cJSON_CreateObject();
    report_add_text(one, "name", r->known->at[i].name);
    cJSON_AddNumberToObject(one, "findings", (double)r->known->at[i].n_used);
    cJSON_AddItemToArray(used, one);
  }
  return summary;
}

cJSON *check_report_read(const char *folder, char *const *program, suppressions *known) {
  cJSON *report = cJSON_CreateObject();
  cJSON_AddStringToObject(report, "program", format_text(program[0]));
  reader r = {.findings = cJSON_AddArrayToObject(report, "findings"), .known = known};
  struct dirent **names = NULL;
  const int n = *folder ? scandir(folder, &names, is_findings, versionsort) : 0;
  for (int i = 0; i < n; ++i) {
    char path[4352];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (f) report_read_file(&r, f);
    if (f) fclose(f);
    free(names[i]);
  }
  free(names);
  cJSON_AddItemToObject(report, "summary", summarize(&r));
  return report;
}

int check_report_count(const cJSON *report) {
  return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(report, "findings"));
}
