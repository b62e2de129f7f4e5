#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of the allocator and of mimalloc and others, and prints Markdown tables.

Pairs of allocation and free alternate with the peer within one process. Each trace is replayed in a fresh process; the
allocators alternate within a round. Figures are medians, with the smallest and largest of the rounds. Lower is better.
"""
import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from run import HERE, environment, number, run_json

REPLAYED = ["pool", "aclrt", "tlsf", "pytorch", "mimalloc", "glibc"]
COUNTED = ["pool"]  # allocators that measure the time of their system calls
HAS_NO = 3  # exit status: the allocator is not available
UNITS = ["B", "KiB", "MiB", "GiB"]


def size(n):
    unit = 0
    while n >= 1024 and unit < len(UNITS) - 1:
        n, unit = n / 1024, unit + 1
    return "%s %s" % (number(n), UNITS[unit])


def pairs_table(rounds):
    lines = ["| `aclrtMalloc` + `aclrtFree`, ns a pair | ours | mimalloc | ratio: median (min–max) |",
             "|---|---|---|---|"]
    for rows in zip(*rounds):
        what = size(rows[0]["bytes"])
        if rows[0]["threads"] > 1:
            what += ", %d threads%s" % (rows[0]["threads"], ", freed by another" if rows[0]["crossing"] else "")
        ours = [r["aclrt"] for r in rows if "aclrt" in r]
        both = [r for r in rows if "aclrt" in r and "mimalloc" in r]
        ratios = [r["aclrt"] / r["mimalloc"] for r in both]
        lines.append("| %s | %s | %s | %s |" % (
            what, number(statistics.median(ours)) if ours else "refused",
            number(statistics.median(r["mimalloc"] for r in both)) if both else "",
            "%.2f (%.2f–%.2f)" % (statistics.median(ratios), min(ratios), max(ratios)) if both else ""))
    return "\n".join(lines)


def memory_calls(command, env):
    """The number of system calls on mappings of one run, or None if strace failed."""
    with tempfile.NamedTemporaryFile("r") as summary:
        trace = ["strace", "-f", "-c", "-U", "calls", "-e", "trace=%memory", "-o", summary.name]
        if subprocess.run(trace + command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            return None
        rows = re.findall(r"^\s*(\d+)\s*(?:\S+)?$", summary.read(), re.MULTILINE)
    return int(rows[-1]) if rows else None


def replay(program, trace, name, rounds, env):
    """Figures of one allocator on one trace; None where it is not available. CANN's interface does not report
    committed memory."""
    figures = {}
    if name != "aclrt":
        done = subprocess.run([program, "space", str(trace), name], env=env, stdout=subprocess.PIPE,
                              universal_newlines=True)
        if done.returncode == HAS_NO:
            return None
        if done.returncode:
            sys.exit("%s: exit status %d" % (name, done.returncode))
        figures = json.loads(done.stdout)
    times = [run_json([program, "time", str(trace), name], env) for _ in range(rounds)]
    return dict(figures, cold=[t["cold_ns"] for t in times], warm=[t["warm_ns"] for t in times],
                apart=[t["warm_ns"] - t["warm_call_ns"] for t in times] if name in COUNTED else None)


def count_calls(program, trace, found, env):
    """Counts system calls of allocators that do not count them: those of two replays, less those of tlsf, which makes
    none."""
    if not shutil.which("strace"):
        print("no strace: system calls of peers not counted", file=sys.stderr)
        return
    base = memory_calls([program, "time", str(trace), "tlsf"], env)
    for name in ("mimalloc", "glibc"):
        if found.get(name) and base is not None:
            calls = memory_calls([program, "time", str(trace), name], env)
            if calls is not None:
                found[name]["calls"] = max(0, calls - base) // 2


def replay_table(trace, found):
    header = "| %s | ns per event | once more | of it not in mapping calls | committed | over live | calls |"
    lines = [header % trace.name, "|---|---|---|---|---|---|---|"]
    for name, r in found.items():
        if r:
            known = "committed_bytes" in r
            lines.append("| %s | %s (%s–%s) | %s | %s | %s | %s | %s |" % (
                name, number(statistics.median(r["cold"])), number(min(r["cold"])), number(max(r["cold"])),
                number(statistics.median(r["warm"])),
                number(statistics.median(r["apart"])) if r["apart"] else "–",
                size(r["committed_bytes"]) if known else "–",
                "%.3f" % (r["committed_bytes"] / r["live_bytes"]) if known else "–", r.get("calls", "–")))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build", help="build directory")
    parser.add_argument("--prefix", type=Path, help="installed prefix (default: BUILD/prefix)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--traces", type=Path, nargs="*", default=sorted((HERE / "traces").glob("*.gz")))
    parser.add_argument("--no-pairs", action="store_true", help="traces only")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    args = parser.parse_args()

    env = environment(1, (args.prefix or args.build / "prefix").resolve())
    pairs, replayer = (str((args.build / "bench" / ("bench_alloc_" + name)).resolve())
                       for name in ("pairs", "replay_trace"))
    results = {"pairs": [], "traces": {}}
    if not args.no_pairs:
        results["pairs"] = [run_json([pairs], env) for _ in range(args.rounds)]
        print(pairs_table(results["pairs"]) + "\n", flush=True)
    for trace in args.traces:
        found = results["traces"][trace.name] = {
            name: replay(replayer, trace, name, args.rounds, env) for name in REPLAYED}
        count_calls(replayer, trace, found, env)
        print(replay_table(trace, found) + "\n", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
