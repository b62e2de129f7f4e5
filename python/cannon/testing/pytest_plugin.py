# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest: collects the tests that `operator_test` defines, in test_*.py and in *_cases.py, and has
fixtures for other tests on a device.

Cases run in a process of their own per file, as under `cannon test`; --cannon-in-process runs them in pytest's. The
fixtures use the device from pytest's process:

    npu           the device: number, count, soc_name(), stream, synchronize(), free_bytes(). Skips where there is none
    device_count  the number of devices; 0 where there are no libraries
    cannon_op     testing.check_operator on that device: cannon_op("Add", x, y, alpha=2, expected=x + 2 * y)
"""
import os
import re
import sys

import pytest

from .runner import FileError

CASES = "_cases.py"
IN_ARGUMENT = re.compile(r"::(\w+)(\[.*-seed\d+\])$")


def pytest_addoption(parser):
    group = parser.getgroup("cannon", "operators on NPUs, or on Cannon")
    add = group.addoption
    add("--cannon-device", metavar="DEVICE", help="number of the device, or name of the SoC that Cannon simulates")
    add("--cannon-check", action="store_true", help="run cases under Cannon's memory debugger: a file whose process "
        "leaves blocks of device memory behind fails")
    add("--cannon-seed", metavar="N", type=int, help="seed of the inputs' values (default: CANNON_SEED, or 0)")
    add("--cannon-huge", action="store_true", help="run the cases with huge shapes, too")
    add("--cannon-timeout", metavar="S", type=float, default=600,
        help="seconds after which a case is ended; 0: never (default: 600)")
    add("--cannon-in-process", action="store_true", help="run cases in pytest's own process, for a debugger")


class _Session:
    """What the plugin keeps for a run of pytest. At most one file's process runs at a time."""

    def __init__(self, config):
        self.config, self.run = config, None
        seed = config.getoption("--cannon-seed")
        self.seed = int(os.environ.get("CANNON_SEED", "0")) if seed is None else seed
        self.huge = config.getoption("--cannon-huge")
        self.check = config.getoption("--cannon-check")
        self.in_process = config.getoption("--cannon-in-process")
        self.device = config.getoption("--cannon-device")
        self.named = [m for m in map(IN_ARGUMENT.search, map(str, config.args)) if m]

    @property
    def number(self):
        return int(self.device) if self.device and self.device.isdigit() else 0

    def set_environment(self):
        """For the fixtures: the libraries read it when they are loaded."""
        if self.device and not self.device.isdigit():
            os.environ["CANNON_DEVICE"] = self.device
        if self.check:
            os.environ.setdefault("CANNON_LEAKS", "1")

    def cases(self, test):
        """The cases of a test, and those that the command line names with another seed."""
        cases = test.cases(self.seed, self.huge)
        known = {case.id for case in cases}
        for m in self.named:
            if m[1] == test.name and m[1] + m[2] not in known:
                case = test.case(m[1] + m[2])
                cases += [case] if case else []
        return cases

    def outcome(self, case):
        from . import run_case, runner
        if self.in_process:
            return run_case.run_case(case, run_case.Options(self.number))
        path = os.path.abspath(case.test.file)
        if self.run is None or self.run.path != path:
            self.close()
            timeout = self.config.getoption("--cannon-timeout")
            self.run = runner.FileRun(path, runner.Options(self.seed, self.huge, self.device, None, self.check,
                                                           timeout or None))
        return self.run.run(case.test.name, run_case.describe(case))

    def close(self):
        """Ends the process that runs. Returns the memory debugger's reports."""
        run, self.run = self.run, None
        if run is None:
            return []
        run.close()
        return run.leaks


def pytest_configure(config):
    config._cannon = _Session(config)
    config._cannon.set_environment()


def pytest_unconfigure(config):
    session = getattr(config, "_cannon", None)
    if session is not None:
        session.close()


# ---- collection

class CaseFailed(Exception):
    def __init__(self, outcome):
        super().__init__(outcome["id"])
        self.outcome = outcome


class CaseItem(pytest.Item):
    def __init__(self, *, case, **more):
        super().__init__(**more)
        self.case = case

    def runtest(self):
        try:
            outcome = self.config._cannon.outcome(self.case)
        except FileError as e:
            pytest.fail(str(e), pytrace=False)
        for name in ("worst_ulps", "workspace_bytes", "device_peak_bytes"):
            if outcome.get(name) is not None:
                self.user_properties.append((name, outcome[name]))
        if outcome.get("output"):
            self.add_report_section("call", "stdout", outcome["output"])
        if outcome["status"] == "skipped":
            pytest.skip(outcome["reason"])
        if outcome["status"] != "passed":
            raise CaseFailed(outcome)

    def repr_failure(self, excinfo):
        if not isinstance(excinfo.value, CaseFailed):
            return super().repr_failure(excinfo)
        outcome = excinfo.value.outcome
        lines = [f"{outcome['status']}: {outcome['id']}"]
        for failure in outcome["failures"]:
            lines += [failure["message"], *([failure["trace"]] if failure.get("trace") else [])]
        return "\n".join(lines)

    def reportinfo(self):
        code = getattr(self.case.test.reference, "__code__", None)
        return self.path, code.co_firstlineno - 1 if code else None, self.name


class LeaksItem(pytest.Item):
    """Behind the last case of a file under --cannon-check: the process of the file left no memory behind, and freed
    none wrongly."""

    def runtest(self):
        leaks = self.config._cannon.close()
        if leaks:
            raise CaseFailed({"id": self.name, "status": "left behind or freed wrongly",
                              "failures": [{"message": text} for text in leaks]})

    repr_failure = CaseItem.repr_failure

    def reportinfo(self):
        return self.path, None, self.name


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector, name, obj):
    definition = sys.modules.get("cannon.testing.definition")
    if definition is None or not isinstance(obj, definition.OperatorTest):
        return None
    obj.name, obj.file = name, str(collector.path)
    return [CaseItem.from_parent(collector, name=case.id, case=case) for case in collector.config._cannon.cases(obj)]


def pytest_collect_file(file_path, parent):
    if file_path.name.endswith(CASES) and not parent.session.isinitpath(file_path) and \
            not any(file_path.match(pattern) for pattern in parent.config.getini("python_files")):
        return pytest.Module.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    session = config._cannon
    if not session.check or session.in_process:
        return
    last = {item.path: item for item in items if isinstance(item, CaseItem)}
    for item in last.values():
        items.insert(items.index(item) + 1, LeaksItem.from_parent(item.parent, name="memory"))


# ---- fixtures

@pytest.fixture(scope="session")
def device_count():
    """The number of devices; 0 where CANN's libraries are not found."""
    try:
        from .. import runtime
        return runtime.device_count()
    except (ImportError, RuntimeError):
        return 0


@pytest.fixture
def npu(request, device_count):
    """The device that is tested on."""
    number = request.config._cannon.number
    if number >= device_count:
        pytest.skip(f"there is no device {number}: {device_count} devices are found")
    from . import device as devices
    device = devices.open_device(number)
    device.count = device_count
    yield device
    device.synchronize()


@pytest.fixture
def cannon_op(npu):
    """Runs an operator on arrays and checks the result: testing.check_operator on this device."""
    import functools

    from .checked import check_operator
    return functools.partial(check_operator, device=npu.number)
