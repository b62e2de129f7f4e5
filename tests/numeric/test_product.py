# SPDX-License-Identifier: Apache-2.0
"""The GEMM family except Mm: products added to a matrix, GEMV, outer products, quantised weights, linear equations."""
import ctypes as ct
import unittest

import numpy as np

import reference as ref
from acl import Blocked, INVALID, NULLPTR, Ints, Scalar, Tensor, lib, refused, run
from dtypes import BF16, BOOL, C64, C128, CLD, COMPLEX, F16, F32, F64, FLOATS, I8, I16, I32, I64, LD, U8, promote
from gen import each_case

EPS = LD(2) ** -24
INT4_CODE = 29


def size(gen, most=70):
    return gen.pick([n for n in (0, 1, 1, 2, 3, 5, 8, 9, 15, 17, 33, 64, 70, 129) if n <= most])


def matrix(gen, dtype, shape):
    if dtype in COMPLEX:
        return gen.drawn(dtype, shape, lambda s: gen.values(dtype, s, limit=10))
    return gen.drawn(dtype, shape, lambda s: dtype.round(gen.rng.standard_normal(s)))


def wide(t):
    return t.get().astype(np.complex128 if t.dtype in COMPLEX else np.float64)


def product(x, y):
    """x @ y, and a bound of its error if it is computed in float32. Both are computed from doubles."""
    return np.matmul(x, y).astype(LD), 2 * x.shape[-1] * EPS * np.matmul(np.abs(x), np.abs(y)).astype(LD)


def scalars(gen, *kinds):
    return [Scalar(gen.pick((0, 1, 1, 2, -1)) if s is I64 else gen.pick((0, 1, 0.5, -1.25)), s)
            for s in (gen.pick((F32, F64, I64)) for _ in range(2))]


