/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of HCCL that frameworks' libraries are linked against. Collective communication is not implemented,
 * and each of them fails with a message that says so. */
#include "hccl/hccl.h"

#include "api/api.h"

/* Defines one entry point. None of them looks at its arguments. */
#define NOT_BUILT(name, ...)                                                                                           \
  HcclResult name(__VA_ARGS__) {                                                                                       \
    API_ENTER();                                                                                                       \
    (void)API_RESULT(fail(ST_NOT_SUPPORTED, "collective communication is not built into this library"));               \
    return HCCL_E_NOT_SUPPORT;                                                                                         \
  }

#pragma GCC diagnostic ignored "-Wunused-parameter"
// NOLINTBEGIN(misc-unused-parameters)
NOT_BUILT(HcclGetRootInfo, HcclRootInfo *rootInfo)
NOT_BUILT(HcclCommInitRootInfo, uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm)
NOT_BUILT(HcclCommInitAll, uint32_t ndev, int32_t *devices, HcclComm *comms)
NOT_BUILT(HcclCommDestroy, HcclComm comm)
NOT_BUILT(HcclAllReduce, void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
          HcclComm comm, aclrtStream stream)
NOT_BUILT(HcclBroadcast, void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
          aclrtStream stream)
NOT_BUILT(HcclReduceScatter, void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
          HcclComm comm, aclrtStream stream)
NOT_BUILT(HcclAllGather, void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
          aclrtStream stream)
NOT_BUILT(HcclSend, void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
          aclrtStream stream)
NOT_BUILT(HcclRecv, void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
          aclrtStream stream)
// NOLINTEND(misc-unused-parameters)
