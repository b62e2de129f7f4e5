# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of cannon.testing that need no device: data types, layouts, values, comparison, schemas, cases."""
import unittest
import warnings

import numpy as np

import support  # noqa: F401, which makes the package importable
from cannon.testing import Input, Tolerance, operator_test, shapes
from cannon.testing import compare as comparing, dtypes, layouts, schema, values

F16, BF16, F32, F64, I8, I64, C64 = map(dtypes.find, "float16 bfloat16 float32 float64 int8 int64 complex64".split())


class DTypes(unittest.TestCase):
    def test_every_pattern_of_the_halves_survives(self):
        patterns = np.arange(65536, dtype=np.uint16)
        for dtype in (F16, BF16):
            loaded = dtype.load(patterns.view(dtype.storage))
            number = ~np.isnan(loaded)
            with np.errstate(invalid="ignore"):         # signalling NaNs
                stored = dtype.store(loaded.astype(np.float64))
            np.testing.assert_array_equal(stored.view(np.uint16)[number], patterns[number], dtype.name)
            self.assertTrue(np.isnan(dtype.load(stored)[~number]).all(), dtype)

    def test_bfloat16_rounds_to_even(self):
        for given, wanted in ((1 + 2 ** -8, 1), (1 + 3 * 2 ** -8, 1 + 2 ** -6), (1 + 2 ** -8 + 2 ** -30, 1 + 2 ** -7),
                              (3.4e38, np.inf), (-3.39e38, -BF16.max), (2.0 ** -134, 0), (2.0 ** -133, 2.0 ** -133)):
            self.assertEqual(BF16.round(np.float64(given)), wanted, given)

    def test_ulp_is_the_distance_of_neighbours(self):
        for dtype in (F16, F32, F64):
            x = np.array([0, 1, 1.5, 3, 1e-7, dtype.tiny, dtype.tiny / 2, dtype.max / 2], dtype.values)
            np.testing.assert_array_equal(dtype.ulp(x), np.spacing(x), dtype.name)

    def test_names(self):
        self.assertIs(dtypes.find("half"), F16)
        self.assertIs(dtypes.find(np.float32), F32)
        self.assertIs(dtypes.find(np.dtype("int64")), I64)
        with self.assertRaisesRegex(ValueError, "dtype is 'float31', expected one of .*bfloat16"):
            dtypes.find("float31")


class Layouts(unittest.TestCase):
    def test_views_hold_what_is_written(self):
        for name in layouts.ALL:
            for shape in shapes.standard:
                placed = layouts.place(name, shape)
                if placed is None:
                    continue
                base = np.arange(np.prod(placed.base_shape(), dtype=int)).reshape(placed.base_shape())
                wanted = np.broadcast_to(base, shape)
                storage = np.full(placed.n_storage, -1)
                placed.view(storage)[...] = wanted
                np.testing.assert_array_equal(placed.view(storage), wanted, f"{name} {shape}")

    def test_each_is_what_its_name_says(self):
        self.assertEqual(layouts.place("transposed", (2, 3, 5)).strides, (15, 1, 3))
        self.assertEqual(layouts.place("broadcast", (2, 3)).strides, (0, 1))
        self.assertEqual(layouts.place("offset", (2, 3)).offset, layouts.OFFSET)
        sliced = layouts.place("sliced", (4, 5))
        self.assertEqual(sliced.strides, np.empty((12, 10), np.int8)[::3, ::2].strides)
        for name, shape in (("transposed", (7,)), ("sliced", ()), ("broadcast", (1, 1)), ("sliced", (0, 3))):
            self.assertIsNone(layouts.place(name, shape), (name, shape))

    def test_outputs_never_overlap(self):
        for name in layouts.ALL:
            placed = layouts.place_output(name, (3, 4))
            self.assertEqual(placed.base_shape(), (3, 4), name)
        self.assertEqual(layouts.place_output("transposed", (3, 4)).strides, (1, 3))

    def test_own(self):
        def padded(shape):
            return (8, 1), 2
        placed = layouts.place(padded, (3, 4))
        self.assertEqual((placed.strides, placed.offset, placed.n_storage), ((8, 1), 2, 2 + 2 * 8 + 3 + 1))


