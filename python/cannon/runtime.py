# SPDX-License-Identifier: Apache-2.0
"""Devices, streams and device memory.

    with cannon.device(1), cannon.stream() as stream:
        y = cannon.aclnn.Exp(x)                 # queued on that stream of device 1
    stream.synchronize()

Each thread has a current device, and a current stream per device: at first the device's default stream. Every function
may be called from any thread. Memory that an operator allocates belongs to the current stream: when its last view has
gone, the stream's next allocations may use it at once, in the stream's order, and it is freed when the stream is
synchronised.
"""
import atexit
import collections
import ctypes as ct
import itertools
import os
import sys
import threading
import weakref

from ._library import AclError, check, load

H2D, D2H = 1, 2
HBM = 1                                         # ACL_HBM_MEM
DEAD_BYTES, DEAD_BLOCKS = 256 << 20, 4096       # a stream with more memory of dead tensors is synchronised

_closed = False                                 # nothing is freed or destroyed any more: the interpreter ends
_live = {}                                      # {address: device} of all memory that is allocated here
_streams = weakref.WeakSet()
_defaults = {}                                  # {device: its default stream}


class _Thread(threading.local):
    def __init__(self):
        self.number = ct.c_int32()              # where aclrtGetDevice writes
        self.at = ct.byref(self.number)
        self.streams = {}                       # {device: current stream}


_thread = _Thread()


def use_device(number):
    """Makes the device the thread's current one."""
    check("aclrtSetDevice", load().aclrtSetDevice(number))


def device_is(number):
    """Whether the device is the thread's current one. CANN is asked, since others may set it, such as torch_npu."""
    return load().aclrtGetDevice(_thread.at) == 0 and _thread.number.value == number


def current_device():
    """The number of the thread's device; 0 in a thread that has none yet."""
    return 0 if load().aclrtGetDevice(_thread.at) else _thread.number.value


def device_count():
    count = ct.c_uint32()
    check("aclrtGetDeviceCount", load().aclrtGetDeviceCount(ct.byref(count)))
    return count.value


class device:
    """`with cannon.device(1):` makes device 1 the thread's current device within the block."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self._previous = current_device()
        if not device_is(self.number):
            use_device(self.number)
        return self

    def __exit__(self, *exception):
        if self._previous != self.number:
            use_device(self._previous)


on_device = device                              # for functions with a parameter `device`


class Stream:
    """A queue of work on a device. `with stream:` makes it the thread's current stream of its device, and that device
    the current one. `handle` is the aclrtStream as an integer, None for the default stream.

    Launches and synchronisations are numbered by one counter: memory that a launch used is idle once a synchronisation
    with a higher number has completed."""

    def __init__(self, device=None, handle=None):
        self.device = current_device() if device is None else device
        self.handle, self._owned = handle, False
        self.counter = itertools.count(1).__next__
        self.synced = 0                         # the highest number of a completed synchronisation
        self._dead = {}                         # {bytes: deque of (number of the last launch, address)}
        self._dead_bytes = self._dead_blocks = 0        # about; exact after a synchronisation
        self._workspace, self._workspace_bytes = None, 0
        self.lock = threading.Lock()            # from the choice of a workspace to the launch that uses it
        self._previous = []
        _streams.add(self)

    @classmethod
    def create(cls, device=None):
        stream = cls(device)
        with on_device(stream.device):
            handle = ct.c_void_p()
            check("aclrtCreateStream", load().aclrtCreateStream(ct.byref(handle)))
        stream.handle, stream._owned = handle.value, True
        return stream

    def __repr__(self):
        return f"<cannon.Stream {self.handle or 'default'} of device {self.device}>"

    def __enter__(self):
        self._previous.append((on_device(self.device).__enter__(), _thread.streams.get(self.device)))
        _thread.streams[self.device] = self
        return self

    def __exit__(self, *exception):
        device, stream = self._previous.pop()
        _thread.streams[self.device] = stream
        if stream is None:
            del _thread.streams[self.device]
        device.__exit__()

    def synchronize(self):
        """Waits for all work that was queued before, and frees the memory of tensors that have gone."""
        number = self.counter()
        with on_device(self.device):
            check("aclrtSynchronizeStream", load().aclrtSynchronizeStream(self.handle))
        self._retire(number)

    def wait(self, other):
        """Work that is queued on this stream from now on starts after the work that is queued on `other` now."""
        library, event = load(), ct.c_void_p()
        with on_device(other.device):
            check("aclrtCreateEvent", library.aclrtCreateEvent(ct.byref(event)))
            try:
                check("aclrtRecordEvent", library.aclrtRecordEvent(event, other.handle))
                check("aclrtStreamWaitEvent", library.aclrtStreamWaitEvent(self.handle, event))
            finally:
                library.aclrtDestroyEvent(event)

    def _retire(self, number):
        """A synchronisation with that number has completed."""
        self.synced = max(self.synced, number)
        kept_bytes = kept_blocks = 0
        for n_bytes, blocks in list(self._dead.items()):
            for _ in range(len(blocks)):
                try:
                    block = blocks.popleft()    # atomic: other threads take and add blocks meanwhile
                except IndexError:
                    break
                if block[0] <= number:
                    free(block[1])
                else:
                    blocks.append(block)
                    kept_bytes += n_bytes
                    kept_blocks += 1
        self._dead_bytes, self._dead_blocks = kept_bytes, kept_blocks

    def allocate(self, n_bytes):
        """(address, bytes) of memory that the stream's work, and no earlier work of others, may use."""
        size = rounded(n_bytes)
        blocks = self._dead.get(size)
        if blocks:
            try:
                address = blocks.pop()[1]
                self._dead_bytes -= size
                self._dead_blocks -= 1
                return address, size
            except IndexError:
                pass
        if self._dead_bytes > DEAD_BYTES or self._dead_blocks > DEAD_BLOCKS:
            self.synchronize()
        return allocate(size, self.device), size

    def retire_block(self, n_bytes, address, number):
        """Takes back memory whose last use was the launch of that number."""
        if number <= self.synced:
            free(address)
        else:
            self._dead.setdefault(n_bytes, collections.deque()).append((number, address))
            self._dead_bytes += n_bytes
            self._dead_blocks += 1

    def workspace(self, n_bytes):
        """The address of the stream's workspace, grown to at least n_bytes. The caller holds `lock`."""
        if n_bytes > self._workspace_bytes:
            if self._workspace is not None:
                self.retire_block(self._workspace_bytes, self._workspace, self.counter())
                self._workspace, self._workspace_bytes = None, 0
            self._workspace, self._workspace_bytes = self.allocate(max(n_bytes, 2 * self._workspace_bytes))
        return self._workspace

    def __del__(self):
        if _closed or not self._owned or self.handle is None:
            return
        try:
            self.synchronize()
        except AclError:
            pass                                # who waited for the work was told
        if self._workspace is not None:
            free(self._workspace)
        load().aclrtDestroyStream(self.handle)


