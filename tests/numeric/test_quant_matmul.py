# SPDX-License-Identifier: Apache-2.0
"""QuantMatmul in all versions, the packed words of its scales, and small fused operators of attention."""
import unittest

import numpy as np

import reference as ref
from acl import Blocked, INVALID, Tensor, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS, FLOATS64, I32, I64, I8, LD, U64
from gen import each_case
from test_quant import packed_int4

CASES = 60


def words(scale, offset, rounds=False):
    """Scale and offset packed into 64-bit words by CANN's formula."""
    bits = np.asarray(scale, np.float32).view(np.uint32).astype(np.uint64)
    if rounds:
        bits = bits + np.uint64(0xfff) + (bits >> np.uint64(13) & np.uint64(1))
    out = bits & np.uint64(0xffffe000) | np.uint64(1 << 46)
    if offset is None:
        return out
    whole = np.clip(np.rint(offset), -256, 255).astype(np.int64) & 0x1ff
    return out | whole.astype(np.uint64) << np.uint64(37)


class Parameters(unittest.TestCase):
    def test_words(self):
        def body(gen):
            n, v3 = gen.integer(1, 40), gen.chance(0.5)
            lead = (1,) if gen.chance(0.3) else ()
            scale = gen.tensor(F32, (*lead, n), F32.round(gen.rng.uniform(-4, 4, (*lead, n))))
            m, other = gen.pick((n, 1)), gen.pick(((), (1,)))
            offset = gen.tensor(F32, (*other, m), F32.round(gen.rng.uniform(-300, 300, (*other, m)))) \
                if gen.chance(0.6) else None
            out, mode = gen.out(gen.pick((U64, I64)), (*lead, n)), gen.integer(0, 1) if v3 else 0
            run("aclnnTransQuantParam" + ("V3" if v3 else "V2"), scale, offset, *([mode] if v3 else []), out)
            expected = words(scale.get().ravel(), offset.get().ravel() if offset else None, mode == 1)
            ref.check_equal(out.get().view(np.uint64), np.broadcast_to(expected, out.shape))
        each_case(self, "aclnnTransQuantParam", 2 * CASES, body)
        s = Tensor.empty(F32, (4,))
        code, message = refused("aclnnTransQuantParamV2", s, Tensor.empty(F32, (3,)), Tensor.empty(U64, (4,)))
        self.assertEqual(code, INVALID)
        self.assertIn("offset has shape [3]", message)


