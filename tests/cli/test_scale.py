# SPDX-License-Identifier: Apache-2.0
"""Tests of cannon scale: recordings that the recorder's own code encodes, and closed forms of what must come out.

    CANNON_PREFIX=/path python3 tests/cli/test_scale.py
"""
import json
import os
import subprocess
import unittest

from test_cli import CANNON, PREFIX, SOURCE, CliTest, execute

# Makes a recording of lines on stdin: a record's kind as a number, and its fields.
ENCODER = r"""
#include "trace/record/record_code.c"
#include <stdio.h>
#include <string.h>

int main(void) {
  record_header h = {.magic = RECORD_MAGIC, .version = RECORD_VERSION, .header_bytes = sizeof h};
  record_history history = {0};
  uint8_t out[RECORD_MAX_BYTES];
  unsigned long v[13];
  memcpy(h.magic, RECORD_MAGIC, sizeof h.magic);
  fwrite(&h, sizeof h, 1, stdout);
  while (scanf("%lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
               &v[7], &v[8], &v[9], &v[10], &v[11], &v[12]) == 13) {
    record r = {.kind = v[0], .device = v[1], .stream = v[2], .event = v[3], .generation = v[4], .communicator = v[5],
                .call_kind = v[6], .dtype_bytes = v[7], .count = v[8], .n_ranks = v[9], .rank = v[10], .peer = v[11],
                .duration_ns = v[12]};
    fwrite(out, record_encode(&history, &r, out), 1, stdout);
  }
  return 0;
}
"""
REACHED, PASSED, WORK, COLLECTIVE = 9, 10, 11, 12
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, SEND, RECV = 0, 4, 8, 12, 13
COMPUTE, COMM = 1, 2  # streams
WORLD, MS = 0xABC, 1000000
# Nanoseconds of a round, of a byte on a link, of a byte to reduce.
ALPHA, BETA, GAMMA = 1000, 1, 0.25


def number(value):
    return {"value": value, "source": "estimate: test"}


def level(name, hccl_level, ranks, latency, rank, link=0, oversubscription=1):
    return {"name": name, "hccl_level": hccl_level, "ranks": number(ranks), "latency_ns": number(latency),
            "rank_bytes_per_s": number(rank), "link_bytes_per_s": number(link),
            "oversubscription": number(oversubscription)}


def topology(*levels):
    return {"name": "test", "about": "a test", "reduce_bytes_per_s": number(1e9 / GAMMA), "levels": list(levels)}


MESH = topology(level("mesh", 0, 0, ALPHA, 1e13, 1e9))
WIRE = topology(level("wire", 0, 0, ALPHA, 1e9))
SERVERS = topology(level("server", 0, 4, 100, 1e11), level("cluster", 1, 0, ALPHA, 1e9))


def work(device, stream, ns):
    return (WORK, device, stream, 0, 0, 0, 0, 0, 0, 0, 0, 0, ns)


def reached(device, stream, event, generation=1):
    return (REACHED, device, stream, event, generation) + 8 * (0,)


def passed(device, stream, event, generation=1):
    return (PASSED, device, stream, event, generation) + 8 * (0,)


def collective(device, stream, kind, count, ranks, rank, group=WORLD, peer=0, ns=123):
    return (COLLECTIVE, device, stream, 0, 0, group, kind, 4, count, ranks, rank, peer, ns)


def mesh_all_reduce(ranks, n):
    return 2 * ALPHA + 2 / ranks * n * BETA + (ranks - 1) / ranks * n * GAMMA


