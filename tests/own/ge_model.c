/* SPDX-License-Identifier: Apache-2.0 */
/* The small model, for ge_onnx.cpp. */
#include "onnx_writer.h"

size_t ge_small_model(char *to);

size_t ge_small_model(char *to) {
  written model = {0};
  write_small_model(&model, -1);
  memcpy(to, model.bytes, model.n);
  return model.n;
}
