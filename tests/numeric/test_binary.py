"""Elementwise operators of two and three operands beyond test_elementwise.py's: a table row each."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, AclError, Scalar, Tensor, run
from dtypes import (ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I8, I32, I64, INTS, LD, U8, computed_in, promote,
                    promote_scalar)
from gen import each_case

CASES = 60
NUMBERS = FLOATS64 + INTS


# ---- the functions, in long double or exact integers

def truncated(x, y):
    """Integer division towards 0; by 0 it gives 0."""
    wide = [np.asarray(v, object) for v in (x, y)]
    return np.vectorize(lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
                        otypes=[object])(*wide)


def floored(x, y):
    return np.vectorize(lambda a, b: 0 if b == 0 else a // b, otypes=[object])(*(np.asarray(v, object) for v in (x, y)))


def by_parts(integers, floats):
    """A function of numbers: one way for Python's integers (wrapped afterwards), another for long double."""
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
    return a >> (b if 0 <= b < 64 else 63)


# limit: of the magnitude of float operands; slack(x, y, result, unit): of intermediate roundings, unit the type's ulp
Row = namedtuple("Row", "tensors scalar swapped function dtypes result ulps limit slack positive small")


def row(tensors, scalar, swapped, function, dtypes=NUMBERS, result=None, ulps=2, limit=None, slack=None, positive=False,
        small=None):
    return Row(tensors, scalar, swapped, function, dtypes, result, ulps, limit, slack, positive, small)


ROWS = (
    row("FloorDivide", "FloorDivides", None, by_parts(lambda a, b: 0 if b == 0 else a // b, float_floor), ulps=1),
    row("FmodTensor", "FmodScalar", None, by_parts(int_fmod, np.fmod), ulps=0.5),
    row("RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor",
        by_parts(lambda a, b: 0 if b == 0 else a % b, float_remainder), ulps=0.5),
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
           "BitwiseAndScalar", "BitwiseOrTensor", "BitwiseOrScalar", "BitwiseXorTensor", "BitwiseXorScalar", "LogicalOr",
           "LogicalAnd", "ClampMinTensor", "ClampMaxTensor", "ClampMax"} | {
               c + kind for c in ("Ne", "Eq", "Gt", "Lt", "Ge", "Le") for kind in ("Tensor", "Scalar")}


def result_of(r, common):
    """(type that is computed in, type of the result)."""
    if r.result == "bool":
        return common, BOOL
    if r.result == "float" and common.kind != "f":
        return F32, F32
    return common, common


def exactly(values, source, common):
    """An operand as the function sees it: in the common type, floats as long double."""
    v = ref.to_type(np.asarray(values), source, common)
    return v.astype(LD) if common.kind == "f" else v


def wrapped(values, d):
    """Python integers, or a NumPy array, as d holds them."""
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
                    each_case(self, "Inplace" + r.scalar, CASES // 2, lambda gen, r=r: self.scalars(gen, r, False, True))
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
            a, s = gen.pick(r.dtypes), gen.pick((F64, F32, I64))
            if s.kind == "f" and F32 not in r.dtypes:
                continue
            common = promote_scalar(a, s)
            computed, result = result_of(r, common)
            if not inplace or result is BOOL or "bif".index(result.kind) <= "bif".index(a.kind):
                break
        low = 0 if computed is U8 or "Pow" in r.tensors and computed.kind == "i" and not swapped else -20
        value = gen.integer(low, 20) / (4 if s.kind == "f" else 1)
        shape = gen.shape()
        values = self.draw(gen, r, a, computed, swapped)
        x = gen.out(a, shape, values(shape)) if inplace else gen.drawn(a, shape, values)
        scalar = Scalar(value, s)
        args = [scalar, x] if swapped else [x, scalar]
        pairs = [(x.get(), a), (np.asarray(value, s.values), s)]
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
        if result.digits < out.dtype.digits:
            slack = slack + result.ulp(expected) / 2
        ref.check(out.get(), expected, out.dtype, computing, ulps=r.ulps, slack=slack, what=what)


if __name__ == "__main__":
    unittest.main()
