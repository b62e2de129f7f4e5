# SPDX-License-Identifier: Apache-2.0
"""Unary, binary and ternary elementwise operators, each a row of a table, with random types, shapes, views and
broadcasts."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, Scalar, Tensor, refused, run
from dtypes import (ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I8, I32, I64, INTS, LD, U8, computed_in, promote,
                    promote_scalar)
from gen import each_case

CASES = 200


def out_type(gen, result):
    """Mostly the result's own type, sometimes another that it converts to."""
    if gen.chance(0.75):
        return result
    return gen.pick({"f": FLOATS64, "i": INTS + (F32, F64), "b": ALL}[result.kind])


def exactly(dtype, values):
    """Values as the library computes with them, in a type that holds them: long double for floats."""
    return values.astype(LD) if dtype.kind == "f" else values


def limit_for(dtype, common):
    """Integers that are converted to float or double must be exact in it: their rounding is not specified."""
    return {F32: 2 ** 20, F64: 2 ** 50}.get(common) if dtype.kind == "i" else None


def verify(got, expected, common, out, what, **bound):
    """expected: long double if common is a float type, else exact values of common."""
    if common.kind == "f" and out.kind == "f":
        ref.check(got, expected, out, computed_in(common), what=what, via=common, **bound)
    else:
        ref.check_equal(got, ref.to_type(np.asarray(expected), common, out), what)


def number_bits(t):
    """The bits, with one NaN for all: IEEE 754 leaves the sign of a NaN that an operation makes open."""
    bits = t.bits()                 # those of 16-bit floats are integers, others are numbers, whose NaNs are equal
    return np.where(np.isnan(t.get()), 0xffff, bits) if t.dtype.kind == "f" and bits.dtype.kind == "u" else bits


def same_bits_elsewhere(gen, op, args, out):
    """Elementwise results may not depend on the layout: not on tails of vectors, not on offsets."""
    if gen.chance(0.25):
        moved = [gen.again(a) if isinstance(a, Tensor) else a for a in args]
        other = gen.out(out.dtype, out.shape)
        run(op, *moved, other)
        ref.check_equal(number_bits(other), number_bits(out), "bits in another layout")


def common_of_integers(op, dtype, out):
    """The type in which CANN computes functions of integers whose result is a float."""
    name = op.removeprefix("aclnn")
    in_double = dtype is I64 if name == "Sqrt" else out is F64 and name in ("Rsqrt", "Sigmoid", "Log1p", "Sinh")
    return F64 if in_double else F32


# ---- unary

Unary = namedtuple("Unary", "op function dtypes ulps slack zero_sign")


def unary_row(op, function, dtypes=FLOATS64 + INTS, ulps=2, slack=None, zero_sign=True):
    return Unary("aclnn" + op, function, dtypes, ulps, slack, zero_sign)


INTEGER_UNARY = {"aclnnAbs", "aclnnNeg", "aclnnSquare", "aclnnRelu", "aclnnInplaceRelu"}     # keep the type and wrap
UNARY = (
    unary_row("Abs", np.abs, ulps=0.5),
    unary_row("Neg", np.negative, ulps=0.5),
    unary_row("Square", np.square, ulps=0.5),
    unary_row("Relu", ref.relu, ulps=0.5, zero_sign=False),
    unary_row("InplaceRelu", ref.relu, ulps=0.5, zero_sign=False),
    unary_row("Sqrt", np.sqrt, ulps=0.5),
    unary_row("Reciprocal", lambda x: 1 / x, ulps=0.5),
    unary_row("Rsqrt", ref.rsqrt),
    unary_row("Exp", np.exp),
    unary_row("Log", np.log),
    # 1 / (1 + exp(-x)): three roundings and exp's own error; results below the normal range may become 0.
    unary_row("Sigmoid", ref.sigmoid, ulps=4, slack=lambda c: c.tiny),
    unary_row("Tanh", np.tanh, ulps=4),
)


