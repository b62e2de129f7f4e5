# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts whose choices are a map of tokens to experts: rows by expert and back, compared with NumPy; and
what changes the order of experts: their rows by rank, and their instances."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, Tensor, refused, run
from dtypes import BF16, BOOL, F16, F32, F64, FLOATS, I32, I64, I8, LD
from gen import each_case

CASES = 40


def tokens_of(gen, d, shape):
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=8))


class Case:
    """A random map, and what its rows stand for: token[k] and expert[k] of row k, and the sorted indices."""

    def __init__(self, gen):
        self.padded = gen.chance(0.5)
        self.d = gen.pick(FLOATS)
        self.n, self.experts = gen.integer(1, 20), gen.integer(1, 9)
        self.width = gen.integer(1, 40) if gen.chance(0.9) else 1300
        if gen.chance(0.05):
            self.n, self.experts, self.width = 600, 16, 5
        if self.padded:
            self.capacity = gen.integer(0, self.n)
            self.rows = self.experts * self.capacity
            chosen = gen.rng.random((self.n, self.experts)) < gen.pick((0.2, 0.5, 1))
            # a stable sort puts tokens with a 1 first
            order = np.argsort(~chosen.T, axis=-1, kind="stable")[:, :self.capacity]
            self.token, self.expert = order.ravel(), np.repeat(np.arange(self.experts), self.capacity)
            self.sorted = self.token
        else:
            k = gen.integer(0, self.experts)
            self.rows = self.n * k
            chosen = np.argsort(gen.rng.random((self.n, self.experts)), -1) < k
            self.expert, self.token = np.nonzero(chosen.T)
            self.sorted = np.argsort(self.token, kind="stable")
        kind = gen.pick((I8, BOOL))
        self.map = gen.tensor(kind, chosen.shape, chosen.astype(kind.values))
        self.index = gen.tensor(I32, (self.rows,), self.sorted.astype(np.int32))

    def asked(self, gen):
        """A number of rows that is rounded down to the rows of all parts."""
        parts = self.experts if self.padded else self.n
        return min(self.rows + gen.integer(0, parts - 1), self.n * self.experts)

    def probs(self, gen, d):
        return tokens_of(gen, d, (self.n, self.experts))

    def by_token(self, rows):
        """Sums of rows, in long doubles, by their tokens."""
        total = np.zeros((self.n, rows.shape[1]), LD)
        np.add.at(total, self.token, rows)
        return total


