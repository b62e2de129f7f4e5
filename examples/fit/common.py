# SPDX-License-Identifier: Apache-2.0
"""What the training scripts of this folder share: their switches, and the loop over steps that measures memory and
time."""
import argparse
import functools
import json
import os
import statistics
import time

import torch
import torch_npu  # noqa: F401 -- registers the device
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint


def parse(description, batch, more=()):
    """The switches. `more`: further ones, as pairs of a name and the options of add_argument."""
    ap = argparse.ArgumentParser(description=description)
    ap.add_argument('--batch', type=int, default=batch, help='samples of a micro-batch')
    ap.add_argument('--accumulate', type=int, default=1, metavar='N', help='micro-batches of a step')
    ap.add_argument('--recompute', default='none', metavar='WHICH',
                    help='modules that keep only their input, and are computed again in the backward pass: none, all, '
                         'every:K (K neighbouring modules as one), or a list of names, A,B+C,D, where those with + are '
                         'neighbours that are recomputed as one')
    ap.add_argument('--amp', action='store_true', help='matrices are multiplied in bfloat16')
    ap.add_argument('--steps', type=int, default=3)
    ap.add_argument('--json', metavar='FILE', help='write what was measured')
    for name, options in more:
        ap.add_argument(name, **options)
    return ap.parse_args()


# ---- recomputation

class Recomputed(nn.Module):
    """Modules in a chain, of which only the input is kept for the backward pass."""

    def __init__(self, modules):
        super().__init__()
        self.chain = nn.Sequential(*modules)

    def forward(self, x):
        return checkpoint(self.chain, x, use_reentrant=False)


def recompute(model, chains, which, others=()):
    """`chains`: names of lists of modules within the model; their modules and `others`, or those named, are recomputed
    as `which` says."""
    if which.startswith('every:'):  # neighbours of a chain of one input and one output
        k = int(which.split(':')[1])
        for chain in chains:
            modules = model.get_submodule(chain)
            groups = [Recomputed(modules[i:i + k]) for i in range(0, len(modules), k)]
            setattr(model, chain, nn.Sequential(*groups))
        return
    names = [*others, *(f'{chain}.{i}' for chain in chains for i in range(len(model.get_submodule(chain))))]
    for name in {'none': (), 'all': names}[which] if which in ('none', 'all') else which.split(','):
        first, *neighbours = name.split('+')
        module = model.get_submodule(first)
        if neighbours:  # in place of the first one stand all of them, and nothing in place of the others
            model.set_submodule(first, Recomputed([model.get_submodule(n) for n in (first, *neighbours)]))
            for neighbour in neighbours:
                model.set_submodule(neighbour, nn.Identity())
        else:
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)


# ---- several devices

def start_ranks():
    """One process for each device, as torchrun starts them."""
    torch.npu.set_device(int(os.environ['LOCAL_RANK']))
    torch.distributed.init_process_group('hccl')


def shard(model, modules):
    """ZeRO 3: each device has its share of the parameters, gradients and the optimiser's state, and gathers the
    parameters of one module at a time."""
    for module in modules:
        fully_shard(module)
    fully_shard(model)


# ---- training

def step(model, loss_of, batches, optimiser, amp):
    optimiser.zero_grad(set_to_none=True)
    for batch in batches:
        with torch.autocast('npu', dtype=torch.bfloat16, enabled=amp):
            loss = loss_of(model, *batch)
        (loss / len(batches)).backward()
    optimiser.step()
    return loss.item()


def train(a, model, loss_of, make_batch, optimiser):
    """Trains a.steps steps. loss_of(model, *batch) is the loss; make_batch() makes a micro-batch. Prints what was
    measured; the first step is not timed."""
    torch.npu.reset_peak_memory_stats()
    begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    clocks = time.perf_counter, time.process_time
    times = []
    for _ in range(a.steps):
        batches = [make_batch() for _ in range(a.accumulate)]
        torch.npu.synchronize()
        started = [clock() for clock in clocks]
        begin.record()
        loss = step(model, loss_of, batches, optimiser, a.amp)
        end.record()
        torch.npu.synchronize()
        times.append([clock() - was for clock, was in zip(clocks, started)] + [begin.elapsed_time(end) / 1e3])
    report(a, loss, *(statistics.median(which) for which in zip(*(times[1:] or times))))


def report(a, loss, seconds, processor_seconds, device_seconds):
    if int(os.environ.get('RANK', 0)):
        return
    stats = torch.npu.memory_stats()
    measured = {'peak': torch.npu.max_memory_allocated(), 'reserved': torch.npu.max_memory_reserved(), 'batch': a.batch,
                'allocations': stats['allocation.all.allocated'], 'step_s': seconds, 'processor_s': processor_seconds,
                'device_s': device_seconds, 'loss': loss}
    print(f"peak {measured['peak'] / 2**20:.1f} MiB ({measured['peak']} bytes), reserved "
          f"{measured['reserved'] / 2**20:.0f} MiB, {seconds * 1e3:.1f} ms a step, loss {loss:.4f}", flush=True)
    if a.json:
        with open(a.json, 'w', encoding='utf-8') as f:
            json.dump(measured, f)
