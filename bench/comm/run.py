#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of float32 by HCCL on Cannon, by Open MPI and by gloo, between processes of this machine. Prints a
Markdown table.

  run.py [--build BUILD] [--ranks 2,4] [--operations NAME,...] [--bytes N,...] [--rounds N] [--samples N]
         [--only NAME,...] [--no-realtime] [--no-pin] [--json FILE]

The libraries take turns for each operation. Times are medians of all samples' medians; a sample is the mean of many
operations, by the slowest rank. The ratio is Cannon's time to that of the faster peer in the same round. `bytes` is
the whole array, as in nccl-tests: what each rank reduces or broadcasts, what AllGather makes, what ReduceScatter and
AlltoAll take; each rank has at least one element. busbw is Cannon's, as nccl-tests define it. Below 1 MiB each
operation is waited for; from then on they are queued back to back. Broadcast's root is another rank each time.

Compare ratios of one run only. A virtual machine of two cores was seen to have two states, minutes long: the round trip
of a cache line between its cores takes 92 or 495 ns, and with it 8 bytes by Open MPI 0.19 or 0.41 us, and an AllReduce
of 1 MiB 136 or 593 us. So the round trip is measured before and after each operation, and its range is printed at the
end; rows during which it changed have a ~.

Processes are bound to cores and have the real-time scheduling class (chrt -r) where that is permitted: peers that spin
are 5 to 50 times slower beside other load without it. The peers are Debian's libopenmpi-dev with openmpi-bin, and
libgloo-dev; a peer that is not installed is left out, and that is said.

  cmake --build build --target bench_comm && cmake --install build --prefix build/prefix
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = ('AllReduce', 'AllGather', 'ReduceScatter', 'Broadcast', 'AlltoAll')
LIBRARIES = {'hccl': 'Cannon', 'mpi': 'Open MPI', 'gloo': 'gloo'}
NEEDS = {'hccl': 'the target bench_comm', 'mpi': 'libopenmpi-dev and openmpi-bin, then the target bench_comm',
         'gloo': 'libgloo-dev, then the target bench_comm'}
TIMEOUT_S = 300


def bus_share(operation, ranks):
    """busbw / (bytes / time)."""
    return {'AllReduce': 2 * (ranks - 1) / ranks, 'Broadcast': 1}.get(operation, (ranks - 1) / ranks)


class Runner:
    def __init__(self, a):
        self.a = a
        self.realtime = not a.no_realtime and not subprocess.run(
            ['chrt', '-r', '1', 'true'], stderr=subprocess.DEVNULL).returncode if shutil.which('chrt') else False
        self.env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1')
        libraries = [os.path.join(a.build, 'prefix', 'lib64'), os.environ.get('LD_LIBRARY_PATH')]
        self.env['LD_LIBRARY_PATH'] = ':'.join(filter(None, libraries))

    def missing(self, library):
        return not os.path.exists(self.program(library)) or (library == 'mpi' and not shutil.which('mpirun'))

    def program(self, library):
        return os.path.join(self.a.build, 'bench', f'bench_comm_{library}')

    def round_trip(self):
        """Nanoseconds between two cores; None where the program is not built or there is one core."""
        if not os.path.exists(self.program('cores')):
            return None
        text = subprocess.run((['chrt', '-r', '1'] if self.realtime else []) + [self.program('cores')],
                              stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        return None if text == '-' else float(text)

    def measure(self, library, ranks, operation):
        """The times in microseconds by size, of the sizes that succeeded; what went wrong is on stderr."""
        command = ['chrt', '-r', '1'] if self.realtime else []
        if library == 'mpi':
            command += ['mpirun', '-n', str(ranks), '--bind-to', 'none', '--oversubscribe', self.program(library)]
        else:
            command += [self.program(library), '--ranks', str(ranks)]
        command += ['--operations', operation, '--bytes', self.a.bytes, '--samples', str(self.a.samples),
                    '--seconds', str(self.a.seconds)] + (['--no-pin'] if self.a.no_pin else [])
        with subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, text=True,
                              start_new_session=True) as process:
            try:
                text, _ = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
                print(f'{operation} by {LIBRARIES[library]}, {ranks} ranks: not done in {TIMEOUT_S} s', file=sys.stderr)
        if process.returncode:
            print(f'{operation} by {LIBRARIES[library]}, {ranks} ranks: failed ({process.returncode}); what is missing '
                  'is left out', file=sys.stderr)
        return {row['bytes']: row['us'] for row in map(json.loads, text.splitlines())}


