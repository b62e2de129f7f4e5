"""Im2col and convolutions, and their gradients: against sums over windows in long double."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Bools, Ints, Tensor, refused, run
from dtypes import ALL, BF16, F16, F32, F64, FLOATS, FLOATS64, I32, LD
from gen import each_case

CASES = 60


class Geometry:
    """Random windows over `n` axes that fit."""

    def __init__(self, gen, n, most=10):
        while True:
            self.size = [gen.integer(1, most) for _ in range(n)]
            self.kernel = [gen.integer(1, 4) for _ in range(n)]
            if gen.chance(0.1):
                self.kernel[-1] = gen.integer(1, 20)
            self.stride, self.dilation = ([gen.integer(1, 3) if gen.chance(0.5) else 1 for _ in range(n)] for _ in range(2))
            self.pad = [gen.integer(0, 3) for _ in range(n)]
            room = [s + 2 * p - d * (k - 1) - 1 for s, p, d, k in zip(self.size, self.pad, self.dilation, self.kernel)]
            if min(room) >= 0:
                self.out = [r // s + 1 for r, s in zip(room, self.stride)]
                return


def windows(x, kernel, stride, pad, dilation, out):
    """[..., *kernel, *out] of x [..., *size]: what each window sees."""
    n = len(kernel)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + [(p, p + s + k * d) for p, s, k, d in zip(pad, stride, kernel, dilation)])
    result = np.zeros((*x.shape[:x.ndim - n], *kernel, *out), x.dtype)
    for k in itertools.product(*(range(i) for i in kernel)):
        at = tuple(slice(i * d, i * d + s * (o - 1) + 1, s) for i, d, s, o in zip(k, dilation, stride, out))
        result[(..., *k, *(slice(None),) * n)] = x[(..., *at)]
    return result


def scattered(columns, size, stride, pad, dilation):
    """The transpose of `windows`: [..., *kernel, *out] summed to [..., *size]."""
    n = len(size)
    kernel, out = columns.shape[-2 * n:-n], columns.shape[-n:]
    wide = [max(z + 2 * p, (k - 1) * d + s * (o - 1) + 1)
            for z, p, k, d, s, o in zip(size, pad, kernel, dilation, stride, out)]
    result = np.zeros((*columns.shape[:-2 * n], *wide), columns.dtype)
    for k in itertools.product(*(range(i) for i in kernel)):
        at = tuple(slice(i * d, i * d + s * (o - 1) + 1, s) for i, d, s, o in zip(k, dilation, stride, out))
        result[(..., *at)] += columns[(..., *k, *(slice(None),) * n)]
    return result[(..., *(slice(p, p + z) for p, z in zip(pad, size)))]


class Columns(unittest.TestCase):
    def test_im2col(self):
        def body(gen):
            g, d = Geometry(gen, 2), gen.pick(ALL)
            lead = (gen.integer(0, 3), gen.integer(1, 4))[gen.integer(0, 1):]
            x = gen.tensor(d, (*lead, *g.size))
            rows = lead[-1] * int(np.prod(g.kernel))
            out = gen.out(d, (*lead[:-1], rows, int(np.prod(g.out))))
            run("aclnnIm2col", x, Ints(*g.kernel), Ints(*g.dilation), Ints(*g.pad), Ints(*g.stride), out)
            expected = windows(x.get(), g.kernel, g.stride, g.pad, g.dilation, g.out)
            ref.check_equal(out.get(), expected.reshape(out.shape))
        each_case(self, "aclnnIm2col", 3 * CASES, body)

    def test_im2col_ggml(self):
        """1-D convolutions: the channels are the height of a window."""
        x = np.random.default_rng(1).standard_normal((1, 1, 128, 50)).astype(np.float32)
        out = Tensor.empty(F32, (1, 384, 3 * 50))
        run("aclnnIm2col", Tensor.of(F32, x), Ints(128, 3), Ints(1, 1), Ints(1, 1), Ints(1, 1), out)
        ref.check_equal(out.get(), windows(x, (128, 3), (1, 1), (1, 1), (1, 1), (3, 50)).reshape(out.shape))

    def test_backward(self):
        def body(gen):
            g, d = Geometry(gen, 2), gen.pick(FLOATS64)
            lead = (gen.integer(0, 3), gen.integer(1, 4))[gen.integer(0, 1):]
            shape = (*lead[:-1], lead[-1] * int(np.prod(g.kernel)), int(np.prod(g.out)))
            grad = gen.tensor(d, shape, gen.values(d, shape, limit=8))
            out = gen.out(d, (*lead, *g.size))
            run("aclnnIm2colBackward", grad, Ints(*g.size), Ints(*g.kernel), Ints(*g.dilation), Ints(*g.pad),
                Ints(*g.stride), out)
            columns = grad.get().astype(LD).reshape(*lead, *g.kernel, *g.out)
            exact, bound = (scattered(c, g.size, g.stride, g.pad, g.dilation) for c in (columns, np.abs(columns)))
            eps = 2.0 ** -53 if d is F64 else 2.0 ** -24
            ref.check(out.get(), exact, d, slack=80 * eps * bound)
        each_case(self, "aclnnIm2colBackward", 2 * CASES, body)

    def test_long_rows(self):
        grad = np.random.default_rng(1).standard_normal((1, 3, 5000)).astype(np.float32)
        for strides in (None, (30000, 10000, 2)):
            t = Tensor(F32, grad.shape, strides, 0, 30000 if strides else None).set(grad)
            out = Tensor.empty(F32, (1, 1, 1, 5000))
            run("aclnnIm2colBackward", t, Ints(1, 5000), Ints(1, 3), Ints(1, 1), Ints(0, 1), Ints(1, 1), out)
            exact = scattered(grad.astype(LD).reshape(1, 1, 1, 3, 1, 5000), (1, 5000), (1, 1), (0, 1), (1, 1))
            ref.check(out.get(), exact, F32, ulps=4, slack=1e-6)

    def test_errors(self):
        x, out = Tensor.empty(F32, (1, 2, 6, 6)), Tensor.empty(F32, (1, 8, 25))
        good = [x, Ints(2, 2), Ints(1, 1), Ints(0, 0), Ints(1, 1), out]
        for i, value, words in ((1, Ints(2), "kernelSize has 1 elements, expected 2"), (2, Ints(0, 1), "dilation[0] is 0"),
                                (3, Ints(0, -1), "padding[1] is -1"), (1, Ints(9, 2), "expected room for a window of 9"),
                                (5, Tensor.empty(F32, (1, 8, 24)), "out has shape [1, 8, 24], expected [1, 8, 25]"),
                                (5, Tensor.empty(F16, (1, 8, 25)), "out")):
            args = list(good)
            args[i] = value
            code, message = refused("aclnnIm2col", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)


if __name__ == "__main__":
    unittest.main()
