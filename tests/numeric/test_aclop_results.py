# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that draw random numbers, look rows up, or whose results have shapes that depend on data."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BF16, F16, F32, F64, I8, I16, I32, I64, LD, U8
from gen import each_case


def one(d, value):
    return Operand.of(d, np.array(value, d.values))


class Random(unittest.TestCase):
    N = 60_000

    def test_uniform(self):
        for d in (F32, F16, BF16, F64):
            y, z = (Operand.empty(d, (3, self.N // 3)) for _ in range(2))
            for out in (y, z):
                execute("RandomUniform", [Host(y.shape)], [out], {"seed": 3, "seed2": 5, "dtype": 0})
            x = y.get().astype(np.float64)
            self.assertTrue(0 <= x.min() < 0.01 and 0.99 < x.max() < 1, (d, x.min(), x.max()))
            counts = np.histogram(x, 10, (0, 1))[0]
            self.assertLess(np.abs(counts - self.N / 10).max(), 500, d)     # 7 deviations
            self.assertFalse(np.array_equal(y.get(), z.get()))            # a call has numbers of its own

    def test_normal(self):
        for d in (F32, F16, BF16, F64):
            y = Operand.empty(d, (self.N,))
            execute("RandomStandardNormal", [Host(y.shape, np.int32)], [y], {"seed": 0, "seed2": 7})
            x = y.get().astype(np.float64)
            self.assertLess(abs(x.mean()), 0.03, d)
            self.assertLess(abs(x.std() - 1), 0.02, d)
            self.assertLess(abs((np.abs(x) < 1).mean() - 0.6827), 0.015, d)

    def test_integers(self):
        def body(gen):
            d = gen.pick((I32, I64))
            limit = 2 ** 31 - 1 if d is I32 else 2 ** 63 - 1
            least = gen.pick((-limit - 1, -5, 0, 7))
            above = gen.pick((least + 1, least + 6, limit))
            y = Operand.empty(d, (20, 50))
            execute("RandomUniformInt", [Host(y.shape), one(d, least), one(d, above)], [y], {"seed": gen.integer(0, 9)})
            x = y.get()
            self.assertTrue(least <= x.min() and x.max() < above, (least, above))
            if above - least == 6:
                self.assertLess(np.abs(np.bincount(x.reshape(-1) - least, minlength=6) - 1000 / 6).max(), 90)
            elif above == limit:
                self.assertGreater(float(x.max()), least + 0.9 * (float(limit) - least))
        each_case(self, "RandomUniformInt", 12, body)

    def test_wrong(self):
        y = Operand.empty(I32, (4,))
        with self.assertRaisesRegex(AclError, "min is 3 and max is 3, expected max above min"):
            execute("RandomUniformInt", [Host((4,)), one(I32, 3), one(I32, 3)], [y], {})
        for shape, words in (((5,), r"y has shape \[4\], expected \[5\]"), ((1,) * 9, "shape has 9 elements")):
            with self.assertRaisesRegex(AclError, words):
                execute("RandomUniform", [Host(shape)], [Operand.empty(F32, (4,))], {})
        with self.assertRaisesRegex(AclError, "y has dtype INT32"):
            execute("RandomUniform", [Host((4,))], [y], {})


class Lookup(unittest.TestCase):
    def test_rows(self):
        def body(gen):
            d, k = gen.pick((F32, F16, BF16, I64, U8)), gen.pick((I32, I64, I16, I8))
            shape = (gen.integer(0, 9), *(gen.integer(1, 6) for _ in range(gen.integer(0, 2))))
            at = tuple(gen.integer(0, 6) for _ in range(gen.integer(0, 3)))
            offset = gen.integer(-3, 20)
            param = Operand.of(d, gen.values(d, shape))
            index = gen.rng.integers(offset - 4, offset + shape[0] + 4, at).astype(k.values)
            rows = np.concatenate([param.get(), np.zeros((1, *shape[1:]), param.get().dtype)])
            place = index.astype(np.int64) - offset
            y = Operand.empty(d, (*at, *shape[1:]))
            execute("EmbeddingLookup", [param, Operand.of(k, index), one(I64, offset)], [y], {})
            ref.check_equal(y.get(), rows[np.where((place >= 0) & (place < shape[0]), place, shape[0])])
        each_case(self, "EmbeddingLookup", 30, body)
        x, i = Operand.of(F32, np.ones((2, 3), np.float32)), Operand.of(I32, np.zeros(4, np.int32))
        with self.assertRaisesRegex(AclError, r"output has shape \[4, 2\], expected \[4, 3\]"):
            execute("EmbeddingLookup", [x, i, one(I64, 0)], [Operand.empty(F32, (4, 2))], {})


class Values(unittest.TestCase):
    def test_unique(self):
        def body(gen):
            d, n = gen.pick((F32, F16, BF16, F64, I64, I32, U8, I8)), gen.integer(0, 300)
            x = Operand.of(d, gen.rng.integers(0, gen.pick((3, 100)), n).astype(d.values))
            y, idx = Operand.empty(d, (n,)), Operand.empty(gen.pick((I32, I64)), (n,))
            shapes = execute("Unique", [x], [y, idx], {}, shapes=True)
            order = list(dict.fromkeys(x.get().tolist()))
            self.assertEqual(shapes, [(len(order),), (n,)])
            ref.check_equal(y.get()[:len(order)], np.array(order, y.get().dtype))
            ref.check_equal(y.get()[idx.get()], x.get())
        each_case(self, "Unique", 30, body)

    def test_without_shapes(self):
        x, y, idx = Operand.of(I32, np.array([5, 3, 5], np.int32)), Operand.empty(I32, (3,)), Operand.empty(I32, (3,))
        self.assertEqual(execute("Unique", [x], [y, idx], {}), [(3,), (3,)])   # a call that tells no shapes
        ref.check_equal(y.get()[:2], [5, 3])
        ref.check_equal(idx.get(), [0, 1, 0])

    def test_unique_wrong(self):
        x = Operand.of(F32, np.ones((2, 2), np.float32))
        with self.assertRaisesRegex(AclError, "x has shape .*, expected 1 dimension"):
            execute("Unique", [x], [x, Operand.empty(I32, (2, 2))], {})


class GreedyDecoder(unittest.TestCase):
    @staticmethod
    def outputs(d, n, samples):
        return [Operand.empty(*s) for s in ((I64, (n, 2)), (I64, (n,)), (I64, (2,)), (d, (samples, 1)))]

    def body(self, gen):
        d, merge = gen.pick((F32, F64)), gen.chance(0.5)
        times, samples, classes = gen.integer(0, 20), gen.integer(1, 5), gen.integer(1, 5)
        x = gen.rng.integers(-9, 9, (times, samples, classes)).astype(d.values) / 4
        lengths = gen.rng.integers(0, times + 1, samples).astype(np.int32)
        out = self.outputs(d, times * samples, samples)
        shapes = execute("CTCGreedyDecoder", [Operand.of(d, x), Operand.of(I32, lengths)], out,
                         {"merge_repeated": merge}, shapes=True)
        at, values, sums = [], [], np.zeros((samples, 1), LD)
        for b in range(samples):
            best = x[:lengths[b], b].argmax(1)
            sums[b] = -x[:lengths[b], b].max(1).astype(LD).sum()
            kept = [c for t, c in enumerate(best)
                    if c != classes - 1 and not (merge and t and best[t - 1] == c)]
            at += [(b, t) for t in range(len(kept))]
            values += kept
        self.assertEqual(shapes, [(len(values), 2), (len(values),), (2,), (samples, 1)])
        ref.check_equal(out[0].get()[:len(values)], np.array(at, np.int64).reshape(-1, 2))
        ref.check_equal(out[1].get()[:len(values)], np.array(values, np.int64))
        ref.check_equal(out[2].get(), [samples, max((t + 1 for _, t in at), default=0)])
        ref.check(out[3].get(), sums, d)

    def test_samples(self):
        each_case(self, "CTCGreedyDecoder", 30, self.body)

    def test_wrong(self):
        x = Operand.of(F32, np.zeros((3, 2, 4), np.float32))
        with self.assertRaisesRegex(AclError, r"sequence_length\[1\] is 4, expected 0 to 3"):
            execute("CTCGreedyDecoder", [x, Operand.of(I32, np.array([3, 4], np.int32))], self.outputs(F32, 6, 2), {})
        with self.assertRaisesRegex(AclError, r"sequence_length has shape \[3\], expected \[2\]"):
            execute("CTCGreedyDecoder", [x, Operand.of(I32, np.zeros(3, np.int32))], self.outputs(F32, 6, 2), {})


if __name__ == "__main__":
    unittest.main()
