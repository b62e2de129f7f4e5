# SPDX-License-Identifier: Apache-2.0
"""GatherV3, IndexFill, IndexAddV2 and RepeatInterleaveGrad."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Scalar, Tensor, refused, run
from dtypes import ALL, BOOL, F32, F64, FLOATS64, I32, I64, LD
from gen import each_case
from test_index import MOVED, SUMMED, Sums, axis_of, given, indices, summands

CASES = 60
SCALARS = {"f": F64, "i": I64, "b": BOOL}


class Gather(unittest.TestCase):
    def test_batches(self):
        def body(gen):
            shape = gen.shape(max_rank=5, min_rank=1, empty=0)
            axis, dim = axis_of(gen, shape)
            n = gen.integer(0, axis)
            x = given(gen, gen.pick(MOVED), shape)
            rest = tuple(gen.integer(1, 4) for _ in range(gen.integer(0, 8 - len(shape))))
            index = indices(gen, shape[:n] + rest, shape[axis], True)
            at = index.get().astype(np.int64) % shape[axis]
            expected = np.empty(shape[:axis] + rest + shape[axis + 1:], x.dtype.values)
            for batch in np.ndindex(shape[:n]):
                expected[batch] = np.take(x.get()[batch], at[batch], axis - n)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnGatherV3", x, dim, index, n, gen.integer(0, 1), out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnGatherV3", 3 * CASES, body)

    def test_refused(self):
        x, out = Tensor.empty(F32, (2, 3, 4)), Tensor.empty(F32, (2, 5, 4))
        index = Tensor.of(I64, np.zeros((2, 5)))
        for name, args in (("mode", (x, 1, index, 1, 2, out)), ("batchDims", (x, 1, index, 2, 0, out)),
                           ("index", (x, 1, Tensor.of(I64, np.zeros((3, 5))), 1, 0, out)),
                           ("out", (x, 1, index, 1, 0, x))):
            with self.subTest(name):
                code, message = refused("aclnnGatherV3", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


class Fill(unittest.TestCase):
    def test_index_fill(self):
        """Indices outside the dimension are ignored."""
        def body(gen):
            shape, d = gen.shape(empty=0), gen.pick(ALL)
            axis, dim = axis_of(gen, shape)
            n = shape[axis] if shape else 1
            many = gen.integer(0, 9) if gen.chance(0.9) else gen.integer(250, 600)
            index = gen.drawn(gen.pick((I32, I64)), (many,) if gen.chance(0.9) else (),
                              lambda s: gen.rng.integers(-n - 2, n + 2, s))
            value = {"f": -2.5, "i": 9, "b": True}[d.kind]
            x = given(gen, d, shape)
            there = [i for i in index.get().ravel() if -n <= i < n]
            expected = x.get().reshape(shape or (1,))
            expected[(slice(None),) * axis + (there,)] = value
            out, ref_ = gen.out(d, shape), gen.again(x)
            scalar = Scalar(value, SCALARS[d.kind])
            run("aclnnIndexFill", x, dim, index, scalar, out)
            ref.check_equal(out.get(), expected.reshape(shape))
            run("aclnnInplaceIndexFill", ref_, dim, index, scalar)
            ref.check_equal(ref_.get(), expected.reshape(shape))
        each_case(self, "aclnnIndexFill", 3 * CASES, body)

    def test_refused(self):
        x, two = Tensor.empty(F32, (2, 3)), Scalar(2.0, F32)
        for index in (Tensor.of(F32, np.zeros(2)), Tensor.of(I64, np.zeros((1, 1)))):
            code, message = refused("aclnnIndexFill", x, 0, index, two, Tensor.empty(F32, (2, 3)))
            self.assertEqual(code, INVALID)
            self.assertIn("index has", message)


class Add(unittest.TestCase):
    def test_index_add(self):
        def body(gen):
            mode = gen.integer(0, 1)
            shape = (gen.integer(1, 30), gen.integer(1, 30)) if mode == 0 else gen.shape(min_rank=1, empty=0)
            axis, dim = (0, gen.pick((0, -2))) if mode == 0 else axis_of(gen, shape)
            d = gen.pick([d for d in SUMMED
                          if d.kind != "c" and (mode or d.name in ("f32", "f16", "bf16", "i32", "i16"))])
            x = summands(gen, d, shape)
            index = indices(gen, (gen.integer(0, 40),), shape[axis])
            source = summands(gen, d, [index.size if i == axis else k for i, k in enumerate(shape)])
            alpha = gen.pick((1, 2, 3)) if d.kind != "b" else True
            values = source.get() if alpha is True else (source.get() * d.values.type(alpha)).astype(d.values)
            if d.kind == "f":
                values = source.get().astype(LD) * alpha
            sums = Sums(d, x.get())
            sums.add((slice(None),) * axis + (index.get().astype(np.int64),), values)
            out = gen.out(d, shape)
            run("aclnnIndexAddV2", x, dim, index, source, Scalar(alpha, SCALARS[d.kind]), mode, out)
            sums.check(out.get(), f"mode {mode}, alpha {alpha}")
        each_case(self, "aclnnIndexAddV2", 2 * CASES, body)

    def test_refused(self):
        x, index, one = Tensor.empty(F32, (2, 3)), Tensor.of(I64, [0, 1, 1]), Scalar(1, I64)
        code, message = refused("aclnnIndexAddV2", x, 1, index, x, one, 0, Tensor.empty(F32, (2, 3)))
        self.assertEqual(code, INVALID)
        self.assertIn("dim is 1", message)


class RepeatInterleaveGrad(unittest.TestCase):
    def test_sums(self):
        def body(gen):
            shape, d = list(gen.shape(max_rank=5, min_rank=1)), gen.pick(FLOATS64)
            axis, dim = axis_of(gen, shape)
            if gen.chance(0.3):
                times, m = gen.integer(1, 4), shape[axis]
                repeats, given_ = [times] * m, [times]
            else:
                m = max(shape[axis], 2)
                repeats = given_ = [gen.integer(0, 4) for _ in range(m)]
            shape[axis] = sum(repeats)
            grad = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=50))
            result = shape[:axis] + [m] + shape[axis + 1:]
            begins = np.cumsum([0] + repeats)
            parts = [grad.get().astype(LD).take(range(b, e), axis) for b, e in zip(begins, begins[1:])]
            exact, size = ([f(p).sum(axis, keepdims=True) for p in parts] for f in (lambda p: p, np.abs))
            exact = np.concatenate(exact, axis) if m else np.zeros(result, LD)
            size = np.concatenate(size, axis) if m else exact
            flat = Tensor(d, (int(np.prod(result)),)) if gen.chance(0.2) and 0 not in result else None
            out = flat or gen.out(d, result)
            run("aclnnRepeatInterleaveGrad", grad, gen.out(gen.pick((I32, I64)), (len(given_),), given_), dim, out)
            ref.check(out.get().reshape(result), exact, d, F64, ulps=1, slack=4 * F64.ulp(size))
        each_case(self, "aclnnRepeatInterleaveGrad", 3 * CASES, body)

    def test_wrong_repeats(self):
        for repeats in ([1, 1], [5, -1], [2, 3]):
            with self.assertRaises(AclError) as error:
                run("aclnnRepeatInterleaveGrad", Tensor.of(F32, np.ones((4, 2))), Tensor.of(I64, repeats), 0,
                    Tensor.empty(F32, (2, 2)))
            self.assertIn("repeats", error.exception.message)
        code, message = refused("aclnnRepeatInterleaveGrad", Tensor.empty(F32, (4,)), Tensor.of(I64, [2, 2]), 0,
                                Tensor.empty(F32, (3,)))
        self.assertEqual(code, INVALID)
        self.assertIn("out has shape [3]", message)


if __name__ == "__main__":
    unittest.main()
