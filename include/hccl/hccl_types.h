/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and constants of the collective communication library (hccl.h). */
#ifndef HCCL_HCCL_TYPES_H
#define HCCL_HCCL_TYPES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As in CANN, constants are constant variables in C++; in C they are enumerators, which can be array sizes. */
#ifdef __cplusplus
#  define HCCL_CONSTANT(name, value) static const uint32_t name = value
#else
#  define HCCL_CONSTANT(name, value) enum { name = value }
#endif

HCCL_CONSTANT(HCCL_ROOT_INFO_BYTES, 4108);
HCCL_CONSTANT(HCCL_COMM_CONFIG_INFO_BYTES, 24);
HCCL_CONSTANT(COMM_NAME_MAX_LENGTH, 128);
HCCL_CONSTANT(UDI_MAX_LENGTH, 128);

/* Version of HcclCommConfig, and defaults of its members. */
HCCL_CONSTANT(HCCL_COMM_CONFIG_VERSION, 5);
HCCL_CONSTANT(HCCL_COMM_DEFAULT_BUFFSIZE, 200); /* MiB */
HCCL_CONSTANT(HCCL_COMM_DEFAULT_DETERMINISTIC, 0);
HCCL_CONSTANT(HCCL_COMM_DEFAULT_OP_EXPANSION_MODE, 0);

#undef HCCL_CONSTANT

/* These do not fit into a C enumerator. */
static const uint32_t HCCL_COMM_CONFIG_MAGIC_WORD = 0xF0F0F0F0;
static const uint32_t HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET = 0xFFFFFFFF;
static const uint32_t HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET = 0xFFFFFFFF;
static const uint32_t HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET = 0xFFFFFFFF;
static const uint32_t HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET = 0xFFFFFFFF;

/* Return values of the functions. */
typedef enum HcclResult {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,
  HCCL_E_PTR = 2,
  HCCL_E_MEMORY = 3,
  HCCL_E_INTERNAL = 4,
  HCCL_E_NOT_SUPPORT = 5,
  HCCL_E_NOT_FOUND = 6,
  HCCL_E_UNAVAIL = 7,
  HCCL_E_SYSCALL = 8,
  HCCL_E_TIMEOUT = 9,
  HCCL_E_OPEN_FILE_FAILURE = 10,
  HCCL_E_TCP_CONNECT = 11,
  HCCL_E_ROCE_CONNECT = 12,
  HCCL_E_TCP_TRANSFER = 13,
  HCCL_E_ROCE_TRANSFER = 14,
  HCCL_E_RUNTIME = 15,
  HCCL_E_DRV = 16,
  HCCL_E_PROFILING = 17,
  HCCL_E_CCE = 18,
  HCCL_E_NETWORK = 19,
  HCCL_E_AGAIN = 20,
  HCCL_E_REMOTE = 21,
  HCCL_E_SUSPENDING = 22,
  HCCL_E_RESERVED = 23,
} HcclResult;

/* Handle of a communicator. */
typedef void *HcclComm;

/* What rank 0 passes to the other ranks, by any means, so that they can connect. */
typedef struct HcclRootInfoDef {
  char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

typedef enum HcclDataType {
  HCCL_DATA_TYPE_INT8 = 0,
  HCCL_DATA_TYPE_INT16 = 1,
  HCCL_DATA_TYPE_INT32 = 2,
  HCCL_DATA_TYPE_FP16 = 3,
  HCCL_DATA_TYPE_FP32 = 4,
  HCCL_DATA_TYPE_INT64 = 5,
  HCCL_DATA_TYPE_UINT64 = 6,
  HCCL_DATA_TYPE_UINT8 = 7,
  HCCL_DATA_TYPE_UINT16 = 8,
  HCCL_DATA_TYPE_UINT32 = 9,
  HCCL_DATA_TYPE_FP64 = 10,
  HCCL_DATA_TYPE_BFP16 = 11,
  HCCL_DATA_TYPE_INT128 = 12,
  HCCL_DATA_TYPE_RESERVED = 255,
} HcclDataType;

/* Operations of reductions. */
typedef enum HcclReduceOp {
  HCCL_REDUCE_SUM = 0,
  HCCL_REDUCE_PROD = 1,
  HCCL_REDUCE_MAX = 2,
  HCCL_REDUCE_MIN = 3,
  HCCL_REDUCE_RESERVED = 255,
} HcclReduceOp;

typedef enum HcclSendRecvType {
  HCCL_SEND = 0,
  HCCL_RECV = 1,
  HCCL_SEND_RECV_RESERVED = 2,
} HcclSendRecvType;

/* One transfer of a batch of sends and receives. */
typedef struct HcclSendRecvItemDef {
  HcclSendRecvType sendRecvType;
  void *buf;      /* device address */
  uint64_t count; /* elements */
  HcclDataType dataType;
  uint32_t remoteRank;
} HcclSendRecvItem;

typedef enum HcclConfig {
  HCCL_DETERMINISTIC = 0,
  HCCL_CONFIG_RESERVED = 1,
} HcclConfig;

typedef union HcclConfigValue {
  int32_t value;
} HcclConfigValue;

/* Numbers of the bits in the result of HcclGetCommConfigCapability. */
typedef enum HcclCommConfigCapability {
  HCCL_COMM_CONFIG_BUFFER_SIZE = 0,
  HCCL_COMM_CONFIG_DETERMINISTIC = 1,
  HCCL_COMM_CONFIG_COMM_NAME = 2,
  HCCL_COMM_CONFIG_OP_EXPANSION_MODE = 3,
  HCCL_COMM_CONFIG_SUPPORT_INIT_BY_ENV = 4,
  HCCL_COMM_CONFIG_RESERVED = 5,
} HcclCommConfigCapability;

typedef struct HcclCommConfigDef {
  char reserved[HCCL_COMM_CONFIG_INFO_BYTES]; /* size, magic word and version */
  uint32_t hcclBufferSize;                    /* MiB */
  uint32_t hcclDeterministic;
  char hcclCommName[COMM_NAME_MAX_LENGTH];
  char hcclUdi[UDI_MAX_LENGTH];
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
} HcclCommConfig;

#ifdef __cplusplus
}
#endif

#endif
