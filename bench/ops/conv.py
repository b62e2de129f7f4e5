# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pooling, interpolation and Im2col."""
import torch
import torch.nn.functional as F

from acl import Bools, Ints
from dtypes import BF16, F16, F32, I64, I8
from run import case

LAYERS = (  # layer, batch, channels, size, outputs, kernel, stride, padding, groups
    ("ResNet-50 conv1", 1, 3, 224, 64, 7, 2, 3, 1), ("ResNet-50 layer1 conv2", 1, 64, 56, 64, 3, 1, 1, 1),
    ("ResNet-50 layer1 conv3", 1, 64, 56, 256, 1, 1, 0, 1), ("ResNet-50 layer2 conv2, stride 2", 1, 128, 56, 128, 3, 2,
                                                             1, 1),
    ("ResNet-50 layer3 downsample", 1, 512, 28, 1024, 1, 2, 0, 1),
          ("ResNet-50 layer3 conv2", 1, 256, 14, 256, 3, 1, 1, 1),
    ("ResNet-50 layer4 conv1", 1, 2048, 7, 512, 1, 1, 0, 1), ("ResNet-50 layer1 conv2, batch 8", 8, 64, 56, 64, 3, 1,
                                                              1, 1),
    ("ResNet-50 layer4 conv2, batch 8", 8, 512, 7, 512, 3, 1, 1, 1), ("MobileNetV2 stem", 1, 3, 224, 32, 3, 2, 1, 1),
    ("MobileNetV3-L stem", 1, 3, 224, 16, 3, 2, 1, 1), ("YOLOv8n stem", 1, 3, 640, 16, 3, 2, 1, 1),
    ("MobileNetV2 block 1, stride 2", 1, 96, 112, 96, 3, 2, 1, 96),
          ("MobileNetV2 block 3, stride 2", 1, 144, 56, 144, 3, 2, 1, 144),
    ("MobileNetV2 block 8", 1, 384, 14, 384, 3, 1, 1, 384), ("EfficientNet-B0 block 9, 5x5", 1, 480, 14, 480, 5, 1, 2,
                                                             480),
    ("ConvNeXt-T stage 1, 7x7", 1, 96, 56, 96, 7, 1, 3, 96), ("ViT-B/16 patches", 1, 3, 224, 768, 16, 16, 0, 1),
    ("ResNeXt-50 layer2 conv2", 1, 256, 28, 256, 3, 1, 1, 32), ("U-Net block 1", 1, 64, 256, 64, 3, 1, 1, 1),
    ("U-Net block 5", 1, 512, 32, 512, 3, 1, 1, 1), ("YOLOv8n backbone stage 3", 1, 64, 80, 128, 3, 2, 1, 1),
    ("Stable Diffusion U-Net down 1", 2, 320, 64, 320, 3, 1, 1, 1),
)
TRAINED = (1, 2, 3, 5, 7, 8, 13)  # of LAYERS


