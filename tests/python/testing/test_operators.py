# SPDX-License-Identifier: Apache-2.0
"""Tests that operators are found, called and checked: right ones pass, each kind of fault is found and named.

    CANNON_PREFIX=/path python3 tests/python/testing/test_operators.py
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import support
from support import BEGIN, FAULTS, HERE, FolderTest, opp_folder

# Operators of the installation, one for each kind of argument. Every case must pass.
RIGHT = BEGIN + '''
@operator_test("Add", dtypes="float32 float16 bfloat16 float64 int32 int8 complex64", limit=60,
               values="normal small large special extreme", attributes={"alpha": [1, 2]})
def add(x, y, alpha):
    return x + alpha * y

broadcast = operator_test("Mul", reference=np.multiply, shapes=shapes.broadcast, dtypes="float32 int64", limit=30)

@operator_test("Matmul", shapes=shapes.matmul((2, 3, 4), (7, 1, 5)), attributes={"cubeMathType": 0}, values="normal",
               dtypes="float32 float16", flops=lambda case: 2 * np.prod(case.shapes[0]) * case.shapes[1][1],
               tolerance=lambda case: Tolerance(ulp=4, absolute=1e-5 if case.dtype == "float32" else 0.02))
def matmul(a, b):
    return a @ b

@operator_test("InplaceAdd", attributes={"alpha": 2}, limit=20)
def in_place(x, y, alpha):
    return x + alpha * y

@operator_test("Cat", shapes=[([(2, 3), (4, 3)],), ([(1, 2)],)], attributes={"dim": [0]}, dtypes="float32 int8")
def cat(tensors, dim):
    return np.concatenate(tensors, dim)

@operator_test("GtScalar", attributes={"other": [0.5]}, limit=20)
def greater(x, other):
    return x > other

@operator_test("Sort", shapes=[(5, 8), (1,)], values="normal", attributes={"dim": [-1], "descending": [False, True],
               "stable": True}, out_dtype=lambda case: [case.dtype, "int64"])
def sort(x, dim, descending):
    order = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, order, dim), order

@operator_test("IndexSelect", shapes=[(5, 7)], attributes={"dim": [0, 1]},
               inputs={"index": Input(dtype="int64", shape=(3,), values=(0, 4))})
def index_select(x, dim, index):
    return np.take(x, index.astype(int), dim)

def padded(shape):
    return ((shape[1] + 3, 1), 5) if len(shape) == 2 else None

@operator_test("ReduceSum", shapes=[(5, 8)], layouts=["contiguous", padded], values=[(-1, 1), [1, 2, 3]],
               attributes={"dims": [[0], [0, 1]], "keepDims": [True, False], "dtype": "float32"},
               tolerance=Tolerance(absolute=1e-5), precision="same")
def total(x, dims, keepDims):
    return x.sum(tuple(dims), keepdims=keepDims)

@operator_test("LayerNorm", shapes=[((3, 8), (8,), (8,)), ((3, 8), None, None), ((3, 8), (8,), None)], values="normal",
               attributes={"normalizedShape": [[8]], "eps": 1e-5}, tolerance=Tolerance(ulp=4, absolute=1e-5),
               inputs={"bias": Input(values="unit")})
def layer_norm(x, weight, bias, eps):
    mean, scale = x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    y = (x - mean) * scale * (1 if weight is None else weight) + (0 if bias is None else bias)
    return y, mean, scale

logical = operator_test("LogicalAnd", reference=np.logical_and, dtypes="bool uint8", limit=20)

@operator_test("Add", dtypes="float32+int32", shapes=[(3,)], attributes={"alpha": 1}, values="normal")
def mixed(x, y):
    return x + y

@operator_test("Exp", shapes=[(3,)], error=161002, dtypes="complex64", out_dtype="int8")
def refused(x):
    return np.zeros(3)

@operator_test(lambda x, y: x * y, dtypes="float32 int8", limit=20)
def python(x, y):
    return x * y

@operator_test("Add", shapes=[shapes.huge(1 << 20)], layouts="contiguous", attributes={"alpha": 1})
def only_if_huge(x, y):
    return x + y
'''


class Right(FolderTest):
    def test_kinds_of_arguments(self):
        self.file("test_right.py", RIGHT)
        done = self.cannon_test(".", "--json", "report.json", status=0)
        report = json.loads((self.folder / "report.json").read_text())
        tests = {t["name"]: t["cases"] for t in report["files"][0]["tests"] if t["cases"]}
        defined = set(re.findall(r"^def (\w+)|^(\w+) = operator_test", RIGHT, re.M))
        defined = {a or b for a, b in defined} - {"padded", "only_if_huge"}
        self.assertEqual(set(tests), defined)
        self.assertEqual({c["status"] for cases in tests.values() for c in cases}, {"passed"}, done.stdout)
        self.assertEqual(len(tests["matmul"]), 2 * 9)
        for dtype, most in (("float64", 0), ("float32", 0.5), ("float16", 0.5), ("bfloat16", 0.5)):
            worst = max(c["worst_ulps"] for c in tests["add"] if c["dtypes"][0] == dtype)
            self.assertTrue(most - 0.1 < worst <= most, f"the sum of two {dtype} is rounded once: {worst} ULPs")
        self.assertEqual(report["environment"]["soc"], "Ascend910B3")
        self.assertIs(report["environment"]["cannon"], True)

    def test_the_device_and_huge_shapes(self):
        self.file("a_cases.py", RIGHT)
        done = self.cannon_test("a_cases.py", "--device", "Ascend910A", "--huge", "--case", "only_if_huge[*", "--time",
                                status=0)
        self.assertIn("Ascend910A", done.stdout)
        self.assertIn("only_if_huge[float32-1048576-contiguous-normal-alpha=1-seed0]", done.stdout)

    def test_times(self):
        self.file("test_right.py", RIGHT)
        self.cannon_test(".", "--repeat", 5, "--warmup", 1, "--case", "matmul[*", "--json", "r.json", status=0)
        cases = json.loads((self.folder / "r.json").read_text())["files"][0]["tests"][0]["cases"]
        for case in cases:
            timing, spread = case["timing"], case["timing"]["run"]
            self.assertEqual((timing["runs"], timing["warmup"]), (5, 1))
            self.assertTrue(0 < spread["least"] <= spread["lower_quartile"] <= spread["median"]
                            <= spread["upper_quartile"] <= spread["most"])
            m, k, n = *case["shapes"][0], case["shapes"][1][1]
            time = (timing["device"] or timing["run"])["median"]
            self.assertAlmostEqual(timing["gflop_per_s"] * time * 1e9, 2 * m * k * n, 3)
            size = 4 if case["dtypes"][0] == "float32" else 2
            self.assertAlmostEqual(timing["gb_per_s"] * time * 1e9, size * (m * k + k * n + m * n), 3)
            self.assertGreaterEqual(timing["device_peak_bytes"], timing["bytes"])

    def test_without_torch_the_cases_are_skipped(self):
        self.file("torch.py", "raise ImportError('not here')\n")
        self.file("test_torch.py", BEGIN + 'erf = operator_test("Erf", reference="torch.erf", inputs={"x": Input()}, '
                  'shapes=[(3,)], layouts="contiguous", values="normal")\n')
        done = self.cannon_test("test_torch.py", status=0, PYTHONPATH=str(self.folder))
        self.assertIn("skipped: PyTorch is not installed", done.stdout)
        self.assertIn("1 skipped", done.stdout)


class Own(FolderTest):
    """The user's operator, right and wrong."""

    def run_fault(self, name, *arguments, status=1):
        shutil.copy(HERE / "files/test_scale_add.py", self.folder)
        path = f"/nonexistent:{opp_folder()}"
        done = self.cannon_test(".", "--json", "r.json", "--force", *arguments, status=status,
                                ASCEND_CUSTOM_OPP_PATH=path, SCALE_ADD_FAULT=str(FAULTS[name]))
        report = json.loads((self.folder / "r.json").read_text())
        self.output = done.stdout
        return report, report["files"][0]["tests"][0]["cases"]

    def failing(self, name, kind, *arguments):
        """The first failures of the cases that fail, by id. All of them have the kind."""
        _, cases = self.run_fault(name, *arguments)
        bad = {c["id"]: c["failures"][0] for c in cases if c["failures"]}
        self.assertEqual({f["kind"] for f in bad.values()}, {kind}, self.output)
        return bad

    def test_right(self):
        report, cases = self.run_fault("RIGHT", "--check", status=0)
        self.assertEqual(report["totals"]["passed"], len(cases))
        self.assertEqual(cases[0]["workspace_bytes"], 256)
        self.assertTrue(any(c["shapes"] == [[0, 3], [0, 3]] for c in cases), "empty")
        self.assertTrue(any(c["shapes"] == [[], []] for c in cases), "without dimensions")

    def test_one_element(self):
        bad = self.failing("WRONG_ELEMENT", "mismatch")
        failure = bad["scale_add[float32-3x4-contiguous-normal-scale=0.5-fault=1-seed0]"]
        self.assertEqual((failure["index"], failure["n_wrong"], failure["n"]), ([0, 2], 1, 12))
        # At most the lowest seven bits are others.
        self.assertTrue(1 <= failure["ulps"] <= 128.5, failure)
        self.assertRegex(failure["message"], r"^element \[0, 2\] is \S+, expected \S+ \(\S+ ULPs\); 1 of 12 elements "
                         "are wrong$")
        self.assertEqual(len({i.split("-")[1] for i in bad}), 1, "shapes with three elements only")

    def test_nan(self):
        bad = self.failing("WRONG_NAN", "mismatch")
        failure = bad["scale_add[float16-3x4-sliced-normal-scale=0.5-fault=2-seed0]"]
        self.assertEqual((failure["actual"], failure["index"], failure["n_wrong"]), ("nan", [0, 2], 1))

    def test_dtype(self):
        _, cases = self.run_fault("WRONG_DTYPE")
        wrong = [c for c in cases if c["status"] == "failed"]
        self.assertEqual({c["dtypes"][0] for c in wrong}, {"float16"})
        kinds = {f["kind"] for c in wrong if c["shapes"][0] == [3, 4] for f in c["failures"]}
        self.assertEqual(kinds, {"mismatch", "outside"}, "float32 elements do not fit")

    def test_strides_and_offset(self):
        bad = self.failing("WRONG_STRIDES", "mismatch")
        self.assertEqual({i.split("-")[2] for i in bad}, {"transposed", "sliced", "broadcast"})
        bad = self.failing("WRONG_OFFSET", "mismatch")
        self.assertEqual({i.split("-")[2] for i in bad}, {"offset", "sliced"})

    def test_what_is_written_elsewhere(self):
        bad = self.failing("CHANGES_INPUT", "input")
        self.assertIn("changed its input y: 4 bytes, the first at the start of the first element",
                      bad["scale_add[float32-3x4-contiguous-normal-scale=0.5-fault=6-seed0]"]["message"])
        bad = self.failing("BEHIND_WORKSPACE", "outside")
        self.assertIn("16 bytes outside its workspace of 256", next(iter(bad.values()))["message"])

    def test_nothing_written(self):
        bad = self.failing("UNWRITTEN", "mismatch")
        self.assertTrue(all(f["actual"] == "nan" for f in bad.values()))

    def test_leak(self):
        report, cases = self.run_fault("LEAKS", "--check")
        self.assertEqual({c["status"] for c in cases}, {"passed"})
        leaks = report["files"][0]["leaks"]
        self.assertEqual(len(leaks), 1)
        n = sum(c["shapes"][0] == [3, 4] for c in cases)
        self.assertIn(f"Live blocks: {n}, {4096 * n} bytes", leaks[0])
        self.assertIn("scale_add.c:", leaks[0], "the line of the allocation")
        self.assertIn("MEMORY LEFT BEHIND", self.output)
        self.run_fault("LEAKS", status=0)

    def test_crash(self):
        bad = self.failing("CRASHES", "crashed", "--case", "scale_add[float32-*-normal-scale=0.5-*")
        self.assertEqual({i.split("-")[1] for i in bad}, {"3x4"})
        name = "scale_add[float32-3x4-sliced-normal-scale=0.5-fault=9-seed0]"
        self.assertIn(f"CRASHED {name}\n", self.output)
        self.assertIn("ended by SIGSEGV", bad[name]["message"])
        self.assertIn("scale_add crashes", self.output, "what the operator printed before")
        self.assertRegex(self.output, r"\n5 passed, 5 crashed\n$")

    def test_hang(self):
        some = "scale_add[float32-*-contiguous-normal-scale=0.5-*"
        bad = self.failing("HANGS", "timeout", "--timeout", "1", "--case", some)
        self.assertEqual(list(bad), ["scale_add[float32-3x4-contiguous-normal-scale=0.5-fault=10-seed0]"])
        self.assertIn("had not finished after 1 s", next(iter(bad.values()))["message"])
        self.assertIn("3 passed, 1 timeout", self.output)

    def test_error_code(self):
        bad = self.failing("REFUSES", "call")
        self.assertEqual({f["code"] for f in bad.values()}, {161002})
        self.assertIn("aclnnScaleAddGetWorkspaceSize returned 161002", next(iter(bad.values()))["message"])

    def test_the_example(self):
        example = HERE.parents[2] / "examples/python/test_my_operator.py"
        self.assertRegex(self.cannon_test(example, status=0).stdout, r"\n360 passed\n$")

    def test_library_and_schema_of_the_test(self):
        library = self.folder / "build/libmine.so"
        library.parent.mkdir()
        shutil.copy(opp_folder() / "op_api/lib/libcust_opapi.so", library)
        text = BEGIN + '''
@operator_test("aclnnScaleAdd", library="build/libmine.so", {schema}shapes=[(3,)],
               attributes={{"scale": 2.0, "fault": 0}})
def mine(x, y, scale):
    return x + scale * y
'''
        self.file("test_mine.py", text.format(schema='schema="ScaleAdd(Tensor x, Tensor y, float scale, int fault, '
                                              'Tensor! out)", '))
        self.cannon_test(".", status=0)
        self.file("test_mine.py", text.format(schema=""))
        self.assertIn('give the test its arguments, such as schema="ScaleAdd(', self.cannon_test(".", status=1).stdout)


