#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stock wheel onnxruntime-cann against an installed prefix, as a user sets it up.

  run.py --prefix PREFIX --venv FOLDER                 what CI runs
  run.py --prefix PREFIX --venv FOLDER --only STEP     one step: environment, operators or graph

FOLDER becomes a virtual environment of Python 3.11 with packages from PyPI (60 MB), and is used again as long as the
list of requirements stays as it is."""
import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import client  # noqa: E402 -- beside this folder

STEPS = ('environment', 'operators', 'graph')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--only', choices=STEPS)
    a = ap.parse_args()
    prefix, folder = os.path.abspath(a.prefix), os.path.abspath(a.venv)
    python = client.environment(folder, ['onnxruntime-cann==1.24.4'], [os.path.join(HERE, 'requirements.txt')])
    good = []
    for step in STEPS[1:]:
        if a.only in (None, step):
            # The provider writes each model into the current folder, and reads what is there.
            with tempfile.TemporaryDirectory(prefix='onnxruntime-cann-') as empty:
                script = os.path.join(HERE, f'test_{step}.py')
                good.append(client.run(prefix, 'Ascend910B3', empty, python, '-B', script))
    print(f'{sum(good)} of {len(good)} parts passed' if good else f'{folder} is ready')
    sys.exit(not all(good))


if __name__ == '__main__':
    main()
