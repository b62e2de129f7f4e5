# SPDX-License-Identifier: Apache-2.0
"""Collectives between hosts, which are network namespaces of this machine (tests/support/hosts). Root only: exit status
77 says that the machine does not permit this.

    test_hosts.py HOSTS PROGRAM     the script that makes hosts, and the program of a rank (ranks.c)
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HOSTS, PROGRAM = sys.argv[1:3]
SECONDS = 60  # after which a rank that still runs is a failure

SAMPLE = os.environ.get("HOSTS_SAMPLE")  # set in sanitizers' builds, where a launch takes 5 s
SEED = os.environ.get("CANNON_SEED", "1")


class Hosts:
    """Five hosts, while the object lives."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="cannon_test_hosts.")
        made = self.call("up", "5", check=False)
        if made.returncode == 77:
            print(made.stderr.strip(), file=sys.stderr)
            sys.exit(77)
        assert made.returncode == 0, made.stderr

    def arguments(self, *words):
        return [HOSTS, "-d", os.path.join(self.folder.name, "hosts"), "-o", str(os.getpid()), *words]

    def call(self, *words, check=True):
        return subprocess.run(self.arguments(*words), check=check, capture_output=True, text=True)

    def down(self):
        self.call("down", check=False)
        self.folder.cleanup()


class Launch:
    """The ranks of one communicator, as processes; layout[h] is how many of them are on host h."""

    def __init__(self, hosts, layout, mode, **settings):
        self.folder = tempfile.TemporaryDirectory(dir=hosts.folder.name)
        environment = dict(os.environ, CANNON_DEVICES="4", HCCL_BUFFSIZE="4", **settings)
        # Each host has its own /dev/shm, so that the default ledger is the host's.
        environment.pop("CANNON_LEDGER", None)
        self.processes = []
        for host, n in enumerate(layout):
            for device in range(n):
                words = [PROGRAM, str(sum(layout)), str(len(self.processes)), str(device), self.folder.name, mode]
                self.processes.append(subprocess.Popen(
                    hosts.arguments("run", str(host), "--", *words), env=environment, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT))

    def wait_for_calls(self):
        end = time.monotonic() + SECONDS
        while not os.path.exists(os.path.join(self.folder.name, "calling")):
            assert time.monotonic() < end, "rank 0 calls nothing"
            time.sleep(0.01)

    def outputs(self, ranks=None):
        """The outputs and exit statuses of these ranks (default: all)."""
        every = range(len(self.processes)) if ranks is None else ranks
        try:
            return [(self.processes[r].communicate(timeout=SECONDS)[0], self.processes[r].returncode) for r in every]
        finally:
            for p in self.processes:
                if p.poll() is None:
                    p.kill()
            for p in self.processes:
                p.wait()
                p.stdout.close()
            self.folder.cleanup()


class Collectives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts()

    @classmethod
    def tearDownClass(cls):
        cls.hosts.down()

    def checked(self, layout, **settings):
        """All collectives are right. Returns the number of the sums' bits, which all ranks share."""
        bits = set()
        outputs = Launch(self.hosts, layout, "check", **settings).outputs()
        for output, code in outputs:
            self.assertEqual(code, 0, outputs)
            bits.update(re.findall("bits ([0-9a-f]{16})", output))
        self.assertEqual(len(bits), 1, bits)
        return bits.pop()

    def test_tcp(self):
        self.checked([2, 2], CANNON_NET="tcp")

    def test_ucx(self):
        self.checked([2, 2], CANNON_NET="ucx")

    def test_uneven(self):
        self.checked([2, 1], CANNON_NET="tcp")
        self.checked([1, 2], CANNON_NET="ucx")

    def test_algorithms(self):
        """Each algorithm that HCCL_ALGO can name, on numbers of hosts that are no powers of two; same bits again."""
        algorithms = [("ring", [2, 2, 2]), ("H-D_R", [1] * 5), ("NHR", [2, 2, 2]), ("NB", [1] * 5),
                      ("pairwise", [1, 2, 1])]
        for name, layout in [random.Random(SEED).choice(algorithms)] if SAMPLE else algorithms:
            with self.subTest(name):
                settings = {"HCCL_ALGO": f"level0:NA;level1:{name}", "CANNON_NET": "tcp"}
                self.assertEqual(self.checked(layout, **settings), self.checked(layout, **settings))

    def test_strict_determinism(self):
        strict = {"HCCL_DETERMINISTIC": "strict", "CANNON_NET": "tcp"}
        expected = self.checked([4], **strict)
        self.assertEqual(self.checked([2, 2], **strict), expected)
        if SAMPLE:
            return
        self.assertEqual(self.checked([3, 1], **strict), expected)
        self.assertEqual(self.checked([2, 2], HCCL_DETERMINISTIC="strict", CANNON_NET="ucx"), expected)

    def lost(self, net):
        """Ranks that call AllReduce until it fails."""
        launch = Launch(self.hosts, [2, 2], "lose", CANNON_NET=net)
        launch.wait_for_calls()
        return launch

    def check_words(self, launch, ranks, words):
        for output, code in launch.outputs(ranks):
            self.assertEqual(code, 0, output)
            self.assertRegex(output, "rank [0-9] failed: .*" + words)

    def test_killed_rank(self):
        for net in ("tcp", "ucx"):
            with self.subTest(net):
                launch = self.lost(net)
                launch.processes[3].send_signal(signal.SIGKILL)     # nsenter has become the program
                self.check_words(launch, [0, 1, 2], r"rank 3 \(device 1 of process [0-9]+ on node1\)")

    def test_cut_link(self):
        launches = [self.lost("tcp"), self.lost("ucx")]
        self.hosts.call("cut", "1")
        try:
            for launch in launches:
                self.check_words(launch, None, "rank [0-3] .*is lost")
        finally:
            self.hosts.call("mend", "1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
