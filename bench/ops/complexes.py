# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: elementwise functions and sums."""
import torch

from acl import Ints, Scalar
from dtypes import C64, C128, F32, F64
from run import case

PARTS = ((C64, F32), (C128, F64))
SIZES = (("64 Ki", 1 << 16), ("4 Mi", 1 << 22))


def numbers(b, d, part, shape):
    pairs = b.random(part, (*shape, 2)).get()
    return b.of(d, pairs[..., 0] + 1j * pairs[..., 1])


def elementwise(name, function, operands, *extra, real=False):
    """Registers a case for aclnn<name> with this number of operands."""
    @case("complex " + name, goal=1.0)
    def run(b):
        for d, part in PARTS:
            for text, n in SIZES:
                x = [numbers(b, d, part, (n,)) for _ in range(operands)]
                out = torch.empty(n, dtype=(b.torch(x[0]).abs() if real else b.torch(x[0])).dtype)
                b.compare(f"{d} {text}", "aclnn" + name, [*x, *extra, b.empty(part if real else d, (n,))],
                          lambda t=[b.torch(y) for y in x]: function(*t, out=out),
                          bytes=(operands + (0.5 if real else 1)) * d.size * n)


elementwise("Add", torch.add, 2, Scalar(1.0, F32))
elementwise("Mul", torch.mul, 2)
elementwise("Div", torch.div, 2)
elementwise("Neg", torch.neg, 1)
elementwise("Abs", torch.abs, 1, real=True)
elementwise("Reciprocal", torch.reciprocal, 1)
elementwise("Sqrt", torch.sqrt, 1)
elementwise("Exp", torch.exp, 1)
elementwise("Log", torch.log, 1)
elementwise("Sin", torch.sin, 1)
elementwise("PowTensorTensor", torch.pow, 2)


@case("complex ReduceSum", goal=1.0)
def reduce_sum(b):
    for d, part in PARTS:
        for dim in (0, 1):
            x = numbers(b, d, part, (2048, 2048))
            t = b.torch(x)
            b.compare(f"{d} 2048 x 2048 along {dim}", "aclnnReduceSum", [x, Ints(dim), False, d, b.empty(d, (2048,))],
                      lambda: torch.sum(t, dim), bytes=d.size << 22)

