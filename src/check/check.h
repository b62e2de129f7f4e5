/* SPDX-License-Identifier: Apache-2.0 */
/* The checker: CANNON_CHECK in a program's environment, --check of `cannon run`. It listens to the hooks
 * (base/hooks.h), and nothing else of the library knows of it. docs/check.md has what a user sees.
 *
 *   check.h     starts the parts that are wanted, and ends with the report
 *   finding.h   what was found: one for each cause, counted
 *   findings_write.h   where it is written: to a file for `cannon run`, or as text at the end
 *   suppress.h  which findings are not told
 *   trace/stack.h   where the program was, as numbers of stacks
 *   refused.c   what the library refuses anyway, as findings
 *   a part      listens, keeps what it knows of memory, streams or handles under a lock SHADOW of its own, and calls
 *               finding_report(). Each looks for one of the things in `check_part`
 *
 * Hooks are called under locks of the memory and of streams: a part calls nothing of the library but base/, check/ and
 * what is lock-free. */
#ifndef CANNON_CHECK_CHECK_H
#define CANNON_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* What is looked for; the words of --check, in this order. */
#define CHECK_PARTS(PART)                                                                                              \
  PART(BOUNDS, "bounds", "accesses beyond a block, a view or a workspace, and outputs that overlap")                   \
  PART(LIFETIME, "lifetime", "uses of freed memory, frees while tasks use the block, bad frees")                       \
  PART(INIT, "init", "reads of bytes that were never written")                                                         \
  PART(RACE, "race", "accesses to the same bytes that nothing orders")                                                 \
  PART(LEAK, "leak", "memory and handles that are never given back")                                                   \
  PART(HOST, "host", "accesses of the host to device memory, or to pinned memory in use")                              \
  PART(USAGE, "usage", "calls that are right by themselves, but wrong or slow as they are used")

typedef enum {
#define CHECK_PART_NUMBER(name, word, meaning) CHECK_##name,
  CHECK_PARTS(CHECK_PART_NUMBER)
#undef CHECK_PART_NUMBER
      N_CHECKS
} check_part;

enum { CHECK_OPTIONS_BAD = 64 };

/* Reads a list such as "init,race"; "1" and "" are all. Returns a bit for each part; false if a word is wrong: bad is
 * the first such, and the others are taken. */
bool check_parse(const char *text, unsigned *parts, char bad[CHECK_OPTIONS_BAD]);

/* Whether the part was asked for. Known before any device is opened. */
bool check_wants(check_part part);

/* A part of the checker is a line of leaks/modules.c. start() is called when the part was asked for,
 * before any hook; it adds the part's listener. finish() is called at the end of the process, before the report: the
 * part reports what can be known only then. Either may be NULL. */
typedef struct {
  check_part part;
  void (*start)(void);
  void (*finish)(void);
} check_module;

extern const check_module *const check_modules[];

#endif
