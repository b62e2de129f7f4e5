#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests one operator with pyACL alone: sets up a device, copies arrays to it, runs the operator by both of CANN's ways,
compares the results with NumPy, and measures the time on the device by events.

    source /usr/local/cannon/set_env.sh          # or CANN's
    python3 pyacl_operator.py [--shape 1024,1024] [--runs 20]

It needs NumPy. It runs on Cannon and on an NPU with CANN."""
import argparse
import contextlib
import ctypes
import pathlib
import statistics
import sys

import acl
import numpy as np

DTYPES = {"float32": acl.ACL_FLOAT, "float16": acl.ACL_FLOAT16, "int32": acl.ACL_INT32}
WARM_UP = 3


def check(ret, what):
    if ret != acl.ACL_SUCCESS:
        raise RuntimeError(f"{what} failed with {ret}: {acl.get_recent_err_msg()}")


def value(results, what):
    """The value of a call that returns (value, ret)."""
    *values, ret = results
    check(ret, what)
    return values[0] if len(values) == 1 else values


@contextlib.contextmanager
def device(index):
    """Device, context and stream: what every program sets up, and takes down in the opposite order."""
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(index), "acl.rt.set_device")
    context = value(acl.rt.create_context(index), "acl.rt.create_context")
    stream = value(acl.rt.create_stream(), "acl.rt.create_stream")
    try:
        yield stream
    finally:
        acl.rt.synchronize_stream(stream)
        acl.rt.destroy_stream(stream)
        acl.rt.destroy_context(context)
        acl.rt.reset_device(index)
        acl.finalize()


class DeviceArray:
    """A NumPy array's copy on the device."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.address = value(acl.rt.malloc(max(self.array.nbytes, 1), acl.ACL_MEM_MALLOC_HUGE_FIRST), "acl.rt.malloc")
        check(acl.rt.memcpy(self.address, self.array.nbytes, acl.util.numpy_to_ptr(self.array), self.array.nbytes,
                            acl.ACL_MEMCPY_HOST_TO_DEVICE), "acl.rt.memcpy")

    def get(self):
        out = np.empty_like(self.array)
        check(acl.rt.memcpy(acl.util.numpy_to_ptr(out), out.nbytes, self.address, out.nbytes,
                            acl.ACL_MEMCPY_DEVICE_TO_HOST), "acl.rt.memcpy")
        return out

    def free(self):
        check(acl.rt.free(self.address), "acl.rt.free")


class ByName:
    """The operator "Add" by its name: acl.op.execute_v2 with descriptions and data buffers."""

    def __init__(self, inputs, outputs):
        self.arrays = inputs, outputs
        self.descs = [[acl.create_tensor_desc(DTYPES[a.array.dtype.name], list(a.array.shape), acl.ACL_FORMAT_ND)
                       for a in arrays] for arrays in self.arrays]
        self.buffers = [[acl.create_data_buffer(a.address, a.array.nbytes) for a in arrays] for arrays in self.arrays]
        self.attr = acl.op.create_attr()

    def launch(self, stream):
        check(acl.op.execute_v2("Add", self.descs[0], self.buffers[0], self.descs[1], self.buffers[1], self.attr,
                                stream), "acl.op.execute_v2")

    def destroy(self):
        for desc in self.descs[0] + self.descs[1]:
            acl.destroy_tensor_desc(desc)
        for buffer in self.buffers[0] + self.buffers[1]:
            check(acl.destroy_data_buffer(buffer), "acl.destroy_data_buffer")
        acl.op.destroy_attr(self.attr)


def library(name):
    """A library of the installation that `acl` belongs to (a prefix or a wheel), or else from the loader's path."""
    site_packages = pathlib.Path(acl.__file__).resolve().parent
    for folder in (site_packages.parents[1] / "lib64", site_packages / "cannon_npu/lib64"):
        if (folder / name).exists():
            return ctypes.CDLL(str(folder / name))
    return ctypes.CDLL(name)


