#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of a program that goes wrong:  failing.py disagree | die | unequal
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment, as for init_process_group.

disagree: rank 0 calls all_reduce, the others all_gather
unequal:  rank 0 reduces another number of elements than the others
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
    {'disagree': disagree, 'unequal': unequal, 'die': die}[sys.argv[1]](side)
    torch.npu.synchronize()
    print('nothing was told')


if __name__ == '__main__':
    main()
