#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stock wheel onnxruntime-cann against an installed prefix, as a user sets it up.

  run.py --prefix PREFIX --venv FOLDER                what CI runs
  run.py --prefix PREFIX --venv FOLDER --only STEP    one step: environment, operators or graph

FOLDER becomes a virtual environment of Python 3.11 with the packages of requirements.txt from PyPI (60 MB), and is used
again as long as that list stays as it is."""
import argparse
import fcntl
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, 'requirements.txt')
STEPS = ('environment', 'operators', 'graph')


def environment(folder):
    """The environment's Python. A folder that is not complete has no stamp, and is made again."""
    python, stamp = os.path.join(folder, 'bin', 'python'), os.path.join(folder, 'made-of')
    with open(LIST, encoding='utf-8') as f:
        wanted = f.read()
    if sys.version_info[:2] != (3, 11):
        sys.exit('onnxruntime-cann 1.24.4 needs Python 3.11')
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + '.lock', 'w', encoding='utf-8') as lock:     # released by close, so also when this program dies
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(stamp, encoding='utf-8') as f:
                if f.read() == wanted:
                    return python
        except FileNotFoundError:
            pass
        subprocess.run([sys.executable, '-m', 'venv', '--clear', folder], check=True, close_fds=True)
        subprocess.run([python, '-m', 'pip', 'install', '--quiet', '--no-input', '--no-compile', '--retries', '5',
                        '--disable-pip-version-check', '-r', LIST], check=True)
        with open(stamp, 'w', encoding='utf-8') as f:
            f.write(wanted)
    return python


def run(prefix, python, script):
    """Under `cannon run`, in an empty folder, since the provider writes each model there; true where it ends well."""
    started = time.time()
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get('OMP_NUM_THREADS', '2'))
    command = [os.path.join(prefix, 'bin', 'cannon'), 'run', '--quiet', '--', python, '-B', os.path.join(HERE, script)]
    with tempfile.TemporaryDirectory(prefix='onnxruntime-cann-') as folder:
        status = subprocess.run(command, cwd=folder, env=env, check=False).returncode
    print(f'{script}: {"passed" if not status else f"status {status}"}, {time.time() - started:.0f} s', flush=True)
    return status == 0


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--only', choices=STEPS)
    a = ap.parse_args()
    python = environment(os.path.abspath(a.venv))
    steps = [a.only] if a.only else STEPS
    good = [run(os.path.abspath(a.prefix), python, f'test_{step}.py') for step in steps if step != 'environment']
    sys.exit(not all(good))


if __name__ == '__main__':
    main()
