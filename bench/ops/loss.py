# SPDX-License-Identifier: Apache-2.0
"""Losses compared with PyTorch's: forward with mean reduction, and gradients as computed by autograd."""
import torch
import torch.nn.functional as F

from dtypes import BF16, F32, I64
from run import case, size

MEAN = 1
BOXES = (("YOLOv8n boxes", F32, (8400, 4)),)
IMAGES = (("U-Net mask", F32, (4, 1, 256, 256)), ("Stable Diffusion noise", F32, (4, 4, 64, 64)),
          ("MAE patches, batch 8", BF16, (8, 196, 768)))
CLASSES = (("YOLOv8n classes", F32, (8400, 80)), ("CheXNet labels", F32, (64, 14)))
TEACHER = (("DistilBERT vocabulary", F32, (256, 30522)), ("DistilBERT classes", F32, (64, 1000)))


def forward(b, rows, op, peer, between=None, *extra, weights=0):
    low, high = between or (-2, 2)
    for layer, d, shape in rows:
        x, y = b.random(d, shape, low, high), b.random(d, shape, 0, 1)
        t, u = b.torch(x), b.torch(y)
        b.compare(f"{d} {size(shape)}", op, [x, y] + [None] * weights + [MEAN, *extra, b.empty(d, ())],
                  lambda: peer(t, u), layer=layer, bytes=2 * d.size * x.size)


def backward(b, rows, op, peer, between=None, *extra, weights=0):
    low, high = between or (-2, 2)
    for layer, d, shape in rows:
        g, x, y = b.of(d, b.np.ones((), b.np.float32)), b.random(d, shape, low, high), b.random(d, shape, 0, 1)
        h, t, u = b.torch(g), b.torch(x), b.torch(y)
        b.compare(f"gradient {d} {size(shape)}", op, [g, x, y] + [None] * weights + [MEAN, *extra, b.empty(d, shape)],
                  lambda: peer(h, t, u), layer=layer, bytes=3 * d.size * x.size)


@case("MseLoss", goal=1.0)
def mse(b):
    forward(b, IMAGES[1:], "aclnnMseLoss", F.mse_loss)
    backward(b, IMAGES[1:], "aclnnMseLossBackward", lambda g, x, y: torch.ops.aten.mse_loss_backward(g, x, y, MEAN))


@case("L1Loss", goal=1.0)
def l1(b):
    forward(b, BOXES + (("EDSR image", F32, (16, 3, 192, 192)),), "aclnnL1Loss", F.l1_loss)


@case("SmoothL1Loss", goal=1.0)
def smooth_l1(b):
    from acl import ct
    rows = (("Faster R-CNN boxes", F32, (2000, 4)), ("SSD300 boxes, batch 8", F32, (8, 8732, 4)))
    forward(b, rows, "aclnnSmoothL1Loss", F.smooth_l1_loss, None, ct.c_float(1.0))
    backward(b, rows, "aclnnSmoothL1LossBackward",
             lambda g, x, y: torch.ops.aten.smooth_l1_loss_backward(g, x, y, MEAN, 1.0), None, ct.c_float(1.0))


@case("KlDiv", goal=1.0)
def kl_div(b):
    forward(b, TEACHER, "aclnnKlDiv", lambda x, y: F.kl_div(x, y, reduction="mean"), (-8, 0), False)


@case("BinaryCrossEntropy", goal=1.0)
def bce(b):
    forward(b, IMAGES[:1], "aclnnBinaryCrossEntropy", F.binary_cross_entropy, (0, 1), weights=1)


@case("BinaryCrossEntropyWithLogits", goal=1.0)
def bce_logits(b):
    forward(b, CLASSES + IMAGES[:1], "aclnnBinaryCrossEntropyWithLogits", F.binary_cross_entropy_with_logits, weights=2)


@case("CrossEntropyLoss", goal=1.0)
def cross_entropy(b):
    for layer, d, n, classes in (("ImageNet, batch 64", F32, 64, 1000), ("GPT-2, 64 tokens", F32, 64, 50257),
                                 ("BERT-base, 152 masked words", F32, 152, 30522),
                                 ("CIFAR-10, batch 128", F32, 128, 10),
                                 ("GPT-2, 64 tokens", BF16, 64, 50257)):
        x = b.random(d, (n, classes), -5, 5)
        target = b.random(I64, (n,), 0, classes - 1)
        t, u = b.torch(x), b.torch(target)
        b.compare(f"{d} {n}x{classes}", "aclnnCrossEntropyLoss",
                  [x, target, None, b"mean", -100, 0.0, 0.0, False, b.empty(d, ()), b.empty(d, x.shape), b.empty(d, ()),
                   b.empty(d, (n,))],
                  lambda: F.cross_entropy(t, u), layer=layer, bytes=2 * d.size * n * classes)


@case("SoftmaxCrossEntropyWithLogits", goal=1.0)
def softmax_cross_entropy(b):
    for layer, n, classes in (("ImageNet, soft labels, batch 64", 64, 1000), ("DistilBERT vocabulary", 64, 30522)):
        x, labels = b.random(F32, (n, classes), -5, 5), b.random(F32, (n, classes), 0, 1)
        t, u = b.torch(x), b.torch(labels)

        def peer():
            log_p = torch.log_softmax(t, 1)
            return -(u * log_p).sum(1), log_p.exp_().sub_(u)
        b.compare(f"f32 {n}x{classes}", "aclnnSoftmaxCrossEntropyWithLogits",
                  [x, labels, b.empty(F32, (n,)), b.empty(F32, x.shape)], peer, layer=layer,
                  bytes=3 * 4 * n * classes)


@case("NLLLoss2d", goal=1.0)
def nll_image(b):
    shape = (4, 21, 256, 256)
    x, target, weight = b.random(F32, shape, -5, 0), b.random(I64, (4, 256, 256), 0, 20), b.random(F32, (21,), 1, 2)
    t, u, w = b.torch(x), b.torch(target), b.torch(weight)
    b.compare(f"f32 {size(shape)}", "aclnnNLLLoss2d",
              [x, target, weight, MEAN, -100, b.empty(F32, ()), b.empty(F32, ())], lambda: F.nll_loss(t, u, w),
              layer="U-Net of Pascal VOC", bytes=4 * x.size)
