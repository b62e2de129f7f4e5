# SPDX-License-Identifier: Apache-2.0
"""Linear algebra that MindSpore calls by name (ops/mindspore.aclop): results are put into the equations that define
them, in long double."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BOOL, C64, C128, CLD, F16, F32, F64, I8, I32, I64, LD
from gen import each_case

EPS = {F16: 2.0 ** -10, F32: 2.0 ** -23, F64: 2.0 ** -52, C64: 2.0 ** -23, C128: 2.0 ** -52}
COMPLEX_OF = {F32: C64, F64: C128, C64: C64, C128: C128}


def wide(x):
    return x.astype(CLD if np.iscomplexobj(x) else LD)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def numbers(gen, d, shape):
    """Standard normal ones."""
    x = gen.rng.standard_normal(shape)
    return (x + 1j * gen.rng.standard_normal(shape) if d.kind == "c" else x).astype(d.values)


def sizes(gen):
    """The dimensions of a batch, a size of matrices and a number of right sides."""
    batch = gen.shape(2, numel=6, empty=0.1)
    n = gen.integer(0, 9) if gen.chance(0.8) else gen.integer(17, 40)
    return batch, n, gen.pick((0, 1, 2, 3, 70))


def system(gen, trans, lower, unit):
    """What SolveTriangular's system is, as MindSpore passes it: on the host or, in graphs, on the device."""
    if gen.chance(0.5):
        return [Host(trans), Host(lower, bool), Host(unit, bool)]
    return [Operand.of(I64, np.array(trans)), *(Operand.of(BOOL, np.array(b)) for b in (lower, unit))]


def close(got, want, d, scale=1, units=30):
    """scale: the magnitude that rounding errors are relative to."""
    error, limit = np.abs(np.asarray(got) - want), units * EPS[d] * np.asarray(scale, LD)
    assert error.shape == np.shape(want), f"shape {error.shape}, expected {np.shape(want)}"
    assert np.all(error <= limit), f"off by {np.max(error / np.maximum(limit, 1e-300)):.3g} times what is allowed"


def magnitude(*factors):
    """Of a product's rounding errors: the largest element of the product of absolute values, and at least 1."""
    most = abs(factors[0])
    for f in factors[1:]:
        most = most @ abs(f)
    return max(1, most.max(initial=0)) * max(1, most.shape[-1])


def call(name, inputs, outputs, attributes=None):
    operands = [Operand.empty(d, shape) for d, shape in outputs]
    execute(name, inputs, operands, {"not_an_attribute": 3, **(attributes or {})})
    return [o.get() for o in operands]


def call_one(name, inputs, d, shape, attributes=None):
    return call(name, inputs, [(d, shape)], attributes)[0]


