/* SPDX-License-Identifier: Apache-2.0 */
/* Which of CANN's functions are implemented, and which refuse every call, by header. scripts/gen_coverage.py writes the
 * table. */
#ifndef CANNON_CLI_COVERAGE_H
#define CANNON_CLI_COVERAGE_H

typedef struct {
  const char *header; /* as in #include, such as "acl/acl_rt.h" */
  unsigned known, implemented;
  const char *const *implemented_names, *const *refusing_names, *const *missing_names; /* end with NULL */
} coverage_header;

extern const coverage_header coverage_table[];
extern const unsigned coverage_count;

#endif
