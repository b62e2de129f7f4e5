# SPDX-License-Identifier: Apache-2.0
"""Graph mode: the provider gives whole models to aclgrphBuildModel and runs what it gets by aclmdlExecuteAsync. The
judge is the CPU provider of the same wheel."""
import glob
import os
import unittest

import numpy as np
import onnx
from onnx import helper

from provider import close, cpu_session, model_of, session

F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64


class Graphs(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(12)

    def values(self, *shape, dtype=F32):
        return self.rng.uniform(-2, 2, shape).astype(dtype)

    def agrees(self, model, *feeds):
        """The model gives the CPU's results for each of the feeds in turn."""
        npu, cpu = session(model, graph=True), cpu_session(model)
        for given in feeds:
            for got, expected, out in zip(npu.run(None, given), cpu.run(None, given), cpu.get_outputs()):
                close(got, expected, F16 if expected.dtype == F16 else expected.dtype, out.name)

    def node(self, op, *inputs, constants=None, opset=17, outputs=1, dtypes=None, **attributes):
        names, results = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
        node = helper.make_node(op, [*names, *(constants or {})], results, **attributes)
        model = model_of([node], {n: (v.dtype, v.shape) for n, v in zip(names, inputs)},
                         {r: (d, None) for r, d in zip(results, dtypes or [inputs[0].dtype] * outputs)}, opset,
                         constants or {})
        with self.subTest(op=op):
            self.agrees(model, dict(zip(names, inputs)))

    def test_nodes(self):
        x, image = self.values(3, 4, 5), self.values(2, 3, 8, 8)
        for op in ("Exp", "Sigmoid", "Tanh", "Softplus", "HardSigmoid", "Elu", "LeakyRelu", "Selu"):
            self.node(op, x)
        for op in ("Softmax", "LogSoftmax"):
            self.node(op, x, axis=1)
        for op in ("ReduceMean", "ReduceMax", "ReduceL2"):
            self.node(op, x, axes=[0, 2])
        self.node("ReduceSum", x, constants={"axes": np.array([1], I64)}, keepdims=0)
        self.node("Pow", np.abs(x), self.values(5))
        self.node("Pow", np.abs(x), np.array(1.5, F32))      # a scalar, which the provider tells without a shape
        self.node("Clip", x, np.array(-1, F32), np.array(1, F32))
        self.node("Where", x > 0, x, self.values(4, 5), dtypes=[F32])
        self.node("Greater", x, self.values(5), dtypes=[np.bool_])
        self.node("Concat", x, self.values(3, 2, 5), axis=1)
        self.node("Gather", x, np.array([[0, 3], [2, 1]], I64), axis=1)
        self.node("Transpose", x, perm=[2, 0, 1])
        self.node("Slice", x, constants={"from": np.array([1], I64), "to": np.array([3], I64),
                                         "axes": np.array([1], I64)})
        self.node("Split", self.values(6, 4), outputs=2, opset=11, axis=0)
        self.node("TopK", x, constants={"k": np.array([2], I64)}, outputs=2, dtypes=[F32, I64])
        self.node("Gemm", self.values(3, 4), self.values(4, 5), self.values(5), alpha=0.5)
        self.node("MatMul", self.values(2, 3, 4), self.values(4, 5))
        self.node("Conv", image, self.values(4, 3, 3, 3), self.values(4), pads=[1, 1, 1, 1], strides=[2, 2])
        self.node("ConvTranspose", image, self.values(3, 2, 3, 3), strides=[2, 2])
        self.node("MaxPool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.node("AveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.node("LRN", image, size=3)
        self.node("InstanceNormalization", image, self.values(3), self.values(3))
        self.node("Resize", image, constants={"roi": np.zeros(0, F32), "scales": np.array([1, 1, 2, 2], F32)},
                  mode="nearest")
        self.node("LSTM", self.values(5, 2, 3), self.values(1, 16, 3), self.values(1, 16, 4), outputs=3,
                  hidden_size=4)
        self.node("Cast", x, to=onnx.TensorProto.INT32, dtypes=[I32])
        self.node("Add", self.values(3, 4, dtype=F16), self.values(3, 4, dtype=F16))
        self.node("Einsum", self.values(3, 4), self.values(4, 5), equation="ij,jk->ki")
        self.node("NonZero", x, dtypes=[I64])

    def network(self, batch):
        """Two convolutions with norm and pooling, and a classifier."""
        w = {"w1": self.values(8, 3, 3, 3), "b1": self.values(8), "s": self.values(8), "o": self.values(8),
             "m": self.values(8), "v": np.abs(self.values(8)) + 1, "w2": self.values(8, 1, 3, 3),
             "w3": self.values(128, 10) / 8, "b3": self.values(10)}
        nodes = [helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
                 helper.make_node("BatchNormalization", ["c1", "s", "o", "m", "v"], ["n"]),
                 helper.make_node("Relu", ["n"], ["r"]),
                 helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                 helper.make_node("Conv", ["p", "w2"], ["c2"], group=8, pads=[1, 1, 1, 1], strides=[2, 2]),
                 helper.make_node("Flatten", ["c2"], ["f"]),
                 helper.make_node("Gemm", ["f", "w3", "b3"], ["g"]),
                 helper.make_node("Softmax", ["g"], ["y"], axis=1)]
        return model_of(nodes, {"x": (F32, (batch, 3, 16, 16))}, {"y": (F32, (batch, 10))}, 17, w)

    def test_network(self):
        self.agrees(self.network(2), *({"x": self.values(2, 3, 16, 16)} for _ in range(3)))

    def test_open_shapes(self):
        """A model is made for each batch; the results of those before it are still right."""
        self.agrees(self.network("batch"), *({"x": self.values(n, 3, 16, 16)} for n in (1, 4, 2, 1, 4)))

    def test_written_files(self):
        """The provider writes each model to the current folder, and the next session reads it from there."""
        model, given = self.network(3), {"x": self.values(3, 3, 16, 16)}
        self.agrees(model, given)
        before = set(glob.glob("*.om"))
        self.assertTrue(before)
        self.agrees(model, given)
        self.assertEqual(set(glob.glob("*.om")), before)
        for path in before:
            with open(path, "rb") as f:
                self.assertEqual(f.read(4), b"IMOD")

    def test_light_models(self):
        """Three of ONNX's nine; the others pass as well, but write a gigabyte."""
        folder = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
        for name in ("densenet121", "shufflenet", "squeezenet"):
            path = os.path.join(folder, f"light_{name}.onnx")
            with self.subTest(name):
                given = {i.name: self.rng.random(i.shape).astype(F32) for i in cpu_session(path).get_inputs()}
                self.agrees(path, given)


if __name__ == "__main__":
    unittest.main()
