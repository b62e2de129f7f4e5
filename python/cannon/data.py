# SPDX-License-Identifier: Apache-2.0
"""Data that arrives in time: records from files larger than memory, decoded by several threads or processes, and copied
to the device some batches ahead of the program.

    source = cannon.data.fixed("train.bin", record_bytes=3073)
    feed = cannon.data.Feed(source, batch=64, decode=decode, workers=4, seed=1)
    for epoch in range(10):
        for batch in feed:                      # {"image": cannon.Tensor, "label": cannon.Tensor}
            step(batch["image"], batch["label"])

A feed goes on where the last loop has ended, and is one epoch long for a loop. Its batches are on the device when the
current stream comes to them; no host thread waits for that. The memory of a batch is used again when its last tensor
has gone and the stream has passed: who keeps more than `ahead` + 1 batches gets an error instead of the next.

`feed.torch()` gives npu tensors of PyTorch instead. `loader()` does the same for users of torch.utils.data.

Feeds need Cannon's library; `loader()` also works on an NPU with CANN. include/cannon/feed.h describes the C interface.
"""
import atexit
import collections
import ctypes as ct
import os
import re
import threading
import weakref

from . import runtime
from ._library import AclError, load

FIXED, INDEXED, FILES, PREFIXED, TFRECORD = range(5)
MAX_FIELDS = 16
POLL_MS = 100                                   # how long a signal, such as that of Ctrl-C, may wait
BATCH, END, NOT_YET = range(3)


class _ReaderConfig(ct.Structure):
    _fields_ = [("format", ct.c_int), ("paths", ct.POINTER(ct.c_char_p)), ("n_paths", ct.c_size_t),
                ("indexes", ct.POINTER(ct.c_char_p)), ("record_bytes", ct.c_uint64), ("header_bytes", ct.c_uint64),
                ("prefix_bytes", ct.c_uint32), ("streamed", ct.c_bool), ("gzip", ct.c_bool)]


class _Record(ct.Structure):
    _fields_ = [("number", ct.c_uint64), ("epoch", ct.c_uint64), ("random", ct.c_uint64), ("data", ct.c_void_p),
                ("bytes", ct.c_size_t), ("file", ct.c_char_p)]


_Decode = ct.CFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(_Record), ct.POINTER(ct.c_void_p))


class _FeedConfig(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("batch", ct.c_uint32), ("ahead", ct.c_uint32), ("workers", ct.c_uint32),
                ("shuffle", ct.c_bool), ("drop_last", ct.c_bool), ("seed", ct.c_uint64), ("block", ct.c_uint64),
                ("window", ct.c_uint32), ("epochs", ct.c_uint64), ("rank", ct.c_uint32), ("n_ranks", ct.c_uint32),
                ("field_bytes", ct.POINTER(ct.c_uint64)), ("n_fields", ct.c_size_t), ("decode", _Decode),
                ("argument", ct.c_void_p), ("in_place", ct.c_bool)]


class _Batch(ct.Structure):
    _fields_ = [("state", ct.c_int), ("number", ct.c_uint64), ("epoch", ct.c_uint64), ("count", ct.c_uint32),
                ("n_fields", ct.c_uint32), ("field", ct.c_void_p * MAX_FIELDS), ("records", ct.POINTER(ct.c_uint64))]


class _Stats(ct.Structure):
    _fields_ = [(name, ct.c_uint64) for name in ("n_batches", "n_records", "record_bytes", "decode_ns", "full_ns",
                                                 "host_ns", "device_ns")]


