# SPDX-License-Identifier: Apache-2.0
"""cannon.Tensor and npu tensors of PyTorch on the same memory. Runs in an interpreter that has torch_npu:

    test_torch.py PYTHON    exits with 77, which skips the test, where there is none
"""
import gc
import itertools
import os
import subprocess
import sys
import unittest


def in_torch_npu():
    import numpy as np
    import torch
    import torch_npu

    import cannon
    from cannon import aclnn, runtime

    class Torch(unittest.TestCase):
        def test_from_torch(self):
            t = torch.arange(12., device="npu").reshape(3, 4)
            x = cannon.from_dlpack(t.T[1:])
            self.assertEqual((x.shape, x.strides, x.dtype), ((3, 3), (1, 4), "float32"))
            self.assertEqual(x.data_ptr(), t.data_ptr() + 4)
            x[0] = 99
            cannon.synchronize()
            self.assertEqual(t[:, 1].tolist(), [99] * 3)
            t += 1
            np.testing.assert_array_equal(x.numpy(), t.T[1:].cpu().numpy())
            kept = t.data_ptr()
            del t
            gc.collect()
            other = torch.zeros(3, 4, device="npu")
            self.assertNotEqual(other.data_ptr(), kept)
            self.assertEqual(x.numpy()[0].tolist(), [100] * 3)

        def test_bfloat16(self):
            t = torch.tensor([1.5, -2], dtype=torch.bfloat16, device="npu")
            x = cannon.from_dlpack(t)
            self.assertEqual(x.dtype, "bfloat16")
            self.assertEqual((x + x).to("float32").tolist(), [3, -4])
            self.assertEqual((x + x).torch().dtype, torch.bfloat16)

        def test_arguments(self):
            t = torch.ones(3, device="npu")
            self.assertEqual(aclnn.Add(t, torch.full((3,), 2.)).tolist(), [3] * 3)
            self.assertEqual(aclnn.Cast(t, torch.int32).dtype, "int32")

        def test_to_torch(self):
            before = len(runtime._live)
            x = cannon.Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
            t = x.T[1:].torch()
            self.assertEqual((t.device.type, t.data_ptr(), tuple(t.shape)), ("npu", x.data_ptr() + 4, (2, 2)))
            t.mul_(10)
            self.assertEqual(x.tolist(), [[0, 10, 20], [3, 40, 50]])
            self.assertEqual((t @ t).cpu().tolist(), (x.numpy().T[1:] @ x.numpy().T[1:]).tolist())
            part = t[1]
            del x, t
            gc.collect()
            self.assertEqual(len(runtime._live), before + 1)
            self.assertEqual(part.tolist(), [20, 50])
            del part
            gc.collect()
            cannon.synchronize()
            self.assertEqual(len(runtime._live), before)

        def test_in_turn(self):
            """Both queue operators on the same memory, on streams of their own."""
            for stream in (torch.npu.default_stream(), torch.npu.Stream()):
                with torch.npu.stream(stream):
                    for _ in range(50):
                        x = cannon.Tensor(np.ones(3, np.float32))
                        t = x.torch()
                        for _ in range(3):
                            t.mul_(2)
                            t.add_(1)
                            aclnn.InplaceMuls(x, 3.0)
                        self.assertEqual(x.tolist(), [345] * 3)
                        t.mul_(2)
                        self.assertEqual(cannon.from_dlpack(t).tolist(), [690] * 3)

        def test_inferred_dtypes_are_pytorchs(self):
            names = "float32 float16 bfloat16 float64 int8 uint8 int16 int32 int64 bool complex64 complex128".split()

            def compare(name, function, *others):
                schema, n = aclnn.Schema(name), 0
                for arguments in itertools.product(names, *others):
                    ours = [cannon.Tensor.empty((2, 3), a) if isinstance(a, str) else a for a in arguments]
                    theirs = [torch.ones(2, 3, dtype=getattr(torch, a)) if isinstance(a, str) else a for a in arguments]
                    try:
                        wanted = str(function(*theirs).dtype)
                    except (RuntimeError, TypeError, NotImplementedError):      # PyTorch doesn't do it
                        continue
                    if wanted == "torch.complex32":     # which no operator here computes
                        continue
                    values = [None] * len(schema.arguments)
                    for i in schema.inputs:
                        values[i] = ours.pop(0) if ours else schema.arguments[i].default
                    self.assertEqual(f"torch.{schema.infer(schema, values)[0][1]}", wanted, (name, arguments))
                    n += 1
                self.assertGreater(n, 3, name)

            for name in ("Abs Neg Exp Log Sqrt Rsqrt Reciprocal Relu Sigmoid Tanh Sin Floor Ceil Sign Signbit Erf Exp2 "
                         "IsFinite:isfinite LogicalNot:logical_not BitwiseNot:bitwise_not ReduceSum:sum Mean Prod Amax "
                         "Any Var Median Trace").split():
                ours, _, theirs = name.partition(":")
                compare(ours, getattr(torch, theirs or ours.lower()))
            for name in ("Add Sub Mul Div Maximum Atan2 EqTensor:eq PowTensorTensor:pow BitwiseAndTensor:bitwise_and "
                         "RemainderTensorTensor:remainder FloorDivide:floor_divide FmodTensor:fmod").split():
                ours, _, theirs = name.partition(":")
                compare(ours, getattr(torch, theirs or ours.lower()), names)
            for name in ("Adds:add Subs:sub Rsubs:rsub Muls:mul Divs:div PowTensorScalar:pow EqScalar:eq "
                         "RemainderTensorScalar:remainder BitwiseAndScalar:bitwise_and").split():
                ours, _, theirs = name.partition(":")
                compare(ours, getattr(torch, theirs), (True, 2, 2.5, 2j))
            for name, function in (("Cumsum", torch.cumsum), ("ArgMax", torch.argmax), ("LogSumExp", torch.logsumexp)):
                compare(name, function, (0,) if name != "LogSumExp" else ((0,),))

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Torch)
    result = unittest.TextTestRunner().run(suite)
    sys.exit(not (result.wasSuccessful() and result.testsRun))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        in_torch_npu()
    elif not os.path.exists(sys.argv[1]):
        print(f"skipped: {sys.argv[1]} is not there, an interpreter with torch_npu")
        sys.exit(77)
    else:
        prefix = os.environ["CANNON_PREFIX"]
        sys.exit(subprocess.call(["/bin/sh", "-c", f'. "{prefix}/set_env.sh" && exec "$@"', "sh", sys.argv[1],
                                  os.path.abspath(__file__)]))
