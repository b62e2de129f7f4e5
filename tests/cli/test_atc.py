# SPDX-License-Identifier: Apache-2.0
"""atc: its arguments, messages, exit codes and files. A model is written byte by byte, without the package onnx."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ATC = pathlib.Path(os.environ["CANNON_PREFIX"]) / "bin/atc"


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def message(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def number(field, n):
    return varint(field << 3) + varint(n)


def value(name, dims):
    shape = b"".join(message(1, message(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return message(1, name) + message(2, message(1, number(1, 1) + message(2, shape)))


def model(dims, op="Relu"):
    """y = op(x), of operator set 17."""
    node = message(1, "x") + message(2, "y") + message(3, "only") + message(4, op)
    graph = message(1, node) + message(2, "small") + message(11, value("x", dims)) + message(12, value("y", dims))
    return number(1, 8) + message(7, graph) + message(8, number(2, 17))


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

    def test_pictures(self):
        self.write(model([1, 3, 4, 6]))
        (self.folder / "aipp.cfg").write_text("# pictures\naipp_op {\n  input_format: RGB888_U8\n  crop: false\n}\n")
        self.assertEqual(self.atc("--insert_op_conf=aipp.cfg")[0], 0)
        self.assertRegex((self.folder / "m.om").read_bytes(), rb"aipp\tall\t *aipp_op { +input_format: RGB888_U8 ")
        (self.folder / "m.om").unlink()
        self.assert_refused(255, "E10001", "--insert_op_conf=missing.cfg")
        self.assert_refused(255, "E10009", "--insert_op_conf=aipp.cfg", "--dynamic_dims=1;8")
        (self.folder / "aipp.cfg").write_text("aipp_op { input_format: RGB888_U8 colour: red }")
        self.assert_refused(160, "colour is no key of aipp_op", "--insert_op_conf=aipp.cfg")

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