class Systems(unittest.TestCase):
    def test_general(self):
        def body(gen):
            d, (batch, n, cols), turned = gen.pick((F32, F64, C64, C128)), sizes(gen), gen.chance(0.5)
            a, b = numbers(gen, d, (*batch, n, n)), numbers(gen, d, (*batch, n, cols))
            x = call_one("MatrixSolve", [Operand.of(d, a), Operand.of(d, b)], d, b.shape, {"adjoint": turned})
            m = adjoint(wide(a)) if turned else wide(a)
            close(m @ wide(x), b, d, magnitude(m, x))
        each_case(self, "MatrixSolve", 30, body)

    def test_inverse(self):
        def body(gen):
            d, (batch, n, _), turned = gen.pick((F32, F64, C64, C128)), sizes(gen), gen.chance(0.5)
            a = numbers(gen, d, (*batch, n, n))
            x = wide(call_one("MatrixInverse", [Operand.of(d, a)], d, a.shape, {"adjoint": turned}))
            m = adjoint(wide(a)) if turned else wide(a)
            close(m @ x, np.broadcast_to(np.eye(n), a.shape), d, magnitude(m, x, m, x))
        each_case(self, "MatrixInverse", 20, body)

    def test_lu(self):
        def body(gen):
            d, (batch, n, cols) = gen.pick((F16, F32)), sizes(gen)
            lu = (numbers(gen, d, (*batch, n, n)) / max(1, n)).astype(d.values)
            lu += 2 * np.eye(n, dtype=d.values)
            pivots = np.minimum(np.arange(n) + gen.rng.integers(1, n + 2, (*batch, n)), n)
            b = numbers(gen, d, (*gen.pick(((), (2,))), *batch, n, cols))
            x = call_one("CustLuSolve", [Operand.of(d, b), Operand.of(d, lu), Operand.of(I32, pivots)], d, b.shape)
            lower = np.tril(wide(lu), -1) + np.eye(n)
            product = np.broadcast_to(lower @ np.triu(wide(lu)) @ wide(x), b.shape).copy()
            for at in np.ndindex(*b.shape[:-2]):
                rows = product[at]
                for i, p in reversed(list(enumerate(pivots[at[len(at) - len(batch):]]))):
                    rows[[i, int(p) - 1]] = rows[[int(p) - 1, i]]
            close(product, b, d, magnitude(lower, np.triu(lu), x))
        each_case(self, "CustLuSolve", 30, body)

    def test_cholesky(self):
        def body(gen):
            d, (batch, n, cols), upper = gen.pick((F32, F64)), sizes(gen), gen.chance(0.5)
            factor = numbers(gen, d, (*batch, n, n)) / max(1, n) + 2 * np.eye(n)
            factor = factor.astype(d.values)                       # the other triangle is not read
            f = np.triu(wide(factor)) if upper else np.tril(wide(factor))
            m = np.swapaxes(f, -1, -2) @ f if upper else f @ np.swapaxes(f, -1, -2)
            b = numbers(gen, d, (*batch, n, cols))
            how = {"upper": upper}
            x = call_one("CustCholeskySolve", [Operand.of(d, b), Operand.of(d, factor)], d, b.shape, how)
            close(m @ wide(x), b, d, magnitude(m, x))
            x = call_one("CustCholeskyInverse", [Operand.of(d, factor)], d, factor.shape, how)
            close(m @ wide(x), np.broadcast_to(np.eye(n), m.shape), d, magnitude(m, x))
        each_case(self, "CustCholeskySolve", 30, body)

    def test_triangular(self):
        def body(gen):
            d, (batch, n, cols) = gen.pick((F32, F64, C64, C128)), sizes(gen)
            lower, unit, trans = gen.chance(0.5), gen.chance(0.3), gen.integer(0, 2)
            a = numbers(gen, d, (*batch, n, n)) / max(1, n) + 2 * np.eye(n)
            a = a.astype(d.values)                                 # the other triangle is not read
            t = np.tril(wide(a)) if lower else np.triu(wide(a))
            vector = gen.chance(0.3)
            b = numbers(gen, d, (*batch, n) if vector else (*batch, n, cols))
            if not unit and trans != 1 and not vector:
                how = {"lower": lower, "adjoint": trans == 2}
                x = call_one("MatrixTriangularSolve", [Operand.of(d, a), Operand.of(d, b)], d, b.shape, how)
                m = adjoint(t) if trans else t
                close(m @ wide(x), b, d, magnitude(m, x))
            form = system(gen, trans, lower, unit)
            x = call_one("CustSolveTriangular", [Operand.of(d, a), Operand.of(d, b), *form], d, b.shape)
            if unit:
                t = t * (1 - np.eye(n)) + np.eye(n)
            m = (t, np.swapaxes(t, -1, -2), adjoint(t))[trans]
            if vector:
                x, b = x[..., None], b[..., None]
            close(m @ wide(x), b, d, magnitude(m, x))
        each_case(self, "CustSolveTriangular", 50, body)

    def test_triangular_gradients(self):
        def body(gen):
            d, (batch, n, cols) = gen.pick((F32, F64, C64, C128)), sizes(gen)
            lower, unit, trans, vector = gen.chance(0.5), gen.chance(0.3), gen.integer(0, 2), gen.chance(0.3)
            a = (numbers(gen, d, (*batch, n, n)) / max(1, n) + 2 * np.eye(n)).astype(d.values)
            x, dx = (numbers(gen, d, (*batch, n) if vector else (*batch, n, cols)) for _ in range(2))
            form = system(gen, trans, lower, unit)
            da, db = call("CustSolveTriangularGrad", [Operand.of(d, v) for v in (a, x, dx)] + form,
                          [(d, a.shape), (d, x.shape)])
            if vector:
                x, dx, db = (v[..., None] for v in (x, dx, db))
            mask = np.tril(np.ones((n, n))) if lower else np.triu(np.ones((n, n)))
            mask = mask - np.eye(n) if unit else mask
            t = wide(a) * mask + (np.eye(n) if unit else 0)
            transposed = (np.swapaxes(t, -1, -2), t, np.conj(t))[trans]
            close(transposed @ wide(db), dx, d, magnitude(transposed, db))
            of = -wide(db) @ np.swapaxes(wide(x), -1, -2)
            of = (of, np.swapaxes(of, -1, -2), adjoint(of))[trans]
            close(da, of * mask, d, magnitude(abs(db), abs(np.swapaxes(x, -1, -2))))
            outside = np.broadcast_to(mask == 0, da.shape)
            ref.check_equal(da[outside], np.zeros(np.count_nonzero(outside), d.values))
        each_case(self, "CustSolveTriangularGrad", 40, body)
        a = Operand.of(F32, np.eye(2))
        with self.assertRaisesRegex(AclError, "trans is -1, expected 0, 1"):
            execute("CustSolveTriangularGrad", [a, a, a, Host(-1), Host(0), Host(0)], [a, a], {})
        with self.assertRaisesRegex(AclError, "trans is 3, expected 0, 1"):
            execute("CustSolveTriangular", [a, a, Host(3), Host(0), Host(0)], [a], {})

    def test_wrong(self):
        a, b = Operand.of(F32, np.ones((2, 2, 3))), Operand.of(F32, np.ones((2, 2, 1)))
        with self.assertRaisesRegex(AclError, "square matrices"):
            execute("MatrixSolve", [a, b], [b], {})
        square, other = Operand.of(F32, np.ones((2, 2))), Operand.of(F64, np.ones((2, 1)))
        with self.assertRaisesRegex(AclError, "rhs has dtype DOUBLE, expected one of FLOAT"):
            execute("MatrixSolve", [square, other], [other], {})
        with self.assertRaisesRegex(AclError, r"matrix has shape \[2, 2, 2\], expected \[3, 2, 2\]"):
            execute("MatrixSolve", [Operand.of(F32, np.ones((2, 2, 2))), Operand.of(F32, np.ones((3, 2, 1)))], [b], {})
        with self.assertRaisesRegex(AclError, "lu_pivots has"):
            execute("CustLuSolve", [b, square, Operand.of(I32, np.ones((2, 2)))], [b], {})
        with self.assertRaisesRegex(AclError, "as many rows as columns"):
            execute("CustOrgqr", [a, Operand.of(F32, np.ones((2, 2)))], [a], {})


