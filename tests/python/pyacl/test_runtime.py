# SPDX-License-Identifier: Apache-2.0
"""acl and acl.rt: what each group of functions returns, and in which order."""
import os
import struct
import threading
import unittest

from base import DeviceTest, acl, run_script


class System(unittest.TestCase):
    def test_versions(self):
        major, minor, patch, ret = acl.get_version()
        self.assertEqual((major, ret), (acl.ACL_MAJOR_VERSION, 0))
        self.assertTrue(acl.get_soc_name().startswith("Ascend"))
        attributes, n, ret = acl.get_cann_attribute_list()
        self.assertEqual((len(attributes), ret), (n, 0))
        for attribute in attributes:
            value, ret = acl.get_cann_attribute(attribute)
            self.assertTrue(ret == 0 and value in (0, 1))
        version, ret = acl.sys_get_cann_version(acl.ACL_PKG_NAME_CANN)
        self.assertEqual(ret, 0)
        self.assertTrue(version["version"].startswith(version["majorVersion"]))
        self.assertNotIn("reserved", version)

    def test_init_and_finalize(self):
        done = run_script("""
import acl
print(acl.init(), acl.init("") != 0, acl.finalize(), acl.finalize() != 0)
print(acl.init(""), acl.finalize_reference(), acl.init(None), acl.finalize())
""")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "0 True 0 True\n0 (0, 0) 0 0\n")

    def test_init_reads_the_file(self):
        ret = acl.init("/nonexistent/acl.json")
        self.assertNotEqual(ret, 0)
        with self.assertRaisesRegex(TypeError, r"acl.init\(\): config_path is int, expected str"):
            acl.init(1)

    def test_float16(self):
        self.assertEqual(acl.float_to_float16(1.5), 0x3e00)
        self.assertEqual(acl.float16_to_float(0x3e00), 1.5)

    def test_messages(self):
        self.assertNotEqual(acl.rt.set_device(1000), 0)
        self.assertIn("1000", acl.get_recent_err_msg())
        self.assertIsNone(acl.get_recent_err_msg())  # asked for once more

    def test_log(self):
        self.assertIsNone(acl.app_log(acl.ACL_ERROR, "a message with %s and %n"))


