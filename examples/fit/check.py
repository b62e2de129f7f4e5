# SPDX-License-Identifier: Apache-2.0
"""Checks `cannon advise` by doing what it says: records each script of this folder, applies plans by the script's
switches, and compares the peak and the time of a step that PyTorch then measures with the predicted ones. Fails if a
plan that is no estimate needs 3 % more or less memory, or if two plans are not in the order of time that was predicted.

    python check.py [--real] [--all] [--rounds N] [SCRIPT...]     default: gpt resnet unet lstm

In a dry run the time is the device's model, by events of the stream. Computed runs (--real) take turns, and the median
of all steps of a plan counts, of the processor's time, which other load of the machine disturbs less. Orders count from
a difference of 1 % in dry runs and 5 % in computed ones, in what was predicted and in what was measured."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MOST_OFF = 0.03
# In dry runs: PyTorch serves a tensor of 1 to 2 MiB from a block of up to 1 MiB more, which is nothing beside large
# ones; and torch_npu pads the batch of an LSTM to a multiple of 16.
SIZES = {'resnet': {'batch': 64}, 'lstm': {'batch': 64}}
CANNON = os.path.join(os.environ['ASCEND_HOME_PATH'], 'bin', 'cannon')  # set_env.sh sets it


def command_of(script, real):
    sizes = [f'--{name}={size}' for name, size in ({} if real else SIZES.get(script, {})).items()]
    return [sys.executable, os.path.join(HERE, f'{script}.py'), '--steps', '8' if real else '3', *sizes]


def train(script, real, folder, switches):
    """Runs the script. Returns what it measured."""
    out = os.path.join(folder, 'measured.json')
    dry = [] if real else ['--dry']
    subprocess.run([CANNON, 'run', '--quiet', *dry, '--', *command_of(script, real), '--json', out, *switches],
                   check=True, stdout=subprocess.DEVNULL)
    with open(out, encoding='utf-8') as f:
        return json.load(f)


def advise(script, real, folder):
    """Records the script, and returns the plans."""
    recording, out = os.path.join(folder, f'{script}.rec'), os.path.join(folder, f'{script}.json')
    dry = [] if real else ['--dry']
    subprocess.run([CANNON, 'memory', *dry, '--record', recording, '--', *command_of(script, real)], check=True,
                   stdout=subprocess.DEVNULL)
    fit = '1M'
    for _ in range(2):  # first to know the peak; then for three quarters of it, so that a part is recomputed
        subprocess.run([CANNON, 'advise', recording, '--fit', fit, '--json', out], check=True,
                       stdout=subprocess.DEVNULL)
        with open(out, encoding='utf-8') as f:
            plans = json.load(f)
        fit = str(plans['as_is']['peak_bytes'] * 3 // 4)
    return plans


def switches_of(script, plan, batch):
    """The script's switches for a plan of one kind; None if it has none."""
    groups = plan['recompute_groups']
    if groups:
        if script == 'unet' and any(len(group) > 1 for group in groups):
            return None  # its neighbours are no chain of one input and one output
        return ['--recompute', ','.join('+'.join(group) for group in groups)]
    n = plan['accumulate']
    if n > 1:
        return ['--batch', str(batch // n), '--accumulate', str(n)] if batch % n == 0 else None
    if plan['attention'] != 'standard':
        return ['--attention', plan['attention']] if script == 'gpt' else None
    return ['--amp'] if plan['amp'] else None


def applicable(script, plans, batch, every):
    """The plans of one kind that the script has switches for, with these; first the one that changes nothing."""
    yield plans['as_is'], []
    for plan in plans['single']:
        switches = switches_of(script, plan, batch)
        if switches and plan['peak_bytes'] < plans['as_is']['peak_bytes'] and (every or not plan['estimate']):
            yield plan, switches


def wrong_orders(rows, least):
    """Pairs of plans of which the one that should be quicker by more than `least` is slower by more than that."""
    for i, (a, a_s) in enumerate(rows):
        for b, b_s in rows[:i]:
            if (a['step_ns'] < b['step_ns']) != (a_s < b_s):
                shares = (max(x, y) / min(x, y) - 1 for x, y in ((a['step_ns'], b['step_ns']), (a_s, b_s)))
                if min(shares) > least:
                    yield a, b


def check(script, a, folder):
    """Returns how many plans, or orders of two, were off."""
    advice = advise(script, a.real, folder)
    base = train(script, a.real, folder, [])
    plans = list(applicable(script, advice, base['batch'], a.all))
    runs = [[train(script, a.real, folder, switches) if n or switches else base for _, switches in plans]
            for n in range(a.rounds)]
    which = 'processor_s' if a.real else 'device_s'
    wrong, rows = 0, []
    print(f'{script}: peak in bytes and time of a step\n    predicted     measured          predicted   measured')
    for n, (plan, _) in enumerate(plans):
        peak = runs[0][n]['peak']
        seconds = statistics.median(run[n][which] for run in runs)
        off = plan['peak_bytes'] / peak - 1
        bad = abs(off) > (MOST_OFF if n else 0) and not plan['estimate']
        wrong += bad
        rows.append((plan, seconds))
        print(f'{plan["peak_bytes"]:>13}{peak:>13} {off:+7.1%} {plan["step_ns"] / 1e6:>9.3f} ms {seconds * 1e3:>7.3f} '
              f'ms  {plan["plan"]}{" (estimate)" if plan["estimate"] else ""}{"  WRONG" if bad else ""}', flush=True)
    for x, y in wrong_orders(rows, 0.05 if a.real else 0.01):
        estimate = x['estimate'] or y['estimate']
        wrong += not estimate
        print(f'  {"not as predicted" if estimate else "WRONG ORDER"}: {x["plan"]} / {y["plan"]}')
    return wrong


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--real', action='store_true', help='compute; otherwise all runs are dry')
    ap.add_argument('--all', action='store_true', help='also the plans that advise calls estimates')
    ap.add_argument('--rounds', type=int, default=1, help='how often the plans take turns')
    ap.add_argument('scripts', nargs='*', default=['gpt', 'resnet', 'unet', 'lstm'], metavar='SCRIPT')
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(sum(check(script, a, folder) for script in a.scripts) > 0)


if __name__ == '__main__':
    main()