class Parts(unittest.TestCase):
    def test_lu_unpack(self):
        def body(gen):
            d, pivot = gen.pick((F16, F32, F64, I8, I32)), gen.pick((I8, I32, I64))
            batch, m, n = gen.shape(2, numel=6, empty=0.1), gen.integer(0, 7), gen.integer(0, 7)
            k = min(m, n)
            lu = gen.values(d, (*batch, m, n), limit=9)
            pivots = gen.rng.integers(1, m + 1, (*batch, k)) if m else np.zeros((*batch, 0))
            shapes = [(*batch, m, m), (*batch, m, k), (*batch, k, n)]
            inputs = [Operand.of(d, lu), Operand.of(pivot, pivots.astype(pivot.values))]
            p, lower, upper = call("CustLuUnpack", inputs, [(d, s) for s in shapes])
            ref.check_equal(lower, np.tril(lu, -1)[..., :k] + np.eye(m, k, dtype=d.values))
            ref.check_equal(upper, np.triu(lu)[..., :k, :])
            rows = np.broadcast_to(np.arange(m), (*batch, m)).copy()
            for at in np.ndindex(*batch):
                for i, other in enumerate(pivots[at]):
                    rows[at][[i, int(other) - 1]] = rows[at][[int(other) - 1, i]]
            ref.check_equal(np.swapaxes(p, -1, -2), np.eye(m, dtype=d.values)[rows])
            grads = [gen.values(d, s, limit=9) for s in shapes[1:]]
            inputs = [*(Operand.of(d, g) for g in grads), Operand.of(d, lu)]
            a, b = call("CustLuUnpackGrad", inputs, [(d, lu.shape)] * 2, {"L_grad_flag": True, "U_grad_flag": True})
            want = np.zeros((2, *lu.shape), d.values)
            want[0, ..., :k] = np.tril(grads[0], -1)
            want[1, ..., :k, :] = np.triu(grads[1])
            ref.check_equal(a, want[0])
            ref.check_equal(b, want[1])
        each_case(self, "CustLuUnpack", 40, body)

    def test_lu_unpack_in_part(self):
        x, p = np.arange(1.0, 5).reshape(2, 2), Operand.of(I32, [2, 2])
        for name, data in (("unpack_data", True), ("unpack_pivots", False)):
            kept = [Operand.of(F32, np.full((2, 2), 7.0)) for _ in range(3)]
            execute("CustLuUnpack", [Operand.of(F32, x), p], kept, {name: False})
            want = [[[0, 1], [1, 0]], np.full((2, 2), 7), np.full((2, 2), 7)] if data else \
                [np.full((2, 2), 7), [[1, 0], [3, 1]], [[1, 2], [0, 4]]]
            for got, w in zip(kept, want):
                ref.check_equal(got.get(), w)
        with self.assertRaisesRegex(AclError, r"LU_pivots has shape \[3\], expected \[2\]"):
            execute("CustLuUnpack", [Operand.of(F32, x), Operand.of(I32, [1, 2, 3])], kept, {})

    def test_vectors(self):
        def body(gen):
            d = gen.pick((F16, F32, F64))
            x, y = gen.values(d, (gen.integer(0, 20),), limit=9), gen.values(d, (gen.integer(0, 20),), limit=9)
            got = call_one("Ger", [Operand.of(d, x), Operand.of(d, y)], d, (x.size, y.size))
            ref.check(got, np.outer(x.astype(LD), y.astype(LD)), d, ulps=0.5)
            d, part = gen.pick(((C64, F32), (C128, F64)))
            z = numbers(gen, d, gen.shape(3))
            got = call_one("ComplexAbs", [Operand.of(d, z)], part, z.shape)
            ref.check(got, np.abs(wide(z)).astype(LD), part)
        each_case(self, "Ger", 20, body)


