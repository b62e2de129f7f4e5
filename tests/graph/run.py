#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs node_tests.py in a virtual environment with the packages of requirements.txt, which is made where it is missing.

usage: run.py FOLDER RUN_MODEL"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def environment(folder):
    """The environment's Python. A folder that is not complete has no stamp, and is made again."""
    wanted = open(os.path.join(HERE, 'requirements.txt'), encoding='utf-8').read()
    python, stamp = os.path.join(folder, 'bin', 'python'), os.path.join(folder, 'made-of')
    if os.path.exists(stamp) and open(stamp, encoding='utf-8').read() == wanted:
        return python
    subprocess.run([sys.executable, '-m', 'venv', '--clear', folder], check=True)
    subprocess.run([python, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', '-r',
                    os.path.join(HERE, 'requirements.txt')], check=True)
    with open(stamp, 'w', encoding='utf-8') as f:
        f.write(wanted)
    return python


def main():
    python = environment(sys.argv[1])
    os.execv(python, [python, '-B', '-W', 'ignore', os.path.join(HERE, 'node_tests.py'), *sys.argv[2:]])


if __name__ == '__main__':
    main()