_PROTOTYPES = {
    "cannon_reader_open": (ct.c_void_p, ct.POINTER(_ReaderConfig)),
    "cannon_reader_count": (ct.c_void_p, ct.c_void_p),
    "cannon_reader_read": (ct.c_void_p, ct.c_uint64, ct.c_void_p, ct.c_size_t, ct.c_void_p),
    "cannon_reader_close": (ct.c_void_p,),
    "cannon_feed_create": (ct.c_void_p, ct.c_void_p, ct.POINTER(_FeedConfig)),
    "cannon_feed_next": (ct.c_void_p, ct.c_void_p, ct.c_int32, ct.POINTER(_Batch)),
    "cannon_feed_release": (ct.c_void_p, ct.c_uint64, ct.c_void_p),
    "cannon_feed_stop": (ct.c_void_p,),
    "cannon_feed_destroy": (ct.c_void_p,),
    "cannon_feed_get_stats": (ct.c_void_p, ct.POINTER(_Stats)),
    "cannon_meter_create": (ct.c_void_p, ct.c_char_p),
    "cannon_meter_ask": (ct.c_void_p, ct.c_void_p),
    "cannon_meter_got": (ct.c_void_p, ct.c_void_p, ct.c_uint64, ct.c_uint64),
    "cannon_meter_destroy": (ct.c_void_p,),
}
_functions = {}


def _call(name, *arguments):
    """Calls a function of the C interface; raises AclError where it fails."""
    if not _functions:
        for known, types in _PROTOTYPES.items():
            function = load().find(known)
            if function is None:
                raise ImportError(f"{known} is missing: feeds need Cannon's library, which CANN does not have")
            function.restype, function.argtypes = ct.c_int, types
            _functions[known] = function
        default = load().find("cannon_feed_default_config")
        default.restype, default.argtypes = _FeedConfig, []
        _functions["default"] = default
    code = _functions[name](*arguments)
    if code:
        raise AclError(name, code, load().message())


# ---- sources


class Source:
    """Records in files. `len(source)` is their number, `source[i]` the bytes of one. Made by the functions below."""

    def __init__(self, format, paths, indexes=None, record_bytes=0, header_bytes=0, prefix_bytes=0, streamed=False,
                 gzip=None):
        paths = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)
        self._paths = [os.fsencode(p) for p in paths]
        n = len(self._paths)
        self.gzip = all(p.endswith(b".gz") for p in self._paths) if gzip is None else bool(gzip)
        self.streamed = bool(streamed or self.gzip)
        strings = ct.c_char_p * max(n, 1)
        config = _ReaderConfig(format, strings(*self._paths), n, None, record_bytes, header_bytes, prefix_bytes,
                               self.streamed, self.gzip)
        if indexes is not None:
            names = [indexes] if isinstance(indexes, (str, bytes, os.PathLike)) else list(indexes)
            if len(names) != n:
                raise ValueError(f"indexes has {len(names)} files, expected one for each of the {n} in paths")
            config.indexes = strings(*[os.fsencode(p) for p in names])
        handle = ct.c_void_p()
        _call("cannon_reader_open", ct.byref(handle), ct.byref(config))
        self.handle, self.record_bytes = handle.value, record_bytes
        self._close = weakref.finalize(self, _functions["cannon_reader_close"], handle.value)
        count = ct.c_uint64()
        _call("cannon_reader_count", self.handle, ct.byref(count))
        self._count = None if self.streamed else count.value

    def __len__(self):
        if self._count is None:
            raise TypeError("a streamed source does not know its number of records")
        return self._count

    def __getitem__(self, number):
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        size = ct.c_size_t()
        _call("cannon_reader_read", self.handle, number, None, 0, ct.byref(size))
        data = ct.create_string_buffer(max(size.value, 1))
        _call("cannon_reader_read", self.handle, number, data, size.value, ct.byref(size))
        return data.raw[:size.value]


def fixed(paths, record_bytes, header_bytes=0, streamed=False, gzip=None):
    """Records of one size, behind a header in each file. streamed: read in order, from a pipe for example. gzip:
    compressed; by default where all names end in .gz."""
    return Source(FIXED, paths, record_bytes=record_bytes, header_bytes=header_bytes, streamed=streamed, gzip=gzip)


def indexed(paths, indexes):
    """Records of any size. The file of offsets has a little-endian uint64 for the start of each record, and one for the
    end of the last."""
    return Source(INDEXED, paths, indexes=indexes, gzip=False)


