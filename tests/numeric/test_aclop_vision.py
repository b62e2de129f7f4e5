# SPDX-License-Identifier: Apache-2.0
"""Operators called by name that networks for images use: windows, borders, neighbouring channels, boxes, regions,
other sizes."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import NCHW, ND, NHWC, Host, Operand, execute
from dtypes import F16, F32, I8, I32, LD, U8
from gen import each_case

UNUSED = {"not_an_attribute": 3}


def same_windows(n, reach, stride):
    count = -(-n // stride)
    return count, max((count - 1) * stride + reach - n, 0) // 2


def patches(x, kernel, stride, rate, same):
    """x: [N, H, W, C]. TensorFlow's tf.image.extract_patches."""
    counts, before = zip(*(same_windows(n, (k - 1) * r + 1, s) if same else
                           (max(n - (k - 1) * r - 1 + s, 0) // s, 0)
                           for n, k, s, r in zip(x.shape[1:3], kernel, stride, rate)))
    out = np.zeros((len(x), *counts, kernel[0], kernel[1], x.shape[3]), x.dtype)
    for y, xx, i, j in np.ndindex(*counts, *kernel):
        at = y * stride[0] + i * rate[0] - before[0], xx * stride[1] + j * rate[1] - before[1]
        if 0 <= at[0] < x.shape[1] and 0 <= at[1] < x.shape[2]:
            out[:, y, xx, i, j] = x[:, at[0], at[1]]
    return out.reshape(len(x), *counts, -1)


def near(x, radius):
    """Sums over the channels [N, C, ...] near each."""
    return np.stack([x[:, max(c - radius, 0):c + radius + 1].sum(1) for c in range(x.shape[1])], 1)


def bilinear(image, y, x):
    """[C] at a point of [C, H, W], as torchvision's RoIAlign has it."""
    h, w = image.shape[1:]
    if y < -1 or y > h or x < -1 or x > w:
        return image[:, 0, 0] * 0, []
    y, x = max(y, 0), max(x, 0)
    y0, x0 = min(int(y), h - 1), min(int(x), w - 1)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    dy, dx = (LD(0) if y0 == h - 1 else y - y0), (LD(0) if x0 == w - 1 else x - x0)
    taps = [(y0, x0, (1 - dy) * (1 - dx)), (y0, x1, (1 - dy) * dx), (y1, x0, dy * (1 - dx)), (y1, x1, dy * dx)]
    return sum(image[:, a, b] * k for a, b, k in taps), taps


def roi_align(x, rois, size, scale, samples, mode, gradient=None):
    """The pooled regions; or, with their gradient, that of x."""
    out = np.zeros((len(rois), x.shape[1], *size), LD)
    back = np.zeros(x.shape, LD)
    for k, roi in enumerate(rois):
        image, ends = int(roi[0]), (np.float32(roi[1:].astype(np.float32)) + np.float32([0, 0, mode, mode]))
        x0, y0, x1, y1 = (np.float32(v) * np.float32(scale) for v in ends)
        sides = [y1 - y0, x1 - x0] if mode else [max(y1 - y0, np.float32(1)), max(x1 - x0, np.float32(1))]
        bins = [side / np.float32(n) for side, n in zip(sides, size)]
        counts = [samples if samples > 0 else int(np.ceil(b)) for b in bins]
        for i, j in np.ndindex(*size):
            for a, b in np.ndindex(*counts):
                at = [start + np.float32(n) * step + (np.float32(s) + np.float32(0.5)) * step / np.float32(m)
                      for start, n, step, s, m in zip((y0, x0), (i, j), bins, (a, b), counts)]
                value, taps = bilinear(x[image], LD(at[0]), LD(at[1]))
                out[k, :, i, j] += value / (counts[0] * counts[1])
                for y, xx, weight in taps if gradient is not None else ():
                    back[image, :, y, xx] += gradient[k, :, i, j] * weight / (counts[0] * counts[1])
    return out if gradient is None else back


class Vision(unittest.TestCase):
    def test_patches(self):
        def body(gen):
            d, same, last = gen.pick((F32, F16, I8, I32)), gen.chance(0.5), gen.chance(0.5)
            kernel, stride, rate = ([gen.integer(1, 3) for _ in range(2)] for _ in range(3))
            n, c, size = gen.integer(1, 2), gen.integer(1, 4), [gen.integer((k - 1) * r + 1, 9)
                                                                for k, r in zip(kernel, rate)]
            x = gen.values(d, (n, *size, c), limit=4)
            exact = patches(x, kernel, stride, rate, same)
            turn = (lambda v: v) if last else lambda v: np.ascontiguousarray(v.transpose(0, 3, 1, 2))
            lists = {k: [1, *v, 1] if last else [1, 1, *v]
                     for k, v in (("ksizes", kernel), ("strides", stride), ("rates", rate))}
            form = NHWC if last else NCHW
            y = Operand.empty(d, turn(exact).shape, form)
            attributes = {**lists, "padding": "SAME" if same else "VALID", **UNUSED}
            execute("ExtractImagePatches", [Operand.of(d, turn(x), form)], [y], attributes)
            ref.check_equal(y.get(), turn(exact))
        each_case(self, "ExtractImagePatches", 30, body)

    def test_mirrored_gradient(self):
        def body(gen):
            d, symmetric = gen.pick((F32, F16)), gen.chance(0.5)
            shape = tuple(gen.integer(1, 6) for _ in range(gen.integer(1, 4)))
            pads = [[gen.integer(0, n - (not symmetric)) if gen.chance(0.7) else 0 for _ in range(2)] for n in shape]
            mode = "symmetric" if symmetric else "reflect"
            places = np.pad(np.arange(int(np.prod(shape))).reshape(shape), pads, mode=mode)
            g = Operand.of(d, gen.values(d, places.shape, limit=4))
            exact, size = np.zeros(int(np.prod(shape)), LD), np.zeros(int(np.prod(shape)), LD)
            np.add.at(exact, places.reshape(-1), g.get().astype(LD).reshape(-1))
            np.add.at(size, places.reshape(-1), np.abs(g.get().astype(LD).reshape(-1)))
            y = Operand.empty(d, shape)
            execute("MirrorPadGrad", [g, Host(pads)], [y], {"mode": mode.upper(), **UNUSED})
            ref.check(y.get(), exact.reshape(shape), d, slack=size.reshape(shape) * 1e-12)
        each_case(self, "MirrorPadGrad", 30, body)
        x, y = Operand.of(F32, np.ones(7, np.float32)), Operand.empty(F32, (3,))
        with self.assertRaisesRegex(AclError, "a border mirrors at most 2"):
            execute("MirrorPadGrad", [x, Host([[0, 4]])], [y], {"mode": "REFLECT"})

    def test_neighbouring_channels(self):
        def body(gen):
            d, form = gen.pick((F32, F16)), gen.pick((NCHW, NHWC, ND))
            last = form == NHWC or (form == ND and gen.chance(0.5))
            shape, radius = tuple(gen.integer(1, 6) for _ in range(4)), gen.integer(0, 6)
            alpha, beta, bias = gen.pick((0.5, 1.0)), gen.pick((0.5, 0.75, 1.5)), gen.pick((1.0, 2.0))
            turn = (lambda v: np.ascontiguousarray(v.transpose(0, 2, 3, 1))) if last else lambda v: v
            x, dy = (Operand.of(d, turn(gen.values(d, shape, limit=2)), form) for _ in range(2))
            numbers = {"depth_radius": radius, "alpha": alpha, "beta": beta, "bias": bias,
                       "data_format": "NHWC" if last else "NCHW", **UNUSED}
            back = (lambda o: o.get().astype(LD).transpose(0, 3, 1, 2)) if last else lambda o: o.get().astype(LD)
            norm = bias + alpha * near(back(x) ** 2, radius)
            y, z = Operand.empty(d, x.shape, form), Operand.empty(d, x.shape, form)
            execute("LRN", [x], [y], numbers)
            ref.check(y.get(), turn(back(x) * norm ** -LD(beta)), d, slack=1e-12)
            execute("LRNGrad", [dy, x, y], [z], numbers)
            exact = back(dy) * norm ** -LD(beta) - 2 * alpha * beta * back(x) * near(back(dy) * back(y) / norm, radius)
            ref.check(z.get(), turn(exact), d, slack=1e-12)
        each_case(self, "LRN", 30, body)

    def test_gradient_of_neighbouring_channels(self):
        """LRNGrad by its formula is that of LRN: compared with differences."""
        rng, h = np.random.default_rng(1), LD(1e-6)
        x, dy = rng.standard_normal((2, 5, 2, 2)).astype(np.float32), rng.standard_normal((2, 5, 2, 2))
        f = lambda v: v * (1 + LD(0.5) * near(v * v, 2)) ** -LD(0.75)
        exact = np.zeros(x.shape, LD)
        for at in np.ndindex(x.shape):
            step = np.zeros(x.shape, LD)
            step[at] = h
            exact[at] = ((f(x + step) - f(x - step)) * dy.astype(np.float32)).sum() / (2 * h)
        g, a, z = Operand.of(F32, dy, NCHW), Operand.of(F32, x, NCHW), Operand.empty(F32, x.shape, NCHW)
        execute("LRNGrad", [g, a, Operand.of(F32, f(x.astype(LD)), NCHW)], [z],
                {"depth_radius": 2, "alpha": 0.5, "beta": 0.75, "bias": 1.0})
        ref.check(z.get(), exact, F32, slack=1e-6)

    def test_hidden_boxes(self):
        def body(gen):
            d, n, columns, most = gen.pick((F32, F16)), gen.integer(1, 12), gen.pick((5, 8)), gen.pick((0.1, 0.3, 0.6))
            corners = gen.rng.integers(0, 9, (n, 2, 2)).cumsum(1).reshape(n, 4)
            x = np.concatenate([corners, gen.rng.random((n, columns - 4))], 1)
            boxes = Operand.of(d, x.astype(d.values))
            out, index, mask = Operand.empty(d, (n, 5)), Operand.empty(I32, (n,)), Operand.empty(U8, (n,))
            execute("NMSWithMask", [boxes], [out, index, mask], {"iou_threshold": most, **UNUSED})
            kept = []
            for i, a in enumerate(corners.astype(np.int64)):
                def overlap(k):
                    b = corners[k]
                    both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
                    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both
                    return np.float32(both) / np.float32(union) if union else 0
                if all(overlap(k) <= np.float32(most) for k in kept):
                    kept.append(i)
            ref.check_equal(out.get(), boxes.get()[:, :5])
            ref.check_equal(index.get(), np.arange(n, dtype=np.int32))
            ref.check_equal(mask.get(), np.isin(np.arange(n), kept).astype(np.uint8))
        each_case(self, "NMSWithMask", 30, body)

    def test_regions(self):
        def body(gen):
            d, mode, samples = gen.pick((F32, F16)), gen.integer(0, 1), gen.integer(0, 3)
            shape = gen.integer(1, 2), gen.integer(1, 3), gen.integer(2, 6), gen.integer(2, 6)
            size, scale = (gen.integer(1, 3), gen.integer(1, 3)), gen.pick((0.5, 1.0))
            starts = gen.rng.integers(0, 8, (gen.integer(1, 3), 2)) / 2
            rois = np.concatenate([gen.rng.integers(0, shape[0], (len(starts), 1)), starts,
                                   starts + gen.rng.integers(1, 9, starts.shape) / 2], 1)
            x, boxes = Operand.of(d, gen.values(d, shape, limit=4), NCHW), Operand.of(d, rois)
            y = Operand.empty(d, (len(rois), shape[1], *size), NCHW)
            numbers = {"spatial_scale": scale, "pooled_height": size[0], "pooled_width": size[1],
                       "sample_num": samples, "roi_end_mode": mode, **UNUSED}
            execute("ROIAlign", [x, boxes], [y], numbers)
            image = x.get().astype(LD)
            exact = roi_align(image, boxes.get(), size, scale, samples, mode)
            ref.check(y.get(), exact, d, slack=1e-5)
            g, back = Operand.of(d, gen.values(d, y.shape, limit=4), NCHW), Operand.empty(d, shape, NCHW)
            execute("ROIAlignGrad", [g, boxes], [back], {**numbers, "xdiff_shape": list(shape)})
            exact = roi_align(image, boxes.get(), size, scale, samples, mode, g.get().astype(LD))
            ref.check(back.get(), exact, d, slack=3e-5)
        each_case(self, "ROIAlign", 30, body)

    def test_sizes(self):
        """Rows (ResizeD), and the forms of resizing that PyTorch does not have."""
        def matrix(n, m, source):
            out = np.zeros((m, n), LD)
            for o in range(m):
                at = np.clip(source(o), 0, n - 1)
                low = min(int(at), n - 1)
                out[o, low] += 1 - (at - low)
                out[o, min(low + 1, n - 1)] += at - low
            return out

        def body(gen):
            d, corners = gen.pick((F32, F16)), gen.chance(0.5)
            shape, m = tuple(gen.integer(1, 7) for _ in range(4)), gen.integer(1, 9)
            n, scale = shape[3], LD(shape[3] - 1) / max(m - 1, 1) if corners else LD(shape[3]) / m
            k = matrix(n, m, lambda o: o * scale if corners else (o + LD(0.5)) * scale - LD(0.5))
            x, y = Operand.of(d, gen.values(d, shape, limit=4), NCHW), Operand.empty(d, (*shape[:3], m), NCHW)
            how = {"mode": "linear", "coordinate_transformation_mode": "align_corners" if corners else "half_pixel"}
            execute("ResizeD", [x], [y], {**how, "sizes": [m], "scales": [1]})
            ref.check(y.get(), x.get().astype(LD) @ k.T, d, slack=5e-6)
            g, back = Operand.of(d, gen.values(d, y.shape, limit=4), NCHW), Operand.empty(d, shape, NCHW)
            execute("ResizeGradD", [g], [back], {**how, "original_size": [n], "scales": [1]})
            ref.check(back.get(), g.get().astype(LD) @ k, d, slack=2e-5)
            if not corners:                                        # as MindSpore asks for the gradient of rows
                g = Operand.of(d, gen.values(d, (*shape[:2], 1, m), limit=4), NCHW)
                back = Operand.empty(d, (*shape[:2], n))
                execute("ResizeBilinearV2Grad", [g, back], [back], {"half_pixel_centers": True})
                ref.check(back.get(), (g.get().astype(LD) @ k)[:, :, 0], d, slack=2e-5)
            # Two axes: from edge to edge without aligned corners; nearest elements by both other rules.
            to = gen.integer(1, 9), m
            y = Operand.empty(d, (*shape[:2], *to), NCHW)
            execute("ResizeBilinearV2", [x, Host(to)], [y], {})
            a, b = (matrix(n, o, lambda i, f=LD(n) / o: i * f) for n, o in zip(shape[2:], to))
            ref.check(y.get(), a @ x.get().astype(LD) @ b.T, d, slack=5e-6)
            for name in ("align_corners", "half_pixel_centers"):
                ends = name == "align_corners"
                places = []
                for n, o in zip(shape[2:], to):
                    f = np.float32((n - 1) / max(o - 1, 1)) if ends else np.float32(n / o)
                    exact = [int(np.floor(np.float32(i) * f + np.float32(0.5))) if ends else
                             int(np.floor(np.float32((i + 0.5) * f))) for i in range(o)]
                    places.append(np.minimum(exact, n - 1))
                execute("ResizeNearestNeighborV2", [x, Host(to)], [y], {name: True})
                ref.check_equal(y.get(), x.get()[:, :, places[0][:, None], places[1]])
        each_case(self, "ResizeD", 30, body)
        x = Operand.of(F32, np.ones((1, 1, 2, 2), np.float32), NCHW)
        with self.assertRaisesRegex(AclError, "expected one of them at most"):
            execute("ResizeNearestNeighborV2", [x, Host((2, 2))], [Operand.empty(F32, x.shape, NCHW)],
                    {"align_corners": True, "half_pixel_centers": True})


if __name__ == "__main__":
    unittest.main()
