#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether ggml's CANN backend has the memory of a real run in a dry one (docs/fit.md): the same operators, peaks,
allocations and committed memory, with each of the backend's pools.

    dry.py [--prefix PREFIX] LLAMA_BENCH MODEL.gguf

LLAMA_BENCH is the program llama-bench, and a small model that make_model.py makes will do (seconds):
`make_model.py --layers 3 --width 256 --heads 4 --inner 512 --words 2000 MODEL.gguf`. Ends with status 1 where anything
differs.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of times, which differ anyhow.
TIMES = ('allocation_latency', 'free_latency')
# What llama-bench is told besides the model: pool of the backend, arguments.
CASES = [(pool, ['-p', '128', '-n', '16', '-fa', '0']) for pool in ('vmm', 'prio', 'leg')]
CASES.append(('vmm', ['-p', '300', '-n', '40', '-fa', '1', '-ub', '64']))


def measure(options, folder, pool, arguments, dry):
    """What a run has of memory: heaps, pools, copies, and how often each operator was launched."""
    path = os.path.join(folder, f'{len(os.listdir(folder))}.json')
    libraries = os.path.join(options.prefix, 'lib64')
    env = dict(os.environ, GGML_CANN_MEM_POOL=pool, ASCEND_TOOLKIT_HOME=options.prefix,
               LD_LIBRARY_PATH=os.pathsep.join(filter(None, (libraries, os.environ.get('LD_LIBRARY_PATH')))))
    cannon = [os.path.join(options.prefix, 'bin', 'cannon'), 'run', '--quiet', '--mem', '4G', '--json', path, *dry]
    bench = [options.bench, '-m', options.model, '-dev', 'CANN0', '-ngl', '99', '-t', '2', '-r', '1', *arguments]
    subprocess.run([*cannon, '--', *bench], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(path, encoding='utf-8') as f:
        process, = json.load(f)['processes']
    out = {kind: {k: v for k, v in process[kind].items() if k not in TIMES} for kind in ('pinned', 'managed')
           if process.get(kind)}
    out['devices'] = [{k: v for k, v in d.items() if k not in TIMES} for d in process['devices']]
    out['copies'], out['pools'] = process.get('copies'), process.get('pools')
    out['launches'] = {op['name']: op['launches'] for op in process['operators']}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prefix', default=os.path.join(ROOT, 'build', 'prefix'))
    parser.add_argument('bench', metavar='LLAMA_BENCH')
    parser.add_argument('model', metavar='MODEL.gguf')
    options = parser.parse_args()
    differ = False
    with tempfile.TemporaryDirectory() as folder:
        for pool, arguments in CASES:
            real, dry = (measure(options, folder, pool, arguments, dry) for dry in ([], ['--dry']))
            device = dry['devices'][0]
            print(f"{pool:5} {' '.join(arguments):28} peak {device['peak_bytes']} bytes, committed "
                  f"{device['peak_committed_bytes']}, {device['allocations']} allocations, "
                  f"{sum(dry['launches'].values())} operators: {'equal' if real == dry else 'DIFFER'}")
            for key in real:
                if real[key] != dry[key]:
                    print(f'      {key}: real {real[key]}\n      {key}: dry  {dry[key]}')
            differ = differ or real != dry
    return differ


if __name__ == '__main__':
    sys.exit(main())
