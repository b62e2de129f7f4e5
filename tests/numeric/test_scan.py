# SPDX-License-Identifier: Apache-2.0
"""Running sums, products, maxima and minima: rounded once, with the same bits for every layout."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Scalar, Tensor, refused, run
from dtypes import BF16, C64, C128, CLD, COMPLEX, F16, F32, F64, FLOATS64, I32, I64, INTS, LD, U8, computed_in
from gen import each_case

CASES = 120
SHAPES = ((5000,), (70003,), (3, 2001), (2001, 3), (66000, 2), (40, 9, 33), (17, 130), (7, 8), (8, 300))
TYPES = ((F32, F32), (F16, F16), (BF16, BF16), (F64, F64), (F16, F32), (I32, I64), (U8, I64), (I64, I64), (I32, F32))
COMPLEX_TYPES = ((C64, C64), (C128, C128), (C64, C128), (C128, C64), (F32, C64), (F64, C64), (I32, C128))
WIDE = {"f": LD, "c": CLD}


def scannable(gen):
    return gen.pick(SHAPES) if gen.chance(0.3) else gen.shape()


def axis_of(gen, shape):
    axis = gen.integer(0, max(len(shape) - 1, 0))
    return axis, axis - max(len(shape), 1) if gen.chance(0.4) else axis


class Scans(unittest.TestCase):
    def check(self, gen, op, x, make_args, target, exact, slack):
        out, other = gen.out(target, x.shape), gen.out(target, x.shape)
        run(op, x, *make_args(out))
        if target.kind == "i":
            ref.check_equal(out.get(), exact, op)
        elif target.kind == "c":
            ref.check_parts(out.get(), exact, target, 1, slack, op)
        else:
            ref.check(out.get(), exact, target, computed_in(target), ulps=1, slack=slack, what=op)
        run(op, gen.again(x), *make_args(other))
        ref.check_equal(other.bits(), out.bits(), op + ": bits in another layout")

    def test_cumsum(self):
        def body(gen):
            source, target = gen.pick(TYPES + COMPLEX_TYPES)
            x = gen.drawn(source, scannable(gen), lambda s: gen.values(source, s, limit=10))
            axis, passed = axis_of(gen, x.shape)
            v = np.atleast_1d(x.get()).astype(WIDE.get(target.kind, target.values))
            exact = v.cumsum(axis, v.dtype).reshape(x.shape)
            slack = np.abs(v).cumsum(axis).reshape(x.shape) * LD(2) ** -44 * max(1, v.size / 4096) \
                if target.kind in WIDE else 0
            self.check(gen, "aclnnCumsum", x, lambda o: (passed, target, o), target, exact, slack)
        each_case(self, "aclnnCumsum", CASES, body)

    def test_short_rows(self):
        """Many rows of each short length: contiguous, strided, and as columns; exclusive scans of empty rows too."""
        rng = np.random.default_rng(8)
        for n in range(1, 36):
            for d in (F32, BF16):
                values = rng.integers(-4, 5, (37, n)).astype(np.float32)
                x, apart, columns = (Tensor(d, (37, n), *s).set(values) for s in ((), ((n + 3, 1),), ((1, 37),)))
                for t in (x, apart, columns):
                    for exclusive in (False, True):
                        out = Tensor.empty(d, (37, n))
                        run("aclnnCumsumV2", t, 1, exclusive, False, out)
                        exact = values.cumsum(1) - (values if exclusive else 0)
                        ref.check_equal(out.get(), exact, f"sums along rows of {n} of {d}, exclusive {exclusive}")

    def test_cumsum_v2(self):
        def body(gen):
            d = gen.pick(FLOATS64 + COMPLEX + (I32, I64))
            x = gen.drawn(d, scannable(gen), lambda s: gen.values(d, s, limit=10))
            axis, passed = axis_of(gen, x.shape)
            exclusive, reverse = gen.chance(0.5), gen.chance(0.5)
            v = np.atleast_1d(x.get()).astype(WIDE.get(d.kind, d.values))
            v = np.flip(v, axis) if reverse else v
            exact = v.cumsum(axis, v.dtype)
            if exclusive and exact.size:
                exact = np.roll(exact, 1, axis)
                exact[tuple(0 if i == axis else slice(None) for i in range(exact.ndim))] = 0
            exact = (np.flip(exact, axis) if reverse else exact).reshape(x.shape)
            slack = np.abs(v).sum() * LD(2) ** -44 * max(1, v.size / 4096) if d.kind in WIDE else 0
            self.check(gen, "aclnnCumsumV2", x, lambda o: (passed, exclusive, reverse, o), d, exact, slack)
        each_case(self, "aclnnCumsumV2", CASES, body)

    def test_cumprod(self):
        def body(gen):
            source, target = gen.pick(TYPES)
            x = gen.drawn(source, scannable(gen),
                          lambda s: np.where(gen.rng.random(s) < 0.9, 1, gen.rng.integers(1, 3, s)))
            axis, passed = axis_of(gen, x.shape)
            v = np.atleast_1d(x.get()).astype(LD if target.kind == "f" else target.values)
            with np.errstate(all="ignore"):
                exact = v.cumprod(axis, v.dtype).reshape(x.shape)
            if target.kind == "f" and exact.size and exact.max() > 1e300:
                return
            dim, dtype = Scalar(passed, gen.pick((I32, I64))), gen.pick((target, -1))
            self.check(gen, "aclnnCumprod", x, lambda o: (dim, dtype, o), target, exact, 0)
            if source is target:
                place = gen.out(source, x.shape, x.get())
                run("aclnnInplaceCumprod", place, dim)
                if target.kind == "i":
                    ref.check_equal(place.get(), exact)
                else:
                    ref.check(place.get(), exact, target, ulps=1)
        each_case(self, "aclnnCumprod", CASES, body)

    def test_extremes(self):
        for op, better in (("aclnnCummax", np.greater_equal), ("aclnnCummin", np.less_equal)):
            def body(gen, op=op, better=better):
                d = gen.pick(FLOATS64 + INTS)
                shape = gen.shape(numel=300) if gen.chance(0.8) else gen.pick(((2500,), (30, 200), (200, 30)))
                x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=3 if gen.chance(0.5) else None))
                axis, passed = axis_of(gen, shape)
                v = np.moveaxis(np.atleast_1d(x.get()), axis, 0)
                values, places = v.copy(), np.zeros(v.shape, np.int64)
                for k in range(1, len(v)):                       # the last of equal ones wins; so does the last NaN
                    takes = better(v[k], values[k - 1]) | (v[k] != v[k])
                    values[k] = np.where(takes, v[k], values[k - 1])
                    places[k] = np.where(takes, k, places[k - 1])
                out, where = gen.out(d, shape), gen.out(gen.pick((I32, I64)), shape)
                run(op, x, passed, out, where)
                ref.check_equal(out.get(), np.moveaxis(values, 0, axis).reshape(shape), op)
                ref.check_equal(where.get(), np.moveaxis(places, 0, axis).reshape(shape), op + " places")
            each_case(self, op, CASES, body)

    def test_special_values(self):
        """Infinities and NaN affect what follows them, and nothing before."""
        v = np.ones(100, np.float32)
        v[37], v[61] = np.inf, -np.inf
        x, out = Tensor.of(F32, v), Tensor.empty(F32, (100,))
        run("aclnnCumsum", x, 0, F32, out)
        got = out.get()
        ref.check_equal(got[:37], np.arange(1, 38, dtype=np.float32))
        assert np.isposinf(got[37:61]).all() and np.isnan(got[61:]).all()

    def test_long(self):
        """A row that is long enough for threads is scanned in chunks, and equals the same row among columns, which is
        not."""
        v = np.random.default_rng(5).standard_normal(1_500_000).astype(np.float32)
        x, out = Tensor.of(F32, v), Tensor.empty(F32, v.shape)
        run("aclnnCumsum", x, 0, F32, out)
        np.testing.assert_allclose(out.get(), v.astype(np.float64).cumsum(), rtol=1e-6, atol=1e-6)
        pairs, sums = Tensor.of(C64, v.view(np.complex64)), Tensor.empty(C64, (v.size // 2,))
        run("aclnnCumsum", pairs, 0, C64, sums)
        np.testing.assert_allclose(sums.get(), v.view(np.complex64).astype(np.complex128).cumsum(),
                                   rtol=1e-6, atol=1e-6)
        two, both = Tensor.of(F32, np.stack([v, v], 1)), Tensor.empty(F32, (v.size, 2))
        run("aclnnCumsum", two, 0, F32, both)
        ref.check_equal(both.bits()[:, 1], out.bits(), "bits by columns and by chunks")

    def test_errors(self):
        x, out = Tensor.of(F32, np.zeros((2, 3), np.float32)), Tensor.empty(F32, (3, 2))
        z = Tensor.of(C64, np.zeros((2, 3), np.complex64))
        for words, op, *args in (
                (("dim is 2", "-2 to 1"), "aclnnCumsum", x, 2, F32, x),
                (("out has shape [3, 2]", "[2, 3]"), "aclnnCumsum", x, 0, F32, out),
                (("dtype is DOUBLE",), "aclnnCumsum", x, 0, F64, out),
                (("out has dtype FLOAT", "complex"), "aclnnCumsum", z, 0, F32, x),
                (("input has dtype COMPLEX64",), "aclnnCumprod", z, Scalar(0, I64), C64, z),
                (("indicesOut has dtype FLOAT",), "aclnnCummax", x, 0, x, x),
                (("dim is -3",), "aclnnInplaceCumprod", x, Scalar(-3, I64)),
                (("dim is FLOAT", "integer"), "aclnnInplaceCumprod", x, Scalar(0, F32)),
                (("dim is FLOAT", "integer"), "aclnnCumprod", x, Scalar(0, F32), F32, x)):
            code, message = refused(op, *args)
            assert code == INVALID and all(w in message for w in words), (op, code, message)


if __name__ == "__main__":
    unittest.main()
