# SPDX-License-Identifier: Apache-2.0
"""Tests of an installed prefix: cannon, npu-smi, set_env.sh, and the files that build systems look for.

    CANNON_PREFIX=/path python3 tests/cli/test_cli.py
"""
import json
import os
import pathlib
import platform
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
CANNON = str(PREFIX / "bin/cannon")
NPU_SMI = str(PREFIX / "bin/npu-smi")
MIB = 1 << 20

# A program written for CANN; its argument chooses how it ends.
PROGRAM = r"""
#include "acl/acl.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call) do { int e = (call); if (e) { fprintf(stderr, #call " gave %d\n", e); return 99; } } while (0)

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  static char host[4096];
  void *device;
  size_t free_bytes, total;
  int32_t id;
  CHECK(aclInit(NULL));
  if (strcmp(mode, "wrong") == 0)
    for (int i = 0; i < 3; i++) aclrtGetDevice(&id);
  CHECK(aclrtSetDevice(0));
  if (strcmp(mode, "wrong") == 0) aclrtGetDevice(NULL), aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST);
  CHECK(aclrtMalloc(&device, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
  printf("%s %zu\n", aclrtGetSocName(), total);
  fflush(stdout);
  if (strcmp(mode, "kill") == 0) raise(SIGKILL);
  if (strcmp(mode, "pause") == 0) pause();
  if (strcmp(mode, "leak")) CHECK(aclrtFree(device));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return strcmp(mode, "three") == 0 ? 3 : 0;
}
"""

# Captures two additions and a copy, and executes them five times.
REPLAYER = r"""
#include <acl/acl.h>
#include <aclnnop/aclnn_add.h>
#include <stdio.h>
#define CHECK(call) do { int e = (call); if (e) { fprintf(stderr, #call " gave %d\n", e); return 99; } } while (0)

int main(void) {
  int64_t dims[] = {16}, strides[] = {1};
  float value = 1;
  void *device, *host;
  uint64_t bytes;
  aclOpExecutor *executor;
  aclrtStream stream;
  aclmdlRI model;
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));
  CHECK(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMallocHost(&host, 64));
  aclTensor *tensor = aclCreateTensor(dims, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 1, device);
  aclScalar *one = aclCreateScalar(&value, ACL_FLOAT);
  CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
  CHECK(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  for (int i = 0; i < 2; i++) {
    CHECK(aclnnInplaceAddsGetWorkspaceSize(tensor, one, one, &bytes, &executor));
    CHECK(aclnnInplaceAdds(NULL, 0, executor, stream));
  }
  CHECK(aclmdlRICaptureEnd(stream, &model));
  for (int i = 0; i < 5; i++) CHECK(aclmdlRIExecuteAsync(model, stream));
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclmdlRIDestroy(model));
  return 0;
}
"""

