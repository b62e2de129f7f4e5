#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators compared with PyTorch on the CPU, in one process and alternating:

    run.py [--prefix DIR] [--threads N] [--cpu] [--markdown FILE] [PATTERN...]

Each other file in this folder has the cases of one family:

    @case("Softmax", goal=0.6)
    def softmax(b):
        for rows, n in ((128, 1024), (4096, 4096)):
            x = b.random(F32, (rows, n))
            b.compare(f"{rows} x {n}", "aclnnSoftmax", [x, 1, b.empty(F32, x.shape)],
                      lambda t=b.torch(x): torch.softmax(t, 1), bytes=2 * 4 * rows * n)

`compare` calls both phases and synchronises, as a program would; the peer's function is called equally often,
alternating. Times are the best of the rounds in wall-clock time, since worker threads of the library may do the work.
The geometric mean and the worst of the ratios of each family are printed at the end.
PATTERN: run only cases whose name contains one of the patterns.
"""
import argparse
import importlib
import math
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = []
ROUNDS, ROUND_S = 9, 0.03
SLOW_S = 2  # a call that takes longer is made only once


def case(family, goal):
    """Registers a family of cases. goal: the wanted upper bound of the time relative to the peer's."""
    def register(f):
        CASES.append((family, goal, f))
        return f
    return register


class Bench:
    def __init__(self, threads, clock):
        import acl
        import numpy
        import torch
        self.acl, self.np, self.pytorch = acl, numpy, torch
        self.threads, self.rows = threads, []
        self.rng = numpy.random.default_rng(1)
        self.halves = {"f16": torch.float16, "bf16": torch.bfloat16}
        self.clock = clock

    # ---- operands

    def random(self, dtype, shape, low=-2, high=2):
        values = self.rng.integers(int(low), int(high) + 1, shape) if dtype.kind != "f" else \
            self.rng.random(shape, self.np.float32) * (high - low) + low
        return self.of(dtype, values)

    def of(self, dtype, values):
        """A tensor with the values rounded to the dtype (by PyTorch, which is fast)."""
        if str(dtype) in self.halves:
            values = self.pytorch.from_numpy(values).to(self.halves[str(dtype)]).float().numpy()
        return self._place(self.acl.Tensor.of(dtype, values))

    def empty(self, dtype, shape, **view):
        return self._place(self.acl.Tensor(dtype, shape, **view))

    def _place(self, t):
        if t.block.base is None:
            t.block.own = t.block.base = self.acl.device().malloc(t.block.sent.size)
        self.acl.device().upload(t.block.base, t.block.sent)
        return t

    def torch(self, t):
        """The same values as a PyTorch tensor."""
        x = self.pytorch.from_numpy(self.np.ascontiguousarray(t.get()))
        return x.to(self.halves.get(str(t.dtype), x.dtype))

    # ---- measuring

    def ours(self, op, args):
        acl, ct = self.acl, self.acl.ct
        made = [a.create() if hasattr(a, "create") else a.code if hasattr(a, "code") else a for a in args]
        one, two = acl.lib().pair(op)
        size, executor, stream = ct.c_uint64(0), ct.c_void_p(), acl.device().stream
        refs = ct.byref(size), ct.byref(executor)
        acl.check(op, one(*made, *refs))
        workspace = acl.device().malloc(size.value) if size.value else None
        acl.check(op, two(workspace, size.value, executor, stream))
        acl.device().synchronize()
        synchronize = acl.lib().aclrtSynchronizeStream

        def call():
            one(*made, *refs)
            two(workspace, size, executor, stream)
            synchronize(stream)
        return call

    def once(self, call, n):
        begin = self.clock()
        for _ in range(n):
            call()
        return (self.clock() - begin) / n

    def compare(self, what, op, args, peer, bytes=0, flops=0):
        """Measures one case. bytes, flops: amounts per call, for printing rates."""
        ours = self.ours(op, args)
        calls = [ours] + ([peer] if peer else [])
        counts, times = [], [[self.once(c, 1)] for c in calls]
        for c, found in zip(calls, times):
            slow = found[0] > SLOW_S
            counts.append(0 if slow
                          else max(1, min(10000, int(ROUND_S / max(min(self.once(c, 2) for _ in "ab"), 1e-7)))))
        for _ in range(ROUNDS):
            for c, n, found in zip(calls, counts, times):
                if n:
                    found.append(self.once(c, n))
        us = [min(t) * 1e6 for t in times]
        ratio = us[0] / us[1] if peer else float("nan")
        rate = f"{bytes / us[0] / 1e3:.1f} GB/s" if bytes else f"{flops / us[0] / 1e3:.0f} GF/s" if flops else ""
        row = (self.family, what, us[0], us[1] if peer else float("nan"), ratio, self.goal, rate)
        self.rows.append(row)
        print("{:24} {:36} {:10.1f} us  peer {:10.1f} us  {:5.2f}  goal {:4} {}  {}".format(
            *row[:5], row[5] or "", "" if not row[5] or not ratio > row[5] else "<-- missed", rate), flush=True)


def summarise(rows):
    """Prints the geometric mean and the worst of the ratios of each family."""
    for family in dict.fromkeys(r[0] for r in rows):
        ratios = [(r[4], r[1]) for r in rows if r[0] == family and r[4] == r[4]]
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
            print(f"{family}: {len(ratios)} cases, geometric mean {mean:.2f}, worst {max(ratios)[0]:.2f} "
                  f"({max(ratios)[1]})")


def markdown(rows, threads, path):
    with open(path, "a", encoding="utf-8") as f:
        f.write(f"\n## {threads} thread{'s' if threads > 1 else ''}\n\n"
                "| operator | case | ours, us | PyTorch, us | ratio | goal | rate |\n|---|---|---|---|---|---|---|\n")
        for family, what, ours, peer, ratio, goal, rate in rows:
            f.write(f"| {family} | {what} | {ours:.1f} | {peer:.1f} | {ratio:.2f} | {goal or ''} | {rate} |\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--prefix", default=os.path.join(ROOT, "build", "prefix"))
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--cpu", action="store_true",
                    help="processor time of the process instead of wall-clock time, for one thread on a busy machine")
    ap.add_argument("--markdown", help="append a table to this file")
    ap.add_argument("patterns", nargs="*")
    a = ap.parse_args()
    os.environ["CANNON_PREFIX"] = a.prefix
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "numeric")]
    sys.modules["run"] = sys.modules["__main__"]
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".py") and name != "run.py":
            importlib.import_module(name[:-3])
    bench = Bench(a.threads, time.process_time if a.cpu else time.perf_counter)
    bench.pytorch.set_num_threads(a.threads)
    bench.pytorch.set_grad_enabled(False)
    try:
        for family, goal, f in CASES:
            if not a.patterns or any(p.lower() in family.lower() for p in a.patterns):
                bench.family, bench.goal = family, goal
                f(bench)
    finally:  # also writes the results so far when interrupted
        summarise(bench.rows)
        if a.markdown:
            markdown(bench.rows, a.threads, a.markdown)


if __name__ == "__main__":
    main()
