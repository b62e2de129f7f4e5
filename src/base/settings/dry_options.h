/* SPDX-License-Identifier: Apache-2.0 */
/* The options of dry runs (runtime/dry/dry.h): CANNON_DRY in a program's environment; --dry, --real and --unknown of
 * `cannon run`. Any thread. */
#ifndef CANNON_BASE_SETTINGS_DRY_OPTIONS_H
#define CANNON_BASE_SETTINGS_DRY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DRY_OPTIONS_BAD = 64, DRY_OPTIONS_REAL = 1024, DRY_OPTIONS_TOPOLOGY = 256, DRY_OPTIONS_VALUES = 256 };

/* What a result has whose size depends on data that a dry run does not have. */
typedef enum {
  DRY_UNKNOWN_MAX,  /* the largest size that is possible: that of the output */
  DRY_UNKNOWN_HALF, /* half of it */
  DRY_UNKNOWN_N,    /* a number of elements, at most the largest */
} dry_unknown;

/* Whether the time that the host takes counts (runtime/dry/dry_clock.h). */
typedef enum {
  DRY_HOST_NONE,
  DRY_HOST_MEASURED, /* as long as the program runs */
  DRY_HOST_GIVEN,    /* a time for each task that it submits */
} dry_host;

typedef struct {
  bool on;
  dry_unknown unknown;
  int64_t unknown_n;
  dry_host host;
  uint64_t host_launch_ns;             /* of DRY_HOST_GIVEN */
  char topology[DRY_OPTIONS_TOPOLOGY]; /* as of `cannon scale --topology`; "": that of the device */
  char values[DRY_OPTIONS_VALUES];     /* the file of base/settings/dry_values.h; "": none */
  char real[DRY_OPTIONS_REAL];         /* names of operators without "aclnn", each with a ',' before and after; or "" */
} dry_options;

/* Fills *o from a list such as "unknown=half,real=aclnnArgMax,real=Nonzero,host=12.5us,topology=a2-cluster" with
 * "values=FILE"; "1" is an empty list, and "0" switches dry runs off. False if a part is wrong: bad is the first such
 * part, and the other parts are taken. */
bool dry_options_parse(const char *text, dry_options *o, char bad[DRY_OPTIONS_BAD]);

/* Whether the operator is to be computed whatever its operands are. name: without "aclnn". */
bool dry_options_is_real(const dry_options *o, const char *name);

#endif
