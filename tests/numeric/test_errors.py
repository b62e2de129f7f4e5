# SPDX-License-Identifier: Apache-2.0
"""Calls that must be refused in phase one, for every operator: 161001 for nulls, 161002 for everything else that is
wrong, and a message that names the parameter as CANN's signature does.

VALID has one good call per operator. Nulls and illegal types are derived from it, parameter by parameter; WRONG lists
what is particular to an operator: the arguments to replace, and the parameters of which the message must name one.
"""
import re
import unittest

import numpy as np

import acl
import inference
from acl import (INVALID, NULLPTR, AclError, Bools, Floats, Ints, Scalar, ScalarList, Tensor, TensorList, refused,
                 run)
from dtypes import BF16, BOOL, F16, F32, I32, I64, STRING_CODE


def t(*shape, d=F32):
    return Tensor.of(d, np.zeros(shape, d.values) if d in (I32, I64) else np.ones(shape, d.values))


ONE = Scalar(1, F32)
X, Y = (2, 3), (3,)                   # the shapes of most valid calls: Y broadcasts to X

_unary = {op: lambda: [t(*X), t(*X)] for op in "Abs Neg Exp Log Sqrt Rsqrt Reciprocal Relu Sigmoid Tanh Square".split()}
_alpha = {op: lambda: [t(*X), t(*Y), ONE, t(*X)] for op in "Add Sub".split()}
_alphas = {op: lambda: [t(*X), ONE, ONE, t(*X)] for op in "Adds Subs".split()}
_binary = {op: lambda: [t(*X), t(*Y), t(*X)] for op in "Mul Div Maximum Minimum".split()}
_scalar = {op: lambda: [t(*X), ONE, t(*X)] for op in "Muls Divs".split()}
_compare = {op: lambda: [t(*X), t(*Y), t(*X, d=BOOL)] for op in
            "EqTensor NeTensor GtTensor LtTensor GeTensor LeTensor LogicalAnd".split()}
_compares = {op: lambda: [t(*X), ONE, t(*X, d=BOOL)] for op in "EqScalar GtScalar LtScalar GeScalar LeScalar".split()}
_in_alpha = {op: lambda: [t(*X), t(*Y), ONE] for op in "InplaceAdd InplaceSub".split()}
_in_binary = {op: lambda: [t(*X), t(*Y)] for op in "InplaceMul InplaceDiv InplaceCopy".split()}
_in_scalar = {op: lambda: [t(*X), ONE] for op in "InplaceMuls InplaceDivs InplaceFillScalar".split()}
_in_place = {op: lambda: [t(*X)] for op in "InplaceRelu InplaceZero InplaceOne".split()}
_ternary = {op: lambda: [t(*X), t(*Y), t(*Y), ONE] for op in "InplaceAddcmul InplaceAddcdiv".split()}

VALID = {
    **_unary, **_alpha, **_alphas, **_binary, **_scalar, **_compare, **_compares, **_in_alpha, **_in_binary,
    **_in_scalar, **_in_place, **_ternary,
    "InplaceAdds": lambda: [t(*X), ONE, ONE],
    "InplaceLerps": lambda: [t(*X), t(*Y), ONE],
    "LogicalNot": lambda: [t(*X), t(*X, d=BOOL)],
    "Cast": lambda: [t(*X), F16, t(*X, d=F16)],
    "Arange": lambda: [Scalar(0, I64), Scalar(5, I64), ONE, t(5)],
    "Cat": lambda: [TensorList([t(2, 3), t(2, 1)]), 1, t(2, 4)],
    "IndexSelect": lambda: [t(*X), 1, t(4, d=I64), t(2, 4)],
    "Embedding": lambda: [t(5, 3), t(2, d=I64), t(2, 3)],
    "EmbeddingDenseBackward": lambda: [t(2, 3), t(2, d=I64), 5, 2 ** 64 - 1, False, t(5, 3)],
    "Mm": lambda: [t(2, 3), t(3, 4), t(2, 4), 0],
    "Matmul": lambda: [t(5, 2, 3), t(3, 4), t(5, 2, 4), 0],
    "BatchMatMul": lambda: [t(5, 2, 3), t(5, 3, 4), t(5, 2, 4), 0],
    "Addmm": lambda: [t(4), t(2, 3), t(3, 4), ONE, ONE, t(2, 4), 0],
    "InplaceAddmm": lambda: [t(2, 4), t(2, 3), t(3, 4), ONE, ONE, 0],
    "ReduceSum": lambda: [t(*X), Ints(1), False, F32, t(2)],
    "Mean": lambda: [t(*X), Ints(1), False, F32, t(2)],
    "Amax": lambda: [t(*X), Ints(1), False, t(2)],
    "ArgMax": lambda: [t(*X), 1, False, t(2, d=I64)],
    "LogSoftmax": lambda: [t(*X), 1, t(*X)],
    "LogSoftmaxBackward": lambda: [t(*X), t(*X), 1, t(*X)],
    "NLLLoss": lambda: [t(4, 3), t(4, d=I64), t(3), 1, -100, t(), t()],
    "NLLLossBackward": lambda: [t(), t(4, 3), t(4, d=I64), t(3), 1, -100, t(), t(4, 3)],
    "Threshold": lambda: [t(*X), ONE, ONE, t(*X)],
    "ThresholdBackward": lambda: [t(*X), t(*X), ONE, t(*X)],
    "InplaceNormal": lambda: [t(*X), 0.0, 1.0, 1, 0],
    "InplaceUniform": lambda: [t(*X), 0.0, 1.0, 1, 0],
    "ApplyAdamWV2": lambda: [t(*X), t(*X), t(*X), t(*X), t(*X), t(1), 0.1, 0.9, 0.9, 0.0, 1e-8, True, False],
    "Permute": lambda: [t(*X), Ints(1, 0), t(3, 2)],
}


