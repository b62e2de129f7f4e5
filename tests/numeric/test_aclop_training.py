# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that MindSpore trains with: assignments, biases, losses, windows, norms, dropout, steps of
optimisers."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import NCHW, Host, Missing, Operand, execute
from dtypes import BF16, F16, F32, I32, I64, LD, U8
from gen import each_case

HALVES = (F32, F16, BF16)


def values_of(gen, d, shape):
    return gen.values(d, shape, limit=4)


def numbers(*values):
    return [Operand.of(F32, np.array([v], np.float32)) for v in values]


class Assignments(unittest.TestCase):
    def test_assign(self):
        def body(gen):
            d, shape = gen.pick((F32, F16, I64, I32)), tuple(gen.integer(1, 9) for _ in range(gen.integer(0, 4)))
            a, b = Operand.of(d, gen.values(d, shape)), Operand.of(d, gen.values(d, shape))
            execute("Assign", [a, b], [a], {})
            ref.check_equal(a.get(), b.get())
            moved = Operand.empty(d, shape)
            execute("TensorMove", [a], [moved], {})
            ref.check_equal(moved.get(), b.get())
        each_case(self, "Assign", 20, body)

    def test_sums_in_place(self):
        a = np.arange(6, dtype=np.int32)
        for name, f in (("AssignAdd", np.add), ("AssignSub", np.subtract)):
            x = Operand.of(I32, a)
            execute(name, [x, Operand.of(I32, np.full(6, 3, np.int32))], [x], {"use_locking": False})
            ref.check_equal(x.get(), f(a, 3))

    def test_sum_of_many(self):
        def body(gen):
            d, n = gen.pick(HALVES), gen.integer(1, 9)
            shape = tuple(gen.integer(1, 40) for _ in range(gen.integer(1, 3)))
            xs = [Operand.of(d, values_of(gen, d, shape)) for _ in range(n)]
            y = Operand.empty(d, shape)
            execute("AddN", xs, [y], {"N": n})
            exact = sum(x.get().astype(LD) for x in xs)
            ref.check(y.get(), exact, d, slack=sum(np.abs(x.get()).astype(LD) for x in xs) * n * 2.0 ** -24)
        each_case(self, "AddN", 20, body)

    def test_ones(self):
        for d in (*HALVES, I64):
            y = Operand.empty(d, (3, 70))
            execute("OnesLike", [Operand.of(d, np.zeros((3, 70)).astype(d.values))], [y], {})
            ref.check_equal(y.get(), np.ones((3, 70)))


