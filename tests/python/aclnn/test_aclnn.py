# SPDX-License-Identifier: Apache-2.0
"""cannon.aclnn: arguments and results of each kind, errors, streams, threads, and the outputs that are inferred."""
import inspect
import os
import re
import threading
import unittest

import numpy as np

import cannon
from cannon import aclnn, dtypes, infer, runtime

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
A = np.arange(12, dtype=np.float32).reshape(3, 4)


class Table(unittest.TestCase):
    def test_every_operator_of_the_schemas_is_in_the_library(self):
        names = set()
        folder = os.path.join(ROOT, "ops")
        for file in os.listdir(folder):
            if file.endswith(".ops"):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    names.update(re.findall(r"^(\w+)(?:@\w+)?\(", f.read(), re.M))
        self.assertGreater(len(names), 700)
        self.assertEqual(set(aclnn.operators()) - {"Stretch"}, names)
        self.assertLess(names, set(dir(aclnn)) | {"Stretch"})

    def test_every_operator_is_a_function(self):
        for name in aclnn.operators():
            function = getattr(aclnn, name)
            parameters = inspect.signature(function).parameters
            wanted = [a for a in aclnn.schema(name) if not a.is_output]
            self.assertEqual(list(parameters), [a.parameter for a in wanted] + ["out"], name)

    def test_schema(self):
        arguments = aclnn.schema("Add")
        self.assertEqual([(a.name, a.type, a.optional, a.written) for a in arguments],
                         [("self", "Tensor", False, False), ("other", "Tensor", False, False),
                          ("alpha", "Scalar", False, False), ("out", "Tensor", False, True)])
        self.assertEqual([a.default for a in arguments][1:3], [aclnn.Argument.REQUIRED, 1])
        self.assertEqual(str(inspect.signature(aclnn.Add)), "(self, other, alpha=1, *, out=None)")
        self.assertIn("Tensor& selfRef", aclnn.InplaceAdd.__doc__)
        self.assertRaises(ValueError, aclnn.schema, "Frobnicate")

    def test_unknown_names(self):
        with self.assertRaisesRegex(AttributeError, "no operator Frobnicate"):
            aclnn.Frobnicate

    def test_the_table_of_the_guide(self):
        """docs/python/aclnn.md tells how many operators infer their outputs."""
        counts = {"in place": 0, "inferred": 0, "given": 0}
        given = []
        for name in set(aclnn.table()) - {"Stretch"}:     # OwnOperators adds that
            schema = aclnn.Schema(name)
            kind = "in place" if not schema.outputs else "inferred" if infer.infers(schema) else "given"
            counts[kind] += 1
            given += [name] if kind == "given" else []
        with open(os.path.join(ROOT, "docs", "python", "aclnn.md"), encoding="utf-8") as f:
            rows = re.findall(r"^\| (in place|inferred|given)\b.*\| (\d+) \|(.*)\|$", f.read(), re.M)
        self.assertEqual({k: int(n) for k, n, _ in rows}, counts)
        self.assertEqual(re.findall(r"`(\w+)`", next(r for r in rows if r[0] == "given")[2]), sorted(given))


