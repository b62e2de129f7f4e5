# SPDX-License-Identifier: Apache-2.0
"""Attention against a reference in double precision with explicit masks: every layout, sparse mode and shape of bias
and mask, heads that share keys, and dropout. The reference gradients are a closed formula, which is itself checked
against finite differences."""
import unittest

import numpy as np

from acl import INVALID, NULLPTR, AclError, Ints, Tensor, TensorList, bytes_of_workspace, refused, run
from dtypes import BF16, BOOL, F16, F32, I32, I64, U8
from gen import each_case, each_forced

CASES = 40
TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.5e-2}
SOFTMAX_TOLERANCE = {"f32": 2e-5, "f16": 2e-4, "bf16": 2e-5}       # for maxima and sums; GEMMs split float16
FAR = 2147483647                                                   # preTokens or nextTokens without a limit


# ---- the reference, on [B, N, S, D] in double

def visible(nq, nk, mode, before, after, prefix=0):
    """Returns [nq, nk]: which keys a query sees in one of CANN's sparse modes."""
    i, j = np.arange(nq)[:, None], np.arange(nk)[None, :]
    corner = nk - nq
    if mode == 0:
        return (j >= i - before) & (j <= i + after)
    if mode == 2:
        return j <= i
    if mode in (3, 5, 6):
        return (j <= i + corner) | (j < prefix if mode != 3 else False)
    if mode == 4:
        return (j >= i + corner - before) & (j <= i + corner + after)
    return np.ones((nq, nk), bool)


