# SPDX-License-Identifier: Apache-2.0
"""CANN's operators as functions.

    y = cannon.aclnn.Add(x, y, alpha=2)         # NumPy arrays, cannon.Tensors, Python numbers
    values, indices = cannon.aclnn.Sort(x, dim=0)
    cannon.aclnn.Exp(x, out=y)                  # into a tensor of the caller

Each operator aclnnNAME is a function NAME with the parameters of CANN's function in their order, without those that it
only writes: these are allocated, or given by `out` (a tuple if there are several). The result is a cannon.Tensor, or a
tuple. Operators that write an argument in place (Inplace...) return that tensor. The work is queued on the thread's
current stream; nothing waits for it.

operators() lists the names, schema(name) tells the arguments, Add.workspace_size(x, y) calls phase one only. infer.py
knows the outputs' shapes.
"""
import ctypes as ct
import json
import keyword
import operator
import os
import re
import threading

from . import dtypes, infer, runtime
from ._library import AclError, check, load
from .tensor import Tensor, contiguous_strides, int64s

C_TYPES = {"int64_t": ct.c_int64, "uint64_t": ct.c_uint64, "int32_t": ct.c_int32, "int8_t": ct.c_int8, "int": ct.c_int,
           "aclDataType": ct.c_int, "float": ct.c_float, "double": ct.c_double, "bool": ct.c_bool,
           "char *": ct.c_char_p}

# Values of parameters that a call leaves out: by name, or by operator and name, which go first. Optional arguments are
# None. Most are PyTorch's.
_DEFAULTS = {
    "alpha": 1, "beta": 1, "keepDim": False, "keepDims": False, "keepdim": False, "dtype": None, "cubeMathType": 0,
    "noopWithEmptyAxes": False, "noopWithEmptyDims": False, "seed": 0, "offset": 0, "stable": False,
    "descending": False, "largest": True, "sorted": True, "correction": 1, "unbiased": True, "eps": 1e-5,
    "epsilon": 1e-6, "reduction": 1, "ignoreIndex": -100, "groups": 1, "transposed": False, "exclusive": False,
    "reverse": False, "diagonal": 0, "implMode": 0, "innerPrecise": 0, "ceilMode": False, "countIncludePad": True,
    "divisorOverride": 0, "alignCorners": False, "logTarget": False, "rtol": 1e-5, "atol": 1e-8, "equal_nan": False,
    "right": False, "outInt32": False, "assumeUnique": False, "invert": False, "returnInverse": False,
    "returnCounts": False, "accumulate": False, "unsafe": False, "interpolationMode": 0, "paddingMode": 0,
    "commTurn": 0, "streamMode": 1, "reduceOp": b"sum",
    "Softplus.threshold": 20, "SoftplusBackward.threshold": 20, "ConstantPadNd.value": 0, "Logit.eps": -1.0,
    "LogitGrad.eps": -1.0, "OneHot.axis": -1, "AscendQuantV3.axis": -1,
    **{f"{name}.value": 1 for name in ("Addcmul", "Addcdiv", "InplaceAddcmul", "InplaceAddcdiv")},
    **{f"{name}.dim": -1 for name in ("Softmax", "LogSoftmax", "SoftmaxBackward", "LogSoftmaxBackward", "Sort",
                                      "Argsort", "Topk", "Kthvalue", "MedianDim", "NanMedianDim", "Glu", "GluBackward",
                                      "SwiGlu", "SwiGluGrad", "GeGlu", "GeGluV3", "LinalgCross")},
    **{f"{name}.dim": 0 for name in ("Cat", "Stack", "ChunkCat", "SplitTensor", "SplitWithSize")},
}
_REQUIRED = {"DeepNorm.alpha", "DeepNormGrad.alpha", "MoeGatingTopK.eps"}     # these have no defaults
_MISSING = object()
_SCALARS = 4096                                 # aclScalars that are kept for later calls


