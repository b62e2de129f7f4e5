# SPDX-License-Identifier: Apache-2.0
"""Softmax and norms: rows that fit into the cache and larger ones, short rows, strided rows, groups and channels; and
gradients.
"""
import torch
import torch.nn.functional as F
from acl import Bools, Ints

from dtypes import BF16, F16, F32
from run import case

ALL = (F32, BF16, F16)
ROWS = ((128, 1024), (4096, 4096), (65536, 64))


def rows(b, dtypes=ALL, shapes=ROWS):
    for d in dtypes:
        for shape in shapes:
            yield d, shape, b.random(d, shape), f"{d} {' x '.join(map(str, shape))}", d.size * shape[0] * shape[1]


def softmax_like(b, op, function):
    for d, shape, x, what, size in rows(b):
        t = b.torch(x)
        b.compare(what, op, [x, 1, b.empty(d, shape)], lambda: function(t, 1), bytes=2 * size)
    for d, shape, x, what, size in rows(b, shapes=((4096, 4096), (1024, 512))):
        t = b.torch(x)
        b.compare(what + " along 0", op, [x, 0, b.empty(d, shape)], lambda: function(t, 0), bytes=2 * size)


@case("Softmax", goal=0.6)
def softmax(b):
    softmax_like(b, "aclnnSoftmax", torch.softmax)


@case("LogSoftmax", goal=0.6)
def log_softmax(b):
    softmax_like(b, "aclnnLogSoftmax", torch.log_softmax)
    x = b.random(F32, (64, 50257))
    t = b.torch(x)
    b.compare("f32 64 x 50257", "aclnnLogSoftmax", [x, 1, b.empty(F32, x.shape)], lambda: torch.log_softmax(t, 1),
              bytes=8 * 64 * 50257)


@case("SoftmaxBackward", goal=1.0)
def softmax_backward(b):
    for op, function in (("Softmax", torch._softmax_backward_data), ("LogSoftmax", torch._log_softmax_backward_data)):
        for d, shape, x, what, size in rows(b):
            y = b.random(d, shape, -3, -1)
            g, t, dtype = b.torch(x), b.torch(y), b.torch(y).dtype
            b.compare(f"{op} {what}", f"aclnn{op}Backward", [x, y, 1, b.empty(d, shape)],
                      lambda: function(g, t, 1, dtype), bytes=3 * size)


@case("LayerNorm", goal=0.6)
def layer_norm(b):
    for d, shape, x, what, size in rows(b):
        w, v = b.random(d, shape[1:]), b.random(d, shape[1:])
        t, tw, tv, n = b.torch(x), b.torch(w), b.torch(v), shape[1:]
        m, r = b.empty(F32, shape[:1]), b.empty(F32, shape[:1])
        b.compare(what, "aclnnLayerNorm", [x, Ints(*n), w, v, 1e-5, b.empty(d, shape), m, r],
                  lambda: torch.native_layer_norm(t, n, tw, tv, 1e-5), bytes=2 * size)


@case("RmsNorm", goal=0.6)
def rms_norm(b):
    for d, shape, x, what, size in rows(b):
        w = b.random(d, shape[1:])
        t, tw, n = b.torch(x), b.torch(w), shape[1:]
        b.compare(what, "aclnnRmsNorm", [x, w, 1e-5, b.empty(d, shape), b.empty(F32, shape[:1])],
                  lambda: F.rms_norm(t, n, tw, 1e-5), bytes=2 * size)


@case("LayerNormBackward", goal=1.0)
def layer_norm_backward(b):
    for d, shape, x, what, size in rows(b):
        dy, w, n = b.random(d, shape), b.random(d, shape[1:]), shape[1:]
        t, g, tw = b.torch(x), b.torch(dy), b.torch(w)
        _, tm, tr = torch.native_layer_norm(t, n, tw, tw, 1e-5)
        m, r = b.of(F32, tm.float().reshape(-1).numpy()), b.of(F32, tr.float().reshape(-1).numpy())
        b.compare(what, "aclnnLayerNormBackward",
                  [dy, x, Ints(*n), m, r, w, w, Bools(True, True, True), b.empty(d, shape), b.empty(d, n),
                   b.empty(d, n)],
                  lambda: torch.ops.aten.native_layer_norm_backward(g, t, n, tm, tr, tw, tw, [True] * 3),
                  bytes=3 * size)


