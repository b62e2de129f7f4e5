/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of the program's calls, as numbers: equal stacks have the same number. Frames of this library are left
 * out, so that the first frame is in the program, or in the framework that it uses; so are those by which the C library
 * starts a program or a thread, so that the last one is main or the thread's function. In a Python program, the lines
 * of Python belong to the stack (trace/python_frames.h). Thread-safe; takes one lock, under which no other is taken.
 *
 * A stack is taken for each task, so it must cost little. Each thread remembers the stacks that it has unwound, with
 * the place of each return address on the stack. Where these places hold the same addresses again, it is the same
 * stack, which takes some 20 loads instead of an unwinding of 20 frames. */
#ifndef CANNON_TRACE_STACK_H
#define CANNON_TRACE_STACK_H

#include <stdint.h>

#include "trace/python_frames.h"

enum { STACK_FRAMES = 16 };

/* To be called before any hook; later calls do nothing. */
void stack_start(void);

/* In a forked child: another thread of the parent may have held the lock. */
void stack_renew(void);

/* The calling thread's stack; 0 if it is not known, for lack of memory. */
uint32_t stack_take(void);

/* The return addresses of a stack, innermost first. Returns their number; the array is valid for ever. */
uint32_t stack_frames(uint32_t number, void *const **frames);

/* The lines of Python of a stack, likewise. */
uint32_t stack_python(uint32_t number, const python_line **lines);

/* The program's own line of Python: the innermost one outside of packages, or else the innermost. NULL: no Python. */
const python_line *stack_own_line(uint32_t number);

/* How many of n return addresses, innermost first, belong to a stack: all but those at its outer end by which the C
 * library starts the program (_start, __libc_start_main) or a thread (clone3, start_thread). */
uint32_t stack_without_start(void *const *frame, uint32_t n);

/* How many stacks the calling thread has unwound, for tests. */
uint64_t stack_n_unwound(void);

#endif
