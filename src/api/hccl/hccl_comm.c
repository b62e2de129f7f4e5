/* SPDX-License-Identifier: Apache-2.0 */
/* HCCL's entry points that create, destroy and query communicators. */
#include <stdlib.h>
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "comm/start/bootstrap.h"
#include "hccl/hcom.h"
#include "runtime/python_place.h"

_Static_assert(sizeof(HcclRootInfo) == BOOTSTRAP_INFO_BYTES && COMM_NAME_BYTES == (int)COMM_NAME_MAX_LENGTH,
               "the core has HCCL's sizes");

enum { MOST_PATH_BYTES = 4096, OUTSIDER = UINT32_MAX };

/* ---- creating ---- */

static status create_by_info(const hccl_creation *what, comm **out) {
  return comm_create((const unsigned char *)what->info.internal, what->n_ranks, what->rank, &what->config, out);
}

static status create_by_table(const hccl_creation *what, comm **out) {
  return comm_create_by_table(what->table, what->table_is_text, what->rank, &what->config, out);
}

static hccl_outcome check_rank_place(uint32_t n_ranks, uint32_t rank) {
  if (n_ranks < 1 || n_ranks > COMM_MOST_RANKS)
    return HCCL_REFUSE(HCCL_E_PARA, "nRanks is %u, expected 1 to %d", n_ranks, COMM_MOST_RANKS);
  if (rank >= n_ranks) return HCCL_REFUSE(HCCL_E_PARA, "rank is %u, expected 0 to %u", rank, n_ranks - 1);
  return 0;
}

/* Creates at once, or leaves it to the end of the open group. */
static hccl_outcome create_or_defer(const hccl_creation *what) {
  return hccl_group_is_open() ? hccl_group_create(what) : hccl_create_now(what);
}

static hccl_outcome finish_creation(hccl_outcome outcome) {
  return outcome && hccl_group_is_open() ? hccl_group_refuse(outcome) : outcome;
}

static hccl_outcome init_by_info(uint32_t n_ranks, const HcclRootInfo *info, uint32_t rank, const comm_config *config,
                                 HcclComm *out) {
  if (!info) return HCCL_REFUSE(HCCL_E_PTR, "rootInfo is NULL, expected a pointer");
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a pointer");
  HCCL_TRY(check_rank_place(n_ranks, rank));
  const hccl_creation what = {
      .create = create_by_info, .info = *info, .n_ranks = n_ranks, .rank = rank, .config = *config, .out = out};
  return create_or_defer(&what);
}

static hccl_outcome root_info(HcclRootInfo *out) {
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "rootInfo is NULL, expected a pointer");
  return hccl_outcome_of(bootstrap_root_info((unsigned char *)out->internal));
}

HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo) {
  API_ENTER();
  HCCL_RETURN(root_info(rootInfo));
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm) {
  API_ENTER();
  const comm_config unset = COMM_CONFIG_UNSET;
  HCCL_RETURN(finish_creation(init_by_info(nRanks, rootInfo, rank, &unset, comm)));
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank,
                                      const HcclCommConfig *config, HcclComm *comm) {
  API_ENTER();
  comm_config read;
  hccl_outcome outcome = hccl_config_read(config, &read);
  if (!outcome) outcome = init_by_info(nRanks, rootInfo, rank, &read, comm);
  HCCL_RETURN(finish_creation(outcome));
}

HcclResult HcclGetRootInfoScalable(HcclRootInfo *rootInfo) {
  API_ENTER();
  HCCL_RETURN(root_info(rootInfo));
}

/* All ranks meet at the first root: one is enough for as many as COMM_MOST_RANKS. */
static hccl_outcome init_scalable(uint32_t n_ranks, uint32_t n_roots, const HcclRootInfo *infos, uint32_t rank,
                                  uint32_t n_more, const HcclCommConfig *config, HcclComm *out) {
  comm_config read;
  HCCL_TRY(hccl_config_read(config, &read));
  HCCL_TRY(check_rank_place(n_ranks, rank));
  if (n_roots < 1 || n_roots > n_ranks)
    return HCCL_REFUSE(HCCL_E_PARA, "nRoot is %u, expected 1 to %u", n_roots, n_ranks);
  if (n_more) return HCCL_REFUSE(HCCL_E_PARA, "nExtRoot is %u, expected 0", n_more);
  return init_by_info(n_ranks, infos, rank, &read, out);
}

