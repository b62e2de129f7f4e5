# SPDX-License-Identifier: Apache-2.0
"""Boxes, points and layers of images: overlaps, selection of boxes, deformable attention, distances of point sets."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, AclError, Floats, Ints, Tensor, refused, run
from dtypes import F16, F32, F64, FLOATS, I32, I64, LD, U8
from gen import each_case

CASES = 40


def rounded(d, values):
    return d.round(np.asarray(values)).astype(d.values)


# ---- boxes

def boxes_of(gen, d, shape):
    """Random boxes, x0 y0 x1 y1, on a grid so that many overlap or touch."""
    def draw(s):
        low = gen.rng.integers(0, 8, s[:-1] + (2,))
        return rounded(d, np.concatenate([low, low + gen.rng.integers(1, 8, s[:-1] + (2,))], -1)[..., :s[-1]] / 2)
    return gen.out(d, shape, draw(shape))


class Iou(unittest.TestCase):
    def case(self, gen):
        d, n, aligned = gen.pick(FLOATS), gen.integer(0, 12), gen.chance(0.4)
        m = n if aligned else gen.integer(0, 12)
        a, b = boxes_of(gen, d, (n, 4)), boxes_of(gen, d, (m, 4))
        mode, eps = gen.pick((b"iou", b"iof")), gen.pick((0.0, 0.0, 1.0))
        out = gen.out(d, (n, 1 if aligned else m))
        run("aclnnIou", a, b, mode, eps, aligned, out)
        x, y = a.get().astype(LD)[:, None], b.get().astype(LD)
        y = y[:, None] if aligned else y[None]
        sides = np.minimum(x[..., 2:], y[..., 2:]) - np.maximum(x[..., :2], y[..., :2]) + eps
        both = np.maximum(sides, 0).prod(-1)
        first, second = ((v[..., 2:] - v[..., :2] + eps).prod(-1) for v in (x, y))
        ref.check(out.get(), both / (second if mode == b"iof" else first + second - both), d, ulps=0.5)

    def test_all(self):
        each_case(self, "aclnnIou", 2 * CASES, self.case)

    def test_page(self):
        out = Tensor.empty(F32, (2, 1))
        a, b = (Tensor.of(F32, [v, v]) for v in ([1.0, 1, 5, 3], [4.0, 2, 9, 5]))
        run("aclnnIou", a, b, b"iou", 0.0, True, out)
        ref.check_equal(out.get(), np.float32([[1 / 22], [1 / 22]]))
        code, message = refused("aclnnIou", a, b, b"giou", 0.0, True, out)
        self.assertEqual(code, INVALID)
        self.assertIn('mode is "giou"', message)


class NonMaxSuppression(unittest.TestCase):
    def case(self, gen):
        d, batches, classes, n = gen.pick((F32, F16)), gen.integer(1, 3), gen.integer(1, 3), gen.integer(0, 20)
        centers, most = gen.integer(0, 1), gen.integer(0, 8)
        boxes = boxes_of(gen, d, (batches, n, 4))
        scores = gen.drawn(d, (batches, classes, n), lambda s: rounded(d, gen.rng.integers(0, 17, s) / 16))
        iou, least = gen.pick((0.0, 0.25, 0.5)), gen.pick((0.0, 0.25, 0.5))
        exact = self.select(boxes.get().astype(LD), scores.get().astype(LD), most, iou, least, centers)
        out = Tensor.empty(I32, (max(len(exact) + gen.integer(-1, 2), 0), 3))
        shapes = []
        run("aclnnNonMaxSuppression", boxes, scores, Ints(most), Floats(iou), Floats(least), centers, out,
            shapes=shapes)
        rows = min(len(exact), out.shape[0])
        self.assertEqual(shapes[-1], (rows, 3))
        ref.check_equal(out.get()[:rows], np.array(exact, np.int32).reshape(-1, 3)[:rows])

    def select(self, boxes, scores, most, iou, least, centers):
        found = []
        for b, c in np.ndindex(scores.shape[:2]):
            kept = []
            for i in sorted(range(boxes.shape[1]), key=lambda i: -scores[b, c, i]):
                x = boxes[b, i]
                x = np.concatenate([x[:2] - x[2:] / 2, x[:2] + x[2:] / 2]) if centers else x
                if scores[b, c, i] < least or len(kept) == most or any(self.overlap(x, y) > iou for y, _ in kept):
                    continue
                kept.append((x, i))
            found += [(b, c, i) for _, i in kept]
        return found

    def overlap(self, x, y):
        both = np.maximum(np.minimum(x[2:], y[2:]) - np.maximum(x[:2], y[:2]), 0).prod()
        return both / ((x[2:] - x[:2]).prod() + (y[2:] - y[:2]).prod() - both)

    def test_all(self):
        each_case(self, "aclnnNonMaxSuppression", 2 * CASES, self.case)

    def test_wrong(self):
        boxes, scores, out = Tensor.empty(F32, (1, 3, 4)), Tensor.empty(F32, (1, 2, 3)), Tensor.empty(I32, (3, 3))
        for args, word in (((boxes, Tensor.empty(F32, (1, 2, 4)), Ints(3), Floats(0.5), Floats(0.0), 0, out),
                            "scores has shape"),
                           ((boxes, scores, Ints(3), Floats(1.5), Floats(0.0), 0, out), "iouThreshold is 1.5"),
                           ((boxes, scores, Ints(3), Floats(0.5), Floats(0.0), 2, out), "centerPointBox is 2")):
            code, message = refused("aclnnNonMaxSuppression", *args)
            self.assertEqual(code, INVALID)
            self.assertIn(word, message)


# ---- layers

class Layers(unittest.TestCase):
    def images(self, gen, d):
        shape = (gen.integer(1, 9), gen.integer(1, 40), gen.pick((1, 3)))
        mask = shape[:2] + (1,)
        images = [gen.drawn(d, shape, lambda s: gen.values(d, s, limit=None if d is U8 else 100, special=False))
                  for _ in "ab"]
        return images, mask, gen.out(d, shape)

    def test_opacity(self):
        def case(gen):
            (rgb, frame), shape, out = self.images(gen, U8)
            alpha = gen.drawn(U8, shape, lambda s: gen.values(U8, s))
            x, y, a = (t.get().astype(np.int64) for t in (rgb, frame, alpha))
            run("aclnnMrgbaCustom", rgb, alpha, out)
            ref.check_equal(out.get(), (x * a // 255).astype(np.uint8))
            run("aclnnBlendImagesCustom", rgb, alpha, frame, out)
            ref.check_equal(out.get(), ((x * a + y * (255 - a)) // 255).astype(np.uint8))
        each_case(self, "opacity", CASES, case)

    def test_background(self):
        def case(gen):
            d = gen.pick((U8, F16))
            (bkg, src), shape, out = self.images(gen, d)
            mask = gen.drawn(F16, shape, lambda s: rounded(F16, gen.rng.uniform(0, 1, s).round(gen.integer(0, 3))))
            run("aclnnBackgroundReplace", bkg, src, mask, out)
            x, y, m = (t.get().astype(LD) for t in (bkg, src, mask))
            exact = x * (1 - m) + y * m
            if d is F16:
                ref.check(out.get(), exact, d, ulps=1, slack=1e-6)
            else:
                ref.check_equal(out.get(), np.trunc(exact + LD(1e-12)).astype(np.uint8))
        each_case(self, "aclnnBackgroundReplace", CASES, case)


# ---- point sets

class Chamfer(unittest.TestCase):
    def case(self, gen):
        d, batches, n = gen.pick((F32, F16)), gen.integer(0, 4), (gen.integer(1, 20), gen.integer(1, 20))
        points = [gen.drawn(d, (batches, k, 2), lambda s: gen.values(d, s, limit=9)) for k in n]
        index = [gen.out(I32, (batches, n[s]), gen.rng.integers(0, n[1 - s], (batches, n[s])).astype(np.int32))
                 for s in range(2)]
        gradients = [gen.drawn(d, (batches, k), lambda s: gen.values(d, s, limit=9)) for k in n]
        outs = [gen.out(d, (batches, k, 2)) for k in n]
        run("aclnnChamferDistanceBackward", *points, *index, *gradients, *outs)
        exact, terms = ([np.zeros((batches, k, 2), LD) for k in n] for _ in "et")
        for s in range(2):
            for b, i in np.ndindex(batches, n[s]):
                j = index[s].get()[b, i]
                step = 2 * LD(gradients[s].get()[b, i]) * (points[s].get()[b, i].astype(LD) -
                                                           points[1 - s].get()[b, j].astype(LD))
                exact[s][b, i] += step
                exact[1 - s][b, j] -= step
                terms[s][b, i] += np.abs(step)
                terms[1 - s][b, j] += np.abs(step)
        for out, e, t in zip(outs, exact, terms):
            ref.check(out.get(), e, d, ulps=0.5, slack=t * 1e-14)

    def test_all(self):
        each_case(self, "aclnnChamferDistanceBackward", CASES, self.case)

    def test_bad_index(self):
        x, g = Tensor.of(F32, np.zeros((1, 2, 2))), Tensor.of(F32, np.zeros((1, 2)))
        index, out = Tensor.of(I32, np.array([[0, 2]], np.int32)), Tensor.empty(F32, (1, 2, 2))
        with self.assertRaises(AclError):
            run("aclnnChamferDistanceBackward", x, x, index, index, g, g, out, Tensor.empty(F32, (1, 2, 2)))


# ---- deformable attention

class Deformable(unittest.TestCase):
    """The reference interpolates by weights max(0, 1 - |distance|) of every element of a level."""

    def arguments(self, gen):
        d, kind = gen.pick(FLOATS), gen.pick((I32, I64))
        levels = [(gen.integer(1, 4), gen.integer(1, 4)) for _ in range(gen.integer(1, 3))]
        sizes = [h * w for h, w in levels]
        starts = np.cumsum([0] + sizes)[:-1]
        batch, heads, channels, queries, points = (gen.integer(1, n) for n in (2, 3, 9, 4, 3))
        value = gen.drawn(d, (batch, sum(sizes), heads, channels), lambda s: gen.values(d, s, limit=9))
        places = (batch, queries, heads, len(levels), points)
        location = gen.drawn(d, places + (2,), lambda s: rounded(d, gen.rng.uniform(-0.3, 1.3, s)))
        weight = gen.drawn(d, places, lambda s: rounded(d, gen.rng.uniform(0, 1, s)))
        shapes = gen.out(kind, (len(levels), 2), np.array(levels, kind.values))
        start = gen.out(kind, (len(levels),), starts.astype(kind.values))
        return d, levels, starts, value, shapes, start, location, weight

    def taps(self, levels, starts, location, keys):
        """Weights [..., points, keys] of the keys, and their derivatives by x and y."""
        w, by_x, by_y = (np.zeros(location.shape[:-1] + (keys,), LD) for _ in "wxy")
        for l, ((height, width), start) in enumerate(zip(levels, starts)):
            x = location[..., l, :, 0] * width - LD(0.5)
            y = location[..., l, :, 1] * height - LD(0.5)
            for r, c in np.ndindex(height, width):
                near = (np.abs(x - c) < 1) & (np.abs(y - r) < 1)
                wx, wy = 1 - np.abs(x - c), 1 - np.abs(y - r)
                k = start + r * width + c
                w[..., l, :, k] = np.where(near, wx * wy, 0)
                # right and left of an element; at an element the right-hand derivative, but nothing at -1, from
                # where on a point has no neighbours
                by_x[..., l, :, k] = np.where((np.abs(y - r) < 1) & (x - c < 1) & (x - c >= -1) & (x > -1),
                                              np.where(x >= c, -1, 1) * wy * width, 0)
                by_y[..., l, :, k] = np.where((np.abs(x - c) < 1) & (y - r < 1) & (y - r >= -1) & (y > -1),
                                              np.where(y >= r, -1, 1) * wx * height, 0)
        return w, by_x, by_y

    def forward(self, gen):
        d, levels, starts, value, shapes, start, location, weight = self.arguments(gen)
        batch, keys, heads, channels = value.shape
        out = gen.out(d, (batch, location.shape[1], heads * channels))
        run("aclnnMultiScaleDeformableAttnFunction", value, shapes, start, location, weight, out)
        w, _, _ = self.taps(levels, starts, location.get().astype(LD), keys)
        total = np.einsum("bqhlpk,bqhlp->bqhk", w, weight.get().astype(LD))
        v = value.get().astype(LD)
        exact = np.einsum("bqhk,bkhc->bqhc", total, v)
        terms = np.einsum("bqhk,bkhc->bqhc", total, np.abs(v))
        ref.check(out.get(), exact.reshape(out.shape), d, ulps=1, slack=terms.reshape(out.shape) * 1e-13 + 1e-13)

    def test_forward(self):
        each_case(self, "aclnnMultiScaleDeformableAttnFunction", CASES, self.forward)

    def backward(self, gen):
        d, levels, starts, value, shapes, start, location, weight = self.arguments(gen)
        batch, keys, heads, channels = value.shape
        gradient = gen.drawn(d, (batch, location.shape[1], heads * channels), lambda s: gen.values(d, s, limit=9))
        outs = [gen.out(d, t.shape) for t in (value, location, weight)]
        run("aclnnMultiScaleDeformableAttentionGrad", value, shapes, start, location, weight, gradient, *outs)
        w, by_x, by_y = self.taps(levels, starts, location.get().astype(LD), keys)
        g = gradient.get().astype(LD).reshape(batch, -1, heads, channels)
        a, v = weight.get().astype(LD), value.get().astype(LD)
        product = np.einsum("bqhc,bkhc->bqhk", g, v)
        exact = (np.einsum("bqhlpk,bqhlp,bqhc->bkhc", w, a, g),
                 np.stack([a * np.einsum("bqhlpk,bqhk->bqhlp", s, product) for s in (by_x, by_y)], -1),
                 np.einsum("bqhlpk,bqhk->bqhlp", w, product))
        for out, e in zip(outs, exact):
            ref.check(out.get(), e, d, ulps=1, slack=1e-10)

    def test_backward(self):
        each_case(self, "aclnnMultiScaleDeformableAttentionGrad", CASES, self.backward)

    def test_wrong(self):
        value, location = Tensor.of(F32, np.zeros((1, 4, 1, 2))), Tensor.of(F32, np.zeros((1, 3, 1, 1, 2, 2)))
        weight, out = Tensor.of(F32, np.zeros((1, 3, 1, 1, 2))), Tensor.empty(F32, (1, 3, 2))
        shapes, start = Tensor.of(I64, np.array([[3, 2]])), Tensor.of(I64, np.array([0]))
        with self.assertRaises(AclError):
            run("aclnnMultiScaleDeformableAttnFunction", value, shapes, start, location, weight, out)
        code, message = refused("aclnnMultiScaleDeformableAttnFunction", value, shapes, start, location, weight,
                                Tensor.empty(F32, (1, 3, 3)))
        self.assertEqual(code, INVALID)
        self.assertIn("output has shape", message)
        code, message = refused("aclnnMultiScaleDeformableAttnFunction", value, shapes, start,
                                Tensor.empty(F64, (1, 3, 1, 1, 2, 2)), weight, out)
        self.assertIn("location has dtype", message)


if __name__ == "__main__":
    unittest.main()
