# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: tokens sorted by their experts and back, and gates, compared with NumPy."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, Tensor, refused, run
from dtypes import BOOL, F16, F32, F64, FLOATS, I32, I64, I8, LD
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


class RoutingV2(unittest.TestCase):
    def routed(self, gen, quantises):
        d, n, k, width = gen.pick(FLOATS), gen.integer(1, 20), gen.integer(1, 4), gen.integer(1, 40)
        experts, drops, flag = gen.integer(1, 9), gen.chance(0.5), gen.integer(0, 2)
        capacity, active = gen.integer(1, n), gen.pick((0, gen.integer(1, n * k + 3)))
        x = tokens_of(gen, d, (n, width))
        expert = gen.drawn(I32, (n, k), lambda s: gen.rng.integers(0, experts, s))
        order, place = slots_of(expert.get())
        counts = np.bincount(expert.get().ravel(), minlength=experts)
        sources, rows = order[:min(active, n * k) if active else n * k], place
        if drops:
            sorted_ = expert.get().ravel()[order]
            within = np.arange(n * k) - (np.cumsum(counts) - counts)[sorted_]
            row = np.where(within < capacity, sorted_ * capacity + within, -1)
            sources = np.full(experts * capacity, -1)
            sources[row[row >= 0]] = order[row >= 0]
            rows = np.empty(n * k, int)
            rows[order] = row
        shape = (experts, capacity, width) if drops else (sources.size, width)
        to = gen.out(I8 if quantises else d, shape) if not drops or experts == 1 else \
            Tensor.empty(I8 if quantises else d, shape)
        tokens = Tensor.empty(I32, (experts,)) if flag and not drops else None
        before = Tensor.empty(I32, (experts,)) if drops and gen.chance(0.5) else None
        numbers = active, capacity, experts, int(drops), flag, before is not None
        outs = to, Tensor.empty(I32, (n * k,)), tokens, before
        taken = np.where((sources >= 0)[:, None], x.get()[sources // k], 0)

        def check_places():
            ref.check_equal(outs[1].get(), rows)
            if tokens:
                ref.check_equal(tokens.get(), np.cumsum(counts) if flag == 1 else counts)
            if before:
                ref.check_equal(before.get(), counts)
        return x, expert, numbers, outs, taken, sources, check_places

    def test_plain(self):
        def body(gen):
            x, expert, numbers, outs, taken, _, check_places = self.routed(gen, False)
            run("aclnnMoeInitRoutingV2", x, expert, *numbers, *outs)
            ref.check_equal(outs[0].get(), taken.reshape(outs[0].shape))
            check_places()
            _, _, _, drops, _, _ = numbers
            n, k = expert.shape
            grad = tokens_of(gen, x.dtype, outs[0].shape) if not drops else gen.tensor(
                x.dtype, (1, 1, 1)) if outs[0].size == 1 else Tensor.of(
                    x.dtype, gen.values(x.dtype, outs[0].shape, limit=8))
            to, index = gen.out(x.dtype, x.shape), outs[1].get()
            run("aclnnMoeInitRoutingV2Grad", grad, gen.tensor(I32, index.shape, index), k, drops,
                0 if drops or not numbers[0] else grad.shape[0], to)
            g = np.concatenate([grad.get().reshape(-1, x.shape[1]).astype(LD), np.zeros((n * k + 1, x.shape[1]), LD)])
            terms = g[index].reshape(n, k, -1)
            ref.check(to.get(), terms.sum(1), x.dtype, F64, ulps=1, slack=4 * F64.ulp(np.abs(terms).sum(1)))
        each_case(self, "aclnnMoeInitRoutingV2", 2 * CASES, body)

    def test_quantised(self):
        def body(gen):
            x, expert, numbers, outs, taken, sources, check_places = self.routed(gen, True)
            experts, width, mode = numbers[2], x.shape[1], gen.integer(0, 1)
            row_scale = gen.out(F32, (sources.size,)) if mode else None
            if mode:
                s = gen.pick((1, experts, 0))
                scale = gen.tensor(F32, (s, width), F32.round(gen.rng.uniform(0.5, 2, (s, width)))) if s else None
                offset = None
            else:
                scale = Tensor.of(F32, F32.round(gen.rng.uniform(3, 30, 1)))
                offset = Tensor.of(F32, [gen.integer(-9, 9)])
            run("aclnnMoeInitRoutingQuantV2", x, expert, scale, offset, *numbers, mode, *outs, row_scale)
            check_places()
            got, v = outs[0].get().reshape(-1, width), taken.astype(LD)
            if mode:
                if scale:
                    of = np.where(sources >= 0, expert.get().ravel()[sources], 0) if scale.shape[0] > 1 else 0
                    v = v * scale.get().astype(LD)[of].reshape(-1, width)
                largest = np.abs(v).max(-1)
                ref.check(row_scale.get(), largest / 127, F32, ulps=2)
                exact = np.where(largest[:, None] > 0, v / np.where(largest > 0, largest / 127, 1)[:, None], 0)
            else:
                exact = np.where((sources >= 0)[:, None], v * scale.get()[0] + offset.get()[0], 0)
            exact = np.clip(exact, -128, 127)
            ref.complain(got, exact, np.abs(got - exact) <= 0.5001, "int8", lambda i: "its rounding")
        each_case(self, "aclnnMoeInitRoutingQuantV2", 2 * CASES, body)

    def test_refused(self):
        x, i, r = Tensor.empty(F32, (3, 4)), Tensor.of(I32, [[0], [1], [2]]), Tensor.empty(I32, (3,))
        out, stack = Tensor.empty(F32, (3, 4)), Tensor.empty(F32, (2, 2, 4))
        for text, args in (("dropPadModeOptional is 2", (0, 0, 2, 2, 0, False, out, r, None, None)),
                           ("expertNumOptional is 0", (0, 0, 0, 0, 1, False, out, r, None, None)),
                           ("expertTokensCountOrCumsumOutOptional is NULL", (0, 0, 3, 0, 1, False, out, r, None, None)),
                           ("expandedXOut has shape [3, 4]", (2, 0, 3, 0, 0, False, out, r, None, None))):
            code, message = refused("aclnnMoeInitRoutingV2", x, i, *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        with self.assertRaises(AclError) as error:
            run("aclnnMoeInitRoutingV2", x, i, 0, 2, 2, 1, 0, False, stack, r, None, None)
        self.assertIn("expertIdx[2] is 2, expected 0 to 1", error.exception.message)

    def test_v3(self):
        def body(gen):
            quant, by_position, kind = gen.pick((-1, 1)), gen.integer(0, 1), gen.integer(0, 2)
            d = gen.pick(FLOATS if quant == 1 else (*FLOATS, I8))
            n, k, width, experts = gen.integer(1, 20), gen.integer(1, 4), gen.integer(1, 40), gen.integer(1, 9)
            start = gen.integer(0, experts - 1)
            end = gen.integer(start + 1, experts)
            range_ = Ints(start, end) if gen.chance(0.8) else None
            start, end = (start, end) if range_ else (0, experts)
            x = tokens_of(gen, d, (n, width)) if d is not I8 else gen.drawn(I8, (n, width), lambda s: gen.values(I8, s))
            expert = gen.drawn(I32, (n, k), lambda s: gen.rng.integers(0, experts, s))
            active = gen.pick((0, n * k, gen.integer(1, n * k + 3)))
            flat = expert.get().ravel()
            order = np.argsort(flat, kind="stable")
            order = order[(flat[order] >= start) & (flat[order] < end)]
            limit = min(active, n * k) if active else n * k
            scaled = gen.chance(0.6)
            s_shape = (n,) if quant == -1 else (gen.pick((1, end - start)), width)
            scale = gen.tensor(F32, s_shape, F32.round(gen.rng.uniform(0.5, 2, s_shape))) if scaled else None
            out_d = I8 if quant == 1 else d
            out = Tensor.empty(out_d, (limit, width)).set(np.zeros((limit, width), out_d.values))
            rows, to_scale = (Tensor.empty(t, (m,)).set(np.zeros(m, t.values)) for t, m in ((I32, n * k), (F32, limit)))
            flag = gen.chance(0.8)
            c_shape = (experts, 2) if kind == 2 else (end - start,)
            counts = Tensor.empty(I64, c_shape).set(np.full(c_shape, -7)) if flag else None
            run("aclnnMoeInitRoutingV3", x, expert, scale, None, active, 0, experts, 0, kind, flag, quant, range_,
                by_position, out, rows, counts, to_scale if quant == 1 or scaled else None)
            taken = order[:limit]
            expected = np.zeros(n * k, np.int64) if by_position else np.full(n * k, -1)
            if by_position:
                expected[:order.size] = order
            else:
                expected[order] = np.arange(order.size)
            ref.check_equal(rows.get(), expected)
            number = np.bincount(flat[order] - start, minlength=end - start)
            if flag and kind < 2:
                ref.check_equal(counts.get(), np.cumsum(number) if kind == 0 else number)
            elif flag:
                some = np.flatnonzero(number)
                pairs = np.full((experts, 2), -7)
                pairs[:some.size] = np.stack([some + start, number[some]], -1)
                pairs[some.size:some.size + 1] = 0
                ref.check_equal(counts.get(), pairs)
            got, v = out.get(), x.get()[taken // k]
            self.assertTrue(np.all(got[taken.size:] == 0))
            got, given = got[:taken.size], to_scale.get()[:taken.size]
            if quant == -1:
                ref.check_equal(got, v)
                if scaled:
                    ref.check_equal(given, scale.get()[taken // k])
                return
            v = v.astype(LD)
            if scaled:
                v = v * scale.get().astype(LD)[flat[taken] - start if s_shape[0] > 1 else np.zeros(taken.size, int)]
            largest = np.abs(v).max(-1) if v.size else np.zeros(0, LD)
            ref.check(given, largest / 127, F32, ulps=2)
            exact = np.where(largest[:, None] > 0, v / np.where(largest > 0, largest / 127, 1)[:, None], 0)
            ref.complain(got, exact, np.abs(got - exact) <= 0.5001, "int8", lambda i: "its rounding")
        each_case(self, "aclnnMoeInitRoutingV3", 3 * CASES, body)
        x, i, r = Tensor.empty(F32, (3, 4)), Tensor.of(I32, [[0], [1], [2]]), Tensor.empty(I32, (3,))
        for text, args in (("dropPadMode is 1", (0, 0, 3, 1, 1, False, -1, None, 0)),
                           ("quantMode is 0", (0, 0, 3, 0, 1, False, 0, None, 0)),
                           ("activeExpertRangeOptional is 2 to 4", (0, 0, 3, 0, 1, False, -1, Ints(2, 4), 0))):
            code, message = refused("aclnnMoeInitRoutingV3", x, i, None, None, *args, x, r, None, None)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)

    def test_finalize_grad(self):
        def body(gen):
            d, n, k, width = gen.pick(FLOATS), gen.integer(1, 12), gen.integer(1, 4), gen.integer(1, 40)
            experts, drops, capacity = gen.integer(1, 6), gen.chance(0.4), gen.integer(1, 5)
            scales = tokens_of(gen, gen.pick((d, F32)), (n, k)) if gen.chance(0.7) else None
            k = k if scales else 1
            active = gen.pick((0, gen.integer(1, n * k), n * k + 3)) if not drops else 0
            n_rows = experts * capacity if drops else active if 0 < active < n * k else n * k
            shape = (experts, capacity, width) if drops else (n_rows, width)
            index = gen.rng.permutation(n * k).astype(np.int32)
            if drops:
                slots = gen.rng.permutation(max(n_rows, n * k))[:n * k]
                index = np.where(slots < n_rows, slots, -1).astype(np.int32)
            grad, rows = tokens_of(gen, d, (n, width)), Tensor.of(d, gen.values(d, shape, limit=8)) if scales else None
            bias = tokens_of(gen, d, (experts, width)) if scales and gen.chance(0.5) else None
            expert = gen.drawn(I32, (n, k), lambda s: gen.rng.integers(0, experts, s)) if bias else None
            to, to_scales = Tensor.empty(d, shape), gen.out(scales.dtype, (n, k)) if scales else None
            run("aclnnMoeFinalizeRoutingV2Grad", grad, gen.tensor(I32, (n * k,), index), rows, scales, expert, bias,
                int(drops), active, experts, capacity, to, to_scales)
            g, at = grad.get().astype(LD), index.reshape(n, k)
            kept = (at >= 0) & (at < n_rows)
            exact = np.zeros((n_rows, width), LD)
            weights = scales.get().astype(LD) if scales else np.ones((n, k), LD)
            exact[at[kept]] = (g[:, None, :] * weights[..., None])[kept]
            ref.check(to.get().reshape(-1, width), exact, d, F64, ulps=1)
            if scales:
                v = np.where(kept[..., None], rows.get().reshape(-1, width).astype(LD)[np.where(kept, at, 0)], 0)
                v = v + (bias.get().astype(LD)[expert.get()] if bias else 0)
                terms = v * g[:, None, :]
                size = np.abs(terms) + (np.abs(g)[:, None, :] * 16 if bias else 0)
                ref.check(to_scales.get(), terms.sum(-1), scales.dtype, F64, ulps=1, slack=16 * F64.ulp(size.sum(-1)))
        each_case(self, "aclnnMoeFinalizeRoutingV2Grad", 2 * CASES, body)


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

    def test_softmax_v2(self):
        def body(gen):
            d, renorm, flag = gen.pick(FLOATS), gen.integer(0, 1), gen.chance(0.5)
            lead = (gen.integer(1, 20),) if gen.chance(0.7) else (gen.integer(1, 4), gen.integer(1, 5))
            experts = gen.integer(1, 60)
            k = gen.integer(1, min(experts, 9))
            x = tokens_of(gen, d, (*lead, experts))
            finished = Tensor.of(BOOL, gen.rng.random(lead) < 0.3) if gen.chance(0.5) else None
            y, index = gen.out(d, (*lead, k)), gen.out(I32, (*lead, k))
            every = gen.out(F32, x.shape) if flag else None
            if flag and renorm:
                every.set(np.zeros(x.shape))
            run("aclnnMoeGatingTopKSoftmaxV2", x, finished, k, renorm, flag, y, index, every)
            v = x.get().astype(LD)
            soft = np.exp(ref.log_softmax(v, -1))
            best = -np.sort(-v, -1)[..., :k]
            expected = np.exp(ref.log_softmax(best, -1)) if renorm else -np.sort(-soft, -1)[..., :k]
            ref.check(y.get(), expected, d, slack=4e-6 * expected)
            if flag:
                exact = 0 * soft if renorm else soft
                ref.check(every.get(), exact, F32, slack=4e-6 * soft)
            gone = finished.get()[..., None] if finished else np.zeros((*lead, 1), bool)
            got = index.get()
            self.assertTrue(np.all(np.where(gone, got == experts, True)))
            chosen = np.take_along_axis(v, np.where(gone, 0, got).astype(np.int64), -1)
            self.assertTrue(np.all(gone | (np.abs(chosen - best) <= 1e-5)))
        each_case(self, "aclnnMoeGatingTopKSoftmaxV2", 2 * CASES, body)
        x = Tensor.empty(F16, (3, 4))
        code, message = refused("aclnnMoeGatingTopKSoftmaxV2", x, None, 2, 2, False, x, x, None)
        self.assertEqual(code, INVALID)

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
