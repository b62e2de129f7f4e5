# SPDX-License-Identifier: Apache-2.0
"""What the tests of clients' wheels share: virtual environments with wheels from PyPI, and programs in them."""
import fcntl
import hashlib
import os
import subprocess
import sys
import time


def interpreter():
    for name in (sys.executable, '/usr/bin/python3', 'python3.11'):
        code = 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))'
        try:
            if not subprocess.run([name, '-c', code], stderr=subprocess.DEVNULL).returncode:
                return name
        except FileNotFoundError:
            pass
    sys.exit('the wheels need Python 3.11 with venv (Debian 12: python3-venv)')


def environment(folder, wheels, lists):
    """Returns the Python of the virtual environment with `wheels`, without what they ask for, and the packages of the
    files `lists`; makes that first where it is missing or of others."""
    python = os.path.join(folder, 'bin', 'python')
    texts = []
    for path in lists:
        with open(path, encoding='utf-8') as f:
            texts.append(f.read())
    digest = hashlib.sha256('\n'.join(wheels + texts).encode()).hexdigest()
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
        subprocess.run(pip + ['--no-deps'] + wheels, check=True)
        subprocess.run(pip + [x for f in lists for x in ('-r', f)], check=True)
        with open(stamp, 'w', encoding='utf-8') as f:
            f.write(digest)
    return python


def half(number):
    """CANNON_SHARE for one of two halves, 0 or 1, of a test's cases; which is which changes with CANNON_SEED."""
    return str((number + int(os.environ.get('CANNON_SEED', '0'))) % 2)


def share(cases):
    """Those of the cases that CANNON_SHARE wants: every other one, from the first (0) or the second on (1), or all."""
    wanted = os.environ.get('CANNON_SHARE', '')
    return cases[int(wanted)::2] if wanted else cases


def run(prefix, device, here, *command, **variables):
    """In folder `here` under `cannon run`, as a user does; true where it ends well."""
    started = time.time()
    env = dict(os.environ, OMP_NUM_THREADS=os.environ.get('OMP_NUM_THREADS', '2'), PYTHONWARNINGS='ignore',
               **variables)
    cannon = [os.path.join(prefix, 'bin', 'cannon'), 'run', '--quiet', '--device', device, '--']
    status = subprocess.run([*cannon, *command], cwd=here, env=env).returncode
    outcome = 'passed' if not status else f'status {status}'
    words = ' '.join(map(os.path.basename, command))
    print(f'{device}: {words}: {outcome}, {time.time() - started:.0f} s', flush=True)
    return status == 0
