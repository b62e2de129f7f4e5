/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/gears.h"

#include <stdio.h>
#include <string.h>

void gears_apply(const model_gears *g, int gear, onnx_shape *inputs, int n) {
  const int64_t *numbers = g->numbers + gear * g->n_numbers;
  int next = 0;
  for (int i = 0; i < n; ++i) {
    int in_this = 0;
    for (int d = 0; d < inputs[i].n_dims; ++d) {
      if (inputs[i].dims[d] >= 0) continue;
      const int which = g->kind == GEARS_BATCH ? 0 : g->kind == GEARS_IMAGE ? in_this++ : next++;
      if (which < g->n_numbers) inputs[i].dims[d] = numbers[which];
    }
  }
}

status gears_check(const model_gears *g, const onnx_shape *inputs, int n) {
  int all = 0;
  for (int i = 0; i < n; ++i) {
    int open = 0;
    for (int d = 0; d < inputs[i].n_dims; ++d) open += inputs[i].dims[d] < 0;
    if (g->kind == GEARS_BATCH && open && (open > 1 || inputs[i].dims[0] >= 0))
      return fail(ST_INVALID_PARAM, "input %s has another open dimension than the first, which batch sizes are for",
                  inputs[i].name);
    if (g->kind == GEARS_IMAGE && open && open != 2)
      return fail(ST_INVALID_PARAM, "input %s has %d open dimensions, expected 2, for height and width", inputs[i].name,
                  open);
    all += open;
  }
  if (!all) return fail(ST_INVALID_PARAM, "no input has an open dimension (-1), which gears are for");
  if (g->kind == GEARS_DIMS && all != g->n_numbers)
    return fail(ST_INVALID_PARAM, "a gear has %d numbers, expected %d, one for each open dimension", g->n_numbers, all);
  return ST_OK;
}

int gears_largest(const model_gears *g) {
  int largest = 0;
  double most = -1;
  for (int i = 0; i < g->n; ++i) {
    double product = 1;
    for (int k = 0; k < g->n_numbers; ++k) product *= (double)g->numbers[i * g->n_numbers + k];
    if (product > most) most = product, largest = i;
  }
  return largest;
}

/* "1,2; 4,4; ..." */
static void gears_text(const int64_t *numbers, int n, int n_numbers, char *text, size_t bytes) {
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < n * n_numbers && at < bytes; ++i) {
    const char *before = !i ? "" : i % n_numbers ? "," : "; ";
    at += (size_t)snprintf(text + at, bytes - at, "%s%jd", before, (intmax_t)numbers[i]);
  }
}

status gears_find(const model_gears *g, const int64_t *numbers, int *gear) {
  for (int i = 0; i < g->n; ++i) {
    if (memcmp(numbers, g->numbers + i * g->n_numbers, (size_t)g->n_numbers * sizeof *numbers) != 0) continue;
    *gear = i;
    return ST_OK;
  }
  char given[100], known[300];
  gears_text(numbers, 1, g->n_numbers, given, sizeof given);
  gears_text(g->numbers, g->n, g->n_numbers, known, sizeof known);
  return fail(ST_MODEL_GEAR, "the model has no gear %s; it was made for %s", given, known);
}
