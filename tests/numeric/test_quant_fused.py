# SPDX-License-Identifier: Apache-2.0
"""Operators with a step around a product or a quantisation: SwiGLU with quantisation, grouped products that add or are
quantised again, gradients of grouped biases, packing of int4, rotation by a cache, Adam with a moving average."""
import math
import unittest

import numpy as np

import reference as ref
from acl import AclError, Blocked, INVALID, Ints, Tensor, TensorList, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS, I32, I64, I8, LD
from gen import each_case
from test_product import EPS
from test_quant import packed_int4, unpacked_int4

CASES = 60


def swiglu(x, left):
    a, b = np.split(x, 2, -1)
    return a * ref.sigmoid(a) * b if left else a * b * ref.sigmoid(b)


def ends_of(gen, groups, rows, whole=False):
    """Ends of groups of the rows: all of them, or some are behind the last group."""
    ends = np.sort(gen.rng.integers(0, rows + 1, groups))
    if whole:
        ends[-1] = rows
    return ends


def check_int8(got, exact, slack=1e-3, what="int8"):
    exact = np.clip(exact, -128, 127)
    ref.complain(got, exact, np.abs(got - exact) <= 0.5 + slack, what, lambda i: "its rounding")


def check_dynamic(got, scale, v, inverse, what="row", most=127):
    """got and scale: v by rows, quantised to `most` levels."""
    largest = np.abs(v).max(-1)
    exact = most / largest if inverse else largest / most
    ref.check(scale, exact, F32, slack=4e-6 * exact, what=what)
    check_int8(got, v * (most / np.where(largest > 0, largest, 1))[..., None], what=what)


