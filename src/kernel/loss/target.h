/* Class targets: the numbers of the right classes, of which some may be ignored. One that is out of range fails the task
 * when it is found; what has been written until then stays. */
#ifndef CANNON_KERNEL_LOSS_TARGET_H
#define CANNON_KERNEL_LOSS_TARGET_H

#include "kernel/engine/loops.h"
#include "op/op.h"

typedef struct {
  load_loop *load;
  int64_t classes, ignored;
} target_reader;

/* The first target out of range that some positions have. */
typedef struct {
  int64_t place; /* -1: none */
  int64_t value;
} bad_target;

enum { NO_CLASS = -1 }; /* the target is ignored */

static inline target_reader target_reader_of(const tensor *target, int64_t classes, int64_t ignored) {
  return (target_reader){loops->load[target->dtype][COMPUTE_I64], classes, ignored};
}

/* The classes of n targets, stride bytes apart, of which the first is the place'th of all. */
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

static inline status fail_target(const target_reader *r, const bad_target *bad) {
  return fail(ST_DEVICE_EXCEPTION, "target[%jd] is %jd, expected 0 to %jd", (intmax_t)bad->place, (intmax_t)bad->value,
              (intmax_t)r->classes - 1);
}

#endif
