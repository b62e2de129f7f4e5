# SPDX-License-Identifier: Apache-2.0
"""Model.train and Model.eval of the nn API, with callbacks, in PyNative, in a graph, and in a graph that takes the data
from a channel (sink mode): the CPU backend's losses.

test_model.py DEVICE MODE     prints the losses and the accuracy"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np


def train(device, mode):
    import mindspore
    from mindspore import dataset, nn
    from mindspore.train import Callback, LossMonitor, Model
    import models

    class Losses(Callback):
        def __init__(self):
            super().__init__()
            self.all = []

        def on_train_step_end(self, run_context):
            self.all.append(float(run_context.original_args().net_outputs.asnumpy()))

    mindspore.set_device(device)
    if mode in ('graph', 'sink'):
        mindspore.set_context(mode=mindspore.GRAPH_MODE, jit_config={'jit_level': 'O0'})
    else:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((32, 1, 28, 28)).astype(np.float32)
    batches = dataset.NumpySlicesDataset({'image': images, 'label': rng.integers(0, 10, 32).astype(np.int32)},
                                         shuffle=False).batch(8)
    net = models.fill(models.ClassicLeNet())
    model = Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction='mean'),
                  nn.Momentum(net.trainable_params(), 0.05, 0.9), metrics={'accuracy'})
    losses = Losses()
    model.train(2, batches, callbacks=[losses, LossMonitor(4)], dataset_sink_mode=mode == 'sink')
    print(json.dumps([losses.all, model.eval(batches, dataset_sink_mode=False)['accuracy']]))


def outcome(device, mode):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), device, mode], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


class Training(unittest.TestCase):
    def test_model(self):
        losses, accuracy = outcome('CPU', 'graph')
        self.assertEqual(len(losses), 8)
        for mode in ('pynative', 'graph', 'sink'):
            with self.subTest(mode=mode):
                got, got_accuracy = outcome('Ascend', mode)
                # In sink mode an epoch is one step of the callbacks.
                np.testing.assert_allclose(got, losses[3::4] if mode == 'sink' else losses, rtol=1e-4)
                self.assertEqual(got_accuracy, accuracy)


if __name__ == '__main__':
    if len(sys.argv) == 3:
        train(*sys.argv[1:])
    else:
        unittest.main()