HcclResult HcclCommInitRootInfoScalable(uint32_t nRanks, uint32_t nRoot, const HcclRootInfo *rootInfoList,
                                        uint32_t rank, uint32_t nExtRoot, const HcclCommConfig *config,
                                        HcclComm *comm) {
  API_ENTER();
  HCCL_RETURN(finish_creation(init_scalable(nRanks, nRoot, rootInfoList, rank, nExtRoot, config, comm)));
}

static hccl_outcome init_by_table(const char *table, bool is_text, uint32_t rank, const comm_config *config,
                                  HcclComm *out) {
  if (!table)
    return HCCL_REFUSE(HCCL_E_PTR, "%s is NULL, expected a rank table", is_text ? "rankTableString" : "clusterInfo");
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a pointer");
  if (!is_text && strnlen(table, MOST_PATH_BYTES) == MOST_PATH_BYTES)
    return HCCL_REFUSE(HCCL_E_PARA, "clusterInfo has %d characters or more, expected a path with less",
                       MOST_PATH_BYTES);
  const hccl_creation what = {.create = create_by_table,
                              .table = strdup(table),
                              .table_is_text = is_text,
                              .rank = rank,
                              .config = *config,
                              .out = out};
  if (!what.table) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory for the rank table"));
  return create_or_defer(&what);
}

HcclResult HcclCommInitClusterInfo(const char *clusterInfo, uint32_t rank, HcclComm *comm) {
  API_ENTER();
  const comm_config unset = COMM_CONFIG_UNSET;
  HCCL_RETURN(finish_creation(init_by_table(clusterInfo, false, rank, &unset, comm)));
}

HcclResult HcclCommInitClusterInfoConfig(const char *clusterInfo, uint32_t rank, HcclCommConfig *config,
                                         HcclComm *comm) {
  API_ENTER();
  comm_config read;
  hccl_outcome outcome = hccl_config_read(config, &read);
  if (!outcome) outcome = init_by_table(clusterInfo, false, rank, &read, comm);
  HCCL_RETURN(finish_creation(outcome));
}

HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTableString, uint32_t rank, HcclCommConfig *config,
                                            HcclComm *comm) {
  API_ENTER();
  comm_config read;
  hccl_outcome outcome = hccl_config_read(config, &read);
  if (!outcome) outcome = init_by_table(rankTableString, true, rank, &read, comm);
  HCCL_RETURN(finish_creation(outcome));
}

static hccl_outcome init_all(uint32_t n, const int32_t *devices, HcclComm *out) {
  if (!devices) return HCCL_REFUSE(HCCL_E_PTR, "devices is NULL, expected a pointer");
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "comms is NULL, expected a pointer");
  if (n < 1 || n > COMM_MOST_RANKS) return HCCL_REFUSE(HCCL_E_PARA, "ndev is %u, expected 1 to %d", n, COMM_MOST_RANKS);
  comm **parts = calloc(n, sizeof *parts);
  if (!parts) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory for %u communicators", n));
  const status st = comm_create_local(devices, n, parts);
  for (uint32_t i = 0; i < n && st == ST_OK; ++i) out[i] = comm_handle(parts[i]);
  free(parts);
  if (st == ST_OK && n > 1) python_place_start();
  return hccl_outcome_of(st);
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms) {
  API_ENTER();
  HCCL_RETURN(init_all(ndev, devices, comms));
}

/* ---- sub-communicators ---- */

