/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks in one of the two ways that HCCL has:
 *
 *   allreduce       all devices belong to this process: HcclCommInitAll, then a thread for each device
 *   allreduce N     N processes, one device each: the root information of rank 0 goes to the others */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank.h"

enum { MOST = 16 };

static int report(const char *how, uint32_t n_ranks, int wrong) {
  printf("%u %s: %d steps of %d buckets, %d wrong weights\n", n_ranks, how, STEPS, BUCKETS, wrong);
  return wrong != 0;
}

typedef struct {
  int32_t device;
  uint32_t n_ranks;
  HcclComm comm;
  int wrong;
} device_thread;

static void *run_thread(void *argument) {
  device_thread *t = argument;
  CHECK(aclrtSetDevice(t->device));
  t->wrong = rank_train(t->comm, (uint32_t)t->device, t->n_ranks);
  return NULL;
}

static int in_one_process(void) {
  uint32_t n = 0;
  int32_t devices[MOST];
  HcclComm comms[MOST];
  device_thread ranks[MOST];
  pthread_t threads[MOST];
  int wrong = 0;
  CHECK(aclInit(NULL));
  CHECK(aclrtGetDeviceCount(&n));
  if (n > MOST) n = MOST;
  for (uint32_t d = 0; d < n; d++) {
    devices[d] = (int32_t)d;
    CHECK(aclrtSetDevice(devices[d]));
  }
  CHECK_HCCL(HcclCommInitAll(n, devices, comms));
  for (uint32_t d = 0; d < n; d++) {
    ranks[d] = (device_thread){.device = devices[d], .n_ranks = n, .comm = comms[d]};
    if (pthread_create(&threads[d], NULL, run_thread, &ranks[d])) exit(1);
  }
  for (uint32_t d = 0; d < n; d++) {
    pthread_join(threads[d], NULL);
    wrong += ranks[d].wrong;
  }
  for (uint32_t d = 0; d < n; d++) {
    CHECK_HCCL(HcclCommDestroy(comms[d]));
    CHECK(aclrtResetDevice(devices[d]));
  }
  CHECK(aclFinalize());
  return report("devices of one process", n, wrong);
}

/* One of the processes. Rank 0 writes the root information to the pipes of the others; these read it from their own. */
static int run_process(uint32_t rank, uint32_t n, int pipes[MOST][2]) {
  HcclRootInfo info;
  HcclComm comm;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice((int32_t)rank));
  if (rank == 0) {
    CHECK_HCCL(HcclGetRootInfo(&info));
    for (uint32_t r = 1; r < n; r++)
      if (write(pipes[r][1], &info, sizeof info) != sizeof info) exit(1);
  } else {
    for (size_t have = 0; have < sizeof info;) {
      const ssize_t got = read(pipes[rank][0], (char *)&info + have, sizeof info - have);
      if (got <= 0) exit(1);
      have += (size_t)got;
    }
  }
  CHECK_HCCL(HcclCommInitRootInfo(n, &info, rank, &comm));
  const int wrong = rank_train(comm, rank, n);
  CHECK_HCCL(HcclCommDestroy(comm));
  CHECK(aclrtResetDevice((int32_t)rank));
  CHECK(aclFinalize());
  return rank == 0 ? report("processes", n, wrong) : wrong != 0;
}

/* Forks before the first call of CANN, since its state does not survive a fork. */
static int in_processes(uint32_t n) {
  int pipes[MOST][2], failed = 0;
  for (uint32_t r = 0; r < n; r++)
    if (pipe(pipes[r])) return 1;
  for (uint32_t r = 0; r < n; r++) {
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) exit(run_process(r, n, pipes));
  }
  for (uint32_t r = 0; r < n; r++) {
    int status;
    failed |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
  }
  return failed;
}

int main(int argc, char **argv) {
  const int n = argc == 2 ? atoi(argv[1]) : 0;
  if (argc > 2 || (argc == 2 && (n < 1 || n > MOST))) {
    fprintf(stderr, "usage: allreduce [NUMBER OF PROCESSES, 1 to %d]\n", MOST);
    return 2;
  }
  return n ? in_processes((uint32_t)n) : in_one_process();
}
