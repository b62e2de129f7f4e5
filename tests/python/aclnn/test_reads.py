# SPDX-License-Identifier: Apache-2.0
"""What the checker knows of how operators read their operands (the words after @ in ops/*.ops): operators that write
chosen slots of a cache leave the others as they are, so a cache of which nothing was written before is no fault."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PREFIX = pathlib.Path(os.environ["CANNON_PREFIX"])
BEGIN = """
import numpy as np
import cannon
from cannon import Tensor, aclnn

def empty(*shape, dtype="float16"):
    return Tensor.empty(shape, dtype)

def ones(*shape, dtype="float16"):
    return Tensor(np.ones(shape, np.float32)).to(dtype)

def of(values, dtype=np.int32):
    return Tensor(np.array(values, dtype))

def shown(tensor, *index):
    print(tensor[index].to("float32").numpy().sum())
"""
# Programs that read only what was written, of each kind of operator; the slots that they read last.
RIGHT = {
    "ScatterPaCache": """
cache = empty(4, 16, 1, 8)
aclnn.ScatterPaCache(ones(2, 1, 8), cache, of([3, 17]))
aclnn.ScatterPaCache(ones(2, 1, 8), cache, of([4, 18]))
shown(cache, slice(0, 1), slice(3, 5))
""",
    "ScatterPaKvCache": """
k, v = empty(4, 16, 1, 8), empty(4, 16, 1, 8)
for slots in ([3, 17], [4, 18]):
    aclnn.ScatterPaKvCache(ones(2, 1, 8), k, of(slots), ones(2, 1, 8), v)
shown(k, slice(0, 1), slice(3, 5))
""",
    "ScatterList": """
var = [empty(8, 4, dtype="float32") for _ in range(2)]
for slots in ([1, 5], [3, 7]):
    aclnn.ScatterList(var, of(slots, np.int64), ones(2, 1, 4, dtype="float32"), None, "update", -2)
shown(var[0], slice(1, 2))
""",
    "InplaceScatterUpdate": """
var = empty(2, 8, 4, dtype="float32")
for slots in ([1, 5], [3, 7]):
    aclnn.InplaceScatterUpdate(var, of(slots, np.int64), ones(2, 1, 4, dtype="float32"), -2)
shown(var, slice(0, 1), slice(1, 2))
""",
    "InplaceQuantScatter": """
var = empty(1, 4, 32, dtype="int8")
for slot in (1, 2):
    aclnn.InplaceQuantScatter(var, of([slot]), ones(1, 1, 32), ones(1, 1, 32, dtype="float32"), None, -2, -1, 1)
shown(var, slice(0, 1), slice(1, 3))
""",
    "MlaProlog": """
t, he, hcq, n, d, wide, dr, bf = 2, 16, 8, 2, 4, 32, 16, "bfloat16"
kv, kr = empty(1, 4, 1, wide, dtype=bf), empty(1, 4, 1, dr, dtype=bf)
weights = [ones(*s, dtype=bf) for s in ((he, hcq), (hcq, n * (d + dr)), (n, d, wide), (he, wide + dr), (hcq,), (wide,))]
for slots in ([0, 1], [2, 3]):
    aclnn.MlaProlog(ones(t, he, dtype=bf), *weights, ones(t, dr, dtype=bf), ones(t, dr, dtype=bf), of(slots, np.int64),
                    kv, kr, *[None] * 7, 1e-5, 1e-5, None, out=(empty(t, n, wide, dtype=bf), empty(t, n, dr, dtype=bf)))
    shown(kv, slice(0, 1), slice(slots[0], slots[1] + 1))
""",
    "MlaPrologV2WeightNz": """
t, he, hcq, n, d, wide, dr, bf = 2, 16, 8, 2, 4, 32, 16, "bfloat16"
kv, kr = empty(1, 4, 1, wide, dtype=bf), empty(1, 4, 1, dr, dtype=bf)
weights = [ones(*s, dtype=bf) for s in ((he, hcq), (hcq, n * (d + dr)), (n, d, wide), (he, wide + dr), (hcq,), (wide,))]
for slots in ([0, 1], [2, 3]):
    aclnn.MlaPrologV2WeightNz(
        ones(t, he, dtype=bf), *weights, ones(t, dr, dtype=bf), ones(t, dr, dtype=bf), of(slots, np.int64), kv, kr,
        *[None] * 7, 1e-5, 1e-5, None, out=(empty(t, n, wide, dtype=bf), empty(t, n, dr, dtype=bf), None))
    shown(kv, slice(0, 1), slice(slots[0], slots[1] + 1))
""",
    "KvRmsNormRopeCache": """
