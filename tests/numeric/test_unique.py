# SPDX-License-Identifier: Apache-2.0
"""Operators whose output shape depends on the data: Nonzero, MaskedSelect, Unique; and searching and counting."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, NULLPTR, Scalar, Tensor, TensorList, contiguous, refused, run
from dtypes import (ALL, BOOL, COMPLEX, F16, F32, F64, FLOATS, FLOATS64, I16, I32, I64, I8, INTS, LD, U8, computed_in)
from gen import each_case

CASES = 120


def result(t, shape):
    """The elements of an output in its true shape: packed if the tensor was contiguous, else by its strides."""
    flat = t.view(t.block.body)
    if all(n == 1 or a == b for n, a, b in zip(t.shape, t.strides, contiguous(t.shape))):
        values = t.block.body.view(t.dtype.storage)[t.offset:][:int(np.prod(shape, dtype=np.int64))].reshape(shape)
    else:
        values = flat[tuple(slice(0, n) for n in shape)]
    return t.dtype.load(values.copy())


def sparse(gen, d, shape, p):
    return gen.drawn(d, shape, lambda s: np.where(gen.rng.random(s) < p, gen.values(d, s), 0).astype(d.values))


class Shaped(unittest.TestCase):
    def test_nonzero(self):
        for op in ("aclnnNonzero", "aclnnNonzeroV2"):
            def body(gen, op=op):
                shape = gen.pick(((3000,), (5, 1500), (1500, 3))) if gen.chance(0.2) else gen.shape()
                x = sparse(gen, gen.pick(ALL), shape, gen.pick((0, 0.02, 0.5, 1)))
                places = np.argwhere(x.get()) if shape else np.empty((int(x.get() != 0), 0), np.int64)
                room = x.size + gen.integer(0, 2)
                rows = op == "aclnnNonzero"
                out = gen.out(I64, (room, len(shape)) if rows else (len(shape), room))
                shapes = []
                run(op, x, out, shapes=shapes)
                expected = places if rows else places.T
                assert shapes[1] == expected.shape, (shapes, expected.shape)
                ref.check_equal(result(out, expected.shape), expected, op)
            each_case(self, op, CASES, body)

    def test_nonzero_of_nothing(self):
        for shape in ((0,), (3, 0), (0, 4)):
            shapes = []
            run("aclnnNonzeroV2", Tensor.empty(F32, shape), Tensor.empty(I64, (len(shape), 2)), shapes=shapes)
            self.assertEqual(shapes[1], (len(shape), 0))

    def test_masked_select(self):
        def body(gen):
            shape = gen.pick(((3000,), (5, 1500), (1500, 3))) if gen.chance(0.2) else gen.shape(max_rank=6)
            a, b = gen.broadcast_pair(shape)
            x, mask = gen.tensor(gen.pick(ALL), a), sparse(gen, gen.pick((BOOL, BOOL, U8)), b, gen.pick((0.02, 0.5, 1)))
            values, chosen = np.broadcast_arrays(x.get(), mask.get() != 0)
            expected = values[chosen]
            out = gen.out(x.dtype, (values.size,))
            shapes = []
            run("aclnnMaskedSelect", x, mask, out, shapes=shapes)
            assert shapes[2] == expected.shape
            ref.check_equal(result(out, expected.shape), expected)
        each_case(self, "aclnnMaskedSelect", CASES, body)

    def test_objects_may_go_first(self):
        """A client that does not ask for the shape destroys its tensors before the task runs."""
        x, out = Tensor.of(I32, np.arange(-3, 4)), Tensor.empty(I64, (7, 1))
        for _ in range(20):
            run("aclnnNonzero", x, out)
        ref.check_equal(result(out, (6, 1)).ravel(), np.array([0, 1, 2, 4, 5, 6]))

    def test_merged_dimensions(self):
        """Counting works on merged dimensions: here a row of stride 0 whose last dimension, of size 1, has stride 1."""
        x = Tensor(I64, (3, 4, 1), (0, 0, 1)).set(np.full((3, 4, 1), 5))
        out, shapes = Tensor.empty(I64, (3, 20)), []
        run("aclnnNonzeroV2", x, out, shapes=shapes)
        assert shapes[1] == (3, 12), shapes
        ref.check_equal(result(out, (3, 12)), np.argwhere(np.ones((3, 4, 1))).T)

    def test_too_little_room(self):
        x, out = Tensor.of(F32, np.ones(9, np.float32)), Tensor.empty(I64, (8, 1))
        with self.assertRaisesRegex(AclError, "room for 8 results, expected at least 9"):
            run("aclnnNonzero", x, out)

    def test_exact_room(self):
        x, out = Tensor.of(F32, np.float32([0, 2, 0, 3])), Tensor.empty(I64, (2, 1))
        run("aclnnNonzero", x, out)
        ref.check_equal(out.get(), np.array([[1], [3]]))


def distinct(v):
    """(values, inverse, counts), where each NaN is a value of its own, at the end."""
    flat = v.ravel()
    key = np.where(flat == 0, 0, flat)
    nan = np.flatnonzero(flat != flat)
    values, inverse, counts = np.unique(key[flat == flat], return_inverse=True, return_counts=True)
    all_inverse = np.empty(flat.shape, np.int64)
    all_inverse[flat == flat] = inverse.ravel()
    all_inverse[nan] = len(values) + np.arange(len(nan))
    return (np.concatenate([values, flat[nan]]), all_inverse.reshape(v.shape),
            np.concatenate([counts, np.ones(len(nan), np.int64)]))


class Uniques(unittest.TestCase):
    def test_unique2(self):
        def body(gen):
            d = gen.pick(ALL)
            shape = gen.pick(((3000,), (30, 40))) if gen.chance(0.2) else gen.shape()
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=gen.pick((3, None))))
            values, inverse, counts = distinct(x.get())
            out, where, how_often = gen.out(d, (x.size,)), gen.out(I64, shape), gen.out(I64, (x.size,))
            shapes, n = [], (len(values),)
            if gen.chance(0.5):
                run("aclnnUnique", x, True, True, out, where, shapes=shapes)
            else:
                with_counts = gen.chance(0.7)
                run("aclnnUnique2", x, gen.chance(0.5), True, with_counts, out, where, how_often, shapes=shapes)
                assert shapes[3] == (n if with_counts else (x.size,)), shapes
                if with_counts:
                    ref.check_equal(result(how_often, n), counts, "counts")
            assert shapes[1] == n and shapes[2] == shape, (shapes, n)
            ref.check_equal(result(out, n), values.astype(d.values), "values")
            ref.check_equal(where.get(), inverse, "inverse")
        each_case(self, "aclnnUnique2", CASES, body)

    def test_unwanted(self):
        """torch_npu passes tensors of other shapes for outputs that it does not want."""
        x, out = Tensor.of(I64, np.array([3, 1, 3])), Tensor.empty(I64, (3,))
        run("aclnnUnique2", x, True, False, False, out, Tensor.empty(I64, (0,)), Tensor.empty(I64, (1,)))
        ref.check_equal(result(out, (2,)), np.array([1, 3]))
        for op, *args in (("aclnnUnique", True, False, out, None), ("aclnnUnique2", True, False, False, out, None, out),
                          ("aclnnUniqueConsecutive", False, False, 0, out, out, None),
                          ("aclnnUniqueDim", True, False, 0, out, None, out)):
            self.assertEqual(refused(op, x, *args)[0], NULLPTR, op)

    def test_other_shapes(self):
        """Outputs of other shapes, as in CANN's sample of UniqueConsecutive."""
        x = Tensor.of(F32, np.float32([[1, 2], [1, 2], [3, 4], [1, 2]]))
        for op, values, inverse, counts, *args in (
                ("aclnnUniqueConsecutive", [[1, 2], [3, 4], [1, 2]], [0, 0, 1, 2], [2, 1, 1], True, True),
                ("aclnnUniqueDim", [[1, 2], [3, 4]], [0, 0, 1, 0], [3, 1], True, True)):
            out, shapes = Tensor.empty(F32, (8,)), []
            where, how_often = Tensor.empty(I64, (4, 2)), Tensor.empty(I64, (8,))
            run(op, x, *args, 0, out, where, how_often, shapes=shapes)
            assert shapes[1:] == [(len(counts), 2), (4,), (len(counts),)], shapes
            for got, expected in ((out, np.float32(values)), (where, np.array(inverse)), (how_often, np.array(counts))):
                ref.check_equal(result(got, (got.size,))[:expected.size], expected.ravel(), op)

    def test_consecutive(self):
        def body(gen):
            d = gen.pick(ALL + COMPLEX)
            shape = gen.shape(empty=0)
            numbers = (0, -0.0, 1j, 1, complex(np.nan, 1))
            x = gen.drawn(d, shape, lambda s: gen.rng.choice(numbers, s, p=(0.3, 0.3, 0.1, 0.2, 0.1)).astype(d.values)
                          if d in COMPLEX else gen.values(d, s, limit=1))
            v = x.get()
            axis = gen.integer(0, len(shape) - 1) if shape and gen.chance(0.5) else None
            flat = v.ravel() if axis is None else np.moveaxis(v, axis, 0).reshape(shape[axis], -1)
            new = np.ones(len(flat), bool)
            new[1:] = (flat[1:] != flat[:-1]) if axis is None else (flat[1:] != flat[:-1]).any(1)
            inverse, starts = np.cumsum(new) - 1, np.flatnonzero(new)
            counts = np.diff(np.append(starts, len(flat)))
            expected = flat[new] if axis is None else np.take(v, starts, axis)
            out = gen.out(d, (x.size,) if axis is None else shape)
            where = gen.out(I64, shape if axis is None else (shape[axis],))
            how_often = gen.out(I64, (len(flat),))
            shapes = []
            run("aclnnUniqueConsecutive", x, True, True, 1000 if axis is None else axis, out, where, how_often,
                shapes=shapes)
            assert shapes[1] == expected.shape and shapes[3] == counts.shape, (shapes, expected.shape)
            ref.check_equal(result(out, expected.shape), expected, "values")
            ref.check_equal(where.get(), inverse.reshape(where.shape), "inverse")
            ref.check_equal(result(how_often, counts.shape), counts, "counts")
        each_case(self, "aclnnUniqueConsecutive", CASES, body)

    def test_dim(self):
        def body(gen):
            d = gen.pick(FLOATS64 + INTS)
            shape = gen.shape(min_rank=1, max_rank=4, numel=60, empty=0)
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=1))
            v, axis = x.get(), gen.integer(0, len(shape) - 1)
            rows = [tuple(r) for r in np.moveaxis(v, axis, 0).reshape(shape[axis], -1).tolist()]
            ordered = sorted(set(rows))
            inverse = np.array([ordered.index(r) for r in rows])
            starts = [rows.index(r) for r in ordered]
            expected = np.take(v, starts, axis)
            out, where = gen.out(d, shape), gen.out(I64, (shape[axis],))
            how_often = gen.out(I64, (shape[axis],))
            shapes = []
            run("aclnnUniqueDim", x, True, True, axis - (len(shape) if gen.chance(0.5) else 0), out, where, how_often,
                shapes=shapes)
            assert shapes[1] == expected.shape, (shapes, expected.shape)
            ref.check_equal(result(out, expected.shape), expected, "values")
            ref.check_equal(where.get(), inverse, "inverse")
            ref.check_equal(result(how_often, (len(ordered),)), np.bincount(inverse), "counts")
        each_case(self, "aclnnUniqueDim", CASES, body)


