/* Transforms in double. */
#define REAL  double
#define TABLE transforms_f64
#include "kernel/fourier/transform_loop.h"
