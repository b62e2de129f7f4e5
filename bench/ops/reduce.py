# SPDX-License-Identifier: Apache-2.0
"""Reductions and scans: pooling, statistics, gradients of biases, sampling from logits."""
import torch

from dtypes import BF16, F16, F32, I64
from run import case, size

# Layer, dtype, shape and the dimensions that are reduced.
POOLED = (("ResNet-50 global pooling", F32, (1, 2048, 49), (2,)), ("ResNet-50 global pooling, batch 8", F32,
                                                                   (8, 2048, 49), (2,)),
          ("EfficientNet-B0 squeeze", F32, (1, 672, 14, 14), (2, 3)),
          ("MobileNetV3-L squeeze, batch 8", F32, (8, 480, 14, 14), (2, 3)),
          ("ConvNeXt-T global pooling", F32, (1, 768, 7, 7), (2, 3)),
          ("ViT-B/16 mean of tokens", F32, (1, 196, 768), (1,)),
          ("Sentence-BERT mean of tokens", F32, (8, 128, 768), (1,)), ("Llama-3-8B mean square, 512 tokens", F32,
                                                                      (512, 4096), (1,)),
          ("ResNet-50 global pooling, batch 8", F16, (8, 2048, 49), (2,)))
SUMMED = (("BERT-base bias gradient", F32, (1024, 768), (0,)), ("BERT-base mlp bias gradient", F32, (1024, 3072), (0,)),
          ("ViT-B/16 position gradient", F32, (8, 197, 768), (0,)),
          ("ResNet-18 layer2 bias gradient", F32, (8, 128, 28, 28), (0, 2, 3)),
          ("Llama-3-8B bias gradient", BF16, (512, 4096), (0,)), ("GPT-2 attention check", F32, (12 * 256, 256), (1,)),
          ("MoE of Mixtral-8x7B, gate sums", F32, (512, 8), (1,)), ("Adam of BERT-base, square sum", F32, (3072, 768),
                                                                    (0, 1)))
LARGEST = (("ImageNet classes, batch 8", F32, (8, 1000), (1,)), ("GPT-2 vocabulary, one token", F32, (1, 50257), (1,)),
           ("Llama-3-8B vocabulary, one token", F32, (1, 128256), (1,)), ("U-Net classes", F32, (21, 512 * 512), (0,)),
           ("YOLOv8n classes", F32, (80, 8400), (0,)), ("PointNet max pooling", F32, (8, 1024, 1024), (2,)),
           ("Llama-3-8B vocabulary, one token", BF16, (1, 128256), (1,)))


def each(b, rows, call):
    """call(x, t, dims, out) returns (operator, arguments, the peer's function)."""
    for layer, d, shape, dims in rows:
        x, out = b.random(d, shape), tuple(n for i, n in enumerate(shape) if i not in dims)
        op, args, peer = call(x, b.torch(x), dims, out)
        b.compare(f"{d} {size(shape)} along {','.join(map(str, dims))}", op, args, peer, layer=layer,
                  bytes=d.size * x.size)


@case("Mean", goal=1.0)
def mean(b):
    each(b, POOLED, lambda x, t, dims, out: ("aclnnMean", [x, b.acl.Ints(*dims), False, x.dtype, b.empty(x.dtype, out)],
                                             lambda: torch.mean(t, dims)))


@case("ReduceSum", goal=1.0)
def sums(b):
    each(b, SUMMED, lambda x, t, dims, out: ("aclnnReduceSum",
                                             [x, b.acl.Ints(*dims), False, x.dtype, b.empty(x.dtype, out)],
                                             lambda: torch.sum(t, dims)))


@case("Amax", goal=1.0)
def amax(b):
    each(b, LARGEST, lambda x, t, dims, out: ("aclnnAmax", [x, b.acl.Ints(*dims), False, b.empty(x.dtype, out)],
                                              lambda: torch.amax(t, dims)))


@case("ArgMax", goal=1.0)
def argmax(b):
    each(b, LARGEST, lambda x, t, dims, out: ("aclnnArgMax", [x, dims[0], False, b.empty(I64, out)],
                                              lambda: torch.argmax(t, dims[0])))


@case("MaxDim", goal=1.0)
def max_dim(b):
    each(b, LARGEST[:6], lambda x, t, dims, out: ("aclnnMaxDim",
                                                  [x, dims[0], False, b.empty(x.dtype, out), b.empty(I64, out)],
                                                  lambda: torch.max(t, dims[0])))


@case("Var", goal=1.0)
def var(b):
    rows = (("ViT-B/16 statistics", F32, (197, 768), (1,)), ("ResNet-50 layer2 statistics", F32, (8, 128, 28, 28),
                                                             (0, 2, 3)),
            ("AdaIN of style transfer, relu4_1", F32, (1, 512, 64, 64), (2, 3)))
    each(b, rows, lambda x, t, dims, out: ("aclnnVarCorrection",
                                           [x, b.acl.Ints(*dims), 1, False, b.empty(x.dtype, out)],
                                           lambda: torch.var(t, dims)))


@case("Norm", goal=1.0)
def norm(b):
    rows = (("CLIP ViT-B/32 embeddings", F32, (64, 512), (1,)), ("FaceNet embeddings", F32, (256, 128), (1,)),
            ("BERT-base gradient, mlp weight", F32, (3072, 768), (0, 1)))
    each(b, rows, lambda x, t, dims, out: ("aclnnNorm",
                                           [x, b.acl.Scalar(2.0, F32), b.acl.Ints(*dims), False, b.empty(x.dtype, out)],
                                           lambda: torch.linalg.vector_norm(t, 2, dims)))


@case("LogSumExp", goal=1.0)
def log_sum_exp(b):
    rows = (("GPT-2 vocabulary, 64 tokens", F32, (64, 50257), (1,)), ("CRF of BiLSTM, 32 sentences", F32, (32, 19, 19),
                                                                     (1,)))
    each(b, rows, lambda x, t, dims, out: ("aclnnLogSumExp", [x, b.acl.Ints(*dims), False, b.empty(x.dtype, out)],
                                           lambda: torch.logsumexp(t, dims)))


@case("Cumsum", goal=1.0)
def cumsum(b):
    rows = (("Llama-3-8B top-p", F32, (1, 128256), (1,)), ("Mamba-130M steps", F32, (1536, 512), (1,)),
            ("Mixtral-8x7B slots of experts", F32, (1024, 8), (0,)), ("DETR sine positions", F32, (1, 25, 34), (1,)))
    each(b, rows, lambda x, t, dims, out: ("aclnnCumsum", [x, dims[0], x.dtype, b.empty(x.dtype, x.shape)],
                                           lambda: torch.cumsum(t, dims[0])))
