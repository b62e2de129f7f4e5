#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model of Llama's shape with random weights as a GGUF file, for llama.cpp's benchmark (docs/llama_cpp.md).

    make_model.py [--layers 18] [--width 1536] [--heads 24] [--inner 4096] [--words 32000] [--type f32|f16] FILE.gguf

It has no vocabulary, so it can be timed only. Needs NumPy and PyPI's package gguf.
"""
import argparse
import os
import sys

import gguf
import numpy


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 18), ("width", 1536), ("heads", 24), ("inner", 4096), ("words", 32000)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--type", choices=("f32", "f16"), default="f32", help="of the matrices")
    parser.add_argument("file")
    options = parser.parse_args()
    if options.width % options.heads:
        parser.error(f"--width {options.width} is no multiple of --heads {options.heads}")
    if os.path.exists(options.file):
        parser.error(f"{options.file} exists; it is not overwritten")
    return options


def add_settings(writer, options):
    writer.add_context_length(4096)
    writer.add_embedding_length(options.width)
    writer.add_block_count(options.layers)
    writer.add_feed_forward_length(options.inner)
    writer.add_head_count(options.heads)
    writer.add_head_count_kv(options.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(options.width // options.heads)
    writer.add_vocab_size(options.words)
    writer.add_tokenizer_model("no_vocab")


def add_weights(writer, options):
    random = numpy.random.default_rng(1)
    dtype = numpy.float32 if options.type == "f32" else numpy.float16

    def matrix(name, rows, columns):
        scale = numpy.float32(columns**-0.5)
        values = random.standard_normal((rows, columns), numpy.float32) * scale
        writer.add_tensor(name + ".weight", values.astype(dtype))

    def norm(name):
        writer.add_tensor(name + ".weight", numpy.ones(options.width, numpy.float32))

    matrix("token_embd", options.words, options.width)
    norm("output_norm")
    for layer in range(options.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(block + part, options.width, options.width)
        norm(block + "ffn_norm")
        matrix(block + "ffn_gate", options.inner, options.width)
        matrix(block + "ffn_up", options.inner, options.width)
        matrix(block + "ffn_down", options.width, options.inner)


def main():
    options = arguments()
    writer = gguf.GGUFWriter(options.file, "llama", use_temp_file=True)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32 if options.type == "f32" else gguf.LlamaFileType.MOSTLY_F16)
    add_settings(writer, options)
    add_weights(writer, options)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    sys.exit(main())