class Device(DeviceTest):
    def test_device(self):
        self.assertEqual(acl.rt.get_device(), (0, 0))
        count, ret = acl.rt.get_device_count()
        self.assertGreaterEqual(count, 1)
        self.assertEqual(acl.rt.get_run_mode(), (acl.ACL_HOST, 0))
        self.assertEqual(acl.rt.query_device_status(0)[1], 0)
        least, greatest, ret = acl.rt.device_get_stream_priority_range()
        self.assertEqual(ret, 0)
        self.assertGreaterEqual(least, greatest)
        self.assertEqual(acl.rt.device_get_bare_tgid(), (os.getpid(), 0))
        rate = self.ok(acl.rt.get_device_utilization_rate(0))
        self.assertEqual(set(rate), {"cubeUtilization", "vectorUtilization", "aicpuUtilization", "memoryUtilization",
                                     "utilizationExtend"})
        self.assertEqual(rate["memoryUtilization"], -1)
        self.ok(acl.rt.synchronize_device_with_timeout(1000))
        free, total, ret = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
        self.assertTrue(ret == 0 and 0 < free <= total)
        self.assertNotEqual(acl.rt.set_device(-1), 0)

    def test_results_in_the_order_of_the_page(self):
        """The page has `active` first, C has it last."""
        self.assertEqual(acl.rt.get_primary_ctx_state(0), (1, 0, 0))

    def test_context(self):
        default = self.ok(acl.rt.get_context())
        context = self.ok(acl.rt.create_context(0))
        self.assertEqual(acl.rt.get_context(), (context, 0))
        self.ok(acl.rt.set_context(default))
        self.ok(acl.rt.ctx_set_sys_param_opt(acl.ACL_OPT_DETERMINISTIC, 1))
        self.assertEqual(acl.rt.ctx_get_sys_param_opt(acl.ACL_OPT_DETERMINISTIC), (1, 0))
        self.assertEqual(acl.rt.ctx_get_current_default_stream()[1], 0)
        self.ok(acl.rt.destroy_context(context))
        self.assertNotEqual(acl.rt.destroy_context(context), 0)

    def test_stream(self):
        stream = self.ok(acl.rt.create_stream_with_config(0, acl.ACL_STREAM_FAST_LAUNCH))
        self.assertEqual(acl.rt.stream_query(stream), (acl.ACL_STREAM_STATUS_COMPLETE, 0))
        self.ok(acl.rt.synchronize_stream(stream))
        self.ok(acl.rt.synchronize_stream_with_timeout(stream, 1000))
        self.assertEqual(acl.rt.stream_get_priority(stream), (0, 0))
        self.assertEqual(acl.rt.stream_get_flags(stream), (acl.ACL_STREAM_FAST_LAUNCH, 0))
        self.ok(acl.rt.set_stream_failure_mode(stream, acl.ACL_STOP_ON_FAILURE))
        self.ok(acl.rt.destroy_stream(stream))
        self.assertNotEqual(acl.rt.synchronize_stream(stream), 0)

    def test_event(self):
        stream = self.stream()
        start, end = (self.ok(acl.rt.create_event_with_flag(acl.ACL_EVENT_TIME_LINE | acl.ACL_EVENT_SYNC))
                      for _ in range(2))
        self.assertEqual(acl.rt.query_event_status(start), (acl.ACL_EVENT_RECORDED_STATUS_NOT_READY, 0))
        self.ok(acl.rt.record_event(start, stream))
        self.ok(acl.rt.record_event(end, stream))
        self.ok(acl.rt.synchronize_event(end))
        self.assertEqual(acl.rt.query_event(end), (acl.ACL_EVENT_STATUS_COMPLETE, 0))
        ms, ret = acl.rt.event_elapsed_time(start, end)
        self.assertIsInstance(ms, float)
        self.assertTrue(ret == 0 and ms >= 0)
        self.assertGreater(self.ok(acl.rt.event_get_timestamp(end)), 0)
        self.ok(acl.rt.stream_wait_event(stream, start))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(acl.rt.query_event_wait_status(start), (acl.ACL_EVENT_WAIT_STATUS_COMPLETE, 0))
        self.ok(acl.rt.reset_event(start, stream))
        for event in (start, end):
            self.ok(acl.rt.destroy_event(event))
        event = self.ok(acl.rt.create_event())
        self.ok(acl.rt.destroy_event(event))

    def test_notify(self):
        stream, other = self.stream(), self.stream()
        notify = self.ok(acl.rt.create_notify(0))
        self.assertEqual(acl.rt.get_notify_id(notify)[1], 0)
        self.ok(acl.rt.wait_and_reset_notify(notify, other, 0))
        self.ok(acl.rt.record_notify(notify, stream))
        self.ok(acl.rt.synchronize_stream(other))
        self.ok(acl.rt.notify_batch_reset([notify]))
        key = self.ok(acl.rt.notify_get_export_key(notify, 65, 0))
        self.assertTrue(isinstance(key, str) and key)
        self.ok(acl.rt.destroy_notify(notify))

    def test_resource_limits(self):
        before = self.ok(acl.rt.get_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE))
        self.ok(acl.rt.set_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE, 1))
        self.assertEqual(acl.rt.get_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE), (1, 0))
        self.ok(acl.rt.reset_device_res_limit(0))
        self.assertEqual(acl.rt.get_device_res_limit(0, acl.ACL_RT_DEV_RES_CUBE_CORE), (before, 0))


