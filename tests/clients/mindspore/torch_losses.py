#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The losses of models.py's networks of mint by PyTorch on the CPU, for the table in test_training.py: MindSpore's CPU
backend lacks kernels for them. Run by hand, with any PyTorch."""
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def fill(net):
    rng = np.random.default_rng(1)
    for name, p in net.named_parameters():
        scale = 1 / np.sqrt(max(1, np.prod(p.shape[1:])))
        values = rng.uniform(-scale, scale, tuple(p.shape))
        if 'norm' in name and name.endswith('weight'):
            values += 1
        p.data.copy_(torch.tensor(values.astype(np.float32)))
    return net


def batch(shape, classes):
    rng = np.random.default_rng(0)
    return torch.tensor(rng.standard_normal(shape).astype(np.float32)), torch.tensor(rng.integers(0, classes, shape[0]))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(20, 32), nn.Linear(32, 5)

    def forward(self, x, labels):
        return F.cross_entropy(self.fc2(F.relu(self.fc1(x))), labels)


class LeNet(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.norm1 = nn.BatchNorm2d(6) if norm else nn.Identity()
        self.fc1, self.fc2 = nn.Linear(256, 84), nn.Linear(84, 10)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.cross_entropy(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), labels)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(12, 32)
        self.qkv, self.out, self.up = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 128)
        self.down, self.head = nn.Linear(128, 32), nn.Linear(32, 50)
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)

    def forward(self, ids, labels):
        n, length = ids.shape
        x = self.tokens(ids) + self.places(torch.arange(length))
        q, k, v = self.qkv(self.norm1(x)).reshape(n, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        mask = torch.triu(torch.full((length, length), -10000.0), 1)
        a = F.softmax(q @ k.swapaxes(2, 3) / 8 ** 0.5 + mask, -1)
        x = x + self.out((a @ v).swapaxes(1, 2).reshape(n, length, 32))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return F.cross_entropy(self.head(x).reshape(n * length, 50), labels)


def tokens():
    rng = np.random.default_rng(0)
    return torch.tensor(rng.integers(0, 50, (4, 12))), torch.tensor(rng.integers(0, 50, 48))


NETWORKS = {'mlp': (MLP, lambda: batch((16, 20), 5)), 'lenet': (LeNet, lambda: batch((8, 1, 28, 28), 10)),
            'lenet_norm': (lambda: LeNet(norm=True), lambda: batch((8, 1, 28, 28), 10)),
            'transformer': (Transformer, tokens)}
OPTIMISERS = {'sgd': lambda p: torch.optim.SGD(p, 0.1), 'momentum': lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
              'adam': lambda p: torch.optim.Adam(p, 0.01), 'adamw': lambda p: torch.optim.AdamW(p, 0.01)}


def main():
    for case in ('mlp:adam', 'mlp:adamw', 'mlp:momentum', 'lenet:sgd', 'lenet:adamw', 'lenet_norm:adam',
                 'transformer:sgd', 'transformer:adamw'):
        network, optimiser = case.split(':')
        make, inputs = NETWORKS[network]
        net = fill(make()).train()
        opt, x, out = OPTIMISERS[optimiser](net.parameters()), inputs(), []
        for _ in range(5):
            opt.zero_grad()
            loss = net(*x)
            loss.backward()
            opt.step()
            out.append(round(float(loss), 6))
        print(f"    '{case}': {json.dumps(out)},")


if __name__ == '__main__':
    main()
