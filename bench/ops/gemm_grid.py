# SPDX-License-Identifier: Apache-2.0
"""GEMM on the shapes of models: few and many rows, weights stored as [K, N] or as [N, K] (as torch.nn.Linear has them),
odd sizes, and one operand whose rows are a multiple of a page apart. The peer is PyTorch (MKL, oneDNN).

For a lower instruction set level, limit both sides:
    CANNON_ISA=v3 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 run.py grid
"""
import torch

from dtypes import BF16, F16, F32, I8
from run import case

# rows, depth, columns
SHAPES = (
    (1, 768, 3072), (4, 768, 768), (8, 1024, 1024), (8, 4096, 4096), (16, 64, 512), (16, 512, 2048), (16, 4096, 4096),
    (25, 1024, 8210), (32, 512, 2048), (32, 2048, 512), (32, 1000, 1000), (50, 3, 1000), (50, 1000, 3), (50, 768, 768),
    (64, 64, 64), (64, 768, 3072), (64, 4096, 4096), (100, 300, 70), (128, 64, 768), (128, 768, 3072),
    (128, 3072, 768), (128, 2048, 1000), (197, 768, 768), (197, 768, 2304), (255, 511, 257), (256, 1024, 1024),
    (256, 2048, 512), (512, 512, 512), (512, 1024, 4096), (512, 8192, 64), (1024, 64, 1024), (1024, 1024, 1024),
)
INT8 = tuple(s for s in SHAPES if s[1] >= 64 and s[0] > 8)


def grid(b, dtype):
    for m, k, n in SHAPES:
        x, w = b.random(dtype, (m, k)), b.random(dtype, (k, n))
        t, u, y = b.torch(x), b.torch(w), b.empty(dtype, (m, n))
        out = torch.empty((m, n), dtype=t.dtype)
        b.compare(f"{dtype} {m} x {k} x {n} [K, N]", "aclnnMm", [x, w, y, 0], lambda: torch.mm(t, u, out=out),
                  flops=2 * m * k * n)
        w.strides = (1, k)
        u = torch.empty((n, k), dtype=t.dtype).copy_(u.T).T
        b.compare(f"{dtype} {m} x {k} x {n} [N, K]", "aclnnMm", [x, w, y, 0], lambda: torch.mm(t, u, out=out),
                  flops=2 * m * k * n)


@case("Grid f32", goal=0.9)
def grid_f32(b):
    grid(b, F32)


@case("Grid bf16", goal=0.9)
def grid_bf16(b):
    grid(b, BF16)


@case("Grid f16", goal=0.9)
def grid_f16(b):
    grid(b, F16)


@case("Grid i8", goal=0.9)
def grid_i8(b):
    """Sums of int8, with scales and rounding on our side only. The peer takes no fewer than 17 rows."""
    for m, k, n in INT8:
        x, w, scale, rows = b.random(I8, (m, k), -127, 127), b.random(I8, (k, n), -127, 127), \
            b.random(F32, (n,)), b.random(F32, (m,))
        t, u, y = b.torch(x), b.torch(w), b.empty(BF16, (m, n))
        fits = m > 16 and k % 8 == 0 and n % 8 == 0
        b.compare(f"i8 {m} x {k} x {n} [K, N]", "aclnnQuantMatmulV4", [x, w, scale, None, rows, None, False, False, y],
                  (lambda: torch._int_mm(t, u)) if fits else None, flops=2 * m * k * n)
