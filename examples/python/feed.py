#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a softmax classifier by hand on records from a file: read, decoded, and copied ahead of the steps.

    cannon run python3 feed.py

The file has 4000 records of 65 bytes, an image of 8 x 8 and its label, which this program makes first. `cannon run`
shows how long the device waited for data."""
import os
import tempfile

import numpy as np

import cannon
from cannon import aclnn, data

SIDE, CLASSES, RECORDS = 8, 4, 4000


def make_file(path):
    """Noisy images: class c has its quadrant c lit."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, RECORDS, dtype=np.uint8)
    images = random.integers(0, 120, (RECORDS, SIDE, SIDE), dtype=np.uint8)
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 2)
        image[4 * row:4 * row + 4, 4 * column:4 * column + 4] += 60
    np.hstack([labels[:, None], images.reshape(RECORDS, -1)]).tofile(path)


def decode(record):
    """Called for each record, by the feed's threads."""
    raw = np.frombuffer(record.data, np.uint8)
    target = np.zeros(CLASSES, np.float32)
    target[raw[0]] = 1
    return {"image": raw[1:].astype(np.float32) / 255, "target": target}


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "images.bin")
        make_file(path)
        weight = cannon.Tensor(np.zeros((SIDE * SIDE, CLASSES), np.float32))
        source = data.fixed(path, record_bytes=1 + SIDE * SIDE)
        with data.Feed(source, batch=50, decode=decode, workers=2, seed=1, name="images") as feed:
            for epoch in range(5):
                right = 0
                for batch in feed:
                    x, target = batch["image"], batch["target"]
                    p = aclnn.Softmax(x @ weight, -1)
                    gradient = x.transpose() @ (p - target)
                    weight = weight - gradient * (0.5 / len(batch.records))
                    right += int((p.numpy().argmax(1) == target.numpy().argmax(1)).sum())
                print(f"epoch {epoch}: {100 * right / RECORDS:.1f} % right")
    assert right > 0.95 * RECORDS


if __name__ == "__main__":
    main()
