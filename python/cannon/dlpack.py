# SPDX-License-Identifier: Apache-2.0
"""DLPack in both directions, by ctypes.

Device memory has the device type kDLExtDev, as torch_npu's tensors have (PyTorch's PrivateUse1). Nothing is copied
between a cannon.Tensor and an npu tensor of PyTorch. Host arrays are copied to the device, and a consumer that asks for
the CPU gets a copy. The work on the memory is waited for when it changes hands; afterwards the current streams of
Cannon and PyTorch wait for each other at each operator of Cannon on shared memory.
"""
import ctypes as ct
import sys

from . import dtypes, runtime
from .tensor import Storage, Tensor, contiguous_strides

CPU, EXT_DEV = 1, 12
_HOST = {CPU, 3}                                # 3: pinned host memory of CUDA


class _DLTensor(ct.Structure):
    _fields_ = [("data", ct.c_void_p), ("device_type", ct.c_int32), ("device", ct.c_int32), ("ndim", ct.c_int32),
                ("kind", ct.c_uint8), ("bits", ct.c_uint8), ("lanes", ct.c_uint16), ("shape", ct.POINTER(ct.c_int64)),
                ("strides", ct.POINTER(ct.c_int64)), ("byte_offset", ct.c_uint64)]


class _Managed(ct.Structure):
    pass


_Deleter = ct.CFUNCTYPE(None, ct.c_void_p)
_Managed._fields_ = [("tensor", _DLTensor), ("context", ct.c_void_p), ("deleter", _Deleter)]

_new_capsule = ct.PYFUNCTYPE(ct.py_object, ct.c_void_p, ct.c_char_p, ct.c_void_p)(("PyCapsule_New", ct.pythonapi))
_is_capsule = ct.PYFUNCTYPE(ct.c_int, ct.py_object, ct.c_char_p)(("PyCapsule_IsValid", ct.pythonapi))
_pointer_of = ct.PYFUNCTYPE(ct.c_void_p, ct.py_object, ct.c_char_p)(("PyCapsule_GetPointer", ct.pythonapi))
_set_name = ct.PYFUNCTYPE(ct.c_int, ct.py_object, ct.c_char_p)(("PyCapsule_SetName", ct.pythonapi))
_NEW, _USED = b"dltensor", b"used_dltensor"

_exported = {}                  # {address of a _Managed: [capsule, all that lives until its deleter runs]}
_BY_DLPACK = {t.dlpack: t for t in reversed(dtypes.ALL)}


@_Deleter
def _release(address):
    """The consumer is done with an exported tensor."""
    _exported.pop(address, None)


def _sweep():
    """Drops capsules that nobody has consumed and nobody else refers to. A destructor of the capsule can't do that: it
    may run while an exception is set, which a function in Python must not."""
    for address in list(_exported):
        entry = _exported.get(address)
        if entry and entry[0] is not None:
            if not _is_capsule(entry[0], _NEW):
                entry[0] = None                 # consumed: the deleter will be called
            elif sys.getrefcount(entry[0]) <= 2:
                _exported.pop(address, None)


def export(tensor, dl_device=None, copy=None):
    """The capsule of a tensor, or of a copy in host memory for a consumer that asks for the CPU."""
    _sweep()
    if dl_device is not None and tuple(map(int, dl_device)) == (CPU, 0):
        if copy is False:
            raise BufferError("device memory can't be read by the CPU: only a copy can be exported")
        array = tensor.bytes()
        data, owner, strides, place = array.ctypes.data, array, contiguous_strides(tensor.shape), (CPU, 0)
    else:
        if dl_device is not None and tuple(map(int, dl_device)) != (EXT_DEV, tensor.device):
            raise BufferError(f"the tensor is on device {(EXT_DEV, tensor.device)}, not on {dl_device}")
        tensor = tensor.copy() if copy else tensor
        tensor.storage.share()
        data, owner, strides, place = tensor.data_ptr(), tensor, tensor.strides, (EXT_DEV, tensor.device)
    n = len(tensor.shape)
    dims, steps = (ct.c_int64 * n)(*tensor.shape), (ct.c_int64 * n)(*strides)
    # PyTorch 2.7 ignores byte_offset, so it is 0.
    managed = _Managed(_DLTensor(data, *place, n, *tensor.dtype.dlpack, 1, dims, steps, 0), None, _release)
    address = ct.addressof(managed)
    capsule = _new_capsule(address, _NEW, None)
    _exported[address] = [capsule, managed, owner, dims, steps]
    return capsule


