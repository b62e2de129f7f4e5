# SPDX-License-Identifier: Apache-2.0
"""The rules of rules.py for windows (convolutions, pooling), resampling, shapes and indices."""
from . import dtypes
from .infer import BOOL, INT64, broadcast, like, of, promote, unknown
from .rules import INT32, INT8, UINT8, count, masked


# ---- windows: convolutions, pooling

def _spread(values, n, default):
    """n numbers: those given, or the one that is given for all."""
    return tuple(values) if len(values) == n else tuple(values) * n if len(values) == 1 else (default,) * n


def _windows(sizes, kernel, stride, pad, dilation, ceil=False):
    """The numbers of windows by dimension. With `ceil`, a last window may reach beyond the padded end, but starts
    before it."""
    n = len(sizes)
    kernel, pad, dilation = _spread(kernel, n, 1), _spread(pad, n, 0), _spread(dilation, n, 1)
    stride = _spread(stride, n, None)
    out = []
    for size, k, s, p, d in zip(sizes, kernel, stride, pad, dilation):
        s = s or k
        over = size + 2 * p - d * (k - 1) - 1
        count = (-(-over // s) if ceil else over // s) + 1
        if ceil and (count - 1) * s >= size + p:
            count -= 1
        out.append(max(count, 0))
    return tuple(out)


@of("convolution")
def _convolution(c):
    x, w = c[0].shape, c[1].shape
    n = len(w) - 2
    batched = len(x) == len(w)
    sizes, kernel = x[-n:], w[2:]
    stride, dilation = _spread(c["stride"], n, 1), _spread(c["dilation"], n, 1)
    pads = c["padding"]                         # by dimension, or before and after each dimension
    before, after = (pads[0::2], pads[1::2]) if len(pads) == 2 * n else (_spread(pads, n, 0),) * 2
    if c["transposed"]:
        more = _spread(c["outputPadding"] or (), n, 0)
        spatial = tuple((i - 1) * s - b - a + d * (k - 1) + m + 1
                        for i, s, b, a, d, k, m in zip(sizes, stride, before, after, dilation, kernel, more))
        channels = w[1] * c["groups"]
    else:
        spatial = tuple((i + b + a - d * (k - 1) - 1) // s + 1
                        for i, s, b, a, d, k in zip(sizes, stride, before, after, dilation, kernel))
        channels = w[0]
    return [((x[:1] if batched else ()) + (channels,) + spatial, promote([c[0], c[1]]))]


@of("conv_depthwise")
def _conv_depthwise(c):
    spatial = _windows(c[0].shape[2:], c["kernelSize"], c["stride"], c["padding"], c["dilation"])
    return [((c[0].shape[0], c[1].shape[0]) + spatial, c[0].dtype)]


@of("conv_tbc")
def _conv_tbc(c):
    steps, batch, _ = c[0].shape
    return [((steps + 2 * c["pad"] - c[1].shape[0] + 1, batch, c[1].shape[2]), c[0].dtype)]


@of("convolution_backward")
def _convolution_backward(c):
    sizes = c["biasSizes"]
    bias = tuple(sizes) if sizes else (c[0].shape[1 if len(c[0].shape) == len(c[2].shape) else 0],)
    return masked(c["outputMask"], [like(c[1]), like(c[2]), (bias, c[2].dtype)])


@of("im2col")
def _im2col(c):
    x = c[0].shape
    counts = _windows(x[-2:], c["kernelSize"], c["stride"], c["padding"], c["dilation"])
    return [(x[:-3] + (x[-3] * count(_spread(c["kernelSize"], 2, 1)), count(counts)), c[0].dtype)]


@of("im2col_backward")
def _im2col_backward(c):
    x = c[0].shape
    return [(x[:-2] + (x[-2] // count(_spread(c["kernelSize"], 2, 1)),) + tuple(c["inputSize"]), c[0].dtype)]


@of("average_pool")
def _average_pool(c):
    n = 3 if "3d" in c.op.name else 2
    lead = c[0].shape[:-n]
    size = c.get("outputSize")
    if size is None:
        size = _windows(c[0].shape[-n:], c["kernelSize"], c.get("strides", "stride"), c.get("paddings", "padding"),
                        (1,), c["ceilMode"])
    return [(lead + tuple(size), c[0].dtype)]


@of("global_pool")
def _global_pool(c):
    x = c[0].shape
    return [(x[:2] + (1,) * (len(x) - 2), c[0].dtype)]


@of("max_pool")
def _max_pool(c):
    n = 2
    sizes, kernel, stride = c[0].shape[-n:], _spread(c["kernelShape"], n, 1), _spread(c["strides"], n, 1)
    pads, dilation = c["pads"], _spread(c["dilations"], n, 1)
    if c["autoPad"] in (1, 2):                  # SAME: as many windows as strides
        return [(c[0].shape[:-n] + tuple(-(-i // s) for i, s in zip(sizes, stride)), c[0].dtype)]
    if len(pads) == 2 * n and c["autoPad"] == 0:
        before, after = pads[:n], pads[n:]
    else:
        before = after = _spread(pads if c["autoPad"] == 0 else (), n, 0)
    out = []
    for i, k, s, b, a, d in zip(sizes, kernel, stride, before, after, dilation):
        over = i + b + a - d * (k - 1) - 1
        count = (-(-over // s) if c["ceilMode"] else over // s) + 1
        out.append(count - 1 if c["ceilMode"] and (count - 1) * s >= i + b else count)
    return [(c[0].shape[:-n] + tuple(out), c[0].dtype)]


@of("max_pool_indices")
def _max_pool_indices(c):
    n = 3 if "3d" in c.op.name else 2
    counts = _windows(c[0].shape[-n:], c["kernelSize"], c["stride"], c["padding"], c["dilation"], c["ceilMode"])
    shape = c[0].shape[:-n] + counts
    if c.op.variant == "MAX_MASK_2D":           # a bit per window and element of the kernel, in blocks of 32 bytes
        mask = c[0].shape[:-2] + (count(_spread(c["kernelSize"], 2, 1)), (-(-count(counts) // 16) + 1) * 32)
        return [(shape, c[0].dtype), (mask, INT8)]
    return [(shape, c[0].dtype), (shape, INT32)]


@of("adaptive_max")
def _adaptive_max(c):
    shape = c[0].shape[:-len(c["outputSize"])] + tuple(c["outputSize"])
    return [(shape, c[0].dtype), (shape, INT64)]


@of("max_unpool")
def _max_unpool(c):
    size = tuple(c["outputSize"])
    return [(c[0].shape[:-len(size)] + size, c[0].dtype)]


# ---- resampling

@of("upsample")
def _upsample(c):
    size = c.get("inputSize")
    return [(tuple(size) if size else c[0].shape[:2] + tuple(c["outputSize"]), c[0].dtype)]


@of("resize")
def _resize(c):
    return [(tuple(int(n * s + 1e-9) for n, s in zip(c[0].shape, c["scales"])), c[0].dtype)]


@of("affine_grid")
def _affine_grid(c):
    size = tuple(c["size"])
    return [(size[:1] + size[2:] + (len(size) - 2,), c[0].dtype)]


@of("grid_sampler")
def _grid_sampler(c):
    return [(c[0].shape[:2] + c[1].shape[1:-1], c[0].dtype)]


@of("roi_align")
def _roi_align(c):
    size = c.get("outputHeight", "pooledHeight"), c.get("outputWidth", "pooledWidth")
    return [((c[1].shape[0], c[0].shape[1], *size), c[0].dtype)]


@of("roi_align_backward")
def _roi_align_backward(c):
    return [(tuple(c["inputShape"]), c[0].dtype)]


# ---- shapes

@of("permute")
def _permute(c):
    return [(tuple(c[0].shape[d] for d in c["dims"]), c[0].dtype)]


@of("expand")
def _expand(c):
    size = tuple(c["size"])
    lead = len(size) - len(c[0].shape)
    return [(tuple(n if n >= 0 else c[0].shape[d - lead] for d, n in enumerate(size)), c[0].dtype)]


@of("flatten")
def _flatten(c):
    shape, rank = c[0].shape, len(c[0].shape)
    axis = c["axis"] + rank if c["axis"] < 0 else c["axis"]
    return [((count(shape[:axis]), count(shape[axis:])), c[0].dtype)]


@of("confusion_transpose")
def _confusion(c):
    shape = tuple(c["shape"])
    return [(shape if c["transpose_first"] else tuple(shape[d] for d in c["perm"]), c[0].dtype)]


@of("cat")
def _cat(c):
    kept = [t for t in c[0] if t.shape != (0,)] or c[0][:1]
    shape = list(kept[0].shape)
    if shape:
        shape[c["dim"]] = sum(t.shape[c["dim"]] for t in kept)
    return [(tuple(shape), promote(c[0]))]


@of("stack")
def _stack(c):
    shape, dim = list(c[0][0].shape), c["dim"]
    shape.insert(dim + len(shape) + 1 if dim < 0 else dim, len(c[0]))
    return [(tuple(shape), promote(c[0]))]


@of("chunk_cat")
def _chunk_cat(c):
    n, dim = c["numChunks"], c["dim"]
    width = 0
    for t in c[0]:
        width += -(-t.shape[dim] // n) * count(t.shape[dim + 1:])
    return [(c[0][0].shape[:dim] + (n, width), c[0][0].dtype)]


def _parts(shape, dim, sizes):
    return [shape[:dim] + (n,) + shape[dim + 1:] for n in sizes]


@of("split")
def _split(c):
    dim, n = c["dim"] % len(c[0].shape), c["splitSections"]
    size = c[0].shape[dim]
    sizes = [min(n, size - at) for at in range(0, size, n)] or [0]
    return [[(s, c[0].dtype) for s in _parts(c[0].shape, dim, sizes)]]


@of("split_sizes")
def _split_sizes(c):
    dim = c["dim"] % len(c[0].shape)
    return [[(s, c[0].dtype) for s in _parts(c[0].shape, dim, c["splitSize"])]]


def _slice_size(n, start, end, step):
    start, end, _ = slice(start, end).indices(n)
    return max(-(-(end - start) // step), 0)


@of("slice")
def _slice(c):
    shape, dim = list(c[0].shape), c["dim"]
    shape[dim] = _slice_size(shape[dim], c["start"], c["end"], c["step"])
    return [(tuple(shape), c[0].dtype)]


@of("slice_axes")
def _slice_axes(c):
    shape = list(c[0].shape)
    for axis, start, end, step in zip(c["axes"], c["starts"], c["ends"], c["steps"]):
        shape[axis] = _slice_size(c[0].shape[axis], start, end, step)
    return [(tuple(shape), c[0].dtype)]


@of("strided_slice")
def _strided_slice(c):
    """TensorFlow's rules: bit i of a mask is for the i-th entry of begin, end and strides."""
    shape, out = list(c[0].shape), []
    entries = len(c["begin"])
    bit = [{name for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis") if c[name + "Mask"] >> i & 1}
           for i in range(entries)]
    ellipsis = next((i for i in range(entries) if "ellipsis" in bit[i]), None)
    taken = sum(1 for i in range(entries) if i != ellipsis and not ("newAxis" in bit[i]))
    for i in range(entries):
        if i == ellipsis:
            after = sum(1 for j in range(i + 1, entries) if "newAxis" not in bit[j])
            while len(shape) > after:
                out.append(shape.pop(0))
        elif "newAxis" in bit[i]:
            out.append(1)
        else:
            n = shape.pop(0)
            if "shrinkAxis" not in bit[i]:
                out.append(len(range(*slice(None if "begin" in bit[i] else c["begin"][i],
                                            None if "end" in bit[i] else c["end"][i], c["strides"][i]).indices(n))))
    return [(tuple(out + shape), c[0].dtype)] if taken <= len(c[0].shape) else None


@of("repeat")
def _repeat(c):
    repeats = tuple(c["repeats"])
    shape = (1,) * (len(repeats) - len(c[0].shape)) + c[0].shape
    return [(tuple(n * r for n, r in zip(shape, repeats)), c[0].dtype)]


@of("repeat_interleave", "repeat_interleave_int")
def _repeat_interleave(c):
    return [((c["outputSize"],), c[0].dtype)]


@of("repeat_interleave_tensor")
def _repeat_interleave_tensor(c):
    return [((c["outputSize"],), INT64)]


@of("repeat_interleave_dim", "repeat_interleave_int_dim")
def _repeat_interleave_dim(c):
    shape = list(c[0].shape)
    if shape:
        shape[c["dim"]] = c["outputSize"]
    return [(tuple(shape) or (c["outputSize"],), c[0].dtype)]


@of("repeat_interleave_grad")
def _repeat_interleave_grad(c):
    shape = list(c[0].shape)
    shape[c["axis"]] = c[1].size
    return [(tuple(shape), c[0].dtype)]


@of("constant_pad", "pad")
def _pad(c):
    shape, pads = list(c[0].shape), c.get("pad", "padding")
    for i in range(len(pads) // 2):
        shape[-1 - i] += pads[2 * i] + pads[2 * i + 1]
    return [(tuple(shape), c[0].dtype)]


@of("diag")
def _diag(c):
    shape, k = c[0].shape, c["diagonal"]
    if len(shape) < 2:
        return [((c[0].size + abs(k),) * 2, c[0].dtype)]
    rows, columns = shape
    return [((max(min(rows, columns - k) if k >= 0 else min(rows + k, columns), 0),), c[0].dtype)]


@of("diag_flat")
def _diag_flat(c):
    return [((c[0].size + abs(c["diagonal"]),) * 2, c[0].dtype)]


@of("unfold_grad")
def _unfold_grad(c):
    return [(tuple(c["inputSizes"]), c[0].dtype)]


# ---- indices

@of("index_select", "gather_v2")
def _index_select(c):
    shape, dim = c[0].shape, c["dim"] % max(len(c[0].shape), 1)
    batches, index = c.get("batchDims") or 0, c["index"].shape
    if c.op.family == "index_select":
        index = index or (1,)
    return [(shape[:dim] + index[batches:] + shape[dim + 1:], c[0].dtype)]


@of("gather")
def _gather(c):
    return [(c["index"].shape, c[0].dtype)]


@of("gather_nd")
def _gather_nd(c):
    index = c["indices"].shape
    return [(index[:-1] + c[0].shape[index[-1]:], c[0].dtype)]


@of("take")
def _take(c):
    return [(c["index"].shape, c[0].dtype)]


@of("index")
def _index(c):
    """NumPy's rules: index tensors broadcast, and take the place of their dimensions if these are neighbours."""
    try:
        return [(_indexed(c, _is_full_slice), c[0].dtype)]
    except ValueError:                          # an index without positions does not broadcast with the others
        return [(_indexed(c, lambda self, entries, t: 0 in t.shape), c[0].dtype)]


def _is_full_slice(self, entries, t):
    """Whether a tensor of the list stands for ":", in the reading that the operator takes for the most likely one."""
    if 0 not in t.shape or t.dtype in (INT32, INT64, BOOL) and len(t.shape) > 1:
        return False
    if t.dtype not in (INT32, INT64):
        return True
    of_one_dimension = [e for e in entries if e is not None and e.shape == (0,)]
    alone = len(of_one_dimension) == len(entries)
    return t.dtype == self.dtype and not alone and all(e.dtype in (INT32, INT64) for e in of_one_dimension)


def _indexed(c, is_full_slice):
    shape, entries, plain, indices = c[0].shape, c[1], [], {}
    for d in range(len(shape)):
        t = entries[d] if d < len(entries) else None
        if t is None or is_full_slice(c[0], entries, t):
            plain.append(d)
        elif t.dtype in (BOOL, UINT8):
            unknown(c.op, "its size depends on a mask")
        else:
            indices[d] = t.shape
    common = broadcast(list(indices.values())) if indices else ()
    first, last = min(indices, default=0), max(indices, default=-1)
    at = first if last - first + 1 == len(indices) else 0
    return tuple(shape[d] for d in plain if d < at) + common + tuple(shape[d] for d in plain if d >= at)


@of("embedding")
def _embedding(c):
    return [(c[1].shape + c[0].shape[1:], c[0].dtype)]


@of("embedding_dense_backward")
def _embedding_backward(c):
    return [((c["numWeights"], c[0].shape[-1]), c[0].dtype)]


@of("embedding_bag")
def _embedding_bag(c):
    bags = c["offsets"].shape[0] - bool(c["includeLastOffset"])
    n, kind = c["indices"].shape[0], promote([c["indices"], c["offsets"]])
    widest = (bags, c[0].shape[1]) if c["mode"] == 2 else (bags,)
    return [((bags, c[0].shape[1]), c[0].dtype), ((n,), kind), ((bags,), kind), (widest, kind)]


@of("nonzero")
def _nonzero(c):
    n, rank = c[0].size, len(c[0].shape)
    return [((n, rank) if c.op.variant == "NONZERO_ROWS" else (rank, n), INT64)]


@of("masked_select")
def _masked_select(c):
    return [((count(broadcast([c[0].shape, c[1].shape])),), c[0].dtype)]


@of("unique", "unique2", "unique_consecutive", "unique_dim")
def _unique(c):
    n, shape, dim = c[0].size, c[0].shape, c.get("dim")
    if dim is not None and -len(shape) <= dim < len(shape):
        n = shape[dim]
        return [like(c[0]), ((n,), INT64), ((n,), INT64)]
    return [((n,), c[0].dtype), (shape, INT64), ((n,), INT64)][:len(c.op.outputs)]


@of("search_sorted")
def _search_sorted(c):
    return [like(c["self"], INT32 if c["outInt32"] else INT64)]


@of("search_sorteds")
def _search_sorteds(c):
    return [((), INT32 if c["outInt32"] else INT64)]


@of("histc")
def _histc(c):
    return [((c["bins"],), c[0].dtype)]


@of("factors_of_one")
def _factors_of_one(c):
    return [(broadcast([c[k].shape for k in range(3)]), c[0].dtype)]


@of("cdist")
def _cdist(c):
    a, b = c[0].shape, c[1].shape
    return [(broadcast([a[:-2], b[:-2]]) + (a[-2], b[-2]), c[0].dtype)]


@of("exp_segsum")
def _exp_segsum(c):
    return [(c[0].shape + c[0].shape[-1:], c[0].dtype)]


@of("exp_segsum_backward")
def _exp_segsum_backward(c):
    return [(c[0].shape[:-1], c[0].dtype)]


@of("precision_compare")
def _precision_compare(c):
    return [((), dtypes.of("uint32"))]


@of("sign_bits_pack")
def _sign_bits_pack(c):
    return [((c["size"], -(-c[0].size // 8) // c["size"]), UINT8)]


@of("sign_bits_unpack")
def _sign_bits_unpack(c):
    return [((c["size"], c[0].size * 8 // c["size"]), dtypes.of(c["dtype"]))]


@of("svd")
def _svd(c):
    (m, n), lead, dtype = c[0].shape[-2:], c[0].shape[:-2], c[0].dtype
    k = min(m, n)
    shapes = [lead + (k,), lead + (m, m if c["fullMatrices"] else k), lead + (n, n if c["fullMatrices"] else k)]
    return [(shape, dtype) for shape in shapes]


@of("iou")
def _iou(c):
    return [((c[0].shape[0], 1 if c["aligned"] else c[1].shape[0]), c[0].dtype)]


@of("deformable")
def _deformable(c):
    batch, _, heads, channels = c[0].shape
    return [((batch, c["location"].shape[1], heads * channels), c[0].dtype)]
