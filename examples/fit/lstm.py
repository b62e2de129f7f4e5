#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains layers of LSTM with Adam to predict random words.

    cannon run -- python lstm.py --batch 32 --recompute layers.1"""
import torch
from torch import nn
from torch.nn import functional as F

from common import parse, recompute, train


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm, self.norm = nn.LSTM(width, width, batch_first=True), nn.LayerNorm(width)

    def forward(self, x):
        return x + self.lstm(self.norm(x))[0]


class Recurrent(nn.Module):
    def __init__(self, words, width, layers):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens)))


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())


def main():
    a = parse('Trains an LSTM on random words.', 16, [
        (f'--{name}', {'type': int, 'default': size}) for name, size in
        (('layers', 4), ('width', 128), ('length', 48), ('words', 512))])
    torch.manual_seed(0)
    with torch.device('npu'):
        model = Recurrent(a.words, a.width, a.layers)
    recompute(model, ['layers'], a.recompute)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(a, model, loss_of, lambda: [torch.randint(a.words, (a.batch, a.length + 1)).to('npu')], optimiser)


if __name__ == '__main__':
    main()
