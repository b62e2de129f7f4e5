# SPDX-License-Identifier: Apache-2.0
"""Data types of device memory: aclDataType's code, the size, and NumPy's and DLPack's names of each.

    bfloat16 = of("bfloat16"); bfloat16.code == 27; bfloat16.numpy == ml_dtypes.bfloat16

A type is equal to its name and to NumPy's type, so `tensor.dtype == np.float32` and `tensor.dtype == "float32"` hold.
np.dtype(dtype) gives NumPy's type; bfloat16 and the 8-bit floats have one where the package ml_dtypes is installed.
"""
import functools

# DLPack's kinds
_DLPACK = {"i": 0, "u": 1, "f": 2, "bfloat16": 4, "c": 5, "b": 6}


class DType:
    """One data type. `kind` is NumPy's letter (b, i, u, f, c), `size` in bytes; `dlpack` is (kind, bits)."""
    __slots__ = ("name", "code", "size", "kind", "dlpack")

    def __init__(self, name, code, size, kind):
        self.name, self.code, self.size, self.kind = name, code, size, kind
        self.dlpack = (_DLPACK.get(name, _DLPACK[kind]), size * 8)

    @property
    def itemsize(self):
        return self.size

    @property
    def numpy(self):
        """NumPy's type."""
        return _numpy_of(self.name)

    dtype = numpy                               # np.dtype(x) asks x.dtype

    @property
    def is_float(self):
        return self.kind == "f"

    def __repr__(self):
        return self.name

    def __hash__(self):
        return hash(self.code)

    def __eq__(self, other):
        if isinstance(other, DType):
            return self is other
        try:
            return self is of(other)
        except TypeError:
            return False

    def __reduce__(self):
        return of, (self.name,)


@functools.lru_cache(None)
def _numpy_of(name):
    import numpy
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(f"NumPy has no {name}: install the package ml_dtypes, or convert by .to('float32')") from None


ALL = tuple(DType(*t) for t in (
    ("float32", 0, 4, "f"), ("float16", 1, 2, "f"), ("int8", 2, 1, "i"), ("int32", 3, 4, "i"), ("uint8", 4, 1, "u"),
    ("int16", 6, 2, "i"), ("uint16", 7, 2, "u"), ("uint32", 8, 4, "u"), ("int64", 9, 8, "i"), ("uint64", 10, 8, "u"),
    ("float64", 11, 8, "f"), ("bool", 12, 1, "b"), ("complex64", 16, 8, "c"), ("complex128", 17, 16, "c"),
    ("bfloat16", 27, 2, "f"), ("complex32", 33, 4, "c"), ("float8_e5m2", 35, 1, "f"), ("float8_e4m3fn", 36, 1, "f")))
_BY_KEY = {t.name: t for t in ALL}
_BY_KEY.update({t.code: t for t in ALL})
_BY_KEY.update({bool: _BY_KEY["bool"], int: _BY_KEY["int64"], float: _BY_KEY["float64"]})
_BY_KEY[complex] = _BY_KEY["complex128"]


def of(value):
    """The type that a name ("float16"), NumPy's or PyTorch's type, a Python type or a code of aclDataType stands
    for."""
    if isinstance(value, DType):
        return value
    try:
        found = _BY_KEY.get(value)
    except TypeError:                           # not hashable
        found = None
    if found is None:
        name = getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
        found = _BY_KEY.get(name.replace("torch.", "").rstrip("_"))
        if found is None:
            raise TypeError(f"{value!r} is no data type of tensors; expected one of {', '.join(t.name for t in ALL)}")
        try:
            _BY_KEY[value] = found              # NumPy's types are equal to names: later look-ups are one step
        except TypeError:
            pass
    return found


def promote(a, b):
    """The type that two tensors are computed in: bool, then integers, then floats, then complex numbers. float16 with
    bfloat16 is float32, since neither holds the other."""
    return a if a is b else _promote(a, b)


@functools.lru_cache(None)
def _promote(a, b):
    rank = "biufc".replace("u", "")
    ka, kb = (rank.index("i" if t.kind == "u" else t.kind) for t in (a, b))
    low, high = (a, b) if (ka, a.size) <= (kb, b.size) else (b, a)
    if ka != kb:
        if high.kind == "c" and low.kind == "f":
            return of("complex128") if low.size == 8 else of("complex64") if high.size == 4 and low.size == 4 else high
        return high
    if a.kind != b.kind:                        # a signed integer with an unsigned one
        signed, unsigned = (a, b) if a.kind == "i" else (b, a)
        sizes = {1: "int16", 2: "int32", 4: "int64", 8: "int64"}
        return signed if signed.size > unsigned.size else of(sizes[unsigned.size])
    if a.kind == "f" and a.size == b.size:
        return of("float32")
    return high


def of_scalar(value):
    """The type of a Python number: bool, int64, float64 or complex128."""
    if isinstance(value, bool):
        return _BY_KEY[bool]
    if isinstance(value, int):
        return _BY_KEY[int]
    if isinstance(value, float):
        return _BY_KEY[float]
    return _BY_KEY[complex]
