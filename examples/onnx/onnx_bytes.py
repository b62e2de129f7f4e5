# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX models byte by byte, without the package onnx: enough of the format (protocol buffers, onnx.proto) for
small models. Nodes, values and initialisers are made by functions that return the bytes of a message."""
import struct

FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7  # TensorProto.DataType
_PACK = {FLOAT: "f", UINT8: "B", INT8: "b", INT64: "q"}


def varint(n):
    out = b""
    n &= (1 << 64) - 1  # negative numbers have ten bytes
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def message(field, content):
    """A text, bytes, or another message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def value(name, dims, dtype=FLOAT):
    """A declaration; dimensions that are texts are open."""
    shape = b"".join(message(1, message(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return message(1, name) + message(2, message(1, number(1, dtype) + message(2, shape)))


def initialiser(name, dims, numbers, dtype=FLOAT):
    """A constant. numbers: in row-major order."""
    raw = struct.pack(f"<{len(numbers)}{_PACK[dtype]}", *numbers)
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + message(8, name) + message(9, raw)


def attribute(name, content):
    """An integer, a float, a text, or a list of integers."""
    head = message(1, name)
    if isinstance(content, int):
        return head + number(3, content) + number(20, 2)
    if isinstance(content, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", content) + number(20, 1)
    if isinstance(content, str):
        return head + message(4, content) + number(20, 3)
    return head + b"".join(number(8, n) for n in content) + number(20, 7)


def node(op, inputs, outputs, name="", **attributes):
    return (b"".join(message(1, i) for i in inputs) + b"".join(message(2, o) for o in outputs) + message(3, name) +
            message(4, op) + b"".join(message(5, attribute(k, v)) for k, v in attributes.items()))


def model(nodes, inputs, outputs, initialisers=(), name="graph", opset=17):
    graph = (b"".join(message(1, n) for n in nodes) + message(2, name) +
             b"".join(message(5, i) for i in initialisers) + b"".join(message(11, v) for v in inputs) +
             b"".join(message(12, v) for v in outputs))
    return number(1, 8) + message(7, graph) + message(8, number(2, opset))
