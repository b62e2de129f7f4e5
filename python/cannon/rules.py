# SPDX-License-Identifier: Apache-2.0
"""The rules of infer.py: shapes and dtypes of the outputs, by families of ops/*.ops or by operators.

A rule takes a Call and returns (shape, dtype) per output, in the order of the schema. Data-dependent sizes are the
largest possible ones.
"""
import math

from . import dtypes
from .infer import BOOL, DOUBLE, FLOAT, INT64, RULES, broadcast, floating, like, of, promote, real

INT8, INT32, UINT8, HALF = (dtypes.of(n) for n in ("int8", "int32", "uint8", "float16"))

# Outputs that are like arguments. A line: families or operators, and for each output the argument's position in the
# schema (counted from 0), with a dtype behind a slash if that is another; f is float32. An argument that is None leaves
# the output out.
_LIKE = """
fused_cell: 2 2 0
cholesky sinkhorn format_cast view_copy factor_of_one scale blend: 0
cdist_backward: 1
deformable_grad: 0 3 4
chamfer_backward: 0 1
trans_convolution_weight: 0/float16
softmax softmax_backward masked_softmax masked_softmax_backward gelu_v2 prelu masked_scale: 0
round_decimals bitwise_not dropout_apply cumsum_v2 flip roll channel_shuffle triangle top_k_top_p: 0
renorm rel_pos_softmax batch_norm_elemt inverse rotary index_fill index_add scatter scatter_value scatter_add: 0
index_copy scatter_nd scatter_reduce FastGelu: 0
log_sigmoid: 0 0
LogSigmoidBackward InplaceRReluWithNoise: 0
rrelu: 0 0
FastGeluBackward: 1
prelu_backward: 1 2
KlDivBackward nll_loss_backward batch_norm_elemt_backward moe_finalize max_unpool_backward max_pool_backward: 1
adaptive_max_backward CtcLossBackward cross_entropy_grad: 1
AvgPool2dBackward AvgPool3dBackward AdaptiveAvgPool2dBackward AdaptiveAvgPool3dBackward: 1
ReflectionPad1dBackward ReflectionPad2dBackward ReflectionPad3dBackward ReplicationPad1dBackward: 1
ReplicationPad2dBackward ReplicationPad3dBackward CircularPad2dBackward CircularPad3dBackward: 1
amp_update_scale: 0 1
fake_quant: 0 0/bool
is_in_tensor_scalar: 0/bool
rms_norm_quant: 0/int8
sort: 0 0/int64
argsort: 0/int64
sort_with_index: 0 1
cummax: 0 0/int64
ring_attention moe_unpermute_grad: 0 1 2
moe_unpermute_grad: 0 3
FlashAttentionScoreGrad FlashAttentionScoreGradV2 FlashAttentionUnpaddingScoreGrad: 0 1 2 4
FlashAttentionUnpaddingScoreGradV2 FlashAttentionUnpaddingScoreGradV4: 0 1 2 4
FlashAttentionScoreGradV3: 0 1 2 4 12
FlashAttentionUnpaddingScoreGradV3: 0 1 2 3 4 6
FlashAttentionUnpaddingScoreGradV5: 0 1 2 3 4 6 14
rotary_grad: 0 1 2
rotary_cache: 1 2
add_lora: 0
grid_sampler_backward: 1 2
rms_norm_grad: 1 3/f
add_layer_norm_grad: 1 5/f 5/f
deep_norm_grad: 1 2 3/f 3/f
group_norm_swish_grad: 3 4 5
conv_tbc_backward: 1 2 3
SwiGluGrad GluBackward GeGluBackward GeGluV3Backward: 1
foreach foreach_round: 0
ForeachPowScalarAndTensor: 1
BernoulliTensor Bernoulli NormalTensorFloat: 0
NormalFloatTensor: 1
"""


def _like_rule(specs):
    parts = [(int(n), dtypes.of({"f": "float32"}.get(d, d)) if d else None)
             for n, _, d in (spec.partition("/") for spec in specs)]

    def rule(op, values):
        return [None if values[n] is None else
                [like(t, d) for t in values[n]] if type(values[n]) is list else like(values[n], d) for n, d in parts]
    return rule


