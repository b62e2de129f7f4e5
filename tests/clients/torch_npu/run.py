#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stock torch_npu wheel against an installed prefix, as a user sets it up.

  run.py --prefix PREFIX --venv FOLDER                 what CI runs: runtime, profiler, training on two kinds of
                                                       device, and a sample of PyTorch's operator database, drawn by
                                                       --seed, and training on several devices
  run.py --prefix PREFIX --venv FOLDER --only STEP     one step of these: environment, runtime, profiler, training,
                                                       distributed or operators
  run.py --prefix PREFIX --venv FOLDER --whole         the whole database; --table FILE writes its outcomes there

FOLDER becomes a virtual environment of Python 3.11 with the wheels from PyPI (3 GB), and is used again as long as the
lists of requirements stay as they are. Several of these programs may share FOLDER: one installs, the others wait."""
import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LISTS = [os.path.join(HERE, name) for name in ('requirements.txt', 'requirements-tests.txt')]
WHEELS = ['torch==2.7.1', 'torch_npu==2.7.1']
DEVICES = ('Ascend910_9391', 'Ascend910B3')  # torch_npu takes different code paths on them
SAMPLE = 0.12                                # the share of the operator database that CI runs
STEPS = ('environment', 'runtime', 'profiler', 'training', 'distributed', 'operators')


def interpreter():
    for name in (sys.executable, '/usr/bin/python3', 'python3.11'):
        code = 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))'
        try:
            if not subprocess.run([name, '-c', code], stderr=subprocess.DEVNULL).returncode:
                return name
        except FileNotFoundError:
            pass
    sys.exit('torch_npu 2.7.1 needs Python 3.11 with venv (Debian 12: python3-venv)')


def environment(folder):
    """Returns the Python of the virtual environment; makes that first where it is missing or of other lists."""
    python = os.path.join(folder, 'bin', 'python')
    texts = []
    for path in LISTS:
        with open(path, encoding='utf-8') as f:
            texts.append(f.read())
    digest = hashlib.sha256('\n'.join(WHEELS + texts).encode()).hexdigest()
    stamp = os.path.join(folder, 'made-of')
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + '.lock', 'w', encoding='utf-8') as lock:     # released by close, so also when this program dies
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(stamp, encoding='utf-8') as f:
                if f.read() == digest:
                    return python
        except FileNotFoundError:
            pass
        subprocess.run([interpreter(), '-m', 'venv', '--clear', folder], check=True, close_fds=True)
        # Not compiled: that takes a minute, and what is imported of it is compiled then.
        pip = [python, '-m', 'pip', 'install', '--quiet', '--no-input', '--no-compile', '--disable-pip-version-check',
               '--retries', '5']
        subprocess.run(pip + ['--no-deps'] + WHEELS, check=True)
        subprocess.run(pip + [x for f in LISTS for x in ('-r', f)], check=True)
        with open(stamp, 'w', encoding='utf-8') as f:
            f.write(digest)
    return python


def run(prefix, device, *command):
    """Under `cannon run`, as a user does; true where it ends well."""
    started = time.time()
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get('OMP_NUM_THREADS', '2'), PYTHONWARNINGS='ignore',
               TORCH_NPU_DISABLED_WARNING='1')
    cannon = [os.path.join(prefix, 'bin', 'cannon'), 'run', '--quiet', '--device', device, '--']
    status = subprocess.run([*cannon, *command], cwd=HERE, env=env).returncode
    outcome = 'passed' if not status else f'status {status}'
    words = ' '.join(map(os.path.basename, command))
    print(f'{device}: {words}: {outcome}, {time.time() - started:.0f} s', flush=True)
    return status == 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--only', choices=STEPS)
    ap.add_argument('--whole', action='store_true')
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--table')
    a = ap.parse_args()
    prefix, folder = os.path.abspath(a.prefix), os.path.abspath(a.venv)
    steps = [a.only] if a.only else STEPS
    python = environment(folder)
    good = []
    for step in ('runtime', 'profiler'):
        if step in steps:
            good.append(run(prefix, DEVICES[0], python, f'test_{step}.py'))
    if 'training' in steps:
        good += [run(prefix, device, python, 'test_training.py') for device in DEVICES]
    if 'distributed' in steps:
        # Not under `cannon run`: the test has programs of several numbers of devices.
        env = dict(os.environ, CANNON_PREFIX=prefix)
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
