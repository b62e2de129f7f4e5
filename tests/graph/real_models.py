#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models out of wheels of PyPI through Cannon's graph side and through a reference (exact.py), and compares the
results.

usage: real_models.py FOLDER RUN_MODEL [PATTERN...]
       real_models.py --missing FOLDER

FOLDER: with the wheels that real_models.tsv names, as run.py downloads them; --missing prints which are not there. A
line of that table is a model and the inputs of one run: NAME=SHAPE has random elements, NAME=SHAPE<N integers below N,
NAME==N the number N. With patterns, runs only the models that one of them fits. Prints a line for each run; exits with
1 if one is wrong.

An element is right within RELATIVE of its size, plus NEAR_ZERO of the output's largest element, plus ABSOLUTE, which is
for sigmoids: onnxruntime's are by up to 1.5e-7 from its own without optimisation where they are nearly 0."""
import itertools
import os
import re
import sys
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
from exact import reference
from node_tests import Runner, outputs_of

HERE = os.path.dirname(os.path.abspath(__file__))
RELATIVE, NEAR_ZERO, ABSOLUTE = 1e-4, 1e-5, 1e-6


def cases():
    """Package with version, file, and inputs as text, of each line."""
    with open(os.path.join(HERE, 'real_models.tsv'), encoding='utf-8') as f:
        return [line.split('\t') for line in f.read().splitlines()[1:]]


def wheel_of(folder, package):
    name, version = package.split('==')
    start = f'{name.replace("-", "_")}-{version}-'
    found = [w for w in os.listdir(folder) if w.startswith(start) and w.endswith('.whl')]
    return os.path.join(folder, found[0]) if found else None


def print_missing(folder):
    packages = sorted({package for package, _, _ in cases()})
    print(' '.join(p for p in packages if not wheel_of(folder, p)))


def model_of(folder, package, file):
    with zipfile.ZipFile(wheel_of(folder, package)) as wheel:
        return wheel.read(file)


def array_of(text, dtype, random):
    """An input, of what the table says after its name."""
    if text.startswith('='):
        return np.array(int(text[1:]), dtype)
    shape, _, most = text.partition('<')
    dims = [int(d) for d in shape.split('x')]
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, int(most), dims).astype(dtype)
    return (random.standard_normal(dims) / 2).astype(dtype)


def inputs_of(model, text, seed):
    graph, random = onnx.load_from_string(model).graph, np.random.default_rng(seed)
    texts = dict(word.split('=', 1) for word in text.split(' '))
    constants = {c.name for c in graph.initializer}
    return {i.name: array_of(texts[i.name], onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type), random)
            for i in graph.input if i.name not in constants}


def by_cannon(runner, model, inputs):
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/model.onnx', 'wb') as f:
            f.write(model)
        with open(f'{folder}/inputs', 'w', encoding='utf-8') as f:
            for i, (name, a) in enumerate(inputs.items()):
                f.write(' '.join(map(str, (name, a.ndim, *a.shape))) + '\n')
                a.tofile(f'{folder}/in_{i}')
        answer = runner.ask(folder)
        if not answer.startswith('ok'):
            raise ValueError(answer[6:] or 'nothing')
        return list(outputs_of(answer, folder))


def wrong(got, expected):
    """The largest error of an output, as a part of what is allowed: right if at most 1."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise ValueError(f'{got.dtype}{got.shape}, expected {expected.dtype}{expected.shape}')
    if not expected.size:
        return 0
    if not np.issubdtype(expected.dtype, np.floating):
        return 0 if np.array_equal(got, expected) else np.inf
    size = np.abs(expected.astype(np.float64))
    return np.max(np.abs(got.astype(np.float64) - expected) / (RELATIVE * size + NEAR_ZERO * size.max() + ABSOLUTE))


def run(runner, folder, package, file, text):
    model = model_of(folder, package, file)
    judge = reference(model)
    for seed in itertools.count(1):
        inputs = inputs_of(model, text, seed)
        expected = judge(inputs)
        if expected is not None:
            break
    got = by_cannon(runner, model, inputs)
    if len(got) != len(expected):
        raise ValueError(f'{len(got)} outputs, expected {len(expected)}')
    return max(wrong(g, e) for g, e in zip(got, expected))


def main():
    if sys.argv[1] == '--missing':
        return print_missing(sys.argv[2])
    folder, program, patterns = sys.argv[1], sys.argv[2], [re.compile(p) for p in sys.argv[3:]]
    onnxruntime.set_default_logger_severity(3)
    runner, n, right = Runner(program), 0, 0
    for package, file, text in cases():
        if patterns and not any(p.search(file) for p in patterns):
            continue
        n += 1
        try:
            error = run(runner, folder, package, file, text)
            right += bool(error <= 1)
            what = f'{error:.2g} of the error that is allowed' + ('' if error <= 1 else ': WRONG')
        except ValueError as e:
            what = f'WRONG: {e}'
        print(f'{os.path.basename(file)} {text}: {what}', flush=True)
    print(f'{right} of {n} right')
    return right < n


if __name__ == '__main__':
    sys.exit(main())
