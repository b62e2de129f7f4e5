#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX models run by Cannon beside onnxruntime on the CPU: time, time to load, and memory.

    run.py [--prefix DIR] [--venv DIR] [--models DIR] [--threads N,N] [--rounds N] [--base DIR] [--json FILE]
           [--report FILE] [PATTERN...]

The models are those of models.tsv: wheels from PyPI, fetched into build/onnx_models (or found below --models), and the
light models of the package onnx with weights from a seed. All have fixed shapes. Each side is a process of its own
(worker.py), and the two take turns. A turn begins when the other side's threads sleep: those of onnxruntime spin for
some 40 ms after a run, in which they take a core from whoever runs next. Times are medians of the turns: of the
processor with one thread, which other programs of a busy machine disturb least, and of the clock with more. --venv has
the packages onnx and onnxruntime, and is made if it is not there. With --base, the peer is another build of Cannon.

The columns of memory: peak of resident memory above that before loading; the arena over the most that is live at once;
and the arena without reuse, with reuse, and with reuse and passes (as `cannon model show` tells). "Steps" are tasks of
an execution and nodes of the file. The error is the largest difference of an output, over the largest value of it."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TURN_S = 0.05
REST_S = 0.02  # between two looks whether a process still spins


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--prefix", type=pathlib.Path, default=ROOT / "build/prefix")
    p.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/onnx_bench")
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2])
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--base", type=pathlib.Path)
    p.add_argument("--json", type=pathlib.Path)
    p.add_argument("--report", type=pathlib.Path)
    p.add_argument("patterns", nargs="*")
    return p.parse_args()


def enter_venv(venv):
    """Goes on with the Python of the virtual environment, which is made if it is not there."""
    python = venv / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "onnx", "onnxruntime", "numpy"], check=True)
    if pathlib.Path(sys.prefix).resolve() != venv.resolve():
        os.execv(python, [str(python), *sys.argv])


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        text = f.read()
    fields = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in text.splitlines() if ":" in line}
    flags = fields.get("flags", "").split()
    known = [words for flag, words in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("amx_tile", "AMX")) if flag in flags]
    return (f"{fields.get('model name', '?')} (family {fields.get('cpu family')}, model {fields.get('model')}; "
            f"{', '.join(known)}), {os.cpu_count()} processors")


