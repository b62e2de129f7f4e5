#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows whether two builds compute the same bits: records the calls of operators by the numeric tests, and compares.

    golden.py --prefix OLD/prefix --write FILE [--level v3,...] [--cases small] [NAME...]
    golden.py --prefix NEW/prefix --compare FILE [--level v3,...] [NAME...]

A NAME restricts what is recorded or compared: a test module or a test (test_conv, test_conv.Convolutions.test_large), a
file of ops/ (conv), a family of the schemas (upsample), or an operator (Convolution, "aclop Relu"). Comparing takes the
tests, the seed and the number of cases from FILE, and runs only tests that made the calls in question. Both times the
working tree should have the same tests: a changed test is reported as other arguments or inputs, or as a missing call.
Workspaces depend on the number of threads, so they are compared only where that is the same. Exit status 1: something
differs or is missing.

FILE (gzip) begins with a line of JSON, the conditions. Then there is a line per call, with tabs between

    level   test   number of the call in the test   operator   arguments   hash of the inputs   results...

A result is NAME=VALUE: the bytes of workspace, or the code and message of a refused call; and for each tensor that the
call has changed the hash of its storage. The last line of a test has its outcome.

Tests provoke few of the messages. So after the first call of an operator in a test there is a line for each of its
arguments, with N.ARGUMENT for the number: what phase one says to the same call with that argument replaced, by none,
another data type, another shape, another value.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import glob
import gzip
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "ops")
# Levels, and the processor's flag without which a level is the same as the one before. All but the last, which sets no
# limit, are values of CANNON_ISA.
LEVELS = {"portable": "", "v3": "avx2", "v4": "avx512bw", "dots": "avx512_vnni", "highest": "amx_tile"}
OUTCOME = "(test)"              # stands for the operator in the last line of a test
# What the harness's functions return.
RETURNED = {"run": "workspace", "run_ranks": "workspace", "refused": "refused", "execute": "done"}
# A communicator's name: host, process, number in the process, time.
COMMUNICATOR = re.compile(rf"[\w.-]+_{os.getpid()}_(\d+)_\d+")

Line = collections.namedtuple("Line", "level test number operator arguments inputs results")


def read_line(text):
    level, test, number, operator, arguments, inputs, *results = text.rstrip("\n").split("\t")
    return Line(level, test, number, operator, arguments, inputs, dict(r.split("=", 1) for r in results))


# ---- recording: a process for each test module and level. It alone has CANNON_PREFIX, so it alone can import acl.

def named_arguments(function, *args):
    """(operator, [(name, value)]) of a call of the harness's function of that name."""
    import acl
    if function == "execute":
        op, *args = args
        return "aclop " + op, list(zip(("inputs", "outputs", "attributes"), args))
    if function == "run_ranks":
        _, op, calls = args
        return op, [(f"{p.name} of rank {i}", a) for i, one in enumerate(calls) for p, a in zip(acl.params(op), one)]
    op, *args = args
    return op, [(p.name, a) for p, a in zip(acl.params(op), args)]


def tensors(value):
    """The acl.Tensors in an argument."""
    value = getattr(value, "tensors", getattr(value, "storage", value))
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)
    elif hasattr(value, "n_storage"):
        yield value


