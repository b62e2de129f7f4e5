#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's node tests through the provider in graph mode, by hand: the environment's Python under `cannon run`.

usage: node_tests.py [PATTERN...]

Prints which cases are wrong or fail, by reason. What cannot be tried is only counted: cases that onnxruntime cannot
load, that the provider does not take, since onnxruntime's CPU kernels are off, and those of CANNOT. The library's words
appear with ASCEND_SLOG_PRINT_TO_STDOUT=1."""
import collections
import multiprocessing
import os
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from provider import cpu_session, session

CANNOT = (('not taken', 'disable_cpu_ep_fallback|assigned to the default CPU EP|does not run'),
          ('of types that NumPy lacks', "can't be converted to MLDataType|No corresponding Numpy type"),
          ('with empty inputs, which the provider copies to NULL', 'aclrtMemcpyAsync.*HOST_TO_DEVICE'))


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def difference(got, expected, case):
    if got.shape != expected.shape:
        return f'shape {got.shape}, expected {expected.shape}'
    if expected.dtype.kind == 'f':
        good = np.allclose(got.astype(float), expected.astype(float), case.rtol, case.atol, equal_nan=True)
    else:
        good = np.array_equal(got, expected)
    return '' if good else f'{got.ravel()[:5]}, expected {expected.ravel()[:5]}'


def has_strings(case):
    values = [v for sets in case.data_sets for side in sets for v in side]
    return any(isinstance(v, (list, dict)) or array(v).dtype.kind in 'OSU' for v in values if v is not None)


def failure(words):
    return next((kind for kind, pattern in CANNOT if re.search(pattern, words)), 'failed'), words


def outcome(case):
    """right, or the kind of failure and the reason."""
    if has_strings(case):
        return 'of strings and sequences', ''       # the provider copies strings as bytes, and dies of it
    model = case.model.SerializeToString()
    try:
        cpu_session(case.model)
    except Exception as error:      # pylint: disable=broad-except    onnxruntime has no narrower ones
        return 'not loaded by onnxruntime', str(error)
    try:
        npu = session(onnx.load_from_string(model), graph=True)
    except Exception as error:      # pylint: disable=broad-except
        return failure(str(error))
    for inputs, outputs in case.data_sets:
        given = {i.name: array(v) for i, v in zip(case.model.graph.input, inputs) if v is not None}
        try:
            got = npu.run(None, given)
        except Exception as error:  # pylint: disable=broad-except
            return failure(str(error))
        for g, e in zip(got, outputs):
            wrong = difference(np.asarray(g), array(e), case)
            if wrong:
                return 'wrong', wrong
    return 'right', ''


def work(pipe, patterns):
    """Answers the number of a case with its outcome."""
    cases = [c for c in collect_testcases(None) if not patterns or any(re.search(p, c.name) for p in patterns)]
    pipe.send([c.name for c in cases])
    while (i := pipe.recv()) is not None:
        pipe.send(outcome(cases[i]))


def start(patterns):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context('spawn').Process(target=work, args=(there, patterns), daemon=True)
    process.start()
    there.close()
    return process, here, here.recv()


def main():
    patterns = sys.argv[1:]
    counts, told = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        process, pipe, names = start(patterns)
        for i, name in enumerate(names):
            try:
                pipe.send(i)
                kind, why = pipe.recv()
            except (EOFError, BrokenPipeError):
                process.join()
                kind, why = 'crashed', f'status {process.exitcode}'
                process, pipe, _ = start(patterns)
            counts[kind] += 1
            if kind in ('wrong', 'failed', 'crashed'):
                told.append(f'{kind}: {name}: {why[:300]}')
        pipe.send(None)
        process.join()
    print('\n'.join(sorted(told)))
    print(f'{len(names)} cases: ' + ', '.join(f'{n} {kind}' for kind, n in counts.most_common()))


if __name__ == '__main__':
    main()