def attention(q, k, v, scale, seen, bias=None, bias_inside=False, drop=None):
    """Returns out, maxima, sums, and the probabilities before and after dropout. Rows that see no key give 0."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.swapaxes(-1, -2)
    if bias is not None and bias_inside:
        s = s + bias
    s = s * scale
    if bias is not None and not bias_inside:
        s = s + bias
    s = np.where(np.broadcast_to(seen, s.shape), s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(np.isneginf(s), 0, np.exp(s - np.where(np.isneginf(top), 0, top)))
    total = e.sum(-1, keepdims=True)
    p = e / np.where(total == 0, 1, total)
    dropped = p if drop is None else p * drop
    return dropped @ v, top, total, p, dropped


def gradient(q, k, v, dy, scale, p, dropped, drop=None, magnitude=False):
    """Returns dq, dk, dv. With `magnitude`, every term is replaced by its absolute value: rounding errors are relative
    to these sums."""
    group = q.shape[1] // k.shape[1]
    big_k, big_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    dp = dy @ big_v.swapaxes(-1, -2) * (1 if drop is None else drop)
    delta = (dp * p).sum(-1, keepdims=True)
    ds = p * (np.abs(dp) + np.abs(delta)) if magnitude else p * (dp - delta)
    if magnitude:
        big_k, q, dy, scale = np.abs(big_k), np.abs(q), np.abs(dy), abs(scale)

    def shared(x):
        return x.reshape(x.shape[0], k.shape[1], group, *x.shape[2:]).sum(2)

    return scale * ds @ big_k, shared(scale * ds.swapaxes(-1, -2) @ q), shared(dropped.swapaxes(-1, -2) @ dy)


def with_sink(sink, out, top, total, p, dropped):
    """What `attention` returns, with a further logit for each head that has no value; and its probabilities."""
    at = sink.astype(np.float64)[:, None, None]
    most = np.maximum(top, at)
    finite = np.where(np.isneginf(most), 0, most)
    alone, kept = np.exp(at - finite), total * np.exp(top - finite)
    sums = kept + alone
    safe = np.where(sums == 0, 1, sums)
    return out * kept / safe, most, sums, p * kept / safe, dropped * kept / safe, alone / safe


# ---- layouts

def to_layout(x, layout):
    b, n, s, d = x.shape
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(0, 2, 1, 3)
    if layout == "BSH":
        return x.transpose(0, 2, 1, 3).reshape(b, s, n * d)
    if layout == "SBH":
        return x.transpose(2, 0, 1, 3).reshape(s, b, n * d)
    assert layout == "TND"
    return x[0].transpose(1, 0, 2)


def from_layout(x, layout, n):
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(0, 2, 1, 3)
    if layout == "TND":
        return x.transpose(1, 0, 2)[None]
    x = x if layout == "BSH" else x.transpose(1, 0, 2)
    b, s, h = x.shape
    return x.reshape(b, s, n, h // n).transpose(0, 2, 1, 3)


def close(got, exact, dtype, what, scale=None):
    """Compares relative to the largest magnitude in a row (or to scale), as rounding errors of sums are."""
    got, exact = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    assert got.shape == exact.shape, f"{what}: shape {got.shape}, expected {exact.shape}"
    if not got.size:
        return
    size = np.abs(exact).max(-1, keepdims=True) if scale is None else scale
    bad = ~(np.abs(got - exact) <= TOLERANCE[str(dtype)] * np.maximum(size, 1e-2))
    if bad.any():
        i = tuple(np.argwhere(bad)[0])
        raise AssertionError(f"{what}{list(map(int, i))} is {got[i]}, expected {exact[i]}; "
                             f"{bad.sum()} of {bad.size} wrong")


def text(layout):
    return layout.encode()


class Case:
    """A random problem, with all the arguments that the operators for training take."""

    def __init__(self, gen, layout=None, dtype=None, big=False):
        self.dtype = dtype or gen.pick((F32, F32, F16, BF16))
        self.layout = layout or gen.pick(("BNSD", "BSND", "BSH", "SBH"))
        self.b, self.kv = gen.integer(1, 3), gen.integer(1, 3)
        self.n = self.kv * gen.integer(1, 3)
        lengths = (600, 1100) if big else (1, 2, 7, 33, 70, 129, 200)
        self.sq, self.sk = gen.pick(lengths), gen.pick(lengths)
        self.d = gen.pick((1, 4, 16, 24, 40, 64, 128))
        self.dv = self.d if self.layout in ("SBH", "BSH") or gen.chance(0.7) else gen.integer(1, self.d + 9)
        self.scale = gen.pick((self.d ** -0.5, 0.3, 1.0 / self.d, -0.2))
        draw = lambda *shape: self.dtype.round(gen.rng.standard_normal(shape)).astype(np.float64)  # noqa: E731
        self.q, self.k = draw(self.b, self.n, self.sq, self.d), draw(self.b, self.kv, self.sk, self.d)
        self.v = draw(self.b, self.kv, self.sk, self.dv)
        self.dy = draw(self.b, self.n, self.sq, self.dv)
        self.mode, self.before, self.after, self.prefix = 0, FAR, FAR, None
        self.mask = self.bias = self.drop = self.bits = None
        self.seen = np.ones((1, 1, self.sq, self.sk), bool)
        self.keep = 1.0
        self.bias_type, self.bias_shape = 1, None

    def add_mask(self, gen):
        self.mode = gen.pick((0, 0, 1, 2, 3, 4, 5, 6))
        if self.mode in (0, 4):
            some = gen.integer(0, 99), gen.integer(0, 99)
            self.before, self.after = gen.pick(((FAR, FAR), (FAR, 0), (5, 9), some, (20, -3)))
        if self.mode in (5, 6):
            self.prefix = [gen.integer(max(0, self.sk - self.sq), self.sk) for _ in range(self.b)]
        band = np.stack([visible(self.sq, self.sk, self.mode, self.before, self.after, n)
                         for n in (self.prefix or [0] * self.b)])[:, None]
        self.seen = self.seen & band
        if self.mode in (2, 3, 4, 6):
            shape = (3072 if self.mode == 6 else 2048, 2048)
            mask = np.broadcast_to(np.False_, shape)
        else:
            whole = (self.b, self.n, self.sq, self.sk)
            shape = gen.pick((whole[2:], (self.b, 1, *whole[2:]), whole, (1, 1, *whole[2:]), (1, *whole[1:])))
            mask = gen.rng.random(shape) < gen.pick((0.0, 0.3, 0.97))
            self.seen = self.seen & ~mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        dtype = gen.pick((BOOL, U8))
        values = mask.astype(dtype.values)
        if self.mode in (2, 3, 4, 6):
            self.mask = Tensor(dtype, shape, (0,) * len(shape)).set(values)
        else:
            self.mask = gen.out(dtype, shape, values)

    def add_bias(self, gen):
        whole = (self.b, self.n, self.sq, self.sk)
        self.bias_shape = gen.pick((whole, (1, *whole[1:]), (self.b, self.n, 1, self.sk)))
        self.bias_type = gen.pick((0, 1))
        self.bias = gen.drawn(self.dtype, self.bias_shape, lambda s: self.dtype.round(gen.rng.standard_normal(s)))

    def add_dropout(self, gen):
        self.keep = gen.pick((0.9, 0.5))
        n = self.b * self.n * self.sq * self.sk
        kept = gen.rng.random(n) < self.keep
        self.bits = Tensor.of(U8, np.packbits(kept, bitorder="little"))
        self.drop = kept.reshape(self.b, self.n, self.sq, self.sk) / self.keep

    def reference(self):
        bias = None if self.bias is None else self.bias.get().astype(np.float64)
        return attention(self.q, self.k, self.v, self.scale, self.seen, bias, self.bias_type == 1, self.drop)

    def tensor(self, gen, x):
        return gen.out(self.dtype, to_layout(x, self.layout).shape, to_layout(x, self.layout).astype(np.float32))

    def softmax_out(self, gen):
        return gen.out(F32, (self.b, self.n, self.sq, 8))

    def prefixes(self):
        return None if self.prefix is None else Ints(*self.prefix)

    def version(self, gen):
        return self.bias is not None and self.bias_type == 0 or gen.chance(0.3)

    def run(self, gen):
        """Runs the forward operator; returns out, maxima and sums."""
        q, k, v = (self.tensor(gen, x) for x in (self.q, self.k, self.v))
        out = gen.out(self.dtype, to_layout(np.zeros(self.dy.shape), self.layout).shape)
        top, total = self.softmax_out(gen), self.softmax_out(gen)
        empty = gen.pick((None, Tensor.empty(F32, (0,))))
        second = self.version(gen)
        run("aclnnFlashAttentionScore" + "V2" * second, q, k, v, self.bias, self.bits or empty, None,
            self.mask or empty, self.prefixes(), *([None, None] if second else []), self.scale, self.keep, self.before,
            self.after, self.n, text(self.layout), 0, self.mode, *([self.bias_type] if second else []),
            top, total, empty, out)
        return out, top, total

    def check(self, gen):
        out, top, total = self.run(gen)
        exact, exact_top, exact_total, _, _ = self.reference()
        close(from_layout(out.get(), self.layout, self.n), exact, self.dtype, "out", np.abs(self.v).max())
        assert np.all(top.get() == top.get()[..., :1]) and np.all(total.get() == total.get()[..., :1])
        finite = exact_total[..., 0] > 0
        size = 1 + np.abs(exact_top[..., 0])
        slack = SOFTMAX_TOLERANCE[str(self.dtype)]
        assert np.all(np.abs(top.get()[..., 0][finite] - exact_top[..., 0][finite]) <= slack * size[finite]), "maxima"
        error = np.abs(total.get()[..., 0] / np.where(finite, exact_total[..., 0], 1) - finite)
        assert np.all(error <= 2 * slack * np.where(finite, size, 1)), f"sums {error.max()}"

    def gradients(self, gen, exact=False):
        """Runs the gradient operator. Returns for each of dq, dk and dv the tensor, the expected values, and the
        magnitude of the terms that were summed. With `exact`, the operator gets exact maxima and sums."""
        result, *softmax, p, dropped = self.reference()
        if exact:
            out = self.tensor(gen, self.dtype.round(result))
            top, total = (Tensor.of(F32, np.repeat(x, 8, -1)) for x in softmax)
        else:
            out, top, total = self.run(gen)
        q, k, v, dy = (self.tensor(gen, x) for x in (self.q, self.k, self.v, self.dy))
        grads = [gen.out(self.dtype, t.shape) for t in (q, k, v)]
        second = self.version(gen)
        run("aclnnFlashAttentionScoreGrad" + "V2" * second, q, k, v, dy, self.bias, self.bits, None, self.mask,
            top, total, None, out, self.prefixes(), *([None, None] if second else []), self.scale, self.keep,
            self.before, self.after, self.n, text(self.layout), 0, self.mode,
            *([self.bias_type] if second else []), *grads, None)
        sizes = gradient(self.q, self.k, self.v, self.dy, self.scale, p, dropped, self.drop, True)
        return zip(grads, gradient(self.q, self.k, self.v, self.dy, self.scale, p, dropped, self.drop), sizes)

    def check_gradient(self, gen):
        for (t, e, size), name, heads in zip(self.gradients(gen), ("dq", "dk", "dv"), (self.n, self.kv, self.kv)):
            close(from_layout(t.get(), self.layout, heads), e, self.dtype, name, np.abs(size).max(initial=0))


class Implementations(unittest.TestCase):
    def test_forced(self):
        each_forced(self, [f"attention={name}" for name in ("decode", "blocks", "reference")],
                    ["test_attention.Training.test_plain", "test_attention.Training.test_terms",
                     "test_attention.Flat.test_all", "test_attention.Inference"])


class Training(unittest.TestCase):
    def test_plain(self):
        each_case(self, "plain", CASES, lambda gen: Case(gen).check(gen))

    def test_terms(self):
        def body(gen):
            c = Case(gen)
            if gen.chance(0.7):
                c.add_mask(gen)
            if gen.chance(0.5):
                c.add_bias(gen)
            if gen.chance(0.3):
                c.add_dropout(gen)
            c.check(gen)
        each_case(self, "masks, bias, dropout", 2 * CASES, body)

    def test_gradient(self):
        def body(gen):
            c = Case(gen)
            if gen.chance(0.6):
                c.add_mask(gen)
            if gen.chance(0.4):
                c.add_bias(gen)
            if gen.chance(0.4):
                c.add_dropout(gen)
            c.check_gradient(gen)
        each_case(self, "gradient", CASES, body)

    def test_large(self):
        """Several blocks of keys and several chunks of rows."""
        def body(gen):
            c = Case(gen, big=True)
            c.b, c.kv, c.n = 1, 1, 2
            c.q, c.k, c.v, c.dy = c.q[:1, :1].repeat(2, 1), c.k[:1, :1], c.v[:1, :1], c.dy[:1, :1].repeat(2, 1)
            if gen.chance(0.5):
                c.add_mask(gen)
            c.check_gradient(gen) if gen.chance(0.4) else c.check(gen)
        each_case(self, "large", 8, body)

    def test_gradient_exact_up_to_its_rounding(self):
        """Where the keys make one block, the gradients do not contain the 16-bit rounding of the forward result."""
        def body(gen):
            c = Case(gen, "BNSD", F16)
            if gen.chance(0.5):
                c.add_mask(gen)
            if gen.chance(0.5):
                c.add_dropout(gen)
            *_, p, dropped = c.reference()
            # the terms of the products dO V^T, which may cancel out; the float rounding errors are relative to these
            terms = gradient(*map(np.abs, (c.q, c.k, c.v, c.dy)), c.scale, p, dropped, c.drop, True)
            for (t, exact, size), of_floats in zip(c.gradients(gen, exact=True), terms):
                bound = 2.0**-11 * np.abs(exact) + 2.0**-25 + 5e-5 * size + 2.0**-22 * of_floats
                assert np.all(np.abs(t.get() - exact) <= bound)
        each_case(self, "gradient, exact", CASES, body)

    def test_gradient_of_one_key(self):
        """Where a query sees a single key, the gradients of both are 0, however large their dot product."""
        def body(gen):
            c = Case(gen, "BNSD", F32)
            c.q, c.k = 16 * c.q, 16 * c.k
            c.sk, c.k, c.v = 1, c.k[:, :, :1], c.v[:, :, :1]
            c.seen = np.ones((1, 1, c.sq, 1), bool)
            (dq, zero, _), (dk, _, _), _ = c.gradients(gen, exact=True)
            terms = np.abs(c.dy).sum(-1).max() * np.abs(c.v).max() * abs(c.scale)
            assert np.abs(zero).max() < 1e-9 * terms * np.abs(c.k).max()
            assert np.abs(dq.get()).max() <= 1e-6 * terms * np.abs(c.k).max()
            assert np.abs(dk.get()).max() <= 1e-6 * terms * np.abs(c.q).sum(2).max() * c.n
        each_case(self, "gradient of one key", 12, body)

    def test_reference_gradient(self):
        """Checks the closed formula against finite differences."""
        rng = np.random.default_rng(3)
        q, k, v, dy = (rng.standard_normal((1, n, 4, 3)) for n in (2, 1, 1, 2))
        drop = rng.random((1, 2, 4, 4)) * 2
        seen = visible(4, 4, 2, 0, 0)
        _, _, _, p, dropped = attention(q, k, v, 0.7, seen, None, False, drop)
        found = gradient(q, k, v, dy, 0.7, p, dropped, drop)
        for x, g in zip((q, k, v), found):
            for i in np.ndindex(x.shape):
                old, h = x[i], 1e-5
                x[i] = old + h
                up = (attention(q, k, v, 0.7, seen, None, False, drop)[0] * dy).sum()
                x[i] = old - h
                down = (attention(q, k, v, 0.7, seen, None, False, drop)[0] * dy).sum()
                x[i] = old
                assert abs((up - down) / (2 * h) - g[i]) < 1e-8, (i, g[i])

    def test_causal_as_frameworks_call_it(self):
        """A mask pattern of 2048 x 2048, BNSD views of one projection, and unused outputs without elements."""
        def body(gen):
            b, n, s, d = 2, 4, gen.integer(1, 90), 32
            dtype = gen.pick((F32, BF16))
            values = dtype.round(gen.rng.standard_normal((b, s, 3, n, d)))
            packed = Tensor.of(dtype, values)
            views = []
            for i in range(3):
                t = Tensor(dtype, (b, n, s, d), (s * 3 * n * d, d, 3 * n * d, 1), i * n * d, packed.n_storage)
                t.block = packed.block
                views.append(t)
            mask = Tensor.of(BOOL, np.triu(np.ones((2048, 2048), bool), 1))
            top, total = Tensor.empty(F32, (b, n, s, 8)), Tensor.empty(F32, (b, n, s, 8))
            out, none = Tensor.empty(dtype, (b, n, s, d)), Tensor.empty(dtype, (0,))
            run("aclnnFlashAttentionScore", *views, None, None, None, mask, None, d ** -0.5, 1.0, FAR, FAR, n,
                text("BNSD"), 0, 2, top, total, none, out)
            q, k, v = (values[:, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(3))
            close(out.get(), attention(q, k, v, d ** -0.5, visible(s, s, 2, 0, 0))[0], dtype, "out", 3)
        each_case(self, "causal by pattern", 4, body)

    def test_alibi(self):
        """ALiBi: slopes per head (pseType 2 and 3), and a bias of which only the last 1024 rows are given."""
        def body(gen):
            c = Case(gen, "BNSD", F32)
            kind = gen.pick((2, 3))
            slopes = gen.rng.random((c.b, c.n)).astype(np.float32) / 8
            per_batch = gen.chance(0.5)
            c.bias = gen.out(F32, (c.b, c.n) if per_batch else (c.n,), slopes if per_batch else slopes[0])
            start = gen.pick((None, 5))
            distance = np.abs(np.arange(c.sq)[:, None] - np.arange(c.sk) + (start or 0))
            distance = np.sqrt(distance) if kind == 3 else distance
            table = -(slopes if per_batch else slopes[:1])[:, :, None, None] * distance
            exact = attention(c.q, c.k, c.v, c.scale, c.seen, table)[0]
            q, k, v = (c.tensor(gen, x) for x in (c.q, c.k, c.v))
            out = gen.out(F32, exact.shape)
            run("aclnnFlashAttentionScoreV2", q, k, v, c.bias, None, None, None, None, start and Ints(start), None,
                c.scale, 1.0, FAR, FAR, c.n, text("BNSD"), 0, 0, kind,
                c.softmax_out(gen), c.softmax_out(gen), None, out)
            close(out.get(), exact, F32, "out", 4)
        each_case(self, "slopes", 12, body)

        def cut(gen):
            c = Case(gen, "BNSD", F32)
            c.b = c.n = c.kv = 1
            s, d = 1100, 8
            q, k, v = (gen.rng.standard_normal((1, 1, s, d)).astype(np.float32) for _ in range(3))
            table = (-0.01 * np.abs(np.arange(s)[:, None] - np.arange(s))).astype(np.float32)[None, None]
            mask = Tensor.of(BOOL, np.zeros((2048, 2048), bool))
            exact = attention(*(x.astype(np.float64) for x in (q, k, v)), 0.3, visible(s, s, 3, 0, 0), table, True)[0]
            out, top, total = (Tensor.empty(F32, (1, 1, s, x)) for x in (d, 8, 8))
            run("aclnnFlashAttentionScore", *(Tensor.of(F32, x) for x in (q, k, v)),
                Tensor.of(F32, table[:, :, -1024:]), None, None, mask, None, 0.3, 1.0, FAR, FAR, 1,
                text("BNSD"), 0, 3, top, total, None, out)
            close(out.get(), exact, F32, "out", 4)
        each_case(self, "last rows of ALiBi", 1, cut)

    def test_empty(self):
        """No sequences, no queries or no keys. The results of queries without keys are 0."""
        def body(gen):
            c = Case(gen)
            which = gen.pick(("b", "sq", "sk", "sq sk"))
            c.b, c.sq, c.sk = (0 if x in which.split() else n for x, n in (("b", c.b), ("sq", c.sq), ("sk", c.sk)))
            c.q, c.dy = (np.zeros((c.b, c.n, c.sq, x)) + 0.5 for x in (c.d, c.dv))
            c.k, c.v = (np.zeros((c.b, c.kv, c.sk, x)) + 0.5 for x in (c.d, c.dv))
            c.seen = np.ones((1, 1, c.sq, c.sk), bool)
            c.check_gradient(gen)
        each_case(self, "empty", 12, body)

    def test_far_from_one(self):
        """Floats that lose bits or overflow when they are split into bfloat16. The results scale with them linearly."""
        def body(gen):
            c, far = Case(gen, "BNSD", F32), gen.pick((1e-36, 1e-30, 1e36))
            c.v, c.dy = c.v * far, c.dy / (far if far > 1 else 1)
            c.v, c.dy = (x.astype(np.float32).astype(np.float64) for x in (c.v, c.dy))
            exact, _, _, p, dropped = c.reference()
            out, top, total = c.run(gen)
            close(out.get() / np.float64(far), exact / far, F32, "out", np.abs(c.v).max() / far)
            if far < 1:                                     # dQ and dK are as small as V is; dV is not
                for (t, e, size), by in zip(c.gradients(gen), (far, far, 1)):
                    close(t.get() / np.float64(by), e / by, F32, "gradient", np.abs(size).max(initial=0) / by)
        each_case(self, "far from one", 24, body)

    def test_special_values(self):
        """NaN in a query stays in its row of the result. A bias of -inf hides some keys of a query, or all."""
        q, k, v = (np.random.default_rng(5).standard_normal((1, 1, 5, 16)).astype(np.float32) for _ in range(3))
        q[0, 0, 1, 3] = np.nan
        bias = np.zeros((1, 1, 5, 5), np.float32)
        bias[0, 0, 2] = -np.inf
        bias[0, 0, 3, :4] = -np.inf
        out, top, total = Tensor.empty(F32, q.shape), *(Tensor.empty(F32, (1, 1, 5, 8)) for _ in range(2))
        run("aclnnFlashAttentionScore", *(Tensor.of(F32, x) for x in (q, k, v, bias)), None, None, None, None,
            0.25, 1.0, FAR, FAR, 1, text("BNSD"), 0, 0, top, total, None, out)
        got = out.get()[0, 0]
        assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2, 3, 4]]).all()
        assert (got[2] == 0).all() and np.allclose(got[3], v[0, 0, 4], rtol=1e-6)


class Flat(unittest.TestCase):
    """Sequences that are concatenated (layout TND)."""

    def case(self, gen, with_gradient, version=""):
        """V2 also takes a type of bias, V3 separate rotary parts, V4 the layout of the softmax's results, V5 all of
        them, and sinks."""
        second, fourth, fifth = version in ("V2", "V3", "V5"), version in ("V4", "V5"), version == "V5"
        dtype = gen.pick((F32, F16, BF16))
        n_seq, kv, d = gen.integer(1, 4), gen.integer(1, 2), gen.pick((8, 32, 64))
        n = kv * gen.integer(1, 2)
        nq = [gen.pick((0, 1, 5, 40, 70)) for _ in range(n_seq)]
        nk = [max(a, gen.pick((1, 9, 77))) for a in nq]
        mode = gen.pick((0, 1, 2, 3, 4, 6, 7, 8))
        before, after = (FAR, FAR) if mode != 4 else (30, 4)
        if mode in (7, 8):
            before, after = FAR, gen.integer(-2, 3)
        use_mask = gen.chance(0.8)
        prefix = [gen.integer(max(0, m - w), m) for w, m in zip(nq, nk)] if mode == 6 and use_mask else None
        used = [i for i in range(n_seq) if nq[i]]
        draw = lambda *s: dtype.round(gen.rng.standard_normal(s)).astype(np.float64)  # noqa: E731
        rope = gen.pick((0, 4, 16)) if fifth else 8 if version == "V3" else 0
        q, dy = draw(sum(nq), n, d + rope), draw(sum(nq), n, d)
        k, v = draw(sum(nk), kv, d + rope), draw(sum(nk), kv, d)
        ends_q, ends_k = np.cumsum(nq), np.cumsum(nk)
        pattern = use_mask and mode in (2, 3, 4, 6, 7, 8)
        shape = (3072 if mode == 6 else 2048, 2048) if pattern else (max(nq), max(nk))
        values = np.zeros(shape, bool) if pattern or not use_mask else gen.rng.random(shape) < 0.2
        mask = Tensor.of(BOOL, values) if use_mask else None
        keep = gen.pick((1.0, 0.75))
        kept = gen.rng.random(sum(n * a * b for a, b in zip(nq, nk))) < keep
        bits = Tensor.of(U8, np.packbits(kept, bitorder="little")) if keep < 1 else None

        # The biases are concatenated too, with a row for each query or one row for all queries of a sequence.
        each = gen.chance(0.5)
        biases = [draw(1, n, a if each else 1, b) for a, b in zip(nq, nk)] if gen.chance(0.4) and 0 not in nq else None
        bias = biases and Tensor.of(dtype, np.concatenate([x.reshape(-1) for x in biases]).astype(np.float32))
        bias_type = gen.pick((0, 1)) if second and bias else 1

        sink = F32.round(gen.rng.uniform(-4, 6, n)) if fifth and gen.chance(0.7) else None
        parts, bit = [], 0
        for i in range(n_seq):
            at_q, at_k = slice(ends_q[i] - nq[i], ends_q[i]), slice(ends_k[i] - nk[i], ends_k[i])
            one = mode
            if mode in (7, 8) and used:
                one = 4 if i == (used[-1] if mode == 7 else used[0]) else mode - 4 if mode == 7 else 2
            seen = visible(nq[i], nk[i], one if use_mask else 1, before, after, prefix[i] if prefix else 0)
            if use_mask and not pattern:
                seen = seen & ~values[:nq[i], :nk[i]]
            count = n * nq[i] * nk[i]
            drop = kept[bit:bit + count].reshape(1, n, nq[i], nk[i]) / keep if keep < 1 else None
            bit += count
            seq = [to_layout_back(x) for x in (q[at_q], k[at_k], v[at_k], dy[at_q])]
            out, top, total, p, dropped = attention(*seq[:3], 0.2, seen, biases and biases[i], bias_type == 1, drop)
            alone = 0
            if sink is not None:
                out, top, total, p, dropped, alone = with_sink(sink, out, top, total, p, dropped)
            dp = seq[3] @ np.repeat(seq[2], n // kv, 1).swapaxes(-1, -2) * (1 if drop is None else drop)
            parts.append((out, top, total, *gradient(*seq, 0.2, p, dropped, drop),
                          -(alone * (dp * p).sum(-1, keepdims=True)).sum((0, 2, 3))))

        def joined(i):
            return np.concatenate([part[i][0].transpose(1, 0, 2) for part in parts])

        made = lambda x: gen.out(dtype, x.shape, x.astype(np.float32))  # noqa: E731

        def apart(make):
            """Queries, keys and values, with the rotary parts behind them where the version has these."""
            if version not in ("V3", "V5"):
                return [make(x) for x in (q, k, v)]
            return [make(x) if x is not None else None for y in (q, k)
                    for x in (y[..., :d], y[..., d:] if rope else None)] + [make(v)]

        tensors = apart(made)
        out, top, total = gen.out(dtype, dy.shape), gen.out(F32, (len(q), n, 8)), gen.out(F32, (len(q), n, 8))
        lengths = Ints(*map(int, ends_q)), Ints(*map(int, ends_k))
        if second:
            lengths += None, None
        common = (0.2, keep, before, after, n, text("TND"), 0, mode, *([bias_type] if second else []))
        order = [gen.pick((b"same_as_input", b"", None))] if fourth else []
        sinks = [] if not fifth else [None if sink is None else gen.tensor(F32, (n,), sink)]
        run("aclnnFlashAttentionVarLenScore" + version, *tensors, bias, bits, None, mask, *sinks,
            prefix and Ints(*prefix), *lengths, *common, *order, top, total, None, out)
        close(out.get(), joined(0), dtype, "out", 4)
        as_input = order == [b"same_as_input"]
        for t, i, name in ((top, 1, "maxima"), (total, 2, "sums")):
            self.check_softmax(t.get(), [part[i][0, ..., 0] for part in parts], as_input, dtype, name)
        if with_gradient:
            grads = apart(lambda x: gen.out(dtype, x.shape))
            dsink = None if sink is None else gen.out(F32, (n,))
            last = (*order, *grads, None, dsink) if fifth else (*grads, None, *order)
            run("aclnnFlashAttentionUnpaddingScoreGrad" + version, *tensors, made(dy), bias, bits, None, mask, top,
                total, None, out, *sinks, prefix and Ints(*prefix), *lengths, *common, *last)
            if dsink is not None:
                close(dsink.get(), sum(part[6] for part in parts), dtype, "dsink", 20)
            got = [t.get() for t in grads if t]
            if rope:
                got = [np.concatenate(got[i:i + 2], -1) for i in (0, 2)] + got[4:]
            for t, i, name in zip(got, (3, 4, 5), ("dq", "dk", "dv")):
                close(t, joined(i), dtype, name, 20)

    def check_softmax(self, got, parts, as_input, dtype, name):
        """parts: the values of each sequence, [heads, queries]. They lie one after the other, unless in the order of
        the input."""
        exact = np.concatenate([part.T.reshape(-1) if as_input else part.reshape(-1) for part in parts])
        got = got.reshape(-1, 8)
        assert np.all(got == got[:, :1]), name
        with np.errstate(invalid="ignore"):
            off = np.abs(got[:, 0] - exact)
            good = (got[:, 0] == exact) | (off <= SOFTMAX_TOLERANCE[str(dtype)] * (1 + np.abs(exact)))
        assert good.all(), f"{name}: {got[~good][0, 0]}, expected {exact[~good][0]}"

    def test_all(self):
        each_case(self, "flat", CASES, lambda gen: self.case(gen, False))
        each_case(self, "flat V2", CASES // 4, lambda gen: self.case(gen, False, "V2"))
        each_case(self, "flat V3", CASES // 4, lambda gen: self.case(gen, False, "V3"))
        each_case(self, "flat V4", CASES // 4, lambda gen: self.case(gen, False, "V4"))
        each_case(self, "flat V5", CASES // 4, lambda gen: self.case(gen, False, "V5"))

    def test_gradient(self):
        each_case(self, "flat gradient", CASES // 2, lambda gen: self.case(gen, True))
        each_case(self, "flat gradient V2", CASES // 4, lambda gen: self.case(gen, True, "V2"))
        each_case(self, "flat gradient V3", CASES // 4, lambda gen: self.case(gen, True, "V3"))
        each_case(self, "flat gradient V4", CASES // 4, lambda gen: self.case(gen, True, "V4"))
        each_case(self, "flat gradient V5", CASES // 4, lambda gen: self.case(gen, True, "V5"))

    def test_layout(self):
        q, top = Tensor.empty(F32, (3, 1, 8)), Tensor.empty(F32, (3, 1, 8))
        code, message = refused("aclnnFlashAttentionVarLenScoreV4", q, q, q, *[None] * 5, Ints(3), Ints(3), 1.0, 1.0,
                                FAR, FAR, 1, text("TND"), 0, 0, b"NTD", top, top, None, q)
        self.assertEqual(code, INVALID)
        self.assertIn('softmaxOutLayout is "NTD", expected "same_as_input" or ""', message)
        wide, short = Tensor.empty(F32, (3, 1, 770)), Tensor.empty(F32, (2, 1, 8))
        for ropes, words in (((q, None), "keyRope is absent, expected both queryRope and keyRope"),
                             ((q, short), "keyRope has shape [2, 1, 8], expected 1 sequences, 1 heads, 3 positions"),
                             ((q, wide), "keyRope has shape [3, 1, 770]"),
                             ((wide, wide), "query and queryRope have 778 components, expected at most 768")):
            code, message = refused("aclnnFlashAttentionVarLenScoreV5", q, ropes[0], q, ropes[1], q, *[None] * 6,
                                    Ints(3), Ints(3), None, None, 1.0, 1.0, FAR, FAR, 1, text("TND"), 0, 0, 1, b"", top,
                                    top, None, q)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        code, message = refused("aclnnFlashAttentionUnpaddingScoreGradV3", q, q, q, q, q, q, *[None] * 4, top, top,
                                None, q, None, Ints(3), Ints(3), None, None, 1.0, 1.0, FAR, FAR, 1, text("TND"), 0, 0,
                                1, q, None, q, q, q, None)
        self.assertEqual(code, INVALID)
        self.assertIn("dqRopeOut is NULL, expected a tensor as there is queryRope", message)


class Sink(unittest.TestCase):
    """FlashAttentionScoreV3 and its gradient: a logit for each head that has no value."""

    def case(self, gen):
        dtype, layout = gen.pick((F32, F16, BF16)), gen.pick(("BNSD", "BSND", "BSH", "SBH"))
        b, kv, d = gen.integer(1, 3), gen.integer(1, 2), gen.pick((8, 32))
        n, sq, sk = kv * gen.integer(1, 2), gen.pick((1, 7, 70)), gen.pick((1, 9, 90, 300))
        draw = lambda *s: dtype.round(gen.rng.standard_normal(s)).astype(np.float64)  # noqa: E731
        q, dy, k, v = draw(b, n, sq, d), draw(b, n, sq, d), draw(b, kv, sk, d), draw(b, kv, sk, d)
        hidden = gen.rng.random((sq, sk)) < 0.4 if gen.chance(0.5) else None
        if hidden is not None and gen.chance(0.5):
            hidden[0] = True                                # this query sees its sink only
        keep = gen.pick((1.0, 0.75))
        kept = gen.rng.random((b, n, sq, sk)) < keep
        drop = kept / keep if keep < 1 else None
        sink = F32.round(gen.rng.uniform(-4, 6, n))
        if gen.chance(0.2):
            sink[0] = -np.inf
        given = gen.chance(0.9)
        seen = True if hidden is None else ~hidden
        out, top, total, p, dropped = attention(q, k, v, 0.3, seen, drop=drop)
        if given:
            out, top, total, p, dropped, alone = with_sink(sink, out, top, total, p, dropped)
        to = lambda x: to_layout(x, layout)  # noqa: E731
        tensors = [gen.out(dtype, to(x).shape, to(x).astype(np.float32)) for x in (q, k, v)]
        made = gen.out(dtype, to(out).shape)
        softmax = [gen.out(F32, (b, n, sq, 8)) for _ in range(2)]
        mask = None if hidden is None else gen.tensor(BOOL, hidden.shape, hidden)
        bits = Tensor.of(U8, np.packbits(kept.reshape(-1), bitorder="little")) if keep < 1 else None
        sinks = gen.tensor(F32, (n,), sink) if given else None
        common = 0.3, keep, FAR, FAR, n, text(layout), 0, 1, 1
        run("aclnnFlashAttentionScoreV3", *tensors, None, bits, None, mask, sinks, None, None, None, *common, *softmax,
            None, made)
        close(from_layout(made.get(), layout, n), out, dtype, "out", 4)
        for t, exact in zip(softmax, (top, total)):
            got = t.get()[..., :1]
            with np.errstate(invalid="ignore"):
                off = np.abs(got - exact)
            good = (got == exact) | (off <= 10 * SOFTMAX_TOLERANCE[str(dtype)] * (1 + np.abs(exact)))
            assert good.all(), "softmax"
        grads, dsink = [gen.out(dtype, t.shape) for t in tensors], gen.out(F32, (n,))
        run("aclnnFlashAttentionScoreGradV3", *tensors, gen.out(dtype, to(dy).shape, to(dy).astype(np.float32)), None,
            bits, None, mask, *softmax, None, made, sinks, None, None, None, *common, *grads, None,
            dsink if given else None)
        exact = gradient(q, k, v, dy, 0.3, p, dropped, drop)
        for t, e, heads, name in zip(grads, exact, (n, kv, kv), ("dq", "dk", "dv")):
            close(from_layout(t.get(), layout, heads), e, dtype, name, 20)
        if given:
            dp = dy @ np.repeat(v, n // kv, 1).swapaxes(-1, -2) * (1 if drop is None else drop)
            terms = alone * (dp * p).sum(-1, keepdims=True)
            size = (alone * np.abs(dp * p).sum(-1, keepdims=True)).sum((0, 2, 3))
            assert np.all(np.abs(dsink.get() + terms.sum((0, 2, 3))) <= TOLERANCE[str(dtype)] * (size + 1e-3)), "dsink"

    def test_all(self):
        each_case(self, "sink", CASES, self.case)

    def test_refused(self):
        q, top = Tensor.empty(F32, (1, 2, 3, 8)), Tensor.empty(F32, (1, 2, 3, 8))
        common = None, None, None, 1.0, 1.0, FAR, FAR, 2, text("BNSD"), 0, 0, 1
        for words, sink in (("sinkOptional has shape [3], expected [2]", Tensor.empty(F32, (3,))),
                            ("sinkOptional has dtype FLOAT16", Tensor.empty(F16, (2,)))):
            code, message = refused("aclnnFlashAttentionScoreV3", q, q, q, *[None] * 4, sink, *common, top, top, None,
                                    q)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        code, message = refused("aclnnFlashAttentionScoreGradV3", q, q, q, q, *[None] * 4, top, top, None, q,
                                Tensor.empty(F32, (2,)), *common, q, q, q, None, None)
        self.assertEqual(code, INVALID)
        self.assertIn("dsinkOut is NULL", message)


def to_layout_back(x):
    return x.transpose(1, 0, 2)[None]


class Inference(unittest.TestCase):
    """FusedInferAttentionScore, PromptFlashAttention and IncreFlashAttention."""

    VARIANTS = ("aclnnFusedInferAttentionScore", "aclnnFusedInferAttentionScoreV2", "aclnnFusedInferAttentionScoreV3",
                "aclnnFusedInferAttentionScoreV4", "aclnnFusedInferAttentionScoreV5")

    def fused(self, gen, q, keys, values, out, n, kv, scale, layout, bias=None, mask=None, lengths=(None, None),
              table=None, padding=(None, None), prefix=(None, None, None), band=(65535, 65535), mode=0, page=0,
              lse=None, op=None, sink=None, ropes=None):
        is_new = ropes or "T" in layout or "_NBSD" in layout or layout in ("BSH_BNSD", "BSND_BNSD")
        op = op or gen.pick(self.VARIANTS[2 if is_new else 1 if prefix[0] else 0:])
        v1, v3, v4, v5 = (op.endswith(x) for x in ("Score", ("V3", "V4", "V5"), ("V4", "V5"), "V5"))
        run(op, q, TensorList(keys), TensorList(values), bias, mask, *lengths, *[None] * 7, table, *padding,
            *([] if v1 else [*[None] * 4, *prefix]), *((*(ropes or (None, None)), None) if v3 else ()), *[None] * v4,
            *([sink] if v4 else []),
            *[None] * (2 * v5), n, scale, *band, text(layout), kv, mode, gen.pick((0, 2)), page, 0, lse is not None,
            *([] if v1 else [0] * (2 + v4 + v5)), out, lse)

    def test_sink(self):
        def body(gen):
            dtype, kv, d = gen.pick((F16, BF16)), gen.integer(1, 2), 64
            b, n, sq, sk = gen.integer(1, 2), kv * gen.integer(1, 2), gen.pick((1, 1, 9)), gen.pick((5, 300, 2000))
            q, k, v = (self.numbers(gen, dtype, s) for s in ((b, n, sq, d), (b, kv, sk, d), (b, kv, sk, d)))
            sink = dtype.round(gen.rng.uniform(-3, 5, n))
            out, lse = gen.out(dtype, q.shape), gen.out(F32, (b, n, sq, 1)) if gen.chance(0.5) else None
            self.fused(gen, *(Tensor.of(dtype, x) if x is q else [Tensor.of(dtype, x)] for x in (q, k, v)), out, n, kv,
                       0.125, "BNSD", lse=lse, op="aclnnFusedInferAttentionScore" + gen.pick(("V4", "V5")),
                       sink=gen.tensor(dtype, (n,), sink))
            exact, top, total, _, _ = attention(q, k, v, 0.125, True)
            alone = np.exp(sink.astype(np.float64)[:, None, None] - top)
            close(out.get(), exact * total / (total + alone), dtype, "out", 4)
            assert lse is None or np.allclose(lse.get(), top + np.log(total + alone), rtol=1e-4, atol=1e-4)
        each_case(self, "sink", 24, body)

    def numbers(self, gen, dtype, shape):
        return dtype.round(gen.rng.standard_normal(shape)).astype(np.float64)

    def as_ggml_calls(self, gen):
        """The call of ggml: BSND, float16, keys in a cache with gaps, a bias with rows of -inf and head stride 0."""
        b, kv, s = gen.integer(1, 2), gen.pick((1, 4)), gen.pick((1, 3, 35, 75))
        n, keys, d = kv * gen.pick((1, 4)), gen.pick((7, 113, 512)), gen.pick((16, 64, 80))
        q, k, v = (self.numbers(gen, F16, sh) for sh in ((b, s, n, d), (b, keys, kv, d), (b, keys, kv, d)))
        hidden = gen.rng.random((b, 1, s, keys)) < 0.3
        bias = np.where(hidden, -np.inf, F16.round(gen.rng.standard_normal((b, 1, s, keys))))
        bias[0, 0, 0] = -np.inf
        tensor = Tensor(F16, (b, n, s, keys), (s * keys, 0, keys, 1)).set(bias)
        seen = gen.chance(0.7)
        out = Tensor.empty(F16, (b, s, n, d))
        self.fused(gen, Tensor.of(F16, q), [gen.out(F16, k.shape, k)], [gen.out(F16, v.shape, v)], out, n, kv, 0.11,
                   "BSND", bias=tensor if seen else None)
        exact = attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), 0.11, True, bias if seen else None)[0]
        close(out.get().transpose(0, 2, 1, 3), exact, F16, "out", 4)

    def with_lengths(self, gen):
        """Lengths, masks, sparse modes, the logarithm of the sums, lists of tensors, and padding on the left."""
        dtype = gen.pick((F16, BF16))
        b, kv, s = gen.integer(1, 3), gen.integer(1, 2), gen.pick((1, 4, 70))
        n, keys, d = kv * gen.integer(1, 3), gen.pick((5, 40, 600)), gen.pick((16, 32))
        layout = gen.pick(("BNSD", "BSND", "BSH", "BNSD_BSND"))
        inner = layout[:4].rstrip("_")
        outer = "BSND" if layout == "BNSD_BSND" else layout
        q, k, v = (self.numbers(gen, dtype, sh) for sh in ((b, n, s, d), (b, kv, keys, d), (b, kv, keys, d)))
        nq = [gen.integer(1, s) for _ in range(b)] if gen.chance(0.5) and s > 1 else None
        nk = [gen.integer(0, keys) for _ in range(b)] if gen.chance(0.5) else None
        pad_q = gen.integer(0, s - max(nq)) if nq and gen.chance(0.4) else None
        pad_k = gen.integer(0, keys - max(nk)) if nk and gen.chance(0.4) else None
        mode = gen.pick((0, 1, 2, 3, 4)) if gen.chance(0.6) else None
        band = gen.pick(((65535, 65535), (20, 3), (65535, 0)))
        values, mask = None, None
        if mode is not None and mode < 2:
            if s > 1:
                shape = gen.pick(((b, s, keys), (1, 1, s, keys), (b, 1, s, keys)))
            else:
                shape = gen.pick(((b, keys), (b, 1, keys), (b, 1, 1, keys)))
            values = gen.rng.random(shape) < 0.4
            mask = gen.out(U8, shape, values.astype(np.uint8))
            values = values.reshape((shape[0], 1, 1 if len(shape) == 2 else shape[-2], keys))
        elif mode is not None:
            mask = Tensor(BOOL, (2048, 2048), (0, 0)).set(np.zeros((2048, 2048), bool))
        is_list = gen.chance(0.3) and pad_k is None
        exact, log = np.zeros((b, n, s, d)), np.full((b, n, s, 1), np.inf)
        for i in range(b):
            rows, cols = nq[i] if nq else s, nk[i] if nk else keys
            q0 = s - pad_q - rows if pad_q is not None else 0
            k0 = keys - pad_k - cols if pad_k is not None else 0
            ignored = mode == 0 and (pad_q is not None or pad_k is not None)
            one = 1 if mode is None or s == 1 or ignored else mode
            seen = visible(rows, cols, one, *band)
            if values is not None:
                part = np.broadcast_to(values, (b, 1, s, keys))[i, 0]
                seen = seen & ~part[q0:q0 + rows, k0:k0 + cols]
            at_q, at_k = slice(q0, q0 + rows), slice(k0, k0 + cols)
            r, top, total, _, _ = attention(q[i:i + 1, :, at_q], k[i:i + 1, :, at_k], v[i:i + 1, :, at_k], 0.25, seen)
            exact[i, :, q0:q0 + rows] = r[0]
            sums = np.where(total[0] > 0, total[0], 1)
            log[i, :, q0:q0 + rows] = np.where(total[0] > 0, top[0] + np.log(sums), np.inf)

        def made(x, where):
            x = to_layout(x, where)
            return gen.out(dtype, x.shape, x.astype(np.float32))

        def listed(x):
            if is_list:
                return [Tensor.of(dtype, to_layout(x[i:i + 1], inner).astype(np.float32)) for i in range(b)]
            return [made(x, inner)]

        out, lse = made(np.zeros(exact.shape), outer), gen.out(F32, (b, n, s, 1)) if gen.chance(0.5) else None
        padding = [None if p is None else Tensor.of(I64, np.array([p])) for p in (pad_q, pad_k)]
        self.fused(gen, made(q, inner), listed(k), listed(v), out, n, 0 if kv == n else kv, 0.25, layout, mask=mask,
                   lengths=(nq and Ints(*nq), nk and Ints(*nk)), padding=padding, band=band, mode=mode or 0, lse=lse)
        close(from_layout(out.get(), outer, n), exact, dtype, "out", 4)
        if lse:
            assert np.array_equal(np.isinf(lse.get()), np.isinf(log)) and np.all(lse.get()[np.isinf(log)] > 0)
            assert np.allclose(lse.get(), log, rtol=1e-3, atol=1e-3)

    def with_pages(self, gen):
        dtype, b, kv, s = gen.pick((F16, BF16)), gen.integer(1, 3), gen.integer(1, 2), gen.pick((1, 20))
        n, d, page = kv * gen.integer(1, 3), 16, gen.pick((16, 32))
        lengths = [gen.integer(1, 4 * page) for _ in range(b)]
        n_pages = 4 * b + 3
        table = gen.rng.permutation(n_pages)[:4 * b].reshape(b, 4).astype(np.int32)
        k, v = (self.numbers(gen, dtype, (n_pages, kv, page, d)) for _ in range(2))
        q = self.numbers(gen, dtype, (b, n, s, d))

        def paged(x, i):
            """The keys or values of batch i: its pages in order, up to its length."""
            return x[table[i]].transpose(1, 0, 2, 3).reshape(1, kv, 4 * page, d)[:, :, :lengths[i]]

        exact = np.concatenate([
            attention(q[i:i + 1], paged(k, i), paged(v, i), 0.25, True)[0] for i in range(b)])
        by_head = gen.chance(0.5)
        keys, values = (gen.out(dtype, y.shape, y) for y in
                        ((x if by_head else x.transpose(0, 2, 1, 3).reshape(n_pages, page, kv * d)) for x in (k, v)))
        out = gen.out(dtype, q.shape)
        self.fused(gen, gen.out(dtype, q.shape, q), [keys], [values], out, n, kv, 0.25, "BNSD",
                   lengths=(None, Ints(*lengths)), table=gen.out(I32, table.shape, table), page=page)
        close(out.get(), exact, dtype, "out", 4)

    def with_prefix(self, gen):
        dtype, b, kv, s = gen.pick((F16, BF16)), gen.integer(1, 3), gen.integer(1, 2), gen.pick((1, 20))
        n, d, keys, shared = kv * gen.integer(1, 3), 16, gen.integer(1, 50), gen.integer(1, 40)
        used = gen.integer(0, shared)
        q, k, v = (self.numbers(gen, dtype, sh) for sh in ((b, n, s, d), (b, kv, keys, d), (b, kv, keys, d)))
        pk, pv = (self.numbers(gen, dtype, (1, kv, shared, d)) for _ in range(2))
        whole = [np.concatenate([np.repeat(p[:, :, :used], b, 0), x], 2) for p, x in ((pk, k), (pv, v))]
        out = gen.out(dtype, q.shape)
        own = [gen.out(dtype, x.shape, x) for x in (q, k, v)]
        self.fused(gen, own[0], own[1:2], own[2:], out, n, kv, 0.25, "BNSD",
                   prefix=(gen.out(dtype, pk.shape, pk), gen.out(dtype, pv.shape, pv), Ints(used)))
        close(out.get(), attention(q, *whole, 0.25, True)[0], dtype, "out", 4)

    def with_ropes(self, gen):
        """Separate rotary parts of queries and keys, in pages or not, and the results in other layouts."""
        dtype, b, kv, s = gen.pick((F32, F16, BF16)), gen.integer(1, 3), gen.integer(1, 2), gen.pick((1, 3, 70))
        n, keys, d, rope = kv * gen.pick((1, 2, 16)), gen.pick((5, 40, 300)), gen.pick((16, 64)), gen.pick((8, 16))
        layout = gen.pick(("BSH", "BSND", "BNSD", "BNSD_BSND", "BSH_BNSD", "BSND_BNSD", "BSH_NBSD", "BSND_NBSD",
                           "BNSD_NBSD"))
        inner, outer = (layout.split("_") * 2)[:2]
        q, k = (self.numbers(gen, dtype, sh) for sh in ((b, n, s, d + rope), (b, kv, keys, d + rope)))
        v = self.numbers(gen, dtype, (b, kv, keys, d))
        mode = gen.pick((0, 3))
        mask = Tensor(BOOL, (2048, 2048), (0, 0)).set(np.zeros((2048, 2048), bool)) if mode else None
        exact = attention(q, k, v, 0.25, visible(s, keys, 3 if mode and s > 1 else 1, FAR, FAR))[0]

        def made(x, where=inner):
            x = x.transpose(1, 0, 2, 3) if where == "NBSD" else to_layout(x, where)
            return gen.out(dtype, x.shape, x.astype(np.float32))

        out = made(np.zeros(exact.shape), outer)
        key, key_rope, value, table, page, lengths = made(k[..., :d]), made(k[..., d:]), made(v), None, 0, (None, None)
        if gen.chance(0.4):
            page, each, by_head = 16, (keys + 15) // 16, gen.chance(0.5)
            numbers = gen.rng.permutation(b * each).reshape(b, each).astype(np.int32)

            def paged(x):
                full = np.zeros((b * each, kv, page, x.shape[-1]))
                for i in range(b):
                    for at in range(keys):
                        full[numbers[i, at // page], :, at % page] = x[i, :, at]
                full = full if by_head else full.transpose(0, 2, 1, 3).reshape(b * each, page, -1)
                return gen.out(dtype, full.shape, full.astype(np.float32))

            key, key_rope, value = paged(k[..., :d]), paged(k[..., d:]), paged(v)
            table, lengths = gen.out(I32, numbers.shape, numbers), (None, Ints(keys))
        self.fused(gen, made(q[..., :d]), [key], [value], out, n, kv, 0.25, layout, table=table, page=page, mask=mask,
                   mode=mode, lengths=lengths, ropes=(made(q[..., d:]), key_rope))
        got = out.get().transpose(1, 0, 2, 3) if outer == "NBSD" else from_layout(out.get(), outer, n)
        close(got, exact, dtype, "out", 4)

    def concatenated(self, gen):
        """The layouts with T: ends of sequences, keys in pages, bands, and positions behind the last sequence."""
        dtype, kv = gen.pick((F32, F16, BF16)), gen.integer(1, 2)
        b, n, d = gen.integer(1, 4), kv * gen.pick((1, 2, 16)), gen.pick((16, 64))
        rope = gen.pick((0, 0, 8))
        nq = [gen.integer(0, gen.pick((1, 2, 60))) for _ in range(b)]
        nk = [gen.integer(0, gen.pick((9, 300))) for _ in range(b)]
        rest = gen.pick((0, 0, 1, 7))
        layout = gen.pick(("TND", "NTD", "TND_NTD", "NTD_TND"))
        inner, outer = (layout.split("_") * 2)[:2]
        mode, band = gen.pick((0, 0, 2, 3, 4)), gen.pick(((20, 3), (65535, 0)))
        q, k = (self.numbers(gen, dtype, sh) for sh in ((sum(nq) + rest, n, d + rope), (sum(nk), kv, d + rope)))
        v = self.numbers(gen, dtype, (sum(nk), kv, d))
        exact, log = np.zeros((*q.shape[:2], d)), np.full((*q.shape[:2], 1), np.inf)
        ends = np.cumsum(nq), np.cumsum(nk)
        for i in range(b):
            rows, cols = (slice(e[i] - m[i], e[i]) for e, m in zip(ends, (nq, nk)))
            one = (x[None].transpose(0, 2, 1, 3) for x in (q[rows], k[cols], v[cols]))
            r, top, total, _, _ = attention(*one, 0.25, visible(nq[i], nk[i], mode or 1, *band))
            exact[rows] = r[0].transpose(1, 0, 2)
            sums = np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), np.inf)
            log[rows] = sums[0].transpose(1, 0, 2)

        def made(x, where=inner):
            x = x.transpose(1, 0, 2) if where == "NTD" else x
            return gen.out(dtype, x.shape, x.astype(np.float32))

        parts, table, page, key_lengths = [k[..., :d], k[..., d:], v], None, 0, ends[1]
        if gen.chance(0.5):
            page = 16
            each = max((m + page - 1) // page for m in nk) + 1
            numbers = gen.rng.permutation(b * each).reshape(b, each).astype(np.int32)
            by_head, key_lengths = gen.chance(0.5), nk

            def paged(x):
                full = np.zeros((b * each, kv, page, x.shape[-1]))
                for i in range(b):
                    for at in range(nk[i]):
                        full[numbers[i, at // page], :, at % page] = x[ends[1][i] - nk[i] + at]
                full = full if by_head else full.transpose(0, 2, 1, 3).reshape(b * each, page, -1)
                return gen.out(dtype, full.shape, full.astype(np.float32))

            parts, table = [paged(x) for x in parts], gen.out(I32, numbers.shape, numbers)
        else:
            parts = [made(x) for x in parts]
        out = made(np.full(exact.shape, 7.0), outer)
        lse = gen.out(F32, log.shape) if gen.chance(0.5) else None
        mask = Tensor(BOOL, (2048, 2048), (0, 0)).set(np.zeros((2048, 2048), bool)) if mode else None
        self.fused(gen, made(q[..., :d]), parts[:1], parts[2:], out, n, kv, 0.25, layout, mask=mask, mode=mode,
                   lengths=(Ints(*ends[0].tolist()), Ints(*map(int, key_lengths))), band=band, table=table, page=page,
                   lse=lse, ropes=(made(q[..., d:]), parts[1]) if rope else None)
        close(out.get().transpose(1, 0, 2) if outer == "NTD" else out.get(), exact, dtype, "out", 4)
        if lse:
            assert np.array_equal(np.isinf(lse.get()), np.isinf(log))
            assert np.allclose(lse.get(), log, rtol=1e-3, atol=1e-3)

    def test_most_workspace(self):
        """What torch_npu reserves for graphs, in which only the lengths change."""
        def body(gen):
            b, tokens, kv, group = gen.integer(1, 6), gen.pick((1, 4, 40, 300)), gen.pick((1, 2)), gen.pick((1, 4, 16))
            page, pages, d = 16, gen.pick((1, 8, 200)), gen.pick((16, 64))
            rope = gen.pick((0, 8))
            made = lambda *s: Tensor.empty(F16, s)  # noqa: E731
            q, out = made(tokens, kv * group, d), made(tokens, kv * group, d)
            keys = TensorList([made(b * pages, kv, page, d)])
            ropes = (made(tokens, kv * group, rope), made(b * pages, kv, page, rope)) if rope else (None, None)
            table = Tensor.of(I32, np.arange(b * pages, dtype=np.int32).reshape(b, pages))

            def size(most=False):
                ends = np.sort(gen.rng.integers(0, tokens + 1, b)) if gen.chance(0.7) else np.minimum(np.arange(b) + 1,
                                                                                                     tokens)
                lengths = Ints(*ends.tolist()), Ints(*gen.rng.integers(0, pages * page + 1, b).tolist())
                args = [q, keys, keys, None, None, *lengths, *[None] * 7, table, *[None] * 9, *ropes, None,
                        kv * group, 1.0, FAR, FAR, text("TND"), kv, 0, 0, page, 0, False, 0, 0, out, None]
                return bytes_of_workspace("aclnnFusedInferAttentionScoreV3", args, most)
            most = size(True)
            sizes = [size() for _ in range(8)]
            assert max(sizes) <= most, (sizes, most)
        each_case(self, "most workspace", 20, body)

    def test_all(self):
        for name, n in (("as_ggml_calls", 25), ("with_lengths", 50), ("with_pages", 15), ("with_prefix", 15),
                        ("with_ropes", 40), ("concatenated", 60)):
            each_case(self, name, n, getattr(self, name))

    def test_parts(self):
        """A long row of keys is divided into chunks, whose results are merged."""
        def body(gen):
            k, v = (self.numbers(gen, BF16, (1, 1, 3000, 64)) for _ in range(2))
            q = self.numbers(gen, BF16, (1, 2, 1, 64)) * 2
            out, lse = Tensor.empty(BF16, q.shape), Tensor.empty(F32, (1, 2, 1, 1))
            self.fused(gen, Tensor.of(BF16, q), [Tensor.of(BF16, k)], [Tensor.of(BF16, v)], out, 2, 1, 0.3, "BNSD",
                       lse=lse)
            exact, top, total, _, _ = attention(q, k, v, 0.3, True)
            close(out.get(), exact, BF16, "out", 2)
            assert np.allclose(lse.get(), top + np.log(total), rtol=1e-5)
        each_case(self, "parts", 2, body)

    def test_page_out_of_range(self):
        """The task finds a page that is out of range, and fails."""
        k = Tensor.of(F16, np.zeros((3, 16, 16), np.float32))
        q = Tensor.of(F16, np.zeros((1, 1, 1, 16), np.float32))
        table = Tensor.of(I32, np.array([[1, 3]], np.int32))
        with self.assertRaisesRegex(AclError, "(?s)blockTable.*is 3, expected 0 to 2"):
            run("aclnnIncreFlashAttentionV3", q, TensorList([k]), TensorList([k]), None, None, Ints(20), *[None] * 7,
                table, 1, 1.0, text("BNSD"), 1, 16, 0, Tensor.empty(F16, q.shape))

    def test_thin_variants(self):
        """PromptFlashAttention and IncreFlashAttention, which take fewer arguments."""
        def body(gen):
            b, n, s, keys, d = 2, 3, gen.pick((1, 9)), 21, 16
            q, k, v = (self.numbers(gen, F16, sh) for sh in ((b, n, s, d), (b, n, keys, d), (b, n, keys, d)))
            lengths = [gen.integer(1, keys) for _ in range(b)]
            cut = np.arange(keys) < np.array(lengths)[:, None, None, None]
            exact, exact_cut = attention(q, k, v, 0.25, True)[0], attention(q, k, v, 0.25, cut)[0]
            tq, tk, tv, out = (gen.out(F16, x.shape, x) for x in (q, k, v, q))
            last = (n, 0.25, FAR, FAR, text("BNSD"), 0)
            run("aclnnPromptFlashAttention", tq, tk, tv, None, None, None, *last, out)
            close(out.get(), exact, F16, "prompt", 4)
            for op, more in (("V2", (0,)), ("V3", (0, 1))):
                run("aclnnPromptFlashAttention" + op, tq, tk, tv, None, None, None, Ints(*lengths), *[None] * 5,
                    *last, *more, out)
                close(out.get(), exact_cut, F16, "prompt " + op, 4)
            for op, tensors, more in (("", 0, ()), ("V2", 5, ()), ("V3", 8, (0, 1)), ("V4", 9, (0, 1))):
                run("aclnnIncreFlashAttention" + op, tq, TensorList([tk]), TensorList([tv]), None, None, Ints(*lengths),
                    *[None] * tensors, n, 0.25, text("BNSD"), 0, *more, out)
                close(out.get(), exact_cut, F16, "step " + op, 4)
        each_case(self, "thin variants", 6, body)


class Errors(unittest.TestCase):
    def training(self, **changes):
        t = {x: Tensor.of(F32, np.zeros((1, 2, 4, 8), np.float32)) for x in ("q", "k", "v", "out")}
        t |= {"bias": None, "drop": None, "mask": None, "prefix": None, "keep": 1.0, "n": 2, "layout": "BNSD",
              "mode": 0, "before": FAR, "after": FAR, "top": Tensor.empty(F32, (1, 2, 4, 8)), "type": None} | changes
        v2, end = ("", []) if t["type"] is None else ("V2", [t["type"]])
        return refused("aclnnFlashAttentionScore" + v2, t["q"], t["k"], t["v"], t["bias"], t["drop"], None, t["mask"],
                       t["prefix"], *[None] * (2 * len(end)), 1.0, t["keep"], t["before"], t["after"], t["n"],
                       t["layout"] and text(t["layout"]), 0, t["mode"], *end, t["top"],
                       Tensor.empty(F32, (1, 2, 4, 8)), None, t["out"])

    def test_training(self):
        def zeros(dtype, *shape):
            return Tensor.of(dtype, np.zeros(shape, dtype.values))

        prefix_mode = {"k": zeros(F32, 1, 2, 7, 8), "v": zeros(F32, 1, 2, 7, 8), "mask": zeros(U8, 4, 7), "mode": 5}
        too_wide = {x: zeros(F32, 1, 2, 4, 769) for x in ("q", "k", "v", "out")}
        for changes, words in (
                ({"q": zeros(I32, 1, 2, 4, 8)}, ("query", "dtype", "INT32")),
                ({"k": zeros(F16, 1, 2, 4, 8)}, ("key", "FLOAT16")),
                ({"k": zeros(F32, 1, 3, 4, 8)}, ("key", "3 heads")),
                ({"v": zeros(F32, 1, 2, 5, 8)}, ("value", "5")),
                ({"layout": "NDSB"}, ("inputLayout", "NDSB", "BNSD")),
                ({"layout": "TND"}, ("inputLayout", "TND")),
                ({"layout": "BSH"}, ("query", "4 dimensions", "3")),
                ({"n": 3}, ("headNum", "3")),
                ({"out": zeros(F32, 1, 2, 4, 7)}, ("attentionOut", "[1, 2, 4, 7]")),
                ({"mask": zeros(U8, 4, 3)}, ("attenMask", "[4, 3]")),
                ({"mask": zeros(F32, 4, 4)}, ("attenMask", "FLOAT")),
                ({"mask": zeros(U8, 4, 4), "mode": 2}, ("attenMask", "2048")),
                ({"mask": zeros(U8, 4, 4), "mode": 9}, ("sparseMode", "9")),
                ({"mask": zeros(U8, 4, 4), "mode": 5}, ("prefix",)),
                ({"mask": zeros(U8, 4, 4), "mode": 5, "prefix": Ints(5)}, ("prefix", "5")),
                ({"bias": zeros(F32, 1, 2, 3, 4)}, ("realShift", "[1, 2, 3, 4]")),
                ({**prefix_mode, "prefix": Ints(2)}, ("prefixOptional[0] is 2, expected 3 to 7",)),
                ({"mask": zeros(U8, 5, 4)}, ("attenMask", "[5, 4], expected [4, 4]")),
                ({"mask": zeros(U8, 1, 4, 4)}, ("attenMask", "[1, 4, 4], expected [4, 4]")),
                ({"mask": zeros(U8, 4, 4), "before": 3, "after": -4}, ("preTokens is 3 and nextTokens is -4",)),
                ({"bias": zeros(F16, 1, 2, 4, 4)}, ("realShift", "FLOAT16")),
                ({"bias": zeros(F32, 1, 1, 4, 4)}, ("realShift", "[1, 1, 4, 4], expected [1 or 1, 2, 4 or 1, 4]")),
                ({"bias": zeros(F32, 2, 4, 4)}, ("realShift", "[2, 4, 4]")),
                ({"type": 0}, ("realShiftOptional is absent, expected one for pseType 0",)),
                ({"type": 2}, ("realShiftOptional is absent, expected one for pseType 2",)),
                (too_wide, ("query has 769 components, expected at most 768",)),
                ({"keep": 0.5}, ("dropMask",)),
                ({"keep": 0.5, "drop": zeros(U8, 3)}, ("dropMask", "3 bytes", "4")),
                ({"keep": 0.0}, ("keepProb",)),
                ({"top": zeros(F32, 1, 2, 4, 1)}, ("softmaxMax", "[1, 2, 4, 8]"))):
            code, message = self.training(**changes)
            assert code == INVALID and all(w in message for w in words), (changes, code, message)
        for changes, words in (({"layout": None}, "inputLayout is NULL"), ({"top": None}, "softmaxMaxOut is NULL")):
            code, message = self.training(**changes)
            assert code == NULLPTR and words in message, (changes, code, message)

    def test_inference(self):
        def call(**changes):
            z = lambda *s: Tensor.of(F16, np.zeros(s, np.float32))  # noqa: E731
            a = [z(1, 4, 2, 16), TensorList([z(1, 6, 2, 16)]), TensorList([z(1, 6, 2, 16)])] + [None] * 21 + \
                [2, 1.0, FAR, FAR, text("BSND"), 0, 0, 0, 0, 0, False, 0, 0, z(1, 4, 2, 16), None]
            for at, value in changes.items():
                a[int(at[1:])] = value
            return refused("aclnnFusedInferAttentionScoreV2", *a)
        one = Tensor.of(F32, np.ones(1, np.float32))
        for at, value, words in (
                (7, one, "deqScale1"),
                (10, one, "quantScale2"),
                (12, one, "antiquantScale"),
                (17, one, "keyAntiquantScale"),
                (28, text("TND"), "inputLayout"),
                (29, 3, "numKeyValueHeads"),
                (30, 3, "attenMask"),
                (30, 5, "sparseMode"),
                (34, True, "softmaxLse"),
                (6, Ints(7), "actualSeqLengthsKv"),
                (24, 4, "numHeads"),
                (14, Tensor.of(I32, np.zeros((1, 2), np.int32)), "actualSeqLengthsKv")):
            code, message = call(**{f"_{at}": value})
            assert code == INVALID and words in message, (at, code, message)
        half = lambda *s: Tensor.of(F16, np.zeros(s, np.float32))  # noqa: E731
        mask = Tensor(BOOL, (2048, 2048), (0, 0)).set(np.zeros((2048, 2048), bool))

        def flat(layout="TND", ends=Ints(2, 5), key_ends=Ints(3, 7), bias=None, given=None, mode=0,
                 ropes=(None, None), lse=None):
            keys = TensorList([half(7, 2, 16)])
            return refused("aclnnFusedInferAttentionScoreV3", half(5, 2, 16), keys, keys, bias, given, ends, key_ends,
                           *[None] * 17, *ropes, None, 2, 1.0, FAR, FAR, text(layout), 2, mode, 0, 0, 0,
                           lse is not None, 0, 0, half(5, 2, 16), lse)
        for changes, words in (
                ({"layout": "TND_BSND"}, 'inputLayout is "TND_BSND", expected one of BSH'),
                ({"layout": "NBSD"}, 'inputLayout is "NBSD"'),
                ({"ends": None}, "actualSeqLengthsOptional has 0 values, expected the ends of 1 sequences"),
                ({"key_ends": Ints(3)}, "actualSeqLengthsKvOptional has 1 values, expected the ends of 2"),
                ({"key_ends": Ints(3, 8)}, "actualSeqLengthsKvOptional[1] is 8, expected 3 to 7"),
                ({"ends": Ints(2, 1)}, "actualSeqLengthsOptional[1] is 1, expected 2 to 5"),
                ({"bias": half(1, 2, 5, 7)}, "pseShiftOptional is given, expected none in the layout TND"),
                ({"given": mask}, "attenMaskOptional is given, expected none for sparseMode 0 in the layout"),
                ({"mode": 3}, "attenMaskOptional is absent, expected a pattern for sparseMode 3"),
                ({"mode": 5}, "sparseMode is 5, expected 0 to 4"),
                ({"ropes": (half(5, 2, 8), None)}, "keyRopeOptional is absent, expected both"),
                ({"ropes": (half(4, 2, 8), half(7, 2, 8))}, "queryRopeOptional has shape [4, 2, 8], expected the"),
                ({"ropes": (half(5, 2, 8), half(7, 2, 9))}, "keyRopeOptional has shape [7, 2, 9]"),
                ({"ropes": (half(5, 2, 8), half(6, 2, 8))}, "keyRopeOptional has 1 sequences of 6 keys, expected"),
                ({"lse": Tensor.empty(F32, (1, 2, 5, 1))}, "softmaxLse has shape [1, 2, 5, 1], expected [5, 2, 1]")):
            code, message = flat(**changes)
            assert code == INVALID and words in message, (changes, code, message)
        none, keys = Tensor.empty(F16, (0, 4, 2, 16)), TensorList([])
        code, message = call(_0=none, _1=keys, _2=keys, _37=none)
        assert code == INVALID and "lists of 0 and 0" in message, (code, message)


if __name__ == "__main__":
    unittest.main()
