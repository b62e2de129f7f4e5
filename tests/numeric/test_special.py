# SPDX-License-Identifier: Apache-2.0
"""Special functions, and operators that CANN has beside the common ones under another name or in another form."""
import math
import unittest
from fractions import Fraction

import numpy as np

import reference as ref
from acl import INVALID, Scalar, Tensor, TensorList, refused, run
from dtypes import F16, F32, F64, FLOATS, FLOATS64, I16, I32, I64, INTS, LD, U8, U32
from gen import each_case

CASES = 40
PI = LD("3.14159265358979323846264338327950288")


# ---- references: integrals by Gauss and Legendre, where the library has series and continued fractions

NODES, WEIGHTS = (v.astype(LD) for v in np.polynomial.legendre.leggauss(24))


def integral(f, low, high, panels):
    """The integral of f over [low, high], arrays of one dimension. Nodes in double limit it to some 1e-16."""
    edges = np.linspace(LD(0), LD(1), panels + 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1] - edges[0]) / 2
    t = (middle[:, None] + half * NODES).reshape(-1)
    w = np.tile(WEIGHTS * half, panels)
    span = (high - low)[:, None]
    return (f(low[:, None] + span * t) * (span * w)).sum(-1)


def each_element(function):
    def over(x):
        x = np.asarray(x, LD)
        return np.array([function(v) for v in x.reshape(-1)], LD).reshape(x.shape)
    return over


def lgamma(x):
    """By Stirling's series from 40 on."""
    if np.isnan(x) or np.isinf(x):
        return abs(x)
    if x <= 0 and np.rint(x) == x:
        return LD(np.inf)
    if x < 0.5:
        rest = x - np.rint(x)
        return np.log(PI / abs(np.sin(PI * rest))) - lgamma(1 - x) if abs(x) > 1e-15 else -np.log(abs(x))
    product, lost = LD(1), LD(0)
    if x < 40:
        n = int(40 - x) + 1
        for k in range(n):
            product *= x + k
        lost, x = np.log(product), x + n
    u = 1 / x
    series = u / 12 - u ** 3 / 360 + u ** 5 / 1260 - u ** 7 / 1680 + u ** 9 / 1188
    return (x - LD(0.5)) * np.log(x) - x + np.log(2 * PI) / 2 + series - lost


def digamma(x):
    """log x and the integral of e^-xt (1/t - 1/(1 - e^-t)), from x = 4 on."""
    if np.isnan(x) or x == np.inf:
        return x
    if x == 0:
        return np.copysign(LD(np.inf), -x)
    if x < 0:
        rest = x - np.rint(x)
        return LD(np.nan) if rest == 0 or np.isinf(x) else digamma(1 - x) - PI / np.tan(PI * rest)
    below = LD(0)
    while x < 4:
        below, x = below + 1 / x, x + 1
    def f(t):
        return np.exp(-t) * np.where(t / x < 1e-3, -LD(0.5) - t / x / 12, x / t - 1 / -np.expm1(-t / x)) / x
    return np.log(x) + integral(f, np.zeros(1, LD), np.full(1, LD(45)), 30)[0] - below


def normal_quantile(p):
    if not 0 <= p <= 1:
        return LD(np.nan)
    if p in (0, 1):
        return LD(np.inf) * (1 if p else -1)
    if p == 0.5:
        return LD(0)
    q, low, high = min(p, 1 - p), 0.0, 40.0
    for _ in range(200):                    # erfc decreases
        middle = (low + high) / 2
        if abs(p - LD(0.5)) < 0.25:
            low, high = (middle, high) if math.erf(middle / math.sqrt(2)) < 2 * abs(p - LD(0.5)) else (low, middle)
        else:
            low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > 2 * q else (low, middle)
    tiny = abs(p - LD(0.5)) < 1e-9
    return (p - LD(0.5)) * np.sqrt(2 * PI) if tiny else LD(middle) * (1 if p > 0.5 else -1)