def to_torch(tensor):
    """An npu tensor of torch_npu on the same memory, which it keeps alive. torch.from_dlpack() makes tensors that
    torch_npu 2.7 can't work with: they lack its description of the storage."""
    import torch
    import torch_npu
    torch.npu.init()
    device = torch.device("npu", tensor.device)
    tensor.storage.share()
    n_bytes = (tensor._last() + 1) * tensor.dtype.size if tensor.size else 0
    storage = torch_npu._C._construct_storage_from_data_pointer(tensor.data_ptr(), device, n_bytes)
    storage.owner = tensor                      # PyTorch keeps the attribute as long as the memory has tensors
    return torch_npu._C._construct_NPU_Tensor_From_Storage_And_Metadata({
        "nbytes": n_bytes, "data_ptr": tensor.data_ptr(), "size": tensor.shape, "stride": tensor.strides,
        "dtype": getattr(torch, tensor.dtype.name), "device": device, "storage_offset": 0}, storage)


def from_dlpack(source, device=None):
    """A tensor of what another library exports: an object with __dlpack__, or a capsule. Device memory is shared;
    arrays in host memory are copied to `device` (the current one if left out)."""
    _sweep()
    if isinstance(source, Tensor):
        source.storage.wait()
        view = source[...]
        return view if device is None else view.to(device=device)
    capsule = source.__dlpack__() if hasattr(source, "__dlpack__") else source
    if not _is_capsule(capsule, _NEW):
        raise TypeError(f"source is {type(source).__name__}, expected an object with __dlpack__, or an unused capsule")
    managed = _Managed.from_address(_pointer_of(capsule, _NEW))
    t = managed.tensor
    dtype = _BY_DLPACK.get((t.kind, t.bits)) if t.lanes == 1 else None
    if dtype is None:
        raise TypeError(f"the tensor's type, DLPack's kind {t.kind} of {t.bits} bits and {t.lanes} lanes, is not known")
    shape = tuple(t.shape[:t.ndim])
    strides = tuple(t.strides[:t.ndim]) if t.strides else contiguous_strides(shape)
    if t.device_type not in _HOST and t.device_type != EXT_DEV:
        raise BufferError(f"the tensor is on a device of type {t.device_type}, expected {CPU} (the CPU) or {EXT_DEV} "
                          "(kDLExtDev, an NPU)")
    _set_name(capsule, _USED)

    def release(delete=managed.deleter, pointer=ct.addressof(managed)):
        if delete:
            delete(pointer)

    if t.device_type in _HOST:
        try:
            return _copied(t, dtype, shape, strides, device)
        finally:
            release()
    if device is not None and device != t.device:
        shared = _shared(t, dtype, shape, strides, release)
        return shared.to(device=device)
    return _shared(t, dtype, shape, strides, release)


def _shared(t, dtype, shape, strides, release):
    """A tensor on memory of the producer, whose work on the device is waited for."""
    last = sum((n - 1) * s for n, s in zip(shape, strides)) if all(shape) else -1
    offset = t.byte_offset // dtype.size
    storage = Storage(t.data, (offset + last + 1) * dtype.size, t.device, release=release)
    storage.shared = True
    runtime.synchronize(t.device)
    return Tensor._view(storage, dtype, shape, strides, offset)


def _copied(t, dtype, shape, strides, device):
    """A tensor with a copy of host memory."""
    import numpy as np
    span = sum(abs((n - 1) * s) for n, s in zip(shape, strides)) + 1 if all(shape) else 0
    low = sum(min((n - 1) * s, 0) for n, s in zip(shape, strides)) if span else 0
    words = np.dtype(f"V{dtype.size}")          # of any type, bfloat16 included
    start = t.data + t.byte_offset + low * dtype.size if span else 0
    raw = (ct.c_char * (span * dtype.size)).from_address(start) if span else b""
    flat = np.frombuffer(raw, words)
    array = np.lib.stride_tricks.as_strided(flat[-low:], shape, [s * dtype.size for s in strides])
    return Tensor.of_bytes(np.ascontiguousarray(array), dtype, device)
