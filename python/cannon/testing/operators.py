# SPDX-License-Identifier: Apache-2.0
"""Finds operators, and calls them in two phases with tensors whose memory is watched.

An operator is looked up in this order: the library that the test names; the custom opp folders of the environment
variable ASCEND_CUSTOM_OPP_PATH (several, with ':' between), where op_api/lib/libcust_opapi.so has the functions and
op_api/include/*.h their declarations; the installation.
"""
import ctypes as ct
import functools
import glob
import os
import re
import time

from .. import aclnn
from .._library import AclError, load
from . import device as devices
from . import dtypes, schema as schemas

_CTYPES = {"int64_t": ct.c_int64, "uint64_t": ct.c_uint64, "int32_t": ct.c_int32, "uint32_t": ct.c_uint32,
           "int8_t": ct.c_int8, "int": ct.c_int, "float": ct.c_float, "double": ct.c_double, "bool": ct.c_bool,
           "aclDataType": ct.c_int, "char *": ct.c_char_p}


class UnknownOperator(Exception):
    pass


# ---- finding

def custom_folders():
    return [f for f in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if f]


def _declared(folder, name):
    """The schema of an operator from the headers of a folder, or None."""
    for path in sorted(glob.glob(os.path.join(folder, "*.h"))):
        with open(path, encoding="utf-8", errors="replace") as f:
            found = schemas.parse_header(f.read()).get(name)
        if isinstance(found, ValueError):
            raise UnknownOperator(f"{path}: {found}")
        if found:
            return found
    return None


class _Symbol(ct.Structure):
    """Dl_info of dladdr."""
    _fields_ = [("file", ct.c_char_p), ("base", ct.c_void_p), ("name", ct.c_char_p), ("address", ct.c_void_p)]


def _is_of(function, path):
    """Whether a library has the function itself: a lookup also searches the libraries that it needs."""
    found = _Symbol()
    if not ct.CDLL(None).dladdr(ct.cast(function, ct.c_void_p), ct.byref(found)) or not found.file:
        return False
    file = os.fsdecode(found.file)
    return os.path.exists(file) and os.path.samefile(file, path)


def _in_library(path, name, folder):
    """(functions of both phases, schema or None) of an operator in a library, or None."""
    try:
        handle = ct.CDLL(path, ct.RTLD_GLOBAL)
    except OSError as e:
        raise UnknownOperator(f"the library {path} cannot be loaded: {e}") from None
    try:
        pair = handle[f"aclnn{name}GetWorkspaceSize"], handle[f"aclnn{name}"]
    except AttributeError:
        return None
    return (pair, _declared(folder, name)) if all(_is_of(f, path) for f in pair) else None


def _installed(name):
    """The same of the installation."""
    library = load()
    for prefix in ("aclnn", "acl"):
        pair = library.find(f"{prefix}{name}GetWorkspaceSize"), library.find(prefix + name)
        if all(pair):
            break
    else:
        return None
    if name not in dir(aclnn):
        return pair, None
    arguments = [schemas.Argument(a.name, a.type, ("r" if a.read else "") + ("w" if a.written else ""), a.optional,
                                  None if a.default is a.REQUIRED else (a.default,), a.c_type)
                 for a in aclnn.schema(name)]
    return pair, schemas.Schema(name, arguments)


@functools.lru_cache(None)
def find(name, library=None, schema=None):
    """The Operator of a name. Raises UnknownOperator."""
    name = re.sub("^aclnn", "", name)
    load()                                      # the libraries that an operator's own library needs
    places, found = [], None
    if library:
        places.append(library)
        folder = os.path.dirname(library)
        found = _in_library(library, name, os.path.join(os.path.dirname(folder), "include")) or \
            _in_library(library, name, folder)
        if found is None:
            raise UnknownOperator(f"{library} has no aclnn{name}GetWorkspaceSize and aclnn{name}")
    for folder in custom_folders() if found is None else ():
        path = os.path.join(folder, "op_api", "lib", "libcust_opapi.so")
        places.append(path)
        if os.path.exists(path):
            found = found or _in_library(path, name, os.path.join(folder, "op_api", "include"))
    found = found or _installed(name)
    if found is None:
        raise UnknownOperator(f"there is no operator aclnn{name} in {', '.join([*places, 'the installation'])}")
    known = schema or found[1]
    if known is None:
        raise UnknownOperator(f"no header declares aclnn{name}GetWorkspaceSize; give the test its arguments, such as "
                              f'schema="{name}(Tensor x, Tensor! out)"')
    return Operator(name, found[0], known)


# ---- attributes as CANN's objects

def _scalar(value, like):
    """An aclScalar. like: the dtype of the first tensor, by which a float's precision is chosen."""
    wide = like is not None and like.name in ("float64", "complex128")
    kind = ("bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else
            ("complex128" if wide else "complex64") if isinstance(value, complex) else
            "float64" if wide else "float32")
    if hasattr(value, "dtype"):                 # NumPy's number keeps its type
        kind = value.dtype.name
    dtype = dtypes.find(kind)
    data = ct.c_char_p(dtype.store(dtype.values.type(value)).tobytes())
    return load().aclCreateScalar(data, dtype.code)


def _array(c_type, create):
    def make(value, like):
        values = list(value) if hasattr(value, "__iter__") else [value]
        return getattr(load(), create)((c_type * len(values))(*values), len(values))
    return make


