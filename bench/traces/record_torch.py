#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the allocations and frees of PyTorch's operators on the CPU as a text trace for `cannon replay`.

    record_torch.py {train,infer,moe} OUTPUT.txt.gz     needs PyTorch (2.7.1 was used)

Only tensors are recorded: the events of PyTorch's own profiler, in order of time, from before the model is created
until it has been destroyed. Lengths are drawn with a fixed seed, so the same version records the same trace except for
the order in which threads free. One line per event: `a ID BYTES` or `f ID`; ids ascend from 0.
"""
import argparse
import gzip
import random
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Textbook attention: the scores are stored, as in training with dropout on them."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache=None):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if cache is not None:  # the cache grows by concatenation, a new tensor per layer and token
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        if length > 1:
            past = k.shape[2] - length
            scores = scores.masked_fill(torch.ones(length, k.shape[2]).triu(past + 1).bool(), float("-inf"))
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Experts(nn.Module):
    """Each token goes to the two experts that its router prefers, so the number of tokens per expert varies."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(width) for _ in range(experts))

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = self.router(tokens).softmax(-1).topk(2)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, rank = (chosen == i).nonzero(as_tuple=True)
            if len(token):
                out = out.index_add(0, token, (expert(tokens[token]) * weights[token, rank, None]).to(out.dtype))
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, dropout, experts):
        super().__init__()
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), dropout
        self.attention = Attention(width, heads, dropout)
        self.mlp = Experts(width, experts) if experts else FeedForward(width)

    def forward(self, x, cache=None):
        x = x + F.dropout(self.attention(self.norm1(x), cache), self.dropout, self.training)
        return x + F.dropout(self.mlp(self.norm2(x)), self.dropout, self.training)


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, dropout=0.0, experts=0, longest=2048):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout, experts) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, caches=None, start=0):
        x = self.tokens(ids) + self.places(torch.arange(start, start + ids.shape[1]))
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches is not None else None)
        return self.head(self.norm(x))


def train(model, vocabulary, steps, batch, shortest, longest):
    """Mixed precision, gradient clipping and AdamW, with another length for each step."""
    optimiser = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(steps):
        length = random.randint(shortest, longest)
        ids = torch.randint(vocabulary, (batch, length + 1))
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().view(-1, vocabulary), ids[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()


@torch.inference_mode()
def serve(model, vocabulary, requests, at_once):
    """Requests of varying lengths alternate, one token each; a finished request is replaced by the next."""
    model.eval()
    waiting = [(random.randint(32, 1000), random.randint(8, 96)) for _ in range(requests)]
    running = []
    while waiting or running:
        while waiting and len(running) < at_once:
            prompt, more = waiting.pop()
            running.append([torch.randint(vocabulary, (1, prompt)), 0, more, [[] for _ in model.blocks]])
        for request in list(running):
            ids, start, more, caches = request
            logits = model(ids, caches, start)
            request[:3] = logits[:, -1].argmax(-1, keepdim=True), start + ids.shape[1], more - 1
            if more == 1:
                running.remove(request)
        del logits, ids, caches, request


def run(what):
    random.seed(1)
    torch.manual_seed(1)
    if what == "train":
        train(GPT(12, 384, 6, 16384, dropout=0.1), 16384, steps=15, batch=8, shortest=128, longest=512)
    elif what == "moe":
        train(GPT(4, 384, 6, 8192, experts=16), 8192, steps=11, batch=8, shortest=64, longest=384)
    else:
        serve(GPT(6, 512, 8, 16384), 16384, requests=8, at_once=4)


def allocations(trees):
    """(time, address, bytes) of each allocation (bytes > 0) and free (bytes < 0), in order of time."""
    found, pending = [], list(trees)
    while pending:
        node = pending.pop()
        pending.extend(node.children)
        if node.tag == torch._C._profiler._EventType.Allocation:
            found.append((node.start_time_ns, node.extra_fields.ptr, node.extra_fields.alloc_size))
    return sorted(found, key=lambda event: event[0])


def write(events, path):
    ids, n, live, peak, lines = {}, 0, 0, 0, 0
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        for _, address, size in events:
            if size > 0:
                assert address not in ids, "an address was given out twice"
                ids[address], n, live = (n, size), n + 1, live + size
                out.write(b"a %d %d\n" % (n - 1, size))
            elif address in ids:  # other blocks were allocated before the profiler started
                number, freed = ids.pop(address)
                live -= freed
                out.write(b"f %d\n" % number)
            peak, lines = max(peak, live), lines + 1
    print("%s: %d events, peak live %.0f MiB, %d blocks left" % (path, lines, peak / 2**20, len(ids)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "infer", "moe"])
    parser.add_argument("output")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        run(args.what)
    write(allocations(profiler.profiler.kineto_results.experimental_event_tree()), args.output)


if __name__ == "__main__":
    main()
