/* SPDX-License-Identifier: Apache-2.0 */
/* Class targets: the indices of the right classes, some of which may be ignored. A target out of range is found when
 * the task runs, and fails it; what has been written until then remains. A target_reader is immutable and may be used
 * by several threads. */
#ifndef CANNON_KERNEL_LOSS_TARGET_H
#define CANNON_KERNEL_LOSS_TARGET_H

#include "kernel/engine/loops.h"
#include "op/op.h"

typedef struct {
  load_loop *load;
  int64_t classes, ignored;
} target_reader;

/* The first target out of range. */
typedef struct {
  int64_t place; /* index of its position; -1: none */
  int64_t value;
} bad_target;

enum { NO_CLASS = -1 }; /* the target is ignored */

static inline target_reader target_reader_of(const tensor *target, int64_t classes, int64_t ignored) {
  return (target_reader){loops->load[target->dtype][COMPUTE_I64], classes, ignored};
}

/* Reads the classes of n targets that are stride bytes apart; the first has index `place` among all. Returns false, and
 * sets *bad, if a target is out of range. */
static inline bool targets_read(const target_reader *r, const char *at, int64_t stride, int64_t place, int64_t n,
                                int64_t *class, bad_target *bad) {
  r->load(class, at, stride, n);
  for (int64_t k = 0; k < n; ++k) {
    if (class[k] == r->ignored) {
      class[k] = NO_CLASS;
    } else if (unlikely(class[k] < 0 || class[k] >= r->classes)) {
      *bad = (bad_target){place + k, class[k]};
      return false;
    }
  }
  return true;
}

/* Fails the task because of a target out of range. */
static inline status target_fail(const target_reader *r, const bad_target *bad) {
  return fail(ST_DEVICE_EXCEPTION, "target[%jd] is %jd, expected 0 to %jd", (intmax_t)bad->place, (intmax_t)bad->value,
              (intmax_t)r->classes - 1);
}

#endif
