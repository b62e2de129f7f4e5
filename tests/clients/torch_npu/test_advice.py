# SPDX-License-Identifier: Apache-2.0
"""The advice of `cannon advise` is right: plans of examples/fit are applied, need the memory that was predicted, and
are in the predicted order of time."""
import os
import subprocess
import sys
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../../examples/fit/check.py')


class Advice(unittest.TestCase):
    def test_plans_need_the_predicted_memory_and_are_in_order_of_time(self):
        done = subprocess.run([sys.executable, CHECK, 'gpt'], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreaterEqual(done.stdout.count(' recompute '), 3)
        self.assertNotIn('WRONG', done.stdout)


if __name__ == '__main__':
    unittest.main()
