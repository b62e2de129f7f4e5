# SPDX-License-Identifier: Apache-2.0
"""Each collective of torch.distributed, against what it must give. Every rank knows the inputs of all ranks, since they
are made of the rank's number; numbers are small multiples of a quarter, whose sums and products are exact in every
type. A function of COLLECTIVES takes a Side and raises where a result is wrong. Those of HCCL_ONLY need a group of
hccl, those of four need four ranks."""
import functools
import operator
import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
import torch_npu
from torch.distributed import ReduceOp

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int32, torch.int64)
MOVED = FLOATS + INTEGERS + (torch.uint8, torch.bool, torch.float64)
REDUCTIONS = {'SUM': operator.add, 'PRODUCT': operator.mul, 'MAX': torch.maximum, 'MIN': torch.minimum}
COLLECTIVES, HCCL_ONLY = {}, set()


def case(f=None, hccl_only=False):
    if f is None:
        return functools.partial(case, hccl_only=hccl_only)
    COLLECTIVES[f.__name__] = f
    if hccl_only:
        HCCL_ONLY.add(f.__name__)
    return f


def values(rank, n, dtype, salt=0):
    """The n numbers of a rank, on the CPU."""
    x = (torch.arange(n) * 7 + rank * 3 + salt) % 5
    if dtype == torch.bool:
        return x > 2
    return (x / 4 + rank).to(dtype) if dtype.is_floating_point else (x + rank % 2).to(dtype)


def moved(side):
    """The types of calls that do not compute; gloo has no int16."""
    return MOVED + (torch.int16,) if side.backend == 'hccl' else MOVED


def mine(side, n, dtype=torch.float32, salt=0):
    return values(side.rank, n, dtype, salt).to(side.device)


def everyone(side, n, dtype=torch.float32, salt=0):
    return [values(r, n, dtype, salt) for r in range(side.size)]


def equal(got, want, words=''):
    got = got.cpu()
    if got.dtype != want.dtype or got.shape != want.shape or not torch.equal(got, want):
        raise AssertionError(f'{words}: {got.dtype} {tuple(got.shape)} {got.flatten()[:9].tolist()}..., expected '
                             f'{want.dtype} {tuple(want.shape)} {want.flatten()[:9].tolist()}...')


def empty_like(side, n, dtype=torch.float32):
    return torch.zeros(n, dtype=dtype, device=side.device)


@case
def all_reduce(side):
    for dtype in FLOATS + INTEGERS:
        for name, combine in REDUCTIONS.items():
            if dtype == torch.bfloat16 and name == 'PRODUCT':  # which HCCL has not
                continue
            for n in (1, 5, 1000, 4099):
                x = mine(side, n, dtype)
                dist.all_reduce(x, getattr(ReduceOp, name))
                equal(x, functools.reduce(combine, everyone(side, n, dtype)), f'{dtype} {name} {n}')


@case
def all_reduce_of_other_types(side):
    """uint8 and bool, which torch_npu converts."""
    x = mine(side, 33, torch.uint8)
    dist.all_reduce(x)
    equal(x, sum(everyone(side, 33, torch.uint8)))
    if side.backend == 'hccl':
        x = mine(side, 33, torch.bool)
        dist.all_reduce(x)
        equal(x, functools.reduce(operator.or_, everyone(side, 33, torch.bool)))


@case
def all_reduce_average(side):
    x = mine(side, 257)
    dist.all_reduce(x, ReduceOp.AVG if side.backend == 'hccl' else ReduceOp.SUM)
    if side.backend != 'hccl':
        x /= side.size
    equal(x, sum(everyone(side, 257)) / side.size)


@case
def all_reduce_of_views(side):
    """A tensor in the middle of its storage, and an empty one; torch_npu refuses those that are not contiguous."""
    whole = empty_like(side, 100)
    whole[31:70] = mine(side, 39)
    dist.all_reduce(whole[31:70])
    want = torch.zeros(100)
    want[31:70] = sum(everyone(side, 39))
    equal(whole, want)
    dist.all_reduce(empty_like(side, 0))