class Calls(unittest.TestCase):
    def test_arrays_tensors_and_numbers(self):
        x = cannon.Tensor(A)
        for arguments, wanted in (((A, A, 2), 3 * A), ((x, A), 2 * A), ((A, x), 2 * A), ((x, 1), A + 1),
                                  ((2.5, x), A + np.float32(2.5)), (([[1, 2]], [[3], [4]]), [[4, 5], [5, 6]])):
            got = aclnn.Add(*arguments)
            self.assertIsInstance(got, cannon.Tensor)
            np.testing.assert_array_equal(got.numpy(), wanted)
        self.assertEqual(aclnn.Add(self=x, other=A, alpha=-1).numpy().any(), False)
        b = cannon.Tensor.of_bytes(np.array([0x3f80], np.uint16), "bfloat16")
        self.assertEqual(aclnn.Add(b, 2).to("float32").tolist(), [3])
        self.assertEqual(aclnn.Add(np.int8([1]), 2).dtype, "int8")      # a number has the tensor's dtype ...
        self.assertEqual(aclnn.Add(np.int8([1]), 2.5).dtype, "float32")         # ... if that can hold its kind

    def test_scalars_keep_their_sign_and_kind(self):
        x = cannon.Tensor(np.float32([1, -1]))
        for _ in range(2):                      # the second comes from those that are kept
            for value in (0.0, -0.0, 1, True, 1.0, np.float32(1), np.int16(3), float("nan"), -float("inf")):
                got = aclnn.Muls(x, value).numpy()
                wanted = np.float32([1, -1]) * np.float32(value)
                np.testing.assert_array_equal(got, wanted)
                np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
        self.assertEqual(aclnn.Muls(cannon.Tensor([1, 2]), 2).dtype, "int64")
        self.assertEqual(aclnn.Muls(cannon.Tensor([1, 2]), 2.0).dtype, "float32")
        self.assertEqual(aclnn.Muls(x, 1j).dtype, "complex64")
        self.assertEqual(aclnn.Muls(cannon.Tensor([True]), 2).dtype, "int64")
        for i in range(5000):                   # more than are kept
            aclnn.Muls(x, float(i))
        np.testing.assert_array_equal(aclnn.Muls(x, 4999.0).numpy(), [4999, -4999])
        with self.assertRaises(OverflowError):
            aclnn.Muls(x, 1 << 64)

    def test_lists(self):
        xs = [A, cannon.Tensor(A + 1), A[:1]]
        np.testing.assert_array_equal(aclnn.Cat(xs, 0).numpy(), np.concatenate([A, A + 1, A[:1]]))
        got = aclnn.ForeachMulScalarList(xs, [1.0, 2, 3.0])
        self.assertIsInstance(got, list)
        for g, x, f in zip(got, xs, (1, 2, 3)):
            np.testing.assert_array_equal(g.numpy(), np.asarray(x) * f)
        parts = aclnn.SplitWithSize(A, (1, 3), 1)
        self.assertEqual([p.shape for p in parts], [(3, 1), (3, 3)])

    def test_index(self):
        np.testing.assert_array_equal(aclnn.Index(A, [None, np.int64([2, 0])]).numpy(), A[:, [2, 0]])
        np.testing.assert_array_equal(aclnn.Index(A, [None, np.int64([2])]).numpy(), A[:, [2]])
        nothing = np.zeros((6, 0), np.int64)
        self.assertEqual(aclnn.Index(A, [nothing[0], nothing]).shape, (6, 0))
        self.assertEqual(aclnn.Index(A, [None, nothing]).shape, (A.shape[0], 6, 0))
        self.assertEqual(aclnn.Index(A, [nothing[0], np.int64([2, 0])]).shape, (A.shape[0], 2))  # [0] is ":" here

    def test_arrays_of_numbers(self):
        np.testing.assert_array_equal(aclnn.ReduceSum(A, [0]).numpy(), A.sum(0))
        np.testing.assert_array_equal(aclnn.ReduceSum(A, 0, True).numpy(), A.sum(0, keepdims=True))
        self.assertEqual(aclnn.ReduceSum(A).item(), A.sum())
        np.testing.assert_array_equal(aclnn.Permute(A, np.array([1, 0])).numpy(), A.T)

    def test_dtypes_and_strings(self):
        for dtype in ("float16", np.float16, dtypes.of("float16"), 1):
            self.assertEqual(aclnn.Cast(A, dtype).dtype, "float16")
        self.assertEqual(aclnn.ReduceSum(np.int32([1, 2])).dtype, "int64")
        self.assertEqual(aclnn.ReduceSum(np.int32([1, 2]), dtype="int32").dtype, "int32")
        self.assertEqual(aclnn.AscendQuant(A, np.float32([0.5]), None, False, "round", "int8").dtype, "int8")

    def test_optional_arguments(self):
        np.testing.assert_array_equal(aclnn.Clamp(A, None, 5).numpy(), A.clip(None, 5))
        out, mean, deviation = aclnn.LayerNorm(A, (4,))
        wanted = (A - A.mean(1, keepdims=True)) / np.sqrt(A.var(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5)
        np.testing.assert_allclose(mean.numpy(), A.mean(1, keepdims=True))
        out, mean, deviation = aclnn.LayerNorm(A, (4,), out=(None, False, False))
        self.assertIsNone(mean)

    def test_outputs_of_the_caller(self):
        out = cannon.Tensor.empty((3, 4))
        self.assertIs(aclnn.Exp(A, out=out), out)
        np.testing.assert_allclose(out.numpy(), np.exp(A), rtol=1e-6)
        values = cannon.Tensor.empty((3, 4))
        got = aclnn.Sort(A, dim=1, descending=True, out=(values, None))
        self.assertIs(got[0], values)
        np.testing.assert_array_equal(values.numpy(), A[:, ::-1])
        np.testing.assert_array_equal(got[1].numpy(), np.tile([3, 2, 1, 0], (3, 1)))
        half = cannon.Tensor.empty((3, 4), "float16")
        self.assertEqual(aclnn.Add(A, 1, out=half).dtype, "float16")
        with self.assertRaisesRegex(TypeError, "NormalFloatFloat: give out by out="):
            aclnn.NormalFloatFloat(0.0, 1.0)
        self.assertEqual(aclnn.NormalFloatFloat(0.0, 1.0, seed=3, out=cannon.Tensor.empty(5)).shape, (5,))

    def test_in_place(self):
        x = cannon.Tensor(A)
        self.assertIs(aclnn.InplaceAdd(x, A, alpha=2), x)
        np.testing.assert_array_equal(x.numpy(), 3 * A)
        aclnn.InplaceZero(x[1])
        np.testing.assert_array_equal(x.numpy()[1], 0)
        y, z = aclnn.ApplyRotaryPosEmb(*(cannon.Tensor(np.ones((1, 2, 1, 128), np.float16)) for _ in range(4)), 1)
        self.assertEqual((y.shape, z.shape), ((1, 2, 1, 128),) * 2)

    def test_random_numbers(self):
        x = cannon.Tensor(np.zeros(1000, np.float32))
        a = aclnn.InplaceUniform(x, 0.0, 1.0, 7, 0).numpy()
        np.testing.assert_array_equal(a, aclnn.InplaceUniform(x, 0.0, 1.0, seed=7).numpy())
        self.assertTrue((a != aclnn.InplaceUniform(x, 0.0, 1.0, seed=8).numpy()).any())
        self.assertTrue((a >= 0).all() and (a < 1).all())
        self.assertEqual(sorted(aclnn.Randperm(50, 1).tolist()), list(range(50)))

    def test_sizes_that_depend_on_data(self):
        mask = A > 4
        np.testing.assert_array_equal(aclnn.MaskedSelect(A, mask).numpy(), A[mask])
        np.testing.assert_array_equal(aclnn.Nonzero(mask).numpy(), np.argwhere(mask))
        values, inverse, counts = aclnn.Unique2(np.int32([3, 1, 3, 3]), True, True, True)
        self.assertEqual((values.tolist(), inverse.tolist(), counts.tolist()), ([1, 3], [1, 0, 1, 1], [1, 3]))

    def test_workspace(self):
        self.assertEqual(aclnn.Add.workspace_size(A, A), 0)
        x = cannon.Tensor(np.ones((64, 48), np.float32).T)
        sizes = [aclnn.Sort.workspace_size(np.zeros((n, 40), np.float32).T, dim=0) for n in (1, 100)]
        self.assertEqual(sizes, sorted(sizes))
        for n in (10, 1000, 100):               # the stream's workspace grows, and stays
            a = np.random.default_rng(n).random((n, 40), np.float32).T
            np.testing.assert_array_equal(aclnn.Sort(cannon.Tensor(a), dim=1)[0].numpy(), np.sort(a, 1))
        self.assertEqual(x.shape, (48, 64))


class OwnOperators(unittest.TestCase):
    """custom.c is in a folder that ASCEND_CUSTOM_OPP_PATH names."""

    def test_call(self):
        scale = aclnn.add("Stretch(Tensor x, float factor, int8_t power, Tensor! out)",
                          infer=lambda x, factor, power: (x.shape, x.dtype))
        self.assertIs(aclnn.Stretch, scale)
        np.testing.assert_array_equal(aclnn.Stretch(A, 2.5, -3).numpy(), A * 2.5 - 3)
        out = cannon.Tensor.empty((3, 4))
        self.assertIs(scale(A, 2, power=1, out=out), out)
        self.assertIn("Stretch", aclnn.operators())
        self.assertEqual(aclnn.schema("Stretch")[1].name, "factor")
        with self.assertRaises(cannon.AclError) as raised:
            scale(A, 2, 1, out=cannon.Tensor.empty((3, 5)))
        self.assertEqual(raised.exception.function, "aclnnStretchGetWorkspaceSize")

    def test_refused(self):
        with self.assertRaisesRegex(AttributeError, "no aclnnMissing"):
            aclnn.add("Missing(Tensor x, Tensor! out)")
        for line in ("Stretch", "Stretch(Tensor)", "Stretch(Thing x)"):
            self.assertRaises(ValueError, aclnn.add, line)


class Errors(unittest.TestCase):
    def test_acl_error(self):
        with self.assertRaises(cannon.AclError) as raised:
            aclnn.Add(A, np.ones((5, 4), np.float32), out=cannon.Tensor(A))
        error = raised.exception
        self.assertEqual((error.function, error.code), ("aclnnAddGetWorkspaceSize", 161002))
        self.assertIn("other has shape [5, 4]", error.message)
        self.assertIn("161002", str(error))

    def test_type_errors_name_the_argument(self):
        x = cannon.Tensor(A)
        cases = ((lambda: aclnn.Add(x, "two"), "other is str 'two'"), (lambda: aclnn.Add(x, None), "other is NoneType"),
                 (lambda: aclnn.Add(x, {}), "other is dict"), (lambda: aclnn.Add(x, x, "1"), "alpha is str"),
                 (lambda: aclnn.Cat(x, 0), "tensors is Tensor"),
                 (lambda: aclnn.Cat([x, None], 0), "tensors is NoneType"),
                 (lambda: aclnn.ReduceSum(x, "ab"), "dims is str"), (lambda: aclnn.ReduceSum(x, 1.5), "dims is"),
                 (lambda: aclnn.Softmax(x, 1.5), "dim is float"),
                 (lambda: aclnn.ReduceSum(x, 0, "no"), "keepDims is str"),
                 (lambda: aclnn.Cast(x, "float12"), "dtype: 'float12' is no data type"),
                 (lambda: aclnn.InplaceAdd(A, x), "selfRef is ndarray of shape .* since the operator writes it"),
                 (lambda: aclnn.LogSoftmax(x, dim=0, out=A), "out is ndarray"),
                 (lambda: aclnn.Sort(x, dim=0, out=x), "expected a tuple of 2: valuesOut, indicesOut"),
                 (lambda: aclnn.InplaceZero(x, out=x), "writes its arguments"),
                 (lambda: aclnn.IsClose(x, x, rtol="1"), "rtol is str"), (lambda: aclnn.Add(x), "other"),
                 (lambda: aclnn.Embedding(x), "indices"),
                 (lambda: aclnn.FlashAttentionScore(x, x, x), "misses the argument scaleValue"),
                 (lambda: aclnn.AscendQuant(x, x, None, False, 3, "int8"), "roundMode is int"))
        for call, message in cases:
            with self.subTest(message), self.assertRaisesRegex(TypeError, message):
                call()

    def test_numbers_that_do_not_fit(self):
        with self.assertRaisesRegex(OverflowError, "cubeMathType is 300, expected -128 to 127"):
            aclnn.Mm(A, A.T, cubeMathType=300)
        with self.assertRaisesRegex(OverflowError, "dim is"):
            aclnn.Softmax(A, 1 << 63)
        with self.assertRaisesRegex(TypeError, "dims is"):
            aclnn.ReduceSum(A, [1 << 63])

    def test_shapes_that_do_not_broadcast(self):
        with self.assertRaisesRegex(ValueError, r"\(3, 4\), \(5,\)"):
            aclnn.Add(A, np.ones(5, np.float32))

    def test_errors_leave_no_memory(self):
        x = cannon.Tensor(A)
        cannon.synchronize()
        before = len(runtime._live)
        for _ in range(50):
            self.assertRaises(cannon.AclError, aclnn.BitwiseNot, x)
            self.assertRaises(cannon.AclError, aclnn.Softmax, x, 7)
            self.assertRaises(TypeError, aclnn.Cat, [x, A, "a"], 0)
        cannon.synchronize()
        self.assertEqual(len(runtime._live), before)


class Streams(unittest.TestCase):
    def test_current_stream(self):
        default = cannon.current_stream()
        self.assertIs(default, cannon.default_stream())
        with cannon.stream() as outer:
            self.assertIs(cannon.current_stream(), outer)
            with cannon.stream() as inner:
                self.assertIs(cannon.current_stream(), inner)
                with outer:
                    self.assertIs(cannon.current_stream(), outer)
            self.assertIs(cannon.current_stream(), outer)
        self.assertIs(cannon.current_stream(), default)

    def test_work_of_two_streams_is_in_order(self):
        x = cannon.Tensor(np.zeros(1 << 16, np.float32))
        streams = [cannon.stream(), cannon.stream()]
        for i in range(50):
            with streams[i % 2]:
                aclnn.InplaceAdds(x, 1, 1)
                y = aclnn.Muls(x, 2)
        self.assertTrue((x.numpy() == 50).all() and (y.numpy() == 100).all())

    def test_threads(self):
        """Each thread has a current stream of its own, and all may use one tensor and one operator's first call."""
        x = cannon.Tensor(np.ones(1000, np.float32))
        failures = []

        def work(seed):
            try:
                rng = np.random.default_rng(seed)
                a = rng.random((20, 30), np.float32)
                with cannon.stream() as s:
                    for i in range(100):
                        y = aclnn.Add(aclnn.Sinh(a), i)
                        z = aclnn.Sort(y, dim=1)[0]
                        w = aclnn.Muls(x, i)
                        np.testing.assert_allclose(z.numpy(), np.sort(np.sinh(a) + i, 1), rtol=1e-5)
                        self.assertTrue((w.numpy() == i).all())
                        self.assertIs(cannon.current_stream(), s)
                    self.assertRaises(cannon.AclError, aclnn.Softmax, x, 9)
            except BaseException as error:      # reported by the main thread
                failures.append(error)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]

    def test_threads_of_one_stream(self):
        results = {}

        def work(i):
            a = np.random.default_rng(i).random((40, 50 + 20 * i), np.float32).T
            for _ in range(50):
                results[i] = np.array_equal(aclnn.Sort(a, dim=0)[0].numpy(), np.sort(a, 0))
                if not results[i]:
                    return
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results, dict.fromkeys(range(4), True))


