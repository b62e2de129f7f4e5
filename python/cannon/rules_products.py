# SPDX-License-Identifier: Apache-2.0
"""The rules of rules.py for products, for what is built of them (mixtures of experts, quantised layers, attention), and
for Fourier transforms."""
from . import dtypes
from .infer import BOOL, FLOAT, INT64, broadcast, like, of, promote, real, unknown
from .rules import HALF, INT32, INT8, with_scalars
from .tensor import Tensor


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


@of("transpose_batch_matmul")
def _transpose_batch_matmul(c):
    x1, x2 = ([t.shape[d] for d in order or (0, 1, 2)] for t, order in ((c[0], c["permX1"]), (c[1], c["permX2"])))
    batch, rows, columns, groups = x1[0], x1[1], x2[2], c["batchSplitFactor"]
    return [((groups, rows, batch // groups * columns) if groups > 1 else (rows, batch, columns), c[0].dtype)]


@of("addmv")
def _addmv(c):
    dtype = with_scalars([c["alpha"], c["beta"]], promote([c[0], c[1], c[2]]))
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


@of("product_quant")
def _product_quant(c):
    m, n = c[0].shape[-1 if c["transposeX1"] else -2], c[1].shape[-2 if c["transposeX2"] else -1]
    return [((m, n), INT8)]


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


@of("moe_map_permute")
def _moe_map_permute(c):
    parts = c["routingMap"].shape[1 if c["dropAndPad"] else 0]
    rows, probabilities = c["numOutTokens"] // parts * parts if parts else 0, c["probsOptional"]
    return [((rows,) + c[0].shape[1:], c[0].dtype),
            ((rows,), probabilities.dtype) if probabilities is not None else None, ((rows,), INT32)]


@of("moe_map_permute_grad")
def _moe_map_permute_grad(c):
    n, probabilities = c["tokens_num"], c["permutedProbsOutputGradOptional"]
    return [((n,) + c[0].shape[1:], c[0].dtype),
            ((n, c["experts_num"]), probabilities.dtype) if probabilities is not None else None]


@of("moe_map_unpermute")
def _moe_map_unpermute(c):
    rows, probabilities, shape = c[0].shape[0], c["probsOptional"], c["restoreShapeOptional"]
    if shape is None:
        of = probabilities if probabilities is not None else c["routingMapOptional"]
        if of is None:
            unknown(c.op, "restoreShapeOptional is None, which has the number of tokens")
        shape = of.shape[:1] + c[0].shape[1:]
    return [(tuple(shape), c[0].dtype), ((rows,), INT32), ((rows,), INT32),
            ((rows,), probabilities.dtype) if probabilities is not None else None]


@of("moe_map_unpermute_grad")
def _moe_map_unpermute_grad(c):
    probabilities = c["probsOptional"]
    return [(c["outIndex"].shape + c[0].shape[1:], c[0].dtype),
            like(probabilities) if probabilities is not None else None]


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


@of("moe_update_expert")
def _moe_update_expert(c):
    return [like(c[0]), (c[0].shape, BOOL)]


@of("moe_re_routing")
def _moe_re_routing(c):
    rows, experts, scales = c[0].shape[0], c[1].shape[1], c["perTokenScalesOptional"]
    return [like(c[0]), like(scales) if scales is not None else None, ((rows,), INT32), ((experts,), c[1].dtype)]


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


@of("grouped_all_reduce")
def _grouped_all_reduce(c):
    x, weight, ends = c[0], c[1], list(c["groupListOptional"] or ())
    shapes = [t.shape[:-1] for t in x]
    if c["splitItem"] & 1:                      # x is one tensor; ends or sizes of the groups
        are_ends = ends == sorted(ends) and ends[-1:] == [x[0].shape[0]]
        shapes = [(end - begin,) for begin, end in zip([0, *ends], ends)] if are_ends else [(n,) for n in ends]
    shapes = [shape + (w.shape[1],) for shape, w in zip(shapes, weight)]
    if c["splitItem"] & 2:                      # y is one tensor
        shapes = [(sum(shape[0] for shape in shapes), shapes[0][1])]
    return [[(shape, x[0].dtype) for shape in shapes]]


@of("grouped_swiglu")
def _grouped_swiglu(c):
    rows, columns = c[0].shape[0], c[1].shape[-1] // 2
    return [((rows, columns), INT8), ((rows,), FLOAT), None]


@of("grouped_swiglu_v2")
def _grouped_swiglu_v2(c):
    rows, columns = c[0].shape[0], c[1][0].shape[-1] // 2
    return [((rows, columns), INT8), ((rows,), FLOAT)]


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
    lead, shape = c[0].shape[:-1], c[0].shape[:-1] + (c[0].shape[-1] // 2,)
    if c.get("dstType") == 29:                  # int4, two in a byte
        shape = lead + (c[0].shape[-1] // 4,)
    return [(shape, INT8), (lead, FLOAT)]


@of("dynamic_block_quant")
def _dynamic_block_quant(c):
    *lead, rows, cols = c[0].shape
    return [like(c[0], INT8), ((*lead, -(-rows // c["rowBlockSize"]), -(-cols // c["colBlockSize"])), FLOAT)]


@of("gelu_quant")
def _gelu_quant(c):
    return [like(c[0], INT8), (c[0].shape[:-1], FLOAT) if c["quantMode"] == b"dynamic" else None]


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
    kind, mode, shape = c.get("dstType"), c.get("quantMode") or b"pertoken", c[0].shape
    scale = ({b"pertoken": shape[:-1], b"pertensor": (1,), b"perchannel": shape[:-2] + shape[-1:]}[mode], FLOAT)
    offset = None if c.get("isSymmetrical") else scale
    return [_packed(c, shape, INT8.code if kind is None else kind), scale, offset][:len(c.op.outputs)]


@of("trans_quant_param")
def _trans_quant_param(c):
    return [like(c[0], dtypes.of("uint64"))]


# ---- gated units

@of("clipped_swiglu")
def _clipped_swiglu(c):
    shape, dim = list(c[0].shape), c["dim"]
    shape[dim] //= 2
    return [(tuple(shape), c[0].dtype)]


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
    q, k, v, layout, heads = c["query"], c["key"], c["value"], c["inputLayout"], c["headNum"]
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
    q, heads, (layout, *other) = c[0], c["numHeads"], c["inputLayout"].decode().split("_")
    sizes = dict(zip(layout, q.shape), N=heads)
    sizes.setdefault("D", sizes.get("H", 0) // heads if heads else 0)
    sizes["H"] = heads * sizes["D"]
    shape = tuple(sizes.get(x, 0) for x in (other or [layout])[0])
    dtype = INT8 if c.get("quantScale2", "quantScale2Optional") is not None else q.dtype
    if dtype.kind == "i" and c.get("quantScale2", "quantScale2Optional") is None:
        dtype = HALF
    outputs = [(shape, dtype)]
    if len(c.op.outputs) > 1:
        lse = tuple(sizes.get(x, 0) for x in ("TN" if "T" in layout else "BNS")) + (1,)
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
