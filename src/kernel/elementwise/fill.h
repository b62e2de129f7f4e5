/* SPDX-License-Identifier: Apache-2.0 */
/* Stores one value into every element of a view. Called by this folder and other families' kernels. Thread-safe. */
#ifndef CANNON_KERNEL_ELEMENTWISE_FILL_H
#define CANNON_KERNEL_ELEMENTWISE_FILL_H

#include "base/status.h"
#include "kernel/engine/walk.h"

typedef struct {
  walk at;
  uint8_t size; /* bytes of an element */
  _Alignas(16) char value[16];
} fill_plan;

/* Plans to store *value, an element as the tensor stores it, into all of out; NULL: zero. fill_run stores it; `at` is
 * the address of the view's first element, cost_ns as for elementwise_run. */
void fill_plan_init(fill_plan *p, const view *out, const void *value);
void fill_run(const fill_plan *p, void *at, uint64_t cost_ns);

/* Converts a scalar to an element of tensor t, at most 16 bytes, in value. Fails with a message that calls the tensor
 * `name`. */
status fill_value_of(const tensor *t, const char *name, const scalar *s, char *value);

#endif
