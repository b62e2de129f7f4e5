# SPDX-License-Identifier: Apache-2.0
"""acl.util: memory of Python and NumPy as addresses, and back."""
import contextlib
import io
import sys
import unittest

import numpy as np

from base import DeviceTest, acl


class Bytes(unittest.TestCase):
    def test_bytes(self):
        data = b"some bytes"
        self.assertEqual(acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(data), len(data)), data)
        array = bytearray(data)
        self.assertEqual(acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(array) + 5, 5), b"bytes")
        self.assertEqual(acl.util.ptr_to_bytes(0, 0), b"")
        with self.assertRaisesRegex(ValueError, r"acl.util.ptr_to_bytes\(\): ptr is 0"):
            acl.util.ptr_to_bytes(0, 1)
        with self.assertRaisesRegex(TypeError, "data is str, expected bytes"):
            acl.util.bytes_to_ptr("text")


class Arrays(unittest.TestCase):
    def test_numpy_to_ptr(self):
        array = np.arange(6, dtype=np.int32)
        self.assertEqual(acl.util.numpy_to_ptr(array), array.ctypes.data)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(acl.util.numpy_to_ptr(array[::2]), array.ctypes.data)
            acl.util.numpy_to_ptr(array[1:])
        self.assertEqual(out.getvalue(), "Warning:The input ndarray is discontiguous. "
                                         "Please use acl.util.numpy_contiguous_to_ptr instead.\n")
        for bad in (3, [1], b"x", None):
            with self.assertRaisesRegex(TypeError, "data is .*, expected numpy.ndarray"):
                acl.util.numpy_to_ptr(bad)

    def test_contiguous(self):
        array = np.arange(12.).reshape(3, 4)
        ptr, same = acl.util.numpy_contiguous_to_ptr(array)
        self.assertIs(same, array)
        self.assertEqual(ptr, array.ctypes.data)
        ptr, copy = acl.util.numpy_contiguous_to_ptr(array.T)
        self.assertEqual(ptr, copy.ctypes.data)
        self.assertTrue(copy.flags.c_contiguous)
        self.assertTrue((copy == array.T).all())

    def test_ptr_to_numpy(self):
        """Each of NumPy's numbers of types; the array shows the memory itself."""
        for type_, dtype in ((0, "?"), (1, "i1"), (2, "u1"), (3, "i2"), (4, "u2"), (5, "i4"), (6, "u4"), (7, "i8"),
                             (8, "u8"), (9, "i8"), (10, "u8"), (11, "f4"), (12, "f8"), (14, "c8"), (15, "c16"),
                             (23, "f2")):
            if type_ != 9 and type_ != 10:
                self.assertEqual(np.dtype(dtype).num % 100, type_)
            array = np.zeros((2, 3), dtype)
            view = acl.util.ptr_to_numpy(array.ctypes.data, (2, 3), type_)
            self.assertEqual((view.dtype, view.shape), (array.dtype, array.shape))
            view[1, 2] = 1
            self.assertTrue(array[1, 2])
        self.assertEqual(acl.util.ptr_to_numpy(array.ctypes.data, [6], 23).shape, (6,))
        self.assertEqual(acl.util.ptr_to_numpy(array.ctypes.data, (), 23).shape, ())
        self.assertEqual(acl.util.ptr_to_numpy(0, (0, 3), 11).shape, (0, 3))

    def test_bad_arguments(self):
        for arguments, kind, message in (((0, (1,), 11), ValueError, "ptr is 0"),
                                         ((8, (-1,), 11), ValueError, r"shape\[0\] is -1"),
                                         ((8, (1,), 13), ValueError, "type is 13"),
                                         ((8, (1,), 99), ValueError, "type is 99"),
                                         ((8, (1,), -1), ValueError, "type is -1"),
                                         ((8, 4, 11), TypeError, "shape is int, expected a list"),
                                         ((8, ("a",), 11), TypeError, r"shape\[0\] is str, expected int"),
                                         (("8", (1,), 11), TypeError, "ptr is str, expected int")):
            with self.assertRaisesRegex(kind, rf"acl.util.ptr_to_numpy\(\): {message}"):
                acl.util.ptr_to_numpy(*arguments)

    def test_references(self):
        array, shape = np.zeros(4, np.float32), (4,)
        before = sys.getrefcount(array), sys.getrefcount(shape)
        for _ in range(200):
            acl.util.numpy_to_ptr(array)
            acl.util.numpy_contiguous_to_ptr(array)
            acl.util.ptr_to_numpy(array.ctypes.data, shape, 11)
        self.assertEqual((sys.getrefcount(array), sys.getrefcount(shape)), before)


class Device(DeviceTest):
    def test_round_trip(self):
        array = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
        address = self.memory(array.nbytes)
        self.ok(acl.rt.memcpy(address, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes,
                              acl.ACL_MEMCPY_HOST_TO_DEVICE))
        host = self.ok(acl.rt.malloc_host(array.nbytes))
        self.ok(acl.rt.memcpy(host, array.nbytes, address, array.nbytes, acl.ACL_MEMCPY_DEVICE_TO_HOST))
        view = acl.util.ptr_to_numpy(host, array.shape, 11)
        np.testing.assert_array_equal(view, array)
        del view
        self.ok(acl.rt.free_host(host))


if __name__ == "__main__":
    unittest.main()
