# SPDX-License-Identifier: Apache-2.0
"""Tests of environment variables and options: wrong values are reported, and nothing runs with other values instead.

    CANNON_PREFIX=/path python3 tests/cli/test_environment.py
"""
import json
import os
import re
import unittest

from test_cli import CANNON, MIB, NPU_SMI, SOURCE, CliTest, clean_environment, execute

# Prints the results of calls that use a device.
ASKER = r"""
#include "acl/acl.h"
#include <stdio.h>

int main(void) {
  uint32_t count = 77;
  void *p;
  const int init = aclInit(NULL);
  const int counted = aclrtGetDeviceCount(&count);
  const int set = aclrtSetDevice(0);
  const char *message = aclGetRecentErrMsg();
  printf("%d %d %u %d %s\n", init, counted, count, set, message ? message : "");
  return set || aclrtMalloc(&p, 1000, ACL_MEM_MALLOC_HUGE_FIRST);
}
"""
WRONG = {  # variable: (wrong value, expected message)
    "CANNON_DEVICE": ("Ascend9", "'Ascend9', expected a profile that `cannon info` lists; no device can be used"),
    "CANNON_DEVICES": ("1.5", "'1.5', expected a number from 0 to 16; no device can be used"),
    "CANNON_MEM": ("1M",
                   "'1M', which is too small, expected a size from 2M to 1T such as 512M, 1.5G or 32G (K, M, G or T); "
                   "no device can be used"),
    "CANNON_SITES": ("yes", "'yes', expected one of 0, 1; sites are not counted"),
    "CANNON_LEAKS": ("frames=9",
                     "'frames=9', expected 0, 1, or some of max=BLOCKS, report=PATH, signal=NAME (USR1, USR2, HUP, "
                     "WINCH, IO, URG, PWR or none) and frames=N (1 to 8), with commas between; the rest of it is "
                     "taken"),
    "CANNON_COMM_REPORT": ("signal=KILL",
                           "'signal=KILL', expected signal=NAME (USR1, USR2, HUP, WINCH, IO, URG, PWR or none); no "
                           "signal makes a report"),
    "CANNON_ALARM": ("101", "'101', which is too large, expected a number from 0 to 100; taking 85"),
    "CANNON_MAX_MAPPINGS": ("many",
                            "'many', expected a number from 0 to 18446744073709551615; taking 7/8 of vm.max_map_count"),
    "CANNON_SCHEDULE_SEED": ("x",
                             "'x', expected a number from 0 to 18446744073709551615; tasks run in the usual order"),
    "CANNON_ISA": ("v5",
                   "'v5', expected one of portable, v3, v4, dots; taking the highest level that the processor has"),
}
DECIDING = ("CANNON_DEVICE", "CANNON_DEVICES", "CANNON_MEM")


