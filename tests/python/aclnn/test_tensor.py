# SPDX-License-Identifier: Apache-2.0
"""cannon.Tensor: dtypes, views, copies, the lifetime of memory, DLPack."""
import gc
import os
import random
import threading
import unittest

import numpy as np

import cannon
from cannon import dtypes, runtime

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

IN_NUMPY = [t for t in dtypes.ALL if hasattr(np, t.name + "_") or hasattr(np, t.name)]


def sample(shape, dtype="float32"):
    n = int(np.prod(shape, dtype=int))
    return (np.arange(n) % 100).reshape(shape).astype(np.dtype(dtypes.of(dtype)))


def allocations():
    """The allocations that tensors hold now."""
    gc.collect()
    cannon.synchronize()
    return len(runtime._live)


class Dtypes(unittest.TestCase):
    def test_round_trips(self):
        self.assertGreaterEqual(len(IN_NUMPY), 14)
        for t in IN_NUMPY:
            with self.subTest(t):
                x = sample((3, 4), t)
                y = cannon.Tensor(x)
                self.assertIs(y.dtype, t)
                self.assertEqual(y.dtype, x.dtype)
                self.assertEqual(np.dtype(y.dtype), x.dtype)
                self.assertEqual(y.dtype, t.name)
                self.assertEqual(y.numpy().dtype, x.dtype)
                np.testing.assert_array_equal(y.numpy(), x)

    def test_bfloat16_needs_no_package(self):
        bits = np.array([[0x3f80, 0x4000], [0xbf80, 0x7f80]], np.uint16)
        x = cannon.Tensor.of_bytes(bits, "bfloat16")
        self.assertEqual(x.to("float32").tolist(), [[1, 2], [-1, np.inf]])
        np.testing.assert_array_equal((x + x).bytes().view(np.uint16), [[0x4000, 0x4080], [0xc000, 0x7f80]])
        self.assertIn("bfloat16", repr(x))
        with self.assertRaisesRegex(TypeError, "2 for bfloat16"):
            cannon.Tensor.of_bytes(np.zeros(3), "bfloat16")

    @unittest.skipIf(ml_dtypes is None, "the package ml_dtypes is not installed")
    def test_bfloat16(self):
        x = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
        y = cannon.Tensor(x)
        self.assertEqual(y.dtype, "bfloat16")
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        self.assertEqual((y * 2).numpy().dtype, x.dtype)
        np.testing.assert_array_equal((y * 2).numpy(), x * 2)

    @unittest.skipIf(ml_dtypes is not None, "the package ml_dtypes is installed")
    def test_bfloat16_asks_for_the_package(self):
        with self.assertRaisesRegex(TypeError, "ml_dtypes"):
            cannon.Tensor(np.zeros(2, np.float32)).to("bfloat16").numpy()

    def test_names(self):
        for value in ("float16", np.float16, np.dtype("float16"), dtypes.of("float16"), 1):
            self.assertIs(dtypes.of(value), dtypes.of("float16"))
        self.assertIs(dtypes.of(bool), dtypes.of("bool"))
        for value in ("float12", np.dtype("M8[s]"), object()):
            with self.assertRaisesRegex(TypeError, "no data type"):
                dtypes.of(value)
        self.assertNotEqual(dtypes.of("int8"), "float12")

    def test_promotion(self):
        """As NumPy's, but that integers do not widen floats, and float16 with bfloat16 is float32."""
        plain = [t for t in IN_NUMPY if t.kind in "bifc" or t.name == "uint8"]
        for a in plain:
            for b in plain:
                if a.kind == b.kind or "b" in a.kind + b.kind or {a.kind, b.kind} == {"i", "u"}:
                    self.assertEqual(dtypes.promote(a, b), np.promote_types(np.dtype(a), np.dtype(b)), (a, b))
        of = dtypes.of
        self.assertIs(dtypes.promote(of("float16"), of("int64")), of("float16"))
        self.assertIs(dtypes.promote(of("float16"), of("bfloat16")), of("float32"))
        self.assertIs(dtypes.promote(of("complex64"), of("float64")), of("complex128"))

    def test_conversions(self):
        x = cannon.Tensor([[1.7, -2.2], [0, 300]], dtype="float32")
        self.assertIs(x.to("float32"), x)
        self.assertEqual(x.to(np.int32).tolist(), [[1, -2], [0, 300]])
        self.assertEqual(x.to("bool").tolist(), [[True, True], [False, True]])
        with self.assertRaises(TypeError):
            x.to()


