# SPDX-License-Identifier: Apache-2.0
"""Matrix products against long double, within 2 K eps (|A| @ |B|) and the rounding of the output."""
import os
import subprocess
import sys
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Blocked, Ints, Scalar, Tensor, refused, run
from dtypes import BF16, F16, F32, F64, I64, LD
from gen import each_case

CASES = 150
LARGER = ((6, 300, 700), (8, 1100, 520), (16, 1030, 1024), (25, 520, 2058), (50, 1500, 516), (90, 515, 512),
          (260, 1040, 70))
EPS = LD(2) ** -24                       # unit roundoff of float32, in which every product is accumulated
TYPES = ((F32, F32, F32), (F16, F16, F16), (BF16, BF16, BF16), (F32, F16, F32), (F32, BF16, F32), (F16, F16, F32))


def size(gen):
    """Empty, one, small, past a vector, past a cache tile."""
    return gen.pick((0, 1, 1, 2, 3, 5, 8, 13, 17, 33, 64, 70))


def matrix(gen, dtype, shape):
    """Numbers around 1, in any layout: products see transposed, gapped and expanded operands."""
    return gen.drawn(dtype, shape, lambda s: dtype.round(gen.rng.standard_normal(s)))


def product(a, b):
    """(a @ b, bound on its error in float32) in double, whose own error is far below the bound."""
    x, y = a.get().astype(np.float64), b.get().astype(np.float64)
    return np.matmul(x, y).astype(LD), 2 * x.shape[-1] * EPS * np.matmul(np.abs(x), np.abs(y)).astype(LD)


