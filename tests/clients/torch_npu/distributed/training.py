# SPDX-License-Identifier: Apache-2.0
"""Ways to train one model on several devices. Each function of TRAINING takes a Side, trains some steps, and returns
this rank's losses, and the norms of the gradients where it clips them. It trains the same on every backend and device;
REFERENCE names the way that has the same losses by definition, where that is another one."""
import os
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint, pipelining
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import parallel as tp
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from models import Block, Convolutional, LanguageModel  # noqa: E402

STEPS = 4


class Side:
    """A backend with the device that this rank uses with it."""

    def __init__(self, backend):
        self.backend = backend
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device('npu', torch.npu.current_device()) if backend == 'hccl' else torch.device('cpu')

    def mesh(self, *shape, names=None):
        return init_device_mesh(self.device.type, shape, mesh_dim_names=names)


class Shared(LanguageModel):
    """The language model, whose batch is divided among n_parts; this rank has one of these."""
    batch = 2
    part, n_parts = 0, 1

    def __init__(self, device, part=0, n_parts=1, amp=None):
        self.part, self.n_parts = part, n_parts
        super().__init__(device, amp)

    def make_data(self):
        text = torch.randint(self.words, (self.batch * self.n_parts, self.length + 1))
        text = text[self.part::self.n_parts]
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def clip(self):
        """The norm of all gradients. AdamW alone would hide a wrong factor of these."""
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return (norm.full_tensor() if isinstance(norm, DTensor) else norm).item()

    def step(self):
        self.optimiser.zero_grad()
        with self.autocast():
            loss = self.loss()
        loss.backward()
        norm = self.clip()
        self.optimiser.step()
        return loss.item(), norm

    def losses(self, steps=STEPS):
        return [x for _ in range(steps) for x in self.step()]

    def renew_optimiser(self):
        self.optimiser = self.make_optimiser(self.model.parameters())


def distribute(job, side, **options):
    ids = [side.device.index] if side.device.type == 'npu' else None
    job.model = DistributedDataParallel(job.model, device_ids=ids, **options)
    return job


def ddp(side):
    """Buckets so small that several are under way at once."""
    return distribute(Shared(side.device, side.rank, side.size), side, bucket_cap_mb=0.1).losses()


def ddp_views(side):
    """Gradients as views of the buckets, and a static graph."""
    job = distribute(Shared(side.device, side.rank, side.size), side, gradient_as_bucket_view=True, static_graph=True)
    return job.losses()


def ddp_accumulate(side):
    """Two micro-batches a step; only the second communicates."""
    job = distribute(Shared(side.device, side.rank, side.size), side)
    losses = []
    for _ in range(STEPS):
        job.optimiser.zero_grad()
        with job.model.no_sync():
            job.loss().backward()
        loss = job.loss()
        loss.backward()
        losses += [loss.item(), job.clip()]
        job.optimiser.step()
    return losses


def ddp_bfloat16(side):
    """Autocast, so that activations are bfloat16 and gradients float32."""
    return distribute(Shared(side.device, side.rank, side.size, amp=torch.bfloat16), side).losses()


class Images(Convolutional):
    """A network with batch normalisation, whose 8 images are divided among n_parts. momentum: None means that running
    statistics are means of all steps. half: everything is float16."""
    batch, size, channels = 8, 16, 8
    momentum, half = 0.1, False

    def __init__(self, device, part=0, n_parts=1, **how):
        self.part, self.n_parts = part, n_parts
        vars(self).update(how)
        super().__init__(device)

    def make_model(self):
        model = super().make_model()
        for module in model:
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = self.momentum
        return model.half() if self.half else model

    def make_data(self):
        images, target = (x[self.part::self.n_parts].contiguous() for x in super().make_data())
        return images.half() if self.half else images, target

    def numbers(self):
        """The losses of some steps, then, of a model that is evaluated, the loss and the running statistics."""
        losses = [self.step().double() for _ in range(STEPS)]
        self.model.eval()
        with torch.no_grad():
            losses.append(self.loss().double())
        statistics = [x.double().abs().mean() for name, x in self.model.named_buffers() if 'running' in name]
        return torch.stack(losses).cpu(), torch.stack(statistics).cpu()


