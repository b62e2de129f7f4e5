# SPDX-License-Identifier: Apache-2.0
"""Tests of the profiler's recordings and of their export by msprof.

    CANNON_PREFIX=/path python3 tests/cli/test_profiler.py
"""
import csv
import json
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
MSPROF = PREFIX / "bin/msprof"

# Arguments: a folder and the switches. Each of three steps has a copy, Add, Matmul and an event.
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_matmul.h"
#include "mstx/ms_tools_ext.h"

#define CHECK(call)                                                                      \
  do {                                                                                   \
    int code = (call);                                                                   \
    if (code) {                                                                          \
      fprintf(stderr, #call " gave %d: %s\n", code, aclGetRecentErrMsg());               \
      exit(99);                                                                          \
    }                                                                                    \
  } while (0)
enum { STEPS = 3 };

static aclTensor *matrix(void *data, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns}, strides[] = {columns, 1};
  return aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, data);
}

static void step(char *a, char *pinned, aclrtStream stream, aclrtEvent event) {
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *e;
  CHECK(aclrtMemcpyAsync(a, 8192, pinned, 8192, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  CHECK(aclnnAddGetWorkspaceSize(matrix(a, 64, 32), matrix(a, 1, 32), aclCreateScalar(&one, ACL_FLOAT),
                                 matrix(a + 8192, 64, 32), &bytes, &e));
  CHECK(aclnnAdd(NULL, 0, e, stream));
  CHECK(aclnnMatmulGetWorkspaceSize(matrix(a, 64, 32), matrix(a, 32, 16), matrix(a + 16384, 64, 16), 0, &bytes, &e));
  CHECK(aclnnMatmul(NULL, 0, e, stream));
  CHECK(aclrtRecordEvent(event, stream));
}

static void *stop_range(void *id) {
  CHECK(aclprofRangeStop(*(uint32_t *)id));
  return NULL;
}

static void mark(aclrtStream stream) {
  uint32_t id;
  pthread_t thread;
  void *outer = aclprofCreateStamp(), *inner = aclprofCreateStamp(), *range = aclprofCreateStamp();
  CHECK(aclprofSetStampTraceMessage(outer, "outer", 5));
  CHECK(aclprofSetStampTraceMessage(inner, "inner, \"quoted\"", 15));
  CHECK(aclprofSetStampTraceMessage(range, "across", 6));
  CHECK(aclprofRangeStart(range, &id));
  CHECK(aclprofPush(outer));
  CHECK(aclprofPush(inner));
  usleep(1000);
  CHECK(aclprofPop());
  CHECK(aclprofMark(inner));
  CHECK(aclprofPop());
  pthread_create(&thread, NULL, stop_range, &id);
  pthread_join(thread, NULL);
  CHECK(aclprofMarkEx("in stream", 9, stream));
  CHECK(aclrtProfTrace("\x01\xff", 2, stream));
  mstxDomainHandle_t steps = mstxDomainCreateA("steps");
  mstxMarkA("moment", NULL);
  mstxDomainRangeEnd(steps, mstxDomainRangeStartA(steps, "range", stream));
  mstxDomainDestroy(steps);
}

int main(int argc, char **argv) {
  const uint64_t switches = strtoull(argv[2], NULL, 0);
  uint32_t device = 0;
  char *a, *pinned;
  aclrtStream stream, other;
  aclrtEvent event;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtCreateStream(&other));
  CHECK(aclrtCreateEvent(&event));
  CHECK(aclrtMalloc((void **)&a, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMallocHost((void **)&pinned, 8192));
  memset(pinned, 0, 8192);
  aclprofConfig *config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, switches);
  CHECK(aclprofInit(argv[1], strlen(argv[1])));
  step(a, pinned, stream, event); /* before the start of recording */
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclprofStart(config));
  for (int i = 0; i < STEPS; i++) {
    aclprofStepInfo *info = aclprofCreateStepInfo();
    if (switches & ACL_PROF_TRAINING_TRACE) CHECK(aclprofGetStepTimestamp(info, ACL_STEP_START, stream));
    step(a, pinned, stream, event);
    if (switches & ACL_PROF_TRAINING_TRACE) CHECK(aclprofGetStepTimestamp(info, ACL_STEP_END, stream));
    aclprofDestroyStepInfo(info);
  }
  CHECK(aclrtStreamWaitEvent(other, event));
  CHECK(aclrtMemsetAsync(a, 64, 1, 64, other));
  if (switches & ACL_PROF_MSPROFTX) mark(stream);
  CHECK(aclrtSynchronizeDevice());
  if (argc > 3) _exit(7); /* ends without stopping the recording */
  CHECK(aclprofStop(config));
  step(a, pinned, stream, event); /* after the end of recording */
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclprofDestroyConfig(config));
  CHECK(aclprofFinalize());
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
"""
# Two blocks, of which the second is freed, in a process that copies once; the argument makes a third.
BLOCKS = r"""
#include "acl/acl.h"
int main(int argc, char **argv) {
  void *a, *b, *c;
  (void)argv;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&a, 1000000, ACL_MEM_MALLOC_HUGE_FIRST) ||
      aclrtMallocAlign32(&b, 64, ACL_MEM_MALLOC_HUGE_FIRST) || aclrtMemset(a, 64, 0, 64) || aclrtFree(b))
    return 99;
  if (argc > 1 && aclrtMalloc(&c, 64, ACL_MEM_MALLOC_HUGE_FIRST)) return 98;
  return aclrtResetDevice(0) || aclFinalize();
}
"""
PLAIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include "acl/acl.h"
#include "acl/acl_prof.h"
int main(int argc, char **argv) {
  void *p;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST)) return 99;
  printf("%d\n", aclprofInit("/tmp", 4));
  if (aclrtFree(p) || aclrtResetDevice(0) || aclFinalize()) return 98;
  return argc > 1 ? atoi(argv[1]) : 0;
}
"""
# Two depthwise convolutions, the gradients of one, and an addition.
CONVOLUTIONS = r"""
#include <stdio.h>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_convolution_backward.h"

static char *memory, *workspace;

static aclTensor *tensor(int64_t at, int64_t n, int64_t c, int64_t hw) {
  const int64_t dims[] = {n, c, hw, hw}, strides[] = {c * hw * hw, hw * hw, hw, 1};
  return aclCreateTensor(dims, 4, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 4, memory + at);
}

static aclIntArray *pair(int64_t value) { return aclCreateIntArray((int64_t[]){value, value}, 2); }

int main(void) {
  uint64_t bytes;
  aclOpExecutor *e;
  bool all[] = {true, true, false};
  float one = 1;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc((void **)&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST) ||
      aclrtMalloc((void **)&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST))
    return 99;
  aclTensor *x = tensor(0, 1, 4, 8), *w = tensor(4096, 4, 1, 3), *y = tensor(8192, 1, 4, 8);
  for (int i = 0; i < 2; i++)
    if (aclnnConvolutionGetWorkspaceSize(x, w, NULL, pair(1), pair(1), pair(1), false, pair(0), 4, y, 0, &bytes, &e) ||
        aclnnConvolution(workspace, bytes, e, NULL))
      return 98;
  if (aclnnConvolutionBackwardGetWorkspaceSize(y, x, w, NULL, pair(1), pair(1), pair(1), false, pair(0), 4,
                                               aclCreateBoolArray(all, 3), 0, tensor(16384, 1, 4, 8),
                                               tensor(20480, 4, 1, 3), NULL, &bytes, &e) ||
      aclnnConvolutionBackward(workspace, bytes, e, NULL))
    return 97;
  if (aclnnAddGetWorkspaceSize(x, x, aclCreateScalar(&one, ACL_FLOAT), y, &bytes, &e) || aclnnAdd(NULL, 0, e, NULL))
    return 96;
  return aclrtSynchronizeDevice() || aclrtResetDevice(0) || aclFinalize();
}
"""
CALLS, TASKS, SHAPES, MARKS, STEPS = 0x1, 0x800, 0x2, 0x80, 0x40
EVERYTHING = CALLS | TASKS | SHAPES | MARKS | STEPS
SLICES = {"AscendCL@aclnnAdd": 3, "AscendCL@aclnnAddGetWorkspaceSize": 3, "AscendCL@aclrtMemcpyAsync": 3}


