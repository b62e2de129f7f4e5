# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of two and three operands that test_elementwise.py does not cover, each a row of a table."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, AclError, Scalar, Tensor, run
from dtypes import (ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I8, I16, I32, I64, INTS, LD, U8, computed_in,
                    promote, promote_scalar)
from gen import each_case

CASES = 60
NUMBERS = FLOATS64 + INTS


# ---- the functions, in long double or exact integers

def by_parts(integers, floats):
    """A function of two arrays: `integers` of Python's integers (wrapped afterwards), or `floats` of long doubles."""
    def function(x, y):
        if x.dtype == LD:
            return floats(x, y)
        wide = np.broadcast_arrays(*(np.asarray(v).astype(object) for v in (x, y)))
        return np.vectorize(integers, otypes=[object])(*wide) if wide[0].size else wide[0]
    return function


def int_trunc(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def int_fmod(a, b):
    return 0 if b == 0 else a - int_trunc(a, b) * b


def int_power(a, b):
    return pow(int(a), int(b), 2 ** 64) if b >= 0 else {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def float_floor(x, y):
    r = np.fmod(x, y)                                            # exact, unlike the quotient
    q = np.rint((x - r) / y) - ((r != 0) & ((r < 0) != (y < 0)))
    q = np.where(np.isinf(y) & np.isfinite(x), np.where((x != 0) & ((x < 0) != (y < 0)), -1, 0), q)
    return np.where(y == 0, x / y, q)


def float_remainder(x, y):
    r = np.fmod(x, y)
    return np.where((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def log_add(x, y, log, exp):
    top, low = np.maximum(x, y), np.minimum(x, y)
    return np.where((x == y) & np.isinf(x), x, top + log(exp(low - top)))


def xlogy(x, y):
    return np.where((x == 0) & ~np.isnan(y), LD(0), x * np.log(y))


def shift_left(a, b):
    return a << b if 0 <= b < 64 else 0


def shift_right(a, b):
    return a >> min(max(b, 0), 63)


# limit: maximum magnitude of float operands; slack(x, y, result, unit): error of intermediate roundings, where unit is
# the type's ulp; small: maximum magnitude of integers as right operands
Row = namedtuple("Row", "tensors scalar swapped function dtypes result ulps limit slack small")


def row(tensors, scalar, swapped, function, dtypes=NUMBERS, result=None, ulps=2, limit=None, slack=None, small=None):
    return Row(tensors, scalar, swapped, function, dtypes, result, ulps, limit, slack, small)


ROWS = (
    row("FloorDivide", "FloorDivides", None, by_parts(lambda a, b: 0 if b == 0 else a // b, float_floor), ulps=2),
    row("FmodTensor", "FmodScalar", None, by_parts(int_fmod, np.fmod), ulps=0.5),
    row("RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor",
        by_parts(lambda a, b: a if b == 0 else a % b, float_remainder), ulps=0.5),
    row("PowTensorTensor", None, "PowScalarTensor", by_parts(int_power, np.power), limit=30, small=9),
    row("Atan2", None, None, np.arctan2, result="float"),
    row("LogAddExp", None, None, lambda x, y: log_add(x, y, np.log1p, np.exp), FLOATS64, limit=200,
        slack=lambda x, y, unit: 1e-10 if unit(LD(1)) > 1e-10 else 4 * unit(np.maximum(abs(x), abs(y)) + 1)),
    row("LogAddExp2", None, None, lambda x, y: log_add(x, y, lambda v: np.log1p(v) / np.log(LD(2)), np.exp2), FLOATS64,
        limit=200,
        slack=lambda x, y, unit: 1e-10 if unit(LD(1)) > 1e-10 else 4 * unit(np.maximum(abs(x), abs(y)) + 1)),
    row("XLogYTensor", "XLogYScalarOther", "XLogYScalarSelf", xlogy, result="float", limit=1000),
    row("BitwiseAndTensor", "BitwiseAndScalar", None, np.bitwise_and, INTS + (BOOL,)),
    row("BitwiseAndTensorOut", None, None, np.bitwise_and, INTS + (BOOL,)),
    row("BitwiseOrTensor", "BitwiseOrScalar", None, np.bitwise_or, INTS + (BOOL,)),
    row("BitwiseXorTensor", "BitwiseXorScalar", None, np.bitwise_xor, INTS + (BOOL,)),
    row("LeftShift", "LeftShifts", None, by_parts(shift_left, None), INTS, small=70),
    row("RightShift", None, None, by_parts(shift_right, None), INTS, small=70),
    row("Gcd", None, None, by_parts(lambda a, b: int(np.gcd(a, b)), None), INTS, small=10000),
    row("MulNoNan", None, None, lambda x, y: np.where(y == 0, y.dtype.type(0), x * y), ulps=0.5),
    row("LogicalOr", None, None, lambda x, y: (x != 0) | (y != 0), ALL, result="bool"),
    row("LogicalXor", None, None, lambda x, y: (x != 0) ^ (y != 0), ALL, result="bool"),
    row("LogicalAnd", None, None, lambda x, y: (x != 0) & (y != 0), ALL, result="bool"),
    row("NeTensor", "NeScalar", None, np.not_equal, ALL, result="bool"),
    row("EqTensor", "EqScalar", None, np.equal, ALL, result="bool"),
    row("GtTensor", "GtScalar", None, np.greater, ALL, result="bool"),
    row("LtTensor", "LtScalar", None, np.less, ALL, result="bool"),
    row("GeTensor", "GeScalar", None, np.greater_equal, ALL, result="bool"),
    row("LeTensor", "LeScalar", None, np.less_equal, ALL, result="bool"),
    row("ClampMinTensor", "ClampMin", None, np.maximum, ulps=0.5),
    row("ClampMaxTensor", "ClampMax", None, np.minimum, ulps=0.5),
)
INPLACE = {"FloorDivide", "FloorDivides", "FmodTensor", "FmodScalar", "RemainderTensorTensor", "RemainderTensorScalar",
           "PowTensorTensor", "Atan2", "XLogYTensor", "XLogYScalarOther", "BitwiseAndTensor", "BitwiseAndTensorOut",
           "BitwiseAndScalar", "BitwiseOrTensor", "BitwiseOrScalar", "BitwiseXorTensor", "BitwiseXorScalar",
           "LogicalOr", "LogicalAnd", "ClampMinTensor", "ClampMaxTensor", "ClampMax"} | {
               c + kind for c in ("Ne", "Eq", "Gt", "Lt", "Ge", "Le") for kind in ("Tensor", "Scalar")}

# An integer tensor and an integer scalar promote to a type that holds both.
WIDENED = {"FloorDivides", "FmodScalar", "BitwiseAndScalar", "BitwiseOrScalar", "BitwiseXorScalar", "LeftShifts",
           "GtScalar", "LtScalar", "GeScalar", "LeScalar"}
# Beside 16-bit floats the scalar is used as a float; for other operators it is rounded to the tensor's type.
WHOLE = {"FloorDivides", "FmodScalar", "XLogYScalarOther", "XLogYScalarSelf", "GtScalar", "GeScalar", "ClampMin",
         "ClampMax"}


def result_of(r, common):
    """(type that the library computes in, type of the result)."""
    if r.result == "bool":
        return common, BOOL
    if r.result == "float" and common.kind != "f":
        return F32, F32
    return common, common


def exactly(values, source, common):
    """An operand in the common type, floats as long double; scalars are long doubles already."""
    if np.asarray(values).dtype == LD:
        return values
    v = ref.to_type(np.asarray(values), source, common)
    return v.astype(LD) if common.kind == "f" else v


def wrapped(values, d):
    """Python integers, or a NumPy array, converted to d; integers wrap."""
    values = np.asarray(values)
    if values.dtype == object and d.kind == "i":
        bits = 8 * d.size
        return np.vectorize(lambda v: (int(v) + 2 ** (bits - 1)) % 2 ** bits - 2 ** (bits - 1) if d.min < 0
                            else int(v) % 2 ** bits, otypes=[object])(values).astype(d.values) if values.size \
            else values.astype(d.values)
    return values


class Functions(unittest.TestCase):
    def test_tensors(self):
        for r in ROWS:
            each_case(self, r.tensors, CASES, lambda gen, r=r: self.tensors(gen, r, False))
            if r.tensors in INPLACE:
                each_case(self, "Inplace" + r.tensors, CASES // 2, lambda gen, r=r: self.tensors(gen, r, True))

    def test_scalars(self):
        for r in ROWS:
            if r.scalar:
                each_case(self, r.scalar, CASES, lambda gen, r=r: self.scalars(gen, r, False, False))
                if r.scalar in INPLACE:
                    each_case(self, "Inplace" + r.scalar, CASES // 2,
                              lambda gen, r=r: self.scalars(gen, r, False, True))
            if r.swapped:
                each_case(self, r.swapped, CASES, lambda gen, r=r: self.scalars(gen, r, True, False))

    def draw(self, gen, r, d, common, second):
        def values(shape):
            if d.kind == "i":
                limit = r.small if second and r.small else {F32: 2 ** 20, F64: 2 ** 50}.get(common, 100) \
                    if common.kind == "f" else None
            else:
                limit = r.limit
            return gen.values(d, shape, limit=limit)
        return values

    def tensors(self, gen, r, inplace):
        shape = gen.shape()
        sa, sb = (shape, gen.shrunk(shape)) if inplace else gen.broadcast_pair(shape)
        mixed = gen.chance(0.3)
        while True:
            a = gen.pick(r.dtypes)
            b = gen.pick(r.dtypes) if mixed else a
            common = promote(a, b)
            computed, result = result_of(r, common)
            if not inplace or result is BOOL or "bif".index(result.kind) <= "bif".index(a.kind):
                break
        draw_a, draw_b = self.draw(gen, r, a, computed, False), self.draw(gen, r, b, computed, True)
        x = gen.out(a, shape, draw_a(shape)) if inplace else gen.drawn(a, sa, draw_a)
        y = gen.drawn(b, sb, draw_b)
        self.check(gen, r, ("Inplace" if inplace else "") + r.tensors, [x, y], [(x.get(), a), (y.get(), b)], shape,
                   computed, result, x if inplace else None)

    def scalars(self, gen, r, swapped, inplace):
        while True:
            a, s = gen.pick(r.dtypes), gen.pick((F64, F32, I64, I16))
            if s.kind == "f" and F32 not in r.dtypes:
                continue
            widened = r.scalar in WIDENED and a.kind == s.kind == "i"
            common = promote(a, s) if widened else promote_scalar(a, s)
            computed, result = result_of(r, common)
            if not inplace or result is BOOL or "bif".index(result.kind) <= "bif".index(a.kind):
                break
        low = 0 if computed is U8 or "Pow" in r.tensors and computed.kind == "i" and not swapped else -20
        value = gen.integer(low, 20) / (gen.pick((4, 10)) if s.kind == "f" else 1)
        if widened and s is I64 and gen.chance(0.3):
            value = gen.pick((-1, 1)) * 2 ** 32 + value
        shape = gen.shape()
        values = self.draw(gen, r, a, computed, swapped)
        x = gen.out(a, shape, values(shape)) if inplace else gen.drawn(a, shape, values)
        scalar = Scalar(value, s)
        args = [scalar, x] if swapped else [x, scalar]
        given = np.asarray(value, s.values)
        if computed.kind == "f":
            whole = (r.swapped if swapped else r.scalar) in WHOLE
            given = ref.to_type(given, s, computed_in(computed) if whole else computed).astype(LD)
        pairs = [(x.get(), a), (given, s)]
        self.check(gen, r, r.swapped if swapped else ("Inplace" if inplace else "") + r.scalar, args,
                   pairs[::-1] if swapped else pairs, shape, computed, result, x if inplace else None)

    def check(self, gen, r, op, args, pairs, shape, computed, result, target):
        out = target
        if out is None:
            kinds = {"f": FLOATS64, "i": INTS + (F32, F64), "b": ALL}[result.kind]
            out = gen.out(result if gen.chance(0.75) else gen.pick(kinds), shape)
            args = args + [out]
        run("aclnn" + op, *args)
        a, b = (exactly(v, d, computed) for v, d in pairs)
        expected = np.broadcast_to(np.asarray(wrapped(r.function(a, b), computed)), shape)
        what = f"{op} of {computed}"
        if result.kind != "f" or out.dtype.kind != "f":
            ref.check_equal(out.get(), ref.to_type(expected, result, out.dtype), what)
            return
        computing = computed_in(computed)
        slack = 0
        if r.slack:
            slack = np.nan_to_num(r.slack(*np.broadcast_arrays(a, b), computing.ulp), nan=0, posinf=0)
        ref.check(out.get(), expected, out.dtype, computing, ulps=r.ulps, slack=slack, what=what, via=result)


class Powers(unittest.TestCase):
    def scalar(self, gen):
        """PowTensorScalar, including the exponents that have functions of their own."""
        d = gen.pick(NUMBERS)
        integer = d.kind == "i" and gen.chance(0.6)
        exponent = gen.integer(0, 9) if integer else gen.pick((2, 0.5, -1, 3, -0.5, 1.75, 0, -2.5))
        kind = I64 if integer else gen.pick((F32, F64))
        common = promote_scalar(d, kind)
        shape, inplace = gen.shape(), gen.chance(0.3) and common.kind == d.kind
        values = gen.values(d, shape, limit=30 if common.kind == "f" else None)
        x = gen.out(d, shape, values)
        before, out = x.get().copy(), x if inplace else gen.out(common, shape)
        if inplace:
            run("aclnnInplacePowTensorScalar", x, Scalar(exponent, kind))
        else:
            run("aclnnPowTensorScalar", x, Scalar(exponent, kind), out)
        if common.kind == "i":
            wide = np.asarray(before.astype(object) ** exponent, object) if before.size else before
            ref.check_equal(out.get(), wrapped(wide, common), f"power {exponent} of {d}")
        else:
            exact = np.power(ref.to_type(before, d, computed_in(common)).astype(LD), LD(exponent))
            ref.check(out.get(), exact, common, computed_in(common), what=f"power {exponent} of {d}")

    def test_all(self):
        each_case(self, "aclnnPowTensorScalar", 2 * CASES, self.scalar)

    def test_special(self):
        """pow agrees with C's for every pair of special values."""
        odd = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-40, np.inf, -np.inf, np.nan, 2.0 ** 24,
                        2.0 ** 24 - 1, -1.0000001, 1e38, -1e38], np.float32)
        x, y = (v.ravel() for v in np.meshgrid(odd, odd))
        for d in (F32, F64):
            out = Tensor.empty(d, x.shape)
            run("aclnnPowTensorTensor", Tensor.of(d, x.astype(d.values)), Tensor.of(d, y.astype(d.values)), out)
            ref.check(out.get(), np.power(x.astype(LD), y.astype(LD)), d, zero_sign=True, what="x ** y")

    def test_negative_exponent_of_integers(self):
        with self.assertRaisesRegex(AclError, "exponent is -1, expected 0 or more as self has dtype INT32"):
            run("aclnnPowTensorScalar", Tensor.of(I32, [1]), Scalar(-1, I64), Tensor.empty(I32, (1,)))
        out = Tensor.empty(I32, (5,))
        run("aclnnPowTensorTensor", Tensor.of(I32, [2, 1, -1, -1, 0]), Tensor.of(I32, [-1, -5, -3, -4, -1]), out)
        ref.check_equal(out.get(), [0, 1, -1, 1, 0])

    def test_ggml_slopes(self):
        """The slopes of ggml's ALiBi: a scalar to the power of float16 values."""
        out = Tensor.empty(F16, (8,))
        run("aclnnPowScalarTensor", Scalar(0.25, F32), Tensor.of(F16, np.arange(1, 9, dtype=np.float16)), out)
        ref.check_equal(out.get(), F16.round(LD(0.25) ** np.arange(1, 9)))


class Divisions(unittest.TestCase):
    def modes(self, gen):
        op = gen.pick(("DivMod", "DivMods", "DivV3", "InplaceDivMod", "InplaceDivMods"))
        mode, d = gen.integer(0, 2), gen.pick(NUMBERS)
        inplace, scalar = "Inplace" in op, op.endswith("s")
        common = F32 if mode == 0 and d.kind == "i" else d
        if inplace and common is not d:
            return
        shape = gen.shape()
        x = gen.out(d, shape, gen.values(d, shape, limit=10000))
        value = gen.integer(1, 20)
        y = Scalar(value, I64) if scalar else gen.drawn(d, shape if inplace else gen.shrunk(shape),
                                                        lambda s: gen.values(d, s, limit=50))
        a, b = x.get().copy(), np.asarray(value) if scalar else y.get()
        out = x if inplace else gen.out(common, shape)
        run("aclnn" + op, x, y, mode, *([] if inplace else [out]))
        if common.kind == "i":
            divide = {1: int_trunc, 2: lambda u, v: 0 if v == 0 else u // v}[mode]
            expected = wrapped(by_parts(divide, None)(a, b.astype(d.values)), d)
            ref.check_equal(out.get(), np.broadcast_to(expected, shape), f"{op} mode {mode}")
            return
        computing = computed_in(common)
        a, b = (ref.to_type(v, d, computing).astype(LD) for v in (a, b))
        quotient = np.broadcast_to(a / b, shape)
        if mode == 2:
            quotient = np.broadcast_to(float_floor(a, b), shape)
        elif mode == 1:                                 # truncates the rounded quotient, as PyTorch does
            quotient = np.trunc(computing.round(quotient).astype(LD))
        ref.check(out.get(), quotient, common, computing, ulps=0.5, what=f"{op} mode {mode}")

    def test_modes(self):
        each_case(self, "aclnnDivMod", 4 * CASES, self.modes)

    def test_floor_of_infinities(self):
        inf, nan = np.inf, np.nan
        x, y = np.array([[inf, 1], [-inf, 1], [1, inf], [1, -inf], [0, -inf], [inf, 0], [-1, 0], [0, 0], [nan, 1],
                         [1, nan], [inf, inf], [-1e-45, 3e38]], np.float32).T
        for d in (F32, F64):
            out = Tensor.empty(d, x.shape)
            run("aclnnFloorDivide", Tensor.of(d, x.astype(d.values)), Tensor.of(d, y.astype(d.values)), out)
            ref.check_equal(out.get(), [nan, nan, 0, -1, 0, inf, -inf, nan, nan, nan, nan, -1])

    def test_smallest_integer(self):
        """The quotient of the smallest integer and -1 wraps; nothing traps."""
        for d in (I32, I64, I8):
            for op, expected in (("FloorDivide", d.min), ("FmodTensor", 0), ("RemainderTensorTensor", 0)):
                out = Tensor.empty(d, (1,))
                run("aclnn" + op, Tensor.of(d, [d.min]), Tensor.of(d, [-1]), out)
                ref.check_equal(out.get(), [expected], f"{op} of {d}")

    def into_integers(self, gen):
        """Quotients, angles and logarithms of integers are floats; an integer output truncates them."""
        op, exact = gen.pick((("Div", np.divide), ("Divs", np.divide), ("DivMod", np.divide), ("DivMods", np.divide),
                              ("Atan2", np.arctan2), ("XLogYTensor", xlogy)))
        d, shape, inplace = gen.pick(INTS + (BOOL,)), gen.shape(), gen.chance(0.4)
        x = gen.out(d, shape, gen.values(d, shape, limit=2 ** 20))
        a = x.get()
        if op[-1] == "s":
            value = d.values.type(gen.pick((1, 3, 7)) if d is not BOOL else gen.chance(0.5))
            y, b = Scalar(value, d), np.asarray(value)
        else:
            y = gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s, limit=50))
            b = y.get()
        out = x if inplace else gen.out(gen.pick(INTS + (BOOL,) if d is BOOL else INTS), shape)
        run(f"aclnn{'Inplace' if inplace else ''}{op}", x, y, *([0] if "Mod" in op else []),
            *([] if inplace else [out]))
        result = np.broadcast_to(exact(*(v.astype(np.float32).astype(LD) for v in (a, b))), shape)
        ref.check_truncated(out.get(), result, out.dtype, 0.5 if exact is np.divide else 2, what=f"{op} of {d}")

    def floors_of_bools(self, gen):
        """Rounded quotients of bools are computed in float and stored in any type."""
        op, mode = gen.pick((("FloorDivide", None), ("FloorDivides", None), ("DivMod", 1), ("DivMods", 2)))
        shape, inplace = gen.shape(), gen.chance(0.3)
        x = gen.out(BOOL, shape, gen.values(BOOL, shape))
        value = gen.chance(0.5)
        y = Scalar(value, BOOL) if op[-1] == "s" else gen.tensor(BOOL, shape)
        a, b = x.get().astype(LD), np.asarray(value) if op[-1] == "s" else y.get()
        out = x if inplace else gen.out(gen.pick(ALL), shape)
        run(f"aclnn{'Inplace' if inplace else ''}{op}", x, y, *([] if mode is None else [mode]),
            *([] if inplace else [out]))
        exact = np.broadcast_to(a / b.astype(LD), shape)
        if out.dtype.kind == "f":
            ref.check(out.get(), exact, out.dtype, ulps=0.5, what=op)
        else:
            ref.check_truncated(out.get(), exact, out.dtype, 0.5, what=op)

    def test_into_integers(self):
        each_case(self, "quotients of integers", 4 * CASES, self.into_integers)
        each_case(self, "floors of bools", CASES, self.floors_of_bools)

    def test_mode_is_checked(self):
        with self.assertRaisesRegex(AclError, "mode is 3, expected 0"):
            run("aclnnDivMod", Tensor.of(F32, [1]), Tensor.of(F32, [1]), 3, Tensor.empty(F32, (1,)))


class Ternary(unittest.TestCase):
    FUNCTIONS = {
        "Addcmul": (lambda x, y, z, v: x + v * y * z, lambda x, y, z, v: abs(v * y * z)),
        "Addcdiv": (lambda x, y, z, v: x + v * y / z, lambda x, y, z, v: abs(v * y / z)),
        "Lerp": (lambda x, y, z, v: x + z * (y - x), lambda x, y, z, v: (1 + abs(z)) * (abs(x) + abs(y))),
        "Lerps": (lambda x, y, z, v: x + v * (y - x), lambda x, y, z, v: (1 + abs(v)) * (abs(x) + abs(y))),
    }

    def case(self, gen, op):
        function, scale = self.FUNCTIONS[op]
        d, shape, inplace = gen.pick(FLOATS64), gen.shape(), op == "Lerp" and gen.chance(0.3)
        x = gen.out(d, shape, gen.values(d, shape, limit=100))
        others = [gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s, limit=100))
                  for _ in range(1 if op == "Lerps" else 2)]
        if op == "Addcdiv":
            away = np.where(abs(others[1].get()) < 0.1, d.values.type(0.75), others[1].get()).astype(d.values)
            others[1] = gen.tensor(d, away.shape, away)
        value = Scalar(gen.integer(-16, 16) / 8, gen.pick((F32, F64)))
        wide = [t.get().astype(LD) for t in (x, *others)] + [LD(0)] * (op == "Lerps") + [LD(value.value)]
        out = x if inplace else gen.out(d, shape)
        args = [x, *others] + ([] if op == "Lerp" else [value]) + ([] if inplace else [out])
        run(f"aclnn{'Inplace' if inplace else ''}{op}", *args)
        exact = np.broadcast_to(function(*wide), shape)
        slack = 2 * computed_in(d).ulp(np.broadcast_to(scale(*wide), shape))
        ref.check(out.get(), exact, d, computed_in(d), slack=slack, what=op)

    def alphas(self, gen):
        """Rsub, Rsubs, AddRelu, AddV3 and InplaceSubs with an alpha."""
        op = gen.pick(("Rsub", "Rsubs", "AddRelu", "InplaceAddRelu", "AddV3", "InplaceSubs"))
        d, shape = gen.pick(NUMBERS), gen.shape()
        alpha, value = gen.integer(0, 3), gen.integer(0, 20)
        x = gen.out(d, shape, gen.values(d, shape, limit=100))
        a, other = x.get().copy(), None
        if op in ("Rsub", "AddRelu", "InplaceAddRelu"):
            other = gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s, limit=100))
            b = other.get()
        else:
            other, b = Scalar(value, I64), np.asarray(value).astype(d.values)
        wider = gen.pick((d, I64)) if "Relu" in op and d.kind == "i" else d
        out = x if "Inplace" in op else gen.out(wider, shape)
        run("aclnn" + op, *((other, x) if op == "AddV3" else (x, other)), Scalar(alpha, I64),
            *([] if out is x else [out]))
        a, b = (v.astype(LD if d.kind == "f" else object) for v in (a, np.asarray(b)))
        exact = {"Rsub": b - alpha * a, "Rsubs": b - alpha * a, "AddV3": b + alpha * a,
                 "InplaceSubs": a - alpha * b}.get(op, a + alpha * b)
        exact = np.broadcast_to(np.asarray(exact), shape)
        if d.kind == "i":
            exact = wrapped(np.asarray(exact, object), d)
        if "Relu" in op:
            exact = np.maximum(exact, 0)
        if d.kind == "i":
            ref.check_equal(out.get(), exact, op)
        else:
            ref.check(out.get(), exact, d, computed_in(d), ulps=0.5, slack=computed_in(d).ulp(LD(300)), what=op)

    def of_integers(self, gen):
        """Addcdiv of integers stays in integers: the quotient is truncated, and a quotient by 0 is 0."""
        d, shape, inplace = gen.pick(INTS), gen.shape(), gen.chance(0.4)
        x = gen.out(d, shape, gen.values(d, shape))
        y, z = (gen.drawn(d, gen.shrunk(shape), lambda s, n=n: gen.values(d, s, limit=n)) for n in (10000, 9))
        factor = gen.integer(0, 5)
        a, b, c = (v.astype(object) for v in (x.get(), y.get(), z.get()))
        out = x if inplace else gen.out(d, shape)
        run(f"aclnn{'Inplace' if inplace else ''}Addcdiv", x, y, z, Scalar(factor, I64), *([] if inplace else [out]))
        quotient = by_parts(int_trunc, None)(b, c)
        sums = np.asarray(a + factor * np.broadcast_to(quotient, shape), object)
        ref.check_equal(out.get(), wrapped(sums, d), "Addcdiv")

    def clamps(self, gen):
        op = gen.pick(("Clamp", "ClampTensor"))
        d, shape = gen.pick(NUMBERS), gen.shape()
        x = gen.tensor(d, shape)
        low, high = sorted(gen.integer(0 if d is U8 else -20, 20) for _ in range(2))
        out = gen.out(d, shape)
        which = gen.integer(0, 2)
        if op == "Clamp":
            kind = I64 if d.kind == "i" else gen.pick((F32, F64, I64))
            bounds = [Scalar(low, kind) if which != 1 else None, Scalar(high, kind) if which != 2 else None]
            lows, highs = (np.asarray(b.value if b else v) for b, v in zip(bounds, (-np.inf, np.inf)))
            if d.kind == "i":
                lows, highs = (np.asarray(b.value if b else v) for b, v in zip(bounds, (d.min, d.max)))
        else:
            bounds = [gen.drawn(d, gen.shrunk(shape), lambda s: gen.values(d, s)) if which != k else None
                      for k in (1, 0)]
            ends = (d.min, d.max) if d.kind == "i" else (-np.inf, np.inf)
            lows, highs = (b.get() if b else np.asarray(v) for b, v in zip(bounds, ends))
        run("aclnn" + op, x, *bounds, out)
        expected = np.minimum(np.maximum(x.get(), lows.astype(d.values)), highs.astype(d.values))
        ref.check_equal(out.get(), np.broadcast_to(expected, shape), op)

    def selections(self, gen):
        op = gen.pick(("SWhere", "InplaceMaskedFillScalar", "InplaceMaskedFillTensor"))
        d, shape = gen.pick(ALL), gen.shape()
        m = gen.pick((BOOL, BOOL, U8))
        mask = gen.drawn(m, gen.shrunk(shape), lambda s: gen.rng.random(s) < 0.5)
        hit = mask.get() != 0
        if op == "SWhere":
            other = gen.pick(ALL) if gen.chance(0.3) else d
            common = promote(d, other)
            limits = {F32: 2 ** 20, F64: 2 ** 50}       # of integers that a float type holds exactly
            x, y = (gen.drawn(t, gen.shrunk(shape), lambda s, t=t: gen.values(
                t, s, limit=limits.get(common, 100) if t.kind == "i" and common.kind == "f" else None))
                    for t in (d, other))
            shape = np.broadcast_shapes(mask.shape, x.shape, y.shape)
            out = gen.out(common, shape)
            run("aclnnSWhere", mask, x, y, out)
            expected = np.where(hit, *(ref.to_type(t.get(), t.dtype, common) for t in (x, y)))
        else:
            out = gen.out(d, shape, gen.values(d, shape))
            value = gen.integer(0, 20)
            value = value != 0 if d is BOOL else value
            kind = BOOL if d is BOOL else gen.pick((I64, F32, F64))
            expected = np.where(hit, d.values.type(value), out.get())
            given = Scalar(value, kind) if "Scalar" in op else \
                gen.tensor(kind, (), np.asarray(value))
            run("aclnn" + op, out, mask, given)
        ref.check_equal(out.get(), np.broadcast_to(expected, shape), op)

    def masked_scale(self, gen):
        d, m, shape = gen.pick(FLOATS), gen.pick((U8, I8, F32, F16)), gen.shape()
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
        mask = gen.drawn(m, shape, lambda s: gen.rng.integers(0, 2, s))
        out = gen.out(d, shape)
        run("aclnnMaskedScale", x, mask, 1.25, out)
        ref.check(out.get(), x.get().astype(LD) * mask.get() * LD(1.25), d, F32, ulps=0.5)

    def test_all(self):
        for op in self.FUNCTIONS:
            each_case(self, "aclnn" + op, CASES, lambda gen, op=op: self.case(gen, op))
        each_case(self, "factors", 3 * CASES, self.alphas)
        each_case(self, "clamps", 2 * CASES, self.clamps)
        each_case(self, "Addcdiv of integers", CASES, self.of_integers)
        each_case(self, "selections", 3 * CASES, self.selections)
        each_case(self, "aclnnMaskedScale", CASES // 2, self.masked_scale)

    def test_bounds_of_integers_are_cut(self):
        for op, bounds, expected in (("Clamp", (1.5, 3.7), [1, 3]),
                                     ("Clamp", (None, 3.7), [0, 3]),
                                     ("ClampMin", (2.7,), [2, 5]),
                                     ("ClampMax", (2.7,), [0, 2]),
                                     ("Clamp", (-np.inf, 1e10), [0, 5])):
            out = Tensor.empty(I32, (2,))
            given = (Scalar(v, F32) if v is not None else None for v in bounds)
            run("aclnn" + op, Tensor.of(I32, [0, 5]), *given, out)
            ref.check_equal(out.get(), expected, f"{op} of {bounds}")

    def test_ggml_clamp(self):
        out = Tensor.empty(F16, (1, 1, 2, 3))
        run("aclnnClamp", Tensor.of(F16, np.array([[[[-3, -0.5, 0], [0.25, np.nan, np.inf]]]])), Scalar(-0.5, F32),
            Scalar(np.inf, F32), out)
        ref.check_equal(out.get()[0, 0], [[-0.5, -0.5, 0], [0.25, np.nan, np.inf]])


class Comparisons(unittest.TestCase):
    def is_close(self, gen):
        d, shape = gen.pick(ALL), gen.shape()
        rtol, atol, equal_nan = gen.pick((0.0, 1e-5, 0.1)), gen.pick((0.0, 1e-8, 0.5)), gen.chance(0.5)
        x = gen.tensor(d, shape)
        near = x.get().copy()
        if d.kind == "f":
            near = np.where(gen.rng.random(shape) < 0.5, near, d.round(near.astype(LD) * LD(1.05))).astype(d.values)
        elif d.kind == "i":
            near = np.where(gen.rng.random(shape) < 0.5, near, near ^ 1).astype(d.values)
        y, out = gen.tensor(d, shape, near), gen.out(BOOL, shape)
        run("aclnnIsClose", x, y, rtol, atol, equal_nan, out)
        a, b = (v.astype(LD) for v in (x.get(), near))
        c = computed_in(d)
        allowed = c.values.type(atol).astype(LD) + abs(c.values.type(rtol).astype(LD) * b)
        expected = (a == b) | (np.isfinite(b) & (abs(a - b) <= allowed)) | (equal_nan & np.isnan(a) & np.isnan(b))
        # If the difference is within rounding of the bound, both answers are right.
        doubtful = abs(abs(a - b) - allowed) <= abs(b) * LD(2) ** (-20 if c is F32 and d.kind == "f" else -48)
        doubtful &= a != b
        ref.check_equal(np.where(doubtful, expected, out.get()), expected, f"rtol {rtol} atol {atol}")

    def equal(self, gen):
        d, shape = gen.pick(ALL), gen.shape()
        if d.kind == "f":
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
        else:
            x = gen.tensor(d, shape)
        y, out = gen.again(x), gen.out(BOOL, (1,))
        change = gen.pick(("none", "element", "shape", "nan"))
        expected = True
        if change in ("element", "nan") and x.size and (change == "element" or d.kind == "f"):
            v = np.array(x.get())
            i = tuple(gen.integer(0, n - 1) for n in shape)
            v[i] = np.nan if change == "nan" else not v[i] if d is BOOL else v[i] + 1 if d.kind == "f" else v[i] ^ 1
            y, expected = gen.tensor(d, shape, v), False
        elif change == "shape":
            y, expected = gen.tensor(d, shape[1:] if shape else (1,)), False
        run("aclnnEqual", x, y, out)
        ref.check_equal(out.get()[0], expected, change)

    def test_equal_of_two_types(self):
        """The operands are compared in the type that they promote to."""
        for d, other, v, expected in ((F32, I64, [1, 2], True),
                                      (I64, F32, [1, 2.5], False),
                                      (I32, I64, [1, 1 << 32], False),
                                      (BOOL, F16, [1, 0], True),
                                      (F64, F32, [0.5, 0.1], False)):
            x, y = (Tensor.of(t, np.array(v, LD).astype(t.values)) for t in (d, other))
            out = Tensor.empty(BOOL, (1,))
            run("aclnnEqual", x, y, out)
            self.assertEqual(bool(out.get()[0]), expected, f"{d} {other}")

    def approximate(self, gen):
        d, shape = gen.pick(FLOATS), gen.shape()
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=10))
        y, out = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=10)), gen.out(BOOL, shape)
        run("aclnnApproximateEqual", x, y, 1.5, out)
        ref.check_equal(out.get(), abs(x.get().astype(F32.values) - y.get().astype(F32.values)) < np.float32(1.5))

    def test_all(self):
        each_case(self, "aclnnIsClose", 2 * CASES, self.is_close)
        each_case(self, "aclnnEqual", CASES, self.equal)
        each_case(self, "aclnnApproximateEqual", CASES // 2, self.approximate)

    def test_inplace_not(self):
        for d in ALL:
            t = Tensor.of(d, np.array([0, 1, 2, 0]) % (2 if d is BOOL else 3))
            run("aclnnInplaceLogicalNot", t)
            ref.check_equal(t.get(), np.array([1, 0, 0 if d is not BOOL else 1, 1]).astype(d.values))


class Refusals(unittest.TestCase):
    def test_messages(self):
        f, i, b = (Tensor.of(d, [1]) for d in (F32, I32, BOOL))
        one = Scalar(1, I64)
        for words, op, args in (
                ("self has dtype FLOAT, expected an integer", "BitwiseAndTensor", [f, f, f]),
                ("other has dtype FLOAT, expected an integer", "BitwiseOrScalar", [i, Scalar(1.5, F32), f]),
                ("shiftBits has dtype FLOAT", "LeftShift", [i, f, f]),
                ("self has dtype BOOL, expected a number", "FmodTensor", [b, b, i]),
                ("condition", "SWhere", [f, f, f, f]),
                ("mask", "InplaceMaskedFillScalar", [f, i, Scalar(1, I64)]),
                ("out has dtype INT32", "Atan2", [f, f, i]),
                ("out has dtype BOOL", "Div", [i, i, b]),
                ("out has dtype INT32", "FloorDivide", [f, b, i]),
                ("self has dtype BOOL", "AddRelu", [b, b, Scalar(1, I64), b]),
                *(("alpha is FLOAT, expected an integer as what it multiplies is INT32", op,
                   [*args, Scalar(1.5, F32), i])
                  for op, args in (("Add", [i, i]), ("Sub", [i, i]), ("Rsub", [i, i]), ("AddRelu", [i, i]),
                                   ("Adds", [i, one]), ("Subs", [i, one]), ("Rsubs", [i, one]), ("AddV3", [one, i]))),
                ("alpha is DOUBLE, expected an integer as what it multiplies is INT8", "InplaceAddRelu",
                 [Tensor.of(I8, [1]), Tensor.of(I8, [1]), Scalar(1, F64)]),
                ("alpha is FLOAT", "InplaceSubs", [i, one, Scalar(1, F32)]),
                ("alpha is FLOAT, .* is BOOL", "Add", [b, b, Scalar(1, F32), b]),
                *((f"{name} has dtype INT32, expected one of FLOAT", op, args) for name, op, args in (
                    ("other", "IsClose", [f, i, 0.0, 0.0, False, b]),
                    ("end", "Lerp", [f, i, f, f]),
                    ("weight", "Lerp", [f, f, i, f]),
                    ("end", "InplaceLerp", [f, i, f]),
                    ("end", "Lerps", [f, i, one, f]))),
                *((r"selfRef has dtype U?INT\d+, expected another: the result's FLOAT can't be cast", op, args)
                  for d in INTS for t in (Tensor.of(d, [1]),)
                  for op, args in (("InplaceLerp", [t, t, t]), ("InplaceLerps", [t, t, one]))),
                ("mask has shape", "MaskedScale", [Tensor.empty(F32, (2, 2)), Tensor.empty(F32, (2,)), 1.0,
                                                   Tensor.empty(F32, (2, 2))]),
                ("value has 1 dimensions", "InplaceMaskedFillTensor", [f, b, f]),
                ("other has shape", "FmodTensor", [Tensor.empty(F32, (2,)), Tensor.empty(F32, (3,)), f]),
                ("out has shape", "Gcd", [i, i, Tensor.empty(I32, (2,))]),
                (r"out has shape \[\], expected \[1\]", "Equal", [f, f, Tensor.empty(BOOL, ())])):
            with self.subTest(words), self.assertRaisesRegex(AclError, words) as caught:
                run("aclnn" + op, *args)
            self.assertEqual(caught.exception.code, INVALID, words)

    def test_null(self):
        f = Tensor.of(F32, [1])
        for op, args in (("PowTensorScalar", [f, None, f]),
                         ("Clamp", [f, None, None, f]),
                         ("ClampTensor", [f, None, None, f])):
            with self.assertRaises(AclError) as caught:
                run("aclnn" + op, *args)
            self.assertEqual(caught.exception.code, NULLPTR)


if __name__ == "__main__":
    unittest.main()
