# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: tokens sorted by their experts and back, and gates, compared with NumPy."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Tensor, refused, run
from dtypes import BOOL, F16, F32, F64, FLOATS, I32, I64, LD
from gen import each_case

CASES = 40


def tokens_of(gen, d, shape):
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=8))


def slots_of(experts):
    """The order of slots sorted by experts, and the position of each slot in it."""
    order = np.argsort(experts.ravel(), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return order, place


class Permute(unittest.TestCase):
    def drawn(self, gen):
        d = gen.pick(FLOATS)
        n, k, width = gen.integer(1, 20), gen.integer(1, 4), gen.integer(1, 40) if gen.chance(0.9) else 1300
        if gen.chance(0.05):
            n, k, width = 700, 4, 8
        return d, n, k, width

    def test_permute(self):
        def body(gen):
            d, n, k, width = self.drawn(gen)
            flat = gen.chance(0.3)
            k = 1 if flat else k
            row = gen.pick(((width,), (width,), (2, width), (3, 1, width)))
            tokens = tokens_of(gen, d, (n, *row))
            index = gen.pick((I32, I64))
            experts = gen.drawn(index, (n,) if flat else (n, k), lambda s: gen.rng.integers(0, gen.integer(1, 9), s))
            order, place = slots_of(experts.get())
            asked = gen.pick((0, 0, gen.integer(1, n * k), n * k + 5, -gen.integer(1, n * k)))
            kept = min(asked, n * k) if asked > 0 else n * k + asked
            out, sorted_ = gen.out(d, (kept, *row)), Tensor.empty(I32, (n * k,))
            run("aclnnMoeTokenPermute", tokens, experts, asked, False, out, sorted_)
            ref.check_equal(out.get(), tokens.get()[order[:kept] // k])
            ref.check_equal(sorted_.get(), place)
        each_case(self, "aclnnMoeTokenPermute", 2 * CASES, body)

    def test_permute_grad(self):
        def body(gen):
            d, n, k, width = self.drawn(gen)
            _, place = slots_of(gen.rng.integers(0, 5, (n, k)))
            kept = gen.integer(0, n * k)
            grad, out = tokens_of(gen, d, (kept, width)), gen.out(d, (n, width))
            run("aclnnMoeTokenPermuteGrad", grad, gen.tensor(I32, (n * k,), place.astype(np.int32)), k, False, out)
            g = np.concatenate([grad.get().astype(LD), np.zeros((n * k - kept, width), LD)])[place].reshape(n, k, width)
            ref.check(out.get(), g.sum(1), d, F64, ulps=1, slack=4 * F64.ulp(np.abs(g).sum(1)))
        each_case(self, "aclnnMoeTokenPermuteGrad", CASES, body)

    def test_unpermute(self):
        def body(gen):
            d, n, k, width = self.drawn(gen)
            has_probs = gen.chance(0.7)
            k = k if has_probs else 1
            _, place = slots_of(gen.rng.integers(0, 5, (n, k)))
            index = gen.tensor(I32, (n * k,), place.astype(np.int32))
            rows, p_type = tokens_of(gen, d, (n * k, width)), gen.pick((d, F32))
            probs = tokens_of(gen, p_type, (n, k)) if has_probs else None
            out = gen.out(d, (n, width))
            run("aclnnMoeTokenUnpermute", rows, index, probs, False, None, out)
            p = probs.get().astype(LD)[..., None] if has_probs else LD(1)
            terms = rows.get().astype(LD)[place].reshape(n, k, width) * p
            ref.check(out.get(), terms.sum(1), d, F64, ulps=1, slack=8 * F64.ulp(np.abs(terms).sum(1)))

            grad, to_rows = tokens_of(gen, d, (n, width)), gen.out(d, (n * k, width))
            to_probs = gen.out(p_type, (n, k)) if has_probs else None
            run("aclnnMoeTokenUnpermuteGrad", rows, grad, index, probs, False, None, to_rows, to_probs)
            g = grad.get().astype(LD)
            exact = np.empty((n * k, width), LD)
            exact[place] = (g[:, None, :] * p).reshape(n * k, width) if has_probs else g
            ref.check(to_rows.get(), exact, d, F64, ulps=1)
            if has_probs:
                terms = rows.get().astype(LD)[place].reshape(n, k, width) * g[:, None, :]
                ref.check(to_probs.get(), terms.sum(-1), p_type, F64, ulps=1, slack=16 * F64.ulp(np.abs(terms).sum(-1)))
        each_case(self, "aclnnMoeTokenUnpermute", 2 * CASES, body)

    def test_refused(self):
        x, i, s = Tensor.empty(F32, (3, 4)), Tensor.of(I32, np.zeros((3, 2))), Tensor.empty(I32, (6,))
        for name, args in (("paddedMode", (x, i, 0, True, Tensor.empty(F32, (6, 4)), s)),
                           ("permuteTokensOut", (x, i, 5, False, Tensor.empty(F32, (6, 4)), s)),
                           ("indices", (x, Tensor.of(I32, np.zeros((2, 2))), 0, False, Tensor.empty(F32, (6, 4)), s)),
                           ("sortedIndicesOut", (x, i, 0, False, Tensor.empty(F32, (6, 4)), Tensor.empty(I32, (5,))))):
            with self.subTest(name):
                code, message = refused("aclnnMoeTokenPermute", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


class Routing(unittest.TestCase):
    def test_init_routing(self):
        def body(gen):
            d, n, k, width = gen.pick(FLOATS), gen.integer(1, 20), gen.integer(1, 4), gen.integer(1, 40)
            x = tokens_of(gen, d, (n, width))
            row = np.arange(n * k, dtype=np.int32).reshape(k, n).T
            rows = gen.out(I32, (n, k), row)
            experts = gen.drawn(I32, (n, k), lambda s: gen.rng.integers(0, 9, s))
            active = gen.integer(0, n + 3)
            m = min(active, n) * k
            outs = gen.out(d, (m, width)), Tensor.empty(I32, (n * k,)), Tensor.empty(I32, (n * k,))
            run("aclnnMoeInitRouting", x, rows, experts, active, *outs)
            order, _ = slots_of(experts.get())
            source = row.ravel()[order]
            ref.check_equal(outs[0].get(), x.get()[source[:m] % n])
            ref.check_equal(outs[1].get()[source], np.arange(n * k))
            ref.check_equal(outs[2].get(), np.sort(experts.get().ravel()))
        each_case(self, "aclnnMoeInitRouting", CASES, body)
        x = Tensor.of(F32, np.ones((2, 3)))
        with self.assertRaises(AclError) as error:
            run("aclnnMoeInitRouting", x, Tensor.of(I32, [[0], [2]]), Tensor.of(I32, [[0], [1]]), 2,
                Tensor.empty(F32, (2, 3)), Tensor.empty(I32, (2,)), Tensor.empty(I32, (2,)))
        self.assertIn("rowIdx[1] is 2", error.exception.message)

    def test_expert_tokens(self):
        def body(gen):
            n, experts = gen.integer(0, 300), gen.integer(1, 40)
            values = np.sort(gen.rng.integers(0, experts, n)).astype(np.int32)
            out = gen.out(I32, (experts,))
            run("aclnnMoeComputeExpertTokens", gen.tensor(I32, (n,), values), experts, out)
            ref.check_equal(out.get(), np.searchsorted(values, np.arange(experts), side="right"))
        each_case(self, "aclnnMoeComputeExpertTokens", CASES, body)

    def finalize(self, gen, v2):
        d, n, k, width = gen.pick(FLOATS), gen.integer(1, 12), gen.integer(1, 4), gen.integer(1, 40)
        experts, mode = gen.integer(1, 6), gen.integer(0, 3) if v2 else 0
        scales = tokens_of(gen, gen.pick((d, F32)), (n, k)) if not v2 or gen.chance(0.7) else None
        k = k if scales else 1
        rows = tokens_of(gen, d, (n * k, width))
        index = gen.rng.permutation(n * k).astype(np.int32)
        if mode in (1, 3):
            index[gen.rng.random(n * k) < 0.2] = -1
        has_bias = not v2 or gen.chance(0.6)
        bias = tokens_of(gen, d, (experts, width)) if has_bias else None
        expert = gen.drawn(I32, (n, k), lambda s: gen.rng.integers(0, experts, s)) if has_bias else None
        skips = [tokens_of(gen, d, (n, width)) if (i == 0 and not v2) or gen.chance(0.6) else None for i in range(2)]
        out, places = gen.out(d, (n, width)), gen.tensor(I32, (n * k,), index)
        if v2:
            run("aclnnMoeFinalizeRoutingV2", rows, places, *skips, bias, scales, expert, mode, out)
        else:
            run("aclnnMoeFinalizeRouting", rows, *skips, bias, scales, places, expert, out)
        at = index.reshape(k, n).T if mode < 2 else index.reshape(n, k)
        terms = np.where((at >= 0)[..., None], rows.get().astype(LD)[at], 0)
        size = np.abs(terms)
        if has_bias:
            terms, size = terms + bias.get().astype(LD)[expert.get()], size + np.abs(bias.get()[expert.get()])
        weights = scales.get().astype(LD)[..., None] if scales else LD(1)
        exact, size = (terms * weights).sum(1), (size * np.abs(weights)).sum(1)
        for skip in skips:
            if skip:
                exact, size = exact + skip.get().astype(LD), size + np.abs(skip.get())
        ref.check(out.get(), exact, d, F64, ulps=1, slack=16 * F64.ulp(size))

    def test_finalize(self):
        each_case(self, "aclnnMoeFinalizeRouting", CASES, lambda g: self.finalize(g, False))
        each_case(self, "aclnnMoeFinalizeRoutingV2", 2 * CASES, lambda g: self.finalize(g, True))

    def test_finalize_refused(self):
        x, i, out = Tensor.empty(F32, (6, 4)), Tensor.of(I32, np.zeros(6)), Tensor.empty(F32, (6, 4))
        for name, args in (("dropPadMode", (x, i, None, None, None, None, None, 4, out)),
                           ("expertIdxOptional", (x, i, None, None, x, None, None, 0, out)),
                           ("out", (x, i, None, None, None, None, None, 0, Tensor.empty(F32, (5, 4))))):
            code, message = refused("aclnnMoeFinalizeRoutingV2", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(name, message)


class Gating(unittest.TestCase):
    def test_softmax(self):
        def body(gen):
            d = gen.pick(FLOATS)
            lead = (gen.integer(1, 20),) if gen.chance(0.7) else (gen.integer(1, 4), gen.integer(1, 5))
            experts = gen.integer(1, 60) if gen.chance(0.9) else 1500
            k = gen.integer(1, min(experts, 9))
            x = tokens_of(gen, d, (*lead, experts))
            finished = Tensor.of(BOOL, gen.rng.random(lead) < 0.3) if gen.chance(0.5) else None
            outs = gen.out(d, (*lead, k)), gen.out(I32, (*lead, k)), gen.out(I32, (*lead, k))
            run("aclnnMoeGatingTopKSoftmax", x, finished, k, *outs)
            soft = np.exp(ref.log_softmax(x.get().astype(LD), -1))
            order = np.argsort(-x.get(), -1, kind="stable")[..., :k]
            best = np.take_along_axis(soft, order, -1)
            ref.check(outs[0].get(), best, d, slack=4e-6 * best)
            gone = finished.get()[..., None] if finished else np.zeros((*lead, 1), bool)
            got = outs[1].get()
            self.assertTrue(np.all(np.where(gone, got == experts, True)))
            chosen = np.take_along_axis(soft, np.where(gone, 0, got), -1)      # any of almost equal ones is right
            self.assertTrue(np.all(gone | (np.abs(chosen - best) <= 1e-5 * best)))
            n = int(np.prod(lead))
            ref.check_equal(outs[2].get(), np.arange(n * k).reshape(k, n).T.reshape(*lead, k))
        each_case(self, "aclnnMoeGatingTopKSoftmax", 2 * CASES, body)
        x = Tensor.empty(F16, (3, 4))
        code, message = refused("aclnnMoeGatingTopKSoftmax", x, None, 5, x, x, x)
        self.assertEqual(code, INVALID)
        self.assertIn("k is 5, expected 1 to 4", message)

    def test_groups(self):
        def body(gen):
            d, n = gen.pick(FLOATS), gen.integer(1, 12)
            groups, size = gen.integer(1, 5), gen.integer(2, 12)
            experts = groups * size
            k_groups, mode, kind = gen.integer(1, groups), gen.integer(0, 1), gen.integer(0, 1)
            k = gen.integer(1, k_groups * size)
            x = gen.drawn(d, (n, experts), lambda s: d.round(gen.rng.standard_normal(s)))
            bias = gen.drawn(d, (experts,), lambda s: d.round(gen.rng.standard_normal(s))) if gen.chance(0.6) else None
            y, index = gen.out(d, (n, k)), gen.out(I32, (n, k))
            scores = gen.out(F32, (n, experts)) if gen.chance(0.5) else None
            run("aclnnMoeGatingTopK", x, bias, k, k_groups, groups, mode, 0, kind, scores is not None, 2.5, 1e-20,
                y, index, scores)
            v = x.get().astype(LD)
            exact = np.exp(ref.log_softmax(v, -1)) if kind == 0 else ref.sigmoid(v)
            if scores:
                below = v.max(-1, keepdims=True) - v if kind == 0 else 0
                ref.check(scores.get(), exact, F32, slack=(4e-7 + 1.2e-7 * below) * exact)
            biased = exact + (bias.get().astype(LD) if bias else 0)
            parts = np.sort(biased.reshape(n, groups, size), -1)
            best = parts[..., -1] if mode == 0 else parts[..., -2:].sum(-1)
            order = np.argsort(-best, -1, kind="stable")
            ranked = np.take_along_axis(best, order, -1)
            gap = ranked[:, k_groups - 1] - ranked[:, k_groups] if k_groups < groups else np.ones(n)
            kept = np.zeros((n, groups), bool)
            np.put_along_axis(kept, order[:, :k_groups], True, -1)
            allowed = np.where(np.repeat(kept, size, -1), biased, -np.inf)
            got = index.get().astype(np.int64)
            clear = gap > 1e-5                                  # the chosen groups differ clearly in float
            top = -np.sort(-allowed, -1)[:, :k]
            chosen = np.take_along_axis(allowed, got, -1)
            self.assertTrue(np.all(np.abs(chosen - top)[clear] <= 1e-5))
            self.assertTrue(all(len(set(row)) == k for row in got))
            values = np.take_along_axis(exact, got, -1)
            if kind == 1:
                values = values / (values.sum(-1, keepdims=True) + LD(1e-20))
            ref.check(y.get(), values * LD(2.5), d, slack=4e-6 * values)
        each_case(self, "aclnnMoeGatingTopK", 3 * CASES, body)
        x, y, i = Tensor.empty(F32, (3, 8)), Tensor.empty(F32, (3, 2)), Tensor.empty(I32, (3, 2))
        for name, args in (("groupCount", (2, 1, 3, 0, 0, 1)),
                           ("kGroup", (2, 3, 2, 0, 0, 1)),
                           ("k is 5", (5, 1, 2, 0, 0, 1)),
                           ("renorm", (2, 1, 2, 0, 1, 1)),
                           ("normType", (2, 1, 2, 0, 0, 2))):
            with self.subTest(name):
                code, message = refused("aclnnMoeGatingTopK", x, None, *args, False, 1.0, 0.0, y, i, None)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