def files(paths):
    """Each file is a record."""
    return Source(FILES, paths, gzip=False)


def prefixed(paths, prefix_bytes=4, streamed=False, gzip=None):
    """Records behind their lengths, of 2, 4 or 8 bytes, little-endian."""
    return Source(PREFIXED, paths, prefix_bytes=prefix_bytes, streamed=streamed, gzip=gzip)


def tfrecord(paths, streamed=False, gzip=None):
    """TFRecord files."""
    return Source(TFRECORD, paths, streamed=streamed, gzip=gzip)


# ---- decoding


class Record:
    """What a decoder gets: `data`, a memoryview that is valid during the call; `number` of the record in its source,
    `epoch`, `file`, and `random`, a number that depends on the seed, the epoch and the record alone."""
    __slots__ = ("data", "number", "epoch", "random", "file")

    def __init__(self, data, number=0, epoch=0, random=0, file=""):
        self.data, self.number, self.epoch, self.random, self.file = data, number, epoch, random, file


class Field(collections.namedtuple("Field", "shape dtype")):
    """The shape, without the batch's dimension, and the dtype of a part of a record."""

    @property
    def n_bytes(self):
        n = self.dtype.size
        for d in self.shape:
            n *= d
        return n


def _field(given, name):
    from . import dtypes
    if isinstance(given, Field):
        return given
    try:
        shape, dtype = given
        return Field(tuple(int(d) for d in shape), dtypes.of(dtype))
    except (TypeError, ValueError) as error:
        raise TypeError(f"fields: {name} is {given!r}, expected (shape, dtype)") from error


class _Decoder:
    """Calls the user's function for each record, in threads of the feed, and writes what it returns into the batch."""

    def __init__(self, function, names, fields):
        self.function, self.names, self.fields = function, names, fields
        self.errors = {}                        # {number of the record: exception}
        self.callback = _Decode(self.call)

    def call(self, _, record, fields):
        r = record[0]
        try:
            data = memoryview((ct.c_char * r.bytes).from_address(r.data or 0)).cast("B") if r.bytes else memoryview(b"")
            self.store(Record(data.toreadonly(), r.number, r.epoch, r.random, os.fsdecode(r.file)), fields)
            return 0
        except BaseException as error:          # which goes to the thread that asks for the batch
            self.errors[r.number] = error
            return 1

    def store(self, record, fields):
        import numpy as np
        values = self.values(self.function(record))
        for i, (name, field, value) in enumerate(zip(self.names, self.fields, values)):
            array = np.asarray(value)
            if array.shape != field.shape:
                raise ValueError(f"{name or 'the decoder'} has shape {array.shape}, expected {field.shape}")
            place = (ct.c_char * field.n_bytes).from_address(fields[i])
            np.frombuffer(place, field.dtype.numpy).reshape(field.shape)[...] = array

    def values(self, result):
        """The values of the fields in order."""
        if self.names == (None,):
            return (result,)
        missing = [n for n in self.names if n not in result]
        if missing:
            raise KeyError(f"the decoder gave {sorted(result)}, without {missing[0]}")
        return [result[n] for n in self.names]


def _infer(decode, source):
    """The names and fields of what the decoder makes of the first record."""
    import numpy as np
    from . import dtypes
    if source.streamed:
        raise TypeError("fields is needed, since a streamed source can't be read in advance")
    result = decode(Record(memoryview(source[0])))
    named = result if isinstance(result, dict) else {None: result}
    arrays = {name: np.asarray(value) for name, value in named.items()}
    return tuple(arrays), [Field(a.shape, dtypes.of(a.dtype)) for a in arrays.values()]


def _layout(decode, fields, source):
    """The names (None for a single one without) and fields of a batch."""
    if fields is None and decode is not None:
        return _infer(decode, source)
    if fields is None:
        n = source.record_bytes or (len(source[0]) if not source.streamed else 0)
        return (None,), [_field(((n,), "uint8"), "the record")]
    if isinstance(fields, dict):
        return tuple(fields), [_field(given, name) for name, given in fields.items()]
    return (None,), [_field(fields, "it")]


