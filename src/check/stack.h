/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of the program's calls, as numbers: equal stacks have the same number. Frames of this library are left
 * out, so that the first frame is in the program, or in the framework that it uses. Thread-safe; takes one lock, under
 * which no other is taken. */
#ifndef CANNON_CHECK_STACK_H
#define CANNON_CHECK_STACK_H

#include <stdint.h>

enum { STACK_FRAMES = 16 };

/* To be called once, before any hook. */
void stack_start(void);

/* The calling thread's stack; 0 if it is not known, for lack of memory. */
uint32_t stack_take(void);

/* The return addresses of a stack, innermost first. Returns their number; the array is valid for ever. */
uint32_t stack_frames(uint32_t number, void *const **frames);

#endif
