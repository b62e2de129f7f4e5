# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, each a row of a table, with random types, shapes and views; in place if CANN has that."""
import math
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import Tensor, refused, run, variants
from dtypes import ALL, BOOL, F16, F32, F64, FLOATS, FLOATS64, I8, I32, I64, INTS, LD, U8
from gen import each_case
from test_elementwise import common_of_integers, exactly, same_bits_elsewhere, verify

CASES = 40


# ---- references in long double, or in the C library's double where NumPy has nothing more precise

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def erfinv(x):
    """The inverse of erf, by bisection."""
    a = np.abs(np.asarray(x, np.float64))
    low, high = np.zeros_like(a), np.full_like(a, 7.0)
    for _ in range(120):
        middle = (low + high) / 2
        below = np.where(a < 0.5, erf(middle) < a, erfc(middle) > 1 - a)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    y = np.where(a == 1, np.inf, np.where(a < 1e-9, a * LD(math.sqrt(math.pi) / 2), middle))
    return np.where(a <= 1, np.copysign(y, x), np.nan).astype(LD)


def sinc(x):
    whole = np.isfinite(x) & (np.rint(x) == x)
    half_turns = np.rint(x)
    rest = x - half_turns                               # exact near whole numbers and for large x, so the phase is kept
    pi = LD("3.14159265358979323846264338327950288")
    y = np.where(np.fmod(half_turns, LD(2)) == 0, 1, -1) * np.sin(pi * rest) / (pi * x)
    return np.where(x == 0, LD(1), np.where(whole | np.isinf(x), LD(0), y))


def round_decimals(x, decimals):
    power = LD(10) ** abs(decimals)
    return np.rint(x * power) / power if decimals >= 0 else np.rint(x / power) * power


Row = namedtuple("Row", "function ulps64 zero_sign")


def row(function, ulps64=3, zero_sign=True):
    return Row(function, ulps64, zero_sign)


# Functions of floats: integers and bools are converted to float32. ulps64: of double results.
FLOAT_FUNCTIONS = {
    "Exp": row(np.exp), "Exp2": row(np.exp2), "Expm1": row(np.expm1), "Log": row(np.log), "Log2": row(np.log2),
    "Log10": row(np.log10), "Log1p": row(np.log1p), "Sqrt": row(np.sqrt), "Rsqrt": row(ref.rsqrt),
    "Reciprocal": row(lambda x: 1 / x), "Sigmoid": row(ref.sigmoid, 4), "Tanh": row(np.tanh),
    "Sin": row(np.sin), "Cos": row(np.cos), "Tan": row(np.tan), "Asin": row(np.arcsin), "Acos": row(np.arccos),
    "Atan": row(np.arctan), "Sinh": row(np.sinh), "Cosh": row(np.cosh), "Asinh": row(np.arcsinh),
    "Acosh": row(np.arccosh), "Atanh": row(np.arctanh), "Sinc": row(sinc, 8, False),
    "Erf": row(erf, 4), "Erfc": row(erfc, 4), "Erfinv": row(erfinv, 40),
}


class FloatFunctions(unittest.TestCase):
    def test_all(self):
        for name, r in FLOAT_FUNCTIONS.items():
            for op in variants(name):
                each_case(self, op, CASES, lambda gen, op=op, r=r: self.case(gen, op, r))

    def values(self, gen, d, shape):
        """Random values, sometimes from -1 to 1, the domain of functions such as erfinv."""
        if d.kind == "f" and gen.chance(0.3):
            return d.round(gen.rng.uniform(-1, 1, shape)).astype(d.values)
        return gen.values(d, shape)

    def case(self, gen, op, r):
        inplace = "Inplace" in op
        d = gen.pick(FLOATS64 if inplace else FLOATS64 + FLOATS + INTS + (BOOL,))
        shape, common = gen.shape(numel=200), d
        if inplace:
            x = y = gen.out(d, shape, self.values(gen, d, shape))
        else:
            x = gen.drawn(d, shape, lambda s: self.values(gen, d, s))
            y = gen.out((d if d.kind == "f" else F32) if gen.chance(0.7) else gen.pick(FLOATS64), shape)
            if d.kind != "f":
                common = common_of_integers(op, d, y.dtype)
        values = x.get()
        run(op, *([x] if inplace else [x, y]))
        exact = r.function(exactly(common, values if d is common else common.round(values.astype(LD))))
        verify(y.get(), np.asarray(exact, LD), common, y.dtype, op, ulps=r.ulps64 if common is F64 else 2,
               zero_sign=r.zero_sign)
        if not inplace:
            same_bits_elsewhere(gen, op, [x], y)

    def test_large_arguments(self):
        """Sine, cosine and tangent of arguments so large that neighbouring floats are several periods apart."""
        rng = np.random.default_rng(5)
        x = np.ldexp(rng.uniform(0.5, 1, 4000), rng.integers(20, 129, 4000)).astype(np.float32)
        x = np.where(np.isfinite(x), x, np.float32(1e38)) * rng.choice([-1, 1], 4000).astype(np.float32)
        for op, function in (("aclnnSin", np.sin), ("aclnnCos", np.cos), ("aclnnTan", np.tan)):
            a, b = Tensor.of(F32, x), Tensor.empty(F32, x.shape)
            run(op, a, b)
            ref.check(b.get(), function(x.astype(LD)), F32, what=op)

    def test_large_arguments_of_logarithms(self):
        """Logarithms of arguments so large that 1 + x is rounded to x, beyond 2^52."""
        rng = np.random.default_rng(6)
        x = np.ldexp(rng.uniform(0.5, 1, 4000), rng.integers(20, 128, 4000)).astype(np.float32)
        x[:40] = 2.0 ** np.arange(30, 70)
        for op, function in (("aclnnLog1p", np.log1p), ("aclnnAsinh", np.arcsinh), ("aclnnAcosh", np.arccosh)):
            a, b = Tensor.of(F32, x), Tensor.empty(F32, x.shape)
            run(op, a, b)
            ref.check(b.get(), function(x.astype(LD)), F32, what=op)


