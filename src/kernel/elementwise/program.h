/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise programs: calls of elementwise operators that are computed together, tile by tile in L1, so that what is
 * between them is never written to memory. The operator ElementwiseProgram (ops/model.ops), which passes of graphs make
 * of other nodes. Results have the same bits as those of the calls one after the other. Thread-safe. */
#ifndef CANNON_KERNEL_ELEMENTWISE_PROGRAM_H
#define CANNON_KERNEL_ELEMENTWISE_PROGRAM_H

#include "op/op.h"

enum {
  PROGRAM_OPERANDS = 12, /* the most inputs and outputs of a program together */
  PROGRAM_CALLS = 32,    /* the most calls of a program */
};

/* A call of an operator that program_takes. What it reads are inputs of the program, or what calls before it write: the
 * same `tensor`, by its address. */
typedef struct {
  op *op;
  const op_arg *args;
} program_call;

/* The argument `program` of ElementwiseProgram, which is only read while the executor is prepared. What all calls write
 * has one shape, apart from leading dimensions of size 1. */
typedef struct {
  int n_calls;
  const program_call *calls;
} elementwise_program;

/* Whether a call can be part of a program: it computes one element of its only result from one element of each operand,
 * by the elementwise engine, and all is real. Such a call, as well as a program of them, may write its result over an
 * operand of the same layout. */
bool program_takes(op *o, const op_arg *args);

#endif