class Swiglu(unittest.TestCase):
    def test_plain(self):
        def body(gen):
            d, n, left = gen.pick(FLOATS), gen.integer(1, 40), gen.chance(0.5)
            lead = (gen.integer(1, 20),) if gen.chance(0.7) else (gen.integer(1, 4), gen.integer(1, 5))
            rows, dynamic = int(np.prod(lead)), gen.chance(0.6)
            groups = gen.integer(1, 4) if gen.chance(0.7) else 0
            x = gen.drawn(d, (*lead, 2 * n), lambda s: gen.values(d, s, limit=4))
            ends = ends_of(gen, groups, rows) if groups else np.array([rows])
            index = gen.tensor(I32, (groups,), ends.astype(np.int32)) if groups else None
            shape = (ends.size,) if gen.chance(0.3) else (ends.size, n)
            smooth = gen.tensor(F32, shape, F32.round(gen.rng.uniform(0.5, 2, shape))) \
                if not dynamic or gen.chance(0.7) else None
            offset = gen.tensor(F32, shape, F32.round(gen.rng.uniform(-9, 9, shape))) if not dynamic else None
            y, scale = Tensor.empty(I8, (*lead, n)), Tensor.empty(F32, lead)
            y.set(np.zeros(y.shape)), scale.set(np.zeros(lead))
            run("aclnnSwiGluQuant", x, smooth, offset, index, left,
                gen.pick((b"dynamic", None)) if dynamic else b"static", y, scale)
            v = swiglu(x.get().astype(LD), left).reshape(rows, n)
            of = np.searchsorted(ends, np.arange(rows), side="right")
            kept = of < ends.size
            wide = lambda t: t.get().astype(LD).reshape(ends.size, -1)[np.minimum(of, ends.size - 1)]
            v = v * wide(smooth) if smooth else v
            got, given = y.get().reshape(rows, n), scale.get().ravel()
            self.assertTrue(np.all(got[~kept] == 0))
            if dynamic:
                kept &= np.abs(v).max(-1) > 0
                check_dynamic(got[kept], given[kept], v[kept], True)
            else:
                check_int8(got[kept], (v + wide(offset))[kept])
                self.assertTrue(np.all(given == 0))
        each_case(self, "aclnnSwiGluQuant", 2 * CASES, body)

    def test_dequant(self):
        def body(gen):
            d, n, left = gen.pick((F16, BF16, I32, I32)), gen.integer(1, 40), gen.chance(0.5)
            lead = (gen.integer(1, 20),) if gen.chance(0.7) else (gen.integer(1, 4), gen.integer(1, 5))
            rows, groups = int(np.prod(lead)), gen.integer(1, 4) if gen.chance(0.6) else 0
            x = gen.drawn(d, (*lead, 2 * n), lambda s: gen.values(d, s, limit=1000 if d is I32 else 4))
            ends = ends_of(gen, groups, rows) if groups else np.array([rows])
            kind = gen.pick((I32, I64))
            index = gen.tensor(kind, (groups,), np.diff(ends, prepend=0).astype(kind.values)) if groups else None

            def vector(d, width, low, high):
                shape = (width,) if ends.size == 1 and gen.chance(0.5) else (ends.size, width)
                values = gen.rng.uniform(low, high, shape)
                return gen.tensor(d, shape, d.round(values) if d.kind == "f" else values.astype(d.values))
            weight = vector(F32, 2 * n, 0.001, 0.01) if d is I32 or gen.chance(0.3) else None
            by_row = gen.tensor(F32, (*lead, 1) if gen.chance(0.5) else lead) if gen.chance(0.7) else None
            if by_row:
                by_row.set(F32.round(gen.rng.uniform(0.5, 2, by_row.shape)))
            bias = vector(I32, 2 * n, -500, 500) if d is I32 and gen.chance(0.5) else None
            smooth = vector(gen.pick((F32, F16)), n, 0.5, 2) if gen.chance(0.7) else None
            y, scale = Tensor.empty(I8, (*lead, n)), Tensor.empty(F32, lead)
            y.set(np.zeros(y.shape)), scale.set(np.zeros(lead))
            run("aclnnDequantSwigluQuant", x, weight, by_row, bias, smooth, None, index, left, b"dynamic", y, scale)
            of = np.searchsorted(ends, np.arange(rows), side="right")
            kept = of < ends.size
            wide = lambda t: t.get().astype(LD).reshape(ends.size, -1)[np.minimum(of, ends.size - 1)]
            v = x.get().astype(LD).reshape(rows, 2 * n)
            v = v + wide(bias) if bias else v
            v = v * wide(weight) if weight else v
            v = v * by_row.get().astype(LD).reshape(rows, 1) if by_row else v
            v = swiglu(v, left)
            v = v * wide(smooth) if smooth else v
            got = y.get().reshape(rows, n)
            self.assertTrue(np.all(got[~kept] == 0))
            kept &= np.abs(v).max(-1) > 0
            check_dynamic(got[kept], scale.get().ravel()[kept], v[kept], False)
        each_case(self, "aclnnDequantSwigluQuant", 2 * CASES, body)

    def test_plain_v2(self):
        def body(gen):
            d, n, left, kind = gen.pick(FLOATS), gen.integer(1, 40), gen.chance(0.5), gen.pick(("i8", "int4", "bytes"))
            n *= 1 if kind == "i8" else 2
            lead = (gen.integer(1, 20),) if gen.chance(0.7) else (gen.integer(1, 4), gen.integer(1, 5))
            rows, dynamic, most = int(np.prod(lead)), gen.chance(0.6), 127 if kind == "i8" else 7
            groups, by_size = gen.integer(1, 4) if gen.chance(0.7) else 0, gen.chance(0.5)
            x = gen.drawn(d, (*lead, 2 * n), lambda s: gen.values(d, s, limit=4))
            ends = ends_of(gen, groups, rows) if groups else np.array([rows])
            given = np.diff(ends, prepend=0) if by_size else ends
            index = gen.tensor(I32, (groups,), given.astype(np.int32)) if groups else None
            shape = (ends.size,) if gen.chance(0.3) else (ends.size, n)
            smooth = gen.tensor(F32, shape, F32.round(gen.rng.uniform(0.5, 2, shape))) \
                if not dynamic or gen.chance(0.7) else None
            offset = gen.tensor(F32, shape, F32.round(gen.rng.uniform(-9, 9, shape))) if not dynamic else None
            scale = Tensor.empty(F32, lead)
            scale.set(np.zeros(lead))
            if kind == "int4":
                y = packed_int4(np.zeros((*lead, n)), False)
            else:
                y = Tensor.of(I8, np.zeros((*lead, n if kind == "i8" else n // 2)))
            run("aclnnSwiGluQuantV2", x, smooth, offset, index, left, b"dynamic" if dynamic else b"static",
                int(by_size), 2 if kind == "i8" else 29, y, scale)
            got = y.get() if kind == "i8" else unpacked_int4(y, (*lead, n))
            v = swiglu(x.get().astype(LD), left).reshape(rows, n)
            of = np.searchsorted(ends, np.arange(rows), side="right")
            kept = of < ends.size
            wide = lambda t: t.get().astype(LD).reshape(ends.size, -1)[np.minimum(of, ends.size - 1)]
            v = v * wide(smooth) if smooth else v
            got, given = got.reshape(rows, n), scale.get().ravel()
            self.assertTrue(np.all(got[~kept] == 0))
            if dynamic:
                kept &= np.abs(v).max(-1) > 0
                check_dynamic(got[kept], given[kept], v[kept], True, most=most)
            else:
                check_int8(got[kept], np.clip((v + wide(offset))[kept], -most - 1, most))
        each_case(self, "aclnnSwiGluQuantV2", 2 * CASES, body)

    def test_dequant_v2(self):
        def body(gen):
            d, n, mode = gen.pick((F16, BF16, I32)), gen.integer(1, 40), gen.integer(0, 2)
            left, rows, groups = mode > 0 or gen.chance(0.5), gen.integer(1, 20), gen.integer(0, 4)
            limit, alpha, shift = gen.pick((7.0, 0.5, 2.0)), gen.pick((1.702, -0.5, 1.0)), gen.pick((1.0, 0.0, -2.5))
            x = gen.drawn(d, (rows, 2 * n), lambda s: gen.values(d, s, limit=1000 if d is I32 else 4))
            ends = ends_of(gen, groups, rows) if groups else np.array([rows])
            index = gen.tensor(I64, (groups,), np.diff(ends, prepend=0)) if groups else None
            draw = lambda shape, low, high: gen.tensor(F32, shape, F32.round(gen.rng.uniform(low, high, shape)))
            weight = draw((ends.size, 2 * n), 0.001, 0.01) if d is I32 else None
            by_row = draw((rows,), 0.5, 2) if d is I32 and gen.chance(0.7) else None
            bias = gen.tensor(I32, (ends.size, 2 * n), gen.rng.integers(-500, 500, (ends.size, 2 * n), np.int32)) \
                if d is I32 and gen.chance(0.5) else None
            smooth = draw(gen.pick(((ends.size, n), (ends.size,))), 0.5, 2) if gen.chance(0.7) else None
            y, scale = Tensor.of(I8, np.zeros((rows, n))), Tensor.of(F32, np.zeros(rows))
            run("aclnnDequantSwigluQuantV2", x, weight, by_row, bias, smooth, None, index, left, b"dynamic", 2,
                gen.pick((b"rint", None)), gen.pick((-1, 1)), mode, limit, alpha, shift, y, scale)
            of = np.searchsorted(ends, np.arange(rows), side="right")
            kept = of < ends.size
            wide = lambda t: t.get().astype(LD).reshape(ends.size, -1)[np.minimum(of, ends.size - 1)]
            v = x.get().astype(LD)
            v = v + wide(bias) if bias else v
            v = v * wide(weight) if weight else v
            v = v * by_row.get().astype(LD)[:, None] if by_row else v
            if mode:
                a, b = (v[:, ::2], v[:, 1::2]) if mode == 1 else np.split(v, 2, -1)
                a, b = np.minimum(a, LD(limit)), np.clip(b, LD(-limit), LD(limit))
                v = a * ref.sigmoid(LD(np.float32(alpha)) * a) * (b + LD(shift))
            else:
                v = swiglu(v, left)
            v = v * wide(smooth) if smooth else v
            self.assertTrue(np.all(y.get()[~kept] == 0))
            kept &= np.abs(v).max(-1) > 1e-3
            check_dynamic(y.get()[kept], scale.get()[kept], v[kept], False)
        each_case(self, "aclnnDequantSwigluQuantV2", 2 * CASES, body)

    def test_refused_v2(self):
        x, y, s = Tensor.empty(F16, (3, 8)), Tensor.empty(I8, (3, 4)), Tensor.empty(F32, (3,))
        for text, args in (("groupListType is 2", (x, None, None, None, True, None, 2, 2, y, s)),
                           ("dstType is 3", (x, None, None, None, True, None, 0, 3, y, s)),
                           ("yOut", (x, None, None, None, True, None, 0, 29, y, s)),
                           ("quantModeOptional is dynamic_msd",
                            (x, None, None, None, True, b"dynamic_msd", 0, 2, y, s))):
            code, message = refused("aclnnSwiGluQuantV2", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        for text, values in (("dstType is 36", (True, b"dynamic", 36, None, -1, 0, 7.0, 1.7, 1.0)),
                             ("roundModeOptional is round", (True, b"dynamic", 2, b"round", -1, 0, 7.0, 1.7, 1.0)),
                             ("activateDim is 0", (True, b"dynamic", 2, None, 0, 0, 7.0, 1.7, 1.0)),
                             ("swigluMode is 3", (True, b"dynamic", 2, None, -1, 3, 7.0, 1.7, 1.0)),
                             ("activateLeft is false", (False, b"dynamic", 2, None, -1, 1, 7.0, 1.7, 1.0)),
                             ("clampLimit is 0", (True, b"dynamic", 2, None, -1, 2, 0.0, 1.7, 1.0))):
            code, message = refused("aclnnDequantSwigluQuantV2", x, *[None] * 6, *values, y, s)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        code, message = refused("aclnnDequantSwigluQuantV2", Tensor.empty(I32, (3, 8)), *[None] * 6, True, b"dynamic",
                                2, None, -1, 0, 7.0, 1.7, 1.0, y, s)
        self.assertIn("weightScaleOptional is NULL, expected a tensor", message)

    def test_refused(self):
        x, y, s = Tensor.empty(F16, (3, 8)), Tensor.empty(I8, (3, 4)), Tensor.empty(F32, (3,))
        for text, args in (("quantModeOptional is static", (None, None, None, None, None, None, False, b"static")),
                           ("quantOffsetOptional", (None, None, None, None, s, None, False, b"dynamic")),
                           ("biasOptional", (None, None, Tensor.empty(I32, (8,)), None, None, None, False, b"dynamic")),
                           ("weightScaleOptional has shape [3]", (s, None, None, None, None, None, False, b"dynamic"))):
            code, message = refused("aclnnDequantSwigluQuant", x, *args, y, s)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        with self.assertRaises(AclError) as error:
            run("aclnnSwiGluQuant", x, Tensor.of(F32, [1, 1]), None, Tensor.of(I32, [2, 1]), True, None, y, s)
        self.assertIn("groupIndexOptional[1] is 1, expected 2 to 3", error.exception.message)


class Gelu(unittest.TestCase):
    def test_gelu_quant(self):
        erf = np.vectorize(math.erf, otypes=[np.float64])

        def body(gen):
            d, by_tanh, dynamic = gen.pick(FLOATS), gen.chance(0.5), gen.chance(0.6)
            shape = gen.shape(min_rank=2 if dynamic else 1, max_rank=4, empty=0)
            n = shape[-1]
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=6))
            p_type, width = gen.pick((d, F32)), gen.pick((1, n))
            scale = gen.drawn(p_type, (width,), lambda s: p_type.round(gen.rng.uniform(0.5, 20, s))) \
                if not dynamic or gen.chance(0.6) else None
            offset = gen.drawn(p_type, (width,), lambda s: p_type.round(gen.rng.uniform(-9, 9, s))) \
                if scale and gen.chance(0.5) else None
            y, out_scale = gen.out(I8, shape), gen.out(F32, shape[:-1]) if dynamic else None
            run("aclnnGeluQuant", x, scale, offset, b"tanh" if by_tanh else b"none",
                b"dynamic" if dynamic else b"static", b"rint", 2, y, out_scale)
            v = x.get().astype(np.float64)
            v = v * (0.5 + 0.5 * (np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)) if by_tanh else
                                  erf(v / np.sqrt(2))))
            v = v.astype(LD) * (scale.get().astype(LD) if scale else 1)
            if dynamic:
                v, got, s = v.reshape(-1, n), y.get().reshape(-1, n), out_scale.get().ravel()
                kept = np.abs(v).max(-1) > 1e-3
                check_dynamic(got[kept], s[kept], v[kept], False)
            else:
                check_int8(y.get(), v + (offset.get().astype(LD) if offset else 0))
        each_case(self, "aclnnGeluQuant", 2 * CASES, body)

    def test_refused(self):
        x, y = Tensor.empty(F16, (3, 8)), Tensor.empty(I8, (3, 8))
        s, one = Tensor.empty(F32, (3,)), Tensor.empty(F32, (1,))
        for text, args in (("approximate is erf", (one, None, b"erf", b"static", b"rint", 2, y, None)),
                           ("quantMode is both", (one, None, b"none", b"both", b"rint", 2, y, None)),
                           ("roundMode is round", (one, None, b"none", b"static", b"round", 2, y, None)),
                           ("dstType is 34", (one, None, b"none", b"static", b"rint", 34, y, None)),
                           ("inputScaleOptional is NULL", (None, None, b"none", b"static", b"rint", 2, y, None)),
                           ("inputOffsetOptional", (None, one, b"none", b"dynamic", b"rint", 2, y, s)),
                           ("outScaleOptional is NULL", (one, None, b"none", b"dynamic", b"rint", 2, y, None)),
                           ("inputScaleOptional has shape [3]", (s, None, b"none", b"static", b"rint", 2, y, None))):
            code, message = refused("aclnnGeluQuant", x, *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)


