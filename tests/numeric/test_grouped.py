# SPDX-License-Identifier: Apache-2.0
"""GroupedMatmul and FFN in all versions: products of groups, of floats, int8 and quantised weights."""
import unittest

import numpy as np

import reference as ref
from acl import Blocked, INVALID, Ints, Tensor, TensorList, refused, run
from dtypes import BF16, F16, F32, F64, FLOATS, I32, I64, I8, LD, U64
from gen import each_case
from test_product import EPS, matrix, product, wide
from test_quant import packed_int4
from test_quant_matmul import words

GROUPS = (1, 2, 3, 8, 8, 300)
ACTIVATIONS = {"relu": ref.relu, "silu": lambda v: v * ref.sigmoid(v), "fastgelu": lambda v: v * ref.sigmoid(1.702 * v),
               "gelu": lambda v: v / 2 * (1 + np.tanh(LD(2 / np.pi) ** LD(0.5) * (v + LD(0.044715) * v ** 3)))}
BY_NUMBER = {1: "relu", 2: "gelu", 4: "fastgelu", 5: "silu"}


def lists(*values):
    return [v if v is None else TensorList(v if isinstance(v, list) else [v]) for v in values]


WEIGHT_NZ = 6                                     # stands for GroupedMatmulWeightNz among the versions


def blocked(w):
    """A weight, or a list of them, in FRACTAL_NZ, some of them transposed; packed int4 remains plain."""
    if isinstance(w, list):
        return [blocked(v) for v in w]
    return w if w.code != w.dtype.code or w.dtype is I32 or 0 in w.shape else Blocked(w, sum(w.shape) % 2 == 1)


def call(version, x, w, y, *, bias=None, scale=None, offset=None, anti=None, anti_offset=None, per_token=None,
         groups=None, split=3, axis=0, kind=0, act=0, call=run):
    w = blocked(w) if version == WEIGHT_NZ else w
    x, w, y, bias, scale, offset, anti, anti_offset, per_token = lists(x, w, y, bias, scale, offset, anti, anti_offset,
                                                                       per_token)
    first = [x, w, bias, scale, offset, anti, anti_offset]
    name = "aclnnGroupedMatmul" + {1: "", WEIGHT_NZ: "WeightNz"}.get(version, f"V{version}")
    if version < 4:
        return call(name, *first, groups, split, *([] if version == 1 else [axis]), y)
    return call(name, *first, per_token, groups, None, None, None, split, axis, kind, act,
                *{5: [None], WEIGHT_NZ: [None, 0]}.get(version, []), y, None, None)


def sizes_of(gen, n, most):
    """n sizes, some of them 0, and their sum and a larger number."""
    sizes = gen.rng.integers(0, most + 1, n) * (gen.rng.random(n) < 0.7)
    total = int(sizes.sum())
    return [int(s) for s in sizes], total, total + gen.pick((0, 0, 3))


def group_list(gen, version, sizes):
    """The argument of these sizes, its groupListType, and where each group begins."""
    ends = np.cumsum(sizes)
    begins = ends - sizes
    if version < 3:
        return Ints(*map(int, ends)), 0, begins
    kind = 0 if version == 3 else gen.integer(0, 2)
    if kind < 2:
        return gen.out(I64, (len(sizes),), np.array((ends, sizes)[kind], np.int64)), kind, begins
    order = sorted(range(len(sizes)), key=lambda g: sizes[g] == 0)
    begins = np.zeros(len(sizes), int)
    begins[order] = np.cumsum([sizes[g] for g in order]) - [sizes[g] for g in order]
    return gen.out(I64, (len(sizes), 2), np.array([(g, sizes[g]) for g in order], np.int64)), kind, begins


def pick_groups(gen):
    n = gen.pick(GROUPS)
    k, cols = (gen.pick((1, 8, 33)), gen.pick((1, 5, 16))) if n == 300 else \
        (gen.pick((1, 2, 16, 33, 64, 200)), gen.pick((1, 3, 16, 40, 130)))
    return n, k, cols, 3 if n == 300 else gen.pick((1, 4, 9, 40))


def float_bias(gen, t, shape):
    return matrix(gen, F16 if t is F16 else F32, shape) if gen.chance(0.4) else None