def wrong(ops, names, **replaced):
    return [("aclnn" + op, tuple(names.split()), replaced) for op in ops.split()]


def each(group):
    return " ".join(group)


WRONG = [
    # shapes
    *wrong(each(_unary) + " LogicalNot Cast Threshold ThresholdBackward LogSoftmax LogSoftmaxBackward", "out",
           out=t(2, 4)),
    *wrong(each({**_alpha, **_alphas, **_binary, **_scalar, **_compare, **_compares}), "out", out=t(2, 4)),
    *wrong(each(_alpha) + " " + each(_binary) + " " + each(_compare), "out", out=t(3)),       # only inputs broadcast
    *wrong(each({**_alpha, **_binary, **_compare}), "self other", other=t(5)),
    *wrong("InplaceAdd InplaceSub InplaceMul InplaceDiv", "selfRef other", other=t(5)),
    *wrong("InplaceAdd InplaceSub InplaceMul InplaceDiv", "selfRef other", other=t(4, 2, 3)),
    *wrong("InplaceCopy", "selfRef src", src=t(5)),
    *wrong("InplaceCopy", "selfRef src", src=t(4, 2, 3)),
    *wrong("InplaceAddcmul InplaceAddcdiv", "tensor1", tensor1=t(5)),
    *wrong("InplaceAddcmul InplaceAddcdiv", "tensor2", tensor2=t(5)),
    *wrong("InplaceLerps", "selfRef end", end=t(5)),
    *wrong("ThresholdBackward", "gradOutput self", gradOutput=t(5, 5)),
    *wrong("LogSoftmaxBackward", "gradOutput output", output=t(2, 5)),
    # types: results convert to a wider kind only
    *wrong("Exp Log Sqrt Rsqrt Reciprocal Sigmoid Tanh Add Sub Mul Div Adds Subs Muls Divs", "out", out=t(*X, d=I32)),
    *wrong("InplaceAdd InplaceSub InplaceMul InplaceDiv", "selfRef other", selfRef=t(*X, d=I32)),
    *wrong("InplaceAdds", "selfRef other", selfRef=t(*X, d=I32), other=Scalar(0.5, F32)),
    *wrong("Neg", "self", self=t(*X, d=BOOL)),
    *wrong("Mm Matmul BatchMatMul", "self", self=t(5, 2, 3, d=I32)),
    *wrong("LogSoftmax", "self", self=t(*X, d=I32)),
    *wrong("InplaceNormal", "selfRef", selfRef=t(*X, d=I32)),
    *wrong("InplaceLerps", "selfRef end", selfRef=t(*X, d=I32)),
    *wrong("InplaceUniform", "selfRef", selfRef=t(*X, d=BOOL)),
    *wrong("ApplyAdamWV2", "varRef", varRef=t(*X, d=I32)),
    *wrong("ApplyAdamWV2", "step", step=t(1, d=F16)),
    *wrong("Cast", "out dtype", out=t(*X)),
    *wrong("ReduceSum Mean", "out dtype", out=t(2, d=I32)),
    *wrong("IndexSelect", "index", index=t(4)),
    *wrong("Embedding", "indices", indices=t(2)),
    *wrong("EmbeddingDenseBackward", "indices", indices=t(2, d=BF16)),
    *wrong("NLLLoss NLLLossBackward", "target", target=t(4)),
    *wrong("ArgMax", "out", out=t(2)),
    # dimensions
    *wrong("Cat IndexSelect ArgMax LogSoftmax LogSoftmaxBackward", "dim", dim=2),
    *wrong("Cat IndexSelect ArgMax LogSoftmax LogSoftmaxBackward", "dim", dim=-3),
    *wrong("ReduceSum", "dims", dims=Ints(2)),
    *wrong("ReduceSum", "dims", dims=Ints(1, -1)),
    *wrong("Mean Amax", "dim", dim=Ints(-3)),
    *wrong("Mean Amax", "dim", dim=Ints(0, 0)),
    *wrong("ReduceSum Mean Amax ArgMax", "out", out=t(3, d=I64)),
    *wrong("Amax ArgMax", "self dim", self=t(2, 0)),
    *wrong("Permute", "dims", dims=Ints(0, 0)),
    *wrong("Permute", "dims", dims=Ints(0, 2)),
    *wrong("Permute", "dims", dims=Ints(0)),
    *wrong("Permute", "out", out=t(*X)),
    # what else an operator wants
    *wrong("Cast", "dtype", dtype=STRING_CODE),
    *wrong("Arange", "step", step=Scalar(0, I64)),
    *wrong("Arange", "step start end", step=Scalar(-1, I64)),
    *wrong("Arange", "out", out=t(4)),
    *wrong("Cat", "tensors", tensors=TensorList([t(2, 3), t(3, 1)])),
    *wrong("Cat", "tensors", tensors=TensorList([t(2, 3), t(2)])),
    *wrong("Cat", "tensors", tensors=TensorList([])),
    *wrong("Cat", "tensors", tensors=TensorList([t(2, 3), t(2, 1).with_code(STRING_CODE)])),
    *wrong("Cat", "out", out=t(2, 5)),
    *wrong("IndexSelect", "index", index=t(2, 2, d=I64)),
    *wrong("IndexSelect", "out", out=t(2, 3)),
    *wrong("Embedding", "weight", weight=t(5)),
    *wrong("Embedding", "out", out=t(3, 3)),
    *wrong("EmbeddingDenseBackward", "grad indices", grad=t(4, 3)),
    *wrong("EmbeddingDenseBackward", "out numWeights", out=t(4, 3)),
    *wrong("Mm", "self mat2", self=t(2, 5)),
    *wrong("Mm", "self", self=t(3)),
    *wrong("Mm", "mat2", mat2=t(2, 3, 4)),
    *wrong("Mm", "out", out=t(4, 2)),
    *wrong("Matmul BatchMatMul", "self mat2", self=t(5, 2, 4)),
    *wrong("Matmul BatchMatMul", "self mat2", mat2=t(4, 3, 4)),
    *wrong("Matmul BatchMatMul", "out", out=t(5, 2, 5)),
    *wrong("Matmul", "self", self=t()),
    *wrong("BatchMatMul", "mat2", mat2=t(3, 4)),
    *wrong("Addmm InplaceAddmm", "mat1 mat2", mat1=t(2, 5)),
    *wrong("Addmm InplaceAddmm", "mat1", mat1=t(3)),
    *wrong("Addmm", "self", self=t(3)),
    *wrong("Addmm", "out", out=t(4, 2)),
    *wrong("InplaceAddmm", "selfRef", selfRef=t(4)),
    *wrong("NLLLoss NLLLossBackward", "self", self=t(4, 3, 2)),
    *wrong("NLLLoss NLLLossBackward", "target self", target=t(5, d=I64)),
    *wrong("NLLLoss NLLLossBackward", "weight", weight=t(4)),
    *wrong("NLLLoss NLLLossBackward", "reduction", reduction=3),
    *wrong("NLLLoss NLLLossBackward", "out", out=t(5)),
    *wrong("NLLLossBackward", "gradOutput", gradOutput=t(3)),
    *wrong("InplaceNormal", "std", std=-1.0),
    *wrong("InplaceUniform", "from to", **{"from": 2.0}),
    *wrong("ApplyAdamWV2", "mRef", mRef=t(3)),
    *wrong("ApplyAdamWV2", "vRef", vRef=t(3)),
    *wrong("ApplyAdamWV2", "grad", grad=t(3)),
    *wrong("ApplyAdamWV2", "maxGradNormOptionalRef", maxGradNormOptionalRef=t(3)),
    *wrong("ApplyAdamWV2", "step", step=t(2)),
]


