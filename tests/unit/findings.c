/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's findings: one for each cause, and their file; its options; the grammar of suppressions. */
#include "check/finding.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <unistd.h>

#include "check/findings_write.h"
#include "check/suppress.h"
#include "trace/stack.h"
#include "unit.h"

/* ---- options ---- */

static void options_are_parsed(void **state) {
  (void)state;
  unsigned parts;
  char bad[CHECK_OPTIONS_BAD];
  assert_true(check_parse("1", &parts, bad));
  assert_int_equal(parts, (1u << N_CHECKS) - 1);
  assert_true(check_parse("0", &parts, bad));
  assert_int_equal(parts, 0);
  assert_true(check_parse("race,init", &parts, bad));
  assert_int_equal(parts, 1u << CHECK_RACE | 1u << CHECK_INIT);
  assert_false(check_parse("race,nonsense,leak,worse", &parts, bad));
  assert_string_equal(bad, "nonsense");
  assert_int_equal(parts, 1u << CHECK_RACE | 1u << CHECK_LEAK);
}

/* ---- findings, and their file ---- */

static finding sample(finding_kind kind, const char *what, uint32_t other) {
  finding f = {.kind = kind, .here = {.stack = 1, .stream = 2, .device = 0}, .other = {.stream = -1, .device = -1}};
  strcpy(f.here.what, what);
  f.other.stack = other;
  finding_say(&f, "A \"quoted\" \\ message of %s, with\na line.", what);
  return f;
}

static void causes_are_counted_once(void **state) {
  (void)state;
  stack_take(); /* stack 1 */
  for (int i = 0; i < 5; ++i) {
    finding_report(&(finding[]){sample(FINDING_RACE, "Add", 0)}[0]);
    finding_report(&(finding[]){sample(FINDING_RACE, "Mul", 0)}[0]);
    finding_report(&(finding[]){sample(FINDING_LEAK, "Add", 0)}[0]);
    finding_report(&(finding[]){sample(FINDING_RACE, "Add", 1)}[0]);
  }
  size_t n;
  finding *all = findings_copy(&n);
  assert_int_equal(n, 4);
  for (size_t i = 0; i < n; ++i) assert_int_equal(all[i].count, 5);
  assert_string_equal(all[1].here.what, "Mul");
  free(all);
}

static void without_a_stack_the_callers_is_taken(void **state) {
  (void)state;
  finding f = sample(FINDING_MISUSE, "call", 0);
  f.here.stack = 0;
  finding_report(&f);
  size_t n;
  finding *all = findings_copy(&n);
  assert_int_not_equal(all[n - 1].here.stack, 0);
  free(all);
}

/* More causes than are kept are told as a number. */
static void causes_have_a_limit(void **state) {
  (void)state;
  char name[32];
  for (int i = 0; i < 5000; ++i) {
    snprintf(name, sizeof name, "Op%d", i);
    finding_report(&(finding[]){sample(FINDING_OVERLAP, name, 0)}[0]);
  }
  size_t n;
  free(findings_copy(&n));
  assert_int_equal(n, 4096);
  findings_end();
}

static char folder[] = "/tmp/unit-findings-XXXXXX";

