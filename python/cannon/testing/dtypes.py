# SPDX-License-Identifier: Apache-2.0
"""Data types: how a tensor's elements are stored on the device, and which numbers they stand for.

An element's `storage` is a NumPy dtype of the same width. Its `values` are what the tests compute with: bfloat16 is
stored as uint16 and has float32 values, every other type is its own. `wide` is the type in which references are
computed by default, so that the reference's own rounding does not count as the operator's error.
"""
import numpy as np

from .. import dtypes as known


class DType:
    """A data type. kind: f (float), i (integer), b (bool) or c (complex). For floats, numbers are 0.1xxx * 2**e with
    `digits` binary digits and emin <= e <= emax, in frexp's convention. code: CANN's aclDataType."""

    def __init__(self, name, storage, kind, digits=0, emin=0, emax=0, values=None, wide=None):
        self.name, self.code, self.kind = name, known.of(name).code, kind
        self.storage = np.dtype(storage)
        self.values = np.dtype(values or storage)
        self.wide = np.dtype(wide or values or storage)
        self.size = self.storage.itemsize
        self.digits, self.emin, self.emax = digits, emin, emax
        if kind == "f":
            self.max = float((1.0 - 2.0 ** -digits) * 2.0 ** (emax - 1) * 2)
            self.tiny = 2.0 ** (emin - 1)                       # the smallest normal number
        elif kind == "i":
            self.min, self.max = int(np.iinfo(storage).min), int(np.iinfo(storage).max)

    def __repr__(self):
        return self.name

    def __reduce__(self):
        return find, (self.name,)

    def ulp(self, x):
        """The distance between neighbouring numbers of this float type around x; the smallest one around 0, and that of
        the last binade beyond the largest number. Returns x's type."""
        _, e = np.frexp(x)
        e = np.where(np.isfinite(x) & (x != 0), np.clip(e, self.emin, self.emax), self.emin)
        return np.ldexp(np.ones((), x.dtype), (e - self.digits).astype(np.int32))

    def round(self, x):
        """Values of any float type, rounded to the nearest number of this float type; ties go to even."""
        x = np.asarray(x)
        if self.name != "bfloat16":
            with np.errstate(all="ignore"):
                return x.astype(self.values)
        x = x.astype(np.float64)
        step = self.ulp(x)
        with np.errstate(all="ignore"):
            r = np.where(np.isfinite(x), np.copysign(np.rint(x / step) * step, x), x)
            return np.where(np.isfinite(x) & (np.abs(r) > self.max), np.copysign(np.inf, x), r).astype(np.float32)

    def store(self, values):
        """Values as stored elements. Those that the type cannot hold are rounded, or wrap around."""
        values = np.asarray(values)
        if self.name == "bfloat16":
            bits = np.ascontiguousarray(np.atleast_1d(self.round(values))).view(np.uint32)
            return (bits >> 16).astype(np.uint16).reshape(values.shape)
        if self.kind == "b":
            return (values != 0).astype(np.uint8)
        with np.errstate(all="ignore"):
            return values.astype(self.storage)

    def load(self, stored):
        """The values of stored elements."""
        if self.name == "bfloat16":
            return (np.atleast_1d(stored).astype(np.uint32) << 16).view(np.float32).reshape(np.shape(stored))
        if self.kind == "b":
            return stored != 0
        return stored.astype(self.values, copy=False)

    def widen(self, values):
        return np.asarray(values).astype(self.wide)


_F64 = np.float64
ALL = (
    DType("float32", np.float32, "f", 24, -125, 128, wide=_F64),
    DType("float16", np.float16, "f", 11, -13, 16, wide=_F64),
    DType("int8", np.int8, "i"),
    DType("int32", np.int32, "i"),
    DType("uint8", np.uint8, "i"),
    DType("int16", np.int16, "i"),
    DType("uint16", np.uint16, "i"),
    DType("uint32", np.uint32, "i"),
    DType("int64", np.int64, "i"),
    DType("uint64", np.uint64, "i"),
    DType("float64", np.float64, "f", 53, -1021, 1024),
    DType("bool", np.uint8, "b", values=np.bool_),
    DType("complex64", np.complex64, "c", wide=np.complex128),
    DType("complex128", np.complex128, "c"),
    DType("bfloat16", np.uint16, "f", 8, -125, 128, values=np.float32, wide=_F64),
)
_BY_NAME = {d.name: d for d in ALL}
_SHORT = {"float": "float32", "double": "float64", "half": "float16", "bf16": "bfloat16", "fp16": "float16",
          "fp32": "float32"}
PART = {"complex64": _BY_NAME["float32"], "complex128": _BY_NAME["float64"]}    # the type of a complex type's parts


def find(name):
    """The data type of a name, a NumPy dtype or a PyTorch dtype. Raises ValueError for others."""
    if isinstance(name, DType):
        return name
    try:
        return _BY_NAME[known.of(_SHORT.get(name, name) if isinstance(name, str) else name).name]
    except (TypeError, KeyError):
        raise ValueError(f"dtype is {name!r}, expected one of {', '.join(sorted(_BY_NAME))}") from None


def common(dtypes):
    """The type of the result of several inputs where nobody says otherwise: the first among those of the highest kind,
    float before integer before bool."""
    order = "bifc"
    return max(dtypes, key=lambda d: order.index(d.kind))
