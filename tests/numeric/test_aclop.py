# SPDX-License-Identifier: Apache-2.0
"""Operators called by name, with the formats that torch_npu passes: conversions of formats, convolutions, GEMMs,
reductions, norms, pooling and others."""
import itertools
import math
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import (COMPILE_FAILED, FRACTAL_Z, FRACTAL_Z_3D, HWCN, NC1HWC0, NCDHW, NCHW, ND, NDC1HWC0, NDHWC, NHWC, NZ,
                   Host, Missing, Operand, execute)
from dtypes import ALL, BOOL, F16, F32, F64, FLOATS, I8, I32, I64, LD, U16
from gen import SEED, each_case
from test_conv import Case, checked

CASES = 40


def random_of(gen, d, shape):
    return gen.values(d, shape, limit=4) if d.kind == "f" else gen.values(d, shape)


class Formats(unittest.TestCase):
    def there_and_back(self, gen, format, rank, origin):
        d = gen.pick(ALL)
        shape = tuple(gen.integer(1, 40) if i < 2 else gen.integer(1, 6) for i in range(rank))
        if format == NZ:
            shape = tuple(gen.integer(1, 40) if i >= rank - 2 else gen.integer(1, 3) for i in range(rank))
        x = Operand.of(d, random_of(gen, d, shape), origin)
        x.origin = origin
        blocked, back = Operand.empty(d, shape, format, origin), Operand.empty(d, shape, origin)
        execute("Identity", [x], [blocked], {})
        ref.check_equal(blocked.get(), x.get(), "blocked")
        self.assertFalse(blocked.padding().any(), "padding is not zero")
        execute("TransData", [blocked], [back], {"groups": 1})
        ref.check_equal(back.get(), x.get(), "back")

    def test_round_trips(self):
        cases = [
            *((NC1HWC0, rank, NCHW) for rank in (1, 2, 3, 4)),
            *((FRACTAL_Z, rank, NCHW) for rank in (2, 4)),
            *((NZ, rank, ND) for rank in range(7)),
            (NDC1HWC0, 5, NCDHW), (FRACTAL_Z_3D, 5, NCDHW), (NZ, 4, NCHW)]
        for format, rank, origin in cases:
            each_case(self, f"format {format} of {rank} dims", CASES // 4,
                      lambda g, f=format, r=rank, o=origin: self.there_and_back(g, f, r, o))

    def test_between_blocked(self):
        values = np.random.default_rng(1).standard_normal((33, 20, 3, 5)).astype(np.float32)
        x, y = Operand.of(F32, values, NC1HWC0), Operand.empty(F32, values.shape, FRACTAL_Z)
        execute("Identity", [x], [y], {})
        ref.check_equal(y.get(), values)

    def test_order_of_axes(self):
        """NCHW, NHWC and HWCN describe the same tensor in another order of axes, blocked or not."""
        values = np.random.default_rng(2).standard_normal((5, 18, 3, 4)).astype(np.float16).astype(np.float32)
        order = {NCHW: (0, 1, 2, 3), NHWC: (0, 2, 3, 1), HWCN: (2, 3, 1, 0)}
        for a, b in itertools.product(order, order):
            x = Operand.of(F16, values.transpose(order[a]), a)
            y = Operand.empty(F16, [values.shape[i] for i in order[b]], b)
            execute("TransData", [x], [y], {"src_format": {NCHW: "NCHW", NHWC: "NHWC", HWCN: "HWCN"}[a]})
            ref.check_equal(y.get(), values.transpose(order[b]), f"{a} to {b}")
        x, y = Operand.of(F16, values, FRACTAL_Z), Operand.empty(F16, (3, 4, 18, 5), HWCN)
        execute("TransData", [x], [y], {})
        ref.check_equal(y.get(), values.transpose(order[HWCN]))
        wide, y = np.zeros((2, 17, 2, 3, 4), np.float32), Operand.empty(F32, (2, 2, 3, 4, 17), NDHWC)
        wide[...] = np.arange(wide.size).reshape(wide.shape)
        execute("TransData", [Operand.of(F32, wide, NDC1HWC0)], [y], {})
        ref.check_equal(y.get(), wide.transpose(0, 2, 3, 4, 1))

    def test_plain_copies(self):
        """Conversions between base formats copy the bytes unchanged, whatever the axes are called."""
        values = np.arange(24, dtype=np.float32)
        x, y = Operand.of(F32, values.reshape(2, 12), ND), Operand.empty(F32, (1, 2, 3, 4), NCHW)
        execute("Identity", [x], [y], {})
        ref.check_equal(y.get().reshape(-1), values)
        empty = Operand.empty(F32, (0, 3), ND)
        execute("Identity", [empty], [Operand.empty(F32, (0, 3), ND)], {})

    def test_description_in_blocks(self):
        """A description that was made in a blocked format and has no original format: the other operand's gives it."""
        values = np.random.default_rng(3).standard_normal((2, 20, 3, 4)).astype(np.float32)
        x, y = Operand.of(F32, values, NC1HWC0), Operand.empty(F32, values.shape, NCHW)
        x.shape, x.origin = x.places.shape, NC1HWC0
        execute("TransData", [x], [y], {"src_format": "NC1HWC0", "dst_format": "NCHW"})
        ref.check_equal(y.get(), values)

    def refused(self, words, name, inputs, outputs, attributes):
        with self.assertRaises(AclError) as caught:
            execute(name, inputs, outputs, attributes)
        self.assertEqual(caught.exception.code, COMPILE_FAILED)
        self.assertIn(words, caught.exception.message)

    def test_errors(self):
        x = Operand.of(F32, np.ones((2, 20, 3, 4), np.float32), NCHW)
        y = Operand.empty(F32, (2, 20, 3, 4), NC1HWC0)
        self.refused("there is no operator Nothing", "Nothing", [x], [y], {})
        self.refused("dst has dtype FLOAT16, expected that of src, FLOAT",
                     "TransData", [x], [Operand.empty(F16, x.shape, NCHW)], {})
        self.refused("dst has shape [2, 19, 3, 4]", "TransData", [x], [Operand.empty(F32, (2, 19, 3, 4), NC1HWC0)], {})
        self.refused("src_format is \"NHWC\", expected the operand's, NCHW",
                     "TransData", [x], [y], {"src_format": "NHWC"})
        self.refused("groups is 2, expected 1", "TransData", [x], [y], {"groups": 2})
        self.refused("attribute groups is a string, expected an integer", "TransData", [x], [y], {"groups": "2"})
        self.refused("dst is missing", "TransData", [x], [], {})
        self.refused("numInputs is 2, expected up to 1", "TransData", [x, x], [y], {})
        self.refused("src lies in host memory", "TransData", [Host([1, 2])], [y], {})
        self.refused("y lies in host memory", "Relu", [Host([1, 2])], [Host([1, 2])], {})
        wrong = Operand.empty(F32, (2, 20, 3, 4), NC1HWC0)
        wrong.places = wrong.places[:, :1]
        self.refused("has storage dims [2, 1, 3, 4, 16] in format NC1HWC0, expected 768 elements",
                     "TransData", [x], [wrong], {})


