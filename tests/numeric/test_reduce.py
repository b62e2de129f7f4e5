# SPDX-License-Identifier: Apache-2.0
"""Reductions: sums are within the stated bound, bits are the same for every layout, order statistics are exact."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Ints, Scalar, Tensor, refused, run
from dtypes import (ALL, BF16, BOOL, C64, C128, CLD, F16, F32, F64, FLOATS, FLOATS64, I16, I32, I64, I8, INTS, LD, PART,
                    U8, computed_in)
from gen import each_case, each_forced

CASES = 120
SUMS = ((F32, F32), (F32, F32), (F16, F16), (BF16, BF16), (F64, F64), (F16, F32), (BF16, F32), (I32, I64), (I32, I32),
        (I64, I64), (I8, I64), (I16, I64), (U8, I64), (BOOL, I64), (I32, F32))
COMPLEX_SUMS = ((C64, C64), (C128, C128), (C64, C128), (C128, C64), (F32, C64), (BF16, C64), (F64, C128), (I32, C64))
MEANS = ((F32, F32), (F16, F16), (BF16, BF16), (F64, F64), (F16, F32))
INTEGER_MEANS = ((I32, I32), (I8, I64), (I64, I64), (U8, U8), (I16, I8), (BOOL, I32))
LONG = ((5000,), (3, 2001), (2001, 3), (40, 5, 40), (70000,), (2, 66000), (66000, 2), (300, 4), (300, 17), (130, 64),
        (7, 1025), (1025, 140))


def pick_dims(gen, rank):
    """(dims as passed, sorted axes): {} stands for all axes, and any axis may be passed as negative."""
    axes = [int(i) for i in gen.rng.permutation(rank)[:gen.integer(0, rank)]]
    passed = [i - (rank if gen.chance(0.3) else 0) for i in axes]
    return passed, tuple(sorted(axes)) if axes else tuple(range(rank))


def reducible(gen, empty=0.05, min_rank=0):
    """Mostly small shapes; sometimes long or many rows and columns, beyond blocks, chunks and strips."""
    return gen.pick(LONG) if gen.chance(0.2) else gen.shape(empty=empty, min_rank=min_rank)


def count(shape, axes):
    return int(np.prod([shape[i] for i in axes], dtype=np.int64))


def limited(gen, d, shape, limit=10):
    return gen.drawn(d, shape, lambda s: gen.values(d, s, limit=limit if d.kind == "f" else 10 ** 6))


class Implementations(unittest.TestCase):
    def test_forced(self):
        each_forced(self, [f"reduce={name}" for name in ("columns", "transposed", "rows", "reference")],
                    [f"test_reduce.{t}" for t in ("Sums", "Orders", "Norms", "Moments")])


class SameBits:
    def run_twice(self, gen, op, x, make_args, outs, what):
        """Runs op on x and on x in another layout; outs: (dtype, shape) of each result. The bits must be the same."""
        first = [gen.out(d, s) for d, s in outs]
        run(op, x, *make_args(first))
        second = [gen.out(d, s) for d, s in outs]
        run(op, gen.again(x), *make_args(second))
        for a, b in zip(first, second):
            ref.check_equal(b.bits(), a.bits(), what + ": bits in another layout")
        return first[0] if len(first) == 1 else first


class Sums(SameBits, unittest.TestCase):
    def test_sum(self):
        each_case(self, "aclnnReduceSum", CASES, lambda g: self.case(g, "aclnnReduceSum", SUMS + COMPLEX_SUMS))
        each_case(self, "whether there is any", CASES // 4, self.any)

    def any(self, gen):
        """A sum that is stored as a truth value."""
        x = limited(gen, gen.pick(ALL), reducible(gen), limit=1)
        dims, axes = pick_dims(gen, len(x.shape))
        out = gen.out(BOOL, np.any(x.get(), axes).shape)
        run("aclnnReduceSum", x, Ints(*dims), False, BOOL, out)
        ref.check_equal(out.get(), np.any(x.get(), axes))

    def test_mean(self):
        each_case(self, "aclnnMean", CASES, lambda g: self.case(g, "aclnnMean", MEANS + INTEGER_MEANS + COMPLEX_SUMS))

    def test_mean_stored_as_another_type(self):
        for values, d, dtype, to, expected in (((1, 2, 2), I32, I32, F32, 1), ((1, 2, 2), U8, I64, F16, 1),
                                               ((-1, -2, -2), I32, I64, C64, -1), ((1, 2, 2), BOOL, I8, F64, 1),
                                               ((0.5, 1), F32, F32, F16, 0.75), ((0.5, 1), F16, F32, F64, 0.75),
                                               ((1, 2), I32, F32, F16, 1.5), ((1, 2), F32, F64, C64, 1.5)):
            out = Tensor.empty(to, ())
            run("aclnnMean", Tensor.of(d, values), Ints(0), False, dtype, out)
            ref.check_equal(out.get(), expected, f"mean of {d} in {dtype} as {to}") if to is not C64 else \
                self.assertEqual(out.get(), expected)

    def test_nansum(self):
        each_case(self, "aclnnReduceNansum", CASES // 2, lambda g: self.case(g, "aclnnReduceNansum", SUMS))

    def test_mean_v2(self):
        each_case(self, "aclnnMeanV2", CASES // 2, lambda g: self.case(g, "aclnnMeanV2", MEANS[:4] + COMPLEX_SUMS[:2]))

    def test_log_sum(self):
        each_case(self, "aclnnReduceLogSum", CASES // 2, lambda g: self.case(g, "aclnnReduceLogSum", MEANS[:4]))

    def case(self, gen, op, types):
        source, target = gen.pick(types)
        shape = reducible(gen, empty=0 if target.kind == "c" else 0.05)
        x = limited(gen, source, shape)
        if op == "aclnnReduceLogSum":
            x = gen.tensor(source, shape, np.abs(x.get()))
        if op == "aclnnReduceNansum" and source.kind == "f" and x.size:
            x = gen.tensor(source, shape, np.where(gen.rng.random(shape) < 0.2, np.nan, x.get()).astype(np.float64))
        dims, axes = pick_dims(gen, len(shape))
        keep, noop = gen.chance(0.5), gen.chance(0.3)
        copied = noop and not dims and op in ("aclnnMeanV2", "aclnnReduceLogSum")
        if copied:
            axes = ()
        values = np.nan_to_num(x.get()) if op == "aclnnReduceNansum" else x.get()
        if target.kind == "i":
            exact, magnitude = values.astype(np.int64).sum(axes, np.int64, keepdims=keep), None
        else:
            wide = CLD if target.kind == "c" else LD
            exact = values.astype(wide).sum(axes, wide, keepdims=keep)
            magnitude = np.abs(values.astype(wide)).sum(axes, LD, keepdims=keep)
        n = count(shape, axes)
        if "Mean" in op and target.kind == "i":
            exact = np.sign(exact) * (np.abs(exact) // max(n, 1))     # truncated; 0 for an empty row
        elif "Mean" in op:
            exact, magnitude = exact / LD(n), magnitude / LD(n)      # NaN for an empty row
        if op == "aclnnReduceLogSum":
            if copied:
                exact, magnitude = values.astype(LD), LD(0)
            elif n == 0:
                magnitude = LD(0)
            else:
                exact, magnitude = np.log(exact), 1 + np.abs(np.log(exact))
        what = f"{op} over {dims} of {source} as {target}"
        tail = (noop,) if op in ("aclnnMeanV2", "aclnnReduceLogSum") else (target,)
        out = self.run_twice(gen, op, x, lambda o: (Ints(*dims), keep, *tail, *o), [(target, np.shape(exact))], what)
        if target.kind == "i":
            ref.check_equal(out.get(), exact.astype(target.values), what)
        elif target.kind == "c":
            computing = F64 if source in (F64, C128, I32) else F32
            ref.check_parts(out.get(), exact, target, 1, ref.sum_slack(magnitude, n, computing), what)
        else:
            slack = ref.sum_slack(magnitude, n, computed_in(target)) if n else 0
            ref.check(out.get(), exact, target, computed_in(target), ulps=1, slack=np.nan_to_num(slack), what=what)

    def test_special_values(self):
        def body(gen):
            d = gen.pick(FLOATS)
            v = gen.values(d, (7, 40), limit=10)                     # finite numbers whose sums are finite
            odd = gen.rng.choice([np.inf, -np.inf, np.nan], v.shape)
            x = gen.tensor(d, v.shape, np.where(gen.rng.random(v.shape) < 0.02, odd, v))
            out = gen.out(d, (7,))
            run("aclnnReduceSum", x, Ints(1), False, d, out)
            values = x.get().astype(LD)
            nan = np.isnan(values).any(1) | (np.isposinf(values).any(1) & np.isneginf(values).any(1))
            endless = np.isinf(values).any(1) & ~nan
            ref.check_equal(np.isnan(out.get()), nan)
            ref.check_equal(out.get()[endless], values.sum(1)[endless].astype(np.float32))
        each_case(self, "sums of inf and NaN", 20, body)

    def test_prod(self):
        def body(gen):
            source, target = gen.pick(((F32, F32), (F16, F32), (BF16, BF16), (F64, F64), (I32, I64), (U8, I64)))
            shape = gen.shape(numel=200)
            x = gen.drawn(source, shape, lambda s: np.where(gen.rng.random(s) < 0.5, 1, gen.integer(1, 3)))
            one_dim = len(shape) > 0 and gen.chance(0.5)
            axis = gen.integer(0, len(shape) - 1) if one_dim else None
            keep = one_dim and gen.chance(0.5)
            exact = np.prod(x.get(), axis=axis, dtype=LD if target.kind == "f" else target.values, keepdims=keep)
            op = "aclnnProdDim" if one_dim else "aclnnProd"
            out = self.run_twice(gen, op, x, lambda o: (*((axis, keep) if one_dim else ()), target, *o),
                                 [(target, np.shape(exact))], op)
            if target.kind == "i":
                ref.check_equal(out.get(), exact)
            else:
                n = shape[axis] if one_dim else x.size
                slack = np.abs(exact) * (n * LD(2) ** -53) if target == F64 else 0  # n roundings; others compute wider
                ref.check(out.get(), exact, target, ulps=2, slack=slack)
        each_case(self, "aclnnProd", CASES // 2, body)

    def test_complex_prod(self):
        def body(gen):
            source, target = gen.pick(((C64, C64), (C128, C128), (C64, C128), (F32, C64), (F64, C128)))
            shape = gen.shape(numel=200, empty=0) if gen.chance(0.8) else gen.pick(((1500,), (3, 700), (700, 3)))
            angle = gen.rng.uniform(-np.pi, np.pi, shape)                    # products stay near the unit circle
            v = np.exp(1j * angle) * gen.rng.uniform(0.98, 1.02, shape) if source.kind == "c" else \
                gen.rng.choice((-1, 1, 0.99, 1.01), shape)
            v = np.where(gen.rng.random(shape) < 0.01, 1j if source.kind == "c" else 1, v)
            x = gen.tensor(source, shape, v.astype(source.values))
            one_dim = len(shape) > 0 and gen.chance(0.6)
            axis = gen.integer(0, len(shape) - 1) if one_dim else None
            keep = one_dim and gen.chance(0.5)
            exact = np.prod(x.get().astype(CLD), axis=axis, keepdims=keep)
            op = "aclnnProdDim" if one_dim else "aclnnProd"
            out = self.run_twice(gen, op, x, lambda o: (*((axis, keep) if one_dim else ()), target, *o),
                                 [(target, np.shape(exact))], op)
            n = shape[axis] if one_dim else x.size
            # Each of n products is off by sqrt(5) half ulps of its magnitude (Brent, Percival and Zimmermann).
            slack = np.abs(exact) * (LD(5) ** 0.5 * LD(2) ** -53 * (n + 1))
            ref.check_parts(out.get(), exact, target, 1, slack, what=op)
        each_case(self, "products of complex numbers", CASES, body)

    def test_complex_prod_special(self):
        """The product of one number is that number; the product of real numbers stays real."""
        for d in (C64, C128):
            v = np.array([complex(np.inf, 0), complex(np.nan, 1), complex(-0.0, 2)], d.values)
            out = Tensor.empty(d, (3,))
            run("aclnnProdDim", Tensor.of(d, v.reshape(3, 1)), 1, False, d, out)
            np.testing.assert_array_equal(out.bits().view(np.uint8), v.view(np.uint8))
            run("aclnnProdDim", Tensor.of(F32, [[np.inf, 2], [3, -4], [0, 1]]), 1, False, d, out)
            np.testing.assert_array_equal(out.get(), [np.inf, -12, 0])

    def test_trace(self):
        def body(gen):
            source, target = gen.pick(((F32, F32), (F16, F16), (I32, I64), (BOOL, I64), (F64, F64), (C64, C64),
                                       (C128, C128)))
            x = limited(gen, source, (gen.integer(0, 70), gen.integer(0, 70)))
            out = gen.out(target, ())
            run("aclnnTrace", x, out)
            diagonal = np.diagonal(x.get())
            if target.kind == "i":
                ref.check_equal(out.get(), diagonal.sum(dtype=np.int64))
            elif target.kind == "c":
                v = diagonal.astype(CLD)
                slack = ref.sum_slack(np.abs(v).sum(), diagonal.size, PART[target])
                ref.check_parts(out.get(), v.sum(), target, slack=slack)
            else:
                slack = ref.sum_slack(np.abs(diagonal.astype(LD)).sum(), diagonal.size, computed_in(target))
                ref.check(out.get(), diagonal.astype(LD).sum(), target, slack=slack)
        each_case(self, "aclnnTrace", CASES // 2, body)


class Orders(SameBits, unittest.TestCase):
    def test_dims(self):
        for op, numpy_of in (("aclnnAmax", np.max), ("aclnnAmin", np.min), ("aclnnMaxV2", np.max),
                             ("aclnnAny", np.any), ("aclnnAll", np.all)):
            def body(gen, op=op, numpy_of=numpy_of):
                shape = reducible(gen, empty=0 if numpy_of in (np.max, np.min) else 0.1)
                d = gen.pick(ALL)
                logic = numpy_of in (np.any, np.all)
                x = gen.drawn(d, shape, lambda s: (gen.rng.random(s) < gen.pick((0, 0.01, 0.99, 1))).astype(d.values)
                              if logic else gen.values(d, s))
                dims, axes = pick_dims(gen, len(shape))
                keep = gen.chance(0.5)
                expected = numpy_of(x.get(), axis=axes, keepdims=keep)      # NaN wins in NumPy too
                out_type = gen.pick((BOOL, U8)) if logic else d
                tail = (False,) if op == "aclnnMaxV2" else ()
                out = self.run_twice(gen, op, x, lambda o: (Ints(*dims), keep, *tail, *o),
                                     [(out_type, np.shape(expected))], op)
                ref.check_equal(out.get(), expected.astype(out_type.values), f"{op} over {dims}")
            each_case(self, op, CASES, body)

    def test_all_elements(self):
        def body(gen):
            x = gen.tensor(gen.pick(ALL), reducible(gen, empty=0))
            top, bottom, least, most = (gen.out(x.dtype, ()) for _ in range(4))
            run("aclnnMax", x, top)
            run("aclnnMin", x, bottom)
            run("aclnnAminmaxAll", x, least, most)
            for got, f in ((top, np.max), (bottom, np.min), (least, np.min), (most, np.max)):
                ref.check_equal(got.get(), f(x.get()))
        each_case(self, "aclnnMax", CASES, body)

    def test_signs_of_zeros(self):
        """Of equal elements the first one is taken, in every layout: the sign of zero shows which it was."""
        for d, n, op in ((d, n, op) for d in FLOATS64 for n in (3, 17, 70) for op in ("aclnnMaxDim", "aclnnMinDim")):
            values = np.random.default_rng(n).choice((-1.0, 0.0, -0.0), (300, n)) * (1 if op == "aclnnMaxDim" else -1)
            place = np.argmax(values == 0, 1)
            rows, columns = Tensor(d, (300, n), (6 * n + 5, 6)).set(values), Tensor.of(d, values.T)
            for x, dim in ((rows, 1), (Tensor.of(d, values), 1), (columns, 0)):
                out, at = Tensor.empty(d, (300,)), Tensor.empty(I32, (300,))
                run(op, x, dim, False, out, at)
                has_zero = (values == 0).any(1)
                ref.check_equal(np.where(has_zero, at.get(), 0), place)
                ref.check_equal(np.signbit(out.get().astype(np.float64)) & has_zero,
                                np.signbit(values[np.arange(300), place]) & has_zero)

    def test_places(self):
        for op, places_of, values_of in (("aclnnArgMax", np.argmax, None), ("aclnnArgMin", np.argmin, None),
                                         ("aclnnMaxDim", np.argmax, np.max), ("aclnnMinDim", np.argmin, np.min)):
            def body(gen, op=op, places_of=places_of, values_of=values_of):
                shape = reducible(gen, min_rank=1, empty=0)
                d = gen.pick(FLOATS64 + INTS)
                limit = 3 if gen.chance(0.5) else None                   # many equal maxima: the first counts
                x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=limit))
                axis, keep = gen.integer(0, len(shape) - 1), gen.chance(0.5)
                places = places_of(x.get(), axis, keepdims=keep)         # the first; NaN wins
                index = gen.pick((I64, I32))
                outs = ([(d, np.shape(places))] if values_of else []) + [(index, np.shape(places))]
                got = self.run_twice(gen, op, x, lambda o: (axis - (len(shape) if gen.chance(0.4) else 0), keep, *o),
                                     outs, op)
                if values_of:
                    ref.check_equal(got[0].get(), values_of(x.get(), axis, keepdims=keep), f"{op} along {axis}")
                    got = got[1]
                ref.check_equal(got.get(), places.astype(index.values), f"places along {axis}")
            each_case(self, op, CASES, body)

    def test_places_in_narrow_columns(self):
        """The first of equal elements is found when several lanes are scanned at once; a NaN precedes all others."""
        rng = np.random.default_rng(11)
        for d in (F32, F64, F16, I32, I64):
            for n in (31, 32, 33, 64, 100, 1024, 1100, 2500):
                for width in (2, 3, 40, 127):
                    values = rng.integers(-1, 2, (n, width)) * rng.choice((1.0, -1.0), (n, width))
                    if d.kind == "f":
                        values = np.where(rng.random((n, width)) < 1 / n, np.nan, values)
                    x = Tensor.of(d, values.astype(d.values))
                    out, at = Tensor.empty(d, (width,)), Tensor.empty(I64, (width,))
                    for op, places_of in (("aclnnMaxDim", np.argmax), ("aclnnMinDim", np.argmin)):
                        run(op, x, 0, False, out, at)
                        places = places_of(values, 0)
                        ref.check_equal(at.get(), places, f"{op} of {x}")
                        ref.check_equal(out.bits(), x.bits()[places, np.arange(width)], f"{op} of {x}")

    def test_aminmax(self):
        def body(gen):
            x = gen.tensor(gen.pick(ALL), reducible(gen, empty=0, min_rank=1))
            keep = gen.chance(0.5)
            if gen.chance(0.5):
                dims, axes = pick_dims(gen, len(x.shape))
                op, head = "aclnnAminmax", (Ints(*dims), keep)
            else:
                axes = gen.integer(0, len(x.shape) - 1)
                op, head = "aclnnAminmaxDim", (axes, keep)
            low, high = np.min(x.get(), axes, keepdims=keep), np.max(x.get(), axes, keepdims=keep)
            got = self.run_twice(gen, op, x, lambda o: (*head, *o), [(x.dtype, np.shape(low))] * 2, op)
            ref.check_equal(got[0].get(), low)
            ref.check_equal(got[1].get(), high)
        each_case(self, "aclnnAminmax", CASES, body)


class Ways(unittest.TestCase):
    """Rows that are contiguous, strided, or columns have loops of their own, with vectors if they are contiguous."""
    LENGTHS = (*range(1, 41), 63, 64, 65, 96, 127, 1000, 1023, 1024, 1025, 2050, 4096, 5000)
    WIDTHS = (1, 2, 3, 8, 15, 16, 17, 31, 33, 64, 100, 130)

    @staticmethod
    def layouts(d, rows, n):
        yield Tensor(d, (rows, n))
        yield Tensor(d, (rows, n), (n + 3, 1))
        yield Tensor(d, (rows, n), (2 * n + 1, 2))                       # no two elements are adjacent
        yield Tensor(d, (rows, n), (1, rows))
        yield Tensor(d, (rows, n), (1, rows + 5), 3)

    def check(self, gen, op, d, rows, n, odd, make_args):
        values = gen.values(d, (rows, n), limit=10)
        values = np.where(gen.rng.random(values.shape) < 0.1, gen.rng.choice(odd, values.shape), values)
        first = None
        for x in self.layouts(d, rows, n):
            out = Tensor.empty(d, (rows,))
            run(op, x.set(values), *make_args(d, out))
            first = out.bits() if first is None else first
            ref.check_equal(out.bits(), first, f"{op} of {x}")

    def test_ways(self):
        ops = (("aclnnReduceSum", (0.0, -0.0), lambda d, o: (Ints(1), False, d, o)),
               ("aclnnAmax", (0.0, -0.0, np.nan, -np.inf), lambda d, o: (Ints(1), False, o)),
               ("aclnnAmin", (0.0, -0.0, np.nan, np.inf), lambda d, o: (Ints(1), False, o)),
               ("aclnnNorm", (0.0, 1e-4), lambda d, o: (Scalar(2.0, F32), Ints(1), False, o)))
        for op, odd, make_args in ops:
            for d in (F32, F16, BF16, F64):
                def body(gen, op=op, d=d, odd=odd, make_args=make_args):
                    for n in gen.rng.permutation(self.LENGTHS)[:6]:
                        self.check(gen, op, d, int(gen.pick(self.WIDTHS)), int(n), odd, make_args)
                each_case(self, f"{op} of {d} in all ways", 8, body)

    def test_roots_know_no_neighbours(self):
        values = np.random.default_rng(5).random((21, 12))
        values[3], values[5], values[9, 0], values[16] = 0, 1e200, np.nan, 1e-200
        together, alone = Tensor.empty(F64, (21,)), Tensor.empty(F64, ())
        run("aclnnNorm", Tensor.of(F64, values), Scalar(2.0, F32), Ints(1), False, together)
        for i, row in enumerate(values):
            run("aclnnNorm", Tensor.of(F64, row), Scalar(2.0, F32), Ints(0), False, alone)
            ref.check_equal(alone.bits(), together.bits()[i], f"the norm of row {i}")


class Norms(SameBits, unittest.TestCase):
    def test_norms(self):
        for op in ("aclnnNorm", "aclnnLinalgVectorNorm"):
            def body(gen, op=op):
                d = gen.pick(FLOATS64)
                shape = reducible(gen)
                p = gen.pick((0, 1, 2, 2, 3, 0.5, -1, np.inf, -np.inf))
                named = {np.inf: 2 ** 31 - 1, -np.inf: -2 ** 31}.get(p, p) if gen.chance(0.5) else p
                x = limited(gen, d, shape)
                if p < 0 and x.size:
                    x = gen.tensor(d, shape, np.where(x.get() == 0, 1, x.get()))
                dims, axes = pick_dims(gen, len(shape))
                keep = gen.chance(0.5)
                v = np.abs(x.get().astype(LD))
                if not count(shape, axes):
                    exact = v.sum(axes, keepdims=keep)                       # 0 for an empty row
                elif p == 0:
                    exact = (v != 0).sum(axes, LD, keepdims=keep)
                elif np.isinf(p):
                    exact = (np.max if p > 0 else np.min)(v, axes, keepdims=keep)
                else:
                    exact = (v ** LD(p)).sum(axes, LD, keepdims=keep) ** (1 / LD(p))
                tail = (d,) if op == "aclnnLinalgVectorNorm" else ()
                out = self.run_twice(gen, op, x,
                                     lambda o: (Scalar(named, gen.pick((F32, F64))), Ints(*dims), keep, *tail, *o),
                                     [(d, np.shape(exact))], f"{op} {p}")
                slack = np.abs(exact) * LD(2) ** -46 if d is F64 else 0
                if d is F64 and p and np.isfinite(p):   # the root multiplies the sum's relative error by 1 / p
                    slack = slack + ref.sum_slack(exact, max(count(shape, axes), 1), F64) / abs(p)
                if p == 1:
                    slack = ref.sum_slack(exact, max(count(shape, axes), 1), computed_in(d))
                ref.check(out.get(), exact, d, computed_in(d), ulps=2, slack=np.nan_to_num(slack), what=f"{op} {p}")
            each_case(self, op, CASES, body)

    def test_large_and_special(self):
        x = Tensor.of(F32, np.full(100, 1e30, np.float32))              # squares overflow float32, but not double
        out = Tensor.empty(F32, ())
        run("aclnnNorm", x, Scalar(2.0, F32), Ints(0), False, out)
        np.testing.assert_allclose(out.get(), 1e31, rtol=1e-6)
        code, message = refused("aclnnNorm", x, Scalar(np.nan, F32), Ints(0), False, out)
        assert code == INVALID and "pScalar" in message, message

    def test_log_sum_exp(self):
        def body(gen):
            d = gen.pick(FLOATS64)
            shape = reducible(gen)
            x = limited(gen, d, shape, limit=500 if gen.chance(0.5) else 5)
            if gen.chance(0.4) and x.size:
                odd = gen.rng.choice([np.inf, -np.inf, -np.inf, np.nan], shape)
                x = gen.tensor(d, shape, np.where(gen.rng.random(shape) < 0.3, odd, x.get()))
            dims, axes = pick_dims(gen, len(shape))
            keep = gen.chance(0.5)
            v = x.get().astype(LD)
            if count(shape, axes):
                top = np.max(v, axes, keepdims=True)
                finite = np.where(np.isfinite(top), top, 0)
                exact = np.log(np.sum(np.exp(v - finite), axes, keepdims=True)) + finite
                exact = exact if keep else exact.squeeze(axes)
            else:
                exact = np.full_like(v.sum(axes, keepdims=keep), -np.inf)
            out = self.run_twice(gen, "aclnnLogSumExp", x, lambda o: (Ints(*dims), keep, *o), [(d, np.shape(exact))],
                                 "aclnnLogSumExp")
            slack = (1 + np.abs(np.nan_to_num(exact, posinf=0, neginf=0))) * LD(2) ** (-30 if d is not F64 else -47)
            ref.check(out.get(), exact, d, computed_in(d), ulps=1, slack=slack)
        each_case(self, "aclnnLogSumExp", CASES, body)


class Moments(SameBits, unittest.TestCase):
    OPS = (("aclnnVar", False, False), ("aclnnVarCorrection", False, False), ("aclnnStd", True, False),
           ("aclnnVarMean", False, True), ("aclnnStdMeanCorrection", True, True))

    def test_moments(self):
        for op, root, has_mean in self.OPS:
            def body(gen, op=op, root=root, has_mean=has_mean):
                d = gen.pick(FLOATS64)
                shape = reducible(gen)
                x = limited(gen, d, shape)
                offset = gen.pick((0, 0, 1e4, -3e5)) if d in (F32, F64) else 0    # the mean may be far from 0
                if offset:
                    x = gen.tensor(d, shape, x.get() + offset)
                dims, axes = pick_dims(gen, len(shape))
                keep = gen.chance(0.5)
                correction = gen.integer(0, 1) if op == "aclnnVar" else gen.integer(0, 3)
                n = count(shape, axes)
                v = x.get().astype(LD)
                mean = v.sum(axes, LD, keepdims=True) / LD(n)
                exact = ((v - mean) ** 2).sum(axes, LD, keepdims=keep) / LD(max(n - correction, 0))
                exact = np.sqrt(exact) if root else exact
                mean = mean if keep else mean.squeeze(axes)
                arg = bool(correction) if op == "aclnnVar" else correction
                dims_arg = Ints(*dims)
                got = self.run_twice(gen, op, x, lambda o: (dims_arg, arg, keep, *o),
                                     [(d, np.shape(exact))] * (1 + has_mean), op)
                # The estimate of the mean is off by about 2^-20 of it. The square of that error is subtracted again to
                # within 2^-52, which is 2^-46 of the root.
                absolute = LD(2) ** (-46 if root else -48) * np.abs(v[np.isfinite(v)]).max(initial=0)
                relative = LD(2) ** -44 * np.abs(exact) + absolute
                var = got[0] if has_mean else got
                ref.check(var.get(), exact, d, computed_in(d), ulps=1, slack=np.nan_to_num(relative), what=op)
                if has_mean:
                    size = np.abs(v).sum(axes, LD, keepdims=keep) / LD(max(n, 1))
                    ref.check(got[1].get(), mean, d, computed_in(d), ulps=1, slack=size * LD(2) ** -45)
            each_case(self, op, CASES // 2, body)

    def test_constant(self):
        x, out = Tensor.of(F32, np.full(5000, 12345.678, np.float32)), Tensor.empty(F32, ())
        run("aclnnVarCorrection", x, None, 1, False, out)                  # no dims: all axes
        assert out.get() == 0, out.get()


class Clients(unittest.TestCase):
    def test_scalar_with_a_dimension(self):
        """ggml's loss: everything is summed into a vector of one element."""
        x = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
        out = Tensor.empty(F32, (1,))
        run("aclnnReduceSum", Tensor.of(F32, x), Ints(0, 1, 2, 3), False, F32, out)
        self.assertEqual(out.get()[0], x.sum())


