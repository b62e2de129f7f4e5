#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process with several devices: DataParallel copies the model to all of them, and gathers what they compute.

Started with TORCH_DEVICE_BACKEND_AUTOLOAD=0. PyPI's torch for x86-64 has these functions for CUDA; torch_npu would only
add overloads, which are never reached. The wheel without CUDA, and that for aarch64, do not have them."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import comm

for name in ('_broadcast', '_broadcast_coalesced', '_broadcast_out', '_gather', '_gather_out', '_scatter',
             '_scatter_out'):
    if hasattr(torch._C, name):
        delattr(torch._C, name)
import torch_npu  # noqa: E402, F401


def losses(device, ids=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    x, y = torch.randn(16, 32).to(device), torch.randint(10, (16,)).to(device)
    model.to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    spread = nn.DataParallel(model, ids) if ids else model
    out = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = F.cross_entropy(spread(x), y)
        loss.backward()
        optimiser.step()
        out.append(loss.item())
    return out


def main():
    n = torch.npu.device_count()
    ids = list(range(n))
    x = torch.arange(12.0).view(6, 2)
    copies = comm.broadcast(x.npu(0), ids)
    assert [c.device.index for c in copies] == ids and all(torch.equal(c.cpu(), x) for c in copies)
    parts = comm.scatter(x.npu(0), ids)
    assert torch.equal(torch.cat([p.cpu() for p in parts]), x)
    assert torch.equal(comm.gather(parts, destination=0).cpu(), x)
    assert torch.equal(comm.reduce_add(copies, destination=n - 1).cpu(), n * x)
    want, got = losses('cpu'), losses('npu:0', ids)
    assert all(abs(w - g) <= 1e-4 * abs(w) for w, g in zip(want, got)), f'{got} on {n} devices, {want} on the CPU'
    print(f'{n} devices of one process train as the CPU does')


if __name__ == '__main__':
    main()