# ---- functions whose result has the argument's type

SAME_TYPE = {
    "Abs": np.abs, "Neg": np.negative, "Square": np.square, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint,
    "Trunc": np.trunc, "Frac": lambda x: x - np.trunc(x), "Sign": np.sign,
}


class SameType(unittest.TestCase):
    def test_all(self):
        for name, function in SAME_TYPE.items():
            for op in variants(name):
                each_case(self, op, CASES, lambda gen, op=op, f=function: self.case(gen, op, f))

    def case(self, gen, op, function):
        inplace = "Inplace" in op
        d = gen.pick(FLOATS64 + INTS)
        shape = gen.shape()
        x = gen.out(d, shape, gen.values(d, shape))
        y = x if inplace else gen.out(d, shape)
        values = x.get()
        run(op, *([x] if inplace else [x, y]))
        if d.kind == "i":
            expected = np.zeros_like(values) if "Frac" in op else values if any(
                w in op for w in ("Floor", "Ceil", "Round", "Trunc")) else function(values)
            ref.check_equal(y.get(), expected, op)
        else:
            exact = function(values.astype(LD))
            if "Sign" in op:
                exact = np.where(np.isnan(exact), LD(0), exact)               # PyTorch's sign of NaN
            ref.check(y.get(), exact, d, ulps=0.5, what=op)

    def test_bool_is_kept(self):
        x, y = Tensor.of(BOOL, np.array([True, False])), Tensor.empty(BOOL, (2,))
        for op in ("aclnnSign", "aclnnFloor", "aclnnAbs"):
            run(op, x, y)
            ref.check_equal(y.get(), x.get(), op)
        code, message = refused("aclnnNeg", x, y)
        self.assertEqual(code, 161002)
        self.assertIn("BOOL", message)


class Classification(unittest.TestCase):
    def test_all(self):
        tests = {"IsFinite": np.isfinite, "IsInf": np.isinf, "IsPosInf": lambda x: x == np.inf,
                 "IsNegInf": lambda x: x == -np.inf, "Signbit": np.signbit}
        for name, function in tests.items():
            each_case(self, "aclnn" + name, CASES, lambda gen, n=name, f=function: self.case(gen, n, f))

    def case(self, gen, name, function):
        d = gen.pick(FLOATS64 + INTS + ((BOOL,) if name != "Signbit" else ()))
        x = gen.tensor(d, gen.shape())
        out = gen.out(BOOL, x.shape)
        run("aclnn" + name, x, out)
        values = x.get()
        expected = function(values.astype(np.float64)) if d.kind != "f" else function(values)
        ref.check_equal(out.get(), expected, name)

    def test_bitwise_not(self):
        def case(gen):
            d = gen.pick(INTS + (BOOL,))
            x = gen.tensor(d, gen.shape())
            out = gen.out(d, x.shape)
            run("aclnnBitwiseNot", x, out)
            ref.check_equal(out.get(), ~x.get())
        each_case(self, "aclnnBitwiseNot", CASES, case)
        x = Tensor.empty(F32, (3,))
        code, message = refused("aclnnBitwiseNot", x, Tensor.empty(F32, (3,)))
        self.assertEqual(code, 161002)
        self.assertIn("self has dtype FLOAT", message)

    def test_nan_to_num(self):
        def case(gen, op):
            d = gen.pick(FLOATS64 + (I32,))
            shape = gen.shape()
            x = gen.out(d, shape, gen.values(d, shape))
            numbers = [gen.integer(-20, 20) / 2 for _ in range(3)]
            y = x if "Inplace" in op else gen.out(d, shape)
            values = x.get()
            run(op, *([x] + numbers if y is x else [x] + numbers + [y]))
            expected = values if d is I32 else np.nan_to_num(values, nan=numbers[0], posinf=numbers[1],
                                                             neginf=numbers[2])
            ref.check_equal(y.get(), expected, f"{op} {numbers}")
        for op in ("aclnnNanToNum", "aclnnInplaceNanToNum"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))

    def test_logical_not_in_place(self):
        def case(gen):
            d = gen.pick(ALL)
            x = gen.out(d, (s := gen.shape()), gen.values(d, s))
            values = x.get()
            run("aclnnInplaceLogicalNot", x)
            ref.check_equal(x.get(), ref.to_type(values == 0, BOOL, d))
        each_case(self, "aclnnInplaceLogicalNot", CASES, case)


