# SPDX-License-Identifier: Apache-2.0
"""What a model gives, as a reference for tests: by onnxruntime, but by ONNX's evaluator in Python where the model
multiplies integers of 8 bits.

onnxruntime computes such products as its processor does best. Without VNNI those are sums of 16 bits that saturate (its
documentation of quantisation says so, and recommends weights of 7 bits there), so its results differ from processor to
processor. Those of the evaluator are exact integers, by NumPy."""
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

# Operators that multiply integers of 8 bits. The evaluator refuses those of onnxruntime that have no class here.
PRODUCTS = {'MatMulInteger', 'ConvInteger', 'QLinearMatMul', 'QLinearConv', 'DynamicQuantizeLSTM',
            'DynamicQuantizeMatMul', 'MatMulIntegerToFloat', 'QGemm', 'QAttention'}


class DequantizeLinear(OpRun):
    """With one scale for all elements: the evaluator lacks the operator of opsets below 19."""
    op_domain = ''

    def _run(self, x, scale, zero=None, **_):
        if scale.size != 1:
            raise NotImplementedError('DequantizeLinear with more than one scale')
        return ((x.astype(np.int64) - (0 if zero is None else zero.astype(np.int64))).astype(np.float32) * scale,)



TIE = 2e-5  # nearer to where rounding changes than this, a right result may be rounded to the other side


class Quantiser:
    """Rounds to uint8 as DynamicQuantizeLinear defines it, and notes whether anything lay near a tie."""
    def __init__(self):
        self.met_tie = False

    def rounded(self, x):
        self.met_tie |= bool(np.any(np.abs(x - np.floor(x) - 0.5) < TIE))
        return np.rint(x)

    def __call__(self, x):
        """Returns x as integers, the zero point and the scale."""
        low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
        scale = np.float32((high - low) / np.float32(255)) or np.float32(1)
        zero = np.clip(self.rounded(-low / scale), 0, 255)
        return np.clip(self.rounded(x / scale) + zero, 0, 255).astype(np.int64), int(zero), scale


quantised = Quantiser()


class DynamicQuantizeLinear(OpRun):
    op_domain = ''

    def _run(self, x):
        q, zero, scale = quantised(x)
        return q.astype(np.uint8), scale, np.array(zero, np.uint8)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class DynamicQuantizeLSTM(OpRun):
    """onnxruntime's operator. The input is quantised as a whole, and the state at each step."""
    op_domain = 'com.microsoft'

    @staticmethod
    def one_direction(x, w, r, bias, h, c, w_scale, r_scale):
        """x: steps, batch, size. w, r: without zero point; size, 4 gates. Gates: input, output, forget, cell."""
        whole, zero, scale = quantised(x)
        from_input = ((whole - zero) @ w).astype(np.float32) * (scale * w_scale) + bias
        outputs = []
        for gates in from_input:
            state, zero, scale = quantised(h)
            gates = gates + ((state - zero) @ r).astype(np.float32) * (scale * r_scale)
            i, o, f, g = np.split(gates, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        return np.stack(outputs), h, c

    def _run(self, x, w, r, b=None, lengths=None, h=None, c=None, p=None, w_scale=None, w_zero=None, r_scale=None,
             r_zero=None, direction=None, hidden_size=None, **others):
        if lengths is not None or p is not None or any(v is not None for v in others.values()):
            raise NotImplementedError('lengths, peepholes and further attributes of DynamicQuantizeLSTM')
        n, batch, results = w.shape[0], x.shape[1], []
        for d in range(n):
            backwards = d == 1 or direction == 'reverse'
            def whole(v, zero, d=d):
                return v[d].astype(np.int64) - (0 if zero is None else zero[d].astype(np.int64))
            start = [np.zeros((batch, hidden_size), np.float32) if v is None else v[d] for v in (h, c)]
            bias = np.float32(0) if b is None else np.add(*np.split(b[d], 2))
            y, *last = self.one_direction(x[::-1] if backwards else x, whole(w, w_zero), whole(r, r_zero), bias, *start,
                                          w_scale[d], r_scale[d])
            results.append((y[::-1] if backwards else y, *last))
        y, last_h, last_c = zip(*results)
        return np.stack(y, 1), np.stack(last_h), np.stack(last_c)


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)  # empty but for the bodies of If, Loop and Scan


def reference(model):
    """model: serialised. Returns a function from inputs, by name, to the list of outputs; None where another right
    implementation may give others, as a number lies near a tie of rounding: then other inputs must be tried."""
    proto = onnx.load_from_string(model)
    if not PRODUCTS & {node.op_type for node in nodes_of(proto.graph)}:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry('session.disable_quant_qdq', '1')  # or it makes products of 8 bits of others
        session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])
        return lambda inputs: session.run(None, inputs)
    evaluator = ReferenceEvaluator(proto, new_ops=[DynamicQuantizeLSTM, DynamicQuantizeLinear, DequantizeLinear])

    def run(inputs):
        quantised.met_tie = False
        outputs = evaluator.run(None, inputs)
        return None if quantised.met_tie else outputs
    return run
