# SPDX-License-Identifier: Apache-2.0
"""Operators that fuse communication with GEMM, on 1 to 4 ranks, against the product and the sum of all ranks.

Most cases have small whole numbers, so that every partial sum is exact in 16 bits and each element has one right value.
Cases of real numbers allow for the rounding of each rank's product to 16 bits, and of the sum.
"""
import functools
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, NULLPTR, Tensor, TensorList, refused
from dtypes import BF16, BOOL, F16, F32, I32, I64, I8, LD
from gen import each_case
from ranks import Ranks, run_ranks

CASES = 40
EPS = LD(2) ** -24


@functools.lru_cache(None)
def ranks_of(n):
    return Ranks(*range(n))


def whole(gen, dtype, shape, most=1, dense=False):
    values = gen.rng.integers(-most, most + 1, shape).astype(dtype.values)
    return gen.keep(Tensor.of(dtype, values)) if dense else gen.out(dtype, shape, values)


def dense_out(gen, dtype, shape):
    return gen.keep(Tensor.empty(dtype, shape))


def wide(t):
    return t.get().astype(np.float64)


class Case:
    """What all operators have: ranks, a dtype, dimensions of the product on each rank, factors and a bias."""

    def __init__(self, gen, most_dims=3, quantised=None, rows_of_ranks=False):
        self.ranks = ranks_of(gen.pick((1, 2, 2, 3, 4)))
        self.gen, self.n = gen, self.ranks.n
        self.dtype = gen.pick((F16, BF16))
        x1_type = I8 if quantised == "both" else self.dtype
        x2_type = I8 if quantised else self.dtype
        m, self.k, self.width = gen.integer(1, 9), gen.integer(1, 30), gen.pick((1, 3, 8, 17, 40))
        if rows_of_ranks:
            m *= self.n
        lead = (gen.integer(1, 3), m) if most_dims == 3 and gen.chance(0.4) else (m,)
        self.lead, self.rows = lead, int(np.prod(lead))
        self.x1 = [whole(gen, x1_type, (*lead, self.k), dense=True) for _ in range(self.n)]
        self.x2 = [self.weight(x2_type) for _ in range(self.n)]
        self.bias = [None] * self.n
        if gen.chance(0.5):
            bias_type = I32 if quantised == "both" else self.dtype
            self.bias = [whole(gen, bias_type, (self.width,), 3) for _ in range(self.n)]

    def weight(self, dtype):
        """[k, n], or the transpose of [n, k]."""
        gen = self.gen
        if gen.chance(0.6):
            return whole(gen, dtype, (self.k, self.width), dense=True)
        values = gen.rng.integers(-1, 2, (self.k, self.width)).astype(dtype.values)
        return gen.keep(Tensor(dtype, values.shape, (1, self.k)).set(values))

    def optional(self, present, make):
        return [make() for _ in range(self.n)] if present else [None] * self.n

    def plain(self, i, x1=None):
        """x1 @ x2 + bias of rank i."""
        product = (wide(self.x1[i]) if x1 is None else x1) @ wide(self.x2[i])
        return product + (wide(self.bias[i]) if self.bias[i] else 0)