class Floats(unittest.TestCase):
    def check(self, y, exact, slack, what):
        ref.check(y, exact, self.t, F32, ulps=1, slack=slack + 3 * EPS * np.abs(exact), what=what)

    def of_rows(self, gen, listed):
        """Ranges of x's rows; weights in one tensor or in a list."""
        self.t = t = gen.pick(FLOATS)
        version = gen.integer(1, WEIGHT_NZ)
        n, k, cols, most = pick_groups(gen)
        sizes, total, rows = sizes_of(gen, n, most)
        x, y = matrix(gen, t, (rows, k)), gen.out(t, (rows, cols))
        before = y.get()
        if listed:
            w = [matrix(gen, t, (k, cols)) for _ in range(n)]
            bias = [float_bias(gen, t, (cols,)) for _ in range(n)]
            bias = bias if None not in bias else None
            of, more = [wide(v) for v in w], [wide(v) for v in bias] if bias else None
        else:
            w, bias = matrix(gen, t, (n, k, cols)), float_bias(gen, t, (n, cols))
            of, more = wide(w), wide(bias) if bias else None
        groups, kind, begins = group_list(gen, version, sizes)
        call(version, x, w, y, bias=bias, groups=groups, kind=kind)
        got = y.get()
        ref.check_equal(got[total:], before[total:], "rows of no group")
        for g in range(n):
            at = slice(begins[g], begins[g] + sizes[g])
            exact, slack = product(wide(x)[at], of[g])
            self.check(got[at], exact + (0 if more is None else more[g]), slack, f"V{version} group {g}")

    def test_rows(self):
        each_case(self, "rows", 80, lambda gen: self.of_rows(gen, False))

    def test_weights_in_a_list(self):
        each_case(self, "lists of weights", 50, lambda gen: self.of_rows(gen, True))

    def test_lists(self):
        """Matrices of their own, whose results are in a list or in one tensor."""
        def body(gen):
            self.t = t = gen.pick(FLOATS)
            n = gen.pick((1, 2, 5, 128))
            version = gen.integer(1, WEIGHT_NZ)
            one = gen.chance(0.4) and (n > 1 or version == 1)
            cols = gen.pick((1, 16, 40))
            x, w, bias, exact = [], [], [], []
            for _ in range(n):
                lead = (gen.integer(0, 9),) if one or gen.chance(0.5) else (gen.integer(1, 3), gen.integer(1, 3))
                k, columns = gen.pick((1, 16, 70)), cols if one else gen.pick((1, 7, 33))
                x.append(gen.keep(Tensor(t, (*lead, k))).set(t.round(gen.rng.standard_normal((*lead, k)))))
                w.append(matrix(gen, t, (k, columns)))
                bias.append(matrix(gen, F16 if t is F16 else F32, (columns,)))
                exact.append(product(wide(x[-1]), wide(w[-1])))
            bias = bias if gen.chance(0.4) else None
            if one:
                y = gen.out(t, (sum(v.shape[0] for v in x), cols))
            else:
                y = [gen.keep(Tensor(t, e.shape)) for e, _ in exact]
            call(version, x, w, y, bias=bias, split=gen.integer(2, 3) if one else gen.integer(0, 1),
                 axis=0 if one else -1)
            at = 0
            for g, (e, slack) in enumerate(exact):
                got = y.get()[at:at + len(e)] if one else y[g].get()
                self.check(got, e + (wide(bias[g]) if bias else 0), slack, f"V{version} group {g}")
                at += len(e)
        each_case(self, "lists", 60, body)

    def test_results_in_a_list(self):
        def body(gen):
            self.t = t = gen.pick(FLOATS)
            n, k = gen.pick((1, 2, 6)), gen.pick((1, 16, 70))
            sizes, _, rows = sizes_of(gen, n, 9)
            x, w = matrix(gen, t, (rows, k)), [matrix(gen, t, (k, gen.integer(1, 40))) for _ in range(n)]
            y = [gen.out(t, (s, v.shape[1])) for s, v in zip(sizes, w)]
            call(gen.integer(1, 2), x, w, y, groups=Ints(*map(int, np.cumsum(sizes))), split=gen.integer(0, 1))
            begin = 0
            for g, s in enumerate(sizes):
                self.check(y[g].get(), *product(wide(x)[begin:begin + s], wide(w[g])), f"group {g}")
                begin += s
        each_case(self, "lists of results", 30, body)

    def test_depth(self):
        def body(gen):
            self.t = t = gen.pick(FLOATS)
            n, m, cols, most = pick_groups(gen)
            listed, version = gen.chance(0.3) and n < 300, gen.integer(2, 5)
            sizes, _, depth = sizes_of(gen, n, most)
            x = matrix(gen, t, (m, depth))
            groups, kind, begins = group_list(gen, version, sizes)
            if listed:
                begins = np.cumsum(sizes) - sizes
                w = [matrix(gen, t, (s, cols)) for s in sizes]
                y = [gen.out(t, (m, cols)) for _ in sizes]
                groups, kind = None, 0
            else:
                w, y = matrix(gen, t, (depth, cols)), gen.out(t, (n, m, cols))
            if listed and n == 1:
                return                                  # one tensor each is the other form
            call(version, x, w, y, groups=groups, kind=kind, axis=2, split=gen.integer(0, 1) if listed else 3)
            for g in range(n):
                at = slice(begins[g], begins[g] + sizes[g])
                self.check(y[g].get() if listed else y.get()[g],
                           *product(wide(x)[:, at], wide(w[g] if listed else w)[slice(None) if listed else at]),
                           f"V{version} group {g}")
        each_case(self, "depth", 50, body)

    def test_large(self):
        """Groups that are cut for several threads, beside small ones."""
        def body(gen):
            self.t = t = gen.pick(FLOATS)
            sizes = [3, 300, 0, 1, 129]
            x, w, y = matrix(gen, t, (433, 160)), matrix(gen, t, (5, 160, 520)), gen.out(t, (433, 520))
            call(4, x, w, y, groups=gen.out(I64, (5,), np.array(sizes)), kind=1)
            begin = 0
            for g, s in enumerate(sizes):
                at = slice(begin, begin + s)
                self.check(y.get()[at], *product(wide(x)[at], wide(w)[g]), f"group {g}")
                begin += s
        each_case(self, "large", 6, body)