class RoutingMap(unittest.TestCase):
    def test_permute(self):
        def body(gen):
            c = Case(gen)
            p_type = gen.pick((c.d, F32)) if c.d is BF16 else c.d
            tokens = tokens_of(gen, c.d, (c.n, c.width))
            probs = c.probs(gen, p_type) if gen.chance(0.7) else None
            out, index = gen.out(c.d, (c.rows, c.width)), gen.out(I32, (c.rows,))
            to_probs = gen.out(p_type, (c.rows,)) if probs else None
            run("aclnnMoeTokenPermuteWithRoutingMap", tokens, c.map, probs, c.asked(gen), c.padded, out, to_probs,
                index)
            ref.check_equal(out.get(), tokens.get()[c.token])
            ref.check_equal(index.get(), c.sorted)
            if probs:
                ref.check_equal(to_probs.get(), probs.get()[c.token, c.expert])
        each_case(self, "aclnnMoeTokenPermuteWithRoutingMap", 2 * CASES, body)

    def test_permute_grad(self):
        def body(gen):
            c = Case(gen)
            p_type = gen.pick((c.d, F32)) if c.d is BF16 else c.d
            grad = tokens_of(gen, c.d, (c.rows, c.width))
            probs_grad = tokens_of(gen, p_type, (c.rows,)) if gen.chance(0.7) else None
            out, to_probs = gen.out(c.d, (c.n, c.width)), gen.out(p_type, (c.n, c.experts)) if probs_grad else None
            chosen = c.map if probs_grad and not c.padded or gen.chance(0.5) else None
            run("aclnnMoeTokenPermuteWithRoutingMapGrad", grad, probs_grad, c.index, chosen, c.experts, c.n, c.padded,
                out, to_probs)
            g = grad.get().astype(LD)
            ref.check(out.get(), c.by_token(g), c.d, F64, ulps=1, slack=8 * F64.ulp(c.by_token(np.abs(g))))
            if probs_grad:
                exact = np.zeros((c.n, c.experts))
                exact[c.token, c.expert] = probs_grad.get()
                ref.check_equal(to_probs.get(), exact)
        each_case(self, "aclnnMoeTokenPermuteWithRoutingMapGrad", 2 * CASES, body)

    def test_unpermute(self):
        def body(gen):
            c = Case(gen)
            rows = tokens_of(gen, c.d, (c.rows, c.width))
            probs = c.probs(gen, c.d) if gen.chance(0.7) else None
            chosen = c.map if probs and not c.padded or gen.chance(0.5) else None
            out, pattern = gen.out(c.d, (c.n, c.width)), np.full(c.rows, -7, np.int32)
            ids = gen.out(I32, (c.rows,), pattern), gen.out(I32, (c.rows,), pattern)
            to_probs = gen.out(c.d, (c.rows,)) if probs else None
            shape = Ints(c.n, c.width) if gen.chance(0.7) else None
            run("aclnnMoeTokenUnpermuteWithRoutingMap", rows, c.index, chosen, probs, c.padded, shape, out, *ids,
                to_probs)
            p = probs.get()[c.token, c.expert] if probs else np.ones(c.rows)
            terms = rows.get().astype(LD) * p.astype(LD)[:, None]
            ref.check(out.get(), c.by_token(terms), c.d, F64, ulps=1, slack=8 * F64.ulp(c.by_token(np.abs(terms))))
            order = np.argsort(c.token, kind="stable")
            ref.check_equal(ids[0].get(), order if c.padded else pattern)
            ref.check_equal(ids[1].get(), c.token[order] if c.padded else pattern)
            if probs:
                ref.check_equal(to_probs.get(), p)
        each_case(self, "aclnnMoeTokenUnpermuteWithRoutingMap", 2 * CASES, body)

    def test_unpermute_grad(self):
        def body(gen):
            c = Case(gen)
            rows, grad = tokens_of(gen, c.d, (c.rows, c.width)), tokens_of(gen, c.d, (c.n, c.width))
            probs = c.probs(gen, c.d) if gen.chance(0.7) else None
            order = np.argsort(c.token, kind="stable")
            index = gen.tensor(I32, (c.rows,), order.astype(np.int32)) if c.padded else c.index
            # without padding, torch_npu passes the sorted indices as tokens
            ids = gen.tensor(I32, (c.rows,), c.token[order].astype(np.int32)) if c.padded else c.index
            out, to_probs = gen.out(c.d, (c.rows, c.width)), gen.out(c.d, (c.n, c.experts)) if probs else None
            run("aclnnMoeTokenUnpermuteWithRoutingMapGrad", grad, index, ids, c.map if probs else None,
                rows if probs else None, probs, c.padded, Ints(c.n, c.width) if gen.chance(0.7) else None, out,
                to_probs)
            g = grad.get().astype(LD)[c.token]
            p = probs.get()[c.token, c.expert].astype(LD) if probs else np.ones(c.rows, LD)
            ref.check(out.get(), g * p[:, None], c.d, F64, ulps=1)
            if probs:
                terms = g * rows.get().astype(LD)
                exact, size = np.zeros((c.n, c.experts), LD), np.zeros((c.n, c.experts), LD)
                exact[c.token, c.expert], size[c.token, c.expert] = terms.sum(-1), np.abs(terms).sum(-1)
                ref.check(to_probs.get(), exact, c.d, F64, ulps=1, slack=16 * F64.ulp(size))
        each_case(self, "aclnnMoeTokenUnpermuteWithRoutingMapGrad", 2 * CASES, body)

    def test_fewer_experts(self):
        """A token of fewer experts than rows has -1 in the places that it does not use, as newer pages have it."""
        rows, probs = Tensor.of(F32, [[1, 2], [3, 4], [5, 6], [7, 8]]), Tensor.of(F32, [[2, 3], [4, 5]])
        index, chosen = Tensor.of(I32, [0, 1, 2, -1]), Tensor.of(I8, [[1, 1], [0, 1]])
        index.set(np.array([0, 1, 2, -1]))
        ids = [Tensor.of(I32, np.zeros(4)) for _ in range(2)]
        out, to_probs = Tensor.empty(F32, (2, 2)), Tensor.empty(F32, (4,))
        run("aclnnMoeTokenUnpermuteWithRoutingMap", rows, index, chosen, probs, False, None, out, *ids, to_probs)
        ref.check_equal(to_probs.get(), [2, 3, 5, 0])
        ref.check_equal(out.get(), [[2 * 1 + 3 * 3, 2 * 2 + 3 * 4], [25, 30]])
        grad, to_rows, to_probs = Tensor.of(F32, [[1, 1], [1, 2]]), Tensor.empty(F32, (4, 2)), Tensor.empty(F32, (2, 2))
        run("aclnnMoeTokenUnpermuteWithRoutingMapGrad", grad, index, index, chosen, rows, probs, False, None, to_rows,
            to_probs)
        ref.check_equal(to_rows.get(), [[2, 2], [3, 3], [5, 10], [0, 0]])
        ref.check_equal(to_probs.get(), [[3, 7], [0, 17]])

    def test_empty(self):
        none = Tensor.empty(F32, (0, 4))
        run("aclnnMoeTokenPermuteWithRoutingMap", none, Tensor.empty(I8, (0, 2)), None, 0, False, none, None,
            Tensor.empty(I32, (0,)))
        out = Tensor.of(F32, np.ones((3, 4)))
        run("aclnnMoeTokenPermuteWithRoutingMapGrad", none, None, Tensor.empty(I32, (0,)), None, 2, 3, True, out, None)
        ref.check_equal(out.get(), np.zeros((3, 4)))

    def test_refused(self):
        x, m, s = Tensor.empty(F32, (3, 4)), Tensor.of(I8, np.ones((3, 2))), Tensor.empty(I32, (6,))
        y, p = Tensor.empty(F32, (6, 4)), Tensor.of(F32, np.ones((3, 2)))
        for text, args in (("numOutTokens is 7, expected 0 to 6", (x, m, None, 7, False, y, None, s)),
                           ("permuteProbsOutOptional is absent", (x, m, p, 6, False, y, None, s)),
                           ("routingMap", (x, p, None, 6, False, y, None, s)),
                           ("permuteTokensOut", (x, m, None, 3, False, y, None, s)),
                           ("probsOptional", (x, m, Tensor.of(F16, np.ones((3, 2))), 6, False, y, s, s))):
            code, message = refused("aclnnMoeTokenPermuteWithRoutingMap", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        for text, args in (("routingMapOptional is absent", (y, s, None, p, False, None, x, s, s, s)),
                           ("restoreShapeOptional[1] is 5", (y, s, None, None, False, Ints(3, 5), x, s, s, None)),
                           ("at most 3, the number of tokens",
                            (Tensor.empty(F32, (8, 4)), s, m, None, True, None, x, s, s, None))):
            code, message = refused("aclnnMoeTokenUnpermuteWithRoutingMap", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)

    def test_failing(self):
        x, s, y = Tensor.of(F32, np.ones((3, 4))), Tensor.empty(I32, (3,)), Tensor.empty(F32, (3, 4))
        for text, name, args in (
                ("routingMap[1] has 2 experts, expected 1", "Permute",
                 (x, Tensor.of(I8, [[1, 0], [1, 1], [0, 1]]), None, 3, False, y, None, s)),
                ("sortedIndices[2] is 3, expected 0 to 2", "Unpermute",
                 (x, Tensor.of(I32, [0, 1, 3]), None, None, True, None, y, s, Tensor.empty(I32, (3,)), None))):
            with self.assertRaises(AclError) as error:
                run(f"aclnnMoeToken{name}WithRoutingMap", *args)
            self.assertIn(text, error.exception.message)


class ReRouting(unittest.TestCase):
    def test_re_routing(self):
        def body(gen):
            d, index, width = gen.pick((F16, BF16, I8)), gen.pick((I32, I64)), gen.integer(1, 40)
            ranks, experts = gen.integer(1, 5), gen.integer(1, 9)
            numbers = gen.rng.integers(0, 5, (ranks, experts))
            n = int(numbers.sum())
            tokens = gen.drawn(d, (n, width), lambda s: gen.values(d, s))
            scales = gen.tensor(F32, (n,)) if gen.chance(0.6) else None
            to_scales = gen.out(F32, (n,)) if scales or gen.chance(0.5) else None
            before = to_scales.get() if to_scales else None
            out, order, totals = gen.out(d, (n, width)), gen.out(I32, (n,)), gen.out(index, (experts,))
            given = gen.tensor(index, numbers.shape, numbers.astype(index.values))
            run("aclnnMoeReRouting", tokens, given, scales, 1, 0, out, to_scales, order, totals)
            expert = np.repeat(np.tile(np.arange(experts), ranks), numbers.ravel())
            exact = np.argsort(expert, kind="stable")
            ref.check_equal(order.get(), exact)
            ref.check_equal(totals.get(), numbers.sum(0))
            ref.check_equal(out.get(), tokens.get()[exact])
            if to_scales:
                ref.check_equal(to_scales.get(), scales.get()[exact] if scales else before)
        each_case(self, "aclnnMoeReRouting", 2 * CASES, body)

    def test_refused(self):
        x, n, y, i = (Tensor.empty(F16, (3, 4)), Tensor.of(I32, [[1, 2]]), Tensor.empty(F16, (3, 4)),
                      Tensor.empty(I32, (3,)))
        totals = Tensor.empty(I32, (2,))
        for text, args in (("expertTokenNumType is 0", (x, n, None, 0, 0, y, None, i, totals)),
                           ("idxType is 1", (x, n, None, 1, 1, y, None, i, totals)),
                           ("expertTokenNumOut", (x, n, None, 1, 0, y, None, i, Tensor.empty(I64, (2,)))),
                           ("permutePerTokenScalesOut", (x, n, Tensor.empty(F32, (3,)), 1, 0, y, None, i, totals))):
            code, message = refused("aclnnMoeReRouting", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        for text, numbers in (("[0][1] is 3, expected 0 to 2", [[1, 3]]), ("a sum of 2, expected 3", [[1, 1]])):
            with self.assertRaises(AclError) as error:
                run("aclnnMoeReRouting", x, Tensor.of(I32, numbers), None, 1, 0, y, None, i, totals)
            self.assertIn(text, error.exception.message)


class UpdateExpert(unittest.TestCase):
    def test_update_expert(self):
        def body(gen):
            n, k, experts, mode = gen.integer(1, 30), gen.integer(1, 8), gen.integer(1, 20), gen.integer(0, 1)
            world, columns = gen.integer(2, 9), gen.integer(1, 6)
            rank = gen.integer(0, world - 1)
            counts = gen.rng.integers(1, min(columns, world) + 1, experts)
            table = gen.rng.integers(0, 99, (experts, 1 + columns))
            table[:, 0] = counts
            index, d = gen.pick((I32, I64)), gen.pick(FLOATS)
            ids = gen.drawn(index, (n, k), lambda s: gen.rng.integers(0, experts, s))
            prunes = gen.chance(0.6)
            scales = gen.drawn(d, (n, k), lambda s: d.round(gen.rng.uniform(0, 0.25, s))) if prunes else None
            shape = gen.pick(((k,), (1, k)))
            threshold = gen.drawn(F32, shape, lambda s: F32.round(gen.rng.uniform(0, 0.3, s))) if prunes else None
            active = gen.tensor(BOOL, (n,), np.arange(n) < gen.integer(0, n)) if prunes and gen.chance(0.5) else None
            before = np.zeros((n, k), bool)
            out, mask = gen.out(index, (n, k)), gen.out(BOOL, (n, k), before)
            run("aclnnMoeUpdateExpert", ids, gen.tensor(I32, table.shape, table.astype(np.int32)), scales, threshold,
                active, rank, world, mode, out, mask)
            count = counts[ids.get()]
            place = np.arange(n)[:, None] % count if mode else rank // -(-world // count)
            ref.check_equal(out.get(), table[ids.get(), 1 + place])
            if not prunes:
                ref.check_equal(mask.get(), before)
                return
            sums = np.zeros(n, np.float32)
            for column in scales.get().astype(np.float32).T:
                sums = sums + column
            kept = scales.get().astype(np.float32) >= sums[:, None] * threshold.get().reshape(1, k)
            ref.check_equal(mask.get(), kept & (active.get()[:, None] if active else True))
        each_case(self, "aclnnMoeUpdateExpert", 2 * CASES, body)

    def test_refused(self):
        ids, table, mask = Tensor.of(I32, [[0, 1]]), Tensor.of(I32, [[1, 5], [1, 7]]), Tensor.empty(BOOL, (1, 2))
        s, out = Tensor.of(F32, [[1, 1]]), Tensor.empty(I32, (1, 2))
        for text, args in (("balanceMode is 2", (ids, table, None, None, None, 0, 2, 2, out, mask)),
                           ("worldSize is 1", (ids, table, None, None, None, 0, 1, 0, out, mask)),
                           ("localRankId is 2", (ids, table, None, None, None, 2, 2, 0, out, mask)),
                           ("pruningThresholdOptional is NULL", (ids, table, s, None, None, 0, 2, 0, out, mask)),
                           ("activeMaskOptional", (ids, table, None, None, mask, 0, 2, 0, out, mask)),
                           ("balancedExpertIds",
                            (ids, table, None, None, None, 0, 2, 0, Tensor.empty(I64, (1, 2)), mask))):
            code, message = refused("aclnnMoeUpdateExpert", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        for text, ids, table in (("expertIds[1] is 2, expected 0 to 1", [[0, 2]], [[1, 5], [1, 7]]),
                                 ("eplbTable[1][0] is 2, expected 1 to 1", [[0, 1]], [[1, 5], [2, 7]])):
            with self.assertRaises(AclError) as error:
                run("aclnnMoeUpdateExpert", Tensor.of(I32, ids), Tensor.of(I32, table), None, None, None, 0, 2, 0, out,
                    mask)
            self.assertIn(text, error.exception.message)


if __name__ == "__main__":
    unittest.main()
