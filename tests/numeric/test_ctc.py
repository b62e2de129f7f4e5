# SPDX-License-Identifier: Apache-2.0
"""CtcLoss and its gradient, compared with sums over paths in long double and with their differences."""
import unittest

import numpy as np

import reference as ref
from acl import AclError, INVALID, Ints, Tensor, refused, run
from dtypes import F32, F64, FLOATS64, I32, I64, LD
from aclop import Operand, execute
from gen import each_case

CASES = 40


def path_sums(probs, labels, blank):
    """[T, 2 L + 1]: the probability of all paths that end at a label, summed as probabilities, not as logarithms."""
    extended = [blank]
    for label in labels:
        extended += [label, blank]
    alpha = np.zeros((len(probs), len(extended)), LD)
    for t, p in enumerate(probs):
        for s, label in enumerate(extended):
            before = (LD(s < 2) if t == 0 else alpha[t - 1, s])
            if t and s:
                before += alpha[t - 1, s - 1]
            if t and s > 1 and label != blank and label != extended[s - 2]:
                before += alpha[t - 1, s - 2]
            alpha[t, s] = before * p[label]
    return alpha


def loss_of(log_probs, labels, blank):
    if not len(log_probs):
        return LD(np.inf) if len(labels) else LD(0)
    alpha = path_sums(np.exp(log_probs), labels, blank)
    return -np.log(alpha[-1, -2:].sum())


def posterior(log_probs, labels, blank):
    """The gradient by Richardson extrapolation of differences of the loss."""
    out = np.zeros(log_probs.shape, LD)
    for at in np.ndindex(log_probs.shape):
        def slope(h):
            moved = [log_probs.copy(), log_probs.copy()]
            moved[0][at] += h
            moved[1][at] -= h
            return (loss_of(moved[0], labels, blank) - loss_of(moved[1], labels, blank)) / (2 * h)
        table = [slope(LD(2) ** -(i + 5)) for i in range(4)]
        for order in range(1, 4):
            table = [(4 ** order * b - a) / (4 ** order - 1) for a, b in zip(table, table[1:])]
        out[at] = -table[0]
    return out


