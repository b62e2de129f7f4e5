# SPDX-License-Identifier: Apache-2.0
"""Shapes of test cases.

An entry of the list `shapes` of a test is one of

    (3, 4)               a shape, which all inputs have; () is a tensor without dimensions
    ((3, 4), (4,))       a shape for each input
    ((3, 4), None)       the same, where the second input is left out (an optional tensor)
    ([(3,), (5,)],)      an input that is a list of tensors
    huge(2**31 + 8)      a shape that is tested only on request (`cannon test --huge`, `pytest --cannon-huge`)
"""


class Huge(tuple):
    """An entry that is tested only on request, since it takes much memory or time."""


def huge(*entry):
    """Marks an entry: `huge(2**31 + 8)` or `huge(4096, 65536)` is a shape; `huge((9, 1), (9, 7))` has one for each
    input."""
    return Huge(entry)


scalar = ()
one = (1,)
empty = (0, 3)
vector = (37,)
matrix = (5, 8)
cube = (2, 3, 5)
large = (129, 257)

#: What most operators should be tested with: no dimensions, one element, none, odd sizes, and more than one tile.
standard = [scalar, one, empty, vector, matrix, cube, (1, 1, 4, 1), large]

#: Pairs for binary operators, whose results have the broadcast shape.
broadcast = [((5, 8), (8,)), ((5, 1), (1, 8)), ((), (5, 8)), ((2, 3, 5), (3, 1)), ((0, 3), (1, 3))]


def matmul(*sizes):
    """Pairs of matrices: matmul((2, 3, 4), (1, 7, 1)) has (2, 3) times (3, 4), and (1, 7) times (7, 1)."""
    return [((m, k), (k, n)) for m, k, n in sizes]


def is_shape(entry):
    return isinstance(entry, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in entry)


def per_input(entry, n_inputs):
    """The shape of each input. Raises ValueError where the entry does not fit."""
    plain = tuple(entry)
    if is_shape(plain):
        result = (plain,) * n_inputs
    else:
        result = plain
    if len(result) != n_inputs:
        raise ValueError(f"shapes has {entry!r} with {len(result)} shapes, expected a shape for each of the "
                         f"{n_inputs} inputs, or one for all")
    for shape in result:
        good = shape is None or is_shape(shape) or isinstance(shape, list) and all(is_shape(s) for s in shape)
        if not good or is_shape(shape) and any(n < 0 for n in shape):
            raise ValueError(f"shapes has {shape!r}, expected a tuple of sizes, such as (3, 4), () or (7,)")
    return result


def label(shape):
    """A shape in the id of a case."""
    if shape is None:
        return "none"
    if isinstance(shape, list):
        return "+".join(map(label, shape)) or "nothing"
    return "x".join(map(str, shape)) if shape else "scalar"
