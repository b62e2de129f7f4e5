# SPDX-License-Identifier: Apache-2.0
"""The report as a page: one file that loads nothing, readable in light and dark, and without scripts. All text of tests
and operators is escaped."""
from html import escape

from . import outputs, report as reports

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --page: #fff; --soft: #57606a; --line: #d0d7de; --panel: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --odd: #9a6700; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --page: #0d1117; --soft: #9aa4af; --line: #30363d; --panel: #161b22;
    --good: #3fb950; --bad: #ff7b72; --odd: #d29922; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); margin: 2em auto;
  max-width: 75em; padding: 0 1em; }
h1 { font-size: 1.4em; } h2 { font-size: 1.15em; margin-top: 2em; }
p, .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
.text { text-align: left; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7em; overflow-x: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5em 0; padding: .4em .8em; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.passed { color: var(--good); } .skipped { color: var(--odd); }
.failed, .error, .crashed, .timeout { color: var(--bad); }
.totals span { display: inline-block; margin-right: 1.5em; font-size: 1.2em; font-weight: 600; }
"""


def _table(head, rows, n_text):
    """rows: lists of texts. The first n_text columns hold text."""
    kind = lambda i: ' class="text"' if i < n_text else ""
    cells = lambda tag, row: "".join(f"<{tag}{kind(i)}>{escape(cell)}</{tag}>" for i, cell in enumerate(row))
    return _scrolled(f'<tr>{cells("th", head)}</tr>', "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows))


def _scrolled(head, body):
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _failure(file, case):
    texts = [f["message"] + (f"\n{f['trace']}" if f.get("trace") else "") for f in case["failures"]]
    if case.get("output"):
        texts.append(f"output:\n{case['output']}")
    texts.append(f"again: cannon test {file['path']} --case '{case['id']}'")
    body = "\n".join(f"<pre>{escape(text)}</pre>" for text in texts)
    head = f'<b class="{case["status"]}">{case["status"]}</b> <code>{escape(case["id"])}</code>'
    return f"<details open><summary>{head}<br><span class=\"soft\">{escape(reports.message(case))}</span></summary>\n" \
           f"{body}\n</details>"


def _case_rows(cases):
    rows = []
    for c in cases:
        worst = c.get("worst_ulps")
        rows.append(f'<tr><td class="text"><code>{escape(c["id"])}</code></td>'
                    f'<td class="text {c["status"]}">{c["status"]}</td>'
                    f'<td>{"" if worst is None else format(worst, ".3g")}</td>'
                    f'<td>{escape(reports.seconds_text(c["seconds"]))}</td>'
                    f'<td class="text">{escape(reports.message(c))}</td></tr>')
    return "\n".join(rows)


def _test(test):
    cases = test["cases"]
    bad = sum(c["status"] in reports.BAD for c in cases)
    words = f"{len(cases)} cases" + (f', <span class="failed">{bad} failed</span>' if bad else "")
    head = '<tr><th class="text">case</th><th class="text">status</th><th>worst ULPs</th><th>time</th>' \
           '<th class="text">message</th></tr>'
    return f"<details><summary><b>{escape(test['name'])}</b> of {escape(test['operator'])}: {words}</summary>\n" \
           f"{_scrolled(head, _case_rows(cases))}\n</details>"


def _totals(report):
    count = reports.totals(report)
    spans = [f'<span class="{s}">{count[s]} {s}</span>' for s in reports.STATUSES if count[s] or s == "passed"]
    if count["files"]:
        spans.append(f'<span class="failed">{count["files"]} files cannot be used</span>')
    if count["leaks"]:
        spans.append(f'<span class="failed">{count["leaks"]} processes left memory behind or freed it wrongly</span>')
    return f'<p class="totals">{"".join(spans)}</p>'


def _facts(report):
    e = report["environment"]
    facts = [f"seed {report['seed']}"]
    if e.get("soc"):
        facts.append(e["soc"] + (" (simulated by Cannon)" if e.get("cannon") else ""))
    facts += [f"{name} {e[key]}" for name, key in (("Python", "python"), ("NumPy", "numpy")) if e.get(key)]
    return escape(", ".join(facts))


def to_html(report):
    parts = [f"{outputs.KINDS['html'][1]}</title>",
             '<meta name="viewport" content="width=device-width, initial-scale=1">', f"<style>{STYLE}</style>",
             "<h1>cannon test</h1>", _totals(report), f"<p>{_facts(report)}</p>"]
    bad = [(file, case) for file, _, case in reports.each_case(report) if case["status"] in reports.BAD]
    lost = [(f["path"], f["error"]) for f in report["files"] if f["error"] is not None]
    lost += [(f"{f['path']}: memory that is left behind or freed wrongly", text)
             for f in report["files"] for text in f["leaks"]]
    if bad or lost:
        parts.append("<h2>Failures</h2>")
        parts += [f"<details open><summary><code>{escape(path)}</code></summary><pre>{escape(text)}</pre></details>"
                  for path, text in lost]
        parts += [_failure(file, case) for file, case in bad]
    rows = reports.summary_rows(report)
    if rows:
        parts += ["<h2>Tests</h2>", _table(reports.SUMMARY_HEAD, rows, 3)]
    timed = [reports.timing_row(c) for _, _, c in reports.each_case(report) if c.get("timing")]
    if timed:
        parts += ["<h2>Times</h2>", _table(reports.TIMING_HEAD, timed, 1)]
    parts.append("<h2>Cases</h2>")
    for file in report["files"]:
        parts.append(f"<p><code>{escape(file['path'])}</code></p>")
        parts += [_test(test) for test in file["tests"]]
    return "\n".join(parts) + "\n</html>\n"
