# SPDX-License-Identifier: Apache-2.0
"""Operators of images, windows and indices that MindSpore calls by name (ops/mindspore.aclop), against MindSpore's
definitions of its primitives."""
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Operand, execute
from dtypes import BF16, BOOL, C64, F16, F32, F64, I8, I16, I32, I64, LD, U8
from gen import each_case

FLOATS = (F32, F16, F64)


def run(name, inputs, d, shape, attributes=None):
    """The values of a single output."""
    y = Operand.empty(d, shape)
    execute(name, inputs, [y], attributes or {})
    return y.get()


class Case(unittest.TestCase):
    def refused(self, words, name, inputs, d, shape, attributes=None):
        with self.assertRaisesRegex(AclError, words):
            run(name, inputs, d, shape, attributes)


def crop_axis(method, low, high, n, crop):
    """For each pixel of a crop: the two pixels that it lies between, the part of the way, whether it is inside."""
    low, high, one = np.float32(low), np.float32(high), np.float32(1)
    points = []
    for k in range(crop):
        if method == "bilinear_v2":
            first, last = int(low * np.float32(n)), int(high * np.float32(n))
            length = max(last - first + 1, 1)
            at = (np.float32(k) + np.float32(0.5)) * (np.float32(length) / np.float32(crop)) - np.float32(0.5)
            a, b = (int(np.clip(f(at), 0, length - 1)) for f in (np.floor, np.ceil))
            points.append((*(int(np.clip(first + v, 0, n - 1)) for v in (a, b)), LD(at - np.float32(a)), True))
            continue
        most = np.float32(n - 1)
        at = low * most + np.float32(k) * ((high - low) * most / np.float32(crop - 1)) if crop > 1 else \
            np.float32(0.5) * (low + high) * most
        if not 0 <= at <= most:
            points.append((0, 0, LD(0), False))
        elif method == "nearest":
            points.append((*[int(np.floor(at + np.float32(0.5)))] * 2, LD(0), True))
        else:
            points.append((int(np.floor(at)), int(np.ceil(at)), LD(at - np.floor(at)) * one, True))
    return points


def crop_weights(method, boxes, image, crop):
    """[boxes, crop rows, crop columns, rows, columns]: the weights of pixels; and where crops are inside."""
    weights = np.zeros((len(boxes), *crop, *image), LD)
    inside = np.zeros((len(boxes), *crop), bool)
    for b, (y1, x1, y2, x2) in enumerate(boxes):
        for r, (top, bottom, v, here) in enumerate(crop_axis(method, y1, y2, image[0], crop[0])):
            for c, (left, right, u, there) in enumerate(crop_axis(method, x1, x2, image[1], crop[1])):
                inside[b, r, c] = here and there
                for y, wy in ((top, 1 - v), (bottom, v)):
                    for x, wx in ((left, 1 - u), (right, u)):
                        weights[b, r, c, y, x] += wy * wx * inside[b, r, c]
    return weights, inside


