/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm_types.h"

#include <stdbool.h>

#define COMM_COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct {
  const char *name; /* NULL: there is no such type */
  size_t bytes;
} comm_dtype_info;

static const comm_dtype_info comm_dtypes[COMM_N_DTYPES] = {
    [COMM_INT8] = {"int8", 1},
    [COMM_INT16] = {"int16", 2},
    [COMM_INT32] = {"int32", 4},
    [COMM_FP16] = {"float16", 2},
    [COMM_FP32] = {"float32", 4},
    [COMM_INT64] = {"int64", 8},
    [COMM_UINT64] = {"uint64", 8},
    [COMM_UINT8] = {"uint8", 1},
    [COMM_UINT16] = {"uint16", 2},
    [COMM_UINT32] = {"uint32", 4},
    [COMM_FP64] = {"float64", 8},
    [COMM_BF16] = {"bfloat16", 2},
    [COMM_INT128] = {"int128", 16},
    [COMM_HIFLOAT8] = {"hifloat8", 1},
    [COMM_FP8_E4M3] = {"float8_e4m3", 1},
    [COMM_FP8_E5M2] = {"float8_e5m2", 1},
    [COMM_FP8_E8M0] = {"float8_e8m0", 1},
};

static const char *const comm_reduction_names[COMM_N_REDUCTIONS] = {
    [COMM_SUM] = "sum", [COMM_PROD] = "prod", [COMM_MAX] = "max", [COMM_MIN] = "min"};

static const char *const comm_kind_names[COMM_N_KINDS] = {
    [COMM_ALL_REDUCE] = "AllReduce",
    [COMM_REDUCE] = "Reduce",
    [COMM_REDUCE_SCATTER] = "ReduceScatter",
    [COMM_REDUCE_SCATTER_V] = "ReduceScatterV",
    [COMM_ALL_GATHER] = "AllGather",
    [COMM_ALL_GATHER_V] = "AllGatherV",
    [COMM_BROADCAST] = "Broadcast",
    [COMM_SCATTER] = "Scatter",
    [COMM_ALL_TO_ALL] = "AlltoAll",
    [COMM_ALL_TO_ALL_V] = "AlltoAllV",
    [COMM_ALL_TO_ALL_VC] = "AlltoAllVC",
    [COMM_BARRIER] = "Barrier",
    [COMM_SEND] = "Send",
    [COMM_RECV] = "Recv",
    [COMM_BATCH_SEND_RECV] = "BatchSendRecv",
};

static const char *comm_name_in(const char *const *names, size_t n, int at, const char *otherwise) {
  return at >= 0 && (size_t)at < n ? names[at] : otherwise;
}

const char *comm_kind_name(int kind) {
  return comm_name_in(comm_kind_names, COMM_COUNT(comm_kind_names), kind, "unknown call");
}

const char *comm_reduction_name(int reduction) {
  return comm_name_in(comm_reduction_names, COMM_COUNT(comm_reduction_names), reduction, "unknown operation");
}

static const comm_dtype_info *comm_dtype_of(int dtype) {
  static const comm_dtype_info unknown = {"unknown type", 0};
  const bool known = dtype >= 0 && dtype < COMM_N_DTYPES && comm_dtypes[dtype].name;
  return known ? &comm_dtypes[dtype] : &unknown;
}

const char *comm_dtype_name(int dtype) { return comm_dtype_of(dtype)->name; }
size_t comm_dtype_bytes(int dtype) { return comm_dtype_of(dtype)->bytes; }
