"""Losses against formulas in long double, and their gradients against finite differences of those."""
import unittest
from collections import namedtuple

import numpy as np

import reference as ref
from acl import INVALID, AclError, Tensor, run
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


# the value; weights: how many optional ones follow the target; extra: what follows the reduction; scale: of the terms
# that the value is made of, whose roundings it may show
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
    def operands(self, gen, loss, edges=True):
        """Tensors x, y, weights..., the extra argument, and the shape of the losses."""
        shape = gen.shape()
        sa, sb = gen.broadcast_pair(shape) if gen.chance(0.3) else (shape, shape)
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
        x, y, weights, extra, shape, d = self.operands(gen, loss)
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

    def backward(self, gen, loss, target_too=False):
        x, y, weights, extra, shape, d = self.operands(gen, loss, edges=False)
        if loss.extra == "beta" or loss.op == "L1":       # away from the corners
            extra = [0.5] if extra else []
        reduction = gen.pick((NONE, MEAN, SUM) + ((BATCH_MEAN,) if loss.op == "KlDiv" else ()))
        g = gen.drawn(d, shape if reduction == NONE else gen.pick(((), (1,), shape)) if shape else (),
                      draw(gen, d, "real"))
        out = gen.out(d, shape)
        of_target = target_too and gen.chance(0.5)
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
        exact = np.where(corner, out.get().astype(LD), slope * grad / n)
        eps = LD(2) ** (1 - computed_in(d).digits)
        w = abs(wide[2]) if loss.weights else 1
        p = 1 + abs(wide[3]) if loss.weights == 2 else 1
        size = (1 + abs(wide[0]) + abs(wide[1])) * w * p * (20 if loss.op == "BinaryCrossEntropy" else 1)
        size = size * (np.exp(wide[1]) if loss.extra == "log" else 1)
        slack = abs(grad) / n * size * (4 * max(eps, LD(2) ** -38))        # the difference quotient's own error
        ref.check(out.get(), exact, d, computed_in(d), ulps=4, slack=slack, what=f"{name} reduction {reduction} {extra}")

    def test_forward(self):
        for loss in LOSSES:
            each_case(self, loss.op, CASES, lambda gen, l=loss: self.forward(gen, l))

    def test_backward(self):
        for loss in LOSSES:
            each_case(self, loss.op + "Backward", CASES,
                      lambda gen, l=loss: self.backward(gen, l, l.op == "BinaryCrossEntropyWithLogits"))


if __name__ == "__main__":
    unittest.main()
