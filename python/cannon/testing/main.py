# SPDX-License-Identifier: Apache-2.0
"""The command line of `cannon test`, which `python3 -m cannon.testing` is, too. help.txt describes it."""
import getopt
import importlib.util
import os
import re
import sys

from . import html_report, outputs, report as reports, runner

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
HELP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "help.txt")
FILES = re.compile(r"(?:test_.*|.*_cases)\.py")
MAX_TOLD = 20               # failures that the terminal shows in full
ERASE = "\033[K"            # to the end of the terminal's line
MAX_LINES = 40              # of the memory debugger's report that the terminal shows
OPTIONS = ["seed=", "case=", "list", "time", "warmup=", "repeat=", "huge", "device=", "check", "timeout=", "json=",
           "junit=", "html=", "force", "verbose", "help"]


class UsageError(Exception):
    pass


def _number(option, text, least, convert=int):
    try:
        value = convert(text)
    except ValueError:
        value = None
    if value is None or not value >= least:
        raise UsageError(f"{option} is '{text}', expected a number from {least}")
    return value


class Command:
    """The options of a command line."""

    def __init__(self, arguments):
        try:
            given, self.paths = getopt.gnu_getopt(arguments, "h", OPTIONS)
        except getopt.GetoptError as e:
            raise UsageError(str(e)) from None
        self.values = {}
        self.cases = [value for option, value in given if option == "--case"]
        for option, value in given:
            self.values[option.lstrip("-")] = value
        self.help = "help" in self.values or "h" in self.values
        self.force, self.verbose, self.list = (name in self.values for name in ("force", "verbose", "list"))
        self.outputs = {kind: outputs.Output(self.values[kind], kind, self.force)
                        for kind in outputs.KINDS if kind in self.values}

    def seed(self):
        text = self.values.get("seed", os.environ.get("CANNON_SEED", "0"))
        return _number("--seed" if "seed" in self.values else "CANNON_SEED", text, 0)

    def options(self):
        v, time = self.values, None
        if "time" in v or "warmup" in v or "repeat" in v:
            time = {"warmup": _number("--warmup", v.get("warmup", "3"), 0),
                    "repeat": _number("--repeat", v.get("repeat", "20"), 1)}
        timeout = _number("--timeout", v.get("timeout", "600"), 0, float)
        return runner.Options(self.seed(), "huge" in v, v.get("device"), time, "check" in v, timeout or None)


def find_files(paths):
    """The test files that paths name: files as they are, and in folders the ones whose names match FILES."""
    found = []
    for path in paths:
        if os.path.isfile(path):
            found.append(path)
        elif os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(d for d in folders if not d.startswith((".", "__")))
                found += [os.path.join(folder, name) for name in sorted(names) if FILES.fullmatch(name)]
        else:
            raise UsageError(f"there is no file or folder {path}")
    return list(dict.fromkeys(map(os.path.normpath, found)))


def _pattern(text):
    """A regular expression for an id in which * stands for any text."""
    return re.compile(".*".join(map(re.escape, text.split("*"))))


def select(run, test, wanted):
    """The descriptions of a test's cases that the options --case name: ids, with * for any text. An id of another seed
    is found, too."""
    if not wanted:
        return test["cases"]
    patterns = [_pattern(text) for text in wanted]
    chosen = [c for c in test["cases"] if any(p.fullmatch(c["id"]) for p in patterns)]
    known = {c["id"] for c in chosen}
    for text in wanted:
        if text.startswith(test["name"] + "[") and text not in known and "*" not in text:
            described = run.describe(test["name"], text)
            if described:
                chosen.append(described)
                known.add(text)
    return chosen


class Session:
    """One run of the command: files, then the report."""

    def __init__(self, command, options):
        self.command, self.options = command, options
        self.environment, self.files = None, []

    def run_file(self, path):
        entry = {"path": path, "error": None, "tests": [], "leaks": []}
        self.files.append(entry)
        try:
            run = runner.FileRun(path, self.options)
        except runner.FileError as e:
            entry["error"] = str(e)
            return
        try:
            if self.environment is None:
                self.environment = run.environment
                self._begin()
            for test in run.tests:
                cases = select(run, test, self.command.cases)
                if cases:
                    made = {"name": test["name"], "operator": test["operator"], "cases": []}
                    entry["tests"].append(made)
                    self._run_cases(run, made, cases)
        except runner.FileError as e:           # the file was imported before, and cannot be now
            entry["error"] = str(e)
        finally:
            run.close()
            entry["leaks"] = run.leaks

    def _run_cases(self, run, test, cases):
        shows = sys.stderr.isatty() and not (self.command.verbose or self.command.list)
        for i, case in enumerate(cases):
            if self.command.list:
                print(case["id"])
                continue
            if shows:
                sys.stderr.write(f"\r{i} of {len(cases)} cases of {test['name']}{ERASE}")
                sys.stderr.flush()
            result = run.run(test["name"], case)
            test["cases"].append(result)
            if self.command.verbose:
                print(f"{result['status']:8} {result['id']}", flush=True)
        if shows:
            sys.stderr.write(f"\r{ERASE}")

    def _begin(self):
        if self.command.list:
            return
        e = self.environment
        place = e["soc"] and f"{e['soc']}{' (simulated by Cannon)' if e['cannon'] else ''}" or "no device"
        print(f"seed {self.options.seed}; {place}; Python {e['python']}, NumPy {e['numpy']}", flush=True)
        if e.get("error"):
            print(f"no device can be used: {e['error']}", flush=True)

    def report(self):
        return {"written_by": "cannon test", "seed": self.options.seed, "environment": self.environment or {},
                "files": self.files}


