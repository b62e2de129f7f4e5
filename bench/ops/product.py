# SPDX-License-Identifier: Apache-2.0
"""Matrix products compared with PyTorch and, where installed, oneDNN's sgemm."""
import ctypes as ct

import torch

from dtypes import BF16, F16, F32
from run import case

CUBES = (64, 128, 256, 512, 1024, 2048, 4096)


def onednn_sgemm(a, b, c):
    """Computes c = a @ b for PyTorch float matrices. Returns None if the library is not installed."""
    try:
        sgemm = ct.CDLL("libdnnl.so.2").dnnl_sgemm
    except OSError:
        return None
    size, pointer = ct.c_int64, ct.c_void_p
    sgemm.argtypes = [ct.c_char, ct.c_char, size, size, size, ct.c_float, pointer, size, pointer, size, ct.c_float,
                      pointer, size]
    (m, k), n = a.shape, b.shape[1]
    return lambda: sgemm(b"N", b"N", m, n, k, 1.0, a.data_ptr(), k, b.data_ptr(), n, 0.0, c.data_ptr(), n)


def cubes(b, dtype, sizes=CUBES):
    for n in sizes:
        x, y = b.random(dtype, (n, n)), b.random(dtype, (n, n))
        t, u = b.torch(x), b.torch(y)
        v = torch.empty_like(t)
        args = ["aclnnMm", [x, y, b.empty(dtype, (n, n)), 0]]
        b.compare(f"{dtype} {n}", *args, lambda: torch.mm(t, u, out=v), flops=2 * n ** 3)
        peer = onednn_sgemm(t, u, v) if dtype is F32 else None
        if peer:
            b.compare(f"{dtype} {n}, peer oneDNN", *args, peer, flops=2 * n ** 3)


@case("Mm f32", goal=1.0)
def mm_f32(b):
    cubes(b, F32)


@case("Mm bf16", goal=1.0)
def mm_bf16(b):
    cubes(b, BF16)


@case("Mm f16", goal=0.67)
def mm_f16(b):
    cubes(b, F16)


@case("Mm rows", goal=1.0)
def mm_rows(b):
    """GEMM with small m: weights stored as [N, K], then as [K, N]. The rate counts the bytes of the weights."""
    for dtype in (F32, F16, BF16):
        for rows in (1, 4, 8):
            for k, n in ((4096, 4096), (4096, 14336)) if rows == 1 else ((4096, 4096),):
                x, w = b.random(dtype, (rows, k)), b.random(dtype, (n, k))
                t, u = b.torch(x), b.torch(w)
                out = torch.empty((rows, n), dtype=t.dtype)
                y = b.empty(dtype, (rows, n))
                w.shape, w.strides = (k, n), (1, k)
                b.compare(f"{dtype} {rows} x {k} x {n} [N, K]", "aclnnMm", [x, w, y, 0],
                          lambda: torch.mm(t, u.T, out=out), bytes=k * n * dtype.size)
                w.strides = (n, 1)
                u = u.reshape(k, n)
                b.compare(f"{dtype} {rows} x {k} x {n} [K, N]", "aclnnMm", [x, w, y, 0],
                          lambda: torch.mm(t, u, out=out), bytes=k * n * dtype.size)


@case("Bmm small", goal=1.0)
def bmm_small(b):
    for dtype in (F32, F16):
        for batch, m, k, n in ((1, 1, 1, 1), (1, 16, 16, 16), (256, 16, 64, 16), (1024, 1, 64, 64), (64, 64, 64, 64),
                               (12, 128, 32, 128)):
            x, y = b.random(dtype, (batch, m, k)), b.random(dtype, (batch, k, n))
            t, u = b.torch(x), b.torch(y)
            v = torch.empty((batch, m, n), dtype=t.dtype)
            b.compare(f"{dtype} {batch} of {m} x {k} x {n}", "aclnnBatchMatMul",
                      [x, y, b.empty(dtype, (batch, m, n)), 0],
                      lambda: torch.bmm(t, u, out=v), flops=2 * batch * m * k * n)


