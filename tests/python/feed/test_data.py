# SPDX-License-Identifier: Apache-2.0
"""cannon.data: sources, order, decoders in threads and processes, errors, and how batches are given back."""
import ctypes
import gc
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import cannon
from cannon import data

N, RECORD = 100, 512


def first_bytes(record):
    """A decoder with two fields."""
    values = np.frombuffer(record.data, np.uint8)
    return {"value": values[:4].astype(np.float32), "number": np.int64(record.number)}


def fail_at_13(record):
    if record.number == 13:
        raise KeyError("thirteen")
    return np.zeros(3, np.float32)


def die_at_13(record):
    if record.number == 13:
        os._exit(5)
    return np.zeros(3, np.float32)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def numbered(self):
        """Records of which each byte is the number."""
        np.repeat(np.arange(N, dtype=np.uint8), RECORD).tofile(self.path("numbered"))
        return data.fixed(self.path("numbered"), RECORD)


class Sources(Case):
    def test_formats(self):
        words = [b"one", b"", b"three"]
        with open(self.path("prefixed"), "wb") as f:
            f.write(b"".join(struct.pack("<I", len(w)) + w for w in words))
        with open(self.path("plain"), "wb") as f:
            f.write(b"".join(words))
        np.cumsum([0, *map(len, words)]).astype("<u8").tofile(self.path("index"))
        names = []
        for i, word in enumerate(words):
            names.append(self.path(f"file{i}"))
            with open(names[-1], "wb") as f:
                f.write(word)
        for source in (data.prefixed(self.path("prefixed")), data.indexed(self.path("plain"), self.path("index")),
                       data.files(names)):
            self.assertEqual([source[i] for i in range(len(source))], words)
            self.assertEqual(source[-1], words[-1])
            self.assertRaises(IndexError, source.__getitem__, 3)

    def test_wrong_files(self):
        with self.assertRaisesRegex(cannon.AclError, "/nowhere/at/all can't be opened"):
            data.fixed("/nowhere/at/all", 4)
        with self.assertRaisesRegex(ValueError, "one for each of the 1 in paths"):
            data.indexed(["a"], ["b", "c"])

    def test_compressed(self):
        with gzip.open(self.path("data.gz"), "wb") as f:
            f.write(np.repeat(np.arange(N, dtype=np.uint8), RECORD).tobytes())
        source = data.fixed(self.path("data.gz"), RECORD)
        self.assertRaises(TypeError, len, source)
        with data.Feed(source, batch=8, epochs=2, seed=4) as feed:
            for _ in range(2):
                self.assertEqual(sorted(v for b in feed for v in b.numpy()[:, 0].tolist()), list(range(N)))
            self.assertEqual(list(feed), [])


