/* SPDX-License-Identifier: Apache-2.0 */
#include "check/findings_print.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "check/suppress.h"
#include "trace/stack.h"

enum { PYTHON_AND_NATIVE = PYTHON_FRAMES + STACK_FRAMES, STACKS = 3 };

static suppress_frame native_frame(const void *code, Dl_info *info) {
  const bool known = dladdr(code, info) && info->dli_fname;
  return (suppress_frame){known ? info->dli_fname : NULL, known ? info->dli_sname : NULL, NULL};
}

static size_t frames_of(uint32_t number, suppress_frame *frame) {
  const python_line *line;
  void *const *code;
  const uint32_t n_lines = stack_python(number, &line), n = stack_frames(number, &code);
  for (uint32_t i = 0; i < n_lines; ++i) frame[i] = (suppress_frame){NULL, line[i].function, line[i].file};
  for (uint32_t i = 0; i < n; ++i) {
    Dl_info info;
    frame[n_lines + i] = native_frame((const char *)code[i] - 1, &info);
  }
  return n_lines + n;
}

static bool is_suppressed(suppressions *known, const finding *f) {
  suppress_frame frame[STACKS * PYTHON_AND_NATIVE];
  size_t n = frames_of(f->here.stack, frame);
  n += frames_of(f->other.stack, frame + n);
  n += frames_of(f->allocation.stack, frame + n);
  return suppress_find(known, &(suppress_facts){finding_word(f->kind), f->message, frame, n});
}

static void print_stack(FILE *to, uint32_t number) {
  const python_line *line;
  void *const *code;
  const uint32_t n_lines = stack_python(number, &line), n = stack_frames(number, &code);
  for (uint32_t i = 0; i < n_lines; ++i)
    fprintf(to, "      %s:%d in %s\n", line[i].file, line[i].line, line[i].function);
  for (uint32_t i = 0; i < n; ++i) {
    Dl_info info = {0};
    const suppress_frame f = native_frame((const char *)code[i] - 1, &info);
    const char *slash = f.object ? strrchr(f.object, '/') : NULL;
    const uintptr_t base = (uintptr_t)(f.function ? info.dli_saddr : info.dli_fbase);
    fprintf(to, "      %s(%s+%#" PRIxPTR ")\n",
            slash      ? slash + 1
            : f.object ? f.object
                       : "?",
            f.function ? f.function : "", (uintptr_t)code[i] - base);
  }
}

static void print_finding_place(FILE *to, const char *side, const finding_place *p) {
  fprintf(to, "    %s: %s", side, p->what[0] ? p->what : "a call");
  if (p->stream >= 0) fprintf(to, ", stream %" PRId64, p->stream);
  if (p->device >= 0) fprintf(to, " of device %d", p->device);
  fputc('\n', to);
  print_stack(to, p->stack);
}

static void print_finding(FILE *to, const finding *f) {
  fprintf(to, "cannon: %s", finding_word(f->kind));
  if (f->count > 1) fprintf(to, ", %" PRIu64 " times", f->count);
  fprintf(to, ": %s\n", f->message);
  print_finding_place(to, "here", &f->here);
  if (f->other.what[0] || f->other.stack) print_finding_place(to, "other side", &f->other);
  if (!f->allocation.address && !f->allocation.stack) return;
  fprintf(to, "    memory: %" PRIu64 " bytes at %#" PRIxPTR ", by %s\n", f->allocation.bytes, f->allocation.address,
          f->allocation.call[0] ? f->allocation.call : "a call");
  print_stack(to, f->allocation.stack);
}

/* What the installation of this library ships. */
static void read_shipped(suppressions *known) {
  char folder[PATH_MAX];
  Dl_info info;
  if (!dladdr(finding_word, &info) || !info.dli_fname) return;
  const char *slash = strrchr(info.dli_fname, '/');
  if (slash && snprintf(folder, sizeof folder, "%.*s/../share/cannon/check", (int)(slash - info.dli_fname),
                        info.dli_fname) < (int)sizeof folder)
    suppress_read_folder(known, folder);
}

void findings_print(FILE *to, const char *program, const finding *all, size_t n, uint64_t untold) {
  suppressions known = {0};
  size_t n_told = 0;
  if (!n) return;
  read_shipped(&known);
  for (size_t i = 0; i < n; ++i) {
    if (is_suppressed(&known, &all[i])) continue;
    print_finding(to, &all[i]);
    ++n_told;
  }
  if (n_told || untold)
    fprintf(to,
            "cannon: %zu findings of the checker, %zu suppressed, %" PRIu64 " not kept. `cannon run --check %s` tells "
            "source lines.\n",
            n_told, n - n_told, untold, program);
  suppress_free(&known);
}
