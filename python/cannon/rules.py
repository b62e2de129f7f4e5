# SPDX-License-Identifier: Apache-2.0
"""The rules of infer.py: shapes and dtypes of the outputs, by families of ops/*.ops or by operators.

A rule takes a Call and returns (shape, dtype) per output, in the order of the schema. Data-dependent sizes are the
largest possible ones.
"""
from . import dtypes
from .infer import BOOL, DOUBLE, FLOAT, INT64, RULES, broadcast, floating, like, of, promote, real, unknown
from .tensor import Tensor

INT8, INT32, UINT8, HALF = (dtypes.of(n) for n in ("int8", "int32", "uint8", "float16"))

# Outputs that are like arguments. A line: families or operators, and for each output the argument's position in the
# schema (counted from 0), with a dtype behind a slash if that is another; f is float32. An argument that is None leaves
# the output out.
_LIKE = """
cholesky sinkhorn format_cast view_copy factor_of_one scale blend: 0
cdist_backward: 1
deformable_grad: 0 3 4
chamfer_backward: 0 1
trans_convolution_weight: 0/float16
softmax softmax_backward masked_softmax masked_softmax_backward gelu_v2 prelu masked_scale: 0
round_decimals bitwise_not dropout_apply cumsum_v2 flip roll channel_shuffle triangle top_k_top_p: 0
renorm rel_pos_softmax batch_norm_elemt inverse rotary index_fill index_add scatter scatter_value scatter_add: 0
index_copy scatter_nd FastGelu: 0
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
FlashAttentionUnpaddingScoreGradV2: 0 1 2 4
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


def _with_scalars(scalars, dtype):
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
    return [like(c[0], _with_scalars([c[1]], c[0].dtype))]


@of("clamp", "clamp_tensor", "add_relu", "list", "cross")
def _promoted(c):
    ins = c[0] if type(c[0]) is list else c.tensors
    scalars = [v for v, a in zip(c.values, c.op.arguments) if a.type == "Scalar" and a.name != "alpha"]
    return [(broadcast([t.shape for t in ins]), _with_scalars(scalars, promote(ins)))]


@of("addcdiv")
def _addcdiv(c):
    return [(broadcast([t.shape for t in c.tensors]), floating(promote(c.tensors)))]


@of("divide")
def _divide(c):
    dtype = _with_scalars([c[1]] if c.op.arguments[1].type == "Scalar" else [], promote(c.tensors))
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
    return [like(c[0]) if stays else (_shape(c), c[0].dtype)]


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


# ---- products

@of("matmul")
def _matmul(c):
    a, b = c[0].shape, c[1].shape
    dtype = promote([c[0], c[1]])
    if len(a) == 1 or len(b) == 1:
        lead = b[:-2] if len(a) == 1 else a[:-1]
        return [(lead + (b[-1:] if len(b) > 1 else ()), dtype)]
    return [(broadcast([a[:-2], b[:-2]]) + (a[-2], b[-1]), dtype)]


@of("addmm")
def _addmm(c):
    a, b = c[1].shape, c[2].shape
    shape = (a[-2], b[-1]) if c.op.variant != "ADDMM_BATCH" else (a[0], a[-2], b[-1])
    return [(shape, promote([c[0], c[1], c[2]]))]


@of("addmv")
def _addmv(c):
    dtype = _with_scalars([c["alpha"], c["beta"]], promote([c[0], c[1], c[2]]))
    return [(c[1].shape[:1], INT64 if dtype is BOOL else dtype)]


@of("gemm")
def _gemm(c):
    a, b = c[0].shape, c[1].shape
    return [((a[1] if c["transA"] else a[0], b[0] if c["transB"] else b[1]), c[2].dtype)]


@of("ger")
def _ger(c):
    return [(c[0].shape + c[1].shape, promote(c.tensors))]


@of("addr")
def _addr(c):
    return [(broadcast([c[0].shape, c[1].shape + c[2].shape]), promote(c.tensors))]


@of("weight_quant")
def _weight_quant(c):
    k, n = c[1].shape[-2:]
    if c[1].dtype is INT32 and k == c[0].shape[-1]:
        n *= 8                                  # 4-bit values, 8 in a word, along n rather than along k
    return [(c[0].shape[:-1] + (n,), c[0].dtype)]


def _dequantized(scale):
    return scale.dtype if scale.dtype.name == "bfloat16" else HALF


@of("quant_matmul")
def _quant_matmul(c):
    a, b = c[0].shape, c[1].shape
    left, right = c.get("transposeX1", "adjX1"), c.get("transposeX2", "adjX2")
    m, n = a[-1 if left else -2], b[-2 if right else -1]
    if c[0].dtype is INT32 and (c[0].strides[-1] == 1) == left:
        m *= 8
    if c[1].dtype is INT32 and (c[1].strides[-1] == 1) != right:
        n *= 8                                  # 4-bit values, 8 in a word along the dimension without gaps
    scale, offset = c.get("scale", "x2Scale", "deqScale"), c.get("offset", "x2Offset")
    dtype = INT8 if offset is not None else _dequantized(scale) if isinstance(scale, Tensor) else HALF
    return [(broadcast([a[:-2], b[:-2]]) + (m, n), dtype)]


@of("matmul_all_reduce")
def _matmul_all_reduce(c):
    x1, x2, residual, x3 = c[0], c[1], c.get("residual"), c.get("x3", "x3Optional")
    if residual is not None:
        return [like(residual)] * len(c.op.outputs)
    dtype = x1.dtype if x1.dtype.kind == "f" else x3.dtype if x3 is not None else _dequantized(c["dequantScale"])
    return [(x1.shape[:-1] + x2.shape[-1:], dtype)]


@of("triangular_solve")
def _triangular_solve(c):
    b, a = c[0].shape, c[1].shape
    lead = broadcast([b[:-2], a[:-2]])
    return [(lead + b[-2:], c[0].dtype), (lead + a[-2:], c[1].dtype)]


@of("qr")
def _qr(c):
    m, n = c[0].shape[-2:]
    k, lead, dtype = min(m, n), c[0].shape[:-2], c[0].dtype
    mode = c["mode"] if c.op.variant == "QR_MODE" else int(not c["some"])
    if mode == 2:
        return [((0,), dtype), (lead + (k, n), dtype)]
    return [(lead + (m, k if mode == 0 else m), dtype), (lead + (k if mode == 0 else m, n), dtype)]


@of("slogdet", "logdet")
def _slogdet(c):
    return [(c[0].shape[:-2], c[0].dtype)] * len(c.op.outputs)


# ---- mixture of experts

@of("moe_permute")
def _moe_permute(c):
    total, wanted = c[1].size, c["numOutTokens"]
    rows = min(wanted, total) if wanted > 0 else total + wanted
    return [((rows,) + c[0].shape[1:], c[0].dtype), ((total,), INT32)]


@of("moe_permute_grad")
def _moe_permute_grad(c):
    return [((c[1].size // c["numTopk"],) + c[0].shape[1:], c[0].dtype)]


@of("moe_unpermute")
def _moe_unpermute(c):
    probabilities = c["probsOptional"]
    rows = c[1].size if probabilities is None else probabilities.shape[0]
    return [((rows,) + c[0].shape[1:], c[0].dtype)]


@of("moe_init_routing")
def _moe_init_routing(c):
    (n, width), k = c[0].shape, c[1].shape[1]
    return [((min(n, c["activeNum"]) * k, width), c[0].dtype), ((n * k,), INT32), ((n * k,), INT32)]


@of("moe_init_routing_v2")
def _moe_init_routing_v2(c):
    (n, width), k = c[0].shape, c[1].shape[1]
    quantises = c.op.name == "MoeInitRoutingQuantV2"
    active, capacity, experts, drops, flag, before = (
        c.get(name, name + "Optional") for name in
        ("activeNum", "expertCapacity", "expertNum", "dropPadMode", "expertTokensCountOrCumsumFlag",
         "expertTokensBeforeCapacityFlag"))
    rows = experts * capacity if drops else min(active, n * k) if active else n * k
    shape = (experts, capacity, width) if drops else (rows, width)
    counts = ((experts,), INT32)
    outs = [(shape, INT8 if quantises else c[0].dtype), ((n * k,), INT32),
            counts if flag and not drops else None, counts if before and drops else None]
    return outs + ([((rows,), FLOAT) if c["quantMode"] else None] if quantises else [])


@of("moe_init_routing_v3")
def _moe_init_routing_v3(c):
    (n, width), k, active, quantises = c[0].shape, c[1].shape[1], c["activeNum"], c["quantMode"] == 1
    rows, experts = min(active, n * k) if active > 0 else n * k, c["expertNum"]
    begin, end = c["activeExpertRangeOptional"] or (0, experts)
    counts = (experts, 2) if c["expertTokensNumType"] == 2 else (end - begin,)
    scaled = quantises or c["scaleOptional"] is not None
    return [((rows, width), INT8 if quantises else c[0].dtype), ((n * k,), INT32),
            (counts, INT64) if c["expertTokensNumFlag"] else None, ((rows,), FLOAT) if scaled else None]


@of("moe_init_routing_grad")
def _moe_init_routing_grad(c):
    return [((c[1].size // c["topK"], c[0].shape[-1]), c[0].dtype)]


@of("MoeFinalizeRoutingV2Grad")
def _moe_finalize_grad(c):
    slots, active, scales = c[1].size, c["activeNum"], c["scalesOptional"]
    rows = (c["expertNum"], c["expertCapacity"]) if c["dropPadMode"] else \
        (active if 0 < active < slots else slots,)
    return [(rows + (c[0].shape[1],), c[0].dtype), like(scales) if scales is not None else None]


@of("MoeGatingTopKSoftmaxV2")
def _moe_gating_v2(c):
    shape, flag = c[0].shape[:-1] + (c["k"],), c["outputSoftmaxResultFlag"] and not c["renorm"]
    return [(shape, c[0].dtype), (shape, INT32), like(c[0], FLOAT) if flag else None]


@of("moe_expert_tokens")
def _moe_expert_tokens(c):
    return [((c["numExperts"],), INT32)]


@of("moe_gating_softmax", "moe_gating_groups")
def _moe_gating(c):
    shape = c[0].shape[:-1] + (c["k"],)
    last = (shape, INT32) if c.op.family == "moe_gating_softmax" else like(c[0], FLOAT) if c["outFlag"] else None
    return [(shape, c[0].dtype), (shape, INT32), last]


@of("MoeFinalizeRoutingV2")
def _moe_finalize(c):
    x1, scales = c["x1Optional"], c["scalesOptional"]
    rows = scales.shape[0] if scales is not None else c["expandedRowIdx"].size
    return [like(x1) if x1 is not None else ((rows, c[0].shape[-1]), c[0].dtype)]


def _columns(weight, depth):
    """The columns of a weight: int32 holds 8 values of 4 bits, along the columns unless its depth is packed."""
    k, n = weight.shape[-2:]
    return n * 8 if weight.dtype is INT32 and k == depth else n


def _product_dtype(x, weight, scale):
    """The dtype of products of x, where integers are scaled: words are scales of int8, unless they are those of weights
    of 4 bits."""
    if x.dtype.kind == "f":
        return x.dtype
    if weight.dtype is not INT8:
        return HALF
    if scale is None:
        return INT32
    return INT8 if scale.dtype.name in ("int64", "uint64") else _dequantized(scale)


@of("grouped_matmul")
def _grouped_matmul(c):
    x, weight, scale, ends = c[0], c[1], c["scaleOptional"], c["groupListOptional"]
    dtype = _product_dtype(x[0], weight[0], scale[0] if scale else None)
    by_depth = c.get("groupType") == 2
    packs = 8 if x[0].dtype is INT32 else 1
    columns = [_columns(w, x[0 if len(x) == 1 else i].shape[-1] * packs) for i, w in enumerate(weight)]
    if c["splitItem"] > 1:
        rows = sum(t.shape[0] for t in x)
        out = [((ends.shape[0] if isinstance(ends, Tensor) else len(ends),) if by_depth else ()) + (rows, columns[0])]
    elif by_depth:
        out = [(x[0].shape[0], n) for n in columns]
    elif len(x) == 1 and ends is not None:
        if isinstance(ends, Tensor):
            unknown(c.op, "groupListOptional is not read")
        out = [(end - begin, n) for begin, end, n in zip([0, *ends], ends, columns)]
    else:
        out = [t.shape[:-1] + (n,) for t, n in zip(x, columns)]
    return [[(shape, dtype) for shape in out]] + [None] * (len(c.op.outputs) - 1)


@of("grouped_swiglu")
def _grouped_swiglu(c):
    rows, columns = c[0].shape[0], c[1].shape[-1] // 2
    return [((rows, columns), INT8), ((rows,), FLOAT), None]


@of("bias_grad")
def _bias_grad(c):
    groups = c[0].shape[0] if c[1] is None else c[1].size
    return [((groups, c[0].shape[-1]), c[0].dtype)]


@of("ffn")
def _ffn(c):
    dtype = c[0].dtype
    return [(c[0].shape, _dequantized(c.get("deqScale1", "deqScale1Optional")) if dtype is INT8 else dtype)]


# ---- quantisation

@of("quantize")
def _quantize(c):
    return [like(c[0], dtypes.of(c["dtype"]))]


def _packed(c, shape, code):
    """A tensor of quantised values of that aclDataType: int32 holds 8 values of 4 bits."""
    if code == 29:                              # ACL_INT4
        unknown(c.op, "there are no tensors of int4; int32 packs them")
    dtype = dtypes.of(code)
    return (shape[:-1] + (shape[-1] // 8,) if dtype is INT32 else shape), dtype


@of("grouped_dequant")
def _grouped_dequant(c):
    weight = c[1].shape
    return [((c[0].shape[0], weight[-2 if c["transposeWeight"] else -1]), HALF)]


@of("flat_quant")
def _flat_quant(c):
    return [_packed(c, c[0].shape, INT32.code), (c[0].shape[:1], FLOAT)]


@of("int4_pack")
def _int4_pack(c):
    return [_packed(c, c[0].shape, INT32.code)]


@of("swiglu_quant")
def _swiglu_quant(c):
    lead = c[0].shape[:-1]
    return [(lead + (c[0].shape[-1] // 2,), INT8), (lead, FLOAT)]


@of("ascend_quant", "group_quant")
def _quantized(c):
    return [_packed(c, c[0].shape, c["dstType"])]


@of("dequant_bias")
def _dequant_bias(c):
    return [like(c[0], dtypes.of(c["outputDtype"]))]


@of("anti_quant")
def _anti_quant(c):
    shape = c[0].shape
    return [(shape[:-1] + (shape[-1] * 8,) if c[0].dtype is INT32 else shape, dtypes.of(c["dstType"]))]


@of("dynamic_quant")
def _dynamic_quant(c):
    kind = c.get("dstType")
    scale = (c[0].shape[:-1], FLOAT)
    return [_packed(c, c[0].shape, INT8.code if kind is None else kind), scale, scale][:len(c.op.outputs)]


@of("trans_quant_param")
def _trans_quant_param(c):
    return [like(c[0], dtypes.of("uint64"))]


# ---- gated units

@of("gated", "gelu_mul", "fatrelu_mul")
def _gated(c):
    shape = list(c[0].shape)
    dim = c.get("dim")
    dim = -1 if dim is None else dim
    shape[dim] //= 2
    return [(tuple(shape), c[0].dtype)] * len(c.op.outputs)


# ---- attention

@of("flash_attention")
def _flash_attention(c):
    q, k, v, layout, heads = c[0], c[1], c[2], c["inputLayout"], c["headNum"]
    width = v.shape[-1]
    if layout in (b"BSH", b"SBH"):              # the last dimension has all heads
        width = q.shape[-1] * width // k.shape[-1] if k.shape[-1] else 0
    if layout == b"TND":
        softmax = q.shape[:2] + (8,)
    else:
        batch, steps = {b"BSH": (0, 1), b"SBH": (1, 0), b"BNSD": (0, 2), b"BSND": (0, 1)}[layout]
        softmax = (q.shape[batch], heads, q.shape[steps], 8)
    return [(softmax, FLOAT), (softmax, FLOAT), ((0,), q.dtype), (q.shape[:-1] + (width,), q.dtype)]


@of("infer_attention")
def _infer_attention(c):
    q, layout = c[0], c["inputLayout"]
    shape = q.shape
    if layout == b"BNSD_BSND":
        shape = (shape[0], shape[2], shape[1], shape[3])
    dtype = INT8 if c.get("quantScale2", "quantScale2Optional") is not None else q.dtype
    if dtype.kind == "i" and c.get("quantScale2", "quantScale2Optional") is None:
        dtype = HALF
    outputs = [(shape, dtype)]
    if len(c.op.outputs) > 1:
        batch, steps = {b"BSH": (0, 1), b"BNSD": (0, 2), b"BNSD_BSND": (0, 2), b"BSND": (0, 1)}.get(layout, (0, 1))
        lse = (q.shape[batch], c["numHeads"], q.shape[steps], 1)
        if layout == b"TND":
            lse = (q.shape[0], c["numHeads"], 1)
        outputs.append((lse, FLOAT) if c["softmaxLseFlag"] else None)
    return outputs


@of("bias_rescale_qkv")
def _bias_rescale(c):
    batch, steps, width = c[0].shape
    return [((batch, c["numHeads"], steps, width // 3 // c["numHeads"]), c[0].dtype)] * 3


@of("foreach_norm")
def _foreach_norm(c):
    return [[((), t.dtype) for t in c[0]]]


# ---- Fourier transforms

@of("rfft")
def _rfft(c):
    shape, n = list(c[0].shape), c["n"]
    shape[c["dim"]] = (shape[c["dim"]] if n == -1 else n) // 2 + 1
    return [(tuple(shape) + (2,), c[0].dtype)]


@of("stft")
def _stft(c):
    n, hop = c["nFft"], c["hopLength"] or c["nFft"] // 4
    rows = n // 2 + 1 if c["onesided"] else n
    shape = c[0].shape[:-1] + (rows, (c[0].shape[-1] - n) // hop + 1)
    part = real(c[0].dtype)
    if not c["returnComplex"]:
        return [(shape + (2,), part)]
    return [(shape, dtypes.of("complex128") if part.size == 8 else dtypes.of("complex64"))]
