# SPDX-License-Identifier: Apache-2.0
"""The Debian package in a fresh root, which mmdebstrap makes of Debian's essential packages, the package's dependencies
and Python, and removes again. Needs root; else it is skipped."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from packages import BUILD, MODULE, PackageTest, clean_environment, execute, package

SKIPPED = 77
PROGRAM = r"""
#include "acl/acl.h"
#include <stdio.h>
int main(void) { return printf("%d %s\n", aclInit(NULL), aclrtGetSocName()) < 0; }
"""

# Runs in the root. The lines that it prints are compared.
CHECK = r"""
set -eu
unset CANNON_LEDGER
dpkg -i /try/package.deb >/dev/null
cannon prefix
for command in cannon npu-smi atc msprof; do
  test -e /usr/share/man/man1/$command.1.gz
  $command --help | head -1
done
cannon run --quiet /try/program
echo "unset: ${LD_LIBRARY_PATH:-}"
( . /usr/lib/cannon/set_env.sh; /try/program; echo "$PYTHONPATH" )
cd /try
python3 -c "import cannon, torch_npu; print(cannon.__file__)"
python3 -m cannon prefix
dpkg -r cannon-npu >/dev/null
find / -xdev -path /try -prune -o -name '*cannon*' -print | grep -v '^/var/' || echo removed
"""
EXPECTED = r"""/usr/lib/cannon
Usage: cannon COMMAND [ARGUMENT]...
Usage: npu-smi info [-t TYPE [-i DEVICE [-c 0]]]
Usage: atc --model=FILE.onnx --framework=5 --output=NAME --soc_version=NAME [OPTION]...
Usage: msprof [OPTION]... PROGRAM [ARGUMENT]...
0 Ascend910B3
unset: 
0 Ascend910B3
/usr/lib/cannon/opp/built-in/op_impl/ai_core/tbe:/usr/lib/cannon/python/site-packages
version 0
from /usr/lib/cannon/lib64/libcannon.so
ASCEND_HOME_PATH /usr/lib/cannon
ASCEND_OPP_PATH /usr/lib/cannon/opp
/usr/lib/cannon/python/site-packages/cannon/__init__.py
/usr/lib/cannon
removed
"""


class FreshRoot(PackageTest):
    def test_package(self):
        work = pathlib.Path(tempfile.mkdtemp(prefix="cannon-test-"))
        self.addCleanup(shutil.rmtree, work)
        shutil.copy(package("cannon-npu_*.deb"), work / "package.deb")
        (work / "torch_npu.py").write_text(MODULE)
        (work / "check").write_text(CHECK)
        (work / "program.c").write_text(PROGRAM)
        prefix = BUILD / "prefix"
        self.succeeds("cc", work / "program.c", "-o", work / "program", f"-I{prefix}/include", f"-L{prefix}/lib64",
                      "-lascendcl")
        depends = self.succeeds("dpkg-deb", "-f", work / "package.deb", "Depends")
        wanted = re.sub(r" \([^)]*\)", "", depends).replace(" ", "").strip() + ",python3"
        with open("/etc/os-release", encoding="utf-8") as f:
            suite = re.search("VERSION_CODENAME=(.*)", f.read())[1]
        copies = [f"--customize-hook=copy-in {work / name} /try" for name in ("package.deb", "torch_npu.py", "check",
                                                                                "program")]
        self.succeeds(
            "mmdebstrap", "--quiet", "--mode=root", "--variant=essential", "--format=null", f"--include={wanted}",
            "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=force-unsafe-io",
            "--customize-hook=mkdir $1/try", *copies,
            "--customize-hook=chroot $1 sh /try/check >$1/try/told", f"--customize-hook=copy-out /try/told {work}",
            suite, "-", env=clean_environment(TMPDIR=str(work)))
        self.assertEqual((work / "told").read_text(), EXPECTED)


if __name__ == "__main__":
    if os.getuid() or not shutil.which("mmdebstrap"):
        print("skipped: a fresh root is made by root with mmdebstrap")
        sys.exit(SKIPPED)
    unittest.main()
