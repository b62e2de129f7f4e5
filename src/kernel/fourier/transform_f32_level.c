/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms in float, compiled once per instruction set level. */
#define REAL  float
#define TABLE transforms_f32
#include "kernel/fourier/transform_loop.inc"
