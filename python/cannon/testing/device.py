# SPDX-License-Identifier: Apache-2.0
"""The device that a process tests on, and tensors in its memory whose every byte is known.

A tensor lies between two guards. Its memory is written as a whole before an operator runs, and read back as a whole
afterwards, so that bytes which the operator must not write, in the guards and in gaps between elements, are compared,
too. Only CANN's public functions are called, so all of this runs on an NPU with CANN as well.
"""
import ctypes as ct

import numpy as np

from .. import runtime
from .._library import AclError, check, load

GUARD = 512                         # bytes before and behind a tensor; operators expect addresses that 512 divides
PATTERN = 0xA5
NAN = 0xFF                          # bytes that are NaN in every float type: elements that an operator leaves out show


class Device:
    """A device with a stream of its own. One per process; `open_device` makes it."""

    def __init__(self, number=0):
        self.library = load()
        self.number = number
        runtime.use_device(number)
        self.stream = runtime.Stream.create(number)
        self.live = self.peak = 0   # bytes that are allocated here

    def allocate(self, n_bytes):
        address = runtime.allocate(max(n_bytes, 1), self.number)
        self.live += n_bytes
        self.peak = max(self.peak, self.live)
        return address

    def free(self, address, n_bytes):
        self.live -= n_bytes
        runtime.free(address)

    def free_bytes(self):
        return runtime.memory_info(self.number)[0]

    def synchronize(self):
        check("aclrtSynchronizeStream", self.library.aclrtSynchronizeStream(self.stream.handle))

    def soc_name(self):
        function = self.library.find("aclrtGetSocName")
        if function is None:
            return "unknown"
        function.restype, function.argtypes = ct.c_char_p, []
        return (function() or b"unknown").decode()

    def is_cannon(self):
        """Whether the libraries are Cannon's, rather than CANN's for an NPU."""
        return self.library.find("cannon_trim") is not None


_device = None


def open_device(number=0):
    global _device
    if _device is None:
        _device = Device(number)
    runtime.use_device(_device.number)
    return _device


class Block:
    """Memory of a tensor or a workspace between two guards: `sent` is what the host wrote."""

    def __init__(self, device, n_bytes, fill=PATTERN):
        self.device, self.n_bytes = device, n_bytes
        self.sent = np.full(n_bytes + 2 * GUARD, PATTERN, np.uint8)
        self.body[...] = fill
        self.base = device.allocate(self.sent.size)

    @property
    def body(self):
        return self.sent[GUARD:GUARD + self.n_bytes]

    @property
    def address(self):
        return self.base + GUARD

    def send(self):
        runtime.copy(self.base, self.sent.ctypes.data, self.sent.size, runtime.H2D)

    def fetch(self):
        """All bytes, as they are on the device now."""
        back = np.empty_like(self.sent)
        runtime.copy(back.ctypes.data, self.base, back.size, runtime.D2H)
        return back

    def free(self):
        if self.base is not None:
            self.device.free(self.base, self.sent.size)
            self.base = None


class DeviceTensor:
    """A tensor of a call: dtype (testing.dtypes) and placement (testing.layouts) in a Block. `written`: the operator
    may write its elements."""

    def __init__(self, device, name, dtype, placement, written=False):
        self.name, self.dtype, self.placement, self.written = name, dtype, placement, written
        fill = NAN if written and dtype.kind in "fc" else PATTERN
        self.block = Block(device, placement.n_storage * dtype.size, fill)

    def elements(self, raw):
        """The elements in all bytes of the block, as stored."""
        body = raw[GUARD:GUARD + self.block.n_bytes]
        return self.placement.view(body.view(self.dtype.storage))

    def set(self, stored):
        self.elements(self.block.sent)[...] = stored
        return self

    def create(self):
        """The aclTensor, which the caller destroys."""
        p = self.placement
        storage = p.shape if p.is_plain else (p.n_storage,)
        n, m = len(p.shape), len(storage)
        handle = load().aclCreateTensor((ct.c_int64 * n)(*p.shape), n, self.dtype.code, (ct.c_int64 * n)(*p.strides),
                                        p.offset, 2, (ct.c_int64 * m)(*storage), m, self.block.address)
        if not handle:
            raise AclError("aclCreateTensor", -1, load().message())
        return handle

    def changed_outside(self, raw):
        """(bytes that changed and must not have, byte offset of the first from the first element's address, negative
        before it), or None. Elements of a tensor that is not written count as well."""
        changed = raw != self.block.sent
        if not changed.any():
            return None
        if self.written:
            mask = np.zeros(raw.size, bool)
            if self.placement.size:
                steps = [s * self.dtype.size for s in self.placement.strides] + [1]
                start = mask[GUARD + self.placement.offset * self.dtype.size:]
                np.lib.stride_tricks.as_strided(start, (*self.placement.shape, self.dtype.size), steps)[...] = True
            changed &= ~mask
        where = np.flatnonzero(changed)
        if not where.size:
            return None
        return int(where.size), int(where[0]) - GUARD - self.placement.offset * self.dtype.size
