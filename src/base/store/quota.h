/* SPDX-License-Identifier: Apache-2.0 */
/* How much processor time the control groups of Linux allow this process, in processors: containers and CI machines are
 * often given less than the machine has, which the affinity mask does not show. */
#ifndef CANNON_BASE_STORE_QUOTA_H
#define CANNON_BASE_STORE_QUOTA_H

/* The smallest quota of the process's group and of all groups above it, in whole processors, rounded down but at least
 * 1, of version 2 (cpu.max) and version 1 (cpu.cfs_quota_us). INT_MAX if there is no quota, or none can be read. The
 * arguments are the paths of /proc/self/mountinfo and /proc/self/cgroup, or of a test's files. Reads the files at each
 * call; thread-safe. */
int quota_processors(const char *mountinfo, const char *cgroup);

#endif
