/* SPDX-License-Identifier: Apache-2.0 */
/* The list of CANNON_CHECK and of `cannon run --check`, which both read. */
#include <string.h>

#include "check/check.h"

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
