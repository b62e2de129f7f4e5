"""Attention against a double-precision reference with explicit masks: every layout, sparse mode, bias and mask shape, heads
that share keys, dropout; gradients by the closed formula (itself checked by finite differences)."""
import unittest

import numpy as np

from acl import INVALID, Ints, Tensor, TensorList, refused, run
from dtypes import BF16, BOOL, F16, F32, I32, I64, U8
from gen import each_case

CASES = 40
TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.5e-2}
SOFTMAX_TOLERANCE = {"f32": 2e-5, "f16": 2e-4, "bf16": 2e-5}       # of maxima and sums; products of float16 are split
FAR = 2147483647


# ---- the reference: [B, N, S, D] in double

def visible(nq, nk, mode, before, after, prefix=0):
    """Which keys a query sees, by CANN's sparse modes."""
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
    """out, maxima, sums, probabilities before and after dropout; rows that see nothing give 0."""
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
    """dq, dk, dv; with `magnitude` of absolute values, which is what rounding errors are a share of."""
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


# ---- layouts

def to_layout(x, layout):
    b, n, s, d = x.shape
    return {"BNSD": lambda: x, "BSND": lambda: x.transpose(0, 2, 1, 3), "BSH": lambda: x.transpose(0, 2, 1, 3).reshape(b, s, n * d),
            "SBH": lambda: x.transpose(2, 0, 1, 3).reshape(s, b, n * d), "TND": lambda: x[0].transpose(1, 0, 2)}[layout]()


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
    """Relative to the largest magnitude in a row, which is what errors of sums are about."""
    got, exact = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    assert got.shape == exact.shape, f"{what}: shape {got.shape}, expected {exact.shape}"
    if not got.size:
        return
    size = np.abs(exact).max(-1, keepdims=True) if scale is None else scale
    bad = ~(np.abs(got - exact) <= TOLERANCE[str(dtype)] * np.maximum(size, 1e-2))
    if bad.any():
        i = tuple(np.argwhere(bad)[0])
        raise AssertionError(f"{what}{list(map(int, i))} is {got[i]}, expected {exact[i]}; {bad.sum()} of {bad.size} wrong")


def text(layout):
    return layout.encode()


