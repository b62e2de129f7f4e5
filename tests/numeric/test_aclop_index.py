# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that MindSpore's ops and nn call: by index, along axes, sequences, norms and losses."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import NCHW, ND, NHWC, Host, Operand, execute
from dtypes import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, LD, U8
from gen import each_case

HALVES = (F32, F16, BF16)
INTEGERS = (I8, U8, I16, I32, I64)


def small(gen, d, shape, limit=4):
    return gen.values(d, shape, limit=limit)


def shape_of(gen, least=1, most=4, size=7):
    return tuple(gen.integer(1, size) for _ in range(gen.integer(least, most)))


def wide(o):
    return o.get().astype(LD)


class Scatters(unittest.TestCase):
    SLICES = {"ScatterUpdate": lambda y, i, v: y.__setitem__(i, v), "ScatterAdd": np.add.at,
              "ScatterSub": np.subtract.at, "ScatterMul": np.multiply.at}

    def slices(self, gen, name):
        d = gen.pick((*HALVES, I32))
        shape, at = shape_of(gen), shape_of(gen, 0, 3, 4)
        var, updates = (Operand.of(d, small(gen, d, s)) for s in (shape, at + shape[1:]))
        k = gen.pick((I32, I64))
        index = Operand.of(k, gen.rng.integers(0, shape[0], at).astype(k.values))
        exact, size = (f(var.get()).astype(LD if d is not I32 else np.int32) for f in (np.copy, np.abs))
        values = updates.get().astype(exact.dtype)
        flat, rows = index.get().reshape(-1), values.reshape(-1, *shape[1:])
        for i, v in zip(flat, rows):
            self.SLICES[name](exact, (int(i),), v)
            self.SLICES["ScatterMul" if name == "ScatterMul" else "ScatterAdd"](size, (int(i),), np.abs(v))
        out = gen.pick((var, Operand.empty(d, shape)))
        execute(name, [var, index, updates], [out], {"use_locking": False}, updated=[var] if out is var else [])
        if d is I32 or name == "ScatterUpdate":
            ref.check_equal(out.get(), exact)
        else:
            ref.check(out.get(), exact, d, slack=size * flat.size * 2.0 ** -23)

    def test_slices(self):
        for name in self.SLICES:
            each_case(self, name, 20, lambda g, n=name: self.slices(g, n))

    def slots(self, gen):
        d, shape = gen.pick((*HALVES, I32)), shape_of(gen)
        n, at = gen.integer(1, len(shape)), shape_of(gen, 1, 2, 5)
        k = gen.pick((I32, I64))
        index = np.stack([gen.rng.integers(0, m, at) for m in shape[:n]], -1).astype(k.values)
        x = Operand.of(d, small(gen, d, shape))
        updates = Operand.of(d, small(gen, d, at + shape[n:]))
        indices, y = Operand.of(k, index), Operand.empty(d, updates.shape)
        places = tuple(index.reshape(-1, n).T)
        execute("GatherNd", [x, indices], [y], {})
        ref.check_equal(y.get(), x.get()[tuple(np.moveaxis(index, -1, 0))])
        kind = LD if d is not I32 else np.int32
        rows = updates.get().reshape(-1, *shape[n:]).astype(kind)
        sums, size = np.zeros(shape, kind), np.zeros(shape, kind)
        np.add.at(sums, places, rows)
        np.add.at(size, places, np.abs(rows))
        for name, start in (("ScatterNd", 0), ("ScatterNdAdd", x.get().astype(kind))):
            out = Operand.empty(d, shape)
            inputs = [x, indices, updates] if name != "ScatterNd" else [indices, updates, Host(list(shape))]
            execute(name, inputs, [out], {})
            if d is I32:
                ref.check_equal(out.get(), sums + start)
            else:
                ref.check(out.get(), sums + start, d, slack=(size + np.abs(start)) * 2.0 ** -20)
        exact = x.get().copy()
        for i, v in zip(index.reshape(-1, n), updates.get().reshape(-1, *shape[n:])):
            exact[tuple(i)] = v
        execute("ScatterNdUpdate", [x, indices, updates], [x], {})
        ref.check_equal(x.get(), exact)

    def test_slots(self):
        each_case(self, "ScatterNd", 30, self.slots)
        one = Operand.of(F32, np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(AclError, r"y has shape \[2, 3\], expected \[2, 4\]"):
            execute("ScatterNd", [Operand.of(I32, np.zeros((2, 1), np.int32)), one, Host([2, 4])], [one], {})

    def segments(self, gen):
        d, shape, n = gen.pick((*HALVES, F64, *INTEGERS)), shape_of(gen), gen.integer(1, 6)
        at = shape[:gen.integer(1, len(shape))]
        ids = gen.rng.integers(-1, n, at).astype(np.int32)
        x = Operand.of(d, small(gen, d, shape))
        rest = shape[len(at):]
        kind = np.float64 if d in (*HALVES, F64) else d.values
        least, most = (np.iinfo(kind).min, np.iinfo(kind).max) if kind is not np.float64 else \
            (-self.largest(d), self.largest(d))
        for name, f, empty in (("Sum", np.add, 0), ("Prod", np.multiply, 1), ("Max", np.maximum, least),
                               ("Min", np.minimum, most)):
            exact, size = np.full((n, *rest), empty, kind), np.zeros((n, *rest))
            for i, v in zip(ids.reshape(-1), x.get().astype(kind).reshape(-1, *rest)):
                if i >= 0:
                    exact[i] = f(exact[i], v)
                    size[i] = size[i] + np.abs(v.astype(np.float64)) if name == "Sum" else np.abs(exact[i])
            y = Operand.empty(d, exact.shape)
            execute("UnsortedSegment" + name, [x, Operand.of(I32, ids), Host(n)], [y], {})
            if kind is not np.float64 or name in ("Max", "Min"):
                ref.check_equal(y.get().astype(kind), exact)
            else:
                ref.check(y.get(), exact, d, slack=size * x.get().size * 2.0 ** -22)

    @staticmethod
    def largest(d):
        return {F32: float(np.finfo(np.float32).max), F16: 65504.0, BF16: float.fromhex("0x1.fep127"),
                F64: np.finfo(np.float64).max}[d]

    def test_segments(self):
        with np.errstate(over="ignore"):
            each_case(self, "UnsortedSegment", 30, self.segments)


class Axes(unittest.TestCase):
    def test_products(self):
        def body(gen):
            d, shape = gen.pick(HALVES), shape_of(gen)
            axis = gen.integer(-len(shape), len(shape) - 1)
            x, y = Operand.of(d, small(gen, d, shape, 2)), Operand.empty(d, shape)
            exclusive, reverse = gen.chance(0.5), gen.chance(0.5)
            order = np.flip(wide(x), axis) if reverse else wide(x)
            exact = np.cumprod(order, axis)
            if exclusive:
                exact = np.concatenate([np.ones_like(np.take(exact, [0], axis)),
                                        np.delete(exact, -1, axis)], axis)
            execute("Cumprod", [x, Host(axis)], [y], {"exclusive": exclusive, "reverse": reverse})
            exact = np.flip(exact, axis) if reverse else exact
            ref.check(y.get(), exact, d, slack=np.abs(exact) * 2.0 ** -40)
        each_case(self, "Cumprod", 20, body)

    def test_padding(self):
        def body(gen):
            d, shape = gen.pick((*HALVES, I32)), shape_of(gen)
            pads = [(gen.integer(0, 3), gen.integer(0, 3)) for _ in shape]
            x = small(gen, d, shape)
            exact = np.pad(x, pads)
            y = Operand.empty(d, exact.shape)
            execute("Pad", [Operand.of(d, x), Host(pads)], [y], {})
            ref.check_equal(y.get(), exact)
        each_case(self, "Pad", 20, body)

    def test_blocks(self):
        def body(gen):
            d, b, last = gen.pick((F32, F16, I64, I8)), gen.integer(1, 3), gen.chance(0.5)
            n, c, h, w = (gen.integer(1, 5) for _ in range(4))
            x = small(gen, d, (n, h * b, w * b, c))
            deep = x.reshape(n, h, b, w, b, c).transpose(0, 1, 3, 2, 4, 5)
            inner = deep.transpose(0, 1, 2, 5, 3, 4).reshape(n, h, w, -1)
            deep = deep.reshape(n, h, w, -1)
            if not last:
                x, deep, inner = (np.ascontiguousarray(v.transpose(0, 3, 1, 2)) for v in (x, deep, inner))
            a = {"block_size": b, "data_format": "NHWC" if last else "NCHW"}
            y, back = Operand.empty(d, deep.shape), Operand.empty(d, x.shape)
            execute("SpaceToDepth", [Operand.of(d, x)], [y], a)
            ref.check_equal(y.get(), deep)
            execute("DepthToSpace", [y], [back], a)
            ref.check_equal(back.get(), x)
            execute("DepthToSpace", [Operand.of(d, inner)], [back], {**a, "mode": "CRD"})
            ref.check_equal(back.get(), x)
        each_case(self, "SpaceToDepth", 20, body)

    def test_reversed_sequences(self):
        def body(gen):
            d, shape = gen.pick((F32, F16, I64)), shape_of(gen, 2, 4)
            seq, batch = map(int, gen.rng.permutation(len(shape))[:2])
            x = small(gen, d, shape)
            lengths = gen.rng.integers(0, shape[seq] + 1, shape[batch])
            exact = np.moveaxis(x, (batch, seq), (0, 1)).copy()
            for row, n in zip(exact, lengths):
                row[:n] = row[:n][::-1].copy()
            y, k = Operand.empty(d, shape), gen.pick((I32, I64))
            execute("ReverseSequence", [Operand.of(d, x), Operand.of(k, lengths.astype(k.values))], [y],
                    {"seq_dim": seq, "batch_dim": batch})
            ref.check_equal(y.get(), np.moveaxis(exact, (0, 1), (batch, seq)))
        each_case(self, "ReverseSequence", 20, body)

    def test_normalised(self):
        def body(gen):
            d, shape = gen.pick((*HALVES, F64)), shape_of(gen)
            axes = tuple(int(i) for i in gen.rng.permutation(len(shape))[:gen.integer(1, len(shape))])
            eps = gen.pick((1e-4, 4.0))
            x, dy = (Operand.of(d, small(gen, d, shape)) for _ in range(2))
            y, dx = (Operand.empty(d, shape) for _ in range(2))
            norm = np.sqrt(np.maximum((wide(x) ** 2).sum(axes, keepdims=True), LD(np.float32(eps))))
            execute("L2Normalize", [x], [y], {"axis": axes, "eps": eps})
            ref.check(y.get(), wide(x) / norm, d, slack=np.abs(wide(x)) / norm * 2.0 ** -45)
            execute("L2NormalizeGrad", [x, y, dy], [dx], {"dim": axes, "eps": eps})
            products = wide(y) * wide(dy)
            exact = (wide(dy) - wide(y) * products.sum(axes, keepdims=True)) / norm
            size = (np.abs(wide(dy)) + np.abs(wide(y)) * np.abs(products).sum(axes, keepdims=True)) / norm
            ref.check(dx.get(), exact, d, slack=size * 2.0 ** -45)
        each_case(self, "L2Normalize", 20, body)

    def test_instances(self):
        def body(gen):
            d, last = gen.pick(HALVES), gen.chance(0.5)
            shape = (gen.integer(1, 3), *(gen.integer(2, 6) for _ in range(3)))
            axes, channels = ((1, 2), shape[3]) if last else ((2, 3), shape[1])
            own = gen.chance(0.5)                                # x has the format, and the attribute its default
            x = Operand.of(d, small(gen, d, shape), (NHWC if last else NCHW) if own else ND)
            gamma, beta = (Operand.of(d, small(gen, d, (channels,))) for _ in range(2))
            stats = gen.pick(((shape[0] * channels,), (shape[0], channels)))
            y, mean, variance = Operand.empty(d, shape), Operand.empty(d, stats), Operand.empty(d, stats)
            execute("InstanceNorm", [x, gamma, beta], [y, mean, variance],
                    {"data_format": "NHWC" if last or own else "NCHW", "epsilon": 1e-5})
            m, v = wide(x).mean(axes, keepdims=True), wide(x).var(axes, keepdims=True)
            along = (1, 1, 1, -1) if last else (1, -1, 1, 1)
            exact = (wide(x) - m) / np.sqrt(v + LD(1e-5)) * wide(gamma).reshape(along) + wide(beta).reshape(along)
            ref.check(y.get(), exact, d, slack=1e-4)
            ref.check(mean.get(), m.reshape(stats), d, slack=1e-5)
            ref.check(variance.get(), v.reshape(stats), d, slack=1e-5)
        each_case(self, "InstanceNorm", 20, body)


class Elements(unittest.TestCase):
    def test_quotients(self):
        def body(gen):
            d, shape = gen.pick(HALVES), shape_of(gen)
            a, b = (Operand.of(d, small(gen, d, shape)) for _ in range(2))
            b.storage.set(np.where(b.get() == 0, b.get().dtype.type(1), b.get()))
            zeros = Operand.of(d, np.where(gen.rng.random(shape) < 0.5, a.get(), a.get().dtype.type(0)))
            y = Operand.empty(d, shape)
            execute("Xdivy", [zeros, b], [y], {})
            ref.check(y.get(), wide(zeros) / wide(b), d)
            execute("Xdivy", [zeros, Operand.of(d, 0 * a.get())], [y], {})
            self.assertTrue((y.get()[zeros.get() == 0] == 0).all())
            positive = Operand.of(d, np.abs(b.get()))
            execute("Xlogy", [zeros, positive], [y], {})
            exact = wide(zeros) * np.log(wide(positive))
            ref.check(y.get(), exact, d, slack=np.abs(wide(zeros)) * 1e-6)
            close, near = Operand.empty(BOOL, shape), Operand.of(d, a.get() + a.get().dtype.type(0.125))
            execute("ApproximateEqual", [a, near], [close], {"tolerance": 0.25})
            exact = np.abs(a.get().astype(np.float32) - near.get().astype(np.float32)) < 0.25
            ref.check_equal(close.get(), exact)
            for k in (I32, I64):
                m, n = gen.values(k, shape), gen.values(k, shape)
                n = np.where(n == 0, k.values.type(3), np.where(n == -1, k.values.type(2), n))
                whole, z = [Operand.of(k, m), Operand.of(k, n)], Operand.empty(k, shape)
                quotient = np.floor_divide(m, n)
                truncated = quotient + ((m - quotient * n != 0) & ((m < 0) != (n < 0)))
                for name, exact in (("FloorDiv", quotient), ("TruncateDiv", truncated),
                                    ("TruncateMod", m - truncated * n)):
                    execute(name, whole, [z], {})
                    ref.check_equal(z.get(), exact)
        each_case(self, "TruncateDiv", 20, body)

    def test_sequences(self):
        def body(gen):
            n, start, step = gen.integer(1, 2000), gen.integer(-50, 50), gen.pick((-3, -1, 1, 2, 7))
            d = gen.pick((I32, I64, F32))
            y = Operand.empty(d, (n,))
            numbers = [Operand.of(d, np.array(v, d.values)) for v in (start, start + n * step, step)]
            execute("Range", numbers, [y], {})
            ref.check_equal(y.get(), start + np.arange(n) * step)
            k = gen.pick(HALVES)
            ends = [Operand.of(k, np.array(small(gen, k, ()), k.values)) for _ in range(2)]
            y, (a, b) = Operand.empty(k, (n,)), (wide(v) for v in ends)
            execute("LinSpace", [*ends, Operand.of(I64, np.array(n))], [y], {})
            exact = a + (b - a) * np.arange(n) / max(n - 1, 1)
            ref.check(y.get(), exact, k, slack=(abs(a) + abs(b)) * 2.0 ** -45)
        each_case(self, "Range", 20, body)

    def test_losses(self):
        def body(gen):
            d, shape, log = gen.pick(HALVES), shape_of(gen), gen.chance(0.3)
            x = Operand.of(d, small(gen, d, shape))
            t = small(gen, d, shape)
            t = Operand.of(d, t if log else np.abs(t) + t.dtype.type(0.0625))
            each = np.exp(wide(t)) * (wide(t) - wide(x)) if log else wide(t) * (np.log(wide(t)) - wide(x))
            slope = -np.exp(wide(t)) if log else -wide(t)
            for reduction, by in (("none", 0), ("mean", each.size), ("sum", 1), ("batchmean", shape[0])):
                a = {"reduction": reduction, "log_target": log}
                exact = each.sum() / by if by else each
                y, dx = Operand.empty(d, exact.shape), Operand.empty(d, shape)
                slack = np.abs(each).sum() / by if by else np.abs(each)
                slack = slack + (np.abs(slope * wide(x)).max() + 1) * each.size
                execute("KLDiv", [x, t], [y], a)
                ref.check(y.get(), exact, d, slack=slack * 1e-6)
                g = Operand.of(d, small(gen, d, exact.shape))
                execute("KlDivLossGrad", [g, x, t], [dx], a)
                ref.check(dx.get(), slope * wide(g) / max(by, 1), d, ulps=4, slack=1e-6 * np.abs(slope * wide(g)))
        each_case(self, "KLDiv", 20, body)

    def test_ranks_and_squares(self):
        def body(gen):
            d, n, c, k = gen.pick(HALVES), gen.integer(1, 20), gen.integer(1, 900), gen.integer(1, 9)
            x = Operand.of(d, small(gen, d, (n, c)))
            targets, y = gen.rng.integers(-1, c + 1, n).astype(np.int32), Operand.empty(BOOL, (n,))
            execute("InTopKD", [x, Operand.of(I32, targets)], [y], {"k": k})
            logits = x.get().astype(np.float32)
            ref.check_equal(y.get(), [0 <= t < c and (row > row[t]).sum() < k if 0 <= t < c else False
                                      for row, t in zip(logits, targets)])
            other, sums = Operand.of(d, small(gen, d, shape_of(gen))), [Operand.empty(d, ()) for _ in range(2)]
            execute("SquareSumAll", [x, other], sums, {})
            for got, of in zip(sums, (x, other)):
                exact = (wide(of) ** 2).sum()
                ref.check(got.get(), exact, d, slack=exact * 1e-6)
        each_case(self, "InTopKD", 20, body)


class Lamb(unittest.TestCase):
    def body(self, gen):
        d, shape = gen.pick((F32, F16)), shape_of(gen, 0, 3, 30)
        g, v, m, w = (Operand.of(d, small(gen, d, shape, 2)) for _ in range(4))
        v.storage.set(np.abs(v.get()))
        given = (0.9, 0.1, 0.99, 0.01, 1e-3, float(gen.integer(1, 5)), float(gen.integer(0, 1)), 0.02)
        numbers = [Operand.of(F32, np.array([x], np.float32)) for x in given]
        beta1, new1, beta2, new2, eps, steps, uses, decay = (LD(n.get()[0]) for n in numbers)
        wide_v, wide_m = beta2 * wide(v) + new2 * wide(g) ** 2, beta1 * wide(m) + new1 * wide(g)
        exact = wide_m / (1 - beta1 ** steps) / (np.sqrt(wide_v / (1 - beta2 ** steps)) + eps) + uses * decay * wide(w)
        update = Operand.empty(d, shape)
        execute("LambApplyOptimizerAssign", [g, v, m, w, *numbers], [update, v, m], {})
        for got, e in ((update, exact), (v, wide_v), (m, wide_m)):
            ref.check(got.get(), e, d, slack=2e-5 * (1 + np.abs(e)))
        norms = [Operand.of(F32, np.array([x], np.float32)) for x in (gen.pick((0.0, 3.0)), gen.pick((0.0, 2.0)), 0.1)]
        a, b, lr = (LD(n.get()[0]) for n in norms)
        exact = wide(w) - lr * (a / b if a > 0 and b > 0 else 1) * wide(update)
        execute("LambApplyWeightAssign", [*norms, update, w], [w], {})
        ref.check(w.get(), exact, d, slack=2e-5 * (1 + np.abs(exact)))

    def test_steps(self):
        each_case(self, "Lamb", 20, self.body)


if __name__ == "__main__":
    unittest.main()
