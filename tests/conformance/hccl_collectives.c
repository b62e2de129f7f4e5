/* SPDX-License-Identifier: Apache-2.0 */
/* The results of collective operations: types, reductions, counts, roots, in place, one rank and several, by threads
 * and by processes. */
#include "hccl_ranks.h"

static const HcclDataType moved_types[] = {HCCL_DATA_TYPE_INT8,   HCCL_DATA_TYPE_INT16,  HCCL_DATA_TYPE_INT32,
                                           HCCL_DATA_TYPE_INT64,  HCCL_DATA_TYPE_UINT8,  HCCL_DATA_TYPE_UINT16,
                                           HCCL_DATA_TYPE_UINT32, HCCL_DATA_TYPE_UINT64, HCCL_DATA_TYPE_FP16,
                                           HCCL_DATA_TYPE_FP32,   HCCL_DATA_TYPE_FP64,   HCCL_DATA_TYPE_BFP16};
static const HcclDataType reduced_types[] = {HCCL_DATA_TYPE_INT8,  HCCL_DATA_TYPE_INT16, HCCL_DATA_TYPE_INT32,
                                             HCCL_DATA_TYPE_INT64, HCCL_DATA_TYPE_FP16,  HCCL_DATA_TYPE_FP32,
                                             HCCL_DATA_TYPE_BFP16};
#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof *(array); ++i)

/* ---- values ---- */

/* Element i of what rank `from` brings. With n ranks, a reduction has one element of each; an operation that moves
 * parts has the element i of the part for rank `to`. */
typedef struct {
  uint32_t n, from, to;
  HcclReduceOp op;
} value_of;

/* Few ranks have a 2, so that products stay small. */
static int brought(size_t i, const void *argument) {
  const value_of *v = argument;
  const size_t mixed = i * 3 + v->from * 7;
  return v->op == HCCL_REDUCE_PROD ? (mixed % 4 == 0 ? 2 : 1) : (int)(mixed % 7) - 3;
}

static int reduced(size_t i, const void *argument) {
  value_of v = *(const value_of *)argument;
  int all = 0;
  for (v.from = 0; v.from < v.n; ++v.from) {
    const int one = brought(i, &v);
    if (v.from == 0)
      all = one;
    else if (v.op == HCCL_REDUCE_SUM)
      all += one;
    else if (v.op == HCCL_REDUCE_PROD)
      all *= one;
    else if (v.op == HCCL_REDUCE_MAX)
      all = one > all ? one : all;
    else
      all = one < all ? one : all;
  }
  return all;
}

static int moved(size_t i, const void *argument) {
  const value_of *v = argument;
  return (int)((i * 5 + v->from * 31 + v->to * 17) % 101);
}

/* ---- AllReduce and Reduce ---- */

static bool all_reduce(rank_self *r, HcclDataType type, HcclReduceOp op, size_t count, bool in_place) {
  const value_of v = {.n = r->n, .from = r->rank, .op = op};
  void *send, *receive;
  PASS(buffer_new(r, type, count, &send));
  PASS(buffer_new(r, type, count, &receive));
  PASS(buffer_fill(r, type, send, 0, count, brought, &v));
  void *const to = in_place ? send : receive;
  OK(HcclAllReduce(send, to, count, type, op, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, type, to, 0, count, reduced, &v));
  if (!in_place) PASS(buffer_has(r, type, send, 0, count, brought, &v));
  return buffer_free(r, type, send, count) && buffer_free(r, type, receive, count);
}

static bool is_multiplied(HcclDataType type) { return type != HCCL_DATA_TYPE_INT16 && type != HCCL_DATA_TYPE_BFP16; }

static bool all_reduces(rank_self *r) {
  for
    EACH(i, reduced_types)
  for (HcclReduceOp op = HCCL_REDUCE_SUM; op <= HCCL_REDUCE_MIN; ++op)
    if (op != HCCL_REDUCE_PROD || is_multiplied(reduced_types[i]))
      PASS(all_reduce(r, reduced_types[i], op, 33 + i, i % 2));
  static const size_t counts[] = {1, 2, 255, 4097, 70001};
  for
    EACH(i, counts) {
      PASS(all_reduce(r, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, counts[i], true));
      PASS(all_reduce(r, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, counts[i], false));
      PASS(all_reduce(r, HCCL_DATA_TYPE_FP16, HCCL_REDUCE_MAX, counts[i], false));
    }
  return true;
}

