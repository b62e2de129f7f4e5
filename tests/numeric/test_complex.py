"""Elementwise functions of complex numbers, against long double."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Scalar, Tensor, run
from dtypes import BOOL, C64, C128, CLD, F32, F64, I32, I64, PART
from gen import each_case

CASES = 40


def draw(gen, d, shape):
    if d.kind != "c":
        return gen.values(d, shape, limit=50)
    v = gen.rng.standard_normal((2, *shape)) * np.exp(gen.rng.standard_normal((2, *shape)))
    v = np.where(gen.rng.random(v.shape) < 0.1, 0, v)
    return (v[0] + 1j * v[1]).astype(d.values)


def check(got, exact, d, scale, what):
    """Each part within some roundings of the numbers that it is made of."""
    unit = PART[d].ulp
    for part in ("real", "imag"):
        ref.check(getattr(got, part), getattr(exact, part), PART[d], ulps=1, slack=8 * F64.ulp(scale) if d is C64 else
                  8 * unit(scale), what=f"{what}: {part}")


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
        check(out.get(), exact, d, np.broadcast_to(scale, shape), name)

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
        x = gen.drawn(d, shape, lambda s: (gen.rng.integers(0, 2, s) + 1j * gen.rng.integers(0, 2, s)).astype(d.values))
        if gen.chance(0.5):
            y = gen.drawn(d, shape, lambda s: (gen.rng.integers(0, 2, s) + 1j * gen.rng.integers(0, 2, s)).astype(d.values))
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
        """No overflow halfway."""
        x = Tensor.of(C128, np.array([1e300 + 1e300j, 1e-300 + 0j]))
        y, out = Tensor.of(C128, np.array([1e300 - 1e300j, 0 + 1e-300j])), Tensor.empty(C128, (2,))
        run("aclnnDiv", x, y, out)
        np.testing.assert_allclose(out.get(), [1j, -1j], rtol=1e-15)

    def test_refused(self):
        c, f = Tensor.of(C64, np.array([1j], np.complex64)), Tensor.of(F32, [1.0])
        for words, op, args in (("self is complex, expected a real number", "Atan2", [c, c, c]),
                                ("exponent is complex", "PowTensorTensor", [f, c, c]),
                                ("out has dtype FLOAT", "Mul", [c, c, f]),
                                ("other is complex", "GtScalar", [f, Scalar(np.complex64(1j), C64), f]),
                                ("out has dtype COMPLEX64", "Abs", [c, c])):
            with self.subTest(words), self.assertRaisesRegex(AclError, words) as caught:
                run("aclnn" + op, *args)
            self.assertEqual(caught.exception.code, INVALID)


if __name__ == "__main__":
    unittest.main()
