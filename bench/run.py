#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the dispatch benchmark and PyTorch alternately and prints a Markdown table of the ratios, then the table of
bench_setups.

Both alternate within each round, so that noise of the machine affects both. A ratio is formed per round; the table has
the median with the smallest and largest. Lower is better in every row.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH_PYTHONS = ["/tmp/torchvenv/bin/python", "python3"]

# Description, key of bench_dispatch, and the comparison: a key of torch_dispatch.py, or a goal with its unit.
ROWS = [
    ("`aclnnAdd`, one element, both phases + synchronise / `torch.add(a, b, out=c)`", "add", "torch_add_out"),
    ("the same / `torch.add(a, b)`", "add", "torch_add"),
    ("the same / `a.add_(b)`", "add", "torch_add_"),
    ("— phase one alone", "phase_one", None),
    ("— phase two alone", "phase_two", None),
    ("— in a captured graph of 1000 of them, each", "replay", (40, "ns")),
    ("— a graph of one", "replay_one", None),
    ("enqueue of a small task", "enqueue", (100, "ns")),
    ("10 million small tasks through one stream, each", "sustained", (100, "ns")),
    ("launch + synchronise, stream awake", "launch", (500, "ns")),
    ("`aclrtMalloc` + `aclrtFree`, 4 KiB", "alloc_4k", None),
    ("`aclrtMalloc` + `aclrtFree`, 2 MiB", "alloc_2m", None),
    ("event: record, wait on another stream, synchronise that", "event", None),
    ("50 µs tasks + 50 µs of host work: time / one after the other", "overlap_serial", (1, "")),
    ("— time / perfect overlap", "overlap_ideal", (1, "")),
    ("wake-ups of library threads in 500 ms with 100 idle streams", "idle_wakeups", None),
    ("threads that 100 streams add", "idle_threads", None),
    ("system calls per launch + synchronise", "syscalls", None),
]
UNITS = {"overlap_serial": "", "overlap_ideal": "", "idle_wakeups": "", "idle_threads": "", "syscalls": ""}


def run_json(command, env):
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, universal_newlines=True)
    if done.returncode != 0:
        sys.exit("%s: exit status %d" % (" ".join(command), done.returncode))
    return json.loads(done.stdout.strip().splitlines()[-1])


def find_torch(python):
    """A Python interpreter that has PyTorch, or None."""
    for candidate in [python] if python else TORCH_PYTHONS:
        found = shutil.which(candidate)
        if found and subprocess.run([found, "-c", "import torch"], stderr=subprocess.DEVNULL,
                                    env=environment(1)).returncode == 0:
            return found
    return None


def environment(threads, prefix=None):
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), TORCH_DEVICE_BACKEND_AUTOLOAD="0", CUDA_VISIBLE_DEVICES="")
    if prefix:
        old = env.get("LD_LIBRARY_PATH")
        env["LD_LIBRARY_PATH"] = str(prefix / "lib64") + (":" + old if old else "")
    return env


def count_system_calls(program, env, launches):
    """The number of system calls of all threads of one run, by strace; None where strace is not permitted."""
    with tempfile.NamedTemporaryFile("r") as summary:
        command = ["strace", "-f", "-c", "-U", "calls", "-o", summary.name, program, "--launches", str(launches)]
        if subprocess.run(command, env=env, stderr=subprocess.DEVNULL).returncode != 0:
            return None
        rows = re.findall(r"^\s*(\d+)\s*(?:\S+)?$", summary.read(), re.MULTILINE)
    return int(rows[-1]) if rows else None


def system_calls_per_launch(program, env, launches=100000):
    """System calls per launch from the difference of two runs, in which start and end of the program cancel out."""
    if not shutil.which("strace"):
        print("no strace: system calls not counted", file=sys.stderr)
        return None
    few, many = (count_system_calls(program, env, n) for n in (1000, 1000 + launches))
    if few is None or many is None:
        print("strace not permitted: system calls not counted", file=sys.stderr)
        return None
    return max(0, many - few) / launches


def number(x):
    return "%.3g" % x if x < 100 else "%.0f" % x


def spread(values, unit):
    return "%s %s" % (number(statistics.median(values)), unit) if unit else number(statistics.median(values))


def table(rounds, title):
    lines = ["| %s | ours | peer or goal | ratio: median (min–max) |" % title, "|---|---|---|---|"]
    for what, key, against in ROWS:
        ours = [r[key] for r in rounds if r.get(key) is not None]
        if not ours:
            continue
        unit, peer, ratio = UNITS.get(key, "ns"), "", ""
        if isinstance(against, str):
            pairs = [(r[key], r[against]) for r in rounds if against in r]
            if not pairs:
                continue
            peer = spread([p for _, p in pairs], "ns")
            ratios = [o / p for o, p in pairs]
        elif against:
            peer = ("goal %s %s" % against).strip()
            ratios = [o / against[0] for o in ours]
        if against:
            ratio = "%.2f (%.2f–%.2f)" % (statistics.median(ratios), min(ratios), max(ratios))
        lines.append("| %s | %s | %s | %s |" % (what, spread(ours, unit), peer, ratio))
    return "\n".join(lines)


def setups_table(rounds, title):
    """The table of bench_setups; each figure is the median over the rounds."""
    lines = ["| %s | allocation | copy | execution | fragmentation |" % title, "|---|---|---|---|---|"]
    for setup in rounds[0]:
        figures = {key: statistics.median(r[setup][key] for r in rounds) for key in rounds[0][setup]}
        lines.append("| %s | %s µs | %s µs | %s ms | %.1f %% |" % (
            setup, number(figures["allocation_us"]), number(figures["copy_us"]), number(figures["execution_ms"]),
            100 * figures["fragmentation"]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build", help="build directory")
    parser.add_argument("--prefix", type=Path, help="installed prefix (default: BUILD/prefix)")
    parser.add_argument("--torch-python", help="a Python that has PyTorch (default: %s)" % " or ".join(TORCH_PYTHONS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="OMP_NUM_THREADS, a table each")
    parser.add_argument("--json", type=Path, help="also write all rounds to this file")
    args = parser.parse_args()

    prefix = (args.prefix or args.build / "prefix").resolve()
    program = str((args.build / "bench" / "bench_dispatch").resolve())
    setups = str((args.build / "bench" / "bench_setups").resolve())
    torch = find_torch(args.torch_python)
    if not torch:
        print("no Python with PyTorch: no peer. See bench/README.md", file=sys.stderr)

    results = {}
    for threads in args.threads:
        ours, peer = environment(threads, prefix), environment(threads)
        rounds = results[threads] = []
        for i in range(args.rounds):
            print("OMP_NUM_THREADS=%d, round %d of %d" % (threads, i + 1, args.rounds), file=sys.stderr)
            rounds.append(run_json([program, "--json"], ours))
            if torch:
                rounds[-1].update(run_json([torch, str(HERE / "torch_dispatch.py")], peer))
        feeding = [run_json([setups, "--json"], ours) for _ in range(args.rounds)]
        rounds[0]["syscalls"] = system_calls_per_launch(program, ours)
        print(table(rounds, "OMP_NUM_THREADS=%d" % threads) + "\n", flush=True)
        print(setups_table(feeding, "OMP_NUM_THREADS=%d" % threads) + "\n", flush=True)
        rounds[0]["setups"] = feeding
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
