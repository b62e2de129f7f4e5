# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that MindSpore's nn and ops call: mirrored borders, rows, blocks as batches, boxes."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BF16, F16, F32, I8, I32, I64, LD
from gen import each_case

UNUSED = {"not_an_attribute": 3}


def small(gen, d, shape, limit=4):
    return gen.values(d, shape, limit=limit)


def shape_of(gen, least=1, most=4, size=6):
    return tuple(gen.integer(1, size) for _ in range(gen.integer(least, most)))


class Moves(unittest.TestCase):
    def test_mirrors(self):
        def body(gen):
            d, shape, symmetric = gen.pick((F32, F16, BF16, I64, I8)), shape_of(gen), gen.chance(0.5)
            pads = [[gen.integer(0, n - (not symmetric)) if gen.chance(0.7) else 0 for _ in range(2)] for n in shape]
            x = small(gen, d, shape)
            exact = np.pad(x, pads, mode="symmetric" if symmetric else "reflect")
            y = Operand.empty(d, exact.shape)
            mode = {"mode": "SYMMETRIC" if symmetric else "REFLECT"}
            execute("MirrorPad", [Operand.of(d, x), Host(pads)], [y], {**mode, **UNUSED})
            ref.check_equal(y.get(), exact)
        each_case(self, "MirrorPad", 30, body)
        x, y = Operand.of(F32, np.ones(3, np.float32)), Operand.empty(F32, (6,))
        with self.assertRaisesRegex(AclError, "expected at most 2"):
            execute("MirrorPad", [x, Host([[0, 3]])], [y], {"mode": "REFLECT"})

    def test_rows(self):
        def body(gen):
            d, shape = gen.pick((F32, F16, BF16, I32)), shape_of(gen)
            at = [gen.integer(0, shape[0] - 1) for _ in range(gen.integer(1, 5))]
            if d is not I32:                                           # each step is rounded, as it is stored
                at = list(dict.fromkeys(at))
            x, v = (Operand.of(d, small(gen, d, s)) for s in (shape, (len(at), *shape[1:])))
            for name, sign in (("Update", None), ("Add", 1), ("Sub", -1)):
                exact, y = x.get().copy(), Operand.empty(d, shape)
                exact = exact if d is I32 or sign is None else exact.astype(LD)
                for i, row in zip(at, v.get()):
                    exact[i] = row if sign is None else exact[i] + sign * row
                execute(f"Inplace{name}D", [x, v], [y], {"indices": at, **UNUSED})
                if d is I32 or sign is None:
                    ref.check_equal(y.get(), exact)
                else:
                    ref.check(y.get(), exact, d, slack=np.abs(exact) * 1e-6)
        each_case(self, "InplaceAddD", 20, body)

    def test_gathering_in_batches(self):
        def body(gen):
            d, shape, k = gen.pick((F32, F16, I64, I8)), shape_of(gen, 2), gen.pick((I32, I64))
            axis = gen.integer(1, len(shape) - 1)
            n = gen.integer(0, axis)
            x, rest = small(gen, d, shape), shape_of(gen, 0, 2, 4)
            at = gen.rng.integers(0, shape[axis], (*shape[:n], *rest)).astype(k.values)
            exact = np.array([np.take(x[i], at[i], axis - n) for i in np.ndindex(*shape[:n])], x.dtype)
            exact = exact.reshape(*shape[:axis], *rest, *shape[axis + 1:])
            y = Operand.empty(d, exact.shape)
            batches = n if n == len(at.shape) or gen.chance(0.5) else n - at.ndim
            execute("GatherV2", [Operand.of(d, x), Operand.of(k, at), Host(axis)], [y], {"batch_dims": batches})
            ref.check_equal(y.get(), exact)
        each_case(self, "GatherV2", 30, body)
        x = Operand.of(F32, np.ones((2, 3), np.float32))
        with self.assertRaisesRegex(AclError, "expected the first 1 dimensions of x"):
            execute("GatherV2", [x, Operand.of(I32, np.zeros((3, 1), np.int32)), Host(1)],
                    [Operand.empty(F32, (3, 1))], {"batch_dims": 1})

    def test_batches(self):
        def body(gen):
            d, m = gen.pick((F32, F16, I64, I8)), gen.integer(1, 3)
            n, block = gen.integer(1, 3), [gen.integer(1, 3) for _ in range(m)]
            depth, inner = [gen.integer(1, 3) for _ in range(m)], shape_of(gen, 0, 2, 3)
            whole = [a * b for a, b in zip(depth, block)]
            pads = [[(k := gen.integer(0, w - 1)), gen.integer(0, w - 1 - k)] for w in whole]
            x = small(gen, d, (n, *(w - a - b for w, (a, b) in zip(whole, pads)), *inner))
            padded = np.pad(x, [(0, 0), *pads, *((0, 0) for _ in inner)])
            cut = padded.reshape(n, *(k for pair in zip(depth, block) for k in pair), *inner)
            order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)]
            exact = cut.transpose(*order, *range(2 * m + 1, cut.ndim)).reshape(n * int(np.prod(block)), *depth, *inner)
            y, back = Operand.empty(d, exact.shape), Operand.empty(d, x.shape)
            kind = gen.pick((np.int32, np.int64))
            execute("SpaceToBatchND", [Operand.of(d, x), Host(block, kind), Host(pads)], [y], UNUSED)
            ref.check_equal(y.get(), exact)
            execute("BatchToSpaceND", [y, Host(block, kind), Host(pads)], [back], UNUSED)
            ref.check_equal(back.get(), x)
        each_case(self, "SpaceToBatchND", 20, body)

    def test_boxes(self):
        def body(gen):
            d, eps, foreground = gen.pick((F32, F16)), gen.pick((None, 0.5)), gen.chance(0.5)
            corners = [np.cumsum(np.abs(small(gen, d, (gen.integer(1, 6), 2, 2))) + 0.5, 1).reshape(-1, 4)
                       for _ in range(2)]
            a, b = (Operand.of(d, c) for c in corners)
            y = Operand.empty(d, (len(corners[1]), len(corners[0])))
            attributes = {"mode": "iof"} if foreground else {}
            execute("Iou", [a, b], [y], {**attributes, **({"eps": eps} if eps is not None else {}), **UNUSED})
            p, q, e = a.get().astype(LD)[None], b.get().astype(LD)[:, None], LD(1 if eps is None else eps)
            area = lambda v: np.prod(np.maximum(v[..., 2:] - v[..., :2] + e, 0), -1)
            both = area(np.concatenate([np.maximum(p, q)[..., :2], np.minimum(p, q)[..., 2:]], -1))
            exact = both / (area(q) if foreground else area(p) + area(q) - both)
            ref.check(y.get(), exact, d, slack=1e-6)
        each_case(self, "Iou", 20, body)

    def test_functions(self):
        def body(gen):
            d, shape = gen.pick((F32, F16)), shape_of(gen)
            x = np.clip(np.abs(small(gen, d, shape)) / 4, 0.05, 0.95).astype(d.values)
            for name in ("tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arctanh", "arccosh"):
                given = Operand.of(d, x + (name == "arccosh"))
                y = Operand.empty(d, shape)
                execute(name.replace("arc", "a").capitalize(), [given], [y], UNUSED)
                exact = getattr(np, name)(given.get().astype(LD))
                ref.check(y.get(), exact, d, slack=np.abs(exact) * 1e-5 + 1e-6)
            for name in ("Lgamma", "Digamma"):
                k = gen.integer(1, 9)
                y = Operand.empty(d, (1,))
                execute(name, [Operand.of(d, np.array([k], d.values))], [y], UNUSED)
                exact = np.log(np.arange(1, k, dtype=LD)).sum() if name == "Lgamma" else \
                    -np.euler_gamma + (1 / np.arange(1, k, dtype=LD)).sum()
                ref.check(y.get(), np.array([exact], LD), d, slack=1e-5)
            many = [Operand.of(d, small(gen, d, shape)) for _ in range(gen.integer(1, 5))]
            y = Operand.empty(d, shape)
            execute("AccumulateNV2", many, [y], {"N": len(many)})
            exact = sum(o.get().astype(LD) for o in many)
            ref.check(y.get(), exact, d, slack=sum(np.abs(o.get().astype(LD)) for o in many) * 1e-6)
        each_case(self, "Acos", 20, body)


if __name__ == "__main__":
    unittest.main()