def overlapped(ranks, n, first=MS, second=MS):
    """A step: work, then an AllReduce of n bytes beside more work."""
    out = []
    for d in range(ranks):
        out += [work(d, COMPUTE, first), reached(d, COMPUTE, 100 + d), passed(d, COMM, 100 + d),
                collective(d, COMM, ALL_REDUCE, n // 4, ranks, d), reached(d, COMM, 200 + d), work(d, COMPUTE, second),
                passed(d, COMPUTE, 200 + d)]
    return out


class Scale(CliTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.folder / "encoder.c"
        source.write_text(ENCODER)
        cls.encoder = cls.folder / "encoder"
        subprocess.run([os.environ.get("CC", "cc"), "-D_GNU_SOURCE", f"-I{SOURCE}/src", source, "-o", cls.encoder],
                       check=True)

    def recording(self, records, name="recording"):
        path = self.folder / name
        text = "".join(" ".join(map(str, r)) + "\n" for r in records)
        path.write_bytes(subprocess.run([self.encoder], input=text.encode(), capture_output=True, check=True).stdout)
        return path

    def topology(self, contents):
        path = self.folder / "topology.json"
        path.write_text(json.dumps(contents))
        return path

    def scale(self, records, devices, *options, on=MESH, more=()):
        """The results, by number of devices, and what was printed."""
        path = self.folder / "scale.json"
        done = execute(CANNON, "scale", "--devices", devices, "--topology", self.topology(on), "--json", path, *options,
                       self.recording(records), *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.report = json.loads(path.read_text())
        self.printed = done.stdout
        return {r["devices"]: r for r in self.report["results"]}

    # ---- steps ----

    def test_communication_that_is_hidden(self):
        n = 400000
        for ranks, r in self.scale(overlapped(4, n), "4,8,64").items():
            time = mesh_all_reduce(ranks, n)
            self.assertLess(time, MS)
            self.assertAlmostEqual(r["communication_ns"], time, delta=1)
            self.assertEqual((r["step_ns"], r["compute_ns"], r["efficiency"]), (2 * MS, 2 * MS, 1))
            self.assertAlmostEqual(r["exposed_ns"], 0, delta=1e-3)
            self.assertAlmostEqual(r["overlap"], 1)
            self.assertEqual((r["bound"], r["most_exposed"]), ("compute", None))
        self.assertIn("4 ranks of 4, 4 collectives", self.printed)

    def test_communication_that_is_exposed(self):
        n = 16000000
        for ranks, r in self.scale(overlapped(4, n), "4..16").items():
            time = mesh_all_reduce(ranks, n)
            self.assertAlmostEqual(r["communication_ns"], time, delta=1)
            self.assertAlmostEqual(r["step_ns"], MS + time, delta=1)  # it begins behind the first work
            self.assertAlmostEqual(r["exposed_ns"], time - MS, delta=1)
            self.assertAlmostEqual(r["overlap"], MS / time, places=6)
            self.assertAlmostEqual(r["efficiency"], 2 * MS / (MS + time), places=6)
            (kind,) = r["kinds"]
            self.assertEqual((kind["kind"], kind["calls"], kind["algorithm"]), ("AllReduce", 1, "fullmesh"))
            self.assertAlmostEqual(kind["latency_ns"], 2 * ALPHA)
            self.assertAlmostEqual(kind["bandwidth_ns"], 2 / ranks * n * BETA, delta=1)
            self.assertAlmostEqual(kind["reduction_ns"], (ranks - 1) / ranks * n * GAMMA, delta=1)
            self.assertAlmostEqual(kind["exposed_ns"], time - MS, delta=1)
            self.assertEqual(kind["level_ns"].keys(), {"mesh"})
        self.assertEqual(r["bound"], "communication")
        self.assertEqual(r["most_exposed"], {"kind": "AllReduce", "level": "mesh", "by": "reduction"})
        self.assertIn("AllReduce: mesh, reduction", self.printed)

    def test_one_device_has_no_communication(self):
        r = self.scale(overlapped(4, 8000000), "1")[1]
        self.assertEqual((r["communication_ns"], r["step_ns"], r["efficiency"], r["kinds"]), (0, 2 * MS, 1, []))

    def test_a_collective_begins_when_the_last_rank_has_come(self):
        n = 4000
        records = [work(0, COMPUTE, MS), collective(0, COMPUTE, ALL_REDUCE, n // 4, 2, 0), work(1, COMPUTE, 3 * MS),
                   collective(1, COMPUTE, ALL_REDUCE, n // 4, 2, 1)]
        r = self.scale(records, "2")[2]
        self.assertAlmostEqual(r["step_ns"], 3 * MS + mesh_all_reduce(2, n), delta=1)
        self.assertAlmostEqual(r["exposed_ns"], mesh_all_reduce(2, n), delta=1)

    def test_the_same_ranks_in_files_of_their_own(self):
        step = overlapped(4, 8000000)
        together = self.scale(step, "8")[8]
        alone = [[(r[0], 0, *r[2:]) for r in step if r[1] == d] for d in range(4)]
        more = [self.recording(records, f"rank{i}") for i, records in enumerate(alone[1:])]
        self.assertEqual(self.scale(alone[0], "8", more=more)[8], together)
        # one rank stands for all
        self.assertAlmostEqual(self.scale(alone[0], "8")[8]["step_ns"], together["step_ns"], delta=1)

    def test_strong_scaling_divides_the_work(self):
        n = 4000
        records = []
        for d in range(2):
            records += [work(d, COMPUTE, 8 * MS), collective(d, COMPUTE, ALL_REDUCE, n // 4, 2, d)]
        for ranks, r in self.scale(records, "2..16", "--strong", "--compute", "0.5").items():
            self.assertAlmostEqual(r["compute_ns"], 8 * MS / ranks, delta=1)
            self.assertAlmostEqual(r["step_ns"], 8 * MS / ranks + mesh_all_reduce(ranks, n), delta=1)

    def test_events_are_matched_by_their_generation(self):
        """The event is recorded again before the wait for its first record has run."""
        records = [work(0, 1, MS), reached(0, 1, 7, 1), work(0, 1, 5 * MS), reached(0, 1, 7, 2), passed(0, 2, 7, 1),
                   collective(0, 2, ALL_REDUCE, 1000, 2, 0)]
        r = self.scale(records, "2")[2]
        self.assertEqual(r["step_ns"], 6 * MS)
        self.assertAlmostEqual(r["exposed_ns"], 0, delta=1e-3)

    def test_waits_for_what_was_not_recorded(self):
        records = [passed(0, 1, 5), work(0, 1, MS), collective(0, 1, ALL_REDUCE, 1000, 2, 0)]
        r = self.scale(records, "2")[2]
        self.assertAlmostEqual(r["step_ns"], MS + mesh_all_reduce(2, 4000), delta=1)
        self.assertEqual(r["waits_left_out"], 0)
        circle = [passed(0, 1, 1), reached(0, 1, 2), passed(0, 2, 2), reached(0, 2, 1)] + records
        self.assertEqual(self.scale(circle, "2")[2]["waits_left_out"], 1)
        self.assertIn("1 waits of streams were left out", self.printed)

    # ---- communicators ----

    def test_parts_shrink_so_that_the_whole_stays(self):
        records = [collective(0, 1, ALL_GATHER, 100000, 4, 0)]
        for ranks, r in self.scale(records, "4..64", on=WIRE).items():
            n = 4 * 400000
            self.assertAlmostEqual(r["step_ns"], ALPHA + (ranks - 1) / ranks * n * BETA, delta=1)

    def grid(self, n):
        """2 x 2 ranks: pairs of neighbours exchange, and so do pairs across; all of them once, too."""
        out = []
        for d in range(4):
            out += [collective(d, 1, ALL_REDUCE, 1, 4, d),
                    collective(d, 1, ALL_GATHER, n // 4, 2, d % 2, 0x10 + d // 2),
                    collective(d, 1, ALL_REDUCE, n // 4, 2, d // 2, 0x20 + d % 2)]
        return out

    def test_groups_that_grow(self):
        n = 100000
        self.scale(self.grid(n), "16", "--scale-group", "0x20")
        self.assertEqual({c["id"]: c["grows"] for c in self.report["communicators"]},
                         {"0xabc": True, "0x10": False, "0x11": False, "0x20": True, "0x21": True})
        (result,) = self.report["results"]
        reduces, gathers = result["kinds"]
        self.assertAlmostEqual(reduces["time_ns"], mesh_all_reduce(16, 4) + mesh_all_reduce(8, n), delta=1)
        self.assertAlmostEqual(gathers["time_ns"], ALPHA + n * BETA, delta=1)

    def test_a_group_that_keeps_its_size_stays_in_its_server(self):
        n = 100000
        r = self.scale(self.grid(n), "16", "--scale-group", "0x21", on=SERVERS)[16]
        reduces, gathers = r["kinds"]
        self.assertEqual(gathers["level_ns"], {"server": 100 + n / 100, "cluster": 0})
        self.assertGreater(reduces["level_ns"]["cluster"], 0.7 * n)
        # if the neighbours grow instead, the pairs across move apart, and out of the server
        r = self.scale(self.grid(n), "16", "--scale-group", "0x10", on=SERVERS)[16]
        self.assertEqual({c["id"]: c["grows"] for c in self.report["communicators"]},
                         {"0xabc": True, "0x10": True, "0x11": True, "0x20": False, "0x21": False})
        self.assertAlmostEqual(r["kinds"][0]["level_ns"]["server"], 200, delta=100)

    def test_numbers_of_devices_are_whole_communicators(self):
        step = self.grid(1000)
        self.assertEqual(list(self.scale(step, "5..20", "--scale-group", "0x20")), [6, 10, 20])
        self.assertEqual(list(self.scale(step, "3,4", "--scale-group", "2")), [4])

    def test_sends_of_neighbours(self):
        records = [work(0, 1, MS), collective(0, 1, SEND, 1000, 2, 0, 0x5, 1), work(1, 1, 2 * MS),
                   collective(1, 1, RECV, 1000, 2, 1, 0x5, 0), collective(0, 1, ALL_REDUCE, 0, 4, 0),
                   collective(1, 1, ALL_REDUCE, 0, 4, 1)]
        r = self.scale(records, "16")[16]
        self.assertAlmostEqual(r["step_ns"], 2 * MS + ALPHA + 4000 * BETA + 2 * ALPHA, delta=1)
        self.assertEqual([k["kind"] for k in r["kinds"]], ["AllReduce", "Send", "Recv"])

    # ---- algorithms and topologies ----

    def test_levels(self):
        n, ranks = 32000, 32
        records = [collective(0, 1, ALL_REDUCE, n // 4, 4, 0)]
        r = self.scale(records, "32", "--algo", "level0:NA;level1:ring", on=SERVERS)[32]
        (kind,) = r["kinds"]
        servers, block = ranks // 4, n / 4
        self.assertEqual(kind["algorithm"], "fullmesh + ring")
        self.assertAlmostEqual(kind["level_ns"]["server"], 2 * (100 + 3 * n / 4 / 100), delta=1)
        self.assertAlmostEqual(kind["level_ns"]["cluster"], 2 * (servers - 1) * (ALPHA + block / servers), delta=1)
        self.assertEqual(r["most_exposed"], {"kind": "AllReduce", "level": "cluster", "by": "bandwidth"})
        records = [collective(0, 1, ALL_REDUCE, 8000000, 4, 0)]
        ring = self.scale(records, "32", "--algo", "ring", on=SERVERS)[32]
        piped = self.scale(records, "32", "--algo", "pipeline", on=SERVERS)[32]
        self.assertIn(", 4 chunks", piped["kinds"][0]["algorithm"])
        best = min(piped["step_ns"], ring["step_ns"])
        self.assertLessEqual(self.scale(records, "32", on=SERVERS)[32]["step_ns"], best)
        small = [collective(0, 1, ALL_REDUCE, 1, 4, 0)]
        self.assertEqual(self.scale(small, "32", on=SERVERS)[32]["most_exposed"]["by"], "latency")

    def test_installed_topologies(self):
        names = sorted(p.stem for p in (PREFIX / "share/cannon/topologies").glob("*.json"))
        self.assertGreaterEqual(len(names), 3)
        path = self.recording(overlapped(4, 100000000))
        for name in names:
            done = execute(CANNON, "scale", "--devices", "8..10000", "--topology", name, path)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"topology {name}: ", done.stdout)
            self.assertIn("\n   10000 ", done.stdout)
        done = execute(CANNON, "scale", "--devices", "8", "--topology", "torus", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--topology is 'torus', expected the path of a file, or one of ", done.stderr)
        self.assertIn("\n  a2-cluster\n", done.stderr)

    def test_every_kind_has_a_time(self):
        for kind in range(15):
            records = [collective(0, 1, kind, 1000, 4, 0, peer=1)]
            for on in (MESH, WIRE, SERVERS):
                for ranks, r in self.scale(records, "4,8,10", on=on).items():
                    self.assertGreater(r["step_ns"], 0, (kind, ranks))

    # ---- errors ----

    def test_a_recorded_program_without_collectives(self):
        path = self.folder / "own"
        self.assertEqual(execute(CANNON, "run", "--quiet", "--record", path, self.replayer).returncode, 0)
        done = execute(CANNON, "scale", "--devices", "8", path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there are no collectives in it", done.stderr)

    def test_wrong_files_are_refused(self):
        good = self.recording(overlapped(2, 1000)).read_bytes()
        big_rank = self.recording([collective(0, 1, ALL_REDUCE, 1, 2, 2)]).read_bytes()
        big_kind = self.recording([collective(0, 1, 15, 1, 2, 0)]).read_bytes()
        for contents, words in ((b"", "no recording"), (good[:100], "offset 100: the header is cut short"),
                                (good[:-1], "the record is cut short"), (big_rank, "rank is out of range"),
                                (big_kind, "kind, peer or count is out of range")):
            path = self.folder / "wrong"
            path.write_bytes(contents)
            done = execute(CANNON, "scale", "--devices", "8", path)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertIn(f"cannon scale: {path}: ", done.stderr)
            self.assertIn(words, done.stderr)
        self.assertIn("No such file", execute(CANNON, "scale", "--devices", "8", "/nowhere/r").stderr)

    def test_wrong_topologies_are_refused(self):
        path = self.recording(overlapped(2, 1000))
        wrong = topology(level("mesh", 0, 0, ALPHA, 1e9))
        del wrong["levels"][0]["latency_ns"]["source"]
        done = execute(CANNON, "scale", "--devices", "8", "--topology", self.topology(wrong), path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("latency_ns has no source", done.stderr)

    def test_wrong_options(self):
        path = self.recording(self.grid(1000))
        with_devices = ("--devices", "8", path)
        for arguments, words in ((("--devices", "0", path), "--devices is '0'"),
                                 (("--devices", "8..4", path), "--devices is '8..4'"),
                                 (("--devices", "8,,9", path), "--devices is '8,,9'"),
                                 (("--algo", "rings", *with_devices), "--algo is 'rings'"),
                                 (("--algo", "level3:ring", *with_devices), "--algo is 'level3:ring'"),
                                 (("--compute", "-1", *with_devices), "--compute is '-1'"),
                                 (("--compute", "nan", *with_devices), "--compute is 'nan'"),
                                 (("--scale-group", "x", *with_devices), "--scale-group is 'x'"),
                                 (("--scale-group", "3", *with_devices), "--scale-group names no communicator"),
                                 (("--scale-group", "0x99", *with_devices), "0x10, of 2 ranks"),
                                 (("--json", "/nowhere/j", *with_devices), "cannot write /nowhere/j"),
                                 ((path,), "expected --devices"), (("--devices", "8"), "expected a RECORD"),
                                 (("--colour", *with_devices), "unrecognized option")):
            done = execute(CANNON, "scale", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
