/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by group normalisation (group_norm.c) and its gradient (group_norm_grad.c). A tensor is [N, C,
 * ...]; a row is one group of one sample, that is, the group's channels times positions. */
#ifndef CANNON_KERNEL_NORM_GROUP_NORM_H
#define CANNON_KERNEL_NORM_GROUP_NORM_H

#include "kernel/norm/channels.h"
#include "kernel/norm/norm.h"

typedef struct {
  int64_t n, channels, positions, groups; /* positions: of one channel in one sample */
} group_shape;

/* Checks the sizes, and that the number of groups divides the number of channels. */
status group_shape_of(int64_t n, int64_t channels, int64_t positions, int64_t groups, const char *name, group_shape *s);

/* Views a tensor with that many elements as [N, G, C / G, ...]. The remaining dimensions are its own or, if `like` is
 * not NULL, those of `like`. A contiguous tensor may have any shape. */
status group_view_of(const tensor *t, const char *name, const group_shape *s, const view *like, view *v);

/* The first channel of the group that a row belongs to. */
static inline int64_t group_first_channel(const group_shape *s, int64_t row) {
  return row % s->groups * (s->channels / s->groups);
}

#endif