class AllReduce(unittest.TestCase):
    """The product's forms. Each returns the operator's arguments between bias and group, and the products."""

    def form_plain(self, c):
        return [[]] * c.n, [c.plain(i) for i in range(c.n)], []

    def form_quant(self, c, row_scale=False, v3=False):
        shape = c.gen.pick(((c.width,), (1,)))
        powers = [2.0 ** c.gen.rng.integers(-1, 2, shape) for _ in range(c.n)]
        scales = [c.gen.keep(Tensor.of(F32, F32.round(p))) for p in powers]
        rows = c.optional(row_scale and c.gen.chance(0.7), lambda: c.gen.keep(
            Tensor.of(F32, F32.round(2.0 ** c.gen.rng.integers(-1, 2, (c.rows,))))))
        by_row = [r.get().astype(np.float64).reshape((*c.lead, 1)) if r else 1 for r in rows]
        products = [c.plain(i) * powers[i] * by_row[i] for i in range(c.n)]
        return [[s] + ([r] if row_scale else []) + [None, None] * v3 for s, r in zip(scales, rows)], products, []

    def form_weight(self, c):
        group = 32 if c.k > 32 and c.gen.chance(0.5) else 0
        shape = (-(-c.k // group), c.width) if group else c.gen.pick(((1,), (c.width,), (1, c.width)))
        scales = [c.gen.keep(Tensor.of(c.dtype, c.dtype.round(2.0 ** c.gen.rng.integers(-1, 1, shape))))
                  for _ in range(c.n)]
        offsets = c.optional(c.gen.chance(0.5), lambda: whole(c.gen, c.dtype, shape, dense=True))
        products = []
        for i in range(c.n):
            scale, offset = (self.by_row(c, t, group) if t else 0 for t in (scales[i], offsets[i]))
            weight = (wide(c.x2[i]) + offset) * scale
            product = wide(c.x1[i]) @ weight
            products.append(product + (wide(c.bias[i]) if c.bias[i] else 0))
        return [[s, o] for s, o in zip(scales, offsets)], products, [group]

    @staticmethod
    def by_row(c, t, group):
        """The values of a parameter for each row of the weight, where groups of rows have their own."""
        return np.repeat(wide(t), group, axis=0)[:c.k] if group else wide(t)

    def arguments(self, c, i, *parts):
        return [c.x1[i], c.x2[i], c.bias[i], *parts]

    def sum_case(self, gen, op, form, quantised, x3_at, **options):
        """x3_at: the place of x3 among the form's arguments; None: there is none."""
        c = Case(gen, quantised=quantised)
        more, products, last = form(c, **options)
        shape = (*c.lead, c.width)
        x3 = c.optional(x3_at is not None and gen.chance(0.6), lambda: whole(gen, c.dtype, shape, 4))
        out = [dense_out(gen, c.dtype, shape) for _ in range(c.n)]
        calls = []
        for i in range(c.n):
            middle = list(more[i])
            if x3_at is not None:
                middle.insert(x3_at, x3[i])
            calls.append(self.arguments(c, i, *middle, c.ranks.name, b"sum", 0, 1, *last, out[i]))
        run_ranks(c.ranks, op, calls, repeated=gen.chance(0.3))
        expected = sum(p + (wide(x) if x else 0) for p, x in zip(products, x3))
        for i in range(c.n):
            ref.check_equal(wide(out[i]), expected, f"rank {i}: output")

    def test_sum(self):
        for op, form, quantised, x3_at, options in (
                ("aclnnMatmulAllReduce", self.form_plain, None, None, {}),
                ("aclnnMatmulAllReduceV2", self.form_plain, None, 0, {}),
                ("aclnnQuantMatmulAllReduce", self.form_quant, "both", 0, {}),
                ("aclnnQuantMatmulAllReduceV2", self.form_quant, "both", 0, {"row_scale": True}),
                ("aclnnQuantMatmulAllReduceV3", self.form_quant, "both", 0, {"row_scale": True, "v3": True}),
                ("aclnnWeightQuantMatmulAllReduce", self.form_weight, "weight", 2, {})):
            each_case(self, op, CASES, lambda gen, o=op, f=form, q=quantised, x=x3_at, m=options:
                      self.sum_case(gen, o, f, q, x, **m))

    def norm_case(self, gen, op, form, quantised):
        c = Case(gen, quantised=quantised)
        in_place = "Inplace" in op
        more, products, last = form(c)
        shape = (*c.lead, c.width) if len(c.lead) == 2 else (1, c.rows, c.width)
        residual = [whole(gen, c.dtype, shape, 8, dense=True) for _ in range(c.n)]
        before = [wide(t) for t in residual]
        gamma = [whole(gen, c.dtype, (c.width,), 2) for _ in range(c.n)]
        y = residual if in_place else [dense_out(gen, c.dtype, shape) for _ in range(c.n)]
        norm = [dense_out(gen, c.dtype, shape) for _ in range(c.n)]
        epsilon = gen.pick((1e-6, 0.5))
        run_ranks(c.ranks, op, [
            self.arguments(c, i, *more[i], residual[i], gamma[i], epsilon, c.ranks.name, b"sum", 0, 1, *last,
                           *([] if in_place else [y[i]]), norm[i]) for i in range(c.n)])
        total = sum(products).reshape(shape)
        for i in range(c.n):
            exact = total + before[i]
            ref.check_equal(wide(y[i]), exact, f"rank {i}: y")
            root = np.sqrt((exact.astype(LD) ** 2).mean(-1, keepdims=True) + LD(epsilon))
            ref.check(norm[i].get(), exact / root * wide(gamma[i]), c.dtype, ulps=8, what=f"rank {i}: normOut")

    def test_norm(self):
        for name, form, quantised in (("MatmulAllReduceAddRmsNorm", self.form_plain, None),
                                      ("QuantMatmulAllReduceAddRmsNorm", self.form_quant, "both"),
                                      ("WeightQuantMatmulAllReduceAddRmsNorm", self.form_weight, "weight")):
            for op in ("aclnn" + name, "aclnnInplace" + name):
                each_case(self, op, CASES // 2, lambda gen, o=op, f=form, q=quantised: self.norm_case(gen, o, f, q))

    def test_real(self):
        def body(gen):
            ranks, dtype = ranks_of(gen.pick((2, 4))), gen.pick((F16, BF16))
            m, k, width = gen.integer(1, 70), gen.integer(1, 300), gen.integer(1, 70)
            x1, x2 = ([gen.keep(Tensor.of(dtype, dtype.round(gen.rng.standard_normal(s)))) for _ in range(ranks.n)]
                      for s in ((m, k), (k, width)))
            out = [dense_out(gen, dtype, (m, width)) for _ in range(ranks.n)]
            run_ranks(ranks, "aclnnMatmulAllReduce",
                      [(x1[i], x2[i], None, ranks.name, b"sum", 0, 1, out[i]) for i in range(ranks.n)])
            parts = [wide(a) @ wide(b) for a, b in zip(x1, x2)]
            slack = [2 * k * EPS * (np.abs(wide(a)) @ np.abs(wide(b))) for a, b in zip(x1, x2)]
            slack = sum(s + dtype.ulp(np.abs(p) + s) / 2 for s, p in zip(slack, parts))
            slack = slack + ranks.n * EPS * sum(map(np.abs, parts))
            for i in range(ranks.n):
                ref.check(out[i].get(), sum(parts), dtype, slack=slack, what=f"rank {i}: output")
                ref.check_equal(out[i].bits(), out[0].bits(), f"rank {i} and rank 0: bits")
        each_case(self, "aclnnMatmulAllReduce of real numbers", CASES // 2, body)

    def test_empty(self):
        ranks = ranks_of(2)
        out = [Tensor.empty(F16, (0, 3)) for _ in range(2)]
        run_ranks(ranks, "aclnnMatmulAllReduce",
                  [(Tensor.empty(F16, (0, 4)), Tensor.empty(F16, (4, 3)), None, ranks.name, b"sum", 0, 1, out[i])
                   for i in range(2)])


class Scattered(unittest.TestCase):
    def gather_case(self, gen):
        c = Case(gen, most_dims=2)
        gathers = gen.pick((True, True, False, None))      # None: no tensor; False: one without elements
        out = [gen.out(c.dtype, (c.n * c.rows, c.width)) for _ in range(c.n)]
        gathered = [dense_out(gen, c.dtype, (c.n * c.rows, c.k) if gathers else (0,)) if gathers is not None else None
                    for _ in range(c.n)]
        sizes = run_ranks(c.ranks, "aclnnAllGatherMatmul",
                          [(c.x1[i], c.x2[i], c.bias[i], c.ranks.name, 0, 0, 1, out[i], gathered[i])
                           for i in range(c.n)], repeated=gen.chance(0.3))
        everything = np.concatenate([wide(t) for t in c.x1])
        for i in range(c.n):
            ref.check_equal(wide(out[i]), c.plain(i, everything), f"rank {i}: output")
            if gathers:
                ref.check_equal(wide(gathered[i]), everything, f"rank {i}: gatherOut")
        self.assertEqual(sizes[0] > 0, not gathers)

    def test_gather(self):
        each_case(self, "aclnnAllGatherMatmul", CASES, self.gather_case)

    def scatter_case(self, gen):
        c = Case(gen, most_dims=2, rows_of_ranks=True)
        own = c.rows // c.n
        out = [dense_out(gen, c.dtype, (own, c.width)) for _ in range(c.n)]
        run_ranks(c.ranks, "aclnnMatmulReduceScatter",
                  [(c.x1[i], c.x2[i], c.bias[i], c.ranks.name, b"sum", 0, 1, out[i]) for i in range(c.n)],
                  repeated=gen.chance(0.3))
        total = sum(c.plain(i) for i in range(c.n))
        for i in range(c.n):
            ref.check_equal(wide(out[i]), total[i * own:(i + 1) * own], f"rank {i}: output")

    def test_scatter(self):
        each_case(self, "aclnnMatmulReduceScatter", CASES, self.scatter_case)


@functools.lru_cache(None)
def grid():
    """Four ranks as two by two: rank 2 * t + e has number e among the ranks of its ep group, and t in its tp group."""
    return [Ranks(0, 1), Ranks(2, 3)], [Ranks(0, 2), Ranks(1, 3)]


class Experts(unittest.TestCase):
    """GEMMs of experts. Rank (e, t) of a grid: its tokens go to the experts' ranks in its ep group, and the experts'
    matrices are split over its tp group. All the tokens of ep rank e are tokens[e]: [E, C, H]."""
    EP = TP = 2

    def setUp(self):
        self.all, (self.eps, self.tps) = ranks_of(4), grid()

    def cells(self):
        return [(i % 2, i // 2) for i in range(4)]

    def part(self, t, array, axis):
        """The part of tp rank t."""
        return np.split(array, self.TP, axis)[t]

    def draw(self, gen):
        self.dtype = gen.pick((F16, BF16))
        self.local, self.c, self.h, self.m = (gen.integer(1, n) for n in (3, 4, 9, 9))
        self.c, self.h, self.m = 2 * self.c, 2 * self.h, 2 * self.m
        self.shard = gen.integer(0, 1)
        self.bias_type = F16 if self.dtype is F16 else F32
        self.has_bias = gen.chance(0.5)

    def dense(self, gen, dtype, values):
        return gen.keep(Tensor.of(dtype, np.ascontiguousarray(values).astype(dtype.values)))

    def weight(self, gen, values):
        """The weights, or a view of their transposes."""
        if gen.chance(0.6):
            return self.dense(gen, self.dtype, values)
        e, k, n = values.shape
        return gen.keep(Tensor(self.dtype, values.shape, (k * n, 1, k)).set(values.astype(self.dtype.values)))

    def biases(self, gen, values):
        if not self.has_bias:
            return None
        return self.dense(gen, self.bias_type, values[:, 0] if gen.chance(0.5) else values)

    def small(self, gen, *shape):
        return gen.rng.integers(-1, 2, shape).astype(np.float64)

    def names(self, e, t):
        return self.eps[t].name, self.tps[e].name, self.EP, self.TP

    def gather_case(self, gen):
        self.draw(gen)
        axis = 2 if self.shard == 0 else 1
        tokens = self.small(gen, self.EP, self.EP * self.local, self.c, self.h)
        weights = self.small(gen, self.EP, self.local, self.h, self.m)
        bias = self.small(gen, self.EP, self.local, 1, self.m)
        act, wants = gen.integer(0, 3), [gen.chance(0.5) for _ in range(2)]
        activate = (lambda v: v, None, None, lambda v: np.maximum(v, 0))[act]
        calls, outs = [], []
        for e, t in self.cells():
            shape = (self.local, self.EP * self.c)
            out = [dense_out(gen, self.dtype, (*shape, self.m // 2)),
                   dense_out(gen, self.dtype, (*shape, self.h)) if wants[0] else None,
                   dense_out(gen, self.dtype, (*shape, self.m // 2)) if wants[1] else None]
            outs.append(out)
            calls.append((self.dense(gen, self.dtype, self.part(t, tokens[e], axis)),
                          self.weight(gen, self.part(t, weights[e], 2)), self.biases(gen, self.part(t, bias[e], 2)),
                          *self.names(e, t), self.shard, act, *out))
        run_ranks(self.all, "aclnnAlltoAllAllGatherBatchMatMul", calls, repeated=gen.chance(0.3))
        for (e, t), (y1, y2, y3) in zip(self.cells(), outs):
            own = slice(e * self.local, (e + 1) * self.local)
            left = np.concatenate([tokens[source][own] for source in range(self.EP)], axis=1)
            product = left @ self.part(t, weights[e], 2) + (self.part(t, bias[e], 2) if self.has_bias else 0)
            if y2:
                ref.check_equal(wide(y2), left, "y2")
            if y3:
                ref.check_equal(wide(y3), product, "y3")
            if activate:
                ref.check_equal(wide(y1), activate(product), "y1")
            else:
                x = product.astype(LD)
                inner = LD(np.sqrt(8 / np.pi)) * (x + LD(0.044715) * x ** 3) if act == 1 else x
                ref.check(y1.get(), x / (1 + np.exp(-inner)), self.dtype, ulps=8, slack=LD(1e-6), what="y1")

    def scatter_case(self, gen):
        self.draw(gen)
        axis = 2 if self.shard == 0 else 1
        left = self.small(gen, self.EP, self.local, self.EP * self.c, self.m)
        weights = self.small(gen, self.EP, self.local, self.m, self.h)
        bias = self.small(gen, self.EP, self.local, 1, self.h)
        calls, outs = [], []
        for e, t in self.cells():
            shape = [self.EP * self.local, self.c, self.h]
            shape[axis] //= 2
            outs.append(dense_out(gen, self.dtype, shape))
            added = self.part(t, bias[e], 2) if self.shard == 0 else bias[e]
            calls.append((self.dense(gen, self.dtype, self.part(t, left[e], 2)),
                          self.weight(gen, self.part(t, weights[e], 1)), self.biases(gen, added), *self.names(e, t),
                          self.shard, outs[-1]))
        run_ranks(self.all, "aclnnBatchMatMulReduceScatterAlltoAll", calls, repeated=gen.chance(0.3))
        results = [left[e] @ weights[e] + (bias[e] if self.has_bias else 0) for e in range(self.EP)]
        for (e, t), out in zip(self.cells(), outs):
            tokens = np.concatenate([r[:, e * self.c:(e + 1) * self.c] for r in results])
            ref.check_equal(wide(out), self.part(t, tokens, axis), "out")

    def test_gather(self):
        each_case(self, "aclnnAlltoAllAllGatherBatchMatMul", CASES, self.gather_case)

    def test_scatter(self):
        each_case(self, "aclnnBatchMatMulReduceScatterAlltoAll", CASES, self.scatter_case)


class Grouped(unittest.TestCase):
    """GroupedMatMulAllReduce: up to 64 products whose factors and results may be parts of one tensor."""

    def case(self, gen):
        ranks, dtype, split = ranks_of(gen.pick((1, 2, 3, 4))), gen.pick((F16, BF16)), gen.integer(0, 3)
        n = gen.pick((1, 2, 3, 64))
        rows = [gen.integer(0, 6) for _ in range(n)]
        ks = [gen.integer(1, 20)] * n if split & 1 else [gen.integer(1, 20) for _ in range(n)]
        widths = [gen.integer(1, 20)] * n if split & 2 else [gen.integer(1, 20) for _ in range(n)]
        stacked = split == 0 and gen.chance(0.3)
        sizes = Ints(*(rows if gen.chance(0.5) else np.cumsum(rows).tolist())) if split & 1 else None
        has_bias = gen.chance(0.5)
        calls, outs, totals = [], [], [0] * n
        for _ in range(ranks.n):
            x = [gen.rng.integers(-1, 2, (m, k)) for m, k in zip(rows, ks)]
            weight = [gen.rng.integers(-1, 2, (k, w)) for k, w in zip(ks, widths)]
            bias = [gen.rng.integers(-3, 4, w) for w in widths]
            totals = [t + a @ b + has_bias * c for t, a, b, c in zip(totals, x, weight, bias)]
            given = [np.concatenate(x)] if split & 1 else [a[None] for a in x] if stacked else x
            shapes = [(sum(rows), widths[0])] if split & 2 else [(1,) * stacked + t.shape for t in totals]
            made = lambda t, d=dtype: Tensor.of(d, t.astype(d.values))  # noqa: E731
            views = [made(t) if stacked else gen.out(dtype, t.shape, t.astype(dtype.values)) for t in given]
            outs.append([dense_out(gen, dtype, shape) for shape in shapes])
            calls.append((TensorList(views), TensorList([gen.out(dtype, t.shape, t.astype(dtype.values))
                                                         for t in weight]),
                          TensorList([made(t, F32 if dtype is BF16 else F16) for t in bias]) if has_bias else None,
                          sizes, split, ranks.name, b"sum", 0, 1, TensorList(outs[-1])))
        run_ranks(ranks, "aclnnGroupedMatMulAllReduce", calls)
        want = [np.concatenate(totals)] if split & 2 else totals
        for made in outs:
            for t, w in zip(made, want):
                ref.check_equal(wide(t).reshape(w.shape), w.astype(np.float64), "y")

    def test_all(self):
        each_case(self, "aclnnGroupedMatMulAllReduce", CASES // 2, self.case)

    def test_refused(self):
        group, list_of = ranks_of(2).name, lambda *shapes: TensorList([Tensor.empty(F16, s) for s in shapes])

        def expect(words, x=((5, 8),), weight=((8, 4), (8, 4)), y=((2, 4), (3, 4)), bias=None, sizes=Ints(2, 3),
                   split=1):
            code, message = refused("aclnnGroupedMatMulAllReduce", list_of(*x), list_of(*weight), bias, sizes, split,
                                    group, b"sum", 0, 1, list_of(*y))
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        expect("splitItem is 4, expected 0 to 3", split=4)
        expect("x has 1 tensors, expected 2", split=0)
        expect("y has 2 tensors, expected 1", split=3)
        expect("groupListOptional has 0 numbers, expected 2 for splitItem 1", sizes=None)
        expect("groupListOptional[1] is -1, expected 0 to 5", sizes=Ints(2, -1))
        expect("groupListOptional ends at 2 and adds up to 4, expected one of both to be 5", sizes=Ints(2, 2))
        expect("weight[1] has shape [7, 4], expected 8 rows", weight=((8, 4), (7, 4)))
        expect("y[1] has shape [2, 4], expected 4 columns and 3 rows", y=((2, 4), (2, 4)))
        expect("y[0] has shape [4, 4], expected 4 columns and 5 rows or more", y=((4, 4),), split=3)
        expect("y has 6 rows, expected 5", y=((6, 4),), split=3)
        expect("bias has 1 tensors, expected 2", bias=list_of((4,)))
        expect("bias has shape [3], expected [4]", bias=list_of((3,), (4,)))


class Moe(unittest.TestCase):
    """A dispatch, experts that multiply by their numbers, and a combine; of both versions."""

    def draw(self, gen):
        self.ranks = ranks_of(gen.pick((2, 3, 4)))
        n = self.n = self.ranks.n
        self.shared = gen.pick([s for s in range(1, n) if n % s == 0]) if gen.chance(0.4) else 0
        self.local, self.width = gen.integer(1, 3), gen.pick((1, 7, 32, 600))
        self.experts = self.local * (n - self.shared)
        self.k = gen.integer(1, min(self.experts, 4))
        self.dtype = gen.pick((F16, BF16))
        tokens = [gen.integer(0, 5) for _ in range(n)]
        self.most, self.global_bs = max(tokens), max(tokens) * n
        if gen.chance(0.3) or not self.most:
            tokens, self.most, self.global_bs = [self.most + 1] * n, self.most + 1, 0
        self.tokens = tokens
        self.ids = [np.array([gen.rng.permutation(self.experts)[:self.k] for _ in range(t)], np.int32)
                    .reshape(t, self.k) for t in tokens]
        self.v2, by_choice = gen.chance(0.5), gen.chance(0.5)
        self.masks = None
        if gen.chance(0.4):
            self.masks = [gen.rng.random((t, self.k) if by_choice else t) < 0.7 for t in tokens]
        self.active = [np.ones(i.shape, bool) if self.masks is None else
                       np.broadcast_to(self.masks[r] if by_choice else self.masks[r][:, None], i.shape)
                       for r, i in enumerate(self.ids)]

    def own(self, rank):
        """The experts of a rank; -1: the shared one."""
        return [-1] if rank < self.shared else range((rank - self.shared) * self.local,
                                                     (rank - self.shared + 1) * self.local)

    def rows(self, rank):
        """(expert, source, token, choice) of each row that a rank gets, and the number of rows behind each pair."""
        rows, ends = [], []
        for expert in self.own(rank):
            for source in range(self.n):
                if expert < 0:
                    rows += [(expert, source, t, 0) for t in np.flatnonzero(self.active[source].any(1))
                             if source % self.shared == rank]
                else:
                    rows += [(expert, source, t, c) for t, c in np.argwhere((self.ids[source] == expert) &
                                                                               self.active[source])]
                ends.append(len(rows))
        return rows, np.array(ends)

    def capacity(self, rank):
        return self.n // self.shared * self.most if rank < self.shared else \
            self.n * self.most * min(self.local, self.k)

    def group(self, rank):
        return self.ranks.name, self.n, rank, self.experts, b"", 1, 0, 0, 1, self.shared

    def case(self, gen):
        self.draw(gen)
        quantises, sums, weighted = gen.chance(0.4), gen.integer(0, 1), gen.chance(0.5)
        has_scales = quantises and gen.chance(0.5)
        n_scales = self.experts + (self.shared > 0)
        x = [whole(gen, self.dtype, (t, self.width), 4) for t in self.tokens]
        ids = [gen.out(I32, i.shape, i) for i in self.ids]
        weights = [gen.out(F32, i.shape, F32.round(2.0 ** gen.rng.integers(-2, 2, i.shape))) for i in self.ids]
        scales = [gen.keep(Tensor.of(F32, F32.round(gen.rng.uniform(0.5, 2, (n_scales, self.width)))))
                  if has_scales else None for _ in range(self.n)]
        spare = gen.integer(0, 2)
        outs = [(dense_out(gen, I8 if quantises else self.dtype, (self.capacity(r) + spare, self.width)),
                 dense_out(gen, F32, (self.capacity(r) + spare,)) if quantises or gen.chance(0.5) else None,
                 dense_out(gen, I32, ((self.capacity(r) + spare) * 128 if self.v2 else self.tokens[r] * self.k,)),
                 dense_out(gen, I64, (len(self.own(r)),)),
                 dense_out(gen, I32, (self.n * len(self.own(r)) + spare,)), None,
                 dense_out(gen, F32, (self.capacity(r) + spare,)) if gen.chance(0.7) else None)
                for r in range(self.n)]
        masks = [gen.tensor(BOOL, m.shape, m) for m in self.masks] if self.masks else [None] * self.n
        run_ranks(self.ranks, "aclnnMoeDistributeDispatch" + "V2" * self.v2, [
            (x[r], ids[r], scales[r], masks[r], weights[r] if weighted else None, *self.group(r), 2 if quantises else 0,
             self.global_bs, sums, *[gen.pick((None, b"", b"fullmesh"))] * self.v2, *outs[r]) for r in range(self.n)],
                  repeated=gen.chance(0.3))
        for r in range(self.n):
            self.check_dispatch(r, x, weights if weighted else None, scales[r], sums, quantises, *outs[r])
        if not quantises:
            self.combine(gen, x, ids, weights, masks, outs)

    def check_dispatch(self, r, x, weights, scales, sums, quantises, expanded, dynamic, idx, nums, counts, _, by):
        rows, ends = self.rows(r)
        counted = np.diff(ends[self.n - 1::self.n], prepend=0)
        ref.check_equal(counts.get()[:ends.size], ends, "epRecvCounts")
        ref.check_equal(nums.get(), np.cumsum(counted) if sums == 0 else counted, "expertTokenNums")
        flat = np.where(self.active[r], self.ids[r], -1).ravel()
        if self.v2:
            told = idx.get().reshape(-1, 128)[:len(rows)]
            ref.check_equal(told[:, :3], np.array([row[1:] for row in rows], np.int32).reshape(-1, 3), "assistInfo")
            self.assertFalse(told[:, 3:].any())
        else:
            ref.check_equal(idx.get(), np.array([np.count_nonzero(flat[:i] == e) if e >= 0 else 0
                                                 for i, e in enumerate(flat)], np.int32), "expandIdx")
        for i, (expert, source, t, c) in enumerate(rows):
            token = wide(x[source])[t]
            if by and weights:
                ref.check_equal(by.get()[i], 1 if expert < 0 else weights[source].get()[t, c], "expandScales")
            if not quantises:
                ref.check_equal(wide(expanded)[i], token, f"expandX[{i}]")
                continue
            if scales:
                token = (token * scales.get()[max(expert, 0) + (self.shared > 0 and expert >= 0)]).astype(np.float32)
            scale = np.abs(token).max() / np.float64(127)
            ref.check(dynamic.get()[i], LD(scale), F32, what="dynamicScales")
            off = np.abs(expanded.get()[i].astype(np.float64) - (token / scale if scale else 0))
            self.assertLessEqual(off.max(), 0.5 + 1e-4, f"expandX[{i}]")

    def combine(self, gen, x, ids, weights, masks, outs):
        calls, results = [], []
        factor = lambda e: e % 3 + 1
        for r in range(self.n):
            values = wide(outs[r][0])
            rows, _ = self.rows(r)
            for i, (expert, *_) in enumerate(rows):
                values[i] *= factor(expert)
            results.append(dense_out(gen, self.dtype, (self.tokens[r], self.width)))
            calls.append((self.again(gen, values), ids[r], outs[r][2], outs[r][4], weights[r], None, masks[r], None,
                          None, None, outs[r][6], *[None] * self.v2, *self.group(r), self.global_bs, 0, 0, 0,
                          *[b"hierarchy"] * self.v2, results[r]))
        run_ranks(self.ranks, "aclnnMoeDistributeCombine" + "V2" * self.v2, calls, repeated=gen.chance(0.3))
        for r in range(self.n):
            active = self.active[r]
            by = (weights[r].get().astype(np.float64) * factor(self.ids[r]) * active).sum(1, keepdims=True)
            shared = factor(-1) * active.any(1, keepdims=True) if self.shared else 0
            ref.check_equal(wide(results[r]), self.dtype.round(wide(x[r]) * (by + shared)), f"rank {r}: x")

    def again(self, gen, values):
        return gen.out(self.dtype, values.shape, values.astype(self.dtype.values))

    def test_all(self):
        each_case(self, "aclnnMoeDistributeDispatch", 2 * CASES, self.case)


class Refused(unittest.TestCase):
    def expect(self, code, words, op, *args):
        got, message = refused(op, *args)
        self.assertEqual(got, code, message)
        self.assertIn(words, message)

    def test_arguments(self):
        group = ranks_of(2).name
        x1, x2, out = (Tensor.empty(F16, s) for s in ((6, 8), (8, 4), (6, 4)))
        for code, words, args in (
                (NULLPTR, "group is NULL", (x1, x2, None, None, b"sum", 0, 1, out)),
                (NULLPTR, "reduceOp is NULL", (x1, x2, None, group, None, 0, 1, out)),
                (NULLPTR, "x2 is NULL", (x1, None, None, group, b"sum", 0, 1, out)),
                (INVALID, "group has 0 characters", (x1, x2, None, b"", b"sum", 0, 1, out)),
                (INVALID, "group has 128 characters", (x1, x2, None, b"g" * 128, b"sum", 0, 1, out)),
                (INVALID, "group: 'nobody' names no communicator", (x1, x2, None, b"nobody", b"sum", 0, 1, out)),
                (INVALID, 'reduceOp is "max", expected "sum"', (x1, x2, None, group, b"max", 0, 1, out)),
                (INVALID, "x2 has shape [7, 4], expected 8 rows",
                 (x1, Tensor.empty(F16, (7, 4)), None, group, b"sum", 0, 1, out)),
                (INVALID, "x1 has shape [8], expected 2 or 3 dimensions",
                 (Tensor.empty(F16, (8,)), x2, None, group, b"sum", 0, 1, out)),
                (INVALID, "output has shape [6, 5], expected [6, 4]",
                 (x1, x2, None, group, b"sum", 0, 1, Tensor.empty(F16, (6, 5)))),
                (INVALID, "output has dtype BF16, expected FLOAT16",
                 (x1, x2, None, group, b"sum", 0, 1, Tensor.empty(BF16, (6, 4)))),
                (INVALID, "output has gaps", (x1, x2, None, group, b"sum", 0, 1, Tensor(F16, (6, 4), (5, 1)))),
                (INVALID, "x2 has dtype BF16, expected FLOAT16",
                 (x1, Tensor.empty(BF16, (8, 4)), None, group, b"sum", 0, 1, out)),
                (INVALID, "x1 has dtype FLOAT,",
                 (Tensor.empty(F32, (6, 8)), Tensor.empty(F32, (8, 4)), None, group, b"sum", 0, 1,
                  Tensor.empty(F32, (6, 4)))),
                (INVALID, "bias has shape [3], expected [4]",
                 (x1, x2, Tensor.empty(F16, (3,)), group, b"sum", 0, 1, out))):
            with self.subTest(words):
                self.expect(code, words, "aclnnMatmulAllReduce", *args)
        self.expect(INVALID, "x1 has 5 rows, expected a multiple of 2", "aclnnMatmulReduceScatter",
                    Tensor.empty(F16, (5, 8)), x2, None, group, b"sum", 0, 1, Tensor.empty(F16, (2, 4)))
        self.expect(INVALID, "gatherIndex is 1, expected 0", "aclnnAllGatherMatmul", x1, x2, None, group, 1, 0, 1,
                    Tensor.empty(F16, (12, 4)), None)
        self.expect(INVALID, "gatherOut has shape [12, 7], expected [12, 8]", "aclnnAllGatherMatmul", x1, x2, None,
                    group, 0, 0, 1, Tensor.empty(F16, (12, 4)), Tensor.empty(F16, (12, 7)))
        self.expect(INVALID, "residual has shape [1, 5, 4], expected [.., 4] with 6 rows",
                    "aclnnInplaceMatmulAllReduceAddRmsNorm", x1, x2, None, Tensor.empty(F16, (1, 5, 4)),
                    Tensor.empty(F16, (4,)), 1e-6, group, b"sum", 0, 1, Tensor.empty(F16, (1, 6, 4)))

    def test_experts(self):
        ep, tp = grid()[0][0].name, grid()[1][0].name

        def gather(words, weight=(2, 6, 5), groups=(ep, tp), sizes=(2, 2), shard=0, act=0, out=(2, 8, 5), bias=None):
            self.expect(INVALID, words, "aclnnAlltoAllAllGatherBatchMatMul", Tensor.empty(F16, (4, 4, 3)),
                        Tensor.empty(F16, weight), bias and Tensor.empty(*bias), *groups, *sizes, shard, act,
                        Tensor.empty(F16, out), None, None)
        gather("weight has shape [2, 7, 5], expected [2, 6, 5]", weight=(2, 7, 5))
        gather("x has shape [4, 4, 3], expected [6, .., ..]", weight=(3, 6, 5))
        gather("tpWorldSize is 4, expected 2, the number of ranks of groupTp", sizes=(2, 4))
        gather("groupTp is that of groupEp", groups=(ep, ep))
        gather("xShardType is 2, expected 0 or 1", shard=2)
        gather("actType is 4, expected 0 to 3", act=4)
        gather("y1Out has shape [2, 8, 6], expected [2, 8, 5]", out=(2, 8, 6))
        gather("biasOptional has dtype FLOAT, expected FLOAT16", bias=(F32, (2, 5)))
        self.expect(INVALID, "out has gaps", "aclnnBatchMatMulReduceScatterAlltoAll", Tensor.empty(F16, (2, 8, 3)),
                    Tensor.empty(F16, (2, 3, 10)), None, ep, tp, 2, 2, 0, Tensor(F16, (4, 4, 5), (40, 5, 1)))

    def test_moe(self):
        group = ranks_of(2).name

        def dispatch(code, words, sizes=(2, 0, 4), tp=1, shared=0, quant=0, bs=0, rows=12, dynamic=None, mask=None):
            self.expect(code, words, "aclnnMoeDistributeDispatch", Tensor.empty(F16, (3, 8)), Tensor.empty(I32, (3, 2)),
                        None, mask, None, group, *sizes, b"", tp, 0, 0, 1, shared, quant, bs, 1,
                        Tensor.empty(I8 if quant else F16, (rows, 8)), dynamic, Tensor.empty(I32, (6,)),
                        Tensor.empty(I64, (2,)), Tensor.empty(I32, (4,)), None, None)
        dispatch(INVALID, "epWorldSize is 4, expected 2 to 2", sizes=(4, 0, 4))
        dispatch(INVALID, "epRankId is 1, expected 0 to 0", sizes=(2, 1, 4))
        dispatch(INVALID, "moeExpertNum is 5, expected a multiple of 2", sizes=(2, 0, 5))
        dispatch(INVALID, "tpWorldSize is 2, expected 0 to 1", tp=2)
        dispatch(INVALID, "sharedExpertRankNum is 2, expected 0 to 1", shared=2)
        dispatch(INVALID, "quantMode is 1, expected 0 or 2", quant=1)
        dispatch(NULLPTR, "dynamicScales is NULL", quant=2)
        dispatch(INVALID, "globalBs is 4, expected 0 or 2 times the most tokens of a rank, at least 3", bs=4)
        dispatch(INVALID, "expandX has shape [11, 8], expected [12, 8] or more rows", rows=11)
        dispatch(INVALID, "xActiveMask has dtype INT8, expected one of BOOL", mask=Tensor.empty(I8, (3,)))
        dispatch(INVALID, "xActiveMask has shape [2], expected [3]", mask=Tensor.empty(BOOL, (2,)))
        dispatch(INVALID, "xActiveMask has shape [3, 1], expected [3, 2]", mask=Tensor.empty(BOOL, (3, 1)))

        def combine(words, algorithm=None, shared=None):
            self.expect(INVALID, words, "aclnnMoeDistributeCombineV2", Tensor.empty(F16, (12, 8)),
                        Tensor.empty(I32, (3, 2)), Tensor.empty(I32, (12 * 128,)), Tensor.empty(I32, (4,)),
                        Tensor.empty(F32, (3, 2)), *[None] * 6, shared, group, 2, 0, 4, None, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                        algorithm, Tensor.empty(F16, (3, 8)))
        combine('commAlg is "ring", expected "", "fullmesh" or "hierarchy"', b"ring")
        combine("sharedExpertXOptional is a tensor, expected none", shared=Tensor.empty(F16, (3, 8)))

    def test_indices(self):
        """An expert that there is not fails when the task runs, on the rank that sees it; here all do."""
        ranks = ranks_of(2)
        calls = [(Tensor.of(F16, np.zeros((1, 4))), Tensor.of(I32, np.full((1, 1), 2)), None, None, None, ranks.name, 2,
                  r, 2, b"", 1, 0, 0, 1, 0, 0, 0, 1, Tensor.empty(F16, (2, 4)), None, Tensor.empty(I32, (1,)),
                  Tensor.empty(I64, (1,)), Tensor.empty(I32, (2,)), None, None) for r in range(2)]
        with self.assertRaisesRegex(AclError, r"expertIds\[0, 0\] of rank 0 is 2, expected 0 to 1"):
            run_ranks(ranks, "aclnnMoeDistributeDispatch", calls)


def tearDownModule():
    for ranks in (*map(ranks_of, (1, 2, 3, 4)), *grid()[0], *grid()[1]):
        ranks.close()
    ranks_of.cache_clear()
    grid.cache_clear()


if __name__ == "__main__":
    unittest.main()
