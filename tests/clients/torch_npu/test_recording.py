# SPDX-License-Identifier: Apache-2.0
"""Recordings of a training (CANNON_RECORD_TASKS, trace/record/record_code.h), dry and real, read by a reader of its
own: the tensors' peak is that of PyTorch's allocator, which recording does not change, and modules, phases and lines
are there.

The test runs itself as a program, with the name of a file for what it measured."""
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ.get('ASCEND_HOME_PATH', '')
STEPS = 2

# The fields of each kind, from 1 on, in the order of record_code.h; the rest of the records are skipped by them.
DEVICE, STREAM, COLLECTIVE = ['device'], ['device', 'stream'], ['_'] * 6
KINDS = [STREAM + ['number', 'requested', 'bytes', 'address', 'site'], STREAM + ['number', 'site'], STREAM, STREAM,
         STREAM + ['event'], STREAM + ['event'], STREAM, DEVICE + ['event'], STREAM + ['event', '_'],
         STREAM + ['event', '_'], STREAM + ['duration'], STREAM + COLLECTIVE + ['duration'],
         ['requested', 'value'], ['payload'], ['site', 'payload'], ['value', 'name', 'second'],
         STREAM + ['site', 'position', 'name', 'payload'], ['payload'],
         STREAM + ['duration', 'position', 'model', '_'], DEVICE + ['bytes', 'address', 'site'],
         DEVICE + ['address', 'site'], ['value'], ['value'], ['value'], ['site', 'value'], [],
         ['event', 'bytes', 'address', 'value']]
(ALLOC, TEXT, SITE, MODULE, TASK, ACCESSES, REGION, REGION_END, ENTER, LEAVE, BACKWARD, PHASE, STEP, RANGE) = (
    1, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27)


def number(data, at):
    n = shift = 0
    while True:
        n |= (data[at] & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return n, at


def signed(n):
    return n >> 1 ^ -(n & 1)


def read(path):
    with open(path, 'rb') as f:
        data = f.read()
    at, address = int.from_bytes(data[12:16], 'little'), 0
    while at < len(data) and data[at]:
        r = {'kind': data[at], 'requested': 0}
        _, at = number(data, at + 1)
        for field in KINDS[r['kind'] - 1]:
            r[field], at = number(data, at)
            if field == 'payload':
                r[field], at = data[at:at + r[field]], at + r[field]
            elif field == 'address':
                r[field] = address = (address + signed(r[field])) % 2**64
            elif field == 'bytes':
                r[field] = r['requested'] + signed(r[field])
        yield r


def scratch(payload):
    at = address = 0
    while at < len(payload):
        difference, at = number(payload, at)
        _, at = number(payload, at)
        access, at = number(payload, at)
        address += signed(difference)
        if access & 4:
            yield address


def peak(records):
    """The most bytes that regions had at once, but for workspaces, which are in a pool of their own."""
    regions, live, changes = [], {}, []
    for r in records:
        if r['kind'] == REGION:
            live[r['address']] = len(regions)
            regions.append(r['bytes'])
            changes.append((len(regions) - 1, 1))
        elif r['kind'] == REGION_END and r['address'] in live:
            changes.append((live.pop(r['address']), -1))
        elif r['kind'] in (TASK, ACCESSES):
            for address in scratch(r['payload']):
                if address in live:
                    regions[live[address]] = 0
    now = most = 0
    for region, sign in changes:
        now += sign * regions[region]
        most = max(most, now)
    return most


def train(path):
    import torch
    import torch_npu  # noqa: F401
    from models import Transformer
    torch.manual_seed(0)
    with torch.device('npu'):
        model = Transformer(words=256, width=64, heads=4, layers=2, length=32, recompute=False)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        words = torch.randint(0, 256, (2, 32)).npu()
        torch.nn.functional.cross_entropy(model(words).view(-1, 256), words.view(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    with open(path, 'w', encoding='utf-8') as f:
        json.dump({'peak': torch.npu.max_memory_allocated(), 'parameters': len(list(model.parameters())),
                   'modules': [name for name, _ in model.named_modules() if name]}, f)


class Recordings(unittest.TestCase):
    def run_with(self, folder, name, **variables):
        path = os.path.join(folder, name)
        subprocess.run([sys.executable, __file__, path], check=True,
                       env={**os.environ, 'TASK_QUEUE_ENABLE': '0', **variables})
        with open(path, encoding='utf-8') as f:
            return json.load(f)

    def recorded(self, folder, name, **variables):
        record = os.path.join(folder, f'{name}.rec')
        python = os.pathsep.join(filter(None, (f'{PREFIX}/share/cannon/marks', os.environ.get('PYTHONPATH'))))
        told = self.run_with(folder, name, CANNON_RECORD=record, CANNON_RECORD_TASKS='1', PYTHONPATH=python,
                             LD_PRELOAD=f'{PREFIX}/lib64/cannon/libascend_kernel_hook.so', **variables)
        return told, list(read(record))

    def check(self, told, records):
        self.assertEqual(peak(records), told['peak'])
        texts = [r['payload'].decode() for r in records if r['kind'] == TEXT]
        count = collections.Counter(r['kind'] for r in records)
        self.assertLessEqual(set(told['modules']), {texts[r['name'] - 1] for r in records if r['kind'] == MODULE})
        self.assertEqual(count[STEP], STEPS)
        self.assertEqual(count[ENTER], count[LEAVE])
        self.assertGreater(count[BACKWARD], STEPS * len(told['modules']) // 2)
        uses = collections.Counter(r['event'] for r in records if r['kind'] == RANGE)
        self.assertGreaterEqual(uses[0], told['parameters'])
        self.assertEqual(uses[1], told['parameters'] * STEPS)
        self.assertGreaterEqual(uses[2], 2 * told['parameters'])
        phases = [r['value'] for r in records if r['kind'] == PHASE]
        self.assertEqual(phases, [1, 2, 0, 3, 0] * STEPS)
        self.assertIn(os.path.abspath(__file__), [os.path.abspath(t) for t in texts if t.endswith('.py')])

    def test_tensors_modules_and_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            plain = self.run_with(folder, 'plain')
            for name, variables in (('real', {}), ('dry', {'CANNON_DRY': '1'})):
                with self.subTest(name):
                    told, records = self.recorded(folder, name, **variables)
                    self.assertEqual(told['peak'], plain['peak'])
                    self.check(told, records)


if __name__ == '__main__':
    if len(sys.argv) == 2 and os.sep in sys.argv[1]:
        train(sys.argv[1])
    else:
        unittest.main()
