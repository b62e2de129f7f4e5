# SPDX-License-Identifier: Apache-2.0
"""The outcome of a run as a dictionary (report.schema.json), and its formats: JSON, JUnit XML and the terminal's
tables.

A report has files, a file has tests, and a test has cases (run_case.run_case).
"""
import json
import math
import re
from xml.sax.saxutils import escape, quoteattr

from . import outputs

STATUSES = ("passed", "failed", "error", "crashed", "timeout", "skipped")
BAD = ("failed", "error", "crashed", "timeout")


def totals(report):
    """{status: number of cases}, with `files` that could not be used and `leaks`."""
    count = dict.fromkeys(STATUSES, 0)
    for _, _, case in each_case(report):
        count[case["status"]] += 1
    count["files"] = sum(1 for f in report["files"] if f["error"] is not None)
    count["leaks"] = sum(len(f["leaks"]) for f in report["files"])
    return count


def succeeded(report):
    count = totals(report)
    return not any(count[status] for status in (*BAD, "files", "leaks"))


def each_case(report):
    for file in report["files"]:
        for test in file["tests"]:
            for case in test["cases"]:
                yield file, test, case


def message(case):
    """The first failure's words, or why the case was skipped."""
    return case["failures"][0]["message"] if case["failures"] else case.get("reason", "")


# ---- JSON

def _finite(value):
    """A value without the floats that JSON lacks."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(report):
    text = json.dumps(_finite({**report, "totals": totals(report)}), indent="\t", separators=(",", ":\t"))
    assert text.startswith(outputs.KINDS["json"][1])
    return text + "\n"


# ---- JUnit XML

def xml_text(text):
    """Text without the characters that XML cannot have."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", str(text))


def _attributes(**values):
    return "".join(f" {name}={quoteattr(xml_text(value))}" for name, value in values.items())


def _junit_case(test, case):
    out = [f'<testcase{_attributes(classname=test["name"], name=case["id"], time=format(case["seconds"], ".6f"))}>']
    body = "\n".join(f"{f['message']}\n{f.get('trace', '')}".rstrip() for f in case["failures"])
    if case["status"] in BAD:
        tag = "failure" if case["status"] == "failed" else "error"
        kind = case["failures"][0]["kind"] if case["failures"] else case["status"]
        out.append(f"<{tag}{_attributes(type=kind, message=message(case))}>{escape(xml_text(body))}</{tag}>")
    if case["status"] == "skipped":
        out.append(f"<skipped{_attributes(message=message(case))}/>")
    written = "\n".join(filter(None, [timing_words(case), case.get("output", "")]))
    if written:
        out.append(f"<system-out>{escape(xml_text(written))}</system-out>")
    return "\n".join(out) + "</testcase>"


def _junit_suite(file):
    cases = [(t, c) for t in file["tests"] for c in t["cases"]]
    lines = [_junit_case(t, c) for t, c in cases]
    extra = [("the file cannot be used", file["error"])] if file["error"] is not None else []
    extra += [("memory is left behind or freed wrongly", text) for text in file["leaks"]]
    for words, text in extra:
        lines.append(f'<testcase{_attributes(classname="file", name=words, time="0")}><error'
                     f'{_attributes(type="file", message=words)}>{escape(xml_text(text))}</error></testcase>')
    count = [c["status"] for _, c in cases]
    errors = sum(count.count(s) for s in ("error", "crashed", "timeout")) + len(extra)
    head = _attributes(name=file["path"], tests=len(lines), failures=count.count("failed"), errors=errors,
                       skipped=count.count("skipped"), time=format(sum(c["seconds"] for _, c in cases), ".6f"))
    return f"<testsuite{head}>\n" + "\n".join([*lines, "</testsuite>"])


def to_junit(report):
    count = totals(report)
    head = _attributes(name="cannon test", tests=sum(count[s] for s in STATUSES) + count["files"] + count["leaks"],
                       failures=count["failed"],
                       errors=sum(count[s] for s in ("error", "crashed", "timeout", "files", "leaks")))
    suites = "\n".join(map(_junit_suite, report["files"]))
    return f"{outputs.KINDS['junit'][1]}<testsuites{head}>\n{suites}\n</testsuites>\n"


# ---- words

def seconds_text(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if seconds * factor >= 1:
            break
    return f"{figure(seconds * factor)} {unit}"


def figure(value):
    """Three digits, or the whole part."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def bytes_text(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{figure(n)} {unit}"
        n /= 1024


def timing_row(case):
    """The columns of TIMING_HEAD for a case that was timed."""
    t = case["timing"]
    ran = t["device"] or t["run"]
    rate = lambda value: "" if value is None else figure(value)
    return [case["id"], seconds_text(ran["median"]),
            f"{seconds_text(ran['lower_quartile'])} - {seconds_text(ran['upper_quartile'])}",
            seconds_text(t["prepare"]["median"]), rate(t["gb_per_s"]), rate(t["gflop_per_s"]),
            bytes_text(t["workspace_bytes"]), bytes_text(t["device_peak_bytes"])]


TIMING_HEAD = ["case", "median", "quartiles", "phase one", "GB/s", "GFLOP/s", "workspace", "memory"]


def timing_words(case):
    if not case.get("timing"):
        return ""
    return ", ".join(f"{head} {value}" for head, value in list(zip(TIMING_HEAD, timing_row(case)))[1:] if value)


def table(head, rows, left):
    """Lines of a table. left: the number of columns at the left edge that hold text."""
    rows = [head, *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    line = lambda row: "  ".join(cell.ljust(w) if i < left else cell.rjust(w)
                                 for i, (cell, w) in enumerate(zip(row, widths)))
    return [line(row).rstrip() for row in rows]


def summary_rows(report):
    """A row for each test and dtype: SUMMARY_HEAD."""
    rows = []
    for file in report["files"]:
        for test in file["tests"]:
            groups = {}
            for case in test["cases"]:
                groups.setdefault("+".join(dict.fromkeys(case["dtypes"])), []).append(case)
            for dtype, cases in groups.items():
                status = [c["status"] for c in cases]
                errors = [c["worst_ulps"] for c in cases if c.get("worst_ulps") is not None]
                worst = max(errors, default=None)
                is_float = "float" in dtype or "complex" in dtype
                rows.append([test["name"], test["operator"], dtype, str(len(cases)), str(status.count("passed")),
                             str(sum(status.count(s) for s in BAD)), str(status.count("skipped")),
                             f"{worst:.3g}" if worst is not None and is_float else "",
                             seconds_text(sum(c["seconds"] for c in cases))])
    return rows


SUMMARY_HEAD = ["test", "operator", "dtype", "cases", "passed", "failed", "skipped", "worst ULPs", "time"]


def totals_line(report):
    count = totals(report)
    words = [f"{count['passed']} passed"] + [f"{count[s]} {s}" for s in STATUSES[1:] if count[s]]
    if count["files"]:
        words.append(f"{count['files']} files cannot be used")
    if count["leaks"]:
        words.append(f"{count['leaks']} processes left memory behind or freed it wrongly")
    return ", ".join(words)
