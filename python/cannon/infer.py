# SPDX-License-Identifier: Apache-2.0
"""Shapes and dtypes of operators' outputs.

A rule is a function of an operator and its arguments' values (in the order of the schema; outputs are None). It returns
a (shape, dtype) per output, None for an output that is left out, or a list of (shape, dtype) for a list of tensors.
Rules are found by the operator's name or its family in ops/*.ops: one rule serves the operators that share a C
function. The rules are in rules*.py; that of the elementwise operators is here.
"""
from . import dtypes
from .tensor import Tensor

SIZED_BY_DATA = {"nonzero", "masked_select", "unique", "unique2", "unique_consecutive", "unique_dim"}
RULES = {}
_elementwise = {}                               # {EW_name: traits}
BOOL, FLOAT, DOUBLE, INT64 = (dtypes.of(n) for n in ("bool", "float32", "float64", "int64"))


def set_elementwise(traits):
    _elementwise.update({name: frozenset(t) for name, t in traits.items()})


def rule(op):
    """The rule of an operator; one that asks for `out` if there is none."""
    return RULES.get(op.name) or RULES.get(op.family) or _unknown


def infers(op):
    """Whether the outputs of an operator are known, so that `out` may be left out."""
    return not op.outputs or rule(op) is not _unknown


def _unknown(op, values):
    unknown(op, "its shape is not inferred")


class NotInferred(TypeError):
    """The call has to give the outputs."""


def unknown(op, reason):
    names = ", ".join(op.arguments[i].name for i in op.outputs)
    raise NotInferred(f"{op.name}: give {names} by out=, since {reason}")


class Call:
    """The arguments of a call, by position in the schema or by name."""
    __slots__ = ("op", "values")

    def __init__(self, op, values):
        self.op, self.values = op, values

    def __getitem__(self, key):
        if isinstance(key, int):
            return self.values[key]
        for value, argument in zip(self.values, self.op.arguments):
            if argument.name == key:
                return value
        raise KeyError(key)

    def get(self, *names):
        """The value of the first of the names that the operator has; None if it has none of them."""
        for value, argument in zip(self.values, self.op.arguments):
            if argument.name in names:
                return value
        return None

    @property
    def tensors(self):
        """The input tensors that are given."""
        return [v for v in self.values if isinstance(v, Tensor)]


def of(*names):
    """Decorates the rule of families, or of operators: a function of a Call."""
    def decorate(function):
        def rule(op, values):
            return function(Call(op, values))
        RULES.update(dict.fromkeys(names, rule))
        return function
    return decorate


def like(t, dtype=None):
    return t.shape, dtype or t.dtype


def broadcast(shapes):
    """The shape that the shapes broadcast to."""
    first = shapes[0]
    for shape in shapes[1:]:
        if shape != first:
            break
    else:
        return first
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for d, n in enumerate(shape, rank - len(shape)):
            if n != out[d] and n != 1:
                if out[d] != 1:
                    raise ValueError(f"shapes {', '.join(map(str, shapes))} don't broadcast")
                out[d] = n
    return tuple(out)


def real(dtype):
    """The dtype of the parts of complex numbers; others stay."""
    return {"complex64": FLOAT, "complex128": dtypes.of("float64"), "complex32": dtypes.of("float16")}.get(
        dtype.name, dtype)


def floating(dtype):
    """float32 for integers and truth values; others stay."""
    return FLOAT if dtype.kind in "biu" else dtype


def promote(tensors):
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = dtypes.promote(dtype, t.dtype)
    return dtype


_CLASS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_OF_CLASS = {1: INT64, 2: FLOAT, 3: dtypes.of("complex64")}


def elementwise(op, values):
    """Inputs broadcast; the dtype follows from the function's traits (src/kernel/engine/elementwise_traits.def)."""
    traits = _elementwise[op.variant]
    ins = [v for v in values if isinstance(v, Tensor)]
    shape = ins[0].shape
    for t in ins:
        if t.shape != shape:
            shape = broadcast([t.shape for t in ins])
            break
    if "BOOL_RESULT" in traits:
        return [(shape, BOOL)]
    counted = ins[1:] if "CONDITION_FIRST" in traits else ins[:1] if "MASK_SECOND" in traits else ins
    dtype = counted[0].dtype
    for t in counted[1:]:
        if t.dtype is not dtype:
            dtype = dtypes.promote(dtype, t.dtype)
    if "SCALAR_TYPED" in traits or "SCALARS_TYPED" in traits:
        for v, a in zip(values, op.arguments):
            if a.type == "Scalar" and v is not None:
                kind = _CLASS[dtypes.of_scalar(v).kind if not hasattr(v, "dtype") else dtypes.of(v.dtype).kind]
                if kind > _CLASS[dtype.kind]:
                    dtype = _OF_CLASS[kind] if dtype is not DOUBLE else dtypes.of("complex128")
                if "SCALAR_TYPED" in traits:
                    break
    if op.variant in ("EW_abs", "EW_angle"):
        dtype = real(dtype)
    if dtype.kind in "biu" and ("float" in traits or "BOOL_TO_FLOAT" in traits and dtype is BOOL):
        dtype = FLOAT
    return [(shape, dtype)]


RULES.update(elementwise=elementwise, limited=elementwise)

from . import rules, rules_products, rules_shapes  # noqa: E402,F401  fill RULES
