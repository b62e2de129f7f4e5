/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/advise/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"

__asm__(".pushsection .rodata\n"
        ".global advise_policy_default\n"
        "advise_policy_default: .incbin \"" ADVISE_POLICY "\"\n"
        ".byte 0\n"
        ".popsection\n");

#define POLICY_WORD(name, word) word,
static const char *const try_words[] = {POLICY_TRIES(POLICY_WORD)};
static const char *const action_words[] = {POLICY_ACTIONS(POLICY_WORD)};
#undef POLICY_WORD

enum { POLICY_MAX_WORDS = 24, POLICY_MAX_LINE = 400 };

typedef struct {
  advise_policy *policy;
  unsigned line;
  bool has_try, has_rule; /* in this file */
  char *error;
  unsigned n;
  const char *words[POLICY_MAX_WORDS];
} policy_reader;

const char *advise_policy_action_word(policy_action action) { return action_words[action]; }

static bool policy_wrong(const policy_reader *r, const char *what, const char *value, const char *expected) {
  char safe[80];
  text_safe(safe, sizeof safe, value, strlen(value));
  snprintf(r->error, 256, "line %u: %s is '%s', expected %s", r->line, what, safe, expected);
  return false;
}

static bool policy_share(const policy_reader *r, const char *what, const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  if (end != text && !*end && *out >= 0 && *out <= 1) return true;
  return policy_wrong(r, what, text, "a number from 0 to 1");
}

static bool policy_count(const policy_reader *r, const char *text, uint32_t *out) {
  uint64_t n;
  if (size_parse_number(text, 1, 1024, &n) != SIZE_OK)
    return policy_wrong(r, r->words[0], text, "a number from 1 to 1024");
  *out = (uint32_t)n;
  return true;
}

/* The set of the words from the n-th on. */
static bool policy_set(const policy_reader *r, unsigned from, const char *const *known, unsigned n_known,
                       unsigned *out) {
  char list[200] = "";
  for (unsigned k = 0; k < n_known; ++k)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", k ? ", " : "some of ", known[k]);
  for (unsigned i = from; i < r->n; ++i) {
    unsigned k = 0;
    while (k < n_known && strcmp(r->words[i], known[k]) != 0) ++k;
    if (k == n_known) return policy_wrong(r, "a word", r->words[i], list);
    *out |= 1u << k;
  }
  return true;
}

static bool policy_take_rule(policy_reader *r) {
  advise_policy *p = r->policy;
  policy_rule rule = {.line = r->line};
  if (r->n < 6 || strcmp(r->words[4], "advise") != 0)
    return policy_wrong(r, "a rule", r->n > 1 ? r->words[1] : "", "when memory|compute >|< SHARE advise ACTION...");
  rule.of_compute = strcmp(r->words[1], "compute") == 0;
  rule.is_less = strcmp(r->words[2], "<") == 0;
  if (!rule.of_compute && strcmp(r->words[1], "memory") != 0)
    return policy_wrong(r, "what a rule is about", r->words[1], "memory or compute");
  if (!rule.is_less && strcmp(r->words[2], ">") != 0) return policy_wrong(r, "a comparison", r->words[2], "> or <");
  if (!policy_share(r, "a limit", r->words[3], &rule.limit)) return false;
  if (!policy_set(r, 5, action_words, POLICY_N_ACTIONS, &rule.actions)) return false;
  if (!r->has_rule) p->n_rules = 0;
  r->has_rule = true;
  if (p->n_rules == POLICY_MAX_RULES) return policy_wrong(r, "a rule", r->words[1], "at most 32 rules");
  p->rules[p->n_rules++] = rule;
  return true;
}

static bool policy_take_line(policy_reader *r) {
  advise_policy *p = r->policy;
  const char *name = r->words[0];
  if (strcmp(name, "when") == 0) return policy_take_rule(r);
  if (strcmp(name, "try") == 0) {
    if (!r->has_try) p->tries = 0;
    r->has_try = true;
    return policy_set(r, 1, try_words, POLICY_N_TRIES, &p->tries);
  }
  if (r->n != 2) return policy_wrong(r, "the line of", name, "a setting and its value, try or when");
  const char *value = r->words[1];
  if (strcmp(name, "keep-free") == 0) return policy_share(r, name, value, &p->keep_free);
  if (strcmp(name, "idle") == 0) return policy_share(r, name, value, &p->idle);
  if (strcmp(name, "pipeline-micro-batches") == 0) return policy_count(r, value, &p->micro_batches);
  if (strcmp(name, "chunks") == 0) return policy_count(r, value, &p->chunks);
  if (strcmp(name, "accumulate") == 0) return policy_count(r, value, &p->accumulate);
  if (strcmp(name, "least") != 0)
    return policy_wrong(r, "a setting", name,
                        "keep-free, least, idle, pipeline-micro-batches, chunks, accumulate, try or when");
  if (size_parse(value, 0, INT64_MAX, &p->least_bytes) == SIZE_OK) return true;
  return policy_wrong(r, name, value, "a size such as 512K or 16M");
}

static bool policy_read(const char *text, advise_policy *out, char error[256]) {
  policy_reader r = {.policy = out, .error = error};
  for (const char *at = text; *at;) {
    char line[POLICY_MAX_LINE], *rest = line, *word;
    const size_t length = strcspn(at, "\n");
    ++r.line;
    if (length >= sizeof line) return policy_wrong(&r, "a line", "too long", "fewer than 400 bytes");
    memcpy(line, at, length);
    line[length] = '\0';
    at += length + (at[length] == '\n');
    line[strcspn(line, "#")] = '\0';
    r.n = 0;
    while ((word = strsep(&rest, " \t\r"))) {
      if (!*word) continue;
      if (r.n == POLICY_MAX_WORDS) return policy_wrong(&r, "a line's word", word, "at most 24 words in a line");
      r.words[r.n++] = word;
    }
    if (r.n && !policy_take_line(&r)) return false;
  }
  return true;
}

bool advise_policy_parse(const char *text, advise_policy *out, char error[256]) {
  *out = (advise_policy){0};
  *error = '\0';
  return policy_read(advise_policy_default, out, error) && policy_read(text, out, error);
}
