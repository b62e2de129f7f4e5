/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of a model's inputs as atc and `cannon model` take them: "x:1,3,224,224;y:1~8,77". */
#ifndef CANNON_CLI_MODEL_SHAPE_LIST_H
#define CANNON_CLI_MODEL_SHAPE_LIST_H

#include <stdbool.h>

#include "cannon/model.h"

enum { MOST_SHAPES = 64 };

/* Reads shapes behind the *n that are there already; names, which may contain colons, are parts of the text. A number
 * of -1 is an open dimension, 1~8 one with a range, and no numbers are a scalar. Returns false with a message. */
bool shape_list_read(char *text, cannon_model_shape *shapes, size_t *n, char error[256]);

#endif