def number(us):
    return f'{us:,.0f}' if us >= 100 else f'{us:.3g}'


def is_changed(trips):
    trips = [t for t in trips if t]
    return bool(trips) and max(trips) > 1.3 * min(trips)


def line(operation, size, ranks, rounds, trips):
    """A row of the table. rounds: times by library, per round."""
    cells, ours = [], [r['hccl'] for r in rounds if 'hccl' in r]
    for library in LIBRARIES:
        times = [r[library] for r in rounds if library in r]
        cells.append(number(statistics.median(times)) if times else '–')
    ratios = [r['hccl'] / min(r[p] for p in r if p != 'hccl') for r in rounds if 'hccl' in r and len(r) > 1]
    cells.append(f'{statistics.median(ratios):.2f}' + (f' ({min(ratios):.2f}–{max(ratios):.2f})' if len(ratios) > 1
                                                       else '') if ratios else '–')
    bandwidth = bus_share(operation, ranks) * size / (statistics.median(ours) * 1e3) if ours else None
    cells.append(f'{bandwidth:.2f}' if bandwidth else '–')
    return f"| {operation}{' ~' if is_changed(trips) else ''} | {size:,} | {ranks} | " + ' | '.join(cells) + ' |'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=os.path.join(HERE, '..', '..', 'build'))
    parser.add_argument('--ranks', default='2,4')
    parser.add_argument('--operations', default=','.join(OPERATIONS))
    parser.add_argument('--bytes', default='8,1024,65536,1048576,16777216,268435456')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--samples', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=0.05, help='of a sample, about')
    parser.add_argument('--only', default=','.join(LIBRARIES), help='libraries: ' + ', '.join(LIBRARIES))
    parser.add_argument('--no-realtime', action='store_true')
    parser.add_argument('--no-pin', action='store_true')
    parser.add_argument('--json', metavar='FILE')
    a = parser.parse_args()
    a.build = os.path.abspath(a.build)
    runner = Runner(a)
    libraries = []
    for library in a.only.split(','):
        if runner.missing(library):
            print(f'{LIBRARIES[library]} is left out: it needs {NEEDS[library]}\n')
        else:
            libraries.append(library)
    if not runner.realtime:
        print('Without the real-time scheduling class: compare only on an idle machine.\n')
    print('| operation | bytes | ranks | Cannon, µs | Open MPI, µs | gloo, µs | ratio to the better peer '
          '| busbw, GB/s |\n|---|---|---|---|---|---|---|---|')
    found, trips = [], [runner.round_trip()]
    for ranks in map(int, a.ranks.split(',')):
        for operation in a.operations.split(','):
            measured = [{library: runner.measure(library, ranks, operation) for library in libraries}
                        for _ in range(a.rounds)]
            trips.append(runner.round_trip())
            for size in map(int, a.bytes.split(',')):
                rounds = [{k: v[size] for k, v in m.items() if size in v} for m in measured]
                found.append(dict(operation=operation, bytes=size, ranks=ranks, rounds=rounds,
                                  round_trip_ns=trips[-2:]))
                print(line(operation, size, ranks, rounds, trips[-2:]), flush=True)
    trips = [t for t in trips if t]
    if trips:
        print(f'\nRound trip of a cache line between two cores: {min(trips):.0f} to {max(trips):.0f} ns.'
              + (' It has changed: do not compare rows with each other.' if is_changed(trips) else ''))
    if a.json:
        with open(a.json, 'w', encoding='utf-8') as f:
            json.dump(found, f, indent=1)


if __name__ == '__main__':
    main()
