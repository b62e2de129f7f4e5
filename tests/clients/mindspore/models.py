# SPDX-License-Identifier: Apache-2.0
"""Small networks that MindSpore trains.

  models.py DEVICE MODE CASE...     prints a line of JSON for each case, NETWORK:OPTIMISER:DTYPE: the losses, or the
                                    message of a failure. MODE: pynative or O0

Each network is a cell that returns the loss of a batch; NETWORKS has for each name a function that makes the cell and
the batch. Parameters and batches come from NumPy, so that two devices compute the same."""
import json
import sys

import numpy as np
import mindspore
from mindspore import Tensor, mint, nn

F = mint.nn.functional


def fill(net, seed=1):
    """Gives parameters values, in their order, from a generator of NumPy's."""
    rng = np.random.default_rng(seed)
    for p in net.trainable_params():
        scale = 1 / np.sqrt(max(1, np.prod(p.shape[1:])))
        values = rng.uniform(-scale, scale, p.shape)
        if 'norm' in p.name and p.name.endswith(('gamma', 'weight')):
            values += 1
        p.set_data(Tensor(values.astype(np.float32)).astype(p.dtype))
    return net


def batch(dtype, shape, classes, n_labels=None, label_type=np.int64):
    rng = np.random.default_rng(0)
    x = Tensor(rng.standard_normal(shape).astype(np.float32)).astype(dtype)
    return x, Tensor(rng.integers(0, classes, n_labels or shape[0]).astype(label_type))


class MLP(nn.Cell):
    def __init__(self, dtype):
        super().__init__()
        self.fc1, self.fc2 = mint.nn.Linear(20, 32, dtype=dtype), mint.nn.Linear(32, 5, dtype=dtype)

    def construct(self, x, labels):
        return F.cross_entropy(self.fc2(F.relu(self.fc1(x))), labels)


class LeNet(nn.Cell):
    def __init__(self, dtype, norm=False):
        super().__init__()
        self.conv1, self.conv2 = mint.nn.Conv2d(1, 6, 5, dtype=dtype), mint.nn.Conv2d(6, 16, 5, dtype=dtype)
        self.norm1 = mint.nn.BatchNorm2d(6, dtype=dtype) if norm else mint.nn.Identity()
        self.pool = mint.nn.MaxPool2d(2)
        self.fc1, self.fc2 = mint.nn.Linear(256, 84, dtype=dtype), mint.nn.Linear(84, 10, dtype=dtype)

    def construct(self, x, labels):
        x = self.pool(F.relu(self.norm1(self.conv1(x))))
        x = self.pool(F.relu(self.conv2(x)))
        return F.cross_entropy(self.fc2(F.relu(self.fc1(mint.flatten(x, 1)))), labels)


def layer_norm(width, dtype):
    """The CPU backend has no kernel for mint's."""
    if mindspore.get_context('device_target') == 'CPU':
        return nn.LayerNorm((width,), epsilon=1e-5)
    return mint.nn.LayerNorm(width, dtype=dtype)


class Transformer(nn.Cell):
    """Next tokens by one block: embedding, attention in 4 heads, GELU."""

    def __init__(self, dtype, vocabulary=50, width=32, length=12):
        super().__init__()

        def linear(n, m):
            return mint.nn.Linear(n, m, dtype=dtype)

        self.tokens = mint.nn.Embedding(vocabulary, width, dtype=dtype)
        self.places = mint.nn.Embedding(length, width, dtype=dtype)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down, self.head = linear(width, 4 * width), linear(4 * width, width), linear(width, vocabulary)
        self.norm1, self.norm2 = layer_norm(width, dtype), layer_norm(width, dtype)
        self.range = Tensor(np.arange(length))
        mask = np.triu(np.full((length, length), -10000.0, np.float32), 1)
        self.mask = Tensor(mask).astype(dtype)

    def construct(self, ids, labels):
        n, length = ids.shape
        x = self.tokens(ids) + self.places(self.range)
        qkv = self.qkv(self.norm1(x)).reshape(n, length, 3, 4, 8)
        q, k, v = qkv[:, :, 0].swapaxes(1, 2), qkv[:, :, 1].swapaxes(1, 2), qkv[:, :, 2].swapaxes(1, 2)
        a = F.softmax(mint.matmul(q, k.swapaxes(2, 3)) / 8 ** 0.5 + self.mask, -1)
        x = x + self.out(mint.matmul(a, v).swapaxes(1, 2).reshape(n, length, 32))
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        return F.cross_entropy(self.head(x).reshape(n * length, 50), labels)


