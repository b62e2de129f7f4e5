# SPDX-License-Identifier: Apache-2.0
"""AffineGrid, GridSampler and its gradients, compared with sums over taps in long double."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import Bools, INVALID, NULLPTR, Ints, Tensor, refused, run
from dtypes import F16, F32, F64, FLOATS64, LD
from gen import each_case

CASES = 40
LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def mirrored(x, size, align):
    """The coordinate reflected at the borders until it is inside the image."""
    low, span = (LD(0), LD(size - 1)) if align else (LD(-0.5), LD(size))
    if span == 0:
        return LD(0)
    x = abs(x - low)
    turns, rest = np.floor(x / span), np.fmod(x, span)
    return (rest if turns % 2 == 0 else span - rest) + low


def padded(x, size, padding, align):
    if padding == REFLECTION:
        x = mirrored(x, size, align)
    return x if padding == ZEROS else min(max(x, LD(0)), LD(size - 1))


def cubic(d, a=LD(-0.75)):
    d = abs(d)
    return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def place(at, size, align, d):
    """The position of a coordinate from -1 to 1, computed in float (in double for doubles), as in PyTorch."""
    T = np.float64 if d is F64 else np.float32
    scale = T((size - 1) if align else size) / T(2)
    return LD(T(T(T(at) + T(1)) * scale) - T(0 if align else 0.5)) if d is not None else \
        (at + 1) * LD(scale) - LD(0 if align else 0.5)


def axis_weights(at, size, mode, padding, align, d):
    """[(index, weight)] of the taps along an axis."""
    x = place(at, size, align, d)
    if mode == CUBIC:
        base = np.floor(x)
        taps = [(padded(base + i, size, padding, align), cubic(x - base - i)) for i in range(-1, 3)]
    else:
        x = padded(x, size, padding, align)
        base = np.floor(x)
        taps = [(np.rint(x), LD(1))] if mode == NEAREST else [(base, base + 1 - x), (base + 1, x - base)]
    return [(int(i), w) for i, w in taps if 0 <= i < size]


def matrix(grid, sizes, mode, padding, align, d):
    """[points, elements of a plane], for a batch's grid [points, axes], whose components are x, y(, z)."""
    m = np.zeros((len(grid), int(np.prod(sizes))), LD)
    for row, at in zip(m, grid):
        axes = [axis_weights(c, n, mode, padding, align, d) for c, n in zip(at[::-1], sizes)]
        for taps in itertools.product(*axes):
            row[np.ravel_multi_index([i for i, _ in taps], sizes)] += np.prod([w for _, w in taps])
    return m