class Sums(unittest.TestCase):
    """Operators that compute beta * self + alpha * product."""

    def check(self, gen, op, t, bias, factors, exact, slack, order, inplace):
        beta, alpha = scalars(gen)
        if op == "aclnnAddmv" and bias.shape == (1,) and exact.shape != (1,):
            alpha = Scalar(0.5, F32)                    # with this shape, alpha = 0 is refused
        if beta.value == 0 and gen.chance(0.5):
            bias.set(np.full_like(bias.get(), np.nan))
        added = LD(beta.value) * bias.get().astype(LD) if beta.value else LD(0)
        total = np.broadcast_to(added, exact.shape) + LD(alpha.value) * exact
        slack = slack * abs(alpha.value) + 4 * EPS * (np.abs(added) + np.abs(alpha.value * exact))
        out = bias if inplace else gen.out(t, exact.shape)
        factor_order = (beta, alpha) if order == "ba" else (alpha, beta)
        run(op, bias, *factors, *factor_order, *([] if inplace else [out]), gen.integer(0, 4))
        ref.check(out.get(), total, t, F32, ulps=1, slack=slack, what=f"{op} beta {beta} alpha {alpha}")

    def bias(self, gen, t, shape, inplace):
        if inplace:
            return gen.out(t, shape, t.round(gen.rng.standard_normal(shape)))
        return matrix(gen, t, gen.shrunk(shape) if 0 not in shape else shape)

    def test_stacks(self):
        for op in ("aclnnBaddbmm", "aclnnInplaceBaddbmm", "aclnnAddbmm", "aclnnInplaceAddbmm"):
            each_case(self, op, 60, lambda gen, o=op: self.stack(gen, o))

    def stack(self, gen, op):
        t, inplace = gen.pick(FLOATS), "Inplace" in op
        batch, (m, k, n) = gen.integer(0, 4), (size(gen) for _ in range(3))
        batches = [batch, batch]
        if op != "aclnnInplaceBaddbmm" and gen.chance(0.3):
            batches[1 if op == "aclnnBaddbmm" else gen.integer(0, 1)] = 1
        a, b = (matrix(gen, t, s) for s in ((batches[0], m, k), (batches[1], k, n)))
        exact, slack = product(wide(a), wide(b))
        if "Addbmm" in op:
            magnitude = np.matmul(np.abs(wide(a)), np.abs(wide(b))).sum(0).astype(LD)
            exact, slack = exact.sum(0), 2 * batch * k * EPS * magnitude
        self.check(gen, op, t, self.bias(gen, t, exact.shape, inplace), (a, b), exact, slack, "ba", inplace)

    def test_addmv(self):
        def body(gen):
            t = gen.pick(FLOATS)
            m, k = size(gen, 129), size(gen, 129)
            a, v = matrix(gen, t, (m, k)), matrix(gen, t, (k,))
            exact, slack = product(wide(a), wide(v))
            self.check(gen, "aclnnAddmv", t, self.bias(gen, t, (m,), False), (a, v), exact, slack, "ab", False)
        each_case(self, "aclnnAddmv", 60, body)

    def test_addmv_of_integers(self):
        def body(gen):
            types = gen.pick((
                (I32, I32, I32), (I64, I64, I64), (I8, U8, I16), (I8, I8, I8), (I32, I8, I8), (BOOL, I32, BOOL),
                (I64, BOOL, BOOL), (BOOL, BOOL, BOOL), (F32, I32, I8), (F64, I64, BOOL)))
            m, k = (gen.pick((0, 1, 7, 129, 1500)) if gen.chance(0.3) else size(gen, 40) for _ in "mk")
            alpha, beta = (Scalar(gen.pick((-5, 0, 1, 1, 3)), gen.pick((I64, I32, F32))) for _ in "ab")
            self_shape = (m,) if alpha.value == 0 else gen.pick(((m,), (1,)))

            def drawn(t, shape):
                return gen.drawn(t, shape, lambda s: gen.values(t, s, limit=1e6) if t.kind == "f" else gen.values(t, s))

            s, a, v = (drawn(t, shape) for t, shape in zip(types, (self_shape, (m, k), (k,))))
            product = promote(types[1], types[2])
            scaled = product if alpha.value == 1 else promote(product, alpha.dtype)
            added = types[0] if beta.value == 1 else promote(types[0], beta.dtype)
            common = promote(scaled, added)
            out_types = (common, F64) if common.kind == "f" else (I64, F64, I32 if common is BOOL else common)
            out = gen.out(gen.pick(out_types), (m,))
            run("aclnnAddmv", s, a, v, alpha, beta, out, 0)
            dots = (a.get().astype(np.int64) @ v.get().astype(np.int64)).astype(product.values)
            if common.kind == "f":
                terms = [LD(x.value) * np.broadcast_to(t, (m,)).astype(LD) if x.value else np.zeros(m, LD)
                         for t, x in ((dots, alpha), (s.get(), beta))]
                ref.check(out.get(), sum(terms), out.dtype, F64, ulps=2, slack=sum(map(np.abs, terms)) * LD(2) ** -50)
                return
            terms = [x.value * np.broadcast_to(t, (m,)).astype(np.int64) for t, x in ((dots, alpha), (s.get(), beta))]
            ref.check_equal(out.get(), sum(terms).astype(common.values).astype(out.dtype.values))
        each_case(self, "aclnnAddmv of integers", 100, body)

    def test_addmv_of_both(self):
        """Integer operands beside float operands are converted to float."""
        def body(gen):
            types = gen.pick((
                (F32, F32, I32), (I8, F16, F32), (I64, BF16, F16), (F32, U8, F64), (F64, F32, F32), (BOOL, F32, BOOL)))
            m, k = size(gen, 129), size(gen, 129)
            draw = lambda t, shape: gen.drawn(t, shape, lambda s: gen.values(t, s, limit=10))
            s, a, v = (draw(t, shape) for t, shape in zip(types, ((m,), (m, k), (k,))))
            alpha, beta = scalars(gen)
            exact, slack = product(wide(a), wide(v))
            added = LD(beta.value) * s.get().astype(LD) if beta.value else np.zeros(m, LD)
            out = gen.out(gen.pick((F32, F64)), (m,))
            run("aclnnAddmv", s, a, v, alpha, beta, out, 0)
            ref.check(out.get(), added + LD(alpha.value) * exact, out.dtype, F32, ulps=1,
                      slack=slack * abs(alpha.value) + 4 * EPS * (np.abs(added) + np.abs(alpha.value * exact)))
        each_case(self, "aclnnAddmv of both", 60, body)

    def test_a_double_beside_floats_stays_one(self):
        s, a, v = Tensor.of(F64, [1 + 2.0 ** -40]), Tensor.of(F32, [[1.0]]), Tensor.of(F32, [1.0])
        out = Tensor.empty(F64, (1,))
        run("aclnnAddmv", s, a, v, Scalar(1, F32), Scalar(1, F32), out, 0)
        self.assertEqual(out.get()[0], 2 + 2.0 ** -40)

    def test_times_nothing(self):
        """alpha = 0 ignores the product, NaN in it too, except in Baddbmm and Gemm."""
        one, nothing, nan = Scalar(1, F32), Scalar(0, F32), np.full((2, 2, 2), np.nan)
        b, c = Tensor.of(F32, [[1, 2], [3, 4]]), Tensor.of(F32, [1, 2])
        stack, out = Tensor.of(F32, np.stack([b.get()] * 2)), Tensor.empty(F32, (2, 2))
        for op, *args in (("aclnnAddmm", b, Tensor.of(F32, nan[0]), b, one, nothing),
                          ("aclnnAddbmm", b, stack, Tensor.of(F32, nan), one, nothing)):
            run(op, *args, out, 0)
            ref.check_equal(out.get(), b.get())
        few, whole = Tensor.empty(F32, (2,)), Tensor.empty(F32, (2, 2, 2))
        run("aclnnAddmv", c, Tensor.of(F32, nan[0]), c, nothing, one, few, 0)
        ref.check_equal(few.get(), c.get())
        integers = Tensor.of(I32, [[1, 2], [3, 4]]), Tensor.of(I32, [1, 1])
        run("aclnnAddmv", Tensor.of(F32, nan[0, 0]), *integers, one, nothing, few, 0)
        ref.check_equal(few.get(), [3, 7])                  # and beta = 0 ignores NaN in self
        run("aclnnBaddbmm", b, Tensor.of(F32, nan), stack, one, nothing, whole, 0)
        assert np.isnan(whole.get()).all()
        run("aclnnGemm", b, Tensor.of(F32, nan[0]), b, 0.0, 1.0, 0, 0, out, 0)
        assert np.isnan(out.get()).all()

    def test_stack_refused(self):
        one, three, wide_ = (Tensor.empty(F32, s) for s in ((1, 2, 2), (3, 2, 2), (2, 2)))
        x, none, many = Scalar(1, F32), Tensor.empty(F32, (0, 2, 2)), Tensor.empty(F32, (1,) * 7)
        for op, args, message in (
                ("aclnnBaddbmm", (three, one, three, x, x, three, 0),
                 "the same first dimension, or 1 in the second"),
                ("aclnnInplaceBaddbmm", (three, three, one, x, x, 0),
                 "the same first dimension"),
                ("aclnnAddbmm", (wide_, Tensor.empty(F32, (2, 2, 2)), three, x, x, wide_, 0),
                 "first dimensions that broadcast"),
                ("aclnnBaddbmm", (one, none, none, x, x, none, 0),
                 "self has shape [1, 2, 2], expected elements where the product, [0, 2, 2]"),
                ("aclnnMm", (wide_, wide_, wide_, 5),
                 "cubeMathType is 5, expected 0 to 4"),
                ("aclnnMatmul", (many, wide_, many, 0),
                 "self has 7 dimensions, expected 1 to 6")):
            code, text = refused(op, *args)
            assert code == INVALID and message in text, (op, text)

    def test_dot_of_integers(self):
        def body(gen):
            t, n = gen.pick((I8, U8, I32)), gen.pick((0, 1, 7, 1024, 3000))
            a, b, out = gen.tensor(t, (n,)), gen.tensor(t, (n,)), gen.out(t, ())
            run("aclnnDot", a, b, out)
            ref.check_equal(out.get(), (a.get().astype(np.int64) @ b.get().astype(np.int64)).astype(t.values))
        each_case(self, "aclnnDot of integers", 40, body)
        x = Tensor.empty(I32, (3,))
        code, text = refused("aclnnDot", x, x, Tensor.empty(I64, ()))
        assert code == INVALID and "out has dtype INT64, expected one of INT32" in text, text
        f, h = Tensor.empty(F32, (3,)), Tensor.empty(F16, (3,))
        for op, args in (
                ("aclnnDot", (f, h, Tensor.empty(F32, ()))),
                ("aclnnMv", (Tensor.empty(F32, (3, 3)), f, h, 0))):
            code, text = refused(op, *args)
            assert code == INVALID and "expected self's FLOAT" in text, text
        square = Tensor.empty(I32, (3, 3))
        code, text = refused("aclnnAddmv", x, square, x, Scalar(0.5, F32), Scalar(1, I32), x, 0)
        message = "out has dtype INT32, expected one that FLOAT, which is computed in, can be cast to"
        assert code == INVALID and message in text, text
        code, text = refused("aclnnAddmv", Tensor.empty(I32, (1,)), square, x, Scalar(0, I32), Scalar(1, I32), x, 0)
        assert code == INVALID and "self has shape [1], expected [3], out's, as alpha is 0" in text, text

    def test_gemm(self):
        def body(gen):
            t = gen.pick(FLOATS)
            m, k, n = (size(gen) for _ in range(3))
            ta, tb = gen.pick((0, 1)), gen.pick((0, 1, 7))
            a, b = matrix(gen, t, (k, m) if ta else (m, k)), matrix(gen, t, (n, k) if tb else (k, n))
            x, y = wide(a).T if ta else wide(a), wide(b).T if tb else wide(b)
            exact, slack = product(x, y)
            c = self.bias(gen, t, (m, n), False)
            alpha, beta = gen.pick((0.0, 1.0, 0.5)), gen.pick((0.0, 1.0, -2.0))
            out = gen.out(t, (m, n))
            run("aclnnGemm", a, b, c, alpha, beta, ta, tb, out, 0)
            added = np.broadcast_to(LD(beta) * c.get().astype(LD), (m, n))
            ref.check(out.get(), added + LD(alpha) * exact, t, F32, ulps=1,
                      slack=slack * abs(alpha) + 4 * EPS * (np.abs(added) + np.abs(alpha * exact)))
        each_case(self, "aclnnGemm", 60, body)

    def test_deep_and_wide(self):
        """Sizes beyond one block in each direction, for every implementation: packed, split float16, small m."""
        def body(gen):
            t = gen.pick(FLOATS)
            m, k, n = gen.pick((
                (300, 1100, 130), (300, 1024, 90), (40, 2100, 70), (1, 1500, 300), (7, 900, 600), (600, 64, 1100),
                (260, 170, 9), (6, 4200, 50), (130, 256, 528), (140, 530, 1040), (90, 1030, 999)))
            a, b = matrix(gen, t, (m, k)), matrix(gen, t, (k, n))
            exact, slack = product(wide(a), wide(b))
            out = gen.out(gen.pick((t, F32)), (m, n))
            run("aclnnMm", a, b, out, 0)
            ref.check(out.get(), exact, out.dtype, F32, ulps=1, slack=slack, what=f"{t} {m} x {k} x {n}")
        each_case(self, "deep and wide", 24, body)

    def test_half_infinities(self):
        """float16 split into two bfloat16 gives the same infinities and NaN."""
        def body(gen):
            a, b = (gen.out(F16, s, F16.round(gen.rng.standard_normal(s))) for s in ((20, 200), (200, 24)))
            for t, odd in ((a, gen.pick((np.inf, -np.inf, np.nan))), (b, gen.pick((np.inf, 1.0)))):
                values = t.get()
                values[gen.integer(0, 19), gen.integer(0, 23)] = odd
                t.set(values)
            out = gen.out(F32, (20, 24))
            run("aclnnMm", a, b, out, 0)
            with np.errstate(all="ignore"):
                exact = np.matmul(wide(a), wide(b))
            ref.check_equal(np.isnan(out.get()), np.isnan(exact))
            ref.check_equal(np.where(np.isinf(exact), out.get(), 0), np.where(np.isinf(exact), exact, 0))
        each_case(self, "infinities in float16", 10, body)

    def test_floats_that_do_not_split(self):
        """GEMMs that may split floats into three bfloat16 terms. One of several blocks has
        values without such a split."""
        def body(gen):
            m, k, n = gen.pick(((300, 700, 90), (70, 64, 140), (33, 1300, 64)))
            a, b = (gen.out(F32, s, F32.round(gen.rng.standard_normal(s))) for s in ((m, k), (k, n)))
            odd = gen.pick((np.inf, -np.inf, np.nan, 3e38, 1e-38, 1e-45, -2e-31))
            for t in gen.pick(((a,), (b,), (a, b))):
                values = t.get()
                if gen.chance(0.3) and np.isfinite(odd) and odd < 1:
                    values *= np.float32(odd)
                values[gen.integer(0, values.shape[0] - 1), gen.integer(0, values.shape[1] - 1)] = odd
                t.set(values)
            self_ = gen.out(F32, (m, n), F32.round(gen.rng.standard_normal((m, n))))
            out, in_c = gen.out(F32, (m, n)), gen.chance(0.5)
            if in_c:
                run("aclnnAddmm", self_, a, b, Scalar(1, F32), Scalar(1, F32), out, 0)
            else:
                run("aclnnMm", a, b, out, 0)
            with np.errstate(all="ignore"):
                exact, slack = product(wide(a), wide(b))
                if in_c:
                    exact, slack = exact + wide(self_), slack + 4 * EPS * (np.abs(wide(self_)) + np.abs(exact))
                slack = slack + k * LD(2) ** -149           # for denormal sums
                size = np.abs(wide(a)) @ np.abs(wide(b))
            # Above this size, intermediate sums may overflow, and then give infinities or NaN.
            got, calm = out.get(), size < 1e38
            calm_slack = np.where(calm, slack, 0)
            ref.check(np.where(calm, got, 0), np.where(calm, exact, 0), F32, F32, ulps=1, slack=calm_slack)
            odd = ~np.isfinite(size)                        # with infinities or NaN among the operands
            ref.check_equal(np.isnan(got) & (odd | calm), np.isnan(exact))
            ref.check_equal(np.where(odd & np.isinf(exact), got, 0), np.where(np.isinf(exact), exact, 0))
        each_case(self, "floats that do not split", 40, body)

    def test_double(self):
        def body(gen):
            m, k, n = (size(gen) for _ in range(3))
            a, b = matrix(gen, F64, (m, k)), matrix(gen, gen.pick((F64, F32)), (k, n))
            out = gen.out(F64, (m, n))
            run("aclnnMm", a, b, out, 0)
            x, y = a.get().astype(LD), b.get().astype(LD)
            ref.check(out.get(), x @ y, F64, F64, ulps=1, slack=2 * k * LD(2) ** -53 * (np.abs(x) @ np.abs(y)))
        each_case(self, "double", 20, body)


