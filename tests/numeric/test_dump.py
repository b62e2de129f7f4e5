# SPDX-License-Identifier: Apache-2.0
"""What aclmdlSetDump writes of operators' tensors: a length, a message in protobuf's encoding, the bytes."""
import collections
import ctypes as ct
import json
import os
import pathlib
import struct
import tempfile
import unittest

import numpy as np

from acl import Ints, Scalar, Tensor, TensorList, check, device, run
from dtypes import BF16, F16, F32, I64

# toolkit.dump.OutputDataType, where it is not aclDataType's number.
FLOAT, FLOAT16, INT64, BFLOAT16 = 1, 2, 8, 27
ND = 2
Dumped = collections.namedtuple("Dumped", "dtype format shape data")


def fields(data):
    """(number, value) of each field of a message: an integer, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length


class Dump:
    """A file's contents: op_name, and inputs and outputs as Dumped."""

    def __init__(self, path):
        content = path.read_bytes()
        length, = struct.unpack_from("<Q", content)
        message = list(fields(content[8:8 + length]))
        self.op_name = dict(message)[6].decode()
        self.at, self.data = 0, content[8 + length:]
        self.inputs = [self.tensor(value, 5) for number, value in message if number == 4]
        self.outputs = [self.tensor(value, 6) for number, value in message if number == 3]
        assert self.at == len(self.data), "bytes are left"

    def tensor(self, message, size_field):
        one = dict(fields(message))
        size = one.get(size_field, 0)
        data = self.data[self.at:self.at + size]
        self.at += size
        shape = [dim for _, dim in fields(one[3])]
        return Dumped(one[1], one.get(2, 0), shape, data)


class Dumps(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        self.acl = device().lib.acl
        check("aclmdlInitDump", self.acl.aclmdlInitDump())

    def tearDown(self):
        check("aclmdlFinalizeDump", self.acl.aclmdlFinalizeDump())
        self.temporary.cleanup()

    def dump(self, **section):
        file = self.folder / "acl.json"
        file.write_text(json.dumps({"dump": {"dump_path": str(self.folder), "dump_op_switch": "on", **section}}))
        check("aclmdlSetDump", self.acl.aclmdlSetDump(ct.c_char_p(os.fsencode(file))))

    def files(self):
        return sorted(self.folder.glob("2*/0/*"), key=lambda p: p.name.rsplit(".", 1)[1])

    def add(self, rng):
        values = rng.normal(size=(3, 4)).astype(np.float32)
        x, out = Tensor.of(F32, values), Tensor.empty(F32, (3, 4))
        run("aclnnAdds", x, Scalar(2.0, F32), Scalar(1, I64), out)
        return values, out

    def test_all_of_an_operator(self):
        self.dump(dump_mode="all")
        values, _ = self.add(np.random.default_rng(1))
        path, = self.files()
        self.assertRegex(path.name, r"^Adds\.aclnnAdds\.\d+\.\d+\.\d+$")
        dump = Dump(path)
        self.assertEqual(dump.op_name, "aclnnAdds")
        self.assertEqual(dump.inputs, [Dumped(FLOAT, ND, [3, 4], values.tobytes())])
        self.assertEqual(dump.outputs, [Dumped(FLOAT, ND, [3, 4], (values + np.float32(2)).tobytes())])

    def test_modes(self):
        for mode, n in (("input", (1, 0)), ("output", (0, 1))):
            before = len(self.files())
            self.dump(dump_mode=mode)
            self.add(np.random.default_rng(2))
            dump = Dump(self.files()[before])
            self.assertEqual((len(dump.inputs), len(dump.outputs)), n)

    def test_views_are_written_by_their_shape(self):
        self.dump(dump_mode="all")
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        x, out = Tensor(F32, (2, 3), strides=(1, 2)).set(values), Tensor(F32, (3, 2), strides=(1, 3))
        run("aclnnPermute", x, Ints(1, 0), out)
        dump = Dump(self.files()[0])
        self.assertEqual(dump.inputs, [Dumped(FLOAT, ND, [2, 3], values.tobytes())])
        self.assertEqual(dump.outputs, [Dumped(FLOAT, ND, [3, 2], np.ascontiguousarray(values.T).tobytes())])

    def test_types_have_the_dumps_numbers(self):
        self.dump(dump_mode="all")
        for dtype, number in ((F16, FLOAT16), (BF16, BFLOAT16), (I64, INT64)):
            before = len(self.files())
            run("aclnnCast", Tensor.of(dtype, np.ones((2,), np.float32)), 0, Tensor.empty(F32, (2,)))
            self.assertEqual(Dump(self.files()[before]).inputs[0].dtype, number)

    def test_lists_are_spread_out(self):
        self.dump(dump_mode="all")
        parts = [np.full((2, n), n, np.float32) for n in (1, 2, 3)]
        run("aclnnCat", TensorList([Tensor.of(F32, p) for p in parts]), 1, Tensor.empty(F32, (2, 6)))
        dump = Dump(self.files()[0])
        self.assertEqual([i.shape for i in dump.inputs], [[2, 1], [2, 2], [2, 3]])
        self.assertEqual(dump.outputs[0].data, np.concatenate(parts, 1).tobytes())

    def test_nothing_is_written_when_it_is_off(self):
        self.dump(dump_op_switch="off", dump_list=[{"model_name": "m"}])
        self.add(np.random.default_rng(3))
        self.assertEqual(self.files(), [])


if __name__ == "__main__":
    unittest.main()
