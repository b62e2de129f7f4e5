# SPDX-License-Identifier: Apache-2.0
"""atc: its arguments, messages, exit codes and files. A model is written byte by byte, without the package onnx."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/onnx"))
import onnx_bytes

ATC = pathlib.Path(os.environ["CANNON_PREFIX"]) / "bin/atc"


def model(dims, op="Relu"):
    """y = op(x), of operator set 17."""
    return onnx_bytes.model([onnx_bytes.node(op, ["x"], ["y"], "only")], [onnx_bytes.value("x", dims)],
                            [onnx_bytes.value("y", dims)], name="small")


class Atc(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write(model(["n", 3]))

    def write(self, content):
        (self.folder / "m.onnx").write_bytes(content)

    def atc(self, *more, model="m.onnx", framework="5", output="m", soc="Ascend910B3"):
        done = subprocess.run([ATC, f"--model={model}", "--framework", framework, f"--output={output}",
                               f"--soc_version={soc}", *more], cwd=self.folder, capture_output=True, text=True,
                              timeout=60)
        return done.returncode, done.stdout

    def assert_refused(self, code, words, *more, **arguments):
        got, told = self.atc(*more, **arguments)
        self.assertIn("ATC run failed", told)
        self.assertIn(words, told)
        self.assertEqual(got, code)
        self.assertFalse((self.folder / "m.om").exists())

    def test_success(self):
        code, told = self.atc("--input_shape=x:2,3", "--precision_mode=force_fp32", "--log", "error",
                              "--display_model_info=1")
        self.assertEqual(code, 0)
        self.assertTrue(told.startswith("ATC start working now, please wait for a moment.\n"))
        self.assertIn("ATC run success, welcome to the next use.\n", told)
        self.assertIn("============ Display Model Info start ============", told)
        self.assertEqual((self.folder / "m.om").read_bytes()[:4], b"IMOD")
        self.assertEqual(self.atc()[0], 0)  # the same name again: an .om file is replaced

    def test_gears(self):
        self.assertEqual(self.atc("--input_shape=x:-1,3", "--dynamic_batch_size=1,2,4")[0], 0)
        self.assertIn(b"gears\tbatch\t1 1 2 4\n", (self.folder / "m.om").read_bytes())
        self.assertEqual(self.atc("--dynamic_dims=1;8")[0], 0)
        self.assertIn(b"gears\tdims\t1 1 8\n", (self.folder / "m.om").read_bytes())
        (self.folder / "m.om").unlink()
        self.assert_refused(255, "E10009", "--dynamic_dims=1;8", "--dynamic_batch_size=1,8")
        self.assert_refused(255, "E10001", "--dynamic_dims=1;8,2")
        self.assert_refused(255, "E10001", "--dynamic_batch_size=0,2")
        self.assert_refused(100000 & 255, "2 to 100", "--dynamic_batch_size=4")
        self.assert_refused(100000 & 255, "expected 2, for height and width", "--dynamic_image_size=1,2;3,4")

    def test_other_files_are_not_overwritten(self):
        (self.folder / "m.om").write_text("mine")
        code, told = self.atc()
        self.assertNotEqual(code, 0)
        self.assertIn("E10003", told)
        self.assertEqual((self.folder / "m.om").read_text(), "mine")

    def test_wrong_arguments(self):
        self.assert_refused(255, "E10007", framework="3")
        self.assert_refused(255, "E10001", soc="Tesla")
        self.assert_refused(255, "E10001", "--mode=1")
        self.assert_refused(255, "E10001", "--nonsense=1")
        self.assert_refused(255, "E10010: invalid value for --log:loud", "--log=loud")
        self.assert_refused(255, "E10002", "--input_shape=x")
        self.assert_refused(255, "E10002", "--input_shape=x:2,a")
        self.assert_refused(255, "E10004", output="")

    def test_wrong_models(self):
        self.assert_refused(145002 & 255, "No such file", model="none.onnx")
        self.assert_refused(100000 & 255, "z is no input of the model", "--input_shape=z:1")
        self.assert_refused(100000 & 255, "dimension 1 of input x is 4, expected the 3", "--input_shape=x:2,4")
        self.write(b"\x0a\xff")
        self.assert_refused(100006 & 255, "no ONNX model")
        self.write(model([2, 3], op="Nonsense"))
        self.assert_refused(500002 & 255, "node only (Nonsense): operator Nonsense is not supported")

    def test_help(self):
        done = subprocess.run([ATC, "--help"], capture_output=True, text=True, timeout=60, check=True)
        self.assertTrue(done.stdout.startswith("Usage: atc --model=FILE.onnx"))


if __name__ == "__main__":
    unittest.main()