class Views(unittest.TestCase):
    def test_random_views_are_numpys(self):
        seed = random.randrange(1 << 32)
        rng = random.Random(seed)
        for case in range(300):
            shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
            a = sample(shape, rng.choice(["float32", "int8", "complex128"]))
            t = cannon.Tensor(a)
            base = t.data_ptr()
            for _ in range(3):
                how = rng.choice("sstr")
                if how == "s" and a.ndim:
                    key = tuple(rng.choice([slice(None), slice(rng.randint(-3, 3), None, rng.randint(1, 3)),
                                            slice(None, rng.randint(-2, 4)), ..., None, 0])
                                for _ in range(rng.randint(1, a.ndim)))
                    if sum(k is Ellipsis for k in key) > 1:
                        continue
                    try:
                        a = a[key if ... in key else key + (...,)]      # a view even of one element
                    except IndexError:
                        self.assertRaises(IndexError, t.__getitem__, key)
                        continue
                    t = t[key]
                elif how == "t":
                    axes = rng.sample(range(a.ndim), a.ndim)
                    a, t = a.transpose(axes), t.transpose(axes)
                elif a.size:
                    new = (-1,) if rng.random() < 0.5 else a.shape[::-1]
                    viewable = np.shares_memory(a, a.reshape(new))
                    reshaped = t.reshape(new)
                    self.assertEqual(reshaped.storage is t.storage, viewable, (seed, case, t.shape, t.strides, new))
                    a, t = a.reshape(new), reshaped
                context = f"seed {seed}, case {case}: {t.shape} {t.strides} {t.offset}"
                self.assertEqual(t.shape, a.shape, context)
                np.testing.assert_array_equal(t.numpy(), a, context)
            self.assertGreaterEqual(t.storage.address, 0 if t.storage.address != base else base)

    def test_operators_take_views(self):
        a, b = sample((4, 6)), sample((6, 4)) + 1
        x, y = cannon.Tensor(a), cannon.Tensor(b)
        np.testing.assert_array_equal((x[1:, ::2] + y.T[1:, 1::2]).numpy(), a[1:, ::2] + b.T[1:, 1::2])
        out = cannon.Tensor(np.zeros((4, 6), np.float32))
        cannon.aclnn.Mul(x[:, 3:], 2.0, out=out[:, :3])
        np.testing.assert_array_equal(out.numpy(), np.hstack([a[:, 3:] * 2, np.zeros((4, 3))]))

    def test_assignment(self):
        x = cannon.Tensor(np.zeros((3, 4), np.float32))
        x[1:, ::2] = 5
        x[0] = cannon.Tensor(np.arange(4, dtype=np.float32))
        x[..., 1] = np.float32([7, 8, 9])
        self.assertEqual(x.tolist(), [[0, 7, 2, 3], [5, 8, 5, 0], [5, 9, 5, 0]])

    def test_broadcast(self):
        x = cannon.Tensor([[1], [2]], dtype="int32")
        y = x.broadcast_to((3, 2, 4))
        self.assertEqual(y.strides, (0, 1, 0))
        self.assertEqual(y.data_ptr(), x.data_ptr())
        np.testing.assert_array_equal(y.numpy(), np.broadcast_to([[1], [2]], (3, 2, 4)))
        with self.assertRaisesRegex(ValueError, "broadcast"):
            x.broadcast_to((3, 4))

    def test_refused(self):
        x = cannon.Tensor(sample((3, 4)))
        for key, error in (((0, 0, 0), IndexError), (3, IndexError), (-4, IndexError), ([0, 1], TypeError),
                           (slice(None, None, -1), ValueError), ("a", TypeError)):
            with self.subTest(key), self.assertRaises(error):
                x[key]
        for call in (lambda: x.reshape(5), lambda: x.transpose(0, 0), lambda: bool(x), lambda: x.item()):
            self.assertRaises(ValueError, call)

    def test_shapes_without_elements(self):
        for shape in ((0,), (3, 0, 2), ()):
            x = cannon.Tensor(sample(shape))
            self.assertEqual((x + 1).numpy().shape, shape)
            self.assertEqual(x.reshape(-1).numpy().size, x.size)


