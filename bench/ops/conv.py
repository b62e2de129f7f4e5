# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling, interpolation and Im2col."""
import torch
import torch.nn.functional as F

from acl import Bools, Ints
from dtypes import BF16, F16, F32, I64, I8
from run import case

LAYERS = (  # batch, channels, size, outputs, kernel, stride, padding, groups
    (1, 64, 56, 64, 3, 1, 1, 1), (1, 64, 56, 256, 1, 1, 0, 1), (1, 256, 56, 64, 1, 1, 0, 1),
    (1, 128, 28, 128, 3, 1, 1, 1),
    (1, 256, 14, 256, 3, 1, 1, 1), (1, 512, 7, 512, 3, 1, 1, 1), (1, 512, 7, 2048, 1, 1, 0, 1),
    (1, 2048, 7, 512, 1, 1, 0, 1),
    (1, 3, 224, 64, 7, 2, 3, 1), (1, 128, 56, 128, 3, 2, 1, 1), (1, 256, 56, 512, 1, 2, 0, 1),
    (8, 64, 56, 64, 3, 1, 1, 1),
    (8, 512, 7, 512, 3, 1, 1, 1), (1, 96, 56, 96, 3, 1, 1, 96), (1, 384, 14, 384, 3, 1, 1, 384),
)