def folders(under):
    return sorted(under.glob("PROF_*"))


class Profile:
    """The exported files of a session."""

    def __init__(self, session):
        self.output = session / "mindstudio_profiler_output"
        with open(self._path("msprof", "json"), encoding="utf-8") as f:
            self.events = json.load(f)

    def _path(self, name, suffix):
        (path,) = [p for p in self.output.glob(f"{name}_[0-9]*.{suffix}")]
        return path

    def names(self):
        return {p.name.rsplit("_", 1)[0] for p in self.output.iterdir()}

    def table(self, name):
        with open(self._path(name, "csv"), newline="", encoding="utf-8") as f:
            return list(csv.DictReader(f))

    def slices(self, name):
        return [e for e in self.events if e["ph"] == "X" and e["name"] == name]

    def process(self, name):
        (event,) = [e for e in self.events if e["name"] == "process_name" and e["args"]["name"] == name]
        return event["pid"]


class Profiler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        source = cls.folder / "program.c"
        source.write_text(PROGRAM)
        cls.program = cls.folder / "program"
        subprocess.run([os.environ.get("CC", "cc"), "-g", source, "-o", cls.program, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi", "-lpthread"], check=True)
        cls.all = cls.profile("all", EVERYTHING)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def record(cls, name, switches, *more, status=0):
        out = cls.folder / name
        done = subprocess.run([PREFIX / "bin/cannon", "run", "--quiet", cls.program, out, hex(switches), *more],
                              capture_output=True, text=True)
        if done.returncode != status:
            raise AssertionError(done.stderr)
        (session,) = folders(out)
        return session

    @staticmethod
    def export(session):
        done = subprocess.run([MSPROF, "--export=on", f"--output={session}"], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        return Profile(session)

    @classmethod
    def profile(cls, name, switches):
        return cls.export(cls.record(name, switches))

    # ---- operators

    def test_every_operator_between_start_and_stop_is_recorded_once(self):
        rows = self.all.table("op_summary")
        self.assertEqual([r["OP Type"] for r in rows], ["Add", "Matmul"] * 3)
        self.assertEqual([r["Op Name"] for r in rows], ["aclnnAdd", "aclnnMatmul"] * 3)
        self.assertEqual([r["Task Type"] for r in rows], ["AI_VECTOR_CORE", "AI_CORE"] * 3)
        self.assertEqual({r["Device_id"] for r in rows}, {"0"})
        self.assertEqual(len({(r["Stream ID"], r["Task ID"]) for r in rows}), 6)

    def test_shapes_and_types_are_those_of_the_call(self):
        add, matmul, *_ = self.all.table("op_summary")
        self.assertEqual([add[c] for c in ("Input Shapes", "Input Data Types", "Input Formats")],
                         ["64,32;1,32", "FLOAT;FLOAT", "ND;ND"])
        self.assertEqual([add[c] for c in ("Output Shapes", "Output Data Types", "Output Formats")],
                         ["64,32", "FLOAT", "ND"])
        self.assertEqual([matmul[c] for c in ("Input Shapes", "Output Shapes")], ["64,32;32,16", "64,16"])

    def test_tasks_of_a_stream_follow_each_other(self):
        rows = [r for r in self.all.table("op_summary")]
        ended = 0
        for r in rows:
            start = float(r["Task Start Time(us)"])
            # at this magnitude a double resolves a quarter of a microsecond
            self.assertGreaterEqual(start, ended - 0.5)
            ended = start + float(r["Task Duration(us)"])

    def test_statistics_add_up(self):
        rows = {r["OP Type"]: r for r in self.all.table("op_statistic")}
        for name, r in rows.items():
            times = [float(s["Task Duration(us)"]) for s in self.all.table("op_summary") if s["OP Type"] == name]
            self.assertEqual(int(r["Count"]), 3)
            self.assertAlmostEqual(float(r["Total Time(us)"]), sum(times), places=2)
            self.assertEqual((float(r["Min Time(us)"]), float(r["Max Time(us)"])), (min(times), max(times)))
        self.assertAlmostEqual(sum(float(r["Ratio(%)"]) for r in rows.values()), 100, places=1)

    def test_other_tasks_are_in_the_table_of_tasks(self):
        kinds = [r["kernel_type"] for r in self.all.table("task_time")]
        counts = {kind: kinds.count(kind) for kind in set(kinds)}
        # The points are six ends of steps, the mark, and the trace in the stream.
        self.assertEqual(counts, {"MEMCPY_ASYNC": 3, "AI_VECTOR_CORE": 3, "AI_CORE": 3, "EVENT_RECORD": 3,
                                  "EVENT_WAIT": 1, "MEMSET_ASYNC": 1, "PROFILER_TRACE_EX": 10})

    # ---- the timeline

    def test_calls_are_slices_of_their_thread(self):
        for name, n in SLICES.items():
            self.assertEqual(len(self.all.slices(name)), n, name)
        self.assertEqual(len({e["tid"] for e in self.all.slices("AscendCL@aclnnAdd")}), 1)

    def test_flows_lead_from_the_submission_to_the_task(self):
        device, host = self.all.process("Ascend Hardware"), self.all.process("CANN")
        starts = {e["id"]: e for e in self.all.events if e["ph"] == "s" and e["cat"] == "HostToDevice"}
        ends = {e["id"]: e for e in self.all.events if e["ph"] == "f" and e["cat"] == "HostToDevice"}
        tasks = {(e["pid"], e["tid"], e["ts"]): e for e in self.all.events if e["ph"] == "X" and e["pid"] == device}
        self.assertEqual(starts.keys(), ends.keys())
        adds = 0
        for number, end in ends.items():
            task, start = tasks[end["pid"], end["tid"], end["ts"]], starts[number]
            self.assertEqual(start["pid"], host)
            self.assertLessEqual(float(start["ts"]), float(end["ts"]))
            adds += task["name"] == "aclnnAdd" and any(self.holds(call, start)
                                                       for call in self.all.slices("AscendCL@aclnnAdd"))
        self.assertEqual(adds, 3)

    @staticmethod
    def holds(outer, event):
        start, at = float(outer["ts"]), float(event["ts"])
        return outer["tid"] == event["tid"] and start - 0.5 <= at <= start + outer["dur"] + 0.5

    def test_overlap_shows_times_of_computing(self):
        computing = sum(e["dur"] for e in self.all.slices("Computing"))
        total = sum(float(r["Task Duration(us)"]) for r in self.all.table("op_summary"))
        self.assertAlmostEqual(computing, total, delta=1)
        labels = {e["pid"]: e["args"]["labels"] for e in self.all.events if e["name"] == "process_labels"}
        self.assertEqual(labels[self.all.process("Overlap Analysis")], "NPU 0")

    def test_times_are_wall_clock_times(self):
        session, = folders(self.folder / "all")
        written = (session / "host/start_info").stat().st_mtime
        for e in self.all.events:
            if "ts" in e:
                self.assertLess(abs(float(e["ts"]) / 1e6 - written), 60)

    # ---- calls, steps, marks

    def test_calls_are_counted(self):
        rows = {r["API Name"]: r for r in self.all.table("api_statistic")}
        self.assertEqual(rows["aclnnMatmul"]["Count"], "3")
        self.assertEqual(rows["aclrtSynchronizeDevice"]["Count"], "1")
        self.assertEqual(rows["launch"]["Level"], "node")
        self.assertAlmostEqual(float(rows["aclnnAdd"]["Avg(us)"]) * 3, float(rows["aclnnAdd"]["Time(us)"]), places=1)

    def test_steps_contain_their_tasks(self):
        rows = self.all.table("step_trace")
        self.assertEqual([r["Iteration ID"] for r in rows], ["1", "2", "3"])
        ops = self.all.table("op_summary")
        for i, r in enumerate(rows):
            end = float(r["Iteration End(us)"])
            start = end - float(r["Iteration Time(us)"])
            for op in ops[2 * i:2 * i + 2]:
                self.assertTrue(start - 0.5 <= float(op["Task Start Time(us)"]) <= end + 0.5)

    def test_marks(self):
        rows = {(r["event_type"], r["message"]): r for r in self.all.table("msprof_tx")}
        self.assertEqual(set(rows),
                         {("push/pop", "outer"), ("push/pop", 'inner, "quoted"'), ("mark", 'inner, "quoted"'),
                          ("start/end", "across"), ("marker_ex", "in stream"), ("trace", "01ff" + "00" * 16),
                          ("mark", "moment"), ("start/end", "range"), ("start", "range"), ("end", "range")})
        time = lambda r: (float(r["start_time(us)"]), float(r["end_time(us)"]))
        outer, inner = time(rows["push/pop", "outer"]), time(rows["push/pop", 'inner, "quoted"'])
        self.assertTrue(outer[0] <= inner[0] <= inner[1] - 999 and inner[1] <= outer[1])
        self.assertNotEqual(rows["start/end", "across"]["tid"], rows["push/pop", "outer"]["tid"])
        self.assertGreater(float(rows["marker_ex", "in stream"]["device_time(us)"]), outer[0])
        self.assertEqual(len(self.all.slices("across")), 1)
        self.assertEqual({m: r["domain"] for (_, m), r in rows.items() if r["domain"] != "default"}, {"range": "steps"})
        begin, end = (float(rows[what, "range"]["device_time(us)"]) for what in ("start", "end"))
        self.assertLessEqual(begin, end)

    # ---- switches

    def test_switches_choose_the_records(self):
        calls = self.profile("calls", CALLS)
        self.assertEqual(len(calls.slices("AscendCL@aclnnAdd")), 3)
        self.assertEqual(calls.table("op_summary"), [])  # torch_npu waits until the table exists
        tasks = self.profile("tasks", TASKS)
        self.assertEqual(tasks.slices("AscendCL@aclnnAdd"), [])
        self.assertEqual({r["Input Shapes"] for r in tasks.table("op_summary")}, {"N/A"})
        self.assertNotIn("msprof_tx", tasks.names())
        self.assertNotIn("step_trace", tasks.names())

    def test_hardware_counters_add_no_records(self):
        counters = self.profile("counters", TASKS | 0x4 | 0x10)
        self.assertEqual(len(counters.table("op_summary")), 6)

    # ---- the tool

    def test_files_are_not_writable_by_others(self):
        """torch_npu refuses files that others may write."""
        session, = folders(self.folder / "all")
        paths = [p for p in session.rglob("*")] + [PREFIX / "tools/profiler/profiler_tool/analysis/msprof/msprof.py"]
        for path in paths:
            self.assertFalse(path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path)

    def test_a_second_export_replaces_the_first(self):
        session = shutil.copytree(folders(self.folder / "all")[0], self.folder / "twice" / "PROF_000001_1_A")
        (session / "mindstudio_profiler_output" / "op_summary_20200101000000.csv").touch()
        self.export(session)
        self.assertEqual(len(list((session / "mindstudio_profiler_output").glob("op_summary_*"))), 1)

    def test_a_folder_of_sessions(self):
        out = self.folder / "several"
        for name in ("PROF_000001_1_A", "PROF_000002_1_B"):
            shutil.copytree(folders(self.folder / "all")[0], out / name,
                            ignore=shutil.ignore_patterns("mindstudio_profiler_output"))
        subprocess.run([MSPROF, "--export=on", f"--output={out}"], check=True)
        self.assertEqual(len(list(out.glob("PROF_*/mindstudio_profiler_output"))), 2)

    def test_analyze(self):
        session = shutil.copytree(folders(self.folder / "all")[0], self.folder / "analyzed" / "PROF_000001_1_A")
        subprocess.run([MSPROF, "--analyze=on", f"--output={session}"], check=True)
        self.assertTrue((session / "analyze").is_dir())

    def test_a_program_that_dies_leaves_what_can_be_read(self):
        session = self.record("dies", EVERYTHING, "now", status=7)
        tasks = session / "device_0/data/tasks"
        tasks.write_bytes(tasks.read_bytes() + bytes(20))  # an incomplete record at the end
        self.export(session)

    def test_wrong_arguments_are_reported(self):
        for arguments, words in ((["--export=on", "--output=/nonexistent"], "not a PROF_... folder"),
                                 (["--output=/tmp"], "nothing to do"),
                                 (["--export=on"], "not a PROF_... folder"),
                                 (["--task-time=high", "--export=on"], "--task-time is 'high', expected on, l0"),
                                 (["--storage-limit=1GB", "true"], "--storage-limit is '1GB', expected 200MB"),
                                 (["--application=true", "false"], "two programs"), (["--output"], "no value")):
            done = subprocess.run([MSPROF, *arguments], capture_output=True, text=True, cwd="/proc")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)

    def test_a_program_that_does_not_use_the_profiler(self):
        source = self.folder / "plain.c"
        source.write_text(PLAIN)
        plain = self.folder / "plain"
        subprocess.run([os.environ.get("CC", "cc"), source, "-o", plain, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                        "-lascendcl", f"-Wl,-rpath,{PREFIX}/lib64"], check=True)
        out = self.folder / "run"
        done = subprocess.run([MSPROF, f"--output={out}", plain, "3"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "100042\n")  # the code that aclprofInit returns while msprof records
        session, = folders(out)
        self.assertIn(str(session), done.stderr)
        self.assertEqual(len(Profile(session).slices("AscendCL@aclrtMalloc")), 1)
        done = subprocess.run([MSPROF, f"--output={out}", "/nonexistent"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nonexistent", done.stderr)
        done = subprocess.run([MSPROF, f"--output={out}", "sh", "-c", "kill -9 $$"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 137)
        self.assertIn("no process used a device", done.stderr)

    def test_help(self):
        done = subprocess.run([MSPROF, "--help"], capture_output=True, text=True, check=True)
        self.assertIn("--export=on", done.stdout)
        self.assertNotIn("--type", done.stdout)  # torch_npu interprets the option as support for exporting a database


class CommandLine(unittest.TestCase):
    """CANN's command line, and the tables of memory."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "program.c").write_text(BLOCKS)
        cls.program = cls.folder / "program"
        subprocess.run([os.environ.get("CC", "cc"), cls.folder / "program.c", "-o", cls.program, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", "-lascendcl", f"-Wl,-rpath,{PREFIX}/lib64"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_msprof(self, name, *options):
        """(what was exported, stderr, the folder)"""
        out = self.folder / name
        done = subprocess.run([MSPROF, f"--output={out}", *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        session, = folders(out)
        return Profile(session), done.stderr, session

    def test_cann_s_options(self):
        profile, told, session = self.run_msprof(
            "options", f"--application={self.program} three", "--ascendcl=on", "--runtime-api=on", "--task-time=l1",
            "--aic-metrics=PipeUtilization", "--aicpu=on", "--ai-core=on", "--aic-mode=task-based", "--l2=on",
            "--hccl=on",
            "--sys-hardware-mem=on", "--sys-hardware-mem-freq=50", "--model-execution=on", "--ge-api=l0", "--type=text",
            "--storage-limit=300MB", "--no-such-thing=1", "--delay=3")
        said = [line for line in told.splitlines() if str(session) not in line]
        self.assertEqual(said, ["msprof: --no-such-thing=1 is not known to Cannon, and has no effect",
                                "msprof: --delay=3 has no effect here"])
        self.assertEqual(len(profile.table("operator_memory")), 3)
        done = subprocess.run([MSPROF, "--parse=on", f"--output={session}"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(session / "device_0/info.json.0", encoding="utf-8") as f:  # msprof-analyze looks for it
            info = json.load(f)
        self.assertEqual(info["rank_id"], -1)
        self.assertEqual(info["DeviceInfo"], [{"id": 0, "ai_core_num": 20, "aiv_num": 40, "ai_cpu_core_num": 6,
                                               "aic_frequency": "1800", "aiv_frequency": "1800"}])

    def test_options_choose_what_is_recorded(self):
        profile, *_ = self.run_msprof("less", "--ascendcl=off", "--task-memory=off", self.program)
        self.assertEqual(profile.slices("AscendCL@aclrtMalloc"), [])
        self.assertFalse({"operator_memory", "memory_record", "npu_mem", "npu_module_mem"} & profile.names())
        profile, *_ = self.run_msprof("calls", "--ascendcl=off", "--runtime-api=on", "--task-time=off", self.program)
        self.assertEqual(len(profile.slices("AscendCL@aclrtMalloc")), 1)
        self.assertEqual(profile.table("task_time"), [])

    def test_memory(self):
        profile, *_ = self.run_msprof("memory", self.program)
        kept, freed = profile.table("operator_memory")
        self.assertEqual(list(kept), [
            "Device_id", "Name", "Size(KB)", "Allocation Time(us)", "Duration(us)", "Allocation Total Allocated(KB)",
            "Allocation Total Reserved(KB)", "Release Total Allocated(KB)", "Release Total Reserved(KB)", "Device"])
        self.assertEqual([r["Name"] for r in (kept, freed)], ["aclrtMalloc", "aclrtMallocAlign32"])
        self.assertEqual([kept[c] for c in ("Device_id", "Size(KB)", "Duration(us)", "Release Total Allocated(KB)",
                                            "Device")], ["0", "976.562", "", "", "NPU:0"])
        self.assertEqual((freed["Size(KB)"], freed["Allocation Total Allocated(KB)"],
                          freed["Release Total Allocated(KB)"]), ("0.062", "976.625", "976.562"))
        self.assertGreater(float(freed["Duration(us)"]), 0)
        record = profile.table("memory_record")
        self.assertEqual(list(record[0]), ["Device_id", "Component", "Timestamp(us)", "Total Allocated(KB)",
                                           "Total Reserved(KB)", "Device"])
        self.assertEqual([r["Total Allocated(KB)"] for r in record], ["976.562", "976.625", "976.562"])
        reserved = [r["Total Reserved(KB)"] for r in record]
        self.assertGreaterEqual(float(reserved[0]), 976.562)
        npu = profile.table("npu_mem")
        self.assertEqual(list(npu[0]), ["Device_id", "event", "ddr(KB)", "hbm(KB)", "memory(KB)", "timestamp(us)"])
        self.assertEqual([r["hbm(KB)"] for r in npu], reserved)
        module = profile.table("npu_module_mem")
        self.assertEqual(list(module[0]), ["Device_id", "Component", "Timestamp(us)", "Total Reserved(KB)", "Device"])
        self.assertEqual([r["Total Reserved(KB)"] for r in module if r["Component"] == "RUNTIME"], reserved)
        counters = [e for e in profile.events if e["ph"] == "C" and e["name"] == "APP/HBM"]
        self.assertEqual({e["pid"] for e in counters}, {profile.process("NPU MEM")})
        self.assertEqual([str(round(e["args"]["KB"], 3)) for e in counters], [str(float(r)) for r in reserved])

    def test_links_and_files_of_others_stay(self):
        *_, session = self.run_msprof("kept", self.program)
        mine = self.folder / "mine"
        mine.mkdir()
        (mine / "communication.json").write_text("mine")
        (session / "analyze").symlink_to(mine)
        done = subprocess.run([MSPROF, "--analyze=on", f"--output={session}"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("symbolic link", done.stderr)
        self.assertEqual((mine / "communication.json").read_text(), "mine")
        self.assertEqual([p.name for p in session.glob("analyze*")], ["analyze"])


@unittest.skipIf("san.so" in os.environ.get("LD_PRELOAD", ""), "a sanitizer's build has one level of kernels")
class Implementations(unittest.TestCase):
    """Which implementation computed an operator, and why."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "program.c").write_text(CONVOLUTIONS)
        cls.program = cls.folder / "program"
        subprocess.run([os.environ.get("CC", "cc"), cls.folder / "program.c", "-o", cls.program, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi", f"-Wl,-rpath,{PREFIX}/lib64"],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def operators(self, force):
        env = {**os.environ, "CANNON_ISA": "portable", **({"CANNON_IMPL": force} if force else {})}
        path = self.folder / "report.json"
        subprocess.run([PREFIX / "bin/cannon", "run", "--quiet", "--json", path, self.program], check=True, env=env)
        (process,) = json.loads(path.read_text())["processes"]
        return {o["name"]: o for o in process["operators"]}

    def names(self, force):
        """(name, reason, launches) by operator. The portable level has no implementation for depthwise convolutions."""
        return {name: [(i["name"], i["reason"], i["launches"]) for i in o["implementations"]]
                for name, o in self.operators(force).items()}

    def test_the_first_that_fits_and_pays(self):
        found = self.names(None)
        first = "depthwise, pairs, packed, winograd do not fit; gemm does not pay"
        gradient = "depthwise, pairs, winograd do not fit; gemm does not pay"
        self.assertEqual(found["Convolution"], [("conv=direct", first, 2)])
        self.assertEqual(found["ConvolutionBackward"], [("conv=direct,conv_weight=dots", f"{first} | {gradient}", 1)])
        self.assertEqual(found["Add"], [])

    def test_forced(self):
        found = self.names("conv=gemm,conv_weight=depthwise")
        self.assertEqual(found["Convolution"], [("conv=gemm", "forced by CANNON_IMPL", 2)])
        (name, reason, _), = found["ConvolutionBackward"]
        self.assertEqual(name, "conv=gemm,conv_weight=dots")
        self.assertEqual(reason, "forced by CANNON_IMPL | depthwise, forced by CANNON_IMPL, does not fit; "
                                 "pairs, winograd do not fit; gemm does not pay")

    def test_times_are_those_of_the_operator(self):
        for operator in self.operators(None).values():
            if operator["implementations"]:
                self.assertEqual(sum(i["time_ns"] for i in operator["implementations"]), operator["time_ns"])

    def test_events_of_tasks(self):
        out = self.folder / "profile"
        env = {**os.environ, "CANNON_IMPL": "reference"}
        subprocess.run([MSPROF, f"--output={out}", self.program], check=True, env=env, capture_output=True)
        session, = folders(out)
        profile = Profile(session)
        event, again = profile.slices("aclnnConvolution")
        self.assertEqual((event["args"]["Implementation"], event["args"]["Reason"]),
                         ("conv=reference", "forced by CANNON_IMPL"))
        self.assertEqual(again["args"]["Implementation"], "conv=reference")
        self.assertEqual(profile.slices("aclnnConvolutionBackward")[0]["args"]["Implementation"],
                         "conv=reference,conv_weight=reference")
        self.assertNotIn("Implementation", profile.slices("aclnnAdd")[0]["args"])


if __name__ == "__main__":
    unittest.main()
