# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators: activations of models, sums with residuals, biases and masks, steps of an optimiser."""
import torch

from dtypes import BF16, BOOL, F16, F32
from run import case, size

aten = torch.ops.aten

RESNET = (("ResNet-50 conv1", F32, (1, 64, 112, 112)), ("ResNet-50 layer1 conv3", F32, (1, 256, 56, 56)),
          ("ResNet-50 layer4 conv3", F32, (1, 2048, 7, 7)), ("ResNet-50 layer2, batch 8", F32, (8, 128, 28, 28)))
MLP = (("ViT-B/16 mlp", F32, (1, 197, 3072)), ("BERT-base intermediate", F32, (1, 128, 3072)),
       ("Whisper-base encoder mlp", F32, (1, 1500, 2048)), ("BERT-base intermediate", BF16, (8, 128, 3072)),
       ("ViT-B/16 mlp", F16, (1, 197, 3072)))
LLAMA = (("Llama-3-8B mlp, one token", F32, (1, 14336)), ("Llama-3-8B mlp, one token", F16, (1, 14336)),
         ("Llama-3-8B mlp, 512 tokens", BF16, (512, 14336)))
YOLO = (("YOLOv8n stem", F32, (1, 16, 320, 320)), ("YOLOv8n backbone stage 3", F32, (1, 64, 80, 80)),
        ("YOLOv8n SPPF", F32, (1, 256, 20, 20)))
MOBILE = (("MobileNetV3-L stem", F32, (1, 16, 112, 112)), ("MobileNetV3-L block 7", F32, (1, 240, 14, 14)),
          ("MobileNetV3-L head", F32, (1, 1280)))
DIFFUSION = (("Stable Diffusion U-Net down 1", F32, (2, 320, 64, 64)),
             ("Stable Diffusion U-Net down 3", F16, (2, 1280, 16, 16)))
ROTARY = (("Llama-3-8B rotary angles, 4096 positions", F32, (4096, 64)),
          ("U-Net of DDPM, time embedding", F32, (64, 128)))


def unary(name, goal, function, rows, extra=(), low=-2, high=2):
    """Registers a case for aclnn<name>."""
    @case(name, goal)
    def run(b):
        for layer, d, shape in rows:
            x = b.random(d, shape, low, high)
            out = torch.empty_like(t := b.torch(x))
            b.compare(f"{d} {size(shape)}", "aclnn" + name, [x, *extra, b.empty(d, shape)],
                      lambda: function(t, out), layer=layer, bytes=2 * d.size * x.size)


unary("Relu", 1.0, lambda t, out: torch.clamp_min(t, 0, out=out), RESNET)
unary("GeluV2", 1.0, lambda t, out: aten.gelu.out(t, out=out), MLP, extra=(0,))
unary("Gelu", 0.6, lambda t, out: aten.gelu.out(t, approximate="tanh", out=out),
      (("GPT-2 mlp, 1024 tokens", F32, (1024, 3072)), ("GPT-2 mlp, one token", F32, (1, 3072)),
       ("GPT-2 mlp, 1024 tokens", BF16, (1024, 3072))))
unary("Silu", 1.0, lambda t, out: aten.silu.out(t, out=out), LLAMA + YOLO + DIFFUSION)
unary("Sigmoid", 1.0, lambda t, out: torch.sigmoid(t, out=out),
      (("YOLOv8n classes", F32, (1, 80, 8400)), ("EfficientNet-B0 squeeze", F32, (1, 672, 1, 1)),
       ("LSTM of DeepSpeech 2, gates", F32, (32, 2400))))
unary("Hardswish", 1.0, lambda t, out: aten.hardswish.out(t, out=out), MOBILE)
unary("Hardsigmoid", 1.0, lambda t, out: aten.hardsigmoid.out(t, out=out),
      (("MobileNetV3-L squeeze", F32, (1, 672, 1, 1)), ("MobileNetV3-L squeeze, batch 32", F32, (32, 960, 1, 1))))
unary("Mish", 1.0, lambda t, out: aten.mish.out(t, out=out), (("YOLOv4 stem", F32, (1, 32, 608, 608)),
                                                              ("YOLOv4 stage 4", F32, (1, 512, 38, 38))))
