/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a communicator whose ranks are on several hosts; run by test_hosts.py:
 *
 *   hosts_ranks N RANK DEVICE FOLDER MODE
 *
 * The root information travels through a file in FOLDER, which all hosts see. MODE:
 *   check    calls all collectives, checks the results, and prints a number of the bits of a float AllReduce
 *   lose     calls AllReduce until it fails, and prints the message; rank 0 makes a file `calling` after the first
 * The exit status is 0 where everything was as expected; otherwise a line says what was not. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

enum { MOST_RANKS = 8, MOST_BYTES = 1 << 22, MOST_SECONDS = 100 };

static uint32_t n_ranks, own;
static HcclComm comm;
static aclrtStream stream;
static void *device_in, *device_out;
static int32_t *in, *out;
static float *floats;

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    const long code_ = (long)(call);                                                                                   \
    if (code_ != 0) {                                                                                                  \
      const char *words_ = aclGetRecentErrMsg();                                                                       \
      printf("rank %u, line %d: %s is %ld: %s\n", own, __LINE__, #call, code_, words_ ? words_ : "(no message)");      \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static void nap_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- the root information ---- */

static const char *path_of(const char *folder, const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void give_info(const char *folder, const HcclRootInfo *info) {
  char unfinished[4096];
  snprintf(unfinished, sizeof unfinished, "%s", path_of(folder, "info.part"));
  FILE *f = fopen(unfinished, "w");
  if (!f || fwrite(info, sizeof *info, 1, f) != 1 || fclose(f) || rename(unfinished, path_of(folder, "info"))) exit(2);
}

static void take_info(const char *folder, HcclRootInfo *info) {
  FILE *f;
  while (!(f = fopen(path_of(folder, "info"), "r"))) nap_ms(5);
  if (fread(info, sizeof *info, 1, f) != 1) exit(2);
  fclose(f);
}

/* ---- the collectives, of whole numbers ---- */

/* Element i of what rank `from` has for rank `to`. */
static int32_t value(uint32_t from, uint32_t to, size_t i) { return (int32_t)(i * 7 + from * 1000 + to * 100000); }

static void put(size_t n_parts, size_t count) {
  for (size_t p = 0; p < n_parts; ++p)
    for (size_t i = 0; i < count; ++i) in[p * count + i] = value(own, (uint32_t)p, i);
  OK(aclrtMemcpy(device_in, MOST_BYTES, in, n_parts * count * sizeof *in, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemset(device_out, MOST_BYTES, 0x5A, MOST_BYTES));
}

static void get(void) {
  OK(aclrtSynchronizeStream(stream));
  OK(aclrtMemcpy(out, MOST_BYTES, device_out, MOST_BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void expect(const char *call, size_t count, size_t i, int32_t got, int32_t want) {
  if (got == want) return;
  printf("rank %u: %s of %zu: element %zu is %d, expected %d\n", own, call, count, i, got, want);
  exit(1);
}

static int32_t sum_for(uint32_t to, size_t i) {
  int32_t sum = 0;
  for (uint32_t r = 0; r < n_ranks; ++r) sum += value(r, to, i);
  return sum;
}

static void check_reductions(size_t count) {
  put(1, count);
  OK(HcclAllReduce(device_in, device_out, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
  get();
  for (size_t i = 0; i < count; ++i) expect("AllReduce", count, i, out[i], sum_for(0, i));
  put(n_ranks, count);
  OK(HcclReduceScatter(device_in, device_out, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
  get();
  for (size_t i = 0; i < count; ++i) expect("ReduceScatter", count, i, out[i], sum_for(own, i));
  for (uint32_t root = 0; root < n_ranks; ++root) {
    put(1, count);
    OK(HcclReduce(device_in, device_out, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, root, comm, stream));
    get();
    for (size_t i = 0; own == root && i < count; ++i) expect("Reduce", count, i, out[i], sum_for(0, i));
  }
}

static void check_moves(size_t count) {
  put(1, count);
  OK(HcclAllGather(device_in, device_out, count, HCCL_DATA_TYPE_INT32, comm, stream));
  get();
  for (size_t i = 0; i < n_ranks * count; ++i)
    expect("AllGather", count, i, out[i], value((uint32_t)(i / count), 0, i % count));
  put(n_ranks, count);
  OK(HcclAlltoAll(device_in, count, HCCL_DATA_TYPE_INT32, device_out, count, HCCL_DATA_TYPE_INT32, comm, stream));
  get();
  for (size_t i = 0; i < n_ranks * count; ++i)
    expect("AlltoAll", count, i, out[i], value((uint32_t)(i / count), own, i % count));
  for (uint32_t root = 0; root < n_ranks; ++root) {
    put(n_ranks, count);
    OK(HcclScatter(device_in, device_out, count, HCCL_DATA_TYPE_INT32, root, comm, stream));
    get();
    for (size_t i = 0; i < count; ++i) expect("Scatter", count, i, out[i], value(root, own, i));
    put(1, count);
    OK(aclrtMemcpy(device_out, MOST_BYTES, in, count * sizeof *in, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(HcclBroadcast(device_out, count, HCCL_DATA_TYPE_INT32, root, comm, stream));
    get();
    for (size_t i = 0; i < count; ++i) expect("Broadcast", count, i, out[i], value(root, 0, i));
  }
}

/* Rank r sends count + r + to elements to rank `to`; in the other V forms each rank has count + r. */
static void check_v_forms(size_t count) {
  uint64_t sent[MOST_RANKS], at[MOST_RANKS], received[MOST_RANKS], to[MOST_RANKS], own_counts[MOST_RANKS];
  const size_t room = count + 2 * MOST_RANKS;
  for (uint32_t r = 0; r < n_ranks; ++r) {
    sent[r] = received[r] = count ? count + own + r : r == own;
    own_counts[r] = count + r;
    at[r] = to[r] = r * room;
  }
  put(n_ranks, room);
  OK(HcclAlltoAllV(device_in, sent, at, HCCL_DATA_TYPE_INT32, device_out, received, to, HCCL_DATA_TYPE_INT32, comm,
                   stream));
  get();
  for (uint32_t r = 0; r < n_ranks; ++r)
    for (size_t i = 0; i < received[r]; ++i) expect("AlltoAllV", count, i, out[to[r] + i], value(r, own, i));
  put(1, room);
  OK(HcclAllGatherV(device_in, own_counts[own], device_out, own_counts, to, HCCL_DATA_TYPE_INT32, comm, stream));
  get();
  for (uint32_t r = 0; r < n_ranks; ++r)
    for (size_t i = 0; i < own_counts[r]; ++i) expect("AllGatherV", count, i, out[to[r] + i], value(r, 0, i));
  put(n_ranks, room);
  OK(HcclReduceScatterV(device_in, own_counts, at, device_out, own_counts[own], HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM,
                        comm, stream));
  get();
  for (size_t i = 0; i < own_counts[own]; ++i) expect("ReduceScatterV", count, i, out[i], sum_for(own, i));
}

/* Around a ring: Send and Recv in pairs, then a batch. */
static void check_transfers(size_t count) {
  const uint32_t next = (own + 1) % n_ranks, previous = (own + n_ranks - 1) % n_ranks;
  HcclSendRecvItem items[2] = {{HCCL_SEND, device_in, count, HCCL_DATA_TYPE_INT32, next},
                               {HCCL_RECV, device_out, count, HCCL_DATA_TYPE_INT32, previous}};
  put(1, count);
  if (own == 0) {
    OK(HcclSend(device_in, count, HCCL_DATA_TYPE_INT32, next, comm, stream));
    OK(HcclRecv(device_out, count, HCCL_DATA_TYPE_INT32, previous, comm, stream));
  } else {
    OK(HcclRecv(device_out, count, HCCL_DATA_TYPE_INT32, previous, comm, stream));
    OK(HcclSend(device_in, count, HCCL_DATA_TYPE_INT32, next, comm, stream));
  }
  get();
  for (size_t i = 0; i < count; ++i) expect("Send", count, i, out[i], value(previous, 0, i));
  put(1, count);
  OK(HcclBatchSendRecv(items, 2, comm, stream));
  get();
  for (size_t i = 0; i < count; ++i) expect("BatchSendRecv", count, i, out[i], value(previous, 0, i));
}

/* ---- calls behind each other ---- */

/* Short AllReduces that nobody waits for: of parts of the buffers, and then each of the one before's result. */
static void check_many(void) {
  enum { CALLS = 20, COUNT = 300, CHAIN = 3 };
  int32_t *const from = device_in, *const to = device_out;
  put(1, CALLS * COUNT);
  for (int k = 0; k < CALLS; ++k)
    OK(HcclAllReduce(from + k * COUNT, to + k * COUNT, COUNT, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
  get();
  for (size_t i = 0; i < CALLS * COUNT; ++i) expect("one of 20 AllReduces", COUNT, i, out[i], sum_for(0, i));
  put(1, COUNT);
  for (int k = 0; k < CHAIN; ++k)
    OK(HcclAllReduce(k % 2 ? to : from, k % 2 ? from : to, COUNT, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
  get();
  for (size_t i = 0; i < COUNT; ++i)
    expect("AllReduce of AllReduces", COUNT, i, out[i], sum_for(0, i) * (int32_t)(n_ranks * n_ranks));
}

/* Vectors that go in chunks. */
static void check_long(void) {
  const size_t count = 5 * 1000 * 1000 + 7;
  int32_t *device, *host = malloc(count * sizeof *host);
  OK(aclrtMalloc((void **)&device, count * sizeof *device, ACL_MEM_MALLOC_HUGE_FIRST));
  for (uint32_t root = 0; root < n_ranks; root += n_ranks - 1) {
    for (size_t i = 0; i < count; ++i) host[i] = value(own, 0, i);
    OK(aclrtMemcpy(device, count * sizeof *host, host, count * sizeof *host, ACL_MEMCPY_HOST_TO_DEVICE));
    if (root)
      OK(HcclBroadcast(device, count, HCCL_DATA_TYPE_INT32, root, comm, stream));
    else
      OK(HcclAllReduce(device, device, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy(host, count * sizeof *host, device, count * sizeof *host, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < count; ++i)
      expect(root ? "Broadcast" : "AllReduce", count, i, host[i], root ? value(root, 0, i) : sum_for(0, i));
  }
  OK(aclrtFree(device));
  free(host);
}

/* ---- the same bits ---- */

/* Sums of numbers of very different sizes depend on the order of additions. */
static uint64_t bits_of_sums(void) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t count = 5; count <= 60000; count *= 11) {
    uint32_t seed = 77 + own;
    for (size_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      floats[i] = (float)(int32_t)seed * (seed >> 8 & 1 ? 1e-9f : seed >> 9 & 1 ? 1e-3f : 1.7f);
    }
    OK(aclrtMemcpy(device_in, MOST_BYTES, floats, count * sizeof *floats, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(HcclAllReduce(device_in, device_out, count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    get();
    const unsigned char *bytes = (const unsigned char *)out;
    for (size_t i = 0; i < count * sizeof *floats; ++i) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  }
  return hash;
}

static void check_all(void) {
  static const size_t counts[] = {1, 3, 50, 1000, 40001};
  for (size_t k = 0; k < sizeof counts / sizeof counts[0]; ++k) {
    check_reductions(counts[k]);
    check_moves(counts[k]);
    check_v_forms(counts[k]);
    check_transfers(counts[k]);
    OK(HcclBarrier(comm, stream));
  }
  check_v_forms(0);
  check_many();
  check_long();
  printf("rank %u bits %016jx\n", own, (uintmax_t)bits_of_sums());
}

/* ---- a loss ---- */

static void lose(const char *folder) {
  long code = 0;
  for (int round = 0; code == 0; ++round) {
    code = HcclAllReduce(device_in, device_out, 1000, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
    if (code == 0) code = aclrtSynchronizeStream(stream);
    if (round == 0 && own == 0) fclose(fopen(path_of(folder, "calling"), "w"));
    nap_ms(5);
  }
  const char *words = aclGetRecentErrMsg();
  HcclResult error = HCCL_SUCCESS;
  printf("rank %u failed: %s\n", own, words ? words : "(no message)");
  OK(HcclGetCommAsyncError(comm, &error));
  if (error == HCCL_SUCCESS) printf("rank %u has no asynchronous error\n", own);
}

int main(int argc, char **argv) {
  HcclRootInfo info;
  if (argc != 6) return 2;
  alarm(MOST_SECONDS);
  n_ranks = (uint32_t)atoi(argv[1]);
  own = (uint32_t)atoi(argv[2]);
  const int32_t device = atoi(argv[3]);
  in = malloc(MOST_BYTES);
  out = malloc(MOST_BYTES);
  floats = malloc(MOST_BYTES);
  OK(aclInit(NULL));
  OK(aclrtSetDevice(device));
  if (own == 0) {
    OK(HcclGetRootInfo(&info));
    give_info(argv[4], &info);
  } else
    take_info(argv[4], &info);
  OK(HcclCommInitRootInfo(n_ranks, &info, own, &comm));
  OK(aclrtCreateStream(&stream));
  OK(aclrtMalloc(&device_in, MOST_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&device_out, MOST_BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(device_in, MOST_BYTES, 0, MOST_BYTES));
  if (!strcmp(argv[5], "check"))
    check_all();
  else
    lose(argv[4]);
  OK(HcclCommDestroy(comm));
  OK(aclrtDestroyStream(stream));
  OK(aclrtResetDevice(device));
  return 0;
}