class Layers(unittest.TestCase):
    def test_bias(self):
        def body(gen):
            d, rank = gen.pick(HALVES), gen.integer(2, 4)
            shape = tuple(gen.integer(1, 12) for _ in range(rank))
            layout = gen.pick(("NCHW", "NHWC"))
            axis = 1 if layout == "NCHW" else rank - 1
            x, b = Operand.of(d, values_of(gen, d, shape)), Operand.of(d, values_of(gen, d, shape[axis:axis + 1]))
            y, db = Operand.empty(d, shape), Operand.empty(d, b.shape)
            execute("BiasAdd", [x, b], [y], {"data_format": layout})
            aligned = b.get().astype(LD).reshape(-1, *[1] * (rank - 1 - axis))
            ref.check(y.get(), x.get().astype(LD) + aligned, d)
            execute("BiasAddGrad", [x], [db], {"data_format": layout})
            others = tuple(i for i in range(rank) if i != axis)
            ref.check(db.get(), x.get().astype(LD).sum(others), d,
                      slack=np.abs(x.get()).astype(LD).sum(others) * 40 * 2.0 ** -24)
        each_case(self, "BiasAdd", 30, body)
        x = Operand.of(F32, np.ones((2, 3, 4), np.float32))
        with self.assertRaisesRegex(AclError, r"bias has shape \[4\], expected \[3\]"):
            execute("BiasAdd", [x, Operand.of(F32, np.ones(4, np.float32))], [x], {"data_format": "NCHW"})

    def test_elu(self):
        x = np.linspace(-5, 5, 101, dtype=np.float32)
        y, dx = Operand.empty(F32, x.shape), Operand.empty(F32, x.shape)
        execute("Elu", [Operand.of(F32, x)], [y], {"alpha": 1.0})
        exact = np.where(x > 0, x, np.expm1(x.astype(LD)))
        ref.check(y.get(), exact, F32, ulps=4)
        g = np.arange(101, dtype=np.float32)
        execute("EluGrad", [Operand.of(F32, g), Operand.of(F32, y.get())], [dx], {})
        ref.check(dx.get(), g * np.where(y.get() > 0, 1, y.get().astype(LD) + 1), F32, ulps=4)

    def test_inverse_and_remainder(self):
        def body(gen):
            d, shape = gen.pick(HALVES), tuple(gen.integer(1, 9) for _ in range(gen.integer(1, 4)))
            x1, x2 = values_of(gen, d, shape), values_of(gen, d, shape)
            x2 = np.where(np.abs(x2) < 0.25, x2.dtype.type(1), x2)
            y = Operand.empty(d, shape)
            execute("Inv", [Operand.of(d, x2)], [y], {})
            ref.check(y.get(), 1 / x2.astype(LD), d, ulps=4)
            whole = [Operand.of(I32, gen.values(I32, shape)) for _ in range(2)]
            whole[1].storage.set(np.where(whole[1].get() == 0, 3, whole[1].get()).astype(np.int32))
            z = Operand.empty(I32, shape)
            execute("FloorMod", whole, [z], {})
            ref.check_equal(z.get(), np.mod(whole[0].get(), whole[1].get()))
            execute("FloorMod", [Operand.of(d, x1), Operand.of(d, x2)], [y], {})
            exact = np.mod(x1.astype(LD), x2.astype(LD))
            ref.check(y.get(), exact, d, slack=0)
        each_case(self, "FloorMod", 20, body)

    def test_diagonal_of_a_matrix(self):
        def body(gen):
            d, n = gen.pick((*HALVES, I64, I32)), gen.integer(1, 40)
            x = gen.values(d, (n, n))
            y = Operand.empty(d, (n,))
            execute("DiagPart", [Operand.of(d, x)], [y], {})
            ref.check_equal(y.get(), np.diagonal(x))
        each_case(self, "DiagPart", 20, body)

    def test_layer_norm(self):
        def body(gen):
            d, rank = gen.pick(HALVES), gen.integer(2, 4)
            shape = tuple(gen.integer(2, 20) for _ in range(rank))
            axis, eps = gen.integer(1, rank - 1), 1e-5
            inner, axes = shape[axis:], tuple(range(axis, rank))
            outer = shape[:axis] + (1,) * len(inner)
            x, dy = (Operand.of(d, values_of(gen, d, shape)) for _ in range(2))
            gamma, beta = (Operand.of(d, values_of(gen, d, inner)) for _ in range(2))
            y, mean, variance = Operand.empty(d, shape), Operand.empty(F32, outer), Operand.empty(F32, outer)
            a = {"begin_norm_axis": axis, "begin_params_axis": axis, "epsilon": eps}
            execute("LayerNorm", [x, gamma, beta], [y, mean, variance], a)
            wide = x.get().astype(LD)
            m, v = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
            normed = (wide - m) / np.sqrt(v + eps)
            ref.check(y.get(), normed * gamma.get() + beta.get(), d, slack=1e-4)
            ref.check(mean.get(), m, F32, slack=1e-5)
            ref.check(variance.get(), v, F32, slack=1e-5 * (1 + v))
            dx, dgamma, dbeta = Operand.empty(d, shape), Operand.empty(d, inner), Operand.empty(d, inner)
            execute("LayerNormGrad", [dy, x, variance, mean, gamma], [dx, dgamma, dbeta], a)
            grad, rows = dy.get().astype(LD), tuple(range(axis))
            scaled = grad * gamma.get()
            exact = (scaled - scaled.mean(axes, keepdims=True) -
                     normed * (scaled * normed).mean(axes, keepdims=True)) / np.sqrt(v + eps)
            ref.check(dx.get(), exact, d, slack=2e-4 * (1 + np.abs(exact).max()))
            ref.check(dgamma.get(), (grad * normed).sum(rows), d, slack=2e-3)
            ref.check(dbeta.get(), grad.sum(rows), d, slack=1e-3)
        each_case(self, "LayerNorm", 20, body)

    def test_embedding(self):
        def body(gen):
            d, n, width = gen.pick(HALVES), gen.integer(1, 30), gen.integer(1, 40)
            table = Operand.of(d, values_of(gen, d, (n, width)))
            index = np.random.default_rng(gen.integer(0, 999)).integers(0, n, (gen.integer(1, 5), gen.integer(1, 9)))
            ids = Operand.of(I32, index.astype(np.int32))
            y = Operand.empty(d, (*index.shape, width))
            execute("GatherV2", [table, ids, Host(0)], [y], {"batch_dims": 0})
            ref.check_equal(y.get(), table.get()[index])
            sums = Operand.empty(d, (n + 2, width))
            execute("UnsortedSegmentSum", [y, ids, Host(n + 2)], [sums], {})
            exact, size = np.zeros((n + 2, width), LD), np.zeros((n + 2, width), LD)
            np.add.at(exact, index, y.get().astype(LD))
            np.add.at(size, index, np.abs(y.get()).astype(LD))
            ref.check(sums.get(), exact, d, slack=size * 50 * 2.0 ** -24)
        each_case(self, "GatherV2", 20, body)
        ids, out = Operand.of(I32, np.array([0, -1, 3], np.int32)), Operand.empty(I64, (2,))
        execute("UnsortedSegmentSum", [Operand.of(I64, np.array([5, 6, 7])), ids, Host(2)], [out], {})
        ref.check_equal(out.get(), [5, 0])  # ids out of range are dropped


