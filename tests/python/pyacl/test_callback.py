# SPDX-License-Identifier: Apache-2.0
"""Python functions that the library calls: reports, host functions, and what happens to them at the end."""
import gc
import queue
import sys
import threading
import unittest
import weakref

from base import DeviceTest, acl, run_script


class Reports(DeviceTest):
    def setUp(self):
        super().setUp()
        self.stop = threading.Event()
        self.context = self.ok(acl.rt.get_context())

    def serve(self, arguments):
        """The thread of a sample: it serves callbacks until it is told to stop."""
        context, timeout = arguments
        acl.rt.set_context(context)
        while not self.stop.is_set():
            acl.rt.process_report(timeout)

    def start(self, stream):
        thread = self.ok(acl.util.start_thread(self.serve, [self.context, 50]))
        self.ok(acl.rt.subscribe_report(thread, stream))
        return thread

    def finish(self, thread, stream):
        self.ok(acl.rt.unsubscribe_report(thread, stream))
        self.stop.set()
        self.ok(acl.util.stop_thread(thread))

    def test_callbacks_run_in_order_on_the_subscribed_thread(self):
        stream, seen = self.stream(), []
        thread = self.start(stream)

        def callback(data):
            seen.append((threading.get_ident(), data))

        for i in range(20):
            self.ok(acl.rt.launch_callback(callback, [i, "x"], i % 2, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        while len(seen) < 20:  # those that do not block the stream may come later
            pass
        self.assertEqual(seen, [(thread, [i, "x"]) for i in range(20)])
        self.finish(thread, stream)

    def test_the_callback_gets_the_list_itself(self):
        stream, results = self.stream(), queue.Queue()
        thread = self.start(stream)
        data = ["a"]
        self.ok(acl.rt.launch_callback(results.put, data, 1, stream))
        self.assertIs(results.get(), data)
        self.finish(thread, stream)

    def test_references_live_until_the_callback_has_run(self):
        class Thing:
            def __call__(self, data):
                pass

        stream = self.stream()
        thread = self.start(stream)
        gate, function, argument = threading.Event(), Thing(), Thing()
        refs = [weakref.ref(function), weakref.ref(argument)]
        self.ok(acl.rt.launch_callback(lambda data: gate.wait(), [], 1, stream))
        self.ok(acl.rt.launch_callback(function, [argument], 1, stream))
        del function, argument
        gc.collect()
        self.assertTrue(all(r() for r in refs))
        gate.set()
        self.ok(acl.rt.synchronize_stream(stream))
        self.finish(thread, stream)
        gc.collect()
        self.assertFalse(any(r() for r in refs))

    def test_a_refused_callback_is_let_go(self):
        stream, function, data = self.stream(), lambda x: None, []
        before = sys.getrefcount(function), sys.getrefcount(data)
        for _ in range(100):
            self.assertNotEqual(acl.rt.launch_callback(function, data, 1, stream), 0)  # no thread is subscribed
        self.assertEqual((sys.getrefcount(function), sys.getrefcount(data)), before)

    def test_no_references_are_left(self):
        stream, data = self.stream(), []
        thread = self.start(stream)

        def function(x):
            pass

        before = sys.getrefcount(function), sys.getrefcount(data)
        for _ in range(100):
            self.ok(acl.rt.launch_callback(function, data, 1, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        self.finish(thread, stream)
        self.assertEqual((sys.getrefcount(function), sys.getrefcount(data)), before)

    def test_an_exception_is_reported_and_the_stream_goes_on(self):
        stream, seen = self.stream(), []
        thread = self.start(stream)
        caught, hook = [], sys.unraisablehook
        sys.unraisablehook = lambda u: caught.append((u.exc_type, str(u.exc_value)))
        self.addCleanup(lambda: setattr(sys, "unraisablehook", hook))

        def broken(data):
            raise KeyError("in a callback")

        self.ok(acl.rt.launch_callback(broken, [], 1, stream))
        self.ok(acl.rt.launch_callback(seen.append, [1], 1, stream))
        self.ok(acl.rt.synchronize_stream(stream))
        self.finish(thread, stream)
        self.assertEqual(caught, [(KeyError, "'in a callback'")])
        self.assertEqual(seen, [[1]])

    def test_bad_arguments(self):
        for arguments, message in (((1, [], 1, 0), "fn is int, expected a callable"),
                                   ((print, 3, 1, 0), "user_data_list is int, expected a list"),
                                   ((print, [], "1", 0), "block_type is str, expected int")):
            with self.assertRaisesRegex(TypeError, rf"acl.rt.launch_callback\(\): {message}"):
                acl.rt.launch_callback(*arguments)


class HostFunctions(DeviceTest):
    def test_order(self):
        """A function runs between the tasks before and behind it."""
        stream, address, seen = self.stream(), self.memory(8), []
        for i in range(10):
            self.ok(acl.rt.memset_async(address, 8, i, 8, stream))
            self.ok(acl.rt.launch_host_func(stream, seen.append, i))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(seen, list(range(10)))

    def test_four_threads(self):
        counts = [0] * 4

        def count(k):
            counts[k] += 1

        def work(k):
            acl.rt.set_device(0)
            stream = self.ok(acl.rt.create_stream())
            for _ in range(100):
                self.ok(acl.rt.launch_host_func(stream, count, k))
            self.ok(acl.rt.synchronize_stream(stream))
            self.ok(acl.rt.destroy_stream(stream))
            acl.rt.reset_device(0)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(counts, [100] * 4)

    def test_references(self):
        stream, argument = self.stream(), []
        before = sys.getrefcount(argument)
        for _ in range(50):
            self.ok(acl.rt.launch_host_func(stream, id, argument))
        self.ok(acl.rt.synchronize_stream(stream))
        self.assertEqual(sys.getrefcount(argument), before)
        self.assertNotEqual(acl.rt.launch_host_func(12345, id, argument), 0)
        self.assertEqual(sys.getrefcount(argument), before)


class Util(unittest.TestCase):
    def test_threads(self):
        seen = queue.Queue()
        thread, ret = acl.util.start_thread(lambda a: seen.put((threading.get_ident(), a)), [1, 2])
        self.assertEqual(ret, 0)
        self.assertEqual(seen.get(), (thread, [1, 2]))
        self.assertEqual(acl.util.stop_thread(thread), 0)
        self.assertEqual(acl.util.stop_thread(thread), acl.ACL_ERROR_INVALID_PARAM)
        with self.assertRaisesRegex(TypeError, "thr_func is int, expected a callable"):
            acl.util.start_thread(1, [])


START = """
import sys, threading, time, acl
acl.init(); acl.rt.set_device(0)
stream, _ = acl.rt.create_stream()
word, _ = acl.rt.malloc(8, 0)
acl.rt.memset(word, 8, 0, 8)
def function(data): print("called", data, flush=True)
"""


class Exit(unittest.TestCase):
    """The interpreter ends while callbacks are pending, running or waited for: no crash, and it does end."""

    def check(self, text, out):
        done = run_script(START + text)
        self.assertEqual((done.returncode, done.stdout), (0, out), done.stderr)
        self.assertNotIn("Fatal", done.stderr)

    def test_pending(self):
        self.check("""
acl.rt.value_wait(word, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream)
acl.rt.launch_host_func(stream, function, 1)
print("end")
""", "end\n")

    def test_pending_and_the_device_is_reset_by_the_program(self):
        self.check("""
acl.rt.value_wait(word, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream)
acl.rt.launch_host_func(stream, function, 1)
acl.rt.destroy_stream_force(stream); acl.rt.reset_device_force(0); acl.finalize()
print("end")
""", "end\n")

    def test_released_at_the_end(self):
        """The stream goes on after the interpreter has ended: its function must not be called."""
        self.check("""
other, _ = acl.rt.create_stream()
acl.rt.value_wait(word, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream)
acl.rt.launch_host_func(stream, function, 1)
class Last:  # dies when the module's names are cleared, behind atexit's functions
    def __init__(self): self.write = acl.rt.value_write
    def __del__(self): self.write(word, 1, 0, other)
last = Last()
print("end")
""", "end\n")

    def test_running(self):
        """A function that runs when the program's end is reached comes to its own end."""
        self.check("""
entered = threading.Event()
def slow(data): entered.set(); time.sleep(0.1); print("done", flush=True)
acl.rt.launch_host_func(stream, slow, 1)
entered.wait()
print("end", flush=True)
""", "end\ndone\n")

    def test_threads_in_process_report(self):
        self.check("""
def serve(a):
    acl.rt.set_device(0)
    while True: acl.rt.process_report(a[0])
thread, _ = acl.util.start_thread(serve, [-1])
acl.rt.subscribe_report(thread, stream)
called = threading.Event()
acl.rt.launch_callback(lambda data: called.set(), [], 1, stream)
called.wait()
acl.rt.value_wait(word, 1, acl.ACL_STREAM_WAIT_VALUE_EQ, stream)
acl.rt.launch_callback(function, [], 1, stream)
print("end")
""", "end\n")


if __name__ == "__main__":
    unittest.main()