def _tell_failures(report):
    told = 0
    for file in report["files"]:
        if file["error"] is not None:
            print(f"\nCANNOT BE USED {file['path']}\n{_indented(file['error'])}")
        for text in file["leaks"]:
            lines = text.splitlines()
            print(f"\nMEMORY LEFT BEHIND OR FREED WRONGLY {file['path']}\n{_indented(chr(10).join(lines[:MAX_LINES]))}")
            if len(lines) > MAX_LINES:
                print(f"  {len(lines) - MAX_LINES} further lines are not shown")
    for file, _, case in reports.each_case(report):
        if case["status"] not in reports.BAD:
            continue
        told += 1
        if told > MAX_TOLD:
            continue
        print(f"\n{case['status'].upper()} {case['id']}")
        for failure in case["failures"]:
            print(_indented(failure["message"]))
            if failure.get("trace"):
                print(_indented(failure["trace"]))
        if case.get("output"):
            print(_indented(f"output:\n{case['output']}"))
        print(f"  again: cannon test {file['path']} --case '{case['id']}'")
    if told > MAX_TOLD:
        print(f"\n{told - MAX_TOLD} further failures are not shown; --json, --junit and --html write all of them.")


def _indented(text):
    return "\n".join("  " + line for line in text.rstrip().splitlines())


def _tell(report):
    rows = reports.summary_rows(report)
    if rows:
        print("\n".join(["", *reports.table(reports.SUMMARY_HEAD, rows, 3)]))
    timed = [reports.timing_row(c) for _, _, c in reports.each_case(report) if c.get("timing")]
    if timed:
        print("\n".join(["", *reports.table(reports.TIMING_HEAD, timed, 1)]))
    skipped = dict.fromkeys(c["reason"] for _, _, c in reports.each_case(report) if c["status"] == "skipped")
    for reason in skipped:
        print(f"\nskipped: {reason}")
    _tell_failures(report)
    print(f"\n{reports.totals_line(report)}", flush=True)


WRITERS = {"json": reports.to_json, "junit": reports.to_junit, "html": html_report.to_html}


def run(command):
    options = command.options()
    if importlib.util.find_spec("numpy") is None:
        raise UsageError(f"NumPy is not installed for {sys.executable}; use a Python that has it")
    if not command.paths:
        raise UsageError("no folder or file of tests is given")
    files = find_files(command.paths)
    if not files:
        raise UsageError(f"no file test_*.py or *_cases.py is in {', '.join(command.paths)}")
    for output in command.outputs.values():
        output.check()
    session = Session(command, options)
    interrupted = False
    try:
        for path in files:
            session.run_file(path)
    except KeyboardInterrupt:                   # what was run so far is reported
        interrupted = True
    report = session.report()
    if command.list:
        for file in session.files:
            if file["error"] is not None:
                print(f"cannon test: {file['path']} cannot be used\n{file['error']}", file=sys.stderr)
        return EXIT_FAILED if any(f["error"] is not None for f in session.files) else 0
    has_cases = any(True for _ in reports.each_case(report))
    if not (interrupted or has_cases) and all(f["error"] is None for f in session.files):
        raise UsageError("no case has that id" if command.cases else "the files define no tests")
    _tell(report)
    for kind, output in command.outputs.items():
        output.write(WRITERS[kind](report))
    if interrupted:
        raise KeyboardInterrupt
    return 0 if reports.succeeded(report) else EXIT_FAILED


def main(arguments=None):
    try:
        command = Command(sys.argv[1:] if arguments is None else arguments)
        if command.help:
            with open(HELP, encoding="utf-8") as f:
                print(f.read(), end="")
            return 0
        return run(command)
    except (UsageError, outputs.OutputError) as e:
        print(f"cannon test: {e}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:                     # who reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("cannon test: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
