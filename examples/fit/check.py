# SPDX-License-Identifier: Apache-2.0
"""Checks `cannon advise` by doing what it says: records each script of this folder, applies plans by the script's
switches, and compares the peak that PyTorch then measures with the predicted one. Fails if a plan that is no estimate
is off by more than 3 %.

    python check.py [--real] [--all] [SCRIPT...]     default: gpt resnet unet lstm
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_OFF = 0.03
CANNON = os.path.join(os.environ['ASCEND_HOME_PATH'], 'bin', 'cannon')  # set_env.sh sets it


def train(script, real, folder, switches):
    """Runs the script. Returns what it measured."""
    out = os.path.join(folder, 'measured.json')
    dry = [] if real else ['--dry']
    subprocess.run([CANNON, 'run', '--quiet', *dry, '--', sys.executable, os.path.join(HERE, f'{script}.py'), '--steps',
                    '3', '--json', out, *switches], check=True, stdout=subprocess.DEVNULL)
    with open(out, encoding='utf-8') as f:
        return json.load(f)


def advise(script, real, folder):
    """Records the script, and returns the plans."""
    recording, out = os.path.join(folder, f'{script}.rec'), os.path.join(folder, f'{script}.json')
    dry = [] if real else ['--dry']
    subprocess.run([CANNON, 'memory', *dry, '--record', recording, '--', sys.executable,
                    os.path.join(HERE, f'{script}.py'), '--steps', '3'], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([CANNON, 'advise', recording, '--fit', '1M', '--json', out], check=True, stdout=subprocess.DEVNULL)
    with open(out, encoding='utf-8') as f:
        return json.load(f)


def switches_of(script, plan, batch):
    """The script's switches for a plan of one kind; None if it has none."""
    if plan['recompute'] and 'groups' not in plan['plan']:
        return ['--recompute', ','.join(plan['recompute'])]
    n = plan['accumulate']
    if n > 1 and batch % n == 0:
        return ['--batch', str(batch // n), '--accumulate', str(n)]
    if plan['attention'] != 'standard' and script == 'gpt':
        return ['--attention', plan['attention']]
    return ['--amp'] if plan['amp'] else None


def check(script, real, every, folder):
    """Returns how many plans were off."""
    plans = advise(script, real, folder)
    base = train(script, real, folder, [])
    wrong = 0
    print(f'{script}: {base["peak"]} bytes as it is, {plans["as_is"]["peak_bytes"]} recorded')
    for plan in [p for p in plans['single'] if p['peak_bytes'] < plans['as_is']['peak_bytes']]:
        switches = switches_of(script, plan, base['batch'])
        if switches is None or (plan['estimate'] and not every):
            continue
        measured = train(script, real, folder, switches)['peak']
        off = plan['peak_bytes'] / measured - 1
        bad = abs(off) > MOST_OFF and not plan['estimate']
        wrong += bad
        print(f'  {plan["peak_bytes"]:>12} predicted {measured:>12} measured {off:+7.1%}  '
              f'{plan["plan"]}{" (estimate)" if plan["estimate"] else ""}{"  WRONG" if bad else ""}', flush=True)
    return wrong + (base['peak'] != plans['as_is']['peak_bytes'])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--real', action='store_true', help='compute; otherwise all runs are dry')
    ap.add_argument('--all', action='store_true', help='also the plans that advise calls estimates')
    ap.add_argument('scripts', nargs='*', default=['gpt', 'resnet', 'unet', 'lstm'], metavar='SCRIPT')
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(sum(check(script, a.real, a.all, folder) for script in a.scripts) > 0)


if __name__ == '__main__':
    main()
