# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon advise: its command line and its policy file. The plans are tested by tests/unit/advise_*.c.

    CANNON_PREFIX=/path python3 tests/cli/test_advise.py
"""
import unittest

from test_cli import CANNON, CliTest, execute


class Advise(CliTest):
    def refused(self, *arguments, says, code=2):
        done = execute(CANNON, "advise", *map(str, arguments))
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_wrong_command_lines_are_refused(self):
        self.refused(says="expected a recording")
        self.refused("--dry", "x.rec", says="expected a recording")
        self.refused("a", "b", "c", says="expected a recording")
        self.refused("a", "b", says="--batch is 'missing'")
        self.refused("--batch", "8,x", "a", "b", says="--batch is '8,x'")
        self.refused("--fit", "much", "a", says="--fit is 'much'")
        self.refused("--devices", "0", "a", says="--devices is '0'")
        self.refused("--time", "soon", "a", says="--time is 'soon', expected recorded or model")
        self.refused("--top", "0", "a", says="--top is '0'")
        self.refused(self.folder / "none.rec", says="none.rec: No such file", code=1)
        self.refused(self.folder / "none.rec", "--fit", "64G", says="none.rec: No such file", code=1)

    def test_the_default_policy_is_printed_and_read(self):
        done = execute(CANNON, "advise", "--policy-default")
        self.assertEqual(done.returncode, 0)
        self.assertIn("when memory > 0.8 advise recompute halve-batch", done.stdout)
        policy = self.folder / "policy.txt"
        policy.write_text(done.stdout)
        self.refused("--policy", policy, self.folder / "none.rec", says="No such file", code=1)
        policy.write_text(done.stdout + "when memory > 8 advise recompute\n")
        line = len(done.stdout.splitlines()) + 1
        self.refused("--policy", policy, "x.rec", says=f"line {line}: a limit is '8', expected a number from 0 to 1")

    def test_a_page_replaces_pages_only(self):
        recording, page, other = (self.folder / name for name in ("step.rec", "plans.html", "other.html"))
        other.write_text("<!DOCTYPE html>\n<title>mine</title>\n")
        done = execute(CANNON, "memory", "--record", recording, "--", self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        for _ in range(2):
            done = execute(CANNON, "advise", "--html", page, recording)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<title>cannon advise</title>", page.read_text())
        self.refused("--html", other, recording, says="other.html: it is there already")
        self.assertIn("mine", other.read_text())

    def test_a_file_that_is_no_recording_is_refused(self):
        noise = self.folder / "noise.rec"
        noise.write_bytes(b"\x00\x1b[31m" * 100)
        self.refused(noise, says="noise.rec", code=1)


if __name__ == "__main__":
    unittest.main()
