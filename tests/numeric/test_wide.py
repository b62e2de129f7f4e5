# SPDX-License-Identifier: Apache-2.0
"""Sums, scans and products whose output is wider than their inputs: the result is that of the same numbers given in the
output's type. The calls are derived from the schemas: arguments by type and name, and for the tensors the first ranks
that phase one takes with such an output."""
import ctypes as ct
import functools
import itertools
import unittest

import numpy as np

from acl import (Bools, Floats, Ints, Scalar, Tensor, TensorList, call_phase_one, check, lib, params, place,
                 run)
import golden
import inference  # after acl: it puts the folder of pyACL, which has a module of that name, in front
from aclop import Host, Operand, execute
from dtypes import BF16, BOOL, C64, C128, F16, F32, F64, I8, I32, I64
from gen import Gen, each_case

FLOAT_PAIRS = ((F32, F64), (F16, F64), (BF16, F64), (F16, F32), (BF16, F32))
COMPLEX_PAIRS = ((C64, C128),)
INTEGER_PAIRS = ((I8, I64), (I32, I64), (BOOL, I64))
# By file of ops/ or by family. Products of integers wrap in the inputs' type (docs/operators.md).
PAIRS = {"reduction": FLOAT_PAIRS + COMPLEX_PAIRS + INTEGER_PAIRS, "linear": FLOAT_PAIRS, "loss": FLOAT_PAIRS}
LOSSES = {"loss"}                               # families of loss.ops that are sums over all elements
SURELY = {"ReduceSum", "ReduceNansum", "Mean", "MeanV2", "Prod", "ProdDim", "ReduceLogSum", "LogSumExp", "Norm",
          "LinalgVectorNorm", "Var", "Std", "VarMean", "StdMeanCorrection", "Cumsum", "Cumprod", "Sum", "AddN", "Mm",
          "Matmul", "BatchMatMul", "Addmm", "Baddbmm", "Addbmm", "Addmv", "Ger", "Addr", "Gemm", "MseLoss", "KlDiv"}


def operators():
    """(function, pairs of dtypes) of the operators that add up or multiply."""
    for op in sorted(inference.SCHEMAS):
        file, family = golden.FAMILIES.get(op, (None, None))
        if file in PAIRS and (file != "loss" or family in LOSSES):
            yield op, PAIRS[file]


