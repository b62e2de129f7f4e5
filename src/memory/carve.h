/* SPDX-License-Identifier: Apache-2.0 */
/* Secondary allocation: checks whether pieces that a program carves out of a block obey the rules of their use
 * (carve_rules in memory/rules.h). Used by src/api. Has no state; thread-safe. */
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

/* Checks one piece of the block [start, start + bytes). Its room ends where the next piece starts, or, with next NULL,
 * with the block. The message names the rule that is broken: "use", "length", "inside", "start-64", "start-128" or
 * "room"; name: the piece's, for the message. ST_MISALIGNED for a wrong start, else ST_INVALID_VALUE. */
status carve_check(uintptr_t start, uint64_t bytes, uint32_t slack_bytes, const carve_piece *piece,
                   const carve_piece *next, const char *name);

#endif
