# SPDX-License-Identifier: Apache-2.0
"""RotaryPositionEmbedding and related operators, and RingAttentionUpdate, compared with long double."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Tensor, refused, run
from dtypes import BF16, F16, F32, LD, I64
from gen import each_case

EPS = LD(2) ** -24
HALF, INTERLEAVE, QUARTER, INTERLEAVE_HALF = range(4)


def parts(x, mode):
    """The factors of cos and of sin."""
    d = x.shape[-1]
    if mode == HALF:
        return x, np.concatenate([-x[..., d // 2:], x[..., :d // 2]], -1)
    if mode == INTERLEAVE:
        return x, np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    if mode == QUARTER:
        a, b, c, e = np.split(x, 4, -1)
        return x, np.concatenate([-b, a, -e, c], -1)
    return np.concatenate([x[..., ::2], x[..., 1::2]], -1), np.concatenate([-x[..., 1::2], x[..., ::2]], -1)


def rotate(x, cos, sin, mode):
    """The result, and the sum of the magnitudes of its terms."""
    a, b = (p * t for p, t in zip(parts(x, mode), (cos, sin)))
    return a + b, np.abs(a) + np.abs(b)


def matrix(d, mode):
    """The factors of cos and of sin as matrices: factor = matrix @ x."""
    eye = np.eye(d, dtype=LD)
    return [p.T for p in parts(eye, mode)]


def problem(gen, max_d=200):
    mode = gen.integer(0, 3)
    d = 4 * gen.pick((1, 2, 8, 16, 20, 32, gen.integer(1, max_d // 4)))
    lead = [gen.pick((1, 2, 3, 7, 20)) for _ in range(3)]
    if gen.chance(0.05):
        lead[0] = 0
    which = gen.pick(((0, 0, 0), (1, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)))
    table = [n if w else 1 for n, w in zip(lead, which)]
    return mode, (*lead, d), (*table, d)


class Rotary(unittest.TestCase):
    def test_forward(self):
        def body(gen):
            mode, shape, table = problem(gen)
            dtype = gen.pick((F32, F16, BF16))
            mixed = gen.chance(0.2)
            x = gen.tensor(dtype, shape, dtype.round(gen.rng.standard_normal(shape)))
            cos, sin = (gen.drawn(F32 if mixed else dtype, table, lambda s: dtype.round(gen.rng.uniform(-1, 1, s)))
                        for _ in range(2))
            exact, size = rotate(*(t.get().astype(LD) for t in (x, cos, sin)), mode)
            in_place = gen.chance(0.3)
            out = x if in_place else gen.out(dtype, shape)
            run("aclnnRotaryPositionEmbedding", x, cos, sin, mode, out)
            ref.check(out.get(), exact, dtype, F32, ulps=1, slack=2 * EPS * size, what=f"mode {mode}")
        each_case(self, "forward", 150, body)
        out = Tensor.empty(F32, (2, 0, 3, 8))
        run("aclnnRotaryPositionEmbedding", out, Tensor.empty(F32, (5,)), Tensor.empty(F32, (1, 4)), HALF, out)

    def test_matrix(self):
        """V2 without a matrix, or with one, whose product with x is multiplied by the sines."""
        def body(gen):
            mode, shape, table = problem(gen, 64)
            if gen.chance(0.3) and shape[0] == 1:           # the layout TND
                shape, table = shape[1:], table[1:]
            dtype = gen.pick((F32, F16, BF16))
            d = shape[-1]
            draw = lambda s: dtype.round(gen.rng.standard_normal(s))  # noqa: E731
            x, cos, sin = gen.tensor(dtype, shape, draw(shape)), *(gen.drawn(dtype, table, draw) for _ in range(2))
            turn = gen.drawn(dtype, (d, d), draw) if gen.chance(0.7) else None
            out = x if gen.chance(0.3) else gen.out(dtype, shape)
            v, c, s = (t.get().astype(LD) for t in (x, cos, sin))
            exact, size = rotate(v, c, s, mode)
            if turn:
                m = turn.get().astype(LD)
                exact, size = v * c + v @ m * s, np.abs(v * c) + d * np.abs(v) @ np.abs(m) * np.abs(s)
            run("aclnnRotaryPositionEmbeddingV2", x, cos, sin, mode, turn, out)
            ref.check(out.get(), exact, dtype, F32, ulps=1, slack=2 * EPS * size, what=f"mode {mode}")
        each_case(self, "aclnnRotaryPositionEmbeddingV2", 30, body)
        z = Tensor.empty(F32, (1, 2, 3, 8))
        for words, turn in (("rotate has shape [8, 4]", Tensor.empty(F32, (8, 4))),
                            ("rotate has dtype FLOAT16", Tensor.empty(F16, (8, 8)))):
            code, message = refused("aclnnRotaryPositionEmbeddingV2", z, z, z, 0, turn, z)
            assert code == INVALID and words in message

    def test_backward(self):
        """The gradient is computed with the transposed matrices of the two factors."""
        def body(gen):
            mode, shape, table = problem(gen, 64)
            dtype = gen.pick((F32, F16, BF16))
            draw = lambda s: dtype.round(gen.rng.standard_normal(s))  # noqa: E731
            dy, x = gen.tensor(dtype, shape, draw(shape)), gen.tensor(dtype, shape, draw(shape))
            cos, sin = (gen.drawn(dtype, table, draw) for _ in range(2))
            dx, dcos, dsin = gen.out(dtype, shape), gen.out(dtype, table), gen.out(dtype, table)
            with_x = gen.chance(0.7)
            run("aclnnRotaryPositionEmbeddingGrad", dy, cos, sin, x if with_x else None, mode,
                dx, dcos if with_x else None, dsin if with_x else None)
            g, c, s, v = (t.get().astype(LD) for t in (dy, cos, sin, x))
            m1, m2 = matrix(shape[-1], mode)
            terms = (g * c) @ m1, (g * s) @ m2
            ref.check(dx.get(), sum(terms), dtype, F32, ulps=1, slack=2 * EPS * sum(map(np.abs, terms)),
                      what=f"dx {mode}")
            if not with_x:
                return
            axes = tuple(i for i, (a, b) in enumerate(zip(shape, table)) if a != b)
            for out, part, name in zip((dcos, dsin), parts(v, mode), ("dcos", "dsin")):
                exact = (g * part).sum(axes, keepdims=True)
                slack = 66 * EPS * np.abs(g * part).sum(axes, keepdims=True)
                ref.check(out.get(), exact, dtype, F32, ulps=1, slack=slack, what=f"{name} {mode}")
        each_case(self, "backward", 100, body)

    def test_apply(self):
        def body(gen):
            b, s, nq, nk, d = gen.integer(1, 3), gen.integer(1, 20), gen.integer(1, 4), gen.integer(1, 2), 128
            dtype = gen.pick((F32, F16, BF16))
            draw = lambda *shape: dtype.round(gen.rng.standard_normal(shape))  # noqa: E731
            q, k = gen.out(dtype, (b, s, nq, d), draw(b, s, nq, d)), gen.out(dtype, (b, s, nk, d), draw(b, s, nk, d))
            cos, sin = (gen.out(dtype, (b, s, 1, d), draw(b, s, 1, d)) for _ in range(2))
            exact = [rotate(*(t.get().astype(LD) for t in (x, cos, sin)), HALF) for x in (q, k)]
            run("aclnnApplyRotaryPosEmb", q, k, cos, sin, 1)
            for t, (e, size) in zip((q, k), exact):
                ref.check(t.get(), e, dtype, F32, ulps=1, slack=2 * EPS * size)
        each_case(self, "apply", 30, body)

    def test_apply_by_name(self):
        def body(gen):
            b, s, nq, nk = gen.integer(1, 3), gen.integer(1, 9), gen.integer(1, 4), gen.integer(1, 2)
            d = gen.pick((8, 64, 128))
            mode, name = gen.pick(((HALF, b"half"), (INTERLEAVE, b"interleave"), (QUARTER, b"quarter")))
            layout = gen.integer(1, 3)
            order = {1: (0, 1, 2), 2: (1, 0, 2), 3: (0, 2, 1)}[layout]
            shape = lambda heads: (*np.array((b, s, heads))[list(order)], d)  # noqa: E731
            dtype = gen.pick((F32, F16, BF16))
            draw = lambda heads: gen.out(  # noqa: E731
                dtype, shape(heads), dtype.round(gen.rng.standard_normal(shape(heads))))
            q, k, cos, sin = draw(nq), draw(nk), draw(1), draw(1)
            exact = [rotate(*(t.get().astype(LD) for t in (x, cos, sin)), mode) for x in (q, k)]
            run("aclnnApplyRotaryPosEmbV2", q, k, cos, sin, layout, name)
            for t, (e, size) in zip((q, k), exact):
                ref.check(t.get(), e, dtype, F32, ulps=1, slack=2 * EPS * size)
        each_case(self, "apply by name", 60, body)
        z = Tensor.empty(F32, (1, 2, 3, 8))
        code, message = refused("aclnnApplyRotaryPosEmbV2", z, z, z, z, 1, b"third")
        assert code == INVALID and 'rotaryMode is "third"' in message

    def test_interleave(self):
        def body(gen):
            b, n, s, d = gen.integer(1, 3), gen.integer(1, 4), gen.integer(1, 9), gen.pick((8, 64))
            dtype = gen.pick((F32, F16, BF16))
            draw = lambda *shape: gen.tensor(dtype, shape, dtype.round(gen.rng.standard_normal(shape)))  # noqa: E731
            x, cos, sin, out = draw(b, n, s, d), draw(b, 1, s, d), draw(b, 1, s, d), gen.out(dtype, (b, n, s, d))
            run("aclnnInterleaveRope", x, cos, sin, out)
            exact, size = rotate(*(t.get().astype(LD) for t in (x, cos, sin)), INTERLEAVE_HALF)
            ref.check(out.get(), exact, dtype, F32, ulps=1, slack=2 * EPS * size)
        each_case(self, "aclnnInterleaveRope", 40, body)

    def test_large(self):
        """Large enough for several threads."""
        def body(gen):
            x = Tensor.of(F32, gen.rng.standard_normal((1, 900, 24, 64)).astype(np.float32))
            cos, sin = (Tensor.of(F32, gen.rng.standard_normal((1, 900, 1, 64)).astype(np.float32)) for _ in range(2))
            exact, size = rotate(*(t.get().astype(np.float64) for t in (x, cos, sin)), HALF)
            out = Tensor.empty(F32, x.shape)
            run("aclnnRotaryPositionEmbedding", x, cos, sin, HALF, out)
            assert np.all(np.abs(out.get() - exact) <= 2e-7 * size)
        each_case(self, "large", 1, body)

    def test_errors(self):
        z = lambda *s, t=F32: Tensor.of(t, np.zeros(s, t.values))  # noqa: E731
        for args, words in (
                ((z(1, 2, 3, 8), z(1, 2, 1, 8), z(1, 2, 1, 8), 4, z(1, 2, 3, 8)), ("mode", "4")),
                ((z(1, 2, 3, 7), z(1, 2, 1, 7), z(1, 2, 1, 7), 0, z(1, 2, 3, 7)), ("x", "7")),
                ((z(1, 2, 3, 898), z(1, 2, 1, 898), z(1, 2, 1, 898), 0, z(1, 2, 3, 898)), ("x", "898", "896")),
                ((z(1, 2, 3, 6), z(1, 2, 1, 6), z(1, 2, 1, 6), 2, z(1, 2, 3, 6)), ("x", "6", "4")),
                ((z(1, 2, 3, 8), z(1, 3, 1, 8), z(1, 2, 1, 8), 0, z(1, 2, 3, 8)), ("cos", "[1, 3, 1, 8]")),
                ((z(1, 2, 3, 8), z(1, 2, 1, 8), z(1, 1, 1, 8), 0, z(1, 2, 3, 8)),
                 ("sin has shape [1, 1, 1, 8], expected [1, 2, 1, 8]",)),
                ((z(4, 2, 3, 8), z(1, 2, 3, 8), z(1, 2, 3, 8), 0, z(4, 2, 3, 8)),
                 ("cos has shape [1, 2, 3, 8], expected one that is not",)),
                ((z(2, 3, 8), z(2, 1, 8), z(2, 1, 8), 0, z(2, 3, 8)), ("x has 3 dimensions, expected 4",)),
                ((z(1, 2, 3, 8), z(1, 2, 1, 8), z(1, 2, 1, 8), 0, z(2, 8)), ("out", "[2, 8]")),
                ((z(1, 2, 3, 8, t=I64), z(1, 2, 1, 8), z(1, 2, 1, 8), 0, z(1, 2, 3, 8)), ("x", "INT64"))):
            code, message = refused("aclnnRotaryPositionEmbedding", *args)
            assert code == INVALID and all(w in message for w in words), (code, message)
        q, t = z(1, 2, 3, 128), z(1, 2, 1, 128)
        for args, words in (((q, t, t, t, 2), "layout"),
                            ((q, t, z(1, 1, 1, 128), t, 1), "cos has shape [1, 1, 1, 128], expected [1, 2, 1, 128]"),
                            ((q, z(1, 1, 2, 128), t, t, 1), "keyRef has shape [1, 1, 2, 128], expected [1, 2, 2, 128]"),
                            ((z(1, 2, 3, 64), t, t, t, 1),
                             "queryRef has 4 dimensions and 64 components, expected 4 and 128")):
            code, message = refused("aclnnApplyRotaryPosEmb", *args)
            assert code == INVALID and words in message, (code, message)
        code, message = refused("aclnnRotaryPositionEmbeddingGrad", *[z(1, 1, 2, 8)] * 4, 0, z(1, 1, 2, 8), None,
                                z(1, 1, 2, 8))
        assert code == INVALID and "dcosOut" in message


class Ring(unittest.TestCase):
    def case(self, gen, v2):
        """The statistics of the layout TND lie sequence by sequence, [heads, positions, 8] each, or as those of the
        results."""
        dtype, flat = gen.pick((F32, F16, BF16)), gen.chance(0.6)
        b, n, s, d = 1 if flat else gen.integer(1, 3), gen.integer(1, 3), gen.integer(1, 9), gen.pick((8, 64, 600))
        order = gen.pick((None, b"", b"SBH", b"TND")) if v2 else None
        ends = np.sort(np.concatenate([[0, s], gen.rng.integers(0, s + 1, gen.integer(0, 3))]))
        shape = (s, n, d) if flat else (s, b, n * d)
        stats = (s, n, 8) if flat else (b, n, s, 8)
        outs = [gen.out(dtype, shape, dtype.round(gen.rng.standard_normal(shape))) for _ in range(2)]
        tops = [np.float32(gen.rng.standard_normal((*stats[:-1], 1)) * 3) for _ in range(2)]
        sums = [np.float32(gen.rng.uniform(1, 9, (*stats[:-1], 1))) for _ in range(2)]
        if gen.chance(0.3):                                     # rows that attended to nothing
            tops[0][...], sums[0][...] = -np.inf, 0

        def laid(x):
            """As the operator has it."""
            if not flat or order == b"TND":
                return x
            parts = [x[a:z].swapaxes(0, 1).reshape(-1, 8) for a, z in zip(ends, ends[1:])]
            return np.concatenate(parts).reshape(x.shape)
        made = [[gen.out(F32, stats, laid(np.broadcast_to(x, stats))) for x in pair] for pair in (tops, sums)]
        results = gen.out(dtype, shape), gen.out(F32, stats), gen.out(F32, stats)
        lengths = gen.tensor(I64, ends.shape, ends) if flat else None
        run("aclnnRingAttentionUpdate" + "V2" * v2, outs[0], made[0][0], made[1][0], outs[1], made[0][1], made[1][1],
            lengths, b"TND" if flat else b"SBH", *([order] if v2 else []), *results)
        top = np.maximum(*tops).astype(LD)
        share = [x * np.exp(t - top) for x, t in zip(sums, tops)]
        total = sum(share)

        def as_rows(x):
            """Statistics [.., 1] of the softmax in a shape that the result can be multiplied by."""
            return x if flat else np.repeat(x.transpose(2, 0, 1, 3), d, -1).reshape(shape)
        terms = [o.get().astype(LD) * as_rows(w / total) for o, w in zip(outs, share)]
        ref.check(results[0].get(), sum(terms), dtype, F32, ulps=1, slack=12 * EPS * sum(map(np.abs, terms)),
                  what="out")
        ref.check_equal(results[1].get(), laid(np.broadcast_to(top, stats)).astype(np.float32), "max")
        ref.check(results[2].get(), laid(np.broadcast_to(total, stats)), F32, F32, ulps=6, what="sum")

    def test_update(self):
        each_case(self, "ring", 40, lambda gen: self.case(gen, False))
        each_case(self, "ring V2", 40, lambda gen: self.case(gen, True))

    def test_refused(self):
        x, t = Tensor.empty(F32, (3, 2, 8)), Tensor.empty(F32, (3, 2, 8))
        usual = x, t, t, x, t, t
        for words, ends, order in (("actualSeqQlenOptional is NULL", None, None),
                                   ('inputSoftmaxLayoutOptional is "BNS"', Tensor.of(I64, [0, 3]), b"BNS"),
                                   ("actualSeqQlenOptional has shape [1]", Tensor.of(I64, [0]), b"SBH")):
            code, message = refused("aclnnRingAttentionUpdateV2", *usual, ends, b"TND", order, x, t, t)
            assert code == INVALID and words in message, message
        for ends in ([1, 3], [0, 2], [0, 4], [0, 2, 1, 3]):
            with self.assertRaisesRegex(AclError, "actualSeqQlenOptional"):
                run("aclnnRingAttentionUpdate", *usual, Tensor.of(I64, ends), b"TND", x, t, t)


if __name__ == "__main__":
    unittest.main()
