# SPDX-License-Identifier: Apache-2.0
"""Rfft1D and Stft, compared with sums in long double."""
import unittest

import numpy as np

import acl
from acl import INVALID, Tensor, refused, run
from dtypes import C64, C128, CLD, F32, F64, I32, LD, PART
from gen import each_case
from test_complex import draw

CASES = 60


def turns(frequencies, n):
    """e^(-2 pi i j k / n), by frequency and element; the product j k is reduced modulo n while it is an integer."""
    angle = -2 * np.arccos(LD(-1)) * (np.outer(frequencies, np.arange(n)) % n).astype(LD) / n
    return np.cos(angle) + 1j * np.sin(angle)


def smooth(n):
    for p in (2, 3, 5, 7):
        while n % p == 0:
            n //= p
    return n == 1


def check(got, exact, rows, n, d):
    """got, exact: [..., frequency]; rows [..., element]: the input. The bound is that of docs/operators.md."""
    single = smooth(n) and PART.get(d, d) == F32
    unit = 2 * (1 + np.log2(n)) * LD(2) ** (-24 if single else -53) * (1 if smooth(n) else np.sqrt(LD(n)))
    bound = unit * np.abs(rows).sum(-1, keepdims=True)
    for part in ("real", "imag"):
        g, e = (getattr(x, part).astype(LD) for x in (got, exact))
        wrong = np.abs(g - e) > bound + 0.5 * d.ulp(e)
        assert not wrong.any(), f"length {n}: {g[wrong][0]}, expected {e[wrong][0]}, bound {np.max(bound)}"


def length(gen, most):
    """A random length, or a product of small primes."""
    if gen.chance(0.5):
        return gen.integer(1, most)
    n = 1
    while gen.chance(0.8) and n * 7 <= most:
        n *= gen.pick((2, 2, 3, 4, 5, 7))
    return n