class Feeds(Case):
    def order(self, **options):
        with data.Feed(self.numbered(), **options) as feed:
            found = []
            for batch in feed:
                values = batch.numpy()
                self.assertTrue((values == values[:, :1]).all())
                found += values[:, 0].tolist()
        return found

    def test_order(self):
        self.assertEqual(self.order(batch=7), list(range(N)))
        first = self.order(batch=7, seed=1)
        self.assertEqual(sorted(first), list(range(N)))
        self.assertNotEqual(first, list(range(N)))
        self.assertEqual(self.order(batch=7, seed=1, workers=5, ahead=4), first)
        self.assertNotEqual(self.order(batch=7, seed=2), first)
        shares = [self.order(batch=7, seed=1, rank=r, n_ranks=3) for r in range(3)]
        self.assertEqual(len(set(sum(shares, []))), 99)

    def test_epochs(self):
        with data.Feed(self.numbered(), batch=8, seed=1) as feed:
            self.assertEqual(len(feed), 13)
            orders = [[v for b in feed for v in b.numpy()[:, 0].tolist()] for _ in range(3)]
        self.assertEqual([sorted(o) for o in orders], [list(range(N))] * 3)
        self.assertNotEqual(orders[0], orders[1])

    def test_decoders(self):
        for options in ({}, {"processes": True, "context": "fork"}, {"processes": True, "context": "spawn"}):
            with self.subTest(**options), data.Feed(self.numbered(), batch=8, decode=first_bytes, workers=3, seed=3,
                                                    epochs=1, **options) as feed:
                seen = []
                for batch in feed:
                    self.assertEqual((batch["value"].dtype, batch["value"].shape[1:]), (np.float32, (4,)))
                    self.assertTrue((batch["value"].numpy()[:, 0] == batch["number"].numpy()).all())
                    self.assertEqual(batch["number"].tolist(), batch.records)
                    seen += batch.records
                self.assertEqual(sorted(seen), list(range(N)))

    def test_streams_are_ordered(self):
        """Operators on a batch, without any wait between them."""
        sums = []
        with cannon.stream(), data.Feed(self.numbered(), batch=10, decode=first_bytes, seed=1, epochs=1) as feed:
            for batch in feed:
                sums.append(cannon.aclnn.Adds(batch["value"], 1.0, 1.0))
            records = np.concatenate([s.numpy()[:, 0] for s in sums]) - 1
        self.assertEqual(sorted(records.tolist()), list(range(N)))

    def test_in_place(self):
        seen = []
        with data.Feed(self.numbered(), batch=10, block=10, seed=1, in_place=True) as feed:
            for batch in feed:                  # which is in the mapping of the file
                values = np.frombuffer(ctypes.string_at(batch.data_ptr(), 10 * RECORD), np.uint8).reshape(10, RECORD)
                self.assertTrue((values == values[:, :1]).all())
                seen += values[:, 0].tolist()
        self.assertEqual(sorted(seen), list(range(N)))

    def test_errors(self):
        with self.assertRaisesRegex(cannon.AclError, "record 13, in .*numbered: the decoder has returned 1") as caught:
            for _ in data.Feed(self.numbered(), batch=4, decode=fail_at_13):
                pass
        self.assertIsInstance(caught.exception.__cause__, KeyError)
        with self.assertRaises(cannon.AclError) as caught:
            for _ in data.Feed(self.numbered(), batch=4, decode=die_at_13, processes=True, context="fork"):
                pass
        self.assertIn("exit code 5", str(caught.exception.__cause__))
        with self.assertRaises(cannon.AclError) as caught:
            for _ in data.Feed(self.numbered(), batch=4, decode=fail_at_13, fields=((4,), "float32")):
                pass
        self.assertIn("shape (3,), expected (4,)", str(caught.exception.__cause__))

    def test_kept_batches(self):
        feed = data.Feed(self.numbered(), batch=4, ahead=2)
        kept = []
        with self.assertRaisesRegex(cannon.AclError, "all 3 batches are lent"):
            for batch in feed:
                kept.append(batch)
        feed.close()
        feed.close()
        self.assertEqual([k.numpy()[0, 0] for k in kept], [0, 4, 8])  # they outlive the feed
        self.assertRaisesRegex(ValueError, "the feed is closed", list, feed)
        del kept, batch
        gc.collect()

    def test_stops_anywhere(self):
        for taken in range(12):
            feed = data.Feed(self.numbered(), batch=3, decode=first_bytes, seed=taken, workers=1 + taken % 3)
            for _, batch in zip(range(taken), feed):
                pass
            if taken % 2:
                feed.close()
            del feed
        gc.collect()
        self.assertFalse([t for t in threading.enumerate() if t.name == "cannon.data.loader"])

    def test_summary(self):
        """`cannon run` tells of feeds."""
        self.numbered()
        report = self.path("report.json")
        program = ("import cannon.data as d\n"
                   f"f = d.Feed(d.fixed({self.path('numbered')!r}, {RECORD}), batch=10, epochs=1, name='numbers')\n"
                   "total = sum(int(b.numpy().sum()) for b in f)\n")
        cannon_run = [os.path.join(os.environ["CANNON_PREFIX"], "bin", "cannon"), "run", "--json", report]
        done = subprocess.run([*cannon_run, sys.executable, "-c", program], stderr=subprocess.PIPE, text=True,
                              timeout=50)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"numbers +10 +100 +50.0 KiB")
        with open(report) as f:
            feeds = [feed for process in json.load(f)["processes"] for feed in process["feeds"]]
        self.assertEqual([(f["name"], f["batches"], f["records"]) for f in feeds], [("numbers", 10, 100)])
        self.assertLessEqual(feeds[0]["device_wait_ns"], feeds[0]["span_ns"])

    def test_ends_with_the_interpreter(self):
        """Feeds that nobody closed, whose threads decode."""
        program = ("import sys, numpy as np, cannon.data as d\n"
                   f"source = d.fixed({self.path('numbered')!r}, {RECORD})\n"
                   "f = d.Feed(source, decode=lambda r: np.zeros(9), workers=4)\n"
                   "it = iter(f); kept = [next(it), next(it)]\nprint('end')\n")
        self.numbered()
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=50)
        self.assertEqual((done.returncode, done.stdout), (0, b"end\n"))


if __name__ == "__main__":
    unittest.main()
