/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check/leaks/leaks_report.h"
#include "cli/atc/atc_json.h"
#include "cli/check/check_report.h"
#include "cli/figures.h"
#include "cli/fit/advise_report.h"
#include "cli/fit/memory_report.h"
#include "cli/model/model_command.h"
#include "cli/plan/plan_csv.h"
#include "cli/plan/plan_draw.h"
#include "cli/replay/replay_report.h"
#include "trace/record/record_code.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* First bytes of the files of each kind. A plan is recognised by its columns. No name: files of the kind are not told
 * from those of others. */
static const struct {
  const char *name, *begins[7];
} kinds[OUTPUT_N_KINDS] = {
    [OUTPUT_RECORDING] = {"a recording", {RECORD_MAGIC}},
    [OUTPUT_JSON] = {"JSON that cannon wrote", {"{\n\t\"" OUTPUT_JSON_AUTHOR "\":\t\"cannon "}},
    [OUTPUT_PAGE] = {"a page that cannon wrote",
                     {REPLAY_PAGE_BEGINS, PLAN_PAGE_BEGINS, MODEL_PAGE_BEGINS, CHECK_PAGE_BEGINS, MEMORY_PAGE_BEGINS,
                      ADVISE_PAGE_BEGINS}},
    [OUTPUT_PICTURE] = {"a picture that cannon wrote", {PLAN_PICTURE_BEGINS}},
    [OUTPUT_TABLE] = {"a table of cannon memory", {MEMORY_TABLE_BEGINS}},
    [OUTPUT_PLAN] = {"a plan with offsets", {NULL}},
    [OUTPUT_LEAKS] = {"a report of cannon's memory debugger", {LEAKS_REPORT_BEGINS}},
    [OUTPUT_MODEL] = {"an .om file", {"IMOD"}},
    [OUTPUT_MODEL_JSON] = {"what atc --mode=1 wrote", {ATC_JSON_BEGINS}},
    [OUTPUT_ARRAY] = {NULL, {NULL}},
};

static bool has_kind(int fd, output_kind kind) {
  char first[1024];
  for (int i = 0; i < 7 && kinds[kind].begins[i]; ++i)
    if (file_begins(fd, kinds[kind].begins[i])) return true;
  const ssize_t n = kind == OUTPUT_PLAN ? pread(fd, first, sizeof first, 0) : 0;
  return n > 0 && plan_csv_is_plan(first, (size_t)n);
}

/* ---- existing files --------------------------------------------------------------------------------------------- */

typedef enum { NOTHING, A_FILE, AN_EMPTY_FILE, A_STREAM, NOT_TO_WRITE } what_is_there;

static what_is_there output_refuse(const output *o, const char *why) {
  fprintf(stderr, "%s: cannot write %s: %s\n", o->command, format_text(o->path), why);
  return NOT_TO_WRITE;
}

static const char beside_ends[] = ".XXXXXX"; /* suffix of temporary names */

/* Returns whether a file can be created there, and a temporary one next to it; false with errno. */
static bool is_possible(const char *path) {
  char copy[PATH_MAX];
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  errno = *name ? ENAMETOOLONG : ENOENT;
  if (!*name || strlen(name) + sizeof beside_ends > NAME_MAX + 1) return false;
  if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy) return false;
  return access(dirname(copy), W_OK | X_OK) == 0;
}