def stream(device=None):
    """A new stream of the device (the current one if left out)."""
    return Stream.create(device)


def default_stream(device=None):
    number = current_device() if device is None else device
    found = _defaults.get(number)
    return found if found is not None else _defaults.setdefault(number, Stream(number))


def current_stream(device=None):
    number = current_device() if device is None else device
    return _thread.streams.get(number) or default_stream(number)


def torch_stream(number):
    """PyTorch's current stream of the device; None where PyTorch does not use NPUs. torch_npu queues operators for a
    thread of its own, which submits them to the stream; what was queued before is submitted when this returns."""
    torch = sys.modules.get("torch") if "torch_npu" in sys.modules else None
    if torch is None or not torch.npu.is_initialized():
        return None
    return Stream(number, torch.npu.current_stream(number).npu_stream)


def synchronize(device=None):
    """Waits for all work of the device (the current one if left out), also that of PyTorch, and frees the memory of
    tensors that have gone."""
    number = current_device() if device is None else device
    torch_stream(number)                        # submits what PyTorch has queued
    streams = [(s, s.counter()) for s in list(_streams) if s.device == number]
    with on_device(number):
        check("aclrtSynchronizeDevice", load().aclrtSynchronizeDevice())
    for s, n in streams:
        s._retire(n)


def memory_info(device=None):
    """(free bytes, total bytes) of the device's memory."""
    free, total = ct.c_size_t(), ct.c_size_t()
    with on_device(current_device() if device is None else device):
        check("aclrtGetMemInfo", load().aclrtGetMemInfo(HBM, ct.byref(free), ct.byref(total)))
    return free.value, total.value


def rounded(n_bytes):
    """The size of an allocation for that many bytes, so that few sizes occur."""
    return (n_bytes + 511) & ~511 or 512


def allocate(n_bytes, number):
    """The address of new memory of that device. When there is none, dead tensors' memory is freed first."""
    library, address = load(), ct.c_void_p()
    with on_device(number):
        if library.aclrtMalloc(ct.byref(address), n_bytes, 0):
            synchronize(number)
            check("aclrtMalloc", library.aclrtMalloc(ct.byref(address), n_bytes, 0))
    _live[address.value] = number
    return address.value


def free(address):
    """Frees memory that no queued work uses."""
    number = None if _closed else _live.pop(address, None)
    if number is not None:
        if device_is(number):
            load().aclrtFree(address)
        else:
            with on_device(number):
                load().aclrtFree(address)


def copy(to, source, n_bytes, kind):
    """Copies now; kind is H2D or D2H."""
    if n_bytes:
        check("aclrtMemcpy", load().aclrtMemcpy(to, n_bytes, source, n_bytes, kind))


def _forked():
    """A forked child has no device memory: it frees none of its parent's."""
    global _closed
    _closed = True


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close():
    """Frees what is left, so that leak reports show the user's own leaks only."""
    global _closed
    if _closed or not _live and not _streams:
        return
    library = load()
    try:
        for number in set(_live.values()):
            synchronize(number)
    except AclError:
        pass                                    # who waited for the work was told
    _closed = True
    for address in list(_live):
        library.aclrtFree(address)
    for s in list(_streams):
        if s._owned and s.handle is not None:
            library.aclrtDestroyStream(s.handle)
    if library.initialised_here:
        library.aclFinalize()