class Environment(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.asker = cls.compile("asker", ASKER)

    def ask(self, **env):
        return execute(self.asker, env=clean_environment(**env), cwd=self.folder)

    def test_wrong_values_are_reported_once(self):
        for name, (value, told) in WRONG.items():
            with self.subTest(name):
                done = self.ask(**{name: value})
                self.assertEqual(done.stderr, f"cannon: {name} is {told}\n")
                if name in DECIDING:
                    self.assertEqual(done.returncode, 1)
                    why = told.split("; no device")[0]
                    self.assertIn(f"107001 107001 77 107001 EE1003: aclrtSetDevice: there are no devices: "
                                  f"{name} is {why}", done.stdout)
                else:
                    self.assertEqual((done.returncode, done.stdout), (0, "0 0 1 0 \n"))

    def test_unknown_implementations_are_reported(self):
        done = self.ask(CANNON_IMPL="conv=direct,quick")
        self.assertRegex(done.stderr, r"^cannon: CANNON_IMPL has 'quick', expected .*conv=depthwise\|.*\|reference.*; "
                                      r"the rest of it is taken, and otherwise the usual order\n$")
        self.assertEqual(self.ask(CANNON_IMPL="conv=direct,reference").stderr, "")

    def test_cannon_run_starts_nothing_with_wrong_values(self):
        for name, (value, told) in WRONG.items():
            with self.subTest(name):
                done = execute(CANNON, "run", "sh", "-c", "echo ran", env=clean_environment(**{name: value}))
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertEqual(done.stderr, f"cannon run: {name} is {told.rsplit('; ', 1)[0]}\n")

    def test_options_override_variables(self):
        done = execute(CANNON, "run", "--quiet", "--mem", "64M", self.asker, env=clean_environment(CANNON_MEM="1M"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_options_accept_the_values_of_variables(self):
        for option, name in (("--devices", "CANNON_DEVICES"), ("--mem", "CANNON_MEM"), ("--alarm", "CANNON_ALARM"),
                             ("--leaks", "CANNON_LEAKS")):
            value, told = WRONG[name]
            done = execute(CANNON, "run", f"{option}={value}", "sh", "-c", "echo ran")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"cannon run: {option} is {told.rsplit('; ', 1)[0]}\n")

    def test_sizes(self):
        done = execute(CANNON, "run", "--mem", "99999999T", "true")
        self.assertIn("--mem is '99999999T', which is too large, expected a size from 2M to 1T", done.stderr)
        for size, mib in (("1.5G", 1536), ("0.5g", 512), ("65536k", 64)):
            path = self.folder / "report.json"
            done = execute(CANNON, "run", "--quiet", "--json", path, "--mem", size, self.asker)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            (process,) = json.loads(path.read_text())["processes"]
            self.assertEqual(process["devices"][0]["size_bytes"], mib * MIB)
        done = execute(CANNON, "run", "--quiet", "--mem", "215M", self.asker)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "cannon run: --mem is 215M; using 214M, whole pages of 2 MiB\n"))
        done = execute(CANNON, "plan", "--capacity", "99999999T", "none")
        self.assertIn("--capacity is '99999999T', which is too large, expected", done.stderr)

    def test_no_devices(self):
        for env, why in ((dict(CANNON_DEVICES="0"), "CANNON_DEVICES is 0"),
                         (dict(ASCEND_RT_VISIBLE_DEVICES="3"), "ASCEND_RT_VISIBLE_DEVICES leaves none")):
            done = self.ask(**env)
            self.assertEqual(done.stdout,
                             f"0 0 0 107001 EE1003: aclrtSetDevice: deviceId is 0, but there are no devices ({why}) "
                             "(error 107001)\n")

    def test_wrong_lists_of_visible_devices_are_told(self):
        for listed, entry, seen in (("0,x", "x", "1 device"), ("1,0,2", "0", "1 device"), ("0,2 ,1", "2 ", "2 devices"),
                                    ("4", "4", "0 devices"), ("-1", "-1", "0 devices"), ("0,", "", "1 device"),
                                    ("0,\x1b", "\x1b", "1 device")):
            with self.subTest(listed):
                done = self.ask(CANNON_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES=listed)
                told = (f"cannon: ASCEND_RT_VISIBLE_DEVICES is '{listed}', whose entry '{entry}' is wrong, expected "
                        "ascending numbers of devices from 0 to 3 with commas between them; parsing stops there, as in "
                        f"CANN, so the program sees {seen}\n")
                self.assertEqual(done.stderr, told.replace("\x1b", r"\x1b"))
        for listed in ("", "0", "0,1,3"):
            self.assertEqual(self.ask(CANNON_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES=listed).stderr, "")
        done = execute(CANNON, "run", "--quiet", "--devices", "4", self.asker,
                       env=clean_environment(ASCEND_RT_VISIBLE_DEVICES="3,1"))
        self.assertEqual(done.stderr.count("is wrong"), 1)

    def test_unknown_names(self):
        near = "cannon: warning: the environment has CANNON_DEVCES, which Cannon does not know; " \
               "the nearest that it knows is CANNON_DEVICES (cannon env --help)\n"
        far = "cannon: warning: the environment has CANNON_FOO, which Cannon does not know (cannon env --help)\n"
        self.assertEqual(self.ask(CANNON_DEVCES="2").stderr, near)
        self.assertEqual(self.ask(CANNON_FOO="2", CANNON_PREFIX="/usr").stderr, far)
        done = execute(CANNON, "run", "--quiet", "sh", "-c", f"'{self.asker}'; '{self.asker}'",
                       env=clean_environment(CANNON_DEVCES="2"))
        self.assertEqual((done.returncode, done.stderr), (0, near))

    def test_tools_say_why_there_are_no_devices(self):
        for tool, name in ((CANNON, "cannon info"), (NPU_SMI, "npu-smi")):
            done = execute(tool, "info", env=clean_environment(CANNON_DEVICES="abc"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{name}: aclInit failed with 107001: EE1003: aclInit: there are no devices: "
                          "CANNON_DEVICES is 'abc'", done.stderr)

    def test_statistics_that_cannot_be_written(self):
        done = self.ask(CANNON_STATS_DIR="/no/such/folder")
        self.assertRegex(done.stderr,
                         r"^cannon: this process keeps no statistics: /no/such/folder/\d+.stats: No such file or "
                         r"directory\n$")

    def test_documentation_has_the_table(self):
        shown = execute(CANNON, "env", "--help").stdout
        table = dict(re.findall(r"\n  (CANNON_\w+)\n      (.+)\n      value: .+", shown))
        self.assertLessEqual(set(WRONG), set(table))
        text = (SOURCE / "docs/environment.md").read_text()
        documented = dict(re.findall(r"\n\| `(CANNON_\w+)` \| (.+) \|(?=\n)", text))
        self.assertEqual(documented, table)


# Runs an operator large enough for several threads, if there are several cores.
WORKER = r"""
#include "acl/acl.h"
#include "aclnnop/aclnn_relu.h"
#include <stdio.h>

int main(void) {
  const int64_t n = 4 << 20, stride = 1;
  void *p;
  uint64_t bytes;
  aclOpExecutor *executor;
  if (aclInit(NULL) || aclrtSetDevice(0) || aclrtMalloc(&p, 4 * n, ACL_MEM_MALLOC_HUGE_FIRST)) {
    printf("%s\n", aclGetRecentErrMsg());
    return 1;
  }
  aclTensor *x = aclCreateTensor(&n, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, &n, 1, p);
  return aclnnInplaceReluGetWorkspaceSize(x, &bytes, &executor) || aclnnInplaceRelu(NULL, 0, executor, NULL) ||
         aclrtSynchronizeStream(NULL);
}
"""


class Surroundings(CliTest):
    """Resource limits and file systems without room: the program works, or reports what is missing."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.worker = cls.compile("worker", WORKER, "-lopapi", "-lnnopbase")

    def under(self, limit, *command, **options):
        return execute("bash", "-c", f'{limit}; exec "$@"', "bash", *command, cwd=self.folder, **options)

    def test_addresses(self):
        done = self.under("ulimit -v 20000000", self.worker)
        self.assertEqual(done.returncode, 1)
        self.assertIn("devices need 33.0 TiB of addresses, whatever memory there is, and the process may have 19.1 GiB "
                      "(ulimit -v), expected no such limit", done.stdout)

    def test_sizes_of_files(self):
        why = "the process may not have files of that size (ulimit -f), expected no such limit"
        done = self.under("ulimit -f 1", CANNON, "run", self.worker)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"the memory of device 0 can't be set up: {why}", done.stdout)
        self.assertRegex(done.stderr, r"cannon: this process keeps no statistics: \S+: " + re.escape(f"{why}\n"))

    def test_open_files(self):
        done = self.under("ulimit -n 4", self.worker)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the process has as many open files as it may (ulimit -n), expected a higher limit", done.stdout)
        self.assertEqual(self.under("ulimit -n 6", self.worker).returncode, 0)

    @unittest.skipUnless(os.geteuid() == 0, "whoever is not root has other processes, which count")
    def test_threads(self):
        self.folder.chmod(0o755)
        done = self.under("ulimit -u 1", self.worker, user=65533, group=65533, extra_groups=[])
        self.assertEqual(done.returncode, 0)
        self.assertIn("no thread of the library's can be started", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounts need root")
    def test_file_systems(self):
        for mounts, warned in (("mount -t tmpfs none /proc", ""),
                               ("mount -t tmpfs -o ro none /dev/shm", "Read-only file system"),
                               ("mount -t tmpfs -o size=4k none /dev/shm", "No space left on device")):
            done = execute("unshare", "-m", "sh", "-c", f'{mounts} && exec "$0"', self.worker)
            if "unshare" in done.stderr or "mount:" in done.stderr:
                self.skipTest(done.stderr)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            self.assertRegex(done.stderr,
                             rf"^cannon: warning: this process shares no device memory with others: /dev/shm/\S+ "
                             rf"{warned} \(CANNON_LEDGER can name a file elsewhere\)\n$" if warned else "^$")

    def test_folders_that_cannot_be_written(self):
        done = execute(CANNON, "run", self.worker, env=clean_environment(TMPDIR="/no/such"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/cannon-run-", done.stderr)
        self.assertIn("(set TMPDIR to use another place)", done.stderr)
        done = execute(self.worker, env=clean_environment(ASCEND_PROCESS_LOG_PATH="/no/such", CANNON_DEVICES="0"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr,
                         r"^cannon: the log /no/such/plog-\d+.log can't be written: No such file or directory\n$")


if __name__ == "__main__":
    unittest.main()
