# SPDX-License-Identifier: Apache-2.0
"""Models in the shape of well-known ones, small, for tests of memory: their data and steps are those of models.Job."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

from models import Job, LanguageModel


class ResidualBlock(nn.Module):
    def __init__(self, inputs, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.shortcut = nn.Identity() if inputs == channels else nn.Sequential(
            nn.Conv2d(inputs, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


class Residual(Job):
    """A ResNet, whose learning rate falls along a cosine."""
    batch, size, channels = 4, 64, 16

    def make_model(self):
        c = self.channels
        return nn.Sequential(nn.Conv2d(3, c, 7, 2, 3, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True),
                             nn.MaxPool2d(3, 2, 1), ResidualBlock(c, c, 1), ResidualBlock(c, 2 * c, 2),
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * c, self.classes))

    def make_data(self):
        return torch.randn(self.batch, 3, self.size, self.size), torch.randint(self.classes, (self.batch,))

    def make_optimiser(self, parameters):
        optimiser = super().make_optimiser(parameters)
        self.schedule = lr_scheduler.CosineAnnealingLR(optimiser, 10)
        return optimiser

    def update(self):
        super().update()
        self.schedule.step()


def stage(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.SiLU())


class UNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down1, self.down2, self.middle = stage(3, c), stage(c, 2 * c), stage(2 * c, 4 * c)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), nn.Upsample(scale_factor=2)
        self.join2, self.join1, self.last = stage(4 * c, 2 * c), stage(3 * c, c), nn.Conv2d(c, 3, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        x = self.up2(self.middle(F.avg_pool2d(b, 2)))
        x = self.up1(self.join2(torch.cat([x, b], 1)))
        return self.last(self.join1(torch.cat([x, a], 1)))


class Denoise(Job):
    batch, size, channels = 2, 32, 16

    def make_model(self):
        return UNet(self.channels)

    def make_data(self):
        image, noise = (torch.randn(self.batch, 3, self.size, self.size) for _ in range(2))
        return image + noise, noise

    def loss(self):
        return F.mse_loss(self.model(self.data[0]), self.data[1])

    def make_optimiser(self, parameters):
        optimiser = torch.optim.Adam(parameters, lr=1e-3)
        self.schedule = lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=0)
        return optimiser

    def step(self):
        loss = super().step()
        self.schedule.step(loss.item())
        return loss


class Listen(nn.Module):
    """Convolutions over the spectrum and an encoder; a decoder of words with attention to it."""

    def __init__(self, bands, words, width):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.1, F.gelu, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, 4, 2 * width, 0.1, F.gelu, batch_first=True, norm_first=True)
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)

    def forward(self, sound, words):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2)
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1], device=words.device)
        return self.head(self.decoder(self.words(words), self.encoder(x), mask))


class Whisper(Job):
    bands, words, width, batch, frames, length = 40, 512, 64, 4, 96, 24

    def make_model(self):
        return Listen(self.bands, self.words, self.width)

    def make_data(self):
        words = torch.randint(self.words, (self.batch, self.length + 1))
        return torch.randn(self.batch, self.bands, self.frames), words[:, :-1].contiguous(), words[:, 1:].contiguous()


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def rotate(x):
    """Rotary places, as pairs of a number from either half."""
    n, half = x.shape[2], x.shape[3] // 2
    angle = torch.outer(torch.arange(n, device=x.device), 1e4 ** (-torch.arange(half, device=x.device) / half))
    a, b = x.split(half, dim=3)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=3)


class LlamaBlock(nn.Module):
    """Four queries share a key and value."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.shared = heads, heads // 4
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        part = width // 4
        self.q, self.k, self.v, self.o = (nn.Linear(a, b, bias=False) for a, b in (
            (width, width), (width, part), (width, part), (width, width)))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in (
            (width, 3 * width), (width, 3 * width), (3 * width, width)))

    def forward(self, x):
        b, n, w = x.shape
        y = self.norm1(x)
        q, k, v = (linear(y).view(b, n, heads, w // self.heads).transpose(1, 2) for linear, heads in (
            (self.q, self.heads), (self.k, self.shared), (self.v, self.shared)))
        k, v = (t.repeat_interleave(4, dim=1) for t in (rotate(k), v))
        a = F.scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, n, w))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(LanguageModel):
    words, width, heads = 512, 128, 8

    def make_model(self):
        blocks = (LlamaBlock(self.width, self.heads) for _ in range(self.layers))
        return nn.Sequential(nn.Embedding(self.words, self.width), *blocks, RMSNorm(self.width),
                             nn.Linear(self.width, self.words, bias=False))


LARGER = {'resnet': Residual, 'unet': Denoise, 'whisper': Whisper, 'llama': Llama}
