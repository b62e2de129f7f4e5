/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/operator_traits.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
  const char *name;
  unsigned traits;
} traits_row;

static const traits_row rows[] = {OPERATORS_WITH_TRAITS};

static int compare_name(const void *name, const void *row) { return strcmp(name, ((const traits_row *)row)->name); }

unsigned operator_traits(const char *name) {
  if (strncasecmp(name, "hccl", 4) == 0 || strncmp(name, "hcom_", 5) == 0) return TASK_IS_COLLECTIVE;
  const traits_row *row = bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
  return row ? row->traits : 0;
}
