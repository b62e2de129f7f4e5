/* SPDX-License-Identifier: Apache-2.0 */
/* HCCL's operations: of all ranks of a communicator, and between two. Each entry point describes its call; the table
 * `operations` says what is checked, and the call goes to the core, or waits for the end of the thread's group. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/hccl/hccl_api.h"
#include "base/log.h"
#include "runtime/context.h"
#include "runtime/python_place.h"

#define MOST_ELEMENTS UINT64_C(0x7FFFFFFFF) /* of one count */

#define TYPE(name)      (UINT32_C(1) << HCCL_DATA_TYPE_##name)
#define OPERATION(name) (1u << HCCL_REDUCE_##name)

/* The types that operations take; the first group is that of all products. */
enum {
  MOVED = TYPE(INT8) | TYPE(INT16) | TYPE(INT32) | TYPE(INT64) | TYPE(UINT8) | TYPE(UINT16) | TYPE(UINT32) |
          TYPE(UINT64) | TYPE(FP16) | TYPE(FP32) | TYPE(FP64) | TYPE(BFP16),
  MOVED_950 = TYPE(HIF8) | TYPE(FP8E4M3) | TYPE(FP8E5M2) | TYPE(FP8E8M0),
  REDUCED = TYPE(INT8) | TYPE(INT16) | TYPE(INT32) | TYPE(INT64) | TYPE(FP16) | TYPE(FP32) | TYPE(BFP16),
  REDUCED_950 = TYPE(UINT64) | TYPE(FP64),
  NOT_MULTIPLIED = TYPE(INT16) | TYPE(BFP16) | TYPE(UINT64) | TYPE(FP64),
};

/* What the arguments of an operation must be. */
typedef enum {
  SENDS = 1,    /* sendBuf must be there */
  RECEIVES = 2, /* recvBuf must be there */
  REDUCES = 4,  /* has a reduction */
  APART = 8,    /* the buffers must differ */
  TO_RANK = 16, /* `root` is a rank */
  P2P = 32,     /* `root` is another rank */
} operation_trait;

static const struct {
  unsigned products; /* that have it */
  unsigned traits;
} operations[COMM_N_KINDS] = {
    [COMM_ALL_REDUCE] = {HCCL_ALL_PRODUCTS, SENDS | RECEIVES | REDUCES},
    [COMM_REDUCE] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, SENDS | RECEIVES | REDUCES | TO_RANK},
    [COMM_REDUCE_SCATTER] = {HCCL_ALL_PRODUCTS, SENDS | RECEIVES | REDUCES},
    [COMM_REDUCE_SCATTER_V] = {HCCL_ALL_PRODUCTS & ~HCCL_910A, SENDS | RECEIVES | REDUCES},
    [COMM_ALL_GATHER] = {HCCL_ALL_PRODUCTS, SENDS | RECEIVES},
    [COMM_ALL_GATHER_V] = {HCCL_ALL_PRODUCTS & ~HCCL_910A, SENDS | RECEIVES},
    [COMM_BROADCAST] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, SENDS | RECEIVES | TO_RANK},
    [COMM_SCATTER] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, SENDS | RECEIVES | TO_RANK},
    [COMM_ALL_TO_ALL] = {HCCL_ALL_PRODUCTS, SENDS | RECEIVES | APART},
    [COMM_ALL_TO_ALL_V] = {HCCL_ALL_PRODUCTS, SENDS | RECEIVES | APART},
    [COMM_ALL_TO_ALL_VC] = {HCCL_FROM_A2, SENDS | RECEIVES | APART},
    [COMM_BARRIER] = {HCCL_ALL_PRODUCTS, 0},
    [COMM_SEND] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, SENDS | P2P},
    [COMM_RECV] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, RECEIVES | P2P},
    [COMM_BATCH_SEND_RECV] = {HCCL_ALL_PRODUCTS & ~HCCL_310P, 0},
};

/* ---- checks ---- */

static uint32_t types_of(const collective_call *call) {
  const bool is_950 = hccl_product_here() == HCCL_950;
  if (!(operations[call->kind].traits & REDUCES)) return is_950 ? MOVED | MOVED_950 : MOVED;
  uint32_t types = is_950 ? REDUCED | REDUCED_950 : REDUCED;
  if (call->reduction == COMM_PROD) types &= ~(uint32_t)NOT_MULTIPLIED;
  if (call->kind == COMM_REDUCE_SCATTER_V && hccl_product_here() == HCCL_A2) types &= ~TYPE(INT64);
  return types;
}