def fresnel(x, function):
    if np.isnan(x) or x == 0:
        return x
    a = abs(x)
    if a > 40:                              # asymptotic: 1/2 and two terms each of the auxiliary functions
        left = LD(float(Fraction(float(a)) ** 2 % 4)) if a < 1e18 else LD(0)
        f, g = (1 - 3 / (PI * a * a) ** 2) / (PI * a), (1 - 15 / (PI * a * a) ** 2) / (PI ** 2 * a ** 3)
        s, c = np.sin(PI / 2 * left), np.cos(PI / 2 * left)
        value = LD(0.5) + (f * s - g * c if function is np.cos else -f * c - g * s)
    elif function is np.sin and a < 1e-3:
        value = PI / 6 * a ** 3 * (1 - PI ** 2 / 56 * a ** 4)
    else:
        value = integral(lambda t: function(PI / 2 * t * t), np.zeros(1, LD), np.full(1, a), 8 + int(a * a))[0]
    return np.copysign(value, x)


# What the errors of the references, and of sums that cancel, are relative to.
FUNCTIONS = {
    "Lgamma": (lgamma, lambda x: 1 + np.abs(np.where(x < 0, np.log(np.abs(np.sin(PI * (x - np.rint(x))))), 0))),
    "Digamma": (digamma, lambda x: 4 + np.abs(1 / x) + np.where(x < 0, np.abs(PI / np.tan(PI * (x - np.rint(x)))), 0)),
    "Ndtri": (normal_quantile, np.zeros_like),
    "FresnelCos": (lambda x: fresnel(x, np.cos), lambda x: np.minimum(np.abs(x), 1)),
    "FresnelSin": (lambda x: fresnel(x, np.sin), lambda x: np.minimum(np.abs(x) ** 3, 1)),
}


class SpecialFunctions(unittest.TestCase):
    def test_all(self):
        for name in FUNCTIONS:
            each_case(self, "aclnn" + name, CASES, lambda gen, name=name: self.case(gen, name))

    def values(self, gen, name, d, shape):
        if name == "Ndtri" and gen.chance(0.8):
            v = gen.rng.uniform(0, 1, shape)
            v = v * 10.0 ** -gen.integer(0, 8) if gen.chance(0.5) else v
            return d.round(v).astype(d.values)
        v = gen.values(d, shape)
        if d is F64 and name == "Ndtri":
            v = np.where(np.abs(v) < 1e-290, d.values.type(0.5), v)
        return v

    def case(self, gen, name):
        function, terms = FUNCTIONS[name]
        d, shape = gen.pick(FLOATS64), gen.shape(numel=60)
        x = gen.drawn(d, shape, lambda s: self.values(gen, name, d, s))
        out = gen.out(d, shape)
        run("aclnn" + name, x, out)
        v = x.get().astype(LD)
        slack = np.nan_to_num(terms(v).astype(LD) if np.ndim(v) else LD(terms(v)), posinf=0) * LD(2) ** -49
        exact = each_element(function)(v)
        ref.check(out.get(), exact, d, ulps=60 if d is F64 else 2, slack=slack, what=name)


class OtherNames(unittest.TestCase):
    def test_all(self):
        for op, function in (("AsinWithAgent", np.arcsin), ("AsinhWithAgent", np.arcsinh), ("AsinhV2", np.arcsinh)):
            def case(gen, op=op, function=function):
                d = gen.pick(FLOATS64 + INTS)
                x = gen.tensor(d, gen.shape())
                out = gen.out(d if d.kind == "f" else F32, x.shape)
                run("aclnn" + op, x, out)
                v = x.get().astype(LD)
                ref.check(out.get(), function(v if d.kind == "f" else F32.round(v).astype(LD)), out.dtype, ulps=3)
            each_case(self, "aclnn" + op, CASES, case)


# name: (function of the input or result and the gradient, whether the gradient comes first)
GRADIENTS = {
    "AcosGrad": (lambda x, g: -g / np.sqrt((1 - x) * (1 + x)), True),
    "AcosGradV2": (lambda x, g: -g / np.sqrt((1 - x) * (1 + x)), False),
    "AsinhGrad": (lambda y, g: g / np.cosh(y), False),
    "AtanGrad": (lambda x, g: g / (1 + x * x), False),
}


