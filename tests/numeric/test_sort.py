# SPDX-License-Identifier: Apache-2.0
"""Sorting and selecting: exact, stable, and NaN is largest."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, Tensor, refused, run
from dtypes import ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I16, I32, I64, INTS, LD
from gen import each_case

CASES = 120
SHAPES = ((5000,), (9, 300), (300, 9), (40, 9, 33), (1030,), (3, 2100), (20, 25), (4099, 2))


def drawn(gen, min_rank=0, empty=0.05, types=ALL):
    d = gen.pick(types)
    shape = gen.pick(SHAPES) if gen.chance(0.3) else gen.shape(min_rank=min_rank, empty=empty)
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=gen.pick((3, None, None))))


def axis_of(gen, shape):
    axis = gen.integer(0, max(len(shape) - 1, 0))
    return axis, axis - max(len(shape), 1) if gen.chance(0.4) else axis


def unordered(x, axis):
    """Whether there is nothing to order, which CANN refuses for bfloat16."""
    return x.dtype is BF16 and x.shape and x.shape[axis] == 1


def order(v, descending, axis=-1, nan_first=False):
    """The indices of a stable sort of v along the axis. NaN is last (first if descending), or first with nan_first."""
    nan = v != v
    distinct, rank = np.unique(np.where(nan, v.dtype.type(0), v), return_inverse=True)
    rank = np.where(nan, -1 if nan_first else len(distinct), rank.reshape(v.shape)).astype(np.int64)
    return np.argsort(-rank if descending else rank, axis=axis, kind="stable")


class Sorts(unittest.TestCase):
    def same(self, got, expected, what):
        """Compares bits: -0 stays -0."""
        ref.check_equal(got, expected, what)
        if got.dtype.kind == "f":
            signs, expected_signs = (np.signbit(v) | (v != v) for v in (got, expected))
            ref.check_equal(signs, expected_signs, what + " signs")

    def test_sort(self):
        def body(gen):
            x = drawn(gen)
            axis, passed = axis_of(gen, x.shape)
            descending = gen.chance(0.5)
            v = np.atleast_1d(x.get())
            places = order(v, descending, axis)
            values = np.take_along_axis(v, places, axis).reshape(x.shape)
            target = gen.pick((x.dtype, x.dtype, F32, F64))
            values = values if target is x.dtype else ref.to_type(values, x.dtype, target)
            out, where = gen.out(target, x.shape), gen.out(gen.pick((I64, I32)), x.shape)
            run("aclnnSort", x, gen.chance(0.5), passed, descending, out, where)
            self.same(out.get(), values, "values")
            ref.check_equal(where.get(), places.reshape(x.shape).astype(where.dtype.values), "places")
            if unordered(x, axis):
                return
            alone = gen.out(I64, x.shape)
            run("aclnnArgsort", x, passed, descending, alone)
            ref.check_equal(alone.get(), places.reshape(x.shape))
        each_case(self, "aclnnSort", CASES, body)

    def test_sort_with_index(self):
        def body(gen):
            x = drawn(gen)
            axis, passed = axis_of(gen, x.shape)
            descending = gen.chance(0.5)
            index = gen.tensor(I32, x.shape, gen.values(I32, x.shape))
            places = order(np.atleast_1d(x.get()), descending, axis, nan_first=not descending)
            expected = np.take_along_axis(np.atleast_1d(index.get()), places, axis).reshape(x.shape)
            out, where = gen.out(x.dtype, x.shape), gen.out(I32, x.shape)
            run("aclnnSortWithIndex", x, index, passed, descending, True, out, where)
            self.same(out.get(), np.take_along_axis(np.atleast_1d(x.get()), places, axis).reshape(x.shape), "values")
            ref.check_equal(where.get(), expected)
        each_case(self, "aclnnSortWithIndex", CASES // 3, body)

    def test_topk(self):
        def body(gen):
            x = drawn(gen)
            axis, passed = axis_of(gen, x.shape)
            largest = gen.chance(0.5)
            v = np.atleast_1d(x.get())
            if gen.chance(0.15):                                  # sorted the opposite way: every element passes
                v = np.sort(v, axis)
                v = v if largest else np.flip(v, axis)
                x = gen.tensor(x.dtype, x.shape, v.reshape(x.shape))
            n = v.shape[axis]
            k = gen.integer(0, n) if gen.chance(0.5) else min(gen.integer(0, 12), n)
            places = np.take(order(v, largest, axis), range(k), axis)
            shape = tuple(k if i == axis else s for i, s in enumerate(x.shape))
            if not x.shape and k == 0:
                return
            out, where = gen.out(x.dtype, shape), gen.out(gen.pick((I64, I32)), shape)
            run("aclnnTopk", x, k, passed, largest, gen.chance(0.5), out, where)
            self.same(out.get(), np.take_along_axis(v, places, axis).reshape(shape), "values")
            ref.check_equal(where.get(), places.reshape(shape).astype(where.dtype.values), "places")
        each_case(self, "aclnnTopk", CASES, body)

    def test_topk_of_short_rows(self):
        """Few of a short row are found one after the other; equal values are taken in the order of their indices."""
        for d in (BOOL, I32, F32, I64, F64):
            for row in ((1, 1, 1, 0, 1), (1, 1, 0, 0), (5, 6, 7, 8, 9, 1), (3, 3, 3, 1, 3, 3, 1, 3, 2)):
                for largest in (False, True):
                    v = np.array(row).astype(d.values)
                    expected = order(v, largest)[:4]
                    x, out, where = Tensor.of(d, v), Tensor(d, (4,)), Tensor(I64, (4,))
                    run("aclnnTopk", x, 4, 0, largest, True, out, where)
                    ref.check_equal(where.get(), expected, f"{d} {row} largest={largest}")
                    ref.check_equal(out.get(), v[expected])

    def test_one(self):
        for op in ("aclnnKthvalue", "aclnnMedianDim", "aclnnNanMedianDim"):
            def body(gen, op=op):
                x = drawn(gen, empty=0)
                axis, passed = axis_of(gen, x.shape)
                if op != "aclnnKthvalue" and unordered(x, axis):
                    return
                keep = gen.chance(0.5) and len(x.shape) > 0
                v = np.atleast_1d(x.get())
                places, n = order(v, False, axis), v.shape[axis]
                nan = (v != v).sum(axis, keepdims=True)
                if op == "aclnnKthvalue":
                    k = gen.integer(1, n)
                    at, args = np.full_like(nan, k - 1), (k, passed, keep)
                else:
                    some = nan > 0 if op == "aclnnMedianDim" else nan == n
                    at, args = np.where(some, n - nan, (n - nan - 1) // 2), (passed, keep)
                places = np.take_along_axis(places, at, axis)
                values = np.take_along_axis(v, places, axis)
                shape = values.shape if keep else np.squeeze(values, axis).shape
                shape = shape if x.shape else ()
                out, where = gen.out(x.dtype, shape), gen.out(I64, shape)
                run(op, x, *args, out, where)
                self.same(out.get(), values.reshape(shape), op)
                ref.check_equal(where.get(), places.reshape(shape), op + " places")
            each_case(self, op, CASES, body)

    def test_median(self):
        def body(gen):
            x = drawn(gen, empty=0)
            if unordered(x, -1):
                return
            v = np.sort(x.get().ravel())                                   # NaN is last
            numbers = v[v == v]
            plain, without = gen.out(x.dtype, ()), gen.out(x.dtype, ())
            run("aclnnMedian", x, plain)
            run("aclnnNanMedian", x, without)
            ref.check_equal(plain.get(), v[-1] if len(numbers) < len(v) else v[(len(v) - 1) // 2])
            ref.check_equal(without.get(), numbers[(len(numbers) - 1) // 2] if len(numbers) else v[0])
        each_case(self, "aclnnMedian", CASES, body)

    def test_median_of_nothing(self):
        for d, expected in ((F32, np.nan), (F64, np.nan), (I64, -2 ** 63), (I32, -2 ** 31), (I16, 0)):
            for op in ("aclnnMedian", "aclnnNanMedian"):
                out = Tensor.empty(d, ())
                run(op, Tensor.empty(d, (3, 0)), out)
                ref.check_equal(out.get(), np.array(expected, d.values), op)

    def test_one_element(self):
        """A result of one element may have any shape of one element."""
        x = Tensor.of(F32, np.float32([4, 1, 3]))
        for shape in ((), (1,), (1, 1)):
            def out(d):
                return Tensor.empty(d, shape)
            for op, value, at, *args in (("Median", 3, None), ("NanMedian", 3, None), ("Kthvalue", 1, 1, 1, 0, False),
                                         ("Topk", 4, 0, 1, 0, True, True)):
                values, places = out(F32), out(I64)
                run("aclnn" + op, x, *args, values, *(() if at is None else (places,)))
                ref.check_equal(values.get().item(), value, op)
                if at is not None:
                    ref.check_equal(places.get().item(), at, op)

    def test_errors(self):
        x, i = Tensor.of(F32, np.zeros((2, 3), np.float32)), Tensor.empty(I64, (2, 3))
        narrow, half = Tensor.empty(F32, (2, 2)), Tensor.empty(BF16, (2, 1))
        for words, op, *args in (
                (("dim is 2", "-2 to 1"), "aclnnSort", x, False, 2, False, x, i),
                (("valuesOut has shape [2, 2]", "[2, 3]"), "aclnnSort", x, False, 1, False, narrow, i),
                (("indicesOut has dtype FLOAT", "INT64"), "aclnnSort", x, False, 1, False, x, x),
                (("k is 4", "0 to 3"), "aclnnTopk", x, 4, 1, True, True, narrow, i),
                (("k is 0", "1 to 3"), "aclnnKthvalue", x, 0, 1, True, narrow, i),
                (("valuesOut has dtype",), "aclnnMedian", x, Tensor.empty(F16, ())),
                (("valuesOut has 2 elements",), "aclnnMedian", x, Tensor.empty(F32, (2,))),
                (("self is BF16",), "aclnnMedian", half, Tensor.empty(BF16, ())),
                (("self is BF16",), "aclnnMedianDim", half, 1, False, Tensor.empty(BF16, (2,)),
                 Tensor.empty(I64, (2,))),
                (("self is BF16",), "aclnnArgsort", half, 1, False, Tensor.empty(I64, (2, 1)))):
            code, message = refused(op, *args)
            assert code == INVALID and all(w in message for w in words), (op, code, message)


class Filters(unittest.TestCase):
    """ApplyTopKTopP."""

    def expected(self, x, p, k):
        order = np.argsort(x, kind="stable")
        v, n = x[order].astype(LD), len(x)
        kept = np.ones(n, bool)
        if k is not None and 0 < k < n:
            kept = v >= v[n - k]
        near = False
        if p is not None:
            e = np.where(kept, np.exp(v - v[-1]), 0)
            sums = np.cumsum(e) / e.sum()
            near = np.any(np.abs(sums[:-1] - (1 - p)) < 1e-9)
            kept &= np.append(sums[:-1] > 1 - p, True)
        out = x.copy()
        out[order[~kept]] = -np.inf
        return out, near

    def test_top_k_top_p(self):
        def body(gen):
            d = gen.pick(FLOATS)
            rows, n = gen.integer(1, 5), gen.integer(1, 60) if gen.chance(0.9) else 5000
            x = gen.drawn(d, (rows, n), lambda s: d.round(gen.rng.standard_normal(s) * 3))
            which = gen.integer(1, 3)
            p = gen.drawn(d, (rows,), lambda s: d.round(np.where(gen.rng.random(s) < 0.2, 1.0, gen.rng.random(s)))) \
                if which & 1 else None
            k = gen.drawn(I32, (rows,), lambda s: gen.rng.integers(-1, n + 2, s)) if which & 2 else None
            out = gen.out(d, (rows, n))
            run("aclnnApplyTopKTopP", x, p, k, out)
            for i in range(rows):
                expected, near = self.expected(x.get()[i], LD(p.get()[i]) if p else None, k.get()[i] if k else None)
                if not near:
                    ref.check_equal(out.get()[i], expected)
        each_case(self, "aclnnApplyTopKTopP", 100, body)
        x = Tensor.empty(F32, (2, 3))
        code, message = refused("aclnnApplyTopKTopP", x, None, None, x)
        assert code == NULLPTR and "p and k" in message, (code, message)
        code, message = refused("aclnnApplyTopKTopP", x, Tensor.empty(F32, (3,)), None, x)
        assert code == INVALID and "p has shape [3]" in message, (code, message)


if __name__ == "__main__":
    unittest.main()
