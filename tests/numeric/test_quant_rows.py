# SPDX-License-Identifier: Apache-2.0
"""Quantisation of rows by their own extremes, of groups of rows, and after an RmsNorm."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, Bools, INVALID, NULLPTR, Tensor, refused, run
from dtypes import BF16, F16, F32, FLOATS, I32, I64, I8, LD
from gen import each_case
from test_quant import packed_int4, unpacked_int4

CASES = 60
NEAR = 2e-5                                  # error before the last rounding, relative to a row's largest magnitude


def check_integers(got, exact, size, most, what="integers"):
    """Each integer is a rounding of a value near `exact`. size: the magnitudes that exact is computed from."""
    exact = np.clip(exact, -most - 1, most)
    good = np.abs(got.astype(LD) - exact) <= 0.5 + NEAR * (np.abs(size) + 1)
    ref.complain(got, exact, good, what, lambda i: "its rounding")


class Dynamic(unittest.TestCase):
    def outputs(self, gen, shape):
        kind = gen.pick(("i8", "i8", "int4", "words")) if shape[-1] % 8 == 0 else "i8"
        return kind, gen.out(I8, shape) if kind == "i8" else packed_int4(np.zeros(shape), kind == "words")

    def case(self, gen, v2):
        d = gen.pick(FLOATS)
        shape = list(gen.shape(min_rank=2, max_rank=5, empty=0))
        if gen.chance(0.5):
            shape[-1] = 8 * gen.integer(1, 40)
        if gen.chance(0.1):
            shape = [3, 2500]
        rows, n = int(np.prod(shape[:-1])), shape[-1]
        groups = gen.integer(1, 4) if v2 and gen.chance(0.5) else 0
        smooth = gen.drawn(d, (groups, n) if groups else (n,), lambda s: d.round(gen.rng.uniform(0.2, 2, s))) \
            if groups or gen.chance(0.5) else None
        ends = np.sort(gen.rng.integers(0, rows + 1, groups))
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=50))
        if gen.chance(0.2):                                                     # all elements of a row are equal
            x.set(np.full(shape, gen.pick((0.0, 1.0, -3.0)), d.values))
        kind, y = self.outputs(gen, shape)
        scale, offset = gen.out(F32, shape[:-1]), gen.out(F32, shape[:-1]) if v2 and gen.chance(0.5) else None
        if v2:
            group = gen.out(gen.pick((I32, I64)), (groups,), ends) if groups else None
            run("aclnnDynamicQuantV2", x, smooth, group, {"i8": 2, "int4": 29, "words": 3}[kind], y, scale, offset)
        else:
            run("aclnnDynamicQuant", x, smooth, y, scale)
        got = (y.get() if kind == "i8" else unpacked_int4(y, shape)).reshape(rows, n)
        v = x.get().astype(np.float32).reshape(rows, n)
        if groups:
            of = np.searchsorted(ends, np.arange(rows), side="right")
            by = np.concatenate([smooth.get(), np.ones((1, n), np.float32)])[of]
            v = v * by.astype(np.float32)
        elif smooth:
            v = v * smooth.get().astype(np.float32)
        most = 127 if kind == "i8" else 7
        s, shift = scale.get().reshape(rows), np.zeros(rows, np.float32)
        if offset:
            low, high = v.min(1), v.max(1)
            ref.check_equal(s, np.maximum((high - low) / np.float32(2 * most + 1), np.float32(1e-12)), "scale")
            shift = np.float32(most) - high / s
            ref.check_equal(offset.get().reshape(rows), shift, "offset")
        else:
            ref.check_equal(s, np.abs(v).max(1) / np.float32(most), "scale")
        with np.errstate(all="ignore"):
            whole = np.rint(v / s[:, None] + shift[:, None])
        ref.check_equal(got, np.clip(np.where(np.isnan(whole), 0, whole), -most - 1, most).astype(np.int8))

    def test_dynamic_quant(self):
        each_case(self, "aclnnDynamicQuant", CASES, lambda g: self.case(g, False))
        each_case(self, "aclnnDynamicQuantV2", 2 * CASES, lambda g: self.case(g, True))

    def modes(self, gen, v4):
        """V3 and V4: a scale per token, per channel, or for the tensor."""
        d, mode = gen.pick(FLOATS), gen.pick(("pertoken", "pertensor", "perchannel"))
        shape = list(gen.shape(min_rank=1, max_rank=3, empty=0))
        shape.append(8 * gen.integer(1, 9) if gen.chance(0.5) else gen.integer(1, 60))
        if gen.chance(0.1):
            shape = [40, 2504]
        axis = -2 if mode == "perchannel" else -1
        n = shape[axis]
        groups = gen.integer(1, 4) if mode == "pertoken" and gen.chance(0.4) else 0
        rows = int(np.prod(shape[:-1]))
        smooth = gen.drawn(d, (groups, n) if groups else (n,), lambda s: d.round(gen.rng.uniform(0.2, 2, s))) \
            if groups or gen.chance(0.5) else None
        ends = np.sort(gen.rng.integers(0, rows + 1, groups))
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=50))
        kind, y = self.outputs(gen, shape)
        sizes = {"pertoken": shape[:-1], "pertensor": [1], "perchannel": shape[:-2] + shape[-1:]}[mode]
        scale, offset = gen.out(F32, sizes), gen.out(F32, sizes) if gen.chance(0.5) else None
        run("aclnnDynamicQuantV4" if v4 else "aclnnDynamicQuantV3", x, smooth,
            gen.out(I32, (groups,), ends) if groups else None, {"i8": 2, "int4": 29, "words": 3}[kind], offset is None,
            mode.encode(), *([0.0] if v4 else []), y, scale, offset)
        v = x.get().astype(np.float32)
        if groups:
            of = np.searchsorted(ends, np.arange(rows), side="right")
            v = v * np.concatenate([smooth.get(), np.ones((1, n), np.float32)])[of].astype(np.float32).reshape(shape)
        elif smooth:
            v = v * (smooth.get()[:, None] if mode == "perchannel" else smooth.get()).astype(np.float32)
        most, axes = 127 if kind == "i8" else 7, None if mode == "pertensor" else axis
        high = (v if offset else np.abs(v)).max(axes, keepdims=True)
        shift = np.float32(0)
        if offset:
            s = np.maximum((high - v.min(axes, keepdims=True)) / np.float32(2 * most + 1), np.float32(1e-12))
            shift = np.float32(most) - high / s
            ref.check_equal(offset.get().ravel(), shift.ravel(), "offset")
        else:
            s = high / np.float32(most)
        ref.check_equal(scale.get().ravel(), s.ravel(), "scale")
        with np.errstate(all="ignore"):
            whole = np.rint(v / s + shift)
        ref.check_equal(y.get() if kind == "i8" else unpacked_int4(y, shape),
                        np.clip(np.where(np.isnan(whole), 0, whole), -most - 1, most).astype(np.int8))

    def test_modes(self):
        each_case(self, "aclnnDynamicQuantV3", CASES, lambda g: self.modes(g, False))
        each_case(self, "aclnnDynamicQuantV4", CASES, lambda g: self.modes(g, True))

    def test_refused_modes(self):
        x, y, s = Tensor.empty(F16, (2, 8)), Tensor.empty(I8, (2, 8)), Tensor.empty(F32, (2,))
        one, eight, g = Tensor.empty(F32, (1,)), Tensor.empty(F16, (8,)), Tensor.empty(I32, (1,))
        for text, args in (("quantMode is pergroup", (x, None, None, 2, True, b"pergroup", 0.0, y, s, None)),
                           ("groupIndexOptional", (x, Tensor.empty(F16, (1, 8)), g, 2, True, b"pertensor", 0.0, y, one,
                                                   None)),
                           ("offsetOut is NULL", (x, None, None, 2, False, b"pertoken", 0.0, y, s, None)),
                           ("offsetOut is a tensor", (x, None, None, 2, True, b"pertoken", 0.0, y, s, s)),
                           ("dstTypeMax is -1", (x, None, None, 2, True, b"pertoken", -1.0, y, s, None)),
                           ("dstType is 29", (x, None, None, 29, True, b"pertoken", 0.0, y, s, None)),
                           ("scaleOut has shape [2]", (x, None, None, 2, True, b"perchannel", 0.0, y, s, None)),
                           ("smoothScalesOptional has shape [8]",
                            (x, eight, None, 2, True, b"perchannel", 0.0, y, Tensor.empty(F32, (8,)), None))):
            code, message = refused("aclnnDynamicQuantV4", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)

    def test_refused(self):
        x, y, s = Tensor.empty(F16, (2, 8)), Tensor.empty(I8, (2, 8)), Tensor.empty(F32, (2,))
        for name, args in (("smoothScalesOptional has shape", (x, Tensor.empty(F16, (7,)), y, s)),
                           ("yOut", (x, None, Tensor.empty(I8, (2, 7)), s)),
                           ("scaleOut", (x, None, y, Tensor.empty(F32, (3,)))),
                           ("smoothScalesOptional has dtype", (x, Tensor.empty(F32, (8,)), y, s)),
                           ("x has shape [8], expected 2",
                            (Tensor.empty(F16, (8,)), None, Tensor.empty(I8, (8,)), Tensor.empty(F32, ())))):
            with self.subTest(name):
                code, message = refused("aclnnDynamicQuant", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)
        code, message = refused("aclnnDynamicQuantV2", x, None, Tensor.empty(I32, (1,)), 2, y, s, None)
        self.assertEqual(code, INVALID)
        self.assertIn("groupIndexOptional", message)

    def test_group_quant(self):
        def body(gen):
            d, s_type = gen.pick(FLOATS), gen.pick(FLOATS)
            rows, n, groups = gen.integer(0, 20), 8 * gen.integer(1, 9), gen.integer(1, 5)
            ends = np.append(np.sort(gen.rng.integers(0, rows + 1, groups - 1)), rows)
            x = gen.drawn(d, (rows, n), lambda s: gen.values(d, s, limit=100))
            scale = gen.drawn(s_type, (groups, n), lambda s: s_type.round(gen.rng.uniform(0.1, 2, s)))
            offset = Tensor.of(s_type, s_type.round([2.5])) if gen.chance(0.5) else None
            kind, y = self.outputs(gen, (rows, n))
            run("aclnnGroupQuant", x, scale, gen.out(gen.pick((I32, I64)), (groups,), ends), offset,
                {"i8": 2, "int4": 29, "words": 3}[kind], y)
            of = np.searchsorted(ends, np.arange(rows), side="right")
            whole = np.rint(x.get() * scale.get()[of] + np.float32(2.5 if offset else 0))
            most = 127 if kind == "i8" else 7
            got = y.get() if kind == "i8" else unpacked_int4(y, (rows, n))
            ref.check_equal(got, np.clip(whole, -most - 1, most).astype(np.int8))
        each_case(self, "aclnnGroupQuant", CASES, body)
        with self.assertRaises(AclError) as error:
            run("aclnnGroupQuant", Tensor.of(F32, np.ones((3, 8))), Tensor.of(F32, np.ones((2, 8))),
                Tensor.of(I32, [2, 1]), None, 2, Tensor.empty(I8, (3, 8)))
        self.assertIn("groupIndex[1] is 1", error.exception.message)


class Blocks(unittest.TestCase):
    def test_block_quant(self):
        def body(gen):
            d, down, across = gen.pick(FLOATS), gen.pick((1, 1, 64, 128)), gen.pick((64, 128, 192, 256))
            shape = [gen.integer(1, 3)] * gen.chance(0.4) + [gen.integer(1, 150), gen.integer(1, 300)]
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=50))
            if gen.chance(0.1):
                x.set(np.zeros(shape))
            blocks = [*shape[:-2], -(-shape[-2] // down), -(-shape[-1] // across)]
            y, scale, least = gen.out(I8, shape), gen.out(F32, blocks), gen.pick((0.0, 0.0, 4.0, 100.0))
            run("aclnnDynamicBlockQuant", x, least, gen.pick((b"rint", None)), 2, down, across, y, scale)
            v = x.get().astype(np.float32)
            starts = [np.arange(n) * size for n, size in zip(blocks[-2:], (down, across))]
            s = np.maximum.reduceat(np.maximum.reduceat(np.abs(v), starts[0], -2), starts[1], -1) / np.float32(127)
            s = np.minimum(s, np.float32(1 / least if least else np.inf))
            ref.check_equal(scale.get(), s, "scale")
            by = s.repeat(down, -2)[..., :shape[-2], :].repeat(across, -1)[..., :shape[-1]]
            with np.errstate(all="ignore"):
                whole = np.rint(v / by)
            ref.check_equal(y.get(), np.clip(np.where(np.isnan(whole), 0, whole), -128, 127).astype(np.int8))
        each_case(self, "aclnnDynamicBlockQuant", CASES, body)

    def test_refused(self):
        x, y, s = Tensor.empty(F16, (2, 8)), Tensor.empty(I8, (2, 8)), Tensor.empty(F32, (2, 1))
        for text, args in (("minScale is -1", (x, -1.0, None, 2, 1, 128, y, s)),
                           ("roundModeOptional is round", (x, 0.0, b"round", 2, 1, 128, y, s)),
                           ("dstType is 36", (x, 0.0, None, 36, 1, 128, y, s)),
                           ("rowBlockSize is 2", (x, 0.0, None, 2, 2, 128, y, s)),
                           ("colBlockSize is 0", (x, 0.0, None, 2, 1, 0, y, s)),
                           ("x has shape [8], expected 2", (Tensor.empty(F16, (8,)), 0.0, None, 2, 1, 128, y, s)),
                           ("scaleOut has shape [2, 1], expected [1, 1]", (x, 0.0, None, 2, 64, 128, y, s))):
            code, message = refused("aclnnDynamicBlockQuant", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)


class Norms(unittest.TestCase):
    def drawn(self, gen, k_most=2):
        d = gen.pick(FLOATS)
        shape = list(gen.shape(min_rank=2, max_rank=4, empty=0.05))
        if gen.chance(0.1):
            shape = [5, 3000]
        k = gen.integer(1, min(k_most, len(shape)))
        return d, shape, shape[len(shape) - k:], k

    def norm(self, x, gamma, beta, k, eps=1e-5):
        axes = tuple(range(x.ndim - k, x.ndim))
        v = x / np.sqrt((x * x).mean(axes, keepdims=True) + LD(eps)) if x.size else x
        return v * gamma, v * gamma + beta

    def test_rms_norm_quant(self):
        def body(gen):
            d, shape, tail, _ = self.drawn(gen, 1)
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            gamma, beta = (gen.drawn(d, gen.pick((tail, [1, *tail])), lambda s: gen.values(d, s, limit=4))
                           for _ in "gb")
            scale = Tensor.of(d, d.round([gen.rng.uniform(0.02, 0.5)]))
            offset = Tensor.of(*gen.pick(((I8, [3]), (d, [-2.0]))))
            y = gen.out(I8, shape)
            run("aclnnRmsNormQuant", x, gamma, beta, scale, offset, 1e-5, y)
            _, v = self.norm(x.get().astype(LD), gamma.get().astype(LD).ravel(), beta.get().astype(LD).ravel(), 1)
            exact = v / scale.get().astype(LD) + offset.get().astype(LD)
            check_integers(y.get(), exact, (np.abs(v) + 20) / scale.get(), 127)
        each_case(self, "aclnnRmsNormQuant", CASES, body)

    def test_rms_norm_quant_v3(self):
        def body(gen):
            d, shape, tail, _ = self.drawn(gen, 1)
            n, divides, keeps = shape[-1], gen.chance(0.5), gen.chance(0.6)
            kind = gen.pick(("i8", "int4", "words")) if n % 8 == 0 and 0 not in shape else "i8"
            most = 127 if kind == "i8" else 7
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            gamma = gen.drawn(d, gen.pick((tail, [1, *tail])), lambda s: gen.values(d, s, limit=4))
            beta = gen.drawn(d, gen.pick((tail, [1, *tail])), lambda s: gen.values(d, s, limit=4)) \
                if gen.chance(0.6) else None
            s_type, width = gen.pick((d, F32)), gen.pick((1, n))
            scale = gen.drawn(s_type, (width,), lambda s: s_type.round(gen.rng.uniform(0.05, 0.5, s)))
            z_type = gen.pick((I8, d) if s_type is d else (I32, F32))
            offset = gen.drawn(z_type, (width,), lambda s: gen.rng.integers(-9, 9, s).astype(z_type.values)) \
                if gen.chance(0.6) else None
            y = gen.out(I8, shape) if kind == "i8" else packed_int4(np.zeros(shape), kind == "words")
            rstd = gen.out(F32, (*shape[:-1], 1)) if keeps else Tensor.empty(F32, (0,))
            run("aclnnRmsNormQuantV3", x, gamma, scale, offset, beta, 1e-5, divides, keeps, y, rstd)
            if 0 in shape:
                return
            v = x.get().astype(LD)
            exact = 1 / np.sqrt((v * v).mean(-1, keepdims=True) + LD(1e-5))
            if keeps:
                ref.check(rstd.get(), exact, F32, slack=2e-6 * exact)
            v = v * exact * gamma.get().astype(LD).ravel() + (beta.get().astype(LD).ravel() if beta else 0)
            by = scale.get().astype(LD)
            exact = (v / by if divides else v * by) + (offset.get().astype(LD) if offset else 0)
            check_integers(y.get() if kind == "i8" else unpacked_int4(y, shape), exact,
                           (np.abs(v) + 20) * np.maximum(by, 1 / by), most)
        each_case(self, "aclnnRmsNormQuantV3", 2 * CASES, body)
        x, g, y = Tensor.empty(F16, (2, 8)), Tensor.empty(F16, (8,)), Tensor.empty(I8, (2, 8))
        r = Tensor.empty(F32, (2, 1))
        for text, args in (("rstd has shape [2]", (x, g, g, None, None, 1e-5, True, True, y, Tensor.empty(F32, (2,)))),
                           ("offsetOptional has shape [1]",
                            (x, g, g, Tensor.empty(I8, (1,)), None, 1e-5, True, True, y, r)),
                           ("y has dtype", (x, g, g, None, None, 1e-5, True, True, x, r)),
                           ("scale has shape [7]",
                            (x, g, Tensor.empty(F16, (7,)), None, None, 1e-5, True, True, y, r))):
            code, message = refused("aclnnRmsNormQuantV3", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)

    def add_quant(self, gen, v2):
        d, shape, tail, k = self.drawn(gen)
        x1, x2 = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
        gamma = gen.drawn(d, tail, lambda s: gen.values(d, s, limit=4))
        s_type, z_type = gen.pick((F32, BF16)), gen.pick((I32, BF16))
        two, divides = gen.chance(0.5), gen.chance(0.6)
        draw = (lambda s: s_type.round(gen.rng.uniform(0.05, 0.5, s)))
        scales = [gen.drawn(s_type, tail, draw) for _ in range(1 + two)]
        zeros = [gen.drawn(z_type, tail, lambda s: gen.rng.integers(-9, 9, s).astype(z_type.values))
                 if gen.chance(0.6) else None for _ in range(1 + two)]
        beta = gen.drawn(d, tail, lambda s: gen.values(d, s, limit=4)) if v2 and gen.chance(0.5) else None
        out, y2, total = gen.out(I8, shape), gen.out(I8, shape), gen.out(d, shape)
        norm = gen.out(d, shape) if v2 and gen.chance(0.5) else None
        args = [x1, x2, gamma, scales[0], scales[1] if two else None, zeros[0], zeros[1] if two else None]
        run("aclnnAddRmsNormQuant" + ("V2" if v2 else ""), *args, *([beta] if v2 else []), -1, 1e-5, divides,
            out, y2, total, *([norm] if v2 else []))
        v = x1.get().astype(LD) + x2.get().astype(LD)
        ref.check(total.get(), v, d, ulps=0.5)
        plain, v = self.norm(v, gamma.get().astype(LD), beta.get().astype(LD) if beta else LD(0), k)
        if norm:
            ref.check(norm.get(), plain, d, slack=1e-5 * np.abs(plain))
        for y, s, z in zip((out, y2), scales, zeros):
            by = s.get().astype(LD)
            exact = (v / by if divides else v * by) + (z.get().astype(LD) if z else 0)
            check_integers(y.get(), exact, (np.abs(plain) + np.abs(v) + 20) * np.maximum(by, 1 / by), 127)

    def test_add_rms_norm_quant(self):
        each_case(self, "aclnnAddRmsNormQuant", CASES, lambda g: self.add_quant(g, False))
        each_case(self, "aclnnAddRmsNormQuantV2", CASES, lambda g: self.add_quant(g, True))

    def dynamic(self, gen, v2):
        d, shape, tail, _ = self.drawn(gen, 1)
        x1, x2 = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
        gamma = gen.drawn(d, tail, lambda s: gen.values(d, s, limit=4))
        mask = gen.pick((None, (True, False), (False, True), (True, True))) if v2 else None
        n = gen.integer(0, 2) if mask is None else 2
        smooth = [gen.drawn(d, tail, lambda s: d.round(gen.rng.uniform(0.2, 2, s)))
                  if i < n and (not mask or mask[i]) else None for i in range(2)]
        wanted = mask or (True, n == 2)
        beta = gen.drawn(d, tail, lambda s: gen.values(d, s, limit=4)) if v2 and gen.chance(0.5) else None
        ys = [gen.out(I8, shape) if w else Tensor.empty(I8, (1,)) for w in wanted]
        scales = [gen.out(F32, shape[:-1]) if w else Tensor.empty(F32, (1,)) for w in wanted]
        total = gen.out(d, shape)
        run("aclnnAddRmsNormDynamicQuant" + ("V2" if v2 else ""), x1, x2, gamma, *smooth, *([beta] if v2 else []), 1e-5,
            *([Bools(*mask) if mask else None] if v2 else []), *ys, total, *scales)
        v = x1.get().astype(LD) + x2.get().astype(LD)
        ref.check(total.get(), v, d, ulps=0.5)
        if not v.size:
            return
        _, v = self.norm(v, gamma.get().astype(LD), beta.get().astype(LD) if beta else LD(0), 1)
        for y, scale, by, w in zip(ys, scales, smooth, wanted):
            if not w:
                continue
            u = v * (by.get().astype(LD) if by else 1)
            most = np.abs(u).max(-1)
            ref.check(scale.get(), most / 127, F32, slack=1e-5 * (most / 127 + 1e-3))
            good = most > 1e-3
            check_integers(y.get()[good], (u / (most / 127)[..., None])[good], 127 * np.ones_like(u[good]), 127)

    def test_add_rms_norm_dynamic_quant(self):
        each_case(self, "aclnnAddRmsNormDynamicQuant", CASES, lambda g: self.dynamic(g, False))
        each_case(self, "aclnnAddRmsNormDynamicQuantV2", CASES, lambda g: self.dynamic(g, True))

    def test_add_rms_norm_cast(self):
        def body(gen):
            d, shape, tail, k = self.drawn(gen)
            x1, x2 = (gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4)) for _ in "12")
            gamma = gen.drawn(d, tail, lambda s: gen.values(d, s, limit=4))
            y, cast, total = gen.out(F32, shape), gen.out(d, shape), gen.out(d, shape)
            rstd = Tensor.empty(F32, (*shape[:len(shape) - k], *[1] * k))
            run("aclnnAddRmsNormCast", x1, x2, gamma, 1e-5, y, cast, rstd, total)
            v = x1.get().astype(LD) + x2.get().astype(LD)
            ref.check(total.get(), v, d, ulps=0.5)
            plain, _ = self.norm(v, gamma.get().astype(LD), LD(0), k)
            ref.check(y.get(), plain, F32, slack=2e-6 * np.abs(plain))
            ref.check_equal(cast.get(), d.round(y.get()))
        each_case(self, "aclnnAddRmsNormCast", CASES, body)

    def test_refused(self):
        x, g = Tensor.empty(F16, (2, 8)), Tensor.empty(F16, (8,))
        y, s = Tensor.empty(I8, (2, 8)), Tensor.empty(F32, (2,))
        op = "aclnnAddRmsNormDynamicQuant"
        for name, args in (("smoothScale2Optional", (x, x, g, None, g, 1e-5, y, y, x, s, s)),
                           ("scale1Out has dtype", (x, x, g, None, None, 1e-5, y, y, x, Tensor.empty(F16, (2,)), s)),
                           ("y1Out", (x, x, g, None, None, 1e-5, x, y, x, s, s))):
            with self.subTest(name):
                code, message = refused(op, *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)
        for name, op, args in (("y2Out", op, (x, x, g, None, None, 1e-5, y, None, x, s, s)),
                               ("scale2Out", op, (x, x, g, None, None, 1e-5, y, y, x, s, None)),
                               ("scale2Out", op + "V2",
                                (x, x, g, None, None, None, 1e-5, Bools(True, True), y, y, x, s, None)),
                               ("y2Out", "aclnnAddRmsNormQuant",
                                (x, x, g, g, None, None, None, -1, 1e-5, True, y, None, x))):
            with self.subTest(name):
                code, message = refused(op, *args)
                self.assertEqual(code, NULLPTR)
                self.assertIn(name, message)
        one = Tensor.empty(F16, (1,))
        code, message = refused("aclnnRmsNormQuant", x, x, x, one, Tensor.empty(I8, (1,)), 1e-5, y)
        self.assertEqual(code, INVALID)
        self.assertIn("gamma has 2 dimensions", message)


if __name__ == "__main__":
    unittest.main()
