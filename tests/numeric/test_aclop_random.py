# SPDX-License-Identifier: Apache-2.0
"""Operators that MindSpore calls by name (ops/mindspore.aclop): distributions of random numbers, transforms, special
functions, steps of optimisers, against their public definitions."""
import math
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Missing, Operand, execute
from dtypes import C64, C128, F16, F32, F64, I32, I64, LD
from gen import each_case

N = 40000


def run(name, inputs, d, shape, attributes=None):
    """The values of a single output."""
    y = Operand.empty(d, shape)
    execute(name, inputs, [y], attributes or {})
    return y.get()


class Distributions(unittest.TestCase):
    def moments(self, x, mean, variance, fourth):
        """fourth: the fourth central moment, or a bound of it."""
        x = x.astype(np.float64)
        self.assertLess(abs(x.mean() - mean), 5 * np.sqrt(variance / x.size) + 1e-3 * np.sqrt(variance))
        self.assertLess(abs(x.var() - variance), 5 * np.sqrt((fourth - variance ** 2) / x.size) + 2e-3 * variance)

    def other(self, make):
        """What make() returns, which differs from call to call."""
        x, y = make(), make()
        self.assertFalse(np.array_equal(x, y))
        return x

    def test_gamma(self):
        shape, beta = (N, 1, 3), np.array([2, 1, 0.5], np.float32)
        alpha = np.array([[0.3, 1, 2.5], [1.5, 40, 7]], np.float32)
        inputs = [Operand.of(I64, shape), Operand.of(F32, alpha), Operand.of(F32, beta),
                  Operand.of(I64, [0]), Operand.of(I64, [0])]
        got = self.other(lambda: run("CustGamma", inputs, F32, (N, 2, 3), {"seed": 3, "seed2": 0}))
        self.assertTrue((got >= 0).all())
        for at in np.ndindex(2, 3):
            k, s = float(alpha[at]), float(beta[at[1]])
            self.moments(got[(slice(None), *at)], k * s, k * s * s, (3 * k * k + 6 * k) * s ** 4)
        x = np.sort(got[:, 0, 1])                                           # of shape 1: exponential
        steps = np.abs(1 - np.exp(-x.astype(np.float64)) - (np.arange(N) + 0.5) / N)
        self.assertLess(steps.max(), 2.3 / np.sqrt(N))                      # Kolmogorov's bound for 1 in 20,000
        bad = run("CustGamma", [inputs[0], Operand.of(F32, [[-1, 0, np.nan]]), *inputs[2:]], F32, (1, 3))
        self.assertTrue(np.isnan(bad).all())

    def test_poisson(self):
        means = np.array([0, 0.2, 3, 9.9, 10, 35, 1000], np.float32)
        wants = [means[None]]
        for d in (I32, F64):
            inputs = [Operand.of(I32, [N, 7]), Operand.of(F32, means), Operand.of(I64, 0), Operand.of(I64, 0)]
            wants.append(run("CustPoisson", inputs, d, (N, 7)))
        for d in (F32, I64):
            wants.append(run("CustRandomPoisson", [Host([N], np.int32), Operand.of(F64, means.astype(np.float64))],
                             d, (N, 7), {"seed": 0, "seed2": 1}))
        for got in wants[1:]:
            self.assertTrue((got == np.rint(got)).all() and (got >= 0).all())
            self.assertTrue((got[:, 0] == 0).all())
            for x, m in zip(got.T[1:], means[1:].astype(np.float64)):
                self.moments(x, m, m, m + 3 * m * m)
        for x, m in ((wants[1][:, 2], 3), (wants[1][:, 5], 35)):
            counts = np.bincount(x, minlength=80)[:80] / N
            p = np.array([math.exp(k * math.log(m) - m - math.lgamma(k + 1)) for k in range(80)])
            self.assertTrue((np.abs(counts - p) < 5 * np.sqrt(p / N) + 5 / N).all())
        many = [Host([4, 5]), Operand.of(I32, np.array([[3], [1000000]], np.int32))]
        got = self.other(lambda: run("CustRandomPoisson", many, F16, (4, 5, 2, 1)))
        self.assertTrue((got[:, :, 1] == np.inf).all())                     # more than float16 has
        for shape in ((0, 7), (3, 0, 7)):
            self.assertEqual(run("CustRandomPoisson", [Host(shape[:-1]), Operand.of(F32, means)], F32, shape).size, 0)
        with self.assertRaisesRegex(AclError, "y has shape .3, 7., expected .4, 7."):
            run("CustRandomPoisson", [Host([4]), Operand.of(F32, means)], F32, (3, 7))
        with self.assertRaisesRegex(AclError, "mean has shape .7., expected one that broadcasts"):
            run("CustPoisson", inputs, I32, (N, 6))

    def test_normal(self):
        for d in (F32, F16, F64):
            x = self.other(lambda d=d: run("CustStandardLaplace", [Host([N])], d, (N,), {"seed": 1, "seed2": 0}))
            self.moments(x, 0, 2, 24)
            for name in ("TruncatedNormal", "CustTruncatedNormal"):
                x = self.other(lambda d=d, name=name: run(name, [Host([N // 8, 8], np.int32)], d, (N // 8, 8)))
                self.assertLessEqual(np.abs(x).max(), 2)
                self.assertGreater(np.abs(x).max(), 1.99)
                # of the normal distribution between -2 and 2
                cut = 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2))
                self.moments(x.reshape(-1), 0, 1 - cut, 3 * (1 - cut) - 4 * cut)
            shape = Operand.of(d, np.zeros((N,), d.values))
            x = self.other(lambda d=d: run("CustLogNormalReverse", [shape], d, (N,), {"mean": 0.5, "std": 0.25}))
            self.assertTrue((x > 0).all())
            self.moments(np.log(x.astype(np.float64)), 0.5, 0.0625, 3 * 0.0625 ** 2)
        self.assertEqual(run("CustStandardLaplace", [Host([])], F32, ()).shape, ())
        self.assertEqual(run("CustLogNormalReverse", [Operand.empty(F32, (0, 2))], F32, (0, 2)).size, 0)
        with self.assertRaisesRegex(AclError, "y has dtype INT32"):
            run("CustStandardLaplace", [Host([3])], I32, (3,))
        with self.assertRaisesRegex(AclError, "shape has 9 elements, expected up to 8"):
            run("TruncatedNormal", [Host([1] * 9)], F32, (1,))

    def test_cauchy(self):
        def make():
            return run("CustCauchy", [], F32, (N // 4, 4), {"median": 2.0, "sigma": 0.5, "size": (N // 4, 4)})
        x = np.sort(self.other(make).reshape(-1)).astype(np.float64)
        steps = np.abs(np.arctan((x - 2) / 0.5) / np.pi + 0.5 - (np.arange(N) + 0.5) / N)
        self.assertLess(steps.max(), 2.3 / np.sqrt(N))
        with self.assertRaisesRegex(AclError, "y has shape .3., expected .4."):
            run("CustCauchy", [], F32, (3,), {"size": (4,)})

    def candidates(self, name, true, sampled, unique, classes, d):
        outs = [Operand.empty(d, (sampled,)), Operand.empty(F32, true.shape), Operand.empty(F32, (sampled,))]
        given = {"num_true": true.shape[1], "num_sampled": sampled, "unique": unique, "range_max": classes, "seed": 0}
        execute(name, [Operand.of(d, true)], outs, given)
        return [o.get() for o in outs]

    def test_candidates(self):
        names = {"UniformCandidateSampler": lambda k, n: 1 / n + 0 * k,
                 "CustLogUniformCandidateSampler": lambda k, n: np.log((k + 2) / (k + 1)) / np.log(n + 1)}
        true = np.array([[1, 7], [0, 4], [3, 3]])
        for name, chance in names.items():
            for d in (I32, I64):
                k, t, s = self.candidates(name, true.astype(d.values), N, False, 9, d)
                p = chance(np.arange(9.0), 9)
                self.assertLess(np.abs(np.bincount(k, minlength=9) / N - p).max(), 5 * 0.5 / np.sqrt(N))
                np.testing.assert_allclose(t, N * p[true], 1e-6)
                np.testing.assert_allclose(s, N * p[k], 1e-6)
                k, t, s = self.candidates(name, true.astype(d.values), 7, True, 9, d)
                self.assertEqual(len(set(k)), 7)
                self.assertTrue(((k >= 0) & (k < 9)).all())
                tries = np.rint(np.log1p(-t[0, 0].astype(np.float64)) / np.log1p(-p[1]))
                if tries > 7:
                    np.testing.assert_allclose(t, -np.expm1(tries * np.log1p(-p[true])), 1e-5)
                    np.testing.assert_allclose(s, -np.expm1(tries * np.log1p(-p[k])), 1e-5)
            k, *_ = self.candidates(name, true, 2000, True, 2000, I64)
            ref.check_equal(np.sort(k), np.arange(2000))
            first = [self.candidates(name, true, 5, True, 10 ** 12, I64)[0] for _ in range(2)]
            self.assertFalse(np.array_equal(*first))
            with self.assertRaisesRegex(AclError, "num_sampled is 10, expected 1 to 9"):
                self.candidates(name, true, 10, True, 9, I64)
        with self.assertRaisesRegex(AclError, "range_max is 0, expected 1 or more"):
            self.candidates(name, true, 1, False, 0, I64)


def zeta(x, q):
    """Hurwitz's function for x from 3 on: a sum, and the integral of what is left."""
    k = np.arange(20000)
    return ((q + k) ** -x).sum() + (q + k.size - LD(0.5)) ** (1 - x) / (x - 1)


def digamma(x):
    """By recurrence and the asymptotic series."""
    total = -(1 / (x + np.arange(40))).sum()
    x = x + 40
    return total + np.log(x) - 1 / (2 * x) - 1 / (12 * x ** 2) + 1 / (120 * x ** 4) - 1 / (252 * x ** 6)


NODES, WEIGHTS = (v.astype(LD) for v in np.polynomial.legendre.leggauss(100))


def integral(f, end):
    return (f(end * (NODES + 1) / 2) * WEIGHTS).sum() * end / 2


def beta_ratio(a, b, x):
    """I_x(a, b) of halves: with x the square of a sine, an integral of a trigonometric polynomial."""
    def f(t):
        return np.sin(t) ** (2 * a - 1) * np.cos(t) ** (2 * b - 1)
    return integral(f, np.arcsin(np.sqrt(x))) / integral(f, LD(np.pi) / 2)


def gamma_slope(a, x):
    """The derivative of P(a, x) for a: under the integral, whose variable is x u^16."""
    def f(u, logs):
        return 16 * u ** (16 * a - 1) * np.exp(a * np.log(x) - x * u ** 16 - LD(math.lgamma(float(a)))) * logs(u)
    with_log = integral(lambda u: f(u, lambda v: np.log(x) + 16 * np.log(v)), LD(1))
    return with_log - digamma(a) * integral(lambda u: f(u, lambda v: 1), LD(1))


class SpecialFunctions(unittest.TestCase):
    def check(self, name, exact, ranges, attributes=None, ulps=4, slack=None, floats=(F32, F64)):
        """ranges: of the arguments, each a function of a generator and a count."""
        def body(gen):
            d = gen.pick(floats)
            shape = gen.shape(3, numel=20)
            n = int(np.prod(shape))
            values = [np.asarray(r(gen.rng, n)) for r in ranges]
            values = [v.reshape(shape).astype(v.dtype if v.dtype == np.int64 else d.values) for v in values]
            operands = [Operand.of(I64 if v.dtype == np.int64 else d, v) for v in values]
            want = np.zeros(shape, LD)
            for at in np.ndindex(*shape):
                want[at] = exact(*(LD(v[at]) for v in values))
            of = 0 if slack is None else slack(*(v.astype(LD) for v in values)) * 2.0 ** (-52 if d is F64 else -23)
            ref.check(run(name, operands, d, shape, attributes), want, d, ulps=ulps, slack=of)
        each_case(self, name, 8, body)

    def test_zeta(self):
        def orders(rng, n):
            return rng.uniform(3, 30, n)
        self.check("Zeta", zeta, (orders, lambda rng, n: rng.uniform(0.1, 20, n)), ulps=60)
        want = {(2, 1): np.pi ** 2 / 6, (1.5, 1): 2.612375348685488343, (1.1, 1): 10.584448464950809827, (1, 3): np.inf,
                (0.5, 1): np.nan, (3, 0): np.inf, (4, -3): np.inf, (2.5, -0.5): np.nan, (3, np.inf): 0, (np.inf, 2): 0,
                (np.inf, 1): 1, (np.inf, 0.5): np.inf, (np.nan, 1): np.nan, (2, 1e-200): np.inf, (300, 2): 2.0 ** -300,
                (2, -0.5): np.pi ** 2 / 2 + 4, (3, -1.5): float(zeta(LD(3), LD(0.5))) - 8 - 1 / LD(1.5) ** 3,
                (2, -1e15 - 0.5): np.pi ** 2, (2, 1e15): 1e-15}
        x, q = np.array(list(want)).T
        got = run("Zeta", [Operand.of(F64, x), Operand.of(F64, q)], F64, x.shape)
        np.testing.assert_allclose(got, np.array(list(want.values()), np.float64), 1e-14)

    def test_polygamma(self):
        def orders(rng, n):
            return rng.integers(2, 12, n)
        factorial = [LD(1), *np.cumprod(np.arange(1, 40, dtype=LD))]
        self.check("CustPolygamma", lambda n, x: zeta(n + 1, x) * factorial[int(n)] * (1 if n % 2 else -1),
                   (orders, lambda rng, n: rng.uniform(0.5, 20, n)), ulps=60)
        self.check("CustPolygamma", lambda n, x: zeta(n + 1, x) * factorial[int(n)] * (1 if n % 2 else -1),
                   (lambda rng, n: rng.integers(19, 24, n), lambda rng, n: rng.uniform(0.5, 4, n)), ulps=400)
        self.check("CustPolygamma", lambda n, x: digamma(x), (lambda rng, n: np.zeros(n, np.int64),
                                                              lambda rng, n: rng.uniform(2, 20, n)), ulps=8,
                   slack=lambda n, x: 16)
        x = np.array([0.25, -0.75, -7.125, 40.5])
        one, mirrored = (run("CustPolygamma", [Operand.of(I32, 1), Operand.of(F64, v)], F64, x.shape)
                         for v in (x, 1 - x))
        np.testing.assert_allclose(one + mirrored, (np.pi / np.sin(np.pi * x)) ** 2, 1e-13)
        want = {(1, 0): np.inf, (1, -2): np.inf, (2, 0.0): -np.inf, (-1, 3): np.nan, (1, 1e300): 1e-300, (1, np.inf): 0,
                (160, 1e3): -math.exp(math.lgamma(160) - 160 * math.log(1e3) + 160.5 / 2e3)}
        n, x = np.array(list(want)).T
        got = run("CustPolygamma", [Operand.of(I64, n.astype(np.int64)), Operand.of(F64, x)], F64, x.shape)
        np.testing.assert_allclose(got[:-1], list(want.values())[:-1], 1e-14)
        self.assertLess(abs(got[-1] / want[160, 1e3] - 1), 0.1)
        got = run("CustPolygamma", [Operand.of(I32, 1), Operand.of(F16, [1, 2])], F16, (2,))
        np.testing.assert_allclose(got, [np.pi ** 2 / 6, np.pi ** 2 / 6 - 1], 1e-3)

    def test_beta(self):
        halves = [lambda rng, n: rng.integers(1, 40, n) / 2] * 2
        for name in ("Betainc", "CustBetainc"):
            self.check(name, beta_ratio, (*halves, lambda rng, n: rng.uniform(0.02, 0.98, n)), ulps=100,
                       slack=lambda a, b, x: 40)
        want = {(2, 3, 0): 0, (2, 3, 1): 1, (0, 1, 0.5): np.nan, (1, -1, 0.5): np.nan, (1, 1, 1.5): np.nan,
                (1, 1, np.nan): np.nan, (1, 1, 0.25): 0.25, (1, 1e8, 1e-8): -np.expm1(1e8 * np.log1p(-1e-8)),
                (1e8, 1, 1 - 1e-8): np.exp(1e8 * np.log(1 - 1e-8)), (1e-3, 1e-3, 0.5): 0.5, (np.inf, 1, 0.5): np.nan}
        a, b, x = np.array(list(want)).T
        got = run("Betainc", [Operand.of(F64, v) for v in (a, b, x)], F64, a.shape)
        np.testing.assert_allclose(got, np.array(list(want.values())), 1e-13)
        # On both sides of the bound where another method begins.
        for ratio in (1, 3):
            z, got = np.array([-4, -2, -1e-3, 0, 1e-2, 1, 3]), []
            for a in (2.0 ** 20, 2.0 ** 20 + 8):
                b, mean = a * ratio, 1 / (1 + ratio)
                x = mean + z * np.sqrt(ratio / (1 + ratio) ** 3 / 2 ** 20)
                got.append(run("Betainc", [Operand.of(F64, np.full(7, v)) for v in (a, b)] + [Operand.of(F64, x)], F64,
                               (7,)))
            np.testing.assert_allclose(*got, atol=2e-5)
            np.testing.assert_allclose(got[1], [0.5 * math.erfc(-v / math.sqrt(2)) for v in z], atol=1e-3)

    def test_gamma(self):
        for name in ("Igammac", "CustIgammac"):                             # of integers: a sum of Poisson's chances
            self.check(name, lambda a, x: np.exp(-x) * sum(x ** k / math.factorial(k) for k in range(int(a))),
                       (lambda rng, n: rng.integers(1, 20, n).astype(float), lambda rng, n: rng.uniform(0.1, 60, n)),
                       ulps=200, slack=lambda a, x: 4)
        x = np.array([50, 300, 0, np.inf])
        got = run("Igammac", [Operand.of(F64, np.ones(4)), Operand.of(F64, x)], F64, (4,))
        np.testing.assert_allclose(got, np.exp(-x), 1e-13)
        a = Operand.of(F64, np.full(3, 4e6))
        x = Operand.of(F64, 4e6 + np.array([-2e3, 0, 2e3]))
        np.testing.assert_allclose(run("Igammac", [a, x], F64, (3,)) + run("CustIgamma", [a, x], F64, (3,)), 1, 1e-14)
        for name in ("IgammaGradA", "CustIgammaGradA"):
            ranges = (lambda rng, n: rng.uniform(1, 20, n), lambda rng, n: rng.uniform(0.1, 30, n))
            self.check(name, gamma_slope, ranges, ulps=40, slack=lambda a, x: 100)
        for a in (2e6, 1e9):
            x = a + np.array([-2, -1e-4, 0, 1, 3]) * np.sqrt(a)
            got = run("IgammaGradA", [Operand.of(F64, np.full(5, a)), Operand.of(F64, x)], F64, (5,))
            z = ((x / a) ** (1 / 3) - 1 + 1 / (9 * a)) * 3 * np.sqrt(a)     # Wilson's and Hilferty's approximation
            slope = (-(x / a) ** (1 / 3) / a - 1 / (3 * a ** 2)) * np.sqrt(a) + z / (2 * a)
            np.testing.assert_allclose(got, np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * slope, 1e-2)
        for a, x, want in ((0, 1, np.nan), (1, 0, 0), (1, np.inf, 0), (-1, 1, np.nan), (np.inf, 1, 0)):
            got = run("IgammaGradA", [Operand.of(F64, [float(a)]), Operand.of(F64, [float(x)])], F64, (1,))
            np.testing.assert_array_equal(got, [want])

    def test_slopes(self):
        def inside(rng, n):
            return rng.uniform(-0.95, 0.95, n)

        def any_of(rng, n):
            return rng.uniform(-3, 3, n)
        self.check("AcosGrad", lambda y, g: -g / np.sqrt(1 - y * y), (inside, any_of))
        self.check("AsinGrad", lambda y, g: g / np.sqrt(1 - y * y), (inside, any_of))
        self.check("AtanGrad", lambda y, g: g / (1 + y * y), (any_of, any_of))
        self.check("AcoshGrad", lambda y, g: g / np.sinh(y), (lambda rng, n: rng.uniform(0.1, 3, n), any_of))
        self.check("AsinhGrad", lambda y, g: g / np.cosh(y), (any_of, any_of))
        scale, alpha = LD("1.0507009873554804934193349852946"), LD("1.6732632423543772848170429916717")
        self.check("Selu", lambda x: scale * (x if x > 0 else alpha * np.expm1(x)), (any_of,))
        x, y = np.array([3, np.inf, np.nan, 0, 4]), np.array([0, 0, 0, 0, 2.0])
        pair = [Operand.of(F32, x), Operand.of(F32, y)]
        np.testing.assert_array_equal(run("DivNoNan", pair, F32, (5,)), [0, 0, 0, 0, 2])
        np.testing.assert_array_equal(run("MulNoNan", pair, F32, (5,)), [0, 0, 0, 0, 8])

    def test_mvlgamma_grad(self):
        self.check("CustMvlgammaGrad", lambda g, x: g * sum(digamma(x - LD(k) / 2) for k in range(3)),
                   (lambda rng, n: rng.uniform(-3, 3, n), lambda rng, n: rng.uniform(1.2, 20, n)), {"p": 3}, ulps=8,
                   slack=lambda g, x: 40 * np.abs(g))


def cosine(x, n, axis, inverse):
    """The orthogonal cosine transform of type 2, or its inverse, by its matrix; cropped or padded to n numbers."""
    x = np.moveaxis(x, axis, -1)
    y = np.zeros((*x.shape[:-1], n))
    m = min(n, x.shape[-1])
    y[..., :m] = x[..., :m]
    k = np.arange(n)
    matrix = np.cos(np.pi * k[:, None] * (2 * k + 1) / (2 * n)) * np.sqrt(np.where(k, 2, 1) / n)[:, None]
    return np.moveaxis(y @ (matrix if inverse else matrix.T), -1, axis)


class Transforms(unittest.TestCase):
    def test_cosine(self):
        def body(gen):
            d = gen.pick((F32, F64, F16, I32))
            out = F64 if d is F64 else F32
            rank = gen.integer(1, 3)
            x = gen.rng.integers(-9, 9, [gen.integer(1, 12) for _ in range(rank)]).astype(d.values)
            tolerance = 1e-12 if d is F64 else 1e-4
            for inverse, name in enumerate(("CustDCT", "CustIDCT")):
                axis, n = gen.integer(-rank, rank - 1), gen.pick((None, gen.integer(1, 40)))
                want = cosine(x.astype(float), n or x.shape[axis], axis, inverse)
                lists = [Host(2), Missing() if n is None else Host(n), Host(axis), Host(2)]
                got = run(name, [Operand.of(d, x), *lists], out, want.shape)
                np.testing.assert_allclose(got, want, tolerance, tolerance)
                count = gen.integer(1, rank)
                sizes = gen.pick((None, tuple(gen.integer(1, 9) for _ in range(count))))
                axes = gen.pick((None, tuple(gen.rng.permutation(rank)[:count].tolist())))
                want = x.astype(float)
                for i, axis in enumerate(axes or range(-(count if sizes else rank), 0)):
                    want = cosine(want, sizes[i] if sizes else x.shape[axis], axis, inverse)
                lists = [Host(2), *(Missing() if v is None else Host(v) for v in (sizes, axes)), Host(2)]
                got = run(name + "N", [Operand.of(d, x), *lists], out, want.shape)
                np.testing.assert_allclose(got, want, tolerance, tolerance)
        each_case(self, "cosine", 12, body)
        x = Operand.of(F32, np.ones((2, 3)))
        with self.assertRaisesRegex(AclError, "type is 3, expected 2"):
            run("CustDCT", [x, Host(3), Missing(), Host(-1), Host(2)], F32, (2, 3))
        with self.assertRaisesRegex(AclError, "norm is 0, expected 2 .ortho."):
            run("CustDCT", [x, Host(2), Missing(), Host(-1), Host(0)], F32, (2, 3))
        with self.assertRaisesRegex(AclError, "x has dtype COMPLEX64"):
            run("CustDCT", [Operand.empty(C64, (2,)), Host(2), Missing(), Host(-1), Host(2)], C64, (2,))
        empty = Operand.empty(F32, (0, 3))
        self.assertEqual(run("CustDCT", [empty, Host(2), Missing(), Host(-1), Host(2)], F32, (0, 3)).shape, (0, 3))

    def test_sized(self):
        def body(gen):
            wide, norm, inverse = gen.pick((False, True)), gen.pick(("backward", "forward", "ortho")), gen.pick((0, 1))
            real, onesided = gen.pick((False, True)), gen.pick((False, True))
            rank = gen.integer(1, 4)
            count = gen.integer(1, min(rank, 3))
            axes = tuple(range(-count, 0))
            shape = tuple(gen.integer(1, 9) for _ in range(rank))
            x = gen.rng.standard_normal(shape)
            if real and inverse and onesided:
                x = np.fft.rfftn(x, axes=axes)
                want = np.fft.irfftn(x, shape[-count:], axes, norm)
            elif real and inverse:
                x = x + 1j * gen.rng.standard_normal(shape)
                want = np.fft.ifftn(x, axes=axes, norm=norm).real
            elif real:
                want = (np.fft.rfftn if onesided else np.fft.fftn)(x, axes=axes, norm=norm)
            else:
                x = x + 1j * gen.rng.standard_normal(shape)
                want = (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes, norm=norm)
            types = {(False, False): F32, (False, True): F64, (True, False): C64, (True, True): C128}
            given = {"signal_ndim": count, "inverse": bool(inverse), "real": real, "norm": norm, "onesided": onesided}
            got = run("CustFFTWithSize", [Operand.of(types[np.iscomplexobj(x), wide], x)],
                      types[np.iscomplexobj(want), wide], want.shape, given)
            np.testing.assert_allclose(got, want, rtol=0, atol=(1e-12 if wide else 1e-5) * (1 + np.abs(want).max()))
        each_case(self, "sized", 40, body)
        given = {"signal_ndim": 1, "inverse": True, "real": True, "norm": "backward", "onesided": True}
        x = Operand.of(C64, np.ones((2, 4)))
        for change, words in (({"signal_ndim": 3}, "signal_ndim is 3, expected 1 to 2"),
                              ({"norm": "none"}, "norm is none, expected backward, forward or ortho"),
                              ({}, "the last dimension of y is 5, expected 6 or 7")):
            with self.assertRaisesRegex(AclError, words):
                run("CustFFTWithSize", [x], F32, (2, 5), {**given, **change})


# The steps of optimisers, of a row of the states: functions of the states, the gradient and the hyperparameters.
def adagrad(s, g, lr, epsilon=0.0):
    accum = s[1] + g * g
    return [s[0] - lr * g / (np.sqrt(accum) + epsilon), accum]


def ftrl(s, g, lr, l1, l2, power, shrinkage=0.0):
    accum = s[1] + g * g
    root = accum ** -power
    linear = s[2] + g + 2 * shrinkage * s[0] - (root - s[1] ** -power) / lr * s[0]
    var = np.where(np.abs(linear) > l1, (np.sign(linear) * l1 - linear) / (root / lr + 2 * l2), 0)
    return [var, accum, linear]


def proximal_descent(s, g, alpha, l1, l2):
    to = s[0] - alpha * g
    return [np.sign(to) * np.maximum(np.abs(to) - alpha * l1, 0) / (1 + alpha * l2)]


def proximal_adagrad(s, g, lr, l1, l2):
    accum = s[1] + g * g
    return [proximal_descent(s, g, lr / np.sqrt(accum), l1, l2)[0], accum]


def adam(s, g, power1, power2, lr, beta1, beta2, epsilon, nesterov=False, most=False):
    m, v = beta1 * s[1] + (1 - beta1) * g, beta2 * s[2] + (1 - beta2) * g * g
    largest = np.maximum(v, s[3]) if most else v
    move = beta1 * m + (1 - beta1) * g if nesterov else m
    var = s[0] - lr * np.sqrt(1 - power2) / (1 - power1) * move / (np.sqrt(largest) + epsilon)
    return [var, m, v, largest] if most else [var, m, v]


def adagrad_da(s, g, lr, l1, l2, step):
    total, squares = s[1] + g, s[2] + g * g
    cut = np.sign(total) * np.maximum(np.abs(total) - l1 * step, 0) if l1 > 0 else total
    return [-lr * cut / (l2 * step * lr + np.sqrt(squares)), total, squares]


def sign_step(s, g, lr, base, decay, beta, rate):
    m = beta * s[1] + (1 - beta) * g
    return [s[0] - lr * rate(base, decay * np.sign(g) * np.sign(m)) * g, m]


def centred(s, g, lr, rho, momentum, epsilon):
    mg, ms = rho * s[1] + (1 - rho) * g, rho * s[2] + (1 - rho) * g * g
    mom = momentum * s[3] + lr * g / np.sqrt(ms - mg * mg + epsilon)
    return [s[0] - mom, mg, ms, mom]


def keras_momentum(s, g, lr, momentum, nesterov=False):
    accum = momentum * s[1] - lr * g
    return [s[0] + (momentum * accum - lr * g if nesterov else accum), accum]


class Optimisers(unittest.TestCase):
    ADAM = [0.81, 0.98, 0.1, 0.9, 0.99, 1e-3]

    def states(self, gen, n, d, shape):
        return [Operand.of(d, gen.rng.uniform(0.2, 2, shape)) for _ in range(n)]

    def dense(self, name, step, n, numbers, order, attributes=None, n_out=None, given=None):
        """order: a function of the lists of states, gradient and numbers, which has the order of the operands."""
        def body(gen):
            shape = gen.shape(3, numel=2000)
            d = gen.pick((F32, F16))
            states, g = self.states(gen, n, d, shape), Operand.of(d, gen.rng.standard_normal(shape))
            before = [v.get() for v in states]
            outs = states[:n if n_out is None else n_out]
            if gen.pick((False, True)):                                     # elsewhere
                outs = [Operand.empty(d, shape) for _ in outs]
            inputs = order(states, [g], [Operand.of(F32, v) for v in numbers])
            execute(name, inputs, outs, attributes or {}, updated=states)
            wants = step([v.astype(LD) for v in before], g.get().astype(LD), *(numbers if given is None else given))
            for got, want in [*zip(states, wants), *zip(outs, wants)]:
                ref.check(got.get(), want, d, ulps=16, slack=1e-5)
        each_case(self, name, 6, body)

    def test_dense(self):
        def usual(s, g, k):
            return s + k + g
        self.dense("ApplyGradientDescent", lambda s, g, a: [s[0] - a * g], 1, [0.3], usual)
        self.dense("ApplyProximalGradientDescent", proximal_descent, 1, [0.3, 0.7, 0.2], usual)
        of_signs = [0.1, 1.5, 0.8, 0.5]                                     # halves, so that the moment's sign is exact
        self.dense("ApplyPowerSignD", lambda *a: sign_step(*a, lambda b, d: np.exp(b * d)), 2, of_signs, usual)
        self.dense("ApplyAddSignD", lambda *a: sign_step(*a, lambda b, d: b + d), 2, of_signs, usual)
        for l1 in (0.0, 0.3):
            self.dense("ApplyAdagradDA", adagrad_da, 3, [0.3, l1, 0.2, 2.0], lambda s, g, k: s + g + k, n_out=1)
        self.dense("ApplyAdamWithAmsgradV2", lambda *a: adam(*a, most=True), 4, self.ADAM, usual)
        self.dense("ApplyAdamWithAmsgradD", lambda *a: adam(*a, most=True), 4, self.ADAM[:3], usual,
                   dict(zip(("beta1", "beta2", "epsilon"), self.ADAM[3:])), given=self.ADAM)
        for nesterov in (False, True):
            self.dense("ApplyKerasMomentumD", lambda *a, k=nesterov: keras_momentum(*a, nesterov=k), 2, [0.2, 0.7],
                       lambda s, g, k: s + k[:1] + g + k[1:], {"use_nesterov": nesterov})

    def test_centred(self):
        rng = np.random.default_rng(5)
        var, mean, mom, grad = (rng.standard_normal((3, 700)).astype(np.float32) for _ in range(4))
        before = [var, mean, mean ** 2 + 1, mom]
        numbers = [0.1, 0.9, 0.7, 1e-3]
        states = [Operand.of(F32, v) for v in before]
        execute("ApplyCenteredRMSProp", [*states, *(Operand.of(F32, v) for v in numbers), Operand.of(F32, grad)],
                states[:1], {}, updated=states)
        for got, want in zip(states, centred([v.astype(LD) for v in before], grad.astype(LD), *numbers)):
            ref.check(got.get(), want, F32, ulps=16, slack=1e-6)

    def sparse(self, name, step, n, numbers, order, attributes=None, merges=False, all_rows=False, given=None):
        def body(gen):
            d, kind = gen.pick((F32, F16)), gen.pick((I32, I64))
            rows, rest = gen.integer(1, 9), gen.pick(((), (3,), (2, 5), (1100,), (0,)))
            at = gen.rng.integers(0, rows, gen.integer(0, 12))
            states, g = self.states(gen, n, d, (rows, *rest)), Operand.of(d, gen.rng.standard_normal((at.size, *rest)))
            before, grad = [v.get() for v in states], g.get()
            outs = states if gen.pick((False, True)) else [Operand.empty(d, v.shape) for v in before]
            inputs = order(states, [g], [Operand.of(F32, v) for v in numbers])
            execute(name, [*inputs, Operand.of(kind, at.astype(kind.values))], outs, attributes or {},
                    updated=states)
            wants = [v.astype(LD) for v in before]
            which = range(rows) if all_rows else sorted(set(at.tolist())) if merges else range(at.size)
            for k in which:
                row, of = (k, grad[at == k].astype(LD).sum(0)) if merges else (at[k], grad[k].astype(LD))
                for want, new in zip(wants, step([w[row] for w in wants], of, *(given or numbers))):
                    want[row] = d.round(new)
            for got, want in [*zip(states, wants), *zip(outs, wants)]:
                ref.check(got.get(), want, d, ulps=16, slack=2e-2 if d is F16 else 1e-5)
        each_case(self, name, 10, body)

    def test_sparse(self):
        def with_grad(s, g, k):
            return s + k + g
        rate, adam_numbers = [0.1, 0.3, 0.2], self.ADAM
        powers = {"lr": 0.1, "l1": 0.3, "l2": 0.2, "lr_power": -0.5}
        self.sparse("SparseApplyAdagradD", adagrad, 2, [], with_grad, {"lr": 0.1}, given=[0.1])
        self.sparse("SparseApplyAdagradV2D", adagrad, 2, [], with_grad, {"lr": 0.1, "epsilon": 0.25}, given=[0.1, 0.25])
        self.sparse("SparseApplyFtrlD", ftrl, 3, [], with_grad, powers, given=[*powers.values()])
        self.sparse("SparseApplyFtrlV2D", ftrl, 3, [], with_grad, {**powers, "l2_shrinkage": 0.5},
                    given=[*powers.values(), 0.5])
        self.sparse("SparseApplyProximalAdagradD", proximal_adagrad, 2, rate, with_grad)
        self.sparse("CustFusedSparseFtrl", ftrl, 3, [], with_grad, powers, given=[*powers.values()], merges=True)
        self.sparse("CustFusedSparseProximalAdagrad", proximal_adagrad, 2, rate, with_grad, merges=True)
        for nesterov in (False, True):
            for name, of_all in (("CustFusedSparseAdam", True), ("CustFusedSparseLazyAdam", False)):
                self.sparse(name, lambda *a, k=nesterov: adam(*a, nesterov=k), 3, adam_numbers, with_grad,
                            {"use_nesterov": nesterov}, merges=True, all_rows=of_all)

    def test_wrong(self):
        var, accum, grad = (Operand.of(F32, np.ones(s)) for s in ((3, 2), (3, 2), (1, 2)))
        for at, words in (([3], r"indices\[0\] is 3, expected 0 to 2"), ([-1], r"indices\[0\] is -1"),
                          ([0, 1], "grad has shape .1, 2., expected .2, 2.")):
            with self.assertRaisesRegex(AclError, words):
                execute("SparseApplyAdagradD", [var, accum, grad, Operand.of(I32, at)], [var, accum], {"lr": 0.1})
        with self.assertRaisesRegex(AclError, "attribute lr is missing"):
            execute("SparseApplyAdagradD", [var, accum, grad, Operand.of(I32, [0])], [var, accum], {})
        np.testing.assert_array_equal(var.get(), 1)


if __name__ == "__main__":
    unittest.main()
