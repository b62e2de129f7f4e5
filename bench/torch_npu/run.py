#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch_npu on Cannon compared with PyTorch on the CPU: training steps, single operators, memory. Prints Markdown
tables.

  run.py --prefix PREFIX --python VENV/bin/python [--device NAME] [--threads N] [steps] [small] [ops] [memory]

The virtual environment is that of tests/clients/torch_npu/run.py. Both sides run in one process and alternate. Times
are medians; ratios (torch_npu / CPU) are formed per round, lower is better.
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
STEPS = (('mlp', None), ('mlp_adam', None), ('cnn', None), ('lm', None), ('lm', 'bf16'), ('lm', 'fp16'),
         ('lm_checkpoint', None), ('lm_accumulate', None), ('lstm', None), ('gru', None))
MODELS = ('mlp', 'mlp_adam', 'cnn', 'lm', 'lm_checkpoint', 'lstm')


def empty_operators(prefix, folder):
    """Fills a folder for ASCEND_CUSTOM_OPP_PATH, which torch_npu searches first, with a library of operators that do
    nothing, one for every operator of the prefix. Phase one need not set its results, since torch_npu initialises
    them to "no workspace"."""
    library = os.path.join(folder, 'op_api', 'lib', 'libcust_opapi.so')
    os.makedirs(os.path.dirname(library))
    names = subprocess.run(['nm', '-D', '--defined-only', os.path.join(prefix, 'lib64', 'libopapi.so')],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    source = ''.join(f'int {name}(void) {{ return 0; }}\n' for name in re.findall(r' T (aclnn\w+)', names))
    subprocess.run(['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o', library], input=source, text=True, check=True)


class Runner:
    def __init__(self, a):
        self.a = a
        self.cannon = os.path.join(a.prefix, 'bin', 'cannon')

    def measure(self, *what, options=(), **environment):
        """Runs steps.py under `cannon run`. Returns the line that it prints, and the counters of `cannon run`."""
        with tempfile.NamedTemporaryFile(suffix='.json') as counted:
            env = dict(os.environ, OMP_NUM_THREADS=str(self.a.threads), PYTHONWARNINGS='ignore', **environment)
            out = subprocess.run([self.cannon, 'run', '--quiet', '--device', self.a.device, '--json', counted.name,
                                  *options, '--',
                                  self.a.python, os.path.join(HERE, 'steps.py'), *what], env=env,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            if out.returncode:
                return None, None
            return json.loads(out.stdout.splitlines()[-1]), json.load(counted)

    def free(self, *what, **environment):
        """Runs steps.py without counting, at full speed. Returns the line that it prints."""
        env = dict(os.environ, OMP_NUM_THREADS=str(self.a.threads), PYTHONWARNINGS='ignore',
                   CANNON_DEVICE=self.a.device, **environment)
        line = subprocess.run([self.cannon, 'env'], stdout=subprocess.PIPE, text=True, check=True).stdout
        out = subprocess.run(['sh', '-c', line + '\nexec "$@"', 'sh', self.a.python, os.path.join(HERE, 'steps.py'),
                              *what], env=env,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return json.loads(out.stdout.splitlines()[-1]) if not out.returncode else None

    def steps(self):
        print('| training step | npu | cpu | ratio: median (min–max) |\n|---|---|---|---|')
        for name, amp in STEPS:
            r = self.free('step', name, *([amp] if amp else []))
            if r:
                x = r['ratios']
                print(f"| {name}{' ' + amp if amp else ''} | {r['npu'] * 1e3:.1f} ms | {r['cpu'] * 1e3:.1f} ms | "
                      f'{statistics.median(x):.2f} ({min(x):.2f}–{max(x):.2f}) |', flush=True)
            else:
                print(f'| {name} {amp or ""} | failed | | |', flush=True)

    def small(self):
        print('\n| short step | each | inside operators | share |\n|---|---|---|---|')
        for name in MODELS:
            r, counted = self.measure('small', name)
            if not r:
                continue
            inside = sum(op['time_ns'] for p in counted['processes'] for op in p['operators']) * 1e-9 / r['steps']
            print(f"| {name} | {r['seconds'] * 1e3:.2f} ms | {inside * 1e3:.2f} ms | "
                  f"{100 * inside / r['seconds']:.0f} % |", flush=True)

    def ops(self):
        """The column `floor` is the ratio with operators that do nothing: the overhead of torch_npu and PyTorch
        themselves."""
        measured = self.free('ops')
        with tempfile.TemporaryDirectory() as folder:
            empty_operators(self.a.prefix, folder)
            idle, counted = self.measure('ops', ASCEND_CUSTOM_OPP_PATH=folder)
        if any(p['operators'] for p in counted['processes']):
            sys.exit('operators ran on Cannon where none should have')
        print('\n| operator | size | npu | cpu | ratio | floor |\n|---|---|---|---|---|---|')
        pairs = [(r, f['ratio']) for r, f in zip(measured, idle)]
        for r, floor in pairs:
            print(f"| {r['op']} | {r['size']} | {r['npu']:.1f} µs | {r['cpu']:.1f} µs | {r['ratio']:.2f} | "
                  f"{floor:.2f} |")
        over = [floor for r, floor in pairs if r['ratio'] > 1.3]
        print(f"\nMedian {statistics.median(r['ratio'] for r, _ in pairs):.2f}; {len(over)} of {len(pairs)} over 1.3, "
              f'of which {sum(floor > 1.3 for floor in over)} would be without any operator.')

    def memory(self):
        print('\n| memory | allocated, peak | reserved by torch_npu, peak | committed by Cannon, peak '
              '| model of the policy / reserved |\n'
              '|---|---|---|---|---|')
        mib = 1 / (1 << 20)
        for name in MODELS:
            r, counted = self.measure('memory', name)
            if not r:
                continue
            committed = max(p['devices'][0]['peak_committed_bytes'] for p in counted['processes'] if p.get('devices'))
            with tempfile.TemporaryDirectory() as folder:
                trace, figures = os.path.join(folder, 'trace'), os.path.join(folder, 'figures.json')
                self.measure('memory', name, options=('--record', trace), PYTORCH_NO_NPU_MEMORY_CACHING='1')
                subprocess.run([self.cannon, 'replay', '--allocator', 'torch_npu', '--repeat', '1', '--json', figures,
                                trace], stdout=subprocess.DEVNULL, check=True)
                with open(figures, encoding='utf-8') as f:
                    model = json.load(f)['allocators'][0]['peak_committed_bytes']
            print(f"| {name} | {r['allocated'] * mib:.1f} MiB | {r['reserved'] * mib:.1f} MiB | "
                  f"{committed * mib:.1f} MiB | {model / r['reserved']:.3f} |", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('--prefix', required=True)
    ap.add_argument('--python', required=True)
    ap.add_argument('--device', default='Ascend910_9391')
    ap.add_argument('--threads', type=int, default=1)
    ap.add_argument('parts', nargs='*', default=['steps', 'small', 'ops', 'memory'])
    a = ap.parse_args()
    runner = Runner(a)
    for part in a.parts:
        getattr(runner, part)()


if __name__ == '__main__':
    main()
