# SPDX-License-Identifier: Apache-2.0
"""Losses compared with formulas in long double, and their gradients with finite differences of those."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, AclError, Tensor, run
from dtypes import BF16, F16, F32, F64, FLOATS, FLOATS64, I32, I64, LD, computed_in, promote
from gen import each_case

CASES = 60
NONE, MEAN, SUM, BATCH_MEAN = range(4)


def softplus(v):
    return np.maximum(v, 0) + np.log1p(np.exp(-abs(v)))


def smooth_l1(x, y, beta):
    d = abs(x - y)
    return np.where(d < beta, d * d / (2 * beta if beta else 1), d - LD(beta) / 2)


def bce(x, y, w):
    with np.errstate(all="ignore"):
        return -w * (y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log1p(-x), -100))


def bce_logits(x, y, w, p):
    return w * ((1 - y) * x + (1 + (p - 1) * y) * softplus(-x))


def kl(x, y, log):
    if log:
        return np.exp(y) * (y - x)
    return np.where(y == 0, 0, y * np.log(np.where(y == 0, 1, y))) - y * x


# function: the loss; weights: number of optional tensors after the target; extra: argument after the reduction; x, y:
# kinds of values; scale: magnitude of the terms that the loss is computed from, whose rounding may show in the result
Loss = namedtuple("Loss", "op function weights extra x y scale")
LOSSES = (
    Loss("Mse", lambda x, y: (x - y) ** 2, 0, None, "real", "real", lambda x, y: abs(x - y) * (abs(x) + abs(y))),
    Loss("L1", lambda x, y: abs(x - y), 0, None, "real", "real", lambda x, y: 0 * x),
    Loss("SmoothL1", smooth_l1, 0, "beta", "real", "real", lambda x, y, b: abs(x) + abs(y) + b),
    Loss("KlDiv", kl, 0, "log", "log", "unit", lambda x, y, log: (np.exp(y) * (abs(x) + abs(y) + 1) if log
                                                                   else abs(y) * (abs(x) + abs(np.log(y + 1e-30))))),
    Loss("SoftMargin", lambda x, y: softplus(-x * y), 0, None, "real", "sign", lambda x, y: 1 + abs(x)),
    Loss("BinaryCrossEntropy", bce, 1, None, "unit", "unit", lambda x, y, w: abs(w) * 200),
    Loss("BinaryCrossEntropyWithLogits", bce_logits, 2, None, "real", "unit",
         lambda x, y, w, p: abs(w) * (1 + abs(x)) * (1 + abs(p))),
)
LIKE_SELF = ("BinaryCrossEntropy", "BinaryCrossEntropyWithLogits")     # the forward target must have self's shape
GRAD_GROWS = ("Mse", "L1", "SmoothL1", "SoftMargin")                   # the gradient may exceed self and target
FORWARD = {"Mse": "MseLoss", "L1": "L1Loss", "SmoothL1": "SmoothL1Loss", "SoftMargin": "SoftMarginLoss"}


def draw(gen, d, kind):
    def values(shape):
        v = {"real": lambda: gen.rng.standard_normal(shape) * 2, "unit": lambda: gen.rng.random(shape),
             "log": lambda: -gen.rng.random(shape) * 8, "sign": lambda: np.where(gen.rng.random(shape) < 0.5, -1, 1),
             "weight": lambda: gen.rng.random(shape) * 3}[kind]()
        if kind == "unit":
            v = np.where(gen.rng.random(shape) < 0.1, gen.rng.integers(0, 2, shape), v)
        return d.round(v)
    return values


class Elementwise(unittest.TestCase):
    def operands(self, gen, loss, edges=True, alike=False, smaller=False):
        """Tensors x, y, weights..., the extra argument, and the shape of the losses."""
        shape = gen.shape()
        sa, sb = gen.broadcast_pair(shape) if gen.chance(0.3) and not alike else (shape, shape)
        if smaller:
            sa, sb = gen.shrunk(shape), gen.shrunk(shape)
        d = gen.pick(FLOATS64)
        other = gen.pick(FLOATS64) if gen.chance(0.2) else d
        x, y = gen.drawn(d, sa, draw(gen, d, loss.x)), gen.drawn(other, sb, draw(gen, other, loss.y))
        if loss.op == "BinaryCrossEntropy" and not edges:
            x = gen.tensor(d, sa, d.round(np.clip(x.get(), 0.05, 0.95)))
        weights = [gen.drawn(d, gen.shrunk(shape), draw(gen, d, "weight")) if gen.chance(0.5) else None
                   for _ in range(loss.weights)]
        extra = {"beta": [float(gen.pick((0.5, 1.0, 2.0, 0.0)))], "log": [gen.chance(0.5)], None: []}[loss.extra]
        return x, y, weights, extra, shape, promote(d, other)

    def values(self, loss, x, y, weights, extra, shape):
        wide = [t.get().astype(LD) if t else LD(1) for t in (x, y, *weights)]
        args = [np.broadcast_to(v, shape) for v in wide] + [LD(e) if loss.extra == "beta" else e for e in extra]
        return loss.function(*args), loss.scale(*args)

    def forward(self, gen, loss):
        x, y, weights, extra, shape, d = self.operands(gen, loss, alike=loss.op in LIKE_SELF)
        reduction = gen.pick((NONE, MEAN, SUM) + ((BATCH_MEAN,) if loss.op == "KlDiv" else ()))
        out_type = d if gen.chance(0.7) else gen.pick(FLOATS64)
        out = gen.out(out_type, shape if reduction == NONE else gen.pick(((), (1,))))
        op = "aclnn" + FORWARD.get(loss.op, loss.op)
        if op == "aclnnMseLoss" and gen.chance(0.3):
            op = "aclnnMseLossOut"
        run(op, x, y, *weights, reduction, *extra, out)
        each, scale = self.values(loss, x, y, weights, extra, shape)
        computing = computed_in(d)
        eps = LD(2) ** (1 - computing.digits)
        if reduction == NONE:
            ref.check(out.get(), each, out_type, computing, ulps=4, slack=4 * eps * scale, what=op)
            return
        n = {MEAN: each.size, SUM: 1, BATCH_MEAN: x.shape[0] if x.shape else 1}[reduction]
        slack = (4 * eps * scale.sum() + ref.sum_slack(abs(each).sum(), each.size, computing)) / (n or 1)
        exact = each.sum() / n if n else LD(np.nan) * each.sum()
        ref.check(out.get(), np.reshape(exact, out.shape), out_type, computing, ulps=2, slack=slack, what=op)
        again = [gen.again(t) if t else None for t in (x, y, *weights)]
        if gen.chance(0.3):
            other = gen.out(out_type, out.shape)
            run(op, *again, reduction, *extra, other)
            ref.check_equal(other.bits(), out.bits(), "bits in another layout")

    def integers(self, gen):
        """L1Loss of INT64 gives differences or their sum, which wrap; with a float operand it computes in float."""
        shape = gen.shape()
        sa, sb = gen.broadcast_pair(shape) if gen.chance(0.3) else (shape, shape)
        x, reduction = gen.tensor(I64, sa), gen.pick((NONE, SUM))
        if gen.chance(0.3):
            x, y = (gen.tensor(d, s, gen.rng.integers(-1000, 1000, s).astype(d.values))
                    for d, s in ((I64, sa), (F32, sb)))
            out = gen.out(F32, ())
            run("aclnnL1Loss", x, y, MEAN, out)
            each = abs(x.get().astype(LD) - y.get())
            exact = np.reshape(each.sum() / max(each.size, 1) if each.size else np.nan, ())
            ref.check(out.get(), exact, F32, slack=each.max(initial=0) * 1e-6)
            return
        y = gen.tensor(I64, sb)
        out = gen.out(gen.pick((I64, F64)), shape if reduction == NONE else ())
        run("aclnnL1Loss", x, y, reduction, out)
        each = np.abs(x.get() - y.get())
        exact = each if reduction == NONE else each.sum(dtype=np.int64)
        ref.check_equal(out.get(), np.asarray(exact).astype(out.dtype.values))

    def test_integers(self):
        each_case(self, "aclnnL1Loss of integers", CASES, self.integers)
        x = Tensor.empty(I64, (3,))
        with self.assertRaisesRegex(AclError, "reduction is 1, a mean, expected 0 or 2"):
            run("aclnnL1Loss", x, x, MEAN, Tensor.empty(I64, ()))
        y = Tensor.empty(F32, (3,))
        with self.assertRaisesRegex(AclError, "target has dtype FLOAT, expected INT64 as self"):
            run("aclnnL1Loss", x, y, NONE, y)
        self.assertEqual(run("aclnnL1Loss", y, x, NONE, y), 0)

    def test_shapes(self):
        row, all_, one = Tensor.empty(F32, (1, 4)), Tensor.empty(F32, (3, 4)), Tensor.empty(F32, ())
        for op, *args in (("BinaryCrossEntropy", row, all_, None, MEAN, one),
                          ("BinaryCrossEntropy", all_, row, None, MEAN, one),
                          ("BinaryCrossEntropyWithLogits", row, all_, None, None, NONE, all_),
                          ("BinaryCrossEntropyWithLogitsBackward", one, all_, row, None, None, MEAN, all_)):
            with self.assertRaisesRegex(AclError, "target has shape"):
                run("aclnn" + op, *args)
        for op, *args in (("KlDivBackward", one, row, all_, SUM, False, all_),
                          ("MseLossBackward", all_, row, row, NONE, row)):
            with self.assertRaisesRegex(AclError, "out has shape"):
                run("aclnn" + op, *args)

    def test_kl_of_target(self):
        def body(gen):
            d, shape, log = gen.pick((F32, F16, BF16)), gen.shape(max_rank=4, numel=200, empty=0), gen.chance(0.5)
            x, t = (gen.values(d, shape, limit=4) for _ in range(2))
            if not log:
                t = np.where(gen.rng.random(shape) < 0.1, 0, np.abs(t)).astype(t.dtype)
            x, t = gen.tensor(d, shape, x), gen.tensor(d, shape, t)
            reduction = gen.pick((NONE, MEAN, SUM, BATCH_MEAN))
            of = shape if reduction == NONE else ()
            g = gen.tensor(d, of, gen.values(d, of, limit=4))
            out = gen.out(d, shape)
            run("aclnnKlDivTargetBackward", g, x, t, reduction, log, out)
            wx, wt, wg = (v.get().astype(LD) for v in (x, t, g))
            n = {NONE: 1, MEAN: wx.size, SUM: 1, BATCH_MEAN: shape[0] if shape else 1}[reduction]
            logs = np.log(np.where(wt > 0, wt, 1))
            exact = np.exp(wt) * (wt + 1 - wx) if log else np.where(wt == 0, 0, logs + 1 - wx)
            size = np.exp(wt) * (abs(wt) + 1 + abs(wx)) if log else abs(logs) + 1 + abs(wx)
            ref.check(out.get(), exact * wg / n, d, ulps=4, slack=size * abs(wg) / n * 2.0 ** -21)
        each_case(self, "KlDivTargetBackward", 30, body)

    def backward(self, gen, loss, target_too=False):
        of_target = target_too and gen.chance(0.5)
        grown = loss.op in GRAD_GROWS and gen.chance(0.2)
        x, y, weights, extra, shape, d = self.operands(gen, loss, edges=False, alike=target_too and not of_target,
                                                       smaller=grown)
        if loss.extra == "beta" or loss.op == "L1":       # away from the kinks
            extra = [0.5] if extra else []
        reduction = gen.pick((NONE, MEAN, SUM) + ((BATCH_MEAN,) if loss.op == "KlDiv" else ()))
        g = gen.drawn(d, shape if reduction == NONE or grown else gen.pick(((), (1,), shape)) if shape else (),
                      draw(gen, d, "real"))
        out = gen.out(d, x.shape if loss.op == "KlDiv" else shape)
        name = FORWARD.get(loss.op, loss.op)
        run(f"aclnn{name}{'Target' if of_target else ''}Backward", g, x, y, *weights, reduction, *extra, out)
        wide = [np.broadcast_to(t.get().astype(LD) if t else LD(1), shape) for t in (x, y, *weights)]
        rest = [LD(e) if loss.extra == "beta" else e for e in extra]
        h = LD(2) ** -24
        which = 1 if of_target else 0
        up, down = list(wide), list(wide)
        up[which], down[which] = wide[which] + h, wide[which] - h
        slope = (loss.function(*up, *rest) - loss.function(*down, *rest)) / (2 * h)
        n = {NONE: 1, MEAN: slope.size, SUM: 1, BATCH_MEAN: x.shape[0] if x.shape else 1}[reduction] or 1
        grad = np.broadcast_to(g.get().astype(LD), shape)
        corner = np.zeros(shape, bool)
        if loss.op in ("L1", "SmoothL1"):
            corner = abs(abs(wide[0] - wide[1]) - (extra[0] if extra else 0)) < 1e-5
        exact = slope * grad / n if loss.op == "KlDiv" else np.where(corner, out.get().astype(LD), slope * grad / n)
        eps = LD(2) ** (1 - computed_in(d).digits)
        w = abs(wide[2]) if loss.weights else 1
        p = 1 + abs(wide[3]) if loss.weights == 2 else 1
        size = (1 + abs(wide[0]) + abs(wide[1])) * w * p * (20 if loss.op == "BinaryCrossEntropy" else 1)
        size = size * (np.exp(wide[1]) if loss.extra == "log" else 1)
        slack = abs(grad) / n * size * (4 * max(eps, LD(2) ** -38))        # the difference quotient's own error
        if loss.op == "KlDiv":                            # of self's shape: summed along the axes that are broadcast
            lost = tuple(range(len(shape) - len(x.shape)))
            lost += tuple(i + len(lost) for i, k in enumerate(x.shape) if k != shape[i + len(lost)])
            slack = slack + abs(exact) * eps * (12 if lost else 0)
            exact, slack = (np.reshape(v.sum(lost), x.shape) for v in (exact, slack))
        ref.check(out.get(), exact, d, computed_in(d), ulps=4, slack=slack,
                  what=f"{name} reduction {reduction} {extra}")

    def test_forward(self):
        for loss in LOSSES:
            each_case(self, loss.op, CASES, lambda gen, l=loss: self.forward(gen, l))

    def test_backward(self):
        for loss in LOSSES:
            each_case(self, loss.op + "Backward", CASES,
                      lambda gen, l=loss: self.backward(gen, l, l.op == "BinaryCrossEntropyWithLogits"))


def same_elsewhere(test, gen, op, args, outs):
    """The same call with other layouts gives the same bits."""
    others = [gen.out(o.dtype, o.shape) for o in outs]
    moved = [gen.again(a) if isinstance(a, Tensor) and a not in outs else
             others[outs.index(a)] if a in outs else a for a in args]
    run(op, *moved)
    for o, other in zip(outs, others):
        ref.check_equal(other.bits(), o.bits(), f"{op}: bits in another layout")


class Images(unittest.TestCase):
    """NLLLoss2d: [N, C, H, W] with targets [N, H, W]; NLLLoss itself is in test_train.py."""

    def problem(self, gen):
        d = gen.pick(FLOATS)
        shape = (gen.integer(0, 3), gen.integer(1, 9), gen.integer(1, 70), gen.integer(1, 70))
        where = (shape[0], *shape[2:])
        target = gen.drawn(gen.pick((I64, I32)), where, lambda s: gen.rng.integers(0, shape[1], s))
        weight = gen.tensor(d, (shape[1],), d.round(gen.rng.uniform(0.125, 2, shape[1])))
        ignore = gen.integer(0, shape[1] - 1) if gen.chance(0.4) else -100
        t = target.get().astype(np.int64)
        return d, shape, where, target, weight, ignore, t, np.where(t == ignore, LD(0), weight.get().astype(LD)[t])

    def forward(self, gen):
        d, shape, where, target, weight, ignore, t, w = self.problem(gen)
        x = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=20))
        losses = -w * np.take_along_axis(x.get().astype(LD), t[:, None], 1)[:, 0]
        reduction = gen.pick((NONE, MEAN, SUM))
        out, total = gen.out(d, where if reduction == NONE else ()), gen.out(d, ())
        args = [x, target, weight, reduction, ignore, out, total]
        run("aclnnNLLLoss2d", *args)
        exact = {NONE: losses, SUM: losses.sum(), MEAN: losses.sum() / w.sum()}[reduction]
        slack = 0 if reduction == NONE else 1e-12 * abs(losses).sum() / (w.sum() if reduction == MEAN else 1)
        ref.check(out.get(), exact, d, F32, slack=slack, what=f"reduction {reduction}, ignoring {ignore}")
        if reduction != NONE:
            ref.check(total.get(), w.sum(), d, F32, what="total weight")
        same_elsewhere(self, gen, "aclnnNLLLoss2d", args, [out, total])

    def backward(self, gen):
        d, shape, where, target, weight, ignore, t, w = self.problem(gen)
        reduction = gen.pick((NONE, MEAN, SUM))
        x, total = gen.tensor(d, shape), gen.tensor(d, (), d.round(max(w.sum(), LD(0.5))))
        grad = gen.drawn(d, where if reduction == NONE else (), lambda s: gen.values(d, s, limit=5))
        out = gen.out(d, shape)
        run("aclnnNLLLoss2dBackward", grad, x, target, weight, reduction, ignore, total, out)
        g = -w * grad.get().astype(LD) / (total.get().astype(LD) if reduction == MEAN else 1)
        exact = np.zeros(shape, LD)
        np.put_along_axis(exact, t[:, None], g[:, None], 1)
        ref.check(out.get(), exact, d, F32, what=f"reduction {reduction}, ignoring {ignore}")

    def test_all(self):
        each_case(self, "aclnnNLLLoss2d", CASES // 2, self.forward)
        each_case(self, "aclnnNLLLoss2dBackward", CASES // 2, self.backward)

    def test_target_out_of_range(self):
        x, target = Tensor.of(F32, np.zeros((1, 3, 90, 70))), np.zeros((1, 90, 70))
        target[0, 88, 1] = 3
        out, total = Tensor.empty(F32, ()), Tensor.empty(F32, ())
        with self.assertRaisesRegex(AclError, r"target\[6161\] is 3, expected 0 to 2"):
            run("aclnnNLLLoss2d", x, Tensor.of(I64, target), Tensor.of(F32, np.ones(3)), SUM, -100, out, total)


REDUCTIONS = {b"none": NONE, b"mean": MEAN, b"sum": SUM, None: MEAN}


class CrossEntropy(unittest.TestCase):
    def problem(self, gen):
        d = gen.pick(FLOATS)
        n, classes = gen.integer(0, 150), gen.pick((1, 2, 5, 30, 1500)) if gen.chance(0.7) else gen.integer(1, 60)
        if classes > 1000:
            n = gen.integer(1, 5)
        target = gen.drawn(gen.pick((I64, I32)), (n,), lambda s: gen.rng.integers(0, classes, s))
        weight = gen.tensor(F32, (classes,), F32.round(gen.rng.uniform(0.125, 2, classes))) if gen.chance(0.5) else None
        ignore = gen.integer(0, classes - 1) if gen.chance(0.4) else -100
        t = target.get().astype(np.int64)
        w = weight.get().astype(LD) if weight else np.ones(classes, LD)
        smoothing = gen.pick((0.0, 0.0, 0.1, 1.0))
        return d, n, classes, target, weight, ignore, t, w, smoothing, gen.pick(list(REDUCTIONS))

    def loss(self, log_p, t, w, ignore, smoothing, reduction):
        kept = (t != ignore)
        picked = np.take_along_axis(log_p, t[:, None], 1)[:, 0] if t.size else np.zeros(0, LD)
        each = -(1 - LD(smoothing)) * w[t] * picked - LD(smoothing) / log_p.shape[1] * (w * log_p).sum(1)
        each = np.where(kept, each, 0)
        return {NONE: each, SUM: each.sum(), MEAN: each.sum() / (w[t] * kept).sum()}[REDUCTIONS[reduction]]

    def forward(self, gen):
        d, n, classes, target, weight, ignore, t, w, smoothing, reduction = self.problem(gen)
        x = gen.drawn(d, (n, classes), lambda s: gen.values(d, s, limit=30))
        each = REDUCTIONS[reduction] == NONE
        loss, log_prob = gen.out(d, (n,) if each else gen.pick(((), (1,)))), gen.out(d, (n, classes))
        args = [x, target, weight, reduction, ignore, smoothing, 0.0, False, loss, log_prob,
                gen.out(d, loss.shape), gen.out(d, (n,))]
        z_outputs = [a.bits() for a in args[-2:]]
        run("aclnnCrossEntropyLoss", *args)
        wide = x.get().astype(LD)
        exact = ref.log_softmax(wide, 1) if n else wide
        eps = LD(2) ** -23
        scale = abs(wide).max(initial=1) + np.log(LD(classes)) + 1
        ref.check(log_prob.get(), exact, d, F32, slack=4 * eps * scale, what="log_prob")
        expected = self.loss(exact, t, w, ignore, smoothing, reduction)
        kept = w[t] * (t != ignore)
        terms = 2 * max(w.max(), 1) * (1 if REDUCTIONS[reduction] != SUM else n)
        slack = 4 * eps * scale * terms * (n / max(kept.sum(), LD(0.01)) if REDUCTIONS[reduction] == MEAN else 1)
        ref.check(loss.get(), np.reshape(expected, loss.shape), d, F32, slack=slack,
                  what=f"loss {reduction} {smoothing}")
        for a, before in zip(args[-2:], z_outputs):
            ref.check_equal(a.bits(), before, "z-loss")
        if gen.chance(0.3):
            same_elsewhere(self, gen, "aclnnCrossEntropyLoss", args, [loss, log_prob])

    def backward(self, gen):
        """Compares the gradient with a formula in long double; `differences` compares both with the loss."""
        d, n, classes, target, weight, ignore, t, w, smoothing, reduction = self.problem(gen)
        n, classes = min(n, 12), min(classes, 1500)
        t = t[:n]
        target = gen.tensor(target.dtype, (n,), t)
        x = gen.rng.standard_normal((n, classes)).astype(LD) * 3
        log_p = gen.tensor(d, (n, classes), d.round(ref.log_softmax(x, 1) if n else x))
        each = REDUCTIONS[reduction] == NONE
        if not each and not (t != ignore).any():
            return                                       # a mean over nothing
        grad = gen.drawn(d, (n,) if each else (), lambda s: gen.values(d, s, limit=5))
        out = gen.out(d, (n, classes))
        run("aclnnCrossEntropyLossGrad", grad, log_p, target, weight, None, None, reduction, ignore, smoothing, 0.0,
            out)
        rows = "sum" if not each else "none"
        base, g = log_p.get().astype(LD), np.broadcast_to(grad.get().astype(LD), (n,))
        divisor = (w[t] * (t != ignore)).sum() if REDUCTIONS[reduction] == MEAN else 1
        p = np.exp(base)
        kept = (t != ignore)[:, None]
        one = np.eye(classes, dtype=LD)[t] if n else np.zeros((0, classes), LD)
        s = LD(smoothing) / classes
        u = (1 - LD(smoothing)) * w[t][:, None]
        exact = np.where(kept, (p * (u + s * w.sum()) - s * w - one * u) * g[:, None] / divisor, 0)
        scale = abs(g[:, None]) / divisor * 4 * max(w.max(), 1)
        ref.check(out.get(), exact, d, F32, ulps=2, slack=LD(2) ** -22 * scale, what=f"{rows} {reduction} {smoothing}")

    def differences(self, gen):
        """The gradient is the slope of the loss, by finite differences in long double."""
        n, classes, h = 3, gen.integer(1, 6), LD(2) ** -20
        x, w = gen.rng.standard_normal((n, classes)).astype(LD), gen.rng.uniform(0.5, 2, classes).astype(LD)
        w = F32.round(w).astype(LD)
        t, smoothing = gen.rng.integers(0, classes, n), gen.pick((0.0, 0.25))
        target, weight = Tensor.of(I64, t), Tensor.of(F32, w)
        log_p, out = Tensor.of(F32, F32.round(ref.log_softmax(x, 1))), Tensor.empty(F32, (n, classes))
        run("aclnnCrossEntropyLossGrad", Tensor.of(F32, np.ones(())), log_p, target, weight, None, None, b"mean", -100,
            smoothing, 0.0, out)
        for i in np.ndindex(n, classes):
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            slope = [self.loss(ref.log_softmax(v, 1), t, w, -100, smoothing, b"mean") for v in (up, down)]
            self.assertAlmostEqual(float(out.get()[i]), float((slope[0] - slope[1]) / (2 * h)), delta=2e-6)

    def logits(self, gen):
        """SoftmaxCrossEntropyWithLogits, where labels are probabilities."""
        d = gen.pick(FLOATS)
        n, classes = gen.integer(0, 40), gen.integer(1, 50) if gen.chance(0.8) else 2100
        x = gen.drawn(d, (n, classes), lambda s: gen.values(d, s, limit=30))
        labels = gen.drawn(d, (n, classes), lambda s: d.round(gen.rng.random(s)))
        loss, backprop = gen.out(d, (n,)), gen.out(d, (n, classes))
        args = [x, labels, loss, backprop]
        run("aclnnSoftmaxCrossEntropyWithLogits", *args)
        wide, y = x.get().astype(LD), labels.get().astype(LD)
        log_p = ref.log_softmax(wide, 1) if n else wide
        eps = LD(2) ** -23
        scale = abs(wide).max(initial=1) + np.log(LD(classes)) + 1
        ref.check(loss.get(), -(y * log_p).sum(1), d, F32, slack=4 * eps * scale * y.sum(1), what="loss")
        ref.check(backprop.get(), np.exp(log_p) - y, d, F32, slack=4 * eps * scale, what="backprop")
        if gen.chance(0.3):
            same_elsewhere(self, gen, "aclnnSoftmaxCrossEntropyWithLogits", args, [loss, backprop])

    def test_all(self):
        each_case(self, "aclnnCrossEntropyLoss", CASES, self.forward)
        each_case(self, "aclnnCrossEntropyLossGrad", CASES, self.backward)
        each_case(self, "aclnnCrossEntropyLossGrad by differences", 5, self.differences)
        each_case(self, "aclnnSoftmaxCrossEntropyWithLogits", CASES, self.logits)

    def test_target_out_of_range(self):
        x, out = Tensor.of(F32, np.zeros((200, 4))), Tensor.empty(F32, (200, 4))
        target = np.zeros(200)
        target[[77, 150]] = -2, 9
        t, z = Tensor.of(I64, target), (Tensor.empty(F32, ()), Tensor.empty(F32, (200,)))
        with self.assertRaisesRegex(AclError, r"target\[77\] is -2, expected 0 to 3"):
            run("aclnnCrossEntropyLoss", x, t, None, b"mean", -100, 0.0, 0.0, False, Tensor.empty(F32, ()), out, *z)
        with self.assertRaisesRegex(AclError, "lseForZlossOut") as caught:
            run("aclnnCrossEntropyLoss", x, t, None, b"mean", -100, 0.0, 0.0, False, Tensor.empty(F32, ()), out, z[0],
                None)
        self.assertEqual(caught.exception.code, NULLPTR)
        with self.assertRaisesRegex(AclError, r"target\[77\] is -2, expected 0 to 3"):
            run("aclnnCrossEntropyLossGrad", Tensor.of(F32, np.ones(())), x, t, None, None, None, b"sum", -100, 0.0,
                0.0, out)


class Multilabel(unittest.TestCase):
    def case(self, gen):
        d, batch, classes = gen.pick(FLOATS), () if gen.chance(0.2) else (gen.integer(0, 9),), gen.integer(1, 12)
        x = gen.drawn(d, batch + (classes,), lambda s: gen.values(d, s, limit=4))

        def lists(shape):
            t = np.array([gen.rng.permutation(classes) for _ in range(int(np.prod(shape[:-1])))], int).reshape(shape)
            ends = gen.rng.integers(0, classes + 1, shape[:-1])
            return np.where(np.arange(classes) == np.expand_dims(ends, -1), -1, t)
        target = gen.tensor(gen.pick((I32, I64)), batch + (classes,), lists(batch + (classes,)))
        reduction = gen.pick((NONE, MEAN, SUM))
        out, flags = gen.out(d, batch if reduction == NONE else ()), gen.out(d, x.shape)
        run("aclnnMultilabelMarginLoss", x, target, reduction, out, flags)
        losses, expected = np.zeros(batch, LD), np.zeros(x.shape)
        for i in np.ndindex(*batch):
            row, t = x.get()[i].astype(LD), target.get()[i]
            of = [int(j) for j in t[:list(t).index(-1) if -1 in t else None]]
            expected[i][of] = 1
            losses[i] = sum(max(LD(0), 1 - row[j] + row[k])
                            for j in of for k in range(classes) if k not in of) / classes
        exact = {NONE: losses, SUM: losses.sum(), MEAN: losses.sum() / (losses.size or LD(np.nan))}[reduction]
        ref.check(out.get(), exact, d, F32, ulps=1, slack=1e-12, what=f"reduction {reduction}")
        ref.check_equal(flags.get(), expected, "isTarget")

    def test_all(self):
        each_case(self, "aclnnMultilabelMarginLoss", CASES, self.case)

    def test_target_out_of_range(self):
        f = [Tensor.empty(F32, s) for s in ((), (2, 3))]
        with self.assertRaisesRegex(AclError, r"target\[1, 1\] is 3, expected -1 to 2"):
            run("aclnnMultilabelMarginLoss", Tensor.of(F32, np.zeros((2, 3))),
                Tensor.of(I64, [[0, -1, 9], [1, 3, -1]]), SUM, *f)


if __name__ == "__main__":
    unittest.main()
