# SPDX-License-Identifier: Apache-2.0
"""Sorting and selection: detections, sampling from logits, routing to experts, masks."""
import torch

from dtypes import BF16, BOOL, F32, I32, I64
from run import case, size


@case("Sort", goal=1.0)
def sort(b):
    for layer, d, shape in (("YOLOv8n scores", F32, (8400,)), ("Faster R-CNN proposals", F32, (12000,)),
                            ("Llama-3-8B top-p", F32, (1, 128256)), ("GPT-2 top-p", F32, (4, 50257)),
                            ("MAE shuffled tokens", F32, (64, 196)), ("Llama-3-8B top-p", BF16, (1, 128256)),
                            ("Mixtral-8x7B experts of tokens", I64, (1024,))):
        x = b.random(d, shape, -2 if d.kind == "f" else 0, 2 if d.kind == "f" else 7)
        t = b.torch(x)
        b.compare(f"{d} {size(shape)}", "aclnnSort", [x, False, -1, True, b.empty(d, shape), b.empty(I64, shape)],
                  lambda: torch.sort(t, dim=-1, descending=True), layer=layer, bytes=d.size * x.size)


@case("Topk", goal=1.0)
def topk(b):
    for layer, d, shape, k in (("ImageNet top 5, batch 8", F32, (8, 1000), 5), ("YOLOv8n boxes", F32, (1, 8400), 300),
                               ("RetinaNet level 3", F32, (1, 720000), 1000),
                               ("Llama-3-8B top 50", F32, (1, 128256), 50),
                               ("GPT-2 beams", F32, (1, 4 * 50257), 8), ("Mixtral-8x7B experts", F32, (512, 8), 2),
                               ("DeepSeek-V3 experts", F32, (512, 256), 8),
                               ("Llama-3-8B top 50", BF16, (1, 128256), 50)):
        x = b.random(d, shape)
        t, out = b.torch(x), shape[:-1] + (k,)
        b.compare(f"{d} {size(shape)}, k {k}", "aclnnTopk", [x, k, -1, True, True, b.empty(d, out), b.empty(I64, out)],
                  lambda: torch.topk(t, k), layer=layer, bytes=d.size * x.size)


@case("Median", goal=1.0)
def median(b):
    for layer, shape in (("MiDaS depth alignment", (1, 256 * 256)), ("RAFT, temporal filter", (4096, 25))):
        x = b.random(F32, shape)
        t = b.torch(x)
        b.compare(f"f32 {size(shape)}", "aclnnMedianDim",
                  [x, -1, False, b.empty(F32, shape[:-1]), b.empty(I64, shape[:-1])], lambda: torch.median(t, -1),
                  layer=layer, bytes=4 * x.size)


@case("Nonzero", goal=1.0)
def nonzero(b):
    for layer, shape, p in (("YOLOv8n confident boxes", (8400,), 50), ("Mixtral-8x7B tokens of an expert", (512, 8), 4),
                            ("Mask R-CNN mask", (800, 1216), 20)):
        x = b.of(F32, (b.rng.integers(0, p, shape) == 0).astype("f4"))
        t = b.torch(x)
        b.compare(f"f32 {size(shape)}, 1 in {p}", "aclnnNonzeroV2", [x, b.empty(I64, (len(shape), x.size))],
                  lambda: torch.nonzero(t), layer=layer, bytes=4 * x.size, resized=1)


@case("MaskedSelect", goal=1.0)
def masked_select(b):
    for layer, shape, p in (("YOLOv8n confident boxes", (1, 8400), 50), ("BERT-base masked words", (8, 128), 7),
                            ("MAE masked patches", (8, 196, 768), 2)):
        x, mask = b.random(F32, shape), b.of(BOOL, b.rng.integers(0, p, shape) == 0)
        t, m = b.torch(x), b.torch(mask)
        b.compare(f"f32 {size(shape)}, 1 in {p}", "aclnnMaskedSelect", [x, mask, b.empty(F32, (x.size,))],
                  lambda: torch.masked_select(t, m), layer=layer, bytes=9 * x.size, resized=2)


@case("Unique", goal=1.0)
def unique(b):
    for layer, n, ids in (("DLRM ids of a batch", 2048, 100000), ("PointPillars voxels", 120000, 12000)):
        x = b.random(I32, (n,), 0, ids - 1)
        t = b.torch(x)
        b.compare(f"i32 {n} of {ids}", "aclnnUnique2",
                  [x, True, True, True, b.empty(I32, (n,)), b.empty(I64, (n,)), b.empty(I64, (n,))],
                  lambda: torch.unique(t, return_inverse=True, return_counts=True), layer=layer, bytes=4 * n)
