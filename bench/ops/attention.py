# SPDX-License-Identifier: Apache-2.0
"""Attention compared with PyTorch's scaled_dot_product_attention, and rotary position embedding."""
import torch
import torch.nn.functional as F

from dtypes import BF16, BOOL, F16, F32
from run import case

FAR = 2147483647
SHAPES = ((8, 512, 64), (8, 1024, 128), (4, 2048, 64))
LONG = (1, 8192, 128)


def forward(b, dtype, heads, s, d, causal):
    import numpy as np
    q, k, v = (b.random(dtype, (1, heads, s, d)) for _ in range(3))
    mask = b.of(BOOL, np.triu(np.ones((2048, 2048), bool), 1)) if causal else None
    args = [q, k, v, None, None, None, mask, None, d ** -0.5, 1.0, FAR, FAR, heads, b"BNSD", 0, 2 if causal else 0,
            b.empty(F32, (1, heads, s, 8)), b.empty(F32, (1, heads, s, 8)), None, b.empty(dtype, (1, heads, s, d))]
    t = [b.torch(x) for x in (q, k, v)]
    b.compare(f"{dtype} {heads} heads, {s} x {d}{' causal' if causal else ''}", "aclnnFlashAttentionScore", args,
              lambda: F.scaled_dot_product_attention(*t, is_causal=causal),
              flops=4 * heads * s * s * d * (0.5 if causal else 1))


@case("FlashAttentionScore", goal=0.7)
def flash(b):
    for dtype in (F32, BF16, F16):
        for causal in (False, True):
            for shape in SHAPES + (LONG,) * (dtype is BF16):
                forward(b, dtype, *shape, causal)


@case("FlashAttentionScoreGrad", goal=0.7)
def flash_grad(b):
    for dtype in (F32, BF16):
        heads, s, d = 8, 1024, 64
        q, k, v, dy = (b.random(dtype, (1, heads, s, d)) for _ in range(4))
        top, total = b.of(F32, b.np.full((1, heads, s, 8), 5, b.np.float32)), b.of(F32, b.np.full((1, heads, s, 8), 9,
                                                                                                  b.np.float32))
        out, grads = b.random(dtype, (1, heads, s, d)), [b.empty(dtype, (1, heads, s, d)) for _ in range(3)]
        args = [q, k, v, dy, None, None, None, None, top, total, None, out, None, d ** -0.5, 1.0, FAR, FAR, heads,
                b"BNSD", 0, 0, *grads, None]
        t = [b.torch(x).requires_grad_() for x in (q, k, v)]
        with torch.enable_grad():
            y = F.scaled_dot_product_attention(*t)
        g = b.torch(dy)
        b.compare(f"{dtype} {heads} heads, {s} x {d}", "aclnnFlashAttentionScoreGrad", args,
                  lambda: torch.autograd.grad(y, t, g, retain_graph=True), flops=10 * heads * s * s * d)


@case("FusedInferAttentionScore", goal=0.7)
def decode(b):
    from acl import TensorList
    for dtype in (F16, BF16, F32):
        for heads, kv, keys, d in ((8, 8, 4096, 128), (32, 8, 4096, 128), (32, 8, 4096, 64)):
            q = b.random(dtype, (1, 1, heads, d))
            k, v = (b.random(dtype, (1, keys, kv, d)) for _ in range(2))
            args = [q, TensorList([k]), TensorList([v])] + [None] * 21 + [heads, d ** -0.5, FAR, FAR, b"BSND", kv, 0, 0,
                                                                          0, 0, False,
                                                                          0, 0, b.empty(dtype, (1, 1, heads, d)), None]
            t = [b.torch(x).transpose(1, 2) for x in (q, k, v)]
            b.compare(f"decode {dtype} {heads}/{kv} heads, {keys} x {d}", "aclnnFusedInferAttentionScoreV2", args,
                      lambda: F.scaled_dot_product_attention(*t, enable_gqa=heads != kv),
                      bytes=2 * keys * kv * d * dtype.size)


@case("RotaryPositionEmbedding", goal=1.0)
def rotary(b):
    for dtype in (F32, BF16, F16):
        for mode, name in ((0, "half"), (1, "interleave")):
            for s in (64, 4096):
                x, cos, sin = (b.random(dtype, sh) for sh in ((1, s, 32, 128), (1, s, 1, 128), (1, s, 1, 128)))
                t, c, n = (b.torch(y) for y in (x, cos, sin))

                def half():
                    a, e = t.chunk(2, -1)
                    return t * c + torch.cat((-e, a), -1) * n

                def interleave():
                    a, e = t[..., ::2], t[..., 1::2]
                    return t * c + torch.stack((-e, a), -1).reshape(t.shape) * n
                b.compare(f"{dtype} {name} {s} x 32 x 128", "aclnnRotaryPositionEmbedding",
                          [x, cos, sin, mode, b.empty(dtype, x.shape)],
                          (half, interleave)[mode], bytes=2 * s * 32 * 128 * dtype.size)
