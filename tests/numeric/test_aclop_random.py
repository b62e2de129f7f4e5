# SPDX-License-Identifier: Apache-2.0
"""Operators that MindSpore calls by name (ops/mindspore.aclop): distributions of random numbers, transforms, special
functions, steps of optimisers, against their public definitions."""
import math
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BF16, F16, F32, F64, I32, I64
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


if __name__ == "__main__":
    unittest.main()
