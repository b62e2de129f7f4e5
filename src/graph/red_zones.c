/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/red_zones.h"

#include <string.h>

enum { ZONE = 0xa5, NOTHING = 0xff };

uint64_t red_zone_bytes(uint64_t bytes) { return bytes ? bytes + 2 * RED_ZONE_BYTES : 0; }

void red_zones_begin(const red_zones *z, char *arena, int step) {
  for (int i = 0; i < z->n; ++i) {
    const red_zone_buffer *b = &z->buffers[i];
    if (b->first != step || !b->bytes) continue;
    memset(arena + b->offset - RED_ZONE_BYTES, ZONE, RED_ZONE_BYTES);
    memset(arena + b->offset, NOTHING, b->bytes);
    memset(arena + b->offset + b->bytes, ZONE, RED_ZONE_BYTES);
  }
}

/* The first byte of a zone that was changed; -1: none. */
static int zone_fault(const char *zone) {
  for (int i = 0; i < RED_ZONE_BYTES; ++i)
    if ((unsigned char)zone[i] != ZONE) return i;
  return -1;
}

static status zone_fail(const ir_node *node, const red_zone_buffer *b, const char *where, int distance) {
  return fail(ST_GRAPH_ENGINE, "node %s (%s): %s has written %d bytes %s %s of %ju bytes that node %s (%s) has",
              node->label, node->origin, node->op->function, distance, where,
              b->workspace ? "the workspace" : "a value", (uintmax_t)b->bytes, b->maker->label, b->maker->origin);
}

status red_zones_check(const red_zones *z, const char *arena, int step, const ir_node *node) {
  for (int i = 0; i < z->n; ++i) {
    const red_zone_buffer *b = &z->buffers[i];
    if (b->first > step || b->last < step || !b->bytes) continue;
    const int before = zone_fault(arena + b->offset - RED_ZONE_BYTES), after = zone_fault(arena + b->offset + b->bytes);
    if (before >= 0) return zone_fail(node, b, "before", RED_ZONE_BYTES - before);
    if (after >= 0) return zone_fail(node, b, "behind", after + 1);
  }
  return ST_OK;
}