class Wrong(FolderTest):
    """Tests that are wrong themselves."""

    ONE = 'shapes=[(3,)], layouts="contiguous", values="normal"'

    def problems(self, **words):
        """Runs all files in the folder. Expects that the part of the output about each test has these words."""
        output = self.cannon_test(".", status=1).stdout
        for name, some in words.items():
            part = re.search(rf"\n[A-Z ]+ (\S*test_)?{name}(\[|\.py)(.|\n)*?(\n\n|$)", output)
            self.assertTrue(part, output)
            for word in some:
                self.assertIn(word, part[0])
        return output

    def test_operators(self):
        one = self.ONE
        self.file("test_wrong.py", BEGIN + f'''
absent = operator_test("NotThere", reference=np.exp, {one})
inputs = operator_test("Add", reference=np.exp, {one})
outputs = operator_test("Exp", reference=lambda x: (x, x), {one})
attribute = operator_test("Exp", reference=np.exp, {one}, attributes={{"speed": 3}})
missing = operator_test("Muls", reference=np.positive, {one})
@operator_test("Exp", {one})
def raising(a):
    return 1 / 0
accepted = operator_test("Exp", reference=np.exp, {one}, error=161002)
other_code = operator_test("Exp", reference=np.exp, {one}, dtypes="complex64", out_dtype="int8", error=5)
''')
        self.problems(absent=["ERROR", "there is no operator aclnnNotThere in the installation"],
                      inputs=["the reference has 1 inputs (input1), but the operator has 2 (self, other)"],
                      outputs=["the reference returned 2 outputs, but the operator has 1 (out)"],
                      attribute=["the operator has no attribute speed"],
                      missing=["the test gives no attribute other of Muls(Tensor self, Scalar other, Tensor! out)"],
                      raising=["the reference raised ZeroDivisionError: division by zero", 'test_wrong.py", line'],
                      accepted=["FAILED", "the operator accepted the case, expected error 161002"],
                      other_code=["FAILED", "returned 161002", "expected error 5"])

    def test_a_task_that_fails_on_the_device(self):
        self.file("test_index.py", BEGIN + f'''
import os
@operator_test("IndexSelect", {self.ONE.replace("contiguous", "contiguous offset")}, attributes={{"dim": 0}},
               inputs={{"index": Input(dtype="int64", values=(7, 9))}})
def index(x, dim, index):
    print("process", os.getpid())
    return x
good = operator_test("Exp", reference=np.exp, {self.ONE})
''')
        output = self.problems(index=["FAILED", "aclrtSynchronizeStream returned 507035", "expected -3 to 2"])
        self.assertRegex(output, r"\n1 passed, 2 failed\n$")
        self.assertEqual(len(set(re.findall(r"process (\d+)", output))), 2, "a new process after each")

    def test_files(self):
        for name, text in (("test_import", "import nowhere"),
                           ("test_exit", "raise SystemExit(3)"),
                           ("test_abort", "import os; os.abort()"),
                           ("test_shape", 'x = operator_test("Exp", reference=np.exp, shapes=[(-1,)])')):
            self.file(f"{name}.py", BEGIN + text)
        output = self.problems(**{"import": ["No module named 'nowhere'"], "exit": ["SystemExit: 3"],
                                  "shape": ["(-1,)"], "abort": ["SIGABRT", "while it imported the file"]})
        self.assertIn("4 files cannot be used", output)
        self.file("empty_cases.py", BEGIN)
        self.assertIn("the files define no tests", self.cannon_test("empty_cases.py", status=2).stderr)

    def test_python_operators(self):
        one = self.ONE
        self.file("test_python.py", BEGIN + f'''
def noisy(a):
    print("seen")
    raise KeyError("k")
dtype = operator_test(lambda a: a.astype(np.float64), reference=np.positive, {one})
shape = operator_test(lambda a: a[:2], reference=np.positive, {one})
count = operator_test(lambda a: (a, a), reference=np.positive, {one})
raising = operator_test(noisy, reference=np.positive, {one})
''')
        self.problems(dtype=["output 0 has dtype float64, expected float32"],
                      shape=["output 0 has shape (2,), expected (3,)"],
                      count=["the operator returned 2 outputs, expected 1"], raising=["KeyError: 'k'", "seen"])


