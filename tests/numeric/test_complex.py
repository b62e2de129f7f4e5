# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of complex numbers, compared with long double."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, AclError, Scalar, Tensor, run
from dtypes import ALL, BOOL, C64, C128, CLD, COMPLEX, F32, F64, I8, I32, I64, INTS, LD, PART, U8, U16
from gen import each_case

CASES = 40


def draw(gen, d, shape):
    if d.kind != "c":
        return gen.values(d, shape, limit=50)
    v = gen.rng.standard_normal((2, *shape)) * np.exp(gen.rng.standard_normal((2, *shape)))
    v = np.where(gen.rng.random(v.shape) < 0.1, 0, v)
    return (v[0] + 1j * v[1]).astype(d.values)


def check(got, exact, d, scale, what, ulps=1):
    """Real and imaginary part are within some roundings of `scale`, the magnitude of the terms of their sums."""
    unit = PART[d].ulp
    for part in ("real", "imag"):
        slack = 8 * F64.ulp(scale) if d is C64 else 8 * unit(scale)
        ref.check(getattr(got, part), getattr(exact, part), PART[d], ulps=ulps, slack=slack, what=f"{what}: {part}")


BINARY = {
    "Add": (lambda x, y, a: x + a * y, True), "Sub": (lambda x, y, a: x - a * y, True),
    "Rsub": (lambda x, y, a: y - a * x, True), "Mul": (lambda x, y, a: x * y, False),
    "Div": (lambda x, y, a: x / y, False),
}
UNARY = {"Neg": lambda x: -x, "Reciprocal": lambda x: 1 / x, "Square": lambda x: x * x}


