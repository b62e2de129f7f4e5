# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as NumPy's."""
import numpy as np

from . import dtypes


def numpy_dtype(dtype, missing):
    """NumPy's type of a dtype. bfloat16 needs the package ml_dtypes; `missing` is raised where it is not installed."""
    if dtype.name != "bfloat16":
        return np.dtype(np.bool_) if dtype.kind == "b" else dtype.storage
    try:
        import ml_dtypes
    except ImportError:
        raise missing("NumPy has no bfloat16 unless the package ml_dtypes is installed") from None
    return np.dtype(ml_dtypes.bfloat16)


def to_numpy(result):
    """(values, dtype) of an array, a number, a cannon.Tensor or a PyTorch tensor. bfloat16 values are float32."""
    if hasattr(result, "detach"):                               # PyTorch
        dtype = dtypes.find(result.dtype)
        result = result.detach().cpu()
        return (result.float() if dtype.name == "bfloat16" else result).numpy(), dtype
    array = np.asarray(result)
    dtype = dtypes.find(array.dtype)
    return (array.astype(np.float32) if dtype.name == "bfloat16" else array), dtype
