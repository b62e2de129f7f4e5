# SPDX-License-Identifier: Apache-2.0
"""Distribution by the stock torch_npu wheel: training with hccl on several devices has the losses that it has with gloo
on the CPU, each collective gives what it must, and what goes wrong is told.

    CANNON_PREFIX=PREFIX python tests/clients/torch_npu/distributed/test_distributed.py

by an interpreter of an environment that has torch_npu and torchrun. CANNON_SHARE halves the cases (client.py)."""
import contextlib
import importlib.metadata
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
import client  # noqa: E402 -- two folders above

CANNON = os.path.join(os.environ['CANNON_PREFIX'], 'bin/cannon')
TORCHRUN = os.path.join(os.path.dirname(sys.executable), 'torchrun')
RELEASE = tuple(map(int, importlib.metadata.version('torch_npu').split('.')[:2]))
DEVICE = 'Ascend910_9391'
BLOCKED_DEVICE = 'Ascend910B3'  # on which torch_npu has the results of float16 convolutions in blocked formats
LIMIT = 300         # seconds, after which a launch hangs
ENV = dict(os.environ, OMP_NUM_THREADS='1', PYTHONWARNINGS='ignore', TORCH_NPU_DISABLED_WARNING='1',
           HCCL_WHITELIST_DISABLE='1')
TRAINING = ('ddp', 'ddp_views', 'ddp_accumulate', 'ddp_bfloat16', 'zero_optimiser', 'fsdp1', 'fsdp2', 'fsdp2_resumed',
            'fsdp2_bfloat16', 'tensor_parallel', 'sequence_parallel', 'pipeline', 'pipeline_gpipe',
            'pipeline_interleaved', 'pipeline_by_hand', 'ddp_batch_norm', 'ddp_batch_norm_averages',
            'ddp_batch_norm_float16')
ON_FOUR = ('hsdp', 'data_and_tensor_parallel', 'ddp', 'fsdp2', 'tensor_parallel', 'sequence_parallel',
           'pipeline', 'pipeline_interleaved', 'mesh_of_two_dimensions', 'all_reduce', 'reduce', 'scatter',
           'all_gather_uneven', 'reduce_scatter_uneven', 'all_to_all_single_uneven', 'all_to_all', 'groups', 'objects',
           'send_and_receive', 'batch_of_sends_and_receives')
NEEDS_FOUR = ('hsdp', 'data_and_tensor_parallel', 'mesh_of_two_dimensions')
TOLERANCE = {'ddp_bfloat16': 2e-2, 'fsdp2_bfloat16': 2e-2, 'ddp_batch_norm_float16': 1e-2}  # relative; 1e-4 otherwise


def collectives():
    """The names of all collectives, by the source, since importing it takes as long as importing torch."""
    with open(os.path.join(HERE, 'collectives.py'), encoding='utf-8') as f:
        return [x for x in re.findall(r'^@case.*\ndef (\w+)', f.read(), re.M) if x not in NEEDS_FOUR]