class Crops(Case):
    def operands(self, gen, method):
        image = (gen.integer(1, 3), gen.integer(1, 6), gen.integer(1, 6), gen.integer(0, 3))
        crop, n = (gen.integer(1, 4), gen.integer(1, 4)), gen.integer(0, 4)
        boxes = gen.rng.uniform(-0.2, 1.2, (n, 4)).astype(np.float32)
        boxes[:n // 2] = np.clip(boxes[:n // 2], 0, 1)
        index = gen.rng.integers(0, image[0], n).astype(np.int32)
        return image, crop, boxes, index, crop_weights(method, boxes, image[1:3], crop)

    def test_crop(self):
        def body(gen):
            method = gen.pick(("bilinear", "nearest", "bilinear_v2"))
            image, crop, boxes, index, (weights, inside) = self.operands(gen, method)
            d = gen.pick((F32, F16, F64, U8, I8, I16, I32, I64))
            x = gen.values(d, image, limit=4)
            want = np.einsum("brcyx,byxd->brcd", weights, x.astype(LD)[index])
            want = np.where(inside[..., None], want, LD(2.5))
            got = run("CustCropAndResize", [Operand.of(d, x), Operand.of(F32, boxes), Operand.of(I32, index),
                                            Host(crop, gen.pick((np.int32, np.int64)))], F32, want.shape,
                      {"method": method, "extrapolation_value": 2.5})
            ref.check(got, want, F32, slack=1e-4 if d in (I32, I64, I16) else 1e-5)
        each_case(self, "CustCropAndResize", 24, body)

    def test_gradients(self):
        def body(gen):
            method = gen.pick(("bilinear", "nearest"))
            image, crop, boxes, index, (weights, inside) = self.operands(gen, method)
            grad = gen.values(F32, (len(boxes), *crop, image[3]), limit=4)
            d = gen.pick(FLOATS)
            want = np.zeros(image, LD)
            for b, i in enumerate(index):
                want[i] += np.einsum("rcyx,rcd->yxd", weights[b], grad[b].astype(LD))
            tensors = Operand.of(F32, boxes), Operand.of(I32, index)
            got = run("CustCropAndResizeGradImage", [Operand.of(F32, grad), *tensors, Host(image, np.int32)], d, image,
                      {"method": method})
            ref.check(got, want, d, slack=1e-5)
        each_case(self, "CustCropAndResizeGradImage", 12, body)

    def test_gradient_of_boxes(self):
        """Differences of crops of moved boxes, in double."""
        def sampled(x, box, crop):
            out = []
            for at, n, m, (a, b) in ((0, x.shape[0], crop[0], (0, 2)), (1, x.shape[1], crop[1], (1, 3))):
                k = np.arange(m) / (m - 1) if m > 1 else np.array([0.5])
                out.append((box[a] * (1 - k) + box[b] * k) * (n - 1))
            y, u = np.meshgrid(*out, indexing="ij")
            i, j = np.floor(y).astype(int), np.floor(u).astype(int)
            v, w = (y - i)[..., None], (u - j)[..., None]
            return ((1 - v) * ((1 - w) * x[i, j] + w * x[i, j + 1]) +
                    v * ((1 - w) * x[i + 1, j] + w * x[i + 1, j + 1]))

        def body(gen):
            x = gen.rng.normal(size=(2, 5, 6, gen.integer(1, 3)))
            crop = (gen.integer(1, 3), gen.integer(1, 3))
            boxes = gen.rng.uniform(0.02, 0.98, (3, 4)).astype(np.float32)
            index = np.array([1, 0, 1], np.int32)
            d = gen.pick((F32, F64))
            x = x.astype(d.values)
            grad = gen.values(F32, (3, *crop, x.shape[3]), limit=4)
            got = run("CustCropAndResizeGradBoxes",
                      [Operand.of(F32, grad), Operand.of(d, x), Operand.of(F32, boxes), Operand.of(I32, index)], F32,
                      (3, 4), {"method": "bilinear"})
            for b, k in np.ndindex(3, 4):
                step = np.eye(4)[k] * 1e-7
                above, below = ((sampled(x[index[b]].astype(float), boxes[b] + s, crop) * grad[b]).sum()
                                for s in (step, -step))
                want = (above - below) / 2e-7
                np.testing.assert_allclose(got[b, k], want, 1e-3, 2e-3)
        each_case(self, "CustCropAndResizeGradBoxes", 8, body)

    def test_wrong(self):
        x, boxes = Operand.of(F32, np.ones((1, 3, 3, 2))), Operand.of(F32, np.ones((1, 4)))
        index, outside = Operand.of(I32, [0]), Operand.of(I32, [1])
        for words, at, size, shape, method in (
                ("method is \"cubic\", expected \"bilinear\", \"nearest\" or", index, (2, 2), (1, 2, 2, 2), "cubic"),
                ("expected crop_size, 2 x 3", index, (2, 3), (1, 2, 2, 2), "nearest"),
                ("y has shape .*, expected the depth of image, 2", index, (2, 2), (1, 2, 2, 1), "nearest"),
                (r"box_index\[0\] is 1, expected 0 to 0", outside, (2, 2), (1, 2, 2, 2), "nearest")):
            self.refused(words, "CustCropAndResize", [x, boxes, at, Host(size)], F32, shape, {"method": method})
        grad = Operand.of(F32, np.ones((1, 2, 2, 2)))
        self.refused("method is \"bilinear_v2\", expected \"bilinear\" or \"nearest\"", "CustCropAndResizeGradImage",
                     [grad, boxes, index, Host((1, 3, 3, 2))], F32, (1, 3, 3, 2), {"method": "bilinear_v2"})
        self.refused("method is \"nearest\", expected \"bilinear\"", "CustCropAndResizeGradBoxes",
                     [grad, x, boxes, index], F32, (1, 4), {"method": "nearest"})


def keys(x, a):
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0


def bicubic_matrix(n, size, corners, half):
    m, f = np.zeros((size, n), LD), np.float32
    scale = f(n - 1) / f(size - 1) if corners and size > 1 else f(n) / f(size)
    for o in range(size):
        x = (f(o) + f(0.5)) * scale - f(0.5) if half else f(o) * scale
        at = int(np.floor(x))
        part = np.rint((x - np.floor(x)) * f(1024)) / 1024
        for t in range(-1, 3):
            if 0 <= at + t < n or not half:
                m[o, min(max(at + t, 0), n - 1)] += keys(LD(part) - t, -0.5 if half else -0.75)
        if half:
            m[o] /= m[o].sum()
    return m


def area_matrix(n, size, corners):
    m = np.zeros((size, n), LD)
    scale = LD(n - 1) / (size - 1) if corners and size > 1 else LD(n) / size
    for o in range(size):
        if scale == 0:
            m[o, 0] = 1
            continue
        for i in range(int(o * scale), int(np.ceil((o + 1) * scale))):
            part = min((o + 1) * scale, i + 1) - max(o * scale, i)
            m[o, min(i, n - 1)] += part / scale
    return m


class Sizes(Case):
    def test_bicubic(self):
        def body(gen):
            d = gen.pick(FLOATS)
            corners, half = gen.pick(((False, False), (True, False), (False, True)))
            x = gen.values(d, (2, 2, gen.integer(1, 7), gen.integer(1, 7)), limit=4)
            size = (gen.integer(1, 9), gen.integer(1, 9))
            by = [bicubic_matrix(n, s, corners, half) for n, s in zip(x.shape[2:], size)]
            given = {"align_corners": corners, "half_pixel_centers": half}
            got = run("CustResizeBicubic", [Operand.of(d, x), Host(size)], d, (2, 2, *size), given)
            ref.check(got, np.einsum("ncyx,hy,wx->nchw", x.astype(LD), *by), d, slack=2e-5)
            grad = gen.values(d, (2, 2, *size), limit=4)
            got = run("ResizeBicubicGrad", [Operand.of(d, grad), Operand.of(d, x)], d, x.shape, given)
            ref.check(got, np.einsum("nchw,hy,wx->ncyx", grad.astype(LD), *by), d, slack=1e-4)
        each_case(self, "CustResizeBicubic", 20, body)
        x = Operand.of(F32, np.ones((1, 1, 2, 2)))
        self.refused("align_corners and half_pixel_centers are 1", "CustResizeBicubic", [x, Host((2, 2))], F32,
                     (1, 1, 2, 2), {"align_corners": True, "half_pixel_centers": True})

    def test_area(self):
        def body(gen):
            d, corners = gen.pick((F32, F16, F64, U8, I8, I16, I32, I64)), gen.chance(0.5)
            x = gen.values(d, (2, gen.integer(1, 7), gen.integer(1, 7), gen.integer(0, 3)), limit=4)
            size = (gen.integer(1, 9), gen.integer(1, 9))
            by = [area_matrix(n, s, corners) for n, s in zip(x.shape[1:3], size)]
            want = np.einsum("nyxc,hy,wx->nhwc", x.astype(LD), *by)
            got = run("ResizeArea", [Operand.of(d, x), Host(size, np.int32)], F32, want.shape,
                      {"align_corners": corners})
            ref.check(got, want, F32, slack=2e-5)
        each_case(self, "ResizeArea", 20, body)
        x = Operand.of(F32, np.ones((1, 2, 2, 1)))
        self.refused(r"y has shape \[1, 2, 3, 1\], expected \[1, 2, 2, 1\]", "ResizeArea", [x, Host((2, 2))], F32,
                     (1, 2, 3, 1))

    def test_affine_gradient(self):
        def body(gen):
            n, d, corners = gen.pick((2, 3)), gen.pick(FLOATS), gen.chance(0.5)
            size = tuple(gen.integer(1, 5) for _ in range(n))
            axes = [np.linspace(-1, 1, s) * (1 if corners else (s - 1) / s) if s > 1 else np.zeros(1) for s in size]
            points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size)], -1).astype(LD)
            grad = gen.values(d, (2, *size, n), limit=4)
            want = np.tensordot(grad.astype(LD).reshape(2, -1, n), points.reshape(-1, n + 1), ((1,), (0,)))
            got = run("CustAffineGridGrad", [Operand.of(d, grad), Host((2, 3, *size))], d, want.shape,
                      {"align_corners": corners})
            ref.check(got, want, d, slack=1e-5)
        each_case(self, "CustAffineGridGrad", 12, body)
        grad = Operand.of(F32, np.ones((1, 2, 2, 2)))
        self.refused("x_size has 3 elements, expected 4 or 5", "CustAffineGridGrad", [grad, Host((1, 2, 2))], F32,
                     (1, 2, 3))
        self.refused(r"x_grad has shape \[1, 3, 3\]", "CustAffineGridGrad", [grad, Host((1, 1, 2, 2))], F32, (1, 3, 3))


