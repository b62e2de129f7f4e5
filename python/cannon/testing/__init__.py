# SPDX-License-Identifier: Apache-2.0
"""Tests for operators: `cannon test DIR`, or pytest.

    from cannon.testing import operator_test

    @operator_test("Add", dtypes="float32 float16 int32", shapes=[(3, 4), (1,)], attributes={"alpha": [1, 2]})
    def add(x, y, alpha):
        return x + alpha * y

docs/python/testing.md is the guide. What a test file uses is here; the modules explain the details:

    operator_test   defines a test (its own help explains every argument)
    Input           what is particular to one input
    Tolerance       what counts as right (testing.compare)
    shapes          lists of shapes; huge() marks those that are tested on request
    layouts, values, dtypes, schema   what the names in a test's arguments mean
"""
from . import dtypes, layouts, schema, shapes, values
from .cases import Case, Input
from .compare import DEFAULT as DEFAULT_TOLERANCES, Tolerance
from .definition import OperatorTest, operator_test

__all__ = ["operator_test", "OperatorTest", "Input", "Case", "Tolerance", "DEFAULT_TOLERANCES", "dtypes", "layouts",
           "schema", "shapes", "values"]
