# SPDX-License-Identifier: Apache-2.0
"""`cannon run --check` finds what is wrong in PyTorch programs, at their lines, and nothing in right ones that look as
if.

The test runs itself as a program: with the name of a list of functions, each of which is a case."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ.get('ASCEND_HOME_PATH', '')
SIZE = 256


def new(torch):
    x = torch.ones(SIZE, SIZE, device='npu')
    torch.npu.synchronize()
    return x, torch.npu.Stream()


# ---- wrong: the finding's kind is the word in front

def race_result_of_another_stream(torch):
    x, side = new(torch)
    with torch.npu.stream(side):
        y = x * 2
    return y + 1


def race_overwritten_while_read(torch):
    x, side = new(torch)
    with torch.npu.stream(side):
        y = x * 2
    x.add_(1)
    return y


def race_event_before_the_work(torch):
    x, side = new(torch)
    event = torch.npu.Event()
    event.record(side)
    with torch.npu.stream(side):
        y = x * 2
    torch.npu.current_stream().wait_event(event)
    return y + 1


def race_wrong_stream_awaited(torch):
    x, side = new(torch)
    other = torch.npu.Stream()
    with torch.npu.stream(side):
        y = x * 2
    torch.npu.current_stream().wait_stream(other)
    return y + 1


def uninitialized_operand(torch):
    return torch.empty(3000, device='npu') + 1


def uninitialized_half(torch):
    x = torch.empty(5000, device='npu')
    x[:2500] = 1
    return x.sum()


def uninitialized_copy_to_the_host(torch):
    return torch.empty(7000, device='npu').cpu()


# Unwritten bytes first: memory that PyTorch's allocator hands out again counts as written.
WRONG = (uninitialized_operand, uninitialized_half, uninitialized_copy_to_the_host, race_result_of_another_stream,
         race_overwritten_while_read, race_event_before_the_work, race_wrong_stream_awaited)


# ---- right

def awaited_by_stream_and_by_event(torch):
    x, side = new(torch)
    with torch.npu.stream(side):
        y = x * 2
        event = side.record_event()
    torch.npu.current_stream().wait_event(event)
    z = y + 1
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y.add_(z)
    torch.npu.current_stream().wait_stream(side)
    return y.sum()


def halves_on_two_streams(torch):
    x, side = new(torch)
    with torch.npu.stream(side):
        x[:, ::2].mul_(3)
    x[:, 1::2].add_(1)
    torch.npu.synchronize()
    return x.sum()


def double_buffering(torch):
    side, free = torch.npu.Stream(), [None, None]
    host = [torch.ones(SIZE).pin_memory() for _ in range(2)]
    device = [torch.zeros(SIZE, device='npu') for _ in range(2)]
    torch.npu.synchronize()
    total = torch.zeros(SIZE, device='npu')
    for i in range(8):
        with torch.npu.stream(side):
            if free[i % 2]:
                side.wait_event(free[i % 2])
            device[i % 2].copy_(host[i % 2], non_blocking=True)
            ready = side.record_event()
        torch.npu.current_stream().wait_event(ready)
        total += device[i % 2]
        free[i % 2] = torch.npu.current_stream().record_event()
    return total.sum()


def filled_after_empty(torch):
    x = torch.empty(9000, device='npu')
    x[:4500].fill_(1)
    x[4500:] = 2
    padded = torch.nn.functional.pad(x, (3, 5))
    return padded.sum() + torch.where(x > 1, x, torch.zeros_like(x)).max()


def memory_that_is_used_again(torch):
    for _ in range(20):
        x = torch.randn(SIZE, device='npu')
        x = x[x > 0]
        del x
    return torch.ones(1)


RIGHT = (awaited_by_stream_and_by_event, halves_on_two_streams, double_buffering, filled_after_empty,
         memory_that_is_used_again)


def execute(cases):
    import torch
    import torch_npu  # noqa: F401
    for case in cases:
        case(torch)
        torch.npu.synchronize()


def functions_of(stack):
    return {frame.get('function') for frame in stack}


class Check(unittest.TestCase):
    def findings(self, name):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'check.json')
            subprocess.run([os.path.join(PREFIX, 'bin', 'cannon'), 'run', '--quiet', '--check', '--json', path, '--',
                            sys.executable, __file__, name], check=True, stderr=subprocess.DEVNULL, timeout=300)
            with open(path, encoding='utf-8') as f:
                return json.load(f)['check']['findings']

    def test_wrong_programs(self):
        found = self.findings('wrong')
        for case in WRONG:
            kind = case.__name__.split('_')[0]
            with self.subTest(case.__name__):
                kinds = [f['kind'] for f in found if case.__name__ in functions_of(f['stack'])]
                self.assertEqual(kinds, [kind])
        self.assertEqual(len(found), len(WRONG), [f['message'] for f in found])

    def test_right_programs(self):
        self.assertEqual([f['message'] for f in self.findings('right')], [])


if __name__ == '__main__':
    if len(sys.argv) > 1 and sys.argv[1] in ('wrong', 'right'):
        execute({'wrong': WRONG, 'right': RIGHT}[sys.argv[1]])
    else:
        unittest.main()
