#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators compared with PyTorch on the CPU, in one process and alternating:

    run.py [--prefix DIR] [--base DIR] [--threads N] [--level v3] [--report FILE] [PATTERN...]

Each other file in this folder has the cases of one family, with shapes of layers of real models:

    @case("Softmax", goal=0.6)
    def softmax(b):
        for layer, shape in (("ViT-B/16 attention", (12 * 197, 197)), ("BERT-base attention", (12 * 128, 128))):
            x = b.random(F32, shape)
            b.compare(f"f32 {size(shape)}", "aclnnSoftmax", [x, 1, b.empty(F32, shape)],
                      lambda t=b.torch(x): torch.softmax(t, 1), layer=layer, bytes=2 * 4 * x.size)

`compare` calls both phases and synchronises, as a program would; the peer's function is called equally often,
alternating. Times are the best of the rounds: of the process's CPU time with one thread, which other processes of a
busy machine disturb least, and of wall-clock time with more.

With --base, the peer is another build of Cannon (an installed prefix, whose cases run in a process of their own that
takes turns with this one) instead of PyTorch. --report replaces the section of this processor, level and number of
threads in FILE (docs/reports/speed.md). PATTERN: run only the cases of a file (such as norm), or those whose name
contains a pattern.
The geometric mean and the worst of the ratios of each family are printed at the end.
"""
import argparse
import collections
import importlib
import math
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = []
ROUNDS, ROUND_S = 9, 0.03
SLOW_S = 2  # a call that takes longer is made only once
Row = collections.namedtuple("Row", "family layer what ours peer ratio goal rate")


def case(family, goal):
    """Registers a family of cases. goal: the wanted upper bound of the time relative to the peer's."""
    def register(f):
        CASES.append((family, goal, f))
        return f
    return register


def size(shape):
    """(64, 512, 49) as "64x512x49"."""
    return "x".join(map(str, shape)) or "scalar"


class Bench:
    def __init__(self, threads):
        import acl
        import numpy
        import torch
        self.acl, self.np, self.pytorch = acl, numpy, torch
        self.threads, self.rows, self.base = threads, [], None
        self.rng = numpy.random.default_rng(1)
        self.halves = {"f16": torch.float16, "bf16": torch.bfloat16}
        self.clock = time.process_time if threads == 1 else time.perf_counter

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

    def ours(self, op, args, resized=None):
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
            if resized is not None:
                made[resized] = args[resized].create()
            if one(*made, *refs) or two(workspace, size, executor, stream):
                raise RuntimeError(f"{op} failed")
            synchronize(stream)
        return call

    def once(self, call, n):
        begin = self.clock()
        for _ in range(n):
            call()
        return (self.clock() - begin) / n

    def compare(self, what, op, args, peer, bytes=0, flops=0, layer="", resized=None):
        """Measures one case. layer: the model and layer that the shape is from. bytes, flops: amounts per call, for
        printing rates. resized: the index of a tensor whose shape the operator changes, so each call needs a new
        one."""
        ours = self.ours(op, args, resized)
        sides = [lambda n: self.once(ours, n)]
        if self.base:
            sides.append(self.base.once)
        elif peer:
            sides.append(lambda n: self.once(peer, n))
        times, counts = [[side(1)] for side in sides], []
        for side, found in zip(sides, times):
            slow = found[0] > SLOW_S
            counts.append(0 if slow else max(1, min(10000, int(ROUND_S / max(min(side(2) for _ in "ab"), 1e-7)))))
        for _ in range(ROUNDS):
            for side, n, found in zip(sides, counts, times):
                if n:
                    found.append(side(n))
        if self.base:
            self.base.next_case()
        us = [min(t) * 1e6 for t in times] + [float("nan")]
        rate = f"{bytes / us[0] / 1e3:.1f} GB/s" if bytes else f"{flops / us[0] / 1e3:.0f} GF/s" if flops else ""
        row = Row(self.family, layer, what, us[0], us[1], us[0] / us[1], self.goal, rate)
        self.rows.append(row)
        print("{0.family:20} {0.layer:34} {0.what:32} {0.ours:10.1f} us  {0.peer:10.1f} us  {0.ratio:5.2f} {1} {0.rate}"
              .format(row, "<-- missed" if row.goal and row.ratio > row.goal else ""), flush=True)


class Base:
    """Another build, which runs the same cases in a process of its own."""
    def __init__(self, prefix, arguments):
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", "--prefix", prefix, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def once(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def next_case(self):
        self.process.stdin.write("0\n")


class Server(Bench):
    """The other process: makes as many calls of each case as standard input asks for."""
    def compare(self, what, op, args, peer, bytes=0, flops=0, layer="", resized=None):
        ours = self.ours(op, args, resized)
        while n := int(sys.stdin.readline() or "0"):
            print(self.once(ours, n), flush=True)


def chosen(pattern, family, module):
    is_module = os.path.exists(os.path.join(HERE, pattern + ".py"))
    return pattern == module if is_module else pattern.lower() in family.lower()


def limit_level(level):
    """Limits both libraries to AVX2. Must be called before either is loaded."""
    if level == "v3":
        os.environ.update(CANNON_ISA="v3", ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2",
                          MKL_ENABLE_INSTRUCTIONS="AVX2")


def summarise(rows):
    """Prints the geometric mean and the worst of the ratios of each family."""
    for family in dict.fromkeys(r.family for r in rows):
        ratios = [(r.ratio, r.what) for r in rows if r.family == family and r.ratio == r.ratio]
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
            print(f"{family}: {len(ratios)} cases, geometric mean {mean:.2f}, worst {max(ratios)[0]:.2f} "
                  f"({max(ratios)[1]})")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--prefix", default=os.path.join(ROOT, "build", "prefix"))
    ap.add_argument("--base", help="compare with the build that is installed here instead of PyTorch")
    ap.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--level", choices=("v3",), help="limit both sides to AVX2")
    ap.add_argument("--report", help="write this processor's section into this file")
    ap.add_argument("--processor", help="the processor's name in the report (default: from /proc/cpuinfo)")
    ap.add_argument("patterns", nargs="*")
    a = ap.parse_args()
    os.environ["CANNON_PREFIX"] = a.prefix
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # without torch_npu, which may be installed beside PyTorch
    limit_level(a.level)
    sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "numeric")]
    sys.modules["run"] = sys.modules["__main__"]
    for name in sorted(os.listdir(HERE)):
        if name.endswith(".py") and name != "run.py":
            importlib.import_module(name[:-3])
    bench = (Server if a.serve else Bench)(a.threads)
    if a.base:
        level = ["--level", a.level] if a.level else []
        bench.base = Base(a.base, ["--threads", str(a.threads), *level, *a.patterns])
    bench.pytorch.set_num_threads(a.threads)
    bench.pytorch.set_grad_enabled(False)
    try:
        for family, goal, f in CASES:
            if not a.patterns or any(chosen(p, family, f.__module__) for p in a.patterns):
                bench.family, bench.goal = family, goal
                f(bench)
    finally:  # also writes the results so far when interrupted
        if a.report:
            import report
            report.write(a.report, bench.rows, report.title(a.processor, a.level, a.threads))
        summarise(bench.rows)


if __name__ == "__main__":
    main()
