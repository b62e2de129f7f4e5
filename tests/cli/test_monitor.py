# SPDX-License-Identifier: Apache-2.0
"""Tests of the tools that observe a program: statistics, call sites, the memory debugger, cannon top, npu-smi info -t.

    CANNON_PREFIX=/path python3 tests/cli/test_monitor.py
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import unittest

from test_cli import CANNON, MIB, NPU_SMI, PREFIX, SANITIZED, CliTest, clean_environment, execute

# Allocates at known source lines, which are found by their marks, and then does what its argument says.
WATCHED = r"""
#include "acl/acl.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) do { int e = (call); if (e) { fprintf(stderr, #call " gave %d\n", e); return 99; } } while (0)

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  void *big, *small[200], *host, *passing;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtMalloc(&big, 90 << 20, ACL_MEM_MALLOC_HUGE_FIRST)); /* MARK big */
  for (int i = 0; i < 200; i++)
    CHECK(aclrtMalloc(&small[i], 1000, ACL_MEM_MALLOC_HUGE_FIRST)); /* MARK small */
  CHECK(aclrtMallocHost(&host, 3 << 20)); /* MARK host */
  for (int i = 0; i < 200; i++)
    CHECK(aclrtFree(small[i])); /* MARK free */
  for (int i = 0; i < 300; i++) {
    CHECK(aclrtMalloc(&passing, 500, ACL_MEM_MALLOC_HUGE_FIRST)); /* MARK passing */
    CHECK(aclrtFree(passing));
  }
  if (strcmp(mode, "twice") == 0 && aclrtFree(small[7])) /* MARK twice */
    printf("%s\n", aclGetRecentErrMsg());
  puts("ready");
  fflush(stdout);
  if (strcmp(mode, "fork") == 0) {
    int status = -1;
    /* The first free succeeds, the second fails; neither counts for the parent. */
    if (fork() == 0) return aclrtFreeHost(host) || !aclrtFree(&status);
    wait(&status);
    return status;
  }
  if (strcmp(mode, "kill") == 0) raise(SIGKILL);
  while (strcmp(mode, "pause") == 0) pause(); /* a loop, since pause() returns after a signal handler */
  if (strcmp(mode, "clean") == 0) {
    CHECK(aclrtFree(big));
    CHECK(aclrtFreeHost(host));
  }
  return 0;
}
"""


# Runs operators in an endless loop.
BUSY = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_relu.h"
#include <stdio.h>

int main(void) {
  const int64_t n = 1 << 20, stride = 1;
  void *p;
  uint64_t bytes;
  aclOpExecutor *executor;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 4 * n, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
  aclTensor *x = aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, p);
  puts("ready");
  fflush(stdout);
  while (!aclnnInplaceReluGetWorkspaceSize(x, &bytes, &executor) && !aclnnInplaceRelu(NULL, 0, executor, NULL))
    if (aclrtSynchronizeStream(NULL)) return 1;
  return 1;
}
"""

# Uses a pool: ten blocks, of which nine are freed; each reuses the memory of the previous one.
POOLED = r"""
#include "acl/acl.h"
#include "cannon/pool.h"

int main(void) {
  cannon_pool_config config = cannon_pool_default_config();
  cannon_pool *pool;
  void *block;
  config.initial_bytes = 16 << 20;
  if (aclInit(NULL) || aclrtSetDevice(0) || cannon_pool_create(&pool, &config)) return 1;
  for (int i = 0; i < 10; ++i)
    if (cannon_pool_alloc(pool, 1 << 20, NULL, &block) ||
        (i < 9 && cannon_pool_free_async(pool, block, NULL)))
      return 1;
  return 0;
}
"""


# Leaves a block of each kind, all with the same number; with an argument, on device 1.
KINDS = r"""
#include "acl/acl.h"

int main(int argc, char **argv) {
  const unsigned device = argc > 1;
  aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {device, ACL_MEM_LOCATION_TYPE_DEVICE}};
  aclrtDrvMemHandle handle;
  void *pinned, *managed;
  (void)argv;
  if (aclInit(NULL) || aclrtSetDevice((int)device) || aclrtMallocHost(&pinned, 1000) ||
      aclrtMemAllocManaged(&managed, 1000, 1) || aclrtFree(managed) || aclrtMemAllocManaged(&managed, 2000, 1) ||
      aclrtMallocPhysical(&handle, 2 << 20, &prop, 0))
    return 1;
  prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
  return aclrtMallocPhysical(&handle, 2 << 20, &prop, 0);
}
"""


def line_of(mark):
    return next(i for i, line in enumerate(WATCHED.splitlines(), 1) if f"MARK {mark} " in line)