static unsigned reductions_of(comm_kind kind) {
  const unsigned all = OPERATION(SUM) | OPERATION(MAX) | OPERATION(MIN) | OPERATION(PROD);
  return kind == COMM_REDUCE_SCATTER_V && hccl_product_here() != HCCL_950 ? all & ~OPERATION(PROD) : all;
}

static hccl_outcome check_type(comm_dtype type, uint32_t allowed, comm_kind kind) {
  if (likely((unsigned)type < 32 && allowed >> type & 1)) return 0;
  const char *name = (unsigned)type < COMM_N_DTYPES ? comm_dtype_name((int)type) : NULL;
  return HCCL_REFUSE(HCCL_E_NOT_SUPPORT, "dataType is %d%s%s%s, which %s does not take here", (int)type,
                     name ? " (" : "", name ? name : "", name ? ")" : "", comm_kind_name((int)kind));
}

static hccl_outcome check_reduction(const collective_call *call) {
  if (!(operations[call->kind].traits & REDUCES)) return 0;
  if (likely((unsigned)call->reduction < 32 && reductions_of(call->kind) >> call->reduction & 1)) return 0;
  return HCCL_REFUSE(HCCL_E_NOT_SUPPORT, "op is %d, which %s does not take here", (int)call->reduction,
                     comm_kind_name((int)call->kind));
}

static hccl_outcome check_count(uint64_t count, const char *name) {
  if (likely(count <= MOST_ELEMENTS)) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "%s is %ju, expected at most %ju elements", name, (uintmax_t)count,
                     (uintmax_t)MOST_ELEMENTS);
}

static hccl_outcome check_rank(uint32_t rank, uint32_t n, const char *name) {
  if (likely(rank < n)) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "%s is %u, expected 0 to %u", name, rank, n - 1);
}

static bool is_all_zero(const uint64_t *counts, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i)
    if (counts[i]) return false;
  return true;
}

/* Which of the buffers must be there: SENDS, RECEIVES. */
static unsigned buffers_needed(const collective_call *call, const comm *c) {
  const uint32_t n = comm_n_ranks(c);
  unsigned needed = operations[call->kind].traits & (SENDS | RECEIVES);
  if (call->kind == COMM_SCATTER && call->root != comm_rank(c)) needed &= ~(unsigned)SENDS;
  if (call->kind == COMM_ALL_TO_ALL_V || call->kind == COMM_ALL_TO_ALL_VC) {
    if (is_all_zero(call->send_counts, n)) needed &= ~(unsigned)SENDS;
    if (is_all_zero(call->receive_counts, n)) needed &= ~(unsigned)RECEIVES;
  }
  return needed;
}

static hccl_outcome check_buffers(const collective_call *call, const comm *c) {
  const unsigned needed = buffers_needed(call, c);
  const bool one = call->kind == COMM_BROADCAST;
  if (unlikely(needed & SENDS && !call->send))
    return HCCL_REFUSE(HCCL_E_PTR, "%s is NULL, expected a pointer", one ? "buf" : "sendBuf");
  if (unlikely(needed & RECEIVES && !call->receive))
    return HCCL_REFUSE(HCCL_E_PTR, "recvBuf is NULL, expected a pointer");
  if (operations[call->kind].traits & APART && call->send && call->send == call->receive)
    return HCCL_REFUSE(HCCL_E_PARA, "sendBuf and recvBuf are both %p, expected two buffers", call->send);
  return 0;
}

static hccl_outcome check_ranks(const collective_call *call, const comm *c) {
  const unsigned traits = operations[call->kind].traits;
  if (traits & TO_RANK) HCCL_TRY(check_rank(call->root, comm_n_ranks(c), "root"));
  if (!(traits & P2P)) return 0;
  const char *name = call->kind == COMM_SEND ? "destRank" : "srcRank";
  HCCL_TRY(check_rank(call->root, comm_n_ranks(c), name));
  /* In a group, a rank may send to itself what it receives in the same group. */
  if (call->root == comm_rank(c) && comm_n_ranks(c) > 1 && !hccl_group_is_open())
    return HCCL_REFUSE(HCCL_E_PARA, "%s is %u, the caller's own rank, expected another", name, call->root);
  return 0;
}

