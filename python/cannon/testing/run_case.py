# SPDX-License-Identifier: Apache-2.0
"""Runs one case: draws the inputs, computes what is expected, calls the operator, and checks every byte.

The outcome is a dictionary of plain values, as the JSON report has it (report.schema.json):

    status    passed, failed, skipped, or error (the test itself, or its reference, is wrong); a process that runs cases
              for another adds crashed and timeout
    failures  what is wrong: a list of {kind, message, ...}; kinds are in the schema
"""
import importlib
import os
import time
import traceback

import numpy as np

from .._library import AclError
from . import arrays, device as devices, dtypes, layouts, operators, timing, values
from .compare import compare, tolerance_for

MAX_FAILURES = 8            # of a case that are told


class Skip(Exception):
    """The case cannot run here; the text says why."""


class _Failed(Exception):
    def __init__(self, kind, message, **more):
        super().__init__(message)
        self.failure = {"kind": kind, "message": message, **more}


class Options:
    """How cases run. device: the number; time: None or timing.Timing."""

    def __init__(self, device=0, time=None):
        self.device, self.time = device, time


# ---- inputs and what is expected

class Drawn:
    """An input: its dtype, placement, and the values of its elements."""

    def __init__(self, name, dtype, placement, drawn):
        self.name, self.dtype, self.placement, self.values = name, dtype, placement, drawn


def _draw_one(name, case, dtype, shape, rng):
    particular = case.test.inputs.get(name)
    layout = particular.layout if particular is not None and particular.layout is not None else case.layout
    range_ = particular.values if particular is not None and particular.values is not None else case.values
    placement = layouts.place(layout, shape) or layouts.place("contiguous", shape)
    base = values.draw(range_, rng, placement.base_shape(), dtype)
    return Drawn(name, dtype, placement, np.broadcast_to(base, shape))


def draw(case):
    """The inputs: a Drawn, a list of them, or None for each."""
    rng, drawn = case.generator(), []
    for name, dtype, shape in zip(case.test.input_names, case.dtypes, case.shapes):
        if shape is None:
            drawn.append(None)
        elif isinstance(shape, list):
            drawn.append([_draw_one(name, case, dtype, s, rng) for s in shape])
        else:
            drawn.append(_draw_one(name, case, dtype, shape, rng))
    return drawn


def _each(drawn, function):
    return [None if d is None else [function(x) for x in d] if isinstance(d, list) else function(d) for d in drawn]


def _import_torch():
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise Skip("PyTorch is not installed, and the reference needs it") from None


def expected(case, drawn):
    """The reference's outputs, as a list of arrays."""
    test = case.test
    widen = test.precision == "wide"
    inputs = _each(drawn, lambda d: (d.dtype.widen(d.values) if widen else d.values).copy())
    if test.arrays == "torch":
        torch = _import_torch()
        inputs = _each_value(inputs, torch.from_numpy)
    with np.errstate(all="ignore"):
        results = test.call_reference(inputs, case.attributes)
    return [arrays.to_numpy(r)[0] for r in results]


def _each_value(items, function):
    return [None if x is None else list(map(function, x)) if isinstance(x, list) else function(x) for x in items]


def output_dtype(case, position, result):
    """The dtype of an output, see operator_test's out_dtype."""
    given = case.test.out_dtype
    if callable(given):
        given = given(case)
    if isinstance(given, (list, tuple)):
        given = given[position]
    if given is not None:
        return dtypes.find(given)
    kind = {"u": "i"}.get(result.dtype.kind, result.dtype.kind)
    if case.dtypes:
        like = dtypes.common(case.dtypes)
        if like.kind == kind:
            return like
        if kind == "f" and like.kind == "c":                    # the absolute value, or a part
            return dtypes.PART[like.name]
        if kind == "f":
            return dtypes.find("float32")
    return dtypes.find(result.dtype)


# ---- the operator