class CommandLine(FolderTest):
    def setUp(self):
        super().setUp()
        self.file("test_a.py", BEGIN + 'exp = operator_test("Exp", reference=np.exp, shapes=[(3,)], values="normal")\n')
        self.file("sub/b_cases.py", BEGIN + 'log = operator_test("Log", reference=np.log, shapes=[(3,)], '
                  'values="positive")\n')
        self.file("sub/other.py", "raise Exception('this is no test file')\n")

    def test_discovery_and_list(self):
        lines = self.cannon_test(".", "--list", status=0).stdout.split()
        self.assertEqual(len(lines), 8)
        self.assertEqual({line.partition("[")[0] for line in lines}, {"exp", "log"})
        self.assertEqual(len(self.cannon_test("sub", "--list", status=0).stdout.split()), 4)
        self.assertIn("this is no test file", self.cannon_test("sub/other.py", status=1).stdout)

    def test_seeds_reproduce(self):
        def inputs(*arguments, **variables):
            self.cannon_test("--json", "r.json", ".", *arguments, status=0, **variables)
            report = json.loads((self.folder / "r.json").read_text())
            return {c["id"]: c["worst_ulps"] for f in report["files"] for t in f["tests"] for c in t["cases"]}
        first, again = inputs("--seed", "5"), inputs(CANNON_SEED="5")
        self.assertEqual(first, again)
        other = inputs("--seed", "6")
        self.assertFalse(set(first) & set(other))
        self.assertNotEqual(sorted(first.values()), sorted(other.values()))
        case = "log[float32-3-sliced-positive-seed5]"
        self.assertEqual(inputs("--case", case), {case: first[case]}, "a case of another seed by its id")
        self.assertIn("seed 5;", self.cannon_test(".", "--seed", "5").stdout)

    def test_interrupt(self):
        self.file("sub/test_hang.py", BEGIN + "import time\ndef hang(x):\n    open('started', 'w').close()\n"
                  "    time.sleep(60)\n"
                  "slow = operator_test(hang, reference=np.positive, shapes=[(3,)])\n")
        with subprocess.Popen([support.CANNON, "test", "test_a.py", "sub/test_hang.py", "--json", "r.json"],
                              cwd=self.folder, env=support.environment(), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE, start_new_session=True) as process:
            while not (self.folder / "started").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, "cannon test: interrupted\n"))
        self.assertIn("4 passed", out)
        self.assertEqual(json.loads((self.folder / "r.json").read_text())["totals"]["passed"], 4)

    def test_failures_name_the_command_that_repeats_them(self):
        self.file("test_a.py", BEGIN + 'exp = operator_test("Exp", reference=np.sin, shapes=[(3,)], values="normal")\n')
        done = self.cannon_test("test_a.py", "--seed", "8", status=1)
        again = re.search(r"again: cannon test (\S+) --case '(\S+)'", done.stdout)
        self.assertIn("-seed8]", again[2])
        repeated = self.cannon_test(again[1], "--case", again[2], status=1).stdout
        message = re.search(r"FAILED .*\n  (element .*)\n", done.stdout)[1]
        self.assertIn(message, repeated)
        self.assertIn("1 failed\n", repeated)

    def test_wrong(self):
        for arguments, words in (([], "no folder or file of tests"),
                                 (["nowhere"], "there is no file or folder nowhere"),
                                 ([".", "--sed", "3"], "option --sed not recognized"),
                                 ([".", "--seed", "x"], "--seed is 'x'"), ([".", "--repeat", "0"], "--repeat"),
                                 ([".", "--case", "nothing"], "no case has that id")):
            done = self.cannon_test(*arguments, status=2)
            self.assertIn(words, done.stderr)
            self.assertTrue(done.stderr.startswith("cannon test: "), done.stderr)
        (self.folder / "empty").mkdir()
        self.assertIn("no file test_*.py", self.cannon_test("empty", status=2).stderr)
        self.assertIn("CANNON_SEED is 'many'", self.cannon_test(".", status=2, CANNON_SEED="many").stderr)

    def test_help_is_the_packages(self):
        text = self.cannon_test("--help", status=0).stdout
        self.assertEqual(text, (support.PACKAGES / "cannon/testing/help.txt").read_text())
        self.assertEqual(text, self.cannon_test("--seed", "3", "--help", status=0).stdout)

    def test_without_numpy_or_python(self):
        os.symlink(shutil.which("env"), self.folder / "env")
        self.file("python3", "#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n").chmod(0o755)
        self.assertIn("NumPy is not installed for", self.cannon_test(".", status=2, PATH=f"{self.folder}:/bin").stderr)
        self.assertIn("cannot start python3", self.cannon_test(".", status=1, PATH="/nonexistent").stderr)


if __name__ == "__main__":
    unittest.main()
