/* SPDX-License-Identifier: Apache-2.0 */
/* Collective communication: what the files of src/comm share. The folder, from the callers down:
 *
 *   communicator  a list of ranks, one device each; a process may hold several ranks (communicator.h)
 *   collective    one call of one rank: a task on a stream (collective.h)
 *   job           the call of all ranks of a host together: what each of them brings, and the chunks of work, which any
 *                 of them may take (job.h). It lives in the node's memory
 *   node          the ranks of a communicator that share a host: memory that all of them map (node.h)
 *   neighbour     a process of this host that has ranks: its doorbell, and its devices' memory (neighbour.h)
 *   net           messages between ranks of different hosts, over UCX or TCP (net.h)
 *   bootstrap     how ranks find each other: root information, rank tables (bootstrap.h, rank_table.h)
 *
 * src/api calls communicator.h and collective.h. */
#ifndef CANNON_COMM_COMM_TYPES_H
#define CANNON_COMM_COMM_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Types of elements and operations of reductions; the numbers are HCCL's (hccl_types.h). */
typedef enum {
  COMM_INT8,
  COMM_INT16,
  COMM_INT32,
  COMM_FP16,
  COMM_FP32,
  COMM_INT64,
  COMM_UINT64,
  COMM_UINT8,
  COMM_UINT16,
  COMM_UINT32,
  COMM_FP64,
  COMM_BF16,
  COMM_INT128, /* which no call takes */
  COMM_HIFLOAT8 = 14,
  COMM_FP8_E4M3,
  COMM_FP8_E5M2,
  COMM_FP8_E8M0,
  COMM_N_DTYPES
} comm_dtype;

typedef enum { COMM_SUM, COMM_PROD, COMM_MAX, COMM_MIN, COMM_N_REDUCTIONS } comm_reduction;

/* What a call does. */
typedef enum {
  COMM_ALL_REDUCE,
  COMM_REDUCE,
  COMM_REDUCE_SCATTER,
  COMM_REDUCE_SCATTER_V,
  COMM_ALL_GATHER,
  COMM_ALL_GATHER_V,
  COMM_BROADCAST,
  COMM_SCATTER,
  COMM_ALL_TO_ALL,
  COMM_ALL_TO_ALL_V,
  COMM_ALL_TO_ALL_VC,
  COMM_BARRIER,
  COMM_SEND,
  COMM_RECV,
  COMM_BATCH_SEND_RECV,
  COMM_N_KINDS
} comm_kind;

/* Names for messages: "AllReduce", "float32", "sum". Bytes of an element; 0 for a number that is no type. */
const char *comm_kind_name(int kind);
const char *comm_dtype_name(int dtype);
const char *comm_reduction_name(int reduction);
size_t comm_dtype_bytes(int dtype);

#endif
