/* Transforms in float, compiled once per instruction set level. */
#define REAL  float
#define TABLE transforms_f32
#include "kernel/fourier/transform_loop.h"