class Values(unittest.TestCase):
    def draw(self, range_, dtype, n=4000):
        return values.draw(range_, np.random.default_rng(1), (n,), dtype)

    def test_ranges(self):
        for dtype in (F16, BF16, F32, F64):
            special = self.draw("special", dtype)
            for what, found in (("inf", special == np.inf), ("-inf", special == -np.inf), ("nan", np.isnan(special)),
                                ("-0", (special == 0) & np.signbit(special)),
                                ("denormal", (special != 0) & (np.abs(special) < dtype.tiny))):
                self.assertTrue(found.any(), f"{dtype} {what}")
            small, large = np.abs(self.draw("small", dtype)), np.abs(self.draw("large", dtype))
            self.assertTrue((small <= 1).all() and small.min() < dtype.tiny * 64, dtype)
            self.assertTrue((large >= 1).all() and np.isfinite(large).all() and large.max() > dtype.max / 64, dtype)
            extreme = self.draw("extreme", dtype)
            self.assertTrue(np.isfinite(extreme).all() and (extreme == dtype.max).any(), dtype)
        for dtype in (I8, I64):
            self.assertTrue({dtype.min, dtype.max, 0, 1, -1} <= set(self.draw("special", dtype).tolist()))
        self.assertEqual(self.draw("special", dtypes.find("uint8")).min(), 0)
        self.assertEqual(set(self.draw((2, 5), I64).tolist()), {2, 3, 4, 5})
        self.assertEqual(set(self.draw([1.5, 7], F32).tolist()), {1.5, 7})
        self.assertEqual(self.draw("normal", C64).dtype, np.complex64)

    def test_wrong(self):
        with self.assertRaisesRegex(ValueError, "values is 'norml', expected .*normal, small"):
            values.label("norml")
        with self.assertRaisesRegex(ValueError, r"returned shape \(3,\), expected \(4,\)"):
            values.draw(lambda rng, shape, dtype: np.zeros(3), None, (4,), F32)