IMAGES = ((32, 64, 56, 56), (8, 512, 7, 7), (1, 320, 64, 64))


@case("GroupNorm", goal=1.0)
def group_norm(b):
    for d in ALL:
        for shape in IMAGES:
            n, c, hw, g = shape[0], shape[1], shape[2] * shape[3], 32
            x, w, v = b.random(d, shape), b.random(d, (c,)), b.random(d, (c,))
            t, tw, tv = b.torch(x), b.torch(w), b.torch(v)
            b.compare(f"{d} {shape}", "aclnnGroupNorm",
                      [x, w, v, n, c, hw, g, 1e-5, b.empty(d, shape), b.empty(d, (n, g)), b.empty(d, (n, g))],
                      lambda: torch.native_group_norm(t, tw, tv, n, c, hw, g, 1e-5), bytes=2 * d.size * n * c * hw)


@case("GroupNormBackward", goal=1.0)
def group_norm_backward(b):
    for d in ALL:
        for shape in IMAGES:
            n, c, hw, g = shape[0], shape[1], shape[2] * shape[3], 32
            x, dy, w = b.random(d, shape), b.random(d, shape), b.random(d, (c,))
            t, tg, tw = b.torch(x), b.torch(dy), b.torch(w)
            _, tm, tr = torch.native_group_norm(t, tw, tw, n, c, hw, g, 1e-5)
            m, r = b.of(F32, tm.float().numpy()), b.of(F32, tr.float().numpy())
            b.compare(f"{d} {shape}", "aclnnGroupNormBackward",
                      [dy, x, m, r, w, n, c, hw, g, Bools(True, True, True), b.empty(d, shape), b.empty(d, (c,)),
                       b.empty(d, (c,))],
                      lambda: torch.ops.aten.native_group_norm_backward(tg, t, tm, tr, tw, n, c, hw, g, [True] * 3),
                      bytes=3 * d.size * n * c * hw)


BATCHES = ((32, 64, 56, 56), (32, 512, 7, 7), (4096, 1024))


@case("BatchNorm", goal=1.0)
def batch_norm(b):
    for d in (F32, BF16):
        for shape in BATCHES:
            c = shape[1]
            x, vectors = b.random(d, shape), [b.random(F32, (c,), 0.5, 2) for _ in range(4)]
            t, (tw, tv, tm, tr) = b.torch(x), (b.torch(v) for v in vectors)
            size = d.size * x.size
            for training in (True, False):
                b.compare(f"{d} {shape} {'training' if training else 'inference'}", "aclnnBatchNorm",
                          [x, *vectors, training, 0.1, 1e-5, b.empty(d, shape), b.empty(F32, (c,)), b.empty(F32, (c,))],
                          lambda: torch.native_batch_norm(t, tw, tv, tm, tr, training, 0.1, 1e-5), bytes=2 * size)


@case("BatchNormBackward", goal=1.0)
def batch_norm_backward(b):
    for d in (F32, BF16):
        for shape in BATCHES:
            c = shape[1]
            x, dy, vectors = b.random(d, shape), b.random(d, shape), [b.random(F32, (c,), 0.5, 2) for _ in range(3)]
            t, tg, (tw, tm, tr) = b.torch(x), b.torch(dy), (b.torch(v) for v in vectors)
            w, m, r = vectors
            b.compare(f"{d} {shape}", "aclnnBatchNormBackward",
                      [dy, x, w, m, r, m, r, True, 1e-5, Bools(True, True, True), b.empty(d, shape), b.empty(F32, (c,)),
                       b.empty(F32, (c,))],
                      lambda: torch.ops.aten.native_batch_norm_backward(tg, t, tw, tm, tr, tm, tr, True, 1e-5,
                                                                        [True] * 3),
                      bytes=3 * d.size * x.size)


@case("small norm", goal=0.6)
def small(b):
    x, w = b.random(F32, (1, 16)), b.random(F32, (16,))
    t, tw = b.torch(x), b.torch(w)
    b.compare("Softmax of 16", "aclnnSoftmax", [x, 1, b.empty(F32, x.shape)], lambda: torch.softmax(t, 1))
    b.compare("RmsNorm of 16", "aclnnRmsNorm", [x, w, 1e-5, b.empty(F32, x.shape), b.empty(F32, (1,))],
              lambda: F.rms_norm(t, (16,), tw, 1e-5))