class RootsOfIntegers(unittest.TestCase):
    def test_beyond_float(self):
        root = 2 ** 24 + 1
        x, out = Tensor.of(I64, [3, root * root]), Tensor.empty(F64, (2,))
        run("aclnnSqrt", x, out)
        ref.check_equal(out.get(), [math.sqrt(3), root])


class RoundDecimals(unittest.TestCase):
    def test_floats(self):
        def case(gen, op):
            d, decimals = gen.pick(FLOATS64), gen.integer(-2, 3)
            shape = gen.shape()
            # Away from ties, which rounding of the scaled value may decide either way.
            x = gen.out(d, shape, d.round(gen.rng.integers(-4000, 4000, shape) / LD(8) + LD(0.013)).astype(d.values))
            y = x if "Inplace" in op else gen.out(d, shape)
            values = x.get().astype(LD)
            run(op, *([x, decimals] if y is x else [x, decimals, y]))
            scaled = values * LD(10) ** decimals
            tie = np.abs(np.abs(scaled - np.trunc(scaled)) - LD(0.5)) < 1e-3
            got = np.where(tie, values, y.get())
            exact = np.where(tie, values, round_decimals(values, decimals))
            ref.check(got, exact, d, ulps=2, what=f"{op} {decimals}")
        for op in ("aclnnRoundDecimals", "aclnnInplaceRoundDecimals"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))

    def test_integers(self):
        """Integers have no decimals to round; ties go to the even multiple."""
        def case(gen, op):
            d, decimals = gen.pick((I32, I64)), gen.integer(-4, 2)
            shape = gen.shape()
            x = gen.out(d, shape, gen.pick((5, 1)) * gen.values(d, shape, limit=20000))
            y = x if "Inplace" in op else gen.out(d, shape)
            values = x.get()
            run(op, *([x, decimals] if y is x else [x, decimals, y]))
            tens = 10 ** max(-decimals, 0)
            ref.check_equal(y.get(), (np.rint(values / LD(tens)) * tens).astype(d.values), f"{op} {decimals}")
        for op in ("aclnnRoundDecimals", "aclnnInplaceRoundDecimals"):
            each_case(self, op, CASES, lambda gen, op=op: case(gen, op))
        for d, decimals, values, expected in (
                (I32, -9, [d_ * 10 ** 8 for d_ in (5, -5, 15, -15, 20, 1)],
                 [0, 0, 2 * 10 ** 9, -2 * 10 ** 9, 2 * 10 ** 9, 0]),
                (I32, -10, [2 ** 31 - 1, -2 ** 31], [0, 0]),
                (I64, -19, [2 ** 63 - 1], [0]),
                (I64, -2 ** 63, [7], [0]),
                (I64, -18, [2 ** 63 - 1, 5 * 10 ** 17, 15 * 10 ** 17 - 1], [9 * 10 ** 18, 0, 10 ** 18])):
            y = Tensor.empty(d, (len(values),))
            run("aclnnRoundDecimals", Tensor.of(d, np.array(values)), decimals, y)
            ref.check_equal(y.get(), expected, f"{decimals} of {d}")


class Errors(unittest.TestCase):
    def test_messages_name_the_argument(self):
        x = Tensor.empty(F32, (2, 3))
        for op, args, words in (
                ("aclnnSin", (x, Tensor.empty(F32, (3, 2))), "out has shape"),
                ("aclnnErf", (x, Tensor.empty(I32, (2, 3))), "out has dtype INT32"),
                ("aclnnInplaceExp2", (Tensor.empty(I8, (2,)),), "selfRef has dtype INT8"),
                ("aclnnRoundDecimals", (Tensor.empty(BOOL, (2,)), 1, Tensor.empty(BOOL, (2,))), "decimals is 1"),
                ("aclnnFloor", (Tensor.empty(F16, (2,)), Tensor.empty(U8, (2,))), "out has dtype UINT8")):
            code, message = refused(op, *args)
            self.assertEqual(code, 161002, op)
            self.assertIn(words, message)


if __name__ == "__main__":
    unittest.main()
