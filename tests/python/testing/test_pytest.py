# SPDX-License-Identifier: Apache-2.0
"""Tests of the pytest plugin. Skipped (77) where pytest is not installed (Debian: python3-pytest).

    CANNON_PREFIX=/path python3 tests/python/testing/test_pytest.py
"""
import importlib.util
import re
import subprocess
import sys
import unittest

import support
from support import BEGIN, FAULTS, HERE, FolderTest, opp_folder

ONE = 'shapes=[(3,)], layouts="contiguous", values="normal"'
# The wheel's, in pyproject.toml. With another name, pytest would refuse the plugin where -p names it, too.
ENTRY_POINT = "cannon.testing.pytest_plugin = cannon.testing.pytest_plugin\n"
FIXTURES = '''
import numpy as np
import pytest

X = np.arange(12, dtype=np.float32).reshape(3, 4)

def test_device(npu, device_count):
    assert (npu.number, npu.count, device_count) == (0, 2, 2)
    assert npu.soc_name() == "Ascend910A"
    npu.synchronize()

def test_right(cannon_op):
    result = cannon_op("Add", X.T, X.T, alpha=2, expected=3 * X.T)
    assert result.shape == (4, 3)
    values, indices = cannon_op("Sort", X, stable=True, dim=1, descending=True,
                                expected=(X[:, ::-1], np.array([[3, 2, 1, 0]] * 3)))
    assert indices.dtype == np.int64
    cannon_op("Cat", [X, X], dim=0, expected=np.concatenate([X, X]))

def test_own(cannon_op):
    cannon_op("ScaleAdd", X, X, scale=0.5, fault=0, expected=1.5 * X)

def test_wrong(cannon_op):
    with pytest.raises(AssertionError, match=r"element \\[0, 1\\] is 3.0, expected 1"):
        cannon_op("Add", X, X, alpha=2, expected=X)
    with pytest.raises(AssertionError, match=r"changed its input y"):
        cannon_op("ScaleAdd", X + 1, X + 1, scale=0.5, fault=6, expected=1.5 * (X + 1))
'''


class Plugin(FolderTest):
    def pytest(self, *arguments, status=0, **variables):
        command = [sys.executable, "-m", "pytest", "-p", "cannon.testing.pytest_plugin", "-p", "no:cacheprovider"]
        done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              timeout=100, env=support.environment(PYTHONPATH=str(support.PACKAGES), **variables))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def results(self, output):
        """{name: result} of pytest -v."""
        return {m[1]: m[2] for m in re.finditer(r"::(\S.*?) (PASSED|FAILED|SKIPPED|ERROR)", output)}

    def test_the_same_files_as_cannon_test(self):
        text = BEGIN + f'''
good = operator_test("Exp", reference=np.exp, {ONE})
class TestPlain:
    def test_plain(self):
        pass
'''
        self.file("test_a.py", text)
        self.file("b_cases.py", text)
        self.file("sub/test_b.py", text)
        output = self.pytest("-v")
        name = "good[float32-3-contiguous-normal-seed0]"
        for file in ("test_a.py", "b_cases.py", "sub/test_b.py"):
            self.assertIn(f"{file}::{name} PASSED", output)
        self.assertIn("3 passed", self.pytest("b_cases.py", "test_a.py::good", "-v", "-k", "good or plain"))
        self.assertIn("3 passed", self.pytest("--cannon-in-process", "-k", "good"))

    def test_failures_crashes_and_skips(self):
        self.file("torch.py", "raise ImportError('not here')\n")
        self.file("test_a.py", BEGIN + f'''
import os, time
wrong = operator_test("Exp", reference=np.sin, {ONE})
def noisy(x):
    print("seen")
    os.abort()
crashing = operator_test(noisy, reference=np.positive, {ONE})
hanging = operator_test(lambda x: time.sleep(60), reference=np.positive, {ONE})
skipped = operator_test("Erf", reference="torch.erf", inputs={{"x": Input()}}, {ONE})
good = operator_test("Exp", reference=np.exp, {ONE})
''')
        output = self.pytest("-v", "-rs", "--cannon-timeout", 1, "--junit-xml", "r.xml", status=1)
        results = {name.partition("[")[0]: result for name, result in self.results(output).items()}
        self.assertEqual(results, {"wrong": "FAILED", "crashing": "FAILED", "hanging": "FAILED", "skipped": "SKIPPED",
                                   "good": "PASSED"})
        for words in ("elements are wrong", "ended by SIGABRT", "seen", "had not finished after 1 s",
                      "PyTorch is not installed"):
            self.assertIn(words, output)
        self.assertIn('name="worst_ulps"', (self.folder / "r.xml").read_text())

    def test_seeds(self):
        self.file("test_a.py", BEGIN + f'good = operator_test("Exp", reference=np.exp, {ONE})\n')
        self.assertIn("good[float32-3-contiguous-normal-seed7] PASSED", self.pytest("-v", "--cannon-seed", 7))
        self.assertIn("-seed8] PASSED", self.pytest("-v", CANNON_SEED="8"))
        output = self.pytest("-v", "test_a.py::good[float32-3-contiguous-normal-seed9]")
        self.assertEqual(self.results(output), {"good[float32-3-contiguous-normal-seed9]": "PASSED"})

    def test_fixtures(self):
        self.file("test_fixtures.py", FIXTURES)
        output = self.pytest("-v", "--cannon-device", "Ascend910A", CANNON_DEVICES="2",
                             ASCEND_CUSTOM_OPP_PATH=str(opp_folder()))
        self.assertIn("4 passed", output)
        output = self.pytest("-v", "-rs", "--cannon-device", "3", ASCEND_CUSTOM_OPP_PATH=str(opp_folder()))
        self.assertIn("there is no device 3: 1 devices are found", output)
        self.assertIn("4 skipped", output)

    def test_check(self):
        path = HERE / "files/test_scale_add.py"
        opp = {"ASCEND_CUSTOM_OPP_PATH": str(opp_folder())}
        self.pytest(path, "--cannon-check", **opp)
        self.pytest(path, SCALE_ADD_FAULT=str(FAULTS["LEAKS"]), **opp)
        output = self.pytest(path, "--cannon-check", status=1, SCALE_ADD_FAULT=str(FAULTS["LEAKS"]), **opp)
        self.assertIn("1 failed, 80 passed", output)
        self.assertIn("scale_add.c:", output)

    def test_the_entry_point(self):
        text = BEGIN + f'good = operator_test("Exp", reference=np.exp, {ONE})\n'
        self.file("test_a.py", text)
        self.file("site/cannon_npu-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: cannon_npu\nVersion: 1\n")
        self.file("site/cannon_npu-1.dist-info/entry_points.txt", "[pytest11]\n" + ENTRY_POINT)
        path = f"{support.PACKAGES}:{self.folder}/site"
        for plugins in ([], ["-p", "cannon.testing.pytest_plugin"]):
            command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "--cannon-seed=3"]
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=100,
                                  env=support.environment(PYTHONPATH=path))
            self.assertIn("1 passed", done.stdout, done.stderr)

    def test_a_project_without_operators_pays_nothing(self):
        self.file("test_plain.py", "import sys\ndef test_imports():\n    assert 'numpy' not in sys.modules\n")
        self.assertIn("1 passed", self.pytest())


if __name__ == "__main__":
    if importlib.util.find_spec("pytest") is None:
        print("pytest is not installed (Debian: python3-pytest): the plugin is not tested")
        sys.exit(77)
    unittest.main()
