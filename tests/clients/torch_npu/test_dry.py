# SPDX-License-Identifier: Apache-2.0
"""Dry runs of training (`cannon run --dry`) need the memory of real ones: the same peaks, reserved memory, allocations
and fragmentation, model by model, and their losses are finite.

The test runs itself as a program, with the name of a file for what it measured: twice, dry and real."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ.get('ASCEND_HOME_PATH', '')
STEPS = 3


def jobs():
    """Models whose tensors are larger than what a dry run computes, 64 KiB, and smaller ones."""
    import torch
    from larger_models import LARGER
    from models import MODELS
    large = {'mlp': {'batch': 256, 'width': 512}, 'mlp_adam': {'batch': 256, 'width': 512},
             'cnn': {'size': 48}, 'lm': {'width': 128, 'words': 1024}, 'lm_checkpoint': {'width': 128},
             'lm_accumulate': {'width': 128}, 'lstm': {'width': 96, 'length': 24, 'batch': 16}, 'gru': {}}
    for name, kind in MODELS.items():
        amps = (None, torch.bfloat16, torch.float16) if name in ('mlp', 'cnn', 'lm') else (None,)
        for amp in amps:
            yield f'{name} {amp}', type(name, (kind,), large[name]), amp
    for name, kind in LARGER.items():
        for amp in (None, torch.float16) if name == 'llama' else (None,):
            yield f'{name} {amp}', kind, amp


def by_masks(torch):
    """Shapes that depend on data: with real data, and with data that a dry run does not have."""
    x = torch.zeros(3, 4)
    x[1, 2] = 1
    small = torch.nonzero(x.to('npu'))
    y = torch.randn(512, 512, device='npu') @ torch.randn(512, 512, device='npu')
    return small.tolist(), list(torch.nonzero(y > 0).shape)


def loops(torch):
    """What scripts decide by losses and norms: when to stop, the rate, the scale."""
    from models import MODELS
    job = MODELS['lm']('npu', torch.float16)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(job.optimiser, factor=0.5, patience=1)
    best, waited, losses = float('inf'), 0, []
    while waited < 3 and len(losses) < 50:
        losses.append(job.step().item())
        schedule.step(losses[-1])
        best, waited = (losses[-1], 0) if losses[-1] < best else (best, waited + 1)
    job.optimiser.zero_grad()
    job.scaler.scale(job.loss()).backward()
    norm = torch.nn.utils.clip_grad_norm_(job.model.parameters(), 1.0, error_if_nonfinite=True).item()
    large = torch.randn(512, 512, device='npu') @ torch.randn(512, 512, device='npu')
    finite = [bool(x) for x in (
        torch.isfinite(large).all(), torch.isfinite(large.mean()), not torch.isnan(large).any())]
    return {'finite': finite, 'steps': len(losses), 'rate': job.optimiser.param_groups[0]['lr'], 'norm': norm}


def stops(torch):
    """How many losses a script looks at that stops when they no longer fall: in the dry run, those of --values."""
    best, n = float('inf'), 0
    while n < 10:
        loss = torch.ones(256, 512, device='npu').square().mean()
        n += 1
        if loss.item() >= best:  # the line of --values
            break
        best = loss.cpu().tolist()  # the other line of --values
    return n, best


def values():
    """The file of --values: of the lines marked above."""
    with open(os.path.abspath(__file__), encoding='utf-8') as f:
        first, second, *_ = [i for i, line in enumerate(f, 1) if 'line of --values' in line]
    site = os.path.basename(__file__)
    return f'{site}:{first} float32 3 2 1.5 1.75\n{site}:{second} float32 3 2 1.5\n'


def measure(path):
    import torch
    import torch_npu  # noqa: F401
    from larger_models import LARGER
    out = {}
    for name, kind, amp in jobs():
        torch.npu.empty_cache()
        torch.npu.reset_peak_memory_stats()
        job = kind('npu', amp)
        losses = [job.step().item() for _ in range(STEPS)]
        stats = torch.npu.memory_stats()
        # PyTorch takes the free block of the smallest size that fits, and of equal ones the first by address. Which of
        # several segments gets split depends on where the device has them, also among real runs: what is left of them
        # is compared where there is no choice.
        memory = {k: v for k, v in stats.items() if k.split('.')[0] in (
            'allocated_bytes', 'reserved_bytes', 'allocation', 'segment', 'inactive_split_bytes', 'num_alloc_retries')
            and not (k.startswith('inactive') and (k.endswith(('.allocated', '.freed')) or name.split()[0] in LARGER))}
        scale = job.scaler.get_scale() if job.scaler else 0
        del job
        out[name] = {'memory': memory, 'losses': losses, 'scale': scale}
    out['masks'], out['loops'], out['stops'] = by_masks(torch), loops(torch), stops(torch)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(out, f)


def run(folder, options):
    results, stats = (os.path.join(folder, f'{name}{len(options)}.json') for name in ('results', 'stats'))
    command = [os.path.join(PREFIX, 'bin', 'cannon'), 'run', '--quiet', '--mem', '4G', '--json', stats, *options, '--',
               sys.executable, os.path.abspath(__file__), results]
    env = {k: v for k, v in os.environ.items() if k not in ('CANNON_STATS_DIR', 'CANNON_MEM', 'CANNON_LEDGER')}
    subprocess.run(command, check=True, env=env)
    with open(results, encoding='utf-8') as f, open(stats, encoding='utf-8') as g:
        return json.load(f), json.load(g)


class Dry(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            # With --sites, the real run hands out memory as a dry one does, which also keeps each block's line:
            # without the caches of threads, so at the same addresses.
            cls.real, cls.real_stats = run(folder, ['--sites'])
            with open(os.path.join(folder, 'values'), 'w', encoding='utf-8') as f:
                f.write(values())
            cls.dry, cls.dry_stats = run(folder, ['--dry', '--unknown', '1000', '--values', f.name])

    def test_memory_is_that_of_a_real_run(self):
        for name, real in self.real.items():
            if name in ('masks', 'loops', 'stops'):
                continue
            with self.subTest(name):
                self.assertEqual(self.dry[name]['memory'], real['memory'])

    def test_losses_are_finite(self):
        for name, got in self.dry.items():
            if name in ('masks', 'loops', 'stops'):
                continue
            with self.subTest(name):
                self.assertTrue(all(abs(x) < 1e6 for x in got['losses']), got['losses'])
                self.assertEqual(got['scale'], self.real[name]['scale'], 'the scale of GradScaler')

    def test_sizes_of_results(self):
        self.assertEqual(self.dry['masks'], [[[1, 2]], [1000, 2]])
        self.assertEqual(self.real['masks'][0], [[1, 2]])

    def test_loops_end(self):
        """All losses are 0: the first is the best, and three later ones end the loop; the rate was halved once."""
        self.assertEqual(self.dry['loops'], {'steps': 4, 'rate': 5e-4, 'norm': 0, 'finite': [True] * 3})
        self.assertEqual(self.real['loops']['finite'], [True] * 3)

    def test_values_are_those_given(self):
        self.assertEqual(self.real['stops'], [2, 1])
        self.assertEqual(self.dry['stops'], [4, 1.5])


if __name__ == '__main__':
    if len(sys.argv) > 1 and sys.argv[1].endswith('.json'):
        measure(sys.argv[1])
    else:
        unittest.main()