def digest(data):
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def replacements(value):
    """(name, other value) for an argument: values that checks of phase one look at."""
    import acl
    import dtypes
    if isinstance(value, acl.Tensor):
        def view(shape, strides):
            twin = value.with_code(value.code)
            twin.shape, twin.strides, twin.n_storage = shape, strides, max(twin.n_storage, twin.offset + twin.size)
            return twin
        shape = value.shape
        yield from ((f"dtype {code}", value.with_code(code)) for code in acl._DTYPES)
        others = [shape + (1,), (1,) + shape, shape[1:], (2,) * 8]
        others += [(*shape[:i], n, *shape[i + 1:]) for i in range(len(shape)) for n in (shape[i] + 1, 0)]
        yield from ((f"shape {list(x)}", view(x, acl.contiguous(x))) for x in others)
        yield "strides 0", view(shape, (0,) * len(shape))
    elif isinstance(value, acl.TensorList):
        yield "empty", acl.TensorList([])
        yield "a tensor less", acl.TensorList(value.tensors[:-1])
        yield from (("first " + name, acl.TensorList([t, *value.tensors[1:]]))
                    for name, t in replacements(value.tensors[0] if value.tensors else None) if t)
    elif isinstance(value, acl.Scalar):
        others = [acl.Scalar(n, d) for d in (dtypes.F32, dtypes.I64, dtypes.BOOL) for n in (0, 1, 100)]
        yield from ((repr(x), x) for x in others)
    elif isinstance(value, (acl.Ints, acl.Floats, acl.Bools)):
        x = value.values
        for changed in ((), (*x, 1), x[1:], *((*x[:i], n, *x[i + 1:]) for i in range(len(x)) for n in (-x[i] - 1, 99))):
            yield repr(changed), type(value)(*changed)
    elif isinstance(value, dtypes.DType):
        yield from ((f"dtype {code}", code) for code in acl._DTYPES)
    elif isinstance(value, bool):
        yield repr(not value), not value
    elif isinstance(value, (int, float)):
        yield from ((repr(n), n) for n in (type(value)(n) for n in (-99, -1, 0, 1, 2, 3, 4, 7, 99)))
    elif isinstance(value, bytes):
        yield from ((repr(x), x) for x in (b"", b"none"))
    if hasattr(value, "create") or isinstance(value, bytes):
        yield "none", None


def phase_one(op, args):
    """The outcome of phase one alone, in words."""
    import acl
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    acl.recent_message()
    try:
        code, destroy = acl.call_phase_one(op, args, ctypes.byref(size), ctypes.byref(executor))
    except acl.AclError as e:           # of creating an argument
        return repr(e)
    message = acl.recent_message()
    destroy()
    if code:
        return f"{code} {message!r}"
    acl.check(op, acl.lib().aclSetAclOpExecutorRepeatable(executor))
    acl.check(op, acl.lib().aclDestroyAclOpExecutor(executor))
    return "accepted"


class Recorder:
    """An acl.watcher that writes a line per call to the file `out`, and what phase one says to similar calls."""

    def __init__(self, out, level):
        self.out, self.level = out, level
        self.begin("")

    def begin(self, test):
        self.test, self.number, self.seen = test, 0, set()

    def write(self, number, *fields):
        line = "\t".join((self.level, self.test, str(number), *fields))
        print(COMMUNICATOR.sub(r"communicator_\1", line), file=self.out, flush=True)

    def write_similar(self, op, arguments):
        values = [v for _, v in arguments]
        for i, (argument, value) in enumerate(arguments):
            results = [f"{name}={phase_one(op, [*values[:i], other, *values[i + 1:]])}"
                       for name, other in replacements(value)]
            if results:
                self.write(f"{self.number - 1}.{argument}", op, "", "", *results)

    def __call__(self, function, *args, **more):
        op, arguments = named_arguments(function.__name__, *args)
        text = ", ".join(f"{name}={value!r}" for name, value in [*arguments, *more.items()])
        operands = [(name, t) for name, value in arguments for t in tensors(value)]
        # A tensor of test_huge.py has its bytes on the device only.
        names = {t.block: name for name, t in operands if hasattr(t.block, "body")}
        before = {b: digest(b.body) for b in names}
        inputs = digest(repr([(t.code, t.format, t.n_storage, before.get(t.block)) for _, t in operands]).encode())
        try:
            returned = function(*args, **more)
            results = [f"{RETURNED[function.__name__]}={returned!r}"]
        except Exception as e:
            results = [f"raised={e!r}"]
            raise
        finally:
            if "shapes" in more:
                results.append(f"shapes={more['shapes']}")
            after = {b: digest(b.body) for b in names}
            results += [f"{name}={after[b]}" for b, name in names.items() if after[b] != before[b]]
            self.write(self.number, op, text, inputs, *results)
            self.number += 1
        if function.__name__ == "run" and op not in self.seen:
            self.seen.add(op)
            self.write_similar(op, arguments)
        return returned