class Inference(unittest.TestCase):
    """The numeric tests compare what is inferred with every call they make (tests/numeric/inference.py). Here, each
    elementwise operator gets every dtype, and phase one must find nothing wrong with the output."""
    SCALARS = {"Scalar": 0.5, "ScalarList": [0.5, 0.5], "int": 1, "float": 0.5, "bool": False}

    def test_elementwise(self):
        of_float, n = set(), 0
        names = "float32 float16 bfloat16 float64 int8 uint8 int16 int32 int64 bool complex64 complex128"
        types = [dtypes.of(t) for t in names.split()]
        for name, (_, family, _, _) in aclnn.table().items():
            if family not in ("elementwise", "limited", "foreach"):
                continue
            function = getattr(aclnn, name)
            arguments = [a for a in aclnn.schema(name) if not a.is_output]
            output = [a.name for a in aclnn.schema(name) if a.is_output]
            for t in types:
                x = cannon.Tensor.empty((2, 3), t)
                shapes = [x, x[0], x]
                values = []
                for a in arguments:
                    if a.type == "TensorList":
                        values.append([x, x])
                    elif a.type == "Tensor":
                        condition = a.name in ("condition", "mask")
                        values.append(cannon.Tensor.empty((2, 3), "bool") if condition else
                                      x if a.written or family == "foreach" else shapes[len(values) % 3])
                    else:
                        values.append(self.SCALARS[a.type] if t.kind in "fc" or a.type != "Scalar" else 1)
                try:
                    function.workspace_size(*values)
                    n += 1
                    of_float |= {name} if t.name == "float32" else set()
                except cannon.AclError as error:
                    for o in output:
                        self.assertNotIn(f": {o} ", error.message, f"{name} of {t}")
        # Integer operators refuse floats.
        missing = {m for m, o in aclnn.table().items() if o[1] in ("elementwise", "limited", "foreach")} - of_float
        for m in missing:
            self.assertRegex(m, "Bitwise|Shift|Gcd|Foreach|Backward|Grad|XLog|SelfRef|Logit", m)
        self.assertGreater(n, 2000)


if __name__ == "__main__":
    unittest.main()
