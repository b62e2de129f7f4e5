/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in NumPy's format .npy (numpy.org, "NEP 1"): row-major, little-endian. */
#ifndef CANNON_CLI_MODEL_NPY_H
#define CANNON_CLI_MODEL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "acl/acl_base.h"

enum { NPY_MOST_DIMS = 8 };

typedef struct {
  aclDataType dtype;
  int rank;
  int64_t dims[NPY_MOST_DIMS];
  size_t bytes;
  void *data; /* inside of `file` */
  void *file; /* owned; NULL: data is */
} npy_array;

/* Reads a file, which npy_free() frees. Returns false with a message. */
bool npy_read(const char *path, npy_array *a, char error[256]);
void npy_free(npy_array *a);

/* Writes an array. bfloat16 has no type in NumPy, and is written as the package ml_dtypes does. */
bool npy_write(FILE *f, const npy_array *a);

/* NumPy's name of a type, such as "float32"; NULL: it has none. */
const char *npy_dtype_name(aclDataType dtype);

/* Smallest, largest and mean value; false if the array is empty or not of real numbers. */
bool npy_survey(const npy_array *a, double *least, double *most, double *mean);

#endif
