#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a dry run adds to each call: bench_dry in real runs and in dry ones, alternating, both under `cannon run`.

    cmake --build build --target bench_dry && bench/dry.py [--rounds 5] [--before PREFIX]

Prints a Markdown table of ns per call, medians over the rounds. Goal: an operator that is not computed takes at most
2 us more than a real one on one element, which is nearly all launch. --before measures dry runs of another
installation, too.
"""
import argparse
import json
import os
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# (what a dry run has, what of a real run it is compared with, in words)
ROWS = (('add_large', 'add_none', '`aclnnAdd` of 4 MiB (real: of one element)'),
        ('cat_large', 'cat_none', '`aclnnCat` of 8 x 4 MiB (real: of one element each)'),
        ('add_none', 'add_none', '`aclnnAdd` of one element without a value'),
        ('add_values', 'add_values', '`aclnnAdd` of one element with a value, computed'),
        ('cat_values', 'cat_values', '`aclnnCat` of 8 elements with values, computed'),
        ('fill', 'fill', '`aclrtMemsetAsync`, 4 bytes'),
        ('copy_in', 'copy_in', '`aclrtMemcpy` to the device, 4 bytes'),
        ('copy_out', 'copy_out', '`aclrtMemcpy` to the host, 4 bytes'),
        ('event', 'event', '`aclrtRecordEvent` and `aclrtStreamWaitEvent`'),
        ('alloc_4k', 'alloc_4k', '`aclrtMalloc` and `aclrtFree`, 4 KiB'),
        ('alloc_2m', 'alloc_2m', '`aclrtMalloc` and `aclrtFree`, 2 MiB'))


def measure(prefix, program, dry):
    command = [os.path.join(prefix, 'bin', 'cannon'), 'run', '--quiet', '--mem', '4G', *(['--dry'] if dry else []),
               '--', program, *(['--large'] if dry else [])]
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(prefix, 'lib64'))
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'))
    parser.add_argument('--before', metavar='PREFIX')
    args = parser.parse_args()
    program, prefix = (os.path.join(args.build, *part) for part in (('bench', 'bench_dry'), ('prefix',)))
    kinds = [('real', prefix, False), ('dry', prefix, True)] + [('dry before', args.before, True)] * bool(args.before)
    rounds = [{name: measure(where, program, dry) for name, where, dry in kinds} for _ in range(args.rounds)]
    names = [name for name, _, _ in kinds]
    print('| ns per call | ' + ' | '.join(names) + ' | dry adds |')
    print('|---|' + '---|' * (len(names) + 1))
    for key, real_key, words in ROWS:
        ns = [statistics.median(r[n][real_key if n == 'real' else key] for r in rounds) for n in names]
        print(f'| {words} | ' + ' | '.join(f'{x:.0f}' for x in ns) + f' | {ns[1] - ns[0]:.0f} |')


if __name__ == '__main__':
    main()
