/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of cells.h, compiled once per instruction set level. */
#include "kernel/recurrent/cells.h"

#include "kernel/engine/level.h"
#include "kernel/engine/vmath/vmath.h"

static void cell_lstm(float *const gate[LSTM_GATES], float forget_bias, float *restrict c, float *restrict tanh_c,
                      float *restrict h, int64_t n) {
  float *restrict i = gate[LSTM_I], *restrict j = gate[LSTM_J], *restrict f = gate[LSTM_F], *restrict o = gate[LSTM_O];
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) i[k] = vsigmoid_f32(i[k]);
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) j[k] = vtanh_f32(j[k]);
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) f[k] = vsigmoid_f32(f[k] + forget_bias);
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) o[k] = vsigmoid_f32(o[k]);
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    c[k] = f[k] * c[k] + i[k] * j[k];
    tanh_c[k] = vtanh_f32(c[k]);
    h[k] = o[k] * tanh_c[k];
  }
}

static void cell_lstm_grad(const float *const gate[LSTM_GATES], const float *restrict tanh_c, const float *restrict c,
                           const float *restrict dh, float *restrict dc, float *const d_gate[LSTM_GATES], int64_t n) {
  const float *restrict i = gate[LSTM_I], *restrict j = gate[LSTM_J], *restrict f = gate[LSTM_F],
                        *restrict o = gate[LSTM_O];
  float *restrict di = d_gate[LSTM_I], *restrict dj = d_gate[LSTM_J], *restrict df = d_gate[LSTM_F],
                  *restrict dout = d_gate[LSTM_O];
  INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const float d = dc[k] + dh[k] * o[k] * (1 - tanh_c[k] * tanh_c[k]);
    di[k] = d * j[k] * i[k] * (1 - i[k]);
    dj[k] = d * i[k] * (1 - j[k] * j[k]);
    df[k] = d * c[k] * f[k] * (1 - f[k]);
    dout[k] = dh[k] * tanh_c[k] * o[k] * (1 - o[k]);
    dc[k] = d * f[k];
  }
}

static void cell_gru(float *const gate[GRU_GATES], const float *const from_h[GRU_GATES], float *restrict h,
                     int64_t count) {
  float *restrict r = gate[GRU_R], *restrict z = gate[GRU_Z], *restrict n = gate[GRU_N];
  const float *restrict hr = from_h[GRU_R], *restrict hz = from_h[GRU_Z], *restrict hn = from_h[GRU_N];
  INDEPENDENT
  for (int64_t k = 0; k < count; ++k) r[k] = vsigmoid_f32(r[k] + hr[k]);
  INDEPENDENT
  for (int64_t k = 0; k < count; ++k) z[k] = vsigmoid_f32(z[k] + hz[k]);
  INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    n[k] = vtanh_f32(n[k] + r[k] * hn[k]);
    h[k] = n[k] + z[k] * (h[k] - n[k]);
  }
}

static void cell_gru_grad(const float *const gate[GRU_GATES], const float *restrict n_from_h, const float *restrict h,
                          float *restrict dh, float *const d_gate[GRU_GATES], float *restrict dn_from_h,
                          int64_t count) {
  const float *restrict r = gate[GRU_R], *restrict z = gate[GRU_Z], *restrict n = gate[GRU_N];
  float *restrict dr = d_gate[GRU_R], *restrict dz = d_gate[GRU_Z], *restrict dn = d_gate[GRU_N];
  INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    const float d = dh[k] * (1 - z[k]) * (1 - n[k] * n[k]);
    dz[k] = dh[k] * (h[k] - n[k]) * z[k] * (1 - z[k]);
    dr[k] = d * n_from_h[k] * r[k] * (1 - r[k]);
    dn[k] = d;
    dn_from_h[k] = d * r[k];
    dh[k] *= z[k];
  }
}

static void cell_blend(float *restrict to, const float *restrict old, const float *restrict mask, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] = old[k] + mask[k] * (to[k] - old[k]);
}

static void cell_multiply(float *restrict to, const float *restrict x, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] *= x[k];
}

static void cell_add(float *restrict to, const float *restrict x, int64_t n) {
  for (int64_t k = 0; k < n; ++k) to[k] += x[k];
}

const cell_loops LEVELED(cell_loops) = {.lstm = cell_lstm,
                                        .lstm_grad = cell_lstm_grad,
                                        .gru = cell_gru,
                                        .gru_grad = cell_gru_grad,
                                        .blend = cell_blend,
                                        .multiply = cell_multiply,
                                        .add = cell_add};