def draw(gen, op, dtype, shape):
    """Numbers whose sums, rounded to the dtype or in float, differ from their sums in the wider type; for losses
    probabilities, of which all of them are defined."""
    if golden.FAMILIES[op][1] in LOSSES:
        return dtype.round(gen.rng.uniform(0.01, 0.99, shape))
    if dtype is C64:
        return draw(gen, op, F32, shape) + 1j * draw(gen, op, F32, shape)
    if dtype.kind == "f":
        return dtype.round(gen.rng.standard_normal(shape) * 2.0 ** gen.rng.integers(-3, 4, shape))
    if dtype is BOOL:
        return gen.rng.random(shape) < 0.9
    return gen.rng.integers(dtype.max // 2, dtype.max, shape)


def argument(gen, op, p, dtype, wide, shape):
    """A value for an argument; shape: of a tensor that is read."""
    if p.type == "Tensor":
        return None if p.is_output else gen.tensor(dtype, shape, draw(gen, op, dtype, shape))
    if p.type == "TensorList":
        return TensorList([gen.tensor(dtype, shape, draw(gen, op, dtype, shape)) for _ in range(3)])
    if p.type == "Scalar":
        return Scalar(gen.integer(-1, 0), I64) if p.name == "dim" else Scalar(gen.pick((0.5, 1.0, 2.0, 3.0)), F32)
    return {"IntArray": Ints(gen.integer(-1, 0)), "BoolArray": Bools(False), "FloatArray": Floats(1.0), "dtype": wide,
            "int": gen.integer(1, 2) if p.name == "reduction" else 0, "float": 2.0, "bool": False,
            "string": b"ij,jk->ik"}[p.type]


def accepted(op, args):
    """Whether phase one takes the arguments."""
    size, executor = ct.c_uint64(), ct.c_void_p()
    place(args, params(op))
    code, destroy = call_phase_one(op, args, ct.byref(size), ct.byref(executor))
    destroy()
    if code == 0:
        check(op, lib().aclSetAclOpExecutorRepeatable(executor))
        check(op, lib().aclDestroyAclOpExecutor(executor))
    return code == 0


def call(gen, op, dtype, wide, ranks, n):
    """The arguments of a call with outputs of the wide type, where tensors that are read have n elements along each
    dimension; None if the outputs are not inferred."""
    rest = iter(ranks)
    args = [argument(gen, op, p, dtype, wide, (n,) * next(rest) if reads_tensors(p) else None) for p in params(op)]
    try:
        schema, outputs = inference.inferred(op, args)
    except (inference.Unknown, AssertionError, IndexError, TypeError, ValueError):
        return None                             # these ranks mean nothing to the operator
    if not outputs or any(type(o) is not tuple for o in outputs):
        return None
    for i, (shape, _) in zip(schema.outputs, outputs):
        args[i] = gen.out(wide, shape)
    return args


def reads_tensors(p):
    return p.type in ("Tensor", "TensorList") and not p.is_output


def ranks_of(gen, op, dtype, wide):
    """The first ranks of the tensors with which phase one takes the call; None: it takes no such output."""
    n = sum(map(reads_tensors, params(op)))
    for ranks in itertools.product((2, 1, 3), repeat=n) if n <= 3 else ():
        args = call(gen, op, dtype, wide, ranks, 2)
        if args and accepted(op, args):
            return ranks
    return None


def widened(value, p, wide):
    """The argument with the same numbers in the wide type; an empty tensor for an output."""
    if isinstance(value, TensorList):
        return TensorList([widened(t, p, wide) for t in value.tensors])
    if not isinstance(value, Tensor):
        return value
    return Tensor.empty(wide, value.shape) if p.is_output else Tensor.of(wide, value.get().astype(wide.values))


class WideOutputs(unittest.TestCase):
    def same(self, got, expected, wide, op):
        if wide.kind == "i":
            np.testing.assert_array_equal(got, expected, op)
            return
        error = np.abs(got.astype(np.clongdouble) - expected)
        scale = max(np.abs(expected[np.isfinite(expected)]).max(initial=0), 1)
        self.assertTrue(np.array_equal(np.isfinite(got), np.isfinite(expected)), op)
        self.assertLessEqual(error[np.isfinite(expected)].max(initial=0), scale * (2e-6 if wide is F32 else 1e-14), op)

    def case(self, gen, op, dtype, wide, ranks):
        args = call(gen, op, dtype, wide, ranks, gen.pick((5, 40)) if max(ranks) < 3 else 6)
        twin = [widened(a, p, wide) for a, p in zip(args, params(op))]
        run(op, *args)
        run(op, *twin)
        for a, b, p in zip(args, twin, params(op)):
            if p.is_output:
                self.same(a.get(), b.get(), wide, f"{op} {dtype} to {wide}, {p.name}")

    def test_all(self):
        taken = set()
        for op, pairs in operators():
            for dtype, wide in pairs:
                ranks = ranks_of(Gen([0]), op, dtype, wide)
                if ranks:
                    taken.add(op.replace("aclnn", "", 1))
                    body = functools.partial(self.case, op=op, dtype=dtype, wide=wide, ranks=ranks)
                    each_case(self, f"{op} {dtype} to {wide}", 2, body)
        self.assertLessEqual(SURELY, taken)

    def test_large_numbers(self):
        """Sums that float loses or that overflow in it, of few elements and of several chunks."""
        for head in ([16777216, 1, 1, 1], [3e38, 3e38, -3e38, 1]):
            for n in (4, 150000):
                x = np.zeros(n, np.float32)
                x[:2], x[-2:] = head[:2], head[2:]
                exact = x.astype(np.float64)
                for op, args, expected in (
                        ("ReduceSum", (Ints(0), False, F64), exact.sum()),
                        ("Mean", (Ints(0), False, F64), exact.mean()),
                        ("ReduceNansum", (Ints(0), False, F64), exact.sum()),
                        ("LinalgVectorNorm", (Scalar(1.0, F32), Ints(0), False, F64), np.abs(exact).sum())):
                    out = Tensor.empty(F64, ())
                    run("aclnn" + op, Tensor.of(F32, x), *args, out)
                    self.assertAlmostEqual(float(out.get() / expected), 1, delta=1e-15, msg=f"{op} {head} {n}")

    def test_by_name(self):
        def sums(gen):
            x = gen.rng.standard_normal((30, 7)).astype(np.float32)
            for name, attributes, axes, expected in (
                    ("ReduceSum", {}, [Host([0])], lambda v: v.sum(0)),
                    ("ReduceMean", {}, [Host([0])], lambda v: v.mean(0)),
                    ("ReduceProd", {}, [Host([0])], lambda v: v.prod(0)),
                    ("LpNormReduceV2", {"p": 1.0, "axes": [0]}, [], lambda v: np.abs(v).sum(0))):
                y = Operand.empty(F64, (7,))
                execute(name, [Operand.of(F32, x), *axes], [y], attributes)
                self.same(y.get(), expected(x.astype(np.float64)), F64, name)
            y1, y2 = Operand.empty(F64, (7,)), Operand.empty(F64, (7,))
            execute("ReduceStd", [Operand.of(F32, x)], [y1, y2], {"dim": [0]})
            self.same(y1.get(), x.astype(np.float64).std(0, ddof=1), F64, "ReduceStd")
            self.same(y2.get(), x.astype(np.float64).mean(0), F64, "ReduceStd")
            y = Operand.empty(F64, (7, 7))
            execute("MatMul", [Operand.of(F32, x), Operand.of(F32, x)], [y], {"transpose_x1": True})
            self.same(y.get(), x.T.astype(np.float64) @ x, F64, "MatMul")
            y1, y2 = Operand.empty(F64, ()), Operand.empty(F64, ())
            execute("SquareSumAll", [Operand.of(F32, x), Operand.of(F32, x[:3])], [y1, y2], {})
            self.same(y1.get(), np.sum(x.astype(np.float64) ** 2), F64, "SquareSumAll")
            self.same(y2.get(), np.sum(x[:3].astype(np.float64) ** 2), F64, "SquareSumAll")
        each_case(self, "by name", 4, sums)


if __name__ == "__main__":
    unittest.main()
