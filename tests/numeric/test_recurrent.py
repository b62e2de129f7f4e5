# SPDX-License-Identifier: Apache-2.0
"""LSTM and GRU layers, forward and backward, called by name like op-plugin. The references are cells in double, whose
gradients are checked once against finite differences."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import COMPILE_FAILED, ND, NZ, Missing, Operand, execute
from dtypes import BF16, F16, F32, I32, LD
from gen import each_case

CASES = 20


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Lstm:
    """One LSTM layer in double. order: the order of the gates in the weights; j is the cell gate, which gate_order may
    also call c. mask: [steps, batch, hidden] of 0 and 1."""

    def __init__(self, x, w_x, w_h, b, h, c, order="ijfo", reverse=False, forget_bias=0.0, mask=None):
        self.x, self.w_x, self.w_h, self.order, self.mask = x, w_x, w_h, order.replace("c", "j"), mask
        self.steps = range(len(x))[::-1] if reverse else range(len(x))
        self.h0, self.c0 = h, c
        n = len(w_h)
        names = ("y", "h", "c", "i", "j", "f", "o", "tanhc")
        self.out = {k: np.zeros((*x.shape[:2], n)) for k in names}
        for t in self.steps:
            sums = dict(zip(self.order, np.split(x[t] @ w_x + h @ w_h + b, 4, axis=1)))
            i, f, o = sigmoid(sums["i"]), sigmoid(sums["f"] + forget_bias), sigmoid(sums["o"])
            j = np.tanh(sums["j"])
            m = 1.0 if mask is None else mask[t]
            c_new = f * c + i * j
            h_new = o * np.tanh(c_new)
            c, h = m * c_new + (1 - m) * c, m * h_new + (1 - m) * h
            for k, v in zip(names, (m * h_new, h, c, i, j, f, o, np.tanh(c_new))):
                self.out[k][t] = v

    def gradients(self, dy, dh, dc):
        """Returns the gradients of x, w_x, w_h, b, h and c, given those of y and of the last h and c."""
        o, steps = self.out, list(self.steps)
        dx, dw_x, dw_h, db = (np.zeros_like(v, np.float64) for v in (self.x, self.w_x, self.w_h, self.w_h[0]))
        for s in reversed(range(len(steps))):
            t = steps[s]
            h, c = (o["h"][steps[s - 1]], o["c"][steps[s - 1]]) if s else (self.h0, self.c0)
            m = 1.0 if self.mask is None else self.mask[t]
            dh_new, dc_new = m * (dh + dy[t]), m * dc
            dc_new = dc_new + dh_new * o["o"][t] * (1 - o["tanhc"][t] ** 2)
            sums = {
                "i": dc_new * o["j"][t] * o["i"][t] * (1 - o["i"][t]),
                "j": dc_new * o["i"][t] * (1 - o["j"][t] ** 2),
                "f": dc_new * c * o["f"][t] * (1 - o["f"][t]),
                "o": dh_new * o["tanhc"][t] * o["o"][t] * (1 - o["o"][t])}
            d = np.concatenate([sums[k] for k in self.order], axis=1)
            dh, dc = (1 - m) * dh + d @ self.w_h.T, (1 - m) * dc + dc_new * o["f"][t]
            dx[t] = d @ self.w_x.T
            dw_x += self.x[t].T @ d
            dw_h += h.T @ d
            db += d.sum(0)
        return dx, dw_x, dw_h, db, dh, dc


class Gru:
    """One GRU layer in double, with the reset gate applied after the matrix product."""

    def __init__(self, x, w_x, w_h, b_x, b_h, h, order="rzh", reverse=False, mask=None):
        self.x, self.w_x, self.w_h, self.order, self.mask, self.h0 = x, w_x, w_h, order, mask, h
        self.steps = range(len(x))[::-1] if reverse else range(len(x))
        self.out = {k: np.zeros((*x.shape[:2], len(w_h))) for k in ("y", "h", "z", "r", "n", "hn")}
        for t in self.steps:
            from_x, from_h = (dict(zip(order, np.split(v, 3, axis=1))) for v in (x[t] @ w_x + b_x, h @ w_h + b_h))
            r, z = sigmoid(from_x["r"] + from_h["r"]), sigmoid(from_x["z"] + from_h["z"])
            n = np.tanh(from_x["h"] + r * from_h["h"])
            h_new, m = (1 - z) * n + z * h, 1.0 if mask is None else mask[t]
            h = m * h_new + (1 - m) * h
            for k, v in zip(("y", "h", "z", "r", "n", "hn"), (m * h_new, h, z, r, n, from_h["h"])):
                self.out[k][t] = v

    def gradients(self, dy, dh):
        """Returns the gradients of x, w_x, w_h, b_x, b_h and h, given those of y and of the last h."""
        o, steps = self.out, list(self.steps)
        like = (self.x, self.w_x, self.w_h, self.w_h[0], self.w_h[0])
        dx, dw_x, dw_h, db_x, db_h = (np.zeros_like(v, np.float64) for v in like)
        for s in reversed(range(len(steps))):
            t = steps[s]
            h = o["h"][steps[s - 1]] if s else self.h0
            m = 1.0 if self.mask is None else self.mask[t]
            d, z, r, n = m * (dh + dy[t]), o["z"][t], o["r"][t], o["n"][t]
            dn = d * (1 - z) * (1 - n ** 2)
            sums = {"z": d * (h - n) * z * (1 - z), "r": dn * o["hn"][t] * r * (1 - r), "h": dn}
            of_x = np.concatenate([sums[k] for k in self.order], axis=1)
            of_h = np.concatenate([dn * r if k == "h" else sums[k] for k in self.order], axis=1)
            dh = (1 - m) * dh + d * z + of_h @ self.w_h.T
            dx[t] = of_x @ self.w_x.T
            dw_x, dw_h = dw_x + self.x[t].T @ of_x, dw_h + h.T @ of_h
            db_x, db_h = db_x + of_x.sum(0), db_h + of_h.sum(0)
        return dx, dw_x, dw_h, db_x, db_h, dh


COMMON = {"cell_depth": 1, "num_proj": 0, "time_major": True}
LSTM = {**COMMON, "cell_type": "LSTM", "use_peephole": False, "keep_prob": 1.0, "cell_clip": -1.0, "activation": "tanh",
        "forget_bias": 0.0, "is_training": True}
LSTM_GRAD = {**COMMON, "cell_type": True, "use_peephole": False, "keep_prob": -1.0, "cell_clip": -1.0,
             "forget_bias": 0.0}
GRU = {**COMMON, "keep_prob": 1.0, "cell_clip": -1.0, "activation": "tanh", "reset_after": True, "is_training": True}
GRU_GRAD = {**COMMON, "keep_prob": 1.0, "cell_clip": -1.0, "reset_after": True, "bias_type": "no_bias"}
LARGE = 3, 130, 70, 210              # several blocks of rows, columns and depth of a weight that is packed
TOLERANCE = {F32: 2e-5, F16: 8e-3, BF16: 6e-2}       # for results whose operands are all rounded


class Layer:
    """Random sizes and operands: what the operators are given, and the same values in double."""

    def __init__(self, gen, gates, sizes=None):
        self.gen, self.d = gen, gen.pick((F32, F32, F16, BF16))
        self.format = gen.pick((ND, NZ))
        self.steps, self.batch, self.inputs, self.hidden = sizes or (gen.integer(1, n) for n in (6, 20, 24, 40))
        self.columns = gates * self.hidden
        self.reverse, self.mask, self.lengths = gen.chance(0.4), None, Missing()
        kind = gen.pick(("none", "none", "lengths", "mask"))
        if kind != "none":
            counts = gen.rng.integers(0, self.steps + 1, self.batch)
            self.mask = np.broadcast_to((np.arange(self.steps)[:, None] < counts)[:, :, None],
                                        (self.steps, self.batch, self.hidden)).astype(np.float64)
            self.lengths = Operand.of(F16, self.mask) if kind == "mask" else Operand.of(I32, counts)

    def values(self, *shape, scale=0.5):
        v = self.gen.rng.standard_normal(shape) * scale
        return self.d.round(v).astype(np.float64)

    def operand(self, values, format=ND):
        return Operand.of(self.d, values, format)

    def empty(self, *shape, format=ND):
        return Operand.empty(self.d, shape, format)

    def state(self):
        """A random state [batch, hidden]; its operand may have a leading dimension of 1."""
        v = self.values(self.batch, self.hidden)
        return v, self.operand(v[None] if self.gen.chance(0.5) else v)

    def direction(self):
        return {"direction": "REDIRECTIONAL" if self.reverse else "UNIDIRECTIONAL"}

    def check(self, got, exact, what, scale=None):
        exact = exact.reshape(got.shape)
        scale = max(1.0, np.abs(exact).max()) if scale is None else scale
        ref.check(got.get(), exact.astype(LD), self.d, slack=TOLERANCE[self.d] * scale * 4, what=what)

    def check_all(self, names, got, exact):
        for name, g, e in zip(names, got, exact):
            self.check(g, e, name)


def seen(reference, layer):
    """Rounds the forward results of `reference` to the layer's type, as the gradient operator gets them."""
    for k, v in reference.out.items():
        reference.out[k] = layer.d.round(v).astype(np.float64)
    return reference.out


