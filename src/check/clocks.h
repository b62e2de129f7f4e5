/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks. A component is a sequence of steps in a known order: a stream, or the host with all of its threads
 * (the orders between these, by mutexes and joins, are unseen, so that real time stands for them). A stamp is a number
 * that a component raises whenever it passes order on; a clock has for each component the last stamp that comes before
 * its owner's next step. Stamps count from 1. The caller serialises all calls.
 *
 * Components are reused when a stream is gone: the host has seen its stamps then, and a new stream goes on with higher
 * ones. So a clock is as long as the most streams that lived at the same time. */
#ifndef CANNON_CHECK_CLOCKS_H
#define CANNON_CHECK_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  uint32_t n, room; /* stamps of the components beyond n are 0 */
  uint64_t *at;
} vclock;

static inline uint64_t vclock_at(const vclock *c, uint32_t component) {
  return component < c->n ? c->at[component] : 0;
}

/* Whether the step with this stamp comes before the next step of the clock's owner. */
static inline bool vclock_has(const vclock *c, uint32_t component, uint64_t stamp) {
  return stamp <= vclock_at(c, component);
}

/* Raise the clock; false if nothing changed, or there is no memory. */
bool vclock_raise(vclock *c, uint32_t component, uint64_t stamp);
bool vclock_join(vclock *to, const vclock *from);

/* Makes `to` equal to `from`. */
void vclock_copy(vclock *to, const vclock *from);

void vclock_free(vclock *c);

/* What a component has beside its clock: its stamps grow when it makes an access after it has passed order on. */
typedef struct {
  uint32_t number;
  bool has_passed; /* it has passed on its present stamp: the next access needs a new one */
  vclock clock;
} component;

/* The stamp of an access that the component makes now. */
uint64_t component_stamp(component *c);

/* The component's clock, for somebody whose later steps come after all of its accesses so far. */
static inline const vclock *component_pass(component *c) {
  c->has_passed = true;
  return &c->clock;
}

#endif