class Sampler(unittest.TestCase):
    def drawn(self, gen, axes):
        sizes, outs = ([gen.integer(1, {2: 9, 3: 5}[axes]) for _ in range(axes)] for _ in "io")
        if gen.chance(0.1):
            outs = [1] * (axes - 1) + [gen.integer(60, 140)]
        n, c, d = gen.integer(1, 2), gen.integer(1, 4), gen.pick(FLOATS64)
        mode, padding = gen.integer(0, 2 if axes == 2 else 1), gen.integer(0, 2)
        shape = (n, *outs, axes)
        grid = gen.drawn(d, shape, lambda s: d.round(gen.rng.uniform(-1.6, 1.6, s)))
        return d, n, c, sizes, outs, grid, mode, padding, gen.chance(0.5)

    def forward(self, gen, axes):
        d, n, c, sizes, outs, grid, mode, padding, align = self.drawn(gen, axes)
        if d is F64 and mode == CUBIC:
            mode = LINEAR
        x = gen.drawn(d, (n, c, *sizes), lambda s: gen.values(d, s, limit=8))
        out = gen.out(d, (n, c, *outs))
        run(f"aclnnGridSampler{axes}D", x, grid, mode, padding, align, out)
        for b in range(n):
            m = matrix(grid.get()[b].reshape(-1, axes), sizes, mode, padding, align, d)
            flat = x.get()[b].astype(LD).reshape(c, -1)
            exact, size = flat @ m.T, np.abs(flat) @ np.abs(m).T
            ref.check(out.get()[b].reshape(c, -1), exact, d, F64, ulps=1, slack=32 * F64.ulp(size + 8),
                      what=f"mode {mode}, padding {padding}, align {align}: ")

    def backward(self, gen, axes):
        d, n, c, sizes, outs, grid, mode, padding, align = self.drawn(gen, axes)
        x, g = (gen.drawn(d, (n, c, *s), lambda s: gen.values(d, s, limit=8)) for s in (sizes, outs))
        to_x, to_grid = gen.out(d, x.shape), gen.out(d, grid.shape)
        which = gen.pick(((True, True), (True, False), (False, True)))
        run(f"aclnnGridSampler{axes}DBackward", g, x, grid, mode, padding, align, Bools(*which),
            to_x, to_grid)
        eps = F64.ulp(1) if d is F64 else F32.ulp(1)
        for b in range(n):
            places = grid.get()[b].reshape(-1, axes)
            m = matrix(places, sizes, mode, padding, align, d)
            top = g.get()[b].astype(LD).reshape(c, -1)
            flat = x.get()[b].astype(LD).reshape(c, -1)
            if which[0]:
                exact, size = top @ m, np.abs(top) @ np.abs(m)
                ref.check(to_x.get()[b].reshape(c, -1), exact, d, slack=(8 + len(places)) * eps * size +
                          64 * F64.ulp(1) * np.abs(top).sum(1, keepdims=True))
            if which[1]:
                self.check_slopes(to_grid.get()[b].reshape(-1, axes), places, sizes, mode, padding, align, d, top, flat)

    def check_slopes(self, got, places, sizes, mode, padding, align, d, top, flat):
        """Compares gradients by the grid with differences of the weights, away from the kinks of the weights."""
        h = LD(2) ** -16
        size = np.abs(flat).max() * np.abs(top).max() * len(top) * 40 * max(sizes)
        for k in range(got.shape[1]):
            step = np.zeros(got.shape[1], LD)
            step[k] = h
            at = places.astype(LD)
            if mode == NEAREST:
                ref.check_equal(got[:, k], np.zeros(len(got)))
                continue
            slope = [matrix(at + s * step, sizes, mode, padding, align, None) for s in (1, -1)]
            exact = np.einsum("co,ci,oi->o", top, flat, (slope[0] - slope[1]) / (2 * h))
            x = np.array([place(v, sizes[::-1][k], align, None) for v in at[:, k]])
            smooth = np.abs(2 * x - np.rint(2 * x)) > 0.01
            tolerance = LD(1e-7 if d is F64 else 2e-6) * size + LD(2) ** -d.digits * 2 * np.abs(exact)
            ref.complain(got[:, k], exact, (np.abs(got[:, k] - exact) <= tolerance) | ~smooth, f"component {k}",
                         lambda i: f"within {tolerance[i]}")

    def test_forward(self):
        for axes in (2, 3):
            each_case(self, f"aclnnGridSampler{axes}D", 2 * CASES, lambda g, n=axes: self.forward(g, n))

    def test_backward(self):
        for axes in (2, 3):
            each_case(self, f"aclnnGridSampler{axes}DBackward", 2 * CASES, lambda g, n=axes: self.backward(g, n))

    def test_no_numbers(self):
        """Points that are NaN or far away are outside; points outside add nothing, whatever the image holds."""
        x = Tensor.of(F32, np.full((1, 1, 2, 2), np.inf))
        points = [[np.nan, 0], [np.inf, 0], [0, -np.inf], [1e30, 1e30], [3, 3]]
        grid = Tensor.of(F32, np.float32(points).reshape(1, 1, 5, 2))
        out = Tensor.empty(F32, (1, 1, 1, 5))
        for mode in (LINEAR, NEAREST):
            run("aclnnGridSampler2D", x, grid, mode, ZEROS, False, out)
            ref.check_equal(out.get().ravel(), np.zeros(5, np.float32))

    def test_refused(self):
        x, grid, out = (Tensor.empty(F32, s) for s in ((1, 2, 3, 4), (1, 5, 6, 2), (1, 2, 5, 6)))
        for name, args in (("interpolationMode", (x, grid, 3, 0, True, out)),
                           ("paddingMode", (x, grid, 0, 3, True, out)),
                           ("grid has shape", (x, Tensor.empty(F32, (1, 5, 6, 3)), 0, 0, True, out)),
                           ("grid has dtype", (x, Tensor.empty(F16, (1, 5, 6, 2)), 0, 0, True, out)),
                           ("out", (x, grid, 0, 0, True, x)),
                           ("input", (Tensor.empty(F32, (1, 2, 0, 4)), grid, 0, 0, True, out))):
            with self.subTest(name):
                code, message = refused("aclnnGridSampler2D", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)
        for wanted in (True, False):
            code, message = refused("aclnnGridSampler2DBackward", out, x, grid, 0, 0, True, Bools(wanted, True), None,
                                    grid)
            self.assertEqual(code, NULLPTR)
            self.assertIn("inputGrad", message)
        wide = [Tensor.empty(F64, t.shape) for t in (x, grid, out)]
        code, message = refused("aclnnGridSampler2D", *wide[:2], 2, 0, True, wide[2])
        self.assertEqual(code, INVALID)
        self.assertIn("input has dtype DOUBLE", message)


class Affine(unittest.TestCase):
    def test_affine_grid(self):
        def body(gen):
            axes, d, align = gen.integer(2, 3), gen.pick(FLOATS64), gen.chance(0.5)
            n, outs = gen.integer(1, 3), [gen.integer(1, 7) for _ in range(axes)]
            if gen.chance(0.1):
                outs[-1] = 600
            theta = gen.drawn(d, (n, axes, axes + 1), lambda s: gen.values(d, s, limit=4))
            out = gen.out(d, (n, *outs, axes))
            run("aclnnAffineGrid", theta, Ints(n, gen.integer(1, 9), *outs), align, out)
            lines = [(2 * np.arange(k, dtype=LD) + 1 - k) / max(k - 1 if align else k, 1) for k in outs]
            points = np.stack([*np.meshgrid(*lines, indexing="ij")][::-1] + [np.ones(outs, LD)], -1)
            t = theta.get().astype(LD)
            exact, size = (np.einsum("nij,...j->n...i", f(t), f(points)) for f in (lambda v: v, np.abs))
            ref.check(out.get(), exact, d, F64, ulps=1, slack=8 * F64.ulp(size))
        each_case(self, "aclnnAffineGrid", CASES, body)
        code, message = refused("aclnnAffineGrid", Tensor.empty(F32, (1, 2, 3)), Ints(1, 2, 0, 4), True,
                                Tensor.empty(F32, (1, 0, 4, 2)))
        self.assertEqual(code, INVALID)
        self.assertIn("size[2] is 0", message)


if __name__ == "__main__":
    unittest.main()
