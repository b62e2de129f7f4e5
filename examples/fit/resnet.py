#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a residual network with SGD on random images.

    cannon run -- python resnet.py --batch 32 --recompute blocks.0,blocks.1"""
import torch
from torch import nn
from torch.nn import functional as F

from common import parse, recompute, train


class Block(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.shortcut = nn.Identity() if inputs == channels else nn.Sequential(
            nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, channels, depth, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        sizes = [channels << stage for stage in range(3) for _ in range(depth)]
        self.blocks = nn.Sequential(*(Block(before, after, 1 if before == after else 2)
                                      for before, after in zip([channels] + sizes, sizes)))
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def loss_of(model, images, labels):
    return F.cross_entropy(model(images).float(), labels)


def main():
    a = parse('Trains a ResNet on random images.', 16, [
        (f'--{name}', {'type': int, 'default': size}) for name, size in
        (('size', 32), ('channels', 32), ('depth', 2))])
    torch.manual_seed(0)
    with torch.device('npu'):
        model = ResNet(a.channels, a.depth)
    recompute(model, ['blocks'], a.recompute, ['stem'])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    train(a, model, loss_of, lambda: [torch.randn(a.batch, 3, a.size, a.size).to('npu'),
                                      torch.randint(10, (a.batch,)).to('npu')], optimiser)


if __name__ == '__main__':
    main()
