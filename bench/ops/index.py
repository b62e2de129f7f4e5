# SPDX-License-Identifier: Apache-2.0
"""Gathering and scattering: embeddings, key-value caches, windows of tokens, graphs."""
import torch

from dtypes import F16, F32, I32, I64
from run import case, size

EMBEDDINGS = (("BERT-base words", F32, 30522, 768, 128), ("GPT-2 words, one token", F32, 50257, 768, 1),
              ("Llama-3.2-1B words, 512 tokens", F16, 128256, 2048, 512), ("BERT-base positions", F32, 512, 768, 128),
              ("DLRM table, batch 2048", F32, 100000, 16, 2048), ("T5 relative positions", F32, 32, 8, 128 * 128))


def places(b, d, shape, n):
    return b.of(d, b.rng.integers(0, n, shape))


@case("Embedding", goal=1.0)
def embedding(b):
    for layer, d, rows, width, n in EMBEDDINGS:
        x, index = b.random(d, (rows, width)), places(b, I64, (n,), rows)
        t, i = b.torch(x), b.torch(index)
        b.compare(f"{d} {n} of {rows}x{width}", "aclnnEmbedding", [x, index, b.empty(d, (n, width))],
                  lambda: torch.embedding(t, i), layer=layer, bytes=2 * d.size * n * width)


@case("IndexSelect", goal=1.0)
def select(b):
    rows = (("Swin-T relative positions", (169, 3), 0, 2401), ("BERT-base words", (30522, 768), 0, 128),
            ("GCN on Cora, neighbours", (2708, 16), 0, 10556), ("ViT-B/16 class token", (197, 768), 0, 1),
            ("YOLOv8n boxes kept", (8400, 4), 0, 300), ("MAE tokens kept", (196, 768), 0, 49),
            ("GPT-2 beams of the cache", (4, 12 * 256 * 64), 0, 4), ("ShuffleNetV2 channels", (116, 784), 0, 116))
    for layer, shape, dim, n in rows:
        x, index = b.random(F32, shape), places(b, I64, (n,), shape[dim])
        t, i, o = b.torch(x), b.torch(index), torch.empty(n, shape[1])
        b.compare(f"f32 {n} of {size(shape)}", "aclnnIndexSelect", [x, dim, index, b.empty(F32, (n, shape[1]))],
                  lambda: torch.index_select(t, dim, i, out=o), layer=layer, bytes=8 * o.numel())
    x, index = b.random(F32, (64, 1)), places(b, I32, (8,), 64)
    t, i, o = b.torch(x), b.torch(index).int(), torch.empty(8, 1)
    b.compare("f32 8 of 64, i32", "aclnnGatherV2", [x, 0, index, b.empty(F32, (8, 1))],
              lambda: torch.index_select(t, 0, i, out=o), layer="llama.cpp rows")


@case("Gather", goal=1.0)
def gather(b):
    for layer, shape, dim, n in (("GPT-2 label logits", (1024, 50257), 1, 1),
                                 ("MAE restored tokens", (197, 768), 0, 196),
                                 ("DeBERTa relative positions", (12 * 128, 256), 1, 128)):
        x = b.random(F32, shape)
        out = tuple(n if k == dim else s for k, s in enumerate(shape))
        index = places(b, I64, out, shape[dim])
        t, i, o = b.torch(x), b.torch(index), torch.empty(out)
        b.compare(f"f32 {size(shape)}, {n} along {dim}", "aclnnGather", [x, dim, index, b.empty(F32, out)],
                  lambda: torch.gather(t, dim, i, out=o), layer=layer, bytes=16 * o.numel())


@case("Index", goal=1.0)
def index(b):
    for layer, rows, width, n in (("Mask R-CNN proposals", 2000, 256, 512), ("Faster R-CNN boxes", 2000, 4, 1000),
                                  ("Llama-3-8B cache, one token", 4096, 1024, 1)):
        x, index = b.random(F32, (rows, width)), places(b, I64, (n,), rows)
        t, i, v = b.torch(x), b.torch(index), b.random(F32, (n, width))
        u = b.torch(v)
        listed = b.acl.TensorList([index])
        text = f"f32 {n} of {rows}x{width}"
        b.compare("get " + text, "aclnnIndex", [x, listed, b.empty(F32, (n, width))],
                  lambda: torch.ops.aten.index(t, [i]), layer=layer, bytes=8 * n * width)
        b.compare("put " + text, "aclnnIndexPutImpl", [x, listed, v, False, False],
                  lambda: t.index_put_((i,), u), layer=layer, bytes=8 * n * width)
        b.compare("add " + text, "aclnnIndexPutImpl", [x, listed, v, True, False],
                  lambda: t.index_put_((i,), u, accumulate=True), layer=layer, bytes=12 * n * width)


@case("ScatterAdd", goal=1.0)
def scatter(b):
    for layer, shape, dim, n in (("GCN on Cora, sums of neighbours", (2708, 16), 0, 10556),
                                 ("Mixtral-8x7B tokens of experts", (8,), 0, 1024),
                                 ("PointPillars canvas", (64, 214272), 1, 12000)):
        x = b.random(F32, shape)
        out = tuple(n if k == dim else s for k, s in enumerate(shape))
        index, src = places(b, I64, out, shape[dim]), b.random(F32, out)
        t, i, u = b.torch(x), b.torch(index), b.torch(src)
        o = torch.empty(shape)
        b.compare(f"f32 {size(shape)}, {n} along {dim}", "aclnnScatterAdd", [x, dim, index, src, b.empty(F32, shape)],
                  lambda: torch.scatter_add(t, dim, i, u, out=o), layer=layer, bytes=8 * t.numel() + 20 * u.numel())


@case("IndexAdd", goal=1.0)
def index_add(b):
    for layer, rows, width, n in (("Mixtral-8x7B sums of experts", 512, 4096, 128),
                                  ("Swin-T position gradient", 169, 3, 2401)):
        x, index, v = b.random(F32, (rows, width)), places(b, I64, (n,), rows), b.random(F32, (n, width))
        t, i, u = b.torch(x), b.torch(index), b.torch(v)
        o = torch.empty(rows, width)
        b.compare(f"f32 {n} to {rows}x{width}", "aclnnIndexAdd",
                  [x, 0, index, v, b.acl.Scalar(1.0, F32), b.empty(F32, (rows, width))],
                  lambda: torch.index_add(t, 0, i, u, out=o), layer=layer, bytes=8 * t.numel() + 12 * u.numel())
        b.compare(f"f32 copy {n} to {rows}x{width}", "aclnnInplaceIndexCopy", [x, 0, index, v],
                  lambda: t.index_copy_(0, i, u), layer=layer, bytes=8 * u.numel())


@case("EmbeddingDenseBackward", goal=1.0)
def embedding_backward(b):
    for layer, d, rows, width, n in EMBEDDINGS[:1] + EMBEDDINGS[3:]:
        grad, index = b.random(d, (n, width)), places(b, I64, (n,), rows)
        g, i = b.torch(grad), b.torch(index)
        b.compare(f"{d} {n} into {rows}x{width}", "aclnnEmbeddingDenseBackward",
                  [grad, index, rows, 2 ** 64 - 1, False, b.empty(d, (rows, width))],
                  lambda: torch.ops.aten.embedding_dense_backward(g, i, rows, -1, False), layer=layer,
                  bytes=d.size * (rows + 2 * n) * width)
