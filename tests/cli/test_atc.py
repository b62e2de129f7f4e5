# SPDX-License-Identifier: Apache-2.0
"""atc: its arguments, messages, exit codes and files. A model is written byte by byte, without the package onnx."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

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

    def look(self, *arguments):
        done = subprocess.run([ATC, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              check=False)
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

    def test_what_files_say(self):
        """Modes 1 and 6 on a file of ours."""
        self.assertEqual(self.atc("--input_shape=x:2,3")[0], 0)
        code, told = self.look("--mode=6", "--om=m.om")
        self.assertEqual(code, 0)
        self.assertRegex(told, r"Original Atc command line: .*atc --model=m\.onnx --framework 5")
        self.assertIn("atc_version[8.1.RC1], soc_version[Ascend910B3], framework_type[5].", told)
        self.assertRegex(told, r"memory_size\[\d+ B\], weight_size\[\d+ B\], stream_num\[1\], event_num\[0\]")
        self.assertRegex(told, r"om       info: modeldef_size\[[1-9]\d+ B\], weight_data_size\[0 B\]")
        self.assertEqual(self.look("--mode=1", "--om=m.om", "--json=m.json")[0], 0)
        graph = json.loads((self.folder / "m.json").read_text())["graph"][0]
        self.assertEqual([(o["name"], o["type"]) for o in graph["op"]],
                         [("x", "Data"), ("only", "Relu"), ("Node_Output", "NetOutput")])
        self.assertEqual([o.get("input") for o in graph["op"]], [None, ["x:0"], ["only:0"]])
        self.assertEqual(graph["op"][1]["output_desc"][0], {"name": "y", "dtype": "DT_FLOAT", "shape": {"dim": [2, 3]},
                                                            "layout": "ND"})
        self.assertEqual(self.look("--mode=1", "--om=m.om", "--json=m.json")[0], 0)  # again: it was written by atc
        (self.folder / "m.json").write_text("{}")
        self.assertIn("E10003", self.look("--mode=1", "--om=m.om", "--json=m.json")[1])
        self.assertEqual((self.folder / "m.json").read_text(), "{}")

    def test_operators_have_ascends_names(self):
        w = onnx_bytes.initialiser("w", [2, 1, 3, 3], range(18))
        nodes = [onnx_bytes.node("Conv", ["x", "w"], ["c"], "conv"), onnx_bytes.node("Softmax", ["c"], ["y"], "soft")]
        self.write(onnx_bytes.model(nodes, [onnx_bytes.value("x", [1, 1, 8, 8])], [onnx_bytes.value("y", [1, 2, 6, 6])],
                                    [w]))
        self.assertEqual(self.atc()[0], 0)
        self.assertEqual(self.look("--mode=1", "--om=m.om", "--json=m.json")[0], 0)
        operators = json.loads((self.folder / "m.json").read_text())["graph"][0]["op"]
        self.assertEqual([o["type"] for o in operators], ["Data", "Const", "Conv2D", "SoftmaxV2", "NetOutput"])
        self.assertEqual(operators[2]["input"], ["x:0", "w:0"])
        self.assertEqual(operators[2]["input_desc"][0]["layout"], "NCHW")

    def foreign(self, newer):
        """A file as for an NPU, with a graph, weights and kernels."""
        b = onnx_bytes
        text = lambda key, value: b.message(11, b.message(1, key) + b.message(2, b.message(2, value)))
        desc = b.number(2, 2) + b.message(3, b.message(1, b.varint(1) + b.varint(3)))  # dims are packed
        op = b.message(1, "conv1") + b.message(2, "Conv2D") + b.message(5, "x:0") + b.message(34, desc)
        definition = (b.message(1, "net") + b.message(7, b.message(1, "g") + b.message(6, op)) +
                      text("soc_version", "Ascend310P3") + text("atc_cmdline", "atc --model=a"))
        parts = [(0, definition), (1, b"w" * 100), (3, b"k" * 77)]
        table, bodies, at = b"", b"", 0
        for kind, body in parts:
            table += struct.pack("<IIQQ", kind, 0, at, len(body)) if newer else struct.pack("<III", kind, at, len(body))
            bodies, at = bodies + body, at + len(body)
        table = struct.pack("<II" if newer else "<I", *[3, 0][:1 + newer]) + table
        head = bytearray(256)
        struct.pack_into("<III", head, 0, 0x444F4D49, 256, 0x20000000)
        struct.pack_into("<Q", head, 184, len(table + bodies) if newer else 0)
        return bytes(head) + table + bodies

    def test_files_for_npus(self):
        for newer in (True, False):
            with self.subTest(newer):
                (self.folder / "npu.om").write_bytes(self.foreign(newer))
                code, told = self.look("--mode=6", "--om=npu.om")
                self.assertEqual(code, 0, told)
                self.assertIn("Original Atc command line: atc --model=a\n", told)
                self.assertIn("soc_version[Ascend310P3]", told)
                self.assertIn("memory_size[-1 B]", told)
                self.assertIn("weight_data_size[100 B], tbe_kernels_size[77 B]", told)
                code, told = self.look("--mode=1", "--om=npu.om", "--json=npu.json")
                self.assertEqual(code, 0, told)
                op = json.loads((self.folder / "npu.json").read_text())["graph"][0]["op"][0]
                self.assertEqual((op["type"], op["output_desc"][0]["dtype"]), ("Conv2D", "DT_FLOAT16"))
                self.assertEqual(op["output_desc"][0]["shape"]["dim"], [1, 3])
                done = subprocess.run([ATC.parent / "cannon", "model", "run", "npu.om"], cwd=self.folder,
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn("made for an NPU (it has 77 bytes of its kernels); convert the ONNX model", done.stderr)

    def test_broken_files(self):
        whole = self.foreign(True)
        for content, words in ((b"IMOD", "shorter than its header"), (whole[:300], "cut off"),
                               (whole[:-90], "cut off"), (b"PK", "expected an .om file")):
            (self.folder / "b.om").write_bytes(content)
            code, told = self.look("--mode=6", "--om=b.om")
            self.assertNotEqual(code, 0)
            self.assertIn(words, told)
        self.assertIn("No such file", self.look("--mode=1", "--om=none.om", "--json=a")[1])
        self.assertIn("E10004: --json", self.look("--mode=1", "--om=b.om")[1])

    def chain(self):
        """y = relu(-x), with the value between as n."""
        self.write(onnx_bytes.model([onnx_bytes.node("Neg", ["x"], ["n"], "minus"),
                                     onnx_bytes.node("Relu", ["n"], ["y"], "positive")],
                                    [onnx_bytes.value("x", [3])], [onnx_bytes.value("y", [3])]))
        np.save(self.folder / "x.npy", np.array([-1.5, 0, 2], "f4"))

    def outputs(self, folder):
        done = subprocess.run([ATC.parent / "cannon", "model", "run", "m.om", "--input", "x.npy", "--output", folder,
                               "--json", "r.json"], cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {o["name"]: np.load(self.folder / o["file"])
                for o in json.loads((self.folder / "r.json").read_text())["outputs"]}

    def test_out_nodes(self):
        self.chain()
        for given, names in (("minus:0", ["minus:0"]), ("n;y", ["minus:0:n", "positive:0:y"])):
            code, told = self.atc(f"--out_nodes={given}")
            self.assertEqual(code, 0, told)
            got = self.outputs(names[0].replace(":", "_"))
            self.assertEqual(list(got), names)
            np.testing.assert_array_equal(got[names[0]], [1.5, 0, -2])
        (self.folder / "m.om").unlink()
        self.assert_refused(100000 & 255, "minus:1 is no node with an output of this number", "--out_nodes=minus:1")

    def test_output_type(self):
        self.chain()
        for given, dtype in (("FP16", "f2"), ("positive:0:INT32", "i4"), ("y:DOUBLE", "f8")):
            code, told = self.atc(f"--output_type={given}")
            self.assertEqual(code, 0, told)
            got = self.outputs(dtype)["positive:0:y"]
            self.assertEqual(got.dtype, np.dtype(dtype))
            np.testing.assert_array_equal(got, np.array([1.5, 0, 0]).astype(dtype))
        (self.folder / "m.om").unlink()
        self.assert_refused(100000 & 255, "z is no output of the model", "--output_type=z:FP16")

    def product(self, w):
        """y = x @ w, with w as the bytes of an initialiser; and an x."""
        self.write(onnx_bytes.model([onnx_bytes.node("MatMul", ["x", "w"], ["y"], "only")],
                                    [onnx_bytes.value("x", [2, 3])], [onnx_bytes.value("y", [2, 200])], [w]))
        x = np.array([[1, 2, 3], [-1, 0, 4]], "f4")
        np.save(self.folder / "x.npy", x)
        return x

    def test_external_weights(self):
        w = np.arange(600, dtype="f4").reshape(3, 200)
        x = self.product(onnx_bytes.initialiser("w", [3, 200], w.ravel().tolist()))
        for value, name in (("0", None), ("1", "weight_*"), ("2", "m_weight_combined")):
            code, told = self.atc(f"--external_weight={value}")
            self.assertEqual(code, 0, told)
            self.assertEqual((self.folder / "m.om").stat().st_size < w.nbytes, bool(name))
            if name:
                [file] = (self.folder / "weight").iterdir()
                self.assertTrue(file.match(name))
                self.assertEqual(file.read_bytes(), w.tobytes())
            np.testing.assert_array_equal(self.outputs(f"out{value}")["only:0:y"], x @ w)
            shutil.rmtree(self.folder / "weight", ignore_errors=True)
        self.assertEqual(self.look("--mode=3", "--model=m.onnx", "--framework=5", "--external_weight=1")[0], 0)
        self.assertFalse((self.folder / "weight").exists())

    def test_external_data_goes_into_the_file(self):
        w = np.arange(600, dtype="f4").reshape(3, 200)
        b = onnx_bytes
        (self.folder / "data").write_bytes(b"four" + w.tobytes())
        places = {"location": "data", "offset": "4", "length": str(w.nbytes)}
        x = self.product(b.number(1, 3) + b.number(1, 200) + b.number(2, b.FLOAT) + b.message(8, "w") +
                         b"".join(b.message(13, b.message(1, k) + b.message(2, v)) for k, v in places.items()) +
                         b.number(14, 1))
        code, told = self.atc()
        self.assertEqual(code, 0, told)
        (self.folder / "data").unlink()
        np.testing.assert_array_equal(self.outputs("out")["only:0:y"], x @ w)

    def test_precision(self):
        """x @ w, its relu, another product: permissions keep float32 unless it pays, orders store half as much."""
        b, rng = onnx_bytes, np.random.default_rng(1)
        u, v = rng.normal(size=(64, 96)).astype("f4"), rng.normal(size=(96, 48)).astype("f4")
        self.write(b.model([b.node("MatMul", ["x", "u"], ["a"], "first"), b.node("Relu", ["a"], ["r"], "limit"),
                            b.node("MatMul", ["r", "v"], ["y"], "second"), b.node("Erf", ["a"], ["z"], "other")],
                           [b.value("x", [8, 64])], [b.value("y", [8, 48]), b.value("z", [8, 96])],
                           [b.initialiser("u", u.shape, u.ravel().tolist()),
                            b.initialiser("v", v.shape, v.ravel().tolist())]))
        x = rng.normal(size=(8, 64)).astype("f4")
        np.save(self.folder / "x.npy", x)
        expected = np.maximum(x.astype("f8") @ u, 0) @ v
        for i, (option, word) in enumerate((("--precision_mode=force_fp32", "nothing else was asked for"),
                                            ("--precision_mode_v2=origin", "nothing else was asked for"),
                                            ("--precision_mode=allow_mix_precision", "allowed"),
                                            ("--precision_mode=allow_mix_precision_fp16", "float16.* allowed"),
                                            ("--precision_mode=allow_mix_precision_bf16", "bfloat16.* allowed"),
                                            ("--precision_mode_v2=mixed_bfloat16", "bfloat16.* allowed"),
                                            ("--precision_mode_v2=fp16", "float16: it was forced"),
                                            ("--precision_mode=force_fp16", "float16: it was forced"))):
            code, told = self.atc(option)
            self.assertEqual(code, 0, told)
            shown = subprocess.run([ATC.parent / "cannon", "model", "show", "m.om", "--json", "s.json", "--force"],
                                   cwd=self.folder, capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertRegex(shown, f"precision: .*{word}")
            told = json.loads((self.folder / "s.json").read_text())
            stored = (u.size + v.size) * (2 if "forced" in word else 4)
            if "allowed" not in word:
                constants = [s["bytes"] for s in told["after"]["storages"] if s["kind"] == "constant"]
                self.assertLess(abs(sum(constants) - stored), 0.2 * stored)
            got = self.outputs(f"out{i}")
            self.assertEqual({a.dtype for a in got.values()}, {np.dtype("f4")})
            self.assertLess(np.abs(got["second:0:y"] - expected).max(), 2e-2 * np.abs(expected).max())

    def normed(self):
        """A convolution and a batch norm, which ConvBatchnormFusionPass joins."""
        b = onnx_bytes
        constants = [b.initialiser("w", [2, 1, 1, 1], [1, 2]), *(b.initialiser(n, [2], [1, 2]) for n in "sbmv")]
        self.write(b.model([b.node("Conv", ["x", "w"], ["c"], "conv"),
                            b.node("BatchNormalization", ["c", *"sbmv"], ["y"], "norm")],
                           [b.value("x", [1, 1, 4, 4])], [b.value("y", [1, 2, 4, 4])], constants))

    def statistics(self):
        return json.loads((self.folder / "fusion_result.json").read_text())["session_and_graph_id_0_0"]["graph_fusion"]

    def test_passes_are_switched(self):
        self.normed()
        name, counts = "ConvBatchnormFusionPass", {"effect_times": "1", "match_times": "1"}
        files = {"a": {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}},
                 "b": {"Switch": {"GraphFusion": {name: "on", "ALL": "off"}}}}
        for file, content in files.items():
            (self.folder / file).write_text(json.dumps(content))
        (self.folder / "c").write_text(f"{name}:off\nNonsensePass : off\n")
        for arguments, on in (([], True), (["--fusion_switch_file=a"], False), (["--fusion_switch_file=b"], True),
                              (["--fusion_switch_file=c"], False), ([f"--optimization_switch={name}:off"], False),
                              (["--fusion_switch_file=a", f"--optimization_switch={name}:on"], True),
                              (["--oo_level=O1"], False), (["--oo_level=O3"], True)):
            with self.subTest(arguments):
                code, told = self.atc(*arguments)
                self.assertEqual(code, 0, told)
                self.assertEqual(self.statistics().get(name), counts if on else None)
                done = subprocess.run([ATC.parent / "cannon", "model", "show", "m.om"], cwd=self.folder,
                                      capture_output=True, text=True, timeout=60, check=True)
                self.assertRegex(done.stdout, rf"{name} +{int(on)}\n")  # the file keeps the choice
                self.assertEqual("NonsensePass" in told, "--fusion_switch_file=c" in arguments)
        for wrong in ("--fusion_switch_file=none", "--optimization_switch=A", "--optimization_switch=A:maybe"):
            self.assertEqual(self.atc(wrong)[0], 255)

    def test_statistics_replace_no_other_file(self):
        (self.folder / "fusion_result.json").write_text("{}")
        self.assertEqual(self.atc("--input_shape=x:2,3")[0], 0)
        self.assertEqual((self.folder / "fusion_result.json").read_text(), "{}")
        (self.folder / "fusion_result.json").unlink()
        self.assertEqual(self.atc("--input_shape=x:2,3", "--export_compile_stat=0")[0], 0)
        self.assertFalse((self.folder / "fusion_result.json").exists())

    def test_check(self):
        code, told = self.look("--mode=3", "--model=m.onnx", "--framework=5", "--input_shape=x:2,3")
        self.assertEqual(code, 0, told)
        self.assertEqual(json.loads((self.folder / "check_result.json").read_text())["result"], "success")
        self.write(model([2, 3], op="Nonsense"))
        code, told = self.look("--mode=3", "--model=m.onnx", "--framework=5", "--check_report=r.json")
        self.assertNotEqual(code, 0)
        self.assertIn("operator Nonsense", json.loads((self.folder / "r.json").read_text())["message"])
        self.assertFalse((self.folder / "m.om").exists())

    def test_other_files_are_not_overwritten(self):
        (self.folder / "m.om").write_text("mine")
        code, told = self.atc()
        self.assertNotEqual(code, 0)
        self.assertIn("E10003", told)
        self.assertEqual((self.folder / "m.om").read_text(), "mine")

    def test_wrong_arguments(self):
        self.assert_refused(255, "E10007", framework="3")
        for soc in ("Tesla", "Ascend999", "Ascend", "Ascend910B9", "Ascend310P3Vir", "Ascend999Vir02"):
            self.assert_refused(255, f"E10001: --soc_version is {soc}, expected", soc=soc)
        self.assert_refused(255, "E10004: --om", "--mode=1")
        self.assert_refused(255, "E10001", "--mode=30")
        self.assert_refused(255, "E10001: --precision_mode is float16, expected one of: force_fp16",
                            "--precision_mode=float16")
        self.assert_refused(255, "E10001: --deterministic is 2", "--deterministic=2")
        self.assert_refused(255, "E10001: only one of", "--precision_mode=force_fp32", "--precision_mode_v2=origin")
        self.assert_refused(255, "E10014: --output_type has FP8", "--output_type=FP8")
        self.assert_refused(255, "E10001", "--nonsense=1")
        self.assert_refused(255, "E10010: invalid value for --log:loud", "--log=loud")
        self.assert_refused(255, "E10002", "--input_shape=x")
        self.assert_refused(255, "E10002", "--input_shape=x:2,a")
        self.assert_refused(255, "E10004", output="")

    def test_socs(self):
        for soc in ("Ascend910B3", "Ascend310", "Ascend310P3", "Ascend310P3Vir02", "Ascend910_9392", "Ascend910ProB"):
            self.assertEqual(self.atc(soc=soc)[0], 0, soc)

    def test_ranges(self):
        run = lambda *shape: subprocess.run([ATC.parent / "cannon", "model", "run", "m.om", "--random", "1", "--shape",
                                             *shape], cwd=self.folder, capture_output=True, text=True, timeout=60)
        for option in ("--input_shape=x:1~4,3", "--input_shape_range=x:[1~4,3]"):
            self.assertEqual(self.atc(option)[0], 0)
            self.assertIn(b"range\tx\t1 4 0 -1\n", (self.folder / "m.om").read_bytes())
            self.assertEqual(run("x:4,3").returncode, 0)
            done = run("x:5,3")
            self.assertEqual(done.returncode, 1)
            self.assertIn("dimension 0 of input 0 (x) is 5, expected 1 to 4 as the model was made for", done.stderr)
        self.assertEqual(self.atc("--input_shape=x:2~-1,3")[0], 0)
        self.assertEqual((run("x:9,3").returncode, run("x:1,3").returncode), (0, 1))
        (self.folder / "m.om").unlink()
        for wrong in ("x:4~1,3", "x:1~,3", "x:~4,3", "x:[1~4,3", "x:1~4,,3", "x:-1~4,3", "x:1~2~3,3"):
            self.assert_refused(255, "E10002: --input_shape has", f"--input_shape={wrong}")
        self.assert_refused(255, "E10009: ranges", "--input_shape=x:1~4,3", "--dynamic_batch_size=1,2")
        self.assert_refused(255, "only one of", "--input_shape=x:1~4,3", "--input_shape_range=x:[1~4,3]")

    def test_inputs_and_outputs_in_other_forms(self):
        """y = relu(x) of 20 channels: float16 inputs, and the layout NC1HWC0 in blocks of 16."""
        x = np.random.default_rng(1).integers(-9, 9, (2, 20, 3, 5)).astype("f4")
        blocks = np.zeros((2, 32, 3, 5), "f2")
        blocks[:, :20] = x
        blocks = blocks.reshape(2, 2, 16, 3, 5).transpose(0, 1, 3, 4, 2)
        self.write(model(list(x.shape)))
        def check(given, expected, *options):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            code, told = self.atc("--input_fp16_nodes=x", *options)
            self.assertEqual(code, 0, told)
            np.save(self.folder / "x.npy", np.ascontiguousarray(given))
            (got,) = self.outputs("out").values()
            self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
            np.testing.assert_array_equal(got, expected)
        wide = np.maximum(x, 0)
        check(x.astype("f2"), wide)
        check(blocks, wide, "--is_input_adjust_hw_layout=true")
        check(x.astype("f2"), wide, "--is_input_adjust_hw_layout=false")
        check(blocks, np.maximum(blocks, 0), "--is_input_adjust_hw_layout=true", "--out_nodes=only:0",
              "--is_output_adjust_hw_layout=true")
        self.assertEqual(self.atc("--is_input_adjust_hw_layout=true")[0], 0)  # without nodes: no effect
        (self.folder / "m.om").unlink()
        self.assert_refused(255, "expected true or false for each of the 1 nodes", "--input_fp16_nodes=x",
                            "--is_input_adjust_hw_layout=true,true")
        self.assert_refused(100000 & 255, "q is no input of the model", "--input_fp16_nodes=q")
        (self.folder / "aipp.cfg").write_text("aipp_op { input_format: RGB888_U8 }")
        self.write(model([1, 3, 4, 6]))
        self.assert_refused(100000 & 255, "another layout than NCHW", "--input_fp16_nodes=x",
                            "--is_input_adjust_hw_layout=true", "--insert_op_conf=aipp.cfg")
        self.assertEqual(self.atc("--input_fp16_nodes=x", "--insert_op_conf=aipp.cfg")[0], 0)
        (self.folder / "m.om").unlink()
        self.write(model([2, 3]))
        self.assert_refused(100000 & 255, "another shape than 4 known dimensions", "--input_fp16_nodes=x",
                            "--is_input_adjust_hw_layout=true")

    def test_nodes_stay_float32(self):
        """Of two products, one is kept in float32 by its name, its operator or a list of mixed modes."""
        b = onnx_bytes
        ones = [b.initialiser(n, [8, 8], [1.0] * 64) for n in "uv"]
        self.write(b.model([b.node("MatMul", ["x", "u"], ["a"], "first"), b.node("Softmax", ["a"], ["s"], "soft"),
                            b.node("MatMul", ["s", "v"], ["y"], "second")],
                           [b.value("x", [8, 8])], [b.value("y", [8, 8])], ones))
        write = lambda text: (self.folder / "f").write_text(text)
        def halves(*options):
            code, told = self.atc("--precision_mode=force_fp16", *options)
            self.assertEqual(code, 0, told)
            subprocess.run([ATC.parent / "cannon", "model", "show", "m.om", "--json", "s.json", "--force"], check=True,
                           cwd=self.folder, capture_output=True, timeout=60)
            told = json.loads((self.folder / "s.json").read_text())
            return next(p["matches"] for p in told["passes"] if "half" in p["name"].lower() or "16" in p["name"])
        every = halves()
        write("# kept\nsecond\n")
        self.assertEqual(halves("--keep_dtype=f"), every - 1)
        write("OpType::MatMul\n")
        self.assertEqual(halves("--keep_dtype=f"), every - 2)
        write("OpType::SoftmaxV2:InputDtype:float32,OutputDtype:float32\n"
              "first::InputDtype:float32,OutputDtype:float32\n")
        self.assertEqual(halves("--customize_dtypes=f"), every - 2)
        write('{"black-list": {"to-add": ["MatMul"], "to-remove": []}, "gray-list": {}}')
        self.assertEqual(self.atc("--precision_mode=allow_mix_precision", "--modify_mixlist=f")[0], 0)
        self.assertIn(b"whole\t-\tOpType::MatMul\n", (self.folder / "m.om").read_bytes())
        (self.folder / "m.om").unlink()
        self.assert_refused(255, "expected a mixed --precision_mode", "--modify_mixlist=f")
        write("nonsense")
        self.assert_refused(255, "is no JSON", "--modify_mixlist=f", "--precision_mode=allow_mix_precision")
        self.assert_refused(255, "line for nonsense is malformed", "--customize_dtypes=f")
        self.assert_refused(255, "No such file", "--keep_dtype=none")

    def test_options_for_npus_are_checked_and_told(self):
        files = {"op_precision_mode": ("[ByOpType]\nSoftmax=high_precision\n", "Softmax=quick\n"),
                 "compression_optimize_conf": ("enable_first_layer_quantization:true\n", "enable: maybe\n"),
                 "graph_parallel_option_path": ("{}", "{")}
        for option, (right, wrong) in files.items():
            (self.folder / "f").write_text(right)
            code, told = self.atc(f"--{option}=f")
            self.assertEqual(code, 0, told)
            self.assertIn(f"Warning: --{option} concerns the compilation for an NPU, and has no effect here.\n", told)
            (self.folder / "m.om").unlink()
            (self.folder / "f").write_text(wrong)
            self.assert_refused(255, f"E10001: --{option} is f, which ", f"--{option}=f")
            self.assert_refused(255, "No such file", f"--{option}=none")
        for option, value, default in (("sparsity", "1", "0"), ("disable_reuse_memory", "1", "0")):
            self.assertIn(f"Warning: --{option} ", self.atc(f"--{option}={value}")[1])
            self.assertNotIn("Warning", self.atc(f"--{option}={default}")[1])
            (self.folder / "m.om").unlink()
            self.assert_refused(255, f"E10001: --{option} is 2, expected one of: 0 1", f"--{option}=2")

    def test_single_operators(self):
        tensor = lambda kind="int32", shape=(3, 3): {"format": "ND", "shape": list(shape), "type": kind}
        add = {"op": "Add", "input_desc": [tensor(), tensor()], "output_desc": [tensor()]}
        named = {"op": "Softmax", "name": "soft", "input_desc": [tensor("float16")],
                 "output_desc": [tensor("float16")],
                 "attr": [{"name": "axes", "type": "list_int", "value": [-1]}]}
        def make(content, soc="Ascend910B3"):
            (self.folder / "ops.json").write_text(content if isinstance(content, str) else json.dumps(content))
            return self.look("--singleop=ops.json", "--output=ops", f"--soc_version={soc}")
        open_shape = {"op": "Add", "name": "open", "input_desc": [tensor(shape=(-1, 3))] * 2,
                      "output_desc": [tensor(shape=(-1, 3))]}
        code, told = make([add, open_shape])
        self.assertEqual(code, 0, told)
        self.assertEqual({p.name for p in (self.folder / "ops").iterdir()},
                         {"0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om", "open.om"})
        for content, words in (("{", "expected a list of operators in JSON"), ([{}], "no name of an operator"),
                               ([dict(add, op="Nonsense")], "there is no operator Nonsense"),
                               ([dict(add, output_desc=[tensor(shape=(2, 3))])], "operator 0 cannot be made: "),
                               ([dict(add, input_desc=[tensor("int3")])], "the type int3 in input_desc"),
                               ([dict(named, attr=[{"name": "axes", "type": "int", "value": "x"}])],
                                "the attribute axes"), ([dict(add, name="../x")], "expected one of a file")):
            code, told = make(content)
            self.assertEqual(code, 255, told)
            self.assertIn(words, told)
        self.assertIn("--soc_version is Ascend999", make([add], "Ascend999")[1])
        self.assertIn("only one of --singleop and --model", self.atc("--singleop=ops.json")[1])

    def test_nodes_without_names_are_told_by_number_and_output(self):
        b = onnx_bytes
        for name, words in (("", "node 1 without a name, which makes y (Nonsense)"), ("n", "node n (Nonsense)")):
            self.write(b.model([b.node("Relu", ["x"], ["a"]), b.node("Nonsense", ["a"], ["y"], name)],
                               [b.value("x", [2, 3])], [b.value("y", [2, 3])]))
            self.assert_refused(500002 & 255, words)
        self.write(b.model([b.node("Relu", ["x"], ["a"]), b.node("Reshape", ["a", "s"], ["y"])], [b.value("x", [2, 3])],
                           [b.value("y", [5])], [b.initialiser("s", [1], [5], b.INT64)]))
        self.assert_refused(500002 & 255, "node 1 without a name, which makes y (Reshape)")

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
