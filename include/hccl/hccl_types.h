/* SPDX-License-Identifier: Apache-2.0
 *
 * Types and constants of the collective communication library (hccl.h).
 *
 * A program that defines CANN_9_HEADERS before it includes this gets the configuration of communicators that CANN 9 has
 * (HcclCommConfig with more members); any other program gets that of CANN 8.1. The library takes both. */
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
#ifdef CANN_9_HEADERS
HCCL_CONSTANT(HCCL_COMM_CONFIG_VERSION, 10);
#else
HCCL_CONSTANT(HCCL_COMM_CONFIG_VERSION, 5);
#endif
HCCL_CONSTANT(HCCL_COMM_DEFAULT_BUFFSIZE, 200); /* MiB */
HCCL_CONSTANT(HCCL_COMM_DEFAULT_DETERMINISTIC, 0);
HCCL_CONSTANT(HCCL_COMM_DEFAULT_OP_EXPANSION_MODE, 0);

/* Lengths of members of HcclCommConfig in CANN 9. */
HCCL_CONSTANT(BUFFER_NAME_MAX_LENGTH, 128);
HCCL_CONSTANT(HCCL_COMM_ALGO_MAX_LENGTH, 1600);
HCCL_CONSTANT(HCCL_COMM_RETRY_ENABLE_MAX_LENGTH, 50);
HCCL_CONSTANT(HCCL_COMM_RETRY_PARAMS_MAX_LENGTH, 128);

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
  /* CANN 9 */
  HCCL_E_OPRETRY_FAIL = 23,
  HCCL_E_OOM = 24,
  HCCL_E_IN_STATUS = 1041,
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
  /* CANN 9; only the 950 series has them */
  HCCL_DATA_TYPE_HIF8 = 14,
  HCCL_DATA_TYPE_FP8E4M3 = 15,
  HCCL_DATA_TYPE_FP8E5M2 = 16,
  HCCL_DATA_TYPE_FP8E8M0 = 17,
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

/* What can be configured: a member of HcclCommConfig is there if its number is less than what
 * HcclGetCommConfigCapability returns. */
typedef enum HcclCommConfigCapability {
  HCCL_COMM_CONFIG_BUFFER_SIZE = 0,
  HCCL_COMM_CONFIG_DETERMINISTIC = 1,
  HCCL_COMM_CONFIG_COMM_NAME = 2,
  HCCL_COMM_CONFIG_OP_EXPANSION_MODE = 3,
  HCCL_COMM_CONFIG_SUPPORT_INIT_BY_ENV = 4,
  HCCL_COMM_CONFIG_RESERVED = 5,
  /* CANN 9 */
  HCCL_COMM_CONFIG_WORLD_RANKID = 5,
  HCCL_COMM_CONFIG_JOBID = 6,
  HCCL_COMM_CONFIG_ACLGRAPH_ZEROCOPY_ENABLE = 7,
  HCCL_COMM_CONFIG_EXEC_TIMEOUT = 8,
  HCCL_COMM_CONFIG_ALGO = 9,
  HCCL_COMM_CONFIG_RETRY = 10,
  HCCL_COMM_CONFIG_BUFFER_NAME = 11,
} HcclCommConfigCapability;

/* How a communicator is configured; HcclCommConfigInit fills it with defaults. 0xFFFFFFFF in a number: the environment
 * or the library decides. */
typedef struct HcclCommConfigDef {
  char reserved[HCCL_COMM_CONFIG_INFO_BYTES]; /* size, magic word and version */
  uint32_t hcclBufferSize;                    /* MiB */
  uint32_t hcclDeterministic;                 /* 0; 1: deterministic; 2: strictly, in the order of ranks */
  char hcclCommName[COMM_NAME_MAX_LENGTH];    /* unique; empty: one is made up */
  char hcclUdi[UDI_MAX_LENGTH];
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
#ifdef CANN_9_HEADERS
  uint32_t hcclWorldRankID;
  uint64_t hcclJobID;
  uint8_t aclGraphZeroCopyEnable;
  int32_t hcclExecTimeOut; /* seconds; 0: none */
  char hcclAlgo[HCCL_COMM_ALGO_MAX_LENGTH];
  char hcclRetryEnable[HCCL_COMM_RETRY_ENABLE_MAX_LENGTH];
  char hcclRetryParams[HCCL_COMM_RETRY_PARAMS_MAX_LENGTH];
  char hcclBufferName[BUFFER_NAME_MAX_LENGTH];
  uint32_t hcclQos;
  uint64_t hcclSymWinMaxMemSizePerRank; /* GiB */
#endif
} HcclCommConfig;

/* ---- CANN 9 ---- */

typedef enum HcclCommStatus {
  HCCL_COMM_STATUS_READY = 0,
  HCCL_COMM_STATUS_SUSPENDING = 1,
  HCCL_COMM_STATUS_INVALID = 254,
  HCCL_COMM_STATUS_RESERVED = 255,
} HcclCommStatus;

/* When a callback of HcclCommRegCommStateCallback is called. */
typedef enum HcclCommStatePhase {
  HCCL_COMM_STATE_PHASE_INVALID = -1,
  HCCL_COMM_STATE_PHASE_DESTROY_PRE = 0,
  HCCL_COMM_STATE_PHASE_DESTROY_POST = 1,
  HCCL_COMM_STATE_PHASE_RESUME_PRE = 2,
  HCCL_COMM_STATE_PHASE_RESUME_POST = 3,
} HcclCommStatePhase;

typedef HcclResult (*HcclCommStateCallback)(HcclComm comm, HcclCommStatePhase state, void *args);

typedef enum HcclConfigType {
  HCCL_CONFIG_TYPE_INVALID = -1,
  HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0, /* HcclConfigTypeOpExpansionMode */
  HCCL_CONFIG_TYPE_HCCL_ALGO = 1,         /* char [HCCL_COMM_ALGO_MAX_LENGTH] */
} HcclConfigType;

/* Where the schedule of an operator is made. The numbers are not those of HcclCommConfig's member. */
typedef enum HcclOpExpansionMode {
  HCCL_OP_EXPANSION_MODE_INVALID = -1,
  HCCL_OP_EXPANSION_MODE_AI_CPU = 0,
  HCCL_OP_EXPANSION_MODE_AIV = 1,
  HCCL_OP_EXPANSION_MODE_HOST = 2,
  HCCL_OP_EXPANSION_MODE_HOST_TS = 3,
  HCCL_OP_EXPANSION_MODE_CCU_MS = 4,
  HCCL_OP_EXPANSION_MODE_CCU_SCHED = 5,
  HCCL_OP_EXPANSION_AIV_ONLY = 6,
} HcclOpExpansionMode;
typedef HcclOpExpansionMode HcclConfigTypeOpExpansionMode;

/* Whether the devices of a communicator are of one kind. */
typedef enum HcclHeterogMode {
  HCCL_HETEROG_MODE_INVALID = -1,
  HCCL_HETEROG_MODE_HOMOGENEOUS = 0,
  HCCL_HETEROG_MODE_MIX_A2_A3 = 1,
} HcclHeterogMode;

/* Handle of memory that all ranks have registered as a symmetric window. */
typedef void *HcclCommSymWindow;

#ifdef __cplusplus
}
#endif

#endif