class Implementations(unittest.TestCase):
    @unittest.skipIf("TEST_EMULATOR" in os.environ, "takes a minute under an emulator")
    def test_forced(self):
        """A few of the cases below, and of quantised products, by each implementation that CANNON_IMPL can force,
        wherever it fits."""
        tests = ["test_matmul.Products.test_all", "test_matmul.Addmm", "test_quant_matmul"]
        for name in ("small_m", "groups", "vector", "reference"):
            with self.subTest(name):
                done = subprocess.run([sys.executable, "-m", "unittest", *tests], capture_output=True, text=True,
                                      env={**os.environ, "CANNON_IMPL": "gemm=" + name, "CANNON_CASES": "0.1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("CANNON_IMPL", done.stderr)


class Products(unittest.TestCase):
    def test_all(self):
        for op, shapes in (("aclnnMm", self.mm_shapes), ("aclnnBatchMatMul", self.batch_shapes),
                           ("aclnnMatmul", self.matmul_shapes)):
            each_case(self, op, CASES, lambda gen, o=op, s=shapes: self.case(gen, o, *s(gen)))

    def mm_shapes(self, gen):
        m, k, n = (size(gen) for _ in range(3))
        return (m, k), (k, n)

    def batch_shapes(self, gen):
        (m, k), (_, n) = self.mm_shapes(gen)
        batch = gen.integer(0, 5)
        return (batch, m, k), (batch, k, n)

    def matmul_shapes(self, gen):
        """Vectors, matrices and stacks with broadcast batch axes, as numpy.matmul and PyTorch know them."""
        (m, k), (_, n) = self.mm_shapes(gen)
        a, b = gen.pick((((k,), (k,)), ((k,), (k, n)), ((m, k), (k,)), ((m, k), (k, n)), ((m, k), (k, n))))
        if gen.chance(0.6):
            batch = gen.shape(max_rank=3, numel=12)
            first, second = gen.broadcast_pair(batch)
            a = first + a if len(a) == 2 else a
            b = second + b if len(b) == 2 else b
        return a, b

    def case(self, gen, op, shape_a, shape_b):
        ta, tb, to = gen.pick(TYPES)
        a, b = matrix(gen, ta, shape_a), matrix(gen, tb, shape_b)
        exact, slack = product(a, b)
        out = gen.out(to, exact.shape)
        run(op, a, b, out, gen.integer(0, 2))
        ref.check(out.get(), exact, to, F32, ulps=1, slack=slack, what=f"{ta} x {tb} to {to}")

    def test_larger(self):
        """Shapes past a block in each direction: B in place and packed, rows of B that share cache sets, a transposed
        B, and as few rows as one block has."""
        def body(gen):
            (m, k, n), (ta, tb, to) = gen.pick(LARGER), gen.pick(TYPES)
            a, b = (gen.out(t, s, t.round(gen.rng.standard_normal(s))) for t, s in ((ta, (m, k)), (tb, (k, n))))
            if gen.chance(0.5):
                b.strides = (1, k)
            exact, slack = product(a, b)
            out = gen.out(to, exact.shape)
            run("aclnnMm", a, b, out, 0)
            ref.check(out.get(), exact, to, F32, ulps=1, slack=slack, what=f"{m} x {k} x {n} {ta} x {tb} to {to}")
        each_case(self, "larger products", 12, body)

    def test_expanded_batch(self):
        """A weight shared by a batch through stride 0, and a transposed view as frameworks pass it."""
        def body(gen):
            a = matrix(gen, F32, (4, 3, 40))
            b = gen.out(F32, (20, 40), np.float32(gen.rng.standard_normal((20, 40))))
            b.shape, b.strides = (40, 20), b.strides[::-1]
            b.shape, b.strides = (4, 40, 20), (0,) + b.strides
            exact, slack = product(a, b)
            for op in ("aclnnMatmul", "aclnnBatchMatMul"):
                out = gen.out(F32, exact.shape)
                run(op, a, b, out, 0)
                ref.check(out.get(), exact, F32, F32, ulps=1, slack=slack, what=op)
        each_case(self, "expanded weight", 10, body)

    def test_special_values(self):
        """0 * inf and NaN are not optimised away."""
        def body(gen):
            a, b = (gen.out(F32, s, np.float32(gen.rng.standard_normal(s))) for s in ((3, 4), (4, 5)))
            a.set(np.where(np.eye(3, 4) > 0, np.float32(0), a.get()))
            b.set(np.where(np.eye(4, 5) > 0, np.float32(gen.pick((np.inf, np.nan))), b.get()))
            out = gen.out(F32, (3, 5))
            run("aclnnMm", a, b, out, 0)
            expected = np.matmul(a.get().astype(np.float64), b.get().astype(np.float64))
            ref.check_equal(np.isnan(out.get()), np.isnan(expected))
            ref.check_equal(np.isinf(out.get()), np.isinf(expected))
        each_case(self, "products of inf and NaN", 10, body)


class WeightNz(unittest.TestCase):
    """Products whose second factor really lies in FRACTAL_NZ, or in the plain format."""

    def factors(self, gen, batch=()):
        d = gen.pick((F32, F16, BF16))
        m, k, n = (gen.pick((1, 2, 5, 16, 17, 33, 70)) for _ in "mkn")
        a, b = matrix(gen, d, (*batch, m, k)), matrix(gen, d, (*batch, k, n))
        return d, a, b, gen.keep(Blocked(b, gen.chance(0.5))) if gen.chance(0.8) else b

    def test_products(self):
        def body(gen):
            batch = (gen.integer(1, 4),) if gen.chance(0.5) else ()
            d, a, b, weight = self.factors(gen, batch)
            exact, slack = product(a, b)
            out = gen.out(d, exact.shape)
            run("aclnnBatchMatMulWeightNz" if batch else "aclnnMatmulWeightNz", a, weight, out, gen.integer(0, 2))
            ref.check(out.get(), exact, d, F32, ulps=1, slack=slack)
        each_case(self, "products with weights in FRACTAL_NZ", CASES // 2, body)

    def test_parts_of_a_batch(self):
        """One or some matrices of a larger storage, as torch_npu passes the last step of a GRU's output."""
        def body(gen):
            d, batch = gen.pick((F32, F16, BF16)), gen.integer(2, 5)
            m, k, n = (gen.pick((1, 2, 5, 16, 17, 33)) for _ in "mkn")
            begin, end = sorted(int(v) for v in gen.rng.permutation(batch + 1)[:2])
            at = begin if gen.chance(0.5) else slice(begin, end)
            stored = matrix(gen, d, (batch, k, n))
            b = gen.tensor(d, stored.get()[at].shape, stored.get()[at])
            a = matrix(gen, d, (*b.shape[:-2], m, k))
            exact, slack = product(a, b)
            out = gen.out(d, exact.shape)
            weight = gen.keep(Blocked(stored, gen.chance(0.5)))[at]
            run("aclnnMatmulWeightNz" if b.shape == (k, n) else "aclnnBatchMatMulWeightNz", a, weight, out, 0)
            ref.check(out.get(), exact, d, F32, ulps=1, slack=slack)
        each_case(self, "parts of a batch in FRACTAL_NZ", CASES // 3, body)
        whole = Blocked(Tensor.of(F32, np.ones((3, 20, 20))))
        part = whole[1]
        part.shape, part.offset = (10, 20), 600                 # half of a matrix
        code, message = refused("aclnnMatmulWeightNz", Tensor.empty(F32, (2, 10)), part, Tensor.empty(F32, (2, 20)), 0)
        self.assertEqual((code, "expected whole matrices" in message), (INVALID, True), message)

    def test_addmm(self):
        def body(gen):
            d, a, b, weight = self.factors(gen)
            exact, slack = product(a, b)
            alpha, beta = gen.pick((1.0, 0.5)), gen.pick((1.0, 2.0, 0.0))
            x = matrix(gen, d, gen.pick((exact.shape, exact.shape[1:], (1, exact.shape[1]), (exact.shape[0], 1))))
            out = gen.out(d, exact.shape)
            run("aclnnAddmmWeightNz", x, a, weight, Scalar(beta, F32), Scalar(alpha, F32), out, 0)
            add = beta * x.get().astype(LD)
            ref.check(out.get(), alpha * exact + add, d, F32, ulps=1, slack=slack + 4 * EPS * np.abs(add))
        each_case(self, "aclnnAddmmWeightNz", CASES // 3, body)

    def test_transposed_batch(self):
        def body(gen):
            blocked, batch = gen.chance(0.5), gen.pick((1, 2, 4, 6))
            d, a, b, weight = self.factors(gen, (batch,))
            first, second, groups = gen.chance(0.5), gen.chance(0.5), gen.pick([g for g in (1, 2, 3) if batch % g == 0])
            exact, slack = product(a, b)
            swap = lambda t, *axes: gen.tensor(d, t.get().swapaxes(*axes).shape, t.get().swapaxes(*axes))
            x1 = swap(a, 0, 1) if first else a
            x2 = b if not blocked and not second else swap(b, 1, 2) if second else b
            if blocked:
                x2 = gen.keep(Blocked(x2, gen.chance(0.5)))
            arrange = lambda x: x.reshape(groups, batch // groups, *x.shape[1:]).transpose(0, 2, 1, 3).reshape(
                groups, x.shape[1], -1) if groups > 1 else x.swapaxes(0, 1)
            out = gen.out(d, arrange(exact).shape)
            run("aclnnTransposeBatchMatMul" + ("WeightNz" if blocked else ""), x1, x2, None, None,
                Ints(*(1, 0, 2) if first else (0, 1, 2)), Ints(*(0, 2, 1) if second else (0, 1, 2)), Ints(1, 0, 2), 0,
                groups, out)
            ref.check(out.get(), arrange(exact), d, F32, ulps=1, slack=arrange(slack))
        each_case(self, "aclnnTransposeBatchMatMul", CASES // 2, body)

    def test_refused(self):
        t = lambda *s: Tensor.empty(F32, s)
        x1, x2, out = t(4, 2, 3), t(4, 3, 5), t(2, 4, 5)
        orders = Ints(0, 1, 2), Ints(0, 1, 2), Ints(1, 0, 2)
        for words, args in (
                ("bias is a tensor", (x1, x2, t(5), None, *orders, 0, 1, out)),
                ("scale is a tensor", (x1, x2, None, t(20), *orders, 0, 1, out)),
                ("permX1 is [2, 1, 0]", (x1, x2, None, None, Ints(2, 1, 0), *orders[1:], 0, 1, out)),
                ("permX2 has 2", (x1, x2, None, None, orders[0], Ints(0, 1), orders[2], 0, 1, out)),
                ("permY is [0, 1, 2], expected [1, 0, 2]", (x1, x2, None, None, *orders[:2], orders[0], 0, 1, out)),
                ("batchSplitFactor is 3", (x1, x2, None, None, *orders, 0, 3, out)),
                ("out has shape [2, 4, 5], expected [2, 2, 10]", (x1, x2, None, None, *orders, 0, 2, out)),
                ("x2 has shape [4, 2, 5]", (x1, t(4, 2, 5), None, None, *orders, 0, 1, out)),
                ("x1 has shape [2, 3]", (t(2, 3), x2, None, None, *orders, 0, 1, out))):
            code, message = refused("aclnnTransposeBatchMatMul", *args)
            self.assertEqual((code, words in message), (INVALID, True), message)
        code, message = refused("aclnnMatmulWeightNz", t(2, 3), t(3, 5, 1), t(2, 5), 0)
        self.assertEqual((code, "mat2 has shape [3, 5, 1]" in message), (INVALID, True), message)


class Addmm(unittest.TestCase):
    def test_all(self):
        for op in ("aclnnAddmm", "aclnnInplaceAddmm"):
            each_case(self, op, CASES, lambda gen, o=op: self.case(gen, o))

    def case(self, gen, op):
        t = gen.pick((F32, F16, BF16))
        m, k, n = (size(gen) for _ in range(3))
        a, b = matrix(gen, t, (m, k)), matrix(gen, t, (k, n))
        inplace = "Inplace" in op
        bias = gen.out(t, (m, n), t.round(gen.rng.standard_normal((m, n)))) if inplace else \
            matrix(gen, t, gen.pick(((m, n), (n,), (1, n), (m, 1), (1,), ())))
        beta, alpha = (Scalar(gen.pick((0, 1, 1, 2, -1)) if s is I64 else gen.pick((0, 1, 0.5, -1.25)), s)
                       for s in (gen.pick((F32, F64, I64)) for _ in range(2)))
        if beta.value == 0 and gen.chance(0.5):
            bias.set(np.full_like(bias.get(), np.nan))             # beta 0: self does not count, not even its NaNs
        ab, slack = product(a, b)
        added = LD(beta.value) * bias.get().astype(LD) if beta.value else LD(0)
        exact = np.broadcast_to(added, (m, n)) + LD(alpha.value) * ab
        slack = slack * abs(alpha.value) + 4 * EPS * (np.abs(added) + np.abs(alpha.value * ab))
        out = bias if inplace else gen.out(t, (m, n))
        run(op, bias, a, b, beta, alpha, *([] if inplace else [out]), gen.integer(0, 2))
        ref.check(out.get(), exact, t, F32, ulps=1, slack=slack, what=f"beta {beta} alpha {alpha}")


if __name__ == "__main__":
    unittest.main()
