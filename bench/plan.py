#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans the instances of bench/plans and prints a Markdown table with the times of minimalloc.

    python3 bench/plan.py [--build BUILD] [--minimalloc PATH] [--seconds S] [--seeds N]

Times are processor time on one core from reading the file to the plan: the median over the seeds, with the smallest and
the largest. minimalloc (github.com/google/minimalloc, its CMake build) is run if its program is given; otherwise its
column shows the times of an earlier run on a 2-core Xeon.
"""
import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLANS = HERE / "plans"
# Seconds. None: not solved within 37 s, or not tried.
MINIMALLOC = {"A": 5.04, "B": 3.62, "C": .68, "D": 3.06, "E": 3.45, "F": 5.34, "G": 1.18, "H": 1.75, "I": 4.00,
              "J": 1.21,
              "K": .55, "G_1": 1.55, "resnet50": .28, "tiny_bert": .58, "bert_base": None, "pangu_2.6B": None}


def timed(command):
    """Runs a command. Returns seconds of processor time and the maximum resident size in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1) or done.stderr.startswith("cannon plan"):
        sys.exit("%s: %s" % (" ".join(map(str, command)), done.stderr))
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def plan(cannon, path, *options):
    with tempfile.NamedTemporaryFile("r") as out:
        seconds, mib = timed([cannon, "plan", "--json", out.name, *options, path])
        return dict(json.load(out), cpu=seconds, mib=mib)


def capacity_of(path):
    parts = path.name.split(".")
    return int(parts[1]) if parts[1].isdigit() else None


def minimalloc_seconds(program, path, bound):
    name = path.name.split(".csv")[0].split(".1048576")[0]
    if not program:
        return MINIMALLOC[name]
    capacity = capacity_of(path) or bound
    with tempfile.NamedTemporaryFile("r") as out:
        command = [program, "--capacity=%d" % capacity, "--input=%s" % path, "--output=%s" % out.name, "--timeout=40s"]
        seconds, _ = timed(command)
        return seconds if out.read() else None


def instance_table(args):
    lines = ["| instance | buffers | goal | met | peak / bound | cannon plan, s | minimalloc, s |",
             "|---|---|---|---|---|---|---|"]
    total, totals = 0, 0
    for path in sorted((PLANS / "minimalloc").glob("*.csv")) + sorted((PLANS / "idealloc").glob("*.csv")):
        capacity = capacity_of(path)
        goal = ["--capacity", str(capacity)] if capacity else []
        runs = [plan(args.cannon, path, "--time", str(args.seconds), "--seed", str(s), *goal)
                for s in range(args.seeds)]
        met = sum(r["fits"] if capacity else r["optimal"] for r in runs)
        times = [r["cpu"] for r in runs]
        peer = minimalloc_seconds(args.minimalloc, path, runs[0]["bound_bytes"])
        if capacity:
            total, totals = total + statistics.median(times), totals + (peer or 0)
        lines.append("| %s | %d | %s | %d of %d | %.4f | %.3f (%.3f–%.3f) | %s |" % (
            path.name.split(".csv")[0].split(".1048576")[0], runs[0]["buffers"], "capacity" if capacity else "bound",
            met,
            args.seeds, max(r["peak_bytes"] / r["bound_bytes"] for r in runs), statistics.median(times), min(times),
            max(times), "–" if peer is None else "%.2f" % peer))
        print(lines[-1], file=sys.stderr, flush=True)
    lines.append("| A to K | | | | | %.2f | %.2f |" % (total, totals))
    return "\n".join(lines)


def lowest_table(args):
    """C, D and J planned below the capacity that they come with; the minimum of D and J is not known."""
    lines = ["| instance | capacity | bound | lowest peak | peak / capacity | s |", "|---|---|---|---|---|---|"]
    for name in "CDJ":
        r = plan(args.cannon, PLANS / "minimalloc" / (name + ".1048576.csv"), "--time", str(args.lowest))
        lines.append("| %s | 1048576 | %d | %d%s | %.4f | %.1f |" % (
            name, r["bound_bytes"], r["peak_bytes"], ", optimal" if r["optimal"] else "", r["peak_bytes"] / 1048576,
            r["cpu"]))
    return "\n".join(lines)


def write_random(path, n):
    """Writes buffers as of a long program: mostly short lifetimes, some of about a tenth of the program; sizes over
    five orders of magnitude."""
    chance = random.Random(1)
    with open(path, "w") as f:
        f.write("id,lower,upper,size\n")
        for i in range(n):
            life = 1 + int(chance.expovariate(1 / 300) if chance.random() < .99 else chance.expovariate(10 / n))
            f.write("%d,%d,%d,%d\n" % (i, i, i + life, chance.randint(1, 64) << chance.choice((9, 9, 9, 12, 16, 20))))


def size_table(args):
    lines = ["| buffers | limit, s | first plan, s | peak / bound | s | MiB |", "|---|---|---|---|---|---|"]
    for n, limit in ((20000, 1), (100000, 10), (1000000, 60)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "random.csv"
            write_random(path, n)
            first, r = plan(args.cannon, path, "--nodes", "1"), plan(args.cannon, path, "--time", str(limit))
            lines.append("| %d | %d | %.3f | %.4f | %.1f | %.0f |" % (
                n, limit, first["cpu"], r["peak_bytes"] / r["bound_bytes"], r["cpu"], r["mib"]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build")
    parser.add_argument("--minimalloc", type=Path, help="its program, to be run beside")
    parser.add_argument("--seconds", type=float, default=10, help="limit for each plan")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--lowest", type=float, default=60,
                        help="limit for D and J without capacity; 0: leave them out")
    parser.add_argument("--no-sizes", action="store_true", help="not 20,000 to a million random buffers")
    args = parser.parse_args()
    args.cannon = (args.build / "prefix/bin/cannon").resolve()
    print(instance_table(args), flush=True)
    if args.lowest:
        print("\n" + lowest_table(args), flush=True)
    if not args.no_sizes:
        print("\n" + size_table(args), flush=True)


if __name__ == "__main__":
    main()
