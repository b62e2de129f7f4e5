# SPDX-License-Identifier: Apache-2.0
"""What the tests of the packages share. They are programs of

    PACKAGES_BUILD     a build folder that has been built, with its installation in prefix/
    PACKAGES_FOLDER    a folder for the packages, which test_build makes and the other tests install
"""
import glob
import os
import pathlib
import subprocess
import unittest

BUILD = pathlib.Path(os.environ["PACKAGES_BUILD"]).resolve()
FOLDER = pathlib.Path(os.environ["PACKAGES_FOLDER"]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[3]
TOOLS = BUILD / "wheel-tools"

# A module in the place of torch_npu: prints which library answers to CANN's name, and the variables that torch_npu
# reads.
MODULE = r"""
import ctypes, os
print("version", ctypes.CDLL("libascendcl.so").aclrtGetVersion(*map(ctypes.byref, [ctypes.c_int() for i in range(3)])))
with open("/proc/self/maps") as f:
    print("from", *sorted({line.split()[-1] for line in f if "/libcannon.so" in line}))
for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
    print(name, os.environ.get(name))
"""


def clean_environment(**more):
    """This process's environment without what refers to a CANN or to Python's set-up, as in a fresh shell."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("ASCEND", "CANNON", "PYTHON")) and k not in ("LD_LIBRARY_PATH", "VIRTUAL_ENV")}
    if "CANNON_LEDGER" in os.environ:
        env["CANNON_LEDGER"] = os.environ["CANNON_LEDGER"]
    return {**env, **more}


def execute(*command, env=None, **options):
    options.setdefault("timeout", 300)
    return subprocess.run([str(c) for c in command], env=env or clean_environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def package(pattern):
    found, = glob.glob(str(FOLDER / pattern))
    return found


def environment_with_wheel(folder):
    """Makes a bare virtual environment, installs the wheel there, and returns its folder of programs."""
    made = execute("/usr/bin/python3", "-m", "venv", "--without-pip", folder)
    if made.returncode:
        raise RuntimeError(made.stderr)
    done = execute(TOOLS / "bin/python", "-m", "pip", "--python", folder / "bin/python", "install", "--quiet",
                   "--no-index", "--no-deps", "--disable-pip-version-check", package("cannon_npu-*.whl"))
    if done.returncode:
        raise RuntimeError(done.stderr)
    return folder / "bin"


class PackageTest(unittest.TestCase):
    def succeeds(self, *command, **options):
        done = execute(*command, **options)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout
