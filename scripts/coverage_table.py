#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which lines of src the tests reached: a table by folder, then the files under 50 % with their functions that
nothing called. Fails if a folder of src has less than tests/support/coverage.tsv says.

    coverage_table.py BUILD [--functions]   BUILD: a build folder configured with CANNON_COVERAGE=ON, after its tests
                                            ran; --functions: all uncalled functions, not only those of such files

Needs gcov of the compiler that built BUILD. A line or function in several objects (kernels that are compiled once per
level of instruction set, inline functions of headers) counts as reached where one of them reached it.
"""
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SRC = os.path.join(ROOT, "src") + os.sep
FEW = 0.5
CHUNK = 16          # objects to a process of gcov


def notes_of(build):
    """The notes files of all objects but the benchmarks: some tests compile sources of src themselves."""
    for folder, folders, files in os.walk(build):
        if folder == build:
            folders[:] = [f for f in folders if f not in ("bench", "prefix")]
        yield from (os.path.join(folder, f) for f in files if f.endswith(".gcno"))


def gcov(notes):
    """What gcov says of some objects: a JSON document each."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", *notes], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def collect(documents):
    """{file: ({line: count}, {(first line, function): count})} of the files in src."""
    files = collections.defaultdict(lambda: ({}, {}))
    for document in documents:
        for entry in document["files"]:
            path = os.path.normpath(os.path.join(document["current_working_directory"], entry["file"]))
            if not path.startswith(SRC):
                continue
            lines, functions = files[path[len(SRC):]]
            for line in entry["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
            for function in entry["functions"]:
                # clones that the compiler made (f.part.0) count as f
                key = function["start_line"], re.sub(r"\..*", "", function["name"])
                functions[key] = functions.get(key, 0) + function["execution_count"]
    return files


def share(lines):
    return sum(1 for count in lines.values() if count) / len(lines) if lines else 1.0


def print_folders(files):
    folders = collections.Counter(), collections.Counter()
    for path, (lines, _) in files.items():
        for folder in {os.path.dirname(path), "all"}:
            folders[0][folder] += len(lines)
            folders[1][folder] += sum(1 for count in lines.values() if count)
    print(f"{'folder of src':24}{'lines':>8}{'covered':>9}{'%':>7}")
    for folder in sorted(folders[0], key=lambda f: (f == "all", f)):
        n, covered = folders[0][folder], folders[1][folder]
        print(f"{folder:24}{n:8}{covered:9}{100 * covered / max(n, 1):7.1f}")


def folders_below(files):
    """What is wrong with the folders that have less than they should: lines of coverage.tsv are a folder of src and the
    least share of its lines, folders in it included, in percent."""
    with open(os.path.join(ROOT, "tests", "support", "coverage.tsv"), encoding="utf-8") as f:
        least = dict(line.split("\t") for line in f.read().splitlines() if line and line[0] != "#")
    counts = collections.defaultdict(dict)
    for path, (lines, _) in files.items():
        counts[path.split("/")[0]].update(((path, number), count) for number, count in lines.items())
    for folder in sorted(set(counts) | set(least)):
        if folder not in least or folder not in counts:
            yield f"src/{folder} is not in both, the build and tests/support/coverage.tsv"
        elif 100 * share(counts[folder]) < float(least[folder]):
            yield (f"src/{folder}: the tests reach {100 * share(counts[folder]):.1f} % of the lines, expected "
                   f"{least[folder]} % at least (tests/support/coverage.tsv); test what is new")


def print_uncovered(files, every):
    for path, (lines, functions) in sorted(files.items()):
        unused = [name for (_, name), count in sorted(functions.items()) if not count]
        if share(lines) < FEW or every and unused:
            print(f"src/{path}: {100 * share(lines):.1f} % of {len(lines)} lines; "
                  f"never called: {', '.join(unused) or 'none'}")


def main():
    build = os.path.abspath(sys.argv[1])
    notes = sorted(notes_of(build))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        chunks = [notes[i:i + CHUNK] for i in range(0, len(notes), CHUNK)]
        files = collect(document for found in pool.map(gcov, chunks) for document in found)
    if not any(count for lines, _ in files.values() for count in lines.values()):
        sys.exit(f"{build}: no test has run there, or it was not configured with CANNON_COVERAGE=ON")
    print_folders(files)
    every = "--functions" in sys.argv
    print(f"\nfiles under {100 * FEW:.0f} %:" if not every else "\nfiles with functions that nothing called:")
    print_uncovered(files, every)
    below = list(folders_below(files))
    sys.exit("\n".join(below) or None)


if __name__ == "__main__":
    main()
