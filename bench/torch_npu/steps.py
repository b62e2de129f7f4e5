# SPDX-License-Identifier: Apache-2.0
"""The measurements that run.py makes in one process; prints one line of JSON.

  steps.py step MODEL [AMP]       seconds per training step on cpu and npu, alternating
  steps.py small MODEL            seconds per step on npu alone, for the share spent inside Cannon
  steps.py ops                    microseconds of single operators on both, at three sizes
  steps.py memory MODEL           peaks of device memory as torch_npu reports them
"""
import functools
import json
import os
import statistics
import sys
import time

import torch
import torch_npu  # noqa: F401
from torch.nn import functional as F

sys.path.insert(0,
                os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tests', 'clients', 'torch_npu'))
from models import MODELS  # noqa: E402

# Sizes for which a step on the CPU takes at least 50 ms on one core.
LARGE = {
    'mlp': dict(batch=512, width=1536), 'mlp_adam': dict(batch=512, width=1536),
    'cnn': dict(batch=32, size=64, channels=32),
    'lm': dict(words=2048, width=256, heads=4, layers=4, length=256, batch=2),
    'lm_checkpoint': dict(words=2048, width=256, heads=4, layers=4, length=256, batch=2),
    'lm_accumulate': dict(words=2048, width=256, heads=4, layers=4, length=256, batch=1),
    'lstm': dict(inputs=128, width=256, length=64, batch=32), 'gru': dict(inputs=128, width=256, length=64, batch=32),
}
AMPS = {'bf16': torch.bfloat16, 'fp16': torch.float16}


def job(name, device, large, amp=None):
    kind = MODELS[name]
    return type(kind.__name__, (kind,), LARGE[name] if large else {})(device, AMPS.get(amp))


def synchronize():
    torch.npu.synchronize()


def timed(f, n):
    started = time.perf_counter()
    for _ in range(n):
        f()
    synchronize()
    return (time.perf_counter() - started) / n


def step(name, amp=None):
    jobs = {device: job(name, device, True, amp) for device in ('cpu', 'npu')}
    for j in jobs.values():
        timed(j.step, 2)
    times = {device: [] for device in jobs}
    for _ in range(5):
        for device, j in jobs.items():
            times[device].append(timed(j.step, 2))
    return {**{d: statistics.median(t) for d, t in times.items()},
            'ratios': [n / c for n, c in zip(times['npu'], times['cpu'])]}


def small(name):
    j = job(name, 'npu', False)
    timed(j.step, 5)
    n = 50
    return {'seconds': timed(j.step, n), 'steps': n + 5}


def cases():
    """Yields (operator, name of the size, function that makes the arguments, function)."""
    def elementwise(n):
        return lambda: [torch.randn(n), torch.randn(n)]

    sizes = (('1 Ki', 1 << 10), ('256 Ki', 1 << 18), ('16 Mi', 1 << 24))
    unary = {'relu': F.relu, 'gelu tanh': lambda x: F.gelu(x, approximate='tanh'), 'sigmoid': torch.sigmoid,
             'exp': torch.exp,
             'sqrt': lambda x: x.abs().sqrt(), 'tanh': torch.tanh, 'silu': F.silu, 'sin': torch.sin, 'neg': torch.neg,
             'half': lambda x: x.half(), 'sum': torch.sum, 'mean': torch.mean, 'max': torch.max, 'argmax': torch.argmax}
    binary = {'add': torch.add, 'mul': torch.mul, 'div': torch.div, 'maximum': torch.maximum, 'gt': torch.gt,
              'where': lambda a, b: torch.where(a > 0, a, b)}
    for label, n in sizes:
        for name, f in unary.items():
            yield name, label, elementwise(n), lambda a, b, f=f: f(a)
        for name, f in binary.items():
            yield name, label, elementwise(n), f
    for label, rows, n in (('32×64', 32, 64), ('256×1024', 256, 1024), ('4096×4096', 4096, 4096)):
        def matrix(rows=rows, n=n):
            return [torch.randn(rows, n), torch.randn(n)]
        yield 'softmax', label, matrix, lambda x, w: F.softmax(x, -1)
        yield 'log_softmax', label, matrix, lambda x, w: F.log_softmax(x, -1)
        yield 'layer_norm', label, matrix, lambda x, w: F.layer_norm(x, w.shape, w, w)
        yield 'sum rows', label, matrix, lambda x, w: x.sum(-1)
        yield 'sum columns', label, matrix, lambda x, w: x.sum(0)
        yield 'transpose', label, matrix, lambda x, w: x.t().contiguous()
        yield 'cumsum', label, matrix, lambda x, w: x.cumsum(-1)
        yield 'topk', label, matrix, lambda x, w: x.topk(8, -1)[0]
        yield 'cat', label, matrix, lambda x, w: torch.cat([x, x], 1)
        yield 'index_select', label, matrix, lambda x, w: x.index_select(0, torch.arange(0, x.shape[0], 2,
                                                                                         device=x.device))
    for n in (64, 256, 1024):
        def square(n=n):
            return [torch.randn(n, n), torch.randn(n, n)]
        yield 'mm', f'{n}³', square, torch.mm
        yield 'mm bf16', f'{n}³', (lambda square=square: [t.bfloat16() for t in square()]), torch.mm
        yield 'linear', f'{n}³', square, F.linear
    for label, b, c, s in (('1×8×16²', 1, 8, 16), ('8×32×32²', 8, 32, 32), ('16×64×56²', 16, 64, 56)):
        def image(b=b, c=c, s=s):
            return [torch.randn(b, c, s, s), torch.randn(c, c, 3, 3)]
        yield 'conv2d 3×3', label, image, lambda x, w: F.conv2d(x, w, padding=1)
        yield 'max_pool2d', label, image, lambda x, w: F.max_pool2d(x, 2)
        yield 'avg_pool2d', label, image, lambda x, w: F.avg_pool2d(x, 2)
        yield 'batch_norm', label, image, lambda x, w: F.batch_norm(x, None, None, training=True)
    for label, n in (('64', 64), ('512', 512), ('2048', 2048)):
        def heads(n=n):
            return [torch.randn(1, 8, n, 64) for _ in range(3)]
        yield 'attention', label, heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)


