# SPDX-License-Identifier: Apache-2.0
"""Operators' schemas: from a line of text, or from the declaration in a C header.

    Scale(Tensor x, float factor, Tensor? bias, Tensor! out)

A type is Tensor, TensorList, Scalar, ScalarList, IntArray, BoolArray, FloatArray, int (int64_t in C), float (double),
bool, dtype or string, or one of C's numbers, such as int32_t or double. After it, `!` marks an argument that is
written, `&` one that is read and written, and `?` one that may be left out.
"""
import collections
import re

#: An argument. access: r (read), w (written) or rw. c_type: of a number, as the C function takes it.
Argument = collections.namedtuple("Argument", "name type access optional default c_type")
Argument.__new__.__defaults__ = (False, None, None)


class Schema:
    def __init__(self, name, arguments):
        self.name, self.arguments = name, list(arguments)

    @property
    def inputs(self):
        """The tensors that are read, in order."""
        return [a for a in self.arguments if a.type in TENSORS and "r" in a.access]

    @property
    def outputs(self):
        return [a for a in self.arguments if a.type in TENSORS and "w" in a.access]

    @property
    def attributes(self):
        return [a for a in self.arguments if a.type not in TENSORS]

    def __str__(self):
        marks = {"r": "", "w": "!", "rw": "&"}
        inner = ", ".join(f"{a.type}{marks[a.access]}{'?' if a.optional else ''} {a.name}" for a in self.arguments)
        return f"{self.name}({inner})"


TENSORS = ("Tensor", "TensorList")
NUMBERS = {"int": "int64_t", "float": "double", "bool": "bool", "dtype": "aclDataType", "string": "char *"}
OBJECTS = ("Tensor", "TensorList", "Scalar", "ScalarList", "IntArray", "BoolArray", "FloatArray")


def parse(text):
    """The schema of a line of text. Raises ValueError."""
    whole = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text, re.S)
    if not whole:
        raise ValueError(f"schema is {text!r}, expected Name(Type name, ...)")
    arguments = []
    for part in filter(None, (p.strip() for p in whole[2].split(","))):
        m = re.fullmatch(r"(\w+)([!&?]*)\s+(\w+)", part)
        kind = m and (m[1] if m[1] in OBJECTS or m[1] in NUMBERS else _C_NUMBERS.get(m[1]))
        if not kind:
            raise ValueError(f"schema has {part!r}, expected a type ({', '.join([*OBJECTS, *NUMBERS])}), one of ! & ? "
                             "or nothing, and a name")
        access = "rw" if "&" in m[2] else "w" if "!" in m[2] else "r"
        c_type = None if kind in OBJECTS else NUMBERS.get(m[1], m[1])
        arguments.append(Argument(m[3], kind, access, "?" in m[2], None, c_type))
    return Schema(re.sub("^aclnn", "", whole[1]), arguments)


# ---- declarations in C

_C_OBJECTS = {"acl" + name: name for name in OBJECTS}
_C_NUMBERS = {"int64_t": "int", "int32_t": "int", "int8_t": "int", "uint64_t": "int", "uint32_t": "int", "int": "int",
              "float": "float", "double": "float", "bool": "bool", "aclDataType": "dtype"}


def _comments_removed(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def _written(name, is_const):
    """Whether an argument of a C declaration is an output: by CANN's conventions of names, and by const where the
    author uses it."""
    return not is_const or bool(re.match(r"out(?![a-z])", name) or re.search(r"Out\d*$", name))


def _c_argument(text):
    is_const = bool(re.search(r"\bconst\b", text))
    words = re.sub(r"\bconst\b|\bstruct\b|\benum\b", " ", text).replace("*", " * ").split()
    if len(words) < 2:
        raise ValueError(f"has the parameter {text.strip()!r}, expected a type and a name")
    name, stars, base = words[-1], words[1:-1], words[0]
    if base in _C_OBJECTS and stars == ["*"]:
        kind = _C_OBJECTS[base]
        written = kind in TENSORS and _written(name, is_const)
        access = "rw" if kind in TENSORS and name.endswith("Ref") else "w" if written else "r"
        return Argument(name, kind, access, name.endswith("Optional"))
    if base == "char" and stars == ["*"]:
        return Argument(name, "string", "r", False, None, "char *")
    if base in _C_NUMBERS and not stars:
        return Argument(name, _C_NUMBERS[base], "r", False, None, base)
    raise ValueError(f"has the parameter {text.strip()!r}, whose type is not one that operators take")


def parse_header(text):
    """{name: Schema} of the operators that a header's text declares: the functions aclnn<Name>GetWorkspaceSize. Those
    with a parameter of an unknown type have a ValueError in place of the schema.

    C does not say which tensors are outputs. Here these are the tensors without const, those named out..., ...Out or
    ...Ref (read, too), and otherwise the last tensor. Where this is wrong, the user gives the schema as text."""
    found = {}
    pattern = r"\baclnn(\w+?)GetWorkspaceSize\s*\(([^()]*)\)\s*;"
    for m in re.finditer(pattern, _comments_removed(text)):
        parts = [" ".join(p.replace("*", " * ").split()) for p in m[2].split(",")]
        own = [p for p in parts if not re.fullmatch(r"uint64_t \* \w+|aclOpExecutor \* \* \w+", p)]
        try:
            arguments = [_c_argument(p) for p in own]
        except ValueError as e:
            found[m[1]] = ValueError(f"aclnn{m[1]}GetWorkspaceSize {e}; give the schema as text")
            continue
        found[m[1]] = Schema(m[1], _with_outputs(arguments))
    return found


def _with_outputs(arguments):
    tensors = [i for i, a in enumerate(arguments) if a.type in TENSORS]
    if tensors and all(arguments[i].access == "w" for i in tensors):    # no const anywhere: it says nothing
        arguments = [a._replace(access="w" if _written(a.name, True) else "r") if a.type in TENSORS else a
                     for a in arguments]
    if tensors and all(arguments[i].access == "r" for i in tensors):
        arguments[tensors[-1]] = arguments[tensors[-1]]._replace(access="w")
    return arguments
