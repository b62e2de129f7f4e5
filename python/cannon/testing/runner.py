# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of test files in worker processes, one per file: a case that ends its process, or hangs, becomes an
outcome like any other, and the next case gets a new process.
"""
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .._autoload import prefix

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUTPUT_BYTES = 16384        # of a case's output that the report keeps
LEAKS_BEGIN = "Cannon: memory of process "                      # LEAKS_REPORT_BEGINS of src/check/leaks/leaks_report.h
LOAD_SECONDS = 300          # for importing a file


class Options:
    """How files are run. seed, huge, device: see `cannon test --help`. time: None or {"warmup", "repeat"}. check: under
    Cannon's memory debugger. timeout: seconds for a case; None: no limit."""

    def __init__(self, seed=0, huge=False, device=None, time=None, check=False, timeout=None):
        self.seed, self.huge, self.time, self.check, self.timeout = seed, huge, time, check, timeout
        self.device, self.environment = 0, {}
        if device is not None and re.fullmatch(r"\d+", str(device)):
            self.device = int(device)
        elif device is not None:
            self.environment["CANNON_DEVICE"] = str(device)

    def request(self, path):
        return {"file": path, "seed": self.seed, "huge": self.huge, "device": self.device, "time": self.time}


class WorkerEnded(Exception):
    """The worker has ended, or has not answered in time. status: crashed or timeout."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class FileError(Exception):
    """The file cannot be used; the text says why."""


def find_cannon():
    """The path of the command `cannon`, or None."""
    for folder in (os.environ.get("CANNON_PREFIX"), prefix()):
        path = os.path.join(folder or "/nonexistent", "bin", "cannon")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("cannon")


def how_it_ended(code):
    """Words for a process's exit code."""
    if code >= 0:
        return f"ended with status {code}"
    try:
        return f"was ended by {signal.Signals(-code).name} ({signal.strsignal(-code)})"
    except ValueError:
        return f"was ended by signal {-code}"


class _Process:
    """A worker process and the pipes to it."""

    def __init__(self, options, report):
        self.output = tempfile.TemporaryFile()
        to_worker, from_worker = os.pipe(), os.pipe()
        command = [sys.executable, "-B", "-u", "-m", "cannon.testing.worker", str(to_worker[0]), str(from_worker[1])]
        if options.check:
            command = [find_cannon(), "run", "--quiet", f"--leaks=report={report}", "--", *command]
        paths = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
                                        pass_fds=(to_worker[0], from_worker[1]),
                                        env={**os.environ, **options.environment, "PYTHONPATH": paths})
        os.close(to_worker[0])
        os.close(from_worker[1])
        self.requests, self.answers = os.fdopen(to_worker[1], "w"), from_worker[0]
        self.received = b""

    def ask(self, request, timeout):
        """The answer to a request. Raises WorkerEnded."""
        try:
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()
        except BrokenPipeError:
            raise WorkerEnded("crashed", f"the process {how_it_ended(self.process.wait())} during this case") from None
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self.received:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not select.select([self.answers], [], [], left)[0]:
                self.kill()
                raise WorkerEnded("timeout", f"the case had not finished after {timeout:g} s; its process was killed")
            more = os.read(self.answers, 1 << 20)
            if not more:
                raise WorkerEnded("crashed", f"the process {how_it_ended(self.process.wait())} during this case")
            self.received += more
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)

    def written(self):
        return os.fstat(self.output.fileno()).st_size

    def output_since(self, begin):
        end = self.written()
        begin = max(begin, end - OUTPUT_BYTES)
        return os.pread(self.output.fileno(), end - begin, begin).decode("utf-8", "replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends the worker. Returns its exit code."""
        try:
            self.requests.close()
        except BrokenPipeError:
            pass
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self.process.returncode
        os.close(self.answers)
        self.output.close()
        return code


class FileRun:
    """A test file whose cases are run. `tests` and `environment` are the worker's answer. Raises FileError. Close it at
    the end; `leaks` is then a list of what the memory debugger found."""

    def __init__(self, path, options):
        self.path, self.options, self.leaks = os.path.abspath(path), options, []
        if options.check and not find_cannon():
            raise FileError("the memory debugger is Cannon's, and the command `cannon` was not found")
        self.folder = tempfile.mkdtemp(prefix="cannon-test-")
        self.process = None
        self.n_processes = 0
        try:
            answer = self._start()
        except BaseException:
            self.close()
            raise
        self.tests, self.environment = answer["tests"], answer["environment"]

    def _start(self):
        self.n_processes += 1
        self.process = _Process(self.options, self._report())
        try:
            answer = self.process.ask(self.options.request(self.path), LOAD_SECONDS)
        except WorkerEnded as e:
            text = self.process.output_since(0)
            words = str(e).replace("during this case", "while it imported the file")
            raise FileError(f"{words}\n{text}".rstrip()) from None
        if "error" in answer:
            raise FileError(answer["error"])
        return answer

    def _report(self):
        return os.path.join(self.folder, f"leaks{self.n_processes}.txt")

    def describe(self, test, case_id):
        """What a report says of a case in any event (run_case.describe), or None if there is no such case."""
        if self.process is None:
            self._start()
        answer = self.process.ask({"test": test, "id": case_id, "describe": True}, LOAD_SECONDS)
        return None if "unknown" in answer else answer

    def run(self, test, case):
        """The outcome of a case (run_case.run_case), which is given by its description. `output` is what the process
        printed meanwhile, unless it passed."""
        if self.process is None:
            self._start()
        case_id = case["id"]
        begin, start = self.process.written(), time.monotonic()
        try:
            result = self.process.ask({"test": test, "id": case_id}, self.options.timeout)
        except WorkerEnded as e:
            failure = {"kind": e.status, "message": str(e)}
            result = {**case, "status": e.status, "failures": [failure], "seconds": time.monotonic() - start}
            output = self.process.output_since(begin)
            self._end_process()
        else:
            output = "" if result["status"] == "passed" else self.process.output_since(begin)
            if self.environment["devices"] and any(map(_failed_on_device, result["failures"])):
                self._end_process()             # the device's context may be of no further use
        if output.strip():
            result["output"] = output
        return result

    def _end_process(self):
        process, self.process = self.process, None
        process.close()
        self.leaks += read_leaks(self._report()) if self.options.check else []

    def close(self):
        if self.process is not None:
            self._end_process()
        shutil.rmtree(self.folder, ignore_errors=True)


def _failed_on_device(failure):
    """Whether a failure of a case is that of a task, rather than of a check before it."""
    return "function" in failure and not failure["function"].endswith("GetWorkspaceSize")


def read_leaks(path):
    """The memory debugger's report of a process: a list with its text, or an empty one if no block is left and none was
    freed wrongly."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read()
    except OSError:
        return []                               # a process that was killed writes none
    bad = re.search(r"^Live blocks: [1-9]|^Wrong frees: ", text, re.M)
    return [text] if bad or not text.startswith(LEAKS_BEGIN) else []