unary("Tanh", 1.0, lambda t, out: torch.tanh(t, out=out),
      (("BERT-base pooler", F32, (8, 768)), ("DCGAN generator", F32, (16, 3, 64, 64)),
       ("LSTM of DeepSpeech 2, cell", F32, (32, 800))))
unary("Exp", 1.0, lambda t, out: torch.exp(t, out=out),
      (("SSD300 box sizes", F32, (1, 8732, 2)), ("VAE of Stable Diffusion, deviations", F32, (1, 4, 64, 64)),
       ("Mamba-130M steps", F32, (512, 1536, 16))))
unary("Log", 1.0, lambda t, out: torch.log(t, out=out),
      (("Whisper log-mel spectrogram", F32, (80, 3000)), ("Mask R-CNN box targets", F32, (1, 2000, 4))), low=0.01,
      high=9)
unary("Sin", 1.0, lambda t, out: torch.sin(t, out=out), ROTARY, low=-100, high=100)
unary("Cos", 1.0, lambda t, out: torch.cos(t, out=out), ROTARY, low=-100, high=100)
unary("Erf", 1.0, lambda t, out: torch.erf(t, out=out), (("BERT-base intermediate, unfused", F32, (1, 128, 3072)),))
unary("Rsqrt", 1.0, lambda t, out: torch.rsqrt(t, out=out), (("Llama-3-8B norm, 512 tokens", F32, (512, 1)),), low=0.1)
unary("Neg", 1.0, lambda t, out: torch.neg(t, out=out), (("Llama-3-8B rotary half, 512 tokens", F32, (512, 32, 64)),
                                                         ("Llama-3-8B rotary half, one token", F16, (1, 32, 64))))

# The second operand is broadcast to the first.
ADDED = (("ViT-B/16 residual", F32, (1, 197, 768), (1, 197, 768)),
         ("ViT-B/16 positions", F32, (8, 197, 768), (197, 768)),
         ("BERT-base residual", F32, (8, 128, 768), (8, 128, 768)), ("BERT-base query bias", F32, (1024, 768), (768,)),
         ("BERT-base mask", F32, (8, 12, 128, 128), (8, 1, 1, 128)),
         ("ResNet-50 layer4 residual", F32, (1, 2048, 7, 7), (1, 2048, 7, 7)),
         ("ResNet-50 layer1 residual", F32, (1, 256, 56, 56), (1, 256, 56, 56)),
         ("ResNet-18 layer4 bias, batch 64", F32, (64, 512, 49), (512, 1)),
         ("ResNet-18 layer3 bias, batch 8", F32, (8, 256, 14, 14), (256, 1, 1)),
         ("Stable Diffusion U-Net time", F32, (2, 320, 64, 64), (2, 320, 1, 1)),
         ("Swin-T relative positions", F32, (64, 3, 49, 49), (1, 3, 49, 49)),
         ("Swin-T shifted mask", F32, (64, 3, 49, 49), (64, 1, 49, 49)),
         ("Llama-3-8B residual, one token", F16, (1, 4096), (1, 4096)),
         ("Llama-3-8B residual, 512 tokens", BF16, (512, 4096), (512, 4096)))
MULTIPLIED = (("Llama-3-8B gate, 512 tokens", BF16, (512, 14336), (512, 14336)),
              ("Llama-3-8B gate, one token", F32, (1, 14336), (1, 14336)),
              ("Llama-3-8B norm scale, 512 tokens", F32, (512, 4096), (4096,)),
              ("Llama-3-8B norm rows, 512 tokens", F32, (512, 4096), (512, 1)),
              ("EfficientNet-B0 squeeze", F32, (1, 672, 14, 14), (1, 672, 1, 1)),
              ("MobileNetV3-L squeeze", F32, (1, 960, 7, 7), (1, 960, 1, 1)),
              ("ConvNeXt-T layer scale", F32, (1, 96, 56, 56), (96, 1, 1)),
              ("ViT-B/16 dropout mask", F32, (8, 197, 768), (8, 197, 768)))


def binary(b, op, function, rows, *extra):
    for layer, d, large, small in rows:
        x, y = b.random(d, large), b.random(d, small)
        t, u = b.torch(x), b.torch(y)
        out = torch.empty_like(t)
        text = size(large) + ("" if large == small else " and " + size(small))
        b.compare(f"{d} {text}", op, [x, y, *extra, b.empty(d, large)], lambda: function(t, u, out=out), layer=layer,
                  bytes=d.size * (2 * x.size + y.size))


