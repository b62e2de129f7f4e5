# SPDX-License-Identifier: Apache-2.0
"""MindSpore's profiler on training steps: its files are written without an error, and its table of kernels has our
operators, with times within the steps.

test_profiler.py FOLDER     trains, with the profile in FOLDER"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

STEPS = 3
FILES = ('api_statistic.csv', 'kernel_details.csv', 'op_statistic.csv', 'step_trace_time.csv', 'trace_view.json')


def train(folder):
    import mindspore
    from mindspore import profiler
    import models

    mindspore.set_device('Ascend')
    net, inputs = models.NETWORKS['mlp'](mindspore.float32)
    models.fill(net).set_train()
    opt = models.OPTIMISERS['sgd'](net.trainable_params())
    backward = mindspore.value_and_grad(net, None, net.trainable_params())
    activities = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU]
    began = time.time()
    with mindspore.profiler.profile(activities=activities,
                                    on_trace_ready=profiler.tensorboard_trace_handler(folder)) as profile:
        for _ in range(STEPS):
            loss, grads = backward(*inputs)
            opt(grads)
            profile.step()
        mindspore.runtime.synchronize()
        ended = time.time()
    print(json.dumps([began, ended, float(loss.asnumpy())]))


class Profiler(unittest.TestCase):
    def test_training_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), folder], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            log = [line for line in done.stderr.splitlines() if line.startswith(('[ERROR]', '[CRITICAL]'))]
            self.assertEqual(log, [])
            began, ended, _ = json.loads(done.stdout.splitlines()[-1])
            output, = glob.glob(os.path.join(folder, '*_ascend_ms', 'ASCEND_PROFILER_OUTPUT'))
            self.assertEqual(sorted(set(FILES) - set(os.listdir(output))), [])
            with open(os.path.join(output, 'kernel_details.csv'), encoding='utf-8') as f:
                kernels = list(csv.DictReader(f))
            with open(os.path.join(output, 'trace_view.json'), encoding='utf-8') as f:
                trace = json.load(f)

        # Two layers, forward; of their gradients, the two of weights and one of an input.
        names = [k['Type'] for k in kernels]
        self.assertEqual((names.count('Addmm'), names.count('Mm')), (2 * STEPS, 3 * STEPS))
        for k in kernels:
            start, duration = float(k['Start Time(us)']) / 1e6, float(k['Duration(us)']) / 1e6
            self.assertGreater(duration, 0, k)
            self.assertTrue(began - 0.01 < start and start + duration < ended + 0.01, (began, k, ended))
        # MindSpore's own events are timed by the processor's counter: they are within the steps, too.
        own = [e for e in trace if e.get('ph') == 'X' and 'pyboost' in e['name']]
        self.assertGreater(len(own), STEPS)
        for e in own:
            self.assertTrue(began - 0.01 < float(e['ts']) / 1e6 < ended + 0.01, (began, e, ended))


if __name__ == '__main__':
    if len(sys.argv) == 2 and os.path.isdir(sys.argv[1]):
        train(sys.argv[1])
    else:
        unittest.main()
