# SPDX-License-Identifier: Apache-2.0
"""Operators of images, windows and indices that MindSpore calls by name (ops/mindspore.aclop), against MindSpore's
definitions of its primitives."""
import colorsys
import unittest

import numpy as np

import reference as ref
from acl import AclError
from aclop import Host, Missing, Operand, execute
from dtypes import BOOL, C64, F16, F32, F64, I8, I16, I32, I64, LD, U8
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


def scatter(kind, x, at, updates):
    """x with updates[i] at at[i], in order."""
    x = x.copy()
    combine = {"Sub": lambda a, b: a - b, "Add": lambda a, b: a + b, "Max": np.maximum, "Min": np.minimum,
               "Div": lambda a, b: a / b if x.dtype == LD else np.where(b == 0, 0, np.trunc(a / np.where(b, b, 1)))}
    for place, update in zip(at, updates):
        x[place] = combine[kind](x[place], update)
    return x


class Indices(Case):
    def same(self, got, want, d):
        if d in (F32, F16, F64):
            ref.check(got, want, d, slack=1e-5)
        else:
            ref.check_equal(got, want.astype(d.values))

    def test_scatter(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, I8, U8, I16, I32, I64)), gen.pick((I32, I64))
            wide = LD if d in FLOATS else np.int64
            shape = (gen.integer(1, 4), gen.integer(1, 4), gen.integer(0, 3))
            x, n = gen.values(d, shape, limit=4), gen.integer(0, 5)
            kind, inner = gen.pick(("Sub", "Max", "Min")), gen.integer(1, 3)
            at = np.stack([gen.rng.integers(0, max(m, 1), n) for m in shape[:inner]], -1).astype(k.values)
            if 0 in shape[:inner]:
                at = at[:0]
            updates = gen.values(d, (len(at), *shape[inner:]), limit=4)
            want = scatter(kind, x.astype(wide), [tuple(i) for i in at], updates.astype(wide))
            for name in ("TensorScatter", "ScatterNd"):
                got = run(name + kind, [Operand.of(d, x), Operand.of(k, at), Operand.of(d, updates)], d, shape)
                self.same(got, want, d)
            kind = gen.pick(("Max", "Min", "Div"))
            at = gen.rng.integers(0, shape[0], (n, 2)).astype(k.values)
            updates = gen.values(d, (n, 2, *shape[1:]), limit=4)
            if d is not F16:
                flat = updates.reshape(2 * n, *shape[1:])
                want = scatter(kind, x.astype(wide), at.ravel(), flat.astype(wide))
                given = [Operand.of(d, x), Operand.of(k, at), Operand.of(d, updates)]
                got = run("Scatter" + kind, given, d, shape, {"use_locking": False})
                if kind == "Div" and d in FLOATS:
                    np.testing.assert_allclose(got, want.astype(d.values), 1e-5, 1e-5)
                else:
                    self.same(got, want, d)
        each_case(self, "scatter", 30, body)
        x, at = Operand.of(F32, np.ones((2, 2))), Operand.of(I32, [[0], [2]])
        self.refused(r"indices\[1.*\] is 2, expected 0 to 1", "TensorScatterMax",
                     [x, at, Operand.of(F32, np.ones((2, 2)))], F32, (2, 2))
        self.refused(r"updates has shape \[2, 3\], expected \[2, 2\]", "ScatterNdMin",
                     [x, at, Operand.of(F32, np.ones((2, 3)))], F32, (2, 2))
        self.refused("x has dtype BOOL, for which arithmetic is not supported", "TensorScatterMin",
                     [Operand.of(BOOL, [True]), Operand.of(I32, [[0]]), Operand.of(BOOL, [True])], BOOL, (1,))

    def test_maxima_of_nan(self):
        x, at = Operand.of(F32, [1, np.nan, 3]), Operand.of(I32, [[0], [1], [2]])
        updates = Operand.of(F32, [np.nan, 5, -2])
        for name, last in (("TensorScatterMax", 3), ("TensorScatterMin", -2)):
            np.testing.assert_array_equal(run(name, [x, at, updates], F32, (3,)), [np.nan, np.nan, last])
        least = np.iinfo(np.int32).min
        got = run("ScatterDiv", [Operand.of(I32, [least, 7, -7]), Operand.of(I32, [0, 1, 2]),
                                 Operand.of(I32, [-1, 0, 2])], I32, (3,))
        np.testing.assert_array_equal(got, [least, 0, -3])

    def test_index_add(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, I32, U8)), gen.pick((I32, I64))
            shape, axis = [gen.integer(1, 4) for _ in range(3)], gen.integer(-3, 2)
            x, n = gen.values(d, shape, limit=4), gen.integer(0, 4)
            at = gen.rng.integers(0, shape[axis], n).astype(k.values)
            shape[axis] = n
            updates = gen.values(d, shape, limit=4)
            want = x.astype(LD if d in FLOATS else np.int64)
            np.add.at(np.moveaxis(want, axis, 0), at, np.moveaxis(updates, axis, 0).astype(want.dtype))
            got = run("InplaceIndexAdd", [Operand.of(d, x), Operand.of(k, at), Operand.of(d, updates)], d, x.shape,
                      {"axis": axis})
            self.same(got, want, d)
        each_case(self, "InplaceIndexAdd", 12, body)
        operands = [Operand.of(F32, np.ones(2)), Operand.of(I32, [0]), Operand.of(F32, [1.0])]
        self.refused("dim is 1, expected -1 to 0", "InplaceIndexAdd", operands, F32, (2,), {"axis": 1})

    def test_fill(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, U8, I8, I16, I32, I64)), gen.pick((I32, I64))
            shape = [gen.integer(1, 4) for _ in range(gen.integer(1, 4))]
            x, value, dim = gen.values(d, shape), gen.values(d, ()), gen.integer(-len(shape), len(shape) - 1)
            at = gen.rng.integers(-shape[dim], shape[dim], gen.integer(0, 3)).astype(np.int32)
            want = x.copy()
            np.moveaxis(want, dim, 0)[at] = value
            got = run("CustIndexFill", [Operand.of(d, x), Operand.of(k, np.array(dim)), Operand.of(I32, at),
                                        Operand.of(d, value)], d, x.shape)
            ref.check_equal(got, want)
        each_case(self, "CustIndexFill", 16, body)
        x, at, one = Operand.of(F32, np.ones(2)), Operand.of(I32, [0]), Operand.of(F32, np.array(1.0))
        self.refused("dim is 1, expected -1 to 0", "CustIndexFill", [x, Operand.of(I32, np.array(1)), at, one], F32,
                     (2,))
        self.refused("value has 2 elements, expected 1 ", "CustIndexFill",
                     [x, Operand.of(I32, np.array(0)), at, x], F32, (2,))

    def test_put(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, I8, U8, I16, I32, I64, C64)), gen.pick((I32, I64))
            shape, adds = [gen.integer(1, 4) for _ in range(gen.integer(1, 3))], gen.chance(0.5)
            n, m = gen.integer(0, 4), gen.integer(1, len(shape))
            x = gen.values(d, shape, limit=4)
            at = tuple(gen.rng.integers(0, s, n).astype(k.values) for s in shape[:m])
            values = gen.values(d, (gen.pick((n, 1)), *shape[m:]), limit=4)
            wide = {C64: np.complex128}.get(d, LD if d in FLOATS else np.int64)
            want = x.astype(wide)
            if adds:
                np.add.at(want, at, np.broadcast_to(values, (n, *shape[m:])).astype(wide))
            else:
                for i in range(n):
                    want[tuple(v[i] for v in at)] = values[i if len(values) == n else 0]
            got = run("CustIndexPut", [Operand.of(d, x), Operand.of(d, values), *(Operand.of(k, v) for v in at)], d,
                      x.shape, {"accumulate": int(adds)})
            if d is C64:
                np.testing.assert_allclose(got, want, 1e-5, 1e-5)
            else:
                self.same(got, want, d)
        each_case(self, "CustIndexPut", 24, body)
        x, at = Operand.of(F32, np.ones((2, 2))), Operand.of(I32, [0, 1])
        self.refused(r"x2 has shape \[3\], expected one that broadcasts to \[2, 2\]", "CustIndexPut",
                     [x, Operand.of(F32, np.ones(3)), at], F32, (2, 2))
        self.refused("x2 has dtype INT32", "CustIndexPut",
                     [x, Operand.of(I32, [1, 2]), at], F32, (2, 2))

    def test_coalesce(self):
        def body(gen):
            d, n = gen.pick(FLOATS), gen.integer(0, 12)
            shape = [gen.integer(1, 3) for _ in range(gen.integer(1, 3))]
            at = np.stack([gen.rng.integers(0, s, n) for s in shape])
            x = gen.values(d, (n,), limit=4)
            places, of = np.unique(at, axis=1, return_inverse=True) if n else (at, np.zeros(0, int))
            sums = np.zeros(places.shape[1], LD)
            np.add.at(sums, of.reshape(-1), x.astype(LD))
            y = [Operand.empty(I64, at.shape), Operand.empty(d, (n,)), Operand.empty(I64, (len(shape),))]
            told = execute("CustCoalesce", [Operand.of(I64, at), Operand.of(d, x), Operand.of(I64, np.array(shape))], y,
                           {}, shapes=True)
            self.assertEqual(told, [places.shape, sums.shape, (len(shape),)])
            ref.check_equal(y[0].get().reshape(-1)[:places.size].reshape(places.shape), places)
            ref.check(y[1].get()[:len(sums)], sums, d, slack=1e-5)
            ref.check_equal(y[2].get(), np.array(shape))
        each_case(self, "CustCoalesce", 16, body)
        operands = [Operand.of(I64, [[0, 2]]), Operand.of(F32, [1, 2]), Operand.of(I64, [2])]
        y = [Operand.empty(I64, (1, 2)), Operand.empty(F32, (2,)), Operand.empty(I64, (1,))]
        with self.assertRaisesRegex(AclError, "x_indices has 2 in row 0, expected 0 to 1"):
            execute("CustCoalesce", operands, y, {})

    def test_segments(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, I32, I64, U8)), gen.pick((I32, I64))
            n, m = gen.integer(0, 6), gen.integer(1, 4)
            x = gen.values(d, (n, gen.integer(0, 3)), limit=4)
            at = np.sort(gen.rng.integers(0, m, n)).astype(k.values)
            want = np.zeros((m, x.shape[1]), LD if d in FLOATS else np.int64)
            np.add.at(want, at, x.astype(want.dtype))
            ids = Operand.of(k, at) if gen.chance(0.5) else Host(at, k.values)
            self.same(run("SegmentSum", [Operand.of(d, x), ids], d, want.shape), want, d)
        each_case(self, "SegmentSum", 12, body)

    def test_unravel(self):
        def body(gen):
            d, dims = gen.pick((I32, I64)), [gen.integer(1, 5) for _ in range(gen.integer(1, 4))]
            at = gen.rng.integers(0, np.prod(dims), gen.pick(((), (gen.integer(0, 5),)))).astype(d.values)
            want = np.stack(np.unravel_index(at, dims)).astype(d.values)
            got = run("UnravelIndex", [Operand.of(d, at), Operand.of(d, np.array(dims))], d, want.shape)
            ref.check_equal(got, want)
        each_case(self, "UnravelIndex", 12, body)
        self.refused(r"indices\[0\] is 6, expected 0 to 5", "UnravelIndex",
                     [Operand.of(I32, [6]), Operand.of(I32, [2, 3])], I32, (2, 1))
        self.refused(r"dims\[1\] is 0, expected 1 or more", "UnravelIndex",
                     [Operand.of(I32, [0]), Operand.of(I32, [2, 0])], I32, (2, 1))

    def test_bounds(self):
        def body(gen):
            d, k = gen.pick((F32, F16, F64, I8, U8, I16, I32, I64)), gen.pick((I32, I64))
            rows = gen.integer(1, 3)
            x = np.sort(gen.values(d, (rows, gen.integer(0, 6)), limit=4), 1)
            v = gen.values(d, (rows, gen.integer(0, 5)), limit=4)
            if x.size and v.size:
                v[:, 0] = x[:, 0]
            for name, side in (("LowerBound", "left"), ("UpperBound", "right")):
                want = np.stack([np.searchsorted(a, b, side) for a, b in zip(x, v)]).astype(k.values)
                ref.check_equal(run(name, [Operand.of(d, x), Operand.of(d, v)], k, v.shape), want)
        each_case(self, "LowerBound", 16, body)
        self.refused(r"sorted_x has shape \[1\], expected 2 dimensions", "LowerBound",
                     [Operand.of(F32, [1.0]), Operand.of(F32, [[1.0]])], I32, (1, 1))

    def test_band_part(self):
        def body(gen):
            d, k = gen.pick((F32, F16, U8, I64, C64, BOOL)), gen.pick((I32, I64))
            shape = (*[gen.integer(0, 3)] * gen.integer(0, 1), gen.integer(0, 5), gen.integer(0, 5))
            x, low, high = gen.values(d, shape), gen.integer(-2, 6), gen.integer(-2, 6)
            i, j = np.ogrid[:shape[-2], :shape[-1]]
            keep = ((low < 0) | (i - j <= low)) & ((high < 0) | (j - i <= high))
            got = run("MatrixBandPart", [Operand.of(d, x), Operand.of(k, np.array(low)), Operand.of(k, np.array(high))],
                      d, shape)
            ref.check_equal(got, np.where(keep, x, np.zeros((), x.dtype)))
        each_case(self, "MatrixBandPart", 20, body)
        x, one = Operand.of(F32, np.ones(2)), Operand.of(I32, np.array(1))
        self.refused(r"x has shape \[2\], expected 2 or more dimensions", "MatrixBandPart", [x, one, one], F32, (2,))


