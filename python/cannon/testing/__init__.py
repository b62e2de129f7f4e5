# SPDX-License-Identifier: Apache-2.0
"""Tests for operators: `cannon test DIR`, or pytest.

    from cannon.testing import operator_test

    @operator_test("Add", dtypes="float32 float16 int32", shapes=[(3, 4), (1,)], attributes={"alpha": [1, 2]})
    def add(x, y, alpha):
        return x + alpha * y

docs/python/testing.md is the guide. What a test file uses is here; the modules explain the details:

    operator_test   defines a test (its own help explains every argument)
    check_operator  runs an operator once, on arrays, and compares the result
    Input           what is particular to one input
    Tolerance       what counts as right (testing.compare)
    shapes          lists of shapes; huge() marks those that are tested on request
    layouts, values, dtypes, schema   what the names in a test's arguments mean

Modules are imported on first use, so that the pytest plugin needs no NumPy where nothing is tested.
"""
import importlib

_MODULES = ("compare", "dtypes", "layouts", "schema", "shapes", "values")
_MODULE_OF = {"operator_test": "definition", "OperatorTest": "definition", "Input": "cases", "Case": "cases",
              "Tolerance": "compare", "check_operator": "checked"}
__all__ = [*_MODULE_OF, *_MODULES]


def __getattr__(name):
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    raise AttributeError(f"module 'cannon.testing' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__})