class ByAclnn:
    """aclnnAdd, which pyACL has not: the C interface in two phases, by ctypes."""

    def __init__(self, inputs, outputs):
        self.nnop, self.operators = library("libnnopbase.so"), library("libopapi.so")
        self.nnop.aclCreateTensor.restype = self.nnop.aclCreateScalar.restype = ctypes.c_void_p
        self.tensors = [self.tensor(a) for a in (*inputs, *outputs)]
        integer = inputs[0].array.dtype.kind == "i"
        one = ctypes.c_int64(1) if integer else ctypes.c_float(1)
        self.alpha = ctypes.c_void_p(self.nnop.aclCreateScalar(ctypes.byref(one),
                                                               acl.ACL_INT64 if integer else acl.ACL_FLOAT))
        self.workspace, self.workspace_size = 0, 0

    def tensor(self, a):
        n = a.array.ndim
        dims = (ctypes.c_int64 * n)(*a.array.shape)
        strides = (ctypes.c_int64 * n)(*(s // a.array.itemsize for s in a.array.strides))
        return ctypes.c_void_p(self.nnop.aclCreateTensor(
            dims, ctypes.c_uint64(n), DTYPES[a.array.dtype.name], strides, ctypes.c_int64(0), acl.ACL_FORMAT_ND, dims,
            ctypes.c_uint64(n), ctypes.c_void_p(a.address)))

    def launch(self, stream):
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        x, y, out = self.tensors
        check(self.operators.aclnnAddGetWorkspaceSize(x, y, self.alpha, out, ctypes.byref(size),
                                                      ctypes.byref(executor)), "aclnnAddGetWorkspaceSize")
        if size.value > self.workspace_size:
            self.free_workspace()
            self.workspace = value(acl.rt.malloc(size.value, acl.ACL_MEM_MALLOC_HUGE_FIRST), "acl.rt.malloc")
            self.workspace_size = size.value
        check(self.operators.aclnnAdd(ctypes.c_void_p(self.workspace), size, executor, ctypes.c_void_p(stream)),
              "aclnnAdd")

    def free_workspace(self):
        if self.workspace:
            check(acl.rt.free(self.workspace), "acl.rt.free")

    def destroy(self):
        for tensor in self.tensors:
            self.nnop.aclDestroyTensor(tensor)
        self.nnop.aclDestroyScalar(self.alpha)
        self.free_workspace()


def measure(operator, stream, runs):
    """The times of single runs on the device, in milliseconds: the difference of two events around each."""
    start, end = (value(acl.rt.create_event_with_flag(acl.ACL_EVENT_TIME_LINE), "acl.rt.create_event_with_flag")
                  for _ in range(2))
    times = []
    for i in range(WARM_UP + runs):
        check(acl.rt.record_event(start, stream), "acl.rt.record_event")
        operator.launch(stream)
        check(acl.rt.record_event(end, stream), "acl.rt.record_event")
        check(acl.rt.synchronize_stream(stream), "acl.rt.synchronize_stream")
        if i >= WARM_UP:
            times.append(value(acl.rt.event_elapsed_time(start, end), "acl.rt.event_elapsed_time"))
    for event in (start, end):
        check(acl.rt.destroy_event(event), "acl.rt.destroy_event")
    return times


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", default="1024,1024")
    ap.add_argument("--runs", type=int, default=20)
    ap.add_argument("--device", type=int, default=0)
    a = ap.parse_args()
    shape = tuple(int(d) for d in a.shape.split(","))
    rng = np.random.default_rng(1)
    failed = 0
    with device(a.device) as stream:
        print(f"Add on {acl.get_soc_name()}, shape {shape}, {a.runs} runs")
        for dtype in ("float32", "float16", "int32"):
            x, y = ((rng.standard_normal(shape) * 100).astype(dtype) for _ in range(2))
            arrays = [DeviceArray(x), DeviceArray(y), DeviceArray(np.zeros(shape, dtype))]
            for way in (ByName, ByAclnn):
                operator = way(arrays[:2], arrays[2:])
                times = measure(operator, stream, a.runs)
                operator.destroy()
                right = bool((arrays[2].get() == x + y).all())
                failed += not right
                print(f"  {way.__name__:8} {dtype:8} {'right' if right else 'WRONG'}  median "
                      f"{statistics.median(times) * 1000:8.1f} us, least {min(times) * 1000:8.1f} us")
            for array in arrays:
                array.free()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