class Sequences(Case):
    def test_ngram(self):
        def body(gen):
            d, n, words = gen.pick((F32, F16, F64)), gen.integer(2, 9), 3
            state = gen.rng.integers(0, words, (gen.integer(0, 2), gen.integer(1, 2), n)).astype(np.int32)
            group = gen.integer(1, n - 1)
            x = gen.values(d, (*state.shape[:2], words + 1))
            want = x.copy()
            for at in np.ndindex(*state.shape[:2]):
                row = state[at].tolist()
                for i in range(n - group + 1):
                    if row[i:i + group - 1] == row[n - group + 1:]:
                        want[at][row[i + group - 1]] = -65504 if d is F16 else np.finfo(d.values).min
            got = run("CustNoRepeatNGram", [Operand.of(I32, state), Operand.of(d, x)], d, x.shape,
                      {"ngram_size": group})
            ref.check_equal(got, want)
        each_case(self, "CustNoRepeatNGram", 20, body)
        x = Operand.of(F32, np.ones((1, 1, 2)))
        self.refused("ngram_size is 3, expected 1 to 2", "CustNoRepeatNGram", [Operand.of(I32, [[[0, 1, 0]]]), x], F32,
                     (1, 1, 2), {"ngram_size": 3})
        self.refused("state_seq has 2, expected 0 to 1", "CustNoRepeatNGram", [Operand.of(I32, [[[0, 2, 0]]]), x], F32,
                     (1, 1, 2), {"ngram_size": 1})

    def test_distances(self):
        def body(gen):
            d, n, p = gen.pick(FLOATS), gen.integer(0, 5), gen.pick((0, 1, 1.5, 2, 3, np.inf))
            x = gen.rng.integers(-3, 4, (n, gen.integer(1, 4))).astype(d.values)
            i, j = np.triu_indices(n, 1)
            apart = x.astype(LD)[i] - x.astype(LD)[j]
            if p == np.inf:
                far = np.abs(apart).max(1, initial=0)
            else:
                far = (np.abs(apart) ** p).sum(1) ** (1 / p) if p else (apart != 0).sum(1).astype(LD)
            far = Operand.of(d, far.astype(d.values)).get()
            grad = gen.values(d, far.shape, limit=4)
            size, whole = np.abs(apart), far.astype(LD)[:, None]
            if p == np.inf:
                slope = np.sign(apart) * ((size == whole) & (whole > 0))
            elif p in (0, 1):
                slope = np.sign(apart) * p
            else:
                slope = np.where((size > 0) & (whole > 0), np.sign(apart) * (size / whole) ** (LD(p) - 1), 0)
            want = np.zeros(x.shape, LD)
            np.add.at(want, i, slope * grad.astype(LD)[:, None])
            np.add.at(want, j, -slope * grad.astype(LD)[:, None])
            got = run("CustPdistGrad", [Operand.of(d, grad), Operand.of(d, x), Operand.of(d, far)], d, x.shape,
                      {"p": float(p)})
            ref.check(got, want, d, slack=1e-5)
        each_case(self, "CustPdistGrad", 20, body)
        x, pair = Operand.of(F32, np.ones((2, 2))), Operand.of(F32, [1.0])
        self.refused("p is -1, expected 0 or more", "CustPdistGrad", [pair, x, pair], F32, (2, 2), {"p": -1.0})
        self.refused(r"y_grad has shape \[2, 2\], expected \[1\]", "CustPdistGrad", [x, x, pair], F32, (2, 2))


