# SPDX-License-Identifier: Apache-2.0
"""Gathering and scattering on operands that fit into the cache and on larger ones."""
import torch

from dtypes import F16, F32, I32, I64
from run import case


def places(b, d, shape, n):
    return b.of(d, b.rng.integers(0, n, shape))


@case("IndexSelect", goal=1.0)
def select(b):
    for rows, width, n in ((64, 16, 8), (1000, 64, 256), (50000, 256, 8192), (1000, 1, 100000)):
        x, index = b.random(F32, (rows, width)), places(b, I64, (n,), rows)
        t, i, o = b.torch(x), b.torch(index), torch.empty(n, width)
        b.compare(f"{n} of {rows} x {width}", "aclnnIndexSelect", [x, 0, index, b.empty(F32, (n, width))],
                  lambda: torch.index_select(t, 0, i, out=o), bytes=8 * n * width)
    x, index = b.random(F32, (2000, 300)), places(b, I64, (100,), 300)
    t, i, o = b.torch(x), b.torch(index), torch.empty(2000, 100)
    b.compare("100 columns of 2000 x 300", "aclnnIndexSelect", [x, 1, index, b.empty(F32, (2000, 100))],
              lambda: torch.index_select(t, 1, i, out=o), bytes=8 * 200000)
    x, index = b.random(F32, (64, 1)), places(b, I32, (8,), 64)
    t, i, o = b.torch(x), b.torch(index).int(), torch.empty(8, 1)
    b.compare("8 of 64, i32 (ggml)", "aclnnGatherV2", [x, 0, index, b.empty(F32, (8, 1))],
              lambda: torch.index_select(t, 0, i, out=o))


@case("Gather", goal=1.0)
def gather(b):
    for shape, dim, n in (((64, 64), 1, 64), ((1000, 1000), 1, 500), ((1000, 1000), 0, 500), ((8192, 4096), 1, 1)):
        x = b.random(F32, shape)
        size = tuple(n if k == dim else s for k, s in enumerate(shape))
        index = places(b, I64, size, shape[dim])
        t, i, o = b.torch(x), b.torch(index), torch.empty(size)
        b.compare(f"{shape} {n} along {dim}", "aclnnGather", [x, dim, index, b.empty(F32, size)],
                  lambda: torch.gather(t, dim, i, out=o), bytes=16 * o.numel())


@case("Index", goal=1.0)
def index(b):
    for rows, width, n in ((1000, 64, 256), (50000, 256, 8192)):
        x, index = b.random(F32, (rows, width)), places(b, I64, (n,), rows)
        t, i, v = b.torch(x), b.torch(index), b.random(F32, (n, width))
        u = b.torch(v)
        listed = b.acl.TensorList([index])
        b.compare(f"get {n} of {rows} x {width}", "aclnnIndex", [x, listed, b.empty(F32, (n, width))],
                  lambda: torch.ops.aten.index(t, [i]), bytes=8 * n * width)
        b.compare(f"put {n} of {rows} x {width}", "aclnnIndexPutImpl", [x, listed, v, False, False],
                  lambda: t.index_put_((i,), u), bytes=8 * n * width)
        b.compare(f"add {n} of {rows} x {width}", "aclnnIndexPutImpl", [x, listed, v, True, False],
                  lambda: t.index_put_((i,), u, accumulate=True), bytes=12 * n * width)
    x = b.random(F32, (1000, 1000))
    t, pair = b.torch(x), [places(b, I64, (100000,), 1000) for _ in range(2)]
    i = [b.torch(p) for p in pair]
    b.compare("get 100000 by pairs", "aclnnIndex", [x, b.acl.TensorList(pair), b.empty(F32, (100000,))],
              lambda: torch.ops.aten.index(t, i), bytes=8 * 100000)
    v = b.random(F32, (100000,))
    u = b.torch(v)
    b.compare("put 100000 by pairs", "aclnnIndexPutImpl", [x, b.acl.TensorList(pair), v, False, False],
              lambda: t.index_put_(tuple(i), u), bytes=8 * 100000)


@case("ScatterAdd", goal=1.0)
def scatter(b):
    for shape, dim, n in (((64, 64), 1, 64), ((1000, 1000), 1, 500), ((1000, 1000), 0, 500), ((100000,), 0, 1000000)):
        x = b.random(F32, shape)
        size = tuple(n if k == dim else s for k, s in enumerate(shape))
        index, src = places(b, I64, size, shape[dim]), b.random(F32, size)
        t, i, u = b.torch(x), b.torch(index), b.torch(src)
        o = torch.empty(shape)
        b.compare(f"{shape} {n} along {dim}", "aclnnScatterAdd", [x, dim, index, src, b.empty(F32, shape)],
                  lambda: torch.scatter_add(t, dim, i, u, out=o), bytes=8 * t.numel() + 20 * u.numel())


@case("IndexAdd", goal=1.0)
def index_add(b):
    for rows, width, n in ((1000, 64, 256), (20000, 256, 8192)):
        x, index, v = b.random(F32, (rows, width)), places(b, I64, (n,), rows), b.random(F32, (n, width))
        t, i, u = b.torch(x), b.torch(index), b.torch(v)
        o = torch.empty(rows, width)
        b.compare(f"{n} to {rows} x {width}", "aclnnIndexAdd",
                  [x, 0, index, v, b.acl.Scalar(1.0, F32), b.empty(F32, (rows, width))],
                  lambda: torch.index_add(t, 0, i, u, out=o), bytes=8 * t.numel() + 12 * u.numel())
        b.compare(f"copy {n} to {rows} x {width}", "aclnnInplaceIndexCopy", [x, 0, index, v],
                  lambda: t.index_copy_(0, i, u), bytes=8 * u.numel())


@case("EmbeddingDenseBackward", goal=1.0)
def embedding_backward(b):
    for d in (F32, F16):
        for rows, width, n in ((1000, 64, 512), (30000, 256, 4096), (30000, 768, 4096)):
            grad, index = b.random(d, (n, width)), places(b, I64, (n,), rows)
            g, i = b.torch(grad), b.torch(index)
            b.compare(f"{d} {n} into {rows} x {width}", "aclnnEmbeddingDenseBackward",
                      [grad, index, rows, 2 ** 64 - 1, False, b.empty(d, (rows, width))],
                      lambda: torch.ops.aten.embedding_dense_backward(g, i, rows, -1, False),
                      bytes=d.size * (rows + 2 * n) * width)