class Errors(unittest.TestCase):
    def check(self, op, code, names, args, **results):
        got, message = refused(op, *args, **results)
        self.assertEqual(got, code, f"{op}: {message!r}")
        self.assertTrue(any(re.search(rf"\b{n}\b", message) for n in names), f"{op}: {message!r} names none of {names}")

    def each_parameter(self, wanted, body):
        """body(op, parameter, position, fresh arguments) for the parameters that are wanted."""
        for name, make in VALID.items():
            for i, p in enumerate(acl.params("aclnn" + name)):
                if wanted(p):
                    with self.subTest(f"aclnn{name} {p.name}"):
                        body("aclnn" + name, p, i, make())

    def test_valid_calls_pass(self):
        for name, make in VALID.items():
            with self.subTest(name):
                run("aclnn" + name, *make())

    def test_null_parameters(self):
        def body(op, p, i, args):
            args[i] = None
            self.check(op, NULLPTR, [p.name], args)
        self.each_parameter(lambda p: "*" in p.c_type and not p.optional, body)

    def test_null_results(self):
        for name, make in VALID.items():
            with self.subTest(name):
                self.check("aclnn" + name, NULLPTR, ["workspaceSize"], make(), workspace_size=False)
                self.check("aclnn" + name, NULLPTR, ["executor", "opExecutor"], make(), executor=False)

    def test_illegal_types(self):
        def body(op, p, i, args):
            args[i] = args[i].with_code(STRING_CODE)
            self.check(op, INVALID, [p.name], args)
        self.each_parameter(lambda p: p.type == "Tensor", body)

    def test_wrong_arguments(self):
        for op, names, replaced in WRONG:
            with self.subTest(f"{op} {replaced}"):
                args, by_name = VALID[op[5:]](), [p.name for p in acl.params(op)]
                for name, value in replaced.items():
                    args[by_name.index(name)] = value
                self.check(op, INVALID, names, args)

    def test_optional_becomes_needed(self):
        args = VALID["ApplyAdamWV2"]()
        args[3] = None                                              # amsgrad is on
        self.check("aclnnApplyAdamWV2", NULLPTR, ["maxGradNormOptionalRef"], args)

    def test_null_in_list(self):
        class Hole(Tensor):
            def create(self):
                return None
        args = VALID["Cat"]()
        args[0] = TensorList([t(2, 3), Hole(F32, (2, 1))])
        self.check("aclnnCat", NULLPTR, ["tensors"], args)

    def test_result_that_cannot_be_cast(self):
        """In CANN's words: op-plugin's tests look for them."""
        code, message = refused("aclnnInplaceAdd", t(2, 3, d=I64), t(2, 3), Scalar(1, I64))
        self.assertEqual(code, INVALID)
        self.assertRegex(message, "selfRef has dtype INT64.* FLOAT can't be cast to the desired output type")

    def test_nine_dimensions(self):
        """Every operator refuses them, in each of its tensors, in CANN's words."""
        values = {"Scalar": ONE, "ScalarList": ScalarList([ONE]), "IntArray": Ints(0), "BoolArray": Bools(False),
                  "FloatArray": Floats(1.0), "int": 0, "float": 0.0, "bool": False, "string": b"", "dtype": F32}
        kinds = {"Tensor": lambda *shape: t(*shape), "TensorList": lambda *shape: TensorList([t(2, 3), t(*shape)])}
        for op in inference.SCHEMAS:
            for wide in acl.params(op):
                if wide.type not in kinds:
                    continue
                args = [kinds[p.type](*([1] * 9 if p is wide else X)) if p.type in kinds else values[p.type]
                        for p in acl.params(op)]
                with self.subTest(f"{op} {wide.name}"):
                    code, message = refused(op, *args)
                    self.assertEqual(code, INVALID, message)
                    self.assertRegex(message, rf"\b{wide.name}\b.* cannot be larger than 8 dimensions")

    def test_negative_strides(self):
        """Refused, by the tensor's creation or by the operator."""
        x = t(2, 3)
        x.strides, x.offset = (-3, 1), 3
        try:
            code, _ = refused("aclnnAbs", x, t(2, 3))
        except AclError:
            return
        self.assertEqual(code, INVALID)


if __name__ == "__main__":
    unittest.main()
