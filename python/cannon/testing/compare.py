# SPDX-License-Identifier: Apache-2.0
"""Compares the elements of a result with the expected ones.

An element is right if it is within `ulp` units in the last place of the expected value, or within `absolute` +
`relative` * |expected|. Expected values may have more digits than the result's type: a correctly rounded result is
within 0.5 ULPs. NaN is right only where NaN is expected, an infinity only where the expected value rounds to it, or is
within the tolerance of the smallest number that does. Integers and bool are exact unless a tolerance is given.
"""
import numpy as np

from . import dtypes

CHUNK = 1 << 22     # elements that are compared at once, to bound the memory that this takes


class Tolerance:
    """What counts as right.

    ulp, relative, absolute   see this module's first lines
    zero_sign                 True: -0 is another number than 0
    flush_denormals           True: 0 is right where a denormal number is expected
    """

    def __init__(self, ulp=0.0, relative=0.0, absolute=0.0, zero_sign=False, flush_denormals=False):
        for name, value in (("ulp", ulp), ("relative", relative), ("absolute", absolute)):
            if not value >= 0:
                raise ValueError(f"{name} is {value!r}, expected a number that is 0 or more")
        self.ulp, self.relative, self.absolute = float(ulp), float(relative), float(absolute)
        self.zero_sign, self.flush_denormals = bool(zero_sign), bool(flush_denormals)

    def __repr__(self):
        parts = [f"{self.ulp:g} ULPs", f"relative {self.relative:g}", f"absolute {self.absolute:g}"]
        parts += ["sign of zero"] * self.zero_sign + ["denormals may be flushed"] * self.flush_denormals
        return ", ".join(parts)


#: Tolerances by dtype, where a test gives none. There is no absolute tolerance: an operator that cancels, such as a sum
#: of products, needs one that suits its inputs.
DEFAULT = {
    "float16": Tolerance(ulp=2, relative=1e-3),
    "bfloat16": Tolerance(ulp=2, relative=8e-3),
    "float32": Tolerance(ulp=4, relative=1.3e-6),
    "float64": Tolerance(ulp=4, relative=1e-14),
    "complex64": Tolerance(ulp=4, relative=1.3e-6),
    "complex128": Tolerance(ulp=4, relative=1e-14),
}


def tolerance_for(given, dtype):
    """The tolerance of a dtype. given: None, a Tolerance, or a dictionary by dtype's name."""
    default = DEFAULT.get(dtype.name, Tolerance())
    if given is None:
        return default
    if isinstance(given, Tolerance):
        return given
    for name, tolerance in given.items():
        if dtypes.find(name) is dtype:
            return tolerance
    return default


class Comparison:
    """The outcome. first: None, or (index, expected, actual, ulps) of the first wrong element in row-major order.
    worst: the largest error among all finite elements, in ULPs."""

    def __init__(self, n):
        self.n, self.n_wrong, self.first, self.worst = n, 0, None, 0.0


def _float_errors(exact, got, dtype, tolerance):
    """(which are right, ULPs). ULPs are NaN where they mean nothing."""
    wide = np.longdouble if dtype.name == "float64" else np.float64
    exact, got = exact.astype(wide), got.astype(wide)
    rounded = dtype.round(exact).astype(wide)
    edge = np.ldexp(wide(1), dtype.emax)                # where the next number would be: what rounds to infinity
    bounded = np.where(np.isinf(got), np.copysign(edge, got), got)
    error = np.abs(bounded - exact)
    ulps = error / dtype.ulp(exact)
    right = (ulps <= tolerance.ulp) | (error <= tolerance.absolute + tolerance.relative * np.abs(exact))
    if tolerance.flush_denormals:
        right |= (got == 0) & (np.abs(exact) < dtype.tiny)
    right = np.where(np.isfinite(exact), right, False)
    right |= np.isinf(rounded) & (got == rounded)
    right = np.where(np.isnan(exact), np.isnan(got), right)
    if tolerance.zero_sign:
        right &= ~((got == 0) & (rounded == 0)) | (np.signbit(got) == np.signbit(rounded))
    meaningless = ~np.isfinite(exact) | ~np.isfinite(got)
    return right, np.where(meaningless, np.nan, ulps)


def _complex_errors(exact, got, dtype, tolerance):
    part = dtypes.PART[dtype.name]
    finite = np.isfinite(exact) & np.isfinite(got)
    error = np.abs(got.astype(np.complex128) - exact.astype(np.complex128))
    size = np.abs(exact.astype(np.complex128))
    ulps = error / part.ulp(size)
    right = (ulps <= tolerance.ulp) | (error <= tolerance.absolute + tolerance.relative * size)
    halves = [_float_errors(getattr(exact, p), getattr(got, p), part, tolerance)[0] for p in ("real", "imag")]
    return np.where(finite, right, halves[0] & halves[1]), np.where(finite, ulps, np.nan)


def _integer_errors(exact, got, dtype, tolerance):
    if exact.dtype.kind == "f":
        distance = np.abs(exact.astype(np.longdouble) - got.astype(np.longdouble))
        return distance <= tolerance.absolute, distance.astype(np.float64)
    if dtype.kind == "b" or exact.dtype.kind == "b":
        return exact.astype(bool) == got.astype(bool), (exact.astype(bool) != got.astype(bool)).astype(np.float64)
    exact = exact.astype(got.dtype)                     # integers wrap around
    # The difference of two integers of 64 bits needs 65; long double holds it.
    distance = np.abs(exact.astype(np.longdouble) - got.astype(np.longdouble))
    return distance <= tolerance.absolute, distance.astype(np.float64)


def _errors(exact, got, dtype, tolerance):
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            return _float_errors(exact, got, dtype, tolerance)
        if dtype.kind == "c":
            return _complex_errors(exact, got, dtype, tolerance)
        return _integer_errors(exact, got, dtype, tolerance)


def compare(expected, actual, dtype, tolerance):
    """expected, actual: arrays of one shape; actual holds values of `dtype`, expected those or wider ones. Returns a
    Comparison."""
    expected, actual = np.asarray(expected), np.asarray(actual)
    flat_expected, flat_actual = expected.reshape(-1), actual.reshape(-1)
    result = Comparison(actual.size)
    for begin in range(0, actual.size, CHUNK):
        part = slice(begin, begin + CHUNK)
        right, ulps = _errors(flat_expected[part], flat_actual[part], dtype, tolerance)
        finite = ulps[~np.isnan(ulps)]
        if dtype.kind in "fc" and finite.size:
            result.worst = max(result.worst, float(finite.max()))
        wrong = np.flatnonzero(~right)
        result.n_wrong += int(wrong.size)
        if wrong.size and result.first is None:
            i = int(wrong[0])
            index = tuple(int(k) for k in np.unravel_index(begin + i, actual.shape))
            result.first = (index, flat_expected[begin + i], flat_actual[begin + i], float(ulps[i]))
    return result
