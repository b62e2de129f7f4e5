# SPDX-License-Identifier: Apache-2.0
"""Upsample* and their gradients, and Resize, compared with dense matrices of weights, one for each axis."""
import unittest

import numpy as np

import reference as ref
from acl import Floats, INVALID, NULLPTR, Ints, Tensor, params, refused, run
from dtypes import ALL, F16, F32, F64, FLOATS64, LD, STRING_CODE
from gen import each_case

CASES = 40
AXES = {"1d": 1, "2d": 2, "3d": 3, "2dAA": 2}


def scale_of(n_in, n_out, align, given):
    if align:
        return (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
    return 1 / given if given > 0 else n_in / n_out


def meant(scale):
    """The fraction with the smallest denominator that is rounded to the scale, if that is a float."""
    if scale <= 0 or np.float32(scale) != scale:
        return scale
    q = np.arange(1.0, 2 ** 17)
    fractions = np.rint(scale * q) / q
    return fractions[np.argmax(fractions.astype(np.float32) == np.float32(scale))]


def cubic(x, a):
    x = abs(x)
    return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1 if x <= 1 else a * (x ** 3 - 5 * x ** 2 + 8 * x - 4) if x < 2 else 0


def nearest_index(o, n_in, n_out, scale, exact):
    """The index that an output element copies, computed in float32 as in PyTorch."""
    if not exact and n_in == n_out:
        return o
    if not exact and 2 * n_in == n_out:
        return o // 2
    scale = np.float32(scale)
    at = np.float32((o + 0.5) * float(scale)) if exact else np.float32(o) * scale
    return min(int(np.floor(at)), n_in - 1)


def matrix(kind, n_in, n_out, align=False, given=0.0):
    """The [n_out, n_in] matrix of weights."""
    m, scale = np.zeros((n_out, n_in), LD), scale_of(n_in, n_out, align, meant(given) if "Near" in kind else given)
    for o in range(n_out):
        x = scale * o if align else scale * (o + 0.5) - 0.5
        if kind.startswith("Nearest"):
            m[o, nearest_index(o, n_in, n_out, scale, "Exact" in kind)] = 1
        elif kind == "linear":
            x = o if n_in == n_out else max(x, 0.0)
            i = min(int(x), n_in - 1)
            w = min(max(x - i, 0.0), 1.0)
            m[o, i] += 1 - w
            m[o, min(i + 1, n_in - 1)] += w
        elif kind == "cubic":
            i = int(np.floor(x))
            for t in range(-1, 3):
                m[o, min(max(i + t, 0), n_in - 1)] += cubic(x - (i + t), -0.75)
        else:
            wide = max(scale, 1.0)
            support, centre = (2 if kind == "cubicAA" else 1) * wide, scale * (o + 0.5)
            low, high = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), n_in)
            for i in range(low, high):
                d = (i - centre + 0.5) / wide
                m[o, i] = cubic(d, -0.5) if kind == "cubicAA" else max(1 - abs(d), 0)
            m[o] /= m[o].sum()
    return m


def apply(matrices, x):
    """Applies each matrix along one of the last dimensions."""
    for axis, m in enumerate(matrices):
        at = x.ndim - len(matrices) + axis
        x = np.moveaxis(np.tensordot(m, x, (1, at)), 0, at)
    return x


OPS = {  # kind, axes
    "Nearest1d": ("Nearest", 1), "Nearest2d": ("Nearest", 2), "Nearest3d": ("Nearest", 3),
    "Nearest1dV2": ("Nearest", 1), "Nearest2dV2": ("Nearest", 2),
    "NearestExact1d": ("NearestExact", 1), "NearestExact2d": ("NearestExact", 2), "NearestExact3d": ("NearestExact", 3),
    "Linear1d": ("linear", 1), "Bilinear2d": ("linear", 2), "Trilinear3d": ("linear", 3), "Bicubic2d": ("cubic", 2),
    "Bilinear2dAA": ("linearAA", 2), "Bicubic2dAA": ("cubicAA", 2),
}
BACKWARD = {
    "Nearest1dBackward": ("Nearest", 1), "Nearest2dBackward": ("Nearest", 2), "Nearest3dBackward": ("Nearest", 3),
    "NearestExact1dBackward": ("NearestExact", 1), "NearestExact2dBackward": ("NearestExact", 2),
    "NearestExact3dBackward": ("NearestExact", 3), "Linear1dBackward": ("linear", 1),
    "Bilinear2dBackward": ("linear", 2), "Bilinear2dBackwardV2": ("linear", 2), "Trilinear3dBackward": ("linear", 3),
    "Bicubic2dBackward": ("cubic", 2), "Bilinear2dAABackward": ("linearAA", 2), "Bicubic2dAAGrad": ("cubicAA", 2),
}