class Rfft(unittest.TestCase):
    def test_rfft(self):
        def body(gen):
            shape = list(gen.shape(max_rank=7, min_rank=1, numel=300))
            dim = gen.integer(0, len(shape) - 1)
            if gen.chance(0.5):
                shape[dim] = length(gen, 700) if np.prod(shape) // max(shape[dim], 1) < 60 else shape[dim]
            n = shape[dim] if gen.chance(0.5) and shape[dim] else length(gen, 500)
            norm = gen.integer(1, 3)
            x = gen.drawn(F32, shape, lambda s: gen.values(F32, s, special=False, limit=50))
            out = gen.out(F32, (*shape[:dim], n // 2 + 1, *shape[dim + 1:], 2))
            run("aclRfft1D", x, -1 if n == shape[dim] and gen.chance(0.5) else n, dim - gen.pick((0, len(shape))), norm,
                out)
            rows = np.moveaxis(x.get().astype(LD), dim, -1)[..., :n]
            rows = rows / (1, LD(n), np.sqrt(LD(n)))[norm - 1]
            exact = rows @ turns(np.arange(n // 2 + 1), n)[:, :rows.shape[-1]].T
            y = np.moveaxis(out.get(), dim, -2)
            check(y[..., 0] + 1j * y[..., 1].astype(CLD), exact, rows, n, F32)
        each_case(self, "aclRfft1D", 2 * CASES, body)

    def test_long(self):
        """Some frequencies of the longest transforms: lengths of small factors, a prime, and twice a prime."""
        for n in (262144, 262139, 2 * 130003, 65536 * 3):
            x = Tensor.of(F32, np.random.default_rng(n).standard_normal((3, n)).astype(np.float32))
            out = Tensor.empty(F32, (3, n // 2 + 1, 2))
            run("aclRfft1D", x, n, -1, 1, out)
            some = np.array([0, 1, n // 3, n // 2])
            exact = x.get().astype(LD) @ turns(some, n).T
            y = out.get()[:, some]
            check(y[..., 0] + 1j * y[..., 1].astype(CLD), exact, x.get(), n, F32)

    def test_rows_are_apart(self):
        """The bits of a row's result depend neither on other rows nor on their number."""
        rng = np.random.default_rng(3)
        for n in (400, 401, 22, 1024):          # 1024: rows that share cache sets are read piece by piece
            x = rng.standard_normal((37, n)).astype(np.float32)
            x[::3] *= 1e30
            x[5] = np.nan
            out = Tensor.empty(F32, (37, n // 2 + 1, 2))
            run("aclRfft1D", Tensor.of(F32, x), n, 1, 1, out)
            for row in (0, 4, 6, 36):
                one = Tensor.empty(F32, (n // 2 + 1, 2))
                run("aclRfft1D", Tensor.of(F32, x[row]), n, 0, 1, one)
                np.testing.assert_array_equal(one.get(), out.get()[row])

    def test_refused(self):
        x, out = Tensor.of(F32, np.zeros((2, 6))), Tensor.empty(F32, (2, 4, 2))
        for args, words in (
                ((Tensor.of(F64, np.zeros((2, 6))), 6, 1, 1, out), "self"),
                ((x, 6, 1, 1, Tensor.empty(C64, (2, 4))), "out"),
                ((x, 0, 1, 1, out), "n is 0, expected 1 to 262144, or -1"),
                ((x, 262145, 1, 1, out), "n is 262145"),
                ((x, 6, 2, 1, out), "dim is 2"),
                ((x, 6, 1, 0, out), "norm is 0, expected 1 (backward"),
                ((x, 6, 1, 4, out), "norm is 4"),
                ((x, 8, 1, 1, out), "out has shape [2, 4, 2], expected [2, 5, 2]"),
                ((Tensor.of(F32, np.zeros(())), 1, 0, 1, out), "self has 0 dimensions"),
                ((Tensor.of(F32, np.zeros((2, 0))), -1, 1, 1, out), "self has 0 elements")):
            code, message = refused("aclRfft1D", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)


class Stft(unittest.TestCase):
    def body(self, gen):
        d = gen.pick((F32, F64, C64, C128))
        real = PART.get(d, d)
        n = length(gen, 260)
        size = n + gen.pick((0, gen.integer(0, 40), gen.integer(0, 900)))
        hop, width = gen.integer(1, n), gen.pick((n, gen.integer(1, n)))
        batch = () if gen.chance(0.4) else (gen.integer(0, 4),)
        normalized, onesided, complex_out = gen.chance(0.5), d.kind != "c" and gen.chance(0.6), gen.chance(0.5)
        x = gen.drawn(d, (*batch, size), lambda s: draw(gen, d, s))
        window = gen.drawn(d, (width,), lambda s: draw(gen, d, s)) if gen.chance(0.7) else None
        frames, bins = (size - n) // hop + 1, n // 2 + 1 if onesided else n
        out_type = {F32: C64, F64: C128}[real] if complex_out else real
        out = gen.out(out_type, (*batch, bins, frames, *(() if complex_out else (2,))))
        run("aclStft", x, window, out, n, hop, width, normalized, onesided, complex_out)
        weight, left = np.zeros(n, CLD), (n - width) // 2
        weight[left:left + width] = 1 if window is None else window.get()
        cut = np.stack([x.get()[..., t * hop:t * hop + n] for t in range(frames)], -2).astype(CLD)
        rows = cut * weight / (np.sqrt(LD(n)) if normalized else 1)
        y = out.get()
        y = y if complex_out else y[..., 0] + 1j * y[..., 1].astype(CLD)
        check(np.swapaxes(y, -1, -2), rows @ turns(np.arange(bins), n).T, rows, n, real)

    def test_stft(self):
        each_case(self, "aclStft", 3 * CASES, self.body)

    def test_refused(self):
        x, w, out = Tensor.of(F32, np.zeros((2, 20))), Tensor.of(F32, np.zeros(8)), Tensor.empty(C64, (2, 5, 4))
        z = Tensor.of(C64, np.zeros((2, 20)))
        for args, words in (
                ((Tensor.of(I32, np.zeros(20)), None, out, 8, 4, 8, False, True, True), "self"),
                ((Tensor.of(F32, np.zeros((1, 2, 20))), None, out, 8, 4, 8, False, True, True),
                 "self has 3 dimensions"),
                ((x, None, out, 0, 4, 8, False, True, True), "nFft is 0, expected 1 to 20"),
                ((x, None, out, 21, 4, 8, False, True, True), "nFft is 21, expected 1 to 20"),
                ((x, None, out, 8, 0, 8, False, True, True), "hopLength is 0, expected 1 or more"),
                ((x, None, out, 8, 4, 9, False, True, True), "winLength is 9, expected 1 to nFft, 8"),
                ((x, None, out, 8, 4, 0, False, True, True), "winLength is 0"),
                ((x, Tensor.of(F64, np.zeros(8)), out, 8, 4, 8, False, True, True), "windowOptional"),
                ((x, w, out, 8, 4, 6, False, True, True), "windowOptional has shape [8], expected [6]"),
                ((z, None, out, 8, 4, 8, False, True, True), "onesided is true, expected false"),
                ((x, w, Tensor.empty(F32, (2, 5, 4)), 8, 4, 8, False, True, True), "out"),
                ((x, w, out, 8, 4, 8, False, True, False), "out"),
                ((x, w, out, 8, 4, 8, False, False, True), "out has shape [2, 5, 4], expected [2, 8, 4]"),
                ((x, w, out, 8, 3, 8, False, True, True), "out has shape [2, 5, 4], expected [2, 5, 5]")):
            code, message = refused("aclStft", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)

    def test_null(self):
        x, out = Tensor.of(F32, np.zeros(8)), Tensor.empty(C64, (5, 1))
        for args in ((None, None, out), (x, None, None)):
            self.assertEqual(refused("aclStft", *args, 8, 4, 8, False, True, True)[0], acl.NULLPTR)


if __name__ == "__main__":
    unittest.main()
