# SPDX-License-Identifier: Apache-2.0
"""Networks train on Ascend as on the CPU: the same losses, step by step, in PyNative and in jit's level O0."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'models.py')
TOLERANCE = {'float32': 1e-4, 'bfloat16': 2e-2, 'float16': 2e-2}     # relative

# By PyTorch (torch_losses.py), where MindSpore's CPU backend lacks kernels.
LOSSES = {
    'mlp:adam': [1.654664, 1.52331, 1.409017, 1.307124, 1.212447],
    'mlp:adamw': [1.654664, 1.523303, 1.409039, 1.307204, 1.212602],
    'mlp:momentum': [1.654664, 1.594056, 1.501194, 1.405631, 1.314177],
    'lenet:sgd': [2.506756, 1.73845, 1.684944, 2.008852, 1.508028],
    'lenet:adamw': [2.506756, 1.680503, 1.473393, 1.394636, 1.309309],
    'lenet_norm:adam': [2.352841, 2.12965, 1.530176, 1.55112, 1.502701],
    'transformer:sgd': [4.188222, 4.02029, 3.895868, 3.791907, 3.701627],
    'transformer:adamw': [4.188222, 3.617867, 3.314543, 3.042586, 2.785307],
}
CLASSIC = ('classic:nn.Momentum', 'classic:nn.Adam', 'classic_avg:nn.SGD')
CASES = [f'{case}:float32' for case in (*LOSSES, *CLASSIC)]
HALVES = ['transformer:adamw:bfloat16', 'transformer:sgd:float16']

# MindSpore's executor of O0 keeps a map of parameters that several operators update, and uses entries after it has
# freed them. It crashes, or writes to other parameters of the same size, on any device where parameters lie on the
# host: those that are counted (mint.nn.BatchNorm2d) or updated in a branch (mint.optim.SGD with momentum).
BROKEN_IN_O0 = ('lenet_norm:adam:float32', 'mlp:momentum:float32')


class Training(unittest.TestCase):
    def run_cases(self, device, mode, cases):
        """{case: its losses}, and what MindSpore logged."""
        with tempfile.TemporaryDirectory() as folder:                # MindSpore writes files to the working folder
            done = subprocess.run([sys.executable, MODELS, device, mode, *cases], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return dict(map(json.loads, done.stdout.splitlines())), done.stderr

    def check_mode(self, mode, cases):
        got, log = self.run_cases('Ascend', mode, cases)
        by_cpu, _ = self.run_cases('CPU', 'O0', [case for case in cases if case.startswith(CLASSIC)])
        for case in cases:
            name, _, dtype = case.rpartition(':')
            want = by_cpu.get(case) or LOSSES[name]
            with self.subTest(case=case):
                self.assertIsInstance(got[case], list, got[case])
                self.assertIsInstance(want, list, want)
                for step, (w, g) in enumerate(zip(want, got[case])):
                    self.assertLessEqual(abs(g - w), TOLERANCE[dtype] * abs(w), f'step {step}: {got[case]}, not {want}')
        bad = [line for line in log.splitlines() if line.startswith(('[ERROR]', '[CRITICAL]'))]
        self.assertEqual(bad, [])

    def test_pynative(self):
        self.check_mode('pynative', CASES + HALVES)

    def test_O0(self):
        self.check_mode('O0', [case for case in CASES + HALVES if case not in BROKEN_IN_O0])


if __name__ == '__main__':
    unittest.main()
