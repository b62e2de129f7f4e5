#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stock torch_npu wheel against an installed prefix, as a user sets it up.

  run.py --prefix PREFIX --venv FOLDER                 what CI runs: runtime, profiler; half of training on each of two
                                                       kinds of device; a sample of PyTorch's operator database, drawn
                                                       by --seed; half of what several devices do (CANNON_SEED says
                                                       which halves)
  run.py --prefix PREFIX --venv FOLDER --only STEP     one step of these: environment, runtime, profiler, training,
                                                       dry, check, distributed or operators
  run.py --prefix PREFIX --venv FOLDER --whole         all of it, the whole database, too; --table FILE writes the
                                                       database's outcomes there

--release has the release of PyTorch and torch_npu; CI runs 2.7.
FOLDER becomes a virtual environment of Python 3.11 with the wheels from PyPI (3 GB), and is used again as long as the
lists of requirements stay as they are. Several of these programs may share FOLDER: one installs, the others wait."""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import client  # noqa: E402 -- beside this folder

# The wheels by the release of PyTorch, with the list of what they need.
RELEASES = {
    '2.7': (['torch==2.7.1', 'torch_npu==2.7.1'], 'requirements.txt'),
    '2.8': (['torch==2.8.0', 'torch_npu==2.8.0.post5'], 'requirements-2.8.txt'),
    '2.9': (['torch==2.9.0', 'torch_npu==2.9.0.post9'], 'requirements-2.9.txt'),
}
DEVICES = ('Ascend910_9391', 'Ascend910B3')  # torch_npu takes different code paths on them
SAMPLE = 0.03                                # the share of the operator database that CI runs
STEPS = ('environment', 'runtime', 'profiler', 'training', 'dry', 'check', 'distributed', 'operators')


def run(prefix, device, *command, **variables):
    return client.run(prefix, device, HERE, *command, TORCH_NPU_DISABLED_WARNING='1', **variables)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--only', choices=STEPS)
    ap.add_argument('--whole', action='store_true')
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--table')
    ap.add_argument('--release', choices=RELEASES, default='2.7')
    a = ap.parse_args()
    prefix, folder = os.path.abspath(a.prefix), os.path.abspath(a.venv)
    steps = [a.only] if a.only else STEPS
    wheels, requirements = RELEASES[a.release]
    python = client.environment(folder, wheels,
                                [os.path.join(HERE, name) for name in (requirements, 'requirements-tests.txt')])
    good = []
    for step in ('runtime', 'profiler'):
        if step in steps:
            good.append(run(prefix, DEVICES[0], python, f'test_{step}.py'))
    if 'training' in steps:
        for number, device in enumerate(DEVICES):
            share = '' if a.whole else client.half(number)
            good.append(run(prefix, device, python, 'test_training.py', CANNON_SHARE=share))
    good += [run(prefix, DEVICES[1], python, f'test_{step}.py') for step in ('dry', 'check') if step in steps]
    if 'dry' in steps:
        good.append(run(prefix, DEVICES[1], python, 'test_recording.py'))
        good.append(run(prefix, DEVICES[1], python, 'test_advice.py'))
    if 'distributed' in steps:
        # Not under `cannon run`: the test has programs of several numbers of devices.
        env = dict(os.environ, CANNON_PREFIX=prefix, CANNON_SHARE='' if a.whole else client.half(0))
        test = os.path.join(HERE, 'distributed', 'test_distributed.py')
        good.append(subprocess.run([python, test], env=env).returncode == 0)
    if 'operators' in steps:
        results = os.path.join(folder, 'op_db.json')
        sample = [] if a.whole else ['--sample', str(SAMPLE), '--seed', str(a.seed)]
        good.append(run(prefix, DEVICES[0], python, 'op_db.py', '--out', results, *sample))
        if a.table:
            with open(a.table, 'w', encoding='utf-8') as f:
                report = [python, os.path.join(HERE, 'op_db.py'), '--report', results]
                good.append(subprocess.run(report, stdout=f).returncode == 0)
    print(f'{sum(good)} of {len(good)} parts passed' if good else f'{folder} is ready')
    sys.exit(not all(good))


if __name__ == '__main__':
    main()