class Memory(DeviceTest):
    def test_copies(self):
        data = bytes(range(256))
        device, copy = self.memory(256), self.memory(256)
        self.write(device, data)
        self.ok(acl.rt.memcpy(copy, 256, device, 256, acl.ACL_MEMCPY_DEVICE_TO_DEVICE))
        self.assertEqual(self.read(copy, 256), data)
        self.ok(acl.rt.memset(copy, 256, 7, 16))
        self.assertEqual(self.read(copy, 32), bytes([7] * 16) + data[16:32])
        stream = self.stream()
        self.ok(acl.rt.memset_async(copy, 256, 9, 8, stream))
        self.ok(acl.rt.memcpy_async(copy + 8, 248, device, 8, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(self.read(copy, 16), bytes([9] * 8) + data[:8])
        self.ok(acl.rt.memcpy2d(copy, 16, acl.util.bytes_to_ptr(data), 32, 8, 4, acl.ACL_MEMCPY_HOST_TO_DEVICE))
        self.assertEqual(self.read(copy + 16, 8), data[32:40])
        self.assertNotEqual(acl.rt.memcpy(copy, 8, device, 16, acl.ACL_MEMCPY_DEVICE_TO_DEVICE), 0)

    def test_batches(self):
        device = self.memory(64)
        first, second = bytearray(b"first..."), bytearray(b"second..")
        at = {"dstLoc": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE},
              "srcLoc": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_HOST}}
        fail_index, ret = acl.rt.memcpy_batch([device, device + 8], [8, 8],
                                              [acl.util.bytes_to_ptr(first), acl.util.bytes_to_ptr(second)], [8, 8],
                                              [at], [0])
        self.assertEqual(ret, 0, acl.get_recent_err_msg())
        self.assertEqual(self.read(device, 16), bytes(first + second))

    def test_host_memory(self):
        host = self.ok(acl.rt.malloc_host(64))
        device = self.memory(64)
        self.write(device, b"x" * 64)
        self.ok(acl.rt.memcpy(host, 64, device, 64, acl.ACL_MEMCPY_DEVICE_TO_HOST))
        self.assertEqual(acl.util.ptr_to_bytes(host, 64), b"x" * 64)
        attributes = self.ok(acl.rt.pointer_get_attributes(device))
        self.assertEqual(attributes["location"], {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE})
        self.assertEqual(acl.rt.pointer_get_attributes(host)[0]["location"]["type"], acl.ACL_MEM_LOCATION_TYPE_HOST)
        self.ok(acl.rt.free_host(host))
        base, size = self.ok(acl.rt.mem_get_address_range(device + 5))
        self.assertEqual(base, device)
        self.assertGreaterEqual(size, 64)

    def test_memory_of_media(self):
        address = self.ok(acl.media.dvpp_malloc(100))
        self.assertEqual(address % 128, 0)
        self.write(address, b"media")
        self.assertEqual(self.read(address, 5), b"media")
        self.ok(acl.media.dvpp_free(address))

    def test_virtual_memory(self):
        prop = {"handleType": acl.ACL_MEM_HANDLE_TYPE_NONE, "allocationType": acl.ACL_MEM_ALLOCATION_TYPE_PINNED,
                "memAttr": acl.ACL_HBM_MEM_HUGE, "reserve": 0,
                "location": {"id": 0, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}}
        size = self.ok(acl.rt.mem_get_allocation_granularity(prop, acl.ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM))
        address = self.ok(acl.rt.reserve_mem_address(size, 0, 0, 0))
        handle = self.ok(acl.rt.malloc_physical(size, prop, 0))
        self.ok(acl.rt.map_mem(address, size, 0, handle, 0))
        self.write(address, b"mapped")
        self.assertEqual(self.read(address, 6), b"mapped")
        found = self.ok(acl.rt.mem_get_allocation_properties_from_handle(handle))
        self.assertEqual((found["memAttr"], found["location"]), (prop["memAttr"], prop["location"]))
        self.ok(acl.rt.unmap_mem(address))
        self.ok(acl.rt.free_physical(handle))
        self.ok(acl.rt.release_mem_address(address))

    def test_lists_of_structs(self):
        faults, ret = acl.rt.get_mem_uce_info(0, 4)
        self.assertEqual((faults, ret), ([], 0))
        usage, ret = acl.rt.get_mem_usage_info(0, 8)
        self.assertEqual(ret, 0, acl.get_recent_err_msg())
        for entry in usage:
            self.assertEqual(set(entry), {"name", "curMemSize", "memPeakSize"})

    def test_keys_of_shared_memory(self):
        device = self.memory(1 << 21)
        key = self.ok(acl.rt.ipc_mem_get_export_key(device, 1 << 21, 65, 0))
        self.assertTrue(isinstance(key, str) and key)
        self.ok(acl.rt.ipc_mem_close(key))

    def test_a_descriptor_comes_back(self):
        size = self.ok(acl.rt.get_memcpy_desc_size(acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE))
        desc, a, b = self.memory(size), self.memory(64), self.memory(64)
        self.write(a, b"described" + bytes(55))
        again, ret = acl.rt.set_memcpy_desc(desc, acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, a, b, 64, 0)
        self.assertEqual((again, ret), (desc, 0))
        stream = self.stream()
        self.ok(acl.rt.memcpy_async_with_desc(desc, acl.ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(self.read(b, 9), b"described")


class Graphs(DeviceTest):
    def test_capture(self):
        stream, a, b = self.stream(), self.memory(64), self.memory(64)
        self.write(a, b"graph" + bytes(59))
        self.ok(acl.mdl.ri_capture_begin(stream, acl.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL))
        self.ok(acl.rt.memcpy_async(b, 64, a, 64, acl.ACL_MEMCPY_DEVICE_TO_DEVICE, stream))
        graph = self.ok(acl.mdl.ri_capture_end(stream))
        self.assertNotEqual(graph, 0)
        self.ok(acl.mdl.ri_execute_async(graph, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(self.read(b, 5), b"graph")
        self.ok(acl.mdl.ri_destroy(graph))
        old, ret = acl.mdl.ri_capture_thread_exchange_mode(acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        self.assertEqual(ret, 0)
        self.assertEqual(acl.mdl.ri_capture_thread_exchange_mode(old), (acl.ACL_MODEL_RI_CAPTURE_MODE_RELAXED, 0))


class Threads(DeviceTest):
    def blocked(self, wait):
        """While a thread is in `wait`, whose stream waits for a value, this one goes on, and writes the value."""
        stream, other, word = self.stream(), self.stream(), self.memory(8)
        self.write(word, bytes(8))
        self.ok(acl.rt.value_wait(word, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream))
        results, entered = [], threading.Event()

        def run():
            acl.rt.set_device(0)
            entered.set()
            results.append(wait(stream))

        thread = threading.Thread(target=run)
        thread.start()
        entered.wait()
        for _ in range(1000):  # Python runs here, and calls of the library return
            self.ok(acl.rt.stream_query(stream))
        self.assertEqual(results, [])
        self.ok(acl.rt.value_write(word, 1, 0, other))
        thread.join()
        self.assertEqual(results, [0])

    def test_synchronize_stream_lets_others_run(self):
        self.blocked(acl.rt.synchronize_stream)

    def test_synchronize_device_lets_others_run(self):
        self.blocked(lambda stream: acl.rt.synchronize_device())

    def test_synchronize_event_lets_others_run(self):
        event = self.ok(acl.rt.create_event_with_flag(acl.ACL_EVENT_SYNC))

        def wait(stream):
            acl.rt.record_event(event, stream)
            return acl.rt.synchronize_event(event)

        self.blocked(wait)
        self.ok(acl.rt.destroy_event(event))

    def test_four_threads(self):
        """Each thread copies through its own stream and memory; all see only their own bytes."""
        wrong = []

        def work(k):
            try:
                self.ok(acl.rt.set_device(0))
                stream = self.ok(acl.rt.create_stream())
                address = self.ok(acl.rt.malloc(4096, acl.ACL_MEM_MALLOC_HUGE_FIRST))
                for i in range(200):
                    data = struct.pack("<ii", k, i) * 512
                    into = bytearray(4096)
                    self.ok(acl.rt.memcpy_async(address, 4096, acl.util.bytes_to_ptr(data), 4096,
                                                acl.ACL_MEMCPY_HOST_TO_DEVICE, stream))
                    self.ok(acl.rt.memcpy_async(acl.util.bytes_to_ptr(into), 4096, address, 4096,
                                                acl.ACL_MEMCPY_DEVICE_TO_HOST, stream))
                    self.ok(acl.rt.synchronize_stream(stream))
                    if into != data:
                        wrong.append((k, i))
                self.ok(acl.rt.free(address))
                self.ok(acl.rt.destroy_stream(stream))
                self.ok(acl.rt.reset_device(0))
            except BaseException as e:
                wrong.append(e)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
