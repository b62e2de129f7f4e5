#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank, started by torchrun:  torchrun --nproc-per-node N worker.py FOLDER CASE...

Runs the cases with hccl on npu, then the trainings among them with gloo on the CPU, and writes a line of JSON for each
case to FOLDER/RANK: its name, and this rank's losses on both. --backend gloo tests the cases themselves without npu."""
import argparse
import json
import os
import sys

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from collectives import COLLECTIVES, HCCL_ONLY
from training import NOT_ON_GLOO, REFERENCE, TRAINING, Side


def begin(backend, store=None):
    if backend == 'hccl':
        torch.npu.set_device(int(os.environ['LOCAL_RANK']))
    where = {}
    if store:
        where = {'store': store, 'rank': int(os.environ['RANK']), 'world_size': int(os.environ['WORLD_SIZE'])}
    dist.init_process_group(backend, **where)
    return Side(backend)


def run(side, cases):
    losses = {}
    for name in cases:
        if name in TRAINING:
            losses[name] = TRAINING[name](side)
        else:
            COLLECTIVES[name](side)
        sys.stdout.write(f'{side.backend} rank {side.rank}: {name}\n')
        sys.stdout.flush()
    return losses


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('folder')
    ap.add_argument('cases', nargs='+')
    ap.add_argument('--backend', choices=('hccl', 'gloo'), default='hccl')
    a = ap.parse_args()
    torch.set_num_threads(1)
    cases = [x for x in a.cases if a.backend == 'hccl' or x not in HCCL_ONLY | NOT_ON_GLOO]
    side = begin(a.backend)
    store = dist.distributed_c10d._get_default_store()
    got = run(side, cases)
    dist.destroy_process_group()

    side = begin('gloo', dist.PrefixStore('reference', store))
    references = dict.fromkeys(REFERENCE.get(name, TRAINING[name]) for name in got)  # in the same order on all ranks
    want = {f: f(side) for f in references}
    with open(os.path.join(a.folder, str(side.rank)), 'w', encoding='utf-8') as f:
        for name in cases:
            line = {'case': name}
            if name in got:
                line.update(got=got[name], want=want[REFERENCE.get(name, TRAINING[name])])
            print(json.dumps(line), file=f)
    dist.destroy_process_group()


if __name__ == '__main__':
    sys.exit(main())
