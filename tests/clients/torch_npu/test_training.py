# SPDX-License-Identifier: Apache-2.0
"""Models train on `npu` as they do on `cpu`: the same losses, step by step."""
import os
import sys
import unittest

import torch
import torch_npu  # noqa: F401

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import client  # noqa: E402 -- in the folder above
from models import MODELS, train

TOLERANCE = {None: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-2}  # relative


class Training(unittest.TestCase):
    def losses_agree(self, name, amp=None):
        want, got = train(name, 'cpu', amp), train(name, 'npu', amp)
        for step, (w, g) in enumerate(zip(want, got)):
            self.assertLessEqual(abs(g - w), TOLERANCE[amp] * abs(w),
                                 f'step {step}: {g} on npu, {w} on cpu; all: {got}')
        self.assertLess(got[-1], got[0], 'the loss goes down')


def case(name, amp):
    def test(self):
        self.losses_agree(name, amp)
    return test


for name in client.share(list(MODELS)):
    setattr(Training, f'test_{name}', case(name, None))
for name, amp in client.share([(name, amp) for amp in (torch.bfloat16, torch.float16)
                               for name in ('mlp', 'cnn', 'lm', 'lm_checkpoint', 'lm_accumulate')]):
    setattr(Training, f'test_{name}_{str(amp)[6:]}', case(name, amp))

if __name__ == '__main__':
    unittest.main()
