/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/direct/direct_pairs.h"

const pair_kernel *direct_pairs(void) {
  const pair_kernel *const amx = direct_amx();
  return amx ? amx : direct_dots();
}
