# SPDX-License-Identifier: Apache-2.0
"""Operators that gather from or scatter to positions given by index tensors."""
import os
import subprocess
import sys
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, Scalar, Tensor, TensorList, refused, run
from dtypes import ALL, BOOL, C64, C128, CLD, COMPLEX, F16, F32, F64, FLOATS, I8, I16, I32, I64, LD, PART, U8
from gen import each_case

CASES = 60
FAILED = 507035
MOVED = ALL + (C128,)
SUMMED = ALL + COMPLEX


def given(gen, d, shape):
    return gen.drawn(d, shape, lambda s: gen.values(d, s))


def summands(gen, d, shape):
    """Values of which some tens can be added without overflow, except in small integer types, which wrap."""
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=50))


def indices(gen, shape, n, negative=False):
    """Indices into a dimension of size n; zeros if n is 0."""
    d = gen.pick((I32, I64))
    low = -n if negative and gen.chance(0.5) else 0
    return gen.drawn(d, shape, lambda s: gen.rng.integers(low, max(n, 1), s) if n else np.zeros(s, d.values))


def coordinates(gen, shape, n):
    places = gen.shape(max_rank=2, numel=40)
    return gen.out(gen.pick((I32, I64)), places + (n,),
                   np.stack([gen.rng.integers(0, shape[k], places) for k in range(n)], -1))


def axis_of(gen, shape):
    axis = gen.integer(0, max(len(shape) - 1, 0))
    return axis, axis - (max(len(shape), 1) if gen.chance(0.4) else 0)


def wide(d, v):
    return v.astype({"f": LD, "c": CLD}.get(d.kind, v.dtype))


class Sums:
    """The result of adding in order: exact for integers, long double with an error bound for floats."""

    def __init__(self, d, start):
        self.d = d
        self.exact = np.array(wide(d, start))
        self.size = np.array(np.abs(wide(d, start))) if d.kind in "fc" else None
        self.count = np.zeros(start.shape, np.int64)

    def add(self, where, values):
        """where: an index that np.add.at takes."""
        if self.d.kind == "b":
            np.logical_or.at(self.exact, where, values)
            return
        np.add.at(self.exact, where, wide(self.d, values))
        if self.d.kind in "fc":
            np.add.at(self.size, where, np.abs(wide(self.d, values)))
            np.add.at(self.count, where, 1)

    def multiply(self, where, values):
        (np.logical_and if self.d.kind == "b" else np.multiply).at(self.exact, where, wide(self.d, values))
        if self.d.kind in "fc":
            np.add.at(self.count, where, 1)
            self.size = np.array(np.abs(self.exact))

    def check(self, got, what=""):
        if self.d.kind not in "fc":
            ref.check_equal(got, self.exact, what)
            return
        if self.d.kind == "c":    # parts of a complex product are off by sqrt(5) half ulps of its magnitude
            slack = (self.count + 1) * LD(2) ** (1 - PART[self.d].digits) * self.size * LD(5) ** 0.5
            ref.check_parts(got, self.exact, self.d, 1, slack, what)
            return
        computing = F64 if self.d is F64 else F32
        slack = (self.count + 1) * LD(2) ** -(computing.digits - 1) * self.size
        ref.check(got, self.exact, self.d, computing, ulps=1, slack=slack, what=what)


