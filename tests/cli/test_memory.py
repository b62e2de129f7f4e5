# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of `cannon run`'s report about copies, zero copy, advice and the roofline.

    CANNON_PREFIX=/path python3 tests/cli/test_memory.py
"""
import os
import subprocess
import unittest

import test_cli
from test_cli import CANNON, PREFIX, execute

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_matmul.h"

#define CHECK(call)                                                                      \
  do {                                                                                   \
    int code = (call);                                                                   \
    if (code) {                                                                          \
      fprintf(stderr, #call " gave %d: %s\n", code, aclGetRecentErrMsg());               \
      exit(99);                                                                          \
    }                                                                                    \
  } while (0)
enum { N = 1024, BYTES = N * N * 4 };

static aclTensor *matrix(void *data) {
  const int64_t dims[] = {N, N}, strides[] = {N, 1};
  return aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, data);
}

static void add(void *a, void *b, void *c) {
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e;
  CHECK(aclnnAddGetWorkspaceSize(matrix(a), matrix(b), aclCreateScalar(&one, ACL_FLOAT), matrix(c), &bytes, &e));
  CHECK(aclnnAdd(NULL, 0, e, NULL));
}

static void multiply(void *a, void *b, void *c) {
  uint64_t bytes;
  aclOpExecutor *e;
  CHECK(aclnnMatmulGetWorkspaceSize(matrix(a), matrix(b), matrix(c), 0, &bytes, &e));
  CHECK(aclnnMatmul(NULL, 0, e, NULL));
}

static void exponential(void *a, void *b) {
  uint64_t bytes;
  aclOpExecutor *e;
  CHECK(aclnnExpGetWorkspaceSize(matrix(a), matrix(b), &bytes, &e));
  CHECK(aclnnExp(NULL, 0, e, NULL));
}

static void copy_misaligned(char *device, char *pinned) {
  for (int i = 0; i < 5; i++)
    CHECK(aclrtMemcpyAsync(device + 4, 100, pinned, 100, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
}

/* Copies between two addresses of the same memory. */
static void copy_to_alias(void) {
  void *at[2];
  aclrtDrvMemHandle memory;
  aclrtPhysicalMemProp p = {.memAttr = ACL_HBM_MEM_HUGE, .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
  CHECK(aclrtMallocPhysical(&memory, 2 << 20, &p, 0));
  for (int i = 0; i < 2; i++) {
    CHECK(aclrtReserveMemAddress(&at[i], 2 << 20, 0, NULL, 0));
    CHECK(aclrtMapMem(at[i], 2 << 20, 0, memory, 0));
  }
  CHECK(aclrtMemcpy((char *)at[0] + 64, 8000, (char *)at[1] + 64, 8000, ACL_MEMCPY_DEVICE_TO_DEVICE));
  /* The offsets differ, so this copy is needed. */
  CHECK(aclrtMemcpy(at[0], 32, (char *)at[1] + 64, 32, ACL_MEMCPY_DEVICE_TO_DEVICE));
}

int main(void) {
  char *a, *b, *c, *d, *pinned, *own = calloc(1, BYTES);
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtMalloc((void **)&a, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc((void **)&b, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc((void **)&c, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc((void **)&d, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMallocHost((void **)&pinned, BYTES));
  CHECK(aclrtMemset(a, BYTES, 0, BYTES));
  CHECK(aclrtMemset(b, BYTES, 0, BYTES));
  CHECK(aclrtMemset(d, BYTES, 0, BYTES));
  /* Copies: one of each kind, and five whose address is not a multiple of 64. */
  CHECK(aclrtMemcpy(a, BYTES, own, 3000, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtMemcpy(b, BYTES, pinned, 2000, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtMemcpyAsync(pinned, BYTES, a, 1000, ACL_MEMCPY_DEVICE_TO_HOST, NULL));
  CHECK(aclrtMemcpyAsync(a, BYTES, a, 4000, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL)); /* source and target are equal */
  CHECK(aclrtMemcpyAsync(b, BYTES, a, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
  copy_misaligned(a, pinned);
  copy_to_alias();
  /* Additions: of 12 MiB in device memory; with a in L2; with an operand and the result in host memory. */
  add(a, b, c);
  multiply(a, b, c);
  add(a, pinned, pinned);
  CHECK(aclrtCmoAsync(d, BYTES, ACL_RT_CMO_TYPE_PREFETCH, NULL));
  exponential(d, d);
  CHECK(aclrtSynchronizeDevice());
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
"""
MATRIX = 1024 * 1024 * 4