static bool reduce(rank_self *r, HcclDataType type, HcclReduceOp op, size_t count, uint32_t root) {
  const value_of v = {.n = r->n, .from = r->rank, .op = op};
  void *send, *receive;
  PASS(buffer_new(r, type, count, &send));
  PASS(buffer_new(r, type, count, &receive));
  PASS(buffer_fill(r, type, send, 0, count, brought, &v));
  OK(HcclReduce(send, receive, count, type, op, root, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, type, send, 0, count, brought, &v));
  if (r->rank == root) PASS(buffer_has(r, type, receive, 0, count, reduced, &v));
  return buffer_free(r, type, send, count) && buffer_free(r, type, receive, count);
}

static bool reduces(rank_self *r) {
  for (uint32_t root = 0; root < r->n; ++root)
    for
      EACH(i, reduced_types)
  PASS(reduce(r, reduced_types[i], i % 2 ? HCCL_REDUCE_MIN : HCCL_REDUCE_SUM, 19 + 100 * i, root));
  return true;
}

/* ---- ReduceScatter ---- */

/* reduced() from an element on. */
typedef struct {
  value_of of;
  size_t first;
} value_from;
static int reduced_from(size_t i, const void *argument) {
  const value_from *v = argument;
  return reduced(v->first + i, &v->of);
}

static bool reduce_scatter(rank_self *r, HcclDataType type, HcclReduceOp op, size_t count) {
  const value_from v = {{.n = r->n, .from = r->rank, .op = op}, r->rank * count};
  void *send, *receive;
  PASS(buffer_new(r, type, count * r->n, &send));
  PASS(buffer_new(r, type, count, &receive));
  PASS(buffer_fill(r, type, send, 0, count * r->n, brought, &v.of));
  OK(HcclReduceScatter(send, receive, count, type, op, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, type, receive, 0, count, reduced_from, &v));
  return buffer_free(r, type, send, count * r->n) && buffer_free(r, type, receive, count);
}

static bool reduce_scatters(rank_self *r) {
  for
    EACH(i, reduced_types) PASS(reduce_scatter(r, reduced_types[i], HCCL_REDUCE_SUM, 7 + 50 * i));
  PASS(reduce_scatter(r, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_PROD, 1));
  PASS(reduce_scatter(r, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, 20011));
  return true;
}

/* Rank i gets 3 * i + 1 elements; there are gaps of 2 elements. */
static size_t part_count(uint32_t rank) { return 3 * rank + 1; }
static size_t part_offset(uint32_t rank) {
  size_t offset = 0;
  for (uint32_t i = 0; i < rank; ++i) offset += part_count(i) + 2;
  return offset;
}
static void parts(uint32_t n, uint64_t *counts, uint64_t *offsets) {
  for (uint32_t i = 0; i < n; ++i) {
    counts[i] = part_count(i);
    offsets[i] = part_offset(i);
  }
}

static bool reduce_scatter_v(rank_self *r) {
  const size_t total = part_offset(r->n), own = part_count(r->rank);
  const value_from v = {{.n = r->n, .from = r->rank, .op = HCCL_REDUCE_SUM}, part_offset(r->rank)};
  uint64_t counts[MOST_RANKS], offsets[MOST_RANKS];
  void *send, *receive;
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, total, &send));
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, own, &receive));
  PASS(buffer_fill(r, HCCL_DATA_TYPE_FP32, send, 0, total, brought, &v.of));
  parts(r->n, counts, offsets);
  OK(HcclReduceScatterV(send, counts, offsets, receive, own, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r->comm, r->stream));
  memset(counts, 0xFF, sizeof counts); /* the arrays are the caller's again */
  memset(offsets, 0xFF, sizeof offsets);
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, HCCL_DATA_TYPE_FP32, receive, 0, own, reduced_from, &v));
  return buffer_free(r, HCCL_DATA_TYPE_FP32, send, total) && buffer_free(r, HCCL_DATA_TYPE_FP32, receive, own);
}

/* ---- AllGather ---- */

static bool has_parts(rank_self *r, HcclDataType type, const void *buffer, size_t count) {
  for (uint32_t from = 0; from < r->n; ++from) {
    const value_of v = {.n = r->n, .from = from};
    PASS(buffer_has(r, type, buffer, from * count, count, moved, &v));
  }
  return true;
}

