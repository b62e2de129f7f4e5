# SPDX-License-Identifier: Apache-2.0
"""What the tests of pyACL share: the module of the installation CANNON_PREFIX, initialised, and device 0.

    CANNON_PREFIX=/path python3 -m unittest discover -s tests/python/pyacl
"""
import faulthandler
import os
import pathlib
import subprocess
import sys
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
SITE = PREFIX / "python/site-packages"
REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SITE))
faulthandler.enable()

import acl  # noqa: E402

assert acl.init() == 0


class DeviceTest(unittest.TestCase):
    """Holds device 0 while a test runs, and checks that the test has given back its device memory."""

    def setUp(self):
        self.assertEqual(acl.rt.set_device(0), 0)

    def tearDown(self):
        self.assertEqual(acl.rt.synchronize_device(), 0)
        self.assertEqual(acl.rt.reset_device(0), 0)

    def ok(self, result):
        """The values of a call that must succeed: without the error code, and without a tuple if there is one."""
        result = result if isinstance(result, tuple) else (result,)
        self.assertEqual(result[-1], 0, acl.get_recent_err_msg())
        values = result[:-1]
        return values[0] if len(values) == 1 else values

    def stream(self):
        stream = self.ok(acl.rt.create_stream())
        self.addCleanup(lambda: acl.rt.destroy_stream(stream))
        return stream

    def memory(self, size):
        address = self.ok(acl.rt.malloc(size, acl.ACL_MEM_MALLOC_HUGE_FIRST))
        self.addCleanup(lambda: acl.rt.free(address))
        return address

    def doCleanups(self):  # they free memory of the device, which tearDown has given back
        acl.rt.set_device(0)
        try:
            return super().doCleanups()
        finally:
            acl.rt.reset_device(0)

    def write(self, address, data):
        self.ok(acl.rt.memcpy(address, len(data), acl.util.bytes_to_ptr(data), len(data),
                              acl.ACL_MEMCPY_HOST_TO_DEVICE))

    def read(self, address, size):
        data = bytearray(size)
        self.ok(acl.rt.memcpy(acl.util.bytes_to_ptr(data), size, address, size, acl.ACL_MEMCPY_DEVICE_TO_HOST))
        return bytes(data)


def run_script(text, **env):
    """Runs a script with the module on its path, in a process of its own."""
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", text], capture_output=True, text=True,
                          timeout=60, env=dict(os.environ, PYTHONPATH=str(SITE), **env))
