/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/conv/epilogue.h"

#include "kernel/engine/rows.h"

enum { CHUNK = 512 };

/* Adds the residuals of n outputs. */
static void add_residual(const conv_store *s, const char *to, int64_t stride, float *sums, int64_t n) {
  _Alignas(64) float more[CHUNK];
  static const compute_value one = {.f32 = 1};
  const char *const from = to + s->residual;
  const void *read = from;
  if (s->dtype != ACL_FLOAT || stride != (int64_t)sizeof(float)) {
    loops->load[s->dtype][COMPUTE_F32](more, from, stride, n);
    read = more;
  }
  loops->elementwise[EW_add][COMPUTE_F32](sums, (const void *const[]){sums, read, sums}, &one, n);
}

void conv_finish(const conv_store *s, const char *to, int64_t stride, float *sums, int64_t n) {
  const conv_epilogue *e = s->epilogue;
  if (!e->has_residual) {
    activation_run(&e->activation, COMPUTE_F32, sums, n);
    return;
  }
  for (int64_t i = 0, m; i < n; i += m) {
    m = i64_min(CHUNK, n - i);
    if (e->residual_first) add_residual(s, to + i * stride, stride, sums + i, m);
    activation_run(&e->activation, COMPUTE_F32, sums + i, m);
    if (!e->residual_first) add_residual(s, to + i * stride, stride, sums + i, m);
  }
}

double conv_finish_one(const conv_store *s, const char *to, double sum) {
  const conv_epilogue *e = s->epilogue;
  double residual = 0;
  if (!e) return sum;
  if (e->has_residual) loops->load[s->dtype][COMPUTE_F64](&residual, to + s->residual, 0, 1);
  if (e->residual_first) sum += residual;
  activation_run(&e->activation, COMPUTE_F64, &sum, 1);
  return e->residual_first ? sum : sum + residual;
}

void conv_finish_stored(const conv_store *s, char *to, int64_t stride, int64_t n) {
  _Alignas(64) float sums[CHUNK];
  if (s->dtype == ACL_FLOAT && stride == (int64_t)sizeof(float)) {
    conv_finish(s, to, stride, (float *)(void *)to, n);
    return;
  }
  for (int64_t i = 0, m; i < n; i += m, to += m * stride) {
    m = i64_min(CHUNK, n - i);
    loops->load[s->dtype][COMPUTE_F32](sums, to, stride, m);
    conv_store_run(s, to, stride, sums, m);
  }
}

void conv_finish_plane(const conv_store *s, char *to, const int64_t *axis, const int64_t *n) {
  if (axis[1] == n[2] * axis[2] && axis[0] == n[1] * axis[1]) {
    conv_finish_stored(s, to, axis[2], conv_volume(n));
    return;
  }
  for (int64_t d = 0; d < n[0]; ++d)
    for (int64_t h = 0; h < n[1]; ++h) conv_finish_stored(s, to + d * axis[0] + h * axis[1], axis[2], n[2]);
}
