# SPDX-License-Identifier: Apache-2.0
"""The process in which the cases of one file run, so that a crash ends nothing else.

    python3 -m cannon.testing.worker IN OUT

IN and OUT are descriptors of pipes. The first line of IN is {"file", "seed", "huge", "device", "time"}; the answer is
{"environment", "tests"} or {"error"}. Then each line {"test", "id"} is answered by the outcome of the case
(run_case), or by {"unknown"}; with "describe" in the line the case is described only. The process ends when IN does.
"""
import ctypes
import faulthandler
import importlib.util
import json
import os
import signal
import sys
import traceback

PR_SET_PDEATHSIG, IOLBF = 1, 1


def load_file(path):
    """The module of a test file."""
    folder, name = os.path.split(os.path.abspath(path))
    name = os.path.splitext(name)[0]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def environment(number):
    """What the cases run on, for the report."""
    import numpy
    known = {"python": sys.version.split()[0], "numpy": numpy.__version__}
    try:
        from .. import runtime
        from . import device
        d = device.open_device(number)
        return {**known, "soc": d.soc_name(), "cannon": d.is_cannon(), "devices": runtime.device_count()}
    except (ImportError, RuntimeError) as e:
        return {**known, "soc": None, "cannon": None, "devices": 0, "error": str(e)}


class Worker:
    def __init__(self, request):
        from . import definition, run_case, timing
        self.run_case, self.describe = run_case.run_case, run_case.describe
        timed = request.get("time")
        self.options = run_case.Options(request["device"], timing.Timing(**timed) if timed else None)
        tests = definition.tests_of(load_file(request["file"]))
        self.tests = {test.name: test for test in tests}
        self.cases, listed = {}, []
        for test in tests:
            made = test.cases(request["seed"], request["huge"])
            self.cases.update({(test.name, case.id): case for case in made})
            listed.append({"name": test.name, "operator": test.operator_name,
                           "cases": [self.describe(c) for c in made]})
        self.answer = {"environment": environment(request["device"]), "tests": listed}

    def run(self, request):
        key = request["test"], request["id"]
        case = self.cases.get(key)
        if case is None and key[0] in self.tests:
            case = self.tests[key[0]].case(key[1])
        if case is None:
            return {"unknown": True}
        return self.describe(case) if "describe" in request else self.run_case(case, self.options)


def main():
    c = ctypes.CDLL(None)
    c.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    c.setvbuf(ctypes.c_void_p.in_dll(c, "stdout"), None, IOLBF, 0)  # what an operator printed before it crashed shows
    faulthandler.enable()
    with os.fdopen(int(sys.argv[1]), "r") as requests, os.fdopen(int(sys.argv[2]), "w") as answers:
        def answer(value):
            sys.stdout.flush()
            sys.stderr.flush()
            answers.write(json.dumps(value, allow_nan=True) + "\n")
            answers.flush()
        try:
            worker = Worker(json.loads(requests.readline()))
        except BaseException:                   # SystemExit too: the file is wrong, whatever it raised
            answer({"error": traceback.format_exc()})
            return
        answer(worker.answer)
        for line in requests:
            answer(worker.run(json.loads(line)))


if __name__ == "__main__":
    main()