static bool all_gather(rank_self *r, HcclDataType type, size_t count, bool in_place) {
  const value_of v = {.n = r->n, .from = r->rank};
  const size_t first = r->rank * count;
  void *send, *receive;
  PASS(buffer_new(r, type, count, &send));
  PASS(buffer_new(r, type, count * r->n, &receive));
  PASS(buffer_fill(r, type, in_place ? receive : send, in_place ? first : 0, count, moved, &v));
  OK(HcclAllGather(in_place ? (char *)receive + first * type_bytes(type) : send, receive, count, type, r->comm,
                   r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(has_parts(r, type, receive, count));
  return buffer_free(r, type, send, count) && buffer_free(r, type, receive, count * r->n);
}

static bool all_gathers(rank_self *r) {
  for
    EACH(i, moved_types) PASS(all_gather(r, moved_types[i], 5 + 11 * i, i % 2));
  PASS(all_gather(r, HCCL_DATA_TYPE_INT8, 1, false));
  PASS(all_gather(r, HCCL_DATA_TYPE_FP32, 30011, true)); /* FSDP2 gathers into its own part */
  return true;
}

static bool all_gather_v(rank_self *r) {
  const size_t total = part_offset(r->n), own = part_count(r->rank);
  const value_of v = {.n = r->n, .from = r->rank};
  uint64_t counts[MOST_RANKS], offsets[MOST_RANKS];
  void *send, *receive;
  PASS(buffer_new(r, HCCL_DATA_TYPE_INT16, own, &send));
  PASS(buffer_new(r, HCCL_DATA_TYPE_INT16, total, &receive));
  PASS(buffer_fill(r, HCCL_DATA_TYPE_INT16, send, 0, own, moved, &v));
  parts(r->n, counts, offsets);
  OK(HcclAllGatherV(send, own, receive, counts, offsets, HCCL_DATA_TYPE_INT16, r->comm, r->stream));
  memset(counts, 0xFF, sizeof counts);
  memset(offsets, 0xFF, sizeof offsets);
  OK(aclrtSynchronizeStream(r->stream));
  for (uint32_t from = 0; from < r->n; ++from) {
    const value_of part = {.n = r->n, .from = from};
    PASS(buffer_has(r, HCCL_DATA_TYPE_INT16, receive, part_offset(from), part_count(from), moved, &part));
    PASS(buffer_has(r, HCCL_DATA_TYPE_INT8, receive, 2 * (part_offset(from) + part_count(from)), 4, guard_value, NULL));
  }
  return buffer_free(r, HCCL_DATA_TYPE_INT16, send, own) && buffer_free(r, HCCL_DATA_TYPE_INT16, receive, total);
}

/* ---- Broadcast and Scatter ---- */

static bool broadcast(rank_self *r, HcclDataType type, size_t count, uint32_t root) {
  const value_of own = {.n = r->n, .from = r->rank}, v = {.n = r->n, .from = root};
  void *buffer;
  PASS(buffer_new(r, type, count, &buffer));
  PASS(buffer_fill(r, type, buffer, 0, count, moved, &own));
  OK(HcclBroadcast(buffer, count, type, root, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, type, buffer, 0, count, moved, &v));
  return buffer_free(r, type, buffer, count);
}

static bool broadcasts(rank_self *r) {
  for
    EACH(i, moved_types) PASS(broadcast(r, moved_types[i], 1 + 77 * i, (uint32_t)i % r->n));
  return broadcast(r, HCCL_DATA_TYPE_FP32, 50021, r->n - 1);
}

static bool scatter(rank_self *r, HcclDataType type, size_t count, uint32_t root) {
  const value_of v = {.n = r->n, .from = root, .to = r->rank};
  const bool is_root = r->rank == root;
  void *send = NULL, *receive;
  PASS(buffer_new(r, type, count, &receive));
  if (is_root) PASS(buffer_new(r, type, count * r->n, &send));
  for (uint32_t to = 0; is_root && to < r->n; ++to) {
    const value_of part = {.n = r->n, .from = root, .to = to};
    PASS(buffer_fill(r, type, send, to * count, count, moved, &part));
  }
  OK(HcclScatter(send, receive, count, type, root, r->comm, r->stream)); /* the others have no sendBuf */
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, type, receive, 0, count, moved, &v));
  return (!is_root || buffer_free(r, type, send, count * r->n)) && buffer_free(r, type, receive, count);
}

