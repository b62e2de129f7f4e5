# SPDX-License-Identifier: Apache-2.0
"""acl.mdl: a model with gears is made by atc, described and run."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from base import acl

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "cli"))
from test_atc import ATC, model  # noqa: E402

DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 1


def check(ret):
    assert ret == 0, ret


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        check(acl.rt.set_device(0))
        cls.addClassCleanup(acl.rt.reset_device, 0)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.onnx"
            path.write_bytes(model(["n", 3]))
            subprocess.run([ATC, f"--model={path}", "--framework=5", f"--output={folder}/m",
                            "--soc_version=Ascend910B3", "--input_shape=x:-1,3", "--dynamic_dims=1;4"], check=True,
                           stdout=subprocess.DEVNULL)
            cls.id, ret = acl.mdl.load_from_file(f"{folder}/m.om")
            check(ret)
        cls.addClassCleanup(lambda: acl.mdl.unload(cls.id))
        cls.desc = acl.mdl.create_desc()
        check(acl.mdl.get_desc(cls.desc, cls.id))
        cls.addClassCleanup(lambda: acl.mdl.destroy_desc(cls.desc))

    def test_description(self):
        self.assertEqual((acl.mdl.get_num_inputs(self.desc), acl.mdl.get_num_outputs(self.desc)), (2, 1))
        self.assertEqual(acl.mdl.get_input_size_by_index(self.desc, 0), 4 * 3 * 4)
        dims, ret = acl.mdl.get_input_dims(self.desc, 0)
        self.assertEqual((dims, ret), ({"name": "x", "dimCount": 2, "dims": [-1, 3]}, 0))
        self.assertEqual(acl.mdl.get_output_name_by_index(self.desc, 0), "only:0:y")
        self.assertEqual(acl.mdl.get_dynamic_batch(self.desc), ({"batchCount": 0, "batch": []}, 0))
        self.assertEqual(acl.mdl.get_dynamic_hw(self.desc, -1), ({"hwCount": 0, "hw": []}, 0))
        self.assertEqual(acl.mdl.get_input_dynamic_gear_count(self.desc, -1), (2, 0))
        gears, ret = acl.mdl.get_input_dynamic_dims(self.desc, -1, 2)
        self.assertEqual(([g["dims"] for g in gears], ret), ([[1, 3], [4, 3]], 0))

    def test_configuration(self):
        handle = acl.mdl.create_config_handle()
        self.addCleanup(acl.mdl.destroy_config_handle, handle)
        self.assertEqual(acl.mdl.set_config_opt(handle, 1, 1), 0)           # ACL_MDL_LOAD_TYPE_SIZET: a file
        self.assertEqual(acl.mdl.set_config_opt(handle, 2, "/none.om"), 0)  # ACL_MDL_PATH_PTR
        self.assertEqual(acl.mdl.load_with_config(handle)[-1], 145002)
        with self.assertRaises(TypeError):
            acl.mdl.set_config_opt(handle, 2, 5)
        more = acl.mdl.create_exec_config_handle()
        self.addCleanup(acl.mdl.destroy_exec_config_handle, more)
        self.assertEqual(acl.mdl.set_exec_config_opt(more, 0, 1000), 0)     # ACL_MDL_STREAM_SYNC_TIMEOUT
        self.assertEqual(acl.mdl.set_exec_config_opt(more, 0, 0), 100000)

    def dataset(self, *sizes):
        d = acl.mdl.create_dataset()
        self.addCleanup(acl.mdl.destroy_dataset, d)
        pointers = []
        for size in sizes:
            pointer, ret = acl.rt.malloc(size, 0)
            self.assertFalse(ret)
            self.addCleanup(acl.rt.free, pointer)
            buffer = acl.create_data_buffer(pointer, size)
            self.addCleanup(acl.destroy_data_buffer, buffer)
            self.assertEqual(acl.mdl.add_dataset_buffer(d, buffer)[-1], 0)
            pointers.append(pointer)
        return d, pointers

    def test_execution(self):
        inputs, (x, _) = self.dataset(48, 8)
        outputs, (y,) = self.dataset(48)
        index, ret = acl.mdl.get_input_index_by_name(self.desc, "ascend_mbatch_shape_data")
        self.assertEqual((index, ret), (1, 0))
        for rows in (4, 1):
            data = np.linspace(-1, 1, rows * 3, dtype=np.float32)
            self.assertFalse(acl.rt.memcpy(x, data.nbytes, acl.util.numpy_to_ptr(data), data.nbytes, HOST_TO_DEVICE))
            dims = {"name": "", "dimCount": 2, "dims": [rows, 3]}
            self.assertFalse(acl.mdl.set_input_dynamic_dims(self.id, inputs, index, dims))
            self.assertFalse(acl.mdl.execute(self.id, inputs, outputs))
            got = np.empty_like(data)
            self.assertFalse(acl.rt.memcpy(acl.util.numpy_to_ptr(got), got.nbytes, y, got.nbytes, DEVICE_TO_HOST))
            np.testing.assert_array_equal(got, np.maximum(data, 0))
        self.assertEqual(acl.mdl.set_input_dynamic_dims(self.id, inputs, index, {"dims": [2, 3]}), 145013)
        with self.assertRaises(TypeError):
            acl.mdl.set_input_dynamic_dims(self.id, inputs, index, [1, 3])


if __name__ == "__main__":
    unittest.main()
