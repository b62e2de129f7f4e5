# SPDX-License-Identifier: Apache-2.0
"""An operator test in ten lines. `cannon test examples/python`, or pytest, or on an NPU `python3 -m cannon.testing`."""
from cannon.testing import operator_test, shapes


@operator_test("Add", dtypes="float32 float16 int32", shapes=[(3, 4), (1,), *shapes.broadcast],
               attributes={"alpha": [1, 2]})
def add(x, y, alpha):
    """The reference: what aclnnAdd must compute, in NumPy."""
    return x + alpha * y
