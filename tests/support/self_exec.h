/* Replaces this process by the same test program with a mode word as its argument. */
#ifndef CANNON_TESTS_SUPPORT_SELF_EXEC_H
#define CANNON_TESTS_SUPPORT_SELF_EXEC_H

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* The command that runs programs of the tested processor on this machine (CMAKE_CROSSCOMPILING_EMULATOR), or NULL. The
 * kernel cannot start such programs itself. */
static inline const char *test_emulator(void) { return getenv("TEST_EMULATOR"); }

/* Does not return. */
static inline void self_exec(const char *mode) {
  char path[PATH_MAX] = "";
  if (!test_emulator()) execl("/proc/self/exe", "self", mode, (char *)NULL);
  if (readlink("/proc/self/exe", path, sizeof path - 1) > 0)
    execl("/bin/sh", "sh", "-c", "exec $TEST_EMULATOR \"$0\" \"$1\"", path, mode, (char *)NULL);
  _exit(127);
}

#endif
