#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The stock MindSpore wheel against an installed prefix, as a user sets it up.

  run.py --prefix PREFIX --venv FOLDER                 networks train in PyNative and jit O0, by Model, under the
                                                       profiler, and on two devices; functions of ops and nn
  run.py --prefix PREFIX --venv FOLDER --only STEP     one step of these: environment, training, model, profiler,
                                                       distributed or functions

--version has the version of MindSpore; CI runs 2.10.0. FOLDER becomes a virtual environment of Python 3.11 with the
wheel from PyPI (0.8 GB, 2.6 GB unpacked), and is used again as long as the list of requirements stays as it is."""
import argparse
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import client  # noqa: E402 -- beside this folder

STEPS = ('environment', 'training', 'model', 'profiler', 'distributed', 'functions')
VERSIONS = ('2.10.0', '2.7.2')


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--venv', required=True)
    ap.add_argument('--only', choices=STEPS)
    ap.add_argument('--version', choices=VERSIONS, default=VERSIONS[0])
    a = ap.parse_args()
    prefix, folder = os.path.abspath(a.prefix), os.path.abspath(a.venv)
    python = client.environment(folder, [f'mindspore=={a.version}'], [os.path.join(HERE, 'requirements.txt')])
    # The HCCL plugin of 2.7.2 wants functions of the graph engine's own plugins (libhcom_opskernel_builder.so).
    steps = [step for step in STEPS[1:] if a.version == VERSIONS[0] or step != 'distributed']
    good = [client.run(prefix, 'Ascend910B3', HERE, python, f'test_{step}.py')
            for step in steps if a.only in (None, step)]
    print(f'{sum(good)} of {len(good)} parts passed' if good else f'{folder} is ready')
    sys.exit(not all(good))


if __name__ == '__main__':
    main()
