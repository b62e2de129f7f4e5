/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder under /tmp for one test program, and its recursive removal. */
#ifndef CANNON_TESTS_SUPPORT_FOLDER_H
#define CANNON_TESTS_SUPPORT_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/cannon-test-XXXXXX";

static inline void folder_make(void) {
  snprintf(folder, sizeof folder, "/tmp/cannon-test-XXXXXX");
  assert_non_null(mkdtemp(folder));
}

static inline int folder_remove_one(const char *path, const struct stat *s, int type, struct FTW *f) {
  (void)s;
  (void)type;
  (void)f;
  return remove(path);
}

static inline int folder_remove(void) { return nftw(folder, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS); }

#endif