# ---- decoding in processes


def _serve(connection, function):
    """The main function of a process: decodes what it is sent, until the connection ends."""
    import pickle
    import traceback
    import numpy as np
    try:
        while True:
            words = connection.recv()
            data = connection.recv_bytes()
            try:
                result = function(Record(memoryview(data), *words))
                if isinstance(result, dict):
                    result = {name: np.asarray(value) for name, value in result.items()}
                reply = pickle.dumps((True, result))
            except BaseException as error:
                error.__cause__ = _Remote(traceback.format_exc())
                try:
                    reply = pickle.dumps((False, error))
                except Exception:
                    reply = pickle.dumps((False, RuntimeError(traceback.format_exc())))
            connection.send_bytes(reply)
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass


class _Remote(Exception):
    """The traceback of another process, as text."""

    def __str__(self):
        return f"\n{self.args[0]}"


class _Processes:
    """A decoder that hands each record to a free process, and waits for it."""

    def __init__(self, function, n, context):
        import multiprocessing
        import queue
        context = multiprocessing.get_context(context)
        self.free, self.all = queue.LifoQueue(), []
        for _ in range(n):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, function), daemon=True)
            process.start()
            there.close()
            self.all.append((process, here))
            self.free.put((process, here))

    def __call__(self, record):
        import pickle
        process, connection = worker = self.free.get()
        try:
            connection.send((record.number, record.epoch, record.random, record.file))
            connection.send_bytes(record.data)
            good, result = pickle.loads(connection.recv_bytes())
        except (EOFError, OSError) as error:
            process.join(5)
            raise RuntimeError(f"process {process.pid} of the decoder has ended, with exit code "
                               f"{process.exitcode}") from error
        finally:
            self.free.put(worker)
        if not good:
            raise result
        return result

    def close(self):
        for process, connection in self.all:
            connection.close()
        for process, connection in self.all:
            process.join(5)
            if process.is_alive():
                process.kill()
        self.all = []


# ---- feeds


class _State:
    """The C feed, which lives until it is closed and no batch of it is lent any more."""

    def __init__(self, handle, decoder, processes):
        self.handle, self.decoder, self.processes = handle, decoder, processes
        self.lock = threading.RLock()           # a finaliser may interrupt the thread that holds it
        self.lent, self.closed = 0, False

    def lend(self):
        with self.lock:
            self.lent += 1

    def give_back(self, number, final=False):
        """A batch's last tensor has gone."""
        with self.lock:
            if self.handle is not None:
                _functions["cannon_feed_release"](self.handle, number, None)
            self.lent -= 1
            self._end()

    def close(self):
        """Stops the feed; it is destroyed at once, or with the last of its tensors."""
        with self.lock:
            if not self.closed:
                self.closed = True
                _functions["cannon_feed_stop"](self.handle)
                self._end()

    def _end(self):
        if not self.closed or self.lent or self.handle is None:
            return
        handle, self.handle = self.handle, None
        _functions["cannon_feed_destroy"](handle)
        if self.processes:
            self.processes.close()

    def at_end_of_process(self):
        """The interpreter ends: no thread may call a decoder afterwards."""
        with self.lock:
            self.lent = 0
            self.closed = True
            if self.handle is not None:
                _functions["cannon_feed_stop"](self.handle)
                self._end()


def _loan_type():
    """The storage of a lent batch, a class that is made at first use, since it needs cannon.tensor."""
    from .tensor import Storage

    class Loan(Storage):
        __slots__ = ("state", "number", "lent_to")

        def share(self):
            """Others will use the memory: PyTorch, on the stream that the batch was lent to if that is its own."""
            if self.lent_to is not None:
                self.wait()

        def __del__(self):
            """Gives the batch back, in the order of the streams that have used it; the host waits for none."""
            if runtime._closed or self.state is None:
                return
            try:
                for stream in {s for s, _ in self.uses()} - {self.lent_to}:
                    if self.lent_to is None:
                        stream.synchronize()
                    else:
                        self.lent_to.wait(stream)
                self.state.give_back(self.number)
            except AclError:
                pass                            # who waits for the work is told

    return Loan