class Ctc(unittest.TestCase):
    def drawn(self, gen, t_most, c_most, batched=None):
        t, n, c, s = gen.integer(1, t_most), gen.integer(1, 4), gen.integer(2, c_most), gen.integer(0, 5)
        d, batched = gen.pick(FLOATS64), batched or gen.chance(0.8)
        n = n if batched else 1
        blank = gen.integer(0, c - 1)
        classes = [k for k in range(c) if k != blank]
        lengths = [gen.integer(0, s) for _ in range(n)]
        inputs = [gen.integer(1 if gen.chance(0.9) else 0, t) for _ in range(n)]
        labels = [gen.rng.choice(classes, k) for k in lengths]
        draw = gen.rng.standard_normal((t, n, c)).astype(LD)
        log_probs = gen.tensor(d, (t, n, c) if batched else (t, c), d.round(ref.log_softmax(draw, -1)).reshape(
            (t, n, c) if batched else (t, c)))
        if gen.chance(0.5):
            padded = np.zeros((n, s), np.int64)
            for i, row in enumerate(labels):
                padded[i, :len(row)] = row
            targets = gen.out(gen.pick((I32, I64)), (n, s), padded)
        else:
            flat = np.concatenate([np.zeros(0, np.int64), *labels]).astype(np.int64)
            targets = gen.out(gen.pick((I32, I64)), flat.shape, flat)
        width = (2 * max(lengths) + 8) // 8 * 8
        alpha = gen.out(d, (n, t, width))
        loss = gen.out(d, (n,) if batched else ())
        return d, log_probs, targets, inputs, lengths, labels, blank, alpha, loss

    def forward(self, gen):
        d, log_probs, targets, inputs, lengths, labels, blank, alpha, loss = self.drawn(gen, 12, 6)
        zero = gen.chance(0.5)
        run("aclnnCtcLoss", log_probs, targets, Ints(*inputs), Ints(*lengths), blank, zero, loss, alpha)
        lp = log_probs.get().astype(LD).reshape(log_probs.shape[0], len(inputs), -1)
        for i, (t, row) in enumerate(zip(inputs, labels)):
            exact = loss_of(lp[:t, i], row, blank)
            exact = LD(0) if zero and np.isinf(exact) else exact
            ref.check(loss.get().reshape(-1)[i], exact, d, F64, ulps=1, slack=1e-13 * (1 + t))
            rows = np.log(path_sums(np.exp(lp[:t, i]), row, blank))
            ref.check(alpha.get()[i, :t, :rows.shape[1]], rows, d, F64, ulps=1, slack=1e-13 * (1 + t))
            self.assertTrue(np.all(alpha.get()[i, :t, rows.shape[1]:] == -np.inf))
            self.assertTrue(np.all(alpha.get()[i, t:] == -np.inf))
        return d, log_probs, targets, inputs, lengths, labels, blank, alpha, loss, zero

    def backward(self, gen):
        d, log_probs, targets, inputs, lengths, labels, blank, alpha, loss = self.drawn(gen, 6, 4, batched=True)
        zero = gen.chance(0.7)
        run("aclnnCtcLoss", log_probs, targets, Ints(*inputs), Ints(*lengths), blank, zero, loss, alpha)
        g, out = gen.tensor(d, loss.shape, gen.values(d, loss.shape, limit=4)), gen.out(d, log_probs.shape)
        run("aclnnCtcLossBackward", g, log_probs, targets, Ints(*inputs), Ints(*lengths), loss, alpha, blank, zero, out)
        lp = log_probs.get().astype(LD).reshape(log_probs.shape[0], len(inputs), -1)
        got = out.get().reshape(lp.shape)
        for i, (t, row) in enumerate(zip(inputs, labels)):
            ref.check_equal(got[t:, i], np.zeros(got[t:, i].shape))
            if np.isinf(loss_of(lp[:t, i], row, blank)):
                self.assertTrue(np.all(got[:t, i] == 0 if zero else np.isnan(got[:t, i])), got[:t, i])
                continue
            exact = (np.exp(lp[:t, i]) - posterior(lp[:t, i], row, blank)) * LD(g.get().reshape(-1)[i])
            ref.check(got[:t, i], exact, d, F64, ulps=1, slack=2e-11)

    def test_forward(self):
        each_case(self, "aclnnCtcLoss", 2 * CASES, self.forward)

    def test_backward(self):
        each_case(self, "aclnnCtcLossBackward", 2 * CASES, self.backward)

    def by_name(self, gen):
        d, log_probs, targets, inputs, lengths, labels, blank, alpha, loss = self.drawn(gen, 6, 4, batched=True)
        n, t, k = len(inputs), log_probs.shape[0], gen.pick((I32, I64))
        alpha_width = (2 * gen.pick((targets.shape[-1], max(lengths))) + 8) // 8 * 8
        lp, y = Operand.of(d, log_probs.get()), Operand.of(targets.dtype, targets.get())
        sizes = [Operand.of(k, np.array(v, np.int64)) for v in (inputs, lengths)]
        loss, alpha, g = (Operand.empty(d, s) for s in ((n,), (n, t, alpha_width), (n,)))
        back, options = Operand.empty(d, lp.shape), {"blank": blank, "zero_infinity": True, "reduction": "none"}
        execute("CTCLossV2", [lp, y, *sizes], [loss, alpha], options)
        g.storage.set(gen.values(d, (n,), limit=4))
        execute("CTCLossV2Grad", [g, lp, y, *sizes, loss, alpha], [back], options)
        x = lp.get().astype(LD)
        for i, (end, row) in enumerate(zip(inputs, labels)):
            exact, got = loss_of(x[:end, i], row, blank), back.get()[:, i]
            rows = np.log(path_sums(np.exp(x[:end, i]), row, blank))
            ref.check(alpha.get()[i, :end, :rows.shape[1]], rows, d, F64, ulps=1, slack=1e-13 * (1 + end))
            self.assertTrue(np.all(alpha.get()[i, end:] == -np.inf))
            ref.check(loss.get()[i], LD(0) if np.isinf(exact) else exact, d, F64, ulps=1, slack=1e-13 * (1 + end))
            ref.check_equal(got[0 if np.isinf(exact) else end:] * 0, got[0 if np.isinf(exact) else end:])
            if not np.isinf(exact):
                exact = (np.exp(x[:end, i]) - posterior(x[:end, i], row, blank)) * LD(g.get()[i])
                ref.check(got[:end], exact, d, F64, ulps=1, slack=2e-11)

    def sparse(self, gen):
        """CTCLoss, of logits, with the last class as the blank."""
        t, n, c, d = gen.integer(1, 6), gen.integer(1, 3), gen.integer(2, 4), gen.pick((F32, F64))
        collapse = gen.chance(0.5)
        inputs = [gen.integer(1, t) for _ in range(n)]
        labels = [gen.rng.integers(0, c - 1, gen.integer(0, 3)) for _ in range(n)]
        places = [(i, k) for i, row in enumerate(labels) for k in range(len(row))]
        if not places:
            labels[0], places = np.array([0]), [(0, 0)]
        x = Operand.of(d, gen.values(d, (t, n, c), limit=3))
        loss, gradient = Operand.empty(d, (n,)), Operand.empty(d, (t, n, c))
        execute("CTCLoss", [x, Operand.of(I64, np.array(places)), Operand.of(I32, np.concatenate(labels)),
                            Operand.of(I32, np.array(inputs))], [loss, gradient],
                {"preprocess_collapse_repeated": collapse, "ignore_longer_outputs_than_inputs": True,
                 "ctc_merge_repeated": True})
        lp = ref.log_softmax(x.get().astype(LD), -1)
        for i, (end, row) in enumerate(zip(inputs, labels)):
            row = [k for j, k in enumerate(row) if not collapse or not j or k != row[j - 1]]
            exact, got = loss_of(lp[:end, i], row, c - 1), gradient.get()[:, i]
            ref.check(loss.get()[i], LD(0) if np.isinf(exact) else exact, d, F64, ulps=1, slack=1e-13 * (1 + end))
            ref.check_equal(got[0 if np.isinf(exact) else end:] * 0, got[0 if np.isinf(exact) else end:])
            if not np.isinf(exact):
                exact = np.exp(lp[:end, i]) - posterior(lp[:end, i], row, c - 1)
                ref.check(got[:end], exact, d, F64, ulps=1, slack=2e-11)

    def test_by_name(self):
        each_case(self, "CTCLossV2", CASES, self.by_name)
        each_case(self, "CTCLoss", CASES, self.sparse)
        x = Operand.of(F32, np.zeros((4, 2, 3), np.float32))
        y, far = Operand.of(I32, np.ones((2, 2), np.int32)), Operand.of(I32, np.array([4, 5], np.int32))
        with self.assertRaisesRegex(AclError, r"input_lengths\[1\] is 5, expected 0 to 4"):
            execute("CTCLossV2", [x, y, far, Operand.of(I32, np.ones(2, np.int32))],
                    [Operand.empty(F32, (2,)), Operand.empty(F32, (2, 4, 8))], {})

    def test_refused(self):
        x, loss, alpha = Tensor.empty(F32, (4, 2, 5)), Tensor.empty(F32, (2,)), Tensor.empty(F32, (2, 4, 8))
        targets = Tensor.of(I64, np.ones((2, 3)))
        for name, args in (("blank", (x, targets, Ints(4, 4), Ints(3, 2), 5, False, loss, alpha)),
                           ("inputLengths[1]", (x, targets, Ints(4, 5), Ints(3, 2), 0, False, loss, alpha)),
                           ("targetLengths[0]", (x, targets, Ints(4, 4), Ints(4, 2), 0, False, loss, alpha)),
                           ("logAlphaOut", (x, targets, Ints(4, 4), Ints(3, 2), 0, False, loss,
                                            Tensor.empty(F32, (2, 4, 7)))),
                           ("targetLengths has a sum of 5, expected 6",
                            (x, Tensor.empty(I64, (6,)), Ints(4, 4), Ints(3, 2), 0, False, loss, alpha)),
                           ("logProbs has shape [0, 2, 5]",
                            (Tensor.empty(F32, (0, 2, 5)), targets, Ints(0, 0), Ints(3, 2), 0, False, loss,
                             Tensor.empty(F32, (2, 0, 8)))),
                           ("negLogLikelihoodOut has dtype", (x, targets, Ints(4, 4), Ints(3, 2), 0, False,
                                                              Tensor.empty(F64, (2,)), alpha))):
            with self.subTest(name):
                code, message = refused("aclnnCtcLoss", *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)
        flat, one = Tensor.empty(F32, (4, 5)), Tensor.empty(F32, ())
        code, message = refused("aclnnCtcLossBackward", one, flat, Tensor.empty(I64, (1, 3)), Ints(4), Ints(3), one,
                                Tensor.empty(F32, (1, 4, 8)), 0, False, flat)
        self.assertEqual(code, INVALID)
        self.assertIn("logProbs has 2 dimensions, expected 3", message)
        with self.assertRaises(AclError) as error:
            run("aclnnCtcLoss", Tensor.of(F32, np.zeros((4, 2, 5))), Tensor.of(I64, np.full((2, 3), 5)), Ints(4, 4),
                Ints(3, 2), 0, False, loss, alpha)
        self.assertIn("targets has a 5, expected 0 to 4", error.exception.message)


if __name__ == "__main__":
    unittest.main()
