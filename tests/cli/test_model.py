# SPDX-License-Identifier: Apache-2.0
"""cannon model: runs models on arrays in files, and shows what becomes of them.

    CANNON_PREFIX=/path python3 tests/cli/test_model.py
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/onnx"))
import onnx_bytes as ob

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"])
HERE = pathlib.Path(__file__).resolve().parent


def small_model(rows):
    """y = relu(x w + b), z = its transpose; x has [rows, 2]."""
    w, b = np.array([[1, -1, 2], [0, 1, -2]], "f4"), np.array([0.5, 0, -1], "f4")
    nodes = [ob.node("MatMul", ["x", "w"], ["t"], "product"), ob.node("Add", ["t", "b"], ["s"], "sum"),
             ob.node("Relu", ["s"], ["y"], "activation"), ob.node("Transpose", ["y"], ["z"], "turn")]
    return ob.model(nodes, [ob.value("x", [rows, 2])], [ob.value("y", [rows, 3]), ob.value("z", [3, rows])],
                    [ob.initialiser("w", [2, 3], w.ravel()), ob.initialiser("b", [3], b)])


def expected(x):
    return np.maximum(x @ np.array([[1, -1, 2], [0, 1, -2]], "f4") + np.array([0.5, 0, -1], "f4"), 0)


class Model(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "fixed.onnx").write_bytes(small_model(4))
        (self.folder / "open.onnx").write_bytes(small_model("n"))
        self.x = np.random.default_rng(1).standard_normal((4, 2)).astype("f4")
        np.save(self.folder / "x.npy", self.x)

    def cannon(self, *arguments, status=0, **environment):
        done = subprocess.run([PREFIX / "bin/cannon", "model", *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=60, env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if not status else done.stderr

    def check_outputs(self, folder, x):
        y = expected(x)
        np.testing.assert_allclose(np.load(self.folder / folder / "y.npy"), y, rtol=1e-6)
        np.testing.assert_array_equal(np.load(self.folder / folder / "z.npy"),
                                      np.load(self.folder / folder / "y.npy").T)


class Run(Model):
    def test_fixed_shape(self):
        told = self.cannon("run", "fixed.onnx", "--input", "x.npy", "--output", "out", "--repeat", "3")
        self.check_outputs("out", self.x)
        self.assertIn("then 3: median", told)

    def test_open_shape_is_that_of_the_array(self):
        for rows in (1, 7):
            x = np.ones((rows, 2), "f4")
            np.save(self.folder / "x.npy", x)
            self.cannon("run", "open.onnx", "--input", "x=x.npy", "--output", f"out{rows}", "--json", "r.json")
            self.check_outputs(f"out{rows}", x)
            told = json.loads((self.folder / "r.json").read_text())
            self.assertEqual([o["shape"] for o in told["outputs"]], [[rows, 3], [3, rows]])
            self.assertGreater(told["median_ns"], 0)

    def test_convolution_of_bytes(self):
        """Long enough for the kernel of 8-bit integers, with uneven margins, zero points and a scale: every bit."""
        rng = np.random.default_rng(4)
        x = rng.integers(0, 256, (2, 16, 9, 8)).astype("u1")
        w = rng.integers(-128, 128, (24, 16, 3, 3)).astype("i1")
        w_zero, scale = rng.integers(-9, 9, 24).astype("i1"), rng.random((24, 1, 1)).astype("f4")
        np.save(self.folder / "b.npy", x)
        nodes = [ob.node("ConvInteger", ["x", "w", "xz", "wz"], ["sums"], "only", pads=[1, 0, 2, 1], strides=[2, 1]),
                 ob.node("Cast", ["sums"], ["floats"], "cast", to=1), ob.node("Mul", ["floats", "s"], ["y"], "mul")]
        (self.folder / "b.onnx").write_bytes(ob.model(
            nodes, [ob.value("x", x.shape, ob.UINT8)], [ob.value("y", [2, 24, 5, 7])],
            [ob.initialiser("w", w.shape, w.ravel(), ob.INT8), ob.initialiser("xz", [], [131], ob.UINT8),
             ob.initialiser("wz", [24], w_zero, ob.INT8), ob.initialiser("s", scale.shape, scale.ravel())]))
        self.cannon("run", "b.onnx", "--input", "b.npy", "--output", "bytes")
        padded = np.pad(x.astype("i8") - 131, ((0, 0), (0, 0), (1, 2), (0, 1)))
        places = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2]
        sums = np.einsum("bcyxij,ocij->boyx", places, w.astype("i8") - w_zero.reshape(24, 1, 1, 1))
        np.testing.assert_array_equal(np.load(self.folder / "bytes/y.npy"), sums.astype("f4") * scale)
        self.cannon("show", "b.onnx", "--json", "b.json")
        told = json.loads((self.folder / "b.json").read_text())
        self.assertEqual([n["operator"] for n in told["after"]["nodes"]], ["ConvolutionInteger"])
        self.assertIn({"name": "QuantizedScaleFusionPass", "matches": 1}, told["passes"])

    def quantised(self, op, x_dims, w_dims, axis, y_dims, **attributes):
        """y = op(x quantised and back, w dequantised along an axis), as QuantDequantFusionPass finds it. Returns x as
        integers, its scale, w with its scales, and what the model gives with and without the pass."""
        rng = np.random.default_rng(6)
        x = rng.standard_normal(x_dims).astype("f4")
        w, n = rng.integers(-127, 128, w_dims).astype("i1"), w_dims[axis]
        w_scale, x_scale, zero = (rng.random(n) / 100 + 0.001).astype("f4"), np.float32(0.03), 117
        np.save(self.folder / "q.npy", x)
        nodes = [ob.node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
                 ob.node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
                 ob.node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=axis),
                 ob.node(op, ["xd", "wd"], ["y"], "only", **attributes)]
        (self.folder / "q.onnx").write_bytes(ob.model(
            nodes, [ob.value("x", x_dims)], [ob.value("y", y_dims)],
            [ob.initialiser("w", w_dims, w.ravel(), ob.INT8), ob.initialiser("wz", [n], [0] * n, ob.INT8),
             ob.initialiser("ws", [n], w_scale), ob.initialiser("xs", [], [x_scale]),
             ob.initialiser("xz", [], [zero], ob.UINT8)]))
        got = []
        for switch in ("on", "off"):
            subprocess.run([PREFIX / "bin/atc", "--model=q.onnx", "--framework=5", "--output=q",
                            "--soc_version=Ascend910B3", f"--optimization_switch=QuantDequantFusionPass:{switch}"],
                           cwd=self.folder, check=True, capture_output=True, timeout=60)
            self.cannon("run", "q.om", "--input", "q.npy", "--output", switch)
            got += [np.load(p) for p in (self.folder / switch).glob("*.npy")]
            self.cannon("show", "q.om", "--json", "q.json")
            operators = [n["operator"] for n in json.loads((self.folder / "q.json").read_text())["after"]["nodes"]]
            self.assertEqual(any(o in ("MatmulInteger", "ConvolutionInteger") for o in operators), switch == "on")
        integers = np.clip(np.rint(x / x_scale) + zero, 0, 255).astype("i8") - zero
        return integers, x_scale, w.astype("i8"), w_scale, got

    def test_quantised_product(self):
        x, x_scale, w, w_scale, (on, off) = self.quantised("MatMul", [2, 5, 64], [64, 40], 1, [2, 5, 40])
        np.testing.assert_array_equal(on, (x @ w).astype("f4") * (w_scale * x_scale))
        np.testing.assert_allclose(on, off, rtol=1e-4, atol=1e-4)

    def test_quantised_convolution(self):
        x, x_scale, w, w_scale, (on, off) = self.quantised("Conv", [1, 16, 9, 8], [24, 16, 3, 3], 0, [1, 24, 5, 4],
                                                           pads=[1, 1, 1, 1], strides=[2, 2])
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        places = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
        sums = np.einsum("bcyxij,ocij->boyx", places, w)
        np.testing.assert_array_equal(on, sums.astype("f4") * (w_scale * x_scale).reshape(24, 1, 1))
        np.testing.assert_allclose(on, off, rtol=1e-4, atol=1e-4)

    def test_om_with_gears(self):
        for gears, dims in (("--dynamic_batch_size=1,2,4", "-1,2"), ("--dynamic_dims=1;4", "-1,2")):
            subprocess.run([PREFIX / "bin/atc", "--model=open.onnx", "--framework=5", "--output=m",
                            "--soc_version=Ascend910B3", f"--input_shape=x:{dims}", gears], cwd=self.folder,
                           check=True, capture_output=True, timeout=60)
            self.cannon("run", "m.om", "--input", "x.npy", "--output", gears[2:15])
            self.check_outputs(gears[2:15], self.x)
        np.save(self.folder / "x.npy", np.ones((3, 2), "f4"))
        self.assertIn("1", self.cannon("run", "m.om", "--input", "x.npy", status=1))

    def test_random_inputs(self):
        a = self.cannon("run", "open.onnx", "--random", "1", "--shape", "x:5,2", "--output", "a")
        self.assertIn("float32 [5, 2]", a)
        self.cannon("run", "open.onnx", "--random", "1", "--shape", "x:5,2", "--output", "b")
        self.assertEqual(*((self.folder / f / "y.npy").read_bytes() for f in "ab"))
        self.assertIn("dimension 0 of input x is open", self.cannon("run", "open.onnx", "--random", "1", status=1))

    def test_files_are_not_overwritten(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/z.npy").write_text("mine")
        told = self.cannon("run", "fixed.onnx", "--input", "x.npy", "--output", "out", status=1)
        self.assertIn("cannot write out/z.npy: it is there already; --force replaces it", told)
        self.assertFalse((self.folder / "out/y.npy").exists())  # seen before the model ran
        self.assertEqual((self.folder / "out/z.npy").read_text(), "mine")
        self.cannon("run", "fixed.onnx", "--input", "x.npy", "--output", "out", "--force")
        self.check_outputs("out", self.x)

    def test_wrong_inputs(self):
        np.save(self.folder / "long.npy", np.ones((4, 2), "f8"))
        np.save(self.folder / "wide.npy", np.ones((4, 3), "f4"))
        np.save(self.folder / "fortran.npy", np.asfortranarray(self.x))
        (self.folder / "cut.npy").write_bytes((self.folder / "x.npy").read_bytes()[:-1])
        for file, words in (("long.npy", "numbers of type float64, expected float32"),
                            ("wide.npy", "input 0 (x) has shape [4, 3], expected one that fits [4, 2]"),
                            ("fortran.npy", "Fortran's order"), ("cut.npy", "31 bytes of data, expected 32"),
                            ("none.npy", "No such file"), ("fixed.onnx", "it is no .npy file")):
            with self.subTest(file):
                self.assertIn(words, self.cannon("run", "fixed.onnx", "--input", file, status=1))
        self.assertIn("input x has no array, expected --input x=FILE.npy", self.cannon("run", "fixed.onnx", status=1))
        self.assertIn("there is no input for x.npy", self.cannon("run", "fixed.onnx", "--input", "x.npy", "--input",
                                                                 "x.npy", status=1))

    def test_frames_of_a_signal_without_parts(self):
        """STFT takes real signals of two dimensions, too, as exporters write them."""
        x = np.random.default_rng(2).standard_normal((1, 100)).astype("f4")
        np.save(self.folder / "s.npy", x)
        window = np.hanning(16).astype("f4")
        (self.folder / "s.onnx").write_bytes(ob.model(
            [ob.node("STFT", ["x", "step", "window"], ["y"])], [ob.value("x", [1, 100])],
            [ob.value("y", [1, 22, 9, 2])], [ob.initialiser("step", [], [4], ob.INT64),
                                             ob.initialiser("window", [16], window)]))
        self.cannon("run", "s.onnx", "--input", "s.npy", "--output", "out")
        frames = np.lib.stride_tricks.sliding_window_view(x[0], 16)[::4]
        wanted = np.fft.rfft(frames * window)
        np.testing.assert_allclose(np.load(self.folder / "out/y.npy")[0],
                                   np.stack([wanted.real, wanted.imag], -1), atol=1e-4)

    def test_every_type(self):
        """Cast to each type and back; NumPy reads what was written."""
        types = {2: "u1", 3: "i1", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8"}
        x = np.arange(6, dtype="f4").reshape(2, 3)
        np.save(self.folder / "x.npy", x)
        for number, dtype in types.items():
            with self.subTest(dtype):
                (self.folder / "c.onnx").write_bytes(ob.model(
                    [ob.node("Cast", ["x"], ["y"], to=number)], [ob.value("x", [2, 3])],
                    [ob.value("y", [2, 3], number)]))
                self.cannon("run", "c.onnx", "--input", "x.npy", "--output", "types", "--force")
                y = np.load(self.folder / "types/y.npy")
                self.assertEqual(y.dtype, np.dtype(dtype))
                np.testing.assert_array_equal(y, x.astype(dtype))


class Convolution(Model):
    """A convolution that is long enough to be measured, and that several implementations fit."""
    def setUp(self):
        super().setUp()
        nodes = [ob.node("Conv", ["x", "w"], ["y"], "only")]
        w = np.random.default_rng(2).standard_normal((16, 16, 3, 3)).astype("f4")
        (self.folder / "m.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 16, 26, 26])],
                                                      [ob.value("y", [1, 16, 24, 24])],
                                                      [ob.initialiser("w", [16, 16, 3, 3], w.ravel())]))


class Tune(Convolution):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def reason(self, *arguments):
        self.cannon("show", *arguments, "--json", "m.json", XDG_CACHE_HOME=str(self.cache))
        return json.loads((self.folder / "m.json").read_text())["after"]["nodes"][0]["reason"]

    def file(self):
        files = list((self.cache / "cannon").iterdir())
        self.assertEqual(len(files), 1)
        return files[0]

    def test_results_are_kept_for_the_user(self):
        self.assertNotIn("measured", self.reason("m.onnx"))
        self.assertFalse(self.cache.exists())
        self.assertIn("measured", self.reason("m.onnx", "--tune"))
        text = self.file().read_text()
        self.assertRegex(text, r"\Acannon tuned 1 [^\n]+\n[0-9a-f]{16}:conv=\w+\n\Z")
        self.assertNotIn("measured", self.reason("m.onnx"))  # not asked for
        self.file().write_text(re.sub("=.*", "=direct", text))  # taken, not measured again
        self.assertIn("measured", self.reason("m.onnx", "--tune"))
        self.assertIn("=direct", self.file().read_text())
        self.cannon("run", "m.onnx", "--random", "1", "--tune", XDG_CACHE_HOME=str(self.cache))

    def test_other_files_are_left_alone(self):
        self.reason("m.onnx", "--tune")
        for text in ("mine", self.file().read_text() + "nonsense\n"):
            self.file().write_text(text)
            done = subprocess.run([PREFIX / "bin/cannon", "model", "run", "m.onnx", "--random", "1", "--tune"],
                                  cwd=self.folder, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "XDG_CACHE_HOME": str(self.cache)})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("no file of measured choices" if text == "mine" else "1 malformed lines", done.stderr)
            self.assertEqual(self.file().read_text(), text)

    def test_constants_that_are_not_computed_yet(self):
        """Weights that a batch norm goes into are computed when they are placed, after nodes were measured."""
        rng = np.random.default_rng(3)
        w, one = rng.standard_normal((16, 16, 3, 3)).astype("f4"), [ob.initialiser(n, [16], rng.random(16) + 0.5)
                                                                    for n in ("scale", "bias", "mean", "variance")]
        nodes = [ob.node("Conv", ["x", "w"], ["c"], "conv"),
                 ob.node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["y"], "norm")]
        (self.folder / "n.onnx").write_bytes(ob.model(nodes, [ob.value("x", [1, 16, 26, 26])],
                                                      [ob.value("y", [1, 16, 24, 24])],
                                                      [ob.initialiser("w", w.shape, w.ravel()), *one]))
        for folder, options in (("usual", ()), ("tuned", ("--tune",))):
            self.cannon("run", "n.onnx", "--random", "1", "--output", folder, *options, XDG_CACHE_HOME=str(self.cache))
        self.assertTrue(self.file())
        np.testing.assert_allclose(np.load(self.folder / "tuned/y.npy"), np.load(self.folder / "usual/y.npy"),
                                   rtol=1e-3, atol=1e-3)

    def test_om_files_keep_results(self):
        subprocess.run([PREFIX / "bin/atc", "--model=m.onnx", "--framework=5", "--output=m", "--tune",
                        "--soc_version=Ascend910B3"], cwd=self.folder, check=True, capture_output=True, timeout=60,
                       env={**os.environ, "XDG_CACHE_HOME": str(self.cache)})
        made = (self.folder / "m.om").read_bytes()
        self.assertTrue(re.search(rb"tuned\t[^\t]+\t[0-9a-f]{16}:conv=\w+ \n", made))
        shutil.rmtree(self.cache)
        self.assertIn("measured", self.reason("m.om"))
        self.assertFalse(self.cache.exists())
        at = made.index(b"tuned\t") + 6  # another version's or processor's choices count for nothing
        (self.folder / "m.om").write_bytes(made[:at] + b"9" + made[at + 1:])
        self.assertNotIn("measured", self.reason("m.om"))


class Optimize(Convolution):
    """The same convolution: what goals change is told, also where that is nothing."""
    def goal(self, *arguments):
        told = self.cannon("show", *arguments, "--json", "m.json")
        return json.loads((self.folder / "m.json").read_text())["optimize"], told

    def test_less_memory(self):
        found, told = self.goal("m.onnx", "--optimize", "memory")
        self.assertEqual(found["goal"], "memory")
        self.assertLessEqual(found["arena"]["with"], found["arena"]["without"])
        self.assertEqual(found["changes"], "nothing changes" not in told)
        self.cannon("run", "m.onnx", "--random", "1", "--output", "usual")
        for goal in ("time", "memory", "power"):
            self.cannon("run", "m.onnx", "--random", "1", "--output", goal, "--optimize", goal)
            np.testing.assert_allclose(np.load(self.folder / goal / "y.npy"), np.load(self.folder / "usual/y.npy"),
                                       rtol=1e-4, atol=1e-4)

    def test_nothing_to_change(self):
        for goal in ("time", "memory", "power"):
            found, told = self.goal("fixed.onnx", "--optimize", goal)
            self.assertFalse(found["changes"] and goal == "time", found)
            self.assertIn(f"optimize: {goal}: nothing changes for this model" if not found["changes"] else
                          f"optimize: {goal}: ", told)

    def test_om_files_keep_the_goal(self):
        subprocess.run([PREFIX / "bin/atc", "--model=m.onnx", "--framework=5", "--output=m", "--optimize=memory",
                        "--soc_version=Ascend910B3"], cwd=self.folder, check=True, capture_output=True, timeout=60)
        self.assertIn(b"optimize\t-\tmemory\n", (self.folder / "m.om").read_bytes())
        self.assertEqual(self.goal("m.om")[0]["goal"], "memory")


class Show(Model):
    def test_text(self):
        told = self.cannon("show", "fixed.onnx")
        self.assertIn("fixed.onnx: 4 nodes exported", told)
        self.assertRegex(told, r"x +FLOAT \[4, 2\]")
        self.assertRegex(told, r"ConvBatchnormFusionPass +0")
        for words in ("without reuse of memory", "with reuse, without passes", "with reuse and passes"):
            self.assertIn(words, told)

    def test_json(self):
        self.cannon("show", "open.onnx", "--shape", "x:1000,2", "--json", "m.json")
        told = json.loads((self.folder / "m.json").read_text())
        memory, before = told["memory"], told["before"]
        self.assertLessEqual(memory["reuse_and_passes"], memory["reuse"])
        self.assertLess(memory["reuse"], memory["no_reuse"] + 1)
        self.assertEqual(told["exported_nodes"], 4)
        # The plan is right: buffers that live at one step do not overlap, and all lie in the arena.
        for side in ("before", "after"):
            graph = told[side]
            live = [(s["first"], s["last"], s["offset"], s["offset"] + s["bytes"]) for s in graph["storages"]
                    if s["kind"] == "temporary"]
            live += [(i, i, n["workspace_offset"], n["workspace_offset"] + n["workspace"])
                     for i, n in enumerate(graph["nodes"]) if "workspace" in n]
            for i, a in enumerate(live):
                self.assertLessEqual(a[3], graph["arena"])
                for b in live[:i]:
                    self.assertFalse(a[0] <= b[1] and b[0] <= a[1] and a[2] < b[3] and b[2] < a[3], (a, b))
        self.assertIn("product", [n["name"] for n in before["nodes"]])

    def test_what_a_node_computes(self):
        """Its type, its estimate, and the implementation with the reason for it."""
        self.cannon("show", "fixed.onnx", "--json", "m.json")
        told = json.loads((self.folder / "m.json").read_text())
        product = next(n for n in told["after"]["nodes"] if n["name"] == "product")
        self.assertGreater(product["estimated_ns"], 0)
        self.assertRegex(self.cannon("show", "fixed.onnx"),
                         r"MatmulEpilogue .* FLOAT \[4, 3\] +FLOAT +[\d.]+ [nu]s +gemm=\w+: \w+")

    def test_om(self):
        subprocess.run([PREFIX / "bin/atc", "--model=open.onnx", "--framework=5", "--output=m",
                        "--soc_version=Ascend910B3", "--input_shape=x:8,2"], cwd=self.folder, check=True,
                       capture_output=True, timeout=60)
        self.assertRegex(self.cannon("show", "m.om"), r"x +FLOAT \[8, 2\]")

    def test_page(self):
        self.cannon("show", "fixed.onnx", "--html", "m.html")
        page = (self.folder / "m.html").read_text()
        self.assertNotIn("http", page.replace("http://www.w3.org/2000/svg", ""))  # nothing comes from elsewhere

    def test_names_cannot_end_the_page(self):
        evil = "</script><script>alert(1)</script>"
        (self.folder / "evil.onnx").write_bytes(ob.model([ob.node("Relu", ["x"], ["y"], evil)], [ob.value("x", [2])],
                                                         [ob.value("y", [2])]))
        self.cannon("show", "evil.onnx", "--html", "m.html")
        self.assertNotIn("<script>alert", (self.folder / "m.html").read_text())

    def test_files(self):
        (self.folder / "m.html").write_text("mine")
        self.assertIn("it is there already and is not a page", self.cannon("show", "fixed.onnx", "--html", "m.html",
                                                                           status=2))
        self.cannon("show", "fixed.onnx", "--html", "m.html", "--force")
        self.cannon("show", "fixed.onnx", "--html", "m.html")  # now it is one

    def test_wrong_arguments(self):
        for arguments, words in ((("show",), "expected one MODEL"), (("draw", "m"), "expected run or show"), ((), "''"),
                                 (("show", "m", "--repeat", "2"), "it has no option --repeat"),
                                 (("run", "m", "--html", "x"), "it has no option --html"),
                                 (("run", "m", "--repeat", "0"), "--repeat is '0'"),
                                 (("show", "m", "--optimize", "speed"), "expected time, memory or power"),
                                 (("show", "m", "--shape", "x"), "--shape has x")):
            self.assertIn(words, self.cannon(*arguments, status=2))

    def test_wrong_models(self):
        (self.folder / "bad.onnx").write_bytes(b"\x0a\xff")
        for arguments, words in ((("none.onnx",), "No such file"), (("bad.onnx",), "no ONNX model"),
                                 (("open.onnx",), "dimension 0 of input x is open"),
                                 (("open.onnx", "--shape", "x:2,3"), "expected one that fits [-1, 2]"),
                                 (("open.onnx", "--shape", "q:2,3"), "q is no input of the model")):
            self.assertIn(words, self.cannon("show", *arguments, status=1))


if __name__ == "__main__":
    unittest.main()
