# SPDX-License-Identifier: Apache-2.0
"""Copies, transpositions, lists of tensors, repetitions and padding."""
import torch

from dtypes import F16, F32, I8
from run import case, size


def elements(b, d, shape):
    return b.random(d, shape, -100, 100)


@case("Copy", goal=1.0)
def copies(b):
    for layer, shape in (("Llama-3-8B hidden, one token", (1, 4096)), ("ViT-B/16 hidden", (197, 768)),
                         ("ResNet-50 layer1", (8, 256, 56, 56)), ("GPT-2 word embeddings", (50257, 768))):
        x, out = elements(b, F32, shape), b.empty(F32, shape)
        t, o = b.torch(x), torch.empty(shape)
        b.compare(f"f32 {size(shape)}", "aclnnInplaceCopy", [out, x], lambda: o.copy_(t), layer=layer,
                  bytes=8 * x.size)
    for layer, n, width, pitch in (("ViT-B/16 queries of qkv", 197, 768, 2304), ("SSD300 box centres", 8732, 2, 4),
                                   ("Swin-T window of tokens", 392, 96, 672)):
        x = elements(b, F32, (n, pitch))
        t, o = b.torch(x)[:, :width], torch.empty(n, width)
        view = b.acl.Tensor(F32, (n, width), (pitch, 1))
        view.block = x.block
        b.compare(f"f32 {n}x{width} of rows of {pitch}", "aclnnInplaceCopy", [b.empty(F32, (n, width)), view],
                  lambda: o.copy_(t), layer=layer, bytes=8 * n * width)


@case("Permute", goal=1.0)
def transposes(b):
    for layer, d, shape, dims in (
            ("ViT-B/16 heads", F32, (1, 197, 12, 64), (0, 2, 1, 3)),
                                  ("BERT-base heads", F32, (8, 128, 12, 64), (0, 2, 1, 3)),
            ("BERT-base keys", F32, (8, 12, 128, 64), (0, 1, 3, 2)),
                                  ("ViT-B/16 patches", F32, (1, 768, 196), (0, 2, 1)),
            ("BERT-base mlp weight", F32, (3072, 768), (1, 0)), ("Llama-3-8B heads, 512 tokens", F16, (1, 512, 32, 128),
                                                                 (0, 2, 1, 3)),
            ("ConvNeXt-T to channels last", F32, (1, 96, 56, 56), (0, 2, 3, 1)),
            ("ConvNeXt-T to channels first", F32, (1, 56, 56, 96), (0, 3, 1, 2)),
            ("ResNet-50 image", F32, (8, 224, 224, 3), (0, 3, 1, 2)),
                                  ("ResNet-50 image", I8, (8, 224, 224, 3), (0, 3, 1, 2)),
            ("ShuffleNetV2 channels", F32, (1, 2, 58, 784), (0, 2, 1, 3)),
            ("Swin-T windows", F32, (8, 7, 8, 7, 96), (0, 2, 1, 3, 4)),
            ("YOLOv8n head", F32, (1, 84, 8400), (0, 2, 1)), ("Whisper-base mel frames", F16, (80, 3000), (1, 0))):
        x = elements(b, d, shape)
        t = b.torch(x)
        result = tuple(shape[i] for i in dims)
        o = torch.empty(result, dtype=t.dtype)
        b.compare(f"{d} {size(shape)} by {','.join(map(str, dims))}", "aclnnPermute",
                  [x, b.acl.Ints(*dims), b.empty(d, result)], lambda: o.copy_(t.permute(dims)), layer=layer,
                  bytes=2 * d.size * t.numel())


@case("Cat", goal=1.0)
def joined(b):
    for layer, shapes, dim in (("U-Net skip 1", ((1, 64, 256, 256),) * 2, 1),
                               ("U-Net skip 4", ((1, 512, 32, 32),) * 2, 1),
                               ("YOLOv8n SPPF", ((1, 128, 20, 20),) * 4, 1),
                               ("DenseNet-121 block 3", ((1, 32, 14, 14),) * 24, 1),
                               ("ViT-B/16 class token", ((1, 1, 768), (1, 196, 768)), 1),
                               ("GPT-2 cache, one token", ((1, 12, 255, 64), (1, 12, 1, 64)), 2),
                               ("Llama-3-8B rotary halves", ((1, 32, 512, 64),) * 2, 3),
                               ("YOLOv8n head", ((1, 144, 6400), (1, 144, 1600), (1, 144, 400)), 2)):
        parts = [elements(b, F32, s) for s in shapes]
        ts = [b.torch(p) for p in parts]
        o = torch.cat(ts, dim)
        b.compare(f"f32 {len(shapes)} of {size(shapes[0])} along {dim}", "aclnnCat",
                  [b.acl.TensorList(parts), dim, b.empty(F32, o.shape)], lambda: torch.cat(ts, dim, out=o), layer=layer,
                  bytes=8 * o.numel())


