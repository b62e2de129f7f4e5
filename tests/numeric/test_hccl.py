# SPDX-License-Identifier: Apache-2.0
"""Collectives against NumPy: all kinds, types and reductions on three ranks of one process, with odd counts, parts of
buffers at offsets, in place, and V forms with counts of 0. Every byte of every buffer is compared, so nothing else may
be written. Sums of 16-bit floats are computed in float32, in the order of ranks, and rounded once.

The ranks need three devices, so the cases run in a child process that has them.
"""
import ctypes as ct
import os
import subprocess
import sys
import unittest
import zlib

import numpy as np

from dtypes import BF16, DType, F16, F32, F64, I16, I32, I64, I8, U16, U64, U8

U32 = DType("u32", 8, np.uint32, np.uint32, "i")
N = 3
CODES = {I8: 0, I16: 1, I32: 2, F16: 3, F32: 4, I64: 5, U64: 6, U8: 7, U16: 8, U32: 9, F64: 10, BF16: 11}
SUM, PROD, MAX, MIN = range(4)
# What the default device (A2) reduces.
REDUCED = [(t, op) for t in (I8, I16, I32, I64, F16, F32, BF16) for op in (SUM, PROD, MAX, MIN)
           if op != PROD or t not in (I16, BF16)]
REDUCED_V = [(t, op) for t in (I8, I16, I32, F16, F32, BF16) for op in (SUM, MAX, MIN)]
ROOM = 1 << 15            # bytes of each buffer
SEED = int(os.environ.get("CANNON_SEED") or int.from_bytes(os.urandom(4), "little"))
SCALE = {"": 1.0, "small": 0.1, "large": 10.0}.get(os.environ.get("CANNON_CASES", "")) \
    or float(os.environ["CANNON_CASES"])


# ---- what NumPy says

NAN_BITS = {F16: 0x7E00, BF16: 0x7FC0, F32: 0x7FC00000, F64: 0x7FF8 << 48}


def reduced(t, op, parts):
    """The reduction of the stored parts, in their order."""
    values = [t.load(p) for p in parts]
    total = values[0]
    with np.errstate(all="ignore"):
        for v in values[1:]:
            before = total
            total = {SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum}[op](total, v)
            if t.kind == "f" and op in (MAX, MIN):      # of two zeros, max takes +0 and min -0
                total = np.where((before == 0) & (v == 0), zero(before, v, op), total)
    if t.kind != "f":
        return t.store(total)
    bits = t.store(t.round(total) if t in (F16, BF16) else total)
    word = {2: np.uint16, 4: np.uint32, 8: np.uint64}[t.size]
    return np.where(np.isnan(total), word(NAN_BITS[t]), bits.view(word)).astype(word).view(t.storage)


def zero(a, b, op):
    negative = (np.signbit(a) & np.signbit(b)) if op == MAX else (np.signbit(a) | np.signbit(b))
    return np.where(negative, -np.zeros_like(a), np.zeros_like(a))


# ---- the ranks

class Rank:
    def __init__(self, world, index):
        acl = world.acl
        self.world, self.index = world, index
        self.stream, self.send, self.receive = ct.c_void_p(), ct.c_void_p(), ct.c_void_p()
        world.ok(acl.aclrtSetDevice(index))
        world.ok(acl.aclrtCreateStream(ct.byref(self.stream)))
        for buffer in (self.send, self.receive):
            world.ok(acl.aclrtMalloc(ct.byref(buffer), ct.c_size_t(ROOM), 0))

    def put(self, buffer, data):
        self.world.ok(self.world.acl.aclrtMemcpy(buffer, ct.c_size_t(ROOM), data.ctypes.data_as(ct.c_void_p),
                                                 ct.c_size_t(ROOM), 1))

    def get(self, buffer):
        out = np.empty(ROOM, np.uint8)
        self.world.ok(self.world.acl.aclrtMemcpy(out.ctypes.data_as(ct.c_void_p), ct.c_size_t(ROOM), buffer,
                                                 ct.c_size_t(ROOM), 2))
        return out


