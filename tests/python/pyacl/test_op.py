# SPDX-License-Identifier: Apache-2.0
"""Tensor descriptions, data buffers, attributes, operators by name (acl.op), and acl.prof."""
import gc
import os
import sys
import tempfile
import unittest

import numpy as np

from base import DeviceTest, acl


class Objects(unittest.TestCase):
    def test_data_buffer(self):
        buffer = acl.create_data_buffer(4096, 64)
        self.assertEqual(acl.get_data_buffer_addr(buffer), 4096)
        self.assertEqual((acl.get_data_buffer_size(buffer), acl.get_data_buffer_size_v2(buffer)), (64, 64))
        self.assertEqual(acl.update_data_buffer(buffer, 8192, 32), 0)
        self.assertEqual(acl.get_data_buffer_addr(buffer), 8192)
        self.assertEqual(acl.destroy_data_buffer(buffer), 0)

    def test_tensor_desc(self):
        desc = acl.create_tensor_desc(acl.ACL_FLOAT16, [2, 3, 4], acl.ACL_FORMAT_ND)
        self.assertEqual((acl.get_tensor_desc_type(desc), acl.get_tensor_desc_format(desc)),
                         (acl.ACL_FLOAT16, acl.ACL_FORMAT_ND))
        self.assertEqual((acl.get_tensor_desc_num_dims(desc), acl.get_tensor_desc_size(desc),
                          acl.get_tensor_desc_element_count(desc)), (3, 48, 24))
        self.assertEqual(acl.get_tensor_desc_dim(desc, 1), 3)
        self.assertEqual(acl.get_tensor_desc_dim_v2(desc, 2), (4, 0))
        self.assertNotEqual(acl.get_tensor_desc_dim_v2(desc, 3)[1], 0)
        self.assertIsNone(acl.set_tensor_desc_name(desc, "x1"))
        self.assertEqual(acl.get_tensor_desc_name(desc), "x1")
        self.assertEqual(acl.set_tensor_shape_range(desc, [[1, 2], [3, 3], [1, -1]]), 0)
        self.assertEqual(acl.get_tensor_desc_dim_range(desc, 2, 2), ([1, -1], 0))
        self.assertEqual(acl.set_tensor_shape(desc, (2, 3)), 0)
        self.assertEqual(acl.set_tensor_origin_shape(desc, np.array([3, 2])), 0)
        self.assertEqual(acl.set_tensor_storage_shape(desc, []), 0)
        self.assertEqual(acl.set_tensor_place_ment(desc, acl.ACL_MEMTYPE_HOST), 0)
        self.assertIsNone(acl.destroy_tensor_desc(desc))

    def test_attributes(self):
        attr = acl.op.create_attr()
        for call, value in ((acl.op.set_attr_bool, True), (acl.op.set_attr_int, -3), (acl.op.set_attr_float, 0.5),
                            (acl.op.set_attr_string, "text"), (acl.op.set_attr_data_type, acl.ACL_FLOAT),
                            (acl.op.set_attr_list_bool, [True, False, 1]), (acl.op.set_attr_list_int, [1, -2]),
                            (acl.op.set_attr_list_int, np.array([1, 2], np.int32)),
                            (acl.op.set_attr_list_float, (1, 2.5)),
                            (acl.op.set_attr_list_float, np.array([1, 2], np.float32)),
                            (acl.op.set_attr_list_string, ["a", "b"]),
                            (acl.op.set_attr_list_data_type, [acl.ACL_FLOAT, acl.ACL_BF16]),
                            (acl.op.set_attr_list_list_int, [[10], [20, 30], []]),
                            (acl.op.set_attr_list_list_int, np.array([[1, 2], [3, 4]]))):
            self.assertEqual(call(attr, "name", value), 0, value)
        self.assertIsNone(acl.op.destroy_attr(attr))


class Tensor:
    """A tensor on the device with its description and buffer."""

    def __init__(self, test, array):
        self.test, self.like = test, array
        self.address = test.memory(max(array.nbytes, 32))
        test.ok(acl.rt.memcpy(self.address, array.nbytes, acl.util.numpy_to_ptr(array), array.nbytes,
                              acl.ACL_MEMCPY_HOST_TO_DEVICE))
        dtype = {"float32": acl.ACL_FLOAT, "float16": acl.ACL_FLOAT16, "int32": acl.ACL_INT32}[array.dtype.name]
        self.desc = acl.create_tensor_desc(dtype, list(array.shape), acl.ACL_FORMAT_ND)
        self.buffer = acl.create_data_buffer(self.address, array.nbytes)

    def get(self):
        out = np.empty_like(self.like)
        self.test.ok(acl.rt.memcpy(acl.util.numpy_to_ptr(out), out.nbytes, self.address, out.nbytes,
                                   acl.ACL_MEMCPY_DEVICE_TO_HOST))
        return out

    def destroy(self):
        acl.destroy_tensor_desc(self.desc)
        acl.destroy_data_buffer(self.buffer)


