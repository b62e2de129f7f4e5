# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon plan.

    CANNON_PREFIX=/path python3 tests/cli/test_plan.py
"""
import csv
import json
import unittest
import xml.etree.ElementTree as ElementTree

from test_cli import CANNON, SOURCE, CliTest, execute

PLANS = SOURCE / "bench/plans"
# The maximum of live bytes is 12; the order b1 above b4 above b5 reaches it.
SMALL = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


class Plan(CliTest):
    def write(self, text, name="in.csv"):
        path = self.folder / name
        path.write_text(text)
        return path

    def plan(self, *arguments):
        return execute(CANNON, "plan", *map(str, arguments))

    def plan_json(self, *arguments):
        path = self.folder / "plan.json"
        done = self.plan("--json", path, *arguments)
        self.assertEqual(done.stderr, "")
        return done, json.loads(path.read_text())

    def test_ids_are_escaped(self):
        evil, shown = b"\x1b]0;x\x07\xff<b>", "\\x1b]0;x\\x07\\xff<b>"
        path, page = self.folder / "evil.csv", self.folder / "evil.html"
        path.write_bytes(b"id,lower,upper,size\n" + evil + b",0,2,8\nb,0,2,8\n")
        self.assertEqual(self.plan("--html", page, path).returncode, 0)
        text = page.read_bytes().decode()
        self.assertTrue(all(c.isprintable() or c == "\n" for c in text))
        self.assertIn(json.dumps(shown).replace("<", "\\u003c"), text)
        for rows, said in ((b"id,lower,upper,size\n" + evil + b",0,2,x" + evil, f"size is 'x{shown}', expected"),
                           (b"id,lower,upper," + evil, f"the column '{shown}' is not known"),
                           (b"id,lower,upper,size\n" + 2 * (evil + b",0,2,8\n"),
                            f"id is '{shown}', which line 2 has already"),
                           (b"id,lower,upper,size,offset\n" + evil + b",0,2,8,0\nb,0,2,8,0\n",
                            f"buffer {shown} (line 2)"),
                           (b"a 1 5\nq " + evil, shown)):
            path.write_bytes(rows)
            done = self.plan(path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)
            self.assertTrue(all(c.isprintable() or c == "\n" for c in done.stderr))

    def rows(self, path):
        with open(path, newline="") as f:
            return list(csv.DictReader(f))

    def refused(self, text, *words):
        done = self.plan(self.write(text))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        for word in words:
            self.assertIn(word, done.stderr)

    # ---- plans ----

    def test_a_plan_is_made_and_written(self):
        out = self.folder / "out.csv"
        done, report = self.plan_json("-o", out, self.write(SMALL))
        self.assertEqual(done.returncode, 0)
        self.assertEqual((report["buffers"], report["peak_bytes"], report["bound_bytes"], report["optimal"]),
                         (5, 12, 12, True))
        self.assertRegex(done.stdout,
                         r"(?s)5 buffers\n.*bound +12 .*peak +12 .*gap +0\.0000 %, proved optimal.*time.*method")
        rows = self.rows(out)
        self.assertEqual(list(rows[0]), ["id", "lower", "upper", "size", "offset"])
        self.assertEqual([r["id"] for r in rows], ["b1", "b2", "b3", "b4", "b5"])
        live = [(int(r["offset"]), int(r["offset"]) + 4) for r in rows if r["id"] in ("b1", "b3", "b5")]
        self.assertEqual(sorted(live), [(0, 4), (4, 8), (8, 12)])

    def test_an_instance_is_planned_within_its_capacity(self):
        out = self.folder / "out.csv"
        source = PLANS / "minimalloc/A.1048576.csv"
        done, report = self.plan_json("--capacity", "1M", "--time", "0", "-o", out, source)
        self.assertEqual((done.returncode, report["fits"], report["peak_bytes"]), (0, True, 1 << 20))
        self.assertIn("capacity 1048576 (1.00 MiB), met", done.stdout)
        checked = self.plan("--check", out, source)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertIn("proved optimal", checked.stdout)

    def test_a_capacity_that_is_not_met_fails(self):
        done = self.plan("--capacity", "11", self.write(SMALL), "--nodes", "1000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("capacity 11 (11 B), not met", done.stdout)

    def test_the_same_seed_gives_the_same_plan(self):
        plans = []
        for threads in (1, 2):
            out = self.folder / f"{threads}.csv"
            done = self.plan("--nodes", "30000", "--time", "0", "--seed", "7", "--threads", threads, "-o", out,
                             PLANS / "minimalloc/E.1048576.csv")
            self.assertEqual(done.returncode, 0)
            plans.append(out.read_text())
        self.assertEqual(plans[0], plans[1])

    def test_verbose_prints_each_better_plan(self):
        done = self.plan("--verbose", "--nodes", "20000", PLANS / "minimalloc/A.1048576.csv")
        peaks = [int(line.split()[3]) for line in done.stderr.splitlines()]
        self.assertGreater(len(peaks), 1)
        self.assertEqual(peaks, sorted(peaks, reverse=True))

    def test_all_columns(self):
        text = ("size,buffer,start,end,alignment,offset,gaps,alias,in_place_of,hint\r\n"
                "100,x,0,9,64,,,y,,-1\r\n"
                "100,y,0,9,,,,,,\r\n"
                "8,z,0,9,,640,,,,5\r\n"
                "50,w,10,12,,,,,y,\r\n"
                "300,v,0,12,,,2-11@0:16,,,\r\n"
                "284,u,3,10,,,,,,\r\n")
        out = self.folder / "out.csv"
        done, report = self.plan_json("-o", out, "--nodes", "10000", self.write(text))
        self.assertEqual(done.returncode, 0)
        rows = {r["buffer"]: r for r in self.rows(out)}
        self.assertEqual(list(rows["x"]), text.splitlines()[0].split(","))
        self.assertEqual(rows["z"]["offset"], "640")
        self.assertEqual(rows["w"]["offset"], rows["y"]["offset"])
        self.assertEqual(int(rows["x"]["offset"]) % 64, 0)
        self.assertEqual(report["peak_bytes"], 648)
        self.assertEqual(self.plan("--check", out, self.write(text)).returncode, 0)

    def test_align(self):
        out = self.folder / "out.csv"
        self.assertEqual(self.plan("--align", "512", "-o", out, self.write(SMALL)).returncode, 0)
        self.assertEqual({int(r["offset"]) % 512 for r in self.rows(out)}, {0})

    def test_a_recording_is_planned(self):
        done, report = self.plan_json("--nodes", "1", "--align", "1", SOURCE / "bench/traces/digits.rec.gz")
        self.assertEqual(done.returncode, 0)
        self.assertGreater(report["buffers"], 10)
        path = self.write("a 1 100\na 2 50\nf 1\na 3 70\nf 2\nf 3\n", "trace.txt")
        out = self.folder / "out.csv"
        done, report = self.plan_json("-o", out, path)
        self.assertEqual((report["buffers"], report["bound_bytes"]), (3, 562)) # 512 bytes and 50
        self.assertEqual([(r["lower"], r["upper"], r["size"]) for r in self.rows(out)],
                         [("0", "2", "100"), ("1", "4", "50"), ("3", "5", "70")])

    def test_a_plan_keeps_its_alignment(self):
        for name, text, options in (("trace.txt", "a 1 100\na 2 50\nf 1\na 3 70\nf 2\nf 3\n", ()),
                                    ("in.csv", SMALL, ("--align", "512")),
                                    ("in.csv", "id,lower,upper,size,alignment,hint\na,0,2,3,8,x\nb,1,3,5,,y\n",
                                     ("--align", "64"))):
            out = self.folder / "aligned.csv"
            _, made = self.plan_json("-o", out, *options, self.write(text, name))
            self.assertEqual({r["alignment"] for r in self.rows(out)}, {"64" if "64" in options else "512"})
            done = self.plan("--json", self.folder / "plan.json", "--check", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            checked = json.loads((self.folder / "plan.json").read_text())
            self.assertEqual((checked["bound_bytes"], checked["peak_bytes"]), (made["bound_bytes"], made["peak_bytes"]))

    def test_a_byte_order_mark_is_skipped(self):
        out = self.folder / "out.csv"
        path = self.folder / "marked.csv"
        path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
        self.assertEqual(self.plan_json("-o", out, path)[1]["buffers"], 5)
        self.assertEqual(out.read_text().splitlines()[0], "id,lower,upper,size,offset")
        path.write_bytes(b"\xef\xbb\xbfa 1 100\nf 1\n")
        self.assertEqual(self.plan_json(path)[1]["buffers"], 1)

    # ---- checks ----

    def test_a_wrong_plan_is_reported(self):
        plan = self.write("id,lower,upper,size,offset\nb1,0,3,4,0\nb2,2,9,4,3\n", "plan.csv")
        done = self.plan("--check", plan)
        self.assertEqual(done.returncode, 1)
        self.assertIn("buffer b1 (line 2)", done.stderr)
        self.assertIn("buffer b2 (line 3)", done.stderr)
        self.assertIn("overlap", done.stderr)

    def test_a_plan_of_other_buffers_is_reported(self):
        plan = self.write("id,lower,upper,size,offset\nb1,0,3,4,0\n", "plan.csv")
        done = self.plan("--check", plan, self.write(SMALL))
        self.assertEqual(done.returncode, 1)
        self.assertIn("buffer b2 has no offset", done.stderr)
        done = self.plan("--check", self.write(SMALL))
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 1: there is no column offset", done.stderr)

    def test_a_plan_alone_need_not_be_optimal(self):
        plan = self.write("id,lower,upper,size,offset\nb1,0,3,4,8\n", "plan.csv")
        done = self.plan("--check", plan)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"(?s)bound +4 .*peak +12 ")
        self.assertNotIn("optimal", done.stdout)
        self.assertEqual(self.plan("--check", plan, "--capacity", "11").returncode, 1)

    # ---- pictures ----

    def test_pictures(self):
        svg, page = self.folder / "a.svg", self.folder / "a.html"
        done = self.plan("--svg", svg, "--html", page, "--capacity", "12", self.write(SMALL.replace("b1", "<&b1")))
        self.assertEqual(done.returncode, 0, done.stderr)
        boxes = ElementTree.parse(svg).getroot().findall("{http://www.w3.org/2000/svg}rect")
        self.assertEqual(len(boxes), 5)
        self.assertAlmostEqual(sum(float(b.get("width")) * float(b.get("height")) for b in boxes),
                               1200 * 600 * (3 + 6 + 9 + 12 + 21) * 4 / (21 * 12), delta=200)
        text = page.read_text()
        self.assertIn('"\\u003c&b1"', text)
        self.assertNotRegex(text, r"https?://|src=|href=")

    # ---- bad input ----

    def test_bad_tables_name_the_line(self):
        head = "id,lower,upper,size\n"
        self.refused("", "line 0: the file is empty")
        self.refused("id,lower,upper\n", "line 1: there is no column size")
        self.refused("id,lower,upper,size,size\n", "line 1: the column size appears twice")
        self.refused("id,lower,upper,sice\n", "line 1: the column 'sice' is not known")
        self.refused(head + "a,0,1,1\n\nb,0,1\n", "line 4: there are 3 fields, expected 4")
        self.refused(head + "a,0,1,-1\n", "line 2: size is '-1', expected a whole number")
        self.refused(head + "a,0,1,1.5\n", "line 2: size is '1.5'")
        self.refused(head + "a,0,99999999999999999999,1\n", "line 2: upper is '99999999999999999999'")
        self.refused(head + "a,0,1,4611686018427387905\n", "line 2: size is")
        self.refused(head + "a,5,5,1\n", "line 2: the life is from 5 to 5, expected lower < upper")
        self.refused(head + "a,9,5,1\n", "line 2: the life is from 9 to 5")
        self.refused(head + "a,0,1,1\nb,0,1,1\na,1,2,1\n", "line 4: id is 'a', which line 2 has already")
        self.refused(head + ",0,1,1\n", "line 2: id is ''")
        self.refused(head + f"a,0,1,1\nb,0,1,{1 << 61}\n", "buffer b (line 3)", "add up to more than 2^61")
        self.refused("id,lower,upper,size,gaps\na,0,9,1,2\n", "line 2: a gap is '2', expected LOWER-UPPER")
        self.refused("id,lower,upper,size,gaps\na,0,9,1,2-12\n",
                     "line 2: a gap is '2-12', expected it within the life")
        self.refused("id,lower,upper,size,alias\na,0,9,1,b\n", "line 2: alias is 'b', expected the id of another line")
        self.refused("id,lower,upper,size,in_place_of\na,0,9,1,a\n", "line 2: in_place_of is 'a'")
        self.refused("id,lower,upper,size,in_place_of\na,0,9,1,b\nb,0,9,1,a\n", "is in place of itself")
        self.refused("id,lower,upper,size,offset\na,0,9,4,0\nb,0,9,4,3\n", "buffer a (line 2)", "buffer b (line 3)",
                     "overlap")

    def test_bad_command_lines(self):
        path = self.write(SMALL)
        for arguments in ([], [path, path], ["--capacity", "0", path], ["--time", "-1", path], ["--threads", "0", path],
                          ["--threads", "257", path], ["--nodes", "x", path], ["--nothing", path],
                          ["--device", "16", path]):
            done = self.plan(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("cannon plan: ", done.stderr)
        self.assertEqual(self.plan("/none/such").returncode, 1)
        self.assertEqual(self.plan(self.folder).returncode, 1)
        done = self.plan("-o", "/none/such", path)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot write /none/such", done.stderr)
        self.assertIn("Usage: cannon plan", self.plan("--help").stdout)


if __name__ == "__main__":
    unittest.main()