class World:
    def __init__(self):
        prefix = os.environ["CANNON_PREFIX"]
        lib = os.path.join(prefix, "lib64")
        self.acl = ct.CDLL(os.path.join(lib, "libascendcl.so"))
        self.hccl = ct.CDLL(os.path.join(lib, "libhccl.so"))
        self.acl.aclGetRecentErrMsg.restype = ct.c_char_p
        self.ok(self.acl.aclInit(None))
        self.ranks = [Rank(self, i) for i in range(N)]
        self.comms = (ct.c_void_p * N)()
        self.ok(self.hccl.HcclCommInitAll(N, (ct.c_int32 * N)(*range(N)), self.comms))

    def ok(self, code):
        if code:
            raise AssertionError(f"code {code}: {(self.acl.aclGetRecentErrMsg() or b'').decode()}")

    def close(self):
        for comm in self.comms:
            self.ok(self.hccl.HcclCommDestroy(ct.c_void_p(comm)))

    def run(self, case):
        """Runs a case: fills the buffers, has each rank call, and compares all bytes."""
        before, after = [], []
        for r in self.ranks:
            send = case.rng.integers(0, 256, ROOM, np.uint8)
            receive = send if case.in_place else case.rng.integers(0, 256, ROOM, np.uint8)
            before.append([send, receive])
            after.append([send.copy(), receive.copy()])
        case.fill(before)
        for i, (send, receive) in enumerate(before):
            after[i][:] = [send.copy(), receive.copy()]
        case.expect(before, after)
        for i, r in enumerate(self.ranks):
            self.ok(self.acl.aclrtSetDevice(i))
            r.put(r.send, before[i][0])
            if not case.in_place:
                r.put(r.receive, before[i][1])
            to = r.send if case.in_place else r.receive
            self.ok(case.call(self.hccl, i, r.send.value, to.value, ct.c_void_p(self.comms[i]), r.stream))
        for i, r in enumerate(self.ranks):
            self.ok(self.acl.aclrtSetDevice(i))
            self.ok(self.acl.aclrtSynchronizeStream(r.stream))
            for name, buffer, want in (("send", r.send, after[i][0]), ("receive", r.receive, after[i][1])):
                if case.in_place:
                    if name == "send":
                        continue
                    buffer = r.send
                got = r.get(buffer)
                if not np.array_equal(got, want):
                    at = int(np.argmax(got != want))
                    raise AssertionError(f"rank {i}: byte {at} of the {name} buffer is {got[at]:#x}, expected "
                                         f"{want[at]:#x}")


# ---- cases: each kind says which elements it reads and writes

class Case:
    def __init__(self, rng):
        self.rng = rng
        self.in_place = False
        self.t = self.pick(list(CODES))
        self.op = SUM
        self.root = int(rng.integers(N))
        self.count = int(self.pick([1, 2, 3, 7, 15, 17, 63, 129, 255, 257, 1001]))
        self.prepare()
        self.at_send, self.at_receive = (int(x) for x in rng.integers(0, 20, 2))      # in elements
        if self.in_place:
            self.set_in_place()

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def __str__(self):
        return (f"{type(self).__name__} of {self.count} {self.t}, op {self.op}, root {self.root}, from element "
                f"{self.at_send} to {self.at_receive}{', in place' if self.in_place else ''}")

    def prepare(self):
        pass

    def set_in_place(self):
        self.at_receive = self.at_send

    def fill(self, before):
        """Numbers of all sizes, for types that compute: random bytes have too many NaNs."""
        if self.t.kind != "f":
            return
        for pair in before:
            n = ROOM // self.t.size
            values = self.rng.standard_normal(n) * np.exp2(self.rng.integers(-8, 9, n))
            special = self.rng.random(n)
            for limit, value in ((0.01, np.nan), (0.02, np.inf), (0.03, -np.inf), (0.05, 0.0), (0.07, -0.0)):
                values = np.where((special < limit) & (special >= limit - 0.01), value, values)
            pair[0][:] = self.t.store(self.t.round(values)).view(np.uint8)

    def elements(self, buffer, first, n):
        return buffer.view(self.t.storage)[first:first + n]

    def addresses(self, send, to):
        return (ct.c_void_p(send + self.at_send * self.t.size), ct.c_void_p(to + self.at_receive * self.t.size))

    def words(self, values):
        return (ct.c_uint64 * len(values))(*values)


