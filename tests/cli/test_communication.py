# SPDX-License-Identifier: Apache-2.0
"""Tests of what shows communication: the summary of `cannon run`, `cannon top`, reports on a signal, and msprof.

    CANNON_PREFIX=/path python3 tests/cli/test_communication.py
"""
import csv
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
MSPROF = PREFIX / "bin/msprof"
WAIT_SECONDS = 120  # until a test gives up

# Arguments: what to do, and for "deadlock" the rank and a folder, through which the two processes exchange root
# information.
#   work      two devices of this process: three AllReduces, an AllGather and a Send
#   overlap   device 0 waits for device 1 in an AllReduce, while another of its streams works
#   deadlock  rank 0 waits in the communicator A, rank 1 in B
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define CHECK(call)                                                                      \
  do {                                                                                   \
    int code = (call);                                                                   \
    if (code) {                                                                          \
      fprintf(stderr, #call " gave %d: %s\n", code, aclGetRecentErrMsg());               \
      exit(99);                                                                          \
    }                                                                                    \
  } while (0)
enum { COUNT = 100000 };

static void work(void) {
  int32_t devices[] = {0, 1};
  HcclComm comms[2];
  aclrtStream streams[2];
  char *in[2], *out[2];
  CHECK(HcclCommInitAll(2, devices, comms));
  for (int d = 0; d < 2; ++d) {
    CHECK(aclrtSetDevice(d));
    CHECK(aclrtCreateStream(&streams[d]));
    CHECK(aclrtMalloc((void **)&in[d], 4 * COUNT, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc((void **)&out[d], 8 * COUNT, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(in[d], 4 * COUNT, 0, 4 * COUNT));
  }
  for (int d = 0; d < 2; ++d) {
    CHECK(aclrtSetDevice(d));
    for (int i = 0; i < 3; ++i)
      CHECK(HcclAllReduce(in[d], out[d], COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[d], streams[d]));
    CHECK(HcclAllGather(in[d], out[d], COUNT, HCCL_DATA_TYPE_FP32, comms[d], streams[d]));
    if (d == 0) CHECK(HcclSend(in[d], 10, HCCL_DATA_TYPE_INT8, 1, comms[d], streams[d]));
    if (d == 1) CHECK(HcclRecv(in[d], 10, HCCL_DATA_TYPE_INT8, 0, comms[d], streams[d]));
  }
  for (int d = 0; d < 2; ++d) {
    CHECK(aclrtSetDevice(d));
    CHECK(aclrtSynchronizeStream(streams[d]));
  }
  for (int d = 0; d < 2; ++d) CHECK(HcclCommDestroy(comms[d]));
}

static void overlap(void) {
  enum { BYTES = 64 << 20, TASKS = 50 };
  int32_t devices[] = {0, 1};
  HcclComm comms[2];
  aclrtStream streams[2], worker;
  char *buffer[2], *big;
  CHECK(HcclCommInitAll(2, devices, comms));
  for (int d = 1; d >= 0; --d) {
    CHECK(aclrtSetDevice(d));
    CHECK(aclrtCreateStream(&streams[d]));
    CHECK(aclrtMalloc((void **)&buffer[d], 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  }
  CHECK(aclrtCreateStream(&worker));
  CHECK(aclrtMalloc((void **)&big, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(HcclAllReduce(buffer[0], buffer[0], 1024, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[0], streams[0]));
  for (int i = 0; i < TASKS; ++i) {
    CHECK(aclrtMemsetAsync(big, BYTES, i, BYTES, worker));
    CHECK(aclrtSynchronizeStream(worker));
  }
  CHECK(aclrtSetDevice(1));
  CHECK(HcclAllReduce(buffer[1], buffer[1], 1024, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comms[1], streams[1]));
  CHECK(aclrtSynchronizeStream(streams[1]));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtSynchronizeStream(streams[0]));
}

/* The root information that rank 0 makes and rank 1 reads. */
static HcclRootInfo exchange(int rank, const char *folder, const char *name) {
  static HcclRootInfo info;
  char path[4096], hidden[4100];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(hidden, sizeof hidden, "%s.new", path);
  if (rank == 0) {
    CHECK(HcclGetRootInfo(&info));
    FILE *f = fopen(hidden, "w");
    CHECK(!f || fwrite(&info, sizeof info, 1, f) != 1 || fclose(f) || rename(hidden, path));
    return info;
  }
  while (access(path, R_OK)) usleep(1000);
  FILE *f = fopen(path, "r");
  CHECK(!f || fread(&info, sizeof info, 1, f) != 1 || fclose(f));
  return info;
}

static HcclComm join(int rank, const char *folder, const char *name) {
  HcclComm comm;
  HcclCommConfig config;
  HcclRootInfo info = exchange(rank, folder, name);
  HcclCommConfigInit(&config);
  snprintf(config.hcclCommName, sizeof config.hcclCommName, "%s", name);
  CHECK(HcclCommInitRootInfoConfig(2, &info, (uint32_t)rank, &config, &comm));
  return comm;
}

static void deadlock(int rank, const char *folder) {
  aclrtStream stream;
  char *in, *out;
  CHECK(aclrtSetDevice(rank));
  HcclComm a = join(rank, folder, "A"), b = join(rank, folder, "B");
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtMalloc((void **)&in, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc((void **)&out, 8192, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < 4; ++i)
    CHECK(HcclAllReduce(in, out, 8, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, a, stream));
  CHECK(HcclAllGather(in, out, 8, HCCL_DATA_TYPE_FP32, b, stream));
  CHECK(aclrtSynchronizeStream(stream));
  if (rank == 0)
    CHECK(HcclAllReduce(in, out, 8, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, a, stream));
  else
    CHECK(HcclAllGather(in, out, 8, HCCL_DATA_TYPE_FP32, b, stream));
  CHECK(aclrtSynchronizeStream(stream));
}

/* Device 1 fills 64 MiB first. Both gather 32 MiB, while device 0 fills 1 GiB on another stream. */
static void dry(void) {
  const size_t part = 32 << 20, big = 1 << 30;
  int32_t devices[] = {0, 1};
  HcclComm comms[2];
  aclrtStream streams[2], worker;
  char *in[2], *out[2];
  CHECK(HcclCommInitAll(2, devices, comms));
  for (int d = 1; d >= 0; --d) {
    CHECK(aclrtSetDevice(d));
    CHECK(aclrtCreateStream(&streams[d]));
    CHECK(aclrtMalloc((void **)&in[d], big, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc((void **)&out[d], 2 * part, ACL_MEM_MALLOC_HUGE_FIRST));
    if (d == 1) CHECK(aclrtMemsetAsync(out[1], 2 * part, 0, 2 * part, streams[1]));
    CHECK(HcclAllGather(in[d], out[d], part, HCCL_DATA_TYPE_INT8, comms[d], streams[d]));
  }
  CHECK(aclrtCreateStream(&worker));
  CHECK(aclrtMemsetAsync(in[0], big, 0, big, worker));
  CHECK(aclrtSynchronizeStream(worker));
  CHECK(aclrtSynchronizeStream(streams[0]));
  CHECK(aclrtSetDevice(1));
  CHECK(aclrtSynchronizeStream(streams[1]));
}

int main(int argc, char **argv) {
  CHECK(aclInit(NULL));
  if (!strcmp(argv[1], "work")) work();
  if (!strcmp(argv[1], "overlap")) overlap();
  if (!strcmp(argv[1], "dry")) dry();
  if (!strcmp(argv[1], "deadlock")) deadlock(atoi(argv[2]), argv[3]);
  CHECK(aclFinalize());
  return 0;
}
"""
# A program in Python. Device 0 waits in an AllReduce; on the signal of its own process, what it waits for is reported.
# Then device 1 calls something else.
PYTHON = r"""
import ctypes, os, signal, sys, time
acl, hccl = (ctypes.CDLL(f"{sys.argv[1]}/lib64/lib{x}.so") for x in ("ascendcl", "hccl"))
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
comms, streams, buffers = ((ctypes.c_void_p * 2)() for _ in range(3))
at = lambda array, i: ctypes.byref(array, i * ctypes.sizeof(ctypes.c_void_p))
assert not hccl.HcclCommInitAll(2, (ctypes.c_int32 * 2)(0, 1), comms)
for i in range(2):
    assert not acl.aclrtSetDevice(i) and not acl.aclrtCreateStream(at(streams, i))
    assert not acl.aclrtMalloc(at(buffers, i), ctypes.c_size_t(1024), 0)
where = lambda i: (ctypes.c_void_p(comms[i]), ctypes.c_void_p(streams[i]))
buffer = lambda i: ctypes.c_void_p(buffers[i])
count = ctypes.c_uint64(16)
acl.aclrtSetDevice(0)
assert not hccl.HcclAllReduce(buffer(0), buffer(0), count, 4, 0, *where(0))
time.sleep(1)
os.kill(os.getpid(), signal.SIGUSR2)
time.sleep(1)
acl.aclrtSetDevice(1)
assert not hccl.HcclBroadcast(buffer(1), count, 4, 0, *where(1))
code = acl.aclrtSynchronizeStream(where(1)[1])
print(code, acl.aclGetRecentErrMsg().decode())
"""
GROW = r"""import ctypes, sys
acl = ctypes.CDLL(sys.argv[1] + "/lib64/libascendcl.so")
assert not acl.aclrtSetDevice(0)
p = ctypes.c_void_p()
# Each of the following lines
# takes memory.
a = acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(2 << 30), 0)
b = [acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(2 << 30), 0) for _ in range(2)]
c = acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(3 << 30), 0)
d = acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(5 << 30), 0)
assert not a and not any(b) and c == d == 207001
"""
READ = r"""import ctypes, sys
acl = ctypes.CDLL(sys.argv[1] + "/lib64/libascendcl.so")
p, stream, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(12)
assert not acl.aclrtSetDevice(0) and not acl.aclrtCreateStream(ctypes.byref(stream))
assert not acl.aclrtMalloc(ctypes.byref(p), ctypes.c_size_t(4096), 0)
got, out = [], (ctypes.c_float * 3)()
for _ in range(3):
    acl.aclrtMemcpy(out, count, p, count, 2)
    got += list(out)
acl.aclrtMemcpyAsync(out, count, p, count, 2, stream)
got += list(out)
acl.aclrtMemcpy(out, ctypes.c_size_t(6), p, ctypes.c_size_t(6), 2)
acl.aclrtMemcpy(p, ctypes.c_size_t(4), (ctypes.c_float * 1)(7), ctypes.c_size_t(4), 1)
acl.aclrtMemcpy(out, count, p, count, 2)
got += list(out)
print(*got)
"""
CYCLE = ("ranks wait for each other: rank {0} (process {pid0}) waits in {call0} for rank {1}; "
         "rank {1} (process {pid1}) waits in {call1} for rank {0}")
CALLS = "AllReduce #5 of 'A'", "AllGather #2 of 'B'"


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "CANNON", "HCCL"))}
    return {**env, "CANNON_DEVICES": "2", "CANNON_MEM": "1G", "HCCL_BUFFSIZE": "16", "HCCL_WHITELIST_DISABLE": "1",
            **more}


class Communication(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        source = cls.folder / "program.c"
        source.write_text(PROGRAM)
        cls.program = cls.folder / "program"
        subprocess.run([os.environ.get("CC", "cc"), "-g", source, "-o", cls.program, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl", "-lhccl"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.own = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.env = environment(CANNON_LEDGER=str(self.own / "ledger"))

    def run_it(self, *command, **more):
        done = subprocess.run([str(c) for c in command], env={**self.env, **more}, capture_output=True, text=True,
                              timeout=WAIT_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    # ---- the summary

    def test_summary(self):
        report = self.own / "report.json"
        done = self.run_it(PREFIX / "bin/cannon", "run", "--json", report, self.program, "work")
        self.assertRegex(done.stderr, r"communication +calls +sent +received +time +exposed\n"
                                      r" +AllReduce +6 +2\.\d+ MiB +2\.\d+ MiB +\S+ \S+ +\d+\.\d %")
        process, = json.loads(report.read_text())["processes"]
        rows = {r["kind"]: r for r in process["communication"]}
        bytes_of = {kind: (r["calls"], r["sent_bytes"], r["received_bytes"]) for kind, r in rows.items()}
        self.assertEqual(bytes_of, {"AllReduce": (6, 2400000, 2400000), "AllGather": (2, 800000, 1600000),
                                    "Send": (1, 10, 0), "Recv": (1, 0, 10)})
        for r in rows.values():
            self.assertGreater(r["time_ns"], 0)
            self.assertLessEqual(r["exposed_ns"], r["time_ns"])

    def test_time_behind_other_work_is_not_exposed(self):
        report = self.own / "report.json"
        self.run_it(PREFIX / "bin/cannon", "run", "--quiet", "--json", report, self.program, "overlap")
        process, = json.loads(report.read_text())["processes"]
        row, = process["communication"]
        self.assertLess(row["exposed_ns"], row["time_ns"])

    def test_dry_run(self):
        """Times are those of the model: of the topology of Ascend910B3, and of its memory."""
        report = self.own / "report.json"
        run = [PREFIX / "bin/cannon", "run", "--dry", "--mem", "8G", "--json", report]
        done = self.run_it(*run, self.program, "dry")
        process, = json.loads(report.read_text())["processes"]
        row, = process["communication"]
        gather, fill = 500 + 2**25 / 28e9 * 1e9, lambda n: 600 + n / 1600e9 * 1e9
        self.assertAlmostEqual(row["device"]["time_ns"], 2 * gather, delta=4)
        self.assertAlmostEqual(row["device"]["waited_ns"], fill(2**26), delta=4)
        # On device 0, work goes on until fill(2**30), and the collective begins at fill(2**26).
        exposed = gather - (fill(2**30) - fill(2**26)) + gather
        self.assertAlmostEqual(row["device"]["exposed_ns"], exposed, delta=4)
        self.assertAlmostEqual(process["dry"]["time_ns"], fill(2**26) + gather, delta=4)
        self.assertEqual(process["dry"]["topology"], "a2-cluster")
        self.assertRegex(done.stderr, r"communication at least +calls +sent +time +share +exposed +waited\n"
                                      r" +AllGather +2")

        self.run_it(*run, "--force", "--topology", "ethernet", "--host-time", "2us", self.program, "dry")
        process, = json.loads(report.read_text())["processes"]
        row, = process["communication"]
        self.assertAlmostEqual(row["device"]["time_ns"], 2 * (5000 + 2**25 / 25e9 * 1e9), delta=4)
        self.assertEqual(process["dry"]["submissions"], 4)

    def test_refusal(self):
        """A dry run tells which lines held the memory when an allocation was refused."""
        program, report = self.own / "grow.py", self.own / "report.json"
        program.write_text(GROW)
        self.run_it(PREFIX / "bin/cannon", "run", "--dry", "--mem", "8G", "--json", report, sys.executable, program,
                    PREFIX)
        process, = json.loads(report.read_text())["processes"]
        first, largest = process["refused"]
        self.assertEqual([r["requested_bytes"] >> 30 for r in (first, largest)], [3, 5])
        self.assertEqual([(h["where"], h["blocks"]) for h in first["held_by"]], [("grow.py:8", 2), ("grow.py:7", 1)])
        self.assertEqual(first["asked_by"], {"where": "grow.py:9", "call": "aclrtMalloc"})
        self.assertEqual(largest["asked_by"]["where"], "grow.py:10")
        self.assertGreater(first["held_by"][0]["share"], 0.6)

    def test_values(self):
        """A dry run brings the values of --values where the device has none, by the line of the copy."""
        program, values, report = (self.own / name for name in ("read.py", "values.txt", "report.json"))
        program.write_text(READ)
        run = [PREFIX / "bin/cannon", "run", "--dry", "--json", report, "--values", values]
        values.write_text("# losses\nread.py:8 float32 0.5 0.25\nread.py:10 int32 -1\nread.py:90 int8 1\n* float32 2")
        done = self.run_it(*run, sys.executable, program, PREFIX)
        got = [float(x) for x in done.stdout.split()]
        self.assertEqual(got[:9], [0.5] * 3 + [0.25] * 6)
        self.assertTrue(all(math.isnan(x) for x in got[9:12]), "the bits of -1")
        self.assertEqual(got[12:], [7, 2, 2])
        process, = json.loads(report.read_text())["processes"]
        self.assertEqual([tuple(v.values()) for v in process["dry"]["values"]],
                         [("read.py:8", 3, 0), ("read.py:10", 1, 0), ("read.py:90", 0, 0), ("*", 1, 1)])
        self.assertIn("read.py:90               no copy to the host from there needed a value", done.stderr)
        for wrong, why in (("read.py float32 1", "line 1: expected FILE:LINE"),
                           ("\na.py:1 float 1", "line 2: expected one"),
                           ("* int8 128", "values of the line's type"), ("* bool", "a value after")):
            values.write_text(wrong)
            done = subprocess.run([*run, "true"], env=self.env, capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def test_recording(self):
        """The recorder hears of each collective."""
        recording = self.own / "recording"
        self.run_it(PREFIX / "bin/cannon", "run", "--quiet", "--record", recording, self.program, "work")
        done = self.run_it(PREFIX / "bin/cannon", "scale", recording, "--devices", "8")
        self.assertIn("AllReduce", done.stdout)

    def test_no_communication(self):
        report = self.own / "report.json"
        done = self.run_it(PREFIX / "bin/cannon", "run", "--json", report, self.program, "nothing")
        self.assertNotIn("communication", done.stderr)
        for process in json.loads(report.read_text())["processes"]:
            self.assertEqual(process["communication"], [])

    # ---- who waits for whom

    def deadlock(self, **more):
        """Starts two processes that wait for each other; returns them."""
        ranks = []
        for rank in range(2):
            errors = open(self.own / f"stderr.{rank}", "w+", encoding="utf-8")
            ranks.append(subprocess.Popen([self.program, "deadlock", str(rank), self.own], env={**self.env, **more},
                                          stderr=errors))
            self.addCleanup(errors.close)
            self.addCleanup(ranks[-1].wait)
            self.addCleanup(ranks[-1].kill)
        return ranks

    def stderr_of(self, rank):
        return (self.own / f"stderr.{rank}").read_text()

    def until(self, look, *words):
        """Repeats look() until its text has all the words, and returns it."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            text = look()
            if all(w in text for w in words):
                return text
            time.sleep(0.1)
        self.fail(f"{words} not in: {look()}\nrank 0: {self.stderr_of(0)}\nrank 1: {self.stderr_of(1)}")

    def cycle(self, ranks, first):
        pids, calls = [r.pid for r in ranks], CALLS
        return CYCLE.format(first, 1 - first, pid0=pids[first], pid1=pids[1 - first], call0=calls[first],
                            call1=calls[1 - first])

    def top(self, *more):
        return self.run_it(PREFIX / "bin/cannon", "top", "--once", *more).stdout

    def test_top_and_signal(self):
        ranks = self.deadlock(CANNON_COMM_REPORT="signal=USR2")
        text = self.until(self.top, "ranks wait for each other")
        for rank in range(2):
            self.assertRegex(text, rf"{ranks[rank].pid}  rank {rank} of 2 has waited \d+\.\d s in {CALLS[rank]} for "
                                   rf"rank {1 - rank} \(process {ranks[1 - rank].pid}\)\n")
        self.assertTrue(self.cycle(ranks, 0) in text or self.cycle(ranks, 1) in text, text)
        text = self.top(ranks[1].pid)
        self.assertIn(f"in {CALLS[1]} for rank 0", text)
        self.assertNotIn(f"in {CALLS[0]} for rank 1 (", text)

        ranks[0].send_signal(signal.SIGUSR2)
        text = self.until(lambda: self.stderr_of(0), "ranks wait for each other")
        self.assertRegex(text, rf"cannon: process {ranks[0].pid}, communication:\n"
                               rf"cannon:   rank 0 of 2 has waited \d+\.\d s in {CALLS[0]} for rank 1 "
                               rf"\(process {ranks[1].pid}\)\ncannon: ranks wait for each other: ")
        self.assertIsNone(ranks[0].poll())

        ranks[0].kill()  # its waits are gone with it
        ranks[0].wait()
        text = self.until(self.top, "")
        self.assertNotIn(str(ranks[0].pid) + "  rank", text)
        self.assertNotIn("wait for each other", text)

    def test_line_of_python(self):
        program = self.folder / "program.py"
        program.write_text(PYTHON)
        first, second = (PYTHON[:PYTHON.index(call)].count("\n") + 1 for call in ("hccl.HcclAllReduce", "hccl.HcclBro"))
        done = self.run_it(sys.executable, program, PREFIX, CANNON_COMM_REPORT="signal=USR2", CANNON_DEVICES="2")
        self.assertRegex(done.stderr, rf"rank 0 of 2 has waited .* in AllReduce #1 of '.*' \(program.py:{first}\)")
        self.assertRegex(done.stdout, rf"^507048 .*\(program.py:({first}|{second})\)")
        done = self.run_it(sys.executable, program, PREFIX, CANNON_PYTHON_SITES="0", CANNON_COMM_REPORT="signal=USR2",
                           CANNON_DEVICES="2")
        self.assertRegex(done.stdout, "^507048 .*AllReduce #1 ")
        self.assertNotIn("program.py", done.stdout + done.stderr)

    def test_timeout(self):
        ranks = self.deadlock(HCCL_EXEC_TIMEOUT="5")
        for rank in ranks:
            self.assertEqual(rank.wait(WAIT_SECONDS), 99)
        texts = [self.stderr_of(rank) for rank in range(2)]
        self.assertTrue(any(self.cycle(ranks, r) in texts[r] for r in range(2)), texts)
        self.assertTrue(all("aclrtSynchronizeStream(stream) gave 507048" in t for t in texts), texts)

    def test_wrong_variable(self):
        done = self.run_it(self.program, "work", CANNON_COMM_REPORT="signal=KILL")
        self.assertIn("CANNON_COMM_REPORT", done.stderr)

    # ---- msprof

    def test_msprof(self):
        self.run_it(MSPROF, f"--output={self.own}", self.program, "work")
        session, = self.own.glob("PROF_*")
        self.run_it(MSPROF, "--analyze=on", f"--output={session}")
        output = session / "mindstudio_profiler_output"

        def table(name):
            path, = output.glob(f"{name}_[0-9]*.csv")
            with open(path, newline="", encoding="utf-8") as f:
                return list(csv.DictReader(f))

        counts = {(r["Device_id"], r["OP Type"]): int(r["Count"]) for r in table("communication_statistic")}
        self.assertEqual(counts, {("0", "hcom_allReduce_"): 3, ("0", "hcom_allGather_"): 1, ("0", "hcom_send_"): 1,
                                  ("1", "hcom_allReduce_"): 3, ("1", "hcom_allGather_"): 1, ("1", "hcom_receive_"): 1})
        rows = [r for r in table("op_summary") if r["Device_id"] == "0"]
        self.assertEqual({r["Task Type"] for r in rows}, {"HCCL"})
        names = [r["Op Name"] for r in rows]
        patterns = [r"hcom_allReduce__\d+_0_1", r"hcom_allReduce__\d+_1_1", r"hcom_allReduce__\d+_2_1",
                    r"hcom_allGather__\d+_3_1", r"hcom_send__\d+_0_1"]
        self.assertEqual(len(names), len(patterns))
        for name, pattern in zip(names, patterns):
            self.assertRegex(name, f"^{pattern}$")

        trace, = output.glob("msprof_*.json")
        events = json.loads(trace.read_text())
        hccl = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "HCCL"}
        self.assertEqual(len(hccl), 2)  # devices
        groups = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] in hccl]
        self.assertEqual([bool(re.fullmatch("Group .* Communication", g)) for g in groups], [True, True])
        spans = [e for e in events if e["ph"] == "X" and e["pid"] in hccl]
        self.assertEqual(len(spans), 10)
        gather, = [e for e in spans if e["name"] == names[3] and e["args"]["rank"] == 0]
        self.assertEqual((gather["args"]["count"], gather["args"]["data_type"], gather["args"]["size(Byte)"]),
                         (100000, "float32", 400000))
        ends = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "f"}
        self.assertTrue(all((e["pid"], e["tid"], e["ts"]) in ends for e in spans))  # each has a flow from its launch
        self.assertEqual(len([e for e in events if e["name"] == "thread_name" and
                              e["args"]["name"] == "Communication(Not Overlapped)"]), 2)

        times = json.loads((session / "analyze/communication.json").read_text())
        self.assertEqual(len(times), 6)  # names that both ranks have are one entry
        matrix = json.loads((session / "analyze/communication_matrix.json").read_text())
        send, = [v for k, v in matrix.items() if k.startswith("hcom_send_")]
        self.assertEqual(send["0-1"]["Transit Size(MB)"], 10 / 1e6)
        reductions = [v for k, v in matrix.items() if k.startswith("hcom_allReduce_")]
        own = [link for links in reductions for link, of in links.items() if of["Transport Type"] == "LOCAL"]
        self.assertIn(set(own), ({"0-0"}, {"1-1"}))  # msprof-analyze knows the rank by it
        self.assertEqual(len({k.split("@")[1] for k in matrix}), 1)
        self.assertTrue(all(re.fullmatch(r"hcom_\w+__(\d{3})_\d+_1@\d+\1", k) for k in matrix), matrix.keys())


if __name__ == "__main__":
    unittest.main()
