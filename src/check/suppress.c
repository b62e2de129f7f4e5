/* SPDX-License-Identifier: Apache-2.0 */
#include "check/suppress.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "check/finding.h"

static const char *const kinds[] = {
#define SUPPRESS_KIND(name, word) word,
    FINDING_KINDS(SUPPRESS_KIND)
#undef SUPPRESS_KIND
};

static const struct {
  const char *key;
  size_t at;
} keys[] = {
    {"kind", offsetof(suppression, kind)},     {"message", offsetof(suppression, message)},
    {"object", offsetof(suppression, object)}, {"function", offsetof(suppression, function)},
    {"file", offsetof(suppression, file)},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

/* Removes white space from both ends. */
static char *trim(char *text) {
  while (isspace((unsigned char)*text)) ++text;
  size_t n = strlen(text);
  while (n && isspace((unsigned char)text[n - 1])) --n;
  text[n] = '\0';
  return text;
}

static bool is_kind(const char *word) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (strcmp(kinds[i], word) == 0) return true;
  return false;
}

/* What is wrong with the latest suppression, once all of its lines were read. */
static const char *lacks(const suppressions *s, size_t before) {
  if (s->n == before) return NULL;
  const suppression *last = &s->at[s->n - 1];
  for (int i = 0; i < N_KEYS; ++i)
    if (*((const char *)last + keys[i].at)) return NULL;
  return "a suppression without keys fits everything, expected kind, message, object, function or file";
}

static const char *begin_suppression(suppressions *s, char *line) {
  const size_t n = strlen(line);
  if (line[n - 1] != ']') return "expected ] at the end of a name";
  line[n - 1] = '\0';
  const char *name = trim(line + 1);
  if (!*name || strlen(name) >= SUPPRESS_TEXT) return "expected a name of 1 to 159 characters between [ and ]";
  suppression *more = realloc(s->at, (s->n + 1) * sizeof *more);
  if (!more) return "no memory is left";
  s->at = more;
  memset(&more[s->n], 0, sizeof *more);
  strcpy(more[s->n++].name, name);
  return NULL;
}

static const char *suppress_set_key(suppression *last, char *line) {
  char *equals = strchr(line, '=');
  if (!equals) return "expected [a name] or key = pattern";
  *equals = '\0';
  const char *key = trim(line), *value = trim(equals + 1);
  int i = 0;
  while (i < N_KEYS && strcmp(keys[i].key, key) != 0) ++i;
  if (i == N_KEYS) return "unknown key, expected kind, message, object, function or file";
  if (!*value || strlen(value) >= SUPPRESS_TEXT) return "expected a pattern of 1 to 159 characters";
  char *to = (char *)last + keys[i].at;
  if (*to) return "the key is given twice";
  if (to == last->kind && !is_kind(value)) return "unknown kind, expected one that docs/check.md lists";
  strcpy(to, value);
  return NULL;
}

bool suppress_read(suppressions *s, FILE *from, unsigned *number, const char **wrong) {
  const size_t before = s->n;
  char *line = NULL;
  size_t room = 0;
  *wrong = NULL;
  *number = 0;
  while (!*wrong && getline(&line, &room, from) >= 0) {
    ++*number;
    char *text = trim(line);
    if (!*text || *text == '#') continue;
    if (*text == '[') {
      *wrong = lacks(s, before);
      if (!*wrong) *wrong = begin_suppression(s, text);
    } else {
      *wrong = s->n > before ? suppress_set_key(&s->at[s->n - 1], text) : "expected [a name] before the first key";
    }
  }
  if (!*wrong) *wrong = lacks(s, before);
  free(line);
  return !*wrong;
}

void suppress_read_folder(suppressions *s, const char *folder) {
  struct dirent **names;
  const int n = scandir(folder, &names, NULL, alphasort);
  for (int i = 0; i < n; ++i) {
    char path[PATH_MAX];
    const char *dot = strrchr(names[i]->d_name, '.'), *wrong;
    unsigned line;
    const bool named = dot && strcmp(dot, ".supp") == 0 &&
                       snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name) < (int)sizeof path;
    FILE *f = named ? fopen(path, "re") : NULL;
    const size_t before = s->n;
    if (f && !suppress_read(s, f, &line, &wrong)) s->n = before;
    if (f) fclose(f);
    free(names[i]);
  }
  if (n >= 0) free(names);
}

static bool suppression_fits(const char *pattern, const char *text) {
  return !*pattern || (text && fnmatch(pattern, text, FNM_NOESCAPE) == 0);
}

static bool path_fits(const char *pattern, const char *path) {
  const char *name = path ? strrchr(path, '/') : NULL;
  return suppression_fits(pattern, name && !strchr(pattern, '/') ? name + 1 : path);
}

static bool frames_fit(const suppression *s, const suppress_facts *facts) {
  if (!*s->object && !*s->function && !*s->file) return true;
  for (size_t i = 0; i < facts->n_frames; ++i) {
    const suppress_frame *f = &facts->frame[i];
    if (path_fits(s->object, f->object) && suppression_fits(s->function, f->function) && path_fits(s->file, f->file))
      return true;
  }
  return false;
}

suppression *suppress_find(suppressions *s, const suppress_facts *facts) {
  for (size_t i = 0; i < s->n; ++i) {
    suppression *one = &s->at[i];
    if (!suppression_fits(one->kind, facts->kind) || !suppression_fits(one->message, facts->message) ||
        !frames_fit(one, facts))
      continue;
    ++one->n_used;
    return one;
  }
  return NULL;
}

void suppress_free(suppressions *s) {
  free(s->at);
  *s = (suppressions){0};
}
