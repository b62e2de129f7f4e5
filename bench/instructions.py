#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per element (of GEMM: per multiply-add) at each instruction set level, by valgrind's callgrind.

  bench/instructions.py [--build FOLDER] [NAME...]

A name's program runs twice, with more rounds the second time, so that what it does besides does not count. The portable
level is compiled for vectors of 128 bits (SSE2 on x86-64, NEON on aarch64)."""
import argparse
import os
import re
import subprocess
import tempfile

NAMES = ["Add", "Add.bfloat16", "Exp", "Gelu", "Softmax", "ReduceSum", "LayerNorm", "Mm", "Mm.bfloat16"]
LEVELS = ["portable", "v3"]
FEW, MANY = 2, 22


def count(program, name, level, rounds):
    """Instructions of the program, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, CANNON_ISA=level, OMP_NUM_THREADS="1")
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, name,
                               str(rounds)], capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"{program} {name} {rounds} at {level} ended with {done.returncode}:\n{done.stderr}")
        return int(re.search(r"Collected : (\d+)", done.stderr).group(1)), float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    program = os.path.abspath(os.path.join(arguments.build, "bench", "bench_instructions"))
    print("| instructions per element | " + " | ".join(LEVELS) + " | ratio |\n|---|" + "---|" * (len(LEVELS) + 1))
    for name in arguments.names:
        found = []
        for level in LEVELS:
            few, elements = count(program, name, level, FEW)
            many, _ = count(program, name, level, MANY)
            found.append((many - few) / (MANY - FEW) / elements)
        print(f"| {name} | " + " | ".join(f"{n:.2f}" for n in found) + f" | {found[0] / found[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