@case
def all_reduce_large(side):
    n = (3 << 20) + 7
    x = mine(side, n)
    dist.all_reduce(x)
    equal(x, sum(everyone(side, n)))


@case
def all_reduce_asynchronous(side):
    """Many at once, and computation beside them."""
    xs = [mine(side, 1000 + i, salt=i) for i in range(20)]
    y = torch.ones(64, 64, device=side.device)
    works = []
    for x in xs:
        works.append(dist.all_reduce(x, async_op=True))
        y = y @ y / 64
    for work in works:
        work.wait()
    for i, x in enumerate(xs):
        equal(x, sum(everyone(side, 1000 + i, salt=i)), i)
    equal(y, torch.ones(64, 64))


@case
def all_reduce_coalesced(side):
    xs = [mine(side, n) for n in (3, 1, 100)]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        dist.all_reduce_coalesced(xs)
    for x, n in zip(xs, (3, 1, 100)):
        equal(x, sum(everyone(side, n)), n)


@case
def broadcast(side):
    for dtype in moved(side):
        for root in range(side.size):
            x = mine(side, 77, dtype)
            dist.broadcast(x, root)
            equal(x, values(root, 77, dtype), f'{dtype} {root}')


@case
def reduce(side):
    for root in range(side.size):
        for name, combine in REDUCTIONS.items():
            x = mine(side, 123)
            dist.reduce(x, root, getattr(ReduceOp, name))
            if side.rank == root:
                equal(x, functools.reduce(combine, everyone(side, 123)), f'{name} {root}')


@case
def all_gather(side):
    for dtype in moved(side):
        out = [empty_like(side, 45, dtype) for _ in range(side.size)]
        dist.all_gather(out, mine(side, 45, dtype))
        for x, want in zip(out, everyone(side, 45, dtype)):
            equal(x, want, dtype)


@case
def all_gather_into_tensor(side):
    for dtype in FLOATS + INTEGERS:
        out = empty_like(side, 45 * side.size, dtype)
        dist.all_gather_into_tensor(out, mine(side, 45, dtype))
        equal(out, torch.cat(everyone(side, 45, dtype)), dtype)
    out = empty_like(side, 45 * side.size)   # the input is a part of the output, as fully_shard has it
    part = out[45 * side.rank:45 * (side.rank + 1)]
    part.copy_(mine(side, 45))
    dist.all_gather_into_tensor(out, part)
    equal(out, torch.cat(everyone(side, 45)), 'in place')


@case(hccl_only=True)
def all_gather_uneven(side):
    ns = [5 + 3 * r for r in range(side.size)]
    out = [empty_like(side, n) for n in ns]
    dist.all_gather(out, mine(side, ns[side.rank]))
    for r, x in enumerate(out):
        equal(x, values(r, ns[r], torch.float32), r)
    out = empty_like(side, sum(ns))
    torch_npu.distributed.all_gather_into_tensor_uneven(out, mine(side, ns[side.rank]), ns)
    equal(out, torch.cat([values(r, n, torch.float32) for r, n in enumerate(ns)]), 'into a tensor')


@case(hccl_only=True)
def reduce_scatter(side):
    xs = [mine(side, 31, salt=r) for r in range(side.size)]
    out = empty_like(side, 31)
    dist.reduce_scatter(out, xs)
    equal(out, sum(everyone(side, 31, salt=side.rank)))
    dist.reduce_scatter(out, xs, ReduceOp.MAX)
    equal(out, functools.reduce(torch.maximum, everyone(side, 31, salt=side.rank)))


@case
def reduce_scatter_tensor(side):
    for dtype in FLOATS + INTEGERS:
        x = torch.cat([mine(side, 31, dtype, salt=r) for r in range(side.size)])
        out = empty_like(side, 31, dtype)
        dist.reduce_scatter_tensor(out, x)
        equal(out, sum(everyone(side, 31, dtype, salt=side.rank)), dtype)
    if side.backend == 'hccl':
        x = torch.cat([mine(side, 31, salt=r) for r in range(side.size)])
        out = empty_like(side, 31)
        dist.reduce_scatter_tensor(out, x, ReduceOp.AVG)
        equal(out, sum(everyone(side, 31, salt=side.rank)) / side.size, 'average')


