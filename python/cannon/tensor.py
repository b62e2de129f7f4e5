# SPDX-License-Identifier: Apache-2.0
"""Tensors in device memory.

    x = cannon.Tensor(np.ones((2, 3), np.float16))
    y = x.transpose()[1:]                       # a view: no copy
    (x + 1).numpy()

A tensor is a view of a storage: shape, strides and offset, counted in elements. Views share the storage, which is freed
when the last of them has gone and the work that uses it is done. Host code can't read device memory: numpy() and
np.asarray(tensor) wait for the work on the tensor and copy.
"""
import ctypes as ct
import functools

from . import dtypes, runtime
from ._library import AclError, load

ND, NCHW, NCDHW, NCL = 2, 0, 30, 47             # aclFormat
_FORMATS = {3: NCL, 4: NCHW, 5: NCDHW}          # of plain tensors by rank, as torch_npu has it


class Storage:
    """Device memory that views share. `stream` and `mark` are the last launch that used it, `others` the last launches
    on other streams, {stream: number}, and `writer` and `written` the last launch that wrote it. `release` gives back
    memory of others; `shared` says that others use it too, on streams that are not known here."""
    __slots__ = ("address", "n_bytes", "device", "stream", "mark", "others", "writer", "written", "release", "shared")

    def __init__(self, address, n_bytes, device, stream=None, release=None):
        self.address, self.n_bytes, self.device = address, n_bytes, device
        self.stream, self.mark, self.others, self.release, self.shared = stream, 0, None, release, False
        self.writer, self.written = None, 0

    def order(self, stream, writes):
        """Makes the stream's next launch wait for what other streams still do with the memory: for writing, or if it
        writes, for everything."""
        if self.writer is not None and self.writer is not stream and self.written > self.writer.synced:
            stream.wait(self.writer)
        if writes and (self.stream is not stream or self.others):
            for other, mark in self.uses():
                if other is not stream and mark > other.synced:
                    stream.wait(other)

    def uses(self):
        """The last launches on each stream, as (stream, number)."""
        return [(s, n) for s, n in ((self.stream, self.mark), *(self.others or {}).items()) if s is not None]

    def used(self, stream, mark, writes):
        """A launch of that number on the stream uses the memory."""
        if writes:
            self.writer, self.written = stream, mark
        if self.stream is not stream and self.stream is not None and self.mark > self.stream.synced:
            self.others = self.others or {}
            self.others[self.stream] = self.mark
        self.stream, self.mark = stream, mark

    def wait(self):
        """Returns when all work that uses the memory is done."""
        if self.shared:
            runtime.synchronize(self.device)
        for stream, mark in self.uses():
            if mark > stream.synced:
                stream.synchronize()
        self.others = None

    def share(self):
        """Others will use the memory from now on, on streams of theirs."""
        self.wait()
        self.shared = True

    def __del__(self):
        if runtime is None or runtime._closed:  # the interpreter ends
            return
        try:
            if self.shared or self.others:
                self.wait()
                (self.release or functools.partial(runtime.free, self.address))()
            elif self.stream is None:
                runtime.free(self.address)
            else:
                self.stream.retire_block(self.n_bytes, self.address, self.mark)
        except AclError:
            pass                                # work on the memory failed, and who waits for it is told


