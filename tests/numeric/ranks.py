# SPDX-License-Identifier: Apache-2.0
"""Operators that communicate: the ranks of a communicator, with a device each, in this process and one thread.

    ranks = Ranks(0, 1)
    run_ranks(ranks, "aclnnMatmulAllReduce", [(x1, x2, None, ranks.name, "sum", 0, 1, out) for each rank])

`run_ranks` launches the operator on all ranks, waits, and checks what `acl.run` checks.
"""
import ctypes as ct
import functools
import os

import numpy as np

import acl
from acl import GUARD, Block, call_phase_one, check, device, lib, params, recent_message

DEVICES = 4
os.environ.setdefault("CANNON_DEVICES", str(DEVICES))       # read when the library is first used, that is, later


@functools.lru_cache(None)
def _hccl():
    return ct.CDLL(os.path.join(os.environ["CANNON_PREFIX"], "lib64", "libhccl.so"), ct.RTLD_GLOBAL)


def use_device(number):
    check("aclrtSetDevice", lib().aclrtSetDevice(number))


class Ranks:
    """A communicator of some devices, in their order, and a stream on each."""

    def __init__(self, *devices):
        self.devices, self.n = devices, len(devices)
        device()
        self.comms, name = (ct.c_void_p * self.n)(), ct.create_string_buffer(128)
        check("HcclCommInitAll", _hccl().HcclCommInitAll(self.n, (ct.c_int32 * self.n)(*devices), self.comms))
        check("HcclGetCommName", _hccl().HcclGetCommName(ct.c_void_p(self.comms[0]), name))
        self.name = name.value
        self.streams = [self._stream(i) for i in devices]
        use_device(0)

    @staticmethod
    def _stream(number):
        stream = ct.c_void_p()
        use_device(number)
        check("aclrtCreateStream", lib().aclrtCreateStream(ct.byref(stream)))
        return stream

    def close(self):
        for number, stream, comm in zip(self.devices, self.streams, self.comms):
            use_device(number)
            check("aclrtDestroyStream", lib().aclrtDestroyStream(stream))
            check("HcclCommDestroy", _hccl().HcclCommDestroy(ct.c_void_p(comm)))
        use_device(0)


class _Launch:
    """One rank's call: its memory lies on the rank's device."""

    def __init__(self, op, args):
        self.op, self.own, self.touched = op, [], {}
        for t, written in acl._tensors(args, params(op)):
            self.touched.setdefault(t.block, []).extend([t] if written else [])
        for block in self.touched:
            self.put(block)
        size, executor = ct.c_uint64(0), ct.c_void_p()
        recent_message()
        code, destroy = call_phase_one(op, args, ct.byref(size), ct.byref(executor))
        if code:
            message = recent_message()
            destroy()
            self.free()
            raise acl.AclError(op + "GetWorkspaceSize", code, message)
        self.executor, self.size, self.destroy, self.args = executor, size.value, destroy, args
        self.workspace = Block(size.value) if size.value else None
        if self.workspace:
            self.put(self.workspace)

    def put(self, block):
        block.base = device().malloc(block.sent.size)
        self.own.append(block)
        device().upload(block.base, block.sent)

    def start(self, stream, repeated):
        if repeated:
            acl._readdress(self.op, self.executor, self.args, self.destroy.handles)
        _, two = lib().pair(self.op)
        for _ in range(2 if repeated else 1):
            code = two(self.workspace.address if self.workspace else None, self.size, self.executor, stream)
            check(self.op, code)
        self.destroy()
        if repeated:
            check("aclDestroyAclOpExecutor", lib().aclDestroyAclOpExecutor(self.executor))

    def take(self):
        for block, views in self.touched.items():
            acl._take_back(self.op, block, views)
        if self.workspace:
            back = self.workspace.fetch()
            if (back[:GUARD] != 0xA5).any() or (back[-GUARD:] != 0xA5).any():
                raise AssertionError(f"{self.op} wrote outside its workspace of {self.size} bytes")

    def free(self):
        for block in self.own:
            check("aclrtFree", lib().aclrtFree(block.base))
            block.base = None


def _wait(number, stream):
    """Waits for a stream; returns its failure, if there is one."""
    use_device(number)
    code = lib().aclrtSynchronizeStream(stream)
    return acl.AclError("aclrtSynchronizeStream", code, recent_message()) if code else None


@acl.watched
def run_ranks(ranks, op, calls, repeated=False):
    """Calls both phases on each rank with its arguments, calls[rank]; afterwards the tensors hold the results.
    repeated: by an executor that is launched twice, with every tensor's address set anew."""
    launches = []
    for number, args in zip(ranks.devices, calls):
        use_device(number)
        launches.append(_Launch(op, args))
    for number, stream, one in zip(ranks.devices, ranks.streams, launches):
        use_device(number)
        one.start(stream, repeated)
    failures = [f for f in map(_wait, ranks.devices, ranks.streams) if f]
    for one in launches:
        if not failures:
            one.take()
        one.free()
    use_device(0)
    if failures:
        raise failures[0]
    acl.check_inference(op, calls[0], ask=False)
    acl.record_call(op)
    return [one.size for one in launches]
