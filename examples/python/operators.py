#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators on NumPy arrays and on tensors that stay on the device; how long a call takes.

    python3 operators.py
"""
import time

import numpy as np

import cannon
from cannon import aclnn


def gelu_by_hand(x):
    """Four operators, queued one after another. Nothing is copied to the host in between."""
    inner = aclnn.Muls(aclnn.Add(x, aclnn.PowTensorScalar(x, 3), alpha=0.044715), (2 / np.pi) ** 0.5)
    return x * (aclnn.Tanh(inner) + 1) * 0.5


def microseconds(function, n=2000):
    """The median of n calls."""
    taken = []
    for _ in range(n):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[n // 2] * 1e6


def main():
    x = cannon.Tensor(np.linspace(-3, 3, 7, dtype=np.float32))
    print("by hand  ", gelu_by_hand(x))
    print("operator ", aclnn.Gelu(x))

    values, indices = aclnn.Topk(np.random.default_rng(0).random((2, 100), np.float32), k=3)
    print("largest  ", values.numpy(), "at", indices.tolist())

    view = cannon.Tensor(np.arange(12).reshape(3, 4)).T[::2]
    print("a view   ", view)

    try:
        aclnn.Softmax(x, dim=1)
    except cannon.AclError as error:
        print("an error ", error.message)

    a, b, out = (cannon.Tensor(np.ones(16, np.float32)) for _ in range(3))
    print(f"Add takes {microseconds(lambda: aclnn.Add(a, b)):.1f} us, and "
          f"{microseconds(lambda: aclnn.Add(a, b, out=out)):.1f} us with out=")
    print("free, total memory:", *cannon.memory_info())


if __name__ == "__main__":
    main()