def run_operator(case, options, drawn, wanted):
    """Runs an operator of aclnn style. Returns (outputs as (name, dtype, values), failures, figures)."""
    test = case.test
    operator = operators.find(test.operator, _beside(test), test.schema)
    device = devices.open_device(options.device)
    device.peak = device.live
    tensors, everything, outputs = {}, [], []
    try:
        _make_tensors(case, operator.schema, device, drawn, wanted, tensors, everything, outputs)
        for t in everything:
            t.block.send()
        call = operator.call(device, tensors, case.attributes)
        try:
            figures = {"workspace_bytes": call.run()[2]}
            results, failures = _read_back(everything, outputs)
            n = call.workspace_overrun()
            if n:
                failures.append({"kind": "outside", "message":
                                 f"the operator wrote {n} bytes outside its workspace of {figures['workspace_bytes']}"})
            if options.time and not failures:
                figures["timing"] = timing.measure(case, call, device, options.time, everything)
        finally:
            call.close()
        figures["device_peak_bytes"] = max(device.peak, figures.get("timing", {}).get("device_peak_bytes", 0))
        return results, failures, figures
    finally:
        for t in everything:
            t.block.free()


def _beside(test):
    return test.library and os.path.join(os.path.dirname(os.path.abspath(test.file)), test.library)


def _make_tensors(case, schema, device, drawn, wanted, tensors, everything, outputs):
    """Makes the tensors of a call. Fills `tensors` by argument, `everything`, and `outputs` in the schema's order."""
    inputs = schema.inputs
    if len(inputs) != len(drawn):
        named = ", ".join(a.name for a in inputs)
        ours = ", ".join(case.test.input_names)
        raise operators.UnknownOperator(f"the reference has {len(drawn)} inputs ({ours}), but the operator has "
                                        f"{len(inputs)} ({named}): {schema}")
    if len(schema.outputs) != len(wanted):
        named = ", ".join(a.name for a in schema.outputs)
        raise operators.UnknownOperator(f"the reference returned {len(wanted)} outputs, but the operator has "
                                        f"{len(schema.outputs)} ({named}): {schema}")

    def make(name, dtype, placement, written):
        t = devices.DeviceTensor(device, name, dtype, placement, written)
        everything.append(t)
        return t

    for argument, d in zip(inputs, drawn):
        members = d if isinstance(d, list) else [d]
        # What is read and written has a layout without overlap.
        made = [None if x is None else make(argument.name, x.dtype, layouts.place_output(case.layout, x.placement.shape)
                                            if "w" in argument.access else x.placement, "w" in argument.access)
                for x in members]
        for t, x in zip(made, members):
            if t is not None:
                t.set(x.dtype.store(x.values))
        tensors[argument.name] = made if isinstance(d, list) else made[0]
    for position, (argument, result) in enumerate(zip(schema.outputs, wanted)):
        if argument.type == "TensorList":
            raise operators.UnknownOperator(f"the output {argument.name} is a list of tensors, which tests cannot have")
        if argument.name not in tensors:
            dtype = output_dtype(case, position, result)
            tensors[argument.name] = make(argument.name, dtype, layouts.place_output(case.layout, result.shape), True)
        outputs.append(tensors[argument.name])


def _read_back(everything, outputs):
    results, failures = [], []
    for t in everything:
        raw = t.block.fetch()
        found = t.changed_outside(raw)
        if found and t.written:
            failures.append({"kind": "outside", "message":
                             f"{found[0]} bytes outside the elements of {t.name} were written, the first "
                             f"{_place(found[1])}"})
        elif found:
            failures.append({"kind": "input", "message": f"the operator changed its input {t.name}: {found[0]} bytes, "
                             f"the first {_place(found[1])}"})
        if t in outputs:
            results.append((t, t.dtype.load(t.elements(raw).copy())))
    return [(t.name, t.dtype, v) for o in outputs for t, v in results if t is o], failures


def _place(offset):
    if not offset:
        return "at the start of the first element"
    return f"{abs(offset)} bytes {'behind' if offset > 0 else 'before'} the start of the first element"


def _python(case, drawn, wanted):
    """Runs an operator that is a function in Python."""
    def array(d):
        own = arrays.numpy_dtype(d.dtype, Skip)
        storage = np.zeros(d.placement.n_storage, d.dtype.storage)
        d.placement.view(storage)[...] = d.dtype.store(d.values)
        return d.placement.view(storage.view(own))

    results = case.test.operator(*_each(drawn, array), **case.attributes)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    if len(results) != len(wanted):
        raise _Failed("outputs", f"the operator returned {len(results)} outputs, expected {len(wanted)}")
    outputs, failures = [], []
    for position, (result, want) in enumerate(zip(results, wanted)):
        values_, dtype = arrays.to_numpy(result)
        right = output_dtype(case, position, want)
        if dtype is not right:
            failures.append({"kind": "dtype", "message": f"output {position} has dtype {dtype}, expected {right}",
                             "expected": right.name, "actual": dtype.name})
        outputs.append((f"output {position}", dtype, values_))
    return outputs, failures, {}


