/* The gradient of w: for each element the product of y with x, shifted by the element's tap, summed over positions and
 * images. On floats, in one of two ways. Where there are enough rows, y is transposed so that rows are neighbours, and
 * sums are made as the forward pass makes them, with positions for channels. Else (depthwise) y is copied to an image of
 * x's order with zeros where x has its padding, and each element is a dot product. Where both are bfloat16 and AMX is
 * there, both images are packed for that; there an infinity of x may make NaNs of other taps of its channel. */
#ifndef CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H
#define CANNON_KERNEL_CONV_WEIGHT_GRADIENT_H

#include "kernel/conv/image.h"
#include "kernel/conv/weight_gradient_amx.h"

typedef struct {
  conv_geometry g;
  conv_operand x, y, w; /* w is written */
  conv_image x_image, y_image;
  int64_t n_images; /* at a time */
  bool amx;
  amx_gradient packed; /* of that */
  uint64_t x_packed_at, y_packed_at;
  bool transposes; /* the first way */
  int64_t panels;  /* of y's transpose: [panel][position][48 rows] for each group */
  int64_t piece;   /* columns at a time */
  bool direct;     /* sums are made in w */
  uint64_t x_at, y_at, sum_at, taps_at;
  uint64_t cost_ns;
} weight_gradient;

void weight_gradient_init(weight_gradient *c, executor *e, const conv_geometry *g, const conv_operand *x,
                          const conv_operand *y, const conv_operand *w);
void weight_gradient_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch);

#endif
