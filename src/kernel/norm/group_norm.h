/* Norms of groups of channels: what group_norm.c and its gradient share. A tensor is [N, C, ...]; a row of panels
 * is one sample's group: channels times positions. */
#ifndef CANNON_KERNEL_NORM_GROUP_NORM_H
#define CANNON_KERNEL_NORM_GROUP_NORM_H

#include "kernel/norm/channels.h"
#include "kernel/norm/norm.h"

typedef struct {
  int64_t n, channels, positions, groups; /* positions: of a channel in a sample */
} group_shape;

/* Checks the numbers, and group against channels. */
status group_shape_of(int64_t n, int64_t channels, int64_t positions, int64_t groups, const char *name, group_shape *s);

/* A tensor of that many elements as [N, G, C / G, ...], which are then v's dimensions: N, C and on, its own or, unless
 * it is NULL, those of `like`. A tensor without gaps may have any shape. */
status group_view_of(const tensor *t, const char *name, const group_shape *s, const view *like, view *v);

/* The first channel of a row's group. */
static inline int64_t first_channel(const group_shape *s, int64_t row) {
  return row % s->groups * (s->channels / s->groups);
}

#endif
