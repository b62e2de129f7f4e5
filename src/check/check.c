/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/variables.h"
#include "check/finding.h"
#include "check/stack.h"

static unsigned wanted; /* a bit for each part; set before main() */
static pid_t owner;

static const char *const words[] = {
#define CHECK_PART_WORD(name, word, meaning) word,
    CHECK_PARTS(CHECK_PART_WORD)
#undef CHECK_PART_WORD
};

bool check_parse(const char *text, unsigned *parts, char bad[CHECK_OPTIONS_BAD]) {
  *parts = 0;
  bool good = true;
  if (!*text || strcmp(text, "1") == 0) *parts = (1u << N_CHECKS) - 1;
  if (*parts || strcmp(text, "0") == 0) return true;
  for (const char *at = text;; ++at) {
    const size_t n = strcspn(at, ",");
    int i = 0;
    while (i < N_CHECKS && !(strlen(words[i]) == n && strncmp(at, words[i], n) == 0)) ++i;
    if (i < N_CHECKS) *parts |= 1u << i;
    if (i == N_CHECKS && good) {
      const size_t kept = n < CHECK_OPTIONS_BAD ? n : CHECK_OPTIONS_BAD - 1;
      memcpy(bad, at, kept);
      bad[kept] = '\0';
      good = false;
    }
    at += n;
    if (!*at) return good;
  }
}

bool check_wants(check_part part) { return wanted >> part & 1; }

static void check_at_exit(void) {
  if (getpid() != owner) return; /* a forked child has none of the parent's handles */
  for (const check_module *const *m = check_modules; *m; ++m)
    if (check_wants((*m)->part) && (*m)->finish) (*m)->finish();
  findings_write();
}

__attribute__((constructor)) static void check_start(void) {
  const char *text = variable_text(VARIABLE_CHECK);
  char bad[CHECK_OPTIONS_BAD];
  if (!text) return;
  if (!check_parse(text, &wanted, bad)) variable_reject(VARIABLE_CHECK, bad);
  if (!wanted) return;
  owner = getpid();
  stack_start();
  for (const check_module *const *m = check_modules; *m; ++m)
    if (check_wants((*m)->part) && (*m)->start) (*m)->start();
  atexit(check_at_exit);
}