def batch_norm(side, **how):
    """SyncBatchNorm, which has the statistics of all ranks' images: the mean of the losses is that of one device."""
    job = Images(side.device, side.rank, side.size, **how)
    job.model = nn.SyncBatchNorm.convert_sync_batchnorm(job.model)
    losses, statistics = distribute(job, side).numbers()
    losses = losses.to(side.device, torch.float32)
    dist.all_reduce(losses)
    return (losses / side.size).tolist() + statistics.tolist()


def whole_images(side):
    return [x for numbers in Images(side.device).numbers() for x in numbers.tolist()]


def ddp_batch_norm(side):
    return batch_norm(side)


def ddp_batch_norm_averages(side):
    return batch_norm(side, momentum=None)


def whole_images_averages(side):
    return [x for numbers in Images(side.device, momentum=None).numbers() for x in numbers.tolist()]


def ddp_batch_norm_float16(side):
    """Where torch_npu has the results of convolutions in blocked formats, it calls other operators than for float32."""
    return batch_norm(side, half=True)


def zero_optimiser(side):
    """DDP whose optimiser's states are divided among the ranks (ZeRO 1): it broadcasts the parameters."""
    job = distribute(Shared(side.device, side.rank, side.size), side, bucket_cap_mb=0.1)
    job.optimiser = ZeroRedundancyOptimizer(job.model.parameters(), torch.optim.AdamW, lr=1e-3)
    return job.losses()


class OldSharded(Shared):
    def clip(self):
        return self.model.clip_grad_norm_(1.0).item()


def fsdp1(side):
    """FullyShardedDataParallel, as it was before fully_shard."""
    job = OldSharded(side.device, side.rank, side.size)
    job.model = FullyShardedDataParallel(job.model, device_id=side.device, use_orig_params=True,
                                         sharding_strategy=ShardingStrategy.FULL_SHARD,
                                         auto_wrap_policy=ModuleWrapPolicy({Block}))
    job.renew_optimiser()
    return job.losses()


def shard(job, **options):
    for block in job.model.blocks:
        fully_shard(block, **options)
    fully_shard(job.model, **options)
    job.renew_optimiser()
    return job


def fsdp2(side):
    return shard(Shared(side.device, side.rank, side.size), mesh=side.mesh(side.size)).losses()


def states(job):
    return dict(zip(('model', 'optimiser'), get_state_dict(job.model, job.optimiser)))


