# SPDX-License-Identifier: Apache-2.0
"""Average and max pooling, their gradients and MaxUnpool. The references are loops over the pooling windows."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, Tensor, refused, run
from dtypes import ALL, F16, F32, F64, FLOATS64, I16, I32, I64, I8, LD, U8
from gen import each_case

CASES = 60


class Axis:
    """The pooling windows along one axis. inputs(o) are the indices in window o, size(o) is the divisor of its mean."""

    def __init__(self, gen, adaptive=False, dilated=False, pairs=False, within=False, most=14):
        self.n, self.adaptive = gen.integer(1, most), adaptive
        if adaptive:
            self.out = gen.integer(1, most)
            return
        while True:
            self.kernel, self.stride = gen.integer(1, 5), gen.integer(1, 4)
            if gen.chance(0.1):
                self.kernel = gen.integer(1, 2 * most)
            self.dilation = gen.integer(1, 3) if dilated else 1
            self.pad = self.pad_end = gen.integer(0, self.kernel // 2)
            if pairs:
                self.pad_end = gen.integer(0, self.kernel - self.pad)
            self.ceil = False
            if self.count(False) > 0 and not (within and self.kernel > self.n):
                return

    def count(self, ceil):
        """The number of windows."""
        room = self.n + self.pad + self.pad_end - self.dilation * (self.kernel - 1) - 1
        if room < 0:
            return 0
        out = (-(-room // self.stride) if ceil else room // self.stride) + 1
        return out - 1 if ceil and (out - 1) * self.stride >= self.n + self.pad else out

    def inputs(self, o):
        if self.adaptive:
            return list(range(o * self.n // self.out, -(-(o + 1) * self.n // self.out)))
        all_ = [o * self.stride - self.pad + k * self.dilation for k in range(self.kernel)]
        return [i for i in all_ if 0 <= i < self.n]

    def size(self, o, count_pad):
        if self.adaptive or not count_pad:
            return len(self.inputs(o))
        begin = o * self.stride - self.pad
        return min(begin + self.kernel, self.n + self.pad) - begin


def axes_of(gen, n, ceil=None, wide=False, **kind):
    """wide: now and then with rows of several vectors."""
    axes = [Axis(gen, most={2: 14, 3: 7}[n], **kind) for _ in range(n)]
    if wide and gen.chance(0.3):
        axes[-1] = Axis(gen, most=70, **kind)
    for a in axes:
        if not a.adaptive:
            a.out = a.count(bool(ceil))
    return axes


def outputs(axes):
    return itertools.product(*(range(a.out) for a in axes))


def array(gen, axes, name):
    """The parameter `name` of all axes; where these are equal, now and then one value for all."""
    values = [getattr(a, name) for a in axes]
    return Ints(values[0]) if len(set(values)) == 1 and gen.chance(0.3) else Ints(*values)


def lead_of(gen):
    return tuple(gen.integer(1, 3) for _ in range(gen.integer(1, 2)))


def average_matrix(axes, count_pad, override):
    """The average as a matrix [outputs, inputs]."""
    m = np.zeros([a.out for a in axes] + [a.n for a in axes], LD)
    for o in outputs(axes):
        divisor = override or np.prod([a.size(i, count_pad) for a, i in zip(axes, o)])
        m[o][np.ix_(*(a.inputs(i) for a, i in zip(axes, o)))] = LD(1) / LD(int(divisor))
    return m.reshape(int(np.prod([a.out for a in axes])), -1)


def checked_average(got, m, x, shape, d, what):
    flat = x.astype(LD).reshape(-1, m.shape[1])
    exact, bound = flat @ m.T, np.abs(flat) @ np.abs(m).T
    eps = 2.0 ** -53 if d is F64 else 2.0 ** -24
    ref.check(got, exact.reshape(shape), d, slack=(8 * eps * bound).reshape(shape), what=what)


class Average(unittest.TestCase):
    def window(self, gen, n, backward):
        ceil, count_pad = gen.chance(0.5), gen.chance(0.5)
        axes, d, lead = axes_of(gen, n, ceil), gen.pick(FLOATS64), lead_of(gen)
        if n == 3 and not backward:
            axes = axes_of(gen, n, ceil, within=True)
        override = gen.integer(1, 9) if gen.chance(0.3) else 0
        strides = Ints() if all(a.stride == a.kernel for a in axes) else array(gen, axes, "stride")
        args = [array(gen, axes, "kernel"), strides, array(gen, axes, "pad"), ceil, count_pad, override]
        if n == 2:
            args.append(0)
        m = average_matrix(axes, count_pad, override)
        inputs, outs = (*lead, *(a.n for a in axes)), (*lead, *(a.out for a in axes))
        if not backward:
            x, out = gen.tensor(d, inputs, gen.values(d, inputs, limit=8)), gen.out(d, outs)
            run(f"aclnnAvgPool{n}d", x, *args, out)
            checked_average(out.get(), m, x.get(), outs, d, "average")
        else:
            g, x, out = gen.tensor(d, outs, gen.values(d, outs, limit=8)), gen.tensor(d, inputs), gen.out(d, inputs)
            run(f"aclnnAvgPool{n}dBackward", g, x, *args, out)
            checked_average(out.get(), m.T, g.get(), inputs, d, "gradient")

    def test_windows(self):
        for n in (2, 3):
            each_case(self, f"aclnnAvgPool{n}d", CASES, lambda g, n=n: self.window(g, n, False))
            each_case(self, f"aclnnAvgPool{n}dBackward", CASES, lambda g, n=n: self.window(g, n, True))

    def adaptive(self, gen, n, backward):
        axes, d, lead = axes_of(gen, n, adaptive=True), gen.pick(FLOATS64), lead_of(gen)
        if gen.chance(0.3):
            for a in axes:
                a.out = 1
        m = average_matrix(axes, False, 0)
        inputs, outs = (*lead, *(a.n for a in axes)), (*lead, *(a.out for a in axes))
        if not backward:
            x, out = gen.tensor(d, inputs, gen.values(d, inputs, limit=8)), gen.out(d, outs)
            run(f"aclnnAdaptiveAvgPool{n}d", x, Ints(*outs[-n:]), out)
            checked_average(out.get(), m, x.get(), outs, d, "average")
        else:
            g, x, out = gen.tensor(d, outs, gen.values(d, outs, limit=8)), gen.tensor(d, inputs), gen.out(d, inputs)
            run(f"aclnnAdaptiveAvgPool{n}dBackward", g, x, out)
            checked_average(out.get(), m.T, g.get(), inputs, d, "gradient")

    def test_adaptive(self):
        for n in (2, 3):
            each_case(self, f"aclnnAdaptiveAvgPool{n}d", CASES, lambda g, n=n: self.adaptive(g, n, False))
            each_case(self, f"aclnnAdaptiveAvgPool{n}dBackward", CASES, lambda g, n=n: self.adaptive(g, n, True))

    def test_global(self):
        def body(gen):
            d, rank = gen.pick(FLOATS64), gen.integer(4, 8)
            shape = (2, 3, *(gen.integer(1, 40 if rank == 4 else 6) for _ in range(rank - 2)))
            x, out = gen.tensor(d, shape, gen.values(d, shape, limit=8)), gen.out(d, (2, 3) + (1,) * (rank - 2))
            run("aclnnGlobalAveragePool", x, out)
            m = np.full((1, int(np.prod(shape[2:]))), LD(1) / LD(int(np.prod(shape[2:]))))
            checked_average(out.get(), m, x.get(), out.shape, d, "average")
            best = gen.out(d, out.shape)
            run("aclnnGlobalMaxPool", x, best)
            ref.check_equal(best.get(), x.get().max(tuple(range(2, rank)), keepdims=True))
        each_case(self, "aclnnGlobalAveragePool", CASES, body)
        x = Tensor.empty(F32, (2, 3, 4))
        for op in ("aclnnGlobalAveragePool", "aclnnGlobalMaxPool"):
            code, message = refused(op, x, Tensor.empty(F32, (2, 3, 1)))
            self.assertEqual(code, INVALID)
            self.assertIn("self has shape [2, 3, 4], expected 4 or more dimensions", message)

    def test_large(self):
        """Windows and rows that are too large for a tile."""
        rng = np.random.default_rng(2)
        x = rng.standard_normal((1, 2, 3, 5000)).astype(np.float32)
        for strides in (None, (60000, 30000, 10000, 2)):
            t = Tensor(F32, x.shape, strides, 0, 60000 if strides else None).set(x)
            out = Tensor.empty(F32, (1, 2, 1, 2))
            run("aclnnAdaptiveAvgPool2d", t, Ints(1, 2), out)
            exact = x.astype(LD).reshape(2, 3, 2, 2500).mean((1, 3)).reshape(out.shape)
            ref.check(out.get(), exact, F32, slack=1e-6)
            best, index = Tensor.empty(F32, out.shape), Tensor.empty(I64, out.shape)
            run("aclnnAdaptiveMaxPool2d", t, Ints(1, 2), best, index)
            halves = x.reshape(2, 3, 2, 2500).transpose(0, 2, 1, 3).reshape(1, 2, 1, 2, -1)
            ref.check_equal(best.get(), halves.max(-1))
            ref.check_equal(x.reshape(2, -1)[[[0, 0], [1, 1]], index.get().reshape(2, 2)].ravel(), best.get().ravel())
            wide = Tensor.empty(F32, (1, 2, 3, 1000))
            run("aclnnMaxPool", t, Ints(1, 4001), Ints(1, 1), 0, Ints(0, 0, 0, 0), Ints(1, 1), 0, wide)
            ref.check_equal(wide.get(), np.lib.stride_tricks.sliding_window_view(x, 4001, -1).max(-1))

    def test_averages_of_equal_numbers_are_exact(self):
        out = Tensor.empty(F32, (1, 1, 3, 3))
        sevens = Tensor.of(F32, np.full((1, 1, 9, 9), 7, np.float32))
        run("aclnnAvgPool2d", sevens, Ints(3), Ints(3), Ints(0), False, True, 0, 0, out)
        ref.check_equal(out.get(), np.full(out.shape, 7, np.float32))

    def test_ggml(self):
        """ggml passes padding with windows of one element; a window in the padding has the average 0."""
        x = np.arange(1, 13, dtype=np.float32).reshape(1, 2, 2, 3)
        out = Tensor.empty(F32, (1, 2, 4, 3))
        run("aclnnAvgPool2d", Tensor.of(F32, x), Ints(1, 1), Ints(1, 1), Ints(1, 0), False, True, 0, 0, out)
        ref.check_equal(out.get(), np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0))))

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 6, 6)), Tensor.empty(F32, (1, 2, 3, 3))
        good = [x, Ints(2, 2), Ints(2, 2), Ints(0, 0), False, True, 0, 0, out]
        for i, value, words in (
                (1, Ints(2, 0), "kernelSize[1] is 0, expected 1 or more"),
                (1, Ints(1, 2, 3), "kernelSize has 3 elements, expected 1 or 2"),
                (2, Ints(2, -1), "strides[1] is -1"),
                (3, Ints(-1, 0), "paddings[0] is -1"),
                (1, Ints(9, 2), "expected room for a window of 9"),
                (3, Ints(), "paddings has 0 elements, expected 1 or 2"),
                (7, 4, "cubeMathType is 4, expected 0 to 3"),
                (8, Tensor.empty(F32, (1, 2, 3, 4)), "out has shape [1, 2, 3, 4], expected [1, 2, 3, 3]"),
                (8, Tensor.empty(F16, (1, 2, 3, 3)), "out"),
                (0, Tensor.empty(F32, (6, 6)), "self has shape [6, 6], expected 3 or 4 dimensions"),
                (0, Tensor.empty(I32, (1, 2, 6, 6)), "self")):
            args = list(good)
            args[i] = value
            code, message = refused("aclnnAvgPool2d", *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)
        y = Tensor.empty(F32, (1, 2, 2, 2))
        for op, args, words in (
                ("AvgPool2dBackward", (out, x, Ints(2), Ints(2), Ints(0), False, True, 256, 0, x),
                 "divisorOverride is 256"),
                ("AvgPool3d", (y, Ints(3), Ints(1), Ints(1), False, False, 0, y),
                 "kernelSize[0] is 3, expected at most self's dimension, 2"),
                ("AvgPool3d", (y, Ints(1), Ints(1), Ints(1), False, True, 0, y),
                 "padding[0] is 1, expected at most half"),
                ("AdaptiveAvgPool2d", (x, Ints(3, 0), Tensor.empty(F32, (1, 2, 3, 0))),
                 "outputSize[1] is 0, expected 1 or more")):
            code, message = refused("aclnn" + op, *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)


def max_reference(x, axes):
    """Returns (maxima, their indices). Of equal maxima, the index is that of the first in row-major order; if there are
    NaN, both are of the last NaN."""
    lead, dims = x.shape[:x.ndim - len(axes)], [a.n for a in axes]
    flat = x.reshape(-1, *dims)
    values = np.zeros((len(flat), *(a.out for a in axes)), x.dtype)
    places = np.zeros(values.shape, np.int64)
    numbers = np.arange(int(np.prod(dims))).reshape(dims)
    for o in outputs(axes):
        window = np.ix_(*(a.inputs(i) for a, i in zip(axes, o)))
        where = numbers[window].ravel()
        for n, plane in enumerate(flat):
            w = plane[window].ravel()
            if not w.size:                      # only padding: the lowest value of the type
                values[(n, *o)] = -np.inf if w.dtype.kind == "f" else np.iinfo(w.dtype).min
                continue
            bad = np.flatnonzero(np.isnan(w)) if w.dtype.kind == "f" else []
            k = bad[-1] if len(bad) else int(np.argmax(w))
            values[(n, *o)], places[(n, *o)] = w[k], where[k]
    return values.reshape(*lead, *values.shape[1:]), places.reshape(*lead, *places.shape[1:])


def mask_shape(x_shape, axes):
    """The shape that aclnnMaxPool2dWithMask requires of its mask."""
    n = axes[0].out * axes[1].out
    return (*x_shape[:-2], axes[0].kernel * axes[1].kernel, (-(-n // 16) + 1) * 32)


class Max(unittest.TestCase):
    WITH_INDICES = (                            # operators, their number of axes, and how `forward` treats them
        ("aclnnMaxPool2dWithIndices", 2, "window"),
        ("aclnnMaxPool2dWithMask", 2, "mask"),
        ("aclnnMaxPool3dWithArgmax", 3, "window"),
        ("aclnnAdaptiveMaxPool2d", 2, "adaptive"),
        ("aclnnAdaptiveMaxPool3d", 3, "adaptive"))

    def test_max_pool(self):
        """aclnnMaxPool as ggml calls it: four paddings, and no workspace."""
        def body(gen):
            ceil, d, lead = gen.chance(0.5), gen.pick(FLOATS64 + (I8, I16, I32, I64, U8)), lead_of(gen)
            axes = axes_of(gen, 2, ceil, wide=True, pairs=True)
            x = gen.tensor(d, (*lead, *(a.n for a in axes)))
            out = gen.out(d, (*lead, *(a.out for a in axes)))
            strides = Ints() if all(a.stride == 1 for a in axes) else array(gen, axes, "stride")
            pads = Ints(*(a.pad for a in axes), *(a.pad_end for a in axes))
            size = run("aclnnMaxPool", x, array(gen, axes, "kernel"), strides, 0, pads, Ints(1, 1), int(ceil), out)
            self.assertEqual(size, 0)
            values = max_reference(x.get(), axes)[0]
            ref.check_equal(out.get(), values)
        each_case(self, "aclnnMaxPool", 2 * CASES, body)

    def forward(self, gen, op, n, kind, dilated=False):
        """Checks op and returns the operands of its gradient. If dilated, only returns them: op itself takes no dilated
        windows, only the gradient does."""
        ceil, d, lead = gen.chance(0.5), gen.pick(FLOATS64), lead_of(gen)
        axes = axes_of(gen, n, ceil, wide=True, adaptive=kind == "adaptive", dilated=dilated)
        x = gen.tensor(d, (*lead, *(a.n for a in axes)))
        shape = (*lead, *(a.out for a in axes))
        out = gen.out(d, shape)
        values, places = max_reference(x.get(), axes)
        if kind == "adaptive":
            args = [Ints(*shape[-n:])]
        else:
            args = [*(array(gen, axes, name) for name in ("kernel", "stride", "pad", "dilation")), ceil]
        if dilated:
            return axes, x, gen.out(gen.pick((I32, I64)), shape, places), args, places
        if kind == "mask":
            index = gen.keep(Tensor.empty(I8, mask_shape(x.shape, axes)))
            run(op, x, *args, out, index)
            raw, used = index.get().tobytes(), 4 * places.size
            if axes[0].kernel * axes[1].kernel == 1:
                used = 0
            else:
                ref.check_equal(np.frombuffer(raw[:used], np.int32).reshape(places.shape), places, "mask")
            self.assertEqual(raw[used:], bytes(len(raw) - used))
        else:
            index = gen.out(gen.pick((I32, I64)), shape)
            run(op, x, *args, out, index)
            ref.check_equal(index.get(), places, "indices")
        ref.check_equal(out.get(), values, op)
        return axes, x, index, args, places

    def backward(self, gen, op, n, kind, forward):
        dilated = n == 3 and kind == "window" and gen.chance(0.5)
        axes, x, index, args, places = self.forward(gen, forward, n, kind, dilated)
        d = x.dtype
        grad = gen.tensor(d, places.shape, gen.values(d, places.shape, limit=8))
        out = gen.out(d, x.shape)
        run(op, grad, x, index, *([] if kind == "adaptive" else args), out)
        lead = x.shape[:-n]
        exact = np.zeros((int(np.prod(lead)), int(np.prod(x.shape[-n:]))), LD)
        bound = exact.copy()
        values = grad.get().astype(LD).reshape(len(exact), -1)
        for i, (where, g) in enumerate(zip(places.reshape(len(exact), -1), values)):
            np.add.at(exact[i], where, g)
            np.add.at(bound[i], where, np.abs(g))
        eps = 2.0 ** -53 if d is F64 else 2.0 ** -24
        ref.check(out.get(), exact.reshape(x.shape), d, slack=(32 * eps * bound).reshape(x.shape), what=op)

    def test_indices(self):
        for op, n, kind in self.WITH_INDICES:
            each_case(self, op, CASES, lambda g, o=op, n=n, k=kind: self.forward(g, o, n, k))

    def test_gradients(self):
        for op, n, kind in self.WITH_INDICES:
            each_case(self, op + "Backward", CASES,
                      lambda g, o=op, n=n, k=kind: self.backward(g, o + "Backward", n, k, o))

    def test_torch_npu(self):
        """torch_npu's call for 2 x 2 windows over 16 x 16, with a mask of [N, C, 4, 160]."""
        x = np.random.default_rng(3).standard_normal((2, 3, 16, 16)).astype(np.float32)
        out, mask = Tensor.empty(F32, (2, 3, 8, 8)), Tensor.empty(I8, (2, 3, 4, 160))
        windows = [Ints(2, 2), Ints(2, 2), Ints(0, 0), Ints(1, 1), False]
        run("aclnnMaxPool2dWithMask", Tensor.of(F32, x), *windows, out, mask)
        ref.check_equal(out.get(), x.reshape(2, 3, 8, 2, 8, 2).max((3, 5)))
        grad = Tensor.empty(F32, x.shape)
        run("aclnnMaxPool2dWithMaskBackward", out, Tensor.of(F32, x), mask, *windows, grad)
        ref.check_equal(grad.get(), np.where(out.get().repeat(2, 2).repeat(2, 3) == x, x, 0))

    def test_index_out_of_range(self):
        g, x, out = (Tensor.of(F32, np.ones((1, 1, 2, 2), np.float32)), Tensor.empty(F32, (1, 1, 4, 4)),
                     Tensor.empty(F32, (1, 1, 4, 4)))
        for bad, words in ((16, "index of 16, expected 0 to 15"), (-1, "negative index")):
            index = Tensor.of(I64, np.array([0, 1, bad, 2], np.int64).reshape(1, 1, 2, 2))
            with self.assertRaises(AclError) as e:
                run("aclnnMaxPool2dWithIndicesBackward", g, x, index, Ints(2), Ints(2), Ints(0), Ints(1), False, out)
            self.assertIn(words, e.exception.message)

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 6, 6)), Tensor.empty(F32, (1, 2, 3, 3))
        index, wrong = Tensor.empty(I64, (1, 2, 3, 3)), Tensor.empty(I64, (1, 2, 3, 4))
        for args, words in (
                ((x, Ints(2), Ints(2), Ints(2), Ints(1), False, out, index), "padding[0] is 2, expected at most half"),
                ((x, Ints(2), Ints(2), Ints(0), Ints(0), False, out, index), "dilation[0] is 0"),
                ((x, Ints(2), Ints(2), Ints(0), Ints(1, 2), False, out, index), "dilation[1] is 2, expected 1"),
                ((x, Ints(2), Ints(2), Ints(), Ints(1), False, out, index), "padding has 0 elements, expected 1 or 2"),
                ((x, Ints(2), Ints(2), Ints(0), Ints(1), False, out, Tensor.empty(F32, out.shape)), "indices"),
                ((x, Ints(2), Ints(2), Ints(0), Ints(1), False, out, wrong), "indices has shape")):
            code, message = refused("aclnnMaxPool2dWithIndices", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        code, message = refused("aclnnMaxPool", x, Ints(2), Ints(2), 0, Ints(0), Ints(2), 0, out)
        self.assertIn("dilations[0] is 2, expected 1", message)
        code, message = refused("aclnnMaxPool2dWithIndicesBackward", out, x, index,
                                Ints(2), Ints(2), Ints(0), Ints(2), False, x)
        self.assertIn("dilation[0] is 2, expected 1", message)
        empty, no_indices = Tensor.empty(F32, (1, 2, 3, 0)), Tensor.empty(I64, (1, 2, 3, 0))
        code, message = refused("aclnnAdaptiveMaxPool2d", x, Ints(3, 0), empty, no_indices)
        self.assertIn("outputSize[1] is 0, expected 1 or more", message)
        code, message = refused("aclnnMaxPool", x, Ints(2), Ints(2), 1, Ints(0), Ints(1), 0, out)
        self.assertIn("autoPad is 1, expected 0", message)
        code, message = refused("aclnnMaxPool2dWithMask", x, Ints(2), Ints(2), Ints(0), Ints(1), False, out,
                                Tensor.empty(I8, (1, 2, 4, 32)))
        self.assertIn("indices has shape [1, 2, 4, 32], expected [1, 2, 4, 64]", message)


class Unpool(unittest.TestCase):
    def body(self, gen, n):
        d, lead = gen.pick(ALL), lead_of(gen)
        small, large = ([gen.integer(1, 6) for _ in range(n)] for _ in range(2))
        while np.prod(large) < np.prod(small):
            large[gen.integer(0, n - 1)] *= 2
        count, room = int(np.prod(small)), int(np.prod(large))
        places = np.array([gen.rng.permutation(room)[:count] for _ in range(int(np.prod(lead)))])
        x = gen.tensor(d, (*lead, *small))
        index = gen.out(gen.pick((I32, I64)), x.shape, places.reshape(x.shape))
        more = [Ints(1, 1, 1), Ints(0, 0, 0)] if n == 3 else []
        out = gen.out(d, (*lead, *large))
        run(f"aclnnMaxUnpool{n}d", x, index, Ints(*large), *more, out)
        expected = np.zeros((len(places), room), x.get().dtype)
        np.put_along_axis(expected, places, x.get().reshape(len(places), -1), 1)
        ref.check_equal(out.get(), expected.reshape(out.shape))
        grad, back = gen.tensor(d, out.shape), gen.out(d, x.shape)
        run(f"aclnnMaxUnpool{n}dBackward", grad, x, index, Ints(*large), *more, back)
        expected = np.take_along_axis(grad.get().reshape(len(places), -1), places, 1)
        ref.check_equal(back.get(), expected.reshape(x.shape))

    def test_all(self):
        for n in (2, 3):
            each_case(self, f"aclnnMaxUnpool{n}d", CASES, lambda g, n=n: self.body(g, n))

    def test_errors(self):
        x, index = Tensor.empty(F32, (1, 2, 2, 2)), Tensor.empty(I64, (1, 2, 2, 2))
        out = Tensor.empty(F32, (1, 2, 3, 3))
        one = Tensor.empty(F32, (1, 1, 1, 3))
        for op, args, words in (
                ("MaxUnpool2d", (x, index, Ints(1, 3), Tensor.empty(F32, (1, 2, 1, 3))),
                 "outputSize has room for 3 elements, expected self's 4 or more"),
                ("MaxUnpool3d", (x, index, Ints(1, 1, 3), Ints(1, 1, 1), Ints(0, 0, 0), one),
                 "outputSize has room for 3 elements, expected self's 8"),
                ("MaxUnpool3d", (x, index, Ints(2, 3, 3), Ints(1, 1), Ints(0, 0, 0), out),
                 "stride has 2 elements, expected 3"),
                ("MaxUnpool3d", (x, index, Ints(2, 3, 3), Ints(1, 0, 1), Ints(0, 0, 0), out),
                 "stride[1] is 0, expected 1 or more"),
                ("MaxUnpool3dBackward", (out, x, index, Ints(2, 3, 3), Ints(1, 1, 1), Ints(0), x),
                 "padding has 1 elements, expected 3")):
            code, message = refused("aclnn" + op, *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)


if __name__ == "__main__":
    unittest.main()
