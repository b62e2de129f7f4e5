/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz test of ONNX models, .om files and configurations of AIPP. Each is refused with a message, or is a good one: a
 * model becomes a program that can be run, with no read outside of the file and no node with wrong shapes.
 * LLVMFuzzerTestOneInput is libFuzzer's entry point; without libFuzzer, main() mutates a few seeds:
 *
 *   stress_fuzz_onnx [INPUTS] */
#include <cjson/cJSON.h>

#include "cli/atc/atc_json.h"
#include "fuzz.h"
#include "graph/file/model_def.h"
#include "graph/file/om.h"
#include "onnx_writer.h"

static long n_good; /* inputs that became programs */

static long n_described; /* .om files whose graph became JSON */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What `atc --mode=1` does with a file: the description of its graph becomes JSON, or is refused. */
static void look_into(const uint8_t *data, size_t size) {
  const void *def;
  uint64_t bytes;
  char *text = NULL;
  size_t n;
  if (!om_is(data, size) || om_find(data, size, OM_MODEL_DEF, &def, &bytes) || !bytes) return;
  FILE *f = open_memstream(&text, &n);
  const bool whole = atc_json_write(f, def, bytes);
  HOLDS(fclose(f) == 0);
  if (whole) {
    cJSON *json = cJSON_Parse(text);
    HOLDS(json);
    cJSON_Delete(json);
    ++n_described;
  }
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  model *m;
  look_into(data, size);
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

/* A node with an attribute: integers, or one if n is 0. */
static void write_rare_node(written *graph, const char *op, const char *domain, const char *const *inputs,
                            const char *output, const char *attribute, const int64_t *integers, int n) {
  enum { INT = 2, INTS = 7 };
  written node = {0}, a = {0};
  for (; *inputs; ++inputs) write_text(&node, 1, *inputs);
  write_text(&node, 2, output);
  write_text(&node, 4, op);
  write_text(&node, 7, domain);
  write_text(&a, 1, attribute);
  for (int i = 0; i < (n ? n : 1); ++i) write_int(&a, n ? 8 : 3, integers[i]);
  write_int(&a, 20, n ? INTS : INT);
  write_message(&node, 5, &a);
  write_message(graph, 1, &node);
}

/* A model with types of 4 and 8 bits, a quantised LSTM, a deformed convolution and a pooling of regions. */
static void write_rare_model(written *model) {
  static const uint8_t bytes[64] = {0x21, 0x43, 0x98, 0x7f};
  static const float numbers[32] = {0.5f, 0, 0, 2, 2};
  static const int64_t weight[] = {1, 1, 2, 2}, w[] = {1, 2, 8}, one[] = {1}, two[] = {2}, roi[] = {1, 5},
                       offset[] = {1, 8, 1, 2}, shape[] = {1, 1, 2}, image[] = {1, 1, 2, 3}, e4m3 = 17;
  enum { UINT8 = 2, INT4 = 22 };
  written graph = {0};
  write_initialiser(&graph, "weight4", INT4, weight, 4, bytes, 2);
  write_initialiser(&graph, "scale", WRITTEN_FLOAT, NULL, 0, numbers, 4);
  write_initialiser(&graph, "w", UINT8, w, 3, bytes, 16);
  write_initialiser(&graph, "scales", WRITTEN_FLOAT, one, 1, numbers, 4);
  write_initialiser(&graph, "zeros", UINT8, one, 1, bytes, 1);
  write_initialiser(&graph, "offset", WRITTEN_FLOAT, offset, 4, numbers, 64);
  write_initialiser(&graph, "rois", WRITTEN_FLOAT, roi, 2, numbers, 20);
  write_initialiser(&graph, "shape", WRITTEN_INT64, (const int64_t[]){3}, 1, shape, sizeof shape);
  write_value(&graph, 11, "x", WRITTEN_FLOAT, image, 4);
  write_node(&graph, "a", "DequantizeLinear", (const char *const[]){"weight4", "scale", NULL}, "weight");
  write_node(&graph, "b", "DeformConv", (const char *const[]){"x", "weight", "offset", NULL}, "conv");
  write_rare_node(&graph, "Cast", "", (const char *const[]){"conv", NULL}, "narrow", "to", &e4m3, 0);
  write_node(&graph, "c", "CastLike", (const char *const[]){"narrow", "scale", NULL}, "wide");
  write_node(&graph, "d", "Reshape", (const char *const[]){"wide", "shape", NULL}, "steps");
  write_rare_node(
      &graph, "DynamicQuantizeLSTM", "com.microsoft",
      (const char *const[]){"steps", "w", "w", "", "", "", "", "", "scales", "zeros", "scales", "zeros", NULL}, "lstm",
      "hidden_size", two, 0);
  write_rare_node(&graph, "MaxRoiPool", "", (const char *const[]){"x", "rois", NULL}, "y", "pooled_shape",
                  (const int64_t[]){2, 2}, 2);
  write_value(&graph, 12, "lstm", WRITTEN_FLOAT, (const int64_t[]){1, 1, 1, 2}, 4);
  write_value(&graph, 12, "y", WRITTEN_FLOAT, (const int64_t[]){1, 1, 2, 2}, 4);
  write_model(model, &graph);
}

/* An .om file with gears, a chosen output and type, passes that are off, and MODEL_DEF. */
static size_t write_om(const written *onnx, char *to, size_t room) {
  onnx_shape shape = {.name = "x", .n_dims = 2, .dims = {-1, 2}};
  int64_t batches[] = {1, 4};
  om_output outputs[] = {{"y", -1}, {"", ACL_FLOAT16}};
  om_contents contents = {.onnx = onnx->bytes,
                          .onnx_bytes = onnx->n,
                          .shapes = &shape,
                          .n_shapes = 1,
                          .gears = {.kind = GEARS_BATCH, .n = 2, .n_numbers = 1, .numbers = batches},
                          .outputs = outputs,
                          .n_outputs = 2,
                          .passes_off = 1};
  void *om, *def;
  size_t n;
  model *m;
  HOLDS(om_write("small", &contents, &om, &n) == ST_OK);
  HOLDS(model_load(om, n, NULL, NULL, MODEL_ON_HOST, NULL, &m) == ST_OK);
  HOLDS(model_def_write(m, &(model_def_facts){"small", "atc", "Ascend910B3"}, &def, &contents.model_def_bytes) ==
        ST_OK);
  contents.model_def = def;
  model_unref(m);
  free(om);
  HOLDS(om_write("small", &contents, &om, &n) == ST_OK && n <= room);
  memcpy(to, om, n);
  free(om);
  free(def);
  return n;
}

/* Configurations of AIPP: what is no good one has words. */
static void read_configurations(long n) {
  static const char seed[] = "aipp_op {\n aipp_mode: dynamic # how\n max_src_image_size: 600 related_input_rank: 1 }\n"
                             "aipp_op { input_format: RGB888_U8 crop: true mean_chn_0: 10, var_reci_chn_2: 0.5 }";
  static const char *const words[] = {"aipp_op", "{", "}", ":", "'", "\"", "#", "crop", "matrix_r2c2", "-70000", NULL};
  char text[sizeof seed + 256];
  aipp_config configs[AIPP_MOST];
  for (long i = 0; i < n; ++i) {
    size_t size = sizeof seed - 1;
    int count;
    memcpy(text, seed, size);
    for (uint32_t k = i ? 1 + fuzz_below(4) : 0; k; --k) size = fuzz_mutate(text, size, sizeof text - 1, words);
    text[size] = 0;
    char *const line = aipp_line(text);
    HOLDS(line && !strchr(line, '\n'));
    const status st = aipp_read(line, configs, &count);
    HOLDS(st == ST_OK ? count > 0 && count <= AIPP_MOST : i > 0 && fail_take()[0]);
    free(line);
  }
}

int main(int argc, char **argv) {
  enum { MAX_BYTES = ONNX_WRITER_BYTES + 2048, N_SEEDS = 4 };
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
                                      "Scan",
                                      "TfIdfVectorizer",
                                      "x",
                                      "w",
                                      "output\ty\t-1\n",
                                      "passes_off\t-\tALL\n",
                                      "\x08\x01",
                                      "\x12\x04",
                                      "\x80\x80\x80\x80\x08",
                                      NULL};
  const long n = argc > 1 ? atol(argv[1]) : 1000;
  static written seeds[3];
  static char om_bytes[MAX_BYTES], text[MAX_BYTES];
  write_small_model(&seeds[0], -1);
  write_other_model(&seeds[1]);
  write_rare_model(&seeds[2]);
  const size_t om_size = write_om(&seeds[0], om_bytes, sizeof om_bytes);
  for (long i = 0; i < n; ++i) {
    const uint32_t kind = i < N_SEEDS ? (uint32_t)i : fuzz_below(N_SEEDS);
    size_t size = kind < 3 ? seeds[kind].n : om_size;
    memcpy(text, kind < 3 ? seeds[kind].bytes : om_bytes, size);
    for (uint32_t k = i < N_SEEDS ? 0 : 1 + fuzz_below(4); k; --k) size = fuzz_mutate(text, size, sizeof text, words);
    LLVMFuzzerTestOneInput((const uint8_t *)text, size);
    if (i < N_SEEDS) HOLDS(n_good == i + 1);
  }
  read_configurations(n);
  HOLDS(n_good > n / 50 && n_described > n / 50); /* else only the reader is tested */
  return 0;
}
