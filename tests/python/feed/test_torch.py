# SPDX-License-Identifier: Apache-2.0
"""Batches as npu tensors of torch_npu: Feed.torch() and loader()."""
import os
import tempfile
import threading
import unittest

import numpy as np
import torch
import torch_npu  # noqa: F401: the device npu

from cannon import data

N, RECORD = 100, 512


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, i):
        if i >= 50:
            raise IndexError(i)
        return {"value": torch.full((4,), float(i)), "number": i, "name": f"n{i}"}


class Failing(Numbers):
    def __getitem__(self, i):
        if i == 20:
            raise ValueError("twenty")
        return torch.tensor(i)


class Loader(unittest.TestCase):
    def check(self, loader):
        seen = []
        for batch in loader:
            self.assertEqual((batch["value"].device.type, batch["number"].device.type), ("npu", "npu"))
            self.assertTrue((batch["value"][:, 0] == batch["number"]).all().item())
            self.assertEqual(batch["name"], [f"n{i}" for i in batch["number"].tolist()])
            seen += batch["number"].tolist()
        self.assertEqual(seen, list(range(50)))

    def test_loops(self):
        loader = data.loader(Numbers(), batch_size=8, ahead=3)
        self.assertEqual(len(loader), 7)
        for _ in range(2):
            self.check(loader)

    def test_processes(self):
        self.check(data.loader(torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2)))

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "twenty"):
            for _ in data.loader(Failing(), batch_size=8):
                pass
        with self.assertRaisesRegex(TypeError, "batch_size is an option of DataLoader"):
            data.loader(torch.utils.data.DataLoader(Numbers()), batch_size=8)

    def test_stops_anywhere(self):
        loader = data.loader(Numbers(), batch_size=2, ahead=2)
        for taken in range(8):
            for i, _ in enumerate(loader):
                if i == taken:
                    break
        self.assertFalse([t for t in threading.enumerate() if t.name == "cannon.data.loader"])


class Feed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = os.path.join(self.folder.name, "numbered")
        np.repeat(np.arange(N, dtype=np.uint8), RECORD).tofile(path)
        self.source = data.fixed(path, RECORD)

    def test_loops(self):
        with data.Feed(self.source, batch=7, seed=1, epochs=2) as feed:
            for _ in range(2):
                seen = []
                for batch in feed.torch():
                    self.assertEqual((batch.device.type, batch.dtype), ("npu", torch.uint8))
                    values = batch.float()
                    self.assertTrue((values == values[:, :1]).all().item())
                    seen += values[:, 0].int().tolist()
                self.assertEqual(sorted(seen), list(range(N)))

    def test_other_streams(self):
        """Batches belong to torch's current stream, whatever else runs."""
        stream = torch.npu.Stream()
        with torch.npu.stream(stream), data.Feed(self.source, batch=10, seed=2, epochs=1) as feed:
            total = sum((batch.float().sum() for batch in feed.torch()), torch.zeros((), device="npu"))
            self.assertEqual(total.item(), sum(range(N)) * RECORD)  # item() waits for the current stream only

    def test_trains(self):
        def decode(record):
            values = np.frombuffer(record.data, np.uint8)
            return {"x": (values[:4] / 255).astype(np.float32), "y": np.float32(record.number / 255)}

        layer = torch.nn.Linear(4, 1).npu()
        optimiser = torch.optim.SGD(layer.parameters(), 0.1)
        losses = []
        with data.Feed(self.source, batch=10, decode=decode, workers=2, seed=3) as feed:
            for _ in range(8):
                for batch in feed.torch():
                    loss = ((layer(batch["x"]).squeeze(1) - batch["y"]) ** 2).mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] / 2)


if __name__ == "__main__":
    unittest.main()
