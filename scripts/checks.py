#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of `make check`: notes how long each took, and prints what is worth knowing about a run of tests.

    checks.py part  FILE NAME COMMAND...            runs COMMAND and appends its times to FILE as the part NAME
    checks.py tests FILE NAME BUILD [OPTION...]     likewise for ctest in the folder BUILD, as many tests at once as
                                                    there are cores; prints the ten slowest tests before the summary
    checks.py last  FILE NAME BUILD [OPTION...]     likewise; also prints the table of all parts, before ctest's summary

OPTIONs are ctest's. The exit status is the command's. FILE may be - where nobody asks for the times.
"""
import os
import re
import resource
import subprocess
import sys
import time

SUMMARY = re.compile(r"\d+% tests passed|No tests were found")
RESULT = re.compile(r"\s*\d+/\d+ Test +#\d+: (\S+) \.+.*?([\d.]+) sec")
SLOWEST = 10
CPU_LIMIT = 5000  # seconds of processor time of `make check` above which it says so; CI has 90 minutes on two cores


def shown(times):
    """Wall time in minutes, processor time in seconds."""
    wall, used = times
    return f"{wall / 60:6.1f} {used:8.0f} "


def print_slowest(tests):
    if tests:
        print(f"\nthe {min(SLOWEST, len(tests))} slowest of {len(tests)} tests, seconds:")
        for seconds, name in sorted(tests, reverse=True)[:SLOWEST]:
            print(f"{seconds:8.1f}  {name}")


def print_parts(path):
    if path == "-":
        return
    print("\nby part, minutes by the clock and seconds of processor time:\n clock     used")
    total = [0.0, 0.0]
    with open(path, encoding="utf-8") as f:
        for line in f:
            name, *times = line.rstrip("\n").split("\t")
            times = [float(t) for t in times]
            total = [a + b for a, b in zip(total, times)]
            print(shown(times), name)
    print(shown(total), "all")
    if total[1] > CPU_LIMIT:
        print(f"warning: {total[1]:.0f} s of processor time, expected at most {CPU_LIMIT}: make tests smaller")


def run_tests(build, options):
    """Runs ctest. Returns its status, (seconds, name) of each test, and its summary, which it has not printed yet."""
    cores = len(os.sched_getaffinity(0))
    command = ["ctest", "--test-dir", build, "-j", str(cores), "--output-on-failure", "--no-tests=error", *options]
    tests, summary = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        for line in process.stdout:
            if summary or SUMMARY.match(line):
                summary.append(line)
                continue
            print(line, end="", flush=True)
            found = RESULT.match(line)
            if found:
                tests.append((float(found[2]), found[1]))
    return process.returncode, tests, summary


def main():
    kind, path, name, *rest = sys.argv[1:]
    started, summary, tests = time.time(), [], []
    if kind == "part":
        status = subprocess.run(rest).returncode
    else:
        status, tests, summary = run_tests(rest[0], rest[1:])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if path != "-":
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"{name}\t{time.time() - started:.1f}\t{used.ru_utime + used.ru_stime:.1f}\n")
    print_slowest(tests)
    if kind == "last":
        print_parts(path)
    if summary:
        print()
    print("".join(summary), end="", flush=True)
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
