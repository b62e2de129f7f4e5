/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of MPI, in memory of the host. usage: mpirun -n N bench_comm_mpi [options of harness.h] */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static void *mpi_allocate(size_t bytes) {
  void *const buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!buffer) harness_fail("out of memory");
  return buffer;
}

static void mpi_write(void *to, const float *from, size_t n) { memcpy(to, from, n * sizeof *from); }
static void mpi_read(float *to, const void *from, size_t n) { memcpy(to, from, n * sizeof *to); }

static void mpi_start(operation op, float *in, float *out, size_t size, int root) {
  const int n = (int)size;
  const MPI_Comm all = MPI_COMM_WORLD;
  switch (op) { /* errors end the program */
  case ALL_REDUCE: MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, all); break;
  case ALL_GATHER: MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, all); break;
  case REDUCE_SCATTER: MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, all); break;
  case BROADCAST: MPI_Bcast(out, n, MPI_FLOAT, root, all); break;
  default: MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, all); break;
  }
}

static void mpi_wait(void) {}

int main(int argc, char **argv) {
  static const library mpi = {.allocate = mpi_allocate,
                              .release = free,
                              .write = mpi_write,
                              .read = mpi_read,
                              .start = mpi_start,
                              .wait = mpi_wait};
  place p = {.folder = NULL};
  /* Open MPI tells the rank before MPI_Init. */
  const char *const rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank) harness_pin(atoi(rank), argc, argv);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &p.n_ranks);
  harness_measure(&mpi, p, argc, argv);
  MPI_Finalize();
  return 0;
}