for _line in _LIKE.strip().splitlines():
    _names, _, _specs = _line.partition(": ")
    RULES.update(dict.fromkeys(_names.split(), _like_rule(_specs.split())))


# ---- elementwise operators that are not of the elementwise engine

@of("cast")
def _cast(c):
    return [like(c[0], dtypes.of(c[1]))]


def with_scalars(scalars, dtype):
    """The dtype with the kinds of the scalars that take part."""
    for v in scalars:
        if v is None:
            continue
        own = dtypes.of(v.dtype) if hasattr(v, "dtype") else dtypes.of_scalar(v)
        if own.kind == "c" and dtype.kind != "c":
            dtype = dtypes.of("complex128" if dtype is DOUBLE else "complex64")
        elif own.kind == "f" and dtype.kind in "biu":
            dtype = FLOAT
        elif own.kind == "i" and dtype.kind == "b":
            dtype = INT64
    return dtype


@of("power")
def _power(c):
    return [like(c[0], with_scalars([c[1]], c[0].dtype))]


@of("clamp", "clamp_tensor", "add_relu", "list", "cross")
def _promoted(c):
    ins = c[0] if type(c[0]) is list else c.tensors
    scalars = [v for v, a in zip(c.values, c.op.arguments) if a.type == "Scalar" and a.name != "alpha"]
    return [(broadcast([t.shape for t in ins]), with_scalars(scalars, promote(ins)))]


@of("addcdiv")
def _addcdiv(c):
    return [(broadcast([t.shape for t in c.tensors]), floating(promote(c.tensors)))]


@of("divide")
def _divide(c):
    dtype = with_scalars([c[1]] if c.op.arguments[1].type == "Scalar" else [], promote(c.tensors))
    return [(broadcast([t.shape for t in c.tensors]), floating(dtype) if c["mode"] == 0 or dtype is BOOL else dtype)]


@of("real")
def _real(c):
    return [like(c[0], real(c[0].dtype))]


@of("complex")
def _complex(c):
    kind = {"float32": "complex64", "float64": "complex128", "float16": "complex32"}.get(promote(c.tensors).name)
    return [(broadcast([t.shape for t in c.tensors]), dtypes.of(kind or "complex64"))]


# ---- tensors from numbers

