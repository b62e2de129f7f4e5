/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass/pass.h"

#include <strings.h>

const pass passes[] = {
    {"QuantDequantFusionPass", pass_qdq},
    {"CommonSubexpressionEliminationPass", pass_common_subexpressions},
    {"LayerNormONNXFusionPass", pass_layer_norm},
    {"RmsNormFusionPass", pass_rms_norm},
    {"GeluFusionPass", pass_gelu},
    {"SwishFusionPass", pass_swish},
    {"HardSwishFusionPass", pass_hard_swish},
    {"FlashAttentionFusionPass", pass_attention},
    {"ConvBatchnormFusionPass", pass_conv_batch_norm},
    {"AABiasaddConvFusion", pass_conv_scale},
    {"HalfPrecisionPass", pass_half},
    {"QuantizedScaleFusionPass", pass_int8},
    {"TbeConvCommonRules2FusionPass", pass_conv_epilogue},
    {"MatMulBiasAddFusionPass", pass_product_epilogue},
    {"BatchnormScalePass", pass_batch_norm},
    {"ElementwiseFusionPass", pass_elementwise},
    {"ZConcatDFusionPass", pass_concat},
    {"InPlacePass", pass_in_place},
};
const int n_passes = sizeof passes / sizeof *passes;

_Static_assert(sizeof passes / sizeof *passes <= PASSES_MOST, "the passes fit a set");

int pass_find(const char *name) {
  for (int i = 0; i < n_passes; ++i)
    if (strcasecmp(passes[i].name, name) == 0) return i;
  return -1;
}

status pass_all(ir_graph *g, pass_set off, pass_report *report) {
  int n;
  g->name = g->origin = NULL;
  if (report) *report = (pass_report){0};
  TRY(pass_dead_nodes(g, &n)); /* passes ask who reads a value */
  ir_drop_unused(g);
  for (int i = 0; i < n_passes; ++i) {
    if (off >> i & 1) continue;
    TRY(passes[i].run(g, &n));
    ir_drop_unused(g);
    if (report) report->n_matches[i] = n;
  }
  TRY(pass_outputs(g));
  return pass_dead_nodes(g, &n);
}