class Clipped(unittest.TestCase):
    def test_clipped_swiglu(self):
        def body(gen):
            d, shape = gen.pick(FLOATS), list(gen.shape(min_rank=1, max_rank=4, numel=400))
            dim, interleaved = gen.integer(0, len(shape) - 1), gen.chance(0.5)
            shape[dim] *= 2
            merged = interleaved and dim < len(shape) - 1
            before, rows = shape[:dim], int(np.prod(shape[:dim]))
            half = before + [shape[dim] // 2] + shape[dim + 1:]
            groups = gen.rng.integers(0, rows + 2, gen.integer(0, 3)) if gen.chance(0.5) else None
            alpha, limit, bias = gen.pick((1.702, -0.5)), gen.pick((7.0, 1.5)), gen.pick((1.0, -0.25))
            draw = lambda s: gen.values(d, s, limit=10)
            x = Tensor.of(d, draw(shape)) if merged else gen.drawn(d, shape, draw)
            pattern = np.full(half, -3.0)
            out = Tensor.of(d, pattern) if merged else gen.out(d, half, pattern)
            run("aclnnClippedSwiglu", x, gen.tensor(I64, groups.shape, groups) if groups is not None else None,
                gen.pick((dim, dim - len(shape))), alpha, limit, bias, interleaved, out)
            v = x.get().astype(LD).reshape(rows, -1) if 0 not in shape else np.zeros((rows, 0), LD)
            a, b = (v[:, ::2], v[:, 1::2]) if interleaved else np.split(v, 2, -1)
            a, b = np.minimum(a, LD(limit)), np.clip(b, LD(-limit), LD(limit))
            alpha = LD(np.float32(alpha))
            exact, size = a * ref.sigmoid(alpha * a) * (b + LD(bias)), np.abs(a) * (np.abs(b) + abs(bias))
            kept = np.arange(rows) < (rows if groups is None else groups.sum())
            got = out.get().reshape(rows, -1) if 0 not in shape else np.zeros((rows, 0))
            ref.check(got[kept], exact[kept], d, F32, slack=1e-6 * size[kept])
            self.assertTrue(np.all(got[~kept] == -3))
        each_case(self, "aclnnClippedSwiglu", 2 * CASES, body)

    def test_nan_and_infinity(self):
        x, out = Tensor.of(F32, [np.nan, np.inf, -np.inf, 1, 1, 1, np.nan, np.inf]), Tensor.empty(F32, (4,))
        run("aclnnClippedSwiglu", x, None, 0, 1.0, 7.0, 0.0, False, out)
        self.assertTrue(np.isnan(out.get()[0]) and np.isnan(out.get()[2]))
        ref.check(out.get()[[1, 3]], LD([7, 7]) * ref.sigmoid(LD([7, 1])), F32, slack=1e-5)

    def test_refused(self):
        x, out = Tensor.empty(F32, (3, 4)), Tensor.empty(F32, (3, 2))
        for text, args in (("limit is 0", (x, None, 1, 1.0, 0.0, 1.0, False, out)),
                           ("x has 3 elements in dimension 0", (x, None, 0, 1.0, 1.0, 1.0, False, out)),
                           ("out has dtype", (x, None, 1, 1.0, 1.0, 1.0, False, Tensor.empty(F16, (3, 2)))),
                           ("groupIndexOptional has dtype", (x, Tensor.empty(I32, (1,)), 1, 1.0, 1.0, 1.0, False, out)),
                           ("dim is 2", (x, None, 2, 1.0, 1.0, 1.0, False, out))):
            code, message = refused("aclnnClippedSwiglu", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)
        with self.assertRaises(AclError) as error:
            run("aclnnClippedSwiglu", x, Tensor.of(I64, [1, -1]), 1, 1.0, 1.0, 1.0, False, out)
        self.assertIn("groupIndexOptional[1] is -1", error.exception.message)


class Grouped(unittest.TestCase):
    def test_add(self):
        def body(gen, v2=False):
            d, groups = gen.pick((F16, BF16)), gen.integer(1, 5)
            m, k, n = gen.integer(1, 40), gen.integer(1, 60), gen.integer(1, 40)
            x = gen.drawn(d, (k, m), lambda s: gen.values(d, s, limit=8))
            w = gen.drawn(d, (k, n), lambda s: gen.values(d, s, limit=8))
            ends = ends_of(gen, groups, k)
            shape = (groups, m, n) if gen.chance(0.5) else (groups * m, n)
            y = Tensor.of(F32, gen.values(F32, shape, limit=50))
            before = y.get().astype(LD).reshape(groups, m, n)
            by_size = v2 and gen.chance(0.5)
            given = gen.tensor(I64, (groups,), (np.diff(ends, prepend=0) if by_size else ends).astype(np.int64))
            run("aclnnGroupedMatmulAdd" + ("V2" if v2 else ""), x, w, given, y, True, False, 2,
                *([int(by_size)] if v2 else []))
            a, b, exact, size = x.get().astype(LD), w.get().astype(LD), before.copy(), np.abs(before)
            for g, (begin, end) in enumerate(zip([0, *ends], ends)):
                exact[g] += a[begin:end].T @ b[begin:end]
                size[g] += np.abs(a[begin:end]).T @ np.abs(b[begin:end])
            ref.check(y.get().reshape(groups, m, n), exact, F32, F32, ulps=1, slack=2 * (k + 2) * EPS * size)
        each_case(self, "aclnnGroupedMatmulAdd", CASES, body)
        each_case(self, "aclnnGroupedMatmulAddV2", CASES // 2, lambda gen: body(gen, True))
        x, y = Tensor.empty(F16, (3, 4)), Tensor.empty(F32, (1, 4, 4))
        code, message = refused("aclnnGroupedMatmulAddV2", x, x, Tensor.of(I64, [3]), y, True, False, 2, 2)
        self.assertEqual(code, INVALID)
        self.assertIn("group_list_type is 2", message)

    def test_swiglu_quant(self):
        def body(gen, v2=False):
            groups, m, k, n = gen.integer(1, 4), gen.integer(1, 30), gen.integer(1, 60), gen.integer(1, 30)
            x = gen.out(I8, (m, k), gen.rng.integers(-128, 128, (m, k)))
            w = gen.out(I8, (groups, k, 2 * n), gen.rng.integers(-128, 128, (groups, k, 2 * n)))
            ends, s_type = ends_of(gen, groups, m), gen.pick(FLOATS)
            scale = gen.tensor(s_type, (groups, 2 * n),
                               s_type.round(gen.rng.uniform(0.5, 2, (groups, 2 * n)) / (5000 * k ** 0.5)))
            by_row = gen.tensor(F32, (m,), F32.round(gen.rng.uniform(0.5, 4, m)))
            y, to = Tensor.empty(I8, (m, n)).set(np.zeros((m, n))), Tensor.empty(F32, (m,)).set(np.zeros(m))
            nz, reserved = gen.chance(0.5), Tensor.empty(F32, ()) if gen.chance(0.3) else None
            weight = gen.keep(Blocked(w, gen.chance(0.5))) if nz and gen.chance(0.6) else w
            by_size = v2 and gen.chance(0.5)
            given = gen.tensor(I64, (groups,), (np.diff(ends, prepend=0) if by_size else ends).astype(np.int64))
            if v2:
                run("aclnnGroupedMatmulSwigluQuant" + ("WeightNzV2" if nz else "V2"), x, TensorList([weight]),
                    TensorList([scale]), None, None, by_row, None, given, 0, 0, 0, int(by_size),
                    gen.pick((None, Ints(m))), y, to)
            else:
                run("aclnnGroupedMatmulSwigluQuant" + nz * "WeightNZ", x, weight, None, None, scale, by_row, given, y,
                    to, reserved)
            of = np.searchsorted(ends, np.arange(m), side="right")
            kept = of < groups
            self.assertTrue(np.all(y.get()[~kept] == 0))
            at = of[kept]
            sums = np.einsum("mk,mkn->mn", x.get()[kept].astype(np.int64), w.get()[at].astype(np.int64)).astype(LD)
            v = swiglu(sums * scale.get().astype(LD)[at] * by_row.get().astype(LD)[kept][:, None], True)
            some = np.abs(v).max(-1) > 0 if v.size else np.zeros(0, bool)
            check_dynamic(y.get()[kept][some], to.get()[kept][some], v[some], False)
        each_case(self, "aclnnGroupedMatmulSwigluQuant", CASES, body)
        each_case(self, "aclnnGroupedMatmulSwigluQuantV2", CASES, lambda gen: body(gen, True))

    def test_swiglu_quant_refused(self):
        x, w, s = Tensor.empty(I8, (3, 4)), Tensor.empty(I8, (2, 4, 6)), Tensor.empty(F32, (2, 6))
        rows, ends, y = Tensor.empty(F32, (3,)), Tensor.of(I64, [1, 3]), Tensor.empty(I8, (3, 3))

        def call(w=(w,), s=(s,), assist=None, bias=None, smooth=None, dequant=0, quant=0, kind=0):
            return refused("aclnnGroupedMatmulSwigluQuantV2", x, TensorList([*w]), TensorList([*s]), assist, bias, rows,
                           smooth, ends, dequant, 0, quant, kind, None, y, rows)
        for expected, values in (
                ("weight and weightScale have 2 and 1 tensors", {"w": (w, w)}),
                ("weightAsistMatrix is given", {"assist": TensorList([s])}), ("bias is given", {"bias": rows}),
                ("smoothScale is given", {"smooth": rows}), ("dequantMode is 1", {"dequant": 1}),
                ("quantMode is 1", {"quant": 1}), ("groupListType is 2", {"kind": 2}),
                ("weight has dtype INT32", {"w": (Tensor.empty(I32, (2, 4, 6)),)})):
            code, message = call(**values)
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)

    def test_finalize(self):
        def body(gen, v2=False):
            groups, m, k, n = gen.integer(1, 4), gen.integer(1, 30), gen.integer(1, 60), gen.pick((1, 30, 300))
            tokens, by_size = gen.integer(1, 9), gen.integer(0, 1)
            x = gen.out(I8, (m, k), gen.rng.integers(-128, 128, (m, k)))
            w = gen.out(I8, (groups, k, n), gen.rng.integers(-128, 128, (groups, k, n)))
            ends = ends_of(gen, groups, m)
            sizes = np.diff(ends, prepend=0)
            scale = gen.tensor(F32, (groups, n), F32.round(gen.rng.uniform(0.5, 2, (groups, n)) / (5000 * k ** 0.5)))
            by_row, logit = (gen.tensor(F32, (m,), F32.round(gen.rng.uniform(0.1, 2, m))) if gen.chance(0.7) else None
                             for _ in "12")
            kind, n_shared = gen.pick((I32, I64)), gen.integer(0, tokens)
            index = gen.tensor(kind, (m,), gen.rng.integers(0, tokens, m).astype(kind.values))
            shared = gen.drawn(BF16, (n_shared, n), lambda s: gen.values(BF16, s, limit=4)) if n_shared else None
            offset, y = gen.integer(0, tokens - n_shared), Tensor.empty(F32, (tokens, n))
            groups_of = gen.tensor(I64, (groups,), (sizes if by_size else ends).astype(np.int64))
            weight = gen.keep(Blocked(w, gen.chance(0.5))) if gen.chance(0.6) else w
            tuning = [gen.pick((None, Ints(m)))] if v2 else []
            run("aclnnGroupedMatmulFinalizeRoutingWeightNz" + ("V2" if v2 else ""), x, weight, scale, None,
                *([None] * 3 if v2 else []), by_row, groups_of, shared, logit, index, 0, 0.5, offset, False, False,
                by_size, *tuning, y)
            of = np.searchsorted(ends, np.arange(m), side="right")
            at, kept = of[of < groups], np.flatnonzero(of < groups)
            rows = np.einsum("mk,mkn->mn", x.get()[kept].astype(np.int64), w.get()[at].astype(np.int64)).astype(LD)
            rows = rows * scale.get().astype(LD)[at]
            for t in (by_row, logit):
                rows = rows * t.get().astype(LD)[kept][:, None] if t else rows
            exact = np.zeros((tokens, n), LD)
            if shared:
                exact[offset:offset + n_shared] = shared.get().astype(LD) / 2
            size = np.abs(exact)
            np.add.at(exact, index.get()[kept], rows)
            np.add.at(size, index.get()[kept], np.abs(rows))
            ref.check(y.get(), exact, F32, F32, ulps=1, slack=2 * (kept.size + 3) * EPS * size)
        each_case(self, "aclnnGroupedMatmulFinalizeRoutingWeightNz", CASES, body)
        each_case(self, "aclnnGroupedMatmulFinalizeRoutingWeightNzV2", CASES // 2, lambda gen: body(gen, True))

    def test_finalize_nibbles(self):
        """x of int8 and weights of int4, by elements or by words; V2 also takes weights of int8, as WeightNz does."""
        def body(gen, op):
            groups, m, tokens, by_size = gen.integer(1, 4), gen.integer(1, 30), gen.integer(1, 9), gen.integer(0, 1)
            k, n, parts = gen.pick((2, 16, 64)), gen.pick((2, 8, 40, 296)), gen.pick((1, 1, 2))
            is_int4 = gen.chance(0.8)
            x = gen.out(I8, (m, k), gen.rng.integers(-128, 128, (m, k)))
            most = 8 if is_int4 else 128
            values = gen.rng.integers(-most, most, (groups, k, n))
            words = n % 8 == 0 and k != n // 8 and gen.chance(0.5)
            w = gen.keep(packed_int4(values, words)) if is_int4 else gen.out(I8, values.shape, values)
            ends = ends_of(gen, groups, m)
            groups_of = gen.tensor(I64, (groups,), (np.diff(ends, prepend=0) if by_size else ends).astype(np.int64))
            parts = parts if is_int4 else 1
            scales = F32.round(gen.rng.uniform(0.5, 2, (groups, parts, n)) / 1000)
            by_row, logit = (gen.tensor(F32, (m,), F32.round(gen.rng.uniform(0.1, 2, m))) for _ in "12")
            spread = np.asarray(scales, LD)[:, np.arange(k) // (k // parts)]
            bias = offset = None
            if is_int4:
                bits = np.asarray(scales, np.float32).view(np.uint32).astype(np.int64)
                scale = gen.tensor(I64, bits.shape, bits)
                bias = gen.tensor(F32, (groups, n), F32.round(gen.rng.uniform(-2, 2, (groups, n))))
                if gen.chance(0.5):
                    offset = gen.tensor(F32, scales.shape, F32.round(gen.rng.uniform(-0.01, 0.01, scales.shape)))
            else:
                scale = gen.tensor(F32, (groups, n), scales[:, 0])
            index = gen.tensor(I64, (m,), gen.rng.integers(0, tokens, m))
            y = Tensor.empty(F32, (tokens, n))
            tuning = [] if op.endswith("RoutingV2") else [gen.pick((None, Ints(m)))]
            run(op, x, w, scale, bias, offset, None, None, by_row, groups_of, None, logit, index, 0, 1.0, 0, False,
                False, by_size, *tuning, y)
            of = np.searchsorted(ends, np.arange(m), side="right")
            at, kept = of[of < groups], np.flatnonzero(of < groups)
            v, weights = x.get()[kept].astype(LD), values.astype(LD) * spread
            less = v - 8 * is_int4
            rows, size = (np.einsum("mk,mkn->mn", f(less), f(weights[at])) for f in (lambda t: t, np.abs))
            for extra in ([bias.get().astype(LD)[at]] if bias else []) + (
                    [np.einsum("mk,mkn->mn", v, offset.get().astype(LD)[at][:, np.arange(k) // (k // parts)])]
                    if offset else []):
                rows, size = rows + extra, size + np.abs(extra)
            by = (by_row.get().astype(LD) * logit.get().astype(LD))[kept][:, None]
            exact, total = np.zeros((tokens, n), LD), np.zeros((tokens, n), LD)
            np.add.at(exact, index.get()[kept], rows * by)
            np.add.at(total, index.get()[kept], size * by)
            ref.check(y.get(), exact, F32, F32, ulps=1, slack=2 * (kept.size + k + 3) * EPS * total)
        for op, cases in (("V2", CASES), ("V3", CASES // 2), ("WeightNzV2", CASES // 2)):
            op = "aclnnGroupedMatmulFinalizeRouting" + op
            each_case(self, op, cases, lambda gen, op=op: body(gen, op))

    def test_finalize_refused(self):
        x, w = Tensor.empty(I8, (3, 4)), packed_int4(np.zeros((2, 4, 6)), False)
        scale, bias, by_row, ends = (Tensor.of(d, np.zeros(s)) for d, s in (
            (I64, (2, 1, 6)), (F32, (2, 6)), (F32, (3,)), (I64, (2,))))
        index, y = Tensor.of(I64, [0, 0, 0]), Tensor.empty(F32, (2, 6))

        def call(scale=scale, bias=bias, offset=None, antiquant=None, by_row=by_row, index=index, dtype=0, y=y, w=w):
            return refused("aclnnGroupedMatmulFinalizeRoutingV2", x, w, scale, bias, offset, antiquant, None, by_row,
                           ends, None, None, index, dtype, 1.0, 0, False, False, 1, y)
        for expected, values in (
                ("biasOptional is NULL", {"bias": None}), ("pertokenScaleOptional is NULL", {"by_row": None}),
                ("scaleOptional has dtype FLOAT", {"scale": Tensor.empty(F32, (2, 1, 6))}),
                ("scaleOptional has 3 parts", {"scale": Tensor.empty(I64, (2, 3, 6))}),
                ("offsetOptional has 2 parts", {"offset": Tensor.empty(F32, (2, 2, 6))}),
                ("antiquantScaleOptional is a tensor", {"antiquant": bias}), ("dtype is 1", {"dtype": 1}),
                ("rowIndexOptional is NULL", {"index": None}),
                ("out has shape [2, 5]", {"y": Tensor.empty(F32, (2, 5))}),
                ("x2 has dtype FLOAT", {"w": Tensor.empty(F32, (2, 4, 6))}),
                ("biasOptional is a tensor", {"w": Tensor.empty(I8, (2, 4, 6))})):
            code, message = call(**values)
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)

    def test_bias_grad(self):
        def body(gen):
            d, groups, width = gen.pick(FLOATS), gen.integer(1, 6), gen.pick((1, 7, 40, 300))
            v2, kind = gen.chance(0.6), gen.pick((I32, I64))
            index_type = gen.integer(0, 1) if v2 else 0
            if gen.chance(0.3):
                rows = gen.integer(1, 30)
                grad, index = gen.drawn(d, (groups, rows, width), lambda s: gen.values(d, s, limit=8)), None
                parts = [g.astype(LD) for g in grad.get()]
            else:
                rows = gen.integer(1, 60)
                grad = gen.drawn(d, (rows, width), lambda s: gen.values(d, s, limit=8))
                ends = ends_of(gen, groups, rows, whole=True)
                values = np.diff(ends, prepend=0) if index_type else ends
                index = gen.tensor(kind, (groups,), values.astype(kind.values))
                parts = [grad.get()[b:e].astype(LD) for b, e in zip([0, *ends], ends)]
            out = gen.out(d, (groups, width))
            run("aclnnGroupedBiasAddGrad" + ("V2" if v2 else ""), grad, index, *([index_type] if v2 else []), out)
            exact, size = (np.array([f(p).sum(0) for p in parts]) for f in (lambda v: v, np.abs))
            ref.check(out.get(), exact, d, F64, ulps=1, slack=rows * F64.ulp(size))
        each_case(self, "aclnnGroupedBiasAddGrad", 2 * CASES, body)
        with self.assertRaises(AclError) as error:
            run("aclnnGroupedBiasAddGrad", Tensor.empty(F32, (4, 2)), Tensor.of(I64, [3, 2]), Tensor.empty(F32, (2, 2)))
        self.assertIn("groupIdxOptional[1] is 2, expected 3 to 4", error.exception.message)

    def test_refused(self):
        x, w, y, g = (Tensor.empty(F16, (6, 4)), Tensor.empty(F16, (6, 5)), Tensor.empty(F32, (2, 4, 5)),
                      Tensor.of(I64, [2, 6]))
        for text, args in (("transposeX is false", (x, w, g, y, False, False, 2)),
                           ("groupType is 0", (x, w, g, y, True, False, 0)),
                           ("yRef has shape", (x, w, g, Tensor.empty(F32, (4, 5)), True, False, 2))):
            code, message = refused("aclnnGroupedMatmulAdd", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)


class Dequant(unittest.TestCase):
    def test_products(self):
        def body(gen):
            grouped, transposed = gen.chance(0.6), gen.chance(0.6)
            groups, m, k, n = (gen.integer(1, most) for most in (4 if grouped else 1, 30, 60, 30))
            x = gen.drawn(F16, (m, k), lambda s: gen.values(F16, s, limit=8))
            w = gen.rng.integers(-128, 128, (groups, k, n)).astype(np.int8)
            given = np.swapaxes(w, 1, 2) if transposed else w
            given = given if grouped else given[0]
            weight = gen.out(I8, given.shape, given)
            smooth = gen.tensor(F16, (k,), F16.round(gen.rng.uniform(0.5, 2, k))) if gen.chance(0.5) else None
            mode = gen.pick(("dynamic", "pertoken", "pertensor", "words"))
            by = F32.round(gen.rng.uniform(0.05, 0.2, m if mode == "pertoken" else 1))
            by = F16.round(by) if mode == "words" else by
            by_x = gen.tensor(F16 if mode == "words" else F32, by.shape, by) if mode != "dynamic" else None
            scale = F32.round(gen.rng.uniform(0.5, 2, (groups, n)) / (200 * k ** 0.5))
            shape = scale.shape if grouped else (n,)
            values = scale.reshape(shape)
            if mode == "words":
                values = values.astype(np.float32).view(np.int32).astype(np.int64)
            by_w = gen.tensor(I64 if mode == "words" else F32, shape, values)
            ends = ends_of(gen, groups, m) if grouped else np.array([m])
            out = Tensor.empty(F16, (m, n)).set(np.zeros((m, n)))
            if gen.chance(0.4):
                weight = gen.keep(Blocked(weight, gen.chance(0.5)))
            grouped_op = "aclnnQuantGroupedMatmulDequant" + gen.pick(("", "WeightNZ"))
            run(grouped_op if grouped else "aclnnQuantMatmulDequant", x, weight, by_w,
                *([gen.tensor(I64, (groups,), ends.astype(np.int64))] if grouped else []), None, by_x, None, smooth,
                b"pertensor" if mode in ("pertensor", "words") else b"pertoken", transposed, out)
            v = x.get().astype(np.float32)
            v = v * smooth.get().astype(np.float32) if smooth else v
            s = by if mode != "dynamic" else np.abs(v).max(-1) / np.float32(127)
            s = s.astype(np.float32)
            of = np.searchsorted(ends, np.arange(m), side="right")
            kept = (of < groups) & (np.broadcast_to(s, m) > 0)
            exact_q = v / np.where(s > 0, s, 1)[:, None]
            q = np.clip(np.rint(exact_q), -128, 127).astype(np.int64)[kept]
            at = of[kept]
            sums = np.einsum("mk,mkn->mn", q, w[at].astype(np.int64)).astype(LD)
            # A quotient next to a half may be rounded to either side.
            near = (np.abs(np.abs(exact_q - np.rint(exact_q)) - 0.5) < 1e-4)[kept]
            doubt = np.einsum("mk,mkn->mn", near.astype(np.int64), np.abs(w[at]).astype(np.int64))
            factor = scale.astype(LD)[at] * (1 if mode == "words" else np.broadcast_to(s, m).astype(LD)[kept][:, None])
            ref.check(out.get()[kept], sums * factor, F16, F32, ulps=2, slack=(doubt + 1e-6 * np.abs(sums)) * factor)
            self.assertTrue(np.all(out.get()[of >= groups] == 0))
        each_case(self, "aclnnQuantMatmulDequant", 3 * CASES, body)
        x, w, s = Tensor.empty(F16, (3, 4)), Tensor.empty(I8, (5, 4)), Tensor.empty(F32, (5,))
        for text, args in (("xQuantMode is other", (s, None, None, None, None, b"other")),
                           ("xScaleOptional is NULL", (s, None, None, None, None, b"pertensor")),
                           ("weightScale has dtype INT64",
                            (Tensor.empty(I64, (5,)), None, None, None, None, b"pertoken"))):
            code, message = refused("aclnnQuantMatmulDequant", x, w, *args, True, Tensor.empty(F16, (3, 5)))
            self.assertEqual(code, INVALID)
            self.assertIn(text, message)


class Others(unittest.TestCase):
    def test_int4_pack(self):
        def body(gen):
            shape = (*gen.shape(max_rank=2, min_rank=1, empty=0)[:2], 8 * gen.integer(1, 6))
            weight = gen.out(I32, shape, gen.rng.integers(-8, 8, shape))
            out = packed_int4(np.zeros(shape), gen.chance(0.5))
            run("aclnnConvertWeightToINT4Pack", weight, out)
            ref.check_equal(unpacked_int4(out, shape), weight.get())
        each_case(self, "aclnnConvertWeightToINT4Pack", CASES, body)

    def test_flat_quant(self):
        def body(gen):
            d, m, n1, n2 = gen.pick((F16, BF16)), gen.integer(1, 9), gen.integer(1, 12), 8 * gen.integer(1, 3)
            x = gen.drawn(d, (m, n1, n2), lambda s: gen.values(d, s, limit=4))
            p1, p2 = (gen.drawn(d, (n, n), lambda s: gen.values(d, s, limit=2)) for n in (n1, n2))
            clip, scale = gen.pick((1.0, 0.75)), gen.out(F32, (m,))
            out = packed_int4(np.zeros(x.shape), gen.chance(0.5))
            run("aclnnFlatQuant", x, p1, p2, clip, out, scale)
            v, a, b = (t.get().astype(LD) for t in (x, p1, p2))
            exact, size = a @ (v @ b), np.abs(a) @ (np.abs(v) @ np.abs(b))
            largest, error = np.abs(exact).max((1, 2)), 4 * (n1 + n2) * EPS * size.max((1, 2))
            s = largest * LD(clip) / 7
            ref.check(scale.get(), s, F32, F32, ulps=4, slack=error)
            got = unpacked_int4(out, x.shape)
            sure = largest > 0
            exact = np.clip(exact[sure] / s[sure][:, None, None], -8, 7)
            slack = 1e-5 + (16 * error[sure] / s[sure])[:, None, None]
            ref.complain(got[sure], exact, np.abs(got[sure] - exact) <= 0.5 + slack, "int4", lambda i: "its rounding")
        each_case(self, "aclnnFlatQuant", CASES, body)
        x, s = Tensor.empty(F16, (2, 3, 8)), Tensor.empty(F32, (2,))
        code, message = refused("aclnnFlatQuant", x, Tensor.empty(F16, (3, 3)), Tensor.empty(F16, (8, 8)), 1.5,
                                Tensor.empty(I32, (2, 3, 1)), s)
        self.assertEqual(code, INVALID)
        self.assertIn("clipRatio is 1.5", message)

    def test_quant_scatter(self):
        def body(gen):
            rank, d, kind = gen.integer(3, 4), gen.pick((F16, BF16)), gen.pick((I32, I64))
            shape = tuple(gen.integer(1, 6) for _ in range(rank))
            axis, quant_axis = gen.integer(1, rank - 1), gen.integer(0, rank - 1)
            parts = list(shape)
            parts[0], parts[axis] = gen.integer(1, shape[0]), gen.integer(1, shape[axis])
            parts = tuple(parts)
            self_ = gen.out(I8, shape, gen.rng.integers(-128, 128, shape))
            updates = gen.drawn(d, parts, lambda s: gen.values(d, s, limit=8))
            n = parts[quant_axis]
            along = tuple(n if i == quant_axis else 1 for i in range(rank)) if gen.chance(0.5) else (n,)
            s_type = gen.pick((F32, BF16))
            scale = gen.tensor(s_type, along, s_type.round(gen.rng.uniform(0.05, 0.5, along)))
            z_type = gen.pick((I32, BF16))
            zero = gen.tensor(z_type, along, gen.rng.integers(-9, 10, along).astype(z_type.values)) \
                if gen.chance(0.5) else None
            places = gen.rng.integers(0, shape[axis] - parts[axis] + 1, parts[0])
            rows = gen.rng.permutation(shape[0])[:parts[0]] if gen.chance(0.5) else None
            index = places if rows is None else np.stack([rows, places], -1)
            expected = self_.get().astype(LD)
            wide = lambda t: t.get().astype(LD).reshape([n if i == quant_axis else 1 for i in range(rank)])
            q = np.clip(updates.get().astype(LD) / wide(scale) + (wide(zero) if zero else 0), -128, 127)
            for i in range(parts[0]):
                at = [slice(None)] * (rank - 1)
                at[axis - 1] = slice(places[i], places[i] + parts[axis])
                expected[i if rows is None else rows[i]][tuple(at)] = q[i]
            indices = gen.tensor(kind, index.shape, index.astype(kind.values))
            run("aclnnInplaceQuantScatter", self_, indices, updates, scale, zero,
                axis - (rank if gen.chance(0.5) else 0), quant_axis, 1)
            check_int8(self_.get(), expected, 1e-4)
        each_case(self, "aclnnInplaceQuantScatter", 2 * CASES, body)
        t, u, s = Tensor.empty(I8, (2, 4, 8)), Tensor.empty(F16, (1, 3, 8)), Tensor.empty(F32, (8,))
        with self.assertRaises(AclError) as error:
            run("aclnnInplaceQuantScatter", t, Tensor.of(I32, [2]), u, s, None, 1, 2, 1)
        self.assertIn("indices[0] is 2, expected 0 to 1", error.exception.message)
        code, message = refused("aclnnInplaceQuantScatter", t, Tensor.of(I32, [0]), u, s, None, 0, 2, 1)
        self.assertEqual(code, INVALID)
        self.assertIn("axis is 0", message)

    def test_lora(self):
        def body(gen):
            rows, h1, h2, rank = gen.integer(0, 9), gen.integer(1, 40), gen.integer(1, 40), gen.integer(1, 20)
            n, layers, left = gen.integer(1, 3), gen.integer(1, 3), gen.integer(0, 5)
            width, layer, has_a = left + h2 + gen.integer(0, 5), gen.integer(0, layers - 1), gen.chance(0.7)
            h1 = h1 if has_a else rank
            y = gen.drawn(F16, (rows, width), lambda s: gen.values(F16, s, limit=8))
            x = gen.drawn(F16, (rows, h1), lambda s: gen.values(F16, s, limit=4))
            b = gen.drawn(F16, (n, layers, h2, rank), lambda s: gen.values(F16, s, limit=2))
            a = gen.drawn(F16, (n, layers, rank, h1), lambda s: gen.values(F16, s, limit=2)) if has_a else None
            index, out = gen.drawn(I32, (rows,), lambda s: gen.rng.integers(0, n, s)), gen.out(F16, (rows, width))
            run("aclnnAddLora", y, x, b, index, a, layer, 0.5, left, h2, out)
            exact = y.get().astype(LD)
            size = np.abs(exact)
            for i, w in enumerate(index.get()):
                z, z_size = x.get()[i].astype(LD), np.abs(x.get()[i].astype(LD))
                if has_a:
                    m = a.get()[w, layer].astype(LD)
                    z, z_size = m @ z, np.abs(m) @ z_size
                m = b.get()[w, layer].astype(LD)
                exact[i, left:left + h2] += m @ z / 2
                size[i, left:left + h2] += np.abs(m) @ z_size / 2
            ref.check(out.get(), exact, F16, F32, ulps=1, slack=4 * (h1 + rank + 2) * EPS * size)
        each_case(self, "aclnnAddLora", CASES, body)
        y, x, b = Tensor.empty(F16, (2, 8)), Tensor.empty(F16, (2, 4)), Tensor.empty(F16, (1, 1, 8, 4))
        code, message = refused("aclnnAddLora", y, x, b, Tensor.of(I32, [0, 0]), None, 1, 1.0, 0, 8,
                                Tensor.empty(F16, (2, 8)))
        self.assertEqual(code, INVALID)
        self.assertIn("layerIdx is 1, expected 0 to 0", message)

    def test_rotary_cache(self):
        def body(gen):
            d, tokens, half, neox = gen.pick(FLOATS), gen.integer(0, 9), gen.integer(1, 12), gen.chance(0.5)
            size, n_cached = 2 * half + gen.pick((0, gen.integer(1, 6))), gen.integer(1, 20)
            heads, sections = (gen.integer(1, 4), gen.integer(1, 3)), None
            v2, mode, count = gen.chance(0.6), 0, 3
            if gen.chance(0.6):
                mode = gen.integer(0, 1) if v2 else 0
                count = 3 if mode else gen.integer(3, 4)
                cuts = np.sort(gen.rng.integers(0, half + 1, count - 1))
                sections = np.diff([0, *cuts, half])
            positions = gen.drawn(I64, (count, tokens) if sections is not None else (tokens,),
                                  lambda s: gen.rng.integers(0, n_cached, s))
            ins = [gen.drawn(d, (tokens, h * size), lambda s: gen.values(d, s, limit=8)) for h in heads]
            cache = gen.drawn(d, (n_cached, 2 * half), lambda s: gen.values(d, s, limit=1))
            outs = [gen.out(d, t.shape) for t in ins]
            none = gen.pick((None, Ints(0, 0, 0)))
            run("aclnnRopeWithSinCosCache" + "V2" * v2, positions, *ins, cache,
                none if sections is None else Ints(*map(int, sections)), size, neox, *([mode] if v2 else []), *outs)
            table = cache.get().astype(LD)[positions.get()]
            cos, sin = table[..., :half], table[..., half:]
            if sections is not None:
                of = np.repeat(np.arange(count), sections)
                if mode:                                    # every third element, up to 3 times the second section
                    i = np.arange(half)
                    of = np.where(i < 3 * sections[1], i % 3, 0)
                cos, sin = (t[of, :, np.arange(half)].T for t in (cos, sin))
            for t, out, h in zip(ins, outs, heads):
                v = t.get().astype(LD).reshape(tokens, h, size)
                exact, size_of, c, s = v.copy(), np.abs(v), cos[:, None], sin[:, None]
                one, two = (slice(0, half), slice(half, 2 * half)) if neox else (slice(0, 2 * half, 2),
                                                                              slice(1, 2 * half, 2))
                exact[..., one] = v[..., one] * c - v[..., two] * s
                exact[..., two] = v[..., two] * c + v[..., one] * s
                size_of = np.abs(v).max(-1, keepdims=True) * 2 if v.size else 0
                ref.check(out.get().reshape(v.shape), exact, d, F64, ulps=1, slack=2 * F64.ulp(size_of + 0 * v))
        each_case(self, "aclnnRopeWithSinCosCache", 2 * CASES, body)
        q, c = Tensor.empty(F32, (1, 4)), Tensor.empty(F32, (3, 4))
        with self.assertRaises(AclError) as error:
            run("aclnnRopeWithSinCosCache", Tensor.of(I64, [3]), q, q, c, None, 4, True, Tensor.empty(F32, (1, 4)),
                Tensor.empty(F32, (1, 4)))
        self.assertIn("positions[0] is 3, expected 0 to 2", error.exception.message)
        code, message = refused("aclnnRopeWithSinCosCache", Tensor.of(I64, [[0]] * 3), q, q, c, Ints(1, 1, 1), 4, True,
                                q, q)
        self.assertEqual(code, INVALID)
        self.assertIn("mropeSection has the sum 3, expected 2", message)

    def test_page_cache(self):
        def body(gen):
            d, kind, tokens = gen.pick((F16, BF16, F32, I8)), gen.pick((I32, I64)), gen.integer(0, 9)
            heads, blocks, block = gen.integer(1, 4), gen.integer(1, 5), gen.integer(1, 6)
            form, part = gen.pick(("Norm", "NHSD", "PA_NZ", "PA_NZ by head")), 32 // d.size
            blocked = form.startswith("PA_NZ")
            sizes = [part * gen.integer(1, 3) if blocked else gen.integer(1, 20) for _ in range(2)]
            ins = [gen.tensor(d, (tokens, heads, n)) for n in sizes]
            shapes = [(blocks, block, heads, n) for n in sizes]

            def laid(x):
                """A cache [blocks, block, heads, size] in its form."""
                if form == "NHSD":
                    return x.transpose(0, 2, 1, 3)
                if blocked:
                    x = x.reshape(blocks, block, heads, -1, part).transpose(0, 2, 3, 1, 4)
                return x.reshape(blocks, -1, block, part) if form == "PA_NZ" else x

            plain = [gen.values(d, s, limit=8) for s in shapes]
            caches = [gen.out(d, laid(x).shape, laid(x)) for x in plain]
            slots = gen.drawn(kind, (tokens,), lambda s: gen.rng.integers(-1, blocks * block, s))
            expected = [x.copy() for x in plain]
            alone = gen.out(d, shapes[0], expected[0])
            for t, slot in enumerate(slots.get()):
                for to, x in zip(expected, ins):
                    if slot >= 0:
                        to[slot // block, slot % block] = x.get()[t]
            run("aclnnScatterPaCache", ins[0], alone, slots, None, None, None, gen.pick((b"Norm", None)))
            ref.check_equal(alone.get(), expected[0])
            run("aclnnScatterPaKvCache", ins[0], caches[0], slots, ins[1], caches[1], None, None, None,
                b"PA_NZ" if blocked else gen.pick((b"Norm", None)),
                b"NHSD" if form == "NHSD" else gen.pick((b"None", None)), gen.pick((None, Ints(1, 1))),
                gen.pick((None, Ints(0, 0))))
            for c, to in zip(caches, expected):
                ref.check_equal(c.get(), laid(to))
        each_case(self, "aclnnScatterPaKvCache", CASES, body)
        x, c = Tensor.empty(F16, (1, 2, 4)), Tensor.empty(F16, (2, 3, 2, 4))
        with self.assertRaises(AclError) as error:
            run("aclnnScatterPaKvCache", x, c, Tensor.of(I32, [6]), x, Tensor.empty(F16, (2, 3, 2, 4)), *[None] * 7)
        self.assertIn("slotMapping[0] is 6, expected 0 to 5", error.exception.message)
        for words, mode, scatter in (
                ("cacheModeOptional is NZ, expected Norm or PA_NZ", b"NZ", None),
                ("keyCacheRef is for heads of 4 elements, expected a multiple of 16", b"PA_NZ", None),
                ("scatterModeOptional is Alibi, expected None or NHSD", b"Norm", b"Alibi"),
                ("keyCacheRef has shape [2, 3, 2, 4], expected [2, 2, 2, 4]", b"Norm", b"NHSD")):
            code, message = refused("aclnnScatterPaKvCache", x, c, Tensor.of(I32, [0]), x, c, None, None, None, mode,
                                    scatter, None, None)
            self.assertEqual(code, INVALID)
            self.assertIn(words, message)

    def test_ema_adam(self):
        def body(gen):
            d, shape = gen.pick(FLOATS), gen.shape()
            grad = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=3))
            var, m, s = (gen.out(d, shape, gen.values(d, shape, limit=3)) for _ in range(3))
            v = gen.out(d, shape, np.abs(gen.values(d, shape, limit=3)))
            step, mode, corrects = gen.integer(1, 50), gen.integer(0, 1), gen.chance(0.5)
            lr, ema, b1, b2, eps, decay = 0.01, 0.75, 0.9, 0.99, 1e-3, 0.125
            x, m0, v0, s0, g = (t.get().astype(LD) for t in (var, m, v, s, grad))
            run("aclnnApplyFusedEmaAdam", grad, var, m, v, s, Tensor.of(I64, [step]), lr, ema, b1, b2, eps, mode,
                corrects, decay)
            lr, ema, b1, b2, eps, decay = map(LD, (lr, ema, b1, b2, eps, decay))
            g = g if mode else g + decay * x
            m1, v1 = b1 * m0 + (1 - b1) * g, b2 * v0 + (1 - b2) * g * g
            c1, c2 = (1 - b1 ** step, 1 - b2 ** step) if corrects else (1, 1)
            x1 = x - lr * (m1 / c1 / (np.sqrt(v1 / c2) + eps) + (decay * x if mode else 0))
            slack = 64 * F64.ulp(np.full(shape, 64.0))
            for t, exact in ((m, m1), (v, v1), (var, x1), (s, ema * s0 + (1 - ema) * x1)):
                ref.check(t.get(), exact, d, F64, ulps=1, slack=slack)
        each_case(self, "aclnnApplyFusedEmaAdam", 2 * CASES, body)


if __name__ == "__main__":
    unittest.main()
