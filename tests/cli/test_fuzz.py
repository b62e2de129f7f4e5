# SPDX-License-Identifier: Apache-2.0
"""Tests of injected failures (`cannon run --fail`), of --schedule, and of `cannon fuzz`.

    CANNON_PREFIX=/path python3 tests/cli/test_fuzz.py
"""
import json
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

from test_cli import CANNON, PREFIX, CliTest, clean_environment

# Two small programs in one: the mode says what is wrong with it. Each prints what it computed.
PROGRAM = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 64 };
static aclrtStream stream[2];

/* Adds 1 to all elements. */
static int add(void *p, aclrtStream s) {
  const int64_t n = N, stride = 1;
  float one = 1;
  uint64_t bytes;
  aclOpExecutor *executor;
  aclTensor *x = aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, p);
  aclTensor *y = aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, p);
  aclScalar *a = aclCreateScalar(&one, ACL_FLOAT);
  int e = aclnnInplaceAddGetWorkspaceSize(x, y, a, &bytes, &executor);
  if (!e) e = aclnnInplaceAdd(NULL, 0, executor, s);
  aclDestroyTensor(x);
  aclDestroyTensor(y);
  aclDestroyScalar(a);
  return e;
}

static int work(const char *mode, void **p) {
  float v[N];
  aclrtEvent ready = NULL;
  int e = 0;
  for (int i = 0; i < N; i++) v[i] = 1;
  for (int i = 0; i < 2; i++) {
    e = aclrtMalloc(&p[i], sizeof v, ACL_MEM_MALLOC_HUGE_FIRST);
    if (e && strcmp(mode, "crash") == 0) p[i] = NULL, *(volatile int *)p[i] = 1;
    if (e && strcmp(mode, "hang") == 0) for (;;) pause();
    if (e) return e;
  }
  if ((e = aclrtMemcpy(p[0], sizeof v, v, sizeof v, ACL_MEMCPY_HOST_TO_DEVICE))) return e;
  if ((e = aclrtCreateEvent(&ready))) return e;
  for (int i = 0; i < 3 && !e; i++) e = add(p[0], stream[0]);
  if (!e) e = aclrtRecordEvent(ready, stream[0]);
  if (!e && strcmp(mode, "race") != 0) e = aclrtStreamWaitEvent(stream[1], ready);
  if (!e) e = aclrtMemcpyAsync(p[1], sizeof v, p[0], sizeof v, ACL_MEMCPY_DEVICE_TO_DEVICE, stream[1]);
  for (int i = 1; i >= 0 && !e; i--) e = aclrtSynchronizeStream(stream[i]);
  if (e && strcmp(mode, "silent") == 0) e = 0;
  if (!e) e = aclrtMemcpy(v, sizeof v, p[1], sizeof v, ACL_MEMCPY_DEVICE_TO_HOST);
  aclrtDestroyEvent(ready);
  if (!e) printf("%g\n", v[0]);
  return e;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  void *p[2] = {NULL, NULL};
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream[0]) || aclrtCreateStream(&stream[1])) return 9;
  const int e = work(mode, p);
  if (e) fprintf(stderr, "failed: %d\n", e);
  for (int i = 0; i < 2; i++)
    if (p[i] && (!e || strcmp(mode, "leak") != 0)) aclrtFree(p[i]);
  aclrtDestroyStream(stream[0]);
  aclrtDestroyStream(stream[1]);
  aclrtResetDevice(0);
  aclFinalize();
  return e ? 3 : 0;
}
"""


class FuzzTest(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        source, cls.program = (pathlib.Path(cls.folder.name) / name for name in ("program.c", "program"))
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-g", "-O1", f"-I{PREFIX}/include", str(source), "-o", str(cls.program),
                        f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi", f"-Wl,-rpath,{PREFIX}/lib64"],
                       check=True)

    def cannon(self, *arguments, **variables):
        return subprocess.run([str(CANNON), *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              env={**clean_environment(), **variables})

    def report(self, *arguments):
        path = pathlib.Path(self.folder.name) / "report.json"
        path.unlink(missing_ok=True)
        done = self.cannon(*arguments[:1], "--json", path, *arguments[1:])
        return done, json.loads(path.read_text()) if path.exists() else None


class Injected(FuzzTest):
    def test_each_place_fails_with_its_code_and_says_so(self):
        for spec, code in (("alloc:2", 207001), ("op:1", 507035), ("op:InplaceAdd:3", 507035), ("prepare:2", 161002),
                           ("copy:1", 507035), ("copy:2", 507035), ("copy:3+", 507035), ("sync:2", 507035)):
            with self.subTest(spec):
                done, report = self.report("run", "--fail", spec, "--", self.program)
                process = report["processes"][0]
                self.assertEqual((done.returncode, done.stdout), (3, ""))
                self.assertIn(f"failed: {code}\n", done.stderr)
                self.assertRegex(done.stderr, "injected +1 failure of ")
                self.assertEqual([f["spec"] for f in process["injected"]["failures"]], [spec])
                kind = process["error_kinds"][0]
                self.assertEqual(kind["code"], code)
                self.assertIn(f"injected by CANNON_FAIL ({spec})", kind["first_message"])
                self.assertEqual(process["leaks"]["count"], 0)

    def test_other_operators_do_not_count(self):
        done, report = self.report("run", "--fail", "op:Mul:1", "--", self.program)
        self.assertEqual((done.returncode, done.stdout), (0, "8\n"))
        self.assertEqual(report["processes"][0]["injected"]["count"], 0)
        self.assertEqual(report["processes"][0]["injected"]["events"],
                         {"alloc": 2, "host": 0, "op": 3, "prepare": 3, "copy": 3, "sync": 2, "file": 0})

    def test_the_log_has_each_failure(self):
        done = self.cannon("run", "--quiet", "--fail", "alloc:1", "--", self.program, ASCEND_GLOBAL_LOG_LEVEL="2",
                           ASCEND_SLOG_PRINT_TO_STDOUT="1")
        self.assertRegex(done.stdout, r"\[WARNING\].* alloc 1 fails, injected by CANNON_FAIL \(alloc:1\)")

    def test_probabilities_repeat(self):
        spec = "alloc:p=0.5,seed=3,op:p=0.3,seed=1;sync:p=0.2"
        once, again = (self.report("run", "--fail", spec, "--", self.program)[1] for _ in range(2))
        self.assertEqual(*(r["processes"][0]["injected"] for r in (once, again)))

    def test_wrong_specifications_and_schedules_are_refused(self):
        for option in (["--fail", "alloc"], ["--fail", "alloc:0"], ["--fail", "nothing:1"], ["--fail", ""],
                       ["--fail", "alloc:1", "--fail", "count"], ["--schedule", "random:0"], ["--schedule", "7"],
                       ["--schedule", "random:x"]):
            with self.subTest(option):
                done = self.cannon("run", *option, "--", self.program)
                self.assertEqual(done.returncode, 2)
                self.assertIn("expected", done.stderr)
        done = self.cannon("run", "--", self.program, CANNON_FAIL="alloc:1,bad")
        self.assertEqual(done.returncode, 2)
        self.assertIn("CANNON_FAIL has 'bad'", done.stderr)

    def test_help_and_documents_have_every_place(self):
        table = re.findall(r'FAULT_PLACE\(\w+, "(\w+)"', (pathlib.Path(__file__).parents[2] /
                                                          "src/base/settings/faults.def").read_text())
        text = self.cannon("run", "--help").stdout
        document = (pathlib.Path(__file__).parents[2] / "docs/check.md").read_text()
        self.assertEqual(len(table), 7)
        for word in table:
            self.assertRegex(text, rf"\n {{19}}{word} ")
            self.assertIn(f"| `{word}` |", document)


class Fuzz(FuzzTest):
    def findings(self, mode, *options):
        done, report = self.report("fuzz", *options, "--", self.program, mode)
        self.assertEqual(done.returncode, 1 if report["findings"] else 0, done.stdout + done.stderr)
        return done, report["findings"]

    def repeats(self, finding):
        """The run of the finding's command."""
        words = shlex.split(finding["command"])
        self.assertEqual(words[0], "cannon")
        return self.cannon(*words[1:])

    def test_a_right_program_has_no_findings(self):
        done, found = self.findings("right")
        self.assertEqual(found, [], done.stdout)

    def test_an_ignored_failure_that_crashes(self):
        done, found = self.findings("crash", "--schedules", "2")
        self.assertEqual([(f["kind"], f["fail"], f["schedule"]) for f in found], [("crash", "alloc:1", 0)], done.stdout)
        self.assertIn("--fail alloc:1 --", done.stdout)
        self.assertEqual(self.repeats(found[0]).returncode, -11)

    def test_a_hang(self):
        _, found = self.findings("hang", "--schedules", "0", "--seeds", "0", "--fail", "alloc", "--each", "1",
                                 "--timeout", "1")
        self.assertEqual([(f["kind"], f["fail"]) for f in found], [("hang", "alloc:1")])

    def test_a_missing_event(self):
        for _ in range(5):  # on a busy machine the two plain runs may differ, too, and then outputs are not compared
            _, found = self.findings("race", "--fail", "none")
            if found:
                break
        self.assertEqual([(f["kind"], f["fail"]) for f in found], [("output", "")])
        self.assertGreater(found[0]["schedule"], 0)
        plain = [self.cannon("run", "--quiet", "--", self.program, "race").stdout for _ in range(5)]
        self.assertTrue(any(self.repeats(found[0]).stdout != text for text in plain), plain)

    def test_a_leak_on_an_error_path(self):
        _, found = self.findings("leak", "--schedules", "2", "-j", "2")
        self.assertEqual({f["kind"] for f in found}, {"leak"})
        self.assertIn("alloc:2", {f["fail"] for f in found})
        _, found = self.findings("leak", "--schedules", "2", "--ignore", "leak")
        self.assertEqual(found, [])

    def test_a_failure_that_nobody_reports(self):
        _, found = self.findings("silent", "--schedules", "0", "--fail", "op,sync")
        self.assertEqual([(f["kind"], f["fail"]) for f in found], [("output", "op:1")])

    def test_runs_share_no_devices_and_outputs_that_vary_are_not_compared(self):
        done, report = self.report("fuzz", "--schedules", "3", "--", "sh", "-c", "echo $CANNON_LEDGER")
        self.assertEqual((done.returncode, report["output_varies"], report["findings"]), (0, True, []))

    def test_wrong_options(self):
        for option in (["--schedules", "x"], ["--fail", "alloc,x"], ["--fail", ""], ["--ignore", "all"], ["-j", "0"],
                       ["--timeout", "0"], ["--nothing"]):
            with self.subTest(option):
                self.assertEqual(self.cannon("fuzz", *option, "--", self.program).returncode, 2)
        self.assertEqual(self.cannon("fuzz").returncode, 2)
        self.assertEqual(self.cannon("fuzz", "/nowhere/program").returncode, 127)


if __name__ == "__main__":
    unittest.main()