class Gradients(unittest.TestCase):
    def test_all(self):
        for name, (function, first) in GRADIENTS.items():
            def case(gen, name=name, function=function, first=first):
                d, shape = gen.pick(FLOATS), gen.shape()
                x, g = gen.tensor(d, shape), gen.drawn(d, shape, lambda s: gen.values(d, s, limit=1000))
                if gen.chance(0.7):
                    x = gen.drawn(d, shape, lambda s: d.round(gen.rng.uniform(-1, 1, s)).astype(d.values))
                out = gen.out(d, shape)
                run("aclnn" + name, *((g, x) if first else (x, g)), out)
                exact = function(x.get().astype(LD), g.get().astype(LD))
                ref.check(out.get(), exact, d, ulps=1, what=name)
            each_case(self, "aclnn" + name, CASES, case)

    def test_doubles(self):
        x = np.array([0.0, 0.5, -0.999, 1.0, 2.0, 700.0, -1400.0])
        g = np.array([1.0, -2.0, 3.0, 1.0, 1e300, 1e300, 1e308])
        for name, (function, first) in GRADIENTS.items():
            a, b, out = Tensor.of(F64, x), Tensor.of(F64, g), Tensor.empty(F64, x.shape)
            run("aclnn" + name, *((b, a) if first else (a, b)), out)
            ref.check(out.get(), function(x.astype(LD), g.astype(LD)), F64, ulps=8, what=name)


class Sums(unittest.TestCase):
    def test_xlog1py(self):
        def case(gen):
            d, shape = gen.pick(FLOATS64), gen.shape()
            a, b = gen.broadcast_pair(shape)
            x, y = (gen.drawn(d, s, lambda s: gen.values(d, s, limit=1000)) for s in (a, b))
            out = gen.out(d, shape)
            run("aclnnXlog1py", x, y, out)
            v, w = x.get().astype(LD), y.get().astype(LD)
            ref.check(out.get(), np.broadcast_to(np.where(v == 0, LD(0), v * np.log1p(w)), shape), d, ulps=4)
        each_case(self, "aclnnXlog1py", CASES, case)
        out = Tensor.empty(F32, (2,))
        run("aclnnXlog1py", Tensor.of(F32, [0.0, 0.0]), Tensor.of(F32, [np.nan, -2.0]), out)
        ref.check_equal(out.get(), [0, 0])

    def test_products(self):
        def case(gen, plus):
            d, shape = gen.pick(FLOATS), gen.shape()
            first, c = gen.broadcast_pair(shape) if plus else (shape, shape)
            a, b = gen.broadcast_pair(first) if plus else (shape, shape)
            a, b, c = (gen.drawn(d, s, lambda s: gen.values(d, s, limit=100)) for s in (a, b, c))
            out, factors = gen.out(d, shape), [gen.integer(-8, 8) / 4 for _ in range(2)]
            if plus:
                alpha, beta = (gen.drawn(d, gen.pick(((), (1,))), lambda s, f=f: np.full(s, f, d.values))
                               for f in factors)
                run("aclnnAddMatMatElementsPlus", c, a, b, beta, alpha, out)
            else:
                run("aclnnAddMatMatElements", a, b, c, *(Scalar(f, F32) for f in factors), out)
            x, y, z = (t.get().astype(LD) for t in (a, b, c))
            ref.check(out.get(), np.broadcast_to(LD(factors[0]) * x * y + LD(factors[1]) * z, shape), d, ulps=1,
                      slack=1e-12)
        for plus in (False, True):
            each_case(self, "aclnnAddMatMatElements" + "Plus" * plus, CASES, lambda gen, plus=plus: case(gen, plus))
        x = Tensor.empty(F32, (2,))
        code, message = refused("aclnnAddMatMatElementsPlus", x, x, x, x, Tensor.empty(F32, ()), x)
        self.assertEqual(code, INVALID)
        self.assertIn("beta", message)

    def test_fused_mul_add_n(self):
        def case(gen):
            d, shape = gen.pick(FLOATS + (I16, I32)), gen.shape()
            x1, x2 = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=90)) for _ in "12")
            x3 = gen.drawn(d, gen.pick(((), (1,), (1, 1))), lambda s: gen.values(d, s, limit=90))
            out = gen.out(d, shape)
            run("aclnnFusedMulAddN", x1, x2, x3, out)
            v, w, f = (t.get().astype(LD if d.kind == "f" else np.int64) for t in (x1, x2, x3))
            exact = v * f.reshape(()) + w
            if d.kind == "f":
                ref.check(out.get(), exact, d, ulps=1, slack=np.abs(v * f.reshape(())) * LD(2) ** -24)
            else:
                ref.check_equal(out.get(), exact.astype(d.values))
        each_case(self, "aclnnFusedMulAddN", CASES, case)

    def test_lists(self):
        def case(gen, op):
            d, shape = gen.pick(FLOATS + (I32, U8)), gen.shape(max_rank=5)
            parts = [gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100)) for _ in range(gen.integer(1, 20))]
            out = gen.out(d, shape)
            run(op, TensorList(parts), out)
            values = [t.get().astype(LD if d.kind == "f" else np.int64) for t in parts]
            if d.kind == "f":
                ref.check(out.get(), sum(values), d, slack=len(parts) * 3e-5)
            else:
                ref.check_equal(out.get(), sum(values).astype(d.values))
        for op in ("aclnnAddN", "aclnnSumV2"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))

    def test_addr(self):
        def case(gen, op):
            d, n, m = gen.pick(FLOATS + (I32,)), gen.integer(1, 20), gen.integer(1, 20)
            x, y = (gen.drawn(d, (k,), lambda s: gen.values(d, s, limit=60)) for k in (n, m))
            matrix = gen.out(d, (n, m), gen.values(d, (n, m), limit=60))
            values = matrix.get().astype(LD)
            kind = (F64, 2.5) if d.kind == "f" else (I64, 3)
            beta, alpha = Scalar(kind[1], kind[0]), Scalar(-kind[1], kind[0])
            out = matrix if "Inplace" in op else gen.out(d, (n, m))
            run(op, matrix, x, y, beta, alpha, *(() if out is matrix else (out,)))
            exact = LD(kind[1]) * values - LD(kind[1]) * np.multiply.outer(x.get().astype(LD), y.get().astype(LD))
            if d.kind == "f":
                ref.check(out.get(), exact, d, slack=4e-3)
            else:
                ref.check_equal(out.get(), exact.astype(np.int64).astype(d.values))
        for op in ("aclnnAddrV2", "aclnnInplaceAddrV2"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))


