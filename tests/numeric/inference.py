# SPDX-License-Identifier: Apache-2.0
"""Compares cannon.aclnn's inference of outputs (python/cannon/infer.py) with the calls that the numeric tests make.

    differing(op, args)     what to pass instead of the outputs in args, where the inferred ones differ; else None

The shapes and dtypes that the library took are right; where inference has others, acl.py asks phase one about them.
"""
import functools
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CANNON_PREFIX"], "python", "site-packages"))

from cannon import aclnn, dtypes, infer                     # noqa: E402
from cannon.tensor import Tensor                            # noqa: E402

INT4 = 29                       # an aclDataType without a cannon.Tensor: Python sees 8 of them as an int32

# An integer output truncates the operator's numbers, and so has another number of elements.
_TRUNCATED = ("aclnnArange", "aclnnRange")

SCHEMAS = {o[0]: name for name, o in aclnn.table().items()}


class Unknown(Exception):
    """The call has values that Python's interface does not have, or its outputs are not inferred."""


def _value(a):
    """An argument of acl.run as a rule sees it."""
    kind = type(a).__name__                     # acl.py imports this module
    if kind == "Tensor" or hasattr(a, "n_storage"):
        if a.code == INT4:
            raise Unknown
        return Tensor._view(None, dtypes.of(a.code), a.shape, a.strides, a.offset)
    if kind == "TensorList":
        return [_value(t) for t in a.tensors]
    if kind == "Scalar":
        return a.dtype.values.type(a.value)
    if kind == "ScalarList":
        return [_value(s) for s in a.scalars]
    if kind in ("Ints", "Bools", "Floats"):
        return tuple(a.values)
    if kind == "DType":
        return dtypes.of(a.code)
    return a


@functools.lru_cache(None)
def schema_of(op):
    return aclnn.Schema(SCHEMAS[op])


def inferred(op, args):
    """(schema, the inferred outputs in the order of the schema), as infer.py returns them."""
    schema = schema_of(op)
    if not schema.outputs:
        return schema, []
    values = [None if i in schema.outputs else _value(a) for i, a in enumerate(args)]
    if not infer.infers(schema):
        raise Unknown
    try:
        return schema, schema.infer(schema, values)
    except infer.NotInferred:
        raise Unknown from None


def inferring():
    """The operators whose outputs are inferred."""
    return [name for name in aclnn.table() if infer.infers(aclnn.Schema(name))]


def _same(wanted, given):
    """Whether an inferred output is what the test gave."""
    if given is None or wanted is None:
        return given is None and wanted is None
    if type(wanted) is list:
        return len(wanted) == len(given.tensors) and all(map(_same, wanted, given.tensors))
    return tuple(wanted[0]) == given.shape and wanted[1].code == given.code


def differing(op, args):
    """{position: (shape, dtype code), a list of those, or None} of the inferred outputs, if any differs from what args
    have; None if none does. Raises Unknown if nothing is inferred."""
    schema, outputs = inferred(op, args)
    if not schema.outputs or all(_same(w, args[i]) for i, w in zip(schema.outputs, outputs)):
        return None
    if op in _TRUNCATED and outputs[0][1].code != args[schema.outputs[0]].code:
        raise Unknown
    return dict(zip(schema.outputs, outputs))