class Integers(unittest.TestCase):
    def case(self, gen):
        version, to = gen.integer(1, WEIGHT_NZ), gen.pick((F16, BF16, I8, I32))
        n, k, cols, most = pick_groups(gen)
        sizes, total, rows = sizes_of(gen, n, most)
        a, b = (gen.rng.integers(-128, 128, s).astype(np.int8) for s in ((rows, k), (n, k, cols)))
        x, w, y = gen.out(I8, a.shape, a), gen.out(I8, b.shape, b), gen.out(to, (rows, cols))
        before = y.get()
        groups, kind, begins = group_list(gen, version, sizes)
        s_n, by_words = gen.pick((1, cols)), to is I8 or (to is not I32 and gen.chance(0.3))
        numbers = F32.round(gen.rng.uniform(0.5, 2, (n, s_n)) * (60 if to is I8 else 2) / (k ** 0.5 * 5000))
        more, act = {}, 0
        per_token = offset = after = None
        if by_words:
            raw = words(numbers, None)
            more["scale"] = gen.out(gen.pick((U64, I64)), (n, s_n)).set(raw)
            numbers = (raw & np.uint64(0xffffe000)).astype(np.uint32).view(np.float32)
            if to is I8 and gen.chance(0.5):
                offset = more["offset"] = gen.tensor(F32, (n, s_n), F32.round(gen.rng.uniform(-20, 20, (n, s_n))))
        elif to is not I32:
            d = gen.pick((F32, BF16))
            numbers = d.round(numbers)
            more["scale"] = gen.tensor(d, (n, s_n), numbers)
            if version > 3 and gen.chance(0.6):
                per_token = more["per_token"] = gen.tensor(F32, (rows,), F32.round(gen.rng.uniform(0.5, 2, rows)))
            act = gen.pick((0, 1, 2, 4, 5)) if version > 3 else 0
            if gen.chance(0.3):
                after = more["bias"] = gen.drawn(gen.pick((F32, F16, BF16)), (n, cols),
                                                 lambda s: gen.rng.integers(-3, 4, s))
        bias = None if after or gen.chance(0.5) else gen.drawn(I32, (n, cols), lambda s: gen.values(I32, s, limit=500))
        if bias:
            more["bias"] = bias
        call(version, x, w, y, groups=groups, kind=kind, act=act, **more)
        got = y.get()
        ref.check_equal(got[total:], before[total:], "rows of no group")
        for g in range(n):
            at = slice(begins[g], begins[g] + sizes[g])
            sums = a[at].astype(np.int64) @ b[g].astype(np.int64) + (bias.get()[g].astype(np.int64) if bias else 0)
            if to is I32:
                ref.check_equal(got[at], sums.astype(np.int32))
                continue
            by = numbers[g].astype(LD) * (per_token.get().astype(LD)[at, None] if per_token else 1)
            exact = sums * by + (after.get()[g].astype(LD) if after else 0)
            if to is I8:
                exact = np.clip(exact + (offset.get()[g].astype(LD) if offset else 0), -128, 127)
                ref.complain(got[at], exact, np.abs(got[at] - exact) <= 0.5 + 1e-9, "int8", lambda i: "its rounding")
            elif act:
                ref.check(got[at], ACTIVATIONS[BY_NUMBER[act]](exact), to, F32, ulps=6, slack=8 * EPS * np.abs(exact))
            else:
                ref.check(got[at], exact, to, F64, ulps=1, slack=8 * F64.ulp(np.abs(sums * by) + np.abs(exact) + 1))

    def test_all(self):
        each_case(self, "int8", 120, self.case)