class Borders(Case):
    def test_pads(self):
        def body(gen):
            d = gen.pick((F32, F16, F64, U8, I32, I64, C64, BOOL))
            mode = gen.pick(("reflect", "edge", "circular"))
            shape = [gen.integer(1, 4) for _ in range(gen.integer(1, 5))]
            most = [n - 1 if mode == "reflect" else n if mode == "circular" else 3 for n in shape]
            pads = [(gen.integer(0, m), gen.integer(0, m)) if gen.chance(0.6) else (0, 0) for m in most]
            x = gen.values(d, shape)
            want = np.pad(x, pads, {"circular": "wrap"}.get(mode, mode))
            by_dimension = gen.chance(0.5)
            told = np.array(pads) if by_dimension else np.array(pads).T
            got = run("PadV3", [Operand.of(d, x), Host(told.ravel()), Missing()], d, want.shape,
                      {"mode": mode, "paddings_contiguous": by_dimension})
            ref.check_equal(got, want)
        each_case(self, "PadV3", 24, body)
        x = Operand.of(F32, np.ones(2))
        for words, mode, pads, n in (
                ("mode is \"symmetric\", expected \"constant\", \"reflect\", \"edge\" or \"circular\"", "symmetric",
                 (1, 1), 4),
                ("padding is 2 and 0 in dimension 0, expected at most 1", "reflect", (2, 0), 4),
                ("paddings has a negative number, expected 0 or more", "edge", (-1, 2), 3)):
            self.refused(words, "PadV3", [x, Host(pads), Missing()], F32, (n,), {"mode": mode})

    def test_gradients(self):
        def body(gen):
            d, mode = gen.pick(FLOATS), gen.pick(("reflect", "edge", "circular"))
            shape = [gen.integer(1, 4) for _ in range(gen.integer(2, 5))]
            most = [n - 1 if mode == "reflect" else n if mode == "circular" else 3 for n in shape]
            pads = [(gen.integer(0, m), gen.integer(0, m)) for m in most]
            pads[0] = (0, 0)
            if len(shape) == 5:
                pads[1] = (0, 0)
            places = np.pad(np.arange(np.prod(shape)).reshape(shape), pads, {"circular": "wrap"}.get(mode, mode))
            grad = gen.values(d, places.shape, limit=4)
            want = np.zeros(int(np.prod(shape)), LD)
            np.add.at(want, places.ravel(), grad.astype(LD).ravel())
            by_dimension = gen.chance(0.5)
            told = np.array(pads) if by_dimension else np.array(pads).T
            got = run("PadV3Grad", [Operand.of(d, grad), Host(told.ravel())], d, shape,
                      {"mode": mode, "paddings_contiguous": by_dimension})
            ref.check(got, want.reshape(shape), d, slack=1e-5)
        each_case(self, "PadV3Grad", 20, body)
        grad = Operand.of(F32, np.ones((2, 3)))
        self.refused("mode is \"constant\", expected \"reflect\"", "PadV3Grad", [grad, Host((0, 0, 1, 0))], F32, (2, 2),
                     {"mode": "constant"})
        self.refused("paddings has 1 and 0 for dimension 0, expected 0", "PadV3Grad", [grad, Host((1, 0, 1, 0))], F32,
                     (1, 2), {"mode": "edge"})

    def test_concat(self):
        def body(gen):
            d, axis = gen.pick((F32, U8, I64)), gen.integer(-2, 1)
            shapes = [[3, 2] for _ in range(gen.integer(1, 4))]
            for shape in shapes:
                shape[axis] = gen.integer(0, 3)
            parts = [gen.values(d, shape) for shape in shapes]
            want = np.concatenate(parts, axis)
            got = run("Concat", [Host(axis), *(Operand.of(d, part) for part in parts)], d, want.shape,
                      {"N": len(parts)})
            ref.check_equal(got, want)
        each_case(self, "Concat", 8, body)
        x = Operand.of(F32, np.ones(2))
        self.refused("concat_dim has 2 elements, expected 1", "Concat", [Host((0, 0)), x], F32, (2,))

    def test_volumes(self):
        def body(gen):
            d = gen.pick((F32, F16))
            kernel, stride = ([gen.integer(1, 3) for _ in range(3)] for _ in range(2))
            size = [gen.integer(k, 6) for k in kernel]
            how = gen.pick(("VALID", "SAME", "CALCULATED"))
            ends = [(0, 0)] * 3
            if how == "SAME":
                rest = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(size, stride, kernel)]
                ends = [(r // 2, r - r // 2) for r in rest]
            elif how == "CALCULATED":
                ends = [(gen.integer(0, k - 1), gen.integer(0, k - 1)) for k in kernel]
            count = int(np.prod(size))
            x = np.stack([gen.rng.permutation(count) for _ in range(4)]).reshape(2, 2, *size).astype(np.float32)
            x = Operand.of(d, x).get()
            place = np.broadcast_to(np.arange(count).reshape(size), x.shape)
            w, at = (np.lib.stride_tricks.sliding_window_view(
                np.pad(v, [(0, 0), (0, 0), *ends], constant_values=-1), kernel, (2, 3, 4)
            )[:, :, ::stride[0], ::stride[1], ::stride[2]].reshape(2, 2, -1, int(np.prod(kernel))) for v in (x, place))
            best = w.argmax(-1)[..., None]
            want, where = (np.take_along_axis(v, best, -1)[..., 0] for v in (w, at))
            out = [(n + sum(e) - k) // s + 1 for n, e, k, s in zip(size, ends, kernel, stride)]
            given = {"ksize": (1, 1, *kernel), "strides": (1, 1, *stride), "padding": how, "data_format": "NCDHW",
                     "pads": tuple(np.ravel(ends).tolist()) if how == "CALCULATED" else (0,) * 6}
            want = want.reshape(2, 2, *out)
            got = run("MaxPool3D", [Operand.of(d, x)], d, want.shape, {**given, "ceil_mode": 0})
            ref.check_equal(got, want)
            grad = gen.values(d, want.shape, limit=4)
            back = np.zeros((4, count), LD)
            for row, p, g in zip(back, where.reshape(4, -1), grad.reshape(4, -1)):
                np.add.at(row, p, g)
            got = run("MaxPool3DGrad", [Operand.of(d, v) for v in (x, want, grad)], d, x.shape, given)
            ref.check(got, back.reshape(x.shape), d, slack=1e-5)
        each_case(self, "MaxPool3D", 20, body)
        x = Operand.of(F32, np.ones((1, 1, 3, 3, 3)))
        good = {"ksize": (1, 1, 2, 2, 2), "strides": (1, 1, 2, 2, 2), "padding": "VALID", "data_format": "NCDHW"}
        got = run("MaxPool3D", [x], F32, (1, 1, 2, 2, 2), {**good, "padding": "CALCULATED", "ceil_mode": 1})
        ref.check_equal(got, np.ones((1, 1, 2, 2, 2), np.float32))
        grad = [x, Operand.of(F32, got), Operand.of(F32, got)]
        back = run("MaxPool3DGrad", grad, F32, (1, 1, 3, 3, 3), {**good, "padding": "CALCULATED"})
        ref.check_equal(back[0, 0], np.indices((3, 3, 3)).__mod__(2).__eq__(0).all(0).astype(np.float32))
        for change, words in (({"data_format": "NDHWC"}, "data_format is NDHWC, expected NCDHW"),
                              ({"padding": "FULL"}, "padding is \"FULL\", expected CALCULATED, VALID or SAME"),
                              ({"ksize": (2, 1, 2, 2, 2)}, r"ksize\[0\] is 2, expected 1"),
                              ({"padding": "CALCULATED", "pads": (0, 2, 0, 0, 0, 0)},
                               r"pads\[1\] is 2, expected 0 to 1"),
                              ({"strides": (2, 2, 2)}, "strides has 3 elements, expected 5")):
            self.refused(words, "MaxPool3D", [x], F32, (1, 1, 1, 1, 1), {**good, **change})


class Colours(Case):
    def test_hsv(self):
        def changed(pixel, name, change):
            h, s, v = colorsys.rgb_to_hsv(*pixel)
            if name == "RGBToHSV":
                return h, s, v
            if name == "AdjustHue":
                return colorsys.hsv_to_rgb((h + change) % 1, s, v)
            return colorsys.hsv_to_rgb(h, min(max(s * change, 0), 1), v)

        def body(gen):
            d, name = gen.pick(FLOATS), gen.pick(("RGBToHSV", "AdjustHue", "AdjustSaturation"))
            shape = (*(gen.integer(0, 4) for _ in range(gen.integer(0, 3))), 3)
            x = Operand.of(d, gen.rng.random(shape).astype(d.values) * (gen.rng.random(shape[:-1] + (1,)) < 0.8))
            change = gen.rng.uniform(-1, 2)
            flat = x.get().astype(float).reshape(-1, 3)
            want = np.array([changed(pixel, name, np.float32(change)) for pixel in flat], float).reshape(shape)
            change = [] if name == "RGBToHSV" else [Operand.of(F32, np.array(change, np.float32))]
            got = run(name, [x, *change], d, shape)
            np.testing.assert_allclose(got, want, 1e-3 if d is F16 else 1e-6, 1e-3 if d is F16 else 1e-6)
        each_case(self, "colours", 20, body)
        grey = Operand.of(F64, [[0.5, 0.5, 0.5], [0, 0, 0], [1, 0, 1]])
        np.testing.assert_allclose(run("RGBToHSV", [grey], F64, (3, 3)), [[0, 0, 0.5], [0, 0, 0], [5 / 6, 1, 1]], 1e-15)
        x = Operand.of(F32, np.ones((2, 3)))
        self.refused(r"images has shape \[2\], expected 3 elements in the last", "RGBToHSV",
                     [Operand.of(F32, np.ones(2))], F32, (2,))
        self.refused("delta has 6 elements, expected 1", "AdjustHue", [x, x], F32, (2, 3))

    def test_diagonal(self):
        def body(gen):
            d, wrap = gen.pick((F32, F16, F64, U8, I32, I64)), gen.chance(0.5)
            n = gen.integer(1, 4)
            shape = gen.pick(((n, n, n), (gen.integer(1, 12), n), (n, gen.integer(1, 5))))
            x = gen.values(d, shape)
            want = x.copy()
            np.fill_diagonal(want, 3, wrap)
            got = run("FillDiagonal", [Operand.of(d, x)], d, shape, {"fill_value": 3.0, "wrap": wrap})
            ref.check_equal(got, want)
        each_case(self, "FillDiagonal", 16, body)
        x = Operand.of(U8, np.ones((2, 2)))
        self.refused("fill_value is 1000, expected a number that UINT8 has", "FillDiagonal", [x], U8, (2, 2),
                     {"fill_value": 1000.0})
        self.refused(r"x has shape \[1, 2, 1\], expected two dimensions, or more of which all are", "FillDiagonal",
                     [Operand.of(F32, np.ones((1, 2, 1)))], F32, (1, 2, 1), {"fill_value": 1.0})


if __name__ == "__main__":
    unittest.main()
