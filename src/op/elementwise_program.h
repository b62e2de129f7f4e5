/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise programs: calls of elementwise operators that are computed together, tile by tile in L1, so that what is
 * between them is never written to memory. Passes of graphs make them, and kernel/elementwise/program.c computes them,
 * as the operator ElementwiseProgram (ops/model.ops). Results have the same bits as those of the calls one after the
 * other. */
#ifndef CANNON_OP_ELEMENTWISE_PROGRAM_H
#define CANNON_OP_ELEMENTWISE_PROGRAM_H

#include "op/op.h"

enum {
  PROGRAM_OPERANDS = 12, /* the most inputs and outputs of a program together */
  PROGRAM_CALLS = 32,    /* the most calls of a program */
};

/* A call that computes one element of its only result from one element of each operand, by the elementwise engine, all
 * of it real. What it reads are inputs of the program, or what calls before it write: the same `tensor`, by its
 * address. An operand may have the memory of the result if it has the same layout, and no call reads it afterwards. */
typedef struct {
  op *op;
  const op_arg *args;
} elementwise_program_call;

/* The argument `program` of ElementwiseProgram, which is only read while the executor is prepared. What all calls write
 * has one shape, apart from leading dimensions of size 1. */
typedef struct {
  int n_calls;
  const elementwise_program_call *calls;
} elementwise_program;

#endif
