/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/tune_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/settings/variables.h"
#include "base/store/hash.h"
#include "base/text.h"

#define MAGIC "cannon tuned 1 "

enum { TUNE_MOST_BYTES = 16 << 20 };

/* ---- the processor ----------------------------------------------------------------------------------------------- */

static char machine[256];

/* Its name as Linux has it, with the level that CANNON_ISA limits the kernels to. */
static void find_machine(void) {
  char line[512], model[128] = "unknown processor";
  FILE *f = fopen("/proc/cpuinfo", "re");
  while (f && fgets(line, sizeof line, f)) {
    const char *colon = strchr(line, ':');
    if (!colon || (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0)) continue;
    line[strcspn(line, "\n")] = 0;
    const char *name = colon + 1 + strspn(colon + 1, " ");
    text_safe(model, sizeof model, name, strlen(name));
    break;
  }
  if (f) fclose(f);
  const char *isa = variable_text(VARIABLE_ISA);
  snprintf(machine, sizeof machine, "%s %s %s", CANNON_VERSION, isa ? isa : "all", model);
}

const char *tune_machine(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, find_machine);
  return machine;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

char *tune_text(const tuning *t, char separator) {
  char *text = NULL;
  size_t bytes;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return NULL;
  for (int i = 0; i < t->n; ++i)
    fprintf(f, "%016" PRIx64 ":%s=%s%c", t->choices[i].key, t->choices[i].family, t->choices[i].name, separator);
  if (!fclose(f)) return text;
  free(text);
  return NULL;
}

/* "KEY:FAMILY=NAME" */
static bool read_choice(tuning *t, char *one) {
  char *colon = strchr(one, ':'), *equals = colon ? strchr(colon, '=') : NULL, *end;
  if (!equals || colon - one != 16 || equals == colon + 1 || !equals[1]) return false;
  *colon = *equals = 0;
  const uint64_t key = strtoull(one, &end, 16);
  if (*end || strlen(colon + 1) >= TUNE_NAME || strlen(equals + 1) >= TUNE_NAME) return false;
  return tuning_add(t, key, colon + 1, equals + 1);
}

int tune_read_text(tuning *t, char *text) {
  char *state = NULL;
  int wrong = 0;
  for (char *one = strtok_r(text, " \n", &state); one; one = strtok_r(NULL, " \n", &state))
    wrong += !read_choice(t, one);
  return wrong;
}

/* ---- the user's file --------------------------------------------------------------------------------------------- */

/* The file's name, malloc'ed, and its folder, which is made if `make`; NULL: the user has none. */
static char *tune_path(bool make) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const bool given = cache && *cache == '/';
  char *base = NULL, *folder = NULL, *path = NULL;
  const uint64_t hash = hash_bytes(HASH_START, tune_machine(), strlen(tune_machine()));
  if (!given && !(home && *home == '/')) return NULL;
  if (asprintf(&base, "%s%s", given ? cache : home, given ? "" : "/.cache") < 0) return NULL;
  if (asprintf(&folder, "%s/cannon", base) < 0) folder = NULL;
  if (make && folder && mkdir(base, 0700) && errno != EEXIST) free(folder), folder = NULL;
  if (make && folder && !file_make_folder(folder, 0700)) {
    fprintf(stderr, "cannon: measured choices are not kept: %s: %s\n", folder, file_error(errno));
    free(folder), folder = NULL;
  }
  if (folder && asprintf(&path, "%s/tuned-%016" PRIx64, folder, hash) < 0) path = NULL;
  free(folder);
  free(base);
  return path;
}

/* The file's text, malloc'ed; NULL with *foreign: it is not ours, which was told; NULL without: there is none. */
static char *read_own(const char *path, bool *foreign) {
  char head[sizeof machine + sizeof MAGIC + 1];
  struct stat info;
  *foreign = false;
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return NULL;
  snprintf(head, sizeof head, MAGIC "%s\n", tune_machine());
  const bool good = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size <= TUNE_MOST_BYTES;
  char *text = good ? calloc(1, (size_t)info.st_size + 1) : NULL;
  const ssize_t n = text ? read(fd, text, (size_t)info.st_size) : -1;
  if (fd >= 0) close(fd);
  if (n > 0 && !strncmp(text, head, strlen(head))) {
    memmove(text, text + strlen(head), strlen(text) + 1 - strlen(head));
    return text;
  }
  free(text);
  *foreign = n != 0; /* an empty file may be replaced */
  if (*foreign) fprintf(stderr, "cannon: %s is no file of measured choices; it is neither read nor replaced\n", path);
  return NULL;
}

void tune_file_read(tuning *t) {
  bool foreign;
  char *path = tune_path(false), *text = path ? read_own(path, &foreign) : NULL;
  const int wrong = text ? tune_read_text(t, text) : 0;
  if (wrong) fprintf(stderr, "cannon: %s has %d malformed lines, which are ignored\n", path, wrong);
  free(text);
  free(path);
}

/* Writes a file beside it, which then gets its name. */
static bool write_choices(const char *path, const tuning *t) {
  char *beside = NULL, *text = tune_text(t, '\n');
  if (!text || asprintf(&beside, "%s.XXXXXX", path) < 0) return free(text), errno = ENOMEM, false;
  const int fd = mkostemp(beside, O_CLOEXEC);
  bool good = fd >= 0 && file_may_have(strlen(text) + sizeof machine);
  good = good && file_write(fd, MAGIC, strlen(MAGIC)) && file_write(fd, tune_machine(), strlen(tune_machine())) &&
         file_write(fd, "\n", 1) && file_write(fd, text, strlen(text));
  if (fd >= 0 && close(fd)) good = false;
  if (good && rename(beside, path)) good = false;
  const int error = errno;
  if (!good && fd >= 0) unlink(beside);
  free(beside);
  free(text);
  errno = error;
  return good;
}

void tune_file_write(const tuning *t) {
  bool foreign = false;
  tuning all = {0};
  char *path = tune_path(true), *text = path ? read_own(path, &foreign) : NULL;
  bool good = true;
  for (int i = 0; i < t->n; ++i) good &= tuning_add(&all, t->choices[i].key, t->choices[i].family, t->choices[i].name);
  if (text) (void)tune_read_text(&all, text); /* what other programs have measured meanwhile */
  if (path && !foreign && good && !write_choices(path, &all))
    fprintf(stderr, "cannon: measured choices are not kept: %s: %s\n", path, file_error(errno));
  tuning_free(&all);
  free(text);
  free(path);
}