static bool scatters(rank_self *r) {
  for
    EACH(i, moved_types) PASS(scatter(r, moved_types[i], 3 + 31 * i, (uint32_t)i % r->n));
  return true;
}

/* ---- AlltoAll ---- */

static bool all_to_all(rank_self *r, HcclDataType type, size_t count) {
  void *send, *receive;
  PASS(buffer_new(r, type, count * r->n, &send));
  PASS(buffer_new(r, type, count * r->n, &receive));
  for (uint32_t to = 0; to < r->n; ++to) {
    const value_of v = {.n = r->n, .from = r->rank, .to = to};
    PASS(buffer_fill(r, type, send, to * count, count, moved, &v));
  }
  OK(HcclAlltoAll(send, count, type, receive, count, type, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  for (uint32_t from = 0; from < r->n; ++from) {
    const value_of v = {.n = r->n, .from = from, .to = r->rank};
    PASS(buffer_has(r, type, receive, from * count, count, moved, &v));
  }
  return buffer_free(r, type, send, count * r->n) && buffer_free(r, type, receive, count * r->n);
}

static bool all_to_alls(rank_self *r) {
  for
    EACH(i, moved_types) PASS(all_to_all(r, moved_types[i], 1 + 13 * i));
  return all_to_all(r, HCCL_DATA_TYPE_FP32, 10007);
}

/* Rank `from` sends this many elements to rank `to`; some parts are empty. */
static uint64_t exchanged(uint32_t from, uint32_t to) { return (from * 3 + to * 5) % 4 * 9; }

/* Parts lie behind each other, with `gap` elements between them. */
static uint64_t exchange_arrays(uint32_t n, uint32_t rank, bool sends, uint64_t gap, uint64_t *counts,
                                uint64_t *offsets) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < n; ++i) {
    counts[i] = sends ? exchanged(rank, i) : exchanged(i, rank);
    offsets[i] = total;
    total += counts[i] + gap;
  }
  return total;
}

/* Buffers with what this rank sends, and room for what it receives. */
typedef struct {
  uint64_t sent[MOST_RANKS], sent_at[MOST_RANKS], received[MOST_RANKS], received_at[MOST_RANKS];
  uint64_t n_send, n_receive;
  void *send, *receive;
} exchange_buffers;

static bool exchange_up(rank_self *r, uint64_t gap, exchange_buffers *x) {
  x->n_send = exchange_arrays(r->n, r->rank, true, gap, x->sent, x->sent_at);
  x->n_receive = exchange_arrays(r->n, r->rank, false, gap, x->received, x->received_at);
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, x->n_send, &x->send));
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, x->n_receive, &x->receive));
  for (uint32_t to = 0; to < r->n; ++to) {
    const value_of v = {.n = r->n, .from = r->rank, .to = to};
    PASS(buffer_fill(r, HCCL_DATA_TYPE_FP32, x->send, x->sent_at[to], x->sent[to], moved, &v));
  }
  return true;
}

static bool exchange_down(rank_self *r, exchange_buffers *x) {
  for (uint32_t from = 0; from < r->n; ++from) {
    const value_of v = {.n = r->n, .from = from, .to = r->rank};
    PASS(buffer_has(r, HCCL_DATA_TYPE_FP32, x->receive, x->received_at[from], x->received[from], moved, &v));
  }
  return buffer_free(r, HCCL_DATA_TYPE_FP32, x->send, x->n_send) &&
         buffer_free(r, HCCL_DATA_TYPE_FP32, x->receive, x->n_receive);
}

static bool all_to_all_v(rank_self *r) {
  exchange_buffers x;
  PASS(exchange_up(r, 2, &x));
  exchange_buffers given = x;
  OK(HcclAlltoAllV(x.send, given.sent, given.sent_at, HCCL_DATA_TYPE_FP32, x.receive, given.received, given.received_at,
                   HCCL_DATA_TYPE_FP32, r->comm, r->stream));
  memset(&given, 0xFF, sizeof given);
  OK(aclrtSynchronizeStream(r->stream));
  return exchange_down(r, &x);
}

