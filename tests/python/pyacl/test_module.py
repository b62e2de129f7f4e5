# SPDX-License-Identifier: Apache-2.0
"""The module as a whole: its names, constants and signatures, and the errors that functions give for bad arguments."""
import csv
import importlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

from base import REPOSITORY, acl, run_script


def functions():
    """{name: function} of the module and its submodules"""
    found = {}
    for prefix, module in [("acl", acl)] + [(f"acl.{n}", m) for n, m in vars(acl).items()
                                            if isinstance(m, types.ModuleType)]:
        for name, value in vars(module).items():
            if isinstance(value, types.BuiltinFunctionType):
                found[f"{prefix}.{name}"] = value
    return found


FUNCTIONS = functions()


def arguments(function):
    """The names of a function's arguments, by its signature."""
    text = function.__text_signature__
    return [a.strip() for a in text.strip("()").split(",") if a.strip()] if text else None


class Names(unittest.TestCase):
    def test_table_of_names(self):
        """docs/python/pyacl.md has every name, and the reason where one is absent."""
        done = subprocess.run([sys.executable, REPOSITORY / "scripts/gen_pyacl.py", "--check", "--table",
                               REPOSITORY / "docs/python/pyacl.md"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_module_has_what_the_table_says(self):
        with open(REPOSITORY / "docs/python/pyacl.md", encoding="utf-8") as f:
            rows = re.findall(r"^\| `(?:[^`]* = )?(acl\.[\w.]+)\([^`]*` \|", f.read(), re.M)
        self.assertGreater(len(rows), 250)
        self.assertEqual(sorted(FUNCTIONS), sorted(rows))

    def test_names_of_the_pages_are_in_the_table(self):
        with open(REPOSITORY / "docs/python/pyacl.md", encoding="utf-8") as f:
            words = set(re.findall(r"\w+", f.read()))
        with open(REPOSITORY / "abi/pyacl.tsv", encoding="utf-8", newline="") as f:
            for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
                self.assertIn(row["name"].rpartition(".")[2], words)

    def test_submodules_can_be_imported(self):
        for name in ("rt", "op", "util", "prof", "mdl", "media"):
            self.assertIs(importlib.import_module(f"acl.{name}"), getattr(acl, name))
        from acl.rt import malloc
        self.assertIs(malloc, acl.rt.malloc)
        self.assertEqual(malloc.__module__, "acl.rt")

    def test_absent_functions_are_not_there(self):
        self.assertFalse(hasattr(acl.mdl, "create_and_get_op_desc"))
        self.assertFalse(hasattr(acl.media, "vdec_create_channel"))

    def test_every_function_has_documentation(self):
        for name, function in FUNCTIONS.items():
            self.assertIn(name + "(", function.__doc__, name)


class Constants(unittest.TestCase):
    def test_values(self):
        n = 0
        for table, key in (("enums", "constant"), ("macros", "macro")):
            with open(REPOSITORY / f"abi/{table}.tsv", encoding="utf-8", newline="") as f:
                for row in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
                    if row["header"].startswith("acl/") and row[key].startswith("ACL_") and row["value"]:
                        value = getattr(acl, row[key])
                        if row.get("conflict") or row[key] in ("ACL_MAJOR_VERSION", "ACL_MINOR_VERSION"):
                            continue
                        self.assertEqual(value, row["value"].strip('"') if isinstance(value, str)
                                         else int(row["value"]), row[key])
                        n += 1
        self.assertGreater(n, 500)

    def test_those_that_samples_use(self):
        self.assertEqual((acl.ACL_MEMCPY_HOST_TO_HOST, acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST,
                          acl.ACL_MEMCPY_DEVICE_TO_DEVICE), (0, 1, 2, 3))
        self.assertEqual((acl.ACL_FLOAT, acl.ACL_FLOAT16, acl.ACL_INT8, acl.ACL_BF16), (0, 1, 2, 27))
        self.assertEqual((acl.ACL_FORMAT_ND, acl.ACL_MEM_MALLOC_NORMAL_ONLY, acl.ACL_HOST), (2, 2, 1))
        self.assertEqual(acl.ACL_DT_UNDEFINED, -1)


class BadArguments(unittest.TestCase):
    def test_wrong_number(self):
        n = 0
        for name, function in FUNCTIONS.items():
            names = arguments(function)
            if names is None:
                continue
            for count in {0, len(names) - 1, len(names) + 1} - {len(names), -1}:
                with self.assertRaises(TypeError, msg=name) as caught:
                    function(*[0] * count)
                self.assertIn(f"{name}() takes {len(names)} argument", str(caught.exception))
                n += 1
        self.assertGreater(n, 500)

    def test_wrong_type(self):
        """An object of no use as the first argument: the message has the function's and the argument's name."""
        n = 0
        for name, function in FUNCTIONS.items():
            names = arguments(function)
            if not names:
                continue
            with self.assertRaises(TypeError, msg=name) as caught:
                function(*[object()] * len(names))
            self.assertRegex(str(caught.exception), rf"^{re.escape(name)}\(\): ({'|'.join(names)}) is ")
            n += 1
        self.assertGreater(n, 230)

    def test_each_argument(self):
        for wrong, message in ((("0", 0, 0, 0), "dst is str, expected int"), ((0, 1.5, 0, 0), "dest_max is float"),
                               ((0, 0, None, 0), "src is NoneType"), ((0, 0, 0, b"1"), "count is bytes")):
            with self.assertRaises(TypeError) as caught:
                acl.rt.memcpy(*wrong, 0)
            self.assertIn(f"acl.rt.memcpy(): {message}", str(caught.exception))

    def test_out_of_range(self):
        for call, message in (
                (lambda: acl.rt.malloc(-1, 0), "size is -1, expected 0 to 18446744073709551615"),
                (lambda: acl.rt.malloc(1 << 64, 0), "size is 18446744073709551616, expected 0 to"),
                (lambda: acl.rt.set_device(1 << 31), "device_id is 2147483648, expected -2147483648 to 2147483647"),
                (lambda: acl.rt.free(-5), "dev_ptr is -5"),
                (lambda: acl.op.set_attr_bool(1, "a", 256), "attr_value is 256, expected 0 to 255"),
                (lambda: acl.create_tensor_desc(0, [1, 1 << 63], 2), "dims[1] is 9223372036854775808")):
            with self.assertRaises(OverflowError) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    def test_lists(self):
        for call, kind, message in (
                (lambda: acl.create_tensor_desc(0, "12", 2), TypeError, "dims is str, expected a list"),
                (lambda: acl.create_tensor_desc(0, [1, None], 2), TypeError, "dims[1] is NoneType, expected int"),
                (lambda: acl.op.execute_v2("Add", [1, 2], [1], [1], [1], 0, 0), ValueError,
                 "inputs has 1 elements, expected 2"),
                (lambda: acl.set_tensor_shape_range(1, [[1, 2], [3]]), ValueError, "dims_range[1] has 1 elements"),
                (lambda: acl.op.set_attr_list_list_int(1, "a", [[1], 2]), TypeError, "values[1] is int"),
                (lambda: acl.op.set_attr_list_string(1, "a", ["b", 2]), TypeError,
                 "attr_value[1] is int, expected str"),
                (lambda: acl.op.set_attr_list_float(1, "a", [1, "x"]), TypeError,
                 "attr_value[1] is str, expected float"),
                (lambda: acl.op.set_attr_string(1, "a", "x\0y"), ValueError, "attr_value has a null character")):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(message, str(caught.exception))

    def test_dicts(self):
        prop = {"handleType": 0, "allocationType": 0, "memAttr": 1, "location": {"id": 0, "type": 1}}
        for change, kind, message in (
                ({"memAttr": "x"}, TypeError, "prop['memAttr'] is str, expected int"),
                ({"location": 3}, TypeError,
                 "prop['location'] is 3, expected a dict with the fields of aclrtMemLocation"),
                ({"location": {"id": 0}}, ValueError, "prop['location']['type'] is missing"),
                ({"memattr": 1}, ValueError, "keys that are no fields of aclrtPhysicalMemProp"),
                ({"location": {"id": -1, "type": 1}}, OverflowError, "prop['location']['id'] is -1")):
            with self.assertRaises(kind) as caught:
                acl.rt.malloc_physical(1 << 21, {**prop, **change}, 0)
            self.assertIn(message, str(caught.exception))

    def test_objects_with_an_index_are_integers(self):
        class Number:
            def __index__(self):
                return 4

        class Broken:
            def __index__(self):
                raise KeyError("broken")

        self.assertEqual(acl.data_type_size(Number()), acl.data_type_size(4))
        with self.assertRaises(KeyError):
            acl.data_type_size(Broken())


class OtherLibraries(unittest.TestCase):
    def test_a_library_with_fewer_functions(self):
        """LD_LIBRARY_PATH has another CANN, whose libraries know two of the functions: the module has those."""
        with tempfile.TemporaryDirectory() as folder:
            for name, source in (("ascendcl", "int aclInit(const char *p) { return p ? 7 : 8; }"
                                              "int aclrtSetDevice(int d) { return d; }"),
                                 ("acl_op_compiler", ""), ("acl_cblas", ""), ("acl_dvpp", ""), ("msprofiler", ""),
                                 ("acl_tdt_channel", "")):
                subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/lib{name}.so"], input=source,
                               text=True, check=True)
            done = run_script("""
import acl
print(acl.init(), acl.init("x"), acl.rt.set_device(5))
print([n for n in vars(acl.rt) if not n.startswith("_")], hasattr(acl, "op"), acl.ACL_FLOAT16)
""", LD_LIBRARY_PATH=folder)
        self.assertEqual(done.stdout, "8 7 5\n['set_device'] False 1\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