class Case:
    """A random problem; everything that the operators of training take."""

    def __init__(self, gen, layout=None, dtype=None, big=False):
        self.dtype = dtype or gen.pick((F32, F32, F16, BF16))
        self.layout = layout or gen.pick(("BNSD", "BSND", "BSH", "SBH"))
        self.b, self.kv = gen.integer(1, 3), gen.integer(1, 3)
        self.n = self.kv * gen.integer(1, 3)
        length = (lambda: gen.pick((1, 2, 7, 33, 70, 129, 200))) if not big else lambda: gen.pick((600, 1100))
        self.sq, self.sk = length(), length()
        self.d = gen.pick((1, 4, 16, 24, 40, 64, 128))
        self.dv = self.d if self.layout in ("SBH", "BSH") or gen.chance(0.7) else gen.integer(1, self.d)
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
            self.before, self.after = gen.pick(((FAR, FAR), (FAR, 0), (5, 9), (gen.integer(0, 99), gen.integer(0, 99)), (20, -3)))
        if self.mode in (5, 6):
            self.prefix = [gen.integer(0, self.sk) for _ in range(self.b)]
        band = np.stack([visible(self.sq, self.sk, self.mode, self.before, self.after, n)
                         for n in (self.prefix or [0] * self.b)])[:, None]
        self.seen = self.seen & band
        if self.mode in (2, 3, 4, 6):
            shape = (3072 if self.mode == 6 else 2048, 2048)
            mask = np.broadcast_to(np.False_, shape)
        else:
            shape = gen.pick(((self.sq, self.sk), (self.b, 1, self.sq, self.sk), (self.b, self.n, self.sq, self.sk), (1, 1, self.sq, self.sk)))
            mask = gen.rng.random(shape) < gen.pick((0.0, 0.3, 0.97))
            self.seen = self.seen & ~mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        dtype = gen.pick((BOOL, U8))
        strides = (0,) * len(shape) if self.mode in (2, 3, 4, 6) else None
        self.mask = Tensor(dtype, shape, strides).set(mask.astype(dtype.values)) if strides else \
            gen.out(dtype, shape, mask.astype(dtype.values))

    def add_bias(self, gen):
        self.bias_shape = gen.pick(((self.b, self.n, self.sq, self.sk), (1, self.n, self.sq, self.sk), (self.b, self.n, 1, self.sk)))
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
        """Forward; returns out, maxima and sums."""
        q, k, v = (self.tensor(gen, x) for x in (self.q, self.k, self.v))
        out = gen.out(self.dtype, to_layout(np.zeros(self.dy.shape), self.layout).shape)
        top, total = self.softmax_out(gen), self.softmax_out(gen)
        empty = gen.pick((None, Tensor.empty(F32, (0,))))
        second = self.version(gen)
        run("aclnnFlashAttentionScore" + "V2" * second, q, k, v, self.bias, self.bits or empty, None, self.mask or empty,
            self.prefixes(), *([None, None] if second else []), self.scale, self.keep, self.before, self.after, self.n,
            text(self.layout), 0, self.mode, *([self.bias_type] if second else []), top, total, empty, out)
        return out, top, total

    def check(self, gen):
        out, top, total = self.run(gen)
        exact, exact_top, exact_total, _, _ = self.reference()
        close(from_layout(out.get(), self.layout, self.n), exact, self.dtype, "out", np.abs(self.v).max())
        assert np.all(top.get() == top.get()[..., :1]) and np.all(total.get() == total.get()[..., :1])
        finite = exact_total[..., 0] > 0
        size = 1 + np.abs(exact_top[..., 0])
        slack = SOFTMAX_TOLERANCE[str(self.dtype)]
        assert np.all(np.abs(top.get()[..., 0] - exact_top[..., 0])[finite] <= slack * size[finite]), "maxima"
        error = np.abs(total.get()[..., 0] / np.where(finite, exact_total[..., 0], 1) - finite)
        assert np.all(error <= 2 * slack * np.where(finite, size, 1)), f"sums {error.max()}"

    def check_gradient(self, gen):
        out, top, total = self.run(gen)
        exact, _, _, p, dropped = self.reference()
        q, k, v, dy = (self.tensor(gen, x) for x in (self.q, self.k, self.v, self.dy))
        grads = [gen.out(self.dtype, t.shape) for t in (q, k, v)]
        second = self.version(gen)
        run("aclnnFlashAttentionScoreGrad" + "V2" * second, q, k, v, dy, self.bias, self.bits, None, self.mask, top, total,
            None, out, self.prefixes(), *([None, None] if second else []), self.scale, self.keep, self.before, self.after,
            self.n, text(self.layout), 0, self.mode, *([self.bias_type] if second else []), *grads, None)
        sizes = gradient(self.q, self.k, self.v, self.dy, self.scale, p, dropped, self.drop, True)
        exact = gradient(self.q, self.k, self.v, self.dy, self.scale, p, dropped, self.drop)
        for t, e, size, name, heads in zip(grads, exact, sizes, ("dq", "dk", "dv"), (self.n, self.kv, self.kv)):
            close(from_layout(t.get(), self.layout, heads), e, self.dtype, name, np.abs(size).max())


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
        """More than a block of keys and a chunk of rows."""
        def body(gen):
            c = Case(gen, big=True)
            c.b, c.kv, c.n = 1, 1, 2
            c.q, c.k, c.v, c.dy = c.q[:1, :1].repeat(2, 1), c.k[:1, :1], c.v[:1, :1], c.dy[:1, :1].repeat(2, 1)
            if gen.chance(0.5):
                c.add_mask(gen)
            c.check_gradient(gen) if gen.chance(0.4) else c.check(gen)
        each_case(self, "large", 8, body)

    def test_reference_gradient(self):
        """The closed formula by finite differences."""
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
        """A pattern of 2048 x 2048, BNSD views of one projection, unused outputs without elements."""
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
            run("aclnnFlashAttentionScore", *views, None, None, None, mask, None, d ** -0.5, 1.0, FAR, FAR, n, text("BNSD"),
                0, 2, top, total, none, out)
            q, k, v = (values[:, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(3))
            close(out.get(), attention(q, k, v, d ** -0.5, visible(s, s, 2, 0, 0))[0], dtype, "out", 3)
        each_case(self, "causal by pattern", 4, body)

    def test_alibi(self):
        """Slopes of heads (pseType 2, 3), and a bias given by its last 1024 rows."""
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
            run("aclnnFlashAttentionScoreV2", q, k, v, c.bias, None, None, None, None, start and Ints(start), None, c.scale,
                1.0, FAR, FAR, c.n, text("BNSD"), 0, 0, kind, None, None, None, out)
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
            out = Tensor.empty(F32, (1, 1, s, d))
            run("aclnnFlashAttentionScore", *(Tensor.of(F32, x) for x in (q, k, v)), Tensor.of(F32, table[:, :, -1024:]), None,
                None, mask, None, 0.3, 1.0, FAR, FAR, 1, text("BNSD"), 0, 3, None, None, None, out)
            close(out.get(), exact, F32, "out", 4)
        each_case(self, "last rows of ALiBi", 1, cut)

    def test_special_values(self):
        """NaN in a query stays in its row; infinite values and -inf bias."""
        q, k, v = (np.random.default_rng(5).standard_normal((1, 1, 5, 16)).astype(np.float32) for _ in range(3))
        q[0, 0, 1, 3] = np.nan
        bias = np.zeros((1, 1, 5, 5), np.float32)
        bias[0, 0, 2] = -np.inf
        bias[0, 0, 3, :4] = -np.inf
        out = Tensor.empty(F32, q.shape)
        run("aclnnFlashAttentionScore", *(Tensor.of(F32, x) for x in (q, k, v, bias)), None, None, None, None, 0.25, 1.0, FAR,
            FAR, 1, text("BNSD"), 0, 0, None, None, None, out)
        got = out.get()[0, 0]
        assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2, 3, 4]]).all()
        assert (got[2] == 0).all() and np.allclose(got[3], v[0, 0, 4], rtol=1e-6)


