# SPDX-License-Identifier: Apache-2.0
"""Tests of what `cannon test` writes: JSON by its schema, JUnit XML, the page, and which files it replaces.

    CANNON_PREFIX=/path python3 tests/python/testing/test_reports.py
"""
import html.parser
import json
import os
import re
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import support
from support import BEGIN, FolderTest
from cannon.testing import html_report, outputs, report as reports

SCHEMA = json.loads((support.PACKAGES / "cannon/testing/report.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
         "null": type(None)}
NASTY = "<script>alert('1')</script> & \"quoted\" \x00\x1b[31m ]]> é"

# One case of every status, and a file that cannot be used.
FILE = BEGIN + f'''
import os, time
NASTY = {NASTY!r}
one = dict(shapes=[(3,)], layouts="contiguous", values="normal")
good = operator_test("Exp", reference=np.exp, **one)
wrong = operator_test("Exp", reference=np.sin, **one)
def nasty(x):
    print(NASTY)
    raise ValueError(NASTY)
raising = operator_test(nasty, reference=np.positive, **one)
crashing = operator_test(lambda x: os.abort(), reference=np.positive, **one)
hanging = operator_test(lambda x: time.sleep(60), reference=np.positive, **one)
skipped = operator_test("Erf", reference="torch.erf", inputs={{"x": Input()}}, **one)
'''


def problems(value, schema, where="report"):
    """What is wrong with a value by the part of JSON Schema that the report's schema uses."""
    if "$ref" in schema:
        return problems(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        return [f"{where} is {value!r}"]
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(isinstance(value, TYPES[k]) and not (isinstance(value, bool) and k in ("integer", "number"))
               for k in kinds):
        return [f"{where} is {value!r}, expected {kinds}"]
    found = []
    if isinstance(value, dict):
        found += [f"{where} lacks {name}" for name in schema.get("required", []) if name not in value]
        known = schema.get("properties", {})
        more = schema.get("additionalProperties")
        for name, member in value.items():
            if name in known:
                found += problems(member, known[name], f"{where}.{name}")
            elif more is not None:
                found += problems(member, more, f"{where}.{name}")
            elif known:
                found.append(f"{where}.{name} is not in the schema")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += problems(item, schema["items"], f"{where}[{i}]")
    return found


class Page(html.parser.HTMLParser):
    """The page's elements: tags, texts and what it would load."""
    EMPTY = {"meta", "br"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text, self.loads = [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "action")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class EveryStatus(FolderTest):
    @classmethod
    def setUpClass(cls):
        """One run for all tests."""
        test = cls("run_once")
        test.setUp()
        cls.addClassCleanup(test.doCleanups)
        cls.folder_of_class = test.folder
        test.file("torch.py", "raise ImportError('not here')\n")
        test.file("test_all.py", FILE)
        test.file("test_broken.py", f"raise ValueError({NASTY!r})\n")
        cls.done = test.cannon_test(".", "--timeout", 1, "--time", "--json", "r.json", "--junit", "r.xml", "--html",
                                    "r.html", "--repeat", 2, PYTHONPATH=str(test.folder))
        read = lambda name: (test.folder / name).read_text()
        cls.json, cls.xml, cls.html = read("r.json"), read("r.xml"), read("r.html")

    def run_once(self):
        """Gives setUpClass an object with a folder."""

    def test_exit_status(self):
        self.assertEqual(self.done.returncode, 1)
        self.assertRegex(self.done.stdout, r"\n1 passed, 1 failed, 1 error, 1 crashed, 1 timeout, 1 skipped, 1 files "
                         r"cannot be used\n$")

    def test_json(self):
        report = json.loads(self.json, parse_constant=lambda name: self.fail(f"{name} is not JSON"))
        self.assertEqual(problems(report, SCHEMA), [])
        self.assertTrue(self.json.startswith('{\n\t"written_by":\t"cannon '))
        by_name = {t["name"]: t["cases"][0] for f in report["files"] for t in f["tests"]}
        self.assertEqual({n: c["status"] for n, c in by_name.items()},
                         {"good": "passed", "wrong": "failed", "raising": "error", "crashing": "crashed",
                          "hanging": "timeout", "skipped": "skipped"})
        self.assertIn("SIGABRT", by_name["crashing"]["failures"][0]["message"])
        self.assertEqual(by_name["crashing"]["shapes"], [[3]], "a crashed case is described")
        self.assertGreater(by_name["good"]["timing"]["run"]["median"], 0)
        self.assertEqual(by_name["raising"]["output"], NASTY + "\n")
        self.assertIsNone(next(f for f in report["files"] if "all" in f["path"])["error"])

    def test_schema_finds_what_is_wrong(self):
        report = json.loads(self.json)
        report["files"][0]["tests"][0]["cases"][0]["status"] = "fine"
        report["files"][0]["tests"][0]["cases"][0]["more"] = 1
        del report["totals"]["failed"]
        self.assertEqual(len(problems(report, SCHEMA)), 3)

    def test_junit(self):
        root = ElementTree.fromstring(self.xml.encode())
        self.assertEqual((root.tag, root.get("tests"), root.get("failures"), root.get("errors")),
                         ("testsuites", "7", "1", "4"))
        cases = {c.get("classname"): c for c in root.iter("testcase")}
        self.assertEqual({n: [e.tag for e in c if e.tag != "system-out"] for n, c in cases.items()},
                         {"good": [], "wrong": ["failure"], "raising": ["error"], "crashing": ["error"],
                          "hanging": ["error"], "skipped": ["skipped"], "file": ["error"]})
        self.assertIn("elements are wrong", cases["wrong"].find("failure").get("message"))
        self.assertEqual(cases["crashing"].find("error").get("type"), "crashed")
        clean = NASTY.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
        self.assertIn(clean, cases["raising"].find("error").text)
        self.assertIn(clean, cases["raising"].find("system-out").text)
        self.assertIn("GB/s", cases["good"].find("system-out").text)
        for suite in root:
            self.assertEqual(int(suite.get("tests")), len(suite.findall("testcase")))

    def test_page(self):
        page = Page(self.html)
        self.assertEqual((page.open, page.loads), ([], []), "closed elements, and nothing to load")
        self.assertNotIn("script", page.tags)
        self.assertNotRegex(self.html, "url\\(|@import|http")
        self.assertIn("<script>alert('1')</script> & \"quoted\"", page.text)
        self.assertIn("prefers-color-scheme: dark", self.html)
        for words in ("1 passed", "good[float32-3-contiguous-normal-seed0]", "elements are wrong", "SIGABRT", "GB/s"):
            self.assertIn(words, page.text)

    def test_names_are_escaped_too(self):
        case = {"id": NASTY, "dtypes": [NASTY], "shapes": [], "layout": NASTY, "values": NASTY, "attributes": {},
                "seed": 0, "status": "failed", "seconds": 1.0,
                "failures": [{"kind": NASTY, "message": NASTY, "trace": NASTY}]}
        report = {"written_by": "cannon test", "seed": 0,
                  "environment": {"soc": NASTY, "python": NASTY, "numpy": NASTY},
                  "files": [{"path": NASTY, "error": NASTY, "leaks": [NASTY],
                             "tests": [{"name": NASTY, "operator": NASTY, "cases": [case]}]}]}
        page = Page(html_report.to_html(report))
        self.assertEqual((page.open, "script" in page.tags), ([], False))
        self.assertEqual(len(ElementTree.fromstring(reports.to_junit(report).encode()).findall(".//testcase")), 3)
        self.assertEqual(json.loads(reports.to_json(report))["files"][0]["path"], NASTY)


class Outputs(FolderTest):
    """By the rules of cannon's other commands (tests/cli/test_outputs.py)."""

    def setUp(self):
        super().setUp()
        self.file("test_a.py", BEGIN + 'exp = operator_test("Exp", reference=np.exp, shapes=[(3,)], values="normal", '
                  'layouts="contiguous")\n')

    def refused(self, kind, path, words):
        before = {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}
        done = self.cannon_test(".", f"--{kind}", path, status=2)
        self.assertIn(f"cannot write {path}: ", done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, "", "nothing was run")
        self.assertEqual(before, {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file()})

    def test_files_of_others(self):
        path = self.file("precious", "the user's\n")
        for kind in outputs.KINDS:
            self.refused(kind, path, "--force")
        self.refused("json", self.file("page", outputs.KINDS["html"][1]), "is not JSON that cannon wrote")
        link = self.folder / "link"
        os.symlink(path, link)
        self.refused("json", link, "symbolic link")
        self.refused("html", self.folder, "folder")
        self.refused("junit", f"{self.folder}/new/", "it names no file")
        self.refused("junit", self.folder / "none/file", "No such file")

    def test_ours_empty_and_forced_files_are_replaced(self):
        paths = {kind: self.file(kind, "the user's\n") for kind in outputs.KINDS}
        arguments = [".", *(f"--{kind}={path}" for kind, path in paths.items())]
        for path in paths.values():
            path.chmod(0o640)
        self.cannon_test(*arguments, "--force", status=0)
        first = {kind: path.read_text() for kind, path in paths.items()}
        for kind, path in paths.items():
            self.assertTrue(first[kind].startswith(outputs.KINDS[kind][1]))
            self.assertEqual(path.stat().st_mode & 0o777, 0o640)
        self.cannon_test(*arguments, "--seed", "1", status=0)
        for kind, path in paths.items():
            self.assertNotEqual(path.read_text(), first[kind])
            path.write_text("")
        self.cannon_test(*arguments, status=0)
        for path in paths.values():
            self.assertNotEqual(path.read_text(), "")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["html", "json", "junit", "test_a.py"])

    def test_streams(self):
        done = self.cannon_test(".", "--junit", "/dev/stdout", status=0)
        self.assertRegex(done.stdout, r"(?s)1 passed\n<\?xml.*</testsuites>\n$")
        done = self.cannon_test(".", "--json", "/dev/full", status=2)
        self.assertIn("cannot write /dev/full: No space left on device", done.stderr)

    def test_a_reader_that_has_gone(self):
        done = subprocess.run(["sh", "-c", f"'{support.CANNON}' test . --verbose | true"], cwd=self.folder, text=True,
                              capture_output=True, env=support.environment(), timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Words(unittest.TestCase):
    def test_figures(self):
        self.assertEqual([reports.seconds_text(s) for s in (2, 0.0123, 4.56e-6, 7e-9, 0)],
                         ["2 s", "12.3 ms", "4.56 us", "7 ns", "0 ns"])
        self.assertEqual([reports.bytes_text(n) for n in (0, 1023, 1024, 5 << 20, 3 << 40)],
                         ["0 B", "1023 B", "1 KiB", "5 MiB", "3072 GiB"])
        self.assertEqual(reports.figure(123456.7), "123457")

    def test_table(self):
        lines = reports.table(["name", "n"], [["a", "100"], ["long", "2"]], 1)
        self.assertEqual(lines, ["name    n", "a     100", "long    2"])
        self.assertTrue(re.fullmatch(r"\S+ +\S+", lines[1]))


if __name__ == "__main__":
    unittest.main()
