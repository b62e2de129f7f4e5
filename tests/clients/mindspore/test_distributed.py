# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training on two devices, started by msrun, with HCCL: the losses of one device on the whole batch. And
the collective operations, on buffers of several sizes.

test_distributed.py worker     prints what a rank has, as JSON"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 5
SIZES = (1, 1000, 300000)       # in a message, in one chunk, in many


def losses(rank, ranks, mean):
    import mindspore
    import models
    net, inputs = models.NETWORKS['mlp'](mindspore.float32)
    models.fill(net).set_train()
    share = 16 // ranks
    inputs = [x[rank * share:(rank + 1) * share] for x in inputs]
    opt = models.OPTIMISERS['momentum'](net.trainable_params())
    backward = mindspore.value_and_grad(net, None, net.trainable_params())
    result = []
    for _ in range(STEPS):
        loss, grads = backward(*inputs)
        opt(tuple(mean(g) for g in grads))
        result.append(float(mean(loss).asnumpy()))
    return result


def collectives(rank, ranks):
    """For each size, whether each operation has what it should have; rank r brings r + 1 + i % 7 at i."""
    from mindspore import Tensor, ops
    good = {}
    for n in SIZES:
        base = np.arange(n * ranks, dtype=np.float32) % 7
        all_of = [base + r + 1 for r in range(ranks)]
        x = Tensor(all_of[rank])
        part = slice(rank * n, (rank + 1) * n)
        for name, got, want in (
                ('AllReduce', ops.AllReduce()(x), sum(all_of)),
                ('AllGather', ops.AllGather()(x), np.concatenate(all_of)),
                ('ReduceScatter', ops.ReduceScatter()(x), sum(all_of)[part]),
                ('AlltoAll', ops.AlltoAll(ranks, 0, 0)(x), np.concatenate([a[part] for a in all_of])),
                ('Broadcast', ops.Broadcast(1)((x,))[0], all_of[1])):     # in place, so it comes last
            good[f'{name} {n}'] = bool(np.array_equal(got.asnumpy(), want))
    return good


def worker():
    import mindspore
    from mindspore import ops
    from mindspore.communication import get_group_size, get_rank, init
    mindspore.set_device('Ascend')
    init('hccl')
    rank, ranks = get_rank(), get_group_size()
    all_reduce = ops.AllReduce()
    result = losses(rank, ranks, lambda x: all_reduce(x) / ranks), collectives(rank, ranks)
    print(json.dumps({'rank': rank, 'result': result}), flush=True)


def alone():
    import mindspore
    mindspore.set_device('Ascend')
    print(json.dumps(losses(0, 1, lambda x: x)))


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Distributed(unittest.TestCase):
    def test_two_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            one = subprocess.run([sys.executable, __file__, 'alone'], cwd=folder, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertEqual(one.returncode, 0, one.stderr[-3000:])
            want = json.loads(one.stdout.splitlines()[-1])
            msrun = [os.path.join(os.path.dirname(sys.executable), 'msrun'), '--worker_num=2', '--local_worker_num=2',
                     f'--master_port={free_port()}', '--log_dir=logs', '--join=True', os.path.abspath(__file__),
                     'worker']
            env = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH'])
            done = subprocess.run(['cannon', 'run', '--quiet', '--devices', '2', '--', *msrun], cwd=folder, text=True,
                                  env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:])
            for rank in range(2):
                with open(os.path.join(folder, 'logs', f'worker_{rank}.log'), encoding='utf-8') as f:
                    lines = [line for line in f if line.startswith('{"rank"')]
                self.assertEqual(len(lines), 1, done.stdout[-3000:])
                got, good = json.loads(lines[0])['result']
                np.testing.assert_allclose(got, want, rtol=1e-5)
                self.assertEqual([name for name, is_good in good.items() if not is_good], [])


if __name__ == '__main__':
    if sys.argv[1:] in (['worker'], ['alone']):
        globals()[sys.argv[1]]()
    else:
        unittest.main()
