# SPDX-License-Identifier: Apache-2.0
"""Calls operators by name: aclopCompileAndExecute on descriptions, and storage formats in NumPy.

    x = Operand.of(F16, values, NZ); y = Operand.empty(F16, values.shape, NCHW)
    execute("Identity", [x], [y], {"_any": True})

`execute` destroys every object before it waits, and then checks every byte as acl.run does.
"""
import ctypes as ct

import numpy as np

from acl import AclError, Tensor, _take_back, check, device, lib, recent_message, record_call, watched

NCHW, NHWC, ND, NC1HWC0, FRACTAL_Z = 0, 1, 2, 3, 4
HWCN, NDHWC, NZ, NCDHW, NDC1HWC0, FRACTAL_Z_3D = 16, 27, 29, 30, 32, 33
COMPILE_FAILED = 500002
BLOCK = 16


def _cut(x, axis, block=BLOCK):
    """Splits the axis into blocks and positions within a block, padded with zeros."""
    pad = [(0, 0)] * x.ndim
    pad[axis] = (0, -x.shape[axis] % block)
    x = np.pad(x, pad)
    return x.reshape(*x.shape[:axis], x.shape[axis] // block, block, *x.shape[axis + 1:])


def _image(x):
    """x with four dimensions, if it has fewer: it is C, CH or CHW."""
    shape = {0: (1, 1, 1, 1), 1: (1, *x.shape, 1, 1), 2: (1, *x.shape, 1), 3: (1, *x.shape)}.get(x.ndim)
    return x.reshape(shape) if shape else x


def _nz(x, block=BLOCK):
    x = x.reshape({0: (1, 1), 1: (-1, 1)}.get(x.ndim, x.shape))
    y = _cut(_cut(x, x.ndim - 1, block), x.ndim - 2)                # ..., M1, M0, N1, N0
    lead = tuple(range(y.ndim - 4))
    return y.transpose(*lead, *(len(lead) + i for i in (2, 0, 1, 3)))


def _fractal_z(x):
    n, c, *axes = x.shape
    y = _cut(_cut(x, 1), 0)                                         # N1, N0, C1, C0, (D,) H, W
    if len(axes) == 2:
        return y.transpose(2, 4, 5, 0, 1, 3).reshape(-1, *(y.shape[i] for i in (0, 1, 3)))
    return y.transpose(4, 2, 5, 6, 0, 1, 3).reshape(-1, *(y.shape[i] for i in (0, 1, 3)))


PACK = {
    NC1HWC0: lambda x: _cut(_image(x), 1).transpose(0, 1, 3, 4, 2),
    FRACTAL_Z: lambda x: _fractal_z(_image(x)),
    NZ: _nz,
    NDC1HWC0: lambda x: _cut(x, 1).transpose(0, 3, 1, 4, 5, 2),
    FRACTAL_Z_3D: _fractal_z,
}


def pack(x, format):
    """The stored form of x, as in torch_npu's FormatHelper."""
    return np.ascontiguousarray(PACK.get(format, lambda v: v)(x))


class Operand:
    """A tensor of `shape` in `origin` format, stored in `format`; or host numbers; or an absent operand."""

    def __init__(self, dtype, shape, format=ND, origin=None):
        self.dtype, self.shape, self.format = dtype, tuple(shape), format
        if origin is None:
            of_packed = {NZ: ND, NDC1HWC0: NCDHW, FRACTAL_Z_3D: NCDHW}.get(format, NCHW)
            origin = of_packed if format in PACK else format
        self.origin = origin
        marks = np.arange(1, 1 + int(np.prod(self.shape)), dtype=np.int64).reshape(self.shape)
        self.places = pack(marks, format)                          # the number of each stored element; padding: 0
        self.storage = Tensor.empty(dtype, self.places.shape)

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)} of format {self.origin} in format {self.format}"

    @classmethod
    def of(cls, dtype, values, format=ND, origin=None):
        values = np.asarray(values)
        o = cls(dtype, values.shape, format, origin)
        o.storage.set(pack(values, format))
        return o

    @classmethod
    def empty(cls, *args):
        return cls(*args)

    def get(self):
        stored = self.storage.get()
        out = np.empty(self.shape, stored.dtype)
        inside = self.places > 0
        out.reshape(-1)[self.places[inside] - 1] = stored[inside]
        return out

    def padding(self):
        return self.storage.get()[self.places == 0]

    def desc(self):
        l = calls()
        d = l.aclCreateTensorDesc(self.dtype.code, len(self.shape), _ints(self.shape), self.origin)
        check("aclSetTensorFormat", l.aclSetTensorFormat(d, self.format))
        check("aclSetTensorShape", l.aclSetTensorShape(d, len(self.places.shape), _ints(self.places.shape)))
        return d

    def buffer(self):
        return calls().aclCreateDataBuffer(self.storage.block.address, self.storage.block.body.size)


class Host:
    """Numbers in host memory."""

    def __init__(self, values, dtype=np.int64):
        self.values = np.array(values, dtype)

    def __repr__(self):
        return f"{self.values.dtype}({self.values.tolist()})"

    def desc(self):
        l = calls()
        code = {np.dtype(np.int32): 3, np.dtype(np.int64): 9, np.dtype(bool): 12}[self.values.dtype]
        d = l.aclCreateTensorDesc(code, self.values.ndim, _ints(self.values.shape), ND)
        check("aclSetTensorPlaceMent", l.aclSetTensorPlaceMent(d, 1))
        return d

    def buffer(self):
        return calls().aclCreateDataBuffer(self.values.ctypes.data, self.values.nbytes)


