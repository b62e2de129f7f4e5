# SPDX-License-Identifier: Apache-2.0
"""RoiAlign and its gradient, compared with sums over samples in long double, at points computed in float."""
import unittest

import numpy as np

import reference as ref
from acl import INVALID, Ints, Tensor, refused, run
from dtypes import F16, F32, I32, LD
from gen import each_case

CASES = 40
FLOAT = np.float32


def axis_taps(at, size):
    """[(index, weight)] of a coordinate; none outside of the image."""
    if not -1 <= at <= size:
        return []
    at = max(at, FLOAT(0))
    low = int(at)
    if low >= size - 1:
        return [(size - 1, FLOAT(1)), (size - 1, FLOAT(0))]
    return [(low, FLOAT(1) - (at - FLOAT(low))), (low + 1, at - FLOAT(low))]


def samples(box, bins, scale, ratio, aligned, height, width):
    """For each bin, row by row, its samples: a list of [(y, x, weight)]."""
    scale, shift = FLOAT(scale), FLOAT(0.5 if aligned else 0)
    axes = []
    for low, high, n, size in ((box[1], box[3], bins[0], height), (box[0], box[2], bins[1], width)):
        start, end = FLOAT(low) * scale - shift, FLOAT(high) * scale - shift
        span = end - start if aligned else max(end - start, FLOAT(1))
        step = span / FLOAT(n)
        count = ratio if ratio > 0 else max(int(np.ceil(step)), 0)
        axes.append([[axis_taps(start + FLOAT(b) * step + (FLOAT(s) + FLOAT(0.5)) * step / FLOAT(count), size)
                      for s in range(count)] for b in range(n)])
    return [[[(i, j, LD(FLOAT(u * v))) for i, u in ys for j, v in xs] for ys in rows for xs in columns]
            for rows in axes[0] for columns in axes[1]]


def pooled(image, bins, largest):
    """[channels, bins] of an image [channels, height, width]."""
    out = np.zeros((len(image), len(bins)), LD)
    for k, points in enumerate(bins):
        if not points:
            continue
        if largest:
            values = [np.max([image[:, i, j] * w for i, j, w in p], axis=0) if p else np.zeros(len(image))
                      for p in points]
            out[:, k] = np.max(values, axis=0)
        else:
            out[:, k] = sum(image[:, i, j] * w for p in points for i, j, w in p) / LD(len(points))
    return out


def boxes_of(gen, k, height, width, scale):
    """Corners that are mostly in the image, some empty and some reversed."""
    limits = np.array([width, height, width, height]) / scale
    box = gen.rng.random((k, 4)) * limits * 1.2 - 0.1 * limits
    ordered = np.concatenate([np.minimum(box[:, :2], box[:, 2:]), np.maximum(box[:, :2], box[:, 2:])], 1)
    return np.where(gen.rng.random((k, 1)) < 0.9, ordered, box)


def drawn_case(gen):
    d, scale = gen.pick((F32, F16)), gen.pick((1.0, 0.5, 0.125))
    n, c, k = gen.integer(1, 3), gen.pick((1, 3, 17, 33)), gen.integer(0, 5)
    height, width = gen.integer(1, 12), gen.integer(1, 12)
    bins, ratio = (gen.integer(1, 5), gen.integer(1, 5)), gen.pick((0, -1, 1, 2, 3, 9))
    corners = boxes_of(gen, k, height, width, scale)
    return d, scale, (n, c, height, width), k, bins, ratio, corners