class Gathers(unittest.TestCase):
    def test_index_select(self):
        def body(gen):
            shape = gen.shape(min_rank=1, empty=0)
            axis, dim = axis_of(gen, shape)
            x = given(gen, gen.pick(MOVED), shape)
            index = indices(gen, (gen.integer(0, 9) if gen.chance(0.9) else gen.integer(250, 600),), shape[axis], True)
            expected = np.take(x.get(), index.get(), axis)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnIndexSelect", x, dim, index, out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnIndexSelect", 3 * CASES, body)

    def test_gather_v2(self):
        def body(gen):
            shape = gen.shape(max_rank=4, min_rank=1, empty=0)
            axis, dim = axis_of(gen, shape)
            x = given(gen, gen.pick(MOVED), shape)
            index = indices(gen, gen.shape(max_rank=4, numel=40), shape[axis], True)
            expected = np.take(x.get(), index.get(), axis)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnGatherV2", x, dim, index, out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnGatherV2", 2 * CASES, body)

    def test_no_dimensions(self):
        """If the index has no dimensions, out may keep a dimension of 1 or drop it. If self has no dimensions, out has
        none either, however many indices there are."""
        x, one = Tensor.of(F32, np.arange(6.0).reshape(2, 3)), Tensor.of(F32, np.float32(7))
        for op in ("aclnnGatherV2", "aclnnIndexSelect"):
            for shape in ((1, 3), (3,)) if op == "aclnnGatherV2" else ((1, 3),):
                out = Tensor.empty(F32, shape)
                run(op, x, 0, Tensor.of(I64, np.int64(1)), out)
                ref.check_equal(out.get(), x.get()[1].reshape(shape), op)
            for places, shape in (([0, -1], ()), ([0, 0], (2,)), ([0], (1,))):
                out = Tensor.empty(F32, shape)
                run(op, one, 0, Tensor.of(I64, places), out)
                ref.check_equal(out.get(), np.full(shape, 7, np.float32), op)

    def test_large_slices(self):
        """Slices that are moved by plans of their own: transposed ones, and ones of several runs."""
        rng = np.random.default_rng(1)
        x = Tensor(F32, (40, 30, 50), (1, 2000, 40)).set(rng.standard_normal((40, 30, 50)))
        for axis, n in ((0, 40), (1, 30), (2, 50)):
            index = Tensor.of(I32, rng.integers(0, n, 7))
            expected = np.take(x.get(), index.get(), axis)
            out = Tensor.empty(F32, expected.shape)
            run("aclnnIndexSelect", x, axis, index, out)
            ref.check_equal(out.get(), expected)

    def test_embedding(self):
        def body(gen):
            weight = given(gen, gen.pick(MOVED), (gen.integer(1, 20), gen.integer(1, 40)))
            index = indices(gen, gen.shape(max_rank=4, numel=60), weight.shape[0])
            expected = weight.get()[index.get()]
            out = gen.out(weight.dtype, expected.shape)
            run("aclnnEmbedding", weight, index, out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnEmbedding", 2 * CASES, body)

    def test_gather(self):
        def body(gen):
            shape = gen.shape(empty=0)
            axis, dim = axis_of(gen, shape)
            x = given(gen, gen.pick(MOVED), shape)
            places = [gen.integer(1, 12) if i == axis else gen.integer(1, n) for i, n in enumerate(shape)]
            index = indices(gen, places, shape[axis] if shape else 1, True)
            inside = x.get()[tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(places))]
            expected = np.take_along_axis(inside, index.get().astype(np.int64), axis) if shape else x.get()
            out = gen.out(x.dtype, places)
            run("aclnnGather", x, dim, index, out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnGather", 3 * CASES, body)

    def test_gather_nd(self):
        def body(gen):
            shape = gen.shape(max_rank=5, min_rank=1, empty=0)
            x = given(gen, gen.pick(MOVED), shape)
            n = gen.integer(1, len(shape))
            if len(shape) - n > 5:
                return
            index = coordinates(gen, shape, n)
            expected = x.get()[tuple(np.moveaxis(index.get(), -1, 0))]
            out = gen.out(x.dtype, expected.shape)
            run("aclnnGatherNd", x, index, gen.chance(0.5), out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnGatherNd", 2 * CASES, body)

    def test_take(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(empty=0))
            index = indices(gen, gen.shape(numel=60), x.size, True)
            out = gen.out(x.dtype, index.shape)
            run("aclnnTake", x, index, out)
            ref.check_equal(out.get(), x.get().ravel()[index.get()])
        each_case(self, "aclnnTake", 2 * CASES, body)

    def test_repeat_interleave(self):
        def body(gen):
            shape = gen.shape(max_rank=5, min_rank=1, numel=200)
            axis, dim = axis_of(gen, shape)
            x = given(gen, gen.pick(MOVED), shape)
            for flat in (False, True):
                n = x.size if flat else shape[axis]
                times = gen.drawn(gen.pick((I32, I64)), (n if gen.chance(0.8) else 1,),
                                  lambda s: gen.rng.integers(0, 4, s))
                counts = np.broadcast_to(times.get(), (n,))
                expected = np.repeat(x.get(), counts, None if flat else axis)
                out = gen.out(x.dtype, expected.shape)
                if flat:
                    run("aclnnRepeatInterleave", x, times, expected.size, out)
                else:
                    run("aclnnRepeatInterleaveWithDim", x, times, dim, expected.shape[axis], out)
                ref.check_equal(out.get(), expected, f"{times.get()}")
            out = gen.out(gen.pick((I32, I64)), (int(times.get().sum()),))
            run("aclnnRepeatInterleaveTensor", times, out.size, out)
            ref.check_equal(out.get(), np.repeat(np.arange(times.size), times.get()))
        each_case(self, "aclnnRepeatInterleave", 2 * CASES, body)


class Lists(unittest.TestCase):
    """Index and IndexPutImpl."""

    def index_list(self, gen, d, shape):
        """A list of index tensors for a tensor of type d, and the same index for NumPy."""
        places = gen.shape(max_rank=2, numel=30, empty=0 if d in (I32, I64) else 0.05)  # see test_no_places
        entries, key, axis, masked = [], [], 0, False
        while axis < len(shape) and len(entries) < 5:
            kind = gen.pick(("whole", "ints", "ints", "mask", "stop"))
            if kind == "stop" and entries:
                break
            if kind == "mask" and not masked and places in ((), (1,)):
                rank = gen.integer(1, min(2, len(shape) - axis))
                mask = gen.drawn(BOOL, shape[axis:axis + rank], lambda s: gen.rng.random(s) < 0.4)
                entries.append(mask)
                key.append(mask.get())
                axis, masked = axis + rank, True
            elif kind == "ints":
                t = indices(gen, gen.shrunk(places), shape[axis], True)
                entries.append(t)
                key.append(t.get().astype(np.int64))
                axis += 1
            else:
                entries.append(gen.out(d, (0,)))
                key.append(slice(None))
                axis += 1
        return entries, tuple(key)

    def case(self, gen, d):
        shape = gen.shape(max_rank=5, min_rank=1, empty=0)
        entries, key = self.index_list(gen, d, shape)
        number = np.arange(int(np.prod(shape))).reshape(shape)
        return shape, entries, key, number[key]

    def test_index(self):
        def body(gen):
            d = gen.pick(MOVED)
            shape, entries, key, number = self.case(gen, d)
            if number.ndim > 8:
                return
            x = given(gen, d, shape)
            out = gen.out(x.dtype, number.shape)
            run("aclnnIndex", x, TensorList(entries), out)
            ref.check_equal(out.get(), x.get().ravel()[number], f"{key}")
        each_case(self, "aclnnIndex", 5 * CASES, body)

    def test_put(self):
        def body(gen):
            accumulate = gen.chance(0.5)
            d = gen.pick(SUMMED if accumulate else MOVED)
            shape, entries, key, number = self.case(gen, d)
            if number.ndim > 8 or all(isinstance(k, slice) for k in key):
                return
            x = gen.again(summands(gen, d, shape) if accumulate else given(gen, d, shape))
            values = summands(gen, d, gen.shrunk(number.shape)) if accumulate else \
                given(gen, d, gen.shrunk(number.shape))
            start, flat = x.get(), np.broadcast_to(values.get(), number.shape).ravel()
            if accumulate:
                sums = Sums(d, start.ravel())
                sums.add(number.ravel(), flat)
            else:
                expected = start.ravel().copy()
                for i, v in zip(number.ravel(), flat):          # the last one wins
                    expected[i] = v
            run("aclnnIndexPutImpl", x, TensorList(entries), values, accumulate, gen.chance(0.5))
            if accumulate:
                sums.check(x.get().ravel(), f"{key}")
            else:
                ref.check_equal(x.get(), expected.reshape(shape), f"{key}")
        each_case(self, "aclnnIndexPutImpl", 5 * CASES, body)

    def test_no_places(self):
        """An empty tensor of self's type, if that is an index type, is either an index without positions or ":"."""
        start, nothing = np.arange(12).reshape(3, 4), Tensor.empty(I64, (0,))
        for entries, written in (([Tensor.empty(F32, (0,)), nothing], ()),  # ":" is float32 here
                                 ([nothing, nothing], ()),                  # ":" alone is no indexing
                                 ([nothing, Tensor.of(I64, [1])], (slice(None), 1))):
            x = Tensor.of(I64, start)
            run("aclnnIndexPutImpl", x, TensorList(entries), Tensor.of(I64, [7]), False, False)
            expected = start.copy()
            if written:
                expected[written] = 7
            ref.check_equal(x.get(), expected, f"{entries}")

    def test_empty_is_whole(self):
        """Any empty tensor, whatever its type and rank, is ":" if an index without positions does not fit. MindSpore
        passes one with nine dimensions."""
        x = Tensor.of(F32, np.arange(12.0).reshape(3, 4))
        for empty in (Tensor.empty(I64, (0,)), Tensor.empty(F32, (0, 3)), Tensor.empty(BOOL, (0,)),
                      Tensor.empty(I64, (0,) * 9)):
            out, put = Tensor.empty(F32, (3, 2)), Tensor.of(F32, x.get())
            run("aclnnIndex", x, TensorList([empty, Tensor.of(I64, [1, 3])]), out)
            ref.check_equal(out.get(), x.get()[:, [1, 3]], f"{empty}")
            run("aclnnIndexPutImpl", put, TensorList([empty, Tensor.of(I64, [1, 3])]), out, True, False)
            expected = x.get()
            expected[:, [1, 3]] *= 2
            ref.check_equal(put.get(), expected, f"{empty}")
            run("aclnnIndexPutImpl", put, TensorList([empty]), x, False, False)                # ":" alone puts nothing
            ref.check_equal(put.get(), expected, f"{empty}")

    def test_mask_alone(self):
        """x[mask] and x[mask] = 0 as torch_npu calls them."""
        x = Tensor.of(F32, np.arange(12.0).reshape(3, 4))
        mask = Tensor.of(BOOL, x.get() % 3 == 1)
        out = Tensor.empty(F32, (4,))
        run("aclnnIndex", x, TensorList([mask]), out)
        ref.check_equal(out.get(), np.float32([1, 4, 7, 10]))
        for count in (3, 5):
            with self.assertRaises(AclError) as caught:
                run("aclnnIndex", x, TensorList([mask]), Tensor.empty(F32, (count,)))
            self.assertIn("indices[0]", caught.exception.message)
        run("aclnnIndexPutImpl", x, TensorList([mask]), Tensor.of(F32, np.float32(-1)), False, False)
        ref.check_equal(x.get(), np.where(mask.get(), -1, np.arange(12.0).reshape(3, 4)))

    def test_masked_scatter(self):
        def body(gen):
            shape = gen.shape()
            x = gen.again(given(gen, gen.pick(MOVED), shape))
            mask = gen.drawn(BOOL, gen.shrunk(shape), lambda s: gen.rng.random(s) < 0.5)
            marks = np.broadcast_to(mask.get(), shape)
            n = int(marks.sum())
            source = given(gen, x.dtype, (n + gen.integer(0, 3),) if gen.chance(0.5) else (2, n // 2 + 1))
            expected = np.array(x.get())
            expected[marks] = source.get().ravel()[:n]
            run("aclnnInplaceMaskedScatter", x, mask, source)
            ref.check_equal(x.get(), expected)
        each_case(self, "aclnnInplaceMaskedScatter", 2 * CASES, body)


class Scatters(unittest.TestCase):
    def places(self, gen):
        shape = gen.shape(empty=0)
        axis, dim = axis_of(gen, shape)
        at = [gen.integer(1, 12) if i == axis else gen.integer(1, n) for i, n in enumerate(shape)]
        index = indices(gen, at, shape[axis] if shape else 1)
        where = [np.broadcast_to(np.arange(n).reshape([-1 if k == i else 1 for k in range(len(at))]), at)
                 for i, n in enumerate(at)]
        if shape:
            where[axis] = index.get().astype(np.int64)
        return shape, dim, index, tuple(where)

    def expected(self, d, start, where, values, reduce):
        sums = Sums(d, start)
        if reduce == 0:
            out = np.array(start)
            for i in np.ndindex(values.shape):
                out[tuple(w[i] for w in where)] = values[i]
            sums.exact, sums.size = wide(d, out), np.zeros(out.shape, LD)
        elif reduce == 1:
            sums.add(where, values)
        else:
            sums.multiply(where, values)
        return sums

    def test_scatter(self):
        def body(gen):
            shape, dim, index, where = self.places(gen)
            reduce = gen.pick((0, 0, 1, 2))
            d = gen.pick(SUMMED)
            draw = (lambda g, d, s: g.drawn(d, s, lambda t: g.values(d, t, limit=2))) if reduce == 2 else summands
            x = draw(gen, d, shape)
            src = draw(gen, d, [n + gen.integer(0, 2) for n in index.shape])
            values = src.get()[tuple(slice(0, n) for n in index.shape)]
            value = {"f": 1.5, "i": 3, "b": True, "c": 1.5 - 1j}[d.kind]
            for values, source, name in ((values, src, "Scatter"),
                                         (np.full(index.shape, value, d.values),
                                          Scalar(value, {"f": F32, "i": I64, "b": BOOL, "c": C64}[d.kind]),
                                          "ScatterValue")):
                sums = self.expected(d, x.get(), where, values, reduce)
                out, ref_ = gen.out(d, shape), gen.again(x)
                run("aclnn" + name, x, dim, index, source, reduce, out)
                sums.check(out.get(), f"{name} {reduce}")
                run("aclnnInplace" + name, ref_, dim, index, source, reduce)
                sums.check(ref_.get(), f"Inplace{name} {reduce}")
        each_case(self, "aclnnScatter", 3 * CASES, body)

    def test_scatter_complex(self):
        x = Tensor.of(C128, np.zeros((2, 3)))
        src = Tensor.of(C128, np.arange(6).reshape(2, 3) * (1 + 2j))
        run("aclnnInplaceScatter", x, 1, Tensor.of(I64, [[2, 0, 1]] * 2), src, 0)
        ref.check_equal(x.get(), src.get()[:, [1, 2, 0]])

    def test_scatter_add(self):
        def body(gen):
            shape, dim, index, where = self.places(gen)
            d = gen.pick(SUMMED)
            x, src = summands(gen, d, shape), summands(gen, d, index.shape)
            out = gen.out(d, shape)
            run("aclnnScatterAdd", x, dim, index, src, out)
            self.expected(d, x.get(), where, src.get(), 1).check(out.get())
        each_case(self, "aclnnScatterAdd", 3 * CASES, body)

    def reduced(self, d, start, where, values, how, with_self):
        """Every value by itself, in order. Also the magnitudes whose rounding errors add up."""
        c = LD if d.kind == "f" else object
        out, size = np.array(start, c), np.array(np.abs(np.array(start, LD)))
        count = np.full(out.shape, int(with_self))
        for i in np.ndindex(values.shape):
            to, v = tuple(w[i] for w in where), c(values[i]) if c is LD else int(values[i])
            step = {0: lambda x: v, 1: lambda x: x + v, 2: lambda x: x * v, 3: lambda x: max(x, v),
                    4: lambda x: min(x, v), 5: lambda x: x + v}[how if count[to] else 0]
            out[to], count[to] = step(out[to]), count[to] + 1
            size[to] = size[to] * abs(v) if how == 2 and count[to] > 1 else size[to] + abs(LD(v))
        if how == 5:
            many = np.maximum(count, 1)
            out, size = (out / many if c is LD else out // many), size / many
        return np.asarray(out, c), np.asarray(size)

    def test_reduce(self):
        def body(gen):
            shape, dim, index, where = self.places(gen)
            how, with_self, d = gen.integer(0, 5), gen.chance(0.5), gen.pick(ALL)
            draw = lambda s: gen.drawn(d, s, lambda t: gen.values(d, t, limit=2 if how == 2 else 20))
            x, src = draw(shape), draw([n + gen.integer(0, 2) for n in index.shape])
            values = src.get()[tuple(slice(0, n) for n in index.shape)]
            exact, size = self.reduced(d, x.get(), where, values, how, with_self)
            out, ref_ = gen.out(d, shape), gen.again(x)
            run("aclnnScatterReduce", x, dim, index, src, how, with_self, out)
            run("aclnnInplaceScatterReduce", ref_, dim, index, src, how, with_self)
            for t, what in ((out, f"reduce {how}"), (ref_, f"in place, reduce {how}")):
                if d.kind == "f":
                    c = F64 if d is F64 else F32
                    ref.check(t.get(), exact, d, c, slack=16 * c.ulp(1) * size, what=what)
                else:
                    wrapped = exact.astype(bool) if d is BOOL else np.asarray(
                        exact & (2 ** (8 * d.size) - 1), np.uint64).astype(d.values)
                    ref.check_equal(t.get(), wrapped, what)
        each_case(self, "aclnnScatterReduce", 2 * CASES, body)

    def test_tensorflow_add(self):
        """A slice for each index, as scatter_add, or for each row of coordinates, as scatter_nd_add."""
        def body(gen):
            shape, d = gen.shape(max_rank=4, min_rank=1, numel=200, empty=0), gen.pick(ALL)
            var, nd = summands(gen, d, shape), gen.chance(0.5)
            var = gen.out(d, shape, var.get())
            if nd:
                n = gen.integer(1, len(shape))
                index = coordinates(gen, shape, n)
                where = tuple(index.get()[..., k].astype(np.int64) for k in range(n))
                places, slice_ = index.shape[:-1], shape[n:]
            else:
                index = indices(gen, gen.shape(max_rank=3, min_rank=1, numel=40, empty=0), shape[0])
                where, places, slice_ = (index.get().astype(np.int64),), index.shape, shape[1:]
            updates = summands(gen, d, places + slice_)
            sums = Sums(d, var.get())
            sums.add(where, updates.get())
            run("aclnnTfScatterAdd", var, index, updates)
            sums.check(var.get())
        each_case(self, "aclnnTfScatterAdd", 2 * CASES, body)

    def test_list(self):
        """Windows of updates in a list of tensors, each at its own place along one dimension."""
        def body(gen):
            n, d, shape = gen.integer(1, 5), gen.pick(ALL), gen.shape(max_rank=5, min_rank=1, numel=200, empty=0)
            axis = gen.integer(0, len(shape) - 1)
            size = gen.integer(1, shape[axis])
            window = shape[:axis] + (size,) + shape[axis + 1:]
            x = [gen.out(d, shape, gen.values(d, shape)) for _ in range(n)]
            updates = gen.tensor(d, (n, *window))
            at = gen.rng.integers(0, shape[axis] - size + 1, n)
            mask = gen.rng.integers(0, 2, n) if gen.chance(0.5) else None
            exact = [t.get().copy() for t in x]
            for i, e in enumerate(exact):
                if mask is None or mask[i]:
                    e[(slice(None),) * axis + (slice(at[i], at[i] + size),)] = updates.get()[i]
            run("aclnnScatterList", TensorList(x), gen.tensor(gen.pick((I32, I64)), (n,), at), updates,
                None if mask is None else gen.tensor(U8, (n,), mask), gen.pick((b"update", None)),
                axis + 1 - (len(shape) + 1 if gen.chance(0.5) else 0))
            for t, e in zip(x, exact):
                ref.check_equal(t.get(), e)
        each_case(self, "aclnnScatterList", CASES, body)

    def test_coalesce(self):
        """Entries of a sparse tensor whose positions are equal become one, with the sum of their values."""
        def body(gen):
            n, columns, d = gen.integer(1, 60), gen.integer(1, 4), gen.pick((F32, F16, I32))
            positions, groups = np.unique(gen.rng.integers(0, 3, (n, columns)), axis=0, return_inverse=True)
            groups, part = groups.reshape(-1), gen.shape(max_rank=3, numel=30, empty=0.1)
            values = summands(gen, d, (n, *part))
            start = np.zeros((len(positions), *part))
            sums = Sums(d, start.astype(d.values))
            sums.add((groups,), values.get())
            to = gen.out(gen.pick((I32, I64)), positions.shape)
            total = gen.out(d, start.shape, start)
            index = lambda x: gen.tensor(gen.pick((I32, I64)), x.shape, x)
            run("aclnnCoalesceSparse", index(np.arange(len(positions))), index(groups), index(positions[groups]),
                values, to, total)
            sums.check(total.get())
            ref.check_equal(to.get(), positions)
        each_case(self, "aclnnCoalesceSparse", CASES, body)

    def test_reduce_nan(self):
        """NaN is the largest value, and the least."""
        for how in (3, 4):
            x = Tensor.of(F32, [1.0, np.nan, 2.0])
            src = Tensor.of(F32, [np.nan, 5.0, 7.0])
            run("aclnnInplaceScatterReduce", x, 0, Tensor.of(I64, [0, 1, 0]), src, how, True)
            np.testing.assert_array_equal(x.get(), np.float32([np.nan, np.nan, 2.0]))

    def test_scatter_nd(self):
        def body(gen):
            shape = gen.shape(max_rank=5, min_rank=1, empty=0)
            d, n = gen.pick(MOVED), gen.integer(1, len(shape))
            x = given(gen, d, shape)
            index = coordinates(gen, shape, n)
            places = index.shape[:-1]
            updates = given(gen, d, places + shape[n:])
            expected, at, v = x.get(), index.get(), updates.get()
            for i in np.ndindex(places):
                expected[tuple(at[i])] = v[i]
            out, var = gen.out(d, shape), gen.again(x)
            if updates.shape:                                     # CANN refuses a single element that is one of out's
                run("aclnnScatterNd", x, index, updates, out)
                ref.check_equal(out.get(), expected)
            run("aclnnScatterNdUpdate", var, index, updates)
            ref.check_equal(var.get(), expected)
        each_case(self, "aclnnScatterNd", 2 * CASES, body)

    def test_scatter_update(self):
        def body(gen):
            d = gen.pick(MOVED)
            shape = gen.shape(max_rank=4, min_rank=2, empty=0)
            axis = gen.integer(1, len(shape) - 1)
            n = gen.integer(1, shape[0])
            window = gen.integer(1, shape[axis])
            x = gen.again(given(gen, d, shape))
            updates = given(gen, d, [n if i == 0 else window if i == axis else k for i, k in enumerate(shape)])
            pairs = gen.chance(0.4)
            starts = gen.rng.integers(0, shape[axis] - window + 1, n)
            rows = gen.rng.permutation(shape[0])[:n] if pairs else np.arange(n)
            index = Tensor.of(gen.pick((I32, I64)), np.stack([rows, starts], -1) if pairs else starts)
            expected = x.get()
            for i in range(n):
                part = [rows[i]] + [slice(None)] * (len(shape) - 1)
                part[axis] = slice(starts[i], starts[i] + window)
                expected[tuple(part)] = updates.get()[i]
            run("aclnnInplaceScatterUpdate", x, index, updates, axis - (len(shape) if gen.chance(0.5) else 0))
            ref.check_equal(x.get(), expected)
        each_case(self, "aclnnInplaceScatterUpdate", 2 * CASES, body)

    def test_put(self):
        def body(gen):
            accumulate, shape = gen.chance(0.5), gen.shape(empty=0)
            d = gen.pick(SUMMED if accumulate else MOVED)
            x = gen.again(summands(gen, d, shape) if accumulate else given(gen, d, shape))
            index = indices(gen, gen.shape(numel=60), x.size, True)
            source = summands(gen, d, index.shape) if accumulate else given(gen, d, index.shape)
            flat = index.get().ravel().astype(np.int64) % x.size
            sums = Sums(d, x.get().ravel()) if accumulate else None
            expected = x.get().ravel().copy()
            if accumulate:
                sums.add(flat, source.get().ravel())
            else:
                for i, v in zip(flat, source.get().ravel()):
                    expected[i] = v
            run("aclnnInplacePut", x, index, source, accumulate)
            if accumulate:
                sums.check(x.get().ravel())
            else:
                ref.check_equal(x.get().ravel(), expected)
        each_case(self, "aclnnInplacePut", 3 * CASES, body)


class Slices(unittest.TestCase):
    def case(self, gen, dtypes, draw):
        shape = gen.shape(empty=0)
        axis, dim = axis_of(gen, shape)
        d = gen.pick(dtypes)
        n = gen.integer(0, 9) if gen.chance(0.9) else gen.integer(250, 600)
        if not shape:
            n = 1
        x = draw(gen, d, shape)
        index = indices(gen, (n,) if shape or gen.chance(0.5) else (), shape[axis] if shape else 1)
        source = draw(gen, d, [n if i == axis else k for i, k in enumerate(shape)])
        at = (slice(None),) * axis + (index.get().ravel().astype(np.int64),) if shape else ...
        return d, x, dim, axis, index, source, at

    def test_index_copy(self):
        def body(gen):
            d, x, dim, axis, index, source, at = self.case(gen, MOVED, given)
            expected = x.get()
            if x.shape:
                for i, k in enumerate(index.get().ravel()):
                    expected[(slice(None),) * axis + (k,)] = source.get()[(slice(None),) * axis + (i,)]
            else:
                expected = source.get()
            out, ref_ = gen.out(d, x.shape), gen.again(x)
            run("aclnnIndexCopy", x, dim, index, source, out)
            ref.check_equal(out.get(), expected)
            run("aclnnInplaceIndexCopy", ref_, dim, index, source)
            ref.check_equal(ref_.get(), expected)
        each_case(self, "aclnnIndexCopy", 2 * CASES, body)

    def test_index_add(self):
        def body(gen):
            d, x, dim, axis, index, source, at = self.case(gen, ALL, summands)
            alpha = gen.pick((1, 1, 2, 3)) if d.kind != "b" else True
            sums = Sums(d, x.get())
            values = source.get() if alpha is True else (source.get() * d.values.type(alpha)).astype(d.values)
            if d.kind == "f":
                values = source.get().astype(LD) * alpha
            sums.add(at, values)
            out = gen.out(d, x.shape)
            run("aclnnIndexAdd", x, dim, index, source, Scalar(alpha, {"f": F32, "i": I64, "b": BOOL}[d.kind]), out)
            sums.check(out.get(), f"alpha {alpha}")
        each_case(self, "aclnnIndexAdd", 3 * CASES, body)

    def test_index_fill(self):
        def body(gen):
            shape, d = gen.shape(empty=0), gen.pick(ALL)
            axis, dim = axis_of(gen, shape)
            n = shape[axis] if shape else 1
            index = [gen.integer(-n, n - 1) for _ in range(gen.integer(0, 4))]
            value = {"f": -2.5, "i": 9, "b": True}[d.kind]
            x = given(gen, d, shape)
            expected = x.get()
            if shape:
                expected[(slice(None),) * axis + (index,)] = value
            elif index:
                expected = d.values.type(value)
            out, ref_ = gen.out(d, shape), gen.again(x)
            scalar = Scalar(value, {"f": F64, "i": I64, "b": BOOL}[d.kind])
            run("aclnnIndexFillTensor", x, dim, Ints(*index), scalar, out)
            ref.check_equal(out.get(), expected)
            run("aclnnInplaceIndexFillTensor", ref_, dim, Ints(*index), scalar)
            ref.check_equal(ref_.get(), expected)
        each_case(self, "aclnnIndexFillTensor", 2 * CASES, body)

    def test_ggml_set_rows(self):
        """An index without elements with a source of stride 0; writing halves into rows of a cache."""
        x = Tensor.of(F16, np.zeros((6, 4)))
        run("aclnnInplaceIndexCopy", x, 0, Tensor.empty(I64, (0,)), Tensor(F16, (0, 4), (0, 1)))
        ref.check_equal(x.get(), np.zeros((6, 4), np.float32))
        row = Tensor(F16, (3, 4), (0, 1)).set(np.float32([1, 2, 3, 4]))
        run("aclnnInplaceIndexCopy", x, 0, Tensor.of(I64, [5, 0, 2]), row)
        expected = np.zeros((6, 4), np.float32)
        expected[[5, 0, 2]] = [1, 2, 3, 4]
        ref.check_equal(x.get(), expected)


SUMS = """
import hashlib, numpy as np
from acl import Scalar, Tensor, TensorList, run
from dtypes import F16, F32, I64
rng = np.random.default_rng(5)
def sums(op, d, shape, *args):
    out = Tensor.empty(d, shape)
    run(op, *args, out)
    print(op, d, hashlib.sha256(out.bits().tobytes()).hexdigest())
for d in (F32, F16):
    draw = lambda *shape: Tensor.of(d, d.round(rng.standard_normal(shape)))
    index = lambda n, *shape: Tensor.of(I64, rng.integers(0, n, shape))
    sums("aclnnScatterAdd", d, (999,), draw(999), 0, index(999, 400000), draw(400000))
    sums("aclnnScatterAdd", d, (300, 700), draw(300, 700), 0, index(300, 500, 700), draw(500, 700))
    sums("aclnnIndexAdd", d, (100, 500), draw(100, 500), 0, index(100, 3000), draw(3000, 500), Scalar(0.3, F32))
    sums("aclnnEmbeddingDenseBackward", d, (50, 300), draw(6000, 300), index(50, 6000), 50, 7, True)
    x = draw(77, 9)
    run("aclnnIndexPutImpl", x, TensorList([index(77, 200000), index(9, 200000)]), draw(200000), True, False)
    print("put", d, hashlib.sha256(x.bits().tobytes()).hexdigest())
"""


class Threads(unittest.TestCase):
    def test_sums_are_the_same(self):
        """Sums have the same bits for any number of threads."""
        def with_threads(n):
            python = [*os.environ.get("TEST_EMULATOR", "").split(), sys.executable]
            p = subprocess.run([*python, "-c", SUMS], env={**os.environ, "OMP_NUM_THREADS": str(n)},
                               cwd=os.path.dirname(os.path.abspath(__file__)), check=True, capture_output=True)
            return p.stdout
        self.assertEqual(with_threads(1), with_threads(2))


class Embeddings(unittest.TestCase):
    def test_backward(self):
        def body(gen):
            d, n, width = gen.pick(FLOATS), gen.integer(1, 12), gen.integer(1, 40)
            index = indices(gen, gen.shape(max_rank=3, numel=60), n)
            rows = gen.pick((index.shape, index.shape, (1,) + index.shape, (index.size,), ()))   # one row per index
            rows = index.shape if np.prod(rows) != index.size else rows
            if gen.chance(0.3):
                other = gen.pick((I8, U8, I16, F16, F32, F64, BOOL))
                index = gen.out(other, index.shape, index.get() % 2 if other is BOOL else index.get())
                n = max(n, 2)
            grad = gen.drawn(d, rows + (width,), lambda s: gen.values(d, s, limit=100))
            padding = gen.integer(0, n - 1) if gen.chance(0.5) else 2 ** 64 - 1      # clients pass -1 for none
            scale, i = gen.chance(0.5), index.get().ravel().astype(np.int64)
            out = gen.out(gen.pick((d, F32)), (n, width))
            run("aclnnEmbeddingDenseBackward", grad, index, n, padding, scale, out)
            count = np.bincount(i, minlength=n)
            weight = np.where(i == padding, 0, 1 / count[i].astype(LD) if scale else LD(1))
            terms = grad.get().astype(LD).reshape(-1, width) * weight[:, None]
            exact, magnitude = np.zeros((n, width), LD), np.zeros((n, width), LD)
            np.add.at(exact, i, terms)
            np.add.at(magnitude, i, np.abs(terms))
            # A running sum per row: its error grows with the number of additions, and the division adds to it.
            slack = (count[:, None] + 2) * LD(2) ** -24 * magnitude
            ref.check(out.get(), exact, out.dtype, F32, ulps=1, slack=slack, what=f"padding {padding} scale {scale}")
        each_case(self, "aclnnEmbeddingDenseBackward", 2 * CASES, body)

    def test_renorm(self):
        def body(gen):
            d, n, width = gen.pick(FLOATS + (F64,)), gen.integer(1, 12), gen.integer(1, 40)
            x = gen.again(gen.drawn(d, (n, width), lambda s: gen.values(d, s, limit=20)))
            index = indices(gen, gen.shape(max_rank=2, numel=20), n)
            most, kind = gen.pick((0.5, 3.0, 40.0)), gen.pick((0.0, 1.0, 2.0, 3.0, np.inf))
            v = x.get().astype(LD)
            with np.errstate(all="ignore"):
                if np.isinf(kind):
                    norm = np.abs(v).max(1)
                elif kind == 0:
                    norm = (v != 0).sum(1)
                else:
                    norm = (np.abs(v) ** LD(kind)).sum(1) ** (1 / LD(kind))
            scale = np.where(np.isin(np.arange(n), index.get()) & (norm > most), most / (norm + LD(1e-7)), 1)
            run("aclnnEmbeddingRenorm", x, index, most, kind)
            ref.check(x.get(), v * scale[:, None], d, F64, ulps=0.5, slack=np.abs(v * scale[:, None]) * LD(2) ** -45)
        each_case(self, "aclnnEmbeddingRenorm", CASES, body)

    def test_renorm_to_nan(self):
        """A limit of NaN limits nothing."""
        x = Tensor.of(F32, np.float32([[3, 4], [5, 12]]))
        run("aclnnEmbeddingRenorm", x, Tensor.of(I64, [0, 1]), float("nan"), 2.0)
        ref.check_equal(x.get(), np.float32([[3, 4], [5, 12]]))

    def test_bag(self):
        def body(gen):
            d, n, width = gen.pick(FLOATS), gen.integer(1, 12), gen.pick((1, 7, 40, 300))
            weight = gen.drawn(d, (n, width), lambda s: gen.values(d, s, limit=100))
            index = indices(gen, (gen.integer(0, 30),), n)
            bags, last = gen.integer(1, 6), gen.chance(0.3)
            cuts = np.sort(np.append(gen.rng.integers(0, index.size + 1, bags - 1), 0))
            ends = np.append(cuts[1:], index.size)
            if last:
                ends[-1] = gen.integer(int(cuts[-1]), index.size)
            offsets = Tensor.of(index.dtype, np.append(cuts, ends[-1]) if last else cuts)
            mode, padding = gen.integer(0, 2), gen.integer(-1, n - 1)
            samples = gen.drawn(d, (index.size,), lambda s: gen.values(d, s, limit=4)) \
                if mode == 0 and gen.chance(0.5) else None
            out = gen.out(d, (bags, width))
            told = gen.chance(0.7)
            of_bag, size = gen.out(I64, (index.size * told,), np.full(index.size * told, -5)), gen.out(I64, (bags,))
            largest = gen.out(I64, (bags, width) if mode == 2 else (bags,))
            run("aclnnEmbeddingBag", weight, index, offsets, False, mode, False, samples, last, padding,
                out, of_bag, size, largest)
            w, i = weight.get().astype(LD), index.get()
            exact, magnitude = np.zeros((bags, width), LD), np.zeros((bags, width), LD)
            for b in range(bags):
                inside = np.arange(cuts[b], ends[b])
                if told:
                    ref.check_equal(of_bag.get()[inside], np.full(inside.size, b))
                inside = inside[i[inside] != padding]
                ref.check_equal(size.get()[b], np.int64(inside.size))
                rows = w[i[inside]] * (samples.get()[inside, None] if samples else 1)
                if not inside.size:
                    continue
                if mode == 2:
                    exact[b] = rows.max(0)
                    ref.check_equal(w[largest.get()[b], np.arange(width)], rows.max(0))
                else:
                    exact[b] = rows.sum(0) / (inside.size if mode else 1)
                    magnitude[b] = np.abs(rows).sum(0)
            ref.check(out.get(), exact, d, F64, ulps=1, slack=magnitude * LD(2) ** -45)
        each_case(self, "aclnnEmbeddingBag", 2 * CASES, body)


def t(*shape, d=F32):
    return Tensor.of(d, np.zeros(shape))


class Failures(unittest.TestCase):
    def test_out_of_range(self):
        """The task fails with a message that names the index and its range; nothing outside the range is touched."""
        x, ints = t(3, 4), lambda *v: Tensor.of(I64, np.array(v))
        for op, name, *args in (
                ("IndexSelect", "index[1] is 3", x, 0, ints(0, 3), t(2, 4)),
                ("IndexSelect", "index[0] is -4", x, 0, ints(-4, 0), t(2, 4)),
                ("GatherV2", "index[300]", x, 0, Tensor.of(I32, np.append(np.zeros(300), 7)), t(301, 4)),
                ("Embedding", "indices[0] is -1", x, ints(-1), t(1, 4)),
                ("Gather", "index[2] is 4", x, 1, ints([0, 1, 4]), t(1, 3)),
                ("Gather", "index[0] is -5", x, 1, ints([-5]), t(1, 1)),
                ("GatherNd", "indices[0] is 4", x, ints([0, 4]), True, t(1)),
                ("Take", "index[1] is 12", x, ints(0, 12), t(2)),
                ("Index", "indices[1] is 3", x, TensorList([ints(0, 3)]), t(2, 4)),
                ("Scatter", "index[0] is -1", x, 0, ints([-1]), t(1, 1), 0, t(3, 4)),
                ("ScatterList", "indice[1] is 2, expected 0 to 1", TensorList([t(3, 4), t(3, 4)]), ints(0, 2),
                 t(2, 2, 4), None, None, 1),
                ("CoalesceSparse", "uniqueIndices[1] is 2", ints(0), ints(0, 2), ints([0, 1], [1, 1]), t(2, 3),
                 ints([0, 0], [0, 0]), t(2, 3)),
                ("ScatterReduce", "index has 3, expected 0 to 2", x, 0, ints([3]), t(1, 1), 1, True, t(3, 4)),
                ("ScatterAdd", "index[1] is 9", x, 1, ints([0, 9]), t(1, 2), t(3, 4)),
                ("ScatterNdUpdate", "indices[1] is 5", x, ints([0], [5]), t(2, 4)),
                ("InplaceScatterUpdate", "indices[0] is 3", x, ints(3), t(1, 2), 1),
                ("IndexPutImpl", "indices[0] is -4", x, TensorList([ints(-4)]), t(1, 4), True, True),
                ("IndexAdd", "index[0] is 3", x, 0, ints(3), t(1, 4), Scalar(1, F32), t(3, 4)),
                ("InplaceIndexCopy", "index[0] is 3", x, 0, ints(3), t(1, 4)),
                ("InplacePut", "index[0] is -13", x, ints(-13), t(1), False),
                ("InplaceMaskedScatter", "source has 1", x, Tensor.of(BOOL, np.ones((3, 4))), t(1)),
                ("EmbeddingDenseBackward", "indices[1] is 5", t(2, 4), ints(0, 5), 5, 2 ** 64 - 1, False, t(5, 4)),
                ("EmbeddingRenorm", "indices[0] is 3", x, ints(3), 1.0, 2.0),
                ("RepeatInterleaveTensor", "repeats[0] is -1", ints(-1), 2, t(2, d=I64)),
                ("RepeatInterleaveWithDim", "repeats", x, ints(1, 1, 3), 0, 4, t(4, 4)),
                ("RepeatInterleaveWithDim", "repeats", x, ints(1, 1, 1), 0, 4, t(4, 4))):
            with self.subTest(f"{op} {name}"):
                with self.assertRaises(AclError) as caught:
                    run("aclnn" + op, *args)
                self.assertEqual(caught.exception.code, FAILED)
                self.assertIn(name, caught.exception.message)

    def test_refused(self):
        i = Tensor.of(I64, [0, 1])
        for op, name, *args in (
                ("IndexSelect", "index", t(3, 4), 0, t(2, 2, d=I64), t(2, 4)),
                ("GatherV2", "out", t(3, 4), 0, i, t(3, 4)),
                ("GatherV2", "index", t(3, 4), 0, t(2), t(2, 4)),
                ("Gather", "index", t(3, 4), 0, t(2, 5, d=I64), t(2, 5)),
                ("Gather", "out", t(3, 4), 0, t(2, 4, d=I64), t(2, 3)),
                ("GatherNd", "indices", t(3, 4), t(2, 3, d=I64), False, t(2)),
                ("Take", "out", t(3, 4), i, t(3)),
                ("Index", "indices", t(3), TensorList([i, i]), t(2)),
                ("Index", "indices", t(3, 4), TensorList([t(2, d=BOOL)]), t(2, 4)),
                ("Index", "out", t(3, 4), TensorList([i]), t(3, 4)),
                ("Index", "indices", t(3, 4), TensorList([t(2)]), t(2, 4)),
                ("IndexPutImpl", "values", t(3, 4), TensorList([i]), t(3, 4), False, False),
                ("IndexPutImpl", "values", t(3, 4), TensorList([i]), t(2, 4, d=F16), False, False),
                ("Scatter", "reduce", t(3, 4), 0, t(1, 1, d=I64), t(1, 1), 3, t(3, 4)),
                ("TfScatterAdd", "updates has shape [2, 3], expected [2, 4]", t(3, 4), t(2, d=I64), t(2, 3)),
                ("TfScatterAdd", "varRef has dtype COMPLEX64", t(3, d=C64), t(2, d=I64), t(2, d=C64)),
                ("ScatterList", "reduceOptional is \"add\"", TensorList([t(3, 4)]), i, t(1, 2, 4), None, b"add", 1),
                ("ScatterList", "axis is dimension 0", TensorList([t(3, 4)]), t(1, d=I64), t(1, 2, 4), None, None, 0),
                ("ScatterList", "varRef[1] has shape [3, 5]", TensorList([t(3, 4), t(3, 5)]), t(2, d=I64), t(2, 2, 4),
                 None, None, 1),
                ("ScatterList", "indice has shape [1, 2]", TensorList([t(3, 4)]), t(1, 2, d=I64), t(1, 2, 4), None,
                 None, 1),
                ("CoalesceSparse", "newIndicesOut has shape [2, 3], expected [2, 2]", i, t(4, d=I64), t(4, 2, d=I64),
                 t(4), t(2, 3, d=I64), t(2)),
                ("CoalesceSparse", "values has shape [3]", i, t(4, d=I64), t(4, 2, d=I64), t(3), t(2, 2, d=I64), t(2)),
                ("ScatterReduce", "reduce is 6", t(3, 4), 0, t(1, 1, d=I64), t(1, 1), 6, True, t(3, 4)),
                ("ScatterReduce", "dim is 2", t(3, 4), 2, t(1, 1, d=I64), t(1, 1), 1, True, t(3, 4)),
                ("ScatterReduce", "index has shape [2, 5]", t(3, 4), 0, t(2, 5, d=I64), t(2, 5), 1, True, t(3, 4)),
                ("ScatterReduce", "as many", t(3, 4), 0, t(2, d=I64), t(2), 1, True, t(3, 4)),
                ("ScatterReduce", "out has shape [4]", t(3, 4), 0, t(1, 1, d=I64), t(1, 1), 1, True, t(4)),
                ("Scatter", "src", t(3, 4), 0, t(2, 2, d=I64), t(1, 1), 0, t(3, 4)),
                ("IndexAdd", "self", t(3, 4, d=C64), 0, i, t(2, 4, d=C64), Scalar(1, I64), t(3, 4, d=C64)),
                ("Scatter", "index has 0", t(3), 0, t(d=I64), t(1), 0, t(3)),
                ("Scatter", "src has 0", t(3), 0, t(1, d=I64), t(), 0, t(3)),
                ("ScatterValue", "index has 0", t(3), 0, t(d=I64), Scalar(1, F32), 0, t(3)),
                ("ScatterNd", "updates", t(3), t(1, d=I64), t(), t(3)),
                ("Take", "self has no element", t(0), i, t(2)),
                ("InplacePut", "selfRef has no element", t(0), i, t(2), False),
                ("InplaceScatterUpdate", "updates has no element", t(3, 4), i, t(2, 0), 1),
                ("InplaceScatterUpdate", "indices has no element", t(3, 4), t(0, d=I64), t(0, 4), 1),
                ("InplaceScatterUpdate", "data has no element", t(3, 0), i, t(2, 1), 1),
                ("EmbeddingDenseBackward", "grad has shape [5, 2]", t(5, 2), t(2, 3, d=I64), 4, 0, False, t(4, 2)),
                ("RepeatInterleaveTensor", "repeats", t(d=I64), 0, t(0, d=I64)),
                ("ScatterAdd", "out", t(3, 4), 0, t(2, 2, d=I64), t(2, 2), t(3, 3)),
                ("ScatterNd", "updates", t(3, 4), t(2, 1, d=I64), t(2, 3), t(3, 4)),
                ("InplaceScatterUpdate", "axis", t(3, 4), i, t(2, 2), 0),
                ("InplaceScatterUpdate", "updates", t(3, 4), i, t(2, 5), 1),
                ("IndexAdd", "source", t(3, 4), 0, i, t(3, 4), Scalar(1, F32), t(3, 4)),
                ("InplaceIndexCopy", "index", t(3, 4), 0, t(2, 1, d=I64), t(2, 4)),
                ("InplaceIndexFillTensor", "index", t(3, 4), 0, Ints(3), Scalar(1, F32)),
                ("InplacePut", "source", t(3, 4), i, t(3), False),
                ("InplaceMaskedScatter", "mask", t(3, 4), t(3, d=BOOL), t(12)),
                ("EmbeddingRenorm", "selfRef", t(3), i, 1.0, 2.0),
                ("EmbeddingBag", "sparse", t(3, 4), i, i, False, 0, True, None, False, -1, t(2, 4), t(2, d=I64),
                 t(2, d=I64), t(2, d=I64)),
                ("RepeatInterleaveTensor", "out", i, 2, t(3, d=I64)),
                ("RepeatInterleave", "repeats", t(3), i, 2, t(2))):
            with self.subTest(f"{op} {name}"):
                code, message = refused("aclnn" + op, *args)
                self.assertEqual(code, INVALID, message)
                self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
