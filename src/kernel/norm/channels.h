/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors with a number for each channel: parameters and results of batch and group norms, with any dtype of the norms
 * and any stride. */
#ifndef CANNON_KERNEL_NORM_CHANNELS_H
#define CANNON_KERNEL_NORM_CHANNELS_H

#include "kernel/engine/loops.h"
#include "op/executor.h"

typedef struct {
  load_loop *load; /* conversion to double */
  store_loop *store;
  int64_t stride; /* bytes */
  double otherwise;
  int8_t view; /* operand index in the task; -1: absent */
} channel_vector;

/* Describes a tensor that must have as many elements as there are channels; NULL stands for the value `otherwise` in
 * all channels. */
status channel_vector_of(const tensor *t, const char *name, int view_index, int64_t channels, double otherwise,
                         channel_vector *v);

static inline void channel_get_some(const channel_vector *v, void *const *views, int64_t channel, int64_t n,
                                    double *values) {
  if (v->view >= 0)
    v->load(values, (const char *)views[v->view] + channel * v->stride, v->stride, n);
  else
    for (int64_t i = 0; i < n; ++i) values[i] = v->otherwise;
}

static inline double channel_get(const channel_vector *v, void *const *views, int64_t channel) {
  double value;
  channel_get_some(v, views, channel, 1, &value);
  return value;
}

/* Does nothing if the vector is absent. */
static inline void channel_put(const channel_vector *v, void *const *views, int64_t channel, double value) {
  if (v->view >= 0) v->store((char *)views[v->view] + channel * v->stride, v->stride, &value, 1);
}

#endif