def sizes(gen, n):
    most = {1: 60, 2: 14, 3: 6}[n]
    pick = lambda: [gen.integer(1, 3 * most if gen.chance(0.1) else most) for _ in range(n)]
    return pick(), pick()


def options(gen, op, n_in, n_out):
    """Random arguments between sizes and result, and the matrices that belong to them."""
    args, align, scales = [], False, []
    by_sizes = "Bilinear2d" in op and "AA" not in op  # the sizes count if the scales do not give them
    for p in params(op):
        if p.type == "bool":
            align = gen.chance(0.5)
            args.append(align)
        elif p.type == "float":
            i = len(scales)
            follows_sizes = gen.chance(0.3)
            scales.append(n_out[i] / n_in[i] * gen.pick((1, 1.04)) if follows_sizes else
                          float(by_sizes and gen.chance(0.5)))
            scales[-1] = float(np.float32(scales[-1]))
            args.append(scales[-1])
    if op in ("aclnnUpsampleLinear1d", "aclnnUpsampleBicubic2d"):
        none = -1.0 if op.endswith("1d") else 0.0          # for scales that do not give the sizes
        scales = [s if int(i * s) == o else none for i, s, o in zip(n_in, scales, n_out)]
        args[1:] = scales
    if by_sizes and [int(i * s) for i, s in zip(n_in, scales)] != list(n_out):
        scales = [0.0, 0.0]
    return args, align, scales or [0.0] * len(n_in)


