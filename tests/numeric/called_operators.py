#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where an operator of the schemas (ops/*.ops, ops/*.aclop) was called by no numeric test, or where the
outputs that cannon.aclnn infers for it were compared with no call (inference.py).

    called_operators.py FOLDER          FOLDER: what CANNON_CALLED was while the tests ran (see acl.py)
    called_operators.py --clear FOLDER  before they run

A call counts once it has succeeded and its result has been fetched; tests compare it right after that.
"""
import glob
import os
import re
import shutil
import sys

import inference

OPS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "ops")


def names(pattern):
    """The first word of each line of schema."""
    for path in glob.glob(os.path.join(OPS, pattern)):
        with open(path, encoding="utf-8") as f:
            yield from re.findall(r"^(\w+)(?:@\w+)?\(", f.read(), re.M)


def main():
    if sys.argv[1] == "--clear":
        shutil.rmtree(sys.argv[2], ignore_errors=True)
        return
    called = set()
    for path in glob.glob(os.path.join(sys.argv[1], "*.txt")):
        with open(path, encoding="utf-8") as f:
            called.update(f.read().splitlines())
    missing = sorted(n for n in names("*.ops") if not {"aclnn" + n, "acl" + n} & called)
    missing += sorted(f"{n} (by name)" for n in names("*.aclop") if f"aclop {n}" not in called)
    if missing:
        sys.exit(f"{len(missing)} operators were called by no numeric test:\n  " + "\n  ".join(missing))
    unseen = sorted(n for n in inference.inferring() if not {"inferred aclnn" + n, "inferred acl" + n} & called)
    if unseen:
        sys.exit(f"{len(unseen)} operators whose inferred outputs were not compared:\n  " + "\n  ".join(unseen))
    print(f"all {len(set(names('*.ops')))} operators, and {len(set(names('*.aclop')))} by name, were called")


if __name__ == "__main__":
    main()