def _scalars(value, like):
    members = [_scalar(v, like) for v in value]
    return load().aclCreateScalarList((ct.c_void_p * len(members))(*members), len(members))


_MAKERS = {"Scalar": _scalar, "ScalarList": _scalars, "IntArray": _array(ct.c_int64, "aclCreateIntArray"),
           "BoolArray": _array(ct.c_bool, "aclCreateBoolArray"),
           "FloatArray": _array(ct.c_float, "aclCreateFloatArray")}


def _number(value, argument):
    if argument.type == "dtype" or argument.name.lower().endswith("type") and not isinstance(value, int):
        return dtypes.find(value).code
    if argument.type == "string":
        return value if isinstance(value, bytes) else value.encode()
    return float(value) if argument.type == "float" else value


# ---- the call

class Operator:
    """An operator: its schema, and the functions of its two phases."""

    def __init__(self, name, pair, schema):
        self.name, self.schema = name, schema
        self.one, self.two = pair
        self.one.restype = self.two.restype = ct.c_int
        self.one.argtypes = [_CTYPES.get(a.c_type, ct.c_void_p) for a in schema.arguments] + [ct.c_void_p] * 2
        self.two.argtypes = [ct.c_void_p, ct.c_uint64, ct.c_void_p, ct.c_void_p]

    def check_attributes(self, attributes):
        known = [a.name for a in self.schema.attributes]
        for name in attributes:
            if name not in known:
                raise UnknownOperator(f"the operator has no attribute {name}; its arguments are {self.schema}")

    def call(self, device, tensors, attributes):
        """A Call. tensors: {argument's name: DeviceTensor, list of them, or None}; they are on the device already."""
        self.check_attributes(attributes)
        return Call(self, device, tensors, attributes)


class Call:
    """The objects of a call, which `run` may be called for several times. `close` destroys them."""

    def __init__(self, operator, device, tensors, attributes):
        self.operator, self.device, self.workspaces = operator, device, []
        self.made, self.values = [], []
        first = next((t for t in tensors.values() if isinstance(t, devices.DeviceTensor)), None)
        try:
            for a in operator.schema.arguments:
                self.values.append(self._value(a, tensors, attributes, first.dtype if first else None))
        except BaseException:
            self.close()
            raise

    def _value(self, argument, tensors, attributes, like):
        a = argument
        if a.type in schemas.TENSORS:
            given = tensors.get(a.name)
            if given is None:
                if not a.optional:
                    raise UnknownOperator(f"nothing is given for the tensor {a.name} of {self.operator.schema}")
                return None
            if a.type == "Tensor":
                return self._keep("aclCreateTensor", given.create(), "aclDestroyTensor")
            members = (ct.c_void_p * len(given))(*(t.create() for t in given))
            return self._keep("aclCreateTensorList", load().aclCreateTensorList(members, len(given)),
                              "aclDestroyTensorList")
        if a.name in attributes:
            value = attributes[a.name]
        elif a.optional:
            value = None
        elif a.default is not None and (a.default[0] is not None or a.type == "dtype"):
            value = a.default[0]
        else:
            raise UnknownOperator(f"the test gives no attribute {a.name} of {self.operator.schema}")
        if a.type == "dtype" and value is None:
            value = like
        if value is None:
            return None
        if a.type in _MAKERS:
            return self._keep(f"aclCreate{a.type}", _MAKERS[a.type](value, like), f"aclDestroy{a.type}")
        return _number(value, a)

    def _keep(self, create, handle, destroy):
        if not handle:
            raise AclError(create, -1, load().message())
        self.made.append((destroy, handle))
        return handle

    def run(self, between=None):
        """Both phases, and waits. Returns (seconds of phase one, seconds from phase two to the end of the work, bytes
        of workspace). between: a function that is called with 0 before phase two, and with 1 after it."""
        op, library = self.operator, load()
        size, executor = ct.c_uint64(), ct.c_void_p()
        start = time.perf_counter()
        code = op.one(*self.values, ct.byref(size), ct.byref(executor))
        prepared = time.perf_counter() - start
        if code:
            raise AclError(f"aclnn{op.name}GetWorkspaceSize", code, library.message())
        workspace = self._workspace(size.value)
        if between:
            between(0)
        start = time.perf_counter()
        code = op.two(workspace, size.value, executor, self.device.stream.handle)
        if code:
            raise AclError(f"aclnn{op.name}", code, library.message())
        if between:
            between(1)
        self.device.synchronize()
        return prepared, time.perf_counter() - start, size.value

    def _workspace(self, n_bytes):
        """The address of a workspace of that size between guards; None for no bytes. It is kept for the next run."""
        if not n_bytes:
            return None
        for block in self.workspaces:
            if block.n_bytes == n_bytes:
                return block.address
        block = devices.Block(self.device, n_bytes)
        self.workspaces.append(block)
        block.send()
        return block.address

    def workspace_overrun(self):
        """The number of bytes outside its workspace that the operator has written."""
        return sum(_guard_changes(block) for block in self.workspaces)

    def close(self):
        for destroy, handle in self.made:
            getattr(load(), destroy)(handle)
        for block in self.workspaces:
            block.free()
        self.made, self.workspaces = [], []


def _guard_changes(block):
    back = block.fetch()
    return sum(int((back[part] != block.sent[part]).sum())
               for part in (slice(0, devices.GUARD), slice(devices.GUARD + block.n_bytes, None)))
