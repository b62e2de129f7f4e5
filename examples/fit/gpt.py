#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT with AdamW on random words.

    cannon run -- python gpt.py --batch 16 --recompute all
    cannon run --dry -- python gpt.py --layers 48 --width 1600 --heads 25 --length 1024
    cannon run --dry --devices 4 -- torchrun --nproc_per_node 4 gpt.py --zero"""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from common import parse, recompute, shard, start_ranks, train

CHUNKS = 8  # of queries, in chunked attention


def scores_at_once(q, k, v, first=0):
    """Attention of the queries from place `first` on; makes all their scores."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    places = torch.arange(k.shape[2], device=q.device)
    hidden = places > places[first:first + q.shape[2], None]
    return scores.masked_fill(hidden, float('-inf')).softmax(-1) @ v


def chunked(q, k, v):
    """A chunk of queries at a time; the scores are not kept for the backward pass, but made again."""
    n = -(-q.shape[2] // CHUNKS)
    return torch.cat([checkpoint(scores_at_once, q[:, :, i:i + n], k, v, i, use_reentrant=False)
                      for i in range(0, q.shape[2], n)], dim=2)


def flash(q, k, v):
    """The fused operator, which never has all the scores. It takes 16-bit numbers."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


ATTENTION = {'standard': scores_at_once, 'chunked': chunked, 'flash': flash}


class Block(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, ATTENTION[attention]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(b, n, w))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.words, self.places = nn.Embedding(a.words, a.width), nn.Embedding(a.length, a.width)
        self.blocks = nn.Sequential(*(Block(a.width, a.heads, a.attention) for _ in range(a.layers)))
        self.norm, self.head = nn.LayerNorm(a.width), nn.Linear(a.width, a.words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())


SIZES = [(f'--{name}', {'type': int, 'default': size}) for name, size in
         (('layers', 6), ('width', 192), ('heads', 6), ('length', 128), ('words', 1024))]


def main():
    a = parse('Trains a GPT on random words.', 8, SIZES + [
        ('--attention', {'choices': ATTENTION, 'default': 'standard'}),
        ('--half', {'action': 'store_true', 'help': 'parameters, gradients and states are bfloat16'}),
        ('--zero', {'action': 'store_true', 'help': 'share parameters and states among the devices; for torchrun'})])
    torch.manual_seed(0)
    if a.zero:
        start_ranks()
    with torch.device('npu'):
        model = GPT(a)
    if a.half:
        model.bfloat16()
    recompute(model, ['blocks'], a.recompute)
    if a.zero:
        shard(model, model.blocks)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(a, model, loss_of, lambda: [torch.randint(a.words, (a.batch, a.length + 1)).to('npu')], optimiser)
    if a.zero:
        torch.distributed.destroy_process_group()


if __name__ == '__main__':
    main()
