/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of an elementwise program, which program.c makes and program_run.c executes.
 *
 *   operand    an output or an input of the program, in memory
 *   slot       a tile of elements in the type that steps compute in: loaded from an operand, the result of a step, or a
 *              result converted to another type
 *   register   room for a slot's tile, which later slots use again
 *   step       a loop of the elementwise engine, from slots to a slot */
#ifndef CANNON_KERNEL_ELEMENTWISE_PROGRAM_RUN_H
#define CANNON_KERNEL_ELEMENTWISE_PROGRAM_RUN_H

#include "kernel/engine/tiles.h"
#include "op/elementwise_program.h"
#include "op/executor.h"

enum {
  PROGRAM_SLOTS = 64,
  PROGRAM_REGISTER_BYTES = 48 << 10, /* as many as the tiles of the engine's own loop */
};

typedef enum { SLOT_LOADED, SLOT_RESULT, SLOT_CONVERTED } slot_source;

typedef struct {
  uint8_t source;  /* slot_source */
  int8_t from;     /* the operand, the step, or the slot that it comes from */
  int8_t dtype;    /* of the elements that the tile stands for; those of 16 bits, say, are rounded */
  uint8_t compute; /* the type of the tile's elements */
  uint8_t reg;
  bool dense; /* loaded: the operand's memory can be the tile */
  bool keeps; /* loaded: the register is the slot's alone */
} program_slot;

typedef struct {
  elementwise_loop *loop;
  elementwise_loop *of_parameter[2]; /* the same where operand k has one value, its first parameter; NULL: none */
  compute_value parameter[ELEMENTWISE_PARAMETERS];
  uint8_t compute, n_inputs;
  uint8_t in[ELEMENTWISE_INPUTS], out; /* slots */
  int8_t operand;                      /* an output that the result is, too; -1: none */
  bool copies;                         /* the loop changes nothing */
  bool rounds;                         /* steps read the result, whose dtype is not that of the compute type */
} program_step;

typedef struct {
  int n_operands, n_outputs; /* outputs are the first operands */
  int n_steps, n_slots, n_registers;
  int rank;
  int64_t n;
  int64_t tile;           /* elements, at most */
  int64_t register_bytes; /* of one */
  uint32_t dense;         /* bit k: operand k has no gaps, in the order of the dimensions */
  int8_t dtype[PROGRAM_OPERANDS];
  int64_t dims[VIEW_RANK];
  int64_t strides[PROGRAM_OPERANDS][VIEW_RANK]; /* bytes */
  program_slot slots[PROGRAM_SLOTS];
  program_step steps[PROGRAM_CALLS];
} program_plan;

/* For executors whose heap is a program_plan; view: inputs, then outputs. */
status elementwise_program_run(const executor *e, void *const *view, void *scratch);

#endif
