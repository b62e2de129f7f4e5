# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that MindSpore calls on matrices, complex numbers and along dimensions."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BF16, C64, C128, F16, F32, F64, I8, I32, I64, LD
from gen import each_case

UNUSED = {"not_an_attribute": 3}
ALIGN = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def shape_of(gen, least=1, most=4, size=6):
    return tuple(gen.integer(1, size) for _ in range(gen.integer(least, most)))


def placed(rows, columns, low, high, align):
    """(row and column of the matrix, row and column of the tensor of diagonals) of each element."""
    longest = max(len(np.diagonal(np.zeros((rows, columns)), d)) for d in range(low, high + 1))
    for row, d in enumerate(range(high, low - 1, -1)):
        length = len(np.diagonal(np.zeros((rows, columns)), d))
        upper, lower = align.split("_")
        left = (d >= 0 and upper == "LEFT") or (d <= 0 and lower == "LEFT")
        for i in range(length):
            yield i - min(d, 0), i + max(d, 0), row, i + (0 if left else longest - length)


class Matrices(unittest.TestCase):
    def test_diagonals(self):
        def body(gen):
            d, batch, align = gen.pick((F32, F16, I8, I64)), shape_of(gen, 0, 2, 3), gen.pick(ALIGN)
            rows, columns = gen.integer(1, 5), gen.integer(1, 5)
            low, high = sorted(gen.integer(1 - rows, columns - 1) for _ in range(2))
            high = low if gen.chance(0.4) else high
            longest = max(len(np.diagonal(np.zeros((rows, columns)), k)) for k in range(low, high + 1))
            k = Host([low, high] if high > low or gen.chance(0.5) else low, np.int32)
            x = gen.values(d, (*batch, rows, columns), limit=9)
            parts = gen.values(d, (*batch, high - low + 1, longest), limit=9)
            pad = gen.values(d, (1,), limit=9)
            exact_set, exact_make = x.copy(), np.broadcast_to(pad[0], x.shape).copy()
            exact_take = np.broadcast_to(pad[0], parts.shape).copy()
            for i, j, row, at in placed(rows, columns, low, high, align):
                exact_set[..., i, j] = exact_make[..., i, j] = parts[..., row, at]
                exact_take[..., row, at] = x[..., i, j]
            short = (*batch, longest) if low == high else parts.shape
            diagonals, y, how = Operand.of(d, parts.reshape(short)), Operand.empty(d, x.shape), {"align": align}
            execute("MatrixSetDiagV3", [Operand.of(d, x), diagonals, k], [y], {**how, **UNUSED})
            ref.check_equal(y.get(), exact_set)
            execute("MatrixDiagV3", [diagonals, k, Host(rows, np.int32), Host(columns, np.int32), Operand.of(d, pad)],
                    [y], how)
            ref.check_equal(y.get(), exact_make)
            y = Operand.empty(d, short)
            execute("MatrixDiagPartV3", [Operand.of(d, x), k, Operand.of(d, pad)], [y], how)
            ref.check_equal(y.get(), exact_take.reshape(short))
            vectors = Operand.of(d, gen.values(d, (*batch, columns), limit=9))
            assist = np.broadcast_to(np.eye(columns, dtype=d.values), (*batch, columns, columns))
            y = Operand.empty(d, assist.shape)
            execute("MatrixDiagD", [vectors, Operand.of(d, assist)], [y], UNUSED)
            ref.check_equal(y.get(), vectors.get()[..., None, :] * assist)
        each_case(self, "MatrixSetDiagV3", 40, body)
        x = Operand.of(F32, np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(AclError, "expected diagonals of matrices 2 x 3"):
            execute("MatrixSetDiagV3", [x, x, Host(3, np.int32)], [x], {})

    def test_factors(self):
        def body(gen):
            d, batch = gen.pick((F32, F64)), shape_of(gen, 0, 2, 3)
            m, n, full = gen.integer(1, 5), gen.integer(1, 5), gen.chance(0.5)
            x = Operand.of(d, gen.rng.standard_normal((*batch, m, n)).astype(d.values))
            k = m if full else min(m, n)
            q, r = Operand.empty(d, (*batch, m, k)), Operand.empty(d, (*batch, k, n))
            execute("Qr", [x], [q, r], {"full_matrices": full, **UNUSED})
            eps = 40 * np.finfo(d.values).eps
            np.testing.assert_allclose(q.get() @ r.get(), x.get(), atol=eps)
            np.testing.assert_allclose(q.get().swapaxes(-1, -2) @ q.get(), np.broadcast_to(np.eye(k), (*batch, k, k)),
                                       atol=eps)
            self.assertTrue(np.all(np.tril(r.get(), -1) == 0))
            s = Operand.of(d, gen.rng.standard_normal((*batch, n, n)).astype(d.values))
            det, sign, log = (Operand.empty(d, batch) for _ in range(3))
            execute("MatrixDeterminant", [s], [det], UNUSED)
            execute("LogMatrixDeterminant", [s], [sign, log], UNUSED)
            exact = np.linalg.slogdet(s.get().astype(np.float64))
            np.testing.assert_allclose(det.get(), exact[0] * np.exp(exact[1]), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(sign.get(), exact[0])
            np.testing.assert_allclose(log.get(), exact[1], rtol=1e-5, atol=1e-4)
        each_case(self, "Qr", 20, body)

    def test_complex(self):
        def body(gen):
            d, part, shape = *gen.pick(((C64, F32), (C128, F64))), shape_of(gen)
            real, imaginary = (Operand.of(part, gen.values(part, shape, limit=4)) for _ in range(2))
            z, other = Operand.empty(d, shape), Operand.empty(d, shape)
            execute("Complex", [real, imaginary], [z], {})
            exact = (real.get() + 1j * imaginary.get()).astype(d.values)
            ref.check_equal(z.get(), exact)
            execute("Conj", [z], [other], UNUSED)
            ref.check_equal(other.get(), np.conj(exact))
            y = Operand.empty(part, shape)
            for name in ("Real", "Imag", "Angle"):
                execute(name, [z], [y], {} if name == "Angle" else {"Tout": 0})
                exact = getattr(np, name.lower())(z.get().astype(np.clongdouble))
                ref.check(y.get(), exact.astype(LD), part, slack=1e-15 if name == "Angle" else 0)
        each_case(self, "Complex", 20, body)

    def test_products_with_a_number(self):
        def body(gen):
            d, shape = gen.pick((F32, F16, BF16, I32, I64)), shape_of(gen)
            a, b = ([1 if gen.chance(0.2) else n for n in shape] for _ in range(2))
            x, y, z, v = (Operand.of(d, gen.values(d, s, limit=4)) for s in (shape, a, b, ()))
            out = Operand.empty(d, shape)
            exact = [o.get().astype(np.int64 if d in (I32, I64) else LD) for o in (x, y, z, v)]
            execute("Addcmul", [x, y, z, v], [out], UNUSED)
            terms = exact[0], exact[3] * exact[1] * exact[2]
            if d in (I32, I64):
                ref.check_equal(out.get(), sum(terms).astype(d.values))
                return
            size = sum(map(np.abs, terms))
            ref.check(out.get(), sum(terms), d, slack=size * 3e-7)
            z = Operand.of(d, np.abs(z.get()) + d.values.type(0.5))
            execute("Addcdiv", [x, y, z, v], [out], UNUSED)
            terms = exact[0], exact[3] * (exact[1] / z.get().astype(LD))
            ref.check(out.get(), sum(terms), d, slack=sum(map(np.abs, terms)) * 3e-7)
        each_case(self, "Addcmul", 30, body)

    def test_along_a_dimension(self):
        def body(gen):
            d, shape, kind = gen.pick((F32, F16, F64)), shape_of(gen), gen.pick((np.int32, np.int64))
            axis, exclusive, reverse = gen.integer(-len(shape), len(shape) - 1), gen.chance(0.5), gen.chance(0.5)
            x, y = Operand.of(d, gen.values(d, shape, limit=8)), Operand.empty(d, shape)
            execute("CumulativeLogsumexp", [x, Host(axis, kind)], [y],
                    {"exclusive": exclusive, "reverse": reverse, **UNUSED})
            v = np.moveaxis(x.get().astype(LD), axis, -1)
            v = v[..., ::-1] if reverse else v
            exact = np.log(np.cumsum(np.exp(v), -1))
            if exclusive:
                least = np.full((*v.shape[:-1], 1), -65504 if d is F16 else np.finfo(d.values).min, LD)
                exact = np.concatenate([least, exact[..., :-1]], -1)
            exact = np.moveaxis(exact[..., ::-1] if reverse else exact, -1, axis)
            ref.check(y.get(), exact, d, slack=1e-13)
            index = Operand.empty(I32, shape)
            execute("Cummin", [x], [y, index], {"axis": axis, **UNUSED})
            ref.check_equal(y.get(), np.minimum.accumulate(x.get(), axis))
            ref.check_equal(np.take_along_axis(x.get(), index.get().astype(np.int64), axis), y.get())
            axes = [k for k in range(len(shape)) if gen.chance(0.5)]
            p, keep = gen.integer(1, 3), gen.chance(0.5)
            over = tuple(axes) if axes else None
            exact = (np.abs(x.get().astype(LD)) ** p).sum(over, keepdims=keep) ** (LD(1) / p)
            least = 0.125
            y = Operand.empty(d, np.shape(exact))
            execute("LpNorm", [x], [y], {"p": p, "keepdim": keep, "axes": axes, "epsilon": least, **UNUSED})
            ref.check(y.get(), np.maximum(exact, least), d, slack=1e-12)
        each_case(self, "CumulativeLogsumexp", 30, body)

    def test_numbers(self):
        def body(gen):
            d, shape = gen.pick((F32, F64)), shape_of(gen)
            a, b = (Operand.of(d, gen.values(d, shape, limit=4)) for _ in range(2))
            y, n = Operand.empty(d, shape), Operand.empty(gen.pick((I32, I64)), ())
            execute("NextAfter", [a, b], [y], UNUSED)
            ref.check_equal(y.get(), np.nextafter(a.get(), b.get()))
            execute("Size", [a], [n], {"out_type": 3})
            self.assertEqual(int(n.get()), a.get().size)
            bins, low = gen.integer(1, 6), -float(gen.integer(1, 3))
            counts = Operand.empty(I32, (bins,))
            execute("Histogram", [a], [counts], {"bins": bins, "min": low, "max": 2.0, **UNUSED})
            inside = a.get().reshape(-1)[(a.get().reshape(-1) >= low) & (a.get().reshape(-1) <= 2)].astype(LD)
            places = np.minimum(((inside - low) / LD(2 - low) * bins).astype(np.int64), bins - 1)
            edge = np.abs((inside - low) / LD(2 - low) * bins - np.round((inside - low) / LD(2 - low) * bins)) < 1e-5
            exact = np.bincount(places, minlength=bins)
            self.assertLessEqual(np.abs(counts.get() - exact).sum(), 2 * edge.sum())
            self.assertEqual(counts.get().sum(), len(inside))
        each_case(self, "NextAfter", 20, body)

    def test_slices(self):
        def body(gen):
            d, shape = gen.pick((F32, F16, I32)), shape_of(gen)
            k, rows = gen.integer(1, len(shape)), gen.integer(1, 4)
            at = np.stack([gen.rng.choice(n, rows, replace=True) for n in shape[:k]], -1)
            at = np.unique(at, axis=0)
            x, updates = gen.values(d, shape, limit=9), gen.values(d, (len(at), *shape[k:]), limit=9)
            y, exact = Operand.empty(d, shape), x.copy()
            for i, update in zip(at, updates):
                exact[tuple(i)] = update
            i = gen.pick((I32, I64))
            execute("TensorScatterUpdate", [Operand.of(d, x), Operand.of(i, at), Operand.of(d, updates)], [y], UNUSED)
            ref.check_equal(y.get(), exact)
            at = [gen.integer(0, shape[0] - 1)]
            v = gen.values(d, (1, *shape[1:]), limit=9)
            for name, f in (("InplaceUpdate", lambda a, b: b), ("InplaceAdd", np.add), ("InplaceSub", np.subtract)):
                exact = x.copy()
                exact[at[0]] = f(exact[at[0]], v[0])
                execute(name, [Operand.of(d, x), Host(at, np.int32), Operand.of(d, v)], [y], UNUSED)
                ref.check(y.get(), exact.astype(LD), d, slack=0)
        each_case(self, "TensorScatterUpdate", 20, body)


if __name__ == "__main__":
    unittest.main()
