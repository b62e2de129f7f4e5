# SPDX-License-Identifier: Apache-2.0
"""Random cases: shapes, views and values from one seeded generator, and the loop that runs them.

Environment: CANNON_SEED (random if unset, derived from the git tree in `make check`; every failure prints it),
CANNON_CASES (small, large or a factor), and CANNON_TRACE (acl.py) to see the call that crashed.
"""
import os
import subprocess
import sys
import zlib

import numpy as np

from acl import Tensor
from dtypes import LD, PART

SEED = int(os.environ.get("CANNON_SEED") or int.from_bytes(os.urandom(4), "little"))
SCALE = {"": 1.0, "small": 0.1, "large": 10.0}.get(os.environ.get("CANNON_CASES", "")) \
    or float(os.environ["CANNON_CASES"])
LEAST = 2 if SCALE >= 0.05 else 1  # cases of a test


def each_case(test, name, n, body):
    """Runs body(Gen) for n random cases. Reports the first that fails, and how to repeat it."""
    with test.subTest(name):
        for i in range(max(LEAST, round(n * SCALE))):
            gen = Gen([SEED, zlib.crc32(name.encode()), i])
            try:
                body(gen)
            except Exception as e:
                tensors = "; ".join(map(str, gen.made))
                raise AssertionError(f"{name}, case {i} of CANNON_SEED={SEED}: {e}\n  tensors: {tensors}") from e


class Gen:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.made = []

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    # ---- shapes

    def shape(self, max_rank=8, min_rank=0, numel=600, empty=0.05):
        """Mostly small ranks; sometimes a long row, to exceed vector widths and thread thresholds."""
        rank = self.integer(min_rank, max_rank) if self.chance(0.3) else self.integer(min_rank, min(max_rank, 4))
        if rank >= 1 and self.chance(0.1):
            numel *= 20
        shape, left = [1] * rank, numel
        for axis in self.rng.permutation(rank):
            shape[axis] = min(self.integer(1, left) if self.chance(0.2) else self.integer(1, 7), left)
            left = max(left // shape[axis], 1)
        if rank and self.chance(empty):
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    def shrunk(self, shape):
        """A shape that broadcasts to `shape`."""
        return self.stripped([1 if self.chance(0.2) else n for n in shape])

    def stripped(self, shape):
        shape = list(shape)
        while shape and shape[0] == 1 and self.chance(0.7):
            shape.pop(0)
        return tuple(shape)

    def broadcast_pair(self, shape):
        """Two shapes whose broadcast is `shape`: each axis is whole in one of them or in both."""
        whole_in = [self.pick("ab*****") for _ in shape]
        a = tuple(1 if w == "b" else n for n, w in zip(shape, whole_in))
        b = tuple(1 if w == "a" else n for n, w in zip(shape, whole_in))
        return (self.stripped(a), b) if self.chance(0.5) else (a, self.stripped(b))

    # ---- views

    def layout(self, shape, repeat=False):
        """Strides, offset and storage size of a view without overlap; with `repeat` some axes may have stride 0."""
        kind = self.pick(("plain", "plain", "offset", "permuted", "gapped", "all"))
        if kind == "plain":
            return None, 0, None
        order = list(range(len(shape)))[::-1]
        if kind in ("permuted", "all"):
            order = list(self.rng.permutation(len(shape)))
        gaps = kind in ("gapped", "all")
        strides, step = [0] * len(shape), 1
        if gaps and self.chance(0.5):
            step = self.integer(2, 3)                          # the stride of the innermost axis
        for axis in order:
            if repeat and self.chance(0.15):
                continue                                        # stride 0: expanded
            strides[axis] = step
            step = step * max(shape[axis], 1) + (self.integer(0, 5) if gaps else 0)
        offset = self.integer(0, 9) if kind != "permuted" else 0
        last = sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
        return tuple(strides), offset, offset + last + 1 + (self.integer(0, 5) if gaps else 0)

    def keep(self, t):
        self.made.append(t)
        return t

    def tensor(self, dtype, shape, values=None):
        """An input: random values (see `values`) unless given, in a random layout that may be expanded."""
        expand = values is None
        t = Tensor(dtype, shape, *self.layout(shape, repeat=expand))
        if values is None:
            base = tuple(1 if s == 0 else n for n, s in zip(t.shape, t.strides))
            values = self.values(dtype, base)
        return self.keep(t.set(values))

    def drawn(self, dtype, shape, draw):
        """An input whose values are draw(shape)."""
        t = Tensor(dtype, shape, *self.layout(shape, repeat=True))
        base = tuple(1 if s == 0 else n for n, s in zip(t.shape, t.strides))
        return self.keep(t.set(draw(base)))

    def out(self, dtype, shape, values=None):
        """A tensor to be written: any layout without overlap; it holds a pattern, or values if given."""
        t = Tensor(dtype, shape, *self.layout(shape))
        return self.keep(t if values is None else t.set(values))

    def again(self, t):
        """The same logical tensor in another layout."""
        return self.out(t.dtype, t.shape, t.get())

    # ---- values

    def values(self, dtype, shape, special=True, limit=None):
        """Values of the type's whole range, special ones among them; with `limit` only numbers up to that magnitude."""
        rng = self.rng
        if dtype.kind == "c":
            v = np.empty(shape, dtype.values)
            v.real, v.imag = (self.values(PART[dtype], shape, special, limit) for _ in range(2))
            return v
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        if dtype.kind == "i":
            lo, hi = dtype.min, dtype.max
            if limit is not None:
                lo, hi = max(lo, -int(limit)), min(hi, int(limit))
            elif self.chance(0.5):
                lo, hi = max(lo, -100), min(hi, 100)
            v = rng.integers(lo, hi, shape, dtype.values, endpoint=True)
            if special and limit is None:
                v = np.where(rng.random(shape) < 0.05, rng.choice([lo, hi, 0], shape).astype(dtype.values), v)
            return v.astype(dtype.values)
        style = self.pick(("normal", "wide", "grid"))
        if style == "normal" or limit is not None and style == "wide":
            v = rng.standard_normal(shape) * (min(limit / 6, 3) if limit else 3)
        elif style == "wide":
            v = np.ldexp(rng.uniform(-1, 1, shape).astype(LD), rng.integers(dtype.emin - 3, dtype.emax + 1, shape))
        else:
            v = rng.integers(-8, 9, shape) / 2
        v = dtype.round(v)
        if special and limit is None:
            odd = [0.0, -0.0, np.inf, -np.inf, np.nan, dtype.max, -dtype.max, dtype.tiny, -dtype.tiny,
                   float(dtype.ulp(0)), 3 * float(dtype.ulp(0)), 1.0, -1.0]
            v = np.where(rng.random(shape) < 0.08, rng.choice(odd, shape), v).astype(dtype.values)
        if limit is not None:
            v = np.clip(v, -limit, limit)
        return dtype.values.type(v) if np.ndim(v) == 0 else v.astype(dtype.values)


def each_forced(case, names, tests):
    """Runs a few cases of the tests (MODULE.CLASS.METHOD) by each implementation that CANNON_IMPL can force, wherever
    it fits."""
    if "TEST_EMULATOR" in os.environ:
        case.skipTest("takes a minute under an emulator")
    for name in names:
        with case.subTest(name):
            done = subprocess.run([sys.executable, "-m", "unittest", *tests], capture_output=True, text=True,
                                  env={**os.environ, "CANNON_IMPL": name, "CANNON_CASES": "0.02"})
            case.assertEqual(done.returncode, 0, done.stderr)
            case.assertNotIn("CANNON_IMPL", done.stderr)