class Worker:
    def __init__(self, which, prefix, threads, model, inputs, outputs):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), LD_LIBRARY_PATH=f"{prefix}/lib64",
                   PYTHONPATH=f"{prefix}/python/site-packages", ASCEND_HOME_PATH=str(prefix))
        self.outputs = outputs
        self.process = subprocess.Popen(
            [sys.executable, HERE / "worker.py", which, str(threads), model, inputs, outputs], env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.told = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((self.process.stderr.read().strip().splitlines() or ["it ended"])[-1][:300])
        self.rest()
        return json.loads(line)

    def rest(self):
        """Waits until the process uses next to no processor time, for a second at most."""
        clock = ~self.process.pid << 3 | 2  # as clock_getcpuclockid() makes it
        before = time.clock_gettime_ns(clock)
        for _ in range(int(1 / REST_S)):
            time.sleep(REST_S)
            now = time.clock_gettime_ns(clock)
            if now - before < REST_S * 1e9 * 0.05:
                return
            before = now

    def turn(self):
        print(TURN_S, file=self.process.stdin, flush=True)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def error_of(ours, peer):
    """Largest difference relative to the largest value, over all outputs."""
    import numpy as np
    worst, a, b = 0.0, np.load(ours), np.load(peer)
    for name in b.files:
        x, y = a[name].astype("f8"), b[name].astype("f8")
        if x.shape != y.shape:
            return math.inf
        if y.size:
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            worst = max(worst, float(np.max(np.where(same, 0, np.abs(x - y))) / max(1e-30, np.nanmax(np.abs(y)))))
    return worst


def make_om(prefix, path):
    om = path.with_suffix("")
    done = subprocess.run([prefix / "bin/atc", f"--model={path}", "--framework=5", f"--output={om}",
                           "--soc_version=Ascend910B3"], capture_output=True, text=True, cwd=path.parent, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout.strip().splitlines()[-1][:300])
    return om.with_name(om.name + ".om")


def describe(prefix, path):
    out = path.with_suffix(".json")
    subprocess.run([prefix / "bin/cannon", "model", "show", path, "--json", out, "--force"], capture_output=True,
                   check=False)
    return json.loads(out.read_text()) if out.exists() else None


def measure(row, o, folder):
    import models
    import numpy as np
    path, found, arrays, nodes = models.prepare(row, folder, o.models)
    name = path.stem
    inputs = path.with_suffix(".npz")
    np.savez(inputs, **arrays)
    result = {"model": row["file"], "package": row["package"], "nodes": nodes}
    om = make_om(o.prefix, path)
    told = describe(o.prefix, om)
    if told:
        result.update(told["memory"], steps=len(told["after"]["nodes"]), steps_before=len(told["before"]["nodes"]))
    outputs = [folder / f"{name}_{i}.npz" for i in (0, 1)]
    for threads in o.threads:
        workers = []
        try:
            workers.append(Worker("ours", o.prefix, threads, om, inputs, outputs[0]))
            if o.base:
                workers.append(Worker("ours", o.base, threads, om, inputs, outputs[1]))
            else:
                try:
                    workers.append(Worker("peer", o.prefix, threads, path, inputs, outputs[1]))
                except RuntimeError:  # branches for other shapes, which onnxruntime checks, too
                    workers.append(Worker("peer", o.prefix, threads, found, inputs, outputs[1]))
            clock = "cpu" if threads == 1 else "wall"
            times = ([], [])
            for _ in range(o.rounds):
                for worker, list_ in zip(workers, times):
                    list_.append(worker.turn()[clock])
            ours, peer = map(statistics.median, times)
            result[f"time_{threads}"], result[f"peer_{threads}"] = ours, peer
            if threads == o.threads[0]:
                for key in ("load", "load_cpu", "peak"):
                    result[key], result["peer_" + key] = (w.told[key] for w in workers)
                result["error"] = error_of(*(w.outputs for w in workers))
        finally:
            for worker in workers:
                worker.end()
    return result


def mib(n):
    return f"{n / 2**20:.1f}"


def table(results, o, failures):
    peer = "base" if o.base else "onnxruntime"
    head = ["model", "steps / nodes", *(f"{t} thread{'s'[:t > 1]}: ms" + (f" ({peer})") for t in o.threads),
            *(f"ratio {t}" for t in o.threads), f"load ms ({peer})", f"peak MiB ({peer})", "weights", "arena",
            "arena / live", "no reuse → reuse → passes, MiB", "error"]
    yield "| " + " | ".join(head) + " |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for r in results:
        known = "no_reuse" in r
        cells = [r["model"], f"{r.get('steps', '?')} / {r['nodes']}",
                 *(f"{1e3 * r[f'time_{t}']:.2f} ({1e3 * r[f'peer_{t}']:.2f})" for t in o.threads),
                 *(f"{r[f'time_{t}'] / r[f'peer_{t}']:.2f}" for t in o.threads),
                 f"{1e3 * r['load']:.0f} ({1e3 * r['peer_load']:.0f})", f"{mib(r['peak'])} ({mib(r['peer_peak'])})",
                 mib(r["weights"]) if known else "", mib(r["reuse_and_passes"]) if known else "",
                 f"{r['reuse_and_passes'] / max(1, r['live_peak']):.3f}" if known else "",
                 f"{mib(r['no_reuse'])} → {mib(r['reuse'])} → {mib(r['reuse_and_passes'])}" if known else "",
                 f"{r['error']:.1e}"]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield from summary(results, o)
    if failures:
        yield "\n| not run | why |\n|---|---|"
    for name, words in failures:
        yield f"| {name} | {words} |"


def summary(results, o):
    if not results:
        return
    for t in o.threads:
        ratios = [r[f"time_{t}"] / r[f"peer_{t}"] for r in results]
        worst = max(results, key=lambda r: r[f"time_{t}"] / r[f"peer_{t}"])
        yield (f"- {t} thread{'s'[:t > 1]}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, "
               f"{sum(x <= 1.05 for x in ratios)} of {len(ratios)} at most 1.05, worst {max(ratios):.2f} "
               f"({worst['model']})")
    known = [r for r in results if r.get("no_reuse")]

    def median(what, f, of):
        return f"- {what}: median {statistics.median(map(f, of)):.2f}" if of else f"- {what}: nothing"
    yield median("load time over the peer's", lambda r: r["load"] / r["peer_load"], results)
    yield median("peak memory over the peer's", lambda r: r["peak"] / max(1, r["peer_peak"]), results)
    yield median("peak memory less weights and arena, MiB",
                 lambda r: (r["peak"] - r["weights"] - r["reuse_and_passes"]) / 2**20, known)
    yield median("arena over that without passes", lambda r: r["reuse_and_passes"] / max(1, r["reuse"]), known)
    yield median("arena over that without reuse", lambda r: r["reuse_and_passes"] / max(1, r["no_reuse"]), known)
    yield median("steps over nodes", lambda r: r["steps"] / r["nodes"], known)


def main():
    o = arguments()
    enter_venv(o.venv)
    sys.path.insert(0, str(HERE))
    import models
    folder = ROOT / "build/onnx_models"
    folder.mkdir(parents=True, exist_ok=True)
    results, failures = [], []
    for row in models.rows():
        name = f"{row['package']}/{row['file']}"
        if o.patterns and not any(p in name for p in o.patterns):
            continue
        try:
            results.append(measure(row, o, folder))
            r = results[-1]
            print(name, *(f"{r[f'time_{t}'] / r[f'peer_{t}']:.2f}" for t in o.threads), file=sys.stderr, flush=True)
        except (RuntimeError, OSError, StopIteration, subprocess.CalledProcessError) as e:
            failures.append((name, str(e) or type(e).__name__))
            print(name, e, file=sys.stderr, flush=True)
    text = f"{processor()}; medians of {o.rounds} turns\n\n" + "\n".join(table(results, o, failures)) + "\n"
    print(text)
    if o.json:
        o.json.write_text(json.dumps({"processor": processor(), "results": results, "failures": failures}, indent=1))
    if o.report:
        o.report.write_text(f"# Models beside onnxruntime\n\nMade by `bench/graph/run.py --report`. {text}")


main()
