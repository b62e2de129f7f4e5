# SPDX-License-Identifier: Apache-2.0
"""Sorting and selection, by rows and over whole tensors."""
import torch

from dtypes import BF16, BOOL, F32, I32, I64
from run import case

SHAPES = (("1000 x 32", (1000, 32)), ("1000 x 1000", (1000, 1000)), ("16 x 65536", (16, 65536)), ("1 Mi", (1 << 20,)))
LARGE = (("16 Mi", (1 << 24,)),)


@case("Sort", goal=1.0)
def sort(b):
    for d, shapes in ((F32, SHAPES + LARGE), (BF16, SHAPES), (I64, SHAPES[1:])):
        for text, shape in shapes:
            x = b.random(d, shape, -2 if d.kind == "f" else -1000, 2 if d.kind == "f" else 1000)
            t = b.torch(x)
            b.compare(f"{d} {text}", "aclnnSort", [x, False, -1, False, b.empty(d, shape), b.empty(I64, shape)],
                      lambda: torch.sort(t, dim=-1), bytes=d.size * x.size)
    x = b.random(F32, (1000, 1000))
    t = b.torch(x)
    b.compare("f32 1000 x 1000 along 0", "aclnnSort", [x, False, 0, True, b.empty(F32, x.shape), b.empty(I64, x.shape)],
              lambda: torch.sort(t, dim=0, descending=True), bytes=4 * x.size)


@case("Topk", goal=1.0)
def topk(b):
    for d in (F32, BF16):
        for text, shape in SHAPES + LARGE:
            for k in (1, 10, 100):
                if k > shape[-1]:
                    continue
                x = b.random(d, shape)
                t, out = b.torch(x), shape[:-1] + (k,)
                b.compare(f"{d} {text} k {k}", "aclnnTopk",
                          [x, k, -1, True, True, b.empty(d, out), b.empty(I64, out)],
                          lambda: torch.topk(t, k), bytes=d.size * x.size)


@case("Median", goal=1.0)
def median(b):
    for text, shape in SHAPES[1:]:
        x = b.random(F32, shape)
        t = b.torch(x)
        b.compare(f"f32 {text}", "aclnnMedianDim", [x, -1, False, b.empty(F32, shape[:-1]), b.empty(I64, shape[:-1])],
                  lambda: torch.median(t, -1), bytes=4 * x.size)


@case("Nonzero", goal=1.0)
def nonzero(b):
    for text, shape in SHAPES[1:]:
        for p in (2, 20):
            x = b.of(F32, (b.rng.integers(0, p, shape) == 0).astype("f4"))
            t = b.torch(x)
            b.compare(f"f32 {text} 1 in {p}", "aclnnNonzeroV2", [x, b.empty(I64, (len(shape), x.size))],
                      lambda: torch.nonzero(t), bytes=4 * x.size)


@case("MaskedSelect", goal=1.0)
def masked_select(b):
    for text, shape in SHAPES[1:]:
        x, mask = b.random(F32, shape), b.of(BOOL, b.rng.random(shape) < 0.5)
        t, m = b.torch(x), b.torch(mask)
        b.compare(f"f32 {text}", "aclnnMaskedSelect", [x, mask, b.empty(F32, (x.size,))],
                  lambda: torch.masked_select(t, m), bytes=9 * x.size)


@case("Unique", goal=1.0)
def unique(b):
    for text, shape in SHAPES[1:]:
        x = b.random(I32, shape, -1000, 1000)
        t = b.torch(x)
        b.compare(f"i32 {text}", "aclnnUnique2",
                  [x, True, True, True, b.empty(I32, (x.size,)), b.empty(I64, shape), b.empty(I64, (x.size,))],
                  lambda: torch.unique(t, return_inverse=True, return_counts=True), bytes=4 * x.size)