class Searches(unittest.TestCase):
    def test_search_sorted(self):
        def body(gen):
            d = gen.pick(FLOATS64 + INTS)
            rows = gen.shape(max_rank=2, empty=0) if gen.chance(0.5) else None
            n, m = gen.integer(1, 40), gen.integer(1, 30)
            sequence = np.sort(gen.values(d, (rows or ()) + (n,), limit=8), -1)
            values = gen.values(d, (rows or (3,)) + (m,), limit=9)
            right, narrow = gen.chance(0.5), gen.chance(0.5)
            side = "right" if right else "left"
            table = np.broadcast_to(sequence, values.shape[:-1] + (n,)).reshape(-1, n)
            expected = np.array([np.searchsorted(t, v, side) for t, v in zip(table, values.reshape(-1, m))])
            sorter, stored = None, sequence
            if gen.chance(0.4):
                shuffled = np.argsort(gen.rng.random(sequence.shape), -1)
                stored = np.empty_like(sequence)
                np.put_along_axis(stored, shuffled, sequence, -1)
                sorter = gen.tensor(I64, sequence.shape, shuffled)
            out = gen.out(I32 if narrow else I64, values.shape)
            run("aclnnSearchSorted", gen.tensor(d, sequence.shape, stored), gen.tensor(d, values.shape, values), narrow,
                right, sorter, out)
            ref.check_equal(out.get(), expected.reshape(values.shape).astype(out.dtype.values), side)
            if not rows:
                if not sorter:
                    out = gen.out(I32 if narrow else I64, values.shape)
                    run("aclnnBucketize", gen.tensor(d, values.shape, values), gen.tensor(d, sequence.shape, sequence),
                        narrow, right, out)
                    ref.check_equal(out.get(), expected.reshape(values.shape).astype(out.dtype.values), side)
                one = gen.out(I64, ())
                value = values.flat[0]
                run("aclnnSearchSorteds", gen.tensor(d, sequence.shape, stored),
                    Scalar(float(value), F64) if d.kind == "f" else Scalar(int(value), I64), False, right, sorter, one)
                ref.check_equal(one.get(), np.searchsorted(sequence, value, side))
        each_case(self, "aclnnSearchSorted", CASES, body)

    def test_search_sorted_promotes(self):
        for d, sequence, other, values, expected in (
                (I32, [1, 2, 3], F32, [1.5, 3, 9], [1, 2, 3]), (F32, [1, 1.5, 2], I64, [1, 2, 3], [0, 2, 3]),
                (U8, [1, 200], I8, [-1, 100], [0, 1]), (F16, [1, 2048], I32, [2049, 2051], [1, 2])):
            out = Tensor.empty(I64, (len(values),))
            run("aclnnSearchSorted", Tensor.of(d, np.array(sequence)), Tensor.of(other, np.array(values)), False,
                False, None, out)
            ref.check_equal(out.get(), np.array(expected), f"{d} {other}")

    def test_is_in(self):
        def body(gen):
            d = gen.pick(FLOATS64 + INTS)
            x = gen.drawn(d, gen.shape(), lambda s: gen.values(d, s, limit=3))
            value, invert = gen.pick((0, 1, -2, 0.5)), gen.chance(0.5)
            scalar = Scalar(value, F64) if isinstance(value, float) else Scalar(value, I64)
            equal = x.get() == value
            out, one = gen.out(BOOL, x.shape), gen.out(BOOL, ())
            run("aclnnIsInTensorScalar", x, scalar, False, invert, out)
            ref.check_equal(out.get(), equal != invert)
            run("aclnnIsInScalarTensor", scalar, x, False, invert, one)
            ref.check_equal(one.get(), equal.any() != invert)
        each_case(self, "aclnnIsIn", CASES, body)
        x, out = Tensor.of(F16, np.float32([0.1, 0.2])), Tensor.empty(BOOL, (2,))
        run("aclnnIsInTensorScalar", x, Scalar(0.1, F64), False, False, out)     # 0.1 is rounded to a half
        ref.check_equal(out.get(), np.array([True, False]))
        for value, d, stored, n, found in ((0.1, F16, 0.1, 9, True), (0.1, F16, 0.1, 10, False), (300, I8, 44, 9, True),
                                           (300, I8, 44, 10, False), (3, I8, 3, 10, True)):
            x, one = Tensor.of(d, np.full(n, stored).astype(d.values)), Tensor.empty(BOOL, ())
            run("aclnnIsInScalarTensor", Scalar(value, F32 if value == 0.1 else I64), x, False, False, one)
            ref.check_equal(one.get(), np.bool_(found), f"{value} in {n}")

    def test_bincount(self):
        def body(gen):
            x = gen.drawn(gen.pick((I32, I64, U8, I8, I16)), (gen.integer(0, 200),),
                          lambda s: gen.rng.integers(0, 20, s))
            length = gen.integer(0, 30)
            n = max([length] + [int(v) + 1 for v in x.get()])
            if gen.chance(0.5):
                weights = gen.drawn(gen.pick((F32, F64)), x.shape, lambda s: gen.values(F32, s, limit=5))
                exact = np.zeros(n, LD)
                np.add.at(exact, x.get(), weights.get().astype(LD))
                out = gen.out(gen.pick((F32, F64)), (n,))
                run("aclnnBincount", x, weights, length, out)
                ref.check(out.get(), exact, out.dtype, slack=1e-12)
            else:
                out = gen.out(gen.pick((I64, I32, F32, F64)), (n,))
                run("aclnnBincount", x, None, length, out)
                ref.check_equal(out.get(), np.bincount(x.get().astype(np.int64), minlength=n).astype(out.dtype.values))
        each_case(self, "aclnnBincount", CASES, body)
        with self.assertRaisesRegex(AclError, "self has 7, expected 0 to 4"):
            run("aclnnBincount", Tensor.of(I32, np.array([1, 7])), None, 0, Tensor.empty(I64, (5,)))

    def test_histc(self):
        def body(gen):
            d = gen.pick(FLOATS + (F64, I32))
            x = gen.drawn(d, gen.shape(empty=0), lambda s: gen.values(d, s, limit=10))
            bins, low, high = gen.integer(1, 20), *gen.pick(((0, 0), (-4, 4), (1, 9), (3, 3)))
            v = x.get().ravel()
            c = np.float32 if d in FLOATS else np.float64
            a, b = (v.min(), v.max()) if low == high else (low, high)
            a, b = (a - 1.0, b + 1.0) if a == b else (a, b)
            a, b = c(a), c(b)
            v = v.astype(c)[(v >= a) & (v <= b)]
            at = np.minimum(((v - a) * c(bins) / (b - a)).astype(np.int64), bins - 1)
            expected = np.bincount(at, minlength=bins)
            out = gen.out(F32 if d is F64 else d, (bins,))
            run("aclnnHistc", x, bins, Scalar(low, F32), Scalar(high, F32), out)
            ref.check_equal(out.get(), out.dtype.round(expected.astype(LD)) if out.dtype.kind == "f" else expected)
        each_case(self, "aclnnHistc", CASES, body)
        x, out = Tensor.of(I32, np.array([0, 1, 2, 3])), Tensor.empty(I32, (2,))
        for low, high, expected in ((0.2, 0.8, (2, 2)), (0.9, 2.9, (1, 2))):     # 0 to 0, the whole range; and 0 to 2
            run("aclnnHistc", x, 2, Scalar(low, F32), Scalar(high, F32), out)
            ref.check_equal(out.get(), np.int32(expected))

    def test_lists(self):
        for op, join in (("aclnnSum", np.add), ("aclnnMaxN", np.maximum), ("aclnnMinN", np.minimum)):
            def body(gen, op=op, join=join):
                d = gen.pick(FLOATS + (F64, I32, I64))
                shape = gen.pick(((3000,), (40, 70))) if gen.chance(0.2) else gen.shape()
                limit = 10 if op == "aclnnSum" else None
                xs = [gen.drawn(d, shape if k == 0 or gen.chance(0.7) else gen.shrunk(shape),
                                lambda s: gen.values(d, s, limit=limit)) for k in range(gen.integer(1, 12))]
                out = gen.out(d, shape)
                run(op, TensorList(xs), out)
                wide = LD if d.kind == "f" else d.values
                exact = xs[0].get().astype(wide)
                for x in xs[1:]:
                    exact = join(exact, x.get().astype(wide))
                exact = np.broadcast_to(exact, shape)
                if op != "aclnnSum" or d.kind == "i":
                    ref.check_equal(out.get(), exact.astype(d.values), op)
                else:
                    total = sum(np.abs(x.get().astype(LD)) for x in xs)
                    slack = np.broadcast_to(total, shape) * 12 * LD(2) ** (1 - computed_in(d).digits)
                    ref.check(out.get(), exact, d, computed_in(d), slack=slack, what=op)
            each_case(self, op, CASES // 2, body)


class Errors(unittest.TestCase):
    def test_messages(self):
        x, i = Tensor.of(F32, np.zeros((2, 3), np.float32)), Tensor.empty(I64, (6, 2))
        row = Tensor.empty(F32, (6,))
        for words, op, *args in (
                (("out has shape [6, 2]", "most results"), "aclnnNonzeroV2", x, i),
                (("out has dtype FLOAT", "INT64"), "aclnnNonzero", x, x),
                (("mask has dtype FLOAT",), "aclnnMaskedSelect", x, x, row),
                (("out has 5 elements", "6"), "aclnnMaskedSelect", x, Tensor.empty(BOOL, (3,)),
                 Tensor.empty(F32, (5,))),
                (("out has 7 elements", "6"), "aclnnMaskedSelect", x, Tensor.empty(BOOL, (3,)),
                 Tensor.empty(F32, (7,))),
                (("mask has shape [4]", "[2, 3]"), "aclnnMaskedSelect", x, Tensor.empty(BOOL, (4,)), row),
                (("valueOut has shape [2, 3]",), "aclnnUnique", x, True, False, x, i),
                (("inverseOut has shape [6, 2]",), "aclnnUnique", x, True, True, row, i),
                (("dim is 2",), "aclnnUniqueDim", x, True, False, 2, x, i, i),
                (("out has dtype INT64", "INT32"), "aclnnSearchSorted", row, x, True, False, None,
                 Tensor.empty(I64, (2, 3))),
                (("bins is 0",), "aclnnHistc", x, 0, Scalar(0, F32), Scalar(1, F32), row),
                (("out has dtype FLOAT", "INT32"), "aclnnHistc", Tensor.empty(I32, (3,)), 6, Scalar(0, F32),
                 Scalar(1, F32), row),
                (("min is 2",), "aclnnHistc", x, 6, Scalar(2, F32), Scalar(1, F32), row),
                (("tensors[0] has shape [6]",), "aclnnSum", TensorList([row]), x),
                *((("out has shape [2, 3]", "dimension 0"), op, TensorList([Tensor.empty(F32, s) for s in shapes]), x)
                  for op, shapes in (("aclnnSum", ((1, 3), (1, 3))),
                                     ("aclnnMaxN", ((3,), ())),
                                     ("aclnnMinN", ((), (1, 3))))),
                (("tensors has dtype INT64", "FLOAT"), "aclnnMaxN", TensorList([x, Tensor.empty(I64, (2, 3))]), x),
                (("minlength is -1",), "aclnnBincount", Tensor.empty(I32, (3,)), None, -1, Tensor.empty(I64, (3,)))):
            code, message = refused(op, *args)
            assert code == INVALID and all(w in message for w in words), (op, code, message)


if __name__ == "__main__":
    unittest.main()
