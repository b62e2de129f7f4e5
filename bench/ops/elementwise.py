"""Elementwise operators, in cache and beyond."""
import torch

from dtypes import BF16, F16, F32
from run import case

SIZES = (("64 Ki", 1 << 16), ("16 Mi", 1 << 24))


def unary(b, op, function, dtypes=(F32, F16, BF16)):
    for d in dtypes:
        for text, n in SIZES:
            x = b.random(d, (n,))
            out = torch.empty_like(t := b.torch(x))
            b.compare(f"{d} {text}", op, [x, b.empty(d, (n,))], lambda: function(t, out), bytes=2 * d.size * n)


@case("Exp", goal=1.0)
def exp(b):
    unary(b, "aclnnExp", lambda t, out: torch.exp(t, out=out))


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