class Reducing(Case):
    def prepare(self):
        self.t, self.op = self.pick(REDUCED)
        self.in_place = bool(self.rng.random() < 0.4)

    def parts(self, before, first, n):
        return [self.elements(pair[0], self.at_send + first, n).copy() for pair in before]


class AllReduce(Reducing):
    def expect(self, before, after):
        total = reduced(self.t, self.op, self.parts(before, 0, self.count))
        for pair in after:
            self.elements(pair[1], self.at_receive, self.count)[:] = total

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclAllReduce(a, b, ct.c_uint64(self.count), CODES[self.t], self.op, comm, stream)


class Reduce(Reducing):
    def expect(self, before, after):
        total = reduced(self.t, self.op, self.parts(before, 0, self.count))
        self.elements(after[self.root][1], self.at_receive, self.count)[:] = total

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclReduce(a, b, ct.c_uint64(self.count), CODES[self.t], self.op, self.root, comm, stream)


class ReduceScatter(Reducing):
    def prepare(self):
        super().prepare()
        self.in_place = False

    def expect(self, before, after):
        for i, pair in enumerate(after):
            total = reduced(self.t, self.op, self.parts(before, i * self.count, self.count))
            self.elements(pair[1], self.at_receive, self.count)[:] = total

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclReduceScatter(a, b, ct.c_uint64(self.count), CODES[self.t], self.op, comm, stream)


class ReduceScatterV(Reducing):
    def prepare(self):
        self.t, self.op = self.pick(REDUCED_V)
        self.counts = [int(self.rng.integers(0, 300)) if self.rng.random() < 0.7 else 0 for _ in range(N)]
        if not any(self.counts):
            self.counts[0] = 5
        self.offsets = [int(x) for x in np.cumsum([0] + [c + 3 for c in self.counts[:-1]])]

    def expect(self, before, after):
        for i, pair in enumerate(after):
            total = reduced(self.t, self.op, self.parts(before, self.offsets[i], self.counts[i]))
            self.elements(pair[1], self.at_receive, self.counts[i])[:] = total

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclReduceScatterV(a, self.words(self.counts), self.words(self.offsets), b,
                                      ct.c_uint64(self.counts[rank]), CODES[self.t], self.op, comm, stream)


class Broadcast(Case):
    def prepare(self):
        self.in_place = True

    def expect(self, before, after):
        source = self.elements(before[self.root][0], self.at_send, self.count)
        for pair in after:
            self.elements(pair[1], self.at_send, self.count)[:] = source

    def call(self, lib, rank, send, to, comm, stream):
        return lib.HcclBroadcast(self.addresses(send, to)[0], ct.c_uint64(self.count), CODES[self.t], self.root, comm,
                                 stream)


class Scatter(Case):
    def expect(self, before, after):
        for i, pair in enumerate(after):
            self.elements(pair[1], self.at_receive, self.count)[:] = \
                self.elements(before[self.root][0], self.at_send + i * self.count, self.count)

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclScatter(a if rank == self.root else None, b, ct.c_uint64(self.count), CODES[self.t], self.root,
                               comm, stream)


