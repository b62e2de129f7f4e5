# SPDX-License-Identifier: Apache-2.0
"""Operators that MindSpore calls by name beside those of graph.aclop (ops/mindspore.aclop), against MindSpore's
definitions of its primitives."""
import math
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Missing, Operand, execute
from dtypes import BF16, BOOL, C64, C128, F16, F32, F64, I32, I64, LD, U8
from gen import each_case

FLOATS = (F32, F16, F64)


def run(name, inputs, d, shape, attributes=None):
    """The values of a single output."""
    y = Operand.empty(d, shape)
    execute(name, inputs, [y], {"not_an_attribute": 3, **(attributes or {})})
    return y.get()


def bessel_scaled(x, order):
    """e^-|x| I_order(x), from its integral over [0, pi] by the trapezoidal rule, which converges geometrically."""
    t = np.linspace(0, np.pi, 2001).astype(LD)
    weight = np.where((t == 0) | (t == t[-1]), LD(0.5), LD(1)) / 2000
    a = np.abs(LD(x))
    value = (weight * np.exp(a * (np.cos(t) - 1)) * np.cos(order * t)).sum()
    return value * (np.sign(x) if order else 1)


def lower_gamma(a, x):
    """P(a, x) for an a of n or n + 1/2: from a of 1 or 1/2 by recurrence."""
    half = a % 1 != 0
    at = LD(0.5) if half else LD(1)
    value = LD(math.erf(math.sqrt(x))) if half else 1 - np.exp(-LD(x))
    while at < a:
        value -= np.exp(at * np.log(LD(x)) - x - LD(math.lgamma(float(at) + 1)))
        at += 1
    return value


def multivariate_lgamma(x):
    """Of dimension 3."""
    return LD(1.5) * np.log(LD(np.pi)) + sum(LD(math.lgamma(x - k / 2)) for k in range(3))


class Functions(unittest.TestCase):
    def unary(self, name, exact, limit, attributes=None, ulps=2, magnitude=None, low=None):
        def body(gen):
            d = gen.pick(FLOATS)
            shape = gen.shape(3, numel=60)
            operand = Operand.of(d, gen.rng.uniform(-limit if low is None else low, limit, shape).astype(d.values))
            x = operand.get()
            want = np.vectorize(exact, otypes=[LD])(x.astype(LD)) if x.size else x.astype(LD)
            slack = 0 if magnitude is None else magnitude(np.abs(x.astype(LD))) * 2.0 ** (-50 if d is F64 else -23)
            ref.check(run(name, [operand], d, shape, attributes), want, d, ulps=ulps, slack=slack)
        each_case(self, name, 12, body)

    def test_special(self):
        self.unary("CustBesselI0", lambda x: bessel_scaled(x, 0) * np.exp(abs(x)), 10, ulps=16)
        self.unary("BesselI0e", lambda x: bessel_scaled(x, 0), 60, ulps=16)
        self.unary("BesselI1e", lambda x: bessel_scaled(x, 1), 60, ulps=16, magnitude=lambda x: x * 0 + 1e-2)
        self.unary("CustLgamma", lambda x: LD(math.lgamma(x)), 20, low=0.01, magnitude=lambda x: x + 1)
        self.unary("CustSinc", lambda x: np.sinc(x), 4, magnitude=lambda x: x + 1)
        self.unary("CustMvlgamma", multivariate_lgamma, 20, {"p": 3}, low=1.5, magnitude=lambda x: 8 * x + 16)
        self.unary("CustLogit", lambda x: np.log(x / (1 - x)), 0.9, {"eps": -1.0}, low=0.1, magnitude=lambda x: x + 1)

    def test_large_arguments(self):
        x = np.array([0, 700, 30, 29.999, 1e30, np.inf, np.nan])
        got = run("BesselI0e", [Operand.of(F64, x)], F64, x.shape)
        want = [1] + [float(bessel_scaled(v, 0)) for v in x[1:4]] + [1 / np.sqrt(2e30 * np.pi), 0, np.nan]
        np.testing.assert_allclose(got, want, 1e-14)
        got = run("CustBesselI0", [Operand.of(F64, [713.0, -np.inf])], F64, (2,))
        np.testing.assert_allclose(got, [float(bessel_scaled(713, 0) * np.exp(LD(713))), np.inf], 1e-12)

    def test_igamma(self):
        def body(gen):
            d = gen.pick((F32, F64))
            n = gen.integer(1, 40)
            a = gen.rng.integers(1, 40, n) / 2
            x = gen.rng.uniform(0.01, 40, n).astype(d.values)
            want = np.array([lower_gamma(k, v) for k, v in zip(a, x.astype(LD))])
            got = run("CustIgamma", [Operand.of(d, a.astype(d.values)), Operand.of(d, x)], d, (n,))
            ref.check(got, want, d, slack=1e-12)
        each_case(self, "CustIgamma", 12, body)
        # Large a: the distribution is nearly that of a normal one, by the cube root (Wilson and Hilferty).
        for a in (2e6, 1e9, 1e13):
            z = np.array([-3, -1, 0, 1e-3, 1, 3])
            x = a * (1 - 1 / (9 * a) + z / (3 * np.sqrt(a))) ** 3
            got = run("CustIgamma", [Operand.of(F64, np.full(6, a)), Operand.of(F64, x)], F64, (6,))
            np.testing.assert_allclose(got, [0.5 * math.erfc(-v / math.sqrt(2)) for v in z],
                                       atol=1e-5)
        self.assertTrue(np.isnan(run("CustMvlgamma", [Operand.of(F64, [3.0])], F64, (1,), {"p": 0})).all())
        a, x = np.array([0, 0, 1, 2, -1, np.inf, 3]), np.array([0, 1, 0, np.inf, 1, 2, np.nan])
        got = run("CustIgamma", [Operand.of(F64, a), Operand.of(F64, x)], F64, a.shape)
        np.testing.assert_array_equal(got, [np.nan, 1, 0, 1, np.nan, 0, np.nan])

    def test_pairs(self):
        def body(gen):
            shape = gen.shape(3)
            d = gen.pick((I32, I64))
            x, y = (gen.rng.integers(-60, 60, shape).astype(d.values) for _ in range(2))
            pair = [Operand.of(d, x), Operand.of(d, y)]
            ref.check_equal(run("CustGcd", pair, d, shape), np.gcd(x, y))
            ref.check_equal(run("CustLcm", pair, d, shape), np.lcm(x, y))
            ref.check_equal(run("CustHeaviside", pair, d, shape), np.where(x == 0, y, x > 0).astype(d.values))
            p, q = (gen.rng.random(shape) < 0.5 for _ in range(2))
            ref.check_equal(run("CustLogicalXor", [Operand.of(BOOL, p), Operand.of(BOOL, q)], BOOL, shape), p ^ q)
            d = gen.pick(FLOATS)
            x, y = (gen.values(d, shape, limit=4) for _ in range(2))
            pair = [Operand.of(d, x), Operand.of(d, y)]
            ref.check(run("CustHypot", pair, d, shape), np.hypot(x.astype(LD), y.astype(LD)), d)
            ref.check_equal(run("CustHeaviside", pair, d, shape), np.heaviside(x, y).astype(d.values))
        each_case(self, "pairs", 12, body)

    def test_complex(self):
        x = (np.arange(6) + 1j * np.arange(6, 0, -1)).astype(np.complex64)
        ref.check_equal(run("CustReal", [Operand.of(C64, x)], F32, (6,)), x.real)
        polar = [Operand.of(F32, np.abs(x)), Operand.of(F32, np.angle(x))]
        np.testing.assert_allclose(run("CustPolar", polar, C64, (6,)), x, 1e-6, 1e-6)

    def test_epsilon(self):
        for d, want in ((F32, 2 ** -23), (F64, 2 ** -52), (F16, 2 ** -10), (BF16, 2 ** -7)):
            got = run("CustEps", [Operand.of(d, np.ones((2, 3), d.values))], d, (2, 3))
            np.testing.assert_array_equal(got.astype(np.float64), want)