class Reflections(unittest.TestCase):
    def test_factors(self):
        def body(gen):
            d, (batch, m, _) = gen.pick((F32, F64, C64, C128)), sizes(gen)
            n = gen.integer(0, m)
            a = numbers(gen, d, (*batch, m, n))
            if n > 1 and gen.chance(0.3):
                a[..., 1] = 0
            factors, tau = call("CustGeqrf", [Operand.of(d, a)], [(d, a.shape), (d, (*batch, n))])
            q = np.broadcast_to(np.eye(m, dtype=CLD if d.kind == "c" else LD), (*batch, m, m))
            for c in range(n):
                v = np.tril(wide(factors), -1)[..., c:c + 1] + np.eye(m)[:, c:c + 1]
                q = q @ (np.eye(m) - wide(tau)[..., c, None, None] * (v @ adjoint(v)))
            scale = magnitude(np.ones((m, m)), a)
            close(q[..., :, :n] @ np.triu(wide(factors))[..., :n, :], a, d, scale)
            close(adjoint(q) @ q, np.broadcast_to(np.eye(m), q.shape), d, max(1, m))
            x = call_one("CustOrgqr", [Operand.of(d, factors), Operand.of(d, tau)], d, a.shape)
            close(x, q[..., :n], d, max(1, m))
            if n > 1:                                                  # fewer reflections
                few = Operand.of(d, np.ascontiguousarray(tau[..., :1]))
                x = call_one("CustOrgqr", [Operand.of(d, factors), few], d, a.shape)
                v = np.tril(wide(factors), -1)[..., :1] + np.eye(m)[:, :1]
                close(x, (np.eye(m) - wide(tau)[..., :1, None] * (v @ adjoint(v)))[..., :n], d, max(1, m))
        each_case(self, "CustGeqrf", 30, body)

    def test_wide(self):
        a = np.arange(1.0, 11).reshape(2, 5)
        factors, tau = call("CustGeqrf", [Operand.of(F64, a)], [(F64, a.shape), (F64, (2,))])
        v = np.array([1, factors[1, 0]])
        np.testing.assert_allclose((np.eye(2) - tau[0] * np.outer(v, v)) @ np.triu(factors), a, 1e-14)
        self.assertEqual(tau[1], 0)


