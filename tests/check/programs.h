/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of a table, each run as a process of its own under the checker, which must find what the table says. */
#ifndef CANNON_TESTS_CHECK_PROGRAMS_H
#define CANNON_TESTS_CHECK_PROGRAMS_H

#include "acl_ops.h"
#include "aclnnop/aclnn_add.h"
#include "self.h"

/* Not inlined, so that each function is a place of its own, and its variables are gone when it has returned. */
#define PLACE __attribute__((noinline)) static

typedef struct {
  const char *name;
  void (*run)(void);
  const char *kind;  /* for run_programs(): of the only finding; NULL: none is expected */
  const char *words; /* a part of its message; for run_worded(), NULL: none is expected */
} program;

static inline const program *find_program(const program *all, size_t n, const char *name) {
  for (size_t i = 0; i < n; ++i)
    if (strcmp(all[i].name, name) == 0) return &all[i];
  return NULL;
}

/* Ends the process without the test's own variables in the way of what is looked for. */
static inline int run_program(const program *all, size_t n, const char *name) {
  const program *p = find_program(all, n, name);
  if (!p) return 127;
  p->run();
  return 0;
}

static inline int count_findings(const char *text) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "cannon: ")); at += 8) {
    const char *word = at + 8;
    n += strncmp(word, "leak", 4) == 0 || strncmp(word, "misuse", 6) == 0 || strncmp(word, "double-free", 11) == 0 ||
         strncmp(word, "invalid-free", 12) == 0 || strncmp(word, "use-after-free", 14) == 0;
  }
  return n;
}

static inline bool program_is_good(const program *p, char *setting) {
  static child_end end;
  run_self(&end, p->name, setting);
  char start[64];
  snprintf(start, sizeof start, "cannon: %s", p->kind ? p->kind : "");
  const int n = count_findings(end.text);
  /* Stacks end with main or a thread's function, not with what has called those. */
  const bool is_cut = !strstr(end.text, "libc.so") && !strstr(end.text, "(_start");
  const bool good = end.status == 0 && n == (p->kind ? 1 : 0) && is_cut &&
                    (!p->kind || (strstr(end.text, start) && strstr(end.text, p->words)));
  if (!good)
    print_error("%s: status %#x, %d findings, expected %s (%s):\n%s\n", p->name, end.status, n,
                p->kind ? p->kind : "none", p->kind ? p->words : "", end.text);
  return good;
}

static inline void run_programs(const program *all, size_t n, char *setting) {
  size_t n_bad = 0;
  for (size_t i = 0; i < n; ++i) n_bad += !program_is_good(&all[i], setting);
  assert_int_equal(n_bad, 0);
}

/* For findings that only their words tell apart: has_finding says whether a text has one of any kind. There may be
 * several of a program. */
static inline void run_worded(const program *all, size_t n, bool (*has_finding)(const char *text)) {
  static child_end end;
  size_t n_bad = 0;
  for (const program *p = all; p < all + n; ++p) {
    run_self(&end, p->name, NULL);
    if (end.status == 0 && (p->words ? strstr(end.text, p->words) != NULL : !has_finding(end.text))) continue;
    ++n_bad;
    print_error("%s: status %#x, expected %s; output:\n%s\n", p->name, (unsigned)end.status,
                p->words ? p->words : "no finding", end.text);
  }
  assert_int_equal(n_bad, 0);
}

static inline void begin(void) {
  aclInit(NULL);
  aclrtSetDevice(0);
}

static inline void end_all(void) {
  aclrtResetDevice(0);
  aclFinalize();
}

#endif
