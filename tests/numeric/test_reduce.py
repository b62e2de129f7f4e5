"""Reductions: sums within a tree's error, the same bits for every layout, order statistics exact."""
import unittest

import numpy as np

import reference as ref
from acl import Ints, run
from dtypes import ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I16, I32, I64, I8, INTS, LD, U8, computed_in
from gen import each_case

CASES = 250
SUMS = ((F32, F32), (F32, F32), (F16, F16), (BF16, BF16), (F64, F64), (F16, F32), (BF16, F32), (I32, I64), (I32, I32),
        (I64, I64), (I8, I64), (I16, I64), (U8, I64), (BOOL, I64), (I32, F32))
MEANS = ((F32, F32), (F16, F16), (BF16, BF16), (F64, F64), (F16, F32))


def pick_dims(gen, rank):
    """(dims as passed, sorted axes): {} stands for all, and any axis may be negative."""
    axes = [int(i) for i in gen.rng.permutation(rank)[:gen.integer(0, rank)]]
    passed = [i - (rank if gen.chance(0.3) else 0) for i in axes]
    return passed, tuple(sorted(axes)) if axes else tuple(range(rank))


def reducible(gen, empty=0.05):
    shape = gen.shape(empty=empty)
    if gen.chance(0.15):                                            # long rows and long columns
        shape = gen.pick(((5000,), (3, 2001), (2001, 3), (40, 5, 40)))
    return shape


class Sums(unittest.TestCase):
    def test_sum(self):
        each_case(self, "aclnnReduceSum", CASES, lambda g: self.case(g, "aclnnReduceSum", SUMS))

    def test_mean(self):
        each_case(self, "aclnnMean", CASES, lambda g: self.case(g, "aclnnMean", MEANS))

    def case(self, gen, op, types):
        source, target = gen.pick(types)
        shape = reducible(gen)
        x = gen.drawn(source, shape, lambda s: gen.values(source, s, limit=10 if source.kind == "f" else 10 ** 6))
        dims, axes = pick_dims(gen, len(shape))
        keep = gen.chance(0.5)
        values = x.get()
        if target.kind == "i":
            exact, magnitude = values.astype(target.values).sum(axes, target.values, keepdims=keep), None
        else:
            exact = values.astype(LD).sum(axes, LD, keepdims=keep)
            magnitude = np.abs(values.astype(LD)).sum(axes, LD, keepdims=keep)
        n = int(np.prod([shape[i] for i in axes], dtype=np.int64))
        if op == "aclnnMean":
            exact, magnitude = exact / LD(n), magnitude / LD(n)      # of nothing: NaN
        out = gen.out(target, np.shape(exact))
        run(op, x, Ints(*dims), keep, target, out)
        what = f"{op} over {dims} of {source} as {target}"
        if target.kind == "i":
            ref.check_equal(out.get(), exact, what)
        else:
            computing = computed_in(target)
            ref.check(out.get(), exact, target, computing, slack=ref.sum_slack(magnitude, n, computing) if n else 0,
                      what=what)
        # the order of additions follows the logical tensor, not its memory
        other = gen.out(target, np.shape(exact))
        run(op, gen.again(x), Ints(*dims), keep, target, other)
        ref.check_equal(other.bits(), out.bits(), what + ": bits in another layout")

    def test_special_values(self):
        def body(gen):
            d = gen.pick(FLOATS)
            v = gen.values(d, (7, 40), limit=10)                     # finite sums that stay finite
            odd = gen.rng.choice([np.inf, -np.inf, np.nan], v.shape)
            x = gen.tensor(d, v.shape, np.where(gen.rng.random(v.shape) < 0.02, odd, v))
            out = gen.out(d, (7,))
            run("aclnnReduceSum", x, Ints(1), False, d, out)
            values = x.get().astype(LD)
            nan = np.isnan(values).any(1) | (np.isposinf(values).any(1) & np.isneginf(values).any(1))
            endless = np.isinf(values).any(1) & ~nan
            ref.check_equal(np.isnan(out.get()), nan)
            ref.check_equal(out.get()[endless], values.sum(1)[endless].astype(np.float32))
        each_case(self, "sums of inf and NaN", 20, body)


class Orders(unittest.TestCase):
    def test_amax(self):
        def body(gen):
            shape = reducible(gen, empty=0)
            x = gen.tensor(gen.pick(ALL), shape)
            dims, axes = pick_dims(gen, len(shape))
            keep = gen.chance(0.5)
            expected = np.max(x.get(), axis=axes, keepdims=keep)     # NaN wins here too
            out = gen.out(x.dtype, np.shape(expected))
            run("aclnnAmax", x, Ints(*dims), keep, out)
            ref.check_equal(out.get(), expected, f"over {dims}")
        each_case(self, "aclnnAmax", CASES, body)

    def test_argmax(self):
        def body(gen):
            shape = gen.shape(min_rank=1, empty=0) if gen.chance(0.8) else gen.pick(((4001,), (3, 1001), (1001, 3)))
            d = gen.pick(FLOATS64 + INTS)
            limit = 3 if gen.chance(0.5) else None                   # many equal maxima: the first counts
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=limit))
            axis, keep = gen.integer(0, len(shape) - 1), gen.chance(0.5)
            expected = np.argmax(x.get(), axis)                      # the first maximum; NaN is greater than all
            expected = np.expand_dims(expected, axis) if keep else expected
            out = gen.out(gen.pick((I64, I32)), np.shape(expected))
            run("aclnnArgMax", x, axis - (len(shape) if gen.chance(0.4) else 0), keep, out)
            ref.check_equal(out.get(), expected.astype(out.dtype.values), f"along {axis}")
        each_case(self, "aclnnArgMax", CASES, body)


if __name__ == "__main__":
    unittest.main()
