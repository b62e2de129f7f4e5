#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Broadcast between two hosts by HCCL on Cannon, beside what UCX itself takes for a message of the same length. The
hosts are network namespaces (tests/support/hosts), so this needs root. Prints a Markdown table.

  hosts.py [--build BUILD] [--bytes N,...] [--rounds N]

Roots take turns, so a Broadcast is one way of a ping-pong, as ucx_perftest's tag_lat is (Debian: ucx-utils). Both use
UCX's TCP transport and are bound to a core each; UCX polls, Cannon does so for 0.2 ms and then sleeps.

  cmake --build build --target bench_comm && cmake --install build --prefix build/prefix
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, '..', '..', 'tests', 'support', 'hosts')
TIMEOUT_S = 200


class Pair:
    """Two hosts, while the object lives."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix='cannon_bench_hosts.')
        made = subprocess.run(self.words('up', '2'), capture_output=True, text=True)
        if made.returncode:
            sys.exit(made.stderr.strip())
        self.address = subprocess.check_output(self.words('address', '0'), text=True).strip()

    def words(self, *rest):
        return [HOSTS, '-d', os.path.join(self.folder.name, 'hosts'), '-o', str(os.getpid()), *rest]

    def start(self, host, env, *command):
        pinned = ['chrt', '-r', '1', 'taskset', '-c', str(host), *command]
        return subprocess.Popen(self.words('run', str(host), '--', *pinned), env=env, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)


def finish(processes):
    """The first process's output."""
    outputs = [p.communicate(timeout=TIMEOUT_S)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit('\n'.join(outputs))
    return outputs[0]


def cannon_us(pair, a, size):
    env = dict(os.environ, CANNON_NET='ucx', UCX_TLS='tcp', CANNON_DEVICES='2',
               LD_LIBRARY_PATH=os.path.join(a.build, 'prefix', 'lib64'))
    env.pop('CANNON_LEDGER', None)
    program = os.path.join(a.build, 'bench', 'bench_comm_hccl')
    with tempfile.TemporaryDirectory(dir=pair.folder.name) as folder:
        ranks = [pair.start(r, env, program, '--rank', str(r), '--ranks', '2', '--folder', folder, '--operations',
                            'Broadcast', '--bytes', str(size), '--no-pin') for r in range(2)]
        line = finish(ranks).strip().splitlines()[-1]
    return json.loads(line)['us']


def ucx_us(pair, size):
    env = dict(os.environ, UCX_TLS='tcp')
    n = max(20, min(5000, (1 << 29) // size))
    test = ('ucx_perftest', '-t', 'tag_lat', '-s', str(size), '-n', str(n), '-w', '5')
    server = pair.start(0, env, *test)
    client = None
    for _ in range(100):    # until the server listens
        client = pair.start(1, env, *test, pair.address)
        if client.wait(TIMEOUT_S) == 0:
            break
    output = client.communicate()[0]
    finish([server])
    final = re.search(r'Final:\s+\d+\s+(.*)', output)
    return float(final.group(1).split()[1])     # the columns: percentile, average, overall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=os.path.join(HERE, '..', '..', 'build'))
    parser.add_argument('--bytes', default='8,1024,65536,1048576,16777216')
    parser.add_argument('--rounds', type=int, default=3)
    a = parser.parse_args()
    pair = Pair()
    print('| bytes | Cannon, µs | UCX, µs | ratio |\n|---|---|---|---|')
    for size in map(int, a.bytes.split(',')):
        rounds = [(cannon_us(pair, a, size), ucx_us(pair, size)) for _ in range(a.rounds)]
        ratios = [ours / theirs for ours, theirs in rounds]
        ours, theirs = (statistics.median(x) for x in zip(*rounds))
        print(f'| {size:,} | {ours:.4g} | {theirs:.4g} | {statistics.median(ratios):.2f} '
              f'({min(ratios):.2f}–{max(ratios):.2f}) |', flush=True)


if __name__ == '__main__':
    main()