class LongShortTerm(unittest.TestCase):
    def layer(self, gen, sizes=None):
        l = Layer(gen, 4, sizes)
        l.order = gen.pick(("ijfo", "ifjo", "ifco"))
        l.x = l.values(l.steps, l.batch, l.inputs)
        l.w = l.values(l.inputs + l.hidden, l.columns)
        l.b = l.values(l.columns)
        (l.h, l.h_given), (l.c, l.c_given) = l.state(), l.state()
        l.split = l.w[:l.inputs], l.w[l.inputs:]
        l.joined = gen.chance(0.7)
        l.weights = [l.operand(l.w)] if l.joined else [l.operand(w) for w in l.split]
        return l

    def reference(self, l, **more):
        return Lstm(l.x, *l.split, l.b, l.h, l.c, l.order, l.reverse, mask=l.mask, **more)

    def forward(self, gen, sizes=None):
        l = self.layer(gen, sizes)
        forget = gen.pick((0.0, 1.0))
        expected = self.reference(l, forget_bias=forget)
        outs = [l.empty(l.steps, l.batch, l.hidden, format=ND if k < 3 else l.format) for k in range(8)]
        a = {**LSTM, **l.direction(), "gate_order": l.order, "forget_bias": forget}
        execute("DynamicRNN" if l.joined else "DynamicRNNV2",
                [l.operand(l.x), *l.weights, l.operand(l.b), l.lengths, l.h_given, l.c_given], outs, a)
        l.check_all(expected.out, outs, expected.out.values())

    def test_forward(self):
        each_case(self, "DynamicRNN", 2 * CASES, self.forward)

    def test_defaults(self):
        """Absent states are zeros, and the default order of the gates is ijfo."""
        def body(gen):
            l = self.layer(gen)
            l.joined, l.order, l.reverse, l.mask = True, "ijfo", False, None
            l.h, l.c = np.zeros_like(l.h), np.zeros_like(l.c)
            outs = [l.empty(l.steps, l.batch, l.hidden) for _ in range(8)]
            execute("DynamicRNN", [l.operand(l.x), l.operand(l.w), l.operand(l.b)], outs, {})
            expected = self.reference(l)
            l.check_all(expected.out, outs, expected.out.values())
        each_case(self, "DynamicRNN, nothing given", 4, body)

    def backward(self, gen, sizes=None):
        l = self.layer(gen, sizes)
        reference = self.reference(l)
        o = seen(reference, l)
        dy = l.values(l.steps, l.batch, l.hidden)
        (dh, dh_given), (dc, dc_given) = l.state(), l.state()
        names = ("i", "j", "f", "o", "tanhc")
        named = [l.operand(o[k], l.format) for k in names]
        nothing = Operand.of(l.d, np.zeros(()))
        w_outs = [l.empty(*w.shape) for w in l.weights]
        outs = [*w_outs, l.empty(l.columns), l.empty(*l.x.shape), l.empty(*l.h_given.shape), l.empty(*l.c_given.shape)]
        lengths = nothing if l.mask is None else l.lengths
        shared = [l.operand(o["y"]), l.h_given, l.c_given, l.operand(o["h"]), l.operand(o["c"]), l.operand(dy),
                  dh_given, dc_given, *named, lengths]
        a = {**LSTM_GRAD, **l.direction(), "gate_order": l.order}
        if l.joined:
            execute("DynamicRNNGrad", [l.operand(l.x), *l.weights, l.operand(l.b), *shared, *[nothing] * 4], outs, a)
        else:
            del a["forget_bias"]
            a |= {"activation": "tanh", "recurrent_activation": "sigmoid", "merge_mode": "concat", "stateful": False}
            execute("DynamicRNNV2Grad", [l.operand(l.x), *l.weights, *shared, *[nothing] * 4], outs, a)
        dx, dw_x, dw_h, *rest = reference.gradients(dy, dh, dc)
        weights = [np.concatenate([dw_x, dw_h])] if l.joined else [dw_x, dw_h]
        l.check_all(("dw", "dw_h")[:len(weights)], w_outs, weights)
        l.check_all(("db", "dx", "dh_prev", "dc_prev"), outs[len(weights):], (rest[0], dx, *rest[1:]))

    def test_backward(self):
        each_case(self, "DynamicRNNGrad", 2 * CASES, self.backward)

    def test_large(self):
        each_case(self, "large DynamicRNN", 3, lambda g: self.forward(g, LARGE))
        each_case(self, "large DynamicRNNGrad", 3, lambda g: self.backward(g, LARGE))

    def test_cell(self):
        """nn.LSTMCell is a layer of one step. Its gradient operator gets tensors without the dimension of steps."""
        rng = np.random.default_rng(3)
        shapes = ((1, 3, 4), (4, 20), (5, 20), (20,), (3, 5), (3, 5), (1, 3, 5), (3, 5), (3, 5))
        x, w_x, w_h, b, h, c, dy, dh, dc = (rng.standard_normal(s).astype(np.float32) for s in shapes)
        r = Lstm(x, w_x, w_h, b, h, c, "ifjo")
        o = {k: v.astype(np.float32) for k, v in r.out.items()}
        gates = [o[k] for k in ("i", "j", "f", "o", "tanhc")]
        given = [x[0], w_x, w_h, o["y"], h, c, o["h"][0], o["c"][0], dy, dh, dc, *gates, *[np.zeros(())] * 5]
        outs = [Operand.empty(F32, s) for s in (w_x.shape, w_h.shape, b.shape, (3, 4), h.shape, c.shape)]
        execute("DynamicRNNV2Grad", [Operand.of(F32, v) for v in given], outs, {"gate_order": "ifjo"})
        dx, dw_x, dw_h, db, dh, dc = r.gradients(dy, dh, dc)
        for got, exact in zip(outs, (dw_x, dw_h, db, dx[0], dh, dc)):
            ref.check(got.get(), exact.astype(LD), F32, slack=2e-5)

    def test_reference(self):
        """Checks the gradients of the reference against finite differences of its forward results."""
        rng = np.random.default_rng(1)
        mask = np.broadcast_to((np.arange(4)[:, None] < (4, 2))[:, :, None], (4, 2, 3)).astype(np.float64)
        values = [rng.standard_normal(s) for s in ((4, 2, 3), (3, 12), (3, 12), (12,), (2, 3), (2, 3))]
        dy, dh, dc = (rng.standard_normal(s) for s in ((4, 2, 3), (2, 3), (2, 3)))

        def total(v, reverse):
            l = Lstm(*v, reverse=reverse, mask=mask)
            last = 0 if reverse else -1
            return (l.out["y"] * dy).sum() + (l.out["h"][last] * dh).sum() + (l.out["c"][last] * dc).sum()
        for reverse in (False, True):
            gradients = Lstm(*values, reverse=reverse, mask=mask).gradients(dy, dh, dc)
            check_differences(self, values, lambda v, r=reverse: total(v, r), gradients)

    def test_errors(self):
        x, w, b = (Operand.of(F32, np.ones(s, np.float32)) for s in ((2, 3, 4), (9, 20), (20,)))
        outs = [Operand.empty(F32, (2, 3, 5)) for _ in range(8)]
        for change, words in (
                ({"gate_order": "ijf"}, "gate_order is \"ijf\""),
                ({"direction": "BIDIRECTIONAL"}, "direction is"),
                ({"time_major": False}, "time_major is false"),
                ({"num_proj": 3}, "num_proj is 3, expected 0"),
                ({"keep_prob": 0.5}, "keep_prob is 0.5"),
                ({"cell_clip": 2.0}, "cell_clip is 2"),
                ({"use_peephole": True}, "use_peephole is true"),
                ({"activation": "relu"}, "activation is \"relu\"")):
            self.refused(words, [x, w, b], outs, change)
        execute("DynamicRNN", [x, w, b], outs, {**LSTM, "cell_clip": 0.0})          # no clipping, like -1
        self.refused("w has shape [9, 20], expected [8, 20]", [Operand.empty(F32, (2, 3, 3)), w, b], outs, {})
        self.refused("b has shape [19]", [x, w, Operand.empty(F32, (19,))], outs, {})
        self.refused("seq_length has shape [4], expected [3]", [x, w, b, Operand.empty(I32, (4,))], outs, {})
        self.refused("init_h has shape [3, 4], expected [3, 5]",
                     [x, w, b, Missing(), Operand.empty(F32, (3, 4))], outs, {})
        self.refused("tanhc is missing", [x, w, b], outs[:7], {})
        self.refused("x has dtype INT32", [Operand.empty(I32, (2, 3, 4)), w, b], outs, {})

    def refused(self, words, inputs, outputs, change):
        with self.assertRaises(AclError) as caught:
            execute("DynamicRNN", inputs, outputs, {**LSTM, **change})
        self.assertEqual(caught.exception.code, COMPILE_FAILED)
        self.assertIn(words, caught.exception.message)