@case("Split", goal=1.0)
def split(b):
    for layer, shape, dim, n in (("GPT-2 qkv, 256 tokens", (1, 256, 2304), 2, 3),
                                 ("YOLOv8n C2f", (1, 32, 160, 160), 1, 2),
                                 ("Llama-3-8B gate and up", (64, 28672), 1, 2),
                                 ("LSTM gates, 256 units", (32, 1024), 1, 4)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        outs = [p.clone() for p in t.chunk(n, dim)]
        b.compare(f"f32 {size(shape)} into {n} along {dim}", "aclnnSplitTensor",
                  [x, shape[dim] // n, dim, b.acl.TensorList([b.empty(F32, tuple(o.shape)) for o in outs])],
                  lambda: torch.split_copy(t, shape[dim] // n, dim, out=outs), layer=layer, bytes=8 * x.size)


@case("Slice", goal=1.0)
def slices(b):
    for layer, shape, dim, begin, end, step in (("Swin-T patch merging", (1, 56, 56, 96), 2, 0, 56, 2),
                                                ("ViT-B/16 class token", (8, 197, 768), 1, 0, 1, 1),
                                                ("Llama-3-8B rotary even", (512, 32, 128), 2, 0, 128, 2),
                                                ("U-Net crop", (1, 64, 568, 568), 3, 88, 480, 1),
                                                ("Focus of YOLOv5", (1, 3, 640, 640), 3, 0, 640, 2)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        at = (slice(None),) * dim + (slice(begin, end, step),)
        o = t[at].clone()
        b.compare(f"f32 {size(shape)} {begin}:{end}:{step} of {dim}", "aclnnSlice",
                  [x, dim, begin, end, step, b.empty(F32, tuple(o.shape))], lambda: o.copy_(t[at]), layer=layer,
                  bytes=8 * o.numel())


@case("Flip", goal=1.0)
def flip(b):
    for layer, shape, dim in (("ResNet-50 augmentation", (8, 3, 224, 224), 3),
                              ("BiLSTM, 128 steps", (128, 32, 256), 0)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        b.compare(f"f32 {size(shape)} along {dim}", "aclnnFlip", [x, b.acl.Ints(dim), b.empty(F32, shape)],
                  lambda: torch.flip(t, (dim,)), layer=layer, bytes=8 * x.size)


@case("Roll", goal=1.0)
def roll(b):
    shape = (1, 56, 56, 96)
    x = elements(b, F32, shape)
    t = b.torch(x)
    b.compare(f"f32 {size(shape)} by 3,3", "aclnnRoll", [x, b.acl.Ints(3, 3), b.acl.Ints(1, 2), b.empty(F32, shape)],
              lambda: torch.roll(t, (3, 3), (1, 2)), layer="Swin-T shifted windows", bytes=8 * x.size)


@case("Repeat", goal=1.0)
def repeats(b):
    for layer, shape, times in (("ViT-B/16 class token, batch 8", (1, 1, 768), (8, 1, 1)),
                                ("DETR queries, batch 8", (100, 1, 256), (1, 8, 1)),
                                ("SAM image embedding", (1, 256, 64, 64), (4, 1, 1, 1))):
        x = elements(b, F32, shape)
        t = b.torch(x)
        o = t.repeat(times)
        b.compare(f"f32 {size(shape)} by {','.join(map(str, times))}", "aclnnRepeat",
                  [x, b.acl.Ints(*times), b.empty(F32, tuple(o.shape))], lambda: t.repeat(times), layer=layer,
                  bytes=4 * (o.numel() + t.numel()))
    x = elements(b, F32, (8, 256, 128))
    t = b.torch(x)
    b.compare("f32 8x256x128, each 4 times", "aclnnRepeatInterleaveIntWithDim",
              [x, 4, 0, 32, b.empty(F32, (32, 256, 128))], lambda: torch.repeat_interleave(t, 4, 0),
              layer="Llama-3-8B keys of groups", bytes=5 * 4 * x.size)


@case("Pad", goal=1.0)
def pads(b):
    for layer, shape, (w, h) in (("ResNet-50 layer1", (1, 64, 56, 56), (1, 1)),
                                 ("EfficientNet-B0 stride 2", (1, 96, 112, 112),
                                                                              (1, 1)),
                                 ("YOLOv8n letter box", (1, 3, 640, 480), (80, 0))):
        x = elements(b, F32, shape)
        t = b.torch(x)
        p, result = (w, w, h, h), shape[:2] + (shape[2] + 2 * h, shape[3] + 2 * w)
        b.compare(f"constant f32 {size(shape)} by {w},{h}", "aclnnConstantPadNd",
                  [x, b.acl.Ints(*p), b.acl.Scalar(0.0, F32), b.empty(F32, result)],
                  lambda: torch.constant_pad_nd(t, p, 0.0), layer=layer, bytes=8 * x.size)
    for name, f, layer, shape, n in (("Reflection", torch.ops.aten.reflection_pad2d, "CycleGAN image",
                                      (1, 3, 256, 256), 3),
                                     ("Reflection", torch.ops.aten.reflection_pad2d, "CycleGAN block",
                                      (1, 256, 64, 64), 1),
                                     ("Replication", torch.ops.aten.replication_pad2d, "EDSR block", (1, 64, 96, 96),
                                      1)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        result = shape[:2] + (shape[2] + 2 * n, shape[3] + 2 * n)
        b.compare(f"{name} f32 {size(shape)} by {n}", f"aclnn{name}Pad2d",
                  [x, b.acl.Ints(*[n] * 4), b.empty(F32, result)],
                  lambda: f(t, (n,) * 4), layer=layer, bytes=8 * x.size)


@case("Tril", goal=1.0)
def triangles(b):
    for layer, shape in (("GPT-2 causal mask", (1024, 1024)), ("Llama-3-8B causal mask", (4096, 4096))):
        x = elements(b, F32, shape)
        t, o = b.torch(x), torch.empty(shape)
        b.compare(f"f32 {size(shape)}", "aclnnTril", [x, 0, b.empty(F32, shape)], lambda: torch.tril(t, out=o),
                  layer=layer, bytes=8 * x.size)
