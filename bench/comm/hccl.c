/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of HCCL, one process and device per rank. Uses only CANN's public API, so it also runs on NPUs.
 * usage: bench_comm_hccl --ranks N [options of harness.h] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "hccl/hccl.h"

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const int code_ = (int)(call);                                                                                     \
    if (code_) {                                                                                                       \
      const char *words_ = aclGetRecentErrMsg();                                                                       \
      harness_fail("%s: %d %s", #call, code_, words_ ? words_ : "");                                                   \
    }                                                                                                                  \
  } while (0)

static HcclComm comm;
static aclrtStream stream;

static void *hccl_allocate(size_t bytes) {
  void *buffer;
  CHECK(aclrtMalloc(&buffer, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return buffer;
}

static void hccl_release(void *buffer) { CHECK(aclrtFree(buffer)); }

static void hccl_write(void *to, const float *from, size_t n) {
  CHECK(aclrtMemcpy(to, n * sizeof *from, from, n * sizeof *from, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void hccl_read(float *to, const void *from, size_t n) {
  CHECK(aclrtMemcpy(to, n * sizeof *to, from, n * sizeof *to, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void hccl_start(operation op, float *in, float *out, size_t n, int root) {
  const HcclDataType type = HCCL_DATA_TYPE_FP32;
  switch (op) {
  case ALL_REDUCE: CHECK(HcclAllReduce(in, out, n, type, HCCL_REDUCE_SUM, comm, stream)); break;
  case ALL_GATHER: CHECK(HcclAllGather(in, out, n, type, comm, stream)); break;
  case REDUCE_SCATTER: CHECK(HcclReduceScatter(in, out, n, type, HCCL_REDUCE_SUM, comm, stream)); break;
  case BROADCAST: CHECK(HcclBroadcast(out, n, type, (uint32_t)root, comm, stream)); break;
  default: CHECK(HcclAlltoAll(in, n, type, out, n, type, comm, stream)); break;
  }
}

static void hccl_wait(void) { CHECK(aclrtSynchronizeStream(stream)); }

/* Rank 0 makes the root information and writes it to a file, which the others wait for. */
static void meet(place p) {
  char path[256], temporary[264];
  HcclRootInfo info;
  snprintf(path, sizeof path, "%s/root", p.folder);
  snprintf(temporary, sizeof temporary, "%s.new", path);
  if (p.rank == 0) {
    CHECK(HcclGetRootInfo(&info));
    FILE *const f = fopen(temporary, "wb");
    if (!f || fwrite(&info, sizeof info, 1, f) != 1 || fclose(f) || rename(temporary, path))
      harness_fail("%s cannot be written", path);
  } else {
    while (access(path, R_OK)) usleep(1000);
    FILE *const f = fopen(path, "rb");
    if (!f || fread(&info, sizeof info, 1, f) != 1) harness_fail("%s cannot be read", path);
    fclose(f);
  }
  CHECK(HcclCommInitRootInfo((uint32_t)p.n_ranks, &info, (uint32_t)p.rank, &comm));
}

int main(int argc, char **argv) {
  static const library hccl = {.allocate = hccl_allocate,
                               .release = hccl_release,
                               .write = hccl_write,
                               .read = hccl_read,
                               .start = hccl_start,
                               .wait = hccl_wait};
  const place p = harness_launch(argc, argv);
  harness_pin(p.rank, argc, argv);
  char devices[16];
  snprintf(devices, sizeof devices, "%d", p.n_ranks);
  setenv("CANNON_DEVICES", devices, 0); /* on an NPU of no meaning */
  setenv("HCCL_WHITELIST_DISABLE", "1", 0);
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(p.rank));
  CHECK(aclrtCreateStream(&stream));
  meet(p);
  harness_measure(&hccl, p, argc, argv);
  CHECK(HcclCommDestroy(comm));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(p.rank));
  CHECK(aclFinalize());
  return 0;
}
