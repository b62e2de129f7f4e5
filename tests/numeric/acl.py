# SPDX-License-Identifier: Apache-2.0
"""Calls the public libraries through ctypes: device memory, aclnn objects and the two-phase call.

    x = Tensor.of(F32, values); out = Tensor.empty(F32, x.shape)
    run("aclnnAdds", x, Scalar(2.0, F64), Scalar(1, I64), out)

`run` takes an operator's own arguments in the order of its signature in abi/aclnn_ops.tsv, creates the aclnn objects,
calls both phases with a workspace of exactly the requested size, destroys the objects before it waits, and then checks
every byte: nothing outside the view of a tensor that the operator writes may have changed.
"""
import atexit
import copy
import csv
import ctypes as ct
import faulthandler
import functools
import os
import sys

import numpy as np

import inference
from cannon import AclError, aclnn
from cannon._library import Library
from dtypes import ALL, COMPLEX, U16, U32, U64, DType

faulthandler.enable()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
H2D, D2H = 1, 2
NULLPTR, INVALID, OUT_OF_MEMORY = 161001, 161002, 207001
FORMAT_ND = 2
GUARD = 64                       # bytes of pattern before and after each tensor and workspace
ARENA_BYTES = 16 << 20           # small tensors are cut from one allocation, so that cases don't call aclrtMalloc
TRACE = bool(os.environ.get("CANNON_TRACE"))    # prints each call's name on stderr before the call, to find a crash
CALLED = os.environ.get("CANNON_CALLED")        # a folder; the names of the operators that were called go there


# ---- the operators that were called

_called = set()


def record_call(operator):
    """Records, once per process, that a call of the operator succeeded, in a file of this process in the folder CALLED.
    called_operators.py compares these files with the schemas."""
    if CALLED and operator not in _called:
        _called.add(operator)
        os.makedirs(CALLED, exist_ok=True)
        with open(os.path.join(CALLED, f"{os.getpid()}.txt"), "a", encoding="utf-8") as f:
            f.write(operator + "\n")


# ---- libraries and signatures

