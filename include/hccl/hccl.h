/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective communication: communicators of ranks, one device each, and operations of all their ranks, as tasks of
 * streams. Functions return HCCL_SUCCESS or a code of HcclResult; aclGetRecentErrMsg has the words. Buffers are device
 * addresses; counts and displacements are numbers of elements. Any thread may call any function; the operations of a
 * communicator must be called in the same order on all its ranks. docs/distributed.md says more. */
#ifndef HCCL_HCCL_H
#define HCCL_HCCL_H

#include <stdbool.h>
#include <string.h>

#include "acl/acl.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- creating and destroying ----
 *
 * All ranks of a communicator call the same function at the same time; it returns when all are there. The device is the
 * calling thread's.
 *
 * By root information, which one rank makes and the program carries to all. */
ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                                    HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                                          const HcclCommConfig *config, HcclComm *comm);
/* All ranks in this process: comms[i] is the part of devices[i]. */
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);
/* By a rank table: clusterInfo is the path of a JSON file. */
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank,
                                                             HcclCommConfig *config, HcclComm *comm);
/* Creates a communicator of some ranks of another; only these call it. rankIds: their ranks in *comm, in the order of
 * the new ranks; subCommRankId: the caller's place in it. Others may call it with rankIds NULL and subCommRankId
 * 0xFFFFFFFF. */
ACL_FUNC_VISIBILITY HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds,
                                                       uint64_t subCommId, uint32_t subCommRankId,
                                                       HcclCommConfig *config, HcclComm *subComm);
/* Ends this rank's part; the other ranks' calls that wait for it fail. HCCL_E_AGAIN while another thread uses it. */
ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);

/* Fills the configuration with defaults. */
#ifndef CANN_9_HEADERS
ACL_FUNC_VISIBILITY void HcclCommConfigInit(HcclCommConfig *config);
#else
static inline void HcclCommConfigInit(HcclCommConfig *config) {
  const size_t size = sizeof *config;
  const uint32_t magic = HCCL_COMM_CONFIG_MAGIC_WORD, version = HCCL_COMM_CONFIG_VERSION;
  memset(config, 0, size);
  memcpy(config->reserved, &size, sizeof size);
  memcpy(config->reserved + 8, &magic, sizeof magic);
  memcpy(config->reserved + 12, &version, sizeof version);
  config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
  config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
  config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
  config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
  config->hcclExecTimeOut = -1; /* not set */
  config->hcclQos = 0xFFFFFFFF; /* not set */
}
#endif
ACL_FUNC_VISIBILITY uint32_t HcclGetCommConfigCapability(void);

/* ---- queries and settings ---- */

ACL_FUNC_VISIBILITY HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);
/* commName: 128 bytes. */
ACL_FUNC_VISIBILITY HcclResult HcclGetCommName(HcclComm comm, char *commName);
/* *asyncError: HCCL_E_REMOTE once the communicator has failed, else HCCL_SUCCESS. */
ACL_FUNC_VISIBILITY HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);
ACL_FUNC_VISIBILITY const char *HcclGetErrorString(HcclResult code);
/* HCCL_DETERMINISTIC of the process: 0, 1 or 2 (strict). */
ACL_FUNC_VISIBILITY HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
ACL_FUNC_VISIBILITY HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

/* While a communicator is suspended, calls on it return HCCL_E_SUSPENDING. */
ACL_FUNC_VISIBILITY HcclResult HcclCommSuspend(HcclComm comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommResume(HcclComm comm);

/* ---- operations of all ranks ----
 *
 * With a count of 0 they return HCCL_SUCCESS and do nothing. Arrays of counts and displacements are uint64_t in host
 * memory, with an element for each rank; they are copied during the call. */

ACL_FUNC_VISIBILITY HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                                             HcclReduceOp op, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType,
                                          HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount,
                                                 HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                                 aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls,
                                                  void *recvBuf, uint64_t recvCount, HcclDataType dataType,
                                                  HcclReduceOp op, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
                                              const void *recvDispls, HcclDataType dataType, HcclComm comm,
                                              aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root,
                                             HcclComm comm, aclrtStream stream);
/* sendBuf matters only at the root. */
ACL_FUNC_VISIBILITY HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType,
                                           uint32_t root, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType,
                                            const void *recvBuf, uint64_t recvCount, HcclDataType recvType,
                                            HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls,
                                             HcclDataType sendType, const void *recvBuf, const void *recvCounts,
                                             const void *rdispls, HcclDataType recvType, HcclComm comm,
                                             aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

