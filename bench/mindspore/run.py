#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of MindSpore on Cannon beside MindSpore's own CPU backend: processor time per step, of the whole
process, with one thread for loops.

  run.py --prefix PREFIX --venv FOLDER [--rounds N] [--seconds S]    prints a table. FOLDER: of tests/clients/mindspore
  run.py worker DEVICE MODE SECONDS CASE...                           prints seconds per step of each case, as JSON

In each round both backends run all cases, for S seconds each, one after the other; the table has the medians over the
rounds. A case is NETWORK:OPTIMISER:DTYPE of tests/clients/mindspore/models.py; the CPU backend lacks kernels of mint's.
The batches are small, so the time is largely that of MindSpore and of submitting operators."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = ('classic:nn.Momentum:float32', 'classic:nn.Adam:float32', 'classic_avg:nn.SGD:float32')
MODES = ('pynative', 'O0')
WARM_UP = 5


def steps_of(case, mode):
    """A function that does a step, and waits for the loss."""
    import mindspore
    import models
    network, optimiser, dtype = case.split(':')
    net, inputs = models.NETWORKS[network](getattr(mindspore, dtype))
    models.fill(net).set_train()
    opt = models.OPTIMISERS[optimiser](net.trainable_params())
    backward = mindspore.value_and_grad(net, None, net.trainable_params())

    def step():
        loss, grads = backward(*inputs)
        opt(grads)
        return loss

    if mode == 'O0':
        step = mindspore.jit(step, backend='ms_backend', jit_level='O0')
    return lambda: step().asnumpy()


def worker(device, mode, seconds, *cases):
    sys.path.insert(0, os.path.join(SOURCE, 'tests', 'clients', 'mindspore'))
    import mindspore
    mindspore.set_device(device)
    for case in cases:
        try:
            step = steps_of(case, mode)
            for _ in range(WARM_UP):
                step()
            n, began = 0, time.process_time()
            while time.process_time() - began < float(seconds):
                step()
                n += 1
            print(json.dumps([case, (time.process_time() - began) / n]), flush=True)
        except Exception as error:                                      # no kernel: the table has a dash
            print(json.dumps([case, None, str(error)[:100]]), flush=True)


def measure(a, device, mode):
    command = [os.path.join(a.venv, 'bin', 'python'), os.path.abspath(__file__), 'worker', device, mode,
               str(a.seconds), *CASES]
    if device != 'CPU':
        command = [os.path.join(a.prefix, 'bin', 'cannon'), 'run', '--quiet', '--', *command]
    env = dict(os.environ, OMP_NUM_THREADS='1', GLOG_v='3', PYTHONWARNINGS='ignore')
    with tempfile.TemporaryDirectory() as folder:                       # MindSpore writes files to the working folder
        done = subprocess.run(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return {case: rest[0] for case, *rest in map(json.loads, done.stdout.splitlines())}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--seconds', type=float, default=2)
    a = ap.parse_args()
    a.prefix, a.venv = os.path.abspath(a.prefix), os.path.abspath(a.venv)
    times = {}
    for _ in range(a.rounds):
        for mode in MODES:
            for device in ('Ascend', 'CPU'):
                for case, t in measure(a, device, mode).items():
                    times.setdefault((case, mode, device), []).append(t)
    print('case mode  ours ms  CPU backend ms  ratio')
    for case in CASES:
        for mode in MODES:
            ours, peer = (times[case, mode, device] for device in ('Ascend', 'CPU'))
            if None in ours + peer:
                print(case, mode, 'no kernel' if None in peer else 'fails here')
                continue
            ours, peer = statistics.median(ours) * 1e3, statistics.median(peer) * 1e3
            print(f'{case} {mode}  {ours:.2f}  {peer:.2f}  {ours / peer:.2f}')


if __name__ == '__main__':
    if sys.argv[1:2] == ['worker']:
        worker(*sys.argv[2:])
    else:
        main()
