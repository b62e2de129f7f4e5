# SPDX-License-Identifier: Apache-2.0
"""Times an operator: warm-up, then runs one after the other, each waited for.

The host's clock gives the time of phase one, and from phase two until the work is done. Where the library has timed
events, the device's own time between two events around phase two is taken, too, and the rates are computed with it.
"""
import ctypes as ct
import statistics


class Timing:
    """warmup: runs that do not count; repeat: runs that do."""

    def __init__(self, warmup=3, repeat=20):
        if warmup < 0 or repeat < 1:
            raise ValueError(f"warmup is {warmup} and repeat is {repeat}, expected 0 or more and 1 or more")
        self.warmup, self.repeat = warmup, repeat


class _Events:
    """Two events around phase two. elapsed() is None where they tell nothing."""

    def __init__(self, device):
        self.library, self.stream = device.library, device.stream.handle
        self.measure = self.library.find("aclrtEventElapsedTime")
        self.pair = []
        for _ in range(2 if self.measure is not None else 0):
            event = ct.c_void_p()
            if self.library.aclrtCreateEvent(ct.byref(event)):
                break
            self.pair.append(event)
        if len(self.pair) == 2:
            self.measure.restype, self.measure.argtypes = ct.c_int, [ct.c_void_p] * 3

    def record(self, number):
        if len(self.pair) == 2:
            self.library.aclrtRecordEvent(self.pair[number], self.stream)

    def elapsed(self):
        ms = ct.c_float()
        if len(self.pair) < 2 or self.measure(ct.byref(ms), *self.pair):
            return None
        return ms.value / 1000

    def close(self):
        for event in self.pair:
            self.library.aclrtDestroyEvent(event)


def _of(given, case, default):
    value = default if given is None else given(case) if callable(given) else given
    return value.item() if hasattr(value, "item") else value   # NumPy's number


def spread(seconds):
    """The median, the quartiles and the extremes of some times."""
    ordered = sorted(seconds)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    return {"median": statistics.median(ordered), "lower_quartile": quarters[0], "upper_quartile": quarters[2],
            "least": ordered[0], "most": ordered[-1]}


def measure(case, call, device, timing, tensors):
    """The figures of a case, in seconds, bytes and operations (report.schema.json, "timing")."""
    events, prepared, ran, on_device = _Events(device), [], [], []
    before, least = device.free_bytes(), [device.free_bytes()]

    def between(number):
        events.record(number)
        if number:                              # what the operator's own code allocates for the time of the work
            least[0] = min(least[0], device.free_bytes())
    try:
        for _ in range(timing.warmup):
            call.run(events.record)
        call.run(between)
        for _ in range(timing.repeat):
            one, two, workspace = call.run(events.record)
            prepared.append(one)
            ran.append(two)
            elapsed = events.elapsed()
            if elapsed is not None:
                on_device.append(elapsed)
    finally:
        events.close()
    n_bytes = _of(case.test.bytes, case, sum(t.placement.size * t.dtype.size for t in tensors))
    n_flops = _of(case.test.flops, case, None)
    figures = {"runs": timing.repeat, "warmup": timing.warmup, "prepare": spread(prepared), "run": spread(ran),
               "device": spread(on_device) if len(on_device) == timing.repeat and min(on_device) > 0 else None,
               "bytes": n_bytes, "flops": n_flops, "workspace_bytes": workspace,
               "device_peak_bytes": device.peak + max(before - least[0], 0)}
    time = (figures["device"] or figures["run"])["median"]
    figures["gb_per_s"] = n_bytes / time / 1e9 if time else None
    figures["gflop_per_s"] = n_flops / time / 1e9 if time and n_flops is not None else None
    return figures