def layer(b, d, shape):
    n, c, h, m, k, s, p, g = shape
    x, w, bias = b.random(d, (n, c, h, h)), b.random(d, (m, c // g, k, k), -1, 1), b.random(d, (m,))
    out = (h + 2 * p - k) // s + 1
    a = [Ints(s, s), Ints(p, p), Ints(1, 1), False, Ints(0, 0), g]
    return f"{d} {n}x{c}x{h} to {m}, {k}x{k}/{s}" + (" by channel" if g > 1 else ""), x, w, bias, (n, m, out, out), a, \
        2 * n * m * out * out * c // g * k * k


@case("Convolution", goal=0.77)
def convolution(b):
    for d in (F32, BF16, F16):
        for shape in LAYERS[:len(LAYERS) if d is not F16 else 3]:
            text, x, w, bias, out, a, flops = layer(b, d, shape)
            t, u, v = b.torch(x), b.torch(w), b.torch(bias)
            b.compare(text, "aclnnConvolution", [x, w, bias, *a, b.empty(d, out), 0],
                      lambda: F.conv2d(t, u, v, shape[5], shape[6], 1, shape[7]), flops=flops)


@case("ConvolutionBackward", goal=0.77)
def convolution_backward(b):
    for d in (F32, BF16):
        for shape in LAYERS:
            text, x, w, bias, out, a, flops = layer(b, d, shape)
            g = b.random(d, out)
            t, u, v = b.torch(x), b.torch(w), b.torch(g)
            s, p = [shape[5]] * 2, [shape[6]] * 2
            b.compare(text, "aclnnConvolutionBackward",
                      [g, x, w, Ints(out[1]), *a, Bools(True, True, True), 0, b.empty(d, x.shape), b.empty(d, w.shape),
                       b.empty(d, out[1:2])],
                      lambda: torch.ops.aten.convolution_backward(v, t, u, [out[1]], s, p, [1, 1], False, [0, 0],
                                                                  shape[7], [True, True, True]), flops=2 * flops)


@case("Convolution1d", goal=0.77)
def convolution_1d(b):
    for channels, length in ((1536, 512), (2048, 35)):                     # ggml's SSM_CONV
        x, w = b.random(F32, (1, channels, length + 3)), b.random(F32, (channels, 1, 4))
        t, u = b.torch(x), b.torch(w)
        b.compare(f"by channel {channels} x {length}", "aclnnConvolution",
                  [x, w, None, Ints(1), Ints(0), Ints(1), False, Ints(0), channels,
                   b.empty(F32, (1, channels, length), strides=(channels * length, 1, channels)), 0],
                  lambda: F.conv1d(t, u, None, groups=channels))
    for c, m, k, s, length in ((3, 2, 255, 3, 300), (512, 256, 16, 8, 100)):
        x, w = b.random(F32, (1, c, length)), b.random(F32, (c, m, k))
        t, u = b.torch(x), b.torch(w)
        b.compare(f"transposed {c} to {m}, {k}/{s}", "aclnnConvolution",
                  [x, w, None, Ints(s), Ints(0), Ints(1), True, Ints(0), 1, b.empty(F32, (1, m, (length - 1) * s + k)),
                   0],
                  lambda: F.conv_transpose1d(t, u, None, s))


@case("Im2col", goal=1.0)
def im2col(b):
    for d in (F32, F16):
        for c, h, k, s in ((64, 56, 3, 1), (64, 56, 3, 2), (3, 224, 7, 2)):
            x = b.random(d, (1, c, h, h))
            out = (h + 2 * (k // 2) - k) // s + 1
            y = b.empty(d, (1, c * k * k, out * out))
            t, u = b.torch(x), b.torch(y)
            args = [Ints(k, k), Ints(1, 1), Ints(k // 2, k // 2), Ints(s, s)]
            b.compare(f"{d} {c}x{h}, {k}x{k}/{s}", "aclnnIm2col", [x, *args, y], lambda: F.unfold(t, k, 1, k // 2, s),
                      bytes=d.size * y.size)
            b.compare(f"{d} {c}x{h}, {k}x{k}/{s} backward", "aclnnIm2colBackward", [y, Ints(h, h), *args, x],
                      lambda: F.fold(u, (h, h), k, 1, k // 2, s), bytes=d.size * y.size)


@case("AvgPool2d", goal=1.0)
def avg_pool(b):
    for d in (F32, BF16):
        for c, h, k, s in ((64, 56, 2, 2), (64, 56, 3, 2), (64, 112, 3, 1)):
            x, out = b.random(d, (1, c, h, h)), (h - k) // s + 1
            t, y = b.torch(x), b.empty(d, (1, c, out, out))
            g = b.torch(y)
            args = [Ints(k, k), Ints(s, s), Ints(0, 0), False, True, 0, 0]
            b.compare(f"{d} {c}x{h}, {k}x{k}/{s}", "aclnnAvgPool2d", [x, *args, y], lambda: F.avg_pool2d(t, k, s))
            b.compare(f"{d} {c}x{h}, {k}x{k}/{s} backward", "aclnnAvgPool2dBackward", [y, x, *args, x],
                      lambda: torch.ops.aten.avg_pool2d_backward(g, t, [k, k], [s, s], [0, 0], False, True, None))


@case("AdaptiveAvgPool2d", goal=1.0)
def adaptive_avg_pool(b):
    for d in (F32, BF16):
        for c, h, out in ((2048, 7, 1), (256, 56, 7)):
            x = b.random(d, (1, c, h, h))
            t, y = b.torch(x), b.empty(d, (1, c, out, out))
            b.compare(f"{d} {c}x{h} to {out}", "aclnnAdaptiveAvgPool2d", [x, Ints(out, out), y],
                      lambda: F.adaptive_avg_pool2d(t, out))


@case("MaxPool2d", goal=1.0)
def max_pool(b):
    for d in (F32, BF16):
        for c, h, k, s, p in ((64, 112, 3, 2, 1), (64, 56, 2, 2, 0)):
            x, out = b.random(d, (1, c, h, h)), (h + 2 * p - k) // s + 1
            t, y, i = b.torch(x), b.empty(d, (1, c, out, out)), b.empty(I64, (1, c, out, out))
            mask = b.empty(I8, (1, c, k * k, (-(-out * out // 16) + 1) * 32))
            window = [Ints(k, k), Ints(s, s), Ints(p, p), Ints(1, 1), False]
            text = f"{d} {c}x{h}, {k}x{k}/{s}"
            peer = lambda: F.max_pool2d(t, k, s, p)
            b.compare(text, "aclnnMaxPool", [x, Ints(k, k), Ints(s, s), 0, Ints(p, p, p, p), Ints(1, 1), 0, y], peer)
            b.compare(text + " mask", "aclnnMaxPool2dWithMask", [x, *window, y, mask], peer)
            b.compare(text + " indices", "aclnnMaxPool2dWithIndices", [x, *window, y, i],
                      lambda: F.max_pool2d(t, k, s, p, return_indices=True))
            g, indices = F.max_pool2d(t, k, s, p, return_indices=True)
            b.compare(text + " mask backward", "aclnnMaxPool2dWithMaskBackward",
                      [y, x, mask, *window, b.empty(d, x.shape)],
                      lambda: torch.ops.aten.max_pool2d_with_indices_backward(g, t, [k, k], [s, s], [p, p], [1, 1],
                                                                              False, indices))


@case("Upsample", goal=1.0)
def upsample(b):
    for d in (F32, BF16):
        for c, h, out in ((64, 56, 112), (16, 256, 100)):
            x, y = b.random(d, (1, c, h, h)), b.empty(d, (1, c, out, out))
            t = b.torch(x)
            text = f"{d} {c}x{h} to {out}"
            b.compare("nearest " + text, "aclnnUpsampleNearest2d", [x, Ints(out, out), y],
                      lambda: F.interpolate(t, out))
            for name, mode, anti in (("Bilinear2d", "bilinear", False), ("Bicubic2d", "bicubic", False),
                                     ("Bilinear2dAA", "bilinear", True)):
                if anti and d is BF16:                                  # PyTorch does not support it
                    continue
                b.compare(f"{name} {text}", "aclnnUpsample" + name, [x, Ints(out, out), False, 0.0, 0.0, y],
                          lambda: F.interpolate(t, out, mode=mode, align_corners=False, antialias=anti))
            g = b.torch(y)
            b.compare(f"Bilinear2dBackward {text}", "aclnnUpsampleBilinear2dBackward",
                      [y, Ints(out, out), Ints(*x.shape), False, 0.0, 0.0, x],
                      lambda: torch.ops.aten.upsample_bilinear2d_backward(g, [out, out], list(x.shape), False))
