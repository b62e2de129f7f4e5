# SPDX-License-Identifier: Apache-2.0
"""Operators that rearrange elements, pad, cut or repeat. They copy bits unchanged, so results are compared exactly."""
import itertools
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Ints, Scalar, Tensor, TensorList, refused, run
from dtypes import ALL, BOOL, C128, CLD, COMPLEX, F16, F32, F64, FLOATS, FLOATS64, I32, I64, I8, LD
from gen import each_case

CASES = 60
MOVED = ALL + (C128,)
INT4, UNDEFINED = 29, -1


def given(gen, d, shape):
    return gen.drawn(d, shape, lambda s: gen.values(d, s))


def signed(gen, axis, rank):
    return axis - (rank if gen.chance(0.4) else 0)


class Orders(unittest.TestCase):
    def test_transposes(self):
        """Planes near the sizes of blocks, tiles and vectors, for every element size."""
        def body(gen):
            d = gen.pick((I8, F16, F32, F64, C128))
            sizes = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 100, 127, 128, 130)
            shape = [gen.pick(sizes), gen.pick(sizes)] + [gen.integer(1, 3) for _ in range(gen.integer(0, 2))]
            shape = [shape[i] for i in gen.rng.permutation(len(shape))]
            x = given(gen, d, shape)
            dims = [int(i) for i in gen.rng.permutation(len(shape))]
            out = gen.out(d, [shape[i] for i in dims])
            run("aclnnPermute", x, Ints(*(signed(gen, i, len(dims)) for i in dims)), out)
            ref.check_equal(out.get(), x.get().transpose(dims), f"{shape} {dims}")
        each_case(self, "transposes", 4 * CASES, body)

    def test_large_transposes(self):
        """Results above the size from which stores bypass the caches, at odd alignments too."""
        rng = np.random.default_rng(1)
        for d, n, m, offset in ((I8, 3001, 2999, 3), (F16, 2048, 2304, 0), (F32, 1601, 1600, 1), (F64, 1024, 1200, 0)):
            x = Tensor.of(d, rng.integers(0, 100, (n, m)).astype(d.values))
            out = Tensor(d, (m, n), None, offset, offset + n * m)
            run("aclnnInplaceCopy", out, Tensor.of(d, x.get()).set(x.get()) if n == m else self.transposed(x))
            ref.check_equal(out.get(), x.get().T)

    def transposed(self, x):
        t = object.__new__(Tensor)
        t.__dict__.update(x.__dict__, shape=x.shape[::-1], strides=x.strides[::-1])
        return t

    def test_large_copies(self):
        for d, n in ((F32, 3 << 20), (I8, (9 << 20) + 5)):
            x = Tensor.of(d, np.random.default_rng(2).integers(-100, 100, n).astype(d.values))
            out = Tensor(d, (n,), None, 7, n + 7)
            run("aclnnInplaceCopy", out, x)
            ref.check_equal(out.get(), x.get())

    def test_short_rows(self):
        """Runs of 1 to 300 bytes between gaps."""
        for n in (*range(1, 70), 100, 127, 128, 129, 255, 300):
            x = Tensor(I8, (3, n), (n + 5, 1)).set(np.random.default_rng(n).integers(-128, 127, (3, n)))
            out = Tensor(I8, (3, n), (n + 1, 1))
            run("aclnnInplaceCopy", out, x)
            ref.check_equal(out.get(), x.get())

    def test_copy_to_itself(self):
        for n in (5, 40, 3000):
            x = Tensor.of(F32, np.arange(2.0 * n).reshape(2, n))
            before = x.get()
            run("aclnnInplaceCopy", x, x)
            ref.check_equal(x.get(), before)

    def test_flip(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape())
            dims = [i for i in range(len(x.shape)) if gen.chance(0.5)]
            out = gen.out(x.dtype, x.shape)
            run("aclnnFlip", x, Ints(*(signed(gen, i, len(x.shape)) for i in dims)), out)
            ref.check_equal(out.get(), np.flip(x.get(), dims))
        each_case(self, "aclnnFlip", 2 * CASES, body)

    def test_roll(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(max_rank=5))
            dims = [gen.integer(0, len(x.shape) - 1) for _ in range(gen.integer(0, 4))] if x.shape else []
            shifts = [gen.integer(-9, 9) for _ in dims or [0]]
            out = gen.out(x.dtype, x.shape)
            run("aclnnRoll", x, Ints(*shifts), Ints(*dims), out)
            expected = np.roll(x.get(), shifts, dims) if dims else np.roll(x.get(), shifts[0])
            ref.check_equal(out.get(), expected, f"{shifts} {dims}")
        each_case(self, "aclnnRoll", 3 * CASES, body)

    def test_expand(self):
        def body(gen):
            shape = gen.shape()
            x = given(gen, gen.pick(MOVED), gen.shrunk(shape))
            missing = len(shape) - len(x.shape)
            size = [-1 if i >= missing and x.shape[i - missing] == n and gen.chance(0.3) else n
                    for i, n in enumerate(shape)]
            out = gen.out(x.dtype, shape)
            run("aclnnExpand", x, Ints(*size), out)
            ref.check_equal(out.get(), np.broadcast_to(x.get(), shape))
        each_case(self, "aclnnExpand", 2 * CASES, body)

    def test_flatten(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(min_rank=1))
            axis = gen.integer(0, len(x.shape) - 1)
            expected = x.get().reshape(int(np.prod(x.shape[:axis])), -1 if x.size else int(np.prod(x.shape[axis:])))
            out = gen.out(x.dtype, expected.shape)
            run("aclnnFlatten", x, axis - (len(x.shape) if gen.chance(0.4) else 0), out)
            ref.check_equal(out.get(), expected, f"axis {axis}")
        each_case(self, "aclnnFlatten", 2 * CASES, body)

    def test_channel_shuffle(self):
        def body(gen):
            groups = gen.integer(1, 4)
            shape = (gen.integer(1, 3), groups * gen.integer(1, 5)) + gen.shape(max_rank=4, min_rank=1, numel=60)
            x = given(gen, gen.pick(MOVED), shape)
            out = gen.out(x.dtype, shape)
            run("aclnnChannelShuffle", x, groups, out)
            split = x.get().reshape(shape[0], groups, -1, *shape[2:]) if x.size else x.get()
            ref.check_equal(out.get(), split.swapaxes(1, 2).reshape(shape) if x.size else split)
        each_case(self, "aclnnChannelShuffle", CASES, body)

    def test_confusion_transpose(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(max_rank=4, min_rank=1, empty=0))
            n, shape = x.size, []
            while n > 1 and len(shape) < 5:
                f = gen.pick([k for k in range(2, n + 1) if n % k == 0][:4])
                shape.insert(gen.integer(0, len(shape)), f)
                n //= f
            shape.insert(gen.integer(0, len(shape)), n)
            first = gen.chance(0.5)
            perm = [int(i) for i in gen.rng.permutation(len(x.shape) if first else len(shape))]
            expected = x.get().transpose(perm).reshape(shape) if first else x.get().reshape(shape).transpose(perm)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnConfusionTranspose", x, Ints(*perm), Ints(*shape), first, out)
            ref.check_equal(out.get(), expected, f"{perm} {shape} {first}")
        each_case(self, "aclnnConfusionTranspose", 2 * CASES, body)


