/* SPDX-License-Identifier: Apache-2.0 */
/* CPU quotas of control groups, read from files laid out as by Linux, Docker and systemd. */
#include "base/store/quota.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit.h"

static char root[] = "/tmp/cannon_quota_XXXXXX";

static int make_root(void **state) {
  (void)state;
  return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

/* Writes a file below the root and creates its folders; each %R in the text stands for the root. */
static void put(const char *path, const char *text) {
  char full[256], folder[256];
  snprintf(full, sizeof full, "%s/%s", root, path);
  for (char *slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - full), full);
    mkdir(folder, 0700);
  }
  FILE *f = fopen(full, "w");
  assert_non_null(f);
  for (const char *mark; (mark = strstr(text, "%R")); text = mark + 2)
    fprintf(f, "%.*s%s", (int)(mark - text), text, root);
  fputs(text, f);
  fclose(f);
}

static int quota(void) {
  char mountinfo[256], cgroup[256];
  snprintf(mountinfo, sizeof mountinfo, "%s/mountinfo", root);
  snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
  return quota_processors(mountinfo, cgroup);
}

#define OTHERS   "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n22 21 0:5 / /proc rw - proc proc rw\n"
#define MOUNT_V2 OTHERS "30 21 0:26 / %R/v2 rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define MOUNT_V1                                                                                                       \
  OTHERS "31 21 0:27 / %R/cpuset rw - cgroup cgroup rw,cpuset\n"                                                       \
         "32 21 0:28 / %R/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"

static void missing_files_and_quotas_give_no_limit(void **state) {
  (void)state;
  assert_int_equal(quota(), INT_MAX);
  put("mountinfo", OTHERS);
  put("cgroup", "0::/user.slice\n");
  assert_int_equal(quota(), INT_MAX);
  put("mountinfo", MOUNT_V2);
  assert_int_equal(quota(), INT_MAX);
  put("v2/user.slice/cpu.max", "max 100000\n");
  assert_int_equal(quota(), INT_MAX);
  put("v2/user.slice/cpu.max", "rubbish\n");
  assert_int_equal(quota(), INT_MAX);
}

static void version_2_takes_the_minimum_of_all_ancestors(void **state) {
  (void)state;
  put("mountinfo", MOUNT_V2);
  put("cgroup", "0::/a.slice/b.scope\n");
  put("v2/a.slice/b.scope/cpu.max", "max 100000\n");
  put("v2/a.slice/cpu.max", "350000 100000\n");
  assert_int_equal(quota(), 3);
  put("v2/a.slice/b.scope/cpu.max", "400000 200000\n");
  assert_int_equal(quota(), 2);
  put("v2/a.slice/cpu.max", "50000 100000\n"); /* half a processor counts as one thread */
  assert_int_equal(quota(), 1);
}

/* In a container with its own cgroup namespace, the mount point is its group. */
static void version_2_in_a_namespace_uses_the_mount_point(void **state) {
  (void)state;
  put("mountinfo", MOUNT_V2);
  put("cgroup", "0::/\n");
  put("v2/cpu.max", "200000 100000\n");
  assert_int_equal(quota(), 2);
  put("v2/cpu.max", "max 100000\n");
  assert_int_equal(quota(), INT_MAX);
}

static void version_1_reads_quota_and_period(void **state) {
  (void)state;
  put("mountinfo", MOUNT_V1);
  put("cgroup", "12:cpuset:/other\n5:cpu,cpuacct:/docker/id\n0::/unified\n");
  put("cpu,cpuacct/docker/id/cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/docker/id/cpu.cfs_period_us", "100000\n");
  assert_int_equal(quota(), INT_MAX);
  put("cpu,cpuacct/docker/id/cpu.cfs_quota_us", "100000\n");
  assert_int_equal(quota(), 1);
  put("cpu,cpuacct/docker/id/cpu.cfs_quota_us", "799999\n");
  assert_int_equal(quota(), 7);
  put("cpu,cpuacct/docker/cpu.cfs_quota_us", "100000\n");
  put("cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  assert_int_equal(quota(), 2);
}

/* With version 1, Docker mounts the container's group, whose path is that of the host. */
static void version_1_in_a_container_uses_the_mounted_group(void **state) {
  (void)state;
  put("mountinfo", "32 21 0:28 /docker/id %R/seen ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
  put("cgroup", "5:cpu,cpuacct:/docker/id\n");
  put("seen/cpu.cfs_quota_us", "300000\n");
  put("seen/cpu.cfs_period_us", "100000\n");
  assert_int_equal(quota(), 3);
  put("cgroup", "5:cpu,cpuacct:/docker/id/inner\n");
  put("seen/inner/cpu.cfs_quota_us", "200000\n");
  put("seen/inner/cpu.cfs_period_us", "100000\n");
  assert_int_equal(quota(), 2);
  put("cgroup", "5:cpu,cpuacct:/docker/idle\n"); /* not below the mounted group */
  assert_int_equal(quota(), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(missing_files_and_quotas_give_no_limit),
      cmocka_unit_test(version_2_takes_the_minimum_of_all_ancestors),
      cmocka_unit_test(version_2_in_a_namespace_uses_the_mount_point),
      cmocka_unit_test(version_1_reads_quota_and_period),
      cmocka_unit_test(version_1_in_a_container_uses_the_mounted_group),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