/* ---- between two ranks ----
 *
 * A receive takes what the peer's matching send brings, pair by pair in the order of the calls. */

ACL_FUNC_VISIBILITY HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank,
                                        HcclComm comm, aclrtStream stream);
/* Transfers that do not wait for each other. */
ACL_FUNC_VISIBILITY HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm,
                                                 aclrtStream stream);

/* ---- memory for communication without copies ----
 *
 * Reserved addresses (aclrtReserveMemAddress), and the physical memory that is mapped there. alignment, offset and
 * flags are 0. */

ACL_FUNC_VISIBILITY HcclResult HcclCommSetMemoryRange(HcclComm comm, void *baseVirPtr, size_t size, size_t alignment,
                                                      uint64_t flags);
ACL_FUNC_VISIBILITY HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr);
ACL_FUNC_VISIBILITY HcclResult HcclCommActivateCommMemory(HcclComm comm, void *virPtr, size_t size, size_t offset,
                                                          aclrtDrvMemHandle handle, uint64_t flags);
ACL_FUNC_VISIBILITY HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);

/* ---- newer than CANN 8.1 ----
 *
 * sendCountMatrix: uint64_t [n][n], the same in all ranks: row i has what rank i sends to each rank.
 * Parts are packed. */
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType,
                                              const void *recvBuf, HcclDataType recvType, HcclComm comm,
                                              aclrtStream stream);
/* Creates a communicator from the text of a rank table. */
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTableString, uint32_t rank,
                                                                HcclCommConfig *config, HcclComm *comm);
/* By several root informations, which are the same in all ranks and in the same order. nExtRoot is 0. */
ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfoScalable(HcclRootInfo *rootInfo);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoScalable(uint32_t nRanks, uint32_t nRoot,
                                                            const HcclRootInfo *rootInfoList, uint32_t rank,
                                                            uint32_t nExtRoot, const HcclCommConfig *config,
                                                            HcclComm *comm);

/* Calls of a group are executed at its end, as a whole. They are of one kind: creating (by root information or rank
 * table) and destroying communicators; operations of all ranks; or HcclSend and HcclRecv. A group is the calling
 * thread's; groups may be nested, which makes one group of them. */
ACL_FUNC_VISIBILITY HcclResult HcclGroupStart(void);
ACL_FUNC_VISIBILITY HcclResult HcclGroupEnd(void);
ACL_FUNC_VISIBILITY HcclResult HcclGroupStatusGet(bool *isGroupEnabled);

/* The communicator's handle on the calling thread's device. */
ACL_FUNC_VISIBILITY HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status);
/* Has cb called before and after communicators are destroyed or resumed; the same name again replaces the former. */
ACL_FUNC_VISIBILITY HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args);
ACL_FUNC_VISIBILITY HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info);
ACL_FUNC_VISIBILITY HcclResult HcclGetHeterogMode(HcclComm comm, HcclHeterogMode *mode);
/* Switches ranks to their other network interface, where there is one; here there is none, and it changes nothing. */
ACL_FUNC_VISIBILITY HcclResult HcclCommWorkingDevNicSet(HcclComm comm, uint32_t *ranks, bool *useBackup,
                                                        uint32_t nRanks);

/* Memory that all ranks register as a window; flag is 1. */
ACL_FUNC_VISIBILITY HcclResult HcclCommSymWinRegister(HcclComm comm, void *addr, uint64_t size,
                                                      HcclCommSymWindow *winHandle, uint32_t flag);
ACL_FUNC_VISIBILITY HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);
ACL_FUNC_VISIBILITY HcclResult HcclCommSymWinGet(HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle,
                                                 size_t *offset);

/* Memory that this rank lets others know; flag is 0. */
ACL_FUNC_VISIBILITY HcclResult HcclCommRegister(HcclComm comm, void *addr, uint64_t size, void **handle, uint32_t flag);
ACL_FUNC_VISIBILITY HcclResult HcclCommDeregister(HcclComm comm, void *handle);
ACL_FUNC_VISIBILITY HcclResult HcclCommExchangeMem(HcclComm comm, void *windowHandle, uint32_t *peerRanks,
                                                   uint32_t peerRankNum);

#ifdef __cplusplus
}
#endif
#endif