class Host(unittest.TestCase):
    def test_array(self):
        x = cannon.Tensor(sample((2, 3)))
        self.assertIsInstance(np.asarray(x), np.ndarray)
        self.assertEqual(np.asarray(x, np.int32).dtype, np.int32)
        np.testing.assert_array_equal(np.add(np.asarray(x), 1), x.numpy() + 1)
        self.assertRaises(ValueError, x.__array__, copy=False)

    def test_arithmetic(self):
        a = sample((2, 3)) + 1
        x = cannon.Tensor(a)
        for got, wanted in ((x + a, a + a), (a + x, a + a), (x - 1, a - 1), (1 - x, 1 - a), (a - x, a - a),
                            (2 * x, 2 * a), (x / 2, a / 2), (2 / x, 2 / a), (x @ a.T, a @ a.T), (a @ x.T, a @ a.T)):
            self.assertIsInstance(got, cannon.Tensor)
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)

    def test_repr(self):
        x = cannon.Tensor([[1, 2], [3, 4]], dtype="int32")
        self.assertIn("[[1, 2]", repr(x))
        self.assertIn("dtype=int32, device=0", repr(x))
        self.assertIn("...", repr(cannon.Tensor(sample((5000,)))))

    def test_numbers(self):
        x = cannon.Tensor(2.5)
        self.assertEqual((x.shape, x.dtype, x.item(), float(x), int(x), bool(x)), ((), "float64", 2.5, 2.5, 2, True))
        self.assertEqual(len(cannon.Tensor(sample((4, 2)))), 4)
        self.assertRaises(TypeError, len, x)

    def test_things_that_are_no_arrays(self):
        for value in ("abc", object(), [[1], [1, 2]]):
            with self.subTest(value), self.assertRaises((TypeError, ValueError)):
                cannon.Tensor(value)


class Lifetime(unittest.TestCase):
    def test_the_last_view_frees(self):
        before = allocations()
        x = cannon.Tensor(sample((1000,)))
        view = x[10:].reshape(3, 330)[1]
        del x
        self.assertEqual(allocations(), before + 1)
        np.testing.assert_array_equal(view.numpy(), sample((1000,))[340:670])
        del view
        self.assertEqual(allocations(), before)

    def test_memory_of_queued_work_is_kept(self):
        """Operands die before the work on them has run; what is queued later takes their memory in stream order."""
        a = np.ones(1 << 16, np.float32)
        x = cannon.Tensor(a)
        for _ in range(200):
            x = cannon.aclnn.Adds(x, 1)
        np.testing.assert_array_equal(x.numpy(), a + 200)

    def test_memory_of_other_streams_work_is_kept(self):
        before = allocations()
        x = cannon.Tensor(np.ones(1 << 16, np.float32))
        streams = [cannon.stream() for _ in range(3)]
        results = []
        for s in streams:
            with s:
                results.append(cannon.aclnn.Muls(x, 3))
        del x                                   # waits for the streams
        self.assertTrue(all((r.numpy() == 3).all() for r in results))
        del results, s, streams
        self.assertEqual(allocations(), before)

    def test_memory_is_reused_without_synchronisation(self):
        x = cannon.Tensor(np.ones(4096, np.float32))
        cannon.synchronize()
        before = len(runtime._live)
        for _ in range(100):
            x + 1
        self.assertLessEqual(len(runtime._live), before + 2)

    def test_memory_info(self):
        free, total = cannon.memory_info()
        self.assertTrue(0 < free <= total)
        self.assertEqual(cannon.memory_info(device=0)[1], total)

    def test_too_much(self):
        total = cannon.memory_info()[1]
        with self.assertRaises(cannon.AclError) as raised:
            cannon.Tensor.empty(2 * total, "uint8")
        self.assertEqual((raised.exception.function, raised.exception.code), ("aclrtMalloc", 207001))

    def test_forked_children_free_nothing(self):
        tensors = [cannon.Tensor(sample((100,))) + i for i in range(10)]
        child = os.fork()
        if not child:
            tensors.clear()
            gc.collect()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        for i, x in enumerate(tensors):
            np.testing.assert_array_equal(x.numpy(), sample((100,)) + i)

    def test_garbage_from_threads(self):
        before = allocations()
        tensors = [cannon.Tensor(sample((100,))) + 1 for _ in range(200)]
        threads = [threading.Thread(target=lambda: [tensors.pop() for _ in range(50)]) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(allocations(), before)


class DLPack(unittest.TestCase):
    class OfHost:
        """Asks a tensor for the CPU, as NumPy 2 does with device="cpu"."""

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **keywords):
            return self.tensor.__dlpack__(dl_device=(1, 0), copy=True)

    def test_from_numpy(self):
        for t in IN_NUMPY:
            if t.name == "bool":                # NumPy 1.24 doesn't export it
                continue
            a = sample((3, 4), t)[::2].T
            x = cannon.from_dlpack(a)
            self.assertIs(x.dtype, t)
            np.testing.assert_array_equal(x.numpy(), a)

    def test_to_numpy(self):
        before = allocations()
        x = cannon.Tensor(sample((3, 4)))
        a = np.from_dlpack(self.OfHost(x[1:].T))
        np.testing.assert_array_equal(a, sample((3, 4))[1:].T)
        del x
        self.assertEqual(a.sum(), sample((3, 4))[1:].sum())
        del a
        self.assertEqual(allocations(), before)

    def test_devices_share_memory(self):
        before = allocations()
        x = cannon.Tensor(sample((3, 4)))
        self.assertEqual(x.__dlpack_device__(), (12, 0))    # kDLExtDev
        y = cannon.from_dlpack(x[1:].T.__dlpack__())
        self.assertEqual((y.shape, y.data_ptr()), ((4, 2), x[1:].data_ptr()))
        y[0] = 77
        self.assertEqual(x.numpy()[1:, 0].tolist(), [77, 77])
        del x
        self.assertEqual(allocations(), before + 1)
        self.assertEqual(y.numpy()[0, 0], 77)
        del y
        self.assertEqual(allocations(), before)

    def test_unused_capsules(self):
        before = allocations()
        for _ in range(3):
            cannon.Tensor(sample((3,))).__dlpack__()
        with self.assertRaises((RuntimeError, BufferError)):
            np.from_dlpack(cannon.Tensor(sample((3,))))
        used = cannon.Tensor(sample((3,))).__dlpack__()
        cannon.from_dlpack(used)
        self.assertRaisesRegex(TypeError, "unused capsule", cannon.from_dlpack, used)
        del used
        cannon.from_dlpack(np.zeros(1))         # looks for what nobody has taken
        self.assertEqual(allocations(), before)

    def test_refused(self):
        x = cannon.Tensor(sample((3,)))
        self.assertRaises(BufferError, x.__dlpack__, dl_device=(2, 0))
        self.assertRaises(BufferError, x.__dlpack__, dl_device=(1, 0), copy=False)
        self.assertRaises(TypeError, cannon.from_dlpack, 3)


