# SPDX-License-Identifier: Apache-2.0
"""Operators that move or make values: Cast, InplaceCopy, fills, Arange, Cat, Permute, IndexSelect, Embedding."""
import os
import sys
import unittest

import numpy as np

import reference as ref
from acl import Ints, Scalar, Tensor, TensorList, run
from dtypes import ALL, BF16, BOOL, F16, F32, F64, FLOATS, FLOATS64, I32, I64, LD, U8, computed_in
from gen import each_case

CASES = 120


def converted(got, values, source, target, what):
    """got is values converted; floats out of an integer type's range may give anything. Halves may have gone by
    float32, which is a second rounding: one unit of float32 before theirs."""
    if target.kind == "f":
        ref.check(got, values.astype(LD), target, F64 if target is F64 else F32, ulps=0.5, zero_sign=True, what=what)
        return
    with np.errstate(all="ignore"):
        expected = ref.to_type(values, source, target)
    if source.kind == "f" and target.kind == "i":
        inside = ref.in_range(values, target)
        got, expected = got[inside], expected[inside]
    ref.check_equal(got, expected, what)


class Conversions(unittest.TestCase):
    def test_cast(self):
        for source in ALL:
            for target in ALL:
                each_case(self, f"aclnnCast {source} to {target}", 12, lambda g, s=source, t=target: self.cast(g, s, t))

    def cast(self, gen, source, target):
        x = gen.tensor(source, gen.shape())
        if source.kind == "f" and gen.chance(0.5):                  # numbers that most integer types can hold
            x = gen.tensor(source, x.shape, source.round(gen.rng.uniform(-140, 140, x.shape)))
        out = gen.out(target, x.shape)
        run("aclnnCast", x, target, out)
        converted(out.get(), x.get(), source, target, f"{source} to {target}")

    def test_cast_of_many(self):
        """Tiles that are read or written where they lie, gathered, scattered, and what is left over."""
        types = (F16, BF16, F32, F64, I32, I64, U8)

        def body(gen):
            source, target = gen.pick(types), gen.pick(types)
            shape = gen.pick(((5000,), (3, 1700), (40, 100), (2, 1024, 3), (7, 300, 2)))
            values = gen.rng.integers(0, 100, shape)
            out = gen.out(target, shape)
            run("aclnnCast", gen.tensor(source, shape, values.astype(source.values)), target, out)
            ref.check_equal(out.get(), values.astype(target.values), f"{source} to {target} {shape}")
        each_case(self, "casts of many", CASES, body)

    def test_cast_past_the_caches(self):
        values = np.arange(5 << 20) % 251
        for source, target in ((F32, F16), (F16, F32), (F32, BF16), (I32, F32)):
            out = Tensor.empty(target, values.shape)
            run("aclnnCast", Tensor.of(source, values.astype(source.values)), target, out)
            ref.check_equal(out.get(), values.astype(target.values), f"{source} to {target}")

    def test_cast_ties_and_nans(self):
        """Halfway cases round to even, the largest round to infinity, a NaN stays one whatever its payload."""
        bits = np.array([0x7F800001, 0xFF800001, 0x7FC00000, 0x7F7FFFFF, 0x3F808000, 0x3F818000, 0x3F808001, 0x477FEFFF,
                         0x477FF000, 0x33000000, 0x33000001, 0x00000001, 0x80000001], np.uint32)
        x = Tensor.of(F32, bits.view(np.float32))
        for target in (F16, BF16, F32, F64):
            out = Tensor.empty(target, x.shape)
            run("aclnnCast", x, target, out)
            converted(out.get(), x.get(), F32, target, f"f32 to {target}")

    @unittest.skipUnless(os.environ.get("CANNON_VERBOSE"), "only reports, set CANNON_VERBOSE to see it")
    def test_cast_out_of_range(self):
        """CANN does not say what these give: shown, not asserted."""
        values = np.array([3e9, -3e9, 1e20, -1e20, 300.0, -1.0, np.inf, -np.inf, np.nan], np.float32)
        for target in (t for t in ALL if t.kind == "i"):
            out = Tensor.empty(target, values.shape)
            run("aclnnCast", Tensor.of(F32, values), target, out)
            print(f"f32 to {target}:", dict(zip(values.tolist(), out.get().tolist())), file=sys.stderr)

    def test_copy(self):
        def body(gen):
            shape = gen.shape()
            target = gen.pick(ALL)
            source = target if gen.chance(0.4) else gen.pick(ALL)
            src, out = gen.tensor(source, gen.shrunk(shape)), gen.out(target, shape)
            run("aclnnInplaceCopy", out, src)
            converted(out.get(), np.broadcast_to(src.get(), shape), source, target, f"{source} to {target}")
        each_case(self, "aclnnInplaceCopy", 4 * CASES, body)

    def test_copy_keeps_bits(self):
        """Between tensors of one type every bit pattern arrives, signalling NaNs too."""
        def body(gen):
            d, shape = gen.pick(ALL), gen.shape()
            src = gen.out(d, shape)
            raw = gen.rng.integers(0, 256, src.size * d.size, np.uint8).view(d.storage).reshape(shape)
            src.view(src.block.body)[...] = raw & 1 if d is BOOL else raw
            out = gen.out(d, shape)
            run("aclnnInplaceCopy", out, src)
            ref.check_equal(out.bits().tobytes(), src.bits().tobytes())
        each_case(self, "aclnnInplaceCopy bits", CASES, body)