INDEXED = r"""
#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_gather_v2.h"
#include "aclnnop/aclnn_index_copy.h"

enum { ROWS = 1 << 16, COLUMNS = 64, CHOSEN = 3 };

static aclTensor *tensor(int rank, int64_t rows, aclDataType dtype, void *data) {
  const int64_t dims[] = {rows, COLUMNS}, strides[] = {rank == 2 ? COLUMNS : 1, 1};
  return aclCreateTensor(dims, rank, dtype, strides, 0, ACL_FORMAT_ND, dims, rank, data);
}

int main(void) {
  void *table, *index, *rows;
  uint64_t bytes;
  aclOpExecutor *e;
  const int64_t chosen[CHOSEN] = {7, 60000, 1};
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&table, ROWS * COLUMNS * 4, 0) || aclrtMalloc(&index, 64, 0) ||
      aclrtMalloc(&rows, CHOSEN * COLUMNS * 4, 0) || aclrtMemcpy(index, 24, chosen, 24, ACL_MEMCPY_HOST_TO_DEVICE))
    return 1;
  aclTensor *t = tensor(2, ROWS, ACL_FLOAT, table), *i = tensor(1, CHOSEN, ACL_INT64, index);
  aclTensor *r = tensor(2, CHOSEN, ACL_FLOAT, rows);
  if (aclnnGatherV2GetWorkspaceSize(t, 0, i, r, &bytes, &e) || aclnnGatherV2(NULL, bytes, e, NULL)) return 2;
  if (aclnnInplaceIndexCopyGetWorkspaceSize(t, 0, i, r, &bytes, &e) ||
      aclnnInplaceIndexCopy(NULL, bytes, e, NULL))
    return 3;
  return aclrtSynchronizeDevice();
}
"""


