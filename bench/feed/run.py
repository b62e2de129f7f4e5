#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Feeds of data: how near a step comes to the longer of computing and decoding, and a large file to the disk's rate.

usage: run.py [--build DIR] [--rounds N] [--folder DIR] [--limit MIB] [--realtime]

  --folder DIR     where the file is made: on the disk that is measured (default: the build folder)
  --limit MIB      memory limit, by a control group; the file is four times as large (default: 512)
  --realtime       all runs with real-time priority (chrt -r), for a machine that others use"""
import argparse
import os
import re
import statistics
import subprocess
import sys

STEP_MS, DECODE_MS, BATCHES = 20, 15, 60


def run(command, build, group=None):
    """The figures that the program prints, by name."""
    environment = {**os.environ, "LD_LIBRARY_PATH": os.path.join(build, "lib64")}

    def enter():
        if group:
            for name in ("cgroup.procs", "tasks"):
                if os.path.exists(os.path.join(group, name)):
                    with open(os.path.join(group, name), "w") as f:
                        f.write(str(os.getpid()))
                    break

    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=enter)
    words = done.stdout.split()
    return dict(zip(words[::2], map(float, words[1::2])))


def make_group(limit_bytes):
    """A control group with the memory limit, or None with the reason."""
    with open("/proc/self/cgroup") as f:
        lines = f.read().split("\n")
    for line in lines:
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers == "memory":
            folder, setting = f"/sys/fs/cgroup/memory{path}/feed_{os.getpid()}", "memory.limit_in_bytes"
        elif number == "0":
            folder, setting = f"/sys/fs/cgroup{path}/feed_{os.getpid()}", "memory.max"
        else:
            continue
        try:
            os.mkdir(folder)
            with open(os.path.join(folder, setting), "w") as f:
                f.write(str(limit_bytes))
            return folder
        except OSError as error:
            reason = error
            if os.path.isdir(folder):
                os.rmdir(folder)
    print(f"no control group can be made ({reason}): the file is read without a limit", file=sys.stderr)
    return None


def make_file(path, bytes):
    block = os.urandom(1 << 20)
    with open(path, "wb") as f:
        for i in range(bytes >> 20):
            f.write(i.to_bytes(8, "little") + block[8:])
        f.flush()
        os.fsync(f.fileno())


def load():
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"


def steps(program, build, rounds, realtime):
    prefix = ["chrt", "-r", "10"] if realtime else []
    goal = max(STEP_MS, DECODE_MS)
    print(f"\na step of {STEP_MS} ms, {DECODE_MS} ms of decoding for each batch ({load()})")
    for workers in (1, 2):
        got = [run([*prefix, program, "step", str(STEP_MS), str(DECODE_MS), str(workers), str(BATCHES)],
                   build)["ms_per_batch"] for _ in range(rounds)]
        ms = statistics.median(got)
        print(f"  {workers} worker{'s' * (workers > 1)}: {ms:6.2f} ms a batch, the longer of the two {goal} ms, "
              f"ratio {ms / goal:.3f}   ({min(got):.2f} to {max(got):.2f})")


def reads(program, build, rounds, folder, limit, realtime):
    program = ["chrt", "-r", "10", program] if realtime else [program]
    path = os.path.join(folder, f"feed_{os.getpid()}.bin")
    group = make_group(limit << 20)
    try:
        make_file(path, 4 * limit << 20)
        figures = {"read": [], "in order": [], "shuffled": []}
        resident = 0
        for _ in range(rounds):
            figures["read"].append(run([*program, "read", path], build, group)["mib_per_s"])
            for shuffle, name in enumerate(("in order", "shuffled")):
                got = run([*program, "feed", path, "8", "2", str(shuffle)], build, group)
                figures[name].append(got["mib_per_s"])
                resident = max(resident, got["resident_mib"])
        disk = statistics.median(figures["read"])
        print(f"\na file of {4 * limit} MiB in records of 1 MiB, "
              f"{f'memory limited to {limit} MiB' if group else 'memory not limited'} ({load()})")
        for name, rates in figures.items():
            rate = statistics.median(rates)
            print(f"  {name:9} {rate:8.0f} MiB/s, ratio {rate / disk:.3f}   ({min(rates):.0f} to {max(rates):.0f})")
        print(f"  the feed's process held up to {resident:.0f} MiB more than before")
    finally:
        if os.path.exists(path):
            os.unlink(path)
        if group:
            os.rmdir(group)


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(root, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder")
    parser.add_argument("--limit", type=int, default=512)
    parser.add_argument("--realtime", action="store_true")
    a = parser.parse_args()
    program = os.path.join(a.build, "bench", "bench_feed")
    with open("/proc/cpuinfo") as f:
        print(re.search(r"model name\s*: (.*)", f.read())[1])
    steps(program, a.build, a.rounds, a.realtime)
    reads(program, a.build, a.rounds, a.folder or a.build, a.limit, a.realtime)


if __name__ == "__main__":
    main()
