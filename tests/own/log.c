/* SPDX-License-Identifier: Apache-2.0 */
/* The log: ASCEND_GLOBAL_LOG_LEVEL chooses the level, ASCEND_SLOG_PRINT_TO_STDOUT prints to stdout,
 * ASCEND_PROCESS_LOG_PATH writes a file. Without the latter two nothing is written. */
#include "acl_test.h"
#include "folder.h"
#include "self.h"

#include <dirent.h>
#include <limits.h>

/* The child: one failing call, and one line of each level. Its stdout goes to its stderr, which run_self reads. */
static int write_lines(void) {
  dup2(STDERR_FILENO, STDOUT_FILENO);
  aclrtFree(NULL);
  for (int level = ACL_DEBUG; level <= ACL_ERROR; level++)
    aclAppLog((aclLogLevel)level, "function", "file.c", 42, "line of level %d", level);
  return 0;
}

static void assert_lines(const char *text, int lowest) {
  for (int level = ACL_DEBUG; level <= ACL_ERROR; level++) {
    char line[32];
    snprintf(line, sizeof line, "line of level %d", level);
    assert_int_equal(strstr(text, line) != NULL, level >= lowest);
  }
  assert_int_equal(strstr(text, "aclrtFree: devPtr is NULL") != NULL, lowest <= ACL_ERROR);
  assert_int_equal(strstr(text, "[ERROR]") != NULL, lowest <= ACL_ERROR);
}

enum { NOTHING = 4 };

static void nothing_is_printed_by_default(void **state) {
  (void)state;
  static child_end end;
  unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  unsetenv("ASCEND_PROCESS_LOG_PATH");
  run_self(&end, "write", NULL);
  assert_int_equal(end.status, 0);
  assert_string_equal(end.text, "");
}

static void level_decides_what_is_printed(void **state) {
  (void)state;
  static child_end end;
  static char settings[][32] = {"ASCEND_GLOBAL_LOG_LEVEL=0", "ASCEND_GLOBAL_LOG_LEVEL=1", "ASCEND_GLOBAL_LOG_LEVEL=2",
                                "ASCEND_GLOBAL_LOG_LEVEL=3", "ASCEND_GLOBAL_LOG_LEVEL=4"};
  setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1", 1);
  for (int lowest = ACL_DEBUG; lowest <= NOTHING; lowest++) {
    run_self(&end, "write", settings[lowest]);
    assert_lines(end.text, lowest);
    if (lowest <= ACL_ERROR) assert_non_null(strstr(end.text, "file.c:42"));
  }
  run_self(&end, "write", NULL); /* by default errors only */
  assert_lines(end.text, ACL_ERROR);
  unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
}

static void folder_gets_a_file(void **state) {
  (void)state;
  static child_end end;
  char path[PATH_MAX], text[4096] = "";
  folder_make();
  setenv("ASCEND_PROCESS_LOG_PATH", folder, 1);
  run_self(&end, "write", NULL);
  unsetenv("ASCEND_PROCESS_LOG_PATH");
  assert_string_equal(end.text, "");
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (strncmp(entry->d_name, "plog-", 5) != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
  }
  closedir(dir);
  assert_int_equal(folder_remove(), 0);
  assert_lines(text, ACL_ERROR);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "write") == 0) return write_lines();
  const struct CMUnitTest tests[] = {TEST(nothing_is_printed_by_default), TEST(level_decides_what_is_printed),
                                     TEST(folder_gets_a_file)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
