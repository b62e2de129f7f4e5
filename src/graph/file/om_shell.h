/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of .om files, which those for NPUs have, too: a header of 256 bytes, a table of partitions, and the
 * partitions (Apache-2.0 sources of the older graph engine describe it). Pure functions; called by om.c and by atc. */
#ifndef CANNON_GRAPH_FILE_OM_SHELL_H
#define CANNON_GRAPH_FILE_OM_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OM_HEADER_BYTES = 256, OM_NAME_BYTES = 32, OM_PLATFORM_BYTES = 20 };

/* Kinds of partitions. */
enum {
  OM_MODEL_DEF,     /* ge.proto.ModelDef: the graph, for those who look into files */
  OM_WEIGHTS,       /* constants, in files for NPUs */
  OM_TASK_INFO,     /* of ours: all that is loaded; for NPUs, tasks */
  OM_KERNELS,       /* for NPUs: programs for them */
  OM_AICPU_KERNELS, /* likewise */
  OM_SO_BINS,       /* libraries for the host */
};

/* A partition as the table has it in the newer form. */
typedef struct {
  uint32_t kind, unused;
  uint64_t offset, bytes; /* offset: from the end of the table */
} om_partition;

typedef struct {
  uint32_t n, unused;
} om_partition_table;

/* Whether bytes begin as a .om file does. */
bool om_is(const void *bytes, size_t n);

/* Finds a partition; *at is NULL if there is none of the kind. Returns NULL, or what is wrong with the file. */
const char *om_find(const void *bytes, size_t n, uint32_t kind, const void **at, uint64_t *size);

/* Fills the header of a file that has so many bytes behind it. */
void om_fill_header(char header[OM_HEADER_BYTES], const char *name, uint64_t length);

#endif