static bool all_to_all_vc(rank_self *r) {
  exchange_buffers x;
  uint64_t matrix[MOST_RANKS * MOST_RANKS];
  for (uint32_t from = 0; from < r->n; ++from)
    for (uint32_t to = 0; to < r->n; ++to) matrix[from * r->n + to] = exchanged(from, to);
  PASS(exchange_up(r, 0, &x));
  OK(HcclAlltoAllVC(x.send, matrix, HCCL_DATA_TYPE_FP32, x.receive, HCCL_DATA_TYPE_FP32, r->comm, r->stream));
  memset(matrix, 0xFF, sizeof matrix);
  OK(aclrtSynchronizeStream(r->stream));
  return exchange_down(r, &x);
}

/* Only rank 0 sends, to the last; who neither sends nor receives has no buffers. */
static bool all_to_all_v_without_buffers(rank_self *r) {
  enum { N = 10 };
  const uint32_t last = r->n - 1;
  const value_of v = {.n = r->n, .from = 0, .to = last};
  uint64_t sent[MOST_RANKS] = {0}, received[MOST_RANKS] = {0}, offsets[MOST_RANKS] = {0};
  void *send = NULL, *receive = NULL;
  if (r->rank == 0) {
    sent[last] = N;
    PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, N, &send));
    PASS(buffer_fill(r, HCCL_DATA_TYPE_INT32, send, 0, N, moved, &v));
  }
  if (r->rank == last) {
    received[0] = N;
    PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, N, &receive));
  }
  OK(HcclAlltoAllV(send, sent, offsets, HCCL_DATA_TYPE_INT32, receive, received, offsets, HCCL_DATA_TYPE_INT32, r->comm,
                   r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  if (receive) PASS(buffer_has(r, HCCL_DATA_TYPE_INT32, receive, 0, N, moved, &v));
  return (!send || buffer_free(r, HCCL_DATA_TYPE_INT32, send, N)) &&
         (!receive || buffer_free(r, HCCL_DATA_TYPE_INT32, receive, N));
}

static bool exchanges(rank_self *r) {
  return all_to_alls(r) && all_to_all_v(r) && all_to_all_vc(r) && all_to_all_v_without_buffers(r);
}

/* ---- order ---- */

/* Operations of one communicator follow each other, and what else is in the stream, without the host waiting. */
static bool queued_in_order(rank_self *r) {
  enum { N = 100, ROUNDS = 20 };
  const size_t bytes = N * sizeof(int32_t);
  void *mine, *all;
  int32_t got[N * MOST_RANKS];
  OK(aclrtMalloc(&mine, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&all, bytes * r->n, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(mine, bytes, 0, bytes));
  OK(aclrtMemsetAsync(mine, bytes, 1, bytes, r->stream)); /* each element is 0x01010101 */
  for (int i = 0; i < ROUNDS; ++i) {
    OK(HcclAllReduce(mine, mine, N, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, r->comm, r->stream));
    if (r->rank == 0) OK(aclrtMemsetAsync(mine, bytes, i, bytes, r->stream));
    OK(HcclBroadcast(mine, N, HCCL_DATA_TYPE_INT32, 0, r->comm, r->stream));
    OK(HcclBarrier(r->comm, r->stream));
  }
  OK(HcclAllGather(mine, all, N, HCCL_DATA_TYPE_INT32, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtMemcpy(got, sizeof got, all, bytes * r->n, ACL_MEMCPY_DEVICE_TO_HOST));
  for (uint32_t i = 0; i < N * r->n; ++i) WANT(0x01010101 * (ROUNDS - 1), got[i]);
  OK(aclrtFree(mine));
  OK(aclrtFree(all));
  return true;
}

/* Operations in a group are executed at its end; their arrays are the caller's as soon as the call returns. */
static bool grouped(rank_self *r) {
  enum { N = 50 };
  const value_of sum = {.n = r->n, .from = r->rank, .op = HCCL_REDUCE_SUM};
  exchange_buffers x;
  void *buffer;
  PASS(exchange_up(r, 1, &x));
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, N, &buffer));
  PASS(buffer_fill(r, HCCL_DATA_TYPE_FP32, buffer, 0, N, brought, &sum));
  exchange_buffers given = x;
  OK(HcclGroupStart());
  OK(HcclGroupStart()); /* nested */
  OK(HcclAllReduce(buffer, buffer, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r->comm, r->stream));
  OK(HcclGroupEnd());
  OK(HcclAlltoAllV(x.send, given.sent, given.sent_at, HCCL_DATA_TYPE_FP32, x.receive, given.received, given.received_at,
                   HCCL_DATA_TYPE_FP32, r->comm, r->stream));
  memset(&given, 0xFF, sizeof given);
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, HCCL_DATA_TYPE_FP32, buffer, 0, N, brought, &sum)); /* not yet */
  OK(HcclGroupEnd());
  OK(aclrtSynchronizeStream(r->stream));
  PASS(buffer_has(r, HCCL_DATA_TYPE_FP32, buffer, 0, N, reduced, &sum));
  return exchange_down(r, &x) && buffer_free(r, HCCL_DATA_TYPE_FP32, buffer, N);
}

