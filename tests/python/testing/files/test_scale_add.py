# SPDX-License-Identifier: Apache-2.0
"""An author's tests of the operator in operators/scale_add.c. The argument `fault` makes it a wrong one."""
import os

from cannon.testing import operator_test

FAULT = int(os.environ.get("SCALE_ADD_FAULT", "0"))


@operator_test("ScaleAdd", dtypes="float32 float16", shapes=[(3, 4), (1,), (), (0, 3)],
               attributes={"scale": [0.5, -2.0], "fault": [FAULT]})
def scale_add(x, y, scale):
    return x + scale * y