class Fills(unittest.TestCase):
    def test_all(self):
        def scalar(gen):
            d, s = gen.pick(ALL), gen.pick((F64, F32, I64, BOOL))
            low = 0 if d is U8 else -100
            value = {"f": gen.integer(low, 100) / (4 if d.kind == "f" else 1), "i": gen.integer(low, 100),
                     "b": gen.chance(0.5)}[s.kind]
            t = gen.out(d, gen.shape())
            run("aclnnInplaceFillScalar", t, Scalar(value, s))
            ref.check_equal(t.get(), ref.to_type(np.full(t.shape, value, s.values), s, d), f"{s} {value}")

        def constant(gen, op, value):
            t = gen.out(gen.pick(ALL), gen.shape())
            run(op, t)
            ref.check_equal(t.get(), np.full(t.shape, value, t.dtype.values))
        each_case(self, "aclnnInplaceFillScalar", CASES, scalar)
        each_case(self, "aclnnInplaceZero", CASES, lambda g: constant(g, "aclnnInplaceZero", 0))
        each_case(self, "aclnnInplaceOne", CASES, lambda g: constant(g, "aclnnInplaceOne", 1))

    def test_fill_special(self):
        for value in (np.inf, -np.inf, np.nan, 1e-40, 65520.0):
            for d in FLOATS64:
                t = Tensor.empty(d, (3, 5))
                run("aclnnInplaceFillScalar", t, Scalar(value, F64))
                ref.check(t.get(), np.full(t.shape, value, LD), d, computed_in(d), ulps=0.5)


class Aranges(unittest.TestCase):
    def test_all(self):
        def body(gen):
            d = gen.pick((F32, F16, BF16, F64, I32, I64))
            if d.kind == "i":
                start, step = gen.integer(-1000, 1000), gen.pick((1, 2, 3, 7, -1, -5))
                kind = I64
            else:
                start, step = gen.integer(-40, 40) / 4, gen.pick((0.25, 0.5, 1, 3, -0.5, -2))
                kind = gen.pick((F32, F64))
            n = gen.integer(0, 40) if d in (F16, BF16) or gen.chance(0.8) else gen.integer(0, 5000)
            # the end is exclusive and need not be on the grid: the length is ceil((end - start) / step)
            end = start + step * n - (step / 4 if kind is not I64 and n and gen.chance(0.5) else 0)
            out = gen.out(d, (n,))
            run("aclnnArange", *(Scalar(v, kind) for v in (start, end, step)), out)
            exact = LD(start) + LD(step) * np.arange(n)
            if d.kind == "i":
                ref.check_equal(out.get(), exact.astype(d.values))
            else:
                ref.check(out.get(), exact, d, computed_in(d), ulps=1)
        each_case(self, "aclnnArange", 2 * CASES, body)

    def test_inexact_step(self):
        """start + i * step, not a running sum: the error does not grow with i."""
        n, step = 100000, np.float32(0.1)
        out = Tensor.empty(F32, (n,))
        run("aclnnArange", Scalar(0, F32), Scalar(float(step) * n, F64), Scalar(step, F32), out)
        ref.check(out.get(), np.arange(n) * LD(step), F32, F32, ulps=1)

    def test_output_of_higher_rank(self):
        """ggml asks for [1, 1, 1, n]."""
        out = Tensor.empty(F16, (1, 1, 1, 32))
        run("aclnnArange", Scalar(0, F32), Scalar(32, F32), Scalar(1, F32), out)
        ref.check_equal(out.get(), np.arange(32, dtype=np.float32).reshape(1, 1, 1, 32))


class Arrangements(unittest.TestCase):
    def test_cat(self):
        def body(gen):
            d = gen.pick(ALL)
            shape = list(gen.shape(min_rank=1, empty=0.1))
            axis = gen.integer(0, len(shape) - 1)
            parts = []
            for _ in range(gen.integer(1, 6)):
                shape[axis] = gen.integer(0, 5)
                parts.append(gen.tensor(d, shape))
            if gen.chance(0.1):
                parts.insert(gen.integer(0, len(parts)), gen.tensor(d, (0,)))       # skipped, whatever the others' rank
            expected = np.concatenate([p.get() for p in parts if p.shape != (0,) or len(shape) == 1], axis)
            out = gen.out(d, expected.shape)
            run("aclnnCat", TensorList(parts), axis - (len(shape) if gen.chance(0.4) else 0), out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnCat", 2 * CASES, body)

    def test_cat_of_many(self):
        parts = [Tensor.of(I32, np.full((2, i % 3), i)) for i in range(300)]
        expected = np.concatenate([p.get() for p in parts], 1)
        out = Tensor.empty(I32, expected.shape)
        run("aclnnCat", TensorList(parts), -1, out)
        ref.check_equal(out.get(), expected)

    def test_permute(self):
        def body(gen):
            x = gen.tensor(gen.pick(ALL), gen.shape())
            dims = [int(i) for i in gen.rng.permutation(len(x.shape))]
            out = gen.out(x.dtype, [x.shape[i] for i in dims])
            signed = [i - (len(dims) if gen.chance(0.2) else 0) for i in dims]
            run("aclnnPermute", x, Ints(*signed), out)
            ref.check_equal(out.get(), x.get().transpose(dims))
        each_case(self, "aclnnPermute", 2 * CASES, body)


if __name__ == "__main__":
    unittest.main()
