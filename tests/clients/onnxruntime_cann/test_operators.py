# SPDX-License-Identifier: Apache-2.0
"""Single-operator mode: models of one node, each of which the provider runs by aclopCompileAndExecute, against ONNX's
reference."""
import itertools
import unittest

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from provider import close, model_of, session

F16, F32, F64 = np.float16, np.float32, np.float64
I8, I16, I32, I64, U8, U16 = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16
FLOATS = (F32, F16)


def random(rng, dtype, shape, low=-3, high=3):
    """Values away from 0 where low is positive; integers are small, so that products fit."""
    if np.dtype(dtype).kind in "iu":
        return rng.integers(max(low, 0) if np.dtype(dtype).kind == "u" else low, high + 1, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.uniform(low, high, shape).astype(dtype)


class Operators(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(11)

    def runs(self, op, inputs, opset, attributes=None, constants=None, judge=None, outputs=1):
        """inputs: arrays. judge: computes the results in place of the reference, in float64."""
        names = [f"x{i}" for i in range(len(inputs))]
        every = names + list(constants or {})
        results = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(op, every, results, **(attributes or {}))
        given = dict(zip(names, inputs))
        model = model_of([node], {n: (v.dtype, v.shape) for n, v in given.items()}, {}, opset, constants or {})
        wide = {n: v.astype(F64) if v.dtype == F16 else v for n, v in given.items()}
        expected = [judge(*wide.values())] if judge else ReferenceEvaluator(model).run(results, given)
        model = model_of([node], {n: (v.dtype, v.shape) for n, v in given.items()},
                         {r: (np.asarray(e).dtype if not judge else inputs[0].dtype, np.shape(e))
                          for r, e in zip(results, expected)}, opset, constants or {})
        got = session(model, graph=False).run(None, given)
        for g, e in zip(got, expected):
            close(g, np.asarray(e), g.dtype, f"{op}, opset {opset}, {inputs[0].dtype}")

    def test_unary(self):
        for op, opset, types, low in (
                ("Abs", 13, (*FLOATS, I32), -3), ("Neg", 13, (*FLOATS, I32, I8), -3), ("Ceil", 13, FLOATS, -3),
                ("Floor", 13, FLOATS, -3), ("Round", 11, FLOATS, -3), ("Sin", 7, FLOATS, -3), ("Cos", 7, FLOATS, -3),
                ("Erf", 13, FLOATS, -3), ("Exp", 13, (F16,), -3), ("Log", 13, FLOATS, 0.5), ("Sqrt", 13, FLOATS, 0.5),
                ("Reciprocal", 13, FLOATS, 0.5), ("Relu", 14, (*FLOATS, F64, I8, I16, I32, I64), -3),
                ("Identity", 19, (*FLOATS, I64), -3)):
            for dtype in types:
                with self.subTest(op=op, dtype=dtype.__name__):
                    self.runs(op, [random(self.rng, dtype, (3, 4, 5), low)], opset)

    def test_binary(self):
        for op in ("Add", "Sub", "Mul", "Div"):
            for dtype in (*FLOATS, F64, I8, I16, I32, I64, U8, U16):
                if (op, dtype) == ("Add", U16):
                    continue            # the provider leaves it to the CPU
                # Never both operands of another shape than the result: the provider then repeats both in one memory.
                for a, b in (((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (4, 1)), ((1, 5), (3, 4, 5))):
                    if a != b and dtype in (I8, I16, I64, U8, U16, F64):
                        continue        # what repeats operands knows no types: three are enough
                    with self.subTest(op=op, dtype=dtype.__name__, shapes=(a, b)):
                        x = random(self.rng, dtype, a, 4, 9)
                        self.runs(op, [x, random(self.rng, dtype, b, 1, 4)], 14)

    def test_moves(self):
        x = random(self.rng, F32, (2, 3, 4))
        for dtype in (F32, F16, I32, U8):
            self.runs("Flatten", [random(self.rng, dtype, (2, 3, 4))], 13, {"axis": 2})
            self.runs("Transpose", [random(self.rng, dtype, (2, 3, 4))], 11, {"perm": [2, 0, 1]})
        for axis in (0, -1):
            self.runs("Flatten", [x], 13, {"axis": axis})
        for dtype in (np.bool_, I8, I16, I64):
            self.runs("Transpose", [random(self.rng, dtype, (2, 3, 4))], 11)
        self.runs("Reshape", [x], 14, constants={"shape": np.array([4, -1], I64)})
        types = (np.bool_, U8, I8, I16, I32, I64, F16, F32, F64)
        for before, after in itertools.product(types, types):
            with self.subTest(cast=(before.__name__, after.__name__)):
                to = helper.np_dtype_to_tensor_dtype(np.dtype(after))
                self.runs("Cast", [random(self.rng, before, (3, 7), 0)], 13, {"to": to})

    def test_dropout(self):
        self.runs("Dropout", [random(self.rng, F32, (3, 4))], 13, judge=lambda x: x)

    def test_products(self):
        for a, b in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6))):
            for dtype in (*FLOATS, I32):
                with self.subTest(shapes=(a, b), dtype=dtype.__name__):
                    self.runs("MatMul", [random(self.rng, dtype, a), random(self.rng, dtype, b)], 13,
                              judge=np.matmul)
        for c, attributes in (((3, 5), {}), ((5,), {"alpha": 0.5, "beta": 2.0}), ((1, 5), {"transA": 1, "transB": 1}),
                              ((3, 1), {"transA": 1}), ((), {"transB": 1})):
            a = (4, 3) if attributes.get("transA") else (3, 4)
            b = (5, 4) if attributes.get("transB") else (4, 5)
            with self.subTest(c=c, attributes=attributes):
                self.runs("Gemm", [random(self.rng, F16, s) for s in (a, b, c)], 13, attributes,
                          judge=lambda a, b, c, t=attributes: t.get("alpha", 1) * (
                              (a.T if t.get("transA") else a) @ (b.T if t.get("transB") else b)) + t.get("beta", 1) * c)

    def test_convolutions(self):
        for dtype in FLOATS:
            for x, w, bias, attributes in (
                    ((1, 3, 8, 9), (4, 3, 3, 3), False, {}),
                    ((2, 4, 8, 8), (6, 2, 3, 3), True, {"group": 2, "pads": [1, 1, 1, 1]}),
                    ((1, 5, 9, 9), (5, 1, 3, 3), False, {"group": 5, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
                    ((1, 3, 9, 9), (2, 3, 2, 2), True, {"dilations": [2, 2]}),
                    ((1, 3, 8, 9), (4, 3, 3, 3), False, {"auto_pad": "SAME_UPPER"}),
                    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), False, {})):
                with self.subTest(dtype=dtype.__name__, attributes=attributes):
                    given = [random(self.rng, dtype, s) for s in ((x, w, w[:1]) if bias else (x, w))]
                    wide = [helper.make_node("Conv", ["x0", "x1", "x2"][:len(given)], ["y"], **attributes)]
                    judge = ReferenceEvaluator(model_of(wide, {f"x{i}": (F64, v.shape) for i, v in enumerate(given)},
                                                        {"y": (F64, None)}, 11))
                    self.runs("Conv", given, 11, attributes, judge=lambda *v, j=judge: j.run(
                        None, {f"x{i}": np.asarray(t, F64) for i, t in enumerate(v)})[0])

    def test_batch_norm(self):
        x = random(self.rng, F32, (2, 3, 4, 5))
        others = [random(self.rng, F32, (3,), 0.5) for _ in range(4)]
        def judge(x, *others):
            scale, offset, mean, variance = (v.astype(F64).reshape(-1, 1, 1) for v in others)
            return (x - mean) / np.sqrt(variance + 1e-3) * scale + offset
        for opset in (9, 15):
            self.runs("BatchNormalization", [x, *others], opset, {"epsilon": 1e-3}, judge=judge)

    def test_pools(self):
        for dtype in FLOATS:
            x = random(self.rng, dtype, (2, 3, 8, 8))
            for attributes in ({"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [3, 3]},
                               {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}):
                with self.subTest(dtype=dtype.__name__, attributes=attributes):
                    self.runs("MaxPool", [x], 7, attributes)
                    for counts in (0, 1):
                        # The provider passes this attribute of ONNX's as CANN's, which means the opposite.
                        node = helper.make_node("AveragePool", ["x"], ["y"], **attributes, count_include_pad=1 - counts)
                        run = ReferenceEvaluator(model_of([node], {"x": (F64, x.shape)}, {"y": (F64, None)}, 11)).run
                        self.runs("AveragePool", [x], 11, {**attributes, "count_include_pad": counts},
                                  judge=lambda x, r=run: r(None, {"x": x.astype(F64)})[0])
            self.runs("GlobalAveragePool", [x], 11)
            self.runs("GlobalMaxPool", [x], 11)


if __name__ == "__main__":
    unittest.main()