class Vectors(unittest.TestCase):
    def test_mv_and_dot(self):
        def body(gen, op):
            t = gen.pick(FLOATS)
            m, k = size(gen, 129), gen.pick((0, 1, 7, 64, 500, 3000))
            a = matrix(gen, t, (m, k) if op == "aclnnMv" else (k,))
            v = matrix(gen, t, (k,))
            exact, slack = product(wide(a), wide(v))
            out = gen.out(t, exact.shape)
            run(op, a, v, out, *([1] if op == "aclnnMv" else []))
            ref.check(out.get(), exact, t, F32, ulps=1, slack=slack, what=op)
        for op in ("aclnnMv", "aclnnDot"):
            each_case(self, op, 60, lambda gen, o=op: body(gen, o))

    def test_ger(self):
        def body(gen):
            ta = gen.pick((F32, F16, BF16, F64, I8, I32, I64, U8, BOOL, *COMPLEX))
            tb = gen.pick((F32, I32, I16, F16, C64))
            a = gen.drawn(ta, (size(gen),), lambda s: gen.values(ta, s, limit=10))
            b = gen.drawn(tb, (size(gen),), lambda s: gen.values(tb, s, limit=10))
            if "c" in ta.kind + tb.kind:
                t = C128 if C128 in (ta, tb) or F64 in (ta, tb) else C64
                out = gen.out(t, a.shape + b.shape)
                run("aclnnGer", a, b, out)
                exact = np.multiply.outer(a.get().astype(CLD), b.get().astype(CLD))
                ref.check_parts(out.get(), exact, t, 1, np.abs(exact) * LD(2) ** -52)
                return
            t = promote(ta, tb)
            out = gen.out(t, a.shape + b.shape)
            run("aclnnGer", a, b, out)
            exact = np.multiply.outer(a.get().astype(LD), b.get().astype(LD))
            if t.kind == "f":
                ref.check(out.get(), exact, t, F64 if t is F64 else F32, ulps=1)
            else:
                ref.check_equal(out.get(), exact.astype(np.int64).astype(t.values))
        each_case(self, "aclnnGer", 60, body)

    def test_addr(self):
        def body(gen, op):
            inplace = "Inplace" in op
            t = gen.pick((F32, F16, F64, I8, I32, I64, U8))
            m, n = size(gen), size(gen)
            a, b = (gen.drawn(t, (s,), lambda s: gen.values(t, s, limit=6)) for s in (m, n))
            make = lambda s: gen.values(t, s, limit=6)
            bias = gen.out(t, (m, n), make((m, n))) if inplace else gen.drawn(t, gen.shrunk((m, n)), make)
            beta, alpha = (None if gen.chance(0.3) else Scalar(gen.pick((0, 1, 2, 3)), I64) for _ in range(2))
            x = 1 if beta is None else beta.value
            y = 1 if alpha is None else alpha.value
            added = np.broadcast_to(LD(x) * bias.get().astype(LD), (m, n))
            exact = added + LD(y) * np.multiply.outer(a.get().astype(LD), b.get().astype(LD))
            out = bias if inplace else gen.out(t, (m, n))
            run(op, bias, a, b, beta, alpha, *([] if inplace else [out]))
            if t.kind == "f":
                ref.check(out.get(), exact, t, F64 if t is F64 else F32, ulps=1,
                          slack=4 * (LD(2) ** -53 if t is F64 else EPS) * 300)
            else:
                ref.check_equal(out.get(), exact.astype(np.int64).astype(t.values))
        for op in ("aclnnAddr", "aclnnInplaceAddr"):
            each_case(self, op, 60, lambda gen, o=op: body(gen, o))
        v, m = Tensor.empty(F32, (2,)), Tensor.empty(F32, (2, 2))
        code, text = refused("aclnnAddr", m, v, v, Scalar(True, BOOL), Scalar(1, F32), m)
        message = "betaOptional has dtype BOOL, expected one that fits the tensors' FLOAT"
        assert code == INVALID and message in text, text