@of("arange")
def _arange(c):
    numbers = [c["start"], c["end"], c["step"]]
    start, end, step = map(float, numbers)
    steps = (end - start) / step
    n = int(steps) + 1 if c.op.variant == "ARANGE_INCLUSIVE" else -int(-steps // 1)
    whole = all(dtypes.of(v.dtype).kind in "iu" if hasattr(v, "dtype") else isinstance(v, int) for v in numbers)
    return [((max(n, 0),), INT64 if whole else FLOAT)]


@of("linspace")
def _linspace(c):
    return [((c["steps"],), FLOAT)]


@of("eye")
def _eye(c):
    return [((c["n"], c["m"]), FLOAT)]


@of("one_hot")
def _one_hot(c):
    shape, axis = list(c[0].shape), c["axis"]
    shape.insert(len(shape) + 1 + axis if axis < 0 else axis, c["numClasses"])
    return [(tuple(shape), c["onValue"].dtype)]


@of("multinomial")
def _multinomial(c):
    return [(c[0].shape[:-1] + (c["numsamples"],), INT64)]


@of("randperm")
def _randperm(c):
    return [((c["n"],), INT64)]


@of("NormalTensorTensor")
def _normal(c):
    return [(broadcast([t.shape for t in c.tensors]), promote(c.tensors))]


def _mask(n):
    """A bit per element, in blocks of 128."""
    return (-(-n // 128) * 16,), UINT8


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


@of("dropout", "dropout_v3")
def _dropout(c):
    return [like(c[0]), _mask(c[0].size)]


@of("dropout_mask")
def _dropout_mask(c):
    return [_mask(count(c["shape"]))]


# ---- reductions

def _reduced(shape, dims, keep):
    """The shape without the dimensions (all if there are none), or with size 1 in their place."""
    rank = len(shape)
    dims = {d % rank if rank else 0 for d in dims or ()} or set(range(rank))
    if keep:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def _dims(c):
    dims = c.get("dims", "dim", "axes")
    return (dims,) if isinstance(dims, int) else dims


def _keep(c):
    return c.get("keepDims", "keepDim", "keepdim")


def _shape(c):
    return _reduced(c[0].shape, _dims(c), _keep(c))


@of("sum", "nansum", "mean", "product", "product_dim", "vector_norm", "cumsum", "cumprod")
def _of_dtype(c):
    dtype, own = c["dtype"], c[0].dtype
    if dtype is None or dtype == -1:            # ACL_DT_UNDEFINED
        if c.op.family in ("mean", "vector_norm"):
            dtype = floating(own if c.op.family == "mean" else real(own))
        else:
            dtype = INT64 if own.kind in "biu" else own
    shape = c[0].shape if c.op.family.startswith("cum") else () if c.op.family == "product" else _shape(c)
    return [(shape, dtypes.of(dtype))]


@of("reduce_noop")
def _noop(c):
    stays = c.get("noopWithEmptyAxes", "noopWithEmptyDims") and not _dims(c)
    dtype = FLOAT if c[0].dtype is BOOL and c.op.name == "MeanV2" else c[0].dtype   # a mean of BOOL is a number
    return [(c[0].shape if stays else _shape(c), dtype)]


@of("reduce_order")
def _order(c):
    dtype = c[0].dtype
    if c.op.variant in ("REDUCE_ORDER_ANY", "REDUCE_ORDER_ALL"):
        dtype = UINT8 if dtype is UINT8 else BOOL
    elif c.op.variant == "REDUCE_ORDER_LOG_SUM_EXP":
        dtype = floating(dtype)
    return [(_shape(c), dtype)]


@of("variance", "variance_unbiased", "variance_mean", "norm", "min_max", "min_max_dim")
def _same_dtype(c):
    dtype = c[0].dtype if c.op.family.startswith("min_max") else floating(real(c[0].dtype))
    return [(_shape(c), dtype)] * len(c.op.outputs)


@of("trace")
def _trace(c):
    return [((), INT64 if c[0].dtype.kind in "biu" else c[0].dtype)]


@of("max_all", "median", "min_max_all")
def _whole(c):
    return [((), c[0].dtype)] * len(c.op.outputs)


@of("arg_max")
def _arg(c):
    return [(_shape(c), INT64)]


@of("max_dim", "median_dim", "kth")
def _with_indices(c):
    return [(_shape(c), c[0].dtype), (_shape(c), INT64)]


@of("topk")
def _topk(c):
    shape = list(c[0].shape)
    if shape:
        shape[c["dim"]] = c["k"]
    return [(tuple(shape), c[0].dtype), (tuple(shape), INT64)]


@of("pdist")
def _pdist(c):
    n = c[0].shape[0]
    return [((n * (n - 1) // 2,), c[0].dtype)]


@of("equal")
def _equal(c):
    return [((1,), BOOL)]


@of("is_in_scalar_tensor")
def _is_in(c):
    return [((), BOOL)]


# ---- losses

@of("loss")
def _loss(c):
    pair = [c[0], c[1]]
    shape = broadcast([t.shape for t in pair])
    return [(shape if c["reduction"] == 0 else (), promote(pair))]


@of("loss_backward")
def _loss_backward(c):
    first = [c[0], c[1], c[2]]
    return [(broadcast([t.shape for t in first]), promote(first))]


@of("nll_loss")
def _nll(c):
    return [(c[1].shape if c["reduction"] == 0 else (), c[0].dtype), ((), c[0].dtype)]


@of("cross_entropy")
def _cross_entropy(c):
    n, dtype = c[0].shape[0], c[0].dtype
    return [((n,) if c["reductionOptional"] == b"none" else (1,), dtype), like(c[0]), ((1,), dtype), ((n,), dtype)]


@of("softmax_cross_entropy")
def _softmax_cross_entropy(c):
    return [(c[0].shape[:1], c[0].dtype), like(c[0])]


@of("multilabel")
def _multilabel(c):
    return [(c[0].shape[:-1] if c["reduction"] == 0 else (), c[0].dtype), like(c[1], c[0].dtype)]


@of("CtcLoss")
def _ctc(c):
    x, longest = c[0].shape, max(c["targetlengths"], default=0)
    batch = x[1] if len(x) == 3 else 1
    return [(x[1:-1], c[0].dtype), ((batch, x[0], -(-(2 * longest + 1) // 8) * 8), c[0].dtype)]


# ---- normalisation

def _row_statistics(shape, rank):
    """The shape of a statistic over the last dimensions."""
    return shape[:len(shape) - rank] + (1,) * rank, FLOAT


@of("layer_norm")
def _layer_norm(c):
    statistic = _row_statistics(c[0].shape, len(c["normalizedShape"]))
    return [like(c[0]), statistic, statistic]


@of("rms_norm")
def _rms_norm(c):
    return [like(c[0]), _row_statistics(c[0].shape, len(c["gamma"].shape))]


@of("add_rms_norm")
def _add_rms_norm(c):
    statistic = _row_statistics(c[0].shape, len(c["gamma"].shape))
    if len(c.op.outputs) == 1:
        return [statistic]
    first = [like(c[0], FLOAT)] if c.op.variant == "ADD_RMS_NORM_CAST" else []
    return first + [like(c[0]), statistic, like(c[0])]


@of("rms_norm_quant_v3")
def _rms_norm_quant_v3(c):
    x = c[0]
    return [like(x, INT8), (x.shape[:-1] + (1,), FLOAT)]


@of("add_rms_norm_quant")
def _add_rms_norm_quant(c):
    return [like(c[0], INT8), like(c[0], INT8), like(c[0]), like(c[0])][:len(c.op.outputs)]


@of("add_rms_norm_dynamic_quant")
def _add_rms_norm_dynamic(c):
    x, mask = c[0], c.get("outputMask") or (True, c["smoothScale2Optional"] is not None)
    y = [like(x, INT8) if m else ((1,), INT8) for m in mask]
    scale = [(x.shape[:-1], FLOAT) if m else ((1,), FLOAT) for m in mask]
    return [*y, like(x), *scale]


@of("add_layer_norm")
def _add_layer_norm(c):
    dtype = promote([c[0], c[1]])
    statistic = _row_statistics(c[0].shape, len(c["gamma"].shape))
    return [like(c[0], dtype), statistic, statistic, like(c[0], dtype)]


@of("deep_norm")
def _deep_norm(c):
    statistic = _row_statistics(c[0].shape, len(c["gamma"].shape))
    return [statistic, statistic, like(c[0])]


@of("layer_norm_backward")
def _layer_norm_backward(c):
    weight = (tuple(c["normalizedShape"]), _dtype_of(c["weightOptional"], c[1]))
    return masked(c["outputMask"], [like(c[1]), weight, weight])


def _dtype_of(tensor, other):
    return (other if tensor is None else tensor).dtype


def masked(mask, outputs):
    return [o if m else None for o, m in zip(outputs, mask)]


@of("group_norm", "group_norm_silu", "group_norm_swish")
def _group_norm(c):
    groups = (c[0].shape[0], c.get("group", "numGroups"))
    return [like(c[0]), (groups, c[0].dtype), (groups, c[0].dtype)]


@of("instance_norm")
def _instance_norm(c):
    kept = (0, 3) if c["dataFormat"] == b"NHWC" else (0, 1)
    shape = tuple(n if d in kept else 1 for d, n in enumerate(c[0].shape))
    return [like(c[0]), (shape, c[0].dtype), (shape, c[0].dtype)]


@of("group_norm_backward")
def _group_norm_backward(c):
    weight = ((c["C"],), _dtype_of(c["gamma"], c[1]))
    return masked(c["outputMask"], [like(c[1]), weight, weight])


def _channels(c, n):
    return [((c[0].shape[1],), FLOAT)] * n


@of("batch_norm")
def _batch_norm(c):
    return [like(c[0])] + (_channels(c, 2) if c["training"] else [((0,), FLOAT)] * 2)


@of("batch_norm_backward")
def _batch_norm_backward(c):
    return masked(c["outputMask"], [like(c[1])] + _channels(c, 2))


@of("batch_norm_stats", "batch_norm_gather_stats")
def _batch_norm_stats(c):
    return _channels(c, 2)


@of("batch_norm_reduce_backward")
def _batch_norm_reduce_backward(c):
    return masked((c["inputG"], c["inputG"], c["weightG"], c["biasG"]), _channels(c, 4))


@of("fused_cell_grad")
def _fused_cell_grad(c):
    storage = c["storage"]
    return [like(storage), like(c["cx"]), ((storage.shape[1],), storage.dtype) if c["hasBias"] else None]


@of("attention_update")
def _attention_update(c):
    return [like(c["localOut"][0]), like(c["lse"][0]) if c["updateType"] else None]


@of("bidirection_lstm")
def _bidirection_lstm(c):
    hidden = c["initH"].shape[2] * (2 if c["bidirection"] else 1)
    return [(c[0].shape[:-1] + (hidden,), c[0].dtype), like(c["initH"]), like(c["initC"])]


def _network_sizes(c):
    """The sizes of LSTM's operands: steps, batch, directions and hidden size."""
    shape, sizes = c["input"].shape, c.get("batchSizes", "batchSizesOptional")
    directions, hidden = 2 if c["bidirectional"] else 1, c["params"][0].shape[0] // 4
    if sizes is not None and len(shape) == 2:
        return sizes.shape[0], shape[0] // max(sizes.shape[0], 1), directions, hidden
    return *(reversed(shape[:2]) if c["batchFirst"] else shape[:2]), directions, hidden


@of("lstm_network")
def _lstm_network(c):
    steps, batch, directions, hidden = _network_sizes(c)
    dtype, layers = c["input"].dtype, c["numLayers"] * directions
    y = (batch, steps) if c["batchFirst"] else (steps, batch)
    saved = [((steps, batch, hidden), dtype)] * layers if c["train"] else None
    return [((*y, directions * hidden), dtype)] + [((layers, batch, hidden), dtype)] * 2 + [saved] * 7


@of("lstm_network_grad")
def _lstm_network_grad(c):
    return [like(c["input"]), like(c["hx"][0]), like(c["hx"][1]), [like(p) for p in c["params"]]]


@of("bn_reduce")
def _batch_norm_reduce(c):
    return _channels(c, 2)


@of("sync_gather")
def _batch_norm_gather_sums(c):
    return [((c[0].shape[1],), c[0].dtype)] * 2


@of("coalesce_sparse")
def _coalesce_sparse(c):
    return [((c["newValuesOut"].shape[0],) + c["indices"].shape[1:], c["indices"].dtype)]


@of("mla_prolog")
def _mla_prolog(c):
    tokens, (heads, _, wide) = c["tokenX"].shape[:-1], c["weightUk"].shape
    rope, bf16 = c["ropeSin"].shape[-1], c["ropeSin"].dtype
    quantised = c["tokenX"].dtype is INT8 and c["kvCacheRef"].dtype is INT8
    out = [((*tokens, heads, wide), INT8 if quantised else bf16), ((*tokens, heads, rope), bf16)]
    return out + [((math.prod(tokens), heads, 1), FLOAT) if quantised else None][:len(c.op.outputs) - 2]


@of("kv_norm_rope")
def _kv_norm_rope(c):
    if not c["isOutputKv"]:
        return [None, None]
    kv, cos, v = c["kv"], c["cos"].shape[-1], c.get("vOptional")
    wide = kv.shape[-1] if v is not None else cos
    value = c["gamma"].shape[0] if v is None else v.shape[-1]
    return [((*kv.shape[:-1], n), kv.dtype) for n in (wide, value)]


@of("qkv_norm_rope")
def _qkv_norm_rope(c):
    return [None, None, None]


@of("dequant_rope")
def _dequant_rope(c):
    lead, d, kind = c["x"].shape[:-1], c["kCacheRef"].shape[3], c["cos"].dtype
    heads = [n // d for n in c["sizeSplits"]]
    return [((*lead, n, d), kind) if i == 0 or c["kvOutput"] else None for i, n in enumerate(heads)]


@of("lightning_indexer")
def _lightning_indexer(c):
    shape = (*c["query"].shape[:-2], c["key"].shape[-2], c["sparseCount"])
    return [(shape, INT32), (shape, c["query"].dtype) if c["returnValues"] else None]


@of("sparse_attention")
def _sparse_attention(c):
    query, kv_heads = c["query"], c["key"].shape[-2]
    *lead, rows, heads, _ = query.shape
    softmax = ((*lead, kv_heads, rows, heads // kv_heads), FLOAT) if c["returnSoftmaxLse"] else None
    return [like(query), softmax, softmax]
