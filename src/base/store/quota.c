/* SPDX-License-Identifier: Apache-2.0 */
#include "base/store/quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = PATH_MAX + 1024 };

/* A mounted hierarchy of control groups that may limit processor time. */
typedef struct {
  bool v2;
  char root[PATH_MAX]; /* the group that the mount point shows */
  char at[PATH_MAX];
} hierarchy;

/* Whether the comma-separated list contains the word. */
static bool lists(const char *list, const char *word) {
  const size_t n = strlen(word);
  for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
    if (!strncmp(at, word, n) && (at[n] == ',' || at[n] == '\0' || at[n] == '\n')) return true;
  return false;
}

/* Parses a line of mountinfo: number, parent, device, root, mount point, options, optional fields, "-", type, source,
 * options. */
static bool parse_mount(const char *line, hierarchy *h) {
  char type[16], options[512];
  const char *tail = strstr(line, " - ");
  _Static_assert(PATH_MAX == 4096, "the widths below");
  if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", h->root, h->at) != 2 ||
      sscanf(tail, " - %15s %*s %511s", type, options) != 2)
    return false;
  h->v2 = !strcmp(type, "cgroup2");
  return h->v2 || (!strcmp(type, "cgroup") && lists(options, "cpu"));
}

/* Finds the process's group in the hierarchy, from a line "number:controllers:path". Lines of version 2 have no
 * controllers. */
static bool find_group(const char *cgroup, const hierarchy *h, char path[PATH_MAX]) {
  FILE *f = fopen(cgroup, "re");
  if (!f) return false;
  char line[LINE_BYTES];
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || strlen(group + 1) >= PATH_MAX) continue;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    found = h->v2 ? controllers[1] == '\0' : lists(controllers + 1, "cpu");
    if (found) strcpy(path, group);
  }
  fclose(f);
  return found;
}

static bool read_numbers(const char *folder, const char *file, long long value[2], int n) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path) return false;
  FILE *f = fopen(path, "re");
  if (!f) return false;
  const int found = fscanf(f, "%lld %lld", &value[0], &value[1]);
  fclose(f);
  return found >= n;
}

/* The quota of one group in whole processors. "max" (version 2) and -1 (version 1) mean that there is none. */
static int quota_of(const char *folder, bool v2) {
  long long quota[2], period[2];
  if (v2) {
    if (!read_numbers(folder, "cpu.max", quota, 2)) return INT_MAX;
    period[0] = quota[1];
  } else if (!read_numbers(folder, "cpu.cfs_quota_us", quota, 1) ||
             !read_numbers(folder, "cpu.cfs_period_us", period, 1)) {
    return INT_MAX;
  }
  if (quota[0] <= 0 || period[0] <= 0 || quota[0] / period[0] >= INT_MAX) return INT_MAX;
  return quota[0] > period[0] ? (int)(quota[0] / period[0]) : 1;
}

/* The smallest quota of a group and of all groups above it, up to the mount point. */
static int quota_in(const hierarchy *h, const char *group) {
  const size_t root = strcmp(h->root, "/") ? strlen(h->root) : 0, mount = strlen(h->at);
  /* Some containers see their group outside of the mounted part; then the quota at the mount point applies. */
  const bool inside = !strncmp(group, h->root, root) && (group[root] == '/' || group[root] == '\0');
  char folder[2 * PATH_MAX];
  snprintf(folder, sizeof folder, "%s%s", h->at, inside ? group + root : "");
  int quota = INT_MAX;
  for (;;) {
    const int own = quota_of(folder, h->v2);
    if (own < quota) quota = own;
    char *last = strrchr(folder, '/');
    if (!last || (size_t)(last - folder) < mount) return quota;
    *last = '\0';
  }
}

int quota_processors(const char *mountinfo, const char *cgroup) {
  FILE *f = fopen(mountinfo, "re");
  if (!f) return INT_MAX;
  char line[2 * LINE_BYTES], group[PATH_MAX];
  hierarchy h;
  int quota = INT_MAX;
  while (fgets(line, sizeof line, f)) {
    if (!parse_mount(line, &h) || !find_group(cgroup, &h, group)) continue;
    const int own = quota_in(&h, group);
    if (own < quota) quota = own;
  }
  fclose(f);
  return quota;
}
