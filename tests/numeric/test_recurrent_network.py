# SPDX-License-Identifier: Apache-2.0
"""aclnnLSTM, its gradient, and aclnnBidirectionLSTM: PyTorch's networks of several layers and directions. The
references are layers of test_recurrent.py, whose gradients are checked there against finite differences."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, AclError, Tensor, TensorList, refused, run
from dtypes import BF16, F16, F32, F64, I32, I64, LD
from gen import each_case
from test_recurrent import TOLERANCE, Lstm

CASES = 16
ORDER = "ifjo"                                   # PyTorch's i f g o
SAVED = "i", "j", "f", "o", "h", "c", "tanhc"


class Network:
    """Random sizes and operands, in double, and the reference's layers, by layer and direction. counts: the rows of
    each step that count, which fall; or None."""

    def __init__(self, gen, layers=3, sizes=(6, 9, 12, 10), padded=0.4, rows=None):
        self.gen, self.d = gen, gen.pick((F32, F32, F16, BF16))
        self.layers, self.directions = gen.integer(1, layers), gen.integer(1, 2)
        self.steps, self.batch, self.inputs, self.hidden = rows or (gen.integer(1, n) for n in sizes)
        self.biased, self.batch_first, self.counts = gen.chance(0.7), gen.chance(0.4), None
        if gen.chance(padded):
            self.batch_first = False
            self.counts = np.sort(gen.rng.integers(0, self.batch + 1, self.steps))[::-1].copy()
        self.x = self.values(self.steps, self.batch, self.inputs)
        self.h, self.c = (self.values(self.layers * self.directions, self.batch, self.hidden) for _ in "hc")
        if self.counts is not None:
            self.x *= self.mask(self.inputs)
        self.params = []
        for layer in range(self.layers):
            inputs = self.directions * self.hidden if layer else self.inputs
            for _ in range(self.directions):
                shapes = [(4 * self.hidden, inputs), (4 * self.hidden, self.hidden)] + [(4 * self.hidden,)] * 2
                self.params.append([self.values(*s) for s in shapes[:4 if self.biased else 2]])
        self.run_layers()

    def values(self, *shape):
        return self.d.round(self.gen.rng.standard_normal(shape) * 0.5).astype(np.float64)

    def mask(self, columns):
        counts = np.full(self.steps, self.batch) if self.counts is None else self.counts
        return np.broadcast_to((np.arange(self.batch) < counts[:, None])[:, :, None],
                               (self.steps, self.batch, columns)).astype(np.float64)

    def run_layers(self):
        self.of, x = [], self.x
        for layer in range(self.layers):
            y = []
            for direction in range(self.directions):
                i = layer * self.directions + direction
                w_x, w_h, *b = self.params[i]
                b = sum(b) if b else np.zeros(4 * self.hidden)
                self.of.append(Lstm(x, w_x.T, w_h.T, b, self.h[i], self.c[i], ORDER, direction > 0,
                                    mask=self.mask(self.hidden)))
                y.append(self.of[-1].out["y"])
            x = np.concatenate(y, axis=2)
        self.y = x

    def last(self, name):
        """The states behind the last step of each layer and direction."""
        return np.stack([l.out[name][l.steps[-1]] for l in self.of])

    # ---- operands

    def tensor(self, values):
        return self.gen.tensor(self.d, values.shape, self.d.round(values))

    def sequence(self, values, out=False):
        """A sequence as the operator takes it: by batch, or of two dimensions."""
        if self.batch_first:
            values = values.swapaxes(0, 1)
        elif self.counts is not None and self.gen.chance(0.5):
            values = values.reshape(-1, values.shape[2])
        return self.gen.out(self.d, values.shape) if out else self.tensor(values)

    def sizes(self):
        if self.counts is None:
            return Tensor(I64, (0,)) if self.gen.chance(0.2) else None
        return self.gen.tensor(self.gen.pick((I32, I64)), (self.steps,), self.counts)

    def parameters(self, out=False):
        return TensorList([self.gen.out(self.d, v.shape) if out else self.tensor(v) for p in self.params for v in p])

    def empty(self, *shape):
        return self.gen.out(self.d, shape)

    def states(self):
        return self.empty(self.layers * self.directions, self.batch, self.hidden)

    def check(self, t, exact, what, scale=1.0):
        exact = exact.astype(LD)
        if self.batch_first and exact.ndim == 3 and what in ("y", "dx"):
            exact = exact.swapaxes(0, 1)
        ref.check(t.get(), exact.reshape(t.shape), self.d, slack=4 * TOLERANCE[self.d] * max(1.0, scale), what=what)


class LongShortTermNetwork(unittest.TestCase):
    def forward(self, gen, **more):
        n = Network(gen, **more)
        train, given = gen.chance(0.6), gen.chance(0.8)
        if not given:
            n.h, n.c = n.h * 0, n.c * 0
            n.run_layers()
        y, hy, cy = n.sequence(n.y, out=True), n.states(), n.states()
        lists = [TensorList([n.empty(n.steps, n.batch, n.hidden) for _ in n.of]) for _ in SAVED] if train else \
            [None] * 4 + [TensorList([n.empty() for _ in n.of]) for _ in "hc"] + [None]        # as torch_npu has it
        hx = TensorList([n.tensor(n.h), n.tensor(n.c)]) if given else None
        run("aclnnLSTM", n.sequence(n.x), n.parameters(), hx, n.sizes(), n.biased, n.layers, 0.0, train,
            n.directions == 2, n.batch_first, y, hy, cy, *lists)
        n.check(y, n.y, "y")
        n.check(hy, n.last("h"), "hy")
        n.check(cy, n.last("c"), "cy")
        for name, saved in zip(SAVED, lists if train else ()):
            for t, layer in zip(saved.tensors, n.of):
                n.check(t, layer.out[name] * layer.mask, name)

    def test_forward(self):
        each_case(self, "aclnnLSTM", CASES, self.forward)

    def test_large(self):
        """Several blocks of rows, columns and depth of a weight that is packed."""
        each_case(self, "large aclnnLSTM", 2, lambda g: self.forward(g, layers=1, rows=(5, 70, 40, 130), padded=0))

    def backward(self, gen, **more):
        n = Network(gen, **more)
        for layer in n.of:                          # what the gradient is given is rounded
            for k, v in layer.out.items():
                layer.out[k] = n.d.round(v).astype(np.float64)
        for i in range(n.directions, len(n.of)):
            below = i // n.directions * n.directions
            n.of[i].x = np.concatenate([l.out["h"] * l.mask for l in n.of[below - n.directions:below]], axis=2)
        dy = n.values(*n.y.shape) * n.mask(n.y.shape[2])
        dh, dc = (n.values(*n.h.shape) for _ in "hc")
        given = [gen.chance(0.9) for _ in range(3)]
        dy, dh, dc = (v * g for v, g in zip((dy, dh, dc), given))
        operands = [v if g else None for v, g in zip((n.sequence(dy), n.tensor(dh), n.tensor(dc)), given)]
        # rows that do not count are not read
        saved = [TensorList([n.tensor(np.where(l.mask > 0, l.out[k], 9)) for l in n.of]) for k in SAVED]
        x = n.sequence(n.x)
        dx, dh0, dc0, dparams = n.empty(*x.shape), n.states(), n.states(), n.parameters(out=True)
        run("aclnnLstmBackward", x, TensorList([n.tensor(n.h), n.tensor(n.c)]), n.parameters(), *operands, *saved,
            n.sizes(), n.biased, n.layers, 0.0, True, n.directions == 2, n.batch_first, None, dx, dh0, dc0, dparams)
        self.check_gradients(n, dy, dh, dc, dx, dh0, dc0, iter(dparams.tensors))

    def check_gradients(self, n, dy, dh, dc, dx, dh0, dc0, dparams):
        exact_h, exact_c, exact_params = np.zeros_like(dh), np.zeros_like(dc), [None] * len(n.of)
        for layer in reversed(range(n.layers)):
            below = 0
            for direction, part in enumerate(np.split(dy, n.directions, axis=2)):
                i = layer * n.directions + direction
                d_x, dw_x, dw_h, db, exact_h[i], exact_c[i] = n.of[i].gradients(part, dh[i], dc[i])
                exact_params[i] = [dw_x.T, dw_h.T] + ([db, db] if n.biased else [])
                below = below + d_x
            dy = below
        scale = float(np.abs(dy).max())
        n.check(dx, dy, "dx", scale)
        n.check(dh0, exact_h, "dh", scale)
        n.check(dc0, exact_c, "dc", scale)
        for p in exact_params:
            for exact in p:
                n.check(next(dparams), exact, "dparams", float(np.abs(exact).max()))

    def test_backward(self):
        each_case(self, "aclnnLstmBackward", CASES, self.backward)
        each_case(self, "large aclnnLstmBackward", 2,
                  lambda g: self.backward(g, layers=1, rows=(5, 70, 40, 130), padded=0))

    def test_batch_sizes(self):
        """Batch sizes that grow, or are larger than the batch, make the task fail."""
        x, w_x, w_h = (Tensor.of(F32, np.ones(s)) for s in ((2, 3, 4), (20, 4), (20, 5)))
        for sizes, words in (([2, 3], "step 1 is 3, expected 0 to 2"), ([4, 1], "step 0 is 4"), ([3, -1], "is -1")):
            with self.assertRaises(AclError) as caught:
                run("aclnnLSTM", x, TensorList([w_x, w_h]), None, Tensor.of(I64, sizes), False, 1, 0.0, False, False,
                    False, Tensor(F32, (2, 3, 5)), Tensor(F32, (1, 3, 5)), Tensor(F32, (1, 3, 5)), *[None] * 7)
            self.assertIn(words, caught.exception.message)

    def test_refused(self):
        t = lambda *s, d=F32: Tensor.empty(d, s)
        good = {"input": t(2, 3, 4), "params": TensorList([t(20, 4), t(20, 5), t(20), t(20)]), "hx": None,
                "sizes": None, "bias": True, "layers": 1, "dropout": 0.0, "train": False, "two": False, "first": False,
                "y": t(2, 3, 5), "hy": t(1, 3, 5), "cy": t(1, 3, 5), **{k: None for k in SAVED}}
        for code, words, change in (
                (INVALID, "input has shape [2, 3]", {"input": t(2, 3)}),
                (INVALID, "input has dtype DOUBLE", {"input": t(2, 3, 4, d=F64)}),
                (INVALID, "params has 4", {"bias": False}), (INVALID, "params has 4", {"two": True}),
                (INVALID, "numLayers is 0", {"layers": 0}),
                (INVALID, "params[1] has shape [20, 4], expected [20, 5]",
                 {"params": TensorList([t(20, 4), t(20, 4), t(20), t(20)])}),
                (INVALID, "params[2] has dtype FLOAT16",
                 {"params": TensorList([t(20, 4), t(20, 5), t(20, d=F16), t(20)])}),
                (INVALID, "params[0] has shape [21, 4]",
                 {"params": TensorList([t(21, 4), t(20, 5), t(20), t(20)])}),
                (INVALID, "hx[1] has shape [1, 3, 4]", {"hx": TensorList([t(1, 3, 5), t(1, 3, 4)])}),
                (INVALID, "hx has 1", {"hx": TensorList([t(1, 3, 5)])}),
                (INVALID, "batchSizes has dtype FLOAT", {"sizes": t(2)}),
                (INVALID, "expected 3 steps", {"sizes": t(3, d=I64)}),
                (INVALID, "input has shape [5, 4], expected a multiple of 2", {"input": t(5, 4), "sizes": t(2, d=I64)}),
                (INVALID, "output has shape [2, 3, 4]", {"y": t(2, 3, 4)}),
                (INVALID, "cy has shape [1, 2, 5]", {"cy": t(1, 2, 5)}),
                (NULLPTR, "iOut is NULL", {"train": True}),
                (NULLPTR, "params", {"params": None})):
            got, message = refused("aclnnLSTM", *{**good, **change}.values())
            self.assertEqual((got, words in message), (code, True), message)


class BidirectionLstm(unittest.TestCase):
    def case(self, gen, two=None):
        n = Network(gen, layers=1)
        n.batch_first = False
        packed = n.counts is not None and gen.chance(0.6)
        keep = n.mask(1)[:, :, 0] > 0
        x = n.tensor(n.x[keep] if packed else n.x)
        y = n.empty(*(n.y[keep] if packed else n.y).shape)
        hy, cy = n.states(), n.states()
        weights = [n.tensor(v) for p in n.params for v in p[:2]]
        biases = [n.tensor(v) for p in n.params for v in p[2:]]
        forward, reverse = (weights[i:i + 2] + (biases[i:i + 2] or [None] * 2) for i in (0, 2))
        reverse = reverse if n.directions == 2 else [None] * 4
        if n.counts is None and gen.chance(0.5):
            run("aclnnBidirectionLSTM", x, n.tensor(n.h), n.tensor(n.c), *forward, *reverse, 1, n.biased, False,
                n.directions == 2, y, hy, cy)
        else:
            run("aclnnBidirectionLSTMV2", x, n.tensor(n.h), n.tensor(n.c), *forward, *reverse, n.sizes(), 1, n.biased,
                False, n.directions == 2, packed, y, hy, cy)
        n.check(y, n.y[keep] if packed else n.y, "yOut")
        n.check(hy, n.last("h"), "outputHOut")
        n.check(cy, n.last("c"), "outputCOut")

    def test_all(self):
        each_case(self, "aclnnBidirectionLSTM", 2 * CASES, self.case)

    def test_empty(self):
        """Without steps the states are the initial ones."""
        h, c, w_x, w_h = (Tensor.of(F32, np.ones(s)) for s in ((1, 3, 5), (1, 3, 5), (20, 4), (20, 5)))
        hy, cy = Tensor(F32, (1, 3, 5)), Tensor(F32, (1, 3, 5))
        run("aclnnBidirectionLSTM", Tensor(F32, (0, 3, 4)), h, c, w_x, w_h, *[None] * 6, 1, False, False, False,
            Tensor(F32, (0, 3, 5)), hy, cy)
        np.testing.assert_array_equal(hy.get(), h.get())
        np.testing.assert_array_equal(cy.get(), c.get())

    def test_refused(self):
        t = lambda *s, d=F32: Tensor.empty(d, s)
        good = {"x": t(2, 3, 4), "h": t(1, 3, 5), "c": t(1, 3, 5), "w": t(20, 4), "u": t(20, 5), "b": t(20),
                "b2": t(20), "wr": None, "ur": None, "br": None, "br2": None, "layers": 1, "bias": True,
                "first": False, "two": False, "y": t(2, 3, 5), "hy": t(1, 3, 5), "cy": t(1, 3, 5)}
        for code, words, change in (
                (INVALID, "numLayers is 2, expected 1", {"layers": 2}),
                (INVALID, "batchFirst is true", {"first": True}),
                (NULLPTR, "bHhOptional is NULL", {"b2": None}),
                (NULLPTR, "wIhReverseOptional is NULL", {"two": True}),
                (INVALID, "wHh has shape [20, 4]", {"u": t(20, 4)}),
                (INVALID, "initC has shape [1, 3, 4]", {"c": t(1, 3, 4)}),
                (INVALID, "x has shape [2, 4]", {"x": t(2, 4)}),
                (INVALID, "yOut has dtype FLOAT16", {"y": t(2, 3, 5, d=F16)})):
            got, message = refused("aclnnBidirectionLSTM", *{**good, **change}.values())
            self.assertEqual((got, words in message), (code, True), message)
        with self.assertRaises(AclError) as caught:
            run("aclnnBidirectionLSTMV2", t(5, 4), *list(good.values())[1:11], Tensor.of(I32, [3, 1]), 1, True, False,
                False, True, t(5, 5), good["hy"], good["cy"])
        self.assertIn("the sum of the batch sizes is 4, expected 5", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
