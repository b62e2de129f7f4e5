# SPDX-License-Identifier: Apache-2.0
"""Operators by name that other operators' schemas describe (ops/named.aclop): each is called once for each float type,
and compared with its definition in long double. The functions themselves are tested in all types where they are called
by aclnn; here it counts that each operand and attribute reaches them."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import NHWC, Host, Missing, Operand, execute
from dtypes import BOOL, F16, F32, I32, I64, LD, U8, U16

TOLERANCE = {F32: (2e-6, 1e-6), F16: (2e-3, 1e-3)}
OF = {np.dtype(d.values): d for d in (BOOL, I32, I64, U8, U16)}


def dtype_of(values, d):
    return OF.get(np.asarray(values).dtype, d)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1):
    return np.log1p(np.exp(x * beta)) / beta


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gelu(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / LD(np.pi)) * (x + LD(0.044715) * x ** 3)))


def erf(x):
    """From the series, for |x| up to 4."""
    n = np.arange(1, 80, dtype=LD)
    x = np.asarray(x, LD)
    terms = np.cumprod(-(x[..., None] ** 2) / n, -1) / (2 * n + 1)
    return 2 / np.sqrt(LD(np.pi)) * x * (1 + terms.sum(-1))


def slope(f, x, h=LD(1e-6)):
    """The derivative, by differences of third order."""
    return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h)


def reduced(loss, reduction):
    return {"none": lambda v: v, "mean": np.mean, "sum": np.sum}[reduction](loss)


class Named(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(38)

    def call(self, d, name, inputs, attributes, want, updated=()):
        """want: the expected output, or a list of them. They have the dtype d, or that of want if it is no float."""
        wants = want if isinstance(want, list) else [want]
        operands = [x if isinstance(x, (Host, Missing, Operand)) else Operand.of(dtype_of(x, d), np.asarray(x).astype(
            dtype_of(x, d).values)) for x in inputs]
        out = [Operand.empty(dtype_of(w, d), np.shape(w)) for w in wants]
        execute(name, operands, out, attributes, updated=[operands[i] for i in updated])
        for k, (y, w) in enumerate(zip(out, wants)):
            if y.dtype in (F32, F16):
                rtol, atol = TOLERANCE[d]
                np.testing.assert_allclose(y.get().astype(LD), np.asarray(w, LD), rtol, atol, err_msg=f"{name} {d} {k}")
            else:
                ref.check_equal(y.get(), w, f"{name} {d} {k}")

    def floats(self, d, *shape, low=-3, high=3):
        """Values that the type has, as long double."""
        return self.rng.uniform(low, high, shape).astype(np.float32).astype(d.storage).astype(LD)

    def each(self, rows):
        """rows(d): the calls for a float type."""
        for d in (F32, F16):
            for name, inputs, attributes, want in rows(d):
                with self.subTest(name=name, d=d):
                    self.call(d, name, inputs, attributes, want)

    def test_comparisons(self):
        def rows(d):
            x, y = (self.rng.integers(-3, 4, s).astype(LD) for s in ((5, 7), (7,)))
            a, b = x > 0, y > 0
            odd = np.array([0, 1, np.inf, -np.inf, np.nan], LD)
            for name, f in (("Equal", np.equal), ("NotEqual", np.not_equal), ("Greater", np.greater), ("Less", np.less),
                            ("GreaterEqual", np.greater_equal), ("LessEqual", np.less_equal)):
                yield name, [x, y], {}, f(x, y)
                yield name, [x.astype(np.int64), y.astype(np.int64)], {}, f(x, y)
                yield name, [x[:0], y], {}, f(x[:0], y)
            for name, f in (("LogicalAnd", np.logical_and), ("LogicalOr", np.logical_or),
                            ("LogicalXor", np.logical_xor)):
                yield name, [a, b], {}, f(a, b)
            yield "LogicalNot", [a], {}, ~a
            yield "IsFinite", [odd], {}, np.isfinite(odd)
            yield "IsInf", [odd], {}, np.isinf(odd)
            yield "IsNan", [odd], {}, np.isnan(odd)
            yield "IsPosInf", [odd], {}, odd == np.inf
            yield "IsNegInf", [odd], {}, odd == -np.inf
            near = x + self.rng.integers(0, 2, x.shape) * 0.5
            yield "IsClose", [x, near], {"rtol": 0.0, "atol": 0.25}, np.abs(x - near) <= 0.25
            yield "IsClose", [odd, odd], {}, np.array([True] * 4 + [False])
            for name in ("Select", "SelectV2"):
                yield name, [a, x, y], {}, np.where(a, x, y)
            yield "MaskedFill", [x, b, np.array(2, LD)], {}, np.where(b, 2, x)
            for name in ("ClipByValue", "ClipByValueV2"):
                yield name, [x, np.array(-1, LD), np.array(2, LD)], {}, np.clip(x, -1, 2)
        self.each(rows)

    def test_bits(self):
        for t in (np.int32, np.uint8, np.uint16):
            x, y = (self.rng.integers(0, 99, (4, 5)).astype(t) for _ in range(2))
            self.call(F32, "BitwiseAnd", [x, y], {}, x & y)
            self.call(F32, "BitwiseOr", [x, y[:1]], {}, x | y[:1])
            self.call(F32, "BitwiseXor", [x, y], {}, x ^ y)
            self.call(F32, "Invert", [x], {}, ~x)
        x, y = x.astype(np.int32), y.astype(np.int32)
        self.call(F32, "Gcd", [x, y], {}, np.gcd(x, y))
        self.call(F32, "Lcm", [x, y], {}, np.lcm(x, y))

    def test_arithmetic(self):
        def rows(d):
            x, y, z = (self.floats(d, 4, 6) for _ in range(3))
            p = self.floats(d, 4, 6, low=0.5)
            k, m = (self.rng.integers(-9, 9, (4, 6)).astype(np.int32) for _ in range(2))
            m[m == 0] = 4
            yield "AddV2", [x, y[:1]], {}, x + y[:1]
            yield "Pow", [p, x], {}, p ** x
            yield "Mod", [k, m], {}, np.fmod(k, m)
            yield "Power", [p], {"power": 1.5, "scale": 2.0, "shift": 0.25}, (2 * p + 0.25) ** 1.5
            yield "Power", [x], {}, x
            yield "Muls", [x], {"value": 2.5}, 2.5 * x
            yield "Muls", [k], {"value": 3.0}, 3 * k
            yield "Muls", [x], {"value": 3}, 3 * x
            yield "Adds", [x], {"value": -1.5}, x - 1.5
            yield "Adds", [k], {"value": 2.0}, k + 2
            yield "Axpy", [x, y], {"alpha": 0.5}, x + y / 2
            yield "SquaredDifference", [x, y], {}, (x - y) ** 2
            yield "SquaredDifference", [k, m], {}, (k - m) ** 2
            yield "Lerp", [x, y, z], {}, x + z * (y - x)
            yield "Sign", [x], {}, np.sign(x)
            yield "Trunc", [x], {}, np.trunc(x)
            yield "Rint", [np.round(x * 2) / 2], {}, np.rint(np.round(x * 2) / 2)
            yield "Log1p", [p], {}, np.log1p(p)
            yield "Expm1", [x], {}, np.expm1(x)
            yield "Erfc", [x], {}, 1 - erf(x)
            yield "Hypot", [x, y], {}, np.hypot(x, y)
            yield "Xlog1py", [x, p], {}, x * np.log1p(p)
            yield "FusedMulAdd", [x, y, z], {}, x * y + z
            yield "FusedMulAddN", [x, y, np.array([0.5], LD)], {}, x / 2 + y
            yield ("AddMatMatElements", [x, y, z, np.array([2], LD), np.array([0.5], LD)], {}, 2 * x + y * z / 2)
            yield "Scale", [x, p[0], y[0]], {"axis": -1, "scale_from_blob": False}, x * p[0] + y[0]
            yield "Scale", [x, p[0], Missing()], {}, x * p[0]
            u, v = (self.floats(d, 4, 3) for _ in range(2))
            yield "Cross", [u, v], {"dim": 1}, np.cross(u, v)
            yield "Dot", [x[0], y[0]], {}, x[0] @ y[0]
        self.each(rows)

    def test_inverse_and_special(self):
        x = np.linspace(-1.5, 1.5, 7).astype(LD)
        self.call(F32, "Erfinv", [erf(x)], {}, x)
        self.call(F32, "Ndtri", [(1 + erf(x / np.sqrt(LD(2)))) / 2], {}, x)
        steps = (np.arange(2000, dtype=LD) + 0.5) / 2000
        for name, f in (("FresnelCos", np.cos), ("FresnelSin", np.sin)):
            angle = np.pi / 2 * (x[:, None] * steps) ** 2
            self.call(F32, name, [x], {}, x * f(angle).mean(-1))
        p = np.array([0.5, 1, 2.5, 7], LD)
        self.call(F32, "Igamma", [np.ones(4, LD), p], {}, 1 - np.exp(-p))
        terms = 1 / (p[:, None] + np.arange(20000)) ** 2
        self.call(F32, "Polygamma", [np.ones(4, LD), p], {}, terms.sum(-1) + 1 / (p + 20000 - 0.5))

    def test_activations(self):
        def rows(d):
            x, g = (self.floats(d, 3, 8) for _ in range(2))
            x[0, 0] = 0.75
            yield "Gelu", [x], {}, gelu(x)
            yield "GeluGrad", [g, x, gelu(x)], {}, g * slope(gelu, x)
            normal = lambda v: v * (1 + erf(v / np.sqrt(LD(2)))) / 2
            yield "GeluV2", [x], {}, normal(x)
            yield "GeluV2", [x], {"approximate": "tanh"}, gelu(x)
            yield "GeluGradV2", [g, x], {"approximate": "tanh"}, g * slope(gelu, x)
            yield "GeluGradV2", [g, x], {}, g * slope(normal, x)
            swish = lambda v: v * sigmoid(1.5 * v)
            yield "Swish", [x], {}, x * sigmoid(x)
            yield "Swish", [x], {"scale": 1.5}, swish(x)
            yield "SwishGrad", [g, x, swish(x)], {"scale": 1.5}, g * slope(swish, x)
            yield "Relu6", [4 * x], {}, np.clip(4 * x, 0, 6)
            yield "Relu6Grad", [g, 4 * x], {}, np.where((x > 0) & (4 * x < 6), g, 0)
            yield "EluGrad", [g, x], {}, np.where(x > 0, g, g * (x + 1))
            yield ("EluGradV2", [g, x], {"alpha": 0.5, "is_result": True}, np.where(x > 0, g, g * (x + 0.5)))
            yield "EluGradV2", [g, x], {}, np.where(x > 0, g, g * np.exp(x))
            scale, alpha = LD(1.0507009873554805), LD(1.6732632423543772)
            yield ("SeluGrad", [g, x], {"scale": float(scale)}, np.where(x > 0, g * scale, g * (x + scale * alpha)))
            yield "Softplus", [x], {}, softplus(x)
            yield "SoftplusGrad", [g, x], {}, g * sigmoid(x)
            yield "SoftplusV2", [x], {"beta": 2.0, "threshold": 3.0}, np.where(2 * x > 3, x, softplus(x, 2))
            yield ("SoftplusV2Grad", [g, x], {"beta": 2.0, "threshold": 3.0},
                   np.where(2 * x > 3, g, g * sigmoid(2 * x)))
            mish = lambda v: v * np.tanh(softplus(v))
            yield "MishGrad", [g, x], {}, g * slope(mish, x)
            yield "MishGrad", [g, x, np.tanh(softplus(x))], {}, g * slope(mish, x)
            yield "HardShrink", [x], {}, np.where(np.abs(x) > 0.5, x, 0)
            yield "HardShrinkGrad", [g, x], {"lambd": 1.0}, np.where(np.abs(x) > 1, g, 0)
            yield "SoftShrink", [x], {"lambd": 0.25}, np.sign(x) * np.maximum(np.abs(x) - 0.25, 0)
            yield "SoftShrinkGrad", [g, x], {}, np.where(np.abs(x) > 0.5, g, 0)
            yield ("Shrink", [x], {"lambd": 1.0, "bias": 0.25}, np.where(np.abs(x) > 1, x - np.sign(x) * 0.25, 0))
            yield "HardSigmoid", [x], {"alpha": 0.25, "beta": 0.5}, np.clip(x / 4 + 0.5, 0, 1)
            yield "HardSigmoid", [x], {}, np.clip(x * np.float32(0.16666666) + 0.5, 0, 1)
            yield ("HardSigmoidGrad", [g, x], {"alpha": 0.25, "beta": 0.5},
                   np.where((x / 4 + 0.5 > 0) & (x / 4 + 0.5 < 1), g / 4, 0))
            yield "HardSwish", [2 * x], {}, 2 * x * np.clip(2 * x + 3, 0, 6) / 6
            yield ("HardSwishGrad", [g, 2 * x], {},
                   np.where(2 * x < -3, 0, np.where(2 * x > 3, g, g * (2 * x / 3 + 0.5))))
            yield "HardtanhGrad", [x, g], {}, np.where(np.abs(x) < 1, g, 0)
            yield "HardtanhGrad", [x, g], {"min_val": -2.0, "max_val": 0.5}, np.where((x > -2) & (x < 0.5), g, 0)
            yield "LogSigmoid", [x], {}, -softplus(-x)
            yield "LogSigmoidGrad", [g, x], {}, g * sigmoid(-x)
            yield "ThresholdV2D", [x], {"threshold": 0.5, "value": -2.0}, np.where(x > 0.5, x, -2)
            yield "ThresholdGradV2D", [g, x], {"threshold": 0.5}, np.where(x > 0.5, g, 0)
            yield "Threshold", [x], {"threshold": 0.5}, (x > 0.5).astype(LD)
            w = np.array([0.25], LD)
            yield "PRelu", [x, w], {}, np.where(x > 0, x, x / 4)
            yield ("PReluGrad", [g, x, w], {}, [np.where(x > 0, g, g / 4),
                                                np.where(x > 0, 0, g * x).sum().reshape(1)])
            a, b = x[:, :4], x[:, 4:]
            half = g[:, :4]
            yield "GLU", [x], {}, a * sigmoid(b)
            yield ("GLUGrad", [half, x], {"dim": 1},
                   np.concatenate([half * sigmoid(b), half * a * sigmoid(b) * sigmoid(-b)], 1))
            silu = lambda v: v * sigmoid(v)
            yield "SwiGlu", [x], {}, silu(a) * b
            yield "SwiGluGrad", [half, x], {}, np.concatenate([half * b * slope(silu, a), half * silu(a)], 1)
            slopes = slope(gelu, b)
            yield "GeGluV2", [x], {}, [a * gelu(b), gelu(b)]
            if d is F32:
                yield ("GeGluGradV2", [half, x, gelu(b)], {},
                       np.concatenate([half * gelu(b), half * a * slopes], 1))
            yield "ReluGrad", [g, x], {}, np.where(x > 0, g, 0)
            yield "SigmoidGrad", [x, g], {}, g * x * (1 - x)
            yield "TanhGrad", [x, g], {}, g * (1 - x * x)
            yield "AbsGrad", [x, g], {}, g * np.sign(x)
            yield "ReciprocalGrad", [x, g], {}, -g * x * x
            yield "InvGrad", [x, g], {}, -g * x * x
            k, m = np.round(x), np.round(g)
            for name, first in (("MaximumGrad", k >= m), ("MinimumGrad", k <= m)):
                yield name, [x, k, m], {}, [np.where(first, x, 0), np.where(first, 0, x)]
        self.each(rows)
        x, y1, y2 = (Operand.of(F32, np.full(3, v, np.float32)) for v in (1, 7, 8))
        execute("MaximumGrad", [x, x, x], [y1, y2], {"grad_x": False})
        ref.check_equal(y1.get(), [7, 7, 7])   # not wanted: it stays as it is
        ref.check_equal(y2.get(), [0, 0, 0])

    def test_softmax(self):
        def rows(d):
            x, g = (self.floats(d, 3, 5) for _ in range(2))
            for attributes, axis in (({}, 1), ({"axes": [0]}, 0)):
                y = softmax(x, axis)
                yield "SoftmaxV2", [x], attributes, y
                yield "LogSoftmaxV2", [x], attributes, np.log(y)
                y = y.astype(d.storage).astype(LD)
                yield "SoftmaxGrad", [y, g], attributes, y * (g - (g * y).sum(axis, keepdims=True))
            y = np.log(softmax(x, 0)).astype(d.storage).astype(LD)
            yield "LogSoftmaxGrad", [g, y], {"axis": [0]}, g - np.exp(y) * g.sum(0, keepdims=True)
            mask = self.rng.random((1, 1, 3, 5)) < 0.4
            mask[..., 0] = False
            cube = self.floats(d, 2, 2, 3, 5)
            y = softmax(np.where(mask, -10000, cube * 0.5), -1)
            yield "ScaledMaskedSoftmax", [cube, mask], {"scale": 0.5}, y
            y, k = y.astype(d.storage).astype(LD), self.floats(d, 2, 2, 3, 5)
            if d is F32:
                yield ("ScaledMaskedSoftmaxGrad", [k, y, mask], {"scale": 0.5},
                       np.where(mask, 0, 0.5 * y * (k - (k * y).sum(-1, keepdims=True))))
            labels, p = np.array([4, 0, 2], np.int32), softmax(x, 1)
            row = np.arange(3)
            yield ("SparseSoftmaxCrossEntropyWithLogits", [x, labels], {},
                   [-np.log(p[row, labels]), p - np.eye(5)[labels]])
        self.each(rows)
        with self.assertRaisesRegex(AclError, r"labels has shape \[2\], expected \[3\]"):
            self.call(F32, "SparseSoftmaxCrossEntropyWithLogits", [np.ones((3, 5), LD), np.zeros(2, np.int32)], {},
                      [np.ones(3, LD), np.ones((3, 5), LD)])
        many = np.zeros((1, 3000), LD)   # more classes than a block has
        want = np.full((1, 3000), LD(1) / 3000)
        want[0, 2500] -= 1
        self.call(F32, "SparseSoftmaxCrossEntropyWithLogits", [many, np.array([2500])], {}, [np.log([LD(3000)]), want])
        x = np.ones((2, 3), LD)
        with self.assertRaisesRegex(AclError, "axes has 2 elements, expected 1"):
            self.call(F32, "SoftmaxV2", [x], {"axes": [0, 1]}, x)

    def test_losses(self):
        def rows(d):
            x, t, g = (self.floats(d, 4, 5) for _ in range(3))
            x[np.abs(x - t) < 0.01] += 0.125
            p, q = (self.floats(d, 4, 5, low=0.1, high=0.9) for _ in range(2))
            w, positive = self.floats(d, 4, 5, low=0.5, high=1), self.floats(d, 5, low=0.5, high=2)
            sign = np.where(t > 0, LD(1), LD(-1))
            for r in ("none", "mean", "sum"):
                a, one = {"reduction": r}, g if r == "none" else np.array(0.5, LD)
                n = x.size if r == "mean" else 1
                yield "MseLoss", [x, t], a, reduced((x - t) ** 2, r)
                yield "MseLossGrad", [x, t, one], a, one * 2 * (x - t) / n
                yield "LpLoss", [x, t], {"p": 1, **a}, reduced(np.abs(x - t), r)
                yield "L1LossGrad", [one, x, t], a, np.sign(x - t) * one / n
                delta = np.abs(x - t)
                smooth = np.where(delta < 2, delta ** 2 / 4, delta - 1)
                smooth_slope = np.where(delta < 2, (x - t) / 2, np.sign(x - t))
                yield "SmoothL1LossV2", [x, t], {"sigma": 2.0, **a}, reduced(smooth, r)
                yield "SmoothL1LossGradV2", [x, t, one], {"sigma": 2.0, **a}, one * smooth_slope / n
                if r == "none":
                    yield "SmoothL1Loss", [x, t], {"sigma": 2.0}, smooth
                    yield "SmoothL1LossGrad", [x, t, g], {"sigma": 2.0}, g * smooth_slope
                yield "SoftMarginLoss", [x, sign], a, reduced(softplus(-x * sign), r)
                yield "SoftMarginLossGrad", [x, sign, one], a, -sign * sigmoid(-x * sign) * one / n
                entropy = -q * np.log(p) - (1 - q) * np.log(1 - p)
                yield "BinaryCrossEntropy", [p, q, w], a, reduced(w * entropy, r)
                yield "BinaryCrossEntropy", [p, q], a, reduced(entropy, r)
                yield "BinaryCrossEntropyGrad", [p, q, one, w], a, one * w * (p - q) / (p * (1 - p)) / n
                logit = w * (positive * q * softplus(-x) + (1 - q) * softplus(x))
                logit_slope = w * ((1 - q) * sigmoid(x) - positive * q * sigmoid(-x))
                yield "SigmoidCrossEntropyWithLogitsV2", [x, q, w, positive], a, reduced(logit, r)
                yield "SigmoidCrossEntropyWithLogitsGradV2", [x, q, one, w, positive], a, one * logit_slope / n
            yield "SigmoidCrossEntropyWithLogits", [x, q], {}, q * softplus(-x) + (1 - q) * softplus(x)
            yield "SigmoidCrossEntropyWithLogitsGrad", [x, q, g], {}, g * (sigmoid(x) - q)
        self.each(rows)
        x = np.ones((2, 3), LD)
        with self.assertRaisesRegex(AclError, 'reduction is "avg", expected one of none|mean|sum'):
            self.call(F32, "MseLoss", [x, x], {"reduction": "avg"}, x)
        with self.assertRaisesRegex(AclError, "attribute p is 2, expected 1"):
            self.call(F32, "LpLoss", [x, x], {"p": 2}, x)
        target, weight = np.array([2, 0], np.int32), np.array([1, 2, 4], LD)
        total = LD(5)
        self.call(F32, "NLLLoss", [x * 3, target, weight], {}, [np.array(-3, LD), np.array(total, LD)])
        grad = np.zeros((2, 3), LD)
        grad[0, 2], grad[1, 0] = -4 / total, -1 / total
        self.call(F32, "NLLLossGrad", [x, np.array(1, LD), target, weight, np.array(total, LD)], {}, grad)

    def test_norms(self):
        def rows(d):
            x, y, g = (self.floats(d, 3, 16) for _ in range(3))
            gamma, beta = self.floats(d, 16), self.floats(d, 16)
            def rms(v):
                return np.sqrt((v ** 2).mean(-1, keepdims=True) + 1e-6)
            if d is F32:
                yield "RmsNorm", [x, gamma], {}, [x / rms(x) * gamma, 1 / rms(x)]
                yield "AddRmsNorm", [x, y, gamma], {}, [(x + y) / rms(x + y) * gamma, 1 / rms(x + y), x + y]
                r = 1 / rms(x)
                dx = r * g * gamma - x * r ** 3 * (g * gamma * x).mean(-1, keepdims=True)
                yield "RmsNormGrad", [g, x, r, gamma], {}, [dx, (g * x * r).sum(0)]
                def layer(v, axes=-1):
                    mean, rstd = v.mean(axes, keepdims=True), 1 / np.sqrt(v.var(axes, keepdims=True) + 1e-5)
                    return [(v - mean) * rstd, mean, rstd]
                normal, *rest = layer(x + y)
                yield ("AddLayerNorm", [x, y, gamma, beta], {"additional_output": True},
                       [normal * gamma + beta, *rest, x + y])
                group = self.floats(d, 2, 4, 3)
                scale, shift = self.floats(d, 4), self.floats(d, 4)
                normal, mean, rstd = layer(group.reshape(2, 2, 6))
                z = normal.reshape(group.shape) * scale[:, None] + shift[:, None]
                yield ("GroupNormSilu", [group, scale, shift], {"num_groups": 2},
                       [z * sigmoid(z), mean[..., 0], rstd[..., 0]])
                head, angle = self.floats(d, 1, 2, 3, 8), self.floats(d, 1, 1, 3, 8)
                turned = np.concatenate([-head[..., 4:], head[..., :4]], -1)
                for name in ("RotaryMul", "RotaryPositionEmbedding"):
                    yield name, [head, np.cos(angle), np.sin(angle)], {}, head * np.cos(angle) + turned * np.sin(angle)
                s = 0.3 * x + y
                mean, rstd = s.mean(-1, keepdims=True), 1 / np.sqrt(s.var(-1, keepdims=True) + 1e-6)
                yield "DeepNorm", [x, y, beta, gamma], {}, [mean, rstd, (s - mean) * rstd * gamma + beta]
        self.each(rows)

    def test_reductions(self):
        def rows(d):
            x = self.floats(d, 3, 4, 5, low=0.5, high=1.5)
            a = {"axes": [0, -1], "keep_dims": True}
            for name, f in (("Sum", np.sum), ("Mean", np.mean), ("Prod", np.prod), ("Max", np.max), ("Min", np.min)):
                yield f"Reduce{name}D", [x], a, f(x, (0, 2), keepdims=True)
                yield f"Reduce{name}D", [x], {"axes": [1]}, f(x, 1)
            for name, f in (("All", np.all), ("Any", np.any)):
                yield f"Reduce{name}D", [x > 0.6], {"axes": [1]}, f(x > 0.6, 1)
            yield "ReduceLogSumExp", [x, Host([1])], {}, np.log(np.exp(x).sum(1))
            yield "ReduceLogSum", [x, Host([1, 2])], {"keep_dims": True}, np.log(x.sum((1, 2), keepdims=True))
            yield "EuclideanNorm", [x, Host([0])], {}, np.sqrt((x ** 2).sum(0))
            yield "EuclideanNormD", [x], {"axes": [0]}, np.sqrt((x ** 2).sum(0))
            yield "CumsumD", [x], {"axis": 1}, x.cumsum(1)
            yield "CumsumD", [x], {"axis": 0, "exclusive": True, "reverse": True}, x[::-1].cumsum(0)[::-1] - x
            yield "CumprodD", [x], {"axis": 2}, x.cumprod(2)
            yield "CumulativeLogsumexpD", [x], {"axis": 1}, np.log(np.exp(x).cumsum(1))
            order = np.maximum.accumulate(x, 1)
            last = np.maximum.accumulate(np.where(x == order, np.arange(4)[:, None], 0), 1)
            yield "Cummax", [x], {"dim": 1}, [order, last.astype(np.int32)]
            yield "ArgMaxD", [x], {"dimension": 1}, x.argmax(1).astype(np.int32)
            yield "ArgMinD", [x], {"dimension": -1}, x.argmin(2).astype(np.int32)
            yield ("ArgMaxWithValue", [x], {"dimension": 1, "keep_dims": True},
                   [x.argmax(1).astype(np.int32)[:, None], x.max(1, keepdims=True)])
            yield "ArgMinWithValue", [x], {"dimension": 0}, [x.argmin(0).astype(np.int32), x.min(0)]
            yield "Einsum", [x[0], x[1]], {"equation": "ij,kj->ik", "N": 2}, x[0] @ x[1].T
        self.each(rows)
        m = np.tril(self.rng.integers(1, 4, (4, 4))).astype(LD)
        self.call(F32, "Cholesky", [m @ m.T], {}, m)

    def test_moves(self):
        def rows(d):
            x = self.floats(d, 2, 3, 4)
            yield "Fills", [x], {"value": 2.5}, x * 0 + 2.5
            yield "FillD", [np.array([1.5], LD)], {"dims": [2, 3]}, np.full((2, 3), 1.5, LD)
            yield "Eye", [], {"num_rows": 3, "num_columns": 4, "dtype": 0}, np.eye(3, 4, dtype=LD)
            yield "Eye", [], {"num_rows": 3}, np.eye(3, dtype=LD)
            yield "Tile", [x, Host([2, 1, 2, 1])], {}, np.tile(x, (2, 1, 2, 1))
            yield "TileD", [x], {"multiples": [1, 2, 3]}, np.tile(x, (1, 2, 3))
            yield "TileWithAxis", [x], {"axis": 1, "tiles": 2}, np.tile(x, (1, 2, 1))
            yield "TileWithAxis", [x], {"axis": -1, "tiles": 0}, np.tile(x, (1, 1, 0))
            wide = np.broadcast_to(x[:, :1], (5, 2, 3, 4))
            yield "Expand", [x[:, :1], Host(wide.shape)], {}, wide
            yield "Expand", [x[:, :1]], {"shape": list(wide.shape)}, wide
            yield "ExpandD", [x[:, :1]], {"shape": list(wide.shape)}, wide
            flat, tall = x.reshape(6, 4), x[:, None]
            for name in ("Unsqueeze", "UnsqueezeV2"):
                yield name, [x], {"axes" if name == "Unsqueeze" else "axis": [1]}, tall
            yield "ExpandDims", [x, Host([1])], {}, tall
            yield "Squeeze", [tall], {"axis": [1]}, x
            yield "SqueezeV2", [tall], {"axis": [1]}, x
            yield "Reshape", [x, Host([6, 4])], {}, flat
            yield "FlattenV2", [x], {"axis": 0, "end_axis": 1}, flat
            strided = np.lib.stride_tricks.as_strided(x.reshape(-1)[3:], (2, 3), (x.itemsize * 2, x.itemsize * 7))
            yield "AsStrided", [x, Host([2, 3]), Host([2, 7]), Host([3])], {}, strided
            yield "SliceD", [x], {"offsets": [0, 1, 1], "size": [2, 2, -1]}, x[:, 1:, 1:]
            yield ("StridedSliceD", [x], {"begin": [0, 0, 1], "end": [2, 3, 4], "strides": [1, 2, 2], "end_mask": 2},
                   x[:, ::2, 1::2])
            yield "StridedSliceV2", [x, Host([-2, 1]), Host([9, 4]), Host([1, 2]), Host([1, 2])], {}, x[:, -2:, 1:4:2]
            part = self.floats(d, 2, 2, 2)
            assigned = x.copy()
            assigned[:, 1:, ::2] = part
            yield "StridedSliceAssign", [x, Host([0, 1, 0]), Host([2, 3, 4]), Host([1, 1, 2]), part], {}, assigned
            grad = np.zeros((2, 3, 4), LD)
            grad[:, 1:, ::2] = part
            yield ("StridedSliceGradD", [part], {"shape": [2, 3, 4], "begin": [0, 1, 0], "end": [2, 3, 4],
                                                 "strides": [1, 1, 2]}, grad)
            yield "PadV3D", [x], {"paddings": [0, 1, 2, 0, 1, 1]}, np.pad(x, ((0, 1), (2, 0), (1, 1)))
            square = self.floats(d, 1, 2, 2, 1)
            batches = square.reshape(4, 1, 1, 1)
            yield "SpaceToBatchNDD", [square], {"block_shape": [2, 2], "paddings": [0, 0, 0, 0]}, batches
            yield "BatchToSpaceNDD", [batches], {"block_shape": [2, 2], "crops": [0, 0, 0, 0]}, square
            signs = np.where(self.rng.random(16) < 0.5, LD(1), LD(-1))
            bits = np.packbits(signs > 0, bitorder="little")
            yield "SignBitsPack", [signs], {"size": 2}, bits.reshape(2, 1)
            yield "SignBitsUnpack", [bits], {"size": 2, "dtype": d.code}, signs.reshape(2, 8)
            yield "Crop", [x, x[:, 1:3, 1:]], {"axis": 1, "offsets": [1, 1]}, x[:, 1:3, 1:]
            yield "Crop", [x, x[..., 1:3]], {"offsets": [1]}, x[..., 1:3]
            yield "SplitD", [x], {"split_dim": 2, "num_split": 2}, np.split(x, 2, 2)
            yield "SplitV", [x, Host([1, 3]), Host([2])], {"num_split": 2}, [x[..., :1], x[..., 1:]]
            yield "SplitVD", [x], {"size_splits": [1, 2], "split_dim": 1, "num_split": 2}, [x[:, :1], x[:, 1:]]
            yield "ConcatV2", [x, x[:, :1], Host([1])], {"N": 2}, np.concatenate([x, x[:, :1]], 1)
            yield "ConcatV2D", [x, x[..., :2]], {"concat_dim": -1, "N": 2}, np.concatenate([x, x[..., :2]], 2)
            yield "Roll", [x], {"shifts": [1, 2], "dims": [0, 2]}, np.roll(x, (1, 2), (0, 2))
            yield "Roll", [x], {"shifts": [5]}, np.roll(x, 5)
            yield "RollV2", [x, Host([-1]), Host([1])], {}, np.roll(x, -1, 1)
            yield "ReverseV2D", [x], {"axis": [0, 2]}, x[::-1, :, ::-1]
            for paddings in ([0, 1, 2, 0, 1, 1], [[0, 1], [2, 0], [1, 1]]):
                yield "PadD", [x], {"paddings": paddings}, np.pad(x, ((0, 1), (2, 0), (1, 1)))
            yield ("ConfusionTransposeD", [x], {"perm": [1, 0, 2], "shape": [3, 8], "transpose_first": True},
                   x.transpose(1, 0, 2).reshape(3, 8))
            yield "DiagD", [x[0, 0], np.eye(4, dtype=LD)], {}, np.diag(x[0, 0])
            yield "DiagPartD", [x[:, :, 0][:, :2], np.eye(2, dtype=LD)], {}, np.diag(x[:, :, 0][:, :2])
        self.each(rows)

    def test_indices(self):
        def rows(d):
            x = self.floats(d, 5, 3)
            rows_, mask = np.array([4, 0, 4], np.int32), self.rng.random((5, 3)) < 0.5
            at = self.rng.integers(0, 5, (4, 3)).astype(np.int64)
            yield "Gather", [x, rows_], {}, x[rows_]
            yield "GatherV2D", [x, rows_ % 3], {"axis": 1}, x[:, rows_ % 3]
            yield "GatherElements", [x, at], {"dim": 0}, np.take_along_axis(x, at, 0)
            yield "GatherD", [x, Host([0]), at], {}, np.take_along_axis(x, at, 0)
            updates = np.round(self.floats(d, 4, 3))
            exact = np.round(x)
            want = exact.copy()
            np.add.at(want, (at, np.arange(3)), updates)
            yield "ScatterAddWithAxis", [exact, at, updates], {}, want
            yield "ScatterElementsV2", [exact, at, updates], {"reduction": "add"}, want
            want = exact.copy()
            np.put_along_axis(want, at[:1], updates[:1], 0)
            yield "ScatterElementsV2", [exact, at[:1], updates[:1]], {}, want
            want = np.zeros((6, 3), LD)
            np.add.at(want, rows_, updates[:3])
            yield "ScatterNdD", [rows_[:, None], updates[:3]], {"shape": [6, 3]}, want
            ids = np.array([1, 0, 1, 1, 0], np.int32)
            for name, f in (("Sum", np.sum), ("Prod", np.prod), ("Max", np.max), ("Min", np.min)):
                yield (f"UnsortedSegment{name}D", [x, ids], {"num_segments": 2},
                       np.stack([f(x[ids == k], 0) for k in range(2)]))
            order = np.argsort(-x, 0)[:2]
            yield ("TopKD", [x, np.arange(10, dtype=LD)], {"k": 2, "dim": 0},
                   [np.take_along_axis(x, order, 0), order.astype(np.int32)])
            line, search = np.sort(np.round(self.floats(d, 9))), np.round(self.floats(d, 2, 3))
            for right in (False, True):
                yield ("SearchSorted", [line, search], {"right": right},
                       np.searchsorted(line, search, "right" if right else "left").astype(np.int32))
            yield "MaskedScale", [x, mask.astype(np.uint8)], {"value": 2.0}, x * mask * 2
            want = exact.copy()
            np.add.at(want, rows_, updates[:3])
            for name in ("TensorScatterAdd", "ScatterNonAliasingAdd"):
                yield name, [exact, rows_[:, None], updates[:3]], {}, want
            want = x.copy()
            source = self.floats(d, 15)
            want[mask] = source[:mask.sum()]
            yield "MaskedScatter", [x, mask, source], {}, want
            grad = np.zeros((6, 3), LD)
            np.add.at(grad, rows_[:2], exact[:2])
            yield "EmbeddingDenseGrad", [exact[:3], np.array([4, 0, 2], np.int32)], {
                "num_weights": 6, "padding_idx": 2}, grad
        self.each(rows)

    def test_sizes_of_data(self):
        x, mask = np.arange(6, dtype=np.int32), np.array([1, 0, 1, 1, 0, 0], bool)
        for name, inputs, want in (("MaskedSelect", [x, mask], x[mask]), ("Where", [mask], np.argwhere(mask)),
                                   ("NonZero", [mask], np.argwhere(mask))):
            y = Operand.empty(I32 if name == "MaskedSelect" else I64, (6,) if want.ndim == 1 else (6, 1))
            operands = [Operand.of(dtype_of(v, None), v) for v in inputs]
            shapes = execute(name, operands, [y], {}, shapes=True)
            self.assertEqual(shapes, [want.shape], name)
            ref.check_equal(y.get()[:len(want)], want, name)
        columns = Operand.empty(I64, (2, 4))
        shapes = execute("NonZero", [Operand.of(I32, np.array([[0, 3], [5, 0]], np.int32))], [columns],
                         {"transpose": True}, shapes=True)
        self.assertEqual(shapes, [(2, 2)])
        ref.check_equal(columns.get().reshape(-1)[:4], [0, 1, 1, 0])
        v = np.array([3, 3, 1, 3], np.int32)
        out = [Operand.empty(I32, (4,)), Operand.empty(I64, (4,)), Operand.empty(I64, (4,))]
        execute("UniqueConsecutive", [Operand.of(I32, v)], out, {"return_idx": True, "return_counts": True},
                shapes=True)
        ref.check_equal(out[0].get()[:3], np.array([3, 1, 3], np.int32))
        ref.check_equal(out[1].get(), [0, 0, 1, 2])
        ref.check_equal(out[2].get()[:3], [2, 1, 1])

    def test_multinomial(self):
        x = np.array([[0, 1, 0], [0, 0, 2]], LD)
        one = Operand.of(I64, np.array([7]))
        self.call(F32, "MultinomialWithReplacement", [x, one, one], {"numsamples": 3, "replacement": True},
                  np.array([[1] * 3, [2] * 3], np.int64))

    def test_images(self):
        x = self.floats(F32, 1, 2, 5, 4)
        identity = np.array([[[1, 0, 0], [0, 1, 0]]], LD)
        ys, xs = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 4), indexing="ij")
        grid = np.stack([xs, ys], -1).astype(LD)[None]
        self.call(F32, "AffineGrid", [identity, Host([1, 2, 5, 4])], {"align_corners": True}, grid)
        for mode in ("bilinear", "nearest", "bicubic"):
            self.call(F32, "GridSampler2D", [x, grid], {"interpolation_mode": mode, "align_corners": True}, x)
        outside = grid + 2
        self.call(F32, "GridSampler2D", [x, outside], {"align_corners": True, "padding_mode": "border"},
                  np.broadcast_to(x[..., -1:, -1:], x.shape))
        g = self.floats(F32, *x.shape)
        zero = np.zeros(grid.shape, LD)
        self.call(F32, "GridSampler2DGrad", [g, x, grid], {"interpolation_mode": "nearest", "align_corners": True},
                  [g, zero])
        v, w = self.floats(F32, 1, 2, 3, 4, 2), self.floats(F32, 1, 2, 3, 4, 2)
        axes = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), np.linspace(-1, 1, 2), indexing="ij")
        cube = np.stack(axes[::-1], -1).astype(LD)[None]
        self.call(F32, "GridSampler3D", [v, cube], {"align_corners": True}, v)
        self.call(F32, "GridSampler3DGrad", [w, v, cube], {"interpolation_mode": "nearest", "align_corners": True},
                  [w, np.zeros(cube.shape, LD)])
        self.call(F32, "ResizeBicubic", [x, Host([5, 4], np.int32)], {"half_pixel_centers": True}, x)
        self.call(F32, "AdaptiveAvgPool2d", [x[:, :, :4]], {"output_size": [2, 2]},
                  x[:, :, :4].reshape(1, 2, 2, 2, 2, 2).mean((3, 5)))
        self.call(F32, "AdaptiveAvgPool2dGrad", [g[:, :, :2, :2]], {"orig_input_shape": [1, 2, 4, 6]},
                  g[:, :, :2, :2].repeat(2, 2).repeat(3, 3) / 6)
        for name in ("ResizeBilinearV2D", "ResizeNearestNeighborV2D", "ResizeNearestNeighborV2GradD"):
            self.call(F32, name, [x], {"size": [5, 4]}, x)
        double = x.repeat(2, 2).repeat(2, 3)
        self.call(F32, "ResizeNearestNeighborV2D", [x], {"size": [10, 8]}, double)
        self.call(F32, "ResizeNearestNeighborV2GradD", [double], {"size": [5, 4]}, 4 * x)
        most = x[:, :, :4].reshape(1, 2, 2, 2, 2, 2).max((3, 5))
        places = np.array([[[[np.flatnonzero(x[0, c, :4] == most[0, c, i, j])[0] for j in range(2)] for i in range(2)]
                            for c in range(2)]], np.int32)
        self.call(F32, "AdaptiveMaxPool2d", [x[:, :, :4]], {"output_size": [2, 2]}, [most, places])

    def test_pool_gradients(self):
        """Against windows that are cut out of the padded image."""
        x = self.rng.permutation(60).reshape(1, 2, 5, 6).astype(LD)     # different values: the maximum is one of them
        for pads, ceil in (([0, 0, 0, 0], False), ([1, 1, 0, 0], False), ([1, 1, 1, 1], True)):
            a = {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 2], "pads": pads, "ceil_mode": ceil}
            out = [(n + p + q - k + ceil) // 2 + 1 for n, k, p, q in ((5, 3, *pads[:2]), (6, 2, *pads[2:]))]
            out = [o - (1 if (o - 1) * 2 >= n + p else 0) for o, n, p in zip(out, (5, 6), (pads[0], pads[2]))]
            g = self.floats(F32, 1, 2, *out)
            of_max, of_mean, with_pads = (np.zeros(x.shape, LD) for _ in range(3))
            for c in range(2):
                for i, j in np.ndindex(*out):
                    top, left = i * 2 - pads[0], j * 2 - pads[2]
                    rows, columns = slice(max(top, 0), min(top + 3, 5)), slice(max(left, 0), min(left + 2, 6))
                    window = x[0, c, rows, columns]
                    at = np.unravel_index(window.argmax(), window.shape)
                    of_max[0, c, rows.start + at[0], columns.start + at[1]] += g[0, c, i, j]
                    of_mean[0, c, rows, columns] += g[0, c, i, j] / window.size
                    tall, wide = min(top + 3, 5 + pads[1]) - top, min(left + 2, 6 + pads[3]) - left
                    with_pads[0, c, rows, columns] += g[0, c, i, j] / (tall * wide)
            pooled = Operand.empty(F32, g.shape)
            execute("MaxPoolV3", [Operand.of(F32, x.astype(np.float32))], [pooled], a)
            self.call(F32, "MaxPoolV3Grad", [x, pooled, g], a, of_max)
            self.call(F32, "AvgPoolV2Grad", [Host(x.shape), g], a, of_mean)
            if pads[0] == pads[1]:
                self.call(F32, "AvgPoolV2Grad", [Host(x.shape), g], {**a, "exclusive": False}, with_pads)
        whole = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "global_pooling": True}
        self.call(F32, "AvgPoolV2Grad", [Host(x.shape), np.ones((1, 2, 1, 1), LD)], whole, np.full(x.shape, LD(1) / 30))
        with self.assertRaisesRegex(AclError, "out_grad has shape .*, expected"):
            self.call(F32, "AvgPoolV2Grad", [Host([1, 2, 5, 5]), g], a, x)
        with self.assertRaisesRegex(AclError, "input_grad has shape .*, expected"):
            self.call(F32, "AvgPoolV2Grad", [Host(x.shape), g[..., :1]], a, x)

    def test_stateless_masks(self):
        def mask(seed, seed1, *offset, keep=0.75, n=4096):
            y = Operand.empty(U8, (n // 8,))
            words = [Operand.of(I32, np.array([v], np.int32)) for v in (seed, seed1)]
            words += [Host(v) for v in offset]
            prob = Operand.of(F32, np.array([keep], np.float32))
            execute("StatelessDropOutGenMask", [Host([64, n // 64]), prob, *words], [y], {})
            return np.unpackbits(y.get())
        first = mask(3, 5)
        self.assertLess(abs(first.mean() - 0.75), 0.05)
        ref.check_equal(mask(3, 5), first)
        ref.check_equal(mask(3, 5, [9, 0]), first)
        for other in (mask(4, 5), mask(3, 6), mask(3, 5, [0, 1])):
            self.assertGreater((other != first).mean(), 0.2)
        ref.check_equal(mask(3, 5, keep=1), np.ones(4096, np.uint8))
        with self.assertRaisesRegex(AclError, "offset has shape .*, expected some elements"):
            mask(3, 5, [])

    def test_channels_last(self):
        """As OpenCV's cannops pass images: the same numbers as with the channels first."""
        x = self.floats(F32, 1, 3, 6, 5).astype(np.float32)
        last = lambda v: np.ascontiguousarray(v.transpose(0, 2, 3, 1))
        for name in ("ResizeBicubic", "ResizeBilinearV2", "ResizeNearestNeighborV2"):
            first, y = Operand.empty(F32, (1, 3, 4, 7)), Operand.empty(F32, (1, 4, 7, 3), NHWC)
            for image, out in ((Operand.of(F32, x), first), (Operand.of(F32, last(x), NHWC), y)):
                execute(name, [image, Host([4, 7], np.int32)], [out], {"half_pixel_centers": True})
            ref.check_equal(y.get(), last(first.get()), name)
        image, parts = Operand.of(F32, last(x), NHWC), [Operand.empty(F32, (1, 6, 5, 1), NHWC) for _ in range(3)]
        execute("SplitD", [image], parts, {"split_dim": 3, "num_split": 3})
        for c in range(3):
            ref.check_equal(parts[c].get(), last(x[:, c:c + 1]))
        size, y = Operand.empty(F32, (1, 2, 3, 3), NHWC), Operand.empty(F32, (1, 2, 3, 3), NHWC)
        execute("Crop", [image, size], [y], {"axis": 1, "offsets": [4, 1, 0]})
        ref.check_equal(y.get(), last(x[:, :, 4:, 1:4]))

    def test_convolutions(self):
        """Kernels of one element, whose gradients are products of matrices."""
        x, g, f = self.floats(F32, 2, 3, 4, 5), self.floats(F32, 2, 6, 4, 5), self.floats(F32, 6, 3, 1, 1)
        a = {"strides": [1, 1, 1, 1], "pads": [0] * 4, "data_format": "NCHW"}
        image = lambda v: Operand.of(F32, v.astype(np.float32), 0 if v.ndim == 4 else 30)
        dx, df = np.einsum("nohw,oc->nchw", g, f[..., 0, 0]), np.einsum("nohw,nchw->oc", g, x)
        def check(name, inputs, attributes, want):
            y = Operand.empty(F32, want.shape, 0 if want.ndim == 4 else 30)
            execute(name, [image(v) for v in inputs], [y], attributes)
            np.testing.assert_allclose(y.get(), want.astype(np.float64), 1e-5, 1e-5, err_msg=name)
        check("Conv2DBackpropInputD", [f, g], {"input_size": list(x.shape), **a}, dx)
        check("Conv2DBackpropFilterD", [x, g], {"filter_size": list(f.shape), **a}, df[..., None, None])
        check("Conv2DTransposeD", [g, f], {"input_size": list(x.shape), **a}, dx)
        b = {"strides": [1] * 5, "pads": [0] * 6, "data_format": "NCDHW"}
        check("Conv3DBackpropInputD", [f[:, :, None], g[:, :, None]], {"input_size": [2, 3, 1, 4, 5], **b},
              dx[:, :, None])
        check("Conv3DTransposeD", [g[:, :, None], f[:, :, None]], {"input_size": [2, 3, 1, 4, 5], **b}, dx[:, :, None])
        check("Conv3DBackpropFilterD", [x[:, :, None], g[:, :, None]], {"filter_size": [6, 3, 1, 1, 1], **b},
              df[..., None, None, None])

    def step(self, name, states, scalars, grad_place, attributes, want):
        """A step of an optimiser: the states, then the scalars with the gradient among them. want: the new states."""
        g = self.floats(F32, 7, low=0.5, high=1)
        operands = [Operand.of(F32, s.astype(np.float32)) for s in states]
        rest = [Operand.of(F32, np.array([v], np.float32)) for v in scalars]
        rest.insert(grad_place, Operand.of(F32, g.astype(np.float32)))
        y = Operand.empty(F32, (7,))
        execute(name, operands + rest, [y], attributes, updated=operands)
        for got, w in zip([y, *operands[1:]], want(*states, g)):
            np.testing.assert_allclose(got.get(), w.astype(np.float64), 1e-5, 1e-6, err_msg=name)

    def test_optimisers(self):
        var, m, v = (self.floats(F32, 7, low=0.5, high=1) for _ in range(3))

        def adadelta(var, accum, update, g):
            accum = 0.9 * accum + LD(0.1) * g * g
            change = g * np.sqrt(update + 0.01) / np.sqrt(accum + 0.01)
            return var - 0.5 * change, accum, 0.9 * update + LD(0.1) * change ** 2

        def rms(var, ms, mom, g):
            ms = ms + LD(0.1) * (g * g - ms)
            mom = 0.8 * mom + 0.5 * g / np.sqrt(ms + 0.01)
            return var - mom, ms, mom

        def adamax(var, m, v, g):
            m, v = m + LD(0.1) * (g - m), np.maximum(0.8 * v, g)
            return var - 0.5 / (1 - 0.5) * m / (v + 0.01), m, v

        def proximal(var, accum, g):
            accum = accum + g * g
            rate = 0.5 / np.sqrt(accum)
            at = var - rate * g
            return np.sign(at) * np.maximum(np.abs(at) - rate * 0.1, 0) / (1 + rate * 0.2), accum

        def power_sign(var, m, g):
            m = 0.9 * m + LD(0.1) * g
            return var - 0.5 * np.exp(0.7 * 0.8 * np.sign(g) * np.sign(m)) * g, m

        def add_sign(var, m, g):
            m = 0.9 * m + LD(0.1) * g
            return var - 0.5 * (0.7 + 0.8 * np.sign(g) * np.sign(m)) * g, m
        self.step("ApplyAdadelta", [var, m, v], [0.5, 0.9, 0.01], 3, {"use_locking": True}, adadelta)
        self.step("ApplyRMSPropD", [var, m, v], [0.5], 1, {"rho": 0.9, "momentum": 0.8, "epsilon": 0.01}, rms)
        self.step("ApplyAdagrad", [var, m], [0.5], 1, {}, lambda x, a, g: (x - 0.5 * g / np.sqrt(a + g * g), a + g * g))
        self.step("ApplyAdagradV2", [var, m], [0.5, 0.25], 2, {},
                  lambda x, a, g: (x - 0.5 * g / (np.sqrt(a + g * g) + 0.25), a + g * g))
        self.step("ApplyAdagradV2", [var, m], [0.5, 0.25], 2, {"update_slots": False},
                  lambda x, a, g: (x - 0.5 * g / (np.sqrt(a) + 0.25), a))
        self.step("ApplyAdaMax", [var, m, v], [0.5, 0.5, 0.9, 0.8, 0.01], 5, {}, adamax)
        self.step("ApplyProximalAdagrad", [var, m], [0.5, 0.1, 0.2], 3, {}, proximal)
        self.step("ApplyPowerSign", [var, m], [0.5, 0.7, 0.8, 0.9], 4, {}, power_sign)
        self.step("ApplyAddSign", [var, m], [0.5, 0.7, 0.8, 0.9], 4, {}, add_sign)
        self.step("ApplyKerasMomentum", [var, m], [0.5, 0.9], 1, {},
                  lambda x, a, g: (x + 0.9 * a - 0.5 * g, 0.9 * a - 0.5 * g))

    def test_adamw(self):
        """Three states, which the outputs get; the caller's stay as they are, unless they are the outputs."""
        var, m, v, g = (self.floats(F32, 5, low=0.5, high=1) for _ in range(4))
        want = ref.adamw(var, m, v, None, g, 2, 0.25, 0.5, 0.75, 0.1, 0.01, False)[:3]
        numbers = [Operand.of(F32, np.array([x], np.float32)) for x in (0.5, 0.75, 0.25, 0.1, 0.5, 0.75, 0.01)]
        states = [Operand.of(F32, x.astype(np.float32)) for x in (var, m, v)]
        grad = Operand.of(F32, g.astype(np.float32))
        apart = [Operand.empty(F32, (5,)) for _ in range(3)]
        for out in (apart, states):
            before = [s.get() for s in states]
            execute("ApplyAdamW", [*states, *numbers, grad, Missing()], out, {"amsgrad": False, "maximize": False})
            for y, w, s, old in zip(out, want, states, before):
                np.testing.assert_allclose(y.get(), w.astype(np.float64), 1e-5, 1e-6)
                if out is apart:
                    ref.check_equal(s.get(), old)

    def test_copied_in_place(self):
        """An operand that is the output, too, is not copied; another is, and stays as it is."""
        x, mask = Operand.of(F32, np.arange(4, dtype=np.float32)), Operand.of(BOOL, np.array([1, 0, 0, 1], bool))
        source, y = Operand.of(F32, np.array([7, 8, 9], np.float32)), Operand.empty(F32, (4,))
        execute("MaskedScatter", [x, mask, source], [y], {})
        ref.check_equal(y.get(), [7, 1, 2, 8])
        ref.check_equal(x.get(), [0, 1, 2, 3])
        execute("MaskedScatter", [x, mask, source], [x], {}, updated=[x])
        ref.check_equal(x.get(), [7, 1, 2, 8])
        with self.assertRaisesRegex(AclError, r"y has shape \[2, 2\] and dtype FLOAT, expected \[4\] and FLOAT, as x"):
            execute("MaskedScatter", [x, mask, source], [Operand.empty(F32, (2, 2))], {})

    def test_wrong(self):
        x = np.ones((2, 3), LD)
        for words, name, inputs, attributes, want in (
                ("attribute value is missing, expected a float", "Muls", [x], {}, x),
                ("attribute value is a string, expected a float", "Muls", [x], {"value": "2"}, x),
                ("numInputs is 3, expected up to 2", "Equal", [x, x, x], {}, x > 0),
                ("x2 is missing, expected a tensor", "Equal", [x], {}, x > 0),
                (r"x2 has shape \[4\], expected one that broadcasts with x1", "Equal", [x, np.ones(4, LD)], {}, x > 0),
                ("y has dtype INT32, expected another", "Muls", [x.astype(np.int32)], {"value": 0.5},
                 x.astype(np.int32)),
                ("interpolation_mode is \"cubic\", expected one of bilinear", "GridSampler3D", [x, x],
                 {"interpolation_mode": "cubic"}, x),
                ("attribute begin_mask is 1, expected 0", "StridedSliceAssign",
                 [x, Host([0, 0]), Host([2, 3]), Host([1, 1]), x], {"begin_mask": 1}, x),
                ("the offset along dimension 1 is 1, expected 0 to 0", "Crop", [x, x], {"axis": 1, "offsets": [1]}, x),
                ("last element has number 6, expected less than the 6", "AsStrided",
                 [x, Host([2]), Host([5]), Host([1])], {}, np.ones(2, LD)),
                (r"stride\[0\] is -1", "AsStrided", [x, Host([2]), Host([-1]), Host([1])], {}, np.ones(2, LD)),
                ("x has shape .*, expected one that broadcasts to that of y", "Expand", [x], {}, np.ones((2, 4), LD)),
                ("batch_shape has 1 elements, expected none", "Eye", [], {"num_rows": 2, "batch_shape": [2]}, x),
                ("split_dim has 2 elements, expected 1", "SplitV", [x, Host([1, 1]), Host([0, 1])], {},
                 [x[:1], x[1:]]),
                ("concat_dim is missing, expected a list", "ConcatV2", [], {}, x),
        ):
            with self.subTest(name=name, words=words), self.assertRaisesRegex(AclError, words):
                self.call(F32, name, inputs, attributes, want)