class UnaryOperators(unittest.TestCase):
    def test_all(self):
        for row in UNARY:
            each_case(self, row.op, CASES, lambda gen, row=row: self.case(gen, row))

    def case(self, gen, row):
        d = gen.pick(row.dtypes)
        common = d if d.kind == "f" or row.op in INTEGER_UNARY else F32
        shape = gen.shape()
        inplace = "Inplace" in row.op
        out = out_type(gen, common)
        if common is not d:
            common = common_of_integers(row.op, d, out)
        shared = inplace or out is d and gen.chance(0.2)           # self is out
        x = gen.out(d, shape, gen.values(d, shape)) if shared else gen.tensor(d, shape)
        values = x.get()
        if inplace:
            run(row.op, x)
            y = x
        else:
            y = x if shared else gen.out(out, shape)
            run(row.op, x, y)
        exact = row.function(exactly(common, values if d is common else common.round(values.astype(LD))))
        slack = row.slack(computed_in(common)) if row.slack and common.kind == "f" else 0
        bound = dict(ulps=row.ulps, slack=slack, zero_sign=row.zero_sign)
        verify(y.get(), exact, common, y.dtype, row.op, **bound)
        if not shared:
            same_bits_elsewhere(gen, row.op, [x], y)


# ---- binary arithmetic

