# SPDX-License-Identifier: Apache-2.0
"""Einsum, and distances of rows."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Tensor, TensorList, refused, run
from dtypes import F32, F64, FLOATS64, LD
from gen import each_case

CASES = 80
LETTERS = "abcdefghijABC"


class Einsum(unittest.TestCase):
    def case(self, gen):
        d, sizes = gen.pick(FLOATS64), {c: gen.integer(1, 5) for c in LETTERS}
        n_terms = gen.pick((1, 2, 2, 2, 3, 4))
        terms = ["".join(gen.pick(LETTERS) for _ in range(gen.integer(0, 4))) for _ in range(n_terms)]
        used = sorted(set("".join(terms)))
        output = "".join(c for c in gen.rng.permutation(used) if gen.chance(0.6))[:6] if used else ""
        equation = ",".join(terms)
        if gen.chance(0.85):
            equation += "->" + output
        tensors = [gen.drawn(d, tuple(sizes[c] for c in t), lambda s: gen.values(d, s, limit=4)) for t in terms]
        values = [t.get().astype(LD) for t in tensors]
        exact = np.einsum(equation, *values)
        terms_sum = np.einsum(equation, *(np.abs(v) for v in values))
        out = gen.out(d, exact.shape)
        spaced = equation.replace(",", " , ") if gen.chance(0.2) else equation
        run("aclnnEinsum", TensorList(tensors), spaced.encode(), out)
        n = np.prod([sizes[c] for c in used] or [1])
        slack = terms_sum * (2 * len(terms) * max(n, 1)) * (LD(2) ** -24 if d is not F64 else LD(2) ** -52)
        ref.check(out.get(), exact, d, slack=slack, what=equation)

    def test_random(self):
        each_case(self, "aclnnEinsum", 2 * CASES, self.case)

    def test_empty(self):
        for equation, shapes, shape in ((b"ij,jk->ik", ((2, 0), (0, 3)), (2, 3)),
                                        (b"ij,jk->ik", ((0, 4), (4, 3)), (0, 3)),
                                        (b"ij->j", ((0, 3),), (3,)), (b"ii", ((3, 3),), ())):
            tensors = [Tensor.of(F32, np.ones(s)) for s in shapes]
            out = Tensor.empty(F32, shape)
            run("aclnnEinsum", TensorList(tensors), equation, out)
            ref.check_equal(out.get(), np.einsum(equation.decode(), *(t.get() for t in tensors)).astype(np.float32))

    def test_wrong(self):
        a, b, out = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (3, 4)), Tensor.empty(F32, (2, 4))
        for equation, word in ((b"ij,jk,kl->il", "equation has 3 terms"), (b"ij,kj->ik", "dimension 1 of tensors"),
                               (b"i...,jk->ik", "expected"), (b"ij,jk->im", "the output has 'm'"),
                               (b"ij,jk->ii", "the output has 'i'"), (b"ij,jk->ki", "output has shape"),
                               (b"ij,j->i", "expected 1 dimensions")):
            code, message = refused("aclnnEinsum", TensorList([a, b]), equation, out)
            self.assertEqual(code, INVALID)
            self.assertIn(word, message)


def norm(difference, p):
    if p == np.inf:
        return np.max(difference, -1, initial=0)
    return (difference != 0).sum(-1).astype(LD) if p == 0 else (difference ** LD(p)).sum(-1) ** (1 / LD(p))


class Cdist(unittest.TestCase):
    def rows(self, gen):
        batch = gen.shape(max_rank=3, numel=6)
        n, m, width = gen.integer(0, 6), gen.integer(0, 6), gen.integer(1, 12) if gen.chance(0.9) else 1100
        return batch, n, m, width, gen.pick((0.0, 1.0, 2.0, np.inf, 0.5, 3.0))

    def forward(self, gen):
        d, (batch, n, m, width, p) = gen.pick(FLOATS64), self.rows(gen)
        a, b = gen.broadcast_pair(batch)
        x, y = (gen.drawn(d, s, lambda s: gen.values(d, s, limit=8)) for s in (a + (n, width), b + (m, width)))
        out = gen.out(d, np.broadcast_shapes(a, b) + (n, m))
        run("aclnnCdist", x, y, p, gen.integer(0, 2), out)
        exact = norm(np.abs(x.get().astype(LD)[..., :, None, :] - y.get().astype(LD)[..., None, :, :]), p)
        slack = ref.sum_slack(exact * max(1, 1 / p if p else 1) + 1e-30, width, F64 if d is F64 else F32)
        ref.check(out.get(), exact.reshape(out.shape), d, slack=slack.reshape(out.shape), what=f"p = {p}: ")

    def test_forward(self):
        each_case(self, "aclnnCdist", CASES, self.forward)

    def backward(self, gen):
        d, (batch, n, m, width, p) = gen.pick(FLOATS64), self.rows(gen)
        other = gen.stripped([1 if gen.chance(0.3) else k for k in batch])
        x, y = (gen.drawn(d, s, lambda s: gen.values(d, s, limit=8)) for s in (batch + (n, width), other + (m, width)))
        g = gen.drawn(d, batch + (n, m), lambda s: gen.values(d, s, limit=8))
        difference = x.get().astype(LD)[..., :, None, :] - y.get().astype(LD)[..., None, :, :]
        distance = gen.out(d, batch + (n, m), d.round(norm(np.abs(difference), p).reshape(batch + (n, m))))
        out = gen.out(d, batch + (n, width))
        run("aclnnCdistBackward", g, x, y, distance, p, out)
        far, size, sign = distance.get().astype(LD)[..., None], np.abs(difference), np.sign(difference)
        if p == 1:
            slope = sign
        elif p == 0:
            slope = 0 * sign
        elif p == np.inf:
            slope = np.where(size.astype(np.float64) == far, sign, LD(0))      # as the distance was rounded
        else:
            slope = np.where((far == 0) | (size == 0), LD(0), sign * (size / far) ** (LD(p) - 1))
        terms = g.get().astype(LD)[..., None] * slope
        ref.check(out.get(), terms.sum(-2).reshape(out.shape), d, ulps=1,
                  slack=np.abs(terms).sum(-2).reshape(out.shape) * 1e-12)

    def test_backward(self):
        each_case(self, "aclnnCdistBackward", CASES, self.backward)

    def test_wrong(self):
        x, y, out = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (4, 3)), Tensor.empty(F32, (2, 4))
        for args, word in (((x, y, -1.0, 0, out), "p is -1"), ((x, y, 2.0, 3, out), "compute_mode is 3"),
                           ((x, out, 2.0, 0, out), "x2 has shape"), ((x, y, 2.0, 0, x), "out has shape")):
            code, message = refused("aclnnCdist", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(word, message)


if __name__ == "__main__":
    unittest.main()