class Devices(unittest.TestCase):
    def test_two_devices(self):
        if cannon.device_count() < 2:
            self.skipTest("one device")
        x = cannon.Tensor(sample((3,)), device=1)
        self.assertEqual(x.device, 1)
        self.assertEqual(runtime.current_device(), 0)
        y = cannon.aclnn.Adds(x, 1)             # runs where its tensors are
        self.assertEqual((y.device, runtime.current_device()), (1, 0))
        self.assertEqual((cannon.aclnn.Add(sample((3,)), x).device, (sample((3,)) * x).device), (1, 1))
        with cannon.device(1):
            self.assertEqual(cannon.Tensor([1]).device, 1)
            with cannon.stream() as s:
                self.assertEqual(s.device, 1)
                z = y + x
        self.assertEqual(runtime.current_device(), 0)
        np.testing.assert_array_equal(z.to(device=0).numpy(), 2 * sample((3,)) + 1)
        self.assertEqual(z.to(device=0).device, 0)
        with self.assertRaisesRegex(ValueError, "other is on device 1, expected device 0"):
            cannon.Tensor(sample((3,))) + x

    def test_others_set_the_device(self):
        """torch_npu and programs of pyACL do, behind this package's back."""
        if cannon.device_count() < 2:
            self.skipTest("one device")
        x = cannon.Tensor(sample((3,)))
        library = runtime.load()
        self.assertEqual(library.aclrtSetDevice(1), 0)
        try:
            np.testing.assert_array_equal((x + 1).numpy(), sample((3,)) + 1)
            self.assertEqual(cannon.Tensor([1]).device, 1)
            self.assertEqual(runtime.current_device(), 1)
            del x
        finally:
            runtime.use_device(0)

    def test_missing_device(self):
        with self.assertRaises(cannon.AclError) as raised:
            cannon.Tensor([1], device=999)
        self.assertEqual(raised.exception.function, "aclrtSetDevice")
        self.assertEqual(runtime.current_device(), 0)


if __name__ == "__main__":
    unittest.main()