class Regions(unittest.TestCase):
    def test_roi_align(self):
        def body(gen):
            d, scale, shape, k, bins, ratio, corners = drawn_case(gen)
            x = gen.drawn(d, shape, lambda s: gen.values(d, s, special=False, limit=100))
            image = gen.rng.integers(0, shape[0], k)
            out = gen.out(d, (k, shape[1], *bins))
            largest, aligned, version = gen.chance(0.4), gen.chance(0.5), gen.pick((1, 2))
            if version == 1:
                boxes = gen.keep(Tensor.empty(d, (k, 4)).set(corners.astype(d.values)))
                index = gen.keep(Tensor.empty(I32, (k,)).set(image.astype(np.int32)))
                run("aclnnRoiAlign", x, boxes, index, b"max" if largest else b"avg", *bins, ratio, scale, out)
                largest, aligned = largest, False
            else:
                largest = False
                rows = np.concatenate([image[:, None], corners], 1).astype(d.values)
                boxes = gen.keep(Tensor.empty(d, (k, 5)).set(rows))
                run("aclnnRoiAlignV2", x, boxes, *bins, scale, ratio, aligned, out)
            held = boxes.get().astype(FLOAT)[:, -4:]
            values = x.get().astype(LD)
            exact = np.zeros((k, shape[1], bins[0] * bins[1]), LD)
            for i in range(k):
                exact[i] = pooled(values[image[i]], samples(held[i], bins, scale, ratio, aligned, *shape[2:]), largest)
            size = np.abs(values).max(initial=0)
            ref.check(out.get(), exact.reshape(k, shape[1], *bins), d, F32, ulps=2, slack=1e-5 * size)
        each_case(self, "aclnnRoiAlign", CASES, body)

    def test_gradient(self):
        def body(gen):
            d, scale, shape, k, bins, ratio, corners = drawn_case(gen)
            image, aligned = gen.rng.integers(0, shape[0], k), gen.chance(0.5)
            boxes = gen.keep(Tensor.empty(d, (k, 5)).set(np.concatenate([image[:, None], corners], 1).astype(d.values)))
            gradient = gen.drawn(d, (k, shape[1], *bins), lambda s: gen.values(d, s, special=False, limit=100))
            out = gen.out(d, shape)
            run("aclnnRoiAlignV2Backward", gradient, boxes, Ints(*shape), *bins, scale, ratio, aligned, out)
            held = boxes.get().astype(FLOAT)[:, 1:]
            g = gradient.get().astype(LD).reshape(k, shape[1], bins[0] * bins[1])
            exact, size = np.zeros(shape, LD), np.zeros(shape, LD)
            for i in range(k):
                for b, points in enumerate(samples(held[i], bins, scale, ratio, aligned, *shape[2:])):
                    for y, x, w in (tap for p in points for tap in p):
                        exact[image[i], :, y, x] += w * g[i, :, b] / len(points)
                        size[image[i], :, y, x] += np.abs(g[i, :, b]) / len(points)
            ref.check(out.get(), exact, d, F32, ulps=2, slack=1e-5 * size)
        each_case(self, "aclnnRoiAlignV2Backward", CASES, body)

    def test_refused(self):
        x, boxes, out = (Tensor.empty(F32, s) for s in ((2, 3, 4, 5), (6, 5), (6, 3, 2, 2)))
        index, four = Tensor.empty(I32, (6,)), Tensor.empty(F32, (6, 4))
        for name, call, args in (
                ("mode is", "aclnnRoiAlign", (x, four, index, b"sum", 2, 2, 0, 1.0, out)),
                ("batchIndices", "aclnnRoiAlign", (x, four, Tensor.empty(I32, (5,)), b"avg", 2, 2, 0, 1.0, out)),
                ("rois has shape", "aclnnRoiAlign", (x, boxes, index, b"avg", 2, 2, 0, 1.0, out)),
                ("boxes has shape", "aclnnRoiAlignV2", (x, four, 2, 2, 1.0, 0, True, out)),
                ("size of the output", "aclnnRoiAlignV2", (x, boxes, 0, 2, 1.0, 0, True, out)),
                ("out", "aclnnRoiAlignV2", (x, boxes, 2, 3, 1.0, 0, True, out)),
                ("inputShape", "aclnnRoiAlignV2Backward", (out, boxes, Ints(2, 3, 4), 2, 2, 1.0, 0, True, x))):
            with self.subTest(name):
                code, message = refused(call, *args)
                self.assertEqual(code, INVALID)
                self.assertIn(name, message)


if __name__ == "__main__":
    unittest.main()