def transformer_batch():
    rng = np.random.default_rng(0)
    return Tensor(rng.integers(0, 50, (4, 12))), Tensor(rng.integers(0, 50, 48))


class ClassicLeNet(nn.Cell):
    """The nn API, as in MindSpore's tutorials."""

    def __init__(self, pool=nn.MaxPool2d):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode='valid', has_bias=True)
        self.norm = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode='valid')
        self.relu, self.flatten, self.pool = nn.ReLU(), nn.Flatten(), pool(kernel_size=2, stride=2)
        self.fc1, self.fc2, self.fc3 = nn.Dense(256, 120), nn.Dense(120, 84), nn.Dense(84, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.norm(self.conv1(x))))
        x = self.pool(self.relu(self.conv2(x)))
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(self.flatten(x))))))


OPTIMISERS = {
    'sgd': lambda p: mint.optim.SGD(p, lr=0.1),
    'momentum': lambda p: mint.optim.SGD(p, lr=0.1, momentum=0.9),
    'adam': lambda p: mint.optim.Adam(p, lr=0.01),
    'adamw': lambda p: mint.optim.AdamW(p, lr=0.01),
    'nn.SGD': lambda p: nn.SGD(p, 0.1, momentum=0.9),
    'nn.Momentum': lambda p: nn.Momentum(p, 0.05, 0.9),
    'nn.Adam': lambda p: nn.Adam(p, 0.01),
    'nn.AdamWeightDecay': lambda p: nn.AdamWeightDecay(p, 0.01),
    'nn.RMSProp': lambda p: nn.RMSProp(p, 0.01),
    'nn.Adagrad': lambda p: nn.Adagrad(p, 0.01),
    'nn.AdaMax': lambda p: nn.AdaMax(p, 0.01),
    'nn.FTRL': lambda p: nn.FTRL(p, learning_rate=0.01),
}

def classic(pool):
    def make(dtype):
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean')
        net = nn.WithLossCell(ClassicLeNet(pool), loss)
        return net, batch(dtype, (8, 1, 28, 28), 10, label_type=np.int32)
    return make


NETWORKS = {
    'mlp': lambda d: (MLP(d), batch(d, (16, 20), 5)),
    'lenet': lambda d: (LeNet(d), batch(d, (8, 1, 28, 28), 10)),
    'lenet_norm': lambda d: (LeNet(d, norm=True), batch(d, (8, 1, 28, 28), 10)),
    'transformer': lambda d: (Transformer(d), transformer_batch()),
    'classic': classic(nn.MaxPool2d),
    'classic_avg': classic(nn.AvgPool2d),
}


def losses(network, optimiser, dtype, mode, steps=5):
    net, inputs = NETWORKS[network](getattr(mindspore, dtype))
    fill(net).set_train()
    opt = OPTIMISERS[optimiser](net.trainable_params())
    backward = mindspore.value_and_grad(net, None, net.trainable_params())

    def step(*inputs):
        loss, grads = backward(*inputs)
        opt(grads)
        return loss

    if mode == 'O0':
        step = mindspore.jit(step, backend='ms_backend', jit_level='O0')
    return [float(step(*inputs).astype(mindspore.float32).asnumpy()) for _ in range(steps)]


def main():
    device, mode, *cases = sys.argv[1:]
    mindspore.set_device(device)
    for case in cases:
        try:
            result = losses(*case.split(':'), mode)
        except Exception as error:
            result = str(error)
        print(json.dumps([case, result]), flush=True)


if __name__ == '__main__':
    main()
