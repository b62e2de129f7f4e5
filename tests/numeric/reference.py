# SPDX-License-Identifier: Apache-2.0
"""Decides which results are right.

A reference is computed in long double (or exact integers), and never by the method that the library uses. `check` then
accepts every value that a correct computation can give: any value of the computing type within `ulps` of its units
(plus `slack`, an absolute term for intermediate results) of the exact one, rounded once more to the type of the output
(and to `via` before that, if it is given). So float32 results are within `ulps`, halves are correctly rounded from such
a float32, and 0.5 means correctly rounded arithmetic.
"""
import os

import numpy as np

from dtypes import F32, F64, LD, PART, computed_in

np.seterr(all="ignore")


def bounds(exact, computing, out, ulps, slack=0, via=None):
    exact = np.asarray(exact, LD)
    err = np.where(np.isfinite(exact), ulps * computing.ulp(exact) + slack, LD(0))  # infinity has no neighbours
    lo, hi = exact - err, exact + err
    # The computing type's values in [lo, hi]; the exact value itself may also be rounded directly to the output's type.
    lo = np.minimum(computing.round(lo, np.ceil).astype(LD), exact)
    hi = np.maximum(computing.round(hi, np.floor).astype(LD), exact)
    return out.round((via or out).round(lo)), out.round((via or out).round(hi))


def check(got, exact, out, computing=None, ulps=2, slack=0, zero_sign=False, what="result", via=None):
    """got: values of a float type `out`; exact: long double of the same shape."""
    got, exact = np.asarray(got), np.asarray(exact, LD)
    assert got.shape == exact.shape, f"{what}: shape {got.shape}, expected {exact.shape}"
    lo, hi = bounds(exact, computing or computed_in(out), out, ulps, slack, via)
    good = np.where(np.isnan(exact), np.isnan(got), (lo <= got) & (got <= hi))
    if zero_sign:
        good &= ~((got == 0) & (exact == 0)) | (np.signbit(got) == np.signbit(exact))
    complain(got, exact, good, what, lambda i: f"between {lo[i]!r} and {hi[i]!r}")


def check_truncated(got, exact, target, ulps=2, slack=0, what="result"):
    """A float result stored as an integer, which saturates, or as a truth value. NaN becomes 0, or true."""
    if target.kind == "b":
        check_equal(got, exact != 0, what)
        return
    lo, hi = bounds(exact, F32, F32, ulps, slack)
    lo, hi = (np.clip(np.trunc(np.where(np.isnan(exact), 0, v).astype(LD)), target.min, target.max) for v in (lo, hi))
    good = (lo <= got.astype(LD)) & (got.astype(LD) <= hi)
    complain(got, exact, good, what, lambda i: f"between {lo[i]!r} and {hi[i]!r}")


def check_parts(got, exact, out, ulps=2, slack=0, what="result"):
    """As `check`, for real and imaginary part separately. slack: one for both, or (for the real, for the imaginary)."""
    of = slack if isinstance(slack, tuple) else (slack, slack)
    for name, s in zip(("real", "imag"), of):
        check(getattr(got, name), getattr(exact, name), PART[out], PART[out], ulps, s, what=f"{what}: {name}")


def check_equal(got, expected, what="result"):
    """Equal numbers of any type; NaN equals NaN."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    good = (got == expected) | ((got != got) & (expected != expected))
    complain(got, expected, good, what, lambda i: "exactly that")


def complain(got, expected, good, what, wanted):
    if not np.all(good):
        i = tuple(np.argwhere(~np.asarray(good))[0])
        raise AssertionError(f"{what}{list(map(int, i))} is {got[i]!r}, exactly {expected[i]!r}, wanted {wanted(i)}; "
                             f"{np.size(good) - np.count_nonzero(good)} of {np.size(good)} are wrong")


def to_type(values, source, target):
    """Conversion as in PyTorch: floats truncate, integers wrap, any number but 0 is true."""
    if target.kind == "b":
        return values != 0
    if target.kind == "i":
        if source.kind == "f":
            values = np.trunc(values)
        return values.astype(target.values)
    return target.round(values.astype(LD))


def in_range(values, target):
    """Where a float converts to the integer type without leaving its range."""
    t = np.trunc(values.astype(LD))
    return np.isfinite(values) & (t >= target.min) & (t <= target.max)


# ---- functions in long double that NumPy lacks

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rsqrt(x):
    return 1 / np.sqrt(x)


def relu(x):
    return np.where(x < 0, x.dtype.type(0), x)


def log_softmax(x, axis):
    top = np.max(x, axis=axis, keepdims=True)
    return x - top - np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True))


def sum_slack(magnitudes, n, computing):
    """Error bound of a sum of n terms added as a tree with leaves of some tens. The plain C reference adds one after
    the other; its errors, of random signs, stay far below 2 sqrt(n) eps."""
    eps = LD(2) ** (1 - computing.digits)
    running = "reduce=reference" in os.environ.get("CANNON_IMPL", "")
    return (8 + (2 * np.sqrt(n) if running else np.log2(max(n, 1)))) * eps * magnitudes


def adamw(var, m, v, peak, grad, t, lr, beta1, beta2, decay, eps, maximize):
    """One step of AdamW. peak: the running maximum of v, or None. Returns var, m, v, peak and the size of the step."""
    g = -grad if maximize else grad
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    if peak is not None:
        peak = np.maximum(peak, v)
    root = np.sqrt((v if peak is None else peak) / (1 - beta2 ** t)) + eps
    step = lr * (m / (1 - beta1 ** t)) / root
    return var * (1 - lr * decay) - step, m, v, peak, step


assert F64.digits <= np.finfo(LD).nmant + 1 - 8, "long double must be longer than double here"
assert F32.round(LD(1) + LD(2) ** -24) == 1