class Compare(unittest.TestCase):
    def right(self, expected, actual, dtype=F32, **tolerance):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = dtype.load(dtype.store(np.array([actual])))
            return comparing.compare(np.array([expected]), got, dtype, Tolerance(**tolerance)).n_wrong == 0

    def test_ulps(self):
        one_up = np.nextafter(np.float32(1), np.float32(2))
        self.assertTrue(self.right(1.0, 1.0))
        self.assertFalse(self.right(1.0, one_up))
        self.assertFalse(self.right(1.0, one_up, ulp=0.9))
        self.assertTrue(self.right(1.0, one_up, ulp=1))
        self.assertTrue(self.right(1.0 + 2.0 ** -25, 1.0, ulp=0.5), "the correctly rounded value of an exact one")
        self.assertTrue(self.right(1.0, 1.001, relative=1.1e-3))
        self.assertFalse(self.right(1.0, 1.001, relative=0.9e-3))
        self.assertTrue(self.right(0.0, 1e-6, absolute=2e-6))
        self.assertFalse(self.right(0.0, 1e-6, ulp=100, relative=1))

    def test_special_values_are_exact(self):
        huge = {"ulp": 1e9, "relative": 0.5, "absolute": 1e30}
        for expected, actual in ((np.nan, 1), (1, np.nan), (np.inf, -np.inf), (np.inf, F32.max), (np.inf, np.nan),
                                 (0, np.inf), (-np.inf, 0)):
            self.assertFalse(self.right(expected, actual, **huge), (expected, actual))
        for value in (np.nan, np.inf, -np.inf):
            self.assertTrue(self.right(value, value))

    def test_overflow_in_the_type_of_the_output(self):
        self.assertTrue(self.right(131008.0, np.inf, F16), "rounds to infinity")
        self.assertFalse(self.right(131008.0, F16.max, F16, ulp=2))
        self.assertTrue(self.right(65519.0, np.inf, F16, ulp=1), "one step beyond the largest number")
        self.assertFalse(self.right(60000.0, np.inf, F16, ulp=2))

    def test_zero_and_denormals(self):
        self.assertTrue(self.right(0.0, -0.0))
        self.assertFalse(self.right(0.0, -0.0, zero_sign=True))
        self.assertTrue(self.right(-0.0, -0.0, zero_sign=True))
        self.assertFalse(self.right(1e-40, 0.0, ulp=2))
        self.assertTrue(self.right(1e-40, 0.0, flush_denormals=True))
        self.assertFalse(self.right(2e-38, 0.0, flush_denormals=True), "a normal number")

    def test_integers_and_bool(self):
        for big in (2 ** 62, -2 ** 63, 2 ** 63 - 1):
            self.assertTrue(self.right(big, big, I64))
            self.assertFalse(self.right(big, big ^ 1, I64), "64 bits are compared")
        self.assertTrue(self.right(10, 11, I8, absolute=1))
        self.assertFalse(self.right(10, 12, I8, absolute=1))
        self.assertTrue(self.right(300, 44, I8), "integers wrap")
        self.assertFalse(self.right(np.nan, 0, I8))
        bools = dtypes.find("bool")
        self.assertTrue(self.right(True, True, bools))
        self.assertFalse(self.right(True, False, bools))

    def test_complex(self):
        self.assertTrue(self.right(1 + 1j, 1 + 1.00000001j, C64, ulp=1))
        self.assertFalse(self.right(1 + 1j, 1 - 1j, C64, ulp=4))
        self.assertTrue(self.right(complex(np.inf, np.nan), complex(np.inf, np.nan), C64))
        self.assertFalse(self.right(complex(np.inf, np.nan), complex(np.inf, 0), C64))

    def test_the_first_wrong_element_across_chunks(self):
        n = comparing.CHUNK + 10
        expected = np.zeros((2, n // 2), np.int8)
        actual = expected.copy()
        actual.reshape(-1)[[comparing.CHUNK + 2, n - 1]] = 5
        result = comparing.compare(expected, actual, I8, Tolerance())
        self.assertEqual((result.n_wrong, result.n), (2, n))
        self.assertEqual(result.first, ((1, comparing.CHUNK + 2 - n // 2), 0, 5, 5.0))

    def test_wrong_tolerance(self):
        with self.assertRaisesRegex(ValueError, "ulp is -1, expected a number that is 0 or more"):
            Tolerance(ulp=-1)


HEADER = """
/* aclnnGone GetWorkspaceSize(const aclTensor *x); */
// aclnnStatus aclnnCommentGetWorkspaceSize(const aclTensor *x, uint64_t *w, aclOpExecutor **e);
ACL_FUNC_VISIBILITY aclnnStatus aclnnScaleGetWorkspaceSize(const aclTensor *x, const aclTensor* biasOptional,
    double factor, int64_t n, bool flag, aclDataType dtype, const char *mode, const aclIntArray *dims,
    const aclTensorList *xs, const aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnAGetWorkspaceSize(aclTensor *x, aclTensor *yOut, uint64_t* workspaceSize, aclOpExecutor ** executor);
aclnnStatus aclnnBGetWorkspaceSize(const aclTensor *x, const aclTensor *z, uint64_t *workspaceSize,
                                   aclOpExecutor **executor);
aclnnStatus aclnnInplaceCGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other, uint64_t *workspaceSize,
                                          aclOpExecutor **executor);
aclnnStatus aclnnOddGetWorkspaceSize(const struct mine *x, uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
"""


class Schemas(unittest.TestCase):
    def test_text(self):
        text = "Scale(Tensor x, Tensor? bias, float factor, IntArray dims, Tensor& state, Tensor! out)"
        parsed = schema.parse(text)
        self.assertEqual(str(parsed), text)
        self.assertEqual([a.name for a in parsed.inputs], ["x", "bias", "state"])
        self.assertEqual([a.name for a in parsed.outputs], ["state", "out"])
        self.assertEqual([a.name for a in parsed.attributes], ["factor", "dims"])
        numbers = schema.parse("aclnnN(int a, float b, double c, int32_t d, bool e, dtype f)")
        self.assertEqual((numbers.name, [a.c_type for a in numbers.arguments]),
                         ("N", ["int64_t", "double", "double", "int32_t", "bool", "aclDataType"]))
        for wrong in ("Scale", "Scale(Tensr x)", "Scale(Tensor)"):
            with self.assertRaisesRegex(ValueError, "schema"):
                schema.parse(wrong)

    def test_header(self):
        found = schema.parse_header(HEADER)
        self.assertEqual(str(found["Scale"]), "Scale(Tensor x, Tensor? biasOptional, float factor, int n, bool flag, "
                         "dtype dtype, string mode, IntArray dims, TensorList xs, Tensor! out)")
        self.assertEqual([a.c_type for a in found["Scale"].arguments[2:7]],
                         ["double", "int64_t", "bool", "aclDataType", "char *"])
        self.assertEqual(str(found["A"]), "A(Tensor x, Tensor! yOut)")
        self.assertEqual(str(found["B"]), "B(Tensor x, Tensor! z)")
        self.assertEqual(str(found["InplaceC"]), "InplaceC(Tensor& selfRef, Tensor other)")
        self.assertRegex(str(found["Odd"]), "struct mine")
        self.assertEqual(set(found), {"Scale", "A", "B", "InplaceC", "Odd"})


def made(reference=np.add, **arguments):
    test = operator_test("Add", reference=reference, **arguments)
    test.name = "add"
    return test


class Cases(unittest.TestCase):
    def test_every_combination(self):
        test = made(dtypes="float32 int32", shapes=[(3, 4), (1,)], layouts="contiguous transposed",
                    values="normal zeros", attributes={"alpha": [1, 2]})
        ids = [case.id for case in test.cases()]
        # (1,) cannot be transposed.
        self.assertEqual(len(ids), 2 * (2 + 1) * 2 * 2)
        self.assertEqual(len(set(ids)), len(ids))
        self.assertIn("add[int32-3x4-transposed-zeros-alpha=2-seed0]", ids)

    def test_an_id_alone_gives_the_case(self):
        test = made(attributes={"alpha": [1, 2]}, limit=3)
        for seed in (0, 77):
            for case in test.cases(seed):
                again = test.case(case.id)
                self.assertEqual(again.id, case.id)
                numbers = [c.generator().random(3).tolist() for c in (case, again)]
                self.assertEqual(*numbers)
        self.assertIsNone(test.case("add[float32-9x9-contiguous-normal-alpha=1-seed0]"))

    def test_values_depend_on_seed_and_case_only(self):
        few, many = made(shapes=[(3, 4)]), made(shapes=[(1,), (3, 4)])
        wanted = "add[float32-3x4-sliced-normal-seed5]"
        numbers = [test.case(wanted).generator().random() for test in (few, many)]
        self.assertEqual(*numbers)
        self.assertNotEqual(numbers[0], few.case(wanted.replace("seed5", "seed6")).generator().random())
        self.assertNotEqual(numbers[0], few.case(wanted.replace("sliced", "offset")).generator().random())

    def test_equal_ids_are_told_apart(self):
        ids = [case.id for case in made(attributes={"alpha": [1, "1"]}, shapes=[(1,)], layouts="contiguous",
                                        values="normal").cases()]
        self.assertEqual(ids, ["add[float32-1-contiguous-normal-alpha=1-seed0]",
                               "add[float32-1-contiguous-normal-alpha=1#2-seed0]"])

    def test_limit_covers_every_value(self):
        cases = made(dtypes="float32 float16 int32", attributes={"alpha": [1, 2, 3]}, limit=12).cases(3)
        self.assertEqual(len(cases), 12)
        self.assertEqual({c.dtype for c in cases}, {"float32", "float16", "int32"})
        self.assertEqual({c.layout for c in cases}, set(layouts.ALL))
        self.assertEqual({c.attributes["alpha"] for c in cases}, {1, 2, 3})
        self.assertEqual([c.id for c in cases], [c.id for c in made(dtypes="float32 float16 int32",
                         attributes={"alpha": [1, 2, 3]}, limit=12).cases(3)])

    def test_inputs(self):
        def take(x, index, dim):
            return np.take(x, index, dim)
        test = made(take, shapes=[(5, 7)], attributes={"dim": [0]},
                    inputs={"index": Input(dtype="int64", shape=(3,), values=(0, 4))})
        case = test.cases()[0]
        self.assertEqual([d.name for d in case.dtypes], ["float32", "int64"])
        self.assertEqual(case.shapes, ((5, 7), (3,)))
        by_function = made(take, shapes=[(5, 7)], attributes={"dim": [0]},
                           inputs={"index": Input(dtype="int64", shape=lambda s: (s[0][0], 2))})
        self.assertEqual(by_function.cases()[0].shapes, ((5, 7), (5, 2)))
        self.assertEqual(made(reference="torch.erf").input_names, ["input1"])
        self.assertEqual(made(reference="torch.add", inputs={"a": Input(), "b": Input()}).input_names, ["a", "b"])
        self.assertEqual(made(reference="numpy.add").input_names, ["input1", "input2"])
        mixed = made(dtypes=["float32+int64"])
        self.assertEqual([d.name for d in mixed.cases()[0].dtypes], ["float32", "int64"])

    def test_huge_only_on_request_and_where(self):
        test = made(shapes=[(2,), shapes.huge(1 << 20)], where=lambda case: case.layout != "sliced")
        self.assertEqual({c.shape for c in test.cases()}, {(2,)})
        self.assertEqual({c.shape for c in test.cases(huge=True)}, {(2,), (1 << 20,)})
        self.assertNotIn("sliced", {c.layout for c in test.cases()})

    def test_wrong_arguments_are_named(self):
        for wrong, words in (({"dtypes": "float31"}, "float31"), ({"shapes": [5]}, "an entry of shapes is 5"),
                             ({"shapes": [((1,), (2,), (3,))]}, "3 shapes, expected a shape for each of the 2 inputs"),
                             ({"layouts": "upside"}, "upside"), ({"values": "norml"}, "norml"),
                             ({"shapes": []}, "shapes"),
                             ({"inputs": {"q": Input()}, "reference": lambda x: x}, "inputs is 'q'"),
                             ({"tolerance": 3}, "tolerance is 3"), ({"limit": 0}, "limit is 0"),
                             ({"precision": "high"}, "precision is 'high'"), ({"shapes": [(-1,)]}, "-1")):
            with self.assertRaisesRegex(ValueError, words):
                made(**wrong)

    def test_the_decorated_function_still_works(self):
        @operator_test("Add", attributes={"alpha": [1]})
        def add(x, y, alpha):
            """Adds."""
            return x + alpha * y
        self.assertEqual((add(1, 2, alpha=3), add.__doc__, add.input_names), (7, "Adds.", ["x", "y"]))


if __name__ == "__main__":
    unittest.main()
