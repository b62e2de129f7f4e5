/* SPDX-License-Identifier: Apache-2.0 */
#include "base/settings/variables.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define PREFIX "CANNON_"

typedef enum { NUMBER, SIZE, CHOICE, FILE_PATH, FOLDER_PATH, OWN } variable_kind;

static const struct {
  const char *name;
  variable_kind kind;
  uint64_t least, most;
  const char *expected, *otherwise, *meaning;
} table[N_VARIABLES] = {
#define VARIABLE(name, ...) {PREFIX #name, __VA_ARGS__},
#define VARIABLE_ELSEWHERE(name)
#include "base/settings/variables.def"
#undef VARIABLE
#undef VARIABLE_ELSEWHERE
};

static const char *const elsewhere[] = {
#define VARIABLE(name, ...)
#define VARIABLE_ELSEWHERE(name) PREFIX #name,
#include "base/settings/variables.def"
#undef VARIABLE
#undef VARIABLE_ELSEWHERE
};

static char rejected[N_VARIABLES][64];   /* the wrong part of each value of kind OWN */
static const char *expects[N_VARIABLES]; /* by variable_expect, or NULL */

const char *variable_name(variable v) { return table[v].name; }
const char *variable_meaning(variable v) { return table[v].meaning; }

const char *variable_text(variable v) {
  const char *text = getenv(table[v].name);
  return text && *text ? text : NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Sets *index to the index of the word in `words`, a list separated by ", ". */
static size_verdict variable_choose(const char *words, const char *text, uint64_t *index) {
  const size_t n = strlen(text);
  for (uint64_t i = 0; *words; ++i) {
    const size_t length = strcspn(words, ",");
    if (n == length && memcmp(words, text, n) == 0) {
      *index = i;
      return SIZE_OK;
    }
    words += length + strspn(words + length, ", ");
  }
  return SIZE_MALFORMED;
}

static size_verdict value_of_text(variable v, const char *text, uint64_t *value) {
  switch (table[v].kind) {
  case NUMBER: return size_parse_number(text, table[v].least, table[v].most, value);
  case SIZE: return size_parse(text, table[v].least, table[v].most, value);
  case CHOICE: return variable_choose(table[v].expected, text, value);
  case FILE_PATH:
  case FOLDER_PATH: return strlen(text) < PATH_MAX ? SIZE_OK : SIZE_TOO_LARGE;
  case OWN: break;
  }
  return SIZE_OK;
}

/* Prints a size as a command line takes it: "2M". */
static void print_size(uint64_t bytes, char text[24]) {
  int unit = 0;
  for (; unit < 4 && bytes && bytes % 1024 == 0; ++unit) bytes /= 1024;
  snprintf(text, 24, "%ju%.1s", (uintmax_t)bytes, &"\0KMGT"[unit]);
}

variable_words variable_expected(variable v) {
  variable_words words;
  char least[24], most[24];
  print_size(table[v].least, least);
  print_size(table[v].most, most);
  switch (table[v].kind) {
  case NUMBER:
    snprintf(words.text, sizeof words.text, "a number from %ju to %ju", (uintmax_t)table[v].least,
             (uintmax_t)table[v].most);
    break;
  case SIZE:
    snprintf(words.text, sizeof words.text, "a size from %s to %s such as 512M, 1.5G or 32G (K, M, G or T)", least,
             most);
    break;
  case CHOICE: snprintf(words.text, sizeof words.text, "one of %s", table[v].expected); break;
  case FILE_PATH: snprintf(words.text, sizeof words.text, "the path of a file"); break;
  case FOLDER_PATH: snprintf(words.text, sizeof words.text, "the path of a folder"); break;
  case OWN: snprintf(words.text, sizeof words.text, "%s", expects[v] ? expects[v] : table[v].expected); break;
  }
  return words;
}

/* Writes the message about a wrong value. verb: "is" if `text` is the whole value, "has" if it is a part of it. */
static void variable_describe(variable v, const char *name, const char *verb, const char *text, size_verdict verdict,
                              variable_words *words) {
  char shown[100];
  text_safe(shown, sizeof shown, text, strlen(text));
  snprintf(words->text, sizeof words->text, "%s %s '%s'%s, expected %.300s", name, verb, shown, size_fault(verdict),
           variable_expected(v).text);
}

bool variable_parse(variable v, const char *name, const char *text, uint64_t *value, variable_words *words) {
  const size_verdict verdict = value_of_text(v, text, value);
  if (verdict != SIZE_OK) variable_describe(v, name, "is", text, verdict, words);
  return verdict == SIZE_OK;
}

bool variable_read(variable v, uint64_t *value) {
  const char *text = variable_text(v);
  return text && value_of_text(v, text, value) == SIZE_OK;
}

void variable_reject(variable v, const char *part) { snprintf(rejected[v], sizeof rejected[v], "%.63s", part); }

void variable_expect(variable v, const char *text) { expects[v] = text; }

bool variable_is_bad(variable v, variable_words *words) {
  const char *text = variable_text(v);
  uint64_t value;
  if (text && *rejected[v]) {
    const bool whole = strcmp(text, rejected[v]) == 0;
    variable_describe(v, table[v].name, whole ? "is" : "has", rejected[v], SIZE_MALFORMED, words);
  }
  return text && (*rejected[v] || !variable_parse(v, table[v].name, text, &value, words));
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* The Levenshtein distance: how many letters must be replaced, inserted or deleted to turn one name into the other. */
static unsigned spelling_distance(const char *a, size_t n, const char *b) {
  enum { MOST_LETTERS = 32 };
  unsigned row[MOST_LETTERS + 1];
  const size_t m = strlen(b);
  if (n > MOST_LETTERS || m > MOST_LETTERS) return UINT_MAX;
  for (size_t j = 0; j <= m; ++j) row[j] = (unsigned)j;
  for (size_t i = 1; i <= n; ++i) {
    unsigned diagonal = row[0]++;
    for (size_t j = 1; j <= m; ++j) {
      const unsigned changed = diagonal + (a[i - 1] != b[j - 1]),
                     other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
      diagonal = row[j];
      row[j] = changed < other ? changed : other;
    }
  }
  return row[m];
}

static bool is_known(const char *name, size_t n) {
  for (variable v = 0; v < N_VARIABLES; ++v)
    if (strlen(table[v].name) == n && memcmp(table[v].name, name, n) == 0) return true;
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; ++i)
    if (strlen(elsewhere[i]) == n && memcmp(elsewhere[i], name, n) == 0) return true;
  return false;
}

static void report_unknown(const char *name, size_t n) {
  const unsigned near =
      (unsigned)(n - (sizeof PREFIX - 1)) / 2; /* names count as similar up to half of the name's own letters */
  char shown[100];
  const char *nearest = NULL;
  unsigned best = near + 1;
  for (variable v = 0; v < N_VARIABLES; ++v) {
    const unsigned d = spelling_distance(name, n, table[v].name);
    if (d >= best) continue;
    best = d;
    nearest = table[v].name;
  }
  text_safe(shown, sizeof shown, name, n);
  fprintf(stderr, "cannon: warning: the environment has %s, which Cannon does not know%s%s (cannon env --help)\n",
          shown, nearest ? "; the nearest that it knows is " : "", nearest ? nearest : "");
}

void variables_report_unknown(void) {
  for (char *const *e = environ; e && *e; ++e) {
    const size_t n = strcspn(*e, "=");
    if (strncmp(*e, PREFIX, sizeof PREFIX - 1) == 0 && !is_known(*e, n)) report_unknown(*e, n);
  }
}

void variables_report(void) {
  uint64_t told = 0;
  for (variable v = 0; v < N_VARIABLES; ++v) {
    variable_words words;
    if (variable_is_bad(v, &words)) fprintf(stderr, "cannon: %s; %s\n", words.text, table[v].otherwise);
  }
  if (!variable_read(VARIABLE_CHECKED, &told) || !told) variables_report_unknown();
}
