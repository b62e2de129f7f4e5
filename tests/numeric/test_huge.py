# SPDX-License-Identifier: Apache-2.0
"""Sizes at which 32-bit indices and running sums break. Left out with CANNON_CASES=small: they move gigabytes."""
import unittest

import numpy as np

import acl
from acl import AclError, Ints, OUT_OF_MEMORY, Scalar, Tensor, device, lib, run
from dtypes import F32, I64, I8
from gen import SCALE

CHUNK = (1 << 22) + 1                # elements per copy: odd, so that the pattern's phase differs in each


class Raw(Tensor):
    """A tensor whose bytes stay on the device: `run` neither sends nor fetches it."""

    def __init__(self, dtype, shape, strides=None, offset=0, n_storage=None):
        self.dtype, self.shape, self.offset, self.code = dtype, shape, offset, dtype.code
        self.strides, self.format = strides or acl.contiguous(shape), acl.FORMAT_ND
        self.n_storage = n_storage or self.size
        self.block = self                                            # stands in for the block: an address and no-ops
        self.address = device().malloc(self.n_storage * dtype.size)

    def place(self):
        pass

    def fetch(self):
        return self.sent

    sent = np.empty(2 * acl.GUARD, np.uint8)

    def view(self, raw):
        return np.empty(0, self.dtype.storage)

    def write(self, start, array):
        device().upload(self.address + start * self.dtype.size, array)

    def read(self, start, n):
        array = np.empty(n, self.dtype.storage)
        device().download(self.address + start * self.dtype.size, array)
        return array

    def __del__(self):
        if hasattr(self, "address"):
            lib().aclrtFree(self.address)


@unittest.skipIf(SCALE < 1, "CANNON_CASES asks for small cases")
class Huge(unittest.TestCase):
    def test_add_past_2_to_the_28(self):
        n = (1 << 28) + 3
        pattern = np.random.default_rng(5).integers(-128, 128, CHUNK, np.int8)
        x, out = Raw(I8, (n,)), Raw(I8, (n,))
        for start in range(0, n, CHUNK):
            x.write(start, pattern[:min(CHUNK, n - start)])
        run("aclnnAdd", x, x, Scalar(2, I64), out)
        expected = (pattern * np.int8(3)).astype(np.int8)
        for start in range(0, n, CHUNK):
            m = min(CHUNK, n - start)
            np.testing.assert_array_equal(out.read(start, m), expected[:m])

    def test_sum_of_ones(self):
        """A running float32 sum would stop at 2 ** 24."""
        n = 1 << 26
        x, ones = Raw(F32, (n,)), np.ones(CHUNK, np.float32)
        for start in range(0, n, CHUNK):
            x.write(start, ones[:min(CHUNK, n - start)])
        out = Tensor.empty(F32, ())
        run("aclnnReduceSum", x, Ints(), False, F32, out)
        self.assertEqual(float(out.get()), float(n))

    def test_strides_past_2_to_the_31(self):
        """Three elements, 2 ** 30 apart: only the pages that are touched cost memory."""
        try:
            x = Raw(I8, (3,), (1 << 30,), 5, (1 << 31) + 64)
        except AclError as e:
            if e.code != OUT_OF_MEMORY:
                raise
            self.skipTest("this machine does not give a device 2 GiB")
        for i, value in enumerate((1, 2, 3)):
            x.write(5 + (i << 30), np.array([value], np.int8))
        run("aclnnInplaceAdds", x, Scalar(10, I64), Scalar(1, I64))
        self.assertEqual([int(x.read(5 + (i << 30), 1)[0]) for i in range(3)], [11, 12, 13])


if __name__ == "__main__":
    unittest.main()