class Fractional(Case):
    def test_maxima(self):
        def body(gen):
            d, s, places = gen.pick((F32, F16, F64, I32, I64)), gen.pick(FLOATS), gen.pick((I32, I64))
            lead = gen.pick(((2, 2), (3,)))
            size = [gen.integer(1, 6) for _ in range(3)]
            kernel = [gen.integer(1, n) for n in size]
            out = [gen.integer(1, n - k + 1) for n, k in zip(size, kernel)]
            x = gen.values(d, (*lead, *size), limit=4)
            samples = gen.rng.random(((1, *lead)[-2:] + (3,))).astype(s.values)
            planes, f = x.reshape(-1, *size), np.float64 if s is F64 else np.float32
            want = np.zeros((len(planes), *out), x.dtype)
            where = np.zeros(want.shape, np.int64)
            for p, plane in enumerate(planes):
                begin = []
                for n, k, m, r in zip(size, kernel, out, samples.reshape(-1, 3)[p].astype(f)):
                    step = f(n - k) / f(max(m - 1, 1))
                    begin.append([int((f(i) + r) * step) - int(r * step) for i in range(m - 1)] + [n - k])
                for at in np.ndindex(*out):
                    low = [b[i] for b, i in zip(begin, at)]
                    window = plane[tuple(slice(v, v + k) for v, k in zip(low, kernel))]
                    best = np.unravel_index(window.argmax(), window.shape)
                    want[(p, *at)] = window[best]
                    where[(p, *at)] = np.ravel_multi_index([v + k for v, k in zip(low, best)], size)
            shape = (*lead, *out)
            y, argmax = Operand.empty(d, shape), Operand.empty(places, shape)
            execute("CustFractionalMaxPool3DWithFixedKsize", [Operand.of(d, x), Operand.of(s, samples)], [y, argmax],
                    {"ksize": tuple(kernel), "output_shape": tuple(out), "data_format": "NCDHW"})
            ref.check_equal(y.get(), want.reshape(shape))
            ref.check_equal(argmax.get().astype(np.int64), where.reshape(shape))
            if d in FLOATS:
                grad = gen.values(d, shape, limit=4)
                back = np.zeros((len(planes), int(np.prod(size))), LD)
                for row, at, g in zip(back, where.reshape(len(planes), -1), grad.reshape(len(planes), -1)):
                    np.add.at(row, at, g)
                got = run("CustFractionalMaxPool3DGradWithFixedKsize",
                          [Operand.of(d, x), Operand.of(d, grad), argmax], d, x.shape, {"data_format": "NCDHW"})
                ref.check(got, back.reshape(x.shape), d, slack=1e-5)
        each_case(self, "CustFractionalMaxPool3DWithFixedKsize", 16, body)

    def test_wrong(self):
        x, samples = Operand.of(F32, np.ones((1, 1, 3, 3, 3))), Operand.of(F32, np.full((1, 1, 3), 0.5))
        for words, change, r in (
                (r"output_shape\[0\] is 3, expected 1 to 2", {"output_shape": (3, 2, 2)}, samples),
                (r"ksize\[1\] is 0, expected 1 or more", {"ksize": (2, 0, 2)}, samples),
                ("data_format is NDHWC, expected NCDHW", {"data_format": "NDHWC"}, samples),
                ("random_samples has -1 at 0, expected 0 to 1", {}, Operand.of(F32, np.full((1, 1, 3), -1)))):
            with self.assertRaisesRegex(AclError, words):
                execute("CustFractionalMaxPool3DWithFixedKsize", [x, r],
                        [Operand.empty(F32, (1, 1, 2, 2, 2)), Operand.empty(I64, (1, 1, 2, 2, 2))],
                        {"ksize": (2, 2, 2), "output_shape": (2, 2, 2), "data_format": "NCDHW", **change})


if __name__ == "__main__":
    unittest.main()