class Lists(unittest.TestCase):
    def test_stack(self):
        def body(gen):
            d, shape = gen.pick(MOVED), gen.shape(max_rank=5)
            parts = [given(gen, d, shape) for _ in range(gen.integer(1, 5))]
            axis = gen.integer(0, len(shape))
            expected = np.stack([p.get() for p in parts], axis)
            out = gen.out(d, expected.shape)
            run("aclnnStack", TensorList(parts), signed(gen, axis, len(shape) + 1), out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnStack", 2 * CASES, body)

    def test_rows_in_turn(self):
        """Rows of several tensors that are long enough to be copied in turn, one row of each tensor."""
        def body(gen):
            d, rows = gen.pick((I8, F16, F32, C128)), gen.integer(2, 40)
            least = 256 // d.size
            widths = [gen.integer(least, 2 * least + 9) for _ in range(gen.pick((2, 5, 40)))]
            parts = [given(gen, d, (rows, n)) for n in widths]
            expected = np.concatenate([p.get() for p in parts], 1)
            whole = gen.out(d, expected.shape)
            run("aclnnCat", TensorList(parts), 1, whole)
            ref.check_equal(whole.get(), expected)
            outs = [gen.out(d, p.shape) for p in parts]
            run("aclnnSplitWithSize", whole, Ints(*widths), 1, TensorList(outs))
            for out, part in zip(outs, parts):
                ref.check_equal(out.get(), part.get())
            same = [given(gen, d, (rows, 3, least)) for _ in range(3)]
            stacked = gen.out(d, (rows, 3, 3, least))
            run("aclnnStack", TensorList(same), 1, stacked)
            ref.check_equal(stacked.get(), np.stack([p.get() for p in same], 1))
        each_case(self, "rows in turn", CASES // 2, body)

    def test_rows_past_the_caches(self):
        """Results of 8 MiB and more are stored past the caches if their rows are long."""
        x = np.arange(2 * 2048 * 1031, dtype=np.float32).reshape(2, 2048, 1031)
        parts = [Tensor.of(F32, p) for p in x]
        out = Tensor.empty(F32, (2048, 2062))
        run("aclnnCat", TensorList(parts), 1, out)
        ref.check_equal(out.get(), np.concatenate(list(x), 1))

    def test_promotion(self):
        a, b = Tensor.of(I32, [[1, 2]]), Tensor.of(F32, [[0.5, 3]])
        for op, shape in (("aclnnCat", (2, 2)), ("aclnnStack", (2, 1, 2))):
            out = Tensor.empty(F32, shape)
            run(op, TensorList([a, b]), 0, out)
            ref.check_equal(out.get(), np.array([[1, 2], [0.5, 3]]).reshape(shape))

    def test_old_empties(self):
        """Empty vectors can be concatenated with anything, and do not affect the type."""
        x, out = Tensor.of(I32, [[1, 2]]), Tensor.empty(I32, (1, 2))
        run("aclnnCat", TensorList([Tensor.empty(F32, (0,)), x]), 0, out)
        ref.check_equal(out.get(), x.get())

    def test_one_element(self):
        """A result of one element may have any shape of one element."""
        x, vector = Tensor.of(F32, [[7]]), Tensor.of(F32, [7])
        for shape in ((), (1,), (1, 1), (1, 1, 1)):
            for op, *args in (("Cat", TensorList([vector]), 0),
                              ("Stack", TensorList([vector]), 0),
                              ("Permute", x, Ints(1, 0)),
                              ("Diag", x, 0),
                              ("Diag", vector, 0),
                              ("SplitTensor", x, 1, 0),
                              ("SplitWithSize", x, Ints(1), 0)):
                out = Tensor.empty(F32, shape)
                run("aclnn" + op, *args, TensorList([out]) if op.startswith("Split") else out)
                ref.check_equal(out.get(), np.full(shape, 7, np.float32), op)

    def test_split(self):
        def body(gen):
            shape = gen.shape(min_rank=1, empty=0)
            axis = gen.integer(0, len(shape) - 1)
            x = given(gen, gen.pick(MOVED), shape)
            each = gen.integer(1, shape[axis] + 1)
            expected = np.split(x.get(), range(each, shape[axis], each), axis)
            outs = [gen.out(x.dtype, part.shape) for part in expected]
            run("aclnnSplitTensor", x, each, signed(gen, axis, len(shape)), TensorList(outs))
            for out, part in zip(outs, expected):
                ref.check_equal(out.get(), part)
        each_case(self, "aclnnSplitTensor", CASES, body)

    def test_split_sizes(self):
        def body(gen):
            shape = gen.shape(min_rank=1, empty=0)
            axis = gen.integer(0, len(shape) - 1)
            x = given(gen, gen.pick(MOVED), shape)
            cuts = sorted(gen.integer(0, shape[axis]) for _ in range(gen.integer(0, 3)))
            expected = np.split(x.get(), cuts, axis)
            outs = [gen.out(x.dtype, part.shape) for part in expected]
            run("aclnnSplitWithSize", x, Ints(*(part.shape[axis] for part in expected)), axis, TensorList(outs))
            for out, part in zip(outs, expected):
                ref.check_equal(out.get(), part)
        each_case(self, "aclnnSplitWithSize", CASES, body)

    def test_chunk_cat(self):
        def body(gen):
            d, n = gen.pick(FLOATS), gen.integer(1, 4)
            target = gen.pick((d, F32))
            parts = [given(gen, d, gen.shape(max_rank=4, min_rank=1, numel=80)) for _ in range(gen.integer(1, 4))]
            rows = []
            for p in parts:
                v = p.get().reshape(p.shape[0], int(np.prod(p.shape[1:])))
                each = -(-p.shape[0] // n)
                padded = np.zeros((each * n, v.shape[1]), v.dtype)
                padded[:len(v)] = v
                rows.append(padded.reshape(n, each * v.shape[1]))
            expected = np.concatenate(rows, 1)
            out = gen.out(target, expected.shape)
            run("aclnnChunkCat", TensorList(parts), 0, n, out)
            ref.check_equal(out.get(), target.round(expected))
        each_case(self, "aclnnChunkCat", CASES, body)

    def test_refused_types(self):
        """ggml passes quantised blocks as an unnamed type, and as int4: both are refused, without a crash."""
        t = Tensor.of(I8, np.zeros((2, 3)))
        for code in (UNDEFINED, INT4):
            made = t.with_code(code)
            got, message = refused("aclnnCat", TensorList([made, made]), 0,
                                   Tensor.of(I8, np.zeros((4, 3))).with_code(code))
            self.assertEqual(got, INVALID)
            self.assertIn("tensors", message)


class Slices(unittest.TestCase):
    def bounds(self, gen, n):
        begin = gen.integer(-n - 2, n + 2)
        end = gen.integer(-n - 2, n + 2) if gen.chance(0.8) else 2 ** 63 - 1
        return begin, end, gen.integer(1, 4)

    def cut(self, n, begin, end, step):
        begin = min(max(begin + n if begin < 0 else begin, 0), n)
        return slice(begin, min(max(end + n if end < 0 else end, begin), n), step)

    def test_slice(self):
        def body(gen):
            shape = gen.shape(min_rank=1)
            axis = gen.integer(0, len(shape) - 1)
            x = given(gen, gen.pick(MOVED), shape)
            begin, end, step = self.bounds(gen, shape[axis])
            index = [slice(None)] * len(shape)
            index[axis] = self.cut(shape[axis], begin, end, step)
            expected = x.get()[tuple(index)]
            out = gen.out(x.dtype, expected.shape)
            run("aclnnSlice", x, signed(gen, axis, len(shape)), begin, end, step, out)
            ref.check_equal(out.get(), expected, f"{begin}:{end}:{step}")
        each_case(self, "aclnnSlice", 2 * CASES, body)

    def axes(self, gen, shape):
        axes = [int(i) for i in gen.rng.permutation(len(shape))[:gen.integer(0, len(shape))]]
        bounds = [self.bounds(gen, shape[i]) for i in axes]
        index = [slice(None)] * len(shape)
        for i, b in zip(axes, bounds):
            index[i] = self.cut(shape[i], *b)
        return tuple(index), [Ints(*v) for v in (*([b[k] for b in bounds] for k in range(3)), axes)]

    def test_slice_v2(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(min_rank=1))
            index, (begins, ends, steps, axes) = self.axes(gen, x.shape)
            out = gen.out(x.dtype, x.get()[index].shape)
            run("aclnnSliceV2", x, begins, ends, axes, steps, out)
            ref.check_equal(out.get(), x.get()[index])
        each_case(self, "aclnnSliceV2", 2 * CASES, body)

    def test_assign(self):
        def body(gen):
            d, shape = gen.pick(MOVED), gen.shape(min_rank=1)
            var = gen.out(d, shape, gen.values(d, shape))
            expected = var.get()
            index, (begins, ends, steps, axes) = self.axes(gen, shape)
            value = given(gen, d, expected[index].shape)
            expected[index] = value.get()
            run("aclnnStridedSliceAssignV2", var, value, begins, ends, steps, axes)
            ref.check_equal(var.get(), expected)
        each_case(self, "aclnnStridedSliceAssignV2", 2 * CASES, body)

    def test_strided_slice(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(max_rank=4, empty=0))
            entries, index, masks, left = [], [], [0] * 5, list(x.shape)
            ellipsis = False
            while len(entries) < 6:
                i, bit = len(entries), 1 << len(entries)
                kind = gen.pick(("slice", "slice", "new", "shrink", "ellipsis", "stop"))
                if kind == "stop" or kind == "ellipsis" and ellipsis or kind in ("slice", "shrink") and not left:
                    break
                entry = (0, 0, 1)
                if kind == "new":
                    masks[3] |= bit
                    index.append(None)
                elif kind == "ellipsis":
                    ellipsis, keep = True, gen.integer(0, len(left))
                    masks[2] |= bit
                    index.append(Ellipsis)
                    left = left[len(left) - keep:]                  # entries for as many dimensions must follow
                elif kind == "shrink":
                    n = left.pop(0)
                    entry = (gen.integer(-n, n - 1), 0, 1)
                    masks[4] |= bit
                    index.append(entry[0])
                else:
                    n = left.pop(0)
                    entry = self.bounds(gen, n)
                    whole = gen.chance(0.2), gen.chance(0.2)
                    masks[0] |= bit * whole[0]
                    masks[1] |= bit * whole[1]
                    index.append(self.cut(n, 0 if whole[0] else entry[0], n if whole[1] else entry[1], entry[2]))
                entries.append(entry)
            while ellipsis and left:
                n = left.pop(0)
                entries.append((0, n, 1))
                index.append(slice(None))
            if len(x.get()[tuple(index)].shape) > 8:
                return
            expected = x.get()[tuple(index)]
            out = gen.out(x.dtype, expected.shape)
            run("aclnnStridedSlice", x, *(Ints(*v) for v in ([e[k] for e in entries] for k in range(3))), *masks, out)
            ref.check_equal(out.get(), expected, f"{index}")
        each_case(self, "aclnnStridedSlice", 3 * CASES, body)


class Repeats(unittest.TestCase):
    def test_repeat(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(max_rank=5, numel=200))
            repeats = [gen.integer(0 if gen.chance(0.1) else 1, 3) for _ in range(len(x.shape) + gen.integer(0, 2))]
            expected = np.tile(x.get(), repeats)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnRepeat", x, Ints(*repeats), out)
            ref.check_equal(out.get(), expected, f"{repeats}")
        each_case(self, "aclnnRepeat", 2 * CASES, body)

    def test_repeat_to_rank_8(self):
        x = given_plain = Tensor.of(F32, np.arange(2 ** 8).reshape((2,) * 8))
        out = Tensor.empty(F32, (4,) * 8)
        run("aclnnRepeat", x, Ints(*(2,) * 8), out)
        ref.check_equal(out.get(), np.tile(given_plain.get(), (2,) * 8))

    def test_interleave(self):
        def body(gen):
            x = given(gen, gen.pick(MOVED), gen.shape(max_rank=6, numel=200))
            times = gen.pick((0, 1, 2, 2, 3, 4, 5, 17))
            expected = np.repeat(x.get(), times)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnRepeatInterleaveInt", x, times, expected.size, out)
            ref.check_equal(out.get(), expected)
            if not x.shape:
                return
            axis = gen.integer(0, len(x.shape) - 1)
            expected = np.repeat(x.get(), times, axis)
            out = gen.out(x.dtype, expected.shape)
            run("aclnnRepeatInterleaveIntWithDim", x, times, axis, expected.shape[axis], out)
            ref.check_equal(out.get(), expected, f"{times} along {axis}")
        each_case(self, "aclnnRepeatInterleaveInt", 2 * CASES, body)


class Triangles(unittest.TestCase):
    def test_tril_triu(self):
        def body(gen):
            shape = gen.shape(min_rank=2)
            d, k = gen.pick(MOVED), gen.pick((0, 1, -1, gen.integer(-9, 9), 2 ** 62, -2 ** 62))
            for name, f in (("Tril", np.tril), ("Triu", np.triu)):
                x = given(gen, d, shape)
                expected = f(x.get(), max(min(k, 2 ** 30), -2 ** 30))
                out = gen.out(d, shape)
                run("aclnn" + name, x, k, out)
                ref.check_equal(out.get(), expected, f"{name} {k}")
                self_ref = gen.again(x)
                run("aclnnInplace" + name, self_ref, k)
                ref.check_equal(self_ref.get(), expected, f"Inplace{name} {k}")
        each_case(self, "aclnnTril aclnnTriu", 2 * CASES, body)

    def test_infinities_become_zero(self):
        """ggml's masks: -inf above the diagonal, and 0, not NaN, below."""
        t = Tensor.of(F32, np.full((2, 4, 4), -np.inf))
        run("aclnnInplaceTriu", t, 1)
        ref.check_equal(t.get(), np.where(np.triu(np.ones((4, 4)), 1), -np.inf, 0) * np.ones((2, 1, 1)))

    def test_diag(self):
        def body(gen):
            d, k = gen.pick(MOVED), gen.integer(-4, 4)
            x = given(gen, d, gen.pick(((gen.integer(0, 9),), ())))
            expected = np.diag(np.atleast_1d(x.get()), k)
            out = gen.out(d, expected.shape)
            run("aclnnDiag", x, k, out)
            ref.check_equal(out.get(), expected)
            x = given(gen, d, (gen.integer(4, 9), gen.integer(4, 9)))
            expected = np.diag(x.get(), k)
            out = gen.out(d, expected.shape)
            run("aclnnDiag", x, k, out)
            ref.check_equal(out.get(), expected)
            x = given(gen, d, gen.shape(max_rank=4, numel=40))
            expected = np.diag(x.get().ravel(), k)
            out = gen.out(d, expected.shape)
            run("aclnnDiagFlat", x, k, out)
            ref.check_equal(out.get(), expected)
        each_case(self, "aclnnDiag", CASES, body)


MODES = (("Reflection", "reflect", (1, 2, 3)), ("Replication", "edge", (1, 2, 3)), ("Circular", "wrap", (2, 3)))


class Pads(unittest.TestCase):
    def test_constant(self):
        def body(gen):
            d = gen.pick(ALL)
            x = given(gen, d, gen.shape(max_rank=6, numel=300))
            n = gen.integer(0, len(x.shape))
            low = [-gen.integer(0, x.shape[-1 - i] // 3) if gen.chance(0.2) else gen.integer(0, 3) for i in range(n)]
            high = [-gen.integer(0, x.shape[-1 - i] // 3) if gen.chance(0.2) else gen.integer(0, 3) for i in range(n)]
            value = {"b": True, "i": 7, "f": -2.5}[d.kind]
            grown = np.pad(x.get(), [(0, 0)] * (len(x.shape) - n) +
                           [(max(a, 0), max(b, 0)) for a, b in zip(low[::-1], high[::-1])], constant_values=value) \
                if x.shape else x.get()
            cut = [slice(None)] * (len(x.shape) - n) + \
                [slice(max(-a, 0), g - max(-b, 0)) for a, b, g in
                 zip(low[::-1], high[::-1], grown.shape[len(x.shape) - n:])]
            expected = grown[tuple(cut)]
            out = gen.out(d, expected.shape)
            call = ("aclnnConstantPadNd", x, Ints(*itertools.chain(*zip(low, high))),
                    Scalar(value, BOOL if d.kind == "b" else I64 if d.kind == "i" else F64), out)
            if max(low + high, default=0) > 0 and not all(expected.shape[len(x.shape) - n:]):
                return self.assertEqual(refused(*call)[0], INVALID)
            run(*call)
            ref.check_equal(out.get(), expected, f"{low} {high}")
        each_case(self, "aclnnConstantPadNd", 4 * CASES, body)

    def test_constant_of_many_slices(self):
        x = Tensor.of(F16, np.random.default_rng(3).integers(-9, 9, (5, 40, 33, 21)))
        out = Tensor.empty(F16, (5, 40, 35, 24))
        run("aclnnConstantPadNd", x, Ints(1, 2, 0, 2), Scalar(-np.inf, F32), out)
        ref.check_equal(out.get(), np.pad(x.get(), ((0, 0), (0, 0), (0, 2), (1, 2)), constant_values=-np.inf))

    def shapes(self, gen, mode, dims):
        inner = [gen.integer(1, 6) if gen.chance(0.8) else gen.integer(20, 700 if dims == 1 else 40)
                 for _ in range(dims)]
        shape = [gen.integer(1, 3) for _ in range(gen.integer(1, 2))] + inner
        most = [n - 1 if mode == "reflect" else n if mode == "wrap" else 5 for n in inner]
        return shape, [(min(gen.integer(0, 5), m), min(gen.integer(0, 5), m)) for m in most]

    def flat(self, pads):
        return Ints(*itertools.chain(*pads[::-1]))

    def test_copies(self):
        for name, mode, ranks in MODES:
            for dims in ranks:
                op = f"aclnn{name}Pad{dims}d"

                def body(gen, op=op, mode=mode, dims=dims):
                    shape, pads = self.shapes(gen, mode, dims)
                    x = given(gen, gen.pick(MOVED), shape)
                    expected = np.pad(x.get(), [(0, 0)] * (len(shape) - dims) + pads, mode)
                    out = gen.out(x.dtype, expected.shape)
                    run(op, x, self.flat(pads), out)
                    ref.check_equal(out.get(), expected, f"{pads}")
                each_case(self, op, CASES, body)

    def test_backward(self):
        """The gradient is the transposed map, which padding the elements' numbers shows."""
        for name, mode, ranks in MODES:
            for dims in ranks:
                op = f"aclnn{name}Pad{dims}dBackward"

                def body(gen, op=op, mode=mode, dims=dims):
                    shape, pads = self.shapes(gen, mode, dims)
                    d = gen.pick(FLOATS64 + (COMPLEX if mode != "wrap" else ()))
                    number = np.arange(np.prod(shape)).reshape(shape)
                    place = np.pad(number, [(0, 0)] * (len(shape) - dims) + pads, mode)
                    grad = gen.drawn(d, place.shape, lambda s: gen.values(d, s, limit=100))
                    wide = grad.get().astype(CLD if d.kind == "c" else LD).ravel()
                    exact, size = np.zeros(number.size, wide.dtype), np.zeros(number.size, LD)
                    np.add.at(exact, place.ravel(), wide)
                    np.add.at(size, place.ravel(), np.abs(wide))
                    out = gen.out(d, shape)
                    run(op, grad, given(gen, d, shape), self.flat(pads), out)
                    slack = size.reshape(shape) * place.size * LD(2) ** -53
                    if d.kind == "c":
                        ref.check_parts(out.get(), exact.reshape(shape), d, 1, slack, f"{pads}")
                    else:
                        ref.check(out.get(), exact.reshape(shape), d, F64, ulps=1, what=f"{pads}", slack=slack)
                each_case(self, op, CASES // 2, body)

    def test_ggml(self):
        """PAD_REFLECT_1D of a 3-dimensional tensor by 10 and 9; padding by the whole width is refused."""
        x = Tensor.of(F32, np.random.default_rng(4).standard_normal((3, 5, 50)))
        out = Tensor.empty(F32, (3, 5, 69))
        run("aclnnReflectionPad1d", x, Ints(10, 9), out)
        ref.check_equal(out.get(), np.pad(x.get(), ((0, 0), (0, 0), (10, 9)), "reflect"))
        code, message = refused("aclnnReflectionPad1d", x, Ints(50, 0), Tensor.empty(F32, (3, 5, 100)))
        self.assertEqual(code, INVALID)
        self.assertIn("padding", message)


class Windows(unittest.TestCase):
    def test_unfold_grad(self):
        def body(gen):
            shape, d = gen.shape(max_rank=4, min_rank=1, empty=0), gen.pick(FLOATS64)
            axis = gen.integer(0, len(shape) - 1)
            size, step = gen.integer(1, shape[axis]), gen.integer(1, 5)
            number = np.arange(np.prod(shape)).reshape(shape)
            windows = np.lib.stride_tricks.sliding_window_view(number, size, axis)
            windows = windows[(slice(None),) * axis + (slice(None, None, step),)]
            grad = gen.drawn(d, windows.shape, lambda s: gen.values(d, s, limit=100))
            exact = np.zeros(number.size, LD)
            np.add.at(exact, windows.ravel(), grad.get().astype(LD).ravel())
            out = gen.out(d, shape)
            run("aclnnUnfoldGrad", grad, Ints(*shape), signed(gen, axis, len(shape)), size, step, out)
            ref.check(out.get(), exact.reshape(shape), d, F64, ulps=1, slack=100 * size * LD(2) ** -50)
        each_case(self, "aclnnUnfoldGrad", 2 * CASES, body)


def t(*shape, d=F32):
    return Tensor.of(d, np.ones(shape))


class Errors(unittest.TestCase):
    """Arguments that do not fit are refused in phase one, with a message that names them."""

    def test_all(self):
        for op, name, *args in (
                ("Expand", "self", t(2, 3), Ints(2, 4), t(2, 4)),
                ("Expand", "out", t(2, 3), Ints(2, -1), t(2, 4)),
                ("Flatten", "axis", t(2, 3), 2, t(6, 1)),
                ("Flatten", "axis", t(3), 1, t(3, 1)),
                ("Flip", "dims", t(2, 3), Ints(0, 0), t(2, 3)),
                ("Flip", "out", t(2, 3), Ints(0), t(2, 3, d=F16)),
                ("Roll", "shifts", t(2, 3), Ints(1, 2), Ints(0), t(2, 3)),
                ("Roll", "dims", t(2, 3), Ints(1), Ints(2), t(2, 3)),
                ("ChannelShuffle", "groups", t(2, 3, 4), 2, t(2, 3, 4)),
                ("ConfusionTranspose", "shape", t(2, 3), Ints(0, 1), Ints(2, 2), False, t(2, 2)),
                ("Stack", "tensors", TensorList([t(2), t(3)]), 0, t(2, 2)),
                ("Stack", "dim", TensorList([t(2), t(2)]), 2, t(2, 2)),
                ("ChunkCat", "dim", TensorList([t(2, 2)]), 1, 2, t(2, 2)),
                ("SplitTensor", "splitSections", t(4), 0, 0, TensorList([t(4)])),
                ("SplitTensor", "out", t(4), 2, 0, TensorList([t(2), t(3)])),
                ("SplitTensor", "out", t(4), 2, 0, TensorList([t(2)])),
                ("SplitTensor", "splitSections", t(0, 2), 2, 0, TensorList([t(0, 2)])),
                ("SplitTensor", "splitSections", t(2, 0), 0, 0, TensorList([t(2, 0)])),
                ("SplitWithSize", "splitSize", t(4), Ints(5), 0, TensorList([t(5)])),
                ("Slice", "step", t(4), 0, 0, 4, 0, t(4)),
                ("Slice", "out", t(4), 0, 0, 3, 1, t(4)),
                ("SliceV2", "axes", t(4, 4), Ints(0, 0), Ints(1, 1), Ints(0, 0), Ints(1, 1), t(1, 1)),
                ("StridedSlice", "strides", t(4), Ints(0), Ints(4), Ints(-1), 0, 0, 0, 0, 0, t(4)),
                ("StridedSlice", "begin", t(4), Ints(4), Ints(4), Ints(1), 0, 0, 0, 0, 1, t()),
                ("StridedSliceAssignV2", "inputValue", t(4), t(3), Ints(0), Ints(2), Ints(1), None),
                ("Repeat", "repeats", t(2, 3), Ints(2), t(4, 3)),
                ("RepeatInterleaveInt", "outputSize", t(2), 2, 3, t(4)),
                ("RepeatInterleaveIntWithDim", "repeats", t(2), -1, 0, 2, t(2)),
                ("ConstantPadNd", "pad", t(2), Ints(1), Scalar(0, F32), t(3)),
                ("ConstantPadNd", "pad", t(2), Ints(-3, 3), Scalar(0, F32), t(2)),
                ("RepeatInterleaveIntWithDim", "self", t(), 2, 0, 2, t(2)),
                ("ConstantPadNd", "pad", t(2, 3), Ints(1, 0, -2, 0), Scalar(0, F32), t(0, 4)),
                ("ReflectionPad1d", "self", t(0, 3), Ints(1, 1), t(0, 5)),
                ("ReflectionPad1dBackward", "self", t(2, 0, 5), t(2, 0, 3), Ints(1, 1), t(2, 0, 3)),
                ("ReplicationPad1d", "self", t(2, 0, 3), Ints(1, 1), t(2, 0, 5)),
                ("CircularPad2d", "self", t(0, 3, 3), Ints(1, 1, 1, 1), t(0, 5, 5)),
                ("ReplicationPad2d", "self", t(2, 3), Ints(1, 1, 1, 1), t(4, 5)),
                ("CircularPad2d", "padding", t(1, 2, 3), Ints(4, 1, 1, 1), t(1, 4, 8)),
                ("ReflectionPad2dBackward", "gradOutput", t(1, 2, 2), t(1, 2, 2), Ints(1, 1, 1, 1), t(1, 2, 2)),
                ("Tril", "self", t(3), 0, t(3)),
                ("Diag", "out", t(3), 1, t(3, 3)),
                ("UnfoldGrad", "gradOut", t(2, 3), Ints(5), 0, 3, 1, t(5))):
            with self.subTest(f"{op} {name} {args}"):
                code, message = refused("aclnn" + op, *args)
                self.assertEqual(code, INVALID, message)
                self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