/* A captured operation runs each time that its graph is executed. */
static bool captured(rank_self *r) {
  enum { N = 1000, RUNS = 5 };
  float got[N], want = 1;
  aclmdlRI graph;
  void *buffer;
  OK(aclrtMalloc(&buffer, sizeof got, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < N; ++i) got[i] = want;
  OK(aclrtMemcpy(buffer, sizeof got, got, sizeof got, ACL_MEMCPY_HOST_TO_DEVICE));
  /* The first call of a kind may connect the ranks, which a capture can't. */
  OK(HcclAllReduce(buffer, buffer, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclmdlRICaptureBegin(r->stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
  OK(HcclAllReduce(buffer, buffer, N, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, r->comm, r->stream));
  OK(aclmdlRICaptureEnd(r->stream, &graph));
  for (int i = 0; i < RUNS; ++i, want *= (float)r->n) OK(aclmdlRIExecuteAsync(graph, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  OK(aclrtMemcpy(got, sizeof got, buffer, sizeof got, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int i = 0; i < N; ++i) TRUE_THAT(got[i] == want);
  OK(aclmdlRIDestroy(graph));
  OK(aclrtFree(buffer));
  return true;
}

/* ---- tests ---- */

static bool everything(rank_self *r) {
  return all_reduces(r) && reduces(r) && reduce_scatters(r) && reduce_scatter_v(r) && all_gathers(r) &&
         all_gather_v(r) && broadcasts(r) && scatters(r) && exchanges(r) && queued_in_order(r) && grouped(r);
}

static bool everything_in_reserved_memory(rank_self *r) { return in_reserved_memory(r, everything); }

SCENARIOS(everything, captured, everything_in_reserved_memory)

/* A test for each scenario: by threads on several numbers of ranks. */
#define BY_THREADS(scenario)                                                                                           \
  static void by_threads_##scenario(void **state) {                                                                    \
    (void)state;                                                                                                       \
    static const uint32_t numbers[] = {1, 2, 3, 8};                                                                    \
    for                                                                                                                \
      EACH(i, numbers) ranks_as_threads(numbers[i], scenario);                                                         \
  }

BY_THREADS(all_reduces)
BY_THREADS(reduces)
BY_THREADS(reduce_scatters)
BY_THREADS(reduce_scatter_v)
BY_THREADS(all_gathers)
BY_THREADS(all_gather_v)
BY_THREADS(broadcasts)
BY_THREADS(scatters)
BY_THREADS(exchanges)
BY_THREADS(queued_in_order)
BY_THREADS(grouped)
BY_THREADS(captured)

static void processes_of_two_ranks(void **state) {
  (void)state;
  ranks_as_processes(2, everything);
}

static void processes_of_five_ranks(void **state) {
  (void)state;
  ranks_as_processes(5, everything);
}

static void processes_with_reserved_memory(void **state) {
  (void)state;
  ranks_as_processes(2, everything_in_reserved_memory);
  ranks_as_processes(3, everything_in_reserved_memory);
}

static void processes_capture(void **state) {
  (void)state;
  ranks_as_processes(2, captured);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {
      TEST(by_threads_all_reduces),         TEST(by_threads_reduces),      TEST(by_threads_reduce_scatters),
      TEST(by_threads_reduce_scatter_v),    TEST(by_threads_all_gathers),  TEST(by_threads_all_gather_v),
      TEST(by_threads_broadcasts),          TEST(by_threads_scatters),     TEST(by_threads_exchanges),
      TEST(by_threads_queued_in_order),     TEST(by_threads_grouped),      TEST(by_threads_captured),
      TEST(processes_of_two_ranks),         TEST(processes_of_five_ranks), TEST(processes_capture),
      TEST(processes_with_reserved_memory),
  };
  return cmocka_run_group_tests_name("hccl_collectives", tests, acl_up, acl_down);
}
