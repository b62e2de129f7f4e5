/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers between two ranks: HcclSend, HcclRecv, HcclBatchSendRecv and groups of them. */
#include "hccl_ranks.h"

enum { SMALL = 33, LARGE = 100003 };

typedef struct {
  uint32_t from, to;
  int round;
} message;

static int said(size_t i, const void *argument) {
  const message *m = argument;
  return (int)((i * 3 + m->from * 29 + m->to * 13 + (size_t)m->round * 7) % 113);
}

/* A buffer of n int32 that holds a message. */
static bool message_new(rank_self *r, const message *m, size_t n, void **out) {
  PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, n, out));
  return buffer_fill(r, HCCL_DATA_TYPE_INT32, *out, 0, n, said, m);
}

static bool message_came(rank_self *r, const message *m, size_t n, void *buffer) {
  PASS(buffer_has(r, HCCL_DATA_TYPE_INT32, buffer, 0, n, said, m));
  return buffer_free(r, HCCL_DATA_TYPE_INT32, buffer, n);
}

/* ---- Send and Recv ---- */

/* Each rank passes a message to the next; rank 0 begins. */
static bool passes_on(rank_self *r) {
  static const size_t counts[] = {1, SMALL, LARGE};
  for (int round = 0; round < 3; ++round) {
    const size_t n = counts[round];
    const message m = {.round = round};
    void *buffer;
    if (r->rank == 0)
      PASS(message_new(r, &m, n, &buffer));
    else
      PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, n, &buffer));
    if (r->rank > 0) OK(HcclRecv(buffer, n, HCCL_DATA_TYPE_INT32, r->rank - 1, r->comm, r->stream));
    if (r->rank + 1 < r->n) OK(HcclSend(buffer, n, HCCL_DATA_TYPE_INT32, r->rank + 1, r->comm, r->stream));
    OK(aclrtSynchronizeStream(r->stream));
    PASS(message_came(r, &m, n, buffer));
  }
  return true;
}

/* The sends of a pair meet its receives in the order of the calls. */
static bool keeps_order(rank_self *r) {
  enum { N = 12 };
  void *buffers[N];
  if (r->n < 2 || r->rank > 1) return true;
  for (int i = 0; i < N; ++i) {
    const message m = {.from = 0, .to = 1, .round = i};
    if (r->rank == 0) {
      PASS(message_new(r, &m, SMALL + (size_t)i, &buffers[i]));
      OK(HcclSend(buffers[i], SMALL + (size_t)i, HCCL_DATA_TYPE_INT32, 1, r->comm, r->stream));
    } else {
      PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, SMALL + (size_t)i, &buffers[i]));
      OK(HcclRecv(buffers[i], SMALL + (size_t)i, HCCL_DATA_TYPE_INT32, 0, r->comm, r->stream));
    }
  }
  OK(aclrtSynchronizeStream(r->stream));
  for (int i = 0; i < N; ++i) {
    const message m = {.from = 0, .to = 1, .round = i};
    PASS(message_came(r, &m, SMALL + (size_t)i, buffers[i]));
  }
  return true;
}

/* ---- several at once ---- */

typedef struct {
  void *out[MOST_RANKS], *in[MOST_RANKS];
} mailbox;

static size_t length(uint32_t from, uint32_t to) { return from * 100 + to * 10 + 1; }

static bool mailbox_up(rank_self *r, mailbox *box) {
  for (uint32_t i = 0; i < r->n; ++i) {
    const message m = {.from = r->rank, .to = i};
    PASS(message_new(r, &m, length(r->rank, i), &box->out[i]));
    PASS(buffer_new(r, HCCL_DATA_TYPE_INT32, length(i, r->rank), &box->in[i]));
  }
  return true;
}

static bool mailbox_down(rank_self *r, mailbox *box, bool with_self) {
  OK(aclrtSynchronizeStream(r->stream));
  for (uint32_t i = 0; i < r->n; ++i) {
    const message sent = {.from = r->rank, .to = i}, came = {.from = i, .to = r->rank};
    PASS(message_came(r, &sent, length(r->rank, i), box->out[i]));
    if (i != r->rank || with_self)
      PASS(message_came(r, &came, length(i, r->rank), box->in[i]));
    else
      PASS(buffer_free(r, HCCL_DATA_TYPE_INT32, box->in[i], length(i, r->rank)));
  }
  return true;
}