@case("Add", goal=1.0)
def add(b):
    binary(b, "aclnnAdd", torch.add, ADDED, b.acl.Scalar(1.0, F32))


@case("Mul", goal=1.0)
def mul(b):
    binary(b, "aclnnMul", torch.mul, MULTIPLIED)


@case("Div", goal=1.0)
def div(b):
    binary(b, "aclnnDiv", torch.div, (("CLIP ViT-B/32 unit vectors", F32, (64, 512), (64, 1)),
                                      ("ImageNet deviations", F32, (8, 3, 224, 224), (3, 1, 1)),
                                      ("Adam of BERT-base, mlp weight", F32, (3072, 768), (3072, 768))))


@case("Sub", goal=1.0)
def sub(b):
    binary(b, "aclnnSub", torch.sub, (("ImageNet means", F32, (8, 3, 224, 224), (3, 1, 1)),), b.acl.Scalar(1.0, F32))


@case("Muls", goal=1.0)
def scaled(b):
    for layer, d, shape in (("BERT-base attention scale", F32, (8, 12, 128, 128)),
                            ("GPT-2 query scale, one token", F32, (1, 12, 64)),
                            ("ResNet-50 layer4 weight decay", F32, (512, 512, 3, 3))):
        x = b.random(d, shape)
        t = b.torch(x)
        out = torch.empty_like(t)
        b.compare(f"{d} {size(shape)}", "aclnnMuls", [x, b.acl.Scalar(0.125, F32), b.empty(d, shape)],
                  lambda: torch.mul(t, 0.125, out=out), layer=layer, bytes=2 * d.size * x.size)


@case("Clamp", goal=1.0)
def clamp(b):
    for layer, d, shape in (("MobileNetV2 block 1, ReLU6", F32, (1, 96, 112, 112)),
                            ("MobileNetV2 block 17, ReLU6", F32, (1, 960, 7, 7)),
                            ("Faster R-CNN boxes", F32, (2000, 4))):
        x = b.random(d, shape, -4, 8)
        t = b.torch(x)
        out = torch.empty_like(t)
        b.compare(f"{d} {size(shape)}", "aclnnClamp",
                  [x, b.acl.Scalar(0.0, F32), b.acl.Scalar(6.0, F32), b.empty(d, shape)],
                  lambda: torch.clamp(t, 0, 6, out=out), layer=layer, bytes=2 * d.size * x.size)


@case("MaskedFill", goal=1.0)
def masked(b):
    for layer, shape, mask_shape in (("GPT-2 causal mask", (1, 12, 256, 256), (1, 1, 256, 256)),
                                     ("BERT-base padding", (8, 12, 128, 128), (8, 1, 1, 128))):
        x, mask = b.random(F32, shape), b.of(BOOL, b.rng.random(mask_shape) < 0.5)
        t, m = b.torch(x), b.torch(mask)
        b.compare(f"f32 {size(shape)}", "aclnnInplaceMaskedFillScalar", [x, mask, b.acl.Scalar(-1e4, F32)],
                  lambda: t.masked_fill_(m, -1e4), layer=layer, bytes=8 * x.size)


@case("Normal", goal=1.0)
def normal(b):
    for layer, shape in (("Stable Diffusion latents", (1, 4, 64, 64)), ("DDPM noise, batch 16", (16, 3, 32, 32)),
                         ("StyleGAN2 noise", (1, 1, 256, 256))):
        x = b.empty(F32, shape)
        t = b.torch(x)
        ct = b.acl.ct
        b.compare(f"f32 {size(shape)}", "aclnnInplaceNormal",
                  [x, ct.c_float(0), ct.c_float(1), ct.c_int64(7), ct.c_int64(0)],
                  lambda: t.normal_(), layer=layer, bytes=4 * x.size)
    for layer, shape in (("BERT-base hidden dropout", (8, 128, 768)),):
        x = b.random(F32, shape)
        t, o = b.torch(x), torch.empty(shape)
        ct = b.acl.ct
        b.compare(f"uniform f32 {size(shape)}", "aclnnInplaceUniform",
                  [x, ct.c_double(0), ct.c_double(1), ct.c_uint64(7), ct.c_uint64(0)],
                  lambda: o.uniform_(), layer=layer, bytes=4 * x.size)
