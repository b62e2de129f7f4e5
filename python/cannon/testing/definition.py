# SPDX-License-Identifier: Apache-2.0
"""How a test of an operator is written: `operator_test`."""
import importlib
import inspect
import os
import re

# Under other names, since the arguments of operator_test are named like them.
from . import cases as case_list, layouts as known_layouts, schema as schemas, shapes as known_shapes
from . import values as known_values
from .compare import Tolerance

DEFAULT_LAYOUTS = tuple(known_layouts.ALL)
DEFAULT_VALUES = ("normal", "special")


def operator_test(operator, *, dtypes="float32", shapes=None, layouts=DEFAULT_LAYOUTS, values=DEFAULT_VALUES,
                  attributes=None, inputs=None, out_dtype=None, tolerance=None, where=None, limit=None, error=None,
                  precision="wide", arrays="numpy", bytes=None, flops=None, library=None, schema=None, reference=None):
    """Tests an operator against a reference, in every combination of dtype, shape, layout, values and attributes.

        @operator_test("Add", dtypes="float32 float16 int32", shapes=[(3, 4), (1,)], attributes={"alpha": [1, 2]})
        def add(x, y, alpha):
            return x + alpha * y

    The decorated function is the reference. Its parameters are the operator's input tensors, in order, and attributes
    by name. It gets NumPy arrays, and returns the expected output, or a tuple of them. Floats come as float64 (see
    precision), so that the reference is more exact than the operator.

    operator    the operator's name ("Add" stands for aclnnAdd), of the installation or of your custom opp folder; or a
                function in Python that takes the arrays and, by name, the attributes, and returns the outputs
    dtypes      names of dtypes, separated by spaces, or a list; "float32+int64" gives two inputs one each
    shapes      a list; testing.shapes says what its entries may be, and has ready-made lists (the default: standard)
    layouts     names separated by spaces, or a list (testing.layouts; the default: all of them)
    values      names separated by spaces, or a list of ranges (testing.values; the default: normal and special)
    attributes  {name: list of its values}
    inputs      {parameter of the reference: Input(...)}: dtype, shape, values or layout of that input alone. If the
                reference is a function in C, other than NumPy's, it names all inputs; the default is one
    out_dtype   the output's dtype, a list of them, or a function of the case; the default: the inputs' if the reference
                returns the same kind of numbers, otherwise the reference's
    tolerance   a Tolerance, {dtype: Tolerance}, or a function of the case that returns one of them; the default:
                compare.DEFAULT
    where       a function of the case: False leaves it out
    limit       the most cases to run: a sample by the seed
    error       the error code with which the operator must refuse every case
    precision   "wide": floats come to the reference as float64; "same": in the operator's own type
    arrays      "numpy", or "torch": the reference takes and returns PyTorch's tensors
    bytes, flops   a function of the case, or a number: what one run moves and computes, for GB/s and GFLOP/s. The
                default for bytes: the size of all inputs and outputs
    library     path of a library that has the operator, beside the test's file unless it is absolute
    schema      the operator's arguments as a line of text (testing.schema), where no header has them
    reference   the reference, instead of decorating it: a function, or a name such as "numpy.exp" or "torch.erf"
    """
    arguments = dict(locals())
    arguments.pop("operator")
    if reference is not None:
        return OperatorTest(operator, **arguments)

    def decorate(function):
        return OperatorTest(operator, **{**arguments, "reference": function})
    return decorate


def _words(given):
    if isinstance(given, str):
        return given.split()
    return list(given) if isinstance(given, (list, tuple)) else [given]


def _as_list(value):
    return list(value) if isinstance(value, (list, range)) else [value]


def _expect(good, name, value, expected):
    if not good:
        raise ValueError(f"operator_test: {name} is {value!r}, expected {expected}")


