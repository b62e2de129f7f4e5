/* Transforms in float. */
#define REAL  float
#define TABLE transforms_f32
#include "kernel/fourier/transform_loop.h"
