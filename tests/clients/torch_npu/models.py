# SPDX-License-Identifier: Apache-2.0
"""Small models of the kinds that people train, each with its data and optimiser, the same on every device.

MODELS[name]() makes a Job: a model and step(), which trains one step and returns its loss. All random numbers are
drawn on the CPU from fixed seeds, so that the job sees the same numbers on every device."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Job:
    """A model that trains; subclasses define the model and its data. device: where it trains; amp: None, torch.bfloat16
    or torch.float16 (with a scaler)."""
    steps = 20
    classes = 10

    def __init__(self, device, amp=None):
        torch.manual_seed(0)
        self.device, self.amp = device, amp
        self.model = self.make_model()
        self.data = [t.to(device) for t in self.make_data()]
        self.model.to(device).train()
        self.optimiser = self.make_optimiser(self.model.parameters())
        self.scaler = None
        if amp is torch.float16:
            self.scaler = torch.amp.GradScaler(torch.device(device).type, init_scale=1024.0)

    def make_optimiser(self, parameters):
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)

    def loss(self):
        *inputs, target = self.data
        out = self.model(*inputs)
        return F.cross_entropy(out.float().flatten(0, -2), target.flatten())

    def autocast(self):
        return torch.autocast(torch.device(self.device).type, dtype=self.amp or torch.bfloat16,
                              enabled=self.amp is not None)

    def backward(self, loss):
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        with self.autocast():
            loss = self.loss()
        self.backward(loss)
        self.update()
        return loss.detach()

    def update(self):
        if self.scaler:
            self.scaler.step(self.optimiser)
            self.scaler.update()
        else:
            self.optimiser.step()


class Perceptron(Job):
    batch, width = 64, 256

    def make_model(self):
        return nn.Sequential(nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, self.width), nn.ReLU(),
                             nn.Linear(self.width, self.classes))

    def make_data(self):
        return torch.randn(self.batch, 64), torch.randint(self.classes, (self.batch,))


class PerceptronAdam(Perceptron):
    def make_optimiser(self, parameters):
        return torch.optim.Adam(parameters, lr=1e-3)


class Convolutional(Job):
    batch, size, channels = 16, 32, 16

    def make_model(self):
        c = self.channels
        return nn.Sequential(
            nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.BatchNorm2d(2 * c), nn.ReLU(), nn.Dropout(0.0),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * c, self.classes))

    def make_data(self):
        return torch.randn(self.batch, 3, self.size, self.size), torch.randint(self.classes, (self.batch,))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, n, w))
        # aclnnGelu computes the tanh form, whatever `approximate` says.
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate='tanh'))


class Transformer(nn.Module):
    def __init__(self, words, width, heads, layers, length, recompute):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)
        self.recompute = recompute

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


class LanguageModel(Job):
    words, width, heads, layers, length, batch = 128, 64, 4, 2, 48, 4
    recompute, accumulate = False, 1

    def make_model(self):
        return Transformer(self.words, self.width, self.heads, self.layers, self.length, self.recompute)

    def make_data(self):
        text = torch.randint(self.words, (self.batch, self.length + 1))
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def make_optimiser(self, parameters):
        return torch.optim.AdamW(parameters, lr=1e-3)

    def step(self):
        self.optimiser.zero_grad(set_to_none=True)
        for _ in range(self.accumulate):
            with self.autocast():
                loss = self.loss()
            self.backward(loss / self.accumulate)
        if self.scaler:
            self.scaler.unscale_(self.optimiser)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.update()
        return loss.detach()


class LanguageModelRecomputed(LanguageModel):
    recompute = True


class LanguageModelAccumulated(LanguageModel):
    accumulate = 3


class Recurrent(nn.Module):
    def __init__(self, kind, inputs, width, classes):
        super().__init__()
        self.layer, self.head = kind(inputs, width, batch_first=True), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class LongShortTerm(Job):
    kind, inputs, width, length, batch = nn.LSTM, 16, 32, 12, 8

    def make_model(self):
        return Recurrent(self.kind, self.inputs, self.width, self.classes)

    def make_data(self):
        return torch.randn(self.batch, self.length, self.inputs), torch.randint(self.classes, (self.batch,))

    def make_optimiser(self, parameters):
        return torch.optim.Adam(parameters, lr=2e-3)


class Gated(LongShortTerm):
    kind = nn.GRU


MODELS = {'mlp': Perceptron, 'mlp_adam': PerceptronAdam, 'cnn': Convolutional, 'lm': LanguageModel,
          'lm_checkpoint': LanguageModelRecomputed, 'lm_accumulate': LanguageModelAccumulated, 'lstm': LongShortTerm,
          'gru': Gated}


def train(name, device, amp=None, steps=None):
    """The losses of the first steps."""
    job = MODELS[name](device, amp)
    return [job.step().item() for _ in range(steps or job.steps)]