/* Checks that the ranks are different ranks of the communicator. */
static hccl_outcome check_ranks_differ(const uint32_t *ranks, uint32_t n, uint32_t n_of) {
  unsigned char *seen = calloc(n_of, 1);
  if (!seen) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory to check %u ranks", n));
  hccl_outcome outcome = 0;
  for (uint32_t i = 0; i < n && !outcome; ++i) {
    if (ranks[i] >= n_of)
      outcome = HCCL_REFUSE(HCCL_E_PARA, "rankIds[%u] is %u, expected 0 to %u", i, ranks[i], n_of - 1);
    else if (seen[ranks[i]]++)
      outcome = HCCL_REFUSE(HCCL_E_PARA, "rankIds[%u] is %u, which is there already", i, ranks[i]);
  }
  free(seen);
  return outcome;
}

static hccl_outcome create_sub(const HcclComm *of, uint32_t n, const uint32_t *ranks, uint64_t id, uint32_t index,
                               const HcclCommConfig *config, HcclComm *out) {
  HELD_COMM c = NULL;
  comm *sub;
  comm_config read;
  if (!of) return HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a pointer to a communicator");
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "subComm is NULL, expected a pointer");
  HCCL_TRY(hccl_comm_of(*of, &c));
  if (!ranks && index == OUTSIDER) {
    *out = NULL;
    return 0;
  }
  if (!ranks) return HCCL_REFUSE(HCCL_E_PTR, "rankIds is NULL, expected the ranks of the sub-communicator");
  HCCL_TRY(hccl_config_read(config, &read));
  if (n < 1 || n > comm_n_ranks(c))
    return HCCL_REFUSE(HCCL_E_PARA, "rankNum is %u, expected 1 to %u", n, comm_n_ranks(c));
  HCCL_TRY(check_ranks_differ(ranks, n, comm_n_ranks(c)));
  if (index >= n) return HCCL_REFUSE(HCCL_E_PARA, "subCommRankId is %u, expected 0 to %u", index, n - 1);
  if (ranks[index] != comm_rank(c))
    return HCCL_REFUSE(HCCL_E_PARA, "rankIds[subCommRankId] is %u, expected the caller's rank, %u", ranks[index],
                       comm_rank(c));
  HCCL_TRY_CORE(comm_create_sub(c, ranks, n, id, index, &read, &sub));
  *out = comm_handle(sub);
  return 0;
}

HcclResult HcclCreateSubCommConfig(HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm) {
  API_ENTER();
  HCCL_RETURN(create_sub(comm, rankNum, rankIds, subCommId, subCommRankId, config, subComm));
}

/* ---- destroying ---- */