/* ---- the way of a call ---- */

/* Where a call goes: the communicator, with a reference, and the stream as the program gave them. */
typedef struct {
  HcclComm handle;
  aclrtStream stream;
  comm *comm;
} target;

static void target_drop(target *t) { comm_drop(&t->comm); }
#define TARGET(name, handle, stream) __attribute__((cleanup(target_drop))) target name = {handle, stream, NULL}

static hccl_outcome target_find(target *t, comm_kind kind) {
  HCCL_TRY(hccl_expect_product(comm_kind_name((int)kind), operations[kind].products));
  HCCL_TRY(hccl_comm_of(t->handle, &t->comm));
  if (!t->stream) return HCCL_REFUSE(HCCL_E_PTR, "stream is NULL, expected a stream (HCCL has no default stream)");
  return 0;
}

/* HCCL_ENTRY_LOG_ENABLE=1: a line in the log for each call. */
static bool entry_log_is_on(void) {
  static _Atomic int known; /* 1: off, 2: on */
  int state = atomic_load_explicit(&known, memory_order_relaxed);
  if (unlikely(!state)) {
    const char *text = getenv("HCCL_ENTRY_LOG_ENABLE");
    state = text && !strcmp(text, "1") ? 2 : 1;
    atomic_store_explicit(&known, state, memory_order_relaxed);
  }
  return state == 2;
}

__attribute__((cold)) static void log_entry(const collective_call *call, const target *t) {
  log_line(LOG_INFO,
           "Entry-Hccl%s: comm %s, rank %u, sendBuf %p, recvBuf %p, count %ju, dataType %s, op %s, root %u, "
           "stream %p",
           comm_kind_name((int)call->kind), comm_name(t->comm), comm_rank(t->comm), call->send, call->receive,
           (uintmax_t)call->count, comm_dtype_name((int)call->dtype),
           operations[call->kind].traits & REDUCES ? comm_reduction_name((int)call->reduction) : "-", call->root,
           t->stream);
}

static hccl_outcome run(const collective_call *given, target *t) {
  const collective_call *call = given;
  collective_call placed;
  if (unlikely(python_places_wanted())) {
    placed = *given;
    placed.place = python_place_of_call(t->stream);
    call = &placed;
  }
  if (unlikely(entry_log_is_on())) log_entry(call, t);
  if (operations[call->kind].traits & P2P && comm_n_ranks(t->comm) == 1) return 0;
  if (unlikely(hccl_group_is_open())) {
    if (!(operations[call->kind].traits & P2P))
      return hccl_group_collective(call, t->handle, comm_n_ranks(t->comm), t->stream);
    const collective_transfer transfer = {call->kind == COMM_RECV,
                                          call->kind == COMM_RECV ? call->receive : call->send,
                                          call->count,
                                          call->dtype,
                                          call->root,
                                          call->place};
    return hccl_group_transfer(&transfer, t->handle, call->site, t->stream);
  }
  stream *s;
  HCCL_TRY_CORE(context_stream(t->stream, &s));
  return hccl_outcome_of(collective_submit(t->comm, call, s));
}

static hccl_outcome check_and_run(const collective_call *call, target *t) {
  HCCL_TRY(check_buffers(call, t->comm));
  HCCL_TRY(check_reduction(call));
  HCCL_TRY(check_type(call->dtype, types_of(call), call->kind));
  HCCL_TRY(check_count(call->count, "count"));
  HCCL_TRY(check_ranks(call, t->comm));
  return run(call, t);
}

/* A refused call makes an open group fail as a whole. */
static hccl_outcome finish(hccl_outcome outcome) {
  return unlikely(outcome != 0 && hccl_group_is_open()) ? hccl_group_refuse(outcome) : outcome;
}

static hccl_outcome submit(const collective_call *call, HcclComm handle, aclrtStream s) {
  TARGET(t, handle, s);
  hccl_outcome outcome = target_find(&t, call->kind);
  if (likely(!outcome)) outcome = check_and_run(call, &t);
  return finish(outcome);
}

/* ---- of all ranks ---- */

HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!count) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_ALL_REDUCE,
                                .dtype = (comm_dtype)dataType,
                                .reduction = (comm_reduction)op,
                                .count = count,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!count) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_REDUCE,
                                .dtype = (comm_dtype)dataType,
                                .reduction = (comm_reduction)op,
                                .root = root,
                                .count = count,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!recvCount) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_REDUCE_SCATTER,
                                .dtype = (comm_dtype)dataType,
                                .reduction = (comm_reduction)op,
                                .count = recvCount,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
  API_ENTER();
  if (!sendCount) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_ALL_GATHER,
                                .dtype = (comm_dtype)dataType,
                                .count = sendCount,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  API_ENTER();
  if (!count) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_BROADCAST,
                                .dtype = (comm_dtype)dataType,
                                .root = root,
                                .count = count,
                                .send = buf,
                                .receive = buf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!recvCount) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_SCATTER,
                                .dtype = (comm_dtype)dataType,
                                .root = root,
                                .count = recvCount,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  API_ENTER();
  const collective_call call = {.kind = COMM_BARRIER, .dtype = COMM_INT8, .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

/* A type or count of what is sent, and of what is received. */
static hccl_outcome check_equal(uint64_t sent, uint64_t received, const char *name) {
  if (likely(sent == received)) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "send%s is %ju and recv%s is %ju, expected the same", name, (uintmax_t)sent, name,
                     (uintmax_t)received);
}

HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!sendCount && !recvCount) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_ALL_TO_ALL,
                                .dtype = (comm_dtype)sendType,
                                .count = sendCount,
                                .send = (void *)sendBuf,
                                .receive = (void *)recvBuf,
                                .site = CALLER};
  hccl_outcome outcome = check_equal(sendCount, recvCount, "Count");
  if (!outcome) outcome = check_equal(sendType, recvType, "Type");
  HCCL_RETURN(outcome ? finish(outcome) : submit(&call, comm, stream));
}

/* ---- with a count for each rank ---- */

static hccl_outcome check_array(const uint64_t *array, const char *name) {
  if (likely(array)) return 0;
  return HCCL_REFUSE(HCCL_E_PTR, "%s is NULL, expected an array of counts or displacements in host memory", name);
}

static hccl_outcome check_counts(const uint64_t *counts, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; ++i) HCCL_TRY(check_count(counts[i], name));
  return 0;
}

/* What a rank sends to itself must be what it receives from itself. */
static hccl_outcome check_own(uint64_t own, uint64_t count, const char *array, uint32_t rank, const char *name) {
  if (likely(own == count)) return 0;
  return HCCL_REFUSE(HCCL_E_PARA, "%s[%u] is %ju, expected %s of this rank, %ju", array, rank, (uintmax_t)own, name,
                     (uintmax_t)count);
}

static hccl_outcome reduce_scatter_v(const collective_call *call, HcclComm handle, aclrtStream s) {
  TARGET(t, handle, s);
  HCCL_TRY(target_find(&t, call->kind));
  HCCL_TRY(check_array(call->send_counts, "sendCounts"));
  HCCL_TRY(check_array(call->send_offsets, "sendDispls"));
  HCCL_TRY(check_counts(call->send_counts, comm_n_ranks(t.comm), "sendCounts"));
  const uint32_t rank = comm_rank(t.comm);
  HCCL_TRY(check_own(call->send_counts[rank], call->count, "sendCounts", rank, "recvCount"));
  return check_and_run(call, &t);
}

HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
  API_ENTER();
  const collective_call call = {.kind = COMM_REDUCE_SCATTER_V,
                                .dtype = (comm_dtype)dataType,
                                .reduction = (comm_reduction)op,
                                .count = recvCount,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .send_counts = sendCounts,
                                .send_offsets = sendDispls,
                                .site = CALLER};
  HCCL_RETURN(finish(reduce_scatter_v(&call, comm, stream)));
}

static hccl_outcome all_gather_v(const collective_call *call, HcclComm handle, aclrtStream s) {
  TARGET(t, handle, s);
  HCCL_TRY(target_find(&t, call->kind));
  HCCL_TRY(check_array(call->receive_counts, "recvCounts"));
  HCCL_TRY(check_array(call->receive_offsets, "recvDispls"));
  HCCL_TRY(check_counts(call->receive_counts, comm_n_ranks(t.comm), "recvCounts"));
  const uint32_t rank = comm_rank(t.comm);
  HCCL_TRY(check_own(call->receive_counts[rank], call->count, "recvCounts", rank, "sendCount"));
  return check_and_run(call, &t);
}

HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
                          const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  API_ENTER();
  const collective_call call = {.kind = COMM_ALL_GATHER_V,
                                .dtype = (comm_dtype)dataType,
                                .count = sendCount,
                                .send = sendBuf,
                                .receive = recvBuf,
                                .receive_counts = recvCounts,
                                .receive_offsets = recvDispls,
                                .site = CALLER};
  HCCL_RETURN(finish(all_gather_v(&call, comm, stream)));
}

static hccl_outcome all_to_all_v(const collective_call *call, HcclComm handle, aclrtStream s) {
  TARGET(t, handle, s);
  HCCL_TRY(target_find(&t, call->kind));
  HCCL_TRY(check_array(call->send_counts, "sendCounts"));
  HCCL_TRY(check_array(call->send_offsets, "sdispls"));
  HCCL_TRY(check_array(call->receive_counts, "recvCounts"));
  HCCL_TRY(check_array(call->receive_offsets, "rdispls"));
  const uint32_t n = comm_n_ranks(t.comm), rank = comm_rank(t.comm);
  HCCL_TRY(check_counts(call->send_counts, n, "sendCounts"));
  HCCL_TRY(check_counts(call->receive_counts, n, "recvCounts"));
  HCCL_TRY(check_own(call->receive_counts[rank], call->send_counts[rank], "recvCounts", rank, "sendCounts"));
  return check_and_run(call, &t);
}

HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
                         const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
  API_ENTER();
  const collective_call call = {.kind = COMM_ALL_TO_ALL_V,
                                .dtype = (comm_dtype)sendType,
                                .send = (void *)sendBuf,
                                .receive = (void *)recvBuf,
                                .send_counts = sendCounts,
                                .send_offsets = sdispls,
                                .receive_counts = recvCounts,
                                .receive_offsets = rdispls,
                                .site = CALLER};
  const hccl_outcome outcome = check_equal(sendType, recvType, "Type");
  HCCL_RETURN(finish(outcome ? outcome : all_to_all_v(&call, comm, stream)));
}

/* The caller's row and column of the matrix, with the offsets of parts that follow each other without gaps: four
 * arrays of n elements. */
static void arrays_of_matrix(const uint64_t *matrix, uint32_t n, uint32_t rank, uint64_t *arrays) {
  uint64_t sent = 0, received = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t to = matrix[(size_t)rank * n + i], from = matrix[(size_t)i * n + rank];
    arrays[i] = to;
    arrays[n + i] = sent;
    arrays[2 * (size_t)n + i] = from;
    arrays[3 * (size_t)n + i] = received;
    sent += to;
    received += from;
  }
}

static hccl_outcome all_to_all_vc(const collective_call *given, const uint64_t *matrix, HcclComm handle,
                                  aclrtStream s) {
  TARGET(t, handle, s);
  HCCL_TRY(target_find(&t, given->kind));
  HCCL_TRY(check_array(matrix, "sendCountMatrix"));
  const uint32_t n = comm_n_ranks(t.comm);
  for (uint32_t i = 0; i < n; ++i) HCCL_TRY(check_counts(matrix + (size_t)i * n, n, "sendCountMatrix"));
  uint64_t *arrays = malloc(4 * sizeof *arrays * n);
  if (!arrays) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory for the counts of %u ranks", n));
  arrays_of_matrix(matrix, n, comm_rank(t.comm), arrays);
  collective_call call = *given;
  call.send_counts = arrays;
  call.send_offsets = arrays + n;
  call.receive_counts = arrays + 2 * (size_t)n;
  call.receive_offsets = arrays + 3 * (size_t)n;
  const hccl_outcome outcome = check_and_run(&call, &t);
  free(arrays);
  return outcome;
}

HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  API_ENTER();
  const collective_call call = {.kind = COMM_ALL_TO_ALL_VC,
                                .dtype = (comm_dtype)sendType,
                                .send = (void *)sendBuf,
                                .receive = (void *)recvBuf,
                                .site = CALLER};
  const hccl_outcome outcome = check_equal(sendType, recvType, "Type");
  HCCL_RETURN(finish(outcome ? outcome : all_to_all_vc(&call, sendCountMatrix, comm, stream)));
}