class Losses(unittest.TestCase):
    def test_one_hot(self):
        index = np.array([[0, 2, 5], [1, 1, 9]], np.int32)
        for axis in (-1, 0, 1):
            shape = [2, 3]
            shape.insert(axis if axis >= 0 else 2, 6)
            y = Operand.empty(F32, shape)
            execute("OneHot", [Operand.of(I32, index), Operand.of(I64, np.array(6)), *numbers(2, -1)], [y],
                    {"axis": axis})
            exact = np.where(np.arange(6) == index[..., None], 2, -1)
            ref.check_equal(y.get(), np.moveaxis(exact, -1, axis))

    def test_softmax_cross_entropy(self):
        def body(gen):
            d, n, k = gen.pick(HALVES), gen.integer(1, 20), gen.integer(2, 30)
            x = Operand.of(d, values_of(gen, d, (n, k)))
            labels = np.eye(k)[np.random.default_rng(gen.integer(0, 999)).integers(0, k, n)]
            t = Operand.of(d, labels.astype(d.values))
            loss, grad = Operand.empty(d, (n,)), Operand.empty(d, (n, k))
            execute("SoftmaxCrossEntropyWithLogits", [x, t], [loss, grad], {})
            wide = x.get().astype(LD)
            wide -= wide.max(1, keepdims=True)
            logs = wide - np.log(np.exp(wide).sum(1, keepdims=True))
            ref.check(loss.get(), -(labels * logs).sum(1), d, slack=1e-5)
            ref.check(grad.get(), np.exp(logs) - labels, d, slack=1e-5)
        each_case(self, "SoftmaxCrossEntropyWithLogits", 20, body)