def layer(b, d, shape):
    name, n, c, h, m, k, s, p, g = shape
    x, w, bias = b.random(d, (n, c, h, h)), b.random(d, (m, c // g, k, k), -1, 1), b.random(d, (m,))
    out = (h + 2 * p - k) // s + 1
    a = [Ints(s, s), Ints(p, p), Ints(1, 1), False, Ints(0, 0), g]
    return f"{d} {n}x{c}x{h} to {m}, {k}x{k}/{s}" + (f" by {g}" if g > 1 else ""), x, w, bias, (n, m, out, out), a, \
        2 * n * m * out * out * c // g * k * k


@case("Convolution", goal=0.77)
def convolution(b):
    for d, shapes in ((F32, LAYERS), (BF16, LAYERS[1:9]), (F16, LAYERS[1:3])):
        for shape in shapes:
            text, x, w, bias, out, a, flops = layer(b, d, shape)
            t, u, v = b.torch(x), b.torch(w), b.torch(bias)
            b.compare(text, "aclnnConvolution", [x, w, bias, *a, b.empty(d, out), 0],
                      lambda: F.conv2d(t, u, v, shape[6], shape[7], 1, shape[8]), layer=shape[0], flops=flops)


@case("ConvolutionBackward", goal=0.77)
def convolution_backward(b):
    for d, indices in ((F32, TRAINED), (BF16, TRAINED[:3])):
        for i in indices:
            shape = LAYERS[i]
            text, x, w, bias, out, a, flops = layer(b, d, shape)
            g = b.random(d, out)
            t, u, v = b.torch(x), b.torch(w), b.torch(g)
            s, p = [shape[6]] * 2, [shape[7]] * 2
            b.compare(text, "aclnnConvolutionBackward",
                      [g, x, w, Ints(out[1]), *a, Bools(True, True, True), 0, b.empty(d, x.shape), b.empty(d, w.shape),
                       b.empty(d, out[1:2])],
                      lambda: torch.ops.aten.convolution_backward(v, t, u, [out[1]], s, p, [1, 1], False, [0, 0],
                                                                  shape[8], [True, True, True]),
                      layer=shape[0], flops=2 * flops)


@case("Convolution1d", goal=0.77)
def convolution_1d(b):
    for name, c, m, k, s, length in (("Whisper-base conv1", 80, 512, 3, 1, 3000),
                                     ("Whisper-base conv2", 512, 512, 3, 2, 3000),
                                     ("wav2vec 2.0 conv 2", 512, 512, 3, 2, 3199)):
        x, w, bias = b.random(F32, (1, c, length)), b.random(F32, (m, c, k)), b.random(F32, (m,))
        t, u, v, p = b.torch(x), b.torch(w), b.torch(bias), k // 2
        b.compare(f"f32 {c}x{length} to {m}, {k}/{s}", "aclnnConvolution",
                  [x, w, bias, Ints(s), Ints(p), Ints(1), False, Ints(0), 1,
                   b.empty(F32, (1, m, (length + 2 * p - k) // s + 1)), 0],
                  lambda: F.conv1d(t, u, v, s, p), layer=name, flops=2 * c * m * k * length // s)
    for name, channels, length in (("Mamba-130M by llama.cpp", 1536, 512), ("Mamba-370M by llama.cpp", 2048, 35)):
        x, w = b.random(F32, (1, channels, length + 3)), b.random(F32, (channels, 1, 4))
        t, u = b.torch(x), b.torch(w)
        b.compare(f"f32 {channels}x{length} by channel", "aclnnConvolution",
                  [x, w, None, Ints(1), Ints(0), Ints(1), False, Ints(0), channels,
                   b.empty(F32, (1, channels, length), strides=(channels * length, 1, channels)), 0],
                  lambda: F.conv1d(t, u, None, groups=channels), layer=name)
    for name, c, m, k, s, length in (("HiFi-GAN upsampling 1", 512, 256, 16, 8, 100),
                                     ("EnCodec upsampling 4", 64, 32, 4, 2, 12000)):
        x, w = b.random(F32, (1, c, length)), b.random(F32, (c, m, k))
        t, u = b.torch(x), b.torch(w)
        b.compare(f"f32 transposed {c}x{length} to {m}, {k}/{s}", "aclnnConvolution",
                  [x, w, None, Ints(s), Ints(0), Ints(1), True, Ints(0), 1, b.empty(F32, (1, m, (length - 1) * s + k)),
                   0],
                  lambda: F.conv_transpose1d(t, u, None, s), layer=name)


@case("Transposed convolution", goal=0.77)
def transposed(b):
    for name, c, m, k, s, p, h in (("U-Net up 1", 1024, 512, 2, 2, 0, 16), ("U-Net up 4", 128, 64, 2, 2, 0, 128),
                                   ("DCGAN generator 2", 512, 256, 4, 2, 1, 8)):
        x, w = b.random(F32, (1, c, h, h)), b.random(F32, (c, m, k, k))
        t, u = b.torch(x), b.torch(w)
        out = (h - 1) * s + k - 2 * p
        b.compare(f"f32 {c}x{h} to {m}, {k}x{k}/{s}", "aclnnConvolution",
                  [x, w, None, Ints(s, s), Ints(p, p), Ints(1, 1), True, Ints(0, 0), 1, b.empty(F32, (1, m, out, out)),
                   0],
                  lambda: F.conv_transpose2d(t, u, None, s, p), layer=name, flops=2 * c * m * k * k * h * h)


@case("Im2col", goal=1.0)
def im2col(b):
    for name, d, c, h, k, s in (("ViT-B/16 patches", F32, 3, 224, 16, 16), ("T2T-ViT tokens", F32, 64, 56, 3, 2),
                                ("T2T-ViT image", F32, 3, 224, 7, 4)):
        x = b.random(d, (1, c, h, h))
        p = k // 2 if k < 16 else 0
        out = (h + 2 * p - k) // s + 1
        y = b.empty(d, (1, c * k * k, out * out))
        t, u = b.torch(x), b.torch(y)
        args = [Ints(k, k), Ints(1, 1), Ints(p, p), Ints(s, s)]
        b.compare(f"{d} {c}x{h}, {k}x{k}/{s}", "aclnnIm2col", [x, *args, y], lambda: F.unfold(t, k, 1, p, s),
                  layer=name, bytes=d.size * y.size)
        b.compare(f"backward {d} {c}x{h}, {k}x{k}/{s}", "aclnnIm2colBackward", [y, Ints(h, h), *args, x],
                  lambda: F.fold(u, (h, h), k, 1, p, s), layer=name, bytes=d.size * y.size)


@case("AvgPool2d", goal=1.0)
def avg_pool(b):
    for name, d, c, h, k, s in (("DenseNet-121 transition 1", F32, 128, 56, 2, 2), ("LeNet-5 S2", F32, 6, 28, 2, 2),
                                ("ResNet-50-D downsample", BF16, 256, 56, 2, 2)):
        x, out = b.random(d, (1, c, h, h)), (h - k) // s + 1
        t, y = b.torch(x), b.empty(d, (1, c, out, out))
        g = b.torch(y)
        args = [Ints(k, k), Ints(s, s), Ints(0, 0), False, True, 0, 0]
        b.compare(f"{d} {c}x{h}, {k}x{k}/{s}", "aclnnAvgPool2d", [x, *args, y], lambda: F.avg_pool2d(t, k, s),
                  layer=name)
        b.compare(f"backward {d} {c}x{h}, {k}x{k}/{s}", "aclnnAvgPool2dBackward", [y, x, *args, x],
                  lambda: torch.ops.aten.avg_pool2d_backward(g, t, [k, k], [s, s], [0, 0], False, True, None),
                  layer=name)


@case("AdaptiveAvgPool2d", goal=1.0)
def adaptive_avg_pool(b):
    for name, d, n, c, h, out in (("ResNet-50 head", F32, 1, 2048, 7, 1), ("MobileNetV3-L squeeze", F32, 1, 672, 14, 1),
                                  ("EfficientNet-B0 squeeze, batch 8", F32, 8, 480, 14, 1),
                                  ("PSPNet pyramid", F32, 1, 2048, 60, 6),
                                  ("VGG-16 head", F32, 1, 512, 7, 7), ("ResNet-50 head", BF16, 8, 2048, 7, 1)):
        x = b.random(d, (n, c, h, h))
        t, y = b.torch(x), b.empty(d, (n, c, out, out))
        b.compare(f"{d} {n}x{c}x{h} to {out}", "aclnnAdaptiveAvgPool2d", [x, Ints(out, out), y],
                  lambda: F.adaptive_avg_pool2d(t, out), layer=name)


@case("MaxPool2d", goal=1.0)
def max_pool(b):
    for name, d, c, h, k, s, p in (("ResNet-50 stem", F32, 64, 112, 3, 2, 1), ("U-Net pool 1", F32, 64, 256, 2, 2, 0),
                                   ("YOLOv8n SPPF", F32, 128, 20, 5, 1, 2), ("ResNet-50 stem", BF16, 64, 112, 3, 2, 1)):
        x, out = b.random(d, (1, c, h, h)), (h + 2 * p - k) // s + 1
        t, y, i = b.torch(x), b.empty(d, (1, c, out, out)), b.empty(I64, (1, c, out, out))
        mask = b.empty(I8, (1, c, k * k, (-(-out * out // 16) + 1) * 32))
        window = [Ints(k, k), Ints(s, s), Ints(p, p), Ints(1, 1), False]
        text = f"{d} {c}x{h}, {k}x{k}/{s}"
        peer = lambda: F.max_pool2d(t, k, s, p)
        b.compare(text, "aclnnMaxPool", [x, Ints(k, k), Ints(s, s), 0, Ints(p, p, p, p), Ints(1, 1), 0, y], peer,
                  layer=name)
        b.compare(text + " mask", "aclnnMaxPool2dWithMask", [x, *window, y, mask], peer, layer=name)
        b.compare(text + " indices", "aclnnMaxPool2dWithIndices", [x, *window, y, i],
                  lambda: F.max_pool2d(t, k, s, p, return_indices=True), layer=name)
        g, indices = F.max_pool2d(t, k, s, p, return_indices=True)
        b.compare(text + " mask backward", "aclnnMaxPool2dWithMaskBackward",
                  [y, x, mask, *window, b.empty(d, x.shape)],
                  lambda: torch.ops.aten.max_pool2d_with_indices_backward(g, t, [k, k], [s, s], [p, p], [1, 1], False,
                                                                          indices), layer=name)


@case("Upsample", goal=1.0)
def upsample(b):
    for kind, mode, anti, name, c, h, out in (
            ("Nearest2d", "nearest", False, "YOLOv8n head", 256, 20, 40),
            ("Nearest2d", "nearest", False, "Stable Diffusion U-Net up 2", 640, 32, 64),
            ("Bilinear2d", "bilinear", False, "U-Net up 4", 128, 128, 256),
            ("Bilinear2d", "bilinear", False, "DeepLabV3 classes", 21, 65, 513),
            ("Bilinear2dBackward", "bilinear", False, "U-Net up 4", 128, 128, 256),
            ("Bicubic2d", "bicubic", False, "ViT-B/16 positions to 384", 768, 14, 24),
            ("Bilinear2dAA", "bilinear", True, "CLIP image", 3, 512, 224)):
        x, y = b.random(F32, (1, c, h, h)), b.empty(F32, (1, c, out, out))
        t, g = b.torch(x), b.torch(y)
        text = f"{kind} f32 {c}x{h} to {out}"
        if kind == "Nearest2d":
            b.compare(text, "aclnnUpsampleNearest2d", [x, Ints(out, out), y], lambda: F.interpolate(t, out), layer=name)
        elif kind == "Bilinear2dBackward":
            b.compare(text, "aclnnUpsampleBilinear2dBackward",
                      [y, Ints(out, out), Ints(*x.shape), False, 0.0, 0.0, x],
                      lambda: torch.ops.aten.upsample_bilinear2d_backward(g, [out, out], list(x.shape), False),
                      layer=name)
        else:
            b.compare(text, "aclnnUpsample" + kind, [x, Ints(out, out), False, 0.0, 0.0, y],
                      lambda: F.interpolate(t, out, mode=mode, align_corners=False, antialias=anti), layer=name)