def average(x, sizes, grad=None):
    """Adaptive average pools of the last dimensions, or the gradient of x."""
    lead = x.ndim - len(sizes)
    out, back = np.zeros((*x.shape[:lead], *sizes), LD), np.zeros(x.shape, LD)
    for at in np.ndindex(*sizes):
        part = (..., *(slice(k * n // s, -(-(k + 1) * n // s)) for k, n, s in zip(at, x.shape[lead:], sizes)))
        box = x[part]
        axes = tuple(range(lead, x.ndim))
        out[(..., *at)] = box.mean(axes)
        if grad is not None:
            back[part] += (grad[(..., *at)] / np.prod(box.shape[lead:])).reshape(*x.shape[:lead], *[1] * len(sizes))
    return out if grad is None else back


def windows(x, kernel, stride, pad, fill):
    ends = [(0, 0), (0, 0), *((p, p) for p in pad)]
    w = np.lib.stride_tricks.sliding_window_view(np.pad(x, ends, constant_values=fill), kernel, tuple(range(2, x.ndim)))
    return w[(..., *(slice(None, None, s) for s in stride), *[slice(None)] * len(kernel))]


class Pools(unittest.TestCase):
    def test_adaptive(self):
        def body(gen):
            d, n = gen.pick(FLOATS), gen.pick((2, 3))
            sizes = tuple(gen.integer(1, 4) for _ in range(n))
            x = gen.values(d, (gen.integer(1, 2), gen.integer(1, 3), *(gen.integer(s, 7) for s in sizes)), limit=4)
            name = f"CustAdaptiveAvgPool{n}{'dD'[n == 2]}"
            want = average(x.astype(LD), sizes)
            got = run(name, [Operand.of(d, x)], d, want.shape, {"output_size": sizes})
            ref.check(got, want, d, slack=1e-5)
            grad = gen.values(d, want.shape, limit=4)
            got = run(name + "Grad", [Operand.of(d, grad), Host(x.shape)], d, x.shape)
            ref.check(got, average(x.astype(LD), sizes, grad.astype(LD)), d, slack=1e-5)
        each_case(self, "adaptive", 12, body)
        with self.assertRaisesRegex(AclError, "outputSize has 1 elements, expected 2"):
            run("CustAdaptiveAvgPool2D", [Operand.of(F32, np.ones((1, 1, 2, 2)))], F32, (1, 1, 1, 1),
                {"output_size": (1,)})

    def test_max(self):
        def body(gen):
            kernel, stride = ([gen.integer(1, 3) for _ in range(3)] for _ in range(2))
            pad = [gen.integer(0, k // 2) for k in kernel]
            x = gen.rng.permutation(2 * 3 * 5 * 6 * 7).reshape(2, 3, 5, 6, 7).astype(np.float32)
            given = {"ksize": tuple(kernel), "strides": tuple(stride), "pads": tuple(pad), "dilation": (1, 1, 1),
                     "ceil_mode": False, "data_format": "NCDHW", "argmax_type": "int64"}
            place = np.broadcast_to(np.arange(5 * 6 * 7).reshape(5, 6, 7), x.shape)
            w, at = windows(x, kernel, stride, pad, -1), windows(place, kernel, stride, pad, -1)
            flat = w.reshape(*w.shape[:5], -1).argmax(-1)[..., None]
            want, where = (np.take_along_axis(v.reshape(*v.shape[:5], -1), flat, -1)[..., 0] for v in (w, at))
            y, argmax = Operand.empty(F32, want.shape), Operand.empty(gen.pick((I32, I64)), want.shape)
            execute("CustMaxPool3DWithArgmax", [Operand.of(F32, x)], [y, argmax], given)
            ref.check_equal(y.get(), want)
            ref.check_equal(argmax.get().astype(np.int64), where)
            grad = gen.values(F32, want.shape, limit=4)
            back = np.zeros((6, 5 * 6 * 7), LD)
            for row, p, g in zip(back, where.reshape(6, -1), grad.reshape(6, -1)):
                np.add.at(row, p, g)
            operands = [Operand.of(F32, x), Operand.of(F32, grad), argmax]
            got = run("CustMaxPool3DGradWithArgmax", operands, F32, x.shape, given)
            ref.check(got, back.reshape(x.shape), F32, slack=1e-5)
        each_case(self, "max", 8, body)

    def test_unpool(self):
        def body(gen):
            d, k, n = gen.pick(FLOATS), gen.pick((I32, I64)), gen.pick((2, 3))
            large = (2, 3, *(gen.integer(2, 5) for _ in range(n)))
            count = int(np.prod(large[2:]))
            small = (2, 3, *[1] * (n - 1), gen.integer(1, count))
            x = gen.values(d, small, limit=4)
            at = np.stack([gen.rng.permutation(count)[:small[-1]] for _ in range(6)])
            want = np.zeros((6, count), x.dtype)
            np.put_along_axis(want, at, x.reshape(6, -1), 1)
            index = Operand.of(k, at.reshape(small).astype(k.values))
            given = {"ksize": (1, 1, *[2] * n), "strides": (1, 1, *[2] * n), "pads": (0,) * 2 * n,
                     "data_format": "NCHW"}
            got = run(f"CustMaxUnpool{n}D", [Operand.of(d, x), index], d, large, given)
            ref.check_equal(got, want.reshape(large))
            grad = gen.values(d, large, limit=4)
            got = run(f"CustMaxUnpool{n}DGrad", [Operand.of(d, x), Operand.of(d, grad), index], d, small, given)
            ref.check_equal(got, np.take_along_axis(grad.reshape(6, -1), at, 1).reshape(small))
        each_case(self, "unpool", 10, body)

    def test_adaptive_max_gradient(self):
        grad, at = np.float32([[[[3, 5]]]]), np.array([[[[2, 2]]]])
        x = Operand.of(F32, np.ones((1, 1, 2, 2), np.float32))
        got = run("CustAdaptiveMaxPool2dGrad", [Operand.of(F32, grad), x, Operand.of(I64, at)], F32, (1, 1, 2, 2))
        ref.check_equal(got, np.float32([[[[0, 0], [8, 0]]]]))

    def test_average_3d(self):
        def body(gen):
            d = gen.pick(FLOATS)
            kernel, stride = ([gen.integer(1, 3) for _ in range(3)] for _ in range(2))
            pad, counted = [gen.integer(0, k // 2) for k in kernel], gen.chance(0.5)
            divisor = gen.pick((0, 0, 5))
            x = gen.values(d, (2, 2, *(gen.integer(k, 6) for k in kernel)), limit=4)
            given = {"ksize": (1, 1, *kernel), "strides": (1, 1, *stride),
                     "pads": tuple(p for p in pad for _ in (0, 1)), "ceil_mode": False, "count_include_pad": counted,
                     "divisor_override": divisor, "data_format": "NCDHW"}
            w = windows(x.astype(LD), kernel, stride, pad, 0)
            n = windows(np.ones(x.shape, LD), kernel, stride, pad, 1 if counted else 0).sum((5, 6, 7))
            n = n * 0 + divisor if divisor else n
            ref.check(run("AvgPool3D", [Operand.of(d, x)], d, n.shape, given), w.sum((5, 6, 7)) / n, d, slack=1e-5)
            grad = gen.values(d, n.shape, limit=4)
            back = np.zeros((2, 2, *(s + 2 * p for s, p in zip(x.shape[2:], pad))), LD)
            for at in np.ndindex(*n.shape[2:]):
                part = tuple(slice(k * s, k * s + z) for k, s, z in zip(at, stride, kernel))
                back[(..., *part)] += (grad.astype(LD) / n)[(..., *at)][:, :, None, None, None]
            back = back[(..., *(slice(p, p + s) for p, s in zip(pad, x.shape[2:])))]
            got = run("AvgPool3DGrad", [Host(x.shape), Operand.of(d, grad)], d, x.shape, given)
            ref.check(got, back, d, slack=1e-5)
        each_case(self, "AvgPool3D", 10, body)
        x = Operand.of(F32, np.ones((1, 1, 2, 2, 2)))
        good = {"ksize": (1, 1, 2, 2, 2), "strides": (1, 1, 2, 2, 2), "pads": (0,) * 6, "data_format": "NCDHW"}
        for change, words in (({"data_format": "NDHWC"}, "data_format is NDHWC, expected NCDHW"),
                              ({"pads": (0, 1, 0, 0, 0, 0)}, "pads are 0 and 1 at the ends of an axis"),
                              ({"ksize": (2, 2, 2)}, "ksize has 3 elements, expected 5")):
            with self.assertRaisesRegex(AclError, words):
                run("AvgPool3D", [x], F32, (1, 1, 1, 1, 1), {**good, **change})


class Moves(unittest.TestCase):
    def test_columns(self):
        def body(gen):
            d = gen.pick(FLOATS)
            kernel, stride, dilation = ([gen.integer(1, 3) for _ in range(2)] for _ in range(3))
            pad = [gen.integer(0, 2) for _ in range(2)]
            x = gen.values(d, (2, 3, *(gen.integer((k - 1) * s + 1, 9) for k, s in zip(kernel, dilation))), limit=4)
            reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilation)]
            w = windows(x, reach, stride, pad, 0)[..., ::dilation[0], ::dilation[1]]
            want = w.transpose(0, 1, 4, 5, 2, 3).reshape(2, 3, kernel[0] * kernel[1], -1)
            pads = tuple(pad) if gen.chance(0.5) else (pad[0], pad[0], pad[1], pad[1])
            got = run("CustIm2col", [Operand.of(d, x)], d, want.shape,
                      {"ksizes": tuple(kernel), "strides": tuple(stride), "dilations": tuple(dilation), "pads": pads})
            ref.check_equal(got, want)
            columns = gen.values(d, want.shape, limit=4)
            back = np.zeros((2, 3, *(n + 2 * p for n, p in zip(x.shape[2:], pad))), LD)
            each = columns.astype(LD).reshape(2, 3, *kernel, *w.shape[2:4])
            for i, j, a, b in np.ndindex(*kernel, *w.shape[2:4]):
                back[:, :, a * stride[0] + i * dilation[0], b * stride[1] + j * dilation[1]] += each[:, :, i, j, a, b]
            back = back[:, :, pad[0]:pad[0] + x.shape[2], pad[1]:pad[1] + x.shape[3]]
            got = run("Col2im", [Operand.of(d, columns), Host(x.shape[2:], np.int32)], d, x.shape,
                      {"kernel_size": tuple(kernel), "stride": tuple(stride), "dilation": tuple(dilation),
                       "padding": tuple(pad)})
            ref.check(got, back, d, slack=1e-5)
        each_case(self, "columns", 12, body)
        x = Operand.of(F32, np.ones((1, 1, 4, 4)))
        with self.assertRaisesRegex(AclError, "pads are 1 and 0 at the ends of an axis, expected equal ones"):
            run("CustIm2col", [x], F32, (1, 1, 4, 9), {"ksizes": (2, 2), "pads": (1, 0, 0, 0)})

    def test_parts(self):
        def body(gen):
            d = gen.pick((F32, F16, I32, U8))
            shape = tuple(gen.integer(1, 6) for _ in range(gen.integer(1, 4)))
            begin = [gen.integer(0, n - 1) for n in shape]
            size = [gen.integer(1, n - b) for n, b in zip(shape, begin)]
            dy = gen.values(d, size)
            want = np.zeros(shape, d.values)
            want[tuple(slice(b, b + n) for b, n in zip(begin, size))] = dy
            told = [-1 if b + n == m else n for b, n, m in zip(begin, size, shape)]
            operands = [Operand.of(d, dy), Operand.of(d, np.ones(shape, d.values)), Host(begin, np.int32),
                        Host(told, np.int32)]
            got = run("CustSliceGrad", operands, d, shape)
            ref.check_equal(got, want)
            cut = tuple(gen.integer(0, 8) for _ in shape)
            x = gen.values(d, shape)
            want = np.pad(x, [(0, max(n - m, 0)) for n, m in zip(cut, shape)])[tuple(slice(n) for n in cut)]
            ref.check_equal(run("CustFFTShapeCopy", [Operand.of(d, x), Host(cut)], d, cut), want)
            x, n = gen.values(d, (*shape, 1)), gen.integer(1, 40)
            got = run("CustPadding", [Operand.of(d, x)], d, (*shape, n), {"pad_dim_size": n})
            ref.check_equal(got, np.pad(x, [(0, 0)] * len(shape) + [(0, n - 1)]))
            groups = gen.integer(1, 4)
            x = gen.values(d, (2, groups * gen.integer(1, 3), 3, 2))
            got = run("ShuffleChannel", [Operand.of(d, x)], d, x.shape, {"group": groups})
            ref.check_equal(got, x.reshape(2, groups, -1, 3, 2).swapaxes(1, 2).reshape(x.shape))
        each_case(self, "parts", 12, body)
        x, dy = Operand.of(F32, np.ones((3, 4))), Operand.of(F32, np.ones((2, 2)))
        with self.assertRaisesRegex(AclError, r"size\[1\] is 4, expected -1 to 3"):
            run("CustSliceGrad", [dy, x, Host((0, 1)), Host((2, 4))], F32, (3, 4))
        with self.assertRaisesRegex(AclError, r"x has shape \[3, 4\], expected two dimensions or more, the last of 1"):
            run("CustPadding", [x], F32, (3, 4), {"pad_dim_size": 4})

    def test_triangles(self):
        def body(gen):
            rows, columns, offset, d = gen.integer(0, 7), gen.integer(0, 7), gen.integer(-8, 8), gen.pick((I32, I64))
            for name, of in (("CustTrilIndices", np.tril_indices), ("CustTriuIndices", np.triu_indices)):
                want = np.stack(of(rows, offset, columns)).astype(d.values)
                got = run(name, [], d, want.shape, {"row": rows, "col": columns, "offset": offset, "dtype": d.code})
                ref.check_equal(got, want)
        each_case(self, "triangles", 12, body)
        with self.assertRaisesRegex(AclError, "row is -1, expected 0 to"):
            run("CustTrilIndices", [], I64, (2, 0), {"row": -1, "col": 2})

    def test_grid(self):
        theta = np.random.default_rng(1).normal(size=(2, 2, 3)).astype(np.float32)
        for corners in (False, True):
            axes = [np.linspace(-1, 1, n) * (1 if corners else (n - 1) / n) for n in (4, 5)]
            points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones((4, 5))], -1)
            got = run("CustAffineGrid", [Operand.of(F32, theta), Host((2, 3, 4, 5))], F32, (2, 4, 5, 2),
                      {"align_corners": corners})
            np.testing.assert_allclose(got, np.einsum("hwk,nck->nhwc", points, theta), 1e-5, 1e-5)


class Matrices(unittest.TestCase):
    def test_trace(self):
        def body(gen):
            d = gen.pick((F32, F64, I32, I64))
            shape = (gen.integer(1, 30), gen.integer(1, 30))
            x = gen.values(d, shape, limit=4)
            want = x.astype(LD).trace()
            ref.check(run("Trace", [Operand.of(d, x)], d, ()), want, d, slack=1e-5)
            grad = gen.values(d, (), limit=4)
            for sizes in (shape, (0, 3)):
                got = run("CustTraceGrad", [Operand.of(d, grad), Host(sizes)], d, sizes)
                ref.check_equal(got, (np.eye(*sizes) * grad).astype(d.values))
        each_case(self, "trace", 8, body)

    def test_inverse(self):
        x = np.random.default_rng(2).normal(size=(3, 5, 5)) + 4 * np.eye(5)
        got = run("MatrixInverse", [Operand.of(F64, x)], F64, x.shape, {"adjoint": False})
        np.testing.assert_allclose(got, np.linalg.inv(x), 1e-9)

    def test_renorm(self):
        def body(gen):
            x = gen.values(F32, (gen.integer(1, 5), gen.integer(1, 40), gen.integer(1, 4)), limit=4)
            p, dim, most = gen.pick((1.0, 2.0, 3.0)), gen.integer(0, 2), gen.pick((0.5, 3.0))
            rows = np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1).astype(LD)
            norms = (np.abs(rows) ** p).sum(1) ** (1 / LD(p))
            shape = [1] * 3
            shape[dim] = x.shape[dim]
            want = np.where(norms > most, most / (norms + 1e-7), 1).reshape(shape)
            got = run("Renorm", [Operand.of(F32, x)], F32, shape, {"p": p, "dim": dim, "maxnorm": most})
            ref.check(got, want, F32, slack=1e-5)
        each_case(self, "Renorm", 10, body)

    def test_distances(self):
        x = np.random.default_rng(3).normal(size=(6, 4)).astype(np.float32)
        pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
        want = [np.linalg.norm((x[i] - x[j]).astype(np.float64)) for i, j in pairs]
        np.testing.assert_allclose(run("Pdist", [Operand.of(F32, x)], F32, (15,), {"p": 2.0}), want, 1e-5)

    def test_multilabel(self):
        x = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32)
        target = np.int32([[1, 0, -1, 2], [3, -1, 0, 1], [-1, 0, 1, 2]])
        flags, losses = np.zeros((3, 4)), np.zeros(3)
        for i, row in enumerate(target):
            chosen = list(row[:list(row).index(-1)])
            flags[i, chosen] = 1
            losses[i] = sum(max(0, 1 - x[i, t] + x[i, c]) for t in chosen for c in range(4) if c not in chosen) / 4
        for reduction, want in (("none", losses), ("mean", losses.mean()), ("sum", losses.sum())):
            for d in (I32, F32):
                y, is_target = Operand.empty(F32, np.shape(want)), Operand.empty(d, (3, 4))
                execute("MultilabelMarginLoss", [Operand.of(F32, x), Operand.of(I32, target)], [y, is_target],
                        {"reduction": reduction})
                np.testing.assert_allclose(y.get(), want, 1e-5)
                np.testing.assert_array_equal(is_target.get(), flags)
        with self.assertRaisesRegex(AclError, 'reduction is "max", expected "none", "mean"'):
            execute("MultilabelMarginLoss", [Operand.of(F32, x), Operand.of(I32, target)],
                    [Operand.empty(F32, ()), Operand.empty(I32, (3, 4))], {"reduction": "max"})

    def test_multi_margin(self):
        def body(gen):
            d, p, reduction = gen.pick(FLOATS), gen.integer(1, 2), gen.pick(("none", "mean", "sum"))
            n, classes, weighted = gen.integer(1, 5), gen.integer(1, 9), gen.chance(0.5)
            x, w = (Operand.of(d, gen.values(d, shape, limit=2)) for shape in ((n, classes), (classes,)))
            target = gen.rng.integers(0, classes, n)
            given = {"p": p, "margin": 0.75, "reduction": reduction}
            values, weight = x.get().astype(LD), w.get().astype(LD)[target] if weighted else np.ones(n, LD)
            over = np.maximum(0.75 - values[np.arange(n), target][:, None] + values, 0)
            over[np.arange(n), target] = 0
            losses = weight * (over ** p).sum(1) / classes
            want = {"none": losses, "mean": losses.mean(), "sum": losses.sum()}[reduction]
            operands = [x, Operand.of(gen.pick((I32, I64)), target), w if weighted else Missing()]
            ref.check(run("CustMultiMarginLoss", operands, d, want.shape, given), want, d, slack=1e-5)
            grad = Operand.of(d, gen.values(d, want.shape, limit=2))
            each = grad.get().astype(LD) * weight / classes / (n if reduction == "mean" else 1)
            back = each[:, None] * (over > 0) * (2 * over if p == 2 else 1)
            back[np.arange(n), target] = -back.sum(1)
            got = run("CustMultiMarginLossGrad", [grad, *operands], d, (n, classes), given)
            ref.check(got, back, d, slack=1e-5)
        each_case(self, "MultiMarginLoss", 12, body)
        x, target = Operand.of(F32, np.ones((2, 3))), Operand.of(I64, np.array([0, 3]))
        for change, words in (({}, "target.1. is 3, expected 0 to 2"), ({"p": 3}, "p is 3, expected 1 or 2")):
            with self.assertRaisesRegex(AclError, words):
                run("CustMultiMarginLoss", [x, target, Missing()], F32, (), change)

    def test_log_space(self):
        ends = [Operand.of(F32, np.float32(v)) for v in (1, 3)]
        for base, want in ((10, np.logspace(1, 3, 5)), (2, np.logspace(1, 3, 5, base=2))):
            got = run("CustLogSpace", ends, F32, (5,), {"steps": 5, "base": base, "dtype": 0})
            np.testing.assert_allclose(got, want, 1e-6)

    def test_signal_windows(self):
        for n in (1, 2, 7, 300):
            for periodic in (False, True):
                m = n + periodic
                for name, want, given in (("CustBartlettWindow", np.bartlett(m), {}),
                                          ("CustBlackmanWindow", np.blackman(m), {}),
                                          ("CustHammingWindow", np.hamming(m), {"alpha": 0.54, "beta": 0.46})):
                    want = np.ones(1) if n == 1 else want[:n]
                    for d in (F32, F16, F64):
                        given = {"periodic": periodic, "dtype": d.code, **given}
                        got = run(name, [Host([n], np.int32)], d, (n,), given)
                        np.testing.assert_allclose(got, want, 2e-3 if d is F16 else 1e-6, 1e-3 if d is F16 else 2e-8)


class Fourier(unittest.TestCase):
    """Against NumPy's transforms, in double; NumPy has no hfft over several axes."""
    NORMS = ("backward", "forward", "ortho")

    @staticmethod
    def reference(name, x, n, axes, norm):
        inverse = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
        if name in ("HFFT", "IHFFT"):                                 # of the conjugate, with the other norm
            if name == "HFFT":
                return np.fft.irfftn(x.conj(), n, axes, inverse[norm])
            return np.fft.rfftn(x, n, axes, inverse[norm]).conj()
        return getattr(np.fft, name.lower() + "n")(x, n, axes, norm)

    def case(self, gen, name, ending):
        single = gen.chance(0.5)
        d, c = (F32, C64) if single else (F64, C128)
        shape = tuple(gen.integer(1, 9) for _ in range(gen.integer(1 + (ending == "2"), 4)))
        if gen.chance(0.2):
            shape = (gen.integer(2, 3), gen.pick((64, 97, 360)))[-len(shape):]
        real = name in ("RFFT", "IHFFT") or gen.chance(0.2)
        x = gen.values(d, shape, limit=4)
        if not real:
            x = (x + 1j * gen.values(d, shape, limit=4)).astype(c.values)
        rank = len(shape)
        if ending == "N" and gen.chance(0.3):
            axes = None
        else:
            count = {"": 1, "2": 2, "N": gen.integer(1, rank)}[ending]
            axes = tuple(int(k) for k in gen.rng.permutation(rank)[:count])
        used = axes or tuple(range(rank))
        to_real = name in ("IRFFT", "HFFT")
        n = None
        if gen.chance(0.6) or (to_real and shape[used[-1]] == 1):
            n = tuple(gen.integer(1, 9) for _ in used)
        norm = gen.integer(0, 2)
        want = self.reference(name, x.astype(np.complex128) if x.dtype.kind == "c" else x.astype(np.float64), n, used,
                              self.NORMS[norm])
        inputs = [Operand.of(d if real else c, x)]
        inputs += [Missing() if v is None else Host(v) for v in (n, None if axes is None else
                                                                [k - rank * gen.integer(0, 1) for k in axes])]
        inputs += [Missing() if norm == 0 and gen.chance(0.5) else Host(norm)]
        got = run(f"Cust{name}{ending}", inputs, d if to_real else c, want.shape)
        size = np.prod([want.shape[k] * 2 if k == used[-1] else want.shape[k] for k in used])
        scale = np.abs(x).max() * {0: size, 1: size, 2: np.sqrt(size)}[norm] if x.size else 0
        np.testing.assert_allclose(got, want, 1e-6 if single else 1e-12, scale * (1e-7 if single else 1e-14))

    def test_transforms(self):
        for name in ("FFT", "IFFT", "RFFT", "IRFFT", "HFFT", "IHFFT"):
            for ending in ("", "2", "N"):
                each_case(self, f"{name}{ending}", 8, lambda g, n=name, e=ending: self.case(g, n, e))

    def test_others(self):
        def body(gen):
            n, d = gen.integer(1, 40), gen.pick((F32, F64))
            step = np.array(gen.pick((1, 0.25, 3)), d.values)
            for name, of in (("CustFFTFreq", np.fft.fftfreq), ("CustRFFTFreq", np.fft.rfftfreq)):
                want = of(n, float(step))
                got = run(name, [Host(n), Operand.of(d, step), Missing()], d, want.shape)
                np.testing.assert_allclose(got, want, 1e-6 if d is F32 else 1e-14)
            d = gen.pick((F32, I32, C64))
            shape = gen.shape(4, min_rank=1)
            x = gen.values(d, shape) if d is not C64 else gen.values(F32, shape).astype(np.complex64)
            axes = None if gen.chance(0.3) else [gen.integer(-len(shape), len(shape) - 1)]
            for name, of in (("CustFFTShift", np.fft.fftshift), ("CustIFFTShift", np.fft.ifftshift)):
                got = run(name, [Operand.of(d, x), Missing() if axes is None else Host(axes)], d, shape)
                ref.check_equal(got, of(x, axes))
            axis, n = gen.integer(0, len(shape) - 1), gen.integer(1, 2 * max(*shape, 1))
            d = gen.pick((F32, C64, C128))
            x = (gen.values(F32, shape, limit=4) * (1 if d is F32 else 1 + 1j)).astype(d.values)
            factor = np.array([2 if 1 <= k <= (n - 1) // 2 else 1 for k in range(shape[axis])], np.int8)
            got = run("CustIRFFTDouble", [Operand.of(d, x), Host(n), Host(axis)], d, shape)
            ref.check_equal(got, x * factor.reshape([-1 if k == axis else 1 for k in range(len(shape))]))
        each_case(self, "frequencies", 12, body)

    def test_wrong(self):
        x, y = Operand.of(F32, np.ones((4, 6))), (4, 6)
        for inputs, words in (
                ((Missing(), Host((0, 0)), Missing()), "dim has 0 twice, expected different axes"),
                ((Host((4, 4)), Host((0,)), Missing()), "n has 2 elements, expected as many as dim, 1"),
                ((Host((0,)), Host((0,)), Missing()), "axis 0 has length 0, expected 1 to"),
                ((Missing(), Host((0,)), Host(3)), "norm is 3, expected 0 .backward., 1 .forward. or 2 .ortho."),
                ((Missing(), Host((2,)), Missing()), "dim is 2, expected -2 to 1"),
                ((Host((5,)), Host((1,)), Missing()), r"y has shape \[4, 6\], expected \[4, 5\]")):
            with self.assertRaisesRegex(AclError, words):
                run("CustFFTN", [x, *inputs], C64, y)
        with self.assertRaisesRegex(AclError, "x has dtype COMPLEX64"):
            run("CustRFFT", [Operand.of(C64, np.ones((4,), np.complex64)), Missing(), Missing(), Missing()], C64, (3,))


class Random(unittest.TestCase):
    def test_channels(self):
        for name, shape in (("CustDropout2D", (40, 50, 3, 2)), ("CustDropout3D", (40, 50, 2, 2, 3))):
            for d in (F32, F16, I32):
                x = np.full(shape, 3, d.values)
                y, mask = Operand.empty(d, shape), Operand.empty(BOOL, shape)
                execute(name, [Operand.of(d, x)], [y, mask], {"keep_prob": 0.25})
                kept = mask.get().reshape(2000, -1)
                self.assertTrue((kept == kept[:, :1]).all())
                self.assertLess(abs(kept.mean() - 0.25), 0.05)              # 5 deviations
                ref.check_equal(y.get(), (mask.get() * 12).astype(d.values))
        empty = Operand.empty(F32, (2, 3, 0, 4))
        execute(name, [empty], [Operand.empty(F32, empty.shape), Operand.empty(BOOL, empty.shape)], {"keep_prob": 0.5})
        for keep in (0.0, 1.0):
            execute(name, [Operand.of(d, x)], [y, mask], {"keep_prob": keep})
            ref.check_equal(y.get(), (x * keep).astype(d.values))

    def test_categories(self):
        weights = np.float32([[1, 0, 3], [5, 5, 0]])
        logits = np.log(np.maximum(weights, 1e-30)) - 50
        for name, values, more in (("CustMultinomial", weights, []), ("CustRandomCategorical", logits, [Host(3)])):
            for d in (I32, I64):
                inputs = [Operand.of(F32, values.astype(np.float32)), Host(4000, np.int32), *more]
                got, other = (run(name, inputs, d, (2, 4000), {"seed2": 1}) for _ in range(2))
                for row, w in zip(got, weights / weights.sum(1, keepdims=True)):
                    self.assertLess(np.abs(np.bincount(row, minlength=3) / 4000 - w).max(), 0.05)
                self.assertFalse(np.array_equal(got, other))

    def test_choice(self):
        for shape, count in (((7, 5, 3), 40), ((30,), 40), ((6, 6), 0)):
            x = np.random.default_rng(5).random(shape) < 0.5
            places = set(map(tuple, np.argwhere(x)))
            results = []
            for _ in range(2):
                index, mask = Operand.empty(I32, (count, len(shape))), Operand.empty(BOOL, (count,))
                execute("CustRandomChoiceWithMask", [Operand.of(BOOL, x)], [index, mask], {"count": count, "seed": 1})
                found = min(count, len(places))
                ref.check_equal(mask.get(), np.arange(count) < found)
                chosen = list(map(tuple, index.get()[:found]))
                self.assertEqual(len(set(chosen)), found)
                self.assertLessEqual(set(chosen), places)
                self.assertFalse(index.get()[found:].any())
                results.append(chosen)
            self.assertEqual(results[0] == results[1], count == 0)

    def test_shuffle(self):
        for d, shape in ((F32, (300,)), (I64, (300, 2, 3)), (U8, (1, 4)), (F32, ())):
            x = np.arange(int(np.prod(shape))).astype(d.values).reshape(shape)
            got, other = (run("CustRandomShuffle", [Operand.of(d, x)], d, shape, {"seed": 0}) for _ in range(2))
            rows = got.reshape(shape[0] if shape else 1, -1)
            ref.check_equal(rows[np.argsort(rows[:, 0] if x.size else [])].reshape(shape), x)
            self.assertEqual(np.array_equal(got, other), len(rows) < 2)
        for shape in ((0, 2), (3, 0)):
            self.assertEqual(run("CustRandomShuffle", [Operand.empty(F32, shape)], F32, shape).shape, shape)

    def test_permutations(self):
        for n in (0, 1, 700):
            given = {"max_length": 800, "pad": -1, "dtype": 3}
            got, other = (run("CustRandperm", [Host([n], np.int32)], I32, (800,), given) for _ in range(2))
            ref.check_equal(np.sort(got[:n]), np.arange(n, dtype=np.int32))
            self.assertTrue((got[n:] == -1).all())
            self.assertEqual(n < 2, np.array_equal(got, other))
            got, same, other = (run("StatelessRandperm", [Host(n), Host(5), Host(k)], I64, (n,), {"layout": 35})
                                for k in (0, 0, 9))
            ref.check_equal(np.sort(got), np.arange(n))
            ref.check_equal(got, same)
            self.assertEqual(n < 2, np.array_equal(got, other))
        with self.assertRaisesRegex(AclError, "n is 9, expected 0 to 8"):
            run("CustRandperm", [Host([9], np.int32)], I32, (8,), {"max_length": 8})


if __name__ == "__main__":
    unittest.main()
