# SPDX-License-Identifier: Apache-2.0
"""ThnnFusedLstmCell and its gradient, whose gates are in PyTorch's order, i f g o. The gradients of the reference are
checked against finite differences."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Tensor, refused, run
from dtypes import F16, F32, F64, LD
from gen import each_case

CASES = 40


def cell(gates, c):
    """h, the next c, and the activated gates."""
    i, f, g, o = np.split(gates, 4, axis=1)
    i, f, o, g = ref.sigmoid(i), ref.sigmoid(f), ref.sigmoid(o), np.tanh(g)
    after = f * c + i * g
    return o * np.tanh(after), after, np.concatenate([i, f, g, o], axis=1)


def cell_grad(dh, dc, c, after, storage):
    """The gradients of the sums of the gates, and of c."""
    i, f, g, o = np.split(storage, 4, axis=1)
    t = np.tanh(after)
    d = dc + dh * o * (1 - t * t)
    return np.concatenate([d * g * i * (1 - i), d * c * f * (1 - f), d * i * (1 - g * g), dh * t * o * (1 - o)],
                          axis=1), d * f


def check(t, exact, scale=1.0):
    """Intermediate values are floats: errors are relative to the largest terms, of about `scale`."""
    ref.check(t.get(), exact, t.dtype, F32, ulps=1, slack=3e-6 * (scale + np.abs(exact)))


class Cell(unittest.TestCase):
    def test_reference(self):
        rng = np.random.default_rng(3)
        gates, c, dh, dc = (rng.normal(size=s) for s in ((2, 12), (2, 3), (2, 3), (2, 3)))
        loss = lambda gates, c: (dh * cell(gates, c)[0]).sum() + (dc * cell(gates, c)[1]).sum()
        _, after, storage = cell(gates, c)
        for of, got in zip(("gates", "c"), cell_grad(dh, dc, c, after, storage)):
            for at in np.ndindex(got.shape):
                step = np.zeros(got.shape)
                step[at] = 1e-6
                both = [loss(*((gates + s, c) if of == "gates" else (gates, c + s))) for s in (step, -step)]
                self.assertAlmostEqual(got[at], (both[0] - both[1]) / 2e-6, 6)

    def test_forward(self):
        def body(gen):
            d, rows, n = gen.pick((F16, F32)), gen.integer(1, 40), gen.pick((1, 7, 16, 130))
            draw = lambda shape: gen.drawn(d, shape, lambda s: gen.values(d, s, limit=4))
            x, h, c = draw((rows, 4 * n)), draw((rows, 4 * n)), draw((rows, n))
            biases = (draw((4 * n,)), draw((4 * n,))) if gen.chance(0.6) else (None, None)
            out, after, storage = gen.out(d, (rows, n)), gen.out(d, (rows, n)), gen.out(d, (rows, 4 * n))
            run("aclnnThnnFusedLstmCell", x, h, c, *biases, out, after, storage)
            gates = sum(t.get().astype(LD) for t in (x, h, *biases) if t is not None)
            for t, exact in zip((out, after, storage), cell(gates, c.get().astype(LD))):
                check(t, exact, 16)
        each_case(self, "aclnnThnnFusedLstmCell", CASES, body)

    def test_gradient(self):
        def body(gen):
            d, rows, n, has_bias = gen.pick((F16, F32)), gen.integer(1, 40), gen.pick((1, 7, 16, 130)), gen.chance(0.6)
            draw = lambda shape: gen.drawn(d, shape, lambda s: gen.values(d, s, limit=2))
            dh, dc = (draw((rows, n)) if gen.chance(0.8) else None for _ in "12")
            c, after = draw((rows, n)), draw((rows, n))
            storage = gen.drawn(d, (rows, 4 * n), lambda s: d.round(gen.rng.uniform(0, 1, s)))
            d_gates, d_c = gen.out(d, (rows, 4 * n)), gen.out(d, (rows, n))
            d_bias = gen.out(d, (4 * n,)) if has_bias or gen.chance(0.5) else None
            before = None if has_bias or d_bias is None else d_bias.get().copy()
            run("aclnnThnnFusedLstmCellBackward", dh, dc, c, after, storage, has_bias, d_gates, d_c, d_bias)
            of = lambda t: t.get().astype(LD) if t else np.zeros((rows, n), LD)
            gates, exact = cell_grad(of(dh), of(dc), of(c), of(after), of(storage))
            check(d_gates, gates, 8)
            check(d_c, exact, 8)
            if has_bias:
                check(d_bias, gates.sum(axis=0), 8.0 * rows)
            elif before is not None:
                np.testing.assert_array_equal(d_bias.get(), before)
        each_case(self, "aclnnThnnFusedLstmCellBackward", CASES, body)

    def test_refused(self):
        state, gates, bias = Tensor.empty(F32, (2, 3)), Tensor.empty(F32, (2, 12)), Tensor.empty(F32, (12,))
        wide, half = Tensor.empty(F32, (2, 9)), Tensor.empty(F16, (2, 12))
        forward = {"x": gates, "h": gates, "c": state, "b": None, "b2": None, "y": state, "to": state, "all": gates}
        for expected, values in (
                ("inputGates has shape [2, 9]", {"x": wide}), ("hiddenGates has dtype FLOAT16", {"h": half}),
                ("hiddenBiasOptional is NULL", {"b": bias}), ("inputBiasOptional is NULL", {"b2": bias}),
                ("cx has dtype DOUBLE", {"c": Tensor.empty(F64, (2, 3))}),
                ("storageOut has shape [2, 9]", {"all": wide}), ("hyOut has shape [2, 12]", {"y": gates})):
            code, message = refused("aclnnThnnFusedLstmCell", *{**forward, **values}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)
        backward = {"dh": None, "dc": state, "c": state, "to": state, "all": gates, "bias": True, "d": gates,
                    "dcx": state, "db": bias}
        for expected, values in (
                ("gradBiasOut is NULL", {"db": None}), ("gradCOptional has shape [2, 12]", {"dc": gates}),
                ("storage has dtype FLOAT16", {"all": half}), ("gradCxOut has shape [2, 9]", {"dcx": wide})):
            code, message = refused("aclnnThnnFusedLstmCellBackward", *{**backward, **values}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)


if __name__ == "__main__":
    unittest.main()