HcclResult HcclCommDestroy(HcclComm comm) {
  API_ENTER();
  if (!comm) HCCL_RETURN(finish_creation(HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a communicator")));
  HCCL_RETURN(hccl_group_is_open() ? hccl_group_destroy(comm) : hccl_destroy_now(comm));
}

/* ---- queries ---- */

/* Writes the value of the member after checking handle and pointer. */
#define QUERY(handle, pointer, value)                                                                                  \
  HELD_COMM c = NULL;                                                                                                  \
  HCCL_TRY(hccl_comm_of(handle, &c));                                                                                  \
  HCCL_NEED(pointer);                                                                                                  \
  *(pointer) = (value);                                                                                                \
  return 0

static hccl_outcome rank_size(HcclComm handle, uint32_t *rankSize) { QUERY(handle, rankSize, comm_n_ranks(c)); }
static hccl_outcome rank_id(HcclComm handle, uint32_t *rank) { QUERY(handle, rank, comm_rank(c)); }
/* All devices of a machine are of one kind, and so are those of a communicator. */
static hccl_outcome heterogeneity(HcclComm handle, HcclHeterogMode *mode) {
  QUERY(handle, mode, HCCL_HETEROG_MODE_HOMOGENEOUS);
}
/* HCCL reports nothing but HCCL_E_REMOTE, and frameworks only look whether it is 0. */
static hccl_outcome async_error(HcclComm handle, HcclResult *asyncError) {
  QUERY(handle, asyncError, comm_failure(c) == ST_OK ? HCCL_SUCCESS : HCCL_E_REMOTE);
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize) {
  API_ENTER();
  HCCL_RETURN(rank_size(comm, rankSize));
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank) {
  API_ENTER();
  HCCL_RETURN(rank_id(comm, rank));
}

HcclResult HcclGetHeterogMode(HcclComm comm, HcclHeterogMode *mode) {
  API_ENTER();
  HCCL_RETURN(heterogeneity(comm, mode));
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError) {
  API_ENTER();
  HCCL_RETURN(async_error(comm, asyncError));
}

static hccl_outcome name_of(HcclComm handle, char *commName) {
  HELD_COMM c = NULL;
  HCCL_TRY(hccl_comm_of(handle, &c));
  HCCL_NEED(commName);
  strncpy(commName, comm_name(c), COMM_NAME_BYTES - 1);
  commName[COMM_NAME_BYTES - 1] = '\0';
  return 0;
}

HcclResult HcclGetCommName(HcclComm comm, char *commName) {
  API_ENTER();
  HCCL_RETURN(name_of(comm, commName));
}

static hccl_outcome handle_of_name(const char *commName, HcclComm *out) {
  HELD_COMM c = NULL;
  HCCL_NEED(commName);
  if (!out) return HCCL_REFUSE(HCCL_E_PTR, "comm is NULL, expected a pointer");
  if (comm_of_name(commName, &c) != ST_OK) {
    c = NULL;
    return HCCL_REFUSE(HCCL_E_NOT_FOUND, "commName is \"%.*s\", which is no communicator of this device",
                       COMM_NAME_BYTES, commName);
  }
  *out = comm_handle(c);
  return 0;
}

HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm) {
  API_ENTER();
  HCCL_RETURN(handle_of_name(commName, comm));
}

const char *HcclGetErrorString(HcclResult code) {
  API_ENTER();
  static const struct {
    HcclResult code;
    const char *words;
  } strings[] = {
      {HCCL_SUCCESS, "no error"},
      {HCCL_E_PARA, "parameter error"},
      {HCCL_E_PTR, "empty pointer"},
      {HCCL_E_MEMORY, "memory error"},
      {HCCL_E_INTERNAL, "internal error"},
      {HCCL_E_NOT_SUPPORT, "not support feature"},
      {HCCL_E_NOT_FOUND, "not found specific resource"},
      {HCCL_E_UNAVAIL, "resource unavailable"},
      {HCCL_E_SYSCALL, "call system interface error"},
      {HCCL_E_TIMEOUT, "timeout"},
      {HCCL_E_OPEN_FILE_FAILURE, "open file fail"},
      {HCCL_E_TCP_CONNECT, "tcp connect fail"},
      {HCCL_E_ROCE_CONNECT, "roce connect fail"},
      {HCCL_E_TCP_TRANSFER, "tcp transfer fail"},
      {HCCL_E_ROCE_TRANSFER, "roce transfer fail"},
      {HCCL_E_RUNTIME, "call runtime api fail"},
      {HCCL_E_DRV, "call driver api fail"},
      {HCCL_E_PROFILING, "call profiling api fail"},
      {HCCL_E_CCE, "call cce api fail"},
      {HCCL_E_NETWORK, "call network api fail"},
      {HCCL_E_AGAIN, "operation repeat"},
      {HCCL_E_REMOTE, "error of a remote rank"},
      {HCCL_E_SUSPENDING, "communicator is suspended"},
      {HCCL_E_OPRETRY_FAIL, "retry of the operation failed"},
      {HCCL_E_OOM, "out of memory"},
      {HCCL_E_IN_STATUS, "error of the state"},
  };
  for (size_t i = 0; i < sizeof strings / sizeof strings[0]; ++i)
    if (strings[i].code == code) return strings[i].words;
  return "unknown error code";
}

/* ---- the executor of graphs (hccl/hcom.h) ---- */

HcclResult HcomExecInitialize(void) {
  API_ENTER();
  return HCCL_SUCCESS;
}

HcclResult HcomExecFinalize(void) {
  API_ENTER();
  return HCCL_SUCCESS;
}