class OperatorTest:
    """A test as operator_test makes it. `name` is the name that it has in its module. Calling it calls the
    reference."""

    def __init__(self, operator, *, dtypes, shapes, layouts, values, attributes, inputs, out_dtype, tolerance, where,
                 limit, error, precision, arrays, bytes, flops, library, schema, reference):
        self.operator, self.out_dtype, self.tolerance, self.where = operator, out_dtype, tolerance, where
        self.limit, self.error, self.precision, self.arrays = limit, error, precision, arrays
        self.bytes, self.flops, self.library = bytes, flops, library
        self.schema = None if schema is None else schemas.parse(schema)
        self.reference, self.arrays = _find_reference(reference, arrays)
        self.file = None                                        # the file that defines it, as tests_of finds it
        self.name = getattr(self.reference, "__name__", None) or str(operator)
        self.__doc__ = getattr(self.reference, "__doc__", None)
        self.__module__ = getattr(self.reference, "__module__", None)
        self.inputs = dict(inputs or {})
        self.attributes = {name: _as_list(v) for name, v in (attributes or {}).items()}
        self.by_name = False                                    # the reference takes its inputs by name
        self.input_names, self.reference_attributes = self._parameters()
        self.dtypes, self.layouts, self.values = _words(dtypes), _words(layouts), _words_or_range(values)
        self.shapes = list(known_shapes.standard) if shapes is None else list(shapes)
        self._check()

    def _check(self):
        for name in ("dtypes", "shapes", "layouts", "values"):
            _expect(getattr(self, name), name, getattr(self, name), "at least one")
        _expect(callable(self.operator) or isinstance(self.operator, str) and self.operator, "operator", self.operator,
                "a name or a function")
        _expect(self.precision in ("wide", "same"), "precision", self.precision, "wide or same")
        _expect(self.arrays in ("numpy", "torch"), "arrays", self.arrays, "numpy or torch")
        _expect(self.limit is None or isinstance(self.limit, int) and self.limit > 0, "limit", self.limit,
                "a number above 0")
        for name, given in self.inputs.items():
            _expect(name in self.input_names, "inputs", name, f"parameters of the reference: {self.input_names}")
            _expect(isinstance(given, case_list.Input), f"inputs[{name!r}]", given, "Input(...)")
        tolerances = self.tolerance.values() if isinstance(self.tolerance, dict) else [self.tolerance]
        _expect(all(t is None or isinstance(t, Tolerance) or callable(t) for t in tolerances), "tolerance",
                self.tolerance, "a Tolerance, or a dictionary of them")
        for layout in self.layouts:
            known_layouts.find(layout)
        for range_ in self.values:
            known_values.label(range_)
        for dtype in self.dtypes:
            case_list.input_dtypes(dtype, self)
        for entry in self.shapes:
            _expect(isinstance(entry, tuple), "an entry of shapes", entry, "a tuple, such as (3, 4)")
            case_list.input_shapes(entry, self)

    def _parameters(self):
        """(names of the inputs, names of the attributes that the reference takes; None: all of them)."""
        n = getattr(self.reference, "nin", None)                # NumPy's own functions
        if isinstance(n, int):
            return list(self.inputs) or [f"input{i + 1}" for i in range(n)], []
        try:
            parameters = inspect.signature(self.reference).parameters.values()
        except (TypeError, ValueError):
            parameters = None
        if parameters is None:                                  # a function in C
            return list(self.inputs) or ["input1"], None
        plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        takes_all = any(p.kind == p.VAR_KEYWORD for p in parameters)
        names = [p.name for p in plain if p.name in self.inputs or
                 p.name not in self.attributes and p.default is p.empty and p.kind != p.KEYWORD_ONLY]
        self.by_name = all(p.kind != p.POSITIONAL_ONLY for p in plain if p.name in names)
        return names, None if takes_all else [p.name for p in plain if p.name not in names]

    def __call__(self, *arguments, **attributes):
        return self.reference(*arguments, **attributes)

    def __repr__(self):
        return f"<operator_test {self.name} of {self.operator_name}>"

    @property
    def operator_name(self):
        name = self.operator if isinstance(self.operator, str) else getattr(self.operator, "__name__", "function")
        return re.sub("^aclnn", "", name)

    def cases(self, seed=0, huge=False):
        """The cases, without the huge ones unless they are wanted."""
        return [case for case in case_list.expand(self, seed) if huge or not case.huge]

    def case(self, case_id):
        """The case of an id, with its seed, whether or not a limit leaves it out. None if there is none."""
        seed = case_list.seed_of(case_id)
        limit, self.limit = self.limit, None
        try:
            found = [c for c in case_list.expand(self, seed or 0) if c.id == case_id]
        finally:
            self.limit = limit
        return found[0] if found else None

    def call_reference(self, inputs, attributes):
        """The expected outputs, as a list of arrays."""
        wanted = self.reference_attributes
        known = {n: v for n, v in attributes.items() if wanted is None or n in wanted}
        if self.by_name:
            result = self.reference(**dict(zip(self.input_names, inputs)), **known)
        else:
            result = self.reference(*inputs, **known)
        return list(result) if isinstance(result, (tuple, list)) else [result]


def _words_or_range(given):
    is_range = isinstance(given, tuple) and len(given) == 2 and not any(isinstance(v, (str, tuple)) for v in given)
    return [given] if is_range else _words(given)


def _find_reference(reference, arrays):
    """(function, "numpy" or "torch")."""
    if callable(reference):
        return reference, arrays
    module, _, name = reference.rpartition(".")
    top = module.partition(".")[0]
    if top == "torch":
        return _Later(module, name), "torch"
    return getattr(importlib.import_module(module), name), arrays


class _Later:
    """A function of PyTorch, which is imported when a case runs, as it takes seconds and may not be there."""

    def __init__(self, module, name):
        self.module, self.__name__ = module, name

    def __call__(self, *arguments, **attributes):
        return getattr(importlib.import_module(self.module), self.__name__)(*arguments, **attributes)

    @property
    def __signature__(self):
        raise ValueError("a function of PyTorch does not tell its parameters")


def tests_of(module):
    """The tests that a module defines, in the order of their definition; their names are the module's."""
    found = []
    for name, value in vars(module).items():
        if isinstance(value, OperatorTest) and all(value is not test for test in found):
            value.name = name
            value.file = os.path.abspath(module.__file__)
            found.append(value)
    return found
