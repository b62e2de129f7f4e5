#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's node tests (package onnx, onnx.backend.test) through Cannon's graph side.

usage: node_tests.py [--passes NAME,...] RUN_MODEL [PATTERN...]

--passes: runs only these passes, in this order (RUN_MODEL's option of this name).

Cases that left_out.tsv names are not expected to pass. Prints which others fail, with the reason, by operator; with
patterns, runs and shows only the cases that one of them fits. Exits with 1 if a case fails that should not, or if fewer
cases than LEAST are right."""
import collections
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

LEAST = 1527  # of 1,615 cases of onnx 1.19.1
DTYPES = {0: 'float32', 1: 'float16', 2: 'int8', 3: 'int32', 4: 'uint8', 6: 'int16', 7: 'uint16', 8: 'uint32',
          9: 'int64', 10: 'uint64', 11: 'float64', 12: 'bool', 16: 'complex64', 17: 'complex128', 27: 'bfloat16'}


class Runner:
    def __init__(self, *command):
        self.command, self.process = command, None  # the process is started again after a crash

    def ask(self, folder):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.process.stdin.write(folder + '\n')
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ''
        if not answer:
            code = self.process.wait()
            self.process = None
            return f'error crashed with {code}'
        return answer.strip()


def as_array(value):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def stored(a):
    """The array as the graph side stores it: floating types of 8 bits and fewer as codes, int4 and uint4 as bytes."""
    if a.dtype.name in ('int4', 'uint4'):
        return a.astype(a.dtype.name[:-1] + '8')
    return a.view(np.uint8) if a.dtype.name.startswith(('float8', 'float4')) else a


def outputs_of(answer, folder):
    words = [int(w) for w in answer.split()[2:]]
    i, at = 0, 0
    while at < len(words):
        dtype, rank = words[at:at + 2]
        dims = words[at + 2:at + 2 + rank]
        at += 2 + rank
        raw = open(f'{folder}/out_{i}', 'rb').read()
        if DTYPES[dtype] == 'bfloat16':
            yield (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(dims)
        else:
            yield np.frombuffer(raw, DTYPES[dtype]).reshape(dims)
        i += 1


def difference(got, expected, rtol, atol):
    if stored(expected) is not expected and got.dtype == stored(expected).dtype:
        if expected.dtype.name.startswith('float'):
            got = got.view(expected.dtype)
        got, expected, rtol, atol = got.astype(np.float32), expected.astype(np.float32), 0, 0
    if got.shape != expected.shape:
        return f'shape {got.shape}, expected {expected.shape}'
    if expected.dtype.kind not in 'fcV':
        equal = np.array_equal(got, expected.astype(got.dtype))
        return None if equal else f'{got.ravel()[:6]}, expected {expected.ravel()[:6]}'
    if not np.allclose(got.astype(np.complex128), expected.astype(np.complex128), rtol, atol, equal_nan=True):
        return f'{got.ravel()[:6]}, expected {expected.ravel()[:6]}'
    return None


def run(runner, case, folder):
    model = case.model
    os.makedirs(folder, exist_ok=True)
    with open(f'{folder}/model.onnx', 'wb') as f:
        f.write(model.SerializeToString())
    for inputs, outputs in case.data_sets:
        with open(f'{folder}/inputs', 'w') as f:
            for i, (info, value) in enumerate(zip(model.graph.input, inputs)):
                if isinstance(value, (list, dict)) or value is None:
                    return 'sequences and optionals'
                a = stored(as_array(value))
                if a.dtype == object:
                    return 'strings'
                f.write(' '.join(map(str, (info.name, a.ndim, *a.shape))) + '\n')
                open(f'{folder}/in_{i}', 'wb').write(np.ascontiguousarray(a).tobytes())
        answer = runner.ask(folder)
        if not answer.startswith('ok'):
            return answer[6:] or 'nothing'
        got = list(outputs_of(answer, folder))
        for g, e in zip(got, outputs):
            if isinstance(e, (list, dict)) or e is None:
                return 'sequences and optionals'
            wrong = difference(g, as_array(e), case.rtol, case.atol)
            if wrong:
                return wrong
    return None


def left_out():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'left_out.tsv'), encoding='utf-8') as f:
        return [re.compile(line.split('\t')[0]) for line in f.read().splitlines()[1:]]


def main():
    args, options = sys.argv[1:], []
    if args[0] == '--passes':
        args, options = args[2:], args[:2]
    runner, patterns, out = Runner(args[0], *options), [re.compile(p) for p in args[1:]], left_out()
    reasons, right, n, n_out = collections.defaultdict(list), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for case in collect_testcases(None):
            if patterns and not any(p.search(case.name) for p in patterns):
                continue
            n += 1
            wrong = run(runner, case, folder)
            right += wrong is None
            if wrong and not patterns and any(p.search(case.name) for p in out):
                n_out += 1
            elif wrong:
                ops = {x.op_type for x in case.model.graph.node}
                reasons['+'.join(sorted(ops))[:40]].append((case.name, wrong))
    for op, cases in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f'{op}: {len(cases)}')
        for name, wrong in cases:
            print(f'    {name}: {wrong[:170]}')
    print(f'{right} of {n} right, {n_out} left out, {n - right - n_out} wrong')
    if not patterns and (reasons or right < LEAST):
        sys.exit(1)


if __name__ == '__main__':
    main()
