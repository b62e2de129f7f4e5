# SPDX-License-Identifier: Apache-2.0
"""Angles, polar coordinates and vector products."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Tensor, refused, run
from dtypes import BOOL, C64, C128, CLD, F32, F64, FLOATS, FLOATS64, INTS, LD, PART
from gen import each_case
from test_complex import draw

CASES = 60


class Angle(unittest.TestCase):
    def test_angle(self):
        def body(gen):
            d, shape = gen.pick(FLOATS + INTS + (BOOL, C64)), gen.shape()
            out = gen.out(F32 if d not in FLOATS else d, shape)
            x = gen.drawn(d, shape, lambda s: draw(gen, d, s)) if d is C64 else gen.tensor(d, shape)
            run("aclnnAngleV2", x, out)
            v = x.get()
            exact = np.arctan2(v.imag.astype(LD), v.real.astype(LD)) if d is C64 else \
                np.where(v < 0, LD(np.pi) + LD(1.2246467991473532e-16), np.where(v != v, v, 0).astype(LD))
            ref.check(out.get(), exact, out.dtype, ulps=0.5 if d is not C64 else 0.6)
        each_case(self, "aclnnAngleV2", 2 * CASES, body)


class Polar(unittest.TestCase):
    def test_polar(self):
        def body(gen):
            d, shape = gen.pick((C64, C64, C128)), gen.shape(max_rank=6)
            a, b = gen.broadcast_pair(shape)
            part = PART[d]
            size = gen.drawn(part, a, lambda s: gen.values(part, s, limit=50))
            angle = gen.drawn(part, b, lambda s: gen.values(part, s, limit=50))
            out = gen.out(d, shape)
            run("aclnnPolar", size, angle, out)
            r, t = size.get().astype(LD), angle.get().astype(LD)
            for got, exact in ((out.get().real, r * np.cos(t)), (out.get().imag, r * np.sin(t))):
                ref.check(got, np.broadcast_to(exact, shape), part, ulps=2)
        each_case(self, "aclnnPolar", CASES, body)

    def test_refused(self):
        code, message = refused("aclnnPolar", Tensor.empty(F32, (2,)), Tensor.empty(F32, (3,)), Tensor.empty(C64, (3,)))
        self.assertEqual(code, INVALID)
        self.assertIn("angle has shape [3]", message)


class Cross(unittest.TestCase):
    def test_cross(self):
        def body(gen):
            d = gen.pick(FLOATS64 + INTS + (C64, C128))
            shape = list(gen.shape(max_rank=6, min_rank=1))
            axis = gen.integer(0, len(shape) - 1)
            shape[axis] = 3
            x, y = ([1 if gen.chance(0.15) else n for n in shape] for _ in "ab")
            for k, n in enumerate(shape):
                if x[k] != n:
                    y[k] = n
            short = x if gen.chance(0.5) else y
            while short[0] == 1 and len(short) > 1 and gen.chance(0.7) and axis > len(shape) - len(short):
                short.pop(0)
            dim = axis - len(shape) + (len(x) if gen.chance(0.5) else 0)      # of self, which may have fewer dimensions
            a, b = (gen.drawn(d, s, lambda s: draw(gen, d, s)) for s in (x, y))
            out = gen.out(d, shape)
            run("aclnnLinalgCross", a, b, dim, out)
            wide = {"f": LD, "c": CLD, "i": d.values}[d.kind]
            u, v = (np.moveaxis(np.broadcast_to(t.get().astype(wide), shape), axis, 0) for t in (a, b))
            exact, size = (np.stack([f(u[j] * v[k], u[k] * v[j]) for j, k in ((1, 2), (2, 0), (0, 1))])
                           for f in (lambda p, q: p - q, lambda p, q: np.abs(p) + np.abs(q)))
            exact, size = (np.moveaxis(t, 0, axis) for t in (exact, size))
            if d.kind == "i":
                ref.check_equal(out.get(), exact)
            elif d.kind == "f":
                ref.check(out.get(), exact, d, F64, ulps=1, slack=4 * F64.ulp(size))
            else:
                for got, e in ((out.get().real, exact.real), (out.get().imag, exact.imag)):
                    ref.check(got, e, PART[d], F64, ulps=1, slack=8 * F64.ulp(size))
        each_case(self, "aclnnLinalgCross", 3 * CASES, body)

    def test_refused(self):
        x = Tensor.empty(F32, (2, 3))
        for name, args in (("dim", (x, x, 2, x)),
                           ("out", (x, x, 0, x)),
                           ("other", (x, Tensor.empty(F64, (2, 3)), 1, x)),
                           ("self", (Tensor.empty(F32, (4, 3)), x, 1, x)),
                           ("dim", (Tensor.empty(F32, (3,)), x, 1, x)),
                           ("dim", (Tensor.empty(F32, (3,)), x, -2, x)),
                           ("self", (Tensor.empty(F32, ()), x, 0, x))):
            with self.subTest(name):
                code, message = refused("aclnnLinalgCross", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