@case(hccl_only=True)
def reduce_scatter_uneven(side):
    ns = [5 + 3 * r for r in range(side.size)]
    xs = [mine(side, n, salt=r) for r, n in enumerate(ns)]
    want = sum(everyone(side, ns[side.rank], salt=side.rank))
    out = empty_like(side, ns[side.rank])
    dist.reduce_scatter(out, xs)
    equal(out, want)
    out.zero_()
    torch_npu.distributed.reduce_scatter_tensor_uneven(out, torch.cat(xs), ns)
    equal(out, want, 'of a tensor')


@case
def scatter(side):
    for root in range(side.size):
        out = empty_like(side, 19)
        dist.scatter(out, [mine(side, 19, salt=r) for r in range(side.size)] if side.rank == root else None, root)
        equal(out, values(root, 19, torch.float32, salt=side.rank), root)


@case
def gather(side):
    """Made of all_gather by torch_npu."""
    for root in range(side.size):
        out = [empty_like(side, 19) for _ in range(side.size)] if side.rank == root else None
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            dist.gather(mine(side, 19), out, root)
        if out:
            equal(torch.cat(out), torch.cat(everyone(side, 19)), root)


@case
def all_to_all_single(side):
    for dtype in FLOATS + INTEGERS:
        out = empty_like(side, 6 * side.size, dtype)
        dist.all_to_all_single(out, mine(side, 6 * side.size, dtype))
        parts = [values(r, 6 * side.size, dtype)[6 * side.rank:6 * (side.rank + 1)] for r in range(side.size)]
        equal(out, torch.cat(parts), dtype)


def uneven(side):
    """counts[i][j]: how much rank i sends to rank j; 0 among them."""
    return [[(i + 2 * j) % 3 * 4 for j in range(side.size)] for i in range(side.size)]


def part_for(counts, sender, receiver, dtype=torch.float32):
    at = sum(counts[sender][:receiver])
    return values(sender, sum(counts[sender]), dtype)[at:at + counts[sender][receiver]]


@case
def all_to_all_single_uneven(side):
    counts = uneven(side)
    sent, received = counts[side.rank], [row[side.rank] for row in counts]
    out = empty_like(side, sum(received))
    dist.all_to_all_single(out, mine(side, sum(sent)), received, sent)
    equal(out, torch.cat([part_for(counts, r, side.rank) for r in range(side.size)]))
    only_last = [[8 if j == side.size - 1 else 0 for j in range(side.size)] for _ in range(side.size)]
    sent, received = only_last[side.rank], [row[side.rank] for row in only_last]
    out = empty_like(side, sum(received))
    dist.all_to_all_single(out, mine(side, sum(sent)), received, sent)
    equal(out, torch.cat([part_for(only_last, r, side.rank) for r in range(side.size)]), 'all to the last')


@case(hccl_only=True)
def all_to_all(side):
    counts = uneven(side)
    out = [empty_like(side, row[side.rank]) for row in counts]
    dist.all_to_all(out, [part_for(counts, side.rank, r).to(side.device) for r in range(side.size)])
    for r, x in enumerate(out):
        equal(x, part_for(counts, r, side.rank), r)


@case
def send_and_receive(side):
    """Around a ring; even ranks send first, since a send waits for its receiver."""
    to, source = (side.rank + 1) % side.size, (side.rank - 1) % side.size
    for dtype in (torch.float32, torch.int64, torch.bool):
        out = empty_like(side, 50, dtype)
        steps = [lambda: dist.send(mine(side, 50, dtype), to), lambda: dist.recv(out, source)]
        for step in steps if side.rank % 2 == 0 else reversed(steps):
            step()
        equal(out, values(source, 50, dtype), dtype)


