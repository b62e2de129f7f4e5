/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms in double, compiled once per instruction set level. */
#define REAL  double
#define TABLE transforms_f64
#include "kernel/fourier/transform_loop.inc"
