#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of the transformer of bench/torch_npu with DistributedDataParallel: torch_npu on Cannon with the
backend hccl, compared with PyTorch on the CPU with gloo. Prints a Markdown table.

  ddp.py --prefix PREFIX --python VENV/bin/python [--ranks N] [--rounds N] [--model NAME] [--only hccl|gloo]
         [--realtime]

Each rank is a process with one thread of PyTorch, bound to a core. Both sides take turns; a ratio is formed per round
(hccl / gloo, lower is better). The losses of both sides must agree, else the program fails."""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WARM_STEPS, SAMPLES, STEPS = 3, 5, 3
TIMEOUT_S = 240
TOLERANCE = 2e-3  # of the losses, relative


def worker(backend, model):
    """A rank; torchrun's variables are in the environment. Rank 0 prints a line of JSON."""
    rank = int(os.environ['RANK'])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    sys.path.insert(0, os.path.join(HERE, '..', 'torch_npu'))
    import torch
    import torch.distributed as dist
    import steps as bench  # of bench/torch_npu; imports torch_npu
    torch.set_num_threads(1)
    device = f'npu:{rank}' if backend == 'hccl' else 'cpu'
    if backend == 'hccl':
        torch.npu.set_device(rank)
    dist.init_process_group(backend)
    job = bench.job(model, device, True)
    job.model = torch.nn.parallel.DistributedDataParallel(
        job.model, device_ids=[rank] if backend == 'hccl' else None)

    def timed(n):
        dist.barrier()
        started = time.perf_counter()
        for _ in range(n):
            loss = job.step()
        if backend == 'hccl':
            torch.npu.synchronize()
        return (time.perf_counter() - started) / n, loss.item()

    first = [timed(1)[1] for _ in range(WARM_STEPS)]
    seconds = [timed(STEPS)[0] for _ in range(SAMPLES)]
    if rank == 0:
        print(json.dumps({'seconds': statistics.median(seconds), 'losses': first}), flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def measure(a, backend):
    """What rank 0 prints. Ends the program if a rank fails."""
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()), WORLD_SIZE=str(a.ranks),
               OMP_NUM_THREADS='1', PYTHONWARNINGS='ignore', HCCL_WHITELIST_DISABLE='1', GLOO_SOCKET_IFNAME='lo',
               CANNON_DEVICES=str(a.ranks), CANNON_DEVICE=a.device)
    line = subprocess.run([os.path.join(a.prefix, 'bin', 'cannon'), 'env'], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    command = ['chrt', '-r', '1'] if a.realtime else []
    command += ['sh', '-c', line + '\nexec "$@"', 'sh', a.python, os.path.abspath(__file__), 'worker', backend, a.model]
    ranks = [subprocess.Popen(command, env=dict(env, RANK=str(r), LOCAL_RANK=str(r)), stdout=subprocess.PIPE, text=True,
                              stderr=None if a.verbose else subprocess.DEVNULL, start_new_session=True)
             for r in range(a.ranks)]
    try:
        texts = [r.communicate(timeout=TIMEOUT_S)[0] for r in ranks]
    except subprocess.TimeoutExpired:
        sys.exit(f'{backend}: not done in {TIMEOUT_S} s')
    finally:
        for r in ranks:
            if r.poll() is None:
                os.killpg(r.pid, signal.SIGKILL)
                r.wait()
    if any(r.returncode for r in ranks):
        sys.exit(f'{backend}: exit statuses {[r.returncode for r in ranks]}; --verbose shows why')
    return json.loads(texts[0].splitlines()[-1])


def main():
    if sys.argv[1:2] == ['worker']:
        worker(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prefix', required=True)
    parser.add_argument('--python', required=True, help='of the virtual environment of tests/clients/torch_npu/run.py')
    parser.add_argument('--device', default='Ascend910B3')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--model', default='lm')
    parser.add_argument('--only', choices=('hccl', 'gloo'))
    parser.add_argument('--realtime', action='store_true', help='by chrt -r, on a machine with other load')
    parser.add_argument('--verbose', action='store_true', help="show the ranks' stderr")
    a = parser.parse_args()
    sides = [a.only] if a.only else ['hccl', 'gloo']
    rounds = [{side: measure(a, side) for side in sides} for _ in range(a.rounds)]
    for r in rounds:
        losses = [r[side]['losses'] for side in sides]
        if any(abs(x - y) > TOLERANCE * abs(y) for x, y in zip(losses[0], losses[-1])):
            sys.exit(f'the losses differ: {losses[0]} by hccl, {losses[-1]} by gloo')
    cells = [f"{1e3 * statistics.median(r[side]['seconds'] for r in rounds):.1f} ms" if side in sides else '–'
             for side in ('hccl', 'gloo')]
    ratios = [] if a.only else [r['hccl']['seconds'] / r['gloo']['seconds'] for r in rounds]
    cells.append(f'{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})' if ratios else '–')
    print('| DDP step | ranks | hccl on Cannon | gloo on the CPU | ratio: median (min–max) |\n|---|---|---|---|---|')
    print(f'| {a.model} | {a.ranks} | ' + ' | '.join(cells) + ' |')


if __name__ == '__main__':
    main()
