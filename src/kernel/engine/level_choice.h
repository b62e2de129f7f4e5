/* SPDX-License-Identifier: Apache-2.0 */
/* The choice among the tables of level.h, for the files that define the pointers.
 *
 * The build decides which levels exist (CANNON_LEVELS in CMakeLists.txt), and writes it to the header that is included
 * here: CANNON_BASE is the lowest, which the library takes without a look at the processor; those that are defined as
 * CANNON_LEVEL_* exist besides. Only these few files are compiled anew when that changes. */
#ifndef CANNON_KERNEL_ENGINE_LEVEL_CHOICE_H
#define CANNON_KERNEL_ENGINE_LEVEL_CHOICE_H

#include "kernel/engine/level.h"
#include "kernel/engine/levels_built.h"

#define LEVEL_BASED(table) LEVEL_JOIN(table, CANNON_BASE)
#ifdef CANNON_LEVEL_V3
#  define LEVEL_IF_V3(...) __VA_ARGS__
#else
#  define LEVEL_IF_V3(...)
#endif
#ifdef CANNON_LEVEL_V4
#  define LEVEL_IF_V4(...) __VA_ARGS__
#else
#  define LEVEL_IF_V4(...)
#endif

#define LEVEL_CHOICE(type, pointer, table)                                                                             \
  extern const type LEVEL_BASED(table);                                                                                \
  LEVEL_IF_V3(extern const type table##_v3;)                                                                           \
  LEVEL_IF_V4(extern const type table##_v4;)                                                                           \
  const type *pointer = &LEVEL_BASED(table);                                                                           \
  __attribute__((constructor)) static void choose_##pointer(void) {                                                    \
    LEVEL_IF_V3(if (isa_level_chosen() == LEVEL_V3) pointer = &table##_v3;)                                            \
    LEVEL_IF_V4(if (isa_level_chosen() == LEVEL_V4) pointer = &table##_v4;)                                            \
  }

#endif
