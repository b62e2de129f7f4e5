/* Which of CANN's functions are implemented, by header. The table is written by scripts/gen_coverage.py. */
#ifndef CANNON_CLI_COVERAGE_H
#define CANNON_CLI_COVERAGE_H

typedef struct {
  const char *header; /* as it is included: "acl/acl_rt.h" */
  unsigned known, implemented;
  /* NULL-ended; refused: can be linked, and answer that they are not supported. */
  const char *const *implemented_names, *const *refused_names, *const *missing_names;
} coverage_header;

extern const coverage_header coverage_table[];
extern const unsigned coverage_count;

#endif