class OfFloats(unittest.TestCase):
    def case(self, gen):
        m, k, n = (gen.integer(1, 40) for _ in "mkn")
        t1, t2 = gen.chance(0.5), gen.chance(0.5)
        x1, x2 = (gen.tensor(F16, s[::-1] if t else s, gen.values(F16, s[::-1] if t else s, limit=2))
                  for s, t in (((m, k), t1), ((k, n), t2)))
        bias = gen.tensor(F16, (n,), gen.values(F16, (n,), limit=2)) if gen.chance(0.5) else None
        size = gen.pick((1, n, -(-n // 16) * 16))
        scale = F32.round(gen.rng.uniform(0.1, 60 / k ** 0.5, size))
        offset = np.rint(gen.rng.uniform(-30, 30, size)) if gen.chance(0.5) else None
        packed = words(scale, offset)
        out = gen.out(I8, (m, n))
        run("aclnnBatchMatmulQuant", x1, x2, gen.tensor(U64, (size,), packed), bias, t1, t2, out)
        a, b = (v.get().astype(LD).T if t else v.get().astype(LD) for v, t in ((x1, t1), (x2, t2)))
        kept = (packed & np.uint64(0xffffe000)).astype(np.uint32).view(np.float32).astype(LD)
        sums = a @ b + (bias.get().astype(LD) if bias else 0)
        exact = np.clip(sums * kept[:n] + (offset[:n] if offset is not None else 0), -128, 127)
        wrong = np.abs(out.get().astype(LD) - exact)
        room = 0.5 + (np.abs(a) @ np.abs(b) + 2) * kept[:n] * (k + 4) * LD(2) ** -23 + 2 ** -16
        self.assertTrue((wrong <= room).all(), wrong.max())

    def test_all(self):
        each_case(self, "aclnnBatchMatmulQuant", CASES, self.case)

    def test_wrong(self):
        x, y, q = Tensor.empty(F16, (3, 4)), Tensor.empty(F16, (4, 5)), Tensor.empty(U64, (1,))
        out = Tensor.empty(I8, (3, 5))
        for args, words in (((x, y, Tensor.empty(U64, (3,)), None, False, False, out), "quantParam has shape [3]"),
                            ((x, y, q, Tensor.empty(F16, (4,)), False, False, out), "bias has shape [4]"),
                            ((x, y, q, None, True, False, out), "as many columns of the first"),
                            ((x, Tensor.empty(F16, (4, 0)), q, None, False, False, out), "expected elements"),
                            ((x, y, q, None, False, False, Tensor.empty(I8, (3, 4))), "out has shape [3, 4]")):
            code, message = refused("aclnnBatchMatmulQuant", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)


class Product(unittest.TestCase):
    def factor(self, gen, kind, shape, transposed):
        """The values of a stack of matrices of this shape, and its tensor, which may be transposed."""
        most = 127 if kind == "i8" else 7
        values = gen.rng.integers(-most - 1, most + 1, shape).astype(np.int8)
        given = np.swapaxes(values, -1, -2) if transposed else values
        if kind == "i8":
            return values.astype(np.int64), gen.out(I8, given.shape, given)
        # A view whose words were packed along the other dimension.
        if len(shape) == 2 and kind == "words" and given.shape[0] > 8 and gen.chance(0.4):
            lies = packed_int4(np.ascontiguousarray(given.T), True)
            view = object.__new__(Tensor)
            view.__dict__.update(lies.__dict__, shape=lies.shape[::-1], strides=lies.strides[::-1])
            return values.astype(np.int64), view
        return values.astype(np.int64), packed_int4(np.ascontiguousarray(given), kind == "words")

    def case(self, gen):
        kind = gen.pick(("i8", "i8", "int4", "words"))
        m, k, n = (8 * gen.integer(1, 6) if kind != "i8" else gen.integer(1, 40) for _ in "mkn")
        if gen.chance(0.1):
            m, k, n = gen.pick(((304, 64, 16), (8, 2048, 600), (8, 1200, 40), (200, 192, 160)))
        batch = gen.shape(max_rank=2, numel=6, empty=0) if kind == "i8" and gen.chance(0.4) else ()
        t1, t2 = gen.chance(0.3) and kind == "i8", gen.chance(0.3)
        x1, a = self.factor(gen, kind, (*batch, m, k), t1)
        x2, b = self.factor(gen, kind, (*(batch if gen.chance(0.5) else ()), k, n), t2)
        to = gen.pick((F16, BF16, I8))
        form = "words" if to is I8 else gen.pick(("words", "numbers", "rows"))
        s_n = gen.pick((1, n))
        numbers = F32.round(gen.rng.uniform(0.5, 2, s_n) * (127 if to is I8 else 200)
                            / (k ** 0.5 * (5000 if kind == "i8" else 20)))
        shift = None
        if form == "words":
            shift = np.rint(gen.rng.uniform(-20, 20, s_n)) if to is I8 and gen.chance(0.5) else None
            raw = words(numbers, shift)
            scale = gen.out(gen.pick((U64, I64)), (s_n,)).set(raw)
            numbers = (raw & np.uint64(0xffffe000)).astype(np.uint32).view(np.float32)
        else:
            d = gen.pick((F32, BF16))
            numbers = d.round(numbers)
            scale = gen.tensor(d, (s_n,), numbers)
        rows = gen.tensor(F32, (m,), F32.round(gen.rng.uniform(0.5, 2, m))) if form == "rows" else None
        offset = None
        if to is I8 and gen.chance(0.4):
            offset = gen.tensor(F32, (s_n,), F32.round(gen.rng.uniform(-20, 20, s_n)))
            shift = offset.get()
        b_type = gen.pick((I32,) if form == "words" else (I32, F32, BF16, F16))
        b_shape = (*batch, 1, n) if len(batch) == 1 and gen.chance(0.5) else (n,)
        bias = gen.drawn(b_type, b_shape, lambda s: gen.values(b_type, s, limit=500)) if gen.chance(0.6) else None
        out = gen.out(to, (m, 1, n) if not batch and gen.chance(0.1) else (*batch, m, n))
        self.call(gen, a, b, scale, offset, rows, bias, t1, t2, out)
        exact = (x1 @ x2).astype(LD)
        size, after = np.abs(exact), LD(0)
        if bias:
            add = bias.get().astype(LD)
            exact, after = (exact + add, after) if b_type is I32 else (exact, add)
        got = out.get().reshape(*batch, m, n)
        by = numbers.astype(LD) * (rows.get().astype(LD)[:, None] if rows else 1)
        exact = exact * by + after
        if to is I8:
            exact = np.clip(exact + (0 if shift is None else shift), -128, 127)
            ref.complain(got, exact, np.abs(got - exact) <= 0.5 + 1e-9, "int8", lambda i: "its rounding")
        else:
            ref.check(got, exact, to, F64, ulps=1, slack=8 * F64.ulp(size * by + np.abs(after) + 1))

    @staticmethod
    def call(gen, a, b, scale, offset, rows, bias, t1, t2, out):
        """Calls one of the versions that have these arguments."""
        version = gen.pick(("V2", "V3", "V4", "V5", "WeightNz"))
        name = "aclnnQuantMatmul" + version
        if version == "WeightNz" and b.code == I8.code and gen.chance(0.6):
            b = gen.keep(Blocked(b, gen.chance(0.5)))
        if version in ("V5", "WeightNz"):
            run(name, a, b, rows, scale, None, None, offset, None, bias, t1, t2, 0, out)
        elif rows or version == "V4" or (version == "V2" and offset):
            run("aclnnQuantMatmulV4", a, b, scale, offset, rows, bias, t1, t2, out)
        elif version == "V3":
            run(name, a, b, scale, offset, bias, t1, t2, out)
        else:
            run(name, a, b, bias, scale, t1, t2, out)

    def test_number(self):
        """The first version, whose scale is a number."""
        def body(gen):
            m, k, n = (gen.integer(1, 40) for _ in "mkn")
            x1, a = self.factor(gen, "i8", (m, k), False)
            x2, b = self.factor(gen, "i8", (k, n), False)
            bias = gen.tensor(I32, (n,), gen.values(I32, (n,), limit=500)) if gen.chance(0.6) else None
            scale, out = 0.001 + gen.rng.random() / 50, gen.out(F16, (m, n))
            run("aclnnQuantMatmul", a, b, bias, scale, out)
            sums = (x1 @ x2 + (bias.get() if bias else 0)).astype(LD)
            ref.check(out.get(), sums * LD(scale), F16, F64, ulps=1, slack=1e-7 * np.abs(sums) * scale)
        each_case(self, "aclnnQuantMatmul", CASES, body)

    def test_padded_scale(self):
        """The scale of V2 may have as many words as columns, rounded up to 16."""
        x1, x2 = np.arange(-6, 6).reshape(3, 4), np.arange(80).reshape(4, 20) - 40
        a, b = (Tensor.of(I8, x.astype(np.int8)) for x in (x1, x2))
        scale = np.full(32, 0x3F000000, np.uint64)  # the bits of 0.5
        out = Tensor.empty(F16, (3, 20))
        run("aclnnQuantMatmulV2", a, b, None, Tensor.of(U64, scale), False, False, out)
        ref.check_equal(out.get(), (x1 @ x2 * 0.5).astype(np.float16))
        code, message = refused("aclnnQuantMatmulV2", a, b, None, Tensor.of(U64, scale[:31]), False, False, out)
        self.assertEqual(code, 161002)
        self.assertIn("deqScale has shape [31]", message)

    def test_products(self):
        each_case(self, "aclnnQuantMatmulV4", 4 * CASES, self.case)

    def test_sums(self):
        """An int32 result holds the sums with their bias, whatever the scale."""
        def body(gen):
            m, k, n = (gen.integer(1, 40) for _ in "mkn")
            batch = gen.shape(max_rank=2, numel=6, empty=0) if gen.chance(0.4) else ()
            t1, t2 = (gen.chance(0.3) for _ in "12")
            x1, a = self.factor(gen, "i8", (*batch, m, k), t1)
            x2, b = self.factor(gen, "i8", (k, n), t2)
            d = gen.pick((F32, BF16))
            scale = gen.tensor(d, (gen.pick((1, n)),))
            bias = gen.tensor(I32, (*batch, 1, n) if len(batch) == 1 and gen.chance(0.5) else (n,)) \
                if gen.chance(0.6) else None
            out = gen.out(I32, (*batch, m, n))
            run("aclnnQuantMatmulV4", a, b, scale, None, None, bias, t1, t2, out)
            ref.check_equal(out.get(), (x1 @ x2 + (bias.get() if bias else 0)).astype(np.int32))
        each_case(self, "aclnnQuantMatmulV4 into int32", CASES, body)

    def test_refused(self):
        x, y, s = Tensor.empty(I8, (4, 8)), Tensor.empty(I8, (8, 6)), Tensor.empty(F32, (6,))
        out, empty_out = Tensor.empty(F16, (4, 6)), Tensor.empty(F16, (0, 6))
        x4, y4 = packed_int4(np.zeros((4, 8)), False), packed_int4(np.zeros((1, 8, 6)), False)
        x4t, y4t = packed_int4(np.zeros((8, 4)), False), packed_int4(np.zeros((8, 6)), False)
        sums, one, words_ = Tensor.empty(I32, (4, 6)), Tensor.empty(F32, (1,)), Tensor.empty(I64, (6,))
        for name, args in (("x1 has shape", (x, x, s, None, None, None, False, False, out)),
                           ("scale has shape", (x, y, Tensor.empty(F32, (5,)), None, None, None, False, False, out)),
                           ("scale has dtype", (x, y, s, None, None, None, False, False, Tensor.empty(I8, (4, 6)))),
                           ("offset", (x, y, s, s, None, None, False, False, out)),
                           ("pertokenScaleOptional", (x, y, s, None, s, None, False, False, out)),
                           ("out has shape", (x, y, s, None, None, None, False, False, Tensor.empty(F16, (4, 5)))),
                           ("scale has dtype INT64",
                            (x, y, Tensor.empty(I64, (6,)), None, None, None, False, False, sums)),
                           ("bias has dtype FLOAT", (x, y, s, None, None, s, False, False, sums)),
                           ("pertokenScaleOptional",
                            (x, y, s, None, Tensor.empty(F32, (4,)), None, False, False, sums)),
                           ("out has dtype", (x, y, s, None, None, None, False, False, Tensor.empty(F32, (4, 6)))),
                           ("pertokenScaleOptional has shape [1], expected [4]",
                            (x, y, s, None, one, None, False, False, out)),
                           ("bias has shape [1], expected [6]", (x, y, s, None, None, one, False, False, out)),
                           ("bias has 3 dimensions, expected 1",
                            (x, y, s, None, None, Tensor.empty(F32, (1, 1, 6)), False, False, out)),
                           ("offset has shape [1, 6], expected [6] or [1]",
                            (x, y, words_, Tensor.empty(F32, (1, 6)), None, None, False, False,
                             Tensor.empty(I8, (4, 6)))),
                           ("x1 has shape [0, 8], expected 2 to 6 dimensions, and elements",
                            (Tensor.empty(I8, (0, 8)), y, s, None, None, None, False, False, empty_out)),
                           ("transposeX1 is true, expected false as x1 is int4",
                            (x4t, y4t, s, None, None, None, True, False, out)),
                           ("x2 has shape [1, 8, 6], expected 2 dimensions",
                            (x4, y4, s, None, None, None, False, False, Tensor.empty(F16, (1, 4, 6))))):
            with self.subTest(name):
                code, message = refused("aclnnQuantMatmulV4", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


class Fused(unittest.TestCase):
    def test_bias_rescale_qkv(self):
        def body(gen):
            d, b, t, h, depth = gen.pick(FLOATS64), *(gen.integer(1, n) for n in (3, 9, 4, 40))
            qkv = gen.drawn(d, (b, t, 3 * h * depth), lambda s: gen.values(d, s, limit=8))
            bias = gen.drawn(d, (3 * h * depth,), lambda s: gen.values(d, s, limit=8))
            outs = [gen.out(d, (b, h, t, depth)) for _ in "qkv"]
            run("aclnnTransformBiasRescaleQkv", qkv, bias, h, *outs)
            v = qkv.get().astype(LD) + bias.get().astype(LD)
            v = v.reshape(b, t, 3, h, depth).transpose(2, 0, 3, 1, 4)
            for i, out in enumerate(outs):
                ref.check(out.get(), v[i] if i else v[i] / np.sqrt(LD(depth)), d, ulps=3 if i == 0 else 0.5)
        each_case(self, "aclnnTransformBiasRescaleQkv", CASES, body)
        x = Tensor.empty(F32, (2, 3, 24))
        code, message = refused("aclnnTransformBiasRescaleQkv", x, Tensor.empty(F32, (24,)), 5, x, x, x)
        self.assertEqual(code, INVALID)
        self.assertIn("qkv has shape", message)

    def test_rel_pos_softmax(self):
        def body(gen):
            d = gen.pick(FLOATS)
            b, w, n, s1, s2 = (gen.integer(1, k) for k in (3, 3, 3, 5, 40))
            whole, scale = gen.chance(0.5), gen.pick((1.0, 0.125, -2.0))
            x = gen.drawn(d, (b, w, n, s1, s2) if whole else (b * w, n, s1, s2), lambda s: gen.values(d, s, limit=8))
            bias = gen.drawn(d, gen.pick(((n, s1, s2), (1, n, s1, s2), (1, 1, n, s1, s2))),
                             lambda s: gen.values(d, s, limit=8))
            mask = gen.drawn(d, gen.pick(((w, s1, s2), (w, 1, s1, s2), (1, w, 1, s1, s2))),
                             lambda s: d.round(np.where(gen.rng.random(s) < 0.3, -100.0, 0))) \
                if gen.chance(0.7) else None
            out = gen.out(d, x.shape)
            run("aclnnMaskedSoftmaxWithRelPosBias", x, mask, bias, scale, 0, out)
            v = x.get().astype(LD).reshape(b, w, n, s1, s2) * LD(scale) + bias.get().astype(LD).reshape(n, s1, s2)
            if mask:
                v = v + mask.get().astype(LD).reshape(w, 1, s1, s2)
            exact = np.exp(ref.log_softmax(v, -1)).reshape(x.shape)
            ref.check(out.get(), exact, d, slack=2e-6 * exact * (1 + np.abs(v).max() / 8))
        each_case(self, "aclnnMaskedSoftmaxWithRelPosBias", CASES, body)
        x = Tensor.empty(F32, (4, 2, 3, 5))
        code, message = refused("aclnnMaskedSoftmaxWithRelPosBias", x, Tensor.empty(F32, (3, 3, 5)),
                                Tensor.empty(F32, (2, 3, 5)), 1.0, 0, x)
        self.assertEqual(code, INVALID)
        self.assertIn("attenMaskOptional has 3 windows", message)


if __name__ == "__main__":
    unittest.main()