static const char *string_of(const cJSON *object, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

static void the_file_is_json(void **state) {
  (void)state;
  char path[128], *line = NULL;
  size_t room = 0;
  snprintf(path, sizeof path, "%s/%d.findings", folder, (int)getpid());
  FILE *f = fopen(path, "re");
  assert_non_null(f);
  int n = 0, n_counts = 0;
  bool ended = false;
  for (; getline(&line, &room, f) >= 0; ++n) {
    cJSON *object = cJSON_Parse(line);
    assert_non_null(object);
    if (n == 0) assert_string_equal(string_of(object, "begins"), FINDINGS_BEGIN);
    if (n == 1) {
      assert_string_equal(string_of(object, "kind"), "race");
      assert_string_equal(string_of(object, "message"), "A \"quoted\" \\ message of Add, with\\x0aa line.");
      const cJSON *here = cJSON_GetObjectItemCaseSensitive(object, "here");
      const cJSON *stack = cJSON_GetObjectItemCaseSensitive(here, "stack");
      assert_true(cJSON_GetArraySize(stack) > 0);
      assert_non_null(string_of(stack->child, "object"));
      assert_null(cJSON_GetObjectItemCaseSensitive(object, "other"));
    }
    if (cJSON_GetObjectItemCaseSensitive(object, "count")) ++n_counts;
    if (cJSON_GetObjectItemCaseSensitive(object, "ended")) {
      ended = true;
      assert_int_equal(cJSON_GetObjectItemCaseSensitive(object, "untold")->valuedouble, 5000 - (4096 - 5));
    }
    cJSON_Delete(object);
  }
  assert_true(ended);
  assert_int_equal(n_counts, 4);
  assert_int_equal(n, 1 + 4096 + 4 + 1);
  free(line);
  fclose(f);
  unlink(path);
  rmdir(folder);
}

/* ---- suppressions ---- */

static bool read_text(suppressions *s, const char *text, unsigned *line, const char **wrong) {
  FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  const bool good = suppress_read(s, f, line, wrong);
  fclose(f);
  return good;
}

static void suppressions_fit(void **state) {
  (void)state;
  suppressions s = {0};
  unsigned line;
  const char *wrong;
  assert_true(read_text(&s,
                        "# comment\n\n[leaks of x]\nkind = leak\n object=libx.so*\n[main]\n"
                        "function = *main\nfile = a.c\n[words]\nmessage = *pool*\n",
                        &line, &wrong));
  assert_int_equal(s.n, 3);
  const suppress_frame frames[] = {{"/usr/lib/libx.so.3", "make", NULL}, {"/bin/a", "main", "/src/a.c"}};
  assert_string_equal(suppress_find(&s, &(suppress_facts){"leak", "m", frames, 1})->name, "leaks of x");
  assert_null(suppress_find(&s, &(suppress_facts){"race", "m", frames, 1}));
  assert_string_equal(suppress_find(&s, &(suppress_facts){"race", "m", frames, 2})->name, "main");
  assert_string_equal(suppress_find(&s, &(suppress_facts){"race", "a pool of", NULL, 0})->name, "words");
  const suppress_frame apart[] = {{"/bin/a", "main", "/src/b.c"}, {"/bin/a", "f", "/src/a.c"}};
  assert_null(suppress_find(&s, &(suppress_facts){"race", "m", apart, 2})); /* one frame must fit both */
  assert_int_equal(s.at[0].n_used, 1);
  suppress_free(&s);
}

static void wrong_suppressions_are_named_with_their_line(void **state) {
  (void)state;
  static const struct {
    const char *text;
    unsigned line;
    const char *wrong;
  } cases[] = {
      {"kind = leak\n", 1, "before the first key"},
      {"[a]\nkind = leaks\n", 2, "unknown kind"},
      {"[a]\nkin = leak\n", 2, "unknown key"},
      {"[a]\nkind leak\n", 2, "key = pattern"},
      {"[a]\nkind = leak\nkind = race\n", 3, "given twice"},
      {"[a]\nfile =\n", 2, "expected a pattern"},
      {"[a\nkind = leak\n", 1, "expected ]"},
      {"[]\nkind = leak\n", 1, "expected a name"},
      {"[a]\n[b]\nkind = leak\n", 2, "without keys"},
      {"[b]\nkind = leak\n[a]\n", 3, "without keys"},
  };
  for (size_t i = 0; i < COUNT(cases); ++i) {
    suppressions s = {0};
    unsigned line;
    const char *wrong;
    assert_false(read_text(&s, cases[i].text, &line, &wrong));
    assert_int_equal(line, cases[i].line);
    assert_non_null(strstr(wrong, cases[i].wrong));
    suppress_free(&s);
  }
}

static void shipped_suppressions_are_right(void **state) {
  (void)state;
  suppressions s = {0};
  unsigned line;
  const char *wrong;
  FILE *f = fopen(SHIPPED, "re");
  assert_non_null(f);
  assert_true(suppress_read(&s, f, &line, &wrong));
  fclose(f);
  assert_true(s.n > 0);
  suppress_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_parsed),
      cmocka_unit_test(causes_are_counted_once),
      cmocka_unit_test(without_a_stack_the_callers_is_taken),
      cmocka_unit_test(causes_have_a_limit),
      cmocka_unit_test(the_file_is_json),
      cmocka_unit_test(suppressions_fit),
      cmocka_unit_test(wrong_suppressions_are_named_with_their_line),
      cmocka_unit_test(shipped_suppressions_are_right),
  };
  if (!mkdtemp(folder)) return 1;
  setenv("CANNON_CHECK_REPORT", folder, 1);
  findings_file_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
