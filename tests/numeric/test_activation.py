# SPDX-License-Identifier: Apache-2.0
"""Activations, their gradients, and gated units, each a row of a table. Gradients are compared with differences of the
function in long double, never with the formula that the library uses."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, Scalar, Tensor, refused, run, variants
from dtypes import F16, F32, F64, FLOATS, FLOATS64, I8, I32, INTS, LD, computed_in
from gen import each_case
from test_elementwise import same_bits_elsewhere, verify
from test_unary import erfc

CASES = 40
PI = LD("3.14159265358979323846264338327950288")


# ---- references

def normal_cdf(x):
    """Phi. The C library's erfc has only a double's precision, which is too little for derivatives, so small arguments
    use the series."""
    x = np.asarray(x, LD)
    term, total, small = x.copy(), x.copy(), np.abs(x) < 5
    for n in range(1, 90):
        term = np.where(small, -term * x * x / (2 * n), 0)
        total = total + term / (2 * n + 1)
    u = -x / np.sqrt(LD(2))
    near = u.astype(np.float64)
    tail = (erfc(near) - 2 / np.sqrt(PI) * np.exp(-u * u) * np.where(np.isfinite(u), u - near, 0)) / 2
    return np.where(small & (np.abs(x) < 2.5), LD(0.5) + total / np.sqrt(2 * PI), tail)


def limit(y, x):
    """y = f(x), or -0 at x = -inf, where x times a factor that vanishes would be NaN."""
    return np.where(np.isneginf(x), LD(-0.0), y)


def gelu(x):
    return limit(x * normal_cdf(x), x)


def gelu_tanh(x):
    return limit(x * ref.sigmoid(2 * np.sqrt(2 / PI) * (x + LD("0.044715") * x * x * x)), x)


def softplus(x, beta=1, threshold=np.inf):
    z = x * LD(beta)
    return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / LD(beta))


def swish(x, beta=1):
    return limit(x * ref.sigmoid(x * LD(beta)), x)


def mish(x):
    return limit(x * np.tanh(softplus(x)), x)


def elu(x, alpha=1, scale=1, input_scale=1):
    return np.where(x > 0, LD(scale) * x, LD(alpha) * LD(scale) * np.expm1(np.minimum(x, 0) * LD(input_scale)))


SELU_ALPHA, SELU_SCALE = LD("1.6732632423543772848170429916717"), LD("1.0507009873554804934193349852946")


def selu(x):
    return elu(x, SELU_ALPHA, SELU_SCALE)


def nan_or(x, y):
    return np.where(np.isnan(x), x, y)


def logit(x, eps):
    """logit, with the bounds of the argument rounded as the library computes with them."""
    z = x if eps < 0 else np.clip(x, LD(eps), LD(1) - LD(eps))
    return np.where((z > 0.25) & (z < 0.75), np.log1p((2 * z - 1) / (1 - z)), np.log(z / (1 - z)))


Row = namedtuple("Row", "function draws ulps ulps64")


def quarter(low, high):
    """A parameter that is a multiple of a quarter, which every type holds exactly."""
    return lambda gen: gen.integer(4 * low, 4 * high) / 4


# ulps64: for double, where x beta, or gelu's cubic, is rounded before it becomes an exponent, which may be 700.
def row(function, *draws, ulps=2, ulps64=8):
    return Row(function, draws, ulps, ulps64)


ACTIVATIONS = {
    "Gelu": row(gelu_tanh, ulps64=2000), "Silu": row(swish), "Mish": row(mish),
    "LogSigmoid": row(lambda x: -softplus(-x)),
    "Softplus": row(softplus, lambda gen: gen.pick((0.5, 1, 2, 3)), quarter(1, 25), ulps64=2000), "Selu": row(selu),
    "Elu": row(elu, lambda gen: gen.pick((0.5, 1, 2)), lambda gen: gen.pick((1, 2)), lambda gen: gen.pick((1, 0.5))),
    "Celu": row(lambda x, a: np.where(x > 0, x, a * np.expm1(np.minimum(x, 0) / a)), lambda gen: gen.pick((0.5, 1, 4))),
    "LeakyRelu": row(lambda x, s: np.where(x > 0, x, x * LD(s)), quarter(0, 2), ulps=0.5, ulps64=0.5),
    "Hardtanh": row(lambda x, a, b: nan_or(x, np.clip(x, a, b)), quarter(-3, 0), quarter(0, 3), ulps=0.5, ulps64=0.5),
    "Hardsigmoid": row(lambda x: nan_or(x, np.clip(x + 3, 0, 6) / 6)),
    "Hardswish": row(lambda x: np.where(x <= -3, 0, np.where(x >= 3, x, x * (x + 3) / 6))),
    "Hardshrink": row(lambda x, s: np.where(np.abs(x) <= s, 0, x), quarter(0, 2), ulps=0.5, ulps64=0.5),
    "Softshrink": row(lambda x, s: nan_or(x, np.sign(x) * np.maximum(np.abs(x) - LD(s), 0)), quarter(0, 2), ulps=0.5,
                      ulps64=0.5),
    "Shrink": row(lambda x, s, b: nan_or(x, np.where(np.abs(x) <= s, 0, x - np.sign(x) * b)), quarter(0, 2),
                  quarter(0, 2), ulps=0.5, ulps64=0.5),
    "FastGelu": row(lambda x: swish(x, LD(1.702)), ulps=64, ulps64=2000),
    "Swish": row(swish, lambda gen: gen.pick((1, 0.5, 1.75)), ulps64=2000),
    "Logit": row(logit, lambda gen: gen.pick((-1, 0.25, 0.125))),
}


def parameters(row_, gen):
    """Random parameters, as numbers and as scalars."""
    values = [draw(gen) for draw in row_.draws]
    return values, [Scalar(v, gen.pick((F32, F64))) for v in values]


def rounded(values, d):
    """The parameters rounded to the type that the library computes in."""
    return [computed_in(d).round(LD(v)).astype(LD) for v in values]


class Activations(unittest.TestCase):
    def test_all(self):
        for name, r in ACTIVATIONS.items():
            for op in variants(name):
                each_case(self, op, CASES, lambda gen, op=op, r=r: self.case(gen, op, r))

    def case(self, gen, op, r):
        inplace = "Inplace" in op
        d = gen.pick(FLOATS64)
        shape = gen.shape(numel=200)
        x = gen.out(d, shape, gen.values(d, shape))
        values, scalars = parameters(r, gen)
        if op == "aclnnLogit":
            scalars = values
        y = x if inplace else gen.out(d, shape)
        before = x.get().astype(LD)
        run(op, *([x] + scalars if inplace else [x] + scalars + [y]))
        exact = r.function(before, *rounded(values, d))
        verify(y.get(), np.asarray(exact, LD), d, d, f"{op} {values}", ulps=r.ulps64 if d is F64 else r.ulps,
               zero_sign=False, slack=LD(2) ** -1074 * 1100 if d is F64 else 0)
        if not inplace:
            same_bits_elsewhere(gen, op, [x] + scalars, y)

    def test_of_integers(self):
        """Integers are computed in float; integer outputs truncate the result."""
        def case(gen):
            d, shape, name = gen.pick((I8, I32)), gen.shape(), gen.pick(("Selu", "Hardsigmoid", "SeluBackward"))
            inplace = name != "SeluBackward" and gen.chance(0.4)
            x = gen.out(d, shape, gen.values(d, shape, limit=2 ** 20))
            y = gen.tensor(d, shape, gen.values(d, shape, limit=100))
            before, out = x.get().astype(LD), x if inplace else gen.out(d, shape)
            backward = name == "SeluBackward"
            run(f"aclnn{'Inplace' if inplace else ''}{name}", x, *([y] if backward else []),
                *([] if inplace else [out]))
            exact = GRADIENTS[name].function(before, y.get().astype(LD)) if backward else \
                ACTIVATIONS[name].function(before)
            ref.check_truncated(out.get(), exact, d, what=name)
        each_case(self, "activations of integers", 2 * CASES, case)

    def test_gelu_v2(self):
        def case(gen):
            d, approximate = gen.pick(FLOATS), gen.integer(0, 1)
            x = gen.tensor(d, gen.shape())
            y = gen.out(d, x.shape)
            run("aclnnGeluV2", x, approximate, y)
            ref.check(y.get(), (gelu_tanh if approximate else gelu)(x.get().astype(LD)), d, what=str(approximate))
        each_case(self, "aclnnGeluV2", CASES, case)
        x = Tensor.empty(F32, (3,))
        code, message = refused("aclnnGeluV2", x, 2, Tensor.empty(F32, (3,)))
        self.assertEqual(code, 161002)
        self.assertIn("approximate is 2", message)

    def test_swish_without_beta(self):
        x, y = Tensor.of(F32, np.linspace(-9, 9, 50)), Tensor.empty(F32, (50,))
        run("aclnnSwish", x, None, y)
        ref.check(y.get(), swish(x.get().astype(LD)), F32)

    def test_log_sigmoid_forward_leaves_the_buffer(self):
        x, y = Tensor.of(F16, np.linspace(-9, 9, 50)), Tensor.empty(F16, (50,))
        for buffer in (Tensor.of(F16, np.full(50, 7)), Tensor.empty(F16, (0,)), None):  # torch_npu passes an empty one
            run("aclnnLogSigmoidForward", x, y, buffer)
            ref.check(y.get(), -softplus(-x.get().astype(LD)), F16)

    def test_threshold_in_place(self):
        def case(gen):
            d = gen.pick(FLOATS + INTS[:2])
            shape = gen.shape()
            x = gen.out(d, shape, gen.values(d, shape))
            values = x.get()
            run("aclnnInplaceThreshold", x, Scalar(0, F32), Scalar(3, F32))
            ref.check_equal(x.get(), np.where(values <= 0, d.values.type(3), values))
        each_case(self, "aclnnInplaceThreshold", CASES, case)

    def test_negative_thresholds(self):
        """Softshrink and its gradient refuse a negative threshold; Hardshrink and its gradient accept it."""
        x, out, less = Tensor.of(F32, [-3.0, 0.5, 2.0]), Tensor.empty(F32, (3,)), Scalar(-0.5, F32)
        for op, args, name in (("Softshrink", (x,), "lambd"), ("SoftshrinkBackward", (x, x), "lambda")):
            code, message = refused("aclnn" + op, *args, less, out)
            self.assertEqual((code, f"{name} is -0.5, expected 0 or more" in message), (INVALID, True), message)
        run("aclnnHardshrink", x, less, out)
        ref.check_equal(out.get(), x.get())
        run("aclnnHardshrinkBackward", x, Tensor.of(F32, [-0.25, 0, 2]), less, out)     # as with a threshold of 0
        ref.check_equal(out.get(), [-3, 0, 2])

    def test_limits_of_scalars(self):
        x, out = Tensor.of(F32, [-3.0, 0.5, 2.0]), Tensor.empty(F32, (3,))
        one, zero, less = (Scalar(v, F32) for v in (1, 0, -1))
        for op, args, words in (
                ("Celu", (x, zero, out), "alpha is 0, expected a number that is not 0"),
                ("InplaceCelu", (x, Scalar(np.nan, F32)), "alpha is nan"),
                ("Shrink", (x, less, one, out), "lambd is -1, expected 0 or more"),
                ("Hardtanh", (x, one, less, out), "clipValueMax is -1, expected clipValueMin, which is 1, or more"),
                ("InplaceHardtanh", (x, Scalar(1, I32), Scalar(0, I32)), "clipValueMax is 0"),
                ("EluBackward", (x, less, one, one, True, x, out),
                 "alpha is -1, expected 0 or more as isResult is true"),
                ("LeakyReluBackward", (x, x, less, True, out),
                 "negativeSlope is -1, expected 0 or more as selfIsResult is true")):
            code, message = refused("aclnn" + op, *args)
            self.assertEqual((code, words in message), (INVALID, True), message)
        for op, args in (("Celu", (x, less, out)),
                         ("Shrink", (x, one, less, out)),
                         ("Hardtanh", (x, one, one, out)),
                         ("EluBackward", (x, less, one, one, False, x, out)),
                         ("LeakyReluBackward", (x, x, less, False, out)),
                         ("HardtanhBackward", (x, x, one, less, out))):
            run("aclnn" + op, *args)

    def test_prelu(self):
        def case(gen):
            d, shape = gen.pick(FLOATS), gen.shape(min_rank=1)
            n = shape[1] if len(shape) > 1 and gen.chance(0.6) else 1
            x, weight, y = gen.tensor(d, shape), gen.tensor(d, (n,), gen.values(d, (n,), limit=4)), gen.out(d, shape)
            run("aclnnPrelu", x, weight, y)
            w = weight.get().astype(LD)
            w = w.reshape((1, n) + (1,) * (len(shape) - 2)) if len(shape) > 1 else w
            values = x.get().astype(LD)
            ref.check(y.get(), np.where(values > 0, values, values * w), d, ulps=0.5)
        each_case(self, "aclnnPrelu", CASES, case)
        x = Tensor.empty(F32, (2, 3))
        code, message = refused("aclnnPrelu", x, Tensor.empty(F32, (2,)), Tensor.empty(F32, (2, 3)))
        self.assertEqual(code, 161002)
        self.assertIn("weight has shape [2]", message)

    def test_prelu_of_weights_in_other_shapes(self):
        """Only the number of weights matters, not their shape."""
        x, y = Tensor.of(F32, -np.ones((2, 6, 2))), Tensor.empty(F32, (2, 6, 2))
        for weights in ((6,), (1, 6), (6, 1), (2, 3), (1, 1, 6), (1, 6, 1), (3, 1, 2, 1), (1,) * 7 + (6,)):
            for step in (1, 2):
                strides = [step * int(np.prod(weights[i + 1:])) for i in range(len(weights))]
                w = Tensor(F32, weights, strides).set(np.arange(1.0, 7).reshape(weights))
                run("aclnnPrelu", x, w, y)
                ref.check_equal(y.get(), np.broadcast_to(-np.arange(1.0, 7).reshape(1, 6, 1), y.shape), str(weights))
        for shape in ((), (1,), (1, 1), (1, 1, 1, 1)):
            run("aclnnPrelu", x, Tensor.of(F32, np.full(shape, 5.0)), y)
            ref.check_equal(y.get(), np.full(y.shape, -5.0), str(shape))

    def test_prelu_backward(self):
        def case(gen):
            d, shape = gen.pick(FLOATS64), gen.shape(min_rank=1)
            n = shape[1] if len(shape) > 1 and gen.chance(0.6) else 1
            spread = (1, n) + (1,) * (len(shape) - 2) if len(shape) > 1 else (n,)
            weights = gen.pick(((n,), spread))
            g = gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s, limit=8))
            x, weight = (gen.drawn(d, s, lambda s: gen.values(d, s, limit=8)) for s in (shape, weights))
            to_x, to_weight = gen.out(d, shape), gen.out(d, weights)
            run("aclnnPreluBackward", g, x, weight, to_x, to_weight)
            w, v = weight.get().astype(LD).reshape(spread), x.get().astype(LD)
            gradient = np.broadcast_to(g.get().astype(LD), shape)
            ref.check(to_x.get(), np.where(v > 0, gradient, gradient * w), d, ulps=0.5)
            terms = np.where(v > 0, 0, gradient * v)
            axes = tuple(i for i in range(len(shape)) if i != 1 or n == 1)
            total, size = terms.sum(axes).reshape(weights), np.abs(terms).sum(axes).reshape(weights)
            ref.check(to_weight.get(), total, d, slack=ref.sum_slack(size, terms.size, F64 if d is F64 else F32))
        each_case(self, "aclnnPreluBackward", 2 * CASES, case)
        x, w = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (3,))
        for name, args in (("gradOutput", (Tensor.empty(F32, (2, 2)), x, w, x, w)),
                           ("weight", (x, x, Tensor.empty(F32, (2,)), x, Tensor.empty(F32, (2,)))),
                           ("gradWeight", (x, x, w, x, Tensor.empty(F32, (1,))))):
            code, message = refused("aclnnPreluBackward", *args)
            self.assertEqual(code, 161002)
            self.assertIn(name, message)


# ---- gradients

def slope(function, x):
    """The derivative, by Richardson extrapolation of central differences: about 14 digits in long double."""
    def difference(h):
        return (function(x + h) - function(x - h)) / (2 * h)
    h = LD(2) ** -7
    table = [difference(h / 2 ** i) for i in range(5)]
    for order in range(1, 5):
        table = [(4 ** order * b - a) / (4 ** order - 1) for a, b in zip(table, table[1:])]
    return table[0]


def smooth(function):
    """The gradient as a function of (gradient of the output, input), for functions without kinks."""
    return lambda g, x, *p: g * slope(lambda t: function(t, *p), x)


# If a function has a kink, its gradient there is given explicitly.
GRADIENTS = {
    "GeluBackward": row(smooth(gelu_tanh), ulps=3), "SiluBackward": row(smooth(swish)),
    "MishBackward": row(smooth(mish)),
    "FastGeluBackward": row(smooth(lambda x: swish(x, LD(1.702))), ulps=64),
    "SwishBackward": row(smooth(swish), lambda gen: gen.pick((1, 0.5, 1.75))),
    "SoftplusBackward": row(lambda g, x, b, t: g * np.where(x * b > t, 1, ref.sigmoid(x * b)),
                            lambda gen: gen.pick((0.5, 1, 3)), quarter(1, 20)),
    "HardtanhBackward": row(lambda g, x, a, b: np.where((x > a) & (x < b), g, 0), quarter(-3, 0), quarter(0, 3)),
    "HardsigmoidBackward": row(lambda g, x: np.where(np.abs(x) < 3, g / 6, 0)),
    "HardswishBackward": row(lambda g, x: np.where(x < -3, 0, np.where(x > 3, g, g * (x / 3 + LD(0.5))))),
    "HardswishBackwardV2": row(lambda g, x: np.where(x < -3, 0, np.where(x > 3, g, g * (x / 3 + LD(0.5))))),
    "HardshrinkBackward": row(lambda g, x, s: np.where(np.abs(x) <= s, 0, g), quarter(0, 2)),
    "SoftshrinkBackward": row(lambda g, x, s: np.where(np.abs(x) <= s, 0, g), quarter(0, 2)),
    "SigmoidBackward": row(lambda g, y: g * y * (1 - y)), "TanhBackward": row(lambda g, y: g * (1 - y * y)),
    "SqrtBackward": row(lambda y, g: g / (2 * y)),
    "SeluBackward": row(lambda g, y: g * np.where(y > 0, SELU_SCALE, y + SELU_SCALE * SELU_ALPHA)),
    "LogitGrad": row(lambda x, g, e: np.where((x < 0) | (x > 1), np.nan, g / (x * (1 - x))) if e < 0 else
                     np.where((x < e) | (x > 1 - e), 0, g / (x * (1 - x))), lambda gen: gen.pick((-1, 0.25, 0.125))),
}


class Gradients(unittest.TestCase):
    def test_all(self):
        for name, r in GRADIENTS.items():
            each_case(self, f"aclnn{name}", CASES, lambda gen, n=name, r=r: self.case(gen, n, r))

    def operands(self, gen, d, name):
        shape = gen.shape(numel=200)
        n = (gen.rng.uniform(-1, 1, shape) if name in ("SigmoidBackward", "TanhBackward") else
             gen.rng.uniform(0.01, 1, shape) if name in ("SqrtBackward", "LogitGrad") else
             gen.rng.standard_normal(shape) * 3)
        return [gen.out(d, shape, d.round(v).astype(d.values)) for v in (gen.rng.standard_normal(shape), n)]

    def case(self, gen, name, r):
        d = gen.pick(FLOATS64 if name not in ("GeluBackward",) else FLOATS)
        g, x = self.operands(gen, d, name)
        values, scalars = parameters(r, gen)
        out = gen.out(d, g.shape)
        first, second = (x, g) if name in ("SqrtBackward", "LogitGrad") else (g, x)
        run(f"aclnn{name}", first, second, *(values if name == "LogitGrad" else scalars), out)
        exact = r.function(first.get().astype(LD), second.get().astype(LD), *rounded(values, d))
        # The differences are accurate to 1e-13 of the values that the slope is computed from. In a product, each of the
        # two factors is rounded.
        computing = computed_in(d)
        slack = np.abs(g.get().astype(LD)) * (LD(2e-13) if d is not F64 else LD(1e-12))
        if name == "FastGeluBackward":  # composed of float operations: relative to the terms of the slope, which cancel
            slack = slack + np.abs(g.get().astype(LD)) * 64 * LD(np.finfo(computing.values).eps)
        ref.check(out.get(), exact, d, computing, ulps=r.ulps, slack=slack, what=f"{name} {values}")

    def test_root_of_nothing(self):
        """A gradient of 0 gives 0 even where the root is 0."""
        out = Tensor.empty(F32, (4,))
        run("aclnnSqrtBackward", Tensor.of(F32, [0, 0, np.nan, 2]), Tensor.of(F32, [0, 1, 0, 3]), out)
        ref.check_equal(out.get(), [0, np.inf, 0, 0.75])

    def test_nothing_is_broadcast(self):
        whole, row_, out, s = *(Tensor.empty(F32, shape) for shape in ((2, 3), (3,), (2, 3))), Scalar(1, F32)
        scalars = {"EluBackward": 3, "SwishBackward": 1, "SoftplusBackward": 2, "HardtanhBackward": 2}
        for name in ("Selu", "Swish", "Softplus", "Hardtanh", "Hardsigmoid", "Hardswish", "Silu", "Sqrt"):
            for first, second in ((whole, row_), (row_, whole)):
                n_scalars = scalars.get(name + "Backward", 0)
                code, message = refused(f"aclnn{name}Backward", first, second, *[s] * n_scalars, out)
                self.assertEqual((code, "has shape" in message), (INVALID, True), f"{name}: {message}")
        for op, args in (("EluBackward", (row_, s, s, s, False, whole, out)),
                         ("LogSigmoidBackward", (row_, whole, whole, out)),
                         ("LogitGrad", (row_, whole, -1.0, out))):
            code, message = refused("aclnn" + op, *args)
            self.assertEqual((code, "has shape" in message), (INVALID, True), f"{op}: {message}")

    def test_elu(self):
        def case(gen):
            d, shape = gen.pick(FLOATS64), gen.shape(numel=200)
            is_result = gen.chance(0.5)
            alpha, scale, input_scale = gen.pick((0.5, 1, 2)), gen.pick((1, 2)), gen.pick((0.5, 1))
            scalars = [Scalar(v, F32) for v in (alpha, scale, input_scale)]
            g, x = (gen.tensor(d, shape, d.round(gen.rng.standard_normal(shape)).astype(d.values)) for _ in "gx")
            given = x
            if is_result:
                y = d.round(elu(x.get().astype(LD), alpha, scale, input_scale)).astype(d.values)
                given = gen.tensor(d, shape, y)
            out = gen.out(d, shape)
            run("aclnnEluBackward", g, *scalars, is_result, given, out)
            gg, v = g.get().astype(LD), given.get().astype(LD)
            negative = (v + alpha * scale) * input_scale if is_result else \
                alpha * scale * input_scale * np.exp(v * input_scale)
            ref.check(out.get(), gg * np.where(v > 0, LD(scale), negative), d, ulps=3, what=f"isResult {is_result}")
        each_case(self, "aclnnEluBackward", CASES, case)

    def test_leaky_relu(self):
        def case(gen):
            d, shape = gen.pick(FLOATS64), gen.shape()
            g, x, out = gen.tensor(d, shape), gen.tensor(d, shape), gen.out(d, shape)
            run("aclnnLeakyReluBackward", g, x, Scalar(0.25, F32), gen.chance(0.5), out)
            gg = g.get().astype(LD)
            ref.check(out.get(), np.where(x.get() > 0, gg, gg * LD(0.25)), d, ulps=0.5)
        each_case(self, "aclnnLeakyReluBackward", CASES, case)

    def test_log_sigmoid(self):
        def case(gen):
            d, shape = gen.pick(FLOATS), gen.shape(numel=200)
            g, x = (gen.tensor(d, shape, gen.values(d, shape, limit=50)) for _ in "gx")
            out = gen.out(d, shape)
            run("aclnnLogSigmoidBackward", g, x, Tensor.empty(d, gen.pick((shape, (0,)))), out)
            ref.check(out.get(), g.get().astype(LD) * ref.sigmoid(-x.get().astype(LD)), d, ulps=3)
        each_case(self, "aclnnLogSigmoidBackward", CASES, case)

    def test_gelu_v2(self):
        def case(gen):
            d, approximate = gen.pick(FLOATS), gen.pick(("none", "tanh"))
            g, x = self.operands(gen, d, "")
            out = gen.out(d, g.shape)
            run("aclnnGeluBackwardV2", g, x, approximate.encode(), out)
            gg = g.get().astype(LD)
            exact = gg * slope(gelu_tanh if approximate == "tanh" else gelu, x.get().astype(LD))
            slack = np.abs(gg) * LD(2e-13)
            ref.check(out.get(), exact, d, ulps=2.3, slack=slack, what=approximate)  # ulps as in unit/vmath
        each_case(self, "aclnnGeluBackwardV2", CASES, case)
        x = Tensor.empty(F32, (3,))
        code, message = refused("aclnnGeluBackwardV2", x, x, b"sigmoid", Tensor.empty(F32, (3,)))
        self.assertEqual(code, 161002)
        self.assertIn('approximate is "sigmoid"', message)


# ---- gated units

# Two units of the smallest float: the error that a denormal factor may have before it is multiplied by the other one.
DENORMAL = LD(2) ** -148


class Gated(unittest.TestCase):
    def halved(self, gen):
        """A shape, a dimension in which its size is even, and the shape with half that size."""
        shape = list(gen.shape(min_rank=1, numel=150))
        dim = gen.integer(0, len(shape) - 1)
        half = tuple(shape)
        shape[dim] *= 2
        return tuple(shape), dim - len(shape) if gen.chance(0.5) else dim, half

    def operand(self, gen, d, shape):
        return gen.tensor(d, shape, d.round(gen.rng.standard_normal(shape) * 3).astype(d.values))

    def test_forward(self):
        def case(gen, op):
            d, (shape, dim, half) = gen.pick(FLOATS), self.halved(gen)
            x, out = self.operand(gen, d, shape), gen.out(d, half)
            a, b = np.split(x.get().astype(LD), 2, dim)
            if op.startswith("aclnnGeGlu"):
                kept, approximate, left = gen.out(d, half), gen.integer(0, 1), op.endswith("V3") and gen.chance(0.5)
                run(op, x, dim, approximate, *([left] if op.endswith("V3") else []), out, kept)
                activated = (gelu_tanh if approximate else gelu)(a if left else b)
                ref.check(kept.get(), activated, d, what="outGelu")
            else:
                run(op, x, dim, out)
                left = op == "aclnnSwiGlu"
                activated = swish(a) if left else ref.sigmoid(b)
            other = b if left else a
            ref.check(out.get(), activated * other, d, ulps=3, slack=DENORMAL * np.abs(other))
        for op in ("aclnnGlu", "aclnnSwiGlu", "aclnnGeGlu", "aclnnGeGluV3"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))

    def test_gelu_mul(self):
        def case(gen):
            d, half = gen.pick(FLOATS), gen.shape(min_rank=1, numel=150)
            shape, approximate = half[:-1] + (2 * half[-1],), gen.pick((None, b"none", b"tanh"))
            x, out = self.operand(gen, d, shape), gen.out(d, half)
            run("aclnnGeluMul", x, approximate, out)
            a, b = np.split(x.get().astype(LD), 2, -1)
            ref.check(out.get(), (gelu_tanh if approximate == b"tanh" else gelu)(a) * b, d, ulps=3,
                      slack=DENORMAL * np.abs(b))
        each_case(self, "aclnnGeluMul", CASES, case)
        code, message = refused("aclnnGeluMul", Tensor.empty(F32, (4,)), b"cosh", Tensor.empty(F32, (2,)))
        self.assertEqual((code, 'approximateOptional is "cosh"' in message), (INVALID, True), message)

    def test_backward(self):
        def case(gen, op):
            d, (shape, dim, half) = gen.pick(FLOATS), self.halved(gen)
            x, g, out = self.operand(gen, d, shape), self.operand(gen, d, half), gen.out(d, shape)
            a, b = np.split(x.get().astype(LD), 2, dim)
            gg = g.get().astype(LD)
            if op.startswith("aclnnGeGlu"):
                approximate, left = gen.integer(0, 1), op.endswith("V3Backward") and gen.chance(0.5)
                function = gelu_tanh if approximate else gelu
                kept = gen.tensor(d, half, d.round(function(a if left else b)).astype(d.values))
                run(op, g, x, kept, dim, approximate, *([left] if "V3" in op else []), out)
                active, other = (a, b) if left else (b, a)
                to_active, to_other = gg * other * slope(function, active), gg * kept.get().astype(LD)
                first = left
            else:
                run(op, g, x, dim, out)
                function, first = (ref.sigmoid, False) if op == "aclnnGluBackward" else (swish, True)
                active, other = (a, b) if first else (b, a)
                to_active, to_other = gg * other * slope(function, active), gg * function(active)
            exact = np.concatenate((to_active, to_other) if first else (to_other, to_active), dim)
            slack = np.abs(np.concatenate((gg * other,) * 2, dim)) * LD(2e-13)
            # GLU's has two sigmoids and three products.
            ref.check(out.get(), exact, d, ulps=5 if op == "aclnnGluBackward" else 4, slack=slack)
        for op in ("aclnnGluBackward", "aclnnSwiGluGrad", "aclnnGeGluBackward", "aclnnGeGluV3Backward"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))

    def test_refusals(self):
        x, half = Tensor.empty(F32, (2, 5)), Tensor.empty(F32, (2, 2))
        for op, args, words in (
                ("aclnnGlu", (x, 1, half), "self has 5 elements in dimension 1"),
                ("aclnnSwiGlu", (Tensor.empty(F32, (4, 2)), 0, Tensor.empty(F32, (2, 3))), "out has shape"),
                ("aclnnSwiGlu", (Tensor.empty(F32, (4, 2)), 2, half), "dim"),
                ("aclnnGlu", (Tensor.empty(F32, ()), 0, Tensor.empty(F32, ())), "0 dimensions"),
                ("aclnnGlu", (Tensor.empty(I32, (4,)), 0, Tensor.empty(I32, (2,))), "self has dtype INT32"),
                ("aclnnGeGlu", (Tensor.empty(F32, (4,)), 0, 2, Tensor.empty(F32, (2,)), Tensor.empty(F32, (2,))),
                 "approximate is 2")):
            code, message = refused(op, *args)
            self.assertEqual(code, 161002, op)
            self.assertIn(words, message)


if __name__ == "__main__":
    unittest.main()
