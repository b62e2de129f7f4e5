# SPDX-License-Identifier: Apache-2.0
"""Softmax, its logarithm and its masked form, with their gradients."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, Tensor, refused, run
from dtypes import BOOL, F16, F32, F64, FLOATS, FLOATS64, I32, LD, computed_in
from gen import each_case

CASES = 100


def rows_of(gen):
    """A shape and an axis: small ones, rows beyond a block and beyond a chunk, many columns, and deep ones."""
    if gen.chance(0.6):
        shape = gen.shape(min_rank=0)
    else:
        shape = gen.pick(((2, 5000), (70, 33), (1100, 40), (5000, 3), (3, 600, 17), (65, 66), (4097,),
                          (17, 1, 70), (200, 16)))
    return shape, gen.integer(0, max(len(shape) - 1, 0))


def draw_x(gen, d, shape):
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=gen.pick((4, 30))))


def eps_of(d):
    return LD(2) ** (1 - computed_in(d).digits)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Forward(unittest.TestCase):
    """The argument of the exponential is rounded, so the relative error of a result grows with the distance of its
    input from the maximum."""

    def body(self, op):
        def body(gen):
            source, target = gen.pick(tuple((d, d) for d in FLOATS64) + ((F16, F32), (F32, F16)))
            shape, axis = rows_of(gen)
            x, out = draw_x(gen, source, shape), gen.out(target, shape)
            workspace = run(op, x, axis - (max(len(shape), 1) if gen.chance(0.4) else 0), out)
            self.assertEqual(workspace, 0)
            v = x.get().astype(LD)
            if not v.size:
                return
            v, axis_ = (v.reshape(1), 0) if v.ndim == 0 else (v, axis)
            below = v.max(axis_, keepdims=True) - v
            computing = F64 if F64 in (source, target) else F32
            eps, n = eps_of(computing), v.shape[axis_]
            terms = (4 + below + np.log2(n)) * eps
            exact = softmax(v, axis_)
            if op == "aclnnLogSoftmax":
                exact = np.log(exact)
                slack = terms.min(axis_, keepdims=True) + (1 + below) * eps
            else:
                slack = 2 * terms * exact
            ref.check(out.get().reshape(v.shape), exact, target, computing, slack=slack, what=f"{op} along {axis}")
            other = gen.out(target, shape)
            run(op, gen.again(x), axis, other)
            ref.check_equal(other.bits(), out.bits(), "bits in another layout")
        return body

    def test_softmax(self):
        each_case(self, "aclnnSoftmax", CASES, self.body("aclnnSoftmax"))

    def test_log_softmax(self):
        each_case(self, "aclnnLogSoftmax", CASES, self.body("aclnnLogSoftmax"))

    def test_in_place(self):
        for op in ("aclnnSoftmax", "aclnnLogSoftmax"):
            for d in FLOATS64:
                for shape, axis in (((3, 4), 1), ((40, 70), 0), ((2, 9000), 1)):
                    x = Tensor.of(d, np.arange(np.prod(shape)).reshape(shape) % 13 / d.values.type(4))
                    out = Tensor.empty(d, shape)
                    run(op, x, axis, out)
                    run(op, x, axis, x)
                    ref.check_equal(x.bits(), out.bits(), f"{op} of {d} {shape} in place")

    def test_far_from_zero(self):
        """Rows whose values are far from 0 and from one another."""
        for d in FLOATS64:
            for n in (4, 5000):
                v = np.full((2, n), -10000 if d is F16 else -1e30)
                v[0, 1], v[1, :] = 11, 60000 if d is F16 else 1e30
                x, out = Tensor.of(d, d.round(v)), Tensor.empty(d, v.shape)
                run("aclnnSoftmax", x, -1, out)
                expected = np.zeros(v.shape)
                expected[0, 1], expected[1, :] = 1, 1 / n
                ref.check(out.get(), expected.astype(LD), d, what=f"softmax of {d}")

    def test_special_values(self):
        """As in PyTorch: a row of NaN results from a NaN, from an inf, and from a row of -inf; other -inf give 0."""
        for d in FLOATS64:
            for n in (4, 37, 5000):
                v = np.zeros((4, n))
                v[0, 2], v[1, :], v[2, 1], v[3, 1:] = np.nan, -np.inf, np.inf, -np.inf
                x, out = Tensor.of(d, v.astype(d.values)), Tensor.empty(d, v.shape)
                run("aclnnSoftmax", x, 1, out)
                got = out.get()
                self.assertTrue(np.isnan(got[:3]).all(), got[:3])
                ref.check_equal(got[3], (np.arange(n) == 0).astype(d.values))
                run("aclnnLogSoftmax", x, 1, out)
                self.assertTrue(np.isnan(out.get()[:3]).all())
                ref.check_equal(out.get()[3], np.where(np.arange(n) == 0, 0, -np.inf).astype(d.values))
                for op in ("aclnnSoftmax", "aclnnLogSoftmax"):       # as columns, alone and among others
                    run(op, x, 1, out)
                    for copies in (1, 9):
                        columns = Tensor.of(d, np.tile(v.T, copies).astype(d.values))
                        run(op, columns, 0, columns)
                        ref.check_equal(columns.get(), np.tile(out.get().T, copies), f"{op} of {d}, {n} x {4 * copies}")

    def test_small_results(self):
        """Denormal results are not flushed to 0."""
        v = np.arange(0, 104, dtype=np.float32) * -1
        x, out = Tensor.of(F32, v), Tensor.empty(F32, v.shape)
        run("aclnnSoftmax", x, 0, out)
        exact = softmax(v.astype(LD), 0)
        ref.check(out.get(), exact, F32, slack=110 * 2 * eps_of(F32) * exact)


class Backward(unittest.TestCase):
    def body(self, op):
        def body(gen):
            d = gen.pick(FLOATS64)
            shape, axis = rows_of(gen)
            x = gen.values(d, shape, limit=5).astype(LD)
            if x.ndim == 0:
                shape, x = (1,), x.reshape(1)
            if not x.size:
                return
            y = softmax(x, axis) if op == "aclnnSoftmaxBackward" else np.log(softmax(x, axis))
            output, grad = gen.tensor(d, shape, d.round(y)), draw_x(gen, d, shape)
            out = gen.out(d, shape)
            run(op, grad, output, axis - (len(shape) if gen.chance(0.4) else 0), out)
            g, y = grad.get().astype(LD), output.get().astype(LD)
            n, eps = shape[axis], eps_of(d)
            if op == "aclnnSoftmaxBackward":
                total, magnitude = (g * y).sum(axis, keepdims=True), np.abs(g * y).sum(axis, keepdims=True)
                factor = y
            else:
                total, magnitude, factor = g.sum(axis, keepdims=True), np.abs(g).sum(axis, keepdims=True), np.exp(y)
            exact = (g - total) * y if op == "aclnnSoftmaxBackward" else g - factor * total
            slack = (10 + np.log2(n)) * eps * magnitude * np.abs(factor)
            slack = slack + 4 * eps * (np.abs(g) + np.abs(total)) * np.abs(factor)
            ref.check(out.get(), exact, d, computed_in(d), slack=slack, what=f"{op} along {axis}")
            other = gen.out(d, shape)
            run(op, gen.again(grad), gen.again(output), axis, other)
            ref.check_equal(other.bits(), out.bits(), "bits in another layout")
        return body

    def test_softmax(self):
        each_case(self, "aclnnSoftmaxBackward", CASES, self.body("aclnnSoftmaxBackward"))

    def test_log_softmax(self):
        each_case(self, "aclnnLogSoftmaxBackward", CASES, self.body("aclnnLogSoftmaxBackward"))

    def test_by_differences(self):
        """The gradients are those of the forward operators, by central differences in double."""
        rng = np.random.default_rng(3)
        x, w, h = rng.standard_normal((4, 7)), rng.standard_normal((4, 7)), 1e-6
        for op in ("aclnnSoftmax", "aclnnLogSoftmax"):
            def value(v):
                out = Tensor.empty(F64, v.shape)
                run(op, Tensor.of(F64, v), 1, out)
                return out
            numeric = np.empty_like(x)
            for i in np.ndindex(x.shape):
                step = np.zeros_like(x)
                step[i] = h
                numeric[i] = ((value(x + step).get() - value(x - step).get()) * w).sum() / (2 * h)
            dx = Tensor.empty(F64, x.shape)
            run(op + "Backward", Tensor.of(F64, w), value(x), 1, dx)
            np.testing.assert_allclose(dx.get(), numeric, rtol=0, atol=1e-8)


class Masked(unittest.TestCase):
    def arguments(self, gen):
        shape = gen.pick(((2, 3, 4, 5), (1, 2, 33, 40), (2, 1, 3, 1500), (1, 1, 2, 5000), (3, 2, 40, 3)))
        triangle = gen.chance(0.3)
        m = tuple(1 if gen.chance(0.3) else n for n in shape)
        mask = None if triangle and gen.chance(0.5) else gen.tensor(BOOL, m)
        set_ = np.triu(np.ones(shape[2:], bool), 1) if triangle else mask.get()
        return shape, triangle, mask, np.broadcast_to(set_, shape), gen.pick((1.0, 0.125, -2.0))

    def test_forward(self):
        def body(gen):
            d = gen.pick(FLOATS)
            shape, triangle, mask, is_set, scale = self.arguments(gen)
            x, out = draw_x(gen, d, shape), gen.out(d, shape)
            run("aclnnScaledMaskedSoftmax", x, mask, scale, triangle, out)
            v = np.where(is_set, LD(-10000), x.get().astype(LD) * scale)
            exact = softmax(v, 3)
            below = np.minimum(v.max(3, keepdims=True) - v, 200)
            ref.check(out.get(), exact, d, F32, slack=3 * (4 + below + np.log2(shape[3])) * eps_of(d) * exact)
        each_case(self, "aclnnScaledMaskedSoftmax", 80, body)

    def test_backward(self):
        def body(gen):
            d = gen.pick(FLOATS)
            shape, triangle, mask, is_set, scale = self.arguments(gen)
            output = gen.tensor(d, shape, d.round(softmax(gen.values(d, shape, limit=5).astype(LD), 3)))
            grad, out = draw_x(gen, d, shape), gen.out(d, shape)
            run("aclnnScaledMaskedSoftmaxBackward", grad, output, mask, scale, triangle, out)
            g, y = grad.get().astype(LD), output.get().astype(LD)
            total, magnitude = (g * y).sum(3, keepdims=True), np.abs(g * y).sum(3, keepdims=True)
            exact = np.where(is_set, 0, (g - total) * y * scale)
            slack = (14 + np.log2(shape[3])) * eps_of(d) * (magnitude + np.abs(g)) * np.abs(y) * abs(scale)
            ref.check(out.get(), exact, d, F32, slack=slack)
        each_case(self, "aclnnScaledMaskedSoftmaxBackward", 80, body)


class Errors(unittest.TestCase):
    def check(self, code, words, op, *args):
        got, message = refused(op, *args)
        self.assertEqual(got, code, message)
        for word in words:
            self.assertIn(word, message)

    def test_refused(self):
        x, y, i = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (2, 3)), Tensor.empty(I32, (2, 3))
        other = Tensor.empty(F32, (3, 2))
        for op in ("aclnnSoftmax", "aclnnLogSoftmax"):
            self.check(INVALID, ("self", "INT32"), op, i, 1, y)
            self.check(INVALID, ("out", "INT32"), op, x, 1, i)
            self.check(INVALID, ("out", "[3, 2]", "[2, 3]"), op, x, 1, other)
            self.check(INVALID, ("dim", "2"), op, x, 2, y)
            self.check(NULLPTR, ("self",), op, None, 1, y)
            self.check(INVALID, ("output", "[3, 2]"), op + "Backward", x, other, 1, y)
            self.check(INVALID, ("dim", "-3"), op + "Backward", x, y, -3, y)
        q, m = Tensor.empty(F32, (1, 2, 3, 4)), Tensor.empty(BOOL, (2, 2, 3, 4))
        op = "aclnnScaledMaskedSoftmax"
        self.check(NULLPTR, ("mask",), op, q, None, 1.0, False, q)
        self.check(INVALID, ("mask", "[2, 2, 3, 4]"), op, q, m, 1.0, False, q)
        self.check(INVALID, ("mask", "FLOAT"), op, q, q, 1.0, False, q)
        self.check(INVALID, ("x", "2 dimensions"), op, x, m, 1.0, False, x)
        self.check(INVALID, ("x", "DOUBLE"), op, Tensor.empty(F64, (1, 2, 3, 4)), m, 1.0, False, q)


if __name__ == "__main__":
    unittest.main()
