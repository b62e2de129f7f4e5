/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of ONNX models and .om files. Each is refused with a message, or becomes a program that can be run: no read
 * outside of the file, no node with wrong shapes. LLVMFuzzerTestOneInput is libFuzzer's entry point; without libFuzzer,
 * main() mutates a few seeds:
 *
 *   stress_fuzz_onnx [INPUTS] */
#include "fuzz.h"
#include "graph/model.h"
#include "graph/om.h"
#include "onnx_writer.h"

static long n_good; /* inputs that became programs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  model *m;
  const status st = model_load(data, size, NULL, NULL, MODEL_ON_HOST, NULL, &m);
  if (st == ST_OK) {
    model_unref(m);
    ++n_good;
  } else {
    HOLDS(fail_take()[0]); /* it has words */
  }
  return 0;
}

/* A model with shapes that are computed: Reshape, Slice, Concat, Resize and a convolution. */
static void write_other_model(written *model) {
  static const float weight[2 * 1 * 3 * 3] = {1, 2, 3}, scales[] = {1, 1, 2, 2};
  static const int64_t weight_dims[] = {2, 1, 3, 3}, four[] = {4}, one[] = {1}, shape[] = {1, 1, -1, 4}, start[] = {0},
                       end[] = {3}, axis[] = {2};
  written graph = {0};
  write_initialiser(&graph, "weight", WRITTEN_FLOAT, weight_dims, 4, weight, sizeof weight);
  write_initialiser(&graph, "shape", WRITTEN_INT64, four, 1, shape, sizeof shape);
  write_initialiser(&graph, "scales", WRITTEN_FLOAT, four, 1, scales, sizeof scales);
  write_initialiser(&graph, "start", WRITTEN_INT64, one, 1, start, sizeof start);
  write_initialiser(&graph, "end", WRITTEN_INT64, one, 1, end, sizeof end);
  write_initialiser(&graph, "axis", WRITTEN_INT64, one, 1, axis, sizeof axis);
  write_value(&graph, 11, "x", WRITTEN_FLOAT, (const int64_t[]){16}, 1);
  write_node(&graph, "a", "Reshape", (const char *const[]){"x", "shape", NULL}, "image");
  write_node(&graph, "b", "Resize", (const char *const[]){"image", "", "scales", NULL}, "large");
  write_node(&graph, "c", "Conv", (const char *const[]){"large", "weight", NULL}, "conv");
  write_node(&graph, "d", "Slice", (const char *const[]){"conv", "start", "end", "axis", NULL}, "cut");
  write_node(&graph, "e", "Softmax", (const char *const[]){"cut", NULL}, "y");
  write_value(&graph, 12, "y", WRITTEN_FLOAT, (const int64_t[]){1, 2, 3, 6}, 4);
  write_model(model, &graph);
}

int main(int argc, char **argv) {
  enum { MAX_BYTES = ONNX_WRITER_BYTES + 512 };
  static const char *const words[] = {"MatMul",
                                      "Add",
                                      "Conv",
                                      "Reshape",
                                      "Slice",
                                      "Concat",
                                      "Gather",
                                      "If",
                                      "Loop",
                                      "Expand",
                                      "Pad",
                                      "LSTM",
                                      "Einsum",
                                      "Resize",
                                      "x",
                                      "w",
                                      "\x08\x01",
                                      "\x12\x04",
                                      "\x80\x80\x80\x80\x08",
                                      NULL};
  const long n = argc > 1 ? atol(argv[1]) : 1000;
  static written seeds[2];
  static char om_bytes[MAX_BYTES], text[MAX_BYTES];
  onnx_shape shape = {.name = "x", .n_dims = 2, .dims = {-1, 2}};
  int64_t batches[] = {1, 4};
  const model_gears gears = {.kind = GEARS_BATCH, .n = 2, .n_numbers = 1, .numbers = batches};
  void *om;
  size_t om_size;
  write_small_model(&seeds[0], -1);
  write_other_model(&seeds[1]);
  const om_contents contents = {
      .onnx = seeds[0].bytes, .onnx_bytes = seeds[0].n, .shapes = &shape, .n_shapes = 1, .gears = gears};
  HOLDS(om_write("small", &contents, &om, &om_size) == ST_OK && om_size <= MAX_BYTES);
  memcpy(om_bytes, om, om_size);
  free(om);
  for (long i = 0; i < n; ++i) {
    const uint32_t kind = fuzz_below(3);
    size_t size = kind < 2 ? seeds[kind].n : om_size;
    memcpy(text, kind < 2 ? seeds[kind].bytes : om_bytes, size);
    for (uint32_t k = i < 3 ? 0 : 1 + fuzz_below(4); k; --k) size = fuzz_mutate(text, size, sizeof text, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
  }
  HOLDS(n_good > n / 50); /* else only the reader is tested */
  return 0;
}