class Arithmetic(unittest.TestCase):
    def binary(self, gen, name, scalar):
        function, has_alpha = BINARY[name]
        inplace = gen.chance(0.3) and name != "Rsub"
        d, shape = gen.pick((C64, C128)), gen.shape()
        other = gen.pick((d, d, PART[d], I32) if not scalar else (C64, C128, F32, I64))
        d_of_x = d
        if scalar and other.kind == "c" and gen.chance(0.3) and not inplace:
            d_of_x = PART[d]                                             # a real tensor and a complex scalar
        x = gen.out(d_of_x, shape, draw(gen, d_of_x, shape))
        before = x.get().copy()
        if scalar:
            value = other.values.type(complex(gen.integer(1, 9), gen.integer(-9, 9)) if other.kind == "c" else 3)
            y, b = Scalar(value, other), np.asarray(value)
        else:
            y = gen.drawn(other, shape if inplace else gen.shrunk(shape), lambda s: draw(gen, other, s))
            b = y.get()
        if name == "Div" and not scalar:
            b = np.where(abs(b) < 0.1, 2, b).astype(other.values)
            y = gen.tensor(other, b.shape, b)
        alpha = Scalar(gen.integer(1, 3), I64) if gen.chance(0.5) else Scalar(np.complex64(1 - 2j), C64)
        out = x if inplace else gen.out(d, shape)
        run(f"aclnn{'Inplace' if inplace else ''}{name}{'s' if scalar else ''}", x, y, *([alpha] if has_alpha else []),
            *([] if inplace else [out]))
        a, b, factor = before.astype(CLD), np.asarray(b).astype(CLD), CLD(alpha.value)
        exact = np.broadcast_to(function(a, b, factor), shape)
        scale = abs(a * b) if name == "Mul" else abs(a / b) if name == "Div" else (abs(a) + abs(b)) * 4
        check(out.get(), exact, d, np.broadcast_to(scale, shape), name, ulps=1.5 if name == "Mul" else 1)

    def test_products_far_from_1(self):
        """Real and imaginary parts are those of a computation in double, even if their terms overflow or underflow in
        float."""
        parts = np.array([0, -0.0, 1, -3, 1e-45, 2e-38, 1e-23, 3.0000001e19, -1e20, 3e38, np.inf, np.nan], np.float32)
        numbers = (parts[:, None] + np.zeros_like(parts)).astype(np.complex64)
        numbers.imag = parts[None, :]
        x, y = (np.ascontiguousarray(v) for v in np.broadcast_arrays(numbers.reshape(-1, 1), numbers.reshape(1, -1)))
        xr, xi, yr, yi = (v.astype(np.float64) for v in (x.real, x.imag, y.real, y.imag))
        with np.errstate(all="ignore"):
            exact = xr * yr - xi * yi, xr * yi + xi * yr
        out = Tensor.empty(C64, x.shape)
        run("aclnnMul", Tensor.of(C64, x), Tensor.of(C64, y), out)
        whole = out.get()
        for part, want in zip((whole.real, whole.imag), exact):
            ref.check(part, want, F32, ulps=1.5)
            zero = (want == 0) & (part == 0)
            ref.check_equal(np.signbit(part[zero]), np.signbit(want[zero]))
        for n in (1, 3, 7):
            few = Tensor.empty(C64, (n,))
            run("aclnnMul", Tensor.of(C64, x[5, :n]), Tensor.of(C64, y[5, :n]), few)
            ref.check_equal(few.get().view(np.uint32), whole[5, :n].view(np.uint32))

    def unary(self, gen, name):
        d, shape = gen.pick((C64, C128)), gen.shape()
        x, out = gen.drawn(d, shape, lambda s: np.where((v := draw(gen, d, s)) == 0, 1, v).astype(d.values)), \
            gen.out(d, shape)
        run("aclnn" + name, x, out)
        exact = UNARY[name](x.get().astype(CLD))
        check(out.get(), exact, d, abs(exact), name)

    def magnitude(self, gen):
        d, shape = gen.pick((C64, C128)), gen.shape()
        x, out = gen.drawn(d, shape, lambda s: draw(gen, d, s)), gen.out(PART[d], shape)
        run("aclnnAbs", x, out)
        ref.check(out.get(), abs(x.get().astype(CLD)), PART[d], ulps=1)

    def compare(self, gen):
        d, shape, ne = gen.pick((C64, C128)), gen.shape(), gen.chance(0.5)
        def of_zeros_and_ones(s):
            return (gen.rng.integers(0, 2, s) + 1j * gen.rng.integers(0, 2, s)).astype(d.values)
        x = gen.drawn(d, shape, of_zeros_and_ones)
        if gen.chance(0.5):
            y = gen.drawn(d, shape, of_zeros_and_ones)
            other, op = y.get(), "Tensor"
        else:
            y, other, op = Scalar(np.complex64(1j), C64), 1j, "Scalar"
        out = gen.out(BOOL, shape)
        run(f"aclnn{'Ne' if ne else 'Eq'}{op}", x, y, out)
        ref.check_equal(out.get(), x.get() != other if ne else x.get() == other)

    def select(self, gen):
        d, shape = gen.pick((C64, C128)), gen.shape()
        mask = gen.drawn(BOOL, shape, lambda s: gen.rng.random(s) < 0.5)
        x, y = (gen.out(d, shape, draw(gen, d, shape)) for _ in range(2))
        out, before = gen.out(d, shape), x.get().copy()
        run("aclnnSWhere", mask, x, y, out)
        ref.check_equal(out.get(), np.where(mask.get(), before, y.get()))
        run("aclnnInplaceMaskedFillScalar", x, mask, Scalar(np.complex64(2 - 1j), C64))
        ref.check_equal(x.get(), np.where(mask.get(), d.values.type(2 - 1j), before))

    def test_all(self):
        for name in BINARY:
            each_case(self, "aclnn" + name, CASES, lambda g, n=name: self.binary(g, n, False))
            each_case(self, f"aclnn{name}s", CASES, lambda g, n=name: self.binary(g, n, True))
        for name in UNARY:
            each_case(self, "aclnn" + name, CASES, lambda g, n=name: self.unary(g, n))
        each_case(self, "aclnnAbs", CASES, self.magnitude)
        each_case(self, "comparisons", CASES, self.compare)
        each_case(self, "selections", CASES, self.select)

    def test_large_division(self):
        """Division of large numbers does not overflow in between."""
        x = Tensor.of(C128, np.array([1e300 + 1e300j, 1e-300 + 0j]))
        y, out = Tensor.of(C128, np.array([1e300 - 1e300j, 0 + 1e-300j])), Tensor.empty(C128, (2,))
        run("aclnnDiv", x, y, out)
        np.testing.assert_allclose(out.get(), [1j, -1j], rtol=1e-15)

    def test_refused(self):
        c, f = Tensor.of(C64, np.array([1j], np.complex64)), Tensor.of(F32, [1.0])
        for words, op, args in (("self is complex, expected a real number", "Atan2", [c, c, c]),
                                ("self is complex, expected a real number", "Tanh", [c, c]),
                                ("out has dtype FLOAT", "Exp", [c, f]),
                                ("out has dtype FLOAT", "Mul", [c, c, f]),
                                ("out has dtype FLOAT", "PowTensorTensor", [f, c, f]),
                                ("other is complex", "GtScalar", [f, Scalar(np.complex64(1j), C64), f]),
                                ("selfRef has dtype COMPLEX64", "InplaceRandomWithoutFromTo", [c, 0, 0]),
                                ("selfRef has dtype UINT16", "InplaceCopy", [Tensor.empty(U16, (1,)), c]),
                                ("out has dtype UINT16", "Cast", [c, U16, Tensor.empty(U16, (1,))]),
                                ("out has dtype COMPLEX64", "Abs", [c, c])):
            with self.subTest(words), self.assertRaisesRegex(AclError, words) as caught:
                run("aclnn" + op, *args)
            self.assertEqual(caught.exception.code, INVALID)


