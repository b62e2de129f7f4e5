# SPDX-License-Identifier: Apache-2.0
"""Data types as the tests see them.

A tensor's bytes are its `storage` (a NumPy dtype of the same width: bfloat16 travels as uint16), its numbers are
its `values`: float32 or float64 for floating types, the integer type itself, bool for bool. Every storage pattern
has exactly one value, and `store` is only given values that the type can hold.
"""
import numpy as np

CLD = np.clongdouble
LD = np.longdouble   # 64-bit mantissa on x86: holds every int64 and 11 bits more than a double


class DType:
    def __init__(self, name, code, storage, values, kind, digits=0, emin=0, emax=0):
        self.name, self.code, self.kind = name, code, kind
        self.storage, self.values = np.dtype(storage), np.dtype(values)
        self.size = self.storage.itemsize
        self.digits, self.emin, self.emax = digits, emin, emax     # of floats: 0.1xxx * 2**e, emin <= e <= emax
        if kind == "f":
            self.max = float((1 - LD(2) ** -digits) * LD(2) ** emax)
            self.tiny = 2.0 ** (emin - 1)                           # smallest normal
        elif kind == "i":
            self.min, self.max = int(np.iinfo(storage).min), int(np.iinfo(storage).max)

    def __repr__(self):
        return self.name

    def ulp(self, x):
        """Distance between neighbours of this type around x, as longdouble; the last binade's beyond the largest."""
        with np.errstate(all="ignore"):
            _, e = np.frexp(np.asarray(x, LD))
        e = np.where(np.isfinite(x) & (np.asarray(x) != 0), np.clip(e, self.emin, self.emax), self.emin)
        return np.ldexp(LD(1), (e - self.digits).astype(np.int32))

    def round(self, x, mode=np.rint):
        """x (any float type) to the nearest value of this type, ties to even (or mode=np.ceil, np.floor)."""
        x = np.asarray(x, LD)
        q = self.ulp(x)
        with np.errstate(all="ignore"):
            r = np.where(np.isfinite(x), np.copysign(mode(x / q) * q, x), x)
            r = np.where(np.isfinite(x) & (np.abs(r) > self.max), np.copysign(LD(np.inf), x), r)
            return r.astype(self.values)

    def store(self, v):
        v = np.asarray(v)
        if self.name == "bf16":
            return (np.ascontiguousarray(v, np.float32).view(np.uint32) >> 16).astype(np.uint16).reshape(v.shape)
        if self.kind == "b":
            return (v != 0).astype(np.uint8)
        with np.errstate(all="ignore"):
            return v.astype(self.storage)

    def load(self, s):
        if self.name == "bf16":
            return (np.ascontiguousarray(s).astype(np.uint32) << 16).view(np.float32).reshape(s.shape)
        if self.kind == "b":
            return s != 0
        return s.astype(self.values)


# name: ACL code (abi/enums.tsv), storage, values, kind, mantissa digits, range of exponents in frexp's convention
F32 = DType("f32", 0, np.float32, np.float32, "f", 24, -125, 128)
F16 = DType("f16", 1, np.float16, np.float32, "f", 11, -13, 16)
I8 = DType("i8", 2, np.int8, np.int8, "i")
I32 = DType("i32", 3, np.int32, np.int32, "i")
U8 = DType("u8", 4, np.uint8, np.uint8, "i")
I16 = DType("i16", 6, np.int16, np.int16, "i")
U16 = DType("u16", 7, np.uint16, np.uint16, "i")           # of bits; numbers of operators by name only
U32 = DType("u32", 8, np.uint32, np.uint32, "i")           # codes of PrecisionCompare
I64 = DType("i64", 9, np.int64, np.int64, "i")
U64 = DType("u64", 10, np.uint64, np.uint64, "i")          # words of bits, and seeds
F64 = DType("f64", 11, np.float64, np.float64, "f", 53, -1021, 1024)
BOOL = DType("bool", 12, np.uint8, np.bool_, "b")
BF16 = DType("bf16", 27, np.uint16, np.float32, "f", 8, -125, 128)
C64 = DType("c64", 16, np.complex64, np.complex64, "c")
C128 = DType("c128", 17, np.complex128, np.complex128, "c")
STRING_CODE = 13                                            # a type of the enum that no operator here can take

FLOATS = (F32, F16, BF16)
FLOATS64 = FLOATS + (F64,)
INTS = (I8, I16, I32, I64, U8)
ALL = FLOATS64 + INTS + (BOOL,)
COMPLEX = (C64, C128)
PART = {C64: F32, C128: F64}                                # what their parts are


def promote(a, b):
    """The type that PyTorch computes two tensors in: bool, then integers, then floats."""
    if a is b:
        return a
    rank = {"b": 0, "i": 1, "f": 2}
    if rank[a.kind] != rank[b.kind]:
        return a if rank[a.kind] > rank[b.kind] else b
    if a.kind == "f":
        return F64 if F64 in (a, b) else F32                # f16 with bf16: neither holds the other
    return next(d for d in INTS if d.storage == np.promote_types(a.storage, b.storage))


def promote_scalar(t, s):
    """The same for a tensor and a scalar: the scalar counts only where its kind is higher (a float makes float32)."""
    rank = {"b": 0, "i": 1, "f": 2}
    return t if rank[t.kind] >= rank[s.kind] else (F32 if s.kind == "f" else I64)


def computed_in(d):
    """The float type that arithmetic on d is done in: halves are widened."""
    return F64 if d is F64 else F32