def record(path, level, names):
    """Runs tests and writes their calls to a file. Returns whether a test has failed."""
    import unittest

    import acl

    class Outcomes(unittest.TestResult):
        def startTest(self, test):
            super().startTest(test)
            self.bad = len(self.failures) + len(self.errors)
            acl.watcher.begin(test.id())

        def stopTest(self, test):
            failed = len(self.failures) + len(self.errors) > self.bad
            acl.watcher.write("", OUTCOME, "", "", "outcome=" + ("failed" if failed else "passed"))
            super().stopTest(test)

    outcomes = Outcomes()
    with open(path, "w", encoding="utf-8") as out:
        acl.watcher = Recorder(out, level)
        unittest.defaultTestLoader.loadTestsFromNames(names).run(outcomes)
    for test, trace in outcomes.failures + outcomes.errors:
        reason = [line for line in trace.splitlines() if not line.startswith(" ")][-1]
        print(f"{level} {test.id()} failed: {reason}", file=sys.stderr)
    return not outcomes.wasSuccessful()


class Runner:
    """Records tests of a prefix under the conditions of a file. `failed`: some process has not ended with 0."""

    def __init__(self, prefix, conditions, n_jobs):
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CANNON_")}
        self.environment.update(CANNON_PREFIX=os.path.abspath(prefix), CANNON_SEED=str(conditions["seed"]),
                                CANNON_CASES=conditions["cases"], OMP_NUM_THREADS=str(conditions["threads"]),
                                PYTHONHASHSEED="0")
        self.pool = concurrent.futures.ThreadPoolExecutor(n_jobs)
        self.folder = tempfile.TemporaryDirectory()
        self.failed = False

    def one(self, level, names):
        handle, path = tempfile.mkstemp(dir=self.folder.name)
        os.close(handle)
        environment = {**self.environment, "CANNON_LEDGER": path + ".ledger"}
        if level != "highest":
            environment["CANNON_ISA"] = level
        command = [sys.executable, os.path.abspath(__file__), "--record", path, "--level", level, *names]
        status = subprocess.run(command, env=environment, cwd=HERE).returncode
        if status:
            self.failed = True
            print(f"{level} {names[0].split('.')[0]}: exit status {status}", file=sys.stderr)
        return path

    def all(self, jobs):
        """The lines of each job (level, names of tests), in the order of the jobs."""
        for path in self.pool.map(lambda job: self.one(*job), jobs):
            with open(path, encoding="utf-8") as f:
                yield f.readlines()
            os.remove(path)


# ---- the lines that are wanted

def read_families():
    """{operator: (file of ops/, family)}."""
    found = {}
    for suffix, prefixes in ((".ops", ("aclnn", "acl")), (".aclop", ("aclop ",))):
        for path in glob.glob(os.path.join(OPS, "*" + suffix)):
            with open(path, encoding="utf-8") as f:
                for name, family in re.findall(r"^(\w+)(?:@\w+)?\(.*\)\s+(\w+)", f.read(), re.M):
                    found.update({p + name: (os.path.basename(path)[:-len(suffix)], family) for p in prefixes})
    return found


FAMILIES = read_families()


def is_test(name):
    return name.startswith("test_")


def wanted(line, names):
    op = line.operator
    return not names or any((line.test + ".").startswith(n + ".") if is_test(n) else
                            n in (op, op.replace("aclnn", "", 1), *FAMILIES.get(op, ())) for n in names)


def machine_levels():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        flags = f.read().split()
    return [level for level, flag in LEVELS.items() if not flag or flag in flags]


def write(a):
    conditions = {"seed": a.seed, "cases": a.cases, "threads": a.threads or 2}
    modules = sorted(os.path.basename(p)[:-3] for p in glob.glob(os.path.join(HERE, "test_*.py")))
    tests = a.names if a.names and all(map(is_test, a.names)) else modules
    runner, n = Runner(a.prefix, conditions, a.jobs), 0
    with gzip.open(a.write, "wt", 6, encoding="utf-8") as out:
        print(json.dumps(conditions), file=out)
        for lines in runner.all([(level, [t]) for level in a.level or machine_levels() for t in tests]):
            lines = [line for line in lines if wanted(read_line(line), a.names)]
            out.writelines(lines)
            n += len(lines)
    print(f"{a.write}: {n} lines")
    return runner.failed


# ---- comparing