Binary = namedtuple("Binary", "function boolean has_alpha zero_sign")
BINARY = {
    "Add": Binary(np.add, np.logical_or, True, True),
    "Sub": Binary(np.subtract, np.logical_xor, True, True),
    "Mul": Binary(np.multiply, np.logical_and, False, True),
    "Div": Binary(np.divide, None, False, True),                   # integers and bools give floats
    "Maximum": Binary(np.maximum, np.logical_or, False, False),    # a NaN gives NaN
    "Minimum": Binary(np.minimum, np.logical_and, False, False),
}
TENSOR_OPS = ("Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "InplaceAdd", "InplaceSub", "InplaceMul", "InplaceDiv")
SCALAR_OPS = ("Adds", "Subs", "Muls", "Divs", "InplaceAdds", "InplaceMuls", "InplaceDivs")


def result_type(base, common):
    return F32 if base == "Div" and common.kind != "f" else common


def legal(base, common, self_type, inplace):
    """Whether the operator takes these types: in place, self's kind must hold the result."""
    kinds = "bif"
    result = result_type(base, common)
    return not (inplace and kinds.index(result.kind) > kinds.index(self_type.kind))


def pick_alpha(gen, common):
    """An alpha of any scalar type that holds it."""
    if common is BOOL or gen.chance(0.4):
        return Scalar(1, gen.pick((I64, BOOL) if common.kind != "f" else (F32, F64, I64, BOOL)))
    if common.kind == "i":
        return Scalar(gen.integer(-3, 3), I64)
    return Scalar(gen.integer(-16, 16) / 4, gen.pick((F32, F64))) if gen.chance(0.6) else \
        Scalar(gen.integer(-3, 3), I64)


def pick_scalar(gen, d):
    """A scalar operand of any type, exact in the type that is computed in, and that type."""
    s = gen.pick((F64, F32, I64, BOOL))
    common = promote_scalar(d, s)
    low = 0 if common is U8 else -20
    value = {"f": lambda: gen.integer(-40, 40) / 4, "i": lambda: gen.integer(low, 20),
             "b": lambda: gen.chance(0.5)}[s.kind]()
    return Scalar(value, s), common


class BinaryOperators(unittest.TestCase):
    def test_tensors(self):
        for op in TENSOR_OPS:
            each_case(self, "aclnn" + op, CASES, lambda gen, op=op: self.tensors(gen, op))

    def test_scalars(self):
        for op in SCALAR_OPS:
            each_case(self, "aclnn" + op, CASES, lambda gen, op=op: self.scalars(gen, op))

    def tensors(self, gen, op):
        base, inplace = op.replace("Inplace", ""), op.startswith("Inplace")
        shape = gen.shape()
        sa, sb = (shape, gen.shrunk(shape)) if inplace else gen.broadcast_pair(shape)
        # Tensors of rank 0 have promotion rules of their own: types are mixed only if both have axes or neither has.
        mixed = gen.chance(0.4) and (not sa) == (not sb)
        while True:
            a = gen.pick(ALL)
            b = gen.pick(ALL) if mixed else a
            common = promote(a, b)
            if legal(base, common, a, inplace):
                break
        x = self.self_tensor(gen, a, sa, common, inplace)
        y = gen.drawn(b, sb, lambda s: gen.values(b, s, limit=limit_for(b, common)))
        alpha = pick_alpha(gen, common) if BINARY[base].has_alpha else None
        self.finish(gen, op, base, inplace, x, y, y.get(), common, alpha, shape)

    def scalars(self, gen, op):
        base, inplace = op.replace("Inplace", "")[:-1], op.startswith("Inplace")
        while True:
            a = gen.pick(ALL)
            other, common = pick_scalar(gen, a)
            if legal(base, common, a, inplace):
                break
        shape = gen.shape()
        x = self.self_tensor(gen, a, shape, common, inplace)
        alpha = pick_alpha(gen, common) if BINARY[base].has_alpha else None
        self.finish(gen, op, base, inplace, x, other, np.asarray(other.value), common, alpha, shape)

    def self_tensor(self, gen, dtype, shape, common, inplace):
        def draw(s):
            return gen.values(dtype, s, limit=limit_for(dtype, common))
        return gen.out(dtype, shape, draw(shape)) if inplace else gen.drawn(dtype, shape, draw)

    def finish(self, gen, op, base, inplace, x, y, y_values, common, alpha, shape):
        row, result = BINARY[base], result_type(base, common)
        computing = computed_in(result)
        if result.kind == "f" and alpha and abs(float(alpha.value)) != 1 and isinstance(y, Tensor):
            # alpha * other must stay in range: otherwise the order of operations would show.
            big = np.isfinite(y_values) & (np.abs(y_values.astype(LD)) > LD(computing.max) / 16)
            if big.any():
                y_values = np.where(big, np.ones_like(y_values), y_values)
                y = gen.tensor(y.dtype, y_values.shape, y_values)
        x_values = x.get()
        # The library may get x again as output: in place, as the same tensor, or in another type.
        if inplace:
            out = x
        elif x.dtype is result and x.shape == shape and 0 not in x.strides and gen.chance(0.2):
            out = x
        else:
            out = gen.out(out_type(gen, result), shape)
        args = [x, y] + ([alpha] if alpha else [])
        run("aclnn" + op, *args, *([] if inplace else [out]))

        slack, operands = 0, ((x_values, x), (np.asarray(y_values), y))
        if result.kind == "f":
            a, b = (ref.to_type(v, t.dtype, result if isinstance(t, Tensor) else computing).astype(LD)
                    for v, t in operands)
            if alpha:
                b = b * LD(float(alpha.value))
                slack = 0 if abs(float(alpha.value)) == 1 else computing.ulp(b)
            expected = row.function(a, b)
        else:
            a, b = (ref.to_type(v, t.dtype, common) for v, t in operands)
            if common is BOOL:
                expected = row.boolean(a, b)
            else:
                scaled = b * np.int64(alpha.value).astype(common.values) if alpha else b
                expected = row.function(a, scaled.astype(common.values))
        expected = np.broadcast_to(np.asarray(expected), shape)
        verify(out.get(), expected, result, out.dtype, f"{op} computed in {common}", ulps=0.5, slack=slack,
               zero_sign=row.zero_sign and not np.any(slack))
        if out is not x:
            same_bits_elsewhere(gen, "aclnn" + op, args, out)


class MixedTypes(unittest.TestCase):
    def test_integers_become_the_16_bit_float_beside_them(self):
        for op, integer, half, value, expected in (
                ("EqTensor", 2049, F16, 2048, True),
                ("NeTensor", 257, BF16, 256, False),
                ("GtTensor", 257, BF16, 256, False),
                ("LeTensor", 2049, F16, 2048, True),
                ("Mul", 70000, F16, 0.5, np.inf),
                ("Maximum", 70000, F16, 1, np.inf),
                ("Div", 2049, F16, 2, 1024),
                ("Mul", 2 ** 24 + 2 ** 16 + 1, BF16, 1, 2 ** 24 + 2 ** 17)):
            for d in (I32, I64):
                out = Tensor.empty(BOOL if isinstance(expected, bool) else half, (3,))
                run("aclnn" + op, Tensor.of(d, [integer] * 3), Tensor.of(half, [value] * 3), out)
                ref.check_equal(out.get(), [expected] * 3, f"{op} of {d} and {half}")
        x = Tensor.of(F16, [2048])
        run("aclnnInplaceSub", x, Tensor.of(I32, [2049]), Scalar(1, I64))
        ref.check_equal(x.get(), [0])

    def test_halves_are_halves_before_they_are_floats(self):
        x, out = Tensor.of(F16, [2048]), Tensor.empty(F32, (1,))
        run("aclnnAdd", x, Tensor.of(F16, [1]), Scalar(1, I64), out)
        ref.check_equal(out.get(), [2048])
        run("aclnnCast", x, out.dtype.code, out)
        ref.check_equal(out.get(), [2048])

    def test_integers_in_place_by_floats(self):
        for op, scalar, expected in (("Muls", 2.5, [17, -17, 0]), ("Divs", 2.0, [3, -3, 0])):
            for d in (I8, I32, I64):
                x = Tensor.of(d, [7, -7, 0])
                run("aclnnInplace" + op, x, Scalar(scalar, F32))
                ref.check_equal(x.get(), expected, f"{op} of {d}")
            code, message = refused("aclnn" + op, x, Scalar(scalar, F32), Tensor.empty(I64, (3,)))
            self.assertEqual((code, "out has dtype INT64" in message), (INVALID, True), message)
        self.assertEqual(refused("aclnnInplaceAdds", x, Scalar(2.5, F32), Scalar(1, I64))[0], INVALID)


# ---- comparisons and logic

COMPARE = {"Eq": np.equal, "Ne": np.not_equal, "Gt": np.greater, "Lt": np.less, "Ge": np.greater_equal,
           "Le": np.less_equal}


class Comparisons(unittest.TestCase):
    def test_tensors(self):
        for name, function in COMPARE.items():
            each_case(self, f"aclnn{name}Tensor", CASES, lambda gen, n=name, f=function: self.tensors(gen, n, f))

    def test_scalars(self):
        for name, function in COMPARE.items():
            if name != "Ne":
                each_case(self, f"aclnn{name}Scalar", CASES, lambda gen, n=name, f=function: self.scalars(gen, n, f))

    def out(self, gen, shape):
        return gen.out(BOOL if gen.chance(0.7) else gen.pick(ALL), shape)

    def tensors(self, gen, name, function):
        shape = gen.shape()
        sa, sb = gen.broadcast_pair(shape)
        a = gen.pick(ALL)
        b = gen.pick(ALL) if gen.chance(0.4) and (not sa) == (not sb) else a
        common = promote(a, b)
        near = 3 if gen.chance(0.5) else None                     # few different values, so that some are equal
        x, y = (gen.drawn(d, s, lambda s, d=d: gen.values(d, s, limit=near or limit_for(d, common)))
                for d, s in ((a, sa), (b, sb)))
        out = self.out(gen, shape)
        run(f"aclnn{name}Tensor", x, y, out)
        u, v = (ref.to_type(t.get(), t.dtype, common) for t in (x, y))
        expected = np.broadcast_to(function(u, v), shape)
        ref.check_equal(out.get(), ref.to_type(expected, BOOL, out.dtype), f"compared as {common}")

    def scalars(self, gen, name, function):
        a = gen.pick(ALL)
        other, common = pick_scalar(gen, a)
        near = 10 if gen.chance(0.5) else None
        x = gen.drawn(a, gen.shape(), lambda s: gen.values(a, s, limit=near or limit_for(a, common)))
        out = self.out(gen, x.shape)
        run(f"aclnn{name}Scalar", x, other, out)
        u, v = ref.to_type(x.get(), a, common), ref.to_type(np.asarray(other.value), other.dtype, common)
        ref.check_equal(out.get(), ref.to_type(function(u, v), BOOL, out.dtype), f"{other} compared as {common}")

    def test_int64_beyond_double(self):
        n = 2 ** 53
        x, y = Tensor.of(I64, np.array([n, n + 1, -n - 1])), Tensor.of(I64, np.array([n + 1, n + 1, -n]))
        for name, function in COMPARE.items():
            out = Tensor.empty(BOOL, (3,))
            run(f"aclnn{name}Tensor", x, y, out)
            ref.check_equal(out.get(), function(x.get(), y.get()), name)
            if name != "Ne":
                run(f"aclnn{name}Scalar", x, Scalar(n + 1, I64), out)
                ref.check_equal(out.get(), function(x.get(), n + 1), name + "Scalar")

    def test_logic(self):
        def both(gen):
            shape = gen.shape()
            x, y = (gen.tensor(gen.pick(ALL), s) for s in gen.broadcast_pair(shape))
            out = self.out(gen, shape)
            run("aclnnLogicalAnd", x, y, out)
            expected = np.broadcast_to((x.get() != 0) & (y.get() != 0), shape)
            ref.check_equal(out.get(), ref.to_type(expected, BOOL, out.dtype))

        def inverted(gen):
            x = gen.tensor(gen.pick(ALL), gen.shape())
            out = self.out(gen, x.shape)
            run("aclnnLogicalNot", x, out)
            ref.check_equal(out.get(), ref.to_type(x.get() == 0, BOOL, out.dtype))
        each_case(self, "aclnnLogicalAnd", CASES, both)
        each_case(self, "aclnnLogicalNot", CASES, inverted)


# ---- ternary

def addcmul(s, a, b, w):
    return s + w * a * b, 2 * np.abs(w * a * b) + np.abs(s)


def addcdiv(s, a, b, w):
    return s + w * a / b, 2 * np.abs(w * a / b) + np.abs(s)


def lerp(s, e, w):
    return s + w * (e - s), 2 * (1 + abs(w)) * (np.abs(s) + np.abs(e))


class TernaryOperators(unittest.TestCase):
    """selfRef op= others. Each reference returns the result and the magnitude that bounds intermediate roundings."""

    def test_all(self):
        for op, function, n_tensors in (("aclnnInplaceAddcmul", addcmul, 2), ("aclnnInplaceAddcdiv", addcdiv, 2),
                                        ("aclnnInplaceLerps", lerp, 1)):
            each_case(self, op, CASES, lambda gen, o=op, f=function, n=n_tensors: self.case(gen, o, f, n))

    def case(self, gen, op, function, n_tensors):
        d = gen.pick(FLOATS + ((F64,) if n_tensors == 2 else ()))
        shape = gen.shape()
        target = gen.out(d, shape, gen.values(d, shape, limit=100))
        others = [gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s, limit=100)) for _ in range(n_tensors)]
        if op == "aclnnInplaceAddcdiv":                            # the divisor must not be near 0
            away = np.where(np.abs(others[1].get()) < 0.1, d.round(LD(0.75)), others[1].get()).astype(d.values)
            others[1] = gen.tensor(d, others[1].shape, away)
        value = Scalar(gen.integer(-16, 16) / 8, gen.pick((F32, F64)))
        args = [target.get().astype(LD)] + [t.get().astype(LD) for t in others] + [LD(float(value.value))]
        exact, scale = function(*args)
        run(op, target, *others, value)
        computing = computed_in(d)
        ref.check(target.get(), exact, d, computing, ulps=2, slack=computing.ulp(scale), what=f"value {value}")


