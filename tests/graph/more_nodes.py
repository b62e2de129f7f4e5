#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs single nodes that ONNX has no cases of, or too few, through Cannon's graph side and through a reference
(exact.py), with random attributes and inputs, and compares the results.

usage: more_nodes.py RUN_MODEL

The numbers are other ones with another CANNON_SEED. Prints which cases are wrong, and exits with 1 if any is."""
import itertools
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from exact import reference
from real_models import by_cannon
from node_tests import Runner

CASES = 25  # of each operator


def graph_of(nodes, inputs, constants, outputs):
    return helper.make_graph(
        nodes, 'nodes',
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
         for name, a in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()])


def model(node, inputs, constants, opset, outputs):
    graph = graph_of([node], inputs, constants, outputs)
    opsets = [helper.make_opsetid('', opset), helper.make_opsetid('com.microsoft', 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def floats(random, *dims):
    return random.standard_normal(dims).astype(np.float32)


def quantised_lstm(random):
    directions = random.integers(1, 3)
    way = 'bidirectional' if directions == 2 else random.choice(['forward', 'reverse'])
    steps, batch, size, hidden = (int(n) for n in random.integers(1, [6, 4, 40, 24]))
    dtype = random.choice([np.int8, np.uint8])
    limits = np.iinfo(dtype)
    by_column = (4 * hidden,) if random.integers(2) else ()

    def weights(rows):
        return random.integers(limits.min, limits.max + 1, (directions, rows, 4 * hidden)).astype(dtype)

    def scales():
        return (random.random((directions, *by_column)) * 0.01 + 0.001).astype(np.float32)

    def zeros():
        if by_column:  # onnxruntime wants the middle
            return np.full((directions, *by_column), 0 if dtype == np.int8 else 128, dtype)
        return random.integers(limits.min, limits.max + 1, directions).astype(dtype)

    constants = {'w': weights(size), 'r': weights(hidden), 'w_scale': scales(), 'w_zero': zeros(),
                 'r_scale': scales(), 'r_zero': zeros()}
    inputs = {'x': floats(random, steps, batch, size)}
    names = ['x', 'w', 'r', '', '', '', '', '', 'w_scale', 'w_zero', 'r_scale', 'r_zero']
    if random.integers(2):
        constants['b'] = floats(random, directions, 8 * hidden)
        names[3] = 'b'
    if random.integers(2):
        inputs['h'], inputs['c'] = (floats(random, directions, batch, hidden) / 2 for _ in range(2))
        names[5:7] = ['h', 'c']
    node = helper.make_node('DynamicQuantizeLSTM', names, ['y', 'y_h', 'y_c'], domain='com.microsoft',
                            hidden_size=hidden, direction=str(way))
    return model(node, inputs, constants, 17, node.output), inputs


def deform_conv(random):
    groups, offset_groups, batch = (int(n) for n in random.integers(1, [3, 3, 3]))
    channels, outputs = groups * offset_groups * int(random.integers(1, 3)), groups * int(random.integers(1, 4))
    kernel, strides, dilations = (random.integers(1, 4, 2).tolist() for _ in range(3))
    pads = random.integers(0, 3, 4).tolist()
    size = [(k - 1) * d + int(n) for k, d, n in zip(kernel, dilations, random.integers(1, 9, 2))]
    places = [(size[i] + pads[i] + pads[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
              for i in range(2)]
    taps = kernel[0] * kernel[1]
    inputs = {'x': floats(random, batch, channels, *size),
              'w': floats(random, outputs, channels // groups, *kernel),
              'offset': floats(random, batch, offset_groups * taps * 2, *places) * 2}
    names = ['x', 'w', 'offset', '', '']
    if random.integers(2):
        inputs['b'] = floats(random, outputs)
        names[3] = 'b'
    if random.integers(2):
        inputs['mask'] = random.random((batch, offset_groups * taps, *places), np.float32)
        names[4] = 'mask'
    node = helper.make_node('DeformConv', names, ['y'], group=groups, offset_group=offset_groups, strides=strides,
                            dilations=dilations, pads=pads, kernel_shape=kernel)
    return model(node, inputs, {}, 19, ['y']), inputs


def max_roi_pool(random):
    images, channels, height, width, rois = (int(n) for n in random.integers(1, [4, 4, 20, 20, 6]))
    scale = float(random.choice([1, 0.5, 0.25]))
    corners = np.sort(random.random((rois, 2, 2)) * 1.2 - 0.1, 1) * [width / scale, height / scale]
    numbers = random.integers(0, images, rois)
    inputs = {'x': floats(random, images, channels, height, width),
              'rois': np.column_stack([numbers, corners.reshape(rois, 4)]).astype(np.float32)}
    node = helper.make_node('MaxRoiPool', ['x', 'rois'], ['y'], spatial_scale=scale,
                            pooled_shape=random.integers(1, 5, 2).tolist())
    return model(node, inputs, {}, 17, ['y']), inputs


def scan_of_batches(random):
    batch, length, size = (int(n) for n in random.integers(1, [4, 6, 5]))
    element = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ('s', 'e', 't', 'u')]
    body = helper.make_graph([helper.make_node('Add', ['s', 'e'], ['t']), helper.make_node('Neg', ['t'], ['u'])],
                             'body', element[:2], element[2:])
    inputs = {'first': floats(random, batch, size), 'all': floats(random, batch, length, size)}
    constants, lengths = {}, ''
    if random.integers(2):
        lengths = 'lengths'
        constants[lengths] = random.integers(1, length + 1, batch)
    node = helper.make_node('Scan', [lengths, 'first', 'all'], ['last', 'collected'], body=body, num_scan_inputs=1,
                            directions=[int(random.integers(2))])
    return model(node, inputs, constants, 8, node.output), inputs


def ngrams(random):
    length, rows = (int(n) for n in random.integers(1, [9, 4]))
    grams = [random.integers(0, 4, (int(n), k)) for k, n in zip((1, 2, 3), random.integers(1, 4, 3))]
    grams = [np.unique(g, axis=0) for g in grams]
    count = sum(len(g) for g in grams)
    starts = np.cumsum([0] + [g.size for g in grams])[:3].tolist()
    inputs = {'x': random.integers(0, 4, (rows, length)).astype(random.choice([np.int32, np.int64]))}
    node = helper.make_node('TfIdfVectorizer', ['x'], ['y'], mode=str(random.choice(['TF', 'IDF', 'TFIDF'])),
                            min_gram_length=int(random.integers(1, 3)), max_gram_length=int(random.integers(2, 4)),
                            max_skip_count=int(random.integers(0, 3)), ngram_counts=starts,
                            ngram_indexes=random.permutation(count).tolist(),
                            pool_int64s=np.concatenate([g.ravel() for g in grams]).tolist())
    return model(node, inputs, {}, 17, ['y']), inputs


def fractional_resize(random):
    """Scales in tenths, as floats: the size, and the neighbour where i / scale is an integer, depend on how it is
    rounded. onnxruntime copies the input where the size stays, whatever the scale."""
    scale, size = np.float32(random.integers(1, 36) / 10), 1
    while int(np.float32(size) * scale) in (0, size):
        size, scale = int(random.integers(1, 600)), np.float32(random.integers(1, 36) / 10)
    inputs, constants = {'x': floats(random, 1, 1, size)}, {'scales': np.array([1, 1, scale], np.float32)}
    if scale >= 1 and random.integers(2):
        return model(helper.make_node('Upsample', ['x', 'scales'], ['y']), inputs, constants, 9, ['y']), inputs
    node = helper.make_node('Resize', ['x', '', 'scales'], ['y'], coordinate_transformation_mode='asymmetric',
                            nearest_mode=str(random.choice(['floor', 'ceil'])))
    return model(node, inputs, constants, 18, ['y']), inputs


def wide_sums(random):
    """Numbers of 16 or 32 bits that become doubles and are added up, in float by no way."""
    x = floats(random, *(int(n) for n in random.integers(1, [40, 40])))
    x = x.astype(random.choice([np.float16, np.float32]))
    last = random.choice(['ReduceSum', 'ReduceMean', 'ReduceL1', 'ReduceLogSumExp', 'CumSum', 'MatMul'])
    names, constants = ['wide'], {}
    if last == 'MatMul':
        names.append('turned')
    elif last in ('CumSum', 'ReduceSum'):
        names, constants = ['wide', 'axis'], {'axis': np.array([1])}
    nodes = [helper.make_node('Cast', ['x'], ['wide'], to=TensorProto.DOUBLE),
             helper.make_node('Transpose', ['wide'], ['turned']), helper.make_node(last, names, ['y'])]
    graph = graph_of(nodes, {'x': x}, constants, ['y'])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)],
                             ir_version=8).SerializeToString(), {'x': x}


def sizes_from_data(random):
    """Results whose sizes depend on what a convolution gives, small and larger than what is computed at once."""
    size, channels = int(random.choice([9, 200])), int(random.integers(1, 9))
    inputs = {'x': floats(random, 1, 2, size, size)}
    constants = {'w': floats(random, channels, 2, 3, 3), 'least': np.float32(random.random() * 5),
                 'none': np.array([-1])}
    nodes = [helper.make_node('Conv', ['x', 'w'], ['c'], pads=[1, 1, 1, 1]),
             helper.make_node('Relu', ['c'], ['d']), helper.make_node('Greater', ['d', 'least'], ['above'])]
    if random.integers(2):
        nodes += [helper.make_node('NonZero', ['above'], ['places']),
                  helper.make_node('Transpose', ['places'], ['rows'], perm=[1, 0]),
                  helper.make_node('GatherND', ['d', 'rows'], ['found'])]
    else:
        nodes += [helper.make_node('Reshape', ['above', 'none'], ['flat']),
                  helper.make_node('Compress', ['d', 'flat'], ['found'])]
    nodes.append(helper.make_node('Exp', ['found'], ['y']))
    graph = graph_of(nodes, inputs, constants, ['y'])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)],
                             ir_version=8).SerializeToString(), inputs


def wrong(runner, make, *seed):
    for attempt in itertools.count():
        bytes_of_model, inputs = make(np.random.default_rng([*seed, attempt]))
        expected = reference(bytes_of_model)(inputs)
        if expected is not None:
            break
    try:
        got = by_cannon(runner, bytes_of_model, inputs)
    except ValueError as e:
        return str(e)
    for g, e in zip(got, expected):
        relative, absolute = (1e-13, 1e-12) if e.dtype == np.float64 else (1e-4, 1e-5)
        if g.shape != e.shape or not np.allclose(g, e, relative, absolute):
            return f'{g.shape} {g.ravel()[:5]}, expected {e.shape} {e.ravel()[:5]}'
    return None


def main():
    onnxruntime.set_default_logger_severity(3)
    seed, runner, n_wrong = int(os.environ.get('CANNON_SEED', '1')), Runner(sys.argv[1]), 0
    for number, make in enumerate((quantised_lstm, deform_conv, max_roi_pool, scan_of_batches, ngrams,
                                  fractional_resize, wide_sums, sizes_from_data)):
        found = {case: wrong(runner, make, seed, number, case) for case in range(CASES)}
        found = {case: what for case, what in found.items() if what}
        for case, what in found.items():
            print(f'{make.__name__} {case} of seed {seed}: {what}')
        n_wrong += len(found)
    print(f'{n_wrong} wrong')
    return n_wrong > 0


if __name__ == '__main__':
    sys.exit(main())