class Errors(unittest.TestCase):
    def test_messages(self):
        x = Tensor.of(F32, np.zeros((2, 3), np.float32))
        complex_x = Tensor.of(C64, np.zeros((2, 3), np.complex64))
        out, empty = Tensor.empty(F32, (2,)), Tensor.of(F32, np.zeros((2, 0), np.float32))
        i, none, no_out = Tensor.of(I32, [[0], [0]]), Tensor.empty(F32, (0, 0)), Tensor.empty(F32, (0,))
        for words, op, *args in (
                (("dims is 5", "-2 to 1"), "aclnnReduceSum", x, Ints(5), False, F32, out),
                (("dims has -1 twice",), "aclnnReduceSum", x, Ints(1, -1), False, F32, out),
                (("dtype is FLOAT16", "FLOAT"), "aclnnReduceSum", x, Ints(1), False, F16, out),
                (("out has shape [2]", "[2, 1]"), "aclnnAmax", x, Ints(1), True, out),
                (("self has shape [2, 0]", "one element"), "aclnnAmax", empty, Ints(1), False, out),
                (("self has shape [2, 0]", "one element"), "aclnnMaxDim", empty, 1, False, out,
                 Tensor.empty(I64, (2,))),
                (("indices has dtype FLOAT", "INT32"), "aclnnMaxDim", x, 1, False, out, Tensor.empty(F32, (2,))),
                (("out has dtype INT32", "BOOL"), "aclnnAny", x, Ints(1), False, Tensor.empty(I32, (2,))),
                (("self has shape [2]", "2 dimensions"), "aclnnTrace", out, Tensor.empty(F32, ())),
                (("out has dtype FLOAT", "complex"), "aclnnReduceSum", complex_x, Ints(1), False, F32, out),
                (("out has dtype FLOAT", "complex"), "aclnnProd", complex_x, F32, Tensor.empty(F32, ())),
                (("out has dtype INT32", "FLOAT can be cast"), "aclnnMean", x, Ints(1), False, I32,
                 Tensor.empty(I32, (2,))),
                (("self has dtype COMPLEX64",), "aclnnReduceNansum", complex_x, Ints(1), False, C64,
                 Tensor.empty(C64, (2,))),
                *((("self has no element",), op, Tensor.empty(C64, (2, 0)), *args) for op, *args in (
                    ("aclnnMean", Ints(1), False, C64, Tensor.empty(C64, (2,))),
                    ("aclnnReduceSum", Ints(1), False, C64, Tensor.empty(C64, (2,))),
                    ("aclnnProd", C64, Tensor.empty(C64, ())),
                    ("aclnnProdDim", 1, False, C64, Tensor.empty(C64, (2,))))),
                (("dtype is FLOAT", "out's INT32"), "aclnnMean", i, Ints(1), False, F32, Tensor.empty(I32, (2,))),
                (("dtype is INT32", "self's FLOAT"), "aclnnMean", x, Ints(1), False, I32, out),
                (("dtype is BOOL",), "aclnnMean", Tensor.of(BOOL, [[1], [1]]), Ints(1), False, BOOL, out),
                *((("out has dtype", "FLOAT can be cast"), "aclnnReduceNansum", x, Ints(1), False, d,
                   Tensor.empty(d, (2,))) for d in (I32, I64, I8)),
                (("out has dtype FLOAT", "INT64"), "aclnnTrace", i, Tensor.empty(F32, ())),
                (("out has dtype FLOAT16", "FLOAT"), "aclnnTrace", x, Tensor.empty(F16, ())),
                *((("self has shape [0, 0]", "one element"), op, none, *args) for op, *args in (
                    ("aclnnAmax", Ints(1), False, no_out), ("aclnnMaxV2", Ints(1), False, False, no_out),
                    ("aclnnAminmaxDim", 1, False, no_out, no_out))),
                (("meanOut has shape [3]",), "aclnnVarMean", x, Ints(1), 1, False, out, Tensor.empty(F32, (3,)))):
            code, message = refused(op, *args)
            assert code == INVALID and all(w in message for w in words), (op, code, message)

    def test_long(self):
        """Sums that several threads compute, over rows and over columns, have the same bits as in another layout."""
        v = np.random.default_rng(7).standard_normal((3, 700_000)).astype(np.float32)
        x, turned = Tensor.of(F32, v), Tensor(F32, v.shape, (1, 3)).set(v)
        out, other = Tensor.empty(F32, (3,)), Tensor.empty(F32, (3,))
        for op, args in (("aclnnReduceSum", (Ints(1), False, F32)), ("aclnnVarCorrection", (Ints(1), 1, False))):
            run(op, x, *args, out)
            run(op, turned, *args, other)
            ref.check_equal(other.bits(), out.bits(), op)

    def test_long_complex(self):
        rng = np.random.default_rng(8)
        v = np.exp(1j * rng.uniform(-np.pi, np.pi, (3, 200_000))).astype(np.complex64)
        x, turned = Tensor.of(C64, v), Tensor(C64, v.shape, (1, 3)).set(v)
        exact = v.astype(np.complex128)
        for op, args, expected in (("aclnnReduceSum", (Ints(1), False, C64), exact.sum(1)),
                                   ("aclnnProdDim", (1, False, C64), exact.prod(1))):
            out, other = Tensor.empty(C64, (3,)), Tensor.empty(C64, (3,))
            run(op, x, *args, out)
            run(op, turned, *args, other)
            ref.check_equal(other.bits(), out.bits(), op)
            np.testing.assert_allclose(out.get(), expected, rtol=1e-6, atol=1e-2 if op == "aclnnReduceSum" else 0)

    def test_rows_of_complex(self):
        """In a long row, real and imaginary parts are read together; in other rows, one after the other."""
        rng = np.random.default_rng(9)
        for n in (1, 40, 255, 256, 257, 1024, 1100, 2500):
            for d in (C64, C128):
                v = (rng.standard_normal((5, n)) + 1j * rng.standard_normal((5, n))).astype(d.values)
                results = []
                for x in (Tensor(d, v.shape), Tensor(d, v.shape, (n + 3, 1)), Tensor(d, v.shape, (2 * n, 2)),
                          Tensor(d, v.shape, (1, 5))):
                    out = Tensor.empty(d, (5,))
                    run("aclnnReduceSum", x.set(v), Ints(1), False, d, out)
                    results.append(out.bits())
                    ref.check_equal(results[-1], results[0], f"{n} of {d}, {x}")
                np.testing.assert_allclose(out.get(), v.astype(np.clongdouble).sum(1), rtol=0,
                                           atol=2e-4 if d is C64 else 1e-12)

    def test_no_outputs_of_nothing(self):
        """A reduction of empty rows is legal if there is no output either."""
        x, out = Tensor.of(F32, np.zeros((0, 0), np.float32)), Tensor.empty(F32, (0,))
        run("aclnnMaxDim", x, 1, False, out, Tensor.empty(I64, (0,)))


if __name__ == "__main__":
    unittest.main()
