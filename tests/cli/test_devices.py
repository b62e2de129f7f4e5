# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/gen_devices.py: the project's profiles are accepted, and faulty ones are refused by name.

    python3 tests/cli/test_devices.py
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


class Devices(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for path in (SOURCE / "devices").glob("*.json"):
            (self.folder / path.name).write_text(path.read_text())

    def generate(self):
        out = self.folder / "out.c"
        done = subprocess.run([sys.executable, SOURCE / "scripts/gen_devices.py", self.folder,
                               SOURCE / "src/runtime/dry/profile.h", out], stderr=subprocess.PIPE, text=True)
        self.assertEqual(out.exists(), done.returncode == 0)
        return done.stderr, out.read_text() if out.exists() else ""

    def change(self, name, edit):
        path = self.folder / f"{name}.json"
        profile = json.loads(path.read_text())
        edit(profile)
        path.write_text(json.dumps(profile))

    def test_table(self):
        faults, text = self.generate()
        self.assertEqual(faults, "")
        names = [line.split('"')[1] for line in text.splitlines() if ".soc_name" in line]
        self.assertEqual(names[0], "Ascend910B3")
        self.assertLessEqual({"Ascend910B1", "Ascend910B2", "Ascend910B4", "Ascend910_9391", "Ascend910A",
                              "Ascend310P3"}, set(names))
        first = text.split("},\n")[0]
        self.assertIn(f".hbm_bytes = {64 << 30}ul,", first)  # inherited from another profile
        self.assertIn(".cube_cores = 20u,", first)           # given in the profile itself
        self.assertIn(f".l2_bandwidth_bytes_per_s = {110 * 20 * 1800000000}ul,", first)

    def test_faults(self):
        def entry(key, **members):
            return lambda profile: profile["values"].__setitem__(key, {"value": 1, "source": "x", **members})
        for name, edit, expected in (
                ("class_910b", lambda p: p["values"].pop("hbm_bytes"), "Ascend910B3: hbm_bytes is missing"),
                ("class_910b", lambda p: p["values"].pop("l2_bytes_per_core_cycle"),
                 "Ascend910B3: l2_bandwidth_bytes_per_s is missing"),
                ("class_common", entry("alloc_round_bytes", source=" "),
                 "class_common: alloc_round_bytes has no source"),
                ("class_common", entry("max_streams", value=0), "class_common: max_streams is 0"),
                ("class_common", entry("max_streams", value="4 KB"), "class_common: max_streams is '4 KB'"),
                ("class_common", entry("max_streams", value=-1), "class_common: max_streams is -1"),
                ("class_common", entry("colour"), "class_common: colour is not a field"),
                ("Ascend310P3", entry("ddr_bytes", value=0), "Ascend310P3: neither hbm_bytes nor ddr_bytes"),
                ("Ascend910A", lambda p: p.update(base="nobody"), "base 'nobody' does not exist"),
                ("class_common", lambda p: p.update(base="class_910b"), "is its own base"),
                ("Ascend910A", lambda p: p.update(soc_name="Ascend910X"), "Ascend910A: soc_name is 'Ascend910X'"),
                ("Ascend910A", lambda p: p.update(notes="x"), "unknown member 'notes'")):
            with self.subTest(expected):
                self.setUp()
                self.change(name, edit)
                faults, _ = self.generate()
                self.assertIn(expected, faults)
                self.assertNotIn("Traceback", faults)


if __name__ == "__main__":
    unittest.main()