def check_differences(test, values, total, gradients):
    step = 1e-6
    for v, g in zip(values, gradients):
        for at in np.ndindex(v.shape):
            ends = []
            for sign in (1, -1):
                old = v[at]
                v[at] = old + sign * step
                ends.append(total(values))
                v[at] = old
            test.assertAlmostEqual((ends[0] - ends[1]) / (2 * step), g[at], delta=1e-6)


class GatedRecurrent(unittest.TestCase):
    def layer(self, gen, sizes=None):
        l = Layer(gen, 3, sizes)
        l.order = gen.pick(("rzh", "zrh"))
        l.x = l.values(l.steps, l.batch, l.inputs)
        l.w_x, l.w_h = l.values(l.inputs, l.columns), l.values(l.hidden, l.columns)
        l.b_x, l.b_h = l.values(l.columns), l.values(l.columns)
        l.h, l.h_given = l.state()
        return l

    def reference(self, l):
        return Gru(l.x, l.w_x, l.w_h, l.b_x, l.b_h, l.h, l.order, l.reverse, l.mask)

    def forward(self, gen, sizes=None):
        l = self.layer(gen, sizes)
        expected = self.reference(l)
        outs = [l.empty(l.steps, l.batch, l.hidden, format=ND if k == 1 else l.format) for k in range(6)]
        execute("DynamicGRUV2", [l.operand(l.x), l.operand(l.w_x), l.operand(l.w_h), l.operand(l.b_x, l.format),
                                 l.operand(l.b_h, l.format), l.lengths, l.h_given], outs,
                {**GRU, **l.direction(), "gate_order": l.order})
        l.check_all(expected.out, outs, expected.out.values())

    def test_forward(self):
        each_case(self, "DynamicGRUV2", 2 * CASES, self.forward)

    def test_no_bias(self):
        def body(gen):
            l = self.layer(gen)
            l.b_x, l.b_h, l.mask, l.order, l.reverse = l.b_x * 0, l.b_h * 0, None, "zrh", False
            l.h = l.h * 0
            outs = [l.empty(l.steps, l.batch, l.hidden) for _ in range(6)]
            execute("DynamicGRUV2", [l.operand(l.x), l.operand(l.w_x), l.operand(l.w_h)], outs, {})
            expected = self.reference(l)
            l.check_all(expected.out, outs, expected.out.values())
        each_case(self, "DynamicGRUV2, nothing given", 4, body)

    def backward(self, gen, sizes=None):
        l = self.layer(gen, sizes)
        reference = self.reference(l)
        o = seen(reference, l)
        dy = l.values(l.steps, l.batch, l.hidden)
        dh, dh_given = l.state()
        nothing = Operand.of(l.d, np.zeros(()))
        outs = [l.empty(*s) for s in (l.w_x.shape, l.w_h.shape, (l.columns,), (l.columns,), l.x.shape, l.h_given.shape)]
        f = l.format
        execute("DynamicGRUV2Grad",
                [l.operand(l.x), l.operand(l.w_x), l.operand(l.w_h), l.operand(o["y"], f), l.h_given, l.operand(o["h"]),
                 l.operand(dy), dh_given, *(l.operand(o[k], f) for k in ("z", "r", "n", "hn")),
                 nothing if l.mask is None else l.lengths, nothing],
                outs, {**GRU_GRAD, **l.direction(), "gate_order": l.order})
        dx, dw_x, dw_h, db_x, db_h, dh_prev = reference.gradients(dy, dh)
        l.check_all(("dw_input", "dw_hidden", "db_input", "db_hidden", "dx", "dh_prev"),
                    outs, (dw_x, dw_h, db_x, db_h, dx, dh_prev))

    def test_backward(self):
        each_case(self, "DynamicGRUV2Grad", 2 * CASES, self.backward)

    def test_large(self):
        each_case(self, "large DynamicGRUV2", 3, lambda g: self.forward(g, LARGE))
        each_case(self, "large DynamicGRUV2Grad", 3, lambda g: self.backward(g, LARGE))

    def test_reference(self):
        rng = np.random.default_rng(2)
        mask = np.broadcast_to((np.arange(4)[:, None] < (4, 2))[:, :, None], (4, 2, 3)).astype(np.float64)
        values = [rng.standard_normal(s) for s in ((4, 2, 3), (3, 9), (3, 9), (9,), (9,), (2, 3))]
        dy, dh = rng.standard_normal((4, 2, 3)), rng.standard_normal((2, 3))

        def total(v, reverse):
            l = Gru(*v, reverse=reverse, mask=mask)
            return (l.out["y"] * dy).sum() + (l.out["h"][0 if reverse else -1] * dh).sum()
        for reverse in (False, True):
            gradients = Gru(*values, reverse=reverse, mask=mask).gradients(dy, dh)
            check_differences(self, values, lambda v, r=reverse: total(v, r), gradients)

    def test_errors(self):
        x, w_x, w_h = (Operand.of(F32, np.ones(s, np.float32)) for s in ((2, 3, 4), (4, 15), (5, 15)))
        outs = [Operand.empty(F32, (2, 3, 5)) for _ in range(6)]
        for change, words in (
                ({"reset_after": False}, "reset_after is false"),
                ({"gate_order": "rzz"}, "gate_order is \"rzz\"")):
            with self.assertRaises(AclError) as caught:
                execute("DynamicGRUV2", [x, w_x, w_h], outs, {**GRU, **change})
            self.assertIn(words, caught.exception.message)


if __name__ == "__main__":
    unittest.main()
