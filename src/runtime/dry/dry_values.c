/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/dry/dry_values.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/settings/dry_values.h"
#include "tensor/dtype.h"
#include "trace/stack.h"
#include "trace/stats_write.h"

bool dry_values_on;
static dry_values values;
static struct {
  mutex lock;
  uint32_t n_taken[DRY_VALUES_LINES];
} taken = {.lock = MUTEX_INITIALIZER(DRY)};

bool dry_values_start(const char *path) {
  char bad[DRY_VALUES_BAD];
  stats_dry *d = &trace_stats()->dry;
  const bool is_good = dry_values_read(path, &values, bad);
  for (uint32_t i = 0; i < values.n; ++i) memcpy(d->values[i].site, values.line[i].site, sizeof d->values[i].site);
  atomic_store(&d->n_values, values.n);
  dry_values_on = values.n > 0;
  if (dry_values_on) stack_start();
  return is_good;
}

uint32_t dry_values_here(void) {
  char site[DRY_VALUES_SITE] = "";
  const python_line *line = stack_own_line(stack_take());
  if (line) {
    const char *slash = strrchr(line->file, '/');
    snprintf(site, sizeof site, "%s:%d", slash ? slash + 1 : line->file, line->line);
  }
  for (uint32_t i = 0; i < values.n; ++i)
    if (strcmp(values.line[i].site, "*") == 0 || strcmp(values.line[i].site, site) == 0) return i + 1;
  return 0;
}

static void encode(double x, dry_value_type type, void *out) {
  const float odd = float_to_odd(x);
  switch (type) {
  case DRY_VALUE_FLOAT16: memcpy(out, &(uint16_t){half_from_float(odd)}, 2); break;
  case DRY_VALUE_BFLOAT16: memcpy(out, &(uint16_t){bf16_from_float(odd)}, 2); break;
  case DRY_VALUE_FLOAT32: memcpy(out, &(float){(float)x}, 4); break;
  case DRY_VALUE_FLOAT64: memcpy(out, &x, 8); break;
  case DRY_VALUE_BOOL:
  case DRY_VALUE_UINT8: memcpy(out, &(uint8_t){(uint8_t)x}, 1); break;
  case DRY_VALUE_INT8: memcpy(out, &(int8_t){(int8_t)x}, 1); break;
  case DRY_VALUE_INT16: memcpy(out, &(int16_t){(int16_t)x}, 2); break;
  case DRY_VALUE_INT32: memcpy(out, &(int32_t){(int32_t)x}, 4); break;
  default: memcpy(out, &(int64_t){(int64_t)x}, 8);
  }
}

dry_element dry_values_take(uint32_t line, uint64_t bytes) {
  const dry_values_line *l = &values.line[line - 1];
  stats_dry_value *row = &trace_stats()->dry.values[line - 1];
  dry_element e = {.bytes = dry_value_bytes(l->type)};
  if (bytes % e.bytes) {
    trace_add(&row->misfits, 1);
    return (dry_element){0};
  }
  mutex_lock(&taken.lock);
  uint32_t *n = &taken.n_taken[line - 1];
  const uint32_t number = *n;
  if (*n + 1 < l->n) ++*n;
  mutex_unlock(&taken.lock);
  encode(values.value[l->first + number], l->type, e.byte);
  trace_add(&row->copies, 1);
  return e;
}

void dry_values_fill(const dry_element *e, char *copy, uint64_t at, uint64_t bytes) {
  for (uint64_t i = at; i < at + bytes; ++i) copy[i] = (char)e->byte[i % e->bytes];
}
