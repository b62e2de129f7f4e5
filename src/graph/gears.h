/* SPDX-License-Identifier: Apache-2.0 */
/* Gears: the sizes that a model with open dimensions was made for, one set of numbers each. Callers choose a gear for
 * each execution, through an input that the model has besides its own. Pure functions; called by model.c and om.c. */
#ifndef CANNON_GRAPH_GEARS_H
#define CANNON_GRAPH_GEARS_H

#include "graph/onnx/convert.h"

/* What the numbers of a gear are: one size, for every open dimension; height and width, for the two open dimensions of
 * each input that has some; or a size for each open dimension, in order. */
typedef enum { GEARS_NONE, GEARS_BATCH, GEARS_IMAGE, GEARS_DIMS } gears_kind;

enum { GEARS_MOST = 100 };

typedef struct {
  gears_kind kind;
  int n, n_numbers; /* gears, and numbers of one */
  int64_t *numbers; /* [n][n_numbers] */
} model_gears;

/* Replaces the open dimensions of the inputs by the gear's numbers. */
void gears_apply(const model_gears *g, int gear, onnx_shape *inputs, int n);

/* Whether the gears fit inputs with these open dimensions. ST_INVALID_PARAM. */
status gears_check(const model_gears *g, const onnx_shape *inputs, int n);

/* The gear with the largest product of its numbers. */
int gears_largest(const model_gears *g);

/* The number of the gear with these numbers. ST_MODEL_GEAR, with those that there are. */
status gears_find(const model_gears *g, const int64_t *numbers, int *gear);

#endif
