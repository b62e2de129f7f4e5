# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators on operands that fit into the cache and on larger ones."""
import torch

from dtypes import BF16, F16, F32
from run import case

SIZES = (("64 Ki", 1 << 16), ("16 Mi", 1 << 24))
aten = torch.ops.aten


def unary(b, op, function, dtypes=(F32, F16, BF16), extra=(), low=-2, high=2):
    for d in dtypes:
        for text, n in SIZES:
            x = b.random(d, (n,), low, high)
            out = torch.empty_like(t := b.torch(x))
            b.compare(f"{d} {text}", op, [x, *extra, b.empty(d, (n,))], lambda: function(t, out), bytes=2 * d.size * n)


def unary_case(name, goal, function, **how):
    """Registers a case for aclnn<name>."""
    case(name, goal)(lambda b: unary(b, "aclnn" + name, function, **how))


unary_case("Exp", 1.0, lambda t, out: torch.exp(t, out=out))
unary_case("Log", 1.0, lambda t, out: torch.log(t, out=out), low=0.01, high=9)
unary_case("Tanh", 1.0, lambda t, out: torch.tanh(t, out=out))
unary_case("Sigmoid", 1.0, lambda t, out: torch.sigmoid(t, out=out))
unary_case("Silu", 1.0, lambda t, out: aten.silu.out(t, out=out))
unary_case("Gelu", 0.6, lambda t, out: aten.gelu.out(t, approximate="tanh", out=out))
unary_case("GeluV2", 0.6, lambda t, out: aten.gelu.out(t, out=out), extra=(0,))
unary_case("Sin", 1.0, lambda t, out: torch.sin(t, out=out))
unary_case("Cos", 1.0, lambda t, out: torch.cos(t, out=out))
unary_case("Tan", 1.0, lambda t, out: torch.tan(t, out=out))
unary_case("Erf", 1.0, lambda t, out: torch.erf(t, out=out))
unary_case("Mish", 1.0, lambda t, out: aten.mish.out(t, out=out))
unary_case("Relu", 1.0, lambda t, out: torch.clamp_min(t, 0, out=out))
# Neg is bound by memory bandwidth, as are all operators that are cheaper to compute.
unary_case("Neg", 1.0, lambda t, out: out.copy_(t))


@case("Add", goal=1.0)
def add(b):
    from acl import Scalar
    for d in (F32, BF16):
        for text, n in SIZES:
            x, y = b.random(d, (n,)), b.random(d, (n,))
            t, u = b.torch(x), b.torch(y)
            out = torch.empty_like(t)
            b.compare(f"{d} {text}", "aclnnAdd", [x, y, Scalar(1.0, F32), b.empty(d, (n,))],
                      lambda: torch.add(t, u, out=out), bytes=3 * d.size * n)