class Batch(dict):
    """The fields of a batch by name, with its `number`, `epoch`, and the numbers of its `records`."""


class Feed:
    """Batches of records on the device, prepared ahead.

    source      fixed(), indexed(), files(), prefixed(), tfrecord()
    batch       records in a batch
    decode      a function that gets a Record and returns an array, or a dict of arrays by name. Without it, a batch
                consists of the records themselves
    fields      (shape, dtype) of what decode returns, or a dict of those by name, without the batch's dimension. By
                default they are those of the first record
    workers     threads that decode. Functions in Python run one at a time, unless they are in NumPy and other libraries
                that release the interpreter's lock; processes=True decodes in as many processes, for which decode must
                be a function that pickle can name, or the start method be "fork" (context)
    seed        records come in an order that it determines, another one in each epoch; None: in the order of the source
    block, window, rank, n_ranks, epochs, drop_last, in_place    as in include/cannon/feed.h
    ahead       batches that are ready while one is in use
    device      number of the device (default: the thread's current one)
    name        in the summary of `cannon run`

    Every method may be called by one thread at a time; tensors may be used and dropped by any thread."""

    def __init__(self, source, batch=1, decode=None, fields=None, workers=2, processes=False, seed=None, ahead=2,
                 device=None, block=1, window=1024, epochs=None, rank=0, n_ranks=1, drop_last=False, in_place=False,
                 name="feed", context=None):
        self.source, self.batch, self.name = source, batch, name
        self.device = runtime.current_device() if device is None else device
        self._names, self._fields = _layout(decode, fields, source)
        if epochs is None:
            epochs = 1 if source.streamed else 0
        pool = _Processes(decode, workers, context) if processes and decode else None
        decoder = _Decoder(pool or decode, self._names, self._fields) if decode else None
        config = _functions["default"]()
        sizes = (ct.c_uint64 * len(self._fields))(*[f.n_bytes for f in self._fields])
        config.name, config.batch, config.ahead, config.workers = name.encode(), batch, ahead, workers
        config.shuffle, config.seed, config.block = seed is not None, seed or 0, block
        config.window, config.epochs, config.rank, config.n_ranks = window, epochs, rank, n_ranks
        config.drop_last, config.in_place = drop_last, in_place
        config.field_bytes, config.n_fields = sizes, len(self._fields)
        if decoder:
            config.decode = decoder.callback
        handle = ct.c_void_p()
        try:
            with runtime.on_device(self.device):
                runtime.use_device(self.device)
                _call("cannon_feed_create", ct.byref(handle), source.handle, ct.byref(config))
        except BaseException:
            if pool:
                pool.close()
            raise
        self._state = _State(handle.value, decoder, pool)
        self._close = weakref.finalize(self, self._state.close)
        self._close.atexit = False
        _states.add(self._state)
        self._epoch = None                      # of the batches that the running loop gets
        self._pending = None                    # the first batch of the next epoch
        self._over = False                      # all epochs are
        self._order = (len(source) if n_ranks == 1 else len(source) // block // n_ranks * block) \
            if not source.streamed else None
        self._drop_last = drop_last

    def __len__(self):
        """Batches in an epoch."""
        if self._order is None:
            raise TypeError("a streamed source does not know its number of records")
        return self._order // self.batch if self._drop_last else -(-self._order // self.batch)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Stops the threads. Tensors of lent batches stay valid."""
        self._pending = None
        self._close()

    @property
    def stats(self):
        """What the feed has done so far: see cannon_feed_stats."""
        found = _Stats()
        _call("cannon_feed_get_stats", self._state.handle, ct.byref(found))
        return {name: getattr(found, name) for name, _ in _Stats._fields_}

    def _next(self, stream):
        """The next batch for the stream, an address or None."""
        batch = _Batch(state=NOT_YET)
        try:
            with runtime.on_device(self.device):
                runtime.use_device(self.device)
                if self._state.closed:
                    raise ValueError("the feed is closed")
                while batch.state == NOT_YET:   # signals are handled between two calls
                    _call("cannon_feed_next", self._state.handle, stream, POLL_MS, ct.byref(batch))
        except AclError as error:
            number = re.search(r"\brecord (\d+)", error.message)
            cause = self._state.decoder and number and self._state.decoder.errors.get(int(number[1]))
            raise error from cause
        return batch

    def _tensors(self, batch, lent_to):
        """The batch's tensors, which share one loan."""
        global _Loan
        from .tensor import Tensor, contiguous_strides
        _Loan = _Loan or _loan_type()
        self._state.lend()
        start = batch.field[0]
        n_bytes = max(batch.field[i] - start + f.n_bytes * batch.count for i, f in enumerate(self._fields))
        loan = _Loan(start, n_bytes, self.device)
        loan.state, loan.number, loan.lent_to = self._state, batch.number, lent_to
        if lent_to is not None:                 # the copy is work on the memory: numpy() waits for it
            loan.used(lent_to, lent_to.counter(), True)
        made = Batch()
        made.number, made.epoch, made.records = batch.number, batch.epoch, batch.records[:batch.count]
        for i, (name, field) in enumerate(zip(self._names, self._fields)):
            shape = (batch.count, *field.shape)
            made[name] = Tensor._view(loan, field.dtype, shape, contiguous_strides(shape),
                                      (batch.field[i] - start) // field.dtype.size)
        return made

    def _loop(self, stream_of, finish):
        """One epoch; finish makes of a Batch what the loop yields."""
        last = None if self._order is None else len(self)
        while not self._over:
            made, self._pending = self._pending, None
            if made is None:
                stream, handle = stream_of()
                batch = self._next(handle)
                if batch.state == END:
                    self._over = True
                    self.close()
                    return
                made = self._tensors(batch, stream)
            if self._epoch is None:
                self._epoch = made.epoch
            if made.epoch != self._epoch:       # of a streamed source
                self._epoch, self._pending = None, made
                return
            if last and made.number % last == last - 1:
                self._epoch = None
                yield finish(made)
                return
            result, made = finish(made), None
            yield result
            result = None

    def __iter__(self):
        """The batches of an epoch, for the thread's current stream: a cannon.Tensor each, or a Batch if fields have
        names."""
        def stream_of():
            stream = runtime.current_stream(self.device)
            return stream, stream.handle

        return self._loop(stream_of, lambda made: made[None] if self._names == (None,) else made)

    def torch(self):
        """The same, as npu tensors of PyTorch, for torch's current stream."""
        import torch

        def stream_of():
            return None, torch.npu.current_stream(self.device).npu_stream

        def finish(made):
            if self._names == (None,):
                return made[None].torch()
            tensors = Batch((name, t.torch()) for name, t in made.items())
            tensors.number, tensors.epoch, tensors.records = made.number, made.epoch, made.records
            return tensors

        return self._loop(stream_of, finish)


_Loan = None
_states = weakref.WeakSet()


def _end_all():
    for state in list(_states):
        state.at_end_of_process()


atexit.register(_end_all)                       # behind that of cannon.runtime, and so called before it


# ---- torch.utils.data


def _map(value, function):
    """Applies the function to all tensors in nested lists, tuples and dicts."""
    import torch
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((k, _map(v, function)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(v, function) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, function) for v in value)
    return value


class _Meter:
    """How long the device waits for data, for the summary and the profiler; nothing with CANN's own library."""

    def __init__(self, name):
        self.handle = None
        if load().find("cannon_meter_create") is not None:
            handle = ct.c_void_p()
            _call("cannon_meter_create", ct.byref(handle), name.encode())
            self.handle = handle.value
            weakref.finalize(self, _functions["cannon_meter_destroy"], self.handle).atexit = False

    def ask(self, stream):
        if self.handle:
            _call("cannon_meter_ask", self.handle, stream.npu_stream)

    def got(self, stream, batch):
        if self.handle:
            sizes = []
            _map(batch, lambda t: sizes.append((len(t) if t.dim() else 1, t.numel() * t.element_size())))
            _call("cannon_meter_got", self.handle, stream.npu_stream, sizes[0][0] if sizes else 0,
                  sum(n for _, n in sizes))



class _Loader:
    """What loader() returns."""

    def __init__(self, source, ahead, device, name):
        import torch
        self.source, self.ahead, self.name = source, ahead, name
        self.device = torch.device("npu", torch.npu.current_device()) if device is None else torch.device(device)
        self.meter = None

    def __len__(self):
        return len(self.source)

    def __iter__(self):
        import queue
        import torch
        ready, stop = queue.Queue(self.ahead), threading.Event()
        thread = threading.Thread(target=self._copy, args=(ready, stop), daemon=True, name="cannon.data.loader")
        if self.meter is None:
            with torch.npu.device(self.device):
                torch.empty(0, device=self.device)  # makes the device's context
                self.meter = _Meter(self.name)
        meter = self.meter
        thread.start()
        try:
            while True:
                stream = torch.npu.current_stream(self.device)
                meter.ask(stream)
                batch, event = ready.get()
                if event is None:
                    if batch is not None:
                        raise batch
                    return
                stream.wait_event(event)
                meter.got(stream, batch)
                _map(batch, lambda t: t.record_stream(stream) if t.device.type == "npu" else None)
                yield batch
                batch = None
        finally:
            stop.set()
            while thread.is_alive():            # makes room for a batch that the thread wants to put
                try:
                    ready.get(timeout=0.01)
                except queue.Empty:
                    pass
            thread.join()

    def _copy(self, ready, stop):
        """Copies batches on a stream of its own, as far ahead as there is room."""
        import torch
        on_the_way = collections.deque()        # (host tensors, event): kept until they are copied
        try:
            torch.npu.set_device(self.device)
            stream = torch.npu.Stream(self.device)
            for batch in self.source:
                if stop.is_set():
                    return
                with torch.npu.stream(stream):
                    pinned = _map(batch, lambda t: t if t.device.type != "cpu" or t.is_pinned() else t.pin_memory())
                    copied = _map(pinned, lambda t: t.to(self.device, non_blocking=True))
                    event = torch.npu.Event()
                    event.record(stream)
                on_the_way.append((pinned, event))
                while on_the_way and on_the_way[0][1].query():
                    on_the_way.popleft()
                ready.put((copied, event))
                batch = pinned = copied = None
            ready.put((None, None))
        except BaseException as error:
            ready.put((error, None))
        finally:
            for _, event in on_the_way:
                event.synchronize()


def loader(dataset, ahead=2, device=None, name="loader", **options):
    """Batches of a torch.utils.data.Dataset as npu tensors, copied on a stream of their own `ahead` batches before they
    are used.

    dataset     a Dataset, or a DataLoader
    device      default: the current npu device
    name        in the summary of `cannon run`
    options     those of DataLoader, for a Dataset: batch_size, shuffle, num_workers, ...

    Each loop over the result is one over the DataLoader. Other values than tensors are passed through."""
    from torch.utils.data import DataLoader
    import torch_npu  # noqa: F401: torch.npu
    if isinstance(dataset, DataLoader):
        if options:
            raise TypeError(f"{next(iter(options))} is an option of DataLoader, but dataset is one already")
    else:
        dataset = DataLoader(dataset, **options)
    if ahead < 1:
        raise ValueError(f"ahead is {ahead}, expected 1 or more")
    return _Loader(dataset, ahead, device, name)