def calls_to_time(functions):
    """The number of calls of the slowest function that take about 20 ms. The first calls, which initialise, are
    ignored."""
    once = max(min(timed(f, 3) for _ in range(4)) for f in functions)
    return max(1, min(2000, int(0.02 / once)))


def ops():
    rows = []
    for name, size, make, f in cases():
        torch.manual_seed(0)
        arguments = {'cpu': make()}
        arguments['npu'] = [t.npu() for t in arguments['cpu']]
        calls = {device: functools.partial(f, *a) for device, a in arguments.items()}
        n = calls_to_time(calls.values())
        times = {'cpu': [], 'npu': []}
        for _ in range(5):
            for device, call in calls.items():
                times[device].append(timed(call, n))
        best = {d: statistics.median(t) * 1e6 for d, t in times.items()}
        rows.append({'op': name, 'size': size, **best,
                     'ratio': statistics.median(x / y for x, y in zip(times['npu'], times['cpu']))})
    return rows


def memory(name):
    j = job(name, 'npu', True)
    for _ in range(3):
        j.step()
    synchronize()
    return {'allocated': torch.npu.max_memory_allocated(), 'reserved': torch.npu.max_memory_reserved()}


def main():
    torch.set_num_threads(int(os.environ.get('OMP_NUM_THREADS', '1')))
    print(json.dumps({'step': step, 'small': small, 'ops': ops, 'memory': memory}[sys.argv[1]](*sys.argv[2:])))


if __name__ == '__main__':
    main()
