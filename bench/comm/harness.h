/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the programs that measure collectives of float32: one program per library, with the same loop.
 * Each rank is a process with one thread that calls. Rank 0 prints a line of JSON per operation and size. */
#ifndef CANNON_BENCH_COMM_HARNESS_H
#define CANNON_BENCH_COMM_HARNESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, N_OPERATIONS } operation;

/* A library. The functions end the program with a message on failure. */
typedef struct {
  void *(*allocate)(size_t bytes);
  void (*release)(void *buffer);
  /* Copy n floats to and from a buffer. */
  void (*write)(void *to, const float *from, size_t n);
  void (*read)(float *to, const void *from, size_t n);
  /* Starts an operation. n: elements of the buffer (AllReduce; Broadcast, which works in `out` alone, from rank
   * `root`), or of the part that a rank sends to or gets from another one. May change `in`. */
  void (*start)(operation op, float *in, float *out, size_t n, int root);
  void (*wait)(void); /* for all that was started */
} library;

/* This process's rank and their number, and a folder that all ranks see. Without --rank in argv, starts --ranks N
 * processes of this program, passes on the first exit status that is not 0, and does not return. For programs whose
 * ranks are started by mpirun, `folder` and this function are of no use. */
typedef struct {
  int rank, n_ranks;
  const char *folder;
} place;
place harness_launch(int argc, char **argv);

/* Binds the process to a core, unless --no-pin is given. To be called before the library starts its threads. */
void harness_pin(int rank, int argc, char **argv);

/* Measures. Arguments: --operations NAME,... --bytes N,... (of the whole array, as in nccl-tests) --samples N
 * --seconds S (of a sample, about). */
void harness_measure(const library *l, place p, int argc, char **argv);

/* Ends the program with a message. */
void harness_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif
#endif