# Writes a statistics file as a large program would leave it; the argument is the version of the format.
FORGER = r"""
#include "trace/stats.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  static stats_file s = {.magic = STATS_MAGIC, .pid = 1, .ended = 1, .soc_name = "Ascend910A", .program = "/bin/forged",
                         .started_ns = 1000, .ended_ns = 2500001000, .n_devices = 1, .n_errors = 9, .n_leaks = 70,
                         .n_ops = 20, .n_error_rows = 2, .n_choices = 1};
  s.version = argc > 1 ? atoi(argv[1]) : 0;
  s.device[0].size_bytes = 32ull << 30;
  for (int i = 0; i < 20; i++) {
    snprintf(s.ops[i].name, sizeof s.ops[i].name, "Op%02d", i);
    s.ops[i].launches = 2;
    s.ops[i].time_ns = 1000000 * (i + 1);
  }
  s.choices[0] = (stats_choice){.op = 3, .names = "conv=gemm", .reason = "first of the list", .launches = 2};
  s.ops[7].workspace_peak_bytes = 704;
  s.ops[7].workspace_copies_bytes = 512;
  s.ops[7].workspace_partials_bytes = 192;
  for (int i = 0; i < STATS_MAX_LEAKS; i++)
    s.leaks[i] = (stats_leak){
        .size_bytes = 2048, .number = 5 + i, .device = -1, .call = "aclrtMallocHost", .site = "a(b+0x1)"};
  s.error_rows[0] = (stats_error){.call = "aclrtGetDevice", .code = 107002, .count = 2, .first_words = "no context"};
  s.error_rows[1] = (stats_error){.call = "aclrtMalloc", .code = 207001, .count = 7};
  memset(s.error_rows[1].first_words, 'x', sizeof s.error_rows[1].first_words - 1);
  if (argc > 2) { /* escape sequences and invalid UTF-8, without a terminating zero */
#define EVIL(text) (memset(text, 'e', sizeof(text)), memcpy(text, "\x1b]0;x\x07\xff<b>", 10))
    EVIL(s.program), EVIL(s.soc_name), EVIL(s.ops[19].name), EVIL(s.leaks[0].call), EVIL(s.leaks[0].site);
    EVIL(s.leak_report), EVIL(s.choices[0].names), EVIL(s.choices[0].reason);
    EVIL(s.error_rows[0].call), EVIL(s.error_rows[0].first_words), EVIL(s.modules[0].path), EVIL(s.sites[0].call);
    EVIL(s.pools[0].name), EVIL(s.advice[0].first_site);
    s.n_modules = s.pools[0].state = s.pools[0].memory.n_allocs = s.sites[0].address = s.advice[0].count = 1;
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/1.stats", getenv("CANNON_STATS_DIR"));
  FILE *f = fopen(path, "w");
  return fwrite(&s, sizeof s, 1, f) != 1 || fclose(f);
}
"""
SOURCE = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"STATS_VERSION = (\d+)", (SOURCE / "src/trace/stats.h").read_text())[1]


