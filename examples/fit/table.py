#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of memory that articles print, measured: gpt.py in dry runs at one stated size, beside what is claimed.

    python table.py              at full size, on a dry device
    python table.py --real       at a small size, computed and dry, which need the same memory

`cannon` is to be on PATH, and `python` to have torch_npu."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FULL = '--layers 4 --width 768 --heads 12 --length 2048 --batch 5'
SMALL = '--layers 2 --width 128 --heads 4 --length 256 --batch 2'

# What articles say in GB, mostly without a size; what gives it here; why they differ or agree.
ROWS = (
    ('standard attention', '8.5', '--attention standard',
     'the size was chosen for this: each layer keeps its probabilities, heads x length x length floats a sample'),
    ('flash attention', '2.1', '--attention flash',
     'no probabilities are kept; what stays grows with the length alone, so it depends on the size of the rest'),
    ('chunked attention', '3.2', '--attention chunked',
     'near flash only where a chunk is made again in the backward pass; where chunks are kept nothing is saved'),
    ('checkpointing', '4.1', '--recompute all',
     'one layer at a time has its activations, so it depends on the number of layers'),
    ('AMP', 'half', '--amp',
     'autocast computes softmax in float32 and keeps a 16-bit copy too, so standard attention gets no smaller'),
    ('all in 16 bits', 'half', '--half', 'this does halve parameters, states and activations'),
)


def measure(size, switches, dry):
    with tempfile.NamedTemporaryFile(suffix='.json') as f:
        command = ['cannon', 'run', '--quiet', *(['--dry'] if dry else []), '--mem', '64G' if dry else '4G', '--',
                   sys.executable, os.path.join(HERE, 'gpt.py'), '--steps', '2', '--json', f.name,
                   *size.split(), *switches.split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.load(f)['peak']


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--real', action='store_true')
    a = ap.parse_args()
    size = SMALL if a.real else FULL
    print(f'gpt.py {size}\n')
    print('| | claimed, GB | measured | ratio to standard | why |' if not a.real else
          '| | real, bytes | dry, bytes |')
    print('|---|---|---|---|---|' if not a.real else '|---|---|---|')
    whole = None
    for name, claimed, switches, why in ROWS:
        peak = measure(size, switches, True)
        whole = whole or peak
        if a.real:
            print(f'| {name} | {measure(size, switches, False)} | {peak} |', flush=True)
        else:
            print(f'| {name} | {claimed} | {peak / 1e9:.2f} | {peak / whole:.2f} | {why} |', flush=True)
    if not a.real:
        weights, device = 175e9 * 4, 64 * 2**30
        print(f'\n175 billion parameters in float32: {weights / 1e9:.0f} GB, by arithmetic: {-int(-weights // device)} '
              'devices of 64 GiB hold the weights alone. Training with Adam keeps four times as much.')


if __name__ == '__main__':
    main()
