/* SPDX-License-Identifier: Apache-2.0 */
/* A debug mode of programs: each buffer of the arena has a zone of known bytes on both sides while it lives, and begins
 * with bytes that are NaN as numbers. After each step the zones of all that lives are looked at, so that a node which
 * writes beyond its operands or its workspace is told by its name, and one that reads what nobody wrote spoils the
 * result. For program.c; CANNON_RED_ZONES switches it on. */
#ifndef CANNON_GRAPH_RED_ZONES_H
#define CANNON_GRAPH_RED_ZONES_H

#include "graph/ir.h"

enum { RED_ZONE_BYTES = 128 };

/* A buffer. offset: of its contents in the arena, RED_ZONE_BYTES behind where it begins. */
typedef struct {
  uint64_t offset, bytes;
  int first, last;      /* steps between which it lives */
  bool workspace;       /* of the step `first` */
  const ir_node *maker; /* the node of the step `first` */
} red_zone_buffer;

typedef struct {
  int n;
  red_zone_buffer *buffers;
} red_zones;

/* The bytes of a buffer with its zones. */
uint64_t red_zone_bytes(uint64_t bytes);

/* Prepares what begins to live at a step, which has not run yet. */
void red_zones_begin(const red_zones *z, char *arena, int step);

/* ST_GRAPH_ENGINE: the step, which has run, has written into a zone. */
status red_zones_check(const red_zones *z, const char *arena, int step, const ir_node *node);

#endif