class Others(unittest.TestCase):
    """Operators that do the same as an aclnn operator of another name."""

    def test_elementwise(self):
        functions = {
            "Abs": np.abs, "Neg": np.negative, "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Rsqrt": ref.rsqrt,
            "Reciprocal": lambda x: 1 / x, "Relu": ref.relu, "Sigmoid": ref.sigmoid, "Tanh": np.tanh,
            "Square": np.square, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "RealDiv": np.divide,
            "Maximum": np.maximum, "Minimum": np.minimum}

        def body(gen, name):
            f, d = functions[name], gen.pick(FLOATS)
            shape = tuple(gen.integer(1, 20) for _ in range(gen.integer(2, 4)))
            n, format = getattr(f, "nin", 1), gen.pick((ND, NZ))
            xs = [Operand.of(d, np.abs(gen.values(d, shape, limit=4)) + d.values.type(0.5), format) for _ in range(n)]
            y = Operand.empty(d, shape, format)
            execute(name, xs, [y], {})
            with np.errstate(all="ignore"):
                ref.check(y.get(), f(*(x.get().astype(LD) for x in xs)), d, ulps=4)
        for name in functions:
            each_case(self, name, 6, lambda g, n=name: body(g, n))

    def test_of_a_provider(self):
        """What onnxruntime's provider asks for besides the above."""
        functions = {"Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sin": np.sin, "Cos": np.cos,
                     "Erf": np.vectorize(math.erf, otypes=[float]), "Div": np.divide}

        def body(gen, name):
            f, d = functions[name], gen.pick(FLOATS)
            shape = tuple(gen.integer(1, 20) for _ in range(gen.integer(1, 4)))
            xs = [Operand.of(d, gen.values(d, shape, limit=4) + d.values.type(0.75)) for _ in
                  range(getattr(f, "nin", 1))]
            y = Operand.empty(d, shape)
            execute(name, xs, [y], {"unknown": 1, "axis": (1, 2)})      # attributes that no operator has are ignored
            with np.errstate(all="ignore"):
                ref.check(y.get(), f(*(x.get().astype(LD) for x in xs)), d, ulps=4)
        for name in functions:
            each_case(self, name, 6, lambda g, n=name: body(g, n))
        a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 5])
        for d in (I32, I64):
            y = Operand.empty(d, a.shape)
            execute("Div", [Operand.of(d, a), Operand.of(d, b)], [y], {})
            ref.check_equal(y.get(), [3, -3, -3, 3, 0])

    def test_uint16(self):
        """Sums, differences and products wrap around, quotients are truncated."""
        a, b = np.random.default_rng(SEED).integers(0, 1 << 16, (2, 3, 50))
        a[:, 0], b[:, 0], b[:, 1] = 65535, 65535, 1
        b[b == 0] = 7
        for name, exact in (("Add", a + b), ("Sub", a - b), ("Mul", a * b), ("Div", a // b)):
            y = Operand.empty(U16, a.shape)
            execute(name, [Operand.of(U16, a), Operand.of(U16, b)], [y], {})
            ref.check_equal(y.get(), exact % (1 << 16), name)
            with self.assertRaisesRegex(AclError, "x2 has dtype INT32, expected one of UINT16"):
                execute(name, [Operand.of(U16, a), Operand.of(I32, b)], [y], {})
            with self.assertRaisesRegex(AclError, "x1 has dtype UINT16, expected"):
                execute(name, [Operand.of(U16, a), Operand.of(I32, b)], [Operand.empty(I32, a.shape)], {})

    def test_exponentials(self):
        x = np.random.default_rng(3).uniform(0.5, 3, (3, 20)).astype(np.float32)
        wide = x.astype(LD)
        for name, attributes, exact in (
                ("Exp", {"base": -1.0, "scale": 1.0, "shift": 0.0}, np.exp(wide)),
                ("Exp", {"base": 2.0, "scale": 0.5, "shift": -1.0}, LD(2) ** (wide / 2 - 1)),
                ("Exp", {"scale": 2.0}, np.exp(2 * wide)),
                ("Log", {"base": -1.0, "scale": 1.0, "shift": 0.0}, np.log(wide)),
                ("Log", {"base": 10.0}, np.log10(wide)),
                ("Log", {"scale": 2.0, "shift": 1.0}, np.log(2 * wide + 1))):
            y = Operand.empty(F32, x.shape)
            execute(name, [Operand.of(F32, x)], [y], attributes)
            ref.check(y.get(), exact, F32, ulps=16)
        for base in (0.0, 1.0, -2.0):
            with self.assertRaisesRegex(AclError, "base is .*, expected -1"):
                execute("Log", [Operand.of(F32, x)], [Operand.empty(F32, x.shape)], {"base": base})

    def test_gradients(self):
        gen = np.random.default_rng(9)
        a, b = (gen.standard_normal((3, 20)).astype(np.float32) for _ in range(2))
        for name, attributes, exact in (
                ("ReluGrad", {}, np.where(b > 0, a, 0)),
                ("SigmoidGrad", {}, b * (a * (1 - a.astype(LD)))),
                ("TanhGrad", {}, b * (1 - a.astype(LD) ** 2)),
                ("LeakyReluGrad", {"negative_slope": 0.25}, np.where(b > 0, a, a * 0.25))):
            y = Operand.empty(F32, a.shape, NZ)
            execute(name, [Operand.of(F32, a, NZ), Operand.of(F32, b, NZ)], [y], attributes)
            ref.check(y.get(), exact, F32)
        y = Operand.empty(F32, a.shape)
        execute("LeakyRelu", [Operand.of(F32, a)], [y], {"negative_slope": 0.25})
        ref.check(y.get(), np.where(a > 0, a, a * 0.25), F32)

    def test_dropout(self):
        """As onnxruntime's provider calls it: the seed and its successor are one tensor, p is an integer."""
        values = np.random.default_rng(8).uniform(1, 2, (50, 400)).astype(np.float32)
        for d, p, mask_type in ((F32, 0.25, BOOL), (F16, 0.75, F32), (F32, 0, BOOL), (F32, 1, BOOL)):
            x, seed = Operand.of(d, values), Operand.of(F32, np.float32([7]))
            y, mask = (Operand.empty(t, values.shape) for t in (d, mask_type))
            new = Operand.empty(F32, (1,))
            execute("DropoutV2", [x, seed], [y, mask, new], {"p": p})
            kept = mask.get().astype(bool)
            self.assertAlmostEqual(kept.mean(), 1 - p, delta=0.02)
            ref.check(y.get(), np.where(kept, x.get() / LD(1 - p or 1), 0), d)
            ref.check_equal(new.get(), [8])

    def test_numbers_of_the_host(self):
        x, y = Operand.of(I64, np.arange(12).reshape(3, 4)), Operand.empty(I64, (3, 4))
        execute("Mul", [x, Host(5)], [y], {})
        ref.check_equal(y.get(), np.arange(12).reshape(3, 4) * 5)

    def test_shifts(self):
        x, y = np.arange(-20, 20).reshape(2, 20), np.arange(40).reshape(2, 20) % 7
        for name, f in (("LeftShift", np.left_shift), ("RightShift", np.right_shift)):
            z = Operand.empty(I64, x.shape)
            execute(name, [Operand.of(I64, x), Operand.of(I64, y)], [z], {})
            ref.check_equal(z.get(), f(x, y))

    def test_fill(self):
        for shape, dims, format in (((3, 20), [3, 20], NZ), ((), [1], ND), ((2, 0), [2, 0], ND)):
            y = Operand.empty(I64, shape, format)
            execute("Fill", [Host(dims), Host(7)], [y], {})
            ref.check_equal(y.get(), np.full(shape, 7))
        with self.assertRaisesRegex(AclError, "dims has 6 elements, expected those of y, 4"):
            execute("Fill", [Host([2, 3]), Host(7)], [Operand.empty(I64, (4,))], {})

    def test_pad(self):
        def body(gen):
            d, shape = gen.pick(FLOATS + (I64,)), tuple(gen.integer(1, 20) for _ in range(gen.integer(1, 4)))
            pads = [(gen.integer(0, 3), gen.integer(0, 3)) for _ in shape]
            x, value = Operand.of(d, gen.values(d, shape)), Operand.of(d, gen.values(d, (1,)))
            y = Operand.empty(d, [n + sum(p) for n, p in zip(shape, pads)])
            side_by_side, given = gen.chance(0.5), gen.chance(0.7)
            numbers = [n for p in (pads if side_by_side else zip(*pads)) for n in p]
            execute("PadV3", [x, Host(numbers)] + ([value] if given else []), [y],
                    {"mode": "constant", **({} if side_by_side else {"paddings_contiguous": False})})
            ref.check_equal(y.get(), np.pad(x.get(), pads, constant_values=value.get()[0] if given else 0))
        each_case(self, "PadV3", 40, body)
        x, y = Operand.of(I64, np.arange(3)), Operand.empty(I64, (5,))
        with self.assertRaisesRegex(AclError, "mode is \"symmetric\""):
            execute("PadV3", [x, Host([1, 1])], [y], {"mode": "symmetric"})
        with self.assertRaisesRegex(AclError, "paddings has 3 elements, expected 2"):
            execute("PadV3", [x, Host([1, 1, 0])], [y], {})

    def test_moves(self):
        values = np.random.default_rng(5).standard_normal((3, 20, 18)).astype(np.float32)
        x = Operand.of(F32, values, NZ)
        y = Operand.empty(F32, (20, 3, 18), NZ)
        execute("Transpose", [x, Host([1, 0, 2])], [y], {})
        ref.check_equal(y.get(), values.transpose(1, 0, 2))
        y = Operand.empty(F32, values.shape, NZ)
        execute("ReverseV2", [x, Host([0, 2])], [y], {})
        ref.check_equal(y.get(), values[::-1, :, ::-1])
        y, one = Operand.empty(F32, (3, 25, 18), NZ), np.ones((3, 5, 18), np.float32)
        execute("ConcatD", [x, Operand.of(F32, one)], [y], {"concat_dim": 1, "N": 2})
        ref.check_equal(y.get(), np.concatenate([values, one], 1))
        with self.assertRaisesRegex(AclError, r"ConcatD: x\[1\] is missing"):
            execute("ConcatD", [x, Missing()], [y], {"concat_dim": 1})
        y = Operand.empty(F32, (20, 9))
        execute("StridedSlice", [x, Host([1, 0, 0]), Host([2, 20, 18]), Host([1, 1, 2])], [y], {"shrink_axis_mask": 1})
        ref.check_equal(y.get(), values[1, :, ::2])
        y = Operand.empty(F32, (2, 3, 20, 18))
        execute("BroadcastTo", [Operand.of(F32, values[:, :1]), Host([2, 3, 20, 18])], [y], {})
        ref.check_equal(y.get(), np.broadcast_to(values[:, :1], y.shape))
        y = Operand.empty(F32, (2, 3, 20, 18))
        execute("BroadcastToD", [Operand.of(F32, values[:, :1])], [y], {"shape": (2, 3, 20, 18)})
        ref.check_equal(y.get(), np.broadcast_to(values[:, :1], y.shape))
        y = Operand.empty(F32, (18, 3, 20))
        execute("TransposeD", [Operand.of(F32, values)], [y], {"perm": (2, 0, 1)})
        ref.check_equal(y.get(), values.transpose(2, 0, 1))
        y = Operand.empty(F32, (3, 360))
        execute("Flatten", [Operand.of(F32, values)], [y], {"axis": 1})
        ref.check_equal(y.get(), values.reshape(3, 360))
        y = Operand.empty(F32, (1, 15, 7))
        execute("Slice", [x, Host([1, 5, 3]), Host([1, -1, 7])], [y], {})
        ref.check_equal(y.get(), values[1:2, 5:, 3:10])
        with self.assertRaisesRegex(AclError, r"size\[1\] is 16, expected -1 to 15"):
            execute("Slice", [x, Host([1, 5, 3]), Host([1, 16, 7])], [y], {})
        y = Operand.empty(F16, values.shape, NZ)
        execute("Cast", [x], [y], {"dst_type": F16.code})
        ref.check_equal(y.get(), F16.round(values))


class Sums(unittest.TestCase):
    def test_sums(self):
        def body(gen):
            d, kind = gen.pick((F32, F16)), gen.pick((np.int32, np.int64))
            shape = tuple(gen.integer(1, 20) for _ in range(gen.integer(1, 4)))
            format = gen.pick((ND, NZ)) if len(shape) > 1 else ND
            axes = [i - (len(shape) if gen.chance(0.3) else 0) for i in range(len(shape)) if gen.chance(0.5)] or [0]
            keep = gen.chance(0.5)
            x = Operand.of(d, gen.values(d, shape, limit=4), format)
            exact = x.get().astype(LD).sum(tuple(axes), keepdims=keep)
            out = Operand.empty(d, exact.shape)
            execute("ReduceSum", [x, Host(axes, kind)], [out], {"keep_dims": keep})
            size = np.abs(x.get()).astype(LD).sum(tuple(axes), keepdims=keep)
            ref.check(out.get(), exact, d, slack=size * 40 * 2.0 ** -24)
        each_case(self, "ReduceSum", CASES, body)

    def test_others(self):
        functions = {"Mean": np.mean, "Prod": np.prod, "Max": np.max, "Min": np.min, "All": np.all, "Any": np.any}

        def body(gen, name):
            d = BOOL if name in ("All", "Any") else gen.pick((F32, F16))
            shape = tuple(gen.integer(1, 9) for _ in range(gen.integer(2, 4)))
            axes, keep = [i for i in range(len(shape)) if gen.chance(0.4)] or [0], gen.chance(0.5)
            values = gen.values(d, shape) if d is BOOL else gen.values(d, shape, limit=1)
            x = Operand.of(d, values, gen.pick((ND, NZ)))
            exact = x.get() if d is BOOL else x.get().astype(LD)

            def reduced(v):
                return functions[name](v, axis=tuple(axes), keepdims=keep)

            out = Operand.empty(d, reduced(exact).shape)
            execute("Reduce" + name, [x, Host(axes)], [out], {"keep_dims": keep})
            if d is BOOL:
                ref.check_equal(out.get(), reduced(exact))
            else:
                ref.check(out.get(), reduced(exact), d, slack=reduced(np.abs(exact)) * 1e-4)
        for name in functions:
            each_case(self, "Reduce" + name, 8, lambda g, n=name: body(g, n))
        x = Operand.of(F32, np.arange(6).reshape(2, 3))
        for name in ("Sum", "Mean", "Prod", "Max", "Min"):
            expected = functions.get(name, np.sum)(x.get())
            for attributes, result in (
                    ({}, x.get()),
                    ({"noop_with_empty_axes": True}, x.get()),
                    ({"noop_with_empty_axes": False}, expected)):
                out = Operand.empty(F32, result.shape)
                execute("Reduce" + name, [x, Host([])], [out], attributes)
                ref.check_equal(out.get(), result)

    def test_gradient_of_a_bias(self):
        """The sum that gives a convolution's gradient of the bias, on a tensor in NC1HWC0."""
        values = F16.round(np.random.default_rng(4).standard_normal((3, 20, 5, 7)))
        out = Operand.empty(F16, (20,), NCHW)
        execute("ReduceSum", [Operand.of(F16, values, NC1HWC0), Host([0, 2, 3])], [out], {"keep_dims": False})
        ref.check(out.get(), values.astype(LD).sum((0, 2, 3)), F16, slack=1e-4)

    def test_errors(self):
        x, out = Operand.of(F32, np.ones((2, 3), np.float32)), Operand.empty(F32, (2,))
        for axes, words in (
                (Host([2]), "axes is 2, expected -2 to 1"),
                (Host([1, 1]), "axes has 1 twice"),
                (Missing(), "axes is missing"),
                (x, "axes has dtype FLOAT, expected INT32 or INT64"),
                (Host([0]), "has shape [2], expected [3]")):
            with self.assertRaises(AclError) as caught:
                execute("ReduceSum", [x, axes], [out], {"keep_dims": False})
            self.assertIn(words, caught.exception.message)


class Convolutions(unittest.TestCase):
    """Conv2D and Conv3D and their gradients, with the arguments that op-plugin passes."""

    def setting(self, gen, n):
        c = Case(gen, n)
        if gen.chance(0.3):
            c.pad_unevenly(gen)
        data = gen.pick(((NCHW, NC1HWC0), (NCDHW, NDC1HWC0))[n - 2])
        weight = gen.pick(((NCHW, FRACTAL_Z), (NCDHW, FRACTAL_Z_3D))[n - 2])
        a = {"strides": (1, 1, *c.g.stride), "pads": c.pads(), "dilations": (1, 1, *c.g.dilation),
             "groups": c.groups, "data_format": ("NCHW", "NCDHW")[n - 2]}
        return c, data, weight, a

    def forward(self, gen, n):
        c, data, weight, a = self.setting(gen, n)
        d = gen.pick(FLOATS)
        x = Operand.of(d, gen.values(d, c.x, limit=4), data)
        w = Operand.of(d, gen.values(d, c.weight, limit=4), weight)
        bias = Operand.of(d, gen.values(d, c.y[1:2], limit=4)) if gen.chance(0.5) else None
        y = Operand.empty(d, c.y, data)
        execute(f"Conv{n}D", [x, w] + ([bias] if bias else []), [y], a)
        add = bias.get().astype(np.float64).reshape(-1, *[1] * n) if bias else 0.0
        checked(y.get(), c.forward, (x.get(), w.get()), d, int(np.prod(c.weight[1:])), "y", add)
        self.assertFalse(y.padding().any(), "padding is not zero")

    def of_input(self, gen, n, name):
        c, data, weight, a = self.setting(gen, n)
        d = gen.pick(FLOATS)
        grad = Operand.of(d, gen.values(d, c.y, limit=4), data)
        w = Operand.of(d, gen.values(d, c.weight, limit=4), weight)
        y, size = Operand.empty(d, c.x, data), Host(c.x, np.int32)
        if name == "Transpose":
            a["output_padding"] = (0, 0, *c.more)
        execute(f"Conv{n}D{name}", [size, grad, w] if name == "Transpose" else [size, w, grad], [y], a)
        checked(y.get(), c.of_input, (grad.get(), w.get()), d, int(np.prod(c.weight)), "y")

    def of_filter(self, gen, n):
        c, data, weight, a = self.setting(gen, n)
        d = gen.pick(FLOATS)
        x, grad = Operand.of(d, gen.values(d, c.x, limit=4), data), Operand.of(d, gen.values(d, c.y, limit=4), data)
        y = Operand.empty(F32, c.weight, weight)
        execute(f"Conv{n}DBackpropFilter", [x, Host(c.weight, np.int32), grad], [y], a)
        checked(y.get(), c.of_weight, (x.get(), grad.get()), F32, c.batch * int(np.prod(c.g.out)), "y")

    def test_passes(self):
        for n in (2, 3):
            for name, body in (
                    ("forward", self.forward),
                    ("filter", self.of_filter),
                    ("input", lambda g, k: self.of_input(g, k, "BackpropInput")),
                    ("transpose", lambda g, k: self.of_input(g, k, "Transpose"))):
                each_case(self, f"Conv{n}D {name}", CASES // 2, lambda g, b=body, k=n: b(g, k))

    def test_channels_last(self):
        rng = np.random.default_rng(7)
        x = rng.standard_normal((2, 3, 6, 5)).astype(np.float32)
        w = rng.standard_normal((4, 3, 3, 2)).astype(np.float32)
        y = Operand.empty(F32, (2, 2, 4, 4), NHWC)
        operands = [Operand.of(F32, x.transpose(0, 2, 3, 1), NHWC), Operand.of(F32, w.transpose(2, 3, 1, 0), HWCN)]
        execute("Conv2D", operands, [y], {"strides": (1, 2, 1, 1), "pads": (0, 0, 0, 0)})
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(LD), (3, 2), (2, 3))[:, :, ::2]
        ref.check(y.get(), np.einsum("nchwij,ocij->nhwo", windows, w.astype(LD)), F32, slack=1e-5)

    def test_of_a_provider(self):
        """Convolutions of onnxruntime's provider: attributes that Conv2D does not have, no groups, no data_format."""
        def body(gen):
            c, d = Case(gen, 2), gen.pick((F32, F16))
            x, w = (Operand.of(d, gen.values(d, s, limit=4), NCHW) for s in (c.x, c.weight))
            bias, y = Missing(), Operand.empty(d, c.y, NCHW)
            a = {"strides": (1, 1, *c.g.stride), "pads": c.pads(), "dilations": (1, 1, *c.g.dilation),
                 "group": c.groups, "auto_pad": "NOTSET", "dim_size": 4, "trans_2d": True}
            execute("Conv2D", [x, w, bias], [y], a)
            checked(y.get(), c.forward, (x.get(), w.get()), d, int(np.prod(c.weight[1:])), "y", 0.0)
        each_case(self, "Conv2D", CASES // 2, body)

    def test_errors(self):
        x = Operand.of(F32, np.ones((1, 2, 5, 5), np.float32), NCHW)
        w = Operand.of(F32, np.ones((3, 2, 3, 3), np.float32), NCHW)
        y = Operand.empty(F32, (1, 3, 3, 3), NCHW)
        a = {"strides": (1, 1, 1, 1), "pads": (0, 0, 0, 0), "data_format": "NCHW"}
        for change, words in (
                ({"strides": (2, 1, 1, 1)}, "strides has 2 for axis N, expected 1"),
                ({"strides": (1, 1)}, "strides has 2 elements, expected 4"),
                ({"pads": (1, 0)}, "pads has 2 elements, expected 4"),
                ({"data_format": "NHWC"}, "x has format NCHW, expected that of data_format, NHWC"),
                ({"data_format": "ABCD"}, "data_format is \"ABCD\""),
                ({"offset_x": 1}, "offset_x is 1, expected 0"),
                ({"groups": 2}, "expected a multiple of 2 groups"),
                ({"groups": -1}, "groups is -1")):
            with self.assertRaises(AclError) as caught:
                execute("Conv2D", [x, w], [y], {**a, **change})
            self.assertEqual(caught.exception.code, COMPILE_FAILED)
            self.assertIn(words, caught.exception.message)
        with self.assertRaisesRegex(AclError, "filter has dtype INT8|weight has dtype INT8"):
            execute("Conv2D", [x, Operand.empty(I8, (3, 2, 3, 3), NCHW)], [y], a)
        with self.assertRaisesRegex(AclError, "attribute pads is missing"):
            execute("Conv2D", [x, w], [y], {"strides": (1, 1, 1, 1)})
        with self.assertRaisesRegex(AclError, r"input_size is \[1, 2, 5, 4\], expected the shape of y"):
            execute("Conv2DBackpropInput", [Host([1, 2, 5, 4]), w, y], [x], a)


class Products(unittest.TestCase):
    def product(self, gen, name):
        d, is_batch = gen.pick(FLOATS), not name.startswith("MatMul")
        flags = ("adj_x1", "adj_x2") if is_batch else ("transpose_x1", "transpose_x2")
        batch = tuple(gen.integer(1, 3) for _ in range(gen.integer(0, 2))) if is_batch else ()
        m, k, n = (gen.integer(1, 40) for _ in range(3))
        transposed = [gen.chance(0.5), gen.chance(0.5)]
        values = [gen.values(d, batch + (s[::-1] if t else s), limit=4) for s, t in zip(((m, k), (k, n)), transposed)]
        x = [Operand.of(d, v, gen.pick((ND, NZ))) for v in values]
        bias = Operand.of(d, gen.values(d, (n,), limit=4)) if name != "BatchMatMul" and gen.chance(0.5) else None
        y = Operand.empty(d, batch + (m, n), gen.pick((ND, NZ)))
        execute(name, x + ([bias] if bias else []), [y], dict(zip(flags, transposed)))
        exact = [o.get().astype(LD) for o in x]
        a, b = (v.swapaxes(-1, -2) if t else v for v, t in zip(exact, transposed))
        add = bias.get().astype(LD) if bias else LD(0)
        ref.check(y.get(), a @ b + add, d, slack=(np.abs(a) @ np.abs(b) + np.abs(add)) * (k + 1) * 2.0 ** -23)
        self.assertFalse(y.padding().any(), "padding is not zero")

    def test_products(self):
        for name in ("MatMul", "MatMulV2", "BatchMatMul", "BatchMatMulV2"):
            each_case(self, name, CASES // 2, lambda g, n=name: self.product(g, n))

    def gemm(self, gen):
        d, (m, k, n) = gen.pick(FLOATS), (gen.integer(1, 40) for _ in range(3))
        transposed = [gen.chance(0.5), gen.chance(0.5)]
        values = [gen.values(d, s[::-1] if t else s, limit=4) for s, t in zip(((m, k), (k, n)), transposed)]
        c = Operand.of(d, gen.values(d, gen.pick(((m, n), (n,), (1, n), (m, 1), (1,))), limit=4))
        numbers = [gen.pick((0.0, 1.0, 0.5, -2.0)) for _ in range(2)]
        x, y = [Operand.of(d, v) for v in values], Operand.empty(d, (m, n))
        execute("GEMM", [*x, c, *(Operand.of(F32, np.float32([v])) for v in numbers)], [y],
                dict(zip(("transpose_a", "transpose_b"), transposed)))
        a, b = (o.get().astype(LD).T if t else o.get().astype(LD) for o, t in zip(x, transposed))
        exact, add = numbers[0] * (a @ b), numbers[1] * c.get().astype(LD)
        ref.check(y.get(), exact + add, d, slack=(np.abs(a) @ np.abs(b) * 2 + np.abs(add)) * (k + 2) * 2.0 ** -23)

    def test_gemm(self):
        each_case(self, "GEMM", CASES // 2, self.gemm)

    def test_integers(self):
        rng = np.random.default_rng(6)
        for shapes in (((3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((2, 0), (0, 3))):
            a, b = (rng.integers(-2 ** 31, 2 ** 31, s) for s in shapes)
            exact = (a @ b).astype(np.int32)
            y = Operand.empty(I32, exact.shape)
            execute("BatchMatMul", [Operand.of(I32, a), Operand.of(I32, b)], [y], {"adj_x1": False, "adj_x2": False})
            ref.check_equal(y.get(), exact)

    def test_with_a_vector(self):
        """A matrix times a column: the result has only one dimension, as op-plugin's mv describes it."""
        x, v = Operand.of(F32, np.arange(6).reshape(2, 3)), Operand.of(F32, np.ones((3, 1)))
        y = Operand.empty(F32, (2,))
        execute("MatMul", [x, v], [y], {"transpose_x1": False, "transpose_x2": False})
        ref.check_equal(y.get(), np.float32([3, 12]))

    def test_errors(self):
        x, y, out = Operand.of(F32, np.ones((2, 3))), Operand.of(F32, np.ones((2, 4))), Operand.empty(F32, (3, 4))
        for name, operands, change, words in (
                ("MatMul", [x, y], {}, "x1 has shape [2, 3] and x2 [2, 4], expected as many columns"),
                ("MatMul", [x, y, x], {"transpose_x1": True},
                 "bias has shape [2, 3], expected one that broadcasts to [3, 4]"),
                ("BatchMatMul", [x, y], {"adj_x1": True, "adj_x2": True}, "transposed as asked"),
                ("MatMulV2", [x, y, Missing(), x], {"transpose_x1": True}, "offset_w is there, expected none"),
                ("MatMulV2", [x, y], {"transpose_x1": True, "offset_x": 3}, "offset_x is 3, expected 0"),
                ("MatMul", [Operand.empty(F32, (3,)), y], {}, "x1 has shape [3], expected 2 or more dimensions"),
                ("MatMul", [Operand.empty(I8, (3, 2)), y], {}, "x1 has dtype INT8")):
            with self.assertRaises(AclError) as caught:
                execute(name, operands, [out], change)
            self.assertIn(words, caught.exception.message)
        with self.assertRaisesRegex(AclError, r"y has shape \[2, 3\], expected \[3, 4\]"):
            execute("MatMul", [x, y], [x], {"transpose_x1": True})


class BatchNorms(unittest.TestCase):
    """The operators that are the steps of a batch norm, each compared with its part of the definition."""
    EPS = 1e-3

    def case(self, gen, axes):
        d = gen.pick((F32, F16))
        shape = (gen.integer(1, 4), gen.integer(1, 40), *(gen.integer(1, 7) for _ in range(axes)))
        blocks, plain = ((NC1HWC0, NCHW), (NDC1HWC0, NCDHW))[axes - 2]
        format = gen.pick((blocks, plain))
        of_channels = NC1HWC0 if format == NC1HWC0 else ND
        channels = lambda values: Operand.of(F32, values, of_channels)
        return d, shape, format, of_channels, channels, (0, *range(2, 2 + axes))

    def wide(self, v, axes):
        return np.asarray(v, LD).reshape(-1, *[1] * axes)

    def forward(self, gen, axes):
        d, shape, format, kind, channels, over = self.case(gen, axes)
        name, c, n = "BN" if axes == 2 else "BN3D", shape[1], int(np.prod(shape)) // shape[1]
        x = Operand.of(d, gen.values(d, shape, limit=4), format)
        scale, offset, mean, variance = (channels(gen.values(F32, (c,), limit=2)) for _ in range(4))
        sums = [Operand.empty(F32, (c,), kind) for _ in range(2)]
        execute(name + "TrainingReduce", [x], sums, {"epsilon": self.EPS})
        exact = x.get().astype(LD)
        ref.check(sums[0].get(), exact.sum(over), F32, slack=np.abs(exact).sum(over) * 2.0 ** -19)
        ref.check(sums[1].get(), (exact ** 2).sum(over), F32, slack=(exact ** 2).sum(over) * 2.0 ** -19)
        y, outs = Operand.empty(d, shape, format), [Operand.empty(F32, (c,), kind) for _ in range(4)]
        execute(name + "TrainingUpdate", [x, *sums, scale, offset, mean, variance], [y, *outs],
                {"epsilon": self.EPS, "factor": 0.25})
        m, v = exact.mean(over), exact.var(over)
        error = 4e-6 * (exact ** 2).mean(over)
        unbiased = v * n / (n - 1) if n > 1 else 0 * v
        running = (0.75 * mean.get().astype(LD) + 0.25 * m, 0.75 * variance.get().astype(LD) + 0.25 * unbiased)
        for out, expected in zip(outs, (*running, m, v)):
            ref.check(out.get(), expected, F32, slack=2 * error + 1e-5)
        xhat = (exact - self.wide(m, axes)) / np.sqrt(self.wide(v, axes) + self.EPS)
        expected = xhat * self.wide(scale.get(), axes) + self.wide(offset.get(), axes)
        ref.check(y.get(), expected, d, slack=(1 + np.abs(expected)) * self.wide(1e-4 + error / (v + self.EPS), axes))
        self.assertFalse(y.padding().any(), "padding is not zero")

    def backward(self, gen, axes):
        d, shape, format, kind, channels, over = self.case(gen, axes)
        name, c, n = "BN" if axes == 2 else "BN3D", shape[1], int(np.prod(shape)) // shape[1]
        x, grads = (Operand.of(d, gen.values(d, shape, limit=4), format) for _ in range(2))
        exact, dy = x.get().astype(LD), grads.get().astype(LD)
        mean, variance = channels(exact.mean(over)), channels(exact.var(over))
        scale = channels(gen.values(F32, (c,), limit=2))
        sums, y = [Operand.empty(F32, (c,), kind) for _ in range(2)], Operand.empty(d, shape, format)
        execute(name + "TrainingUpdateGrad", [grads, x, mean, variance], sums, {"epsilon": self.EPS})
        rstd = 1 / np.sqrt(self.wide(variance.get(), axes) + self.EPS)
        xhat = (exact - self.wide(mean.get(), axes)) * rstd
        ref.check(sums[0].get(), (dy * xhat).sum(over), F32, slack=np.abs(dy * xhat).sum(over) * 1e-5)
        ref.check(sums[1].get(), dy.sum(over), F32, slack=np.abs(dy).sum(over) * 1e-5)
        execute(name + "TrainingReduceGrad", [grads, x, *sums, scale, mean, variance], [y], {"epsilon": self.EPS})
        a, b = (self.wide(s.get(), axes) / n for s in sums)
        expected = self.wide(scale.get(), axes) * rstd * (dy - b - xhat * a)
        size = np.abs(self.wide(scale.get(), axes)) * rstd * (np.abs(dy) + np.abs(b) + np.abs(xhat * a))
        ref.check(y.get(), expected, d, slack=size * 1e-5)

    def inference(self, gen):
        d, shape, format, kind, channels, over = self.case(gen, 2)
        c = shape[1]
        x, y = Operand.of(d, gen.values(d, shape, limit=4), format), Operand.empty(d, shape, format)
        scale, offset, mean = (channels(gen.values(F32, (c,), limit=2)) for _ in range(3))
        variance = channels(np.abs(gen.values(F32, (c,), limit=2)))
        s, o, m = (self.wide(v.get(), 2) for v in (scale, offset, mean))
        rstd = 1 / np.sqrt(self.wide(variance.get(), 2) + self.EPS)
        execute("BNInfer", [x, scale, offset, mean, variance], [y], {"epsilon": self.EPS})
        exact = x.get().astype(LD)
        size = (np.abs(exact) + np.abs(m)) * rstd * np.abs(s) + np.abs(o)
        ref.check(y.get(), (exact - m) * rstd * s + o, d, slack=size * 1e-5)
        execute("BNInferGrad", [x, scale, variance], [y], {"epsilon": self.EPS})
        ref.check(y.get(), exact * rstd * s, d, slack=np.abs(exact * rstd * s) * 1e-5)

    def gathered(self, gen):
        """The statistics of all devices' elements, of which some devices may have none."""
        d, n_devices, c = gen.pick((F32, F16)), gen.integer(1, 9), gen.integer(1, 40)
        counts = np.array([gen.integer(0, 30) for _ in range(n_devices)], np.int32)
        total, scale = int(counts.sum()), 2 if d is F32 else 0.5
        parts = [gen.values(F32, (k, c), limit=scale).astype(LD) for k in counts]
        sums, squares = (Operand.of(d, np.array([f(p).sum(0) for p in parts])) for f in (np.array, np.square))
        mean, variance = (Operand.of(d, np.abs(gen.values(d, (c,), limit=2))) for _ in range(2))
        batch_mean, invstd = (Operand.empty(d, (c,)) for _ in range(2))
        old = [x.get().astype(LD) for x in (mean, variance)]
        momentum = gen.pick((0.0, 0.25, 1.0))
        execute("SyncBatchNormGatherStats", [sums, squares, Operand.of(I32, counts), mean, variance],
                [batch_mean, invstd, mean, variance], {"momentum": momentum, "eps": self.EPS})
        s, q = (x.get().astype(LD).sum(0) for x in (sums, squares))
        if not total:
            ref.check_equal(batch_mean.get(), 0 * s)
            self.assertTrue(np.isnan(invstd.get()).all())
            for x, before in zip((mean, variance), old):
                ref.check_equal(x.get(), before)
            return
        m, v = s / total, np.maximum(q / total - (s / total) ** 2, 0)
        unbiased = v * total / (total - 1) if total > 1 else 0 * v
        ref.check(batch_mean.get(), m, d)
        ref.check(invstd.get(), 1 / np.sqrt(v + self.EPS), d, slack=1e-9)
        ref.check(mean.get(), (1 - momentum) * old[0] + momentum * m, d, slack=1e-9)
        ref.check(variance.get(), (1 - momentum) * old[1] + momentum * unbiased, d, slack=1e-9)

    def gathered_gradients(self, gen):
        d, shape, format, _, _, over = self.case(gen, 2)
        c = shape[1]
        dy, x = (Operand.of(d, gen.values(d, shape, limit=4), format) for _ in range(2))
        exact_dy, exact_x = (o.get().astype(LD) for o in (dy, x))
        sum_dy, sum_dy_x = (Operand.of(F32, v.sum(over)) for v in (exact_dy, exact_dy * exact_x))
        mean, rstd = Operand.of(F32, exact_x.mean(over)), Operand.of(F32, np.abs(gen.values(F32, (c,), limit=2)))
        sum_dy_xmu, along = (Operand.empty(F32, (c,)) for _ in range(2))
        execute("SyncBatchNormBackwardReduce", [sum_dy, sum_dy_x, mean, rstd], [sum_dy_xmu, along], {})
        a, b, m, r = (o.get().astype(LD) for o in (sum_dy, sum_dy_x, mean, rstd))
        ref.check(sum_dy_xmu.get(), b - a * m, F32, slack=1e-9)
        ref.check(along.get(), (b - a * m) * r, F32, slack=1e-9)

        wide = [Operand.of(d, np.broadcast_to(self.wide(gen.values(d, (c,), limit=2), 2), shape), format)
                for _ in range(5)]
        out = Operand.empty(d, shape, format)
        execute("SyncBatchNormBackwardElemt", [dy, x, *wide], [out], {})
        m, r, w, k, j = (o.get().astype(LD) for o in wide)
        size = (np.abs(exact_dy) + np.abs(k) + np.abs((exact_x - m) * r * r * j)) * np.abs(r * w)
        ref.check(out.get(), (exact_dy - k - (exact_x - m) * r * r * j) * r * w, d, slack=size * 1e-12)
        self.assertFalse(out.padding().any(), "padding is not zero")

    def test_in_inference(self):
        """BatchNorm, as onnxruntime's provider calls it."""
        def body(gen):
            d, shape = gen.pick((F32, F16)), tuple(gen.integer(1, 9) for _ in range(4))
            x = Operand.of(d, gen.values(d, shape, limit=4), NCHW)
            scale, offset, mean = (Operand.of(F32, gen.values(F32, shape[1:2], limit=4)) for _ in range(3))
            variance = Operand.of(F32, np.abs(gen.values(F32, shape[1:2], limit=4)) + np.float32(0.5))
            y, others = Operand.empty(d, shape, NCHW), [Operand.empty(F32, shape[1:2]) for _ in range(4)]
            execute("BatchNorm", [x, scale, offset, mean, variance], [y, *others],
                    {"epsilon": 1e-3, "data_format": "NCHW", "is_training": False})
            s, o, m, v = (t.get().astype(LD).reshape(-1, 1, 1) for t in (scale, offset, mean, variance))
            centred = (x.get().astype(LD) - m) * s / np.sqrt(v + LD(np.float32(1e-3)))
            ref.check(y.get(), centred + o, d, slack=(np.abs(centred) + np.abs(o)) * 1e-6)
            for got, same in zip(others, (mean, variance, mean, variance)):
                ref.check_equal(got.get(), same.get())
        each_case(self, "BatchNorm", CASES // 4, body)
        x, c = Operand.empty(F32, (1, 2, 3, 4), NCHW), Operand.empty(F32, (2,))
        with self.assertRaisesRegex(AclError, "is_training is true, expected false"):
            execute("BatchNorm", [x, c, c, c, c], [x, c, c, c, c], {})

    def test_synchronised(self):
        each_case(self, "gathered sums", CASES, self.gathered)
        each_case(self, "gradients", CASES // 2, self.gathered_gradients)

    def test_steps(self):
        for axes in (2, 3):
            each_case(self, f"forward {axes}", CASES // 2, lambda g, n=axes: self.forward(g, n))
            each_case(self, f"backward {axes}", CASES // 2, lambda g, n=axes: self.backward(g, n))
        each_case(self, "inference", CASES // 2, self.inference)

    def test_errors(self):
        x, c = Operand.of(F32, np.ones((2, 3, 4, 5)), NCHW), Operand.of(F32, np.ones(3))
        y, four = Operand.empty(F32, x.shape, NCHW), Operand.of(F32, np.ones(4))
        rows, two = Operand.of(F32, np.ones((2, 3))), Operand.of(I32, np.ones(2, np.int32))
        for name, inputs, outputs, a, words in (
                ("BNInfer", [x, c, c, four, c], [y], {"epsilon": 0.0}, "mean has shape [4]"),
                ("BNInfer", [x, c, c, c, c], [y], {}, "attribute epsilon is missing"),
                ("BNTrainingReduce", [Operand.of(F32, np.ones((2, 4, 5, 3)), NHWC)], [c, c], {},
                 "x has its channels last"),
                ("BNTrainingUpdate", [x, c, c, c, c, c, c], [y, c, c, c], {"epsilon": 0.0, "factor": 0.1},
                 "batch_variance is missing"),
                ("SyncBatchNormGatherStats", [x, c, c, c, c], [c, c, c, c], {}, "total_sum has 4 dimensions"),
                ("SyncBatchNormGatherStats", [rows, rows, c, c, c], [c, c, c, c], {}, "sample_count has dtype FLOAT"),
                ("SyncBatchNormGatherStats", [rows, rows, two, c, four], [c, c, c, c], {}, "variance has shape [4]"),
                ("SyncBatchNormBackwardReduce", [c, c, four, c], [c, c], {}, "mean has shape [4]"),
                ("SyncBatchNormBackwardElemt", [x, x, c, x, x, x, x], [y], {}, "mean has shape [3]"),
                ("BNInferGrad", [Operand.empty(I8, x.shape, NCHW), c, c], [y], {}, "grads has dtype INT8")):
            with self.assertRaises(AclError) as caught:
                execute(name, inputs, outputs, a)
            self.assertIn(words, caught.exception.message)


class Norms(unittest.TestCase):
    INF = float(2 ** 31)

    def norm(self, gen, p):
        shape = tuple(gen.integer(1, 20) for _ in range(gen.integer(1, 4)))
        axes = [i for i in range(len(shape)) if gen.chance(0.5)]
        keep, eps = gen.chance(0.5), gen.pick((0.0, 0.5))
        d = gen.pick((F32, F16))
        x = Operand.of(d, gen.values(d, shape, limit=4))
        size, over = np.abs(x.get().astype(LD)), tuple(axes) or None
        with np.errstate(all="ignore"):
            if p == 0:
                sums = (size > 0).sum(over, keepdims=keep)
            elif abs(p) == self.INF:
                sums = (size.max if p > 0 else size.min)(over, keepdims=keep)
            else:
                sums = (size ** LD(p)).sum(over, keepdims=keep)
            power, root = Operand.empty(F32, np.shape(sums)), Operand.empty(F32, np.shape(sums))
            execute("LpNormReduceV2", [x], [power], {"p": p, "axes": axes, "keepdim": keep, "epsilon": eps})
            slack = np.where(np.isinf(sums), 0, sums) * LD(1e-6)
            ref.check(power.get(), np.asarray(sums, LD), F32, ulps=8, slack=slack)
            execute("LpNormUpdateV2", [power], [root], {"p": p, "epsilon": eps})
            exact = power.get().astype(LD)
            expected = exact if p in (0, self.INF, -self.INF) else exact ** (1 / LD(p))
        ref.check(root.get(), np.maximum(expected, LD(eps)), F32, ulps=8)

    def test_norms(self):
        for p in (0.0, 1.0, 2.0, 3.0, 0.5, 2.5, -1.5, self.INF, -self.INF):
            each_case(self, f"p {p}", 6, lambda g, q=p: self.norm(g, q))

    def test_errors(self):
        x, y = Operand.of(F32, np.ones((2, 3))), Operand.empty(F32, (2,))
        for a, words in (
                ({"p": float("nan"), "axes": [1]}, "p is NaN"),
                ({"axes": [2]}, "axes is 2, expected -2 to 1"),
                ({"p": 3.0}, "has shape [2], expected []")):
            with self.assertRaises(AclError) as caught:
                execute("LpNormReduceV2", [x], [y], a)
            self.assertIn(words, caught.exception.message)

    def slope(self, p, difference, distance):
        """The derivative of the distance by each difference."""
        with np.errstate(all="ignore"):
            size, sign = np.abs(difference), np.sign(difference)
            if p == 1:
                return sign
            if p == 0:
                return 0 * sign
            if p == -1:
                return np.where(distance == 0, 0, np.where(size == distance, sign, 0))
            ratio = (size / distance) ** (p - 1)
            return np.where((distance == 0) | (difference == 0), 0, sign * ratio)

    def distances(self, gen, p):
        d = gen.pick((F32, F16))
        b, n, m, k = gen.integer(1, 3), gen.integer(1, 6), gen.integer(1, 6), gen.integer(1, 300)
        one, two = gen.values(d, (b, n, 1, k), limit=4), gen.values(d, (b, 1, m, k), limit=4)
        if gen.chance(0.3):
            two[:, :, 0] = one[:, 0]
        x1, x2 = (Operand.of(d, np.broadcast_to(v, (b, n, m, k))) for v in (one, two))
        y = Operand.empty(d, (b, n, m))
        execute("Cdist", [x1, x2], [y], {"p": p})
        difference = x1.get().astype(LD) - x2.get().astype(LD)
        size = np.abs(difference)
        if p == -1:
            exact = size.max(-1)
        elif p == 0:
            exact = (size > 0).sum(-1).astype(LD)
        else:
            exact = (size ** LD(p)).sum(-1) ** (1 / LD(p))
        ref.check(y.get(), exact, d, ulps=4, slack=exact * 1e-5)
        if p == -1:
            return
        distance = np.broadcast_to(y.get()[..., None], x1.shape)
        grad, cdist = Operand.of(d, gen.values(d, x1.shape, limit=2)), Operand.of(d, distance)
        terms = grad.get().astype(LD) * self.slope(p, difference, distance.astype(LD))
        # The shapes of the output for x1 with the batches of the pairs, and for x1 with one batch that was repeated.
        for shape, summed in (((b, n, k), (2,)), ((1, n, k), (0, 2)), ((n, k), (0, 2))):
            out = Operand.empty(d, shape)
            execute("CdistGrad", [grad, x1, x2, cdist], [out], {"p": p})
            bound = np.abs(terms).sum(summed).reshape(shape) * 1e-5
            ref.check(out.get(), terms.sum(summed).reshape(shape), d, slack=bound)

    def test_distances(self):
        for p in (0.0, 1.0, 2.0, 1.5, 3.5, -1.0):
            each_case(self, f"p {p}", 8, lambda g, q=p: self.distances(g, q))

    def test_gradient_of_the_largest(self):
        one = np.float32([[[[3, -1, 2]], [[0, 0, 0]]]])
        two = np.float32([[[[1, 1, 5]], [[0, 0, 0]]]])
        x1, x2, y = Operand.of(F32, one), Operand.of(F32, two), Operand.empty(F32, (1, 2, 3))
        distance = np.broadcast_to(np.abs(one - two).max(-1, keepdims=True), one.shape)
        grad = Operand.of(F32, np.full(one.shape, 2))
        execute("CdistGrad", [grad, x1, x2, Operand.of(F32, distance)], [y], {"p": -1.0})
        ref.check_equal(y.get(), np.float32([[[0, 0, -2], [0, 0, 0]]]))

    def test_gradient_of_repeated_batches(self):
        """x1 is repeated along the first and the last of three batch dimensions, over which its gradient is summed."""
        rng = np.random.default_rng(7)
        one, two = rng.standard_normal((1, 3, 1, 4, 1, 5)), rng.standard_normal((2, 3, 2, 1, 6, 5))
        x1, x2 = (Operand.of(F32, np.broadcast_to(v, (2, 3, 2, 4, 6, 5))) for v in (one, two))
        grad, y = Operand.of(F32, rng.standard_normal(x1.shape)), Operand.empty(F32, (3, 1, 4, 5))
        execute("CdistGrad", [grad, x1, x2, Operand.of(F32, np.ones(x1.shape))], [y], {"p": 1.0})
        ref.check(y.get(), (grad.get().astype(LD) * np.sign(one - two)).sum((0, 2, 4))[:, None], F32, slack=1e-5)

    def test_errors_of_distances(self):
        x, y = Operand.of(F32, np.ones((1, 2, 3, 4))), Operand.empty(F32, (1, 2, 3))
        for name, inputs, out, p, words in (
                ("Cdist", [x, x], y, -2.0, "p is -2, expected 0 or more, or -1 for infinity"),
                ("Cdist", [x, y], y, 2.0, "x2 has shape [1, 2, 3], expected [1, 2, 3, 4]"),
                ("CdistGrad", [x] * 4, y, 2.0, "y has shape [1, 2, 3], expected [1, 2, 4], or fewer"),
                ("CdistGrad", [x] * 4, Operand.empty(F32, (1, 1, 4)), 2.0, "y has shape [1, 1, 4]"),
                ("CdistGrad", [x] * 4, Operand.empty(F32, (4,)), 2.0, "y has shape [4]")):
            with self.assertRaises(AclError) as caught:
                execute(name, inputs, [out], {"p": p})
            self.assertIn(words, caught.exception.message)

    def test_log_space(self):
        for d, start, end, steps, base in (
                (F32, -2.0, 3.0, 11, 2.0),
                (F16, 0.0, 1.0, 300, 10.0),
                (F32, 1.0, 5.0, 1, 3.0),
                (F32, 1.0, 5.0, 0, 3.0)):
            assist, y = Operand.of(d, np.arange(steps)), Operand.empty(d, (steps,))
            execute("LogSpaceD", [assist], [y],
                    {"start": start, "end": end, "steps": steps, "base": base, "dtype": int(d is F32)})
            ref.check(y.get(), LD(base) ** np.linspace(LD(start), LD(end), steps), d, ulps=2)
        with self.assertRaisesRegex(AclError, "assist has 0 elements, expected as many as steps, 3"):
            execute("LogSpaceD", [assist], [Operand.empty(F32, (3,))], {"start": 0.0, "end": 1.0, "steps": 3})


class MaxPools(unittest.TestCase):
    def reference(self, x, g, shape):
        """Returns the maxima, and for each of them its index in its plane of the input."""
        n, c, h, w = x.shape
        y, places = np.empty(shape), np.zeros(shape, np.int64)
        for i, j in itertools.product(range(shape[2]), range(shape[3])):
            rows = [r for r in (i * g["s"][0] - g["p"][0] + k * g["d"][0] for k in range(g["k"][0])) if 0 <= r < h]
            cols = [q for q in (j * g["s"][1] - g["p"][1] + k * g["d"][1] for k in range(g["k"][1])) if 0 <= q < w]
            flat = np.array([r * w + q for r in rows for q in cols])
            window = x.reshape(n, c, -1)[:, :, flat]
            best = window.argmax(-1)
            y[:, :, i, j], places[:, :, i, j] = window.max(-1), flat[best]
        return y, places

    def case(self, gen):
        g = {"k": [gen.integer(1, 4) for _ in range(2)], "s": [gen.integer(1, 3) for _ in range(2)],
             "d": [gen.integer(1, 2) for _ in range(2)]}
        g["p"] = [gen.integer(0, k // 2) if d == 1 else 0 for k, d in zip(g["k"], g["d"])]
        shape = (gen.integer(1, 2), gen.integer(1, 40),
                 *((k - 1) * d + gen.integer(1, 12) for k, d in zip(g["k"], g["d"])))
        out = [(size + 2 * p - (k - 1) * d - 1) // s + 1
               for size, p, k, d, s in zip(shape[2:], g["p"], g["k"], g["d"], g["s"])]
        return g, shape, (*shape[:2], *out)

    def attributes(self, g):
        return {"ksize": (1, *g["k"], 1), "strides": (1, *g["s"], 1), "pads": (1, *g["p"], 1), "ceil_mode": False}

    def there_and_back(self, gen):
        g, shape, out = self.case(gen)
        d, format = gen.pick(FLOATS), gen.pick((NCHW, NC1HWC0))
        x, y = Operand.of(d, gen.values(d, shape, limit=4), format), Operand.empty(d, out, format)
        words = -(-out[2] * out[3] // 16) + 1
        argmax = Operand.empty(U16, (*out[:2], g["k"][0] * g["k"][1], words), NC1HWC0)
        execute("MaxPoolWithArgmaxV1", [x], [y, argmax], {**self.attributes(g), "dilation": (1, *g["d"], 1)})
        best, places = self.reference(x.get(), g, out)
        ref.check_equal(y.get(), best.astype(y.get().dtype))
        bits = argmax.storage.get().reshape(out[0], -1, g["k"][0] * g["k"][1], words * 16)
        self.assertEqual(sum(int(b).bit_count() for b in bits.reshape(-1)), int(np.prod(out)), "a bit for each output")
        grad, back = Operand.of(d, gen.values(d, out, limit=4), format), Operand.empty(d, shape, format)
        execute("MaxPoolGradWithArgmaxV1", [x, grad, argmax], [back],
                {**self.attributes(g), "dilations": (1, *g["d"], 1)})
        ref.check(back.get(), *self.gradient(grad.get(), places, shape, d))

    def gradient(self, grad, places, shape, d):
        exact, size = (np.zeros((*shape[:2], shape[2] * shape[3]), LD) for _ in range(2))
        n, c = np.ix_(range(shape[0]), range(shape[1]))
        for i, j in itertools.product(*map(range, grad.shape[2:])):
            np.add.at(exact, (n, c, places[:, :, i, j]), grad[:, :, i, j].astype(LD))
            np.add.at(size, (n, c, places[:, :, i, j]), np.abs(grad[:, :, i, j]).astype(LD))
        return exact.reshape(shape), d, None, 1, size.reshape(shape) * 16 * 2.0 ** -23

    def test_there_and_back(self):
        each_case(self, "MaxPoolWithArgmaxV1", CASES, self.there_and_back)

    def test_mask_of_aclnn(self):
        """The gradient operator with a mask that aclnnMaxPool2dWithMask wrote, as op-plugin passes it: it begins with
        int32 indices."""
        gen = np.random.default_rng(8)
        g, shape, out = {"k": (2, 3), "s": (2, 2), "p": (0, 1), "d": (1, 1)}, (2, 3, 8, 9), (2, 3, 4, 5)
        x, grad = gen.standard_normal(shape).astype(np.float32), gen.standard_normal(out).astype(np.float32)
        _, places = self.reference(x, g, out)
        words = (20 + 15) // 16 + 1
        mask = Operand.empty(U16, (2, 3, 6, words * 16), ND)
        bytes_of = np.zeros(mask.shape, np.uint16).reshape(-1)
        bytes_of[:places.size * 2] = places.astype(np.int32).reshape(-1).view(np.uint16)
        mask.storage.set(bytes_of.reshape(mask.shape))
        mask.format, mask.origin, mask.places = NC1HWC0, NCHW, mask.places.reshape(2, 3, 6, words, 16)
        back = Operand.empty(F32, shape, NC1HWC0)
        operands = [Operand.of(F32, x, NC1HWC0), Operand.of(F32, grad, NC1HWC0), mask]
        execute("MaxPoolGradWithArgmaxV1", operands, [back], self.attributes(g))
        ref.check(back.get(), *self.gradient(grad, places, shape, F32))

    def test_errors(self):
        x, y = Operand.empty(F32, (1, 3, 4, 4), NCHW), Operand.empty(F32, (1, 3, 2, 2), NCHW)
        argmax = Operand.empty(U16, (1, 3, 4, 2), NC1HWC0)
        a = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "pads": (1, 0, 0, 1)}
        for outputs, change, words in (
                ([y, argmax], {"ksize": (2, 2)}, "ksize has 2 elements, expected 4"),
                ([y, argmax], {"strides": (2, 2, 2, 1)}, "strides has 2 and 1 at its ends, expected 1"),
                ([y, Operand.empty(U16, (1, 3, 4, 1), NC1HWC0)], {}, "expected [1, 1, 4, 2, 16] in NC1HWC0"),
                ([y, Operand.empty(F16, (1, 3, 4, 2), NC1HWC0)], {}, "argmax has dtype FLOAT16"),
                ([x, argmax], {}, "y has shape [1, 3, 4, 4]")):
            with self.assertRaises(AclError) as caught:
                execute("MaxPoolWithArgmaxV1", [x], outputs, {**a, **change})
            self.assertIn(words, caught.exception.message)


class Pools(unittest.TestCase):
    """MaxPoolV3 and AvgPoolV2."""

    def pool(self, gen, name):
        d = gen.pick((F32, F16))
        kernel, stride = ([gen.integer(1, 4) for _ in range(2)] for _ in range(2))
        shape = (gen.integer(1, 3), gen.integer(1, 5), *(gen.integer(k, 12) for k in kernel))
        mode, whole = gen.pick(("CALCULATED", "CALCULATED", "VALID", "SAME")), gen.chance(0.15)
        pads = [gen.integer(0, k - 1) for k in kernel for _ in range(2)]
        exclusive = name == "MaxPoolV3" or gen.chance(0.5)
        if not exclusive:
            pads, mode = [pads[0], pads[0], pads[2], pads[2]], gen.pick(("CALCULATED", "VALID"))
        given = {"ksize": (1, 1, *kernel), "strides": (1, 1, *stride), "padding_mode": mode, "pads": tuple(pads),
                 "data_format": "NCHW", "global_pooling": whole, "ceil_mode": False}
        if whole:
            kernel, stride, pads = shape[2:], (1, 1), [0] * 4
        elif mode == "VALID":
            pads = [0] * 4
        elif mode == "SAME":
            total = [max(0, (-(-n // s) - 1) * s + k - n) for n, s, k in zip(shape[2:], stride, kernel)]
            pads = [t for n in total for t in (n // 2, n - n // 2)]
        x = Operand.of(d, gen.values(d, shape, limit=4), gen.pick((ND, NCHW)))
        ends = [(0, 0), (0, 0), pads[:2], pads[2:]]
        fill = 0 if name == "AvgPoolV2" else -np.inf
        windows = [np.lib.stride_tricks.sliding_window_view(np.pad(v, ends, constant_values=w), kernel, (2, 3))
                   [:, :, ::stride[0], ::stride[1]]
                   for v, w in ((x.get().astype(LD), fill), (np.ones(shape), 0 if exclusive else 1))]
        exact = windows[0].max((4, 5)) if fill else windows[0].sum((4, 5)) / windows[1].sum((4, 5))
        y = Operand.empty(d, exact.shape, x.format)
        execute(name, [x], [y], {**given, **({"exclusive": exclusive} if name == "AvgPoolV2" else {})})
        ref.check(y.get(), exact, d, slack=1e-5)

    def test_pools(self):
        for name in ("MaxPoolV3", "AvgPoolV2"):
            each_case(self, name, CASES, lambda g, n=name: self.pool(g, n))

    def test_errors(self):
        x, y = Operand.of(F32, np.ones((1, 2, 4, 4))), Operand.empty(F32, (1, 2, 2, 2))
        good = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2)}
        execute("MaxPoolV3", [x], [y], good)
        for change, words in (
                ({"ksize": (2, 2)}, "ksize has 2 elements, expected 4"),
                ({"strides": (1, 2, 2, 2)}, "strides has 2 for axis C, expected 1"),
                ({"ksize": (1, 1, 0, 2)}, "ksize is 0 and 2 along H and W"),
                ({"pads": (2, 0, 0, 0)}, r"pads[0] is 2, expected 0 to 1"),
                ({"padding_mode": "FULL"}, "padding_mode is \"FULL\""),
                ({"data_format": "NHWC"}, "data_format is NHWC and x has format ND"),
                ({"global_pooling": True}, "y has shape [1, 2, 2, 2], expected [1, 2, 1, 1]")):
            with self.assertRaises(AclError) as caught:
                execute("AvgPoolV2", [x], [y], {**good, **change})
            self.assertIn(words, caught.exception.message)


class Decompositions(unittest.TestCase):
    def svd(self, gen):
        d, batch = gen.pick((F32, F64)), tuple(gen.integer(0, 3) for _ in range(gen.integer(0, 2)))
        m, n = gen.integer(1, 24), gen.integer(1, 24)
        full, k = gen.chance(0.5), min(m, n)
        values = gen.values(d, batch + (m, n), limit=4)
        if gen.chance(0.4):                                     # rank 0 or 1
            values = values * 0 if gen.chance(0.3) else np.repeat(values[..., :1], n, -1)
        x = Operand.of(d, values * gen.pick((1, 2.0 ** -100, 2.0 ** 100)))
        sigma = Operand.empty(d, batch + (k,))
        u, v = (Operand.empty(d, batch + (size, size if full else k)) for size in (m, n))
        execute("Svd", [x], [sigma, u, v], {"compute_uv": True, "full_matrices": full})
        a = x.get().astype(np.float64)
        want = np.linalg.svd(a, compute_uv=False)
        most = np.abs(want).max(-1, initial=0)[..., None]
        eps = 4 * (m + n) * (2.0 ** -24 if d is F32 else 2.0 ** -53)
        self.assertTrue((np.abs(sigma.get() - want) <= eps * most).all(), f"sigma {sigma.get()}, expected {want}")
        left, right = u.get().astype(np.float64), v.get().astype(np.float64)
        for q, name in ((left, "u"), (right, "v")):
            self.assertLess(np.abs(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1])).max(initial=0), eps, name)
        again = left[..., :k] * sigma.get()[..., None, :].astype(np.float64) @ right[..., :k].swapaxes(-1, -2)
        self.assertTrue((np.abs(again - a) <= eps * most[..., None]).all(), "u sigma v^T")
        alone = Operand.empty(d, batch + (k,))
        execute("Svd", [x], [alone, u, v], {"compute_uv": False})
        ref.check_equal(alone.get(), sigma.get())

    def test_svd(self):
        each_case(self, "Svd", 2 * CASES, self.svd)

    def test_not_finite(self):
        for value in (np.nan, np.inf):
            values = np.ones((3, 3), np.float32)
            values[1, 2] = value
            outs = [Operand.empty(F32, s) for s in ((3,), (3, 3), (3, 3))]
            execute("Svd", [Operand.of(F32, values)], outs, {})
            self.assertFalse(np.isfinite(outs[0].get()).all())

    def test_errors(self):
        x, s, u, v = (Operand.of(F32, np.ones(shape)) for shape in ((3, 2), (2,), (3, 2), (2, 2)))
        for inputs, outputs, a, words in (
                ([x], [s, u, v], {"full_matrices": True}, "u has shape [3, 2], expected [3, 3]"),
                ([x], [u, u, v], {}, "sigma has shape [3, 2], expected [2]"),
                ([x], [s, v, v], {}, "u has shape [2, 2], expected [3, 2]"),
                ([s], [s, u, v], {}, "x has shape [2], expected 2 or more dimensions"),
                ([Operand.empty(F16, (3, 2))], [s, u, v], {}, "x has dtype FLOAT16")):
            with self.assertRaises(AclError) as caught:
                execute("Svd", inputs, outputs, a)
            self.assertIn(words, caught.exception.message)


if __name__ == "__main__":
    unittest.main()
