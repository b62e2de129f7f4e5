# SPDX-License-Identifier: Apache-2.0
"""Attention to selected keys: LightningIndexer, which selects them, and SparseFlashAttention."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Tensor, refused, run
from dtypes import BF16, F16, F32, I32, LD
from gen import each_case

CASES = 60
ALL = 2 ** 63 - 1


class Problem:
    """Sequences of queries and keys in all layouts. The reference sees them as lists of arrays, one for each."""

    def __init__(self, gen, dtype, draw):
        self.gen, self.dtype, self.draw = gen, dtype, draw
        self.b, self.kv, group = gen.integer(1, 3), gen.integer(1, 2), gen.integer(1, 3)
        self.n = self.kv * group
        self.q_layout, self.k_layout = gen.pick((b"BSND", b"TND", None)), gen.pick((b"BSND", b"TND", b"PA_BSND", None))
        self.page, most_q, most_k = gen.pick((4, 16)), gen.integer(1, 5), gen.integer(1, 80)
        self.nq = [gen.integer(0, most_q) for _ in range(self.b)]
        self.nk = [gen.integer(0, most_k) for _ in range(self.b)]
        self.most_q, self.most_k = max(max(self.nq), 1), max(max(self.nk), 1)
        self.q_lengths, self.k_lengths = (self.lengths(n, m, layout) for n, m, layout in (
            (self.nq, self.most_q, self.q_layout), (self.nk, self.most_k, self.k_layout)))
        columns = -(-self.most_k // self.page)
        self.pages = self.b * columns + gen.integer(0, 2)
        self.table = gen.rng.permutation(self.pages)[:self.b * columns].reshape(self.b, columns)

    def lengths(self, n, most, layout):
        if layout in (b"BSND", None) and self.gen.chance(0.3):
            n[:] = [most] * self.b                          # no lengths: all sequences are whole
            return None
        return self.gen.tensor(I32, (self.b,), np.array(np.cumsum(n) if layout == b"TND" else n, np.int32))

    def block_table(self):
        if self.k_layout != b"PA_BSND":
            return None
        return self.gen.tensor(I32, self.table.shape, self.table.astype(np.int32))

    def queries(self, heads, d, dtype=None, draw=None):
        """A tensor with a row of d (d None: a number) for each query and head, and the list of its sequences."""
        tail = (heads,) if d is None else (heads, d)
        shape = (sum(self.nq), *tail) if self.q_layout == b"TND" else (self.b, self.most_q, *tail)
        t = self.gen.drawn(dtype or self.dtype, shape, draw or self.draw)
        return t, self.of_queries(t.get())

    def of_queries(self, values):
        if self.q_layout == b"TND":
            return np.split(values, np.cumsum(self.nq)[:-1])
        return [values[i, :n] for i, n in enumerate(self.nq)]

    def keys(self, d):
        """The same for keys."""
        shape = {b"TND": (sum(self.nk),), b"PA_BSND": (self.pages, self.page)}.get(self.k_layout, (self.b, self.most_k))
        t = self.gen.drawn(self.dtype, (*shape, self.kv, d), self.draw)
        v = t.get()
        if self.k_layout == b"TND":
            return t, np.split(v, np.cumsum(self.nk)[:-1])
        if self.k_layout == b"PA_BSND":
            return t, [v[row].reshape(-1, self.kv, d)[:n] for row, n in zip(self.table, self.nk)]
        return t, [v[i, :n] for i, n in enumerate(self.nk)]

    def seen(self, sequence, query, mode):
        """How many keys a query sees."""
        nk = self.nk[sequence]
        return nk if mode == 0 else min(max(nk - self.nq[sequence] + query + 1, 0), nk)


class Indexer(unittest.TestCase):
    def test_exact(self):
        """Small integers, whose scores are exact, and often equal: the first key is first."""
        def body(gen):
            dtype = gen.pick((F16, BF16))
            p = Problem(gen, dtype, lambda s: dtype.round(gen.rng.integers(-2, 3, s)))
            if p.q_layout == b"TND" and not sum(p.nq):
                return
            d, count = gen.pick((4, 16, 128)), gen.pick((1, 5, 30, 100))
            mode, values = gen.pick((0, 3)), gen.chance(0.5)
            query, q = p.queries(p.n, d)
            key, k = p.keys(d)
            weights, w = p.queries(p.n, None, gen.pick((dtype, F32)), lambda s: F16.round(gen.rng.integers(-3, 4, s)))
            shape = (*query.shape[:-2], p.kv, count)
            indices, scores = gen.out(I32, shape), gen.out(dtype, shape)
            run("aclnnLightningIndexer", query, key, weights, p.q_lengths, p.k_lengths, p.block_table(), p.q_layout,
                p.k_layout, count, mode, ALL, ALL, values, indices, scores if values or gen.chance(0.5) else None)
            got, found = p.of_queries(indices.get()), p.of_queries(scores.get())
            for b in range(p.b):
                for i in range(p.nq[b]):
                    n = p.seen(b, i, mode)
                    for h in range(p.kv):
                        heads = slice(h * p.n // p.kv, (h + 1) * p.n // p.kv)
                        dots = np.maximum(q[b][i, heads].astype(np.float64) @ k[b][:n, h].astype(np.float64).T, 0)
                        score = (dots * w[b][i, heads, None]).sum(0)
                        order = np.argsort(-score, kind="stable")[:count]
                        expected = np.concatenate([order, -np.ones(count - len(order), int)])
                        np.testing.assert_array_equal(got[b][i, h], expected)
                        if values:
                            exact = np.concatenate([score[order], np.full(count - len(order), -np.inf)])
                            ref.check(found[b][i, h], exact, dtype, F32, ulps=0)
        each_case(self, "aclnnLightningIndexer", CASES, body)

    def test_rows_of_padding(self):
        indices = Tensor.empty(I32, (1, 3, 1, 2))
        one = Tensor.of(F16, np.ones((1, 3, 1, 4), np.float16))
        run("aclnnLightningIndexer", one, one, Tensor.of(F16, np.ones((1, 3, 1), np.float16)), Tensor.of(I32, [1]),
            Tensor.of(I32, [3]), None, None, None, 2, 0, ALL, ALL, False, indices, None)
        self.assertEqual(indices.get().reshape(3, 2).tolist(), [[0, 1], [-1, -1], [-1, -1]])

    def test_refused(self):
        e = lambda *s, t=F16: Tensor.empty(t, s)  # noqa: E731
        usual = {"q": e(2, 3, 4, 8), "k": e(2, 9, 1, 8), "w": e(2, 3, 4), "nq": None, "nk": None, "table": None,
                 "ql": b"BSND", "kl": b"BSND", "count": 5, "mode": 3, "before": ALL, "after": ALL, "values": False,
                 "i": e(2, 3, 1, 5, t=I32), "v": None}
        for words, change in (
                ("query has dtype FLOAT", {"q": e(2, 3, 4, 8, t=F32)}),
                ("key has shape [2, 9, 3, 8]", {"k": e(2, 9, 3, 8)}),
                ("weights has shape [2, 3, 1]", {"w": e(2, 3, 1)}), ('layoutQueryOptional is "BNSD"', {"ql": b"BNSD"}),
                ("sparseCount is 0", {"count": 0}), ("sparseMode is 4", {"mode": 4}), ("preTokens is 7", {"before": 7}),
                ("nextTokens is 7", {"after": 7}), ("blockTableOptional is NULL", {"kl": b"PA_BSND"}),
                ("key has shape [3, 9, 1, 8], expected 2 sequences", {"k": e(3, 9, 1, 8)}),
                ("sparseValuesOut is NULL", {"values": True}),
                ("sparseIndicesOut has shape [2, 3, 1, 4]", {"i": e(2, 3, 1, 4, t=I32)}),
                ("actualSeqLengthsQueryOptional is not a vector", {"q": e(6, 4, 8), "w": e(6, 4), "ql": b"TND"}),
                ("actualSeqLengthsKeyOptional is NULL", {"k": e(18, 1, 8), "kl": b"TND"})):
            code, message = refused("aclnnLightningIndexer", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        pages = {"k": e(4, 16, 1, 8), "kl": b"PA_BSND", "nk": Tensor.of(I32, [9, 20])}
        for words, change in (("length", {"nk": Tensor.of(I32, [9, 10])}), ("length", {"nk": Tensor.of(I32, [-1, 3])}),
                              ("pages", {**pages, "table": Tensor.of(I32, [[0, 9], [1, 4]])})):
            with self.assertRaisesRegex(AclError, words):
                run("aclnnLightningIndexer", *{**usual, **change}.values())


class Sparse(unittest.TestCase):
    def test_attention(self):
        def body(gen):
            dtype = gen.pick((F16, BF16))
            p = Problem(gen, dtype, lambda s: dtype.round(gen.rng.standard_normal(s)))
            if p.q_layout == b"TND" and not sum(p.nq):
                return
            d, rot, mode, statistics = gen.pick((8, 32, 64)), gen.pick((4, 16)), gen.pick((0, 3)), gen.chance(0.4)
            block = gen.pick((1, 1, 4))
            count = gen.integer(0, -(-p.most_k // block))
            (query, q), (turned, qr) = p.queries(p.n, d), p.queries(p.n, rot)
            (key, k), (value, v), (key_turned, kr) = p.keys(d), p.keys(d), p.keys(rot)
            blocks = np.full((*query.shape[:-2], p.kv, count), -1, np.int32)
            for b, rows in enumerate(p.of_queries(blocks)):  # views
                for row in rows.reshape(len(rows) * p.kv, count):
                    some = gen.rng.permutation(-(-p.nk[b] // block))[:gen.integer(0, count)]
                    row[:len(some)] = some
            out = gen.out(dtype, query.shape)
            shape = (p.kv, len(blocks), p.n // p.kv) if p.q_layout == b"TND" else (p.b, p.kv, p.most_q, p.n // p.kv)
            softmax = [gen.out(F32, shape) if statistics else None for _ in range(2)]
            run("aclnnSparseFlashAttention", query, key, value, gen.tensor(I32, blocks.shape, blocks), p.block_table(),
                p.q_lengths, p.k_lengths, turned, key_turned, 0.3, block, p.q_layout, p.k_layout, mode, ALL, ALL, 2,
                statistics, out, *softmax)
            got, chosen = p.of_queries(out.get()), p.of_queries(blocks)
            stats = [p.of_queries(np.moveaxis(t.get(), -3, -2)) if statistics else None for t in softmax]
            for b in range(p.b):
                for i in range(p.nq[b]):
                    for h in range(p.kv):
                        heads = slice(h * p.n // p.kv, (h + 1) * p.n // p.kv)
                        at = np.concatenate([np.arange(x * block, (x + 1) * block) for x in chosen[b][i, h] if x >= 0]
                                            or [np.zeros(0, int)])
                        at = at[at < p.seen(b, i, mode)]
                        s = sum(x[b][i, heads].astype(LD) @ y[b][at, h].astype(LD).T for x, y in ((q, k), (qr, kr)))
                        s = s * LD(0.3)
                        top = s.max(-1, keepdims=True, initial=-np.inf)
                        e = np.exp(s - np.where(np.isinf(top), 0, top))
                        total = e.sum(-1, keepdims=True)
                        weight = e / np.where(total == 0, 1, total)
                        values = v[b][at, h].astype(LD)
                        ref.check(got[b][i, heads], weight @ values, dtype, F32, ulps=1,
                                  slack=2e-5 * (weight @ np.abs(values)), what="out")
                        if statistics:
                            ref.check(stats[0][b][i, h], top[:, 0], F32, F32, ulps=1, slack=1e-5, what="maxima")
                            ref.check(stats[1][b][i, h], total[:, 0], F32, F32, ulps=1, slack=2e-5 * total[:, 0],
                                      what="sums")
        each_case(self, "aclnnSparseFlashAttention", CASES, body)

    def test_refused(self):
        e = lambda *s, t=F16: Tensor.empty(t, s)  # noqa: E731
        usual = {"q": e(2, 3, 4, 8), "k": e(2, 9, 1, 8), "v": e(2, 9, 1, 8),
                 "i": Tensor.of(I32, np.zeros((2, 3, 1, 5), int)), "table": None, "nq": None, "nk": None,
                 "qr": e(2, 3, 4, 2), "kr": e(2, 9, 1, 2), "scale": 1.0,
                 "block": 1, "ql": b"BSND", "kl": b"BSND", "mode": 3, "before": ALL, "after": ALL, "kind": 2,
                 "lse": False, "out": e(2, 3, 4, 8), "top": None, "sum": None}
        for words, change in (
                ("value has shape [2, 8, 1, 8]", {"v": e(2, 8, 1, 8)}), ("queryRope is NULL", {"qr": None}),
                ("keyRope is NULL", {"kr": None}), ("keyRope has shape [2, 9, 1, 3]", {"kr": e(2, 9, 1, 3)}),
                ("sparseIndices has dtype FLOAT16", {"i": e(2, 3, 1, 5)}), ("attentionMode is 1", {"kind": 1}),
                ("sparseBlockSize is 0", {"block": 0}), ("softmaxMaxOut is NULL", {"lse": True}),
                ("attentionOutOut has shape [2, 3, 4, 9]", {"out": e(2, 3, 4, 9)})):
            code, message = refused("aclnnSparseFlashAttention", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        with self.assertRaisesRegex(AclError, "sparseIndices"):
            run("aclnnSparseFlashAttention", *{**usual, "i": Tensor.of(I32, np.full((2, 3, 1, 5), 9))}.values())


if __name__ == "__main__":
    unittest.main()
