# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon diff and cannon report: reports of cannon run with known figures, and what must be made of them.

    CANNON_PREFIX=/path python3 tests/cli/test_diff.py
"""
import copy
import json
import unittest

from test_cli import CANNON, CliTest, execute

MIB = 1 << 20
HEAP = {"peak_bytes": 100 * MIB, "peak_committed_bytes": 128 * MIB, "size_bytes": 1 << 30, "allocations": 10,
        "allocated_bytes": 300 * MIB, "refused": 0, "external_fragmentation": 0.21875, "internal_fragmentation": 0.01,
        "live_bytes": 0}
REPORT = {
    "written_by": "cannon run", "exit_status": 0, "wall_ns": 2000000,
    "processes": [{
        "program": "/a/train", "pid": 7, "soc_name": "Ascend910B3", "errors": 0, "wrong_frees": 0, "devices": [HEAP],
        "pinned": {"peak_bytes": 5 * MIB}, "leaks": {"count": 0, "blocks": []},
        "copies": {"host_to_device": {"count": 3, "bytes": 3000, "pageable_bytes": 0},
                   "device_to_host": {"count": 1, "bytes": 500, "pageable_bytes": 500}},
        "operators": [
            {"name": "Add", "launches": 4, "time_ns": 4000, "device": {"time_ns": 10},
             "outputs": {"peak_bytes": 2 * MIB}, "workspace": {"peak_bytes": 0}},
            {"name": "Mm", "launches": 2, "time_ns": 9000, "device": {"time_ns": 20},
             "outputs": {"peak_bytes": 8 * MIB}, "workspace": {"peak_bytes": 16 * MIB}}],
        "sites": [{"call": "aclrtMalloc", "where": "train.c:5 (main)", "peak_bytes": 80 * MIB, "live_bytes": 0,
                   "live_blocks": 0, "allocations": 8},
                  {"call": "aclrtMalloc", "where": "train.c:9 (main)", "peak_bytes": 20 * MIB, "live_bytes": 0,
                   "live_blocks": 0, "allocations": 2}],
    }],
}
SMALL = r"""
#include "acl/acl.h"
int main(void) {
  void *p, *q;
  aclInit(NULL), aclrtSetDevice(0);
  aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST), aclrtMalloc(&q, 1 << 18, ACL_MEM_MALLOC_HUGE_FIRST);
  aclrtFree(q), aclrtResetDevice(0), aclFinalize();
  return 0;
}
"""


class ReportsTest(CliTest):
    def write(self, name, report):
        path = self.folder / name
        path.write_text(report if isinstance(report, str) else json.dumps(report))
        return path


class Diff(ReportsTest):
    def compare(self, change, *options):
        after = copy.deepcopy(REPORT)
        change(after)
        return execute(CANNON, "diff", *options, self.write("a.json", REPORT), self.write("b.json", after))

    def test_equal_runs_differ_in_nothing(self):
        done = self.compare(lambda r: None, "--fail-on", "peak>0%,leaks>0,errors>0,time>0%")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("19 figures are the same", done.stdout)
        self.assertNotIn("operators, time", done.stdout)

    def test_figures_and_rows_that_differ_are_shown(self):
        def change(report):
            process = report["processes"][0]
            process["devices"][0]["peak_bytes"] = 110 * MIB
            process["operators"][1].update(time_ns=18000, launches=3)
            process["operators"].append({"name": "Relu", "launches": 1, "time_ns": 500})
            process["sites"][1]["live_bytes"] = 3 * MIB
        text = self.compare(change).stdout
        self.assertRegex(text, r"(?m)^peak +100 MiB +110 MiB  \+10\.0 %$")
        self.assertRegex(text, r"(?m)^operators +13\.0 us +22\.5 us  \+73\.1 %$")
        self.assertRegex(text, r"(?m)^ +9\.00 us +18\.0 us  \+100\.0 % +Mm$")
        self.assertRegex(text, r"(?m)^ +0 ns +500 ns  new +Relu$")
        self.assertRegex(text, r"(?m)^ +0 B +3\.00 MiB  new +aclrtMalloc, train\.c:9 \(main\)$")
        self.assertNotRegex(text, r"(?m)^pinned")

    def test_processes_are_added_up(self):
        def change(report):
            report["processes"].append(copy.deepcopy(report["processes"][0]))
        text = self.compare(change, "--all").stdout
        self.assertRegex(text, r"(?m)^peak +100 MiB +200 MiB ")
        self.assertRegex(text, r"(?m)^workspace +16\.0 MiB +16\.0 MiB  same$")
        self.assertRegex(text, r"(?m)^copied +3\.42 KiB +6\.84 KiB ")

    def test_conditions(self):
        def change(report):
            process = report["processes"][0]
            process["devices"][0]["peak_bytes"] = 106 * MIB
            process["leaks"]["count"] = 2
            report["wall_ns"] = 1000000
        for condition, holds in (("peak>5%", True), ("peak>6%", False), ("peak>105M", True), ("peak>106M", False),
                                 ("leaks>0", True), ("leaks>2", False), ("leaks>9%", True), ("errors>0%", False),
                                 ("time<1.1ms", True), ("time>999us", True), ("time<-49%", True), ("time<-51%", False),
                                 ("fragmentation>0.2", True), ("fragmentation>0.3", False)):
            with self.subTest(condition):
                done = self.compare(change, "--fail-on", condition)
                self.assertEqual(done.returncode, int(holds), done.stderr)
                self.assertEqual(f"failed: {condition}: " in done.stdout, holds)
        done = self.compare(change, "--fail-on", "errors>0,peak>5%,leaks>0")
        self.assertEqual(done.stdout.count("failed: "), 2)

    def test_little_memory_is_not_called_fragmented(self):
        def little(report):
            report["processes"][0]["devices"][0].update(peak_committed_bytes=2 * MIB, external_fragmentation=0.998)
        done = self.compare(little, "--fail-on", "fragmentation>0.3,fragmentation>1%,fragmentation<0.3")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^fragmentation +21\.9 % +ungraded  -$")
        small = copy.deepcopy(REPORT)
        little(small)
        self.assertIn("19 figures are the same", execute(CANNON, "diff", *[self.write("s.json", small)] * 2).stdout)

    def test_large_devices_are_graded_beside_small_ones(self):
        def small_beside(report):
            report["processes"][0]["devices"].append({**HEAP, "peak_committed_bytes": 2 * MIB,
                                                      "external_fragmentation": 0.998})
        self.assertRegex(self.compare(small_beside, "--all").stdout, r"(?m)^fragmentation +21\.9 % +21\.9 %  same$")

    def test_wrong_conditions_are_refused(self):
        for condition in ("", "peak", "peak>", ">5", "peek>5%", "peak>x", "peak>5x%", "time>5", "time>5 ms", "leaks>1M",
                          "peak>5%,", ",peak>5%", "peak>nan", "leaks>nan", "peak=5", "peak>%"):
            with self.subTest(condition):
                done = self.compare(lambda r: None, "--fail-on", condition)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("cannon diff: --fail-on has '", done.stderr)

    def test_files_that_are_no_reports_are_refused(self):
        good = self.write("a.json", REPORT)
        for name, text in (("x", "no JSON"), ("y", "{}"), ("z", '{"written_by": "cannon replay"}'), ("e", "")):
            done = execute(CANNON, "diff", good, self.write(name, text))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("is no report of `cannon run --json`", done.stderr)
        done = execute(CANNON, "diff", good, self.folder / "missing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot be read", done.stderr)
        self.assertEqual(execute(CANNON, "diff", good).returncode, 2)


class Report(ReportsTest):
    def report(self, report):
        return execute(CANNON, "report", "--memory", self.write("r.json", report)).stdout

    def test_one_screen(self):
        text = self.report(REPORT)
        self.assertLess(len(text.splitlines()), 25)
        self.assertRegex(text, r"device 0 +peak 100 MiB of 1\.00 GiB \(9\.8 %\), 10 allocations")
        self.assertRegex(text, r"efficiency 78\.1 %: 100 MiB live of 128 MiB committed")
        self.assertRegex(text, r"fragmentation 21\.9 % of 128 MiB: fair; rounding 1\.0 %")
        self.assertRegex(text, r"80\.0 MiB  80\.0 % +8  aclrtMalloc, train\.c:5 \(main\)\n.*20\.0 MiB  20\.0 %")
        self.assertRegex(text, r"24\.0 MiB  24\.0 % +8\.00 MiB +16\.0 MiB  Mm\n +2\.00 MiB +2\.0 % .*Add")
        self.assertIn("leaks: none", text)
        self.assertNotIn("refused", text)

    def test_little_memory_is_not_called_fragmented(self):
        small = copy.deepcopy(REPORT)
        small["processes"][0]["devices"][0].update(peak_bytes=4096, peak_committed_bytes=2 * MIB,
                                                   external_fragmentation=0.998)
        text = self.report(small)
        self.assertIn("fragmentation: 2.00 MiB is too little to grade it", text)
        self.assertNotIn("99.8", text)

    def test_leaks_and_refusals_by_line(self):
        leaking = copy.deepcopy(REPORT)
        process = leaking["processes"][0]
        process["leaks"]["count"] = 3
        process["devices"][0].update(refused=2, live_bytes=21 * MIB)
        process["sites"][0].update(live_bytes=MIB, live_blocks=1)
        process["sites"][1].update(live_bytes=20 * MIB, live_blocks=2)
        text = self.report(leaking)
        self.assertIn("refused 2 allocations", text)
        self.assertRegex(text, r"leaks: 3 blocks\n +20\.0 MiB +2  aclrtMalloc, train\.c:9.*\n"
                               r" +1\.00 MiB +1  .*train\.c:5")

    def test_a_real_run(self):
        program, path = self.compile("small", SMALL), self.folder / "small.json"
        text = execute(CANNON, "run", "--sites", "--json", path, program).stderr
        self.assertIn("fragmentation unrated", text)
        shown = execute(CANNON, "report", path).stdout
        self.assertRegex(shown, r"device 0 +peak 1\.\d+ MiB of ")
        self.assertRegex(shown, r"1\.00 MiB .* 1  aclrtMalloc, small\(main")
        self.assertEqual(execute(CANNON, "diff", path, path, "--fail-on", "peak>0%").returncode, 0)


if __name__ == "__main__":
    unittest.main()