class Thresholds(unittest.TestCase):
    def test_all(self):
        types = FLOATS + INTS

        def scalars(gen, d):
            low = 0 if d is U8 else -8
            s = I64 if d.kind == "i" else gen.pick((F32, F64, I64))
            return [Scalar(gen.integer(low, 8) / (1 if s is I64 else 2), s) for _ in range(2)]

        def forward(gen):
            d = gen.pick(types)
            x = gen.tensor(d, gen.shape())
            threshold, value = scalars(gen, d)
            out = gen.out(d, x.shape)
            run("aclnnThreshold", x, threshold, value, out)
            ref.check_equal(out.get(), np.where(x.get() <= threshold.value, d.values.type(value.value), x.get()))

        def backward(gen):
            d = gen.pick((F32, F16, BF16, I32))
            shape = gen.shape()
            grad, x, threshold = gen.tensor(d, shape), gen.tensor(d, shape), scalars(gen, d)[0]
            out = gen.out(d, shape)
            run("aclnnThresholdBackward", grad, x, threshold, out)
            ref.check_equal(out.get(), np.where(x.get() <= threshold.value, d.values.type(0), grad.get()))
        each_case(self, "aclnnThreshold", CASES, forward)
        each_case(self, "aclnnThresholdBackward", CASES, backward)


