/* How many processors' time the control groups of Linux let this process use: containers and CI machines are often
 * given less than the machine has, and affinity does not say so. */
#ifndef CANNON_BASE_QUOTA_H
#define CANNON_BASE_QUOTA_H

/* The least quota of the process's group and all groups above it, in whole processors, rounded down but 1 at least; of
 * version 2 (cpu.max) and of version 1 (cpu.cfs_quota_us). INT_MAX where there is none, or none can be read. The files
 * are /proc/self/mountinfo and /proc/self/cgroup, or a test's. Reads files each time; thread-safe. */
int quota_processors(const char *mountinfo, const char *cgroup);

#endif
