# SPDX-License-Identifier: Apache-2.0
"""Copies, transpositions, lists of tensors, repetitions and padding."""
import torch

from dtypes import F16, F32, F64, I8
from run import case


def elements(b, d, shape):
    return b.random(d, shape, -100, 100)


@case("Copy", goal=1.0)
def copies(b):
    for text, n in (("4 Ki", 1 << 12), ("256 Ki", 1 << 18), ("16 Mi", 1 << 24)):
        x, out = elements(b, F32, (n,)), b.empty(F32, (n,))
        t, o = b.torch(x), torch.empty(n)
        b.compare(f"contiguous f32 {text}", "aclnnInplaceCopy", [out, x], lambda: o.copy_(t), bytes=8 * n)
    for width in (3, 16, 200):
        n = (1 << 20) // width
        x = elements(b, F32, (n, width + 1))
        t, o = b.torch(x)[:, :width], torch.empty(n, width)
        view = b.acl.Tensor(F32, (n, width), (width + 1, 1))
        view.block = x.block
        b.compare(f"rows of {width} f32", "aclnnInplaceCopy", [b.empty(F32, (n, width)), view], lambda: o.copy_(t),
                  bytes=8 * n * width)


@case("Permute", goal=1.0)
def transposes(b):
    for d in (I8, F16, F32, F64):
        for shape, dims in (((256, 256), (1, 0)), ((4096, 4096), (1, 0)), ((1000, 1000), (1, 0)),
                            ((32, 128, 12, 64), (0, 2, 1, 3)), ((16, 64, 56, 56), (0, 2, 3, 1)),
                            ((16, 224, 224, 3), (0, 3, 1, 2)), ((16, 3, 224, 224), (0, 2, 3, 1))):
            x = elements(b, d, shape)
            t = b.torch(x)
            result = tuple(shape[i] for i in dims)
            o = torch.empty(result, dtype=t.dtype)
            b.compare(f"{d} {'x'.join(map(str, shape))} {dims}", "aclnnPermute",
                      [x, b.acl.Ints(*dims), b.empty(d, result)], lambda: o.copy_(t.permute(dims)),
                      bytes=2 * d.size * t.numel())


@case("Cat", goal=1.0)
def lists(b):
    for shape, dim, n in (((4, 4), 0, 2), ((64, 256), 0, 4), ((64, 256), 1, 4), ((2048, 1024), 1, 4)):
        parts = [elements(b, F32, shape) for _ in range(n)]
        ts = [b.torch(p) for p in parts]
        o = torch.cat(ts, dim)
        b.compare(f"Cat {n} of {shape} along {dim}", "aclnnCat",
                  [b.acl.TensorList(parts), dim, b.empty(F32, o.shape)], lambda: torch.cat(ts, dim, out=o),
                  bytes=8 * o.numel())
        s = torch.stack(ts, dim)
        b.compare(f"Stack {n} of {shape} along {dim}", "aclnnStack",
                  [b.acl.TensorList(parts), dim, b.empty(F32, s.shape)], lambda: torch.stack(ts, dim, out=s),
                  bytes=8 * o.numel())
        outs = [torch.empty(shape) for _ in ts]
        b.compare(f"Split into {n} of {shape} along {dim}", "aclnnSplitTensor",
                  [elements(b, F32, o.shape), shape[dim], dim, b.acl.TensorList([b.empty(F32, shape) for _ in ts])],
                  lambda: torch.split_copy(o, shape[dim], dim, out=outs), bytes=8 * o.numel())


@case("Slice", goal=1.0)
def slices(b):
    for shape, dim, begin, end, step in (((512, 512), 1, 8, 500, 1), ((512, 512), 1, 0, 512, 2),
                                         ((4096, 4096), 1, 5, 3000, 1), ((4096, 4096), 1, 0, 4096, 2)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        o = t[:, begin:end:step].clone()
        b.compare(f"{shape} [{begin}:{end}:{step}]", "aclnnSlice", [x, dim, begin, end, step, b.empty(F32, o.shape)],
                  lambda: o.copy_(t[:, begin:end:step]), bytes=8 * o.numel())
    x = elements(b, F32, (1024, 1024))
    t = b.torch(x)
    b.compare("flip the last of 1024x1024", "aclnnFlip", [x, b.acl.Ints(1), b.empty(F32, x.shape)],
              lambda: torch.flip(t, (1,)), bytes=8 << 20)


@case("Repeat", goal=1.0)
def repeats(b):
    for shape, times in (((256, 256), (4, 1)), ((256, 256), (1, 4)), ((65536, 1), (1, 64)), ((1024, 1024), (4, 4))):
        x = elements(b, F32, shape)
        t = b.torch(x)
        o = t.repeat(times)
        b.compare(f"{shape} {times}", "aclnnRepeat", [x, b.acl.Ints(*times), b.empty(F32, o.shape)],
                  lambda: t.repeat(times), bytes=4 * (o.numel() + t.numel()))
    x = elements(b, F32, (1024, 64))
    t = b.torch(x)
    b.compare("each twice (ggml)", "aclnnRepeatInterleaveIntWithDim", [x, 2, 1, 128, b.empty(F32, (1024, 128))],
              lambda: torch.repeat_interleave(t, 2, 1), bytes=12 << 16)


@case("Pad", goal=1.0)
def pads(b):
    for shape in ((8, 16, 28, 28), (16, 64, 112, 112)):
        x = elements(b, F32, shape)
        t = b.torch(x)
        result = shape[:2] + (shape[2] + 2, shape[3] + 2)
        n = 8 * x.size
        b.compare(f"constant {shape}", "aclnnConstantPadNd",
                  [x, b.acl.Ints(1, 1, 1, 1), b.acl.Scalar(0.0, F32), b.empty(F32, result)],
                  lambda: torch.constant_pad_nd(t, (1, 1, 1, 1), 0.0), bytes=n)
        for name, f in (("Reflection", torch.ops.aten.reflection_pad2d),
                        ("Replication", torch.ops.aten.replication_pad2d)):
            b.compare(f"{name} {shape}", f"aclnn{name}Pad2d", [x, b.acl.Ints(1, 1, 1, 1), b.empty(F32, result)],
                      lambda: f(t, (1, 1, 1, 1)), bytes=n)
        g = elements(b, F32, result)
        u = b.torch(g)
        b.compare(f"Reflection backward {shape}", "aclnnReflectionPad2dBackward",
                  [g, x, b.acl.Ints(1, 1, 1, 1), b.empty(F32, shape)],
                  lambda: torch.ops.aten.reflection_pad2d_backward(u, t, (1, 1, 1, 1)), bytes=n)


@case("Tril", goal=1.0)
def triangles(b):
    for n in (64, 512, 4096):
        x = elements(b, F32, (n, n))
        t, o = b.torch(x), torch.empty(n, n)
        b.compare(f"{n} x {n}", "aclnnTril", [x, 0, b.empty(F32, (n, n))], lambda: torch.tril(t, out=o),
                  bytes=8 * n * n)
