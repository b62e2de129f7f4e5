#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a U-Net with Adam to remove noise from random images.

    cannon run -- python unet.py --batch 8 --recompute down.0,up.0"""
import torch
from torch import nn
from torch.nn import functional as F

from common import parse, recompute, train


def stage(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1), nn.GroupNorm(8, channels), nn.SiLU(),
                         nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(8, channels), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        sizes = [channels << i for i in range(depth + 1)]
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(stage(max(channels, c // 2), c) for c in sizes[:-1])
        self.middle = stage(sizes[-2], sizes[-1])
        self.up = nn.ModuleList(stage(3 * c, c) for c in reversed(sizes[:-1]))
        self.last = nn.Conv2d(channels, 3, 1)

    def forward(self, x):
        x, kept = self.first(x), []
        for module in self.down:
            kept.append(module(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for module in self.up:
            x = F.interpolate(x, scale_factor=2, mode='nearest')
            x = module(torch.cat([x, kept.pop()], dim=1))
        return self.last(x)


def loss_of(model, images, noise):
    return F.mse_loss(model(images + noise).float(), noise)


def main():
    a = parse('Trains a U-Net on random images.', 4, [
        (f'--{name}', {'type': int, 'default': size}) for name, size in
        (('size', 48), ('channels', 16), ('depth', 3))])
    torch.manual_seed(0)
    with torch.device('npu'):
        model = UNet(a.channels, a.depth)
    recompute(model, ['down', 'up'], a.recompute, ['middle'])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(a, model, loss_of, lambda: [torch.randn(a.batch, 3, a.size, a.size).to('npu') for _ in range(2)], optimiser)


if __name__ == '__main__':
    main()