# ---- results that exceed the caches


class Large(unittest.TestCase):
    """Contiguous results of 8 MiB and more are stored differently. They must equal smaller results to the last element,
    for all types, tails, offsets and broadcasts."""

    def check(self, op, inputs, out, expected, *scalars):
        run(op, *inputs, *scalars, out)
        ref.check_equal(out.get().reshape(-1), np.broadcast_to(expected, out.shape).reshape(-1), f"{op} {out.dtype}")

    def values(self, dtype, shape):
        count = np.arange(int(np.prod(shape))).reshape(shape)
        return (count % 251 - 125).astype(np.float32 if dtype.kind == "f" else dtype.storage)

    def test_unary(self):
        for dtype, n in ((F32, (2 << 20) + 37), (BF16, (4 << 20) + 1001), (F16, 4 << 20),
                         (I32, (2 << 20) + 1), (I64, 1 << 20)):
            for offset in (0, 3, 64):
                x = self.values(dtype, (n,))
                out = Tensor(dtype, (n,), offset=offset)
                self.check("aclnnNeg", [Tensor.of(dtype, x)], out, -x)

    def test_broadcast(self):
        for dtype, shape in ((F32, (2050, 1024)), (BF16, (2050, 4096)), (F32, (2100, 1001))):
            x, row = self.values(dtype, shape), self.values(dtype, shape[1:])
            out = Tensor(dtype, shape)
            self.check("aclnnMaximum", [Tensor.of(dtype, x), Tensor.of(dtype, row)], out, np.maximum(x, row))

    def test_converted(self):
        x = self.values(F32, ((8 << 20) + 5,))
        for dtype in (BF16, U8, F64):
            self.check("aclnnCast", [Tensor.of(F32, x % 100)], Tensor(dtype, x.shape), x % 100, dtype.code)

    def test_in_place(self):
        x = self.values(F32, ((2 << 20) + 37,))
        t = Tensor.of(F32, x)
        run("aclnnInplaceNeg", t)
        ref.check_equal(t.get(), -x, "in place")


