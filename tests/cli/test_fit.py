# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon memory.

    CANNON_PREFIX=/path python3 tests/cli/test_fit.py
"""
import json
import pathlib
import unittest

from test_cli import CANNON, MIB, PREFIX, CliTest, execute

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/digits"


class Memory(CliTest):
    def test_a_program_is_run_recorded_and_shown(self):
        report = self.folder / "memory.json"
        done = execute(CANNON, "memory", "--json", report, "--", self.program, "three")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("Peak: 1.00 MiB", done.stdout)
        said = json.loads(report.read_text())
        self.assertEqual(said["written_by"], "cannon memory")
        self.assertGreaterEqual(said["peak"]["held_bytes"], MIB)
        self.assertEqual(sum(said["peak"]["classes"].values()), said["peak"]["held_bytes"])

    def test_a_program_in_c_has_classes_and_callers(self):
        """examples/digits allocates in new_tensor only, which vector, matrix and scalar call; optimised, the compiler
        has joined some of these."""
        program, report = self.folder / "digits", self.folder / "digits.json"
        done = execute("cc", "-g", "-O2", f'-DDIGITS_DATA="{DIGITS}/data/digits.csv.gz"', f"-I{PREFIX}/include",
                       *DIGITS.glob("*.c"), "-o", program, f"-L{PREFIX}/lib64", "-lascendcl", "-lnnopbase", "-lopapi",
                       "-lz", "-lm")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = execute(CANNON, "memory", "--top", "100", "--json", report, "--", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        classes = json.loads(report.read_text())["peak"]["classes"]
        self.assertLessEqual({"weights", "state", "activations"}, set(classes))
        self.assertLess(classes["other"], 0.3 * sum(classes.values()))  # what is never used
        lines = done.stdout.split("By line of the program")[1].split("\n\n")[0]
        for name in ("new_weights", "new_bias", "model_init", "pass_init"):
            self.assertIn(f"({name})", lines)
        self.assertNotIn("device.c", lines)

    def test_a_page_replaces_pages_only(self):
        recording, page, other = (self.folder / name for name in ("step.rec", "memory.html", "other.html"))
        other.write_text("<!DOCTYPE html>\n<title>mine</title>\n")
        self.assertEqual(execute(CANNON, "memory", "--record", recording, "--", self.program).returncode, 0)
        for _ in range(2):
            done = execute(CANNON, "memory", "--html", page, recording)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("<title>cannon memory</title>", page.read_text())
        self.assertEqual(execute(CANNON, "memory", "--html", other, recording).returncode, 2)
        self.assertIn("mine", other.read_text())

    def test_wrong_command_lines_do_nothing(self):
        for wrong in ((), ("a", "b"), ("--by", "size", "a"), ("--top", "0", "a"), ("--dry", "a"), ("--",)):
            done = execute(CANNON, "memory", *wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertIn("cannon memory", done.stderr)
        self.assertEqual(execute(CANNON, "memory", "/nowhere/step.rec").returncode, 1)


if __name__ == "__main__":
    unittest.main()
