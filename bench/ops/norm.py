# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms: attention, logits, hidden states, images; and gradients."""
import torch
import torch.nn.functional as F
from acl import Bools, Ints

from dtypes import BF16, F16, F32
from run import case, size

SCORES = (("ViT-B/16 attention", F32, (12, 197, 197)), ("BERT-base attention", F32, (8, 12, 128, 128)),
          ("Swin-T attention", F32, (64, 3, 49, 49)), ("Whisper-base encoder attention", F32, (8, 1500, 1500)),
          ("GPT-2 attention, one token", F32, (12, 1, 1024)), ("ImageNet classes, batch 8", F32, (8, 1000)),
          ("Llama-3-8B vocabulary, one token", F32, (1, 128256)), ("Stable Diffusion attention", F16, (8, 1024, 77)),
          ("Mixtral-8x7B gate", F32, (512, 8)), ("BERT-base attention", BF16, (8, 12, 128, 128)))
HIDDEN = (("ViT-B/16 hidden", F32, (197, 768)), ("BERT-base hidden", F32, (8 * 128, 768)),
          ("Swin-T stage 1", F32, (3136, 96)),
          ("Whisper-base encoder", F32, (1500, 512)), ("GPT-2 hidden, one token", F32, (1, 768)),
          ("ConvNeXt-T stage 4", F32, (49, 768)), ("BERT-base hidden", BF16, (8 * 128, 768)),
          ("ViT-B/16 hidden", F16, (197, 768)))
LLAMA = (("Llama-3-8B hidden, 512 tokens", F32, (512, 4096)), ("Llama-3-8B hidden, one token", F16, (1, 4096)),
         ("Llama-3-8B hidden, 512 tokens", BF16, (512, 4096)), ("Llama-3.2-1B hidden, 128 tokens", F32, (128, 2048)),
         ("Qwen3-8B query heads, 512 tokens", F32, (512 * 32, 128)))


def each(b, rows):
    for layer, d, shape in rows:
        yield layer, d, shape, b.random(d, shape), f"{d} {size(shape)}"


def softmax_like(b, op, function, rows):
    for layer, d, shape, x, what in each(b, rows):
        t, out = b.torch(x), torch.empty_like(b.torch(x))
        b.compare(what, op, [x, len(shape) - 1, b.empty(d, shape)], lambda: function(t, -1, out=out), layer=layer,
                  bytes=2 * d.size * x.size)


@case("Softmax", goal=0.6)
def softmax(b):
    softmax_like(b, "aclnnSoftmax", torch.softmax, SCORES)
    shape = (1, 21, 513 * 513)
    x = b.random(F32, shape)
    t = b.torch(x)
    b.compare(f"f32 {size(shape)} along 1", "aclnnSoftmax", [x, 1, b.empty(F32, shape)], lambda: torch.softmax(t, 1),
              layer="DeepLabV3 classes", bytes=8 * x.size)


@case("LogSoftmax", goal=0.6)
def log_softmax(b):
    softmax_like(b, "aclnnLogSoftmax", torch.log_softmax, (("GPT-2 vocabulary, 64 tokens", F32, (64, 50257)),
                                                           ("ImageNet classes, batch 64", F32, (64, 1000)),
                                                           ("CTC of DeepSpeech 2", F32, (500, 29))))


@case("SoftmaxBackward", goal=1.0)
def softmax_backward(b):
    for op, function, rows in (("Softmax", torch._softmax_backward_data, SCORES[:3]),
                               ("LogSoftmax", torch._log_softmax_backward_data, (("ImageNet classes, batch 64", F32,
                                                                                  (64, 1000)),))):
        for layer, d, shape, x, what in each(b, rows):
            y = b.random(d, shape, -3, -1)
            g, t, dtype, dim = b.torch(x), b.torch(y), b.torch(y).dtype, len(shape) - 1
            b.compare(f"{op} {what}", f"aclnn{op}Backward", [x, y, dim, b.empty(d, shape)],
                      lambda: function(g, t, dim, dtype), layer=layer, bytes=3 * d.size * x.size)


@case("LayerNorm", goal=0.6)
def layer_norm(b):
    for layer, d, shape, x, what in each(b, HIDDEN):
        w, v = b.random(d, shape[1:]), b.random(d, shape[1:])
        t, tw, tv, n = b.torch(x), b.torch(w), b.torch(v), shape[1:]
        m, r = b.empty(F32, shape[:1]), b.empty(F32, shape[:1])
        b.compare(what, "aclnnLayerNorm", [x, Ints(*n), w, v, 1e-5, b.empty(d, shape), m, r],
                  lambda: torch.native_layer_norm(t, n, tw, tv, 1e-5), layer=layer, bytes=2 * d.size * x.size)


@case("RmsNorm", goal=0.6)
def rms_norm(b):
    for layer, d, shape, x, what in each(b, LLAMA):
        w = b.random(d, shape[1:])
        t, tw, n = b.torch(x), b.torch(w), shape[1:]
        b.compare(what, "aclnnRmsNorm", [x, w, 1e-5, b.empty(d, shape), b.empty(F32, shape[:1])],
                  lambda: F.rms_norm(t, n, tw, 1e-5), layer=layer, bytes=2 * d.size * x.size)


