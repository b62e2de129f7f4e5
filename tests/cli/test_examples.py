# SPDX-License-Identifier: Apache-2.0
"""Tests of the programs in examples/memory, examples/allreduce and examples/onnx, built as a user builds them, with an
installed prefix.

    CANNON_PREFIX=/path python3 tests/cli/test_examples.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
BUILD_ENV = dict(os.environ, ASCEND_HOME_PATH=str(PREFIX))
PYTHON = f"-DPython3_EXECUTABLE={sys.executable}"  # which has NumPy


class Example(unittest.TestCase):
    """Builds a folder of examples; subclasses name it, and have the tests."""
    sources = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for command in (["cmake", "-S", cls.sources, "-B", cls.folder.name, "-DCMAKE_C_FLAGS=-Werror", PYTHON],
                        ["cmake", "--build", cls.folder.name]):
            done = subprocess.run(command, env=BUILD_ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode:
                raise AssertionError(done.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, name, *arguments, **env):
        """Runs the program under `cannon run`, whose summary lists leaks, and returns its output."""
        done = subprocess.run([PREFIX / "bin/cannon", "run", f"{self.folder.name}/{name}", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(BUILD_ENV, **env))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("leaks: none", done.stderr)
        return done.stdout


class Memory(Example):
    sources = EXAMPLES / "memory"

    def test_every_program_is_here(self):
        for source in self.sources.glob("*.c"):
            self.assertTrue(hasattr(self, "test_" + source.stem), source)

    def test_carve(self):
        out = self.run_program("carve")
        self.assertIn("    1093     4372     4416      50", out)

    def test_pooled(self):
        out = self.run_program("pooled")
        self.assertRegex(out, "1000 blocks of 1 MiB, never more than [34] MiB in use")
        self.assertIn("in use now: 0 MiB\nheld after trimming: 0 MiB\n", out)

    def test_expandable(self):
        out = self.run_program("expandable")
        self.assertIn("reserved 1024 MiB of addresses, memory used: 0 MiB", out)
        self.assertIn("  32 MiB in  16 pieces", out)
        self.assertIn("   4 MiB in   2 pieces after shrinking, 4 MiB in use", out)

    def test_zero_copy(self):
        self.assertEqual([line.split()[0] for line in self.run_program("zero_copy").splitlines()],
                         ["pageable", "pinned", "registered"])

    def test_streams(self):
        self.assertIn("60 batches through 3 buffers, summed by 4 streams: 1830", self.run_program("streams"))

    def test_streams_in_any_order_that_events_allow(self):
        for seed in range(1, 6):
            self.assertIn(": 1830", self.run_program("streams", CANNON_SCHEDULE_SEED=str(seed)))

    def test_attention(self):
        peaks = [float(line.split()[2]) for line in self.run_program("attention").splitlines()[1:]]
        self.assertEqual(peaks[:2], [272, 48])
        self.assertLess(peaks[2], 20)

    def test_debugger(self):
        done = subprocess.run([PREFIX / "bin/cannon", "run", "--leaks=report=/dev/stderr",
                               f"{self.folder.name}/debugger"], capture_output=True, text=True, env=BUILD_ENV)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("peak 896 KiB, live 128 KiB, 1 wrong frees\n", done.stdout)
        self.assertRegex(done.stdout, r"line \d+: 128 KiB leaked")
        self.assertIn("128 KiB", done.stderr)

    def test_devices(self):
        self.assertIn("1 devices: 2", self.run_program("devices"))
        out = self.run_program("devices", CANNON_DEVICES="4")
        self.assertIn("device 3: ", out)
        self.assertIn("4 devices: 20", out)


class AllReduce(Example):
    sources = EXAMPLES / "allreduce"

    def test_devices_of_one_process(self):
        for n in (1, 2, 4):
            self.assertIn(f"{n} devices of one process: 8 steps of 4 buckets, 0 wrong weights",
                          self.run_program("allreduce", CANNON_DEVICES=str(n)))

    def test_processes(self):
        for n in (1, 2, 4):
            self.assertIn(f"{n} processes: 8 steps of 4 buckets, 0 wrong weights",
                          self.run_program("allreduce", str(n), CANNON_DEVICES=str(n)))

    def test_devices_in_any_order_that_events_allow(self):
        for seed in range(1, 4):
            self.assertIn("0 wrong weights", self.run_program("allreduce", CANNON_DEVICES="2",
                                                              CANNON_SCHEDULE_SEED=str(seed)))


class Onnx(Example):
    sources = EXAMPLES / "onnx"

    def test_digits_are_read(self):
        out = self.run_program("classify", *(f"{self.folder.name}/{f}" for f in
                                             ("digits.om", "images.bin", "labels.bin")))
        self.assertRegex(out, r"read right: 9[6-9]\.\d+ % of 360 held-out digits")


if __name__ == "__main__":
    unittest.main()