class Memory(test_cli.CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.folder / "memory.c"
        source.write_text(PROGRAM)
        cls.memory = cls.folder / "memory"
        subprocess.run([os.environ.get("CC", "cc"), "-g", source, "-o", cls.memory, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi"], check=True)
        done, report = cls.run_json(cls, cls.memory)
        if done.returncode:
            raise AssertionError(done.stderr)
        (cls.process,) = report["processes"]
        cls.ops = {op["name"]: op for op in cls.process["operators"]}

    def test_pinned_and_pageable_copies_are_counted_separately(self):
        self.assertEqual(self.process["copies"], {
            "host_to_device": {"count": 7, "bytes": 5500, "pageable_count": 1, "pageable_bytes": 3000},
            "device_to_host": {"count": 1, "bytes": 1000, "pageable_count": 0, "pageable_bytes": 0},
            "device_to_device": {"count": 2, "bytes": 96, "pageable_count": 0, "pageable_bytes": 0},
            "host_to_host": {"count": 0, "bytes": 0, "pageable_count": 0, "pageable_bytes": 0}})

    def test_unnecessary_copies_are_counted(self):
        zero_copy = self.process["zero_copy"]
        self.assertEqual(zero_copy["elided"], {
            "host_to_device": {"count": 1, "bytes": MATRIX}, "device_to_host": {"count": 1, "bytes": MATRIX},
            "device_to_device": {"count": 2, "bytes": 12000}, "host_to_host": {"count": 0, "bytes": 0}})
        elided = 2 * MATRIX + 12000
        self.assertAlmostEqual(zero_copy["share"], elided / (elided + 6500))

    def test_advice(self):
        advice = self.process["advice"]["unaligned_copies"]
        self.assertEqual(advice["count"], 5)
        self.assertIn("memory(", advice["first_site"])

    def test_advice_is_logged_once_per_site(self):
        env = test_cli.clean_environment(ASCEND_GLOBAL_LOG_LEVEL="2", ASCEND_SLOG_PRINT_TO_STDOUT="1")
        env["LD_LIBRARY_PATH"] = f"{PREFIX}/lib64"
        lines = [line for line in execute(self.memory, env=env).stdout.splitlines() if "advice" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("multiple of 64", lines[0])

    def test_only_rows_that_an_index_names_are_moved(self):
        source, program = self.folder / "indexed.c", self.folder / "indexed"
        source.write_text(INDEXED)
        subprocess.run([os.environ.get("CC", "cc"), source, "-o", program, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                        "-lascendcl", "-lnnopbase", "-lopapi"], check=True)
        done, report = self.run_json(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        moved = {op["name"]: op["device"] for op in report["processes"][0]["operators"]}
        rows, index = 3 * 64 * 4, 3 * 8
        self.assertEqual(moved["GatherV2"]["bytes"], 2 * rows + index)
        self.assertEqual(moved["InplaceIndexCopy"]["bytes"], 3 * rows + index)

    def test_roofline(self):
        add, multiply = self.ops["Add"], self.ops["Matmul"]
        self.assertEqual(add["device"]["bytes"], 6 * MATRIX)
        self.assertEqual(add["device"]["operations"], 2 * 1024 * 1024)
        self.assertEqual(multiply["device"]["bytes"], 3 * MATRIX)
        self.assertEqual(multiply["device"]["operations"], 2 * 1024**3)
        # 2 * 4 MiB over a link of 32e9 bytes per second; the 12 MiB of the other addition from an HBM of 1.6e12 bytes
        # per second.
        self.assertEqual(add["device"]["bound_ns"], {"host link": 2000 + 262144, "HBM": 600 + 7864})
        self.assertEqual(add["device"]["bound_by"], "host link")
        # All three matrices fit into L2 (192 MiB), so the 1024^3 float multiply-adds of the cube unit determine the
        # time.
        self.assertEqual(set(multiply["device"]["bound_ns"]), {"cube"})
        cube_ns = 1024**3 * 2 / (4096 * 20 * 1.8e9) * 1e9
        self.assertAlmostEqual(multiply["device"]["time_ns"], 300 + cube_ns, delta=1)

    def test_prefetched_data_is_in_l2(self):
        l2_ns = 2 * MATRIX / (110 * 20 * 1.8e9) * 1e9
        self.assertEqual(self.ops["Exp"]["device"]["bound_ns"], {"L2": 300 + round(l2_ns)})

    def test_summary(self):
        text = execute(CANNON, "run", self.memory).stderr
        self.assertRegex(text, r"copies +host to device +7 +5\.37 KiB, 1 of them, 2\.93 KiB, pageable\n")
        self.assertRegex(text, r"zero copy +4 copies were not needed, 8\.01 MiB: 99\.9 % of all")
        self.assertRegex(text, r"advice +5 asynchronous copies .* first from memory\.c:\d+ \(copy_misaligned\)")
        self.assertRegex(text, r"on device +at least +bytes +ops/byte")
        self.assertRegex(text, r"\n +Matmul +12\.0 MiB +170\.7 +14\.9 us +\d+\.\d % +cube +100 %")
        self.assertLessEqual(max(map(len, text.splitlines())), 116)
        # The summary of a program without any of these has no line about them.
        text = execute(CANNON, "run", self.program).stderr
        for word in ("zero copy", "advice", "on device"):
            self.assertNotIn(word, text)


if __name__ == "__main__":
    unittest.main()
