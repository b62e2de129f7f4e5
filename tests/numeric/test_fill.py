# SPDX-License-Identifier: Apache-2.0
"""Operators that fill tensors from scalars: Linspace, LogSpace, Range, Eye, fills by tensor and of diagonals, OneHot;
and real and imaginary parts of complex numbers. InplaceFillScalar, InplaceZero, InplaceOne and Arange are in
test_move.py."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Scalar, Tensor, run
from dtypes import (ALL, BF16, BOOL, C64, C128, F16, F32, F64, FLOATS64, I8, I32, I64, INTS, LD, U8, computed_in)
from gen import each_case

CASES = 60


class Sequences(unittest.TestCase):
    def linspace(self, gen):
        d = gen.pick(FLOATS64 + (I32, I64))
        low = gen.integer(-100, 100) / 4
        high = low if gen.chance(0.1) else gen.integer(-100, 100) / 4
        n = gen.integer(0, 60) if gen.chance(0.8) else gen.integer(0, 5000)
        kind = gen.pick((F32, F64))
        out = gen.out(d, (n,))
        run("aclnnLinspace", Scalar(low, kind), Scalar(high, kind), n, out)
        i = np.arange(n)
        exact = LD(low) + (LD(high) - LD(low)) * i / max(n - 1, 1)
        if d.kind == "f":
            ref.check(out.get(), exact, d, computed_in(d), ulps=1, slack=1e-14, what=f"{low} to {high}")
            if n > 1:
                ref.check_equal(out.get()[[0, -1]], d.round([low, high]), "ends")
        else:
            # If the exact number is an integer, the library's double may be just below or above it.
            near = abs(exact - np.rint(exact)) < 1e-9
            good = np.where(near, abs(out.get() - np.rint(exact)) <= 1, out.get() == np.trunc(exact))
            ref.complain(out.get(), np.trunc(exact), good, "linspace", lambda k: "that")

    def logspace(self, gen):
        d = gen.pick(FLOATS64)
        low, high, n = gen.integer(-12, 12) / 4, gen.integer(-12, 12) / 4, gen.integer(0, 40)
        base = gen.pick((2.0, 10.0, 0.5, 3.7))
        out = gen.out(d, (n,))
        run("aclnnLogSpace", Scalar(low, F32), Scalar(high, F64), n, base, out)
        exact = LD(base) ** (LD(low) + (LD(high) - LD(low)) * np.arange(n) / max(n - 1, 1))
        ref.check(out.get(), exact, d, computed_in(d), ulps=1, slack=1e-13 * exact)

    def range(self, gen):
        """The end is included if a step meets it."""
        d = gen.pick((F32, F16, BF16, F64, I32, I64))
        integer = d.kind == "i"
        step = gen.pick((1, 2, 3, -1, -5) if integer else (0.25, 0.5, 1, 3, -0.5))
        start, n = gen.integer(-40, 40) / (1 if integer else 4), gen.integer(1, 40)
        end = start + step * (n - 1) + (0 if integer or gen.chance(0.5) else step / 4)
        if integer and abs(step) > 1 and gen.chance(0.5):
            end += 1 if step > 0 else -1
        out = gen.out(d, (n,))
        run("aclnnRange", *(Scalar(v, I64 if integer else gen.pick((F32, F64))) for v in (start, end, step)), out)
        exact = LD(start) + LD(step) * np.arange(n)
        if integer:
            ref.check_equal(out.get(), exact.astype(d.values))
        else:
            ref.check(out.get(), exact, d, computed_in(d), ulps=1)

    def test_cut_first(self):
        """For INT64 the bounds and the step are truncated to integers before anything is computed."""
        for op, numbers, expected in (("aclnnArange", (0.6, 5, 1.5), np.arange(5)),
                                      ("aclnnArange", (2, -2.9, -1.5), [2, 1, 0, -1]),
                                      ("aclnnRange", (0.6, 5.9, 1.5), np.arange(6)),
                                      ("aclnnArange", (0.9, 0.1, 1), [])):
            out = Tensor.empty(I64, (len(expected),))
            run(op, *(Scalar(v, F64) for v in numbers), out)
            ref.check_equal(out.get(), np.array(expected, np.int64), f"{op} of {numbers}")
        out = Tensor.empty(I32, (3,))                                    # other types truncate when they are stored
        run("aclnnArange", *(Scalar(v, F64) for v in (0.6, 5, 1.5)), out)
        ref.check_equal(out.get(), [0, 2, 3])

    def test_all(self):
        each_case(self, "aclnnLinspace", 2 * CASES, self.linspace)
        each_case(self, "aclnnLogSpace", CASES, self.logspace)
        each_case(self, "aclnnRange", CASES, self.range)

    def test_wrong(self):
        for op, args, word in (
                ("aclnnLinspace", [Scalar(0, F32), Scalar(1, F32), 3, Tensor.empty(F32, (4,))], "steps"),
                ("aclnnLinspace", [Scalar(0, F32), Scalar(1, F32), -1, Tensor.empty(F32, (0,))], "steps"),
                ("aclnnRange", [Scalar(0, I64), Scalar(4, I64), Scalar(1, I64), Tensor.empty(F32, (4,))],
                 "out has 4 elements, expected 5"),
                ("aclnnRange", [Scalar(0, I64), Scalar(4, I64), Scalar(0, I64), Tensor.empty(F32, (4,))], "step"),
                ("aclnnArange", [Scalar(0, I64), Scalar(2, I64), Scalar(0.5, F32), Tensor.empty(I32, (4,))],
                 "step is 0.5, expected a number that is not 0, nor when it is cut"),
                ("aclnnArange", [Scalar(0, I64), Scalar(np.inf, F32), Scalar(1, I64), Tensor.empty(I64, (4,))],
                 "end is inf")):
            with self.assertRaisesRegex(AclError, word) as caught:
                run(op, *args)
            self.assertEqual(caught.exception.code, INVALID)


class Fills(unittest.TestCase):
    def by_tensor(self, gen):
        d, s = gen.pick(ALL), gen.pick(ALL)
        t, value = gen.out(d, gen.shape()), gen.tensor(s, gen.pick(((), (1,))), gen.values(s, (), limit=100))
        value = gen.tensor(s, value.shape, np.reshape(value.get(), value.shape))
        v = value.get().reshape(())
        if d.kind == "i" and s.kind == "f" and not ref.in_range(v, d):
            return
        run("aclnnInplaceFillTensor", t, value)
        ref.check_equal(t.get(), np.full(t.shape, ref.to_type(v, s, d)), f"{s} {v}")

    def eye(self, gen):
        d, n, m = gen.pick(ALL), gen.integer(0, 20), gen.integer(0, 20)
        out = gen.out(d, (n, m))
        run("aclnnEye", n, m, out)
        ref.check_equal(out.get(), np.eye(n, m).astype(d.values))

    def diagonal(self, gen):
        d = gen.pick(ALL)
        rank = gen.pick((2, 2, 2, 3, 4))
        n = gen.integer(1, 6)
        shape = (gen.integer(1, 40), gen.integer(1, 7)) if rank == 2 else (n,) * rank
        wrap = gen.chance(0.5)
        t = gen.out(d, shape, gen.values(d, shape))
        expected = t.get().copy()
        np.fill_diagonal(expected, 3 if d is not BOOL else True, wrap)
        run("aclnnInplaceFillDiagonal", t, Scalar(3, gen.pick((F32, F64, I64))), wrap)
        ref.check_equal(t.get(), expected, f"wrap {wrap}")

    def one_hot(self, gen):
        d, kind = gen.pick(FLOATS64[:3] + INTS), gen.pick((I32, I64, U8))
        shape = gen.shape(max_rank=7, numel=60)
        classes = gen.integer(1, 9)
        index = gen.drawn(kind, shape, lambda s: gen.rng.integers(0 if kind is U8 or gen.chance(0.7) else -2,
                                                                  classes + 2, s))
        on, off = (gen.tensor(d, (1,), d.round([v]) if d.kind == "f" else np.array([v]))
                   for v in (gen.integer(1, 9), 0))
        axis = gen.integer(-1, len(shape))
        place = len(shape) if axis < 0 else axis
        out = gen.out(d, shape[:place] + (classes,) + shape[place:])
        run("aclnnOneHot", index, classes, on, off, axis, out)
        hit = np.expand_dims(index.get().astype(np.int64), place) == \
            np.arange(classes).reshape((-1,) + (1,) * (len(shape) - place))
        ref.check_equal(out.get(), np.where(hit, on.get()[0], off.get()[0]))

    def test_all(self):
        each_case(self, "aclnnInplaceFillTensor", CASES, self.by_tensor)
        each_case(self, "aclnnEye", CASES, self.eye)
        each_case(self, "aclnnInplaceFillDiagonal", CASES, self.diagonal)
        each_case(self, "aclnnOneHot", CASES, self.one_hot)

    def test_wrong(self):
        for words, op, args in (
                ("value has 1 elements in 2 dimensions", "InplaceFillTensor",
                 [Tensor.of(F32, [1]), Tensor.of(F32, [[1]])]),
                ("value has 2 elements in 1 dim", "InplaceFillTensor", [Tensor.of(F32, [1]), Tensor.of(F32, [1, 2])]),
                *((f"fillValue is .*, expected a number that {name} has", "InplaceFillDiagonal",
                   [Tensor.empty(d, (2, 2)), Scalar(v, s), False])
                  for d, v, s, name in ((I8, 300, I64, "INT8"),
                                        (I8, -129, I64, "INT8"),
                                        (U8, 256, F32, "UINT8"),
                                        (I64, 1e19, F64, "INT64"),
                                        (F16, 1e6, F32, "FLOAT16"),
                                        (F32, 1e40, F64, "FLOAT")))):
            with self.subTest(words), self.assertRaisesRegex(AclError, words) as caught:
                run("aclnn" + op, *args)
            self.assertEqual(caught.exception.code, INVALID)
        t = Tensor.empty(F16, (1, 1))
        run("aclnnInplaceFillDiagonal", t, Scalar(np.inf, F32), False)
        ref.check_equal(t.get(), [[np.inf]])

    def test_one_hot_wrong(self):
        def call(classes=3, axis=-1, on=None, out=None):
            on = on or Tensor.of(F32, [1.0])
            run("aclnnOneHot", Tensor.of(I64, [0, 2]), classes, on, Tensor.of(F32, [0.0]), axis,
                out or Tensor.empty(F32, (2, 3)))
        for word, args in (("numClasses", dict(classes=-1)),
                           ("axis", dict(axis=2)),
                           ("onValue", dict(on=Tensor.of(I32, [1]))),
                           ("out", dict(out=Tensor.empty(F32, (3, 2))))):
            with self.assertRaisesRegex(AclError, word) as caught:
                call(**args)
            self.assertEqual(caught.exception.code, INVALID)


class ComplexParts(unittest.TestCase):
    def real(self, gen):
        d, part = gen.pick(((C64, F32), (C128, F64), (F32, F32), (F16, F16)))
        shape = gen.shape()
        v = gen.rng.standard_normal(shape) + (1j * gen.rng.standard_normal(shape) if d.kind == "c" else 0)
        x = gen.tensor(d, shape, np.asarray(v, d.values) if d.kind == "c" else d.round(v))
        out = gen.out(part, shape)
        run("aclnnReal", x, out)
        ref.check_equal(out.get(), x.get().real)

    def put_together(self, gen):
        d, part = gen.pick(((C64, F32), (C128, F64)))
        shape = gen.shape(max_rank=7)
        sa, sb = gen.broadcast_pair(shape)
        a, b = (gen.drawn(part, s, lambda s: gen.values(part, s)) for s in (sa, sb))
        out = gen.out(d, shape)
        run("aclnnComplex", a, b, out)
        ref.check_equal(out.get().real, np.broadcast_to(a.get(), shape))
        ref.check_equal(out.get().imag, np.broadcast_to(b.get(), shape))

    def test_all(self):
        each_case(self, "aclnnReal", CASES, self.real)
        each_case(self, "aclnnComplex", CASES, self.put_together)


if __name__ == "__main__":
    unittest.main()
