/* One value into every element of a view. */
#ifndef CANNON_KERNEL_ELEMENTWISE_FILL_H
#define CANNON_KERNEL_ELEMENTWISE_FILL_H

#include "base/status.h"
#include "kernel/engine/walk.h"

typedef struct {
  walk at;
  uint8_t size; /* of an element */
  _Alignas(16) char value[16];
} fill_plan;

/* value: as the tensor stores it; NULL for zero. */
void fill_plan_init(fill_plan *p, const view *out, const void *value);
void fill_run(const fill_plan *p, void *at, uint64_t cost_ns);

/* The scalar as an element of tensor `name`, 16 bytes at most. */
status fill_value_of(const tensor *t, const char *name, const scalar *s, char *value);

#endif