@case
def send_and_receive_asynchronously(side):
    if side.rank > 1:
        return
    peer = 1 - side.rank
    if side.rank == 0:
        works = [dist.isend(mine(side, 10 + i, salt=i), peer) for i in range(5)]
    else:
        outs = [empty_like(side, 10 + i) for i in range(5)]
        works = [dist.irecv(x, peer) for x in outs]
    for work in works:
        work.wait()
    if side.rank == 1:
        for i, x in enumerate(outs):
            equal(x, values(0, 10 + i, torch.float32, salt=i), i)


@case
def batch_of_sends_and_receives(side):
    """Everyone with everyone, of several types, receives before sends."""
    ops, outs = [], {}
    for dtype in (torch.float32, torch.int32):
        for r in range(side.size):
            if r != side.rank:
                outs[dtype, r] = empty_like(side, 20 + side.rank, dtype)
                ops.append(dist.P2POp(dist.irecv, outs[dtype, r], r))
        for r in range(side.size):
            if r != side.rank:
                ops.append(dist.P2POp(dist.isend, mine(side, 20 + r, dtype), r))
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for (dtype, r), x in outs.items():
        equal(x, values(r, 20 + side.rank, dtype), f'{dtype} {r}')


@case
def barrier(side):
    for _ in range(3):
        dist.barrier()


@case
def objects(side):
    mine_, all_ = {'rank': side.rank, 'text': 'x' * (10 << side.rank)}, [None] * side.size
    dist.all_gather_object(all_, mine_)
    assert [x['rank'] for x in all_] == list(range(side.size)), all_
    some = [mine_, side.rank] if side.rank == 0 else [None, None]
    dist.broadcast_object_list(some, 0)
    assert some == [{'rank': 0, 'text': 'x' * 10}, 0], some
    got = [None]
    dist.scatter_object_list(got, [f'for {r}' for r in range(side.size)] if side.rank == 0 else None, 0)
    assert got == [f'for {side.rank}'], got
    all_ = [None] * side.size if side.rank == 0 else None
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        dist.gather_object(side.rank, all_, 0)
    assert side.rank or all_ == list(range(side.size)), all_


@case
def groups(side):
    """Of one rank, of the last two in reverse, and the same ranks as the world."""
    alone, pair, again = dist.new_group([0]), dist.new_group([side.size - 1, side.size - 2]), dist.new_group()
    x = mine(side, 9)
    if side.rank == 0:
        dist.all_reduce(x, group=alone)
        equal(x, values(0, 9, torch.float32), 'alone')
    if side.rank >= side.size - 2:
        x = mine(side, 9)
        dist.all_reduce(x, group=pair)
        equal(x, sum(everyone(side, 9)[-2:]), 'pair')
        x = mine(side, 9)
        dist.broadcast(x, side.size - 1, group=pair)
        equal(x, values(side.size - 1, 9, torch.float32), 'broadcast in the pair')
    x = mine(side, 9)
    dist.all_reduce(x, group=again)
    equal(x, sum(everyone(side, 9)), 'again')
    dist.destroy_process_group(again)


@case(hccl_only=True)
def options_of_a_group(side):
    """Buffers of another size, and a name, by which fused operators find the communicator."""
    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    options.hccl_config = {'hccl_buffer_size': 64}
    group = dist.new_group(backend='hccl', pg_options=options)
    x = mine(side, 9)
    dist.all_reduce(x, group=group)
    equal(x, sum(everyone(side, 9)))
    named = dist.new_group()._get_backend(side.device)
    named._set_hccl_comm_name('a_name')
    name = named.get_hccl_comm_name(side.rank)
    assert name == 'a_name', name