def parts(path, names, levels):
    """The lines of a file that are wanted, by level and test module."""
    with gzip.open(path, "rt", encoding="utf-8") as f:
        next(f)
        lines = (x for x in map(read_line, f) if (not levels or x.level in levels) and wanted(x, names))
        for _, group in itertools.groupby(lines, lambda x: (x.level, x.test.split(".")[0])):
            yield list(group)


def difference(old, new, ignored=()):
    """What differs between two lines of a call, in words; empty if nothing does."""
    if new is None:
        return "is missing"
    for what in ("operator", "arguments", "inputs"):
        if getattr(old, what) != getattr(new, what):
            return f"the test's {what} differ: {getattr(old, what)}, now {getattr(new, what)}"
    return "\n".join(f"{n} is {new.results.get(n)}, expected {old.results.get(n)}"
                     for n in dict.fromkeys([*old.results, *new.results])
                     if old.results.get(n) != new.results.get(n) and n not in ignored)


class Comparison:
    """Counts calls and differences by operator and prints the first difference of each; verbose: all."""

    def __init__(self, verbose=False, ignored=()):
        self.verbose, self.ignored = verbose, ignored
        self.calls, self.different = collections.Counter(), collections.Counter()

    def add(self, old_lines, new_lines):
        new_lines = {(x.test, x.number): x for x in new_lines}
        for old in old_lines:
            op, what = old.operator, difference(old, new_lines.get((old.test, old.number)), self.ignored)
            self.calls[op] += 1
            self.different[op] += bool(what)
            if what and (self.verbose or self.different[op] == 1):
                print(f"{op}: {old.level} {old.test} call {old.number}", *filter(None, [old.arguments]),
                      *what.split("\n")[:9], sep="\n    ", flush=True)

    def summary(self):
        files = collections.defaultdict(list)
        for op, n in sorted(self.calls.items()):
            files[FAMILIES.get(op, ("tests" if op == OUTCOME else "other",))[0]].append(op)
            if self.verbose:
                bad = self.different[op]
                print(f"{op}: {n} calls, " + (f"{bad} differ" if bad else "equal"))
        print(f"{'file of ops/':16} operators     calls    differ  operators that differ")
        for file, ops in sorted(files.items()):
            n, bad = (sum(c[op] for op in ops) for c in (self.calls, self.different))
            print(f"{file:16} {len(ops):9} {n:9} {bad:9} ", *(op for op in ops if self.different[op]))


def compare(a):
    with gzip.open(a.compare, "rt", encoding="utf-8") as f:
        conditions = json.loads(next(f))
    same = a.threads in (None, conditions["threads"])
    conditions["threads"] = a.threads or conditions["threads"]
    jobs = [(p[0].level, list(dict.fromkeys(x.test for x in p))) for p in parts(a.compare, a.names, a.level)]
    lacking = {level for level, _ in jobs} - {*machine_levels(), "highest"}
    if lacking or not jobs:
        sys.exit(f"this machine lacks {lacking}" if lacking else f"{a.compare} has no such calls")
    comparison = Comparison(a.verbose, () if same else ("workspace",))
    for old, new in zip(parts(a.compare, a.names, a.level), Runner(a.prefix, conditions, a.jobs).all(jobs)):
        comparison.add(old, map(read_line, new))
    comparison.summary()
    return any(comparison.different.values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--prefix", help="the installation to test")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FILE")
    what.add_argument("--compare", metavar="FILE")
    what.add_argument("--record", help=argparse.SUPPRESS)
    p.add_argument("--level", type=lambda text: text.split(","), metavar="LEVEL,...",
                   help=f"of {', '.join(LEVELS)}; if left out, those of the machine, or of FILE")
    p.add_argument("--cases", default="1", help="small, large or a factor (1)")
    p.add_argument("--seed", type=int, default=1, help="of random cases (1)")
    p.add_argument("--threads", type=int, help="in a loop of an operator (2, or as in FILE)")
    p.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="test modules at a time")
    p.add_argument("-v", "--verbose", action="store_true", help="all calls that differ, and all operators")
    p.add_argument("names", nargs="*", metavar="NAME")
    a = p.parse_args()
    if a.record:
        sys.exit(record(a.record, a.level[0], a.names))
    sys.exit(write(a) if a.write else compare(a))


if __name__ == "__main__":
    main()
