/* Instruction set levels. A file whose name ends in _level.c is compiled once for each: the portable one, and on x86-64
 * v3 (AVX2, FMA) and v4 (AVX-512). It defines one table of functions,
 *
 *     const norm_loops LEVELED(norm_loops) = {.mean = mean, ...};
 *
 * a header declares the pointer through which others call them, and one other file defines that:
 *
 *     extern const norm_loops *norm;              (the header)
 *     LEVEL_CHOICE(norm_loops, norm, norm_loops)   (type, pointer, table; set before main)
 *
 * A level's table is the same functions in other machine code; results may differ between levels within the stated
 * bounds, never between runs on one machine. Levels are chosen by the processor's feature bits, never by its model;
 * CANNON_ISA=portable|v3|v4|dots|amx sets the highest one, for tests. The last two are what some processors have besides v4,
 * for files that are compiled for it: dot products of bfloat16 and int8 (AVX512_BF16, AVX512_VNNI), and AMX. */
#ifndef CANNON_KERNEL_ENGINE_LEVEL_H
#define CANNON_KERNEL_ENGINE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { LEVEL_PORTABLE, LEVEL_V3, LEVEL_V4, LEVEL_DOTS, LEVEL_AMX } isa_level;

/* Of tables, up to LEVEL_V4. May be called before main. */
isa_level isa_level_chosen(void);
/* Whether v4 is there and CANNON_ISA doesn't exclude the level; whether the processor has it is the caller's question. */
bool isa_may_use(isa_level extension);

#define LEVEL_JOIN_(a, b) a##_##b
#define LEVEL_JOIN(a, b)  LEVEL_JOIN_(a, b)
#define LEVELED(table)    LEVEL_JOIN(table, LEVEL)

/* Before a loop whose iterations read nothing that another writes. */
#if defined(__clang__)
#  define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#  define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Of float, with one rounding where the level has it; libm's fmaf is never called. */
#ifdef __FMA__
#  define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#  define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

/* Which levels there are is the build's matter: builds with a sanitizer have fewer. */
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
  extern const type table##_portable;                                                                                  \
  LEVEL_IF_V3(extern const type table##_v3;)                                                                           \
  LEVEL_IF_V4(extern const type table##_v4;)                                                                           \
  const type *pointer = &table##_portable;                                                                             \
  __attribute__((constructor)) static void choose_##pointer(void) {                                                    \
    LEVEL_IF_V3(if (isa_level_chosen() == LEVEL_V3) pointer = &table##_v3;)                                            \
    LEVEL_IF_V4(if (isa_level_chosen() == LEVEL_V4) pointer = &table##_v4;)                                            \
  }

#endif
