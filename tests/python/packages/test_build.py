# SPDX-License-Identifier: Apache-2.0
"""Makes both packages from the build folder, the wheel twice: the same sources give the same bytes."""
import filecmp
import os
import re
import unittest
import zipfile

from packages import BUILD, FOLDER, SOURCE, TOOLS, PackageTest, package


class Build(PackageTest):
    def make_wheel(self, out):
        self.succeeds(SOURCE / "packaging/wheel/make_wheel", BUILD, TOOLS, out)
        name, = (n for n in os.listdir(out) if n.startswith("cannon_npu-"))
        return out / name

    def test_wheel(self):
        first, second = (self.make_wheel(out) for out in (FOLDER, FOLDER / "again"))
        self.assertTrue(filecmp.cmp(first, second, shallow=False), "two wheels of the same build differ")
        self.assertRegex(first.name,
                         rf"^cannon_npu-\d+\.\d+\.\d+-cp39-abi3-manylinux_2_\d+_{os.uname().machine}\.whl$")
        with zipfile.ZipFile(first) as wheel:
            names = wheel.namelist()
        self.assertFalse([n for n in names if "__pycache__" in n or n.endswith((".in", ".pyc"))])

    def test_deb(self):
        self.succeeds(SOURCE / "packaging/deb/make_deb", BUILD, FOLDER)
        depends = self.succeeds("dpkg-deb", "-f", package("cannon-npu_*.deb"), "Depends")
        for library in ("libc6", "libcjson1", "libdw1"):
            self.assertTrue(re.search(rf"\b{library} \(>= ", depends), depends)


if __name__ == "__main__":
    unittest.main()
