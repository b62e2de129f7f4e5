# SPDX-License-Identifier: Apache-2.0
"""The section of a processor in docs/reports/speed.md: a table by family, and one of all rows."""
import datetime
import itertools
import math
import os
import re

SLOWER = 1.15  # of PyTorch's time; rows above are counted, and the worst are named
WORST = 3
FAMILIES = {(25, range(0x10, 0x20)): "EPYC of the Zen 4 class", (25, range(0x00, 0x10)): "EPYC of the Zen 3 class"}


def cpuinfo():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return dict(re.findall(r"^([\w ]+?)\s*: (.*)$", f.read().split("\n\n")[0], re.M))


def processor():
    info = cpuinfo()
    family, model = int(info.get("cpu family", 0)), int(info.get("model", 0))
    for (f, models), name in FAMILIES.items():
        if info.get("vendor_id") == "AuthenticAMD" and family == f and model in models:
            return name
    return f"{info.get('model name', 'unknown')} (family {family}, model {model})"


def highest_level():
    flags = cpuinfo().get("flags", "").split()
    for level, flag in (("AMX", "amx_bf16"), ("AVX-512 with dot products", "avx512_bf16"), ("AVX-512", "avx512f"),
                        ("AVX2", "avx2")):
        if flag in flags:
            return level
    return "portable"


def title(name, level, threads):
    level = {"v3": "AVX2", None: highest_level()}[level]
    return f"{name or processor()}, {level}, {threads} thread{'s' if threads > 1 else ''}"


def mean(rows):
    return math.exp(sum(math.log(r.ratio) for r in rows) / len(rows))


def by_family(rows):
    yield "| family | rows | geometric mean | above 1.15 | worst rows |\n|---|---|---|---|---|\n"
    for family, group in itertools.groupby(sorted(rows, key=lambda r: r.family), key=lambda r: r.family):
        group = list(group)
        slow = [r for r in group if r.ratio > SLOWER]
        worst = sorted(slow or group, key=lambda r: -r.ratio)[:WORST if slow else 1]
        text = "; ".join(f"{r.layer or '–'}, {r.what}: {r.ratio:.2f}" for r in worst)
        yield f"| {family} | {len(group)} | {mean(group):.2f} | {len(slow) or ''} | {text} |\n"


def all_rows(rows):
    yield "| operator | model and layer | case | ours, µs | PyTorch, µs | ratio | rate |\n"
    yield "|---|---|---|---|---|---|---|\n"
    for r in rows:
        yield f"| {r.family} | {r.layer} | {r.what} | {r.ours:.1f} | {r.peer:.1f} | {r.ratio:.2f} | {r.rate} |\n"


def section(rows, heading):
    rows = [r for r in rows if r.ratio == r.ratio]
    slow = sum(r.ratio > SLOWER for r in rows)
    yield f"## {heading}\n\nMeasured on {datetime.date.today()} by `bench/ops/run.py`: {len(rows)} rows, "
    yield f"geometric mean {mean(rows):.2f}, {slow} above {SLOWER}.\n\n"
    yield from by_family(rows)
    yield "\nAll rows:\n\n"
    yield from all_rows(rows)


def write(path, rows, heading):
    """Replaces the section of this heading, or appends it."""
    text = "".join(section(rows, heading))
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = f.read()
    parts = re.split(r"^(?=## )", old, flags=re.M)
    found = [i for i, p in enumerate(parts) if p.startswith(f"## {heading}\n")]
    if found:
        parts[found[0]] = text + ("\n" if found[0] + 1 < len(parts) else "")
    else:
        parts.append(("\n" if old and not old.endswith("\n\n") else "") + text)
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(parts))
