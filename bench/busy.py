#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures parallel loops on machines shared with other programs: bench_busy with two threads and with one,
alternating.

Prints a Markdown table. Goal: half the time on a quiet machine, and never more than 1.1 times the time of one thread on
a busy one.

A busy machine is simulated by spinning processes, and by a control group with a quota of one processor where the user
may create one. With --before PREFIX another installation is measured as well. The caller has to provide a quiet
machine; --realtime gives the benchmark priority over all other programs in the quiet case (chrt, requires root).
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OPERATORS = {"add": "`aclnnAdd`, 3 × 1 MiB", "mm": "`aclnnMm`, 256 cubed", "softmax": "`aclnnSoftmax`, 256 × 1024"}
SPIN = "while True: pass"


@contextlib.contextmanager
def spinners(n):
    running = [subprocess.Popen([sys.executable, "-S", "-c", SPIN]) for _ in range(n)]
    try:
        yield
    finally:
        for p in running:
            p.kill()
            p.wait()


@contextlib.contextmanager
def quota_group():
    """The file to which a process writes its id to join a group with a quota of one processor, or None."""
    name = "cannon_bench_%d" % os.getpid()
    for root, file, text in [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
                             ("/sys/fs/cgroup", "cpu.max", "100000 100000")]:
        group = Path(root) / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(text)
            yield group / "cgroup.procs"
            return
        except OSError:
            pass
        finally:
            group.rmdir()
    yield None


def start(args, prefix, threads, prelude=(), group=None):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), LD_LIBRARY_PATH=str(prefix / "lib64"))
    command = [*prelude, str(args.build / "bench" / "bench_busy"), str(args.seconds)]
    enter = (lambda: group.write_text(str(os.getpid()))) if group else None
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, universal_newlines=True, preexec_fn=enter)


def finish(processes):
    """The mean of each operator over processes that run concurrently."""
    results = [json.loads(p.communicate()[0]) for p in processes]
    return {key: statistics.mean(r[key] for r in results) for key in OPERATORS}


def situations(args):
    """Yields pairs of a name and a function that measures a prefix with a number of threads."""
    prelude = ("chrt", "-f", "10") if args.realtime else ()
    yield "quiet", lambda prefix, n: finish([start(args, prefix, n, prelude)])

    def beside_spinners(prefix, n):
        with spinners(9):
            return finish([start(args, prefix, n)])
    yield "9 spinning processes", beside_spinners
    yield "4 such processes", lambda prefix, n: finish([start(args, prefix, n) for _ in range(4)])

    def in_quota(prefix, n):
        with quota_group() as group:
            return finish([start(args, prefix, n, (), group)]) if group else None
    yield "a quota of one processor", in_quota


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build", help="build directory")
    parser.add_argument("--prefix", type=Path, help="installed prefix (default: BUILD/prefix)")
    parser.add_argument("--before", type=Path, help="another installation to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each operator")
    parser.add_argument("--realtime", action="store_true", help="the quiet case with real-time priority")
    parser.add_argument("situations", nargs="*", help="only those whose name contains one of these")
    args = parser.parse_args()
    args.build = args.build.resolve()
    sides = {"ours": ((args.prefix or args.build / "prefix").resolve(), 2)}
    if args.before:
        sides["before"] = (args.before.resolve(), 2)
    sides["one thread"] = (sides["ours"][0], 1)

    print("| mean time of a call | %s | ratio to one thread: median (min–max) |" % " | ".join(sides))
    print("|---|%s---|" % ("---|" * len(sides)))
    for name, measure in situations(args):
        if args.situations and not any(s in name for s in args.situations):
            continue
        rounds = [{side: measure(*how) for side, how in sides.items()} for _ in range(args.rounds)]
        if rounds[0]["ours"] is None:
            print("no control group can be made: no row for %s" % name, file=sys.stderr)
            continue
        for key, what in OPERATORS.items():
            times = ["%.3g µs" % statistics.median(r[side][key] for r in rounds) for side in sides]
            ratios = [r["ours"][key] / r["one thread"][key] for r in rounds]
            print("| %s, %s | %s | %.2f (%.2f–%.2f) |" % (name, what, " | ".join(times), statistics.median(ratios),
                                                          min(ratios), max(ratios)), flush=True)


if __name__ == "__main__":
    main()