def clean_environment(**more):
    """This process's environment without variables that refer to a CANN installation, as in a fresh shell."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "CANNON")) and k != "LD_LIBRARY_PATH"}
    return {**env, **more}


# A sanitizer that is loaded first exits by itself on a fatal signal, and defines what the library lacks in a link.
SANITIZED = "san.so" in os.environ.get("LD_PRELOAD", "")


def execute(*command, env=None, **options):
    options.setdefault("timeout", 120)
    return subprocess.run([str(c) for c in command], env=env or clean_environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


class CliTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cannon-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name, text, flags in (("program", PROGRAM, (f"-I{PREFIX}/include", f"-L{PREFIX}/lib64", "-lascendcl")),
                                  ("replayer", REPLAYER,
                                   (f"-I{PREFIX}/include", f"-L{PREFIX}/lib64", "-lascendcl", "-lopapi",
                                    "-lnnopbase", f"-Wl,-rpath-link,{PREFIX}/lib64")),
                                  ("forger", FORGER, (f"-I{SOURCE}/src",))):
            (cls.folder / f"{name}.c").write_text(text)
            subprocess.run([os.environ.get("CC", "cc"), cls.folder / f"{name}.c", "-o", cls.folder / name, *flags],
                           check=True)
        cls.program, cls.replayer, cls.forger = (cls.folder / name for name in ("program", "replayer", "forger"))

    @classmethod
    def compile(cls, name, text, *libraries):
        """Compiles a program written for CANN from its source text."""
        source = cls.folder / f"{name}.c"
        source.write_text(text)
        subprocess.run([os.environ.get("CC", "cc"), source, "-o", cls.folder / name, f"-I{PREFIX}/include",
                        f"-L{PREFIX}/lib64", f"-Wl,-rpath,{PREFIX}/lib64", "-lascendcl", *libraries], check=True)
        return cls.folder / name

    def run_json(self, *arguments, options=()):
        path = self.folder / "report.json"
        done = execute(CANNON, "run", "--quiet", "--json", path, *options, "--", *arguments)
        return done, json.loads(path.read_text())


class Run(CliTest):
    def test_exit_status_is_the_programs(self):
        for status in (0, 1, 3, 255):
            self.assertEqual(execute(CANNON, "run", "sh", "-c", f"exit {status}").returncode, status)
        self.assertEqual(execute(CANNON, "run", self.program, "three").returncode, 3)

    @unittest.skipIf(SANITIZED, "the sanitizer catches the signal")
    def test_signal_of_the_program_ends_cannon_too(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            done = execute(CANNON, "run", "sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(done.returncode, -number)
            self.assertIn(f"ended by signal {int(number)} ", done.stderr)
        shell = execute("sh", "-c", f"'{CANNON}' run --quiet sh -c 'kill -9 $$'; echo $?")
        self.assertEqual(shell.stdout.strip(), "137")

    def test_program_that_cannot_start(self):
        not_executable = self.folder / "text"
        not_executable.write_text("x")
        for name, status in (("no-such-program", 127), (not_executable, 126), (self.folder, 126)):
            done = execute(CANNON, "run", name)
            self.assertEqual(done.returncode, status)
            self.assertIn(str(name), done.stderr)

    def test_streams_and_arguments_pass(self):
        done = execute(CANNON, "run", "--quiet", "sh", "-c", 'cat; echo "$1|$2"; echo err >&2', "sh", "--json", "a b",
                       input="through\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "through\n--json|a b\n", "err\n"))

    def test_signals_sent_to_cannon_reach_the_program(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            script = f"trap 'echo got; exit 7' {int(number)}; echo ready; while :; do sleep 0.02; done"
            with subprocess.Popen([CANNON, "run", "--quiet", "sh", "-c", script], stdout=subprocess.PIPE, text=True,
                                  env=clean_environment()) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual(process.stdout.readline(), "got\n")
                self.assertEqual(process.wait(30), 7)

    def test_terminal_interrupt_reaches_the_program_once(self):
        script = "trap 'echo got' INT; echo ready; for i in 1 2 3 4 5 6 7 8; do sleep 0.05; done; echo over; exit 4"
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(CANNON, [CANNON, "run", "--quiet", "sh", "-c", script], clean_environment())
        output = b""
        while b"ready" not in output:
            output += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        while b"over" not in output:
            output += os.read(terminal, 1000)
        self.assertEqual(output.count(b"got"), 1, output)
        self.assertEqual(os.waitpid(pid, 0)[1] >> 8, 4)
        os.close(terminal)

    def test_the_program_dies_with_cannon(self):
        with subprocess.Popen([CANNON, "run", "--quiet", "sh", "-c", "echo $$; exec sleep 60"], stdout=subprocess.PIPE,
                              text=True, env=clean_environment(TMPDIR=str(self.folder))) as process:
            pid = int(process.stdout.readline())
            process.kill()
            process.wait(30)
            for _ in range(200):
                try:
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                except (FileNotFoundError, ProcessLookupError):
                    return
                if state == "Z":
                    return
                time.sleep(0.02)
            os.kill(pid, signal.SIGKILL)
            self.fail("the program outlived cannon")

    def test_summary(self):
        done = execute(CANNON, "run", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in ("program ended with status 0", "Ascend910B3", "1 allocations", "host to device", "leaks: none"):
            self.assertIn(text, done.stderr)
        self.assertLessEqual(len(done.stderr.splitlines()), 40)
        self.assertEqual(execute(CANNON, "run", "--quiet", self.program).stderr, "")
        self.assertIn("did not use Cannon", execute(CANNON, "run", "true").stderr)

    def test_json_of_a_clean_program(self):
        done, report = self.run_json(self.program, "three", options=("--mem", "256M", "--device", "910_9391"))
        self.assertEqual(done.stdout.split(), ["Ascend910_9391", str(256 * MIB)])
        self.assertEqual(report["command"], [str(self.program), "three"])
        self.assertEqual((report["exit_status"], report["signal"]), (3, None))
        (process,) = report["processes"]
        self.assertEqual((process["state"], process["soc_name"], process["pid"]),
                         ("ended", "Ascend910_9391", report["pid"]))
        (device,) = process["devices"]
        self.assertEqual((device["size_bytes"], device["allocations"], device["frees"], device["refused"]),
                         (256 * MIB, 1, 1, 0))
        self.assertEqual(device["live_bytes"], 0)
        self.assertTrue(MIB <= device["peak_bytes"] <= 4 * MIB, device)
        self.assertEqual(process["copies"]["host_to_device"],
                         {"count": 1, "bytes": 4096, "pageable_count": 1, "pageable_bytes": 4096})
        self.assertEqual(process["leaks"], {"count": 0, "blocks": []})
        self.assertGreater(process["duration_ns"], 0)

    def test_executions_of_a_graph_count_as_their_operators(self):
        done, report = self.run_json(self.replayer)
        self.assertEqual(done.returncode, 0, done.stderr)
        (process,) = report["processes"]
        self.assertEqual([(o["name"], o["launches"]) for o in process["operators"]], [("InplaceAdds", 10)])
        self.assertEqual(process["copies"]["host_to_device"],
                         {"count": 5, "bytes": 320, "pageable_count": 0, "pageable_bytes": 0})

    def test_errors_are_reported_by_kind(self):
        lines = execute(CANNON, "run", self.program, "wrong").stderr.splitlines()
        at = lines.index("  errors: 5 calls failed")
        self.assertRegex(lines[at + 1], r"^ +3  aclrtGetDevice, 107002: no context in this thread, expected ")
        self.assertEqual({line.split(":")[0].strip() for line in lines[at + 2:at + 4]},
                         {"1  aclrtGetDevice, 100000", "1  aclrtMalloc, 100000"})
        done, report = self.run_json(self.program, "wrong")
        (process,) = report["processes"]
        kinds = [(k["call"], k["code"], k["count"]) for k in process["error_kinds"]]
        self.assertEqual((process["errors"], kinds), (5, [("aclrtGetDevice", 107002, 3), ("aclrtGetDevice", 100000, 1),
                                                          ("aclrtMalloc", 100000, 1)]))
        self.assertIn("expected", process["error_kinds"][1]["first_message"])

    def test_leak_is_reported(self):
        _, report = self.run_json(self.program, "leak")
        (block,) = report["processes"][0]["leaks"]["blocks"]
        self.assertEqual((block["device"], block["number"], block["call"]), (0, 1, "aclrtMalloc"))
        self.assertGreaterEqual(block["size_bytes"], MIB)
        self.assertIn("leaks: 1 block", execute(CANNON, "run", self.program, "leak").stderr)

    def test_killed_program_is_reported(self):
        done, report = self.run_json(self.program, "kill")
        self.assertEqual((done.returncode, report["exit_status"], report["signal"]), (-9, None, 9))
        (process,) = report["processes"]
        self.assertEqual((process["state"], process["leaks"]), ("killed", None))
        self.assertEqual((process["devices"][0]["allocations"], process["devices"][0]["frees"]), (1, 0))

    def test_every_process_is_reported(self):
        _, report = self.run_json("sh", "-c", f"'{self.program}'; '{self.program}' leak")
        self.assertEqual([p["leaks"]["count"] for p in report["processes"]], [0, 1])

    def test_process_that_still_runs(self):
        out = self.folder / "out"
        script = f"'{self.program}' pause >'{out}' 2>&1 & while ! test -s '{out}'; do sleep 0.02; done; echo $!"
        done, report = self.run_json("sh", "-c", script)
        os.kill(int(done.stdout), signal.SIGKILL)
        self.assertEqual([(p["pid"], p["state"], p["leaks"]) for p in report["processes"]],
                         [(int(done.stdout), "running", None)])

    def test_summary_of_a_large_program(self):
        lines = execute(CANNON, "run", self.forger, VERSION).stderr.splitlines()
        text = "\n".join(lines)
        self.assertIn("forged (process 1): Ascend910A, 1 device of 32.0 GiB, 2.50 s", text)
        times = [line.split() for line in lines if line.strip().startswith("Op") and "%" in line]
        self.assertEqual([row[0] for row in times], [f"Op{i:02d}" for i in range(19, 4, -1)])
        self.assertEqual(times[0], ["Op19", "2", "20.0", "ms", "9.5", "%", "10.0", "ms"])
        self.assertRegex(text, r"5 more +10 +15\.0 ms +7\.1 %")
        self.assertRegex(text, r"Op07 +704 B +512 B +0 B +192 B")
        self.assertRegex(text, r"errors: 9 calls failed\n +7  aclrtMalloc, 207001: x+\.\.\.\n"
                         r" +2  aclrtGetDevice, 107002: no context\n")
        self.assertIn("leaks: 70 blocks", text)
        self.assertRegex(text, r"2\.00 KiB  pinned, allocation 5, aclrtMallocHost from a\(b\+0x1\)")
        self.assertRegex(text, r"\n +62 more$")
        self.assertLessEqual(len(lines), 40)
        self.assertLessEqual(max(map(len, lines)), 110)
        _, report = self.run_json(self.forger, VERSION)
        (process,) = report["processes"]
        self.assertEqual((len(process["operators"]), len(process["leaks"]["blocks"]), process["leaks"]["count"]),
                         (20, 64, 70))
        self.assertEqual(process["operators"][3]["implementations"],
                         [{"name": "conv=gemm", "reason": "first of the list", "launches": 2, "time_ns": 0}])
        self.assertEqual(process["operators"][4]["implementations"], [])

    def test_foreign_text_is_escaped(self):
        path = self.folder / "report\x1b.json"
        name = b"\x1b]0;y\x07\xfe"
        program = os.fsencode(self.folder) + b"/" + name
        os.symlink(self.forger, program)
        done = subprocess.run([CANNON, "run", "--json", path, program, VERSION, "evil", name], env=clean_environment(),
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        text = done.stderr.decode()
        self.assertTrue(all(c.isprintable() or c == "\n" for c in text), text)
        self.assertIn("cannon: \\x1b]0;y\\x07\\xfe ended with status 0", text)
        self.assertGreaterEqual(text.count("\\x1b]0;x\\x07\\xff<b"), 8)
        report = json.loads(path.read_bytes().decode())
        self.assertEqual(report["command"][3], "\\x1b]0;y\\x07\\xfe")
        (process,) = report["processes"]
        self.assertRegex(process["program"], r"^\\x1b\]0;x\\x07\\xff<b>e+$")
        self.assertEqual(len(process["error_kinds"][0]["call"]), 55)
        (implementation,) = process["operators"][3]["implementations"]
        for text in implementation["name"], implementation["reason"]:
            self.assertRegex(text, r"^\\x1b\]0;x\\x07\\xff<b>e+$")

    def test_statistics_of_another_version(self):
        done = execute(CANNON, "run", self.forger, "77")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"version 77, expected {VERSION}", done.stderr)
        self.assertNotIn("no Cannon", done.stderr)

    def test_environment_of_the_program(self):
        show = 'for v in ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_OPP_PATH LD_LIBRARY_PATH CANNON_DEVICE ' \
               'CANNON_DEVICES CANNON_MEM; do eval echo "\\$$v"; done; test -d "$CANNON_STATS_DIR"'
        done = execute(CANNON, "run", "--quiet", "--device", "910b4", "--devices", "3", "--mem", "3g", "sh", "-c", show,
                       env=clean_environment(LD_LIBRARY_PATH="/before"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), [str(PREFIX), str(PREFIX), f"{PREFIX}/opp",
                                               f"{PREFIX}/latest/lib64:/before", "Ascend910B4", "3", str(3 << 30)])

    def test_temporary_folder_is_removed(self):
        folder = self.folder / "temporary"
        folder.mkdir()
        execute(CANNON, "run", self.program, env=clean_environment(TMPDIR=str(folder)))
        self.assertEqual(list(folder.iterdir()), [])

    def test_wrong_options_run_nothing(self):
        marker = self.folder / "was-run"
        for options, named in ((("--device", "Ascend999"), "Ascend999"), (("--mem", "12Q"), "12Q"),
                               (("--mem", "0"), "'0'"),
                               (("--mem", "-5M"), "-5M"), (("--mem", "99999999999T"), "99999999999T"),
                               (("--devices", "x"), "'x'"), (("--devices", "17"), "17"), (("--nonsense",), "nonsense"),
                               (("--json", "/no/such/folder/x"), "/no/such/folder/x"), (("--leaks=max=0",), "max=0"),
                               (("--leaks=report=a,signal=KILL",), "signal=KILL"), (("--alarm", "101"), "101"),
                               (("--alarm", "x"), "'x'")):
            done = execute(CANNON, "run", *options, "--", "touch", marker)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn(named, done.stderr)
            self.assertFalse(marker.exists(), options)
        self.assertEqual(execute(CANNON, "run").returncode, 2)


class OtherCommands(CliTest):
    def test_help_and_version(self):
        for command in ((CANNON, "--help"), (CANNON, "run", "--help"), (CANNON, "env", "--help"),
                        (CANNON, "info", "--help"), (CANNON, "top", "--help"), (NPU_SMI, "--help")):
            done = execute(*command)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout.startswith("Usage: "), command)
        self.assertRegex(execute(CANNON, "--version").stdout, r"^cannon \d+\.\d+\.\d+ \(CANN 8\.1\.RC1\)$")
        self.assertRegex(execute(NPU_SMI, "-v").stdout, r"^npu-smi version: \d+")

    def test_unknown_subcommand(self):
        done = execute(CANNON, "fly")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'fly'", done.stderr)
        self.assertEqual(execute(CANNON).returncode, 2)
        done = execute(NPU_SMI, "set")
        self.assertEqual(done.returncode, 1)
        self.assertIn("'set'", done.stderr)

    def test_info(self):
        done = execute(CANNON, "info", env=clean_environment(CANNON_DEVICES="2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in ("CANN 8.1.RC1", "interface 1.13.0", f"Installed in {PREFIX}", "Devices: 2", "Ascend310P3",
                     "Ascend910A"):
            self.assertIn(text, done.stdout)
        self.assertRegex(done.stdout, r"Coverage: [1-9]\d* of [1-9]\d* functions")

    def test_coverage_agrees_with_the_library(self):
        lines = execute(CANNON, "info", "--coverage").stdout.splitlines()
        implemented = {line.split()[1] for line in lines if line.startswith("  + ")}
        refusing = {line.split()[1] for line in lines if line.startswith("  ! ")}
        missing = {line.split()[1] for line in lines if line.startswith("  - ")}
        self.assertIn("aclInit", implemented)
        self.assertLessEqual({"aclmdlLoadFromFileWithQ", "aclrtIpcMemSetAttr", "aclopStopDumpArgs"}, refusing)
        self.assertFalse(refusing & implemented)
        self.assertTrue(missing)
        exported = {line.split()[-1] for line in execute("nm", "-D", "--defined-only",
                                                         PREFIX / "lib64/libcannon.so").stdout.splitlines()}
        self.assertEqual((implemented | refusing) - exported, set())
        self.assertEqual(missing & exported, set())
        heads = [line.split() for line in lines if not line.startswith(" ")]
        known = sum(int(count.split("/")[1]) for _, count in heads)
        self.assertEqual(known, sum(line.startswith(("  + ", "  ! ", "  - ")) for line in lines))

    def test_collective_communication_is_covered(self):
        text = execute(CANNON, "info", "--coverage").stdout
        self.assertIn("hccl/hccl.h 37/37\n", text)

    def test_rules(self):
        text = execute(CANNON, "info", "--rules").stdout
        for row in (r"aclrtMalloc +32 +32 +64 +512 +aclrtFree +CANN ", r"aclrtMallocAlign32 +32 +0 +32 +512 ",
                    r"aclrtMallocHost +64 +0 +64 +4096 +aclrtFreeHost ",
                    r"hi_mpi_dvpp_malloc +32 +32 +128 ", r"6 HUGE1G_ONLY +1\.00 GiB +whole pages",
                    r"DVPP +32 +32 +128 "):
            self.assertRegex(text, row)

    def test_npu_smi_is_parsed_as_scripts_do(self):
        for soc in ("Ascend910B3", "Ascend910_9391", "Ascend310P3"):
            alone = {"CANNON_STATS_DIR": str(self.folder)}  # excludes programs that run elsewhere on this machine
            done = execute(NPU_SMI, "info",
                           env=clean_environment(CANNON_DEVICE=soc, CANNON_MEM=str(512 * MIB), **alone))
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            self.assertEqual("Ascend" + lines[6].split()[2], soc)
            self.assertEqual({len(line) for line in lines}, {98})
            usage = lines[7].split("|")[3].split()  # AICore, memory used / total, HBM used / total
            self.assertEqual(usage[6 if "910" in soc else 3], "512")
        done = execute(NPU_SMI, "info", env=clean_environment(CANNON_DEVICES="3", CANNON_STATS_DIR=str(self.folder)))
        self.assertEqual(done.stdout.count(" 910B3 "), 3)


class Shells(CliTest):
    ECHO = 'echo "$ASCEND_HOME_PATH|$ASCEND_TOOLKIT_HOME|$ASCEND_OPP_PATH|$LD_LIBRARY_PATH|${PATH%%:*}"'
    EXPECTED = f"{PREFIX}|{PREFIX}|{PREFIX}/opp|{PREFIX}/latest/lib64|{PREFIX}/bin"

    def check(self, shell, set_up, env=None, expected=EXPECTED):
        done = execute(*shell, f"{set_up}\n{self.ECHO}", env=env)
        self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, expected, ""), (shell, set_up))

    def test_sourcing_sets_the_environment(self):
        bash, dash = ("bash", "-euo", "pipefail", "-c"), ("dash", "-euc")
        for shell in (bash, dash):
            for set_up in (f'eval "$(\'{CANNON}\' env)"', f". '{PREFIX}/set_env.sh'", f". '{PREFIX}/bin/setenv.bash'"):
                self.check(shell, set_up)
                self.check(shell, f"{set_up}\n{set_up}")  # sourcing it twice adds nothing twice
                self.check(shell, set_up, clean_environment(LD_LIBRARY_PATH="/before"),
                           self.EXPECTED.replace("/lib64|", "/lib64:/before|"))
        self.check(bash, f"cd '{PREFIX}/bin'\nsource ../set_env.sh")
        self.check(bash, f"cd '{PREFIX}'\nsource ./bin/setenv.bash", clean_environment(CDPATH="/tmp:."))

    def test_sourcing_leaves_no_other_variables(self):
        done = execute("bash", "-euo", "pipefail", "-c", f"source '{PREFIX}/set_env.sh'; set | grep '^_cannon_' || :")
        self.assertEqual((done.stdout, done.stderr), ("", ""))

    def test_a_moved_prefix_with_odd_letters(self):
        moved = self.folder / "it's a $HOME copy"
        shutil.copytree(PREFIX, moved, symlinks=True)
        for shell in (("bash", "-euo", "pipefail", "-c"), ("dash", "-euc")):
            done = execute(*shell, '. "$0/set_env.sh"; echo "$ASCEND_HOME_PATH"; cannon run --quiet true', moved)
            self.assertEqual((done.returncode, done.stdout.strip(), done.stderr), (0, str(moved), ""))


class Layout(CliTest):
    def test_files_that_frameworks_look_for(self):
        arch = f"{platform.machine()}-linux"
        for place in ("runtime/include/acl/acl.h", "runtime/lib64/libascendcl.so", "compiler/lib64/libascendcl.so",
                      "opp", f"{arch}/include/acl/acl.h", f"{arch}/lib64/libascendcl.so", "lib64/stub/libascendcl.so",
                      "acllib/lib64/libascendcl.so", "devlib/libascendcl.so", "LICENSE"):
            self.assertTrue((PREFIX / place).exists(), place)
        for package in ("runtime", "compiler", "opp"):
            self.assertIn("Version=8.1.RC1\n", (PREFIX / package / "version.info").read_text())
            self.assertIn("[8.1.RC1:8.1.RC1]", (PREFIX / package / "version.cfg").read_text())
        # torch_npu searches this way: os.walk, which does not follow symbolic links.
        found = [os.path.join(top, name) for top, _, names in os.walk(PREFIX) for name in names
                 if name.startswith("ascend_") and name.endswith("_install.info")]
        self.assertEqual(len(found), 1)
        self.assertIn("version=8.1.RC1\n", pathlib.Path(found[0]).read_text())

    def check_binary(self, binary, *libraries):
        """The binary links CANN's libraries and not libcannon.so, and runs."""
        dynamic = execute("readelf", "-d", binary).stdout
        needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line}
        self.assertLessEqual({f"lib{name}.so" for name in libraries}, needed)
        self.assertNotIn("libcannon.so", needed)
        done = execute(CANNON, "run", "--quiet", binary)
        self.assertEqual(done.returncode, 0, done.stderr)

    def build(self, name, cmake, **env):
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(self.folder / "program.c", folder)
        (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.14)\nproject({name} C)\n{cmake}")
        for command in (("cmake", "-S", folder, "-B", folder / "build"), ("cmake", "--build", folder / "build")):
            done = execute(*command, env=clean_environment(**env))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return folder / "build/main"

    def test_cmake_project_written_for_cann(self):
        for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_INSTALL_PATH"):
            binary = self.build(f"cann_{variable}", f"""
                include_directories($ENV{{{variable}}}/include $ENV{{{variable}}}/runtime/include)
                link_directories($ENV{{{variable}}}/lib64)
                add_executable(main program.c)
                target_link_libraries(main ascendcl)""", **{variable: str(PREFIX)})
            self.check_binary(binary, "ascendcl")

    def test_cmake_package(self):
        binary = self.build("package", """
            find_package(cannon 0.1 REQUIRED)
            add_executable(main program.c)
            set_target_properties(main PROPERTIES LINK_FLAGS -Wl,--no-as-needed)
            target_link_libraries(main cannon::opapi)""", CMAKE_PREFIX_PATH=str(PREFIX))
        self.check_binary(binary, "ascendcl", "nnopbase", "opapi")

    def test_pkg_config(self):
        env = clean_environment(PKG_CONFIG_PATH=f"{PREFIX}/lib64/pkgconfig")
        self.assertEqual(execute("pkg-config", "--modversion", "ascendcl", env=env).stdout.strip(), "8.1.RC1")
        for package in ("ascendcl", "cannon"):
            binary = self.folder / f"with-{package}"
            done = execute("sh", "-c",
                           f"cc '{self.folder}/program.c' -o '{binary}' $(pkg-config --cflags --libs {package})",
                           env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_binary(binary, "ascendcl")

    def test_headers_of_components_that_are_not_built(self):
        """Headers of components that are not built exist, since programs include more than they call, and declare
        nothing."""
        lines = execute(CANNON, "info", "--coverage").stdout.splitlines()
        headers = [line.split() for line in lines if line.startswith("aclnnop/") and "level2/" not in line]
        missing = [name for name, built in headers if built.startswith("0/")]
        self.assertGreater(len(missing), 10)
        source = self.folder / "includes.c"
        source.write_text("".join(f"#include <{name}>\n" for name, _ in headers) + "int main(void) { return 0; }\n")
        done = execute("cc", "-std=c11", "-Wall", "-Werror", f"-I{PREFIX}/include", "-fsyntax-only", source)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in missing:
            self.assertNotIn("aclnnStatus", (PREFIX / "include" / name).read_text())


if __name__ == "__main__":
    unittest.main()
