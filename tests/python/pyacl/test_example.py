# SPDX-License-Identifier: Apache-2.0
"""examples/python/pyacl_operator.py runs, gives right results, and leaves nothing on the device."""
import os
import subprocess
import sys
import unittest

from base import PREFIX, REPOSITORY, SITE


@unittest.skipIf("LD_PRELOAD" in os.environ, "with a sanitizer, which `cannon run` does not pass on")
class Example(unittest.TestCase):
    def test_operator(self):
        done = subprocess.run([PREFIX / "bin/cannon", "run", sys.executable,
                               REPOSITORY / "examples/python/pyacl_operator.py", "--shape", "33,65", "--runs", "2"],
                              capture_output=True, text=True, timeout=60, env=dict(os.environ, PYTHONPATH=str(SITE)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count(" right "), 6, done.stdout)
        self.assertIn("leaks: none", done.stderr)


if __name__ == "__main__":
    unittest.main()
