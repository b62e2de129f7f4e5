# SPDX-License-Identifier: Apache-2.0
"""The commands that the wheel puts on PATH, and `python -m cannon`: each replaces itself by the installation's program
of that name."""
import os
import sys

from ._autoload import prefix


def _become(name, folder="bin"):
    program = os.path.join(prefix(), folder, name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {program}: {error.strerror}")


def main():
    if sys.argv[1:2] == ["test"]:  # in this Python, whatever is first on PATH
        os.execv(sys.executable, [sys.executable, "-B", "-m", "cannon.testing", *sys.argv[2:]])
    _become("cannon")


def npu_smi():
    _become("npu-smi")


def atc():
    _become("atc")


def msprof():
    _become("msprof", "tools/profiler/bin")


if __name__ == "__main__":
    main()