class Missing:
    def __repr__(self):
        return "Missing()"

    def desc(self):
        return calls().aclCreateTensorDesc(-1, 0, None, -1)

    def buffer(self):
        return calls().aclCreateDataBuffer(None, 0)


def _ints(values):
    return (ct.c_int64 * max(len(values), 1))(*values)


_calls = None


def calls():
    """The C functions for operators by name, with their types."""
    global _calls
    if _calls is None:
        v, i, s, f = ct.c_void_p, ct.c_int, ct.c_char_p, ct.c_float
        acl = lib().acl
        compiler = ct.CDLL(acl._name.replace("libascendcl.so", "libacl_op_compiler.so"), ct.RTLD_GLOBAL)

        class Calls:
            pass
        _calls = Calls()
        for library, name, result, args in (
                (acl, "aclCreateTensorDesc", v, [i, i, v, i]), (acl, "aclDestroyTensorDesc", None, [v]),
                (acl, "aclSetTensorFormat", i, [v, i]), (acl, "aclSetTensorShape", i, [v, i, v]),
                (acl, "aclSetTensorPlaceMent", i, [v, i]), (acl, "aclCreateDataBuffer", v, [v, ct.c_size_t]),
                (acl, "aclDestroyDataBuffer", i, [v]), (acl, "aclopCreateAttr", v, []),
                (acl, "aclopDestroyAttr", None, [v]),
                (acl, "aclopSetAttrBool", i, [v, s, ct.c_uint8]), (acl, "aclopSetAttrInt", i, [v, s, ct.c_int64]),
                (acl, "aclopSetAttrFloat", i, [v, s, f]), (acl, "aclopSetAttrString", i, [v, s, s]),
                (acl, "aclopSetAttrListInt", i, [v, s, i, v]), (acl, "aclopSetAttrListListInt", i, [v, s, i, v, v]),
                (acl, "aclGetTensorDescNumDims", ct.c_size_t, [v]),
                (acl, "aclGetTensorDescDimV2", i, [v, ct.c_size_t, v]),
                (compiler, "aclopCompileAndExecute", i, [s, i, v, v, i, v, v, v, i, i, s, v]),
                (compiler, "aclopCompileAndExecuteV2", i, [s, i, v, v, i, v, v, v, i, i, s, v])):
            function = getattr(library, name)
            function.restype, function.argtypes = result, args
            setattr(_calls, name, function)
    return _calls


def _attributes(values):
    l = calls()
    a = l.aclopCreateAttr()
    for name, value in values.items():
        key = name.encode()
        if isinstance(value, bool):
            code = l.aclopSetAttrBool(a, key, value)
        elif isinstance(value, int):
            code = l.aclopSetAttrInt(a, key, value)
        elif isinstance(value, float):
            code = l.aclopSetAttrFloat(a, key, value)
        elif isinstance(value, str):
            code = l.aclopSetAttrString(a, key, value.encode())
        elif value and isinstance(value[0], list):
            sizes, lists = (ct.c_int * len(value))(*map(len, value)), [_ints(v) for v in value]
            code = l.aclopSetAttrListListInt(a, key, len(value), sizes, (ct.c_void_p * len(lists))(
                *(ct.addressof(v) for v in lists)))
        else:
            code = l.aclopSetAttrListInt(a, key, len(value), _ints(value))
        check(f"setting {name}", code)
    return a


def _shape(desc):
    n, dim = calls().aclGetTensorDescNumDims(desc), ct.c_int64()
    shape = []
    for d in range(n):
        check("aclGetTensorDescDimV2", calls().aclGetTensorDescDimV2(desc, d, ct.byref(dim)))
        shape.append(dim.value)
    return tuple(shape)


@watched
def execute(name, inputs, outputs, attributes, updated=(), shapes=False):
    """updated: inputs that the operator may write, besides its outputs. shapes: by the call that tells the shapes of
    the outputs, which are returned."""
    device().top = 0
    l, operands = calls(), [o for o in (*inputs, *outputs) if isinstance(o, Operand)]
    for o in operands:
        o.storage.block.place()
    descs, buffers = ([getattr(o, what)() for o in (*inputs, *outputs)] for what in ("desc", "buffer"))
    n, m = len(inputs), len(outputs)
    array = lambda values: (ct.c_void_p * max(len(values), 1))(*values)
    attr = _attributes(attributes)
    recent_message()
    call = l.aclopCompileAndExecuteV2 if shapes else l.aclopCompileAndExecute
    code = call(name.encode(), n, array(descs[:n]), array(buffers[:n]), m, array(descs[n:]), array(buffers[n:]), attr,
                0, 0, None, device().stream)
    message = recent_message() if code else ""
    told = [_shape(d) for d in descs[n:]]
    for d in descs:
        l.aclDestroyTensorDesc(d)
    for b in buffers:
        l.aclDestroyDataBuffer(b)
    l.aclopDestroyAttr(attr)
    if code:
        raise AclError(name, code, message)
    device().synchronize()
    for o in operands:
        _take_back(name, o.storage.block, [o.storage] if any(o is out for out in (*outputs, *updated)) else [])
    record_call(f"aclop {name}")
    return told
