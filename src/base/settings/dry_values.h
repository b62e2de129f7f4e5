/* SPDX-License-Identifier: Apache-2.0 */
/* The file of `cannon run --dry --values FILE`: what copies to the host bring in place of zeros, by the line of the
 * program that makes them.
 *
 *   # line       type     values: each copy takes the next one, and the last one stays
 *   train.py:42  float32  0.9 0.7 0.65
 *   *            float32  0.5
 *
 * A line is the file's name and the number of the innermost line of Python outside of packages, as reports have it; `*`
 * is any, also of programs without Python. The first one that fits counts. A copy knows no types: the one named here is
 * that of the tensor. Any thread. */
#ifndef CANNON_BASE_SETTINGS_DRY_VALUES_H
#define CANNON_BASE_SETTINGS_DRY_VALUES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
  DRY_VALUE_FLOAT16,
  DRY_VALUE_BFLOAT16,
  DRY_VALUE_FLOAT32,
  DRY_VALUE_FLOAT64,
  DRY_VALUE_BOOL,
  DRY_VALUE_UINT8,
  DRY_VALUE_INT8,
  DRY_VALUE_INT16,
  DRY_VALUE_INT32,
  DRY_VALUE_INT64,
  DRY_VALUE_N_TYPES
} dry_value_type;

enum { DRY_VALUES_LINES = 32, DRY_VALUES_SITE = 64, DRY_VALUES_ALL = 4096, DRY_VALUES_BAD = 160 };

typedef struct {
  char site[DRY_VALUES_SITE]; /* "train.py:42", "*" */
  dry_value_type type;
  uint32_t first, n; /* its values */
} dry_values_line;

typedef struct {
  uint32_t n, n_values;
  dry_values_line line[DRY_VALUES_LINES];
  double value[DRY_VALUES_ALL]; /* of integers, exact: they have at most 53 bits */
} dry_values;

/* Reads the file. False if it cannot be read or is wrong: `bad` says where and what. *v then has the lines before. */
bool dry_values_read(const char *path, dry_values *v, char bad[DRY_VALUES_BAD]);

uint32_t dry_value_bytes(dry_value_type type);

#endif
