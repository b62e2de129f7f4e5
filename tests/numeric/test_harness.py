# SPDX-License-Identifier: Apache-2.0
"""The tester's own arithmetic, against NumPy's and against bit tricks. Needs no library."""
import contextlib
import io
import unittest

import numpy as np

import golden
import reference as ref
from acl import Tensor
from dtypes import ALL, BF16, BOOL, F16, F32, F64, I16, I64, I8, LD, U8, promote, promote_scalar
from gen import Gen, SEED


def bf16_by_bits(x):
    """Nearest even by adding half a unit to the bits: what C code would do."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


class Harness(unittest.TestCase):
    def setUp(self):
        self.gen = Gen([SEED, 1])

    def test_rounding(self):
        for source in (F16, F32, F64):
            for _ in range(50):
                x = self.gen.values(source, (200,))
                for target, native in ((F32, np.float32), (F16, np.float16)):
                    np.testing.assert_array_equal(target.round(x), x.astype(native), f"{source} CANNON_SEED={SEED}")
                np.testing.assert_array_equal(BF16.round(np.float32(x)), bf16_by_bits(np.float32(x)))

    def test_storage_keeps_values(self):
        for d in ALL:
            x = self.gen.values(d, (500,))
            np.testing.assert_array_equal(d.load(d.store(x)), x, str(d))

    def test_ulp(self):
        x = np.float32([1, 1.5, 2, 0, 1e-45, 1e-38, 3e38, -7])
        np.testing.assert_array_equal(F32.ulp(x).astype(np.float32), np.spacing(np.abs(x)))
        self.assertEqual(float(BF16.ulp(1.0)), 2.0 ** -7)

    def test_check_is_sharp(self):
        """One unit more than allowed is refused, for every output type; what is allowed passes."""
        exact = np.full(3, LD(0.375))                              # held by every type
        for out, ulps, allowed in ((F32, 2, 2), (F32, 0.5, 0), (F64, 2, 2), (F16, 2, 0), (BF16, 2, 0)):
            right = out.round(exact).astype(LD)
            ref.check((right + allowed * out.ulp(right)).astype(out.values), exact, out, ulps=ulps)
            with self.assertRaises(AssertionError):
                ref.check((right + (allowed + 1) * out.ulp(right)).astype(out.values), exact, out, ulps=ulps)
        for got, expected in ((np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (3e38, np.inf), (-np.inf, np.inf)):
            with self.assertRaises(AssertionError):
                ref.check(np.float32(got), LD(expected), F32)
        with self.assertRaises(AssertionError):
            ref.check(np.float32(0.0), LD(-0.0), F32, zero_sign=True)

    def test_promotion(self):
        for a, b, both in ((F16, BF16, F32), (F16, F32, F32), (I64, F16, F16), (BOOL, I8, I8), (U8, I8, I16),
                           (F64, BF16, F64), (BOOL, BOOL, BOOL)):
            self.assertIs(promote(a, b), both)
            self.assertIs(promote(b, a), both)
        for t, s, both in ((F16, F64, F16), (I8, I64, I8), (I8, F64, F32), (BOOL, I64, I64), (F32, BOOL, F32)):
            self.assertIs(promote_scalar(t, s), both)

    def test_views_do_not_overlap(self):
        for _ in range(200):
            shape = self.gen.shape()
            strides, offset, n = self.gen.layout(shape)
            if strides and 0 not in shape:
                cells = offset + sum(np.indices(shape)[i] * s for i, s in enumerate(strides)) if shape else np.zeros(1)
                self.assertEqual(np.unique(cells).size, np.size(cells))
                self.assertLess(np.max(cells), n)


class Golden(unittest.TestCase):
    def line(self, act, values=(1, 2)):
        """What golden.py records of aclnnAbs where act(out) takes the place of the call."""
        def refused(op, x, out):
            return act(out)
        text = io.StringIO()
        with contextlib.suppress(ValueError):
            golden.Recorder(text, "v3")(refused, "aclnnAbs", Tensor.of(F32, values), Tensor.of(F32, [0, 0]))
        return golden.read_line(text.getvalue())

    def test_notes_every_bit(self):
        def nan(payload):
            def act(out):
                out.block.body.view(np.uint32)[1] = 0x7FC00000 + payload
            return act

        def fail(out):
            raise ValueError("no")
        right = self.line(nan(0))
        self.assertEqual(golden.difference(right, self.line(nan(0))), "")
        for line, words in ((self.line(nan(1)), "^out is .*, expected "), (self.line(fail), "raised is ValueError"),
                            (self.line(lambda out: "dim is 7"), "^refused is 'dim is 7'"),
                            (self.line(nan(0), (1, 3)), "the test's inputs differ"), (None, "is missing")):
            self.assertRegex(golden.difference(right, line), words)
            comparison = golden.Comparison()
            with contextlib.redirect_stdout(io.StringIO()) as told:
                comparison.add([right], [line] if line else [])
                comparison.summary()
            self.assertTrue(comparison.different["aclnnAbs"])
            self.assertRegex(told.getvalue(), "elementwise +1 +1 +1  aclnnAbs")


if __name__ == "__main__":
    unittest.main()
