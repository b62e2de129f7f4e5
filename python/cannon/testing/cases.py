# SPDX-License-Identifier: Apache-2.0
"""Test cases: every combination of dtype, shapes, layout, range of values and attributes.

A case's id has all of these and the seed, and every input's values depend on nothing but the id's text. So a case is
the same whichever others run, and its id alone, with the file that defines the test, reproduces it:

    add[float32-5x8,8-transposed-special-alpha=2-seed0]
"""
import itertools
import re
import zlib

import numpy as np

from . import dtypes, layouts, shapes
from . import values as ranges

SEED = re.compile(r"-seed(\d+)\]$")


class Input:
    """What is particular to one input of a test; everything left out is the case's.

    dtype    a dtype's name, such as "int64" for an index
    shape    a shape that does not change with the case, or a function of the case's shapes that returns one
    values   a range (testing.values)
    layout   a layout (testing.layouts)
    """

    def __init__(self, dtype=None, shape=None, values=None, layout=None):
        self.dtype = None if dtype is None else dtypes.find(dtype)
        self.shape, self.values, self.layout = shape, values, layout
        if values is not None:
            ranges.label(values)
        if layout is not None:
            layouts.find(layout)


class Case:
    """One case of a test.

    dtypes      the dtype of each input (DType; str() gives the name)
    shapes      the shape of each input: a tuple, a list of them for a list of tensors, None if it is left out
    layout, values   the layout and the range of values that the inputs have
    attributes  {name: value}
    seed, huge
    """

    def __init__(self, test, dtypes_, shapes_, layout, values_, attributes, seed, huge):
        self.test, self.dtypes, self.shapes = test, dtypes_, shapes_
        self.layout, self.values, self.attributes = layout, values_, attributes
        self.seed, self.huge = seed, huge
        self.suffix = ""

    @property
    def dtype(self):
        """The name of the first input's dtype."""
        return self.dtypes[0].name if self.dtypes else ""

    @property
    def shape(self):
        """The first input's shape."""
        return self.shapes[0] if self.shapes else ()

    @property
    def key(self):
        """The id without the seed."""
        parts = [_joined(d.name for d in self.dtypes), _joined(map(shapes.label, self.shapes), ","),
                 layouts.find(self.layout)[0], ranges.label(self.values)]
        parts += [f"{name}={_short(value)}" for name, value in self.attributes.items()]
        return "-".join(filter(None, parts)) + self.suffix

    @property
    def parameters(self):
        """What is in the brackets of the id."""
        return f"{self.key}-seed{self.seed}"

    @property
    def id(self):
        return f"{self.test.name}[{self.parameters}]"

    def __repr__(self):
        return self.id

    def generator(self):
        """Random numbers that depend on the id's text only."""
        return np.random.default_rng([self.seed, zlib.crc32(self.key.encode())])

    def applies(self):
        """Whether any input can have the case's layout."""
        if self.layout == "contiguous":
            return True
        return any(layouts.place(self.layout, s) is not None for shape in self.shapes if shape is not None
                   for s in (shape if isinstance(shape, list) else [shape]))


def _joined(parts, separator="+"):
    """The parts, or one of them if all are the same."""
    parts = list(parts)
    return parts[0] if parts and len(set(parts)) == 1 else separator.join(parts)


def _short(value):
    """An attribute's value in an id: no spaces or brackets, and not long."""
    text = re.sub(r"[^\w.,+=-]", "", ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return text if len(text) <= 24 else f"{text[:12]}..{zlib.crc32(text.encode()):08x}"


def input_dtypes(entry, test):
    """The dtype of each input, by an entry of `dtypes`: "float32", or "float32+int64" for two inputs."""
    names = entry.split("+") if isinstance(entry, str) else [entry]
    found = [dtypes.find(name) for name in names]
    if len(found) == 1:
        found *= len(test.input_names)
    if len(found) != len(test.input_names):
        raise ValueError(f"dtypes has {entry!r}, expected one type, or one for each of the {len(test.input_names)} "
                         "inputs, with + between")
    for i, name in enumerate(test.input_names):
        particular = test.inputs.get(name)
        if particular is not None and particular.dtype is not None:
            found[i] = particular.dtype
    return tuple(found)


def input_shapes(entry, test):
    fixed = [test.inputs[n].shape if n in test.inputs else None for n in test.input_names]
    free = [f is None for f in fixed]
    plain = tuple(entry)
    if not shapes.is_shape(plain) and len(plain) == len(fixed):
        found = list(shapes.per_input(entry, len(fixed)))
    else:                                           # only the inputs without a shape of their own are listed
        listed = iter(shapes.per_input(entry, sum(free)))
        found = [next(listed) if is_free else None for is_free in free]
    for i, shape in enumerate(fixed):
        if shape is not None:
            found[i] = shape(found) if callable(shape) else tuple(shape)
    return tuple(found)


def expand(test, seed):
    """All cases of a test, in order. Ids are unique: equal ones get #2, #3 and so on."""
    names = list(test.attributes)
    counts, made = {}, []
    for dtype, entry, layout, range_ in itertools.product(test.dtypes, test.shapes, test.layouts, test.values):
        for chosen in itertools.product(*test.attributes.values()):
            case = Case(test, input_dtypes(dtype, test), input_shapes(entry, test), layout, range_,
                        dict(zip(names, chosen)), seed, isinstance(entry, shapes.Huge))
            if not case.applies() or test.where is not None and not test.where(case):
                continue
            n = counts[case.key] = counts.get(case.key, 0) + 1
            if n > 1:
                case.suffix = f"#{n}"
            made.append(case)
    if test.limit is not None and len(made) > test.limit:
        made = _sample(made, test, seed)
    return made


def _sample(made, test, seed):
    """`limit` cases: random ones, by the seed, chosen so that every dtype, shape, layout, range and value of an
    attribute occurs if the limit allows it."""
    rng = np.random.default_rng([seed, zlib.crc32(test.name.encode())])
    order = [made[i] for i in rng.permutation(len(made))]
    seen, first, rest = set(), [], []
    for case in order:
        axes = {("dtype", str(case.dtypes)), ("shape", str(case.shapes)), ("layout", str(case.layout)),
                ("values", str(case.values)), *((name, str(value)) for name, value in case.attributes.items())}
        (first if axes - seen else rest).append(case)
        seen |= axes
    chosen = {id(case) for case in (first + rest)[:test.limit]}
    return [case for case in made if id(case) in chosen]


def seed_of(case_id):
    """The seed in a case's id, or None."""
    m = SEED.search(case_id)
    return int(m[1]) if m else None
