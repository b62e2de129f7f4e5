# SPDX-License-Identifier: Apache-2.0
"""Ranges of values with which inputs are filled.

A range is a name of the table below; (low, high), uniform numbers between both, including high for integers; a list, of
whose numbers each element is one; or a function f(rng, shape, dtype) that returns an array (rng: NumPy's Generator,
dtype: the name).

    normal     floats: standard normal, times 3; integers: -100 to 100
    small      floats: magnitudes from the smallest normal number to 1, evenly by exponent; integers: -3 to 3
    large      floats: magnitudes from 1 to 1/16 of the largest number; integers: up to 1/16 of the largest number
    special    as normal, but a third of the elements are infinities, NaN, -0, 0, 1, -1 and denormals; integers: the
               extremes, 0, 1 and -1
    extreme    as special, with the largest and the smallest numbers in place of infinities and NaN
    positive   floats: 0.01 to 10, evenly by exponent; integers: 1 to 100
    unit       floats: 0 to 1; integers and bool: 0 or 1
    zeros      zeros
"""
import numpy as np

from . import dtypes


def _clip(low, high, dtype):
    return max(low, dtype.min), min(high, dtype.max)


def _integers(rng, shape, dtype, low, high):
    return rng.integers(*_clip(low, high, dtype), shape, dtype.storage, endpoint=True)


def _by_exponent(rng, shape, low, high):
    return np.exp2(rng.uniform(np.log2(low), np.log2(high), shape))


def _signs(rng, shape):
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _normal(rng, shape, dtype):
    if dtype.kind == "i":
        return _integers(rng, shape, dtype, -100, 100)
    return rng.standard_normal(shape) * 3


def _small(rng, shape, dtype):
    if dtype.kind == "i":
        return _integers(rng, shape, dtype, -3, 3)
    return _signs(rng, shape) * _by_exponent(rng, shape, dtype.tiny, 1)


def _large(rng, shape, dtype):
    if dtype.kind == "i":
        return _integers(rng, shape, dtype, -(dtype.max // 16), dtype.max // 16)
    return _signs(rng, shape) * _by_exponent(rng, shape, 1, dtype.max / 16)


def _mixed(rng, shape, dtype, odd):
    chosen = rng.choice(np.array(odd, dtype.values), shape)
    return np.where(rng.random(shape) < 1 / 3, chosen, dtype.store(_normal(rng, shape, dtype)) if dtype.kind == "i"
                    else dtype.round(_normal(rng, shape, dtype)))


def _special(rng, shape, dtype):
    if dtype.kind == "i":
        return _mixed(rng, shape, dtype, [dtype.min, dtype.max, 0, 1, max(-1, dtype.min)])
    return _mixed(rng, shape, dtype, [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, *_denormals(dtype)])


def _extreme(rng, shape, dtype):
    if dtype.kind == "i":
        return _special(rng, shape, dtype)
    odd = [dtype.max, -dtype.max, dtype.tiny, -dtype.tiny, 0.0, -0.0, *_denormals(dtype)]
    return _mixed(rng, shape, dtype, odd)


def _denormals(dtype):
    least = dtype.tiny * 2.0 ** (1 - dtype.digits)
    return [least, -least, 3 * least, dtype.tiny - least]


def _positive(rng, shape, dtype):
    return _integers(rng, shape, dtype, 1, 100) if dtype.kind == "i" else _by_exponent(rng, shape, 0.01, 10)


def _unit(rng, shape, dtype):
    return _integers(rng, shape, dtype, 0, 1) if dtype.kind == "i" else rng.random(shape)


def _zeros(rng, shape, dtype):
    return np.zeros(shape, dtype.values)


ALL = {"normal": _normal, "small": _small, "large": _large, "special": _special, "extreme": _extreme,
       "positive": _positive, "unit": _unit, "zeros": _zeros}


def label(values):
    """A range in the id of a case. Raises ValueError for what is no range."""
    if callable(values):
        return getattr(values, "__name__", "values")
    if isinstance(values, tuple) and len(values) == 2:
        return f"{values[0]:g}..{values[1]:g}"
    if isinstance(values, list):
        return "of(" + ",".join(f"{v:g}" for v in values) + ")"
    if not isinstance(values, str) or values not in ALL:
        raise ValueError(f"values is {values!r}, expected (low, high), a list, a function or one of {', '.join(ALL)}")
    return values


def draw(values, rng, shape, dtype):
    """An array of dtype.values."""
    if callable(values):
        drawn = np.asarray(values(rng, shape, dtype.name))
        if drawn.shape != tuple(shape):
            raise ValueError(f"the function {label(values)} returned shape {drawn.shape}, expected {tuple(shape)}")
    elif dtype.kind == "c":
        part = dtypes.PART[dtype.name]
        drawn = np.empty(shape, dtype.values)
        drawn.real, drawn.imag = draw(values, rng, shape, part), draw(values, rng, shape, part)
        return drawn
    elif isinstance(values, tuple):
        drawn = _integers(rng, shape, dtype, *map(int, values)) if dtype.kind == "i" else rng.uniform(*values, shape)
    elif isinstance(values, list):
        drawn = rng.choice(np.array(values), shape)
    elif dtype.kind == "b":
        drawn = rng.random(shape) < 0.5 if values != "zeros" else np.zeros(shape, bool)
    else:
        drawn = ALL[values](rng, shape, dtype)
    return dtype.load(np.asarray(dtype.store(drawn)))
