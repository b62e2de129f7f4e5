/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of optim.h, compiled once per instruction set level. */
#include "kernel/optim/optim.h"

#include <float.h>
#include <math.h>

#include "kernel/engine/level.h"
#include "kernel/optim/adamw_loop.h"

static bool unscale(float *x, float scale, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    bad |= !(fabsf(x[i]) <= FLT_MAX);
    x[i] *= scale;
  }
  return bad;
}

const optim_loops LEVELED(optim_loops) = {.adamw = adamw_f32, .unscale = unscale};
