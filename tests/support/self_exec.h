/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces this process by the same test program with a mode word as its argument. */
#ifndef CANNON_TESTS_SUPPORT_SELF_EXEC_H
#define CANNON_TESTS_SUPPORT_SELF_EXEC_H

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command that runs programs of the tested processor on this machine, words with one space between them, or NULL.
 * The kernel cannot start such programs itself (CMAKE_CROSSCOMPILING_EMULATOR). */
static inline const char *test_emulator(void) { return getenv("TEST_EMULATOR"); }

/* Does not return. */
static inline void self_exec(const char *mode) {
  enum { MAX_WORDS = 16 };
  char path[PATH_MAX] = "", command[PATH_MAX] = "", *words[MAX_WORDS + 5], *next;
  int n = 0;
  if (!test_emulator()) execl("/proc/self/exe", "self", mode, (char *)NULL);
  if (!test_emulator() || readlink("/proc/self/exe", path, sizeof path - 1) <= 0) _exit(127);
  strncpy(command, test_emulator(), sizeof command - 1);
  for (char *word = strtok_r(command, " ", &next); word && n < MAX_WORDS; word = strtok_r(NULL, " ", &next))
    words[n++] = word;
  words[n++] = (char *)(uintptr_t) "-0"; /* QEMU's option for the name that the program gets */
  words[n++] = (char *)(uintptr_t) "self";
  words[n++] = path;
  words[n++] = (char *)(uintptr_t)mode;
  words[n] = NULL;
  execv(words[0], words);
  _exit(127);
}

#endif
