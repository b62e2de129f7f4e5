# SPDX-License-Identifier: Apache-2.0
"""Sessions of onnxruntime on Cannon, without its CPU kernels, and small models for them."""
import itertools

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

number = itertools.count()
ort.set_default_logger_severity(3)


def session(model, graph):
    """graph: the provider gets the whole model; otherwise each node is a single operator. A node that the provider does
    not take, or a provider that does not load, is an error."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.log_severity_level = 3
    npu = ("CANNExecutionProvider", {"device_id": "0", "enable_cann_graph": str(int(graph))})
    s = ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options, providers=[npu])
    if s.get_providers()[0] != "CANNExecutionProvider":
        raise AssertionError(f"the provider does not run: {s.get_providers()}")
    return s


def cpu_session(model):
    return ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(),
                                providers=["CPUExecutionProvider"])


def model_of(nodes, inputs, outputs, opset, constants=()):
    """inputs, outputs: {name: (NumPy dtype, shape)}; constants: {name: array}."""
    def values(of):
        return [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.dtype(d)), s)
                for n, (d, s) in of.items()]
    # The provider takes models of one name for the same, and then reads the first one's file.
    graph = helper.make_graph(nodes, f"model{next(number)}", values(inputs), values(outputs),
                              [numpy_helper.from_array(v, n) for n, v in dict(constants).items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8 if opset >= 14 else 7
    return onnx.shape_inference.infer_shapes(model)


def close(got, expected, dtype, what):
    """Floats within a few roundings, integers and booleans equal."""
    np.testing.assert_equal(got.shape, expected.shape, what)
    if np.dtype(dtype).kind == "f":
        bound = {2: 2e-3, 4: 1e-5, 8: 1e-12}[np.dtype(dtype).itemsize]
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(got, expected, rtol=bound, atol=bound * max(1, np.abs(expected).max(initial=0)),
                                   err_msg=what)
    else:
        np.testing.assert_array_equal(got, expected, what)
