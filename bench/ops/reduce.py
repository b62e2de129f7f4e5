# SPDX-License-Identifier: Apache-2.0
"""Reductions and scans: operands that fit into the cache and larger ones, along the last and first dimension, and
short rows.
"""
import torch

from dtypes import BF16, F16, F32, I64
from run import case

SHAPES = (("256 x 256", (256, 256)), ("1000 x 1000", (1000, 1000)), ("4096 x 4096", (4096, 4096)))
SHORT = (("250000 x 4", (250000, 4)), ("60000 x 16", (60000, 16)), ("16000 x 64", (16000, 64)))


def each(b, call, dtypes=(F32, BF16, F16), shapes=SHAPES + SHORT, dims=(1, 0)):
    """call(x, t, dim, n) returns (operator, arguments, the peer's function)."""
    for d in dtypes:
        for text, shape in shapes:
            for dim in dims:
                x = b.random(d, shape)
                op, args, peer = call(x, b.torch(x), dim, shape[1 - dim])
                b.compare(f"{d} {text} along {dim}", op, args, peer, bytes=d.size * shape[0] * shape[1])


@case("Sum", goal=1.0)
def sums(b):
    from acl import Ints
    each(b, lambda x, t, dim, n: ("aclnnReduceSum", [x, Ints(dim), False, x.dtype, b.empty(x.dtype, (n,))],
                                  lambda: torch.sum(t, dim)))


@case("Sum all", goal=1.0)
def sum_all(b):
    from acl import Ints
    each(b, lambda x, t, dim, n: ("aclnnReduceSum", [x, Ints(0, 1), False, x.dtype, b.empty(x.dtype, ())],
                                  lambda: torch.sum(t)), dims=(1,), shapes=SHAPES)


@case("Amax", goal=1.0)
def amax(b):
    from acl import Ints
    each(b, lambda x, t, dim, n: ("aclnnAmax", [x, Ints(dim), False, b.empty(x.dtype, (n,))],
                                  lambda: torch.amax(t, dim)))


@case("ArgMax", goal=1.0)
def argmax(b):
    each(b, lambda x, t, dim, n: ("aclnnArgMax", [x, dim, False, b.empty(I64, (n,))], lambda: torch.argmax(t, dim)))


@case("MaxDim", goal=1.0)
def max_dim(b):
    each(b, lambda x, t, dim, n: ("aclnnMaxDim", [x, dim, False, b.empty(x.dtype, (n,)), b.empty(I64, (n,))],
                                  lambda: torch.max(t, dim)), dtypes=(F32,))


@case("Var", goal=1.0)
def var(b):
    from acl import Ints
    each(b, lambda x, t, dim, n: ("aclnnVarCorrection", [x, Ints(dim), 1, False, b.empty(x.dtype, (n,))],
                                  lambda: torch.var(t, dim)))


@case("Norm 2", goal=1.0)
def norm(b):
    from acl import Ints, Scalar
    each(b, lambda x, t, dim, n: ("aclnnNorm", [x, Scalar(2.0, F32), Ints(dim), False, b.empty(x.dtype, (n,))],
                                  lambda: torch.linalg.vector_norm(t, 2, dim)))


@case("LogSumExp", goal=1.0)
def log_sum_exp(b):
    from acl import Ints
    each(b, lambda x, t, dim, n: ("aclnnLogSumExp", [x, Ints(dim), False, b.empty(x.dtype, (n,))],
                                  lambda: torch.logsumexp(t, dim)), dtypes=(F32,))


@case("Cumsum", goal=1.0)
def cumsum(b):
    each(b, lambda x, t, dim, n: ("aclnnCumsum", [x, dim, x.dtype, b.empty(x.dtype, x.shape)],
                                  lambda: torch.cumsum(t, dim)), dtypes=(F32, BF16))
    x = b.random(F32, (1 << 24,))
    t = b.torch(x)
    b.compare("f32 16 Mi", "aclnnCumsum", [x, 0, F32, b.empty(F32, x.shape)], lambda: torch.cumsum(t, 0),
              bytes=8 * x.size)
