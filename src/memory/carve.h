/* Secondary allocation: whether pieces that a program carves out of a block keep to the rules of their use (carve_rules
 * in memory/rules.h). Pure; any thread. */
#ifndef CANNON_MEMORY_CARVE_H
#define CANNON_MEMORY_CARVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
  uintptr_t address;
  uint64_t length;
  int use; /* carve_use */
} carve_piece;

/* Checks one piece of the block [start, start + bytes). Its room ends where the next piece starts, or with the block
 * where next is NULL. Words begin with the rule that is broken: "use", "length", "inside", "start-64", "start-128" or
 * "room"; name is the piece's. ST_MISALIGNED for a start, else ST_INVALID_VALUE. */
status carve_check(uintptr_t start, uint64_t bytes, uint32_t slack_bytes, const carve_piece *piece,
                   const carve_piece *next, const char *name);

#endif
