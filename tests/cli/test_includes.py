# SPDX-License-Identifier: Apache-2.0
"""What a header of CANN brings of others: published programs include one, and use what another declares.

    CANNON_PREFIX=/path python3 tests/cli/test_includes.py
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()

MALLOC = "void *p; (void)aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST);"
STREAM = "aclrtStream s; (void)aclrtCreateStream(&s);"
BUFFER = "aclDataBuffer *b = aclCreateDataBuffer(NULL, 0); (void)b;"
ATTRIBUTE = "aclopAttr *a = aclopCreateAttr(); aclopDestroyAttr(a);"
CAPTURE = "aclmdlRI r; (void)aclmdlRICaptureEnd(NULL, &r);"
FLOAT = "aclDataType t = ACL_FLOAT; (void)t;"

# The only header of a program, and what it uses.
PROGRAMS = (
    ("acl/acl.h", ATTRIBUTE), ("acl/acl.h", MALLOC), ("acl/acl.h", BUFFER),
    ("acl/acl.h", "aclmdlDesc *d = aclmdlCreateDesc(); (void)aclmdlDestroyDesc(d);"),
    ("acl/acl_rt.h", FLOAT), ("acl/acl_rt.h", CAPTURE),
    ("acl/acl_mdl.h", MALLOC), ("acl/acl_mdl.h", STREAM), ("acl/acl_mdl.h", BUFFER),
    ("acl/acl_op.h", STREAM), ("acl/acl_op.h", BUFFER), ("acl/acl_op_compiler.h", ATTRIBUTE),
    ("acl/acl_tdt.h", FLOAT), ("acl/acl_prof.h", FLOAT), ("acl/ops/acl_dvpp.h", STREAM),
    ("hccl/hccl.h", STREAM), ("hccl/hccl.h", "HcclDataType t = HCCL_DATA_TYPE_FP32; (void)t;"),
    ("aclnn/acl_meta.h", FLOAT), ("aclnnop/aclnn_add.h", "aclTensor *t = NULL; aclScalar *s = NULL; (void)t; (void)s;"),
    ("aclnnop/aclnn_add.h", FLOAT),
)


class Includes(unittest.TestCase):
    def test_one_header(self):
        with tempfile.TemporaryDirectory() as folder:
            for compiler, suffix in ((os.environ.get("CC", "cc"), "c"), (os.environ.get("CXX", "c++"), "cpp")):
                source = pathlib.Path(folder, f"program.{suffix}")
                for header, use in PROGRAMS:
                    with self.subTest(header=header, use=use, language=suffix):
                        source.write_text(f"#include <{header}>\nint main(void) {{ {use} return 0; }}\n")
                        done = subprocess.run([compiler, "-Wall", "-Werror", f"-I{PREFIX}/include", "-fsyntax-only",
                                               source], capture_output=True, text=True)
                        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
