#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of bench_dispatch: one-element additions in PyTorch on the CPU. Prints ns per call as one JSON object."""
import json
import statistics
import time

import torch

BATCH, N_BATCHES = 1000, 200


def ns_per_call(body):
    """The median over batches. As in bench_dispatch, the first tenth warms up. The cost of the bare loop is
    subtracted."""
    def batches(f):
        for _ in range(N_BATCHES + N_BATCHES // 10):
            start = time.perf_counter_ns()
            for _ in range(BATCH):
                f()
            yield (time.perf_counter_ns() - start) / BATCH

    def median(f):
        return statistics.median(list(batches(f))[N_BATCHES // 10:])

    return median(body) - median(lambda: None)


def main():
    a, b, c = torch.ones(1), torch.ones(1), torch.empty(1)
    add = torch.add
    print(json.dumps({
        "torch_add_out": ns_per_call(lambda: add(a, b, out=c)),
        "torch_add": ns_per_call(lambda: add(a, b)),
        "torch_add_": ns_per_call(lambda: c.add_(a)),
        "threads": torch.get_num_threads(),
        "version": torch.__version__,
    }))


if __name__ == "__main__":
    main()