/* ---- between two ranks ---- */

HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  API_ENTER();
  if (!count) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_SEND,
                                .dtype = (comm_dtype)dataType,
                                .root = destRank,
                                .count = count,
                                .send = sendBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
  API_ENTER();
  if (!count) return HCCL_SUCCESS;
  const collective_call call = {.kind = COMM_RECV,
                                .dtype = (comm_dtype)dataType,
                                .root = srcRank,
                                .count = count,
                                .receive = recvBuf,
                                .site = CALLER};
  HCCL_RETURN(submit(&call, comm, stream));
}

static hccl_outcome check_item(const HcclSendRecvItem *item, uint32_t i, uint32_t n) {
  const collective_call moves = {.kind = COMM_BATCH_SEND_RECV};
  if (item->sendRecvType != HCCL_SEND && item->sendRecvType != HCCL_RECV)
    return HCCL_REFUSE(HCCL_E_PARA, "sendRecvInfo[%u].sendRecvType is %d, expected %d (send) or %d (receive)", i,
                       item->sendRecvType, HCCL_SEND, HCCL_RECV);
  if (!item->buf) return HCCL_REFUSE(HCCL_E_PTR, "sendRecvInfo[%u].buf is NULL, expected a pointer", i);
  HCCL_TRY(check_type((comm_dtype)item->dataType, types_of(&moves), COMM_BATCH_SEND_RECV));
  HCCL_TRY(check_count(item->count, "sendRecvInfo[].count"));
  return check_rank(item->remoteRank, n, "sendRecvInfo[].remoteRank");
}

/* Checks the items and makes transfers of those that move something; returns their number. */
static hccl_outcome transfers_of(const HcclSendRecvItem *items, uint32_t n, const comm *c, collective_transfer *out,
                                 uint32_t *n_out) {
  *n_out = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (!items[i].count) continue;
    HCCL_TRY(check_item(&items[i], i, comm_n_ranks(c)));
    out[(*n_out)++] = (collective_transfer){.receives = items[i].sendRecvType == HCCL_RECV,
                                            .buffer = items[i].buf,
                                            .count = items[i].count,
                                            .dtype = (comm_dtype)items[i].dataType,
                                            .peer = items[i].remoteRank};
  }
  return 0;
}

static hccl_outcome batch(const HcclSendRecvItem *items, uint32_t n, void *site, target *t) {
  uint32_t n_transfers;
  collective_transfer *transfers = malloc(sizeof *transfers * n);
  if (!transfers) return hccl_outcome_of(fail(ST_NO_HOST_MEMORY, "no memory for %u items", n));
  hccl_outcome outcome = transfers_of(items, n, t->comm, transfers, &n_transfers);
  if (unlikely(python_places_wanted()) && !outcome && n_transfers) transfers[0].place = python_place_of_call(t->stream);
  stream *s;
  if (!outcome) outcome = hccl_outcome_of(context_stream(t->stream, &s));
  if (!outcome && n_transfers)
    outcome = hccl_outcome_of(collective_submit_batch(t->comm, transfers, n_transfers, site, s));
  free(transfers);
  return outcome;
}

static hccl_outcome batch_send_recv(const HcclSendRecvItem *items, uint32_t n, HcclComm handle, void *site,
                                    aclrtStream s) {
  TARGET(t, handle, s);
  HCCL_TRY(target_find(&t, COMM_BATCH_SEND_RECV));
  if (!items) return HCCL_REFUSE(HCCL_E_PTR, "sendRecvInfo is NULL, expected a pointer");
  if (hccl_group_is_open())
    return HCCL_REFUSE(HCCL_E_NOT_SUPPORT, "a group can't have HcclBatchSendRecv, expected HcclSend and HcclRecv");
  if (entry_log_is_on())
    log_line(LOG_INFO, "Entry-HcclBatchSendRecv: comm %s, rank %u, %u items, stream %p", comm_name(t.comm),
             comm_rank(t.comm), n, s);
  return batch(items, n, site, &t);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
  API_ENTER();
  if (!itemNum) return HCCL_SUCCESS;
  HCCL_RETURN(finish(batch_send_recv(sendRecvInfo, itemNum, comm, CALLER, stream)));
}