/* Examines an existing file's contents. */
static what_is_there output_look_into(const output *o, const struct stat *named) {
  if (!named->st_size) return AN_EMPTY_FILE;
  if (o->force) return A_FILE;
  const int fd = open(o->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return output_refuse(o, strerror(errno));
  const bool may = has_kind(fd, o->kind);
  close(fd);
  if (may) return A_FILE;
  const char *name = kinds[o->kind].name;
  fprintf(stderr, "%s: cannot write %s: it is there already%s%s; --force replaces it\n", o->command,
          format_text(o->path), name ? " and is not " : "", name ? name : "");
  return NOT_TO_WRITE;
}

static what_is_there output_look(const output *o) {
  struct stat s;
  const int descriptor = file_descriptor_of(o->path);
  if (descriptor >= 0 ? fstat(descriptor, &s) : lstat(o->path, &s)) {
    if (descriptor >= 0 || errno != ENOENT) return output_refuse(o, strerror(errno));
    return is_possible(o->path) ? NOTHING : output_refuse(o, strerror(errno));
  }
  if (S_ISLNK(s.st_mode)) return output_refuse(o, file_error(ELOOP));
  if (S_ISDIR(s.st_mode)) return output_refuse(o, file_error(EISDIR));
  if (descriptor >= 0 || S_ISCHR(s.st_mode) || S_ISFIFO(s.st_mode)) {
    if (o->kind != OUTPUT_RECORDING) return A_STREAM;
    return output_refuse(o, "it is a device or a pipe, expected a file");
  }
  if (!S_ISREG(s.st_mode)) return output_refuse(o, file_error(EINVAL));
  return is_possible(o->path) ? output_look_into(o, &s) : output_refuse(o, strerror(errno));
}

bool output_check(const output *o) { return !o->path || output_look(o) != NOT_TO_WRITE; }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Creates a temporary file whose name cannot be guessed. Returns its descriptor, or -1. */
static int make_beside(output *o) {
  if (asprintf(&o->beside, "%s%s", o->path, beside_ends) < 0) abort();
  const int fd = mkostemp(o->beside, O_CLOEXEC);
  if (fd >= 0) return fd;
  free(o->beside);
  o->beside = NULL;
  return -1;
}

/* Sets the permissions, since mkostemp's files are accessible to their owner only: to those of the previous file, or
 * to the defaults of new files. */
static void set_mode(const output *o, int fd) {
  struct stat before;
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, lstat(o->path, &before) == 0 ? before.st_mode & 0777 : 0666 & ~mask);
}

static void forget_beside(output *o) {
  free(o->beside);
  o->beside = NULL;
}

FILE *output_begin(output *o) {
  const what_is_there there = output_look(o);
  if (there == NOT_TO_WRITE) return NULL;
  if (there == A_STREAM) fflush(stdout); /* it may be the same stream */
  int fd = there == A_STREAM || there == AN_EMPTY_FILE ? file_open_own(o->path, 0666) : -1;
  if (fd < 0 && there != A_STREAM) {
    fd = make_beside(o);
    if (fd >= 0) set_mode(o, fd);
  }
  FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!f) {
    output_refuse(o, file_error(errno));
    if (fd >= 0) close(fd);
    if (o->beside) unlink(o->beside);
    forget_beside(o);
  }
  errno = 0; /* so that output_end sees an error of writing */
  return f;
}

bool output_end(output *o, FILE *f, bool written) {
  int error = fflush(f) ? errno : !ferror(f) && written ? 0 : errno ? errno : EIO;
  if (fclose(f) && !error) error = errno;
  if (!error && o->beside && rename(o->beside, o->path)) error = errno;
  if (error && o->beside) unlink(o->beside);
  if (error) output_refuse(o, strerror(error));
  forget_beside(o);
  return !error;
}

/* ---- files that other processes write ---------------------------------------------------------------------------- */

bool output_move_away(output *o) {
  const what_is_there there = o->path ? output_look(o) : NOTHING;
  if (there != A_FILE && there != AN_EMPTY_FILE) return there != NOT_TO_WRITE;
  const int fd = make_beside(o);
  if (fd >= 0) close(fd);
  if (fd >= 0 && rename(o->path, o->beside) == 0) return true;
  output_refuse(o, strerror(errno));
  if (fd >= 0) unlink(o->beside);
  forget_beside(o);
  return false;
}

void output_settle(output *o) {
  if (!o->beside) return;
  const int fd = open(o->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat s;
  const bool is_new = fd >= 0 && has_kind(fd, o->kind);
  const bool is_free = fd < 0 ? errno == ENOENT : fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && !s.st_size;
  if (fd >= 0) close(fd);
  if (is_new)
    unlink(o->beside);
  else if (!is_free || rename(o->beside, o->path))
    fprintf(stderr, "%s: the previous %s is now named %s\n", o->command, format_text(o->path), format_text(o->beside));
  forget_beside(o);
}
