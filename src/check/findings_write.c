/* SPDX-License-Identifier: Apache-2.0 */
#include "check/findings_write.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/settings/variables.h"
#include "base/text.h"
#include "check/findings_print.h"
#include "trace/stack.h"

static int file = -1; /* opened for the first finding, or at the end */
static bool has_folder, has_tried;
static char program[PATH_MAX];

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void findings_write_text(FILE *to, const char *name, const char *text) {
  char safe[PATH_MAX];
  text_safe(safe, sizeof safe, text, strlen(text));
  fprintf(to, "\"%s\":\"", name);
  for (const char *c = safe; *c; ++c) {
    if (*c == '"' || *c == '\\') fputc('\\', to);
    fputc(*c, to);
  }
  fputc('"', to);
}

/* Uses _dl_find_object, since dladdr takes the loader's lock: a library's constructor, which has that, may wait for a
 * lock under which hooks are called. */
static void write_frame(FILE *to, const void *code) {
  struct dl_find_object found;
  const bool known = !_dl_find_object((void *)(uintptr_t)code, &found) && found.dlfo_link_map;
  const char *path = known ? found.dlfo_link_map->l_name : "?";
  fputc('{', to);
  findings_write_text(to, "object", *path ? path : program);
  fprintf(to, ",\"offset\":%" PRIuPTR "}", (uintptr_t)code - (known ? found.dlfo_link_map->l_addr : 0));
}

static void write_stack(FILE *to, uint32_t number) {
  const python_line *line;
  void *const *frame;
  const uint32_t n_lines = stack_python(number, &line), n = stack_frames(number, &frame);
  fputs("\"stack\":[", to);
  for (uint32_t i = 0; i < n_lines; ++i) {
    fputs(i ? ",{" : "{", to);
    findings_write_text(to, "file", line[i].file ? line[i].file : "?");
    fprintf(to, ",\"line\":%d,", line[i].line);
    findings_write_text(to, "function", line[i].function ? line[i].function : "?");
    fputc('}', to);
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (i + n_lines) fputc(',', to);
    write_frame(to, frame[i]);
  }
  fputc(']', to);
}

static void write_finding_place(FILE *to, const char *name, const finding_place *p) {
  fprintf(to, ",\"%s\":{", name);
  findings_write_text(to, "what", p->what);
  fprintf(to, ",\"stream\":%" PRId64 ",\"device\":%d,", p->stream, p->device);
  write_stack(to, p->stack);
  fputc('}', to);
}

static void write_finding(FILE *to, const finding *f, size_t number) {
  fprintf(to, "{\"number\":%zu,", number);
  findings_write_text(to, "kind", finding_word(f->kind));
  fputc(',', to);
  findings_write_text(to, "message", f->message);
  write_finding_place(to, "here", &f->here);
  if (f->other.what[0] || f->other.stack) write_finding_place(to, "other", &f->other);
  if (f->allocation.address || f->allocation.stack || f->allocation.call[0]) {
    fprintf(to, ",\"allocation\":{\"address\":%" PRIuPTR ",\"size\":%" PRIu64 ",", f->allocation.address,
            f->allocation.bytes);
    findings_write_text(to, "call", f->allocation.call);
    fputc(',', to);
    write_stack(to, f->allocation.stack);
    fputc('}', to);
  }
  fprintf(to, ",\"first\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", f->first, f->bytes);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Writes lines in one piece. */
static void findings_append(char **text, size_t *bytes, FILE *lines) {
  if (lines && !fclose(lines) && !file_write(file, *text, *bytes)) {
    close(file); /* the disk is full, or the folder is gone */
    file = -1;
  }
  free(*text);
}

static void open_file(void) {
  char path[PATH_MAX], *text = NULL;
  size_t bytes = 0;
  if (has_tried || !has_folder) return;
  has_tried = true;
  const char *folder = variable_text(VARIABLE_CHECK_REPORT);
  const bool fits = snprintf(path, sizeof path, "%s/%d.findings", folder, (int)getpid()) < (int)sizeof path;
  errno = ENAMETOOLONG;
  if (fits) file = file_create(path, 0600);
  if (file < 0) {
    fprintf(stderr, "cannon: CANNON_CHECK_REPORT is %s, expected a folder: no file can be made there: %s\n", folder,
            strerror(errno));
    return;
  }
  FILE *lines = open_memstream(&text, &bytes);
  if (!lines) return;
  fprintf(lines, "{\"begins\":\"" FINDINGS_BEGIN "\",");
  findings_write_text(lines, "program", program);
  fprintf(lines, ",\"pid\":%d}\n", (int)getpid());
  findings_append(&text, &bytes, lines);
}

void findings_file_start(void) {
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  program[n > 0 ? n : 0] = '\0';
  const char *folder = variable_text(VARIABLE_CHECK_REPORT);
  has_folder = folder && *folder;
}

void findings_file_forget(void) {
  if (file >= 0) close(file);
  file = -1;
  has_tried = false;
}

void findings_file_add(const finding *f, size_t number) {
  char *text = NULL;
  size_t bytes = 0;
  open_file();
  if (file < 0) return;
  FILE *lines = open_memstream(&text, &bytes);
  if (lines) write_finding(lines, f, number);
  findings_append(&text, &bytes, lines);
}

void findings_file_end(const finding *all, size_t n, uint64_t untold) {
  char *text = NULL;
  size_t bytes = 0;
  open_file();
  if (file < 0) {
    findings_print(stderr, program, all, n, untold);
    return;
  }
  FILE *lines = open_memstream(&text, &bytes);
  if (!lines) return;
  for (size_t i = 0; i < n; ++i)
    if (all[i].count != 1) fprintf(lines, "{\"number\":%zu,\"count\":%" PRIu64 "}\n", i, all[i].count);
  fprintf(lines, "{\"ended\":true,\"untold\":%" PRIu64 "}\n", untold);
  findings_append(&text, &bytes, lines);
}
