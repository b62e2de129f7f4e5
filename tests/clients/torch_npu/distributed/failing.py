#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a program that goes wrong:  failing.py disagree | die | unequal | apart | batch
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment, as for init_process_group.

disagree: rank 0 calls all_reduce, the others all_gather
unequal:  rank 0 reduces another number of elements than the others
apart:    rank 0 waits in a barrier, the others run the backward pass of DistributedDataParallel
batch:    the ranks send each other different types
die:      the last rank kills itself in the middle of a training"""
import os
import signal
import sys

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from training import Shared, Side, distribute


def disagree(side):
    x = torch.ones(4096, device=side.device)
    if side.rank == 0:
        dist.all_reduce(x)
    else:
        dist.all_gather([torch.empty_like(x) for _ in range(side.size)], x)


def unequal(side):
    dist.all_reduce(torch.ones(100 if side.rank == 0 else 101, device=side.device))


def apart(side):
    job = distribute(Shared(side.device, side.rank, side.size), side)
    loss = job.loss()
    if side.rank == 0:
        dist.barrier()
    else:
        loss.backward()


def batch(side):
    x = torch.ones(8, dtype=torch.float16 if side.rank else torch.float32, device=side.device)
    other = side.size - 1 - side.rank
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, x.clone(), other)]):
        work.wait()


def die(side):
    job = distribute(Shared(side.device, side.rank, side.size), side)
    for i in range(100):
        if i == 3 and side.rank == side.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        job.step()


def main():
    torch.set_num_threads(1)
    torch.npu.set_device(int(os.environ['RANK']))
    dist.init_process_group('hccl')
    side = Side('hccl')
    x = torch.ones(1, device=side.device)
    dist.all_reduce(x)
    assert x.item() == side.size
    {'disagree': disagree, 'unequal': unequal, 'apart': apart, 'batch': batch, 'die': die}[sys.argv[1]](side)
    torch.npu.synchronize()
    print('nothing was told')


if __name__ == '__main__':
    main()
