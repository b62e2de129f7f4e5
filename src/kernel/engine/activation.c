/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/engine/activation.h"

#include "kernel/engine/loops.h"

void activation_run(const activation *a, compute_type compute, void *x, int64_t n) {
  static const int16_t function[N_ACTIVATIONS] = {[ACTIVATION_RELU] = EW_relu,
                                                  [ACTIVATION_GELU] = EW_gelu,
                                                  [ACTIVATION_GELU_TANH] = EW_gelu_tanh,
                                                  [ACTIVATION_SILU] = EW_silu,
                                                  [ACTIVATION_SIGMOID] = EW_sigmoid,
                                                  [ACTIVATION_TANH] = EW_tanh,
                                                  [ACTIVATION_CLAMP] = EW_hardtanh,
                                                  [ACTIVATION_LEAKY_RELU] = EW_leaky_relu,
                                                  [ACTIVATION_HARD_SIGMOID] = EW_hard_gate,
                                                  [ACTIVATION_HARD_SWISH] = EW_hard_gated};
  compute_value parameter[ELEMENTWISE_PARAMETERS] = {{0}};
  if (a->function == ACTIVATION_NONE) return;
  for (int i = 0; i < 2; ++i)
    if (compute == COMPUTE_F64)
      parameter[i].f64 = (double)a->parameter[i];
    else
      parameter[i].f32 = a->parameter[i];
  loops->elementwise[function[a->function]][compute](x, (const void *const[]){x, x, x}, parameter, n);
}
