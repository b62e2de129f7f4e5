# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon run --record and cannon replay.

    CANNON_PREFIX=/path python3 tests/cli/test_replay.py
"""
import gzip
import json
import unittest

from test_cli import CANNON, MIB, PREFIX, SOURCE, CliTest, clean_environment, execute

ALLOCATORS = ["pool", "first-fit", "best-fit", "buddy", "binning", "tlsf", "pytorch", "torch_npu"]
# The live bytes after each step are 3, 6, 3, 13 and 10 MiB.
TEXT = f"a 1 {3 * MIB}\na 2 {3 * MIB}\nf 1\na 3 {10 * MIB}\nf 2\n"

# Trace, cap, and the results of PyTorch 2.7.1's own allocator (bench/traces/peak_torch.cpp): the peak of reserved
# bytes, the calls of cudaMalloc and cudaFree, and the refused requests.
PYTORCH = [("train.txt.gz", None, 3388997632, 148, 0), ("train.txt.gz", 2726297600, 2659188736, 262, 2),
           ("train.txt.gz", 1700000000, 1698693120, 444, 142), ("moe.txt.gz", None, 2015363072, 141, 0),
           ("moe.txt.gz", 1700000000, 1690304512, 215, 8), ("infer.txt.gz", None, 362807296, 29, 0),
           ("infer.txt.gz", 250000000, 249561088, 44, 17)]


class Replay(CliTest):
    def write(self, text, name="trace.txt"):
        path = self.folder / name
        path.write_text(text)
        return path

    def replay_json(self, *arguments):
        path = self.folder / "replay.json"
        done = execute(CANNON, "replay", "--repeat", "1", "--json", path, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done, json.loads(path.read_text())

    def record(self, *command):
        """Runs and records the command. Returns the path of the recording and the finished process."""
        path = self.folder / "recording"
        return path, execute(CANNON, "run", "--quiet", "--record", path, "--", *command)

    # ---- recording ----

    def test_a_program_is_recorded(self):
        path, done = self.record(self.program, "three")
        self.assertEqual(done.returncode, 3, done.stderr)
        done, report = self.replay_json("--allocator", "pool", path)
        self.assertEqual((report["events"], report["blocks"], report["peak_live_bytes"]), (2, 1, MIB))
        self.assertGreaterEqual(report["streams"], 1)
        self.assertIn("2 events, 1 blocks, peak live 1.00 MiB", done.stdout)

    def test_the_page_of_a_packed_recording_has_call_sites(self):
        path, _ = self.record(self.program, "three")
        packed, page = self.folder / "packed.gz", self.folder / "map.html"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        done = execute(CANNON, "replay", "--repeat", "1", "--allocator", "pool", "--html", page, packed)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(page.read_text(), r'\nsites:\[\{line:"[^"]*main[^"]*",stack:\["[^"]*main')
        self.assertIn("site:[0,]", page.read_text())

    def test_a_killed_program_leaves_its_recording(self):
        path, done = self.record(self.program, "kill")
        self.assertEqual(done.returncode, -9)
        _, report = self.replay_json(path)
        self.assertEqual((report["events"], report["blocks"]), (1, 1))

    def test_further_processes_write_separate_files(self):
        path, done = self.record("sh", "-c", f"'{self.program}' & one=$!; wait $one; '{self.program}' three")
        self.assertEqual(done.returncode, 3, done.stderr)
        recordings = sorted(self.folder.glob("recording*"))
        self.assertEqual(len(recordings), 2)
        self.assertEqual(recordings[0], path)
        for recording in recordings:
            self.assertEqual(self.replay_json(recording)[1]["events"], 2)
            recording.unlink()

    def test_a_recording_replaces_the_one_before(self):
        path, _ = self.record(self.program, "kill")
        before = path.read_bytes()
        self.record(self.program, "kill")
        self.assertNotEqual(path.read_bytes(), before)
        self.assertEqual([p.name for p in self.folder.glob("recording*")], ["recording"])

    def test_a_program_not_started_by_cannon_is_recorded(self):
        path = self.folder / "own"
        environment = clean_environment(CANNON_RECORD=str(path), LD_LIBRARY_PATH=str(PREFIX / "lib64"))
        self.assertEqual(execute(self.program, env=environment).returncode, 0)
        self.assertEqual(self.replay_json(path)[1]["events"], 2)

    def test_a_recording_that_cannot_be_written_is_refused_before_the_program_runs(self):
        done = execute(CANNON, "run", "--record", "/nowhere/file", "touch", self.folder / "ran")
        self.assertEqual(done.returncode, 2)
        self.assertIn("cannot write /nowhere/file: No such file or directory", done.stderr)
        self.assertIn("cannot write /dev/null: it is a device or a pipe, expected a file",
                      execute(CANNON, "run", "--record", "/dev/null", "true").stderr)
        self.assertFalse((self.folder / "ran").exists())

    # ---- replaying ----

    def test_all_allocators_are_shown(self):
        done, report = self.replay_json(self.write(TEXT))
        self.assertEqual([a["name"] for a in report["allocators"]], ALLOCATORS)
        for name in ALLOCATORS:
            self.assertIn(f"\n{name} ", done.stdout)
        for a in report["allocators"]:
            self.assertEqual((a["peak_live_bytes"], a["refused"]), (13 * MIB, 0))
            self.assertAlmostEqual(a["committed_over_live"], a["peak_committed_bytes"] / (13 * MIB))
            self.assertGreaterEqual(a["peak_committed_bytes"], 13 * MIB)
        self.assertEqual(report["cap_bytes"], None)

    def test_allocators_are_chosen(self):
        _, report = self.replay_json("--allocator", "pytorch,best-fit", self.write(TEXT))
        self.assertEqual([(a["name"], a["peak_committed_bytes"] // MIB, a["calls"]) for a in report["allocators"]],
                         [("pytorch", 20, 1), ("best-fit", 16, 3)])

    def test_a_cap_refuses(self):
        done, report = self.replay_json("--cap", "12M", "--allocator", "best-fit,first-fit", self.write(TEXT))
        for a in report["allocators"]:
            self.assertEqual((a["refused"], a["first_refused_event"], a["peak_live_bytes"]), (1, 3, 6 * MIB))
        self.assertEqual(report["cap_bytes"], 12 * MIB)
        self.assertIn("first at event 3", done.stdout)

    def test_a_cap_is_respected(self):
        path = self.write("".join(f"a {i} {MIB // 2}\n" for i in range(8)))
        for cap in (3 * MIB, 3 * MIB + 512, MIB):
            _, report = self.replay_json("--cap", str(cap), path)
            for a in report["allocators"]:
                self.assertLessEqual(a["peak_committed_bytes"], cap, a)
        _, report = self.replay_json("--cap", "3M", "--allocator", "buddy,first-fit", path)
        self.assertEqual([a["peak_committed_bytes"] for a in report["allocators"]], [3 * MIB, 3 * MIB])

    def test_a_byte_order_mark_is_skipped(self):
        for name, text in (("marked.txt", TEXT), ("marked.gz", TEXT)):
            data = b"\xef\xbb\xbf" + text.encode()
            (self.folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
            self.assertEqual(self.replay_json("--allocator", "buddy", self.folder / name)[1]["events"], 5)

    def test_compressed_traces(self):
        path = self.folder / "trace.gz"
        path.write_bytes(gzip.compress(TEXT.encode()))
        self.assertEqual(self.replay_json("--allocator", "tlsf", path)[1]["events"], 5)

    def test_shipped_traces_are_read(self):
        traces = sorted((SOURCE / "bench/traces").glob("*.gz"))
        self.assertGreaterEqual(len(traces), 5)
        for path in traces:
            _, report = self.replay_json("--allocator", "binning", path)
            self.assertGreater(report["events"], 100)
        self.assertLess(sum(path.stat().st_size for path in traces), 3 * MIB)

    def test_pytorch_reserves_what_pytorch_does(self):
        for trace, cap, reserved, calls, refused in PYTORCH:
            options = ("--cap", str(cap)) if cap else ()
            _, report = self.replay_json("--allocator", "pytorch", *options, SOURCE / "bench/traces" / trace)
            (a,) = report["allocators"]
            self.assertEqual((a["peak_committed_bytes"], a["calls"], a["refused"]), (reserved, calls, refused), trace)

    def test_page(self):
        page = self.folder / "page.html"
        trace = self.write(TEXT, "</script>.txt".replace("/", "_"))
        done = execute(CANNON, "replay", "--repeat", "1", "--allocator", "best-fit", "--cap", "12M", "--html", page,
                       trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = page.read_text()
        self.assertNotRegex(text, r"https?://|src=|href=")  # no references to other sites
        self.assertIn("start:[0,1,3,]", text)
        self.assertIn("end:[2,4,5,]", text)
        self.assertIn(f"bytes:[{3 * MIB},{3 * MIB},{10 * MIB},]", text)
        self.assertIn(f"address:[0,{3 * MIB},-1,]", text)  # the last allocation was refused
        self.assertEqual(text.count("</script>"), 2)
        live = json.loads("[" + text.partition("live:[")[2].partition(",]")[0] + "]")
        self.assertEqual([live[i * 200 + 100] // MIB for i in range(5)], [3, 6, 3, 3, 0])

    def test_wrong_files_are_refused(self):
        path, _ = self.record(self.program)
        recording = path.read_bytes()
        header = int.from_bytes(recording[12:16], "little")
        for contents, words in ((b"a 1 1\nf 2\n", 'line 2 is "f 2"'), (b"", "no allocations"),
                                (recording[:100], "offset 100: the header is cut short"),
                                (recording[:-1], "the record is cut short"),
                                (recording[:header] + b"\xff" * 10,
                                 f"offset {header}: the record's kind is not known")):
            wrong = self.folder / "wrong"
            wrong.write_bytes(contents)
            done = execute(CANNON, "replay", wrong)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(f"cannon replay: {wrong}: ", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertIn("No such file", execute(CANNON, "replay", "/nowhere/trace").stderr)

    def test_devices_of_a_recording(self):
        path, _ = self.record(self.program)
        done = execute(CANNON, "replay", "--device", "3", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no allocations in it by this device", done.stderr)
        self.assertEqual(execute(CANNON, "replay", "--repeat", "1", "--device", "0", path).returncode, 0)

    def test_wrong_options(self):
        trace = self.write(TEXT)
        for arguments, words in ((("--cap", "0", trace), "--cap is '0'"), (("--cap", "x", trace), "--cap is 'x'"),
                                 (("--allocator", "pool,jemalloc", trace), "--allocator is 'jemalloc'"),
                                 (("--allocator", "", trace), "--allocator is ''"),
                                 (("--device", "16", trace), "--device is '16'"),
                                 (("--repeat", "0", trace), "--repeat is '0'"),
                                 (("--json", "/nowhere/j", trace), "cannot write /nowhere/j"),
                                 (("--html", "/nowhere/h", trace), "cannot write /nowhere/h"),
                                 ((), "expected one FILE"), ((trace, trace), "expected one FILE"),
                                 (("--colour", trace), "unrecognized option")):
            done = execute(CANNON, "replay", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(words, done.stderr)

    def test_help(self):
        done = execute(CANNON, "replay", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ALLOCATORS:
            self.assertIn(name, done.stdout)
        self.assertIn("cannon replay", execute(CANNON, "run", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
