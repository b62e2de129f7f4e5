# SPDX-License-Identifier: Apache-2.0
"""Quantisation by given scales: the formulas, evaluated in float32 one operation after the other."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Tensor, refused, run
from dtypes import BF16, BOOL, F16, F32, F64, FLOATS, I32, I8, LD, U8
from gen import each_case

CASES = 60
INT4 = 29
ROUNDINGS = {"round": np.rint, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc}
f32 = np.float32


def saturated(v, d):
    """A float converted to the integer type with saturation; NaN becomes 0."""
    v = np.where(np.isnan(v), 0, v).astype(LD)
    return np.clip(v, d.min, d.max).astype(d.values)


def packed_int4(values, words):
    """An int4 tensor of these values, by elements or by words of eight. A byte holds two values, the low half first."""
    flat = np.asarray(values, np.int8).reshape(-1)
    raw = (flat[::2] & 15) | (flat[1::2] & 15) << 4
    shape = np.shape(values)
    if words:
        return Tensor(I32, (*shape[:-1], shape[-1] // 8)).set(
            raw.astype(np.uint8).view(np.int32).reshape(*shape[:-1], shape[-1] // 8))
    t = Tensor(I8, shape)
    t.block.body[:raw.size] = raw.astype(np.uint8)
    t.code = INT4
    return t


def unpacked_int4(t, shape):
    raw = t.block.body[:int(np.prod(shape)) // 2].view(np.uint8)
    both = np.stack([raw & 15, raw >> 4], -1).astype(np.int8)
    return np.where(both > 7, both - 16, both).reshape(shape)


def parameter(gen, d, n, rank, axis, draw):
    """A parameter in a random layout, of shape [n] or of as many dimensions as x; and its values along the axis."""
    values = d.round(draw(n)) if d.kind == "f" else draw(n).astype(d.values)
    spread = [1] * rank
    spread[axis] = n
    shape = spread if gen.chance(0.4) and rank > 1 else (n,)
    return gen.out(d, shape, values.reshape(shape)), values.reshape(spread).astype(f32)


class Quantise(unittest.TestCase):
    def scales(self, gen, n):
        return gen.rng.uniform(0.05, 3, n)

    def test_quantize(self):
        def body(gen):
            x_type = gen.pick(FLOATS)
            shape = gen.shape(min_rank=1)
            x = gen.drawn(x_type, shape, lambda s: gen.values(x_type, s))
            axis = gen.integer(0, len(shape) - 1)
            n = shape[axis] if gen.chance(0.6) else 1
            scales, s = parameter(gen, x_type, n, 1, 0, lambda k: self.scales(gen, k))
            zeros, z = (None, f32(0)) if gen.chance(0.3) else parameter(
                gen, gen.pick((I32, I8, U8, F32)), n, 1, 0, lambda k: gen.rng.integers(0, 20, k))
            spread = [n if i == axis else 1 for i in range(len(shape))]
            to = gen.pick((I8, U8, I32))
            out = gen.out(to, shape)
            run("aclnnQuantize", x, scales, zeros, to.code, axis - (len(shape) if gen.chance(0.5) else 0), out)
            exact = np.rint(x.get() / s.reshape(spread) + (z.reshape(spread) if zeros else z))
            ref.check_equal(out.get(), saturated(exact, to))
        each_case(self, "aclnnQuantize", 2 * CASES, body)

    def ascend_quant(self, gen, has_axis):
        x_type, how, to = gen.pick(FLOATS), gen.pick(list(ROUNDINGS)), gen.pick((I8, I8, "int4", "words"))
        shape = list(gen.shape(min_rank=1, max_rank=5))
        shape[-1] *= 1 if to is I8 else 2 if to == "int4" else 8
        axis = len(shape) - gen.integer(1, min(2, len(shape))) if has_axis else len(shape) - 1
        x = gen.drawn(x_type, shape, lambda s: gen.values(x_type, s))
        n = shape[axis] if gen.chance(0.6) else 1
        draw = gen.rng.bit_generator.state
        scale, s = parameter(gen, x_type, n, len(shape), axis, lambda k: self.scales(gen, k))
        gen.rng.bit_generator.state = draw
        offset, z = (None, f32(0)) if gen.chance(0.3) else parameter(gen, x_type, n, len(shape), axis,
                                                                  lambda k: gen.rng.uniform(-9, 9, k))
        if offset and offset.shape != scale.shape:
            offset, z = None, f32(0)
        sqrt = gen.chance(0.3)
        exact = x.get() * s * (s if sqrt else f32(1)) + z
        whole = ROUNDINGS[how](exact)
        y = gen.out(I8, shape) if to is I8 else packed_int4(np.zeros(shape), to == "words")
        name = "aclnnAscendQuantV3" if has_axis else "aclnnAscendQuant"
        code = 2 if to is I8 else 29 if to == "int4" else 3
        run(name, x, scale, offset, sqrt, how.encode(), code, *([axis] if has_axis else []), y)
        if to is I8:
            ref.check_equal(y.get(), saturated(whole, I8))
        else:
            ref.check_equal(unpacked_int4(y, shape), np.clip(saturated(whole, I8), -8, 7))

    def test_ascend_quant(self):
        each_case(self, "aclnnAscendQuant", 2 * CASES, lambda g: self.ascend_quant(g, False))
        each_case(self, "aclnnAscendQuantV3", 2 * CASES, lambda g: self.ascend_quant(g, True))

    def test_refused(self):
        x, s, y = Tensor.empty(F32, (2, 4)), Tensor.empty(F32, (4,)), Tensor.empty(I8, (2, 4))
        for name, args in (("scale has shape", (x, Tensor.empty(F32, (3,)), None, False, b"round", 2, y)),
                           ("roundMode", (x, s, None, False, b"up", 2, y)),
                           ("dstType", (x, s, None, False, b"round", 4, y)),
                           ("y has dtype", (x, s, None, False, b"round", 2, x)),
                           ("y has dtype INT32, expected a last",
                            (x, s, None, False, b"round", 3, Tensor.empty(I32, (2, 1)))),
                           ("offset", (x, s, Tensor.empty(F16, (4,)), False, b"round", 2, y))):
            with self.subTest(name):
                code, message = refused("aclnnAscendQuant", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)
        code, message = refused("aclnnQuantize", x, s, None, F32.code, 1, y)
        self.assertEqual(code, INVALID)
        self.assertIn("dtype is 0", message)
        for scales, zeros, words in (((), None, "scales has shape [], expected 1 dimension"),
                                     ((1, 4), None, "scales has shape [1, 4]"),
                                     ((4,), (1, 4), "zeroPoints has shape [1, 4], expected [4]")):
            code, message = refused("aclnnQuantize", x, Tensor.empty(F32, scales), zeros and Tensor.empty(I32, zeros),
                                    I8.code, 1, y)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)


class Dequantise(unittest.TestCase):
    def test_anti_quant(self):
        def body(gen):
            to, kind, s_type = gen.pick((F16, BF16)), gen.pick((I8, I8, "int4", "words")), gen.pick((F32, BF16))
            shape = list(gen.shape(min_rank=1, max_rank=5))
            shape[-1] *= 1 if kind is I8 else 2 if kind == "int4" else 8
            values = gen.rng.integers(-128 if kind is I8 else -8, 128 if kind is I8 else 8, shape)
            x = gen.out(I8, shape, values.astype(np.int8)) if kind is I8 else packed_int4(values, kind == "words")
            n = shape[-1] if gen.chance(0.6) else 1
            scale = gen.tensor(s_type, (n,), s_type.round(gen.rng.uniform(0.01, 2, n)))
            offset = gen.tensor(s_type, (n,), s_type.round(gen.rng.integers(-9, 9, n))) if gen.chance(0.6) else None
            sqrt, y = gen.chance(0.3), gen.out(to, shape)
            run("aclnnAscendAntiQuant", x, scale, offset, to.code, sqrt, y)
            s = scale.get().astype(f32)
            exact = (values.astype(f32) + (offset.get() if offset else f32(0))) * s * (s if sqrt else f32(1))
            ref.check_equal(y.get(), to.round(exact))
        each_case(self, "aclnnAscendAntiQuant", 2 * CASES, body)
        x, y = Tensor.empty(I8, (2, 4)), Tensor.empty(F16, (2, 4))
        for shape in ((2, 1), (2,), (1, 4), ()):
            code, message = refused("aclnnAscendAntiQuant", x, Tensor.empty(F32, shape), None, F16.code, False, y)
            self.assertEqual(code, INVALID)
            self.assertIn(f"scale has shape {list(shape)}, expected [1] or [4]", message)

    def test_dequant_bias(self):
        def body(gen):
            m, n, to = gen.integer(1, 30), gen.integer(1, 40), gen.pick((F16, BF16))
            x = gen.tensor(I32, (m, n), gen.rng.integers(-2 ** 31, 2 ** 31 - 1, (m, n)).astype(np.int32))
            weight = gen.drawn(gen.pick((F32, BF16)), (n,), lambda s: F16.round(gen.rng.uniform(1e-5, 1e-3, s)))
            weight.set(weight.dtype.round(weight.get()))
            rows = gen.tensor(F32, (m,), F32.round(gen.rng.uniform(0.1, 2, m))) if gen.chance(0.6) else None
            b_type = gen.pick((F32, BF16, F16, I32))
            bias = gen.drawn(b_type, (n,), lambda s: gen.values(b_type, s, limit=1000)) if gen.chance(0.7) else None
            out = gen.out(to, (m, n))
            run("aclnnDequantBias", x, weight, rows, bias, to.code, out)
            exact = x.get().astype(LD)
            b = bias.get().astype(LD) if bias else LD(0)
            if bias and b_type is I32:
                exact = exact + b
            exact = exact * weight.get().astype(LD) * (rows.get().astype(LD)[:, None] if rows else 1)
            size = np.abs(exact) + np.abs(b)
            if bias and b_type is not I32:
                exact = exact + b
            ref.check(out.get(), exact, to, F64, ulps=1, slack=4 * F64.ulp(size))
        each_case(self, "aclnnDequantBias", CASES, body)


class FakeQuant(unittest.TestCase):
    def test_fake_quant(self):
        def body(gen):
            per_channel, d = gen.chance(0.5), gen.pick((F32, F16))
            shape = gen.shape(min_rank=1)
            axis = gen.integer(0, len(shape) - 1)
            n = shape[axis] if per_channel else 1
            x = gen.drawn(d, shape, lambda s: np.where(gen.rng.random(s) < 0.05, d.values.type(np.nan),
                                                       gen.values(d, s, limit=100)))
            scale = gen.tensor(d, (n,), d.round(gen.rng.uniform(0.05, 3, n)))
            zero = gen.tensor(I32, (n,), gen.rng.integers(-5, 20, n).astype(np.int32))
            low, high, enabled = gen.pick(((0, 255), (-128, 127), (-8, 7))) + (gen.pick((1.0, 1.0, 0.0)),)
            out, mask = gen.out(d, shape), gen.out(BOOL, shape)
            name = "aclnnFakeQuantPer" + ("Channel" if per_channel else "Tensor") + "AffineCachemask"
            run(name, x, scale, zero, axis if per_channel else enabled, low, high, out, mask)
            if not per_channel and not enabled:
                ref.check_equal(out.get(), x.get())
                self.assertTrue(np.all(mask.get()))
                return
            spread = [n if i == axis and per_channel else 1 for i in range(len(shape))]
            s, z = (t.get().astype(f32).reshape(spread) for t in (scale, zero))
            q = np.nan_to_num(np.rint(x.get() / s)) + z                     # NaN counts as 0
            ref.check_equal(out.get(), d.round((np.where(np.isnan(x.get()), 0, np.clip(q, low, high)) - z) * s))
            ref.check_equal(mask.get(), (q >= low) & (q <= high))
        each_case(self, "aclnnFakeQuant", 3 * CASES, body)
        x, s, z = Tensor.empty(F32, (2, 4)), Tensor.empty(F32, (1,)), Tensor.empty(I32, (1,))
        code, message = refused("aclnnFakeQuantPerTensorAffineCachemask", x, s, z, 1.0, 5, 4, x,
                                Tensor.empty(BOOL, (2, 4)))
        self.assertEqual(code, INVALID)
        self.assertIn("quantMin is 5", message)


if __name__ == "__main__":
    unittest.main()