class BroadcastRows(unittest.TestCase):
    """Operands that are constant along rows, or repeat a row, for lengths of rows and numbers of elements on both sides
    of what the engine treats differently."""
    SHAPES = (((5, 37, 49), (37, 1)), ((64, 130, 49), (130, 1)), ((3, 50, 200), (50, 1)), ((3, 50, 200), (3, 1, 1)),
              ((9, 300), (9, 1)), ((2, 5000), (2, 1)), ((6, 64, 128), (6, 1, 128)), ((4, 33, 100), (4, 1, 100)),
              ((700, 3), (3,)), ((2, 90, 17), (90, 1)), ((40, 15), (1, 15)), ((1100, 2), (1100, 1)))
    FUNCTIONS = (("Add", lambda x, y: x + 3 * y), ("Sub", lambda x, y: x - 3 * y), ("Mul", lambda x, y: x * y),
                 ("Div", lambda x, y: x / y), ("Maximum", np.maximum), ("Minimum", np.minimum))

    def test_either_operand(self):
        rng = np.random.default_rng(3)
        for large, small in self.SHAPES:
            for d in (F32, F64, I32, I64):
                x, y = (rng.integers(1, 50, s).astype(d.values) for s in (large, small))
                for name, function in self.FUNCTIONS:
                    if name == "Div" and d.kind != "f":
                        continue
                    factor = [Scalar(3, I64)] if name in ("Add", "Sub") else []
                    for a, b in ((x, y), (y, x)):
                        out = Tensor.empty(d, large)
                        run("aclnn" + name, Tensor.of(d, a), Tensor.of(d, b), *factor, out)
                        ref.check_equal(out.get(), function(a, b), f"{name} of {d}, {a.shape} and {b.shape}")

    def test_copies(self):
        """Nothing is written behind the copy."""
        for large, small in self.SHAPES:
            for to, of in ((F32, F32), (F64, F64), (F32, F16), (F64, F32), (I32, I32)):
                y = np.arange(1, 1 + np.prod(small)).reshape(small) % 100
                out = Tensor.empty(to, large)
                run("aclnnInplaceCopy", out, Tensor.of(of, y.astype(of.values)))
                ref.check_equal(out.get(), np.broadcast_to(y, large), f"{of} {small} to {to} {large}")

    def test_special_values(self):
        """Constants that are not numbers, infinite or negative zeros give the same as elsewhere."""
        x = np.array([1, -1, 0, -0.0, np.inf, -np.inf, np.nan] * 40, np.float32)
        y = np.array([[0.0], [-0.0], [np.inf], [np.nan], [-2]], np.float32)
        with np.errstate(all="ignore"):
            for name, function in self.FUNCTIONS[2:]:
                out = Tensor.empty(F32, (5, x.size))
                run("aclnn" + name, Tensor.of(F32, np.broadcast_to(x, (5, x.size)).copy()), Tensor.of(F32, y), out)
                ref.check_equal(out.get(), function(x, y), name)


if __name__ == "__main__":
    unittest.main()
