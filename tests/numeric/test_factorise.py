# SPDX-License-Identifier: Apache-2.0
"""Factorisations, determinants and Pdist."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Scalar, Tensor, refused, run
from dtypes import C64, C128, CLD, F32, F64, FLOATS64, LD
from gen import each_case

CASES = 40


def wide(t):
    return t.get().astype(CLD if t.dtype.kind == "c" else LD)


def unit(d):
    """Half a unit in the last place of 1, in the type to which results are rounded."""
    return LD(2) ** -({C64: F32, C128: F64}.get(d, d).digits)


def drawn(gen, d, shape):
    def draw(s):
        v = gen.rng.standard_normal(s)
        v = v + 1j * gen.rng.standard_normal(s) if d.kind == "c" else v
        return (d.round(v) if d.kind == "f" else v).astype(d.values)
    return gen.drawn(d, shape, draw)


class Qr(unittest.TestCase):
    def test_qr(self):
        def body(gen):
            d, mode = gen.pick(FLOATS64 + (C64, C128)), gen.integer(0, 2)
            batch = gen.shape(max_rank=2, numel=6)
            m, n = (gen.integer(1, 12) if gen.chance(0.9) else gen.integer(20, 300) for _ in "mn")
            if m * n > 4000:
                batch = ()
            k = min(m, n)
            a = drawn(gen, d, (*batch, m, n))
            q_shape = (0,) if mode == 2 else (*batch, m, m if mode else k)
            q, r = gen.out(d, q_shape), gen.out(d, (*batch, m if mode == 1 else k, n))
            if mode < 2 and gen.chance(0.3):
                run("aclnnQr", a, mode == 0, q, r)
            else:
                run("aclnnLinalgQr", a, mode, q, r)
            x, factor = wide(a), wide(r)
            if not x.size:
                return
            ref.check_equal(r.get(), np.triu(r.get()))
            bound = 8 * (max(m, n) * LD(2) ** -53 + unit(d)) * max(m, n)
            if mode == 2:                       # R is that of a Cholesky factorisation of A* A
                adjoint = np.conj(np.swapaxes(factor, -1, -2))
                error = np.abs(adjoint @ factor - np.conj(np.swapaxes(x, -1, -2)) @ x)
                assert np.all(error <= bound * np.max(np.abs(x)) ** 2 * m), error.max()
                return
            z = wide(q)
            error = np.abs(np.conj(np.swapaxes(z, -1, -2)) @ z - np.eye(z.shape[-1]))
            assert np.all(error <= bound), error.max()
            assert np.all(np.abs(z @ factor - x) <= bound * np.max(np.abs(x))), np.abs(z @ factor - x).max()
            diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
            assert np.all(np.imag(diagonal[..., :k if m > n or d.kind == "f" else k - 1]) == 0)
        each_case(self, "aclnnLinalgQr", 3 * CASES, body)

    def test_equal_columns(self):
        """After the first column only rounding errors are left, of smaller and smaller magnitude down to denormals. Q
        is orthogonal all the same."""
        m, n = 295, 195
        for seed, d in itertools.product(range(2), (F64, C128)):
            rng = np.random.default_rng(seed)
            column = rng.standard_normal((m, 1)) + (1j * rng.standard_normal((m, 1)) if d is C128 else 0)
            a, q, r = Tensor.of(d, np.tile(column, (1, n))), Tensor.empty(d, (m, n)), Tensor.empty(d, (n, n))
            run("aclnnLinalgQr", a, 0, q, r)
            self.assertLess(np.abs(np.conj(q.get().T) @ q.get() - np.eye(n)).max(), 1e-13)
            self.assertLess(np.abs(q.get() @ r.get() - a.get()).max(), 1e-12)

    def test_lapack_signs(self):
        """The diagonal of R has the signs that LAPACK gives it."""
        rng = np.random.default_rng(4)
        a = rng.standard_normal((7, 5))
        a[1:, 0] = 0                            # the first column needs no reflection
        q, r = Tensor.empty(F64, (7, 5)), Tensor.empty(F64, (5, 5))
        run("aclnnLinalgQr", Tensor.of(F64, a), 0, q, r)
        expected = np.linalg.qr(a)
        for got, e in ((q, expected[0]), (r, expected[1])):
            self.assertTrue(np.allclose(got.get(), e, rtol=0, atol=1e-13))

    def test_refused(self):
        a, q, r = Tensor.empty(F32, (4, 3)), Tensor.empty(F32, (4, 3)), Tensor.empty(F32, (3, 3))
        for name, args in (("mode", (a, 3, q, r)),
                           ("Q", (a, 1, q, r)),
                           ("R", (a, 0, q, q)),
                           ("Q has shape", (a, 2, q, r)),
                           ("self", (Tensor.empty(F32, (3,)), 0, q, r))):
            code, message = refused("aclnnLinalgQr", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(name, message)


class Slogdet(unittest.TestCase):
    def test_slogdet(self):
        def body(gen):
            d = gen.pick((F32, F64, C64, C128))
            batch = gen.shape(max_rank=3, numel=20)
            n = gen.integer(0, 8) if gen.chance(0.9) else gen.integer(20, 100)
            a = gen.again(drawn(gen, d, (*batch, n, n)))
            a.set((a.get() + gen.rng.standard_normal(a.shape)).astype(d.values))
            sign = gen.out(d, batch)
            log = gen.out(gen.pick((d, {C64: F32, C128: F64}.get(d, d))), batch)
            run("aclnnSlogdet", a, sign, log)
            expected = np.linalg.slogdet(a.get().astype(np.complex128 if d.kind == "c" else np.float64))
            condition = np.linalg.cond(a.get()) if n and a.size else 1
            bound = np.max(condition, initial=1) * max(n, 1) * 2e-14 + 4 * float(unit(d))
            assert np.all(np.abs(sign.get() - expected[0]) <= bound)
            assert np.all(np.abs(log.get() - expected[1]) <= bound * (1 + np.abs(expected[1])))
        each_case(self, "aclnnSlogdet", 2 * CASES, body)

    def test_singular(self):
        sign, log = Tensor.empty(F32, ()), Tensor.empty(F32, ())
        run("aclnnSlogdet", Tensor.of(F32, [[1, 2], [2, 4]]), sign, log)
        self.assertEqual((sign.get(), log.get()), (0, -np.inf))
        code, message = refused("aclnnSlogdet", Tensor.empty(F32, (2, 3)), sign, log)
        self.assertEqual(code, INVALID)
        self.assertIn("expected square matrices", message)


class Logdet(unittest.TestCase):
    def test_logdet(self):
        def body(gen):
            d = gen.pick((F32, F64, C64, C128))
            batch, n = gen.shape(max_rank=3, numel=20), gen.integer(0, 8)
            a = gen.again(drawn(gen, d, (*batch, n, n)))
            a.set((a.get() + gen.rng.standard_normal(a.shape)).astype(d.values))
            out = gen.out(d, batch)
            run("aclnnLogdet", a, out)
            wide = a.get().astype(np.complex128 if d.kind == "c" else np.float64)
            sign, log = np.linalg.slogdet(wide)
            condition = np.linalg.cond(a.get()) if n and a.size else 1
            bound = (np.max(condition, initial=1) * max(n, 1) * 2e-14 + 4 * float(unit(d))) * (1 + np.abs(log))
            if d.kind == "c":
                got = out.get()
                assert np.all(np.abs(got.real - log) <= bound)
                assert np.all(np.abs(np.exp(1j * got.imag) - sign) <= bound)
            else:
                ref.check_equal(np.isnan(out.get()), sign < 0)
                assert np.all((sign < 0) | (np.abs(out.get() - log) <= bound))
        each_case(self, "aclnnLogdet", 2 * CASES, body)
        out = Tensor.empty(F32, ())
        run("aclnnLogdet", Tensor.of(F32, [[1, 2], [2, 4]]), out)
        self.assertEqual(out.get(), -np.inf)


class Cholesky(unittest.TestCase):
    def test_cholesky(self):
        def body(gen):
            d, upper = gen.pick((F32, F64, C64, C128)), gen.chance(0.5)
            batch, n = gen.shape(max_rank=3, numel=12), gen.integer(0, 12)
            g = gen.rng.standard_normal((*batch, n, n)) + (1j * gen.rng.standard_normal((*batch, n, n))
                                                           if d.kind == "c" else 0)
            whole = (g @ g.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(d.values)
            other = np.triu(np.full((n, n), np.nan), 1)         # the triangle that is not read
            a = gen.out(d, whole.shape, (whole + (other.T if upper else other)).astype(d.values))
            out = a if gen.chance(0.2) else gen.out(d, whole.shape)
            run("aclnnLinalgCholesky", a, upper, out)
            f = out.get().astype(CLD if d.kind == "c" else LD)
            ref.check_equal(f, np.triu(f) if upper else np.tril(f))
            adjoint = f.conj().swapaxes(-1, -2)
            again = adjoint @ f if upper else f @ adjoint
            limit = 16 * (n + 1) * (unit(d) + LD(2) ** -50) * np.abs(whole).max(initial=0)
            assert np.all(np.abs(again - whole) <= limit)
        each_case(self, "aclnnLinalgCholesky", 2 * CASES, body)

    def test_not_positive(self):
        for values in ([[1.0, 0], [0, -1]], [[0.0]], [[np.nan]]):
            a = Tensor.of(F32, values)
            with self.assertRaises(AclError) as caught:
                run("aclnnLinalgCholesky", a, False, Tensor.empty(F32, a.shape))
            self.assertIn("not positive definite", str(caught.exception))
        code, message = refused("aclnnLinalgCholesky", Tensor.empty(F32, (2, 3)), False, Tensor.empty(F32, (2, 3)))
        self.assertEqual(code, INVALID)
        self.assertIn("expected square matrices", message)


class Svd(unittest.TestCase):
    def test_svd(self):
        def body(gen):
            d, full = gen.pick((F32, F64)), gen.chance(0.5)
            batch = gen.shape(max_rank=3, numel=10)
            m, n = gen.integer(1, 9), gen.integer(1, 9)
            k = min(m, n)
            x = drawn(gen, d, (*batch, m, n))
            sigma, u, v = (gen.out(d, batch + s) for s in ((k,), (m, m if full else k), (n, n if full else k)))
            run("aclnnSvd", x, full, True, sigma, u, v)
            a = x.get().astype(np.float64)
            want = np.linalg.svd(a, compute_uv=False) if a.size else sigma.get()
            eps = 8 * (m + n) * (2.0 ** -24 if d is F32 else 2.0 ** -53)
            most = np.abs(want).max(-1, initial=0)[..., None]
            assert (np.abs(sigma.get() - want) <= eps * most).all()
            left, right = u.get().astype(np.float64), v.get().astype(np.float64)
            for q in (left, right):
                assert np.abs(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1])).max(initial=0) <= eps
            again = left[..., :k] * sigma.get()[..., None, :] @ right[..., :k].swapaxes(-1, -2)
            assert (np.abs(again - a) <= eps * most[..., None]).all()
            alone, unused = gen.out(d, batch + (k,)), Tensor.empty(d, (1,))
            run("aclnnSvd", x, full, False, alone, unused, unused)
            ref.check_equal(alone.get(), sigma.get())
        each_case(self, "aclnnSvd", 2 * CASES, body)


class Pdist(unittest.TestCase):
    def test_pdist(self):
        def body(gen):
            d, p = gen.pick(FLOATS64), gen.pick((0, 1, 2, np.inf, 0.5, 3, 2.5))
            n, m = gen.integer(0, 12), gen.integer(0, 20) if gen.chance(0.9) else gen.integer(1000, 2100)
            x, out = gen.drawn(d, (n, m), lambda s: gen.values(d, s, limit=8)), gen.out(d, (n * (n - 1) // 2,))
            if gen.chance(0.3):
                run("aclnnPdistForward", x, Scalar(p, F32), out)
            else:
                run("aclnnPdist", x, p, out)
            v = x.get().astype(LD)
            i, j = np.triu_indices(n, 1)
            difference = np.abs(v[i] - v[j])
            if p == np.inf:
                exact = np.max(difference, -1, initial=0)
            elif p == 0:
                exact = (difference != 0).sum(-1).astype(LD)
            else:
                exact = (difference ** LD(p)).sum(-1) ** (1 / LD(p))
            slack = ref.sum_slack(exact * max(1, 1 / p if p else 1) + 1e-30, m, F64 if d is F64 else F32)
            ref.check(out.get(), exact, d, slack=slack, what=f"p = {p}: ")
        each_case(self, "aclnnPdist", 3 * CASES, body)
        x, out = Tensor.empty(F32, (3, 4)), Tensor.empty(F32, (3,))
        for name, args in (("p is -1", (x, -1.0, out)), ("out", (x, 2.0, Tensor.empty(F32, (4,)))),
                           ("p is nan", (x, np.nan, out))):
            code, message = refused("aclnnPdist", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
