# SPDX-License-Identifier: Apache-2.0
"""Random integers and booleans, dropout, multinomial, permutations: checks their distributions, and that they depend on
nothing but seed and offset. Statistical bounds lie six standard deviations out or further."""
import math
import unittest

import numpy as np

from acl import INVALID, AclError, Ints, Scalar, Tensor, refused, run
from dtypes import ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I8, I16, I32, I64, INTS, U8
from gen import SCALE, SEED, Gen, each_case

N = 1 << (17 if SCALE >= 1 else 14)
SIX = 6.0


def seed_tensors(seed, offset):
    return Tensor.of(I64, np.array([seed])), Tensor.of(I64, np.array([offset]))


def mask_bytes(n):
    return -(-n // 128) * 16


def bits(mask, n):
    return np.unpackbits(mask.get().reshape(-1), bitorder="little")[:n].astype(bool)


class Case(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng([SEED, 79])
        self.seed = int(self.rng.integers(1, 2 ** 62))

    def within(self, value, expected, sigma, what):
        self.assertLess(abs(value - expected), SIX * sigma, f"{what}: {value}, expected {expected}; CANNON_SEED={SEED}")

    def even(self, counts, shares, what):
        """Chi-squared test of counts against shares, within six sigma of its mean."""
        expected = counts.sum() * np.asarray(shares)
        chi2, freedom = ((counts - expected) ** 2 / expected).sum(), len(counts) - 1
        self.within(chi2, freedom, math.sqrt(2 * freedom) + 1, what)


class Integers(Case):
    def test_range(self):
        for d in INTS + FLOATS64:
            t = Tensor.empty(d, (N,))
            low, high = (0, 7) if d is U8 else (-3, 4)
            run("aclnnInplaceRandom", t, low, high, self.seed, 5)
            x = t.get().astype(np.int64)
            self.even(np.bincount(x - low, minlength=7), np.full(7, 1 / 7), f"{d} {low} to {high}")
            self.assertEqual((x.min(), x.max()), (low, high - 1))

    def test_wide(self):
        for low, high in ((-2 ** 63, 2 ** 63 - 1), (0, 2 ** 62), (-2 ** 40, 2 ** 41)):
            t = Tensor.empty(I64, (N,))
            run("aclnnInplaceRandom", t, low, high, self.seed, 0)
            u = (t.get().astype(np.float64) - low) / (high - low)
            self.even(np.histogram(u, 64, (0, 1))[0], np.full(64, 1 / 64), f"{low} to {high}")

    def test_whole_type(self):
        last = {BOOL: 1, I8: 127, U8: 255, I16: 2 ** 15 - 1, I32: 2 ** 31 - 1, I64: 2 ** 63 - 1,
                F16: 2 ** 11, BF16: 2 ** 8, F32: 2 ** 24, F64: 2 ** 53}
        for d in ALL:
            t = Tensor.empty(d, (N,))
            run("aclnnInplaceRandomWithoutFromTo", t, self.seed, 0)
            x = t.get().astype(np.float64)
            self.assertGreaterEqual(x.min(), 0)
            self.assertLessEqual(x.max(), last[d])
            self.within(x.mean() / (last[d] + 1), 0.5 * last[d] / (last[d] + 1), 0.3 / math.sqrt(N), str(d))

    def test_tensors_of_seeds(self):
        """Seed and offset in tensors give the same numbers as the seed and the sum of the offsets as arguments."""
        for op, extra in (("aclnnInplaceRandom", (0, 99)), ("aclnnInplaceRandomWithoutFromTo", ()),
                          ("aclnnInplaceNormal", (0.5, 2.0)), ("aclnnInplaceUniform", (-1.0, 1.0))):
            a, b = Tensor.empty(F32, (1000,)), Tensor.empty(F32, (1000,))
            run(op, a, *extra, self.seed, 17)
            run(op + "Tensor", b, *extra, *seed_tensors(self.seed, 5), 12)
            np.testing.assert_array_equal(a.get(), b.get(), op)

    def test_refused(self):
        t = Tensor.empty(I8, (3,))
        code, message = refused("aclnnInplaceRandom", t, 5, 5, 0, 0)
        self.assertEqual(code, INVALID)
        self.assertIn("from is 5 and to is 5", message)


class Normals(Case):
    def test_parameters_as_tensors(self):
        def body(gen):
            d, p = gen.pick(FLOATS64), gen.pick(FLOATS64)
            shape = gen.shape(min_rank=1, numel=2000, empty=0)
            mean = gen.drawn(p, gen.shrunk(shape), lambda s: gen.values(p, s, limit=4))
            std = gen.drawn(p, shape, lambda s: np.abs(gen.values(p, s, limit=4)))
            narrow = gen.drawn(p, gen.shrunk(shape), lambda s: np.abs(gen.values(p, s, limit=4)))
            wide = gen.drawn(p, shape, lambda s: gen.values(p, s, limit=4))
            plain = Tensor.empty(F64 if F64 in (d, p) else F32, shape)
            run("aclnnNormalFloatFloat", 0.0, 1.0, self.seed, 3, plain)
            z = plain.get().astype(np.float64)
            for op, args, m, s in (("TensorTensor", (mean, std), mean.get(), std.get()),
                                   ("TensorTensor", (wide, narrow), wide.get(), narrow.get()),
                                   ("TensorFloat", (mean, 2.0), mean.get(), 2.0),
                                   ("FloatTensor", (0.5, std), 0.5, std.get())):
                out = gen.out(d, shape)
                run("aclnnNormal" + op, *args, self.seed, 3, out)
                wanted = m + np.asarray(s, np.float64) * z
                scale = np.abs(m) + np.abs(s * z)
                error = np.abs(out.get() - wanted)
                self.assertTrue((error <= scale * 2.0 ** (1 - min(d.digits, 24)) + d.tiny).all(), op)
        each_case(self, "normals with tensors", 20, body)

    def test_deviations(self):
        """Only the operators that work in place refuse a negative deviation, as CANN does."""
        for op, args in (("FloatFloat", (0.0,)), ("TensorFloat", (Tensor.of(F32, np.zeros(9)),))):
            minus, plus = Tensor.empty(F32, (9,)), Tensor.empty(F32, (9,))
            run("aclnnNormal" + op, *args, -2.0, self.seed, 3, minus)
            run("aclnnNormal" + op, *args, 2.0, self.seed, 3, plus)
            np.testing.assert_array_equal(minus.get(), -plus.get())

        def a(*shape):
            return Tensor.empty(F32, shape)
        for op, args, words in (("aclnnInplaceNormal", (a(3), 0.0, -1.0, 0, 0), "std is -1, expected 0 or more"),
                                ("aclnnNormalFloatTensor", (0.0, a(3, 1), 0, 0, a(3, 4)),
                                 r"std has shape \[3, 1\], expected \[3, 4\]"),
                                ("aclnnNormalTensorTensor", (a(3), a(1), 0, 0, a(2, 3)),
                                 r"out has shape \[2, 3\], expected \[3\]"),
                                ("aclnnNormalTensorTensor", (a(3), a(2, 1), 0, 0, a(1, 2, 3)), r"expected \[2, 3\]")):
            code, message = refused(op, *args)
            self.assertEqual(code, INVALID)
            self.assertRegex(message, words)


class Bernoulli(Case):
    def test_share(self):
        for d in ALL:
            for prob in (0.0, 0.25, 0.9, 1.0):
                out = Tensor.empty(d, (N,))
                run("aclnnBernoulli", Tensor.empty(d, (N,)), Scalar(prob, F32), self.seed, 1, out)
                x = out.get().astype(np.float64)
                self.assertTrue(((x == 0) | (x == 1)).all())
                self.within(x.mean(), prob, math.sqrt(prob * (1 - prob) / N) + 1e-12, f"{d} {prob}")
                twin = Tensor.empty(d, (N,))
                run("aclnnInplaceBernoulli", twin, Scalar(prob, F32), self.seed, 1)
                np.testing.assert_array_equal(twin.get(), out.get())

    def test_tensor(self):
        p = np.linspace(0, 1, 5).astype(np.float32)[:, None]
        prob = Tensor.of(F32, np.broadcast_to(p, (5, N)))
        for op, args in (("aclnnInplaceBernoulliTensor", lambda t: (t, prob, self.seed, 0)),
                         ("aclnnBernoulliTensor", lambda t: (Tensor.empty(F16, t.shape), prob, self.seed, 0, t))):
            t = Tensor.empty(F16, (5, N))
            run(op, *args(t))
            for share, row in zip(p[:, 0], t.get()):
                self.within(row.mean(dtype=np.float64), share, math.sqrt(share * (1 - share) / N) + 1e-12,
                            f"{op} {share}")

    def test_probabilities_by_place(self):
        """Probabilities of another shape than self are used in the order of elements; the rest of self is unchanged."""
        def body(gen):
            shape = gen.shape(min_rank=1, numel=2000, empty=0)
            n, m = int(np.prod(shape)), gen.pick((0, 1, 2, 100, 3000))
            p = gen.rng.integers(0, 2, m)
            out, prob = gen.out(F32, shape), Tensor.of(F64, p.reshape(gen.pick(((m,), (1, m, 1), (m, 1)))))
            out.set(np.full(shape, 7))
            run("aclnnInplaceBernoulliTensor", out, prob, self.seed, 0)
            expected = np.full(n, 7)
            expected[:n if m == 1 else m] = p if m == 1 else p[:n]
            np.testing.assert_array_equal(out.get().reshape(-1), expected)
        each_case(self, "probabilities by place", 40, body)

    def test_refused(self):
        for args, words in (((Tensor.empty(F16, (3,)), Tensor.empty(F32, (3,)), 0, 0, Tensor.empty(F32, (3,))),
                             "out has dtype FLOAT"),
                            ((Tensor.empty(F32, (3,)), Tensor(F32, (4, 2), (4, 2)), 0, 0, Tensor.empty(F32, (3,))),
                             r"prob has shape \[4, 2\] and gaps")):
            code, message = refused("aclnnBernoulliTensor", *args)
            self.assertEqual(code, INVALID)
            self.assertRegex(message, words)


class Dropout(Case):
    def test_mask(self):
        for n in (0, 1, 127, 128, 1000, N + 3):
            for prob in (0.0, 0.1, 0.5, 1.0):
                one, two = Tensor.empty(U8, (mask_bytes(n),)), Tensor.empty(U8, (mask_bytes(n),))
                run("aclnnDropoutGenMask", Ints(n), prob, self.seed, 9, one)
                run("aclnnDropoutGenMaskV2Tensor", Ints(1, n), prob, *seed_tensors(self.seed, 4), 5, F16, two)
                np.testing.assert_array_equal(one.get(), two.get())
                kept = bits(one, n)
                if n:
                    self.within(kept.mean(), 1 - prob, math.sqrt(prob * (1 - prob) / n) + 1e-12, f"{n} {prob}")

    def test_apply(self):
        def body(gen):
            d, shape = gen.pick(FLOATS), gen.shape(numel=3000)
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
            n, prob = int(np.prod(shape)), gen.pick((0.0, 0.25, 0.5, 0.9, 1.0))
            mask = gen.tensor(U8, (mask_bytes(n),), gen.values(U8, (mask_bytes(n),)))
            keep = bits(mask, n).reshape(shape)
            if prob in (0.0, 1.0):
                keep = np.full(shape, prob == 0)
            scale = np.float32(1 / (1 - prob)) if prob < 1 else np.float32(0)
            out = gen.out(d, shape)
            run("aclnnDropoutDoMask", x, mask, prob, out)
            wanted = np.where(keep, d.round(x.get().astype(np.float32) * scale), 0)
            np.testing.assert_array_equal(out.get(), wanted)
            for op in ("aclnnDropoutBackward", "aclnnDropoutV3Grad"):
                back = gen.out(d, shape)
                run(op, x, mask, 1.5, back)
                keep = bits(mask, n).reshape(shape)
                np.testing.assert_array_equal(back.get(), np.where(keep, d.round(x.get() * np.float32(1.5)), 0), op)
        each_case(self, "dropout with a mask", 60, body)

    def test_forward(self):
        """The output matches the mask, and the mask is that of DropoutGenMask. A mask of only 0 or only 1 is not
        written."""
        def body(gen):
            d, shape = gen.pick(FLOATS), gen.shape(numel=3000, min_rank=1)
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
            n, prob, train = int(np.prod(shape)), gen.pick((0.0, 0.3, 1.0)), gen.chance(0.8)
            out, mask, plain = gen.out(d, shape), Tensor.empty(U8, (mask_bytes(n),)), Tensor.empty(U8, (mask_bytes(n),))
            mask.set(np.full(mask_bytes(n), 7))
            run("aclnnDropout", x, prob, train, self.seed, 2, out, mask)
            run("aclnnDropoutGenMaskV2", Ints(*shape), prob if train else 0.0, self.seed, 2, F32, plain)
            drawn = train and prob == 0.3
            np.testing.assert_array_equal(mask.get(), plain.get() if drawn else 7)
            again = gen.out(d, shape)
            run("aclnnDropoutDoMask", x, mask, prob if train else 0.0, again)
            np.testing.assert_array_equal(out.get(), again.get())
            third, untouched = gen.out(d, shape), Tensor.of(U8, np.full(mask_bytes(n), 7))
            run("aclnnDropoutV3", x, None, prob, self.seed, 2, third, untouched)
            if train:
                np.testing.assert_array_equal(third.get(), out.get())
            drawn = Tensor.empty(U8, (mask_bytes(n),))
            run("aclnnDropoutGenMaskV2", Ints(*shape), prob, self.seed, 2, F32, drawn)
            np.testing.assert_array_equal(untouched.get(), 7 if prob in (0.0, 1.0) else drawn.get())
        each_case(self, "dropout", 40, body)

    def test_refused(self):
        x, out = Tensor.empty(F32, (100,)), Tensor.empty(F32, (100,))
        short = Tensor.empty(U8, (15,))
        code, message = refused("aclnnDropoutDoMask", x, short, 0.5, out)
        self.assertEqual((code, "mask has 15 elements, expected 16" in message), (INVALID, True), message)
        mask = Tensor.empty(U8, (16,))
        for op, args, words in (("DoMask", (x, mask, 1.5, out), "prob is 1.5"),
                                ("Backward", (x, mask, 0.5, out), "scale is 0.5, expected 0, or 1 or more"),
                                ("Backward", (x, mask, -2.0, out), "scale is -2"),
                                ("Backward", (x, Tensor.empty(U8, (17,)), 2.0, out),
                                 "mask has 17 elements, expected 16"),
                                ("GenMaskV2", (Ints(100), 0.5, 0, 0, I32, mask), "probDataType is INT32")):
            code, message = refused("aclnnDropout" + op, *args)
            self.assertEqual((code, words in message), (INVALID, True), message)

    def test_masks_of_other_sizes(self):
        """A mask that is too long gives the same result; with an empty mask nothing is done."""
        x, long = np.arange(100, dtype=np.float32), np.arange(48, dtype=np.uint8)
        a, b = Tensor.empty(F32, (100,)), Tensor.empty(F32, (100,))
        run("aclnnDropoutDoMask", Tensor.of(F32, x), Tensor.of(U8, long), 0.5, a)
        run("aclnnDropoutDoMask", Tensor.of(F32, x), Tensor.of(U8, long[:16]), 0.5, b)
        np.testing.assert_array_equal(a.get(), b.get())
        run("aclnnDropoutDoMask", Tensor.of(F32, -x), Tensor.empty(U8, (0,)), 0.5, a)
        np.testing.assert_array_equal(a.get(), b.get())

    def test_rrelu(self):
        x = self.rng.standard_normal(N).astype(np.float32)
        noise, out = Tensor.empty(F32, (N,)), Tensor.empty(F32, (N,))
        lower, upper = Scalar(0.125, F32), Scalar(0.375, F32)
        run("aclnnRReluWithNoise", Tensor.of(F32, x), noise, lower, upper, True, self.seed, 0, out)
        slope = noise.get()
        np.testing.assert_array_equal(slope[x > 0], 1)
        drawn = slope[x <= 0]
        self.assertTrue(((drawn >= 0.125) & (drawn < 0.375)).all())
        self.even(np.histogram(drawn, 32, (0.125, 0.375))[0], np.full(32, 1 / 32), "slopes")
        np.testing.assert_array_equal(out.get(), x * slope)
        t = Tensor.of(F32, x)
        kept = Tensor.of(F32, np.full(N, 3))
        run("aclnnInplaceRReluWithNoise", t, kept, lower, upper, False, self.seed, 0)
        np.testing.assert_array_equal(t.get(), np.where(x > 0, x, x * np.float32(0.25)))
        np.testing.assert_array_equal(kept.get(), 3)

    def test_rrelu_noise_of_other_shapes(self):
        """Noise is used in the order of elements, and surplus noise is unchanged; it may be short if not training."""
        lower, upper, x = Scalar(0.125, F32), Scalar(0.375, F32), np.float32([-1, 2, -3, 4])
        expected, noise = Tensor.empty(F32, (4,)), Tensor.of(F32, np.full((2, 3), 9))
        run("aclnnInplaceRReluWithNoise", Tensor.of(F32, x), expected, lower, upper, True, self.seed, 0)
        run("aclnnInplaceRReluWithNoise", Tensor.of(F32, x), noise, lower, upper, True, self.seed, 0)
        np.testing.assert_array_equal(noise.get().reshape(-1), [*expected.get(), 9, 9])
        t, short = Tensor.of(F32, x), Tensor.empty(F32, (3,))
        run("aclnnInplaceRReluWithNoise", t, short, lower, upper, False, self.seed, 0)
        np.testing.assert_array_equal(t.get(), np.where(x > 0, x, x * np.float32(0.25)))
        code, message = refused("aclnnInplaceRReluWithNoise", t, short, lower, upper, True, 0, 0)
        self.assertEqual((code, "noise has 3 elements, expected self's 4 or more" in message), (INVALID, True), message)


class Multinomial(Case):
    weights = np.array([[1, 2, 0, 3, 4], [0, 0, 5, 0, 0], [10, 0, 1, 1, 0]], np.float32)

    def draw(self, d, weights, n, replacement, gen=None):
        weights = np.asarray(weights)
        shape = weights.shape[:-1] + (n,)
        out = gen.out(I64, shape) if gen else Tensor.empty(I64, shape)
        run("aclnnMultinomial", gen.tensor(d, weights.shape, weights) if gen else Tensor.of(d, weights), n, replacement,
            self.seed, 0, out)
        return out.get()

    def test_with_replacement(self):
        for d in FLOATS64:
            drawn = self.draw(d, self.weights, N, True)
            for row, weights in zip(drawn, self.weights):
                counts, shares = np.bincount(row, minlength=5), weights / weights.sum()
                self.assertEqual(counts[weights == 0].sum(), 0)
                if (weights > 0).sum() > 1:
                    self.even(counts[weights > 0], shares[weights > 0], f"{d} {weights}")

    def test_without(self):
        """Draws of two out of three without replacement: the second by the weights of those that are left."""
        w = np.array([1.0, 2, 5], np.float32)
        drawn = self.draw(F32, np.tile(w, (N // 4, 1)), 2, False)
        shares = {(i, j): w[i] / 8 * w[j] / (8 - w[i]) for i in range(3) for j in range(3) if i != j}
        counts = np.array([((drawn[:, 0] == i) & (drawn[:, 1] == j)).sum() for i, j in shares])
        self.assertEqual(counts.sum(), N // 4)
        self.even(counts, list(shares.values()), "without replacement")

    def test_views(self):
        gen = Gen([SEED, 80])
        for _ in range(10):
            weights = np.abs(gen.values(F32, (4, 9), limit=8)) + 1
            for n, replacement in ((5, True), (9, False)):
                np.testing.assert_array_equal(self.draw(F32, weights, n, replacement, gen),
                                              self.draw(F32, weights, n, replacement))

    def test_seed_and_offset_in_tensors(self):
        """Seed and offset in tensors give the numbers of aclnnMultinomial; the two offsets are added."""
        expected, out = Tensor.empty(I64, (3, 50)), Tensor.empty(I64, (3, 50))
        weights = Tensor.of(F32, self.weights)
        run("aclnnMultinomial", weights, 50, True, self.seed, 11, expected)
        run("aclnnMultinomialTensor", weights, 50, True, Tensor.of(I64, [self.seed]), Tensor.of(I64, [8]), 3, out)
        np.testing.assert_array_equal(out.get(), expected.get())

    def test_all_once(self):
        drawn = self.draw(F32, np.arange(1, 1001, dtype=np.float32), 1000, False)
        np.testing.assert_array_equal(np.sort(drawn), np.arange(1000))

    def test_bad_weights(self):
        for weights, words in (([1, -1, 2], r"self\[0, 1\] is -1"),
                               ([0, 0, 0], "row 0"),
                               ([1, np.nan, 0], r"self\[0, 1\] is")):
            with self.assertRaisesRegex(AclError, words):
                self.draw(F32, np.array(weights, np.float32), 2, True)
        with self.assertRaisesRegex(AclError, "has 2 weights above 0"):
            self.draw(F32, np.array([1, 0, 1], np.float32), 3, False)

    def test_refused(self):
        out = Tensor.empty(I64, (4,))
        code, message = refused("aclnnMultinomial", Tensor.empty(F32, (3,)), 4, False, 0, 0, out)
        self.assertEqual((code, "numsamples is 4, expected at most the 3" in message), (INVALID, True), message)


class Permutations(Case):
    def test_randperm(self):
        gen = Gen([SEED, 81])
        for d in INTS + FLOATS64:
            for n in (0, 1, 2, 100):
                out = gen.out(d, (n,))
                run("aclnnRandperm", n, self.seed, 0, out)
                np.testing.assert_array_equal(np.sort(out.get()), np.arange(n))

    def test_even(self):
        """All orders of four are equally frequent; in a long permutation position and number are uncorrelated."""
        counts = {}
        for k in range(N // 64):
            out = Tensor.empty(I64, (4,))
            run("aclnnRandperm", 4, self.seed, k, out)
            counts[tuple(out.get())] = counts.get(tuple(out.get()), 0) + 1
        self.assertEqual(len(counts), 24)
        self.even(np.array(list(counts.values())), np.full(24, 1 / 24), "orders of four")
        out = Tensor.empty(I64, (N,))
        run("aclnnRandperm", N, self.seed, 0, out)
        place = np.argsort(out.get())
        self.within(np.corrcoef(place, np.arange(N))[0, 1], 0, 1 / math.sqrt(N), "place and number")


if __name__ == "__main__":
    unittest.main()