def exponential(a):
    """By the Taylor series of a matrix that is scaled to a small norm, in long double."""
    k = max(0, int(np.ceil(np.log2(max(abs(a).sum(-1).max(initial=0), LD(1e-9)) * 16))))
    x = wide(a) / LD(2) ** k
    total = term = np.broadcast_to(np.eye(a.shape[-1]), a.shape).astype(x.dtype)
    for i in range(1, 20):
        term = term @ x / i
        total = total + term
    for _ in range(k):
        total = total @ total
    return total


class Functions(unittest.TestCase):
    def test_exponential(self):
        def body(gen):
            d, (batch, n, _) = gen.pick((F16, F32, F64, C64, C128)), sizes(gen)
            a = (numbers(gen, d, (*batch, n, n)) * gen.pick((0.01, 0.5, 3)) / max(1, n) ** 0.5).astype(d.values)
            got = call_one("CustMatrixExp", [Operand.of(d, a)], d, a.shape)
            want = exponential(a)
            close(got, want, d, magnitude(abs(want)) * 4)
        each_case(self, "CustMatrixExp", 40, body)
        x = np.array([[[0.0, 1e4], [0, 0]], [[-800.0, 0], [0, 1]], [[np.nan, 0], [0, 1]], [[0, np.pi], [-np.pi, 0]]])
        want = np.array([[[1, 1e4], [0, 1]], [[0, 0], [0, np.e]], np.full((2, 2), np.nan), [[-1, 0], [0, -1]]])
        np.testing.assert_allclose(call_one("CustMatrixExp", [Operand.of(F64, x)], F64, x.shape), want, 1e-12, 1e-13)

    def test_logarithm(self):
        def body(gen):
            d, (batch, n, _) = gen.pick((C64, C128)), sizes(gen)
            n = min(n, 20)
            a = numbers(gen, d, (*batch, n, n)) * gen.pick((0.01, 1, 100))
            if gen.chance(0.3):                                        # nearly triangular, with equal eigenvalues
                a = np.triu(a, 1) / max(n, 1) + 2 * np.eye(n)
            a = a.astype(d.values)
            got = call_one("CustMatrixLogarithm", [Operand.of(d, a)], d, a.shape)
            back = exponential(got)
            close(back, a, d, magnitude(abs(a)) * max(1, abs(got).max(initial=0)) * 40)
            values = np.linalg.eigvals(got.astype(np.complex128)) if got.size else got
            self.assertTrue(np.all(np.abs(values.imag) <= np.pi + 1e-3))
        each_case(self, "CustMatrixLogarithm", 30, body)
        got = call_one("CustMatrixLogarithm", [Operand.of(C128, np.diag([2j, -3, 1e-200]))], C128, (3, 3))
        np.testing.assert_allclose(got, np.diag(np.log(np.array([2j, -3, 1e-200]))), 1e-14)
        bad = np.array([[np.inf, 1], [1, 1]])
        self.assertTrue(np.isnan(call_one("CustMatrixLogarithm", [Operand.of(C64, bad)], C64, (2, 2))).all())

    def check_eigen(self, d, a):
        """a: a stack."""
        n, c, scale = a.shape[-1], COMPLEX_OF[d], max(np.abs(a).max(initial=0), 1e-290) * max(1, a.shape[-1])
        w, v = call("CustEig", [Operand.of(d, a)], [(c, a.shape[:-1]), (c, a.shape)], {"compute_v": True})
        close(wide(a) @ v - w[..., None, :] * wide(v), np.zeros(a.shape), c, scale)
        close((np.abs(wide(v)) ** 2).sum(-2), np.ones(w.shape), c)
        size = np.abs(v)                                               # several may be the largest, but for rounding
        largest = size >= size.max(-2, keepdims=True, initial=0) * (1 - 1e-6)
        positive = largest & (v.real > 0) & (np.abs(v.imag) < 1e-6)
        ref.check_equal(positive.any(-2), np.ones(w.shape, bool))
        close(w.sum(-1), np.trace(wide(a), axis1=-2, axis2=-1), c, scale)
        close((wide(w) ** 2).sum(-1), np.trace(wide(a) @ wide(a), axis1=-2, axis2=-1), c, scale * scale * max(1, n))
        rest = Operand.of(c, np.array(7))
        values = Operand.empty(c, w.shape)
        execute("CustEig", [Operand.of(d, a)], [values, rest], {"compute_v": False})
        ref.check_equal(values.get(), w)
        return w, v

    def test_eigen(self):
        def body(gen):
            d, (batch, n, _) = gen.pick((F32, F64, C64, C128)), sizes(gen)
            a = numbers(gen, d, (*batch, n, n)) * gen.pick((1, 1e-30, 1e30))
            if gen.chance(0.2):
                a = np.triu(a, 1) + np.eye(n, dtype=d.values) * (a[..., :1, :1] if n else 1)
            self.check_eigen(d, a.astype(d.values))
        each_case(self, "CustEig", 40, body)

    def test_special_matrices(self):
        ring = np.roll(np.eye(12), 1, 0)                               # QR steps without other shifts would not end
        w, _ = self.check_eigen(F64, ring)
        angles = np.sort(np.angle(w))
        np.testing.assert_allclose(np.abs(w), 1, 1e-13)
        np.testing.assert_allclose(np.diff(angles), np.pi / 6, 1e-12)
        self.check_eigen(F64, np.eye(40, k=1))                         # a single eigenvector
        w, v = self.check_eigen(F64, np.diag([3.0, -1, 2]))
        np.testing.assert_array_equal(np.sort(w.real), [-1, 2, 3])
        self.check_eigen(F64, np.zeros((3, 3)))
        self.check_eigen(F64, np.full((4, 4), 1e300))
        symmetric = np.array([[2.0, 1, 0], [1, 2, 1], [0, 1, 2]])
        w, v = self.check_eigen(F64, symmetric)
        np.testing.assert_allclose(np.sort(w.real), [2 - 2 ** 0.5, 2, 2 + 2 ** 0.5], 1e-14)
        w, = call("CustEig", [Operand.of(F64, [[np.nan, 1], [1, 1]])], [(C128, (2,)), (C128, (2, 2))])[:1]
        self.assertTrue(np.isnan(w).all())


if __name__ == "__main__":
    unittest.main()