def int4_stack(gen, values, transposed, as_words):
    """A stack of int4 matrices, by elements or by words; in memory [groups, N, K] if transposed."""
    t = packed_int4(np.ascontiguousarray(np.swapaxes(values, 1, 2) if transposed else values), as_words)
    if not transposed:
        return gen.keep(t)
    view = object.__new__(Tensor)
    order = lambda v: (v[0], v[2], v[1])
    view.__dict__.update(t.__dict__, shape=order(t.shape), strides=order(t.strides))
    return gen.keep(view)


def quantised(gen, t, n, k, cols, bits):
    """A stack of weights, its scales and offsets, and what it stands for."""
    values = gen.rng.integers(-(1 << bits - 1), 1 << bits - 1, (n, k, cols))
    transposed = gen.chance(0.5)
    if bits == 4:
        fits = (k if transposed else cols) % 8 == 0 and k > 8
        w = int4_stack(gen, values, transposed, fits and gen.chance(0.4))
    else:
        w = gen.out(I8, values.shape, values)
    parts = gen.pick([p for p in (1, 1, 2, 4) if k % p == 0 and (bits == 4 or p == 1)])
    shape = (n, parts, cols) if parts > 1 else (n, cols)
    scale = gen.drawn(t, shape, lambda s: t.round(gen.rng.uniform(0.01, 0.1, s)))
    offset = gen.drawn(t, shape, lambda s: t.round(gen.rng.integers(-4, 5, s))) if gen.chance(0.6) else None
    rows = np.arange(k) // (k // parts)
    by = wide(scale).reshape(n, parts, cols)[:, rows]
    add = wide(offset).reshape(n, parts, cols)[:, rows] if offset else 0
    return w, scale, offset, (values + add) * by, (np.abs(values) + np.abs(add)) * by


def rounded_rows(x, w):
    """What products by quantised weights are off where rows of x become integers of 14 bits (quant_weight_dots.c)."""
    return np.abs(x).max(axis=1, keepdims=True, initial=0) * 2.0 ** -14 * np.abs(w).sum(axis=0)


