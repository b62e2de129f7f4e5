# SPDX-License-Identifier: Apache-2.0
"""Layouts: where a tensor's elements lie in its memory.

A layout is a name of the table below, or a function of yours: it takes a shape, and returns (strides, offset) in
elements, or None if the shape cannot have it. A case whose layout no input can have is left out; an input that cannot
have it is contiguous.

    contiguous   no gaps, the last dimension is the innermost one
    transposed   the last two dimensions that have more than one element are exchanged in memory
    sliced       as x[::3, ..., ::2]: gaps between the elements
    offset       contiguous, but begins behind the start of its memory, and at no round address
    broadcast    one dimension has stride 0: its elements are the same memory. Outputs are contiguous then
"""
import numpy as np

OFFSET = 3       # elements


class Placement:
    """Strides and offset, in elements, within a memory of n_storage elements."""

    def __init__(self, shape, strides, offset=0):
        self.shape, self.strides, self.offset = tuple(shape), tuple(map(int, strides)), int(offset)
        self.size = int(np.prod(self.shape, dtype=np.int64))
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides)) if self.size else -1
        self.n_storage = self.offset + last + 1
        if any(s < 0 for s in self.strides) or self.offset < 0:
            raise ValueError(f"strides are {self.strides} and the offset is {self.offset}, expected none below 0")

    def view(self, storage):
        """The elements in a flat array of n_storage elements, without a copy."""
        if not self.size:
            return np.empty(self.shape, storage.dtype)
        steps = [s * storage.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(storage[self.offset:], self.shape, steps)

    @property
    def is_plain(self):
        return self.offset == 0 and self.strides == contiguous_strides(self.shape)

    def base_shape(self):
        """The shape of the elements that have memory of their own."""
        return tuple(1 if s == 0 and n > 1 else n for n, s in zip(self.shape, self.strides))


def contiguous_strides(shape):
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _long(shape):
    """The dimensions that have more than one element."""
    return [] if 0 in shape else [i for i, n in enumerate(shape) if n > 1]


def _contiguous(shape):
    return contiguous_strides(shape), 0


def _transposed(shape):
    axes = _long(shape)[-2:]
    if len(axes) < 2:
        return None
    order = list(range(len(shape)))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return strides, 0


def _sliced(shape):
    axes = _long(shape)
    if not axes:
        return None
    steps = [1] * len(shape)
    steps[axes[0]] = 3
    steps[axes[-1]] = 2
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step * steps[axis]
        step *= shape[axis] * steps[axis]
    return strides, 1


def _offset(shape):
    return None if 0 in shape else (contiguous_strides(shape), OFFSET)


def _broadcast(shape):
    axes = _long(shape)
    if not axes:
        return None
    base = list(shape)
    base[axes[0]] = 1
    strides = list(contiguous_strides(base))
    strides[axes[0]] = 0
    return strides, 0


ALL = {"contiguous": _contiguous, "transposed": _transposed, "sliced": _sliced, "offset": _offset,
       "broadcast": _broadcast}


def find(layout):
    """(name, function) of a layout. Raises ValueError for an unknown name."""
    if callable(layout):
        return getattr(layout, "__name__", "layout"), layout
    if layout not in ALL:
        raise ValueError(f"layout is {layout!r}, expected a function or one of {', '.join(ALL)}")
    return layout, ALL[layout]


def place(layout, shape):
    """The placement of an input, or None if the shape cannot have this layout."""
    found = find(layout)[1](tuple(shape))
    return None if found is None else Placement(shape, *found)


def place_output(layout, shape):
    """The placement of an output: no two elements share memory."""
    placed = place(layout, shape)
    if placed is None or placed.base_shape() != placed.shape:
        placed = Placement(shape, contiguous_strides(shape))
    return placed