def _table():
    """The schemas that the build made of ops/*.ops."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "operators.json")
    with open(path, encoding="utf-8") as f:
        return json.load(f)


_operators = _table()
infer.set_elementwise(_operators["elementwise"])
_operators = _operators["operators"]


class Argument:
    """An argument of an operator: name, type (Tensor, TensorList, Scalar, ScalarList, IntArray, BoolArray, FloatArray,
    int, float, bool, dtype or string), whether it may be None (optional), whether the operator reads and writes it,
    whether the call allocates it (is_output), and its default (Argument.REQUIRED if it has none)."""
    __slots__ = ("name", "type", "optional", "read", "written", "is_output", "default", "c_type", "parameter")
    REQUIRED = _MISSING

    def __init__(self, operator_name, position, type, flags, name, c_type):
        self.name, self.type, self.c_type = name, type, c_type
        self.optional, self.written = "?" in flags, "!" in flags or "&" in flags
        self.read = "!" not in flags
        # What a first argument is written to is the caller's: Inplace..., and others that update a variable.
        self.is_output = "!" in flags and position > 0
        self.default = _default(operator_name, self)
        self.parameter = name + "_" if keyword.iskeyword(name) or name == "out" else name

    def __repr__(self):
        flags = ("&" if self.read else "!") * self.written + "?" * self.optional
        default = "" if self.default is _MISSING or self.is_output else f" = {self.default!r}"
        return f"{self.type}{flags} {self.name}{default}"


def _default(operator_name, argument):
    """What an argument is if the call leaves it out."""
    name, kind = argument.name, argument.type
    if argument.optional or kind == "string" and name.endswith("Optional"):     # a null string is CANN's default
        return None
    if kind in ("Tensor", "TensorList") or f"{operator_name}.{name}" in _REQUIRED:
        return _MISSING
    if kind == "IntArray" and name in ("dim", "dims", "axes") and operator_name not in ("Permute", "Flip", "Roll"):
        return ()                               # a reduction over all dimensions
    return _DEFAULTS.get(f"{operator_name}.{name}", _DEFAULTS.get(name, _MISSING))


class Schema:
    """An operator as ops/*.ops has it. `outputs` are the positions of the arguments that a call allocates, `results` of
    those that it returns, `infer` is the rule for the outputs (infer.py)."""

    def __init__(self, name):
        self.name = name
        self.function, self.family, self.variant, args = _operators[name]
        self.arguments = [Argument(name, i, *a) for i, a in enumerate(args)]
        self.inputs = [i for i, a in enumerate(self.arguments) if not a.is_output]
        self.outputs = [i for i, a in enumerate(self.arguments) if a.is_output]
        self.written = [i for i, a in enumerate(self.arguments) if a.written]
        self.results = self.outputs or self.written
        self.infer = infer.rule(self)

    def __repr__(self):
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Operator(Schema):
    """An operator of the library: its schema, how arguments are read and made, and the functions of its phases."""

    def __init__(self, name):
        super().__init__(name)
        self.plan = [(i, _READERS[self.arguments[i].type], self.arguments[i]) for i in self.inputs]
        self.makers = [_MAKERS[a.type] for a in self.arguments]
        self.sized_by_data = self.family in infer.SIZED_BY_DATA
        library = load()
        self.one, self.two = library.find(self.function + "GetWorkspaceSize"), library.find(self.function)
        if self.one is None or self.two is None:
            raise AttributeError(f"the library has no {self.function}")
        self.one.restype = self.two.restype = ct.c_int
        self.one.argtypes = [C_TYPES.get(a.c_type, ct.c_void_p) for a in self.arguments] + [ct.c_void_p] * 2
        self.two.argtypes = [ct.c_void_p, ct.c_uint64, ct.c_void_p, ct.c_void_p]


# ---- reading Python values: each function returns what inference and the makers work with

def _type_error(argument, value, expected):
    what = f"of shape {tuple(value.shape)}" if hasattr(value, "shape") else " ".join(repr(value).split())[:60]
    return TypeError(f"{argument.name} is {type(value).__name__} {what}, expected {expected}")


def _read_tensor(value, argument, call):
    if isinstance(value, Tensor):
        pass
    elif value is None and argument.optional:
        return None
    elif argument.written:
        raise _type_error(argument, value, "a cannon.Tensor, since the operator writes it")
    elif isinstance(value, (bool, int, float, complex)) or value is None or isinstance(value, (str, bytes, dict)):
        return _number_as_tensor(value, argument, call)
    elif hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        from .dlpack import from_dlpack
        value = from_dlpack(value, device=call.device)
    else:
        try:
            value = Tensor(value, call.device)
        except (TypeError, ValueError) as error:
            raise _type_error(argument, value, f"a tensor or an array ({error})") from None
    if call.device is None:
        call.device = value.device
    elif call.device != value.device:
        raise ValueError(f"{argument.name} is on device {value.device}, expected device {call.device}")
    call.tensors.append(value)
    return value


class _Number:
    """A Python number in the place of a tensor, whose dtype follows from the tensors of the call."""

    def __init__(self, value):
        self.value = value


def _number_as_tensor(value, argument, call):
    if value is None or isinstance(value, (str, bytes, dict)):
        raise _type_error(argument, value, "a tensor, an array or a number")
    call.has_numbers = True
    return _Number(value)


def _resolve_numbers(values, call):
    """Makes tensors of numbers: of the first tensor's dtype if that can hold the kind of number, else of the default
    one of its kind."""
    like = call.tensors[0].dtype if call.tensors else None
    order = "biufc"
    for i, v in enumerate(values):
        if isinstance(v, _Number):
            own = dtypes.of_scalar(v.value)
            if like is not None and order.index(like.kind) >= order.index(own.kind):
                own = like
            elif own.kind == "f":
                own = dtypes.of("float32")
            elif own.kind == "c":
                own = dtypes.of("complex64")
            values[i] = Tensor(v.value, call.device, "float32" if own.name == "bfloat16" else own).to(own)
            call.tensors.append(values[i])


def _read_tensors(value, argument, call):
    if value is None and argument.optional:
        return None
    if isinstance(value, Tensor) or not hasattr(value, "__iter__") or isinstance(value, (str, bytes)):
        raise _type_error(argument, value, "a list of tensors")
    if argument.name == "indices":              # Index takes all of a dimension where an index is missing
        return [Tensor.empty((0,), "bool", call.device) if v is None else _read_tensor(v, argument, call)
                for v in value]
    return [_read_tensor(Tensor(v, call.device) if isinstance(v, (bool, int, float, complex)) else v, argument, call)
            for v in value]


def _read_scalar(value, argument, call):
    if type(value) in (int, float, bool, complex) or value is None and argument.optional:
        return value
    if hasattr(value, "dtype") and getattr(value, "shape", None) == () and hasattr(value, "tobytes"):
        return value                            # NumPy's number keeps its dtype
    if isinstance(value, (int, float, complex)):
        return value
    raise _type_error(argument, value, "a number")


def _read_scalars(value, argument, call):
    if value is None and argument.optional:
        return None
    if not hasattr(value, "__iter__") or isinstance(value, (str, bytes)):
        raise _type_error(argument, value, "a list of numbers")
    return [_read_scalar(v, argument, call) for v in value]


def _array_reader(convert, expected):
    def read(value, argument, call):
        if value is None and argument.optional:
            return None
        if not hasattr(value, "__iter__"):
            value = (value,)
        try:
            return tuple(map(convert, value))
        except (TypeError, ValueError):
            raise _type_error(argument, value, expected) from None
    return read


_RANGES = {"int8_t": (-1 << 7, 1 << 7), "int32_t": (-1 << 31, 1 << 31), "int": (-1 << 31, 1 << 31),
           "uint64_t": (0, 1 << 64)}
_INT64 = (-1 << 63, 1 << 63)


def _read_int(value, argument, call):
    try:
        number = operator.index(value)
    except TypeError:
        if argument.name.lower().endswith("type"):      # dstType and others are codes of aclDataType
            return dtypes.of(value).code
        raise _type_error(argument, value, "an integer") from None
    low, end = _RANGES.get(argument.c_type, _INT64)
    if not low <= number < end:                 # ctypes would cut it off
        raise OverflowError(f"{argument.name} is {number}, expected {low} to {end - 1}")
    return number


def _int64(value):
    number = operator.index(value)
    if not _INT64[0] <= number < _INT64[1]:
        raise ValueError(f"{number} doesn't fit 64 bits")
    return number


def _read_float(value, argument, call):
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    raise _type_error(argument, value, "a number")


def _read_bool(value, argument, call):
    if isinstance(value, (bool, int)) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise _type_error(argument, value, "True or False")


def _read_dtype(value, argument, call):
    try:
        return None if value is None or value == -1 else dtypes.of(value)
    except TypeError as error:
        raise TypeError(f"{argument.name}: {error}") from None


def _read_string(value, argument, call):
    if value is None and argument.default is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise _type_error(argument, value, "a string")


_READERS = {"Tensor": _read_tensor, "TensorList": _read_tensors, "Scalar": _read_scalar, "ScalarList": _read_scalars,
            "IntArray": _array_reader(_int64, "integers of 64 bits"), "BoolArray": _array_reader(bool, "truth values"),
            "FloatArray": _array_reader(float, "numbers"), "int": _read_int, "float": _read_float, "bool": _read_bool,
            "dtype": _read_dtype, "string": _read_string}


# ---- making CANN's objects: each function returns what the C function takes, and notes what has to be destroyed

_kept_scalars = {}


def _scalar_bytes(value):
    """(dtype, bytes) of a number."""
    if hasattr(value, "tobytes"):
        return dtypes.of(value.dtype), value.tobytes()
    kind = dtypes.of_scalar(value)
    if kind.kind == "c":
        return kind, bytes(ct.c_double(value.real)) + bytes(ct.c_double(value.imag))
    if kind.name == "int64" and not -1 << 63 <= value < 1 << 63:
        raise OverflowError(f"{value} doesn't fit 64 bits")
    return kind, bytes({"bool": ct.c_bool, "int64": ct.c_int64, "float64": ct.c_double}[kind.name](value))


def _new_scalar(value):
    kind, data = _scalar_bytes(value)
    return _made("aclCreateScalar", load().aclCreateScalar(ct.c_char_p(data), kind.code))


def _make_scalar(value, destroy):
    if value is None:
        return None
    kind = type(value)
    key = (kind, value if value and kind is not complex else repr(value))       # 0.0 and -0.0 are equal
    handle = _kept_scalars.get(key)
    if handle is None:
        handle = _new_scalar(value)
        if len(_kept_scalars) < _SCALARS:
            _kept_scalars[key] = handle
        else:
            destroy.append((load().aclDestroyScalar, handle))
    return handle


def _made(function, handle):
    if not handle:
        raise AclError(function, -1, load().message())
    return handle


def _make_tensor(value, destroy):
    return None if value is None else value._acl or value.acl_tensor()


def _make_tensors(value, destroy):
    if value is None:
        return None
    # A list destroys its members, so they are not the tensors' own handles.
    members = [Tensor._view(t.storage, t.dtype, t.shape, t.strides, t.offset, t.format) for t in value]
    handles = (ct.c_void_p * len(members))(*(m.acl_tensor() for m in members))
    handle = _made("aclCreateTensorList", load().aclCreateTensorList(handles, len(members)))
    for m in members:
        m._acl = None
    destroy.append((load().aclDestroyTensorList, handle))
    return handle


def _make_scalars(value, destroy):
    if value is None:
        return None
    handles = (ct.c_void_p * len(value))(*map(_new_scalar, value))
    handle = _made("aclCreateScalarList", load().aclCreateScalarList(handles, len(value)))
    destroy.append((load().aclDestroyScalarList, handle))
    return handle


def _array_maker(kind, c_array):
    create, destroyer = f"aclCreate{kind}", f"aclDestroy{kind}"

    def make(value, destroy):
        if value is None:
            return None
        handle = _made(create, getattr(load(), create)(c_array(value), len(value)))
        destroy.append((getattr(load(), destroyer), handle))
        return handle
    return make


def _make_plain(value, destroy):
    return value


_MAKERS = {"Tensor": _make_tensor, "TensorList": _make_tensors, "Scalar": _make_scalar, "ScalarList": _make_scalars,
           "IntArray": _array_maker("IntArray", int64s),
           "BoolArray": _array_maker("BoolArray", lambda v: (ct.c_bool * len(v))(*v)),
           "FloatArray": _array_maker("FloatArray", lambda v: (ct.c_float * len(v))(*v)),
           "int": _make_plain, "float": _make_plain, "bool": _make_plain, "string": _make_plain,
           "dtype": lambda value, destroy: value.code}


# ---- the call

class _Call:
    """What reading the arguments finds out."""
    __slots__ = ("device", "tensors", "has_numbers")

    def __init__(self):
        self.device, self.tensors, self.has_numbers = None, [], False


def _given_outputs(op, out):
    """`out` as a list, an item per output."""
    n = len(op.outputs)
    if out is None:
        return [None] * n
    given = [out] if n == 1 else list(out) if isinstance(out, (tuple, list)) else []
    if not n or len(given) != n:
        names = ", ".join(op.arguments[i].name for i in op.outputs)
        raise TypeError(f"out is {type(out).__name__}, expected {f'a tuple of {n}: {names}' if n > 1 else 'a tensor'}"
                        if n else f"{op.name} has no outputs; it writes its arguments")
    for i, value in zip(op.outputs, given):
        is_list = op.arguments[i].type == "TensorList" and isinstance(value, (tuple, list))
        members = value if is_list else [value]
        if not all(isinstance(v, Tensor) or v is None or v is False and op.arguments[i].optional for v in members):
            raise _type_error(op.arguments[i], value, "a cannon.Tensor")
    return given


def _allocate_outputs(op, values, given, stream):
    """Puts the outputs among the values: those that are given, else new tensors as inference has them."""
    needed = None
    for k, (i, value) in enumerate(zip(op.outputs, given)):
        if value is None:
            if needed is None:
                needed = op.infer(op, values)
            value = needed[k]
            if type(value) is list:
                value = [Tensor._allocate(shape, dtype, stream) for shape, dtype in value]
            elif value is not None:
                value = Tensor._allocate(value[0], value[1], stream)
        values[i] = None if value is False else value


def _read(op, values_in, out):
    """The values of all arguments in the order of the schema, the tensors that are read, and the stream."""
    call, values = _Call(), [None] * len(op.arguments)
    for value in values_in:                     # arrays go to the device of the first tensor
        if type(value) is Tensor:
            call.device = value.storage.device
            break
    for (i, read, argument), value in zip(op.plan, values_in):
        if value is _MISSING:
            raise TypeError(f"{op.name}() misses the argument {argument.name}")
        if type(value) is Tensor and read is _read_tensor and call.device == value.storage.device:
            call.tensors.append(value)
            values[i] = value
        else:
            values[i] = read(value, argument, call)
    given = _given_outputs(op, out)
    if call.device is None:
        first = next((t for t in given if isinstance(t, Tensor)), None)
        call.device = runtime.current_device() if first is None else first.device
    if call.has_numbers:
        _resolve_numbers(values, call)
    stream = runtime.current_stream(call.device)
    _allocate_outputs(op, values, given, stream)
    for i, argument in enumerate(op.arguments):
        if argument.type == "dtype" and values[i] is None:
            values[i] = next(values[o].dtype for o in op.outputs)
    return values, call.tensors, stream


def _call(op, values_in, out):
    values, tensors, stream = _read(op, values_in, out)
    if runtime.device_is(stream.device):
        _launch(op, values, stream, tensors)
    else:
        with runtime.on_device(stream.device):
            _launch(op, values, stream, tensors)
    results = [values[i] for i in op.results]
    return results[0] if len(results) == 1 else tuple(results)


def _workspace_size(op, values_in, out):
    """Calls phase one only."""
    values, _, stream = _read(op, values_in, out)
    destroy, library = [], load()
    with runtime.on_device(stream.device):
        try:
            size, executor = _phase_one(op, values, destroy)
            check("aclSetAclOpExecutorRepeatable", library.aclSetAclOpExecutorRepeatable(executor))
            check("aclDestroyAclOpExecutor", library.aclDestroyAclOpExecutor(executor))
        finally:
            for function, handle in destroy:
                function(handle)
    return size.value


def _phase_one(op, values, destroy):
    handles = [make(value, destroy) for make, value in zip(op.makers, values)]
    size, executor = ct.c_uint64(), ct.c_void_p()
    code = op.one(*handles, ct.byref(size), ct.byref(executor))
    if code:
        raise AclError(op.function + "GetWorkspaceSize", code, load().message())
    return size, executor


def _launch(op, values, stream, tensors):
    """Both phases. Afterwards the storages know the launch."""
    destroy, written = [], []
    for i in op.written:
        value = values[i]
        written += value if type(value) is list else (value,) if value is not None else ()
    torch = runtime.torch_stream(stream.device) if any(t.storage.shared for t in tensors) else None
    if torch is not None:
        stream.wait(torch)
    for t in tensors:
        t.storage.order(stream, False)
    for t in written:
        t.storage.order(stream, True)
    try:
        size, executor = _phase_one(op, values, destroy)
        if size.value:
            with stream.lock:
                code = op.two(stream.workspace(size.value), size.value, executor, stream.handle)
                mark = stream.counter()
        else:
            code = op.two(None, 0, executor, stream.handle)
            mark = stream.counter()
        if code:
            raise AclError(op.function, code, load().message())
    finally:
        for function, handle in destroy:
            function(handle)
    for t in tensors:
        t.storage.used(stream, mark, False)
    for t in written:
        t.storage.used(stream, mark, True)
    if torch is not None:
        torch.wait(stream)
    if op.sized_by_data:
        _take_shapes(op, values, stream)


def _take_shapes(op, values, stream):
    """Replaces outputs whose shape depends on the data by views of the shape that the operator has set."""
    stream.synchronize()
    for i in op.outputs:
        t = values[i]
        if t is None:
            continue
        dims, rank = ct.POINTER(ct.c_int64)(), ct.c_uint64()
        code = load().aclGetViewShape(t.acl_tensor(), ct.byref(dims), ct.byref(rank))
        if code:
            raise AclError("aclGetViewShape", code, load().message())
        shape = tuple(dims[:rank.value])
        ct.CDLL(None).free(dims)
        if shape != t.shape:
            values[i] = Tensor._view(t.storage, t.dtype, shape, contiguous_strides(shape), t.offset, t.format)


# ---- the module's functions

_lock = threading.Lock()


def _function(name):
    """The Python function of an operator, with the operator's own parameters."""
    op = Operator(name)
    parameters, names = [], []
    has_default = False
    for i in op.inputs:
        a = op.arguments[i]
        has_default = has_default or a.default is not _MISSING
        parameters.append(f"{a.parameter}={f'_defaults[{i}]' if has_default else ''}".rstrip("="))
        names.append(a.parameter)
    source = (f"def {name}({', '.join(parameters + ['*', 'out=None'])}):\n"
              f"    return _call(_operator, ({''.join(n + ', ' for n in names)}), out)\n")
    made = []
    for call in (_call, _workspace_size):       # compiled, so that the interpreter binds the arguments
        place = {"_call": call, "_operator": op, "_defaults": [a.default for a in op.arguments]}
        exec(source, place)
        made.append(place[name])
    function, function.workspace_size = made
    function.__doc__, function.__module__, function.operator = f"{op}\n\nCalls {op.function}.", __name__, op
    function.workspace_size.__doc__ = "The bytes of workspace that the call would need; nothing is queued."
    return function


def __getattr__(name):
    if name not in _operators:
        raise AttributeError(f"there is no operator {name}; cannon.aclnn.operators() lists them")
    with _lock:
        if name not in globals():
            globals()[name] = _function(name)
    return globals()[name]


def __dir__():
    return sorted(set(globals()) | set(_operators))


_SCHEMA = re.compile(r"(\w+)\((.*)\)$")
_ARGUMENT = re.compile(r"(\w+)([!&]?\??) (\w+)$")
_OWN_C_TYPES = {"int": "int64_t", "float": "double", "bool": "bool", "string": "char *", "dtype": "aclDataType"}


def add(schema, library=None, infer=None):
    """Adds an operator of the user's: a schema line as in ops/*.ops, such as "Scale(Tensor x, float factor, Tensor!
    out)". Its functions aclnnScaleGetWorkspaceSize and aclnnScale are in `library` (a path), or in those of
    ASCEND_CUSTOM_OPP_PATH. In C, `int` is int64_t and `float` is double, as CANN's generator has them; C's own names
    int32_t, int8_t and double may be given. `infer` gets what the function gets and returns the output as (shape,
    dtype), or a list of outputs; without it, calls give out=. Returns the function."""
    matched = _SCHEMA.match(schema.strip())
    parts = [_ARGUMENT.match(p.strip()) for p in matched[2].split(",")] if matched else [None]
    arguments = []
    for part in parts:
        kind = part and {"double": "float", "int32_t": "int", "int8_t": "int"}.get(part[1], part[1])
        if kind not in _READERS:
            raise ValueError(f"{schema!r}: expected Name(Type name, ...) with the types {', '.join(_READERS)}")
        arguments.append([kind, part[2], part[3], part[1] if part[1] in C_TYPES and part[1] not in _OWN_C_TYPES
                          else _OWN_C_TYPES.get(kind, "")])
    name = matched[1]
    if library is not None:
        load().custom.insert(0, ct.CDLL(os.path.abspath(library), ct.RTLD_GLOBAL))
    with _lock:
        before = _operators.get(name)
        _operators[name] = ["aclnn" + name, "", "", arguments]
        try:
            globals()[name] = function = _function(name)
        except AttributeError:
            del _operators[name]
            if before is not None:
                _operators[name] = before
            raise
    if infer is not None:
        op = function.operator

        def rule(op, values):
            outputs = infer(*(values[i] for i in op.inputs))
            return [(tuple(shape), dtypes.of(dtype)) for shape, dtype in
                    (outputs if isinstance(outputs, list) else [outputs])]
        op.infer = rule
    return function


def operators():
    """The names of the operators that the library has."""
    library = load()
    return sorted(n for n, o in _operators.items() if library.find(o[0]) is not None)


def table():
    """The schemas of all operators, as the build wrote them: {name: [function, family, variant, arguments]}."""
    return dict(_operators)


def schema(name):
    """The operator's arguments, in the order of CANN's function (see Argument)."""
    if name not in _operators:
        raise ValueError(f"there is no operator {name}")
    return Schema(name).arguments