def int4_weight(gen, values, by_columns):
    """An int4 weight [K, N] with values from -8 to 7, two to a byte. In memory it is [N, K] if by_columns, as
    frameworks pass it, and [K, N] otherwise."""
    k, n = values.shape
    flat = (values.T if by_columns else values).reshape(-1) & 15
    flat = np.append(flat, [0] * (flat.size & 1)).astype(np.uint8)
    t = gen.keep(Tensor(I8, (k, n), (1, k) if by_columns else (n, 1)))
    t.block.body[:flat.size // 2] = flat[0::2] | flat[1::2] << 4
    t.code = INT4_CODE
    return t


class Quantised(unittest.TestCase):
    def test_all(self):
        each_case(self, "aclnnWeightQuantBatchMatmulV2", 150, self.case)

    def case(self, gen):
        t = gen.pick((F16, F16, BF16))
        bits = gen.pick((4, 8))
        m, n = gen.pick((1, 1, 2, 5, 8, 9, 33)), gen.pick((1, 2, 7, 40, 129, 300))
        k = gen.pick((32, 64, 96, 160, 512)) if bits == 4 else gen.pick((1, 31, 32, 33, 64, 100, 512))
        values = gen.rng.integers(-(1 << bits - 1), 1 << bits - 1, (k, n))
        by_columns = gen.chance(0.7)
        if bits == 4 and gen.chance(0.4) and (by_columns or n % 8 == 0):
            flat = int4_weight(gen, values, by_columns).block.body[:k * n // 2]
            shape, strides = ((k // 8, n), (1, k // 8)) if by_columns else ((k, n // 8), (n // 8, 1))
            weight = gen.keep(Tensor(I32, shape, strides))
            weight.block.body[:k * n // 2] = flat
        elif bits == 4:
            weight = int4_weight(gen, values, by_columns)
        else:
            weight = gen.keep(Tensor(I8, (k, n), (1, k) if by_columns else None).set(values.astype(np.int8)))
        x = matrix(gen, t, (m, k))
        group = gen.pick([g for g in (0, 0, 32, 64) if g < k])
        groups = -(-k // group) if group else 1
        shape = (groups, n) if group else gen.pick(((1,), (1, 1), (n,), (1, n)))
        scale = gen.drawn(t, shape, lambda s: t.round(gen.rng.uniform(0.01, 0.1, s)))
        offset = gen.drawn(t, shape, lambda s: t.round(gen.rng.integers(-4, 5, s))) if gen.chance(0.4) else None
        bias = matrix(gen, gen.pick((t, F32)), gen.pick(((n,), (1, n)))) if gen.chance(0.3) else None
        rows = np.arange(k) // (group or k)

        def spread(p):
            return np.broadcast_to(wide(p).reshape(groups, -1), (groups, n))[rows]

        w = (values + (spread(offset) if offset else 0)) * spread(scale)
        exact, slack = product(wide(x), w)
        if offset:
            slack = slack + 4 * k * EPS * np.matmul(np.abs(wide(x)), (np.abs(values) + 4) * spread(scale))
        elif m >= 9 and (group or k) in (32, 64, 128, 256):
            slack = slack + self.rounding(wide(x), group or k, w)
        if bias:
            exact = exact + wide(bias)
            slack = slack + 2 * EPS * np.abs(exact)
        out = gen.out(gen.pick((t, t, F32)), (m, n))
        version, more = gen.pick((("V2", ()), ("V2", ()), ("V3", (0,)), ("V3", (1,)), ("Nz", ())))
        if version == "Nz" and bits == 8 and gen.chance(0.6):
            weight = gen.keep(Blocked(weight, gen.chance(0.5)))
        run(f"aclnnWeightQuantBatchMatmul{version}", x, weight, scale, offset, None, None, bias, group, *more, out)
        ref.check(out.get(), exact, out.dtype, F32, ulps=1, slack=slack + 3 * EPS * np.abs(exact),
                  what=f"int{bits} {m} x {k} x {n} group {group}")

    @staticmethod
    def rounding(x, group, w):
        """The bound of the error of an x with 15 bits beside the largest element of its group."""
        largest = np.maximum.reduceat(np.abs(x), np.arange(0, x.shape[1], group), axis=1)
        return np.matmul(np.repeat(largest * 2.0 ** -15, group, axis=1)[:, :x.shape[1]], np.abs(w))

    def grouped(self, gen, t, x, group, n):
        """The operator's result with random weights and scales that are powers of two, the product of x, and the bound
        of its error: the float sums', and that of x."""
        (m, k), bits = x.shape, gen.pick((4, 8))
        values = gen.rng.integers(-(1 << bits - 1), 1 << bits - 1, (k, n))
        weight = int4_weight(gen, values, True) if bits == 4 else \
            gen.keep(Tensor(I8, (k, n), (1, k)).set(values.astype(np.int8)))
        scale = gen.drawn(t, (k // group, n), lambda s: 2.0 ** gen.rng.integers(-8, -5, s))
        out = gen.out(t, (m, n))
        given = matrix(gen, t, x.shape).set(x)
        run("aclnnWeightQuantBatchMatmulV2", given, weight, scale, None, None, None, None, group, out)
        w = values * np.repeat(wide(scale), group, axis=0)
        with np.errstate(invalid="ignore"):
            exact, slack = product(wide(given), w)
            return out.get(), exact, slack + self.rounding(wide(given), group, w)

    def test_groups_of_rows(self):
        """Groups that dot-product instructions multiply as integers."""
        def body(gen):
            t, group = gen.pick((F16, BF16)), gen.pick((32, 64, 128, 256))
            m, n = gen.pick((9, 12, 65, 515)), gen.pick((3, 32, 70, 129))
            shape = (m, group * gen.pick((2, 3, 5)))
            got, exact, _ = self.grouped(gen, t, gen.rng.integers(-8, 9, shape), group, n)
            ref.check(got, exact, t, F32, ulps=0, what="small integers")
            x = gen.rng.standard_normal(shape)
            x[gen.integer(0, m - 1), gen.integer(0, shape[1] - 1)] = 300
            x[:, gen.integer(0, shape[1] - 1)] *= 2.0 ** -20
            got, exact, slack = self.grouped(gen, t, t.round(x), group, n)
            ref.check(got, exact, t, F32, ulps=1, slack=slack, what="numbers of all sizes")
            x = gen.rng.integers(-8, 9, shape).astype(np.float64)
            x[m // 2, 5], x[m - 1, 40], x[0, :] = np.inf, np.nan, 0
            got, exact, _ = self.grouped(gen, t, x, group, n)
            ref.check(got, exact, t, F32, ulps=0, what="infinities and NaN")
        each_case(self, "aclnnWeightQuantBatchMatmulV2", 20, body)

    def test_refused(self):
        def body(gen):
            x, w, y = Tensor(F16, (2, 64)), Tensor(I8, (64, 3)), Tensor(F16, (2, 3))
            s, one = Tensor(F16, (2, 3)), Tensor(F16, (1, 3))
            op = "aclnnWeightQuantBatchMatmulV2"
            empty = Tensor(F16, (0, 64)), Tensor(F16, (0, 3))
            for args, message in (
                    ((x, w, s, None, None, None, None, 33, y), "antiquantGroupSize is 33"),
                    ((x, w, s, None, None, None, None, 0, y), "antiquantScale has shape [2, 3]"),
                    ((x, w, s, None, s, None, None, 32, y), "quantScaleOptional is given"),
                    ((x, w, one, None, None, None, None, 64, y),
                     "antiquantGroupSize is 64, expected 0 or a multiple of 32 less than"),
                    ((x, w, s, one, None, None, None, 32, y),
                     "antiquantOffsetOptional has shape [1, 3], expected [2, 3]"),
                    ((empty[0], w, one, None, None, None, None, 0, empty[1]), "expected elements in both"),
                    ((x, x, s, None, None, None, None, 32, y), "weight has dtype FLOAT16")):
                code, text = refused(op, *args)
                assert code == INVALID and message in text, text
        each_case(self, "refused", 2, body)


class Weights(unittest.TestCase):
    def test_layout_is_kept(self):
        def body(gen):
            dtype = gen.pick((F16, F32))
            values = np.float32(gen.rng.standard_normal((33, 20)).astype(np.float16))
            w = gen.out(dtype, (33, 20), values)
            before = w.bits()
            run("aclnnTransMatmulWeight", w)
            ref.check_equal(w.bits(), before)
        each_case(self, "aclnnTransMatmulWeight", 4, body)

    def test_sizes(self):
        f, f2 = lib().op.aclnnCalculateMatmulWeightSize, lib().op.aclnnCalculateMatmulWeightSizeV2
        for g, between in ((f, ()), (f2, (F16.code,))):
            g.restype = ct.c_int
            bytes_ = ct.c_uint64(0)
            shape = Ints(33, 20).create()
            self.assertEqual(g(ct.c_void_p(shape), *between, ct.byref(bytes_)), 0)
            self.assertEqual(bytes_.value, 33 * 20)
            self.assertEqual(g(None, *between, ct.byref(bytes_)), NULLPTR)
            self.assertEqual(g(ct.c_void_p(shape), *between, None), NULLPTR)
            self.assertEqual(g(ct.c_void_p(Ints(3).create()), *between, ct.byref(bytes_)), INVALID)


class Equations(unittest.TestCase):
    def test_triangular(self):
        each_case(self, "aclnnTriangularSolve", 80, self.triangular)

    def triangular(self, gen):
        t = gen.pick((F32, F64, C64, C128))
        n, cols = gen.pick((0, 1, 2, 5, 17, 40)), gen.pick((0, 1, 3, 64, 70))
        batch = gen.shape(max_rank=3, numel=10, empty=0.02)
        first, second = gen.broadcast_pair(batch)
        upper, transpose, unit = (gen.chance(0.5) for _ in range(3))
        unit = unit and t is F32

        def draw(s):
            v = gen.rng.standard_normal(s) / max(n, 1) + (3 if s[-1] else 0) * np.eye(*s[-2:])
            if t in COMPLEX:
                return (v + 1j * gen.rng.standard_normal(s) / max(n, 1)).astype(t.values)
            return t.round(v)

        a = gen.out(t, second + (n, n), draw(second + (n, n)))
        b = matrix(gen, t, first + (n, cols))
        x, m = gen.out(t, batch + (n, cols)), gen.out(t, batch + (n, n)) if gen.chance(0.8) else None
        run("aclnnTriangularSolve", b, a, upper, transpose, unit, x, m)
        full = wide(a)
        triangle = np.triu(full) if upper else np.tril(full)
        if m is not None:                                              # the whole of A, as in CANN's source
            ref.check_equal(m.get(), np.broadcast_to(full, m.shape))
        if unit:
            triangle = triangle - triangle * np.eye(n) + np.eye(n)
        left = np.swapaxes(triangle, -1, -2) if transpose else triangle
        got = wide(x)
        eps = {F32: 2.0 ** -24, C64: 2.0 ** -24}.get(t, 2.0 ** -53) * (5 ** 0.5 if t in COMPLEX else 1)
        bound = 4 * (n + 2) * eps * (np.matmul(np.abs(left), np.abs(got)) + np.abs(wide(b)))
        error = np.abs(np.matmul(left, got) - wide(b))                 # backward error, row by row
        assert np.all(error <= bound), f"upper {upper} transpose {transpose} unit {unit}: {np.max(error - bound)}"

    def test_inverse(self):
        def body(gen):
            t = gen.pick((F32, F64, F16))
            n = gen.pick((0, 1, 2, 3, 8, 33) if t is not F16 else (0, 1, 2, 3, 8))
            shape = gen.shape(max_rank=3, numel=10) + (n, n)
            a = gen.out(t, shape, t.round(gen.rng.standard_normal(shape)))
            out = gen.out(t, shape)
            run("aclnnInverse", a, out)
            got = out.get()
            if got.size:
                x = wide(a)
                eps = 2.0 ** (1 - t.digits)
                condition = np.linalg.cond(x)[..., None, None]
                bound = 40 * n * eps * condition * np.max(np.abs(x)) * np.max(np.abs(got)) * n
                assert np.all(np.abs(x @ got - np.eye(n)) <= bound)
        each_case(self, "aclnnInverse", 40, body)

    def test_refused(self):
        a = Tensor(F32, (3, 4))
        code, text = refused("aclnnInverse", a, a)
        assert code == INVALID and "expected square matrices" in text, text
        b, x = Tensor(F32, (2, 2)), Tensor(F32, (3, 2))
        code, text = refused("aclnnTriangularSolve", x, b, True, False, False, x, b)
        assert code == INVALID and "expected as many rows" in text, text
        d = Tensor.empty(F64, (2, 2))
        code, text = refused("aclnnTriangularSolve", d, d, True, False, True, d, d)
        assert code == INVALID and "self has dtype DOUBLE, expected FLOAT where unitriangular is true" in text, text


if __name__ == "__main__":
    unittest.main()