class Gates(unittest.TestCase):
    def test_fatrelu(self):
        def case(gen):
            d, shape = gen.pick(FLOATS), list(gen.shape(min_rank=1))
            half = tuple(shape)
            shape[-1] *= 2
            x, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100)), gen.out(d, half)
            threshold = gen.drawn(d, gen.pick(((), (1,))), lambda s: gen.values(d, s, limit=2))
            run("aclnnFatreluMul", x, threshold, out)
            v = x.get().astype(LD)
            a, b = v[..., :half[-1]], v[..., half[-1]:]
            ref.check(out.get(), np.where(a < threshold.get().astype(LD).reshape(()), LD(0), a) * b, d, ulps=0.5)
        each_case(self, "aclnnFatreluMul", CASES, case)
        code, message = refused("aclnnFatreluMul", Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (1,)),
                                Tensor.empty(F32, (2, 1)))
        self.assertEqual(code, INVALID)
        self.assertIn("an even number", message)

    def test_scale(self):
        def case(gen):
            d, shape = gen.pick(FLOATS), gen.shape(min_rank=1, max_rank=6)
            axis = gen.integer(0, len(shape) - 1)
            n = gen.integer(1, len(shape) - axis)
            blob = gen.chance(0.5)
            x, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100)), gen.out(d, shape)
            scale, bias = (gen.drawn(d, shape[axis:axis + n], lambda s: gen.values(d, s, limit=9)) for _ in "sb")
            bias = bias if gen.chance(0.6) else None
            axes = -1 if axis + n == len(shape) and gen.chance(0.5) else n
            run("aclnnScale", x, scale, bias, axis - gen.pick((0, len(shape))), axes, blob, out)
            placed = shape[axis:axis + n] + (1,) * (len(shape) - axis - n)
            wide = [None if t is None else t.get().astype(LD).reshape(placed) for t in (scale, bias)]
            ref.check(out.get(), x.get().astype(LD) * wide[0] + (0 if bias is None else wide[1]), d, ulps=1)
        each_case(self, "aclnnScale", 2 * CASES, case)
        x, out = Tensor.empty(F32, (2, 3, 4)), Tensor.empty(F32, (2, 3, 4))
        for args, word in (((Tensor.empty(F32, (3, 4)), None, 2, 1, False), "scale has shape"),
                           ((Tensor.empty(F32, (3,)), None, 1, 2, True), "numAxes is 2"),
                           ((Tensor.empty(F32, (3,)), None, 3, 1, True), "axis is 3")):
            code, message = refused("aclnnScale", x, *args, out)
            self.assertEqual(code, INVALID)
            self.assertIn(word, message)


