# SPDX-License-Identifier: Apache-2.0
"""Losses compared with PyTorch's: forward with mean reduction, and gradients as computed by autograd."""
import torch
import torch.nn.functional as F

from dtypes import BF16, F16, F32, I64
from run import case

SIZES = (("64 Ki", 1 << 16), ("16 Mi", 1 << 24))
MEAN = 1


def forward(b, op, peer, between=None, *extra, weights=0):
    low, high = between or (-2, 2)
    for d in (F32, BF16):
        for text, n in SIZES:
            x, y = b.random(d, (n,), low, high), b.random(d, (n,), 0, 1)
            t, u = b.torch(x), b.torch(y)
            b.compare(f"{d} {text}", op, [x, y] + [None] * weights + [MEAN, *extra, b.empty(d, ())], lambda: peer(t, u),
                      bytes=2 * d.size * n)


def backward(b, op, peer, between=None, *extra, weights=0):
    low, high = between or (-2, 2)
    for text, n in SIZES:
        g, x, y = b.of(F32, b.np.ones((), b.np.float32)), b.random(F32, (n,), low, high), b.random(F32, (n,), 0, 1)
        h, t, u = b.torch(g), b.torch(x), b.torch(y)
        b.compare(f"gradient f32 {text}", op, [g, x, y] + [None] * weights + [MEAN, *extra, b.empty(F32, (n,))],
                  lambda: peer(h, t, u), bytes=3 * 4 * n)


@case("MseLoss", goal=1.0)
def mse(b):
    forward(b, "aclnnMseLoss", F.mse_loss)
    backward(b, "aclnnMseLossBackward", lambda g, x, y: torch.ops.aten.mse_loss_backward(g, x, y, MEAN))


@case("L1Loss", goal=1.0)
def l1(b):
    forward(b, "aclnnL1Loss", F.l1_loss)


@case("SmoothL1Loss", goal=1.0)
def smooth_l1(b):
    from acl import ct
    forward(b, "aclnnSmoothL1Loss", F.smooth_l1_loss, None, ct.c_float(1.0))
    backward(b, "aclnnSmoothL1LossBackward",
             lambda g, x, y: torch.ops.aten.smooth_l1_loss_backward(g, x, y, MEAN, 1.0), None, ct.c_float(1.0))


@case("KlDiv", goal=1.0)
def kl_div(b):
    forward(b, "aclnnKlDiv", lambda x, y: F.kl_div(x, y, reduction="mean"), (-8, 0), False)


@case("SoftMarginLoss", goal=1.0)
def soft_margin(b):
    forward(b, "aclnnSoftMarginLoss", F.soft_margin_loss)


@case("BinaryCrossEntropy", goal=1.0)
def bce(b):
    forward(b, "aclnnBinaryCrossEntropy", F.binary_cross_entropy, (0, 1), weights=1)


@case("BinaryCrossEntropyWithLogits", goal=1.0)
def bce_logits(b):
    forward(b, "aclnnBinaryCrossEntropyWithLogits", F.binary_cross_entropy_with_logits, weights=2)


@case("CrossEntropyLoss", goal=1.0)
def cross_entropy(b):
    for d in (F32, BF16):
        for n, classes in ((128, 1000), (64, 32000), (4096, 10)):
            x = b.random(d, (n, classes), -5, 5)
            target = b.random(I64, (n,), 0, classes - 1)
            t, u = b.torch(x), b.torch(target)
            b.compare(f"{d} {n} x {classes}", "aclnnCrossEntropyLoss",
                      [x, target, None, b"mean", -100, 0.0, 0.0, False, b.empty(d, ()), b.empty(d, x.shape),
                       b.empty(d, ()), b.empty(d, (n,))],
                      lambda: F.cross_entropy(t, u), bytes=2 * d.size * n * classes)


@case("SoftmaxCrossEntropyWithLogits", goal=1.0)
def softmax_cross_entropy(b):
    for n, classes in ((128, 1000), (64, 32000)):
        x, labels = b.random(F32, (n, classes), -5, 5), b.random(F32, (n, classes), 0, 1)
        t, u = b.torch(x), b.torch(labels)

        def peer():
            log_p = torch.log_softmax(t, 1)
            return -(u * log_p).sum(1), log_p.exp_().sub_(u)
        b.compare(f"f32 {n} x {classes}", "aclnnSoftmaxCrossEntropyWithLogits",
                  [x, labels, b.empty(F32, (n,)), b.empty(F32, x.shape)], peer, bytes=3 * 4 * n * classes)


@case("NLLLoss2d", goal=1.0)
def nll_image(b):
    shape = (4, 21, 256, 256)
    x, target, weight = b.random(F32, shape, -5, 0), b.random(I64, (4, 256, 256), 0, 20), b.random(F32, (21,), 1, 2)
    t, u, w = b.torch(x), b.torch(target), b.torch(weight)
    b.compare("f32 4 x 21 x 256 x 256", "aclnnNLLLoss2d",
              [x, target, weight, MEAN, -100, b.empty(F32, ()), b.empty(F32, ())], lambda: F.nll_loss(t, u, w))