class Windows(unittest.TestCase):
    @staticmethod
    def places(n, kernel, stride, same):
        """(inputs, for each window) along an axis"""
        out = -(-n // stride) if same else (n - kernel) // stride + 1
        pad = max(0, (out - 1) * stride + kernel - n) // 2 if same else 0
        return [[i for i in range(o * stride - pad, o * stride - pad + kernel) if 0 <= i < n] for o in range(out)]

    def body(self, gen):
        d, same = gen.pick(HALVES), gen.chance(0.5)
        kernel, stride = ([gen.integer(1, 4) for _ in range(2)] for _ in range(2))
        shape = (gen.integer(1, 3), gen.integer(1, 4), *(gen.integer(k, 12) for k in kernel))
        a = {"ksize": (1, 1, *kernel), "strides": (1, 1, *stride), "padding": ("VALID", "SAME")[same],
             "data_format": "NCHW"}
        rows, columns = (self.places(shape[2 + i], kernel[i], stride[i], same) for i in range(2))
        x = Operand.of(d, values_of(gen, d, shape), NCHW)
        wide = x.get().astype(LD)
        out = (*shape[:2], len(rows), len(columns))
        most, mean, grad = np.zeros(out, LD), np.zeros(out, LD), Operand.of(d, values_of(gen, d, out), NCHW)
        dmost, dmean, size = (np.zeros(shape, LD) for _ in range(3))
        for r, rs in enumerate(rows):
            for c, cs in enumerate(columns):
                block = wide[:, :, rs[0]:rs[-1] + 1, cs[0]:cs[-1] + 1].reshape(*shape[:2], -1)
                most[:, :, r, c], mean[:, :, r, c] = block.max(-1), block.mean(-1)
                g = grad.get()[:, :, r, c].astype(LD)
                at = block.argmax(-1)
                for n, k in np.ndindex(*shape[:2]):
                    place = (n, k, rs[at[n, k] // len(cs)], cs[at[n, k] % len(cs)])
                    dmost[place] += g[n, k]
                    size[place] += abs(g[n, k])
                dmean[:, :, rs[0]:rs[-1] + 1, cs[0]:cs[-1] + 1] += (g / (len(rs) * len(cs)))[..., None, None]
        y, average = Operand.empty(d, out, NCHW), Operand.empty(d, out, NCHW)
        execute("MaxPool", [x], [y], a)
        ref.check_equal(y.get(), most)
        execute("AvgPool", [x], [average], a)
        ref.check(average.get(), mean, d, slack=1e-5)
        dx, da = Operand.empty(d, shape, NCHW), Operand.empty(d, shape, NCHW)
        execute("MaxPoolGrad", [x, y, grad], [dx], a)
        ref.check(dx.get(), dmost, d, slack=size * 1e-6)
        execute("AvgPoolGrad", [Host(shape, np.int32), grad], [da], a)
        ref.check(da.get(), dmean, d, slack=1e-4)

    def test_windows(self):
        each_case(self, "windows", 30, self.body)

    def test_errors(self):
        x, y = Operand.of(F32, np.ones((1, 1, 4, 4), np.float32), NCHW), Operand.empty(F32, (1, 1, 2, 2), NCHW)
        a = {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "padding": "VALID", "data_format": "NCHW"}
        for change, words in (({"padding": "EQUAL"}, "padding is \"EQUAL\""),
                              ({"data_format": "NHWC"}, "expected NCHW"),
                              ({"ksize": (1, 1, 5, 2)}, "ksize is 5 along an axis of 4"),
                              ({"strides": (1, 2, 2, 2)}, "strides has 4 elements")):
            with self.assertRaisesRegex(AclError, words):
                execute("MaxPool", [x], [y], {**a, **change})


class Dropout(unittest.TestCase):
    def test_masks(self):
        n = 100_000
        masks = []
        for _ in range(2):
            mask = Operand.empty(U8, ((n + 127) // 128 * 16,))
            execute("DropOutGenMask", [Host([10, n // 10]), *numbers(0.7)], [mask], {"seed": 3, "seed2": 5})
            masks.append(np.unpackbits(mask.get(), bitorder="little")[:n])
            self.assertAlmostEqual(masks[-1].mean(), 0.7, delta=0.01)
        self.assertNotEqual(masks[0].tolist(), masks[1].tolist())
        x = np.random.default_rng(1).standard_normal((10, n // 10)).astype(np.float32)
        y = Operand.empty(F32, x.shape)
        execute("DropOutDoMask", [Operand.of(F32, x), mask, *numbers(0.7)], [y], {})
        ref.check(y.get(), x * masks[1].reshape(x.shape) / LD(np.float32(0.7)), F32, ulps=4)

    def test_all_or_nothing(self):
        for keep in (0, 1):
            mask = Operand.empty(U8, (16,))
            execute("DropOutGenMask", [Host([100]), *numbers(keep)], [mask], {})
            self.assertEqual(set(mask.get()), {255 * keep})


class Came(unittest.TestCase):
    """The parts of a step, each with operands of its own."""

    @staticmethod
    def setting(gen):
        """A dtype, a shape, and the global shape as an operand and as numbers."""
        shape = gen.integer(1, 70), gen.integer(1, 700)
        whole = tuple(n * gen.integer(1, 3) for n in shape)
        if gen.chance(0.5):
            return gen.pick(HALVES), shape, Missing(), shape
        return gen.pick(HALVES), shape, Operand.of(I64, np.array(whole)), whole

    @staticmethod
    def positive(gen, d, shape):
        x = values_of(gen, d, shape)
        return Operand.of(d, np.abs(x) + x.dtype.type(0.0625))

    @staticmethod
    def close(got, exact, d):
        ref.check(got.get(), exact, d, slack=np.abs(exact).max(initial=0) * 1e-6)

    def test_sums(self):
        def body(gen):
            d, shape, *_ = self.setting(gen)
            grad, eps = Operand.of(d, values_of(gen, d, shape)), numbers(0.5)[0]
            sums = [Operand.empty(F32, s) for s in (shape[:1], shape[1:], gen.pick(((), (1,))))]
            execute("ApplyCamePart1", [grad, eps], sums, {})
            x = grad.get().astype(LD) ** 2 + LD(0.5)
            for got, exact in zip(sums, (x.sum(1), x.sum(0), x.sum())):
                self.close(got, exact.reshape(got.shape), F32)
        each_case(self, "ApplyCamePart1", 20, body)
        x = Operand.of(F32, np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(AclError, r"sum_grad_c has shape \[2\], expected \[3\]"):
            execute("ApplyCamePart1", [x, *numbers(0)], [Operand.empty(F32, (n,)) for n in (2, 2, 1)], {})

    def averages(self, gen, d, shape, whole, sum_r, beta):
        """Operands r, c, their sums and the sum of those; and the new averages and their divisor."""
        old = [self.positive(gen, d, (n,)) for n in shape]
        sums = [self.positive(gen, F32, (n,)) for n in shape]
        total = self.positive(gen, F32, (1,))
        wide = [v.get().astype(LD) for v in (*old, *sums, total)]
        new = [beta * o + (1 - beta) * s / n for o, s, n in zip(wide, wide[2:], whole[::-1])]
        of_r = wide[0].sum() if isinstance(sum_r, Missing) else sum_r.get().astype(LD)
        return old, sums, total, new, beta * of_r / whole[0] + (1 - beta) * wide[4] / (whole[0] * whole[1])

    def test_direction(self):
        def body(gen):
            d, shape, given, whole = self.setting(gen)
            grad, beta = Operand.of(d, values_of(gen, d, shape)), numbers(0.75)[0]
            sum_r = gen.pick((Missing(), numbers(gen.integer(1, 50))[0]))
            old, sums, total, new, divisor = self.averages(gen, d, shape, whole, sum_r, LD(0.75))
            out = old if gen.chance(0.5) else [Operand.empty(d, (n,)) for n in shape]
            u, squares = Operand.empty(F32, shape), Operand.empty(F32, (1,))
            execute("ApplyCamePart2", [grad, *sums, total, *old, beta, sum_r, given], [*out, u, squares], {})
            for got, exact in zip(out, new):
                self.close(got, exact, d)
            r, c = (v.get().astype(LD) for v in out)
            exact = grad.get().astype(LD) / np.sqrt(r[:, None] * c / divisor)
            self.close(u, exact, F32)
            self.close(squares, (exact ** 2).sum().reshape(1), F32)
        each_case(self, "ApplyCamePart2", 20, body)

    def test_moment(self):
        def body(gen):
            d, shape, given, whole = self.setting(gen)
            u, m = Operand.of(F32, values_of(gen, F32, shape)), Operand.of(d, values_of(gen, d, shape))
            squares, uses = whole[0] * whole[1] * gen.pick((0.25, 3.0)), gen.chance(0.5)
            eps, beta, limit, squares = numbers(0.125, 0.75, 0.5, squares)
            out = m if gen.chance(0.5) else Operand.empty(d, shape)
            sums = [Operand.empty(F32, s) for s in (shape[:1], shape[1:], (1,))]
            scaled = u.get().astype(LD) / max(1, squares.get()[0] / (whole[0] * whole[1] * 0.5))
            old = m.get().astype(LD)
            moment = scaled * LD(0.25) + LD(0.75) * old
            execute("ApplyCamePart3", [u, m, eps, beta, limit, squares, given], [out, *sums],
                    {"use_first_moment": uses})
            x = (scaled - moment) ** 2 + LD(0.125)
            self.close(out, moment if uses else old, d)
            for got, exact in zip(sums, (x.sum(1), x.sum(0), x.sum().reshape(1))):
                self.close(got, exact, F32)
        each_case(self, "ApplyCamePart3", 20, body)

    def test_step(self):
        def body(gen):
            d, shape, given, whole = self.setting(gen)
            param, m = (Operand.of(d, values_of(gen, d, shape)) for _ in range(2))
            decay, lr, beta = numbers(0.25, 0.125, 0.5)
            sum_r = gen.pick((Missing(), numbers(gen.integer(1, 50))[0]))
            old, sums, total, new, divisor = self.averages(gen, d, shape, whole, sum_r, LD(0.5))
            before, to = param.get().astype(LD), gen.pick((param, Operand.empty(d, shape)))
            execute("ApplyCamePart4", [param, m, *old, decay, lr, beta, sum_r, *sums, total, given], [to, *old], {})
            for got, exact in zip(old, new):
                self.close(got, exact, d)
            r, c = (v.get().astype(LD) for v in old)
            exact = (1 - LD(0.25) * LD(0.125)) * before - LD(0.125) * m.get() / np.sqrt(r[:, None] * c / divisor)
            self.close(to, exact, d)
        each_case(self, "ApplyCamePart4", 20, body)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def nearest_places(size, out):
    return np.arange(out) * size // out


def linear_weights(size, out, align):
    """A matrix of the weights of `size` inputs for each of `out` outputs."""
    at = np.arange(out) * ((size - 1) / (out - 1) if align else size / out)
    at = np.clip(at if align else at + 0.5 * size / out - 0.5, 0, size - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(size)))


class Others(unittest.TestCase):
    """What MindSpore's nn and ops call beside the layers above."""
    # Of one operand, of a gradient and an operand, of a result and its gradient.
    FUNCTIONS = {
        "CeluV2": lambda x: np.where(x > 0, x, np.expm1(x)), "Relu6": lambda x: np.clip(x, 0, 6),
        "FastGelu": lambda x: x * sigmoid(LD(1.702) * x), "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
        "Softplus": lambda x: np.log1p(np.exp(x)), "Softsign": lambda x: x / (1 + abs(x)),
        "Relu6Grad": lambda g, x: g * ((x > 0) & (x < 6)), "SoftplusGrad": lambda g, x: g * sigmoid(x),
        "FastGeluGrad": lambda g, x: g * (sigmoid(LD(1.702) * x) + LD(1.702) * x * sigmoid(LD(1.702) * x) *
                                          sigmoid(LD(-1.702) * x)),
        "SqrtGrad": lambda y, g: g / 2 / y, "RsqrtGrad": lambda y, g: -g / 2 * y ** 3, "Atan2": np.arctan2,
    }

    def test_functions(self):
        def body(gen, name):
            f, d = self.FUNCTIONS[name], gen.pick(HALVES)
            shape = (gen.integer(1, 60), gen.integer(1, 9))
            xs = [values_of(gen, d, shape) for _ in range(f.__code__.co_argcount if name != "Atan2" else 2)]
            if name in ("SqrtGrad", "RsqrtGrad"):
                xs[0] = np.abs(xs[0]) + d.values.type(0.25)
            xs, y = [Operand.of(d, x) for x in xs], Operand.empty(d, shape)
            execute(name, xs, [y], {})
            exact = f(*(x.get().astype(LD) for x in xs))
            ref.check(y.get(), exact, d, ulps=4, slack=1e-6 * (1 + np.abs(exact)))
        for name in self.FUNCTIONS:
            with self.subTest(operator=name):
                each_case(self, name, 8, lambda gen, name=name: body(gen, name))

    def test_parts(self):
        x = np.arange(60, dtype=np.float32).reshape(4, 15)
        a = Operand.of(F32, x)
        parts = [Operand.empty(F32, (4, 5)) for _ in range(3)]
        execute("Split", [Host(1), a], parts, {"num_split": 3})
        for got, exact in zip(parts, np.split(x, 3, 1)):
            ref.check_equal(got.get(), exact)
        for axis in (0, 1, -1):
            packed = np.stack([x, x], axis)
            y = Operand.empty(F32, packed.shape)
            execute("Pack", [a, a], [y], {"axis": axis, "N": 2})
            ref.check_equal(y.get(), packed)
            halves = [Operand.empty(F32, x.shape) for _ in range(2)]
            execute("Unpack", [y], halves, {"axis": axis, "num": 2})
            for half in halves:
                ref.check_equal(half.get(), x)
        for name, f in (("Tril", np.tril), ("Triu", np.triu)):
            y = Operand.empty(F32, x.shape)
            execute(name, [a], [y], {"diagonal": 1})
            ref.check_equal(y.get(), f(x, 1))
        y = Operand.empty(F32, (15, 15))
        execute("Diag", [Operand.of(F32, x[1])], [y], {})
        ref.check_equal(y.get(), np.diag(x[1]))
        y = Operand.empty(F32, x.shape)
        execute("ZerosLike", [a], [y], {})
        ref.check_equal(y.get(), 0 * x)
        with self.assertRaisesRegex(AclError, "num_split is 4, expected a divisor of 15"):
            execute("Split", [Host(1), a], parts, {"num_split": 4})

    def test_gradient_of_a_slice(self):
        def body(gen):
            shape = tuple(gen.integer(1, 9) for _ in range(gen.integer(1, 4)))
            begin = [gen.integer(0, n - 1) for n in shape]
            end, step = [gen.integer(b + 1, n) for b, n in zip(begin, shape)], [gen.integer(1, 3) for _ in shape]
            shrink = gen.integer(0, 2 ** len(shape) - 1)
            index = tuple(b if shrink >> i & 1 else slice(b, n, s)
                          for i, (b, n, s) in enumerate(zip(begin, end, step)))
            d, exact = gen.pick((F32, F16)), np.zeros(shape, np.float32)
            dy = gen.values(d, np.zeros(shape)[index].shape)
            exact = exact.astype(dy.dtype)
            exact[index] = dy
            y = Operand.empty(d, shape)
            execute("StridedSliceGrad", [Host(list(shape)), Host(begin), Host(end), Host(step), Operand.of(d, dy)], [y],
                    {"shrink_axis_mask": shrink})
            ref.check_equal(y.get(), exact)
        each_case(self, "StridedSliceGrad", 40, body)

    def test_orders(self):
        x = np.random.default_rng(0).permutation(60).astype(np.float32).reshape(4, 15)
        a, order = Operand.of(F32, x), np.argsort(-x, 1)
        values, places = Operand.empty(F32, x.shape), Operand.empty(I32, x.shape)
        execute("Sort", [a], [values, places], {"axis": 1, "descending": True})
        ref.check_equal(values.get(), np.take_along_axis(x, order, 1))
        ref.check_equal(places.get(), order)
        for name in ("TopK", "TopKV2"):
            values, places = Operand.empty(F32, (4, 3)), Operand.empty(I32, (4, 3))
            execute(name, [a, Host(3)], [values, places], {"sorted": True})
            ref.check_equal(places.get(), order[:, :3])
        for name, f in (("ArgMaxV2", np.argmax), ("ArgMin", np.argmin)):
            y = Operand.empty(I32, (4,))
            execute(name, [a, Host(1)], [y], {"dtype": 3})
            ref.check_equal(y.get(), f(x, 1))
        for exclusive in (False, True):
            for reverse in (False, True):
                y, exact = Operand.empty(F32, x.shape), x[:, ::-1] if reverse else x
                exact = np.cumsum(exact, 1) - (exact if exclusive else 0)
                execute("Cumsum", [a, Host(1)], [y], {"exclusive": exclusive, "reverse": reverse})
                ref.check_equal(y.get(), exact[:, ::-1] if reverse else exact)
        std, mean = Operand.empty(F32, (4,)), Operand.empty(F32, (4,))
        execute("ReduceStd", [a], [std, mean], {"dim": [1], "unbiased": True, "keepdim": False})
        ref.check(std.get(), x.astype(LD).std(1, ddof=1), F32, slack=1e-5)
        ref.check(mean.get(), x.astype(LD).mean(1), F32, slack=1e-5)

    def test_scatter(self):
        x, index = np.zeros((3, 4), np.float32), np.array([[3, 1], [0, 2]], np.int32)
        for reduction in ("none", "add"):
            y, exact = Operand.empty(F32, x.shape), x + 1
            np.put_along_axis(exact[:2], index, 5 if reduction == "none" else 6, 1)
            execute("ScatterElements", [Operand.of(F32, x + 1), Operand.of(I32, index),
                                        Operand.of(F32, np.full((2, 2), 5, np.float32))], [y],
                    {"axis": 1, "reduction": reduction})
            ref.check_equal(y.get(), exact)
        with self.assertRaisesRegex(AclError, "reduction is \"max\""):
            execute("ScatterElements", [y, Operand.of(I32, index), Operand.of(F32, np.zeros((2, 2), np.float32))], [y],
                    {"axis": 1, "reduction": "max"})

    def test_resize(self):
        def body(gen):
            d = gen.pick((F32, F16))
            size, out = ([gen.integer(2, 9) for _ in range(2)] for _ in range(2))
            x, dy = gen.values(d, (2, 3, *size), limit=4), gen.values(d, (2, 3, *out), limit=4)
            y, dx = Operand.empty(d, dy.shape, NCHW), Operand.empty(d, x.shape, NCHW)
            gx, gdy = Operand.of(d, x, NCHW), Operand.of(d, dy, NCHW)
            align = gen.pick((False, True))
            if gen.pick((False, True)):
                w = [np.eye(n)[nearest_places(n, m)] for n, m in zip(size, out)]
                execute("ResizeNearestNeighborV2", [gx, Host(out)], [y], {})
                execute("ResizeNearestNeighborV2Grad", [gdy, Host(size)], [dx], {})
            else:
                w, a = [linear_weights(n, m, align) for n, m in zip(size, out)], {"align_corners": align}
                a["half_pixel_centers"] = not align
                execute("ResizeBilinearV2", [gx, Host(out)], [y], a)
                execute("ResizeBilinearV2Grad", [gdy, gx], [dx], a)
            ref.check(y.get(), np.einsum("nchw,ih,jw->ncij", x.astype(LD), *w), d, slack=2e-5)
            ref.check(dx.get(), np.einsum("ncij,ih,jw->nchw", dy.astype(LD), *w), d, slack=2e-4)
        each_case(self, "Resize", 30, body)

    def test_norm_of_vectors(self):
        x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
        one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
        sums, y = [Operand.of(F32, v) for v in (x.sum(0), (x * x).sum(0))], Operand.empty(F32, x.shape)
        outs = [Operand.empty(F32, (3,)) for _ in range(4)]
        execute("BNTrainingUpdate", [Operand.of(F32, x.reshape(5, 3, 1, 1), NCHW), *sums,
                                     *(Operand.of(F32, v) for v in (one, zero, zero, one))], [y, *outs],
                {"factor": 0.1, "epsilon": 1e-5})
        ref.check(y.get(), (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), F32, slack=1e-5)

    def test_unknown_attributes_are_ignored(self):
        x = np.arange(4, dtype=np.float32)
        y = Operand.empty(F32, x.shape)
        execute("Relu", [Operand.of(F32, x)], [y], {"nothing_like_it": 3})
        ref.check_equal(y.get(), x)


def momentum(s, g, lr, momentum, nesterov=False):
    s[1] = s[1] * momentum + g
    s[0] = s[0] - (lr * (g + momentum * s[1]) if nesterov else lr * s[1])


def sgd(s, g, lr, momentum, dampening=0, weight_decay=0, nesterov=False):
    g = g + weight_decay * s[0]
    s[1] = np.where(s[2] > 0, g, s[1] * momentum + (1 - dampening) * g)
    s[2] = 0 * s[2]
    s[0] = s[0] - lr * (g + momentum * s[1] if nesterov else s[1])


def adam(s, g, power1, power2, lr, beta1, beta2, eps, use_nesterov=False):
    s[1], s[2] = beta1 * s[1] + (1 - beta1) * g, beta2 * s[2] + (1 - beta2) * g * g
    m = beta1 * s[1] + (1 - beta1) * g if use_nesterov else s[1]
    s[0] = s[0] - lr * np.sqrt(1 - power2) / (1 - power1) * m / (np.sqrt(s[2]) + eps)


def rms(s, g, lr, rho, momentum, eps):
    s[1] = rho * s[1] + (1 - rho) * g * g
    s[2] = momentum * s[2] + lr * g / np.sqrt(s[1] + eps)
    s[0] = s[0] - s[2]


def adagrad(s, g, lr, update_slots=True):
    s[1] = s[1] + g * g * update_slots
    s[0] = s[0] - lr * g / np.sqrt(s[1])


def adagrad_v2(s, g, lr, epsilon, update_slots=True):
    s[1] = s[1] + g * g * update_slots
    s[0] = s[0] - lr * g / (np.sqrt(s[1]) + epsilon)


def adamax(s, g, power1, lr, beta1, beta2, eps):
    s[1], s[2] = beta1 * s[1] + (1 - beta1) * g, np.maximum(beta2 * s[2], np.abs(g))
    s[0] = s[0] - lr / (1 - power1) * s[1] / (s[2] + eps)


def ftrl(s, g, lr, l1, l2, power):
    total = s[1] + g * g
    s[2] = s[2] + g - (total ** -power - s[1] ** -power) / lr * s[0]
    s[0] = np.where(np.abs(s[2]) > l1, (np.sign(s[2]) * l1 - s[2]) / (total ** -power / lr + 2 * l2), 0)
    s[1] = total


def adadelta(s, g, lr, rho, eps):
    s[1] = rho * s[1] + (1 - rho) * g * g
    move = np.sqrt(s[2] + eps) / np.sqrt(s[1] + eps) * g
    s[0], s[2] = s[0] - lr * move, rho * s[2] + (1 - rho) * move * move


def proximal(s, g, lr, l1, l2):
    s[1] = s[1] + g * g
    rate = lr / np.sqrt(s[1])
    to = s[0] - rate * g
    s[0] = np.sign(to) * np.maximum(np.abs(to) - rate * l1, 0) / (1 + rate * l2)


def adam_decay(s, g, lr, beta1, new1, beta2, new2, decay, eps):
    s[1], s[0] = beta1 * s[1] + new1 * g, beta2 * s[0] + new2 * g * g
    s[2] = s[2] - lr * (decay * s[2] + s[1] / (np.sqrt(s[0]) + eps))


class Optimisers(unittest.TestCase):
    """order: of the inputs, "s" a state, "g" the gradient, "n" a number. outputs: which states are outputs."""
    ADAM = ("sssnnnnnng", (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3))
    RULES = {
        "ApplyMomentum": (momentum, "ssngn", (0.1, 0.9), (0,), ({}, {"use_nesterov": True})),
        "SGD": (sgd, "sgnsns", (0.1, 0.9), (0,),
                ({}, {"dampening": 0.1, "weight_decay": 0.01}, {"nesterov": True})),
        "ApplyAdam": (adam, *ADAM, (0,), ({},)),
        "ApplyAdamD": (adam, *ADAM, (0, 1, 2), ({}, {"use_nesterov": True})),
        "AdamApplyOneWithDecayAssign": (adam_decay, "gsssnnnnnnn", (0.1, 0.9, 0.1, 0.99, 0.01, 0.02, 1e-3), (0, 1, 2),
                                        ({},)),
        "ApplyRMSProp": (rms, "sssnnnng", (0.1, 0.9, 0.8, 1e-3), (0,), ({},)),
        "ApplyAdagradD": (adagrad, "ssng", (0.1,), (0, 1), ({}, {"update_slots": False})),
        "ApplyAdagradV2D": (adagrad_v2, "ssng", (0.1,), (0, 1),
                            ({"epsilon": 0.5}, {"epsilon": 0.25, "update_slots": False})),
        "ApplyAdaMaxD": (adamax, "sssnnnnng", (0.9, 0.1, 0.9, 0.99, 1e-3), (0, 1, 2), ({},)),
        "ApplyAdadeltaD": (adadelta, "sssnnng", (0.1, 0.9, 1e-3), (0, 1, 2), ({},)),
        "ApplyProximalAdagradD": (proximal, "ssnnng", (0.1, 0.2, 0.3), (0, 1), ({},)),
        "ApplyFtrl": (ftrl, "sssgnnnn", (0.1, 0.2, 0.3, -0.5), (0,), ({},)),
    }

    def body(self, gen, name):
        rule, order, given, outputs, variants = self.RULES[name]
        a, d = gen.pick(variants), gen.pick(HALVES)
        shape = tuple(gen.integer(1, 60) for _ in range(gen.integer(0, 3)))
        states = [Operand.of(d, np.abs(gen.values(d, shape, limit=2)) + d.values.type(0.5))
                  for _ in range(order.count("s"))]
        grad, ns = Operand.of(gen.pick((d, F32)), gen.values(F32, shape, limit=2)), numbers(*given)
        takes = {"s": iter(states), "g": iter([grad]), "n": iter(ns)}
        inputs = [next(takes[kind]) for kind in order]
        exact = [s.get().astype(LD) for s in states]
        named = {k.replace("use_nesterov", "nesterov") if rule is momentum else k: v for k, v in a.items()}
        rule(exact, grad.get().astype(LD), *(LD(n.get()[0]) for n in ns), **named)
        execute(name, inputs, [states[k] for k in outputs], {**a, "use_locking": False} if name[:2] == "Ap" else a,
                updated=states)
        for s, e in zip(states, exact):
            ref.check(s.get(), e, d, slack=2e-5 * (1 + np.abs(e)))

    def test_steps(self):
        for name in self.RULES:
            each_case(self, name, 8, lambda g, n=name: self.body(g, n))

    def test_decay_apart(self):
        """AdamApplyOneWithDecay writes the new states to its outputs only."""
        def body(gen):
            shape, given = (gen.integer(1, 60),), (0.1, 0.9, 0.1, 0.99, 0.01, 0.02, 1e-3)
            g, *states = (Operand.of(F32, np.abs(gen.values(F32, shape, limit=2)) + np.float32(0.5)) for _ in range(4))
            before = [s.get().copy() for s in states]
            exact = [s.get().astype(LD) for s in states]
            adam_decay(exact, g.get().astype(LD), *map(LD, given))
            out = [Operand.empty(F32, shape) for _ in range(3)]
            execute("AdamApplyOneWithDecay", [g, *states, *numbers(*given)], out, {})
            for o, e, s, b in zip(out, exact, states, before):
                ref.check(o.get(), e, F32, slack=2e-5 * (1 + np.abs(e)))
                ref.check_equal(s.get(), b)
        each_case(self, "AdamApplyOneWithDecay", 8, body)

    def test_layerwise_rates(self):
        def body(gen):
            shape = tuple(gen.integer(1, 30) for _ in range(gen.integer(1, 3)))
            w, g = (Operand.of(F32, gen.values(F32, shape, limit=2)) for _ in range(2))
            given = (3.0, 5.0, 0.25, gen.pick((0.125, 1e-4)))
            trust, eps, clip = gen.pick((0.001, 0.5)), gen.pick((1e-5, 0.5)), gen.chance(0.5)
            out = Operand.empty(F32, shape)
            execute("LarsV2Update", [w, g, *numbers(*given)], [out],
                    {"hyperpara": trust, "epsilon": eps, "use_clip": clip})
            a, b, decay, lr = (LD(np.float32(v)) for v in given)
            rate = LD(np.float32(trust)) * np.sqrt(a) / (decay * np.sqrt(a) + np.sqrt(b) + LD(np.float32(eps)))
            rate = np.clip(rate / lr, 0, 1) if clip else rate
            exact = (w.get().astype(LD) * decay + g.get()) * rate
            ref.check(out.get(), exact, F32, slack=1e-6 * (1 + np.abs(exact)))
        each_case(self, "LarsV2Update", 20, body)

    def test_errors(self):
        one = Operand.of(F32, np.ones(3, np.float32))
        with self.assertRaisesRegex(AclError, "lr has 3 elements, expected 1"):
            execute("ApplyAdagradD", [one, one, one, one], [one], {})
        with self.assertRaisesRegex(AclError, r"accum has shape \[4\], expected \[3\]"):
            execute("ApplyAdagradD", [one, Operand.of(F32, np.ones(4, np.float32)), *numbers(1), one], [one], {})


if __name__ == "__main__":
    unittest.main()