class Segsum(unittest.TestCase):
    def rows(self, gen):
        d, shape = gen.pick(FLOATS), gen.shape(min_rank=1, max_rank=5, numel=60)
        return d, shape, np.tril(np.ones((shape[-1],) * 2, bool), -1)

    def test_forward(self):
        def case(gen):
            d, shape, below = self.rows(gen)
            x, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=3)), gen.out(d, shape + shape[-1:])
            run("aclnnExpSegsum", x, out)
            v = np.where(below, x.get().astype(LD)[..., :, None], LD(0)).cumsum(-2)
            exact = np.exp(np.where(np.tril(np.ones_like(below)), v, -np.inf))
            ref.check(out.get(), exact, d, ulps=1, slack=exact * 1e-12)
        each_case(self, "aclnnExpSegsum", CASES, case)

    def test_backward(self):
        def case(gen):
            d, shape, below = self.rows(gen)
            g, y = (gen.drawn(d, shape + shape[-1:], lambda s: gen.values(d, s, limit=9)) for _ in "gy")
            out = gen.out(d, shape)
            run("aclnnExpSegsumBackward", g, y, out)
            product = np.where(below, g.get().astype(LD) * y.get().astype(LD), LD(0))
            exact = np.where(below, product[..., ::-1, :].cumsum(-2)[..., ::-1, :], LD(0)).sum(-1)
            ref.check(out.get(), exact, d, ulps=1, slack=np.abs(product).sum((-1, -2))[..., None] * 1e-13)
        each_case(self, "aclnnExpSegsumBackward", CASES, case)


class Sinkhorn(unittest.TestCase):
    def test_all(self):
        def case(gen):
            d, shape = gen.pick(FLOATS), (gen.integer(1, 20), gen.integer(1, 20))
            tol = gen.pick((None, 0.01, 1e-6))
            cost = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=3))
            out = gen.out(d, shape)
            run("aclnnSinkhorn", cost, None if tol is None else Scalar(tol, F32), out)
            x = np.exp(cost.get().astype(LD))
            d1, error, steps = np.ones(shape[1], LD), LD(1e9), 0
            tol = 1e-4 if tol is None else float(np.float32(tol))
            while error > tol and steps < 100000:   # the most that the operator makes
                d0 = 1 / (shape[0] * ((d1 * x).sum(1) + LD(1e-8)))
                new = 1 / (shape[1] * ((d0[:, None] * x).sum(0) + LD(1e-8)))
                error, d1, steps = np.abs(d1 - new).mean(), new, steps + 1
                if abs(error - tol) < 1e-9 * tol:
                    return                          # rounding decides about another step
            exact = d1 * x * d0[:, None]
            ref.check(out.get(), exact, d, ulps=1, slack=exact * 1e-9)
        each_case(self, "aclnnSinkhorn", CASES, case)

    def test_nan_ends(self):
        cost, out = Tensor.of(F32, np.full((3, 3), np.nan)), Tensor.empty(F32, (3, 3))
        run("aclnnSinkhorn", cost, None, out)
        self.assertTrue(np.isnan(out.get()).all())