def launch(*command, env=None, devices=2, device=DEVICE, timeout=LIMIT):
    """Under `cannon run`, as a user does. Returns the status and the whole output."""
    full = [CANNON, 'run', '--quiet', '--device', device, '--devices', str(devices), *command]
    with subprocess.Popen(full, cwd=HERE, env=dict(ENV, **env or {}), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', start_new_session=True) as process:
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise AssertionError(f'{command} hangs:\n{out[-4000:]}') from None
    return process.returncode, out


def free_port():
    with contextlib.closing(socket.socket()) as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Training(unittest.TestCase):
    def ranks(self, n, cases, device=DEVICE):
        with tempfile.TemporaryDirectory() as folder:
            status, out = launch(TORCHRUN, '--nproc_per_node', str(n), '--master_port', str(free_port()), 'worker.py',
                                 folder, *cases, devices=n, device=device)
            self.assertEqual(status, 0, out[-6000:])
            for rank in range(n):
                with open(os.path.join(folder, str(rank)), encoding='utf-8') as f:
                    lines = [json.loads(line) for line in f]
                self.assertEqual([line['case'] for line in lines], list(cases))
                for line in lines:
                    with self.subTest(case=line['case'], rank=rank, ranks=n):
                        self.compare(line)

    def compare(self, line):
        if line['case'] in TRAINING + NEEDS_FOUR[:2]:
            self.assertEqual(len(line['got']), len(line['want']))
        tolerance = TOLERANCE.get(line['case'], 1e-4)
        for got, want in zip(line.get('got', ()), line.get('want', ())):
            self.assertLessEqual(abs(got - want), tolerance * abs(want), line)

    def test_two_ranks(self):
        self.ranks(2, [*client.share(TRAINING), *client.share(collectives())])

    def test_four_ranks(self):
        self.ranks(4, client.share(ON_FOUR))

    def test_blocked_formats(self):
        self.ranks(2, ('ddp_batch_norm_float16',), BLOCKED_DEVICE)

    def test_one_process(self):
        env = {'TORCH_DEVICE_BACKEND_AUTOLOAD': '0'}
        if RELEASE >= (2, 8):
            # It waits for another device's event by that device's queue of calls, and destroys the event by its own,
            # in no order. Without queues, the calls come in the order of the program.
            env['TASK_QUEUE_ENABLE'] = '0'
        status, out = launch(sys.executable, 'one_process.py', env=env)
        self.assertEqual(status, 0, out)
        self.assertIn('2 devices of one process train as the CPU does', out)


def line_of(text):
    """What messages say of the line of failing.py that has the text."""
    with open(os.path.join(HERE, 'failing.py'), encoding='utf-8') as f:
        return f'(failing.py:{next(i for i, line in enumerate(f, 1) if text in line)})'


class Failing(unittest.TestCase):
    """Processes that the test starts itself, with the variables that torchrun would set, since torchrun ends the others
    as soon as one has failed."""

    def ranks(self, what, n=2, env=None):
        """The status, the process number and the output of each rank."""
        env = dict(ENV, **env or {}, CANNON_DEVICES=str(n), CANNON_DEVICE=DEVICE, WORLD_SIZE=str(n),
                   MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()))
        command = ['sh', '-c', '. "$CANNON_PREFIX/set_env.sh" && exec "$@"', 'sh', sys.executable, 'failing.py', what]
        ranks = [subprocess.Popen(command, cwd=HERE, env=dict(env, RANK=str(r)), text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT) for r in range(n)]
        try:
            outs = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
                rank.stdout.close()
        return [(rank.returncode, rank.pid, out) for rank, out in zip(ranks, outs)]

    def test_messages(self):
        for of_ranks in client.share([self.other_collectives, self.other_collectives_without_queue,
                                      self.barrier_and_backward, self.other_counts, self.transfers,
                                      self.without_lines]):
            with self.subTest(of_ranks.__name__):
                of_ranks()

    def other_collectives(self):
        for status, _, out in self.ranks('disagree'):
            self.assertNotEqual(status, 0, out)
            for word in ('rank 0', 'rank 1', 'AllReduce', 'AllGather', '4096', line_of('all_reduce(x)'),
                         line_of('all_gather(')):
                self.assertIn(word, out)

    def other_collectives_without_queue(self):
        """The calls come from the Python thread itself."""
        for status, _, out in self.ranks('disagree', env={'TASK_QUEUE_ENABLE': '0'}):
            self.assertNotEqual(status, 0, out)
            for line in (line_of('all_reduce(x)'), line_of('all_gather(')):
                self.assertIn(line, out)

    def barrier_and_backward(self):
        """One rank is in a call that does not come back to Python; the collectives of the other come from autograd.
        """
        for status, _, out in self.ranks('apart'):
            self.assertNotEqual(status, 0, out)
            for line in (line_of('barrier()'), line_of('backward()')):
                self.assertIn(line, out)

    def transfers(self):
        for status, _, out in self.ranks('batch'):
            self.assertNotEqual(status, 0, out)
            self.assertIn(line_of('batch_isend_irecv('), out)

    def without_lines(self):
        for status, _, out in self.ranks('disagree', env={'CANNON_PYTHON_SITES': '0'}):
            self.assertNotEqual(status, 0, out)
            self.assertIn('inconsistent between ranks', out)
            self.assertNotIn('(failing.py:', out)

    def other_counts(self):
        for status, _, out in self.ranks('unequal'):
            self.assertNotEqual(status, 0, out)
            for word in ('rank 0', 'rank 1', 'AllReduce', '100', '101'):
                self.assertIn(word, out)

    def test_rank_dies(self):
        (status, _, out), (dead, pid, _) = self.ranks('die')
        self.assertEqual(dead, -signal.SIGKILL)
        self.assertNotEqual(status, 0, out)
        self.assertIn('rank 1', out)
        self.assertIn(str(pid), out)


if __name__ == '__main__':
    unittest.main()