class MonitorTest(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.folder / "watched.c"
        source.write_text(WATCHED)
        cls.watched, cls.stripped = cls.folder / "watched", cls.folder / "stripped"
        flags = (f"-I{PREFIX}/include", f"-L{PREFIX}/lib64", f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl")
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-g", "-rdynamic", source, "-o", cls.watched, *flags], check=True)
        (cls.folder / "busy.c").write_text(BUSY)
        cls.busy = cls.folder / "busy"
        subprocess.run([compiler, cls.folder / "busy.c", "-o", cls.busy, *flags, "-lopapi", "-lnnopbase"], check=True)
        subprocess.run([compiler, "-s", "-rdynamic", source, "-o", cls.stripped, *flags], check=True)

    def start(self, *command, **env):
        """Starts a program that prints a line when it is ready and then pauses. The test's clean-up kills it."""
        process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=clean_environment(**env))

        def stop():
            process.kill()
            process.communicate()
        self.addCleanup(stop)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process


class Statistics(MonitorTest):
    def test_json_has_the_counters_of_the_heap(self):
        _, report = self.run_json(self.watched, "clean", options=("--mem", "100M"))
        (process,) = report["processes"]
        (device,) = process["devices"]
        self.assertEqual((device["allocations"], device["frees"], device["live_bytes"], device["requested_bytes"]),
                         (501, 501, 0, 0))
        self.assertEqual(device["sizes"], [{"at_most_bytes": 512, "count": 300}, {"at_most_bytes": 1024, "count": 200},
                                           {"at_most_bytes": 128 * MIB, "count": 1}])
        # one call in 13 is timed and counts for 13
        for latency in device["allocation_latency"], device["free_latency"]:
            self.assertAlmostEqual(latency["count"], 501, delta=13)
        latency = [device["allocation_latency"][f"p{p}_ns"] for p in ("50", "90", "99", "99_9", "100")]
        self.assertEqual(latency, sorted(latency))
        self.assertGreater(latency[0], 0)
        self.assertGreaterEqual(device["peak_committed_bytes"], device["peak_bytes"])
        self.assertGreaterEqual(device["peak_bytes"], 90 * MIB + 200000)
        self.assertGreater(device["hit_rate"], 0.9)
        self.assertGreater(device["alarm_bytes"], 85 * MIB)
        self.assertEqual(process["pinned"]["allocations"], 1)
        self.assertEqual((process["pools"], process["stream_memory"], process["sites"]), ([], [], []))
        self.assertEqual(process["health"]["hit_rate"]["verdict"], "good")
        self.assertEqual(process["health"]["fragmentation"]["verdict"], "good")
        self.assertIn(process["health"]["allocation_us"]["verdict"], ("good", "fair", "bad"))
        self.assertEqual(process["health"]["zero_copy"]["verdict"], "unknown")

    def test_summary_has_memory_health_and_the_alarm(self):
        text = execute(CANNON, "run", "--mem", "100M", self.watched).stderr
        self.assertRegex(text, r"memory +device 0 +peak 90\.\d MiB of 100 MiB, 501 allocations")
        self.assertRegex(text, r"committed 9[0-6]\S* MiB, peak 9[0-6]\S* MiB, cached .*; "
                         r"fragmentation \d\.\d % \(good\); rounding 0\.\d %; hits 9\d\.\d %")
        self.assertRegex(text, r"latency +device 0 +allocation 50 % \S+ \S+, 99 % \S+ \S+; free 50 % \S+ \S+, 99 % ")
        self.assertRegex(text, r"alarm +device 0 +9[02]\.\d MiB of 100 MiB were in use")
        self.assertRegex(text,
                         r"health +allocation \w+ \(\d+\.\d\d us\), fragmentation good \(\d\.\d %\), hit rate good \(9")
        self.assertIn("pinned", text)

    def test_alarm_can_be_set_and_is_logged_once(self):
        for percent, alarmed in (("95", False), ("0", False), ("40", True)):
            with tempfile.TemporaryDirectory() as logs:
                done = execute(CANNON, "run", "--mem", "100M", "--alarm", percent, self.watched,
                               env=clean_environment(ASCEND_GLOBAL_LOG_LEVEL="2", ASCEND_PROCESS_LOG_PATH=logs))
                text = "".join(path.read_text() for path in pathlib.Path(logs).glob("plog-*.log"))
            self.assertEqual("  alarm " in done.stderr, alarmed)
            self.assertEqual(text.count(" are in use, the alarm is at"), int(alarmed), text)

    def test_statistics_survive_kill_9(self):
        done, report = self.run_json(self.watched, "kill", options=("--sites",))
        (process,) = report["processes"]
        self.assertEqual((done.returncode, process["state"]), (-9, "killed"))
        (device,) = process["devices"]
        self.assertEqual((device["allocations"], device["frees"]), (501, 500))
        self.assertEqual(device["requested_bytes"], 90 * MIB)
        self.assertEqual(sorted(site["live_bytes"] for site in process["sites"]), [0, 0, 3 * MIB, 90 * MIB])


    def test_the_next_start_removes_folders_of_killed_runs(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        alive = self.start(CANNON, "run", self.watched, "pause", TMPDIR=str(folder))
        (kept,) = folder.iterdir()
        killed = self.start(CANNON, "run", self.watched, "pause", TMPDIR=str(folder))
        killed.kill()
        killed.wait()
        self.assertEqual(len(list(folder.iterdir())), 2)
        (folder / "cannon-run-file").write_text("not a folder")
        execute(CANNON, "run", "true", env=clean_environment(TMPDIR=str(folder)))
        self.assertEqual({path.name for path in folder.iterdir()}, {kept.name, "cannon-run-file"})
        self.assertEqual(sorted(path.suffix for path in kept.iterdir()), [".lock", ".stats"])
        alive.terminate()
        alive.wait()
        self.assertFalse(kept.exists())

    def test_forked_child_counts_nothing(self):
        done, report = self.run_json(self.watched, "fork", options=("--sites",))
        self.assertEqual(done.returncode, 0)
        (process,) = report["processes"]
        self.assertEqual((process["errors"], process["pinned"]["frees"]), (0, 0))

    @unittest.skipIf(SANITIZED, "links libcannon itself")
    def test_pools_are_counted_separately(self):
        source, program = self.folder / "pooled.c", self.folder / "pooled"
        source.write_text(POOLED)
        subprocess.run([os.environ.get("CC", "cc"), source, "-o", program, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                        f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl", "-lcannon"], check=True)
        _, report = self.run_json(program, options=("--mem", "100M"))
        (process,) = report["processes"]
        (pool,) = process["pools"]
        self.assertEqual((pool["name"], pool["device"], pool["allocations"], pool["frees"]), ("pool 1", 0, 10, 9))
        self.assertEqual(pool["live_bytes"], (1 << 20) + 32)
        self.assertGreaterEqual(pool["peak_committed_bytes"], 16 * MIB)
        self.assertEqual(pool["hit_rate"], 1)
        (stream,) = process["stream_memory"]
        self.assertEqual((stream["device"], stream["allocations"], stream["frees"], stream["hits"]), (0, 10, 9, 10))
        self.assertEqual((stream["live_bytes"], stream["peak_bytes"]), ((1 << 20) + 32, (1 << 20) + 32))
        self.assertEqual((stream["requested_bytes"], stream["hit_rate"]), (1 << 20, 1))
        self.assertEqual(stream["sizes"], [{"at_most_bytes": 1 << 20, "count": 10}])
        self.assertEqual((stream["allocation_latency"]["count"], stream["free_latency"]["count"]), (10, 9))
        self.assertEqual(process["devices"][0]["allocations"], 10)
        self.assertEqual(process["leaks"]["count"], 1)


    def test_every_kind_of_memory_is_counted(self):
        source, program = self.folder / "kinds.c", self.folder / "kinds"
        source.write_text(KINDS)
        subprocess.run([os.environ.get("CC", "cc"), "-g", source, "-o", program, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl"], check=True)
        recording = self.folder / "kinds.rec"
        _, report = self.run_json(program, options=("--mem", "100M", "--sites", "--record", recording))
        (process,) = report["processes"]
        self.assertEqual((process["managed"]["allocations"], process["managed"]["frees"]), (2, 1))
        self.assertEqual(process["managed"]["requested_bytes"], 2000)
        leaks = {(block["call"], block["device"], block["number"], block["line"])
                 for block in process["leaks"]["blocks"]}
        self.assertEqual(process["leaks"]["count"], 4)
        self.assertEqual({(call, device) for call, device, _, _ in leaks},
                         {("aclrtMallocHost", None), ("aclrtMemAllocManaged", None), ("aclrtMallocPhysical", 0),
                          ("aclrtMallocPhysical", None)})
        text = execute(CANNON, "run", "--mem", "100M", program).stderr
        self.assertRegex(text, r"memory +managed +peak 2\.00 MiB of .*, 2\.00 MiB left")
        self.assertIn("managed, allocation 2, aclrtMemAllocManaged from kinds.c:", text)
        self.assertIn("device 0, allocation 1, aclrtMallocPhysical from kinds.c:", text)
        text = execute(CANNON, "run", "--mem", "100M", "--devices", "2", program, "1").stderr
        self.assertIn(", 2 devices of 100 MiB, ", text)
        self.assertIn("device 1, allocation 1, aclrtMallocPhysical from kinds.c:", text)
        sites = {site["call"]: site["live_bytes"] for site in process["sites"] if site["live_bytes"]}
        self.assertEqual(sites["aclrtMallocPhysical"], 2 << 20)
        for device, blocks, live in (("0", 1, "2.00 MiB"), ("host", 2, "2.00 MiB"), ("managed", 2, "1.95 KiB")):
            done = execute(CANNON, "replay", "--repeat", "1", "--allocator", "pool", "--device", device, recording)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f" {blocks} blocks, peak live {live}", done.stdout)


# A parent that uses no device, with two children that use one.
FORKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"

int main(void) {
  for (int i = 1; i <= 2; i++) {
    if (fork()) continue;
    void *p;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, i << 20, ACL_MEM_MALLOC_HUGE_FIRST)) return 1;
    return aclrtFree((char *)p + 1) == 0; /* refused */
  }
  int status, bad = 0;
  while (wait(&status) > 0) bad |= status;
  return bad != 0;
}
"""


class Forks(MonitorTest):
    def test_children_of_a_parent_without_device(self):
        source, program = self.folder / "forks.c", self.folder / "forks"
        source.write_text(FORKS)
        subprocess.run([os.environ.get("CC", "cc"), source, "-o", program, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                        f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl"], check=True)
        leaks = f"--leaks=report={self.folder}/forks.%p.txt"
        for options in ((), ("--sites",), (leaks,), ("--sites", leaks)):
            with self.subTest(options):
                done, report = self.run_json(program, options=options)
                self.assertEqual(done.returncode, 0, done.stderr)
                used = [p for p in report["processes"] if p["devices"]]
                self.assertEqual(len({p["pid"] for p in used}), 2)
                self.assertEqual(sorted(p["devices"][0]["requested_bytes"] for p in used), [1 << 20, 2 << 20])
                self.assertEqual([(p["state"], p["leaks"]["count"]) for p in used], [("ended", 1)] * 2)
                self.assertEqual(len(report["processes"]), 2)
                if "--sites" in options:
                    self.assertEqual(sorted(p["sites"][0]["live_bytes"] for p in used), [1 << 20, 2 << 20])
                if leaks in options:
                    for p in used:
                        report = self.folder / f"forks.{p['pid']}.txt"
                        self.assertEqual((p["memory_report"], p["wrong_frees"]), (str(report), 1))
                        self.assertIn("Live blocks: 1, ", report.read_text())


class Sites(MonitorTest):
    def test_sites_have_lines_counts_and_peaks(self):
        _, report = self.run_json(self.watched, options=("--sites",))
        sites = {site["line"]: site for site in report["processes"][0]["sites"]}
        want = {"big": (1, 90 * MIB, 90 * MIB), "small": (200, 200000, 0), "host": (1, 3 * MIB, 3 * MIB),
                "passing": (300, 500, 0)}
        self.assertEqual(set(sites), {line_of(mark) for mark in want})
        for mark, (n, peak, live) in want.items():
            site = sites[line_of(mark)]
            self.assertEqual((site["allocations"], site["peak_bytes"], site["live_bytes"]), (n, peak, live), mark)
            self.assertTrue(site["file"].endswith("/watched.c"), site)
            self.assertEqual((site["module"], site["where"]), (str(self.watched), f"watched.c:{line_of(mark)} (main)"))
        self.assertEqual(sites[line_of("host")]["call"], "aclrtMallocHost")
        peaks = [site["peak_bytes"] for site in report["processes"][0]["sites"]]
        self.assertEqual(peaks, sorted(peaks, reverse=True))

    def test_summary_lists_the_largest(self):
        text = execute(CANNON, "run", "--sites", self.watched).stderr
        peak, left = text.split("by peak\n")[1].split("by what is left\n")
        self.assertRegex(peak, rf"^ +90\.0 MiB +90\.0 MiB +1  aclrtMalloc, watched\.c:{line_of('big')} \(main\)\n")
        self.assertIn(f"watched.c:{line_of('small')} (main)", peak)
        self.assertIn(f"watched.c:{line_of('host')} (main)", left)
        self.assertNotIn(f"watched.c:{line_of('small')} (main)", left.split("created")[0])
        self.assertNotIn("by peak", execute(CANNON, "run", self.watched).stderr)

    def test_without_debug_information_symbols_are_named(self):
        _, report = self.run_json(self.stripped, options=("--sites",))
        for site in report["processes"][0]["sites"]:
            self.assertRegex(site["where"], r"^stripped\(main\+0x[0-9a-f]+\)$")
            self.assertNotIn("line", site)


# Call sites whose names only debugging tools know: a static function, and a C++ function with a long name.
NAMED = r"""
#include "acl/acl.h"

static __attribute__((noinline)) void *hidden(size_t n) {
  void *p = nullptr;
  return aclrtMalloc(&p, n, ACL_MEM_MALLOC_HUGE_FIRST) ? nullptr : p;
}
namespace a_namespace_of_a_large_library {
template <typename T> struct allocator_of {
  __attribute__((noinline)) T *take(size_t n) {
    void *p = nullptr;
    return aclrtMalloc(&p, n * sizeof(T), ACL_MEM_MALLOC_HUGE_FIRST) ? nullptr : static_cast<T *>(p);
  }
};
}

int main() {
  a_namespace_of_a_large_library::allocator_of<float> all;
  return aclInit(nullptr) || aclrtSetDevice(0) || !hidden(1 << 20) || !all.take(1 << 10);
}
"""


class Names(MonitorTest):
    def test_static_functions_and_names_of_cpp(self):
        source, program, path = self.folder / "named.cpp", self.folder / "named", self.folder / "named.txt"
        source.write_text(NAMED)
        subprocess.run(["c++", source, "-O1", "-o", program, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                        f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl"], check=True)
        done = execute(CANNON, "run", "--sites", f"--leaks=report={path}", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        method = r"a_namespace_of_a_large_library::allocator_of<float>::take(unsigned long)"
        for text in (done.stderr.split("by peak\n")[1], path.read_text()):
            for name in ("hidden(unsigned long)", method):
                self.assertRegex(text, re.escape(f"named({name}+0x"))


class Leaks(MonitorTest):
    def test_report_has_source_lines(self):
        path = self.folder / "leaks.txt"
        done = execute(CANNON, "run", f"--leaks=report={path}", self.watched, "twice")
        self.assertIn(f"memory report: {path}", done.stderr)
        self.assertIn("wrong frees: 1", done.stderr)
        self.assertRegex(done.stdout,
                         r"it was freed by watched\(main\+0x\w+\) \(allocation 9, 1000 bytes, by aclrtMalloc from")
        text = path.read_text()
        self.assertIn(f"Live blocks: 2, {93 * MIB} bytes", text)
        for mark, before in (("big", f"1 block of {90 * MIB} bytes by aclrtMalloc\n    from "),
                             ("twice", "\n    from "),
                             ("free", "    freed from "), ("small", "by aclrtMalloc\n    from ")):
            self.assertRegex(text, re.escape(before) + rf"watched\(main\+0x\w+\) \S*/watched\.c:{line_of(mark)}\n")
        self.assertIn(f"watched.c:{line_of('big')} (main)", done.stderr.split("leaks: 2 blocks")[1])

    def test_default_path_contains_the_process_id(self):
        folder = self.folder / "reports"
        folder.mkdir()
        execute(CANNON, "run", "--quiet", "--leaks", "sh", "-c", f"'{self.watched}'; '{self.watched}' clean",
                cwd=folder)
        names = sorted(path.name for path in folder.iterdir())
        self.assertEqual(len(names), 2, names)
        for name in names:
            self.assertRegex(name, r"^cannon-leaks\.\d+\.txt$")
        live = sorted(re.search(r"Live blocks: (\d+)", (folder / name).read_text())[1] for name in names)
        self.assertEqual(live, ["0", "2"])

    def test_json_names_report_and_wrong_frees(self):
        path = self.folder / "%p.txt"
        _, report = self.run_json(self.watched, "twice", options=(f"--leaks=report={path}",))
        (process,) = report["processes"]
        self.assertEqual(process["memory_report"], str(self.folder / f"{process['pid']}.txt"))
        self.assertEqual(process["wrong_frees"], 1)
        lines = [block["line"] for block in process["leaks"]["blocks"]]
        self.assertEqual(lines, [line_of("big"), line_of("host")])

    def test_program_that_cannon_did_not_start(self):
        path = self.folder / "alone.txt"
        process = self.start(self.watched, "pause", CANNON_LEAKS=f"report={path},signal=USR1")
        process.send_signal(signal.SIGUSR1)
        for _ in range(1000):
            if path.exists() and path.read_text().endswith("\n\n"):
                break
            time.sleep(0.01)
        text = path.read_text()
        self.assertIn(f"memory of process {process.pid} ", text)
        self.assertIn("on a signal", text)
        self.assertRegex(text, r"from watched\(main\+0x\w+\) \[" + re.escape(str(self.watched)) + r"\+0x\w+\]")

    def test_a_signal_to_cannon_run_writes_a_report(self):
        path = self.folder / "passed.txt"
        process = self.start(CANNON, "run", f"--leaks=report={path}", self.watched, "pause")
        process.send_signal(signal.SIGUSR2)
        for _ in range(1000):
            if path.exists() and "on a signal" in path.read_text():
                break
            time.sleep(0.01)
        self.assertIn("on a signal", path.read_text())

    def test_report_to_the_standard_error(self):
        done = execute(CANNON, "run", "--quiet", "--leaks=report=/dev/stderr", self.watched)
        self.assertIn("Live blocks: 2, ", done.stderr)

    def test_report_that_cannot_be_written(self):
        done = execute(CANNON, "run", "--leaks=report=/no/such/folder/x", self.watched)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot write /no/such/folder/x: No such file", done.stderr)
        environment = clean_environment(CANNON_LEAKS="report=/no/such/folder/x", LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        done = execute(self.watched, env=environment)
        self.assertEqual(done.returncode, 0)
        self.assertIn("the memory report /no/such/folder/x can't be written: No such file", done.stderr)

    def test_acl_mem_debug_turns_it_on(self):
        for value, wanted in (("1", True), ("0", False)):
            with tempfile.TemporaryDirectory() as folder:
                environment = clean_environment(ACL_MEM_DEBUG=value, LD_LIBRARY_PATH=str(PREFIX / "lib64"))
                done = execute(self.watched, env=environment, cwd=folder)
                self.assertEqual(done.returncode, 0)
                reports = list(pathlib.Path(folder).glob("cannon-leaks.*.txt"))
                self.assertEqual(len(reports), int(wanted))
                self.assertEqual("cannon: ACL_MEM_DEBUG: 2 of " in done.stderr, wanted, done.stderr)
                if wanted:
                    self.assertIn(f"; the report is {reports[0]}\n", done.stderr)


class Live(MonitorTest):
    def pid_of(self, process):
        """The process id of the program under `cannon run`."""
        return int(pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])

    def fields(self, *command, **env):
        done = execute(*command, env=clean_environment(**env))
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            self.assertTrue(not line or re.fullmatch(r"\t.{30} : \S+", line), line)
        return {k.strip(): v for k, v in (line.split(" : ") for line in done.stdout.splitlines() if line)}

    def folder_with_a_program(self, **env):
        """A statistics folder for npu-smi that excludes other programs on this machine, and a program that uses it."""
        folder = tempfile.mkdtemp(dir=self.folder)
        return folder, self.start(self.watched, "pause", CANNON_STATS_DIR=folder, **env)

    def test_npu_smi_usages_and_memory_while_a_program_runs(self):
        folder, process = self.folder_with_a_program(CANNON_MEM=str(100 * MIB))
        here = {"CANNON_STATS_DIR": folder, "CANNON_MEM": str(512 * MIB)}
        usages = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", **here)
        self.assertEqual(list(usages), [
            "NPU ID", "Chip Count", "DDR Capacity(MB)", "DDR Usage Rate(%)", "DDR Hugepages Total(page)",
            "DDR Hugepages Usage Rate(%)", "HBM Capacity(MB)", "HBM Usage Rate(%)", "Aicore Usage Rate(%)",
            "Aivector Usage Rate(%)", "Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)", "DDR Bandwidth Usage Rate(%)",
            "HBM Bandwidth Usage Rate(%)", "Chip ID"])
        self.assertEqual(usages["HBM Capacity(MB)"], "100")
        self.assertRegex(usages["HBM Usage Rate(%)"], r"^9[0-6]$")
        memory = self.fields(NPU_SMI, "info", "-t", "memory", "-i", "0", **here)
        self.assertEqual(list(memory), ["NPU ID", "DDR Capacity(MB)", "DDR Clock Speed(MHz)", "HBM Capacity(MB)",
                                        "HBM Clock Speed(MHz)", "HBM Temperature(C)", "HBM Manufacturer ID", "Chip ID"])
        self.assertEqual(memory["HBM Capacity(MB)"], "100")
        one = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", "-c", "0", **here)
        self.assertEqual(set(usages) - set(one), {"NPU ID", "Chip Count", "Chip ID"})
        process.kill()
        process.wait()
        idle = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", **here)
        self.assertEqual((idle["HBM Capacity(MB)"], idle["HBM Usage Rate(%)"]), ("512", "0"))

    def test_npu_smi_measures_load(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        self.start(self.busy, CANNON_STATS_DIR=folder)
        for _ in range(100):  # each call measures for a tenth of a second
            usages = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", CANNON_STATS_DIR=folder)
            if 0 < int(usages["Aicore Usage Rate(%)"]) <= 100:
                return
        self.fail(usages)

    def test_npu_smi_of_a_device_without_hbm(self):
        here = {"CANNON_STATS_DIR": str(self.folder), "CANNON_DEVICE": "Ascend310P3", "CANNON_MEM": str(64 * MIB)}
        usages = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", **here)
        self.assertEqual(usages["DDR Capacity(MB)"], "64")
        self.assertNotIn("HBM Capacity(MB)", usages)

    def test_npu_smi_table_has_the_process(self):
        folder, process = self.folder_with_a_program(CANNON_MEM=str(100 * MIB), CANNON_DEVICES="2")
        table = execute(NPU_SMI, "info", env=clean_environment(CANNON_STATS_DIR=folder, CANNON_DEVICES="2")).stdout
        self.assertRegex(table, rf"\n\| 0 +0 +\| {process.pid} +\| watched +\| 9[0-6] +\|\n")
        self.assertRegex(table, r" 9[0-6] +/ 100 +\|\n")
        self.assertIn("No running processes found in NPU 1", table)
        self.assertNotIn("No running processes found in NPU 0", table)
        self.assertEqual({len(line) for line in table.splitlines()}, {98})

    def test_npu_smi_lists_all_devices_in_use(self):
        folder, _ = self.folder_with_a_program(CANNON_MEM=str(100 * MIB), CANNON_DEVICES="3")
        here = {"CANNON_STATS_DIR": folder, "CANNON_MEM": str(512 * MIB)}
        self.assertEqual(self.fields(NPU_SMI, "info", "-t", "usages", "-i", "2", **here)["HBM Usage Rate(%)"], "0")
        table = execute(NPU_SMI, "info", env=clean_environment(**here)).stdout
        self.assertEqual(table.count(" 910B3 "), 3)
        self.assertIn("No running processes found in NPU 2", table)
        done = execute(NPU_SMI, "info", "-t", "usages", "-i", "3", env=clean_environment(**here))
        self.assertEqual((done.returncode, done.stderr), (1, "npu-smi: -i is 3, expected a device below 3\n"))

    def test_npu_smi_numbers_physical_devices(self):
        folder, process = self.folder_with_a_program(CANNON_MEM=str(100 * MIB), CANNON_DEVICES="3",
                                                     ASCEND_RT_VISIBLE_DEVICES="1,2")
        here = {"CANNON_STATS_DIR": folder, "CANNON_DEVICES": "3", "ASCEND_RT_VISIBLE_DEVICES": "2"}
        rates = [self.fields(NPU_SMI, "info", "-t", "usages", "-i", device, **here)["HBM Usage Rate(%)"]
                 for device in "012"]
        self.assertEqual((rates[0], rates[2]), ("0", "0"))
        self.assertRegex(rates[1], r"^9[0-6]$")
        table = execute(NPU_SMI, "info", env=clean_environment(**here)).stdout
        self.assertRegex(table, rf"\n\| 1 +0 +\| {process.pid} +\| watched +\|")
        self.assertIn("No running processes found in NPU 0", table)

    def test_npu_smi_finds_programs_wherever_their_folder_is(self):
        process = self.start(CANNON, "run", self.watched, "pause")
        self.assertRegex(execute(NPU_SMI, "info").stdout, rf"\n\| 0 +0 +\| {self.pid_of(process)} +\| watched +\|")

    def test_programs_that_cannon_did_not_start_show_their_memory(self):
        ledger = str(self.folder / "machine.ledger")
        here = {"CANNON_LEDGER": ledger, "CANNON_STATS_DIR": tempfile.mkdtemp(dir=self.folder),
                "CANNON_MEM": str(512 * MIB)}
        process = self.start(self.watched, "pause", CANNON_LEDGER=ledger, CANNON_MEM=str(512 * MIB))
        table = execute(NPU_SMI, "info", env=clean_environment(**here)).stdout
        self.assertRegex(table, rf"\n\| 0 +0 +\| {process.pid} +\| watched +\| 9[0-6] +\|\n")
        self.assertRegex(table, r" 9[0-6] +/ 512 +\|\n")
        usages = self.fields(NPU_SMI, "info", "-t", "usages", "-i", "0", **here)
        self.assertEqual((usages["HBM Capacity(MB)"], usages["HBM Usage Rate(%)"]), ("512", "18"))
        self.assertRegex(execute(CANNON, "top", "--once", env=clean_environment(**here)).stdout,
                         rf"\n +{process.pid} +- +9\S* MiB +-  {self.watched}\n")
        one = execute(CANNON, "top", "--once", process.pid, env=clean_environment(**here))
        self.assertRegex(one.stdout,
                         rf"^{self.watched} \(process {process.pid}\)\n  memory      device 0  committed 9\S* MiB\n")
        process.kill()
        process.wait()
        self.assertIn("No running processes found in NPU 0",
                      execute(NPU_SMI, "info", env=clean_environment(**here)).stdout)
        dead = execute(CANNON, "top", "--once", process.pid, env=clean_environment(**here))
        self.assertEqual((dead.returncode, "is not running" in dead.stderr), (1, True))

    def test_npu_smi_uses_the_default_ledger(self):
        process = self.start(self.watched, "pause", CANNON_MEM=str(514 * MIB))
        self.assertRegex(execute(NPU_SMI, "info").stdout, rf"\n\| 0 +0 +\| {process.pid} +\| watched +\| 9[0-6] +\|\n")

    def test_a_process_is_counted_once(self):
        ledger = str(self.folder / "one.ledger")
        folder, process = self.folder_with_a_program(CANNON_LEDGER=ledger, CANNON_MEM=str(100 * MIB))
        here = {"CANNON_LEDGER": ledger, "CANNON_STATS_DIR": folder, "CANNON_MEM": str(100 * MIB)}
        table = execute(NPU_SMI, "info", env=clean_environment(**here)).stdout
        self.assertEqual(table.count(f" {process.pid} "), 1)
        self.assertRegex(table, r" 9[0-6] +/ 100 +\|\n")

    def test_an_invalid_ledger_is_ignored(self):
        ledger = self.folder / "rubbish.ledger"
        for text in (b"", b"CNNM" + bytes(range(256)) * 4096):
            ledger.write_bytes(text)
            ledger.chmod(0o600)
            here = {"CANNON_LEDGER": str(ledger), "CANNON_STATS_DIR": tempfile.mkdtemp(dir=self.folder)}
            done = execute(CANNON, "top", "--once", env=clean_environment(**here))
            self.assertEqual((done.returncode, done.stderr, len(done.stdout.splitlines())), (0, "", 1))
        os.unlink(ledger)
        os.mkfifo(ledger)
        self.assertEqual(execute(CANNON, "top", "--once", env=clean_environment(**here), timeout=20).returncode, 0)

    def test_npu_smi_refuses_wrong_arguments(self):
        for arguments, named in ((("-t", "paint", "-i", "0"), "'paint'"), (("-t", "usages", "-c", "0"), "-i is ''"),
                                 (("-i", "0"), "expected -t before it, with one of"),
                                 (("-i", "9"), "-i is 9, expected a device below 1"),
                                 (("-t", "usages", "-i", "1"), "-i is 1"),
                                 (("-t", "usages", "-i", "x"), "'x'"), (("-l", "-m"), "several of"),
                                 (("-t", "usages", "-i", "0", "-c", "1"), "-c is '1'"), (("-d", "1"), "-d is '1'"),
                                 (("watch", "-s", "px"), "-s is 'px'"), (("watch", "-d", "0"), "-d is '0'"),
                                 (("-t", "usages", "-i", "0", "more"), "'more'"), (("-z",), "'-z'")):
            done = execute(NPU_SMI, "info", *arguments, env=clean_environment(CANNON_STATS_DIR=str(self.folder)))
            self.assertEqual(done.returncode, 1, arguments)
            self.assertIn(named, done.stderr)

    def test_npu_smi_has_the_tables_that_scripts_read(self):
        """The words are those that exporters, schedulers and monitors of the field look for."""
        ledger = str(self.folder / "tables.ledger")
        folder, process = self.folder_with_a_program(CANNON_MEM=str(100 * MIB), CANNON_DEVICES="2",
                                                     CANNON_LEDGER=ledger)
        here = {"CANNON_STATS_DIR": folder, "CANNON_DEVICES": "2", "CANNON_LEDGER": ledger}
        show = lambda *a: execute(NPU_SMI, "info", *a, env=clean_environment(**here)).stdout
        self.assertEqual(re.findall(r"(\w+ \w+) +: (\d+)", show("-l")),
                         [("Total Count", "2"), ("NPU ID", "0"), ("Chip Count", "1"), ("NPU ID", "1"),
                          ("Chip Count", "1")])
        head, *rows = show("-m").splitlines()
        self.assertRegex(head, r"^\s*NPU ID\s+Chip ID\s+Chip Logic ID\s+Chip Name\s*$")
        self.assertEqual([row.split() for row in rows],
                         [["0", "0", "0", "Ascend", "910B3"], ["1", "0", "1", "Ascend", "910B3"]])
        expected = {"board": ("Product Name", "Software Version", "PCIe Bus Info", "Chip Count"),
                    "common": ("Chip ID", "HBM Usage Rate(%)", "Aicore Freq(MHZ)", "Aicore Count", "Temperature(C)",
                               "NPU Real-time Power(W)"),
                    "ecc": ("HBM Single Bit Error Count",), "health": ("Health",),
                    "power": ("NPU Real-time Power(W)", "Chip ID"), "product": ("Product Type",),
                    "temp": ("NPU Temperature (C)",)}
        for kind, words in expected.items():
            found = self.fields(NPU_SMI, "info", "-t", kind, "-i", "0", **here)
            self.assertEqual([w for w in words if w not in found], [], kind)
        self.assertEqual(show("-t", "power").count("NPU Real-time Power(W) "), 2)
        self.assertNotIn("NPU ID", show("-t", "power", "-i", "0", "-c", "0"))
        self.assertEqual(len(show("-t", "product", "-i", "0").split(":")), 2)
        chip = self.fields(NPU_SMI, "info", "-t", "board", "-i", "1", "-c", "0", **here)
        self.assertEqual(chip["Chip Name"], "910B3")
        self.assertRegex(show("-t", "proc-mem", "-i", "0"),
                         rf"\tProcess id:{process.pid} +Process name:watched +Process memory\(MB\):9[0-6]\n")
        self.assertIn("\tNo process in device.\n", show("-t", "proc-mem", "-i", "1"))
        names, first, second, *_ = show("-t", "topo").splitlines()
        self.assertEqual(names.split(), ["NPU0", "NPU1", "CPU", "Affinity"])
        self.assertEqual((first.split()[:3], second.split()[:3]), (["NPU0", "X", "HCCS"], ["NPU1", "HCCS", "X"]))
        self.assertRegex(first.split()[3], r"^[\d,-]+$")

    def test_npu_smi_has_the_links_errors_and_virtual_devices(self):
        here = {"CANNON_STATS_DIR": str(self.folder), "CANNON_DEVICES": "2", "CANNON_MEM": "4G"}
        show = lambda *a, **more: execute(NPU_SMI, "info", "-t", *a, env=clean_environment(**here, **more))
        ask = lambda *a: {line[1:31].strip(): line[34:] for line in show(*a).stdout.splitlines() if line}
        for kind in ("pcie-err", "err-count"):
            self.assertEqual(ask(kind, "-i", "1"),
                             {"NPU ID": "1", "TX Error Count": "0", "RX Error Count": "0", "Lcrc Error Count": "0",
                              "Ecrc Error Count": "0", "Retry Count": "0"})
        links = ask("hccs", "-i", "0", "-c", "0")
        self.assertEqual((links["hccs health status"], links["hccs first error lane"]), ("OK", "NA"))
        for name in ("lane mode", "link lane list", "link speed", "tx packets", "tx bytes", "rx packets", "rx bytes",
                     "retry count", "error count"):
            self.assertRegex(links[f"hccs {name}"], r"^\[\d+( \d+){6}\]$")
        self.assertEqual(ask("flash", "-i", "0", "-c", "0"),
                         {"Flash Count": "1", "Flash ID": "0", "Manufacturer ID": "0x0", "Capacity(MB)": "64"})
        self.assertEqual(ask("p2p-enable", "-i", "0"), {"P2P-Enable Status": "True"})
        self.assertEqual(ask("vnpu-mode"), {"vnpu-mode": "docker"})
        self.assertEqual(ask("vnpu-cfg-recover"), {"VNPU config recover mode": "Enable"})
        self.assertEqual(ask("ecc-enable", "-i", "0"), {"HBM ECC-Enable Status": "True"})
        table = show("info-vnpu", "-i", "0", "-c", "0").stdout
        self.assertRegex(table, r"\| 20/20 +4/4 +6/6 +NA/NA ")
        self.assertIn("| Total number of vnpu: 0  ", table)
        self.assertEqual({len(line) for line in table.splitlines()}, {81})
        self.assertEqual(show("vnpu", "-i", "0").stdout, table)
        for kind, more in (("nve-level", {}), ("user-config", {}), ("hccs", {"CANNON_DEVICE": "Ascend310P3"})):
            done = show(kind, "-i", "0", "-c", "0", **more)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (0, f"This device does not support querying {kind}.\n", ""))
        self.assertIn("-t is 'paint', expected board, common, ecc, ", show("paint").stderr)

    def test_npu_smi_watch(self):
        folder, _ = self.folder_with_a_program(CANNON_MEM=str(100 * MIB), CANNON_DEVICES="2")
        here = {"CANNON_STATS_DIR": folder, "CANNON_DEVICES": "2"}
        with subprocess.Popen([NPU_SMI, "info", "watch", "-i", "1", "-s", "pm"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE, env=clean_environment(**here)) as watch:
            lines = [watch.stdout.readline().split() for _ in range(3)]
            self.assertEqual(lines, [["NpuID(Idx)", "ChipId(Idx)", "Pwr(W)", "Memory(%)"], ["1", "0", "0.0", "0"],
                                     ["1", "0", "0.0", "0"]])
            watch.stdout.close()  # it ends when nobody reads
            watch.wait(timeout=20)

    def test_top_once(self):
        process = self.start(CANNON, "run", "--mem", "100M", "--sites", self.watched, "pause")
        pid = self.pid_of(process)
        done = execute(CANNON, "top", "--once", pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in (f"watched (process {pid})", "so far", "90.0 MiB live", "501 allocations", "hit rate good",
                     f"watched.c:{line_of('big')} (main)"):
            self.assertIn(text, done.stdout)
        self.assertIn(f"watched (process {pid})", execute(CANNON, "top", "--once", process.pid).stdout)
        self.assertRegex(execute(CANNON, "top", "--once").stdout, rf"\n +{pid} +93?\S* MiB +\S+ MiB +0  {self.watched}")

    def test_top_ends_with_the_program(self):
        process = self.start(CANNON, "run", "--quiet", self.watched, "pause")
        pid = self.pid_of(process)
        with subprocess.Popen([CANNON, "top", "--interval", "0.1", str(pid)], stdout=subprocess.PIPE, text=True,
                              env=clean_environment()) as top:
            lines = []
            while not any(line.startswith("now: ") for line in lines):
                lines.append(top.stdout.readline())
            os.kill(pid, signal.SIGKILL)
            rest, _ = top.communicate(timeout=60)
            self.assertEqual(top.returncode, 0)
        self.assertIn("did not reach its end", rest)
        self.assertRegex("".join(lines), r"now: 0 allocations/s, 0 operators/s \(0 % of a core\), 0 B/s copied")

    def test_program_with_a_folder_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(self.watched, "pause", CANNON_STATS_DIR=folder)
            self.assertIn("501 allocations", execute(CANNON, "top", "--once", process.pid).stdout)
            process.kill()
            process.wait()
            dead = execute(CANNON, "top", "--once", process.pid)
            self.assertEqual(dead.returncode, 1)
            self.assertIn("is not running", dead.stderr)
            kept = execute(CANNON, "top", "--once", process.pid, env=clean_environment(CANNON_STATS_DIR=folder))
            self.assertIn("501 allocations", kept.stdout)
            self.assertIn("did not reach its end", kept.stdout)

    def test_top_refuses_wrong_arguments(self):
        for arguments, status in ((("x",), 2), (("1", "2"), 2), (("-3",), 2), (("--interval", "0"), 2),
                                  (("--nonsense",), 2), ((str(os.getpid()),), 1)):
            done = execute(CANNON, "top", *arguments)
            self.assertEqual(done.returncode, status, arguments)
            self.assertTrue(done.stderr.startswith("cannon top: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
