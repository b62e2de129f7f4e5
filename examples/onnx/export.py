#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a small convolutional network that reads handwritten digits, and writes it as an ONNX model.

    export.py [FOLDER]

writes FOLDER/digits.onnx, FOLDER/images.bin (the held-out images, float32 [360, 1, 8, 8]) and FOLDER/labels.bin (their
digits, a byte each). The filters of the convolution are random; the last layer is the solution of a least squares
problem, so nothing is trained for long. Needs NumPy, but not the package onnx."""
import gzip
import pathlib
import sys

import numpy as np

import onnx_bytes as ob

DATA = pathlib.Path(__file__).resolve().parents[1] / "digits/data/digits.csv.gz"
HOLD_OUT_EVERY, N_FILTERS, RIDGE = 5, 48, 3.0


def load():
    """(images, labels) to learn from, and those that are held out."""
    with gzip.open(DATA, "rt") as f:
        table = np.loadtxt(f, delimiter=",", dtype=np.float32)
    images, labels = table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64].astype(int)
    held_out = np.arange(len(labels)) % HOLD_OUT_EVERY == 0
    return (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])


def features(images, filters, bias):
    """What the layers before the last one compute: a convolution, the positive part, and maxima of 2 x 2."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2))
    maps = np.einsum("nijkl,fkl->nfij", windows, filters[:, 0]) + bias[:, None, None]
    maps = np.maximum(maps, 0).reshape(len(images), N_FILTERS, 4, 2, 4, 2)
    return maps.max((3, 5)).reshape(len(images), -1)


def learn(images, labels):
    rng = np.random.default_rng(0)
    filters = rng.standard_normal((N_FILTERS, 1, 3, 3)).astype(np.float32)
    bias = rng.uniform(-0.5, 0.5, N_FILTERS).astype(np.float32)
    x = np.hstack([features(images, filters, bias), np.ones((len(images), 1))])
    wanted = np.eye(10)[labels]
    w = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ wanted).astype(np.float32)
    return filters, bias, w[:-1], w[-1]


def write(path, filters, bias, w, b):
    nodes = [
        ob.node("Conv", ["image", "filters", "bias"], ["maps"], "convolution", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        ob.node("Relu", ["maps"], ["positive"], "positive_part"),
        ob.node("MaxPool", ["positive"], ["pooled"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        ob.node("Flatten", ["pooled"], ["features"], "flatten"),
        ob.node("Gemm", ["features", "w", "b"], ["scores"], "classifier"),
    ]
    constants = [ob.initialiser(name, a.shape, a.ravel()) for name, a in
                 (("filters", filters), ("bias", bias), ("w", w), ("b", b))]
    path.write_bytes(ob.model(nodes, [ob.value("image", ["batch", 1, 8, 8])], [ob.value("scores", ["batch", 10])],
                              constants, "digits"))


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    to_learn, held_out = load()
    write(folder / "digits.onnx", *learn(*to_learn))
    held_out[0].astype("<f4").tofile(folder / "images.bin")
    held_out[1].astype("u1").tofile(folder / "labels.bin")
    print(f"{folder}/digits.onnx: learned from {len(to_learn[1])} digits, {len(held_out[1])} are held out")


if __name__ == "__main__":
    main()