def fsdp2_resumed(side):
    """Half of the steps, a checkpoint of all ranks, and the other half by a new model that reads it."""
    mesh = side.mesh(side.size)
    folder = [tempfile.mkdtemp() if side.rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    job = shard(Shared(side.device, side.rank, side.size), mesh=mesh)
    losses = job.losses(STEPS // 2)
    checkpoint.save(states(job), checkpoint_id=folder[0])
    job = shard(Shared(side.device, side.rank, side.size), mesh=mesh)
    saved = states(job)
    checkpoint.load(saved, checkpoint_id=folder[0])
    set_state_dict(job.model, job.optimiser, model_state_dict=saved['model'], optim_state_dict=saved['optimiser'])
    losses += job.losses(STEPS - STEPS // 2)
    dist.barrier()
    if side.rank == 0:
        shutil.rmtree(folder[0])
    return losses


def fsdp2_bfloat16(side):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return shard(Shared(side.device, side.rank, side.size), mesh=side.mesh(side.size), mp_policy=policy).losses()


def hsdp(side):
    """Sharded within pairs of ranks, replicated across these."""
    mesh = side.mesh(side.size // 2, 2, names=('replicate', 'shard'))
    return shard(Shared(side.device, side.rank, side.size), mesh=mesh).losses()


class Attention(nn.Module):
    """Knows no number of heads, so that it computes those that it has on this rank."""

    def __init__(self, width, of_head):
        super().__init__()
        self.of_head = of_head
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.of_head)).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(a.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.relu(self.up(x)))


class SplitBlock(nn.Module):
    def __init__(self, width, of_head):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = Attention(width, of_head), FeedForward(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class SplitModel(nn.Module):
    """A transformer whose parts tensor parallelism can name. first, last: without these, it is a stage of a pipeline
    that takes and gives activations."""

    def __init__(self, words, width, of_head, layers, first=True, last=True):
        super().__init__()
        self.words = nn.Embedding(words, width) if first else None
        self.blocks = nn.ModuleList(SplitBlock(width, of_head) for _ in range(layers))
        self.norm = nn.LayerNorm(width) if last else None
        self.head = nn.Linear(width, words) if last else None

    def forward(self, x):
        if self.words is not None:
            x = self.words(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


class Split(Shared):
    layers, batch, length = 2, 4, 32

    def make_model(self):
        return SplitModel(self.words, self.width, self.width // self.heads, self.layers)

    def make_optimiser(self, parameters):
        # Momentum would be wrong by some 1e-5 where DTensor has gradients as partial sums. Lists of tensors can't have
        # DTensors and others.
        return torch.optim.SGD(parameters, lr=0.3, foreach=False)

    def step(self):
        """Without clipping, which cannot mix tensors of several meshes, or DTensors and others."""
        self.optimiser.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimiser.step()
        return (loss.item(),)


def whole(side):
    """On one device, without communication."""
    return Split(side.device).losses()


def tensor_parallel_plan(sequence):
    """Columns and rows; with `sequence`, what is between them is divided along the sequence."""
    between = Shard(1) if sequence else Replicate()
    block = {'attention.q': tp.ColwiseParallel(), 'attention.k': tp.ColwiseParallel(),
             'attention.v': tp.ColwiseParallel(), 'attention.out': tp.RowwiseParallel(output_layouts=between),
             'feed_forward.up': tp.ColwiseParallel(), 'feed_forward.down': tp.RowwiseParallel(output_layouts=between)}
    model = {'words': tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
             'head': tp.ColwiseParallel(input_layouts=between, output_layouts=Replicate())}
    if sequence:
        whole_input = {'input_layouts': (Shard(1),), 'desired_input_layouts': (Replicate(),)}
        block.update({'norm1': tp.SequenceParallel(), 'norm2': tp.SequenceParallel(),
                      'attention': tp.PrepareModuleInput(**whole_input),
                      'feed_forward': tp.PrepareModuleInput(**whole_input)})
        model['norm'] = tp.SequenceParallel()
    return block, model


def split_tensors(job, mesh, sequence):
    block_plan, model_plan = tensor_parallel_plan(sequence)
    for block in job.model.blocks:
        tp.parallelize_module(block, mesh, block_plan)
    tp.parallelize_module(job.model, mesh, model_plan)
    job.renew_optimiser()
    return job


def tensor_parallel(side):
    return split_tensors(Split(side.device), side.mesh(side.size), False).losses()


def sequence_parallel(side):
    return split_tensors(Split(side.device), side.mesh(side.size), True).losses()


def data_and_tensor_parallel(side):
    """A mesh of two dimensions: batches are divided across pairs of ranks, tensors within these."""
    mesh = side.mesh(side.size // 2, 2, names=('data', 'tensor'))
    job = Split(side.device, side.rank // 2, side.size // 2)
    split_tensors(job, mesh['tensor'], True)
    return shard(job, mesh=mesh['data']).losses()


def data_by_pairs(side):
    """DDP of pairs of ranks, in which both have the same batch."""
    return distribute(Split(side.device, side.rank // 2, side.size // 2), side).losses()


MICRO_BATCHES = 4


def stages(side, per_rank):
    """The modules of this rank, and their places among all stages, of the model that Split has on one device."""
    job = Split(side.device)
    job.layers = 2 * side.size
    torch.manual_seed(0)
    model = job.make_model()
    n = per_rank * side.size
    blocks = len(model.blocks) // n
    out = []
    for place in range(side.rank, n, side.size):
        with torch.device('meta'):
            part = SplitModel(job.words, job.width, job.width // job.heads, 0, place == 0, place == n - 1)
        if place == 0:
            part.words = model.words
        if place == n - 1:
            part.norm, part.head = model.norm, model.head
        part.blocks = model.blocks[place * blocks:(place + 1) * blocks]
        out.append((place, n, part.to(side.device)))
    return job, out


def cross_entropy(out, target):
    return F.cross_entropy(out.flatten(0, -2), target.flatten())


def run_schedule(side, per_rank, scheduler):
    job, parts = stages(side, per_rank)
    optimiser = job.make_optimiser([p for _, _, part in parts for p in part.parameters()])
    made = [pipelining.PipelineStage(part, place, n, side.device) for place, n, part in parts]
    schedule = scheduler(made if per_rank > 1 else made[0], MICRO_BATCHES, loss_fn=cross_entropy)
    inputs, target = job.data
    losses = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        mine = []
        is_first, is_last = parts[0][0] == 0, parts[-1][0] == parts[-1][1] - 1
        schedule.step(*([inputs] if is_first else []), **({'target': target, 'losses': mine} if is_last else {}))
        optimiser.step()
        losses.append(sum(x.item() for x in mine))
    return losses


def pipeline(side):
    return run_schedule(side, 1, pipelining.Schedule1F1B)


def pipeline_gpipe(side):
    return run_schedule(side, 1, pipelining.ScheduleGPipe)


def pipeline_interleaved(side):
    """Two stages a rank, so that ranks send and receive in both directions at once."""
    return run_schedule(side, 2, pipelining.ScheduleInterleaved1F1B)


def pipeline_by_hand(side):
    """The same without a schedule: each rank receives activations, computes, sends; then the gradients go back."""
    job, ((_, _, part),) = stages(side, 1)
    optimiser = job.make_optimiser(part.parameters())
    first, last = side.rank == 0, side.rank == side.size - 1
    shape = (job.batch // MICRO_BATCHES, job.length, job.width)
    losses = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        total = 0.0
        for inputs, target in zip(*(x.chunk(MICRO_BATCHES) for x in job.data)):
            if not first:
                inputs = torch.empty(shape, device=side.device)
                dist.recv(inputs, side.rank - 1)
                inputs.requires_grad_()
            out = part(inputs)
            if last:
                loss = cross_entropy(out, target)
                loss.backward()
                total += loss.item()
            else:
                dist.send(out.detach(), side.rank + 1)
                gradient = torch.empty_like(out)
                dist.recv(gradient, side.rank + 1)
                out.backward(gradient)
            if not first:
                dist.send(inputs.grad, side.rank - 1)
        for p in part.parameters():
            p.grad /= MICRO_BATCHES
        optimiser.step()
        losses.append(total)
    return losses


TRAINING = {f.__name__: f for f in (
    ddp, ddp_views, ddp_accumulate, ddp_bfloat16, ddp_batch_norm, ddp_batch_norm_averages, ddp_batch_norm_float16,
    zero_optimiser, fsdp1, fsdp2, fsdp2_resumed, fsdp2_bfloat16, hsdp, tensor_parallel, sequence_parallel,
    data_and_tensor_parallel, pipeline, pipeline_gpipe, pipeline_interleaved, pipeline_by_hand)}
# Two ways cannot be their own reference: gloo of PyTorch 2.7 sums where fully_shard wants an average, and the schedules
# but GPipe wait for the last work of batch_isend_irecv only, which with gloo is the last transfer.
REFERENCE = {'ddp_views': ddp, 'ddp_batch_norm': whole_images, 'ddp_batch_norm_averages': whole_images_averages,
             'ddp_batch_norm_float16': whole_images, 'zero_optimiser': ddp, 'fsdp1': ddp, 'fsdp2': ddp,
             'fsdp2_resumed': ddp, 'fsdp2_bfloat16': ddp_bfloat16, 'hsdp': ddp, 'tensor_parallel': whole,
             'sequence_parallel': whole, 'data_and_tensor_parallel': data_by_pairs, 'pipeline': pipeline_by_hand,
             'pipeline_gpipe': pipeline_by_hand, 'pipeline_interleaved': pipeline_by_hand}
NOT_ON_GLOO = {'ddp_batch_norm', 'ddp_batch_norm_averages', 'ddp_batch_norm_float16', 'fsdp2', 'fsdp2_resumed',
               'fsdp2_bfloat16', 'hsdp', 'data_and_tensor_parallel', 'pipeline', 'pipeline_interleaved'}
