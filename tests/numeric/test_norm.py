# SPDX-License-Identifier: Apache-2.0
"""Norms over rows, groups and channels, and their gradients, against their definitions in long double.

The bounds: statistics are sums in blocks, so the error of an element is at most some tens of float units (EPS) of its
own magnitude and of the deviation's. The gradients of gamma and beta are sums over rows, in groups of 32 rows."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, Bools, Ints, Scalar, Tensor, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS, I32, I64, LD
from gen import each_case

CASES = 50
EPS = LD(2) ** -23


# ---- references

def stats(x, axes, eps):
    mean = x.mean(axes, keepdims=True)
    return mean, 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def swish(x, scale):
    return x * sigmoid(scale * x)


def swish_slope(x, scale):
    s = sigmoid(scale * x)
    return s * (1 + scale * x * (1 - s))


def input_gradient(dy_gamma, xhat, rstd, axes, about_mean=True):
    """The gradient of x, where xhat = (x - mean) * rstd and dy_gamma is the gradient of xhat. For an RMS norm, xhat is
    x * rstd and about_mean is False."""
    along = (dy_gamma * xhat).mean(axes, keepdims=True) * xhat
    return rstd * (dy_gamma - along - (dy_gamma.mean(axes, keepdims=True) if about_mean else 0))


def value(t, default=LD(0)):
    return default if t is None else t.get().astype(LD)


def check(test, out, exact, slack, what):
    if out is not None and out.size:
        slack = np.broadcast_to(slack, np.shape(exact)).reshape(out.shape)
        ref.check(out.get(), np.reshape(exact, out.shape), out.dtype, F32, slack=slack, what=what)


# ---- arguments

def far(gen):
    """Draws numbers; now and then around an offset that is large beside their deviation."""
    offset = gen.pick((0, 0, 3, 1000))

    def draw(d):
        return lambda s: d.round(gen.values(d, s, limit=4).astype(LD) + (offset if d is F32 else offset % 100))

    return draw


def rows_of(gen):
    """Returns a shape, and over how many of its last dimensions the norm goes."""
    if gen.chance(0.6):
        shape = gen.shape(min_rank=1, empty=0)
    else:
        shape = gen.pick((
            (3, 5000), (70, 33), (200, 64), (9, 4, 130), (40, 17, 3), (2, 1100), (100, 20), (2, 3, 4, 5, 6)))
    return shape, gen.integer(1, len(shape))


def row_numbers(gen, shape, k, dtype, out=True, values=None):
    """A tensor of one number per row, either with ones for the k normalised dimensions or without these."""
    head = shape[:len(shape) - k]
    dims = head + (1,) * k if gen.chance(0.6) or not head else head
    return gen.out(dtype, dims, None if values is None else values.reshape(dims)) if out else None


def params(gen, d, shape, *names):
    return [gen.drawn(d, shape, lambda s: gen.values(d, s, limit=3)) if name else None for name in names]


def same_bits(test, gen, op, args, outs):
    """Checks that the same call with its tensors in other layouts gives the same bits."""
    again = {}
    for a in args:
        if isinstance(a, Tensor) and id(a) not in again:
            again[id(a)] = gen.out(a.dtype, a.shape, None if a in outs else a.get())
    run(op, *(again.get(id(a), a) if isinstance(a, Tensor) else a for a in args))
    for o in outs:
        if o is not None:
            ref.check_equal(again[id(o)].bits(), o.bits(), f"{op}: bits in another layout")


class Rows(unittest.TestCase):
    def layer_norm(self, gen, op="aclnnLayerNorm"):
        d, draw = gen.pick(FLOATS), far(gen)
        shape, k = rows_of(gen)
        tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
        x = gen.drawn(d, shape, draw(d))
        gamma, beta = params(gen, gen.pick((d, F32)), tail, gen.chance(0.7), gen.chance(0.7))
        out = gen.out(gen.pick((d, d, F32)), shape)
        mean = row_numbers(gen, shape, k, gen.pick((d, F32)), gen.chance(0.6))
        rstd = row_numbers(gen, shape, k, gen.pick((d, F32)), gen.chance(0.6))
        eps = gen.pick((1e-5, 0.1, 1.0))
        args = [x, Ints(*tail), gamma, beta, eps, out, mean, rstd] + ([0] if op.endswith("Mode") else [])
        self.assertEqual(run(op, *args), 0)
        v = x.get().astype(LD)
        m, r = stats(v, axes, LD(eps))
        g, b = value(gamma, LD(1)), value(beta)
        xhat = (v - m) * r
        check(self, out, xhat * g + b, EPS * (30 * np.abs(g) * (np.abs(xhat) + 1) + 3 * np.abs(b)), op)
        check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
        check(self, rstd, r, EPS * 20 * r, "rstd")
        same_bits(self, gen, op, args, [out, mean, rstd])

    def test_layer_norm(self):
        each_case(self, "aclnnLayerNorm", 2 * CASES, self.layer_norm)
        each_case(self, "aclnnLayerNormWithImplMode", 5, lambda g: self.layer_norm(g, "aclnnLayerNormWithImplMode"))
        each_case(self, "aclnnFastLayerNorm", 5, lambda g: self.layer_norm(g, "aclnnFastLayerNorm"))

    def test_constant_rows(self):
        """Where a row has no deviation, only beta is left, however large its numbers."""
        for v in (0.0, 1e4, -3.3e20):
            x, out = Tensor.of(F32, np.full((3, 5000), v, np.float32)), Tensor.empty(F32, (3, 5000))
            mean = Tensor.empty(F32, (3,))
            run("aclnnLayerNorm", x, Ints(5000), None, None, 1e-5, out, mean, None)
            ref.check_equal(out.get(), np.zeros((3, 5000), np.float32))
            ref.check_equal(mean.get(), np.full(3, np.float32(v)))

    def test_unusual_first_element(self):
        """The moments are computed about the first element, which may be far from all others."""
        for n in (5, 64, 5000):
            v = (1000 + np.sin(np.arange(2 * n))).astype(np.float32).reshape(2, n)
            v[0, 0], v[1, 0] = 0, 1e7
            x, out = Tensor.of(F32, v), Tensor.empty(F32, v.shape)
            mean, rstd = Tensor.empty(F32, (2,)), Tensor.empty(F32, (2,))
            run("aclnnLayerNorm", x, Ints(n), None, None, 1e-5, out, mean, rstd)
            m, r = stats(v.astype(LD), (1,), LD(1e-5))
            check(self, rstd, r, EPS * 20 * r, "rstd")
            check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
            check(self, out, (v - m) * r, EPS * 30 * (np.abs((v - m) * r) + 1), "out")

    def test_rows_of_nothing(self):
        """Rows without elements have the mean 0, and NaN as the inverse of the deviation, as in CANN."""
        for d in (F32, F16):
            x, mean = Tensor.empty(F32, (2, 3, 0)), Tensor(d, (2, 3, 1), strides=(1, 2, 1))
            rstd = Tensor.empty(d, (2, 3, 1))
            run("aclnnLayerNorm", x, Ints(0), None, None, 1e-5, x, mean, rstd)
            ref.check_equal(mean.get(), np.zeros((2, 3, 1)))
            self.assertTrue(np.isnan(rstd.get()).all())

    def test_special_values(self):
        v = np.zeros((3, 40), np.float32)
        v[0, 3], v[1, 5] = np.nan, np.inf
        x, out = Tensor.of(F32, v), Tensor.empty(F32, v.shape)
        run("aclnnLayerNorm", x, Ints(40), None, None, 1e-5, out, None, None)
        self.assertTrue(np.isnan(out.get()[:2]).all())
        self.assertFalse(out.get()[2].any())

    def rms_norm(self, gen, op):
        d = gen.pick(FLOATS)
        shape, k = rows_of(gen)
        tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
        gamma, = params(gen, gen.pick((d, F32)), tail, True)
        out, rstd = gen.out(d, shape), row_numbers(gen, shape, k, F32)
        eps = gen.pick((1e-6, 0.1, 1.0))
        args = [x, gamma, eps, out, rstd]
        self.assertEqual(run(op, *args), 0)
        v, g = x.get().astype(LD), value(gamma) + (1 if "Gemma" in op else 0)
        r = 1 / np.sqrt((v * v).mean(axes, keepdims=True) + LD(eps))
        check(self, out, v * r * g, EPS * 20 * np.abs(v * r) * (np.abs(g) + 1), op)
        check(self, rstd, r, EPS * 15 * r, "rstd")
        same_bits(self, gen, op, args, [out, rstd])

    def test_rms_norm(self):
        for op in ("aclnnRmsNorm", "aclnnGemmaRmsNorm"):
            each_case(self, op, CASES, lambda g: self.rms_norm(g, op))

    def test_add_rms_norm(self):
        def body(gen):
            d = gen.pick(FLOATS)
            shape, k = rows_of(gen)
            tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
            x1, x2 = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
            gamma, = params(gen, gen.pick((d, F32)), tail, True)
            out, total = gen.out(d, shape), gen.out(d, shape)
            rstd = Tensor.empty(F32, shape[:len(shape) - k] + (1,) * k)
            v, g = x1.get().astype(LD) + x2.get().astype(LD), value(gamma)
            if gen.chance(0.3):
                out.set(x1.get()), total.set(x2.get())
                run("aclnnInplaceAddRmsNorm", out, total, gamma, 1e-5, rstd)
            else:
                self.assertEqual(run("aclnnAddRmsNorm", x1, x2, gamma, 1e-5, out, rstd, total), 0)
            r = 1 / np.sqrt((v * v).mean(axes, keepdims=True) + LD(1e-5))
            check(self, total, v, 0, "sum")
            check(self, out, v * r * g, EPS * 20 * np.abs(v * r * g), "y")
            check(self, rstd, r, EPS * 15 * r, "rstd")
        each_case(self, "aclnnAddRmsNorm", CASES, body)

    def test_add_rms_norm_with_wild_strides(self):
        """ggml leaves the outermost stride of rstdOut uninitialised. The result is then written contiguously."""
        x = Tensor.of(F32, np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7)
        gamma = Tensor.of(F32, np.ones(4, np.float32))
        y, total = Tensor.empty(F32, (2, 3, 4)), Tensor.empty(F32, (2, 3, 4))
        rstd = Tensor.empty(F32, (2, 3, 1))
        wild = object.__new__(Tensor)
        wild.__dict__.update(rstd.__dict__, strides=(1 << 40, 1, 1))
        run("aclnnAddRmsNorm", x, x, gamma, 1e-5, y, _Unlooked(wild), total)
        back = rstd.block.fetch()[64:-64].view(np.float32)
        v = 2 * x.get().astype(LD)
        ref.check(back, (1 / np.sqrt((v * v).mean(2) + LD(1e-5))).reshape(-1), F32, ulps=4)

    def test_add_layer_norm(self):
        def body(gen):
            d, d2 = gen.pick(((F32, F32), (F16, F16), (BF16, BF16), (F16, F32), (F32, BF16)))
            wide = d if d is d2 else F32
            shape, k = rows_of(gen)
            tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
            x1 = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            x2 = gen.drawn(d2, shape, lambda s: gen.values(d2, s, limit=4))
            gamma, beta = params(gen, gen.pick((wide, F32)), tail, True, True)
            bias = gen.pick((None, *params(gen, wide, tail, True), *params(gen, wide, shape, True)))
            more = gen.chance(0.6)
            out, total = gen.out(wide, shape), gen.out(wide, shape) if more or gen.chance(0.5) else None
            mean, rstd = (Tensor.empty(F32, shape[:len(shape) - k] + (1,) * k) for _ in "12")
            run("aclnnAddLayerNorm", x1, x2, gamma, beta, bias, 1e-5, more, out, mean, rstd, total)
            v = x1.get().astype(LD) + x2.get().astype(LD) + value(bias)
            size = np.abs(x1.get()) + np.abs(x2.get()) + np.abs(value(bias))
            m, r = stats(v, axes, LD(1e-5))
            g, b, xhat = value(gamma), value(beta), (v - m) * r
            if more:
                check(self, total, v, EPS * size, "sum")
            noise = size.max(axes, keepdims=True) * r                   # the error of the sum, which is rounded
            slack = EPS * (30 * np.abs(g) * (np.abs(xhat) + 1) * (1 + noise) + 3 * np.abs(b))
            check(self, out, xhat * g + b, slack, "y")
            check(self, mean, m, EPS * (np.abs(m) + 20 / r + size.max()), "mean")
            check(self, rstd, r, EPS * 20 * r * (1 + noise), "rstd")
        each_case(self, "aclnnAddLayerNorm", CASES, body)

    def test_deep_norm(self):
        def body(gen):
            d, alpha = gen.pick(FLOATS), gen.pick((0.3, 1.0, 2.5))
            shape, k = rows_of(gen)
            tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
            x, gx = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
            beta, gamma = params(gen, d, tail, True, True)
            mean, rstd = (Tensor.empty(F32, shape[:len(shape) - k] + (1,) * k) for _ in "12")
            out = gen.out(d, shape)
            run("aclnnDeepNorm", x, gx, beta, gamma, alpha, 1e-5, mean, rstd, out)
            v = LD(np.float32(alpha)) * x.get().astype(LD) + gx.get().astype(LD)
            m, r = stats(v, axes, LD(1e-5))
            g, b, xhat = value(gamma), value(beta), (v - m) * r
            noise = (np.abs(x.get()) + np.abs(gx.get())).max(axes, keepdims=True).astype(LD) * 3 * r
            slack = EPS * (30 * np.abs(g) * (np.abs(xhat) + 1) * (1 + noise) + 3 * np.abs(b))
            check(self, out, xhat * g + b, slack, "y")
            check(self, rstd, r, EPS * 20 * r * (1 + noise), "rstd")
        each_case(self, "aclnnDeepNorm", CASES // 2, body)

    def test_in_place(self):
        for d in FLOATS:
            v = d.round(np.sin(np.arange(3 * 70)).reshape(3, 70))
            gamma, rstd = Tensor.of(d, d.round(np.ones(70))), Tensor.empty(F32, (3,))
            x, out = Tensor.of(d, v), Tensor.empty(d, v.shape)
            run("aclnnRmsNorm", x, gamma, 1e-5, out, rstd)
            run("aclnnRmsNorm", x, gamma, 1e-5, x, rstd)
            ref.check_equal(x.bits(), out.bits())


class _Unlooked(Tensor):
    """An output tensor whose view is never read, because its strides are invalid."""

    def __init__(self, t):
        self.__dict__.update(t.__dict__)

    def view(self, raw):
        return raw.view(self.dtype.storage)


class RowGradients(unittest.TestCase):
    def arguments(self, gen, several_rows=True):
        d = gen.pick(FLOATS)
        shape, k = rows_of(gen) if gen.chance(0.8) else ((gen.pick((31, 32, 700)), 3, 20), 1)
        tail, axes = shape[len(shape) - k:], tuple(range(len(shape) - k, len(shape)))
        x, dy = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
        return d, shape, k, tail, axes, x, dy

    def check_columns(self, outs, dy, xhat, axes, k):
        lead = tuple(range(dy.ndim - k))
        n = int(np.prod([dy.shape[i] for i in lead], dtype=int))
        for out, terms in zip(outs, (dy * xhat, dy)):
            if out is not None:
                slack = EPS * 40 * (np.abs(dy) * (np.abs(xhat) + 1)).sum(lead)
                check(self, out, terms.sum(lead), slack, f"sum over {n} rows")

    def check_input(self, out, dy_gamma, xhat, rstd, axes, about_mean, extra=LD(0), scale=1):
        exact = (input_gradient(dy_gamma, xhat, rstd, axes, about_mean) + extra) * scale
        size = rstd * (np.abs(dy_gamma) + np.abs(dy_gamma).mean(axes, keepdims=True) +
                       (np.abs(dy_gamma * xhat)).mean(axes, keepdims=True) * np.abs(xhat))
        check(self, out, exact, EPS * abs(scale) * (30 * size + 2 * np.abs(extra)), "input's gradient")

    def test_layer_norm(self):
        def body(gen):
            d, shape, k, tail, axes, x, dy = self.arguments(gen)
            v, g = x.get().astype(LD), dy.get().astype(LD)
            m, r = stats(v, axes, LD(0.01))
            mean = row_numbers(gen, shape, k, F32, True, F32.round(m))
            rstd = row_numbers(gen, shape, k, F32, True, F32.round(r))
            m, r = mean.get().astype(LD).reshape(m.shape), rstd.get().astype(LD).reshape(r.shape)
            gamma, beta = params(gen, gen.pick((d, F32)), tail, gen.chance(0.7), gen.chance(0.5))
            mask = [gen.chance(0.7) for _ in range(3)]
            dx = gen.out(d, shape) if mask[0] or gen.chance(0.5) else None
            dgamma, dbeta = (gen.out(gen.pick((d, F32)), tail) if mask[i] or gen.chance(0.5) else None for i in (1, 2))
            args = [dy, x, Ints(*tail), mean, rstd, gamma, beta, Bools(*mask), dx, dgamma, dbeta]
            run("aclnnLayerNormBackward", *args)
            xhat, w = (v - m) * r, value(gamma, LD(1))
            outs = [o if wanted else None for o, wanted in zip((dx, dgamma, dbeta), mask)]
            self.check_input(outs[0], g * w, xhat, r, axes, True)
            self.check_columns(outs[1:], g, xhat, axes, k)
            same_bits(self, gen, "aclnnLayerNormBackward", args, outs)
        each_case(self, "aclnnLayerNormBackward", CASES, body)

    def test_rms_norm(self):
        def body(gen):
            d, shape, k, tail, axes, x, dy = self.arguments(gen)
            v, g = x.get().astype(LD), dy.get().astype(LD)
            r = 1 / np.sqrt((v * v).mean(axes, keepdims=True) + LD(0.01))
            rstd = row_numbers(gen, shape, k, F32, True, F32.round(r))
            r = rstd.get().astype(LD).reshape(r.shape)
            gamma, = params(gen, gen.pick((d, F32)), tail, True)
            dx, dgamma = gen.out(d, shape), gen.out(F32, tail)
            args = [dy, x, rstd, gamma, dx, dgamma]
            run("aclnnRmsNormGrad", *args)
            self.check_input(dx, g * value(gamma), v * r, r, axes, False)
            self.check_columns([dgamma], g, v * r, axes, k)
            same_bits(self, gen, "aclnnRmsNormGrad", args, [dx, dgamma])
        each_case(self, "aclnnRmsNormGrad", CASES, body)

    def sums(self, gen, alpha):
        d, shape, k, tail, axes, x, dy = self.arguments(gen)
        other = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
        # the sum is rounded to float before it is used
        v = F32.round(LD(np.float32(alpha)) * x.get().astype(LD) + other.get().astype(LD)).astype(LD)
        m, r = stats(v, axes, LD(0.01))
        mean, rstd = (gen.out(F32, shape[:len(shape) - k] + (1,) * k, F32.round(n)) for n in (m, r))
        gamma, = params(gen, d, tail, True)
        m, r = mean.get().astype(LD), rstd.get().astype(LD)
        return d, shape, k, tail, axes, x, other, dy, gamma, mean, rstd, (v - m) * r, r

    def test_add_layer_norm(self):
        def body(gen):
            d, shape, k, tail, axes, x1, x2, dy, gamma, mean, rstd, xhat, r = self.sums(gen, 1)
            dsum = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) if gen.chance(0.5) else None
            dx, dgamma, dbeta = gen.out(d, shape), gen.out(F32, tail), gen.out(F32, tail)
            run("aclnnAddLayerNormGrad", dy, x1, x2, rstd, mean, gamma, dsum, dx, dgamma, dbeta)
            g = dy.get().astype(LD)
            self.check_input(dx, g * value(gamma), xhat, r, axes, True, value(dsum))
            self.check_columns([dgamma, dbeta], g, xhat, axes, k)
        each_case(self, "aclnnAddLayerNormGrad", CASES, body)

    def test_deep_norm(self):
        def body(gen):
            alpha = gen.pick((0.5, 1.0, 3.0))
            d, shape, k, tail, axes, x, gx, dy, gamma, mean, rstd, xhat, r = self.sums(gen, alpha)
            dx, dgx, dgamma, dbeta = gen.out(d, shape), gen.out(d, shape), gen.out(F32, tail), gen.out(F32, tail)
            run("aclnnDeepNormGrad", dy, x, gx, gamma, mean, rstd, alpha, dx, dgx, dbeta, dgamma)
            g = dy.get().astype(LD)
            self.check_input(dgx, g * value(gamma), xhat, r, axes, True)
            self.check_input(dx, g * value(gamma), xhat, r, axes, True, scale=alpha)
            self.check_columns([dgamma, dbeta], g, xhat, axes, k)
        each_case(self, "aclnnDeepNormGrad", CASES // 2, body)


# ---- groups

def groups_of(gen):
    """Returns a shape (N, C, ...) and a number of groups."""
    c = gen.pick((1, 2, 4, 6, 12))
    spatial = gen.pick(((), (1,), (5,), (3, 4), (17, 3), (70, 60), (2, 3, 4), (2, 1, 2, 3, 2, 2)))
    return (gen.integer(1, 3), c) + spatial, gen.pick([g for g in (1, 2, 3, 4, 6, 12) if c % g == 0])


def grouped(a, groups):
    """a as [N, G, C / G, positions]."""
    return np.reshape(a, (a.shape[0], groups, a.shape[1] // groups, -1))


def per_channel(v, groups):
    """A value per channel, in a shape that broadcasts to that of `grouped`; numbers stay."""
    return np.reshape(v, (1, groups, -1, 1)) if np.ndim(v) else v


class Groups(unittest.TestCase):
    def check_forward(self, gen, op, x, gamma, beta, groups, eps, out, mean, rstd, args, scale=None):
        self.assertEqual(run(op, *args), 0)
        v = grouped(x.get().astype(LD), groups)
        m, r = stats(v, (2, 3), LD(eps))
        g, b = per_channel(value(gamma, LD(1)), groups), per_channel(value(beta), groups)
        y = (v - m) * r * g + b
        slack = EPS * (30 * np.abs(g) * (np.abs((v - m) * r) + 1) + 3 * np.abs(b))
        if scale is not None:
            slack = slack * (1.1 + abs(scale)) + 12 * EPS * np.abs(swish(y, scale)) * (1 + np.abs(scale * y))
            y = swish(y, scale)
        check(self, out, y, slack, op)
        check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
        check(self, rstd, r, EPS * 20 * r, "rstd")
        same_bits(self, gen, op, args, [out, mean, rstd])

    def arguments(self, gen, optional=True):
        d = gen.pick(FLOATS)
        shape, groups = groups_of(gen)
        x = gen.drawn(d, shape, far(gen)(d))
        dtype = gen.pick((d, F32))
        has_gamma, has_beta = (not optional or gen.chance(0.7) for _ in "12")
        gamma, beta = params(gen, dtype, shape[1:2], has_gamma, has_beta)
        m = gen.pick((d, F32))
        out, mean, rstd = gen.out(d, shape), gen.out(m, (shape[0], groups)), gen.out(m, (shape[0], groups))
        return d, shape, groups, x, gamma, beta, out, mean, rstd

    def test_group_norm(self):
        def body(gen):
            d, shape, groups, x, gamma, beta, out, mean, rstd = self.arguments(gen)
            n, c, hw = shape[0], shape[1], int(np.prod(shape[2:], dtype=int))
            args = [x, gamma, beta, n, c, hw, groups, 1e-5, out, mean, rstd]
            self.check_forward(gen, "aclnnGroupNorm", x, gamma, beta, groups, 1e-5, out, mean, rstd, args)
        each_case(self, "aclnnGroupNorm", CASES, body)

    def test_silu(self):
        def body(gen):
            d, shape, groups, x, gamma, beta, out, mean, rstd = self.arguments(gen)
            silu = gen.chance(0.6)
            self.check_forward(gen, "aclnnGroupNormSiluV2", x, gamma, beta, groups, 1e-5, out, mean, rstd,
                               [x, gamma, beta, groups, 1e-5, silu, out, mean, rstd], LD(1) if silu else None)
            self.check_forward(gen, "aclnnGroupNormSilu", x, gamma, beta, groups, 1e-5, out, mean, rstd,
                               [x, gamma, beta, groups, 1e-5, out, mean, rstd], LD(1))
        each_case(self, "aclnnGroupNormSilu", CASES // 2, body)

    def test_swish(self):
        def body(gen):
            d, shape, groups, x, gamma, beta, out, mean, rstd = self.arguments(gen, optional=False)
            on, scale = gen.chance(0.7), gen.pick((1.0, 0.5, 1.75))
            self.check_forward(gen, "aclnnGroupNormSwish", x, gamma, beta, groups, 1e-5, out, mean, rstd,
                               [x, gamma, beta, groups, gen.pick((None, b"NCHW")), 1e-5, on, scale, out, mean, rstd],
                               LD(scale) if on else None)
        each_case(self, "aclnnGroupNormSwish", CASES // 2, body)

    def test_groups_of_nothing(self):
        """Groups without elements have the mean 0, and NaN as the inverse of the deviation, as in CANN."""
        x, c = Tensor.empty(F32, (2, 6, 0)), Tensor.empty(F32, (6,))
        for op, args in (
                ("aclnnGroupNorm", (2, 6, 0, 3, 1e-5)),
                ("aclnnGroupNormSilu", (3, 1e-5)),
                ("aclnnGroupNormSiluV2", (3, 1e-5, True))):
            mean, rstd = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (2, 3))
            run(op, x, c, c, *args, x, mean, rstd)
            ref.check_equal(mean.get(), np.zeros((2, 3)), op)
            self.assertTrue(np.isnan(rstd.get()).all(), op)

    def test_statistics_over_one_another(self):
        """ggml passes buffers for the statistics that are too small and overlap. They are written last, and the call
        needs no workspace."""
        x = Tensor.of(F32, np.arange(64, dtype=np.float32).reshape(1, 8, 2, 4))
        out, m = Tensor.empty(F32, (1, 8, 2, 4)), Tensor.empty(F32, (1, 4))
        self.assertEqual(run("aclnnGroupNorm", x, None, None, 1, 8, 8, 4, 1e-6, out, m, m), 0)
        v = grouped(x.get().astype(LD), 4)
        mean, r = stats(v, (2, 3), LD(1e-6))
        check(self, out, (v - mean) * r, EPS * 30, "out")

    def test_instance_norm(self):
        def body(gen):
            d, layout = gen.pick((F32, F16, BF16)), gen.pick((b"NCHW", b"NHWC"))
            n, c, h, w = gen.integer(1, 3), gen.integer(1, 20), gen.integer(1, 9), gen.integer(1, 9)
            shape, axes = ((n, c, h, w), (2, 3)) if layout == b"NCHW" else ((n, h, w, c), (1, 2))
            x, out = gen.drawn(d, shape, far(gen)(d)), gen.out(d, shape)
            gamma, beta = params(gen, d, (c,), True, True)
            dims = tuple(1 if i in axes else k for i, k in enumerate(shape))
            mean, variance = (Tensor.empty(F32, dims) for _ in "12")
            run("aclnnInstanceNorm", x, gamma, beta, layout, 1e-3, out, mean, variance)
            v = x.get().astype(LD)
            m, r = stats(v, axes, LD(1e-3))
            var = ((v - m) ** 2).mean(axes, keepdims=True)
            spread = (-1, 1, 1) if layout == b"NCHW" else (-1,)
            g, b, xhat = value(gamma).reshape(spread), value(beta).reshape(spread), (v - m) * r
            check(self, out, xhat * g + b, EPS * (30 * np.abs(g) * (np.abs(xhat) + 1) + 3 * np.abs(b)), "y")
            check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
            check(self, variance, var, EPS * 30 * var, "variance")
        each_case(self, "aclnnInstanceNorm", CASES // 2, body)

    def test_backward(self):
        def body(gen, with_swish):
            d = gen.pick(FLOATS)
            shape, groups = groups_of(gen)
            n, c, hw = shape[0], shape[1], int(np.prod(shape[2:], dtype=int))
            x, dy = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
            v, g = grouped(x.get().astype(LD), groups), grouped(dy.get().astype(LD), groups)
            m, r = stats(v, (2, 3), LD(0.01))
            mean, rstd = (gen.out(F32, (n, groups), F32.round(a).reshape(n, groups)) for a in (m, r))
            m, r = (a.get().astype(LD).reshape(n, groups, 1, 1) for a in (mean, rstd))
            mask = [gen.chance(0.7) for _ in range(3)]
            gamma, beta = params(gen, d, (c,), with_swish or gen.chance(0.7), with_swish)
            dx = gen.out(d, shape) if mask[0] or with_swish else None
            dgamma, dbeta = (gen.out(gen.pick((d, F32)), (c,)) if mask[i] else None for i in (1, 2))
            w, b, xhat = per_channel(value(gamma, LD(1)), groups), per_channel(value(beta), groups), (v - m) * r
            noise = LD(1)
            if with_swish:
                op, scale = "aclnnGroupNormSwishGrad", gen.pick((1.0, 0.5))
                args = [dy, mean, rstd, x, gamma, beta, groups, None, scale, mask[1], mask[2], dx, dgamma, dbeta]
                z = xhat * w + b
                g, noise = g * swish_slope(z, LD(scale)), 3 * (2 + np.abs(z).max())
            else:
                op = "aclnnGroupNormBackward"
                args = [dy, x, mean, rstd, gamma, n, c, hw, groups, Bools(*mask), dx, dgamma, dbeta]
            run(op, *args)
            size = np.abs(grouped(dy.get().astype(LD), groups)) * 1.2
            if dx is not None:
                exact = input_gradient(g * w, xhat, r, (2, 3))
                along = (size * np.abs(w)).mean((2, 3), keepdims=True)
                bound = r * (size * np.abs(w) + along * (1 + np.abs(xhat) * (1 + np.abs(xhat).max())))
                check(self, dx, exact, EPS * 30 * noise * bound, "input's gradient")
            for out, terms in ((dgamma, g * xhat), (dbeta, g)):
                bound = (size * (1 + np.abs(xhat))).sum((0, 3)).reshape(-1)
                check(self, out, terms.sum((0, 3)).reshape(-1), EPS * 30 * noise * bound, op)
            same_bits(self, gen, op, args, [dx, dgamma, dbeta])
        each_case(self, "aclnnGroupNormBackward", CASES * 3 // 5, lambda gen: body(gen, False))
        each_case(self, "aclnnGroupNormSwishGrad", CASES * 2 // 5, lambda gen: body(gen, True))


# ---- channels

def batches_of(gen):
    return gen.pick((
        (4, 3), (300, 17), (1200, 40), (2, 5, 1), (3, 4, 5), (2, 3, 4, 5), (3, 2, 40, 50), (2, 3, 2, 3, 4), (5, 1, 9),
        (2, 3, 1, 2, 3, 1, 2, 2), (1, 2, 90, 100)))


def channel(v):
    """Returns a function that reshapes a value per channel so that it broadcasts to a shape; numbers stay."""
    return lambda shape: np.reshape(v, (1, -1) + (1,) * (len(shape) - 2)) if np.ndim(v) else v


class Channels(unittest.TestCase):
    def arguments(self, gen):
        d = gen.pick(FLOATS)
        shape = batches_of(gen)
        axes = (0,) + tuple(range(2, len(shape)))
        return d, gen.pick((d, F32)), shape, axes, gen.drawn(d, shape, far(gen)(d))

    def test_batch_norm(self):
        def body(gen):
            d, dp, shape, axes, x = self.arguments(gen)
            c, training, momentum, eps = shape[1], gen.chance(0.6), 0.3, 0.01
            weight, bias = params(gen, dp, (c,), gen.chance(0.7), gen.chance(0.7))
            running = gen.chance(0.7)
            old_mean, old_var = dp.round(gen.rng.standard_normal(c)), dp.round(gen.rng.random(c) + 0.5)
            rm, rv = (gen.out(dp, (c,), old_mean), gen.out(dp, (c,), old_var)) if running else (None, None)
            out = gen.out(d, shape)
            mean, variance = (gen.out(F32, (c,)), gen.out(F32, (c,))) if training else (Tensor.empty(d, (0,)), None)
            args = [x, weight, bias, rm, rv, training, momentum, eps, out, mean, variance]
            run("aclnnBatchNorm", *args)
            v, count = x.get().astype(LD), x.size // c
            if training:
                m, r = stats(v, axes, LD(eps))
                var = ((v - m) ** 2).mean(axes).reshape(-1)
                check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
                check(self, variance, var, EPS * 40 * (var + eps), "variance, called invstd")
                if running:
                    var *= LD(count) / (count - 1) if count > 1 else 0
                    slack = EPS * (4 + np.abs(m) + 20 / r).reshape(-1)
                    check(self, rm, LD(0.7) * old_mean + LD(0.3) * m.reshape(-1), slack, "running mean")
                    check(self, rv, LD(0.7) * old_var + LD(0.3) * var, EPS * 30 * (var + 1), "running variance")
            else:
                m = channel(old_mean.astype(LD))(shape) if running else LD(0)
                r = 1 / np.sqrt((channel(old_var.astype(LD))(shape) if running else LD(1)) + LD(eps))
                if running:
                    ref.check_equal(rm.get(), old_mean)
            g, b, xhat = channel(value(weight, LD(1)))(shape), channel(value(bias))(shape), (v - m) * r
            check(self, out, xhat * g + b, EPS * (30 * np.abs(g) * (np.abs(xhat) + 1) + 3 * np.abs(b)), "output")
            if not running:
                same_bits(self, gen, "aclnnBatchNorm", args, [out] + ([mean, variance] if training else []))
        each_case(self, "aclnnBatchNorm", CASES, body)

    def test_unusual_first_sample(self):
        """Columns are summed about the first row of a block, which may be far from all other rows."""
        for shape in ((500, 20), (500, 20, 3), (500, 2, 40)):
            v = (1000 + np.sin(np.arange(np.prod(shape)))).astype(np.float32).reshape(shape)
            v[0] = 1e5
            c = shape[1]
            x, mean, rstd = Tensor.of(F32, v), Tensor.empty(F32, (c,)), Tensor.empty(F32, (c,))
            run("aclnnBatchNormStats", x, 1e-5, mean, rstd)
            m, r = stats(v.astype(LD), (0,) + tuple(range(2, v.ndim)), LD(1e-5))
            check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
            check(self, rstd, r, EPS * 20 * r, "invstd")

    def test_nothing(self):
        """Without elements, the mean is 0 and the variance NaN, as in CANN. The same holds without training."""
        for shape in ((0, 3), (0, 3, 2), (0, 3, 40, 40), (2, 3, 40, 0)):
            x, out = Tensor.empty(F32, shape), Tensor.empty(F32, shape)
            for training in (True, False):
                mean, variance = Tensor.empty(F32, (3,)), Tensor.empty(F32, (3,))
                rm = Tensor.of(F32, np.ones(3, np.float32))
                run("aclnnBatchNorm", x, None, None, rm, None, training, 0.1, 1e-5, out, mean, variance)
                ref.check_equal(mean.get(), np.zeros(3, np.float32))
                self.assertTrue(np.isnan(variance.get()).all())
                ref.check_equal(rm.get(), np.ones(3, np.float32))
            run("aclnnBatchNorm", x, None, None, rm, None, False, 0.1, 1e-5, out, Tensor.empty(F32, (0,)), None)

    def test_backward(self):
        def body(gen):
            d, dp, shape, axes, x = self.arguments(gen)
            c, training, eps = shape[1], gen.chance(0.6), 0.01
            dy = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            v, g, count = x.get().astype(LD), dy.get().astype(LD), x.size // c
            m = v.mean(axes)
            exact_variance = ((v - channel(m)(shape)) ** 2).mean(axes)
            mean, variance = (gen.out(F32, (c,), F32.round(a)) for a in (m, exact_variance))
            rm = gen.out(dp, (c,), dp.round(gen.rng.standard_normal(c)))
            rv = gen.out(dp, (c,), dp.round(gen.rng.random(c) + 0.5))
            weight, = params(gen, dp, (c,), gen.chance(0.7))
            mask = [gen.chance(0.7) for _ in range(3)]
            dx = gen.out(d, shape) if mask[0] else None
            dw, db = (gen.out(gen.pick((dp, F32)), (c,)) if mask[i] else None for i in (1, 2))
            if gen.chance(0.2):
                mean = variance = None
            args = [dy, x, weight, rm, rv, mean, variance, training, eps, Bools(*mask), dx, dw, db]
            run("aclnnBatchNormBackward", *args)
            m, var = (value(mean), value(variance, LD(1))) if training else (value(rm), value(rv))
            m, r = channel(m)(shape), 1 / np.sqrt(channel(var)(shape) + LD(eps))
            xhat, w = (v - m) * r, channel(value(weight, LD(1)))(shape)
            if mask[0]:
                exact = input_gradient(g * w, xhat, r, axes) if training else g * w * r
                along = np.abs(g * w * xhat).mean(axes, keepdims=True) * np.abs(xhat)
                size = np.abs(g * w) + np.abs(g * w).mean(axes, keepdims=True) + along
                check(self, dx, exact, EPS * 30 * r * size, "input's gradient")
            for out, terms in ((dw, g * xhat), (db, g)):
                check(self, out, terms.sum(axes), EPS * 30 * (np.abs(g) * (np.abs(xhat) + 1)).sum(axes), "sum")
            same_bits(self, gen, "aclnnBatchNormBackward", args, [dx, dw, db])
        each_case(self, "aclnnBatchNormBackward", CASES, body)

    def test_halves_in_place(self):
        """16-bit values that are contiguous and read in place give the same bits as strided ones that are copied first.
        The rows are samples (several blocks and part of a strip) or positions."""
        rng = np.random.default_rng(3)
        for d in (F16, BF16):
            for shape in ((150, 3 * 16 + 5), (3, 4, 41), (2, 4, 5000)):
                values = d.round(rng.standard_normal(shape) + 3), d.round(rng.standard_normal(shape))
                c, found = shape[1], []
                for apart in (1, 3):
                    strides = tuple(apart * int(np.prod(shape[k + 1:])) for k in range(len(shape)))
                    x, dy, y, dx = (Tensor(d, shape, strides=strides) for _ in range(4))
                    x.set(values[0])
                    dy.set(values[1])
                    mean, variance, dw, db = (Tensor.empty(F32, (c,)) for _ in range(4))
                    run("aclnnBatchNorm", x, None, None, None, None, True, 0.1, 1e-5, y, mean, variance)
                    run("aclnnBatchNormBackward", dy, x, None, None, None, mean, variance, True, 1e-5,
                        Bools(True, True, True), dx, dw, db)
                    found.append([t.bits() for t in (y, mean, variance, dx, dw, db)])
                for near, far_apart in zip(*found):
                    ref.check_equal(near, far_apart)

    def gathered_sums(self, gen, x, c):
        """A device's sums, and the statistics of the sums of several devices."""
        v = x.get().astype(LD)
        axes, sums = tuple(a for a in range(v.ndim) if a != 1), [gen.out(F32, (c,)) for _ in "12"]
        run("aclnnBatchNormReduce", x, *sums)
        for t, terms in zip(sums, (v, v * v)):
            check(self, t, terms.sum(axes), EPS * 8 * np.abs(terms).sum(axes), "sums")
        n, momentum, eps, d = gen.integer(1, 4), float(np.float32(0.2)), float(np.float32(0.01)), gen.pick((F32, F16))
        parts = [gen.values(F32, (gen.integer(1, 9), c), limit=2).astype(LD) for _ in range(n)]
        sums, squares = (gen.tensor(d, (n, c), np.array([f(p).sum(0) for p in parts])) for f in (np.array, np.square))
        count = np.array([len(p) for p in parts])
        counts = gen.tensor(gen.pick((F32, F16, I32)), (n,), count)
        rm, rv, mean, rstd = (gen.out(d, (c,), np.ones(c)) for _ in "mvbi")
        kept = gen.chance(0.3)                       # no running statistics
        run("aclnnSyncBatchNormGatherStats", sums, squares, counts, *((Tensor(d, (0,)),) * 2 if kept else (rm, rv)),
            momentum, eps, mean, rstd)
        total, (s, q) = LD(count.sum()), (t.get().astype(LD).sum(0) for t in (sums, squares))
        m, var = s / total, np.maximum(q / total - (s / total) ** 2, 0)
        ref.check(mean.get(), m, d)
        ref.check(rstd.get(), 1 / np.sqrt(var + LD(eps)), d, slack=1e-9)
        unbiased = var * total / (total - 1) if total > 1 else 0 * var
        for t, now in ((rm, m), (rv, unbiased)):
            ref.check(t.get(), (0 if kept else LD(momentum)) * (now - 1) + 1, d, slack=1e-9, what="running statistics")

    def test_pieces(self):
        """Gathered statistics of two devices are those of one device that has all samples. The same is checked for the
        elements and the gradients."""
        def body(gen):
            d, dp, shape, axes, x = self.arguments(gen)
            c, eps, momentum = shape[1], 0.01, 0.2
            x2 = gen.drawn(d, (shape[0] + 1,) + shape[1:], lambda s: gen.values(d, s, limit=4))
            v = np.concatenate([x.get(), x2.get()]).astype(LD)
            means, rstds = Tensor.empty(F32, (2, c)), Tensor.empty(F32, (2, c))
            a, b = [], []
            for t in (x, x2):
                mean, rstd = gen.out(F32, (c,)), gen.out(F32, (c,))
                run("aclnnBatchNormStats", t, eps, mean, rstd)
                m, r = stats(t.get().astype(LD), axes, LD(eps))
                check(self, mean, m, EPS * (np.abs(m) + 20 / r), "mean")
                check(self, rstd, r, EPS * 20 * r, "invstd")
                a.append(mean.get()), b.append(rstd.get())
            means, rstds = gen.out(F32, (2, c), np.array(a)), gen.out(F32, (2, c), np.array(b))
            counts = gen.out(gen.pick((F32, I32)), (2,), np.array([x.size // c, x2.size // c]))
            old = np.ones(c, np.float32)
            rm, rv = gen.out(F32, (c,), old), gen.out(F32, (c,), old)
            mean, rstd = gen.out(F32, (c,)), gen.out(F32, (c,))
            run("aclnnBatchNormGatherStatsWithCounts", x, means, rstds, rm, rv, momentum, eps, counts, mean, rstd)
            m, r = stats(v, axes, LD(eps))
            count, apart = v.size // c, np.abs(means.get()[0] - means.get()[1]).max() + np.abs(means.get()).max()
            check(self, mean, m, EPS * (4 * np.abs(means.get()).max() + 20 / r), "mean of all")
            noise = EPS * 60 * (1 + apart * r) * (1 + apart)
            check(self, rstd, r, noise * r, "invstd of all")
            var = (1 / r ** 2 - LD(eps)).reshape(-1) * LD(count) / (count - 1)
            slack = EPS * (4 + 4 * np.abs(means.get()).max() + 20 / r.reshape(-1))
            check(self, rm, LD(0.8) + LD(0.2) * m.reshape(-1), slack, "running mean")
            check(self, rv, LD(0.8) + LD(0.2) * var, 2 * noise.reshape(-1) * (1 + (var + eps)), "running variance")

            self.gathered_sums(gen, x, c)
            weight, bias = params(gen, dp, (c,), gen.chance(0.7), gen.chance(0.7))
            out = gen.out(d, shape)
            run("aclnnBatchNormElemt", x, weight, bias, mean, rstd, eps, out)
            m, r = (channel(t.get().astype(LD))(shape) for t in (mean, rstd))
            w, beta = channel(value(weight, LD(1)))(shape), channel(value(bias))(shape)
            xhat = (x.get().astype(LD) - m) * r
            check(self, out, xhat * w + beta, EPS * 8 * (np.abs(w * xhat) + np.abs(beta)), "elements")

            dy = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            g = dy.get().astype(LD)
            flags = [gen.chance(0.7) for _ in range(3)]
            sums = [gen.out(F32, (c,)) if flags[i] else None for i in (0, 0, 1, 2)]
            run("aclnnBatchNormReduceBackward", dy, x, mean, rstd, weight, *flags, *sums)
            xmu = xhat / r
            for t, terms in zip(sums, (g, g * xmu, g * xhat, g)):
                slack = EPS * 30 * np.abs(terms).sum(axes) + EPS * 4 * np.abs(g).sum(axes)
                check(self, t, terms.sum(axes), slack, "sums")
            if flags[0]:
                dx = gen.out(d, shape)
                counter = gen.out(gen.pick((F32, I32)), (2,), np.array([4, 7]))
                run("aclnnBatchNormElemtBackward", dy, x, mean, rstd, weight, sums[0], sums[1], counter, dx)
                s, p = (channel(t.get().astype(LD))(shape) / 11 for t in sums[:2])
                exact = (g - s - xmu * r * r * p) * r * w
                slack = EPS * 12 * np.abs(r * w) * (np.abs(g) + np.abs(s) + np.abs(xmu * r * r * p))
                check(self, dx, exact, slack, "gradient")
        each_case(self, "batch norm in pieces", CASES // 2, body)


class Renorm(unittest.TestCase):
    def test_renorm(self):
        def body(gen):
            d = gen.pick(FLOATS)
            if gen.chance(0.7):
                shape = gen.shape(min_rank=2, empty=0.05)
            else:
                shape = gen.pick(((5, 3000), (3000, 5), (20, 30, 9)))
            p, bound = gen.pick((0.0, 1.0, 2.0, 2.5, np.inf)), gen.pick((0.0, 1.0, 20.0))
            dim = gen.integer(0, len(shape) - 1)
            x, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)), gen.out(d, shape)
            in_place = gen.out(d, shape, x.get())
            given_dim = dim - (len(shape) if gen.chance(0.4) else 0)
            run("aclnnRenorm", x, Scalar(p, F32), given_dim, Scalar(bound, F32), out)
            run("aclnnInplaceRenorm", in_place, Scalar(p, F32), dim, Scalar(bound, F32))
            ref.check_equal(in_place.bits(), out.bits(), "in place")
            v = x.get().astype(LD)
            axes = tuple(i for i in range(len(shape)) if i != dim)
            if not v.size:
                return
            a = np.abs(v)
            if p == 0:
                length = (a != 0).sum(axes, keepdims=True).astype(LD)
            elif p == np.inf:
                length = a.max(axes, keepdims=True)
            else:
                length = (a ** LD(p)).sum(axes, keepdims=True) ** (1 / LD(p))
            sure = np.abs(length - bound) > 1e-5 * length
            factor = np.where(length > bound, bound / (length + LD(1e-7)), 1)
            exact = np.where(sure, v * factor, np.nan)
            slack = EPS * 12 * np.abs(v * factor)
            got = np.where(np.broadcast_to(sure, shape), out.get(), np.nan)
            ref.check(got, exact, d, F32, slack=slack, what=f"p = {p}, bound {bound}, dim {dim}")
        each_case(self, "aclnnRenorm", CASES, body)


class Errors(unittest.TestCase):
    def check(self, code, words, op, *args):
        got, message = refused(op, *args)
        self.assertEqual(got, code, message)
        for word in words:
            self.assertIn(word, message)

    def test_rows(self):
        x, y, g, r = (Tensor.empty(F32, s) for s in ((2, 3, 4), (2, 3, 4), (4,), (2, 3, 1)))
        bad, wide = Tensor.empty(F32, (3,)), Tensor.empty(F64, (2, 3, 4))
        op = "aclnnLayerNorm"
        self.check(INVALID, ("normalizedShape", "[3]", "[2, 3, 4]"), op, x, Ints(3), None, None, 1e-5, y, None, None)
        self.check(INVALID, ("normalizedShape",), op, x, Ints(), None, None, 1e-5, y, None, None)
        self.check(INVALID, ("weightOptional", "[3]", "[4]"), op, x, Ints(4), bad, None, 1e-5, y, None, None)
        self.check(INVALID, ("biasOptional", "[3]"), op, x, Ints(4), g, bad, 1e-5, y, None, None)
        self.check(INVALID, ("out", "[4]"), op, x, Ints(4), g, g, 1e-5, g, None, None)
        self.check(INVALID, ("meanOutOptional", "[3]"), op, x, Ints(4), g, g, 1e-5, y, bad, None)
        self.check(INVALID, ("input", "DOUBLE"), op, wide, Ints(4), g, g, 1e-5, y, None, None)
        self.check(INVALID, ("implMode", "3"), op + "WithImplMode", x, Ints(4), g, g, 1e-5, y, None, None, 3)
        self.check(INVALID, ("input", "FLOAT16"), op + "WithImplMode", x, Ints(4), g, g, 1e-5, y, None, None, 2)
        self.check(NULLPTR, ("out",), op, x, Ints(4), g, g, 1e-5, None, None, None)
        back = "aclnnLayerNormBackward"
        all_three = Bools(True, True, True)
        self.check(NULLPTR, ("gradWeightOut", "outputMask[1]"),
                   back, x, x, Ints(4), r, r, g, g, all_three, y, None, g)
        self.check(INVALID, ("outputMask", "2"), back, x, x, Ints(4), r, r, g, g, Bools(True, True), y, g, g)
        self.check(INVALID, ("gradBiasOut", "[3]"), back, x, x, Ints(4), r, r, g, g, all_three, y, g, bad)
        self.check(INVALID, ("gamma", "[3]"), "aclnnRmsNorm", x, bad, 1e-5, y, r)
        self.check(INVALID, ("rstdOut", "[3]"), "aclnnRmsNorm", x, g, 1e-5, y, bad)
        self.check(NULLPTR, ("xOut",), "aclnnAddLayerNorm", x, x, g, g, None, 1e-5, True, y, r, r, None)
        self.check(INVALID, ("x2", "[4]"), "aclnnAddRmsNorm", x, g, g, 1e-5, y, r, y)

    def test_groups(self):
        x, y, g, m = (Tensor.empty(F32, s) for s in ((2, 6, 5), (2, 6, 5), (6,), (2, 3)))
        op = "aclnnGroupNorm"
        self.check(INVALID, ("group", "4", "6"), op, x, g, g, 2, 6, 5, 4, 1e-5, y, m, m)
        self.check(INVALID, ("group", "0"), op, x, g, g, 2, 6, 5, 0, 1e-5, y, m, m)
        self.check(INVALID, ("N", "-99"), op, x, g, g, -99, 6, 5, 3, 1e-5, y, m, m)
        self.check(INVALID, ("HxW", "-5"), op, x, g, g, 2, 6, -5, 3, 1e-5, y, m, m)
        self.check(INVALID, ("N", "-99"), op + "Backward", x, x, m, m, g, -99, 6, 5, 3, Bools(1, 1, 1), y, g, g)
        self.check(INVALID, ("self", "[2, 6, 5]"), op, x, g, g, 2, 6, 4, 3, 1e-5, y, m, m)
        self.check(INVALID, ("eps", "0"), op, x, g, g, 2, 6, 5, 3, 0.0, y, m, m)
        self.check(INVALID, ("eps", "-1"), op + "Silu", x, g, g, 3, -1.0, y, m, m)
        self.check(INVALID, ("eps", "-1"), op + "SiluV2", x, g, g, 3, -1.0, True, y, m, m)
        self.check(INVALID, ("meanOut", "[6]"), op, x, g, g, 2, 6, 5, 1, 1e-5, y, Tensor.empty(F32, (6,)), m)
        self.check(INVALID, ("dataFormatOptional", "NHWC"),
                   "aclnnGroupNormSwish", x, g, g, 3, b"NHWC", 1e-5, True, 1.0, y, m, m)
        q, one = Tensor.empty(F32, (2, 6, 1, 5)), Tensor.empty(F32, (2, 6, 1, 1))
        self.check(INVALID, ("dataFormat", "NCDHW"), "aclnnInstanceNorm", q, g, g, b"NCDHW", 1e-5, q, one, one)
        self.check(INVALID, ("x", "3 dimensions"), "aclnnInstanceNorm", x, g, g, b"NCHW", 1e-5, x, one, one)

    def test_channels(self):
        x, y, c, bad = (Tensor.empty(F32, s) for s in ((2, 6, 5), (2, 6, 5), (6,), (5,)))
        op = "aclnnBatchNorm"
        self.check(NULLPTR, ("saveMean", "training"), op, x, c, c, c, c, True, 0.1, 1e-5, y, None, c)
        self.check(INVALID, ("weight", "[5]", "6"), op, x, bad, c, c, c, True, 0.1, 1e-5, y, c, c)
        self.check(INVALID, ("runningVar", "[5]"), op, x, c, c, c, bad, False, 0.1, 1e-5, y, c, c)
        self.check(INVALID, ("input", "1 dimensions"), op, c, c, c, c, c, False, 0.1, 1e-5, c, c, c)
        self.check(INVALID, ("output", "[6]"), op, x, c, c, c, c, False, 0.1, 1e-5, c, c, c)
        self.check(NULLPTR, ("saveInvstd",), op, x, c, c, c, c, True, 0.1, 1e-5, y, c, None)
        self.check(INVALID, ("saveInvstd", "[5]"),
                   op + "Backward", x, x, c, c, c, c, bad, True, 1e-5, Bools(True, True, True), y, c, c)
        self.check(INVALID, ("counts", "2 dimensions"),
                   "aclnnBatchNormGatherStatsWithCounts", x, c, c, None, None, 0.1, 1e-5,
                   Tensor.empty(F32, (1, 1)), c, c)
        self.check(NULLPTR, ("sumDy", "inputG"),
                   "aclnnBatchNormReduceBackward", x, x, c, c, c, True, False, False, None, c, None, None)
        self.check(INVALID, ("p", "-1"), "aclnnRenorm", x, Scalar(-1.0, F32), 0, Scalar(1.0, F32), y)
        self.check(INVALID, ("maxNorm", "-2"), "aclnnRenorm", x, Scalar(1.0, F32), 0, Scalar(-2.0, F32), y)
        self.check(INVALID, ("dim", "3"), "aclnnRenorm", x, Scalar(1.0, F32), 3, Scalar(1.0, F32), y)


if __name__ == "__main__":
    unittest.main()
