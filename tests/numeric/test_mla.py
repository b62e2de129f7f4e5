# SPDX-License-Identifier: Apache-2.0
"""What precedes attention: MlaProlog, MlaPrologV2WeightNz, KvRmsNormRopeCache, V2, QkvRmsNormRopeCache,
and DequantRopeQuantKvcache."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Blocked, Ints, Tensor, contiguous, refused, run
from dtypes import BF16, F16, F32, I32, I64, I8, LD
from gen import each_case
from test_rotary import HALF, INTERLEAVE_HALF, rotate

CASES = 60
EPS = LD(2) ** -24


def rms_norm(x, gamma, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + LD(eps)) * gamma


def rounded(x, to):
    """x in a type (a function that rounds), and for which rows (along the last dimension) a small error of x does not
    change that."""
    return to(x).astype(LD), (to(x * (1 - LD(1e-5))) == to(x * (1 + LD(1e-5)))).all(-1)


def integers(x):
    return np.rint(x).clip(-128, 127)


def place(cache, slots, rows, blocked):
    """cache [pages, tokens, 1, n] with rows at their slots."""
    out = cache.copy()
    pages, tokens, _, n = cache.shape
    part = 32 // (1 if cache.dtype == np.int8 else 2)
    inner = out.reshape(pages, n // part, tokens, part) if blocked else out
    for slot, row in zip(slots, rows):
        if blocked:
            inner[slot // tokens, :, slot % tokens] = row.reshape(-1, part)
        else:
            inner[slot // tokens, slot % tokens, 0] = row
    return out


class Prolog(unittest.TestCase):
    KINDS = {"plain": "", "part": "u", "part, cache": "uk", "full": "xu", "full, cache": "xuk"}

    def problem(self, gen, v2, kind):
        """The arguments by name, the weights as matrices, and the tokens' slots. Letters of kind: int8 are x and its
        weights; weightUqQr; the cache."""
        lead = gen.pick(((gen.integer(1, 6),), (gen.integer(1, 3), gen.integer(1, 3))))
        if gen.chance(0.05):
            lead = (*lead[:-1], 0)
        he, hcq, n = gen.pick((16, 40, 64)), gen.pick((8, 16, 32, 33)), gen.integer(1, 3)
        d, wide, dr = gen.pick((4, 8, 16)), gen.pick((32, 64)), 32
        t = int(np.prod(lead))
        pages, tokens = gen.integer(1, 3), gen.pick((4, 16))
        slots = gen.rng.permutation(pages * tokens)[:t] if t <= pages * tokens else np.arange(t) % (pages * tokens)
        normal = lambda dtype, s: dtype.round(gen.rng.standard_normal(s))  # noqa: E731
        bf16 = lambda *s: gen.drawn(BF16, s, lambda s: normal(BF16, s))  # noqa: E731
        odd = lambda s: (2 * gen.rng.integers(-63, 63, s) + 1).astype(np.int8)  # noqa: E731
        int8 = lambda *s: gen.drawn(I8, s, odd)  # noqa: E731
        scale = lambda *s: gen.drawn(F32, s, lambda s: F32.round(gen.rng.uniform(0.001, 0.01, s)))  # noqa: E731

        dense = {}

        def weight(letter, name, *s):
            dense[name] = w = (int8 if letter in kind else bf16)(*s)
            if gen.chance(0.5):
                return w
            transposed = gen.chance(0.3)
            blocked = gen.keep(Blocked(w, transposed))
            if transposed or s[0] % 16 or s[1] % 32 or gen.chance(0.5):
                return blocked
            blocked.shape = blocked.storage_dims        # the blocks themselves, as in the pages' example
            blocked.strides = contiguous(blocked.shape)
            return blocked
        x, u, k = (letter in kind for letter in "xuk")
        wide_out = n * (d + dr)
        quantity = lambda s: F32.round(gen.rng.uniform(5, 40, s))  # noqa: E731
        a = {"x": (int8 if x else bf16)(*lead, he), "dq": weight("x", "dq", he, hcq),
             "uqqr": weight("u", "uqqr", hcq, wide_out), "uk": bf16(n, d, wide),
             "dkvkr": weight("x", "dkvkr", he, wide + dr), "gq": bf16(hcq), "gkv": bf16(wide),
             "sin": bf16(*lead, dr), "cos": bf16(*lead, dr),
             "index": gen.tensor(I64, lead, slots.reshape(lead).astype(np.int64)),
             "kv": (lambda t: gen.out(t, (pages, tokens, 1, wide), gen.values(t, (pages, tokens, 1, wide), limit=9)))(
                 I8 if k else BF16),
             "kr": (lambda t: gen.out(t, (pages, tokens, 1, dr), gen.values(t, (pages, tokens, 1, dr), limit=9)))(
                 I8 if k and not x else BF16),
             "x_scale": scale(t, 1) if x else None, "dq_scale": scale(1, hcq) if x else None,
             "uqqr_scale": scale(1, wide_out) if u else None, "dkvkr_scale": scale(1, wide + dr) if x else None,
             "ckv_scale": gen.drawn(F32, (1, wide), quantity) if k else None,
             "ckr_scale": gen.drawn(F32, (1, dr), quantity) if k and not x else None,
             "smooth": gen.drawn(F32, (1, hcq), lambda s: F32.round(gen.rng.uniform(0.5, 2, s)))
             if u and gen.chance(0.5) else None,
             "eps_q": 1e-5, "eps_kv": gen.pick((1e-5, 1e-6, 0.5)), "mode": b"PA_BSND",
             "query": gen.out(I8 if x and k else BF16, (*lead, n, wide)), "rope": gen.out(BF16, (*lead, n, dr))}
        if v2:
            a["query_scale"] = gen.out(F32, (t, n, 1)) if x and k else gen.pick((None, gen.out(F32, (1,))))
        if gen.chance(0.4):
            a["mode"] = b"PA_NZ"
            for name in ("kv", "kr"):
                a[name] = Tensor.of(a[name].dtype, a[name].get())
        elif gen.chance(0.2):
            a["mode"] = None
        return a, dense, slots

    def expect(self, a, dense, slots, kind):
        t = len(slots)
        v = {k: x.get().astype(LD) for k, x in {**a, **dense}.items() if isinstance(x, Tensor) and k[:5] != "query"}
        flat = lambda x: x.reshape(t, *x.shape[a["x"].get().ndim - 1:])  # noqa: E731
        x, sin, cos = (flat(v[name]) for name in ("x", "sin", "cos"))
        n, d, wide = a["uk"].shape
        dr = sin.shape[-1]

        def product(left, left_scale, name):
            """left @ weight, and the sum of the magnitudes of its terms."""
            by = left_scale * v.get(name + "_scale", LD(1))
            return left @ v[name] * by, np.abs(left) @ np.abs(v[name]) * by
        x_scale = v.get("x_scale", LD(1))
        low, _ = product(x, x_scale, "dq")
        cq = rms_norm(low, v["gq"], a["eps_q"])
        cq_scale = LD(1)
        if "u" in kind:
            cq = cq * v.get("smooth", LD(1))
            cq_scale = np.abs(cq).max(-1, keepdims=True) / 127
            cq, clear = rounded(cq / cq_scale, integers)
            off = (np.ones_like(cq) @ np.abs(v["uqqr"])) * cq_scale * v["uqqr_scale"]
        else:
            cq, clear = rounded(cq, BF16.round)
            off = np.abs(cq) @ np.abs(v["uqqr"]) * LD(2) ** -7
        high, high_size = (p.reshape(t, n, d + dr) for p in product(cq, cq_scale, "uqqr"))
        # Where a factor may be rounded the other way, the result may be off by `off`.
        off = off.reshape(t, n, d + dr) * ~clear[:, None, None] + 1e-5 * high_size
        latent, clear = rounded(high[..., :d], BF16.round)
        off_latent = off[..., :d] + np.abs(latent) * LD(2) ** -7 * ~clear[..., None]
        query = np.einsum("tnd,ndc->tnc", latent, v["uk"])
        off_query = np.einsum("tnd,ndc->tnc", off_latent + 1e-6 * np.abs(latent), np.abs(v["uk"]))
        rope, rope_size = rotate(high[..., d:], cos[:, None], sin[:, None], INTERLEAVE_HALF)
        _, off_rope = rotate(off[..., d:], np.abs(cos[:, None]), np.abs(sin[:, None]), INTERLEAVE_HALF)
        self.check_query(a, flat, query, off_query, rope, off_rope + 1e-6 * rope_size, v, kind)
        key, key_size = product(x, x_scale, "dkvkr")
        ckv = rms_norm(key[:, :wide], v["gkv"], a["eps_kv"])
        square = lambda x: (x[:, :wide] ** 2).mean(-1, keepdims=True)  # noqa: E731
        spread = np.sqrt(square(key_size) / (square(key) + a["eps_kv"]))
        off_ckv = 1e-5 * (np.abs(ckv) * spread + rms_norm(key_size[:, :wide], np.abs(v["gkv"]), a["eps_kv"]) * spread)
        ckr, ckr_size = rotate(key[:, wide:], cos, sin, INTERLEAVE_HALF)
        _, off_ckr = rotate(1e-5 * key_size[:, wide:], np.abs(cos), np.abs(sin), INTERLEAVE_HALF)
        return (("kv", ckv, off_ckv, v.get("ckv_scale")), ("kr", ckr, off_ckr + 1e-6 * ckr_size, v.get("ckr_scale")))

    def check_query(self, a, flat, query, off_query, rope, off_rope, v, kind):
        got, got_rope = flat(a["query"].get()), flat(a["rope"].get())
        if "x" not in kind or "k" not in kind:
            ref.check(got, query, BF16, F32, ulps=1, slack=off_query, what="query")
            ref.check(got_rope, rope, BF16, F32, ulps=1, slack=off_rope, what="rope")
            return
        off_query = off_query + np.abs(query) * LD(2) ** -8
        scale = a["query_scale"].get().astype(LD)
        most, off_most = np.abs(query).max(-1, keepdims=True), off_query.max(-1, keepdims=True)
        assert np.all(np.abs(scale - most / 127) <= off_most / 127 + 1e-6 * most), "query's scale"
        assert np.all(np.abs(got * scale - query) <= off_query + 0.501 * scale), "query"
        assert np.all(np.abs(got).max(-1)[scale[..., 0] > 0] == 127), "query's range"
        by = v["ckv_scale"][0, 0] / scale
        ref.check(got_rope, rope * by, BF16, F32, ulps=3,
                  slack=(off_rope + np.abs(rope) * LD(2) ** -8) * by, what="rope, scaled")

    def case(self, gen, name, kind):
        v2 = name.endswith("WeightNz")
        a, dense, slots = self.problem(gen, v2, kind)
        before = {k: a[k].get().copy() for k in ("kv", "kr")}
        run(name, *a.values())
        if not len(slots):
            rows = [(k, np.zeros((0, before[k].shape[-1]), LD), 0, None) for k in ("kv", "kr")]
        else:
            rows = self.expect(a, dense, slots, kind)
        for k, exact, off, scale in rows:
            dtype, blocked = a[k].dtype, a["mode"] == b"PA_NZ"
            if dtype is I8:
                by = (scale[0, 0] if "x" in kind else scale) if len(slots) else 1
                low, high = (integers(np.rint((exact + s * off) * by)) for s in (-1, 1))
            else:
                low, high = ref.bounds(exact, F32, BF16, 1, off)
            got = a[k].get().astype(LD)
            low, high = (place(before[k].astype(LD) if dtype is not I8 else before[k], slots, x, blocked).astype(LD)
                         for x in (low, high))
            ref.complain(got, low, (np.minimum(low, high) <= got) & (got <= np.maximum(low, high)), k,
                         lambda i: f"up to {high[i]}")

    def test_v1(self):
        for words, kind in list(self.KINDS.items())[:3]:
            each_case(self, words, CASES // 3, lambda gen, kind=kind: self.case(gen, "aclnnMlaProlog", kind))

    def test_v2(self):
        for words, kind in self.KINDS.items():
            each_case(self, "v2 " + words, CASES // 4,
                      lambda gen, kind=kind: self.case(gen, "aclnnMlaPrologV2WeightNz", kind))

    def test_refused(self):
        t, he, hcq, n, d, wide, dr = 2, 16, 8, 2, 4, 32, 16
        e = lambda *s, t=BF16: Tensor.empty(t, s)  # noqa: E731
        usual = {"x": e(t, he), "dq": e(he, hcq), "uqqr": e(hcq, n * (d + dr)), "uk": e(n, d, wide),
                 "dkvkr": e(he, wide + dr), "gq": e(hcq), "gkv": e(wide), "sin": e(t, dr), "cos": e(t, dr),
                 "index": Tensor.of(I64, [0, 1]), "kv": e(1, 4, 1, wide), "kr": e(1, 4, 1, dr), "xs": None, "dqs": None,
                 "us": None, "ks": None, "cs": None, "rs": None, "smooth": None, "a": 1e-5, "b": 1e-5, "mode": None,
                 "query": e(t, n, wide), "rope": e(t, n, dr), "qs": None}
        for words, change in (
                ("tokenX has dtype FLOAT16", {"x": e(t, he, t=F16)}),
                ("weightDq has shape [16, 9], expected [16, 8]", {"dq": e(he, 9)}),
                ("weightUqQr has shape [8, 8]", {"uqqr": e(hcq, 8)}),
                ("weightDkvKr has dtype INT8", {"dkvkr": e(he, wide + dr, t=I8)}),
                ("rmsnormGammaCkv has shape [31]", {"gkv": e(31)}),
                ("ropeSin has 15 columns, expected an even number", {"sin": e(t, 15)}),
                ("ropeCos has shape [1, 16]", {"cos": e(1, dr)}),
                ("cacheIndex has shape [2, 1]", {"index": Tensor.of(I64, [[0], [1]])}),
                ("kvCacheRef has dtype INT8", {"kv": e(1, 4, 1, wide, t=I8)}),
                ("kvCacheRef has shape [1, 4, 2, 32]", {"kv": e(1, 4, 2, wide)}),
                ("krCacheRef has shape [2, 4, 1, 16], expected pages as in kvCacheRef", {"kr": e(2, 4, 1, dr)}),
                ('cacheModeOptional is "BSND"', {"mode": b"BSND"}),
                ("dequantScaleWUqQrOptional is NULL", {"uqqr": e(hcq, n * (d + dr), t=I8)}),
                ("smoothScalesCqOptional is a tensor", {"smooth": e(1, hcq, t=F32)}),
                ("dequantScaleXOptional is a tensor", {"xs": e(t, 1, t=F32)}),
                ("queryOut has dtype FLOAT", {"query": e(t, n, wide, t=F32)}),
                ("queryRopeOut has shape [2, 2, 17]", {"rope": e(t, n, 17)})):
            code, message = refused("aclnnMlaPrologV2WeightNz", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        code, message = refused("aclnnMlaProlog", *list({**usual, "x": e(t, he, t=I8)}.values())[:-1])
        self.assertEqual(code, INVALID)
        self.assertIn("tokenX has dtype INT8", message)
        for slot in (-1, 4):
            with self.assertRaisesRegex(AclError, "cacheIndex"):
                run("aclnnMlaPrologV2WeightNz", *{**usual, "index": Tensor.of(I64, [0, slot])}.values())



def quantised(x, size, scale, offset, divides=False):
    """The least and the largest integer that a row may become; its error is up to 4 EPS times size."""
    by = 1 / scale if divides else scale
    off = 4 * EPS * (size * np.abs(by) + np.abs(x * by))
    return tuple(integers(x * by + s * off + (0 if offset is None else offset)) for s in (-1, 1))


def check_cache(got, before, dtype, rows, places, what):
    """rows: (low, high) or (exact, slack) of each token's row; places: its index in the cache, or None."""
    low, high = before.astype(LD), before.astype(LD)
    for i, at in enumerate(places):
        if at is not None:
            low[at], high[at] = rows[0][i], rows[1][i]
    got = got.astype(LD)
    ref.complain(got, low, (np.minimum(low, high) <= got) & (got <= np.maximum(low, high)), what,
                 lambda i: f"up to {high[i]}")