def _read_functions():
    """The functions of CANN that are operators, built or not."""
    for name in ("aclnn_ops.tsv", "aclnn_extra.tsv"):
        with open(os.path.join(ROOT, "abi", name), encoding="utf-8") as f:
            yield from (r["op"] for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


_functions = frozenset(_read_functions())


def variants(name):
    """The functions of an operator: aclnn<name>, and aclnnInplace<name> if CANN has that too. A function that CANN has
    and the schemas lack is an error."""
    found = [op for op in (f"aclnn{name}", f"aclnnInplace{name}") if op in _functions]
    missing = [op for op in found if op not in inference.SCHEMAS]
    if missing or not found:
        raise AssertionError(f"{', '.join(missing) or name}: not in ops/*.ops")
    return found


@functools.lru_cache(None)
def params(op):
    """The operator's arguments, as aclnn.Argument."""
    return inference.schema_of(op).arguments


class _Libraries(Library):
    def __init__(self):
        super().__init__()
        self._pairs = {}
        self.declare(ct.c_int, """
            aclrtResetDevice int
            aclSetTensorAddr void * size void * void *
            aclSetDynamicTensorAddr void * size size void * void *""")

    def pair(self, op):
        if op not in self._pairs:
            one, two = getattr(self.op, op + "GetWorkspaceSize"), getattr(self.op, op)
            one.restype = two.restype = ct.c_int
            one.argtypes = [ct.c_void_p if "*" in p.c_type else aclnn.C_TYPES[p.c_type] for p in params(op)] + \
                [ct.c_void_p] * 2
            two.argtypes = [ct.c_void_p, ct.c_uint64, ct.c_void_p, ct.c_void_p]
            self._pairs[op] = one, two
        return self._pairs[op]


# ---- the device

def recent_message():
    return lib().message()


def check(what, code):
    if code != 0:
        raise AclError(what, code, recent_message())


class _Device:
    def __init__(self):
        self.lib = _Libraries()
        check("aclInit", self.lib.aclInit(None))
        check("aclrtSetDevice", self.lib.aclrtSetDevice(0))
        self.stream = ct.c_void_p()
        check("aclrtCreateStream", self.lib.aclrtCreateStream(ct.byref(self.stream)))
        self.arena = self.malloc(ARENA_BYTES)
        self.top = 0
        atexit.register(self.close)

    def close(self):
        check("aclrtFree", self.lib.aclrtFree(self.arena))
        check("aclrtDestroyStream", self.lib.aclrtDestroyStream(self.stream))
        check("aclrtResetDevice", self.lib.aclrtResetDevice(0))
        check("aclFinalize", self.lib.aclFinalize())

    def malloc(self, n_bytes):
        p = ct.c_void_p()
        code = self.lib.aclrtMalloc(ct.byref(p), n_bytes, 0)
        if code:
            raise AclError("aclrtMalloc", code, recent_message())
        return p.value

    def upload(self, address, array):
        check("aclrtMemcpy", self.lib.aclrtMemcpy(address, array.nbytes, array.ctypes.data, array.nbytes, H2D))

    def download(self, address, array):
        check("aclrtMemcpy", self.lib.aclrtMemcpy(array.ctypes.data, array.nbytes, address, array.nbytes, D2H))

    def synchronize(self):
        check("aclrtSynchronizeStream", self.lib.aclrtSynchronizeStream(self.stream))


_the_device = None


def device():
    global _the_device
    if _the_device is None:
        _the_device = _Device()
    return _the_device


def lib():
    return device().lib


class Block:
    """Device bytes between two guards, and the bytes that the host has put there or fetched. Small blocks get their
    address from `place`, for one run; large blocks own an allocation."""

    def __init__(self, n_bytes):
        self.sent = np.full(n_bytes + 2 * GUARD, 0xA5, np.uint8)
        self.own = device().malloc(self.sent.size) if self.sent.size > ARENA_BYTES // 8 else None
        self.base = self.own

    def __del__(self):
        if getattr(self, "own", None) is not None:
            lib().aclrtFree(self.own)

    @property
    def body(self):
        return self.sent[GUARD:self.sent.size - GUARD]

    @property
    def address(self):
        return self.base + GUARD

    def place(self):
        if self.own is None:
            d = device()
            self.base = d.arena + d.top
            d.top += -(-self.sent.size // 64) * 64
            assert d.top <= ARENA_BYTES, "a case with too many small tensors"
        device().upload(self.base, self.sent)

    def fetch(self):
        back = np.empty_like(self.sent)
        device().download(self.base, back)
        return back


# ---- aclnn objects

def contiguous(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


class Tensor:
    """A view in device memory: shape, strides and offset in elements, within a storage of n_storage elements."""

    def __init__(self, dtype, shape, strides=None, offset=0, n_storage=None, format=FORMAT_ND):
        self.format = format
        self.dtype, self.shape, self.offset = dtype, tuple(map(int, shape)), int(offset)
        self.strides = contiguous(self.shape) if strides is None else tuple(map(int, strides))
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides)) if self.size else -1
        self.n_storage = int(n_storage) if n_storage is not None else self.offset + last + 1
        assert self.offset + last < self.n_storage or not self.size, self
        self.code = dtype.code
        self.block = Block(self.n_storage * dtype.size)

    @classmethod
    def of(cls, dtype, values):
        values = np.asarray(values)
        return cls(dtype, values.shape).set(values)

    @classmethod
    def empty(cls, dtype, shape):
        return cls(dtype, shape)

    def __repr__(self):
        return f"{self.dtype}{list(self.shape)} strides {list(self.strides)} offset {self.offset}"

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    def view(self, raw):
        """The elements of this view in `raw`, the bytes of a block's body, as an array of the storage type."""
        flat = raw.view(self.dtype.storage)[self.offset:]
        if not self.size:
            return np.empty(self.shape, self.dtype.storage)
        steps = [s * self.dtype.size for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps)

    def set(self, values):
        """Writes values (of the dtype's value type) through the view; gaps keep the pattern."""
        self.view(self.block.body)[...] = self.dtype.store(values)
        return self

    def get(self):
        """The values that the last `run` left, or those that were set."""
        return self.dtype.load(self.view(self.block.body).copy())

    def bits(self):
        return self.view(self.block.body).copy()

    def create(self):
        # Frameworks pass 1-D storage dims; a plain tensor passes its own shape, as CANN's samples do.
        plain = self.offset == 0 and self.n_storage == self.size and self.strides == contiguous(self.shape)
        dims, steps = _int64s(self.shape), _int64s(self.strides)
        storage = _int64s(self.shape if plain else (self.n_storage,))
        return lib().aclCreateTensor(dims, len(self.shape), self.code, steps, self.offset, self.format, storage,
                                     len(storage), self.block.address)

    destroy = "aclDestroyTensor"

    def with_code(self, code):
        """The same memory with another data type code, for calls that must be refused."""
        twin = object.__new__(Tensor)
        twin.__dict__.update(self.__dict__, code=code)
        return twin


class Blocked(Tensor):
    """The values of another tensor, which really lie in FRACTAL_NZ: blocks of 16 rows and 32 bytes, padded. Its storage
    may be the transpose of what the view shows."""

    def __init__(self, of, transposed=False):
        super().__init__(of.dtype, of.shape)
        values = of.bits().swapaxes(-1, -2) if transposed else of.bits()
        rows, cols = values.shape[-2:]
        block = 32 // of.dtype.size
        down, across = -(-rows // 16), -(-cols // block)
        padded = np.zeros((*values.shape[:-2], down * 16, across * block), values.dtype)
        padded[..., :rows, :cols] = values
        lies = np.moveaxis(padded.reshape(*values.shape[:-2], down, 16, across, block), -2, -4)
        self.storage_dims, self.n_storage, self.block = lies.shape, lies.size, Block(lies.size * of.dtype.size)
        self.block.body[...] = np.ascontiguousarray(lies).reshape(-1).view(np.uint8)
        if transposed:
            self.strides = (*contiguous((*self.shape[:-2], cols, rows))[:-2], 1, cols)
        self.offset = 0

    def __getitem__(self, at):
        """A view of one of the matrices, or of a part of them."""
        view = copy.copy(self)
        view.offset = self.offset + (at.start if isinstance(at, slice) else at) * self.strides[0]
        of = np.empty(self.shape, np.uint8)[at]
        view.shape, view.strides = of.shape, self.strides[-of.ndim:]
        return view

    def create(self):
        dims, steps, storage = _int64s(self.shape), _int64s(self.strides), _int64s(self.storage_dims)
        return lib().aclCreateTensor(dims, len(self.shape), self.code, steps, self.offset, 29, storage, len(storage),
                                     self.block.address)


def _int64s(values):
    return (ct.c_int64 * len(values))(*values)


class Scalar:
    def __init__(self, value, dtype):
        self.value, self.dtype, self.code = value, dtype, dtype.code
        self.raw = np.atleast_1d(dtype.store(dtype.values.type(value)))

    def __repr__(self):
        return f"{self.dtype}({self.value})"

    def create(self):
        return lib().aclCreateScalar(self.raw.ctypes.data, self.code)

    destroy = "aclDestroyScalar"


class Ints:
    def __init__(self, *values):
        self.values = values

    def __repr__(self):
        return f"Ints{self.values}"

    def create(self):
        return lib().aclCreateIntArray(_int64s(self.values), len(self.values))

    destroy = "aclDestroyIntArray"


class Bools:
    def __init__(self, *values):
        self.values = values

    def __repr__(self):
        return f"Bools{self.values}"

    def create(self):
        return lib().aclCreateBoolArray((ct.c_bool * len(self.values))(*self.values), len(self.values))

    destroy = "aclDestroyBoolArray"


class Floats:
    def __init__(self, *values):
        self.values = values

    def __repr__(self):
        return f"Floats{self.values}"

    def create(self):
        return lib().aclCreateFloatArray((ct.c_float * len(self.values))(*self.values), len(self.values))

    destroy = "aclDestroyFloatArray"


class ScalarList:
    def __init__(self, scalars):
        self.scalars = list(scalars)

    def __repr__(self):
        return repr(self.scalars)

    def create(self):
        handles = (ct.c_void_p * len(self.scalars))(*(s.create() for s in self.scalars))
        return lib().aclCreateScalarList(handles, len(self.scalars))

    destroy = "aclDestroyScalarList"            # destroys its members too


class TensorList:
    def __init__(self, tensors):
        self.tensors = list(tensors)

    def __repr__(self):
        return repr(self.tensors)

    def create(self):
        handles = (ct.c_void_p * len(self.tensors))(*(t.create() for t in self.tensors))
        return lib().aclCreateTensorList(handles, len(self.tensors))

    destroy = "aclDestroyTensorList"            # destroys its members too


# ---- the two-phase call

watcher = None          # if set: called as watcher(function, *arguments) in place of a watched function (golden.py)


def watched(function):
    """Marks a function of the harness that calls an operator."""
    @functools.wraps(function)
    def call(*args, **more):
        return watcher(function, *args, **more) if watcher else function(*args, **more)
    return call


def _tensors(args, signature):
    for a, p in zip(args, signature):
        if isinstance(a, Tensor):
            yield a, p.written
        elif isinstance(a, TensorList):
            yield from ((t, p.written) for t in a.tensors)


def place(args, signature):
    """Puts the tensors of a call on the device. Returns, for each block, the views that may be written."""
    device().top = 0
    touched = {}
    for t, written in _tensors(args, signature):
        touched.setdefault(t.block, []).extend([t] if written else [])
    for block in touched:
        block.place()
    return touched


def call_phase_one(op, args, workspace_size, executor, most=False):
    """Creates the objects, calls phase one and returns (code, function that destroys the objects). most: for the most
    workspace."""
    if TRACE:
        print(op, *args, file=sys.stderr, flush=True)
    one, _ = lib().pair(op)
    if most:
        types, one = one.argtypes, getattr(lib().op, op + "GetMaxWorkspaceSize")
        one.argtypes = types
    made, values = [], []
    for a in args:
        if hasattr(a, "create"):
            handle = a.create()
            if not handle:
                raise AclError(f"creating {a}", -1, recent_message())
            made.append((a.destroy, handle))
            values.append(handle)
        else:
            values.append(a.code if isinstance(a, DType) else a)

    def destroy():
        for name, handle in made:
            check(name, getattr(lib(), name)(handle))
    destroy.handles = [handle for _, handle in made]
    return one(*values, workspace_size, executor), destroy


def _view_shape(handle):
    dims, rank = ct.POINTER(ct.c_int64)(), ct.c_uint64()
    check("aclGetViewShape", lib().aclGetViewShape(handle, ct.byref(dims), ct.byref(rank)))
    shape = tuple(dims[:rank.value])
    ct.CDLL(None).free(dims)
    return shape


_readdressed = set()                            # names of operators


def _readdress(op, executor, args, handles):
    """Makes the executor repeatable and sets every tensor's address to its present one. Arguments are counted as in the
    signature, and so are the lengths of attention for inference, which CANN defines as inputs: an operator that counts
    them otherwise computes a wrong result."""
    check(op, lib().aclSetAclOpExecutorRepeatable(executor))
    handles, index = iter(handles), 0
    for a, p in zip(args, params(op)):
        handle = next(handles) if hasattr(a, "create") else None
        if isinstance(a, Tensor):
            check(f"{op}: aclSetTensorAddr", lib().aclSetTensorAddr(executor, index, handle, a.block.address))
        elif isinstance(a, TensorList):
            for i, t in enumerate(a.tensors):
                check(f"{op}: aclSetDynamicTensorAddr",
                      lib().aclSetDynamicTensorAddr(executor, index, i, handle, t.block.address))
        index += p.type in ("Tensor", "TensorList") or p.name.startswith(("actualSeqLengths", "actualSharedPrefixLen"))


@watched
def run(op, *args, shapes=None):
    """Calls both phases and synchronises; afterwards the tensors hold the results. With a list `shapes` the objects
    live until the task has run, and the list gets the shapes that the tensors of args have then: for outputs whose
    shape depends on the data. The first call of an operator sets the executor's addresses one by one (_readdress)."""
    signature = params(op)
    assert len(args) == len(signature), f"{op} takes {[p.name for p in signature]}"
    touched = place(args, signature)

    size, executor = ct.c_uint64(0), ct.c_void_p()
    recent_message()
    code, destroy = call_phase_one(op, args, ct.byref(size), ct.byref(executor))
    if code != 0:
        destroy()
        raise AclError(op + "GetWorkspaceSize", code, recent_message())
    workspace = Block(size.value) if size.value else None
    if workspace:
        workspace.place()
    repeatable = op not in _readdressed
    if repeatable:
        _readdressed.add(op)
        _readdress(op, executor, args, destroy.handles)
    _, two = lib().pair(op)
    code = two(workspace.address if workspace else None, size.value, executor, device().stream)
    if shapes is None or code:
        destroy()                               # before the task has run, as clients do
    if repeatable:
        check("aclDestroyAclOpExecutor", lib().aclDestroyAclOpExecutor(executor))
    check(op, code)
    device().synchronize()
    if shapes is not None:
        objects = zip((a for a in args if hasattr(a, "create")), destroy.handles)
        shapes.extend(_view_shape(h) for a, h in objects if isinstance(a, Tensor))
        destroy()

    for block, views in touched.items():
        _take_back(op, block, views)
    if workspace:
        back = workspace.fetch()
        if (back[:GUARD] != 0xA5).any() or (back[-GUARD:] != 0xA5).any():
            raise AssertionError(f"{op} wrote outside its workspace of {size.value} bytes")
    check_inference(op, args)
    record_call(op)
    return size.value


_DTYPES = {d.code: d for d in (*ALL, *COMPLEX, U16, U32, U64)}


def check_inference(op, args, ask=True):
    """Python's shape inference, given the inputs of a call that succeeded: where its outputs differ from those of the
    test, phase one must take them, too (with ask=False, shapes must not differ). Records "inferred OPERATOR"."""
    def tensor(wanted):
        return None if wanted is None else TensorList(map(tensor, wanted)) if type(wanted) is list \
            else Tensor(_DTYPES[wanted[1].code], wanted[0])
    try:
        others = inference.differing(op, args)
    except inference.Unknown:
        return
    if others is not None:
        if not ask:
            wrong = {i: w for i, w in others.items() if w and args[i] and w[0] != args[i].shape}
            assert not wrong, f"{op}: Python infers {wrong} for {args}"
            record_call("inferred " + op)
            return
        args = [tensor(others[i]) if i in others else a for i, a in enumerate(args)]
        place(args, params(op))
        size, executor = ct.c_uint64(0), ct.c_void_p()
        code, destroy = call_phase_one(op, args, ct.byref(size), ct.byref(executor))
        destroy()
        check(f"{op} with the outputs {others} that Python infers", code)
        check(op, lib().aclSetAclOpExecutorRepeatable(executor))
        check("aclDestroyAclOpExecutor", lib().aclDestroyAclOpExecutor(executor))
    record_call("inferred " + op)


def _take_back(op, block, views):
    """Fetches a block; only elements of `views` may differ from what was sent."""
    back = block.fetch()
    expected = block.sent.copy()
    for t in views:
        body = slice(GUARD, expected.size - GUARD)
        t.view(expected[body])[...] = t.view(back[body])
    wrong = np.flatnonzero(expected != back)
    if wrong.size:
        raise AssertionError(f"{op} changed {wrong.size} bytes that it may not write, the first at byte "
                             f"{wrong[0] - GUARD} of a storage of {block.body.size}; it may write {views}")
    block.sent = back


@watched
def bytes_of_workspace(op, args, most=False):
    """What phase one tells; most: for all lengths of sequences."""
    size, handle = ct.c_uint64(0), ct.c_void_p()
    place(args, params(op))
    code, destroy = call_phase_one(op, args, ct.byref(size), ct.byref(handle), most)
    check(op, code)
    destroy()
    check("aclDestroyAclOpExecutor", lib().aclDestroyAclOpExecutor(handle))
    return size.value


def refused(op, *args, workspace_size=True, executor=True):
    """Calls phase one, which must fail. Returns (code, message). False for a result's pointer passes null."""
    size, handle = ct.c_uint64(0), ct.c_void_p()
    place(args, params(op))
    recent_message()
    code, destroy = call_phase_one(op, args, ct.byref(size) if workspace_size else None,
                                   ct.byref(handle) if executor else None)
    message = recent_message()
    destroy()
    return code, message
