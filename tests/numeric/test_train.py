# SPDX-License-Identifier: Apache-2.0
"""What training needs: log-softmax, negative log likelihood, their gradients, AdamW, fused SGD."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, NULLPTR, AclError, Tensor, TensorList, refused, run
from dtypes import F16, F32, F64, FLOATS, I32, I64, LD, computed_in
from gen import each_case

CASES = 200
NONE, MEAN, SUM = 0, 1, 2


class LogSoftmax(unittest.TestCase):
    def shape(self, gen):
        return gen.shape(min_rank=1) if gen.chance(0.8) else gen.pick(((3, 3000), (3000, 3), (5000,)))

    def test_forward(self):
        def body(gen):
            d = gen.pick(FLOATS + (F64,))
            x = gen.drawn(d, self.shape(gen), lambda s: gen.values(d, s, limit=gen.pick((1, 30, 1e4))))
            axis = gen.integer(0, len(x.shape) - 1)
            out = gen.out(d, x.shape)
            run("aclnnLogSoftmax", x, axis - (len(x.shape) if gen.chance(0.4) else 0), out)
            if not x.size:
                return
            v, c, n = x.get().astype(LD), computed_in(d), x.shape[axis]
            exact = ref.log_softmax(v, axis)
            # absolute: of the subtraction, of a sum of n exponentials, and of exp's argument
            distance = np.abs(v - v.max(axis, keepdims=True))
            ref.check(out.get(), exact, d, c, slack=ref.sum_slack(1 + distance, n, c), what=f"along {axis}")
        each_case(self, "aclnnLogSoftmax", CASES, body)

    def test_special_values(self):
        inf, nan = np.inf, np.nan
        x = Tensor.of(F32, np.float32([[0, -inf, 0], [-inf, -inf, -inf], [inf, 0, 0], [nan, 0, 0], [3e38, -3e38, 0]]))
        out = Tensor.empty(F32, x.shape)
        run("aclnnLogSoftmax", x, 1, out)
        half = np.log(0.5)
        ref.check(out.get(), LD([[half, -inf, half], [nan] * 3, [nan] * 3, [nan] * 3, [0, -inf, -3e38]]), F32, F32)

    def test_backward(self):
        def body(gen):
            d = gen.pick(FLOATS)
            shape = self.shape(gen)
            axis = gen.integer(0, len(shape) - 1)
            grad = gen.drawn(d, shape, lambda s: gen.values(d, s, limit=10))
            output = gen.drawn(d, shape, lambda s: -np.abs(gen.values(d, s, limit=10)))
            out = gen.out(d, shape)
            run("aclnnLogSoftmaxBackward", grad, output, axis - (len(shape) if gen.chance(0.4) else 0), out)
            g, p = grad.get().astype(LD), np.exp(output.get().astype(LD))
            exact = g - p * g.sum(axis, keepdims=True)
            magnitude = np.abs(g) + p * np.abs(g).sum(axis, keepdims=True)
            ref.check(out.get(), exact, d, F32, slack=ref.sum_slack(magnitude, shape[axis], F32), what=f"along {axis}")
        each_case(self, "aclnnLogSoftmaxBackward", CASES, body)


class NLLLoss(unittest.TestCase):
    """Input [n, classes] with targets [n], or [classes] with one target."""

    def problem(self, gen):
        d = gen.pick(FLOATS)
        n, classes = gen.integer(1, 40) if gen.chance(0.9) else 3000, gen.integer(1, 12)
        batch = () if gen.chance(0.15) else (n,)
        target = gen.drawn(gen.pick((I64, I32)), batch, lambda s: gen.rng.integers(0, classes, s))
        weight = gen.tensor(d, (classes,), np.ones(classes)) if gen.chance(0.4) else \
            gen.tensor(d, (classes,), d.round(gen.rng.uniform(0.125, 2, classes)))
        ignore = gen.integer(0, classes - 1) if gen.chance(0.4) else -100
        t = target.get().astype(np.int64)
        return d, batch, classes, target, weight, ignore, t, np.where(t == ignore, LD(0), weight.get().astype(LD)[t])

    def test_forward(self):
        def body(gen):
            d, batch, classes, target, weight, ignore, t, w = self.problem(gen)
            x = gen.drawn(d, batch + (classes,), lambda s: gen.values(d, s, limit=20))
            picked = np.take_along_axis(x.get().astype(LD), t[..., None], -1)[..., 0]
            losses = np.where(t == ignore, LD(0), -w * picked)
            reduction = gen.pick((NONE, MEAN, SUM))
            exact = {NONE: losses, SUM: losses.sum(), MEAN: losses.sum() / w.sum()}[reduction]
            magnitude = {NONE: 0, SUM: np.abs(losses).sum(), MEAN: np.abs(losses).sum() / w.sum()}[reduction]
            out, total = gen.out(d, np.shape(exact)), gen.out(d, ())
            run("aclnnNLLLoss", x, target, weight, reduction, ignore, out, total)
            slack = ref.sum_slack(magnitude, t.size, F32)
            what = f"reduction {reduction}, ignoring {ignore}"
            # mean: the total weight may have been rounded to its type before the division
            slack = slack + (np.abs(exact) * LD(2) ** -d.digits if reduction == MEAN else 0)
            ref.check(out.get(), exact, d, F32, slack=slack, what=what)
            if reduction != NONE:
                ref.check(total.get(), w.sum(), d, F32, slack=ref.sum_slack(w.sum(), t.size, F32), what="total weight")
        each_case(self, "aclnnNLLLoss", CASES, body)

    def test_backward(self):
        def body(gen):
            d, batch, classes, target, weight, ignore, t, w = self.problem(gen)
            reduction = gen.pick((NONE, MEAN, SUM))
            x = gen.tensor(d, batch + (classes,))
            total = gen.tensor(d, (), d.round(max(w.sum(), LD(0.5))))
            grad = gen.drawn(d, batch if reduction == NONE else (), lambda s: gen.values(d, s, limit=5))
            out = gen.out(d, x.shape)
            run("aclnnNLLLossBackward", grad, x, target, weight, reduction, ignore, total, out)
            g = -w * grad.get().astype(LD) / (total.get().astype(LD) if reduction == MEAN else 1)
            exact = np.zeros(x.shape, LD)
            np.put_along_axis(exact, t[..., None], g[..., None], -1)
            ref.check(out.get(), exact, d, F32, what=f"reduction {reduction}, ignoring {ignore}")
        each_case(self, "aclnnNLLLossBackward", CASES, body)


class AdamW(unittest.TestCase):
    """PyTorch's AdamW. The step tensor counts the steps done before this one: the operator adds 1 itself (CANN's
    kernel does, and torch_npu passes PyTorch's count less 1)."""

    def test_all(self):
        each_case(self, "aclnnApplyAdamWV2", 2 * CASES, self.case)

    def tensors(self, gen, d, shape):
        t = {}
        for name, scale in {"var": 1, "m": 0.1, "v": 0.01, "peak": 0.01, "grad": 1}.items():
            values = gen.rng.standard_normal(shape) * scale
            t[name] = gen.out(d, shape, d.round(np.abs(values) + 1e-4 if name in ("v", "peak") else values))
        return t

    def case(self, gen):
        d, shape = gen.pick(FLOATS), gen.shape(min_rank=1)
        amsgrad, maximize = gen.chance(0.5), gen.chance(0.3)
        t = self.tensors(gen, d, shape)
        lr, beta1, beta2, decay, eps = (float(np.float32(x)) for x in (
            gen.pick((1e-3, 0.1)), gen.pick((0.9, 0.5)), gen.pick((0.999, 0.9)), gen.pick((0, 0.01)), 1e-6))
        done = gen.pick((0, 1, 9, 1000))
        step = gen.tensor(gen.pick((F32, I64)), (1,), np.array([done]))
        before = {n: x.get().astype(LD) for n, x in t.items()}
        given = amsgrad or gen.chance(0.3)                          # may be there although it is not used
        run("aclnnApplyAdamWV2", t["var"], t["m"], t["v"], t["peak"] if given else None, t["grad"], step, lr, beta1,
            beta2, decay, eps, amsgrad, maximize)

        var, m, v, peak, move = ref.adamw(
            before["var"], before["m"], before["v"], before["peak"] if amsgrad else None, before["grad"],
            LD(done) + 1, LD(lr), LD(beta1), LD(beta2), LD(decay), LD(eps), maximize)
        b, eps32 = before, LD(2) ** -23
        what = f"after {done} steps, amsgrad {amsgrad}, maximize {maximize}: "
        for name, exact, slack in (
                ("m", m, 2 * eps32 * (np.abs(b["m"]) + np.abs(b["grad"]))),
                ("v", v, 4 * eps32 * (b["v"] + b["grad"] ** 2)),
                # 1 - beta ** t loses digits where beta ** t is near 1: done = 0 has the least left, 1 - beta2
                # halves may keep m and v rounded to their type before they are used
                ("var", var, 8 * eps32 * np.abs(b["var"]) + np.abs(move) * (eps32 / LD(1 - beta2) + LD(2) ** -d.digits)
                 + LD(lr) * np.abs(b["m"]) * 16 * eps32 / LD(1 - beta1))):
            ref.check(t[name].get(), exact, d, F32, ulps=2, slack=slack, what=what + name)
        expected_peak = peak if amsgrad else before["peak"]
        ref.check(t["peak"].get(), expected_peak, d, F32, slack=4 * eps32 * (b["v"] + b["grad"] ** 2) if amsgrad else 0,
                  what=what + "maxGradNorm")

    def test_numbers_in_tensors(self):
        """ApplyAdamW: beta1 and beta2 to the power of the steps done before are tensors, as all numbers are. With
        amsgrad, v becomes the larger of v and maxGradNorm, which is only read."""
        def body(gen):
            d, shape = gen.pick(FLOATS), gen.shape(min_rank=1)
            amsgrad, maximize, done = gen.chance(0.5), gen.chance(0.3), gen.pick((0, 1, 9))
            t = self.tensors(gen, d, shape)
            beta1, beta2 = gen.pick((0.75, 0.5)), gen.pick((0.96875, 0.875))
            numbers = [d.round(x) for x in (beta1 ** done, beta2 ** done, gen.pick((1e-3, 0.1)), gen.pick((0, 0.01)),
                                            beta1, beta2, 1e-4)]
            power1, power2, lr, decay, beta1, beta2, eps = (LD(x) for x in numbers)
            before = {n: x.get().astype(LD) for n, x in t.items()}
            run("aclnnApplyAdamW", t["var"], t["m"], t["v"], *(gen.tensor(d, (1,), np.array([x])) for x in numbers),
                t["grad"], t["peak"] if amsgrad or gen.chance(0.3) else None, amsgrad, maximize)
            g = -before["grad"] if maximize else before["grad"]
            m = beta1 * before["m"] + (1 - beta1) * g
            v = beta2 * before["v"] + (1 - beta2) * g * g
            v = np.maximum(v, before["peak"]) if amsgrad else v
            move = lr * m / (1 - power1 * beta1) / (np.sqrt(v / (1 - power2 * beta2)) + eps)
            slack = LD(2) ** -20
            ref.check(t["m"].get(), m, d, F32, slack=slack * (np.abs(before["m"]) + np.abs(g)), what="m")
            ref.check(t["v"].get(), v, d, F32, slack=slack * (before["v"] + g * g), what="v")
            big = lr * (np.abs(before["m"]) + np.abs(g)) / (1 - power1 * beta1) / np.sqrt(v / (1 - power2 * beta2))
            ref.check(t["var"].get(), before["var"] * (1 - lr * decay) - move, d, F32, what="var",
                      slack=slack * (np.abs(before["var"]) + 4 * big))
            ref.check_equal(t["peak"].get().astype(LD), before["peak"], "maxGradNorm")
        each_case(self, "aclnnApplyAdamW", CASES // 2, body)

    def test_refused(self):
        x, one, two = (Tensor.empty(F32, s) for s in ((2, 3), (1,), (2,)))
        for code, words, args in (
                (INVALID, "lr has 2 elements, expected 1",
                 [x, x, x, one, one, two, one, one, one, one, x, None, False, False]),
                (INVALID, "eps has dtype INT32",
                 [x, x, x, one, one, one, one, one, one, Tensor.empty(I32, (1,)), x, None, False, False]),
                (INVALID, "grad has shape [2]",
                 [x, x, x, one, one, one, one, one, one, one, two, None, False, False]),
                (NULLPTR, "maxGradNormOptional is NULL",
                 [x, x, x, one, one, one, one, one, one, one, x, None, True, False])):
            got, message = refused("aclnnApplyAdamW", *args)
            self.assertEqual((got, words in message), (code, True), message)


class Sgd(unittest.TestCase):
    """PyTorch's fused SGD; gradients are left divided by the scale."""

    def test_all(self):
        def body(gen):
            d, shapes = gen.pick(FLOATS), [gen.shape(min_rank=1, numel=900) for _ in range(gen.integer(1, 4))]
            draw = lambda: [gen.out(d, s, d.round(gen.rng.standard_normal(s))) for s in shapes]
            params, grads, buffers = draw(), draw(), draw() if gen.chance(0.7) else []
            scale = gen.tensor(gen.pick((F32, d)), (1,), np.array([2.5])) if gen.chance(0.5) else None
            decay, momentum, lr, dampening = (float(np.float32(x)) for x in (
                gen.pick((0, 0.01)), gen.pick((0, 0.9)), gen.pick((1e-3, 0.5)), gen.pick((0, 0.25))))
            nesterov, maximize, first = bool(buffers) and gen.chance(0.4), gen.chance(0.3), gen.chance(0.4)
            before = [[t.get().astype(LD) for t in l] for l in (params, grads, buffers or params)]
            absent = None if gen.chance(0.5) else TensorList([])
            run("aclnnFusedSgd", TensorList(params), TensorList(grads), TensorList(buffers) if buffers else absent,
                scale, decay, momentum, lr, dampening, nesterov, maximize, first)
            for i, (param, grad, buffer) in enumerate(zip(*before)):
                grad = grad / (LD(2.5) if scale else 1)
                g = (-grad if maximize else grad) + LD(decay) * param
                size = np.abs(param) + np.abs(grad) + np.abs(buffer)
                ref.check(grads[i].get(), grad, d, F32, what="grad")
                if buffers:
                    buffer = g if first else LD(momentum) * buffer + (1 - LD(dampening)) * g
                    ref.check(buffers[i].get(), buffer, d, F32, slack=size * LD(2) ** -22, what="momentum buffer")
                    g = g + LD(momentum) * buffer if nesterov else buffer
                ref.check(params[i].get(), param - LD(lr) * g, d, F32, slack=size * LD(2) ** -21, what="param")
        each_case(self, "aclnnFusedSgd", CASES // 2, body)

    def test_first_step(self):
        """In the first step what is in the buffers does not count, not even NaN."""
        param, grad, buffer = Tensor.of(F32, [1.0]), Tensor.of(F32, [2.0]), Tensor.of(F32, [np.nan])
        run("aclnnFusedSgd", *(TensorList([t]) for t in (param, grad, buffer)), None, 0.0, 0.5, 0.25, 0.5, False, False,
            True)
        self.assertEqual((param.get()[0], buffer.get()[0]), (0.5, 2.0))

    def test_wrong(self):
        t = lambda d=F32, *s: Tensor.empty(d, s or (3,))
        x = TensorList([t(), t()])
        good = {"p": x, "g": TensorList([t(), t()]), "b": None, "scale": None, "decay": 0.0, "momentum": 0.9, "lr": 0.1,
                "dampening": 0.0, "nesterov": False, "maximize": False, "first": False}
        for words, change in (
                ("lr is -1", {"lr": -1.0}), ("nesterov is true", {"nesterov": True}),
                ("gradsRef has 1", {"g": TensorList([t()])}),
                ("gradsRef[1] has dtype FLOAT16", {"g": TensorList([t(), t(F16)])}),
                ("momentumBufferListOptionalRef[0] has shape [4]", {"b": TensorList([t(F32, 4), t()])}),
                ("gradScaleOptional has 3 elements", {"scale": t()})):
            code, message = refused("aclnnFusedSgd", *{**good, **change}.values())
            self.assertEqual((code, words in message), (INVALID, True), message)
        with self.assertRaises(AclError) as caught:
            run("aclnnFusedSgd", *{**good, "scale": Tensor.of(F32, [0.0])}.values())
        self.assertIn("gradScaleOptional is 0", caught.exception.message)


if __name__ == "__main__":
    unittest.main()
