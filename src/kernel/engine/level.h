/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction set levels. A file whose name ends in _level.c is compiled once for each level: portable, and on x86-64
 * v3 (AVX2, FMA) and v4 (AVX-512). It defines one table of functions,
 *
 *     const norm_loops LEVELED(norm_loops) = {.mean = mean, ...};
 *
 * a header declares the pointer through which other files call them, and one other file defines that pointer
 * (level_choice.h):
 *
 *     extern const norm_loops *norm;              (the header)
 *     LEVEL_CHOICE(norm_loops, norm, norm_loops)   (type, pointer, table; set before main)
 *
 * The tables of all levels hold the same functions in different machine code. Results may differ between levels within
 * the stated bounds, but never between runs on one machine. The level is chosen by the processor's feature bits, never
 * by its model; CANNON_ISA=portable|v3|v4|dots limits it, for tests.
 *
 * LEVEL_DOTS and LEVEL_AMX stand for extensions that some v4 processors have: dot-product instructions for bfloat16 and
 * int8 (AVX512_BF16, AVX512_VNNI), and AMX. They have no tables; files that are compiled for them ask isa_may_use. */
#ifndef CANNON_KERNEL_ENGINE_LEVEL_H
#define CANNON_KERNEL_ENGINE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { LEVEL_PORTABLE, LEVEL_V3, LEVEL_V4, LEVEL_DOTS, LEVEL_AMX } isa_level;

/* The level of the tables, at most LEVEL_V4. Thread-safe; may be called before main. */
isa_level isa_level_chosen(void);
/* Whether the chosen level is v4 and CANNON_ISA permits the extension. The caller must check that the processor has
 * it. */
bool isa_may_use(isa_level extension);

#define LEVEL_JOIN_(a, b) a##_##b
#define LEVEL_JOIN(a, b)  LEVEL_JOIN_(a, b)
#define LEVELED(table)    LEVEL_JOIN(table, LEVEL)

/* Stands before a loop without dependences between iterations: no iteration reads what another one writes. */
#if defined(__clang__)
#  define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#  define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* a * b + c in float, with a single rounding where the level has FMA. Never calls libm's fmaf. */
#ifdef __FMA__
#  define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#  define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#endif