# complex64 is computed in double and rounded once. complex128 is within eight units of each of real and imaginary part,
# or of `magnitude`, if these come from sums that cancel.
Function = namedtuple("Function", "exact magnitude inplace")


def function(exact, magnitude=None, inplace=True):
    return Function(exact, magnitude or (lambda result, *x: 0 * abs(result)), inplace)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "Exp": function(np.exp), "Log": function(np.log), "Sqrt": function(np.sqrt),
    "Log2": function(lambda x: np.log(x) / np.log(LD(2))), "Log10": function(lambda x: np.log(x) / np.log(LD(10))),
    "Rsqrt": function(lambda x: 1 / np.sqrt(x)), "Sin": function(np.sin), "Cos": function(np.cos),
    "Tan": function(np.tan), "Sinh": function(np.sinh), "Cosh": function(np.cosh), "Asinh": function(np.arcsinh),
    "Acosh": function(np.arccosh), "Atanh": function(np.arctanh),
    # Near a pole the error of e^-x is divided by what is left of 1 + e^-x.
    "Sigmoid": function(sigmoid, lambda result, x: abs(result) * (1 + abs(result))),
    "Sign": function(lambda x: np.where(x == 0, 0, x / np.where(x == 0, 1, abs(x))), inplace=False),
}


def check_function(got, exact, d, magnitude, what):
    ulps, slack = (0.5001, 0) if d is C64 else (8, 8 * F64.ulp(magnitude))
    ref.check_parts(got, exact, d, ulps, slack if d is C128 else 8 * F64.ulp(np.maximum(magnitude, abs(exact))), what)


