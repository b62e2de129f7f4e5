# SPDX-License-Identifier: Apache-2.0
"""InplaceNormal and InplaceUniform: reproducible, independent, and of the requested distribution.

Every statistical bound lies six standard deviations out or further: a failure is a defect, not chance.
"""
import math
import unittest

import numpy as np

from acl import INVALID, Tensor, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS64, I64, INTS, U8, U64
from gen import Gen, SEED, SCALE

N = 1 << (18 if SCALE >= 1 else 15)
SIX = 6.0


def normal(t, seed, offset, mean=0.0, std=1.0):
    run("aclnnInplaceNormal", t, mean, std, seed, offset)
    return t.get().astype(np.float64)


def uniform(t, seed, offset, low=0.0, high=1.0):
    run("aclnnInplaceUniform", t, low, high, seed, offset)
    return t.get().astype(np.float64)


def phi(x):
    """The normal distribution function, interpolated in a table of erf."""
    grid = np.linspace(-8, 8, 4001)
    return np.interp(x, grid, [0.5 * (1 + math.erf(g / math.sqrt(2))) for g in grid])


class Random(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng([SEED, 77])
        self.seed = int(self.rng.integers(1, 2 ** 62))
        self.where = f"CANNON_SEED={SEED}"

    def within(self, value, expected, sigma, what):
        self.assertLess(abs(value - expected), SIX * sigma, f"{what}: {value}, expected {expected}; {self.where}")

    def moments(self, x, mean, std, kurtosis, what):
        """Mean, variance and neighbours' correlation; kurtosis is the fourth moment of the standardised variable."""
        z, n = (x - mean) / std, x.size
        self.within(z.mean(), 0, 1 / math.sqrt(n), what + " mean")
        self.within((z * z).mean(), 1, math.sqrt((kurtosis - 1) / n), what + " variance")
        for lag in (1, 2, 3, 4, 8, 16, 256):
            self.within((z[lag:] * z[:-lag]).mean(), 0, 1 / math.sqrt(n - lag), f"{what} correlation at {lag}")

    def kolmogorov(self, u, what):
        """Greatest distance of the empirical distribution of u from the uniform one; P(above 4.3) < 1e-15."""
        u, n = np.sort(u), u.size
        distance = max(np.max(np.arange(1, n + 1) / n - u), np.max(u - np.arange(n) / n))
        self.assertLess(distance * math.sqrt(n), 4.3, f"{what} distribution; {self.where}")

    def test_uniform_integers(self):
        """Uniform integers are uniform real numbers whose fraction is cut off."""
        for d in INTS:
            for low, high in ((0.0, 100.0), (2.4, 5.7), (-3.5, 3.5), (7.0, 7.0), (0.0, float(min(d.max, 2 ** 62)))):
                if d is U8 and low < 0:
                    continue
                x, real = Tensor.empty(d, (N // 16,)), Tensor.empty(F64, (N // 16,))
                uniform(real, self.seed, 5, low, high)
                uniform(x, self.seed, 5, low, high)
                np.testing.assert_array_equal(x.get(), np.trunc(real.get()).astype(d.values), f"{d}; {self.where}")
        code, message = refused("aclnnInplaceUniform", Tensor.empty(U8, (3,)), -1.0, 5.0, 1, 0)
        self.assertEqual(code, INVALID)
        self.assertIn("from is -1", message)

    def test_integers_beyond_the_type(self):
        """Random integers wrap if the type is too small, as all integers do."""
        for d in INTS:
            x, wide = Tensor.empty(d, (N // 16,)), Tensor.empty(I64, (N // 16,))
            for t in (x, wide):
                run("aclnnInplaceRandom", t, -800, 70000, self.seed, 4)
            np.testing.assert_array_equal(x.get(), wide.get().astype(d.values), f"{d}; {self.where}")

    def test_integers_are_less_than_to(self):
        """Random integers are less than `to`, even if the type can't hold all integers below it."""
        for d in (F16, BF16, F32):
            for low, high in ((0, 4000), (-42, 65504), (-2 ** 30, 2 ** 30 + 1), (5, 6)):
                if d is F16 and abs(low) > 65504:
                    continue
                x = Tensor.empty(d, (N,))
                run("aclnnInplaceRandom", x, low, high, self.seed, 4)
                v = x.get().astype(np.float64)
                self.assertTrue((v >= low).all() and (v < high).all(),
                                f"{d} {low} {high}: {v.min()} {v.max()}; {self.where}")
                self.assertGreaterEqual(v.max(), high - max(1, (high - low) / 100))

    def test_seed_of_either_sign(self):
        expected = uniform(Tensor.empty(F32, (100,)), self.seed, 11)
        for d in (I64, U64):
            x = Tensor.empty(F32, (100,))
            run("aclnnInplaceUniformTensor", x, 0.0, 1.0, Tensor.of(d, [self.seed]), Tensor.of(d, [8]), 3)
            np.testing.assert_array_equal(x.get(), expected)

    def test_normal(self):
        for d in FLOATS64:
            for mean, std in ((0.0, 1.0), (-3.0, 0.5)):
                x = normal(Tensor.empty(d, (N,)), self.seed, 0, mean, std)
                self.assertTrue(np.isfinite(x).all())
                self.moments(x, mean, std, 3, f"normal {d}")
                if d in (F32, F64):
                    self.kolmogorov(phi((x - mean) / std), f"normal {d}")
                    tail = np.abs(x - mean) / std > 3
                    self.within(tail.mean(), 0.0027, math.sqrt(0.0027 / N), f"normal {d} beyond 3 sigma")

    def test_uniform(self):
        for d in FLOATS64:
            for low, high in ((0.0, 1.0), (-2.0, 6.0)):
                x = uniform(Tensor.empty(d, (N,)), self.seed, 0, low, high)
                self.assertGreaterEqual(x.min(), low, f"{d}; {self.where}")
                self.assertLess(x.max(), high, f"{d}: `to` is exclusive, after rounding to the type too; {self.where}")
                # In 16-bit floats, excluding `to` after rounding moves the mean by a fraction of their unit.
                self.moments(x, (low + high) / 2, (high - low) / math.sqrt(12), 1.8, f"uniform {d}") \
                    if d in (F32, F64) else None
                if d in (F32, F64):
                    self.kolmogorov((x - low) / (high - low), f"uniform {d}")
                else:
                    error = 6 / math.sqrt(12 * N) + 2.0 ** -d.digits
                    self.assertLess(abs((x.mean() - low) / (high - low) - 0.5), error, f"uniform {d}; {self.where}")

    def test_reproducible(self):
        for draw in (normal, uniform):
            gen = Gen([SEED, 78])
            for d in FLOATS64:
                shape = gen.shape(min_rank=1, empty=0)
                first = draw(Tensor.empty(d, shape), self.seed, 24)
                for t in (Tensor.empty(d, shape), gen.out(d, shape)):        # repeated, and in another layout
                    np.testing.assert_array_equal(draw(t, self.seed, 24), first, f"{draw.__name__} {t}; {self.where}")

    def test_different(self):
        """Another seed or offset gives other numbers: uncorrelated, and not the same stream slightly shifted."""
        for draw, centre, std in ((normal, 0, 1), (uniform, 0.5, 1 / math.sqrt(12))):
            a = (draw(Tensor.empty(F32, (N,)), self.seed, 0) - centre) / std
            for seed, offset in ((self.seed + 1, 0), (self.seed, 1), (self.seed, 12), (self.seed ^ 1 << 40, 0)):
                b = (draw(Tensor.empty(F32, (N,)), seed, offset) - centre) / std
                what = f"{draw.__name__} seed {seed - self.seed:+d} offset {offset}"
                for lag in range(0, 65):
                    for u, v in ((a[lag:], b[:N - lag]), (b[lag:], a[:N - lag])):
                        self.within((u * v).mean(), 0, 1 / math.sqrt(N - lag), f"{what} correlation at {lag}")

    def test_edges(self):
        for d in FLOATS64:
            x = normal(Tensor.empty(d, (100,)), self.seed, 0, 1.5, 0.0)
            np.testing.assert_array_equal(x, 1.5)
            for draw in (normal, uniform):
                self.assertEqual(draw(Tensor.empty(d, (0, 3)), self.seed, 0).size, 0)
                self.assertEqual(draw(Tensor.empty(d, ()), self.seed, 0).shape, ())


if __name__ == "__main__":
    unittest.main()