class KvNormRope(unittest.TestCase):
    MODES = (b"Norm", None, b"PA", b"PA_BNSD", b"PA_NZ", b"PA_BLK_BNSD", b"PA_BLK_NZ")

    def cache(self, gen, dtype, mode, count, size, heads, n):
        shape = (count, heads, size, n) if mode in (b"Norm", None) else (count, size, heads, n)
        values = gen.values(dtype, shape, limit=9)
        return Tensor.of(dtype, values) if mode and mode.endswith(b"NZ") else gen.out(dtype, shape, values)

    def places(self, mode, index, cache, heads):
        """For each token (batch, position) the function of a head that gives its row's index in a plain view."""
        size = cache.shape[2 if mode in (b"Norm", None) else 1]
        batches, tokens = index.shape if mode in (b"Norm", None) else self.lead
        out = {}
        for b in range(batches):
            for t in range(tokens):
                if mode in (b"Norm", None):
                    slot = b * size + index[b, t] if index[b, t] >= 0 else None
                elif mode.startswith(b"PA_BLK"):
                    value = index[b * -(-tokens // size) + t // size]
                    slot = value // size * size + t % size if value >= 0 else None
                else:
                    value = index[b * tokens + t]
                    slot = value if value >= 0 else None
                out[b, t] = slot
        return out, size

    def plain(self, values, mode, size, heads, n, item):
        """The cache as [slots, heads, n]."""
        if mode in (b"Norm", None):
            return values.transpose(0, 2, 1, 3).reshape(-1, heads, n)
        if mode.endswith(b"NZ"):
            part = 32 // item
            return values.reshape(-1, heads, n // part, size, part).transpose(0, 3, 1, 2, 4).reshape(-1, heads, n)
        return values.reshape(-1, heads, n)

    def case(self, gen, v2):
        dtype, mode = gen.pick((F16, BF16)), gen.pick(self.MODES)
        batches, heads, tokens = gen.integer(1, 3), gen.integer(1, 3), gen.pick((1, 2, 5))
        apart = v2 and gen.chance(0.6)
        rot, dv, size = gen.pick((32, 64)), gen.pick((32, 96)), gen.pick((4, 8, 16))
        wide = rot + gen.pick((0, 32)) if apart else rot + dv
        dk = wide if apart else rot
        self.lead = batches, tokens
        draw = lambda *s: gen.drawn(dtype, s, lambda s: dtype.round(gen.rng.standard_normal(s)))  # noqa: E731
        pages = -(-tokens // size)
        count = batches + 1 if mode in (b"Norm", None) else max(batches * pages, -(-batches * tokens // size)) + 1
        if mode in (b"Norm", None):
            index = np.stack([gen.rng.permutation(size)[:tokens] if tokens <= size else np.arange(size)[:tokens]
                              for _ in range(batches)])
            if tokens > size:
                return
        elif mode.startswith(b"PA_BLK"):
            index = gen.rng.permutation(count)[:batches * pages] * size + gen.integer(0, size - 1)
        else:
            index = gen.rng.permutation(count * size)[:batches * tokens]
        index = np.where(gen.rng.random(index.shape) < 0.1, -1, index)
        int8 = [gen.chance(0.4), gen.chance(0.4)]
        caches = [self.cache(gen, I8 if q else dtype, mode, count, size, heads, n) for q, n in zip(int8, (dk, dv))]
        factor = lambda n, q, low, high: gen.drawn(  # noqa: E731
            F32, gen.pick(((n,), (1, n), (heads, n), (1,))), lambda s: F32.round(gen.rng.uniform(low, high, s))) \
            if q else None
        scales = [factor(n, q, 5, 60) for q, n in zip(int8, (dk, dv))]
        offsets = [factor(n, q and gen.chance(0.4), -30, 30) for q, n in zip(int8, (dk, dv))]
        table = (batches, gen.pick((1, heads)), gen.pick((1, tokens)), rot)
        kv, gamma = draw(batches, heads, tokens, wide), draw(wide if apart else dv)
        cos, sin = draw(*table), draw(*table)
        v = draw(batches, heads, tokens, dv) if apart else None
        eps, outputs = gen.pick((1e-5, 0.1)), gen.chance(0.6)
        outs = [gen.out(dtype, (batches, heads, tokens, n)) for n in (dk, dv)]
        before = [c.get().copy() for c in caches]
        last = outs if outputs else gen.pick((outs, [None, None]))
        extra = [v] if v2 else []
        run("aclnnKvRmsNormRopeCache" + ("V2" if v2 else ""), kv, gamma, cos, sin,
            gen.tensor(I64, index.shape, index.astype(np.int64)), *caches, *scales, *offsets, *extra, eps, mode,
            outputs, *last)
        x, g, c, s = (t.get().astype(LD) for t in (kv, gamma, cos, sin))
        if apart:
            normal = rms_norm(x, g, eps)
            turned, size_turned = rotate(normal[..., :rot], c, s, INTERLEAVE_HALF)
            key = np.concatenate([turned, normal[..., rot:]], -1)
            key_size = np.concatenate([size_turned, np.abs(normal[..., rot:])], -1)
            value = v.get().astype(LD)
        else:
            value = rms_norm(x[..., :dv], g, eps)
            key, key_size = rotate(x[..., dv:], c, s, INTERLEAVE_HALF)
        slots, page = self.places(mode, index, caches[0], heads)
        for i, (exact, term, n) in enumerate(((key, key_size, dk), (value, np.abs(value), dv))):
            what = ("key", "value")[i]
            if outputs:
                ref.check(outs[i].get(), exact, dtype, F32, ulps=1, slack=8 * EPS * term, what=what)
            if int8[i]:
                scale = np.broadcast_to(scales[i].get().astype(LD), (heads, n))
                offset = offsets[i] and np.broadcast_to(offsets[i].get().astype(LD), (heads, n))
                rows = quantised(exact.transpose(0, 2, 1, 3), 4 * term.transpose(0, 2, 1, 3), scale, offset)
            else:
                rows = ref.bounds(exact.transpose(0, 2, 1, 3), F32, dtype, 1, 8 * EPS * term.transpose(0, 2, 1, 3))
            item = 1 if int8[i] else 2
            flat = [self.plain(a, mode, page, heads, n, item) for a in (caches[i].get(), before[i])]
            check_cache(*flat, dtype, [r.reshape(-1, heads, n) for r in rows],
                        [slots[b, t] for b in range(batches) for t in range(tokens)], "cache of " + what)

    def test_v1(self):
        each_case(self, "aclnnKvRmsNormRopeCache", CASES, lambda gen: self.case(gen, False))

    def test_v2(self):
        each_case(self, "aclnnKvRmsNormRopeCacheV2", CASES, lambda gen: self.case(gen, True))

    def test_refused(self):
        e = lambda *s, t=F16: Tensor.empty(t, s)  # noqa: E731
        usual = {"kv": e(2, 1, 3, 48), "gamma": e(32), "cos": e(2, 1, 3, 16), "sin": e(2, 1, 3, 16),
                 "index": Tensor.of(I64, np.arange(6)), "k": e(2, 16, 1, 16), "ckv": e(2, 16, 1, 32), "ks": None,
                 "cs": None, "ko": None, "co": None, "eps": 1e-5, "mode": b"PA", "out": False, "kout": None,
                 "cout": None}
        for words, change in (
                ("kv has dtype FLOAT", {"kv": e(2, 1, 3, 48, t=F32)}), ("gamma has shape [31]", {"gamma": e(31)}),
                ("cos has shape [1, 1, 3, 16]", {"cos": e(1, 1, 3, 16)}),
                ("cos has 15 columns", {"cos": e(2, 1, 3, 15)}),
                ("sin has dtype BF16", {"sin": e(2, 1, 3, 16, t=BF16)}),
                ("index has shape [2, 3], expected [6]", {"index": Tensor.of(I64, [[0, 1, 2], [3, 4, 5]])}),
                ("index has shape [6], expected [2]", {"mode": b"PA_BLK_BNSD"}),
                ('cacheModeOptional is "BSND"', {"mode": b"BSND"}),
                ("kCacheRef has shape [2, 16, 1, 16], expected [batches, heads, tokens, 1, 16]", {"mode": b"Norm"}),
                ("ckvCacheRef has 48 tokens", {"ckv": e(3, 16, 1, 32)}),
                ("ckvCacheRef has dtype BF16", {"ckv": e(2, 16, 1, 32, t=BF16)}),
                ("kRopeScaleOptional is NULL", {"k": e(2, 16, 1, 16, t=I8)}),
                ("cKvScaleOptional is a tensor", {"cs": e(32, t=F32)}),
                ("kRopeOut is NULL, expected a tensor as isOutputKv is true", {"out": True}),
                ("kCacheRef has rows of 8 elements, expected a multiple of 16",
                 {"kv": e(2, 1, 3, 40), "cos": e(2, 1, 3, 8), "sin": e(2, 1, 3, 8), "k": e(2, 16, 1, 8),
                  "mode": b"PA_NZ"})):
            code, message = refused("aclnnKvRmsNormRopeCache", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        for value in (-2, 32):
            with self.assertRaisesRegex(AclError, "index"):
                run("aclnnKvRmsNormRopeCache", *{**usual, "index": Tensor.of(I64, [0, 1, 2, 3, 4, value])}.values())


class QkvNormRope(unittest.TestCase):
    def test_rows(self):
        def body(gen):
            dtype, d = gen.pick((F16, BF16)), gen.pick((32, 64))
            b, s, nq, nk = gen.integer(1, 3), gen.integer(1, 3), gen.integer(0, 3), gen.integer(1, 2)
            t, count, size = b * s, gen.integer(1, 3), gen.pick((4, 16))
            draw = lambda *s: gen.drawn(dtype, s, lambda s: dtype.round(gen.rng.standard_normal(s)))  # noqa: E731
            qkv, gammas, cos, sin = draw(t, (nq + 2 * nk) * d), [draw(d), draw(d)], draw(t, d), draw(t, d)
            slots = gen.rng.permutation(count * size)[:t]
            slots = np.concatenate([slots, -np.ones(t - len(slots), int)])
            int8 = [gen.chance(0.5), gen.chance(0.5)]
            caches = [gen.out(I8, (count, nk * d // 32, size, 32), gen.values(I8, (count, nk * d // 32, size, 32)))
                      if q else gen.out(dtype, (count, nk * d // 16, size, 16),
                                        gen.values(dtype, (count, nk * d // 16, size, 16), limit=9)) for q in int8]
            factor = lambda q, low, high: gen.drawn(  # noqa: E731
                F32, (nk, d), lambda s: F32.round(gen.rng.uniform(low, high, s))) if q else None
            scales, offsets = [factor(q, 0.01, 0.1) for q in int8], [factor(q and gen.chance(0.5), -9, 9) for q in int8]
            out, eps, more = gen.out(dtype, (t, nq * d)), gen.pick((1e-6, 0.1)), gen.chance(0.5)
            wanted = [gen.out(dtype, (t, n * d)) if more else None for n in (nq, nk, nk)]
            before = [c.get().copy() for c in caches]
            run("aclnnQkvRmsNormRopeCache", qkv, *gammas, cos, sin, gen.tensor(I64, (t,), slots), out, *caches, *scales,
                *offsets, Ints(b, s, nq + 2 * nk, d), Ints(nq, nk, nk), eps, gen.pick((b"PA_NZ", None)), *wanted)
            x = qkv.get().astype(LD).reshape(t, -1, d)
            tables = [a.get().astype(LD)[:, None] for a in (cos, sin)]
            q, k = (rotate(rms_norm(part, g.get().astype(LD), eps), *tables, HALF)
                    for part, g in zip((x[:, :nq], x[:, nq:nq + nk]), gammas))
            v = x[:, nq + nk:], np.abs(x[:, nq + nk:])
            for name, got, (exact, term) in zip("qqkv", (out, *wanted), (q, q, k, v)):
                if got is not None:
                    ref.check(got.get().reshape(exact.shape), exact, dtype, F32, ulps=1, slack=8 * EPS * term,
                              what=name)
            for i, (exact, term) in enumerate((k, v)):
                if int8[i]:
                    scale, offset = scales[i].get().astype(LD), offsets[i] and offsets[i].get().astype(LD)
                    rows = quantised(exact, 4 * term, scale, offset, True)
                else:
                    rows = ref.bounds(exact, F32, dtype, 1, 8 * EPS * term)
                part = 32 if int8[i] else 16
                flat = [a.reshape(count, nk, d // part, size, part).transpose(0, 3, 1, 2, 4).reshape(-1, nk, d)
                        for a in (caches[i].get(), before[i])]
                check_cache(*flat, dtype, rows, [n if n >= 0 else None for n in slots], "cache of " + "kv"[i])
        each_case(self, "aclnnQkvRmsNormRopeCache", CASES, body)

    def test_refused(self):
        e = lambda *s, t=F16: Tensor.empty(t, s)  # noqa: E731
        usual = {"qkv": e(4, 3 * 32), "qg": e(32), "kg": e(32), "cos": e(4, 32), "sin": e(4, 32),
                 "index": Tensor.of(I64, np.arange(4)), "q": e(4, 32), "k": e(2, 2, 4, 16), "v": e(2, 2, 4, 16),
                 "ks": None, "vs": None, "ko": None, "vo": None, "size": Ints(2, 2, 3, 32), "heads": Ints(1, 1, 1),
                 "eps": 1e-6, "mode": b"PA_NZ", "a": None, "b": None, "c": None}
        for words, change in (
                ("qkvSize has 3 elements", {"size": Ints(2, 2, 3)}), ("headNums[0] is 4", {"heads": Ints(4, 1, 1)}),
                ("headNums has the sum 3", {"heads": Ints(2, 1, 0)}),
                ("qkv has shape [4, 96]", {"size": Ints(2, 2, 3, 16)}),
                ("kGamma has shape [31]", {"kg": e(31)}), ("kCache has shape [2, 3, 4, 16]", {"k": e(2, 3, 4, 16)}),
                ("vCache has 4 tokens", {"v": e(1, 2, 4, 16)}), ("kScaleOptional is NULL", {"k": e(2, 1, 4, 32, t=I8)}),
                ("vOffsetOptional is a tensor", {"vo": e(1, 32, t=F32)}),
                ('cacheModeOptional is "PA_BNSD"', {"mode": b"PA_BNSD"}), ("cos has shape [4, 16]", {"cos": e(4, 16)})):
            code, message = refused("aclnnQkvRmsNormRopeCache", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        with self.assertRaisesRegex(AclError, "index"):
            run("aclnnQkvRmsNormRopeCache", *{**usual, "index": Tensor.of(I64, [0, 1, 2, 8])}.values())



class DequantRope(unittest.TestCase):
    def test_rows(self):
        def body(gen):
            dtype, d, batched, paged = gen.pick((F16, BF16)), gen.pick((8, 32)), gen.chance(0.6), gen.chance(0.5)
            b, s, nq, nk = gen.integer(1, 3), gen.integer(1, 4) if batched else 1, gen.integer(0, 3), gen.integer(1, 2)
            lead, n, sums = (b, s) if batched else (b,), (nq + 2 * nk) * d, gen.chance(0.6)
            normal = lambda *s: gen.drawn(dtype, s, lambda s: dtype.round(gen.rng.standard_normal(s)))  # noqa: E731
            number = lambda low, high, *s: gen.drawn(  # noqa: E731
                F32, s, lambda s: F32.round(gen.rng.uniform(low, high, s)))
            x = gen.drawn(I32, (*lead, n), lambda s: gen.rng.integers(-9999, 9999, s).astype(np.int32)) if sums \
                else normal(*lead, n)
            tables = [normal(*lead, *([1] if batched else []), d) for _ in range(2)]
            count, size = b + gen.integer(0, 1), s + gen.integer(0, 5)
            indices = gen.rng.permutation(count * size)[:b * s] if paged else gen.rng.integers(0, size - s + 1, b)
            caches = [gen.out(I8, (count, size, nk, d), gen.values(I8, (count, size, nk, d))) for _ in range(2)]
            factor = lambda low, high: number(low, high, *gen.pick(((nk, d), (nk * d,))))  # noqa: E731
            scales = [factor(5, 50) for _ in range(2)]
            offsets = [factor(-20, 20) if gen.chance(0.5) else None for _ in range(2)]
            weight = number(1e-4, 1e-3, n) if sums else gen.pick((None, number(0, 1, n)))
            row = number(0.5, 2, b * s) if gen.chance(0.5) else None
            kind = gen.pick((F32, F16, BF16, I32, None))
            bias = None if kind is None else gen.drawn(kind, (n,), lambda s: (
                gen.rng.integers(-999, 999, s).astype(np.int32) if kind is I32
                else kind.round(gen.rng.standard_normal(s))))
            outputs = gen.chance(0.5)
            outs = [gen.out(dtype, (*lead, m, d)) for m in (nq, nk, nk)]
            before = [c.get().copy() for c in caches]
            run("aclnnDequantRopeQuantKvcache", x, *tables, *caches,
                gen.tensor(I32, indices.shape, indices.astype(np.int32)), *scales, *offsets, weight, row, bias,
                Ints(nq * d, nk * d, nk * d), gen.pick((b"static", None)), gen.pick((b"BSND", None)),
                outputs, b"page" if paged else gen.pick((b"contiguous", None)),
                *(outs if outputs or gen.chance(0.5) else (outs[0], None, None)))
            v = x.get().astype(LD).reshape(b * s, n)
            if sums:
                add = LD(0) if bias is None else bias.get().astype(LD)
                by = weight.get().astype(LD) * (1 if row is None else row.get().astype(LD)[:, None])
                v = (v + add) * by if kind is I32 else v * by + add
            v = v.reshape(b * s, -1, d)
            cos, sin = (t.get().astype(LD).reshape(b * s, 1, d) for t in tables)
            q, k = (rotate(part, cos, sin, HALF) for part in (v[:, :nq], v[:, nq:nq + nk]))
            value = v[:, nq + nk:], np.abs(v[:, nq + nk:])
            wanted = zip("qkv", outs if outputs else outs[:1], (q, k, value))
            for name, out, (exact, term) in wanted:
                ref.check(out.get().reshape(exact.shape), exact, dtype, F32, ulps=2, slack=4 * EPS * term, what=name)
            places = indices if paged else [i * size + indices[i] + j for i in range(b) for j in range(s)]
            for i, (exact, term) in enumerate((k, value)):
                scale, offset = (t and t.get().astype(LD).reshape(nk, d) for t in (scales[i], offsets[i]))
                rows = quantised(exact, 2 * term, scale, offset)
                check_cache(*(a.reshape(-1, nk, d) for a in (caches[i].get(), before[i])), I8, rows, places, "kv"[i])
        each_case(self, "aclnnDequantRopeQuantKvcache", CASES, body)

    def test_refused(self):
        e = lambda *s, t=F16: Tensor.empty(t, s)  # noqa: E731
        usual = {"x": e(2, 3, 24), "cos": e(2, 3, 1, 8), "sin": e(2, 3, 1, 8), "k": e(2, 4, 1, 8, t=I8),
                 "v": e(2, 4, 1, 8, t=I8), "index": Tensor.of(I32, [0, 1]), "ks": e(8, t=F32), "vs": e(8, t=F32),
                 "ko": None, "vo": None, "w": None, "a": None, "bias": None, "sizes": Ints(8, 8, 8), "quant": b"static",
                 "layout": None, "out": False, "mode": None, "q": e(2, 3, 1, 8), "kout": None, "vout": None}
        for words, change in (
                ("sizeSplits[1] is 12", {"sizes": Ints(8, 12, 4)}),
                ("sizeSplits has the sum 16", {"sizes": Ints(0, 8, 8)}),
                ('quantModeOptional is "dynamic"', {"quant": b"dynamic"}),
                ('layoutOptional is "BNSD"', {"layout": b"BNSD"}),
                ('cacheModeOptional is "paged"', {"mode": b"paged"}), ("x has dtype FLOAT", {"x": e(2, 3, 24, t=F32)}),
                ("weightScaleOptional is NULL", {"x": e(2, 3, 24, t=I32)}),
                ("kCacheRef has dtype FLOAT16", {"k": e(2, 4, 1, 8)}), ("scaleV has shape [7]", {"vs": e(7, t=F32)}),
                ("indices has shape [2], expected [6]", {"mode": b"page"}), ("kOut is NULL", {"out": True}),
                ("kCacheRef has shape [1, 4, 1, 8], expected 2", {"k": e(1, 4, 1, 8, t=I8), "v": e(1, 4, 1, 8, t=I8)})):
            code, message = refused("aclnnDequantRopeQuantKvcache", *{**usual, **change}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)
        for value in (-1, 2):
            with self.assertRaisesRegex(AclError, "indices"):
                run("aclnnDequantRopeQuantKvcache", *{**usual, "index": Tensor.of(I32, [0, value])}.values())


if __name__ == "__main__":
    unittest.main()