class AllGather(Case):
    def expect(self, before, after):
        for pair in after:
            for i in range(N):
                self.elements(pair[1], self.at_receive + i * self.count, self.count)[:] = \
                    self.elements(before[i][0], self.at_send, self.count)

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclAllGather(a, b, ct.c_uint64(self.count), CODES[self.t], comm, stream)


class AllGatherV(ReduceScatterV):
    def prepare(self):
        super().prepare()
        self.t = self.pick(list(CODES))

    def expect(self, before, after):
        for pair in after:
            for i in range(N):
                self.elements(pair[1], self.at_receive + self.offsets[i], self.counts[i])[:] = \
                    self.elements(before[i][0], self.at_send, self.counts[i])

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclAllGatherV(a, ct.c_uint64(self.counts[rank]), b, self.words(self.counts),
                                  self.words(self.offsets), CODES[self.t], comm, stream)


class AlltoAll(Case):
    def expect(self, before, after):
        for i, pair in enumerate(after):
            for k in range(N):
                self.elements(pair[1], self.at_receive + k * self.count, self.count)[:] = \
                    self.elements(before[k][0], self.at_send + i * self.count, self.count)

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclAlltoAll(a, ct.c_uint64(self.count), CODES[self.t], b, ct.c_uint64(self.count), CODES[self.t],
                                comm, stream)


class AlltoAllV(Case):
    def prepare(self):
        self.matrix = self.rng.integers(0, 200, (N, N)) * (self.rng.random((N, N)) < 0.7)

    def layout(self, counts):
        return [int(x) for x in np.cumsum([0] + [int(c) + 2 for c in counts[:-1]])]

    def expect(self, before, after):
        for i, pair in enumerate(after):
            to = self.layout(self.matrix[:, i])
            for k in range(N):
                n = int(self.matrix[k, i])
                self.elements(pair[1], self.at_receive + to[k], n)[:] = \
                    self.elements(before[k][0], self.at_send + self.layout(self.matrix[k])[i], n)

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        sent, received = [int(x) for x in self.matrix[rank]], [int(x) for x in self.matrix[:, rank]]
        return lib.HcclAlltoAllV(a, self.words(sent), self.words(self.layout(sent)), CODES[self.t], b,
                                 self.words(received), self.words(self.layout(received)), CODES[self.t], comm, stream)


class AlltoAllVC(AlltoAllV):
    def layout(self, counts):
        return [int(x) for x in np.cumsum([0] + [int(c) for c in counts[:-1]])]

    def call(self, lib, rank, send, to, comm, stream):
        a, b = self.addresses(send, to)
        return lib.HcclAlltoAllVC(a, self.words([int(x) for x in self.matrix.ravel()]), CODES[self.t], b, CODES[self.t],
                                  comm, stream)


KINDS = (AllReduce, Reduce, ReduceScatter, ReduceScatterV, Broadcast, Scatter, AllGather, AllGatherV, AlltoAll,
         AlltoAllV, AlltoAllVC)


def run_ranks():
    world = World()
    for kind in KINDS:
        for i in range(max(4, round(40 * SCALE))):
            case = kind(np.random.default_rng([SEED, zlib.crc32(kind.__name__.encode()), i]))
            try:
                world.run(case)
            except AssertionError as e:
                raise AssertionError(f"{case}, case {i} of CANNON_SEED={SEED}: {e}") from e
    world.close()


class Collectives(unittest.TestCase):
    def test_all(self):
        environment = dict(os.environ, CANNON_DEVICES=str(N), HCCL_BUFFSIZE="16", CANNON_SEED=str(SEED))
        environment["CANNON_LEDGER"] = environment.get("CANNON_LEDGER", "/dev/shm/test_hccl") + f".{os.getpid()}"
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__)], env=environment, text=True,
                                  capture_output=True, timeout=400)
        finally:
            if os.path.exists(environment["CANNON_LEDGER"]):
                os.unlink(environment["CANNON_LEDGER"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    run_ranks()