class SignBits(unittest.TestCase):
    def test_pack(self):
        def case(gen):
            x = gen.tensor(gen.pick((F32, F16)), (gen.integer(1, 3000),))
            bits = np.packbits(x.get() >= 0, bitorder="little")
            size = gen.pick([d for d in range(1, 9) if bits.size % d == 0])
            out = gen.out(U8, (size, bits.size // size))
            run("aclnnSignBitsPack", x, size, out)
            ref.check_equal(out.get(), bits.reshape(out.shape))
        each_case(self, "aclnnSignBitsPack", CASES, case)

    def test_unpack(self):
        def case(gen):
            d, x = gen.pick((F32, F16)), gen.tensor(U8, (gen.integer(1, 400),))
            signs = np.unpackbits(np.ascontiguousarray(x.get()), bitorder="little") * 2.0 - 1
            size = gen.pick([k for k in range(1, 9) if signs.size % k == 0])
            out = gen.out(d, (size, signs.size // size))
            run("aclnnSignBitsUnpack", x, size, d.code, out)
            ref.check_equal(out.get(), signs.reshape(out.shape))
        each_case(self, "aclnnSignBitsUnpack", CASES, case)

    def test_wrong(self):
        code, message = refused("aclnnSignBitsPack", Tensor.empty(F32, (100,)), 2, Tensor.empty(U8, (2, 7)))
        self.assertEqual(code, INVALID)
        self.assertIn("size is 2, expected a divisor of 13", message)


class Copies(unittest.TestCase):
    def test_view_copy(self):
        def case(gen):
            d, kind = gen.pick(FLOATS64 + INTS), gen.pick((I32, I64))
            dims = gen.shape(min_rank=1, max_rank=4, numel=60, empty=0)
            def view():
                t = Tensor(d, dims, *gen.layout(dims))
                strides = t.strides
                offset = gen.integer(0, 5)
                last = offset + sum((n - 1) * s for n, s in zip(dims, strides))
                return strides, offset, last + 1 + gen.integer(0, 4)
            (to, to_first, n_dst), (of, of_first, n_src) = view(), view()
            dst, src = (Tensor.of(d, gen.values(d, (n,))) for n in (n_dst, n_src))
            out = dst if gen.chance(0.3) else Tensor.empty(d, (n_dst,))
            exact = dst.get().copy()
            values = src.get()
            for at in np.ndindex(*dims):
                exact[to_first + sum(i * s for i, s in zip(at, to))] = values[of_first + sum(
                    i * s for i, s in zip(at, of))]
            numbers = [Tensor.of(kind, np.array(v, kind.values)) for v in (dims, to, [to_first], dims, of, [of_first])]
            run("aclnnViewCopy", dst, *numbers[:3], src, *numbers[3:], out)
            ref.check_equal(out.get(), exact)
        each_case(self, "aclnnViewCopy", CASES, case)

    def test_weights(self):
        def case(gen):
            d, shape = gen.pick((F16, F32)), (gen.integer(1, 5), gen.integer(1, 5), 3, 2)
            x, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=99)), gen.out(F16, shape)
            run("aclnnTransConvolutionWeight", x, False, 1, out)
            ref.check_equal(out.get(), F16.round(x.get().astype(LD)))
            y = gen.out(d, shape)
            run("aclnnNpuFormatCast", x, y)
            ref.check_equal(y.get(), x.get())
        each_case(self, "weights", CASES, case)
        x = Tensor.empty(F16, (2, 3, 1, 1))
        code, message = refused("aclnnTransConvolutionWeight", x, True, 1, x)
        self.assertEqual(code, INVALID)
        self.assertIn("transposed is true", message)


class Compare(unittest.TestCase):
    def test_precision(self):
        def case(gen):
            d = gen.pick(FLOATS)
            x = gen.tensor(d, gen.shape())
            y = gen.again(x)
            if x.get().size and gen.chance(0.5):
                v = x.get().copy()
                v.reshape(-1)[gen.integer(0, v.size - 1)] = d.values.type(77)
                y = gen.out(d, x.shape, v)
            out = Tensor.empty(U32, ())
            run("aclnnPrecisionCompare", x, y, out)
            self.assertEqual(out.get(), 0 if x.bits().tobytes() == y.bits().tobytes() else 503)
        each_case(self, "aclnnPrecisionCompare", CASES, case)


if __name__ == "__main__":
    unittest.main()