class Functions(unittest.TestCase):
    def unary(self, gen, name, inplace):
        f, d, shape = FUNCTIONS[name], gen.pick(COMPLEX), gen.shape()
        x = gen.out(d, shape, draw(gen, d, shape)) if inplace else gen.drawn(d, shape, lambda s: draw(gen, d, s))
        before, out = x.get().astype(CLD), x if inplace else gen.out(gen.pick((d, C128)), shape)
        run(f"aclnn{'Inplace' if inplace else ''}{name}", *([x] if inplace else [x, out]))
        exact = f.exact(before)
        whole = np.isfinite(exact.real) & np.isfinite(exact.imag)
        self.assertTrue(np.all(whole | (before == 0) | (abs(before) == 1)))
        exact, got = np.where(whole, exact, 0), np.where(whole, out.get(), 0)
        check_function(got, exact, out.dtype, f.magnitude(exact, before), name)

    def test_all(self):
        for name, f in FUNCTIONS.items():
            each_case(self, "aclnn" + name, CASES, lambda g, n=name: self.unary(g, n, False))
            if f.inplace:
                each_case(self, "aclnnInplace" + name, CASES // 2, lambda g, n=name: self.unary(g, n, True))

    def test_special_values(self):
        """Infinities, NaN, signed zeros and both sides of the branch cuts give the results of C99."""
        inf, nan = np.inf, np.nan
        odd = (-inf, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, inf, nan)
        x = np.array([complex(a, b) for a in odd for b in odd])
        for name, f in FUNCTIONS.items():
            if name in ("Sigmoid", "Sign", "Log2", "Log10", "Rsqrt"):
                continue
            out = Tensor.empty(C128, x.shape)
            run("aclnn" + name, Tensor.of(C128, x), out)
            got, expected = out.get(), f.exact(x)
            for part in ("real", "imag"):
                a, b = getattr(got, part), getattr(expected, part)
                np.testing.assert_allclose(a, b, rtol=2e-15, err_msg=name)
                signs = np.signbit(a)[~np.isnan(b)], np.signbit(b)[~np.isnan(b)]
                np.testing.assert_array_equal(*signs, f"{name} {part}")

    def test_limits(self):
        def of(name, *x):
            out = Tensor.empty(C128, (len(x),))
            run("aclnn" + name, Tensor.of(C128, np.array(x, complex)), out)
            return out.get()
        np.testing.assert_array_equal(of("Sigmoid", 1000 + 1j, -1000 + 1j, np.inf, -np.inf, 0), [1, 0, 1, 0, 0.5])
        np.testing.assert_array_equal(of("Sign", 0, 3 + 4j, -5, 2j, complex(0, -1e308)), [0, 0.6 + 0.8j, -1, 1j, -1j])
        np.testing.assert_allclose(of("Sign", 1e308 + 1e308j, 1e-310 - 1e-310j),
                                   np.sqrt(0.5) * np.array([1 + 1j, 1 - 1j]), rtol=1e-15)
        np.testing.assert_array_equal(of("Rsqrt", 4, complex(-4, 0.0), complex(-4, -0.0), np.inf),
                                      [0.5, -0.5j, 0.5j, 0])
        np.testing.assert_allclose(of("Log2", 8, -8, 0.5j),
                                   [3, 3 + 1j * np.pi / np.log(2), -1 + 0.5j * np.pi / np.log(2)], rtol=1e-15)
        np.testing.assert_allclose(of("Log10", 1000, 0.001), [3, -3], rtol=1e-15)

    def sigmoid_backward(self, gen):
        d, shape = gen.pick(COMPLEX), gen.shape()
        a, b = gen.broadcast_pair(shape)
        g = gen.drawn(d, a, lambda s: draw(gen, d, s))
        y, out = gen.drawn(d, b, lambda s: draw(gen, d, s)), gen.out(d, shape)
        run("aclnnSigmoidBackward", g, y, out)
        x, z = g.get().astype(CLD), y.get().astype(CLD)
        exact = np.broadcast_to(x * np.conj((1 - z) * z), shape)
        check_function(out.get(), exact, d, np.broadcast_to(abs(x) * (1 + abs(z)) * abs(z), shape), "SigmoidBackward")

    def test_sigmoid_backward(self):
        each_case(self, "aclnnSigmoidBackward", CASES, self.sigmoid_backward)


class Powers(unittest.TestCase):
    def check(self, got, x, y, d, shape, what):
        x, y = (np.broadcast_to(np.asarray(v).astype(CLD), shape) for v in (x, y))
        log = np.log(np.where(x == 0, 1, x))
        exact = np.where(y == 0, 1, np.where(x == 0, 0, np.exp(y * log)))
        # The exponent's error (in long double, or of floats computed in double) is the result's relative error.
        slack = abs(exact) * (2 + abs(y) * (2 + abs(log))) * LD(2) ** (-51 if d is C64 else -60)
        kept = (x != 0) | (y.real > 0) | (y == 0)
        slack = np.where(kept, slack + F64.ulp(abs(exact)), 0)
        ref.check_parts(np.where(kept, got, 0), np.where(kept, exact, 0), d, 0.5001 if d is C64 else 1, slack, what)

    def tensors(self, gen):
        d, shape, inplace = gen.pick(COMPLEX), gen.shape(), gen.chance(0.3)
        types = gen.pick(((d, d), (d, PART[d]), (d, I32), (PART[d], d), (I64, d)))
        if inplace:
            types = (d, types[1] if types[0] is d else d)
        a, b = (shape, gen.shrunk(shape)) if inplace else gen.broadcast_pair(shape)
        x = gen.out(types[0], a, self.values(gen, types[0], a)) if inplace else \
            gen.drawn(types[0], a, lambda s: self.values(gen, types[0], s))
        y = gen.drawn(types[1], b, lambda s: self.values(gen, types[1], s))
        before, out = x.get().copy(), x if inplace else gen.out(d, shape)
        run(f"aclnn{'Inplace' if inplace else ''}PowTensorTensor", x, y, *([] if inplace else [out]))
        self.check(out.get(), before, y.get(), d, shape, f"{types[0]} to the power of {types[1]}")

    @staticmethod
    def values(gen, d, shape):
        v = gen.values(d, shape, limit=4) if d.kind != "c" else draw(gen, d, shape)
        return v.astype(d.values)

    def scalar(self, gen):
        """PowTensorScalar of complex numbers, including the exponents that have functions of their own."""
        d, shape = gen.pick(COMPLEX), gen.shape()
        value = gen.pick((0, 2, 3, 0.5, -1, -2, 2 + 1j, 0.5 - 2j, 1j, -0.5))
        real = not isinstance(value, complex)
        s = gen.pick((F64, C64, C128) + ((I64,) if real and value == int(value) else ())) if real else gen.pick(COMPLEX)
        of_real = s.kind == "c" and gen.chance(0.4)                      # a real tensor and a complex scalar
        t = gen.pick((PART[d], I32) if d is C64 else (PART[d],)) if of_real else d
        inplace = not of_real and gen.chance(0.3)
        x = gen.out(t, shape, self.values(gen, t, shape))
        before, out = x.get().copy(), x if inplace else gen.out(d, shape)
        run(f"aclnn{'Inplace' if inplace else ''}PowTensorScalar", x, Scalar(s.values.type(value), s),
            *([] if inplace else [out]))
        exponent, exact_power = np.asarray(value), not real or value not in (2, 0.5, -1)
        if exact_power:
            self.check(out.get(), before, exponent, d, shape, f"{t} to the power {value}")
            return
        b = before.astype(CLD)
        exact = {2: lambda: b * b, 0.5: lambda: np.sqrt(b), -1: lambda: 1 / np.where(b == 0, 1, b)}[value]()
        keep = (b != 0) | (value != -1)
        check_function(np.where(keep, out.get(), 0), np.where(keep, exact, 0), d, abs(b) ** value if value == 2 else
                       0 * abs(b), f"power {value}")

    def of_scalar(self, gen):
        d, shape = gen.pick(COMPLEX), gen.shape()
        s = gen.pick((F64, I64, C64, C128))
        value = s.values.type(gen.pick((2, 3, 1)) if s.kind != "c" else gen.pick((1 + 2j, -0.5 + 0j, 0j, -1j)))
        t = PART[d] if s.kind == "c" and gen.chance(0.4) else d
        y, out = gen.drawn(t, shape, lambda q: self.values(gen, t, q)), gen.out(d, shape)
        run("aclnnPowScalarTensor", Scalar(value, s), y, out)
        self.check(out.get(), value, y.get(), d, shape, f"{value} to powers")

    def test_all(self):
        each_case(self, "aclnnPowTensorTensor", 3 * CASES, self.tensors)
        each_case(self, "aclnnPowTensorScalar", 3 * CASES, self.scalar)
        each_case(self, "aclnnPowScalarTensor", CASES, self.of_scalar)

    def test_of_zero(self):
        x = np.array([0, 0, 0, np.inf, complex(np.nan, 1), 2j, 0])
        y, out = np.array([0, 1, 2 + 1j, 0, 0, 0, -1]), Tensor.empty(C128, (7,))
        run("aclnnPowTensorTensor", Tensor.of(C128, x), Tensor.of(C128, y), out)
        np.testing.assert_array_equal(out.get()[:6], [1, 0, 0, 1, 1, 1])
        self.assertEqual(out.get()[6].real, np.inf)

    def test_whole_powers(self):
        """Whole powers of whole numbers are exact."""
        x, out = Tensor.of(C128, np.array([1 + 2j, 3 - 1j, -2 + 1j])), Tensor.empty(C128, (3,))
        for n in range(8):
            run("aclnnPowTensorScalar", x, Scalar(n, I64), out)
            expected = np.ones(3, complex)
            for _ in range(n):
                expected = expected * x.get()
            ref.check_equal(out.get(), expected, f"power {n}")


class IntoComplex(unittest.TestCase):
    """Truth values and real results that are stored as complex numbers have an imaginary part of 0."""

    def numbers(self, gen, d, shape):
        v = gen.values(PART.get(d, d), shape, limit=2)
        return (v + 1j * gen.rng.integers(0, 2, shape)).astype(d.values) if d.kind == "c" else v

    def logic(self, gen, name):
        function = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}[name]
        shape, inplace = gen.shape(), name != "Xor" and gen.chance(0.3)
        a, b = (shape, gen.shrunk(shape)) if inplace else gen.broadcast_pair(shape)
        c = gen.pick(COMPLEX)
        types = gen.pick(((c, c), (c, gen.pick(ALL)), (gen.pick(ALL), c)))
        x = gen.out(types[0], shape, self.numbers(gen, types[0], shape)) if inplace else \
            gen.drawn(types[0], a, lambda s: self.numbers(gen, types[0], s))
        y = gen.drawn(types[1], b, lambda s: self.numbers(gen, types[1], s))
        before, out = x.get().copy(), x if inplace else gen.out(gen.pick(ALL + COMPLEX), shape)
        run(f"aclnn{'Inplace' if inplace else ''}Logical{name}", x, y, *([] if inplace else [out]))
        ref.check_equal(out.get(), np.broadcast_to(function(before, y.get()), shape).astype(out.dtype.values), name)

    def equality(self, gen):
        c, shape, inplace, ne = gen.pick(COMPLEX), gen.shape(), gen.chance(0.4), gen.chance(0.5)
        x = gen.out(c, shape, self.numbers(gen, c, shape))
        before, out = x.get().copy(), x if inplace else gen.out(gen.pick(COMPLEX + ALL), shape)
        if gen.chance(0.5):
            y = gen.drawn(gen.pick((c, PART[c], I8)), gen.shrunk(shape), lambda s: self.numbers(gen, c, s).real)
            other, kind = y.get(), "Tensor"
        else:
            value = gen.pick((1j, 1 + 0j, 0j))
            y, other, kind = Scalar(C64.values.type(value), C64), value, "Scalar"
        run(f"aclnn{'Inplace' if inplace else ''}{'Ne' if ne else 'Eq'}{kind}", x, y, *([] if inplace else [out]))
        expected = np.broadcast_to(before != other if ne else before == other, shape)
        ref.check_equal(out.get(), expected.astype(out.dtype.values), kind)

    def comparison(self, gen):
        """Real operands are compared in their own type: int64 has more digits than the parts of a complex number."""
        name = gen.pick(("Ge", "Gt", "Le", "Lt", "Eq", "Ne"))
        function = {"Ge": np.greater_equal, "Gt": np.greater, "Le": np.less_equal, "Lt": np.less, "Eq": np.equal,
                    "Ne": np.not_equal}[name]
        d, shape = gen.pick(ALL), gen.shape()
        base = 2 ** 62 if d is I64 else 0
        a, b = gen.broadcast_pair(shape)
        x, y = (gen.drawn(d, s, lambda q: (gen.values(d, q, limit=2) + d.values.type(base)).astype(d.values))
                for s in (a, b))
        out = gen.out(gen.pick(COMPLEX), shape)
        run(f"aclnn{name}Tensor", x, y, out)
        ref.check_equal(out.get(), np.broadcast_to(function(x.get(), y.get()), shape).astype(out.dtype.values), name)
        value = d.values.type(d.values.type(1) + d.values.type(base))
        run(f"aclnn{name}Scalar", x, Scalar(value, d), z := gen.out(gen.pick(COMPLEX), a))
        ref.check_equal(z.get(), function(x.get(), value).astype(z.dtype.values), name)

    def numbers_of(self, gen):
        """Results of real functions that are stored as complex numbers; integers wrap in their own type before that."""
        d, shape = gen.pick(INTS + (F32, F64)), gen.shape()
        c = C128 if d in (F64, I32, I64) else gen.pick(COMPLEX)
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
        y = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=100))
        out = gen.out(c, shape)
        run("aclnnMul", x, y, out)
        ref.check_equal(out.get(), (x.get() * y.get()).astype(c.values), "Mul")
        if d.kind == "f":
            run("aclnnSqrt", x, out)
            ref.check_equal(out.get(), np.sqrt(x.get()).astype(c.values), "Sqrt")
        floor = gen.tensor(d, shape, np.where(y.get() == 0, d.values.type(1), y.get()))
        run("aclnnFloorDivide", x, floor, out)
        expected = np.floor_divide(x.get(), floor.get())
        ref.check_equal(out.get(), expected.astype(c.values), "FloorDivide")

    def test_all(self):
        for name in ("And", "Or", "Xor"):
            each_case(self, f"aclnnLogical{name}", CASES, lambda g, n=name: self.logic(g, n))
        each_case(self, "aclnnEq, aclnnNe", 2 * CASES, self.equality)
        each_case(self, "comparisons", 2 * CASES, self.comparison)
        each_case(self, "real results", CASES, self.numbers_of)

    def test_scalar_is_rounded(self):
        """The scalar is rounded to the tensor's type, as it is for real tensors."""
        x, out = Tensor.of(C64, np.array([0.1, 0.1j], np.complex64)), Tensor.empty(BOOL, (2,))
        run("aclnnEqScalar", x, Scalar(0.1, F64), out)
        np.testing.assert_array_equal(out.get(), [True, False])
        run("aclnnEqScalar", x, Scalar(np.complex128(0.1j), C128), out)
        np.testing.assert_array_equal(out.get(), [False, True])

    def is_in(self, gen):
        d = gen.pick(COMPLEX + (F32, I64))
        x = gen.drawn(d, gen.shape(), lambda s: self.numbers(gen, d, s))
        value, invert = gen.pick((0j, 1 + 0j, 1j, 1 - 1j)), gen.chance(0.5)
        s = gen.pick(COMPLEX) if d.kind != "c" or value.imag else gen.pick(COMPLEX + (F64,))
        scalar = Scalar(s.values.type(value if s.kind == "c" else value.real), s)
        out, one = gen.out(BOOL, x.shape), gen.out(BOOL, ())
        run("aclnnIsInTensorScalar", x, scalar, False, invert, out)
        ref.check_equal(out.get(), (x.get() == value) != invert)
        run("aclnnIsInScalarTensor", scalar, x, False, invert, one)
        ref.check_equal(one.get(), (x.get() == value).any() != invert)

    def test_is_in(self):
        each_case(self, "aclnnIsIn", 2 * CASES, self.is_in)
        x, out = Tensor.of(C64, np.array([0.1 + 0.2j], np.complex64)), Tensor.empty(BOOL, (1,))
        run("aclnnIsInTensorScalar", x, Scalar(np.complex128(0.1 + 0.2j), C128), False, False, out)
        self.assertTrue(out.get()[0])

    def conversion(self, gen):
        """Conversion to real takes the real part alone; conversion to bool asks whether the number is not 0."""
        complex_one, other = gen.pick(COMPLEX), gen.pick((*COMPLEX, *ALL))
        source, target = gen.pick(((complex_one, other), (other, complex_one)))
        shape = gen.shape()
        low = 0 if target is U8 else -50                                     # numbers that all types hold

        def draw(dims):
            parts = gen.rng.integers(low, 50, (2, *dims)) * (gen.rng.random((2, *dims)) < 0.7)
            return (parts[0] + 1j * parts[1] if source.kind == "c" else np.abs(parts[0])).astype(source.values)

        copies = gen.chance(0.5)
        x, out = gen.drawn(source, gen.shrunk(shape) if copies else shape, draw), gen.out(target, shape)
        run(*(("aclnnInplaceCopy", out, x) if copies else ("aclnnCast", x, target, out)))
        exact = x.get() if source.kind != "c" or target.kind in "cb" else x.get().real
        ref.check_equal(out.get(), np.broadcast_to(exact, shape).astype(target.values))

    def test_conversion(self):
        each_case(self, "aclnnCast and aclnnInplaceCopy", 6 * CASES, self.conversion)

    def random(self, gen):
        """Random complex numbers have the real parts that a real tensor gets."""
        d, shape = gen.pick(COMPLEX), gen.shape()
        out, real = gen.out(d, shape, np.full(shape, 7 + 7j, d.values)), gen.out(PART[d], shape)
        seed, offset, low = gen.integer(0, 99), gen.integer(0, 99), gen.integer(-9, 9)
        run("aclnnInplaceRandom", real, low, low + 1000, seed, offset)
        if gen.chance(0.5):
            run("aclnnInplaceRandom", out, low, low + 1000, seed, offset)
        else:
            run("aclnnInplaceRandomTensor", out, low, low + 1000, Tensor.of(I64, [seed]), Tensor.of(I64, [offset]), 0)
        ref.check_equal(out.get(), real.get().astype(d.values))

    def test_random(self):
        each_case(self, "aclnnInplaceRandom", CASES, self.random)


if __name__ == "__main__":
    unittest.main()
