/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/pass.h"

const pass passes[] = {
    {"ConvBatchnormFusionPass", pass_conv_batch_norm},
    {"AABiasaddConvFusion", pass_conv_scale},
    {"TbeConvCommonRules2FusionPass", pass_conv_epilogue},
    {"MatMulBiasAddFusionPass", pass_product_epilogue},
};
const int n_passes = sizeof passes / sizeof *passes;

status pass_all(ir_graph *g) {
  int n;
  g->name = g->origin = NULL;
  for (int i = 0; i < n_passes; ++i) TRY(passes[i].run(g, &n));
  TRY(pass_outputs(g));
  return pass_dead_nodes(g, &n);
}