for call, last in ((aclnn.KvRmsNormRopeCache, ()), (aclnn.KvRmsNormRopeCacheV2, (None,))):
    k, ckv = empty(2, 16, 1, 16), empty(2, 16, 1, 32)
    for first in (0, 6):
        call(ones(2, 1, 3, 48), ones(32), ones(2, 1, 3, 16), ones(2, 1, 3, 16), of(np.arange(6) + first, np.int64), k,
             ckv, None, None, None, None, *last, 1e-5, "PA", False, out=(None, None))
    shown(ckv, slice(0, 1), slice(0, 12))
""",
    "QkvRmsNormRopeCache": """
q, k, v = empty(4, 32), empty(2, 2, 4, 16), empty(2, 2, 4, 16)
for first in (0, 4):
    aclnn.QkvRmsNormRopeCache(ones(4, 96), ones(32), ones(32), ones(4, 32), ones(4, 32),
                              of(np.arange(4) + first, np.int64), q, k, v, *[None] * 4, [2, 2, 3, 32], [1, 1, 1], 1e-6,
                              "PA_NZ", out=(None, None, None))
    shown(k, slice(0, 1 + first // 4))
""",
    "DequantRopeQuantKvcache": """
k, v = empty(2, 4, 1, 8, dtype="int8"), empty(2, 4, 1, 8, dtype="int8")
for at in (0, 1):
    aclnn.DequantRopeQuantKvcache(ones(2, 3, 24), ones(2, 3, 1, 8), ones(2, 3, 1, 8), k, v, of([at, at]),
                                  ones(8, dtype="float32"), ones(8, dtype="float32"), *[None] * 5, [8, 8, 8], "static",
                                  None, False, None, out=(empty(2, 3, 1, 8), None, None))
shown(k, slice(0, 2), slice(0, 4))
""",
    "GatherPaKvCache": """
keys, values = empty(3, 4, 1, 16), empty(3, 4, 1, 16)
aclnn.ScatterPaKvCache(ones(2, 1, 16), keys, of([4, 5]), ones(2, 1, 16), values)
k, v = empty(2, 1, 16), empty(2, 1, 16)
aclnn.GatherPaKvCache(keys, values, of([[1]]), of([2]), k, v, None, "Norm", False)
shown(k)
""",
    "copies in their order": """
x = empty(4, 8, dtype="float32")
aclnn.InplaceCopy(x[1:2], ones(1, 8, dtype="float32"))
y = empty(4, 8, dtype="float32")
aclnn.InplaceCopy(y, x)
shown(y, slice(1, 2))
""",
}
# What must be told all the same: the call, the shape of an operand that nothing has written, and the operand's name.
WRONG = {
    "Exp": ("aclnn.Exp(blank)", (4,), "self"),
    "IndexSelect": ("aclnn.IndexSelect(blank, 0, of([1]))", (4, 4), "self"),
    "InplaceScatterUpdate": ("aclnn.InplaceScatterUpdate(ones(1, 8, 4), of([1], np.int64), blank, -2)", (1, 1, 4),
                             "updates"),
    "InplaceAdd": ("aclnn.InplaceAdd(blank, ones(4), 1)", (4,), "selfRef"),
    "ApplyRotaryPosEmb": ("x = ones(1, 2, 1, 128); aclnn.ApplyRotaryPosEmb(x, blank, x, x, 1)", (1, 2, 1, 128),
                          "keyRef"),
}


class Reads(unittest.TestCase):
    def findings(self, script):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            (path / "script.py").write_text(BEGIN + script)
            done = subprocess.run([PREFIX / "bin/cannon", "run", "--quiet", "--check=init", "--json", path / "out.json",
                                   "--", sys.executable, path / "script.py"], capture_output=True, text=True)
            self.assertTrue((path / "out.json").exists(), done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            return [f["message"] for f in json.loads((path / "out.json").read_text())["check"]["findings"]], done

    def test_right_programs(self):
        found, done = self.findings("\n".join(f"print('{name}')\n{text}" for name, text in RIGHT.items()))
        self.assertEqual(found, [], done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_wrong_programs(self):
        # The operands are made first: later tensors may get memory that others have written before.
        blanks = ", ".join(f"empty{shape}" for _, shape, _ in WRONG.values())
        calls = [f"blank = blanks[{i}]\n{text}" for i, (text, *_) in enumerate(WRONG.values())]
        found, done = self.findings("\n".join([f"blanks = [{blanks}]", *calls]))
        self.assertEqual(len(found), len(WRONG), done.stderr)
        for message, (operator, (*_, operand)) in zip(sorted(found), sorted(WRONG.items())):
            self.assertIn(operator, message)
            self.assertIn(operand, message)


if __name__ == "__main__":
    unittest.main()