class Upsample(unittest.TestCase):
    def test_forward(self):
        for name, (kind, n) in OPS.items():
            each_case(self, f"aclnnUpsample{name}", CASES, lambda g, a=name, k=kind, n=n: self.forward(g, a, k, n))

    def forward(self, gen, name, kind, n):
        op = "aclnnUpsample" + name
        n_in, n_out = sizes(gen, n)
        d = gen.pick(FLOATS64)
        args, align, scales = options(gen, op, n_in, n_out)
        shape = (gen.integer(0, 3), gen.integer(1, 4), *n_in)
        x = gen.tensor(d, shape, gen.values(d, shape, limit=8))
        out = gen.out(d, (*x.shape[:2], *n_out))
        run(op, x, Ints(*n_out), *args, out)
        m = [matrix(kind, i, o, align, s) for i, o, s in zip(n_in, n_out, scales)]
        exact = apply(m, x.get().astype(LD))
        if kind.startswith("Nearest"):
            ref.check_equal(out.get(), exact.astype(out.get().dtype), op)
        else:
            ref.check(out.get(), exact, d, slack=2e-6 * 8 if d is not F64 else 1e-13, what=op)

    def test_nearest_moves_bits(self):
        """Nearest neighbours are copied bit by bit for any type, special values included."""
        def body(gen):
            d = gen.pick(ALL)
            x = gen.tensor(d, (2, 3, gen.integer(1, 9), gen.integer(1, 40)))
            out = gen.out(d, (2, 3, gen.integer(1, 20), gen.integer(1, 80)))
            run("aclnnUpsampleNearest2d", x, Ints(*out.shape[2:]), out)
            rows, columns = ([nearest_index(o, i, n, i / n, False) for o in range(n)]
                             for i, n in zip(x.shape[2:], out.shape[2:]))
            ref.check_equal(out.get(), x.get()[:, :, rows][:, :, :, columns])
        each_case(self, "aclnnUpsampleNearest2d bits", CASES, body)

    def test_scales_of_floats(self):
        """The forward operators of one and two dimensions get their scales as floats, the others as doubles. All pick
        what PyTorch picks with the double; the gradient goes where the value came from."""
        for n, scale in ((961, 1 / 480), (17, 1.7), (961, 1.7), (10, 2.5), (100, 0.3), (7, 1.3), (600, 7 / 9)):
            n_out = int(n * scale)
            picked = np.minimum(np.floor(np.arange(n_out, dtype=np.float32) * np.float32(1 / scale)), n - 1)
            x, y = np.arange(n, dtype=np.float32), Tensor.empty(F32, (1, 1, n_out))
            run("aclnnUpsampleNearest1dV2", Tensor.of(F32, x.reshape(1, 1, n)), Ints(n_out), scale, y)
            ref.check_equal(y.get().reshape(-1), picked, f"1d {n} {scale}")
            y = Tensor.empty(F32, (1, 1, n_out, 1))
            run("aclnnUpsampleNearest2dV2", Tensor.of(F32, x.reshape(1, 1, n, 1)), Ints(n_out, 1), scale, 1.0, y)
            ref.check_equal(y.get().reshape(-1), picked, f"2d {n} {scale}")
            y = Tensor.empty(F32, (1, 1, 1, 1, n_out))
            x = Tensor.of(F32, x.reshape(1, 1, 1, 1, n))
            run("aclnnUpsampleNearest3d", x, Ints(1, 1, n_out), 1.0, 1.0, scale, y)
            ref.check_equal(y.get().reshape(-1), picked, f"3d {n} {scale}")
            ones, grad = Tensor.of(F32, np.ones((1, 1, n_out), np.float32)), Tensor.empty(F32, (1, 1, n))
            run("aclnnUpsampleNearest1dBackward", ones, Ints(n_out), Ints(1, 1, n), scale, grad)
            ref.check_equal(grad.get().reshape(-1), np.bincount(picked.astype(int), minlength=n).astype(np.float32),
                            f"gradient {n} {scale}")

    def test_backward(self):
        for name, (kind, n) in BACKWARD.items():
            each_case(self, f"aclnnUpsample{name}", CASES, lambda g, a=name, k=kind, n=n: self.backward(g, a, k, n))

    def backward(self, gen, name, kind, n):
        op = "aclnnUpsample" + name
        n_in, n_out = sizes(gen, n)
        d = gen.pick(FLOATS64)
        args, align, scales = options(gen, op, n_in, n_out)
        lead = (gen.integer(0, 3), gen.integer(1, 4))
        grad = gen.tensor(d, (*lead, *n_out), gen.values(d, (*lead, *n_out), limit=4))
        out = gen.out(d, (*lead, *n_in))
        run(op, grad, Ints(*n_out), Ints(*lead, *n_in), *args, out)
        m = [matrix(kind, i, o, align, s).T for i, o, s in zip(n_in, n_out, scales)]
        exact = apply(m, grad.get().astype(LD))
        # Each weight is off by about 2**-24 of 1, whatever its size, and gradients are at most 4.
        slack = (3e-5 if d is not F64 else 1e-13) * max(np.prod([len(x.T) / len(x) + 1 for x in m]), 1)
        ref.check(out.get(), exact, d, slack=slack, what=op)

    def test_special_values(self):
        """An infinity or a NaN affects only the outputs that it has a weight in."""
        x = np.ones((1, 1, 1, 40), np.float32)
        x[..., 20] = np.inf
        out = Tensor.empty(F32, (1, 1, 1, 80))
        run("aclnnUpsampleBilinear2d", Tensor.of(F32, x), Ints(1, 80), False, 0.0, 0.0, out)
        m = matrix("linear", 40, 80)
        ref.check_equal(~np.isfinite(out.get()[0, 0, 0]), m[:, 20] > 0)

    def test_long_rows(self):
        for n_in, n_out in ((5000, 7000), (7000, 3), (3, 5000)):
            x = np.random.default_rng(1).standard_normal((1, 2, n_in)).astype(np.float32)
            for strides in (None, (4 * n_in, 2 * n_in, 2)):
                t = Tensor(F32, x.shape, strides, 0, 4 * n_in if strides else None).set(x)
                out = Tensor.empty(F32, (1, 2, n_out))
                run("aclnnUpsampleLinear1d", t, Ints(n_out), True, -1.0, out)
                ref.check(out.get(), apply([matrix("linear", n_in, n_out, True)], x.astype(LD)), F32, slack=1e-5)
                g = Tensor.of(F32, out.get())
                back = Tensor.empty(F32, x.shape)
                run("aclnnUpsampleLinear1dBackward", g, Ints(n_out), Ints(*x.shape), True, 0.0, back)
                ref.check(back.get(), apply([matrix("linear", n_in, n_out, True).T], out.get().astype(LD)), F32,
                          slack=1e-3 if n_in == 3 else 1e-5)

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 3, 4)), Tensor.empty(F32, (1, 2, 6, 8))
        for args, words in (((x, Ints(6), out), "outputSize has 1 elements, expected 2"),
                            ((x, Ints(6, 9), out), "out has shape [1, 2, 6, 8], expected [1, 2, 6, 9]"),
                            ((x, Ints(6, 8), Tensor.empty(F16, out.shape)), "out"),
                            ((Tensor.empty(F32, (2, 3, 4)), Ints(6, 8), out), "self has shape [2, 3, 4], expected 4"),
                            ((Tensor.empty(F32, (1, 2, 0, 4)), Ints(6, 8), out),
                             "self has no element along dimension 2"),
                            ((x.with_code(STRING_CODE), Ints(6, 8), out), "self")):
            code, message = refused("aclnnUpsampleNearest2d", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        code, message = refused("aclnnUpsampleBilinear2dBackward", out, Ints(6, 8), Ints(1, 2, 3), False, 0.0, 0.0, x)
        self.assertIn("inputSize has 3 elements, expected 4", message)
        line, long = Tensor.empty(F32, (1, 2, 3)), Tensor.empty(F32, (1, 2, 6))
        for op, args, words in (
                ("Nearest2d", (x, Ints(6, 0), Tensor.empty(F32, (1, 2, 6, 0))), "outputSize[1] is 0, expected 1 to"),
                ("Bilinear2d", (x, Ints(6, 8), False, 0.0, -1.0, out), "scalesW is -1, expected 0 or more"),
                ("Bilinear2dAA", (x, Ints(6, 8), False, -1.0, 0.0, out), "scalesH is -1, expected 0 or more"),
                ("Bicubic2dAAGrad", (out, Ints(6, 8), Ints(1, 2, 3, 4), False, -1.0, 0.0, x), "scalesH is -1"),
                ("Bicubic2d", (x, Ints(6, 8), False, 2.0, 2.5, out),
                 "scalesW is 2.5, expected one that makes 4 elements outputSize's 8"),
                ("Linear1d", (line, Ints(6), False, 5.0, long),
                 "scales is 5, expected one that makes 3 elements outputSize's 6"),
                ("Linear1d", (line, Ints(6), False, 0.0, long), "scales is 0")):
            code, message = refused("aclnnUpsample" + op, *args)
            self.assertEqual(code, INVALID, words)
            self.assertIn(words, message)


class Resize(unittest.TestCase):
    def test_all(self):
        def body(gen):
            mode = gen.pick(("nearest", "bilinear"))
            d = gen.pick(FLOATS64)
            n_in, n_out = sizes(gen, 2)
            x = gen.tensor(d, (2, 3, *n_in), gen.values(d, (2, 3, *n_in), limit=8))
            out = gen.out(d, (2, 3, *n_out))
            scales = Floats(1.0, 1.0, *(o / i for o, i in zip(n_out, n_in)))
            run("aclnnResize", x, scales, mode.encode(), out)
            kind = "Nearest" if mode == "nearest" else "linear"
            exact = apply([matrix(kind, i, o) for i, o in zip(n_in, n_out)], x.get().astype(LD))
            ref.check(out.get(), exact, d, slack=2e-5 if d is not F64 else 1e-13)
        each_case(self, "aclnnResize", CASES, body)

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 3, 4)), Tensor.empty(F32, (1, 2, 6, 8))
        code, message = refused("aclnnResize", x, Floats(1.0, 1.0, 2.0, 2.0), None, out)
        self.assertEqual(code, NULLPTR)
        self.assertIn("mode is NULL", message)


if __name__ == "__main__":
    unittest.main()
