# SPDX-License-Identifier: Apache-2.0
"""What the tests of cannon.testing share: the installed package, the operator with faults, and `cannon test`.

    CANNON_PREFIX=/path python3 tests/python/testing/test_parts.py
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"]).resolve()
PACKAGES = PREFIX / "python/site-packages"
CANNON = PREFIX / "bin/cannon"
sys.path.insert(0, str(PACKAGES))
sys.dont_write_bytecode = True

#: The faults of operators/scale_add.c, by its enum.
FAULTS = dict(zip(re.findall(r"^  ([A-Z_]+),", (HERE / "operators/scale_add.c").read_text(), re.M), range(100)))


@functools.lru_cache(None)
def opp_folder():
    """A custom opp folder with the operator ScaleAdd, which is removed at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cannon-opp-"))
    unittest.addModuleCleanup(shutil.rmtree, folder)
    library, include = folder / "op_api/lib/libcust_opapi.so", folder / "op_api/include"
    library.parent.mkdir(parents=True)
    include.mkdir()
    shutil.copy(HERE / "operators/aclnn_scale_add.h", include)
    subprocess.run([os.environ.get("CC", "cc"), "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror",
                    HERE / "operators/scale_add.c", "-o", library, f"-I{PREFIX}/include", f"-L{PREFIX}/lib64",
                    "-lopapi", "-lnnopbase", "-lascendcl"], check=True)
    return folder


def environment(**more):
    """The environment of a user who has Python with NumPy, and nothing of Cannon's."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("CANNON_", "ASCEND_", "PYTHON", "LD_LIBRARY"))}
    folder = os.path.dirname(sys.executable)
    return {**kept, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1",
            **{n: v for n, v in os.environ.items() if n == "CANNON_LEDGER"}, **more}


class FolderTest(unittest.TestCase):
    """A test with a folder for the files of a user."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cannon-testing-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def cannon_test(self, *arguments, status=None, **variables):
        """Runs `cannon test` in the folder."""
        done = subprocess.run([CANNON, "test", *map(str, arguments)], capture_output=True, text=True, timeout=100,
                              cwd=self.folder, env=environment(**variables))
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done


BEGIN = "import numpy as np\nfrom cannon.testing import Input, Tolerance, operator_test, shapes\n"
