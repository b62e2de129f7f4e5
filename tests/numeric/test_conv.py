# SPDX-License-Identifier: Apache-2.0
"""Im2col, convolutions and their gradients. The references gather each window, in double or long double."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, Bools, Ints, Tensor, refused, run
from dtypes import ALL, BF16, F16, F32, F64, FLOATS, FLOATS64, I32, LD
from gen import each_case, each_forced

CASES = 40


class Geometry:
    """The geometry of a random convolution over `n` axes, in which the dilated kernel fits into the padded input."""

    def __init__(self, gen, n, most=10):
        while True:
            self.size = [gen.integer(1, most) for _ in range(n)]
            self.kernel = [gen.integer(1, 4) for _ in range(n)]
            if gen.chance(0.1):
                self.kernel[-1] = gen.integer(1, 20)
            self.stride, self.dilation = (
                [gen.integer(1, 3) if gen.chance(0.5) else 1 for _ in range(n)] for _ in range(2))
            self.pad = [gen.integer(0, 3) for _ in range(n)]
            room = [s + 2 * p - d * (k - 1) - 1 for s, p, d, k in zip(self.size, self.pad, self.dilation, self.kernel)]
            if min(room) >= 0:
                self.out = [r // s + 1 for r, s in zip(room, self.stride)]
                return


def windows(x, kernel, stride, pad, dilation, out):
    """The im2col buffer [..., *kernel, *out] of x [..., *size]: the inputs that each window reads."""
    n = len(kernel)
    ends = [(p, max(0, s * (o - 1) + (k - 1) * d + 1 - p - size))
            for p, s, k, d, o, size in zip(pad, stride, kernel, dilation, out, x.shape[-n:])]
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + ends)
    result = np.zeros((*x.shape[:x.ndim - n], *kernel, *out), x.dtype)
    for k in itertools.product(*(range(i) for i in kernel)):
        at = tuple(slice(i * d, i * d + s * (o - 1) + 1, s) for i, d, s, o in zip(k, dilation, stride, out))
        result[(..., *k, *(slice(None),) * n)] = x[(..., *at)]
    return result


def scattered(columns, size, stride, pad, dilation):
    """The transpose of `windows` (col2im): sums [..., *kernel, *out] into [..., *size]."""
    n = len(size)
    kernel, out = columns.shape[-2 * n:-n], columns.shape[-n:]
    wide = [max(z + 2 * p, (k - 1) * d + s * (o - 1) + 1)
            for z, p, k, d, s, o in zip(size, pad, kernel, dilation, stride, out)]
    result = np.zeros((*columns.shape[:-2 * n], *wide), columns.dtype)
    for k in itertools.product(*(range(i) for i in kernel)):
        at = tuple(slice(i * d, i * d + s * (o - 1) + 1, s) for i, d, s, o in zip(k, dilation, stride, out))
        result[(..., *at)] += columns[(..., *k, *(slice(None),) * n)]
    return result[(..., *(slice(p, p + z) for p, z in zip(pad, size)))]


class Columns(unittest.TestCase):
    def test_im2col(self):
        def body(gen):
            g, d = Geometry(gen, 2), gen.pick(ALL)
            lead = (gen.integer(0, 3), gen.integer(1, 4))[gen.integer(0, 1):]
            x = gen.tensor(d, (*lead, *g.size))
            rows = lead[-1] * int(np.prod(g.kernel))
            out = gen.out(d, (*lead[:-1], rows, int(np.prod(g.out))))
            run("aclnnIm2col", x, Ints(*g.kernel), Ints(*g.dilation), Ints(*g.pad), Ints(*g.stride), out)
            expected = windows(x.get(), g.kernel, g.stride, g.pad, g.dilation, g.out)
            ref.check_equal(out.get(), expected.reshape(out.shape))
        each_case(self, "aclnnIm2col", 3 * CASES, body)

    def test_im2col_ggml(self):
        """A call as ggml makes it for 1-D convolutions: the channels are passed as the height of a window."""
        x = np.random.default_rng(1).standard_normal((1, 1, 128, 50)).astype(np.float32)
        out = Tensor.empty(F32, (1, 384, 3 * 50))
        run("aclnnIm2col", Tensor.of(F32, x), Ints(128, 3), Ints(1, 1), Ints(1, 1), Ints(1, 1), out)
        ref.check_equal(out.get(), windows(x, (128, 3), (1, 1), (1, 1), (1, 1), (3, 50)).reshape(out.shape))

    def test_backward(self):
        def body(gen):
            g, d = Geometry(gen, 2), gen.pick(FLOATS64)
            lead = (gen.integer(0, 3), gen.integer(1, 4))[gen.integer(0, 1):]
            shape = (*lead[:-1], lead[-1] * int(np.prod(g.kernel)), int(np.prod(g.out)))
            grad = gen.tensor(d, shape, gen.values(d, shape, limit=8))
            out = gen.out(d, (*lead, *g.size))
            run("aclnnIm2colBackward", grad, Ints(*g.size), Ints(*g.kernel), Ints(*g.dilation), Ints(*g.pad),
                Ints(*g.stride), out)
            columns = grad.get().astype(LD).reshape(*lead, *g.kernel, *g.out)
            exact, bound = (scattered(c, g.size, g.stride, g.pad, g.dilation) for c in (columns, np.abs(columns)))
            eps = 2.0 ** -53 if d is F64 else 2.0 ** -24
            ref.check(out.get(), exact, d, slack=80 * eps * bound)
        each_case(self, "aclnnIm2colBackward", 2 * CASES, body)

    def test_long_rows(self):
        grad = np.random.default_rng(1).standard_normal((1, 3, 5000)).astype(np.float32)
        for strides in (None, (30000, 10000, 2)):
            t = Tensor(F32, grad.shape, strides, 0, 30000 if strides else None).set(grad)
            out = Tensor.empty(F32, (1, 1, 1, 5000))
            run("aclnnIm2colBackward", t, Ints(1, 5000), Ints(1, 3), Ints(1, 1), Ints(0, 1), Ints(1, 1), out)
            exact = scattered(grad.astype(LD).reshape(1, 1, 1, 3, 1, 5000), (1, 5000), (1, 1), (0, 1), (1, 1))
            ref.check(out.get(), exact, F32, ulps=4, slack=1e-6)

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 6, 6)), Tensor.empty(F32, (1, 8, 25))
        good = [x, Ints(2, 2), Ints(1, 1), Ints(0, 0), Ints(1, 1), out]
        for i, value, words in (
                (1, Ints(2), "kernelSize has 1 elements, expected 2"),
                (2, Ints(0, 1), "dilation[0] is 0"),
                (3, Ints(0, -1), "padding[1] is -1"),
                (1, Ints(9, 2), "expected room for a window of 9"),
                (5, Tensor.empty(F32, (1, 8, 24)), "out has shape [1, 8, 24], expected [1, 8, 25]"),
                (5, Tensor.empty(F16, (1, 8, 25)), "out")):
            args = list(good)
            args[i] = value
            code, message = refused("aclnnIm2col", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)


class Case:
    """A random convolution: its arguments, the shapes of its operands, and references for its three passes."""

    def __init__(self, gen, n, most=8):
        self.g, self.n = Geometry(gen, n, {1: 40, 2: 10, 3: 5}[n] if gen.chance(0.9) else most * 3), n
        self.groups = gen.pick((1, 1, 1, 2, 3))
        c, m = gen.integer(1, 5), gen.integer(1, 12)
        if gen.chance(0.2):
            self.groups, c, m = gen.integer(2, 9), 1, gen.integer(1, 2)      # a depthwise convolution
        self.batch = gen.integer(1, 3)
        self.weight = (self.groups * m, c, *self.g.kernel)
        self.x = (self.batch, self.groups * c, *self.g.size)
        self.y = (self.batch, self.groups * m, *self.g.out)
        self.end = None                 # padding at the high end of each axis; None: the same as at the low end
        self.more = [0] * n             # output padding, for a transposed convolution
        self.settle()

    def settle(self):
        """Recomputes the shape of the output and the output padding from the geometry."""
        g = self.g
        for i in range(self.n):
            room = g.size[i] + g.pad[i] + (self.end or g.pad)[i] - g.dilation[i] * (g.kernel[i] - 1) - 1
            g.out[i], self.more[i] = room // g.stride[i] + 1, room % g.stride[i]
        self.y = (*self.y[:2], *g.out)

    def pad_unevenly(self, gen):
        """Draws the padding of the high ends independently of that of the low ends."""
        g = self.g
        least = [d * (k - 1) + 1 - s - p for d, k, s, p in zip(g.dilation, g.kernel, g.size, g.pad)]
        self.end = [gen.integer(max(0, low), max(0, low) + 3) for low in least]
        self.settle()

    def pads(self):
        """The padding as 2n values, low and high end of each axis."""
        return [p for both in zip(self.g.pad, self.end or self.g.pad) for p in both]

    def split(self, t, channels_at=1):
        """Splits the channels by group: [batch, channels, ...] becomes [batch, groups, channels / groups, ...]."""
        return t.reshape(*t.shape[:channels_at], self.groups, -1, *t.shape[channels_at + 1:])

    def columns(self, x):
        """The im2col buffer of x by group: [batch, groups, channels * kernel, outputs]."""
        g = self.g
        w = windows(self.split(x), g.kernel, g.stride, g.pad, g.dilation, g.out)
        return w.reshape(*w.shape[:2], -1, int(np.prod(g.out)))

    def forward(self, x, w):
        w = self.split(w, 0).reshape(self.groups, len(w) // self.groups, -1)
        y = np.einsum("gmk,bgko->bgmo", w, self.columns(x))
        return y.reshape(self.y)

    def of_input(self, y, w):
        """The gradient of the input, which is also the transposed convolution."""
        g, rows = self.g, len(w) // self.groups
        w, y = self.split(w, 0).reshape(self.groups, rows, -1), self.split(y.reshape(*y.shape[:2], -1))
        c = np.einsum("gmk,bgmo->bgko", w, y)
        c = c.reshape(*c.shape[:2], self.weight[1], *g.kernel, *g.out)
        return scattered(c, g.size, g.stride, g.pad, g.dilation).reshape(self.x)

    def of_weight(self, x, y):
        y = self.split(y.reshape(*y.shape[:2], -1))
        return np.einsum("bgmo,bgko->gmk", y, self.columns(x)).reshape(self.weight)

    def arguments(self, gen, transposed):
        g = self.g
        pad = Ints(*(self.pads() if self.end else g.pad))
        more = Ints(*(self.more if transposed else [0] * self.n))
        return [Ints(*g.stride), pad, Ints(*g.dilation), transposed, more, self.groups]


def checked(got, passes, operands, d, terms, what, more=0.0):
    """Checks that `got` is passes(*operands) + more, with an error of at most (terms + 8) * 2^-24 times the sum of the
    magnitudes of its terms."""
    wide = [o.astype(np.float64) for o in operands]
    exact, bound = passes(*wide) + more, passes(*map(np.abs, wide)) + np.abs(more)
    ref.check(got, exact.astype(LD), d, slack=(terms + 8) * 2.0 ** -24 * bound.astype(LD), what=what)


def numbers(gen, d, shape):
    return gen.tensor(d, shape, gen.values(d, shape, limit=4))


class Implementations(unittest.TestCase):
    def test_forced(self):
        each_forced(self, ("conv=reference,conv_weight=reference", "direct,dots", "conv=gemm,conv_weight=gemm",
                           "winograd", "pairs", "depthwise"),
                    [f"test_conv.Convolutions.test_{t}" for t in ("forward", "backward", "windows_of_three")])


class Convolutions(unittest.TestCase):
    def forward(self, gen, n, transposed):
        c = Case(gen, n)
        d = gen.pick(FLOATS)
        kinds = [d, d, d] if gen.chance(0.7) else [gen.pick(FLOATS) for _ in range(3)]
        shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
        if gen.chance(0.1):
            c.batch = 1
            shape_in, shape_out = (1, *shape_in[1:]), (1, *shape_out[1:])
            c.x, c.y = (1, *c.x[1:]), (1, *c.y[1:])
        x, w = numbers(gen, kinds[0], shape_in), numbers(gen, kinds[1], c.weight)
        bias = numbers(gen, gen.pick(FLOATS), (shape_out[1],)) if gen.chance(0.6) else None
        out = gen.out(kinds[2], shape_out)
        run("aclnnConvolution", x, w, bias, *c.arguments(gen, transposed), out, 0)
        add = bias.get().astype(np.float64).reshape(-1, *[1] * n) if bias else 0.0
        terms = int(np.prod(c.weight)) // (1 if transposed else c.weight[0])
        checked(out.get(), c.of_input if transposed else c.forward, (x.get(), w.get()), kinds[2], terms, "output", add)

    def test_pads_by_end(self):
        """One padding for each end of an axis: 1-D convolutions, and 2-D ones that may be transposed."""
        def body(gen):
            n, transposed = gen.pick(((1, False), (2, False), (2, True)))
            c, d = Case(gen, n), gen.pick(FLOATS)
            c.pad_unevenly(gen)
            if gen.chance(0.3):                                              # enough channels for other implementations
                c.groups, c.weight = 1, (gen.integer(16, 40), gen.integer(16, 40), *c.g.kernel)
                c.x, c.y = (c.batch, c.weight[1], *c.g.size), (c.batch, c.weight[0], *c.g.out)
            shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
            x, w, out = numbers(gen, d, shape_in), numbers(gen, d, c.weight), gen.out(d, shape_out)
            run("aclnnConvolution", x, w, None, *c.arguments(gen, transposed), out, 0)
            terms = int(np.prod(c.weight)) // (1 if transposed else c.weight[0])
            checked(out.get(), c.of_input if transposed else c.forward, (x.get(), w.get()), d, terms, "output")
            grad, back, to_w = numbers(gen, d, shape_out), gen.out(d, shape_in), gen.out(d, c.weight)
            run("aclnnConvolutionBackward", grad, x, w, None, *c.arguments(gen, transposed), Bools(True, True, False),
                0, back, to_w, None)
            of_x, of_y = (grad, x) if transposed else (x, grad)
            terms = int(np.prod(c.weight))
            checked(back.get(), c.forward if transposed else c.of_input, (grad.get(), w.get()), d, terms, "gradInput")
            terms = c.batch * int(np.prod(c.g.out))
            checked(to_w.get(), c.of_weight, (of_x.get(), of_y.get()), d, terms, "gradWeight")
        each_case(self, "aclnnConvolution with pads by end", 4 * CASES, body)

    def test_forward(self):
        for n, transposed in itertools.product((1, 2, 3), (False, True)):
            each_case(self, f"aclnnConvolution {n}d {transposed}", 2 * CASES,
                      lambda g, n=n, t=transposed: self.forward(g, n, t))

    def test_many_channels(self):
        """Enough channels for the kernels on 16-bit values, which split a float into a sum of three; any strides."""
        def body(gen):
            n = gen.integer(1, 3)
            c, transposed = Case(gen, n), gen.chance(0.4)
            if gen.chance(0.3):                                              # too large a batch for one band
                c.batch = gen.integer(4, 40)
            c.groups, channels, rows = gen.pick((1, 1, 2)), gen.integer(16, 70), gen.integer(16, 70)
            c.weight = (c.groups * rows, channels, *c.g.kernel)
            c.x, c.y = (c.batch, c.groups * channels, *c.g.size), (c.batch, c.groups * rows, *c.g.out)
            shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
            kind, d = gen.pick(FLOATS), gen.pick((BF16, BF16, F16, F32, F32))
            x, w, out = numbers(gen, d, shape_in), numbers(gen, d, c.weight), gen.out(kind, shape_out)
            bias = numbers(gen, F32, (shape_out[1],)) if gen.chance(0.5) else None
            run("aclnnConvolution", x, w, bias, *c.arguments(gen, transposed), out, 0)
            add = bias.get().astype(np.float64).reshape(-1, *[1] * n) if bias else 0.0
            terms = int(np.prod(c.weight)) // (1 if transposed else c.weight[0])
            checked(out.get(), c.of_input if transposed else c.forward, (x.get(), w.get()), kind, terms, "output", add)
            grad, back = numbers(gen, d, shape_out), gen.out(kind, c.weight)
            run("aclnnConvolutionBackward", grad, x, w, None, *c.arguments(gen, transposed), Bools(False, True, False),
                0, None, back, None)
            ends = (grad.get(), x.get()) if transposed else (x.get(), grad.get())
            checked(back.get(), c.of_weight, ends, kind, c.batch * int(np.prod(c.g.out)), "gradWeight")
        each_case(self, "aclnnConvolution of many channels", CASES, body)

    def backward(self, gen, n, transposed):
        c = Case(gen, n)
        d = gen.pick(FLOATS)
        shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
        grad, x, w = numbers(gen, d, shape_out), numbers(gen, d, shape_in), numbers(gen, d, c.weight)
        mask = [gen.chance(0.8) for _ in range(3)]
        outs = [gen.out(d, s) if m else None for s, m in zip((shape_in, c.weight, (shape_out[1],)), mask)]
        a = c.arguments(gen, transposed)
        run("aclnnConvolutionBackward", grad, x, w, Ints(shape_out[1]) if gen.chance(0.5) else None,
            *a, Bools(*mask), 0, *outs)
        positions = c.batch * int(np.prod(c.g.out))
        if mask[0]:
            passes = c.forward if transposed else c.of_input
            checked(outs[0].get(), passes, (grad.get(), w.get()), d, int(np.prod(c.weight)), "gradInput")
        if mask[1]:
            ends = (grad.get(), x.get()) if transposed else (x.get(), grad.get())
            checked(outs[1].get(), c.of_weight, ends, d, positions, "gradWeight")
        if mask[2]:
            axes = (0, *range(2, 2 + n))
            checked(outs[2].get(), lambda g: g.sum(axes), (grad.get(),), d, positions, "gradBias")

    def test_backward(self):
        for n, transposed in itertools.product((1, 2, 3), (False, True)):
            each_case(self, f"aclnnConvolutionBackward {n}d {transposed}", CASES,
                      lambda g, n=n, t=transposed: self.backward(g, n, t))

    def test_large(self):
        """Sizes beyond one tile, image and block of weights; gradients by GEMMs, phase by phase of the stride."""
        rng = np.random.default_rng(5)
        sizes = (
            (2, 20, 30, 41, 37, 3, 1, 1),
            (3, 70, 9, 9, 300, 1, 1, 0),
            (1, 3, 64, 50, 33, 7, 2, 3),
            (1, 40, 11, 13, 600, 3, 1, 1),
            (2, 500, 3, 5, 250, 3, 2, 1),
            (2, 64, 15, 13, 48, 3, 1, 1),
            (1, 48, 13, 15, 64, 2, 1, 1))
        for (b, ci, h, w, co, k, s, p), d in itertools.product(sizes, (F32, BF16)):
            c = object.__new__(Case)
            c.g, c.n, c.groups, c.batch = object.__new__(Geometry), 2, 1, b
            c.g.size, c.g.kernel, c.g.stride, c.g.pad, c.g.dilation = [h, w], [k, k], [s, s], [p, p], [1, 1]
            c.g.out = [(i + 2 * p - k) // s + 1 for i in (h, w)]
            c.weight, c.x, c.y = (co, ci, k, k), (b, ci, h, w), (b, co, *c.g.out)
            normal = (rng.standard_normal(shape) for shape in (c.x, c.weight, c.y))
            x, wt, gy = (Tensor.of(d, v.astype(np.float32) if d is F32 else d.round(v)) for v in normal)
            out = Tensor.empty(d, c.y)
            a = [Ints(s, s), Ints(p, p), Ints(1, 1), False, Ints(0, 0), 1]
            run("aclnnConvolution", x, wt, None, *a, out, 0)
            checked(out.get(), c.forward, (x.get(), wt.get()), d, ci * k * k, "output")
            outs = [Tensor.empty(d, t) for t in (c.x, c.weight, (co,))]
            run("aclnnConvolutionBackward", gy, x, wt, Ints(co), *a, Bools(True, True, True), 0, *outs)
            checked(outs[0].get(), c.of_input, (gy.get(), wt.get()), d, co * k * k, "gradInput")
            checked(outs[1].get(), c.of_weight, (x.get(), gy.get()), d, b * int(np.prod(c.g.out)), "gradWeight")

    def test_ggml(self):
        """Calls of two of ggml's operators: SSM_CONV, a depthwise convolution with a transposed output, and
        CONV_TRANSPOSE_1D, with a kernel of 255 positions."""
        rng = np.random.default_rng(6)
        x = rng.standard_normal((2, 1024, 11)).astype(np.float32)
        w = rng.standard_normal((1024, 1, 4)).astype(np.float32)
        out = Tensor(F32, (2, 1024, 8), (8192, 1, 1024))
        run("aclnnConvolution", Tensor.of(F32, x), Tensor.of(F32, w), None,
            Ints(1), Ints(0), Ints(1), False, Ints(0), 1024, out, 0)
        exact = sum(w[:, 0, k, None].astype(LD) * x[:, :, k:k + 8] for k in range(4))
        ref.check(out.get(), exact, F32, slack=1e-5)
        x = rng.standard_normal((1, 3, 20)).astype(np.float32)
        w = rng.standard_normal((3, 2, 255)).astype(np.float32)
        out = Tensor.empty(F32, (1, 2, 19 * 3 + 255))
        run("aclnnConvolution", Tensor.of(F32, x), Tensor.of(F32, w), None,
            Ints(3), Ints(0), Ints(1), True, Ints(0), 1, out, 0)
        exact = np.zeros(out.shape, LD)
        for i in range(20):
            exact[0, :, 3 * i:3 * i + 255] += np.einsum("c,cok->ok", x[0, :, i].astype(LD), w.astype(LD))
        ref.check(out.get(), exact, F32, slack=1e-4)

    def test_by_channel(self):
        """Depthwise convolutions of stride 1 and their gradients: rows of many vectors, few and many rows, and outputs
        whose channels are contiguous."""
        def body(gen):
            n = gen.integer(1, 3)
            c, d = Case(gen, n), gen.pick(FLOATS)
            g = c.g = object.__new__(Geometry)
            rows = [*(gen.integer(1, 4) for _ in range(n - 2)), *(gen.integer(1, 21) for _ in range(n > 1))]
            g.size = [*rows, gen.integer(1, 150)]
            g.kernel = [gen.integer(1, 3) for _ in range(n - 1)] + [gen.integer(1, 6)]
            g.stride, g.pad = [1] * n, [gen.integer(0, 4) for _ in range(n)]
            g.dilation = [gen.integer(1, 2) for _ in range(n)]
            g.out = [s + 2 * p - e * (k - 1) for s, p, e, k in zip(g.size, g.pad, g.dilation, g.kernel)]
            if min(g.out) < 1:
                return
            c.groups, c.more = gen.integer(1, 37), [0] * n
            c.weight, c.x, c.y = (c.groups, 1, *g.kernel), (c.batch, c.groups, *g.size), (c.batch, c.groups, *g.out)
            transposed, terms = gen.chance(0.3), int(np.prod(g.kernel))
            shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
            x, w = numbers(gen, d, shape_in), numbers(gen, d, c.weight)
            bias = numbers(gen, d, (c.groups,)) if gen.chance(0.5) else None
            steps = np.cumprod([c.groups, *shape_out[:1:-1]])                 # strides where channels are contiguous
            across = Tensor(d, shape_out, [int(steps[-1]), 1, *(int(i) for i in steps[-2::-1])])
            add = bias.get().astype(np.float64).reshape(-1, *[1] * n) if bias else 0.0
            for out in (Tensor.empty(d, shape_out), across):
                run("aclnnConvolution", x, w, bias, *c.arguments(gen, transposed), out, 0)
                checked(out.get(), c.of_input if transposed else c.forward, (x.get(), w.get()), d, terms, "output", add)
            x, gy = Tensor.of(d, gen.values(d, c.x, limit=4)), Tensor.of(d, gen.values(d, c.y, limit=4))
            gx, gw = Tensor.empty(d, c.x), Tensor.empty(d, c.weight)
            run("aclnnConvolutionBackward", gy, x, w, None, *c.arguments(gen, False), Bools(True, True, False),
                0, gx, gw, None)
            checked(gx.get(), c.of_input, (gy.get(), w.get()), d, terms, "gradInput")
            checked(gw.get(), c.of_weight, (x.get(), gy.get()), d, c.batch * int(np.prod(g.out)), "gradWeight")

        each_case(self, "aclnnConvolution by channel", CASES, body)

    def test_depthwise_and_tbc(self):
        def depthwise(gen):
            c = Case(gen, 2)
            channels, times = gen.integer(1, 5), gen.integer(1, 3)
            c.groups, c.weight = channels, (channels * times, 1, *c.g.kernel)
            c.x, c.y = (c.batch, channels, *c.g.size), (c.batch, channels * times, *c.g.out)
            d = gen.pick(FLOATS)
            x, w, out = numbers(gen, d, c.x), numbers(gen, d, c.weight), gen.out(d, c.y)
            bias = numbers(gen, d, c.y[1:2]) if gen.chance(0.5) else None
            run("aclnnConvDepthwise2d", x, w, Ints(*c.g.kernel), bias, *c.arguments(gen, False)[:3], out, 0)
            add = bias.get().astype(np.float64).reshape(-1, 1, 1) if bias else 0.0
            checked(out.get(), c.forward, (x.get(), w.get()), d, int(np.prod(c.g.kernel)), "out", add)

        def tbc(gen):
            c = Case(gen, 1)
            c.groups, c.g.stride, c.g.dilation = 1, [1], [1]
            c.g.out = [c.g.size[0] + 2 * c.g.pad[0] - c.g.kernel[0] + 1]
            channels, rows = gen.integer(1, 5), gen.integer(1, 9)
            c.weight = (rows, channels, *c.g.kernel)
            c.x, c.y = (c.batch, channels, *c.g.size), (c.batch, rows, *c.g.out)
            data, kernel = (lambda s: (s[2], s[0], s[1])), (lambda s: (s[2], s[1], s[0]))
            back = lambda t: t.get().transpose(1, 2, 0)
            d = gen.pick(FLOATS)
            x, w, b = numbers(gen, d, data(c.x)), numbers(gen, d, kernel(c.weight)), numbers(gen, d, (rows,))
            out = gen.out(d, data(c.y))
            run("aclnnConvTbc", x, w, b, c.g.pad[0], out, 0)
            terms, wt = channels * c.g.kernel[0], w.get().transpose(2, 1, 0)
            checked(back(out), c.forward, (back(x), wt), d, terms, "output", b.get().astype(np.float64).reshape(-1, 1))
            grad, outs = numbers(gen, d, data(c.y)), [gen.out(d, s) for s in (data(c.x), kernel(c.weight), (rows,))]
            run("aclnnConvTbcBackward", grad, x, w, b, c.g.pad[0], 0, *outs)
            checked(back(outs[0]), c.of_input, (back(grad), wt), d, rows * c.g.kernel[0], "gradInput")
            positions = c.batch * c.g.out[0]
            checked(outs[1].get().transpose(2, 1, 0), c.of_weight, (back(x), back(grad)), d, positions, "gradWeight")
            checked(outs[2].get(), lambda g: g.sum((0, 2)), (back(grad),), d, positions, "gradBias")
        each_case(self, "aclnnConvDepthwise2d", CASES, depthwise)
        each_case(self, "aclnnConvTbc", CASES, tbc)

    def test_windows_of_three(self):
        """3 x 3 kernels, which the Winograd algorithm computes where there are enough channels. Small integers still
        give exact results. The sizes make odd heights and widths, rows of many tiles, images in several bands, groups,
        and values for which only intermediate results overflow."""
        def body(gen):
            c, transposed = Case(gen, 2), gen.chance(0.5)
            c.batch, c.groups = gen.integer(1, 5), gen.pick((1, 1, 2))
            channels, rows = gen.integer(16, 40), gen.integer(16, 40)
            c.g.size = [gen.integer(3, 20), gen.integer(3, 40) if gen.chance(0.9) else gen.integer(390, 420)]
            c.g.kernel, c.g.stride, c.g.dilation = [3, 3], [1, 1], [1, 1]
            c.g.pad = [gen.integer(0, 3) for _ in range(2)]
            c.g.out, c.more = [s + 2 * p - 2 for s, p in zip(c.g.size, c.g.pad)], [0, 0]
            c.weight = (c.groups * rows, channels, 3, 3)
            c.x, c.y = (c.batch, c.groups * channels, *c.g.size), (c.batch, c.groups * rows, *c.g.out)
            shape_in, shape_out = (c.y, c.x) if transposed else (c.x, c.y)
            x, w, bias = (gen.rng.integers(-9, 10, s).astype(np.float32) for s in (shape_in, c.weight, shape_out[1:2]))
            if gen.chance(0.2):                                              # twice this value is beyond float
                x[tuple(gen.integer(0, n - 1) for n in x.shape)] = 2.0 ** 127
                w = np.sign(w) / 2
            passes = c.of_input if transposed else c.forward
            expected = passes(x.astype(np.float64), w.astype(np.float64)) + bias.reshape(-1, 1, 1)
            out = gen.out(F32, shape_out)
            run("aclnnConvolution", gen.tensor(F32, x.shape, x), Tensor.of(F32, w), Tensor.of(F32, bias),
                *c.arguments(gen, transposed), out, 0)
            huge = np.abs(expected) > 1e30
            ref.check_equal(out.get()[~huge], expected[~huge].astype(np.float32))
            ref.check(out.get()[huge], expected[huge].astype(LD), F32, ulps=2)
            grad, back = gen.rng.integers(-5, 6, shape_out).astype(np.float32), gen.out(F32, c.weight)
            ends = (grad, x) if transposed else (x, grad)
            expected = c.of_weight(*(t.astype(np.float64) for t in ends)).astype(np.float32)
            if not np.isfinite(expected).all():
                return
            run("aclnnConvolutionBackward", gen.tensor(F32, grad.shape, grad), gen.tensor(F32, x.shape, x),
                Tensor.of(F32, w), None, *c.arguments(gen, transposed), Bools(False, True, False), 0, None, back, None)
            huge = np.abs(expected) > 1e30
            ref.check_equal(back.get()[~huge], expected[~huge], "gradWeight")
        each_case(self, "aclnnConvolution by windows of 3 x 3", CASES, body)

    def test_infinities_stay_where_they_are(self):
        x = np.ones((1, 40, 8, 20), np.float32)
        x[0, 3, 4, 10] = np.inf
        for d in (F32, BF16):
            for c, k in ((40, 3), (3, 5), (4, 1)):
                t, w = Tensor.of(d, x[:, :c]), Tensor.of(d, np.ones((5, c, k, k), np.float32))
                out = Tensor.empty(d, (1, 5, 8, 20))
                a = [Ints(1, 1), Ints(k // 2, k // 2), Ints(1, 1), False, Ints(0, 0), 1]
                run("aclnnConvolution", t, w, None, *a, out, 0)
                expected = np.zeros((8, 20), bool)
                if c > 3:
                    expected[4 - k // 2:5 + k // 2, 10 - k // 2:11 + k // 2] = True
                ref.check_equal(~np.isfinite(out.get()[0, 2]), expected, f"{d} {c} {k}")

    def test_numbers_without_parts(self):
        """Floats that are no exact sum of three bfloat16, or for which the products of these are denormal or overflow,
        give results within the usual bound."""
        sizes = (
            (1, 1, None), (1e-38, 1, None), (1, 1e-38, None), (1e-18, 1e-17, None), (1e-14, 1e-13, None),
            (3e38, 1e-4, None), (1e35, 1e-35, None), (1e30, 1e-4, 1e-36), (1, 1, 3e38), (1, 1, 1e-42))
        for k, (x_size, w_size, odd) in itertools.product((3, 1), sizes):
            self.without_parts(k, x_size, w_size, odd)

    def without_parts(self, k, x_size, w_size, odd):
        rng, pad = np.random.default_rng(7), k // 2
        a = [Ints(1, 1), Ints(pad, pad), Ints(1, 1), False, Ints(0, 0), 1]
        c = object.__new__(Case)
        c.g, c.n, c.groups, c.batch = object.__new__(Geometry), 2, 1, 2
        c.g.size, c.g.kernel, c.g.out = [13, 11], [k, k], [13, 11]
        c.g.stride, c.g.pad, c.g.dilation = [1, 1], [pad, pad], [1, 1]
        c.weight, c.x, c.y = (50, 60, k, k), (2, 60, 13, 11), (2, 50, 13, 11)

        def near(shape, size):
            magnitudes = (rng.random(shape) + 0.1) / 1.1
            return (magnitudes * rng.choice((-1, 1), shape) * size).astype(np.float32)
        x, w, g = near(c.x, x_size), near(c.weight, w_size), near(c.y, x_size)
        if odd:
            x[1, 5, 3, 4] = g[0, 7, 2, 1] = odd
        x, w, g, out = Tensor.of(F32, x), Tensor.of(F32, w), Tensor.of(F32, g), Tensor.empty(F32, c.y)
        what = f"{k} {x_size} {w_size} {odd}"
        run("aclnnConvolution", x, w, None, *a, out, 0)
        checked(out.get(), c.forward, (x.get(), w.get()), F32, 60 * k * k, "output " + what)
        outs = [Tensor.empty(F32, c.x), Tensor.empty(F32, c.weight)]
        run("aclnnConvolutionBackward", g, x, w, None, *a, Bools(True, False, False), 0, outs[0], None, None)
        checked(outs[0].get(), c.of_input, (g.get(), w.get()), F32, 50 * k * k, "gradInput " + what)
        small = Tensor.of(F32, near(c.x, w_size))
        run("aclnnConvolutionBackward", g, small, w, None, *a, Bools(False, True, False), 0, None, outs[1], None)
        checked(outs[1].get(), c.of_weight, (small.get(), g.get()), F32, 286, "gradWeight " + what)

    def test_infinities_in_gradients(self):
        """An infinity or NaN reaches the gradients of only those kernel positions that read it, at ends of rows too."""
        for d, odd in itertools.product((F32, BF16), (np.inf, np.nan)):
            x, g = np.ones((1, 20, 9, 40), np.float32), np.ones((1, 18, 9, 40), np.float32)
            x[0, 3, 4, 39] = odd            # in the last column, which kernel column 0 does not read
            w = Tensor.of(d, np.ones((18, 20, 3, 3), np.float32))
            a = [Ints(1, 1), Ints(1, 1), Ints(1, 1), False, Ints(0, 0), 1]
            outs = [Tensor.empty(d, x.shape), Tensor.empty(d, (18, 20, 3, 3))]
            run("aclnnConvolutionBackward", Tensor.of(d, g), Tensor.of(d, x), w, None,
                *a, Bools(True, True, False), 0, *outs, None)
            expected = np.zeros((18, 20, 3, 3), bool)
            expected[:, 3, :, 1:] = True
            ref.check_equal(~np.isfinite(outs[1].get()), expected, f"gradWeight {d} {odd}")
            g[0, 2, 4, 39] = odd
            run("aclnnConvolutionBackward", Tensor.of(d, g), Tensor.of(d, x), w, None,
                *a, Bools(True, False, False), 0, outs[0], None, None)
            expected = np.zeros(x.shape, bool)
            expected[0, :, 3:6, 38:] = True
            ref.check_equal(~np.isfinite(outs[0].get()), expected, f"gradInput {d} {odd}")

    def test_errors(self):
        x, w, out = Tensor.empty(F32, (1, 4, 8, 8)), Tensor.empty(F32, (6, 4, 3, 3)), Tensor.empty(F32, (1, 6, 6, 6))
        good = [x, w, None, Ints(1, 1), Ints(0, 0), Ints(1, 1), False, Ints(0, 0), 1, out, 0]
        for i, value, words in (
                (0, Tensor.empty(F32, (1, 5, 8, 8)), "input has 5 channels, expected 4"),
                (0, Tensor.empty(I32, (1, 4, 8, 8)), "input"),
                (3, Ints(0, 1), "stride[0] is 0"),
                (3, Ints(1, 1, 1), "stride has 3 elements, expected 2"),
                (4, Ints(-1, 0), "padding[0] is -1"),
                (5, Ints(9, 1), "expected room for a kernel of 19"),
                (8, 4, "expected a multiple of 4 groups"),
                (2, Tensor.empty(F32, (5,)), "bias has shape [5], expected [6]"),
                (9, Tensor.empty(F32, (1, 6, 6, 5)), "output has shape [1, 6, 6, 5], expected [1, 6, 6, 6]"),
                (3, Ints(1), "stride has 1 elements, expected 2"),
                (10, 5, "cubeMathType is 5, expected 0 to 4"),
                (0, Tensor.empty(F32, (4, 8, 8)), "input has shape [4, 8, 8], expected 4 dimensions")):
            args = list(good)
            args[i] = value
            code, message = refused("aclnnConvolution", *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)
        code, message = refused("aclnnConvolutionBackward", out, x, w, None, *good[3:9], Bools(True, False, False), 0,
                                None, None, None)
        self.assertIn("gradInput is NULL", message)
        transposed = [*good[:6], True, None, *good[8:]]
        code, message = refused("aclnnConvolution", *transposed)
        self.assertEqual(code, NULLPTR)
        self.assertIn("outputPadding is NULL, expected an array, as transposed is true", message)

    def test_errors_of_gradients(self):
        x, w, out = Tensor.empty(F32, (1, 4, 8, 8)), Tensor.empty(F32, (6, 4, 3, 3)), Tensor.empty(F32, (1, 6, 6, 6))
        good = [out, x, w, None, Ints(1, 1), Ints(0, 0), Ints(1, 1), False, Ints(0, 0), 1,
                Bools(True, False, False), 0, x, None, None]
        for i, value, code, words in (
                (8, None, NULLPTR, "outputPadding is NULL"),
                (11, 4, INVALID, "cubeMathType is 4, expected 0 to 3"),
                (8, Ints(0, 1), INVALID, "outputPadding[1] is 1, expected 0, as transposed is false"),
                (4, Ints(1), INVALID, "stride has 1 elements, expected 2")):
            args = list(good)
            args[i] = value
            got, message = refused("aclnnConvolutionBackward", *args)
            self.assertEqual(got, code, words)
            self.assertIn(words, message)

    def test_errors_of_other_forms(self):
        def t(*shape):
            return Tensor.empty(F32, shape)

        depthwise = [t(4, 1, 3, 3), Ints(3, 3), None, Ints(1, 1), Ints(0, 0), Ints(1, 1)]
        for op, args, words in (
                ("aclnnConvDepthwise2d", (t(4, 8, 8), *depthwise, t(4, 6, 6), 0), "expected 4 dimensions"),
                ("aclnnConvDepthwise2d", (t(1, 4, 8, 8), *depthwise, t(1, 4, 6, 6), 5), "cubeMathType is 5"),
                ("aclnnConvTbc", (t(5, 1, 2), t(3, 2, 4), t(4), 0, t(3, 1, 4), 5),
                 "cubeMathType is 5, expected 0 to 4"),
                ("aclnnConvTbcBackward",
                 (t(3, 1, 4), t(5, 1, 2), t(3, 2, 4), t(4), 0, 4, t(5, 1, 2), t(3, 2, 4), t(4)),
                 "cubeMathType is 4, expected 0 to 3")):
            code, message = refused(op, *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)


if __name__ == "__main__":
    unittest.main()