@case("Quantised rows", goal=None)
def quantised_rows(b):
    """GEMV with int8 and int4 weights [N, K] in groups of 32. The rate counts the bytes of the weights without the
    scales."""
    from dtypes import I8
    k, n = 4096, 14336
    x, scale, y = b.random(F16, (1, k)), b.random(F16, (n, k // 32)), b.empty(F16, (1, n))
    scale.shape, scale.strides = (k // 32, n), (1, k // 32)
    for bits, code in ((8, I8.code), (4, 29)):
        w = b.random(I8, (n, k), -8, 7)
        w.shape, w.strides, w.code = (k, n), (1, k), code
        b.compare(f"int{bits} 1 x {k} x {n}", "aclnnWeightQuantBatchMatmulV2",
                  [x, w, scale, None, None, None, None, 32, y], None, bytes=k * n * bits // 8)


@case("QuantMatmulV4", goal=0.77)
def quant_matmul(b):
    """GEMM of int8 by int8 to bfloat16 with scales per row and column; the peer computes only the sums."""
    from dtypes import BF16, I8
    for m, k, n in ((64, 4096, 4096), (256, 1024, 1024), (1024, 1024, 1024), (2048, 4096, 1024)):
        x, w, scale, rows = b.random(I8, (m, k), -127, 127), b.random(I8, (k, n), -127,
                                                                      127), b.random(F32, (n,)), b.random(F32, (m,))
        t, u = b.torch(x), b.torch(w)
        v = u.T.contiguous().T
        out = b.empty(BF16, (m, n))
        b.compare(f"{m} x {k} x {n}", "aclnnQuantMatmulV4", [x, w, scale, None, rows, None, False, False, out],
                  lambda: torch._int_mm(t, u), flops=2 * m * k * n)
        w = b.of(I8, v.T.contiguous().numpy())
        b.compare(f"{m} x {k} x {n} [N, K]", "aclnnQuantMatmulV4", [x, w, scale, None, rows, None, False, True, out],
                  lambda: torch._int_mm(t, v), flops=2 * m * k * n)


@case("GroupedMatmul", goal=1.0)
def grouped_matmul(b):
    """Experts' products by rows, in one call; the peer has a call for each expert."""
    from dtypes import I64
    for dtype in (F32, BF16):
        for sizes, k, n in (([256] * 8, 512, 1024), ([1000, 20, 0, 4], 1024, 1024), ([4] * 8, 1024, 2048),
                            ([1] * 128, 256, 512)):
            x, w = b.random(dtype, (sum(sizes), k)), b.random(dtype, (len(sizes), k, n))
            t, u = b.torch(x).split(sizes), b.torch(w)
            out = torch.empty((sum(sizes), n), dtype=u.dtype).split(sizes)

            def peer():
                for rows, weight, to in zip(t, u, out):
                    torch.mm(rows, weight, out=to)
            lists = [b.acl.TensorList([v]) for v in (x, w, b.empty(dtype, (sum(sizes), n)))]
            b.compare(f"{dtype} {len(sizes)} of {max(sizes)} x {k} x {n}", "aclnnGroupedMatmulV4",
                      [*lists[:2], *[None] * 6, b.of(I64, sizes), None, None, None, 3, 0, 1, 0, lists[2], None, None],
                      peer, flops=2 * sum(sizes) * k * n)


@case("TriangularSolve", goal=1.0)
def triangular_solve(b):
    for batch, n, cols in ((1, 32, 32), (64, 32, 32), (1, 512, 64)):
        a, r = b.random(F32, (batch, n, n), 1, 2), b.random(F32, (batch, n, cols))
        t, u = b.torch(a), b.torch(r)
        b.compare(f"{batch} of {n} x {cols}", "aclnnTriangularSolve",
                  [r, a, False, False, False, b.empty(F32, r.shape), b.empty(F32, a.shape)],
                  lambda: torch.linalg.solve_triangular(t, u, upper=False))
