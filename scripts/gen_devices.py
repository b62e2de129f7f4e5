#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C table of device profiles.

    gen_devices.py DEVICES_FOLDER PROFILE_H OUT_C

Reads DEVICES_FOLDER/*.json (format: README.md there). A profile must have the fields of `device_profile` in PROFILE_H,
which are listed nowhere else. If there are faults, prints all of them, writes nothing and exits with 1.
"""
import json
import pathlib
import re
import sys

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Fields that may be 0: a device may lack HBM or DDR, bfloat16 or managed memory, and may add nothing to allocations.
MAY_BE_ZERO = re.compile(r"(hbm|ddr)_|supports_|alloc_extra_")
# Profiles give the bandwidth of these tiers per core and cycle, as CANN's platform files do; totals are computed here.
RATE, BANDWIDTH = "_bytes_per_core_cycle", "_bandwidth_bytes_per_s"
TIERS_WITH_RATE = {"l2": "cube_cores", "l1": "cube_cores", "l0": "cube_cores", "ub": "vector_cores"}


def number(value):
    """An integer >= 0, from an integer or a text such as "192 KiB"; None for anything else."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+) (KiB|MiB|GiB)", value)
        return int(match[1]) * UNITS[match[2]] if match else None
    return value if type(value) is int and value >= 0 else None


def inherited(name, files, faults, seen=()):
    """The entries of profile `name`, including those inherited from its bases."""
    if name not in files or name in seen:
        fault = "is its own base" if name in seen else "does not exist"
        faults.append(f"{(seen or [name])[-1]}: base {name!r} {fault}")
        return {}
    profile = files[name]
    base = inherited(profile["base"], files, faults, seen + (name,)) if "base" in profile else {}
    return {**base, **profile["values"]}


def check_file(name, profile, keys, faults):
    for key in set(profile) - {"soc_name", "base", "values"}:
        faults.append(f"{name}: unknown member {key!r}")
    for key, entry in profile["values"].items():
        if key not in keys:
            faults.append(f"{name}: {key} is not a field of device_profile")
        elif number(entry.get("value")) is None:
            faults.append(f"{name}: {key} is {entry.get('value')!r}, expected an integer or \"<n> KiB|MiB|GiB\"")
        elif number(entry["value"]) == 0 and not MAY_BE_ZERO.match(key):
            faults.append(f"{name}: {key} is 0, expected more")
        if not str(entry.get("source", "")).strip():
            faults.append(f"{name}: {key} has no source")


def resolve(name, files, fields, faults):
    """The numbers of one profile, in the order of the fields."""
    values = {key: number(entry["value"]) for key, entry in inherited(name, files, faults).items()}
    for tier, cores in TIERS_WITH_RATE.items():
        factors = [values.get(tier + RATE), values.get(cores), values.get("core_hz")]
        if None not in factors:
            values[tier + BANDWIDTH] = factors[0] * factors[1] * factors[2]
    for field in fields:
        if field not in values:
            faults.append(f"{name}: {field} is missing")
    if not values.get("hbm_bytes") and not values.get("ddr_bytes"):
        faults.append(f"{name}: neither hbm_bytes nor ddr_bytes is above 0")
    return [(field, values.get(field, 0)) for field in fields]


def main():
    folder, header, out = (pathlib.Path(arg) for arg in sys.argv[1:4])
    text = header.read_text()
    fields = re.findall(r"^  uint64_t (\w+);", text, re.M)
    default = re.search(r'PROFILE_DEFAULT_SOC "(\w+)"', text)[1]
    derived = {tier + BANDWIDTH for tier in TIERS_WITH_RATE}
    keys = set(fields) - derived | {tier + RATE for tier in TIERS_WITH_RATE}

    faults = []
    files = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    for name, profile in files.items():
        check_file(name, profile, keys, faults)
        if profile.get("soc_name", name) != name:
            faults.append(f"{name}: soc_name is {profile['soc_name']!r}, expected the file's name")
    if faults:
        sys.exit("\n".join(faults))

    socs = sorted((n for n, p in files.items() if "soc_name" in p), key=lambda n: (n != default, n))
    if default not in socs:
        faults.append(f"{default}: the default SoC has no profile")
    rows = [(name, resolve(name, files, fields, faults)) for name in socs]
    if faults:
        sys.exit("\n".join(faults))

    lines = ["/* Written by scripts/gen_devices.py from devices/; do not edit. */",
             '#include "runtime/dry/profile.h"', "", "const device_profile profile_table[] = {"]
    for name, values in rows:
        lines.append(f'    {{.soc_name = "{name}",')
        lines += [f"     .{field} = {value}u{'l' if value >> 32 else ''}," for field, value in values]
        lines.append("    },")
    lines += ["};", "", f"const unsigned profile_table_count = {len(rows)};", ""]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines))


main()