/* All ranks first send, then receive: this only ends because the items do not wait for each other. */
static bool batch(rank_self *r) {
  HcclSendRecvItem items[2 * MOST_RANKS];
  mailbox box;
  uint32_t n = 0;
  PASS(mailbox_up(r, &box));
  for (uint32_t i = 0; i < r->n; ++i)
    if (i != r->rank)
      items[n++] = (HcclSendRecvItem){HCCL_SEND, box.out[i], length(r->rank, i), HCCL_DATA_TYPE_INT32, i};
  for (uint32_t i = 0; i < r->n; ++i)
    if (i != r->rank)
      items[n++] = (HcclSendRecvItem){HCCL_RECV, box.in[i], length(i, r->rank), HCCL_DATA_TYPE_INT32, i};
  OK(HcclBatchSendRecv(items, n, r->comm, r->stream));
  memset(items, 0xFF, sizeof items); /* the array is the caller's again */
  return mailbox_down(r, &box, false);
}

/* The items of a batch have types of their own. */
static bool batch_of_types(rank_self *r) {
  static const HcclDataType types[] = {HCCL_DATA_TYPE_INT8, HCCL_DATA_TYPE_FP64, HCCL_DATA_TYPE_BFP16};
  enum { N = sizeof types / sizeof *types };
  const uint32_t next = (r->rank + 1) % r->n, before = (r->rank + r->n - 1) % r->n;
  HcclSendRecvItem items[2 * N];
  void *out[N], *in[N];
  if (r->n < 2) return true;
  for (int i = 0; i < N; ++i) {
    const message m = {.from = r->rank, .to = next, .round = i};
    PASS(buffer_new(r, types[i], SMALL, &out[i]));
    PASS(buffer_new(r, types[i], SMALL, &in[i]));
    PASS(buffer_fill(r, types[i], out[i], 0, SMALL, said, &m));
    items[i] = (HcclSendRecvItem){HCCL_SEND, out[i], SMALL, types[i], next};
    items[N + i] = (HcclSendRecvItem){HCCL_RECV, in[i], SMALL, types[i], before};
  }
  OK(HcclBatchSendRecv(items, 2 * N, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  for (int i = 0; i < N; ++i) {
    const message m = {.from = before, .to = r->rank, .round = i};
    PASS(buffer_has(r, types[i], in[i], 0, SMALL, said, &m));
    PASS(buffer_free(r, types[i], out[i], SMALL) && buffer_free(r, types[i], in[i], SMALL));
  }
  return true;
}

/* The pipelines of PyTorch 2.8 and later begin so: they send an integer to a float, whose value nobody reads. */
static bool batch_of_other_types(rank_self *r) {
  const uint32_t next = (r->rank + 1) % r->n, before = (r->rank + r->n - 1) % r->n;
  void *out, *in;
  if (r->n < 2) return true;
  PASS(buffer_new(r, HCCL_DATA_TYPE_INT64, 1, &out));
  PASS(buffer_new(r, HCCL_DATA_TYPE_FP32, 1, &in));
  HcclSendRecvItem items[] = {{HCCL_SEND, out, 1, HCCL_DATA_TYPE_INT64, next},
                              {HCCL_RECV, in, 1, HCCL_DATA_TYPE_FP32, before}};
  OK(HcclBatchSendRecv(items, 2, r->comm, r->stream));
  OK(aclrtSynchronizeStream(r->stream));
  return buffer_free(r, HCCL_DATA_TYPE_INT64, out, 1) && buffer_free(r, HCCL_DATA_TYPE_FP32, in, 1);
}

/* Each rank sends to all, itself included, and receives from all, in one group. */
static bool grouped(rank_self *r) {
  mailbox box;
  bool open = true;
  PASS(mailbox_up(r, &box));
  OK(HcclGroupStart());
  for (uint32_t i = 0; i < r->n; ++i)
    OK(HcclSend(box.out[i], length(r->rank, i), HCCL_DATA_TYPE_INT32, i, r->comm, r->stream));
  for (uint32_t i = 0; i < r->n; ++i)
    OK(HcclRecv(box.in[i], length(i, r->rank), HCCL_DATA_TYPE_INT32, i, r->comm, r->stream));
  OK(HcclGroupEnd());
  OK(HcclGroupStatusGet(&open));
  WANT(false, open);
  return mailbox_down(r, &box, r->n > 1);
}

/* ---- tests ---- */

static bool everything(rank_self *r) {
  return passes_on(r) && keeps_order(r) && batch(r) && batch_of_types(r) && batch_of_other_types(r) && grouped(r);
}

SCENARIOS(everything)

static void by_threads(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 4; ++n) ranks_as_threads(n, everything);
  ranks_as_threads(8, everything);
}

static void by_processes(void **state) {
  (void)state;
  ranks_as_processes(2, everything);
  ranks_as_processes(4, everything);
}

int main(int argc, char **argv) {
  RANK_MAIN(argc, argv);
  const struct CMUnitTest tests[] = {TEST(by_threads), TEST(by_processes)};
  return cmocka_run_group_tests_name("hccl_p2p", tests, acl_up, acl_down);
}
