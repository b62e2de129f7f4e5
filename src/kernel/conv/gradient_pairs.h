/* The gradient of w as products of lines: of x's channels, as they are in an image with x's padding, and of y's rows in the
 * same order, with zeros where there is no output. A tap is another first element of x's lines, so nothing is gathered.
 * For weights in one piece, whose channels and rows fill tiles of AMX. */
#ifndef CANNON_KERNEL_CONV_GRADIENT_PAIRS_H
#define CANNON_KERNEL_CONV_GRADIENT_PAIRS_H

#include "kernel/conv/weight_gradient.h"

/* Sets c->pairs, where it fits, and asks for workspace. */
void gradient_pairs_init(weight_gradient *c, executor *e);
/* *done: false where x's or y's values are none that this can multiply; nothing is written then. */
status gradient_pairs_run(const weight_gradient *c, const void *x, const void *y, void *w, char *scratch, bool *done);

#endif