# ---- the verdict

def _number(value):
    """An element in the report: a number that JSON has, or a text."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, complex) or not np.isfinite(value):
        return str(value)
    return float(value)


def _mismatch(name, result, comparison, many):
    index, want, got, ulps = result.first
    more = f" ({ulps:.3g} ULPs)" if np.isfinite(ulps) and comparison.kind in "fc" else ""
    text = (f"{name if many else 'element'} {list(index)} is {got!s}, expected {want!s}{more}; "
            f"{result.n_wrong} of {result.n} elements are wrong")
    return {"kind": "mismatch", "message": text, "output": name, "index": list(index), "expected": _number(want),
            "actual": _number(got), "ulps": float(ulps) if np.isfinite(ulps) else None, "n_wrong": result.n_wrong,
            "n": result.n, "worst_ulps": result.worst}


def judge(case, outputs, wanted):
    """(failures, the largest error in ULPs)."""
    failures, worst = [], 0.0
    for (name, dtype, actual), want in zip(outputs, wanted):
        if actual.shape != want.shape:
            failures.append({"kind": "shape", "message": f"{name} has shape {actual.shape}, expected {want.shape}",
                             "expected": list(want.shape), "actual": list(actual.shape)})
            continue
        given = case.test.tolerance
        tolerance = tolerance_for(given(case) if callable(given) else given, dtype)
        result = compare(want, actual, dtype, tolerance)
        worst = max(worst, result.worst)
        if result.n_wrong:
            failures.append({**_mismatch(name, result, dtype, len(wanted) > 1), "tolerance": repr(tolerance)})
    return failures, worst


def _refused(case, error):
    """The failures of a case that the operator must refuse. error: the AclError, or None."""
    if error is None:
        return [{"kind": "refusal", "message": f"the operator accepted the case, expected error {case.test.error}"}]
    if error.code != case.test.error:
        return [{"kind": "refusal", "message": f"{error}; expected error {case.test.error}", "code": error.code,
                 "function": error.function}]
    return []


def _checked(case, options):
    drawn = draw(case)
    try:
        wanted = expected(case, drawn)
    except Skip:
        raise
    except Exception as e:
        raise _Failed("reference", f"the reference raised {type(e).__name__}: {e}", trace=traceback.format_exc()) from e
    if callable(case.test.operator):
        outputs, failures, figures = _python(case, drawn, wanted)
    else:
        outputs, failures, figures = run_operator(case, options, drawn, wanted)
    if case.test.error is not None:
        return failures + _refused(case, None), figures
    wrong, figures["worst_ulps"] = judge(case, outputs, wanted)
    return wrong + failures, figures


def describe(case):
    """What a report says of a case, whatever its outcome."""
    return {"id": case.id, "dtypes": [d.name for d in case.dtypes],
            "shapes": [None if s is None else [list(x) for x in s] if isinstance(s, list) else list(s)
                       for s in case.shapes],
            "layout": layouts.find(case.layout)[0], "values": values.label(case.values),
            "attributes": {n: v if isinstance(v, (bool, int, float, str, type(None))) else repr(v)
                           for n, v in case.attributes.items()}, "seed": case.seed}


def run_case(case, options):
    """The outcome of a case."""
    result = {**describe(case), "status": "passed", "failures": []}
    start = time.perf_counter()
    try:
        result["failures"], figures = _checked(case, options)
        result.update(figures)
    except Skip as e:
        result.update(status="skipped", reason=str(e))
    except _Failed as e:
        result["failures"] = [e.failure]
        result["status"] = "error" if e.failure["kind"] == "reference" else "failed"
    except (operators.UnknownOperator, ImportError) as e:
        result.update(status="error", failures=[{"kind": "test", "message": str(e)}])
    except AclError as e:
        result["failures"] = _refused(case, e) if case.test.error is not None else [
            {"kind": "call", "message": str(e), "code": e.code, "function": e.function}]
    except Exception as e:
        result.update(status="error", failures=[{"kind": "exception", "message": f"{type(e).__name__}: {e}",
                                                 "trace": traceback.format_exc()}])
    if result["status"] == "passed" and result["failures"]:
        result["status"] = "failed"
    result["failures"] = result["failures"][:MAX_FAILURES]
    result["seconds"] = time.perf_counter() - start
    return result
