# SPDX-License-Identifier: Apache-2.0
"""One run of an operator on arrays of the caller, with all the checks of a case."""
import numpy as np

from . import arrays, dtypes, layouts, run_case
from .cases import Case, Input
from .definition import operator_test


class _Given:
    """A reference whose result is known."""

    def __init__(self, expected, n_inputs):
        self.__name__, self.nin = "given", n_inputs
        self.expected = expected

    def __call__(self, *inputs):
        return tuple(self.expected)


def _drawn(name, array):
    """An input of a case with the values and the strides of an array."""
    values, dtype = arrays.to_numpy(array)
    steps = [s // values.itemsize if n > 1 else 1 for n, s in zip(values.shape, values.strides)]
    plain = any(s < 0 for s in steps) or any(s % values.itemsize for s in values.strides) or not values.size or \
        values.flags.c_contiguous
    placement = layouts.Placement(values.shape, layouts.contiguous_strides(values.shape) if plain else steps)
    return run_case.Drawn(name, dtype, placement, values)


def check_operator(operator, *inputs, expected, out_dtype=None, tolerance=None, library=None, schema=None, device=0,
                   **attributes):
    """Runs an operator and compares its outputs with the expected ones.

        check_operator("Add", x, y, alpha=2, expected=x + 2 * y)

    The inputs, in the order of the schema, are arrays, lists of arrays, or None; strides are kept. expected is an
    array, or a tuple of them; the other arguments are operator_test's. Raises AssertionError with what is wrong.
    Returns the outputs as arrays (a tuple if there are several)."""
    wanted = [np.asarray(e) for e in (expected if isinstance(expected, tuple) else (expected,))]
    names = [f"input{i + 1}" for i in range(len(inputs))]
    drawn = [None if x is None else [_drawn(n, a) for a in x] if isinstance(x, list) else _drawn(n, x)
             for n, x in zip(names, inputs)]
    flat = [d[0] if isinstance(d, list) else d for d in drawn]
    test = operator_test(operator, reference=_Given(wanted, len(inputs)), inputs={n: Input() for n in names},
                         out_dtype=out_dtype or [arrays.to_numpy(w)[1] for w in wanted], tolerance=tolerance,
                         library=library, schema=schema, shapes=[()])
    test.file = "."                             # a library's path is relative to the working folder
    case = Case(test, tuple(dtypes.find("float32") if d is None else d.dtype for d in flat),
                tuple(None if d is None else d.placement.shape for d in flat), "contiguous", "normal", attributes, 0,
                False)
    outputs, failures, _ = run_case.run_operator(case, run_case.Options(device), drawn, wanted)
    failures = run_case.judge(case, outputs, wanted)[0] + failures
    if failures:
        raise AssertionError("\n".join(f["message"] for f in failures))
    results = tuple(values for _, _, values in outputs)
    return results[0] if len(results) == 1 else results