@functools.lru_cache(4096)
def contiguous_strides(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if n > 1 else 1
    return tuple(reversed(strides))


@functools.lru_cache(4096)
def int64s(values):
    """The numbers as an array of C, which nobody changes."""
    return (ct.c_int64 * len(values))(*values)


@functools.lru_cache(4096)
def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


class Tensor:
    """Tensor(array, device=None, dtype=None): a copy of the array, or of what NumPy makes an array of, on the device
    (the thread's current one if left out)."""
    __slots__ = ("storage", "dtype", "shape", "strides", "offset", "format", "_acl", "__weakref__")
    __array_ufunc__ = None                      # array + tensor is the tensor's business

    def __init__(self, array, device=None, dtype=None):
        import numpy as np
        self._acl = None
        if isinstance(array, Tensor):
            array = array.to(dtype or array.dtype).numpy()
        array = np.asarray(array, None if dtype is None else dtypes.of(dtype).numpy)
        self._upload(np.ascontiguousarray(array).reshape(array.shape), dtypes.of(array.dtype), device)

    def _upload(self, array, dtype, device):
        """Takes the bytes of a contiguous array."""
        device = runtime.current_device() if device is None else device
        n_bytes = runtime.rounded(array.nbytes)
        storage = Storage(runtime.allocate(n_bytes, device), n_bytes, device)
        self._set(storage, dtype, array.shape, contiguous_strides(array.shape), 0)
        with runtime.on_device(device):
            runtime.copy(storage.address, array.ctypes.data, array.nbytes, runtime.H2D)

    def _set(self, storage, dtype, shape, strides, offset, format=None):
        self.storage, self.dtype, self.shape, self.strides, self.offset = storage, dtype, shape, strides, offset
        self.format, self._acl = format, None

    @classmethod
    def _view(cls, storage, dtype, shape, strides, offset, format=None):
        self = cls.__new__(cls)
        self._set(storage, dtype, shape, strides, offset, format)
        return self

    @classmethod
    def of_bytes(cls, array, dtype, device=None):
        """A tensor of that dtype with the bytes of an array whose elements have the dtype's size: bfloat16 from an
        array of uint16, where NumPy doesn't have bfloat16."""
        import numpy as np
        kind = dtypes.of(dtype)
        if array.dtype.itemsize != kind.size:
            raise TypeError(f"array has elements of {array.dtype.itemsize} bytes, expected {kind.size} for {kind}")
        self = cls.__new__(cls)
        self._acl = None
        self._upload(np.ascontiguousarray(array).reshape(array.shape), kind, device)
        return self

    @classmethod
    def empty(cls, shape, dtype="float32", device=None):
        """A tensor with undefined values, in the current stream's order."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return cls._allocate(shape, dtypes.of(dtype), runtime.current_stream(device))

    @classmethod
    def _allocate(cls, shape, dtype, stream):
        address, n_bytes = stream.allocate(product(shape) * dtype.size)
        self = cls.__new__(cls)
        self.storage = Storage(address, n_bytes, stream.device, stream)
        self.dtype, self.shape, self.strides, self.offset = dtype, shape, contiguous_strides(shape), 0
        self.format = self._acl = None
        return self

    def __del__(self):
        if self._acl is not None and runtime is not None and not runtime._closed:
            load().aclDestroyTensor(self._acl)

    # ---- what it is

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return product(self.shape)

    @property
    def itemsize(self):
        return self.dtype.size

    @property
    def nbytes(self):
        return self.size * self.dtype.size

    @property
    def device(self):
        """The number of the device."""
        return self.storage.device

    @property
    def is_contiguous(self):
        return self.strides == contiguous_strides(self.shape) or self.size <= 1

    def data_ptr(self):
        """The device address of the first element."""
        return self.storage.address + self.offset * self.dtype.size

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        import numpy as np
        try:
            values = self.numpy()
        except TypeError:                       # NumPy doesn't have the type
            values = self.to("float32").numpy()
        text = np.array2string(values, separator=", ", prefix="cannon.Tensor(")
        return f"cannon.Tensor({text}, dtype={self.dtype}, device={self.device})"

    # ---- views

    def _last(self):
        """The offset of the last element, from the first."""
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def __getitem__(self, key):
        """A view; `key` is made of integers, slices with positive steps, None and an ellipsis."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if any(k is Ellipsis for k in keys):
            at = next(i for i, k in enumerate(keys) if k is Ellipsis)
            rest = len([k for k in keys if k is not None]) - 1
            keys[at:at + 1] = [slice(None)] * (len(self.shape) - rest)
        keys += [slice(None)] * (len(self.shape) - len([k for k in keys if k is not None]))
        shape, strides, offset, dim = [], [], self.offset, 0
        for k in keys:
            if k is None:
                shape.append(1)
                strides.append(1)
                continue
            if dim == len(self.shape):
                raise IndexError(f"too many indices for a tensor of {len(self.shape)} dimensions")
            n, stride = self.shape[dim], self.strides[dim]
            if isinstance(k, slice):
                start, stop, step = k.indices(n)
                if step < 0:
                    raise ValueError("slices of tensors have positive steps; use aclnn.Flip")
                shape.append(len(range(start, stop, step)))
                strides.append(stride * step)
                offset += start * stride if shape[-1] else 0
            elif hasattr(k, "__index__"):
                i = k.__index__()
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of range for dimension {dim} of size {n}")
                offset += (i % n) * stride
            else:
                raise TypeError(f"index {k!r}: expected integers, slices, None or an ellipsis; use aclnn.Index")
            dim += 1
        return self._view(self.storage, self.dtype, tuple(shape), tuple(strides), offset, self.format)

    def __setitem__(self, key, value):
        from . import aclnn
        view = self[key]
        if not isinstance(value, Tensor):
            value = Tensor(value, self.device, self.dtype)
        aclnn.InplaceCopy(view, value)

    def transpose(self, *axes):
        """A view with the dimensions in that order; reversed if none are given."""
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = tuple(axes[0])
        n = len(self.shape)
        axes = tuple(a % n for a in axes) if axes else tuple(reversed(range(n)))
        if sorted(axes) != list(range(n)):
            raise ValueError(f"axes are {axes}, expected each of 0 to {n - 1} once")
        return self._view(self.storage, self.dtype, tuple(self.shape[a] for a in axes),
                          tuple(self.strides[a] for a in axes), self.offset, self.format)

    T = property(transpose)

    def broadcast_to(self, shape):
        """A view of that shape, whose repeated dimensions have stride 0."""
        shape = tuple(shape)
        lead = len(shape) - len(self.shape)
        if lead < 0 or any(n not in (1, m) for n, m in zip(self.shape, shape[lead:])):
            raise ValueError(f"shape {self.shape} doesn't broadcast to {shape}")
        strides = (0,) * lead + tuple(s if n == m else 0 for n, m, s in zip(self.shape, shape[lead:], self.strides))
        return self._view(self.storage, self.dtype, shape, strides, self.offset, self.format)

    def reshape(self, *shape):
        """The same elements in another shape, one number of which may be -1: a view where strides allow it, else a
        copy."""
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        if -1 in shape:
            known = -product(shape)
            shape = tuple(self.size // max(known, 1) if n == -1 else n for n in shape)
        if product(shape) != self.size:
            raise ValueError(f"a tensor of shape {self.shape} can't be reshaped to {shape}")
        strides = _reshaped_strides(self.shape, self.strides, shape)
        if strides is None:
            return self.contiguous().reshape(shape)
        return self._view(self.storage, self.dtype, shape, strides, self.offset, self.format)

    def contiguous(self):
        """The tensor itself if its elements are in order without gaps, else a copy that has them so."""
        return self if self.is_contiguous else self.copy()

    # ---- copies

    def copy(self):
        """A contiguous copy."""
        from . import aclnn
        with runtime.on_device(self.device):
            return aclnn.InplaceCopy(Tensor.empty(self.shape, self.dtype), self)

    def to(self, dtype=None, device=None):
        """The values in that dtype, on that device; the tensor itself if it is so already."""
        if dtype is None and device is None:
            raise TypeError("to() takes a dtype or a device")
        result = self
        if dtype is not None and dtypes.of(dtype) is not self.dtype:
            from . import aclnn
            result = aclnn.Cast(self, dtypes.of(dtype))
        if device is not None and device != self.device:
            result = Tensor.of_bytes(result.bytes(), result.dtype, device)      # through the host's memory
        return result

    def numpy(self):
        """The values as an array in host memory, after the work on the tensor."""
        return self._download(self.dtype.numpy)

    def bytes(self):
        """The elements' bytes as an array of NumPy's void type (V2 for bfloat16), for types that NumPy doesn't
        have."""
        return self._download(f"V{self.dtype.size}")

    def _download(self, kind):
        import numpy as np
        if not self.size:
            return np.empty(self.shape, kind)
        self.storage.wait()
        span = np.empty(self._last() + 1, kind)
        with runtime.on_device(self.device):
            runtime.copy(span.ctypes.data, self.data_ptr(), span.nbytes, runtime.D2H)
        if self.is_contiguous:
            return span.reshape(self.shape)
        steps = [s * self.dtype.size for s in self.strides]
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(span, self.shape, steps))

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("device memory can't be read in place: a NumPy array of it is a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def item(self):
        """The value of a tensor of one element, as a Python number."""
        return self.numpy().item()

    def tolist(self):
        return self.numpy().tolist()

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    # ---- DLPack

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        from . import dlpack
        return dlpack.export(self, dl_device, copy)

    def __dlpack_device__(self):
        from . import dlpack
        return (dlpack.EXT_DEV, self.device)

    def torch(self):
        """An npu tensor of PyTorch on the same memory."""
        from . import dlpack
        return dlpack.to_torch(self)

    # ---- CANN's handle

    def acl_tensor(self):
        """The aclTensor of this view, for C functions; it lives as long as the view."""
        if self._acl is None:
            shape, storage = self.shape, self.storage
            size = self.dtype.size
            dims = int64s(shape)
            if self.offset == 0 and self.strides == contiguous_strides(shape):
                held = shape                    # CANN's samples pass a plain tensor's own shape
            else:
                held = (storage.n_bytes // size,)
            format = _FORMATS.get(len(shape), ND) if self.format is None else self.format
            handle = load().aclCreateTensor(dims, len(shape), self.dtype.code, int64s(self.strides), self.offset,
                                            format, int64s(held), len(held), storage.address)
            if not handle:
                raise AclError("aclCreateTensor", -1, load().message())
            self._acl = handle
        return self._acl


def _reshaped_strides(old_shape, old_strides, shape):
    """The strides with which a view of shape `shape` has the elements in order, or None if there are none."""
    if product(shape) == 0:
        return contiguous_strides(shape)
    old = [(n, s) for n, s in zip(old_shape, old_strides) if n != 1]
    runs = []                                   # (elements, stride of the last) of dimensions that are one in memory
    for n, s in old:
        if runs and runs[-1][1] == n * s:
            runs[-1] = (runs[-1][0] * n, s)
        else:
            runs.append((n, s))
    strides, run = [0] * len(shape), len(runs) - 1
    left, step = runs[run] if runs else (1, 1)
    for d in reversed(range(len(shape))):
        n = shape[d]
        if n == 1:
            strides[d] = step
            continue
        while left == 1 and run > 0:
            run -= 1
            left, step = runs[run]
        if left % n:
            return None
        strides[d] = step
        left, step = left // n, step * n
    return tuple(strides)


def _operator(tensor_name, scalar_name, reflected_name=None):
    """The methods of x op y and y op x."""
    def method(self, other):
        from . import aclnn
        if isinstance(other, (bool, int, float, complex)) and scalar_name:
            return getattr(aclnn, scalar_name)(self, other)
        return getattr(aclnn, tensor_name)(self, other)

    def reflected(self, other):
        from . import aclnn
        if isinstance(other, (bool, int, float, complex)) and reflected_name:
            return getattr(aclnn, reflected_name)(self, other)
        return getattr(aclnn, tensor_name)(other, self)
    return method, reflected


Tensor.__add__, Tensor.__radd__ = _operator("Add", "Adds", "Adds")
Tensor.__sub__, Tensor.__rsub__ = _operator("Sub", "Subs", "Rsubs")
Tensor.__mul__, Tensor.__rmul__ = _operator("Mul", "Muls", "Muls")
Tensor.__truediv__, Tensor.__rtruediv__ = _operator("Div", "Divs")
Tensor.__matmul__, Tensor.__rmatmul__ = _operator("Matmul", None)
