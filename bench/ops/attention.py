# SPDX-License-Identifier: Apache-2.0
"""Attention compared with PyTorch's scaled_dot_product_attention, and rotary position embedding."""
import torch
import torch.nn.functional as F

from dtypes import BF16, BOOL, F16, F32
from run import case

FAR = 2147483647
SHAPES = (("ViT-B/16", F32, 12, 197, 64, False), ("BERT-base", F32, 12, 128, 64, False),
          ("Whisper-base encoder", F32, 8, 1500, 64, False), ("Stable Diffusion U-Net down 2", F32, 8, 1024, 80, False),
          ("GPT-2, 1024 tokens", F32, 12, 1024, 64, True), ("Llama-3-8B, 512 tokens", F32, 32, 512, 128, True),
          ("ViT-B/16", BF16, 12, 197, 64, False), ("Llama-3-8B, 512 tokens", BF16, 32, 512, 128, True),
          ("Llama-3-8B, 8192 tokens, one head", BF16, 1, 8192, 128, True),
          ("Whisper-base encoder", F16, 8, 1500, 64, False),
          ("Llama-3-8B, 512 tokens", F16, 32, 512, 128, True))


def forward(b, layer, dtype, heads, s, d, causal):
    import numpy as np
    q, k, v = (b.random(dtype, (1, heads, s, d)) for _ in range(3))
    mask = b.of(BOOL, np.triu(np.ones((2048, 2048), bool), 1)) if causal else None
    args = [q, k, v, None, None, None, mask, None, d ** -0.5, 1.0, FAR, FAR, heads, b"BNSD", 0, 2 if causal else 0,
            b.empty(F32, (1, heads, s, 8)), b.empty(F32, (1, heads, s, 8)), None, b.empty(dtype, (1, heads, s, d))]
    t = [b.torch(x) for x in (q, k, v)]
    b.compare(f"{dtype} {heads} heads, {s} x {d}{' causal' if causal else ''}", "aclnnFlashAttentionScore", args,
              lambda: F.scaled_dot_product_attention(*t, is_causal=causal), layer=layer,
              flops=4 * heads * s * s * d * (0.5 if causal else 1))


@case("FlashAttentionScore", goal=0.7)
def flash(b):
    for shape in SHAPES:
        forward(b, *shape)


@case("FlashAttentionScoreGrad", goal=0.7)
def flash_grad(b):
    for layer, dtype, heads, s, d in (("BERT-base", F32, 12, 128, 64), ("GPT-2, 1024 tokens", F32, 12, 1024, 64),
                                      ("GPT-2, 1024 tokens", BF16, 12, 1024, 64)):
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
                  lambda: torch.autograd.grad(y, t, g, retain_graph=True), layer=layer,
                  flops=10 * heads * s * s * d)


@case("FusedInferAttentionScore", goal=0.7)
def decode(b):
    from acl import TensorList
    for layer, dtype, heads, kv, keys, d in (
            ("Llama-2-7B, one token", F16, 32, 32, 1024, 128), ("Llama-3-8B, one token", F16, 32, 8, 4096, 128),
            ("Llama-3-8B, one token", BF16, 32, 8, 4096, 128), ("Llama-3.2-1B, one token", F32, 32, 8, 2048, 64),
            ("GPT-2, one token", F32, 12, 12, 1024, 64)):
        q = b.random(dtype, (1, 1, heads, d))
        k, v = (b.random(dtype, (1, keys, kv, d)) for _ in range(2))
        args = [q, TensorList([k]), TensorList([v])] + [None] * 21 + [heads, d ** -0.5, FAR, FAR, b"BSND", kv, 0, 0, 0,
                                                                      0, False, 0, 0,
                                                                      b.empty(dtype, (1, 1, heads, d)), None]
        t = [b.torch(x).transpose(1, 2) for x in (q, k, v)]
        b.compare(f"{dtype} {heads}/{kv} heads, {keys} x {d}", "aclnnFusedInferAttentionScoreV2", args,
                  lambda: F.scaled_dot_product_attention(*t, enable_gqa=heads != kv), layer=layer,
                  bytes=2 * keys * kv * d * dtype.size)


@case("RotaryPositionEmbedding", goal=1.0)
def rotary(b):
    for layer, dtype, mode, s, heads, d in (
            ("Llama-3-8B, one token", F16, 0, 1, 32, 128), ("Llama-3-8B, 512 tokens", F32, 0, 512, 32, 128),
            ("Llama-3-8B, 512 tokens", BF16, 0, 512, 32, 128), ("GPT-J-6B, 512 tokens", F32, 1, 512, 16, 64),
            ("Qwen2-VL image", F16, 0, 1024, 16, 80)):
        x, cos, sin = (b.random(dtype, sh) for sh in ((1, s, heads, d), (1, s, 1, d), (1, s, 1, d)))
        t, c, n = (b.torch(y) for y in (x, cos, sin))

        def half():
            a, e = t.chunk(2, -1)
            return t * c + torch.cat((-e, a), -1) * n

        def interleave():
            a, e = t[..., ::2], t[..., 1::2]
            return t * c + torch.stack((-e, a), -1).reshape(t.shape) * n
        b.compare(f"{dtype} {('half', 'interleave')[mode]} {s}x{heads}x{d}", "aclnnRotaryPositionEmbedding",
                  [x, cos, sin, mode, b.empty(dtype, x.shape)], (half, interleave)[mode], layer=layer,
                  bytes=2 * x.size * dtype.size)
