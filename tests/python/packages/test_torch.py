# SPDX-License-Identifier: Apache-2.0
"""The wheel beside the stock torch_npu, in a virtual environment of its own that takes PyTorch from

    PACKAGES_TORCH     the virtual environment of tests/clients/torch_npu/run.py

Nothing is sourced, and the environment has no variable of CANN."""
import os
import pathlib
import shutil
import tempfile
import unittest

from packages import PackageTest, clean_environment, environment_with_wheel, execute

ONE_LINER = "import torch; print(torch.ones(2, device='npu') + 1)"

# Each rank: a collective operation, and batches from a worker that is a process of its own and uses the device.
RANK = r"""
import os
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return (torch.full((2,), float(i), device='npu') ** 2).cpu()

if __name__ == '__main__':
    torch.npu.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('hccl')
    x = torch.full((2,), dist.get_rank() + 1.0, device='npu')
    dist.all_reduce(x)
    batches = DataLoader(Squares(), batch_size=2, num_workers=1, multiprocessing_context='spawn')
    print(x.tolist(), [b.to('npu').sum().item() for b in batches], flush=True)
    dist.destroy_process_group()
"""


class Torch(PackageTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="cannon-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.python = environment_with_wheel(cls.folder / "venv") / "python"
        places = [execute(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").stdout.strip()
                  for python in (cls.python, pathlib.Path(os.environ["PACKAGES_TORCH"]) / "bin/python")]
        (pathlib.Path(places[0]) / "torch.pth").write_text(places[1] + "\n")
        (cls.folder / "rank.py").write_text(RANK)

    def run_python(self, *arguments, **env):
        env = clean_environment(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", **env)
        return execute(self.python, *arguments, cwd=self.folder, env=env)

    def test_one_line(self):
        done = self.run_python("-c", ONE_LINER)
        self.assertEqual((done.returncode, done.stdout), (0, "tensor([2., 2.], device='npu:0')\n"), done.stderr)

    def test_torchrun_and_workers(self):
        done = self.run_python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "rank.py",
                               CANNON_DEVICES="2")
        self.assertEqual((done.returncode, done.stdout), (0, "[3.0, 3.0] [2.0, 26.0]\n" * 2), done.stderr)

    def test_off(self):
        done = self.run_python("-c", ONE_LINER, CANNON_AUTOLOAD="0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot open shared object file", done.stderr)


if __name__ == "__main__":
    unittest.main()
