# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of rows and of frames; lengths with small prime factors, and a prime length."""
import torch

from dtypes import F32, F64
from run import case


@case("Rfft1D", goal=1.0)
def rfft(b):
    for rows, n in ((1, 16), (1000, 16), (1000, 400), (512, 1024), (512, 1021), (16, 65536), (1, 262144)):
        x = b.random(F32, (rows, n))
        b.compare(f"{rows} x {n}", "aclRfft1D", [x, n, 1, 1, b.empty(F32, (rows, n // 2 + 1, 2))],
                  lambda t=b.torch(x): torch.fft.rfft(t), bytes=8 * rows * n)


@case("Stft", goal=1.0)
def stft(b):
    for d in (F32, F64):
        for batch, size, n, hop in ((1, 400, 400, 160), (1, 16000, 400, 160), (16, 160000, 400, 160),
                                    (16, 160000, 1024, 256)):
            x, w = b.random(d, (batch, size)), b.random(d, (n,), 0, 1)
            out = b.empty(d, (batch, n // 2 + 1, (size - n) // hop + 1, 2))
            tx, tw = b.torch(x), b.torch(w)
            b.compare(f"{d} {batch} x {size} by {n}", "aclStft", [x, w, out, n, hop, n, False, True, False],
                      lambda tx=tx, tw=tw, n=n, hop=hop: torch.stft(tx, n, hop, window=tw, center=False,
                                                                    return_complex=True),
                      bytes=2 * d.size * (size - n) // hop * n * batch)
