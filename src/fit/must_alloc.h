/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the analyses of src/fit, which run in tools only: without it, the tool ends with a message. */
#ifndef CANNON_FIT_MUST_ALLOC_H
#define CANNON_FIT_MUST_ALLOC_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* n elements of so many bytes, all zero; to be freed by free(). Never NULL, also for n = 0. */
static inline void *must_alloc(size_t n, size_t bytes) {
  void *p = calloc(n ? n : 1, bytes);
  if (p) return p;
  fprintf(stderr, "cannon: no memory for %zu elements of %zu bytes\n", n, bytes);
  exit(1);
}

#endif
