# SPDX-License-Identifier: Apache-2.0
"""AttentionUpdate, which joins results over different keys, and GatherPaKvCache, which collects sequences from paged
caches."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Tensor, TensorList, refused, run
from dtypes import BF16, F16, F32, FLOATS, I32, I64, I8, LD
from gen import each_case

CASES = 40


class Update(unittest.TestCase):
    def test_join(self):
        def body(gen):
            d, parts, rows, width = gen.pick(FLOATS), gen.integer(1, 16), gen.integer(1, 20), gen.pick((1, 8, 72, 520))
            out = [gen.drawn(d, (rows, width), lambda s: gen.values(d, s, limit=4)) for _ in range(parts)]
            lse = [gen.tensor(F32, (rows,), F32.round(gen.rng.uniform(-20, 20, rows))) for _ in range(parts)]
            none = gen.chance(0.3)
            for t in lse[1:] if none else ():  # parts without keys
                t.set(np.where(gen.rng.random(rows) < 0.5, -np.inf, t.get()))
            kind, y, to = gen.integer(0, 1), gen.out(d, (rows, width)), gen.out(F32, (rows,))
            run("aclnnAttentionUpdate", TensorList(lse), TensorList(out), kind, y,
                to if kind or gen.chance(0.5) else None)
            logs = np.stack([t.get().astype(LD) for t in lse])
            top = logs.max(axis=0)
            total = np.exp(logs - top).sum(axis=0)
            share = np.exp(logs - top) / total
            terms = np.stack([t.get().astype(LD) for t in out]) * share[..., None]
            ref.check(y.get(), terms.sum(axis=0), d, F32, ulps=1, slack=3e-6 * np.abs(terms).sum(axis=0))
            if kind:
                ref.check(to.get(), top + np.log(total), F32, F32, ulps=1, slack=2e-6 * (1 + np.abs(top)))
        each_case(self, "aclnnAttentionUpdate", CASES, body)

    def test_no_keys(self):
        lse, out = [Tensor.of(F32, [-np.inf])] * 2, [Tensor.of(F32, [[1, 2]]), Tensor.of(F32, [[3, 4]])]
        y, to = Tensor.empty(F32, (1, 2)), Tensor.empty(F32, (1,))
        run("aclnnAttentionUpdate", TensorList(lse), TensorList(out), 1, y, to)
        self.assertEqual(y.get().tolist(), [[0, 0]])
        self.assertEqual(to.get().tolist(), [-np.inf])

    def test_refused(self):
        log, one, half = Tensor.empty(F32, (3,)), Tensor.empty(F32, (3, 8)), Tensor.empty(F16, (3, 8))
        for expected, args in (
                ("lse has 17 tensors", ([log] * 17, [one] * 17, 0, one, None)),
                ("localOut has 1 tensors", ([log] * 2, [one], 0, one, None)),
                ("localOut[1] has dtype FLOAT16", ([log] * 2, [one, half], 0, one, None)),
                ("lse[0] has shape [3, 8]", ([one], [one], 0, one, None)),
                ("out has dtype FLOAT16", ([log], [one], 0, half, None)),
                ("lseOut is NULL", ([log], [one], 1, one, None)), ("updateType is 2", ([log], [one], 2, one, log))):
            code, message = refused("aclnnAttentionUpdate", TensorList(args[0]), TensorList(args[1]), *args[2:])
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)


class Gather(unittest.TestCase):
    def test_gather(self):
        def body(gen):
            d, of_value = gen.pick((I8, F16, BF16, F32)), gen.pick((I8, F16, F32))
            blocks, block, heads, columns = gen.integer(1, 6), gen.integer(1, 9), gen.pick((1, 2, 4)), gen.integer(1, 4)
            sizes, blocked = (gen.pick((8, 16)), gen.pick((8, 24))), gen.chance(0.4)
            sequences, kind = gen.integer(1, 5), gen.pick((I32, I64))
            lengths = gen.rng.integers(0, block * columns + 3, sequences)
            tokens = max(int(lengths.sum()) + gen.integer(-3, 3), 1)
            table = gen.rng.integers(-1, blocks + 1, (sequences, columns))
            offset = gen.rng.integers(0, 2 * block, sequences) if gen.chance(0.5) else None
            ends, cumulative = np.cumsum(lengths), gen.chance(0.5)
            caches, to, exact = [], [], []
            begins = ends - lengths
            for t, size in zip((d, of_value), sizes):
                shape = (blocks, heads * size // 8, block, 8) if blocked else (blocks, block, heads, size)
                caches.append(gen.drawn(t, shape, lambda s, t=t: gen.values(t, s)))
                values = caches[-1].get()
                if blocked:
                    values = values.transpose(0, 2, 1, 3).reshape(blocks, block, heads, size)
                to.append(gen.out(t, (tokens, heads, size), gen.values(t, (tokens, heads, size))))
                exact.append(to[-1].get().copy())
                for i, n in enumerate(lengths):
                    for j in range(n):
                        at = (offset[i] // block if offset is not None else 0) + j // block
                        number = table[i, at] if at < columns else -1
                        if begins[i] + j < tokens:
                            exact[-1][begins[i] + j] = values[number, j % block] if 0 <= number < blocks else 0
            as_index = lambda v: gen.tensor(kind, v.shape, v.astype(kind.values))
            run("aclnnGatherPaKvCache", *caches, as_index(table),
                as_index(np.concatenate([[0], ends]) if cumulative else lengths), *to,
                None if offset is None else as_index(offset), b"PA_NZ" if blocked else b"Norm", cumulative)
            for t, values in zip(to, exact):
                np.testing.assert_array_equal(t.get(), values)
        each_case(self, "aclnnGatherPaKvCache", CASES, body)

    def test_refused(self):
        cache, key = Tensor.empty(F16, (2, 4, 2, 8)), Tensor.empty(F16, (5, 2, 8))
        table, lengths = Tensor.of(I32, [[0, 1]]), Tensor.of(I32, [5])
        usual = {"k": cache, "v": cache, "table": table, "n": lengths, "to": key, "too": key, "offset": None,
                 "mode": b"Norm", "sum": False}
        for expected, values in (
                ("cacheMode is NZ", {"mode": b"NZ"}), ("seqLens has shape [1]", {"sum": True}),
                ("keyCache has dtype FLOAT", {"k": Tensor.empty(F32, (2, 4, 2, 8))}),
                ("valueCache has shape [2, 3, 2, 8]", {"v": Tensor.empty(F16, (2, 3, 2, 8))}),
                ("valueRef has shape [4, 2, 8]", {"too": Tensor.empty(F16, (4, 2, 8))}),
                ("blockTables has dtype FLOAT", {"table": Tensor.empty(F32, (1, 2))}),
                ("seqOffsetOptional has shape [2]", {"offset": Tensor.of(I32, [0, 0])}),
                ("keyCache has shape", {"mode": b"PA_NZ"})):
            code, message = refused("aclnnGatherPaKvCache", *{**usual, **values}.values())
            self.assertEqual(code, INVALID)
            self.assertIn(expected, message)
        with self.assertRaisesRegex(AclError, "seqLens"):
            run("aclnnGatherPaKvCache", *{**usual, "n": Tensor.of(I32, [-1])}.values())


if __name__ == "__main__":
    unittest.main()