class Flat(unittest.TestCase):
    """Sequences one behind the other (TND)."""

    def case(self, gen, with_gradient):
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
        prefix = [gen.integer(0, m) for m in nk] if mode == 6 and use_mask else None
        used = [i for i in range(n_seq) if nq[i]]
        draw = lambda *s: dtype.round(gen.rng.standard_normal(s)).astype(np.float64)  # noqa: E731
        q, dy = draw(sum(nq), n, d), draw(sum(nq), n, d)
        k, v = draw(sum(nk), kv, d), draw(sum(nk), kv, d)
        ends_q, ends_k = np.cumsum(nq), np.cumsum(nk)
        pattern = use_mask and mode in (2, 3, 4, 6, 7, 8)
        shape = (3072 if mode == 6 else 2048, 2048) if pattern else (max(nq), max(nk))
        values = np.zeros(shape, bool) if pattern or not use_mask else gen.rng.random(shape) < 0.2
        mask = Tensor.of(BOOL, values) if use_mask else None
        keep = gen.pick((1.0, 0.75))
        kept = gen.rng.random(sum(n * a * b for a, b in zip(nq, nk))) < keep
        bits = Tensor.of(U8, np.packbits(kept, bitorder="little")) if keep < 1 else None

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
            out, top, total, p, dropped = attention(*seq[:3], 0.2, seen, None, False, drop)
            parts.append((out, top, total, *gradient(*seq, 0.2, p, dropped, drop)))

        def joined(i):
            return np.concatenate([part[i][0].transpose(1, 0, 2) for part in parts])
        tensors = [gen.out(dtype, x.shape, x.astype(np.float32)) for x in (q, k, v)]
        out, top, total = gen.out(dtype, q.shape), gen.out(F32, (len(q), n, 8)), gen.out(F32, (len(q), n, 8))
        lengths = Ints(*map(int, ends_q)), Ints(*map(int, ends_k))
        common = (0.2, keep, before, after, n, text("TND"), 0, mode)
        run("aclnnFlashAttentionVarLenScore", *tensors, None, bits, None, mask, prefix and Ints(*prefix), *lengths, *common, top,
            total, None, out)
        close(out.get(), joined(0), dtype, "out", 4)
        if with_gradient:
            grads = [gen.out(dtype, x.shape) for x in (q, k, v)]
            run("aclnnFlashAttentionUnpaddingScoreGrad", *tensors, gen.out(dtype, dy.shape, dy.astype(np.float32)), None, bits,
                None, mask, top, total, None, out, prefix and Ints(*prefix), *lengths, *common, *grads, None)
            for t, i, name in zip(grads, (3, 4, 5), ("dq", "dk", "dv")):
                close(t.get(), joined(i), dtype, name, 20)

    def test_all(self):
        each_case(self, "flat", CASES, lambda gen: self.case(gen, False))

    def test_gradient(self):
        each_case(self, "flat gradient", CASES // 2, lambda gen: self.case(gen, True))


def to_layout_back(x):
    return x.transpose(1, 0, 2)[None]


if __name__ == "__main__":
    unittest.main()