class Operators(DeviceTest):
    def execute(self, op_type, inputs, outputs, attr=None, function=acl.op.execute_v2, *more):
        attr = attr or acl.op.create_attr()
        stream = self.stream()
        ret = function(op_type, [x.desc for x in inputs], [x.buffer for x in inputs], [y.desc for y in outputs],
                       [y.buffer for y in outputs], attr, *more, stream)
        acl.op.destroy_attr(attr)
        for x in (*inputs, *outputs):
            x.destroy()
        self.ok(ret)
        self.ok(acl.rt.synchronize_stream(stream))
        return [y.get() for y in outputs]

    def test_add(self):
        rng = np.random.default_rng(2)
        for dtype in (np.float32, np.float16, np.int32):
            a, b = ((rng.standard_normal((7, 9)) * 100).astype(dtype) for _ in range(2))
            c, = self.execute("Add", [Tensor(self, a), Tensor(self, b)], [Tensor(self, np.zeros_like(a))])
            np.testing.assert_array_equal(c, a + b)

    def test_attribute(self):
        x = np.linspace(-4, 4, 33, dtype=np.float32)
        attr = acl.op.create_attr()
        self.ok(acl.op.set_attr_float(attr, "negative_slope", 0.25))
        y, = self.execute("LeakyRelu", [Tensor(self, x)], [Tensor(self, np.zeros_like(x))], attr)
        np.testing.assert_array_equal(y, np.where(x > 0, x, np.float32(0.25) * x))

    def test_compile_and_execute(self):
        x = np.arange(1, 9, dtype=np.float32)
        y, = self.execute("Sqrt", [Tensor(self, x)], [Tensor(self, np.zeros_like(x))], None,
                          acl.op.compile_and_execute, acl.ACL_ENGINE_SYS, acl.ACL_COMPILE_SYS, None)
        np.testing.assert_array_equal(y, np.sqrt(x))

    def test_unknown_operator(self):
        x = Tensor(self, np.zeros(4, np.float32))
        attr = acl.op.create_attr()
        ret = acl.op.execute_v2("NoSuchOperator", [x.desc], [x.buffer], [x.desc], [x.buffer], attr, 0)
        self.assertNotEqual(ret, 0)
        self.assertIn("NoSuchOperator", acl.get_recent_err_msg())
        acl.op.destroy_attr(attr)
        x.destroy()


class Profiling(DeviceTest):
    def test_session(self):
        with tempfile.TemporaryDirectory() as folder:
            self.ok(acl.prof.init(folder))
            config = acl.prof.create_config([0], acl.ACL_AICORE_NONE, 0, acl.ACL_PROF_ACL_API | acl.ACL_PROF_MSPROFTX)
            self.assertNotEqual(config, 0)
            self.ok(acl.prof.start(config))
            stream = self.stream()
            self.ok(acl.prof.mark_ex("a mark", stream))
            stamp = acl.prof.create_stamp()
            self.ok(acl.prof.set_stamp_trace_message(stamp, "range", 5))
            range_id, ret = acl.prof.range_start(stamp)
            self.assertEqual(ret, 0)
            self.ok(acl.prof.range_stop(range_id))
            self.ok(acl.prof.push(stamp))
            self.ok(acl.prof.pop())
            self.ok(acl.prof.mark(stamp))
            self.assertIsNone(acl.prof.destroy_stamp(stamp))
            self.ok(acl.rt.synchronize_stream(stream))
            self.ok(acl.prof.stop(config))
            self.ok(acl.prof.destroy_config(config))
            self.ok(acl.prof.finalize())
            self.assertTrue(os.listdir(folder))


class Leaks(DeviceTest):
    """Many calls leave no Python objects behind, whether they succeed or fail."""

    def grows(self, call, n=300):
        for _ in range(20):
            call()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(n):
            call()
        gc.collect()
        return sys.getallocatedblocks() - before

    def test_calls(self):
        prop = {"handleType": 0, "allocationType": 0, "memAttr": acl.ACL_HBM_MEM_HUGE, "location": {"id": 0, "type": 1}}
        attr = acl.op.create_attr()
        address = self.memory(64)

        def desc():
            d = acl.create_tensor_desc(0, [2, 3], 2)
            acl.set_tensor_shape_range(d, [[1, 2], [3, 4]])
            acl.get_tensor_desc_dim_range(d, 0, 2)
            acl.destroy_tensor_desc(d)

        def fails(*arguments):
            def call():
                try:
                    arguments[0](*arguments[1:])
                except (TypeError, ValueError, OverflowError):
                    pass
            return call

        for call in (desc, lambda: acl.rt.get_mem_info(0), lambda: acl.rt.pointer_get_attributes(address),
                     lambda: acl.get_cann_attribute_list(),
                     lambda: acl.rt.mem_get_allocation_granularity(prop, 0), lambda: acl.sys_get_cann_version(0),
                     lambda: acl.op.set_attr_list_string(attr, "n", ["a", "bc"]),
                     lambda: acl.op.set_attr_list_list_int(attr, "n", [[1], [2, 3]]),
                     lambda: acl.util.ptr_to_bytes(acl.util.bytes_to_ptr(b"abc"), 3),
                     lambda: (acl.rt.set_device(999), acl.get_recent_err_msg()),
                     fails(acl.rt.malloc, "x", 0), fails(acl.rt.malloc, 1), fails(acl.rt.malloc, 1 << 70, 0),
                     fails(acl.create_tensor_desc, 0, [1, 2, "x"], 2), fails(acl.rt.malloc_physical, 1, {}, 0),
                     fails(acl.rt.malloc_physical, 1, {**prop, "x": 1}, 0),
                     fails(acl.op.set_attr_list_list_int, attr, "n", [[1], ["x"]]),
                     fails(acl.op.execute_v2, "A", [1], [1, 2], [], [], 0, 0),
                     fails(acl.util.ptr_to_numpy, 0, (1,), 11), fails(acl.util.numpy_to_ptr, 1)):
            self.assertLess(self.grows(call), 150, call)  # an object of each call would be 300
        acl.op.destroy_attr(attr)


if __name__ == "__main__":
    unittest.main()