@case
def functions(side):
    """What DTensor and compiled programs call."""
    world = list(range(side.size))
    x = mine(side, 12)
    equal(functional.all_reduce(x, 'sum', world) + 0, sum(everyone(side, 12)), 'all_reduce')
    equal(functional.all_gather_tensor(x, 0, world) + 0, torch.cat(everyone(side, 12)), 'all_gather')
    whole = torch.cat([mine(side, 12, salt=r) for r in range(side.size)])
    equal(functional.reduce_scatter_tensor(whole, 'sum', 0, world) + 0, sum(everyone(side, 12, salt=side.rank)),
          'reduce_scatter')
    equal(functional.broadcast(x, side.size - 1, world) + 0, values(side.size - 1, 12, torch.float32), 'broadcast')
    parts = [values(r, 6 * side.size, torch.float32)[6 * side.rank:6 * (side.rank + 1)] for r in range(side.size)]
    equal(functional.all_to_all_single(mine(side, 6 * side.size), None, None, world) + 0, torch.cat(parts),
          'all_to_all_single')
    some = functional.all_reduce_coalesced([mine(side, 3), mine(side, 4)], 'sum', world)
    for y, n in zip(some, (3, 4)):
        equal(y + 0, sum(everyone(side, n)), 'all_reduce_coalesced')
    some = functional.all_gather_into_tensor_coalesced([mine(side, 3), mine(side, 4)], world)
    for y, n in zip(some, (3, 4)):
        equal(y + 0, torch.cat(everyone(side, n)), 'all_gather_into_tensor_coalesced')


@case
def gradients(side):
    """Collectives that autograd goes through. Each rank's weight is its own number plus one."""
    weight = torch.tensor(float(side.rank + 1), device=side.device, requires_grad=True)
    x = mine(side, 12).requires_grad_()
    (differentiable.all_reduce(x) * weight).sum().backward()
    total = float(sum(range(1, side.size + 1)))
    equal(x.grad, torch.full((12,), total), 'all_reduce')
    x = mine(side, 12).requires_grad_()
    (torch.cat(differentiable.all_gather(x)) * weight.detach()).sum().backward()
    equal(x.grad, torch.full((12,), total), 'all_gather')
    x = mine(side, 6 * side.size).requires_grad_()
    out = functional.all_to_all_single_autograd(x, [6] * side.size, [6] * side.size, list(range(side.size)))
    (out * weight.detach()).sum().backward()
    equal(x.grad, torch.arange(1.0, side.size + 1).repeat_interleave(6), 'all_to_all_single')


@case(hccl_only=True)
def captured(side):
    """A graph that has a collective between two operators, replayed with other inputs."""
    x = mine(side, 64)
    dist.all_reduce(x.clone())              # which makes the communicator
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x * 2
        dist.all_reduce(y)
        z = y + 1
    for salt in range(3):
        x.copy_(mine(side, 64, salt=salt))
        graph.replay()
        equal(z, sum(2 * v for v in everyone(side, 64, salt=salt)) + 1, salt)


@case(hccl_only=True)
def streams(side):
    """Two groups on two streams, whose collectives do not wait for each other."""
    first, second = dist.new_group(), dist.new_group()
    xs = {}
    for group in (first, second):
        with torch.npu.stream(torch.npu.Stream()):
            xs[group] = [mine(side, 500, salt=i) for i in range(10)]
            for x in xs[group]:
                dist.all_reduce(x, group=group)
    torch.npu.synchronize()
    for some in xs.values():
        for i, x in enumerate(some):
            equal(x, sum(everyone(side, 500, salt=i)), i)


@case
def mesh_of_two_dimensions(side):
    """Four ranks as rows and columns."""
    mesh = side.mesh(2, side.size // 2, names=('row', 'column'))
    for name, step, first in (('row', side.size // 2, side.rank % (side.size // 2)),
                              ('column', 1, side.rank // (side.size // 2) * (side.size // 2))):
        ranks = [first + step * i for i in range(mesh[name].size())]
        x = mine(side, 40)
        dist.all_reduce(x, group=mesh.get_group(name))
        equal(x, sum(values(r, 40, torch.float32) for r in ranks), name)
        out = empty_like(side, 40 * len(ranks))
        dist.all_gather_into_tensor(out, mine(side, 40), group=mesh.get_group(name))
        equal(out, torch.cat([values(r, 40, torch.float32) for r in ranks]), name)
        x = torch.cat([mine(side, 40, salt=i) for i in range(len(ranks))])
        out = empty_like(side, 40)
        dist.reduce_scatter_tensor(out, x, group=mesh.get_group(name))
        equal(out, sum(values(r, 40, torch.float32, salt=ranks.index(side.rank)) for r in ranks), name)
