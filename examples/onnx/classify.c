/* SPDX-License-Identifier: Apache-2.0 */
/* Reads handwritten digits with a model that atc has made, in batches, as Ascend's samples do: the program knows
 * nothing of the network but that it has one input and one output.
 *
 *   classify digits.om images.bin labels.bin
 *
 * Exits with 0 if more than 96 % of the digits are read right. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

enum { N_PIXELS = 64, N_CLASSES = 10, BATCH = 60 };
static const double WANTED_PERCENT = 96;

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    const aclError error_ = (call);                                                                                    \
    if (error_ != ACL_SUCCESS) {                                                                                       \
      const char *words_ = aclGetRecentErrMsg();                                                                       \
      fprintf(stderr, "%s failed with %d: %s\n", #call, error_, words_ ? words_ : "");                                 \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* A buffer in device memory for an input or an output, in a dataset of its own kind. */
static void *add_buffer(aclmdlDataset *dataset, size_t bytes) {
  void *device = NULL;
  CHECK(aclrtMalloc(&device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclmdlAddDatasetBuffer(dataset, aclCreateDataBuffer(device, bytes)));
  return device;
}

static void free_dataset(aclmdlDataset *dataset) {
  for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
    aclDataBuffer *buffer = aclmdlGetDatasetBuffer(dataset, i);
    CHECK(aclrtFree(aclGetDataBufferAddr(buffer)));
    CHECK(aclDestroyDataBuffer(buffer));
  }
  CHECK(aclmdlDestroyDataset(dataset));
}

static void *read_file(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END)) {
    perror(path);
    exit(1);
  }
  *bytes = (size_t)ftell(f);
  rewind(f);
  void *data = malloc(*bytes);
  if (!data || fread(data, 1, *bytes, f) != *bytes) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(1);
  }
  fclose(f);
  return data;
}

static int largest(const float *scores) {
  int best = 0;
  for (int i = 1; i < N_CLASSES; ++i)
    if (scores[i] > scores[best]) best = i;
  return best;
}

/* Classifies all images, a batch at a time. Returns how many are read right. */
static size_t classify(uint32_t model, const float *images, const uint8_t *labels, size_t n) {
  static float scores[BATCH * N_CLASSES];
  size_t gear_input, right = 0;
  aclmdlDesc *desc = aclmdlCreateDesc();
  aclmdlDataset *input = aclmdlCreateDataset(), *output = aclmdlCreateDataset();
  CHECK(aclmdlGetDesc(desc, model));
  void *device_images = add_buffer(input, aclmdlGetInputSizeByIndex(desc, 0));
  add_buffer(input, aclmdlGetInputSizeByIndex(desc, 1)); /* by which the model is told the size of the batch */
  void *device_scores = add_buffer(output, aclmdlGetOutputSizeByIndex(desc, 0));
  CHECK(aclmdlGetInputIndexByName(desc, ACL_DYNAMIC_TENSOR_NAME, &gear_input));
  for (size_t first = 0, batch; first < n; first += batch) {
    batch = n - first < BATCH ? 1 : BATCH; /* the gears that the model has */
    const size_t bytes = batch * N_PIXELS * sizeof *images;
    CHECK(aclmdlSetDynamicBatchSize(model, input, gear_input, batch));
    CHECK(aclrtMemcpy(device_images, bytes, images + first * N_PIXELS, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclmdlExecute(model, input, output));
    CHECK(aclrtMemcpy(scores, sizeof scores, device_scores, batch * N_CLASSES * sizeof *scores,
                      ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < batch; ++i) right += largest(scores + i * N_CLASSES) == labels[first + i];
  }
  free_dataset(input);
  free_dataset(output);
  CHECK(aclmdlDestroyDesc(desc));
  return right;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: classify digits.om images.bin labels.bin\n");
    return 2;
  }
  size_t bytes, n;
  uint32_t model;
  float *images = read_file(argv[2], &bytes);
  uint8_t *labels = read_file(argv[3], &n);
  if (bytes != n * N_PIXELS * sizeof *images) {
    fprintf(stderr, "%s has %zu bytes, expected %zu\n", argv[2], bytes, n * N_PIXELS * sizeof *images);
    return 1;
  }
  CHECK(aclInit(NULL));
  CHECK(aclrtSetDevice(0));
  CHECK(aclmdlLoadFromFile(argv[1], &model));
  const double percent = 100.0 * (double)classify(model, images, labels, n) / (double)n;
  CHECK(aclmdlUnload(model));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  free(images);
  free(labels);
  printf("read right: %.2f %% of %zu held-out digits (wanted: more than %.0f %%)\n", percent, n, WANTED_PERCENT);
  return percent > WANTED_PERCENT ? 0 : 1;
}
