# SPDX-License-Identifier: Apache-2.0
"""Foreach*: one elementwise function applied to lists of tensors; and the scaling of losses."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Scalar, ScalarList, Tensor, TensorList, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS, I8, I16, I32, I64, LD, U8, computed_in
from gen import each_case

CASES = 12
erf = np.frompyfunc(lambda x: LD(__import__("math").erf(float(x))), 1, 1)
erfc = np.frompyfunc(lambda x: LD(__import__("math").erfc(float(x))), 1, 1)

# name: (function in long double, its domain or None)
UNARY = {
    "Abs": (np.abs, None), "Acos": (np.arccos, (-1, 1)), "Asin": (np.arcsin, (-1, 1)), "Atan": (np.arctan, None),
    "Cos": (np.cos, None), "Cosh": (np.cosh, (-8, 8)), "Erf": (lambda x: erf(x).astype(LD), None),
    "Erfc": (lambda x: erfc(x).astype(LD), (-3, 3)), "Exp": (np.exp, (-8, 8)), "Expm1": (np.expm1, (-8, 8)),
    "Log": (np.log, (0.01, 50)), "Log10": (np.log10, (0.01, 50)), "Log1p": (np.log1p, (-0.9, 50)),
    "Log2": (np.log2, (0.01, 50)), "Neg": (np.negative, None), "Reciprocal": (lambda x: 1 / x, (0.01, 50)),
    "Sigmoid": (ref.sigmoid, None), "Sign": (np.sign, None), "Sin": (np.sin, None), "Sinh": (np.sinh, (-8, 8)),
    "Sqrt": (np.sqrt, (0, 50)), "Tan": (np.tan, (-1.4, 1.4)), "Tanh": (np.tanh, None),
}
# name: function of x and a number, or of x and y (and alpha)
BINARY = {
    "Add": lambda x, y, a=1: x + a * y, "Sub": lambda x, y, a=1: x - a * y, "Mul": lambda x, y: x * y,
    "Div": lambda x, y: x / y, "Maximum": np.maximum, "Minimum": np.minimum, "Pow": lambda x, y: np.power(x, y),
}
TERNARY = {
    "Addcmul": lambda x, y, z, w: (x + w * y * z, np.abs(x) + 2 * np.abs(w * y * z)),
    "Addcdiv": lambda x, y, z, w: (x + w * (y / z), np.abs(x) + 2 * np.abs(w * y / z)),
}


def lists(gen, d, n_lists, low=-50, high=50):
    """n_lists lists of tensors with the same shapes, some of them empty, and an output list."""
    shapes = [gen.shape(numel=300) for _ in range(gen.integer(1, 5))]

    def values(s):
        v = gen.rng.uniform(low, high, s)
        return np.clip(d.round(v), low, high).astype(d.values) if d.kind == "f" else v.astype(d.values)
    made = [[gen.drawn(d, s, values) for s in shapes] for _ in range(n_lists)]
    return made, [gen.out(d, s) for s in shapes]


def wide(t):
    return t.get().astype(LD)


class Foreach(unittest.TestCase):
    def test_unary(self):
        for name, (function, domain) in UNARY.items():
            def body(gen):
                d = gen.pick(FLOATS)
                (x,), out = lists(gen, d, 1, *(domain or (-50, 50)))
                run("aclnnForeach" + name, TensorList(x), TensorList(out))
                for a, b in zip(x, out):
                    ref.check(b.get(), function(wide(a)), d, ulps=2, what=name)
            each_case(self, "aclnnForeach" + name, CASES, body)

    def check_binary(self, name, d, x, y, out, alpha=None):
        for a, b, o in zip(x, y, out):
            b = np.asarray(b, LD)
            if d.kind == "i":
                expected = BINARY[name](a.get(), b.astype(np.int64).astype(d.values))
                ref.check_equal(o.get(), expected.astype(d.values), name)
                continue
            exact = BINARY[name](wide(a), b) if alpha is None else BINARY[name](wide(a), b, LD(alpha))
            slack = 0 if alpha in (None, 1) else computed_in(d).ulp(LD(alpha) * b)
            ref.check(o.get(), exact, d, ulps=2 if name == "Pow" else 0.5, slack=slack, what=name)

    def test_numbers(self):
        """One number for all tensors, as a scalar and as a tensor, and one number for each."""
        for name in BINARY:
            def body(gen):
                d = gen.pick(FLOATS + ((I32,) if name not in ("Div", "Pow") else ()))
                low, high = (0.1, 6) if name == "Pow" else (-50, 50)
                (x,), out = lists(gen, d, 1, low, high)
                numbers = [gen.integer(-12, 12) / (1 if d is I32 else 4) or 1.0 for _ in x]
                if d is I32:
                    numbers = [float(int(n)) or 1.0 for n in numbers]
                one = numbers[0]
                run(f"aclnnForeach{name}ScalarV2", TensorList(x), Scalar(one, F32), TensorList(out))
                self.check_binary(name, d, x, [one] * len(x), out)
                run(f"aclnnForeach{name}ScalarList", TensorList(x), ScalarList([Scalar(n, F64) for n in numbers]),
                    TensorList(out))
                self.check_binary(name, d, x, numbers, out)
                run(f"aclnnForeach{name}Scalar", TensorList(x), Tensor.of(F32, np.array([one])), TensorList(out))
                self.check_binary(name, d, x, [one] * len(x), out)
            each_case(self, f"aclnnForeach{name}Scalar", CASES, body)

    def test_lists(self):
        for name in BINARY:
            def body(gen):
                d = gen.pick(FLOATS + ((I32,) if name not in ("Div", "Pow") else ()))
                low, high = (0.2, 4) if name in ("Div", "Pow") else (-50, 50)
                (x, y), out = lists(gen, d, 2, low, high)
                alpha = gen.integer(1, 3)
                if name in ("Add", "Sub"):
                    alpha_tensor = Tensor.of(I32 if d is I32 else F32, np.array([alpha]))
                    for op, a in (("ListV2", Scalar(alpha, F32)), ("List", alpha_tensor)):
                        run(f"aclnnForeach{name}{op}", TensorList(x), TensorList(y), a, TensorList(out))
                        if alpha == 1 or d.kind == "f":
                            others = [b.get() if d is I32 else wide(b) for b in y]
                        else:
                            others = [b.get() * alpha for b in y]
                        self.check_binary(name, d, x, others, out, alpha if d.kind == "f" else None)
                else:
                    run(f"aclnnForeach{name}List", TensorList(x), TensorList(y), TensorList(out))
                    self.check_binary(name, d, x, [wide(b) for b in y], out)
            each_case(self, f"aclnnForeach{name}List", CASES, body)

    def test_power_of_a_number(self):
        def body(gen):
            d = gen.pick(FLOATS)
            (x,), out = lists(gen, d, 1, -4, 4)
            run("aclnnForeachPowScalarAndTensor", Scalar(2.5, F32), TensorList(x), TensorList(out))
            for a, o in zip(x, out):
                ref.check(o.get(), np.power(LD(2.5), wide(a)), d, ulps=2)
        each_case(self, "aclnnForeachPowScalarAndTensor", CASES, body)

    def test_ternary(self):
        for name, function in TERNARY.items():
            def body(gen):
                d = gen.pick(FLOATS)
                (x, y, z), out = lists(gen, d, 3, 0.25, 20)
                numbers = [gen.integer(-8, 8) / 4 for _ in x]
                each = Tensor.of(F32, np.array(numbers, np.float32))
                first = numbers[:1]
                for op, w, values in (("ScalarV2", Scalar(numbers[0], F32), first * len(x)),
                                      ("Scalar", Tensor.of(F32, np.array(first, np.float32)), first * len(x)),
                                      ("List", each, numbers),
                                      ("ScalarList", each, numbers)):
                    run(f"aclnnForeach{name}{op}", *map(TensorList, (x, y, z)), w, TensorList(out))
                    for a, b, c, o, v in zip(x, y, z, out, values):
                        exact, scale = function(wide(a), wide(b), wide(c), LD(v))
                        ref.check(o.get(), exact, d, ulps=1, slack=computed_in(d).ulp(scale), what=f"{name}{op}")
            each_case(self, f"aclnnForeach{name}", CASES, body)

    def test_lerp(self):
        def body(gen):
            d = gen.pick(FLOATS)
            (x, y, w), out = lists(gen, d, 3, 0, 1)
            for op, args, weights in (("Scalar", Scalar(0.75, F32), [LD(0.75)] * len(x)),
                                      ("List", TensorList(w), list(map(wide, w)))):
                run("aclnnForeachLerp" + op, TensorList(x), TensorList(y), args, TensorList(out))
                for a, b, v, o in zip(x, y, weights, out):
                    a, b = wide(a), wide(b)
                    slack = 4 * computed_in(d).ulp(np.abs(a) + np.abs(b))
                    ref.check(o.get(), a + v * (b - a), d, ulps=1, slack=slack, what=op)
        each_case(self, "aclnnForeachLerp", CASES, body)

    def test_round(self):
        def nearest_odd(x):
            return np.where(np.abs(x - np.trunc(x)) == LD(0.5), 2 * x - np.rint(x), np.rint(x))
        modes = {0: lambda x: x, 6: nearest_odd, 8: lambda x: x, -1: lambda x: x, 1: np.rint, 2: np.floor, 3: np.ceil,
                 4: lambda x: np.copysign(np.floor(np.abs(x) + LD(0.5)), x), 5: np.trunc,
                 7: lambda x: x - np.trunc(x)}

        def body(gen):
            d, mode = gen.pick(FLOATS), gen.pick(list(modes))
            (x,), out = lists(gen, d, 1, -6, 6)
            for t in x:
                t.set(d.round(np.rint(t.get() * 2) / 2) if gen.chance(0.5) else t.get())
            for op, m in (("V2", Scalar(mode, I64)), ("", Tensor.of(I8, np.array([mode])))):
                run("aclnnForeachRoundOffNumber" + op, TensorList(x), m, TensorList(out))
                for a, o in zip(x, out):
                    ref.check_equal(o.get(), d.round(modes[mode](wide(a))), f"mode {mode}")
        each_case(self, "aclnnForeachRoundOffNumber", CASES, body)

    def test_round_integers(self):
        values = np.array([-32768, -3, 0, 7, 32767])
        for mode in range(-1, 9):
            for op, m in (("V2", Scalar(mode, I64)), ("", Tensor.of(I8, np.array([mode])))):
                out = Tensor.empty(I16, values.shape)
                run("aclnnForeachRoundOffNumber" + op, TensorList([Tensor.of(I16, values)]), m, TensorList([out]))
                ref.check_equal(out.get(), values * (mode != 7), f"mode {mode}")

    def test_exponentials_of_integers(self):
        """Integers give the exponentials of floats, rounded and saturated."""
        for d in (I8, U8, I16):
            values = np.arange(max(int(d.min), -20), 20)
            for name, function in (("Exp", np.exp), ("Expm1", np.expm1)):
                out = Tensor.empty(d, values.shape)
                run("aclnnForeach" + name, TensorList([Tensor.of(d, values)]), TensorList([out]))
                exact = np.clip(np.rint(function(values.astype(np.float64))), int(d.min), int(d.max))
                np.testing.assert_array_equal(out.get(), exact, f"{name} {d}")

    def test_norm(self):
        def body(gen):
            d = gen.pick(FLOATS)
            (x,), _ = lists(gen, d, 1)
            p = gen.pick((0, 1, 2, 3, 0.5, np.inf, -np.inf))
            out = [gen.out(d, gen.pick(((), (1,)))) for _ in x]
            run("aclnnForeachNorm", TensorList(x), Scalar(p, F32), TensorList(out))
            for t, o in zip(x, out):
                a = np.abs(wide(t)).reshape(-1)
                if p == 0:
                    exact = LD(np.count_nonzero(a))
                elif np.isinf(p):
                    exact = (a.max() if p > 0 else a.min()) if a.size else LD(0)
                else:
                    exact = (a ** LD(p)).sum() ** (1 / LD(p))
                slack = ref.sum_slack(exact, a.size, computed_in(d))
                ref.check(o.get(), np.full(o.shape, exact), d, ulps=1, slack=slack, what=f"norm {p}")
        each_case(self, "aclnnForeachNorm", 40, body)

    def test_copy_and_zero(self):
        def body(gen):
            d, to = gen.pick(FLOATS + (I32,)), gen.pick(FLOATS)
            (x,), _ = lists(gen, d, 1)
            out = [gen.out(to, t.shape) for t in x]
            run("aclnnForeachCopy", TensorList(x), TensorList(out))
            for a, o in zip(x, out):
                ref.check_equal(o.get(), to.round(wide(a)))
            run("aclnnForeachZeroInplace", TensorList(out))
            for o in out:
                ref.check_equal(o.get(), np.zeros(o.shape))
        each_case(self, "aclnnForeachCopy", CASES, body)

    def test_in_place(self):
        values = [np.arange(5.0, dtype=np.float32), np.float32([[1], [2]])]
        x = [Tensor.of(F32, v) for v in values]
        run("aclnnForeachMulScalarV2", TensorList(x), Scalar(3.0, F32), TensorList(x))
        for t, v in zip(x, values):
            np.testing.assert_array_equal(t.get(), v * 3)

    def test_refused(self):
        def a(*shape, d=F32):
            return Tensor.empty(d, shape)
        for op, args, words in (
                ("MulScalarV2", (TensorList([a(2)]), Scalar(1, F32), TensorList([a(2), a(2)])),
                 "x has 1 tensors, expected those of out, 2"),
                ("MulScalarV2", (TensorList([a(2), a(3)]), Scalar(1, F32), TensorList([a(2), a(2)])),
                 r"x\[1\] has shape \[3\], expected \[2\]"),
                ("MulScalarV2", (TensorList([a(2, d=F16)]), Scalar(1, F32), TensorList([a(2)])),
                 r"x\[0\] has dtype FLOAT16"),
                ("MulScalarList", (TensorList([a(2)]), ScalarList([]), TensorList([a(2)])), "scalars has 0 scalars"),
                ("DivList", (TensorList([a(2, d=I32)]), TensorList([a(2, d=I32)]), TensorList([a(2, d=I32)])),
                 r"out\[0\] has dtype INT32"),
                ("AddcmulList", (*[TensorList([a(2), a(2), a(2)])] * 3, a(2), TensorList([a(2), a(2), a(2)])),
                 "scalars has 2 elements, expected 3, one for each tensor"),
                ("AddcmulList", (*[TensorList([a(2), a(2), a(2)])] * 3, a(1), TensorList([a(2), a(2), a(2)])),
                 "scalars has 1 elements"),
                ("AddScalar", (TensorList([a(2), a(2)]), a(2), TensorList([a(2), a(2)])),
                 "scalar has 2 elements, expected 1"),
                ("AddList", (*[TensorList([a(2), a(2)])] * 2, a(2), TensorList([a(2), a(2)])),
                 "alpha has 2 elements, expected 1"),
                ("Neg", (TensorList([a(2), a(2, d=F16)]), TensorList([a(2), a(2, d=F16)])),
                 r"out\[1\] has dtype FLOAT16, expected one of FLOAT"),
                ("Copy", (TensorList([a(2), a(2, d=F16)]), TensorList([a(2), a(2)])),
                 r"x\[1\] has dtype FLOAT16, expected one of FLOAT")):
            code, message = refused("aclnnForeach" + op, *args)
            self.assertEqual(code, INVALID)
            self.assertRegex(message, words)


class Amp(unittest.TestCase):
    def test_unscale(self):
        def body(gen):
            d = gen.pick(FLOATS)
            (x,), _ = lists(gen, d, 1)
            x = [gen.again(t) for t in x]
            before = [t.get() for t in x]
            bad = gen.pick((None, np.inf, -np.inf, np.nan))
            full = [i for i, t in enumerate(x) if t.size]
            if bad is not None and full:
                i = gen.pick(full)
                before[i].reshape(-1)[gen.integer(0, before[i].size - 1)] = bad
                x[i].set(before[i])
            found, scale = Tensor.of(F32, np.float32([gen.pick((0, 1))])), Tensor.of(F32, np.float32([0.25]))
            was = found.get()[0]
            run("aclnnForeachNonFiniteCheckAndUnscale", TensorList(x), found, scale)
            self.assertEqual(found.get()[0], 1 if bad is not None and full else was)
            for t, b in zip(x, before):
                ref.check_equal(t.get(), d.round(b.astype(LD) / 4))
        each_case(self, "aclnnForeachNonFiniteCheckAndUnscale", 40, body)

    def test_update_scale(self):
        for d in FLOATS:
            big = 2.0 ** (d.emax - 1)
            for scale, tracker, found, after, tracked in ((8, 0, 0, 8, 1), (8, 3, 0, 8, 4), (8, 4, 0, 16, 0),
                                                          (8, 4, 1, 4, 0), (8, 0, 1, 4, 0), (big, 4, 0, big, 0)):
                s, t = Tensor.of(d, np.float32([scale])), Tensor.of(I32, np.int32([tracker]))
                run("aclnnAmpUpdateScale", s, t, Tensor.of(d, np.float32([found])), 2.0, 0.5, 5, s, t)
                self.assertEqual((s.get()[0], t.get()[0]), (after, tracked))


if __name__ == "__main__":
    unittest.main()
