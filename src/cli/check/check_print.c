/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's findings as text. */
#include <string.h>

#include "cli/check/check_report.h"

enum {
  MOST_PYTHON = 12, /* lines of Python for a stack, */
  MOST_NATIVE = 16, /* and of native code; */
  FEW_NATIVE = 4,   /* where there are lines of Python, those of the framework are of little interest */
};

static const char *print_text(const cJSON *object, const char *name, const char *otherwise) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
  return text && *text ? text : otherwise;
}

static double print_number(const cJSON *object, const char *name, double otherwise) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
  return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void print_frame(FILE *to, const cJSON *frame) {
  const char *file = print_text(frame, "file", NULL), *function = print_text(frame, "function", NULL);
  fputs("      ", to);
  if (file)
    fprintf(to, "%s:%.0f in %s\n", last_part(file), print_number(frame, "line", 0), function ? function : "?");
  else
    fprintf(to, "%s in %s+%#llx\n", function ? function : "?", last_part(print_text(frame, "object", "?")),
            (unsigned long long)print_number(frame, "offset", 0));
}

static void print_frames(FILE *to, const cJSON *object) {
  const cJSON *frame;
  int n_python = 0, n_native = 0, n_left = 0;
  cJSON_ArrayForEach(frame, cJSON_GetObjectItemCaseSensitive(object, "stack")) {
    const bool python = cJSON_GetObjectItemCaseSensitive(frame, "language");
    const int most = python ? MOST_PYTHON : n_python ? FEW_NATIVE : MOST_NATIVE;
    int *n = python ? &n_python : &n_native;
    if (*n < most)
      print_frame(to, frame);
    else
      ++n_left;
    ++*n;
  }
  if (n_left) fprintf(to, "      ... %d more\n", n_left);
}

static void print_side(FILE *to, const char *side, const char *what, const cJSON *object) {
  fprintf(to, "    %s: %s", side, what);
  if (print_number(object, "stream", -1) >= 0) fprintf(to, ", stream %.0f", print_number(object, "stream", -1));
  if (print_number(object, "device", -1) >= 0) fprintf(to, " of device %.0f", print_number(object, "device", -1));
  fputc('\n', to);
  print_frames(to, object);
}

static void print_allocation(FILE *to, const cJSON *block) {
  if (print_number(block, "address", 0) > 0)
    fprintf(to, "    memory: %.0f bytes at %#llx, by %s", print_number(block, "size", 0),
            (unsigned long long)print_number(block, "address", 0), print_text(block, "call", "a call"));
  else
    fprintf(to, "    made by %s", print_text(block, "call", "a call"));
  const double first = print_number(block, "first", 0), bytes = print_number(block, "bytes", 0);
  if (bytes > 0) fprintf(to, "; bytes %.0f to %.0f", first, first + bytes - 1);
  fputc('\n', to);
  print_frames(to, block);
}

static void print_one(FILE *to, const cJSON *f) {
  const double count = print_number(f, "count", 1);
  const cJSON *other = cJSON_GetObjectItemCaseSensitive(f, "other");
  const cJSON *block = cJSON_GetObjectItemCaseSensitive(f, "allocation");
  const cJSON *task = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(f, "tasks"), 0);
  fprintf(to, "cannon: %s", print_text(f, "kind", "?"));
  if (count > 1) fprintf(to, ", %.0f times", count);
  fprintf(to, ": %s\n", print_text(f, "message", ""));
  const char *what = cJSON_GetStringValue(task);
  print_side(to, "here", what ? what : "a call", f);
  if (other) print_side(to, "other side", print_text(other, "what", "a call"), other);
  if (block) print_allocation(to, block);
}

static void print_summary(FILE *to, const cJSON *report) {
  const cJSON *summary = cJSON_GetObjectItemCaseSensitive(report, "summary"), *kind, *used;
  const double n = print_number(summary, "findings", 0), suppressed = print_number(summary, "suppressed", 0);
  const char *before = " (";
  fprintf(to, "cannon: the checker has %.0f finding%s", n, n == 1 ? "" : "s");
  cJSON_ArrayForEach(kind, cJSON_GetObjectItemCaseSensitive(summary, "kinds")) {
    fprintf(to, "%s%.0f %s", before, kind->valuedouble, kind->string);
    before = ", ";
  }
  fputs(n > 0 ? ")" : "", to);
  if (suppressed > 0) fprintf(to, ", %.0f suppressed", suppressed);
  before = ": ";
  cJSON_ArrayForEach(used, cJSON_GetObjectItemCaseSensitive(summary, "suppressions")) {
    fprintf(to, "%s%.0f by \"%s\"", before, print_number(used, "findings", 0), print_text(used, "name", "?"));
    before = ", ";
  }
  if (print_number(summary, "untold", 0) > 0)
    fprintf(to, ", and %.0f more of which only the number was kept", print_number(summary, "untold", 0));
  if (print_number(summary, "killed_processes", 0) > 0)
    fprintf(to, "; %.0f process%s ended too early for leaks and counts", print_number(summary, "killed_processes", 0),
            print_number(summary, "killed_processes", 0) == 1 ? "" : "es");
  fputs(".\n", to);
}

void check_report_print(FILE *to, const cJSON *report, bool quiet) {
  const cJSON *f;
  cJSON_ArrayForEach(f, cJSON_GetObjectItemCaseSensitive(report, "findings")) print_one(to, f);
  if (!quiet || check_report_count(report)) print_summary(to, report);
}