@case("LayerNormBackward", goal=1.0)
def layer_norm_backward(b):
    for layer, d, shape, x, what in each(b, HIDDEN[:3] + HIDDEN[6:7]):
        dy, w, n = b.random(d, shape), b.random(d, shape[1:]), shape[1:]
        t, g, tw = b.torch(x), b.torch(dy), b.torch(w)
        _, tm, tr = torch.native_layer_norm(t, n, tw, tw, 1e-5)
        m, r = b.of(F32, tm.float().reshape(-1).numpy()), b.of(F32, tr.float().reshape(-1).numpy())
        b.compare(what, "aclnnLayerNormBackward",
                  [dy, x, Ints(*n), m, r, w, w, Bools(True, True, True), b.empty(d, shape), b.empty(d, n),
                   b.empty(d, n)],
                  lambda: torch.ops.aten.native_layer_norm_backward(g, t, n, tm, tr, tw, tw, [True] * 3), layer=layer,
                  bytes=3 * d.size * x.size)


GROUPED = (("Stable Diffusion U-Net down 1", F32, (2, 320, 64, 64)),
           ("Stable Diffusion U-Net down 3", F32, (2, 1280, 16, 16)),
           ("Stable Diffusion U-Net down 1", F16, (2, 320, 64, 64)), ("DDPM of CIFAR-10", F32, (16, 128, 32, 32)))


@case("GroupNorm", goal=1.0)
def group_norm(b):
    for layer, d, shape, x, what in each(b, GROUPED):
        n, c, hw, g = shape[0], shape[1], shape[2] * shape[3], 32
        w, v = b.random(d, (c,)), b.random(d, (c,))
        t, tw, tv = b.torch(x), b.torch(w), b.torch(v)
        b.compare(what, "aclnnGroupNorm",
                  [x, w, v, n, c, hw, g, 1e-5, b.empty(d, shape), b.empty(d, (n, g)), b.empty(d, (n, g))],
                  lambda: torch.native_group_norm(t, tw, tv, n, c, hw, g, 1e-5), layer=layer,
                  bytes=2 * d.size * x.size)


@case("GroupNormBackward", goal=1.0)
def group_norm_backward(b):
    for layer, d, shape, x, what in each(b, GROUPED):
        n, c, hw, g = shape[0], shape[1], shape[2] * shape[3], 32
        dy, w = b.random(d, shape), b.random(d, (c,))
        t, tg, tw = b.torch(x), b.torch(dy), b.torch(w)
        _, tm, tr = torch.native_group_norm(t, tw, tw, n, c, hw, g, 1e-5)
        m, r = b.of(F32, tm.float().numpy()), b.of(F32, tr.float().numpy())
        b.compare(what, "aclnnGroupNormBackward",
                  [dy, x, m, r, w, n, c, hw, g, Bools(True, True, True), b.empty(d, shape), b.empty(d, (c,)),
                   b.empty(d, (c,))],
                  lambda: torch.ops.aten.native_group_norm_backward(tg, t, tm, tr, tw, n, c, hw, g, [True] * 3),
                  layer=layer, bytes=3 * d.size * x.size)


BATCHES = (("ResNet-50 conv1, batch 8", F32, (8, 64, 112, 112)), ("ResNet-50 layer3", F32, (1, 1024, 14, 14)),
           ("ResNet-50 layer4, batch 8", F32, (8, 2048, 7, 7)), ("MobileNetV2 block 2", F32, (1, 144, 56, 56)),
           ("PointNet features", F32, (32, 1024)), ("ResNet-50 layer1, batch 8", BF16, (8, 256, 56, 56)))


@case("BatchNorm", goal=1.0)
def batch_norm(b):
    for layer, d, shape, x, what in each(b, BATCHES):
        c = shape[1]
        vectors = [b.random(F32, (c,), 0.5, 2) for _ in range(4)]
        t, (tw, tv, tm, tr) = b.torch(x), (b.torch(v) for v in vectors)
        for training in (True, False):
            b.compare(f"{what} {'training' if training else 'inference'}", "aclnnBatchNorm",
                      [x, *vectors, training, 0.1, 1e-5, b.empty(d, shape), b.empty(F32, (c,)), b.empty(F32, (c,))],
                      lambda: torch.native_batch_norm(t, tw, tv, tm, tr, training, 0.1, 1e-5), layer=layer,
                      bytes=2 * d.size * x.size)


@case("BatchNormBackward", goal=1.0)
def batch_norm_backward(b):
    for layer, d, shape, x, what in each(b, BATCHES):
        c = shape[1]
        dy, vectors = b.random(d, shape), [b.random(F32, (c,), 0.5, 2) for _ in range(3)]
        t, tg, (tw, tm, tr) = b.torch(x), b.torch(dy), (b.torch(v) for v in vectors)
        w, m, r = vectors
        b.compare(what, "aclnnBatchNormBackward",
                  [dy, x, w, m, r, m, r, True, 1e-5, Bools(True, True, True), b.empty(d, shape), b.empty(F32, (c,)),
                   b.empty(F32, (c,))],
                  lambda: torch.ops.aten.native_batch_norm_backward(tg, t, tw, tm, tr, tm, tr, True, 1e-5, [True] * 3),
                  layer=layer, bytes=3 * d.size * x.size)