class Weights(unittest.TestCase):
    def case(self, gen):
        t, bits, version = gen.pick((F16, BF16)), gen.pick((4, 8)), gen.integer(1, WEIGHT_NZ)
        n, k, cols, most = gen.pick((1, 2, 8, 300)), gen.pick((2, 16, 32, 64, 128)), gen.pick((2, 8, 16, 130)), \
            gen.pick((1, 4, 20))
        if n == 300:
            k, cols, most = 16, 8, 2
        sizes, total, rows = sizes_of(gen, n, most)
        x, y = matrix(gen, t, (rows, k)), gen.out(t, (rows, cols))
        w, scale, offset, of, size = quantised(gen, t, n, k, cols, bits)
        bias = float_bias(gen, t, (n, cols))
        groups, kind, begins = group_list(gen, version, sizes)
        call(version, x, w, y, bias=bias, anti=scale, anti_offset=offset, groups=groups, kind=kind)
        for g in range(n):
            at = slice(begins[g], begins[g] + sizes[g])
            exact, _ = product(wide(x)[at], of[g])
            exact = exact + (wide(bias)[g] if bias else 0)
            slack = 8 * k * EPS * (np.abs(wide(x)[at]) @ size[g]) + 4 * EPS * np.abs(exact)
            slack = slack + rounded_rows(wide(x)[at], size[g])
            ref.check(y.get()[at], exact, t, F32, ulps=1, slack=slack, what=f"int{bits} group {g} of {n}")

    def test_stacks(self):
        each_case(self, "weights", 100, self.case)

    def test_int4_beside_integers(self):
        """Weights of int4 whose scales are words, and x of int8 or of int4."""
        def body(gen):
            to, version, is_int8 = gen.pick((F16, BF16)), gen.integer(4, 5), gen.chance(0.5)
            n, k, cols, most = gen.pick((1, 2, 8)), gen.pick((16, 32, 64, 256)), gen.pick((2, 8, 40, 600)), \
                gen.pick((1, 4, 20, 90))
            sizes, _, rows = sizes_of(gen, n, most)
            rows = max(rows, 1)
            lowest = -128 if is_int8 else -8
            values = gen.rng.integers(lowest, -lowest, (rows, k))
            x = gen.out(I8, values.shape, values) if is_int8 else gen.keep(packed_int4(values, gen.chance(0.5)))
            of = gen.rng.integers(-8, 8, (n, k, cols))
            transposed = gen.chance(0.3)
            fits = (k if transposed else cols) % 8 == 0
            w = int4_stack(gen, of, transposed, fits and gen.chance(0.5))
            parts = gen.pick((1, 1, 2, 4))
            numbers = F32.round(gen.rng.uniform(0.001, 0.01, (n, parts, cols)))
            shape = gen.pick(((n, parts, cols), (n, cols))) if parts == 1 else (n, parts, cols)
            bits = np.asarray(numbers, np.float32).view(np.uint32).astype(np.uint64)
            scale = gen.out(U64, shape).set(bits.reshape(shape))
            of = of * np.asarray(numbers, np.float64)[:, np.arange(k) // (k // parts)]
            bias = gen.tensor(F32, (n, cols), F32.round(8 * of.sum(axis=1))) if is_int8 else None
            per_token = gen.tensor(F32, (rows,), F32.round(gen.rng.uniform(0.5, 2, rows))) \
                if is_int8 or gen.chance(0.5) else None
            groups, kind, begins = group_list(gen, version, sizes)
            y = gen.out(to, (rows, cols))
            call(version, x, w, y, bias=bias, scale=scale, per_token=per_token, groups=groups, kind=kind)
            for g in range(n):
                at = slice(begins[g], begins[g] + sizes[g])
                exact, slack = product((values[at] - 8 * is_int8).astype(np.float64), of[g])
                by = per_token.get().astype(LD)[at, None] if per_token else LD(1)
                exact = (exact + (bias.get().astype(LD)[g] if bias else 0)) * by
                ref.check(y.get()[at], exact, to, F32, ulps=1, slack=4 * slack * by + 4 * EPS * np.abs(exact),
                          what=f"group {g} of {n}")
        each_case(self, "int4 beside integers", 80, body)

    def test_lists(self):
        def body(gen):
            t, n = gen.pick((F16, BF16)), gen.pick((2, 5))
            k, cols = 32, 16
            made = [quantised(gen, t, 1, k, cols, 8) for _ in range(n)]
            w = [gen.out(I8, (k, cols), m[0].get()[0]) for m in made]
            scale = [gen.tensor(t, (cols,), m[1].get()[0]) for m in made]
            x = [matrix(gen, t, (gen.integer(0, 12), k)) for _ in range(n)]
            y = [gen.out(t, (v.shape[0], cols)) for v in x]
            call(gen.integer(2, 5), x, w, y, anti=scale, split=0, axis=-1)
            for g in range(n):
                dense = w[g].get().astype(float) * wide(scale[g])
                exact, slack = product(wide(x[g]), dense)
                slack = 4 * slack + rounded_rows(wide(x[g]), dense)
                ref.check(y[g].get(), exact, t, F32, ulps=1, slack=slack, what=f"group {g}")
        each_case(self, "lists of weights", 20, body)


class Refused(unittest.TestCase):
    def test_all(self):
        x, w, y = Tensor(F16, (4, 8)), Tensor(F16, (2, 8, 6)), Tensor(F16, (4, 6))
        groups, q, qw = Tensor(I64, (2,)), Tensor(I8, (4, 8)), Tensor(I8, (2, 8, 6))
        int4 = packed_int4(np.zeros((2, 8, 6)), False)
        for message, args, more in (
                ("groupListOptional is NULL", (x, w, y), {}),
                ("groupType is 1", (x, w, y), {"groups": groups, "axis": 1}),
                ("groupListType is 3", (x, w, y), {"groups": groups, "kind": 3}),
                ("actType is 3", (q, qw, y), {"groups": groups, "act": 3, "scale": Tensor(F32, (2, 6))}),
                ("actType is 1, expected 0 where x and weight are not INT8", (x, w, y), {"groups": groups, "act": 1}),
                ("splitItem is 4", (x, w, y), {"groups": groups, "split": 4}),
                ("out has 1 tensors, expected 2", (x, w, y), {"groups": groups, "split": 0}),
                ("groupListOptional has shape [3]", (x, w, y), {"groups": Tensor(I64, (3,))}),
                ("expected a depth of 8", (x, Tensor(F16, (2, 7, 6)), y), {"groups": groups}),
                ("out has shape [4, 5]", (x, w, Tensor(F16, (4, 5))), {"groups": groups}),
                ("weight has dtype FLOAT", (x, Tensor(F32, (2, 8, 6)), y), {"groups": groups}),
                ("out has dtype FLOAT,", (x, w, Tensor(F32, (4, 6))), {"groups": groups}),
                ("scaleOptional is NULL", (q, qw, y), {"groups": groups}),
                ("weight has dtype INT4", (q, int4, y), {"groups": groups, "axis": 2}),
                ("biasOptional is NULL", (q, int4, y), {"groups": groups, "scale": Tensor(U64, (2, 6))}),
                ("perTokenScaleOptional is NULL", (q, int4, y),
                 {"groups": groups, "scale": Tensor(U64, (2, 6)), "bias": Tensor(F32, (2, 6))}),
                ("scaleOptional has dtype FLOAT", (q, int4, y), {"groups": groups, "scale": Tensor(F32, (2, 6))}),
                ("scaleOptional has 3 parts", (q, int4, y), {"groups": groups, "scale": Tensor(U64, (2, 3, 6))}),
                ("antiquantScaleOptional is NULL", (x, qw, y), {"groups": groups}),
                ("perTokenScaleOptional is given", (x, w, y), {"groups": groups, "per_token": Tensor(F32, (4,))}),
                ("biasOptional has shape [2, 5]", (x, w, y), {"groups": groups, "bias": Tensor(F16, (2, 5))}),
                ("biasOptional is given, expected NULL with groupType 2",
                 (x, Tensor(F16, (8, 6)), Tensor(F16, (2, 4, 6))),
                 {"groups": groups, "axis": 2, "bias": Tensor(F16, (2, 6))})):
            with self.subTest(message):
                code, text = call(4, *args, **more, call=refused)
                self.assertEqual(code, INVALID)
                self.assertIn(message, text)
        code, text = call(2, x, w, y, groups=Ints(3, 5), call=refused)
        self.assertEqual(code, INVALID)
        self.assertIn("groupListOptional[1] is 5, expected 3 to 4", text)

    def test_blocked(self):
        x, packed = Tensor(F16, (4, 8)), Blocked(Tensor.of(I32, np.zeros((2, 8, 1))))
        code, text = call(WEIGHT_NZ, x, packed, Tensor(F16, (4, 8)), anti=Tensor(F16, (2, 8)), groups=Tensor(I64, (2,)),
                          call=refused)
        self.assertEqual(code, INVALID)
        self.assertIn("weight lies in FRACTAL_NZ as INT32", text)
        x, w, y = lists(x, Tensor(F16, (2, 8, 6)), Tensor(F16, (4, 6)))
        code, text = refused("aclnnGroupedMatmulWeightNz", x, w, *[None] * 6, Tensor(I64, (2,)), *[None] * 3,
                             3, 0, 0, 0, None, -1, y, None, None)
        self.assertEqual(code, INVALID)
        self.assertIn("quantGroupSize is -1", text)

    def test_numbers_on_the_device(self):
        for bad in ((3, 2), (1, 5), (-1, 2)):
            with self.assertRaises(Exception):
                call(3, Tensor(F16, (4, 8)), Tensor(F16, (2, 8, 6)), Tensor(F16, (4, 6)),
                     groups=Tensor.of(I64, np.array(bad)))


class Ffn(unittest.TestCase):
    def tokens(self, gen, version, sizes):
        by_end = version > 1 and gen.chance(0.5)
        numbers = np.array(np.cumsum(sizes) if by_end else sizes, np.int64)
        given = gen.out(I64, (len(sizes),), numbers) if version == 3 else Ints(*map(int, numbers))
        return given, by_end

    def call(self, version, x, w1, w2, tokens, *rest, by_end=False, precise=0, y, call=run):
        name = "aclnnFFN" + ("" if version == 1 else f"V{version}")
        *params, activation = rest
        return call(name, x, w1, w2, tokens, *params, activation.encode(), precise,
                    *([] if version == 1 else [by_end]), y)

    def shapes(self, gen):
        experts = gen.pick((0, 0, 1, 3, 8))
        k, hidden = gen.pick((2, 8, 32, 70)), gen.pick((2, 16, 40, 600))
        sizes = [int(s) for s in gen.rng.integers(0, 9, experts or 1)]
        return experts, k, hidden, sizes, (experts,) if experts else ()

    def floats(self, gen):
        t, version = gen.pick((F16, BF16)), gen.integer(1, 3)
        experts, k, hidden, sizes, lead = self.shapes(gen)
        gated = not experts and t is F16 and gen.chance(0.3)
        name = gen.pick(("gelu", "relu", "silu", "fastgelu"))
        depth = hidden // 2 if gated else hidden
        full = gated and {"gelu": "geglu", "relu": "reglu", "silu": "swiglu"}.get(name)
        gated = bool(full)
        depth = hidden // 2 if gated else hidden
        bits = 0 if gated else gen.pick((0, 0, 4, 8))
        shape = (*([1, sum(sizes)] if not experts and gen.chance(0.3) else [sum(sizes)]), k)
        x, y = gen.keep(Tensor(t, shape)).set(t.round(gen.rng.standard_normal(shape))), gen.out(t, (sum(sizes), k))
        if len(shape) > 2:
            y = gen.keep(Tensor(t, shape))
        weights, scales, offsets = [], [None] * 2, [None] * 2
        of, size = [], []
        for i, s in enumerate(((k, hidden), (depth, k))):
            if bits:
                w, scales[i], offsets[i], values, magnitude = quantised(gen, t, experts or 1, *s, bits)
                if not experts:
                    drop = lambda v: v and gen.keep(Tensor.of(v.dtype, v.get()[0]))
                    scales[i], offsets[i] = drop(scales[i]), drop(offsets[i])
                    view = object.__new__(Tensor)
                    view.__dict__.update(w.__dict__, shape=w.shape[1:], strides=w.strides[1:])
                    w = gen.keep(view)
            else:
                w = gen.drawn(t, (*lead, *s), lambda v: t.round(gen.rng.standard_normal(v) / s[0] ** 0.5))
                values = wide(w).reshape(experts or 1, *s)
                magnitude = np.abs(values)
            weights.append(w), of.append(values), size.append(magnitude)
        bias = [float_bias(gen, t, (*lead, n)) for n in (hidden, k)]
        tokens, by_end = self.tokens(gen, version, sizes) if experts else (None, False)
        precise = gen.integer(0, 1) if t is F16 else 0
        self.call(version, x, *weights, tokens, *bias, None, None, None, None, *scales, *offsets, full or name,
                  by_end=by_end, precise=precise, y=y)
        act, begin, got = ACTIVATIONS[name], 0, y.get().reshape(-1, k)
        for g, s in enumerate(sizes):
            at = slice(begin, begin + s)
            rows, begin = wide(x).reshape(-1, k)[at], begin + s
            add = [wide(b).reshape(experts or 1, -1)[g] if b else 0 for b in bias]
            h = product(rows, of[0][g])[0] + add[0]
            error = 8 * k * EPS * (np.abs(rows) @ size[0][g]) + 4 * EPS * np.abs(h)
            a = act(h[:, depth:]) * h[:, :depth] if gated else act(h)
            # the activations' slopes are below 1.2; the middle is rounded to t
            spread = 1.2 * error if not gated else 1.2 * (error[:, depth:] * np.abs(h[:, :depth]) +
                                                          error[:, :depth] * np.abs(h[:, depth:]))
            spread = spread + t.ulp(a) + 1e-6 * np.abs(h[:, :depth])
            exact = product(a.astype(np.float64), of[1][g])[0] + add[1]
            slack = (spread + 8 * depth * EPS * np.abs(a)).astype(np.float64) @ size[1][g]
            ref.check(got[at], exact, t, F32, ulps=1, slack=slack + 4 * EPS * np.abs(exact), what=f"{full or name} {g}")

    def test_floats(self):
        each_case(self, "FFN", 120, self.floats)

    def quantised(self, gen):
        version, to = gen.integer(1, 3), gen.pick((F16, BF16))
        experts, k, hidden, sizes, lead = self.shapes(gen)
        name = gen.pick(sorted(ACTIVATIONS))
        n, total = experts or 1, sum(sizes)
        x = gen.out(I8, (total, k), gen.rng.integers(-128, 128, (total, k)))
        w = [gen.out(I8, (*lead, *s), gen.rng.integers(-128, 128, (*lead, *s))) for s in ((k, hidden), (hidden, k))]
        bias = [gen.drawn(I32, (*lead, c), lambda s: gen.values(I32, s, limit=500)) if gen.chance(0.6) else None
                for c in (hidden, k)]
        kind = BF16 if to is BF16 else gen.pick((F32, U64, I64))
        scales, numbers = [], []
        for c, depth in ((hidden, k), (k, hidden)):
            v = F32.round(gen.rng.uniform(0.5, 2, (*lead, c)) / (depth ** 0.5 * 5000))
            if kind in (U64, I64):
                raw = words(v, None)
                v = (raw & np.uint64(0xffffe000)).astype(np.uint32).view(np.float32)
                scales.append(gen.out(kind, v.shape).set(raw))
            else:
                v = kind.round(v)
                scales.append(gen.tensor(kind, v.shape, v))
            numbers.append(np.asarray(v, LD).reshape(n, c))
        s_shape = gen.pick(((n,), (*lead, hidden)))
        scale = gen.tensor(F32, s_shape, F32.round(gen.rng.uniform(20, 60, s_shape)))
        offset = gen.tensor(F32, (n,), F32.round(gen.rng.integers(-9, 10, n))) if gen.chance(0.6) else None
        y = gen.out(to, (total, k))
        tokens, by_end = self.tokens(gen, version, sizes) if experts else (None, False)
        self.call(version, x, *w, tokens, *bias, scale, offset, *scales, None, None, None, None, name, by_end=by_end,
                  y=y)
        begin = 0
        for g, s in enumerate(sizes):
            at, begin = slice(begin, begin + s), begin + s
            i = [v.get().reshape(n, *v.shape[-2:])[g].astype(np.int64) for v in w]
            b = [v.get().reshape(n, -1)[g].astype(np.int64) if v else 0 for v in bias]
            h = (x.get()[at].astype(np.int64) @ i[0] + b[0]) * numbers[0][g]
            a = ACTIVATIONS[name](h) * scale.get().astype(LD).reshape(n, -1)[g] + (offset.get()[g] if offset else 0)
            middle = np.clip(np.rint(a), -128, 127).astype(np.int64)
            unsure = np.abs(np.abs(a - np.floor(a)) - 0.5) < 1e-4       # may be rounded the other way
            exact = (middle @ i[1] + b[1]) * numbers[1][g]
            slack = (unsure.astype(np.int64) @ np.abs(i[1])) * numbers[1][g]
            ref.check(y.get()[at], exact, to, F32, ulps=1, slack=slack + 8 * EPS * np.abs(exact), what=name)

    def test_quantised(self):
        each_case(self, "FFN of int8", 80, self.quantised)

    def test_refused(self):
        x, w1, w2, y = (Tensor(F16, s) for s in ((4, 8), (8, 6), (6, 8), (4, 8)))
        e1, e2, none = Tensor(F16, (2, 8, 6)), Tensor(F16, (2, 6, 8)), [None] * 10
        for message, args, more in (
                ('activation is "tanh"', (x, w1, w2, None, *none, "tanh"), {}),
                ('activation is "geglu"', (x, e1, e2, Ints(1, 3), *none, "geglu"), {}),
                ("innerPrecise is 2", (x, w1, w2, None, *none, "relu"), {"precise": 2}),
                ("weight1 has shape [2, 8, 6], expected 2 dimensions", (x, e1, e2, None, *none, "relu"), {}),
                ("expertTokens has 3 tokens, expected 4", (x, e1, e2, Ints(1, 2), *none, "relu"), {}),
                ("expertTokens[1] is 4", (x, e1, e2, Ints(1, 4), *none, "relu"), {}),
                ("weight2 has shape [8, 6], expected a depth of 6", (x, w1, w1, None, *none, "relu"), {}),
                ("scale is given", (x, w1, w2, None, None, None, Tensor(F32, (1,)), *none[3:], "relu"), {}),
                ("deqScale1 is NULL", (*(Tensor(I8, s) for s in ((4, 8), (8, 6), (6, 8))), None, *none, "relu"), {}),
                ("y has shape [4, 7]", (x, w1, w2, None, *none, "relu"), {"y": Tensor(F16, (4, 7))})):
            with self.subTest(message):
                code, text = self.call(2, *args, **{"y": y, **more}, call=refused)
                self.assertEqual(code, INVALID)
                self.assertIn(message, text)


if __name__ == "__main__":
    unittest.main()
